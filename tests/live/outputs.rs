//! What BPF programs write into samples of their own.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use crate::stage::Need;
use crate::stage::bpfperf;
use crate::stage::may_run;
use crate::stage::object;
use crate::stage::object_with;
use crate::stage::output_of;
use crate::stage::peer;
use crate::stage::stdout_of;
use crate::stage::told;

/// Calls uselib(2), which nobody else does: five times itself, in a thread and in a child; with the
/// names of two fifos, it lets another go first, who calls seven times once it is told.
const WORK: &str = "
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static void calls(long first, int n)
{
    for (int i = 0; i < n; i++)
        syscall(SYS_uselib, first + i, 0, 0);
}
static void *of_thread(void *unused)
{
    calls(100, 5);
    return unused;
}
static void pass(const char *path, int flags)
{
    char byte = 0;
    int fd = open(path, flags);
    if ((flags == O_RDONLY ? read(fd, &byte, 1) : write(fd, &byte, 1)) != 1)
        exit(2);
    close(fd);
}
int main(int argc, char **argv)
{
    pthread_t thread;
    if (!strcmp(argv[1], \"other\")) {
        pass(argv[2], O_RDONLY);
        calls(900, 7);
        pass(argv[3], O_WRONLY);
        return 0;
    }
    if (argc > 3) {
        pass(argv[2], O_WRONLY);
        pass(argv[3], O_RDONLY);
    }
    calls(0, 5);
    pthread_create(&thread, 0, of_thread, 0);
    pthread_join(thread, 0);
    if (!fork()) {
        calls(200, 5);
        _exit(0);
    }
    wait(0);
    return 0;
}
";

/// The object with its programs, looking at uselib(2).
const EVENT: &str = "samples.bpf.o/vars.syscall_nr=134/";

/// The first arguments of what the workload calls.
fn own() -> Vec<i64> {
    [0, 100, 200].into_iter().flat_map(|it| it..it + 5).collect()
}

/// And of what everyone does.
fn all() -> Vec<i64> {
    own().into_iter().chain(900..907).collect()
}

/// Programs see the calls of all tests, so that one goes after the other.
static ALONE: Mutex<()> = Mutex::new(());

/// A folder with the workload and the object.
struct Stage {
    dir: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

/// A recorded workload, after another process has called.
struct Recorded {
    said: String,
    stdout: Vec<u8>,
}

impl Stage {
    fn new() -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("work.c"), WORK).unwrap();
        let mut compile = Command::new("gcc");
        compile.args(["-O1", "-pthread", "work.c", "-o", "work"]).current_dir(dir.path());
        assert!(compile.status().unwrap().success());
        object("samples", dir.path());
        for fifo in ["go", "done"] {
            let path = CString::new(dir.path().join(fifo).to_str().unwrap()).unwrap();
            nix::unistd::mkfifo(path.as_c_str(), nix::sys::stat::Mode::S_IRWXU).unwrap();
        }
        Self { dir, _alone: alone }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn other(&self) -> Child {
        let mut work = Command::new(self.path("work"));
        work.args(["other", "go", "done"]).current_dir(self.dir.path()).spawn().unwrap()
    }

    /// Records the workload with `options`, and another process beside it.
    #[track_caller]
    fn record(&self, options: &[&str]) -> Recorded {
        let mut other = self.other();
        let mut record = bpfperf();
        record.current_dir(self.dir.path()).args(["record", "-e", EVENT]).args(options);
        let ended = output_of(record.args(["./work", "own", "go", "done"]));
        assert!(ended.status.success(), "{}", told(&record, &ended));
        assert!(other.wait().unwrap().success());
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        Recorded { said, stdout: ended.stdout }
    }

    /// The first arguments of the calls that the samples in `file` tell of, by event, ascending.
    #[track_caller]
    fn calls(&self, file: &str) -> BTreeMap<String, Vec<i64>> {
        let mut script = bpfperf();
        script.args(["script", "-i"]).arg(self.path(file)).args(["-F", "event,bpf-output"]);
        by_event(&stdout_of(&mut script))
    }
}

/// How often each event is in what `script -F event` prints.
fn counts(text: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        *counts.entry(line.trim().trim_end_matches(':').to_owned()).or_default() += 1;
    }
    counts
}

