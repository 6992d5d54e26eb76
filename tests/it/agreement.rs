//! What we print of each fixture, against what perf 7.3 printed of it when it was made.

use std::ffi::OsStr;

use bpfperf::perfdata::private::Attached;
use bpfperf::perfdata::private::Holder;
use bpfperf::perfdata::private::LinkState;
use bpfperf::perfdata::private::MapState;
use bpfperf::perfdata::private::Message;
use bpfperf::perfdata::private::ProgramRuns;
use bpfperf::perfdata::private::ProgramState;
use bpfperf::perfdata::private::Runs;
use bpfperf::perfdata::private::TracepointPrograms;
use bpfperf::replay::Index;
use bpfperf::replay::Programs;
use bpfperf::replay::Recording;
use bpfperf::replay::Wanted;

use crate::command::Ran;
use crate::command::program;
use crate::command::run;
use crate::command::run_with;
use crate::fixture::FIXTURES;
use crate::fixture::SCRIPT;
use crate::swap::swap;

#[track_caller]
fn check(name: &str, got: &Ran, want: &str) {
    assert_eq!((got.stderr.as_str(), got.status), ("", Some(0)), "{name}");
    for (number, (got, want)) in (1..).zip(got.stdout.lines().zip(want.lines())) {
        assert_eq!(got, want, "{name}: line {number}");
    }
    assert_eq!(got.stdout.lines().count(), want.lines().count(), "{name}");
}

#[test]
fn every_fixture_is_printed_as_by_perf() {
    for it in &FIXTURES {
        let args = SCRIPT.map(OsStr::new);
        check(it.name, &run(args.into_iter().chain([it.path().as_os_str()])), it.script);
    }
}

#[test]
fn stdin_is_read_as_a_file_is() {
    for it in FIXTURES.iter().filter(|it| it.name.ends_with("-pipe") || it.name == "bpfperf-bpf") {
        check(it.name, &run_with(SCRIPT.into_iter().chain(["-"]), it.bytes), it.script);
    }
}

#[test]
fn the_other_byte_order_makes_no_difference() {
    for it in &FIXTURES {
        let swapped = swap(it.bytes);
        let names = [b"PERFILE2", b"2ELIFREP"];
        assert!(names.iter().all(|name| it.bytes[..8] == **name || swapped[..8] == **name));
        check(it.name, &run_with(SCRIPT.into_iter().chain(["-"]), &swapped), it.script);
    }
}

#[test]
fn the_header_of_a_file_of_ours_says_what_it_says_to_perf() {
    let it = FIXTURES.iter().find(|it| it.name == "bpfperf-bpf").expect("it is there");
    let args = ["report", "--header-only", "-I", "-i"].map(OsStr::new);
    let ran = run(args.into_iter().chain([it.path().as_os_str()]));
    // When the file was last written to is not in it; of the first function of a program perf makes
    // up the name.
    let is_of_the_file =
        |line: &&str| !line.starts_with("# captured on") && !line.starts_with("# \tsub_prog 0: ");
    let got: Vec<&str> = ran.stdout.lines().filter(is_of_the_file).collect();
    let said = include_str!("../fixtures/recordings/bpfperf-bpf.header.txt");
    let want: Vec<&str> = said.lines().filter(is_of_the_file).collect();
    assert_eq!(got, want);
    assert_eq!((ran.stderr.as_str(), ran.status), ("", Some(0)));
}

#[test]
fn a_program_that_a_pipe_tells_of_twice_is_listed_once() {
    let it = FIXTURES.iter().find(|it| it.name == "bpfperf-pipe").expect("it is there");
    let args = ["report", "--header-only", "-i"].map(OsStr::new);
    let ran = run(args.into_iter().chain([it.path().as_os_str()]));
    let listed = |start: &str| ran.stdout.lines().filter(|it| it.starts_with(start)).count();
    assert_eq!((listed("# bpf_prog_info"), listed("# btf info of id")), (1, 1), "{}", ran.stdout);
}

/// What `-D` says of a fixture, less the bytes of each record.
fn dump(name: &str) -> String {
    let ran = program()
        .args(["script", "-D", "-F", "-sym,-symoff,-dso", "--ns", "-i", &format!("{name}.data")])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/recordings"))
        .output()
        .expect("the program runs");
    assert_eq!((&*ran.stderr, ran.status.code()), (&b""[..], Some(0)), "{name}");
    let text = String::from_utf8(ran.stdout).expect("it is text");
    text.split_inclusive('\n').filter(|it| !it.starts_with(".  ")).collect()
}

