//! Every BPF program of a recording: what it is called, from when to when it was there, where its
//! code lies, and what else the recording tells of it.
//!
//! In come the records and sections of a recording, out comes an immutable index. A program is known
//! by its id and the time of its load, never by its name or tag, which others may share. What the
//! sources say is joined so:
//!
//! ```text
//! KSYMBOL x n, BPF_EVENT    by the thread that wrote them one after the other: the functions of
//!                           a program, in their order, and then its id
//! BPF_PROG_INFO             by id, and by the addresses of its functions where an id was used again
//! private messages          by id and time of load
//! BPF_METADATA              by its place behind the BPF_EVENT, else by the tag in its name where
//!                           one program alone has it
//! ```
//!
//! What cannot be joined surely is left out, and a symbol without a program is one by itself.
//!
//! Sources: `perf_event_bpf_event()` in `kernel/events/core.c` for the order of the kernel's records,
//! `perf_event__synthesize_one_bpf_prog()` in `tools/perf/util/bpf-event.c` for that of perf's.

mod facts;
mod join;
mod notes;
mod state;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use rustc_hash::FxHashMap;

use crate::btf::Btf;
use crate::perfdata::bpf_info::ProgInfo;
use crate::perfdata::bpf_info::prog_type_name;
use crate::perfdata::private::TracepointPrograms;
use crate::symbols::BpfLines;
use crate::symbols::SourceLine;
use crate::units::Addr;
use crate::units::BpfTag;
use crate::units::Nanos;
use crate::units::Pid;
use crate::units::ProgId;
use crate::units::Tid;

use super::Index;
use super::Recording;
use super::resolved::CommId;
use super::spans::Moment;
use super::timeline::Owner;
use super::timeline::Timeline;

pub use notes::Notes;
pub use state::Attachment;
pub use state::Cost;
pub use state::Runs;
pub use state::State;

/// An index into [`Programs::all`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProgramIdx(pub u32);

/// A function of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId {
    /// The program.
    pub program: ProgramIdx,
    /// An index into [`Program::functions`].
    pub function: u32,
}

/// All BPF programs of a recording.
#[derive(Debug, Default)]
pub struct Programs<'a> {
    all: Vec<Program<'a>>,
    btfs: BTreeMap<u32, Btf>,
    /// The function that each kernel symbol of the timeline is.
    of_ksymbol: Vec<Option<FunctionId>>,
    tracepoints: Vec<&'a TracepointPrograms>,
    runs: Option<Runs>,
    n_damaged: u64,
    /// The functions of each program by address, sorted when they are first asked for.
    by_start: Vec<OnceLock<Vec<usize>>>,
    /// The source lines of each program, made when they are first asked for.
    lines: Vec<OnceLock<BpfLines>>,
    /// How many programs have a name, counted when that is first asked for.
    n_of_name: OnceLock<FxHashMap<Vec<u8>, u32>>,
}

/// A BPF program.
#[derive(Debug, Default)]
pub struct Program<'a> {
    /// Its id; `None` where nothing but its symbol is known.
    pub id: Option<ProgId>,
    /// The hash of its instructions.
    pub tag: Option<BpfTag>,
    /// Its name in full, raw; empty where it has none or none is known.
    pub name: Vec<u8>,
    /// When it was loaded; `None` for before the start, or where that is not known.
    pub loaded: Option<Nanos>,
    /// When it was gone; `None` for after the end.
    pub unloaded: Option<Nanos>,
    /// When it was loaded, in nanoseconds since the boot of the recorded machine, where that is
    /// known.
    pub load_time_ns: Option<u64>,
    /// Who loaded it, where it was loaded meanwhile: the process, with its name then.
    pub loader: Option<Process>,
    /// Its functions with code at known addresses, in their order.
    pub functions: Vec<Function>,
    /// What the kernel knew of it.
    pub info: Option<ProgInfo<'a>>,
    /// What its owner says of it: keys, without `bpf_metadata_`, and values.
    pub metadata: Vec<(String, String)>,
    /// Where it sat, and who held it.
    pub state: State,
    /// How often it ran and for how long, where that was counted.
    pub cost: Option<Cost>,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: Pid,
    /// Its name, raw; empty where none is known.
    pub comm: Vec<u8>,
}

/// A function of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its number within the program; 0 is where the program begins.
    pub idx: usize,
    /// Its first address.
    pub start: Addr,
    /// One past its last address.
    pub end: Addr,
    /// Its name as a symbol, raw: `bpf_prog_TAG_NAME`.
    pub name: Vec<u8>,
}

impl Program<'_> {
    /// Its type in bpftool's words, such as `raw_tracepoint`; `None` where nothing tells.
    pub fn type_name(&self) -> Option<&'static str> {
        prog_type_name(self.info.as_ref()?.prog_type())
    }

    /// The process that it belongs to: one that holds it, else the one that loaded it.
    pub fn owner(&self) -> Option<Process> {
        let holder = self.state.holders.first();
        let holder =
            holder.map(|it| Process { pid: Pid(it.pid), comm: it.comm.clone().into_bytes() });
        holder.or_else(|| self.loader.clone())
    }

    /// Whether it has code whose addresses were hidden from the recorder, so that its samples are
    /// nobody's.
    pub fn is_hidden(&self) -> bool {
        let n_functions = self.info.as_ref().map_or(0, ProgInfo::n_functions);
        n_functions != 0 && self.functions.is_empty()
    }

    /// The value that its owner gave `key`, without `bpf_metadata_`.
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.metadata.iter().find(|(it, _)| it == key).map(|(_, value)| value.as_str())
    }
}

