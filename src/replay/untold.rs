//! BPF programs whose symbols no record tells of, named by what the sections know of them.
//!
//! perf records the loads of the recorded task alone, and the kernel drops records where a ring is
//! full; but the section `BPF_PROG_INFO` has the addresses of every program that could be asked. An
//! address is not enough, since another program can have had it before or after. So a program that
//! no `KSYMBOL` tells of owns its addresses
//!
//! ```text
//! from    its BPF_EVENT, else the time of its load, where the clocks of the kernel and of the
//!         recording can be compared, else the beginning
//! until   its BPF_EVENT, else a KSYMBOL that ends a symbol nobody has begun, else the end
//! ```
//!
//! and only while no symbol that a record tells of is there, nor has come and gone in between. Where
//! two such programs can have been at an address, neither is.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use rustc_hash::FxHashSet;

use crate::btf::Btf;
use crate::perfdata::Cursor;
use crate::perfdata::Endian;
use crate::perfdata::bpf_info::ProgFunction;
use crate::perfdata::bpf_info::ProgInfo;
use crate::perfdata::bpf_info::decode_btfs;
use crate::perfdata::feature::Feature;
use crate::perfdata::feature::FeatureId;
use crate::perfdata::private::Message;
use crate::units::BpfTag;
use crate::units::FileOffset;
use crate::units::Nanos;
use crate::units::ProgId;

use super::spans::Moment;
use super::spans::Span;
use super::spans::Spans;
use super::spans::SpansBuilder;
use super::timeline::Fact;
use super::timeline::KernelSymbol;

/// The owner of addresses at which one program or another can have been.
const NOBODY: u32 = u32::MAX;

/// How many programs that claim the same addresses at once are told apart.
const MAX_DISPUTED: usize = 1024;

/// How many symbols are looked at in all, to see who was at the addresses of a program: in a damaged
/// file everything can overlap everything.
const MAX_LOOKS: usize = 1 << 24;

/// The programs of the sections of a recording, and what to make of them.
#[derive(Debug, Default)]
pub(super) struct Untold<'a> {
    programs: Vec<Program<'a>>,
    raw_btfs: BTreeMap<u32, &'a [u8]>,
    /// Those that were asked for; `None` where it cannot be read.
    btfs: BTreeMap<u32, Option<Btf>>,
    by_id: FxHashMap<ProgId, usize>,
    /// What to add to a time since boot to get one of the recording, at most.
    clock: Option<i128>,
    /// When a symbol ended that nobody had begun, by where it began.
    orphans: FxHashMap<u64, Vec<Moment>>,
    /// When the program was loaded, since boot, whose symbol a record tells of, by that symbol.
    load_times: FxHashMap<u32, u64>,
    /// The number of the first symbol that comes from here.
    first_symbol: u32,
    symbols: Vec<KernelSymbol>,
}

#[derive(Debug)]
struct Program<'a> {
    info: ProgInfo<'a>,
    functions: Vec<Function>,
    is_loaded_by_record: bool,
    unloaded: Option<Moment>,
}

#[derive(Clone, Copy, Debug)]
struct Function {
    idx: usize,
    start: u64,
    end: u64,
    /// The tags that its name can bear: the kernel names the first function by the program's, perf
    /// by its own.
    tags: [Option<BpfTag>; 2],
}

impl<'a> Untold<'a> {
    /// The programs in `features` and `messages`.
    pub(super) fn new(
        endian: Endian,
        features: impl Iterator<Item = &'a Feature>,
        messages: &'a [Message],
    ) -> Self {
        let mut this = Self::default();
        let sections = features.filter_map(|it| match it {
            Feature::BpfProgInfo(bytes) => Some((FeatureId::BPF_PROG_INFO, bytes)),
            Feature::BpfBtf(bytes) => Some((FeatureId::BPF_BTF, bytes)),
            _ => None,
        });
        let parts = messages.iter().filter_map(|it| match it {
            Message::Feature(it) => Some((FeatureId(it.id.try_into().ok()?), &it.data)),
            _ => None,
        });
        for (id, bytes) in sections.chain(parts) {
            let mut cursor = Cursor::new(bytes, FileOffset(0), endian);
            match id {
                FeatureId::BPF_PROG_INFO => {
                    // Those before the damage are good.
                    let n = cursor.u32("number of BPF programs").unwrap_or_default();
                    let infos = (0..n).map_while(|_| ProgInfo::decode(&mut cursor).ok());
                    infos.for_each(|it| this.add(it));
                }
                FeatureId::BPF_BTF => this.raw_btfs.extend(decode_btfs(cursor).unwrap_or_default()),
                _ => {}
            }
        }
        this
    }

