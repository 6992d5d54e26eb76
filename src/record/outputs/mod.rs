//! Events into which BPF programs write samples of their own, each with a ring of its own per CPU.
//!
//! ```text
//!   a round:   copy output rings -> drain all other rings -> sift the copy -> end of the round
//! ```
//!
//! The kernel lets a program write into the events of CPUs alone, so that what everybody's tasks make
//! it write comes along: who is not of the target is sifted out. The copy is made first, so that the
//! fork of each task in it has been seen when it is judged: a task is born before it does anything.
//!
//! Sources: `__bpf_perf_event_output()` in `kernel/trace/bpf_trace.c`, which refuses any event that is
//! not on the CPU, and `copy_process()` in `kernel/fork.c`.

mod latest;
mod messages;
mod of_objects;
mod sieve;
mod tasks;

use std::io::IoSlice;
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::Instant;

use crate::events::CallChains;
use crate::events::OfObject;
use crate::perfdata::RecordHeader;
use crate::perfdata::RecordKind;
use crate::perfdata::SampleType;
use crate::sys::message_ring::MessageRing;

pub(super) use latest::Latest;
pub(super) use messages::Form;
use messages::Messages;
use messages::Taken;
pub(super) use of_objects::take_events;
pub(super) use sieve::SamplePlaces;
pub(super) use sieve::Sieve;
pub(super) use sieve::Sifted;
pub(super) use tasks::Tasks;

use super::control::Sampling;
use super::hop;
use super::hop::Places;
use super::hop::Tally;
use super::open::Opened;
use super::plan::Role;
use super::pump;
use super::pump::Sink;
use super::pump::Source;
use super::rings::CpuRing;

/// An event that a BPF program is to write into.
#[derive(Clone, Debug)]
pub(super) struct OutputEvent {
    /// What it is called.
    pub(super) name: String,
    /// What its samples know of their callers.
    pub(super) call_graph: CallChains,
    /// The most frames of these; 0 for the kernel's own limit.
    pub(super) max_stack: u16,
    /// Further fields of its samples, beside those that all events have.
    pub(super) fields: SampleType,
    /// The folder of the cgroup whose tasks alone they are of.
    pub(super) cgroup: Option<PathBuf>,
    /// How they come.
    pub(super) through: Through,
    /// What becomes of them.
    pub(super) sieve: Sieve,
    /// The part of a BPF object that it is.
    pub(super) object: Option<OfObject>,
}

/// How the samples of an output event come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Through {
    /// Through rings of events, one a CPU.
    Events,
    /// Through a ring of messages, which is read here: the event is there for its name and id.
    Messages,
    /// Not at all: its program writes elsewhere, if anywhere.
    Nothing,
}

/// What came of an output event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputTally {
    /// The event.
    pub event: String,
    /// The samples of the target.
    pub kept: u64,
    /// The samples of others, which are in no file.
    pub of_others: u64,
    /// The messages that are longer than a record can be, which are in no file either.
    pub too_long: u64,
}

/// An event, what becomes of its samples, and what came.
#[derive(Debug)]
struct Post {
    places: SamplePlaces,
    sieve: Sieve,
    tally: OutputTally,
}

/// The rings of all output events.
#[derive(Debug)]
pub(super) struct Outputs<R = CpuRing> {
    posts: Vec<Post>,
    /// The rings, each with the place of its event in `posts`.
    rings: Vec<(usize, R)>,
    /// The rings of messages, each with the place of its event in `posts`.
    messages: Vec<(usize, Messages)>,
    tasks: Tasks,
    /// The samples that are kept, where only the latest are.
    latest: Option<Latest>,
    /// What was copied, by event, and what was sifted; empty between rounds.
    copied: Vec<(usize, Vec<u8>)>,
    sifted: Vec<u8>,
}

impl<R> Default for Outputs<R> {
    fn default() -> Self {
        Self {
            posts: Vec::new(),
            rings: Vec::new(),
            messages: Vec::new(),
            tasks: Tasks::default(),
            latest: None,
            copied: Vec::new(),
            sifted: Vec::new(),
        }
    }
}

impl Outputs {
    /// The rings of `opened`, whose events of this kind are those of `events`, in their order; each
    /// ring comes with the place of its event in `opened`.
    pub(super) fn new<Fd>(
        events: &[OutputEvent],
        opened: &[Opened<Fd>],
        rings: Vec<(usize, CpuRing)>,
        tasks: Tasks,
        latest: Option<Latest>,
    ) -> Self {
        let of_role: Vec<(usize, &Opened<Fd>)> =
            opened.iter().enumerate().filter(|(_, it)| it.role == Role::Output).collect();
        let post = |(event, (_, opened)): (&OutputEvent, &(usize, &Opened<Fd>))| Post {
            places: SamplePlaces::new(&opened.attr),
            sieve: event.sieve.clone(),
            tally: OutputTally { event: opened.name.clone(), ..OutputTally::default() },
        };
        let posts = events.iter().zip(&of_role).map(post).collect();
        let post_at = |at: usize| of_role.iter().position(|(it, _)| *it == at);
        let rings = rings.into_iter().filter_map(|(at, ring)| Some((post_at(at)?, ring))).collect();
        Self { posts, rings, tasks, latest, ..Self::default() }
    }

