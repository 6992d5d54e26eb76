//! Recordings on which other readers have failed. The number at the end of each test's comment is
//! that of the public report it restates.

use bpfperf::perfdata::Endian;

use crate::build::Build;
use crate::build::CALLCHAIN;
use crate::command::Ran;
use crate::command::run_with;

/// What `script` prints of the recording that [`Build::demo`] makes.
const DEMO: &str = "
            demo     100     1.000000:       1000 cpu-clock:            400100 [unknown] (/nonexistent/demo)
            demo     100     1.001000:       1000 cpu-clock:            400101 [unknown] (/nonexistent/demo)
            demo     100     1.002000:       1000 cpu-clock:            400102 [unknown] (/nonexistent/demo)
            demo     100     1.003000:       1000 cpu-clock:            400103 [unknown] (/nonexistent/demo)
            demo     100     1.004000:       1000 cpu-clock:            400104 [unknown] (/nonexistent/demo)
";

fn script(file: &[u8]) -> Ran {
    run_with(["script", "-i", "-"], file)
}

/// Checks what `script` prints of `file`, and what it says; the first line end of `stdout` is there
/// for the looks.
#[track_caller]
fn check(file: &[u8], stdout: &str, stderr: &str) {
    let ran = script(file);
    assert_eq!(ran.stdout, stdout.strip_prefix('\n').unwrap_or(stdout));
    assert_eq!((ran.stderr.as_str(), ran.status), (stderr, Some(0)));
}

/// Checks that `script` refuses `file`, and prints nothing of it.
#[track_caller]
fn check_refused(file: &[u8], because: &str) {
    let ran = script(file);
    assert_eq!(ran.stderr, format!("error: cannot read `-`\n  because: {because}\n"));
    assert_eq!((ran.stdout.as_str(), ran.status), ("", Some(1)));
}

#[test]
fn bpf_code_outside_of_the_kernels_map_keeps_its_chain() {
    // A06
    let mut build = Build { more_fields: CALLCHAIN, ..Build::new() };
    build.comm(100, b"demo").mmap(100, 0x40_0000, 0x1000, "/nonexistent/demo", 0);
    build.kernel(0xffff_8000_1000_0000, 0x100_0000);
    build.ksymbol(0xffff_8000_7a00_0000, 0x100, 1, "bpf_prog_0a1de85aa6da7d58_foo");
    let (kernel, user) = (0u64.wrapping_sub(128), 0u64.wrapping_sub(512));
    build.chain(
        1_000_000_000,
        &[kernel, 0xffff_8000_1000_0100, 0xffff_8000_7a00_0020, user, 0x40_0100],
    );
    check(
        &build.file(),
        "
demo     100     1.000000:       1000 cpu-clock: 
\tffff800010000100 [unknown] ([kernel.kallsyms])
\tffff80007a000020 bpf_prog_0a1de85aa6da7d58_foo+0x20 (bpf_prog_0a1de85aa6da7d58_foo)
\t          400100 [unknown] (/nonexistent/demo)

",
        "",
    );
}

