//! Whom a recording watches, and by which clock, next to what perf makes of the same words.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use nix::time::ClockId;
use nix::time::clock_gettime;

use crate::events;
use crate::stage::Background;
use crate::stage::Need;
use crate::stage::bpfperf;
use crate::stage::may_run;
use crate::stage::output_of;
use crate::stage::peer;
use crate::stage::stdout_of;
use crate::stage::told;

/// A shell that says a word, then uses a CPU, by itself and by what it starts.
const SPIN: &str = "echo spins; while :; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; \
                    sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'; done";

/// Records with us, and ends well.
#[track_caller]
fn record(recording: &Path, words: &[&str]) {
    let mut record = bpfperf();
    stdout_of(record.args(["record", "-q", "-o"]).arg(recording).args(words));
}

/// Process and thread of each sample, with the number of its samples, as `program` prints them.
#[track_caller]
fn tasks(mut program: Command, recording: &Path) -> BTreeMap<(u32, u32), usize> {
    let script = stdout_of(program.args(["script", "-F", "pid,tid", "-i"]).arg(recording));
    let mut tasks = BTreeMap::new();
    for line in script.lines() {
        let (pid, tid) = line.trim().split_once('/').unwrap();
        // A task that is being taken apart has no number left.
        let Ok(pid) = pid.trim().parse() else { continue };
        *tasks.entry((pid, tid.trim().parse().unwrap())).or_default() += 1;
    }
    tasks
}

/// Whether `pid` is `ancestor` or comes from it, as far as `/proc` still tells: who is gone does.
fn comes_from(pid: u32, ancestor: u32) -> bool {
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { return true };
    let parent = status.lines().find_map(|it| it.strip_prefix("PPid:")).unwrap();
    let parent: u32 = parent.trim().parse().unwrap();
    pid == ancestor || parent != 0 && comes_from(parent, ancestor)
}

/// Checks that all samples are of `task` and of what it started, and that there are both.
#[track_caller]
fn check_family(recording: &Path, task: u32) {
    let tasks = tasks(bpfperf(), recording);
    assert!(tasks.keys().any(|it| it.0 == task), "{tasks:?} without {task}");
    assert!(tasks.keys().any(|it| it.0 != task), "{tasks:?} without a child of {task}");
    for (pid, _) in tasks.keys() {
        assert!(comes_from(*pid, task), "{pid} of {tasks:?} has nothing to do with {task}");
    }
    if let Some(perf) = peer() {
        assert_eq!(self::tasks(Command::new(perf), recording), tasks);
    }
}

/// Users whom nothing here runs for.
const USER: &str = "54321";
const NOBODY: &str = "54320";
const SELF_WATCHER: &str = "54322";
const LATE_USER: &str = "54323";

fn spinning_user() -> Background {
    let mut spin = Command::new("setpriv");
    spin.args(["--reuid", USER, "--clear-groups", "sh", "-c", SPIN]);
    Background::start(&mut spin)
}

#[test]
fn the_tasks_of_a_user_are_recorded_with_what_they_start() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let spin = spinning_user();
    record(&recording, &["-u", USER, "-e", "cpu-clock", "sleep", "0.5"]);
    check_family(&recording, spin.pid());
    // A tracepoint has no such filter: there it is the tasks that the user has at the start.
    record(&recording, &["-u", USER, "-e", "sched:sched_stat_runtime", "sleep", "0.5"]);
    check_family(&recording, spin.pid());
    let nobody = |event: &str| {
        let mut nobody = bpfperf();
        nobody.args(["record", "-u", NOBODY, "-e", event, "-o"]).arg(&recording).arg("true");
        let output = output_of(&mut nobody);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (status, said) = nobody("sched:sched_switch");
    assert_eq!((status, said), (Some(1), format!("error: no task of the user {NOBODY} runs\n")));
    // Somebody may begin to run for that user.
    let (status, said) = nobody("cpu-clock");
    assert!(status == Some(0) && said.contains("(no samples, "), "{said}");
}

#[test]
fn a_user_who_begins_to_run_meanwhile_is_recorded() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let spin = "sh -c 'while :; do :; done'";
    let script = format!("timeout 0.5 setpriv --reuid {LATE_USER} --clear-groups {spin}; true");
    record(&recording, &["-u", LATE_USER, "-e", "cpu-clock", "sh", "-c", &script]);
    let late = tasks(bpfperf(), &recording);
    assert!(late.values().sum::<usize>() > 10, "{late:?}");
}

