//! Agreement with perf: what `perf report --stdio --no-inline` of perf 7.3 said of each fixture is
//! stored beside it, and ours has to say the same, character by character.
//!
//! The fixtures are made by hand, so that every name in them comes from the file itself: kernel
//! functions from KSYMBOL records, user code in files that no machine has. No two branches or rows
//! weigh the same, where perf would order them by where its own memory happens to lie.

use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Output;

use crate::command::told;

#[track_caller]
fn check(fixture: &str, said: &str, args: &[&str]) {
    let ours = report(fixture, args);
    let fixtures = fixtures();
    let said = fixtures.join(format!("{fixture}.{said}.report.txt"));
    bless(&said, &fixtures.join(format!("{fixture}.data")), args);
    let theirs = std::fs::read_to_string(said).unwrap();
    for (number, (ours, theirs)) in (1..).zip(ours.lines().zip(theirs.lines())) {
        assert_eq!(ours, theirs, "line {number}");
    }
    assert_eq!(ours, theirs);
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/report")
}

fn run(fixture: &str, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bpfperf"))
        .args(["report", "--stdio", "--no-inline", "-i"])
        .arg(fixtures().join(format!("{fixture}.data")))
        .args(args)
        .output()
        .unwrap()
}

#[track_caller]
fn report(fixture: &str, args: &[&str]) -> String {
    let output = run(fixture, args);
    assert_eq!(told(&output.stderr), "");
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn refused(fixture: &str, args: &[&str]) -> String {
    let output = run(fixture, args);
    assert_eq!(output.status.code(), Some(1));
    told(&output.stderr)
}

/// Asks perf anew, as `cargo xtask bless` wants.
fn bless(said: &Path, fixture: &Path, args: &[&str]) {
    if std::env::var_os("BPFPERF_BLESS").is_none() {
        return;
    }
    let mut perf = Command::new(std::env::var_os("BPFPERF_PEER").expect("which perf is asked"));
    perf.args(["report", "--stdio", "--no-inline", "-i"]).arg(fixture).args(args);
    let output = perf.output().unwrap();
    assert!(output.status.success(), "{perf:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    // perf ends with a piece of advice, drawn by lot.
    std::fs::write(said, text.split("#\n# (Tip: ").next().unwrap()).unwrap();
}

#[test]
fn the_default_report_has_callers_and_graphs() {
    check("calls", "default", &[]);
}

#[test]
fn without_children_graphs_begin_at_the_sampled_function() {
    check("calls", "no-children", &["--no-children"]);
    check("calls", "count", &["-g", "caller,2,2,count", "--no-children"]);
}

#[test]
fn graphs_are_left_out_where_none_are_asked_for() {
    check("calls", "children", &["-g", "none"]);
    check("calls", "flat", &["--no-children", "-g", "none"]);
}

#[test]
fn graphs_begin_where_they_are_told_to() {
    check("calls", "callee", &["-g", "callee,10"]);
    check("calls", "stack", &["--max-stack", "3", "--percent-limit", "10"]);
}

#[test]
fn columns_are_those_that_are_asked_for() {
    check("calls", "sym", &["-s", "sym", "--percent-limit", "4"]);
    check("calls", "keys", &["-s", "pid,cpu,dso", "-n", "--show-total-period", "-g", "none"]);
    check("calls", "fields", &["-F", "period,sample,comm", "-g", "none"]);
    check("calls", "separator", &["-t", ";", "-n", "-g", "none"]);
    check("calls", "quiet", &["-q", "-s", "dso", "-g", "none"]);
}

#[test]
fn filters_hide_samples_and_change_no_share_unless_asked_to() {
    check("calls", "comm", &["--comm", "worker", "--no-children"]);
    check("calls", "dso", &["--dso", "libwork.so.1", "--percentage", "relative"]);
    check("calls", "symbols", &["-S", "parse,copy", "-s", "sym,dso", "-g", "none"]);
    check("calls", "tid", &["--tid", "101", "--no-children", "-g", "none"]);
    check("calls", "cpu", &["-C", "1", "-s", "comm", "-g", "none"]);
}

#[test]
fn shares_are_of_periods_and_samples_stand_in_their_own_column() {
    // After a report of tools that count samples where frequencies change their periods.
    check("periods", "default", &["-n"]);
    check("periods", "fields", &["-F", "sample,overhead,sym"]);
}

#[test]
fn rows_differ_in_what_samples_say_of_themselves() {
    let flat =
        |name, keys| check("samples", name, &["--no-children", "-g", "none", "-n", "-s", keys]);
    flat("time", "time,comm");
    flat("weight", "weight,local_weight,ins_lat,local_ins_lat");
    flat("latency", "p_stage_cyc,local_retire_lat");
    flat("transaction", "transaction,code_page_size");
    flat("cgroup", "socket,cgroup");
    flat("parent", "parent,comm_nodigit,simd");
    flat("place", "comm,symbol,addr");
    flat("size", "comm,symbol_size");
    flat("shares", "comm,overhead_sys,overhead_us");
    flat("process", "tgid,comm");
    flat("offset", "symoff,symbol");
}

#[test]
fn columns_are_as_wide_as_they_are_told_to_be() {
    let narrow = ["-w", "10,4,0,7", "-s", "comm,dso,sym", "--no-children", "-g", "none"];
    check("samples", "widths", &narrow);
}

#[test]
fn samples_of_one_socket_count_alone() {
    check("samples", "socket", &["--socket-filter", "1", "-s", "comm,socket,sym", "-g", "none"]);
}

#[test]
fn rows_differ_in_the_fields_of_tracepoints() {
    check("traced", "fields", &["-s", "comm,who,step,mask,change,ports"]);
    check("traced", "event", &["-s", "demo:step.step,%2.at,stop.common_pid"]);
    check("traced", "as-they-are", &["-s", "mask/raw,who", "-t", ","]);
    check("traced", "texts", &["-s", "trace", "--raw-trace"]);
    check("traced", "hierarchy", &["--hierarchy", "-s", "comm,stop.*,{who,mask}"]);
}

/// perf takes the length of such a text from whatever rows it happened to compare, and cuts it.
#[test]
fn a_field_of_any_length_is_shown_whole() {
    let text = report("traced", &["-q", "--raw-trace", "-w", "8"]);
    assert!(text.contains("  /a/long/path  "), "{text}");
}

#[test]
fn a_column_that_is_not_made_is_refused_with_what_it_needs() {
    let error = refused("traced", &["-s", "data_page_size"]);
    assert!(error.contains("needs what hardware notes of accesses to memory"), "{error}");
    let error = refused("traced", &["-s", "nothing"]);
    assert!(error.contains("no column is called `nothing`"), "{error}");
}

#[test]
fn a_dump_has_every_record_and_their_numbers() {
    let recording = "../recordings/perf-7.3-one";
    let dump = report(recording, &["-D"]);
    assert!(dump.starts_with("# To display the perf.data header info"), "{dump}");
    let (records, numbers) = dump.split_once("\nAggregated stats:").unwrap();
    assert_eq!(records.matches("]: PERF_RECORD_").count(), records.matches("]: event: ").count());
    for kind in ["THREAD_MAP", "CPU_MAP"] {
        let (_, record) = records.split_once(&format!("PERF_RECORD_{kind}")).unwrap();
        assert_eq!(record.lines().nth(1), Some(": unhandled!"));
    }
    assert!(!records.contains("cpu-clock:"), "a line of a sample");
    let stats = report(recording, &["--stats"]);
    assert_eq!(stats.trim_start(), format!("Aggregated stats:{numbers}"));
}

#[test]
fn samples_of_some_time_count_alone() {
    check("samples", "slice", &["--time", "10,10.2", "--no-children"]);
    check(
        "samples",
        "tenths",
        &["--time", "10%-50%", "--no-children", "--time-quantum", "10ms", "-F", "time,sample"],
    );
    check(
        "samples",
        "nanos",
        &["--ns", "--no-children", "--time-quantum", "1us", "-F", "time,sample,sym"],
    );
}

#[test]
fn samples_show_by_which_parent_they_came() {
    check("samples", "parents", &["-p", "^sys_"]);
    check("samples", "parents-alone", &["-p", "^sys_", "-x", "-s", "sym,comm"]);
    check("samples", "callees", &["--ignore-callees", "sys_read", "--no-children"]);
    check("samples", "utilization", &["--show-cpu-utilization", "-g", "none"]);
}

#[test]
fn branches_are_counted_where_there_are_some() {
    check("branches", "default", &[]);
    check("branches", "samples", &["--no-branch-stack", "-n"]);
    check("branches", "keys", &["-s", "dso_from,dso_to,cycles", "-n"]);
    check("branches", "to", &["-s", "addr_to,comm", "-b"]);
    check("branches", "sym", &["-s", "sym"]);
}

#[test]
fn tasks_and_their_mappings_are_told() {
    check("samples", "tasks", &["--tasks"]);
}

#[test]
fn rows_stand_below_rows() {
    let of = |name, args: &[&str]| {
        check("samples", name, &[&["--hierarchy", "--no-children", "-g", "none"], args].concat());
    };
    of("hierarchy", &["-n", "-s", "comm,cpu,sym,time", "--percent-limit", "10"]);
    of("hierarchy-comm", &["--comm", "server"]);
    of("hierarchy-separated", &["-s", "comm,pid", "-t", ","]);
    of("hierarchy-parents", &["-s", "comm,parent", "-p", "copy"]);
    of("hierarchy-joined", &["-s", "{comm,cpu},dso,{sym,time}"]);
}
