//! A workload that waits at the door: forked, and held before exec until it is let go.

use std::ffi::CString;
use std::os::fd::AsRawFd;
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::resource::Resource;
use nix::sys::resource::setrlimit;
use nix::sys::signal::SigmaskHow;
use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::sys::wait::WaitPidFlag;
use nix::sys::wait::WaitStatus;
use nix::sys::wait::waitpid;
use nix::unistd::ForkResult;
use nix::unistd::pipe2;

use super::Refused;
use super::signals::Before;
use crate::units::Pid;

/// What the workload gets back of the state that the recorder changed for itself.
#[derive(Clone, Copy, Debug)]
pub struct Heritage {
    /// The signals.
    pub signals: Before,
    /// Where its standard output goes.
    pub stdout: Stdout,
    /// `RLIMIT_NOFILE`, soft and hard.
    pub open_files: Option<(u64, u64)>,
}

/// Where a workload writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdout {
    /// To the recorder's own standard output.
    Own,
    /// To standard error, since the recording itself goes to standard output.
    Stderr,
}

/// A workload before its exec. Dropped, it goes without having run.
#[derive(Debug)]
pub struct Held {
    workload: Workload,
    go: OwnedFd,
    report: OwnedFd,
}

/// A workload that runs, or has run. Whoever holds it waits for it.
#[derive(Debug)]
pub struct Workload {
    pid: nix::unistd::Pid,
    ended: Option<Ended>,
}

/// How a workload ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this status, 0 to 255.
    Exited(u8),
    /// By this signal.
    Killed(i32),
}

impl Ended {
    /// The status as a shell gives it: the workload's own, or 128 plus the signal.
    pub fn shell_status(self) -> u8 {
        match self {
            Self::Exited(status) => status,
            Self::Killed(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
        }
    }
}

impl Held {
    /// Forks a child that will become `command` (its name, then its arguments).
    ///
    /// # Errors
    ///
    /// What pipe(2) and fork(2) say; `ENOENT` for an empty command.
    pub fn fork(command: &[CString], heritage: Heritage) -> Result<Self, Refused> {
        let refused = |errno| Refused::new("start the workload", errno);
        let program = command.first().ok_or(refused(Errno::ENOENT))?;
        let (gate, go) = pipe2(OFlag::O_CLOEXEC).map_err(refused)?;
        let (report, verdict) = pipe2(OFlag::O_CLOEXEC).map_err(refused)?;
        // All memory that the child needs, since it must not allocate.
        let mut argv: Vec<_> = command.iter().map(|it| it.as_ptr()).collect();
        argv.push(std::ptr::null());
        // SAFETY: until exec or _exit the child calls nothing but async-signal-safe functions:
        // those of `child`, see there.
        match unsafe { nix::unistd::fork() }.map_err(refused)? {
            ForkResult::Child => {
                // The recorder's ends: with `go` open here the child would never see it closed.
                drop(go);
                drop(report);
                child(program, &argv, &gate, &verdict, heritage)
            }
            ForkResult::Parent { child } => {
                Ok(Self { workload: Workload { pid: child, ended: None }, go, report })
            }
        }
    }

    /// The child's process id, which exec does not change.
    pub fn pid(&self) -> Pid {
        self.workload.pid()
    }

    /// Lets the child become the workload, and waits until it has.
    ///
    /// # Errors
    ///
    /// What execvp(3) said: `ENOENT` for a command that is not found, `EACCES` for one that is
    /// not executable.
    pub fn release(self) -> Result<Workload, Errno> {
        let Self { mut workload, go, report } = self;
        nix::unistd::write(&go, b"!")?;
        let mut errno = [0; 4];
        let n = loop {
            match nix::unistd::read(&report, &mut errno) {
                Err(Errno::EINTR) => {}
                other => break other?,
            }
        };
        // Exec closes the pipe, an exec that failed writes its reason into it first.
        if n == errno.len() {
            workload.wait()?;
            return Err(Errno::from_raw(i32::from_ne_bytes(errno)));
        }
        Ok(workload)
    }
}

impl Workload {
    /// The process id.
    pub fn pid(&self) -> Pid {
        Pid(self.pid.as_raw())
    }

    /// How the workload ended, or `None` while it runs.
    ///
    /// # Errors
    ///
    /// What waitpid(2) says.
    pub fn ended(&mut self) -> Result<Option<Ended>, Errno> {
        self.wait_with(Some(WaitPidFlag::WNOHANG))
    }

    /// Waits for the workload's end.
    ///
    /// # Errors
    ///
    /// What waitpid(2) says.
    pub fn wait(&mut self) -> Result<Ended, Errno> {
        loop {
            if let Some(ended) = self.wait_with(None)? {
                return Ok(ended);
            }
        }
    }

    /// Sends `signal`, unless the workload has ended.
    ///
    /// # Errors
    ///
    /// What kill(2) says.
    pub fn signal(&mut self, signal: Signal) -> Result<(), Errno> {
        // Not reaped, so the number cannot have gone to another process.
        if self.ended.is_some() { Ok(()) } else { kill(self.pid, signal) }
    }

