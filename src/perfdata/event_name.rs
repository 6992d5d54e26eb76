//! The name of an event of which a file holds only the attribute.

use super::Attr;
use super::AttrFlags;

/// Names by number of `enum perf_sw_ids`.
const SOFTWARE: [&str; 12] = [
    "cpu-clock",
    "task-clock",
    "page-faults",
    "context-switches",
    "cpu-migrations",
    "minor-faults",
    "major-faults",
    "alignment-faults",
    "emulation-faults",
    "dummy",
    "bpf-output",
    "cgroup-switches",
];

/// Names by number of `enum perf_hw_id`.
const HARDWARE: [&str; 10] = [
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branches",
    "branch-misses",
    "bus-cycles",
    "stalled-cycles-frontend",
    "stalled-cycles-backend",
    "ref-cycles",
];

/// Names by number of `enum perf_hw_cache_id`.
const CACHES: [&str; 7] = ["L1-dcache", "L1-icache", "LLC", "dTLB", "iTLB", "branch", "node"];
/// Names by number of `enum perf_hw_cache_op_id`, of the accesses and of their misses.
const CACHE_OPERATIONS: [(&str, &str); 3] =
    [("loads", "load-misses"), ("stores", "store-misses"), ("prefetches", "prefetch-misses")];

impl Attr {
    /// The event's name as perf would print it: from type and number, with the modifiers that its
    /// flags stand for.
    ///
    /// Source: the `PERF_TYPE_*` and `PERF_COUNT_*` of `include/uapi/linux/perf_event.h`.
    pub fn event_name(&self) -> String {
        let name = match self.kind {
            0 => named(&HARDWARE, self.config & 0xffff_ffff),
            1 => named(&SOFTWARE, self.config),
            2 => Some(format!("tracepoint:{}", self.config)),
            3 => cache_name(self.config),
            5 => Some(format!("mem:{:#x}", self.config1)),
            _ => None,
        };
        let mut name = name.unwrap_or_else(|| match self.kind {
            0 | 1 | 3 | 4 => format!("raw {:#x}", self.config),
            kind => format!("unknown attr type: {kind}"),
        });
        let modifiers = self.modifiers();
        if !modifiers.is_empty() && matches!(self.kind, 0 | 1 | 3 | 4) {
            name.push(':');
            name.push_str(&modifiers);
        }
        name
    }

    fn modifiers(&self) -> String {
        let privileges = [
            (AttrFlags::EXCLUDE_KERNEL, 'k'),
            (AttrFlags::EXCLUDE_USER, 'u'),
            (AttrFlags::EXCLUDE_HV, 'h'),
        ];
        let mut modifiers = String::new();
        if privileges.iter().any(|(flag, _)| self.flags.contains(*flag)) {
            let kept = privileges.iter().filter(|(flag, _)| !self.flags.contains(*flag));
            modifiers.extend(kept.map(|(_, letter)| letter));
        }
        modifiers.extend(std::iter::repeat_n('p', usize::from(self.precise_ip())));
        modifiers
    }
}

fn named(names: &[&str], number: u64) -> Option<String> {
    Some((*names.get(usize::try_from(number).ok()?)?).to_owned())
}

fn cache_name(config: u64) -> Option<String> {
    let [cache, operation, result, ..] = config.to_le_bytes();
    let cache = CACHES.get(usize::from(cache))?;
    let (accesses, misses) = CACHE_OPERATIONS.get(usize::from(operation))?;
    match result {
        0 => Some(format!("{cache}-{accesses}")),
        1 => Some(format!("{cache}-{misses}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: u32, config: u64, flags: AttrFlags, want: &str) {
        assert_eq!(Attr { kind, config, flags, ..Attr::default() }.event_name(), want);
    }

    #[test]
    fn an_event_is_named_by_type_and_number() {
        let none = AttrFlags::empty();
        check(1, 0, none, "cpu-clock");
        check(0, 1, none, "instructions");
        check(3, 0x1_0000, none, "L1-dcache-load-misses");
        check(4, 0x1c2, none, "raw 0x1c2");
        check(1, 99, none, "raw 0x63");
    }

    #[test]
    fn what_is_excluded_shows_as_modifiers() {
        let user = AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
        check(1, 1, user, "task-clock:u");
        check(0, 0, AttrFlags::PRECISE_IP_HIGH, "cycles:pp");
        check(0, 0, AttrFlags::EXCLUDE_HV, "cycles:ku");
    }
}
