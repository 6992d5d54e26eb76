//! Taking hold of BPF programs at their load: a thread on each CPU, or on each few of very many.
//!
//! The kernel tells of a load before the loader gets its descriptor, and wakes whoever waits on that
//! very CPU. A real-time thread that runs there alone runs before the loader goes on: so even a
//! program that is closed at once is held before. It does nothing else; asking takes longer, and
//! is left to whoever gets the [`Catch`]es.

use std::os::fd::AsFd;
use std::sync::mpsc::SyncSender;

use nix::errno::Errno;
use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::PollTimeout;
use nix::poll::poll;
use nix::sys::eventfd::EventFd as Doorbell;
use nix::sys::signal::SigSet;

use crate::bpf::Held;
use crate::events;
use crate::perfdata::Attr;
use crate::perfdata::AttrFlags;
use crate::perfdata::BpfEvent;
use crate::perfdata::Cursor;
use crate::perfdata::Endian;
use crate::perfdata::Record;
use crate::perfdata::RecordHeader;
use crate::sys::perf_event::EventFd;
use crate::sys::perf_event::OpenError;
use crate::sys::perf_event::Target;
use crate::sys::ring::Ring;
use crate::sys::ring::page_len;
use crate::sys::thread;
use crate::units::Cpu;
use crate::units::FileOffset;
use crate::units::ProgId;

use super::sideband::Unavailable;

/// The most threads that catch programs: where there are more CPUs, each has several.
const MAX_CATCHERS: usize = 64;

/// Size of a wake-up ring in pages: some 600 loads and unloads, of which each wakes the reader.
const RING_PAGES: usize = 8;

/// The same where there are more CPUs than threads, as all of this memory is locked.
const FEW_RING_PAGES: usize = 2;

/// What a CPU has to tell.
#[derive(Debug)]
pub(super) enum Catch {
    /// A program was loaded; here it is, unless it was gone.
    Loaded(ProgId, Result<Held, Errno>),
    /// The kernel dropped so many records.
    Lost(u64),
    /// There will be no more of so many CPUs.
    Unwatched(usize),
}

/// What one thread listens to.
#[derive(Debug)]
pub(super) struct Catcher(Vec<Source>);

/// A wake-up event of one CPU and its ring.
#[derive(Debug)]
struct Source {
    cpu: Cpu,
    event: EventFd,
    ring: Ring,
}

/// What a wait has brought.
#[derive(Debug)]
struct Woken {
    /// Nothing more is wanted.
    is_last: bool,
    /// By source, whether there will be no more of it.
    has_ended: Vec<bool>,
}

/// The CPUs of each thread: one, as long as there are threads enough.
fn groups(cpus: &[Cpu]) -> impl Iterator<Item = &[Cpu]> {
    cpus.chunks(cpus.len().div_ceil(MAX_CATCHERS).max(1))
}

/// The attribute of the wake-up event.
fn wakeup_attr() -> Attr {
    Attr {
        kind: events::KIND_SOFTWARE,
        config: events::SOFTWARE_DUMMY,
        flags: AttrFlags::BPF_EVENT | AttrFlags::WATERMARK,
        wakeup: 1,
        ..Attr::default()
    }
}

impl Source {
    /// Begins to be told of loads on `cpu`; `None` if that is gone meanwhile.
    fn open(cpu: Cpu, ring_pages: usize) -> Result<Option<Self>, Unavailable> {
        let mut attr = Vec::new();
        wakeup_attr().encode(Attr::SIZE_VER0, &mut attr);
        let target = Target::Cpu(cpu);
        match EventFd::open(&attr, target) {
            Ok(event) => {
                let ring = Ring::map(&event, ring_pages * page_len())?;
                Ok(Some(Self { cpu, event, ring }))
            }
            Err(Errno::ENODEV) => Ok(None),
            Err(errno) => {
                let event = "BPF program loads".to_owned();
                Err(OpenError { event, target, errno, remedy: None }.into())
            }
        }
    }
}

impl Catcher {
    /// Begins to be told of loads on `cpus`, by as many threads as are to run; what is refused is
    /// added to `refused`, one for each CPU.
    pub(super) fn open_all(cpus: &[Cpu], refused: &mut Vec<Unavailable>) -> Vec<Self> {
        let ring_pages = if cpus.len() <= MAX_CATCHERS { RING_PAGES } else { FEW_RING_PAGES };
        let open = |&cpu| Source::open(cpu, ring_pages).transpose();
        let mut catchers = Vec::new();
        for group in groups(cpus) {
            let mut sources = Vec::new();
            for source in group.iter().filter_map(open) {
                match source {
                    Ok(source) => sources.push(source),
                    Err(error) => refused.push(error),
                }
            }
            if !sources.is_empty() {
                catchers.push(Self(sources));
            }
        }
        catchers
    }

    /// How many CPUs it listens to.
    pub(super) fn n_cpus(&self) -> usize {
        self.0.len()
    }

