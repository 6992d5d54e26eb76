//! Reports as text, laid out by hand.

use super::*;
use crate::profile::Accumulate;
use crate::profile::Callchains;
use crate::profile::GraphRequest;
use crate::profile::GraphSettings;
use crate::profile::GraphValue;
use crate::profile::Request;
use crate::profile::Shape;
use crate::profile::Sort;
use crate::profile::histograms;
use crate::profile::testing::Samples;
use crate::replay::resolved::EventInfo;

#[track_caller]
fn check(samples: &Samples, request: &Request, style: &Style, want: &[&str]) {
    let plan = Plan::new(request, Callchains::Recorded).unwrap();
    let histograms = histograms(&samples.resolved, &plan).unwrap();
    let mut out = Vec::new();
    write(&mut out, &samples.resolved, &plan, &histograms, style).unwrap();
    let out = String::from_utf8(out).unwrap();
    assert_eq!(out.lines().collect::<Vec<_>>(), want);
}

fn rows_only() -> Style {
    Style { comments: Comments::No, separator: None, ..Style::default() }
}

fn flat() -> Request {
    let graph = GraphRequest::No;
    Request { accumulate: Accumulate::Nothing, graph, ..Request::default() }
}

fn by(columns: &[Column]) -> Request {
    Request { sort: Some(Sort::By(columns.to_vec())), ..flat() }
}

fn graph(settings: GraphSettings) -> Request {
    Request { graph: GraphRequest::Always(settings), ..flat() }
}

#[test]
fn a_flat_report_has_comments_headings_and_rows() {
    let mut samples = Samples::new();
    samples.add("sh", 7, &["k:read"], 2).add("worker", 8, &["lib:0x10077"], 1);
    let want = [
        "# To display the perf.data header info, please use --header/--header-only options.",
        "#",
        "#",
        "# Total Lost Samples: 0",
        "#",
        "# Samples: 2  of event 'cycles'",
        "# Event count (approx.): 3",
        "#",
        "# Overhead  Command  Shared Object     Symbol                ",
        "# ........  .......  ................  ......................",
        "#",
        "    66.67%  sh       app               [k] read",
        "    33.33%  worker   lib               [.] 0x0000000000000077",
        "",
        "",
    ];
    check(&samples, &flat(), &Style::default(), &want);
    let after_header =
        Style { comments: Comments::AfterHeader, separator: None, ..Style::default() };
    check(&samples, &flat(), &after_header, &want[2..]);
}

#[test]
fn all_columns_have_their_form() {
    let mut samples = Samples::new();
    samples.add("sh", 7, &["f"], 2).add("sh", 8, &["f"], 1);
    samples.resolved.groups[1].cpu = None;
    let request = Request {
        sort: by(&[Column::Pid, Column::Tid, Column::Cpu]).sort,
        extra: vec![Column::Samples, Column::Period],
        ..flat()
    };
    let style = Style { comments: Comments::AfterHeader, separator: None, ..Style::default() };
    let want = [
        "#",
        "# Total Lost Samples: 0",
        "#",
        "# Samples: 2  of event 'cycles'",
        "# Event count (approx.): 3",
        "#",
        "# Overhead       Samples        Period      Pid:Command      Tid:Command  CPU",
        "# ........  ............  ............  ...............  ...............  ...",
        "#",
        "    66.67%             1             2        7:sh             7:sh       001",
        "    33.33%             1             1        8:sh             8:sh       -001",
        "",
        "",
    ];
    check(&samples, &request, &style, &want);
}

#[test]
fn a_command_name_is_cut_to_the_longest_last_name() {
    let mut samples = Samples::new();
    samples.add("much-too-long", 7, &["f"], 1).add("sh", 7, &["g"], 1);
    samples.resolved.groups[0].last_comm = samples.resolved.groups[1].comm;
    let want = ["    50.00%  much-to", "    50.00%  sh     ", "", ""];
    check(&samples, &Request { sort: by(&[Column::Comm]).sort, ..flat() }, &rows_only(), &want);
}

#[test]
fn a_separator_stands_between_cells_and_never_in_them() {
    let mut samples = Samples::new();
    samples.add("a,b", 7, &["f(int, int)"], 1);
    let style =
        Style { comments: Comments::AfterHeader, separator: Some(",".into()), ..Style::default() };
    let want = [
        "#",
        "# Total Lost Samples: 0",
        "#",
        "# Samples: 1  of event 'cycles'",
        "# Event count (approx.): 1",
        "#",
        "# Overhead,Command,Shared Object,Symbol         ",
        " 100.00%,a.b    ,app          ,[.] f(int. int)",
        "",
        "",
    ];
    check(&samples, &flat(), &style, &want);
}

