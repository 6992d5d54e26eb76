//! The entries of a unit, passed over as fast as their abbreviations allow.
//!
//! A unit of a large program has a million entries, of which a hundredth are functions with code. How
//! long an entry is follows from its abbreviation but for a few forms, so that most are one addition;
//! and where the compiler noted which entry comes behind all that is within one (`DW_AT_sibling`), what
//! is within a type or a function is not looked at.
//!
//! Source: DWARF 5, 2.3 (relationship of entries), 7.5.3 (abbreviations), 7.5.6 (forms).

use gimli::Abbreviation;
use gimli::AttributeSpecification;
use gimli::DwForm;
use gimli::DwTag;
use gimli::Encoding;
use gimli::Reader as _;
use gimli::Section as _;
use gimli::UnitOffset;
use gimli::UnitRef;

use super::Slice;
use super::root::checked;

/// What of the entries is passed over unseen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Within {
    /// What is within types and functions, as far as the compiler noted where it ends.
    Skipped,
    /// Nothing.
    Seen,
}

/// Goes through the entries of a unit in their order.
pub(super) struct Entries<'u, 'a> {
    unit: UnitRef<'u, Slice<'a>>,
    within: Within,
    /// The bytes of the unit.
    all: Slice<'a>,
    /// Those that are still to be seen.
    rest: Slice<'a>,
    shapes: Vec<Shape>,
    /// How many entries had something within that was passed over.
    n_skipped: usize,
}

/// An entry that was passed over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passed {
    pub(super) offset: UnitOffset,
    /// Whether it is a function that says where its code is.
    pub(super) is_function: bool,
    /// What it took to look at, in bytes.
    pub(super) cost: usize,
}

/// What an abbreviation says of the length of its entries.
#[derive(Clone, Debug, Default)]
struct Shape {
    code: u64,
    is_function: bool,
    /// Whether functions with code may be directly within: it is a namespace or the like.
    holds_functions: bool,
    n_attributes: usize,
    /// How many bytes come first that are the same number for all.
    fixed: usize,
    /// What comes behind, each with the number of bytes up to the next.
    parts: Vec<(Part, usize)>,
}

/// An attribute whose value has to be looked at to pass over it, or to pass over what is within.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Leb128,
    Text,
    /// Bytes behind their number, which takes so many bytes, or is a LEB128 number.
    Block(Option<u8>),
    /// A value behind its form.
    Indirect,
    /// Where the next entry on the same level is, as a number of so many bytes, or as a LEB128 number.
    Sibling(Option<u8>),
}

/// How many shapes are kept, by their codes.
const N_SHAPES: u64 = 1 << 10;

impl<'u, 'a> Entries<'u, 'a> {
    /// Those of `unit`, from its root.
    pub(super) fn new(unit: UnitRef<'u, Slice<'a>>, within: Within) -> Option<Self> {
        let mut all = *unit.dwarf.debug_info.reader();
        all.skip(unit.header.debug_info_offset()?.0).ok()?;
        all.truncate(unit.header.length_including_self()).ok()?;
        let mut rest = all;
        rest.skip(unit.header.root_offset().0).ok()?;
        Some(Self { unit, within, all, rest, shapes: Vec::new(), n_skipped: 0 })
    }

    /// How many entries had something within that was passed over.
    pub(super) fn n_skipped(&self) -> usize {
        self.n_skipped
    }

    /// Passes over the next entry; `None` at the end.
    pub(super) fn next(&mut self) -> gimli::Result<Option<Passed>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let before = self.rest;
        let offset = UnitOffset(self.all.len() - before.len());
        let code = leb128(&mut self.rest)?;
        if code == 0 {
            return Ok(Some(Passed { offset, is_function: false, cost: 1 }));
        }
        let shape = shape(self.unit, &mut self.shapes, code)?;
        let sibling = shape.pass(&mut self.rest, self.unit.header.encoding())?;
        let n_bytes = before.len() - self.rest.len();
        if self.within == Within::Skipped
            && !shape.holds_functions
            && let Some(sibling) = sibling
            // One that leads back, or nowhere, is not followed.
            && let Some(n_more) = sibling.checked_sub(offset.0.saturating_add(n_bytes))
            && 0 < n_more
            && n_more < self.rest.len()
        {
            self.rest.skip(n_more)?;
            self.n_skipped += 1;
        }
        let cost = n_bytes + shape.n_attributes;
        Ok(Some(Passed { offset, is_function: shape.is_function, cost }))
    }
}

