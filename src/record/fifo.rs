//! A fifo that is recorded to: until somebody reads it the recorder waits, and can be ended.

use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::FcntlArg;
use nix::fcntl::OFlag;
use nix::fcntl::fcntl;
use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::poll;

use crate::sys::signals::Came;
use crate::sys::signals::Signals;

/// How long to wait for a reader before looking again, in milliseconds: nothing tells of one.
const LOOK_AGAIN_MS: u8 = 20;

/// Opens the fifo at `path` once somebody reads it; `None` where that is no fifo.
///
/// # Errors
///
/// The signal that came first, or what keeps it from being opened.
pub(super) fn open(path: &Path, signals: &Signals) -> io::Result<Option<File>> {
    if !fs::metadata(path).is_ok_and(|it| it.file_type().is_fifo()) {
        return Ok(None);
    }
    loop {
        // Else this would sleep until somebody reads, with the signals blocked that are to end it.
        let file = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(path);
        match file {
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => wait(signals)?,
            file => {
                let file = file?;
                let flags = OFlag::from_bits_retain(fcntl(&file, FcntlArg::F_GETFL)?);
                fcntl(&file, FcntlArg::F_SETFL(flags.difference(OFlag::O_NONBLOCK)))?;
                return Ok(Some(file));
            }
        }
    }
}

/// Waits a little, or for a signal, which is the error.
fn wait(signals: &Signals) -> io::Result<()> {
    let mut fds = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
    match poll(&mut fds, LOOK_AGAIN_MS) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(errno) => return Err(errno.into()),
    }
    while let Some(came) = signals.next().map_err(|it| it.errno)? {
        if let Came::Stop(signal) = came {
            return Err(io::Error::other(format!("{signal} came before anyone read it")));
        }
    }
    Ok(())
}