    fn add(&mut self, info: ProgInfo<'a>) {
        let known = self.by_id.insert(info.id(), self.programs.len());
        if let Some(known) = known {
            // The same once more, or another that got the id of the first: of those nothing is sure.
            self.by_id.insert(info.id(), known);
            let known = &mut self.programs[known];
            if known.info.load_time_ns() != info.load_time_ns() {
                known.functions.clear();
            }
            return;
        }
        let function = |(idx, it): (usize, ProgFunction)| Function {
            idx,
            start: it.addr.0,
            end: it.addr.0.saturating_add(u64::from(it.len)),
            tags: [it.tag, (idx == 0).then(|| info.tag())],
        };
        let functions = info.functions().map(function).collect();
        self.programs.push(Program { info, functions, is_loaded_by_record: false, unloaded: None });
    }

    /// Looks over all facts before the first is applied; `n_symbols` is how many symbols they have.
    pub(super) fn prepare(&mut self, facts: &[(Moment, Fact)], n_symbols: u32) {
        self.first_symbol = n_symbols;
        for (moment, fact) in facts {
            let Fact::Load(id) = fact else { continue };
            let Some(program) = self.by_id.get(id).map(|it| &self.programs[*it]) else { continue };
            let load_time = program.info.load_time_ns();
            if moment.time != Nanos(0) && load_time != 0 {
                let ahead = i128::from(moment.time.0) - i128::from(load_time);
                self.clock = Some(self.clock.map_or(ahead, |it| it.min(ahead)));
            }
        }
    }

    /// The `BPF_EVENT` of a load: where no symbol has been told, the section's stands in.
    pub(super) fn load(
        &mut self,
        id: ProgId,
        now: Moment,
        told: &mut SpansBuilder,
        symbols: &[KernelSymbol],
    ) {
        let Some(&idx) = self.by_id.get(&id) else { return };
        self.programs[idx].is_loaded_by_record = true;
        let load_time = self.programs[idx].info.load_time_ns();
        let mut missing = Vec::new();
        for function in &self.programs[idx].functions {
            match told.live_at(function.start) {
                Some(span) if function.is(self.symbol(span.owner, symbols)) => {
                    self.load_times.insert(span.owner, load_time);
                }
                _ => missing.push(*function),
            }
        }
        for (function, name) in self.names(idx, &missing) {
            let owner = self.add_symbol(&function, name);
            self.load_times.insert(owner, load_time);
            told.begin(function.start, function.end, now, owner);
        }
    }

    /// The `BPF_EVENT` of an unload: it ends what is there of the program's.
    pub(super) fn unload(
        &mut self,
        id: ProgId,
        now: Moment,
        told: &mut SpansBuilder,
        symbols: &[KernelSymbol],
    ) {
        let Some(&idx) = self.by_id.get(&id) else { return };
        self.programs[idx].unloaded.get_or_insert(now);
        for function in &self.programs[idx].functions {
            let owner = told.live_at(function.start).map(|it| it.owner);
            if owner.is_some_and(|it| function.is(self.symbol(it, symbols))) {
                told.end(function.start, now);
            }
        }
    }

    /// A symbol ended that nobody has begun.
    pub(super) fn orphan(&mut self, start: u64, now: Moment) {
        if !self.programs.is_empty() {
            self.orphans.entry(start).or_default().push(now);
        }
    }

    /// Who owned which address beneath what `told` says of the whole recording; and the symbols
    /// that come after those of records.
    pub(super) fn finish(
        mut self,
        told: &SpansBuilder,
        symbols: &[KernelSymbol],
    ) -> (Spans, Vec<KernelSymbol>) {
        let mut lives: Vec<Span> = Vec::new();
        let mut owned = Vec::new();
        let mut n_looks = 0;
        for idx in 0..self.programs.len() {
            if self.programs[idx].is_loaded_by_record || self.programs[idx].functions.is_empty() {
                continue;
            }
            if lives.is_empty() {
                lives.extend(told.all());
                lives.sort_unstable_by_key(|it| it.start);
            }
            let Some((from, until, missing)) = self.life(idx, &lives, symbols, &mut n_looks) else {
                continue;
            };
            let load_time = self.programs[idx].info.load_time_ns();
            for (function, name) in self.names(idx, &missing) {
                let owner = self.add_symbol(&function, name);
                let Function { start, end, .. } = function;
                owned.push((load_time, Span { start, end, from, until, owner }));
            }
        }
        owned.sort_unstable_by_key(|(load_time, it)| (it.from, *load_time, it.start));
        (lay(owned.into_iter().map(|(_, it)| it)), self.symbols)
    }

