//! The BPF programs of the fixtures: what perf and we wrote down of the demo program.

use std::process::Command;

use bpfperf::perfdata::ReadAt;
use bpfperf::perfdata::private::Attached;
use bpfperf::perfdata::private::Message;
use bpfperf::perfdata::private::TracepointPrograms;
use bpfperf::replay::Index;
use bpfperf::replay::Programs;
use bpfperf::replay::Recording;
use bpfperf::replay::Wanted;

use crate::command::told;
use crate::fixture::FIXTURES;

/// What is known of each program of the fixture `name`, a line each.
fn programs(name: &str) -> Vec<String> {
    let fixture = FIXTURES.iter().find(|it| it.name == name).unwrap();
    let input: &dyn ReadAt = &fixture.bytes;
    let recording = Recording::open(input).unwrap();
    let index = Index::new(&recording, input, &Wanted::default()).unwrap();
    let programs = Programs::new(&recording, &index);
    assert_eq!(programs.n_damaged(), 0);
    let all = programs.all().iter();
    let line = |it: &bpfperf::replay::programs::Program<'_>| {
        let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
        let life = match (it.loaded, it.unloaded) {
            (None, None) => "all the time",
            (None, Some(_)) => "until some time",
            (Some(_), None) => "since some time",
            (Some(_), Some(_)) => "for some time",
        };
        let loader = it.loader.as_ref().map(|it| format!(" by {}", text(&it.comm)));
        let functions: Vec<_> = it.functions.iter().map(|it| text(&it.name)).collect();
        format!(
            "{} {} {} {life}{} {functions:?} {:?}",
            it.id.map_or("-".to_owned(), |it| it.to_string()),
            it.type_name().unwrap_or("-"),
            text(&it.name),
            loader.unwrap_or_default(),
            it.metadata,
        )
    };
    all.map(line).collect()
}

#[track_caller]
fn check(name: &str, want: &[&str]) {
    let got = programs(name);
    assert_eq!(got, want, "{got:#?}");
}

#[test]
fn a_program_that_was_there_before_has_its_functions_and_metadata() {
    check(
        "perf-7.3-bpf-before",
        &[
            r#"78290 raw_tracepoint demo_sys_enter all the time ["bpf_prog_54bc6e0d5cff6a74_demo_sys_enter", "bpf_prog_3d98e2edf377e4c1_demo_hash"] [("owner", "\"bpfperf\""), ("purpose", "\"demo: a program that costs CPU\""), ("version", "1")]"#,
        ],
    );
    check(
        "perf-6.1-bpf-before",
        &[
            r#"78306 raw_tracepoint demo_sys_enter all the time ["bpf_prog_54bc6e0d5cff6a74_demo_sys_enter", "bpf_prog_3d98e2edf377e4c1_demo_hash"] []"#,
        ],
    );
}

#[test]
fn programs_that_come_and_go_have_their_times_and_who_loaded_them() {
    check(
        "perf-7.3-bpf-during",
        &[
            r#"78292 socket_filter  for some time by demo ["bpf_prog_62efe59b7d4f5ea1"] []"#,
            r#"78293 socket_filter  for some time by demo ["bpf_prog_59f4a931744dcdc6"] []"#,
            r#"78294 socket_filter libbpf_nametest for some time by demo ["bpf_prog_59f4a931744dcdc6_libbpf_nametest"] []"#,
            r#"78295 kprobe a for some time by demo ["bpf_prog_13b57167626c8dd1_a", "bpf_prog_06ca94ddf11063d6_b"] []"#,
            r#"78296 socket_filter  for some time by demo ["bpf_prog_cdfb7395b343f731"] []"#,
            r#"78297 tracepoint  for some time by demo ["bpf_prog_2a71da1e3f8d9dc0"] []"#,
            r#"78298 raw_tracepoint demo_sys_enter since some time by demo ["bpf_prog_0096a5528ae2a8b3_demo_sys_enter", "bpf_prog_3d98e2edf377e4c1_demo_hash"] [("owner", "\"bpfperf\""), ("purpose", "\"demo: a program that costs CPU\""), ("version", "1")]"#,
            r#"78299 socket_filter  for some time by demo ["bpf_prog_59f4a931744dcdc6"] []"#,
        ],
    );
    check(
        "bpfperf-bpf",
        &[
            r#"78314 raw_tracepoint demo_sys_enter all the time ["bpf_prog_0096a5528ae2a8b3_demo_sys_enter", "bpf_prog_3d98e2edf377e4c1_demo_hash"] [("owner", "\"bpfperf\""), ("purpose", "\"demo: a program that costs CPU\""), ("version", "1")]"#,
            r#"78316 socket_filter  for some time by demo ["bpf_prog_62efe59b7d4f5ea1"] []"#,
            r#"78317 socket_filter  for some time by demo ["bpf_prog_59f4a931744dcdc6"] []"#,
            r#"78318 socket_filter libbpf_nametest for some time by demo ["bpf_prog_59f4a931744dcdc6_libbpf_nametest"] []"#,
            r#"78319 kprobe a for some time by demo ["bpf_prog_13b57167626c8dd1_a", "bpf_prog_06ca94ddf11063d6_b"] []"#,
            r#"78320 socket_filter  for some time by demo ["bpf_prog_cdfb7395b343f731"] []"#,
            r#"78321 tracepoint  for some time by demo ["bpf_prog_2a71da1e3f8d9dc0"] []"#,
            r#"78322 raw_tracepoint demo_sys_enter since some time by demo ["bpf_prog_0096a5528ae2a8b3_demo_sys_enter", "bpf_prog_3d98e2edf377e4c1_demo_hash"] []"#,
            r#"78323 socket_filter  for some time by demo ["bpf_prog_59f4a931744dcdc6"] []"#,
        ],
    );
}

