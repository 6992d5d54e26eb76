//! The table itself: symbols sorted by address, names in one arena, look-up by binary search.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::demangle;
use crate::units::Addr;

/// How a symbol is bound, which decides between names of one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Binding {
    /// Seen in its own object only (`STB_LOCAL`).
    Local,
    /// Seen everywhere (`STB_GLOBAL`, `STB_GNU_UNIQUE`).
    Global,
    /// Yields to a symbol of the same name that is global (`STB_WEAK`).
    Weak,
}

/// What a symbol stands for, as far as the choice between aliases cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `STT_NOTYPE`: a label.
    Label,
    /// `STT_FUNC`, `STT_OBJECT`.
    Typed,
    /// `STT_GNU_IFUNC`: its value is the function that picks the implementation.
    Ifunc,
}

/// The position of a symbol in its [`SymbolTable`], in order of address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SymbolIdx(pub u32);

/// One symbol of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// Its name as the file spells it; see [`demangle`].
    pub name: &'a str,
    /// Its first address, in the table's own address space.
    pub start: Addr,
    /// The address after its last.
    pub end: Addr,
    /// How it is bound.
    pub binding: Binding,
}

/// The symbols of one module (an ELF file, the kernel, a perf map, the vdso), sorted by address.
///
/// Where ranges overlap, an address belongs to the symbol that starts last at or below it: the
/// innermost one. A symbol without a size has what no symbol with one has.
#[derive(Debug, Default)]
pub struct SymbolTable {
    entries: Vec<Entry>,
    /// Disjoint, sorted; each holds up to the start of the next.
    ranges: Vec<Range>,
    parts: Parts,
    names: String,
}

/// Which of sorted addresses are in each of as many equal parts of the address space as there are of
/// them: a search among all of them misses the caches at every step.
#[derive(Debug, Default)]
struct Parts {
    first: u64,
    shift: u32,
    /// How many addresses are below each part, and last how many there are.
    below: Vec<u32>,
}

impl Parts {
    /// Those of `starts`, which are sorted.
    fn new(starts: impl ExactSizeIterator<Item = u64> + Clone) -> Self {
        let n_starts = starts.len() as u64;
        let (Some(first), Some(last)) = (starts.clone().next(), starts.clone().last()) else {
            return Self::default();
        };
        let n_bits = 64 - (last - first).leading_zeros();
        let shift = n_bits.saturating_sub(n_starts.ilog2());
        let mut below = Vec::new();
        for (idx, start) in (0..).zip(starts) {
            let part = Self::part(first, shift, start);
            below.resize((part + 1).max(below.len()), idx);
        }
        below.push(u32::try_from(n_starts).unwrap_or(u32::MAX));
        Self { first, shift, below }
    }

    fn part(first: u64, shift: u32, addr: u64) -> usize {
        let part = (addr - first).checked_shr(shift).unwrap_or(0);
        usize::try_from(part).unwrap_or(usize::MAX)
    }

    /// Where the last of the addresses that are not behind `addr` is among them, at the first and at the
    /// last; `None` before all of them.
    fn of(&self, addr: u64) -> Option<(usize, usize)> {
        let behind = self.below.len().checked_sub(2)?;
        if addr < self.first {
            return None;
        }
        let part = Self::part(self.first, self.shift, addr).min(behind);
        let bound = |part: usize| self.below.get(part).map(|it| *it as usize);
        Some((bound(part)?.saturating_sub(1), bound(part + 1)?))
    }
}

#[derive(Debug)]
struct Entry {
    start: u64,
    end: u64,
    /// Where it ends at the latest if its size is not known.
    limit: u64,
    name_at: u32,
    name_len: u32,
    binding: Binding,
    kind: Kind,
    /// The group it belongs to (a kernel module), 0 for none.
    group: u32,
}

#[derive(Debug, PartialEq, Eq)]
struct Range {
    start: u64,
    /// [`NONE`] where no symbol is.
    symbol: u32,
}

