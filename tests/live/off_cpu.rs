//! Time off the CPU: what is measured, and what is left of it.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::Command;
use std::process::Stdio;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use bpfperf::bpf::Programs;
use bpfperf::bpf::off_cpu::CgroupIds;
use bpfperf::bpf::off_cpu::Halves;
use bpfperf::bpf::off_cpu::Hooks;
use bpfperf::bpf::off_cpu::Losses;
use bpfperf::bpf::off_cpu::OffCpu;
use bpfperf::bpf::off_cpu::OffCpuMessage;
use bpfperf::bpf::off_cpu::Setup;
use bpfperf::bpf::off_cpu::Whom;
use bpfperf::units::ProgId;
use bpfperf::units::Tid;
use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::time::ClockId;
use nix::time::clock_gettime;
use nix::unistd::Pid;

use crate::stage::Need;
use crate::stage::bpfperf;
use crate::stage::may_run;
use crate::stage::output_of;
use crate::stage::peer;
use crate::stage::stdout_of;

fn setup(whom: Whom, hooks: Hooks) -> Setup {
    Setup {
        whom,
        cpus: None,
        cgroups: Vec::new(),
        halves: Halves { kernel: true, user: true },
        max_frames: 127,
        cgroup_ids: CgroupIds::No,
        threshold_ns: u64::MAX,
        hooks,
    }
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
    let nanos = |it: i64| u64::try_from(it).unwrap();
    nanos(time.tv_sec()) * 1_000_000_000 + nanos(time.tv_nsec())
}

/// What is measured of this thread on `hooks` while it sleeps and is woken.
#[track_caller]
fn check_hooks(hooks: Hooks) {
    let own = nix::unistd::gettid().as_raw();
    let mut program = OffCpu::load(&setup(Whom::Threads(vec![Tid(own)]), hooks)).unwrap();
    let (send, receive) = std::sync::mpsc::channel();
    let waker = thread::Builder::new().name("waker".to_owned()).spawn(move || {
        thread::sleep(Duration::from_millis(300));
        send.send(nix::unistd::gettid().as_raw()).unwrap();
    });
    program.turn_on(now());
    for _ in 0..5 {
        thread::sleep(Duration::from_millis(10));
    }
    let waker_tid = receive.recv().unwrap();
    program.turn_off();
    thread::sleep(Duration::from_millis(20));
    waker.unwrap().join().unwrap();
    let sums = program.sums().unwrap();
    assert!(sums.iter().all(|it| it.key.tid == Tid(own)));
    let asleep = |it: &&OffCpuMessage| it.key.state == 1;
    let sleeps: Vec<_> = sums.iter().filter(asleep).filter(|it| it.sum.n == 5).collect();
    assert_eq!(sleeps.len(), 1, "{sums:?}");
    // However long it had to wait for a CPU then.
    let asleep_ns = sleeps[0].sum.off_ns - sleeps[0].sum.runnable_ns;
    assert!((50_000_000..90_000_000).contains(&asleep_ns), "{sums:?}");
    assert_eq!(sleeps[0].key.woken_by, 2);
    let received: Vec<_> = sums.iter().filter(|it| it.key.waker.1 == Tid(waker_tid)).collect();
    assert_eq!(received.len(), 1, "{sums:?}");
    assert_eq!(&received[0].sum.waker_comm[..6], b"waker\0");
    assert!(200_000_000 < received[0].sum.off_ns);
    assert_eq!(program.losses(), Losses::default());
}

#[test]
fn sleeps_are_summed_by_stack_and_waker() {
    if may_run(&[Need::Root]) {
        check_hooks(Hooks::Best);
    }
}

#[test]
fn raw_tracepoints_measure_the_same() {
    if may_run(&[Need::Root]) {
        check_hooks(Hooks::Raw);
    }
}

/// A sample of `offcpu-time`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Slept {
    comm: String,
    tid: u32,
    micros: u64,
    off_ns: u64,
    state: String,
    woken_by: String,
    n: u64,
}

/// The samples of `offcpu-time` in a recording, as `script` prints them.
fn samples(recording: &Path) -> Vec<Slept> {
    let mut script = bpfperf();
    script.args(["script", "-F", "comm,tid,time,period,event,bpf-output", "-i"]).arg(recording);
    let text = stdout_of(&mut script);
    let lines = text.lines().filter(|it| it.contains(" offcpu-time: "));
    lines.map(|line| slept(line).unwrap_or_else(|| panic!("{line}"))).collect()
}