#[test]
fn what_a_filter_fixes_is_told_once_instead_of_in_each_row() {
    let mut samples = Samples::new();
    samples.add("sh", 7, &["f"], 3).add("sh", 7, &["lib:g"], 1);
    let filter = Filter { dsos: vec!["lib".into()], ..Filter::default() };
    let request = Request { filter, percentage: Percentage::Relative, ..flat() };
    let style = Style { comments: Comments::AfterHeader, separator: None, ..Style::default() };
    let want = [
        "# dso: lib",
        "#",
        "# Total Lost Samples: 0",
        "#",
        "# Samples: 1  of event 'cycles'",
        "# Event count (approx.): 1",
        "#",
        "# Overhead  Command  Symbol",
        "# ........  .......  ......",
        "#",
        "   100.00%  sh       [.] g",
        "",
        "",
    ];
    check(&samples, &request, &style, &want);
}

#[test]
fn names_that_would_steer_a_terminal_are_escaped() {
    let mut samples = Samples::new();
    samples.add("a\x1b[2J", 7, &["f\rg"], 1);
    let want = ["   100.00%  a\\x1b[2J  app            [.] f\\rg", "", ""];
    check(&samples, &flat(), &rows_only(), &want);
}

#[test]
fn rows_below_the_limit_are_left_out() {
    let mut samples = Samples::new();
    samples.add("sh", 7, &["f"], 90).add("sh", 7, &["g"], 10);
    let request = Request { sort: by(&[Column::Symbol]).sort, percent_limit: 10.0, ..flat() };
    check(&samples, &request, &rows_only(), &["    90.00%  [.] f", "    10.00%  [.] g", "", ""]);
    let request = Request { percent_limit: 10.5, ..request };
    check(&samples, &request, &rows_only(), &["    90.00%  [.] f", "", ""]);
}

#[test]
fn an_event_without_samples_is_left_out() {
    let mut samples = Samples::new();
    samples.resolved.events.push(samples.resolved.events[0].clone());
    samples.add("sh", 7, &["f"], 1);
    let request = Request { sort: by(&[Column::Symbol]).sort, ..flat() };
    check(&samples, &request, &rows_only(), &["   100.00%  [.] f", "", ""]);
}

#[test]
fn without_samples_there_is_nothing_to_show() {
    let samples = Samples::new();
    check(&samples, &flat(), &rows_only(), &[]);
    let hint = "# To display the perf.data header info, please use --header/--header-only options.";
    check(&samples, &flat(), &Style::default(), &[hint, "#"]);
}

#[test]
fn a_graph_has_a_bar_for_each_branch_that_is_to_come() {
    let mut samples = Samples::new();
    samples.add("sh", 7, &["f", "g", "x"], 4).add("sh", 7, &["f", "g", "y"], 2);
    samples.add("sh", 7, &["f", "h", "0x0"], 3).add("sh", 7, &["f"], 1);
    let want = [
        "   100.00%  sh       app            [.] f",
        "            |",
        "            ---f",
        "               |          ",
        "               |--60.00%--g",
        "               |          |          ",
        "               |          |--40.00%--x",
        "               |          |          ",
        "               |           --20.00%--y",
        "               |          ",
        "                --30.00%--h",
        "                          0",
        "",
        "",
        "",
    ];
    check(&samples, &graph(GraphSettings::default()), &rows_only(), &want);
}

#[test]
fn several_roots_are_labelled() {
    let mut samples = Samples::new();
    samples.add("sh", 7, &["f", "x"], 3).add("sh", 7, &["g", "y"], 1);
    let request = Request {
        sort: by(&[Column::Comm]).sort,
        ..graph(GraphSettings { value: GraphValue::Count, ..GraphSettings::default() })
    };
    let want = [
        "   100.00%  sh     ",
        "            |          ",
        "            |--1--f",
        "            |          x",
        "            |          ",
        "             --1--g",
        "                       y",
        "",
        "",
        "",
    ];
    check(&samples, &request, &rows_only(), &want);
}

#[test]
fn where_symbols_lead_the_graph_does_not_repeat_the_row() {
    let mut samples = Samples::new();
    samples.add("sh", 7, &["f", "main"], 3).add("sh", 7, &["g"], 1);
    let request = Request { sort: by(&[Column::Symbol]).sort, ..graph(GraphSettings::default()) };
    let want = [
        "    75.00%  [.] f",
        "            |",
        "            ---main",
        "",
        "    25.00%  [.] g",
        "",
        "",
    ];
    check(&samples, &request, &rows_only(), &want);
}