const NONE: u32 = u32::MAX;

impl SymbolTable {
    /// The symbol that covers `addr`.
    pub fn find(&self, addr: Addr) -> Option<SymbolIdx> {
        let (first, end) = self.parts.of(addr.0)?;
        let ranges = self.ranges.get(first..end)?;
        let after = ranges.partition_point(|it| it.start <= addr.0);
        let range = ranges.get(after.checked_sub(1)?)?;
        (range.symbol != NONE).then_some(SymbolIdx(range.symbol))
    }

    /// The symbol at `idx`, or `None` for an index of another table.
    pub fn symbol(&self, idx: SymbolIdx) -> Option<Symbol<'_>> {
        let entry = self.entry(idx)?;
        Some(Symbol {
            name: self.name_of(entry),
            start: Addr(entry.start),
            end: Addr(entry.end),
            binding: entry.binding,
        })
    }

    /// All symbols, in order of address.
    pub fn iter(&self) -> impl Iterator<Item = Symbol<'_>> {
        self.entries.iter().map(|entry| Symbol {
            name: self.name_of(entry),
            start: Addr(entry.start),
            end: Addr(entry.end),
            binding: entry.binding,
        })
    }

    /// How many symbols there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no symbol at all.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The group that the symbol at `idx` was put into, 0 for none.
    pub(super) fn group(&self, idx: SymbolIdx) -> u32 {
        self.entry(idx).map_or(0, |entry| entry.group)
    }

    fn entry(&self, idx: SymbolIdx) -> Option<&Entry> {
        self.entries.get(usize::try_from(idx.0).ok()?)
    }

    fn name_of(&self, entry: &Entry) -> &str {
        name_in(&self.names, entry)
    }
}

fn name_in<'a>(names: &'a str, entry: &Entry) -> &'a str {
    let at = usize::try_from(entry.name_at).unwrap_or(usize::MAX);
    let len = usize::try_from(entry.name_len).unwrap_or(usize::MAX);
    at.checked_add(len).and_then(|end| names.get(at..end)).unwrap_or_default()
}

/// A symbol on its way into a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct New {
    pub(super) start: u64,
    /// In bytes; 0 if the file does not say.
    pub(super) size: u64,
    /// Where it ends at the latest if the file does not say: before the section behind its own.
    pub(super) limit: u64,
    pub(super) binding: Binding,
    pub(super) kind: Kind,
    pub(super) group: u32,
}

/// How a symbol without a size gets its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// At the start of the next symbol, whatever that is.
    Next,
    /// At the start of the next symbol of the same group; the last of a group at the end of the
    /// page after its own, since the gap to the next group is nobody's.
    NextInGroup,
}

/// Which of overlapping symbols owns an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overlap {
    /// The one that starts last.
    Innermost,
    /// The one that was pushed last.
    Newest,
}

/// Collects symbols and makes a [`SymbolTable`] of them.
#[derive(Debug, Default)]
pub(super) struct Builder {
    entries: Vec<Entry>,
    names: String,
}

impl Builder {
    /// An empty builder with room for `n_symbols` with names of `name_bytes` together.
    ///
    /// Both must follow from bytes that are there, never from a count that a file claims.
    pub(super) fn with_capacity(n_symbols: usize, name_bytes: usize) -> Self {
        Self { entries: Vec::with_capacity(n_symbols), names: String::with_capacity(name_bytes) }
    }

    /// Makes room for more of both, which must follow from bytes that are there, too.
    pub(super) fn reserve(&mut self, n_symbols: usize, name_bytes: usize) {
        self.entries.reserve(n_symbols);
        self.names.reserve(name_bytes);
    }

    /// Adds a symbol; one whose name no longer fits into 4 GiB of names is left out.
    pub(super) fn push(&mut self, name: &[u8], new: New) {
        if let Ok(name) = std::str::from_utf8(name) {
            self.push_str(name, new);
        } else {
            self.push_str(&String::from_utf8_lossy(name), new);
        }
    }

