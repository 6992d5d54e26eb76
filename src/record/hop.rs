//! A walk over record headers, which counts and touches nothing else.

use crate::perfdata::Endian;
use crate::perfdata::Record;
use crate::perfdata::RecordHeader;
use crate::perfdata::RecordKind;
use crate::units::Nanos;
use crate::units::Tid;

/// A walk ends with the record that reaches so far, in bytes.
pub(super) const MOST_AT_ONCE: usize = 256 << 10;

/// What came by: counts, and the times of the first sample and the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Samples.
    pub samples: u64,
    /// Records that the kernel had no room for (`LOST`).
    pub lost: u64,
    /// Samples that the kernel had no room for (`LOST_SAMPLES`).
    pub lost_samples: u64,
    /// Samples that filters dropped, as they were told to.
    pub filtered: u64,
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

    /// A copy of the `len` bytes at `at`.
    fn copy(self, at: usize, len: usize) -> Vec<u8> {
        self.first.iter().chain(self.second).skip(at).take(len).copied().collect()
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

    /// What the record of a task at `at` tells that is of interest.
    ///
    /// Source: `struct perf_task_event` and `struct perf_comm_event` in `kernel/events/core.c`.
    fn task_news(self, at: usize, size: usize, time_from_end: usize) -> Option<TaskNews> {
        let word = self.word(at)?;
        let (kind, misc) = (header_of(word).0, misc_of(word));
        // Each of them is the second of two numbers in a word.
        let second = |word: u64| {
            let [.., a, b, c, d] = word.to_ne_bytes();
            Tid(i32::from_ne_bytes([a, b, c, d]))
        };
        let first = |word: u64| {
            let [a, b, c, d, ..] = word.to_ne_bytes();
            Tid(i32::from_ne_bytes([a, b, c, d]))
        };
        let (tid, time_at, became) = match kind {
            // pid, ppid, tid, ptid, time
            RecordKind::FORK => (first(self.word(at + 16)?), at + 24, Became::Started),
            RecordKind::EXIT => (first(self.word(at + 16)?), at + 24, Became::Gone),
            // pid, tid, name, trailer
            RecordKind::COMM if misc & COMM_EXEC != 0 => {
                let time_at = (at + size).checked_sub(time_from_end)?;
                (second(self.word(at + 8)?), time_at, Became::Another)
            }
            _ => return None,
        };
        Some(TaskNews { tid, time: self.word(time_at).map(Nanos)?, became })
    }
}

/// Where fields lie in the records of a ring, of which all events are alike in this.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    /// The offset in a sample at which its time stands, header included, in bytes; `None` where not
    /// all events have one.
    pub(super) time_at: Option<usize>,
    /// The length of the trailer of other records, in bytes.
    pub(super) trailer_len: usize,
    /// What is noted of tasks.
    pub(super) tasks: NotedTasks,
}

/// What a walk notes of the tasks that come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotedTasks {
    /// Nothing.
    Nothing,
    /// Forks, ends and execs.
    News {
        /// How far before the end of a record the time in its trailer stands, in bytes.
        time_from_end: usize,
    },
}

/// What a record tells of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TaskNews {
    /// Whom.
    pub(super) tid: Tid,
    /// When.
    pub(super) time: Nanos,
    /// What.
    pub(super) became: Became,
}

/// What became of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Became {
    /// It began.
    Started,
    /// It runs another program.
    Another,
    /// It ended.
    Gone,
}

/// What a walk over one unread part of a ring found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Walked {
    /// How many bytes of what was taken are whole records: all, unless something else than the kernel
    /// wrote there.
    pub(super) good: usize,
    /// How many bytes were walked over: all, up to [`MOST_AT_ONCE`].
    pub(super) taken: usize,
    /// Records whose header claims more than they hold.
    pub(super) overlong: Vec<Overlong>,
    /// What became of tasks, where that was to be noted.
    pub(super) tasks: Vec<TaskNews>,
}

/// A record whose header claims unwritten bytes beyond its end; see [`Record::fields_len`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Overlong {
    /// Where it begins in the unread part.
    pub(super) at: usize,
    /// The length that its header claims, in bytes.
    pub(super) claimed: usize,
    /// The record as it ought to be.
    pub(super) mended: Vec<u8>,
}

