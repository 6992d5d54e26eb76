//! Frames to names: each distinct address once, each module's symbols read once.

use std::borrow::Cow;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::OnceLock;

use rayon::prelude::*;
use rustc_hash::FxHashMap;

use crate::perfdata::private::KernelFunction;
use crate::perfdata::private::KernelSymbols;
use crate::perfdata::private::Message;
use crate::symbols;
use crate::symbols::ElfCode;
use crate::symbols::ElfModule;
use crate::symbols::Kallsyms;
use crate::symbols::Mapper;
use crate::symbols::ModuleFile;
use crate::symbols::NativeLine;
use crate::symbols::OwnedBytes;
use crate::symbols::PerfMap;
use crate::symbols::SourceFrame;
use crate::symbols::Symbols;
use crate::symbols::demangle;
use crate::symbols::undeleted;
use crate::units::Addr;
use crate::units::BuildId;
use crate::units::FileOffset;
use crate::units::Pid;

use super::Frame;
use super::Index;
use super::Lacked;
use super::Lacking;
use super::Lines;
use super::Nameless;
use super::Programs;
use super::Provenance;
use super::Unnamed;
use super::WrittenMap;
use super::makers::Makers;
use super::resolved::Dso;
use super::resolved::DsoId;
use super::resolved::Level;
use super::resolved::Location;
use super::resolved::LocationId;
use super::resolved::Resolved;
use super::resolved::SourceLine;
use super::resolved::Symbol;
use super::resolved::SymbolId;
use super::saved::WithSaved;
use super::spans::Moment;
use super::timeline::MappedFile;
use super::timeline::Mapping;
use super::timeline::Owner;

/// Where symbol tables come from; asked at most once for each module, by any thread.
pub trait Sources: Sync {
    /// The symbols of `file`.
    ///
    /// # Errors
    ///
    /// Why there are none; its addresses stay without a name.
    fn elf(&self, file: &ModuleFile) -> Result<ElfModule, symbols::Error>;

    /// The symbols of `file`, of which the recording kept no more than `saved`, with those that were
    /// split off it.
    ///
    /// # Errors
    ///
    /// Why there are none.
    fn elf_saved(&self, _file: &ModuleFile, saved: &[u8]) -> Result<ElfModule, symbols::Error> {
        ElfModule::parse(saved, None)
    }

    /// The sections of `file`, likewise.
    ///
    /// # Errors
    ///
    /// Why there are none.
    fn elf_code_saved(
        &self,
        _file: &ModuleFile,
        saved: OwnedBytes,
    ) -> Result<ElfCode, symbols::Error> {
        ElfCode::parse(saved, None)
    }

    /// Whether `file`, whose path ends as those of deleted files do, is really called so.
    fn is_called_deleted(&self, _file: &ModuleFile) -> bool {
        false
    }

    /// The symbols of the vDSO for processes of `width`, with `build_id` if that was recorded.
    fn vdso(&self, width: Width, build_id: Option<BuildId>) -> Option<ElfModule>;

    /// The code and the sections of `file`, by the same rules.
    ///
    /// # Errors
    ///
    /// Why there is none; its functions are not shown.
    fn elf_code(&self, file: &ModuleFile) -> Result<ElfCode, symbols::Error>;

    /// The code of the vDSO by the same rules.
    fn vdso_code(&self, width: Width, build_id: Option<BuildId>) -> Option<ElfCode>;

    /// What [`keep_lines`](Self::keep_lines) was given for `build_id` by an earlier run.
    fn kept_lines(&self, _build_id: BuildId) -> Option<Vec<u8>> {
        None
    }

    /// Keeps `text`, what was found in large debug information, for later runs, if it can be.
    fn keep_lines(&self, _build_id: BuildId, _text: &[u8]) {}

    /// What a process `pid` on the machine of `provenance` wrote of the code that it made itself.
    ///
    /// # Errors
    ///
    /// Why there is no such map, or none that can be believed.
    fn perf_map(&self, pid: Pid, provenance: &Provenance) -> Result<WrittenMap, Unnamed>;

    /// The kernel whose symbols are at hand.
    fn kernel(&self) -> Option<LocalKernel>;
}

/// The width of a process' addresses, of which the kernel has a vDSO each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// The kernel's own, usually 64 bits.
    Native,
    /// 32 bits on a kernel of 64.
    Compat,
}

/// A kernel whose symbols are at hand.
#[derive(Clone, Debug)]
pub struct LocalKernel {
    /// Its build id.
    pub build_id: Option<BuildId>,
    /// Its release, as `uname -r` has it.
    pub release: Option<String>,
    /// Its symbols, at the addresses where it runs, or was linked to run.
    pub kallsyms: Arc<Kallsyms>,
    /// Whether the user chose it, so that it counts as the recorded one without proof.
    pub is_chosen: bool,
}

/// Which names are shown as the programmer wrote them, and not as they stand in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demangling {
    /// Those of programs and libraries.
    pub user: bool,
    /// Those of the kernel and its modules.
    pub kernel: bool,
}

impl Default for Demangling {
    /// The kernel's names stand for themselves, as in `/proc/kallsyms`.
    fn default() -> Self {
        Self { user: true, kernel: false }
    }
}

