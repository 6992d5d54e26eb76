//! Rows, weights, orders and graphs, counted by hand.

use super::testing::Samples;
use super::*;
use crate::replay::resolved::Location;
use crate::replay::resolved::LocationId;

fn plan(request: &Request) -> Plan {
    Plan::new(request, Callchains::Recorded).unwrap()
}

/// One row, as `children self samples symbol`.
fn line(resolved: &Resolved, row: &Row) -> String {
    let symbol = row.symbol.map(|it| resolved.symbols[it.0 as usize].name.clone());
    let symbol = symbol.unwrap_or_else(|| format!("{:#x}", row.addr.0));
    format!("{} {} {} {symbol}", row.children_period, row.period, row.n_samples)
}

#[track_caller]
fn check_rows(samples: &Samples, request: &Request, want: &[&str]) -> Vec<Histogram> {
    let histograms = histograms(&samples.resolved, &plan(request)).unwrap();
    let shown = histograms[0].rows.iter().filter(|it| it.is_shown);
    let got: Vec<_> = shown.map(|it| line(&samples.resolved, it)).collect();
    assert_eq!(got, want);
    histograms
}

/// The graph of the first row, a node a line: depth, period and frames.
#[track_caller]
fn check_graph(samples: &Samples, request: &Request, want: &[&str]) {
    let histograms = histograms(&samples.resolved, &plan(request)).unwrap();
    let tree = histograms[0].rows[0].tree.as_deref().unwrap();
    let mut got = Vec::new();
    nodes(samples, tree, tree.roots(), 0, &mut got);
    assert_eq!(got, want);
}

fn nodes(samples: &Samples, tree: &CallTree, nodes: &[Node], depth: usize, got: &mut Vec<String>) {
    for node in nodes {
        let names = tree.frames(node).iter().map(|it| {
            let location = &samples.resolved.locations[it.0 as usize];
            let name = location.symbol.map(|it| &samples.resolved.symbols[it.0 as usize].name);
            name.cloned().unwrap_or_else(|| format!("{:#x}", location.ip.0))
        });
        let names: Vec<_> = names.collect();
        got.push(format!("{}{} {}", "  ".repeat(depth), node.period, names.join(" ")));
        self::nodes(samples, tree, tree.children(node), depth + 1, got);
    }
}

fn flat() -> Request {
    Request {
        accumulate: Accumulate::Nothing,
        graph: GraphRequest::No,
        sort: Some(Sort::By(vec![Column::Symbol])),
        ..Request::default()
    }
}

fn graph(min_percent: f64, order: Option<Order>) -> GraphRequest {
    GraphRequest::Always(GraphSettings { min_percent, order, ..GraphSettings::default() })
}

fn callee_graph() -> Request {
    let graph = graph(0.0, Some(Order::Callee));
    // All samples on one row.
    let sort = Some(Sort::By(vec![Column::Comm]));
    Request { accumulate: Accumulate::Nothing, graph, sort, ..Request::default() }
}

#[test]
fn rows_weigh_periods_and_count_samples() {
    let mut samples = Samples::new();
    samples.add("a", 1, &["often"], 1).add("a", 1, &["heavy"], 991).add("a", 1, &["often"], 1);
    let histograms = check_rows(&samples, &flat(), &["991 991 1 heavy", "2 2 2 often"]);
    let totals = Totals { period: 993, shown_period: 993, n_samples: 3, n_shown_samples: 3 };
    assert_eq!(histograms[0].totals, totals);
}

#[test]
fn a_caller_weighs_what_it_called_and_a_recursion_counts_once() {
    let mut samples = Samples::new();
    samples.add("a", 1, &["leaf", "rec", "rec", "main"], 10).add("a", 1, &["rec", "main"], 5);
    // Callers stand above what they call where both weigh the same.
    check_rows(&samples, &Request::default(), &["15 0 0 main", "15 5 1 rec", "10 10 1 leaf"]);
}