impl Tally {
    /// Walks over an unread part of a ring, in one piece or two, as far as one walk goes.
    pub(super) fn hop(&mut self, first: &[u8], second: &[u8], places: Places) -> Walked {
        let time_at = places.time_at;
        let (mut overlong, mut tasks) = (Vec::new(), Vec::new());
        let pieces = Pieces { first, second };
        let mut at = 0;
        // The first and the last sample; those in between lie in between in time, too.
        let mut ends: Option<(usize, usize)> = None;
        let mut is_corrupt = false;
        while at < pieces.len().min(MOST_AT_ONCE) {
            let (kind, size) = pieces.word(at).map_or((RecordKind(0), 0), header_of);
            is_corrupt = size < usize::from(RecordHeader::SIZE) || pieces.len() - at < size;
            if is_corrupt {
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
                RecordKind::KSYMBOL | RecordKind::BPF_EVENT => {
                    let mended = mended(kind, pieces.copy(at, size), places.trailer_len);
                    overlong.extend(mended.map(|mended| Overlong { at, claimed: size, mended }));
                }
                RecordKind::FORK | RecordKind::EXIT | RecordKind::COMM => {
                    if let NotedTasks::News { time_from_end } = places.tasks {
                        tasks.extend(pieces.task_news(at, size, time_from_end));
                    }
                }
                _ => {}
            }
            at += size;
        }
        if let (Some((early, late)), Some(time_at)) = (ends, time_at) {
            let time = |at: usize| pieces.word(at + time_at).map(Nanos);
            // In a ring that is written backward the last one is the first.
            let ends = [time(early), time(late)];
            self.first = self.first.into_iter().chain(ends.into_iter().flatten()).min();
            self.last = self.last.into_iter().chain(ends.into_iter().flatten()).max();
        }
        self.corrupt += u64::from(is_corrupt);
        // Nobody knows where the next one would begin.
        Walked { good: at, taken: if is_corrupt { pieces.len() } else { at }, overlong, tasks }
    }

    /// Walks over what a ring holds that is overwritten, and returns how many bytes are whole
    /// records: the last one may be cut, and behind it nothing may have been written yet.
    pub(super) fn hop_latest(&mut self, latest: &[u8], places: Places) -> usize {
        let corrupt = self.corrupt;
        let mut good = 0;
        while let Some(rest) = latest.get(good..).filter(|it| !it.is_empty()) {
            let walked = self.hop(rest, &[], places);
            good += walked.good;
            if walked.good != walked.taken {
                break;
            }
        }
        self.corrupt = corrupt;
        good
    }

    /// Walks over whole records.
    pub(super) fn walk(&mut self, mut records: &[u8], places: Places) {
        while !records.is_empty() {
            let walked = self.hop(records, &[], places);
            records = records.get(walked.taken..).unwrap_or_default();
        }
    }

    /// Adds what came by elsewhere.
    pub(super) fn add(&mut self, other: &Self) {
        let Self { samples, lost, lost_samples, filtered, throttled, corrupt, first, last } = other;
        self.samples += samples;
        self.lost += lost;
        self.lost_samples += lost_samples;
        self.filtered += filtered;
        self.throttled += throttled;
        self.corrupt += corrupt;
        self.first = self.first.into_iter().chain(*first).min();
        self.last = self.last.into_iter().chain(*last).max();
    }

    /// All that was lost: records and samples.
    pub fn all_lost(&self) -> u64 {
        self.lost.max(self.lost_samples)
    }
}

/// `record` with the length that it really has, if that is less than its header says.
fn mended(kind: RecordKind, mut record: Vec<u8>, trailer_len: usize) -> Option<Vec<u8>> {
    let header_len = usize::from(RecordHeader::SIZE);
    let fields_len = Record::fields_len(kind, record.get(header_len..)?, Endian::NATIVE)?;
    let len = header_len + fields_len + trailer_len;
    if len >= record.len() {
        return None;
    }
    record.truncate(len);
    let size = u16::try_from(len).ok()?.to_ne_bytes();
    record.get_mut(6..8)?.copy_from_slice(&size);
    Some(record)
}

/// `PERF_RECORD_MISC_COMM_EXEC`.
const COMM_EXEC: u16 = 1 << 13;

/// What else a record's header says, of its first eight bytes.
fn misc_of(word: u64) -> u16 {
    let [_, _, _, _, low, high, ..] = word.to_ne_bytes();
    u16::from_ne_bytes([low, high])
}