/// The names of everything in a recording.
pub struct Names<'a> {
    index: &'a Index,
    sources: WithSaved<'a>,
    makers: Makers,
    /// The module of each mapping, by the mapping's number.
    module_of: Vec<u32>,
    modules: Vec<Module>,
    ksymbol_dsos: Vec<Dso>,
    /// The module that each kernel symbol is shown in, where that is not the symbol itself.
    groups: Vec<Option<Dso>>,
    /// The module of the kernel itself.
    kernel_dso: Option<usize>,
    kernel: OnceLock<Option<(LocalKernel, u64)>>,
    /// Functions of the recorded kernel that the recording itself names, by address.
    recorded: Vec<&'a KernelFunction>,
    demangling: Demangling,
}

impl std::fmt::Debug for Names<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Names").field("modules", &self.modules.len()).finish_non_exhaustive()
    }
}

/// Mappings of one file, or of one process's own code.
#[derive(Debug)]
struct Module {
    kind: ModuleKind,
    dso: Dso,
    /// The same without what the kernel added to the path since the file was deleted, which makes it
    /// no other module.
    undeleted_dso: Option<Dso>,
    table: OnceLock<Table>,
    /// Why there is none.
    error: OnceLock<symbols::Error>,
    /// Why there is none of code that a process made.
    unnamed: OnceLock<Unnamed>,
}

/// What a module is, as far as that decides where its symbols and code come from.
#[derive(Clone, Debug)]
pub(super) enum ModuleKind {
    Kernel,
    KernelModule(String),
    Elf(ModuleFile),
    Vdso {
        width: Width,
        build_id: Option<BuildId>,
    },
    Jit {
        pid: Pid,
        generation: u32,
    },
    /// Memory that never has symbols.
    Plain,
}

#[derive(Debug)]
enum Table {
    Elf(ElfModule),
    PerfMap(PerfMap),
    None,
}

/// What an address is called.
#[derive(Clone, Copy, Debug)]
pub struct Name<'n> {
    /// The module; `None` where no mapping covered the address.
    pub dso: Option<&'n Dso>,
    /// The address in the module, as [`Location::addr`].
    pub addr: Addr,
    /// The symbol; `None` where no name is sure.
    pub symbol: Option<SymbolName<'n>>,
}

/// The symbol that covers an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SymbolName<'n> {
    /// Its name as it stands in the file.
    pub raw: &'n str,
    /// Whether it is shown as the programmer wrote it.
    is_mangled: bool,
    /// Its first address, in the module's own addresses.
    pub start: Addr,
    /// One past its last address.
    pub end: Addr,
    /// How far into it the address is, in bytes.
    pub offset: u64,
}

impl<'n> SymbolName<'n> {
    /// A program's `symbol`, which covers `at`.
    fn of_user(symbol: symbols::Symbol<'n>, at: Addr, demangling: Demangling) -> Self {
        let symbols::Symbol { name, start, end, .. } = symbol;
        Self { raw: name, is_mangled: demangling.user, start, end, offset: at - start }
    }

    /// The same place in a function called `raw`, which was inlined there.
    #[must_use]
    pub fn inlined<'m>(&self, raw: &'m str) -> SymbolName<'m> {
        let Self { raw: _, is_mangled, start, end, offset } = *self;
        SymbolName { raw, is_mangled, start, end, offset }
    }

    /// Whether it is shown as the programmer wrote it, and not as it stands in the file.
    pub fn is_mangled(&self) -> bool {
        self.is_mangled
    }

    /// The name as it is shown.
    pub fn shown(&self) -> Cow<'n, str> {
        if self.is_mangled { demangle(self.raw) } else { Cow::Borrowed(self.raw) }
    }
}

impl<'a> Names<'a> {
    /// The names of what `index` found, by the symbols that `sources` have.
    pub fn new(index: &'a Index, sources: &'a dyn Sources) -> Self {
        let mut modules = Vec::new();
        let mut ids: FxHashMap<(u32, (Pid, u32), bool, bool), u32> = FxHashMap::default();
        let mut module_of = Vec::new();
        for mapping in index.timeline.mappings() {
            // A process describes its own code in one file, wherever it lies.
            let file = if mapping.jit_pid == Pid(0) { mapping.file.0 } else { u32::MAX };
            let is_compat_vdso = index.is_compat_vdso(mapping);
            let maker = (mapping.jit_pid, mapping.jit_generation);
            let key = (file, maker, mapping.is_executable, is_compat_vdso);
            let id = *ids.entry(key).or_insert_with(|| {
                let file = &index.files[mapping.file.0 as usize];
                if is_compat_vdso {
                    modules.push(Module::compat_vdso(index));
                    return narrow(modules.len() - 1);
                }
                let recorded = index.build_ids.get(&file.path).copied();
                let mappers = index.mappers.get(mapping.file.0 as usize);
                let mappers = mappers.map(Vec::as_slice).unwrap_or_default();
                modules.push(Module::new(file, mapping, recorded, mappers, sources));
                narrow(modules.len() - 1)
            });
            module_of.push(id);
        }
        let ksymbol_dsos = index
            .timeline
            .ksymbols()
            .iter()
            .map(|it| {
                let name = text(&it.name);
                Dso { short_name: name.clone(), long_name: name }
            })
            .collect();
        let kernel = OnceLock::new();
        let kernel_dso =
            modules.iter().position(|it: &Module| matches!(it.kind, ModuleKind::Kernel));
        let groups = Vec::new();
        let symbols = index.bpf.messages().iter().filter_map(|it| match it {
            Message::Symbols(KernelSymbols { symbols }) => Some(symbols),
            _ => None,
        });
        let mut recorded: Vec<&KernelFunction> = symbols.flatten().collect();
        recorded.sort_by_key(|it| it.addr);
        Self {
            index,
            sources: WithSaved::new(index, sources),
            makers: Makers::new(index),
            module_of,
            modules,
            ksymbol_dsos,
            groups,
            kernel_dso,
            kernel,
            recorded,
            demangling: Demangling::default(),
        }
    }

