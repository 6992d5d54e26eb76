//! `bench off-cpu`: what it costs a switch of tasks to be measured, against the newest perf's record of each.
//!
//! `cargo xtask bench off-cpu [RUNS]`, as root. Two processes on one CPU hand a byte to and fro, as fast as
//! they can (`perf bench sched pipe`), and each handing over is two switches: bare, with time off the CPU
//! recorded by us, and with each switch recorded by perf. What runs in the kernel is the same whatever
//! the recorder was built for.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::peer;
use crate::shell::Failure;
use crate::shell::Shell;

use super::middle;
use super::n_runs;
use super::ratio;

/// How often the byte is handed over.
const N_HANDINGS: u64 = 100_000;

/// Times each way in turns, and prints the cost of a switch.
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
    let off_cpu = ["record", "-q", "--off-cpu", "-e", "dummy"];
    let tracepoint = ["record", "-q", "-e", "sched:sched_switch", "-g"];
    let ways: [(&str, Option<(&Path, Vec<&str>)>); 5] = [
        ("bare", None),
        ("record --off-cpu", Some((&ours, off_cpu.to_vec()))),
        ("record --off-cpu -a", Some((&ours, [&off_cpu[..], &["-a"]].concat()))),
        ("perf record -e sched:sched_switch -g", Some((&peer, tracepoint.to_vec()))),
        (
            "perf record -e sched:sched_switch -g -a",
            Some((&peer, [&tracepoint[..], &["-a"]].concat())),
        ),
    ];
    let mut times = vec![Vec::new(); ways.len()];
    for _ in 0..n_runs {
        for ((_, recorder), times) in ways.iter().zip(&mut times) {
            let mut command = match recorder {
                Some((program, options)) => {
                    let mut command = shell.command(program);
                    command.args(options).arg("-o").arg(&data).arg("--");
                    command.arg("taskset");
                    command
                }
                None => shell.command("taskset"),
            };
            times.push(time(shell, command.args(["-c", "1"]).arg(&peer))?);
        }
    }
    let times: Vec<u64> = times.into_iter().map(|it| middle(it.into_iter())).collect();
    let bare = times.first().copied().unwrap_or_default();
    for ((what, _), us) in ways.iter().zip(&times) {
        // Microseconds of so many handings over, of two switches each.
        let ns = us * 1000 / (2 * N_HANDINGS);
        let per_second = 1_000_000_000 / ns.max(1);
        println!(
            "{what:<42} {ns:>6} ns a switch, {per_second:>7} a second, {:.2} of bare",
            ratio(*us, bare)
        );
    }
    fs::remove_file(&data).map_err(cannot)
}

/// Runs the workload behind `command`, and gives the microseconds that it says it took.
fn time(shell: &Shell, command: &mut Command) -> Result<u64, Failure> {
    let n_handings = N_HANDINGS.to_string();
    let said = shell.output(command.args(["bench", "sched", "pipe", "-l", &n_handings]))?;
    parse(&said).ok_or_else(|| Failure::new(format!("no time in\n{said}")))
}

/// The time in `     Total time: 1.065 [sec]`, in microseconds.
fn parse(said: &str) -> Option<u64> {
    let text = said.lines().find_map(|it| it.trim().strip_prefix("Total time: "))?;
    let (seconds, thousandths) = text.strip_suffix(" [sec]")?.split_once('.')?;
    let (seconds, thousandths): (u64, u64) = (seconds.parse().ok()?, thousandths.parse().ok()?);
    Some(seconds * 1_000_000 + thousandths * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_read_to_a_thousandth_of_a_second() {
        let said = "# Executed 100000 pipe operations between two processes\n\n     Total time: 1.065 [sec]\n";
        assert_eq!(parse(said), Some(1_065_000));
        assert_eq!(parse("Total time: x"), None);
    }
}
