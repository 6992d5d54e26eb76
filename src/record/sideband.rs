//! BPF programs that come and go while the recording runs.
//!
//! Two more events on each CPU, for all tasks, whatever the target of the recording is:
//!
//! ```text
//!   tracking   ksymbol, bpf_event     into the CPU's data ring   -> the file: names by time
//!   wake-up    bpf_event, watermark   into a small ring of own   -> a thread on that CPU, or on few:
//!              of one record                                        holds the program -> this file's
//!                                                                   thread: asks, while it is held
//! ```
//!
//! The plan has the first; `catch` has the second. What is read there is never written. A
//! program that its loader closes at once lives until it has been asked for. Where the owner's
//! metadata is in a map that the loader has yet to bind to the program, it is held until that is
//! done.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::mpsc::sync_channel;
use std::thread::Builder;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;

use nix::sys::eventfd::EfdFlags;
use nix::sys::eventfd::EventFd as Doorbell;
use nix::sys::signal::SigSet;

use crate::bpf::Held;
use crate::bpf::Program;
use crate::bpf::Programs;
use crate::bpf::filter::Tables;
use crate::sys::Refused;
use crate::sys::perf_event::OpenError;
use crate::sys::thread;
use crate::units::Cpu;
use crate::units::ProgId;

use super::catch::Catch;
use super::catch::Catcher;

/// How many programs wait to be asked for. Each thread that catches them holds, besides, what it
/// found in its rings in one go, until there is room for the last of that.
const MAX_CAUGHT: usize = 256;

/// How long after its load a program is looked at again, if it lives: a loader may be slow.
const LATER_LOOKS: [Duration; 3] =
    [Duration::from_millis(20), Duration::from_millis(300), Duration::from_secs(2)];

/// How long a program is held at most for metadata that is about to be bound to it: on a busy CPU
/// its loader may have to wait for its turn.
const LONGEST_HOLD: Duration = Duration::from_millis(100);

/// How long after its load a held program is looked at for the first time. The time to the next
/// look is as long as all before, so that what the hold adds to a program's life is at most as long
/// as its loader took to bind the metadata.
const FIRST_LOOK: Duration = Duration::from_micros(50);

/// The stack of a thread that catches programs, in bytes: there may be hundreds of them.
const CATCHER_STACK: usize = 256 << 10;

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
    /// A thread could not be started.
    #[error("cannot start the threads that watch for BPF programs")]
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
    /// How many CPUs' loads were not seen, or not up to the end.
    pub n_unwatched_cpus: u64,
    /// Why later programs were not saved, if that is so.
    pub ended_early: Option<String>,
}

/// The threads that save programs while they live.
#[derive(Debug)]
pub struct Sideband {
    thread: JoinHandle<Outcome>,
    _bell: Bell,
}

/// Ends the threads on all CPUs when it is dropped.
#[derive(Debug)]
struct Bell(Arc<Doorbell>);

impl Drop for Bell {
    fn drop(&mut self) {
        if let Err(errno) = self.0.write(1) {
            // A counter that is full rings as well.
            tracing::debug!(%errno, "stop the sideband");
        }
    }
}