#[test]
fn a_program_that_only_perfs_sections_know_is_named_while_no_other_is_there() {
    // What perf writes of a program that another task loads: no record, but its sections.
    let raw = |bytes: &[u8]| {
        let digits: Vec<String> = bytes.iter().map(|it| format!("{it:02x}")).collect();
        format!("={}", digits.concat())
    };
    let info = include_bytes!("../fixtures/bpf/prog_info.perf-7.3.bin");
    let btf = include_bytes!("../fixtures/bpf/btf.perf-7.3.bin");
    let mut build = Build { endian: Endian::Little, ..Build::new() };
    build.features = vec![(25, raw(info), None), (26, raw(btf), None)];
    build.comm(100, b"demo").kernel(0xffff_ffff_8100_0000, 0x100_0000);
    // The sections say 49 bytes at ..5c7c and 27 bytes at ..5cd8.
    for (n, ip) in [0x5c7b, 0x5c7c, 0x5cac, 0x5cad, 0x5cd8].into_iter().enumerate() {
        let time = 1_000_000_000 + 1_000_000 * n as u64;
        build.kernel_sample(0xffff_ffff_c002_0000 + ip, time, 1000);
    }
    let script =
        |build: &Build| run_with(["script", "-F", "time,ip,sym", "-i", "-"], &build.file());
    let names = "
    1.000000:  ffffffffc0025c7b [unknown]
    1.001000:  ffffffffc0025c7c bpf_prog_d660839495721fc0_a_name_of_more_than_fifteen_bytes
    1.002000:  ffffffffc0025cac bpf_prog_d660839495721fc0_a_name_of_more_than_fifteen_bytes
    1.003000:  ffffffffc0025cad [unknown]
    1.004000:  ffffffffc0025cd8 bpf_prog_3ad6c7b75bc9f775_add_three
";
    assert_eq!(script(&build).stdout, names[1..]);
    // Where another program was at its place, nothing tells which of them was there first.
    let symbol = |flags: &str, time: u64| {
        format!(
            "ffffffffc0025c80 00000010 0001 {flags} \
             'bpf_prog_0000000000000007_other' 0*1 0*8 {time:016x}"
        )
    };
    build.record(17, 1, &symbol("0000", 2_000_000_000));
    build.kernel_sample(0xffff_ffff_c002_5c84, 2_000_000_001, 1000);
    build.record(17, 1, &symbol("0001", 3_000_000_000));
    let names = "
    1.000000:  ffffffffc0025c7b [unknown]
    1.001000:  ffffffffc0025c7c [unknown]
    1.002000:  ffffffffc0025cac [unknown]
    1.003000:  ffffffffc0025cad [unknown]
    1.004000:  ffffffffc0025cd8 [unknown]
    2.000000:  ffffffffc0025c84 bpf_prog_0000000000000007_other
";
    assert_eq!(script(&build).stdout, names[1..]);
}

#[test]
fn a_sample_or_a_chain_that_is_cut_is_counted_and_never_made_up() {
    let mut build = Build { more_fields: CALLCHAIN, ..Build::new() };
    build.comm(100, b"demo");
    build.chain(1_000_000_000, &[0x40_0100]);
    // A sample of an address and nothing else; and one whose chain claims 9 entries and has none.
    build.record(9, 2, "0000000000400100");
    let fields = "0000000000400100 00000064 00000064 000000003b9aca01 00000000000003e8";
    build.record(9, 2, &format!("{fields} 0000000000000009"));
    let file = build.file();
    let told = "warning: 2 records could not be decoded\n";
    let ran = run_with(["report", "-g", "caller", "-n", "-q", "-i", "-"], &file);
    assert_eq!(ran.stderr, "", "-q is for silence");
    let ran = run_with(["report", "-i", "-"], &file);
    assert!(ran.stdout.contains("# Samples: 2  of event 'cpu-clock'"), "{}", ran.stdout);
    assert_eq!((ran.stderr.as_str(), ran.status), (told, Some(0)));
    let ran = script(&file);
    assert_eq!(ran.stdout.matches("cpu-clock").count(), 2, "{}", ran.stdout);
    assert_eq!((ran.stderr.as_str(), ran.status), (told, Some(0)));
}

