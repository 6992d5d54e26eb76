//! The smaller options of `record`, next to what perf makes of the same words.

use std::fs;
use std::path::Path;
use std::process::Command;

use bpfperf::perfdata::AttrFlags;
use bpfperf::replay::Recording;

use crate::events;
use crate::stage::Background;
use crate::stage::Need;
use crate::stage::bpfperf;
use crate::stage::may_run;
use crate::stage::output_of;
use crate::stage::peer;
use crate::stage::stdout_of;
use crate::stage::told;

/// Words in front of which `-e cpu-clock` stands.
#[track_caller]
fn check(words: &[&str]) {
    events::check(&[&["-e", "cpu-clock"], words].concat());
}

#[test]
fn options_of_samples_open_what_perf_opens() {
    if !may_run(&[Need::Root, Need::Peer]) {
        return;
    }
    check(&["-g", "--user-callchains"]);
    check(&["-g", "--kernel-callchains"]);
    check(&["-g", "--user-callchains", "--kernel-callchains"]);
    check(&["--user-callchains"]);
    check(&["--call-graph", "fp,5"]);
    check(&["--call-graph", "fp,500"]);
    check(&["--call-graph", "fp,defer"]);
    check(&["--call-graph", "fp,5,defer"]);
    check(&["-n"]);
    check(&["--all-user"]);
    check(&["--all-kernel"]);
    check(&["--transaction"]);
    check(&["--latency"]);
    events::check_opened(&["-e", "cpu-clock", "-R"]);
    events::check_opened(&["-e", "sched:sched_switch,cpu-clock/period=100000/", "-n"]);
    events::check_opened(&["-a", "-e", "cpu-clock/cpu=0/,cs/nr=3,metric-id=x/"]);
}

#[test]
fn options_that_change_nothing_here_are_taken_and_change_nothing() {
    if !may_run(&[Need::Root, Need::Peer]) {
        return;
    }
    check(&["-B", "-N", "-T", "--buildid-all", "--timestamp-boundary", "--aio", "-r", "1"]);
    check(&["--affinity", "cpu", "--mmap-flush", "4K", "--aio=2", "-m", "16,16", "--no-buffering"]);
    check(&["--num-thread-synthesize", "2", "--proc-map-timeout", "100", "--debuginfod"]);
}

#[test]
fn values_may_stand_right_behind_their_letters() {
    if !may_run(&[Need::Root, Need::Peer]) {
        return;
    }
    check(&["-gz5", "-F99"]);
    check(&["-Iax,bx"]);
    check(&["-I", "-m16"]);
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let mut record = bpfperf();
    stdout_of(record.args(["record", "-q", "-e", "cs", "-z5", "-o"]).arg(&recording).arg("true"));
    let mut header = bpfperf();
    let header = stdout_of(header.args(["report", "--header-only", "-i"]).arg(&recording));
    assert!(header.contains("# compressed : Zstd, level = 5,"), "{header}");
}

#[test]
fn each_sample_wakes_the_recorder_that_holds_nothing_back() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let mut record = bpfperf();
    record.args(["record", "-q", "--no-buffering", "-e", "cs", "-o"]).arg(&recording).arg("true");
    stdout_of(&mut record);
    let file = fs::File::open(&recording).unwrap();
    let opened = Recording::open(&file).unwrap();
    for it in &opened.events {
        assert_eq!((it.attr.wakeup, it.attr.flags & AttrFlags::WATERMARK), (1, AttrFlags::empty()));
    }
}

/// Priority and policy of `/proc/PID/stat`.
fn scheduling(stat: &str) -> (u32, u32) {
    let behind_comm = stat.rsplit_once(") ").unwrap().1;
    let fields: Vec<&str> = behind_comm.split(' ').collect();
    (fields[37].parse().unwrap(), fields[38].trim().parse().unwrap())
}

#[test]
fn a_real_time_recorder_runs_an_ordinary_command() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let mut record = bpfperf();
    record.args(["record", "-q", "-r", "7", "-e", "cs", "-o"]).arg(&recording);
    record.args(["sh", "-c", "sleep 0.3; cat /proc/$PPID/stat /proc/self/stat"]);
    let stats = stdout_of(&mut record);
    let found: Vec<_> = stats.lines().map(scheduling).collect();
    assert_eq!(found, [(7, 1), (0, 0)]);
}

