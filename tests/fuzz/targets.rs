//! What the fuzzer calls, and what runs as a test: each reader of bytes that come from others, with
//! input to begin with. None may panic, hang, or ask for much more memory than its input has.

use std::fs;
use std::hint::black_box;
use std::process::Command;
use std::sync::Arc;

use bpfperf::btf::Btf;
use bpfperf::perfdata::BpfMetadata;
use bpfperf::perfdata::Cursor;
use bpfperf::perfdata::Endian;
use bpfperf::perfdata::ReadAt;
use bpfperf::perfdata::Record;
use bpfperf::perfdata::RecordHeader;
use bpfperf::perfdata::RecordWalk;
use bpfperf::perfdata::Section;
use bpfperf::perfdata::bpf_info;
use bpfperf::perfdata::feature::FeatureDecoder;
use bpfperf::perfdata::feature::FeatureId;
use bpfperf::perfdata::private;
use bpfperf::perfdata::trace_format::EventFormat;
use bpfperf::perfdata::tracing_data::TracingData;
use bpfperf::perfdata::tracing_data::printk_formats;
use bpfperf::replay::Recording;
use bpfperf::symbols::ElfCode;
use bpfperf::symbols::ElfModule;
use bpfperf::symbols::Functions;
use bpfperf::symbols::JitDump;
use bpfperf::symbols::Kallsyms;
use bpfperf::symbols::LineTable as _;
use bpfperf::symbols::OwnedBytes;
use bpfperf::symbols::PerfMap;
use bpfperf::symbols::Tables;
use bpfperf::symbols::demangle;
use bpfperf::symbols::skeleton;
use bpfperf::units::Addr;
use bpfperf::units::FileOffset;
use bpfperf::unwind;

use crate::recording;

/// Something that reads bytes.
pub(crate) struct Target {
    /// The name of its program for the fuzzer.
    pub(crate) name: &'static str,
    /// Reads, and forgets.
    pub(crate) run: fn(&[u8]),
    /// Input that it understands, of `tests/fixtures` and of this machine.
    pub(crate) seeds: fn() -> Vec<Vec<u8>>,
}

/// All of them.
pub(crate) const TARGETS: &[Target] = &[
    Target { name: "recording", run: recording::run, seeds: recordings },
    Target { name: "records", run: records, seeds: recordings },
    Target { name: "features", run: features, seeds: feature_sections },
    Target { name: "btf", run: btf, seeds: btfs },
    Target { name: "program_info", run: program_info, seeds: program_infos },
    Target { name: "trace_format", run: trace_format, seeds: formats },
    Target { name: "kallsyms", run: kallsyms, seeds: kallsyms_texts },
    Target { name: "perf_map", run: perf_map, seeds: perf_maps },
    Target { name: "jitdump", run: jitdump, seeds: jitdumps },
    Target { name: "elf", run: elf, seeds: programs },
    Target { name: "dwarf", run: dwarf, seeds: programs },
    Target { name: "unwind", run: unwind, seeds: programs },
    Target { name: "names", run: names, seeds: mangled },
];

/// Each record of a stream by itself, in both byte orders.
fn records(bytes: &[u8]) {
    for endian in [Endian::Little, Endian::Big] {
        let section = Section { offset: 0, size: bytes.len() as u64 };
        let mut walk = RecordWalk::new(&bytes, section, endian);
        let mut parts = private::Assembler::default();
        while let Ok(Some(raw)) = walk.next() {
            record(raw.header, raw.body, endian, &mut parts);
        }
    }
}

/// One record, as whatever it may be.
fn record(header: RecordHeader, body: &[u8], endian: Endian, parts: &mut private::Assembler) {
    let cursor = || Cursor::new(body, FileOffset(8), endian);
    let _ = black_box(Record::decode(header, &mut cursor()));
    let _ = black_box(BpfMetadata::decode(&mut cursor()));
    let _ = black_box(parts.push(body, FileOffset(8), endian));
}

/// The section whose number the first byte is.
fn features(bytes: &[u8]) {
    let Some((id, section)) = bytes.split_first() else { return };
    for endian in [Endian::Little, Endian::Big] {
        let decoded = FeatureDecoder::new(endian).decode(FeatureId(*id), section, FileOffset(0));
        let Ok(feature) = decoded else { continue };
        // What was read is written again, and read as the same.
        let mut again = Vec::new();
        feature.encode(&mut again);
        black_box(again);
    }
    let _ = black_box(TracingData::decode(section, FileOffset(0)));
    black_box(printk_formats(section).count());
}

