//! The program that measures time off the CPU, `bpf/off_cpu.bpf.c`, in the kernel.
//!
//! In comes a [`Setup`], out come messages through the events that it is given, and sums when somebody
//! asks. All of it is gone with the process that holds it: nothing is pinned.

mod facts;
mod hooks;
mod message;
mod stacks;

pub use hooks::OwnFrames;
pub use message::Key;
pub use message::OffCpuMessage;
pub use message::Sum;
pub use stacks::Stacks;

use std::fs::File;
use std::io;
use std::io::Read as _;
use std::mem::MaybeUninit;
use std::os::fd::AsFd as _;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;

use libbpf_rs::Iter;
use libbpf_rs::Link;
use libbpf_rs::MapCore as _;
use libbpf_rs::MapFlags;
use libbpf_rs::MapHandle;
use libbpf_rs::ProgramInput;
use libbpf_rs::ProgramMut;
use libbpf_rs::btf::Btf;
use libbpf_rs::skel::OpenSkel as _;
use libbpf_rs::skel::SkelBuilder as _;

use super::knows_all_ids;
use super::objects;
use super::objects::Log;
use super::objects::heard;
use crate::sys::perf_event::EventFd;
use crate::units::Cpu;
use crate::units::Pid;
use crate::units::Tid;
use crate::units::UserId;

use facts::Facts;
use skel::OffCpuSkel;
use skel::OffCpuSkelBuilder;
use skel::OpenOffCpuSkel;

mod skel {
    #![expect(
        unsafe_code,
        unreachable_pub,
        unused_qualifications,
        clippy::allow_attributes_without_reason,
        clippy::multiple_unsafe_ops_per_block,
        clippy::panic,
        clippy::pedantic,
        clippy::undocumented_unsafe_blocks,
        clippy::unwrap_used,
        reason = "libbpf-cargo generates it"
    )]
    include!(concat!(env!("OUT_DIR"), "/off_cpu.skel.rs"));
}

/// What the program is to do.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Whom it is about.
    pub whom: Whom,
    /// Only of who leaves one of these CPUs; `None` for all.
    pub cpus: Option<Vec<Cpu>>,
    /// Only of who is in one of these folders' cgroups, or below; none for all.
    pub cgroups: Vec<PathBuf>,
    /// Whether stacks of the kernel are taken, and of user space.
    pub halves: Halves,
    /// The most frames of either, `kernel.perf_event_max_stack` at the most.
    pub max_frames: u16,
    /// Whether to say in which cgroup it was.
    pub cgroup_ids: CgroupIds,
    /// How long a sleep is that has a message of its own, in nanoseconds.
    pub threshold_ns: u64,
    /// Which hooks are taken.
    pub hooks: Hooks,
}

/// Whom it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whom {
    /// Every task but kernel threads.
    All,
    /// These processes, and what they start.
    Processes(Vec<Pid>),
    /// These threads.
    Threads(Vec<Tid>),
    /// Whoever runs as this user.
    User(UserId),
}

/// Which halves of stacks are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Halves {
    /// The kernel's.
    pub kernel: bool,
    /// That of user space.
    pub user: bool,
}

/// Whether the cgroup is noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupIds {
    /// Note it.
    Yes,
    /// Leave it.
    No,
}

/// Which hooks are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hooks {
    /// `tp_btf`, or raw tracepoints where that is refused.
    Best,
    /// Raw tracepoints, as on kernels before 5.11.
    Raw,
}

/// The most cgroups: `MAX_CGROUPS` in `bpf/off_cpu.bpf.c`.
pub const MAX_CGROUPS: usize = 16;

/// What `watch` is set to in `bpf/off_cpu.bpf.c`.
const WATCH_ALL: u32 = 0;
const WATCH_PROCESSES: u32 = 1;
const WATCH_THREADS: u32 = 2;
const WATCH_USER: u32 = 3;

