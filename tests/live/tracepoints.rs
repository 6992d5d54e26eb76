//! Tracepoints of the running kernel: their formats, and what they note.

use std::fs;
use std::path::Path;
use std::process::Command;

use bpfperf::perfdata::trace_format::EventFormat;

use crate::stage::Need;
use crate::stage::bpfperf;
use crate::stage::may_run;
use crate::stage::peer;
use crate::stage::stdout_of;

const EVENTS: &str = "/sys/kernel/tracing/events";

/// The `format` files of all events, with the events' names.
fn formats() -> Vec<(String, String)> {
    let folders = |path: &Path| -> Vec<_> {
        fs::read_dir(path).into_iter().flatten().flatten().map(|it| it.path()).collect()
    };
    let events = folders(Path::new(EVENTS)).into_iter().flat_map(|system| folders(&system));
    let format = |event: &Path| {
        let name = event.strip_prefix(EVENTS).ok()?.to_str()?.replace('/', ":");
        Some((name, fs::read_to_string(event.join("format")).ok()?))
    };
    events.filter_map(|event| format(&event)).collect()
}

#[test]
fn formats_are_understood_but_for_calls_of_functions() {
    if !may_run(&[Need::Root]) {
        return;
    }
    // Mounts tracefs where nobody did.
    stdout_of(bpfperf().args([
        "record",
        "-q",
        "-e",
        "sched:sched_switch",
        "-o",
        "/dev/null",
        "true",
    ]));
    let formats = formats();
    assert!(formats.len() > 100, "{} events in {EVENTS}", formats.len());
    let mut not_understood = Vec::new();
    for (event, text) in &formats {
        let format = EventFormat::parse(text, 8).unwrap_or_else(|| panic!("{event}: no format"));
        assert!(event.ends_with(&format.name), "{event} is called {}", format.name);
        if let Err(error) = format.print {
            println!("{event}: {error}");
            not_understood.push(error.what);
        }
    }
    println!("{} of {} formats are printed field by field", not_understood.len(), formats.len());
    assert!(not_understood.len() * 20 < formats.len(), "{not_understood:?}");
}

#[test]
fn what_tracepoints_note_is_printed_as_perf_prints_it() {
    if !may_run(&[Need::Root, Need::Peer]) {
        return;
    }
    let Some(perf) = peer() else { return };
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("perf.data");
    let events = "sched:sched_process_exec,sched:sched_process_exit,sched:sched_switch,\
                  syscalls:sys_enter_openat,syscalls:sys_exit_openat,syscalls:sys_enter_write,\
                  raw_syscalls:sys_enter,signal:signal_generate,kmem:mm_page_alloc";
    let mut record = bpfperf();
    record.args(["record", "-q", "-e", events, "-o"]).arg(&data);
    record.args(["sh", "-c", "ls -l / >/dev/null; sleep 0.01; echo done >/dev/null"]);
    stdout_of(&mut record);
    let ours = stdout_of(bpfperf().args(["script", "-i"]).arg(&data));
    let perfs = stdout_of(Command::new(perf).args(["script", "-i"]).arg(&data));
    for event in events.split(',') {
        assert!(ours.contains(event) || event.starts_with("signal"), "no {event}");
    }
    assert!(!ours.contains("FAILED"), "{ours}");
    for (ours, perfs) in ours.lines().zip(perfs.lines()) {
        assert_eq!(ours, perfs);
    }
    assert_eq!(ours.lines().count(), perfs.lines().count());
}

#[test]
fn the_time_that_threads_slept_is_told_where_they_went_to_sleep() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let [from, to, theirs] = ["from", "to", "theirs"].map(|it| scratch.path().join(it));
    let events = "sched:sched_switch,sched:sched_stat_runtime,sched:sched_process_exit";
    let mut record = bpfperf();
    record.args(["record", "-q", "-a", "-e", events, "-o"]).arg(&from);
    stdout_of(record.args(["--", "sh", "-c", "for i in 1 2 3; do sleep 0.05; done"]));
    stdout_of(bpfperf().args(["inject", "-s", "-i"]).arg(&from).arg("-o").arg(&to));
    let fields = ["script", "-F", "tid,time,event,period,trace", "-i"];
    let ours = stdout_of(bpfperf().args(fields).arg(&to));
    assert!(!ours.is_empty() && ours.lines().all(|it| it.contains("sched:sched_switch")), "{ours}");
    let Some(perf) = peer() else { return };
    let mut inject = Command::new(perf);
    inject.args(["inject", "-s", "-i"]).arg(&from).arg("-o").arg(&theirs);
    assert!(inject.status().unwrap().success());
    let theirs = stdout_of(bpfperf().args(fields).arg(&theirs));
    // What is merged at one time comes in either order.
    let sorted = |text: &str| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(sorted(&ours), sorted(&theirs));
}