/// The first arguments in lines such as `calls: nth=0 .. args={"first":7,..}`, by event, ascending.
#[track_caller]
fn by_event(text: &str) -> BTreeMap<String, Vec<i64>> {
    let mut calls: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for line in text.lines() {
        let (event, values) = line.trim().split_once(": ").unwrap_or_else(|| panic!("{line}"));
        let first = values.split("\"first\":").nth(1).unwrap_or_else(|| panic!("{line}"));
        let first = first.split(',').next().unwrap().parse().unwrap();
        calls.entry(event.to_owned()).or_default().push(first);
    }
    for calls in calls.values_mut() {
        calls.sort_unstable();
    }
    calls
}

/// The calls by event where each of the first two tells of `events`; the ring of messages knows of
/// no task, and so tells of everyone's.
fn with_messages(events: &[i64]) -> BTreeMap<String, Vec<i64>> {
    let of = |event: &str, calls: Vec<i64>| (event.to_owned(), calls);
    [of("calls", events.to_vec()), of("declared", events.to_vec()), of("messages", all())].into()
}

#[test]
fn what_a_command_its_threads_and_children_write_is_kept_and_others_is_dropped_and_counted() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let stage = Stage::new();
    let recorded = stage.record(&["-o", "x.data"]);
    assert_eq!(stage.calls("x.data"), with_messages(&own()));
    for event in ["calls", "declared"] {
        let line = format!(
            "[ bpfperf record: `{event}` wrote 7 samples of other tasks, which are left out; \
             `--all-output` keeps them ]"
        );
        assert!(recorded.said.contains(&line), "{}", recorded.said);
    }
    assert!(!recorded.said.contains("`messages`"), "{}", recorded.said);
    assert!(recorded.said.contains("(52 samples"), "{}", recorded.said);
}

#[test]
fn samples_are_printed_by_their_types() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let stage = Stage::new();
    stage.record(&["-o", "x.data"]);
    let mut script = bpfperf();
    let text = stdout_of(
        script.args(["script", "-F", "comm,event,bpf-output", "-i"]).arg(stage.path("x.data")),
    );
    let line = |event: &str| {
        let found = text.lines().find(|it| it.contains(event) && it.contains("\"first\":101,"));
        let line = found.unwrap_or_else(|| panic!("{text}")).trim();
        let (before, rest) = line.split_once("pid=").unwrap();
        let (_, after) = rest.split_once(' ').unwrap();
        format!("{before}pid=PID {after}")
    };
    // Of the seven of the other and the five before it is the 14th.
    let values =
        "nth=13 pid=PID parity=\"ODD\" comm=\"work\" args={\"first\":101,\"rest\":[1,0,255]}";
    assert_eq!(line(" calls:"), format!("work    calls: {values}"));
    assert_eq!(line(" declared:"), format!("work declared: {values}"));
    assert_eq!(line(" messages:"), format!(":-1 messages: {values}"));
}

#[test]
fn everyones_output_is_kept_where_it_is_asked_for_or_all_cpus_are_recorded() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let stage = Stage::new();
    for option in ["--all-output", "-a"] {
        let recorded = stage.record(&["-o", "x.data", option]);
        assert_eq!(stage.calls("x.data"), with_messages(&all()), "{option}");
        assert!(!recorded.said.contains("of other tasks"), "{}", recorded.said);
    }
}

#[test]
fn children_are_not_of_the_target_where_they_do_not_inherit() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let stage = Stage::new();
    stage.record(&["-o", "x.data", "--no-inherit"]);
    assert_eq!(stage.calls("x.data"), with_messages(&[0, 1, 2, 3, 4]));
}