#[test]
fn every_record_is_dumped_as_by_perf() {
    let files = [
        ("bpfperf-bpf", include_str!("../fixtures/recordings/bpfperf-bpf.dump.txt")),
        ("perf-7.3-pipe", include_str!("../fixtures/recordings/perf-7.3-pipe.dump.txt")),
    ];
    for (name, want) in files {
        let got = dump(name);
        // Of the first function of a program perf makes up the name.
        for (number, (got, want)) in (1..).zip(got.lines().zip(want.lines())) {
            let is_made_up = want.starts_with("# \tsub_prog 0: ");
            assert!(is_made_up || got == want, "{name}: line {number}\n{got}\n{want}");
        }
        assert_eq!(got.lines().count(), want.lines().count(), "{name}");
    }
}

#[test]
fn a_dumped_record_shows_all_of_its_bytes() {
    let ran = run(["script", "-D", "-i"].map(OsStr::new).into_iter().chain([FIXTURES
        .iter()
        .find(|it| it.name == "perf-7.3-one")
        .expect("it is there")
        .path()
        .as_os_str()]));
    let want = "\n.  0000:  49 00 00 00 00 00 28 00 01 00 00 00 00 00 00 00  I.....(.........\n";
    assert!(ran.stdout.contains(want), "{}", &ran.stdout[..4000]);
    let short = "\n.  0000:  52 00 00 00 00 00 08 00                          R.......        \n";
    assert!(ran.stdout.contains(short));
}

#[test]
fn the_header_in_full_says_where_programs_sit_and_what_they_cost() {
    let it = FIXTURES.iter().find(|it| it.name == "bpfperf-pipe").expect("it is there");
    let mut bytes = it.bytes.to_vec();
    let load_time_ns = load_time_ns(it.bytes);
    let link = LinkState {
        id: 5,
        kind: "raw_tracepoint".to_owned(),
        target: Some("sys_enter".to_owned()),
        ..LinkState::default()
    };
    let state = ProgramState {
        id: 78314,
        load_time_ns,
        maps: vec![MapState { id: 3, name: "counts".to_owned(), kind: "hash".to_owned() }],
        links: vec![link],
        pins: vec!["/sys/fs/bpf/\x1bdemo".to_owned()],
        holders: vec![Holder { pid: 9, comm: "demo".to_owned(), via: "prog".to_owned() }],
        ..ProgramState::default()
    };
    let runs = |boot_ns, run_cnt| {
        let run_time_ns = run_cnt * 30;
        let runs =
            ProgramRuns { id: 78314, load_time_ns, run_cnt, run_time_ns, ..ProgramRuns::default() };
        Message::Runs(Runs { boot_ns, counted: true, programs: vec![runs] })
    };
    let attached = Attached {
        id: 78314,
        load_time_ns,
        name: "demo_sys_enter".to_owned(),
        how: "perf_event".to_owned(),
        can_drop: true,
        ..Attached::default()
    };
    let tracepoint = |programs, refused: Option<&str>| {
        Message::Tracepoint(TracepointPrograms {
            event: "raw_syscalls:sys_enter".to_owned(),
            programs,
            refused: refused.map(str::to_owned),
            ..TracepointPrograms::default()
        })
    };
    let messages = [
        Message::Program(state),
        runs(1, 10),
        runs(2, 15),
        tracepoint(vec![attached], None),
        tracepoint(vec![], Some("EPERM")),
    ];
    for (number, message) in (1..).zip(&messages) {
        message.encode(number, &mut bytes);
    }
    let ran = run_with(["report", "--header-only", "-I", "-i", "-"], &bytes);
    assert_eq!((ran.stderr.as_str(), ran.status), ("", Some(0)));
    let want = r"# bpf program 78314: raw_tracepoint demo_sys_enter, tag 0096a5528ae2a8b3
#   attached: raw_tracepoint sys_enter (link 5)
#   on recorded tracepoints: raw_syscalls:sys_enter by perf_event
#   pinned: /sys/fs/bpf/\x1bdemo
#   maps: counts (hash 3)
#   held by: demo (9)
#   ran: 5 times, 150 ns
# tracepoint raw_syscalls:sys_enter: 78314 demo_sys_enter (perf_event, may drop samples)
# tracepoint raw_syscalls:sys_enter: the kernel does not tell: EPERM
";
    let found = ran.stdout.find("# bpf program ").map(|at| &ran.stdout[at..]);
    assert_eq!(found, Some(want), "{}", ran.stdout);
    let dumped = run_with(["script", "-D", "-i", "-"], &bytes).stdout;
    let want = "PERF_RECORD_EVENT_TYPE bpfperf runs 2, part 1 of 1\n  {\"boot_ns\":1,";
    assert!(dumped.contains(want), "{dumped}");
}

/// When the one program of a fixture was loaded.
fn load_time_ns(bytes: &[u8]) -> u64 {
    let recording = Recording::open(&bytes).expect("it is a recording");
    let index = Index::new(&recording, &bytes, &Wanted::default()).expect("it is whole");
    let programs = Programs::new(&recording, &index);
    programs.all().iter().find_map(|it| it.load_time_ns).expect("it tells of a program")
}
