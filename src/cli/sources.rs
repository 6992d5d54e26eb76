//! Where the names of a recording's addresses come from: the files of this machine.

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::host::files::Disk;
use crate::host::files::DiskAndServers;
use crate::host::files::compat_vdso;
use crate::host::files::modified;
use crate::host::files::vdso;
use crate::host::kernel::release;
use crate::replay::Index;
use crate::replay::JitDumps;
use crate::replay::LocalKernel;
use crate::replay::Sources;
use crate::replay::Width;
use crate::symbols;
use crate::symbols::ElfCode;
use crate::symbols::ElfModule;
use crate::symbols::Files;
use crate::symbols::JitDump;
use crate::symbols::Kallsyms;
use crate::symbols::ModuleFile;
use crate::symbols::OwnedBytes;
use crate::symbols::PerfMap;
use crate::symbols::Places;
use crate::symbols::Symfs;
use crate::symbols::build_id_from_notes;
use crate::symbols::is_at_its_path;
use crate::units::BuildId;
use crate::units::Pid;

use super::input::Input;
use super::message;
use super::symbol_options::SymbolOptions;

/// This machine's files, its kernel, and perf's store of files by build id.
#[derive(Debug)]
pub(super) struct ThisMachine {
    files: DiskAndServers,
    places: Places,
    /// The symbols of the recorded kernel, where the recording has them.
    kallsyms: Option<PathBuf>,
    /// The build id of the recorded kernel.
    kernel: Option<BuildId>,
    /// The release of the recorded kernel.
    release: Option<String>,
    /// The kernel that the user chose.
    chosen: Option<LocalKernel>,
}

impl ThisMachine {
    /// What names the addresses of the recording `input`, of which `index` was made.
    pub(super) fn new(input: &Input, index: &Index, options: &SymbolOptions) -> Self {
        let release = index.release.as_ref();
        Self {
            files: DiskAndServers::from_env(tell_of_wait),
            places: Places {
                symfs: options.symfs(),
                store: options.store(),
                recorded_until: input.metadata().ok().and_then(|it| modified(&it)),
            },
            kallsyms: input.kallsyms().map(Path::to_owned),
            kernel: index.kernel_build_id(),
            release: release.map(|it| String::from_utf8_lossy(it).into_owned()),
            chosen: None,
        }
    }

    /// Tells what went wrong with servers of debug information.
    pub(super) fn tell_troubles(&self) {
        self.files.take_troubles().iter().for_each(|it| message::warn(it));
    }

    /// The same, with the kernel that the user chose, if any.
    pub(super) fn with_kernel(self, chosen: Option<LocalKernel>) -> Self {
        Self { chosen, ..self }
    }

