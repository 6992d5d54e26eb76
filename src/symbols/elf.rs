//! ELF files: which of their symbols count, and how file offsets become addresses.

mod belonging;
mod code;
mod frame_table;
mod function_ends;
mod sections;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::path::PathBuf;

use object::Endianness;
use object::FileKind;
use object::elf;
use object::read::SectionIndex;
use object::read::elf::FileHeader;
use object::read::elf::ProgramHeader as _;
use object::read::elf::SectionHeader as _;
use object::read::elf::SectionTable;
use object::read::elf::Sym as _;
use object::read::elf::SymbolTable as ElfSymbols;

pub use code::ElfCode;
pub use code::Part;
pub use frame_table::FrameTable;
pub use sections::ElfFile;
pub use sections::OwnedBytes;
pub use sections::Section;
pub(super) use sections::go_functions;

use function_ends::FunctionEnds;

use super::Binding;
use super::Error;
use super::FileBytes;
use super::Files;
use super::ModuleFile;
use super::Places;
use super::Symbol;
use super::SymbolIdx;
use super::SymbolTable;
use super::build_id::build_id_in;
use super::find::DebugSearch;
use super::find::FileSet;
use super::find::FoundDebug;
use super::find::Sought;
use super::go;
use super::go::Named;
use super::plt;
use super::table::Builder;
use super::table::Ends;
use super::table::Kind;
use super::table::New;
use super::table::Overlap;
use crate::units::Addr;
use crate::units::BuildId;
use crate::units::FileOffset;

/// What `.gnu_debuglink` says: the file that the symbols were moved to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugLink {
    /// Its name, without a directory.
    pub file_name: OsString,
    /// The CRC-32 of all its bytes.
    pub crc: u32,
}

/// The symbols of an ELF file by link-time address, and how positions in the file map to these.
///
/// A sampled address belongs to a mapping, the mapping to a file: `pgoff + ip - start` is the
/// position of the sampled byte in the file, and [`ElfModule::vaddr`] takes it from there. That is
/// right for every layout: PIE or not, prelinked, `p_vaddr` different from `p_offset`.
#[derive(Debug)]
pub struct ElfModule {
    table: SymbolTable,
    /// Which tables the names are from, wherever these lie.
    symbols: Symbols,
    segments: Vec<Segment>,
    identity: Identity,
    /// Where the file with its symbols may be, which was too long to be known again.
    too_long: Option<PathBuf>,
}

/// How many bytes the names of a table have on average at the most. Those of C++ with templates have 550.
const MAX_AVERAGE_NAME: usize = 1024;

/// What an ELF file says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its build id.
    pub build_id: Option<BuildId>,
    /// Where it says its symbols were moved to.
    pub debug_link: Option<DebugLink>,
    /// Which symbol tables it has itself.
    pub symbols: Symbols,
}

impl Identity {
    /// Reads no more of `bytes` than it must.
    ///
    /// # Errors
    ///
    /// [`Error::Elf`] if it is no ELF file.
    pub fn of(bytes: &[u8]) -> Result<Self, Error> {
        Ok(match class(bytes)? {
            Class::Elf32 => File::<elf::FileHeader32<Endianness>>::parse(bytes)?.identity(),
            Class::Elf64 => File::<elf::FileHeader64<Endianness>>::parse(bytes)?.identity(),
        })
    }
}

/// Which symbol tables an ELF file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symbols {
    /// A `.symtab`: all functions have names.
    Full,
    /// Only the `.dynsym` that the dynamic linker needs.
    Dynamic,
    /// None.
    None,
}

/// What is mapped of a file.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) file: Range<u64>,
    pub(super) vaddr: u64,
    pub(super) is_executable: bool,
}

impl ElfModule {
    /// Finds and reads the file that was mapped and the file with its symbols.
    ///
    /// What a build id tells is sure, wherever a file lies: nothing but a file with the recorded one
    /// counts. Without one the device and the inode tell, and that it was not written to since; where
    /// the recording has none either, the path alone, likewise. What a process that lives sees, and
    /// what a file is called that lost its name, are used only if an id or an inode confirms it.
    ///
    /// # Errors
    ///
    /// [`Error::Open`] if there is no such file, [`Error::OtherBuild`] or [`Error::OtherFile`] if
    /// another one is there, or comes to be there while it is read, [`Error::Elf`] if it is no ELF
    /// file.
    pub fn load<F: Files + Clone>(
        files: &F,
        file: &ModuleFile,
        places: &Places,
    ) -> Result<Self, Error> {
        let found = FileSet::find(files, file, places)?;
        let Sought { found: debug, too_long } = match found.identity.symbols {
            Symbols::Full => Sought { found: None, too_long: None },
            Symbols::Dynamic | Symbols::None => {
                found.search().find(|_, identity| identity.symbols == Symbols::Full)
            }
        };
        let this = Self::parse(&found.bytes, debug.as_ref().map(|it| &*it.bytes));
        if found.bytes.has_changed() {
            return Err(Error::OtherFile { path: found.at });
        }
        Ok(Self { too_long, ..Self::unless_changed(this, debug)? })
    }

