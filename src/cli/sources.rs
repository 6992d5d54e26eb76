//! Where the names of a recording's addresses come from: the files of this machine.

use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::OnceLock;
use std::time::Duration;

use crate::host::files::Disk;
use crate::host::files::DiskAndServers;
use crate::host::files::Told;
use crate::host::files::compat_vdso;
use crate::host::files::modified;
use crate::host::files::told;
use crate::host::files::vdso;
use crate::host::kernel::release;
use crate::host::line_cache::LineCache;
use crate::host::mapped::BEGIN_IS_KNOWN_TO;
use crate::host::mapped::began;
use crate::replay::Index;
use crate::replay::JitDumps;
use crate::replay::LocalKernel;
use crate::replay::NoKernel;
use crate::replay::Provenance;
use crate::replay::Sources;
use crate::replay::Unnamed;
use crate::replay::Width;
use crate::replay::WrittenMap;
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
use crate::symbols::build_id_at_hand;
use crate::symbols::is_at_its_path;
use crate::units::BuildId;
use crate::units::Nanos;
use crate::units::Pid;

use super::here::is_here;
use super::here::is_this_kernel;
use super::here::kernel_build_id;
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
    /// Whether the recorded kernel is known to be built as ours.
    is_kernel: bool,
    /// Whether the recording was made here since we booted; known once it is asked for.
    is_here: OnceLock<bool>,
    /// The kernel that the user chose.
    chosen: Option<LocalKernel>,
    /// What earlier runs found in debug information.
    lines: Option<LineCache>,
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
                recorded_until: recorded_until(input, &index.provenance),
            },
            kallsyms: input.kallsyms().map(Path::to_owned),
            kernel: index.kernel_build_id(),
            release: release.map(|it| String::from_utf8_lossy(it).into_owned()),
            is_kernel: is_this_kernel(&index.provenance),
            is_here: OnceLock::new(),
            chosen: None,
            lines: LineCache::of_user(),
        }
    }

    /// Where the recorded machine's files are, if the user says so.
    pub(super) fn symfs(&self) -> Option<&Symfs> {
        self.places.symfs.as_ref()
    }

    /// The build id of the file with the index `file`, if that is here.
    pub(super) fn build_id(&self, index: &Index, file: usize) -> Option<BuildId> {
        let mapped = index.mapped.get(file).copied().flatten();
        let file = ModuleFile { mapped, ..index.files.get(file)?.to_find() };
        build_id_at_hand(&Disk, &file, &self.places)
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
        let is_it = |bytes: &[u8]| {
            let own = symbols::Identity::of(bytes).ok().and_then(|it| it.build_id);
            build_id.is_some_and(|it| own == Some(it)) || build_id.is_none() && self.is_kernel
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

/// When the recording `input` of `provenance` had ended at the latest. A copy is younger than it was, and the
/// clock of another machine may be ahead.
fn recorded_until(input: &Input, provenance: &Provenance) -> Option<Nanos> {
    let written = input.metadata().ok().and_then(|it| modified(&it));
    [written, provenance.ended].into_iter().flatten().min()
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
    fn jitdump(&self, file: &ModuleFile, provenance: &Provenance) -> Result<JitDump, Unnamed> {
        let told = match &self.symfs {
            Some(symfs) => told(&symfs.path_of(&file.path)),
            None if is_here(provenance) => told(&file.path),
            None => return Err(Unnamed::MadeElsewhere),
        };
        let told = told.map_err(|error| unnamed(&file.path, &error))?;
        // Another run of the program may have made another one; below a directory of another machine's
        // files inodes say nothing.
        let is_it = file.inode.is_some_and(|it| told.status.is_inode(it));
        if !is_it && self.symfs.is_none() {
            return Err(Unnamed::OfAnotherProgram);
        }
        JitDump::parse(&told.bytes).map_err(|error| {
            tracing::debug!(path = %file.path.display(), %error, "no code");
            Unnamed::Absent
        })
    }
}

/// Why what a process told is not known, if its file cannot be read.
fn unnamed(path: &Path, error: &io::Error) -> Unnamed {
    tracing::debug!(path = %path.display(), %error, "not read");
    match error.kind() {
        io::ErrorKind::PermissionDenied => Unnamed::OfAnotherUser,
        _ => Unnamed::Absent,
    }
}

/// Whether the process `pid` that runs now began before the recording ended.
fn lives_since(pid: Pid, until: Nanos) -> bool {
    let began = began(pid).and_then(|it| u64::try_from(it.as_nanos()).ok());
    began.is_some_and(|it| it <= until.0)
}

/// Whether the process `pid` that runs now began after what was `written`.
fn is_before(written: Nanos, pid: Pid) -> bool {
    let written = Duration::from_nanos(written.0);
    began(pid).is_some_and(|it| written.saturating_add(BEGIN_IS_KNOWN_TO) < it)
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

    fn kept_lines(&self, build_id: BuildId) -> Option<Vec<u8>> {
        self.lines.as_ref()?.read(build_id)
    }

    fn keep_lines(&self, build_id: BuildId, text: &[u8]) {
        let Some(lines) = &self.lines else { return };
        let kept = lines.write(build_id, text);
        kept.unwrap_or_else(|error| tracing::debug!(%build_id, %error, "no lines are kept"));
    }

    fn perf_map(&self, pid: Pid, provenance: &Provenance) -> Result<WrittenMap, Unnamed> {
        let path = PathBuf::from(format!("/tmp/perf-{pid}.map"));
        let path = match &self.places.symfs {
            Some(symfs) => symfs.path_of(&path),
            None if *self.is_here.get_or_init(|| is_here(provenance)) => path,
            None => return Err(Unnamed::MadeElsewhere),
        };
        let Told { bytes, written, status: _ } = told(&path).map_err(|it| unnamed(&path, &it))?;
        let until = self.places.recorded_until;
        let is_since = written.zip(until).is_some_and(|(written, until)| until < written);
        if self.places.symfs.is_none() && is_since && until.is_some_and(|it| !lives_since(pid, it))
        {
            return Err(Unnamed::WrittenSince);
        }
        // The process that has the number now, if any, is the one that was recorded, or came later.
        if self.places.symfs.is_none() && written.is_some_and(|it| is_before(it, pid)) {
            return Err(Unnamed::OfAnotherProgram);
        }
        Ok(WrittenMap { map: PerfMap::parse(&bytes), written })
    }

    fn kernel(&self) -> Result<LocalKernel, NoKernel> {
        if let Some(chosen) = &self.chosen {
            return Ok(chosen.clone());
        }
        if let Some(recorded) = self.recorded_kernel() {
            return Ok(recorded);
        }
        let build_id = kernel_build_id();
        if build_id != self.kernel
            && let Some(stored) = self.stored_kernel()
        {
            return Ok(stored);
        }
        let text = std::fs::read("/proc/kallsyms").map_err(|error| {
            tracing::debug!(%error, "no kernel symbols");
            NoKernel::Hidden
        })?;
        let release = release();
        let differs = build_id.is_some() && self.kernel.is_some() && build_id != self.kernel
            || self.release.is_some() && release != self.release;
        let kallsyms = Kallsyms::parse(&text).map_err(|error| {
            tracing::debug!(%error, "no kernel symbols");
            if differs { NoKernel::Other } else { NoKernel::Hidden }
        })?;
        Ok(LocalKernel { build_id, release, kallsyms: kallsyms.into(), is_chosen: false })
    }
}

/// Tells that a server of debug information is waited for.
fn tell_of_wait(url: &str, at_most: Duration) {
    message::hint(&format!(
        "waiting for `{url}`, up to {} s without an answer; `DEBUGINFOD_URLS=` asks no server",
        at_most.as_secs()
    ));
}
