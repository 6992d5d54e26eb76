//! The programs of BPF object files as events.

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

use libbpf_rs::query::LinkInfoIter;
use libbpf_rs::query::ProgInfoIter;

use crate::stage::Need;
use crate::stage::bpfperf;
use crate::stage::may_run;
use crate::stage::object;
use crate::stage::object_with;
use crate::stage::output_of;
use crate::stage::peer;
use crate::stage::stdout_of;
use crate::stage::told;

/// Waits for a line, asks for its parent as often as it was told to, and computes for a while.
const WORK: &str = "
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline)) void call(void)
{
    getppid();
}
int main(int argc, char **argv)
{
    volatile unsigned long sum = 0;
    if (argc > 2)
        getchar();
    for (int i = 0; i < atoi(argv[1]); i++)
        call();
    for (unsigned long i = 0; i < 100000000; i++)
        sum += i;
    return 0;
}
";

/// A program of a tracepoint decides for all tests that record it, so that one goes after the other.
static ALONE: Mutex<()> = Mutex::new(());

/// A folder with the workload and the objects of a test.
struct Stage {
    dir: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Stage {
    fn new() -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("work.c"), WORK).unwrap();
        let mut compile = Command::new("gcc");
        compile.args(["-O1", "-g", "work.c", "-o", "work"]).current_dir(dir.path());
        assert!(compile.status().unwrap().success());
        Self { dir, _alone: alone }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A workload that waits for its start.
    fn held(&self, n_calls: u32) -> Child {
        let mut work = Command::new(self.path("work"));
        work.arg(n_calls.to_string()).arg("held").stdin(Stdio::piped());
        work.spawn().unwrap()
    }

    /// Records two workloads at once, of which `event` keeps the first, and returns what is said of it
    /// and the processes of the samples; `event` has `PID` where the process is meant.
    #[track_caller]
    fn record_two(&self, event: &str, options: &[&str]) -> (u32, String, Vec<u32>) {
        let (mut one, mut other) = (self.held(1000), self.held(300));
        let event = event.replace("PID", &one.id().to_string());
        let mut record = bpfperf();
        record.current_dir(self.dir.path()).args(["record", "-o", "x.data", "-e", &event]);
        record.args(options).args(["--control", "fd:0,1"]).stdin(Stdio::piped());
        let record = record.args(["-D", "-1"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut record = record.spawn().unwrap();
        let mut say = record.stdin.take().unwrap();
        let mut answers = std::io::BufReader::new(record.stdout.take().unwrap());
        let mut tell = |what: &str| {
            say.write_all(what.as_bytes()).unwrap();
            let mut answer = String::new();
            std::io::BufRead::read_line(&mut answers, &mut answer).unwrap();
            assert_eq!(answer.trim_matches(['\n', '\0']), "ack", "{what}");
        };
        tell("enable\n");
        for work in [&mut one, &mut other] {
            work.stdin.take().unwrap().write_all(b"\n").unwrap();
        }
        for work in [&mut one, &mut other] {
            assert!(work.wait().unwrap().success());
        }
        tell("stop\n");
        let ended = record.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.success(), "{said}");
        let mut script = bpfperf();
        script.args(["script", "-F", "pid", "-i"]).arg(self.path("x.data"));
        let pids = stdout_of(&mut script);
        (one.id(), said, pids.lines().map(|it| it.trim().parse().unwrap()).collect())
    }
}

/// The samples that the summary says `program` dropped.
#[track_caller]
fn dropped(said: &str, program: &str) -> u64 {
    let line = said.lines().find(|it| it.contains(&format!("`{program}` ")) && it.starts_with('['));
    let words: Vec<&str> = line.unwrap_or_else(|| panic!("{said}")).split(' ').collect();
    let at = words.iter().position(|it| it.starts_with("sample")).unwrap();
    words[at - 1].parse().unwrap()
}

#[test]
fn a_program_of_a_tracepoint_keeps_the_samples_of_one_process() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let stage = Stage::new();
    object("kinds", stage.dir.path());
    let (pid, said, pids) = stage.record_two("kinds.bpf.o:on_call/vars.only_pid=PID/", &["-a"]);
    assert_eq!(pids, vec![pid; 1000]);
    let note = "`on_call` decides for every recorder of `syscalls:sys_enter_getppid`: where it \
                returns 0, nobody gets the sample";
    assert!(said.contains(note), "{said}");
    assert!(dropped(&said, "on_call") >= 300, "{said}");
}

