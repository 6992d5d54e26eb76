//! What would help, on this machine: the only place that knows flags and settings by name.

use std::io;
use std::path::Path;

use nix::errno::Errno;

use crate::bpf::filter;
use crate::bpf::objects;
use crate::bpf::off_cpu;
use crate::bpf::source;
use crate::events;
use crate::host::privilege::Capability;
use crate::host::privilege::Privilege;
use crate::host::settings::Settings;
use crate::perfdata::SampleType;
use crate::sys::bpf_load::NotLoaded;
use crate::sys::perf_event::OpenError;
use crate::sys::perf_event::Remedy;
use crate::sys::perf_event::Target;

use super::doctor;

/// What of the machine advice depends on, beside its settings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Means {
    /// Whether the hardware counts cycles.
    counts_cycles: bool,
    /// Whether functions of the kernel can be probed.
    has_kprobes: bool,
}

impl Means {
    /// Asks the machine.
    pub(super) fn look() -> Self {
        // Where the kernel denies it, the hardware may be there.
        let is_absent =
            matches!(doctor::cycles(), Err(Errno::ENOENT | Errno::ENODEV | Errno::EOPNOTSUPP));
        Self { counts_cycles: !is_absent, has_kprobes: doctor::has_pmu("kprobe") }
    }

    /// The event that stands in for `event` where this machine does not count it.
    fn stand_in(self, event: &str) -> &str {
        let is_it = |it: &events::Known| it.name == event || it.aliases.contains(&event);
        let known = events::known().into_iter().find(is_it);
        match known {
            Some(it) if it.attr.kind != events::KIND_SOFTWARE && !self.counts_cycles => "cpu-clock",
            _ => event,
        }
    }
}

/// What to do about an event list that was not understood, if there is something.
pub(super) fn on_events(error: &events::Error, means: Means) -> Option<String> {
    let is_kprobe =
        |name: &str| ["kprobe:", "kretprobe:", "probe:"].iter().any(|it| name.starts_with(it));
    if let events::Error::UnknownEvent { name, .. } = error
        && is_kprobe(name)
    {
        return Some(if means.has_kprobes {
            "a function of the kernel is probed once `perf probe NAME` has made the event \
             `probe:NAME`"
                .to_owned()
        } else {
            "this kernel is built without `CONFIG_KPROBE_EVENTS`, so no function of it can be \
             probed; `bpfperf list` tells what there is"
                .to_owned()
        });
    }
    if let Some(nearest) = error.nearest() {
        return Some(format!("the nearest name is `{nearest}`"));
    }
    let is_object = |event: &str| matches!(event.rsplit('.').next(), Some("o" | "c"));
    match error {
        events::Error::UnknownTerm { term, event, .. } if is_object(event) => {
            Some(format!("a variable of a program is set by `vars.{term}=VALUE`"))
        }
        events::Error::NoPrograms { .. } => Some(
            "a program is a function in a section that says where it runs, as \
             `SEC(\"raw_tp/sys_enter\")`"
                .to_owned(),
        ),
        events::Error::Tracepoint { source, .. } if is_denied(source) => {
            Some("tracefs is for root alone on this machine; run as root".to_owned())
        }
        events::Error::Object { source, .. } => match source.downcast_ref() {
            Some(error) => on_source(error),
            None => on_object(source.downcast_ref()?),
        },
        events::Error::UnknownProgram { known, .. } => Some(format!("it has {}", quoted(known))),
        events::Error::UnknownSection { .. } => Some(format!(
            "choose programs by name, as `FILE:PROGRAM`; programs in {} can be events",
            events::object::KNOWN_SECTIONS
        )),
        events::Error::NoHook { hook, .. } if hook == "kprobes" => Some(
            "it is built without `CONFIG_KPROBE_EVENTS`; tracepoints, uprobes and raw tracepoints \
             may do: `bpfperf list`"
                .to_owned(),
        ),
        events::Error::UnknownEvent { .. } | events::Error::NoHook { .. } => {
            Some("`bpfperf list` tells what there is".to_owned())
        }
        _ => None,
    }
}