    /// The same, with names shown as `demangling` says.
    #[must_use]
    pub fn demangled(self, demangling: Demangling) -> Self {
        Self { demangling, ..self }
    }

    /// Shows all functions of a BPF program as one module, `[bpf:NAME]`; several programs of one name
    /// stay apart by their ids, as [`Programs::label`] has it.
    pub fn group_functions(&mut self, programs: &Programs<'_>) {
        let group = |ksymbol: u32| {
            let program = programs.program(programs.of_ksymbol(ksymbol)?.program);
            let name = format!("[bpf:{}]", programs.label(program));
            Some(Dso { short_name: name.clone(), long_name: name })
        };
        self.groups = (0..).take(self.ksymbol_dsos.len()).map(group).collect();
    }

    /// The module that a kernel symbol is shown in.
    fn ksymbol_dso(&self, ksymbol: usize) -> &Dso {
        let group = self.groups.get(ksymbol).and_then(Option::as_ref);
        group.unwrap_or(&self.ksymbol_dsos[ksymbol])
    }

    /// What `frame` is called.
    pub fn name(&self, frame: &Frame) -> Name<'_> {
        let Frame { ip, owner, level, .. } = *frame;
        match owner {
            None if level == Level::Kernel => self.beyond_kernel_map(ip),
            None => Name { dso: None, addr: ip, symbol: None },
            Some(Owner::Ksymbol(idx)) => {
                let ksymbol = self.index.timeline.ksymbol(idx);
                let dso = self.ksymbol_dso(idx as usize);
                let symbol = SymbolName {
                    raw: &self.ksymbol_dsos[idx as usize].short_name,
                    is_mangled: false,
                    start: Addr(ksymbol.start),
                    end: Addr(ksymbol.end),
                    offset: ip.0.wrapping_sub(ksymbol.start),
                };
                Name { dso: Some(dso), addr: ip, symbol: Some(symbol) }
            }
            Some(Owner::Mapping(idx)) => {
                let mapping = self.index.timeline.mapping(idx);
                let module = &self.modules[self.module_of[idx as usize] as usize];
                let addr = Addr(ip.0.wrapping_sub(mapping.bias));
                let symbol = match mapping.jit_code {
                    Some(code) => self.jit_symbol(code, ip),
                    None => self.symbol(module, ip, addr),
                };
                Name { dso: Some(&module.dso), addr, symbol }
            }
        }
    }

    /// What a dump of code calls the code with this number, which covers `ip`.
    fn jit_symbol(&self, code: u32, ip: Addr) -> Option<SymbolName<'_>> {
        let code = self.index.jit_codes.get(code as usize)?;
        Some(SymbolName {
            raw: &code.name,
            is_mangled: self.demangling.user,
            start: code.start,
            end: code.end,
            offset: ip.0.wrapping_sub(code.start.0),
        })
    }

    /// The kernel's map ends with its text, but code stands behind it too, that of the start-up.
    fn beyond_kernel_map(&self, ip: Addr) -> Name<'_> {
        let symbol = self.symbol_of_kernel(ip, None).filter(|_| self.kernel_dso.is_some());
        let dso = self.kernel_dso.filter(|_| symbol.is_some());
        Name { dso: dso.map(|idx| &self.modules[idx].dso), addr: ip, symbol }
    }

    fn symbol<'s>(&'s self, module: &'s Module, ip: Addr, addr: Addr) -> Option<SymbolName<'s>> {
        match &module.kind {
            ModuleKind::Kernel => self.symbol_of_kernel(ip, None),
            ModuleKind::KernelModule(name) => self.symbol_of_kernel(ip, Some(name)),
            ModuleKind::Plain => None,
            ModuleKind::Elf(_) | ModuleKind::Vdso { .. } | ModuleKind::Jit { .. } => {
                let table = module.table.get_or_init(|| self.load(module));
                table.symbol(addr, self.demangling)
            }
        }
    }

    fn load(&self, module: &Module) -> Table {
        match &module.kind {
            ModuleKind::Elf(file) => match self.sources.elf(file) {
                Ok(module) => Table::Elf(module),
                Err(error) => {
                    tracing::debug!(path = %file.path.display(), %error, "no symbols");
                    module.error.get_or_init(|| error);
                    Table::None
                }
            },
            ModuleKind::Vdso { width, build_id } => {
                self.sources.vdso(*width, *build_id).map_or(Table::None, Table::Elf)
            }
            ModuleKind::Jit { pid, generation } => match self.perf_map(*pid, *generation) {
                Ok(map) => Table::PerfMap(map),
                Err(why) => {
                    tracing::debug!(%pid, generation, %why, "no map");
                    module.unnamed.get_or_init(|| why);
                    Table::None
                }
            },
            ModuleKind::Kernel | ModuleKind::KernelModule(_) | ModuleKind::Plain => Table::None,
        }
    }

    /// The map of the code that the process in this `generation` of those called `pid` made.
    fn perf_map(&self, pid: Pid, generation: u32) -> Result<PerfMap, Unnamed> {
        let is_its = |written| self.makers.is_of(pid, generation, written);
        if let Some(map) = self.sources.saved_map(pid, &is_its) {
            return Ok(map);
        }
        let found = self.sources.perf_map(pid, &self.index.provenance);
        match found {
            Ok(found) if is_its(found.written) => Ok(found.map),
            Ok(_) => Err(Unnamed::OfAnotherProgram),
            Err(Unnamed::Absent) if self.sources.has_map(pid) => Err(Unnamed::OfAnotherProgram),
            // What a dump said counts for more than that there is no map.
            Err(why) => Err(*self.index.unnamed_jit.get(&pid).unwrap_or(&why)),
        }
    }

    fn symbol_of_kernel(&self, ip: Addr, module: Option<&str>) -> Option<SymbolName<'_>> {
        let symbol =
            self.symbol_at_hand(ip, module).or_else(|| self.recorded_symbol(ip, module))?;
        Some(SymbolName { is_mangled: self.demangling.kernel, ..symbol })
    }

    /// The name that the recording itself gives a function of its kernel.
    fn recorded_symbol(&self, ip: Addr, module: Option<&str>) -> Option<SymbolName<'_>> {
        let idx = self.recorded.partition_point(|it| it.addr <= ip.0).checked_sub(1)?;
        let KernelFunction { addr, len, name, module: own } = *self.recorded.get(idx)?;
        let offset = ip.0.wrapping_sub(*addr);
        (offset < *len && own.as_deref() == module).then(|| SymbolName {
            raw: name,
            is_mangled: false,
            start: Addr(*addr),
            end: Addr(addr.saturating_add(*len)),
            offset,
        })
    }

    fn symbol_at_hand(&self, ip: Addr, module: Option<&str>) -> Option<SymbolName<'_>> {
        let (kernel, delta) = self.kernel.get_or_init(|| self.find_kernel()).as_ref()?;
        let at = Addr(ip.0.wrapping_sub(*delta));
        let kallsyms = &kernel.kallsyms;
        let idx = kallsyms.find(at)?;
        // Modules are loaded at places of their own: those of another boot do not lie as far away as
        // the kernel does.
        if kallsyms.module(idx) != module || module.is_some() && *delta != 0 {
            return None;
        }
        let symbol = kallsyms.symbol(idx)?;
        Some(SymbolName {
            raw: symbol.name,
            is_mangled: false,
            start: Addr(symbol.start.0.wrapping_add(*delta)),
            end: Addr(symbol.end.0.wrapping_add(*delta)),
            offset: at - symbol.start,
        })
    }

    /// The kernel at hand, if it is the one that was recorded, and how far away the recorded one
    /// ran: a kernel with the same build id may have been loaded elsewhere (KASLR).
    fn find_kernel(&self) -> Option<(LocalKernel, u64)> {
        let (start, file) = self.index.kernel?;
        let file = &self.index.files[file.0 as usize];
        let kernel = self.sources.kernel()?;
        let reference = file.path.strip_prefix(b"[kernel.kallsyms]".as_slice())?;
        let reference = std::str::from_utf8(reference).ok().filter(|it| !it.is_empty());
        let local = kernel.kallsyms.addr_of(reference.unwrap_or("_text"))?;
        let is_same = match (self.index.kernel_build_id(), kernel.build_id) {
            _ if kernel.is_chosen => true,
            (Some(recorded), Some(local)) => recorded == local,
            // Without an id the place decides, since the kernel is loaded at random; where it is not,
            // all kernels are at the same place, and the release tells them apart.
            _ => {
                let own = kernel.release.as_ref().map(String::as_bytes);
                start == local
                    && self.index.release.as_ref().is_none_or(|it| own == Some(it.as_slice()))
            }
        };
        is_same.then(|| (kernel, start - local))
    }

    /// What lies at the address `addr` of the kernel at `moment`.
    pub fn kernel_symbol(&self, addr: Addr, moment: Moment) -> Option<SymbolName<'_>> {
        let owner = self.index.timeline.kernel(addr.0, moment);
        let frame = Frame { ip: addr, owner, level: Level::Kernel, is_return_address: false };
        self.name(&frame).symbol
    }

    /// What lies at the link-time address `addr` of the file that the mapping with this number maps.
    pub fn symbol_in(&self, mapping: u32, addr: Addr) -> Option<SymbolName<'_>> {
        let module = &self.modules[self.module_of(mapping) as usize];
        match module.table.get_or_init(|| self.load(module)) {
            Table::Elf(table) => elf_symbol(table, addr, self.demangling),
            Table::PerfMap(_) | Table::None => None,
        }
    }

    /// The files for which `nameless` counts samples since they lack symbols, the most first. An address
    /// that no function of a file with all its symbols covers is nobody's.
    pub fn lacking(&self, nameless: &Nameless) -> Vec<Lacking<'_>> {
        let mut found: Vec<Lacking<'_>> = Vec::new();
        for (mapping, n_samples) in nameless.by_mapping() {
            let module = &self.modules[self.module_of(mapping) as usize];
            let what = match (&module.kind, module.table.get()) {
                (ModuleKind::Elf(_), Some(Table::Elf(table)))
                    if table.symbols() == Symbols::Full =>
                {
                    continue;
                }
                (ModuleKind::Elf(file), Some(Table::Elf(_))) => Lacked::Symbols(file),
                (ModuleKind::Elf(file), _) => match module.error.get() {
                    Some(error) => Lacked::File(file, error),
                    None => Lacked::Symbols(file),
                },
                (ModuleKind::Jit { pid, .. }, _) => match module.unnamed.get() {
                    // Few write down what they make, and nobody else knows.
                    None | Some(Unnamed::Absent) => continue,
                    Some(&why) => Lacked::Map(*pid, why),
                },
                _ => continue,
            };
            let dso = module.undeleted_dso.as_ref().unwrap_or(&module.dso);
            match found.iter_mut().find(|it| it.dso.long_name == dso.long_name) {
                Some(same) => same.n_samples = same.n_samples.saturating_add(n_samples),
                None => found.push(Lacking { dso, what, n_samples }),
            }
        }
        found.sort_by(|a, b| (b.n_samples, &a.dso.long_name).cmp(&(a.n_samples, &b.dso.long_name)));
        found
    }

    /// The address of `ip` in the module that the mapping with this number maps.
    pub(super) fn addr_in(&self, mapping: u32, Addr(ip): Addr) -> Addr {
        Addr(ip.wrapping_sub(self.index.timeline.mapping(mapping).bias))
    }

    /// The number of the module that the mapping with this number maps.
    pub(super) fn module_of(&self, mapping: u32) -> u32 {
        self.module_of[mapping as usize]
    }

    /// What the module with this number is.
    pub(super) fn module_kind(&self, module: u32) -> &ModuleKind {
        &self.modules[module as usize].kind
    }

    /// How many modules there are.
    pub(super) fn n_modules(&self) -> usize {
        self.modules.len()
    }

    /// Where symbols and code come from.
    pub(super) fn sources(&self) -> &dyn Sources {
        &self.sources
    }

    /// All modules, numbered in the order in which a recording tells of them, and perf with it: the
    /// kernel's, BPF's, those of processes. Numbers taken in the order of samples would differ from
    /// run to run.
    fn dsos(&self) -> Dsos<'_> {
        let is_kernel =
            |it: &&Module| matches!(it.kind, ModuleKind::Kernel | ModuleKind::KernelModule(_));
        let (kernel, others): (Vec<_>, Vec<_>) = self.modules.iter().partition(is_kernel);
        let kernel = kernel.into_iter().map(|it| (&it.dso, &it.dso));
        let mut dsos = Dsos::default();
        let ksymbols = (0..self.ksymbol_dsos.len()).map(|it| self.ksymbol_dso(it));
        let ksymbols = ksymbols.map(|it| (it, it));
        let others = others.into_iter();
        let others = others.map(|it| (&it.dso, it.undeleted_dso.as_ref().unwrap_or(&it.dso)));
        for (dso, shown) in kernel.chain(ksymbols).chain(others) {
            let id = dsos.id(shown);
            dsos.by_place.insert(std::ptr::from_ref(dso), id);
        }
        dsos
    }

    /// Names `frames`, which become the first locations of `resolved` in the same order; what was
    /// inlined where one is, as far as `lines` has it, becomes more of them.
    pub(super) fn name_all(
        &self,
        frames: &[Frame],
        lines: Option<&Lines<'_>>,
        resolved: &mut Resolved,
    ) -> Expansions {
        let names: Vec<Name<'_>> =
            frames.par_iter().with_min_len(256).map(|frame| self.name(frame)).collect();
        let sources: Vec<Vec<SourceFrame<'_>>> = match lines {
            Some(lines) => {
                let named = frames.par_iter().zip(&names).with_min_len(64);
                named.map(|(frame, name)| lines.of(frame, name.symbol.as_ref())).collect()
            }
            None => Vec::new(),
        };
        let mut dsos = self.dsos();
        let mut symbols = SymbolIds::default();
        let mut source_files = SourceFiles::default();
        let mut expansions = Expansions::new(frames.len());
        let mut inlined = Vec::new();
        for (idx, (frame, name)) in frames.iter().zip(&names).enumerate() {
            let dso = name.dso.map(|dso| dsos.id(dso));
            let symbol = dso.zip(name.symbol);
            let Frame { ip, owner, level, .. } = *frame;
            let found = sources.get(idx).map_or(&[][..], Vec::as_slice);
            let of_code = found.last();
            let location = Location {
                ip,
                addr: name.addr,
                owner,
                dso,
                symbol: symbol.map(|(dso, it)| symbols.id(dso, it, Code::Own)),
                symbol_offset: symbol.map_or(0, |(_, it)| it.offset),
                level,
                line: of_code.and_then(|it| Some(source_files.line(it.line?))),
                running_line: found.first().and_then(|it| Some(source_files.line(it.line?))),
            };
            resolved.locations.push(location);
            if let (Some((dso, symbol)), [callees @ .., _]) = (symbol, found) {
                for callee in callees {
                    let raw = callee.function.unwrap_or("??");
                    let symbol = symbols.id(dso, symbol.inlined(raw), Code::Inlined);
                    let line = callee.line.map(|it| source_files.line(it));
                    inlined.push(Location { symbol: Some(symbol), line, ..location });
                    expansions.add(frames.len() + inlined.len() - 1);
                }
            }
            expansions.end();
        }
        resolved.locations.append(&mut inlined);
        resolved.symbols = symbols
            .found
            .par_iter()
            .with_min_len(64)
            .map(|&(dso, symbol, code)| Symbol {
                name: symbol.shown().into_owned(),
                dso,
                start: symbol.start,
                end: symbol.end,
                is_inlined: code == Code::Inlined,
            })
            .collect();
        resolved.source_files = source_files.found;
        resolved.dsos = dsos.found;
        expansions
    }
}