/// What `report --bpf` with `args` prints of the fixture `name`.
fn report(name: &str, args: &[&str]) -> String {
    let fixture = FIXTURES.iter().find(|it| it.name == name).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_bpfperf"))
        .args(["report", "--bpf", "-i"])
        .arg(fixture.path())
        .args(args)
        .output()
        .unwrap();
    assert_eq!(told(&output.stderr), "");
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_recording_by_perf_has_a_bill_of_what_is_in_it() {
    let want = "\
# BPF programs: 1
# Samples: 34 of event 'cpu-clock'
# In BPF programs: 8.82%, with what they called: 8.82%
#
# Total   Self  Samples     Id  Name            Type            Tag
# .....  .....  .......  .....  ..............  ..............  ................
#
  8.82%  8.82%        3  78290  demo_sys_enter  raw_tracepoint  0096a5528ae2a8b3
          metadata  owner = \"bpfperf\"
          metadata  purpose = \"demo: a program that costs CPU\"
          metadata  version = 1
          function  0 bpf_prog_54bc6e0d5cff6a74_demo_sys_enter, 159 bytes at 0xffffffffc0026c94
          function  1 bpf_prog_3d98e2edf377e4c1_demo_hash, 78 bytes at 0xffffffffc0025c14


";
    assert_eq!(report("perf-7.3-bpf-before", &["--details"]), want);
}

#[test]
fn the_lines_of_a_program_come_from_the_file() {
    let text = report("bpfperf-bpf", &["--lines", "-q"]);
    let line = text.lines().find(|it| it.contains("line ")).unwrap();
    assert!(line.contains("demo.bpf.c:32  for (int i = 0; i < ROUNDS; i++)"), "{text}");
}

#[test]
fn a_recording_without_programs_says_so() {
    let want = "# No BPF program was loaded at any time of the recording.\n";
    assert_eq!(report("perf-7.3-one", &[]), want);
    let document: serde_json::Value =
        serde_json::from_str(&report("perf-7.3-one", &["--json"])).unwrap();
    assert_eq!(document["programs"], serde_json::json!([]));
}

#[test]
fn json_has_every_program_of_the_table() {
    let document: serde_json::Value =
        serde_json::from_str(&report("bpfperf-bpf", &["--json"])).unwrap();
    let programs = document["programs"].as_array().unwrap();
    assert_eq!(programs.len(), 9);
    assert_eq!(programs[0]["name"], "demo_sys_enter");
    assert_eq!(programs[0]["events"][0]["total"]["samples"], 4);
    assert_eq!(programs[0]["functions"][1]["name"], "bpf_prog_3d98e2edf377e4c1_demo_hash");
}

#[test]
fn what_stands_below_rows_is_refused_with_a_separator() {
    for option in ["--details", "--callees", "--lines"] {
        let output = Command::new(env!("CARGO_BIN_EXE_bpfperf"))
            .args(["report", "--bpf", "-t", ";", option])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        let want = format!(
            "error: `{option}` cannot be used with `--field-separator`\n  because: what stands below \
             the row of a program has columns of its own\nhint: `--json` prints all of it for other \
             programs\n"
        );
        assert_eq!(told(&output.stderr), want);
    }
}

#[test]
fn programs_without_samples_or_runs_are_one_line_unless_details_are_asked_for() {
    let rows =
        |text: &str| text.lines().filter(|it| it.starts_with("  ") && it.contains('%')).count();
    let text = report("bpfperf-bpf", &[]);
    assert_eq!(rows(&text), 2, "{text}");
    for n in [7, 9] {
        let folded = format!("\n# {n} more BPF programs without samples or runs: see --details\n");
        assert!(text.contains(&folded), "{text}");
    }
    let text = report("bpfperf-bpf", &["-t", ";"]);
    assert!(
        text.contains("\n# 7 more BPF programs without samples or runs: see --json\n"),
        "{text}"
    );
    let text = report("bpfperf-bpf", &["--details"]);
    // The recording has two events, and a table of each.
    assert_eq!(rows(&text), 2 * 9, "{text}");
    assert!(!text.contains("more BPF"), "{text}");
}

#[test]
fn what_is_of_the_table_of_programs_alone_needs_it() {
    for args in [&["--json"][..], &["--details"], &["--bpf", "-s", "sym"], &["--bpf", "-G"]] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_bpfperf")).arg("report").args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
    }
}

