//! A walk over record headers, which counts and touches nothing else.

use crate::perfdata::RecordHeader;
use crate::perfdata::RecordKind;
use crate::units::Nanos;

/// What came by: counts, and the times of the first sample and the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Samples.
    pub samples: u64,
    /// Records that the kernel had no room for (`LOST`).
    pub lost: u64,
    /// Samples that the kernel had no room for (`LOST_SAMPLES`).
    pub lost_samples: u64,
    /// How often the kernel paused the sampling because it was too fast.
    pub throttled: u64,
    /// Pieces of a ring that were no records, and were left out.
    pub corrupt: u64,
    /// The time of the earliest sample.
    pub first: Option<Nanos>,
    /// The time of the latest sample.
    pub last: Option<Nanos>,
}

/// The unread part of a ring, which the end of the ring may have cut in two.
#[derive(Clone, Copy, Debug)]
struct Pieces<'a> {
    first: &'a [u8],
    second: &'a [u8],
}

impl Pieces<'_> {
    fn len(self) -> usize {
        self.first.len() + self.second.len()
    }

    /// The eight bytes at `at`, as a number of this machine's.
    fn word(self, at: usize) -> Option<u64> {
        if let Some((bytes, _)) = self.first.get(at..).and_then(<[u8]>::split_first_chunk) {
            return Some(u64::from_ne_bytes(*bytes));
        }
        let mut bytes = [0; 8];
        for (byte, at) in bytes.iter_mut().zip(at..) {
            let in_second = || self.second.get(at.checked_sub(self.first.len())?);
            *byte = *self.first.get(at).or_else(in_second)?;
        }
        Some(u64::from_ne_bytes(bytes))
    }
}

impl Tally {
    /// Walks over one unread part of a ring, in one piece or two, and returns how many bytes of it
    /// are whole records: all, unless something else than the kernel wrote there.
    ///
    /// `time_at` is the offset in a sample at which its time stands, header included.
    pub(super) fn hop(&mut self, first: &[u8], second: &[u8], time_at: usize) -> usize {
        let pieces = Pieces { first, second };
        let mut at = 0;
        // The first and the last sample; those in between lie in between in time, too.
        let mut ends: Option<(usize, usize)> = None;
        while let Some(header) = pieces.word(at) {
            let (kind, size) = header_of(header);
            if size < usize::from(RecordHeader::SIZE) || pieces.len() - at < size {
                break;
            }
            match kind {
                RecordKind::SAMPLE => {
                    self.samples += 1;
                    ends = Some((ends.map_or(at, |(first, _)| first), at));
                }
                RecordKind::LOST => self.lost += pieces.word(at + 16).unwrap_or(0),
                RecordKind::LOST_SAMPLES => {
                    self.lost_samples += pieces.word(at + 8).unwrap_or(0);
                }
                RecordKind::THROTTLE => self.throttled += 1,
                _ => {}
            }
            at += size;
        }
        if let Some((early, late)) = ends {
            let time = |at: usize| pieces.word(at + time_at).map(Nanos);
            let (early, late) = (time(early), time(late));
            self.first = self.first.into_iter().chain(early).min();
            self.last = self.last.into_iter().chain(late).max();
        }
        self.corrupt += u64::from(at != pieces.len());
        at
    }

    /// All that was lost: records and samples.
    pub fn all_lost(&self) -> u64 {
        self.lost.max(self.lost_samples)
    }
}

/// Kind and size of a record, of the first eight bytes of it.
fn header_of(word: u64) -> (RecordKind, usize) {
    let [kind @ .., _, _, low, high] = word.to_ne_bytes();
    (RecordKind(u32::from_ne_bytes(kind)), usize::from(u16::from_ne_bytes([low, high])))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of `words` after its header.
    fn record(kind: RecordKind, words: &[u64]) -> Vec<u8> {
        let size = u16::try_from(8 + words.len() * 8).unwrap();
        let mut record = kind.0.to_ne_bytes().to_vec();
        record.extend([0, 0]);
        record.extend(size.to_ne_bytes());
        record.extend(words.iter().flat_map(|it| it.to_ne_bytes()));
        record
    }

    fn three() -> Vec<u8> {
        let sample = |time| record(RecordKind::SAMPLE, &[0xabcd, time, 1]);
        let lost = record(RecordKind::LOST, &[99, 4]);
        [sample(500), lost, sample(700), record(RecordKind::THROTTLE, &[0, 0, 0])].concat()
    }

    const OF_THREE: Tally = Tally {
        samples: 2,
        lost: 4,
        lost_samples: 0,
        throttled: 1,
        corrupt: 0,
        first: Some(Nanos(500)),
        last: Some(Nanos(700)),
    };

    #[test]
    fn the_end_of_the_ring_may_cut_anywhere_even_in_a_header() {
        let bytes = three();
        for cut in 0..=bytes.len() {
            let (first, second) = bytes.split_at(cut);
            let mut tally = Tally::default();
            assert_eq!(tally.hop(first, second, 16), bytes.len(), "{cut}");
            assert_eq!(tally, OF_THREE, "{cut}");
        }
    }

    #[test]
    fn a_size_of_zero_ends_the_walk_and_is_counted() {
        let mut bytes = three();
        let good = bytes.len();
        bytes.extend([0; 16]);
        let mut tally = Tally::default();
        assert_eq!(tally.hop(&bytes, &[], 16), good);
        assert_eq!(tally, Tally { corrupt: 1, ..OF_THREE });
    }

    #[test]
    fn a_record_that_reaches_beyond_the_unread_part_is_left_out() {
        let bytes = three();
        let mut tally = Tally::default();
        assert_eq!(tally.hop(&bytes[..40], &[], 16), 32);
        assert_eq!((tally.samples, tally.corrupt), (1, 1));
    }

    #[test]
    fn times_are_the_earliest_and_the_latest_of_all_rings() {
        let mut tally = Tally::default();
        for time in [50, 20, 90] {
            tally.hop(&record(RecordKind::SAMPLE, &[0, time, 0]), &[], 16);
        }
        assert_eq!((tally.first, tally.last), (Some(Nanos(20)), Some(Nanos(90))));
    }
}
