//! BPF programs in a recording of one command, whoever loads them and however long they stay.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use bpfperf::perfdata::Endian;
use bpfperf::perfdata::Record;
use bpfperf::perfdata::RecordWalk;
use bpfperf::replay::Recording;

use crate::stage::Background;
use crate::stage::Need;
use crate::stage::bpfperf;
use crate::stage::demo;
use crate::stage::demo_path;
use crate::stage::may_run;
use crate::stage::output_of;
use crate::stage::peer;
use crate::stage::stdout_of;
use crate::stage::told;

/// The function of the demo's program that costs most.
const HOT: &str = "_demo_hash";

/// Checks that `recording` names the program, as we read it and as the peer does.
#[track_caller]
fn check(recording: &Path) {
    let fields = ["script", "-F", "ip,sym", "-i"];
    let ours = stdout_of(bpfperf().args(fields).arg(recording));
    check_frames(&ours);
    if let Some(perf) = peer() {
        let mut perf = Command::new(perf);
        check_frames(&stdout_of(perf.args(fields).arg(recording)));
    }
}

/// Of the samples in the kernel, some are in the program, and fewer than one in a hundred nowhere.
#[track_caller]
fn check_frames(script: &str) {
    let kernel: Vec<&str> =
        script.lines().map(str::trim).filter(|it| it.starts_with("ffff")).collect();
    let n_hot = kernel.iter().filter(|it| it.ends_with(HOT)).count();
    let n_unknown = kernel.iter().filter(|it| it.ends_with("[unknown]")).count();
    assert!(n_hot > 10, "{n_hot} of {} samples are in the program", kernel.len());
    assert!(n_unknown * 100 <= kernel.len(), "{n_unknown} of {} are unknown", kernel.len());
}

#[test]
fn a_program_attached_before_is_named() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let mut record = demo();
    record.arg("load-before").arg(env!("CARGO_BIN_EXE_bpfperf"));
    record.args(["record", "-o"]).arg(&recording).arg("--");
    stdout_of(record.arg(demo_path()).args(["spin", "1"]));
    check(&recording);
}

#[test]
fn a_program_that_another_task_attaches_and_detaches_meanwhile_is_named() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let other = thread::spawn(|| {
        thread::sleep(Duration::from_secs(1));
        stdout_of(demo().args(["attach-for", "1", "0"]));
    });
    let mut record = bpfperf();
    record.args(["record", "-o"]).arg(&recording).arg("--").arg(demo_path()).args(["spin", "3.5"]);
    let output = output_of(&mut record);
    assert!(output.status.success(), "{}", told(&record, &output));
    other.join().unwrap();
    check(&recording);
}

#[test]
fn a_process_that_runs_already_is_recorded_and_goes_on() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let workload = Background::start(demo().args(["run", "60"]));
    assert!(workload.said.starts_with("attached "), "{}", workload.said);
    let pid = workload.pid().to_string();
    let mut record = bpfperf();
    record.args(["record", "-p", &pid, "-o"]).arg(&recording).args(["--", "sleep", "1"]);
    stdout_of(&mut record);
    check(&recording);
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    assert!(!status.contains("State:\tZ"), "the workload ended with the recording");
}

#[test]
fn perf_reads_a_recording_without_a_word() {
    if !may_run(&[Need::Root, Need::Peer]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let mut record = bpfperf();
    record.args(["record", "-a", "-g", "-o"]).arg(&recording).arg("--");
    stdout_of(record.arg(demo_path()).args(["run", "0.5"]));
    for args in [&["script"][..], &["report", "--stdio"], &["report", "--header-only", "-I"]] {
        let mut perf = Command::new(peer().unwrap());
        perf.args(args).arg("--no-inline").arg("-i").arg(&recording);
        let output = output_of(&mut perf);
        assert!(output.status.success(), "{}", told(&perf, &output));
        let said = String::from_utf8_lossy(&output.stderr);
        // What perf says of itself where it runs in a chroot is not about the file.
        let said = said.lines().find(|line| !line.starts_with("assertion failed at util/namesp"));
        assert_eq!(said, None, "{perf:?}");
    }
}

#[test]
fn metadata_of_each_function_is_in_the_recording() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let mut record = bpfperf();
    record.args(["record", "-o"]).arg(&recording).arg("--");
    stdout_of(record.arg(demo_path()).args(["run", "0.3"]));
    let events = stdout_of(bpfperf().args(["script", "--show-bpf-events", "-i"]).arg(&recording));
    for function in ["_demo_sys_enter", HOT] {
        let mut lines = events.lines().skip_while(|line| {
            !(line.starts_with("PERF_RECORD_BPF_METADATA") && line.ends_with(function))
        });
        assert!(lines.next().is_some(), "no metadata of {function}");
        let entries: Vec<&str> = lines.take(4).map(str::trim).collect();
        let want = [
            concat!("entry 0:      bpfperf_version = \"", env!("CARGO_PKG_VERSION"), "\""),
            "entry 1:                owner = \"bpfperf\"",
            "entry 2:              purpose = \"demo: a program that costs CPU\"",
            "entry 3:              version = 1",
        ];
        assert_eq!(entries, want, "metadata of {function}");
    }
}

/// A kernel gives the records that several recorders want a length that fits only the first: see
/// `Record::fields_len`.
#[test]
fn recorders_side_by_side_all_write_records_that_end_where_they_say() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recordings = ["a", "b", "c"].map(|name| scratch.path().join(name));
    let recorders: Vec<_> = recordings
        .iter()
        .map(|recording| {
            let mut record = bpfperf();
            record.args(["record", "-q", "-a", "-F", "99", "-o"]).arg(recording);
            record.args(["--", "sleep", "2"]).spawn().unwrap()
        })
        .collect();
    thread::sleep(Duration::from_millis(700));
    let mut load = demo();
    stdout_of(load.arg("load-before").arg("true"));
    for mut recorder in recorders {
        assert!(recorder.wait().unwrap().success());
    }
    let mut n_records = 0;
    for recording in recordings {
        let file = std::fs::File::open(&recording).unwrap();
        let opened = Recording::open(&file).unwrap();
        let trailer_len = opened.events[0].sample_id.trailer_len();
        let mut walk = RecordWalk::new(&file, opened.data[0], Endian::NATIVE);
        while let Some(raw) = walk.next().unwrap() {
            let kind = raw.header.kind;
            if let Some(len) = Record::fields_len(kind, raw.body, Endian::NATIVE) {
                assert_eq!(raw.body.len(), len + trailer_len, "{kind:?} in {recording:?}");
                n_records += 1;
            }
        }
    }
    assert!(n_records > 12, "only {n_records} records of the program");
}
