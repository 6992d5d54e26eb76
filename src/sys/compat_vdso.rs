//! The vDSO that the kernel maps into processes of 32 bits, for one of 64 bits to look at.

use std::fs::File;
use std::io::Read as _;
use std::ops::Range;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::sys::wait::waitpid;
use nix::unistd::ForkResult;
use nix::unistd::Pid;
use nix::unistd::pipe2;

use super::Refused;

/// A process of ours that has the vDSO of 32 bits in place of its own; it ends when dropped.
///
/// A process can have one vDSO, and this one's is in use: so a child gives its own up.
///
/// Source: `ARCH_MAP_VDSO_32` in `arch/x86/kernel/process_64.c`, of kernels with
/// `CONFIG_CHECKPOINT_RESTORE`; `map_vdso_once()` in `arch/x86/entry/vdso/vma.c`.
#[derive(Debug)]
pub struct CompatVdso {
    child: Pid,
}

impl CompatVdso {
    /// Makes the process; `own` are the ranges of this one's vDSO and of the data beside it.
    ///
    /// # Errors
    ///
    /// What pipe(2) and fork(2) say; `ENOSYS` where the kernel has no vDSO of 32 bits to give.
    pub fn fork(own: &[Range<u64>]) -> Result<Self, Refused> {
        let refused = |call| move |errno| Refused { call, errno };
        let (report, verdict) = pipe2(OFlag::O_CLOEXEC).map_err(refused("make a pipe"))?;
        // SAFETY: the child calls nothing but system calls by their numbers, which need no lock that
        // another thread may hold, and touches no memory that the unmapped ranges hold.
        match unsafe { nix::unistd::fork() }.map_err(refused("fork"))? {
            ForkResult::Child => give_up(own, &verdict),
            ForkResult::Parent { child } => {
                let this = Self { child };
                drop(verdict);
                let mut is_mapped = [0];
                let n_read = File::from(report).read(&mut is_mapped).unwrap_or(0);
                if n_read == 1 && is_mapped == [1] {
                    Ok(this)
                } else {
                    Err(Refused { call: "map the vDSO of 32 bits", errno: Errno::ENOSYS })
                }
            }
        }
    }

    /// Its number.
    pub fn pid(&self) -> i32 {
        self.child.as_raw()
    }
}

impl Drop for CompatVdso {
    fn drop(&mut self) {
        // It may have ended by itself, but stays ours until it is waited for.
        kill(self.child, Signal::SIGKILL).ok();
        waitpid(self.child, None).ok();
    }
}

/// What the child does: it never returns.
fn give_up(own: &[Range<u64>], verdict: &impl std::os::fd::AsRawFd) -> ! {
    // SAFETY: takes numbers alone. The child must not outlive whoever waits for it.
    unsafe { libc::syscall(libc::SYS_prctl, libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    for range in own {
        // SAFETY: the ranges are those of the vDSO and its data, which nothing here uses: no time is
        // asked for in this process any more.
        unsafe {
            libc::syscall(libc::SYS_munmap, range.start, range.end.wrapping_sub(range.start))
        };
    }
    let is_mapped = u8::from(map_compat());
    let fd = verdict.as_raw_fd();
    // SAFETY: the byte lives on this stack, and the descriptor is open.
    unsafe { libc::syscall(libc::SYS_write, fd, &raw const is_mapped, 1_usize) };
    loop {
        // SAFETY: takes nothing; waits for the signal that ends this process.
        unsafe { libc::pause() };
    }
}

#[cfg(target_arch = "x86_64")]
fn map_compat() -> bool {
    /// `ARCH_MAP_VDSO_32` of `arch/x86/include/uapi/asm/prctl.h`.
    const MAP_VDSO_32: libc::c_ulong = 0x2002;
    /// Where it should lie, if that is free.
    const AT: libc::c_ulong = 0x4000_0000;
    // SAFETY: takes numbers alone; maps new memory where nothing is.
    unsafe { libc::syscall(libc::SYS_arch_prctl, MAP_VDSO_32, AT) > 0 }
}

#[cfg(not(target_arch = "x86_64"))]
fn map_compat() -> bool {
    false
}