    /// From when to when a program was where the section says, beside the `lives` of the symbols
    /// that records tell of, and which of its functions are none of these; `None` where that is not
    /// sure. A program comes and goes with all its functions.
    fn life(
        &self,
        idx: usize,
        lives: &[Span],
        symbols: &[KernelSymbol],
        n_looks: &mut usize,
    ) -> Option<(Moment, Moment, Vec<Function>)> {
        let program = &self.programs[idx];
        let load_time = program.info.load_time_ns();
        let loaded = self.clock.filter(|_| load_time != 0);
        let loaded = loaded.map(|it| i128::from(load_time) + it);
        // One that was there before the clock of the recording began was there at its beginning.
        let loaded = loaded.map(|it| Nanos(u64::try_from(it).unwrap_or(0)));
        let mut from = loaded.map_or(Moment::START, |time| Moment { time, position: 0 });
        let orphans = program.functions.iter().filter_map(|it| {
            let orphans = self.orphans.get(&it.start)?;
            orphans.get(orphans.partition_point(|it| *it <= from)).copied()
        });
        let mut until = program.unloaded.or(orphans.min()).unwrap_or(Moment::END);
        // Sorted by beginning, and the longest begins no earlier than this before.
        let longest = lives.iter().map(|it| it.end - it.start).max().unwrap_or(0);
        let mut missing = Vec::new();
        let mut told: Option<&Span> = None;
        for function in &program.functions {
            let first = function.start.saturating_sub(longest);
            let first = lives.partition_point(|it| it.start < first);
            let mut is_told = false;
            for life in lives[first..].iter().take_while(|it| it.start < function.end) {
                *n_looks += 1;
                if MAX_LOOKS <= *n_looks {
                    return None;
                }
                if life.end <= function.start {
                    continue;
                }
                let symbol = self.symbol(life.owner, symbols);
                if life.start == function.start && function.is(symbol) {
                    is_told = true;
                    // It came and went with those of its functions that are told.
                    let same = told.get_or_insert(life);
                    if same.owner != life.owner
                        && same.until.min(life.until) <= same.from.max(life.from)
                    {
                        return None;
                    }
                    continue;
                }
                if life.until <= from || until <= life.from {
                    continue;
                }
                let theirs = self.load_times.get(&life.owner).filter(|it| **it != 0);
                let is_before = match (theirs.filter(|_| load_time != 0), loaded) {
                    (Some(&theirs), _) => load_time < theirs,
                    (None, Some(_)) => from < life.from,
                    (None, None) => return None,
                };
                if is_before {
                    until = until.min(life.from);
                } else {
                    from = from.max(life.until);
                }
            }
            if !is_told {
                missing.push(*function);
            }
        }
        if let Some(told) = told {
            (from, until) = (told.from, told.until);
        }
        (from < until && !missing.is_empty()).then_some((from, until, missing))
    }

    /// The names of `functions` of a program.
    fn names(&mut self, idx: usize, functions: &[Function]) -> Vec<(Function, Vec<u8>)> {
        if functions.is_empty() {
            return Vec::new();
        }
        let Self { programs, raw_btfs, btfs, .. } = self;
        let info = &programs[idx].info;
        let btf = info.btf_id().and_then(|id| {
            let parse = || Btf::parse(raw_btfs.get(&id)?.to_vec()).ok();
            btfs.entry(id).or_insert_with(parse).as_ref()
        });
        let named = info.symbols(|id| btf?.function_name(id));
        let mut named: FxHashMap<_, _> = named.into_iter().map(|it| (it.idx, it.name)).collect();
        let name = |it: &Function| Some((*it, named.remove(&it.idx)?));
        functions.iter().filter_map(name).collect()
    }

    fn add_symbol(&mut self, function: &Function, name: Vec<u8>) -> u32 {
        let n_own = u32::try_from(self.symbols.len()).unwrap_or(NOBODY);
        self.symbols.push(KernelSymbol { name, start: function.start, end: function.end });
        self.first_symbol.saturating_add(n_own)
    }