/// The first of `names` in quotes, with commas between.
pub(super) fn quoted(names: &[String]) -> String {
    const MOST: usize = 12;
    let shown: Vec<String> = names.iter().take(MOST).map(|it| format!("`{it}`")).collect();
    match names.len().saturating_sub(MOST) {
        0 if shown.is_empty() => "none".to_owned(),
        0 => shown.join(", "),
        n_left => format!("{} and {n_left} more", shown.join(", ")),
    }
}

/// What to do about an object that cannot be loaded, if there is something.
pub(super) fn on_object(error: &objects::Error) -> Option<String> {
    match error {
        objects::Error::UnknownVariable { known, .. }
        | objects::Error::UnknownMap { known, .. } => Some(format!("it has {}", quoted(known))),
        objects::Error::NotElf => {
            Some("compile the source with `clang -target bpf -O2 -g -c`".to_owned())
        }
        objects::Error::ByteOrder { .. } => {
            Some("compile it for this machine, with `clang -target bpf`".to_owned())
        }
        objects::Error::Refused { section, .. } if Privilege::own().has(Capability::BPF) => {
            let kind = section.split('/').next().unwrap_or(section);
            Some(format!(
                "you have the privilege, so this kernel itself refuses `{kind}`; a program on a \
                 tracepoint, `raw_tp/..` or `tp_btf/..` may do"
            ))
        }
        objects::Error::Refused { .. } | objects::Error::Denied => {
            Some("it takes root, or `CAP_BPF` and `CAP_PERFMON`".to_owned())
        }
        objects::Error::Verifier { log, .. } if log.n_hidden() != 0 => {
            Some(format!("`-v` shows all {} lines of the verifier's log", log.lines.len()))
        }
        objects::Error::Load(log) if log.has("kernel BTF type ID") => Some(
            "this kernel has no event or function of that name; `bpfperf list` tells its \
             tracepoints"
                .to_owned(),
        ),
        objects::Error::Untyped { .. } => Some("compile it with `-g`".to_owned()),
        objects::Error::Attach { section, .. } => {
            on_hook(section, Path::new("/sys/bus/event_source/devices/kprobe").exists())
        }
        _ => None,
    }
}

/// What to do about a program that cannot be attached to what `section` names, if there is something.
fn on_hook(section: &str, has_kprobes: bool) -> Option<String> {
    match section.split('/').next()? {
        "ksyscall" | "kretsyscall" if !has_kprobes => Some(
            "this kernel has no kprobes; `tracepoint/syscalls/sys_enter_NAME` and `sys_exit_NAME` \
             may do"
                .to_owned(),
        ),
        "raw_tp" | "raw_tracepoint" => {
            Some("`bpfperf list tracepoint` tells what there is, by the name behind `:`".to_owned())
        }
        _ => None,
    }
}

/// What to do where time off the CPU cannot be measured, if there is something.
pub(super) fn on_off_cpu(error: &off_cpu::Error) -> Option<String> {
    match error {
        off_cpu::Error::Container => Some(
            "run it outside, or in a container that shares the processes of its host \
             (`--pid=host`)"
                .to_owned(),
        ),
        off_cpu::Error::Denied => Some("it takes root, or `CAP_BPF` and `CAP_PERFMON`".to_owned()),
        off_cpu::Error::NoTypes | off_cpu::Error::Load(_) | off_cpu::Error::Attach { .. } => Some(
            "`-e sched:sched_switch -g` records each switch, from which times can be told"
                .to_owned(),
        ),
        off_cpu::Error::Cgroup { .. } => {
            Some("cgroups of version 2 are below the `cgroup2` of `/proc/mounts`".to_owned())
        }
        _ => None,
    }
}

/// What to do about a source that is no object, if there is something.
fn on_source(error: &source::Error) -> Option<String> {
    match error {
        source::Error::NoClang { name } if name != "clang" => {
            Some("`--clang-path` names another one; without it, `PATH` is searched".to_owned())
        }
        source::Error::NoClang { .. } => {
            let install = if Path::new("/etc/debian_version").exists() {
                "`apt install clang`"
            } else {
                "install clang"
            };
            Some(format!(
                "{install}; or compile it elsewhere: an object, `NAME.bpf.o`, is taken as it is"
            ))
        }
        source::Error::Compile { messages, .. } if lacks_header(messages) => Some(
            "`vmlinux.h`, `bpfperf.h` and libbpf's `bpf/bpf_helpers.h` and its like are always \
             there; folders of others are named by `--clang-opt=-IFOLDER`"
                .to_owned(),
        ),
        source::Error::NoTypes(_) => Some(
            "lay a `vmlinux.h` beside it, or include `bpfperf.h`, which has the most usual types"
                .to_owned(),
        ),
        _ => None,
    }
}