#[test]
fn a_process_that_runs_already_is_the_target_with_what_it_starts() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let stage = Stage::new();
    let mut work = Command::new("sh");
    work.args(["-c", "read go; ./work own; :"]).current_dir(stage.dir.path());
    let mut work = work.stdin(Stdio::piped()).spawn().unwrap();
    let pid = work.id().to_string();
    let mut record = bpfperf();
    record.current_dir(stage.dir.path()).args(["record", "-o", "x.data", "-e", EVENT, "-p", &pid]);
    record.args(["--control", "fd:0,1", "-D", "-1"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut record = record.stderr(Stdio::piped()).spawn().unwrap();
    let mut say = record.stdin.take().unwrap();
    let mut answers = std::io::BufReader::new(record.stdout.take().unwrap());
    // What comes before sampling is on is no sample, by whatever way.
    let before = Command::new(stage.path("work")).arg("own").status().unwrap();
    assert!(before.success());
    say.write_all(b"enable\n").unwrap();
    let mut answer = String::new();
    std::io::BufRead::read_line(&mut answers, &mut answer).unwrap();
    work.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(work.wait().unwrap().success());
    let ended = record.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let of = |event: &str| (event.to_owned(), own());
    let want: BTreeMap<_, _> = ["calls", "declared", "messages"].map(of).into();
    assert_eq!(stage.calls("x.data"), want);
}

#[test]
fn however_it_is_written_nothing_is_missing() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let stage = Stage::new();
    let want = with_messages(&own());
    stage.record(&["-o", "z.data", "-z"]);
    assert_eq!(stage.calls("z.data"), want, "compressed");
    stage.record(&["-o", "latest.data", "--overwrite"]);
    assert_eq!(stage.calls("latest.data"), want, "overwritten");
    stage.record(&["-o", "chain.data", "-g", "-F", "99", "-e", "cpu-clock"]);
    let mut script = bpfperf();
    let script = script.args(["script", "-F", "event", "-i"]).arg(stage.path("chain.data"));
    let mut with_chains = counts(&stdout_of(script));
    with_chains.remove("cpu-clock");
    assert_eq!(with_chains.into_values().collect::<Vec<_>>(), [15, 15, 22], "with chains");
    let piped = stage.record(&["-o", "-"]);
    fs::write(stage.path("pipe.data"), piped.stdout).unwrap();
    assert_eq!(stage.calls("pipe.data"), want, "in a pipe");
    stage.record(&["-o", "threads.data", "--threads", "-a"]);
    assert_eq!(stage.calls("threads.data"), with_messages(&all()), "by threads");
    // Each file has the types for its samples.
    stage.record(&["-o", "parts.data", "--switch-output=1M"]);
    let is_part = |it: &fs::DirEntry| it.file_name().to_string_lossy().starts_with("parts.data.");
    let parts: Vec<_> =
        fs::read_dir(stage.dir.path()).unwrap().map(Result::unwrap).filter(is_part).collect();
    let [part] = &parts[..] else { panic!("{parts:?}") };
    assert_eq!(stage.calls(part.file_name().to_str().unwrap()), want, "in several files");
}

#[test]
fn threads_that_drain_rings_keep_everyones_output_or_none() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let stage = Stage::new();
    let mut record = bpfperf();
    record.current_dir(stage.dir.path()).args(["record", "-o", "x.data", "-e", EVENT]);
    let ended = output_of(record.args(["--threads", "true"]));
    let said = String::from_utf8_lossy(&ended.stderr);
    let want = "error: threads that drain rings do not know which tasks' output is of the target\n\
                hint: leave out `--threads`, or keep everyone's by `--all-output`\n";
    assert!(!ended.status.success() && said.ends_with(want), "{said}");
}

/// How many samples of each event perf finds.
#[track_caller]
fn counts_of_peer(perf: &Path, file: &Path) -> BTreeMap<String, usize> {
    let mut script = Command::new(perf);
    script.args(["script", "-F", "event", "-i"]).arg(file);
    let output = output_of(&mut script);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{}", told(&script, &output));
    counts(&String::from_utf8_lossy(&output.stdout))
}

