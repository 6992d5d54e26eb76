//! A recording with two programs, as a table and as JSON.

use crate::perfdata::private;
use crate::perfdata::private::Message;
use crate::profile::Detail;
use crate::profile::Filter;
use crate::profile::bill;
use crate::profile::testing::Samples;
use crate::replay::programs::testing::Tape;
use crate::replay::programs::testing::name;

use super::*;

const A: u64 = 0xffff_ffff_c000_0000;

/// A program of the type `raw_tracepoint` that was there before, and one that came and went.
fn tape() -> Tape {
    let mut tape = Tape::new();
    tape.info(7, 1000, 1, &[(A, 1), (A + 0x100, 2)])
        .symbol(0, 0, A, &name(1, "handle_it"))
        .symbol(0, 0, A + 0x100, &name(2, "sub"))
        .load(0, 0, 7, 1)
        .symbol(50_000_000, 21, A + 0x200, &name(3, "short\x1b"))
        .load(51_000_000, 21, 8, 3)
        .unload(7_000_000_000, 8, 3);
    tape
}

/// What private records add of the first program.
fn with_state(tape: &mut Tape) {
    let link = |id, kind: &str, attach_type: Option<&str>, target: Option<&str>| {
        let text = |it: &str| it.to_owned();
        private::LinkState {
            id,
            kind: kind.into(),
            attach_type: attach_type.map(text),
            target: target.map(text),
            pins: if id == 4 { vec!["/sys/fs/bpf/a\nb".into()] } else { vec![] },
        }
    };
    let holder = |pid, via: &str| private::Holder { pid, comm: "agent".into(), via: via.into() };
    let state = private::ProgramState {
        id: 7,
        load_time_ns: 1000,
        boot_ns: 5000,
        maps: vec![private::MapState { id: 3, name: "counts".into(), kind: "hash".into() }],
        links: vec![
            link(4, "raw_tracepoint", None, Some("sys_enter")),
            link(5, "tracing", Some("trace_fentry"), Some("tcp_rcv")),
            link(6, "perf_event", None, None),
        ],
        pins: vec!["/sys/fs/bpf/prog".into()],
        holders: vec![holder(300, "link"), holder(42, "prog")],
    };
    let metadata = private::ProgramMetadata {
        id: 7,
        load_time_ns: 1000,
        entries: vec![("owner".into(), "\"net\"".into())],
    };
    let reading = |boot_ns, run_cnt, run_time_ns| {
        let (id, load_time_ns, recursion_misses) = (7, 1000, 0);
        let program =
            private::ProgramRuns { id, load_time_ns, run_cnt, run_time_ns, recursion_misses };
        Message::Runs(private::Runs { boot_ns, counted: true, programs: vec![program] })
    };
    tape.message(Message::Program(state))
        .message(Message::Metadata(metadata))
        .message(reading(1_000_000_000, 10, 1_000))
        .message(reading(3_000_000_000, 1010, 310_001_000));
}

fn samples() -> Samples {
    let mut samples = Samples::new();
    samples.own("k:main", 0).own("k:sub", 1).own("k:short", 2);
    samples
        .add("a", 1, &["k:main", "run"], 10)
        .add("a", 1, &["k:help\x07er", "k:sub", "k:main", "run"], 30)
        .add("a", 1, &["k:short", "run"], 5)
        .add("a", 1, &["run"], 55);
    samples
}

fn written(tape: &mut Tape, style: &Style, detail: Detail) -> String {
    let samples = samples();
    let mut text = Vec::new();
    tape.check(|programs, _| {
        let bill = bill(&samples.resolved, programs, &Filter::default(), detail).unwrap();
        let source = source(&samples, programs, &bill);
        write(&mut text, &source, style).unwrap();
    });
    String::from_utf8(text).unwrap()
}

fn source<'a>(samples: &'a Samples, programs: &'a Programs<'a>, bill: &'a Bill) -> Source<'a> {
    Source {
        resolved: &samples.resolved,
        programs,
        bill,
        percentage: Percentage::Absolute,
        was_followed: true,
    }
}

