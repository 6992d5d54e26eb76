//! Descriptors that become readable when a process or a thread ends.

use std::os::fd::FromRawFd;
use std::os::fd::OwnedFd;

use super::Refused;
use crate::units::Pid;
use crate::units::Tid;

/// `PIDFD_THREAD` of `include/uapi/linux/pidfd.h`, since Linux 6.9.
const PIDFD_THREAD: u32 = libc::O_EXCL.cast_unsigned();

/// Watches a process, since Linux 5.3.
///
/// # Errors
///
/// What `pidfd_open(2)` says: `ESRCH` where the process is gone, `ENOSYS` on older kernels.
pub fn of_process(pid: Pid) -> Result<OwnedFd, Refused> {
    open(pid.0, 0)
}

/// Watches a thread, since Linux 6.9.
///
/// # Errors
///
/// What `pidfd_open(2)` says: `ESRCH` where the thread is gone, `EINVAL` on older kernels.
pub fn of_thread(tid: Tid) -> Result<OwnedFd, Refused> {
    open(tid.0, PIDFD_THREAD)
}

fn open(id: i32, flags: u32) -> Result<OwnedFd, Refused> {
    // SAFETY: both arguments are plain integers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, id, flags) };
    let fd = i32::try_from(fd).unwrap_or(-1);
    if fd < 0 {
        return Err(Refused::last("watch a process"));
    }
    // SAFETY: the call succeeded, so `fd` is open, and nothing else has seen it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use nix::errno::Errno;

    use super::*;

    #[test]
    fn a_process_that_never_was_is_gone() {
        let refused = of_process(Pid(i32::MAX)).map(|_| ()).unwrap_err();
        assert!(matches!(refused.errno, Errno::ESRCH | Errno::ENOSYS));
    }
}