#[test]
fn symbols_of_the_kernel_end_where_they_say() {
    // A07
    let mut build = Build::new();
    build.comm(100, b"demo").kernel(0xffff_ffff_8100_0000, 0x100_0000);
    build.ksymbol(0xffff_ffff_c010_0000, 0x40, 1, "bpf_prog_07df9015606e4140");
    build.ksymbol(0xffff_ffff_c010_1000, 0x40, 2, "bpf_trampoline_6442536462");
    build.ksymbol(0xffff_ffff_c010_2000, 0x40, 1, "bpf_dispatcher_xdp");
    let ips = [0x10_0008, 0x10_1008, 0x10_2008, 0x10_2040, 0xa0_0000];
    for ip in ips {
        build.kernel_sample(0xffff_ffff_c000_0000 + ip, 1_000_000_000, 1000);
    }
    check(
        &build.file(),
        "
            demo     100     1.000000:       1000 cpu-clock:  ffffffffc0100008 bpf_prog_07df9015606e4140+0x8 (bpf_prog_07df9015606e4140)
            demo     100     1.000000:       1000 cpu-clock:  ffffffffc0101008 bpf_trampoline_6442536462+0x8 (bpf_trampoline_6442536462)
            demo     100     1.000000:       1000 cpu-clock:  ffffffffc0102008 bpf_dispatcher_xdp+0x8 (bpf_dispatcher_xdp)
            demo     100     1.000000:       1000 cpu-clock:  ffffffffc0102040 [unknown] ([unknown])
            demo     100     1.000000:       1000 cpu-clock:  ffffffffc0a00000 [unknown] ([unknown])
",
        "",
    );
}

#[test]
fn thousands_of_bpf_records_are_no_noise() {
    // A03, A11
    let mut build = Build::new();
    build.comm(100, b"demo");
    for id in 0..5000_u32 {
        let addr = 0xffff_ffff_c010_0000 + u64::from(id) * 0x100;
        let name = format!("bpf_prog_{:016x}_p{id}", u64::from(id));
        build.ksymbol(addr, 0x40, 1, &name).bpf_event(id, u64::from(id));
    }
    build.kernel_sample(0xffff_ffff_c010_0000 + 4999 * 0x100 + 4, 1_000_000_000, 1000);
    check(
        &build.file(),
        "
            demo     100     1.000000:       1000 cpu-clock:  ffffffffc0238704 bpf_prog_0000000000001387_p4999+0x4 (bpf_prog_0000000000001387_p4999)
",
        "",
    );
}

#[test]
fn a_flood_of_unknown_records_is_one_line() {
    // A11
    let mut build = Build::demo(Endian::NATIVE);
    for _ in 0..10_000 {
        build.record(200, 0, "=aaaaaaaaaaaaaaaa");
    }
    check(&build.file(), DEMO, "warning: 10000 records of unknown type 200 skipped\n");
}

#[test]
fn a_pipe_says_what_a_file_says() {
    // B02
    check(&Build::demo(Endian::Little).pipe(), DEMO, "");
    check(&Build::demo(Endian::Big).pipe(), DEMO, "");
}

#[test]
fn the_byte_order_is_told_by_the_magic() {
    // B05
    check(&Build::demo(Endian::Little).file(), DEMO, "");
    check(&Build::demo(Endian::Big).file(), DEMO, "");
}

#[test]
fn recordings_of_the_first_version_are_read_in_both_byte_orders() {
    for endian in [Endian::Little, Endian::Big] {
        let mut build = Build::demo(endian);
        build.attr_size = 64;
        let mut file = build.file();
        file[..8].copy_from_slice(b"PERFFILE");
        assert_eq!(script(&file).stdout, DEMO.trim_start_matches('\n'), "{endian:?}");
    }
}

#[test]
fn a_killed_recorders_file_is_read_as_far_as_it_goes() {
    // B06
    let demo = Build::demo(Endian::NATIVE);
    let unfinished = "warning: `-` was not finished by its recorder: \
                      it is read up to its last whole record\n";
    check(&Build { data_size: Some(0), ..demo.clone() }.file(), DEMO, unfinished);
    // Ours counts what it has written by then, and has no features; it begins with the ids.
    let mut counted = Build { records: Vec::new(), ..demo.clone() };
    counted.record(69, 0, "0000000000000000");
    counted.records.extend(&demo.records);
    check(&counted.file(), DEMO, unfinished);
    let four: String = DEMO.split_inclusive('\n').take(5).collect();
    let file = demo.file();
    check(
        &file[..file.len() - 13],
        &four,
        "warning: 27 bytes dropped at the end, no whole record, 13 bytes missing at the end\n",
    );
    // A file cut between two records is cut all the same.
    check(&file[..file.len() - 40], &four, "warning: 40 bytes missing at the end\n");
    let endless = Build { data_size: Some(1 << 40), ..demo }.file();
    let missing = (1_u64 << 40) - (endless.len() as u64 - 248);
    check(&endless, DEMO, &format!("warning: {missing} bytes missing at the end\n"));
    check_refused(&file[..50], "header data section at byte 0x30 needs 8 bytes, only 2 left");
    check_refused(b"", "it is empty");
}

