//! Events, what their samples hold and how they are filtered, next to what perf makes of the same
//! words.

use std::fs::File;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use bpfperf::perfdata::Attr;
use bpfperf::perfdata::AttrFlags;
use bpfperf::perfdata::SampleType;
use bpfperf::replay::Recording;

use crate::stage::Need;
use crate::stage::bpfperf;
use crate::stage::may_run;
use crate::stage::output_of;
use crate::stage::peer;
use crate::stage::stdout_of;
use crate::stage::told;
use crate::stage::without_names_of_libraries;

/// Name and attribute of each event that samples, without what the two recorders decide
/// differently: where an id stands, when they are woken, and who tells of BPF programs.
pub(crate) fn events_of(recording: &Path) -> Vec<(String, Attr)> {
    let file = File::open(recording).unwrap();
    let opened = Recording::open(&file).unwrap();
    let ours = AttrFlags::WATERMARK | AttrFlags::KSYMBOL | AttrFlags::BPF_EVENT;
    let event = |it: &bpfperf::replay::Event| {
        let mut attr = it.attr;
        (attr.size, attr.wakeup) = (0, 0);
        attr.flags -= ours;
        attr.sample_type -= SampleType::ID | SampleType::IDENTIFIER;
        (it.name.clone(), attr)
    };
    opened.events.iter().map(event).filter(|it| it.0 != "dummy:u").collect()
}

/// Records `true` with both into a folder, ours first.
fn record_with_both(words: &[&str]) -> (tempfile::TempDir, PathBuf, PathBuf) {
    let scratch = tempfile::tempdir().unwrap();
    let (ours, perfs) = (scratch.path().join("ours"), scratch.path().join("perfs"));
    stdout_of(bpfperf().args(["record", "-q", "-o"]).arg(&ours).args(words).arg("true"));
    let mut perf = Command::new(peer().unwrap());
    stdout_of(perf.args(["record", "-o"]).arg(&perfs).args(words).arg("true"));
    (scratch, ours, perfs)
}

/// Checks that both open the same. What other tasks do meanwhile is not compared.
#[track_caller]
pub(crate) fn check_opened(words: &[&str]) {
    let (_scratch, ours, perfs) = record_with_both(words);
    assert_eq!(events_of(&ours), events_of(&perfs), "{words:?}");
}

/// Checks that both open the same, and print the same of what we recorded.
#[track_caller]
pub(crate) fn check(words: &[&str]) {
    let Some(perf) = peer() else { return };
    let (_scratch, ours, perfs) = record_with_both(words);
    assert_eq!(events_of(&ours), events_of(&perfs), "{words:?}");
    let script = |command: &mut Command| stdout_of(command.args(["-i"]).arg(&ours));
    let said = script(bpfperf().args(["script", "--no-inline"]));
    let perfs = script(Command::new(&perf).args(["script", "--no-inline"]));
    assert_eq!(without_names_of_libraries(&said), without_names_of_libraries(&perfs), "{words:?}");
}

fn may_compare() -> bool {
    may_run(&[Need::Root, Need::Peer])
}

#[test]
fn names_and_modifiers_open_what_perf_opens() {
    if !may_compare() {
        return;
    }
    let lists = [
        "cpu-clock",
        "task-clock:u,cs:k,faults:uk",
        "cpu-clock:I,cpu-clock:D,cpu-clock:e,cpu-clock:G,cpu-clock:H",
        "cpu-clock:b,cpu-clock:X,cpu-clock:R",
        "software/cpu-clock/,software/config=2/u",
        "minor-faults,major-faults,migrations,cgroup-switches,alignment-faults,emulation-faults",
    ];
    for list in lists {
        check(&["-e", list]);
    }
    check(&["-e", "cpu-clock", "-e", "cs,faults"]);
}

#[test]
fn groups_open_what_perf_opens() {
    if !may_compare() {
        return;
    }
    check(&["-e", "{cpu-clock,cs}"]);
    check(&["-e", "{cpu-clock:u,cs:k,faults}:H,task-clock"]);
    check(&["-e", "{cpu-clock,cs}:W"]);
    check_opened(&["-a", "-e", "{cpu-clock,faults}"]);
    check(&["-e", "{sched:sched_switch,sched:sched_process_exit}"]);
}

