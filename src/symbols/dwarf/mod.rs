//! Debug information: addresses to lines of source, and to the functions that were inlined there.
//!
//! In come the sections of an ELF file, out come, for one address, the functions that it is in, the
//! innermost first, each with its line. Units are indexed at once, in parallel; what is in them is
//! read when an address of theirs is asked for, once, by any thread.
//!
//! The bytes are untrusted. What cannot be read costs its unit, chains of references and nesting end
//! at fixed depths, and all that is read and kept comes out of what the length of the sections allows
//! (`effort`).
//!
//! Source: DWARF 5, 2.17 (addresses), 3.3 (functions), 6.2 (lines).

mod effort;
mod entries;
mod functions;
mod lines;
mod names;
mod ranges;
mod root;
#[cfg(test)]
mod tests;
mod unit;

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::sync::OnceLock;

use gimli::Abbreviations;
use gimli::DebugAbbrev;
use gimli::DebugAbbrevOffset;
use gimli::DebugInfoOffset;
use gimli::DwarfPackage;
use gimli::DwoId;
use gimli::EndianSlice;
use gimli::Reader;
use gimli::RunTimeEndian;
use gimli::Section as _;
use gimli::SectionId;
use gimli::UnitHeader;
use gimli::UnitType;
use rustc_hash::FxHashMap;

use crate::symbols::ElfCode;
use crate::symbols::ElfFile;
use crate::symbols::LineTable;
use crate::symbols::NativeLine;
use crate::symbols::Part;
use crate::symbols::SourceFrame;
use crate::units::Addr;

use effort::Effort;
use effort::Purse;
use ranges::RANGE;
use ranges::Ranges;
use root::Root;
use unit::Unit;

type Slice<'a> = EndianSlice<'a, RunTimeEndian>;
type Dwarf<'a> = gimli::Dwarf<Slice<'a>>;

/// The debug information of a file, indexed.
pub struct DwarfLines<'a> {
    code: &'a ElfCode,
    dwarf: Dwarf<'a>,
    /// The units that were split off and put together.
    package: OnceLock<Option<DwarfPackage<Slice<'a>>>>,
    /// In the order of their offsets.
    units: Vec<Unit<'a>>,
    /// Of the file that several share parts of theirs with (`.gnu_debugaltlink`).
    shared: Vec<Unit<'a>>,
    ranges: Ranges,
    effort: Effort,
}

/// How many units that cover one address are looked at.
const MAX_UNITS: usize = 8;

/// What opening a file costs, as so many bytes that are looked at.
const FILE: usize = 16 << 10;

/// What an abbreviation takes in memory at most, for each of its bytes.
const PER_ABBREVIATION_BYTE: usize = 24;

/// Units that are not worth a thread.
const FEW: usize = 64;

impl fmt::Debug for DwarfLines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DwarfLines").field("units", &self.units.len()).finish_non_exhaustive()
    }
}

impl<'a> DwarfLines<'a> {
    /// Indexes the debug information of `code`.
    pub fn new(code: &'a ElfCode) -> Self {
        let mut dwarf = load(code.part(Part::Debug), |id| Some(id.name()));
        if let Some(shared) = code.supplement() {
            dwarf.set_sup(load(shared, |id| Some(id.name())));
        }
        let effort = Effort::new(len(code.part(Part::Debug), |id| Some(id.name())));
        let mut units = read_units(&dwarf, &effort);
        let mut listed = if units.iter().all(Unit::has_ranges) {
            FxHashMap::default()
        } else {
            listed_ranges(&dwarf, &units, &effort)
        };
        let ranges = units.iter_mut().zip(0..).flat_map(|(unit, id)| {
            let listed = listed.remove(&unit.offset).unwrap_or_default();
            let ranges = unit.take_ranges(&dwarf, listed, &effort);
            ranges.into_iter().map(move |(begin, end)| (begin, end, id))
        });
        let ranges = Ranges::new(ranges);
        if let Some(shared) = code.supplement() {
            effort.allow(len(shared, |id| Some(id.name())));
        }
        let shared = dwarf.sup().map_or_else(Vec::new, |it| read_units(it, &effort));
        Self { code, dwarf, package: OnceLock::new(), units, shared, ranges, effort }
    }

