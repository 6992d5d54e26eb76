//! How a recording begins and ends: statuses, signals, full disks, short commands, pipes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::process::Output;
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
use crate::stage::stdout_of;
use crate::stage::told;

/// Records `command` into `file`.
fn record(file: &Path, command: &[&str]) -> Output {
    output_of(bpfperf().args(["record", "-o"]).arg(file).arg("--").args(command))
}

/// What `script` says of a recording, with the records of tasks and mappings.
#[track_caller]
fn script(file: &Path) -> String {
    let shown = ["script", "--show-task-events", "--show-mmap-events", "-i"];
    stdout_of(bpfperf().args(shown).arg(file))
}

#[track_caller]
fn check_status(command: &[&str], want: i32) {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("perf.data");
    let output = record(&file, command);
    assert_eq!(output.status.code(), Some(want), "{}", told(&bpfperf(), &output));
    // The file is whole, whatever became of the command.
    assert!(script(&file).contains("PERF_RECORD_COMM exec: sh:"));
}

#[test]
fn the_status_is_the_commands_own() {
    check_status(&["sh", "-c", "exit 7"], 7);
    check_status(&["sh", "-c", "kill -9 $$"], 137);
}

#[test]
fn a_recorder_whose_starter_ignored_children_still_hears_of_its_own() {
    let scratch = tempfile::tempdir().unwrap();
    // waitpid(2): where SIGCHLD is ignored, no signal comes and no status is left.
    let mut command = Command::new("timeout");
    command
        .args(["10", "env", "--ignore-signal=CHLD"])
        .arg(bpfperf().get_program())
        .args(["record", "-o"]);
    command.arg(scratch.path().join("perf.data")).args(["--", "sh", "-c", "exit 7"]);
    let output = output_of(&mut command);
    assert_eq!(output.status.code(), Some(7), "{}", told(&command, &output));
}

#[track_caller]
fn check_no_command(command: &str, want: i32) {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("perf.data");
    fs::write(&file, "before").unwrap();
    let output = record(&file, &[command]);
    assert_eq!(output.status.code(), Some(want), "{}", told(&bpfperf(), &output));
    assert_eq!(fs::read_to_string(&file).unwrap(), "before");
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
}

#[test]
fn a_command_that_cannot_be_run_leaves_the_older_recording_alone() {
    check_no_command("/nonexistent/command", 127);
    check_no_command("/etc/passwd", 126);
}

#[test]
fn the_older_recording_is_kept_and_the_new_one_is_private() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("perf.data");
    fs::write(&file, "before").unwrap();
    assert!(record(&file, &["true"]).status.success());
    assert_eq!(fs::read_to_string(scratch.path().join("perf.data.old")).unwrap(), "before");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn the_shortest_command_is_seen_from_its_exec_on() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("perf.data");
    for _ in 0..10 {
        let output = record(&file, &["/bin/true"]);
        assert!(output.status.success(), "{}", told(&bpfperf(), &output));
        let script = script(&file);
        assert!(script.contains("PERF_RECORD_COMM exec: true:"), "{script}");
        assert!(script.lines().any(|it| it.contains("MMAP2") && it.ends_with("/true")), "{script}");
    }
}

#[track_caller]
fn check_signal(signal: Signal, args: &[&str], want_status: i32) {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("perf.data");
    let mut record = bpfperf();
    record.args(["record", "-o"]).arg(&file).args(args);
    let child = record.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    // The file is there once the recording has begun.
    let began = Instant::now();
    while !file.exists() {
        assert!(began.elapsed() < Duration::from_secs(20), "no recording began");
        thread::sleep(Duration::from_millis(10));
    }
    thread::sleep(Duration::from_millis(300));
    kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(want_status), "{}", told(&record, &output));
    // The last that is written.
    let header = stdout_of(bpfperf().args(["report", "--header-only", "-i"]).arg(&file));
    assert!(header.contains("# nrcpus online : "), "{header}");
    assert!(script(&file).contains("PERF_RECORD_COMM"));
}

#[test]
fn a_signal_ends_the_recording_and_the_file_is_whole() {
    if !may_run(&[Need::Root]) {
        return;
    }
    check_signal(Signal::SIGINT, &["-a"], 0);
    check_signal(Signal::SIGTERM, &["-a"], 0);
    // The command is asked to end, and its status is what it makes of that.
    check_signal(Signal::SIGINT, &["--", "sleep", "30"], 143);
    check_signal(Signal::SIGTERM, &["--", "sh", "-c", "trap 'exit 5' TERM; sleep 1; sleep 1"], 5);
}

#[test]
fn what_fits_on_a_full_disk_can_be_read() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let told = r#"
        # Fails where a chroot's root is no mount, and there the mount is taken back at the end.
        mount --make-rprivate / 2>/dev/null
        mount -t tmpfs -o size=64k none "$1" || exit 99
        "$2" record -F 20000 -o "$1/p" -- "$3" spin 3 2>&1
        echo "status $?"
        "$2" script -i "$1/p" | wc -l
        umount "$1"
    "#;
    let mut shell = Command::new("unshare");
    shell.args(["-m", "--propagation", "unchanged", "sh", "-c", told, "sh"]).arg(scratch.path());
    let text = stdout_of(shell.arg(env!("CARGO_BIN_EXE_bpfperf")).arg(demo_path()));
    assert!(text.contains("because: ENOSPC: No space left on device"), "{text}");
    let mut lines = text.lines().skip_while(|it| *it != "status 1").skip(1);
    let n_samples: u64 = lines.next().unwrap_or_default().trim().parse().unwrap();
    assert!(n_samples > 100, "{text}");
}

