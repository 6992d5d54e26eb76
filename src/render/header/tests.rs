//! The text of perf 7.3 for files of two versions, stored beside them.

use crate::perfdata::Attr;
use crate::perfdata::AttrFlags;
use crate::perfdata::Error;
use crate::perfdata::FileHeader;
use crate::perfdata::ReadFormat;
use crate::perfdata::SampleType;
use crate::perfdata::feature::CpuDomain;
use crate::perfdata::feature::CpuDomains;
use crate::perfdata::feature::CpuTopology;
use crate::perfdata::feature::EventDescs;
use crate::perfdata::feature::MemoryNode;
use crate::perfdata::feature::MemoryTopology;
use crate::perfdata::feature::PmuCap;
use crate::perfdata::feature::PmuCaps;
use crate::perfdata::feature::PmuMapping;
use crate::perfdata::feature::SchedDomain;
use crate::perfdata::feature::read_all;
use crate::units::Cpu;
use crate::units::Nanos;

use super::*;

/// 22:13 of the day on which the files were recorded, in seconds since 1970.
const MINUTE: i64 = 1_795_990_380;

fn time(second: u8) -> LocalTime {
    LocalTime { year: 2026, month: 11, day: 29, weekday: 0, hour: 22, minute: 13, second }
}

/// The text of a file that was captured at 22:13:07.
fn text(file: &[u8], detail: Detail) -> String {
    let header = FileHeader::decode(file).unwrap();
    let FileHeader::File { endian, data, features, .. } = header else { return String::new() };
    let sections = read_all(file, &header);
    let header = Header {
        captured: Some(time(7)),
        endian,
        form: Form::File { data, features },
        features: &sections,
        local_time: |seconds| u8::try_from(seconds - MINUTE).ok().map(time),
    };
    let mut out = Vec::new();
    write(&header, detail, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Compares with what perf 7.3 printed, but for the lines on which it is mistaken.
#[track_caller]
fn check(file: &[u8], perf: &str, differences: &[(&str, &str)]) {
    let mut want = perf.to_owned();
    for (of_perf, ours) in differences {
        assert!(want.contains(of_perf), "{of_perf}");
        want = want.replace(of_perf, ours);
    }
    // The file's own time is not in it.
    let without_time = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|it| !it.starts_with("# captured on"));
        lines.map(str::to_owned).collect()
    };
    let got = text(file, Detail::Full);
    for (got, want) in without_time(&got).iter().zip(&without_time(&want)) {
        assert_eq!(got, want);
    }
    assert_eq!(got.lines().count(), want.lines().count());
    assert_eq!(got.lines().nth(1), Some("# captured on    : Sun Nov 29 22:13:07 2026"));
}

/// perf gives the entry function a tag of its own; in the kernel it bears the program's.
const ENTRY_TAG: (&str, &str) = (
    "bpf_prog_142cbb773fc8f18d_handle_this_really_long_program_name",
    "bpf_prog_3391bf4f78b2f1bd_handle_this_really_long_program_name",
);

#[test]
fn a_file_of_perf_7_3_reads_as_with_perf() {
    let file = include_bytes!("../../../tests/fixtures/header/perf-7.3.data");
    check(file, include_str!("../../../tests/fixtures/header/perf-7.3.txt"), &[ENTRY_TAG]);
}

#[test]
fn a_file_of_perf_6_1_reads_as_with_perf() {
    let file = include_bytes!("../../../tests/fixtures/header/perf-6.1.data");
    check(file, include_str!("../../../tests/fixtures/header/perf-6.1.txt"), &[ENTRY_TAG]);
}

