//! One ring a CPU, into which all events of that CPU write, or one a thread.

use std::collections::BTreeMap;

use nix::errno::Errno;

use crate::host::settings::Settings;
use crate::perfdata::AttrFlags;
use crate::sys::Refused;
use crate::sys::perf_event::EventFd;
use crate::sys::perf_event::Target;
use crate::sys::ring::BackwardRing;
use crate::sys::ring::Ring;
use crate::sys::ring::page_len;
use crate::units::Cpu;
use crate::units::Tid;

use super::config::RingSize;
use super::open::Opened;
use super::plan::Role;
use super::pump::Source;

/// A ring, and the events that write into it.
#[derive(Debug)]
pub(super) struct CpuRing {
    cpu: Option<Cpu>,
    ring: Ring,
    /// Event and instance of each, the one to poll last.
    writers: Vec<(usize, usize)>,
}

impl CpuRing {
    /// The CPU whose records come here; `None` where it is a thread's.
    pub(super) fn cpu(&self) -> Option<Cpu> {
        self.cpu
    }

    /// How many bytes it holds.
    pub(super) fn len(&self) -> usize {
        self.ring.data_len()
    }

    /// The event to poll for this ring, or `None` where all that wrote into it are gone.
    pub(super) fn poll_at<'a>(&self, opened: &'a [Opened<EventFd>]) -> Option<&'a EventFd> {
        let &(event, instance) = self.writers.last()?;
        opened.get(event)?.instances.get(instance).map(|(_, fd)| fd)
    }

    /// Polls another event, since the one that was polled is gone.
    pub(super) fn poll_next(&mut self) {
        self.writers.pop();
    }
}

impl Source for CpuRing {
    fn unread(&self) -> (&[u8], &[u8]) {
        self.ring.unread()
    }

    fn consume(&mut self, len: usize) {
        self.ring.consume(len);
    }
}

/// A ring that keeps the latest samples, and the event that owns it.
#[derive(Debug)]
pub(super) struct LatestRing {
    ring: BackwardRing,
    owner: (usize, usize),
}

impl LatestRing {
    /// Appends what came since the last time to `records`, the latest first.
    pub(super) fn read_latest(
        &mut self,
        opened: &[Opened<EventFd>],
        records: &mut Vec<u8>,
    ) -> Result<(), Refused> {
        match instance(opened, self.owner) {
            Some(owner) => self.ring.read_latest(owner, records),
            None => Ok(()),
        }
    }
}

/// All rings.
#[derive(Debug, Default)]
pub(super) struct Rings {
    /// Those that are drained.
    pub(super) forward: Vec<CpuRing>,
    /// Those that keep the latest.
    pub(super) latest: Vec<LatestRing>,
    /// Those of events that BPF programs write into, each with the place of its event.
    pub(super) outputs: Vec<(usize, CpuRing)>,
}

impl Rings {
    /// Maps the ring of one event.
    fn map(
        &mut self,
        owner: &EventFd,
        owner_at: (usize, usize),
        cpu: Option<Cpu>,
        direction: Direction,
        bytes: usize,
    ) -> Result<(), Refused> {
        match direction {
            Direction::Forward => {
                let ring = Ring::map(owner, bytes)?;
                self.forward.push(CpuRing { cpu, ring, writers: vec![owner_at] });
            }
            Direction::Backward => {
                let ring = BackwardRing::map(owner, bytes)?;
                self.latest.push(LatestRing { ring, owner: owner_at });
            }
        }
        Ok(())
    }
}

/// The rings could not be had.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failed {
    /// They take more memory than may be locked, or than there is.
    #[error("{n_rings} rings of {ring_bytes} bytes: {errno}")]
    TooLarge { ring_bytes: usize, n_rings: usize, errno: Errno },
    /// Something else.
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// Rings into which nobody samples and that tell of no tasks, in bytes: they carry programs that come
/// and go.
pub(super) const SIDE_RING: usize = 64 << 10;

/// What a ring is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Of {
    /// A CPU, whoever runs there.
    Cpu(Cpu),
    /// A thread, wherever it runs.
    Thread(Tid),
}

impl Of {
    fn target(target: Target) -> Self {
        match target {
            Target::Cpu(cpu) | Target::TaskOnCpu(_, cpu) => Self::Cpu(cpu),
            Target::Task(tid) => Self::Thread(tid),
        }
    }
}

/// Maps a ring of `ring_bytes` for each CPU and each thread that is watched wherever it runs, and sends
/// all its events there.
pub(super) fn map(opened: &[Opened<EventFd>], ring_bytes: usize) -> Result<Rings, Failed> {
    let by_ring = writers(opened);
    let outputs = opened.iter().filter(|it| it.role == Role::Output);
    let n_rings = by_ring.len() + outputs.map(|it| it.instances.len()).sum::<usize>();
    let failed = |refused: Refused| match refused.errno {
        errno @ (Errno::EPERM | Errno::ENOMEM) => Failed::TooLarge { ring_bytes, n_rings, errno },
        _ => refused.into(),
    };
    let mut rings = map_all(opened, &by_ring, ring_bytes).map_err(failed)?;
    rings.outputs = map_outputs(opened, ring_bytes).map_err(failed)?;
    Ok(rings)
}

/// Maps a ring for each CPU of each event that BPF programs write into.
fn map_outputs(
    opened: &[Opened<EventFd>],
    ring_bytes: usize,
) -> Result<Vec<(usize, CpuRing)>, Refused> {
    let mut rings = Vec::new();
    for (at, event) in opened.iter().enumerate().filter(|(_, it)| it.role == Role::Output) {
        for (instance, (target, fd)) in event.instances.iter().enumerate() {
            let ring = Ring::map(fd, ring_bytes)?;
            let writers = vec![(at, instance)];
            rings.push((at, CpuRing { cpu: cpu_of(*target), ring, writers }));
        }
    }
    Ok(rings)
}

