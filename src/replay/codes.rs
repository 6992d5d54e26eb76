//! The code of the functions of a recording: of BPF programs from the recording itself, of all else
//! from the files that were mapped.

use std::cell::OnceCell;
use std::path::Path;
use std::sync::OnceLock;

use crate::perfdata::feature::Feature;
use crate::perfdata::feature::FeatureId;
use crate::symbols;
use crate::symbols::Code;
use crate::symbols::CodeLines;
use crate::symbols::ElfCode;
use crate::symbols::Machine;
use crate::symbols::SourceLines;
use crate::symbols::Step;
use crate::units::Addr;
use crate::units::FileOffset;
use crate::units::ProgId;

use super::Frame;
use super::MissingLines;
use super::Names;
use super::Programs;
use super::Recording;
use super::names::ModuleKind;
use super::programs::FunctionId;
use super::resolved::Level;
use super::resolved::Symbol;
use super::timeline::Owner;

/// Why the code of a function cannot be shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoCode {
    /// It is the kernel's, of which no recording and rarely a file holds the code.
    #[error("a recording does not hold the kernel's own code")]
    Kernel,
    /// It is of a trampoline or dispatcher, which the kernel tells nobody the code of.
    #[error("the kernel gives away no code of BPF trampolines and dispatchers")]
    Image,
    /// Nothing but the name of the BPF program is in the recording.
    #[error(
        "the recording does not hold the code of BPF program{}",
        id.map_or_else(String::new, |it| format!(" {it}"))
    )]
    NotRecorded {
        /// The program.
        id: Option<ProgId>,
    },
    /// It is another machine's.
    #[error("code for {machine} cannot be shown, only that for x86")]
    Machine {
        /// What the recording or the file says of the machine.
        machine: String,
    },
    /// A process made it while it ran.
    #[error("a recording does not hold the code that a process made itself")]
    SelfMade,
    /// Nothing was mapped that holds code.
    #[error("no file holds the code")]
    NoFile,
    /// The file with the code is not there, or is another one.
    #[error(transparent)]
    File(#[from] symbols::Error),
    /// The file ends before the code, or leaves it out.
    #[error("the file holds no code at the address")]
    NotThere,
}

/// The length of the longest instruction, in bytes.
pub const LONGEST_INSTRUCTION: u64 = 15;

/// The files that code lies in, each read once, when its code is asked for.
pub struct CodeFiles<'a> {
    names: &'a Names<'a>,
    /// By module.
    files: Vec<OnceLock<Result<ElfCode, NoCode>>>,
}

impl std::fmt::Debug for CodeFiles<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CodeFiles").field("files", &self.files.len()).finish_non_exhaustive()
    }
}

/// Finds code, and indexes the lines of each file once.
pub struct Codes<'a> {
    files: &'a CodeFiles<'a>,
    programs: &'a Programs<'a>,
    /// The machine that was recorded, or what it is called.
    machine: Result<Machine, String>,
    /// The code of each function of a program, by program.
    native: Vec<OnceCell<Vec<Option<&'a [u8]>>>>,
    /// By module.
    dwarf_lines: Vec<OnceCell<Option<SourceLines<'a>>>>,
}

impl std::fmt::Debug for Codes<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Codes").field("machine", &self.machine).finish_non_exhaustive()
    }
}

impl<'a> CodeFiles<'a> {
    /// The files of the modules that `names` knows.
    pub fn new(names: &'a Names<'a>) -> Self {
        let files = std::iter::repeat_with(OnceLock::new).take(names.n_modules()).collect();
        Self { names, files }
    }

    /// The bytes of the instruction at `frame`; `None` where no file of a program or library holds
    /// it, or it is none.
    pub fn instruction(&self, frame: &Frame) -> Option<&[u8]> {
        let (machine, code) = self.code(frame, LONGEST_INSTRUCTION)?;
        code.get(..usize::from(Step::at(machine, code)?.len))
    }

    /// The `len` bytes of code from `frame` on, or as many as there are; `None` where no file of a
    /// program or library holds any.
    pub fn code(&self, frame: &Frame, len: u64) -> Option<(Machine, &[u8])> {
        let Some(Owner::Mapping(mapping)) = frame.owner else { return None };
        if frame.level != Level::User {
            return None;
        }
        let file = self.file(mapping).ok()?;
        let start = file.vaddr(FileOffset(self.names.name(frame).addr.0))?;
        let code = file.code(start..Addr(start.0.checked_add(len)?));
        Some((file.machine()?, code)).filter(|_| !code.is_empty())
    }

    /// The names of everything in the recording.
    pub(super) fn names(&self) -> &'a Names<'a> {
        self.names
    }

    pub(super) fn file(&self, mapping: u32) -> Result<&ElfCode, NoCode> {
        self.of_module(self.names.module_of(mapping))
    }

    /// The file of the module with this number.
    pub(super) fn of_module(&self, module: u32) -> Result<&ElfCode, NoCode> {
        let cell = self.files.get(module as usize).ok_or(NoCode::NoFile)?;
        cell.get_or_init(|| self.load(module)).as_ref().map_err(NoCode::clone)
    }

