//! The code of an ELF file, and the lines of source that it came from.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::OnceLock;

use object::Endianness;
use object::elf;
use object::read::elf::FileHeader;
use object::read::elf::SectionHeader as _;

use crate::symbols::Error;
use crate::symbols::FileStatus;
use crate::symbols::Files;
use crate::symbols::Inode;
use crate::symbols::Machine;
use crate::symbols::ModuleFile;
use crate::symbols::Places;
use crate::symbols::SourceLines;
use crate::symbols::find::DebugSearch;
use crate::symbols::find::FileSet;
use crate::symbols::find::FoundDebug;
use crate::units::Addr;
use crate::units::BuildId;
use crate::units::FileOffset;

use super::Class;
use super::ElfFile;
use super::File;
use super::OwnedBytes;
use super::Section;
use super::Segment;
use super::belonging::Belonging;
use super::class;

/// An ELF file that holds code, with the file that has its line table.
#[derive(Debug)]
pub struct ElfCode {
    file: ElfFile,
    /// The file with the line table, where it is another one; looked for when it is asked for, since it
    /// may have to be fetched.
    debug: OnceLock<Option<DebugFile>>,
    find_debug: FindDebug,
    /// What the debug information refers to, where the files came from a store.
    belonging: Option<Belonging>,
    supplement: OnceLock<Option<ElfFile>>,
    package: OnceLock<Option<ElfFile>>,
    /// What the compiler left of each unit in a file of its own.
    split_units: OnceLock<Box<[OnceLock<Option<ElfFile>>]>>,
    e_machine: u16,
    segments: Vec<Segment>,
    build_id: Option<BuildId>,
    /// What the store says of the file, where it is from one.
    status: FileStatus,
    /// Where code lies that the file says it leaves out, as do files that were split off another.
    left_out: Vec<Range<u64>>,
    /// Whether it says that it leaves out its debug information.
    lacks_debug_info: bool,
}

/// A file with the line table of another.
#[derive(Debug)]
struct DebugFile {
    /// How much higher the code lies in the file that was mapped.
    shift: u64,
    /// Where it was found, if it was looked for.
    at: Option<PathBuf>,
    file: ElfFile,
    status: FileStatus,
}

/// Finds the file with the line table.
struct FindDebug(Box<dyn Fn() -> Option<DebugFile> + Send + Sync>);

impl fmt::Debug for FindDebug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FindDebug").finish_non_exhaustive()
    }
}

impl FindDebug {
    fn new<F: Files + 'static>(search: DebugSearch<F>) -> Self {
        Self(Box::new(move || {
            let sought = search.find(|bytes, _| has_lines(bytes));
            let FoundDebug { at, bytes, status } = sought.found?;
            let file = ElfFile::parse(Arc::new(bytes)).ok()?;
            Some(DebugFile { shift: 0, at: Some(at), file, status })
        }))
    }
}

/// One of the files that the code of a module and what is known of it lie in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The file that was mapped.
    Mapped,
    /// The file with its debug information: another one, where it was split off, else the same.
    Debug,
}

impl ElfCode {
    /// Reads `bytes`, the file that was mapped, whose line table is in `debug` if that is given.
    ///
    /// # Errors
    ///
    /// [`Error::Elf`] if `bytes` are no ELF file.
    pub fn parse(bytes: OwnedBytes, debug: Option<OwnedBytes>) -> Result<Self, Error> {
        let layout = match class(&bytes)? {
            Class::Elf32 => layout::<elf::FileHeader32<Endianness>>(&bytes)?,
            Class::Elf64 => layout::<elf::FileHeader64<Endianness>>(&bytes)?,
        };
        let file = ElfFile::parse(bytes)?;
        let debug = debug.map(ElfFile::parse).transpose()?.and_then(|debug| {
            let found =
                DebugFile { shift: 0, at: None, file: debug, status: FileStatus::default() };
            placed(&file, found)
        });
        let Layout { e_machine, segments, left_out, lacks_debug_info } = layout;
        Ok(Self {
            file,
            debug: OnceLock::from(debug),
            find_debug: FindDebug(Box::new(|| None)),
            belonging: None,
            supplement: OnceLock::new(),
            split_units: OnceLock::new(),
            package: OnceLock::new(),
            e_machine,
            segments,
            build_id: None,
            status: FileStatus::default(),
            left_out,
            lacks_debug_info,
        })
    }