#[test]
fn a_group_is_described_as_perf_describes_it() {
    if !may_compare() {
        return;
    }
    let Some(perf) = peer() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    for (list, want) in [
        ("{cpu-clock,cs},faults", "{cpu-clock,cs}"),
        ("faults,mine{cpu-clock,cs}:S", "mine{cpu-clock,cs}"),
    ] {
        let mut record = bpfperf();
        record.args(["record", "-q", "-e", list, "-o"]).arg(&recording);
        stdout_of(record.arg("true"));
        let said = stdout_of(Command::new(&perf).args(["evlist", "-g", "-i"]).arg(&recording));
        assert!(said.lines().any(|it| it == want), "{said}");
    }
}

#[test]
fn samples_of_a_leader_hold_the_values_of_its_group() {
    if !may_compare() {
        return;
    }
    let Some(perf) = peer() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let (ours, perfs) = (scratch.path().join("ours"), scratch.path().join("perfs"));
    let words = ["-e", "{cpu-clock,faults,cs}:S", "ls", "-lR", "/etc"];
    stdout_of(bpfperf().args(["record", "-q", "-o"]).arg(&ours).args(words));
    stdout_of(Command::new(&perf).args(["record", "-o"]).arg(&perfs).args(words));
    assert_eq!(events_of(&ours), events_of(&perfs));
    // A sample of each member is made of the leader's, with what it counted since the last.
    for recording in [&ours, &perfs] {
        let script = |mut tool: Command| {
            let text = stdout_of(tool.args(["script", "--no-inline", "-i"]).arg(recording));
            without_names_of_libraries(&text)
        };
        assert_eq!(script(bpfperf()), script(Command::new(&perf)));
    }
    let counted = |recording: &Path| {
        let mut script = Command::new(&perf);
        let lines = stdout_of(script.args(["script", "-F", "period,event", "-i"]).arg(recording));
        let of = |event: &str| {
            let lines = lines.lines().filter(|it| it.trim_end().ends_with(&format!("{event}:")));
            lines.filter_map(|it| it.split_whitespace().next()?.parse::<u64>().ok()).sum::<u64>()
        };
        (of("cpu-clock"), of("faults"))
    };
    let ((our_clock, our_faults), (perf_clock, perf_faults)) = (counted(&ours), counted(&perfs));
    assert!(0 < our_clock && 0 < perf_clock, "{our_clock} {perf_clock}");
    assert!(0 < our_faults && 0 < perf_faults, "{our_faults} {perf_faults}");
}

#[test]
fn terms_of_an_event_open_what_perf_opens() {
    if !may_compare() {
        return;
    }
    let lists = [
        "cpu-clock/period=100000/",
        "cpu-clock/freq=99/,cs",
        "cpu-clock/name=foo,period=100000/u",
        "cpu-clock/call-graph=fp/,cs/call-graph=no/",
        "cpu-clock/max-stack=5/",
        "cpu-clock/no-inherit/",
        "cs/time=1/",
        "cpu-clock/percore,no-overwrite/",
        "sched:sched_switch/call-graph=fp/",
    ];
    for list in lists {
        check(&["-e", list]);
    }
    check(&["-g", "-e", "cpu-clock/call-graph=no/"]);
    check(&["-i", "-e", "cpu-clock/inherit/"]);
    check(&["-F", "200", "-e", "cpu-clock/period=200000/,task-clock"]);
}

#[test]
fn an_event_without_times_is_read_all_the_same() {
    if !may_compare() {
        return;
    }
    check(&["-e", "cpu-clock/time=0/"]);
}