/// The shape of the entries with this abbreviation `code`.
fn shape<'s>(
    unit: UnitRef<'_, Slice<'_>>,
    shapes: &'s mut Vec<Shape>,
    code: u64,
) -> gimli::Result<&'s Shape> {
    let idx = usize::try_from(code % N_SHAPES).unwrap_or(0);
    if shapes.len() <= idx {
        shapes.resize(idx + 1, Shape::default());
    }
    let shape = &mut shapes[idx];
    if shape.code != code {
        let abbreviation =
            unit.abbreviations.get(code).ok_or(gimli::Error::InvalidAbbreviationCode(code))?;
        *shape = Shape::new(abbreviation, unit.header.encoding())?;
    }
    Ok(shape)
}

impl Shape {
    fn new(abbreviation: &Abbreviation, encoding: Encoding) -> gimli::Result<Self> {
        let attributes = checked(abbreviation)?.attributes();
        let mut this = Self {
            code: abbreviation.code(),
            is_function: is_function(abbreviation.tag(), attributes),
            holds_functions: holds_functions(abbreviation.tag()),
            n_attributes: attributes.len(),
            ..Self::default()
        };
        for it in attributes {
            let is_sibling = it.name() == gimli::DW_AT_sibling && abbreviation.has_children();
            match sibling(it.form()).filter(|_| is_sibling) {
                Some(part) => this.parts.push((part, 0)),
                None => this.add(it.form(), encoding)?,
            }
        }
        Ok(this)
    }

    fn add(&mut self, form: DwForm, encoding: Encoding) -> gimli::Result<()> {
        match width(form, encoding)? {
            Width::Fixed(n) => {
                let fixed = self.parts.last_mut().map_or(&mut self.fixed, |(_, fixed)| fixed);
                *fixed += usize::from(n);
            }
            Width::Varying(part) => self.parts.push((part, 0)),
        }
        Ok(())
    }

    /// Passes over the attributes that `rest` begins with; where the next entry on the same level is,
    /// if this one says it.
    fn pass(&self, rest: &mut Slice<'_>, encoding: Encoding) -> gimli::Result<Option<usize>> {
        let mut sibling = None;
        rest.skip(self.fixed)?;
        for &(part, fixed) in &self.parts {
            match part {
                Part::Sibling(width) => sibling = usize::try_from(number(rest, width)?).ok(),
                part => pass(rest, part, encoding)?,
            }
            rest.skip(fixed)?;
        }
        Ok(sibling)
    }
}

/// Whether an entry is a function that says where its code is.
fn is_function(tag: DwTag, attributes: &[AttributeSpecification]) -> bool {
    let says = |it: &AttributeSpecification| {
        matches!(it.name(), gimli::DW_AT_low_pc | gimli::DW_AT_ranges)
    };
    tag == gimli::DW_TAG_subprogram && attributes.iter().any(says)
}

fn holds_functions(tag: DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_compile_unit
            | gimli::DW_TAG_partial_unit
            | gimli::DW_TAG_skeleton_unit
            | gimli::DW_TAG_namespace
            | gimli::DW_TAG_module
    )
}

/// The value of an attribute with this `form` that says where the next entry on the same level is.
fn sibling(form: DwForm) -> Option<Part> {
    Some(Part::Sibling(match form {
        gimli::DW_FORM_ref1 => Some(1),
        gimli::DW_FORM_ref2 => Some(2),
        gimli::DW_FORM_ref4 => Some(4),
        gimli::DW_FORM_ref8 => Some(8),
        gimli::DW_FORM_ref_udata => None,
        _ => return None,
    }))
}

/// How many bytes a value takes.
enum Width {
    Fixed(u8),
    Varying(Part),
}