fn btf(bytes: &[u8]) {
    let Ok(btf) = Btf::parse(bytes.to_vec()) else { return };
    for id in 0..64 {
        black_box(btf.function_name(id));
        black_box(btf.fields(id).take(64).count());
        black_box(btf.variables(id).take(64).count());
        black_box(btf.len_of(id));
        black_box(btf.print(id, bytes, 512));
        black_box(btf.describe(id));
        black_box(btf.encode(id, "1"));
    }
    black_box(btf.part(&[1, 2, 3]));
}

fn program_info(bytes: &[u8]) {
    for endian in [Endian::Little, Endian::Big] {
        let cursor = || Cursor::new(bytes, FileOffset(0), endian);
        let Ok(infos) = bpf_info::decode_prog_infos(cursor()) else { continue };
        for info in infos {
            black_box((info.id(), info.name(), info.tag(), info.btf_id(), info.n_functions()));
            for array in bpf_info::ProgArray::ALL {
                black_box(info.array(array));
            }
            let mut again = Vec::new();
            info.encode(&mut again);
            black_box(again);
        }
        let _ = black_box(bpf_info::decode_btfs(cursor()));
    }
}

fn trace_format(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for long_len in [4, 8] {
        if let Some(format) = EventFormat::parse(&text, long_len) {
            black_box(format.own_fields().len());
        }
    }
}

fn kallsyms(bytes: &[u8]) {
    if let Ok(table) = Kallsyms::parse(bytes) {
        for addr in some_addresses(bytes) {
            black_box(table.find(addr).and_then(|it| table.symbol(it)));
        }
    }
    let _ = black_box(Kallsyms::of_vmlinux(bytes));
}

fn perf_map(bytes: &[u8]) {
    let map = PerfMap::parse(bytes);
    for addr in some_addresses(bytes) {
        black_box(map.find(addr).and_then(|it| map.symbol(it)));
    }
}

fn jitdump(bytes: &[u8]) {
    if let Ok(dump) = JitDump::parse(bytes) {
        black_box(dump.unshared().len());
    }
}

fn elf(bytes: &[u8]) {
    // The whole is a file and its own debug file; half of it is one and half the other.
    let (half, other) = bytes.split_at(bytes.len() / 2);
    for (file, debug) in [(bytes, None), (bytes, Some(bytes)), (half, Some(other))] {
        if let Ok(module) = ElfModule::parse(file, debug) {
            for addr in some_addresses(bytes) {
                black_box(module.find(addr).and_then(|it| module.symbol(it)));
            }
        }
    }
    if let Ok(functions) = Functions::parse(bytes, None) {
        black_box(functions.offset("work"));
    }
    for tables in [Tables::Names, Tables::NamesAndFrames] {
        let Ok(kept) = skeleton(bytes, tables, 1 << 20) else { continue };
        if let Ok(module) = ElfModule::parse(&kept, None) {
            black_box(module.table().len());
        }
    }
}

fn dwarf(bytes: &[u8]) {
    let whole = Arc::new(bytes.to_vec());
    for debug in [None, Some(Arc::clone(&whole) as OwnedBytes)] {
        let Ok(code) = ElfCode::parse(Arc::clone(&whole) as OwnedBytes, debug) else { return };
        let Some(lines) = code.lines() else { continue };
        let mut frames = Vec::new();
        for addr in some_addresses(bytes) {
            lines.frames(addr, &mut frames);
            black_box(lines.at(addr));
        }
        black_box(frames.len());
    }
}

fn unwind(bytes: &[u8]) {
    let Ok(code) = ElfCode::parse(Arc::new(bytes.to_vec()), None) else { return };
    let Some(table) = unwind::Table::new(&code) else { return };
    let mut context = unwind::Context::default();
    for addr in some_addresses(bytes) {
        black_box(table.row(addr, &mut context));
    }
}

fn names(bytes: &[u8]) {
    black_box(demangle(&String::from_utf8_lossy(bytes)));
}

