//! The list of events, next to perf's.

use std::collections::BTreeSet;
use std::process::Command;

use crate::stage::Need;
use crate::stage::bpfperf;
use crate::stage::may_run;
use crate::stage::output_of;
use crate::stage::peer;
use crate::stage::stdout_of;

/// The names of a list's events of one class, but for those of the function tracer, on which none
/// can be opened.
fn names(list: &str, class: &str) -> BTreeSet<String> {
    let lines = list.lines().filter(|it| it.contains(class));
    let names = lines.filter_map(|it| it.split_whitespace().next());
    names.filter(|it| !it.starts_with("ftrace:")).map(str::to_owned).collect()
}

#[test]
fn tracepoints_and_events_of_pmus_are_those_that_perf_lists() {
    if !may_run(&[Need::Root, Need::Peer]) {
        return;
    }
    // Probes may come and go meanwhile.
    let perfs = || stdout_of(Command::new(peer().unwrap()).arg("list"));
    let (before, ours, after) = (perfs(), stdout_of(bpfperf().arg("list")), perfs());
    for class in ["[Tracepoint event]", "[Kernel PMU event]"] {
        let (before, after) = (names(&before, class), names(&after, class));
        let ours = names(&ours, class);
        let always: BTreeSet<_> = before.intersection(&after).cloned().collect();
        let ever: BTreeSet<_> = before.union(&after).cloned().collect();
        assert!(ours.is_superset(&always), "{:?}", always.difference(&ours));
        assert!(ours.is_subset(&ever), "{:?}", ours.difference(&ever));
        assert!(!always.is_empty());
    }
    assert!(names(&ours, "[Software event]").contains("cpu-clock"), "{ours}");
}

#[test]
fn every_listed_event_can_be_recorded() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    for class in ["sw", "hw", "cache"] {
        let list = output_of(bpfperf().args(["list", class]));
        for name in names(&String::from_utf8_lossy(&list.stdout), "event]") {
            let mut record = bpfperf();
            record.args(["record", "-q", "-e", &name, "-o"]).arg(scratch.path().join("x"));
            stdout_of(record.arg("true"));
        }
    }
}

#[test]
fn a_pattern_that_nothing_fits_is_an_error() {
    let output = output_of(bpfperf().args(["list", "no-such-event"]));
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.ends_with("error: no event fits `no-such-event`\n"), "{said}");
}

#[test]
fn the_list_is_json_if_that_is_asked_for() {
    let json = stdout_of(bpfperf().args(["list", "--json", "cpu-clock"]));
    assert!(json.starts_with("{\"version\":1,\"events\":[{\"name\":\"cpu-clock\""), "{json}");
}
