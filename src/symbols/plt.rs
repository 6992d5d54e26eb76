//! Names for the stubs of the procedure linkage table, which have no symbols of their own:
//! `malloc@plt`.
//!
//! Source: the processor supplements of the System V ABI for the layout;
//! `dso__synthesize_plt_symbols()` in `tools/perf/util/symbol-elf.c` for the names.

use object::Endianness;
use object::elf;
use object::read::SymbolIndex;
use object::read::elf::FileHeader;
use object::read::elf::Rel as _;
use object::read::elf::Rela as _;
use object::read::elf::SectionHeader as _;
use object::read::elf::Sym as _;
use object::read::elf::SymbolTable as ElfSymbols;

use super::Binding;
use super::elf::File;
use super::table::Builder;
use super::table::Kind;
use super::table::New;

/// Adds the stubs of `file` to symbols that are sorted and have their ends.
pub(super) fn add_symbols<E: FileHeader<Endian = Endianness>>(
    file: &File<'_, E>,
    builder: &mut Builder,
) {
    let endian = file.endian;
    let relocations = Relocations::of_plt(file);
    let n_relocations = relocations.as_ref().map_or(0, |it| it.entries.len() as u64);
    let stubs = |name| Stubs::new(file, file.section(name)?.1, n_relocations);
    let Some(plt) = stubs(".plt") else { return };
    // `.init` before it may end in a symbol without a size.
    builder.cut_at(plt.start);
    let mut found: Vec<(String, u64, u64)> = Vec::new();
    let machine = file.header.e_machine(endian);
    let is_x86 = matches!(machine, elf::EM_386 | elf::EM_X86_64);
    if is_x86 {
        got_stubs(file, &mut found);
    }
    let sec = stubs(".plt.sec").filter(|_| is_x86);
    // As many entries as relocations: then there is no header that starts the dynamic linker.
    let has_header = sec.is_some() || n_relocations.checked_mul(plt.entry_len) != Some(plt.len);
    if has_header {
        let len = if sec.is_some() { plt.len } else { plt.header_len };
        found.push((".plt".to_owned(), plt.start, len));
    }
    let (mut at, entry_len, end) = match &sec {
        Some(sec) => (sec.start, sec.entry_len, sec.start.saturating_add(sec.len)),
        None => (
            plt.start.saturating_add(if has_header { plt.header_len } else { 0 }),
            plt.entry_len,
            plt.start.saturating_add(plt.len),
        ),
    };
    if let Some(mut relocations) = relocations {
        if is_x86 {
            // Those of indirect functions do not come in the order of their stubs.
            relocations.entries.sort_by_key(|it| it.offset);
        }
        let mut names = Names::of(file);
        for relocation in &relocations.entries {
            // More relocations than stubs: what follows is other code.
            if at >= end {
                break;
            }
            let name = names.kept(relocations.name(file, relocation, builder));
            found.push((name.unwrap_or_else(|| format!("offset_{at:#x}@plt")), at, entry_len));
            at = at.saturating_add(entry_len);
        }
    }
    for (name, start, size) in found {
        let (binding, kind) = (Binding::Global, Kind::Typed);
        builder.push_str(&name, New { start, size, limit: u64::MAX, binding, kind, group: 0 });
    }
}

/// The longest name that a stub is given, in bytes.
const MOST_NAME: usize = 64 << 10;

/// The names that stubs are given: all come to no more than the file is long, in which each stands
/// once, however often a damaged one refers to it.
struct Names {
    room: usize,
}

impl Names {
    fn of<E: FileHeader<Endian = Endianness>>(file: &File<'_, E>) -> Self {
        Self { room: file.bytes.len() }
    }

    fn kept(&mut self, name: Option<String>) -> Option<String> {
        let name = name?;
        self.room = self.room.checked_sub(name.len())?;
        Some(name)
    }
}

/// A section of stubs, all of one length.
struct Stubs {
    start: u64,
    len: u64,
    header_len: u64,
    entry_len: u64,
}

