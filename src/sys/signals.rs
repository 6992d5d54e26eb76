//! The signals that end a recording, or one of its files, as a descriptor to poll.

use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;

use nix::sys::signal::SigHandler;
use nix::sys::signal::SigSet;
use nix::sys::signal::Signal;
use nix::sys::signal::signal;
use nix::sys::signalfd::SfdFlags;
use nix::sys::signalfd::SignalFd;

use super::Refused;

/// `SIGINT`, `SIGTERM`, `SIGHUP`, `SIGUSR2` and `SIGCHLD`, blocked and read from a descriptor.
///
/// To be created before any other thread, which inherits the mask, and before the workload, which
/// gets the old one back. Dropping it unblocks them.
///
/// A shell script starts what it puts into the background with `SIGINT` ignored, and an ignored
/// signal is never read. A recording that cannot be ended is of no use, so that one is taken all
/// the same; `SIGHUP` is not, for the sake of nohup(1). Where `SIGCHLD` is ignored, a child that ends
/// is neither told of nor waited for (waitpid(2)), so that is undone, too.
#[derive(Debug)]
pub struct Signals {
    fd: SignalFd,
    before: Before,
}

/// The state of the signals before, for whoever is to run as if we were not there.
#[derive(Clone, Copy, Debug)]
pub struct Before {
    /// The mask.
    pub mask: SigSet,
    /// Whether `SIGINT` was ignored.
    pub ignores_interrupt: bool,
    /// Whether `SIGCHLD` was ignored.
    pub ignores_children: bool,
}

/// One signal that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// A child changed its state.
    Child,
    /// Somebody wants what was recorded up to here in a file of its own: `SIGUSR2`.
    Switch,
    /// Somebody wants the recording to end.
    Stop(Signal),
}

impl Signals {
    /// Blocks the signals for this thread and opens the descriptor.
    ///
    /// # Errors
    ///
    /// What signalfd(2) or sigprocmask(2) say.
    pub fn block() -> Result<Self, Refused> {
        let call = |errno| Refused::new("take over the signals", errno);
        let mut mask = SigSet::empty();
        let ends = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
        for signal in ends.into_iter().chain([Signal::SIGUSR2, Signal::SIGCHLD]) {
            mask.add(signal);
        }
        let before_mask = SigSet::thread_get_mask().map_err(call)?;
        mask.thread_block().map_err(call)?;
        let was_ignored = |number| {
            // SAFETY: the default action is no handler, so nothing can run at a wrong time; blocked
            // as the signal is, it does not even come to that.
            let action = unsafe { signal(number, SigHandler::SigDfl) }.map_err(call)?;
            Ok(matches!(action, SigHandler::SigIgn))
        };
        let before = Before {
            mask: before_mask,
            ignores_interrupt: was_ignored(Signal::SIGINT)?,
            ignores_children: was_ignored(Signal::SIGCHLD)?,
        };
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let fd = SignalFd::with_flags(&mask, flags).map_err(call)?;
        Ok(Self { fd, before })
    }

    /// What was in force before.
    pub fn before(&self) -> Before {
        self.before
    }

    /// The next signal that came, if any.
    ///
    /// # Errors
    ///
    /// What read(2) says.
    pub fn next(&self) -> Result<Option<Came>, Refused> {
        let call = |errno| Refused::new("read a signal", errno);
        let Some(info) = self.fd.read_signal().map_err(call)? else { return Ok(None) };
        let number = i32::try_from(info.ssi_signo).unwrap_or_default();
        Ok(match Signal::try_from(number).map_err(call)? {
            Signal::SIGCHLD => Some(Came::Child),
            Signal::SIGUSR2 => Some(Came::Switch),
            signal => Some(Came::Stop(signal)),
        })
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // A refusal would leave the signals blocked in a process that is about to end.
        let _restored = self.before.mask.thread_set_mask();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_read_instead_of_ending_the_process() {
        let signals = Signals::block().unwrap();
        assert_eq!(signals.next(), Ok(None));
        // SAFETY: `raise` in a thread goes to that thread, which has blocked the signal.
        assert_eq!(unsafe { libc::raise(libc::SIGHUP) }, 0);
        assert_eq!(signals.next(), Ok(Some(Came::Stop(Signal::SIGHUP))));
        assert_eq!(signals.next(), Ok(None));
    }
}