/// The next smaller size, where rings of `ring_bytes` cannot be had and the size is ours to choose.
pub(super) fn smaller(size: RingSize, ring_bytes: usize) -> Option<usize> {
    (size == RingSize::Fitted && page_len() < ring_bytes).then_some(ring_bytes / 2)
}

/// How large each ring is to be, in bytes.
pub(super) fn wanted(size: RingSize, settings: &Settings) -> usize {
    match size {
        RingSize::Fitted => fitted(settings.perf_event_mlock_kb, page_len()),
        RingSize::Bytes(bytes) => bytes,
    }
}

/// How many unread bytes in a ring of `ring_bytes` wake the recorder.
///
/// The kernel's own choice is half of the ring, which leaves the other half for the time until the
/// recorder gets a CPU: on a full machine that is too little. An eighth leaves nearly as much as less
/// would, for half of the wakeups.
pub(super) fn wakeup_bytes(ring_bytes: usize) -> u32 {
    u32::try_from(ring_bytes / 8).unwrap_or(u32::MAX)
}

/// The largest power of two of pages that, with the control page, an ordinary user may lock.
fn fitted(mlock_kb: Option<u64>, page_len: usize) -> usize {
    let bytes = mlock_kb.and_then(|kb| usize::try_from(kb).ok()?.checked_mul(1024));
    let pages = bytes.unwrap_or(516 << 10).saturating_sub(page_len) / page_len;
    // The next power of two above half of it is the largest that is not above it.
    (pages / 2 + 1).next_power_of_two() * page_len
}

/// In which direction a ring is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Direction {
    /// What is unread stays, and what finds no room is lost.
    Forward,
    /// The latest stays.
    Backward,
}

/// The events that write into each ring.
type Writers = BTreeMap<(Of, Direction), Vec<(usize, usize)>>;

/// By ring, the events that write there: those of all tasks last, since they never end.
fn writers<Fd>(opened: &[Opened<Fd>]) -> Writers {
    let mut by_ring = Writers::new();
    for is_last in [false, true] {
        for (event, it) in opened.iter().enumerate() {
            if (it.role == Role::System) != is_last || it.role == Role::Output {
                continue;
            }
            let is_backward = it.attr.flags.contains(AttrFlags::WRITE_BACKWARD);
            let direction = if is_backward { Direction::Backward } else { Direction::Forward };
            for (instance, (target, _)) in it.instances.iter().enumerate() {
                let ring = (Of::target(*target), direction);
                by_ring.entry(ring).or_default().push((event, instance));
            }
        }
    }
    by_ring
}

/// The CPU that a target is bound to, if it is.
pub(super) fn cpu_of(target: Target) -> Option<Cpu> {
    match target {
        Target::Cpu(cpu) | Target::TaskOnCpu(_, cpu) => Some(cpu),
        Target::Task(_) => None,
    }
}

fn instance(opened: &[Opened<EventFd>], at: (usize, usize)) -> Option<&EventFd> {
    Some(&opened.get(at.0)?.instances.get(at.1)?.1)
}

fn map_all(
    opened: &[Opened<EventFd>],
    by_ring: &Writers,
    ring_bytes: usize,
) -> Result<Rings, Refused> {
    let mut rings = Rings::default();
    for ((of, direction), writers) in by_ring {
        let cpu = if let Of::Cpu(cpu) = of { Some(*cpu) } else { None };
        let Some(&owner_at) = writers.last() else { continue };
        let Some(owner) = instance(opened, owner_at) else { continue };
        let is_full = writers
            .iter()
            .filter_map(|it| opened.get(it.0))
            .any(|it| it.role != Role::System || it.attr.flags.contains(AttrFlags::TASK));
        let bytes = if is_full { ring_bytes } else { ring_bytes.min(SIDE_RING) };
        rings.map(owner, owner_at, cpu, *direction, bytes)?;
        let (mut shared, mut alone) = (Vec::new(), Vec::new());
        for writer in writers {
            let Some(event) = instance(opened, *writer) else { continue };
            if std::ptr::eq(event, owner) || event.set_output(owner).is_ok() {
                shared.push(*writer);
            } else {
                alone.push((event, *writer));
            }
        }
        if let (Direction::Forward, Some(ring)) = (direction, rings.forward.last_mut()) {
            ring.writers = shared;
        }
        for (event, writer) in alone {
            // Another clock, or an AUX area of its own: not everything shares.
            rings.map(event, writer, cpu, *direction, bytes)?;
        }
    }
    Ok(rings)
}

/// Whether an event waits to be told before it samples.
pub(super) fn waits(event: &Opened<EventFd>) -> bool {
    let flags = event.attr.flags;
    flags.contains(AttrFlags::DISABLED) && !flags.contains(AttrFlags::ENABLE_ON_EXEC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_fits_into_what_may_be_locked() {
        let page = 4096;
        assert_eq!(fitted(Some(516), page), 512 << 10);
        assert_eq!(fitted(None, page), 512 << 10);
        assert_eq!(fitted(Some(515), page), 256 << 10);
        assert_eq!(fitted(Some(0), page), page);
        assert_eq!(fitted(Some(1028), page), 1 << 20);
        assert_eq!(fitted(Some(u64::MAX), page), 512 << 10);
    }
}
