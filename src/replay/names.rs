//! Frames to names: each distinct address once, each module's symbols read once.

mod expansions;
mod kernel;
mod maps;
mod modules;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::OnceLock;

use rustc_hash::FxHashMap;

use crate::perfdata::private::KernelFunction;
use crate::perfdata::private::KernelSymbols;
use crate::perfdata::private::Message;
use crate::symbols;
use crate::symbols::ElfCode;
use crate::symbols::ElfModule;
use crate::symbols::Kallsyms;
use crate::symbols::ModuleFile;
use crate::symbols::OwnedBytes;
use crate::symbols::PerfMap;
use crate::symbols::Symbols;
use crate::symbols::demangle;
use crate::units::Addr;
use crate::units::BuildId;
use crate::units::FileOffset;
use crate::units::Pid;

use super::Frame;
use super::Index;
use super::Lacked;
use super::Lacking;
use super::Nameless;
use super::NoKernel;
use super::Programs;
use super::Provenance;
use super::Unnamed;
use super::WrittenMap;
use super::makers::Makers;
use super::resolved::Dso;
use super::resolved::Level;
use super::saved::WithSaved;
use super::timeline::Owner;

pub(super) use modules::ModuleKind;

use maps::Maps;
use modules::Module;
use modules::Table;
use modules::elf_symbol;

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
    ///
    /// # Errors
    ///
    /// Why there is none.
    fn kernel(&self) -> Result<LocalKernel, NoKernel>;
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
    maps: Maps,
    /// The module of each mapping, by the mapping's number.
    module_of: Vec<u32>,
    modules: Vec<Module>,
    ksymbol_dsos: Vec<Dso>,
    /// The module that each kernel symbol is shown in, where that is not the symbol itself.
    groups: Vec<Option<Dso>>,
    /// The module of the kernel itself.
    kernel_dso: Option<usize>,
    /// The kernel, where the recording has no mapping of it.
    any_kernel: Dso,
    kernel: OnceLock<Result<(LocalKernel, u64), NoKernel>>,
    /// Functions of the recorded kernel that the recording itself names, by address.
    recorded: Vec<&'a KernelFunction>,
    demangling: Demangling,
}

impl std::fmt::Debug for Names<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Names").field("modules", &self.modules.len()).finish_non_exhaustive()
    }
}

