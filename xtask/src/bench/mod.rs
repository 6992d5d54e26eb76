//! `bench`: how fast we read a recording, as ratios against the peer in the same run.
//!
//! `cargo xtask bench [FILE] [RUNS]`. Without a file it records a build of this project, every
//! process of it, at a rate that gives some two million samples, and keeps that for the next time.
//! `cargo xtask bench record` is the other side: see [`record`]; `bench filter`, the cost of filters:
//! see [`filter`]; `bench off-cpu`, that of times off the CPU: see [`off_cpu`]; `bench names`, that of
//! names, lines and stacks: see [`names`].

mod filter;
mod names;
mod off_cpu;
mod record;

use std::ffi::OsStr;
use std::fs;
use std::path;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;
use std::time::Instant;

use nix::sys::resource::UsageWho;
use nix::sys::resource::getrusage;
use nix::sys::time::TimeVal;
use nix::sys::time::TimeValLike;

use crate::peer;
use crate::shell::Failure;
use crate::shell::Shell;

/// What is timed: what both programs understand alike.
const CASES: [&[&str]; 3] = [
    &["report", "--stdio", "--no-inline", "--no-children", "-g", "none"],
    &["report", "--stdio", "--no-inline"],
    &["script", "--no-inline"],
];

const RUNS: usize = 3;

/// Samples a second and CPU, for some two million of them while this project builds.
const HERTZ: &str = "12000";

/// What one run of a command took.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cost {
    wall_ms: u64,
    cpu_ms: u64,
    peak_kib: u64,
}

/// The programs that are compared.
struct Programs {
    ours: PathBuf,
    /// The newest perf.
    peer: PathBuf,
}

impl Programs {
    /// Builds ours and finds the peer's.
    fn get(shell: &Shell) -> Result<Self, Failure> {
        let Some(peer) = peer::found(shell) else {
            return Err(Failure::with_hint("the peer is not here", "run `cargo xtask peer` first"));
        };
        shell.run(shell.cargo().args(["build", "--release", "--bin", "bpfperf"]))?;
        Ok(Self { ours: shell.target().join("release/bpfperf"), peer })
    }
}

/// Times each case in turns, ours then the peer's.
pub(crate) fn run(shell: &Shell, args: &[String]) -> Result<(), Failure> {
    if let Some((first, args)) = args.split_first()
        && first == "record"
    {
        return record::run(shell, args);
    }
    if let Some((first, args)) = args.split_first()
        && first == "filter"
    {
        return filter::run(shell, args);
    }
    if let Some((first, args)) = args.split_first()
        && first == "off-cpu"
    {
        return off_cpu::run(shell, args);
    }
    if let Some((first, args)) = args.split_first()
        && first == "names"
    {
        return names::run(shell, args);
    }
    let Programs { ours, peer: perf } = Programs::get(shell)?;
    let data = match args.first() {
        Some(file) => {
            path::absolute(file).map_err(|error| Failure::new(format!("`{file}`: {error}")))?
        }
        None => record_build(shell, &ours)?,
    };
    let n_runs = n_runs(args.get(1))?;
    for case in CASES {
        let mut costs = [Vec::new(), Vec::new()];
        for _ in 0..n_runs {
            for (program, costs) in [&ours, &perf].into_iter().zip(&mut costs) {
                let input = [OsStr::new("-i"), data.as_os_str()];
                let args = case.iter().map(OsStr::new).chain(input);
                costs.push(cost(shell, program, args)?);
            }
        }
        let [ours, theirs] = costs.each_ref().map(|costs| median(costs));
        println!("{}", case.join(" "));
        println!("  ours {}", told(ours));
        println!("  peer {}", told(theirs));
        let speed = ratio(theirs.wall_ms, ours.wall_ms);
        println!(
            "  {speed:.1} times as fast, in {:.2} of the memory",
            ratio(ours.peak_kib, theirs.peak_kib)
        );
    }
    Ok(())
}

fn n_runs(arg: Option<&String>) -> Result<usize, Failure> {
    let Some(runs) = arg else { return Ok(RUNS) };
    runs.parse().map_err(|error| Failure::new(format!("`{runs}`: {error}")))
}