/// `MAX_FRAMES` there.
const MAX_FRAMES: u16 = 127;

/// How many sums there is room for: of `sums` there.
pub const MAX_SUMS: u64 = 65536;

/// How many stacks of the second map there is room for where every process may be watched: in each of
/// them addresses are others.
const MANY_STACKS: u32 = 65536;

/// Why time off the CPU cannot be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel has no types, which say where its structures have their fields.
    #[error("this kernel has no type information (`/sys/kernel/btf/vmlinux`)")]
    NoTypes,
    /// Tasks have other ids here than programs know them by.
    #[error("in a container, BPF programs know its processes by other numbers")]
    Container,
    /// Whoever asks may not load programs.
    #[error("loading BPF programs is not allowed")]
    Denied,
    /// The kernel or the library refuses the program.
    #[error("the program is refused: {0}")]
    Load(Log),
    /// The kernel refuses one of its hooks.
    #[error("the hook `{hook}` is refused: {source}")]
    Attach {
        /// The hook.
        hook: String,
        /// What the library says.
        source: libbpf_rs::Error,
    },
    /// A cgroup is not one of version 2, which programs know alone.
    #[error("`{}` is no cgroup of version 2", path.display())]
    Cgroup {
        /// The folder.
        path: PathBuf,
        /// What the kernel says.
        #[source]
        source: io::Error,
    },
    /// There are more cgroups than the program takes.
    #[error("{n} cgroups are more than {MAX_CGROUPS}")]
    Cgroups {
        /// How many there are.
        n: usize,
    },
    /// A map could not be filled or read.
    #[error("the map `{map}` is refused: {source}")]
    Map {
        /// The map.
        map: &'static str,
        /// What the library says.
        source: libbpf_rs::Error,
    },
}

/// What the program could not keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Sleeps that no map had room for.
    pub n_unsummed: u64,
    /// How long they were, in nanoseconds.
    pub unsummed_ns: u64,
    /// Sleeps that there was no storage for.
    pub n_unnoted: u64,
    /// Sleeps of which it was not seen that they ended: what is known of these is how long it was to
    /// their wake-up.
    pub n_unseen: u64,
    /// Stacks that no map had room for.
    pub n_stackless: u64,
    /// Processes that are not followed.
    pub n_unfollowed: u64,
}

/// The program in the kernel, as long as this is there.
pub struct OffCpu {
    skel: OffCpuSkel<'static>,
    is_raw: bool,
    links: Vec<Link>,
    /// Sums that were taken out.
    n_taken: u64,
}

impl std::fmt::Debug for OffCpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OffCpu").field("is_raw", &self.is_raw).finish_non_exhaustive()
    }
}

impl OffCpu {
    /// Loads the program and attaches it; it does nothing until it is turned on.
    ///
    /// # Errors
    ///
    /// [`Error`]; then nothing of it is in the kernel.
    pub fn load(setup: &Setup) -> Result<Self, Error> {
        if !knows_all_ids() {
            return Err(Error::Container);
        }
        let facts = Btf::from_vmlinux().map_err(|_| Error::NoTypes)?;
        let facts = Facts::of(&facts);
        if setup.hooks == Hooks::Best {
            match Self::load_on(setup, facts, Hooks::Best) {
                Err(error @ (Error::Load(_) | Error::Attach { .. })) => {
                    tracing::debug!(%error, "raw tracepoints instead");
                }
                done => return done,
            }
        }
        Self::load_on(setup, facts, Hooks::Raw)
    }

    fn load_on(setup: &Setup, facts: Facts, hooks: Hooks) -> Result<Self, Error> {
        let is_raw = hooks == Hooks::Raw;
        // Of the few bytes that hold the object, and not of the object.
        let place = Box::leak(Box::new(MaybeUninit::uninit()));
        let (open, log) = heard(|| OffCpuSkelBuilder::default().open(place));
        let mut open = open.map_err(|error| refused(&error, log))?;
        set_up(&mut open, setup, facts, is_raw)
            .map_err(|source| Error::Map { map: "constants", source })?;
        let (skel, log) = heard(|| open.load());
        let skel = skel.map_err(|error| refused(&error, log))?;
        let mut this = Self { skel, is_raw, links: Vec::new(), n_taken: 0 };
        this.fill(setup)?;
        this.attach()?;
        Ok(this)
    }

