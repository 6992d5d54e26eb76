//! Where the names of a recording's addresses come from: the files of this machine.

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use crate::host::files::Disk;
use crate::host::files::vdso;
use crate::host::kernel::release;
use crate::replay::Index;
use crate::replay::LocalKernel;
use crate::replay::Sources;
use crate::symbols;
use crate::symbols::ElfCode;
use crate::symbols::ElfModule;
use crate::symbols::Files;
use crate::symbols::Kallsyms;
use crate::symbols::ModuleFile;
use crate::symbols::PerfMap;
use crate::symbols::build_id_from_notes;
use crate::units::BuildId;
use crate::units::Pid;

use super::input::Input;
use super::message;

/// This machine's files, its kernel, and perf's store of files by build id.
#[derive(Debug)]
pub(super) struct ThisMachine {
    cache: Option<PathBuf>,
    /// The symbols of the recorded kernel, where the recording has them.
    kallsyms: Option<PathBuf>,
    /// The release of the recorded kernel.
    release: Option<String>,
    /// The kernel that the user chose.
    chosen: Option<LocalKernel>,
}

impl ThisMachine {
    /// What names the addresses of the recording `input`, of which `index` was made.
    pub(super) fn new(input: &Input, index: &Index) -> Self {
        let release = index.release.as_ref();
        Self {
            cache: std::env::home_dir().map(|home| home.join(".debug")),
            kallsyms: input.kallsyms().map(Path::to_owned),
            release: release.map(|it| String::from_utf8_lossy(it).into_owned()),
            chosen: None,
        }
    }

    /// The same, with the kernel that the user chose, if any.
    pub(super) fn with_kernel(self, chosen: Option<LocalKernel>) -> Self {
        Self { chosen, ..self }
    }

    /// The kernel whose symbols lie beside the recording.
    fn recorded_kernel(&self) -> Option<LocalKernel> {
        let text = std::fs::read(self.kallsyms.as_ref()?).ok()?;
        let kallsyms = Kallsyms::parse(&text)
            .inspect_err(|error| tracing::debug!(%error, "no recorded kernel symbols"))
            .ok()?;
        Some(LocalKernel {
            build_id: None,
            release: self.release.clone(),
            kallsyms: kallsyms.into(),
            is_chosen: false,
        })
    }
}

impl Sources for ThisMachine {
    fn elf(&self, file: &ModuleFile) -> Result<ElfModule, symbols::Error> {
        ElfModule::load(&Disk, file, self.cache.as_deref())
    }

    fn vdso(&self, build_id: Option<BuildId>) -> Option<ElfModule> {
        ElfModule::parse(&recorded_vdso(build_id)?, None).ok()
    }

    fn elf_code(&self, file: &ModuleFile) -> Result<ElfCode, symbols::Error> {
        ElfCode::load(&Disk, file, self.cache.as_deref())
    }

    fn vdso_code(&self, build_id: Option<BuildId>) -> Option<ElfCode> {
        ElfCode::parse(Arc::new(recorded_vdso(build_id)?), None).ok()
    }

    fn perf_map(&self, pid: Pid) -> Option<PerfMap> {
        let path = format!("/tmp/perf-{pid}.map");
        let path = Path::new(&path);
        // Anybody may write to /tmp: only who reads, or root, is believed.
        let owner = std::fs::metadata(path).ok()?.uid();
        if owner != 0 && owner != nix::unistd::geteuid().as_raw() {
            tracing::debug!(path = %path.display(), owner, "not ours, and not used");
            return None;
        }
        let bytes = Disk.open(path).ok()?;
        let map = PerfMap::parse(&bytes);
        if map.n_bad_lines != 0 {
            message::warn(&format!(
                "{} of `{}` are no entries and were skipped",
                lines(map.n_bad_lines),
                path.display()
            ));
        }
        Some(map)
    }

    fn kernel(&self) -> Option<LocalKernel> {
        if let Some(chosen) = &self.chosen {
            return Some(chosen.clone());
        }
        if let Some(recorded) = self.recorded_kernel() {
            return Some(recorded);
        }
        let mut text = Vec::new();
        std::fs::File::open("/proc/kallsyms").ok()?.read_to_end(&mut text).ok()?;
        let kallsyms = Kallsyms::parse(&text)
            .inspect_err(|error| tracing::debug!(%error, "no kernel symbols"))
            .ok()?;
        let notes = std::fs::read("/sys/kernel/notes").ok();
        let build_id = notes.and_then(|notes| build_id_from_notes(&notes));
        Some(LocalKernel {
            build_id,
            release: release(),
            kallsyms: kallsyms.into(),
            is_chosen: false,
        })
    }
}

fn lines(n: u64) -> String {
    if n == 1 { "1 line".to_owned() } else { format!("{n} lines") }
}

/// The vDSO of this machine, if it is the one that was recorded.
fn recorded_vdso(build_id: Option<BuildId>) -> Option<Vec<u8>> {
    let bytes = vdso().ok()?;
    let own = symbols::Identity::of(&bytes).ok()?.build_id;
    (build_id.is_none() || build_id == own).then_some(bytes)
}