#[test]
fn who_records_themselves_leaves_out_what_hides_from_them() {
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
    if !may_run(&[Need::Root]) || paranoid.trim().parse::<i32>().is_ok_and(|it| 2 < it) {
        // There only root opens events.
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(scratch.path(), 0o777);
    let [recorder, hidden, recording] =
        ["bpfperf", "hidden", "perf.data"].map(|it| scratch.path().join(it));
    fs::copy(bpfperf().get_program(), &recorder).unwrap();
    fs::copy("/bin/sh", &hidden).unwrap();
    mode(&recorder, 0o755);
    // Who runs a file with the rights of another group is not to look into its memory.
    std::os::unix::fs::chown(&hidden, None, Some(1)).unwrap();
    mode(&hidden, 0o2755);
    let as_user = |program: &Path| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", SELF_WATCHER, "--regid", SELF_WATCHER, "--clear-groups"]);
        command.args(["--bounding-set", "-all"]);
        command.arg(program);
        command
    };
    let _seen = Background::start(as_user(Path::new("/bin/sh")).args(["-c", SPIN]));
    let hidden = Background::start(as_user(&hidden).args(["-c", "echo hides; read x"]));
    let maps = fs::metadata(format!("/proc/{}/maps", hidden.pid())).unwrap();
    if maps.uid() != 0 {
        // The file system knows no such rights.
        return;
    }
    let mut record = as_user(&recorder);
    record.args(["record", "-u", SELF_WATCHER, "-e", "cpu-clock:u", "-m", "1", "-o"]);
    record.arg(&recording).args(["sleep", "0.3"]);
    let output = output_of(&mut record);
    assert!(output.status.success(), "{}", told(&record, &output));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let want = "warning: tasks of the user that may not be watched are left out: 1\n";
    assert!(said.contains(want), "{said}");
    let found = tasks(bpfperf(), &recording);
    assert!(!found.is_empty() && found.keys().all(|it| it.0 != hidden.pid()), "{found:?}");
}

/// A cgroup of the test's own, gone with it.
struct Cgroup {
    name: String,
    path: PathBuf,
}

impl Cgroup {
    /// A cgroup where `perf_event` looks for them, or `None` where none can be made.
    fn make(name: &str) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let place = |is_it: &dyn Fn(&[&str]) -> bool| {
            let words = mounts.lines().map(|it| it.split(' ').collect::<Vec<_>>());
            words.filter(|it| is_it(it)).map(|it| PathBuf::from(it[1])).next()
        };
        let own = place(&|it| it[2] == "cgroup" && it[3].split(',').any(|it| it == "perf_event"));
        let mount = own.or_else(|| place(&|it| it[2] == "cgroup2"))?;
        let name = format!("bpfperf-{name}-{}", std::process::id());
        let path = mount.join(&name);
        fs::create_dir(&path).ok()?;
        Some(Self { name, path })
    }

    fn spin(&self) -> Background {
        let procs = self.path.join("cgroup.procs");
        let spin = format!("echo $$ > {}; {SPIN}", procs.display());
        Background::start(Command::new("sh").args(["-c", &spin]))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Whoever was in is dying.
        for _ in 0..100 {
            if fs::remove_dir(&self.path).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The processes that have samples of each event.
#[track_caller]
fn by_event(recording: &Path) -> BTreeMap<String, BTreeSet<u32>> {
    let mut script = bpfperf();
    let script = stdout_of(script.args(["script", "-F", "pid,event", "-i"]).arg(recording));
    let mut found: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    for line in script.lines() {
        let (pid, event) = line.trim().split_once(' ').unwrap();
        let Ok(pid) = pid.parse() else { continue };
        found.entry(event.trim().trim_end_matches(':').to_owned()).or_default().insert(pid);
    }
    found
}

#[test]
fn each_event_watches_its_own_cgroup_and_no_other_task() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let Some(cgroup) = Cgroup::make("one") else { return };
    let other = Cgroup::make("other").unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let (spin, other_spin) = (cgroup.spin(), other.spin());
    let both = "cpu-clock,task-clock";

    record(&recording, &["-a", "-e", both, "-G", &cgroup.name, "sleep", "0.5"]);
    check_family(&recording, spin.pid());

    let names = format!("{},{}", cgroup.name, other.name);
    record(&recording, &["-a", "-e", "cpu-clock,cs", "-G", &names, "sleep", "0.5"]);
    let found = by_event(&recording);
    let is_of = |pids: &BTreeSet<u32>, task| pids.iter().all(|it| comes_from(*it, task));
    assert!(is_of(&found["cpu-clock"], spin.pid()), "{found:?}");
    assert!(is_of(&found["cs"], other_spin.pid()), "{found:?}");

    let second = format!(",/{}", other.name);
    record(&recording, &["-C", "0", "-e", "cpu-clock,cs", "-G", &second, "sleep", "0.3"]);
    let found = by_event(&recording);
    assert!(found.get("cs").is_none_or(|it| is_of(it, other_spin.pid())), "{found:?}");

    events::check_opened(&["-a", "-e", both, "-G", &names]);
}

#[test]
fn a_cgroup_that_is_not_there_or_has_no_cpus_is_refused() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let said = |words: &[&str]| {
        let mut record = bpfperf();
        record.args(["record", "-o", "/dev/null"]).args(words).arg("true");
        let output = output_of(&mut record);
        assert_eq!(output.status.code(), Some(1), "{}", told(&record, &output));
        String::from_utf8(output.stderr).unwrap()
    };
    let missing = said(&["-a", "-G", "not/there"]);
    assert!(missing.starts_with("error: no cgroup is called `not/there`\n"), "{missing}");
    assert!(missing.contains("/not/there`: ENOENT"), "{missing}");
    assert_eq!(
        said(&["-G", "/"]),
        "error: a cgroup is watched on CPUs, not on tasks that are named\n\
         hint: add `-a`, or `-C` with a list of CPUs\n"
    );
}