    /// Adds the ring of messages of the output event at `post`, whose times are on the clock of this
    /// number.
    pub(super) fn add_messages(&mut self, post: usize, ring: MessageRing, form: Form, clock: i32) {
        self.messages.push((post, Messages::new(ring, form, clock)));
    }

    /// Turns on or off what the kernel does not: the messages of the event `name`, or of all.
    pub(super) fn turn(&mut self, sampling: Sampling, name: Option<&str>) {
        for (post, messages) in &mut self.messages {
            let event = self.posts.get(*post).map(|it| &*it.tally.event);
            if name.is_none() || name == event {
                messages.turn(sampling);
            }
        }
    }

    /// What to wait at: rings, and what has something to read when there are messages.
    pub(super) fn wait_at(
        &mut self,
    ) -> (impl Iterator<Item = &mut CpuRing>, impl Iterator<Item = BorrowedFd<'_>>) {
        let rings = self.rings.iter_mut().map(|(_, ring)| ring);
        let now = Instant::now();
        let is_awake = move |it: &Messages| it.rests_until().is_none_or(|until| until <= now);
        let messages = self.messages.iter().map(|(_, it)| it).filter(move |it| is_awake(it));
        (rings, messages.map(|it| it.ring().as_fd()))
    }

    /// When messages are to be looked for that nobody waits for until then.
    pub(super) fn rest_until(&self) -> Option<Instant> {
        self.messages.iter().filter_map(|(_, it)| it.rests_until()).min()
    }
}

impl<R: Source> Outputs<R> {
    /// Whether it matters who comes and goes.
    pub(super) fn wants_tasks(&self) -> bool {
        !self.posts.is_empty() && self.tasks != Tasks::Everyone
    }

    /// What came of each event.
    pub(super) fn tallies(&self) -> Vec<OutputTally> {
        self.posts.iter().map(|it| it.tally.clone()).collect()
    }

    /// Takes all that is in `rings` and in the output rings into `sink` and, if something was, ends
    /// the round with `mark`. Returns how many bytes came, few messages left out.
    pub(super) fn round<S: Source>(
        &mut self,
        rings: &mut [S],
        sink: &mut impl Sink,
        tally: &mut Tally,
        places: Places,
        mark: &[u8],
    ) -> usize {
        self.copy();
        let len_of_few = self.take_messages();
        let mut news = Vec::new();
        let mut n_bytes = pump::take(rings, sink, tally, places, &mut news);
        if !self.posts.is_empty() {
            self.tasks.note(&news);
            self.sift(tally);
            self.tasks.settle();
        }
        if let Some(latest) = &mut self.latest {
            latest.push(std::mem::take(&mut self.sifted));
        } else if !self.sifted.is_empty() {
            n_bytes += self.sifted.len();
            tally.walk(&self.sifted, places);
            sink.push(&[IoSlice::new(&self.sifted)]);
            self.sifted.clear();
        }
        if n_bytes != 0 {
            sink.end_round(mark);
        }
        n_bytes.saturating_sub(len_of_few)
    }

    /// The latest samples, where only these are kept.
    pub(super) fn take_latest(&mut self, tally: &mut Tally, places: Places) -> Vec<u8> {
        let latest = self.latest.as_mut().map(Latest::take).unwrap_or_default();
        tally.walk(&latest, places);
        latest
    }

    /// Takes a copy of all that is unread.
    fn copy(&mut self) {
        for (post, ring) in &mut self.rings {
            let (first, second) = ring.unread();
            let len = first.len() + second.len();
            if len != 0 {
                self.copied.push((*post, [first, second].concat()));
                ring.consume(len);
            }
        }
    }

    /// Takes what came by messages, which are everyone's. Returns how many bytes are of so few that
    /// there is time for the next.
    fn take_messages(&mut self) -> usize {
        let mut len_of_few = 0;
        for (at, messages) in &mut self.messages {
            let Some(post) = self.posts.get_mut(*at) else { continue };
            let before = self.sifted.len();
            let Taken { n_taken, n_too_long } = messages.take(&mut self.sifted);
            post.tally.kept += n_taken;
            post.tally.too_long += n_too_long;
            if messages.rests_until().is_some() {
                len_of_few += self.sifted.len() - before;
            }
        }
        len_of_few
    }

    /// Sifts what was copied; other records than samples stay as they are.
    fn sift(&mut self, tally: &mut Tally) {
        for (at, records) in self.copied.drain(..) {
            let Some(post) = self.posts.get_mut(at) else { continue };
            let mut rest = &records[..];
            while !rest.is_empty() {
                let header = rest.first_chunk().map(|it| hop::header_of(u64::from_ne_bytes(*it)));
                let (kind, size) = header.unwrap_or((RecordKind(0), 0));
                let is_record = usize::from(RecordHeader::SIZE) <= size;
                let record = rest.split_at_checked(size).filter(|_| is_record);
                let Some((record, behind)) = record else {
                    // Something else than the kernel wrote there; nobody knows where the next begins.
                    tally.corrupt += 1;
                    break;
                };
                rest = behind;
                if kind != RecordKind::SAMPLE {
                    self.sifted.extend_from_slice(record);
                    continue;
                }
                match post.sieve.sift(record, post.places, &self.tasks, &mut self.sifted) {
                    Sifted::Kept => post.tally.kept += 1,
                    Sifted::OfOthers => post.tally.of_others += 1,
                    Sifted::Nothing => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
