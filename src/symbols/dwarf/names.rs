//! The names of functions that were inlined.

use gimli::AttributeValue;
use gimli::UnitOffset;
use gimli::UnitRef;

use super::DwarfLines;
use super::Slice;
use super::root::each_attribute;
use super::root::text;

/// The most entries that are looked at for one name: an inlined function refers to the function, and
/// that to its declaration.
const MAX_HOPS: usize = 16;

/// What looking at an entry of another unit costs, as so many bytes that are looked at.
const HOP: usize = 64;

/// The name of the function that the entry at `offset` of `unit` is of, as the linker would know it,
/// else as it stands in the source.
pub(super) fn of_entry<'l, 'a>(
    all: &'l DwarfLines<'a>,
    unit: UnitRef<'l, Slice<'a>>,
    offset: UnitOffset,
) -> Option<&'a str> {
    let (mut unit, mut offset, mut is_shared) = (unit, offset, false);
    let mut plain = None;
    for _ in 0..MAX_HOPS {
        if !all.effort.spend(HOP) {
            return None;
        }
        let mut entries = unit.entries_raw(Some(offset)).ok()?;
        let abbreviation = entries.read_abbreviation().ok()??;
        let (mut linkage, mut name, mut next) = (None, None, None);
        let seen = each_attribute(&mut entries, abbreviation, |attribute, value| match attribute {
            gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => linkage = Some(value),
            gimli::DW_AT_name => name = Some(value),
            gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => next = Some(value),
            _ => {}
        });
        seen.ok()?;
        if let Some(linkage) = utf8(linkage.and_then(|it| text(unit, it, &all.effort))) {
            return Some(linkage);
        }
        plain = plain.or_else(|| utf8(text(unit, name?, &all.effort)));
        let (at, is_in_shared) = match next {
            Some(AttributeValue::UnitRef(it)) => {
                offset = it;
                continue;
            }
            // Files of split units have one.
            _ if unit.dwarf.file_type == gimli::DwarfFileType::Dwo => break,
            Some(AttributeValue::DebugInfoRef(it)) => (it, is_shared),
            Some(AttributeValue::DebugInfoRefSup(it)) => (it, true),
            _ => break,
        };
        let Some((dwarf, found)) = all.unit_at(at, is_in_shared) else { break };
        let Some(within) = found.offset_within(at) else { break };
        (unit, offset, is_shared) = (found.reference(dwarf), within, is_in_shared);
    }
    plain
}

/// What is UTF-8 of `found`.
fn utf8(found: Option<Slice<'_>>) -> Option<&str> {
    std::str::from_utf8(found?.slice()).ok()
}