    fn symbol<'s>(&'s self, owner: u32, told: &'s [KernelSymbol]) -> Option<&'s KernelSymbol> {
        let own = owner.checked_sub(self.first_symbol).and_then(|it| self.symbols.get(it as usize));
        own.or_else(|| told.get(owner as usize))
    }
}

impl Function {
    /// Whether a symbol that begins where this does is this.
    fn is(&self, symbol: Option<&KernelSymbol>) -> bool {
        let Some(rest) = symbol.and_then(|it| it.name.strip_prefix(b"bpf_prog_")) else {
            return false;
        };
        let mut tags = self.tags.iter().flatten().peekable();
        // Without a tag there is nothing to tell it by.
        tags.peek().is_none() || tags.any(|it| rest.starts_with(it.to_string().as_bytes()))
    }
}

/// Lays spans over each other, which come in the order of their beginnings: the later one wins, but
/// of two that begin at once, where they overlap, nobody.
fn lay(spans: impl Iterator<Item = Span>) -> Spans {
    let mut builder = SpansBuilder::default();
    // Who ends when, the earliest first.
    let mut ends: BTreeMap<Moment, Vec<Span>> = BTreeMap::new();
    let end = |builder: &mut SpansBuilder, ended: Vec<Span>, now: Moment| {
        for span in ended {
            // What later ones have left of it lies within it.
            let left: Vec<u64> = builder
                .live_in(span.start, span.end)
                .filter(|it| it.owner == span.owner)
                .map(|it| it.start)
                .collect();
            for start in left {
                builder.end(start, now);
            }
        }
    };
    for span in spans {
        while let Some(first) = ends.first_entry().filter(|it| *it.key() <= span.from) {
            let (now, ended) = first.remove_entry();
            end(&mut builder, ended, now);
        }
        let at_once = builder.live_in(span.start, span.end).filter(|it| it.from == span.from);
        let disputed: Vec<Span> = at_once.take(MAX_DISPUTED).copied().collect();
        let is_all = disputed.len() == MAX_DISPUTED;
        builder.cover(span.start, span.end, span.from, if is_all { NOBODY } else { span.owner });
        for other in disputed.iter().filter(|_| !is_all) {
            let (start, end) = (span.start.max(other.start), span.end.min(other.end));
            builder.cover(start, end, span.from, NOBODY);
        }
        ends.entry(span.until).or_default().push(span);
    }
    for (now, ended) in ends {
        if now != Moment::END {
            end(&mut builder, ended, now);
        }
    }
    builder.build()
}

/// The owner of a span, where that is a symbol.
pub(super) fn owner(span: &Span) -> Option<u32> {
    Some(span.owner).filter(|it| *it != NOBODY)
}