    /// Says whom it is about, as far as maps say it.
    fn fill(&self, setup: &Setup) -> Result<(), Error> {
        let maps = &self.skel.maps;
        let put = |map: &'static str, to: &dyn Fn(&[u8]) -> libbpf_rs::Result<()>, ids: &[u32]| {
            let mut ids = ids.iter();
            let failed = ids.find_map(|id| to(&id.to_ne_bytes()).err());
            failed.map_or(Ok(()), |source| Err(Error::Map { map, source }))
        };
        let watched = |key: &[u8]| maps.watched.update(key, &[1], MapFlags::ANY);
        let ids: Vec<u32> = match &setup.whom {
            Whom::All | Whom::User(_) => Vec::new(),
            Whom::Processes(pids) => pids.iter().map(|it| it.0.cast_unsigned()).collect(),
            Whom::Threads(tids) => tids.iter().map(|it| it.0.cast_unsigned()).collect(),
        };
        put("watched", &watched, &ids)?;
        let watched_cpus = |key: &[u8]| maps.watched_cpus.update(key, &[1], MapFlags::ANY);
        let cpus: Vec<u32> = setup.cpus.iter().flatten().map(|it| it.0).collect();
        put("watched_cpus", &watched_cpus, &cpus)?;
        if MAX_CGROUPS < setup.cgroups.len() {
            return Err(Error::Cgroups { n: setup.cgroups.len() });
        }
        for (at, path) in (0_u32..).zip(&setup.cgroups) {
            let failed = |source| Error::Cgroup { path: path.clone(), source };
            let folder = File::open(path).map_err(failed)?;
            let fd = folder.as_fd().as_raw_fd().to_ne_bytes();
            let put = maps.watched_cgroups.update(&at.to_ne_bytes(), &fd, MapFlags::ANY);
            put.map_err(|error| failed(io::Error::other(error)))?;
        }
        Ok(())
    }

    fn attach(&mut self) -> Result<(), Error> {
        let progs = &mut self.skel.progs;
        let all = if self.is_raw {
            [
                &mut progs.off_cpu_switch_raw,
                &mut progs.off_cpu_waking_raw,
                &mut progs.off_cpu_newtask_raw,
                &mut progs.off_cpu_exit_raw,
            ]
        } else {
            [
                &mut progs.off_cpu_switch,
                &mut progs.off_cpu_waking,
                &mut progs.off_cpu_newtask,
                &mut progs.off_cpu_exit,
            ]
        };
        for program in all.into_iter().filter(|it| it.autoload()) {
            self.links.push(attach(program)?);
        }
        Ok(())
    }

    /// Lets messages of `cpu` come through `event`.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] with what the kernel says.
    pub fn send(&self, cpu: Cpu, event: &EventFd) -> Result<(), Error> {
        let fd = event.as_fd().as_raw_fd().to_ne_bytes();
        let put = self.skel.maps.output.update(&cpu.0.to_ne_bytes(), &fd, MapFlags::ANY);
        put.map_err(|source| Error::Map { map: "output", source })
    }

    /// Measures from `now` on, in nanoseconds of `CLOCK_MONOTONIC`. Of a sleep that is under way counts what
    /// comes, if it began while this was on; else it is left out.
    pub fn turn_on(&mut self, now: u64) {
        if let Some(bss) = &mut self.skel.maps.bss_data {
            bss.last_on = now;
            bss.on_since = now;
        }
    }

    /// Measures no more.
    pub fn turn_off(&mut self) {
        if let Some(bss) = &mut self.skel.maps.bss_data {
            bss.on_since = 0;
        }
    }

    /// Whether it measures.
    pub fn is_on(&self) -> bool {
        self.skel.maps.bss_data.as_ref().is_some_and(|it| it.on_since != 0)
    }

    /// Sends a message of no task, which comes with the time of this moment; whether it did.
    pub fn mark(&self) -> bool {
        let run = self.skel.progs.off_cpu_mark.test_run(ProgramInput::default());
        run.is_ok_and(|it| it.return_value == 0)
    }

    /// The stacks that messages and sums have numbers of.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] where there are no descriptors left.
    pub fn stacks(&self) -> Result<Stacks, Error> {
        let failed = |source| Error::Map { map: "stacks", source };
        let first = MapHandle::try_from(&self.skel.maps.stacks).map_err(failed)?;
        let more = MapHandle::try_from(&self.skel.maps.more_stacks).map_err(failed)?;
        Ok(Stacks::new(first, more))
    }

    /// All sums, of the whole time that it measured.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] with what the kernel says.
    pub fn sums(&self) -> Result<Vec<OffCpuMessage>, Error> {
        let failed = |source| Error::Map { map: "sums", source };
        let map = &self.skel.maps.sums;
        let mut sums = Vec::new();
        for key in map.keys() {
            // Nobody takes one away while they are read.
            let Some(sum) = map.lookup(&key, MapFlags::ANY).map_err(failed)? else { continue };
            let (key, sum) = (Key::decode(&key), Sum::decode(&sum));
            sums.extend(key.zip(sum).map(|(key, sum)| OffCpuMessage { key, sum }));
        }
        Ok(sums)
    }

    /// How many sums there are, of [`MAX_SUMS`] at the most.
    pub fn n_sums(&self) -> u64 {
        let begun = self.skel.maps.bss_data.as_ref().map_or(0, |it| it.n_sums);
        begun.saturating_sub(self.n_taken)
    }

    /// Takes all sums out, so that there is room for others. What is added to one in the very moment that it
    /// is taken out is not in it.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] with what the kernel says, which can do it since Linux 5.14; then all are where they
    /// were.
    pub fn take_out(&mut self) -> Result<Vec<OffCpuMessage>, Error> {
        let map = &self.skel.maps.sums;
        let keys: Vec<_> = map.keys().collect();
        let mut sums = Vec::with_capacity(keys.len());
        for key in keys {
            let sum = match map.lookup_and_delete(&key) {
                Ok(Some(sum)) => sum,
                Ok(None) => continue,
                Err(source) if sums.is_empty() => {
                    return Err(Error::Map { map: "sums", source });
                }
                // Those that are out are nowhere else.
                Err(_) => break,
            };
            self.n_taken += 1;
            let (key, sum) = (Key::decode(&key), Sum::decode(&sum));
            sums.extend(key.zip(sum).map(|(key, sum)| OffCpuMessage { key, sum }));
        }
        Ok(sums)
    }

    /// Those who are off the CPU as of now and left while it was on; from now on they are counted anew.
    /// None where the kernel cannot be asked.
    ///
    /// # Errors
    ///
    /// [`Error::Attach`] with what the library says.
    pub fn asleep(&self) -> Result<Vec<OffCpuMessage>, Error> {
        let program = &self.skel.progs.off_cpu_asleep;
        if !program.autoload() {
            return Ok(Vec::new());
        }
        let failed = |source| Error::Attach { hook: "iter/task".to_owned(), source };
        let link = program.attach().map_err(failed)?;
        let mut iter = Iter::new(&link).map_err(failed)?;
        let mut bytes = Vec::new();
        iter.read_to_end(&mut bytes).map_err(|error| failed(error.into()))?;
        let messages = bytes.chunks_exact(OffCpuMessage::LEN);
        Ok(messages.filter_map(OffCpuMessage::decode).collect())
    }

    /// What was not kept so far.
    pub fn losses(&self) -> Losses {
        let Some(bss) = &self.skel.maps.bss_data else { return Losses::default() };
        Losses {
            n_unsummed: bss.n_unsummed,
            unsummed_ns: bss.unsummed_ns,
            n_unnoted: bss.n_unnoted,
            n_unseen: bss.n_unseen,
            n_stackless: bss.n_stackless,
            n_unfollowed: bss.n_unfollowed,
        }
    }
}

