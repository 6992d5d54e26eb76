//! What a flight recorder remembers beside its rings: who mapped and loaded what, and when.

use std::collections::VecDeque;
use std::io::IoSlice;

use crate::perfdata::RecordHeader;
use crate::perfdata::RecordKind;

use super::hop;
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

    /// Adds what is worth it of whole records: what tells of tasks and programs, and of losses.
    pub(super) fn remember(&mut self, records: &[u8]) {
        let kept = filter(records, |kind| is_side(kind) || kind == RecordKind::LOST);
        if kept.is_empty() {
            return;
        }
        self.n_bytes += kept.len();
        self.rounds.push_back(kept);
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
        self.remember(&records.iter().flat_map(|it| it.iter().copied()).collect::<Vec<u8>>());
    }

    fn end_round(&mut self, _: &[u8]) {
        // All that is remembered becomes one round.
    }
}

/// The records that tell of tasks and programs, of whole records.
pub(super) fn side_records(records: &[u8]) -> Vec<u8> {
    filter(records, is_side)
}

fn is_side(kind: RecordKind) -> bool {
    matches!(
        kind,
        RecordKind::MMAP
            | RecordKind::MMAP2
            | RecordKind::COMM
            | RecordKind::FORK
            | RecordKind::EXIT
            | RecordKind::NAMESPACES
            | RecordKind::CGROUP
            | RecordKind::KSYMBOL
            | RecordKind::BPF_EVENT
            | RecordKind::TEXT_POKE
    )
}

fn filter(mut records: &[u8], is_kept: impl Fn(RecordKind) -> bool) -> Vec<u8> {
    let mut kept = Vec::new();
    while let Some(word) = records.first_chunk() {
        let (kind, size) = hop::header_of(u64::from_ne_bytes(*word));
        let size = size.max(usize::from(RecordHeader::SIZE));
        let Some((record, rest)) = records.split_at_checked(size) else { break };
        if is_kept(kind) {
            kept.extend_from_slice(record);
        }
        records = rest;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::pump;

    fn record(kind: RecordKind, size: u16) -> Vec<u8> {
        let mut record = [&kind.0.to_ne_bytes()[..], &[0, 0], &size.to_ne_bytes()].concat();
        record.resize(usize::from(size), 7);
        record
    }

    fn add(history: &mut History, records: &[u8]) {
        history.push(&[IoSlice::new(records)]);
        history.end_round(&pump::FINISHED_ROUND);
    }

    #[test]
    fn rounds_become_one_without_their_ends() {
        let (comm, fork) = (record(RecordKind::COMM, 16), record(RecordKind::FORK, 24));
        let mut history = History::default();
        add(&mut history, &comm);
        add(&mut history, &fork);
        assert_eq!(history.take(), [comm, fork].concat());
        assert_eq!((history.take(), history.take_forgotten()), (Vec::new(), false));
    }

    #[test]
    fn what_tells_of_no_task_and_no_program_is_not_remembered_and_a_loss_told_once() {
        let comm = record(RecordKind::COMM, 16);
        let lost = record(RecordKind::LOST, 24);
        let switch = record(RecordKind::SWITCH, 8);
        let sample = record(RecordKind::SAMPLE, 40);
        let all = [&sample[..], &comm, &pump::FINISHED_ROUND, &switch, &lost].concat();
        assert_eq!(side_records(&all), comm);
        assert_eq!(side_records(&sample[..12]), [0; 0]);
        let mut history = History::default();
        history.remember(&all);
        assert_eq!(history.take(), [comm, lost].concat());
    }

    #[test]
    fn the_oldest_is_forgotten_and_that_is_told_once() {
        let long = record(RecordKind::MMAP2, 32768);
        let n = BYTES_MAX / long.len();
        let mut history = History::default();
        add(&mut history, &record(RecordKind::COMM, 16));
        (0..n).for_each(|_| add(&mut history, &long));
        assert!(history.take_forgotten() && !history.take_forgotten());
        assert_eq!(history.take(), long.repeat(n));
    }
}
