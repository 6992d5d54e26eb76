//! Sampling turned on and off while a recording runs, and recordings that end by themselves.

use std::fs;
use std::io::Read;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use crate::stage::Need;
use crate::stage::bpfperf;
use crate::stage::demo_path;
use crate::stage::may_run;
use crate::stage::output_of;
use crate::stage::stdout_of;

/// A recorder of one process that costs CPU, which writes to `recording`.
fn record(recording: &Path, args: &[&str], seconds: &str) -> Command {
    let mut record = bpfperf();
    record.args(["record", "-q", "-F", "1000", "-e", "cpu-clock", "-o"]).arg(recording).args(args);
    record.arg("--").arg(demo_path()).args(["spin", seconds]);
    record
}

/// The times of the samples, in seconds.
fn times(recording: &Path) -> Vec<f64> {
    let text = stdout_of(bpfperf().args(["script", "-F", "time", "-i"]).arg(recording));
    text.lines().map(|it| it.trim().trim_end_matches(':').parse().expect("a time")).collect()
}

#[test]
fn samples_lie_in_the_windows_alone() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    stdout_of(&mut record(&recording, &["-D", "200-700,2200-2700"], "3.2"));
    let times = times(&recording);
    assert!(20 < times.len(), "{times:?}");
    // Between the windows lie 1.5 s; a busy machine keeps a recorder from its CPU for less.
    let gaps = times.windows(2).filter(|it| 0.75 < it[1] - it[0]).count();
    assert_eq!(gaps, 1, "{times:?}");
}

#[test]
fn sampling_begins_and_ends_by_command() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name);
    for name in ["commands", "answers"] {
        nix::unistd::mkfifo(&path(name), nix::sys::stat::Mode::S_IRWXU).unwrap();
    }
    let control =
        format!("--control=fifo:{},{}", path("commands").display(), path("answers").display());
    let recording = path("perf.data");
    let mut recorder = record(&recording, &["-D", "-1", &control], "30").spawn().unwrap();
    let mut commands = fs::OpenOptions::new().write(true).open(path("commands")).unwrap();
    let mut answers = fs::OpenOptions::new().read(true).open(path("answers")).unwrap();
    let mut obey = |command: &str| {
        commands.write_all(command.as_bytes()).unwrap();
        let mut answer = [0; 5];
        answers.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"ack\n\0", "{command}");
    };
    obey("ping\n");
    let start = Instant::now();
    obey("enable\n");
    thread::sleep(Duration::from_millis(300));
    obey("disable cpu-clock\n");
    let longest = start.elapsed().as_secs_f64();
    thread::sleep(Duration::from_millis(500));
    obey("stop\n");
    let status = recorder.wait().unwrap();
    // The command was asked to end.
    assert_eq!(status.code(), Some(143));
    let times = times(&recording);
    assert!(20 < times.len(), "{}", times.len());
    assert!(times[times.len() - 1] - times[0] < longest, "{longest} {times:?}");
}

#[test]
fn a_recording_ends_at_its_greatest_size_and_bears_its_time_in_its_name() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let args = ["--max-size", "100K", "--timestamp-filename", "-F", "20000"];
    let mut record = bpfperf();
    record.args(["record", "-q", "-e", "cpu-clock", "-g", "-o"]).arg(&recording).args(args);
    record.arg("--").arg(demo_path()).args(["spin", "30"]);
    assert_eq!(output_of(&mut record).status.code(), Some(143));
    let files: Vec<_> = fs::read_dir(scratch.path()).unwrap().map(|it| it.unwrap()).collect();
    assert_eq!(files.len(), 1);
    let name = files[0].file_name().into_string().unwrap();
    let stamp = name.strip_prefix("perf.data.").unwrap();
    assert!(stamp.len() == 16 && stamp.bytes().all(|it| it.is_ascii_digit()), "{name}");
    let len = files[0].metadata().unwrap().len();
    assert!((100 << 10..10 << 20).contains(&len), "{len}");
}

#[test]
fn what_is_lost_makes_a_recording_fail_that_is_to_have_all() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let quiet = ["--fail-on-loss"];
    assert!(record(&recording, &quiet, "0.2").status().unwrap().success());
    // Rings of a page, and a stopped recorder that cannot drain them.
    let args = ["--fail-on-loss=0.1", "-m", "1", "-F", "10000"];
    let mut record = bpfperf();
    record.args(["record", "-e", "cpu-clock", "-g", "-o"]).arg(&recording).args(args);
    record.arg("--").arg("sh").args(["-c", "kill -STOP $PPID; \"$0\" spin 0.5; kill -CONT $PPID"]);
    record.arg(demo_path());
    let output = output_of(&mut record);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("% of the samples were lost\nhint: raise `-m`"), "{said}");
}