#[test]
fn features_that_fit_are_written_where_all_of_them_do_not() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    // One page has room for a few records and for all but the largest features.
    let told = r#"
        mount --make-rprivate / 2>/dev/null
        mount -t tmpfs -o size=4k none "$1" || exit 99
        "$2" record -e cpu-clock -o "$1/p" -- true 2>&1
        echo "status $?"
        "$2" report --header-only -i "$1/p"
        umount "$1"
    "#;
    let mut shell = Command::new("unshare");
    shell.args(["-m", "--propagation", "unchanged", "sh", "-c", told, "sh"]).arg(scratch.path());
    let text = stdout_of(shell.arg(env!("CARGO_BIN_EXE_bpfperf")));
    assert!(text.contains("because: ENOSPC: No space left on device"), "{text}");
    assert!(text.contains("status 1\n") && text.contains("# hostname : "), "{text}");
}

#[test]
fn a_pipe_carries_the_samples_and_the_commands_output_does_not_mix_in() {
    let scratch = tempfile::tempdir().unwrap();
    let mut record = bpfperf();
    record.args(["record", "-o", "-", "--", "sh", "-c", "echo output"]);
    let output = output_of(&mut record);
    assert!(output.status.success(), "{}", told(&record, &output));
    assert!(String::from_utf8_lossy(&output.stderr).contains("output\n"));
    let file = scratch.path().join("pipe");
    fs::write(&file, &output.stdout).unwrap();
    assert!(script(&file).contains("PERF_RECORD_COMM exec: sh:"));
}

#[test]
fn a_reader_that_leaves_ends_the_recording_without_a_word() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let script = r#""$1" record -q -a -F 20000 -o - -- sleep 30 | head -c 100 >/dev/null"#;
    let began = Instant::now();
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh", env!("CARGO_BIN_EXE_bpfperf")]);
    let output = output_of(&mut shell);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(began.elapsed() < Duration::from_secs(20), "it went on for {:?}", began.elapsed());
}

#[track_caller]
fn check_gone(whom: &[&str], want: &str) {
    let scratch = tempfile::tempdir().unwrap();
    let mut record = bpfperf();
    record.arg("record").args(whom).arg("-o").arg(scratch.path().join("perf.data"));
    let output = output_of(record.args(["--", "true"]));
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stderr), want);
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[test]
fn who_is_gone_cannot_be_recorded_and_leaves_no_file() {
    // More than any machine's limit of process numbers.
    check_gone(&["-p", "2147483647"], "error: no process 2147483647 runs\n");
    check_gone(&["-t", "2147483647"], "error: no thread 2147483647 runs\n");
    // Whoever else was named does not hide it: D11.
    let list = format!("{},2147483646,2147483647", std::process::id());
    check_gone(&["-p", &list], "error: no process 2147483646 or 2147483647 runs\n");
    // A process that has ended, and whose parent has not asked how.
    let mut child = Command::new("true").spawn().unwrap();
    let zombie = child.id().to_string();
    let stat = format!("/proc/{zombie}/stat");
    while !fs::read_to_string(&stat).unwrap().contains(") Z ") {
        thread::sleep(Duration::from_millis(1));
    }
    check_gone(&["-p", &zombie], &format!("error: no process {zombie} runs\n"));
    child.wait().unwrap();
}

#[test]
fn an_ordinary_user_records_user_space_and_is_told_so() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let level = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
    if level.trim() != "2" {
        println!("skipped: `kernel.perf_event_paranoid` is {}", level.trim());
        return;
    }
    // Where an ordinary user can run it, whatever the build's own folder allows.
    let scratch = tempfile::tempdir_in("/tmp").unwrap();
    let program = scratch.path().join("bpfperf");
    fs::copy(env!("CARGO_BIN_EXE_bpfperf"), &program).unwrap();
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let ordinary = |args: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
        output_of(command.current_dir(scratch.path()).arg("record").args(args))
    };
    let output = ordinary(&["-e", "task-clock", "-o", "u", "--", "true"]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&bpfperf(), &output));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some(
            "warning: the kernel may not be sampled; recording user space alone, `task-clock:u`, without BPF programs"
        )
    );
    assert!(lines.next().is_some_and(|it| it.starts_with("[ bpfperf record: ")), "{text}");

    let output = ordinary(&["-e", "cpu-clock", "-a", "-o", "a", "--", "true"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "error: cannot open event `cpu-clock` on CPU 0\n  because: EACCES: Permission denied\n\
         hint: `kernel.perf_event_paranoid` is 2, so sampling a CPU needs CAP_PERFMON; run as \
         root, or record one process with `-p PID -e cpu-clock:u`\n"
    );
}

#[test]
fn a_fifo_is_waited_for_until_somebody_reads_it_or_a_signal_comes() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let fifo = scratch.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut record = bpfperf();
    record.args(["record", "-q", "-e", "cpu-clock", "-o"]).arg(&fifo).args(["--", "true"]);
    let recorder = record.stderr(Stdio::piped()).spawn().unwrap();
    thread::sleep(Duration::from_millis(200));
    let pid = Pid::from_raw(recorder.id().cast_signed());
    kill(pid, Signal::SIGTERM).unwrap();
    let output = recorder.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("because: SIGTERM came before anyone read it"), "{told}");

    let mut recorder = record.spawn().unwrap();
    let comms = stdout_of(bpfperf().args(["script", "--show-task-events", "-i"]).arg(&fifo));
    assert!(recorder.wait().unwrap().success());
    assert!(comms.contains("true"), "{comms}");
}
