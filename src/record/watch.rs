//! Waiting: for records, for signals, and for the end of whoever is watched.

use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::os::fd::OwnedFd;
use std::time::Duration;
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::PollTimeout;
use nix::poll::poll;

use crate::host::process;
use crate::sys::Refused;
use crate::sys::perf_event::EventFd;
use crate::sys::pidfd;
use crate::sys::signals::Came;
use crate::sys::signals::Signals;
use crate::units::Pid;
use crate::units::Tid;

use super::open::Opened;
use super::rings::CpuRing;

/// How often the kernel is asked for those whose end it does not tell by itself.
const TICK: Duration = Duration::from_millis(100);

/// Those without whom a recording has no purpose.
#[derive(Debug)]
pub(super) struct Watched {
    left: Vec<Life>,
    /// Whether the end of the last one ends the recording.
    is_purpose: bool,
}

#[derive(Debug)]
enum Life {
    /// Becomes readable at the end.
    Told(OwnedFd),
    /// A thread that has to be looked for, since the kernel is older than 6.9.
    Looked(Tid),
}

impl Watched {
    /// Nobody: the recording ends for another reason.
    pub(super) fn nobody() -> Self {
        Self { left: Vec::new(), is_purpose: false }
    }

    /// These processes.
    pub(super) fn processes(pids: &[Pid]) -> Self {
        let life = |&pid: &Pid| life(pidfd::of_process(pid), Tid(pid.0));
        Self { left: pids.iter().filter_map(life).collect(), is_purpose: true }
    }

    /// These threads.
    pub(super) fn threads(tids: &[Tid]) -> Self {
        let life = |&tid: &Tid| life(pidfd::of_thread(tid), tid);
        Self { left: tids.iter().filter_map(life).collect(), is_purpose: true }
    }

    /// Whether everyone is gone who was to be watched.
    pub(super) fn are_gone(&self) -> bool {
        self.is_purpose && self.left.is_empty()
    }

    fn has_looked(&self) -> bool {
        self.left.iter().any(|it| matches!(it, Life::Looked(_)))
    }
}

fn life(fd: Result<OwnedFd, Refused>, tid: Tid) -> Option<Life> {
    match fd {
        Ok(fd) => Some(Life::Told(fd)),
        Err(Refused { errno: Errno::ESRCH, .. }) => None,
        Err(_) => Some(Life::Looked(tid)),
    }
}

/// Waits until something happens or `until` has come; `others` are further descriptors that may have
/// something to read.
///
/// Whoever is gone is forgotten in `watched`; a ring whose event is gone is polled at another.
pub(super) fn wait(
    signals: &Signals,
    opened: &[Opened<EventFd>],
    rings: &mut [&mut CpuRing],
    watched: &mut Watched,
    others: &[BorrowedFd<'_>],
    until: Option<Instant>,
) -> Result<(), Refused> {
    let mut timeout = until.map(|it| it.saturating_duration_since(Instant::now()));
    if watched.has_looked() {
        timeout = Some(timeout.map_or(TICK, |it| it.min(TICK)));
    }
    // Rounded up, else the last millisecond would be spent in a loop.
    let timeout = timeout.map_or(PollTimeout::NONE, |it| {
        PollTimeout::try_from(it + Duration::from_micros(999)).unwrap_or(PollTimeout::MAX)
    });
    let mut fds = vec![PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
    let mut lives = Vec::new();
    for (at, life) in watched.left.iter().enumerate() {
        if let Life::Told(fd) = life {
            lives.push(at);
            fds.push(PollFd::new(fd.as_fd(), PollFlags::POLLIN));
        }
    }
    fds.extend(others.iter().map(|it| PollFd::new(*it, PollFlags::POLLIN)));
    let first_ring = fds.len();
    let mut polled = Vec::new();
    for (at, ring) in rings.iter().enumerate() {
        if let Some(event) = ring.poll_at(opened) {
            polled.push(at);
            fds.push(PollFd::new(event.as_fd(), PollFlags::POLLIN));
        }
    }
    match poll(&mut fds, timeout) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(errno) => return Err(Refused::new("wait for records", errno)),
    }
    let told = |at: usize| fds.get(at).and_then(PollFd::revents).unwrap_or(PollFlags::empty());
    let gone: Vec<_> =
        lives.iter().zip(1..).filter(|(_, at)| !told(*at).is_empty()).map(|(&it, _)| it).collect();
    for (&ring, at) in polled.iter().zip(first_ring..) {
        if told(at).intersects(PollFlags::POLLHUP | PollFlags::POLLERR) {
            rings.get_mut(ring).into_iter().for_each(|it| it.poll_next());
        }
    }
    let mut at = 0..;
    watched.left.retain(|life| {
        let is_told = at.next().is_some_and(|at: usize| gone.binary_search(&at).is_ok());
        match life {
            Life::Told(_) => !is_told,
            Life::Looked(tid) => process::process_of(*tid).is_some(),
        }
    });
    Ok(())
}

/// Waits for the next signal.
pub(super) fn signal(signals: &Signals) -> Result<Came, Refused> {
    loop {
        if let Some(came) = signals.next()? {
            return Ok(came);
        }
        let mut fds = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(Refused::new("wait for a signal", errno)),
        }
    }
}
