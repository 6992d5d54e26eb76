//! User call chains that came later than the samples that they are of.
//!
//! A kernel that cannot walk a user stack at once leaves a mark and a cookie at the end of the chain, and
//! writes a record with the rest before the thread returns to user space. What perf shows waits for that
//! record: the samples of the thread that came before it are shown with it.
//!
//! Source: `PERF_RECORD_CALLCHAIN_DEFERRED` and `PERF_CONTEXT_USER_DEFERRED` in
//! `include/uapi/linux/perf_event.h`, since Linux 6.19; `evlist__deliver_deferred_callchain()` in
//! `tools/perf/util/session.c`.

use rustc_hash::FxHashMap;
use rustc_hash::FxHashSet;

use crate::perfdata::U64s;
use crate::perfdata::callchain_context;
use crate::units::Tid;

use super::index::Entry;

/// What came later, by where the samples stand.
#[derive(Clone, Debug, Default)]
pub struct Deferred {
    chains: Vec<Box<[u64]>>,
    by_position: FxHashMap<u64, usize>,
}

impl Deferred {
    /// `chain` of the sample at `position` with the part that came later, in this machine's byte order;
    /// `None` if none did.
    pub fn merged(&self, position: u64, chain: &U64s<'_>) -> Option<Vec<u8>> {
        if self.by_position.is_empty() {
            return None;
        }
        let later = self.chains.get(*self.by_position.get(&position)?)?;
        let own = chain.iter().take_while(|it| *it != callchain_context::USER_DEFERRED);
        Some(own.chain(later.iter().copied()).flat_map(u64::to_ne_bytes).collect())
    }
}

/// The cookie at the end of `chain`, if its user part is to come.
pub(super) fn cookie(chain: &U64s<'_>) -> Option<u64> {
    let mut last = [0; 2];
    chain.iter().for_each(|it| last = [last[1], it]);
    (last[0] == callchain_context::USER_DEFERRED && 2 <= chain.len()).then_some(last[1])
}

/// Samples that wait and what they wait for, as they are met.
#[derive(Debug, Default)]
pub(super) struct Collector {
    met: Vec<(Entry, Tid, Met)>,
    chains: Vec<Box<[u64]>>,
}

#[derive(Clone, Copy, Debug)]
enum Met {
    Sample { cookie: u64 },
    Chain { cookie: u64, idx: usize },
}

impl Collector {
    /// A sample of thread `tid` whose chain ends with `cookie`.
    pub(super) fn sample(&mut self, entry: Entry, tid: Tid, cookie: u64) {
        self.met.push((entry, tid, Met::Sample { cookie }));
    }

    /// The user part of samples of thread `tid`.
    pub(super) fn chain(&mut self, entry: Entry, tid: Tid, cookie: u64, ips: &U64s<'_>) {
        let idx = self.chains.len();
        self.chains.push(ips.iter().collect());
        self.met.push((entry, tid, Met::Chain { cookie, idx }));
    }

    /// Joins both, and puts the samples among `entries` behind what they waited for.
    pub(super) fn finish(mut self, entries: &mut Vec<Entry>) -> Deferred {
        let mut deferred = Deferred { chains: self.chains, by_position: FxHashMap::default() };
        if self.met.is_empty() {
            return deferred;
        }
        self.met.sort_by_key(|(entry, ..)| *entry);
        let mut waiting: Vec<(Entry, Tid, u64)> = Vec::new();
        let mut moved: Vec<(Entry, Vec<Entry>)> = Vec::new();
        for (entry, tid, met) in self.met {
            match met {
                Met::Sample { cookie } => waiting.push((entry, tid, cookie)),
                Met::Chain { cookie, idx } => {
                    let mut shown = Vec::new();
                    waiting.retain(|(sample, of, own)| {
                        if *of != tid {
                            return true;
                        }
                        if *own == cookie {
                            deferred.by_position.insert(sample.position, idx);
                        }
                        shown.push(*sample);
                        false
                    });
                    moved.push((entry, shown));
                }
            }
        }
        let left = waiting.into_iter().map(|it| it.0).collect();
        moved.push((Entry { order: crate::units::Nanos(u64::MAX), position: u64::MAX }, left));
        let away: FxHashSet<u64> =
            moved.iter().flat_map(|(_, samples)| samples).map(|it| it.position).collect();
        let mut listed = Vec::with_capacity(entries.len());
        let mut moved = moved.into_iter().peekable();
        for entry in entries.drain(..) {
            while let Some((_, samples)) = moved.next_if(|(at, _)| *at < entry) {
                listed.extend(samples);
            }
            if !away.contains(&entry.position) {
                listed.push(entry);
            }
        }
        listed.extend(moved.flat_map(|(_, samples)| samples));
        *entries = listed;
        deferred
    }
}

#[cfg(test)]
mod tests {
    use crate::perfdata::Endian;
    use crate::units::Nanos;

    use super::*;

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|it| it.to_ne_bytes()).collect()
    }

    fn entry(order: u64) -> Entry {
        Entry { order: Nanos(order), position: order * 8 }
    }

    #[test]
    fn a_cookie_stands_behind_its_mark() {
        let of = |it: &[u64]| cookie(&U64s::new(&words(it), Endian::NATIVE));
        assert_eq!(of(&[1, callchain_context::USER_DEFERRED, 7]), Some(7));
        assert_eq!(
            [of(&[]), of(&[0]), of(&[callchain_context::USER_DEFERRED]), of(&[1, 2])],
            [None; 4]
        );
    }

    #[test]
    fn samples_wait_for_the_rest_of_their_chain() {
        let (one, two) = (Tid(1), Tid(2));
        let mut collector = Collector::default();
        collector.sample(entry(1), one, 7);
        collector.sample(entry(2), two, 8);
        collector.sample(entry(3), one, 9);
        let later = words(&[100, 200]);
        collector.chain(entry(4), one, 7, &U64s::new(&later, Endian::NATIVE));
        let mut entries: Vec<Entry> = [1, 2, 3, 5].map(entry).to_vec();
        let deferred = collector.finish(&mut entries);
        assert_eq!(entries, [1, 3, 5, 2].map(entry));
        let own = words(&[5, callchain_context::USER_DEFERRED, 7]);
        let own = U64s::new(&own, Endian::NATIVE);
        assert_eq!(deferred.merged(8, &own), Some(words(&[5, 100, 200])));
        // Of another cookie, and of another thread.
        assert_eq!([deferred.merged(24, &own), deferred.merged(16, &own)], [None, None]);
    }
}