#[test]
fn of_rows_of_one_weight_the_one_with_the_longer_chains_comes_first() {
    let mut samples = Samples::new();
    samples.add("a", 1, &["k:leaf", "mid", "main"], 10);
    let request = Request { graph: graph(0.5, None), ..Request::default() };
    check_rows(&samples, &request, &["10 10 1 leaf", "10 0 0 main", "10 0 0 mid"]);
    // Of different threads the names decide.
    samples.add("b", 2, &["k:end", "outer"], 10);
    let rows = ["10 10 1 leaf", "10 10 1 end", "10 0 0 main", "10 0 0 mid", "10 0 0 outer"];
    check_rows(&samples, &request, &rows);
}

#[test]
fn rows_of_one_weight_are_ordered_by_their_names() {
    let mut samples = Samples::new();
    samples.add("a", 1, &["zeta"], 3).add("a", 1, &["0x99"], 3).add("a", 1, &["alpha"], 3);
    samples.add("a", 1, &["0x12"], 3);
    let rows = ["3 3 1 alpha", "3 3 1 zeta", "3 3 1 0x12", "3 3 1 0x99"];
    check_rows(&samples, &flat(), &rows);
}

#[test]
fn an_address_without_a_name_is_in_its_module_where_sampled_and_in_the_process_where_called() {
    let mut samples = Samples::new();
    samples.add("a", 1, &["lib:0x10077"], 4);
    let sort = Some(Sort::By(vec![Column::Symbol]));
    let request = Request { sort, ..Request::default() };
    check_rows(&samples, &request, &["4 4 1 0x77", "4 0 0 0x10077"]);
}

#[test]
fn functions_of_one_name_in_two_modules_are_two_rows() {
    let mut samples = Samples::new();
    samples.add("a", 1, &["f"], 2).add("a", 1, &["lib:f"], 1);
    check_rows(&samples, &flat(), &["2 2 1 f", "1 1 1 f"]);
    let sort = Some(Sort::By(vec![Column::Comm]));
    check_rows(&samples, &Request { sort, ..flat() }, &["3 3 2 f"]);
}

#[test]
fn a_bpf_function_that_is_loaded_twice_is_one_row_and_two_frames() {
    let mut samples = Samples::new();
    samples.add("a", 1, &["app", "f"], 2).add("a", 1, &["g", "f"], 1);
    // A module that is named like its function, and is loaded again.
    samples.resolved.symbols[2].name = "app".into();
    check_rows(&samples, &flat(), &["3 3 2 app"]);
    check_graph(&samples, &callee_graph(), &["2 app f", "1 app f"]);
}

#[test]
fn a_filter_hides_rows_and_leaves_the_totals() {
    let mut samples = Samples::new();
    samples.add("a", 1, &["f", "main"], 6).add("b", 2, &["g", "main"], 4);
    let filter = Filter { comms: vec!["b".into()], ..Filter::default() };
    let request = Request { filter, ..Request::default() };
    let histograms = check_rows(&samples, &request, &["4 4 1 g", "4 0 0 main"]);
    let totals = Totals { period: 10, shown_period: 4, n_samples: 2, n_shown_samples: 1 };
    assert_eq!(histograms[0].totals, totals);
    assert_eq!(totals.base(Percentage::Absolute), 10);
    assert_eq!(totals.base(Percentage::Relative), 4);
    // Nothing of the other command is in a row that is shown, even if they share all columns.
    let sort = Some(Sort::By(vec![Column::Symbol]));
    check_rows(&samples, &Request { sort, ..request }, &["4 4 1 g", "4 0 0 main"]);
}

#[test]
fn filters_look_at_the_sample_not_at_its_callers() {
    let mut samples = Samples::new();
    samples.add("a", 1, &["lib:f", "main"], 6).add("a", 2, &["main"], 4);
    let with = |filter| Request { filter, ..Request::default() };
    let names = |it: &str| vec![it.to_owned()];
    let by_dso = with(Filter { dsos: names("/bin/lib"), ..Filter::default() });
    check_rows(&samples, &by_dso, &["6 6 1 f", "6 0 0 main"]);
    let by_symbol = with(Filter { symbols: names("main"), ..Filter::default() });
    check_rows(&samples, &by_symbol, &["4 4 1 main"]);
    // The start of `f`, where it is mapped.
    let by_start = with(Filter { symbols: names("0x10100"), ..Filter::default() });
    check_rows(&samples, &by_start, &["6 6 1 f", "6 0 0 main"]);
    let by_tid = with(Filter { tids: vec![2], ..Filter::default() });
    check_rows(&samples, &by_tid, &["4 4 1 main"]);
}

