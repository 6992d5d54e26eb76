//! One record of each kind, written by hand from the comments of `include/uapi/linux/perf_event.h`
//! and, from 64 on, `tools/lib/perf/include/perf/event.h`: read in both byte orders, and written.

use bpfperf::perfdata::Attr;
use bpfperf::perfdata::AttrFlags;
use bpfperf::perfdata::Auxtrace;
use bpfperf::perfdata::AuxtraceError;
use bpfperf::perfdata::BpfEvent;
use bpfperf::perfdata::BpfMetadata;
use bpfperf::perfdata::BuildIdEntry;
use bpfperf::perfdata::Comm;
use bpfperf::perfdata::CpuMap;
use bpfperf::perfdata::Cursor;
use bpfperf::perfdata::Endian;
use bpfperf::perfdata::IdIndex;
use bpfperf::perfdata::Ksymbol;
use bpfperf::perfdata::MappedThread;
use bpfperf::perfdata::Mmap;
use bpfperf::perfdata::Mmap2;
use bpfperf::perfdata::MmapId;
use bpfperf::perfdata::Record;
use bpfperf::perfdata::RecordHeader;
use bpfperf::perfdata::RecordKind;
use bpfperf::perfdata::SampleId;
use bpfperf::perfdata::SampleIdLayout;
use bpfperf::perfdata::SampleType;
use bpfperf::perfdata::SchedstatCpu;
use bpfperf::perfdata::SchedstatDomain;
use bpfperf::perfdata::ShortTimeConv;
use bpfperf::perfdata::Stat;
use bpfperf::perfdata::Task;
use bpfperf::perfdata::Throttle;
use bpfperf::perfdata::TimeConv;
use bpfperf::perfdata::U64s;
use bpfperf::perfdata::UserRecord;
use bpfperf::perfdata::misc;
use bpfperf::units::Addr;
use bpfperf::units::BpfTag;
use bpfperf::units::BuildId;
use bpfperf::units::Cpu;
use bpfperf::units::FileOffset;
use bpfperf::units::Nanos;
use bpfperf::units::Pid;
use bpfperf::units::ProgId;
use bpfperf::units::Tid;

use crate::vector::bytes;

/// The trailer of records of `perf record -a` of two events: task, time, CPU, id.
const TRAILER: &str = "00000064 00000065 00000000499602d2 00000003 00000000 0000000000000007";

fn trailer() -> SampleId {
    SampleId {
        task: Some((Pid(100), Tid(101))),
        time: Some(Nanos(1_234_567_890)),
        id: Some(7),
        stream_id: None,
        cpu: Some(3),
    }
}

fn layout() -> SampleIdLayout {
    let sample_type = SampleType::TID | SampleType::TIME | SampleType::CPU | SampleType::IDENTIFIER;
    SampleIdLayout::new(&Attr { sample_type, flags: AttrFlags::SAMPLE_ID_ALL, ..Attr::default() })
}

/// Checks a record of the kernel: a header, `fields` and the trailer.
#[track_caller]
fn check(kind: u32, misc: u16, fields: &str, want: &Record<'_>) {
    let (fields, id) = (format!("{fields} {TRAILER}"), trailer());
    let mut encoded_trailer = Vec::new();
    layout().encode(&id, &mut encoded_trailer);
    check_all(kind, misc, &fields, layout(), want, id, &encoded_trailer);
}

/// Checks a record of perf's: a header and `fields`.
#[track_caller]
fn check_user(kind: u32, misc: u16, fields: &str, want: UserRecord<'_>) {
    let none = SampleIdLayout::default();
    check_all(kind, misc, fields, none, &Record::User(want), SampleId::default(), &[]);
}

#[track_caller]
fn check_all(
    kind: u32,
    misc: u16,
    fields: &str,
    layout: SampleIdLayout,
    want: &Record<'_>,
    id: SampleId,
    trailer: &[u8],
) {
    for endian in [Endian::Little, Endian::Big] {
        let body = bytes(fields, endian);
        let size = body.len() + 8;
        assert_eq!(size % 8, 0, "records are of whole words");
        let mut record = bytes(&format!("{kind:08x} {misc:04x} {size:04x}"), endian);
        record.extend(body);

        let mut cursor = Cursor::new(&record, FileOffset(0x68), endian);
        let header = RecordHeader::decode(&mut cursor).unwrap();
        let size = u16::try_from(size).unwrap();
        assert_eq!(header, RecordHeader { kind: RecordKind(kind), misc, size }, "{endian:?}");
        let (own, got_id) = layout.split(cursor.rest(), endian);
        assert_eq!(got_id, id, "{endian:?}");
        let got = Record::decode(header, &mut Cursor::new(own, FileOffset(0x70), endian)).unwrap();
        assert_eq!(&got, want, "{endian:?}");
        if endian == Endian::NATIVE {
            let mut encoded = Vec::new();
            want.encode(header.kind, misc, trailer, &mut encoded).unwrap();
            assert_eq!(encoded, record);
        }
        // Of what is cut nothing is made up: it is shorter, or an error, and never a panic.
        for len in 0..own.len() {
            let cut = Record::decode(header, &mut Cursor::new(&own[..len], FileOffset(0), endian));
            drop(cut);
        }
    }
}

