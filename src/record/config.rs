//! What to record and how: every field is a decision of the caller.

use std::ffi::CString;
use std::path::PathBuf;
use std::time::Duration;

use bitflags::bitflags;

use crate::events::CallChains;
use crate::events::Event;
use crate::events::Filters;
use crate::perfdata::AttrFlags;
use crate::perfdata::ReadFormat;
use crate::perfdata::SampleType;
use crate::units::Cpu;
use crate::units::Pid;
use crate::units::Tid;
use crate::units::UserId;

use super::control::ControlBy;
use super::crews::Threads;
use super::parts::Parts;

/// What to record and how. There is no `Default`: the command line holds the defaults.
#[derive(Clone, Debug)]
pub struct Config {
    /// Whom to watch.
    pub target: Target,
    /// The command to run meanwhile, its name first; empty for none. It is what
    /// [`Target::Workload`] watches, and for any other target how long the recording lasts.
    pub command: Vec<CString>,
    /// What to sample.
    pub events: Events,
    /// How often.
    pub rate: Rate,
    /// What a sample knows of its callers.
    pub call_graph: CallChains,
    /// What else a sample holds, and which other records come.
    pub contents: Contents,
    /// How large the rings are.
    pub ring: RingSize,
    /// Whose rings they are.
    pub ring_per: RingPer,
    /// The clock of all times, as `clock_gettime(2)` numbers them; `None` for the kernel's own.
    pub clock: Option<i32>,
    /// When the recorder is woken.
    pub wakeup: Wakeup,
    /// The real-time priority of the thread that drains the rings, if it has one.
    pub realtime: Option<u8>,
    /// Of what ran before, what is told.
    pub synthesis: Synthesis,
    /// Whose is what BPF programs write.
    pub output_of: OutputOf,
    /// Whether children of the watched tasks are watched too.
    pub inherit: Inherit,
    /// Whether to keep up with BPF programs.
    pub bpf: FollowBpf,
    /// Whether files that nobody could find later are saved.
    pub files: SaveFiles,
    /// Whether to let the kernel count the runs of BPF programs.
    pub runs: CountRuns,
    /// When sampling is on.
    pub delay: Delay,
    /// How time off the CPU is recorded; `None` where it is not.
    pub off_cpu: Option<OffCpu>,
    /// Who may turn it on and off, and end the recording.
    pub control: Option<ControlBy>,
    /// After how many bytes the recording ends by itself.
    pub max_bytes: Option<u64>,
    /// For whom to write.
    pub compat: Compat,
    /// The level of compression, 1 to 22; `None` for none.
    pub compression: Option<i32>,
    /// Where to.
    pub output: Output,
    /// The threads that drain the rings, each to files of a directory; `None` for one file.
    pub threads: Option<Threads>,
    /// Whether it is one file or several.
    pub parts: Option<Parts>,
    /// Which samples are kept.
    pub keep: Keep,
    /// When it is said what runs.
    pub describe: Describe,
}

/// How time off the CPU is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffCpu {
    /// From which length on a time has a sample of its own.
    pub threshold: Duration,
    /// Whose alone, where CPUs are watched for the sake of one user.
    pub user: Option<UserId>,
}

/// Which samples are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// All that there is time to write.
    All,
    /// The latest, as many as the rings hold: they are written at the end, and when somebody asks.
    Latest,
}

/// When it is said which tasks run and what they have mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Describe {
    /// At the start of each file.
    AtStart,
    /// At its end, too.
    AtEndToo,
}

/// Whom to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The command, and what it starts.
    Workload,
    /// Everyone, on every CPU that is online.
    AllCpus,
    /// Everyone, on these CPUs.
    Cpus(Vec<Cpu>),
    /// These processes, and what they start.
    Processes(Vec<Pid>),
    /// These threads.
    Threads(Vec<Tid>),
    /// The threads that this user has when the recording begins, and what they start.
    User(UserId),
}

impl Target {
    /// Whether it is CPUs that are watched, whoever runs there.
    pub fn is_cpus(&self) -> bool {
        matches!(self, Self::AllCpus | Self::Cpus(_))
    }
}