#[test]
fn stacks_that_are_unwound_later_open_what_perf_opens() {
    if !may_compare() {
        return;
    }
    let Some(perf) = peer() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let (ours, perfs) = (scratch.path().join("ours"), scratch.path().join("perfs"));
    // With the term, not with the option, perf adds these by accident.
    let by_accident = SampleType::ADDR | SampleType::DATA_SRC;
    let events_of = |recording: &Path| {
        let mut events = events_of(recording);
        for it in &mut events {
            it.1.sample_type -= by_accident;
        }
        events
    };
    for words in [
        &["-e", "cpu-clock/call-graph=dwarf,stack-size=4096/"][..],
        &["-e", "cpu-clock", "--call-graph", "dwarf"],
        &["-e", "cpu-clock", "--call-graph", "dwarf,1024"],
    ] {
        stdout_of(bpfperf().args(["record", "-q", "-o"]).arg(&ours).args(words).arg("true"));
        stdout_of(Command::new(&perf).args(["record", "-o"]).arg(&perfs).args(words).arg("true"));
        assert_eq!(events_of(&ours), events_of(&perfs), "{words:?}");
        // perf unwinds what we recorded.
        let mut script = Command::new(&perf);
        let frames = stdout_of(script.args(["script", "-F", "ip", "-i"]).arg(&ours));
        assert!(frames.split("\n\n").any(|it| 3 < it.lines().count()), "{words:?}: {frames}");
    }
}

#[test]
fn breakpoints_open_what_perf_opens() {
    if !may_compare() {
        return;
    }
    for list in ["mem:0x1000", "mem:0x1000:w", "mem:0x1000:x", "mem:0x1000:u", "mem:0x1000:rw:u"] {
        check(&["-e", list]);
    }
}

#[test]
fn tracepoints_open_what_perf_opens_by_name_and_by_pattern() {
    if !may_compare() {
        return;
    }
    check(&["-e", "sched:sched_process_exec:k,syscalls:sys_enter_mmap"]);
    for list in ["sched:sched_process_*", "syscalls:sys_*_openat,signal:*"] {
        let (_scratch, ours, perfs) = record_with_both(&["-e", list]);
        // perf takes them in the order of the folder, we in that of their names.
        let names = |recording: &Path| {
            let events = events_of(recording).into_iter().map(|it| (it.0, it.1.config));
            events.collect::<std::collections::BTreeMap<_, _>>()
        };
        assert!(2 < names(&ours).len());
        assert_eq!(names(&ours), names(&perfs));
    }
}

#[test]
fn what_samples_hold_is_what_perf_makes_them_hold() {
    if !may_compare() {
        return;
    }
    let options = [
        &["-d"][..],
        &["--phys-data", "--data-page-size", "--code-page-size"],
        &["-W"],
        &["-T", "-P", "-c", "250000"],
        &["-s"],
        &["--running-time"],
        &["--sample-cpu"],
        &["--sample-identifier"],
        &["--sample-mem-info"],
        &["--data-mmap"],
        &["--namespaces", "--switch-events", "--all-cgroups"],
        &["-I"],
        &["--user-regs"],
        &["--user-regs=ax,ip,sp", "--intr-regs=di"],
    ];
    for words in options {
        check(&[words, &["-e", "cpu-clock"]].concat());
    }
    let side = ["--namespaces", "--switch-events", "--all-cgroups"];
    check_opened(&[&["-a", "-e", "cpu-clock"], &side[..]].concat());
    check_opened(&["-a", "-d", "--sample-cpu", "-e", "cpu-clock"]);
}

#[test]
fn other_records_of_tasks_are_those_that_perf_writes() {
    if !may_compare() {
        return;
    }
    let Some(perf) = peer() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let (ours, perfs) = (scratch.path().join("ours"), scratch.path().join("perfs"));
    let words = ["--namespaces", "--all-cgroups", "--switch-events", "-e", "cpu-clock"];
    // A command that leaves its CPU in any case.
    let words = [&words[..], &["sleep", "0.01"]].concat();
    stdout_of(bpfperf().args(["record", "-q", "-o"]).arg(&ours).args(&words));
    stdout_of(Command::new(&perf).args(["record", "-o"]).arg(&perfs).args(&words));
    // Namespaces and cgroups, without the task and its time.
    let told = |recording: &Path| {
        let mut script = Command::new(&perf);
        script.args(["script", "--show-namespace-events", "--show-cgroup-events"]);
        let lines = stdout_of(script.arg("-i").arg(recording));
        let facts = lines.lines().filter_map(|it| {
            let (_, cgroup) = it.split_once("PERF_RECORD_CGROUP").unwrap_or_default();
            let is_link = it.contains("/net: ") || it.contains("/user: ");
            match (cgroup, is_link) {
                ("", false) => None,
                ("", true) => Some(it.to_owned()),
                // Other tests make cgroups meanwhile.
                (cgroup, _) if cgroup.contains("/bpfperf-") => None,
                (cgroup, _) => Some(cgroup.to_owned()),
            }
        });
        facts.collect::<Vec<String>>()
    };
    assert!(3 <= told(&ours).len(), "{:?}", told(&ours));
    assert_eq!(told(&ours), told(&perfs));
    let switches = ["script", "--show-switch-events", "-i"];
    let said = stdout_of(Command::new(&perf).args(switches).arg(&ours));
    assert!(said.contains("PERF_RECORD_SWITCH"), "{said}");
}

