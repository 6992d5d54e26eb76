//! BPF programs that come and go while the recording runs.
//!
//! Two more events on each CPU, for all tasks, whatever the target of the recording is:
//!
//! ```text
//!   tracking   ksymbol, bpf_event     into the CPU's data ring   -> the file: names by time
//!   wake-up    bpf_event, watermark   into a small ring of own   -> this thread -> bpf: the
//!              of one record                                        program, while it lives
//! ```
//!
//! The plan has the first; the second is this file's. What the thread reads is never written. It
//! asks for a program twice, since the loader binds the map with the owner's metadata only after
//! the load, and closes each descriptor at once.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::PollTimeout;
use nix::sys::eventfd::EfdFlags;
use nix::sys::eventfd::EventFd as Doorbell;
use nix::sys::signal::SigSet;

use crate::bpf::Programs;
use crate::events;
use crate::perfdata::Attr;
use crate::perfdata::AttrFlags;
use crate::perfdata::BpfEvent;
use crate::perfdata::Cursor;
use crate::perfdata::Endian;
use crate::perfdata::Record;
use crate::perfdata::RecordHeader;
use crate::sys::Refused;
use crate::sys::perf_event::EventFd;
use crate::sys::perf_event::OpenError;
use crate::sys::perf_event::Target;
use crate::sys::ring::Ring;
use crate::sys::ring::page_len;
use crate::sys::thread;
use crate::units::Cpu;
use crate::units::FileOffset;
use crate::units::ProgId;

/// Size of a wake-up ring in pages: some 800 loads, of which each wakes the reader.
const RING_PAGES: usize = 8;

/// How long after its load a program is asked for again.
const SECOND_LOOK: Duration = Duration::from_millis(20);

/// Why no thread watches for programs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// The event could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A ring could not be had.
    #[error(transparent)]
    Ring(#[from] Refused),
    /// The thread could not be started.
    #[error("cannot start the thread that watches for BPF programs")]
    Thread(#[source] std::io::Error),
}

/// What the thread has seen and saved.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The programs that were loaded meanwhile, as far as they lived long enough.
    pub programs: Programs,
    /// How many loads were seen.
    pub n_loads: u64,
    /// How many records the kernel dropped because a ring was full; what still lived was found by
    /// a walk.
    pub n_lost: u64,
}

/// The attribute of the wake-up event.
fn wakeup_attr() -> Attr {
    Attr { flags: AttrFlags::BPF_EVENT | AttrFlags::WATERMARK, wakeup: 1, ..dummy() }
}

fn dummy() -> Attr {
    Attr { kind: events::KIND_SOFTWARE, config: events::SOFTWARE_DUMMY, ..Attr::default() }
}

/// The thread that saves programs while they live.
#[derive(Debug)]
pub struct Sideband {
    thread: JoinHandle<Outcome>,
    stop: Arc<Doorbell>,
}

impl Sideband {
    /// Starts watching for programs that any task loads on `cpus`.
    ///
    /// A CPU that is gone meanwhile is passed over.
    ///
    /// # Errors
    ///
    /// If the kernel refuses the event on a CPU, its ring, or the thread.
    pub fn start(cpus: &[Cpu]) -> Result<Self, Unavailable> {
        let mut attr = Vec::new();
        wakeup_attr().encode(Attr::SIZE_VER0, &mut attr);
        let mut sources = Vec::new();
        for &cpu in cpus {
            let target = Target::Cpu(cpu);
            match EventFd::open(&attr, target) {
                Ok(event) => {
                    let ring = Ring::map(&event, RING_PAGES * page_len())?;
                    sources.push(Source { event, ring });
                }
                Err(Errno::ENODEV) => {}
                Err(errno) => {
                    let event = "BPF program loads".to_owned();
                    return Err(OpenError { event, target, errno }.into());
                }
            }
        }
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let stop = Doorbell::from_flags(flags).map_err(|it| Unavailable::Thread(it.into()))?;
        let stop = Arc::new(stop);
        let bell = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("bpf-sideband".to_owned())
            .spawn(move || Watch::default().run(sources, &bell))
            .map_err(Unavailable::Thread)?;
        Ok(Self { thread, stop })
    }

    /// Stops after everything that is in the rings has been read, and hands over what was saved.
    ///
    /// To be called after sampling has ended and before the features are written, so that no
    /// program has samples and nothing else.
    pub fn stop(self) -> Outcome {
        if let Err(errno) = self.stop.write(1) {
            // A counter that is full rings as well.
            tracing::debug!(%errno, "stop the sideband");
        }
        self.thread.join().unwrap_or_default()
    }
}

/// A wake-up event and its ring.
#[derive(Debug)]
struct Source {
    event: EventFd,
    ring: Ring,
}

/// What the thread knows.
#[derive(Debug, Default)]
struct Watch {
    outcome: Outcome,
    /// Programs to ask for again, the earliest first.
    again: VecDeque<(Instant, ProgId)>,
}

impl Watch {
    fn run(mut self, mut sources: Vec<Source>, stop: &Doorbell) -> Outcome {
        // Signals are for the thread that decides what they mean.
        if let Err(errno) = SigSet::all().thread_block() {
            tracing::debug!(%errno, "sideband");
        }
        if let Err(refused) = thread::prefer() {
            tracing::debug!(%refused, "sideband");
        }
        let mut records = Vec::new();
        loop {
            let woken = wait(&sources, stop, self.next_look());
            let n_lost = self.outcome.n_lost;
            for source in &mut sources {
                let len = copy(&source.ring, &mut records);
                source.ring.consume(len);
                self.read(&records);
            }
            // What still lives of the programs whose records were lost is found by asking for all.
            if self.outcome.n_lost != n_lost
                && let Err(error) = self.outcome.programs.update()
            {
                tracing::debug!(%error, "walk after a loss");
            }
            self.look_again((!woken.is_last).then(Instant::now));
            if woken.is_last {
                return self.outcome;
            }
            let mut n = 0..;
            sources.retain(|_| n.next().is_none_or(|idx: usize| !woken.closed.contains(&idx)));
        }
    }