    /// Whether there is none that could be read.
    pub fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// How many parts of it were left out, since they would cost more time or memory than their length
    /// allows: no compiler writes such.
    pub fn n_left_out(&self) -> u64 {
        let files = [self.code.part(Part::Debug)].into_iter().chain(self.code.supplement());
        let n_sections = files.map(ElfFile::n_left_out).sum::<u64>();
        self.effort.n_refused().saturating_add(n_sections)
    }

    /// Whether something that was asked for is in a file of its own that is not there: what the compiler
    /// left of a unit (`.dwo`, `.dwp`), or what several files share (`.gnu_debugaltlink`).
    pub fn is_incomplete(&self) -> bool {
        let shares = self.code.section(Part::Debug, ".gnu_debugaltlink").is_some();
        shares && self.dwarf.sup().is_none() || self.units.iter().any(Unit::is_bereft)
    }

    /// The address that the debug information has for the link-time address `addr` of what was mapped.
    fn own(&self, addr: Addr) -> u64 {
        addr.0.wrapping_sub(self.code.shift(Part::Debug))
    }

    /// How many bytes describe units, and whether all of it is in the files that the code is from, and
    /// nothing in others that may be missing today and there tomorrow.
    pub fn extent(&self) -> (usize, bool) {
        let shares = self.code.section(Part::Debug, ".gnu_debugaltlink").is_some();
        let is_whole = !shares && !self.units.iter().any(Unit::is_split);
        (self.dwarf.debug_info.reader().len(), is_whole)
    }

    /// Adds the functions that the code at the link-time address `addr` is in to `frames`, that which
    /// was inlined deepest first, and the one that has the code last; nothing where nothing is known.
    pub fn frames<'l>(&'l self, addr: Addr, frames: &mut Vec<SourceFrame<'l>>) {
        let addr = self.own(addr);
        for id in self.ranges.covering(addr).take(MAX_UNITS) {
            let found = self.units.get(id as usize).map(|unit| unit.frames(self, addr, frames));
            if found == Some(true) {
                return;
            }
        }
    }

    /// The debug information in which the unit with this `id`, which is at `offset` of `.debug_info`,
    /// has its entries: of the package, or of the file `name`, which was left in `folder`.
    fn split(
        &self,
        offset: usize,
        id: DwoId,
        folder: Option<Slice<'a>>,
        name: Slice<'a>,
    ) -> Option<Dwarf<'a>> {
        let package = self.package.get_or_init(|| {
            let file = self.code.package()?;
            self.effort.allow(len(file, SectionId::dwo_name));
            // A unit's parts of all sections must be there.
            let load = |id: SectionId| Ok::<_, gimli::Error>(section(file, id.dwo_name()));
            let empty = EndianSlice::new(&[], self.dwarf.debug_info.reader().endian());
            DwarfPackage::load(load, empty).ok()
        });
        if let Some(package) = package {
            // A table of its units without a free place is looked through to its end.
            let n_steps = usize::try_from(package.cu_index.unit_count()).ok()? / 16;
            if !self.effort.spend(n_steps) {
                return None;
            }
            if let Ok(Some(dwarf)) = package.find_cu(id, &self.dwarf) {
                return Some(dwarf);
            }
        }
        if !self.effort.spend(FILE) {
            return None;
        }
        let number = self.units.partition_point(|it| it.offset < offset);
        let folder = folder.map_or(&[][..], |it| it.slice());
        let file = self.code.split_unit(number, self.units.len(), folder, name.slice())?;
        self.effort.allow(len(file, SectionId::dwo_name));
        let mut dwarf = load(file, SectionId::dwo_name);
        dwarf.make_dwo(&self.dwarf);
        Some(dwarf)
    }

    /// The unit that holds `offset` of `.debug_info`, or of the same section of the file that several
    /// share.
    fn unit_at(&self, offset: DebugInfoOffset, is_shared: bool) -> Option<(&Dwarf<'a>, &Unit<'a>)> {
        let (dwarf, units) =
            if is_shared { (self.dwarf.sup()?, &self.shared) } else { (&self.dwarf, &self.units) };
        let behind = units.partition_point(|it| it.offset <= offset.0);
        Some((dwarf, units.get(behind.checked_sub(1)?)?))
    }
}

