//! `bench record`: what recording costs and loses, against the perfs of this machine in the same run.
//!
//! `cargo xtask bench record [RUNS]`, as root. A load outside keeps all CPUs busy, and the command that
//! is recorded sleeps: the CPU time is that of the recorder alone. Peak memory is without the rings on
//! kernels that do not count them, which is so where a larger `-m` does not raise it.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::path::PathBuf;
use std::thread;

use crate::shell::Failure;
use crate::shell::Running;
use crate::shell::Shell;

use super::Cost;
use super::Programs;
use super::median;
use super::middle;
use super::n_runs;
use super::ratio;

/// What keeps a CPU busy, in the kernel and outside of it.
const LOAD: &str = "while :; do echo; done >/dev/null";

/// Samples and what is not one, as the newest perf counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    samples: u64,
    lost: u64,
}

/// A recording that is compared.
struct Case {
    /// What comes before the command.
    options: Vec<&'static str>,
    command: &'static [&'static str],
    /// How long the command takes.
    command_ms: u64,
    is_loaded: bool,
}

/// The recordings.
fn cases() -> Vec<Case> {
    let busy = |options: &[&'static str], command: &'static [&'static str], command_ms| {
        let options = [&["-a", "-g", "-e", "cpu-clock"], options].concat();
        Case { options, command, command_ms, is_loaded: true }
    };
    let mut cases = vec![
        Case { options: Vec::new(), command: &["true"], command_ms: 0, is_loaded: false },
        busy(&["-F", "25000"], &["sleep", "5"], 5000),
        busy(&["-F", "25000", "-z"], &["sleep", "5"], 5000),
    ];
    for rate in ["4000", "25000", "max"] {
        for ring in [&["-m", "16"][..], &["-m", "128"], &[]] {
            cases.push(busy(&[&["-F", rate], ring].concat(), &["sleep", "1"], 1000));
        }
    }
    cases
}

/// Records each case in turns by each program.
pub(super) fn run(shell: &Shell, args: &[String]) -> Result<(), Failure> {
    let n_runs = n_runs(args.first())?;
    let Programs { ours, peer } = Programs::get(shell)?;
    let programs: Vec<_> =
        [Some(ours), Some(peer.clone()), system_perf()].into_iter().flatten().collect();
    let folder = shell.target().join("bench");
    let cannot = |error| Failure::new(format!("cannot use `{}`: {error}", folder.display()));
    fs::create_dir_all(&folder).map_err(cannot)?;
    let data = folder.join("recorded.data");
    let mut table = String::new();
    for case in cases() {
        let mut costs = vec![Vec::new(); programs.len()];
        let mut counts = vec![Vec::new(); programs.len()];
        for _ in 0..n_runs {
            for ((program, costs), counts) in programs.iter().zip(&mut costs).zip(&mut counts) {
                costs.push(record(shell, program, &case, &data)?);
                counts.push(count(shell, &peer, &data)?);
            }
        }
        let costs: Vec<_> = costs.iter().map(|it| median(it)).collect();
        let counts: Vec<_> = counts.iter().map(|it| median_of_counts(it)).collect();
        table += &told(&case, &programs, &costs, &counts);
    }
    fs::remove_file(&data).map_err(cannot)?;
    print!("{table}");
    Ok(())
}

/// The perf that is installed here, if there is one.
fn system_perf() -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders).map(|it| it.join("perf")).find(|it| it.is_file())
}

fn record(shell: &Shell, program: &Path, case: &Case, data: &Path) -> Result<Cost, Failure> {
    let _load = if case.is_loaded { load(shell)? } else { Vec::new() };
    let mut args = vec!["record".as_ref(), "-o".as_ref(), data.as_os_str()];
    args.extend(case.options.iter().chain(&["--"]).chain(case.command).map(OsStr::new));
    super::cost(shell, program, args)
}

/// Keeps all CPUs busy until it is dropped.
fn load(shell: &Shell) -> Result<Vec<Running>, Failure> {
    let n_cpus = thread::available_parallelism().map_or(1, NonZero::get);
    (0..n_cpus).map(|_| shell.spawn(shell.command("sh").args(["-c", LOAD]))).collect()
}

fn count(shell: &Shell, perf: &Path, data: &Path) -> Result<Counts, Failure> {
    let mut stats = shell.command(perf);
    Ok(parse(&shell.output(stats.args(["report", "--stats", "-i"]).arg(data))?))
}

/// The counts of all events together: those of each stand under `NAME stats:`.
fn parse(stats: &str) -> Counts {
    let of_events =
        stats.lines().skip_while(|it| !it.ends_with(" stats:") || it.starts_with("Agg"));
    let mut counts = Counts::default();
    for (name, n) in of_events.filter_map(|it| it.trim().split_once(" events:")) {
        let n = n.split_whitespace().next().and_then(|it| it.parse().ok()).unwrap_or(0);
        match name {
            "SAMPLE" => counts.samples += n,
            "LOST_SAMPLES" => counts.lost += n,
            _ => {}
        }
    }
    counts
}

fn median_of_counts(counts: &[Counts]) -> Counts {
    Counts {
        samples: middle(counts.iter().map(|it| it.samples)),
        lost: middle(counts.iter().map(|it| it.lost)),
    }
}

/// A case as it is printed: each program, then ours against the better one of the others.
fn told(case: &Case, programs: &[PathBuf], costs: &[Cost], counts: &[Counts]) -> String {
    let mut lines = vec![[&case.options, &["--"][..], case.command].concat().join(" ")];
    for ((program, cost), counts) in programs.iter().zip(costs).zip(counts) {
        let late_ms = cost.wall_ms.saturating_sub(case.command_ms);
        let share = 100.0 * ratio(counts.lost, counts.lost + counts.samples);
        lines.push(format!(
            "  {:5} ms CPU  {late_ms:5} ms beside the command  {:3} MiB  {:7} samples  {:7} lost \
             ({share:4.1} %)  {}",
            cost.cpu_ms,
            cost.peak_kib / 1024,
            counts.samples,
            counts.lost,
            program.display()
        ));
    }
    if let Some((ours, others)) = costs.split_first() {
        let best = others.iter().map(|it| it.cpu_ms).min().unwrap_or_default();
        lines.push(format!("  {:.2} of the better one's CPU time", ratio(ours.cpu_ms, best)));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_is_counted_by_samples_and_not_by_records() {
        let stats = "
Aggregated stats:
               TOTAL events:      46248
              SAMPLE events:      38568  (83.4%)
        LOST_SAMPLES events:          2  ( 0.0%)
cpu-clock:ppp stats:
              SAMPLE events:      38560
        LOST_SAMPLES events:       6019
dummy:u stats:
              SAMPLE events:          8
";
        assert_eq!(parse(stats), Counts { samples: 38568, lost: 6019 });
    }
}
