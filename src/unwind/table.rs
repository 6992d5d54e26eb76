//! The unwind tables of a file: from an address to the row that tells of it.

use std::fmt;
use std::sync::OnceLock;

use gimli::BaseAddresses;
use gimli::CfaRule;
use gimli::CieOrFde;
use gimli::CommonInformationEntry;
use gimli::DebugFrame;
use gimli::EhFrame;
use gimli::EndianSlice;
use gimli::FrameDescriptionEntry;
use gimli::LittleEndian;
use gimli::RegisterRule;
use gimli::UnwindContext;
use gimli::UnwindOffset;
use gimli::UnwindSection;
use gimli::UnwindTableRow;
use gimli::Vendor;

use crate::symbols::ElfCode;
use crate::symbols::FrameTable;
use crate::symbols::Part;
use crate::symbols::Section;
use crate::units::Addr;

use super::Arch;
use super::Row;
use super::row::Cfa;
use super::row::Expression;
use super::row::Rule;

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// The unwind tables of a file, indexed.
pub struct Table<'a> {
    code: &'a ElfCode,
    arch: Arch,
    bases: BaseAddresses,
    eh_frame: Option<Frames<'a, EhFrame<Bytes<'a>>>>,
    /// Looked for where the other has no row, since it may lie in a file that has to be found.
    debug_frame: OnceLock<Option<Frames<'a, DebugFrame<Bytes<'a>>>>>,
}

/// A section with the entries of functions.
struct Frames<'a, S> {
    section: S,
    bytes: &'a [u8],
    index: Index<'a>,
    form: Form,
    /// How much higher the code lies that was mapped than the code that these tell of.
    shift: u64,
}

/// Which section an entry is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    EhFrame,
    DebugFrame,
}

impl fmt::Debug for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("arch", &self.arch).finish_non_exhaustive()
    }
}

/// Where the entry is that may tell of an address.
#[derive(Debug)]
enum Index<'a> {
    /// The linker's own, `.eh_frame_hdr`, with the address of `.eh_frame`.
    Sorted(FrameTable<'a>, u64),
    /// Ours: first addresses and offsets of entries.
    Own(Vec<(u64, u32)>),
}

/// What a walk through the tables needs; each thread has one of its own.
#[derive(Debug, Default)]
pub struct Context {
    rows: Box<UnwindContext<usize>>,
    /// How many bytes of programs were run so far.
    n_bytes: u64,
}

/// The most bytes of the program of one function. That of the largest function of a libLLVM has a
/// hundredth of it.
const MAX_PROGRAM_BYTES: usize = 256 << 10;
/// The most bytes of programs that are run for all addresses together, some seconds' worth. A million
/// addresses take a hundredth of it.
const MAX_BYTES: u64 = 4 << 30;
/// The most bytes of what many functions' entries have in common. It has some thirty.
const MAX_COMMON_BYTES: u32 = 4 << 10;
/// The most bytes of an expression.
const MAX_EXPRESSION_BYTES: usize = 256;