fn plain() -> Style {
    Style { has_comments: true, ..Style::default() }
}

#[test]
fn a_row_holds_what_is_known_and_columns_without_anything_are_left_out() {
    let want = "\
# BPF programs: 2
# Samples: 4 of event 'cycles'
# In BPF programs: 15.00%, with what they called: 45.00%
#
#  Total    Self  Samples  Id  Name       Type            Owner          Loaded  Unloaded  Tag
# ......  ......  .......  ..  .........  ..............  ...........  ........  ........  ................
#
  40.00%  10.00%        2   7  handle_it  raw_tracepoint  -                   -         -  0101010101010101
   5.00%   5.00%        1   8  short\\x1b  -               comm-20[20]  0.051000  7.000000  0303030303030303


";
    assert_eq!(written(&mut tape(), &plain(), Detail::default()), want);
}

#[test]
fn what_private_records_tell_stands_in_the_row_and_below_it() {
    let mut tape = tape();
    with_state(&mut tape);
    let style = Style { has_details: true, percent_limit: 10.0, ..plain() };
    let detail = Detail { callees: true, lines: true };
    let want = "\
# BPF programs: 2
# Samples: 4 of event 'cycles'
# In BPF programs: 15.00%, with what they called: 45.00%
# Runs: counted by the kernel over 2.000 s, of all processes and CPUs
#
#  Total    Self  Samples     CPU  Runs  Time/run  Id  Name       Type            Attached to                                        Owner         Tag
# ......  ......  .......  ......  ....  ........  ..  .........  ..............  .................................................  ............  ................
#
  40.00%  10.00%        2  15.50%  1000     310us   7  handle_it  raw_tracepoint  raw_tracepoint sys_enter, trace_fentry tcp_rcv +1  agent[42] +1  0101010101010101
          metadata  owner = \"net\"
          function  0 bpf_prog_0101010101010101_handle_it, 128 bytes at 0xffffffffc0000000
          function  1 bpf_prog_0202020202020202_sub, 128 bytes at 0xffffffffc0000100
          link      4 raw_tracepoint sys_enter, pinned as /sys/fs/bpf/a\\nb
          link      5 trace_fentry tcp_rcv
          link      6 perf_event
          map       3 hash counts
          pin       /sys/fs/bpf/prog
          holder    agent[42] by its prog
          holder    agent[300] by its link
   30.00%           calls help\\x07er


";
    assert_eq!(written(&mut tape, &style, detail), want);
}

#[test]
fn a_separator_and_no_comments_make_lines_for_other_programs() {
    let style = Style { separator: Some(",".into()), ..Style::default() };
    assert_eq!(
        written(&mut tape(), &style, Detail::default()),
        "40.00%,10.00%,2,7,handle_it,raw_tracepoint,-,-,-,0101010101010101\n\
         5.00%,5.00%,1,8,short\\x1b,-,comm-20[20],0.051000,7.000000,0303030303030303\n"
    );
}

#[test]
fn where_no_program_is_heavy_enough_there_are_no_headings() {
    let style = Style { percent_limit: 50.0, ..plain() };
    let want = "\
# BPF programs: 2
# Samples: 4 of event 'cycles'
# In BPF programs: 15.00%, with what they called: 45.00%
#


";
    assert_eq!(written(&mut tape(), &style, Detail::default()), want);
}

/// The rows and the last line of `text`.
fn rows_and_last(text: &str) -> (usize, &str) {
    let rows = text.lines().filter(|it| it.starts_with("  ") && it.contains('%')).count();
    (rows, text.trim_end().lines().next_back().unwrap())
}