/// The locations that stand for what was inlined where a frame is, the innermost first, by frame.
#[derive(Debug)]
pub(super) struct Expansions {
    ends: Vec<usize>,
    ids: Vec<LocationId>,
}

impl Expansions {
    fn new(n_frames: usize) -> Self {
        Self { ends: Vec::with_capacity(n_frames), ids: Vec::new() }
    }

    fn add(&mut self, location: usize) {
        self.ids.push(LocationId(narrow(location)));
    }

    fn end(&mut self) {
        self.ends.push(self.ids.len());
    }

    /// The locations of the frame with this number, that of the code itself last.
    pub(super) fn of(&self, frame: u32) -> impl Iterator<Item = LocationId> + '_ {
        let idx = frame as usize;
        let start = idx.checked_sub(1).map_or(0, |it| self.ends[it]);
        self.ids[start..self.ends[idx]].iter().copied().chain([LocationId(frame)])
    }
}

/// Whose code a symbol has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Code {
    /// Its own.
    Own,
    /// That of the function into which it was inlined.
    Inlined,
}

/// Distinct symbols: by name and place, since two of one name are two.
#[derive(Default)]
struct SymbolIds<'n> {
    found: Vec<(DsoId, SymbolName<'n>, Code)>,
    ids: FxHashMap<(DsoId, &'n str, Addr, Code), SymbolId>,
}

impl<'n> SymbolIds<'n> {
    fn id(&mut self, dso: DsoId, symbol: SymbolName<'n>, code: Code) -> SymbolId {
        *self.ids.entry((dso, symbol.raw, symbol.start, code)).or_insert_with(|| {
            self.found.push((dso, symbol, code));
            SymbolId(narrow(self.found.len() - 1))
        })
    }
}

/// Distinct files of source.
#[derive(Default)]
struct SourceFiles<'n> {
    found: Vec<String>,
    ids: FxHashMap<&'n str, u32>,
}