#[test]
fn what_the_machine_does_not_have_is_told_with_what_to_leave_out() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    for (words, want) in [
        (
            &["-b"][..],
            "hint: this machine gives no branches with `cpu-clock`; leave out `-b`, `-j`",
        ),
        (&["-j", "any,u"], "hint: this machine gives no branches with `cpu-clock`"),
        (&["-j", "some"], "error: no kind of branch is called `some`"),
        (&["-I=zz"], "error: no register is called `zz`"),
    ] {
        let mut record = bpfperf();
        record.args(["record", "-e", "cpu-clock", "-o"]).arg(scratch.path().join("x"));
        let output = output_of(record.args(words).arg("true"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{}", told(&record, &output));
        assert!(said.contains(want), "{said}");
    }
}

/// A function of a file that this machine has in any case: our own.
fn own_function() -> String {
    format!("uprobe:{}:main", env!("CARGO_BIN_EXE_bpfperf"))
}

#[test]
fn a_function_is_probed_by_the_path_of_its_file() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    for (event, place) in [(own_function(), "main+0x0"), (format!("{}%return", own_function()), "")]
    {
        let mut record = bpfperf();
        record.args(["record", "-q", "-e", &event, "-o"]).arg(&recording);
        stdout_of(record.arg(env!("CARGO_BIN_EXE_bpfperf")).arg("--version"));
        let ours = stdout_of(bpfperf().args(["script", "-i"]).arg(&recording));
        assert_eq!(ours.lines().count(), 1, "{ours}");
        assert!(ours.contains(&format!("{event}: ")) && ours.contains(place), "{ours}");
        if let Some(perf) = peer() {
            let perfs = stdout_of(Command::new(perf).args(["script", "-i"]).arg(&recording));
            assert_eq!(ours, perfs);
        }
    }
}

#[test]
fn a_probe_of_tracefs_is_a_tracepoint() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let path = env!("CARGO_BIN_EXE_bpfperf");
    let bytes = std::fs::read(path).unwrap();
    let offset = bpfperf::symbols::Functions::parse(&bytes, None).unwrap().offset("main").unwrap();
    let all = "/sys/kernel/tracing/uprobe_events";
    let name = format!("bpfperf_test_{}", std::process::id());
    let append = |text: &str| {
        let mut file = std::fs::OpenOptions::new().append(true).open(all).unwrap();
        std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    };
    append(&format!("p:{name}/main {path}:{:#x}\n", offset.0));
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let mut record = bpfperf();
    record.args(["record", "-q", "-e", &format!("{name}:*"), "-o"]).arg(&recording);
    let output = output_of(record.arg(path).arg("--version"));
    let ours = output_of(bpfperf().args(["script", "-i"]).arg(&recording));
    let perfs = peer().map(|it| output_of(Command::new(it).args(["script", "-i"]).arg(&recording)));
    append(&format!("-:{name}/main\n"));
    assert!(output.status.success(), "{}", told(&record, &output));
    let ours = String::from_utf8_lossy(&ours.stdout).into_owned();
    assert!(ours.contains(&format!("{name}:main: ")), "{ours}");
    if let Some(perfs) = perfs {
        assert_eq!(ours, String::from_utf8_lossy(&perfs.stdout));
    }
}