#[test]
fn programs_that_did_nothing_are_one_line_below_each_table() {
    let mut tape = tape();
    tape.symbol(0, 0, A + 0x300, &name(4, "idle")).load(0, 0, 9, 4);
    let text = written(&mut tape, &plain(), Detail::default());
    let folded = "# 1 more BPF program without samples or runs: see --details";
    assert_eq!(rows_and_last(&text), (2, folded), "{text}");
    let style = Style { has_details: true, ..plain() };
    let text = written(&mut tape, &style, Detail::default());
    assert_eq!(text.matches("more BPF").count(), 0, "{text}");
    assert!(text.contains("  9  idle "), "{text}");

    // Of another event nothing fell on any program, and none is counted to have run.
    let mut samples = samples();
    let mut other = samples.resolved.groups[3];
    other.event = crate::replay::resolved::EventIdx(1);
    samples.resolved.groups.push(other);
    let event = samples.resolved.events[0].clone();
    samples.resolved.events.push(event);
    let mut text = Vec::new();
    tape.check(|programs, _| {
        let detail = Detail::default();
        let bill = bill(&samples.resolved, programs, &Filter::default(), detail).unwrap();
        write(&mut text, &source(&samples, programs, &bill), &plain()).unwrap();
    });
    let text = String::from_utf8(text).unwrap();
    let (first, second) = text.split_at(text.rfind("# BPF programs:").unwrap());
    assert_eq!(rows_and_last(first), (2, folded), "{text}");
    let folded = "# 3 more BPF programs without samples or runs: see --details";
    assert_eq!(rows_and_last(second), (0, folded), "{text}");
}

#[test]
fn a_recording_without_programs_says_so_in_a_sentence() {
    let samples = Samples::new();
    Tape::new().check(|programs, _| {
        let bill = Bill::default();
        let said = |was_followed| {
            let mut text = Vec::new();
            let source = Source { was_followed, ..source(&samples, programs, &bill) };
            write(&mut text, &source, &plain()).unwrap();
            String::from_utf8(text).unwrap()
        };
        assert_eq!(said(true), "# No BPF program was loaded at any time of the recording.\n");
        let want = "# The recording tells of no BPF program: its recorder did not ask for them, or was refused.\n";
        assert_eq!(said(false), want);
    });
}

#[test]
fn json_says_the_same() {
    let mut tape = tape();
    with_state(&mut tape);
    let samples = samples();
    let mut text = String::new();
    tape.check(|programs, _| {
        let detail = Detail { callees: true, lines: true };
        let bill = bill(&samples.resolved, programs, &Filter::default(), detail).unwrap();
        text = json(&source(&samples, programs, &bill)).unwrap();
    });
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["schema"], "bpfperf.bpf-bill");
    assert_eq!(document["version"], 1);
    assert_eq!(document["events"][0]["bpf_total"]["percent"], 45.0);
    let [first, second] = document["programs"].as_array().unwrap().as_slice() else {
        panic!("{text}")
    };
    assert_eq!((&first["id"], &first["name"]), (&7.into(), &"handle_it".into()));
    assert_eq!(first["metadata"]["owner"], "\"net\"");
    assert_eq!(first["owner"]["comm"], "agent");
    assert_eq!(first["runs"]["cpu_percent"], 15.5);
    assert_eq!(first["runs"]["ns_per_run"], 310_000.0);
    assert_eq!(first["links"][1]["target"], "tcp_rcv");
    assert_eq!(first["events"][0]["total"]["samples"], 2);
    assert_eq!(first["events"][0]["callees"][0]["symbol"], "help\x07er");
    assert_eq!(second["type"], serde_json::Value::Null);
    assert_eq!(second["unloaded_ns"], 7_000_000_000_u64);
}

#[test]
fn programs_whose_addresses_were_hidden_are_told() {
    let hidden = "were hidden";
    assert!(!written(&mut tape(), &plain(), Detail::default()).contains(hidden));
    let mut tape = Tape::new();
    tape.info(9, 1000, 5, &[(0, 5)]);
    let text = written(&mut tape, &plain(), Detail::default());
    let want = "# The addresses of 1 program were hidden: its samples are not known\n";
    assert!(text.contains(want), "{text}");
}