fn width(form: DwForm, encoding: Encoding) -> gimli::Result<Width> {
    let n_bytes = match form {
        gimli::DW_FORM_implicit_const | gimli::DW_FORM_flag_present => 0,
        gimli::DW_FORM_data1
        | gimli::DW_FORM_flag
        | gimli::DW_FORM_strx1
        | gimli::DW_FORM_ref1
        | gimli::DW_FORM_addrx1 => 1,
        gimli::DW_FORM_data2
        | gimli::DW_FORM_ref2
        | gimli::DW_FORM_addrx2
        | gimli::DW_FORM_strx2 => 2,
        gimli::DW_FORM_addrx3 | gimli::DW_FORM_strx3 => 3,
        gimli::DW_FORM_data4
        | gimli::DW_FORM_ref_sup4
        | gimli::DW_FORM_ref4
        | gimli::DW_FORM_strx4
        | gimli::DW_FORM_addrx4 => 4,
        gimli::DW_FORM_data8
        | gimli::DW_FORM_ref8
        | gimli::DW_FORM_ref_sig8
        | gimli::DW_FORM_ref_sup8 => 8,
        gimli::DW_FORM_data16 => 16,
        gimli::DW_FORM_addr => encoding.address_size,
        // In version 2 as long as an address.
        gimli::DW_FORM_ref_addr if encoding.version == 2 => encoding.address_size,
        gimli::DW_FORM_sec_offset
        | gimli::DW_FORM_GNU_ref_alt
        | gimli::DW_FORM_strp
        | gimli::DW_FORM_strp_sup
        | gimli::DW_FORM_GNU_strp_alt
        | gimli::DW_FORM_line_strp
        | gimli::DW_FORM_ref_addr => encoding.format.word_size(),
        gimli::DW_FORM_udata
        | gimli::DW_FORM_sdata
        | gimli::DW_FORM_ref_udata
        | gimli::DW_FORM_strx
        | gimli::DW_FORM_GNU_str_index
        | gimli::DW_FORM_addrx
        | gimli::DW_FORM_GNU_addr_index
        | gimli::DW_FORM_loclistx
        | gimli::DW_FORM_rnglistx => return Ok(Width::Varying(Part::Leb128)),
        gimli::DW_FORM_block1 => return Ok(Width::Varying(Part::Block(Some(1)))),
        gimli::DW_FORM_block2 => return Ok(Width::Varying(Part::Block(Some(2)))),
        gimli::DW_FORM_block4 => return Ok(Width::Varying(Part::Block(Some(4)))),
        gimli::DW_FORM_block | gimli::DW_FORM_exprloc => {
            return Ok(Width::Varying(Part::Block(None)));
        }
        gimli::DW_FORM_string => return Ok(Width::Varying(Part::Text)),
        gimli::DW_FORM_indirect => return Ok(Width::Varying(Part::Indirect)),
        _ => return Err(gimli::Error::UnknownForm(form)),
    };
    Ok(Width::Fixed(n_bytes))
}

/// Passes over the value that `rest` begins with.
fn pass(rest: &mut Slice<'_>, part: Part, encoding: Encoding) -> gimli::Result<()> {
    match part {
        Part::Leb128 => rest.skip_leb128(),
        Part::Text => rest.read_null_terminated_slice().map(|_| ()),
        Part::Block(width) => {
            let n_bytes = number(rest, width)?;
            rest.skip(usize::try_from(n_bytes).unwrap_or(usize::MAX))
        }
        Part::Sibling(width) => number(rest, width).map(|_| ()),
        Part::Indirect => match width(DwForm(rest.read_uleb128_u16()?), encoding)? {
            Width::Fixed(n) => rest.skip(usize::from(n)),
            // No compiler writes one behind another.
            Width::Varying(Part::Indirect) => {
                Err(gimli::Error::UnknownForm(gimli::DW_FORM_indirect))
            }
            Width::Varying(part) => pass(rest, part, encoding),
        },
    }
}

/// The number of so many bytes, or in LEB128, that `rest` begins with.
fn number(rest: &mut Slice<'_>, width: Option<u8>) -> gimli::Result<u64> {
    match width {
        Some(1) => rest.read_u8().map(u64::from),
        Some(2) => rest.read_u16().map(u64::from),
        Some(4) => rest.read_u32().map(u64::from),
        Some(_) => rest.read_u64(),
        None => leb128(rest),
    }
}

/// A LEB128 number, of one byte most often.
fn leb128(rest: &mut Slice<'_>) -> gimli::Result<u64> {
    match rest.slice().first() {
        Some(&byte) if byte < 0x80 => {
            rest.skip(1)?;
            Ok(u64::from(byte))
        }
        _ => rest.read_uleb128(),
    }
}
