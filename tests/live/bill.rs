//! What a BPF program costs, from the recording to the row.

use std::fs;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::stage::Background;
use crate::stage::Need;
use crate::stage::bpfperf;
use crate::stage::demo;
use crate::stage::demo_path;
use crate::stage::may_run;
use crate::stage::stdout_of;

/// Records the demo's work while its program sits on all system calls; returns that program's id.
fn record(recording: &Path) -> u64 {
    let mut program = Background::start(demo().args(["attach-for", "60", "0"]));
    let id = program.said.strip_prefix("attached demo_sys_enter id ").unwrap().parse().unwrap();
    let mut record = bpfperf();
    record.args(["record", "-q", "-g", "--bpf-stats", "-o"]).arg(recording).arg("--");
    stdout_of(record.arg(demo_path()).args(["spin", "1"]));
    program.let_go();
    id
}

/// `program`, told to print the bill.
fn report(mut program: Command, recording: &Path, args: &[&str]) -> Command {
    program.args(["report", "--bpf", "-i"]).arg(recording).args(args);
    program
}

#[test]
fn a_program_on_a_busy_path_has_a_row_with_its_samples_and_runs() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let recording = dir.path().join("perf.data");
    let id = record(&recording);
    let document =
        stdout_of(&mut report(bpfperf(), &recording, &["--json", "--callees", "--lines"]));
    let document: Value = serde_json::from_str(&document).unwrap();
    let programs = document["programs"].as_array().unwrap();
    let program = programs.iter().find(|it| it["id"] == id).unwrap();
    assert_eq!(program["name"], "demo_sys_enter");
    assert_eq!(program["type"], "raw_tracepoint");
    assert_eq!(program["metadata"]["owner"], "\"bpfperf\"");
    assert_eq!(program["owner"]["comm"], "demo");
    assert_eq!(program["links"][0]["target"], "sys_enter");
    let number = |value: &Value| value.as_f64().unwrap();
    assert!(1000.0 < number(&program["runs"]["runs"]), "{program:#}");
    assert!(0.1 < number(&program["runs"]["cpu_percent"]), "{program:#}");
    let charge = &program["events"][0];
    let [own, total] = ["self", "total"].map(|it| number(&charge[it]["percent"]));
    assert!(1.0 < own && own <= total && total < 100.0, "{charge:#}");
    let text = &charge["lines"][0]["text"];
    assert!(text.as_str().is_some_and(|it| it.contains("hash") || it.contains("ROUNDS")), "{text}");

    let table = stdout_of(&mut report(bpfperf(), &recording, &[]));
    let row = table.lines().find(|it| it.contains(&format!(" {id}  demo_sys_enter  "))).unwrap();
    assert!(row.contains("raw_tracepoint sys_enter") && row.contains("demo["), "{row}");
}

#[test]
fn the_bill_is_the_same_for_another_user_and_without_the_programs() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let open_to_all = |path: &Path| fs::set_permissions(path, Permissions::from_mode(0o755));
    open_to_all(dir.path()).unwrap();
    let recording = dir.path().join("perf.data");
    record(&recording);
    open_to_all(&recording).unwrap();
    let args = ["--details", "--lines"];
    let ours = stdout_of(&mut report(bpfperf(), &recording, &args));
    // The build may lie where nobody else may go.
    let program = dir.path().join("bpfperf");
    fs::copy(bpfperf().get_program(), &program).unwrap();
    let mut nobody = Command::new(&program);
    nobody.uid(65534).gid(65534);
    assert_eq!(stdout_of(&mut report(nobody, &recording, &args)), ours);
}
