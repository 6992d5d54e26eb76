//! What becomes of the samples that BPF programs write.

use std::sync::PoisonError;

use crate::perfdata::Attr;
use crate::perfdata::SampleType;
use crate::units::Nanos;
use crate::units::Tid;

use super::tasks::Tasks;
use crate::record::off_cpu::Rewriting;

/// How the samples of an event are treated before they come into the file.
#[derive(Clone, Debug)]
pub(in crate::record) enum Sieve {
    /// Those are kept that a task of the target has written, each as one: the kernel gives them no
    /// period.
    OfTarget,
    /// They become samples of those who were off the CPU.
    OffCpu(Rewriting),
}

/// What a sieve did with a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::record) enum Sifted {
    /// It is kept, in this form or another.
    Kept,
    /// It was of somebody else.
    OfOthers,
    /// It was no sample for a file.
    Nothing,
}

impl Sieve {
    /// Appends to `out` what is to be kept of `sample`, a whole record of an event whose fields are
    /// at `places`.
    pub(in crate::record) fn sift(
        &mut self,
        sample: &[u8],
        places: SamplePlaces,
        tasks: &Tasks,
        out: &mut Vec<u8>,
    ) -> Sifted {
        match self {
            Self::OffCpu(rewriting) => {
                let mut rewriter = rewriting.lock().unwrap_or_else(PoisonError::into_inner);
                rewriter.rewrite(sample, out)
            }
            Self::OfTarget => {
                let is_ours = places.task_of(sample).is_some_and(|(tid, at)| tasks.have(tid, at));
                if !is_ours {
                    return Sifted::OfOthers;
                }
                let at = out.len();
                out.extend_from_slice(sample);
                places.count_as_one(out.get_mut(at..).unwrap_or_default());
                Sifted::Kept
            }
        }
    }
}

/// Where fields stand in the samples of an event, header included, in bytes.
#[expect(clippy::struct_field_names, reason = "each is a place")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::record) struct SamplePlaces {
    /// The process and the thread.
    pub(in crate::record) task_at: usize,
    /// The time.
    pub(in crate::record) time_at: usize,
    /// The period, if they have one.
    pub(in crate::record) period_at: Option<usize>,
}

impl SamplePlaces {
    /// Those of the event of `attr`, which has both fields.
    ///
    /// Source: `perf_output_sample()` in `kernel/events/core.c`.
    pub(in crate::record) fn new(attr: &Attr) -> Self {
        let has = |field| usize::from(attr.sample_type.contains(field));
        let task_at = 8 + 8 * (has(SampleType::IDENTIFIER) + has(SampleType::IP));
        let time_at = task_at + 8 * has(SampleType::TID);
        let period_at = time_at + 8 * (has(SampleType::TIME) + has(SampleType::CPU));
        let has_period = attr.sample_type.contains(SampleType::PERIOD);
        Self { task_at, time_at, period_at: has_period.then_some(period_at) }
    }

    /// Lets `sample` count as one if it counts as nothing.
    fn count_as_one(self, sample: &mut [u8]) {
        let period = self.period_at.and_then(|at| sample.get_mut(at..)?.first_chunk_mut());
        if let Some(period @ [0, 0, 0, 0, 0, 0, 0, 0]) = period {
            *period = 1_u64.to_ne_bytes();
        }
    }

    /// The thread that a sample is of, and its time.
    pub(in crate::record) fn task_of(self, sample: &[u8]) -> Option<(Tid, Nanos)> {
        let tid = sample.get(self.task_at + 4..)?.first_chunk()?;
        let time = sample.get(self.time_at..)?.first_chunk()?;
        Some((Tid(i32::from_ne_bytes(*tid)), Nanos(u64::from_ne_bytes(*time))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(fields: SampleType) -> SamplePlaces {
        SamplePlaces::new(&Attr { sample_type: fields, ..Attr::default() })
    }

    /// A sample with an id, of the process 7.
    fn sample(tid: i32, time: u64) -> Vec<u8> {
        let mut sample = vec![9, 0, 0, 0, 0, 0, 40, 0];
        sample.extend(0xabcd_u64.to_ne_bytes());
        sample.extend(0x4000_u64.to_ne_bytes());
        sample.extend(7_i32.to_ne_bytes());
        sample.extend(tid.to_ne_bytes());
        sample.extend(time.to_ne_bytes());
        sample
    }

    const FIELDS: SampleType =
        SampleType::IDENTIFIER.union(SampleType::IP).union(SampleType::TID).union(SampleType::TIME);

    #[test]
    fn task_and_time_stand_behind_what_the_event_has_before_them() {
        let with_id = SamplePlaces { task_at: 24, time_at: 32, period_at: None };
        assert_eq!(places(FIELDS | SampleType::RAW), with_id);
        assert_eq!(with_id.task_of(&sample(8, 500)), Some((Tid(8), Nanos(500))));
        assert_eq!(with_id.task_of(&sample(8, 500)[..39]), None);
        let without = places(FIELDS - SampleType::IDENTIFIER);
        assert_eq!(without, SamplePlaces { task_at: 16, time_at: 24, period_at: None });
    }

    #[test]
    fn what_other_tasks_write_is_left_out_if_it_is_to_be() {
        let ours = Tasks::named([Tid(8)], true);
        let mut out = Vec::new();
        let mut sift = |tasks: &Tasks, sample: &[u8]| {
            Sieve::OfTarget.sift(sample, places(FIELDS), tasks, &mut out)
        };
        assert_eq!(sift(&ours, &sample(8, 500)), Sifted::Kept);
        assert_eq!(sift(&ours, &sample(9, 600)), Sifted::OfOthers);
        // One that is cut is nobody's.
        assert_eq!(sift(&ours, &sample(8, 700)[..39]), Sifted::OfOthers);
        assert_eq!(sift(&Tasks::Everyone, &sample(9, 800)), Sifted::Kept);
        assert_eq!(out, [sample(8, 500), sample(9, 800)].concat());
    }

    #[test]
    fn what_has_no_period_counts_as_one() {
        let fields = FIELDS | SampleType::CPU | SampleType::PERIOD;
        let with = |period: u64| {
            [&sample(8, 500)[..], &3_u64.to_ne_bytes(), &period.to_ne_bytes()].concat()
        };
        let mut out = Vec::new();
        for period in [0, 7] {
            Sieve::OfTarget.sift(&with(period), places(fields), &Tasks::Everyone, &mut out);
        }
        assert_eq!(out, [with(1), with(7)].concat());
    }
}