/// What to sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Events {
    /// Cycles, or the clock that takes their place where the machine does not count them.
    Default {
        /// The folder of the cgroup whose tasks alone are watched.
        cgroup: Option<PathBuf>,
        /// What lets samples through.
        filters: Filters,
    },
    /// These.
    Named(Vec<Event>),
}

/// How often to sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// So many times a second, but each time for events that are worth it, as tracepoints.
    Usual(u64),
    /// So many times a second.
    Hertz(u64),
    /// Each time that so many have happened.
    Period(u64),
    /// Never, but for events that say how often themselves.
    Never,
}

/// When the recorder is woken by a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wakeup {
    /// When there is some to write.
    Filled,
    /// At each sample.
    EachSample,
}

bitflags! {
    /// Of what ran before the recording began, what is told.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Synthesis: u8 {
        /// Tasks and their names.
        const TASKS = 1 << 0;
        /// What these have mapped; only with them.
        const MAPPINGS = 1 << 1;
        /// The paths of cgroups, if cgroups are recorded.
        const CGROUPS = 1 << 2;
    }
}

/// What samples hold and which other records come, beside the usual: nothing by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Further fields of each sample.
    pub fields: SampleType,
    /// Which registers of user space, as a mask; with [`SampleType::REGS_USER`].
    pub user_registers: u64,
    /// Which registers at the interrupt; with [`SampleType::REGS_INTR`].
    pub registers: u64,
    /// Which branches, `PERF_SAMPLE_BRANCH_*`; with [`SampleType::BRANCH_STACK`].
    pub branches: u64,
    /// What else a read of a counter gives.
    pub reads: ReadFormat,
    /// Further records of tasks, told by whoever tells of those.
    pub of_tasks: AttrFlags,
    /// Whether each task's own count is written at its end.
    pub counts_tasks: bool,
    /// The most frames of a call chain, where the event does not say it; 0 for the kernel's own
    /// limit.
    pub max_stack: u16,
    /// The halves of call chains that are left out, `EXCLUDE_CALLCHAIN_*`.
    pub no_chains: AttrFlags,
    /// Where nothing is sampled, whatever the events say: `EXCLUDE_USER` or `EXCLUDE_KERNEL`;
    /// nothing for what the events say.
    pub no_samples: AttrFlags,
}

/// How large the data area of each ring is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingSize {
    /// As large as the kernel lets an ordinary user have, and smaller where that is refused.
    Fitted,
    /// So many bytes, a power of two of pages.
    Bytes(usize),
}

/// What has a ring of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingPer {
    /// Each CPU: what is watched is watched on each of them.
    Cpu,
    /// Each thread that is watched, wherever it runs; what it starts is not watched.
    Thread,
}

/// Whose doings BPF programs may write of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputOf {
    /// The target's: what programs write while another task runs is dropped and counted.
    Target,
    /// Everyone's.
    Everyone,
}

/// Whether children are watched too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inherit {
    /// They are.
    Yes,
    /// Only who was asked for.
    No,
}

/// Whether the recording keeps up with BPF programs that come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowBpf {
    /// Note loads and unloads, and save what is known of each program while it lives.
    Yes,
    /// Leave them out.
    No,
}

/// Whether the recording holds what names the addresses of files that nobody could find when it is
/// read: of containers, deleted, or in memory alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaveFiles {
    /// It does.
    Yes,
    /// It does not.
    No,
}

/// Whether the kernel is asked to count how often BPF programs run, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountRuns {
    /// While the recording runs; each run of each program on the machine takes some 20 ns more.
    Yes,
    /// Its counts are noted where it counts for somebody else.
    No,
}

/// When sampling is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delay {
    /// All the time.
    None,
    /// From so long after the start on.
    For(Duration),
    /// Once somebody turns it on.
    Forever,
    /// From and until so long after the start, one after the other.
    Windows(Vec<(Duration, Duration)>),
}

/// The oldest perf that is to read the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Compat {
    /// 6.1.
    Perf6_1,
    /// 6.17 and later.
    Perf6_17,
}

/// Where to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// A file; one that is there and holds something is kept beside it as `.old`.
    File(PathBuf),
    /// Standard output, in the form that needs no seeking.
    Stdout,
}
