//! Recording: plan, synthesis, pump, batch, sideband, parts, finish; with several threads, drain.
//!
//! In comes a [`Config`], out goes a file or a stream and a [`Summary`]. The order of a recording:
//!
//! ```text
//! fork the command, held   open events   map rings   begin to sample tasks that run
//!   -> say what runs already -> begin to sample CPUs
//!   -> let the command go, whose exec begins its sampling -> put the file in place
//!   -> round after round until the command, its targets or a signal end it
//!   -> disable, last round, what was lost, features, header
//! ```
//!
//! With several files, one is finished and the next begun between two rounds, while the rings are drained
//! into memory. Where only the latest samples are kept, the rings of samples are read at the end of
//! a file alone, and what tells of tasks and programs waits in memory until then.
//!
//! With a delay, sampling begins between two rounds. Events that tell of tasks and programs are on
//! before anyone looks at what runs, so that nothing falls between; what tells of a task or a program twice does no harm.
//! Nothing here prints: what goes otherwise than asked for is a [`Note`].

mod batch;
mod before;
mod begin;
mod called;
mod catch;
mod clock;
mod config;
mod control;
mod crews;
mod describe;
mod directory;
mod drain;
mod fifo;
mod filters;
mod finish;
mod functions;
mod history;
mod hop;
mod lost;
mod mapped;
mod note;
mod objects;
mod off_cpu;
mod open;
mod output;
mod outputs;
mod parts;
mod plan;
mod pmus;
mod pump;
mod rings;
mod run;
mod sample_filters;
mod saving;
mod session;
pub mod sideband;
mod spread;
mod squeeze;
mod surroundings;
mod synth;
mod tracepoints;
mod triggers;
mod watch;
mod who;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::Signal;

pub use begin::record;
pub use config::Compat;
pub use config::Config;
pub use config::Contents;
pub use config::CountRuns;
pub use config::Delay;
pub use config::Describe;
pub use config::Events;
pub use config::FollowBpf;
pub use config::Inherit;
pub use config::Keep;
pub use config::OffCpu;
pub use config::Output;
pub use config::OutputOf;
pub use config::Rate;
pub use config::RingPer;
pub use config::RingSize;
pub use config::SaveFiles;
pub use config::Synthesis;
pub use config::Target;
pub use config::Wakeup;
pub use control::ControlBy;
pub use control::End as ControlEnd;
pub use control::Told;
pub use crews::BadThreads;
pub use crews::Mask;
pub use crews::Threads;
pub use filters::check_filter;
pub use functions::FunctionsOfFiles;
pub use hop::Tally;
pub use note::Note;
pub use note::RecordedEvent;
pub use objects::ObjectFiles;
pub use objects::Verdict;
pub use off_cpu::Losses;
pub use outputs::OutputTally;
pub use parts::Parts;
pub use parts::SwitchAt;
pub use parts::stamped;
pub use saving::FileGaps;

use crate::bpf;
use crate::bpf::Skipped;
use crate::host;
use crate::perfdata::private::ObjectValues;
use crate::perfdata::private::TracepointPrograms;
use crate::sys::Refused;
use crate::sys::perf_event::OpenError;
use crate::sys::spawn::Ended;
use crate::units::Cpu;

