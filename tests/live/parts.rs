//! Recordings in several files, and those that keep the latest samples alone.

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::unistd::Pid;

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
use crate::stage::without_names_of_libraries;

/// A recorder that writes to `recording`.
fn record(recording: &Path, args: &[&str]) -> Command {
    let mut record = bpfperf();
    record.args(["record", "-e", "cpu-clock", "-o"]).arg(recording).args(args).arg("--");
    record
}

/// A shell whose children live for a few milliseconds each, for so many seconds.
fn brief_children(seconds: &str) -> [String; 3] {
    let script = format!("end=$((SECONDS+{seconds})); while ((SECONDS<end)); do /bin/true; done");
    ["bash".to_owned(), "-c".to_owned(), script]
}

/// The files of a recording in several, the earliest first.
fn files(recording: &Path) -> Vec<PathBuf> {
    let name = recording.file_name().unwrap().to_str().unwrap();
    let stamp = |path: &Path| {
        let file = path.file_name()?.to_str()?.to_owned();
        let stamp = file.strip_prefix(name)?.strip_prefix('.')?.to_owned();
        (stamp.len() == 16 && stamp.bytes().all(|it| it.is_ascii_digit())).then_some(())
    };
    let all = fs::read_dir(recording.parent().unwrap()).unwrap().map(|it| it.unwrap().path());
    let mut files: Vec<_> = all.filter(|it| stamp(it).is_some()).collect();
    files.sort();
    files
}

/// The lines of `script`, one a sample.
fn lines(mut tool: Command, file: &Path) -> Vec<String> {
    let text = stdout_of(tool.args(["script", "--no-inline", "-i"]).arg(file));
    without_names_of_libraries(&text).lines().map(str::to_owned).collect()
}

/// Those lines that begin with a number in the place of a task's name; the kernel says -1 of a task that
/// it has done with.
fn nameless<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let is_nameless = |it: &&str| {
        let name = it.split_whitespace().next().unwrap_or_default();
        name.starts_with(':') && name != ":-1"
    };
    lines.filter(is_nameless).collect()
}

/// How many samples the recorder says are in its files.
fn told_samples(stderr: &str) -> Vec<usize> {
    let parts = stderr.lines().filter(|it| it.contains("record: Wrote "));
    let number = |line: &str| line.split(" (").nth(1)?.split(' ').next()?.parse().ok();
    parts.map(|it| number(it).unwrap_or(0)).collect()
}

fn signal(recorder: &Child, signal: Signal) {
    kill(Pid::from_raw(recorder.id().cast_signed()), signal).unwrap();
}

/// Asks for the next file and waits until it is begun.
fn switch(recorder: &Child, recording: &Path) {
    let before = files(recording).len();
    signal(recorder, Signal::SIGUSR2);
    let start = Instant::now();
    while files(recording).len() == before {
        assert!(start.elapsed() < Duration::from_secs(20), "no next file");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn each_file_names_by_itself_whoever_ran_and_together_they_have_all_samples() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let mut record = record(&recording, &["-a", "-F", "2000", "--switch-output"]);
    let recorder = record.args(brief_children("5")).stderr(Stdio::piped()).spawn().unwrap();
    thread::sleep(Duration::from_millis(700));
    switch(&recorder, &recording);
    thread::sleep(Duration::from_millis(700));
    switch(&recorder, &recording);
    let output = recorder.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", told(&record, &output));
    let files = files(&recording);
    assert!(files.len() == 3 && !recording.exists(), "{files:?}");
    let (mut found, mut n_true) = (Vec::new(), Vec::new());
    for file in &files {
        let mut script = bpfperf();
        let text = stdout_of(script.args(["script", "-F", "comm,time", "-i"]).arg(file));
        let lines: Vec<&str> = text.lines().collect();
        let nameless = nameless(lines.iter().copied());
        assert_eq!(nameless, Vec::<&str>::new(), "{}", file.display());
        found.push(lines.len());
        n_true.push(lines.iter().filter(|it| it.trim_start().starts_with("true ")).count());
    }
    // The last file may be a brief one.
    assert!(n_true.iter().take(2).all(|it| *it != 0), "{n_true:?}");
    assert_eq!(found, told_samples(&String::from_utf8_lossy(&output.stderr)));
}

#[test]
fn perf_reads_each_file_as_we_do() {
    if !may_run(&[Need::Root, Need::Peer]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    for (name, args) in [
        ("plain", &["--switch-output=1s"][..]),
        ("small", &["--switch-output=1K", "-F", "10000"]),
        ("compressed", &["-z", "--switch-output=1s"]),
        ("latest", &["--overwrite", "--switch-output=1s", "-m", "4"]),
        ("tail", &["--tail-synthesize", "--switch-output=1s"]),
    ] {
        let recording = scratch.path().join(name);
        stdout_of(record(&recording, args).arg(demo_path()).args(["spin", "2.5"]));
        let files = files(&recording);
        assert!(2 <= files.len(), "{name}: {files:?}");
        for file in &files {
            let ours = lines(bpfperf(), file);
            let theirs = lines(Command::new(peer().unwrap()), file);
            let differs = ours.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs);
            assert_eq!((differs, ours.len()), (None, theirs.len()), "{}", file.display());
            let spins = ours.iter().filter(|it| it.contains("demo")).count();
            assert_eq!(spins, ours.len(), "{}", file.display());
        }
    }
}

#[test]
fn what_stands_where_an_older_recording_would_go_does_not_end_one_in_several_files() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    fs::create_dir(scratch.path().join("perf.data.old")).unwrap();
    stdout_of(record(&recording, &["--switch-output=1s"]).arg(demo_path()).args(["spin", "4"]));
    assert!(2 <= files(&recording).len(), "{:?}", files(&recording));
}