    /// Takes hold of programs until the doorbell rings or all of its CPUs are gone.
    pub(super) fn run(mut self, stop: &Doorbell, out: &SyncSender<Catch>) {
        self.prepare();
        let (mut records, mut caught) = (Vec::new(), Vec::new());
        while !self.0.is_empty() {
            let Woken { is_last, has_ended } = self.wait(stop).unwrap_or_else(|errno| {
                tracing::debug!(%errno, "wait for loads");
                Woken { is_last: false, has_ended: vec![true; self.0.len()] }
            });
            // All are held before any is handed on, which may have to wait.
            for source in &mut self.0 {
                let len = copy(&source.ring, &mut records);
                source.ring.consume(len);
                catches(&records, &mut caught);
            }
            let n_before = self.0.len();
            let mut has_ended = has_ended.into_iter();
            self.0.retain(|_| !has_ended.next().unwrap_or(false));
            if self.0.len() < n_before {
                caught.push(Catch::Unwatched(n_before - self.0.len()));
            }
            for catch in caught.drain(..) {
                if out.send(catch).is_err() {
                    return;
                }
            }
            if is_last {
                return;
            }
        }
    }

    /// Makes this thread the first to run on its CPUs, as far as that is allowed.
    fn prepare(&self) {
        // Signals are for the thread that decides what they mean.
        if let Err(errno) = SigSet::all().thread_block() {
            tracing::debug!(%errno, "catcher");
        }
        let ways = [
            thread::stay_on(self.0.iter().map(|it| it.cpu)),
            thread::run_first(thread::Urgency::Catching),
        ];
        for refused in ways.iter().filter_map(|it| it.as_ref().err()) {
            tracing::debug!(%refused, "catcher");
        }
        if ways[1].is_err()
            && let Err(refused) = thread::prefer()
        {
            tracing::debug!(%refused, "catcher");
        }
    }

    /// Waits for records.
    fn wait(&self, stop: &Doorbell) -> Result<Woken, Errno> {
        let poll_in = PollFlags::POLLIN;
        let bell = [PollFd::new(stop.as_fd(), poll_in)];
        let events = self.0.iter().map(|it| PollFd::new(it.event.as_fd(), poll_in));
        let mut fds: Vec<_> = bell.into_iter().chain(events).collect();
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) => {}
            Err(Errno::EINTR | Errno::EAGAIN) => {
                return Ok(Woken { is_last: false, has_ended: Vec::new() });
            }
            Err(errno) => return Err(errno),
        }
        let mut came = fds.iter().map(|it| it.revents().unwrap_or(PollFlags::empty()));
        let is_last = came.next().is_some_and(|it| !it.is_empty());
        let ends = PollFlags::POLLHUP | PollFlags::POLLERR;
        Ok(Woken { is_last, has_ended: came.map(|it| it.intersects(ends)).collect() })
    }
}

/// Copies what is unread, in one piece, and returns its length.
fn copy(ring: &Ring, records: &mut Vec<u8>) -> usize {
    let (before_the_end, after_the_wrap) = ring.unread();
    records.clear();
    records.extend_from_slice(before_the_end);
    records.extend_from_slice(after_the_wrap);
    records.len()
}

/// Takes hold of what the records say was loaded.
fn catches(mut records: &[u8], catches: &mut Vec<Catch>) {
    while let Some((record, rest)) = split(records) {
        records = rest;
        match record {
            Some(Record::BpfEvent(BpfEvent { kind: BpfEvent::PROG_LOAD, id, .. })) => {
                catches.push(Catch::Loaded(id, Held::take(id)));
            }
            Some(Record::Lost { lost, .. }) => catches.push(Catch::Lost(lost)),
            _ => {}
        }
    }
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
    fn check(records: &[Vec<u8>], want_loads: usize, want_lost: u64) {
        let (mut n_loads, mut n_lost) = (0, 0);
        let mut caught = Vec::new();
        catches(&records.concat(), &mut caught);
        for catch in caught {
            match catch {
                Catch::Loaded(id, held) => {
                    assert_eq!(id, ProgId(u32::MAX));
                    assert!(held.is_err());
                    n_loads += 1;
                }
                Catch::Lost(lost) => n_lost += lost,
                Catch::Unwatched(n_cpus) => panic!("{n_cpus} CPUs have ended"),
            }
        }
        assert_eq!((n_loads, n_lost), (want_loads, want_lost));
    }

    #[test]
    fn each_cpu_has_a_thread_until_there_are_very_many() {
        for (n_cpus, n_groups, most) in
            [(0, 0, 0), (1, 1, 1), (64, 64, 1), (65, 33, 2), (128, 64, 2), (1000, 63, 16)]
        {
            let cpus: Vec<_> = (0..n_cpus).map(Cpu).collect();
            let lens: Vec<_> = groups(&cpus).map(<[_]>::len).collect();
            let got = (lens.len(), lens.iter().copied().max().unwrap_or(0));
            assert_eq!(got, (n_groups, most), "of {n_cpus} CPUs");
            let grouped: Vec<_> = groups(&cpus).flatten().copied().collect();
            assert_eq!(grouped, cpus);
        }
    }

    #[test]
    fn loads_and_losses_are_told_and_all_else_is_passed_over() {
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
}