/// The places of symbols and loads that are told of twice: as there before the start, and as loaded later.
///
/// The recorder looks at what is loaded when it is already told of loads, so a program that comes in
/// between is both; it was not there before its load.
pub(super) fn told_twice(facts: &[(Moment, Fact)]) -> FxHashSet<u64> {
    let mut doubles = FxHashSet::default();
    let is_timed = |it: &(Moment, Fact)| it.0.time != Nanos(0);
    let (before, after) = facts.split_at(facts.partition_point(|it| !is_timed(it)));
    let loads = after.iter().filter_map(|(_, fact)| match fact {
        Fact::Load(id) => Some(*id),
        _ => None,
    });
    let loaded: FxHashSet<ProgId> = loads.collect();
    if loaded.is_empty() {
        return doubles;
    }
    // Whether the first that is told of an address is that something begins there.
    let mut begins: FxHashMap<u64, bool> = FxHashMap::default();
    for (_, fact) in after {
        match fact {
            Fact::Register(symbol) => _ = begins.entry(symbol.start).or_insert(true),
            Fact::Unregister(start) => _ = begins.entry(*start).or_insert(false),
            _ => {}
        }
    }
    let mut pending = Vec::new();
    for (moment, fact) in before {
        match fact {
            Fact::Register(symbol) => pending.push((moment.position, symbol.start)),
            Fact::Load(id) if loaded.contains(id) => {
                doubles.insert(moment.position);
                let twice = pending.drain(..).filter(|(_, start)| begins.get(start) == Some(&true));
                doubles.extend(twice.map(|(position, _)| position));
            }
            _ => pending.clear(),
        }
    }
    doubles
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::timeline::Owner;
    use crate::replay::timeline::Timeline;

    const A: u64 = 0xffff_ffff_c000_0000;

    fn at(time: u64) -> Moment {
        Moment { time: Nanos(time), position: time }
    }

    fn tag(it: u8) -> BpfTag {
        BpfTag([it; 8])
    }

    /// The symbol of 0x80 bytes at `start` of a program with such a tag, as the kernel names it.
    fn register(start: u64, tag: u8) -> Fact {
        let name = format!("bpf_prog_{}_told", self::tag(tag)).into_bytes();
        Fact::Register(KernelSymbol { name, start, end: start + 0x80 })
    }

    /// What the section says of a program called `info` with a tag and one function at `start`.
    fn info(id: u32, load_time: u64, tag: u8, start: u64) -> Vec<u8> {
        info_at(id, load_time, tag, &[start])
    }

    fn info_of_two(id: u32, load_time: u64, tag: u8, first: u64, second: u64) -> Vec<u8> {
        info_at(id, load_time, tag, &[first, second])
    }

    fn info_at(id: u32, load_time: u64, tag: u8, starts: &[u64]) -> Vec<u8> {
        let n = u8::try_from(starts.len()).unwrap();
        let mut info = [0; 232];
        let mut put = |at: usize, bytes: &[u8]| info[at..at + bytes.len()].copy_from_slice(bytes);
        put(4, &id.to_le_bytes());
        put(8, &[tag; 8]);
        put(40, &load_time.to_le_bytes());
        put(64, b"info");
        for count in [104, 108, 180] {
            put(count, &[n]);
        }
        put(120, &[8 * n]);
        put(184, &[16 * n]);
        let mut data: Vec<u8> = starts.iter().flat_map(|it| it.to_le_bytes()).collect();
        data.extend(starts.iter().flat_map(|_| [0x80, 0, 0, 0]));
        data.resize(16 * starts.len(), 0);
        // perf names a function by a tag of its own.
        data.extend(starts.iter().flat_map(|_| [tag + 100; 8]));
        let len = u8::try_from(data.len()).unwrap();
        let head = [&[232, 0, 0, 0, len, 0, 0, 0, 0x18, 1][..], &[0; 6]].concat();
        [&head[..], &info, &data].concat()
    }

    /// The names at `A + 8` at some times, without what follows the tag's first two digits.
    #[track_caller]
    fn check(infos: &[Vec<u8>], facts: &[(Moment, Fact)], want: &[(u64, Option<&str>)]) {
        let n = u32::try_from(infos.len()).unwrap().to_le_bytes();
        let section = Feature::BpfProgInfo([&n[..], &infos.concat()].concat());
        let untold = Untold::new(Endian::Little, [&section].into_iter(), &[]);
        let timeline = Timeline::with_programs(facts.to_vec(), vec![], untold);
        for (time, want) in want {
            let name = timeline.kernel(A + 8, at(*time)).map(|it| match it {
                Owner::Ksymbol(idx) => {
                    let name = String::from_utf8(timeline.ksymbol(idx).name.clone()).unwrap();
                    format!("{}{}", &name[9..11], &name[25..])
                }
                Owner::Mapping(_) => panic!("no mapping"),
            });
            assert_eq!(name.as_deref(), *want, "at {time}");
        }
    }

    #[test]
    fn a_program_of_which_no_record_tells_is_named_by_its_section() {
        check(&[info(7, 1000, 1, A)], &[], &[(0, Some("01_info")), (90, Some("01_info"))]);
    }

    #[test]
    fn a_program_comes_and_goes_with_all_its_functions() {
        // Of the first function nothing is told, and of the second all.
        let two = info_of_two(7, 1000, 1, A, A + 0x1000);
        let facts = [(at(30), register(A + 0x1000, 101)), (at(60), Fact::Unregister(A + 0x1000))];
        check(std::slice::from_ref(&two), &facts, &[(29, None), (30, Some("01_info")), (60, None)]);
        // Where the second was another's, the first was not there, either.
        let facts = [(at(30), register(A + 0x1000, 2)), (at(60), Fact::Unregister(A + 0x1000))];
        check(std::slice::from_ref(&two), &facts, &[(0, None), (30, None), (60, None)]);
        let facts = [facts[0].clone(), (at(31), Fact::Load(ProgId(8))), facts[1].clone()];
        let other = info(8, 2000, 2, A + 0x1000);
        check(&[two, other], &facts, &[(29, Some("01_info")), (30, None), (60, None)]);
    }

    #[test]
    fn a_load_without_a_symbol_begins_then_and_an_unload_ends_it() {
        let facts = [(at(30), Fact::Load(ProgId(7))), (at(60), Fact::Unload(ProgId(7)))];
        let want = [(29, None), (30, Some("01_info")), (59, Some("01_info")), (60, None)];
        check(&[info(7, 1000, 1, A)], &facts, &want);
    }

    #[test]
    fn an_unload_without_its_symbols_ends_them() {
        let facts = [
            (at(30), register(A, 1)),
            (at(31), Fact::Load(ProgId(7))),
            (at(60), Fact::Unload(ProgId(7))),
        ];
        let want = [(29, None), (30, Some("01_told")), (60, None)];
        check(&[info(7, 1000, 1, A)], &facts, &want);
    }

    #[test]
    fn what_a_record_has_told_is_not_told_again_whoever_named_it() {
        for tag in [1, 101] {
            let facts = [
                (at(0), register(A, tag)),
                (at(0), Fact::Load(ProgId(7))),
                (at(60), Fact::Unregister(A)),
            ];
            let name = format!("{tag:02x}_told");
            let want = [(0, Some(&*name)), (59, Some(&*name)), (60, None)];
            check(&[info(7, 1000, 1, A)], &facts, &want);
            // Nor where the kernel dropped the event.
            check(&[info(7, 1000, 1, A)], &[facts[0].clone(), facts[2].clone()], &want);
        }
    }

    #[test]
    fn beside_another_program_the_times_of_the_loads_decide() {
        let facts = [
            (at(30), register(A, 2)),
            (at(31), Fact::Load(ProgId(8))),
            (at(60), Fact::Unregister(A)),
            (at(61), Fact::Unload(ProgId(8))),
        ];
        let other = info(8, 2000, 2, A);
        let (before, after) = (
            [(0, Some("01_info")), (30, Some("02_told")), (60, None)],
            [(0, None), (30, Some("02_told")), (60, Some("01_info"))],
        );
        check(&[info(7, 1000, 1, A), other.clone()], &facts[..3], &before);
        check(&[info(7, 2010, 1, A), other], &facts[..3], &after);
        // Of the other nothing else is known.
        let neither = [(0, None), (30, Some("02_told")), (60, None)];
        check(&[info(7, 1000, 1, A)], &facts, &neither);
    }

    #[test]
    fn a_symbol_that_ends_without_a_beginning_was_the_programs() {
        let facts = [(at(40), Fact::Unregister(A))];
        check(&[info(7, 1000, 1, A)], &facts, &[(39, Some("01_info")), (40, None)]);
    }

    #[test]
    fn where_clocks_can_be_compared_a_program_begins_at_its_load() {
        // This one tells that the recording's clock is 940 behind the time since boot.
        let other = info(8, 1000, 2, A + 0x1000);
        let facts = [(at(59), register(A + 0x1000, 2)), (at(60), Fact::Load(ProgId(8)))];
        let want = [(19, None), (20, Some("01_info")), (90, Some("01_info"))];
        check(&[info(7, 960, 1, A), other], &facts, &want);
    }

    #[test]
    fn of_two_that_claim_an_address_the_later_has_it_and_without_times_neither() {
        let two = [info(7, 960, 1, A), info(8, 970, 2, A + 4)];
        check(&two, &[], &[(0, None), (90, None)]);
        let other = info(9, 1000, 3, A + 0x1000);
        let facts = [(at(59), register(A + 0x1000, 3)), (at(60), Fact::Load(ProgId(9)))];
        let three = [&two[..], &[other]].concat();
        let want =
            [(19, None), (20, Some("01_info")), (30, Some("02_info")), (90, Some("02_info"))];
        check(&three, &facts, &want);
    }

    #[test]
    fn a_program_that_is_met_at_the_start_and_live_begins_at_its_load() {
        let facts = [
            (Moment { time: Nanos(0), position: 1 }, register(A, 1)),
            (Moment { time: Nanos(0), position: 2 }, Fact::Load(ProgId(7))),
            (at(30), register(A, 1)),
            (at(31), Fact::Load(ProgId(7))),
        ];
        check(&[info(7, 1000, 1, A)], &facts, &[(29, None), (30, Some("01_told"))]);
        check(&[], &facts, &[(29, None), (30, Some("01_told"))]);
        // Where it was unloaded first, it had been there before.
        let again = [&facts[..2], &[(at(10), Fact::Unregister(A))], &facts[2..]].concat();
        check(&[], &again, &[(9, Some("01_told")), (29, None), (30, Some("01_told"))]);
    }
}
