//! The functions of one unit, and what was inlined into each.

use std::sync::OnceLock;

use gimli::AttributeValue;
use gimli::EntriesRaw;
use gimli::UnitOffset;
use gimli::UnitRef;

use super::Effort;
use super::Slice;
use super::ranges::Ranges;
use super::root::Code;
use super::root::each_attribute;
use super::root::skip_attributes;

/// The deepest nesting of inlined functions that is followed.
const MAX_DEPTH: u32 = 256;

/// The functions of a unit that have code, by address.
#[derive(Debug)]
pub(super) struct Functions {
    functions: Vec<Function>,
    by_addr: Ranges,
}

#[derive(Debug)]
struct Function {
    entry: UnitOffset,
    inlined: OnceLock<Inlined>,
}

/// What was inlined into a function: by depth, then by address.
#[derive(Debug, Default)]
struct Inlined {
    calls: Vec<Call>,
    ranges: Vec<InlinedRange>,
}

/// A call that was replaced by the function's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    /// The entry of the inlined function.
    pub(super) entry: UnitOffset,
    /// The number of the file with the call.
    pub(super) file: Option<u64>,
    /// The line of the call; 0 if unknown.
    pub(super) line: u32,
    /// Its column; 0 if unknown.
    pub(super) column: u32,
}

#[derive(Clone, Copy, Debug)]
struct InlinedRange {
    /// How many functions it is inlined through, from 1.
    depth: u32,
    begin: u64,
    end: u64,
    call: usize,
}

impl Functions {
    /// Finds the functions of `unit`, as far as its entries can be read.
    pub(super) fn read(unit: UnitRef<'_, Slice<'_>>, effort: &Effort) -> Option<Self> {
        if !effort.spend(unit.header.unit_length()) {
            return None;
        }
        let mut functions = Vec::new();
        let mut ranges = Vec::new();
        let mut entries = unit.entries_raw(None).ok()?;
        let mut next = || -> gimli::Result<bool> {
            if entries.is_empty() {
                return Ok(false);
            }
            let entry = entries.next_offset();
            let Some(abbreviation) = entries.read_abbreviation()? else { return Ok(true) };
            if abbreviation.tag() != gimli::DW_TAG_subprogram {
                skip_attributes(&mut entries, abbreviation)?;
                return Ok(true);
            }
            let mut code = Code::default();
            each_attribute(&mut entries, abbreviation, |name, value| code.note(name, value))?;
            let id = u32::try_from(functions.len()).unwrap_or(u32::MAX);
            let n_before = ranges.len();
            code.each_range(unit, effort, |begin, end| ranges.push((begin, end, id)));
            if n_before < ranges.len() {
                functions.push(Function { entry, inlined: OnceLock::new() });
            }
            Ok(true)
        };
        while let Ok(true) = next() {}
        Some(Self { functions, by_addr: Ranges::new(ranges) })
    }

    /// The calls that the code at `addr` was inlined through, the innermost first; `None` outside of
    /// all functions.
    pub(super) fn inlined(
        &self,
        unit: UnitRef<'_, Slice<'_>>,
        addr: u64,
        effort: &Effort,
    ) -> Option<impl Iterator<Item = Call> + use<>> {
        let id = self.by_addr.covering(addr).next()?;
        let function = self.functions.get(id as usize)?;
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

impl Inlined {
    /// Finds what was inlined into the function at `entry`.
    fn read(unit: UnitRef<'_, Slice<'_>>, entry: UnitOffset, effort: &Effort) -> Option<Self> {
        let mut this = Self::default();
        let mut entries = unit.entries_raw(Some(entry)).ok()?;
        let abbreviation = entries.read_abbreviation().ok()??;
        skip_attributes(&mut entries, abbreviation).ok()?;
        // Where the inlined functions are whose entries are not over yet.
        let mut open: Vec<isize> = Vec::new();
        while let Ok(true) = this.next(unit, &mut entries, &mut open, effort) {}
        let end = entries.next_offset();
        // A function within others is read with each of them.
        if !effort.spend(end.0 - entry.0) {
            return None;
        }
        this.ranges.sort_unstable_by_key(|it| (it.depth, it.begin, it.end, it.call));
        Some(this)
    }

    /// Takes in the next entry within the function; whether there was one.
    fn next<'a>(
        &mut self,
        unit: UnitRef<'_, Slice<'a>>,
        entries: &mut EntriesRaw<'_, Slice<'a>>,
        open: &mut Vec<isize>,
        effort: &Effort,
    ) -> gimli::Result<bool> {
        let depth = entries.next_depth();
        if depth <= 0 || entries.is_empty() {
            return Ok(false);
        }
        let entry = entries.next_offset();
        let Some(abbreviation) = entries.read_abbreviation()? else { return Ok(true) };
        while open.last().is_some_and(|it| depth <= *it) {
            open.pop();
        }
        match abbreviation.tag() {
            gimli::DW_TAG_inlined_subroutine => {
                let mut call = Call { entry, file: None, line: 0, column: 0 };
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
                    let id = self.calls.len();
                    self.calls.push(call);
                    code.each_range(unit, effort, |begin, end| {
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
                    if let Some(abbreviation) = entries.read_abbreviation()? {
                        skip_attributes(entries, abbreviation)?;
                    }
                }
            }
            _ => skip_attributes(entries, abbreviation)?,
        }
        Ok(true)
    }

    /// The call at this depth that the code at `addr` was inlined through.
    fn at(&self, depth: u32, addr: u64) -> Option<Call> {
        let behind = self.ranges.partition_point(|it| (it.depth, it.begin) <= (depth, addr));
        let range = self.ranges.get(behind.checked_sub(1)?)?;
        let is_there = range.depth == depth && addr < range.end;
        is_there.then(|| self.calls.get(range.call).copied()).flatten()
    }
}