impl Slept {
    /// Whether a timer ended it. A kernel that hides from all who trace what goes on while some of its
    /// threads run may have hidden the timer, too.
    fn is_nap(&self) -> bool {
        self.state == "S" && ["interrupt", "?"].contains(&&*self.woken_by)
    }
}

fn slept(line: &str) -> Option<Slept> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let event = words.iter().position(|it| *it == "offcpu-time:")?;
    let [comm @ .., tid, time, period] = &words[..event] else { return None };
    let named = |name: &str| words.iter().find_map(|it| it.strip_prefix(name));
    Some(Slept {
        comm: comm.join(" "),
        tid: tid.parse().ok()?,
        micros: time.trim_end_matches(':').replace('.', "").parse().ok()?,
        off_ns: period.parse().ok()?,
        state: named("state=")?.to_owned(),
        woken_by: named("woken_by=").unwrap_or_default().to_owned(),
        n: named("n=")?.parse().ok()?,
    })
}

/// A recorder of time off the CPU, which writes to `recording`.
fn record(recording: &Path, args: &[&str]) -> Command {
    let mut record = bpfperf();
    record.args(["record", "-q", "--off-cpu", "-e", "cpu-clock", "-o"]).arg(recording).args(args);
    record
}

fn sum(samples: &[Slept], is_meant: impl Fn(&Slept) -> bool) -> u64 {
    samples.iter().filter(|it| is_meant(it)).map(|it| it.off_ns).sum()
}

const MS: u64 = 1_000_000;
/// How much longer than it asks for a task of a busy machine is off the CPU, a time.
const LATE: u64 = 40 * MS;

/// One sleep of 600 ms and twenty of 10 ms, each in a process of its own.
const SLEEPS: &str = "sleep 0.6; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do \
                      sleep 0.01; done";

#[test]
fn a_sleep_has_its_time_its_state_its_stack_and_its_waker() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    stdout_of(record(&recording, &["--"]).args(["sh", "-c", SLEEPS]));
    let all = samples(&recording);
    // Of children, too, and of nobody else.
    assert!(all.iter().all(|it| ["sh", "sleep"].contains(&&*it.comm)), "{all:?}");
    let by_timer = |it: &Slept| it.comm == "sleep" && it.is_nap() && it.state == "S";
    let slept = sum(&all, by_timer);
    assert!((800 * MS..800 * MS + 21 * LATE).contains(&slept), "{slept}: {all:?}");
    let long: Vec<_> = all.iter().filter(|it| by_timer(it) && 500 * MS <= it.off_ns).collect();
    assert_eq!(long.len(), 1, "{all:?}");
    assert!((600 * MS..600 * MS + LATE * 5).contains(&long[0].off_ns), "{long:?}");
    // The shell waits for its child, which wakes it when it ends.
    let waker = format!("sleep/{}", long[0].tid);
    let waited: Vec<_> = all.iter().filter(|it| it.comm == "sh" && it.woken_by == waker).collect();
    assert!(waited.iter().any(|it| it.state == "S" && 500 * MS <= it.off_ns), "{all:?}");
    // Until the child has run its program the parent does not run, nor can it be interrupted.
    let vforked =
        |it: &&Slept| it.comm == "sh" && it.state == "D" && it.woken_by.starts_with("sh/");
    assert!(all.iter().any(|it| vforked(&it)), "{all:?}");
    // What is summed comes last, and as of one moment.
    let last = all.iter().map(|it| it.micros).max().unwrap();
    assert!(all.iter().filter(|it| it.off_ns < 500 * MS).all(|it| it.micros == last), "{all:?}");
    assert!(long[0].micros < last, "{all:?}");

    let mut script = bpfperf();
    script.args(["script", "-F", "comm,event,ip,sym", "-i"]).arg(&recording);
    let text = stdout_of(&mut script);
    let blocks: Vec<&str> = text.split("\n\n").filter(|it| it.contains("offcpu-time:")).collect();
    let nap = blocks.iter().find(|it| it.contains("do_nanosleep")).expect("a sleep");
    let frames: Vec<&str> = nap.lines().filter(|it| it.starts_with('\t')).collect();
    assert!(frames[0].ends_with(" __schedule") && frames[1].ends_with(" schedule"), "{nap}");
    assert!(frames.iter().any(|it| it.contains(" clock_nanosleep")), "{nap}");
    // Other events have no chain here, and no empty line behind them; they may well hit the program's caller.
    let chains = blocks.iter().flat_map(|it| it.lines().filter(|it| it.starts_with('\t')));
    let own: Vec<&str> = chains.filter(|it| it.contains("bpf_trace_run")).collect();
    assert!(own.is_empty(), "{own:?} in {text}");
}