impl Stubs {
    /// The stubs of `section`, `n_relocations` of them at the most; `None` where it has no code.
    fn new<E: FileHeader<Endian = Endianness>>(
        file: &File<'_, E>,
        section: &E::SectionHeader,
        n_relocations: u64,
    ) -> Option<Self> {
        let endian = file.endian;
        let flags: u64 = section.sh_flags(endian).into();
        if flags & u64::from(elf::SHF_EXECINSTR) == 0 {
            return None;
        }
        let claimed: u64 = section.sh_entsize(endian).into();
        let align: u64 = section.sh_addralign(endian).into();
        let len: u64 = section.sh_size(endian).into();
        let start = section.sh_addr(endian).into();
        let code = file.section_bytes(section);
        // Linkers lay them out as they like: what is not told by the size is told by the code.
        let is_exactly = |header_len: u64, entry_len: u64| {
            let stubs_len = n_relocations.checked_mul(entry_len);
            stubs_len.and_then(|it| it.checked_add(header_len)) == Some(len)
        };
        let (header_len, entry_len) = match file.header.e_machine(endian) {
            elf::EM_ARM if is_exactly(32, 16) => (32, 16),
            elf::EM_ARM if is_exactly(20, 16) => (20, 16),
            elf::EM_ARM => (20, 12),
            // A branch that is guarded (BTI, PAC) takes more than four instructions.
            elf::EM_AARCH64 if is_guarded(code) => (32, 24),
            elf::EM_AARCH64 | elf::EM_RISCV | elf::EM_LOONGARCH => (32, 16),
            elf::EM_SPARC => (48, 12),
            elf::EM_SPARCV9 => (128, 32),
            // Stubs that branch without being predicted (`-z retpolineplt`): `call` and `mov` instead of
            // `push` and `jmp`.
            elf::EM_386 | elf::EM_X86_64 if code.first() == Some(&0xe8) => (32, 16),
            elf::EM_X86_64 if code.get(6..9) == Some(&[0x4c, 0x8b, 0x1d]) => (48, 32),
            elf::EM_386 if is_exactly(48, 32) => (48, 32),
            elf::EM_386 | elf::EM_X86_64 => match (claimed, align) {
                (8 | 16, _) => (claimed, claimed),
                (_, 8) => (8, 8),
                _ => (16, 16),
            },
            _ => (claimed, claimed),
        };
        (entry_len != 0).then_some(Self { start, len, header_len, entry_len })
    }
}

/// Whether the first of the stubs of `AArch64`, behind the header, goes on after four instructions: with what
/// authenticates the address, the branch itself, or padding.
fn is_guarded(code: &[u8]) -> bool {
    const AUTIA1716: u32 = 0xd503_219f;
    const BR_X17: u32 = 0xd61f_0220;
    const NOP: u32 = 0xd503_201f;
    let fifth = code.get(32 + 16..).and_then(|it| it.first_chunk::<4>());
    // Code is little-endian whatever data is.
    fifth.is_some_and(|it| matches!(u32::from_le_bytes(*it), AUTIA1716 | BR_X17 | NOP))
}

/// What binds one stub to a symbol.
struct Relocation {
    /// The address of the slot that the stub jumps through.
    offset: u64,
    symbol: SymbolIndex,
    /// The address of an indirect function's resolver, if the relocation is for one.
    resolver: Option<u64>,
}

struct Relocations<'data, E: FileHeader> {
    symbols: ElfSymbols<'data, E>,
    entries: Vec<Relocation>,
}

impl<'data, E: FileHeader<Endian = Endianness>> Relocations<'data, E> {
    fn of_plt(file: &File<'data, E>) -> Option<Self> {
        let (_, section) = file.section(".rela.plt").or_else(|| file.section(".rel.plt"))?;
        Self::of(file, section)
    }