#[test]
fn samples_of_other_cpus_do_not_count_at_all() {
    let mut samples = Samples::new();
    samples.add("a", 1, &["f"], 6).add("a", 2, &["g"], 4);
    let filter = Filter { cpus: vec![0], ..Filter::default() };
    let request = Request { filter, ..flat() };
    let histograms = check_rows(&samples, &request, &["4 4 1 g"]);
    assert_eq!(histograms[0].totals.period, 4);
    samples.resolved.groups[0].cpu = None;
    let error = super::histograms(&samples.resolved, &plan(&request)).unwrap_err();
    assert_eq!(error, Error::NoCpu { event: "cycles".into() });
}

#[test]
fn each_event_has_a_histogram_of_its_own() {
    let mut samples = Samples::new();
    samples.add("a", 1, &["f"], 6).add("a", 2, &["g"], 4);
    samples.resolved.events.push(samples.resolved.events[0].clone());
    samples.resolved.groups[1].event = EventIdx(1);
    let histograms = histograms(&samples.resolved, &plan(&flat())).unwrap();
    let periods: Vec<_> = histograms.iter().map(|it| it.totals.period).collect();
    assert_eq!(periods, [6, 4]);
}

#[test]
fn chains_are_joined_as_far_as_they_are_the_same() {
    let mut samples = Samples::new();
    samples.add("a", 1, &["f", "g", "x", "main"], 4).add("a", 1, &["f", "g", "y", "main"], 3);
    samples.add("a", 1, &["f", "g"], 2).add("a", 1, &["h"], 1);
    let graph = ["9 f g", "  4 x main", "  3 y main", "1 h"];
    check_graph(&samples, &callee_graph(), &graph);
}

#[test]
fn a_chain_that_ends_within_another_ends_a_node_there() {
    let mut samples = Samples::new();
    samples.add("a", 1, &["f", "g", "main"], 4).add("a", 1, &["f"], 3);
    check_graph(&samples, &callee_graph(), &["7 f", "  4 g main"]);
}

#[test]
fn addresses_of_one_function_are_one_frame_and_addresses_without_a_name_are_not() {
    let mut samples = Samples::new();
    samples.add("a", 1, &["f", "0x10"], 1).add("a", 1, &["f", "0x20"], 1);
    let second = samples.resolved.locations[0];
    samples.resolved.locations.push(Location { ip: second.ip + 8, ..second });
    let elsewhere = LocationId(u32::try_from(samples.resolved.locations.len() - 1).unwrap());
    let stack = samples.resolved.stacks.push([elsewhere]);
    samples.resolved.groups[1].stack = Some(stack);
    check_graph(&samples, &callee_graph(), &["2 f", "  1 0x10"]);
}

#[test]
fn branches_of_one_weight_stand_from_the_highest_address_down() {
    let mut samples = Samples::new();
    for address in ["0x20", "0x30", "0x10"] {
        samples.add("a", 1, &["f", address], 1);
    }
    samples.add("a", 1, &["f", "lib:g"], 1);
    let graph = ["4 f", "  1 g", "  1 0x30", "  1 0x20", "  1 0x10"];
    check_graph(&samples, &callee_graph(), &graph);
}

#[test]
fn branches_below_the_threshold_are_left_out_and_still_end_a_node() {
    let mut samples = Samples::new();
    samples.add("a", 1, &["f", "heavy"], 90).add("a", 1, &["f", "light"], 10);
    let request =
        |min_percent| Request { graph: graph(min_percent, Some(Order::Callee)), ..callee_graph() };
    check_graph(&samples, &request(10.0), &["100 f", "  90 heavy", "  10 light"]);
    check_graph(&samples, &request(11.0), &["100 f", "  90 heavy"]);
    let histograms = histograms(&samples.resolved, &plan(&request(101.0))).unwrap();
    assert!(histograms[0].rows[0].tree.is_none());
}