impl LineTable for DwarfLines<'_> {
    fn at(&self, addr: Addr) -> Option<NativeLine<'_>> {
        let addr = self.own(addr);
        let units = self.ranges.covering(addr).take(MAX_UNITS);
        let mut lines = units.map(|id| self.units.get(id as usize)?.line(self, addr));
        lines.find_map(|it| it)
    }
}

/// The sections of `file`, by the names that `name` gives them; those that nothing looks at are left
/// out, so that they are not inflated.
fn load(file: &ElfFile, name: impl Fn(SectionId) -> Option<&'static str>) -> Dwarf<'_> {
    let Ok(dwarf) = gimli::Dwarf::load(|id| {
        let is_read = matches!(
            id,
            SectionId::DebugAbbrev
                | SectionId::DebugAddr
                | SectionId::DebugAranges
                | SectionId::DebugInfo
                | SectionId::DebugLine
                | SectionId::DebugLineStr
                | SectionId::DebugRanges
                | SectionId::DebugRngLists
                | SectionId::DebugStr
                | SectionId::DebugStrOffsets
        );
        Ok::<_, Infallible>(section(file, name(id).filter(|_| is_read)))
    });
    dwarf
}

/// The section called `name` of `file`; an empty one where there is none.
fn section<'a>(file: &'a ElfFile, name: Option<&str>) -> Slice<'a> {
    let found = name.and_then(|it| file.section(it));
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    EndianSlice::new(found.map(|it| it.bytes).unwrap_or_default(), endian)
}

/// The units of `dwarf` whose roots can be read, in order.
fn read_units<'a>(dwarf: &Dwarf<'a>, effort: &Effort) -> Vec<Unit<'a>> {
    let headers = headers(dwarf, effort);
    let abbreviations = abbreviations(dwarf, &headers, effort);
    let unit = |header: UnitHeader<Slice<'a>>| {
        let abbreviations = abbreviations.get(&header.debug_abbrev_offset().0)?;
        if !effort.spend(size_of::<Unit<'_>>()) {
            return None;
        }
        Root::read(dwarf, header, Arc::clone(abbreviations), effort).ok().map(Unit::new)
    };
    in_parallel(headers, unit).into_iter().flatten().collect()
}

/// What `work` makes of each of `items`, in their order.
///
/// On threads of its own: who waits for an index that is made once must not be the one who makes it,
/// as may happen with threads that take up other work while they wait.
fn in_parallel<T: Send, U: Send>(items: Vec<T>, work: impl Fn(T) -> U + Sync) -> Vec<U> {
    let n_threads = rayon::current_num_threads().min(items.len().div_ceil(FEW));
    if n_threads < 2 {
        return items.into_iter().map(work).collect();
    }
    let len = items.len().div_ceil(n_threads);
    let mut rest = items.into_iter();
    std::thread::scope(|scope| {
        let work = &work;
        let mut parts = Vec::new();
        for _ in 0..n_threads {
            let part: Vec<T> = rest.by_ref().take(len).collect();
            parts.push(scope.spawn(move || part.into_iter().map(work).collect()));
        }
        let join = |it: std::thread::ScopedJoinHandle<'_, Vec<U>>| {
            it.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        parts.into_iter().flat_map(join).collect()
    })
}