impl<'n> SourceFiles<'n> {
    /// A line of one of them.
    fn line(&mut self, line: NativeLine<'n>) -> SourceLine {
        let file = *self.ids.entry(line.file).or_insert_with(|| {
            self.found.push(line.file.to_owned());
            narrow(self.found.len() - 1)
        });
        SourceLine { file, line: line.line }
    }
}

/// Distinct modules as they are shown: by name, since names are what a reader sees.
#[derive(Default)]
struct Dsos<'n> {
    found: Vec<Dso>,
    by_place: FxHashMap<*const Dso, DsoId>,
    by_name: FxHashMap<&'n str, DsoId>,
}

impl<'n> Dsos<'n> {
    fn id(&mut self, dso: &'n Dso) -> DsoId {
        if let Some(id) = self.by_place.get(&std::ptr::from_ref(dso)) {
            return *id;
        }
        let id = *self.by_name.entry(&dso.long_name).or_insert_with(|| {
            self.found.push(dso.clone());
            DsoId(narrow(self.found.len() - 1))
        });
        self.by_place.insert(std::ptr::from_ref(dso), id);
        id
    }
}

impl Module {
    fn new(
        file: &MappedFile,
        mapping: &Mapping,
        recorded: Option<BuildId>,
        mappers: &[Mapper],
        sources: &dyn Sources,
    ) -> Self {
        let mut undeleted_dso = None;
        let path = text(&file.path);
        let build_id = file.build_id.or(recorded);
        let base = path.rsplit('/').next().filter(|it| !it.is_empty()).unwrap_or(&path).to_owned();
        let dso = |name: &str, short: &str| Dso {
            short_name: short.to_owned(),
            long_name: name.to_owned(),
        };
        let (kind, dso) = if mapping.is_kernel && path.starts_with("[kernel.kallsyms]") {
            (ModuleKind::Kernel, dso("[kernel.kallsyms]", "[kernel.kallsyms]"))
        } else if mapping.is_kernel {
            let name = module_name(&base);
            let shown = format!("[{name}]");
            (ModuleKind::KernelModule(name), dso(&shown, &shown))
        } else if mapping.jit_pid != Pid(0) {
            let pid = mapping.jit_pid;
            let name = format!("/tmp/perf-{pid}.map");
            let generation = mapping.jit_generation;
            (ModuleKind::Jit { pid, generation }, dso(&name, &format!("[JIT] tid {pid}")))
        } else if path == "[vdso]" {
            (ModuleKind::Vdso { width: Width::Native, build_id }, dso(&path, &path))
        } else if !mapping.is_executable || path.starts_with('[') || path.starts_with("//") {
            (ModuleKind::Plain, dso(&path, &base))
        } else {
            let shown = dso(&path, &base);
            let path = PathBuf::from(OsString::from_vec(file.path.clone()));
            let (inode, mappers) = (file.inode, mappers.to_vec());
            let file = ModuleFile { path, build_id, inode, mappers };
            if let Some(path) = undeleted(&file.path)
                && !sources.is_called_deleted(&file)
            {
                let path = path.to_string_lossy();
                undeleted_dso = Some(dso(&path, path.rsplit('/').next().unwrap_or(&path)));
            }
            (ModuleKind::Elf(file), shown)
        };
        let (table, error, unnamed) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self { kind, dso, undeleted_dso, table, error, unnamed }
    }