/// Words as they stand in a record.
fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn u64s(words: &[u8]) -> U64s<'_> {
    U64s::new(words, Endian::NATIVE)
}

const TASK: Task =
    Task { pid: Pid(100), ppid: Pid(1), tid: Tid(101), ptid: Tid(2), time: Nanos(0x1234_5678) };
const TASK_FIELDS: &str = "00000064 00000001 00000065 00000002 0000000012345678";

const THROTTLE: Throttle = Throttle { time: Nanos(0x1234_5678), id: 7, stream_id: 9 };
const THROTTLE_FIELDS: &str = "0000000012345678 0000000000000007 0000000000000009";

#[test]
fn kind_1_is_a_mapping() {
    let mmap = Mmap {
        pid: Pid(-1),
        tid: Tid(0),
        addr: Addr(0xffff_ffff_8100_0000),
        len: 0x0100_0000,
        pgoff: 0x1000,
        filename: b"[kernel.kallsyms]_text",
    };
    check(
        1,
        misc::KERNEL,
        "ffffffff 00000000 ffffffff81000000 0000000001000000 0000000000001000 \
         '[kernel.kallsyms]_text' 0*2",
        &Record::Mmap(mmap),
    );
}

#[test]
fn kind_2_is_a_loss() {
    check(2, 0, "0000000000000007 00000000000004d2", &Record::Lost { id: 7, lost: 1234 });
}

#[test]
fn kind_3_is_a_name() {
    let comm = Comm { pid: Pid(100), tid: Tid(101), comm: b"demo" };
    check(3, misc::COMM_EXEC, "00000064 00000065 'demo' 0*4", &Record::Comm(comm));
    // A name of seven bytes leaves no room for padding, one of eight needs a word more.
    let comm = |comm| Record::Comm(Comm { pid: Pid(100), tid: Tid(101), comm });
    check(3, 0, "00000064 00000065 'worker1' 0*1", &comm(b"worker1"));
    check(3, 0, "00000064 00000065 'worker12' 0*8", &comm(b"worker12"));
}

#[test]
fn kinds_4_and_7_are_the_end_and_the_beginning_of_a_task() {
    check(4, 0, TASK_FIELDS, &Record::Exit(TASK));
    check(7, 0, TASK_FIELDS, &Record::Fork(TASK));
}

#[test]
fn kinds_5_and_6_are_a_pause_and_its_end() {
    check(5, 0, THROTTLE_FIELDS, &Record::Throttle(THROTTLE));
    check(6, 0, THROTTLE_FIELDS, &Record::Unthrottle(THROTTLE));
}

#[test]
fn kind_8_is_a_counters_value() {
    let values = words(&[500, 7]);
    check(
        8,
        0,
        "00000064 00000065 00000000000001f4 0000000000000007",
        &Record::Read { pid: Pid(100), tid: Tid(101), values: u64s(&values) },
    );
}

#[test]
fn kind_10_is_a_mapping_with_its_inode() {
    let id = MmapId::Inode { maj: 0x103, min: 5, ino: 0x194_07c7, ino_generation: 0x2ddb_5ae1 };
    let mmap = Mmap2 {
        pid: Pid(100),
        tid: Tid(101),
        addr: Addr(0x5598_65c4_2000),
        len: 0x4000,
        pgoff: 0x2000,
        id,
        prot: 5,
        flags: 2,
        filename: b"/usr/bin/sleep",
    };
    check(
        10,
        misc::USER,
        "00000064 00000065 0000559865c42000 0000000000004000 0000000000002000 \
         00000103 00000005 00000000019407c7 000000002ddb5ae1 00000005 00000002 \
         '/usr/bin/sleep' 0*2",
        &Record::Mmap2(mmap),
    );
}

