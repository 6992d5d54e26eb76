//! Samples with each field and with all of them, written by hand from the comment on
//! `PERF_RECORD_SAMPLE` in `include/uapi/linux/perf_event.h`: read in both byte orders, and written.

use bpfperf::perfdata::Attr;
use bpfperf::perfdata::Branches;
use bpfperf::perfdata::Endian;
use bpfperf::perfdata::ReadFormat;
use bpfperf::perfdata::Registers;
use bpfperf::perfdata::Sample;
use bpfperf::perfdata::SampleLayout;
use bpfperf::perfdata::SampleType;
use bpfperf::perfdata::U64s;
use bpfperf::perfdata::UserStack;
use bpfperf::units::Addr;
use bpfperf::units::FileOffset;
use bpfperf::units::Nanos;
use bpfperf::units::Pid;
use bpfperf::units::Tid;

use crate::vector::bytes;

#[track_caller]
fn check_attr(attr: &Attr, fields: &str, want: &Sample<'_>) {
    for endian in [Endian::Little, Endian::Big] {
        let layout = SampleLayout::new(attr, endian);
        let body = bytes(fields, endian);
        assert_eq!(&layout.decode(&body, FileOffset(0)).unwrap(), want, "{endian:?}");
        assert_eq!(layout.callchain(&body).unwrap(), want.callchain, "{endian:?}");
        assert_eq!(layout.ip(&body), want.ip, "{endian:?}");
        assert_eq!(layout.task(&body), want.task, "{endian:?}");
        assert_eq!(layout.time(&body), want.time, "{endian:?}");
        assert_eq!(layout.id(&body), want.id, "{endian:?}");
        assert_eq!(layout.cpu(&body), want.cpu, "{endian:?}");
        if endian == Endian::NATIVE {
            let mut encoded = Vec::new();
            layout.encode(want, &mut encoded);
            assert_eq!(encoded, body);
        }
        for len in 0..body.len() {
            assert!(layout.decode(&body[..len], FileOffset(0)).is_err(), "{endian:?} cut at {len}");
        }
    }
}

#[track_caller]
fn check(sample_type: SampleType, fields: &str, want: &Sample<'_>) {
    check_attr(&Attr { sample_type, ..Attr::default() }, fields, want);
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn u64s(words: &[u8]) -> U64s<'_> {
    U64s::new(words, Endian::NATIVE)
}

fn none() -> Sample<'static> {
    Sample::default()
}

#[test]
fn fields_of_one_word_are_read_by_themselves() {
    let word = "0123456789abcdef";
    let value = Some(0x0123_4567_89ab_cdef);
    check(SampleType::IDENTIFIER, word, &Sample { id: value, ..none() });
    check(SampleType::IP, word, &Sample { ip: value.map(Addr), ..none() });
    let task = Some((Pid(100), Tid(-1)));
    check(SampleType::TID, "00000064 ffffffff", &Sample { task, ..none() });
    check(SampleType::TIME, word, &Sample { time: value.map(Nanos), ..none() });
    check(SampleType::ADDR, word, &Sample { addr: value.map(Addr), ..none() });
    check(SampleType::ID, word, &Sample { id: value, ..none() });
    check(SampleType::STREAM_ID, word, &Sample { stream_id: value, ..none() });
    check(SampleType::CPU, "00000003 00000000", &Sample { cpu: Some(3), ..none() });
    check(SampleType::PERIOD, word, &Sample { period: value, ..none() });
    check(SampleType::WEIGHT, word, &Sample { weight: value, ..none() });
    check(SampleType::WEIGHT_STRUCT, word, &Sample { weight: value, ..none() });
    check(SampleType::DATA_SRC, word, &Sample { data_src: value, ..none() });
    check(SampleType::TRANSACTION, word, &Sample { transaction: value, ..none() });
    check(SampleType::PHYS_ADDR, word, &Sample { phys_addr: value, ..none() });
    check(SampleType::CGROUP, word, &Sample { cgroup: value, ..none() });
    check(SampleType::DATA_PAGE_SIZE, word, &Sample { data_page_size: value, ..none() });
    check(SampleType::CODE_PAGE_SIZE, word, &Sample { code_page_size: value, ..none() });
}

#[test]
fn counter_values_have_the_form_that_the_event_asks_for() {
    let times = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
    let ids = ReadFormat::ID | ReadFormat::LOST;
    let check = |read_format, fields: &str, values: &[u64]| {
        let values = words(values);
        let attr = Attr { sample_type: SampleType::READ, read_format, ..Attr::default() };
        check_attr(&attr, fields, &Sample { read: Some(u64s(&values)), ..none() });
    };
    check(ReadFormat::empty(), "00000000000001f4", &[500]);
    check(
        times | ids,
        "00000000000001f4 0000000000000009 0000000000000008 0000000000000007 0000000000000000",
        &[500, 9, 8, 7, 0],
    );
    check(
        ReadFormat::GROUP | times | ReadFormat::ID,
        "0000000000000002 0000000000000009 0000000000000008 \
         00000000000001f4 0000000000000007 000000000000000a 0000000000000006",
        &[2, 9, 8, 500, 7, 10, 6],
    );
}

#[test]
fn a_call_chain_says_how_long_it_is() {
    let chain = words(&[0xffff_ffff_ffff_ff80, 0xffff_ffff_8100_0000]);
    check(
        SampleType::CALLCHAIN,
        "0000000000000002 ffffffffffffff80 ffffffff81000000",
        &Sample { callchain: Some(u64s(&chain)), ..none() },
    );
    check(
        SampleType::CALLCHAIN,
        "0000000000000000",
        &Sample { callchain: Some(u64s(&[])), ..none() },
    );
}