    /// Reads the records of one ring.
    fn read(&mut self, mut records: &[u8]) {
        while let Some((record, rest)) = split(records) {
            records = rest;
            match record {
                Some(Record::BpfEvent(BpfEvent { kind: BpfEvent::PROG_LOAD, id, .. })) => {
                    self.outcome.n_loads += 1;
                    self.outcome.programs.fetch(id);
                    self.again.push_back((Instant::now() + SECOND_LOOK, id));
                }
                Some(Record::Lost { lost, .. }) => self.outcome.n_lost += lost,
                _ => {}
            }
        }
    }

    /// Asks again for the programs whose time has come; for all if there is no `now` to wait for.
    fn look_again(&mut self, now: Option<Instant>) {
        while let Some(&(at, id)) = self.again.front() {
            if now.is_some_and(|now| now < at) {
                return;
            }
            self.again.pop_front();
            self.outcome.programs.refresh(id);
        }
    }

    fn next_look(&self) -> Option<Instant> {
        self.again.front().map(|(at, _)| *at)
    }
}

/// Why the thread woke.
#[derive(Debug, Default)]
struct Woken {
    /// The doorbell rang.
    is_last: bool,
    /// The sources that will give no more, since their CPU is gone.
    closed: Vec<usize>,
}

/// Waits until there is something to read, `until` has come, or the doorbell rings.
fn wait(sources: &[Source], stop: &Doorbell, until: Option<Instant>) -> Woken {
    let timeout = until.map_or(PollTimeout::NONE, |until| {
        // Rounded up, so as not to wake before the time.
        let left = until.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
        PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
    });
    let mut fds = vec![PollFd::new(stop.as_fd(), PollFlags::POLLIN)];
    fds.extend(sources.iter().map(|it| PollFd::new(it.event.as_fd(), PollFlags::POLLIN)));
    match nix::poll::poll(&mut fds, timeout) {
        Ok(_) => {}
        Err(Errno::EINTR | Errno::EAGAIN) => return Woken::default(),
        Err(errno) => {
            tracing::debug!(%errno, "poll for BPF programs");
            return Woken { is_last: true, closed: Vec::new() };
        }
    }
    let mut answers = fds.iter().map(|it| it.revents().unwrap_or(PollFlags::empty()));
    let is_last = answers.next().is_some_and(|it| !it.is_empty());
    let end = PollFlags::POLLHUP | PollFlags::POLLERR;
    let closed = answers.enumerate().filter(|(_, it)| it.intersects(end)).map(|(idx, _)| idx);
    Woken { is_last, closed: closed.collect() }
}

/// Copies what is unread, in one piece, and returns its length.
fn copy(ring: &Ring, records: &mut Vec<u8>) -> usize {
    let (before_the_end, after_the_wrap) = ring.unread();
    records.clear();
    records.extend_from_slice(before_the_end);
    records.extend_from_slice(after_the_wrap);
    records.len()
}

/// The first record, if it can be decoded, and what follows it.
fn split(records: &[u8]) -> Option<(Option<Record<'_>>, &[u8])> {
    let mut cursor = Cursor::new(records, FileOffset(0), Endian::NATIVE);
    let header = RecordHeader::decode(&mut cursor).ok()?;
    let body_len = usize::from(header.size).checked_sub(usize::from(RecordHeader::SIZE))?;
    let body = cursor.bytes(body_len, "record").ok()?;
    let mut body = Cursor::new(body, FileOffset(0), Endian::NATIVE);
    Some((Record::decode(header, &mut body).ok(), cursor.rest()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of the kernel in this machine's byte order, from 32-bit words.
    fn record(kind: u32, size: u16, words: &[u32]) -> Vec<u8> {
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend_from_slice(&[0, 0]);
        bytes.extend_from_slice(&size.to_ne_bytes());
        bytes.extend(words.iter().flat_map(|it| it.to_ne_bytes()));
        bytes
    }

    /// A load of a program with an id that the kernel does not give, as ids are positive.
    fn load() -> Vec<u8> {
        record(18, 24, &[1, u32::MAX, 0, 0])
    }

    #[track_caller]
    fn check(records: &[Vec<u8>], n_loads: u64, n_lost: u64) {
        let mut watch = Watch::default();
        watch.read(&records.concat());
        assert_eq!((watch.outcome.n_loads, watch.outcome.n_lost), (n_loads, n_lost));
    }

    #[test]
    fn loads_and_losses_are_counted_and_all_else_is_passed_over() {
        let lost = record(2, 24, &[1, 0, 5, 0]);
        let unload = record(18, 24, &[2, 7, 0, 0]);
        let other = record(99, 8, &[]);
        check(&[load(), lost.clone(), unload, other, load(), lost], 2, 10);
    }

    #[test]
    fn a_record_that_is_cut_or_shorter_than_itself_ends_the_reading() {
        check(&[load(), record(18, 24, &[1])], 1, 0);
        check(&[record(18, 0, &[]), load()], 0, 0);
        check(&[record(18, 12, &[1]), load()], 1, 0);
    }

    #[test]
    fn every_load_is_looked_at_again_once() {
        let mut watch = Watch::default();
        watch.read(&[load(), load()].concat());
        let first = watch.next_look().unwrap();
        watch.look_again(Some(first.checked_sub(SECOND_LOOK).unwrap()));
        assert_eq!(watch.again.len(), 2);
        watch.look_again(None);
        assert_eq!(watch.next_look(), None);
    }
}
