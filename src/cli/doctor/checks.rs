//! What the facts mean, and the smallest thing that would mend what is missing.

use nix::errno::Errno;
use serde::Serialize;

use crate::host::privilege::Capability;

use super::facts::Facts;

/// One thing that can be recorded, or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    /// What it belongs to.
    pub(super) area: &'static str,
    /// Its name for programs, which stays the same.
    pub(super) name: &'static str,
    /// The same for people.
    pub(super) what: &'static str,
    pub(super) state: State,
    /// Why not, or why not in full.
    pub(super) because: Option<String>,
    /// What would help.
    pub(super) remedy: Option<String>,
}

/// Whether something can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    Yes,
    Partly,
    No,
}

const RECORD: &str = "record";
const BPF: &str = "BPF programs";
const NAMES: &str = "names";

impl Check {
    fn new(area: &'static str, name: &'static str, what: &'static str) -> Self {
        Self { area, name, what, state: State::Yes, because: None, remedy: None }
    }

    fn no(self, because: impl Into<String>, remedy: impl Into<Option<String>>) -> Self {
        Self { state: State::No, because: Some(because.into()), remedy: remedy.into(), ..self }
    }

    fn partly(self, because: impl Into<String>, remedy: impl Into<Option<String>>) -> Self {
        Self { state: State::Partly, ..self.no(because, remedy) }
    }
}

/// All that can be said.
pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    let mut checks = events(facts);
    checks.push(rings(facts));
    checks.extend(programs(facts));
    checks.push(kernel_names(facts));
    checks
}

fn events(facts: &Facts) -> Vec<Check> {
    let check = |name, what, level, outcome: &Result<(), Errno>| {
        let check = Check::new(RECORD, name, what);
        match outcome {
            Ok(()) => check,
            Err(errno) => check.no(errno.to_string(), on_denied(facts, *errno, level)),
        }
    };
    let mut checks = vec![
        check("own_user", "user space of your own processes", 2, &facts.own_user),
        check("own_kernel", "the kernel side of your own processes", 1, &facts.own_kernel),
        check("all_cpus", "all processes, on all CPUs (`-a`)", 0, &facts.cpu),
    ];
    let cycles =
        Check::new(RECORD, "hardware_events", "events that the hardware counts (`cycles`)");
    checks.push(match facts.cycles {
        Ok(()) => cycles,
        Err(errno @ (Errno::ENOENT | Errno::ENODEV | Errno::EOPNOTSUPP)) => cycles.no(
            format!("{errno}: there is no PMU, as is usual in a VM"),
            "`cpu-clock` is recorded instead; a host can pass its PMU on to a VM".to_owned(),
        ),
        Err(errno) => cycles.no(errno.to_string(), on_denied(facts, errno, 2)),
    });
    let tracepoint = Check::new(RECORD, "tracepoints", "tracepoints (`-e sched:sched_switch`)");
    checks.push(match &facts.tracepoint {
        Ok(()) => tracepoint,
        Err(why) => {
            let remedy = "run as root; others need CAP_PERFMON, or `kernel.perf_event_paranoid` \
                          at -1, and tracefs: \
                          `mount -o remount,gid=GROUP,mode=750 /sys/kernel/tracing`";
            tracepoint.no(why.clone(), remedy.to_owned())
        }
    });
    for (name, what, has, option) in [
        ("uprobes", "functions of programs (uprobes)", facts.has_uprobes, "CONFIG_UPROBE_EVENTS"),
        ("kprobes", "functions of the kernel (kprobes)", facts.has_kprobes, "CONFIG_KPROBE_EVENTS"),
    ] {
        let check = Check::new(RECORD, name, what);
        let is_allowed = facts.privilege.has(Capability::PERFMON);
        checks.push(if !has {
            check.no(format!("this kernel is built without `{option}`"), None)
        } else if !is_allowed {
            check.no("they need CAP_PERFMON", "run as root".to_owned())
        } else {
            check
        });
    }
    checks
}

/// What to do where opening an event was denied, which `kernel.perf_event_paranoid` allows up to
/// `wanted`.
fn on_denied(facts: &Facts, errno: Errno, wanted: i64) -> Option<String> {
    if !matches!(errno, Errno::EPERM | Errno::EACCES) {
        return None;
    }
    let has_capability = facts.privilege.has(Capability::PERFMON);
    match facts.settings.perf_event_paranoid {
        Some(level) if wanted < level && !has_capability => Some(format!(
            "`kernel.perf_event_paranoid` is {level}: run as root, or lower it: \
             `sysctl kernel.perf_event_paranoid={wanted}`"
        )),
        _ if facts.privilege.is_filtered => {
            let what = facts.container.map_or_else(
                || "a seccomp filter".to_owned(),
                |it| format!("the seccomp filter of this {it} container"),
            );
            Some(format!(
                "{what} refuses `perf_event_open`: allow it, for example by \
                 `--cap-add PERFMON --security-opt seccomp=unconfined`"
            ))
        }
        _ => None,
    }
}

