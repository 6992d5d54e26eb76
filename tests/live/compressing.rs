//! `record -z`.

use std::fs;
use std::process::Command;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use crate::stage::Need;
use crate::stage::bpfperf;
use crate::stage::demo_path;
use crate::stage::may_run;
use crate::stage::peer;
use crate::stage::stdout_of;

const FIELDS: [&str; 5] = ["script", "--no-inline", "-F", "comm,tid,time,ip", "-i"];

/// Records with `args`, and holds our reading of the recording against the peer's.
#[track_caller]
fn check(args: &[&str]) {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let mut record = bpfperf();
    record.args(["record", "-q", "-F", "4000", "-e", "cpu-clock"]).args(args);
    record.arg("-o").arg(&recording).arg("--").arg(demo_path()).args(["spin", "1"]);
    stdout_of(&mut record);
    let ours = stdout_of(bpfperf().args(FIELDS).arg(&recording));
    assert!(100 < ours.lines().count(), "{ours}");
    let Some(perf) = peer() else { return };
    let theirs = stdout_of(Command::new(perf).args(FIELDS).arg(&recording));
    let words = |text: &str| {
        let line = |it: &str| it.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        text.lines().map(line).collect::<Vec<_>>()
    };
    assert_eq!(words(&ours), words(&theirs));
}

#[test]
fn compressed_records_are_read_by_us_and_by_perf() {
    check(&["-z"]);
    check(&["-z=19", "-g"]);
}

#[test]
fn a_recording_whose_recorder_was_killed_is_inflated_without_its_header() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let mut record = bpfperf();
    record.args(["record", "-q", "-z", "-F", "2000", "-e", "cpu-clock", "-o"]).arg(&recording);
    record.arg("--").arg(demo_path()).args(["spin", "30"]);
    let mut child = record.stdin(Stdio::null()).spawn().unwrap();
    while fs::metadata(&recording).map_or(0, |it| it.len()) < 20_000 {
        thread::sleep(Duration::from_millis(10));
        assert_eq!(child.try_wait().unwrap(), None);
    }
    // Nobody ends the command of a recorder that was killed.
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let command = fs::read_to_string(children).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    for pid in command.split_whitespace() {
        let pid = nix::unistd::Pid::from_raw(pid.parse().unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    }
    let output = bpfperf().args(FIELDS).arg(&recording).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && 100 < text.lines().count(), "{text}");
}
