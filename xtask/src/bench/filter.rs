//! `bench filter`: what a filter costs for each sample that it rejects.
//!
//! `cargo xtask bench filter [RUNS]`, as root. Each page fault of many short programs is a sample, and
//! each is rejected; the kernel counts the runs of the filter and their time, which includes what
//! counting takes. The newest perf that is at hand comes without the program that its filters need,
//! so there is nothing to compare with.

use std::fs;
use std::path::Path;

use crate::shell::Failure;
use crate::shell::Shell;

use super::middle;
use super::n_runs;

/// Filters that keep nothing: their last term is the one that says no.
const FILTERS: [(&str, &str); 6] = [
    ("one term", "pid == 1"),
    ("no term that is a call", "kernel && user"),
    (
        "ten terms",
        "ip > 1, tid > 1, pid > 1, cpu < 4096, addr != 1, period == 1, time > 1, user || kernel, \
         uid != 12345, gid == 12345",
    ),
    ("a name", "comm == nobody"),
    ("programs", "bpf_prog"),
    ("programs, callers too", "bpf_prog, kernel || user"),
];

const WORKLOAD: &str = "i=0; while [ $i -lt 1000 ]; do /bin/true; i=$((i+1)); done";

/// Records with each filter, and prints the cost of a rejection.
pub(super) fn run(shell: &Shell, args: &[String]) -> Result<(), Failure> {
    let n_runs = n_runs(args.first())?;
    // What runs in the kernel is the same whatever the recorder was built for.
    shell.run(shell.cargo().args(["build", "--bin", "bpfperf"]))?;
    let ours = shell.target().join("debug/bpfperf");
    let folder = shell.target().join("bench");
    let cannot = |error| Failure::new(format!("cannot use `{}`: {error}", folder.display()));
    fs::create_dir_all(&folder).map_err(cannot)?;
    let data = folder.join("filtered.data");
    for (what, filter) in FILTERS {
        let mut costs = Vec::new();
        for _ in 0..n_runs {
            costs.push(cost(shell, &ours, filter, what.contains("callers"), &data)?);
        }
        let nanoseconds = middle(costs.iter().map(|it| it.1));
        let n_rejected = middle(costs.iter().map(|it| it.0));
        println!("{what:<22} {nanoseconds:>5} ns, {n_rejected:>8} samples rejected");
    }
    fs::remove_file(&data).map_err(cannot)
}

/// How often the filter ran and how long each time, in ns.
fn cost(
    shell: &Shell,
    ours: &Path,
    filter: &str,
    has_chains: bool,
    data: &Path,
) -> Result<(u64, u64), Failure> {
    let mut record = shell.command(ours);
    record.args(["record", "-q", "--bpf-stats", "-d", "-c", "1", "-e", "page-faults", "--filter"]);
    record.arg(filter).args(has_chains.then_some("-g")).arg("-o").arg(data);
    shell.run(record.args(["--", "sh", "-c", WORKLOAD]))?;
    let mut report = shell.command(ours);
    let bill = shell.output(report.args(["report", "--bpf", "-i"]).arg(data))?;
    parse(&bill).ok_or_else(|| Failure::new(format!("no run of the filter in\n{bill}")))
}

/// Runs and nanoseconds of a row `PERCENT RUNS 65ns ID bpfperf_filter ..`.
fn parse(bill: &str) -> Option<(u64, u64)> {
    let row = bill.lines().find(|it| it.contains(" bpfperf_filter "))?;
    let mut words = row.split_whitespace().skip(1);
    let runs = words.next()?.parse().ok()?;
    Some((runs, words.next()?.strip_suffix("ns")?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_time_are_read_off_the_row_of_the_filter() {
        let bill = "# CPU Runs Time/run Id Name\n  0.02%  2157  203ns  4  other  tracing  -\n\
                    1.66%  697394      65ns  386023  bpfperf_filter   perf_event  -\n";
        assert_eq!(parse(bill), Some((697_394, 65)));
        assert_eq!(parse("# nothing\n"), None);
    }
}