/// Whether a compiler says that a header is not there.
fn lacks_header(messages: &str) -> bool {
    messages.lines().any(|it| it.contains("fatal error: ") && it.ends_with(" file not found"))
}

/// Where to give cgroups: events are of a cgroup on CPUs alone.
pub(super) fn on_cgroups() -> &'static str {
    "add `-a`, or `-C` with a list of CPUs"
}

/// What latency can be recorded of.
pub(super) fn on_latency() -> &'static str {
    "leave `-a` and `-C` out, and name a command or, by `-p`, processes"
}

fn is_denied(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

/// What to do about an event that could not be opened, if there is something.
pub(super) fn on_open(error: &OpenError, settings: &Settings, means: Means) -> Option<String> {
    let event = error.event.split(':').next().unwrap_or_default();
    match error.remedy {
        Some(Remedy::Without(field)) => return Some(without(&error.event, field)),
        Some(Remedy::OnCpus) => {
            return Some(format!("`{}` counts for whole CPUs alone; add `-a`", error.event));
        }
        Some(Remedy::OnSteadyClock) => {
            return Some(format!(
                "the kernel reads that clock for software events alone; record `{}` with \
                 `-k monotonic` or `-k monotonic_raw`",
                error.event
            ));
        }
        None => {}
    }
    match error.errno {
        Errno::EACCES | Errno::EPERM => on_denied(error, settings.perf_event_paranoid?, means),
        Errno::ENOENT | Errno::EOPNOTSUPP | Errno::ENODEV => Some(format!(
            "this machine does not count `{event}`, as is usual in a VM; \
             try the software clock, `-e cpu-clock`"
        )),
        Errno::EMFILE => Some(
            "more files are open than this process may have; raise the hard limit of \
             `ulimit -n`, or record fewer threads or events"
                .to_owned(),
        ),
        Errno::EINVAL if error.event.contains(":p") => {
            Some(format!("the hardware may be less precise; try `-e {event}`"))
        }
        _ => None,
    }
}

/// That the event can be had without `field`, which was tried.
fn without(event: &str, field: SampleType) -> String {
    let options = [
        (SampleType::BRANCH_STACK, "branches", "`-b`, `-j` and `--call-graph lbr`"),
        (SampleType::REGS_INTR, "registers at the interrupt", "`-I`"),
        (SampleType::STACK_USER, "copies of the stack", "`--call-graph dwarf`"),
        (SampleType::REGS_USER, "registers of user space", "`--user-regs`"),
        (SampleType::WEIGHT_STRUCT, "weights", "`-W`"),
        (SampleType::WEIGHT, "weights", "`-W`"),
        (SampleType::PHYS_ADDR, "physical addresses", "`--phys-data`"),
        (SampleType::DATA_PAGE_SIZE, "page sizes of data", "`--data-page-size`"),
        (SampleType::CODE_PAGE_SIZE, "page sizes of code", "`--code-page-size`"),
        (SampleType::CGROUP, "cgroups", "`--all-cgroups`"),
        (SampleType::DATA_SRC, "sources of data", "`-d` and `--sample-mem-info`"),
    ];
    let found = options.iter().find(|it| it.0 == field);
    let (what, options) = found.map_or(("data addresses", "`-d`"), |it| (it.1, it.2));
    format!("this machine gives no {what} with `{event}`; leave out {options}")
}

fn on_denied(error: &OpenError, level: i64, means: Means) -> Option<String> {
    let event = means.stand_in(error.event.split(':').next().unwrap_or_default());
    let is_cpu = matches!(error.target, Target::Cpu(_));
    let modifiers = error.event.rsplit(':').next().filter(|it| *it != error.event);
    if error.event.starts_with("uprobe:") {
        return Some("probes need CAP_PERFMON; run as root".to_owned());
    }
    if level <= 2 && !is_cpu && modifiers.is_some_and(|it| it.contains('u')) {
        // Its own user space is everyone's to sample.
        return Some("the process belongs to another user; run as root".to_owned());
    }
    match level {
        // Anyone may; something else, such as a seccomp filter, said no.
        ..=1 if level < 1 || !is_cpu => None,
        1 | 2 if is_cpu => Some(format!(
            "`kernel.perf_event_paranoid` is {level}, so sampling a CPU needs CAP_PERFMON; \
             run as root, or record one process with `-p PID -e {event}:u`"
        )),
        2 => Some(format!(
            "`kernel.perf_event_paranoid` is 2, so sampling the kernel needs CAP_PERFMON; \
             run as root, or record user space with `-e {event}:u`"
        )),
        // Levels that Debian and Ubuntu add.
        _ => Some(format!(
            "`kernel.perf_event_paranoid` is {level}, so this kernel opens no event without \
             CAP_PERFMON; run as root"
        )),
    }
}

/// What to do about rings that could not be had, if there is something.
pub(super) fn on_rings(
    ring_bytes: usize,
    n_rings: usize,
    errno: Errno,
    settings: &Settings,
) -> Option<String> {
    let asked = ring_bytes / 1024 * n_rings;
    if errno == Errno::ENOMEM {
        return Some(format!("{asked} KiB were asked for; make `-m` smaller, or leave it out"));
    }
    let allowed = settings.perf_event_mlock_kb?;
    Some(format!(
        "{asked} KiB were asked for, and `kernel.perf_event_mlock_kb` allows {allowed} KiB a CPU \
         beside `ulimit -l`; make `-m` smaller, or leave it out"
    ))
}

/// What to do about a filter of samples that could not be had, if there is something.
pub(super) fn on_sample_filter(error: &filter::Error) -> Option<String> {
    match error {
        filter::Error::Lacks { term, needs } => {
            let options = [
                (SampleType::ADDR | SampleType::DATA_SRC, "-d"),
                (SampleType::PHYS_ADDR, "--phys-data"),
                (SampleType::WEIGHT_STRUCT, "-W"),
                (SampleType::TRANSACTION, "--transaction"),
                (SampleType::CODE_PAGE_SIZE, "--code-page-size"),
                (SampleType::DATA_PAGE_SIZE, "--data-page-size"),
                (SampleType::IDENTIFIER, "--sample-identifier"),
            ];
            let option = options.iter().find(|it| it.0.intersects(*needs)).map(|it| it.1);
            Some(match option {
                Some(option) => format!("`{option}` adds `{term}` to the samples"),
                None => "leave `time=0` out of the event's terms".to_owned(),
            })
        }
        filter::Error::Map(source) if !is_denied(source) => None,
        filter::Error::Map(_)
        | filter::Error::NotLoaded(NotLoaded { errno: Errno::EPERM | Errno::EACCES, .. }) => Some(
            "a filter is a BPF program: run as root, or with CAP_BPF and CAP_PERFMON".to_owned(),
        ),
        filter::Error::ProgramsHidden => {
            Some("set `kernel.kptr_restrict` to 0 or 1, and run with CAP_SYSLOG".to_owned())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::units::Cpu;
    use crate::units::Tid;

    use super::*;

    const ALL: Means = Means { counts_cycles: true, has_kprobes: true };
    const NONE: Means = Means { counts_cycles: false, has_kprobes: false };

    #[track_caller]
    fn check(event: &str, target: Target, errno: Errno, level: i64, want: Option<&str>) {
        let error = OpenError { event: event.to_owned(), target, errno, remedy: None };
        let settings = Settings { perf_event_paranoid: Some(level), ..Settings::default() };
        assert_eq!(on_open(&error, &settings, ALL).as_deref(), want);
    }

    const CPU: Target = Target::Cpu(Cpu(3));
    const TASK: Target = Target::TaskOnCpu(Tid(7), Cpu(3));

    #[test]
    fn who_names_a_hook_that_is_not_there_is_told_of_others() {
        let hint = |section, has_kprobes| on_hook(section, has_kprobes).unwrap_or_default();
        assert!(hint("ksyscall/read", false).starts_with("this kernel has no kprobes; "));
        assert_eq!(hint("ksyscall/read", true), "");
        assert!(hint("raw_tp/nothing", true).starts_with("`bpfperf list tracepoint`"));
        assert_eq!(hint("usdt/a:b:c", false), "");
    }

    #[test]
    fn a_cpu_needs_a_capability_below_level_three_and_everything_above() {
        check(
            "cycles:P",
            CPU,
            Errno::EACCES,
            2,
            Some(
                "`kernel.perf_event_paranoid` is 2, so sampling a CPU needs CAP_PERFMON; \
                 run as root, or record one process with `-p PID -e cycles:u`",
            ),
        );
        check(
            "cs",
            TASK,
            Errno::EACCES,
            4,
            Some(
                "`kernel.perf_event_paranoid` is 4, so this kernel opens no event without \
                 CAP_PERFMON; run as root",
            ),
        );
    }

    #[test]
    fn what_is_advised_can_be_counted_here() {
        let advice = |event: &str, target| {
            let (event, errno) = (event.to_owned(), Errno::EACCES);
            let error = OpenError { event, target, errno, remedy: None };
            let settings = Settings { perf_event_paranoid: Some(2), ..Settings::default() };
            on_open(&error, &settings, NONE).unwrap()
        };
        assert!(advice("cycles:P", CPU).ends_with("with `-p PID -e cpu-clock:u`"));
        assert!(advice("cpu-cycles:k", TASK).ends_with("with `-e cpu-clock:u`"));
        assert!(advice("L1-dcache-load-misses", TASK).ends_with("with `-e cpu-clock:u`"));
        assert!(advice("faults", CPU).ends_with("with `-p PID -e faults:u`"));
    }

    #[test]
    fn a_probe_in_the_kernel_is_told_what_it_needs() {
        let unknown = |name: &str| events::Error::UnknownEvent {
            list: name.to_owned(),
            name: name.to_owned(),
            column: 1,
            nearest: None,
        };
        let want = "this kernel is built without `CONFIG_KPROBE_EVENTS`, so no function of it can \
                    be probed; `bpfperf list` tells what there is";
        assert_eq!(on_events(&unknown("kprobe:do_exit"), NONE).as_deref(), Some(want));
        let want = "a function of the kernel is probed once `perf probe NAME` has made the event \
                    `probe:NAME`";
        assert_eq!(on_events(&unknown("probe:do_exit"), ALL).as_deref(), Some(want));
        let want = "`bpfperf list` tells what there is";
        assert_eq!(on_events(&unknown("some:thing"), ALL).as_deref(), Some(want));
    }

    #[test]
    fn the_kernel_may_be_left_out() {
        check(
            "cs:k",
            TASK,
            Errno::EACCES,
            2,
            Some(
                "`kernel.perf_event_paranoid` is 2, so sampling the kernel needs CAP_PERFMON; \
                 run as root, or record user space with `-e cs:u`",
            ),
        );
    }

    #[test]
    fn another_users_process_is_not_the_settings_fault() {
        let want = Some("the process belongs to another user; run as root");
        check("task-clock:pppu", TASK, Errno::EACCES, 2, want);
    }

    #[test]
    fn where_the_setting_is_not_the_reason_it_is_not_blamed() {
        check("cs", CPU, Errno::EPERM, -1, None);
        check("cs", TASK, Errno::EINVAL, 2, None);
    }

    #[test]
    fn what_the_machine_does_not_count_has_a_clock_for_a_stand_in() {
        check(
            "cycles:u",
            TASK,
            Errno::ENOENT,
            -1,
            Some(
                "this machine does not count `cycles`, as is usual in a VM; \
                 try the software clock, `-e cpu-clock`",
            ),
        );
    }

    #[test]
    fn what_was_found_to_help_is_what_is_advised() {
        let advice = |remedy| {
            let (event, errno) = ("cpu-clock".to_owned(), Errno::EOPNOTSUPP);
            let error = OpenError { event, target: TASK, errno, remedy: Some(remedy) };
            on_open(&error, &Settings::default(), ALL).unwrap()
        };
        assert_eq!(
            advice(Remedy::Without(SampleType::BRANCH_STACK)),
            "this machine gives no branches with `cpu-clock`; leave out `-b`, `-j` and \
             `--call-graph lbr`"
        );
        assert_eq!(
            advice(Remedy::OnSteadyClock),
            "the kernel reads that clock for software events alone; record `cpu-clock` with \
             `-k monotonic` or `-k monotonic_raw`"
        );
        assert_eq!(advice(Remedy::OnCpus), "`cpu-clock` counts for whole CPUs alone; add `-a`");
    }
}