    fn of(file: &File<'data, E>, section: &'data E::SectionHeader) -> Option<Self> {
        let (endian, bytes) = (file.endian, file.bytes);
        let is_mips64el = file.header.is_mips64el(endian);
        let machine = file.header.e_machine(endian);
        let (entries, link) = if let Ok(Some((rela, link))) = section.rela(endian, bytes) {
            let entries = rela.iter().map(|it| {
                let r_type = it.r_type(endian, is_mips64el);
                let is_indirect = machine == elf::EM_X86_64 && r_type == elf::R_X86_64_IRELATIVE;
                let addend: i64 = it.r_addend(endian).into();
                Relocation {
                    offset: it.r_offset(endian).into(),
                    symbol: SymbolIndex(it.r_sym(endian, is_mips64el) as usize),
                    resolver: is_indirect.then_some(addend.cast_unsigned()),
                }
            });
            (entries.collect(), link)
        } else {
            let (rel, link) = section.rel(endian, bytes).ok()??;
            let entries = rel.iter().map(|it| Relocation {
                offset: it.r_offset(endian).into(),
                symbol: SymbolIndex(it.r_sym(endian) as usize),
                resolver: None,
            });
            (entries.collect(), link)
        };
        // A static program has indirect functions too, and no dynamic symbols.
        let symbols = file.sections.symbol_table_by_index(endian, bytes, link).ok()?;
        Some(Self { symbols, entries })
    }

    /// What the stub of `relocation` is called.
    fn name(
        &self,
        file: &File<'data, E>,
        relocation: &Relocation,
        known: &Builder,
    ) -> Option<String> {
        if let Some(name) = self.symbol_name(file, relocation.symbol) {
            return Some(name);
        }
        let (name, kind) = known.at(relocation.resolver?)?;
        (kind == Kind::Ifunc).then(|| format!("{name}@plt"))
    }

    fn symbol_name(&self, file: &File<'data, E>, symbol: SymbolIndex) -> Option<String> {
        let symbol = self.symbols.symbol(symbol).ok()?;
        let name = symbol.name(file.endian, self.symbols.strings()).ok()?;
        let name = name.get(..MOST_NAME).map_or(name, |_| &[]);
        let name = String::from_utf8_lossy(name);
        (!name.is_empty()).then(|| format!("{name}@plt"))
    }
}

/// The stubs of `.plt.got`: for functions whose address is taken too, so that their slot is filled at
/// the start and lies among the ordinary ones. Which slot, only the instruction tells.
fn got_stubs<E: FileHeader<Endian = Endianness>>(
    file: &File<'_, E>,
    stubs: &mut Vec<(String, u64, u64)>,
) {
    let endian = file.endian;
    let Some((_, section)) = file.section(".plt.got") else { return };
    let entry_len: u64 = section.sh_entsize(endian).into();
    let Some(chunk_len) = usize::try_from(entry_len).ok().filter(|&it| it != 0) else { return };
    let relocations = file
        .section(".rela.dyn")
        .filter(|_| file.header.e_machine(endian) == elf::EM_X86_64)
        .and_then(|(_, it)| Relocations::of(file, it))
        .map(|mut it| {
            it.entries.retain(|it| it.symbol.0 != 0);
            it.entries.sort_by_key(|it| it.offset);
            it
        });
    let mut at: u64 = section.sh_addr(endian).into();
    let mut names = Names::of(file);
    for code in file.section_bytes(section).chunks(chunk_len) {
        let name = relocations.as_ref().and_then(|it| {
            let slot = at.wrapping_add(jump_target(code)?);
            let idx = it.entries.binary_search_by_key(&slot, |it| it.offset).ok()?;
            names.kept(it.symbol_name(file, it.entries.get(idx)?.symbol))
        });
        stubs.push((name.unwrap_or_else(|| format!("offset_{at:#x}@plt")), at, entry_len));
        at = at.saturating_add(entry_len);
    }
}

/// How far from the start of `stub` the slot lies that it jumps through, for `[endbr64] [bnd] jmp
/// *disp(%rip)`.
fn jump_target(stub: &[u8]) -> Option<u64> {
    let code = stub.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa]).unwrap_or(stub);
    let code = code.strip_prefix(&[0xf2]).unwrap_or(code);
    let code = code.strip_prefix(&[0xff, 0x25])?;
    let (disp, rest) = code.split_first_chunk::<4>()?;
    let after = stub.len().checked_sub(rest.len())?;
    let disp = i64::from(i32::from_le_bytes(*disp));
    Some((after as u64).wrapping_add_signed(disp))
}
