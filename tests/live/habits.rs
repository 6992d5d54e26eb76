//! Every option that says what is recorded and how, typed as for perf: what is opened, and what is
//! read of it, are the same.

use std::path::Path;
use std::process::Command;

use crate::events::events_of;
use crate::stage::Need;
use crate::stage::bpfperf;
use crate::stage::may_run;
use crate::stage::output_of;
use crate::stage::peer;
use crate::stage::stdout_of;
use crate::stage::told;
use crate::stage::without_names_of_libraries;

/// What two recorders, or two readers, agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Agree {
    /// The events opened, and all that is printed of what we recorded.
    All,
    /// The events opened alone; why not more stands beside it.
    Opened,
    /// What is printed alone; why not more stands beside it.
    Printed,
}

use Agree::All;
use Agree::Opened;
use Agree::Printed;

const EVENTS: &[(&str, Agree)] = &[
    ("-e cpu-clock", All),
    ("-e cpu-clock,faults", All),
    ("-e cpu-clock -e cs", All),
    ("-e {cpu-clock,faults}", All),
    ("-e {cpu-clock,faults}:S", All),
    ("-e {cpu-clock,cs}:W", All),
    ("-e {cpu-clock/name=a/,cs/name=b/}", All),
    ("-e cpu-clock:u,cpu-clock:k,faults:uk", All),
    ("-e cpu-clock:p,cpu-clock:pp,cpu-clock:P", All),
    ("-e cpu-clock:S", All),
    ("-e cpu-clock:H,cpu-clock:G,cpu-clock:I", All),
    ("-e cpu-clock:D,cpu-clock:e", All),
    ("-e cpu-clock/period=1000000/", All),
    ("-e cpu-clock/freq=500/", All),
    ("-e cpu-clock/name=mine/", All),
    ("-e cpu-clock/call-graph=fp/,faults", All),
    ("-e cpu-clock/max-stack=4,call-graph=fp/", All),
    ("-e cpu-clock/no-inherit/,faults/inherit/", All),
    // A sample without a time is shown with the name that its task gets last.
    ("-e cpu-clock/time=0/,faults/time=1/", Opened),
    // perf adds addresses of data, and unwinds.
    ("-e cpu-clock/call-graph=dwarf,stack-size=4096/ -F 99", Printed),
    ("-e task-clock,cpu-clock/period=2000000/u", All),
    ("-e software/config=0/", All),
    ("-e mem:0x1000:x", All),
    // perf's name lacks the length.
    ("-e mem:0x1000/8:rw", Printed),
    ("-e dummy,bpf-output", All),
    ("-e sched:sched_switch,sched:sched_wakeup", All),
    // perf's order is that of the folder.
    ("-e sched:sched_pro*", Printed),
    ("-e syscalls:sys_enter_openat -g", All),
    ("-e sched:sched_switch --filter prev_pid!=0", All),
    ("-e sched:sched_switch --filter prev_comm~\"sh*\"", All),
    ("-e sched:sched_switch --exclude-perf", All),
];

const CONTENTS: &[(&str, Agree)] = &[
    ("-e cpu-clock -d", All),
    ("-e cpu-clock -d --phys-data", All),
    ("-e cpu-clock --data-page-size", All),
    ("-e cpu-clock --code-page-size", All),
    ("-e cpu-clock --sample-mem-info", All),
    ("-e cpu-clock --data-mmap", All),
    ("-e cpu-clock -W", All),
    ("-e cpu-clock -T", All),
    ("-e cpu-clock -P", All),
    ("-e cpu-clock -R", All),
    ("-e cpu-clock -s", All),
    ("-e cpu-clock -n", All),
    ("-e cpu-clock -I", All),
    ("-e cpu-clock -Iax,bx", All),
    ("-e cpu-clock --intr-regs=ax", All),
    ("-e cpu-clock --user-regs", All),
    ("-e cpu-clock --user-regs=ip,sp", All),
    ("-e cpu-clock --transaction", All),
    ("-e cpu-clock --sample-cpu", All),
    ("-e cpu-clock --sample-identifier", All),
    ("-e cpu-clock --namespaces", All),
    ("-e cpu-clock --switch-events", All),
    ("-e cpu-clock --all-cgroups", All),
    ("-e cpu-clock --running-time", All),
];

const MODES: &[(&str, Agree)] = &[
    ("-e cpu-clock -g", All),
    ("-e cpu-clock --call-graph fp", All),
    // perf unwinds what was recorded.
    ("-e cpu-clock -F 99 --call-graph dwarf", Opened),
    ("-e cpu-clock -F 99 --call-graph dwarf,4096", Opened),
    ("-e cpu-clock -g --user-callchains", All),
    ("-e cpu-clock -g --kernel-callchains", All),
    ("-e cpu-clock --all-user", All),
    ("-e cpu-clock --all-kernel", All),
    ("-e cpu-clock -c 1000000", All),
    ("-e cpu-clock -F 99 --strict-freq", All),
    ("-e cpu-clock -i", All),
    ("-e cpu-clock -m 16", All),
    ("-e cpu-clock -k mono", All),
    ("-e cpu-clock -z", All),
    ("-e cpu-clock --max-size=10M", All),
    ("-e cpu-clock -D 5", All),
    ("-e cpu-clock -B", All),
    ("-e cpu-clock -N", All),
    ("-e cpu-clock --buildid-all", All),
    ("-e cpu-clock --no-bpf-event", All),
];

