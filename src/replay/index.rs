//! What one pass over the headers of all records finds: where samples lie, and what was so when.

mod end;
mod pass;

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::perfdata::ReadAt;
use crate::perfdata::RecordKind;
use crate::perfdata::Section;
use crate::symbols::JitCode;
use crate::symbols::Mapper;
use crate::units::Addr;
use crate::units::BuildId;
use crate::units::Nanos;
use crate::units::Pid;

use super::Anomalies;
use super::Deferred;
use super::Error;
use super::Recording;
use super::Unnamed;
use super::jit::JitDumps;
use super::jit::JitMade;
use super::jit::NoDumps;
use super::programs::Notes;
use super::provenance::Provenance;
use super::provenance::WallClock;
use super::readings::Readings;
use super::timeline::FileId;
use super::timeline::MappedFile;
use super::timeline::Mapping;
use super::timeline::Timeline;

use pass::Pass;

/// A record in the order in which it is to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// By what records are ordered: its time, or the time up to which all had been shown when it
    /// came, if that is later.
    pub order: Nanos,
    /// Where it stands in the input.
    pub position: u64,
}

/// Which records the [`Index`] lists one by one.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// Those of these kinds.
    Kinds(Vec<RecordKind>),
    /// Every one, known or not.
    All,
}

impl Wanted {
    /// Whether records of `kind` are listed.
    fn has(&self, kind: RecordKind) -> bool {
        match self {
            Self::Kinds(kinds) => kinds.contains(&kind),
            Self::All => true,
        }
    }
}

impl Default for Wanted {
    fn default() -> Self {
        Self::Kinds(Vec::new())
    }
}

/// What one pass over a recording finds.
#[derive(Debug)]
pub struct Index {
    /// The records in pieces of some megabytes, each beginning and ending at a record.
    pub chunks: Vec<Section>,
    /// How many samples each event has.
    pub n_samples: Vec<u64>,
    /// How many samples the kernel lost of each event.
    pub n_lost: Vec<u64>,
    /// The wanted records, in order.
    pub entries: Vec<Entry>,
    /// The recorded machine.
    pub timeline: Timeline,
    /// Command names.
    pub comms: Vec<Vec<u8>>,
    /// Mapped files.
    pub files: Vec<MappedFile>,
    /// Some of the processes that mapped each of them.
    pub mappers: Vec<Vec<Mapper>>,
    /// When each of them was mapped first, or the recording began, since 1970, if that is known.
    pub mapped: Vec<Option<Nanos>>,
    /// Code that processes made themselves and told of with times.
    pub jit_codes: Vec<JitCode>,
    /// Where and when that code was made, each process and dump by itself.
    pub jit_made: Vec<JitMade>,
    /// Processes that told of their code in a dump that is not believed, and why.
    pub(super) unnamed_jit: BTreeMap<Pid, Unnamed>,
    /// The build ids that stand in records or a section of their own, by path.
    pub build_ids: FxHashMap<Vec<u8>, BuildId>,
    /// Where the kernel's text begins, as recorded, and the file it is.
    pub kernel: Option<(Addr, FileId)>,
    /// The release of the recorded kernel, as `uname -r` has it, where the recording tells it.
    pub release: Option<Vec<u8>>,
    /// Where and when it was recorded.
    pub provenance: Provenance,
    /// How its times become times of day.
    pub(super) wall_clock: WallClock,
    /// The paths of cgroups, by id: the first that was told of each.
    pub cgroups: FxHashMap<u64, Vec<u8>>,
    /// What the records say of BPF programs, for [`Programs`](super::Programs).
    pub bpf: Notes,
    /// What samples with values stand for.
    pub readings: Readings,
    /// User call chains that came later than their samples.
    pub deferred: Deferred,
    /// What went wrong without stopping the pass.
    pub anomalies: Anomalies,
}

impl Index {
    /// Whether `mapping` is of the vDSO of a process of 32 bits on a kernel of 64, which has other code
    /// than that of 64 bits, and cannot lie where the latter does.
    pub(super) fn is_compat_vdso(&self, mapping: &Mapping) -> bool {
        let is_64_bit = self.kernel.is_none_or(|(start, _)| start.0 > u64::from(u32::MAX));
        let is_vdso = self.files[mapping.file.0 as usize].path == b"[vdso]";
        is_vdso && is_64_bit && mapping.bias < 1 << 32
    }

    /// The build id of the recorded kernel, where the recording tells it.
    pub fn kernel_build_id(&self) -> Option<BuildId> {
        let of_map = self.kernel.and_then(|(_, file)| self.files[file.0 as usize].build_id);
        of_map.or_else(|| self.build_ids.get(b"[kernel.kallsyms]".as_slice()).copied())
    }

    /// Goes over `recording`, whose bytes `input` has.
    ///
    /// # Errors
    ///
    /// [`Error::Decode`] for a record from which there is no way on, and for input that cannot be
    /// read.
    pub fn new(recording: &Recording, input: &dyn ReadAt, wanted: &Wanted) -> Result<Self, Error> {
        Self::with_dumps(recording, input, wanted, &NoDumps)
    }

    /// Goes over `recording`, as [`Index::new`], with what processes told of their own code in `dumps`.
    ///
    /// # Errors
    ///
    /// As of [`Index::new`].
    pub fn with_dumps(
        recording: &Recording,
        input: &dyn ReadAt,
        wanted: &Wanted,
        dumps: &dyn JitDumps,
    ) -> Result<Self, Error> {
        let mut pass = Pass::new(recording, wanted);
        pass.run(input)?;
        Ok(pass.finish(dumps))
    }
}

/// Whether a mapping is of no file, so that code in it was made by the process itself.
///
/// Source: `is_anon_memory()` in `tools/perf/util/map.c`; `PR_SET_VMA_ANON_NAME` of prctl(2) for the
/// names in brackets, which `/proc/PID/maps` shows.
pub fn is_anonymous(path: &[u8]) -> bool {
    const PREFIXES: [&[u8]; 4] = [b"/dev/zero", b"/anon_hugepage", b"[anon:", b"[anon_shmem:"];
    path == b"//anon" || PREFIXES.iter().any(|it| path.starts_with(it))
}