/// What an address is called.
#[derive(Clone, Copy, Debug)]
pub struct Name<'n> {
    /// The module; `None` where no mapping covered the address.
    pub dso: Option<&'n Dso>,
    /// The address in the module, as [`Location::addr`](super::resolved::Location::addr).
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
                let mapped = index.mapped.get(mapping.file.0 as usize).copied().flatten();
                modules.push(Module::new(file, mapping, recorded, mappers, mapped, sources));
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
            maps: Maps::default(),
            module_of,
            modules,
            ksymbol_dsos,
            groups,
            kernel_dso,
            any_kernel: Dso { short_name: KERNEL.to_owned(), long_name: KERNEL.to_owned() },
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

    /// The number of the module that `frame` is in, and the address in it, where these alone decide what
    /// it is called, whatever process maps the module, and where.
    pub fn place(&self, frame: &Frame) -> Option<(u32, Addr)> {
        let Some(Owner::Mapping(idx)) = frame.owner else { return None };
        let mapping = self.index.timeline.mapping(idx);
        let addr = Addr(frame.ip.0.wrapping_sub(mapping.bias));
        mapping.jit_code.is_none().then(|| (self.module_of(idx), addr))
    }

    /// The link-time address of `frame`, whose `name` this is, where the file that it is in is known; else
    /// its address in the module.
    pub fn linked(&self, frame: &Frame, name: &Name<'_>) -> Addr {
        let Some(Owner::Mapping(idx)) = frame.owner else { return name.addr };
        let module = &self.modules[self.module_of(idx) as usize];
        let linked = match module.table.get() {
            Some(Table::Elf(table)) => table.vaddr(FileOffset(name.addr.0)),
            _ => None,
        };
        linked.unwrap_or(name.addr)
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
                Ok(module) => Table::Elf(Box::new(module)),
                Err(error) => {
                    tracing::debug!(path = %file.path.display(), %error, "no symbols");
                    module.error.get_or_init(|| error);
                    Table::None
                }
            },
            ModuleKind::Vdso { width, build_id } => self
                .sources
                .vdso(*width, *build_id)
                .map_or(Table::None, |it| Table::Elf(Box::new(it))),
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
    fn perf_map(&self, pid: Pid, generation: u32) -> Result<Arc<PerfMap>, Unnamed> {
        let is_its = |written| self.makers.is_of(pid, generation, written);
        match self.sources.saved_map(pid, &is_its) {
            // What a dump said counts for more than that there is no map.
            Some(Err(Unnamed::Absent)) => {
                return Err(*self.index.unnamed_jit.get(&pid).unwrap_or(&Unnamed::Absent));
            }
            Some(found) => return found.map(Arc::new),
            None => {}
        }
        let found = self.maps.of(pid, || self.sources.perf_map(pid, &self.index.provenance));
        match found {
            Ok((map, written)) if is_its(written) => Ok(map),
            Ok(_) => Err(Unnamed::OfAnotherProgram),
            Err(why) => Err(*self.index.unnamed_jit.get(&pid).unwrap_or(&why)),
        }
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
            let instead_of = self.index.timeline.mapping(mapping).instead_of;
            let moved = instead_of.and_then(|it| self.index.files.get(it.0 as usize));
            let what = match (&module.kind, module.table.get()) {
                (ModuleKind::Elf(_), Some(Table::Elf(table)))
                    if table.symbols() == Symbols::Full =>
                {
                    continue;
                }
                (ModuleKind::Elf(file), Some(Table::Elf(table))) => match table.too_long() {
                    Some(at) => Lacked::TooLong(file, at),
                    None => Lacked::Symbols(file),
                },
                (ModuleKind::Elf(file), _) => match module.error.get() {
                    Some(error) => Lacked::File(file, error),
                    None => Lacked::Symbols(file),
                },
                // A map that was found may not tell of all that was made.
                (ModuleKind::Jit { pid, .. }, _) => match moved {
                    Some(file) => Lacked::Moved(file),
                    None => {
                        Lacked::Map(*pid, module.unnamed.get().copied().unwrap_or(Unnamed::Absent))
                    }
                },
                (ModuleKind::Kernel | ModuleKind::KernelModule(_), _) => match self.kernel.get() {
                    Some(Err(why)) => Lacked::Kernel(*why),
                    // What no symbol of the kernel covers is nobody's.
                    Some(Ok(_)) | None => continue,
                },
                _ => continue,
            };
            // What the kernel has is lacking as a whole.
            let kernel = self.kernel_dso.filter(|_| matches!(what, Lacked::Kernel(_)));
            let module = kernel.map_or(module, |idx| &self.modules[idx]);
            let dso = module.undeleted_dso.as_ref().unwrap_or(&module.dso);
            add(&mut found, Lacking { dso, what, n_samples });
        }
        if let Some(Err(why)) = self.kernel.get()
            && 0 < nameless.n_beyond_kernel()
        {
            let dso = self.kernel_dso.map_or(&self.any_kernel, |idx| &self.modules[idx].dso);
            let (what, n_samples) = (Lacked::Kernel(*why), nameless.n_beyond_kernel());
            add(&mut found, Lacking { dso, what, n_samples });
        }
        found.sort_by(|a, b| (b.n_samples, &a.dso.long_name).cmp(&(a.n_samples, &b.dso.long_name)));
        found
    }

    /// The maps of code in which lines were no entries, and how many, of those that were asked for.
    pub fn skipped_lines(&self) -> Vec<(&Dso, u64)> {
        let mut found: Vec<(&Dso, u64)> = Vec::new();
        for module in &self.modules {
            if let Some(Table::PerfMap(map)) = module.table.get()
                && map.n_bad_lines != 0
                && found.iter().all(|it| it.0.long_name != module.dso.long_name)
            {
                found.push((&module.dso, map.n_bad_lines));
            }
        }
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
}

/// What the kernel is called where nothing is said of it.
const KERNEL: &str = "[kernel.kallsyms]";

/// Adds `lacking` to `found`, of which each lacks another thing.
fn add<'n>(found: &mut Vec<Lacking<'n>>, lacking: Lacking<'n>) {
    let is_moved = |it: &Lacking<'_>| matches!(it.what, Lacked::Moved(_));
    let is_same = |it: &&mut Lacking<'_>| {
        it.dso.long_name == lacking.dso.long_name && is_moved(it) == is_moved(&lacking)
    };
    match found.iter_mut().find(is_same) {
        Some(same) => same.n_samples = same.n_samples.saturating_add(lacking.n_samples),
        None => found.push(lacking),
    }
}

/// A name from a file as text; what is no UTF-8 shows as the replacement character.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Modules and symbols are fewer than mappings and samples.
fn narrow(idx: usize) -> u32 {
    u32::try_from(idx).expect("fewer than 2^32 modules and symbols")
}
