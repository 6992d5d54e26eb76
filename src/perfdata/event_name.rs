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

/// Names by number of `enum perf_hw_cache_id`, and which operations each has: bit 0 for loads, 1 for
/// stores, 2 for prefetches.
const CACHES: [(&str, u8); 7] = [
    ("L1-dcache", 7),
    ("L1-icache", 5),
    ("LLC", 7),
    ("dTLB", 7),
    ("iTLB", 1),
    ("branch", 1),
    ("node", 7),
];
/// Names by number of `enum perf_hw_cache_op_id`, of the accesses and of their misses.
const CACHE_OPERATIONS: [(&str, &str); 3] =
    [("loads", "load-misses"), ("stores", "store-misses"), ("prefetches", "prefetch-misses")];

impl Attr {
    /// The event's name as perf would print it: from type and number, with the modifiers that its
    /// flags stand for.
    ///
    /// Source: the `PERF_TYPE_*` and `PERF_COUNT_*` of `include/uapi/linux/perf_event.h`.
    pub fn event_name(&self) -> String {
        let mut name = match self.kind {
            0 => named(&HARDWARE, self.config & 0xffff_ffff, "unknown-hardware"),
            1 => named(&SOFTWARE, self.config, "unknown-software"),
            2 => return format!("unknown tracepoint id={:#x}", self.config),
            3 => cache_name(self.config),
            4 => format!("raw {:#x}", self.config),
            5 => format!("mem:{:#x}:{}", self.config1, self.accesses()),
            kind => return format!("unknown event PMU={kind} config={:#x}", self.config),
        };
        let modifiers = self.modifiers();
        if !modifiers.is_empty() {
            name.push(':');
            name.push_str(&modifiers);
        }
        name
    }

    /// What a breakpoint waits for: `HW_BREAKPOINT_*` as letters.
    fn accesses(&self) -> String {
        let letters = [(1, 'r'), (2, 'w'), (4, 'x')];
        letters.iter().filter(|(bit, _)| self.bp_type & bit != 0).map(|(_, it)| it).collect()
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
        let machines = [(AttrFlags::EXCLUDE_HOST, 'H'), (AttrFlags::EXCLUDE_GUEST, 'G')];
        if machines.iter().any(|(flag, _)| self.flags.contains(*flag)) {
            let kept = machines.iter().filter(|(flag, _)| !self.flags.contains(*flag));
            modifiers.extend(kept.map(|(_, letter)| letter));
        }
        modifiers
    }
}

fn named(names: &[&str], number: u64, unknown: &str) -> String {
    let name = usize::try_from(number).ok().and_then(|number| names.get(number));
    (*name.unwrap_or(&unknown)).to_owned()
}

/// The name of an event of type `PERF_TYPE_HW_CACHE`, or perf's words for why it has none.
fn cache_name(config: u64) -> String {
    let [cache, operation, result, ..] = config.to_le_bytes();
    let Some((cache, operations)) = CACHES.get(usize::from(cache)) else {
        return "unknown-ext-hardware-cache-type".to_owned();
    };
    let Some((accesses, misses)) = CACHE_OPERATIONS.get(usize::from(operation)) else {
        return "unknown-ext-hardware-cache-op".to_owned();
    };
    let which = match result {
        0 => accesses,
        1 => misses,
        _ => return "unknown-ext-hardware-cache-result".to_owned(),
    };
    if operations >> operation & 1 == 0 {
        return "invalid-cache".to_owned();
    }
    format!("{cache}-{which}")
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
        check(0, 99, none, "unknown-hardware");
        check(1, 99, none, "unknown-software");
        check(2, 5, none, "unknown tracepoint id=0x5");
        check(9, 3, AttrFlags::EXCLUDE_HV, "unknown event PMU=9 config=0x3");
        check(5, 0, AttrFlags::EXCLUDE_KERNEL, "mem:0x0::uh");
    }

    #[test]
    fn a_cache_has_only_some_operations() {
        let none = AttrFlags::empty();
        check(3, 0x1_0200, none, "L1-dcache-prefetch-misses");
        check(3, 0x104, none, "invalid-cache");
        check(3, 0x99, none, "unknown-ext-hardware-cache-type");
        check(3, 0x302, none, "unknown-ext-hardware-cache-op");
        check(3, 0x2_0002, none, "unknown-ext-hardware-cache-result");
    }

    #[test]
    fn what_is_excluded_shows_as_modifiers() {
        let user = AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
        check(1, 1, user, "task-clock:u");
        check(0, 0, AttrFlags::PRECISE_IP_HIGH, "cycles:pp");
        check(0, 0, AttrFlags::EXCLUDE_HV, "cycles:ku");
        check(0, 0, AttrFlags::EXCLUDE_GUEST, "cycles:H");
        check(0, 0, AttrFlags::EXCLUDE_HOST | AttrFlags::PRECISE_IP_LOW, "cycles:pG");
        check(0, 0, AttrFlags::EXCLUDE_HOST | AttrFlags::EXCLUDE_GUEST, "cycles");
    }
}
