//! What went otherwise than asked for without stopping the recording.

use std::fmt;
use std::path::PathBuf;

use crate::events::Place;
use crate::perfdata::Attr;
use crate::units::Cpu;

use super::control::Told;

/// One thing to tell the user, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// A file of a recording in several is finished; this is no fault.
    Part {
        /// The file.
        path: PathBuf,
        /// Its length in bytes.
        bytes: u64,
        /// How many samples are in it.
        samples: u64,
        /// How many records were lost.
        lost: u64,
        /// How many samples filters dropped.
        filtered: u64,
    },
    /// An event that nobody asked for by name is not there; another takes its place.
    Instead {
        /// The one that is not there.
        wanted: String,
        /// The one that is recorded.
        taken: String,
    },
    /// The kernel is not ours to sample.
    UserOnly {
        /// The event, as it is recorded.
        event: String,
    },
    /// Other tasks are not ours to watch.
    OnlyOwnPrograms,
    /// A group could not be opened together.
    Ungrouped {
        /// Its leader.
        leader: String,
    },
    /// The kernel does not hand an event on to children: one that is a probe by path or, before
    /// 6.13, one whose samples hold the values of a group.
    NoChildren {
        /// The event.
        event: String,
    },
    /// Tasks of the user that is recorded may not be looked at.
    HiddenTasks {
        /// How many.
        n_tasks: usize,
    },
    /// A program decides for all who record a tracepoint whether they get a sample.
    DecidesForAll {
        /// The program.
        program: String,
        /// `SYSTEM:EVENT`.
        tracepoint: String,
    },
    /// A program of a probe runs as often at each hit as there are tasks and CPUs.
    RunsManyTimes {
        /// The program.
        program: String,
    },
    /// What the filter of a probe drops is not counted.
    FilterUncounted {
        /// The event.
        event: String,
    },
    /// Programs could not be attached again.
    NotAttached {
        /// Why not.
        why: String,
    },
    /// A CPU went offline before its event was open.
    CpuOffline {
        /// The CPU.
        cpu: Cpu,
    },
    /// A CPU that was recorded is offline at the end.
    CpuLeft {
        /// The CPU.
        cpu: Cpu,
    },
    /// The rings are smaller than usual.
    SmallerRings {
        /// How large they were to be, in bytes.
        wanted: usize,
        /// How large they are, in bytes.
        taken: usize,
    },
    /// More samples a second than the kernel allows.
    LowerRate {
        /// What was asked for, in Hz.
        wanted: u64,
        /// What is recorded, in Hz.
        taken: u64,
    },
    /// Kernel addresses are hidden, so the file has no kernel map.
    NoKernelMap,
    /// What is known of BPF programs may not be asked for.
    NoPrograms {
        /// The refusal.
        why: String,
    },
    /// Programs that are loaded meanwhile are named, but nothing else is known of them.
    NoSideband {
        /// The refusal.
        why: String,
    },
    /// The kernel does not count the runs of BPF programs for us.
    NoRuns {
        /// The refusal.
        why: String,
    },
    /// What was summed of time off the CPU could not be read.
    NoSums {
        /// The refusal.
        why: String,
    },
    /// The formats of the tracepoints could not be read, so their raw data has no meaning.
    NoFormats {
        /// The refusal.
        why: String,
    },
    /// A line of whoever commands the recorder is no command; further ones are not told.
    NoCommand {
        /// The line.
        line: String,
    },
    /// A command is about an event that is not recorded.
    NoSuchEvent {
        /// Its name.
        name: String,
    },
    /// What is recorded, as a command asked to be told.
    Events {
        /// What of it.
        told: Told,
        /// The events, in their order.
        events: Vec<RecordedEvent>,
    },
}

/// An event of a recording under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedEvent {
    /// Its name.
    pub name: String,
    /// How it was opened.
    pub attr: Attr,
    /// Its place in a group.
    pub place: Place,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Part { path, bytes, samples, lost, filtered: _ } => write!(
                f,
                "`{}` has {bytes} bytes, {samples} samples, {lost} records lost",
                path.display()
            ),
            Self::Instead { wanted, taken } => {
                write!(f, "this machine does not count `{wanted}`; recording `{taken}` instead")
            }
            Self::UserOnly { event } => {
                write!(
                    f,
                    "the kernel may not be sampled; recording user space alone, `{event}`, without BPF programs"
                )
            }
            Self::OnlyOwnPrograms => f.write_str(
                "other tasks may not be watched; BPF programs that they load have no name",
            ),
            Self::Ungrouped { leader } => write!(
                f,
                "the group of `{leader}` cannot be opened together; its events are recorded one by one"
            ),
            Self::NoChildren { event } => write!(
                f,
                "the kernel hands `{event}` to no child; what the tasks start is not sampled by it"
            ),
            Self::DecidesForAll { program, tracepoint } => write!(
                f,
                "`{program}` decides for every recorder of `{tracepoint}`: where it returns 0, \
                 nobody gets the sample"
            ),
            Self::RunsManyTimes { program } => write!(
                f,
                "`{program}` runs at each hit for each task and CPU that is watched; what it counts \
                 and hands over comes as many times; with `--per-thread` it runs once"
            ),
            Self::FilterUncounted { event } => {
                write!(f, "what the filter of `{event}` drops is not counted, since it is a probe")
            }
            Self::NotAttached { why } => {
                write!(f, "programs do not run any more, and their samples are missing: {why}")
            }
            Self::HiddenTasks { n_tasks } => {
                write!(f, "tasks of the user that may not be watched are left out: {n_tasks}")
            }
            Self::CpuOffline { cpu } => write!(f, "CPU {cpu} is offline and left out"),
            Self::CpuLeft { cpu } => {
                write!(f, "CPU {cpu} went offline, and what ran there from then on is not recorded")
            }
            Self::SmallerRings { wanted, taken } => write!(
                f,
                "rings of {wanted} bytes each exceed what may be locked; using {taken} bytes"
            ),
            Self::LowerRate { wanted, taken } => write!(
                f,
                "the kernel samples at most {taken} times a second now; {wanted} were asked for"
            ),
            Self::NoKernelMap => {
                f.write_str("kernel addresses are hidden; the kernel's samples have no names")
            }
            Self::NoPrograms { why } => {
                write!(
                    f,
                    "BPF programs that were loaded before have no name, and of later ones the \
                     name alone is kept: {why}"
                )
            }
            Self::NoSideband { why } => {
                write!(f, "of BPF programs that are loaded meanwhile only names are kept: {why}")
            }
            Self::NoRuns { why } => write!(f, "runs of BPF programs are not counted: {why}"),
            Self::NoFormats { why } => {
                write!(f, "the fields of tracepoints cannot be told apart: {why}")
            }
            Self::NoSums { why } => {
                write!(f, "short times off the CPU are not in the recording: {why}")
            }
            Self::NoCommand { line } => write!(f, "`{}` is no command", line.escape_default()),
            Self::NoSuchEvent { name } => {
                write!(f, "no event `{}` is recorded", name.escape_default())
            }
            Self::Events { told: _, events } => {
                let names: Vec<&str> = events.iter().map(|it| &*it.name).collect();
                f.write_str(&names.join(", "))
            }
        }
    }
}