#[test]
fn kind_10_is_a_mapping_with_its_build_id() {
    let mmap = |id: &[u8]| {
        Record::Mmap2(Mmap2 {
            pid: Pid(100),
            tid: Tid(101),
            addr: Addr(0x5598_65c4_2000),
            len: 0x4000,
            pgoff: 0x2000,
            id: MmapId::BuildId(BuildId::new(id)),
            prot: 5,
            flags: 2,
            filename: b"/bin/x",
        })
    };
    let fields = |len: &str, id: &str| {
        format!(
            "00000064 00000065 0000559865c42000 0000000000004000 0000000000002000 \
             {len} 00 0000 {id} 00000005 00000002 '/bin/x' 0*2"
        )
    };
    let misc = misc::USER | misc::MMAP_BUILD_ID;
    let id: Vec<u8> = (1..=20).collect();
    check(10, misc, &fields("14", "=0102030405060708090a0b0c0d0e0f1011121314"), &mmap(&id));
    check(10, misc, &fields("08", "=0102030405060708 0*12"), &mmap(&id[..8]));
}

#[test]
fn a_build_id_of_an_impossible_length_costs_only_itself() {
    let fields = "00000064 00000065 0000559865c42000 0000000000004000 0000000000002000 \
                  ff 00 0000 =0102030405060708090a0b0c0d0e0f1011121314 00000005 00000002 \
                  '/bin/x' 0*2";
    let body = bytes(fields, Endian::NATIVE);
    let size = u16::try_from(body.len() + 8).unwrap();
    let header = RecordHeader { kind: RecordKind::MMAP2, misc: misc::MMAP_BUILD_ID, size };
    let mut cursor = Cursor::new(&body, FileOffset(0), Endian::NATIVE);
    let Ok(Record::Mmap2(mmap)) = Record::decode(header, &mut cursor) else { panic!("no mapping") };
    assert_eq!((mmap.id, mmap.filename), (MmapId::BuildId(None), b"/bin/x".as_slice()));
}

#[test]
fn kind_11_is_aux_data() {
    check(
        11,
        0,
        "0000000000001000 0000000000000800 0000000000000001",
        &Record::Aux { offset: 0x1000, size: 0x800, flags: 1 },
    );
}

#[test]
fn kind_12_is_the_start_of_a_trace() {
    check(12, 0, "00000064 00000065", &Record::ItraceStart { pid: Pid(100), tid: Tid(101) });
}

#[test]
fn kind_13_is_a_loss_of_samples() {
    check(13, 0, "000000000000004d", &Record::LostSamples { lost: 77 });
}

#[test]
fn kinds_14_and_15_are_switches() {
    check(14, misc::SWITCH_OUT, "", &Record::Switch);
    let switch = Record::SwitchCpuWide { next_prev_pid: Pid(100), next_prev_tid: Tid(-1) };
    check(15, misc::SWITCH_OUT | misc::SWITCH_OUT_PREEMPT, "00000064 ffffffff", &switch);
}

#[test]
fn kind_16_is_a_threads_namespaces() {
    let links = words(&[4, 0xf000_0001, 4, 0xf000_0002]);
    check(
        16,
        0,
        "00000064 00000065 0000000000000002 \
         0000000000000004 00000000f0000001 0000000000000004 00000000f0000002",
        &Record::Namespaces { pid: Pid(100), tid: Tid(101), links: u64s(&links) },
    );
}

#[test]
fn kind_17_is_a_symbol_of_the_kernel() {
    let ksymbol = Ksymbol {
        addr: Addr(0xffff_ffff_c000_0810),
        len: 73,
        ksym_type: Ksymbol::TYPE_BPF,
        flags: Ksymbol::UNREGISTER,
        name: b"bpf_prog_74e0ffd2c5197380_busy",
    };
    check(
        17,
        misc::KERNEL,
        "ffffffffc0000810 00000049 0001 0001 'bpf_prog_74e0ffd2c5197380_busy' 0*2",
        &Record::Ksymbol(ksymbol),
    );
}

#[test]
fn kind_18_is_a_bpf_program() {
    let event = BpfEvent {
        kind: BpfEvent::PROG_LOAD,
        flags: 0,
        id: ProgId(34),
        tag: BpfTag([0x74, 0xe0, 0xff, 0xd2, 0xc5, 0x19, 0x73, 0x80]),
    };
    check(18, 0, "0001 0000 00000022 =74e0ffd2c5197380", &Record::BpfEvent(event));
}