    /// The vDSO of processes of 32 bits on a kernel of 64.
    fn compat_vdso(index: &Index) -> Self {
        let name = "[vdso32]";
        let build_id = index.build_ids.get(name.as_bytes()).copied();
        Self {
            kind: ModuleKind::Vdso { width: Width::Compat, build_id },
            dso: Dso { short_name: name.to_owned(), long_name: name.to_owned() },
            undeleted_dso: None,
            table: OnceLock::new(),
            error: OnceLock::new(),
            unnamed: OnceLock::new(),
        }
    }
}

impl Table {
    fn symbol(&self, addr: Addr, demangling: Demangling) -> Option<SymbolName<'_>> {
        match self {
            Self::Elf(module) => elf_symbol(module, module.vaddr(FileOffset(addr.0))?, demangling),
            Self::PerfMap(map) => {
                Some(SymbolName::of_user(map.symbol(map.find(addr)?)?, addr, demangling))
            }
            Self::None => None,
        }
    }
}

/// The symbol at the link-time address `at` of `module`.
fn elf_symbol(module: &ElfModule, at: Addr, demangling: Demangling) -> Option<SymbolName<'_>> {
    Some(SymbolName::of_user(module.symbol(module.find(at)?)?, at, demangling))
}

/// The name of a kernel module by its file: `/lib/modules/.../snd-hda.ko.xz` is `snd_hda`.
fn module_name(base: &str) -> String {
    let base = base.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(base);
    let name = base.split_once(".ko").map_or(base, |(name, _)| name);
    name.replace('-', "_")
}