#[test]
fn a_string_of_four_gigabytes_damages_its_section_alone() {
    // B07
    let mut build = Build::demo(Endian::NATIVE);
    build.features.push((3, "fffffff0 'abcdefghijkl'".to_owned(), None));
    check(
        &build.file(),
        DEMO,
        "warning: the header of `-` lacks HOSTNAME: host name at byte 0x26c needs 4294967280 \
         bytes, only 12 left\n",
    );
}

#[test]
fn a_table_of_features_that_is_missing_or_wild_costs_no_sample() {
    // B08
    let mut build = Build::demo(Endian::NATIVE);
    build.features.push((2, String::new(), Some((0x50_0001_0000_0001, 0xffff_ffff))));
    check(
        &build.file(),
        DEMO,
        "warning: the header of `-` lacks BUILD_ID: feature section at byte 0x50000100000001 \
         needs 4294967295 bytes, only 0 left\n",
    );
    build.has_table = false;
    check(
        &build.file(),
        DEMO,
        "warning: the header of `-` lacks BUILD_ID: feature section at byte 0x258 needs 8 bytes, \
         only 0 left\n",
    );
}

#[test]
fn a_build_id_may_be_of_any_length_up_to_twenty() {
    // B09
    let print = |id: &str| {
        let mut build = Build::new();
        build.comm(100, b"demo");
        build.mmap_with(100, 0x40_0000, 0x1000, "/nonexistent/demo", 0, 2 | 1 << 14, id);
        let ran = run_with(["script", "--show-mmap-events", "-i", "-"], &build.file());
        assert_eq!((ran.stderr.as_str(), ran.status), ("", Some(0)));
        ran.stdout
    };
    assert_eq!(
        print("08 0*3 =0123456789abcdef 0*12"),
        "            demo     100     0.000000: PERF_RECORD_MMAP2 100/100: [0x400000(0x1000) @ 0 \
         <0123456789abcdef>]: r-xp /nonexistent/demo\n"
    );
    assert_eq!(
        print("ff 0*3 =0123456789abcdef 0*12"),
        "            demo     100     0.000000: PERF_RECORD_MMAP2 100/100: [0x400000(0x1000) @ 0 \
         <>]: r-xp /nonexistent/demo\n"
    );
}

#[test]
fn an_attribute_of_any_size_is_read() {
    // B10
    for attr_size in [64, 72, 80, 96, 104, 112, 120, 128, 136, 144, 152, 4096] {
        let build = Build { attr_size, ..Build::demo(Endian::NATIVE) };
        check(&build.file(), DEMO, "");
        check(&build.pipe(), DEMO, "");
    }
    let mut attr_tail = vec![0; 88];
    attr_tail[87] = 1;
    let build = Build { attr_size: 152, attr_tail, ..Build::demo(Endian::NATIVE) };
    check(
        &build.file(),
        DEMO,
        "warning: the events of `-` have fields that this version does not know\n",
    );
}

#[test]
fn unknown_records_end_nothing() {
    // B11
    let mut build = Build::demo(Endian::NATIVE);
    build.record(200, 0, "=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa").record(99, 0, "=bbbbbbbbbbbbbbbb");
    build.sample(100, 0x40_0200, 2_000_000_000, 1000);
    let sixth = "            demo     100     2.000000:       1000 cpu-clock:            400200 \
                 [unknown] (/nonexistent/demo)\n";
    check(
        &build.file(),
        &format!("{DEMO}{sixth}"),
        "warning: 1 records of unknown type 99 skipped, 1 records of unknown type 200 skipped\n",
    );
}