/// Why there is no recording, or not the whole of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An event could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Whoever was to be watched is gone or never was.
    #[error("no {what} runs")]
    Gone {
        /// Who, in words.
        what: String,
    },
    /// None of the CPUs is online.
    #[error("none of the CPUs asked for is online")]
    NoCpu,
    /// What BPF programs write is to be of the target alone, which nobody knows who sees no more
    /// than the rings of some CPUs.
    #[error("threads that drain rings do not know which tasks' output is of the target")]
    OutputInThreads,
    /// None of the CPUs of a thread's mask is online.
    #[error("none of the CPUs {} of a thread is online", list(cpus))]
    NoCpuOfThread {
        /// The CPUs.
        cpus: Vec<Cpu>,
    },
    /// The threads that drain the rings could not be started.
    #[error("cannot start the threads that drain the rings")]
    Threads {
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The rings exceed what may be locked, or what there is.
    #[error("{n_rings} rings of {ring_bytes} bytes exceed the memory that {}", may(*errno))]
    RingsTooLarge {
        /// The size of each, in bytes.
        ring_bytes: usize,
        /// How many.
        n_rings: usize,
        /// What the kernel says: `EPERM` of what may be locked, `ENOMEM` of what there is.
        errno: Errno,
    },
    /// The programs of a BPF object file cannot be events.
    #[error("cannot take BPF programs from `{path}`")]
    Object {
        /// The file.
        path: String,
        /// Why not.
        #[source]
        source: bpf::objects::Error,
    },
    /// A map takes no event for programs to write into.
    #[error("cannot let BPF programs write through `{map}` on CPU {cpu}")]
    Wire {
        /// The map.
        map: String,
        /// The CPU.
        cpu: Cpu,
        /// Why not.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A filter was refused.
    #[error("cannot filter event `{event}` with `{filter}`")]
    Filter {
        /// The event.
        event: String,
        /// The filter as it was set.
        filter: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// There is no filter for the samples of an event.
    #[error("cannot filter the samples of `{event}`")]
    SampleFilter {
        /// The event.
        event: String,
        /// Why not.
        #[source]
        source: bpf::filter::Error,
    },
    /// An event does not take the filter that was made for it.
    #[error("cannot set the filter of `{event}`")]
    SetFilter {
        /// The event.
        event: String,
        /// Why not.
        #[source]
        errno: Errno,
    },
    /// The command could not be run.
    #[error("cannot run `{command}`")]
    Command {
        /// Its name.
        command: String,
        /// Why not.
        #[source]
        errno: Errno,
    },
    /// The output could not be opened or put in place.
    #[error("cannot write `{}`", path.display())]
    Output {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// What commands come from, or answers go to, could not be opened.
    #[error("cannot open `{end}` for control")]
    Control {
        /// The fifo or descriptor.
        end: ControlEnd,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Time off the CPU cannot be measured.
    #[error("cannot measure time off the CPU")]
    OffCpu(#[from] bpf::off_cpu::Error),
    /// Records cannot be compressed at this level.
    #[error("cannot compress records at level {level}")]
    Compression {
        /// The level that was asked for.
        level: i32,
        /// What the library says.
        #[source]
        source: io::Error,
    },
    /// The recorder may not run at this priority.
    #[error(transparent)]
    Priority(Refused),
    /// Another system call was refused.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The machine did not say what is needed to begin.
    #[error(transparent)]
    Host(#[from] host::Error),
}

fn list(cpus: &[Cpu]) -> String {
    let cpus: Vec<String> = cpus.iter().map(|it| it.0.to_string()).collect();
    cpus.join(",")
}

/// What memory is short, for the end of a sentence.
fn may(errno: Errno) -> &'static str {
    if errno == Errno::ENOMEM { "the kernel has for them" } else { "may be locked" }
}

/// How a recording went.
#[derive(Debug)]
pub struct Summary {
    /// What came by.
    pub tally: Tally,
    /// The bytes written, header and features included.
    pub bytes: u64,
    /// From the first sampling to the last.
    pub elapsed: Duration,
    /// How the command ended, if there was one.
    pub command: Option<Ended>,
    /// The signal that ended the recording, if one did.
    pub stopped_by: Option<Signal>,
    /// Why not all of it was written; what was can be read.
    pub failed: Option<io::Error>,
    /// Whether what was written is where it was to be.
    pub is_in_place: bool,
    /// BPF programs that are not in the recording, or not with all there is to know.
    pub bpf: BpfGaps,
    /// Files that nobody can find later and that are not in the recording.
    pub files: FileGaps,
    /// What was measured of time off the CPU and could not be kept.
    pub off_cpu: Losses,
    /// The BPF programs that sat on recorded tracepoints at any time of the recording.
    pub tracepoints: Vec<TracepointPrograms>,
    /// What programs of ours, which are events, did to the samples of these.
    pub verdicts: Vec<Verdict>,
    /// What BPF programs wrote into events of their own.
    pub outputs: Vec<OutputTally>,
    /// What the programs of BPF objects have counted.
    pub values: Vec<ObjectValues>,
    /// How many files were finished, where there are several; else 0.
    pub n_parts: u64,
}

/// What could not be had of BPF programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BpfGaps {
    /// Programs of which something is missing, by why.
    pub skipped: Skipped,
    /// Loads and unloads of which the kernel dropped the news.
    pub n_lost: u64,
    /// CPUs whose loads of programs were not seen, or not up to the end.
    pub n_unwatched_cpus: u64,
    /// Why nobody looked at the programs that were loaded towards the end.
    pub ended_early: Option<String>,
    /// Programs and types that no record of a pipe has room for: only bpfperf reads them.
    pub n_too_long: u64,
    /// Files of bpffs that were not opened, since there are too many.
    pub n_pins: u64,
    /// Processes that were not looked at for the programs that they hold.
    pub n_processes: u64,
}