impl Sideband {
    /// Starts watching for programs that any task loads on `cpus`; `tables` are told where they lie.
    ///
    /// A CPU that is gone meanwhile is passed over; one whose event, ring or thread is refused is
    /// counted in [`Outcome::n_unwatched_cpus`].
    ///
    /// # Errors
    ///
    /// If that is so of all CPUs, or the kernel refuses the thread that asks.
    pub fn start(cpus: &[Cpu], tables: Option<Arc<Tables>>) -> Result<Self, Unavailable> {
        // Before the first load is told: what comes later is new.
        let watch = Watch { tables, ..Watch::new() };
        let mut refused = Vec::new();
        let catchers = Catcher::open_all(cpus, &mut refused);
        let mut n_unwatched = refused.len();
        let mut n_watched = 0;
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let bell = Doorbell::from_flags(flags).map_err(|it| Unavailable::Thread(it.into()))?;
        let bell = Bell(Arc::new(bell));
        let (sender, caught) = sync_channel(MAX_CAUGHT);
        let thread = Builder::new()
            .name("bpf-sideband".to_owned())
            .spawn(move || watch.run(&caught))
            .map_err(Unavailable::Thread)?;
        for (catcher, n) in catchers.into_iter().zip(0..) {
            let (stop, sender) = (Arc::clone(&bell.0), sender.clone());
            let n_cpus = catcher.n_cpus();
            // They end when the bell rings or nobody listens; the last of them ends the other.
            let catching = Builder::new()
                .name(format!("bpf-catch-{n}"))
                .stack_size(CATCHER_STACK)
                .spawn(move || catcher.run(&stop, &sender));
            match catching {
                Ok(_) => n_watched += n_cpus,
                Err(error) => {
                    n_unwatched += n_cpus;
                    refused.push(Unavailable::Thread(error));
                }
            }
        }
        for error in &refused {
            tracing::debug!(%error, "sideband");
        }
        if n_watched == 0
            && let Some(error) = refused.into_iter().next()
        {
            return Err(error);
        }
        if n_unwatched != 0 {
            // Where the thread has ended already that is told when it is joined.
            let _heard = sender.send(Catch::Unwatched(n_unwatched));
        }
        Ok(Self { thread, _bell: bell })
    }

    /// Stops after everything that is in the rings has been read, and hands over what was saved.
    ///
    /// To be called after sampling has ended and before the features are written, so that no
    /// program has samples and nothing else.
    pub fn stop(self) -> Outcome {
        let Self { thread, _bell: bell } = self;
        drop(bell);
        thread.join().unwrap_or_else(|_| {
            let ended_early = Some("the thread that asks for them panicked".to_owned());
            Outcome { ended_early, ..Outcome::default() }
        })
    }
}

/// What the thread knows.
#[derive(Debug, Default)]
struct Watch {
    outcome: Outcome,
    /// Filters that ask where programs lie.
    tables: Option<Arc<Tables>>,
    /// Whether records were lost since the last walk.
    has_lost: bool,
    /// Programs that await their metadata.
    awaiting: Vec<Awaiting>,
    /// Programs to look at again, the earliest first.
    again: BTreeSet<(Instant, ProgId)>,
}

/// A program that is held for its metadata.
#[derive(Debug)]
struct Awaiting {
    held: Held,
    since: Instant,
    next_look: Instant,
}

impl Watch {
    fn new() -> Self {
        let outcome = Outcome { programs: Programs::to_come(), ..Outcome::default() };
        Self { outcome, ..Self::default() }
    }

    /// Goes on until no CPU has anything to tell any more.
    fn run(mut self, caught: &Receiver<Catch>) -> Outcome {
        // Signals are for the thread that decides what they mean.
        if let Err(errno) = SigSet::all().thread_block() {
            tracing::debug!(%errno, "sideband");
        }
        if let Err(refused) =
            thread::run_first(thread::Urgency::Asking).or_else(|_| thread::prefer())
        {
            tracing::debug!(%refused, "sideband");
        }
        loop {
            let next = match self.next_look() {
                // A walk takes long: what is held comes first.
                _ if self.has_lost => caught.recv_timeout(Duration::ZERO),
                Some(at) => caught.recv_timeout(at.saturating_duration_since(Instant::now())),
                None => caught.recv().map_err(RecvTimeoutError::from),
            };
            match next {
                Ok(catch) => self.take(catch),
                Err(RecvTimeoutError::Timeout) => self.make_up_for_losses(),
                Err(RecvTimeoutError::Disconnected) => {
                    self.make_up_for_losses();
                    self.look_again(None);
                    return self.outcome;
                }
            }
            self.look_again(Some(Instant::now()));
        }
    }