    /// Finds and reads the file that was mapped, by the rules of
    /// [`ElfModule::load`](super::ElfModule::load), and the file with its line table.
    ///
    /// # Errors
    ///
    /// As [`ElfModule::load`](super::ElfModule::load).
    pub fn load<F: Files + Clone + 'static>(
        files: &F,
        file: &ModuleFile,
        places: &Places,
    ) -> Result<Self, Error> {
        let found = FileSet::find(files, file, places)?;
        let belonging = Some(Belonging::to(&found));
        let search = (!has_lines(&found.bytes)).then(|| found.search());
        let (build_id, status) = (found.identity.build_id, found.status);
        let this = Self::parse(Arc::new(found.bytes), None)?;
        let this = Self { belonging, build_id, status, ..this };
        Ok(match search {
            Some(search) => this.with(search),
            None => this,
        })
    }

    /// Reads `saved`, what a recording kept of the file that was mapped, and the file with its line
    /// table, where that had been split off it.
    ///
    /// # Errors
    ///
    /// [`Error::Elf`] if it is no ELF file.
    pub fn load_saved<F: Files + Clone + 'static>(
        files: &F,
        file: &ModuleFile,
        places: &Places,
        saved: OwnedBytes,
    ) -> Result<Self, Error> {
        let search = DebugSearch::of_saved(files, file, places, &saved)?;
        Ok(Self::parse(saved, None)?.with(search))
    }

    /// The same with a file that has its line table, if `search` finds one.
    fn with<F: Files + 'static>(self, search: DebugSearch<F>) -> Self {
        Self { debug: OnceLock::new(), find_debug: FindDebug::new(search), ..self }
    }

    fn debug(&self) -> Option<&DebugFile> {
        self.debug.get_or_init(|| placed(&self.file, (self.find_debug.0)()?)).as_ref()
    }

    /// How much higher its code lies in the file that was mapped than in `part`, where that is another
    /// one: not at all, but where one of the two was prelinked.
    pub fn shift(&self, part: Part) -> u64 {
        match part {
            Part::Mapped => 0,
            Part::Debug => self.debug().map_or(0, |it| it.shift),
        }
    }

    /// Whether it had debug information that is not at hand: a recording keeps none of it.
    pub fn lacks_debug_info(&self) -> bool {
        self.lacks_debug_info && self.debug().is_none()
    }

    fn debug_at(&self) -> Option<&Path> {
        self.debug()?.at.as_deref()
    }

    /// The file that its debug information shares some of with that of other modules, as `dwz` leaves
    /// it (`.gnu_debugaltlink`); none where it shares none, or where that file is not there.
    pub fn supplement(&self) -> Option<&ElfFile> {
        let find = || self.belonging.as_ref()?.supplement(self.part(Part::Debug), self.debug_at());
        self.supplement.get_or_init(find).as_ref()
    }

    /// The package (`.dwp`) of the debug information that the compiler left in files of its own; a
    /// unit in it counts only if its id is that of the unit that refers to it.
    pub fn package(&self) -> Option<&ElfFile> {
        let find = || self.belonging.as_ref()?.package(self.part(Part::Debug), self.debug_at());
        self.package.get_or_init(find).as_ref()
    }

    /// The file (`.dwo`) in which the compiler left the debug information of unit `number` of
    /// `n_units`, by the unit's `DW_AT_comp_dir` and `DW_AT_dwo_name`; it counts only if the unit in it
    /// has the id of the one that refers to it.
    pub fn split_unit(
        &self,
        number: usize,
        n_units: usize,
        comp_dir: &[u8],
        dwo_name: &[u8],
    ) -> Option<&ElfFile> {
        let cells = || std::iter::repeat_with(OnceLock::new).take(n_units).collect();
        let cell = self.split_units.get_or_init(cells).get(number)?;
        let find = || self.belonging.as_ref()?.unit(self.debug_at(), comp_dir, dwo_name);
        cell.get_or_init(find).as_ref()
    }

    /// Whose code it is; `None` for a machine whose code cannot be shown.
    pub fn machine(&self) -> Option<Machine> {
        Machine::from_elf(self.e_machine)
    }

    /// The number of the machine in the file's header.
    pub fn e_machine(&self) -> u16 {
        self.e_machine
    }

    /// The link-time address of the byte at `at` in the file, as
    /// [`ElfModule::vaddr`](super::ElfModule::vaddr).
    pub fn vaddr(&self, at: FileOffset) -> Option<Addr> {
        super::vaddr(&self.segments, at)
    }

    /// The code from the link-time address `range.start` on, up to `range.end` or to where the file
    /// has no more of it.
    pub fn code(&self, range: Range<Addr>) -> &[u8] {
        if self.left_out.iter().any(|it| it.contains(&range.start.0)) {
            return &[];
        }
        let code = self.segments.iter().filter(|it| it.is_executable).find_map(|segment| {
            let skip = range.start.0.checked_sub(segment.vaddr)?;
            let start = segment.file.start.checked_add(skip).filter(|it| *it < segment.file.end)?;
            let len = range.end.0.checked_sub(range.start.0)?.min(segment.file.end - start);
            let rest = self.file.bytes().get(usize::try_from(start).ok()?..)?;
            Some(rest.get(..usize::try_from(len).ok()?).unwrap_or(rest))
        });
        code.unwrap_or_default()
    }

    /// A section of one of its files by its name, such as `.eh_frame`, inflated if need be.
    pub fn section(&self, part: Part, name: &str) -> Option<Section<'_>> {
        self.part(part).section(name)
    }

    /// One of its files.
    pub fn part(&self, part: Part) -> &ElfFile {
        match part {
            Part::Mapped => &self.file,
            Part::Debug => self.debug().map_or(&self.file, |it| &it.file),
        }
    }

    /// Whether one of the files that were read for it was written to since.
    pub fn has_changed(&self) -> bool {
        let others = [&self.supplement, &self.package].into_iter().chain(self.units());
        let others = others.filter_map(|it| it.get()?.as_ref());
        let debug = self.debug.get().and_then(Option::as_ref).map(|it| &it.file);
        std::iter::once(&self.file).chain(debug).chain(others).any(ElfFile::has_changed)
    }

    fn units(&self) -> &[OnceLock<Option<ElfFile>>] {
        self.split_units.get().map(|it| &**it).unwrap_or_default()
    }

    /// The build id, and what tells apart the very files of that id that the debug information is from,
    /// as long as nobody writes to them; `None` where the store does not say enough.
    pub fn stamp(&self) -> Option<(BuildId, String)> {
        let stamp = |status: &FileStatus, file: &ElfFile| {
            let FileStatus { inode, is_device_unsure: _, modified } = status;
            let (Inode { maj, min, ino, generation }, modified) = ((*inode)?, (*modified)?);
            let len = file.bytes().len();
            Some(format!("{maj}:{min}:{ino}.{generation} of {len} bytes at {}", modified.0))
        };
        let mut stamps = stamp(&self.status, &self.file)?;
        if let Some(debug) = self.debug() {
            stamps = format!("{stamps} with {}", stamp(&debug.status, &debug.file)?);
        }
        Some((self.build_id?, stamps))
    }

    /// What is known of its lines; `None` where nothing is.
    pub fn lines(&self) -> Option<SourceLines<'_>> {
        SourceLines::of(self)
    }
}