#[test]
fn a_program_of_a_function_keeps_the_samples_of_one_process_and_drops_are_exact() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let stage = Stage::new();
    // A function that nobody else calls.
    let at = format!("-DUPROBE_AT=\"{}:call\"", stage.path("work").display());
    object_with("kinds", &[&at], stage.dir.path());
    let event = "kinds.bpf.o:on_function/vars.only_pid=PID/";
    let (pid, said, pids) = stage.record_two(event, &["-a"]);
    assert_eq!(pids, vec![pid; 1000]);
    assert_eq!(dropped(&said, "on_function"), 300, "{said}");
}

#[test]
fn a_program_of_a_function_runs_once_at_each_hit_in_a_process_with_threads() {
    const THREADS: &str = "
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
__attribute__((noinline)) void call(void)
{
    getppid();
}
static void *idle(void *all)
{
    for (;;)
        pause();
}
int main(void)
{
    pthread_t thread;
    for (int i = 0; i < 3; i++)
        pthread_create(&thread, NULL, idle, NULL);
    puts(\"begun\");
    fflush(stdout);
    getchar();
    for (int i = 0; i < 100; i++)
        call();
    return 0;
}
";
    if !may_run(&[Need::Root]) {
        return;
    }
    let stage = Stage::new();
    fs::write(stage.path("threads.c"), THREADS).unwrap();
    let mut compile = Command::new("gcc");
    compile.args(["-O1", "-pthread", "threads.c", "-o", "threads"]).current_dir(stage.dir.path());
    assert!(compile.status().unwrap().success());
    let at = format!("-DUPROBE_AT=\"{}:call\"", stage.path("threads").display());
    object_with("kinds", &[&at], stage.dir.path());
    let mut work = Command::new(stage.path("threads"));
    let mut work = work.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let wait_for_line = |from: &mut dyn std::io::Read| {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(from), &mut line).unwrap();
        line
    };
    assert_eq!(wait_for_line(work.stdout.as_mut().unwrap()), "begun\n");
    let mut record = bpfperf();
    record.current_dir(stage.dir.path()).args(["record", "-o", "x.data", "--print-values"]);
    record.args(["-e", "kinds.bpf.o:on_function/vars.only_pid=1/"]);
    record.args(["-p", &work.id().to_string(), "-D", "-1", "--control", "fd:0,1"]);
    record.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut record = record.spawn().unwrap();
    record.stdin.as_mut().unwrap().write_all(b"enable\n").unwrap();
    wait_for_line(record.stdout.as_mut().unwrap());
    work.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(work.wait().unwrap().success());
    let ended = record.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && said.contains("  function_dropped = 100\n"), "{said}");
    assert_eq!(dropped(&said, "on_function"), 100, "{said}");
}

#[test]
fn a_program_that_begins_with_its_count_counts_each_hit_once() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let stage = Stage::new();
    let at = format!("-DUPROBE_AT=\"{}:call\"", stage.path("work").display());
    object_with("counted", &[&at], stage.dir.path());
    let (_, said, pids) = stage.record_two("counted.bpf.o", &["-a", "--print-values"]);
    assert_eq!(pids.len(), 1300);
    assert!(said.contains("  n_hits = 1300\n"), "{said}");
}

#[test]
fn programs_run_only_while_there_is_sampling() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let stage = Stage::new();
    let at = format!("-DUPROBE_AT=\"{}:call\"", stage.path("work").display());
    object_with("kinds", &[&at], stage.dir.path());
    let mut record = bpfperf();
    record.current_dir(stage.dir.path()).args(["record", "-o", "x.data", "-a", "-D", "-1"]);
    record.args(["-e", "kinds.bpf.o:on_function,on_raw/vars.only_pid=1/", "--print-values"]);
    record.args(["--control", "fd:0,1"]).stdin(Stdio::piped());
    let mut record = record.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut say = record.stdin.take().unwrap();
    let mut answers = std::io::BufReader::new(record.stdout.take().unwrap());
    let mut tell = |what: &str| {
        say.write_all(what.as_bytes()).unwrap();
        let mut answer = String::new();
        std::io::BufRead::read_line(&mut answers, &mut answer).unwrap();
        assert_eq!(answer.trim_matches(['\n', '\0']), "ack", "{what}");
    };
    let work = |n_calls: &str| {
        assert!(Command::new(stage.path("work")).arg(n_calls).status().unwrap().success());
    };
    tell("ping\n");
    work("3000");
    tell("enable\n");
    work("100");
    tell("disable\n");
    work("700");
    tell("enable\n");
    work("20");
    tell("stop\n");
    let ended = record.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success(), "{said}");
    assert_eq!(dropped(&said, "on_function"), 120, "{said}");
    let raw = said.lines().find_map(|it| it.trim().strip_prefix("raw_dropped = "));
    let raw: u64 = raw.unwrap_or_else(|| panic!("{said}")).parse().unwrap();
    // Others may ask for their parents, too.
    assert!((120..700).contains(&raw), "{raw}");
}