#[test]
fn raw_data_says_how_long_it_is_with_its_padding() {
    let raw = Some(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 0][..]);
    check(SampleType::RAW, "0000000c =010203040506070809000000", &Sample { raw, ..none() });
}

#[test]
fn branches_may_have_an_index_and_counters() {
    let entries = words(&[0x40_0100, 0x40_0200, 1]);
    let counters = words(&[3]);
    let check = |branch_sample_type, fields, branches| {
        let sample_type = SampleType::BRANCH_STACK;
        let attr = Attr { sample_type, branch_sample_type, ..Attr::default() };
        check_attr(&attr, fields, &Sample { branches: Some(branches), ..none() });
    };
    let plain = Branches { hw_idx: None, entries: u64s(&entries), counters: None };
    check(0, "0000000000000001 0000000000400100 0000000000400200 0000000000000001", plain);
    // `PERF_SAMPLE_BRANCH_HW_INDEX` and `PERF_SAMPLE_BRANCH_COUNTERS`.
    check(
        1 << 17 | 1 << 19,
        "0000000000000001 0000000000000005 \
         0000000000400100 0000000000400200 0000000000000001 0000000000000003",
        Branches { hw_idx: Some(5), counters: Some(u64s(&counters)), ..plain },
    );
}

#[test]
fn registers_are_as_many_as_the_mask_has_bits() {
    let values = words(&[8, 9]);
    let registers = Registers { abi: 2, values: u64s(&values) };
    let nothing = Registers { abi: 0, values: u64s(&[]) };
    let fields = "0000000000000002 0000000000000008 0000000000000009";
    let attr = Attr {
        sample_type: SampleType::REGS_USER,
        sample_regs_user: 0b101,
        sample_regs_intr: 0b1,
        ..Attr::default()
    };
    check_attr(&attr, fields, &Sample { regs_user: Some(registers), ..none() });
    check_attr(&attr, "0000000000000000", &Sample { regs_user: Some(nothing), ..none() });
    let attr = Attr {
        sample_type: SampleType::REGS_INTR,
        sample_regs_user: 0b1,
        sample_regs_intr: 0b101,
        ..Attr::default()
    };
    check_attr(&attr, fields, &Sample { regs_intr: Some(registers), ..none() });
}

#[test]
fn a_stack_says_how_much_of_it_is_real() {
    let stack = UserStack { bytes: &[7; 16], dyn_size: 8 };
    check(
        SampleType::STACK_USER,
        "0000000000000010 =07070707070707070707070707070707 0000000000000008",
        &Sample { stack_user: Some(stack), ..none() },
    );
    // Of no stack there is nothing to say.
    let stack = UserStack { bytes: &[], dyn_size: 0 };
    check(
        SampleType::STACK_USER,
        "0000000000000000",
        &Sample { stack_user: Some(stack), ..none() },
    );
}

#[test]
fn aux_data_says_how_long_it_is() {
    let aux = Some(&[1, 2, 3, 4, 5, 6, 7, 8][..]);
    check(SampleType::AUX, "0000000000000008 =0102030405060708", &Sample { aux, ..none() });
}

#[test]
fn all_fields_stand_in_the_order_of_the_kernel() {
    let read = words(&[500, 7]);
    let chain = words(&[0x40_0100]);
    let entries = words(&[0x40_0100, 0x40_0200, 1]);
    let (user, intr) = (words(&[8, 9]), words(&[10]));
    let attr = Attr {
        sample_type: SampleType::all() - SampleType::WEIGHT,
        read_format: ReadFormat::ID,
        branch_sample_type: 1 << 17,
        sample_regs_user: 0b101,
        sample_regs_intr: 0b1,
        ..Attr::default()
    };
    let sample = Sample {
        ip: Some(Addr(0x40_0100)),
        task: Some((Pid(100), Tid(101))),
        time: Some(Nanos(0x1234_5678)),
        addr: Some(Addr(0x7000)),
        id: Some(7),
        stream_id: Some(9),
        cpu: Some(3),
        period: Some(4000),
        read: Some(u64s(&read)),
        callchain: Some(u64s(&chain)),
        raw: Some(&[0xaa, 0xbb, 0xcc, 0xdd]),
        branches: Some(Branches { hw_idx: Some(5), entries: u64s(&entries), counters: None }),
        regs_user: Some(Registers { abi: 2, values: u64s(&user) }),
        stack_user: Some(UserStack { bytes: &[7; 8], dyn_size: 4 }),
        weight: Some(0x11),
        data_src: Some(0x12),
        transaction: Some(0x13),
        regs_intr: Some(Registers { abi: 2, values: u64s(&intr) }),
        phys_addr: Some(0x14),
        cgroup: Some(0x15),
        data_page_size: Some(0x1000),
        code_page_size: Some(0x2000),
        aux: Some(&[1, 2, 3, 4, 5, 6, 7, 8]),
    };
    check_attr(
        &attr,
        "0000000000000007 0000000000400100 00000064 00000065 0000000012345678 \
         0000000000007000 0000000000000007 0000000000000009 00000003 00000000 \
         0000000000000fa0 \
         00000000000001f4 0000000000000007 \
         0000000000000001 0000000000400100 \
         00000004 =aabbccdd \
         0000000000000001 0000000000000005 0000000000400100 0000000000400200 0000000000000001 \
         0000000000000002 0000000000000008 0000000000000009 \
         0000000000000008 =0707070707070707 0000000000000004 \
         0000000000000011 0000000000000012 0000000000000013 \
         0000000000000002 000000000000000a \
         0000000000000014 0000000000000015 0000000000001000 0000000000002000 \
         0000000000000008 =0102030405060708",
        &sample,
    );
}