/// What both refuse, with what we say of it.
const REFUSED: &[(&str, &str)] = &[
    ("-e r1a8", "error: cannot open event `r1a8` on "),
    ("-e L1-dcache-load-misses", "error: cannot open event `L1-dcache-load-misses` on "),
    ("-e cpu-clock -b", "error: cannot open event `cpu-clock` on "),
    ("-e cpu-clock -j any,u", "error: cannot open event `cpu-clock` on "),
    ("-e cpu-clock --call-graph lbr", "error: cannot open event `cpu-clock` on "),
    ("-e uprobe:/nonexistent:main", "error: cannot read `/nonexistent`"),
    ("-e sched:sched_switch --filter prev_pidd!=0", "error: cannot filter `sched:sched_switch`"),
    (
        "-e cpu-clock --filter prev_pid!=0",
        "error: cannot filter `cpu-clock`\n  because: no term is called `prev_pid` at column 1",
    ),
    ("-e cpu-clock,", "error: an event is missing at column 11 of `cpu-clock,`"),
    (
        "-e cpu-clock/frek=5/",
        "error: `frek` at column 11 of `cpu-clock/frek=5/` is no term of `cpu-clock`",
    ),
    ("-e cpu-clock:uu", "error: modifier `u` stands twice, again at column 12 of `cpu-clock:uu`"),
    ("-e nosuch", "error: no event is called `nosuch`, at column 1 of `nosuch`"),
];

/// Tasks that come and go, each for a while.
const LOAD: [&str; 3] = ["sh", "-c", "ls -lR /etc >/dev/null; ls -R /usr/lib >/dev/null"];

/// Records [`LOAD`] with `options` by `recorder` into `to`.
#[track_caller]
fn record(mut recorder: Command, options: &str, to: &Path) {
    recorder.args(["record", "-q", "-o"]).arg(to).args(options.split(' ')).arg("--").args(LOAD);
    stdout_of(&mut recorder);
}

/// The lines in which the two differ, but for those of samples after their thread's end, whose name
/// perf forgets, and for frames of a program that another is about to take the place of.
fn differences(ours: &str, perfs: &str) -> Vec<(String, String)> {
    let is_known = |it: &str| it.trim_start().starts_with(':') || it.contains("execve+");
    let (n_ours, n_perfs) = (ours.lines().count().to_string(), perfs.lines().count().to_string());
    let lines = ours.lines().zip(perfs.lines()).chain([(n_ours.as_str(), n_perfs.as_str())]);
    // perf has no names for programs that others load while one command is recorded.
    let is_of_others = |it: &(&str, &str)| it.0.contains("bpf_prog_") && it.1.contains("[unknown]");
    let same =
        |it: &(&str, &str)| without_names_of_libraries(it.0) == without_names_of_libraries(it.1);
    let differ = lines.filter(|it| !same(it) && !is_known(it.1) && !is_of_others(it));
    differ.map(|it| (it.0.to_owned(), it.1.to_owned())).collect()
}

#[track_caller]
fn check(table: &[(&str, Agree)]) {
    if !may_run(&[Need::Root, Need::Peer]) {
        return;
    }
    let Some(perf) = peer() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let (ours, perfs) = (scratch.path().join("ours"), scratch.path().join("perfs"));
    for (options, agree) in table {
        record(bpfperf(), options, &ours);
        record(Command::new(&perf), options, &perfs);
        if *agree != Printed {
            assert_eq!(events_of(&ours), events_of(&perfs), "{options}");
        }
        if *agree == Opened {
            continue;
        }
        // Of what perf unwinds, the samples alone are the same.
        let fields: &[&str] =
            if *agree == Printed { &["-F", "comm,tid,time,event,period"] } else { &[] };
        for recording in [&ours, &perfs] {
            let script = |mut tool: Command| {
                tool.args(["script", "--no-inline", "-i"]).arg(recording).args(fields);
                stdout_of(&mut tool)
            };
            let differ = differences(&script(bpfperf()), &script(Command::new(&perf)));
            assert!(differ.is_empty(), "{options}: {differ:?}");
        }
    }
}

#[test]
fn events_are_those_of_perf() {
    check(EVENTS);
}

#[test]
fn contents_of_samples_are_those_of_perf() {
    check(CONTENTS);
}

#[test]
fn modes_are_those_of_perf() {
    check(MODES);
}

#[test]
fn what_perf_refuses_is_refused_and_leaves_no_file() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    for (options, want) in REFUSED {
        let run = |mut recorder: Command| {
            recorder.args(["record", "-o"]).arg(scratch.path().join("refused"));
            let output = output_of(recorder.args(options.split(' ')).args(["--", "true"]));
            (told(&recorder, &output), output)
        };
        let (all, output) = run(bpfperf());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.starts_with(want), "{all}");
        let left = std::fs::read_dir(scratch.path()).unwrap().count();
        assert_eq!(left, 0, "{options}");
        if let Some(perf) = peer() {
            let (all, output) = run(Command::new(perf));
            assert!(!output.status.success(), "{all}");
            // perf leaves an empty file of what it refuses late.
            std::fs::remove_file(scratch.path().join("refused")).ok();
        }
    }
}