#[test]
fn kind_19_is_a_cgroups_path() {
    check(
        19,
        0,
        "0000000000000931 '/system.slice' 0*3",
        &Record::Cgroup { id: 0x931, path: b"/system.slice" },
    );
}

#[test]
fn kind_20_is_changed_text() {
    let poke = Record::TextPoke {
        addr: Addr(0xffff_ffff_8100_1000),
        old: &[0x0f, 0x1f, 0x44, 0, 0],
        new: &[0xe8, 1, 2, 3, 4],
    };
    check(20, 0, "ffffffff81001000 0005 0005 =0f1f440000 =e801020304 0*2", &poke);
}

#[test]
fn kind_21_is_a_hardware_id() {
    check(21, 0, "00000000deadbeef", &Record::AuxOutputHwId { hw_id: 0xdead_beef });
}

#[test]
fn kind_22_is_the_rest_of_a_call_chain() {
    let ips = words(&[0xffff_ffff_ffff_fe00, 0x40_0100]);
    check(
        22,
        misc::USER,
        "0000000100000002 0000000000000002 fffffffffffffe00 0000000000400100",
        &Record::CallchainDeferred { cookie: 0x1_0000_0002, ips: u64s(&ips) },
    );
}

#[test]
fn kinds_that_nobody_knows_are_carried_through() {
    check(40, 5, "=aaaaaaaaaaaaaaaa", &Record::Unknown(&[0xaa; 8]));
    let none = SampleIdLayout::default();
    let unknown = Record::Unknown(&[0xaa; 16]);
    let fields = "=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    check_all(200, 5, fields, none, &unknown, SampleId::default(), &[]);
}

#[test]
fn a_trailer_has_the_fields_of_its_event_in_the_order_of_the_header() {
    let sample_type = SampleType::TID
        | SampleType::TIME
        | SampleType::ID
        | SampleType::STREAM_ID
        | SampleType::CPU
        | SampleType::IDENTIFIER;
    let flags = AttrFlags::SAMPLE_ID_ALL;
    let layout = SampleIdLayout::new(&Attr { sample_type, flags, ..Attr::default() });
    let id = SampleId { stream_id: Some(9), ..trailer() };
    let fields = "00000064 00000065 00000000499602d2 0000000000000007 0000000000000009 \
                  00000003 00000000 0000000000000007";
    for endian in [Endian::Little, Endian::Big] {
        assert_eq!(layout.split(&bytes(fields, endian), endian), (&[][..], id));
    }
    let mut encoded = Vec::new();
    layout.encode(&id, &mut encoded);
    assert_eq!(encoded, bytes(fields, Endian::NATIVE));
}

#[test]
fn kind_64_is_an_event_in_a_pipe() {
    let attr = Attr {
        kind: 1,
        size: 64,
        config: 2,
        sample_period: 4000,
        sample_type: SampleType::IP | SampleType::TID | SampleType::TIME,
        flags: AttrFlags::FREQ | AttrFlags::SAMPLE_ID_ALL | AttrFlags::BUILD_ID,
        wakeup: 1,
        ..Attr::default()
    };
    let ids = words(&[5, 6]);
    check_user(
        64,
        0,
        "00000001 00000040 0000000000000002 0000000000000fa0 0000000000000007 0000000000000000 \
         @0000000400040400 00000001 00000000 0000000000000000 \
         0000000000000005 0000000000000006",
        UserRecord::HeaderAttr { attr: Box::new(attr), ids: u64s(&ids) },
    );
}

#[test]
fn the_flags_of_an_event_are_bit_fields() {
    // The first byte of a big-endian machine holds `disabled` in its highest bit.
    let attr = Attr { flags: AttrFlags::DISABLED | AttrFlags::MMAP, ..Attr::default() };
    let mut encoded = Vec::new();
    attr.encode(64, &mut encoded);
    let want = if Endian::NATIVE == Endian::Big { [0x80, 0x80] } else { [1, 1] };
    assert_eq!(encoded[40..42], want);
    let mut big = encoded;
    big[40..42].copy_from_slice(&[0x80, 0x80]);
    let got = Attr::decode(&mut Cursor::new(&big, FileOffset(0), Endian::Big)).unwrap();
    assert_eq!(got.flags, AttrFlags::DISABLED | AttrFlags::MMAP);
}

#[test]
fn kind_65_is_room_for_private_data() {
    check_user(65, 0, "=0102030405060708", UserRecord::EventType(&[1, 2, 3, 4, 5, 6, 7, 8]));
}

