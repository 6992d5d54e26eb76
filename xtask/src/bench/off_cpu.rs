//! `bench off-cpu`: what it costs a switch of tasks to be measured, against the newest perf's record of each.
//!
//! `cargo xtask bench off-cpu [RUNS]`, as root. Two processes on one CPU hand a byte to and fro, as fast as
//! they can (`perf bench sched pipe`), and each handing over is two switches: bare, with time off the CPU
//! recorded by us, and with each switch recorded by perf. What counts is the CPU time of the two, since what
//! is hooked into a switch is theirs; and how much there is to write. What runs in the kernel is the same
//! whatever the recorder was built for.

use std::fs;
use std::path::Path;

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
    let ways: [(&str, Option<(&Path, Vec<&str>)>); 6] = [
        ("bare", None),
        ("record --off-cpu", Some((&ours, off_cpu.to_vec()))),
        (
            "record --off-cpu --user-callchains",
            Some((&ours, [&off_cpu[..], &["--user-callchains"]].concat())),
        ),
        ("record --off-cpu -a", Some((&ours, [&off_cpu[..], &["-a"]].concat()))),
        ("perf record -e sched:sched_switch -g", Some((&peer, tracepoint.to_vec()))),
        (
            "perf record -e sched:sched_switch -g -a",
            Some((&peer, [&tracepoint[..], &["-a"]].concat())),
        ),
    ];
    let mut times = vec![Vec::new(); ways.len()];
    let mut sizes = vec![Vec::new(); ways.len()];
    let workload = format!(
        "taskset -c 1 '{}' bench sched pipe -l {N_HANDINGS} >/dev/null; times",
        peer.display()
    );
    for _ in 0..n_runs {
        for (((_, recorder), times), sizes) in ways.iter().zip(&mut times).zip(&mut sizes) {
            let mut command = match recorder {
                Some((program, options)) => {
                    let mut command = shell.command(program);
                    command.args(options).arg("-o").arg(&data).args(["--", "sh"]);
                    command
                }
                None => shell.command("sh"),
            };
            let said = shell.output(command.args(["-c", &workload]))?;
            let time = parse(&said).ok_or_else(|| Failure::new(format!("no time in\n{said}")))?;
            times.push(time);
            let size = fs::metadata(&data).map_or(0, |it| it.len());
            sizes.push(if recorder.is_some() { size } else { 0 });
        }
    }
    let times: Vec<u64> = times.into_iter().map(|it| middle(it.into_iter())).collect();
    let bare = times.first().copied().unwrap_or_default();
    for (((what, _), us), sizes) in ways.iter().zip(&times).zip(sizes) {
        // Of so many handings over, of two switches each.
        let ns = us * 1000 / (2 * N_HANDINGS);
        let kib = middle(sizes.into_iter()) / 1024;
        let to_bare = ratio(*us, bare);
        println!("{what:<42} {ns:>6} ns a switch, {to_bare:.2} of bare, {kib:>6} KiB");
    }
    fs::remove_file(&data).map_err(cannot)
}

/// The CPU time of all children in the second line of what `times` prints, in microseconds:
/// `0m0.110000s 0m0.470000s`.
fn parse(said: &str) -> Option<u64> {
    let (user, system) = said.lines().nth(1)?.split_once(' ')?;
    let time = |text: &str| -> Option<u64> {
        let (minutes, seconds) = text.strip_suffix('s')?.split_once('m')?;
        let (seconds, rest) = seconds.split_once('.')?;
        let micros: u64 = format!("{rest:0<6}").get(..6)?.parse().ok()?;
        let (minutes, seconds): (u64, u64) = (minutes.parse().ok()?, seconds.parse().ok()?);
        Some((minutes * 60 + seconds) * 1_000_000 + micros)
    };
    Some(time(user)? + time(system)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_that_of_the_children() {
        let said = "0m0.001000s 0m0.002000s\n0m0.110000s 1m0.47s\n";
        assert_eq!(parse(said), Some(60_580_000));
        assert_eq!(parse("0m0.001000s 0m0.002000s\n"), None);
    }
}
