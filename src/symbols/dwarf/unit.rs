//! One unit of debug information, read when it is asked for.

use std::sync::OnceLock;

use gimli::Section as _;
use gimli::UnitOffset;
use gimli::UnitRef;
use gimli::UnitType;

use super::Dwarf;
use super::DwarfLines;
use super::Effort;
use super::NativeLine;
use super::PER_ABBREVIATION_BYTE;
use super::Slice;
use super::SourceFrame;
use super::functions::Functions;
use super::lines::Lines;
use super::names;
use super::root::Root;

/// A unit: all that a compiler noted of one file of source, or a part that such share.
#[derive(Debug)]
pub(super) struct Unit<'a> {
    /// Where it begins in its section.
    pub(super) offset: usize,
    root: Root<'a>,
    split: OnceLock<Option<Box<Split<'a>>>>,
    lines: OnceLock<Option<Lines<'a>>>,
    functions: OnceLock<Option<Functions<'a>>>,
}

/// The entries of a unit that are in a file of their own.
#[derive(Debug)]
struct Split<'a> {
    dwarf: Dwarf<'a>,
    root: Root<'a>,
}

impl<'a> Unit<'a> {
    pub(super) fn new(root: Root<'a>) -> Self {
        let offset = root.unit.header.debug_info_offset().map_or(0, |it| it.0);
        let (lines, functions) = (OnceLock::new(), OnceLock::new());
        Self { offset, root, split: OnceLock::new(), lines, functions }
    }

    /// Whether it says itself where its code is.
    pub(super) fn has_ranges(&self) -> bool {
        !self.root.ranges.is_empty()
    }

    /// Whether its entries are in another file.
    pub(super) fn is_split(&self) -> bool {
        self.root.unit.dwo_id.is_some()
    }

    /// Whether its entries were looked for in another file, which is not there.
    pub(super) fn is_bereft(&self) -> bool {
        matches!(self.split.get(), Some(None))
    }

    /// Where its code is: what it says itself, what is `listed` elsewhere, or what has lines.
    pub(super) fn take_ranges(
        &mut self,
        dwarf: &Dwarf<'a>,
        listed: Vec<(u64, u64)>,
        effort: &Effort,
    ) -> Vec<(u64, u64)> {
        let own = std::mem::take(&mut self.root.ranges);
        match self.root.unit.header.type_() {
            // What units share has no code of its own.
            UnitType::Partial => Vec::new(),
            _ if !own.is_empty() => own,
            _ if !listed.is_empty() => listed,
            _ => self.lines(dwarf, effort).map_or_else(Vec::new, |it| it.ranges().collect()),
        }
    }

    /// The unit with what it refers to.
    pub(super) fn reference<'l>(&'l self, dwarf: &'l Dwarf<'a>) -> UnitRef<'l, Slice<'a>> {
        self.root.unit.unit_ref(dwarf)
    }

    /// The offset within the unit of what is at `offset` of its section.
    pub(super) fn offset_within(&self, offset: gimli::DebugInfoOffset) -> Option<UnitOffset> {
        offset.to_unit_offset(&self.root.unit.header)
    }

    fn lines<'l>(&'l self, dwarf: &'l Dwarf<'a>, effort: &Effort) -> Option<&'l Lines<'a>> {
        let read = || Lines::read(self.reference(dwarf), self.root.lines?, effort);
        self.lines.get_or_init(read).as_ref()
    }

    /// The line of the code at `addr`.
    pub(super) fn line<'l>(&'l self, all: &'l DwarfLines<'a>, addr: u64) -> Option<NativeLine<'l>> {
        let unit = self.reference(&all.dwarf);
        self.lines(&all.dwarf, &all.effort)?.at(unit, addr, &all.effort)
    }

    /// The unit that has its entries: itself, or what was split off; `None` if that is not there.
    fn entries<'l>(&'l self, all: &'l DwarfLines<'a>) -> Option<UnitRef<'l, Slice<'a>>> {
        if self.root.dwo_name.is_none() {
            return Some(self.reference(&all.dwarf));
        }
        let split = self.split.get_or_init(|| self.find_split(all).map(Box::new));
        split.as_ref().map(|it| it.root.unit.unit_ref(&it.dwarf))
    }

    fn find_split(&self, all: &DwarfLines<'a>) -> Option<Split<'a>> {
        let id = self.root.unit.dwo_id?;
        let dwarf = all.split(self.offset, id, self.root.unit.comp_dir, self.root.dwo_name?)?;
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            if matches!(header.type_(), UnitType::Type { .. } | UnitType::SplitType { .. }) {
                continue;
            }
            let n_bytes = dwarf.debug_abbrev.reader().len();
            if !all.effort.spend(n_bytes.saturating_mul(PER_ABBREVIATION_BYTE)) {
                return None;
            }
            let Ok(abbreviations) = dwarf.abbreviations(&header) else { continue };
            let Ok(mut root) = Root::read(&dwarf, header, abbreviations, &all.effort) else {
                continue;
            };
            if root.unit.dwo_id == Some(id) {
                root.unit.copy_relocated_attributes(&self.root.unit);
                return Some(Split { dwarf, root });
            }
        }
        None
    }

    /// Adds the functions that the code at `addr` is in; whether it knows any of them, or a line.
    pub(super) fn frames<'l>(
        &'l self,
        all: &'l DwarfLines<'a>,
        addr: u64,
        frames: &mut Vec<SourceFrame<'l>>,
    ) -> bool {
        let mut line = self.line(all, addr);
        let own = self.reference(&all.dwarf);
        // Without its entries, what can be told is the line.
        let unit = self.entries(all);
        let functions =
            self.functions.get_or_init(|| Functions::read(unit.unwrap_or(own), &all.effort));
        let unit = unit.unwrap_or(own);
        let inlined = functions.as_ref().and_then(|it| it.inlined(unit, addr, &all.effort));
        if inlined.is_none() && line.is_none() {
            return false;
        }
        for call in inlined.into_iter().flatten() {
            let name = || names::of_entry(all, unit, call.entry);
            let function = *call.name.get_or_init(name);
            frames.push(SourceFrame { function, line });
            let lines = self.lines(&all.dwarf, &all.effort);
            let file = call.file.and_then(|it| lines?.path(own, it, &all.effort));
            line = file.map(|file| NativeLine { file, line: call.line, column: call.column });
        }
        frames.push(SourceFrame { function: None, line });
        true
    }
}
