//! An event's attribute, field by field.

use std::fmt;

use crate::perfdata::Attr;
use crate::perfdata::AttrFlags;
use crate::perfdata::feature::PmuMapping;
use crate::perfdata::feature::Text;

/// Prints the fields that are not zero, each as `, name = value`, in perf's order.
pub(super) struct Attribute<'a> {
    pub(super) attr: &'a Attr,
    /// The event's name, which says which tracepoint it is.
    pub(super) event: &'a Text,
    /// The PMUs of the recorded machine.
    pub(super) pmus: &'a [PmuMapping],
}

/// `enum perf_type_id`.
const TYPES: [&str; 6] = ["HARDWARE", "SOFTWARE", "TRACEPOINT", "HW_CACHE", "RAW", "BREAKPOINT"];
const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const TRACEPOINT: u32 = 2;
const HW_CACHE: u32 = 3;
const RAW: u32 = 4;

/// `enum perf_hw_id`.
const HARDWARE_EVENTS: [&str; 10] = [
    "CPU_CYCLES",
    "INSTRUCTIONS",
    "CACHE_REFERENCES",
    "CACHE_MISSES",
    "BRANCH_INSTRUCTIONS",
    "BRANCH_MISSES",
    "BUS_CYCLES",
    "STALLED_CYCLES_FRONTEND",
    "STALLED_CYCLES_BACKEND",
    "REF_CPU_CYCLES",
];

/// `enum perf_sw_ids`.
const SOFTWARE_EVENTS: [&str; 12] = [
    "CPU_CLOCK",
    "TASK_CLOCK",
    "PAGE_FAULTS",
    "CONTEXT_SWITCHES",
    "CPU_MIGRATIONS",
    "PAGE_FAULTS_MIN",
    "PAGE_FAULTS_MAJ",
    "ALIGNMENT_FAULTS",
    "EMULATION_FAULTS",
    "DUMMY",
    "BPF_OUTPUT",
    "CGROUP_SWITCHES",
];

/// `enum perf_hw_cache_id`, `perf_hw_cache_op_id`, `perf_hw_cache_op_result_id`.
const CACHES: [&str; 7] = ["L1D", "L1I", "LL", "DTLB", "ITLB", "BPU", "NODE"];
const CACHE_OPS: [&str; 3] = ["READ", "WRITE", "PREFETCH"];
const CACHE_RESULTS: [&str; 2] = ["ACCESS", "MISS"];

/// `PERF_SAMPLE_*` by bit, in the order in which perf names them; it has no name for bit 17.
const SAMPLE_BITS: [(u32, &str); 24] = [
    (0, "IP"),
    (1, "TID"),
    (2, "TIME"),
    (3, "ADDR"),
    (4, "READ"),
    (5, "CALLCHAIN"),
    (6, "ID"),
    (7, "CPU"),
    (8, "PERIOD"),
    (9, "STREAM_ID"),
    (10, "RAW"),
    (11, "BRANCH_STACK"),
    (12, "REGS_USER"),
    (13, "STACK_USER"),
    (16, "IDENTIFIER"),
    (18, "REGS_INTR"),
    (15, "DATA_SRC"),
    (14, "WEIGHT"),
    (19, "PHYS_ADDR"),
    (20, "AUX"),
    (21, "CGROUP"),
    (22, "DATA_PAGE_SIZE"),
    (23, "CODE_PAGE_SIZE"),
    (24, "WEIGHT_STRUCT"),
];

/// `PERF_FORMAT_*` by bit.
const READ_BITS: [(u32, &str); 5] =
    [(0, "TOTAL_TIME_ENABLED"), (1, "TOTAL_TIME_RUNNING"), (2, "ID"), (3, "GROUP"), (4, "LOST")];

/// `PERF_SAMPLE_BRANCH_*` by bit.
const BRANCH_BITS: [&str; 20] = [
    "USER",
    "KERNEL",
    "HV",
    "ANY",
    "ANY_CALL",
    "ANY_RETURN",
    "IND_CALL",
    "ABORT_TX",
    "IN_TX",
    "NO_TX",
    "COND",
    "CALL_STACK",
    "IND_JUMP",
    "CALL",
    "NO_FLAGS",
    "NO_CYCLES",
    "TYPE_SAVE",
    "HW_INDEX",
    "PRIV_SAVE",
    "COUNTERS",
];