impl<'a> Programs<'a> {
    /// The programs of `recording`, which `index` has gone over.
    pub fn new(recording: &'a Recording, index: &'a Index) -> Self {
        let timeline = &index.timeline;
        let comm = |tid: Tid, moment: Moment| {
            let (comm, _, _) = timeline.comm(tid, moment);
            comm.and_then(|CommId(it)| index.comms.get(it as usize)).cloned()
        };
        let features = recording.features.iter().filter_map(|it| it.content.as_ref().ok());
        join::join(&join::Input {
            endian: recording.header.endian(),
            features: features.collect(),
            ksymbols: timeline.ksymbols(),
            notes: &index.bpf,
            // The name of a process is that of its first thread.
            comm: &|(pid, tid), moment| comm(Tid(pid.0), moment).or_else(|| comm(tid, moment)),
        })
    }

    /// All programs: those with an id first, by id and time of load.
    pub fn all(&self) -> &[Program<'a>] {
        &self.all
    }

    /// The program with this index.
    pub fn program(&self, ProgramIdx(idx): ProgramIdx) -> &Program<'a> {
        &self.all[idx as usize]
    }

    /// The name of a program, with its id where that alone does not tell it from others; its tag
    /// where it has neither.
    pub fn label(&self, program: &Program<'_>) -> String {
        let n_of_name = self.n_of_name.get_or_init(|| {
            let mut n_of_name = FxHashMap::default();
            for program in &self.all {
                *n_of_name.entry(program.name.clone()).or_default() += 1;
            }
            n_of_name
        });
        let name = String::from_utf8_lossy(&program.name).into_owned();
        let is_only = n_of_name.get(&program.name) == Some(&1);
        match program.id {
            Some(id) if name.is_empty() || !is_only => format!("{name}#{id}"),
            _ if name.is_empty() => program.tag.map_or(name, |it| it.to_string()),
            _ => name,
        }
    }

    /// The types that describe `program`, where they are in the recording.
    pub fn btf(&self, program: &Program<'_>) -> Option<&Btf> {
        self.btfs.get(&program.info.as_ref()?.btf_id()?)
    }

    /// The source lines of the program with this index, found by native address.
    pub(super) fn lines(&self, idx: ProgramIdx) -> Option<&BpfLines> {
        let info = self.program(idx).info.as_ref();
        let lines = || info.map_or_else(BpfLines::default, BpfLines::new);
        Some(self.lines.get(idx.0 as usize)?.get_or_init(lines))
    }

    /// The place in the source that the native code at `addr` of a program comes from.
    pub fn line(&self, program: ProgramIdx, addr: Addr) -> Option<SourceLine<'_>> {
        let known = self.program(program);
        let lines = self.lines(program)?;
        Some(SourceLine::new(lines.at(addr)?, self.btf(known)?))
    }

    /// The function of a program that covers the address `addr`, whatever is there at some moment.
    pub fn function_of(&self, idx: ProgramIdx, addr: Addr) -> Option<&Function> {
        let functions = &self.program(idx).functions;
        let by_start = self.by_start.get(idx.0 as usize)?.get_or_init(|| {
            let mut order: Vec<usize> = (0..functions.len()).collect();
            order.sort_by_key(|&it| functions[it].start);
            order
        });
        let behind = by_start.partition_point(|&it| functions[it].start <= addr);
        let function = &functions[*by_start.get(behind.checked_sub(1)?)?];
        (addr < function.end).then_some(function)
    }

    /// The function that a kernel symbol of the timeline is.
    pub fn of_ksymbol(&self, ksymbol: u32) -> Option<FunctionId> {
        self.of_ksymbol.get(ksymbol as usize).copied().flatten()
    }

    /// The function at the address `addr` at `moment`, as `timeline` has it.
    pub fn function_at(
        &self,
        timeline: &Timeline,
        addr: Addr,
        moment: Moment,
    ) -> Option<FunctionId> {
        match timeline.kernel(addr.0, moment)? {
            Owner::Ksymbol(ksymbol) => self.of_ksymbol(ksymbol),
            Owner::Mapping(_) => None,
        }
    }

    /// The programs on the recorded tracepoints, as they were looked up, in the order of the file.
    pub fn tracepoints(&self) -> &[&'a TracepointPrograms] {
        &self.tracepoints
    }

    /// From when to when the kernel's counters were read, and whether they counted; `None` where
    /// they were not read.
    pub fn runs(&self) -> Option<Runs> {
        self.runs
    }

    /// How many sections and entries about programs could not be read.
    pub fn n_damaged(&self) -> u64 {
        self.n_damaged
    }
}
