//! Processes that made code themselves, and which of the maps that they wrote is whose.
//!
//! A map is known by the number of a process alone, `/tmp/perf-PID.map`. A process that becomes
//! another program by exec goes on with the number, and when it is gone another one may get it. So
//! a map is of the last of those with its number that made code and had begun when the map was last
//! written to. Where the times are not known, and there are several, it is nobody's.

use std::fmt;

use rustc_hash::FxHashMap;

use crate::symbols::PerfMap;
use crate::units::Nanos;
use crate::units::Pid;

use super::Index;

/// A map that was found by the number of a process.
#[derive(Debug)]
pub struct WrittenMap {
    /// What is in it.
    pub map: PerfMap,
    /// When it was last written to, since 1970.
    pub written: Option<Nanos>,
}

/// Why code that a process made has no names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unnamed {
    /// Nobody told of it.
    Absent,
    /// The recording is of another machine, or of an earlier boot, or does not tell of which.
    MadeElsewhere,
    /// What tells of it belongs to neither whoever reads nor root.
    OfAnotherUser,
    /// What tells of it was written to after the recording had ended, and the process is gone.
    WrittenSince,
    /// What tells of it is, or may be, of another program that had the same number.
    OfAnotherProgram,
}

impl fmt::Display for Unnamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "not told by whoever made it",
            Self::MadeElsewhere => "not known to be recorded on this machine since it booted",
            Self::OfAnotherUser => "told by a file of another user",
            Self::WrittenSince => "told by a file that was written to after the recording",
            Self::OfAnotherProgram => "told by a file that may be of another program",
        })
    }
}

/// Those who made code, by the number of their process.
#[derive(Debug, Default)]
pub(super) struct Makers(FxHashMap<Pid, Vec<Maker>>);

/// A process from one fork or exec to the next, in which it made code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Maker {
    generation: u32,
    /// When it began, since 1970, if the recording has that.
    began: Option<Nanos>,
}

/// How much older than its only possible writer a map may seem: what clocks are wrong by, and more.
const SLACK_NS: u64 = 2_000_000_000;

impl Makers {
    /// Those of `index`.
    pub(super) fn new(index: &Index) -> Self {
        let mut this = Self::default();
        let mappings = index.timeline.mappings().iter();
        for it in mappings.filter(|it| it.jit_pid != Pid(0) && it.is_executable) {
            let began = index.timeline.began(it.jit_pid, it.jit_generation);
            let began = began.filter(|it| it.0 != 0).and_then(|it| index.wall_clock.at(it));
            this.note(it.jit_pid, Maker { generation: it.jit_generation, began });
        }
        this
    }

    fn note(&mut self, pid: Pid, maker: Maker) {
        let makers = self.0.entry(pid).or_default();
        if let Err(idx) = makers.binary_search_by_key(&maker.generation, |it| it.generation) {
            makers.insert(idx, maker);
        }
    }

    /// Whether a map of `pid` that was last written to when it was `written` is of the process in this
    /// `generation`.
    pub(super) fn is_of(&self, pid: Pid, generation: u32, written: Option<Nanos>) -> bool {
        let makers = self.0.get(&pid).map(Vec::as_slice).unwrap_or_default();
        match makers {
            [] => false,
            [only] => {
                let is_older = only
                    .began
                    .zip(written)
                    .is_some_and(|(began, written)| written.0.saturating_add(SLACK_NS) < began.0);
                only.generation == generation && !is_older
            }
            [_, later @ ..] => {
                let Some(written) = written else { return false };
                if later.iter().any(|it| it.began.is_none()) {
                    return false;
                }
                let has_begun = |it: &&Maker| it.began.is_none_or(|it| it <= written);
                let last = makers.iter().rev().find(has_begun);
                last.is_some_and(|it| it.generation == generation)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PID: Pid = Pid(7);

    /// Whose a map is that was written to at a time in seconds, where processes with the number began when
    /// it is told.
    #[track_caller]
    fn check(began: &[Option<u64>], written: Option<u64>, want: Option<u32>) {
        let time = |seconds: u64| Nanos(seconds * 1_000_000_000);
        let mut makers = Makers::default();
        // The last ones first.
        for (idx, began) in began.iter().enumerate().rev() {
            let generation = u32::try_from(idx).unwrap();
            makers.note(PID, Maker { generation, began: began.map(time) });
            makers.note(PID, Maker { generation, began: None });
        }
        let written = written.map(time);
        let whose = (0..9).find(|it| makers.is_of(PID, *it, written));
        assert_eq!(whose, want, "{began:?} {written:?}");
        assert!(!makers.is_of(Pid(8), 0, written));
    }

    #[test]
    fn a_map_is_of_the_last_program_that_had_begun_when_it_was_written() {
        let began = [None, Some(100), Some(200)];
        check(&began, Some(99), Some(0));
        check(&began, Some(100), Some(1));
        check(&began, Some(199), Some(1));
        check(&began, Some(200), Some(2));
        check(&began, Some(5000), Some(2));
    }

    #[test]
    fn where_times_are_not_known_a_map_is_of_the_only_program_or_of_none() {
        check(&[None, Some(100)], None, None);
        check(&[None, None], Some(100), None);
        check(&[None], None, Some(0));
        check(&[None], Some(5), Some(0));
        check(&[Some(100)], Some(99), Some(0));
        check(&[Some(100)], Some(90), None);
        check(&[], Some(90), None);
    }
}