#[test]
fn with_a_ring_per_thread_each_thread_is_recorded_wherever_it_runs() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let (is_over, tids) = (AtomicBool::new(false), std::sync::Mutex::new(BTreeSet::new()));
    let spin = || {
        tids.lock().unwrap().insert(nix::unistd::gettid().as_raw().cast_unsigned());
        while !is_over.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    };
    let pid = std::process::id().to_string();
    thread::scope(|scope| {
        (0..3).for_each(|_| drop(scope.spawn(spin)));
        while tids.lock().unwrap().len() < 3 {
            thread::sleep(Duration::from_millis(1));
        }
        let words = ["--per-thread", "-p", &pid, "-e", "cpu-clock,task-clock", "sleep", "0.5"];
        record(&recording, &words);
        is_over.store(true, Ordering::Relaxed);
    });
    let found = tasks(bpfperf(), &recording);
    for tid in tids.into_inner().unwrap() {
        assert!(found.contains_key(&(std::process::id(), tid)), "{found:?} without {tid}");
    }
    let Some(perf) = peer() else { return };
    assert_eq!(tasks(Command::new(&perf), &recording), found);
    let dump = stdout_of(Command::new(perf).args(["script", "-D", "-i"]).arg(&recording));
    assert!(dump.contains("PERF_RECORD_CPU_MAP: -1\n"));
    assert!(dump.contains("  idx: 1  cpu: -1  tid: "));
}

#[test]
fn what_a_thread_with_its_own_ring_starts_is_left_out() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let spin = SPIN.replace("while :", "for n in 1 2 3");
    for more in [&[][..], &["-D", "5"], &["-g", "--switch-events"], &["-z"]] {
        let mut words = vec!["--per-thread", "-e", "cpu-clock"];
        words.extend(more);
        words.extend(["sh", "-c", &spin]);
        let mut record = bpfperf();
        let mut child = record.args(["record", "-q", "-o"]).arg(&recording).args(&words);
        child = child.stdout(std::process::Stdio::null());
        assert!(child.status().unwrap().success(), "{words:?}");
        let tasks = tasks(bpfperf(), &recording);
        assert_eq!(tasks.len(), 1, "{words:?}: {tasks:?}");
    }
}

fn now(clock: i32) -> Duration {
    Duration::from(clock_gettime(ClockId::from_raw(clock)).unwrap())
}

#[test]
fn times_are_on_the_clock_that_was_asked_for_as_the_header_says() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let clocks = [("mono", 1), ("monotonic_raw", 4), ("real", 0), ("7", 7), ("CLOCK_TAI", 11)];
    for (clock, number) in clocks {
        let before = now(number);
        record(&recording, &["-k", clock, "-a", "-e", "cpu-clock,cs", "--", "sleep", "0.1"]);
        let after = now(number);
        let mut script = bpfperf();
        script.args(["script", "--show-task-events", "--ns", "-F", "time", "-i"]).arg(&recording);
        let script = stdout_of(&mut script);
        let times = script.lines().filter_map(|it| it.trim().trim_end_matches(':').split_once('.'));
        let times = times.filter_map(|(seconds, ns)| {
            Some(Duration::new(seconds.parse().ok()?, ns.parse().ok()?))
        });
        let (in_time, out): (Vec<_>, Vec<_>) = times.partition(|it| before < *it && *it < after);
        assert!(10 < in_time.len() && out.is_empty(), "{clock}: {out:?}");
        let Some(perf) = peer() else { continue };
        let clock_lines = |program: Command| {
            let mut program = program;
            let header = program.args(["script", "--header-only", "-i"]).arg(&recording);
            let header = stdout_of(header);
            let is_of_clock =
                |it: &&str| it.starts_with("# clockid:") || it.contains("# reference");
            header.lines().filter(is_of_clock).map(str::to_owned).collect::<Vec<_>>()
        };
        let ours = clock_lines(bpfperf());
        assert_eq!(ours.len(), 2, "{ours:?}");
        assert_eq!(ours, clock_lines(Command::new(perf)));
    }
}

#[test]
fn what_targets_and_clocks_make_of_an_attribute_is_what_perf_makes_of_it() {
    if !may_run(&[Need::Root, Need::Peer]) {
        return;
    }
    for clock in ["monotonic", "raw", "realtime", "boot", "tai"] {
        events::check(&["-e", "cpu-clock", "-k", clock]);
    }
    events::check_opened(&["-e", "cpu-clock", "-k", "boot", "-a"]);
    // perf leaves the time out here; our reader orders the records of several rings by it.
    events::check(&["-e", "cpu-clock", "-T", "--per-thread"]);
}
