//! Descriptors that were handed over by whoever started the program.

use std::os::fd::FromRawFd;
use std::os::fd::OwnedFd;

use super::Refused;

/// Another owner of the file behind the inherited descriptor `number`.
///
/// To be called before anything else is opened: a number that nobody handed over may then be that
/// of a file of our own.
///
/// # Errors
///
/// `EBADF` where nothing was handed over by that number.
pub fn inherited(number: i32) -> Result<OwnedFd, Refused> {
    // SAFETY: takes numbers only; a number of no open file is refused.
    let fd = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    if fd < 0 {
        return Err(Refused::last("use an inherited descriptor"));
    }
    // SAFETY: the call succeeded, so `fd` is open, and nothing else has seen it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use nix::errno::Errno;

    use super::*;

    #[test]
    fn a_descriptor_is_shared_and_one_that_is_not_open_is_refused() {
        let (ours, theirs) = nix::unistd::pipe().unwrap();
        let shared = inherited(theirs.as_raw_fd()).unwrap();
        drop(theirs);
        nix::unistd::write(&shared, b"x").unwrap();
        assert_eq!(nix::unistd::read(&ours, &mut [0; 4]), Ok(1));
        assert_eq!(inherited(1 << 30).unwrap_err().errno, Errno::EBADF);
    }
}
