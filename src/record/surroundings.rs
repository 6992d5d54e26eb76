//! What BPF programs stand among, and what they cost: noted beside the recording, on a thread of its
//! own, so that neither its start nor its rounds wait.
//!
//! ```text
//!   at once            tracepoints' programs, links, pins, holders
//!   sampling begins    counters of all programs, read by who begins it: this thread may be busy
//!   each TICK          if programs or links have come: links and tracepoints' programs; pins and
//!                      holders, too, unless looking for them costs too much
//!   each second        counters, while the kernel counts, so that a program that goes has a last one
//!   when told to stop  counters, tracepoints' programs, and a look if something has come
//! ```
//!
//! What is found goes into the recording as private records, as it comes.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;

use nix::sys::eventfd::EfdFlags;
use nix::sys::eventfd::EventFd as Doorbell;
use nix::sys::signal::SigSet;
use nix::time::ClockId;
use nix::time::clock_gettime;

use crate::bpf::Depth;
use crate::bpf::Readings;
use crate::bpf::Survey;
use crate::bpf::all_counters;
use crate::perfdata::private::Attached;
use crate::perfdata::private::Message;
use crate::perfdata::private::TracepointPrograms;
use crate::sys::bpf_counters::ProgCounters;
use crate::sys::perf_event::EventFd;

/// How often the thread asks whether programs or links have come: two system calls.
const TICK: Duration = Duration::from_millis(200);

/// How often counters are read while the kernel counts.
const READING: Duration = Duration::from_secs(1);

/// The most tracepoints that are asked for their programs each tick: a system call each.
const ASKED_EACH_TICK: usize = 64;

/// How many times the CPU time that it took a look is put off: looks take two percent of a CPU.
const REST: u32 = 50;

/// How long the recording's end waits for a look: thousands of processes take longer.
const PATIENCE: Duration = Duration::from_millis(50);

/// Whether the kernel counts the runs of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counting {
    /// It does.
    Yes,
    /// It does not, or nobody knows.
    No,
}

/// A tracepoint that is recorded.
#[derive(Debug)]
pub(super) struct Tracepoint {
    /// The event's name, such as `sched:sched_switch`.
    pub(super) event: String,
    /// One of its instances.
    pub(super) fd: EventFd,
}

/// The thread, and what it has found.
#[derive(Debug)]
pub(super) struct Surroundings {
    thread: JoinHandle<Outcome>,
    turns: Sender<Turn>,
    /// Set before the other end of `turns` is told to stop, for the midst of a look.
    is_ending: Arc<AtomicBool>,
    found: Receiver<Message>,
    /// Rings when something was found.
    bell: Arc<Doorbell>,
}

/// What the recording tells the thread.
#[derive(Debug)]
enum Turn {
    /// Sampling begins, with these counters at that time since boot in ns.
    Begins(Vec<ProgCounters>, u64),
    /// Sampling has ended.
    Ends,
}

/// What is left to tell when the thread has ended.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// What was found last.
    pub(super) messages: Vec<Message>,
    /// The programs that were seen on recorded tracepoints at any time.
    pub(super) tracepoints: Vec<TracepointPrograms>,
    /// How many files of bpffs were left out, since there are too many.
    pub(super) n_pins: u64,
    /// How many processes were left out, since there was no time for them.
    pub(super) n_processes: u64,
}

impl Surroundings {
    /// Begins to look; `None` where no thread or no bell can be had.
    pub(super) fn start(counting: Counting, tracepoints: Vec<Tracepoint>) -> Option<Self> {
        let (turns, told) = mpsc::channel();
        let (tell, found) = mpsc::channel();
        let is_ending = Arc::new(AtomicBool::new(false));
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let bell = Doorbell::from_flags(flags)
            .inspect_err(|errno| tracing::debug!(%errno, "survey"))
            .ok()?;
        let bell = Arc::new(bell);
        let watch = Watch {
            counting,
            tracepoints,
            tell,
            bell: Arc::clone(&bell),
            is_ending: Arc::clone(&is_ending),
            ends: Cell::new(None),
            survey: Survey::default(),
            readings: Readings::default(),
            seen: BTreeMap::new(),
            told: BTreeMap::new(),
        };
        let thread = std::thread::Builder::new()
            .name("bpf-survey".to_owned())
            .spawn(move || watch.run(&told))
            .inspect_err(|error| tracing::debug!(%error, "survey"))
            .ok()?;
        Some(Self { thread, turns, is_ending, found, bell })
    }

