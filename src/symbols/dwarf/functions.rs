//! The functions of one unit, and what was inlined into each.

use std::sync::OnceLock;

use gimli::AttributeValue;
use gimli::EntriesRaw;
use gimli::UnitOffset;
use gimli::UnitRef;

use super::Effort;
use super::Purse;
use super::Slice;
use super::entries::Entries;
use super::entries::Within;
use super::ranges::Ranges;
use super::root::Code;
use super::root::each_attribute;
use super::root::skip_attributes;

/// The deepest nesting of inlined functions that is followed.
const MAX_DEPTH: u32 = 256;

/// What came of reading the next entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Next,
    /// There was none.
    End,
    /// It would cost more than may be spent.
    TooFar,
}

/// The functions of a unit that have code, by address.
#[derive(Debug)]
pub(super) struct Functions<'a> {
    found: Found<'a>,
    /// Whether there may be more within what was passed over.
    is_partial: bool,
    /// All of them, read where `found` has none: functions that are within others, or within types.
    all: OnceLock<Option<Found<'a>>>,
}

/// Functions, found by address.
#[derive(Debug)]
struct Found<'a> {
    functions: Vec<Function<'a>>,
    by_addr: Ranges,
}

#[derive(Debug)]
struct Function<'a> {
    entry: UnitOffset,
    inlined: OnceLock<Inlined<'a>>,
}

/// What was inlined into a function: by depth, then by address.
#[derive(Debug, Default)]
struct Inlined<'a> {
    calls: Vec<Call<'a>>,
    ranges: Vec<InlinedRange>,
}

/// A call that was replaced by the function's code.
#[derive(Debug)]
pub(super) struct Call<'a> {
    /// The entry of the inlined function.
    pub(super) entry: UnitOffset,
    /// The number of the file with the call.
    pub(super) file: Option<u64>,
    /// The line of the call; 0 if unknown.
    pub(super) line: u32,
    /// Its column; 0 if unknown.
    pub(super) column: u32,
    /// The name of the inlined function, looked for once.
    pub(super) name: OnceLock<Option<&'a str>>,
}

#[derive(Clone, Copy, Debug)]
struct InlinedRange {
    /// How many functions it is inlined through, from 1.
    depth: u32,
    begin: u64,
    end: u64,
    call: usize,
}

impl<'a> Functions<'a> {
    /// Finds the functions of `unit`, as far as its entries can be read.
    pub(super) fn read(unit: UnitRef<'_, Slice<'_>>, effort: &Effort) -> Option<Self> {
        let (found, is_partial) = Found::read(unit, Within::Skipped, effort)?;
        Some(Self { found, is_partial, all: OnceLock::new() })
    }

    /// The calls that the code at `addr` was inlined through, the innermost first; `None` outside of
    /// all functions.
    pub(super) fn inlined<'l>(
        &'l self,
        unit: UnitRef<'_, Slice<'a>>,
        addr: u64,
        effort: &Effort,
    ) -> Option<impl Iterator<Item = &'l Call<'a>> + use<'l, 'a>> {
        let function = self.found.at(addr).or_else(|| {
            let read = || Found::read(unit, Within::Seen, effort).map(|(found, _)| found);
            let all = self.is_partial.then(|| self.all.get_or_init(read));
            all?.as_ref()?.at(addr)
        })?;
        let read = || Inlined::read(unit, function.entry, effort).unwrap_or_default();
        let inlined = function.inlined.get_or_init(read);
        let mut calls = Vec::new();
        for depth in 1..=MAX_DEPTH {
            let Some(call) = inlined.at(depth, addr) else { break };
            calls.push(call);
        }
        Some(calls.into_iter().rev())
    }
}

impl<'a> Found<'a> {
    /// Finds the functions of `unit`, and whether something was passed over that may hold more.
    fn read(unit: UnitRef<'_, Slice<'_>>, within: Within, effort: &Effort) -> Option<(Self, bool)> {
        let mut purse = Purse::new(effort);
        let mut functions = Vec::new();
        let mut ranges = Vec::new();
        let mut entries = Entries::new(unit, within)?;
        let mut next = || -> gimli::Result<Step> {
            let Some(entry) = entries.next()? else { return Ok(Step::End) };
            if !purse.spend(entry.cost) {
                return Ok(Step::TooFar);
            }
            if !entry.is_function {
                return Ok(Step::Next);
            }
            let mut code = Code::default();
            let mut attributes = unit.entries_raw(Some(entry.offset))?;
            if let Some(abbreviation) = attributes.read_abbreviation()? {
                let note = |name, value| code.note(name, value);
                each_attribute(&mut attributes, abbreviation, note)?;
            }
            let id = u32::try_from(functions.len()).unwrap_or(u32::MAX);
            let n_before = ranges.len();
            code.each_range(unit, &mut purse, |begin, end| ranges.push((begin, end, id)));
            if n_before < ranges.len() {
                if !purse.spend(size_of::<Function<'_>>()) {
                    return Ok(Step::TooFar);
                }
                functions.push(Function { entry: entry.offset, inlined: OnceLock::new() });
            }
            Ok(Step::Next)
        };
        loop {
            match next() {
                Ok(Step::Next) => {}
                // What is damaged ends the unit; what came before it holds.
                Ok(Step::End) | Err(_) => break,
                Ok(Step::TooFar) => return None,
            }
        }
        let found = Self { functions, by_addr: Ranges::new(ranges) };
        Some((found, 0 < entries.n_skipped()))
    }

