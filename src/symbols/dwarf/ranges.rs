//! Ranges of addresses that may overlap, found by an address in them.

/// Ranges, each with a number; of those that cover an address, the one that begins last comes first.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    items: Vec<Item>,
}

/// What a range takes in memory until it is found by an address, in bytes.
pub(super) const RANGE: usize = size_of::<(u64, u64, u32)>() + size_of::<Item>();

#[derive(Clone, Copy, Debug)]
struct Item {
    begin: u64,
    end: u64,
    /// The largest end of this one and of all that begin before it.
    reach: u64,
    id: u32,
}

/// How many ranges are looked at for one address: ranges of code hardly overlap, so that more would
/// only serve a file that was made to take long.
const MAX_STEPS: usize = 1 << 12;

impl Ranges {
    /// The ranges `[begin, end)` of `items`, those that are empty and those at address 0 left out: a
    /// linker leaves 0 where it dropped the code.
    pub(super) fn new(items: impl IntoIterator<Item = (u64, u64, u32)>) -> Self {
        let items = items.into_iter().filter(|&(begin, end, _)| begin != 0 && begin < end);
        let items = items.map(|(begin, end, id)| Item { begin, end, reach: end, id });
        let mut items: Vec<Item> = items.collect();
        items.sort_unstable_by_key(|it| (it.begin, it.end, it.id));
        let mut reach = 0;
        for item in &mut items {
            reach = reach.max(item.end);
            item.reach = reach;
        }
        Self { items }
    }

    /// The numbers of the ranges that cover `addr`.
    pub(super) fn covering(&self, addr: u64) -> impl Iterator<Item = u32> + '_ {
        let behind = self.items.partition_point(|it| it.begin <= addr);
        let candidates = self.items[..behind].iter().rev().take(MAX_STEPS);
        candidates
            .take_while(move |it| addr < it.reach)
            .filter(move |it| addr < it.end)
            .map(|it| it.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(items: &[(u64, u64, u32)], addr: u64, want: &[u32]) {
        let ranges = Ranges::new(items.iter().copied());
        assert_eq!(ranges.covering(addr).collect::<Vec<_>>(), want);
    }

    #[test]
    fn what_begins_last_comes_first() {
        let items = [(10, 100, 0), (20, 30, 1), (25, 26, 2), (200, 300, 3)];
        check(&items, 25, &[2, 1, 0]);
        check(&items, 30, &[0]);
        check(&items, 100, &[]);
        check(&items, 200, &[3]);
        check(&items, 9, &[]);
    }

    #[test]
    fn dropped_and_empty_code_covers_nothing() {
        check(&[(0, 100, 0), (50, 50, 1), (60, 40, 2)], 50, &[]);
    }

    #[test]
    fn any_number_of_overlapping_ranges_is_looked_at_for_a_bounded_time() {
        let items = (1..100_000).map(|it| (it, it + 1, 0)).chain([(1, u64::MAX, 7)]);
        let ranges = Ranges::new(items);
        assert_eq!(ranges.covering(200_000).count(), 0);
        assert_eq!(ranges.covering(10).collect::<Vec<_>>(), [0, 7]);
    }
}
