//! The kernel's settings that decide what may be recorded.

use std::fs;

/// What `kernel.perf_event_*`, `kernel.kptr_restrict` and `kernel.bpf_stats_enabled` are; `None` where the kernel says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Who may record what: -1 anyone anything, 0 CPUs, 1 own processes with the kernel, 2 without,
    /// 3 and more (of distributions) nothing without `CAP_PERFMON`.
    pub perf_event_paranoid: Option<i64>,
    /// The KiB of ring that an ordinary user may lock on each CPU.
    pub perf_event_mlock_kb: Option<u64>,
    /// The most samples a second on a CPU.
    pub perf_event_max_sample_rate: Option<u64>,
    /// The most frames of a call chain.
    pub perf_event_max_stack: Option<u16>,
    /// Who sees kernel addresses: 0 as `perf_event_paranoid`, 1 with `CAP_SYSLOG`, 2 nobody.
    pub kptr_restrict: Option<i64>,
    /// Whether the kernel counts the runs of BPF programs: 0 no, 1 yes.
    pub bpf_stats_enabled: Option<i64>,
}

/// The settings in force.
pub fn read() -> Settings {
    Settings {
        perf_event_paranoid: number("perf_event_paranoid"),
        perf_event_mlock_kb: number("perf_event_mlock_kb"),
        perf_event_max_sample_rate: number("perf_event_max_sample_rate"),
        perf_event_max_stack: number("perf_event_max_stack"),
        kptr_restrict: number("kptr_restrict"),
        bpf_stats_enabled: number("bpf_stats_enabled"),
    }
}

fn number<T: std::str::FromStr>(name: &str) -> Option<T> {
    fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?.trim().parse().ok()
}