#[test]
fn a_limit_cuts_branches_and_the_frames_before_them() {
    let mut samples = Samples::new();
    samples.add("sh", 7, &["f", "g", "h", "x"], 3).add("sh", 7, &["f", "g", "h", "y"], 1);
    let request = graph(GraphSettings { limit: 1, ..GraphSettings::default() });
    let want = [
        "   100.00%  sh       app            [.] f",
        "            |",
        "            ---f",
        "               |          ",
        "               |--75.00%--x",
        "",
        "",
        "",
    ];
    check(&samples, &request, &rows_only(), &want);
}

#[test]
fn large_numbers_of_samples_are_told_in_thousands() {
    assert_eq!(scaled(1000), (1000, ' '));
    assert_eq!(scaled(1001), (1, 'K'));
    assert_eq!(scaled(20_123_456), (20, 'M'));
    assert_eq!(scaled(u64::MAX), (18_446_744_073, 'G'));
}

#[test]
fn fractal_shares_are_of_the_branch_before_with_what_is_left_out() {
    let mut samples = Samples::new();
    samples.add("sh", 7, &["f", "g", "x"], 6).add("sh", 7, &["f", "g", "y"], 2);
    samples.add("sh", 7, &["f", "h"], 2);
    let settings =
        GraphSettings { shape: Shape::Fractal, min_percent: 30.0, ..GraphSettings::default() };
    let want = [
        "   100.00%  sh       app            [.] f",
        "            |",
        "            ---f",
        "               |          ",
        "               |--80.00%--g",
        "               |          |          ",
        "               |          |--75.00%--x",
        "               |           --25.00%--[...]",
        "                --20.00%--[...]",
        "",
        "",
        "",
    ];
    check(&samples, &graph(settings), &rows_only(), &want);
}

#[test]
fn lists_have_a_chain_each_by_what_ends_there() {
    let mut samples = Samples::new();
    samples.add("sh", 7, &["f", "g"], 2).add("sh", 7, &["f", "g", "x"], 5).add("sh", 7, &["f"], 3);
    let settings = GraphSettings { shape: Shape::Folded, ..GraphSettings::default() };
    let row = "   100.00%  sh       app            [.] f";
    let want = [row, "50.00% f;g;x", "30.00% f", "20.00% f;g", "", ""];
    check(&samples, &graph(settings), &rows_only(), &want);
    let value = GraphValue::Period;
    let settings = GraphSettings { shape: Shape::Flat, min_percent: 30.0, value, ..settings };
    let [x, g, f] = ["                x", "                g", "                f"];
    let want = [row, "           5", f, g, x, "", "           10", f, "", "", ""];
    check(&samples, &graph(settings), &rows_only(), &want);
}

#[test]
fn a_group_has_a_column_for_each_event_with_samples() {
    let mut samples = Samples::new();
    let event = samples.resolved.events[0].clone();
    for name in ["faults", "empty"] {
        samples.resolved.events.push(EventInfo { name: name.into(), ..event.clone() });
    }
    let events = vec![EventIdx(0), EventIdx(1), EventIdx(2)];
    samples.resolved.event_groups = vec![EventGroup { name: None, events }];
    samples.add("sh", 7, &["f"], 3).add("sh", 7, &["g"], 1).add("sh", 7, &["g"], 6);
    samples.add("sh", 7, &["h"], 2);
    samples.resolved.groups[2].event = EventIdx(1);
    samples.resolved.groups[3].event = EventIdx(1);
    let request =
        Request { sort: by(&[Column::Symbol]).sort, extra: vec![Column::Samples], ..flat() };
    let style = Style { comments: Comments::AfterHeader, separator: None, ..Style::default() };
    let want = [
        "#",
        "# Total Lost Samples: 0",
        "#",
        "# Samples: 4  of events 'anon group { cycles, faults }'",
        "# Event count (approx.): 12",
        "#",
        "#         Overhead                   Samples  Symbol",
        "# ................  ........................  ......",
        "#",
        "    75.00%   0.00%             1           0  [.] f",
        "    25.00%  75.00%             1           1  [.] g",
        "     0.00%  25.00%             0           1  [.] h",
        "",
        "",
    ];
    check(&samples, &request, &style, &want);
    let request = Request { group_sort_idx: Some(1), extra: Vec::new(), ..request };
    let want = [
        "    25.00%  75.00%  [.] g",
        "     0.00%  25.00%  [.] h",
        "    75.00%   0.00%  [.] f",
        "",
        "",
    ];
    check(&samples, &request, &rows_only(), &want);
    let request = Request { grouping: Grouping::Never, group_sort_idx: None, ..request };
    let want = [
        "    75.00%  [.] f",
        "    25.00%  [.] g",
        "",
        "",
        "    75.00%  [.] g",
        "    25.00%  [.] h",
        "",
        "",
    ];
    check(&samples, &request, &rows_only(), &want);
}