#[test]
fn kind_66_is_followed_by_formats_of_tracepoints() {
    check_user(66, 0, "00001234 00000000", UserRecord::TracingData { size: 0x1234 });
}

#[test]
fn kind_67_is_a_build_id() {
    let entry = |id: &[u8]| {
        let build_id = BuildId::new(id);
        UserRecord::BuildId(BuildIdEntry { pid: Pid(-1), build_id, filename: b"/bin/x" })
    };
    let id: Vec<u8> = (1..=20).collect();
    let misc = misc::USER | BuildIdEntry::HAS_SIZE;
    check_user(
        67,
        misc,
        "ffffffff =0102030405060708090a0b0c0d0e0f1011121314 14 00 0000 '/bin/x' 0*6",
        entry(&id),
    );
    check_user(
        67,
        misc,
        "ffffffff =0102030405060708 0*12 08 00 0000 '/bin/x' 0*6",
        entry(&id[..8]),
    );
}

#[test]
fn kinds_68_and_82_are_marks() {
    check_user(68, 0, "", UserRecord::FinishedRound);
    check_user(82, 0, "", UserRecord::FinishedInit);
}

#[test]
fn kind_69_says_what_ids_stand_for() {
    let index = words(&[5, 0, 0, 101]);
    check_user(
        69,
        0,
        "0000000000000001 0000000000000005 0000000000000000 0000000000000000 0000000000000065",
        UserRecord::IdIndex(IdIndex { n: 1, words: u64s(&index) }),
    );
}

#[test]
fn kinds_70_to_72_are_of_aux_data() {
    let private = words(&[1, 2]);
    check_user(
        70,
        0,
        "00000001 00000000 0000000000000001 0000000000000002",
        UserRecord::AuxtraceInfo { kind: 1, private: u64s(&private) },
    );
    let auxtrace = Auxtrace {
        size: 0x1000,
        offset: 0x2000,
        reference: 0x3000,
        idx: 1,
        tid: Tid(-1),
        cpu: Cpu(3),
    };
    check_user(
        71,
        0,
        "0000000000001000 0000000000002000 0000000000003000 00000001 ffffffff 00000003 00000000",
        UserRecord::Auxtrace(auxtrace),
    );
    let error = AuxtraceError {
        kind: 1,
        code: 6,
        cpu: Cpu(3),
        pid: Pid(100),
        tid: Tid(101),
        format: 1,
        ip: Addr(0x40_0100),
        time: Nanos(0x1234_5678),
        message: b"overflow",
        guest: None,
    };
    let fields = "00000001 00000006 00000003 00000064 00000065 00000001 0000000000400100 \
                  0000000012345678 'overflow' 0*56";
    check_user(72, 0, fields, UserRecord::AuxtraceError(error));
    let error = AuxtraceError { guest: Some((Pid(9), Cpu(2))), ..error };
    let fields = format!("{fields} 00000009 00000002");
    check_user(72, 0, &fields, UserRecord::AuxtraceError(error));
}

#[test]
fn kind_73_is_the_threads_that_were_asked_for() {
    let threads = vec![
        MappedThread { tid: Tid(-1), comm: b"" },
        MappedThread { tid: Tid(101), comm: b"demo" },
    ];
    check_user(
        73,
        0,
        "0000000000000002 ffffffffffffffff 0*16 0000000000000065 'demo' 0*12",
        UserRecord::ThreadMap(threads),
    );
}

#[test]
fn kind_74_is_the_cpus_that_were_asked_for() {
    let check = |fields, cpus| check_user(74, 0, fields, UserRecord::CpuMap(cpus));
    check("0000 0003 0000 0003 ffff 0*6", CpuMap::List(vec![0, 3, 0xffff]));
    check("0001 0002 0004 00000005 80000000 0*2", CpuMap::Mask32(vec![5, 1 << 31]));
    check("0001 0001 0008 0*4 8000000000000001 0*6", CpuMap::Mask64(vec![1 << 63 | 1]));
    check("0002 01 00 0000 0007", CpuMap::Range { has_any: true, first: 0, last: 7 });
    check("0009 =010203040506", CpuMap::Unknown { kind: 9, data: &[1, 2, 3, 4, 5, 6] });
}