    /// Takes the first reading of the counters: runs are counted from here on.
    ///
    /// To be called right before sampling begins.
    pub(super) fn begin(&self) {
        let at = boot_ns();
        match all_counters() {
            // Where the thread has ended already nobody listens.
            Ok(programs) => drop(self.turns.send(Turn::Begins(programs, at))),
            Err(errno) => tracing::debug!(%errno, "counters"),
        }
    }

    /// What becomes readable when something is found.
    pub(super) fn poll_at(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// What was found and not yet taken.
    pub(super) fn take(&self) -> Vec<Message> {
        if self.bell.read().is_err() {
            // It has not rung.
            return Vec::new();
        }
        self.found.try_iter().collect()
    }

    /// Takes the last readings and ends.
    ///
    /// To be called while the kernel still counts.
    pub(super) fn stop(self) -> Outcome {
        // Relaxed: the flag says nothing of other memory.
        self.is_ending.store(true, Ordering::Relaxed);
        // Where the thread has ended already nobody listens.
        let _heard = self.turns.send(Turn::Ends);
        let mut outcome = self.thread.join().unwrap_or_default();
        outcome.messages = self.found.try_iter().collect();
        outcome
    }
}

/// Adds the programs of a tracepoint to those that were `seen` there, by event.
pub(super) fn note_seen(
    seen: &mut BTreeMap<String, TracepointPrograms>,
    found: TracepointPrograms,
) {
    let Some(known) = seen.get_mut(&found.event) else {
        seen.insert(found.event.clone(), found);
        return;
    };
    let key = |it: &Attached| (it.id, it.load_time_ns, it.how.clone());
    for program in found.programs {
        if known.programs.iter().all(|it| key(it) != key(&program)) {
            known.programs.push(program);
        }
    }
    known.n_programs = known.n_programs.max(found.n_programs);
}

/// Which tracepoints to tell of, of those that have programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tell {
    /// Those with other programs than were told last.
    Changes,
    /// Each.
    All,
}

/// What the thread knows.
struct Watch {
    counting: Counting,
    tracepoints: Vec<Tracepoint>,
    tell: Sender<Message>,
    bell: Arc<Doorbell>,
    is_ending: Arc<AtomicBool>,
    /// Until when to look, once the recording ends.
    ends: Cell<Option<Instant>>,
    survey: Survey,
    readings: Readings,
    /// By event, all that was ever seen on it.
    seen: BTreeMap<String, TracepointPrograms>,
    /// By event, what was told last.
    told: BTreeMap<String, TracepointPrograms>,
}

impl Watch {
    fn run(mut self, turns: &Receiver<Turn>) -> Outcome {
        // Signals are for the thread that decides what they mean.
        if let Err(errno) = SigSet::all().thread_block() {
            tracing::debug!(%errno, "survey");
        }
        if !self.tracepoints.is_empty() {
            self.look(Depth::Links);
            self.ask_tracepoints(Tell::Changes);
        }
        let mut next_deep_look = self.look(Depth::Holders);
        let (mut next_look, mut has_newer) = (Instant::now(), false);
        let mut next_reading = None;
        loop {
            match turns.recv_timeout(TICK) {
                Ok(Turn::Begins(programs, at)) => {
                    self.take(&programs, at);
                    self.tell_runs();
                    next_reading = Some(Instant::now() + READING);
                    continue;
                }
                Ok(Turn::Ends) => break,
                Err(RecvTimeoutError::Timeout) => {}
                // The recording has failed.
                Err(RecvTimeoutError::Disconnected) => return Outcome::default(),
            }
            let now = Instant::now();
            if self.counting == Counting::Yes && next_reading.is_some_and(|it| it <= now) {
                let began = cpu_time();
                self.read();
                let rest = cpu_time().saturating_sub(began) * REST;
                next_reading = Some(now + READING.max(rest));
            }
            // A program that is attached without a link, and may be gone at the end, is no news.
            if self.tracepoints.len() <= ASKED_EACH_TICK {
                self.ask_tracepoints(Tell::Changes);
            }
            if next_look <= now && self.survey.has_news() {
                next_look = self.look(Depth::Links);
                self.ask_tracepoints(Tell::Changes);
                has_newer = true;
            }
            if next_deep_look <= now && has_newer {
                next_deep_look = self.look(Depth::Holders);
                has_newer = false;
            }
        }
        if next_reading.is_some() {
            self.read();
            self.tell_runs();
        }
        if has_newer || self.survey.has_news() {
            self.look(Depth::Holders);
        }
        self.ask_tracepoints(Tell::All);
        let (n_pins, n_processes) = self.survey.gaps();
        let tracepoints = self.seen.into_values().collect();
        Outcome { messages: Vec::new(), tracepoints, n_pins, n_processes }
    }

