//! Taking hold of BPF programs at their load: a thread on each CPU.
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

/// Size of a wake-up ring in pages: some 600 loads and unloads, of which each wakes the reader.
const RING_PAGES: usize = 8;

/// What a CPU has to tell.
#[derive(Debug)]
pub(super) enum Catch {
    /// A program was loaded; here it is, unless it was gone.
    Loaded(ProgId, Result<Held, Errno>),
    /// The kernel dropped so many records.
    Lost(u64),
    /// There will be no more of this CPU, for this reason.
    Failed(Errno),
}

/// A wake-up event of one CPU and its ring.
#[derive(Debug)]
pub(super) struct Catcher {
    cpu: Cpu,
    event: EventFd,
    ring: Ring,
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

impl Catcher {
    /// Begins to be told of loads on `cpu`; `None` if that is gone meanwhile.
    pub(super) fn open(cpu: Cpu) -> Result<Option<Self>, Unavailable> {
        let mut attr = Vec::new();
        wakeup_attr().encode(Attr::SIZE_VER0, &mut attr);
        let target = Target::Cpu(cpu);
        match EventFd::open(&attr, target) {
            Ok(event) => {
                let ring = Ring::map(&event, RING_PAGES * page_len())?;
                Ok(Some(Self { cpu, event, ring }))
            }
            Err(Errno::ENODEV) => Ok(None),
            Err(errno) => {
                let event = "BPF program loads".to_owned();
                Err(OpenError { event, target, errno, remedy: None }.into())
            }
        }
    }

    /// Takes hold of programs until the doorbell rings or the CPU is gone.
    pub(super) fn run(mut self, stop: &Doorbell, out: &SyncSender<Catch>) {
        self.prepare();
        let mut records = Vec::new();
        loop {
            let is_last = self.wait(stop).unwrap_or_else(|errno| {
                // Nobody listens any more: then there is nobody to tell.
                let _sent = out.send(Catch::Failed(errno));
                true
            });
            let len = copy(&self.ring, &mut records);
            self.ring.consume(len);
            // All are held before any is handed on, which may have to wait.
            for catch in catches(&records) {
                if out.send(catch).is_err() {
                    return;
                }
            }
            if is_last {
                return;
            }
        }
    }

    /// Makes this thread the first to run on its CPU, as far as that is allowed.
    fn prepare(&self) {
        // Signals are for the thread that decides what they mean.
        if let Err(errno) = SigSet::all().thread_block() {
            tracing::debug!(%errno, "catcher");
        }
        let ways = [thread::stay_on(self.cpu), thread::run_first(thread::Urgency::Catching)];
        for refused in ways.iter().filter_map(|it| it.as_ref().err()) {
            tracing::debug!(%refused, cpu = %self.cpu, "catcher");
        }
        if ways[1].is_err()
            && let Err(refused) = thread::prefer()
        {
            tracing::debug!(%refused, cpu = %self.cpu, "catcher");
        }
    }

    /// Waits for records; says whether they are the last.
    fn wait(&self, stop: &Doorbell) -> Result<bool, Errno> {
        let poll_in = PollFlags::POLLIN;
        let mut fds =
            [PollFd::new(stop.as_fd(), poll_in), PollFd::new(self.event.as_fd(), poll_in)];
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) => {}
            Err(Errno::EINTR | Errno::EAGAIN) => return Ok(false),
            Err(errno) => return Err(errno),
        }
        let [bell, event] = fds.map(|it| it.revents().unwrap_or(PollFlags::empty()));
        Ok(!bell.is_empty() || event.intersects(PollFlags::POLLHUP | PollFlags::POLLERR))
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
fn catches(mut records: &[u8]) -> Vec<Catch> {
    let mut catches = Vec::new();
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
    catches
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
        for catch in catches(&records.concat()) {
            match catch {
                Catch::Loaded(id, held) => {
                    assert_eq!(id, ProgId(u32::MAX));
                    assert!(held.is_err());
                    n_loads += 1;
                }
                Catch::Lost(lost) => n_lost += lost,
                Catch::Failed(errno) => panic!("{errno}"),
            }
        }
        assert_eq!((n_loads, n_lost), (want_loads, want_lost));
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
