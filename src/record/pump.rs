//! From the rings to the output.

use std::io::IoSlice;
use std::ops::Range;

use crate::sys::ring::Ring;

use super::hop::Places;
use super::hop::Tally;
use super::hop::TaskNews;
use super::output::Output;

/// A ring: the kernel's, or one in a test.
pub(super) trait Source {
    /// What came and was not taken, in one piece or two.
    fn unread(&self) -> (&[u8], &[u8]);

    /// Takes so many bytes of it.
    fn consume(&mut self, len: usize);
}

impl Source for Ring {
    fn unread(&self) -> (&[u8], &[u8]) {
        Self::unread(self)
    }

    fn consume(&mut self, len: usize) {
        Self::consume(self, len);
    }
}

/// Where records go, whole ones only.
pub(super) trait Sink {
    /// Takes records over: their memory is the kernel's again afterwards.
    fn push(&mut self, records: &[IoSlice<'_>]);

    /// Ends a round, with what marks its end in a file.
    fn end_round(&mut self, mark: &[u8]);
}

impl Sink for Output {
    fn push(&mut self, records: &[IoSlice<'_>]) {
        self.push_records(records);
    }

    fn end_round(&mut self, mark: &[u8]) {
        self.push_records(&[IoSlice::new(mark)]);
        Self::end_round(self);
    }
}

impl Sink for Vec<u8> {
    fn push(&mut self, records: &[IoSlice<'_>]) {
        for bytes in records {
            self.extend_from_slice(bytes);
        }
    }

    fn end_round(&mut self, mark: &[u8]) {
        self.extend_from_slice(mark);
    }
}

/// `PERF_RECORD_FINISHED_ROUND`: every ring has been drained since the one before, so all that
/// comes is newer than what came before that.
pub(super) const FINISHED_ROUND: [u8; 8] = {
    let kind = 68_u32.to_ne_bytes();
    let size = 8_u16.to_ne_bytes();
    [kind[0], kind[1], kind[2], kind[3], 0, 0, size[0], size[1]]
};

/// Takes all that is in one ring into `sink`, which has no other's records. Returns how many bytes
/// came.
pub(super) fn drain<S: Source>(
    source: &mut S,
    sink: &mut impl Sink,
    tally: &mut Tally,
    places: Places,
) -> usize {
    let n_bytes = take(std::slice::from_mut(source), sink, tally, places, &mut Vec::new());
    if n_bytes != 0 {
        sink.end_round(&[]);
    }
    n_bytes
}

/// Takes all that is in the rings into `sink`, whose round goes on, and what `places` says is to be
/// noted of tasks into `news`.
///
/// Each ring has room again as soon as the sink has taken its records over. What comes meanwhile is
/// left for the next round, so the round ends however fast the kernel writes. Returns how many bytes
/// came.
pub(super) fn take<S: Source>(
    sources: &mut [S],
    sink: &mut impl Sink,
    tally: &mut Tally,
    places: Places,
    news: &mut Vec<TaskNews>,
) -> usize {
    let mut total = 0;
    for source in &mut *sources {
        let (first, second) = source.unread();
        let mut left = first.len() + second.len();
        total += left;
        while left != 0 {
            let (first, second) = source.unread();
            let walked = tally.hop(first, second, places);
            let mut slices = Vec::with_capacity(2);
            let mut at = 0;
            for record in &walked.overlong {
                push(first, second, at..record.at, &mut slices);
                slices.push(IoSlice::new(&record.mended));
                at = record.at + record.claimed;
            }
            push(first, second, at..walked.good, &mut slices);
            sink.push(&slices);
            source.consume(walked.taken);
            news.extend(walked.tasks);
            left = left.saturating_sub(walked.taken);
        }
    }
    tracing::trace!(bytes = total, n_rings = sources.len(), "round");
    total
}

/// Adds a range of the two pieces to `slices`, in the one piece or two that it lies in.
fn push<'a>(first: &'a [u8], second: &'a [u8], range: Range<usize>, slices: &mut Vec<IoSlice<'a>>) {
    let cut = first.len();
    let in_first = first.get(range.start.min(cut)..range.end.min(cut));
    let in_second = second.get(range.start.saturating_sub(cut)..range.end.saturating_sub(cut));
    let some = in_first.into_iter().chain(in_second).filter(|it| !it.is_empty());
    slices.extend(some.map(IoSlice::new));
}

#[cfg(test)]
mod tests {
    use super::super::hop::MOST_AT_ONCE;
    use super::super::hop::NotedTasks;
    use super::*;

    struct Fake(Vec<u8>, Vec<u8>);

    impl Source for Fake {
        fn unread(&self) -> (&[u8], &[u8]) {
            (&self.0, &self.1)
        }

        fn consume(&mut self, len: usize) {
            let all = [&self.0[..], &self.1].concat();
            (self.0, self.1) = (all[len..].to_vec(), Vec::new());
        }
    }

    /// Takes all that is in the rings and, if something was, ends the round.
    fn round(rings: &mut [Fake], sink: &mut impl Sink, tally: &mut Tally, places: Places) -> usize {
        let n_bytes = take(rings, sink, tally, places, &mut Vec::new());
        if n_bytes != 0 {
            sink.end_round(&FINISHED_ROUND);
        }
        n_bytes
    }

    const PLACES: Places = Places { time_at: Some(24), trailer_len: 0, tasks: NotedTasks::Nothing };

    const A: [u8; 8] = [14, 0, 0, 0, 0, 0, 8, 0];
    const B: [u8; 8] = [14, 0, 0, 0, 1, 0, 8, 0];

    #[test]
    fn a_round_ends_once_and_only_if_something_came() {
        let wrapped = Fake(A[..3].to_vec(), [&A[3..], &B].concat());
        let mut rings = [Fake(B.to_vec(), Vec::new()), wrapped, Fake(Vec::new(), Vec::new())];
        let (mut file, mut tally) = (Vec::new(), Tally::default());
        assert_eq!(round(&mut rings, &mut file, &mut tally, PLACES), 24);
        assert_eq!(round(&mut rings, &mut file, &mut tally, PLACES), 0);
        assert_eq!(file, [B, A, B, FINISHED_ROUND].concat());
        assert_eq!(tally, Tally::default());
    }

    #[test]
    fn a_ring_that_is_drained_alone_has_no_rounds() {
        let mut ring = Fake(A[..3].to_vec(), [&A[3..], &B].concat());
        let (mut file, mut tally) = (Vec::new(), Tally::default());
        assert_eq!(drain(&mut ring, &mut file, &mut tally, PLACES), 16);
        assert_eq!(file, [A, B].concat());
    }

    #[test]
    fn a_large_ring_is_given_back_in_parts() {
        #[derive(Default)]
        struct Lens(Vec<usize>);

        impl Sink for Lens {
            fn push(&mut self, records: &[IoSlice<'_>]) {
                self.0.push(records.iter().map(|it| it.len()).sum());
            }

            fn end_round(&mut self, mark: &[u8]) {
                self.0.push(mark.len());
            }
        }

        let n_records = MOST_AT_ONCE / 8 * 5 / 2;
        let mut rings = [Fake(A.repeat(n_records), Vec::new())];
        let mut lens = Lens::default();
        let total = round(&mut rings, &mut lens, &mut Tally::default(), PLACES);
        assert_eq!(total, n_records * 8);
        assert_eq!(lens.0, [MOST_AT_ONCE, MOST_AT_ONCE, MOST_AT_ONCE / 2, 8]);
    }

    #[test]
    fn what_is_no_record_is_taken_and_not_written() {
        let mut rings = [Fake([&A[..], &[0; 8]].concat(), Vec::new())];
        let (mut file, mut tally) = (Vec::new(), Tally::default());
        assert_eq!(round(&mut rings, &mut file, &mut tally, PLACES), 16);
        assert_eq!(file, [A, FINISHED_ROUND].concat());
        assert_eq!(tally.corrupt, 1);
    }
}