/// Addresses that something may lie at: those of the code of [`programs`], and numbers of the input.
fn some_addresses(bytes: &[u8]) -> impl Iterator<Item = Addr> {
    let wild = bytes.chunks_exact(8).step_by(1 + bytes.len() / 512).filter_map(<[u8]>::first_chunk);
    let code = (0x40_1000..0x40_1100).step_by(7);
    code.map(Addr).chain(wild.map(|it| Addr(u64::from_le_bytes(*it)))).chain([Addr(0), Addr(!0)])
}

macro_rules! fixtures {
    ($($name:literal),* $(,)?) => { vec![$(include_bytes!(concat!("../fixtures/", $name)).to_vec()),*] };
}

fn recordings() -> Vec<Vec<u8>> {
    fixtures![
        "recordings/bpfperf-bill.data",
        "recordings/bpfperf-bpf.data",
        "recordings/bpfperf-pipe.data",
        "recordings/perf-6.1-one.data",
        "recordings/perf-7.3-bpf-during.data",
        "recordings/perf-7.3-pipe.data",
        "header/perf-7.3.data",
        "compressed/bpfperf.data",
        "compressed/perf-6.1.data",
    ]
}

/// Each section of the recordings, behind its number.
fn feature_sections() -> Vec<Vec<u8>> {
    let mut sections = Vec::new();
    for bytes in recordings() {
        let input: &dyn ReadAt = &bytes.as_slice();
        let recording = Recording::open(input).expect("a recording");
        for section in recording.features {
            let Ok(feature) = section.content else { continue };
            let mut bytes = vec![section.id.0];
            feature.encode(&mut bytes);
            sections.push(bytes);
        }
    }
    sections
}

fn btfs() -> Vec<Vec<u8>> {
    // Behind its number and its length.
    fixtures!["bpf/btf.perf-7.3.bin"].into_iter().map(|it: Vec<u8>| it[12..].to_vec()).collect()
}

fn program_infos() -> Vec<Vec<u8>> {
    fixtures!["bpf/prog_info.perf-7.3.bin", "bpf/btf.perf-7.3.bin"]
}

fn formats() -> Vec<Vec<u8>> {
    let text = "name: demo\nID: 7\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:__data_loc char[] name;\toffset:24;\tsize:4;\tsigned:0;\n\
        \tfield:long state;\toffset:32;\tsize:8;\tsigned:1;\n\n\
        print fmt: \"comm=%s name=%s state=%s %*ph\", REC->comm, __get_str(name), \
        REC->state & ((1 << 3) - 1) ? __print_flags(REC->state & 7, \"|\", {1, \"S\"}, {2, \"D\"}) : \
        __print_symbolic(REC->state, { 0x0, \"R\" }, { (u32)-1, \"?\" }), 4, __get_dynamic_array(name)\n";
    vec![text.as_bytes().to_vec()]
}

fn kallsyms_texts() -> Vec<Vec<u8>> {
    let text = "ffffffff81000000 T _stext\nffffffff81000100 t foo.cold\nffffffff81000180 D data\n\
        ffffffffc0000000 t go\t[module]\nffffffffc0100000 t bpf_prog_0123456789abcdef_x\t[bpf]\n\
        0000000000401000 T here\nffffffff82000000 A __init_end\n";
    vec![text.as_bytes().to_vec()]
}

fn perf_maps() -> Vec<Vec<u8>> {
    let text = "401000 40 LazyCompile:~f a.js:1\n401040 0x20 g\n0x401010 30 over both\n7f0000000000 1000 x y z\n";
    vec![text.as_bytes().to_vec()]
}

fn jitdumps() -> Vec<Vec<u8>> {
    let mut dump = Vec::new();
    let mut put = |numbers: &[u64], wide: &[bool]| {
        for (number, is_wide) in numbers.iter().zip(wide) {
            let len = if *is_wide { 8 } else { 4 };
            dump.extend_from_slice(&number.to_le_bytes()[..len]);
        }
    };
    let (w, n) = (true, false);
    // The header, and of each record its own: kind, length, time.
    put(&[0x4a69_5444, 1, 40, 62, 0, 7, 1, 0], &[n, n, n, n, n, n, w, w]);
    let name = u64::from_le_bytes(*b"jitted\0\x90");
    for (idx, at) in [(0, 0x40_1000), (1, 0x40_1040), (2, 0x40_1020)] {
        put(&[0, 64, 5 + idx], &[n, n, w]);
        put(&[7, 7, at, at, 1, idx, name], &[n, n, w, w, w, w, w]);
    }
    put(&[1, 64, 9, 7, 7, 0x40_1000, 0x40_1000, 0x40_1080, 1, 0], &[n, n, w, n, n, w, w, w, w, w]);
    put(&[3, 16, 11], &[n, n, w]);
    vec![dump]
}