fn rings(facts: &Facts) -> Check {
    /// What a ring of the default size takes, in KiB.
    const WANTED_KIB: u64 = 512;
    let check = Check::new(RECORD, "rings", "rings of the usual size (`-m`)");
    match facts.settings.perf_event_mlock_kb {
        Some(kib) if kib < WANTED_KIB && !facts.privilege.has(Capability::PERFMON) => check.partly(
            format!("`kernel.perf_event_mlock_kb` allows {kib} KiB a CPU, and 512 are usual"),
            "raise it: `sysctl kernel.perf_event_mlock_kb=516`".to_owned(),
        ),
        _ => check,
    }
}

fn programs(facts: &Facts) -> Vec<Check> {
    let mut checks = Vec::new();
    let listing = Check::new(BPF, "bpf_programs", "their code, types and metadata");
    checks.push(match facts.listing {
        // ENOENT: there is none.
        Ok(()) | Err(Errno::ENOENT) => listing,
        Err(errno @ (Errno::ENOSYS | Errno::EINVAL)) => {
            listing.no(format!("{errno}: this kernel has no bpf(2) that lists them"), None)
        }
        Err(errno) => listing.no(
            format!("{errno}: listing them needs CAP_SYS_ADMIN"),
            "run as root, or have root record".to_owned(),
        ),
    });
    let jit = Check::new(BPF, "bpf_jit", "their native code (the JIT)");
    checks.push(if facts.has_jit {
        jit
    } else {
        let remedy = "`sysctl net.core.bpf_jit_enable=1`".to_owned();
        jit.no(
            "`net.core.bpf_jit_enable` is 0: programs are interpreted and have no address",
            remedy,
        )
    });
    let addresses = Check::new(BPF, "bpf_addresses", "their addresses");
    checks.push(if facts.sees_kernel_addresses { addresses } else { hidden(addresses, facts) });
    let btf = Check::new(BPF, "kernel_btf", "what they are attached to (BTF of the kernel)");
    checks.push(if facts.has_btf {
        btf
    } else {
        btf.no("there is no `/sys/kernel/btf/vmlinux`: built without `CONFIG_DEBUG_INFO_BTF`", None)
    });
    let as_events = Check::new(BPF, "bpf_load", "programs of our own");
    let refused: Vec<String> = facts
        .prog_types
        .iter()
        .filter_map(|(name, outcome)| match outcome {
            Ok(true) => None,
            Ok(false) => Some(format!("no `{name}`")),
            Err(errno) => Some(format!("`{name}`: {errno}")),
        })
        .collect();
    checks.push(if refused.is_empty() {
        as_events
    } else {
        let is_allowed = facts.privilege.has(Capability::BPF);
        let remedy = (!is_allowed).then(|| "run as root".to_owned());
        let is_none = refused.len() == facts.prog_types.len();
        let why = match &facts.lockdown {
            Some(level) if level == "confidentiality" => {
                format!("{} (the kernel is locked down)", refused.join(", "))
            }
            _ => refused.join(", "),
        };
        if is_none { as_events.no(why, remedy) } else { as_events.partly(why, remedy) }
    });
    checks
}

fn kernel_names(facts: &Facts) -> Check {
    let check = Check::new(NAMES, "kernel_symbols", "functions of the kernel");
    if facts.sees_kernel_addresses { check } else { hidden(check, facts) }
}

/// Source of who sees addresses: `kallsyms_show_value()` in `kernel/ksyms_common.c`.
fn hidden(check: Check, facts: &Facts) -> Check {
    let as_root = "run as root";
    let (because, remedy) = match facts.settings.kptr_restrict {
        Some(2) => (
            "`kernel.kptr_restrict` is 2, which hides kernel addresses from everyone",
            "`sysctl kernel.kptr_restrict=1`",
        ),
        Some(1) => (
            "`kernel.kptr_restrict` is 1, which hides kernel addresses from whoever lacks CAP_SYSLOG",
            as_root,
        ),
        _ => (
            "`kernel.perf_event_paranoid` above 1 hides kernel addresses from whoever lacks CAP_SYSLOG",
            as_root,
        ),
    };
    check.no(because, remedy.to_owned())
}