    /// As [`Builder::push`], for a name that is known to be text.
    pub(super) fn push_str(&mut self, name: &str, new: New) {
        let New { start, size, limit, binding, kind, group } = new;
        let (Ok(name_at), Ok(name_len)) =
            (u32::try_from(self.names.len()), u32::try_from(name.len()))
        else {
            return;
        };
        if self.entries.len() >= NONE as usize {
            return;
        }
        self.names.push_str(name);
        let end = start.saturating_add(size);
        self.entries.push(Entry { start, end, limit, name_at, name_len, binding, kind, group });
    }

    /// Sorts by address, gives ends to symbols without a size and leaves one of those that start at
    /// the same address.
    pub(super) fn fix_up(&mut self, ends: Ends) {
        // Stable: of symbols that start together, the order in the file decides.
        self.entries.sort_by_key(|it| it.start);
        self.fix_up_ends(ends);
        let Self { entries, names } = self;
        entries.dedup_by(|next, kept| {
            if next.start != kept.start {
                return false;
            }
            let ifunc = next.kind == Kind::Ifunc || kept.kind == Kind::Ifunc;
            if is_second_better(names, kept, next) {
                std::mem::swap(next, kept);
            }
            if ifunc {
                kept.kind = Kind::Ifunc;
            }
            true
        });
    }

    fn fix_up_ends(&mut self, ends: Ends) {
        // How far the symbols with a size reach. A label within one of them names nothing: the
        // function around it does.
        let mut sized_to = 0;
        let mut rest = self.entries.as_mut_slice();
        while let [entry, after @ ..] = rest {
            if entry.end != entry.start {
                sized_to = sized_to.max(entry.end);
            } else if entry.start >= sized_to {
                let end = match after.first() {
                    Some(next) if ends == Ends::Next || next.group == entry.group => next.start,
                    _ => page_end(entry.start),
                };
                entry.end = end.min(entry.limit).max(entry.start);
            }
            rest = after;
        }
    }

    /// The symbol that starts at `start`, if one is there. Only valid after [`Builder::fix_up`].
    pub(super) fn at(&self, start: u64) -> Option<(&str, Kind)> {
        let idx = self.entries.binary_search_by_key(&start, |it| it.start).ok()?;
        let entry = self.entries.get(idx)?;
        Some((name_in(&self.names, entry), entry.kind))
    }

    /// Ends the symbol that runs over `addr` there. Only valid after [`Builder::fix_up`].
    pub(super) fn cut_at(&mut self, addr: u64) {
        let before = self.entries.partition_point(|it| it.start < addr);
        let entry = before.checked_sub(1).and_then(|idx| self.entries.get_mut(idx));
        if let Some(entry) = entry.filter(|it| it.end > addr) {
            entry.end = addr;
        }
    }

    /// The finished table.
    pub(super) fn build(self, overlap: Overlap) -> SymbolTable {
        let Self { mut entries, mut names } = self;
        let ranges = match overlap {
            Overlap::Innermost => {
                entries.sort_by_key(|it| it.start);
                let priorities: Vec<u32> = (0..).take(entries.len()).collect();
                flatten(&entries, &priorities)
            }
            Overlap::Newest => {
                let mut numbered: Vec<(u32, Entry)> = (0..).zip(entries).collect();
                numbered.sort_by_key(|(_, it)| it.start);
                let priorities: Vec<u32>;
                (priorities, entries) = numbered.into_iter().unzip();
                flatten(&entries, &priorities)
            }
        };
        names.shrink_to_fit();
        let parts = Parts::new(ranges.iter().map(|it| it.start));
        SymbolTable { entries, ranges, parts, names }
    }
}

/// Where a symbol that starts at `addr` ends if nothing follows: at the end of the next page.
fn page_end(addr: u64) -> u64 {
    const PAGE: u64 = 4096;
    addr.checked_next_multiple_of(PAGE).and_then(|it| it.checked_add(PAGE)).unwrap_or(u64::MAX)
}