#[test]
fn whoever_waits_in_a_pipe_is_woken_by_the_writer() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let script = "(echo $$ >&2; sleep 0.7; exec printf x) | cat";
    stdout_of(record(&recording, &["--"]).args(["bash", "-c", script]));
    let all = samples(&recording);
    let read: Vec<_> = all.iter().filter(|it| it.comm == "cat" && 500 * MS < it.off_ns).collect();
    assert_eq!(read.len(), 1, "{all:?}");
    let (name, tid) = read[0].woken_by.split_once('/').expect("a task");
    assert_eq!((name, &*read[0].state), ("printf", "S"), "{all:?}");
    // That is who slept before as a shell.
    let tid: u32 = tid.parse().unwrap();
    let waited = |it: &&Slept| it.tid == tid && 500 * MS < it.off_ns;
    assert!(all.iter().any(|it| waited(&it)), "{all:?}");
}

#[test]
fn who_is_still_asleep_at_the_end_is_told_and_others_are_not() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    // It goes to sleep once it is recorded: who sleeps already when that begins is not seen.
    let go = scratch.path().join("go").display().to_string();
    let wait = format!("while ! test -e {go}; do sleep 0.05; done; sleep 30");
    let mut child = Command::new("sh").args(["-c", &wait]).spawn().unwrap();
    let pid = child.id().to_string();
    let command = format!("touch {go}; sleep 2");
    stdout_of(record(&recording, &["-p", &pid, "--"]).args(["sh", "-c", &command]));
    child.kill().unwrap();
    child.wait().unwrap();
    let all = samples(&recording);
    let asleep: Vec<_> = all.iter().filter(|it| it.woken_by == "nobody").collect();
    let comms: Vec<&str> = asleep.iter().map(|it| &*it.comm).collect();
    assert!(comms.contains(&"sh") && comms.contains(&"sleep"), "{all:?}");
    assert!(asleep.iter().all(|it| (500 * MS..9000 * MS).contains(&it.off_ns)), "{all:?}");
    // A child that is there when the recording begins may be without a name.
    let is_ours =
        |it: &Slept| ["sh", "sleep"].contains(&&*it.comm) || it.comm == format!(":{}", it.tid);
    assert!(all.iter().all(is_ours), "{all:?}");
}

#[test]
fn without_inheritance_children_are_left_out() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    stdout_of(record(&recording, &["-i", "--"]).args(["sh", "-c", "sleep 0.6; true"]));
    let all = samples(&recording);
    assert!(!all.is_empty() && all.iter().all(|it| it.comm == "sh"), "{all:?}");
}

#[test]
fn each_time_has_a_sample_from_the_threshold_on() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let args = ["--off-cpu-thresh", "5", "--"];
    stdout_of(record(&recording, &args).args(["sh", "-c", SLEEPS]));
    let all = samples(&recording);
    let naps: Vec<_> = all.iter().filter(|it| it.comm == "sleep" && it.is_nap()).collect();
    let own = naps.iter().filter(|it| it.n == 1 && 5 * MS <= it.off_ns).count();
    assert_eq!(own, 21, "{naps:?}");
}

/// The nanoseconds off the CPU by command, as the report of `tool` has them.
fn by_command(mut tool: Command, recording: &Path) -> BTreeMap<String, u64> {
    tool.args(["report", "--stdio", "--no-children", "-g", "none", "-s", "comm"]);
    tool.args(["-F", "period,comm", "-i"]).arg(recording);
    let text = stdout_of(&mut tool);
    let (_, of_event) = text.split_once("of event 'offcpu-time'").expect("the event");
    let of_event = of_event.split("of event '").next().unwrap_or_default();
    let rows = of_event.lines().filter(|it| !it.starts_with('#')).filter_map(|it| {
        let (period, comm) = it.trim().split_once("  ")?;
        Some((comm.trim().to_owned(), period.parse().ok()?))
    });
    rows.collect()
}

#[test]
fn perf_reads_the_same_times_old_and_new() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let old = Path::new("/usr/bin/perf");
    let tools = peer().into_iter().chain(old.is_file().then(|| old.to_owned()));
    for tool in tools {
        for way in [&["-g"][..], &["-a", "-z", "--all-cgroups"], &["--threads", "-a"]] {
            let args = [&["--compat", "6.1"][..], way, &["--"]].concat();
            let is_directory = way.contains(&"--threads");
            if is_directory && tool == old {
                // perf 6.1 reads directories of its own alone.
                continue;
            }
            stdout_of(record(&recording, &args).args(["sh", "-c", "sleep 0.6; sleep 0.05"]));
            let ours = by_command(bpfperf(), &recording);
            assert!(650 * MS < ours["sleep"], "{ours:?}");
            assert_eq!(by_command(Command::new(&tool), &recording), ours, "{tool:?} {way:?}");
        }
    }
}