    /// `this`, unless the file with its symbols was written to while it was read.
    fn unless_changed<B: FileBytes>(
        this: Result<Self, Error>,
        debug: Option<FoundDebug<B>>,
    ) -> Result<Self, Error> {
        match debug {
            Some(debug) if debug.bytes.has_changed() => Err(Error::OtherFile { path: debug.at }),
            _ => this,
        }
    }

    /// Reads `saved`, what a recording kept of the file that was mapped, and the file with its symbols,
    /// where these had been split off it.
    ///
    /// # Errors
    ///
    /// [`Error::Elf`] if it is no ELF file.
    pub fn load_saved<F: Files + Clone>(
        files: &F,
        file: &ModuleFile,
        places: &Places,
        saved: &[u8],
    ) -> Result<Self, Error> {
        let Sought { found: debug, too_long } = match Identity::of(saved)?.symbols {
            Symbols::Full => Sought { found: None, too_long: None },
            Symbols::Dynamic | Symbols::None => {
                let search = DebugSearch::of_saved(files, file, places, saved)?;
                search.find(|_, identity| identity.symbols == Symbols::Full)
            }
        };
        let this = Self::parse(saved, debug.as_ref().map(|it| &*it.bytes));
        Ok(Self { too_long, ..Self::unless_changed(this, debug)? })
    }

    /// Reads the symbols of `bytes`, the file that was mapped, with those of `debug`, a file that
    /// holds its `.symtab`.
    ///
    /// # Errors
    ///
    /// [`Error::Elf`] if either is no ELF file. One with damaged or missing symbol tables is a module
    /// with fewer symbols.
    pub fn parse(bytes: &[u8], debug: Option<&[u8]>) -> Result<Self, Error> {
        match class(bytes)? {
            Class::Elf32 => parse::<elf::FileHeader32<Endianness>>(bytes, debug),
            Class::Elf64 => parse::<elf::FileHeader64<Endianness>>(bytes, debug),
        }
    }

    /// The link-time address of the byte at `at` in the file, if it was mapped from there.
    ///
    /// A segment covers what it has in the file, not what it has in memory: a large `.bss` reaches
    /// over the file offsets of the segments behind it. Code wins over data.
    pub fn vaddr(&self, at: FileOffset) -> Option<Addr> {
        vaddr(&self.segments, at)
    }

    /// The symbol that covers the link-time address `addr`.
    pub fn find(&self, addr: Addr) -> Option<SymbolIdx> {
        self.table.find(addr)
    }

    /// The symbol at `idx`, at link-time addresses.
    pub fn symbol(&self, idx: SymbolIdx) -> Option<Symbol<'_>> {
        self.table.symbol(idx)
    }

    /// All its symbols.
    pub fn table(&self) -> &SymbolTable {
        &self.table
    }

    /// All its symbols, and nothing else.
    pub(super) fn into_table(self) -> SymbolTable {
        self.table
    }

    /// Which symbols it has, whatever file they are from: all functions have names only if it is
    /// [`Symbols::Full`].
    pub fn symbols(&self) -> Symbols {
        self.symbols
    }

    /// Where the file with its symbols may be, if that was too long to be known by its CRC.
    pub fn too_long(&self) -> Option<&Path> {
        self.too_long.as_deref()
    }

    /// What the file that was mapped says of itself.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }
}

/// The link-time addresses of the symbols with these names, wherever they lie.
///
/// # Errors
///
/// [`Error::Elf`] if `bytes` are no ELF file.
pub(super) fn addresses_of<const N: usize>(
    bytes: &[u8],
    names: [&str; N],
) -> Result<[Option<Addr>; N], Error> {
    Ok(match class(bytes)? {
        Class::Elf32 => File::<elf::FileHeader32<Endianness>>::parse(bytes)?.addresses_of(names),
        Class::Elf64 => File::<elf::FileHeader64<Endianness>>::parse(bytes)?.addresses_of(names),
    })
}