/// Chooses the programs, and sets the constants and the sizes of maps.
fn set_up(
    open: &mut OpenOffCpuSkel<'static>,
    setup: &Setup,
    facts: Facts,
    is_raw: bool,
) -> libbpf_rs::Result<()> {
    let follows = matches!(setup.whom, Whom::Processes(_));
    let is_named = follows || matches!(setup.whom, Whom::Threads(_));
    let progs = &mut open.progs;
    progs.off_cpu_switch.set_autoload(!is_raw);
    progs.off_cpu_waking.set_autoload(!is_raw);
    progs.off_cpu_newtask.set_autoload(!is_raw && follows);
    progs.off_cpu_exit.set_autoload(!is_raw && is_named);
    progs.off_cpu_asleep.set_autoload(!is_raw && facts.has_task_iterator);
    progs.off_cpu_mark.set_autoload(true);
    progs.off_cpu_switch_raw.set_autoload(is_raw);
    progs.off_cpu_waking_raw.set_autoload(is_raw);
    progs.off_cpu_newtask_raw.set_autoload(is_raw && follows);
    progs.off_cpu_exit_raw.set_autoload(is_raw);
    let maps = &mut open.maps;
    maps.sleeps.set_autocreate(!is_raw)?;
    maps.sleeps_by_tid.set_autocreate(is_raw)?;
    let max_frames = setup.max_frames.clamp(1, MAX_FRAMES);
    maps.stacks.set_value_size(u32::from(max_frames) * 8)?;
    maps.more_stacks.set_value_size(u32::from(max_frames) * 8)?;
    if !is_named {
        maps.more_stacks.set_max_entries(MANY_STACKS)?;
    }
    let Some(constants) = maps.rodata_data.as_deref_mut() else { return Ok(()) };
    (constants.watch, constants.watched_uid) = match setup.whom {
        Whom::All => (WATCH_ALL, 0),
        Whom::Processes(_) => (WATCH_PROCESSES, 0),
        Whom::Threads(_) => (WATCH_THREADS, 0),
        Whom::User(UserId(uid)) => (WATCH_USER, uid),
    };
    constants.has_cpus = u32::from(setup.cpus.is_some());
    constants.n_cgroups = u32::try_from(setup.cgroups.len()).unwrap_or(u32::MAX);
    constants.has_prev_state = u32::from(facts.has_prev_state);
    constants.takes_kernel_stack = u32::from(setup.halves.kernel);
    constants.takes_user_stack = u32::from(setup.halves.user);
    constants.takes_cgroup = u32::from(setup.cgroup_ids == CgroupIds::Yes);
    constants.threshold_ns = setup.threshold_ns;
    constants.preempt_count_at = facts.preempt_count_at.unwrap_or(0);
    Ok(())
}

fn attach(program: &mut ProgramMut<'_>) -> Result<Link, Error> {
    let hook = program.section().to_string_lossy().into_owned();
    let (link, _) = heard(|| program.attach());
    link.map_err(|source| Error::Attach { hook, source })
}

/// Why a load failed, out of what the library said.
fn refused(error: &libbpf_rs::Error, log: Log) -> Error {
    match objects::refused(error, log, |_| String::new()) {
        objects::Error::Denied | objects::Error::Refused { .. } => Error::Denied,
        objects::Error::Verifier { log, .. } | objects::Error::Load(log) => Error::Load(log),
        other => Error::Load(Log { lines: vec![other.to_string()] }),
    }
}