/// Cuts overlapping symbols into disjoint ranges: of the symbols that cover an address, the one with
/// the highest priority has it. `entries` are sorted by start, each with its priority.
fn flatten(entries: &[Entry], priorities: &[u32]) -> Vec<Range> {
    let ranges = Vec::with_capacity(entries.len().saturating_add(1));
    let mut sweep = Sweep { entries, ranges, open: BinaryHeap::new(), at: 0 };
    let starts_after = entries.iter().skip(1).map(|it| it.start).chain([u64::MAX]);
    for (((symbol, entry), &priority), next) in (0..).zip(entries).zip(priorities).zip(starts_after)
    {
        sweep.advance(entry.start);
        if sweep.open.is_empty() && entry.end == next && entry.start != next {
            // The common case: it overlaps nothing.
            sweep.emit(symbol);
            sweep.at = next;
        } else {
            sweep.open.push((priority, symbol));
        }
    }
    sweep.advance(entries.iter().map(|it| it.end).max().unwrap_or(0));
    sweep.emit(NONE);
    sweep.ranges
}

/// A walk over the address space, from one start of a symbol to the next.
struct Sweep<'a> {
    entries: &'a [Entry],
    ranges: Vec<Range>,
    /// The symbols that have started, best first; one that has ended stays until it comes up.
    open: BinaryHeap<(u32, u32)>,
    at: u64,
}

impl Sweep<'_> {
    /// From here on, addresses belong to `symbol`.
    fn emit(&mut self, symbol: u32) {
        match self.ranges.last_mut() {
            Some(last) if last.symbol == symbol => {}
            None if symbol == NONE => {}
            _ => self.ranges.push(Range { start: self.at, symbol }),
        }
    }

    fn end_of(&self, symbol: u32) -> u64 {
        self.entries.get(symbol as usize).map_or(0, |it| it.end)
    }

    /// Gives all addresses up to `to` to the symbols that have started.
    fn advance(&mut self, to: u64) {
        while self.at < to {
            while self.open.peek().is_some_and(|&(_, it)| self.end_of(it) <= self.at) {
                self.open.pop();
            }
            let Some(&(_, top)) = self.open.peek() else {
                self.emit(NONE);
                break;
            };
            self.emit(top);
            self.at = self.end_of(top).min(to);
        }
        self.at = self.at.max(to);
    }
}

/// Whether `second` names an address better than `first`, which starts there too and came earlier.
///
/// As `choose_best_symbol()` in `tools/perf/util/symbol.c`: a symbol with a size before one without, a
/// function before a label, a global one first, fewer leading underscores, the longer name. Unlike
/// there, a weak symbol comes before a local one, since it is the name that others call it by, and the
/// only one that is left when the file is stripped; and what is still equal is decided by name, not by
/// the order in a file.
fn is_second_better(names: &str, first: &Entry, second: &Entry) -> bool {
    let rank = |it: &Entry| {
        (
            it.end > it.start,
            it.kind != Kind::Label,
            match it.binding {
                Binding::Local => 0,
                Binding::Weak => 1,
                Binding::Global => 2,
            },
        )
    };
    match rank(second).cmp(&rank(first)) {
        Ordering::Greater => true,
        Ordering::Less => false,
        Ordering::Equal => {
            let (first, second) = (name_in(names, first), name_in(names, second));
            // Most aliases are the same symbol of two tables, or the two kinds of a constructor.
            if first == second || is_same_structor(first, second) {
                return second < first;
            }
            let merit = |name: &str| {
                let shown = demangle(name);
                let underscores = shown.bytes().take_while(|&byte| byte == b'_').count();
                (std::cmp::Reverse(underscores), shown.len())
            };
            match merit(second).cmp(&merit(first)) {
                Ordering::Greater => true,
                Ordering::Less => false,
                Ordering::Equal => second < first,
            }
        }
    }
}

