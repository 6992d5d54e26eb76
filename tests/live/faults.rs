//! Recordings that meet a fault at a random time: the recorder is killed, the disk is full, the reader
//! of a pipe leaves, the command dies and leaves daemons.
//!
//! Each kind is run a few times, or as often as `BPFPERF_FAULT_RUNS` says. What a run drew at random is
//! in the message of its failure.

use std::collections::hash_map::RandomState;
use std::env;
use std::fs;
use std::hash::BuildHasher;
use std::ops::Range;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use crate::stage::Need;
use crate::stage::bpfperf;
use crate::stage::demo_path;
use crate::stage::may_run;
use crate::stage::output_of;
use crate::stage::stdout_of;
use crate::stage::told;

fn n_runs() -> u64 {
    let asked = env::var("BPFPERF_FAULT_RUNS").ok().and_then(|it| it.parse().ok());
    asked.unwrap_or(3)
}

fn random(range: Range<u64>) -> u64 {
    let drawn = RandomState::new().hash_one(0);
    range.start + drawn % (range.end - range.start)
}

/// A command that is ended after so long that it must have hung: then its status is 124.
fn in_time(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-k", "1", "60"]).arg(program);
    command
}

/// Whether a file can be read, and to what its header says is its end.
#[track_caller]
fn check_readable(file: &Path, what: &str) {
    for verb in [&["script"][..], &["report", "--stdio"]] {
        let output = output_of(in_time(bpfperf().get_program()).args(verb).arg("-i").arg(file));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{what}: {verb:?} {}: {stderr}", output.status);
        for bad in ["dropped", "missing at", "damaged", "undecodable"] {
            assert!(!stderr.contains(bad), "{what}: {verb:?}: {stderr}");
        }
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect()
}

/// Kills a recorder with `args` at a random time, and looks at what it left. Returns whether that is
/// a recording.
fn kill_one(args: &[&str]) -> bool {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("perf.data");
    let mut record = bpfperf();
    record.args(["record", "-q", "-F", "10000", "-o"]).arg(&file).args(args);
    record.arg("--").arg(demo_path()).args(["spin", "1"]);
    let child = record.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    // Each part of its life is as likely as the others: set-up, midst, end.
    let third = random(0..3);
    let after = match third {
        0 => random(0..300),
        1 => random(300..1200),
        _ => random(1000..1800),
    };
    thread::sleep(Duration::from_millis(after));
    let what = format!("{args:?} killed after {after} ms");
    child.kill().unwrap();
    // The command has these pipes, too: it ends by itself, or with a recorder that never let it go.
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{what}");
    // A recorder that is killed before its recording is in place leaves it under a hidden name.
    let is_hidden =
        |it: &PathBuf| it.file_name().is_some_and(|it| it.to_string_lossy().starts_with('.'));
    let recordings: Vec<_> =
        files(scratch.path()).into_iter().filter(|it| !is_hidden(it)).collect();
    for file in &recordings {
        check_readable(file, &what);
    }
    !recordings.is_empty()
}

#[test]
fn a_recorder_that_is_killed_leaves_a_file_that_can_be_read_or_none() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let kinds: [&[&str]; 6] =
        [&[], &["-z"], &["--switch-output=1s"], &["--overwrite"], &["--threads"], &["-a", "-g"]];
    for args in kinds {
        let n_left = (0..n_runs()).filter(|_| kill_one(args)).count();
        println!("{args:?}: of {} killed recorders {n_left} left a recording", n_runs());
    }
}

