//! Samples that hold counters' values (`:S`): what each event counted since the sample before.
//!
//! A sample of a group's leader stands for one of each event of the group. Whose counter moved, and
//! how far, depends on the order in which the samples are shown; so it is found once, in that
//! order, and kept by where the samples stand.
//!
//! Source: `evlist__deliver_sample()` and `deliver_sample_value()` in `tools/perf/util/session.c`.

use rustc_hash::FxHashMap;

use crate::perfdata::AttrFlags;
use crate::perfdata::SampleType;
use crate::units::Tid;

use super::Event;
use super::index::Entry;

/// One event's part of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The event.
    pub event: u32,
    /// What it counted since the sample before.
    pub period: u64,
}

/// What the samples with values stand for, by their positions.
#[derive(Clone, Debug, Default)]
pub struct Readings {
    by_position: FxHashMap<u64, Box<[Reading]>>,
}

impl Readings {
    /// What the sample of `event` at `position` stands for: `None` for itself alone, as all samples
    /// without values do, else for samples of these events, which may be none.
    pub fn of(&self, event: &Event, position: u64) -> Option<&[Reading]> {
        if !holds_values(event) {
            return None;
        }
        Some(self.by_position.get(&position).map(|it| &**it).unwrap_or_default())
    }
}

/// Whether samples of `event` hold values.
pub(super) fn holds_values(event: &Event) -> bool {
    event.attr.sample_type.contains(SampleType::READ)
}

/// The samples with values, as they are met.
#[derive(Debug, Default)]
pub(super) struct Collector {
    met: Vec<Met>,
}

#[derive(Debug)]
struct Met {
    entry: Entry,
    tid: Option<Tid>,
    /// Ids and values.
    values: Vec<(u64, u64)>,
}

impl Collector {
    /// Takes a sample of `event`.
    pub(super) fn add(&mut self, entry: Entry, event: &Event, body: &[u8]) {
        let Ok(values) = event.sample.values(body) else { return };
        let flags = event.attr.flags;
        // The values of an event that children inherit are those of each thread.
        let is_of_thread = flags.contains(AttrFlags::INHERIT);
        let tid = event.sample.task(body).map(|it| it.1).filter(|_| is_of_thread);
        self.met.push(Met { entry, tid, values });
    }

    /// What all of them stand for, where `event_of` knows the event of an id; `n_samples` counts
    /// them by event.
    pub(super) fn finish(
        mut self,
        event_of: &dyn Fn(u64) -> Option<u32>,
        n_samples: &mut [u64],
    ) -> Readings {
        self.met.sort_unstable_by_key(|it| it.entry);
        let mut last: FxHashMap<(u64, Option<Tid>), u64> = FxHashMap::default();
        let mut readings = Readings::default();
        for Met { entry, tid, values } in self.met {
            let mut of_sample = Vec::with_capacity(values.len());
            for (id, value) in values {
                let Some(event) = event_of(id) else { continue };
                let before = last.insert((id, tid), value).unwrap_or(0);
                let period = value.wrapping_sub(before);
                if period != 0 {
                    of_sample.push(Reading { event, period });
                    n_samples.get_mut(event as usize).into_iter().for_each(|it| *it += 1);
                }
            }
            readings.by_position.insert(entry.position, of_sample.into());
        }
        readings
    }
}

#[cfg(test)]
mod tests {
    use crate::units::Nanos;

    use super::*;

    fn met(time: u64, position: u64, tid: Option<i32>, values: &[(u64, u64)]) -> Met {
        let entry = Entry { order: Nanos(time), position };
        Met { entry, tid: tid.map(Tid), values: values.to_vec() }
    }

    /// Positions, each with the events and periods that it stands for.
    type Found = Vec<(u64, Vec<(u32, u64)>)>;

    /// What each position stands for, the events 0 and 1 having the ids 70 and 71.
    fn finish(met: Vec<Met>) -> (Found, [u64; 2]) {
        let mut n_samples = [0; 2];
        let event_of = |id: u64| u32::try_from(id.checked_sub(70)?).ok().filter(|it| *it < 2);
        let readings = Collector { met }.finish(&event_of, &mut n_samples);
        let pairs = |it: &[Reading]| it.iter().map(|it| (it.event, it.period)).collect();
        let mut all: Found = readings.by_position.iter().map(|(at, it)| (*at, pairs(it))).collect();
        all.sort_unstable();
        (all, n_samples)
    }

    #[test]
    fn an_event_counts_from_one_sample_to_the_next_in_their_order() {
        let (all, n_samples) = finish(vec![
            met(20, 8, None, &[(70, 500), (71, 3)]),
            met(10, 16, None, &[(70, 200), (71, 3)]),
        ]);
        assert_eq!(all, [(8, vec![(0, 300)]), (16, vec![(0, 200), (1, 3)])]);
        assert_eq!(n_samples, [2, 1]);
    }

    #[test]
    fn each_thread_counts_for_itself_where_children_inherit() {
        let (all, _) = finish(vec![
            met(10, 8, Some(1), &[(70, 200)]),
            met(20, 16, Some(2), &[(70, 150)]),
            met(30, 24, Some(1), &[(70, 260)]),
        ]);
        assert_eq!(all, [(8, vec![(0, 200)]), (16, vec![(0, 150)]), (24, vec![(0, 60)])]);
    }

    #[test]
    fn an_id_of_nobody_and_a_counter_that_stood_still_are_no_samples() {
        let (all, n_samples) = finish(vec![met(10, 8, None, &[(99, 5), (70, 0)])]);
        assert_eq!((all, n_samples), (vec![(8, vec![])], [0, 0]));
    }
}