/// The headers of all units that have code or that others refer to, in order. One that cannot be read
/// is left out; a length that cannot be is the end, and so is that of what may be spent.
fn headers<'a>(dwarf: &Dwarf<'a>, effort: &Effort) -> Vec<UnitHeader<Slice<'a>>> {
    let mut headers = Vec::new();
    let mut rest = *dwarf.debug_info.reader();
    let mut offset = 0;
    let mut purse = Purse::new(effort);
    while let Ok((len, format)) = rest.read_initial_length() {
        if rest.skip(len).is_err() {
            break;
        }
        if let Ok(header) = dwarf.unit_header(DebugInfoOffset(offset))
            && !matches!(header.type_(), UnitType::Type { .. } | UnitType::SplitType { .. })
        {
            if !purse.spend(size_of::<UnitHeader<Slice<'_>>>()) {
                break;
            }
            headers.push(header);
        }
        offset += usize::from(format.initial_length_size()) + len;
    }
    headers
}

/// The tables of abbreviations that units use, by offset. Each ends at the latest where the next one
/// begins, so that the section is read once, however many tables are said to be in it.
fn abbreviations<'a>(
    dwarf: &Dwarf<'a>,
    headers: &[UnitHeader<Slice<'a>>],
    effort: &Effort,
) -> FxHashMap<usize, Arc<Abbreviations>> {
    let section = *dwarf.debug_abbrev.reader();
    let mut offsets: Vec<_> = headers.iter().map(|it| it.debug_abbrev_offset().0).collect();
    offsets.sort_unstable();
    offsets.dedup();
    let ends = offsets.iter().skip(1).copied().chain([section.len()]);
    let tables: Vec<_> = offsets.iter().copied().zip(ends).collect();
    let table = |(begin, end): (usize, usize)| {
        let bytes = section.slice().get(..end)?;
        let n_bytes = end.checked_sub(begin)?;
        if !effort.spend(n_bytes.saturating_mul(PER_ABBREVIATION_BYTE)) {
            return None;
        }
        let table = DebugAbbrev::new(bytes, section.endian());
        Some((begin, Arc::new(table.abbreviations(DebugAbbrevOffset(begin)).ok()?)))
    };
    in_parallel(tables, table).into_iter().flatten().collect()
}

/// The ranges of `.debug_aranges` of those of `units`, which are in the order of their offsets, that
/// do not say themselves where their code is, by the offset of the unit.
fn listed_ranges(
    dwarf: &Dwarf<'_>,
    units: &[Unit<'_>],
    effort: &Effort,
) -> FxHashMap<usize, Vec<(u64, u64)>> {
    let mut listed: FxHashMap<usize, Vec<(u64, u64)>> = FxHashMap::default();
    let mut headers = dwarf.debug_aranges.headers();
    let mut purse = Purse::new(effort);
    while let Ok(Some(header)) = headers.next() {
        let offset = header.debug_info_offset().0;
        let unit = units.binary_search_by_key(&offset, |it| it.offset).ok();
        if unit.and_then(|it| units.get(it)).is_none_or(Unit::has_ranges) {
            continue;
        }
        let ranges = listed.entry(offset).or_default();
        let mut entries = header.entries();
        while let Ok(Some(entry)) = entries.next() {
            if !purse.spend(RANGE) {
                return listed;
            }
            ranges.push((entry.range().begin, entry.range().end));
        }
    }
    listed
}

/// How long the sections of `file` are of which much is read, by the names that `name` gives them.
fn len(file: &ElfFile, name: impl Fn(SectionId) -> Option<&'static str>) -> usize {
    let ids = [
        SectionId::DebugAbbrev,
        SectionId::DebugAranges,
        SectionId::DebugInfo,
        SectionId::DebugLine,
        SectionId::DebugRanges,
        SectionId::DebugRngLists,
    ];
    ids.into_iter().map(|id| section(file, name(id)).len()).fold(0, usize::saturating_add)
}