/// Records onto a disk that is too small, or just not; returns whether it was.
fn fill_one(args: &[&str], seconds: &str) -> bool {
    let scratch = tempfile::tempdir().unwrap();
    let (disk, kept) = (scratch.path().join("disk"), scratch.path().join("kept"));
    fs::create_dir(&disk).unwrap();
    // Small ones are where the boundaries are.
    let most = [64, 256, 2048][usize::try_from(random(0..3)).unwrap()];
    let size = random(16..most);
    let script = r#"
        disk=$1 kept=$2 size=$3 program=$4 demo=$5 seconds=$6
        shift 6
        mount --make-rprivate / 2>/dev/null
        mount -t tmpfs -o size="$size" none "$disk" || exit 99
        "$program" record -F 20000 -g "$@" -o "$disk/perf.data" -- \
            sh -c '"$1" spin "$2"; echo "ended $?"' sh "$demo" "$seconds"
        status=$?
        cp -a "$disk" "$kept" || exit 98
        umount "$disk"
        exit $status
    "#;
    let mut shell = in_time("unshare");
    shell.args(["-m", "--propagation", "unchanged", "sh", "-c", script, "sh"]);
    shell.arg(&disk).arg(&kept).arg(format!("{size}k"));
    shell.arg(bpfperf().get_program()).arg(demo_path()).arg(seconds).args(args);
    let output = output_of(&mut shell);
    let what = format!("{args:?} on {size}K: {}", told(&shell, &output));
    let stderr = String::from_utf8_lossy(&output.stderr);
    let n_errors = stderr.lines().filter(|it| it.starts_with("error: ")).count();
    let is_full = output.status.code() == Some(1);
    assert!(is_full || output.status.success(), "{what}");
    assert_eq!(n_errors, usize::from(is_full), "{what}");
    assert_eq!(stderr.contains("  because: ENOSPC: "), is_full, "{what}");
    // The command is not to blame.
    assert!(String::from_utf8_lossy(&output.stdout).ends_with("ended 0\n"), "{what}");
    for file in files(&kept) {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        assert!(!name.starts_with('.'), "{what}: {name}");
        check_readable(&file, &what);
    }
    is_full
}

#[test]
fn a_full_disk_is_told_once_and_leaves_what_fits_and_the_command_alone() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let kinds: [(&[&str], &str); 4] =
        [(&[], "1"), (&["-z"], "1"), (&["--switch-output=1s"], "2"), (&["--threads"], "1")];
    for (args, seconds) in kinds {
        let n_full = (0..n_runs()).filter(|_| fill_one(args, seconds)).count();
        println!("{args:?}: of {} disks {n_full} were full", n_runs());
    }
}

#[test]
fn a_reader_that_leaves_at_any_time_ends_the_recording_without_a_word() {
    if !may_run(&[Need::Root]) {
        return;
    }
    for args in ["", "-z"] {
        for _ in 0..n_runs() {
            let most = [16, 4096, 1 << 20][usize::try_from(random(0..3)).unwrap()];
            let n = random(0..most);
            let script = format!(
                r#"{{ "$1" record -q -a -g -F 20000 {args} -o - -- "$2" spin 50; echo "status $?" >&2; }} | head -c {n} >/dev/null"#
            );
            let mut shell = in_time("sh");
            let output = output_of(
                shell.args(["-c", &script, "sh"]).arg(bpfperf().get_program()).arg(demo_path()),
            );
            let what = format!("{args:?}, {n} bytes: {}", told(&shell, &output));
            assert_eq!(output.status.code(), Some(0), "{what}");
            assert_eq!(String::from_utf8_lossy(&output.stderr), "status 0\n", "{what}");
        }
    }
}

#[track_caller]
fn check_death(signal: i32, args: &[&str]) {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("perf.data");
    let mut record = in_time(bpfperf().get_program());
    record.args(["record", "-q", "-o"]).arg(&file).args(args);
    // The daemons outlive the recording, and keep no stream of it open.
    let command = format!(
        "for n in 1 2 3; do setsid sh -c 'sleep 1; exec sleep 2' </dev/null >/dev/null 2>&1 & done; \
         sleep 0.0{}; kill -{signal} $$; sleep 5",
        random(0..100)
    );
    let output: Output = output_of(record.args(["--", "sh", "-c", &command]));
    let what = told(&record, &output);
    assert_eq!(output.status.code(), Some(128 + signal), "{what}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{what}");
    check_readable(&file, &what);
    // The last that is written.
    let header = stdout_of(bpfperf().args(["report", "--header-only", "-i"]).arg(&file));
    assert!(header.contains("# nrcpus online : "), "{what}: {header}");
}

#[test]
fn a_command_that_leaves_daemons_and_is_killed_ends_the_recording_with_its_status() {
    if !may_run(&[Need::Root]) {
        return;
    }
    for n in 0..n_runs() {
        let signals = [1, 2, 3, 6, 9, 11, 15];
        let signal = signals[usize::try_from(random(0..7)).unwrap()];
        let args: &[&str] = if n % 2 == 0 { &[] } else { &["-a", "-g"] };
        check_death(signal, args);
    }
}