#[test]
fn a_filter_lets_through_what_fits() {
    if !may_compare() {
        return;
    }
    let Some(perf) = peer() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let mut record = bpfperf();
    record.args(["record", "-q", "-e", "syscalls:sys_enter_mmap,syscalls:sys_enter_openat"]);
    record.args(["--filter", "common_pid != 0", "-e", "syscalls:sys_enter_close"]);
    record.args(["--filter", "fd == 3", "--filter", "fd > 2", "-o"]).arg(&recording);
    // Whoever runs the tests may have left descriptors open.
    stdout_of(record.args(["sh", "-c", "exec 3>&-; exec ls /"]));
    let ours = stdout_of(bpfperf().args(["script", "-F", "event,trace", "-i"]).arg(&recording));
    let closes: Vec<_> = ours.lines().filter(|it| it.contains("close:")).collect();
    assert!(!closes.is_empty() && closes.iter().all(|it| it.ends_with("fd: 0x00000003")), "{ours}");
    assert!(ours.contains("openat:") && ours.contains("mmap:"), "{ours}");
    let perfs =
        stdout_of(Command::new(perf).args(["script", "-F", "event,trace", "-i"]).arg(&recording));
    assert_eq!(ours, perfs);
}

#[test]
fn a_filter_that_the_kernel_would_refuse_is_told_with_its_column() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let mut record = bpfperf();
    record.args(["record", "-e", "sched:sched_switch", "--filter", "prev_pid > 1 && nxt_pid == 2"]);
    let output = output_of(record.arg("-o").arg(scratch.path().join("x")).arg("true"));
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "error: cannot filter `sched:sched_switch`\n  because: no field is called `nxt_pid` at \
         column 17 of `prev_pid > 1 && nxt_pid == 2`\nhint: the nearest field is `next_pid`\n"
    );
}

/// What passes our check and the kernel takes, and what neither takes: the same on both sides.
#[test]
fn the_check_of_filters_and_the_kernel_agree() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let filters = [
        ("prev_pid > 0", true),
        ("prev_pid!=-1&&(prev_state & 0x10 || !(prev_comm ~ \"sh*\"))", true),
        ("prev_comm == 'a b' || common_pid == 017", true),
        ("CPU == 1", true),
        ("comm ~ \"x*\"", true),
        ("prev_pid == abc", false),
        ("prev_comm > \"a\"", false),
        ("(prev_pid > 0", false),
        ("prev_pid > 0)", false),
        ("prev_pid > 0 prev_pid", false),
        ("nothing == 0", false),
        ("prev_pid", false),
    ];
    for (filter, is_good) in filters {
        let mut record = bpfperf();
        record.args(["record", "-q", "-e", "sched:sched_switch", "--filter", filter, "-o"]);
        let output = output_of(record.arg(scratch.path().join("x")).arg("true"));
        assert_eq!(output.status.success(), is_good, "{filter}: {}", told(&record, &output));
        if let Some(perf) = peer() {
            let mut record = Command::new(perf);
            record.args(["record", "-e", "sched:sched_switch", "--filter", filter, "-o"]);
            let output = output_of(record.arg(scratch.path().join("y")).arg("true"));
            assert_eq!(output.status.success(), is_good, "perf, {filter}");
        }
    }
}

#[test]
fn what_the_recorder_itself_does_can_be_left_out() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    // Other recorders may run meanwhile, so that a process tells more than a name.
    let n_own = |words: &[&str]| {
        let mut record = bpfperf();
        record.args(["record", "-q", "-a", "-e", "raw_syscalls:sys_enter"]).args(words);
        record.arg("-o").arg(&recording).args(["--", "sleep", "0.2"]);
        let mut recorder = record.spawn().unwrap();
        let own = format!("{}/", recorder.id());
        assert!(recorder.wait().unwrap().success());
        let lines = stdout_of(bpfperf().args(["script", "-F", "pid,tid", "-i"]).arg(&recording));
        lines.lines().filter(|it| it.trim_start().starts_with(&own)).count()
    };
    let (with, without) = (n_own(&[]), n_own(&["--exclude-perf"]));
    // The thread that puts the file in place begins later than the filter.
    assert!(without < 30 && without < with, "{with} {without}");
}