#[test]
fn kinds_75_to_77_are_of_counts() {
    let pairs = words(&[0, 1, 2, 3]);
    check_user(
        75,
        0,
        "0000000000000002 0000000000000000 0000000000000001 0000000000000002 0000000000000003",
        UserRecord::StatConfig { n: 2, pairs: u64s(&pairs) },
    );
    let stat = Stat {
        id: 7,
        cpu_idx: 1,
        thread_idx: 2,
        value: 500,
        enabled: Nanos(0x1000),
        running: Nanos(0xff0),
    };
    check_user(
        76,
        0,
        "0000000000000007 00000001 00000002 00000000000001f4 0000000000001000 0000000000000ff0",
        UserRecord::Stat(stat),
    );
    check_user(
        77,
        0,
        "0000000000000001 0000000012345678",
        UserRecord::StatRound { kind: 1, time: 0x1234_5678 },
    );
}

#[test]
fn kind_78_is_news_of_an_event() {
    check_user(
        78,
        0,
        "0000000000000002 0000000000000007 'cycles' 0*2",
        UserRecord::EventUpdate { kind: 2, id: 7, data: b"cycles\0\0" },
    );
}

#[test]
fn kind_79_turns_the_counter_into_time() {
    let long = TimeConv { shift: 31, mult: 0x2aaa_aaab, zero: 0x1234_5678, short: None };
    let fields = "000000000000001f 000000002aaaaaab 0000000012345678";
    check_user(79, 0, fields, UserRecord::TimeConv(long));
    let short = ShortTimeConv { cycles: 5, mask: 0xff, has_zero: true, is_short: false };
    let fields = format!("{fields} 0000000000000005 00000000000000ff 01 00 0*6");
    let short = TimeConv { short: Some(short), ..long };
    check_user(79, 0, &fields, UserRecord::TimeConv(short));
}

#[test]
fn kind_80_is_a_section_in_a_pipe() {
    check_user(
        80,
        0,
        "0000000000000007 =0200000002000000",
        UserRecord::HeaderFeature { id: 7, data: &[2, 0, 0, 0, 2, 0, 0, 0] },
    );
}

#[test]
fn kinds_81_and_83_are_compressed_records() {
    let frame = &[0x28, 0xb5, 0x2f, 0xfd, 0, 0];
    check_user(
        81,
        0,
        "=28b52ffd00000102",
        UserRecord::Compressed(&[0x28, 0xb5, 0x2f, 0xfd, 0, 0, 1, 2]),
    );
    check_user(83, 0, "0000000000000006 =28b52ffd0000 0*2", UserRecord::Compressed2(frame));
}

#[test]
fn kind_84_is_what_a_bpf_programs_owner_says() {
    let name = "bpf_prog_74e0ffd2c5197380_busy";
    let fields =
        format!("'{name}' 0*482 0000000000000002 'owner' 0*59 'team-net' 0*248 'n' 0*63 '7' 0*255");
    for endian in [Endian::Little, Endian::Big] {
        let body = bytes(&fields, endian);
        assert_eq!(body.len(), 512 + 8 + 2 * (64 + 256));
        let mut cursor = Cursor::new(&body, FileOffset(0), endian);
        let metadata = BpfMetadata::decode(&mut cursor).unwrap();
        assert_eq!(metadata.prog_name, name.as_bytes());
        let entries: Vec<(&[u8], &[u8])> = metadata.entries().collect();
        assert_eq!(entries, [(&b"owner"[..], &b"team-net"[..]), (b"n", b"7")]);
        check_user(84, 0, &fields, UserRecord::BpfMetadata(metadata));
    }
    let entries = [(&b"owner"[..], &b"team-net"[..]), (b"n", b"7")];
    let encoded = BpfMetadata::encode_entries(name.as_bytes(), entries.into_iter());
    assert_eq!(encoded, bytes(&fields, Endian::NATIVE));
}

#[test]
fn kinds_85_and_86_are_of_the_scheduler() {
    let cpu = SchedstatCpu {
        timestamp: 0x1234_5678,
        cpu: Cpu(3),
        version: 17,
        counts: [1, 2, 3, 4, 5, 6],
        totals: [7, 8, 9],
    };
    check_user(
        85,
        0,
        "0000000012345678 00000003 0011 0*2 00000001 00000002 00000003 00000004 00000005 00000006 \
         0000000000000007 0000000000000008 0000000000000009",
        UserRecord::SchedstatCpu(cpu),
    );
    let domain = SchedstatDomain {
        timestamp: 0x1234_5678,
        cpu: Cpu(3),
        version: 17,
        domain: 1,
        counts: vec![5, 6],
    };
    check_user(
        86,
        0,
        "0000000012345678 00000003 0011 0001 00000005 00000006",
        UserRecord::SchedstatDomain(domain),
    );
}