    /// The files that were read, and written to since: what was shown of their code and its lines may be
    /// of two states of them.
    pub fn changed(&self) -> impl Iterator<Item = &'a Path> {
        let read = self.files.iter().enumerate();
        let read = read.filter_map(|(module, it)| Some((module, it.get()?.as_ref().ok()?)));
        read.filter(|(_, it)| it.has_changed()).filter_map(|(module, _)| self.path(module))
    }

    /// How many modules there are.
    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// The path of the file that the module with this number is.
    pub(super) fn path(&self, module: usize) -> Option<&'a Path> {
        match self.names.module_kind(u32::try_from(module).ok()?) {
            ModuleKind::Elf(file) => Some(&file.path),
            _ => None,
        }
    }

    /// The module that the mapping with this number maps, and the address of `ip` in it.
    pub(super) fn place(&self, mapping: u32, ip: Addr) -> (u32, Addr) {
        (self.names.module_of(mapping), self.names.addr_in(mapping, ip))
    }

    fn load(&self, module: u32) -> Result<ElfCode, NoCode> {
        match self.names.module_kind(module) {
            ModuleKind::Kernel | ModuleKind::KernelModule(_) => Err(NoCode::Kernel),
            ModuleKind::Jit { .. } => Err(NoCode::SelfMade),
            ModuleKind::Plain => Err(NoCode::NoFile),
            ModuleKind::Elf(file) => Ok(self.names.sources().elf_code(file)?),
            ModuleKind::Vdso { width, build_id } => {
                self.names.sources().vdso_code(*width, *build_id).ok_or(NoCode::NoFile)
            }
        }
    }
}

fn cells<T>(n: usize) -> Vec<OnceCell<T>> {
    std::iter::repeat_with(OnceCell::new).take(n).collect()
}

impl<'a> Codes<'a> {
    /// The code of what `recording` tells of: of `programs`, and in `files`.
    pub fn new(
        recording: &Recording,
        files: &'a CodeFiles<'a>,
        programs: &'a Programs<'a>,
    ) -> Self {
        Self {
            files,
            programs,
            machine: machine(recording),
            native: cells(programs.all().len()),
            dwarf_lines: cells(files.files.len()),
        }
    }

    /// The code of a function of a BPF program, at the addresses where it ran.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub fn of_bpf(&self, id: FunctionId) -> Result<Code<'_>, NoCode> {
        let program = self.programs.program(id.program);
        let not_recorded = NoCode::NotRecorded { id: program.id };
        let function = program.functions.get(id.function as usize).ok_or(not_recorded.clone())?;
        let info = program.info.as_ref().ok_or(not_recorded.clone())?;
        let codes = self.native.get(id.program.0 as usize);
        let codes = codes.map(|it| it.get_or_init(|| info.native_code()));
        let code = codes.and_then(|it| *it.get(function.idx)?);
        let bytes = code.filter(|it| !it.is_empty()).ok_or(not_recorded)?;
        let machine = self.machine.clone().map_err(|machine| NoCode::Machine { machine })?;
        let lines = self.programs.lines(id.program).filter(|it| !it.is_empty());
        let lines = match lines.zip(self.programs.btf(program)) {
            Some((lines, btf)) => CodeLines::Bpf { lines, btf },
            None => CodeLines::None,
        };
        Ok(Code { machine, start: function.start, bytes, lines })
    }

    /// The code of `symbol` in what `mapping` maps, at link-time addresses.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub fn of_mapped(&self, mapping: u32, symbol: &Symbol) -> Result<Code<'_>, NoCode> {
        let file = self.files.file(mapping)?;
        let machine = file.machine().ok_or_else(|| {
            let machine = format!("ELF machine {}", file.e_machine());
            NoCode::Machine { machine }
        })?;
        let bytes = file.code(symbol.start..symbol.end);
        if bytes.is_empty() {
            return Err(NoCode::NotThere);
        }
        let lines = self.dwarf_lines.get(self.files.names.module_of(mapping) as usize);
        let lines = lines.and_then(|it| it.get_or_init(|| file.lines()).as_ref());
        let lines = lines.map_or(CodeLines::None, |it| CodeLines::Dwarf(it));
        Ok(Code { machine, start: symbol.start, bytes, lines })
    }

    /// Which lines were asked for and are missing.
    pub fn missing_lines(&self) -> MissingLines {
        let mut missing = MissingLines::default();
        for (module, lines) in self.dwarf_lines.iter().enumerate() {
            let code = u32::try_from(module).ok().and_then(|it| self.files.of_module(it).ok());
            if let (Some(lines), Some(code)) = (lines.get(), code) {
                missing.add(self.files, module, code, lines.as_ref());
            }
        }
        missing
    }

    /// The link-time address of what lies at `at` in the file of `mapping`.
    pub fn vaddr(&self, mapping: u32, at: FileOffset) -> Option<Addr> {
        self.files.file(mapping).ok()?.vaddr(at)
    }
}

/// The machine that was recorded, by number where the recording has it, else by name.
fn machine(recording: &Recording) -> Result<Machine, String> {
    let name = match recording.feature(FeatureId::ARCH) {
        Some(Feature::Arch(name)) => Some(name.as_bytes()),
        _ => None,
    };
    let (found, number) = match recording.feature(FeatureId::E_MACHINE) {
        Some(Feature::ElfMachine(it)) => {
            let found = u16::try_from(it.machine).ok().and_then(Machine::from_elf);
            (found, Some(format!("ELF machine {}", it.machine)))
        }
        _ => (name.and_then(Machine::from_uname), None),
    };
    let name = name.map(|it| String::from_utf8_lossy(it).into_owned());
    found.ok_or_else(|| {
        name.or(number).unwrap_or_else(|| "a machine that the recording does not name".to_owned())
    })
}