/// The flags before and after `precise_ip`.
const FLAGS: [(AttrFlags, &str); 15] = [
    (AttrFlags::DISABLED, "disabled"),
    (AttrFlags::INHERIT, "inherit"),
    (AttrFlags::PINNED, "pinned"),
    (AttrFlags::EXCLUSIVE, "exclusive"),
    (AttrFlags::EXCLUDE_USER, "exclude_user"),
    (AttrFlags::EXCLUDE_KERNEL, "exclude_kernel"),
    (AttrFlags::EXCLUDE_HV, "exclude_hv"),
    (AttrFlags::EXCLUDE_IDLE, "exclude_idle"),
    (AttrFlags::MMAP, "mmap"),
    (AttrFlags::COMM, "comm"),
    (AttrFlags::FREQ, "freq"),
    (AttrFlags::INHERIT_STAT, "inherit_stat"),
    (AttrFlags::ENABLE_ON_EXEC, "enable_on_exec"),
    (AttrFlags::TASK, "task"),
    (AttrFlags::WATERMARK, "watermark"),
];
const MORE_FLAGS: [(AttrFlags, &str); 23] = [
    (AttrFlags::MMAP_DATA, "mmap_data"),
    (AttrFlags::SAMPLE_ID_ALL, "sample_id_all"),
    (AttrFlags::EXCLUDE_HOST, "exclude_host"),
    (AttrFlags::EXCLUDE_GUEST, "exclude_guest"),
    (AttrFlags::EXCLUDE_CALLCHAIN_KERNEL, "exclude_callchain_kernel"),
    (AttrFlags::EXCLUDE_CALLCHAIN_USER, "exclude_callchain_user"),
    (AttrFlags::MMAP2, "mmap2"),
    (AttrFlags::COMM_EXEC, "comm_exec"),
    (AttrFlags::USE_CLOCKID, "use_clockid"),
    (AttrFlags::CONTEXT_SWITCH, "context_switch"),
    (AttrFlags::WRITE_BACKWARD, "write_backward"),
    (AttrFlags::NAMESPACES, "namespaces"),
    (AttrFlags::KSYMBOL, "ksymbol"),
    (AttrFlags::BPF_EVENT, "bpf_event"),
    (AttrFlags::AUX_OUTPUT, "aux_output"),
    (AttrFlags::CGROUP, "cgroup"),
    (AttrFlags::TEXT_POKE, "text_poke"),
    (AttrFlags::BUILD_ID, "build_id"),
    (AttrFlags::INHERIT_THREAD, "inherit_thread"),
    (AttrFlags::REMOVE_ON_EXEC, "remove_on_exec"),
    (AttrFlags::SIGTRAP, "sigtrap"),
    (AttrFlags::DEFER_CALLCHAIN, "defer_callchain"),
    (AttrFlags::DEFER_OUTPUT, "defer_output"),
];

/// What an event does to AUX tracing, by bit of [`Attr::aux_action`].
const AUX_ACTIONS: [&str; 3] = ["aux_start_paused", "aux_pause", "aux_resume"];

impl fmt::Display for Attribute<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attr = self.attr;
        write!(f, ", type = {}", attr.kind)?;
        if let Some(name) = self.type_name() {
            write!(f, " ({name})")?;
        }
        number(f, "size", attr.size)?;
        write!(f, ", config = {}", Hex(attr.config))?;
        if let Some(name) = self.config_name() {
            write!(f, " ({name})")?;
        }
        number(f, "{ sample_period, sample_freq }", attr.sample_period)?;
        bits(f, "sample_type", attr.sample_type.bits(), &SAMPLE_BITS)?;
        bits(f, "read_format", attr.read_format.bits(), &READ_BITS)?;
        flags(f, attr.flags, &FLAGS)?;
        number(f, "precise_ip", attr.precise_ip())?;
        flags(f, attr.flags, &MORE_FLAGS)?;
        number(f, "{ wakeup_events, wakeup_watermark }", attr.wakeup)?;
        number(f, "bp_type", attr.bp_type)?;
        hex(f, "{ bp_addr, config1 }", attr.config1)?;
        hex(f, "{ bp_len, config2 }", attr.config2)?;
        let branches: Vec<(u32, &str)> = (0..).zip(BRANCH_BITS).collect();
        bits(f, "branch_sample_type", attr.branch_sample_type, &branches)?;
        hex(f, "sample_regs_user", attr.sample_regs_user)?;
        number(f, "sample_stack_user", attr.sample_stack_user)?;
        number(f, "clockid", attr.clockid)?;
        hex(f, "sample_regs_intr", attr.sample_regs_intr)?;
        number(f, "aux_watermark", attr.aux_watermark)?;
        number(f, "sample_max_stack", attr.sample_max_stack)?;
        number(f, "aux_sample_size", attr.aux_sample_size)?;
        number(f, "sig_data", attr.sig_data)?;
        (0..)
            .zip(AUX_ACTIONS)
            .try_for_each(|(bit, name)| number(f, name, attr.aux_action >> bit & 1))
    }
}