    /// The function with the code at `addr`.
    fn at(&self, addr: u64) -> Option<&Function<'a>> {
        self.functions.get(self.by_addr.covering(addr).next()? as usize)
    }
}

impl<'a> Inlined<'a> {
    /// Finds what was inlined into the function at `entry`.
    fn read(unit: UnitRef<'_, Slice<'a>>, entry: UnitOffset, effort: &Effort) -> Option<Self> {
        let mut this = Self::default();
        let mut entries = unit.entries_raw(Some(entry)).ok()?;
        let abbreviation = entries.read_abbreviation().ok()??;
        skip_attributes(&mut entries, abbreviation).ok()?;
        // Where the inlined functions are whose entries are not over yet.
        let mut open: Vec<isize> = Vec::new();
        // A function within others is read with each of them.
        let mut purse = Purse::new(effort);
        loop {
            match this.next(unit, &mut entries, &mut open, &mut purse) {
                Ok(Step::Next) => {}
                Ok(Step::End) | Err(_) => break,
                Ok(Step::TooFar) => return None,
            }
        }
        this.ranges.sort_unstable_by_key(|it| (it.depth, it.begin, it.end, it.call));
        Some(this)
    }

    /// Takes in the next entry within the function; whether there was one.
    fn next(
        &mut self,
        unit: UnitRef<'_, Slice<'a>>,
        entries: &mut EntriesRaw<'_, Slice<'a>>,
        open: &mut Vec<isize>,
        purse: &mut Purse<'_>,
    ) -> gimli::Result<Step> {
        let depth = entries.next_depth();
        if depth <= 0 || entries.is_empty() {
            return Ok(Step::End);
        }
        let entry = entries.next_offset();
        let Some(abbreviation) = entries.read_abbreviation()? else { return Ok(Step::Next) };
        // With what each entry costs to look at whatever its length.
        let cost = |entries: &EntriesRaw<'_, Slice<'a>>, from: UnitOffset, n_attributes: usize| {
            entries.next_offset().0 - from.0 + n_attributes
        };
        while open.last().is_some_and(|it| depth <= *it) {
            open.pop();
        }
        match abbreviation.tag() {
            gimli::DW_TAG_inlined_subroutine => {
                let name = OnceLock::new();
                let mut call = Call { entry, file: None, line: 0, column: 0, name };
                let mut code = Code::default();
                let number = |it: AttributeValue<Slice<'_>>| {
                    it.udata_value().and_then(|it| u32::try_from(it).ok()).unwrap_or(0)
                };
                let is_5 = 5 <= unit.header.version();
                each_attribute(entries, abbreviation, |name, value| match (name, value) {
                    // Up to version 4, 0 is no file.
                    (gimli::DW_AT_call_file, AttributeValue::FileIndex(it)) if is_5 || it != 0 => {
                        call.file = Some(it);
                    }
                    (gimli::DW_AT_call_line, it) => call.line = number(it),
                    (gimli::DW_AT_call_column, it) => call.column = number(it),
                    (name, value) => code.note(name, value),
                })?;
                open.push(depth);
                let n_open = u32::try_from(open.len()).unwrap_or(u32::MAX);
                if n_open <= MAX_DEPTH {
                    if !purse.spend(size_of::<Call<'_>>()) {
                        return Ok(Step::TooFar);
                    }
                    let id = self.calls.len();
                    self.calls.push(call);
                    code.each_range(unit, purse, |begin, end| {
                        if begin < end {
                            let range = InlinedRange { depth: n_open, begin, end, call: id };
                            self.ranges.push(range);
                        }
                    });
                }
            }
            gimli::DW_TAG_subprogram => {
                // Another function, whose code is its own.
                skip_attributes(entries, abbreviation)?;
                while depth < entries.next_depth() && !entries.is_empty() {
                    let from = entries.next_offset();
                    if let Some(abbreviation) = entries.read_abbreviation()? {
                        skip_attributes(entries, abbreviation)?;
                        if !purse.spend(cost(entries, from, abbreviation.attributes().len())) {
                            return Ok(Step::TooFar);
                        }
                    }
                }
            }
            _ => skip_attributes(entries, abbreviation)?,
        }
        let is_paid = purse.spend(cost(entries, entry, abbreviation.attributes().len()));
        Ok(if is_paid { Step::Next } else { Step::TooFar })
    }

    /// The call at this depth that the code at `addr` was inlined through.
    fn at(&self, depth: u32, addr: u64) -> Option<&Call<'a>> {
        let behind = self.ranges.partition_point(|it| (it.depth, it.begin) <= (depth, addr));
        let range = self.ranges.get(behind.checked_sub(1)?)?;
        let is_there = range.depth == depth && addr < range.end;
        is_there.then(|| self.calls.get(range.call)).flatten()
    }
}