    /// The vDSO of this machine, if it is the one that was recorded, or else that in perf's store.
    fn vdso_image(&self, width: Width, build_id: Option<BuildId>) -> Option<Vec<u8>> {
        let is_this_release = || self.release.is_none() || self.release == release();
        let is_it = |bytes: &[u8]| {
            let own = symbols::Identity::of(bytes).ok().and_then(|it| it.build_id);
            build_id.is_some_and(|it| own == Some(it)) || build_id.is_none() && is_this_release()
        };
        let at_hand = match width {
            Width::Native => vdso(),
            Width::Compat => compat_vdso(),
        };
        let at_hand = at_hand.inspect_err(|error| tracing::debug!(%error, ?width, "no vDSO"));
        at_hand.ok().filter(|it| is_it(it)).or_else(|| {
            let stored = self.places.stored(build_id?, "vdso");
            stored
                .iter()
                .find_map(|it| Some(Disk.open(it).ok()?.bytes.to_vec()).filter(|it| is_it(it)))
        })
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

impl ThisMachine {
    /// The symbols of the recorded kernel, where perf's store has them.
    fn stored_kernel(&self) -> Option<LocalKernel> {
        let build_id = self.kernel?;
        let stored = self.places.stored(build_id, "kallsyms");
        let text = stored.iter().find_map(|it| Some(Disk.open(it).ok()?.bytes))?;
        let kallsyms = Kallsyms::parse(&text)
            .inspect_err(|error| tracing::debug!(%error, "no stored kernel symbols"))
            .ok()?;
        Some(LocalKernel {
            build_id: Some(build_id),
            release: self.release.clone(),
            kallsyms: kallsyms.into(),
            is_chosen: false,
        })
    }
}

/// Dumps of code on this machine's disk.
#[derive(Clone, Debug)]
pub(super) struct DumpsOnDisk {
    symfs: Option<Symfs>,
}

impl DumpsOnDisk {
    /// Where `options` say that files are.
    pub(super) fn new(options: &SymbolOptions) -> Self {
        Self { symfs: options.symfs() }
    }
}

impl JitDumps for DumpsOnDisk {
    fn jitdump(&self, file: &ModuleFile) -> Option<JitDump> {
        let path = match &self.symfs {
            Some(symfs) => symfs.path_of(&file.path),
            None => file.path.clone(),
        };
        is_trusted(&path)?;
        let opened = Disk.open(&path).ok()?;
        // Another run of the program may have made another one; below a directory of another machine's
        // files inodes say nothing.
        if let (Some(recorded), Some(own), None) = (file.inode, opened.status.inode, &self.symfs) {
            let is_device = opened.status.is_device_unsure
                || (recorded.maj, recorded.min) == (own.maj, own.min);
            let is_generation = [recorded.generation, own.generation].contains(&0)
                || recorded.generation == own.generation;
            if recorded.ino != own.ino || !is_device || !is_generation {
                tracing::debug!(path = %path.display(), "another dump than the recorded one");
                return None;
            }
        }
        let dump = JitDump::parse(&opened.bytes);
        dump.inspect_err(|error| tracing::debug!(path = %path.display(), %error, "no code")).ok()
    }
}

/// Whether what others may have written to `path` is believed: only what is root's or that of whoever
/// reads is.
fn is_trusted(path: &Path) -> Option<()> {
    let owner = std::fs::metadata(path).ok()?.uid();
    let is_ours = owner == 0 || owner == nix::unistd::geteuid().as_raw();
    if !is_ours {
        tracing::debug!(path = %path.display(), owner, "not ours, and not used");
    }
    is_ours.then_some(())
}

impl Sources for ThisMachine {
    fn elf(&self, file: &ModuleFile) -> Result<ElfModule, symbols::Error> {
        ElfModule::load(&self.files, file, &self.places)
    }

    fn elf_saved(&self, file: &ModuleFile, saved: &[u8]) -> Result<ElfModule, symbols::Error> {
        ElfModule::load_saved(&self.files, file, &self.places, saved)
    }

    fn elf_code_saved(
        &self,
        file: &ModuleFile,
        saved: OwnedBytes,
    ) -> Result<ElfCode, symbols::Error> {
        ElfCode::load_saved(&self.files, file, &self.places, saved)
    }

    fn is_called_deleted(&self, file: &ModuleFile) -> bool {
        is_at_its_path(&Disk, file, &self.places)
    }

    fn vdso(&self, width: Width, build_id: Option<BuildId>) -> Option<ElfModule> {
        ElfModule::parse(&self.vdso_image(width, build_id)?, None).ok()
    }

    fn elf_code(&self, file: &ModuleFile) -> Result<ElfCode, symbols::Error> {
        ElfCode::load(&self.files, file, &self.places)
    }

    fn vdso_code(&self, width: Width, build_id: Option<BuildId>) -> Option<ElfCode> {
        ElfCode::parse(Arc::new(self.vdso_image(width, build_id)?), None).ok()
    }

    fn perf_map(&self, pid: Pid) -> Option<PerfMap> {
        let path = format!("/tmp/perf-{pid}.map");
        let path = Path::new(&path);
        is_trusted(path)?;
        let bytes = Disk.open(path).ok()?.bytes;
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
        let notes = std::fs::read("/sys/kernel/notes").ok();
        let build_id = notes.and_then(|notes| build_id_from_notes(&notes));
        if build_id != self.kernel
            && let Some(stored) = self.stored_kernel()
        {
            return Some(stored);
        }
        let mut text = Vec::new();
        std::fs::File::open("/proc/kallsyms").ok()?.read_to_end(&mut text).ok()?;
        let kallsyms = Kallsyms::parse(&text)
            .inspect_err(|error| tracing::debug!(%error, "no kernel symbols"))
            .ok()?;
        Some(LocalKernel {
            build_id,
            release: release(),
            kallsyms: kallsyms.into(),
            is_chosen: false,
        })
    }
}

/// Tells that a server of debug information is waited for.
fn tell_of_wait(url: &str, at_most: Duration) {
    message::hint(&format!(
        "waiting for `{url}`, up to {} s without an answer; `DEBUGINFOD_URLS=` asks no server",
        at_most.as_secs()
    ));
}

fn lines(n: u64) -> String {
    if n == 1 { "1 line".to_owned() } else { format!("{n} lines") }
}
