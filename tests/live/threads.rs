//! `record --threads`: rings drained in parallel, into a directory that perf opens.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::process::Stdio;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::stage::Need;
use crate::stage::bpfperf;
use crate::stage::demo_path;
use crate::stage::may_run;
use crate::stage::output_of;
use crate::stage::peer;
use crate::stage::stdout_of;
use crate::stage::told;

/// Fields that do not depend on when a task is taken for gone.
const FIELDS: [&str; 5] = ["script", "--no-inline", "-F", "tid,time,event,ip,period", "-i"];

/// Two tasks that take a while, and short ones in between.
const LOAD: [&str; 3] =
    ["sh", "-c", r#""$0" spin 0.4 & for i in 1 2 3 4 5; do true | cat; done; "$0" spin 0.4; wait"#];

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// What `script` prints, in the order of words: samples of one moment have none.
fn lines(text: &str) -> Vec<String> {
    let line = |it: &str| it.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut lines: Vec<_> = text.lines().map(line).collect();
    lines.sort();
    lines
}

/// Records with `args`, and holds the directory against that of the peer, and the peer's reading of
/// ours against our own.
#[track_caller]
fn check(args: &[&str]) {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let (ours, theirs) = (scratch.path().join("ours"), scratch.path().join("theirs"));
    let record = |command: &mut Command, to: &Path| {
        command.args(["record", "-q", "-F", "4000", "-e", "cpu-clock"]).args(args).arg("-o");
        let output = output_of(command.arg(to).arg("--").args(LOAD).arg(demo_path()));
        assert!(output.status.success(), "{}", told(command, &output));
    };
    record(&mut bpfperf(), &ours);
    let script = stdout_of(bpfperf().args(FIELDS).arg(&ours));
    assert!(100 < script.lines().count(), "{args:?}: {script}");
    let Some(perf) = peer() else { return };
    assert_eq!(lines(&stdout_of(Command::new(&perf).args(FIELDS).arg(&ours))), lines(&script));
    record(&mut Command::new(&perf), &theirs);
    assert_eq!(names(&ours), names(&theirs), "{args:?}");
    let read = |perf: &Path| lines(&stdout_of(Command::new(perf).args(FIELDS).arg(&theirs)));
    assert_eq!(read(&perf), read(Path::new(env!("CARGO_BIN_EXE_bpfperf"))));
}

#[test]
fn each_layout_makes_a_directory_that_perf_reads_as_we_do() {
    check(&["--threads"]);
    for layout in ["package", "0/0:1/1"] {
        check(&[&format!("--threads={layout}"), "-a"]);
    }
}

#[test]
fn files_of_several_threads_are_compressed_each_by_itself() {
    check(&["--threads", "-z"]);
    check(&["--threads=package", "-z", "-g", "-a"]);
}

#[test]
fn what_no_mask_has_is_recorded_all_the_same() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("d");
    let mut record = bpfperf();
    record.args(["record", "-q", "-a", "-e", "cpu-clock", "--threads=0/0", "-o"]).arg(&path);
    stdout_of(record.args(["--", "taskset", "-c", "1"]).arg(demo_path()).args(["spin", "0.3"]));
    let cpus = stdout_of(bpfperf().args(["script", "-F", "cpu", "-i"]).arg(&path));
    assert!(100 < cpus.matches("[001]").count(), "{cpus}");
}

#[test]
fn a_directory_and_a_file_take_each_others_place() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("perf.data");
    for args in [&["--threads"][..], &[], &["--threads"], &["--threads"]] {
        let mut record = bpfperf();
        record.args(["record", "-q", "-e", "cpu-clock", "-o"]).arg(&path).args(args);
        stdout_of(record.args(["--", "true"]));
        assert_eq!(path.is_dir(), !args.is_empty());
        stdout_of(bpfperf().args(FIELDS).arg(&path));
    }
    assert_eq!(names(scratch.path()), ["perf.data", "perf.data.old"]);
    assert!(scratch.path().join("perf.data.old/data.0").is_file());
}