/// A name from a file as text; what is no UTF-8 shows as the replacement character.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Modules and symbols are fewer than mappings and samples.
fn narrow(idx: usize) -> u32 {
    u32::try_from(idx).expect("fewer than 2^32 modules and symbols")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::replay::Anomalies;
    use crate::replay::programs::Notes;
    use crate::replay::provenance::WallClock;
    use crate::replay::timeline::Fact;
    use crate::replay::timeline::FileId;
    use crate::replay::timeline::Timeline;

    use super::*;

    #[test]
    fn a_module_is_named_by_its_file() {
        assert_eq!(module_name("snd-hda.ko.xz"), "snd_hda");
        assert_eq!(module_name("[kvm]"), "kvm");
        assert_eq!(module_name("ext4.ko"), "ext4");
    }

    /// A machine whose kernel is at `at`, with a module that always is at the same place.
    struct Machine {
        at: u64,
        build_id: Option<BuildId>,
        release: &'static str,
        is_chosen: bool,
    }

    impl Sources for Machine {
        fn elf(&self, _: &ModuleFile) -> Result<ElfModule, symbols::Error> {
            Err(symbols::Error::EmptyKallsyms)
        }

        fn vdso(&self, _: Width, _: Option<BuildId>) -> Option<ElfModule> {
            None
        }

        fn elf_code(&self, _: &ModuleFile) -> Result<ElfCode, symbols::Error> {
            Err(symbols::Error::EmptyKallsyms)
        }

        fn vdso_code(&self, _: Width, _: Option<BuildId>) -> Option<ElfCode> {
            None
        }

        fn perf_map(&self, _: Pid, _: &Provenance) -> Result<WrittenMap, Unnamed> {
            Err(Unnamed::Absent)
        }

        fn kernel(&self) -> Option<LocalKernel> {
            let text = self.at;
            let list = format!(
                "{text:x} T _text\n{:x} t work\n{MODULE:x} t enter\t[kvm]\n{:x} t leave\t[kvm]\n",
                text + 0x100,
                MODULE + 0x1000,
            );
            Some(LocalKernel {
                build_id: self.build_id,
                release: Some(self.release.to_owned()),
                kallsyms: Kallsyms::parse(list.as_bytes()).unwrap().into(),
                is_chosen: self.is_chosen,
            })
        }
    }

    const TEXT: u64 = 0xffff_ffff_8100_0000;
    const MODULE: u64 = 0xffff_ffff_c000_0000;

    /// What `machine` calls two addresses of a recording of release 7.0: in the kernel and in a
    /// module.
    #[track_caller]
    fn check(build_id: Option<BuildId>, machine: &Machine, want: [Option<&str>; 2]) {
        check_with(build_id, machine, Vec::new(), want);
    }

    /// The same of a recording that itself names the functions `recorded`.
    #[track_caller]
    fn check_with(
        build_id: Option<BuildId>,
        machine: &Machine,
        recorded: Vec<KernelFunction>,
        want: [Option<&str>; 2],
    ) {
        let mut bpf = Notes::default();
        bpf.message(Message::Symbols(KernelSymbols { symbols: recorded }));
        let path = |it: &str| it.as_bytes().to_vec();
        let files = vec![
            MappedFile { path: path("[kernel.kallsyms]_text"), build_id, inode: None },
            MappedFile { path: path("/lib/modules/7.0/kvm.ko"), build_id: None, inode: None },
        ];
        let map = |file, start, len| {
            let file = FileId(file);
            let mapping = Mapping {
                file,
                bias: 0,
                jit_pid: Pid(0),
                jit_generation: 0,
                jit_code: None,
                is_kernel: true,
                is_executable: true,
            };
            (Moment::START, Fact::Map { pid: None, start, end: start + len, mapping })
        };
        let index = Index {
            chunks: Vec::new(),
            readings: crate::replay::Readings::default(),
            n_samples: Vec::new(),
            n_lost: Vec::new(),
            entries: Vec::new(),
            timeline: Timeline::new(vec![map(0, TEXT, 0x10_0000), map(1, MODULE, 0x2000)], vec![]),
            comms: Vec::new(),
            files,
            mappers: Vec::new(),
            jit_codes: Vec::new(),
            build_ids: FxHashMap::default(),
            kernel: Some((Addr(TEXT), FileId(0))),
            release: Some(b"7.0".to_vec()),
            provenance: Provenance::default(),
            wall_clock: WallClock::default(),
            unnamed_jit: BTreeMap::new(),
            bpf,
            anomalies: Anomalies::default(),
        };
        let names = Names::new(&index, machine);
        let name = |ip| {
            let owner = index.timeline.kernel(ip, Moment::START);
            let level = Level::Kernel;
            let frame = Frame { ip: Addr(ip), owner, level, is_return_address: false };
            names.name(&frame).symbol.map(|it| it.raw.to_owned())
        };
        let got = [name(TEXT + 0x110), name(MODULE + 0x1010)];
        assert_eq!(got.each_ref().map(Option::as_deref), want);
    }

    #[test]
    fn a_kernel_without_an_id_is_known_by_its_place_and_release() {
        let machine = |at, release| Machine { at, build_id: None, release, is_chosen: false };
        check(None, &machine(TEXT, "7.0"), [Some("work"), Some("leave")]);
        check(None, &machine(TEXT, "6.9"), [None, None]);
        check(None, &machine(TEXT + 0x20_0000, "7.0"), [None, None]);
    }

    #[test]
    fn a_kernel_that_the_user_chose_needs_no_proof() {
        let machine = |at| Machine { at, build_id: None, release: "6.9", is_chosen: true };
        check(None, &machine(TEXT), [Some("work"), Some("leave")]);
        check(BuildId::new(&[1; 20]), &machine(TEXT + 0x20_0000), [Some("work"), None]);
    }

    #[test]
    fn after_another_boot_the_kernel_has_names_and_its_modules_have_none() {
        let build_id = BuildId::new(&[1; 20]);
        let machine = |at| Machine { at, build_id, release: "7.0", is_chosen: false };
        check(build_id, &machine(TEXT), [Some("work"), Some("leave")]);
        // The module's address, as far from its own as the kernel's from the other, is another
        // function of the same module.
        check(build_id, &machine(TEXT - 0x1000), [Some("work"), None]);
    }

    #[test]
    fn where_no_kernel_is_at_hand_the_recording_names_what_its_programs_call() {
        let other = Machine { at: TEXT, build_id: None, release: "6.9", is_chosen: false };
        let function = |addr, len, module: Option<&str>| KernelFunction {
            addr,
            len,
            name: "recorded".to_owned(),
            module: module.map(str::to_owned),
        };
        let in_kernel = function(TEXT + 0x100, 0x20, None);
        let in_module = function(MODULE + 0x1010, u64::MAX, Some("kvm"));
        let both = vec![in_module.clone(), in_kernel.clone()];
        check_with(None, &other, both, [Some("recorded"), Some("recorded")]);
        let short = function(TEXT + 0x100, 0x10, None);
        let elsewhere = function(MODULE + 0x1010, 9, Some("nf"));
        check_with(None, &other, vec![short, elsewhere], [None, None]);
        let own = Machine { at: TEXT, build_id: None, release: "7.0", is_chosen: false };
        check_with(None, &own, vec![in_kernel], [Some("work"), Some("leave")]);
    }
}
