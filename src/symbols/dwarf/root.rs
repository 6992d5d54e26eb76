//! The root of a unit: what it says of all that is in it.

use std::sync::Arc;

use gimli::Abbreviation;
use gimli::Abbreviations;
use gimli::AttributeValue;
use gimli::DebugLineOffset;
use gimli::Dwarf;
use gimli::EntriesRaw;
use gimli::Section as _;
use gimli::Unit;
use gimli::UnitHeader;
use gimli::UnitRef;
use gimli::UnitType;

use super::Effort;
use super::Purse;
use super::RANGE;
use super::Slice;

/// The most attributes of one entry: an abbreviation can say that there are millions, which take no
/// room where they are used. Compilers write some twenty.
const MAX_ATTRIBUTES: usize = 64;

/// The longest text that is believed, in bytes.
const MAX_TEXT: usize = 1 << 16;

/// What an entry of a list of ranges costs to read, as so many bytes that are looked at.
const RAW_RANGE: usize = 4;

/// The most ranges that are taken of one entry.
const MAX_RANGES: usize = 1 << 16;

/// A unit and what its root says beside what gimli's `Unit` holds.
#[derive(Debug)]
pub(super) struct Root<'a> {
    pub(super) unit: Unit<Slice<'a>>,
    /// The file that holds its entries, if these are split off.
    pub(super) dwo_name: Option<Slice<'a>>,
    /// Where its table of lines is.
    pub(super) lines: Option<DebugLineOffset>,
    /// Where its code is.
    pub(super) ranges: Vec<(u64, u64)>,
}

impl<'a> Root<'a> {
    /// Reads the root of the unit with this header.
    ///
    /// gimli's `Unit::new` would read the names of all its files, too, over and over where many units
    /// share them.
    pub(super) fn read(
        dwarf: &Dwarf<Slice<'a>>,
        header: UnitHeader<Slice<'a>>,
        abbreviations: Arc<Abbreviations>,
        effort: &Effort,
    ) -> gimli::Result<Self> {
        let (encoding, file_type) = (header.encoding(), dwarf.file_type);
        let mut unit = Unit {
            abbreviations,
            name: None,
            comp_dir: None,
            low_pc: 0,
            str_offsets_base: gimli::DebugStrOffsetsBase::default_for_encoding_and_file(
                encoding, file_type,
            ),
            addr_base: gimli::DebugAddrBase(0),
            loclists_base: gimli::DebugLocListsBase::default_for_encoding_and_file(
                encoding, file_type,
            ),
            rnglists_base: gimli::DebugRngListsBase::default_for_encoding_and_file(
                encoding, file_type,
            ),
            line_program: None,
            dwo_id: match header.type_() {
                UnitType::Skeleton(id) | UnitType::SplitCompilation(id) => Some(id),
                _ => None,
            },
            header,
        };
        let (mut lines, mut dwo_name, mut comp_dir) = (None, None, None);
        let mut code = Code::default();
        let abbreviations = Arc::clone(&unit.abbreviations);
        let mut entries = unit.header.entries_raw(&abbreviations, None)?;
        let abbreviation = entries.read_abbreviation()?.ok_or(gimli::Error::MissingUnitDie)?;
        each_attribute(&mut entries, abbreviation, |name, value| match (name, value) {
            (gimli::DW_AT_stmt_list, AttributeValue::DebugLineRef(it)) => lines = Some(it),
            (gimli::DW_AT_comp_dir, it) => comp_dir = Some(it),
            (gimli::DW_AT_dwo_name | gimli::DW_AT_GNU_dwo_name, it) => dwo_name = Some(it),
            (gimli::DW_AT_GNU_dwo_id, AttributeValue::DwoId(it)) => unit.dwo_id = Some(it),
            (gimli::DW_AT_str_offsets_base, AttributeValue::DebugStrOffsetsBase(it)) => {
                unit.str_offsets_base = it;
            }
            (
                gimli::DW_AT_addr_base | gimli::DW_AT_GNU_addr_base,
                AttributeValue::DebugAddrBase(it),
            ) => unit.addr_base = it,
            (
                gimli::DW_AT_rnglists_base | gimli::DW_AT_GNU_ranges_base,
                AttributeValue::DebugRngListsBase(it),
            ) => unit.rnglists_base = it,
            (name, value) => code.note(name, value),
        })?;
        let string = |value: Option<_>| text(unit.unit_ref(dwarf), value?, effort);
        let (comp_dir, dwo_name) = (string(comp_dir), string(dwo_name));
        unit.comp_dir = comp_dir;
        let low_pc = code.low_pc.and_then(|it| dwarf.attr_address(&unit, it).ok()?);
        unit.low_pc = low_pc.unwrap_or(0);
        let mut ranges = Vec::new();
        let mut purse = Purse::new(effort);
        let add = |begin, end| ranges.push((begin, end));
        code.each_range(unit.unit_ref(dwarf), &mut purse, add);
        Ok(Self { unit, dwo_name, lines, ranges })
    }
}