/// Takes from the samples of `offcpu-time` what stands in the fields that all samples have, as perf writes
/// its own: only the raw data tells.
fn blank_fields(recording: &Path) -> usize {
    let mut file = fs::read(recording).unwrap();
    let word = |file: &[u8], at: usize| {
        usize::try_from(u64::from_ne_bytes(file[at..at + 8].try_into().unwrap())).unwrap()
    };
    // Of the header, where the records begin and how long they are.
    let (mut at, len) = (word(&file, 40), word(&file, 48));
    let (end, mut n_blank) = (at + len, 0);
    while at < end {
        let size = usize::from(u16::from_ne_bytes([file[at + 6], file[at + 7]]));
        let is_sample = file[at..at + 4] == 9_u32.to_ne_bytes();
        if is_sample && file[at..at + size].windows(8).any(|it| it == b"bpfoff\x01\0") {
            // Behind the header: id, address, task, time, CPU, period.
            for field in [1, 2, 5] {
                file[at + 8 + field * 8..at + 16 + field * 8].fill(0);
            }
            n_blank += 1;
        }
        at += size;
    }
    fs::write(recording, file).unwrap();
    n_blank
}

#[test]
fn raw_data_alone_says_whom_a_sample_is_of() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    stdout_of(record(&recording, &["--"]).args(["sh", "-c", "sleep 0.6; sleep 0.05"]));
    let (before, samples_before) = (by_command(bpfperf(), &recording), samples(&recording));
    assert_eq!(blank_fields(&recording), samples_before.len());
    assert_eq!(samples(&recording), samples_before);
    assert_eq!(by_command(bpfperf(), &recording), before);
    if let Some(peer) = peer() {
        assert_eq!(by_command(Command::new(peer), &recording), before);
    }
}

#[test]
fn files_of_a_recording_in_several_have_each_their_part() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let script = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 0.12; done";
    stdout_of(record(&recording, &["--switch-output=1s", "--"]).args(["sh", "-c", script]));
    let files: Vec<_> =
        fs::read_dir(scratch.path()).unwrap().map(|it| it.unwrap().path()).collect();
    assert!(1 < files.len(), "{files:?}");
    let parts: Vec<_> = files
        .iter()
        .map(|it| sum(&samples(it), |it| it.comm == "sleep" && it.state == "S"))
        .collect();
    let total: u64 = parts.iter().sum();
    assert!((2400 * MS..2400 * MS + 20 * LATE).contains(&total), "{parts:?}");
    assert!(parts.iter().all(|it| *it < 2000 * MS), "{parts:?}");
}

#[test]
fn what_passes_while_sampling_is_off_does_not_count() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let script = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 0.1; done";
    stdout_of(record(&recording, &["-D", "500-1000", "--"]).args(["sh", "-c", script]));
    let all = samples(&recording);
    // What is under way at the beginning is left out, and what is at the end counts so far.
    let slept = sum(&all, |it| it.comm == "sleep" && it.state == "S");
    assert!((50 * MS..1500 * MS).contains(&slept), "{all:?}");
    assert!(all.iter().all(|it| it.off_ns < 500 * MS), "{all:?}");
}

#[test]
fn a_sleep_counts_as_far_as_sampling_is_on() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let args = ["-D", "1000-2000,3000-9000", "--"];
    stdout_of(record(&recording, &args).args(["sh", "-c", "sleep 1.2; sleep 3; true"]));
    // The second sleep begins in the first window and ends in the second: it lasts from 1.2 s to 4.2 s, of
    // which one second is between the windows.
    let all = samples(&recording);
    let slept = sum(&all, |it| it.comm == "sleep" && it.state == "S");
    assert!((1200 * MS..2800 * MS).contains(&slept), "{all:?}");
    let ended: Vec<_> = all.iter().filter(|it| it.comm == "sleep" && it.is_nap()).collect();
    assert_eq!(ended.len(), 1, "{all:?}");
    assert!((500 * MS..1900 * MS).contains(&ended[0].off_ns), "{all:?}");
}