#[test]
fn perf_reads_as_many() {
    if !may_run(&[Need::Root, Need::Peer]) {
        return;
    }
    let Some(perf) = peer() else { return };
    let stage = Stage::new();
    let want: BTreeMap<String, usize> = [("calls", 15), ("declared", 15), ("messages", 22)]
        .map(|it| (it.0.to_owned(), it.1))
        .into();
    stage.record(&["-o", "x.data"]);
    assert_eq!(counts_of_peer(&perf, &stage.path("x.data")), want);
    let piped = stage.record(&["-o", "-"]);
    fs::write(stage.path("pipe.data"), piped.stdout).unwrap();
    assert_eq!(counts_of_peer(&perf, &stage.path("pipe.data")), want);
}

#[test]
fn what_has_no_type_is_dumped_as_perf_does() {
    if !may_run(&[Need::Root, Need::Peer]) {
        return;
    }
    let Some(perf) = peer() else { return };
    let stage = Stage::new();
    object_with("samples", &["-DUNTYPED"], stage.dir.path());
    stage.record(&["-o", "x.data"]);
    let args = ["script", "-i", "x.data"];
    let of_perf = output_of(Command::new(perf).args(args).current_dir(stage.dir.path()));
    // Where perf shows bytes beyond ASCII as they are, points are shown.
    let of_perf: Vec<u8> =
        of_perf.stdout.iter().map(|it| if it.is_ascii() { *it } else { b'.' }).collect();
    let of_ours = stdout_of(bpfperf().args(args).current_dir(stage.dir.path()));
    assert_eq!(of_ours.matches("      BPF output: 0000: ").count(), 52);
    assert_eq!(of_ours, String::from_utf8(of_perf).unwrap());
}

#[test]
fn the_recorder_does_not_feed_on_the_messages_of_its_own_waiting() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let stage = Stage::new();
    let mut record = bpfperf();
    // poll(2), by which the recorder waits.
    record.args(["record", "-o", "x.data", "-e", "samples.bpf.o/vars.syscall_nr=7/"]);
    stdout_of(record.args(["sleep", "1"]).current_dir(stage.dir.path()));
    let mut script = bpfperf();
    let script = script.args(["script", "-F", "event", "-i", "x.data"]);
    let counts = counts(&stdout_of(script.current_dir(stage.dir.path())));
    // Without a rest it is some 20,000.
    assert!(counts.get("messages").is_none_or(|it| *it < 2000), "{counts:?}");
}

#[test]
fn what_programs_count_is_told_at_the_end_and_kept() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let stage = Stage::new();
    let recorded = stage.record(&["-o", "x.data", "--print-values"]);
    let mut report = bpfperf();
    report.args(["report", "--header-only", "-I", "-i"]).arg(stage.path("x.data"));
    let header = stdout_of(&mut report);
    let lines = [
        "values of samples.bpf.o:",
        "  n_calls = 22",
        "  seen = {\"lowest\":-7,\"last_comm\":\"work\"}",
        "  by_parity[0] = 13",
        "  by_parity[1] = 9",
        "  by_cpu[0] = 22",
        "  by_argument[0] = 1",
        "  by_argument[204] = 1",
        "  by_argument[906] = 1",
    ];
    for line in lines {
        assert!(recorded.said.contains(&format!("{line}\n")), "{line}: {}", recorded.said);
        assert!(header.contains(&format!("# {line}\n")), "{line}: {header}");
    }
    assert_eq!(recorded.said.matches("by_argument[").count(), 22);
    let object = "# bpf object samples.bpf.o\n#   program calls (raw_tp/sys_enter, id ";
    assert!(header.contains(object), "{header}");
    let events = "#   event calls: from map __bpf_stdout__ (perf_event_array, event)\n\
                  #   event declared: from map declared (perf_event_array, call)\n\
                  #   event messages: from map messages (ringbuf, call)\n";
    assert!(header.contains(events), "{header}");
}