    fn take(&mut self, catch: Catch) {
        let Outcome { programs, n_loads, n_lost, n_unwatched_cpus, .. } = &mut self.outcome;
        match catch {
            Catch::Loaded(id, held) => {
                *n_loads += 1;
                let since = Instant::now();
                match held {
                    Ok(held) => {
                        programs.look(&held);
                        note(self.tables.as_deref(), programs.get(id));
                        if programs.awaits_metadata(id) {
                            let next_look = since + FIRST_LOOK;
                            self.awaiting.push(Awaiting { held, since, next_look });
                        }
                        self.again.extend(LATER_LOOKS.map(|later| (since + later, id)));
                    }
                    Err(errno) => programs.miss(id, errno),
                }
            }
            Catch::Lost(lost) => {
                *n_lost += lost;
                self.has_lost = true;
            }
            Catch::Unwatched(n_cpus) => *n_unwatched_cpus += n_cpus as u64,
        }
    }

    /// Finds what still lives of the programs whose loads were lost, by asking for all new ones.
    fn make_up_for_losses(&mut self) {
        if !std::mem::take(&mut self.has_lost) {
            return;
        }
        if let Err(error) = self.outcome.programs.update() {
            tracing::debug!(%error, "walk after a loss");
        }
        note(self.tables.as_deref(), self.outcome.programs.iter());
    }

    /// Looks again at the programs whose time has come; at all if there is no `now` to wait for.
    fn look_again(&mut self, now: Option<Instant>) {
        let programs = &mut self.outcome.programs;
        self.awaiting.retain_mut(|it| {
            let Some(now) = now else {
                programs.look_again(&it.held);
                return false;
            };
            if now < it.next_look {
                return true;
            }
            programs.look_again(&it.held);
            it.next_look = now + (now - it.since);
            it.next_look < it.since + LONGEST_HOLD && programs.awaits_metadata(it.held.id())
        });
        while let Some(&(at, id)) = self.again.first() {
            if now.is_some_and(|now| now < at) {
                return;
            }
            self.again.pop_first();
            programs.refresh(id);
        }
    }

    fn next_look(&self) -> Option<Instant> {
        let awaiting = self.awaiting.iter().map(|it| it.next_look);
        awaiting.chain(self.again.first().map(|(at, _)| *at)).min()
    }
}

/// Tells filters where programs lie, if they ask.
fn note<'a>(tables: Option<&Tables>, programs: impl IntoIterator<Item = &'a Program>) {
    if let Some(Err(error)) = tables.map(|it| it.add(programs)) {
        tracing::debug!(%error, "tables of programs");
    }
}

#[cfg(test)]
mod tests {
    use nix::errno::Errno;

    use super::*;

    /// An id that the kernel does not give, as ids are positive.
    const NO_ID: ProgId = ProgId(u32::MAX);

    #[test]
    fn what_could_not_be_held_is_counted_and_so_is_what_was_lost() {
        let mut watch = Watch::default();
        watch.take(Catch::Loaded(NO_ID, Err(Errno::ENOENT)));
        watch.take(Catch::Lost(3));
        watch.take(Catch::Lost(4));
        let Outcome { programs, n_loads, n_lost, .. } = watch.outcome;
        assert_eq!((programs.skipped().n_vanished, n_loads, n_lost), (1, 1, 7));
    }

    #[test]
    fn losses_are_made_up_for_once_when_nothing_else_is_to_be_done() {
        let mut watch = Watch::default();
        watch.take(Catch::Lost(3));
        watch.take(Catch::Lost(4));
        assert!(watch.has_lost);
        assert_eq!(watch.outcome.programs.iter().len(), 0);
        watch.make_up_for_losses();
        assert!(!watch.has_lost);
    }

    #[test]
    fn cpus_that_cannot_be_watched_to_the_end_are_counted() {
        let (sender, caught) = sync_channel(2);
        sender.send(Catch::Unwatched(1)).unwrap();
        sender.send(Catch::Unwatched(2)).unwrap();
        drop(sender);
        assert_eq!(Watch::default().run(&caught).n_unwatched_cpus, 3);
    }

    #[test]
    fn a_program_is_looked_at_again_when_it_is_time() {
        let mut watch = Watch::default();
        let now = Instant::now();
        let later = now + Duration::from_secs(1);
        watch.again.extend([(later, NO_ID), (now, NO_ID)]);
        assert_eq!(watch.next_look(), Some(now));
        watch.look_again(Some(now));
        assert_eq!(watch.next_look(), Some(later));
        watch.look_again(None);
        assert_eq!(watch.next_look(), None);
    }
}
