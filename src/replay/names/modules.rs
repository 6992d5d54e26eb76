//! What is mapped: files, the kernel, code that processes made themselves, each with its symbols.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::OnceLock;

use crate::replay::Index;
use crate::replay::Unnamed;
use crate::replay::resolved::Dso;
use crate::replay::timeline::MappedFile;
use crate::replay::timeline::Mapping;
use crate::symbols;
use crate::symbols::ElfModule;
use crate::symbols::Mapper;
use crate::symbols::ModuleFile;
use crate::symbols::PerfMap;
use crate::symbols::undeleted;
use crate::units::Addr;
use crate::units::BuildId;
use crate::units::FileOffset;
use crate::units::Nanos;
use crate::units::Pid;

use super::Demangling;
use super::Sources;
use super::SymbolName;
use super::Width;
use super::text;

/// Mappings of one file, or of one process's own code.
#[derive(Debug)]
pub(super) struct Module {
    pub(super) kind: ModuleKind,
    pub(super) dso: Dso,
    /// The same without what the kernel added to the path since the file was deleted, which makes it
    /// no other module.
    pub(super) undeleted_dso: Option<Dso>,
    pub(super) table: OnceLock<Table>,
    /// Why there is none.
    pub(super) error: OnceLock<symbols::Error>,
    /// Why there is none of code that a process made.
    pub(super) unnamed: OnceLock<Unnamed>,
}

/// What a module is, as far as that decides where its symbols and code come from.
#[derive(Clone, Debug)]
pub(in crate::replay) enum ModuleKind {
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
pub(super) enum Table {
    Elf(Box<ElfModule>),
    PerfMap(Arc<PerfMap>),
    None,
}

impl Module {
    pub(super) fn new(
        file: &MappedFile,
        mapping: &Mapping,
        recorded: Option<BuildId>,
        mappers: &[Mapper],
        mapped: Option<Nanos>,
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
            let file = ModuleFile { path, build_id, inode, mapped, mappers };
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
    pub(super) fn compat_vdso(index: &Index) -> Self {
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
    pub(super) fn symbol(&self, addr: Addr, demangling: Demangling) -> Option<SymbolName<'_>> {
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
pub(super) fn elf_symbol(
    module: &ElfModule,
    at: Addr,
    demangling: Demangling,
) -> Option<SymbolName<'_>> {
    Some(SymbolName::of_user(module.symbol(module.find(at)?)?, at, demangling))
}

/// The name of a kernel module by its file: `/lib/modules/.../snd-hda.ko.xz` is `snd_hda`.
pub(super) fn module_name(base: &str) -> String {
    let base = base.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(base);
    let name = base.split_once(".ko").map_or(base, |(name, _)| name);
    name.replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_named_by_its_file() {
        assert_eq!(module_name("snd-hda.ko.xz"), "snd_hda");
        assert_eq!(module_name("[kvm]"), "kvm");
        assert_eq!(module_name("ext4.ko"), "ext4");
    }
}