#[test]
fn a_record_that_leads_nowhere_ends_the_reading() {
    // B12
    for size in [0, 4, 7] {
        let mut file = Build::demo(Endian::NATIVE).file();
        let at = file.len();
        let mut build = Build::demo(Endian::NATIVE);
        build.record(9, 2, "=aaaaaaaaaaaaaaaa").sample(100, 0x40_0200, 2_000_000_000, 1000);
        file = build.file();
        file[at + 6] = size;
        check_refused(
            &file,
            &format!("record at byte {at:#x} has size {size}, less than its header of 8 bytes"),
        );
    }
}

#[test]
fn records_are_shown_and_count_in_the_order_of_their_times() {
    // B13
    let mut build = Build::new();
    build.comm(100, b"demo").mmap(100, 0x40_0000, 0x1000, "/nonexistent/demo", 0);
    for second in [3, 1, 2] {
        build.sample(100, 0x40_0100 + second, second * 1_000_000_000, 1000);
    }
    check(
        &build.file(),
        "
            demo     100     1.000000:       1000 cpu-clock:            400101 [unknown] (/nonexistent/demo)
            demo     100     2.000000:       1000 cpu-clock:            400102 [unknown] (/nonexistent/demo)
            demo     100     3.000000:       1000 cpu-clock:            400103 [unknown] (/nonexistent/demo)
",
        "",
    );
    let mut build = Build::new();
    build.comm(100, b"demo").sample(100, 0x40_0100, 2_000_000_000, 1000);
    build.mmap(100, 0x40_0000, 0x1000, "/nonexistent/demo", 1_000_000_000);
    check(
        &build.file(),
        "
            demo     100     2.000000:       1000 cpu-clock:            400100 [unknown] (/nonexistent/demo)
",
        "",
    );
}

#[test]
fn a_mapping_told_by_every_thread_is_one() {
    // B14
    let mut build = Build::new();
    build.comm(100, b"demo");
    for _ in 0..64 {
        build.mmap(100, 0x40_0000, 0x1000, "/nonexistent/demo", 0);
    }
    build.sample(100, 0x40_0100, 1_000_000_000, 1000);
    let report = run_with(["report", "-i", "-"], &build.file());
    let rows: Vec<&str> = report.stdout.lines().filter(|it| it.contains('%')).collect();
    let [row] = rows[..] else { panic!("{}", report.stdout) };
    assert_eq!(row.trim_end(), "   100.00%  demo     demo              [.] 0x0000000000000100");
}

#[test]
fn losses_are_told() {
    // D06
    let mut build = Build::demo(Endian::NATIVE);
    build.record(2, 0, "0*8 00000000000004d2 0*16").record(13, 0, "000000000000004d 0*16");
    let told = "warning: 1234 records lost, 77 samples lost\n";
    check(&build.file(), DEMO, told);
    let report = run_with(["report", "-i", "-"], &build.file());
    assert_eq!((report.stderr.as_str(), report.status), (told, Some(0)));
    assert!(report.stdout.contains("# Total Lost Samples: 77\n"), "{}", report.stdout);
}