#[test]
fn a_program_of_a_clock_keeps_the_samples_of_one_process() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let stage = Stage::new();
    object("kinds", stage.dir.path());
    let event = "kinds.bpf.o:on_clock/vars.only_pid=PID,event=cpu-clock,freq=2000/";
    let (pid, said, pids) = stage.record_two(event, &["-a"]);
    assert!(pids.len() > 20 && pids.iter().all(|it| *it == pid), "{pids:?} {pid}");
    assert!(dropped(&said, "on_clock") > 20, "{said}");
}

#[test]
fn a_filtered_tracepoint_has_the_samples_that_perf_finds_among_all() {
    if !may_run(&[Need::Root, Need::Peer]) {
        return;
    }
    let Some(perf) = peer() else { return };
    let stage = Stage::new();
    object("kinds", stage.dir.path());
    let (pid, _, pids) = stage.record_two("kinds.bpf.o:on_call/vars.only_pid=PID/", &["-a"]);
    let ours = Command::new(&perf)
        .args(["script", "-F", "event,trace", "--pid", &pid.to_string(), "-i"])
        .arg(stage.path("x.data"))
        .output()
        .unwrap();
    let ours = String::from_utf8_lossy(&ours.stdout).into_owned();
    let mut record = Command::new(&perf);
    record.args(["record", "-q", "-a", "-e", "syscalls:sys_enter_getppid", "-o"]);
    record.arg(stage.path("perf.data")).arg(stage.path("work")).arg("1000");
    stdout_of(&mut record);
    let mut script = Command::new(&perf);
    script.args(["script", "-F", "event,trace", "--comm", "work", "-i"]);
    let perfs = stdout_of(script.arg(stage.path("perf.data")));
    let perfs = perfs.replace("syscalls:sys_enter_getppid:", "on_call:");
    let fields = |text: &str| -> Vec<String> {
        text.lines().map(|it| it.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    assert_eq!(pids.len(), 1000);
    assert_eq!(fields(&ours), fields(&perfs));
}

#[test]
fn a_child_that_ends_takes_no_program_of_a_tracepoint_with_it() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let stage = Stage::new();
    object("kinds", stage.dir.path());
    let mut record = bpfperf();
    record.current_dir(stage.dir.path()).args(["record", "-o", "x.data"]);
    record.args(["-e", "kinds.bpf.o:on_call/vars.only_pid=1/", "--", "sh", "-c"]);
    // Each shell asks for its parent as it begins.
    let output = output_of(record.arg("for i in 1 2 3 4 5 6 7 8; do sh -c :; done"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("(no samples, "), "{said}");
    assert!(dropped(&said, "on_call") >= 9, "{said}");
}

#[test]
fn what_is_set_is_what_the_program_finds() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let stage = Stage::new();
    object("settings", stage.dir.path());
    // 1 - 2 + 0x10 + true + FAST + 'a' + 3 + 4 + 5 + 6 + 7 + 8, three times.
    let (sum, settings) = (
        (1 - 2 + 16 + 1 + 1 + 97 + 3 + 4 + 5 + 6 + 7 + 8 + 9) * 3,
        "vars.small=1,vars.below=-2,vars.large=0x10,vars.flag=true,vars.speed=SPEED_FAST,\
         vars.word=a,vars.weight.low=3,vars.weight.high=4,vars.numbers[1]=5,vars.numbers[3]=6,\
         map:limits.value[0]=7,map:limits.value[1...3]=8,map:by_cpu.value=9",
    );
    let record = |want: i32| {
        let event =
            format!("settings.bpf.o/event=cpu-clock,period=1000000,vars.want={want},{settings}/");
        let mut record = bpfperf();
        record.current_dir(stage.dir.path()).args(["record", "-o", "x.data", "-e", &event]);
        let output = output_of(record.arg("--").arg(stage.path("work")).arg("1"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        said
    };
    let (right, wrong) = (record(sum), record(sum + 1));
    assert!(!right.contains("no samples") && !right.contains("dropped"), "{right}");
    assert!(wrong.contains("(no samples, ") && dropped(&wrong, "on_clock") > 10, "{wrong}");
}

/// Checks what is said where `event` cannot be recorded.
#[track_caller]
fn refused(folder: &Path, event: &str, want: &str) {
    let mut record = bpfperf();
    record.current_dir(folder).args(["record", "-o", "no.data", "-e", event, "true"]);
    let output = output_of(&mut record);
    assert_eq!(output.status.code(), Some(1), "{}", told(&record, &output));
    assert_eq!(String::from_utf8_lossy(&output.stderr).trim_end(), want);
    assert!(!folder.join("no.data").exists());
}

#[test]
fn what_cannot_be_an_event_is_told_with_a_way_out() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let stage = Stage::new();
    let dir = stage.dir.path();
    for name in ["kinds", "settings", "no_programs", "unknown_section", "refused"] {
        object(name, dir);
    }
    fs::write(dir.join("text.bpf.o"), "int main;").unwrap();
    let big = dir.join("big");
    fs::create_dir(&big).unwrap();
    object_with("kinds", &["-target", "bpfeb"], &big);
    let cannot = |path: &str, because: &str, hint: &str| {
        let hint = if hint.is_empty() { String::new() } else { format!("\nhint: {hint}") };
        format!("error: cannot take BPF programs from `{path}`\n  because: {because}{hint}")
    };
    refused(
        dir,
        "text.bpf.o",
        &cannot(
            "text.bpf.o",
            "it is no ELF file",
            "compile the source with `clang -target bpf -O2 -g -c`",
        ),
    );
    refused(
        dir,
        "big/kinds.bpf.o",
        &cannot(
            "big/kinds.bpf.o",
            "it is big-endian, and this machine is little-endian",
            "compile it for this machine, with `clang -target bpf`",
        ),
    );
    refused(
        dir,
        "gone.bpf.o",
        &cannot("gone.bpf.o", "cannot read it: ENOENT: No such file or directory", ""),
    );
    refused(
        dir,
        "kinds.bpf.o:on_clok",
        "error: `kinds.bpf.o` has no program `on_clok`, at column 13 of `kinds.bpf.o:on_clok`\n\
         hint: it has `on_clock`, `on_function`, `on_call`, `on_raw`",
    );
    refused(
        dir,
        "kinds.bpf.o:on_clock/vars.pid=1/",
        &cannot(
            "kinds.bpf.o",
            "it has no variable `pid`",
            "it has `only_pid`, `syscall_nr`, `clock_kept`, `clock_dropped`, `function_kept`, \
             `function_dropped`, `call_kept`, `call_dropped`, `raw_kept`, `raw_dropped`",
        ),
    );
    refused(
        dir,
        "settings.bpf.o/map:limit.value=1/",
        &cannot(
            "settings.bpf.o",
            "it has no map `limit`",
            "it has `limits`, `weights`, `by_cpu`, `chosen`",
        ),
    );
    refused(
        dir,
        "settings.bpf.o/vars.small=256/",
        &cannot(
            "settings.bpf.o",
            "`256` is no value of `small`, which is an unsigned number of 1 bytes",
            "",
        ),
    );
    refused(
        dir,
        "no_programs.bpf.o",
        "error: `no_programs.bpf.o` has no BPF programs\n\
         hint: a program is a function in a section that says where it runs, as \
         `SEC(\"raw_tp/sys_enter\")`",
    );
    let said = |args: &[&str]| {
        let mut record = bpfperf();
        record.current_dir(dir).args(["record", "-o", "no.data"]).args(args).arg("true");
        let output = output_of(&mut record);
        assert_eq!(output.status.code(), Some(1), "{}", told(&record, &output));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let unknown = said(&["-e", "unknown_section.bpf.o"]);
    let want = "error: program `on_moon` of `unknown_section.bpf.o` is in section `moonphase/full`, \
                which leads to no event\nhint: choose programs by name, as `FILE:PROGRAM`; programs \
                in `perf_event`, `tracepoint/SYSTEM/EVENT`, ";
    assert!(unknown.starts_with(want), "{unknown}");
    // The last lines of the log, and all of it.
    let verifier = said(&["-e", "refused.bpf.o"]);
    let want = "\n  because: the verifier refuses `unchecked`: ";
    let end = " | R0 invalid mem access 'map_value_or_null'\nhint: `-v` shows all ";
    assert!(verifier.contains(want) && verifier.contains(end), "{verifier}");
    let call = "call bpf_get_current_pid_tgid#14";
    assert!(!verifier.contains(call), "{verifier}");
    assert!(said(&["-v", "-e", "refused.bpf.o"]).contains(call));
}

#[test]
fn what_this_kernel_has_no_place_for_is_told() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let stage = Stage::new();
    let dir = stage.dir.path();
    object("kprobe", dir);
    let has_kprobes = Path::new("/sys/bus/event_source/devices/kprobe").exists();
    if !has_kprobes {
        let mut record = bpfperf();
        record.current_dir(dir).args(["record", "-o", "no.data", "-e", "kprobe.bpf.o", "true"]);
        let output = output_of(&mut record);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.contains("and this kernel has no kprobes\nhint: it is built without"),
            "{said}"
        );
        assert_eq!(output.status.code(), Some(1));
    }
    object("fentry", dir);
    let mut record = bpfperf();
    record.current_dir(dir).args(["record", "-o", "no.data", "-e", "fentry.bpf.o", "true"]);
    let output = output_of(&mut record);
    let said = String::from_utf8_lossy(&output.stderr);
    let want = "\n  because: the kernel does not let `on_sleep` of section `fentry/do_nanosleep` be \
                loaded\nhint: you have the privilege, so this kernel itself refuses `fentry`; ";
    assert!(output.status.success() || said.contains(want), "{said}");
}

/// The names of loaded programs, and how many links there are of them.
fn loaded(names: &[&str]) -> Vec<(String, usize)> {
    let links: Vec<u32> = LinkInfoIter::default().map(|it| it.prog_id).collect();
    let programs = ProgInfoIter::default();
    let named = programs.map(|it| (it.name.to_string_lossy().into_owned(), it.id));
    let named = named.filter(|it| names.contains(&&*it.0));
    named.map(|(name, id)| (name, links.iter().filter(|it| **it == id).count())).collect()
}

#[test]
fn nothing_is_left_of_the_programs_however_the_recorder_ends() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let stage = Stage::new();
    let dir = stage.dir.path();
    // Names that no other test has.
    let source =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bpf/kinds.bpf.c"));
    assert!(source.unwrap().contains("int on_raw("));
    let renamed =
        ["on_clock", "on_function", "on_call", "on_raw"].map(|it| format!("-D{it}=left_{it}"));
    let args: Vec<&str> = renamed.iter().map(String::as_str).collect();
    object_with("kinds", &args, dir);
    let names =
        ["left_on_clock", "left_on_functi", "left_on_functio", "left_on_call", "left_on_raw"];
    assert_eq!(loaded(&names), []);
    for signal in ["-INT", "-KILL"] {
        let mut record = bpfperf();
        record.current_dir(dir).args(["record", "-q", "-o", "x.data", "-a", "-e", "kinds.bpf.o"]);
        let mut record = record.stderr(Stdio::null()).spawn().unwrap();
        let n_loaded = || loaded(&names).len();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
        let wait = |wanted: usize| {
            while n_loaded() != wanted && std::time::Instant::now() < until {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            assert_eq!(n_loaded(), wanted, "{signal}");
        };
        wait(4);
        let kill = Command::new("kill").arg(signal).arg(record.id().to_string()).status();
        assert!(kill.unwrap().success());
        record.wait().unwrap();
        wait(0);
    }
}

#[test]
fn what_is_left_of_a_killed_recording_tells_whose_verdict_it_was() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let stage = Stage::new();
    object("kinds", stage.dir.path());
    let mut record = bpfperf();
    record.current_dir(stage.dir.path()).args(["record", "-a", "-o", "x.data", "-e"]);
    let mut record = record.arg("kinds.bpf.o:on_call").stderr(Stdio::null()).spawn().unwrap();
    let recording = stage.path("x.data");
    let report = || {
        let mut report = bpfperf();
        let output = output_of(report.args(["report", "-i"]).arg(&recording));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let want = "1 BPF program on `syscalls:sys_enter_getppid` may have dropped samples of it, \
                uncounted: `on_call`";
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !report().contains(want) && std::time::Instant::now() < until {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    record.kill().unwrap();
    record.wait().unwrap();
    assert!(report().contains(want), "{}", report());
}