fn vaddr(segments: &[Segment], at: FileOffset) -> Option<Addr> {
    let mut covering = segments.iter().filter(|it| it.file.contains(&at.0));
    let first = covering.clone().next()?;
    let segment = covering.find(|it| it.is_executable).unwrap_or(first);
    Some(Addr(segment.vaddr.wrapping_add(at.0.wrapping_sub(segment.file.start))))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Elf32,
    Elf64,
}

fn class(bytes: &[u8]) -> Result<Class, Error> {
    match FileKind::parse(bytes) {
        Ok(FileKind::Elf32) => Ok(Class::Elf32),
        Ok(FileKind::Elf64) => Ok(Class::Elf64),
        Ok(_) => Err(Error::Elf { reason: "another kind of object file".to_owned() }),
        Err(err) => Err(unreadable(&err)),
    }
}

pub(super) fn unreadable(err: &object::read::Error) -> Error {
    Error::Elf { reason: err.to_string() }
}

fn parse<E: FileHeader<Endian = Endianness>>(
    bytes: &[u8],
    debug: Option<&[u8]>,
) -> Result<ElfModule, Error> {
    let file = File::<E>::parse(bytes)?;
    // One of which it is not known how far away from the file it was laid out names nothing.
    let debug = debug.and_then(|it| File::<E>::parse(it).ok());
    let debug = debug.and_then(|it| Some((file.shift_of(&it)?, it)));
    let mut builder = Builder::default();
    let identity = file.identity();
    let mut symbols = identity.symbols;
    let ends = FunctionEnds::of(&file);
    let descriptors = file.descriptors();
    let mut bounds = Bounds { ends: ends.as_ref(), descriptors, is_partial: false, shift: 0 };
    match debug.as_ref().and_then(|(by, it)| Some((by, it, it.symbols(elf::SHT_SYMTAB)?))) {
        // perf reads the tables of one file; the dynamic symbols are all in the debug file's table.
        Some((shift, debug, table)) => {
            symbols = Symbols::Full;
            bounds.shift = *shift;
            debug.add_symbols(&table, &bounds, &mut builder);
        }
        None => {
            let tables = [elf::SHT_SYMTAB, elf::SHT_DYNSYM].map(|it| file.symbols(it));
            let mini = match tables[0] {
                Some(_) => None,
                None => sections::mini_debug_info(&file),
            };
            let mini = mini.as_deref().and_then(|it| File::<E>::parse(it).ok());
            let mini = mini.and_then(|it| Some((file.shift_of(&it)?, it)));
            let mini =
                mini.as_ref().and_then(|(by, it)| Some((by, it, it.symbols(elf::SHT_SYMTAB)?)));
            bounds.is_partial = tables[0].is_none() && mini.is_none();
            for table in tables.iter().flatten() {
                file.add_symbols(table, &bounds, &mut builder);
            }
            if let Some((shift, mini, table)) = mini {
                symbols = Symbols::Full;
                bounds.shift = *shift;
                mini.add_symbols(&table, &bounds, &mut builder);
            }
            if symbols != Symbols::Full && go::add_symbols(&file, &mut builder) == Some(Named::All)
            {
                symbols = Symbols::Full;
            }
        }
    }
    builder.fix_up(Ends::Next);
    plt::add_symbols(&file, &mut builder);
    Ok(ElfModule {
        table: builder.build(Overlap::Innermost),
        symbols,
        segments: file.segments(),
        identity,
        too_long: None,
    })
}

/// What is known of the mapped file's code where symbols are read.
struct Bounds<'a> {
    /// Where its functions end.
    ends: Option<&'a FunctionEnds<'a>>,
    descriptors: Option<Descriptors<'a>>,
    /// Whether symbols are missing, so that what follows a symbol may be another function's.
    is_partial: bool,
    /// How far it lies from where the file with the symbols has it: it may have been prelinked since.
    shift: u64,
}

impl Bounds<'_> {
    /// Where code ends at the latest that starts at `start` and has no size, in a section that ends
    /// at `limit`.
    ///
    /// Without symbols and unwind tables, nothing tells how far a function reaches: a name that is
    /// sure for its first byte is a guess for the rest.
    fn limit(&self, start: u64, limit: u64) -> u64 {
        let end = match self.ends {
            Some(ends) => ends.end_of(start),
            None => self.is_partial.then_some(start.saturating_add(1)),
        };
        end.map_or(limit, |end| end.min(limit))
    }
}