#[test]
fn what_cannot_be_a_directory_is_refused() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("d");
    let refused = |args: &[&str], to: &Path| {
        let mut record = bpfperf();
        let command = ["--", "true"];
        let output = output_of(record.arg("record").args(args).arg("-o").arg(to).args(command));
        let status = output.status.code().unwrap();
        (status, String::from_utf8_lossy(&output.stderr).lines().next().unwrap().to_owned())
    };
    let pipe = "error: several threads do not write to one pipe";
    assert_eq!(refused(&["--threads"], Path::new("-")), (1, pipe.to_owned()));
    let mask = "error: none of the CPUs 4095 of a thread is online";
    assert_eq!(refused(&["--threads=4095/0", "-e", "cpu-clock"], &path), (1, mask.to_owned()));
    assert_eq!(refused(&["--threads", "--per-thread"], &path).0, 2);
    assert_eq!(names(scratch.path()), Vec::<String>::new());
}

/// Starts a recording of everything, and waits until something is in the files.
fn start(path: &Path) -> std::process::Child {
    let mut record = bpfperf();
    record.args(["record", "-q", "-a", "-F", "4000", "-e", "cpu-clock", "--threads", "-o"]);
    record.arg(path).args(["-m", "8", "--"]).arg(demo_path()).args(["spin", "30"]);
    let child = record.stdin(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    let len = |name: &str| fs::metadata(path.join(name)).map_or(0, |it| it.len());
    while len("data.0") + len("data.1") < 20_000 {
        assert!(began.elapsed() < Duration::from_secs(20), "no recording began");
        thread::sleep(Duration::from_millis(10));
    }
    child
}

#[test]
fn a_recorder_that_is_stopped_or_killed_leaves_a_directory_that_can_be_read() {
    if !may_run(&[Need::Root]) {
        return;
    }
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGKILL] {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("d");
        let mut child = start(&path);
        kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
        child.wait().unwrap();
        let script = output_of(bpfperf().args(FIELDS).arg(&path));
        let n_samples = String::from_utf8_lossy(&script.stdout).lines().count();
        assert!(script.status.success() && 100 < n_samples, "{signal}: {n_samples}");
        if signal != Signal::SIGKILL
            && let Some(perf) = peer()
        {
            let theirs = stdout_of(Command::new(perf).args(FIELDS).arg(&path));
            assert_eq!(theirs.lines().count(), n_samples, "{signal}");
        }
    }
}

#[test]
fn what_fits_of_several_files_on_a_full_disk_can_be_read() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let told = r#"
        mount --make-rprivate / 2>/dev/null
        mount -t tmpfs -o size=256k none "$1" || exit 99
        "$2" record -a -F 20000 -e cpu-clock --threads -o "$1/p" -- "$3" spin 3 2>&1
        echo "status $?"
        "$2" script -i "$1/p" | wc -l
        "$2" report --header-only -i "$1/p" | grep -c "directory data version : 1"
        umount "$1"
    "#;
    let mut shell = Command::new("unshare");
    shell.args(["-m", "--propagation", "unchanged", "sh", "-c", told, "sh"]).arg(scratch.path());
    let text = stdout_of(shell.arg(env!("CARGO_BIN_EXE_bpfperf")).arg(demo_path()));
    assert!(text.contains("because: ENOSPC: No space left on device"), "{text}");
    let mut lines = text.lines().skip_while(|it| *it != "status 1").skip(1);
    let n_samples: u64 = lines.next().unwrap_or_default().trim().parse().unwrap();
    assert!(n_samples > 100, "{text}");
    assert_eq!(lines.next(), Some("1"), "{text}");
}

#[test]
fn a_limit_is_met_by_all_files_together() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("d");
    let mut record = bpfperf();
    record.args(["record", "-q", "-a", "-F", "10000", "-e", "cpu-clock", "--threads", "-m", "8"]);
    record.args(["--max-size=300K", "-o"]).arg(&path).arg("--").arg(demo_path());
    let began = Instant::now();
    output_of(record.args(["spin", "30"]));
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    let len = names(&path).iter().map(|it| fs::metadata(path.join(it)).unwrap().len()).sum::<u64>();
    assert!((300 << 10..600 << 10).contains(&len), "{len}");
}