#[cfg(test)]
mod tests {
    use crate::host::privilege::Privilege;
    use crate::host::settings::Settings;

    use super::*;

    /// A machine and user that lack nothing.
    fn whole() -> Facts {
        Facts {
            settings: Settings {
                perf_event_paranoid: Some(-1),
                perf_event_mlock_kb: Some(516),
                kptr_restrict: Some(0),
                ..Settings::default()
            },
            privilege: Privilege { capabilities: u64::MAX, is_filtered: false },
            container: None,
            lockdown: None,
            own_user: Ok(()),
            own_kernel: Ok(()),
            cpu: Ok(()),
            cycles: Ok(()),
            tracepoint: Ok(()),
            has_uprobes: true,
            has_kprobes: true,
            sees_kernel_addresses: true,
            has_jit: true,
            has_btf: true,
            listing: Ok(()),
            prog_types: vec![("tracepoint", Ok(true)), ("fentry", Ok(true))],
        }
    }

    /// What is not there of a whole machine after `change`: name, reason and remedy.
    #[track_caller]
    fn check(change: impl FnOnce(&mut Facts), want: &[(&str, &str, Option<&str>)]) {
        let mut facts = whole();
        change(&mut facts);
        let checks = checks(&facts);
        let lacking = checks.iter().filter(|it| it.state != State::Yes);
        let lacking: Vec<_> = lacking
            .map(|it| (it.name, it.because.as_deref().unwrap_or_default(), it.remedy.as_deref()))
            .collect();
        assert_eq!(lacking, want);
    }

    #[test]
    fn a_whole_machine_lacks_nothing() {
        check(|_| {}, &[]);
    }

    #[test]
    fn a_vm_without_a_pmu_has_a_clock() {
        check(
            |it| it.cycles = Err(Errno::ENOENT),
            &[(
                "hardware_events",
                "ENOENT: No such file or directory: there is no PMU, as is usual in a VM",
                Some("`cpu-clock` is recorded instead; a host can pass its PMU on to a VM"),
            )],
        );
    }

    #[test]
    fn a_cautious_setting_is_blamed_only_where_it_is_the_reason() {
        let remedy = "`kernel.perf_event_paranoid` is 2: run as root, or lower it: \
                      `sysctl kernel.perf_event_paranoid=0`";
        let because = "EACCES: Permission denied";
        check(
            |it| {
                it.settings.perf_event_paranoid = Some(2);
                it.privilege.capabilities = 1 << 39;
                it.cpu = Err(Errno::EACCES);
                (it.has_uprobes, it.has_kprobes) = (true, true);
            },
            &[
                ("all_cpus", because, Some(remedy)),
                ("uprobes", "they need CAP_PERFMON", Some("run as root")),
                ("kprobes", "they need CAP_PERFMON", Some("run as root")),
            ],
        );
        check(|it| it.cpu = Err(Errno::EACCES), &[("all_cpus", because, None)]);
    }

    #[test]
    fn a_containers_filter_is_named() {
        check(
            |it| {
                it.privilege.is_filtered = true;
                it.container = Some("docker");
                it.own_user = Err(Errno::EPERM);
            },
            &[(
                "own_user",
                "EPERM: Operation not permitted",
                Some(
                    "the seccomp filter of this docker container refuses `perf_event_open`: allow \
                     it, for example by `--cap-add PERFMON --security-opt seccomp=unconfined`",
                ),
            )],
        );
    }

    #[test]
    fn part_of_the_program_types_is_part() {
        let mut facts = whole();
        facts.prog_types = vec![("tracepoint", Ok(true)), ("fentry", Ok(false))];
        let found = checks(&facts).into_iter().find(|it| it.name == "bpf_load").unwrap();
        assert_eq!((found.state, found.because.as_deref()), (State::Partly, Some("no `fentry`")));
        facts.prog_types = vec![("tracepoint", Err(Errno::EPERM))];
        let found = checks(&facts).into_iter().find(|it| it.name == "bpf_load").unwrap();
        assert_eq!(found.state, State::No);
    }

    #[test]
    fn hidden_addresses_name_who_hides_them() {
        let because = "`kernel.kptr_restrict` is 2, which hides kernel addresses from everyone";
        let remedy = Some("`sysctl kernel.kptr_restrict=1`");
        check(
            |it| {
                it.settings.kptr_restrict = Some(2);
                it.sees_kernel_addresses = false;
            },
            &[("bpf_addresses", because, remedy), ("kernel_symbols", because, remedy)],
        );
    }
}
