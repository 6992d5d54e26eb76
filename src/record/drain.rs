//! Threads that drain rings, each its own, and write each ring's records to a file of its own.
//!
//! ```text
//!   CPU 0 ring --> thread --> data.0       the recorder's own thread waits for signals, the command
//!   CPU 1 ring --> thread --> data.1       and its limits, and writes what it has itself to tell
//! ```
//!
//! A ring's records are in the order of time, so no marks of rounds are needed in between.

use std::fs::File;
use std::io;
use std::io::IoSlice;
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::thread::Builder;
use std::thread::JoinHandle;

use nix::errno::Errno;
use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::PollTimeout;
use nix::poll::poll;
use nix::sys::eventfd::EfdFlags;
use nix::sys::eventfd::EventFd as Doorbell;

use crate::perfdata::compression::Compressor;
use crate::sys::perf_event::EventFd;
use crate::sys::thread;

use super::crews::Mask;
use super::hop::Places;
use super::hop::Tally;
use super::open::Opened;
use super::output;
use super::pump;
use super::pump::Sink;
use super::rings::CpuRing;
use super::run::MUCH;

/// A ring's records on their way to a file.
#[derive(Debug)]
pub(super) struct Part {
    file: File,
    compressor: Option<Compressor>,
    len: u64,
    failed: Option<io::Error>,
}

impl Part {
    pub(super) fn new(file: File, compressor: Option<Compressor>) -> Self {
        Self { file, compressor, len: 0, failed: None }
    }

    fn write(&mut self, records: &[IoSlice<'_>]) {
        match output::write_all(&mut self.file, records) {
            Ok(n) => self.len += n as u64,
            Err((written, error)) => {
                self.len += output::whole_records(records, written.saturating_sub(output::RESERVE));
                self.failed = Some(error);
                // Makes room for the features; where that fails there is just less of it.
                let _truncated = self.file.set_len(self.len);
            }
        }
    }
}

impl Sink for Part {
    fn push(&mut self, records: &[IoSlice<'_>]) {
        if self.failed.is_some() {
            return;
        }
        let Some(compressor) = &mut self.compressor else { return self.write(records) };
        let plain: Vec<u8> = records.iter().flat_map(|it| it.iter().copied()).collect();
        let mut compressed = Vec::new();
        match compressor.compress(&plain, &mut compressed) {
            Ok(()) => self.write(&[IoSlice::new(&compressed)]),
            Err(error) => self.failed = Some(error),
        }
    }

    fn end_round(&mut self, mark: &[u8]) {
        debug_assert!(mark.is_empty(), "a ring that is alone in a file has no rounds");
    }
}

/// What the threads and whoever waits for them tell each other.
#[derive(Debug)]
struct Shared {
    /// Rung once: the threads are to end.
    stop: Doorbell,
    /// Rung when something failed or a limit was reached.
    news: Doorbell,
    len: AtomicU64,
    limit: Option<u64>,
    /// The real-time priority of each thread, if it has one.
    priority: Option<u8>,
    has_failed: AtomicBool,
}

impl Shared {
    fn ring_news(&self) {
        if let Err(errno) = self.news.write(1) {
            // A counter that is full rings as well.
            tracing::debug!(%errno, "tell of a drained ring");
        }
    }
}

/// What became of all the rings.
#[derive(Debug, Default)]
pub(super) struct Drained {
    /// What came by.
    pub(super) tally: Tally,
    /// How much was written, in bytes.
    pub(super) len: u64,
    /// Why not all of it.
    pub(super) failed: Option<io::Error>,
    /// Plain bytes, and what became of them, where they were compressed.
    pub(super) plain_and_compressed: (u64, u64),
}

/// The threads that drain.
#[derive(Debug)]
pub(super) struct Drainers {
    threads: Vec<JoinHandle<Drained>>,
    shared: Arc<Shared>,
}

/// The rings of one thread, and where it runs.
#[derive(Debug)]
struct Crew {
    posts: Vec<(CpuRing, Part)>,
    mask: Mask,
}

impl Drainers {
    /// Starts a thread for each of `crews`, which take the rings of their CPUs, each with its part.
    ///
    /// Events of the rings are polled in `opened`; `limit` is how many bytes are news. With a
    /// `priority` the threads are real-time ones.
    ///
    /// # Errors
    ///
    /// Whatever keeps a thread from being started; then the others have ended.
    pub(super) fn start(
        rings: Vec<(CpuRing, Part)>,
        crews: Vec<Mask>,
        opened: &Arc<Vec<Opened<EventFd>>>,
        places: Places,
        limit: Option<u64>,
        priority: Option<u8>,
    ) -> io::Result<Self> {
        let bell = || Doorbell::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK);
        let shared = Arc::new(Shared {
            stop: bell()?,
            news: bell()?,
            len: AtomicU64::new(0),
            limit,
            priority,
            has_failed: AtomicBool::new(false),
        });
        let mut this = Self { threads: Vec::new(), shared };
        for (crew, n) in shared_out(rings, crews).into_iter().zip(0..) {
            let (shared, opened) = (Arc::clone(&this.shared), Arc::clone(opened));
            let thread = Builder::new()
                .name(format!("drain-{n}"))
                .spawn(move || crew.run(&shared, &opened, places));
            match thread {
                Ok(thread) => this.threads.push(thread),
                Err(error) => {
                    this.stop();
                    return Err(error);
                }
            }
        }
        Ok(this)
    }

    /// Becomes readable when there is something to be asked.
    pub(super) fn poll_at(&self) -> BorrowedFd<'_> {
        self.shared.news.as_fd()
    }