    /// Reads the counters.
    fn read(&mut self) {
        match all_counters() {
            Ok(programs) => self.take(&programs, boot_ns()),
            Err(errno) => tracing::debug!(%errno, "counters"),
        }
    }

    /// Takes a reading, and tells the last ones of programs that have gone.
    fn take(&mut self, programs: &[ProgCounters], at: u64) {
        if let Some(gone) = self.readings.take(programs, at, self.counting == Counting::Yes) {
            self.tell(Message::Runs(gone));
        }
    }

    fn tell_runs(&self) {
        let runs = self.readings.all(self.counting == Counting::Yes);
        if self.counting == Counting::Yes || !runs.programs.is_empty() {
            self.tell(Message::Runs(runs));
        }
    }

    /// Looks, and returns when to look again at the earliest.
    fn look(&mut self, depth: Depth) -> Instant {
        let began = cpu_time();
        // One deadline for all that is left to do once the recording ends.
        let (ends, is_ending) = (&self.ends, &self.is_ending);
        let has_time = || {
            if ends.get().is_none() && is_ending.load(Ordering::Relaxed) {
                ends.set(Some(Instant::now() + PATIENCE));
            }
            ends.get().is_none_or(|it| Instant::now() < it)
        };
        match all_counters() {
            Ok(programs) => {
                let n_programs = programs.len();
                let states = self.survey.look(programs, depth, boot_ns(), &has_time);
                let n_news = states.len();
                let took = cpu_time().saturating_sub(began);
                tracing::debug!(n_programs, n_news, ?depth, ?took, "looked at programs");
                for state in states {
                    self.tell(Message::Program(state));
                }
            }
            Err(errno) => tracing::debug!(%errno, "look at programs"),
        }
        Instant::now() + cpu_time().saturating_sub(began) * REST
    }

    fn ask_tracepoints(&mut self, tell: Tell) {
        for tracepoint in std::mem::take(&mut self.tracepoints) {
            let answer = tracepoint.fd.programs();
            let found = self.survey.on_tracepoint(&tracepoint.event, &answer, boot_ns());
            let told = self.told.get(&found.event);
            let is_empty = found.programs.is_empty() && found.n_programs == 0;
            let is_something = !is_empty || found.refused.is_some() || told.is_some();
            let is_known = told.is_some_and(|it| {
                *it == TracepointPrograms { boot_ns: it.boot_ns, ..found.clone() }
            });
            if is_something && (tell == Tell::All || !is_known) {
                self.tell(Message::Tracepoint(found.clone()));
                self.told.insert(found.event.clone(), found.clone());
                note_seen(&mut self.seen, found);
            }
            self.tracepoints.push(tracepoint);
        }
    }

    fn tell(&self, message: Message) {
        // Where nobody listens any more the recording has failed, which is told elsewhere.
        let _heard = self.tell.send(message);
        if let Err(errno) = self.bell.write(1) {
            // A counter that is full has rung.
            tracing::trace!(%errno, "bell");
        }
    }
}

/// How long the calling thread has run.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// The time since boot in ns, as programs' load times have it.
pub(super) fn boot_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME);
    now.map_or(0, |it| u64::try_from(Duration::from(it).as_nanos()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The counters of a program with an id that the kernel does not give.
    fn counters() -> Vec<ProgCounters> {
        vec![ProgCounters { id: u32::MAX, run_cnt: 3, ..ProgCounters::default() }]
    }

    /// The moments of the readings that are told if the thread hears `turns`.
    fn readings(turns: Vec<Turn>) -> Vec<u64> {
        let (tell, found) = mpsc::channel();
        let (sender, told) = mpsc::channel();
        for turn in turns {
            sender.send(turn).unwrap();
        }
        let watch = Watch {
            counting: Counting::Yes,
            tracepoints: Vec::new(),
            tell,
            bell: Arc::new(Doorbell::new().unwrap()),
            is_ending: Arc::new(AtomicBool::new(true)),
            ends: Cell::new(None),
            survey: Survey::default(),
            readings: Readings::default(),
            seen: BTreeMap::new(),
            told: BTreeMap::new(),
        };
        watch.run(&told);
        let runs = found.try_iter().filter_map(|it| match it {
            Message::Runs(runs) => Some(runs.boot_ns),
            _ => None,
        });
        runs.collect()
    }

    #[test]
    fn the_first_reading_is_that_of_the_beginning_of_sampling() {
        let told = readings(vec![Turn::Begins(counters(), 5), Turn::Ends]);
        assert_eq!(told.first(), Some(&5));
    }

    #[test]
    fn runs_are_not_told_of_a_recording_whose_sampling_never_began() {
        assert_eq!(readings(vec![Turn::Ends]), Vec::<u64>::new());
    }
}