/// An ELF file with what is needed to read its tables.
#[derive(Debug)]
pub(super) struct File<'data, E: FileHeader> {
    pub(super) bytes: &'data [u8],
    pub(super) header: &'data E,
    pub(super) endian: E::Endian,
    pub(super) sections: SectionTable<'data, E>,
}

impl<'data, E: FileHeader<Endian = Endianness>> File<'data, E> {
    fn parse(bytes: &'data [u8]) -> Result<Self, Error> {
        let header = E::parse(bytes).map_err(|err| unreadable(&err))?;
        let endian = header.endian().map_err(|err| unreadable(&err))?;
        let sections = header.sections(endian, bytes).unwrap_or_default();
        Ok(Self { bytes, header, endian, sections })
    }

    /// The section called `name`.
    pub(super) fn section(&self, name: &str) -> Option<(SectionIndex, &'data E::SectionHeader)> {
        self.sections.section_by_name(self.endian, name.as_bytes())
    }

    /// The bytes of `section`, none if it has none in the file.
    pub(super) fn section_bytes(&self, section: &E::SectionHeader) -> &'data [u8] {
        section.data(self.endian, self.bytes).unwrap_or_default()
    }

    fn identity(&self) -> Identity {
        let (full, dynamic) = (self.symbols(elf::SHT_SYMTAB), self.symbols(elf::SHT_DYNSYM));
        let symbols = match (full, dynamic) {
            (Some(_), _) => Symbols::Full,
            (None, Some(_)) => Symbols::Dynamic,
            (None, None) => Symbols::None,
        };
        Identity { build_id: self.build_id(), debug_link: self.debug_link(), symbols }
    }

    fn symbols(&self, sh_type: u32) -> Option<ElfSymbols<'data, E>> {
        let table = self.sections.symbols(self.endian, self.bytes, sh_type).ok()?;
        (!table.is_empty()).then_some(table)
    }

    fn addresses_of<const N: usize>(&self, names: [&str; N]) -> [Option<Addr>; N] {
        let mut found = [None; N];
        let Some(table) = self.symbols(elf::SHT_SYMTAB) else { return found };
        for symbol in table.iter() {
            let Ok(name) = table.symbol_name(self.endian, symbol) else { continue };
            if let Some(at) = names.iter().position(|it| it.as_bytes() == name) {
                found[at].get_or_insert(Addr(symbol.st_value(self.endian).into()));
            }
        }
        found
    }

    /// Adds the symbols of `table` that can name code or data.
    fn add_symbols(
        &self,
        table: &ElfSymbols<'data, E>,
        bounds: &Bounds<'_>,
        builder: &mut Builder,
    ) {
        let endian = self.endian;
        let places = self.places();
        let machine = self.header.e_machine(endian);
        let mut room = self.room_for_names(table);
        builder.reserve(table.len(), self.len_of_names(table));
        for (idx, symbol) in table.enumerate() {
            if symbol.st_name(endian) == 0 {
                continue;
            }
            let (kind, is_label) = match symbol.st_type() {
                elf::STT_FUNC | elf::STT_OBJECT => (Kind::Typed, false),
                elf::STT_GNU_IFUNC => (Kind::Ifunc, false),
                elf::STT_NOTYPE => (Kind::Label, true),
                _ => continue,
            };
            let hidden = matches!(symbol.st_visibility(), elf::STV_HIDDEN | elf::STV_INTERNAL);
            if is_label && hidden {
                continue;
            }
            // Undefined, absolute and common symbols have no section.
            let Ok(Some(section)) = table.symbol_section(endian, symbol, idx) else { continue };
            let Some(place) = places.get(section.0) else { continue };
            match place.kind {
                PlaceKind::TextOrData => {}
                PlaceKind::OtherMemory if !is_label => {}
                PlaceKind::OtherMemory | PlaceKind::NoMemory => continue,
            }
            let Ok(name) = table.symbol_name(endian, symbol) else { continue };
            if is_mapping_symbol(machine, name) {
                continue;
            }
            let Some(left) = room.checked_sub(name.len()) else { break };
            room = left;
            let binding = match symbol.st_bind() {
                elf::STB_LOCAL => Binding::Local,
                elf::STB_WEAK => Binding::Weak,
                _ => Binding::Global,
            };
            let mut start: u64 = symbol.st_value(endian).into();
            if machine == elf::EM_ARM && kind != Kind::Label {
                // The lowest bit says that the function is Thumb code.
                start &= !1;
            }
            start = start.wrapping_add(bounds.shift);
            let mut limit = place.limit.wrapping_add(bounds.shift);
            let size: u64 = symbol.st_size(endian).into();
            if let Some(code) = bounds.descriptors.as_ref().and_then(|it| it.code(start)) {
                (start, limit) = (code, u64::MAX);
            } else if size == 0 && place.is_executable {
                limit = bounds.limit(start, limit);
            }
            builder.push(name, New { start, size, limit, binding, kind, group: 0 });
        }
    }

    /// How many bytes of names a table can have. Linkers let a name end another one, and functions of one
    /// name that are local to many units share it, so that all come to more than their strings; in a
    /// damaged file each of thousands can be as long as all of these.
    fn room_for_names(&self, table: &ElfSymbols<'data, E>) -> usize {
        let of_symbols = table.len().saturating_mul(MAX_AVERAGE_NAME);
        self.len_of_names(table).saturating_mul(8).saturating_add(of_symbols)
    }

    /// How many bytes the section with the names of a table has.
    fn len_of_names(&self, table: &ElfSymbols<'data, E>) -> usize {
        let strings = self.sections.section(table.string_section());
        let len: u64 = strings.map_or(0, |it| it.sh_size(self.endian).into());
        usize::try_from(len).unwrap_or(usize::MAX).min(self.bytes.len())
    }

    /// Each section, as far as that decides about its symbols.
    fn places(&self) -> Vec<Place> {
        let range = |section: &E::SectionHeader| {
            let start: u64 = section.sh_addr(self.endian).into();
            let len: u64 = section.sh_size(self.endian).into();
            start..start.saturating_add(len)
        };
        let kinds = self.sections.iter().map(|it| (self.place(it), it));
        let in_memory = kinds.clone().filter(|(kind, _)| *kind != PlaceKind::NoMemory);
        let mut starts: Vec<u64> = in_memory.map(|(_, it)| range(it).start).collect();
        starts.sort_unstable();
        let limit = |end: u64| {
            starts.get(starts.partition_point(|&start| start < end)).copied().unwrap_or(end)
        };
        let place = |(kind, section): (PlaceKind, &E::SectionHeader)| {
            let flags: u64 = section.sh_flags(self.endian).into();
            let is_executable = flags & u64::from(elf::SHF_EXECINSTR) != 0;
            Place { kind, is_executable, limit: limit(range(section).end) }
        };
        kinds.map(place).collect()
    }

    fn place(&self, section: &E::SectionHeader) -> PlaceKind {
        let flags: u64 = section.sh_flags(self.endian).into();
        let name = self.sections.section_name(self.endian, section).unwrap_or_default();
        let has = |part: &[u8]| name.windows(part.len()).any(|it| it == part);
        if flags & u64::from(elf::SHF_ALLOC) == 0 {
            PlaceKind::NoMemory
        } else if has(b"text") || has(b"data") {
            PlaceKind::TextOrData
        } else {
            PlaceKind::OtherMemory
        }
    }

    /// How much higher than in `other`, which has symbols of the same code, that code lies here: not at
    /// all, but where one of them was prelinked. `None` where nothing in both says so.
    fn shift_of(&self, other: &Self) -> Option<u64> {
        let text = |it: &Self| Some(it.section(".text")?.1.sh_addr(it.endian).into());
        let segment = |it: &Self| {
            let segments = it.segments();
            segments.iter().find(|it| it.is_executable).map(|it| it.vaddr)
        };
        let (own, its): (u64, u64) =
            text(self).zip(text(other)).or_else(|| segment(self).zip(segment(other)))?;
        Some(own.wrapping_sub(its))
    }

    /// The function descriptors of 64-bit PowerPC, to which symbols of functions point there.
    ///
    /// Source: "Function Descriptors" in the 64-bit PowerPC ELF ABI, version 1.9.
    fn descriptors(&self) -> Option<Descriptors<'data>> {
        let (_, section) = self.section(".opd")?;
        let is_used = self.header.e_machine(self.endian) == elf::EM_PPC64;
        let start = section.sh_addr(self.endian).into();
        is_used.then(|| Descriptors {
            start,
            bytes: self.section_bytes(section),
            endian: self.endian,
        })
    }

    pub(super) fn segments(&self) -> Vec<Segment> {
        let endian = self.endian;
        let headers = self.header.program_headers(endian, self.bytes).unwrap_or_default();
        let loaded: Vec<Segment> = headers
            .iter()
            .filter(|it| it.p_type(endian) == elf::PT_LOAD)
            .map(|it| {
                let (start, len): (u64, u64) = it.file_range(endian);
                Segment {
                    file: start..start.saturating_add(len),
                    vaddr: it.p_vaddr(endian).into(),
                    is_executable: it.p_flags(endian) & elf::PF_X != 0,
                }
            })
            .collect();
        if !loaded.is_empty() {
            return loaded;
        }
        // Files that a JIT compiler's agent writes may have sections only.
        let sections = self.sections.iter().filter_map(|section| {
            let flags: u64 = section.sh_flags(endian).into();
            let (start, len) = section.file_range(endian)?;
            (flags & u64::from(elf::SHF_ALLOC) != 0).then(|| Segment {
                file: start..start.saturating_add(len),
                vaddr: section.sh_addr(endian).into(),
                is_executable: flags & u64::from(elf::SHF_EXECINSTR) != 0,
            })
        });
        sections.collect()
    }

    fn build_id(&self) -> Option<BuildId> {
        let endian = self.endian;
        let of_sections = self
            .sections
            .iter()
            .filter(|it| it.sh_type(endian) == elf::SHT_NOTE)
            .find_map(|it| build_id_in(self.section_bytes(it), endian));
        of_sections.or_else(|| {
            let headers = self.header.program_headers(endian, self.bytes).unwrap_or_default();
            headers
                .iter()
                .filter(|it| it.p_type(endian) == elf::PT_NOTE)
                .filter_map(|it| it.data(endian, self.bytes).ok())
                .find_map(|notes| build_id_in(notes, endian))
        })
    }

    /// The name, a zero, padding to a multiple of four from the section's own start, the CRC.
    fn debug_link(&self) -> Option<DebugLink> {
        let (_, section) = self.section(".gnu_debuglink")?;
        let bytes = self.section_bytes(section);
        let len = bytes.iter().position(|&byte| byte == 0)?;
        let crc_at = len.checked_add(1)?.checked_next_multiple_of(4)?;
        let crc = *bytes.get(crc_at..)?.first_chunk::<4>()?;
        let crc = match self.endian {
            Endianness::Little => u32::from_le_bytes(crc),
            Endianness::Big => u32::from_be_bytes(crc),
        };
        let name = bytes.get(..len).filter(|it| !it.is_empty() && !it.contains(&b'/'))?;
        Some(DebugLink { file_name: OsString::from_vec(name.to_vec()), crc })
    }
}

