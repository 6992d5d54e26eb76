//! One ring a CPU, into which all events of that CPU write, or one a thread.

use std::collections::BTreeMap;

use nix::errno::Errno;

use crate::host::settings::Settings;
use crate::perfdata::AttrFlags;
use crate::sys::Refused;
use crate::sys::perf_event::EventFd;
use crate::sys::perf_event::Target;
use crate::sys::ring::Ring;
use crate::sys::ring::page_len;
use crate::units::Cpu;
use crate::units::Tid;

use super::config::RingSize;
use super::note::Note;
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

/// The rings could not be had.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failed {
    /// They take more memory than may be locked.
    #[error("{n_rings} rings of {ring_bytes} bytes exceed the memory that may be locked")]
    TooLarge { ring_bytes: usize, n_rings: usize },
    /// Something else.
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// Rings for CPUs on which nothing is sampled, in bytes: they carry programs that come and go.
const SIDE_RING: usize = 64 << 10;

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

/// Maps a ring for each CPU and each thread that is watched wherever it runs, and sends all its
/// events there.
pub(super) fn map(
    opened: &[Opened<EventFd>],
    size: RingSize,
    settings: &Settings,
    notes: &mut Vec<Note>,
) -> Result<Vec<CpuRing>, Failed> {
    let wanted = wanted(size, settings);
    let writers = writers(opened);
    let mut ring_bytes = wanted;
    loop {
        match map_all(opened, &writers, ring_bytes) {
            Ok(rings) => {
                tracing::debug!(ring_bytes, "rings");
                if ring_bytes != wanted {
                    notes.push(Note::SmallerRings { wanted, taken: ring_bytes });
                }
                return Ok(rings);
            }
            Err(Refused { errno: Errno::EPERM | Errno::ENOMEM, .. }) => {
                if size != RingSize::Fitted || ring_bytes <= page_len() {
                    return Err(Failed::TooLarge { ring_bytes, n_rings: writers.len() });
                }
                ring_bytes /= 2;
            }
            Err(refused) => return Err(refused.into()),
        }
    }
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
/// recorder gets a CPU: on a full machine that is too little. More wakeups cost less than they
/// save, since each of them finds so much less to write.
pub(super) fn wakeup_bytes(ring_bytes: usize) -> u32 {
    u32::try_from(ring_bytes / 16).unwrap_or(u32::MAX)
}

/// The largest power of two of pages that, with the control page, an ordinary user may lock.
fn fitted(mlock_kb: Option<u64>, page_len: usize) -> usize {
    let bytes = mlock_kb.and_then(|kb| usize::try_from(kb).ok()?.checked_mul(1024));
    let pages = bytes.unwrap_or(516 << 10).saturating_sub(page_len) / page_len;
    // The next power of two above half of it is the largest that is not above it.
    (pages / 2 + 1).next_power_of_two() * page_len
}

/// By ring, the events that write there: those of all tasks last, since they never end.
fn writers<Fd>(opened: &[Opened<Fd>]) -> BTreeMap<Of, Vec<(usize, usize)>> {
    let mut by_ring: BTreeMap<Of, Vec<(usize, usize)>> = BTreeMap::new();
    for is_last in [false, true] {
        for (event, it) in opened.iter().enumerate() {
            if (it.role == Role::System) != is_last {
                continue;
            }
            for (instance, (target, _)) in it.instances.iter().enumerate() {
                by_ring.entry(Of::target(*target)).or_default().push((event, instance));
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

fn map_all(
    opened: &[Opened<EventFd>],
    by_ring: &BTreeMap<Of, Vec<(usize, usize)>>,
    ring_bytes: usize,
) -> Result<Vec<CpuRing>, Refused> {
    let fd =
        |&(event, instance): &(usize, usize)| Some(&opened.get(event)?.instances.get(instance)?.1);
    let mut rings = Vec::with_capacity(by_ring.len());
    for (of, writers) in by_ring {
        let cpu = if let Of::Cpu(cpu) = of { Some(*cpu) } else { None };
        let Some(owner) = writers.last().and_then(fd) else { continue };
        let is_sampled =
            writers.iter().any(|it| opened.get(it.0).is_some_and(|it| it.role == Role::Sampling));
        let bytes = if is_sampled { ring_bytes } else { ring_bytes.min(SIDE_RING) };
        let ring = Ring::map(owner, bytes)?;
        let (mut shared, mut alone) = (Vec::new(), Vec::new());
        for writer in writers {
            let Some(event) = fd(writer) else { continue };
            if std::ptr::eq(event, owner) || event.set_output(owner).is_ok() {
                shared.push(*writer);
            } else {
                // Another clock, or an AUX area of its own: not everything shares.
                let ring = Ring::map(event, bytes)?;
                alone.push(CpuRing { cpu, ring, writers: vec![*writer] });
            }
        }
        rings.push(CpuRing { cpu, ring, writers: shared });
        rings.append(&mut alone);
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