/// Kind and size of a record, of the first eight bytes of it.
pub(super) fn header_of(word: u64) -> (RecordKind, usize) {
    let [kind @ .., _, _, low, high] = word.to_ne_bytes();
    (RecordKind(u32::from_ne_bytes(kind)), usize::from(u16::from_ne_bytes([low, high])))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: Places =
        Places { time_at: Some(16), trailer_len: 16, tasks: NotedTasks::Nothing };

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
        filtered: 0,
        throttled: 1,
        corrupt: 0,
        first: Some(Nanos(500)),
        last: Some(Nanos(700)),
    };

    #[test]
    fn of_the_latest_the_last_may_be_cut_and_nothing_behind_it_written() {
        let mut tally = Tally::default();
        let latest = [three(), vec![0; 24]].concat();
        assert_eq!(tally.hop_latest(&latest, PLACES), three().len());
        assert_eq!(tally, OF_THREE);
        let sample = |time| record(RecordKind::SAMPLE, &[0xabcd, time, 1]);
        let mut tally = Tally::default();
        tally.hop_latest(&[sample(700), sample(600), sample(500)].concat(), PLACES);
        assert_eq!((tally.first, tally.last), (Some(Nanos(500)), Some(Nanos(700))));
        let mut tally = Tally::default();
        let cut = &three()[..three().len() - 3];
        assert_eq!(tally.hop_latest(cut, PLACES), three().len() - 32);
        assert_eq!((tally.samples, tally.corrupt), (2, 0));
    }

    #[test]
    fn the_end_of_the_ring_may_cut_anywhere_even_in_a_header() {
        let bytes = three();
        for cut in 0..=bytes.len() {
            let (first, second) = bytes.split_at(cut);
            let mut tally = Tally::default();
            assert_eq!(tally.hop(first, second, PLACES).good, bytes.len(), "{cut}");
            assert_eq!(tally, OF_THREE, "{cut}");
        }
    }

    #[test]
    fn a_size_of_zero_ends_the_walk_and_is_counted() {
        let mut bytes = three();
        let good = bytes.len();
        bytes.extend([0; 16]);
        let mut tally = Tally::default();
        let walked = tally.hop(&bytes, &[], PLACES);
        assert_eq!((walked.good, walked.taken), (good, bytes.len()));
        assert_eq!(tally, Tally { corrupt: 1, ..OF_THREE });
    }

    #[test]
    fn a_record_that_reaches_beyond_the_unread_part_is_left_out() {
        let bytes = three();
        let mut tally = Tally::default();
        assert_eq!(tally.hop(&bytes[..40], &[], PLACES).good, 32);
        assert_eq!((tally.samples, tally.corrupt), (1, 1));
    }

    #[test]
    fn times_are_the_earliest_and_the_latest_of_all_rings() {
        let mut tally = Tally::default();
        for time in [50, 20, 90] {
            tally.hop(&record(RecordKind::SAMPLE, &[0, time, 0]), &[], PLACES);
        }
        assert_eq!((tally.first, tally.last), (Some(Nanos(20)), Some(Nanos(90))));
    }

    #[test]
    fn a_record_with_a_length_of_several_events_gets_its_own() {
        let name = u64::from_ne_bytes(*b"bpf_x\0\0\0");
        let real = record(RecordKind::KSYMBOL, &[0x1000, 64, name, 7, 8]);
        let claimed = record(RecordKind::KSYMBOL, &[0x1000, 64, name, 7, 8, 0xdead, 0xbeef]);
        let bytes = [three(), claimed.clone(), real.clone()].concat();
        for cut in 0..=bytes.len() {
            let (first, second) = bytes.split_at(cut);
            let walked = Tally::default().hop(first, second, PLACES);
            assert_eq!(walked.good, bytes.len());
            let want = Overlong { at: three().len(), claimed: claimed.len(), mended: real.clone() };
            assert_eq!(walked.overlong, [want], "{cut}");
        }
    }

    #[test]
    fn forks_ends_and_execs_are_noted_where_that_is_asked_for() {
        let two = |a: u32, b: u32| {
            let bytes = [a.to_ne_bytes(), b.to_ne_bytes()].concat();
            u64::from_ne_bytes(bytes.try_into().unwrap())
        };
        let fork = record(RecordKind::FORK, &[two(7, 6), two(8, 6), 500, 0, 0]);
        let exit = record(RecordKind::EXIT, &[two(7, 6), two(9, 9), 600, 0, 0]);
        let name = u64::from_ne_bytes(*b"sh\0\0\0\0\0\0");
        let renamed = record(RecordKind::COMM, &[two(7, 8), name, two(7, 8), 650, 1]);
        let mut exec = record(RecordKind::COMM, &[two(7, 8), name, two(7, 8), 700, 1]);
        exec[4..6].copy_from_slice(&COMM_EXEC.to_ne_bytes());
        let bytes = [three(), fork, renamed, exit, exec].concat();
        let news = |tid, time, became| TaskNews { tid: Tid(tid), time: Nanos(time), became };
        let want = [
            news(8, 500, Became::Started),
            news(9, 600, Became::Gone),
            news(8, 700, Became::Another),
        ];
        let noted = Places { tasks: NotedTasks::News { time_from_end: 16 }, ..PLACES };
        for cut in 0..=bytes.len() {
            let (first, second) = bytes.split_at(cut);
            assert_eq!(Tally::default().hop(first, second, noted).tasks, want, "{cut}");
            assert_eq!(Tally::default().hop(first, second, PLACES).tasks, []);
        }
    }
}