/// Starts so many threads one after the other, each of which sleeps once, `n` times `BATCH` in all.
fn come_and_go(n: usize) {
    const BATCH: usize = 8;
    for _ in 0..n {
        let napper = || {
            let named = thread::Builder::new().name("napper".to_owned());
            named.spawn(|| thread::sleep(Duration::from_micros(100))).unwrap()
        };
        let batch: Vec<_> = (0..BATCH).map(|_| napper()).collect();
        for it in batch {
            it.join().unwrap();
        }
    }
}

#[test]
fn more_tasks_may_come_and_go_than_there_is_room_for() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let own = std::process::id().to_string();
    let mut record = bpfperf();
    record.args(["record", "-q", "--off-cpu", "-e", "dummy", "-m", "16M", "-p", &own, "-o"]);
    let mut recorder = record.arg(&recording).stderr(Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while held(recorder.id()).len() < 3 && Instant::now() < until {
        thread::sleep(Duration::from_millis(50));
    }
    thread::sleep(Duration::from_secs(1));
    // Whoever waits for them has a sum for each as well; there is room for 65,536.
    come_and_go(10_000);
    kill(Pid::from_raw(recorder.id().cast_signed()), Signal::SIGINT).unwrap();
    let mut said = String::new();
    recorder.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    recorder.wait().unwrap();
    assert!(!said.contains("found no room"), "{said}");
    let all = samples(&recording);
    let slept = all.iter().filter(|it| it.comm == "napper" && it.is_nap());
    let n: u64 = slept.map(|it| it.n).sum();
    // A timer may go off before the thread sleeps.
    assert!((78_000..=80_000).contains(&n) && 65_536 < all.len(), "{n}: {} samples", all.len());
}

/// The numbers of the programs that a process holds.
fn held(pid: u32) -> BTreeSet<u32> {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fdinfo")) else { return BTreeSet::new() };
    let texts = files.filter_map(|it| fs::read_to_string(it.ok()?.path()).ok());
    let ids = texts.filter_map(|it| {
        let id = it.lines().find_map(|it| it.strip_prefix("prog_id:"))?.trim().parse().ok();
        id.filter(|_| it.contains("prog_type"))
    });
    ids.collect()
}

/// Those of `ids` that are loaded.
fn loaded(ids: &BTreeSet<u32>) -> Vec<u32> {
    let all = Programs::walk().unwrap();
    ids.iter().copied().filter(|&it| all.get(ProgId(it)).is_some()).collect()
}

#[test]
fn nothing_stays_in_the_kernel_however_a_recorder_ends() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    for signal in [Signal::SIGKILL, Signal::SIGINT] {
        let mut recorder = record(&recording, &["-a", "--"]).args(["sleep", "60"]).spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        // Those of others it holds for a moment, to read what they are.
        let (mut ids, mut before) = (BTreeSet::new(), BTreeSet::new());
        while ids.len() < 3 && Instant::now() < until {
            thread::sleep(Duration::from_millis(200));
            let now = held(recorder.id());
            ids = &now & &before;
            before = now;
        }
        assert!(2 < ids.len() && loaded(&ids).len() == ids.len(), "{ids:?}");
        kill(Pid::from_raw(recorder.id().cast_signed()), signal).unwrap();
        recorder.wait().unwrap();
        let until = Instant::now() + Duration::from_secs(10);
        while !loaded(&ids).is_empty() && Instant::now() < until {
            thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(loaded(&ids), [0; 0], "{signal}");
    }
}

#[test]
fn who_may_not_load_programs_is_told() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let mut record = Command::new("setpriv");
    record.args(["--bounding-set", "-all", "--inh-caps", "-all"]);
    record.arg(bpfperf().get_program()).args(["record", "--off-cpu", "-o"]).arg(&recording);
    let output = output_of(record.arg("true"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let want = "error: cannot measure time off the CPU\n  because: loading BPF programs is not \
                allowed\nhint: it takes root, or `CAP_BPF` and `CAP_PERFMON`\n";
    assert_eq!((output.status.code(), &*said), (Some(1), want));
    assert!(!recording.exists());
}

#[test]
fn where_processes_have_other_numbers_that_is_told() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let mut record = Command::new("unshare");
    record.args(["--pid", "--fork", "--mount-proc"]).arg(bpfperf().get_program());
    record.args(["record", "-q", "--off-cpu", "-e", "cpu-clock", "-o"]).arg(&recording);
    let output = output_of(record.arg("true"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let want = "error: cannot measure time off the CPU\n  because: in a container, BPF programs know \
                its processes by other numbers\nhint: run it outside, or in a container that shares \
                the processes of its host (`--pid=host`)\n";
    assert_eq!((output.status.code(), &*said), (Some(1), want));
    assert!(!recording.exists());
}
