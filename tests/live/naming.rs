//! Programs that other tasks load, before and while one command is recorded.

use std::ops::Range;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::thread;
use std::time::Duration;

use libbpf_rs::Link;
use libbpf_rs::Object;
use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::loading::Debug;
use crate::loading::load;
use crate::stage::Need;
use crate::stage::bpfperf;
use crate::stage::may_run;
use crate::stage::peer;
use crate::stage::stdout_of;

/// The programs' names; each has a function `NAME_sub` and says who it is.
const NAMES: [&str; 3] = ["loaded_before_the_start", "loaded_meanwhile", "gone_before_the_end"];

/// A program that runs at each system call and takes its time.
fn busy(name: &str) -> Object {
    let source = format!(
        "META(char, owner)[] = \"team-{name}\";
         NOINLINE int {name}_sub(int x) {{
             for (int i = 0; i < 300; i++) {{ OPAQUE(x); x = x * 3 + i; }}
             return x;
         }}
         SEC(\"raw_tp/sys_enter\") int {name}(void *ctx) {{ return {name}_sub(5); }}"
    );
    load(&source, Debug::Full)
}

fn attach(object: &Object) -> Link {
    object.progs_mut().next().unwrap().attach().unwrap()
}

/// Holds what `tool` prints of the recording against what is known of its making.
#[track_caller]
fn check(tool: impl Fn() -> Command, recording: &Path) {
    let script =
        |options: &[&str]| stdout_of(tool().arg("script").arg("-i").arg(recording).args(options));
    let samples = script(&["-F", "ip,sym"]);
    let events = script(&["--show-bpf-events"]);
    for name in NAMES {
        let of_sub = format!("_{name}_sub");
        let n = samples.lines().filter(|it| it.ends_with(&of_sub)).count();
        assert!(n >= 10, "{n} samples in {of_sub}");
        let owner = format!("owner = \"team-{name}\"");
        assert_eq!(events.matches(&owner).count(), 2, "of each function: {owner}");
    }
    // Where the kernel puts modules and programs; there are no modules in this recording.
    let unnamed = |it: &&str| it.contains(" ffffffffc0") && it.ends_with("[unknown]");
    let n = samples.lines().filter(unnamed).count();
    let of = samples.lines().count();
    assert!(n * 100 <= of, "{n} of {of} samples lie in programs without a name");
}

#[test]
fn programs_of_other_tasks_are_named_whenever_they_were_loaded() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let [name_of_before, name_of_meanwhile, name_of_gone] = NAMES;
    let before = busy(name_of_before);
    let _before = attach(&before);
    let dir = tempfile::tempdir().unwrap();
    let recording = dir.path().join("perf.data");
    let recorder = Recorder::start(bpfperf(), &[], &recording);
    let (meanwhile, gone) = (busy(name_of_meanwhile), busy(name_of_gone));
    let _meanwhile = attach(&meanwhile);
    let link = attach(&gone);
    thread::sleep(Duration::from_secs(1));
    drop((link, gone));
    drop(recorder);
    check(bpfperf, &recording);
    if let Some(peer) = peer() {
        check(|| Command::new(&peer), &recording);
    }
}

/// A recorder of a command that makes system calls without end.
struct Recorder(Child);

impl Recorder {
    /// Starts it, and waits until the command runs.
    #[track_caller]
    fn start(mut tool: Command, options: &[&str], recording: &Path) -> Self {
        tool.args(["record", "-q"]).args(options).arg("-o").arg(recording).arg("--");
        tool.args(["dd", "if=/dev/zero", "of=/dev/null", "bs=1", "status=none"]);
        let record = tool.spawn().unwrap();
        let children = format!("/proc/{0}/task/{0}/children", record.id());
        let runs = || {
            let child = std::fs::read_to_string(&children).unwrap_or_default();
            let comm = std::fs::read_to_string(format!("/proc/{}/comm", child.trim()));
            comm.is_ok_and(|it| it == "dd\n")
        };
        while !runs() {
            thread::sleep(Duration::from_millis(20));
        }
        Self(record)
    }
}

impl Drop for Recorder {
    /// Ends the recording, and with it the command.
    fn drop(&mut self) {
        kill(Pid::from_raw(self.0.id().try_into().unwrap()), Signal::SIGINT).ok();
        self.0.wait().ok();
    }
}

