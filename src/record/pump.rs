//! From the rings to the output.

use std::io::IoSlice;
use std::ops::Range;

use crate::sys::ring::Ring;

use super::hop::Places;
use super::hop::Tally;
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
    /// Appends records.
    fn append(&mut self, records: &[IoSlice<'_>]);
}

impl Sink for Output {
    fn append(&mut self, records: &[IoSlice<'_>]) {
        self.append_round(records);
    }
}

impl Sink for Vec<u8> {
    fn append(&mut self, records: &[IoSlice<'_>]) {
        for bytes in records {
            self.extend_from_slice(bytes);
        }
    }
}

/// `PERF_RECORD_FINISHED_ROUND`: every ring has been drained since the one before, so all that
/// comes is newer than what came before that.
pub(super) const FINISHED_ROUND: [u8; 8] = {
    let kind = 68_u32.to_ne_bytes();
    let size = 8_u16.to_ne_bytes();
    [kind[0], kind[1], kind[2], kind[3], 0, 0, size[0], size[1]]
};

/// Takes all that is in the rings into `sink` and, if something was, ends the round.
///
/// Each ring's head is read once, so the round ends however fast the kernel writes. Returns how
/// many bytes came.
pub(super) fn round<S: Source>(
    sources: &mut [S],
    sink: &mut impl Sink,
    tally: &mut Tally,
    places: Places,
) -> usize {
    take(sources, &FINISHED_ROUND, sink, tally, places)
}

/// Takes all that is in one ring into `sink`, which has no other's records. Returns how many bytes
/// came.
pub(super) fn drain<S: Source>(
    source: &mut S,
    sink: &mut impl Sink,
    tally: &mut Tally,
    places: Places,
) -> usize {
    take(std::slice::from_mut(source), &[], sink, tally, places)
}

/// Takes all that is in the rings and, if something was, `mark` behind it.
fn take<S: Source>(
    sources: &mut [S],
    mark: &[u8],
    sink: &mut impl Sink,
    tally: &mut Tally,
    places: Places,
) -> usize {
    let mut lens = Vec::with_capacity(sources.len());
    let mut walks = Vec::with_capacity(sources.len());
    for source in &*sources {
        let (first, second) = source.unread();
        walks.push(tally.hop(first, second, places));
        lens.push(first.len() + second.len());
    }
    let mut slices = Vec::with_capacity(sources.len() * 2 + 1);
    for (source, walked) in sources.iter().zip(&walks) {
        let (first, second) = source.unread();
        let mut at = 0;
        for record in &walked.overlong {
            push(first, second, at..record.at, &mut slices);
            slices.push(IoSlice::new(&record.mended));
            at = record.at + record.claimed;
        }
        push(first, second, at..walked.good, &mut slices);
    }
    let total: usize = lens.iter().sum();
    tracing::trace!(bytes = total, n_rings = sources.len(), "round");
    if total != 0 {
        slices.push(IoSlice::new(mark));
        sink.append(&slices);
    }
    for (source, len) in sources.iter_mut().zip(lens) {
        source.consume(len);
    }
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
    use super::*;

    struct Fake(Vec<u8>, Vec<u8>);

    impl Source for Fake {
        fn unread(&self) -> (&[u8], &[u8]) {
            (&self.0, &self.1)
        }

        fn consume(&mut self, len: usize) {
            assert_eq!(len, self.0.len() + self.1.len());
            (self.0, self.1) = (Vec::new(), Vec::new());
        }
    }

    const PLACES: Places = Places { time_at: Some(24), trailer_len: 0 };

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
    fn what_is_no_record_is_taken_and_not_written() {
        let mut rings = [Fake([&A[..], &[0; 8]].concat(), Vec::new())];
        let (mut file, mut tally) = (Vec::new(), Tally::default());
        assert_eq!(round(&mut rings, &mut file, &mut tally, PLACES), 16);
        assert_eq!(file, [A, FINISHED_ROUND].concat());
        assert_eq!(tally.corrupt, 1);
    }
}