/// A program in the ways that linkers and compilers write one.
fn programs() -> Vec<Vec<u8>> {
    let source = "static inline __attribute__((always_inline)) int twice(int a) { return a * a + 1; }\n\
        __attribute__((noinline)) int work(int a) { return twice(a) + twice(a + 1); }\n\
        int more(int a) { return a ? work(a) - 1 : 0; }\n\
        void _start(void) { for (volatile int i = 0; i < 9; i++) more(i); for (;;); }\n";
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("a.c"), source).expect("a source");
    let flags: [&[&str]; 5] = [
        &["-gdwarf-5", "-static"],
        &["-gdwarf-4", "-static", "-Wl,--build-id"],
        &["-gdwarf-5", "-static", "-gz"],
        &["-g1", "-static", "-m32"],
        &["-gdwarf-4", "-shared", "-fPIC", "-fdebug-types-section"],
    ];
    let make = |flags: &&[&str]| {
        let mut gcc = Command::new("gcc");
        gcc.current_dir(dir.path()).args(["-O2", "-nostdlib", "-fno-stack-protector", "-o", "a"]);
        let made = gcc.args(*flags).arg("a.c").output().expect("gcc");
        assert!(made.status.success(), "{flags:?}: {}", String::from_utf8_lossy(&made.stderr));
        fs::read(dir.path().join("a")).expect("what was made")
    };
    let mut all: Vec<_> = flags.iter().map(make).collect();
    // Of Go, whose table names all that has no symbols.
    fs::write(dir.path().join("a.c"), GO).expect("a source");
    all.extend(
        [&["-static", "-s", "-xassembler"], &["-static-pie", "-s", "-xassembler"]]
            .map(|it| make(&&it[..])),
    );
    all
}

/// Two functions with the table that Go 1.20 has of them, in assembly: into the first another one is inlined.
const GO: &str = "\
.text
.globl _start
_start:
text: .fill 64, 1, 0x90
f1: .fill 192, 1, 0x90
etext:
.section .data.rel.ro,\"aw\"
.balign 16
table: .long 0xfffffff1
.byte 0, 0, 1, 8
.quad 2, 1, 0, names - table, units - table, files - table, values - table, infos - table
names: .asciz \"main.main\"
name1: .asciz \"main.(*T).Work\"
name2: .asciz \"main.inner\"
.balign 4
units: .long 0
files: .asciz \"/src/main.go\"
values: .byte 0
stack: .byte 2, 64, 0
file: .byte 2, 64, 0
line: .byte 20, 16, 8, 16, 3, 32, 0
inlines: .byte 0, 16, 2, 16, 1, 32, 0
.balign 8
infos: .long 0, info0 - infos, f1 - text, info1 - infos, etext - text
info0: .long 0, 0, 0, 0, stack - values, file - values, line - values, 3, 0, 1
.byte 0, 0, 0, 4
.long 0, 0, inlines - values, -1, -1, -1, tree - gofunc
info1: .long f1 - text, name1 - names, 0, 0, stack - values, file - values, line - values, 0, 0, 1
.byte 0, 0, 0, 0
.section .rodata
gofunc: .quad 0
tree: .long 0, name2 - names, 4, 1
.section .noptrdata,\"aw\"
.balign 8
.fill 16
.quad table
.fill 152
.quad text, etext, text, etext
.fill 128
.quad gofunc
.fill 64
";

fn mangled() -> Vec<Vec<u8>> {
    let names = [
        "_ZNSt6vectorIiSaIiEE9push_backERKi",
        "_ZZ4mainENKUlT_T0_E_clIidEEDaS_S0_",
        "_RNvNtCs1234_7mycrate3foo3bar",
        "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE",
        "_ZN1AIXadL_ZN1B1CEvEEEC1ISt17basic_string_viewIcSt11char_traitsIcEEEERKT_",
    ];
    names.map(|it| it.as_bytes().to_vec()).into()
}