#[test]
fn the_graph_of_a_caller_begins_at_the_caller() {
    let mut samples = Samples::new();
    samples.add("a", 1, &["leaf", "mid", "main"], 5);
    let request = Request { graph: graph(0.0, None), ..Request::default() };
    let histograms = histograms(&samples.resolved, &plan(&request)).unwrap();
    let graphs = histograms[0].rows.iter().map(|row| {
        let tree = row.tree.as_deref().unwrap();
        let mut got = vec![line(&samples.resolved, row)];
        nodes(&samples, tree, tree.roots(), 0, &mut got);
        got.join(": ")
    });
    let want =
        ["5 5 1 leaf: 5 main mid leaf", "5 0 0 main: 5 main mid leaf", "5 0 0 mid: 5 mid leaf"];
    assert_eq!(graphs.collect::<Vec<_>>(), want);
}

#[test]
fn a_long_chain_keeps_the_end_that_the_graph_begins_with() {
    let mut samples = Samples::new();
    samples.add("a", 1, &["leaf", "mid", "main"], 5);
    let with = |order| Request { max_stack: 2, graph: graph(0.0, Some(order)), ..callee_graph() };
    check_graph(&samples, &with(Order::Callee), &["5 leaf mid"]);
    check_graph(&samples, &with(Order::Caller), &["5 main mid"]);
}

#[test]
fn periods_that_overflow_wrap_as_the_kernels_do() {
    let mut samples = Samples::new();
    samples.add("a", 1, &["f", "main"], u64::MAX).add("a", 1, &["f", "main"], 3);
    check_rows(&samples, &Request::default(), &["2 2 2 f", "2 0 0 main"]);
}

#[test]
fn the_result_is_the_same_on_any_number_of_threads() {
    let mut samples = Samples::new();
    for idx in 0..20_000_u32 {
        let (leaf, mid) = (format!("leaf{}", idx % 31), format!("mid{}", idx % 7));
        let comm = format!("comm{}", idx % 3);
        let tid = i32::try_from(idx % 5).unwrap();
        samples.add(&comm, tid, &[&leaf, &mid, "main"], u64::from(idx % 11));
    }
    let request = Request { graph: graph(0.0, None), ..Request::default() };
    let plan = plan(&request);
    let with_threads = |n_threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(n_threads).build().unwrap();
        let histograms = pool.install(|| histograms(&samples.resolved, &plan).unwrap());
        format!("{:?}", histograms[0].rows)
    };
    assert_eq!(with_threads(1), with_threads(4));
}

#[test]
fn a_part_of_a_symbols_name_chooses_rows_and_not_samples() {
    let mut samples = Samples::new();
    samples.add("sh", 7, &["read", "main"], 3).add("sh", 7, &["write", "main"], 2);
    samples.add("sh", 7, &["0x10"], 1);
    let filter = Filter { symbol_part: Some("ea".into()), ..Filter::default() };
    let request = Request { filter, percentage: Percentage::Relative, ..flat() };
    let histograms = check_rows(&samples, &request, &["3 3 1 read"]);
    let totals = histograms[0].totals;
    assert_eq!((totals.shown_period, totals.n_shown_samples, totals.period), (3, 3, 6));
    let request = Request { sort: Some(Sort::By(vec![Column::Comm])), ..request };
    assert_eq!(
        super::histograms(&samples.resolved, &plan(&request)).unwrap()[0].totals.shown_period,
        6
    );
}

#[test]
fn without_what_has_no_symbol_samples_and_callers_are_fewer() {
    let mut samples = Samples::new();
    samples.add("sh", 7, &["f", "0x10", "main"], 3).add("sh", 7, &["0x10", "main"], 2);
    samples.resolved.hide_unresolved();
    let request = Request { graph: graph(0.0, Some(Order::Callee)), ..flat() };
    check_graph(&samples, &request, &["3 f main"]);
    check_rows(&samples, &request, &["3 3 1 f"]);
}