#[test]
fn all_threads_that_drain_are_real_time_ones() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let mut record = bpfperf();
    record.args(["record", "-q", "-r", "7", "--threads", "-e", "cs", "-o"]);
    record.arg(scratch.path().join("perf.data"));
    record.args(["sh", "-c", "sleep 0.3; cd /proc/$PPID/task; grep -h ^[0-9].*drain */stat"]);
    let stats = stdout_of(&mut record);
    assert!(
        stats.lines().count() > 0 && stats.lines().all(|it| scheduling(it) == (7, 1)),
        "{stats}"
    );
}

/// Whether names and mappings of the process are told at the beginning.
#[track_caller]
fn told_before(recording: &Path, pid: u32) -> (bool, bool) {
    let mut script = bpfperf();
    script.args(["script", "--show-task-events", "--show-mmap-events", "-i"]).arg(recording);
    let script = stdout_of(&mut script);
    let has = |what: &str| script.lines().any(|it| it.contains(what));
    (
        has(&format!("PERF_RECORD_COMM: sleep:{pid}/{pid}")),
        has(&format!("PERF_RECORD_MMAP2 {pid}/{pid}: ")),
    )
}

#[test]
fn of_what_runs_already_that_is_told_which_was_asked_for() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let sleep = Background::start(Command::new("sh").args(["-c", "echo x; exec sleep 60"]));
    // The exec comes after the word.
    while fs::read_to_string(format!("/proc/{}/comm", sleep.pid())).unwrap() != "sleep\n" {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let (pid, id) = (sleep.pid(), sleep.pid().to_string());
    for target in [&["-p", &id][..], &["-a"], &["-t", &id]] {
        for (synth, want) in [
            ("all", (true, true)),
            ("no", (false, false)),
            ("task", (true, false)),
            ("task,mmap", (true, true)),
            ("mmap", (true, true)),
        ] {
            let words = [target, &["-e", "cs", "--synth", synth, "true"]].concat();
            let mut record = bpfperf();
            stdout_of(record.args(["record", "-q", "-o"]).arg(&recording).args(&words));
            assert_eq!(told_before(&recording, pid), want, "{words:?}");
            if let Some(perf) = peer() {
                let mut record = Command::new(perf);
                stdout_of(record.args(["record", "-o"]).arg(&recording).args(&words));
                assert_eq!(told_before(&recording, pid), want, "perf, {words:?}");
            }
        }
    }
}

#[test]
fn a_dry_run_records_and_runs_nothing() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let (recording, trace) = (scratch.path().join("perf.data"), scratch.path().join("trace"));
    let mut record = bpfperf();
    record.args(["record", "--dry-run", "-o"]).arg(&recording).arg("touch").arg(&trace);
    assert_eq!(stdout_of(&mut record), "");
    assert!(!recording.exists() && !trace.exists());
    let mut wrong = bpfperf();
    wrong.args(["record", "--dry-run", "-e", "nosuch", "true"]);
    assert_eq!(output_of(&mut wrong).status.code(), Some(1));
}

#[test]
fn what_this_machine_or_version_lacks_is_refused_with_the_reason() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let said = |words: &[&str]| {
        let mut record = bpfperf();
        record.args(["record", "-o", "/dev/null", "-e", "cpu-clock"]).args(words).arg("true");
        let output = output_of(&mut record);
        assert_eq!(output.status.code(), Some(1), "{}", told(&record, &output));
        String::from_utf8(output.stderr).unwrap()
    };
    let lbr = said(&["--call-graph", "lbr"]);
    let hint = "hint: this machine gives no branches with `cpu-clock`; leave out `-b`, `-j` and \
                `--call-graph lbr`\n";
    assert!(lbr.ends_with(hint), "{lbr}");
    assert!(said(&["--latency", "-a"]).contains("\nhint: leave `-a` and `-C` out"));
    assert!(said(&["--kcore"]).contains("\n  because: the kernel's code is not copied\n"));
    let term = said(&["-e", "cs/aux-output/"]);
    let want = "error: AUX area data at column 4 of `cs/aux-output/` cannot be recorded\n";
    assert_eq!(term, want);
}

#[test]
fn an_event_that_is_bound_to_a_cpu_has_samples_of_that_one_alone() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let mut record = bpfperf();
    record.args(["record", "-q", "-a", "-e", "cs/cpu=0,period=1/", "-o"]).arg(&recording);
    stdout_of(record.args(["sleep", "0.2"]));
    let cpus = stdout_of(bpfperf().args(["script", "-F", "cpu", "-i"]).arg(&recording));
    assert!(cpus.lines().count() > 1 && cpus.lines().all(|it| it.trim() == "[000]"), "{cpus}");
}