/// Where the code of an entry is, as its attributes say it.
#[derive(Clone, Copy, Default)]
pub(super) struct Code<'a> {
    low_pc: Option<AttributeValue<Slice<'a>>>,
    high_pc: Option<AttributeValue<Slice<'a>>>,
    ranges: Option<AttributeValue<Slice<'a>>>,
}

impl<'a> Code<'a> {
    /// Takes an attribute in.
    pub(super) fn note(&mut self, name: gimli::DwAt, value: AttributeValue<Slice<'a>>) {
        match name {
            gimli::DW_AT_low_pc => self.low_pc = Some(value),
            gimli::DW_AT_high_pc => self.high_pc = Some(value),
            gimli::DW_AT_ranges => self.ranges = Some(value),
            _ => {}
        }
    }

    /// Does `add` with the begin and the end of each range; what cannot be read is left out, and so is
    /// what there is no effort left for, since any number of entries can have the same list.
    pub(super) fn each_range(
        self,
        unit: UnitRef<'_, Slice<'a>>,
        purse: &mut Purse<'_>,
        mut add: impl FnMut(u64, u64),
    ) {
        if let Some(ranges) = self.ranges
            && let Ok(Some(mut ranges)) = unit.attr_ranges(ranges)
        {
            let mut n_ranges = 0;
            while n_ranges < MAX_RANGES
                && let Ok(Some(raw)) = ranges.next_raw()
            {
                if !purse.spend(RAW_RANGE) {
                    return;
                }
                let Ok(range) = ranges.convert_raw(raw) else { return };
                let Some(range) = range else { continue };
                if !purse.spend(RANGE) {
                    return;
                }
                n_ranges += 1;
                add(range.begin, range.end);
            }
            return;
        }
        let address = |value| unit.attr_address(value).ok().flatten();
        let Some(begin) = self.low_pc.and_then(address) else { return };
        let end = match self.high_pc {
            Some(AttributeValue::Udata(len)) => begin.checked_add(len),
            Some(value) => address(value),
            None => None,
        };
        if let Some(end) = end
            && purse.spend(RANGE)
        {
            add(begin, end);
        }
    }
}

/// Does `see` with the name and the value of each attribute of the entry that comes next, which has
/// this `abbreviation`.
pub(super) fn each_attribute<'a>(
    entries: &mut EntriesRaw<'_, Slice<'a>>,
    abbreviation: &Abbreviation,
    mut see: impl FnMut(gimli::DwAt, AttributeValue<Slice<'a>>),
) -> gimli::Result<()> {
    let attributes = checked(abbreviation)?.attributes();
    for spec in attributes {
        let attribute = entries.read_attribute(*spec)?;
        see(attribute.name(), attribute.value());
    }
    Ok(())
}

/// Passes over the attributes of the entry that comes next.
pub(super) fn skip_attributes(
    entries: &mut EntriesRaw<'_, Slice<'_>>,
    abbreviation: &Abbreviation,
) -> gimli::Result<()> {
    entries.skip_attributes(checked(abbreviation)?.attributes())
}

/// `abbreviation`, if it has no more attributes than are believed.
pub(super) fn checked(abbreviation: &Abbreviation) -> gimli::Result<&Abbreviation> {
    if MAX_ATTRIBUTES < abbreviation.attributes().len() {
        return Err(gimli::Error::UnexpectedEof(gimli::ReaderOffsetId(0)));
    }
    Ok(abbreviation)
}

/// The text that `value` stands for. A section of strings need not end any, and is looked through to its
/// end for each.
pub(super) fn text<'a>(
    unit: UnitRef<'_, Slice<'a>>,
    value: AttributeValue<Slice<'a>>,
    effort: &Effort,
) -> Option<Slice<'a>> {
    if !effort.spend(1) {
        return None;
    }
    let found = unit.attr_string(value);
    let n_bytes = match &found {
        Ok(it) => it.len(),
        Err(_) => unit.dwarf.debug_str.reader().len().max(unit.dwarf.debug_line_str.reader().len()),
    };
    let is_paid = effort.pay(n_bytes);
    found.ok().filter(|it| is_paid && it.len() <= MAX_TEXT)
}