/// Whether two C++ names differ only in the kind of a constructor or destructor (`C1` and `C2`),
/// which is not shown.
fn is_same_structor(first: &str, second: &str) -> bool {
    let (first, second) = (first.as_bytes(), second.as_bytes());
    let Some(at) = first.iter().zip(second).position(|(a, b)| a != b) else { return false };
    let Some(before) = at.checked_sub(1) else { return false };
    matches!(
        (first.get(before..), second.get(before..)),
        (
            Some([b'C' | b'D', b'0'..=b'5', b'E', first @ ..]),
            Some([_, b'0'..=b'5', b'E', second @ ..])
        ) if first == second
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const FUNCTION: New = New {
        start: 0,
        size: 0,
        limit: u64::MAX,
        binding: Binding::Global,
        kind: Kind::Typed,
        group: 0,
    };

    fn table(overlap: Overlap, symbols: &[(&str, New)]) -> SymbolTable {
        let mut builder = Builder::default();
        for (name, new) in symbols {
            builder.push_str(name, *new);
        }
        if overlap == Overlap::Innermost {
            builder.fix_up(Ends::Next);
        }
        builder.build(overlap)
    }

    #[track_caller]
    fn check(table: &SymbolTable, want: &[(u64, &str)]) {
        for &(addr, want) in want {
            let found = table.find(Addr(addr)).and_then(|idx| table.symbol(idx));
            assert_eq!(found.map_or("-", |it| it.name), want, "at {addr:#x}");
        }
    }

    fn sized(start: u64, size: u64) -> New {
        New { start, size, ..FUNCTION }
    }

    #[test]
    fn a_symbol_covers_its_start_and_not_its_end() {
        let table = table(Overlap::Innermost, &[("b", sized(0x20, 8)), ("a", sized(0x10, 8))]);
        check(
            &table,
            &[(0xf, "-"), (0x10, "a"), (0x17, "a"), (0x18, "-"), (0x20, "b"), (0x28, "-")],
        );
    }

    #[test]
    fn a_symbol_without_a_size_reaches_to_the_next() {
        let table = table(Overlap::Innermost, &[("asm", sized(0x10, 0)), ("b", sized(0x20, 8))]);
        check(&table, &[(0x10, "asm"), (0x1f, "asm"), (0x20, "b")]);
    }

    #[test]
    fn the_last_symbol_without_a_size_ends_with_the_next_page() {
        let table = table(Overlap::Innermost, &[("last", sized(0x1010, 0))]);
        check(&table, &[(0x1010, "last"), (0x2fff, "last"), (0x3000, "-")]);
    }

    #[test]
    fn a_symbol_without_a_size_stays_in_its_section() {
        let symbols = [("data", New { limit: 0x18, ..sized(0x10, 0) }), ("b", sized(0x20, 8))];
        check(&table(Overlap::Innermost, &symbols), &[(0x17, "data"), (0x18, "-"), (0x20, "b")]);
    }

    #[test]
    fn a_label_within_a_function_takes_nothing_from_it() {
        let symbols = [("f", sized(0x10, 0x20)), ("loop", sized(0x18, 0)), ("g", sized(0x30, 0))];
        let table = table(Overlap::Innermost, &symbols);
        check(&table, &[(0x17, "f"), (0x18, "f"), (0x2f, "f"), (0x30, "g")]);
    }

    #[test]
    fn the_innermost_of_nested_symbols_wins_and_the_outer_goes_on_behind_it() {
        let symbols = [("outer", sized(0, 0x100)), ("in", sized(0x10, 8)), ("in2", sized(0x14, 8))];
        let table = table(Overlap::Innermost, &symbols);
        check(
            &table,
            &[(0xf, "outer"), (0x13, "in"), (0x17, "in2"), (0x1c, "outer"), (0x100, "-")],
        );
    }

    #[test]
    fn the_newest_of_overlapping_symbols_wins() {
        let symbols = [("old", sized(0, 0x40)), ("new", sized(0x10, 0x10)), ("newer", sized(0, 4))];
        let table = table(Overlap::Newest, &symbols);
        check(&table, &[(0, "newer"), (4, "old"), (0x10, "new"), (0x20, "old"), (0x40, "-")]);
        assert_eq!(table.iter().map(|it| it.start.0).collect::<Vec<_>>(), [0, 0, 0x10]);
    }

    #[track_caller]
    fn check_alias(first: (&str, New), second: (&str, New), want: &str) {
        for symbols in [[first, second], [second, first]] {
            let table = table(Overlap::Innermost, &symbols);
            assert_eq!(table.len(), 1);
            check(&table, &[(symbols[0].1.start, want)]);
        }
    }

    #[test]
    fn of_aliases_the_global_one_then_the_plain_one_then_the_longer_one_names_the_address() {
        let global = sized(0x10, 8);
        let weak = New { binding: Binding::Weak, ..global };
        let local = New { binding: Binding::Local, ..global };
        let label = New { kind: Kind::Label, ..global };
        check_alias(("weak_and_longer", weak), ("global", global), "global");
        check_alias(("local_and_longer", local), ("global", global), "global");
        check_alias(("weak", weak), ("local_and_longer", local), "weak");
        check_alias(("label_and_longer", label), ("weak", weak), "weak");
        check_alias(("__plain", global), ("plain", global), "plain");
        check_alias(("memcpy", global), ("memcpy_erms", global), "memcpy_erms");
    }

    #[test]
    fn of_equal_aliases_the_first_by_name_names_the_address() {
        check_alias(("two", sized(0x10, 8)), ("one", sized(0x10, 8)), "one");
        check_alias(("_ZN1AC2Ev", sized(0x10, 8)), ("_ZN1AC1Ev", sized(0x10, 8)), "_ZN1AC1Ev");
    }

    #[test]
    fn an_alias_is_judged_by_its_demangled_name() {
        let symbols = [("_ZN3foo3barEv", sized(0x10, 8)), ("foobarbaz", sized(0x10, 8))];
        check(&table(Overlap::Innermost, &symbols), &[(0x10, "_ZN3foo3barEv")]);
    }

    #[test]
    fn what_is_found_in_parts_is_what_is_found_among_all() {
        let spread = |it: u64| it.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let tables: [Vec<u64>; 5] = [
            vec![7],
            (0..1000).collect(),
            (0..1000).map(spread).collect(),
            (0..1000).map(|it| spread(it) >> 40).chain([0, u64::MAX]).collect(),
            (0..100).chain((0..100).map(|it| u64::MAX - 7 * it)).collect(),
        ];
        for mut starts in tables {
            starts.sort_unstable();
            starts.dedup();
            let parts = Parts::new(starts.iter().copied());
            assert!(parts.below.len() <= 2 * starts.len() + 2);
            let around = starts.iter().flat_map(|it| [it.saturating_sub(1), *it, it | 5]);
            for addr in around.chain([0, u64::MAX]) {
                let want = starts.partition_point(|it| *it <= addr);
                let got = parts.of(addr).map_or(0, |(first, end)| {
                    first + starts[first..end].partition_point(|it| *it <= addr)
                });
                assert_eq!(got, want, "{addr:#x}");
            }
        }
        assert_eq!(Parts::new([].into_iter()).of(0), None);
    }

    #[test]
    fn addresses_at_the_end_of_the_address_space_do_not_wrap() {
        let symbols = [("a", sized(u64::MAX - 4, 2)), ("b", sized(u64::MAX - 2, u64::MAX))];
        let table = table(Overlap::Innermost, &symbols);
        check(&table, &[(u64::MAX - 5, "-"), (u64::MAX - 3, "a"), (u64::MAX - 1, "b")]);
    }
}