/// Records a build of this project, and keeps the recording.
fn record_build(shell: &Shell, ours: &Path) -> Result<PathBuf, Failure> {
    let dir = shell.target().join("bench");
    let data = dir.join("perf.data");
    if data.is_file() {
        println!("bench: reading {}, which is here from before", data.display());
        return Ok(data);
    }
    let cannot = |error| Failure::new(format!("cannot use `{}`: {error}", dir.display()));
    let build = dir.join("build");
    fs::create_dir_all(&build).map_err(cannot)?;
    let mut record = shell.command(ours);
    record.args(["record", "-a", "-g", "-e", "cpu-clock", "-F", HERTZ, "-o"]).arg(&data);
    record.args(["--", "cargo", "build", "--quiet", "--release"]).env("CARGO_TARGET_DIR", &build);
    let outcome = shell.run(&mut record);
    fs::remove_dir_all(&build).map_err(cannot)?;
    outcome.map(|()| data)
}

/// Runs a command in a process of its own, whose children's peak memory is then that of the command.
fn cost(
    shell: &Shell,
    program: &Path,
    args: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> Result<Cost, Failure> {
    let us = std::env::current_exe();
    let us = us.map_err(|error| Failure::new(format!("cannot find this program: {error}")))?;
    let mut measure = shell.command(us);
    measure.arg("measure").arg(program).args(args);
    let line = shell.output(&mut measure)?;
    parse(&line).ok_or_else(|| Failure::new(format!("`measure` printed `{}`", line.trim_end())))
}

/// `measure CMD ARG..`: runs a command, its output thrown away, and prints wall time and CPU time
/// in milliseconds and peak memory in KiB.
pub(crate) fn measure(shell: &Shell, args: &[String]) -> Result<(), Failure> {
    let Some((program, args)) = args.split_first() else {
        return Err(Failure::new("no command to measure"));
    };
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let started = Instant::now();
    let status = command.status().map_err(|error| Failure::new(format!("`{program}`: {error}")))?;
    let wall_ms = started.elapsed().as_millis();
    shell.go_on()?;
    if !status.success() {
        return Err(Failure::new(format!("`{program}` ended with {status}")));
    }
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN);
    let usage = usage.map_err(|errno| Failure::new(format!("getrusage: {errno}")))?;
    let cpu: TimeVal = usage.user_time() + usage.system_time();
    println!("{wall_ms} {} {}", cpu.num_milliseconds(), usage.max_rss());
    Ok(())
}

fn parse(line: &str) -> Option<Cost> {
    let mut numbers = line.split_whitespace().map(str::parse);
    let mut next = || numbers.next()?.ok();
    Some(Cost { wall_ms: next()?, cpu_ms: next()?, peak_kib: next()? })
}

/// The median of each figure by itself.
fn median(costs: &[Cost]) -> Cost {
    Cost {
        wall_ms: middle(costs.iter().map(|it| it.wall_ms)),
        cpu_ms: middle(costs.iter().map(|it| it.cpu_ms)),
        peak_kib: middle(costs.iter().map(|it| it.peak_kib)),
    }
}

/// The median.
fn middle(figures: impl Iterator<Item = u64>) -> u64 {
    let mut figures: Vec<u64> = figures.collect();
    figures.sort_unstable();
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}

fn told(cost: Cost) -> String {
    let Cost { wall_ms, cpu_ms, peak_kib } = cost;
    let percent = 100.0 * ratio(cpu_ms, wall_ms);
    format!("{wall_ms:6} ms, {percent:3.0} % CPU, peak {} MiB", peak_kib / 1024)
}

fn ratio(of: u64, to: u64) -> f64 {
    of as f64 / to.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_taken_of_each_figure() {
        let cost = |wall_ms, cpu_ms, peak_kib| Cost { wall_ms, cpu_ms, peak_kib };
        assert_eq!(median(&[cost(1, 9, 5), cost(3, 7, 4), cost(2, 8, 6)]), cost(2, 8, 5));
    }

    #[test]
    fn a_line_of_measure_reads_back() {
        let want = Cost { wall_ms: 12, cpu_ms: 20, peak_kib: 3000 };
        assert_eq!(parse("12 20 3000\n"), Some(want));
        assert_eq!(parse("12 20\n"), None);
    }
}
