//! Who owned an address at a time: rectangles of address and time, no two of them overlapping.

use std::collections::BTreeMap;

use crate::units::Nanos;

/// A point of the recording: time first, place in the file where times are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment {
    /// The time; 0 for what holds from the beginning.
    pub time: Nanos,
    /// The position in the (decompressed) stream of records.
    pub position: u64,
}

impl Moment {
    /// Before everything.
    pub const START: Self = Self { time: Nanos(0), position: 0 };
    /// After everything.
    pub const END: Self = Self { time: Nanos(u64::MAX), position: u64::MAX };
}

/// A range of addresses that had one owner from one moment to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first address.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// The first moment.
    pub from: Moment,
    /// One past the last moment.
    pub until: Moment,
    /// The owner, as the caller numbers them.
    pub owner: u32,
}

/// Collects owners in the order of time.
///
/// ```text
/// address ^        +-----------+--- - -      the second owner cut the first:
///         |   +----+  second   |             what is left of the first goes on beside it,
///         |   |    +-----------+--- - -      and what it lost ended
///         |   |first           |
///         +---+----------------+--- - -> time
/// ```
#[derive(Clone, Debug, Default)]
pub struct SpansBuilder {
    /// What is owned now, by first address.
    live: BTreeMap<u64, Span>,
    ended: Vec<Span>,
    last_change: Moment,
    n_changes: u32,
    changes: Vec<Moment>,
}

impl SpansBuilder {
    /// From `now` on, `owner` has `[start, end)`, whoever had it before.
    pub fn cover(&mut self, start: u64, end: u64, now: Moment, owner: u32) {
        if start >= end {
            return;
        }
        self.cut(start, end, now);
        self.live.insert(start, Span { start, end, from: now, until: Moment::END, owner });
        self.note_change(now);
    }

    /// From `now` on, `owner` begins at `start` and ends at `end` or where the next one begins;
    /// one that it begins in ends at `start`.
    ///
    /// So the nearest beginning at or below an address wins, as it must where the recorder knows
    /// beginnings well and lengths badly.
    pub fn begin(&mut self, start: u64, end: u64, now: Moment, owner: u32) {
        let next = self.live.range(start..).find(|(first, _)| **first > start);
        let end = next.map_or(end, |(&next, _)| end.min(next));
        if start >= end {
            return;
        }
        if let Some((&first, &before)) = self.live.range(..=start).next_back()
            && before.end > start
        {
            self.end_span(first, now);
            self.keep(Span { end: start, from: now, ..before });
        }
        self.cover(start, end, now, owner);
    }

    /// At `now` the owner that begins at `start` is gone.
    pub fn end(&mut self, start: u64, now: Moment) {
        self.end_span(start, now);
        self.note_change(now);
    }

    /// What is owned now from `start` on.
    pub fn live_at(&self, start: u64) -> Option<&Span> {
        self.live.get(&start)
    }

    /// What is owned now of `[start, end)`.
    pub fn live_in(&self, start: u64, end: u64) -> impl Iterator<Item = &Span> {
        let first = self.live.range(..=start).next_back();
        let first = first.filter(|(_, span)| span.end > start).map_or(start, |(&first, _)| first);
        // Where nothing is asked for there may be no range either.
        self.live.range(first..end.max(first)).map(|(_, span)| span)
    }