/// Whether the ELF file in `bytes` has a line table.
fn has_lines(bytes: &[u8]) -> bool {
    fn has<E: FileHeader<Endian = Endianness>>(bytes: &[u8]) -> bool {
        let file = File::<E>::parse(bytes);
        file.is_ok_and(|file| {
            let found = [".debug_line", ".zdebug_line"].iter().find_map(|it| file.section(it));
            found.is_some_and(|(_, it)| !file.section_bytes(it).is_empty())
        })
    }
    match class(bytes) {
        Ok(Class::Elf32) => has::<elf::FileHeader32<Endianness>>(bytes),
        Ok(Class::Elf64) => has::<elf::FileHeader64<Endianness>>(bytes),
        Err(_) => false,
    }
}

/// `debug` with where its code lies, seen from `mapped`; `None` where nothing says it.
fn placed(mapped: &ElfFile, debug: DebugFile) -> Option<DebugFile> {
    fn shift<E: FileHeader<Endian = Endianness>>(mapped: &[u8], debug: &[u8]) -> Option<u64> {
        File::<E>::parse(mapped).ok()?.shift_of(&File::<E>::parse(debug).ok()?)
    }
    let (mapped, bytes) = (mapped.bytes(), debug.file.bytes());
    let shift = match class(mapped).ok()? {
        Class::Elf32 => shift::<elf::FileHeader32<Endianness>>(mapped, bytes)?,
        Class::Elf64 => shift::<elf::FileHeader64<Endianness>>(mapped, bytes)?,
    };
    Some(DebugFile { shift, ..debug })
}

/// What the headers of a file say.
struct Layout {
    e_machine: u16,
    segments: Vec<Segment>,
    /// Where the code lies that it leaves out.
    left_out: Vec<Range<u64>>,
    lacks_debug_info: bool,
}

fn layout<E: FileHeader<Endian = Endianness>>(bytes: &[u8]) -> Result<Layout, Error> {
    let file = File::<E>::parse(bytes)?;
    let endian = file.endian;
    let left_out = file.sections.iter().filter_map(|it| {
        let flags: u64 = it.sh_flags(endian).into();
        let is_code = flags & u64::from(elf::SHF_EXECINSTR) != 0;
        let start: u64 = it.sh_addr(endian).into();
        let end = start.checked_add(it.sh_size(endian).into())?;
        (is_code && it.sh_type(endian) == elf::SHT_NOBITS).then_some(start..end)
    });
    let debug_info = [".debug_info", ".zdebug_info"].iter().find_map(|it| file.section(it));
    let is_empty = |it: &E::SectionHeader| it.sh_type(endian) == elf::SHT_NOBITS;
    Ok(Layout {
        e_machine: file.header.e_machine(endian),
        segments: file.segments(),
        left_out: left_out.collect(),
        lacks_debug_info: debug_info.is_some_and(|(_, it)| is_empty(it)),
    })
}