impl Attribute<'_> {
    fn type_name(&self) -> Option<String> {
        let name = TYPES.get(usize::try_from(self.attr.kind).ok()?);
        match (name, self.pmu(self.attr.kind)) {
            // The core PMU of x86 has the number of raw events.
            (Some(_), Some(pmu)) if self.attr.kind == RAW => Some(pmu),
            (Some(name), _) => Some(format!("PERF_TYPE_{name}")),
            (None, pmu) => pmu,
        }
    }

    fn config_name(&self) -> Option<String> {
        let config = self.attr.config;
        let low = |bits: u32| usize::try_from(config >> bits & 0xff).ok();
        let name = match self.attr.kind {
            HARDWARE => {
                let event = usize::try_from(config & 0xffff_ffff).ok()?;
                HARDWARE_EVENTS.get(event).map(|it| format!("PERF_COUNT_HW_{it}"))
            }
            HW_CACHE => {
                let name = || {
                    let cache = CACHES.get(low(0)?)?;
                    let op = CACHE_OPS.get(low(8)?)?;
                    let result = CACHE_RESULTS.get(low(16)?)?;
                    let prefix = "PERF_COUNT_HW_CACHE_";
                    Some(format!("{prefix}RESULT_{result} | {prefix}OP_{op} | {prefix}{cache}"))
                };
                name()
            }
            SOFTWARE => {
                let name = SOFTWARE_EVENTS.get(usize::try_from(config).ok()?)?;
                return Some(format!("PERF_COUNT_SW_{name}"));
            }
            TRACEPOINT => return self.tracepoint(),
            _ => return None,
        };
        // On machines with several kinds of cores, the upper half says which one's PMU.
        let pmu =
            u32::try_from(config >> 32).ok().filter(|it| *it != 0).and_then(|it| self.pmu(it));
        match (name, pmu) {
            (Some(name), Some(pmu)) => Some(format!("{pmu}/{name}/")),
            (None, Some(pmu)) => Some(format!("{pmu}/config={}/", Hex(config))),
            (name, None) => name,
        }
    }

    /// The PMU with a number, on the recorded machine.
    fn pmu(&self, kind: u32) -> Option<String> {
        self.pmus.iter().find(|it| it.kind == kind).map(|it| it.name.to_string())
    }

    /// The tracepoint, if the event is called after it: `sched:sched_switch`, perhaps with
    /// modifiers after a second colon.
    fn tracepoint(&self) -> Option<String> {
        let name = self.event.to_string();
        let mut parts = name.split(':');
        let (system, event) = (parts.next()?, parts.next()?);
        Some(format!("{system}:{event}"))
    }
}

/// A number as C prints it by `%#x`: zero has no prefix.
struct Hex(u64);

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => write!(f, "0"),
            number => write!(f, "{number:#x}"),
        }
    }
}

fn number<T>(f: &mut fmt::Formatter<'_>, name: &str, value: T) -> fmt::Result
where
    T: fmt::Display + Default + PartialEq + Copy,
{
    if value == T::default() { Ok(()) } else { write!(f, ", {name} = {value}") }
}

fn hex(f: &mut fmt::Formatter<'_>, name: &str, value: u64) -> fmt::Result {
    if value == 0 { Ok(()) } else { write!(f, ", {name} = {}", Hex(value)) }
}

fn flags(f: &mut fmt::Formatter<'_>, set: AttrFlags, names: &[(AttrFlags, &str)]) -> fmt::Result {
    let mut names = names.iter().filter(|(flag, _)| set.contains(*flag));
    names.try_for_each(|(_, name)| write!(f, ", {name} = 1"))
}

fn bits(f: &mut fmt::Formatter<'_>, name: &str, value: u64, names: &[(u32, &str)]) -> fmt::Result {
    if value == 0 {
        return Ok(());
    }
    let names = names.iter().filter(|(bit, _)| value >> bit & 1 == 1);
    let names: Vec<&str> = names.map(|(_, name)| *name).collect();
    write!(f, ", {name} = {}", names.join("|"))
}