    /// Whether nothing was ever owned.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty() && self.ended.is_empty()
    }

    /// Who is owned where right now.
    pub fn live(&self) -> impl Iterator<Item = &Span> {
        self.live.values()
    }

    /// Everything that was ever owned, in no order.
    pub fn all(&self) -> impl Iterator<Item = &Span> {
        self.ended.iter().chain(self.live.values())
    }

    /// Ends whatever is owned in `[start, end)`; what lies beside goes on.
    fn cut(&mut self, start: u64, end: u64, now: Moment) {
        let first = self.live.range(..=start).next_back();
        let first = first.filter(|(_, span)| span.end > start).map_or(start, |(&first, _)| first);
        let hit: Vec<u64> = self.live.range(first..end).map(|(&start, _)| start).collect();
        for first in hit {
            let Some(span) = self.end_span(first, now) else { continue };
            self.keep(Span { end: start, from: now, ..span });
            self.keep(Span { start: end, from: now, ..span });
        }
    }

    fn end_span(&mut self, start: u64, now: Moment) -> Option<Span> {
        let span = self.live.remove(&start)?;
        if span.from < now {
            self.ended.push(Span { until: now, ..span });
        }
        Some(span)
    }

    fn keep(&mut self, span: Span) {
        if span.start < span.end {
            self.live.insert(span.start, span);
        }
    }

    fn note_change(&mut self, now: Moment) {
        if self.n_changes == 0 || self.last_change < now {
            self.changes.push(now);
            self.last_change = now;
        }
        self.n_changes = self.n_changes.saturating_add(1);
    }

    /// The finished index.
    pub fn build(self) -> Spans {
        let spans: Vec<Span> = self.ended.into_iter().chain(self.live.into_values()).collect();
        Spans::new(&spans, self.changes)
    }
}

/// The finished index: immutable, asked by any number of threads.
///
/// A segment tree over the distinct bounds of the spans: each span stands at the few nodes that
/// together make up its addresses, and all spans of one node follow each other in time. Looking up
/// goes from a leaf to the root with a binary search by time at each node, and the memory is
/// `n log n` whatever the spans look like.
#[derive(Debug, Default)]
pub struct Spans {
    /// Distinct bounds, ascending; leaf `i` stands for `[bounds[i], bounds[i + 1])`.
    bounds: Vec<u64>,
    /// Where the spans of node `i` begin in `tenants`; node 1 is the root.
    starts: Vec<u32>,
    tenants: Vec<Span>,
    changes: Vec<Moment>,
}

impl Spans {
    fn new(spans: &[Span], changes: Vec<Moment>) -> Self {
        let mut bounds: Vec<u64> = spans.iter().flat_map(|it| [it.start, it.end]).collect();
        bounds.sort_unstable();
        bounds.dedup();
        let leaves = bounds.len();
        let mut placed: Vec<(u32, Span)> = Vec::new();
        for span in spans {
            let leaf = |bound| bounds.partition_point(|&it| it < bound) + leaves;
            let (mut low, mut high) = (leaf(span.start), leaf(span.end));
            // The nodes that cover `[low, high)` exactly: at each level at most two.
            while low < high {
                if low & 1 == 1 {
                    placed.push((narrow(low), *span));
                    low += 1;
                }
                if high & 1 == 1 {
                    high -= 1;
                    placed.push((narrow(high), *span));
                }
                low >>= 1;
                high >>= 1;
            }
        }
        placed.sort_unstable_by_key(|(node, span)| (*node, span.from));
        let mut starts = vec![0_u32; 2 * leaves + 1];
        for (node, _) in &placed {
            starts[*node as usize + 1] += 1;
        }
        for idx in 1..starts.len() {
            starts[idx] += starts[idx - 1];
        }
        let tenants = placed.into_iter().map(|(_, span)| span).collect();
        Self { bounds, starts, tenants, changes }
    }

    /// The span that covers `addr` at `moment`.
    pub fn find(&self, addr: u64, moment: Moment) -> Option<&Span> {
        let leaf = self.bounds.partition_point(|&bound| bound <= addr).checked_sub(1)?;
        let mut node = leaf + self.bounds.len();
        while node >= 1 {
            let range = self.starts[node] as usize..self.starts[node + 1] as usize;
            let tenants = &self.tenants[range];
            if let Some(idx) = tenants.partition_point(|it| it.from <= moment).checked_sub(1)
                && moment < tenants[idx].until
            {
                return Some(&tenants[idx]);
            }
            node >>= 1;
        }
        None
    }

