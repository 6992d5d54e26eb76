//! What a flight recorder remembers beside its rings: who mapped and loaded what, and when.

use std::collections::VecDeque;
use std::io::IoSlice;

use super::pump::Sink;

/// Records that are in memory and in no file yet.
#[derive(Debug)]
pub(super) enum Kept {
    /// All that came, until there is a file.
    All(Vec<u8>),
    /// The latest of what tells of tasks and programs, until somebody asks for it.
    Latest(History),
}

impl Default for Kept {
    fn default() -> Self {
        Self::All(Vec::new())
    }
}

impl Sink for Kept {
    fn push(&mut self, records: &[IoSlice<'_>]) {
        match self {
            Self::All(all) => Sink::push(all, records),
            Self::Latest(latest) => latest.push(records),
        }
    }

    fn end_round(&mut self, mark: &[u8]) {
        match self {
            Self::All(all) => all.end_round(mark),
            Self::Latest(latest) => latest.end_round(mark),
        }
    }
}

/// The most bytes that are remembered; what is older is forgotten.
const BYTES_MAX: usize = 16 << 20;

/// Rounds of side records, the oldest first.
#[derive(Debug, Default)]
pub(super) struct History {
    rounds: VecDeque<Vec<u8>>,
    n_bytes: usize,
    has_forgotten: bool,
}

impl History {
    /// All that is remembered, which is no longer here then.
    pub(super) fn take(&mut self) -> Vec<u8> {
        self.n_bytes = 0;
        self.rounds.drain(..).flatten().collect()
    }

    /// Adds whole records.
    pub(super) fn remember(&mut self, records: Vec<u8>) {
        self.n_bytes += records.len();
        self.rounds.push_back(records);
        while BYTES_MAX < self.n_bytes
            && let Some(oldest) = self.rounds.pop_front()
        {
            self.n_bytes -= oldest.len();
            self.has_forgotten = true;
        }
    }

    /// Whether something was forgotten since this was asked last.
    pub(super) fn take_forgotten(&mut self) -> bool {
        std::mem::take(&mut self.has_forgotten)
    }
}

impl Sink for History {
    fn push(&mut self, records: &[IoSlice<'_>]) {
        self.remember(records.iter().flat_map(|it| it.iter().copied()).collect());
    }

    fn end_round(&mut self, _: &[u8]) {
        // All that is remembered becomes one round.
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(history: &mut History, records: &[u8]) {
        history.push(&[IoSlice::new(records)]);
        history.end_round(b"end");
    }

    #[test]
    fn rounds_become_one_without_their_ends() {
        let mut history = History::default();
        add(&mut history, b"ab");
        add(&mut history, b"cd");
        assert_eq!(history.take(), b"abcd");
        assert_eq!((history.take(), history.take_forgotten()), (Vec::new(), false));
    }

    #[test]
    fn the_oldest_is_forgotten_and_that_is_told_once() {
        let mut history = History::default();
        add(&mut history, b"old");
        add(&mut history, &vec![7; BYTES_MAX - 1]);
        add(&mut history, b"x");
        assert!(history.take_forgotten() && !history.take_forgotten());
        assert_eq!(history.take().len(), BYTES_MAX);
    }
}