/// A section.
struct Place {
    kind: PlaceKind,
    is_executable: bool,
    /// Where the next section in memory starts.
    limit: u64,
}

/// Where the symbols of a section lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlaceKind {
    /// Not in memory: `.gnu.warning.*` and the like.
    NoMemory,
    /// In memory, in a section where a label may stand for code or data.
    TextOrData,
    /// In memory, in another section.
    OtherMemory,
}

/// The section `.opd`.
struct Descriptors<'data> {
    start: u64,
    bytes: &'data [u8],
    endian: Endianness,
}

impl Descriptors<'_> {
    /// Where the code starts whose descriptor is at `at`; `None` if no descriptor is there.
    fn code(&self, at: u64) -> Option<u64> {
        let at = usize::try_from(at.checked_sub(self.start)?).ok()?;
        let bytes = *self.bytes.get(at..)?.first_chunk::<8>()?;
        Some(match self.endian {
            Endianness::Little => u64::from_le_bytes(bytes),
            Endianness::Big => u64::from_be_bytes(bytes),
        })
    }
}

/// Whether `name` marks the start of code or data within a function, as assemblers of these machines
/// write.
fn is_mapping_symbol(machine: u16, name: &[u8]) -> bool {
    match (machine, name) {
        (elf::EM_ARM | elf::EM_AARCH64, [b'$', b'a' | b'd' | b't' | b'x', rest @ ..]) => {
            matches!(rest, [] | [b'.', ..])
        }
        (elf::EM_RISCV, [b'$', b'd' | b'x', ..]) => true,
        _ => false,
    }
}