    /// How often ownership had changed by `moment`, and from when to when that holds: between two
    /// changes every address resolves the same.
    pub fn version(&self, moment: Moment) -> (u32, Moment, Moment) {
        let n = self.changes.partition_point(|&it| it <= moment);
        let from = n.checked_sub(1).map_or(Moment::START, |idx| self.changes[idx]);
        (narrow(n), from, self.changes.get(n).copied().unwrap_or(Moment::END))
    }
}

/// Spans are as many as records, of at least 8 bytes each, in memory: fewer than 2^32.
fn narrow(idx: usize) -> u32 {
    u32::try_from(idx).expect("fewer than 2^32 spans")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: u64) -> Moment {
        Moment { time: Nanos(time), position: 0 }
    }

    #[track_caller]
    fn check(spans: &Spans, addr: u64, time: u64, want: Option<u32>) {
        assert_eq!(spans.find(addr, at(time)).map(|it| it.owner), want, "{addr:#x} at {time}");
    }

    #[test]
    fn a_later_owner_cuts_an_earlier_one() {
        let mut builder = SpansBuilder::default();
        builder.cover(0x1000, 0x4000, at(1), 1);
        builder.cover(0x2000, 0x3000, at(5), 2);
        let spans = builder.build();
        check(&spans, 0x0fff, 5, None);
        check(&spans, 0x1000, 0, None);
        check(&spans, 0x2000, 4, Some(1));
        check(&spans, 0x2000, 5, Some(2));
        check(&spans, 0x2fff, 9, Some(2));
        check(&spans, 0x1fff, 9, Some(1));
        check(&spans, 0x3000, 9, Some(1));
        check(&spans, 0x3fff, 9, Some(1));
        check(&spans, 0x4000, 9, None);
    }

    #[test]
    fn a_reused_address_resolves_by_time() {
        let mut builder = SpansBuilder::default();
        builder.begin(0x100, 0x200, at(1), 1);
        builder.end(0x100, at(3));
        builder.begin(0x100, 0x180, at(6), 2);
        let spans = builder.build();
        check(&spans, 0x150, 2, Some(1));
        check(&spans, 0x150, 3, None);
        check(&spans, 0x150, 6, Some(2));
        check(&spans, 0x180, 6, None);
        assert_eq!(spans.version(at(0)).0, 0);
        assert_eq!(spans.version(at(4)), (2, at(3), at(6)));
    }

    #[test]
    fn the_nearest_beginning_wins_where_lengths_overlap() {
        let mut builder = SpansBuilder::default();
        builder.begin(0x1000, 0x2000, at(1), 1);
        builder.begin(0x10a7, 0x20a7, at(1), 2);
        builder.begin(0x0f80, 0x1f80, at(2), 3);
        let spans = builder.build();
        check(&spans, 0x1000, 2, Some(1));
        check(&spans, 0x10a6, 2, Some(1));
        check(&spans, 0x10a7, 2, Some(2));
        check(&spans, 0x20a6, 2, Some(2));
        check(&spans, 0x0f80, 2, Some(3));
        check(&spans, 0x0fff, 2, Some(3));
    }

    #[test]
    fn many_random_spans_agree_with_a_plain_search() {
        let mut seed = 7_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        let mut builder = SpansBuilder::default();
        let mut log = Vec::new();
        for time in 0..300 {
            let start = random(100);
            let end = start + 1 + random(40);
            builder.cover(start, end, at(time), u32::try_from(time).unwrap());
            log.push((start, end));
        }
        let spans = builder.build();
        for time in 0..300_usize {
            for addr in 0..145 {
                let covers = |it: &usize| log[*it].0 <= addr && addr < log[*it].1;
                let want = (0..=time).rev().find(covers).map(|it| u32::try_from(it).unwrap());
                check(&spans, addr, time as u64, want);
            }
        }
    }
}