    fn wait_with(&mut self, flags: Option<WaitPidFlag>) -> Result<Option<Ended>, Errno> {
        if self.ended.is_none() {
            self.ended = match waitpid(self.pid, flags) {
                Ok(WaitStatus::Exited(_, status)) => {
                    Some(Ended::Exited(u8::try_from(status & 0xff).unwrap_or(u8::MAX)))
                }
                Ok(WaitStatus::Signaled(_, signal, _)) => Some(Ended::Killed(signal as i32)),
                Ok(_) | Err(Errno::EINTR) => None,
                Err(errno) => return Err(errno),
            };
        }
        Ok(self.ended)
    }
}

/// What the child does: waits at the gate, sheds what the recorder changed, becomes the workload.
///
/// Async-signal-safe throughout (`signal-safety(7)`): read, write, close, signal, sigprocmask, dup2,
/// setrlimit, execvp of glibc and musl (which take their memory from the stack), `_exit`.
fn child(
    program: &CString,
    argv: &[*const libc::c_char],
    gate: &OwnedFd,
    verdict: &OwnedFd,
    heritage: Heritage,
) -> ! {
    let mut byte = [0];
    let opened = loop {
        match nix::unistd::read(gate, &mut byte) {
            Err(Errno::EINTR) => {}
            other => break other == Ok(1),
        }
    };
    if opened {
        // Rust's runtime ignores it, and an ignored signal stays so across exec.
        // SAFETY: the default action is no handler, so nothing can run at a wrong time.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        // What is refused here would be refused to no harm: the workload runs all the same.
        let _mask = nix::sys::signal::sigprocmask(
            SigmaskHow::SIG_SETMASK,
            Some(&heritage.signals.mask),
            None,
        );
        if heritage.signals.ignores_interrupt {
            // SAFETY: to ignore is no handler either.
            unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
        }
        if heritage.signals.ignores_children {
            // SAFETY: as above.
            unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
        }
        if heritage.stdout == Stdout::Stderr {
            // SAFETY: both numbers stand for themselves; where 2 is closed, 1 becomes what it was.
            unsafe { libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) };
        }
        if let Some((soft, hard)) = heritage.open_files {
            let _limit = setrlimit(Resource::RLIMIT_NOFILE, soft, hard);
        }
        // SAFETY: `program` and the strings of `argv` end in NUL and live in the caller's frame;
        // `argv` itself ends in a null pointer.
        unsafe { libc::execvp(program.as_ptr(), argv.as_ptr()) };
        let errno = (Errno::last() as i32).to_ne_bytes();
        let (bytes, len) = (errno.as_ptr().cast(), errno.len());
        // SAFETY: `errno` is `len` bytes long and lives here.
        unsafe { libc::write(verdict.as_raw_fd(), bytes, len) };
    }
    // SAFETY: ends the process at once, without the destructors and buffers of its parent.
    unsafe { libc::_exit(127) }
}

impl Drop for Workload {
    /// Takes the dead child off the process table; one that still runs is left alone.
    fn drop(&mut self) {
        let _reaped = self.ended();
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::SigSet;

    use super::*;

    fn held(command: &[&str]) -> Held {
        let command: Vec<_> = command.iter().map(|it| CString::new(*it).unwrap()).collect();
        let signals =
            Before { mask: SigSet::empty(), ignores_interrupt: false, ignores_children: false };
        let heritage = Heritage { signals, stdout: Stdout::Own, open_files: None };
        Held::fork(&command, heritage).unwrap()
    }

    #[track_caller]
    fn check(command: &[&str], want: Result<Ended, Errno>) {
        let ended = held(command).release().and_then(|mut it| it.wait());
        assert_eq!(ended, want);
    }

    #[test]
    fn the_status_is_the_workloads_own() {
        check(&["true"], Ok(Ended::Exited(0)));
        check(&["sh", "-c", "exit 7"], Ok(Ended::Exited(7)));
        check(&["sh", "-c", "kill -9 $$"], Ok(Ended::Killed(9)));
    }

    #[test]
    fn a_signal_becomes_a_status_as_in_a_shell() {
        assert_eq!(Ended::Exited(7).shell_status(), 7);
        assert_eq!(Ended::Killed(9).shell_status(), 137);
    }

    #[test]
    fn what_cannot_be_run_says_why() {
        check(&["/nonexistent/command"], Err(Errno::ENOENT));
        check(&["/etc/passwd"], Err(Errno::EACCES));
    }

    #[test]
    fn what_is_never_released_never_runs() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("made");
        let held = held(&["touch", file.to_str().unwrap()]);
        let Held { mut workload, go, report } = held;
        drop(go);
        drop(report);
        assert_eq!(workload.wait(), Ok(Ended::Exited(127)));
        assert!(!file.exists());
    }
}