impl<'a> Table<'a> {
    /// The tables of `code`, from the file that was mapped and from the one that has its debug
    /// information; `None` if it has none, or is of another machine.
    pub fn new(code: &'a ElfCode) -> Option<Self> {
        let arch = Arch::from_elf(code.e_machine())?;
        let mapped = code.part(Part::Mapped);
        if !mapped.is_little_endian() || mapped.bytes().get(4) != Some(&2) {
            return None;
        }
        let section = |part, name| -> Option<Section<'a>> {
            code.section(part, name).filter(|it| !it.bytes.is_empty())
        };
        let addr = |name| section(Part::Mapped, name).map_or(0, |it| it.addr.0);
        let bases = BaseAddresses::default()
            .set_eh_frame_hdr(addr(".eh_frame_hdr"))
            .set_eh_frame(addr(".eh_frame"))
            .set_text(addr(".text"))
            .set_got(addr(".got"));
        let eh_frame = section(Part::Mapped, ".eh_frame").map(|it| {
            let mut frames = EhFrame::new(it.bytes, LittleEndian);
            frames.set_address_size(8);
            frames.set_vendor(vendor(arch));
            let hdr = section(Part::Mapped, ".eh_frame_hdr");
            let index = match hdr.and_then(|hdr| FrameTable::parse(hdr, true)) {
                Some(table) => Index::Sorted(table, it.addr.0),
                None => Index::Own(entries(&frames, it.bytes, &bases)),
            };
            Frames { section: frames, bytes: it.bytes, index, form: Form::EhFrame, shift: 0 }
        });
        let debug_frame = OnceLock::new();
        let this = Self { code, arch, bases, eh_frame, debug_frame };
        (this.eh_frame.is_some() || this.debug_frame().is_some()).then_some(this)
    }

    fn debug_frame(&self) -> Option<&Frames<'a, DebugFrame<Bytes<'a>>>> {
        let find = || {
            let mut sections = [Part::Debug, Part::Mapped]
                .into_iter()
                .filter_map(|part| Some((part, self.code.section(part, ".debug_frame")?)));
            let (part, found) = sections.find(|(_, it)| !it.bytes.is_empty())?;
            let shift = self.code.shift(part);
            let mut frames = DebugFrame::new(found.bytes, LittleEndian);
            frames.set_address_size(8);
            frames.set_vendor(vendor(self.arch));
            let index = Index::Own(entries(&frames, found.bytes, &self.bases));
            let (bytes, form) = (found.bytes, Form::DebugFrame);
            Some(Frames { section: frames, bytes, index, form, shift })
        };
        self.debug_frame.get_or_init(find).as_ref()
    }

    /// The machine whose code they tell of.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// What the tables say of the link-time address `addr`.
    ///
    /// `None` if they say nothing: then the code keeps to some convention of its own. A table that is
    /// damaged there gives a row that leads nowhere.
    pub fn row(&self, addr: Addr, context: &mut Context) -> Option<Row> {
        let of_eh_frame = self.eh_frame.as_ref().and_then(|it| self.find(it, addr.0, context));
        of_eh_frame.or_else(|| self.find(self.debug_frame()?, addr.0, context))
    }

    fn find<S: UnwindSection<Bytes<'a>>>(
        &self,
        frames: &Frames<'a, S>,
        addr: u64,
        context: &mut Context,
    ) -> Option<Row> {
        let addr = addr.wrapping_sub(frames.shift);
        let offset = frames.index.find(addr)?;
        let entry = frames
            .section
            .fde_from_offset(&self.bases, S::Offset::from(offset), |section, bases, offset| {
                common(section, frames.bytes, bases, offset)
            })
            .ok()
            .filter(|it| it.contains(addr))?;
        // An augmentation without a length, such as that of signals: gimli takes one to be there, and
        // would read the instructions from a wrong place.
        if frames.form == Form::DebugFrame && entry.cie().augmentation().is_some() {
            return Some(Row::dead_end());
        }
        Some(self.row_of(&frames.section, &entry, addr, context).unwrap_or_else(Row::dead_end))
    }

    fn row_of<S: UnwindSection<Bytes<'a>>>(
        &self,
        frames: &S,
        entry: &FrameDescriptionEntry<Bytes<'a>>,
        addr: u64,
        context: &mut Context,
    ) -> Option<Row> {
        let cie: &CommonInformationEntry<Bytes<'a>> = entry.cie();
        if entry.entry_len() > MAX_PROGRAM_BYTES || context.n_bytes > MAX_BYTES {
            return None;
        }
        context.n_bytes += entry.entry_len() as u64;
        let found =
            entry.unwind_info_for_address(frames, &self.bases, &mut context.rows, addr).ok()?;
        let row = self.convert(frames, found)?;
        let return_register = u8::try_from(cie.return_address_register().0).ok()?;
        Some(Row { return_register, is_signal: entry.is_signal_trampoline(), ..row })
    }

    fn convert<S: UnwindSection<Bytes<'a>>>(
        &self,
        frames: &S,
        row: &UnwindTableRow<usize>,
    ) -> Option<Row> {
        let expression = |it: &gimli::UnwindExpression<usize>| {
            let bytes = it.get(frames).ok()?.0;
            (bytes.len() <= MAX_EXPRESSION_BYTES).then(|| Expression(bytes.slice().into()))
        };
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                Cfa::Register(u8::try_from(register.0).ok()?, *offset)
            }
            CfaRule::Expression(it) => Cfa::Expression(expression(it)?),
        };
        let mut is_signed = false;
        let mut rules: Vec<(u8, Rule)> = Vec::new();
        for (register, rule) in row.registers() {
            if *register == gimli::AArch64::RA_SIGN_STATE && self.arch == Arch::Aarch64 {
                is_signed = matches!(rule, RegisterRule::Constant(it) if it & 1 == 1);
                continue;
            }
            // Registers of floating point and vectors lead to no frame.
            let number = u8::try_from(register.0).ok();
            let Some(number) = number.filter(|it| *it < self.arch.n_registers()) else { continue };
            let rule = match rule {
                RegisterRule::SameValue => Rule::Same,
                RegisterRule::Offset(offset) => Rule::At(*offset),
                RegisterRule::ValOffset(offset) => Rule::Is(*offset),
                RegisterRule::Register(other) => {
                    u8::try_from(other.0).map_or(Rule::Undefined, Rule::In)
                }
                RegisterRule::Expression(it) => {
                    expression(it).map_or(Rule::Undefined, Rule::AtExpression)
                }
                RegisterRule::ValExpression(it) => {
                    expression(it).map_or(Rule::Undefined, Rule::IsExpression)
                }
                _ => Rule::Undefined,
            };
            rules.push((number, rule));
        }
        rules.sort_unstable_by_key(|it| it.0);
        let rules = rules.into_boxed_slice();
        Some(Row { cfa, rules, return_register: 0, is_signal: false, is_signed })
    }
}