#[test]
fn a_name_is_one_word_of_one_line_whatever_is_in_it() {
    // E01, E02
    let names: [&[u8]; 8] =
        [b"a b", b"x: y", b"[wk 0]", b"nl\nnl", b"\xff\xfe", b"", b"\x1b[31mred", b"\xc3\xa9"];
    let mut build = Build::new();
    for (pid, name) in (200..).zip(names) {
        build.comm(pid, name).mmap(pid, 0x40_0000, 0x1000, "/opt/My App/bin (v2)/prog", 0);
        build.sample(pid, 0x40_0100, 1_000_000_000, 1000);
    }
    check(
        &build.file(),
        "
             a b     200     1.000000:       1000 cpu-clock:            400100 [unknown] (/opt/My App/bin (v2)/prog)
            x: y     201     1.000000:       1000 cpu-clock:            400100 [unknown] (/opt/My App/bin (v2)/prog)
          [wk 0]     202     1.000000:       1000 cpu-clock:            400100 [unknown] (/opt/My App/bin (v2)/prog)
          nl\\nnl     203     1.000000:       1000 cpu-clock:            400100 [unknown] (/opt/My App/bin (v2)/prog)
        \\xff\\xfe     204     1.000000:       1000 cpu-clock:            400100 [unknown] (/opt/My App/bin (v2)/prog)
            :205     205     1.000000:       1000 cpu-clock:            400100 [unknown] (/opt/My App/bin (v2)/prog)
     \\x1b[31mred     206     1.000000:       1000 cpu-clock:            400100 [unknown] (/opt/My App/bin (v2)/prog)
              \u{e9}     207     1.000000:       1000 cpu-clock:            400100 [unknown] (/opt/My App/bin (v2)/prog)
",
        "",
    );
}

#[test]
fn a_thread_keeps_its_name_after_its_end() {
    let mut build = Build::new();
    build.comm(100, b"demo").mmap(100, 0x40_0000, 0x1000, "/nonexistent/demo", 0);
    build.exit(100, 1_000_000_000).sample(100, 0x40_0100, 2_000_000_000, 1000);
    check(
        &build.file(),
        "
            demo     100     2.000000:       1000 cpu-clock:            400100 [unknown] (/nonexistent/demo)
",
        "",
    );
}

#[test]
fn overhead_is_of_periods_and_samples_are_counted_apart() {
    // E08
    let mut build = Build::new();
    build.comm(100, b"demo").kernel(0xffff_ffff_8100_0000, 0x100_0000);
    build.ksymbol(0xffff_ffff_c010_0000, 0x40, 1, "bpf_prog_00000000000000aa_often");
    build.ksymbol(0xffff_ffff_c010_1000, 0x40, 1, "bpf_prog_00000000000000bb_heavy");
    for n in 0..9 {
        build.kernel_sample(0xffff_ffff_c010_0008, 1_000_000_000 + n, 1);
    }
    build.kernel_sample(0xffff_ffff_c010_1008, 2_000_000_000, 991);
    let args = ["report", "-n", "--show-total-period", "-s", "sym", "-i", "-"];
    let report = run_with(args, &build.file());
    assert_eq!((report.stderr.as_str(), report.status), ("", Some(0)));
    assert!(
        report
            .stdout
            .contains("# Samples: 10  of event 'cpu-clock'\n# Event count (approx.): 1000\n")
    );
    let rows: Vec<&str> =
        report.stdout.lines().filter(|it| it.contains('%')).map(str::trim_end).collect();
    assert_eq!(
        rows,
        [
            "    99.10%             1           991  [k] bpf_prog_00000000000000bb_heavy",
            "     0.90%             9             9  [k] bpf_prog_00000000000000aa_often",
        ]
    );
}

#[test]
fn a_record_that_claims_too_much_has_its_time_all_the_same() {
    // The kernel adds the length of the trailer once for every recorder that listens.
    let mut build = Build::new();
    build.comm(100, b"demo");
    let fields = "ffffffffc0022118 00000017 0001 0000 'bpf_prog_62efe59b7d4f5ea1' 0*7 \
                  00000064 00000064 000000003b9aca00";
    build.record(17, 1, &format!("{fields} =eeeeeeeeeeeeeeee 0*8"));
    let loaded = "0001 0000 00000022 =62efe59b7d4f5ea1 00000064 00000064 000000003b9aca01";
    build.record(18, 1, &format!("{loaded} =eeeeeeeeeeeeeeee 0*8"));
    let ran = run_with(["script", "--show-bpf-events", "--ns", "-i", "-"], &build.file());
    assert_eq!(
        ran.stdout,
        "            demo     100     1.000000000: PERF_RECORD_KSYMBOL addr ffffffffc0022118 len 23 \
         type 1 flags 0x0 name bpf_prog_62efe59b7d4f5ea1\n            \
         demo     100     1.000000001: PERF_RECORD_BPF_EVENT type 1, flags 0, id 34\n"
    );
    assert_eq!((ran.stderr.as_str(), ran.status), ("", Some(0)));
}