/// What `report` with `args` prints of the fixture `bpfperf-bpf`, rows alone.
#[track_caller]
fn check_rows(args: &[&str], want: &[&str]) {
    let fixture = FIXTURES.iter().find(|it| it.name == "bpfperf-bpf").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_bpfperf"))
        .args(["report", "-q", "--no-children", "-g", "none", "-t", ";", "-i"])
        .arg(fixture.path())
        .args(args)
        .output()
        .unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let rows = text.lines().filter(|it| it.contains("demo_") || it.contains("demo.bpf.c"));
    let rows: Vec<String> = rows.map(|it| it.replace(' ', "")).collect();
    assert_eq!(rows, want, "{text}");
}

#[test]
fn rows_can_be_programs_with_all_their_functions() {
    let want = ["11.54%;demo_sys_enter#78314;78314", "3.85%;demo_sys_enter#78322;78322"];
    check_rows(&["-s", "bpf_prog,bpf_id"], &want);
    check_rows(&["-F", "bpf_prog,overhead", "-S", "nothing"], &[]);
    check_rows(
        &["-s", "bpf_line,bpf_meta:version"],
        &["7.69%;demo.bpf.c:32;1", "3.85%;demo.bpf.c:28;1", "3.85%;demo.bpf.c:33;-"],
    );
}

#[test]
fn functions_of_a_program_can_share_a_module() {
    check_rows(
        &["-s", "dso", "--bpf-dso"],
        &["11.54%;[bpf:demo_sys_enter#78314]", "3.85%;[bpf:demo_sys_enter#78322]"],
    );
    check_rows(
        &["-s", "dso,sym", "-d", "[bpf:demo_sys_enter#78314]", "--bpf-dso"],
        &["11.54%;[k]bpf_prog_3d98e2edf377e4c1_demo_hash"],
    );
}

#[test]
fn what_was_asked_of_the_kernel_meanwhile_is_in_the_bill() {
    let want = "\
# BPF programs: 9
# Samples: 18 of event 'cpu-clock'
# In BPF programs: 22.22%, with what they called: 27.78%
# Runs: counted by the kernel over 0.837 s, of all processes and CPUs
#
#  Total    Self  Samples    CPU   Runs  Time/run      Id  Name            Type            Attached to               Owner             Loaded  Tag
# ......  ......  .......  .....  .....  ........  ......  ..............  ..............  ........................  ..........  ............  ................
#
  16.67%  11.11%        3  1.30%  15423     706ns  146594  demo_sys_enter  raw_tracepoint  raw_tracepoint sys_enter  demo[9135]             -  0096a5528ae2a8b3
  11.11%  11.11%        2  0.75%   6938     903ns  146602  demo_sys_enter  raw_tracepoint  raw_tracepoint sys_enter  demo[9168]  14793.257332  0096a5528ae2a8b3


";
    assert_eq!(report("bpfperf-bill", &["--percent-limit", "1"]), want);
    let details = report("bpfperf-bill", &["--percent-limit", "1", "--details"]);
    for line in [
        "          metadata  owner = \"bpfperf\"\n",
        "          link      1296 raw_tracepoint sys_enter\n",
        "          map       48977 array demo_bpf.rodata\n",
        "          holder    demo[9168] by its prog\n",
    ] {
        assert!(details.contains(line), "{line}{details}");
    }
}

#[test]
#[cfg(target_endian = "little")]
fn programs_that_may_have_dropped_samples_are_told_by_every_report() {
    let attached = Attached {
        id: 7,
        name: "picky".to_owned(),
        how: "perf_event".to_owned(),
        can_drop: true,
        ..Attached::default()
    };
    let tracepoint = Message::Tracepoint(TracepointPrograms {
        event: "sched:sched_switch".to_owned(),
        n_programs: 1,
        programs: vec![attached],
        ..TracepointPrograms::default()
    });
    let fixture = FIXTURES.iter().find(|it| it.name == "bpfperf-pipe").unwrap();
    let mut pipe = fixture.bytes.to_vec();
    // As it was looked up at the start and at the end.
    (1000..1002).for_each(|number| tracepoint.encode(number, &mut pipe));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("perf.data");
    std::fs::write(&path, pipe).unwrap();
    for (args, want) in [(&["--bpf"][..], 1), (&["-g", "none"], 1), (&["--bpf", "-q"], 0)] {
        let mut report = Command::new(env!("CARGO_BIN_EXE_bpfperf"));
        let output = report.args(["report", "-i"]).arg(&path).args(args).output().unwrap();
        assert!(output.status.success());
        let said = told(&output.stderr);
        let warning = "warning: 1 BPF program on `sched:sched_switch` may have dropped samples of \
                       it, uncounted: `picky` (id 7)\n";
        assert_eq!(said.matches(warning).count(), want, "{args:?}: {said}");
        assert_eq!(said.lines().count(), want, "{args:?}: {said}");
    }
}
