//! `bench off-cpu`: what it costs a switch of tasks to be measured, against perf's records of each switch.
//!
//! `cargo xtask bench off-cpu [RUNS]`, as root. On each CPU two processes hand a byte to and fro as fast
//! as they can (`perf bench sched pipe`), and each handing over is two switches: bare, with time off the
//! CPU recorded by us, and with each switch recorded by the newest perf and by the installed one. Two
//! figures count: how many switches there are in a second, which what the recorder itself does on these
//! CPUs lowers too, and the CPU time of a switch, which is of the tasks alone. What runs in the kernel is
//! the same whatever our recorder was built for.

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::thread;

use crate::peer;
use crate::shell::Failure;
use crate::shell::Shell;

use super::Cost;
use super::median;
use super::n_runs;
use super::parse;
use super::ratio;

/// How often each pair hands its byte over and back.
const N_HANDINGS: u64 = 200_000;

/// Whoever looks on, by which options.
struct Way {
    what: String,
    program: Option<PathBuf>,
    options: Vec<&'static str>,
}

/// Times each way in turns, and prints the rate and the cost of switches.
pub(super) fn run(shell: &Shell, args: &[String]) -> Result<(), Failure> {
    let n_runs = n_runs(args.first())?;
    let Some(peer) = peer::found(shell) else {
        return Err(Failure::with_hint("the peer is not here", "run `cargo xtask peer` first"));
    };
    shell.run(shell.cargo().args(["build", "--bin", "bpfperf"]))?;
    let ours = shell.target().join("debug/bpfperf");
    let folder = shell.target().join("bench");
    let cannot = |error| Failure::new(format!("cannot use `{}`: {error}", folder.display()));
    fs::create_dir_all(&folder).map_err(cannot)?;
    let data = folder.join("switches.data");
    let n_cpus = thread::available_parallelism().map_or(1, |it| it.get() as u64);
    let workload = workload(&peer, n_cpus);
    let ways = ways(&ours, &peer);
    let mut costs = vec![Vec::new(); ways.len()];
    let mut sizes = vec![0; ways.len()];
    for _ in 0..n_runs {
        for ((way, costs), size) in ways.iter().zip(&mut costs).zip(&mut sizes) {
            costs.push(cost(shell, way, &workload, &data)?);
            *size = way.program.as_ref().and(fs::metadata(&data).ok()).map_or(0, |it| it.len());
        }
    }
    let costs: Vec<Cost> = costs.iter().map(|it| median(it)).collect();
    let n_switches = n_cpus * N_HANDINGS * 2;
    let bare = costs.first().map_or(1, |it| it.wall_ms);
    for ((way, cost), size) in ways.iter().zip(&costs).zip(sizes) {
        println!(
            "{:<52} {:>7} switches a second, {:.2} of bare; {:>5} ns of CPU each, {:>6} KiB",
            way.what,
            n_switches * 1000 / cost.wall_ms.max(1),
            ratio(bare, cost.wall_ms),
            cost.cpu_ms * 1_000_000 / n_switches,
            size / 1024
        );
    }
    fs::remove_file(&data).map_err(cannot)
}

/// The first one is bare.
fn ways(ours: &Path, peer: &Path) -> Vec<Way> {
    let mut ways = vec![Way { what: "bare".to_owned(), program: None, options: Vec::new() }];
    let mut way = |name: &str, program: &Path, options: &[&'static str]| {
        let what = format!("{name} record {}", options.join(" "));
        ways.push(Way { what, program: Some(program.to_owned()), options: options.to_vec() });
    };
    way("bpfperf", ours, &["-e", "dummy", "--off-cpu"]);
    way("bpfperf", ours, &["-e", "dummy", "--off-cpu", "--user-callchains"]);
    way("bpfperf", ours, &["-e", "dummy", "--off-cpu", "-a"]);
    let installed = Path::new("/usr/bin/perf");
    for (name, perf) in [("newest perf", peer), ("installed perf", installed)] {
        if perf.is_file() {
            way(name, perf, &["-e", "sched:sched_switch", "-g", "-a"]);
        }
    }
    ways
}

/// A script in which a pair on each CPU hands over its byte so many times.
fn workload(perf: &Path, n_cpus: u64) -> String {
    let perf = perf.display();
    let pair = |cpu| format!("taskset -c {cpu} '{perf}' bench sched pipe -l {N_HANDINGS} & ");
    (0..n_cpus).map(pair).collect::<String>() + "wait"
}

/// What the workload takes, without whoever looks on.
fn cost(shell: &Shell, way: &Way, workload: &str, data: &Path) -> Result<Cost, Failure> {
    let us = std::env::current_exe();
    let us = us.map_err(|error| Failure::new(format!("cannot find this program: {error}")))?;
    let mut command = match &way.program {
        Some(program) => {
            let mut command = shell.command(program);
            command.args(["record", "-q", "-o"]).arg(data).args(&way.options).arg("--").arg(us);
            command
        }
        None => shell.command(us),
    };
    let line = shell.output(command.args(["measure", "sh", "-c", workload]))?;
    parse(&line).ok_or_else(|| Failure::new(format!("`measure` printed `{}`", line.trim_end())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cpu_has_its_pair() {
        let want = "taskset -c 0 '/p' bench sched pipe -l 200000 & \
                    taskset -c 1 '/p' bench sched pipe -l 200000 & wait";
        assert_eq!(workload(Path::new("/p"), 2), want);
    }
}