#[test]
fn a_program_of_another_task_in_perfs_own_recording_of_a_command_is_named_by_its_section() {
    if !may_run(&[Need::Root, Need::Peer]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let recording = dir.path().join("perf.data");
    let recorder = Recorder::start(Command::new(peer().unwrap()), &[], &recording);
    let meanwhile = busy("of_another_task");
    let attached = attach(&meanwhile);
    // perf looks for programs once a second, where it gets a CPU.
    thread::sleep(Duration::from_secs(4));
    drop(recorder);
    drop(attached);
    let samples = stdout_of(bpfperf().args(["script", "-F", "ip,sym", "-i"]).arg(&recording));
    let n = samples.lines().filter(|it| it.ends_with("_of_another_task_sub")).count();
    assert!(n >= 10, "{n} samples are named");
}

/// A life of a function: its addresses, its name, from when until when.
type Life = (Range<u64>, String, f64, f64);

/// What `script` says of the functions called `reuse_N_sub`.
fn lives(events: &str) -> Vec<Life> {
    let mut lives: Vec<Life> = Vec::new();
    for line in events.lines().filter(|it| it.contains("PERF_RECORD_KSYMBOL")) {
        let mut words = line.split_whitespace();
        let time: f64 = words.next().unwrap().trim_end_matches(':').parse().unwrap();
        let start = u64::from_str_radix(words.nth(2).unwrap(), 16).unwrap();
        let len: u64 = words.nth(1).unwrap().parse().unwrap();
        let name = words.last().unwrap();
        if !(name.contains("_reuse_") && name.ends_with("_sub")) {
            continue;
        }
        if line.contains("flags 0x1") {
            let life = lives.iter_mut().rfind(|it| it.1 == name).unwrap();
            life.3 = time;
        } else {
            lives.push((start..start + len, name.to_owned(), time, f64::INFINITY));
        }
    }
    lives
}

#[test]
fn an_address_that_is_used_again_is_named_by_time() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let recording = dir.path().join("perf.data");
    let recorder = Recorder::start(bpfperf(), &["-F", "2000"], &recording);
    for n in 0..6 {
        // One of them comes back under its own name.
        let object = busy(&format!("reuse_{}", n % 5));
        let attached = attach(&object);
        thread::sleep(Duration::from_millis(250));
        drop((attached, object));
    }
    drop(recorder);
    let script = |fields: &str| {
        let mut script = bpfperf();
        script.args(["script", "--show-bpf-events", "-F", fields, "-i"]).arg(&recording);
        stdout_of(&mut script)
    };
    let events = script("time,ip,sym");
    let lives = lives(&events);
    assert_eq!(lives.len(), 6, "{lives:?}");
    let is_reused = |n: usize| {
        let (new, old) = (&lives[n].0, &lives[..n]);
        old.iter().any(|(old, ..)| old.start < new.end && new.start < old.end)
    };
    assert!((1..6).any(is_reused), "no address was used again: {lives:?}");
    let mut n_named = vec![0; lives.len()];
    for line in events.lines().filter(|it| !it.contains("PERF_RECORD_")) {
        let Some((time, rest)) = line.trim_start().split_once(':') else { continue };
        let name = rest.split_whitespace().last().unwrap_or_default();
        if !(name.contains("_reuse_") && name.ends_with("_sub")) {
            continue;
        }
        let time: f64 = time.parse().unwrap();
        let is_it = |it: &Life| it.1 == name && it.2 <= time && time <= it.3;
        let life = lives.iter().position(is_it);
        n_named[life.unwrap_or_else(|| panic!("`{line}` is in none of {lives:?}"))] += 1;
    }
    assert!(n_named.iter().all(|n| *n >= 3), "{n_named:?}");
}

#[test]
fn whatever_is_recorded_a_program_that_another_task_loads_meanwhile_has_its_name() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let mut workload = Command::new("taskset");
    workload.args(["-c", "0", "dd", "if=/dev/zero", "of=/dev/null", "bs=1", "status=none"]);
    let mut workload = workload.spawn().unwrap();
    let pid = workload.id().to_string();
    let dir = tempfile::tempdir().unwrap();
    for (n, target) in [["-p", &*pid], ["-t", &pid], ["-C", "0"]].into_iter().enumerate() {
        let recording = dir.path().join(target[0]);
        let mut record = bpfperf();
        record.args(["record", "-q", "-F", "2000"]).args(target).arg("-o").arg(&recording);
        let mut record = record.args(["--", "sleep", "2"]).spawn().unwrap();
        while !recording.exists() {
            thread::sleep(Duration::from_millis(20));
        }
        let object = busy(&format!("target_{n}"));
        let attached = attach(&object);
        assert!(record.wait().unwrap().success(), "{target:?}");
        drop(attached);
        let samples = stdout_of(bpfperf().args(["script", "-F", "ip,sym", "-i"]).arg(&recording));
        let named = samples.lines().filter(|it| it.ends_with(&format!("_target_{n}_sub"))).count();
        assert!(named >= 10, "{target:?}: {named}");
    }
    workload.kill().unwrap();
    workload.wait().unwrap();
}