    /// Whether some records could not be written.
    pub(super) fn have_failed(&self) -> bool {
        self.shared.has_failed.load(Ordering::Relaxed)
    }

    /// How many bytes have been written.
    pub(super) fn len(&self) -> u64 {
        self.shared.len.load(Ordering::Relaxed)
    }

    /// Stops the threads once all that is in the rings has been written.
    pub(super) fn stop(mut self) -> Drained {
        self.ring_stop();
        let mut all = Drained::default();
        for thread in std::mem::take(&mut self.threads) {
            let ended = thread.join().unwrap_or_else(|_| {
                let error = io::Error::other("a thread that drains rings ended early");
                Drained { failed: Some(error), ..Drained::default() }
            });
            let Drained { tally, len, failed, plain_and_compressed: (plain, compressed) } = ended;
            all.tally.add(&tally);
            all.len += len;
            all.failed = all.failed.or(failed);
            all.plain_and_compressed.0 += plain;
            all.plain_and_compressed.1 += compressed;
        }
        all
    }
}

impl Drainers {
    fn ring_stop(&self) {
        if let Err(errno) = self.shared.stop.write(1) {
            // A counter that is full rings as well.
            tracing::debug!(%errno, "stop draining");
        }
    }
}

impl Drop for Drainers {
    fn drop(&mut self) {
        // Of a recording that never began nobody waits for the end.
        self.ring_stop();
    }
}

/// Gives each of `masks` its rings; what none of them has goes to the first.
fn shared_out(rings: Vec<(CpuRing, Part)>, masks: Vec<Mask>) -> Vec<Crew> {
    let mut crews: Vec<Crew> =
        masks.into_iter().map(|mask| Crew { posts: Vec::new(), mask }).collect();
    for post in rings {
        let is_of = |it: &Crew| post.0.cpu().is_some_and(|cpu| it.mask.drained.contains(&cpu));
        let at = crews.iter().position(is_of).unwrap_or(0);
        if let Some(crew) = crews.get_mut(at) {
            crew.posts.push(post);
        }
    }
    crews.retain(|it| !it.posts.is_empty());
    crews
}

impl Crew {
    /// Drains until it is told to stop, and once more then.
    fn run(mut self, shared: &Shared, opened: &[Opened<EventFd>], places: Places) -> Drained {
        if let Err(refused) = thread::stay_on(self.mask.run_on.iter().copied()) {
            tracing::debug!(%refused, run_on = ?self.mask.run_on, "drain elsewhere");
        }
        if let Some(Err(refused)) = shared.priority.map(thread::run_at) {
            // It was tried before anything began, so this is rare, and costs no records.
            tracing::debug!(%refused, "drain as an ordinary thread");
        }
        let mut tally = Tally::default();
        let mut is_last = false;
        loop {
            let n_bytes = self.round(shared, &mut tally, places);
            if is_last {
                break;
            }
            is_last = self.wait(shared, opened, MUCH <= n_bytes);
        }
        let mut drained = Drained { tally, ..Drained::default() };
        for (_, part) in self.posts {
            drained.len += part.len;
            drained.failed = drained.failed.or(part.failed);
            let (plain, compressed) = part.compressor.map(|it| it.lens()).unwrap_or_default();
            drained.plain_and_compressed.0 += plain;
            drained.plain_and_compressed.1 += compressed;
        }
        drained
    }

    /// Drains each ring once; returns how many bytes came.
    fn round(&mut self, shared: &Shared, tally: &mut Tally, places: Places) -> usize {
        let mut n_bytes = 0;
        for (ring, part) in &mut self.posts {
            let (before, had_failed) = (part.len, part.failed.is_some());
            n_bytes += pump::drain(ring, part, tally, places);
            let n_new = part.len - before;
            let len = shared.len.fetch_add(n_new, Ordering::Relaxed) + n_new;
            if part.failed.is_some() && !had_failed {
                shared.has_failed.store(true, Ordering::Relaxed);
                shared.ring_news();
            } else if n_new != 0 && shared.limit.is_some_and(|it| it <= len) {
                shared.ring_news();
            }
        }
        n_bytes
    }

    /// Waits for records, but not if there `is_more`; whether the end has come.
    fn wait(&mut self, shared: &Shared, opened: &[Opened<EventFd>], is_more: bool) -> bool {
        let mut fds = vec![PollFd::new(shared.stop.as_fd(), PollFlags::POLLIN)];
        let mut polled = Vec::new();
        for (at, (ring, _)) in self.posts.iter().enumerate() {
            if let Some(event) = ring.poll_at(opened) {
                polled.push(at);
                fds.push(PollFd::new(event.as_fd(), PollFlags::POLLIN));
            }
        }
        let timeout = if is_more { PollTimeout::ZERO } else { PollTimeout::NONE };
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => {
                // Its rings are drained no more, so that the recording has to end.
                if let Some((_, part)) = self.posts.first_mut() {
                    part.failed.get_or_insert(errno.into());
                }
                shared.has_failed.store(true, Ordering::Relaxed);
                shared.ring_news();
                return true;
            }
        }
        let told = |at: usize| fds.get(at).and_then(PollFd::revents).unwrap_or(PollFlags::empty());
        let is_over = !told(0).is_empty();
        let gone: Vec<usize> = polled
            .iter()
            .zip(1..)
            .filter(|(_, at)| told(*at).intersects(PollFlags::POLLHUP | PollFlags::POLLERR))
            .map(|(ring, _)| *ring)
            .collect();
        for ring in gone {
            self.posts.get_mut(ring).into_iter().for_each(|(ring, _)| ring.poll_next());
        }
        is_over
    }
}