#[test]
fn of_many_files_the_latest_are_kept() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let args = ["-F", "10000", "--switch-output=1K", "--switch-max-files", "1"];
    let mut record = record(&recording, &args);
    let output = output_of(record.arg(demo_path()).args(["spin", "4"]));
    let n_files = told_samples(&String::from_utf8_lossy(&output.stderr)).len();
    assert!(1 < n_files, "{}", told(&record, &output));
    assert_eq!(files(&recording).len(), 1);
}

#[test]
fn a_program_that_was_loaded_before_is_named_in_each_file() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let loaded = Background::start(demo().args(["run", "60"]));
    assert!(loaded.said.starts_with("attached"), "{}", loaded.said);
    let args = ["-a", "-F", "5000", "--switch-output=1s"];
    let mut recorder = record(&recording, &args).args(["sleep", "60"]).spawn().unwrap();
    let start = Instant::now();
    while files(&recording).len() < 2 {
        assert!(start.elapsed() < Duration::from_secs(50), "{:?}", files(&recording));
        thread::sleep(Duration::from_millis(50));
    }
    signal(&recorder, Signal::SIGINT);
    recorder.wait().unwrap();
    let files = files(&recording);
    assert!(2 < files.len(), "{files:?}");
    // The last one may be of a few milliseconds.
    for file in &files[..2] {
        let bill = stdout_of(bpfperf().args(["report", "--bpf", "-i"]).arg(file));
        assert!(bill.contains("demo_sys_enter"), "{}: {bill}", file.display());
    }
}

#[test]
fn the_latest_samples_are_those_of_the_end() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let times = |name: &str, args: &[&str]| {
        let recording = scratch.path().join(name);
        let args = [&["-a", "-F", "10000"], args].concat();
        stdout_of(record(&recording, &args).args(brief_children("3")));
        let text = stdout_of(bpfperf().args(["script", "-F", "comm,time", "-i"]).arg(&recording));
        assert_eq!(nameless(text.lines()), Vec::<&str>::new(), "{name}");
        let time = |line: &str| {
            let time = line.split_whitespace().last().unwrap().trim_end_matches(':');
            time.parse::<f64>().unwrap()
        };
        text.lines().map(time).collect::<Vec<_>>()
    };
    let (all, latest) = (times("all", &[]), times("latest", &["--overwrite", "-m", "4"]));
    let span = |times: &[f64]| times[times.len() - 1] - times[0];
    assert!(1.0 < span(&all), "{}", span(&all));
    // Four pages a CPU hold some 300 samples.
    assert!(span(&latest) < 0.5, "{}", span(&latest));
    assert!((100..2000).contains(&latest.len()), "{}", latest.len());
}

#[test]
fn an_event_and_a_command_begin_the_next_file() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("by-event");
    let args = ["--switch-output-event", "sched:sched_process_exec"];
    // Of the execs, those that come while one file is finished and the next begun count once.
    let script = r#"n=1; for ((;n < 60;)); do /bin/true; sleep 1; ((n += 2)); set -- "$0".*; (($# < 3)) || break; done; echo $n"#;
    let said = stdout_of(record(&recording, &args).args(["bash", "-c", script]).arg(&recording));
    let n_execs: usize = said.trim().parse().unwrap();
    let n_files = files(&recording).len();
    assert!((3..=n_execs + 1).contains(&n_files), "{n_execs}: {:?}", files(&recording));

    let recording = scratch.path().join("by-command");
    let fifo = scratch.path().join("commands");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let control = format!("--control=fifo:{}", fifo.display());
    let mut record = record(&recording, &["--switch-output", &control]);
    let mut recorder = record.arg(demo_path()).args(["spin", "30"]).spawn().unwrap();
    fs::write(&fifo, "snapshot\n").unwrap();
    let start = Instant::now();
    while files(&recording).is_empty() {
        assert!(start.elapsed() < Duration::from_secs(20), "no next file");
        thread::sleep(Duration::from_millis(10));
    }
    fs::write(&fifo, "stop\n").unwrap();
    recorder.wait().unwrap();
    assert_eq!(files(&recording).len(), 2);
}

#[test]
fn who_asks_for_a_next_file_where_there_is_one_alone_does_no_harm() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let mut recorder =
        record(&recording, &["-q"]).arg(demo_path()).args(["spin", "1"]).spawn().unwrap();
    thread::sleep(Duration::from_millis(400));
    signal(&recorder, Signal::SIGUSR2);
    assert!(recorder.wait().unwrap().success());
    assert!(recording.exists() && files(&recording).is_empty());
}
