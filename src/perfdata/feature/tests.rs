//! Vectors written by hand after `tools/perf/Documentation/perf.data-file-format.txt`, in both
//! byte orders, and sections that two versions of perf wrote.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    reason = "a test may panic, and its numbers are its own"
)]

use crate::perfdata::Attr;
use crate::perfdata::AttrFlags;
use crate::perfdata::Error;
use crate::units::BuildId;
use crate::units::Cpu;
use crate::units::Nanos;
use crate::units::Pid;

use super::*;

/// A field of a vector.
enum Field {
    Short(u16),
    Word(u32),
    Long(u64),
    /// A length of 64 and the text in as many bytes.
    Str(&'static str),
    Raw(&'static [u8]),
}

use Field::Long;
use Field::Raw;
use Field::Short;
use Field::Str;
use Field::Word;

fn vector(endian: Endian, fields: &[Field]) -> Vec<u8> {
    let is_big = endian == Endian::Big;
    let word = |it: u32| if is_big { it.to_be_bytes() } else { it.to_le_bytes() };
    let mut bytes = Vec::new();
    for field in fields {
        match field {
            Short(it) => bytes.extend(if is_big { it.to_be_bytes() } else { it.to_le_bytes() }),
            Word(it) => bytes.extend(word(*it)),
            Long(it) => bytes.extend(if is_big { it.to_be_bytes() } else { it.to_le_bytes() }),
            Str(it) => {
                bytes.extend(word(64));
                bytes.extend(it.as_bytes());
                bytes.resize(bytes.len() + 64 - it.len(), 0);
            }
            Raw(it) => bytes.extend(*it),
        }
    }
    bytes
}

/// A decoder for a machine of two CPUs.
fn decoder(endian: Endian) -> FeatureDecoder {
    FeatureDecoder { endian, n_cpus: 2 }
}

#[track_caller]
fn check(id: u8, fields: &[Field], want: &Feature) {
    for endian in [Endian::Little, Endian::Big] {
        let bytes = vector(endian, fields);
        let got = decoder(endian).decode(FeatureId(id), &bytes, FileOffset(0x400)).unwrap();
        assert_eq!(&got, want, "{endian:?}");
        // Cut anywhere, a section is an error or says less; it never panics.
        for len in 0..bytes.len() {
            let cut = decoder(endian).decode(FeatureId(id), &bytes[..len], FileOffset(0x400));
            assert!(cut.is_err() || cut.unwrap() != *want || len + 8 > bytes.len());
        }
    }
    assert_eq!(want.id(), FeatureId(id));
    let mut out = Vec::new();
    want.encode(&mut out);
    assert_eq!(out, vector(Endian::NATIVE, fields));
}

#[test]
fn strings() {
    let text = || Text::from("vm");
    check(3, &[Str("vm")], &Feature::Hostname(text()));
    check(4, &[Str("vm")], &Feature::OsRelease(text()));
    check(5, &[Str("vm")], &Feature::Version(text()));
    check(6, &[Str("vm")], &Feature::Arch(text()));
    check(8, &[Str("vm")], &Feature::CpuDescription(text()));
    check(9, &[Str("vm")], &Feature::Cpuid(text()));
}

#[test]
fn numbers() {
    let cpus = CpuCount { available: 8, online: 6 };
    check(7, &[Word(8), Word(6)], &Feature::Cpus(cpus));
    check(10, &[Long(24_684_096)], &Feature::TotalMemory(24_684_096));
    let times = SampleTime { first: Nanos(5), last: Nanos(1 << 40) };
    check(21, &[Long(5), Long(1 << 40)], &Feature::SampleTime(times));
    check(23, &[Long(4_000_000)], &Feature::ClockResolution(4_000_000));
    check(24, &[Long(1)], &Feature::DirFormat(1));
    let machine = ElfMachine { machine: 62, flags: 7 };
    check(33, &[Word(62), Word(7)], &Feature::ElfMachine(machine));
    check(34, &[Word(64)], &Feature::CachelineSize(64));
    check(
        27,
        &[Word(0), Word(1), Word(3), Word(40), Word(0x81000)],
        &Feature::Compressed(Compression {
            version: 0,
            method: Compression::ZSTD,
            level: 3,
            ratio: 40,
            mmap_len: 0x81000,
        }),
    );
    check(
        29,
        &[Word(1), Word(4), Long(1_795_990_419), Long(1040)],
        &Feature::ClockData(ClockData {
            clockid: 4,
            time_of_day_ns: 1_795_990_419,
            clock: Nanos(1040),
        }),
    );
}

#[test]
fn what_is_carried_as_bytes() {
    check(
        1,
        &[Raw(b"\x17\x08\x44tracing")],
        &Feature::TracingData(b"\x17\x08\x44tracing".to_vec()),
    );
    check(25, &[Raw(b"info")], &Feature::BpfProgInfo(b"info".to_vec()));
    check(26, &[Raw(b"btf")], &Feature::BpfBtf(b"btf".to_vec()));
    check(200, &[Raw(b"new")], &Feature::Unknown(FeatureId(200), b"new".to_vec()));
    check(15, &[], &Feature::BranchStack);
    check(19, &[], &Feature::Stat);
}

#[test]
fn build_ids() {
    let entry = FileBuildId {
        cpu_mode: 1,
        pid: Pid(-1),
        build_id: BuildId::new(&[0xab; 20]),
        name: Text::from("[kernel.kallsyms]"),
    };
    let fields = [
        Word(0),
        Short(0x8001),
        Short(36 + 24),
        Word(0xffff_ffff),
        Raw(&[0xab; 20]),
        Raw(&[20, 0, 0, 0]),
        Raw(b"[kernel.kallsyms]\0\0\0\0\0\0\0"),
    ];
    check(2, &fields, &Feature::BuildIds(vec![entry]));
}

#[test]
fn the_command_line_is_whole() {
    let fields = [Word(3), Str("/usr/bin/bpfperf"), Str("record"), Str("")];
    let arguments = ["/usr/bin/bpfperf", "record", ""].map(Text::from).to_vec();
    check(11, &fields, &Feature::CommandLine(arguments));
}

#[test]
fn event_descriptions() {
    let flags = AttrFlags::DISABLED | AttrFlags::SAMPLE_ID_ALL;
    let attr = Attr { kind: 1, size: 64, config: 9, sample_period: 4000, flags, ..Attr::default() };
    let desc = |ids: &[u64]| EventDesc { attr, name: Text::from("dummy"), ids: ids.to_vec() };
    let events = EventDescs { attr_size: 64, events: vec![desc(&[7, 8]), desc(&[])] };
    for endian in [Endian::Little, Endian::Big] {
        // The flag word is a bit-field, mirrored within its bytes on big-endian machines.
        let flags: &[u8] = if endian == Endian::Big { &[0x80, 0, 0x20] } else { &[1, 0, 4] };
        let event = [Word(1), Word(64), Long(9), Long(4000), Long(0), Long(0)];
        let tail = [Raw(&[0; 5]), Word(0), Word(0), Long(0)];
        let attr = [&vector(endian, &event), flags, &vector(endian, &tail)].concat();
        let bytes = [
            &vector(endian, &[Word(2), Word(64)]),
            &attr,
            &vector(endian, &[Word(2), Str("dummy"), Long(7), Long(8)]),
            &attr,
            &vector(endian, &[Word(0), Str("dummy")]),
        ];
        let bytes = bytes.map(|it| &it[..]).concat();
        let got = decoder(endian).decode(FeatureId(12), &bytes, FileOffset(0)).unwrap();
        assert_eq!(got, Feature::Events(events.clone()), "{endian:?}");
        if endian == Endian::NATIVE {
            let mut out = Vec::new();
            got.encode(&mut out);
            assert_eq!(out, bytes);
        }
    }
}

#[test]
fn cpu_topologies_of_three_ages() {
    let packages = vec![Text::from("0-1")];
    let cores = vec![Text::from("0"), Text::from("1")];
    let oldest = CpuTopology { packages, cores, ..CpuTopology::default() };
    let lists = || vec![Word(1), Str("0-1"), Word(2), Str("0"), Str("1")];
    let mut fields = lists();
    check(13, &fields, &Feature::CpuTopology(oldest.clone()));

    let place = |core| CpuPlace { core, package: 5 };
    let older = CpuTopology { places: vec![place(3), place(-1)], ..oldest };
    fields.extend([Word(3), Word(5), Word(0xffff_ffff), Word(5)]);
    check(13, &fields, &Feature::CpuTopology(older.clone()));

    let dies = Dies { lists: vec![Text::from("0"), Text::from("1")], ids: vec![0, 1] };
    let newest = CpuTopology { dies: Some(dies), ..older };
    fields.extend([Word(2), Str("0"), Str("1"), Word(0), Word(1)]);
    check(13, &fields, &Feature::CpuTopology(newest));
}

#[test]
fn memory() {
    let node = NumaNode { node: 1, total_kb: 7000, free_kb: 6000, cpus: Text::from("0-1") };
    let fields = [Word(1), Word(1), Long(7000), Long(6000), Str("0-1")];
    check(14, &fields, &Feature::NumaTopology(vec![node]));

    let node = MemoryNode { node: 2, n_bits: 65, bits: vec![0xff, 1] };
    let topology = MemoryTopology { block_bytes: 0x800_0000, nodes: vec![node] };
    let node = [Long(2), Long(65), Long(65), Long(0xff), Long(1)];
    let fields: Vec<Field> = [Long(1), Long(0x800_0000), Long(1)].into_iter().chain(node).collect();
    check(22, &fields, &Feature::MemoryTopology(topology));
}

#[test]
fn caches() {
    let cache = CacheLevel {
        level: 1,
        line_bytes: 64,
        n_sets: 128,
        n_ways: 8,
        kind: Text::from("Data"),
        size: Text::from("32K"),
        cpus: Text::from("0"),
    };
    let numbers = [Word(1), Word(1), Word(1), Word(64), Word(128), Word(8)];
    let fields: Vec<Field> =
        numbers.into_iter().chain([Str("Data"), Str("32K"), Str("0")]).collect();
    check(20, &fields, &Feature::Caches(vec![cache]));
}

#[test]
fn pmus() {
    let mapping = PmuMapping { kind: 4, name: Text::from("cpu") };
    check(16, &[Word(1), Word(4), Str("cpu")], &Feature::PmuMappings(vec![mapping]));
    let cap = || PmuCap { name: Text::from("branches"), value: Text::from("32") };
    check(28, &[Word(1), Str("branches"), Str("32")], &Feature::CpuPmuCaps(vec![cap()]));
    check(28, &[Word(0)], &Feature::CpuPmuCaps(Vec::new()));
    let caps = PmuCaps { caps: vec![cap()], pmu: Text::from("intel_pt") };
    let fields = [Word(1), Word(1), Str("branches"), Str("32"), Str("intel_pt")];
    check(31, &fields, &Feature::PmuCaps(vec![caps]));
    let node = HybridNode { pmu: Text::from("cpu_atom"), cpus: Text::from("4-11") };
    check(30, &[Word(1), Str("cpu_atom"), Str("4-11")], &Feature::HybridTopology(vec![node]));
}

#[test]
fn groups_and_aux_data() {
    let group = GroupDesc { name: Text::from("{anon_group}"), leader_idx: 1, n_members: 2 };
    let fields = [Word(1), Str("{anon_group}"), Word(1), Word(2)];
    check(17, &fields, &Feature::Groups(vec![group]));
    let chunk = AuxtraceChunk { at: FileOffset(0x1000), len: 0x40 };
    check(18, &[Long(1), Long(0x1000), Long(0x40)], &Feature::Auxtrace(vec![chunk]));
}

#[test]
fn scheduler_domains_have_names_from_version_17_on() {
    let smt = SchedDomain {
        domain: 0,
        name: Some(Text::from("SMT")),
        mask: Text::from("3"),
        list: Text::from("0-1"),
    };
    let cpu = |cpu, domains| CpuDomain { cpu: Cpu(cpu), domains };
    let mut domains = CpuDomains {
        schedstat_version: 17,
        max_domains: 1,
        cpus: vec![cpu(0, vec![smt.clone()]), cpu(1, Vec::new())],
    };
    let smt_fields = [Str("SMT"), Str("3"), Str("0-1")];
    let fields: Vec<Field> = [Word(17), Word(1), Word(0), Word(1), Word(0)]
        .into_iter()
        .chain(smt_fields)
        .chain([Word(1), Word(0)])
        .collect();
    check(32, &fields, &Feature::CpuDomains(domains.clone()));

    domains.schedstat_version = 15;
    domains.cpus = vec![cpu(1, vec![SchedDomain { name: None, ..smt }])];
    let fields = [Word(15), Word(1), Word(1), Word(1), Word(0), Str("3"), Str("0-1")];
    check(32, &fields, &Feature::CpuDomains(domains));
}

#[test]
fn the_number_of_cpus_is_that_of_the_section_before() {
    let mut decoder = FeatureDecoder::new(Endian::Little);
    let mut decode = |id, fields: &[Field]| {
        decoder.decode(FeatureId(id), &vector(Endian::Little, fields), FileOffset(0)).unwrap()
    };
    decode(7, &[Word(1), Word(1)]);
    let place = CpuPlace { core: 8, package: 9 };
    let want = CpuTopology { places: vec![place], ..CpuTopology::default() };
    let fields = [Word(0), Word(0), Word(8), Word(9)];
    assert_eq!(decode(13, &fields), Feature::CpuTopology(want));
}

#[track_caller]
fn check_false_count(id: u8, fields: &[Field]) {
    let bytes = vector(Endian::Little, fields);
    let got = decoder(Endian::Little).decode(FeatureId(id), &bytes, FileOffset(0x400));
    assert!(matches!(got, Err(Error::Truncated { .. })), "{got:?}");
}

#[test]
fn a_count_beyond_the_section_ends_at_the_sections_end() {
    for id in [11, 13, 14, 16, 17, 28, 30, 31] {
        check_false_count(id, &[Word(0xffff_ffff)]);
    }
    check_false_count(12, &[Word(0xffff_ffff), Word(0)]);
    check_false_count(12, &[Word(1), Word(0xffff_fff0)]);
    check_false_count(18, &[Long(u64::MAX)]);
    check_false_count(20, &[Word(1), Word(0xffff_ffff)]);
    check_false_count(22, &[Long(1), Long(1), Long(u64::MAX)]);
    check_false_count(22, &[Long(1), Long(1), Long(1), Long(0), Long(0), Long(u64::MAX)]);
    check_false_count(32, &[Word(17), Word(1), Word(0), Word(0xffff_ffff)]);
}

#[test]
fn a_version_of_later_days_is_an_error_with_its_place() {
    for (id, fields) in [(20, [Word(2)]), (22, [Long(2)]), (29, [Word(2)])] {
        let bytes = vector(Endian::Little, &fields);
        let got = decoder(Endian::Little).decode(FeatureId(id), &bytes, FileOffset(0x400));
        let Err(Error::BadField { at, value, .. }) = got else { panic!("{got:?}") };
        assert_eq!((at, value), (FileOffset(0x400), 2));
    }
}

/// The feature sections of a little-endian file: id, place, bytes.
fn sections(file: &[u8]) -> Vec<(FeatureId, FileOffset, &[u8])> {
    let long = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
    let place = |at: u64| usize::try_from(at).unwrap();
    let mut entry = place(long(40) + long(48));
    let mut sections = Vec::new();
    for bit in (0..64_u8).filter(|bit| long(72) >> bit & 1 == 1) {
        let (at, len) = (long(entry), long(entry + 8));
        sections.push((FeatureId(bit), FileOffset(at), &file[place(at)..place(at + len)]));
        entry += 16;
    }
    sections
}

/// Decodes and encodes every section of a file again.
#[track_caller]
fn check_file(file: &[u8], n_sections: usize) {
    let sections = sections(file);
    assert_eq!(sections.len(), n_sections);
    let mut decoder = FeatureDecoder::new(Endian::Little);
    for (id, at, bytes) in sections {
        let feature = decoder.decode(id, bytes, at).unwrap();
        assert_eq!(feature.id(), id);
        let mut out = Vec::new();
        feature.encode(&mut out);
        if id == FeatureId::BUILD_ID && out != bytes {
            // perf 6.1 pads names to 64 bytes, perf 7.3 to 8: the same entries all the same.
            let again = FeatureDecoder::new(Endian::NATIVE).decode(id, &out, at).unwrap();
            assert_eq!(again, feature);
        } else {
            assert_eq!(out, bytes, "{id:?}");
        }
    }
}

#[cfg(target_endian = "little")]
#[test]
fn sections_of_perf_7_3_are_written_as_they_were_read() {
    check_file(include_bytes!("../../../tests/fixtures/header/perf-7.3.data"), 26);
}

#[cfg(target_endian = "little")]
#[test]
fn sections_of_perf_6_1_are_written_as_they_were_read() {
    check_file(include_bytes!("../../../tests/fixtures/header/perf-6.1.data"), 23);
}

#[test]
fn a_pipe_has_a_record_a_feature() {
    let features = [Feature::Stat, Feature::CachelineSize(64), Feature::Caches(Vec::new())];
    let want = [&34_u64.to_ne_bytes()[..], &64_u32.to_ne_bytes()].concat();
    // perf has these in files alone, and takes a record without data for the last one.
    let caches = [1_u32.to_ne_bytes(), 0_u32.to_ne_bytes()].concat();
    let apart = vec![(FeatureId::STAT, vec![]), (FeatureId::CACHE, caches)];
    assert_eq!(pipe_bodies(&features), PipeBodies { bodies: vec![want], apart, n_too_long: 0 });
    assert_eq!(pipe_end(), 35_u64.to_ne_bytes());
}

#[test]
fn a_record_without_data_ends_the_features_whatever_its_number() {
    let mut decoder = FeatureDecoder::new(Endian::Little);
    // perf 6.16 ends them with 32, which is a feature in later versions.
    for id in [32, 35, 1 << 40] {
        assert!(decoder.decode_record(id, &[], FileOffset(0)).is_none());
    }
    let section = decoder.decode_record(34, &[64, 0, 0, 0], FileOffset(8)).unwrap();
    assert_eq!((section.id, section.at), (FeatureId::CLN_SIZE, FileOffset(8)));
    assert_eq!(section.content.unwrap(), Feature::CachelineSize(64));
}

#[test]
fn a_feature_that_no_record_holds_is_handed_back() {
    let feature = |len: usize| Feature::BpfBtf(vec![1; len]);
    let longest = 65_527 - 8 - 8;
    let got = pipe_bodies(&[feature(longest), feature(longest + 1), Feature::CachelineSize(64)]);
    let lens: Vec<usize> = got.bodies.iter().map(|it| it.len() + 8).collect();
    assert_eq!(lens, [65_527, 8 + 8 + 4]);
    assert_eq!(got.apart, [(FeatureId::BPF_BTF, vec![1; longest + 1])]);
}