#[test]
fn long_sections_are_named_unless_asked_for() {
    let file = include_bytes!("../../../tests/fixtures/header/perf-7.3.data");
    let text = text(file, Detail::Short);
    let lines: Vec<&str> = text.lines().filter(|it| it.ends_with("use -I to display")).collect();
    let want = ["CPU_TOPOLOGY", "NUMA_TOPOLOGY", "CACHE", "MEM_TOPOLOGY"];
    assert_eq!(lines, want.map(|it| format!("# {it} info available, use -I to display")));
    assert!(!text.contains("# sibling"));
}

/// The lines for features by themselves.
#[track_caller]
fn check_features(features: Vec<Feature>, want: &str) {
    let at = FileOffset(0);
    let section = |it: Feature| FeatureSection { id: it.id(), at, content: Ok(it) };
    let features: Vec<FeatureSection> = features.into_iter().map(section).collect();
    let header = Header {
        captured: Some(time(0)),
        endian: Endian::NATIVE,
        form: Form::Pipe,
        features: &features,
        local_time: |_| None,
    };
    let mut out = Vec::new();
    write(&header, Detail::Full, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let (_, lines) = text.split_once("# ========\n#\n").unwrap();
    assert_eq!(lines, want);
}

fn event(attr: Attr, name: &str) -> EventDesc {
    EventDesc { attr, name: Text::from(name), ids: Vec::new() }
}

#[track_caller]
fn check_attr(attr: Attr, name: &str, want: &str) {
    let pmu = |kind, name: &str| PmuMapping { kind, name: Text::from(name) };
    let pmus = vec![pmu(4, "cpu"), pmu(8, "uprobe"), pmu(10, "cpu_atom")];
    let events = EventDescs { attr_size: 64, events: vec![event(attr, name)] };
    let pmu_line = "# pmu mappings: cpu = 4, uprobe = 8, cpu_atom = 10\n";
    let want = format!("# event : name = {name}, {want}\n{pmu_line}");
    check_features(vec![Feature::Events(events), Feature::PmuMappings(pmus)], &want);
}

fn kind(kind: u32, config: u64) -> Attr {
    Attr { kind, config, ..Attr::default() }
}

#[test]
fn types_and_configs_have_names() {
    let check = |kind_of, config, want| check_attr(kind(kind_of, config), "x", want);
    check(0, 0, ", type = 0 (PERF_TYPE_HARDWARE), config = 0 (PERF_COUNT_HW_CPU_CYCLES)");
    check(0, 10, ", type = 0 (PERF_TYPE_HARDWARE), config = 0xa");
    check(1, 9, ", type = 1 (PERF_TYPE_SOFTWARE), config = 0x9 (PERF_COUNT_SW_DUMMY)");
    check(1, 12, ", type = 1 (PERF_TYPE_SOFTWARE), config = 0xc");
    check(
        3,
        0x1_0001,
        ", type = 3 (PERF_TYPE_HW_CACHE), config = 0x10001 (PERF_COUNT_HW_CACHE_RESULT_MISS | \
         PERF_COUNT_HW_CACHE_OP_READ | PERF_COUNT_HW_CACHE_L1I)",
    );
    check(3, 0x3_0000, ", type = 3 (PERF_TYPE_HW_CACHE), config = 0x30000");
    check(4, 0x1a8, ", type = 4 (cpu), config = 0x1a8");
    check(5, 0, ", type = 5 (PERF_TYPE_BREAKPOINT), config = 0");
    check(8, 0, ", type = 8 (uprobe), config = 0");
    check(30, 0x77, ", type = 30, config = 0x77");
}

#[test]
fn the_upper_half_of_a_config_is_a_pmu_of_the_recorded_machine() {
    let check = |kind_of, config, want| check_attr(kind(kind_of, config), "x", want);
    check(
        0,
        0xa_0000_0001,
        ", type = 0 (PERF_TYPE_HARDWARE), config = 0xa00000001 \
         (cpu_atom/PERF_COUNT_HW_INSTRUCTIONS/)",
    );
    check(
        0,
        0xa_0000_000a,
        ", type = 0 (PERF_TYPE_HARDWARE), config = 0xa0000000a (cpu_atom/config=0xa0000000a/)",
    );
}

#[test]
fn a_tracepoint_is_called_after_its_event() {
    let want = ", type = 2 (PERF_TYPE_TRACEPOINT), config = 0x123 (sched:sched_switch)";
    check_attr(kind(2, 0x123), "sched:sched_switch", want);
    check_attr(kind(2, 0x123), "sched:sched_switch:u", want);
    let want = ", type = 2 (PERF_TYPE_TRACEPOINT), config = 0x123";
    check_attr(kind(2, 0x123), "mine", want);
}

#[test]
fn every_field_stands_in_perfs_order() {
    let attr = Attr {
        kind: 1,
        size: 144,
        config: 4,
        sample_period: 7,
        sample_type: SampleType::from_bits_retain((1 << 25) - 1),
        read_format: ReadFormat::from_bits_retain(0x1f),
        flags: AttrFlags::from_bits_retain((1 << 40) - 1),
        wakeup: 5,
        bp_type: 3,
        config1: 0x11,
        config2: 0x22,
        branch_sample_type: (1 << 20) - 1,
        sample_regs_user: 0xff,
        sample_stack_user: 8192,
        clockid: -1,
        sample_regs_intr: 0xf0,
        aux_watermark: 9,
        sample_max_stack: 127,
        aux_sample_size: 77,
        aux_action: 7,
        sig_data: 99,
        config3: 0x33,
        config4: 0x44,
    };
    // As perf 7.3 printed this attribute.
    let want = ", type = 1 (PERF_TYPE_SOFTWARE), size = 144, config = 0x4 \
        (PERF_COUNT_SW_CPU_MIGRATIONS), { sample_period, sample_freq } = 7, sample_type = \
        IP|TID|TIME|ADDR|READ|CALLCHAIN|ID|CPU|PERIOD|STREAM_ID|RAW|BRANCH_STACK|REGS_USER|\
        STACK_USER|IDENTIFIER|REGS_INTR|DATA_SRC|WEIGHT|PHYS_ADDR|AUX|CGROUP|DATA_PAGE_SIZE|\
        CODE_PAGE_SIZE|WEIGHT_STRUCT, read_format = \
        TOTAL_TIME_ENABLED|TOTAL_TIME_RUNNING|ID|GROUP|LOST, disabled = 1, inherit = 1, \
        pinned = 1, exclusive = 1, exclude_user = 1, exclude_kernel = 1, exclude_hv = 1, \
        exclude_idle = 1, mmap = 1, comm = 1, freq = 1, inherit_stat = 1, enable_on_exec = 1, \
        task = 1, watermark = 1, precise_ip = 3, mmap_data = 1, sample_id_all = 1, \
        exclude_host = 1, exclude_guest = 1, exclude_callchain_kernel = 1, \
        exclude_callchain_user = 1, mmap2 = 1, comm_exec = 1, use_clockid = 1, \
        context_switch = 1, write_backward = 1, namespaces = 1, ksymbol = 1, bpf_event = 1, \
        aux_output = 1, cgroup = 1, text_poke = 1, build_id = 1, inherit_thread = 1, \
        remove_on_exec = 1, sigtrap = 1, defer_callchain = 1, defer_output = 1, \
        { wakeup_events, wakeup_watermark } = 5, bp_type = 3, { bp_addr, config1 } = 0x11, \
        { bp_len, config2 } = 0x22, branch_sample_type = \
        USER|KERNEL|HV|ANY|ANY_CALL|ANY_RETURN|IND_CALL|ABORT_TX|IN_TX|NO_TX|COND|CALL_STACK|\
        IND_JUMP|CALL|NO_FLAGS|NO_CYCLES|TYPE_SAVE|HW_INDEX|PRIV_SAVE|COUNTERS, \
        sample_regs_user = 0xff, sample_stack_user = 8192, clockid = -1, \
        sample_regs_intr = 0xf0, aux_watermark = 9, sample_max_stack = 127, \
        aux_sample_size = 77, sig_data = 99, aux_start_paused = 1, aux_pause = 1, \
        aux_resume = 1";
    check_attr(attr, "full", want);
}

#[test]
fn names_are_escaped_and_quotes_marked() {
    check_features(vec![Feature::Hostname(Text::from("a\x1b[2J"))], "# hostname : a\\x1b[2J\n");
    let arguments = ["perf", "it's", ""].map(Text::from).to_vec();
    check_features(vec![Feature::CommandLine(arguments)], "# cmdline : perf it\\'s  \n");
}

#[test]
fn groups_name_their_members() {
    let events = ["a", "b", "c", "d"].map(|it| event(Attr::default(), it)).to_vec();
    let group = |name: &str, leader_idx, n_members| GroupDesc {
        name: Text::from(name),
        leader_idx,
        n_members,
    };
    let groups = vec![group("{anon_group}", 0, 2), group("g", 2, 9)];
    let events = EventDescs { attr_size: 64, events };
    let event = |name| {
        let attr = "type = 0 (PERF_TYPE_HARDWARE), config = 0 (PERF_COUNT_HW_CPU_CYCLES)";
        format!("# event : name = {name}, , {attr}\n")
    };
    let want = format!(
        "{}# group: {{a,b}}\n# group: g{{c,d}}\n",
        ["a", "b", "c", "d"].map(event).concat()
    );
    check_features(vec![Feature::Events(events), Feature::Groups(groups)], &want);
}

#[test]
fn the_clocks_frequency_is_the_inverse_of_its_resolution() {
    let check = |ns, want: &str| {
        check_features(
            vec![Feature::ClockResolution(ns)],
            &format!("# clockid frequency: {want}\n"),
        );
    };
    check(1, "1000 MHz");
    check(4_000_000, "0.00025 MHz");
    check(0, "unknown");
}

#[test]
fn a_last_sample_before_the_first_makes_a_negative_duration() {
    let times = SampleTime { first: Nanos(5_000_000_123), last: Nanos(4_000_000_000) };
    let want = "# time of first sample : 5.000000\n# time of last sample : 4.000000\n\
        # sample duration :  -1000.000 ms\n";
    check_features(vec![Feature::SampleTime(times)], want);
}

#[test]
fn memory_is_counted_by_blocks() {
    let node = |node, n_bits, bits: &[u64]| MemoryNode { node, n_bits, bits: bits.to_vec() };
    let nodes = vec![node(0, 10, &[0x2ab]), node(1, 65, &[0, 1])];
    let topology = MemoryTopology { block_bytes: 0x800_0000, nodes };
    let want = "# memory nodes (nr 2, block size 0x8000000):\n\
        #    0 [768M]: 0-1,3,5,7,9\n#    1 [128M]: 64\n";
    check_features(vec![Feature::MemoryTopology(topology)], want);
}

#[test]
fn an_old_topology_has_no_core_ids() {
    let topology = CpuTopology {
        packages: vec![Text::from("0-1")],
        cores: vec![Text::from("0")],
        ..CpuTopology::default()
    };
    let want = "# sibling sockets : 0-1\n# sibling threads : 0\n\
        # Core ID and Socket ID information is not available\n";
    check_features(vec![Feature::CpuTopology(topology)], want);
}

#[test]
fn scheduler_domains_are_listed_by_cpu() {
    let domain = SchedDomain {
        domain: 0,
        name: Some(Text::from("SMT")),
        mask: Text::from("3"),
        list: Text::from("0-1"),
    };
    let cpus = vec![CpuDomain { cpu: Cpu(0), domains: vec![domain] }];
    let domains = CpuDomains { schedstat_version: 17, max_domains: 2, cpus };
    let want = "# schedstat version\t: 17\n# Maximum sched domains\t: 2\n# cpu\t\t: 0\n\
        # nr_domains\t: 1\n# Domain\t\t: 0\n# Domain name      : SMT\n\
        # Domain cpu map   : 3\n# Domain cpu list  : 0-1\n";
    check_features(vec![Feature::CpuDomains(domains)], want);
}

#[test]
fn an_imprecise_cpu_with_ibs_is_noted() {
    let caps = vec![PmuCap { name: Text::from("max_precise"), value: Text::from("0") }];
    let pmus = vec![PmuMapping { kind: 30, name: Text::from("ibs_op") }];
    let features = vec![
        Feature::Arch(Text::from("x86_64")),
        Feature::PmuMappings(pmus),
        Feature::CpuPmuCaps(caps),
        Feature::PmuCaps(vec![PmuCaps { caps: Vec::new(), pmu: Text::from("ibs_op") }]),
    ];
    let want = "# arch : x86_64\n# pmu mappings: ibs_op = 30\n\
        # cpu pmu capabilities: max_precise=0\n# ibs_op pmu capabilities: not available\n\
        # AMD systems uses ibs_op// PMU for some precise events, e.g.: cycles:p, see the \
        'perf list' man page for further details.\n";
    check_features(features, want);
}

#[test]
fn damage_is_told_with_its_place_and_costs_no_other_section() {
    let damaged =
        |id, content| FeatureSection { id: FeatureId(id), at: FileOffset(0x238), content };
    let error =
        Error::Truncated { field: "host name", at: FileOffset(0x23c), need: 0xffff_fff0, left: 12 };
    let header = Header {
        captured: Some(time(0)),
        endian: Endian::Little,
        form: Form::Pipe,
        features: &[damaged(3, Err(error)), damaged(34, Ok(Feature::CachelineSize(64)))],
        local_time: |_| None,
    };
    let mut out = Vec::new();
    write(&header, Detail::Short, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let want = "# HOSTNAME damaged: host name at byte 0x23c needs 4294967280 bytes, only 12 left\n\
        # cacheline size: 64\n";
    assert!(text.ends_with(want), "{text}");
}

#[test]
fn damaged_program_infos_are_told_where_they_stand() {
    let at = FileOffset(0x1000);
    let content = Ok(Feature::BpfProgInfo(vec![1, 0, 0, 0, 232]));
    let header = Header {
        captured: Some(time(0)),
        endian: Endian::Little,
        form: Form::Pipe,
        features: &[FeatureSection { id: FeatureId::BPF_PROG_INFO, at, content }],
        local_time: |_| None,
    };
    let mut out = Vec::new();
    write(&header, Detail::Short, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(
        text.contains("# BPF_PROG_INFO damaged: bpf_prog_info length at byte 0x1004"),
        "{text}"
    );
}

#[test]
fn a_file_cut_anywhere_has_damaged_sections_at_worst() {
    let file = include_bytes!("../../../tests/fixtures/header/perf-7.3.data");
    let whole = text(file, Detail::Full);
    for len in (FileHeader::LEN..file.len()).step_by(29) {
        let text = text(&file[..len], Detail::Full);
        assert!(text.contains(" damaged: "), "cut to {len}");
        assert!(text.len() < 2 * whole.len());
    }
}

#[test]
fn a_changed_byte_is_survived() {
    let file = include_bytes!("../../../tests/fixtures/header/perf-7.3.data");
    let whole = text(file, Detail::Full);
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..2000 {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let mut file = file.to_vec();
        // Magic and size apart, which say whether it is a file at all.
        let at = 24 + usize::try_from(seed >> 32).unwrap() % (file.len() - 24);
        file[at] ^= u8::try_from(seed & 0xff).unwrap();
        let text = text(&file, Detail::Full);
        assert!(text.len() < 10 * whole.len(), "byte {at:#x} of seed {seed:#x}");
    }
}