fn vendor(arch: Arch) -> Vendor {
    match arch {
        Arch::X86_64 => Vendor::Default,
        Arch::Aarch64 => Vendor::AArch64,
    }
}

impl Index<'_> {
    /// The offset of the entry that begins nearest at or below `addr`.
    fn find(&self, addr: u64) -> Option<usize> {
        match self {
            Self::Sorted(table, eh_frame) => {
                let entry = table.entry(table.n_until(addr).checked_sub(1)?)?;
                usize::try_from(entry.checked_sub(*eh_frame)?).ok()
            }
            Self::Own(entries) => {
                let n_before = entries.partition_point(|it| it.0 <= addr);
                let (_, offset) = entries.get(n_before.checked_sub(1)?)?;
                usize::try_from(*offset).ok()
            }
        }
    }
}

/// What the entries of many functions have in common, of a length that makes sense: it is read again and
/// again.
fn common<'a, S: UnwindSection<Bytes<'a>>>(
    section: &S,
    bytes: &[u8],
    bases: &BaseAddresses,
    offset: S::Offset,
) -> gimli::Result<CommonInformationEntry<Bytes<'a>>> {
    let at: usize = UnwindOffset::into(offset);
    let len = bytes.get(at..).and_then(|it| it.first_chunk());
    if len.is_none_or(|it| u32::from_le_bytes(*it) > MAX_COMMON_BYTES) {
        return Err(gimli::Error::OffsetOutOfBounds(at as u64));
    }
    section.cie_from_offset(bases, offset)
}

/// First addresses and offsets of all entries, sorted.
fn entries<'a, S: UnwindSection<Bytes<'a>>>(
    frames: &S,
    bytes: &[u8],
    bases: &BaseAddresses,
) -> Vec<(u64, u32)> {
    let mut found = Vec::new();
    let mut cie: Option<CommonInformationEntry<Bytes<'a>>> = None;
    let mut walk = frames.entries(bases);
    // What is damaged ends the walk; what came before it holds.
    while let Ok(Some(entry)) = walk.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let parsed = partial.parse(|frames, bases, offset| {
            let at: usize = UnwindOffset::into(offset);
            if let Some(cie) = cie.as_ref().filter(|it| it.offset() == at) {
                return Ok(cie.clone());
            }
            let parsed = common(frames, bytes, bases, offset)?;
            cie = Some(parsed.clone());
            Ok(parsed)
        });
        if let Ok(entry) = parsed
            && let Ok(offset) = u32::try_from(entry.offset())
            && entry.len() != 0
        {
            found.push((entry.initial_address(), offset));
        }
    }
    found.sort_unstable();
    found
}
