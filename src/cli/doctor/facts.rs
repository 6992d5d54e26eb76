//! What there is to know of this machine and user before anything is recorded.

use std::fs;
use std::path::Path;

use nix::errno::Errno;

use crate::events::HARDWARE_CYCLES;
use crate::events::KIND_HARDWARE;
use crate::events::KIND_SOFTWARE;
use crate::events::KIND_TRACEPOINT;
use crate::events::SOFTWARE_CPU_CLOCK;
use crate::events::SOFTWARE_TASK_CLOCK;
use crate::host::cpus;
use crate::host::privilege;
use crate::host::privilege::Privilege;
use crate::host::settings;
use crate::host::settings::Settings;
use crate::host::tracefs::Tracefs;
use crate::perfdata::Attr;
use crate::perfdata::AttrFlags;
use crate::perfdata::SampleType;
use crate::sys::bpf;
use crate::sys::perf_event::EventFd;
use crate::sys::perf_event::Target;
use crate::sys::probe;
use crate::sys::probe::ProgType;
use crate::units::Cpu;
use crate::units::Tid;

use super::super::message::in_words;

/// What was found; each attempt at something is its outcome.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) settings: Settings,
    pub(super) privilege: Privilege,
    pub(super) container: Option<&'static str>,
    /// What the kernel forbids even to root: `none`, `integrity`, `confidentiality`.
    pub(super) lockdown: Option<String>,
    /// Sampling the user space of a process of one's own, its kernel side, and a CPU.
    pub(super) own_user: Result<(), Errno>,
    pub(super) own_kernel: Result<(), Errno>,
    pub(super) cpu: Result<(), Errno>,
    pub(super) cycles: Result<(), Errno>,
    /// A tracepoint on a CPU, and the text that says what it noted.
    pub(super) tracepoint: Result<(), String>,
    pub(super) has_uprobes: bool,
    pub(super) has_kprobes: bool,
    /// Whether `/proc/kallsyms` shows addresses.
    pub(super) sees_kernel_addresses: bool,
    pub(super) has_jit: bool,
    pub(super) has_btf: bool,
    pub(super) listing: Result<(), Errno>,
    /// Each type of programs that can be an event, by name, and whether one could be loaded.
    pub(super) prog_types: Vec<(&'static str, Result<bool, Errno>)>,
}

impl Facts {
    /// Asks the machine.
    pub(super) fn gather() -> Self {
        let cpu = cpus::online().ok().and_then(|it| it.first().copied()).unwrap_or(Cpu(0));
        let on_cpu = Target::Cpu(cpu);
        let on_self = Target::Task(Tid(0));
        let clock = |config| attr(KIND_SOFTWARE, config);
        Self {
            settings: settings::read(),
            privilege: Privilege::own(),
            container: privilege::container(),
            lockdown: lockdown(),
            own_user: open(&user_only(clock(SOFTWARE_TASK_CLOCK)), on_self),
            own_kernel: open(&clock(SOFTWARE_TASK_CLOCK), on_self),
            cpu: open(&clock(SOFTWARE_CPU_CLOCK), on_cpu),
            cycles: cycles(),
            tracepoint: tracepoint(on_cpu),
            has_uprobes: has_pmu("uprobe"),
            has_kprobes: has_pmu("kprobe"),
            sees_kernel_addresses: sees_kernel_addresses(),
            has_jit: number("/proc/sys/net/core/bpf_jit_enable").is_some_and(|it| it != 0),
            has_btf: Path::new("/sys/kernel/btf/vmlinux").exists(),
            listing: bpf::next_prog_id(0).map(drop),
            prog_types: [
                ("tracepoint", ProgType::TRACEPOINT),
                ("raw_tracepoint", ProgType::RAW_TRACEPOINT),
                ("perf_event", ProgType::PERF_EVENT),
                ("fentry", ProgType::TRACING),
            ]
            .map(|(name, it)| (name, probe::can_load(it)))
            .to_vec(),
        }
    }
}

/// Whether the hardware counts cycles for a process of one's own.
pub(in crate::cli) fn cycles() -> Result<(), Errno> {
    open(&user_only(attr(KIND_HARDWARE, HARDWARE_CYCLES)), Target::Task(Tid(0)))
}

fn user_only(mut attr: Attr) -> Attr {
    attr.flags |= AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
    attr
}

/// An event that would sample now and then, and never begins to.
fn attr(kind: u32, config: u64) -> Attr {
    Attr {
        kind,
        config,
        sample_period: 1_000_000,
        sample_type: SampleType::IP,
        flags: AttrFlags::DISABLED,
        ..Attr::default()
    }
}

fn open(attr: &Attr, target: Target) -> Result<(), Errno> {
    let mut bytes = Vec::new();
    attr.encode(Attr::SIZE_VER0, &mut bytes);
    EventFd::open(&bytes, target).map(drop)
}

fn tracepoint(on_cpu: Target) -> Result<(), String> {
    let id = Tracefs::default().id("sched", "sched_switch").map_err(|error| in_words(&error))?;
    let id = id.ok_or("tracefs knows no `sched:sched_switch`")?;
    open(&attr(KIND_TRACEPOINT, id), on_cpu).map_err(|errno| errno.to_string())
}

/// Whether the kernel has a PMU of this name.
pub(in crate::cli) fn has_pmu(name: &str) -> bool {
    Path::new("/sys/bus/event_source/devices").join(name).exists()
}

fn number(path: &str) -> Option<i64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The word in brackets of `none [integrity] confidentiality`.
fn lockdown() -> Option<String> {
    let text = fs::read_to_string("/sys/kernel/security/lockdown").ok()?;
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

fn sees_kernel_addresses() -> bool {
    use std::io::BufRead as _;
    let Ok(file) = fs::File::open("/proc/kallsyms") else { return false };
    let lines = std::io::BufReader::new(file).lines().map_while(Result::ok);
    // Symbols of per-CPU data lie at 0 and near it; where addresses are hidden all are 0.
    let is_zero = |line: &str| line.bytes().take_while(|it| *it != b' ').all(|it| it == b'0');
    lines.take(64).any(|it| !is_zero(&it))
}
