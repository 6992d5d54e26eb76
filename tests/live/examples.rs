//! The two example programs, as whoever copies them uses them.

use std::collections::HashMap;
use std::path::Path;

use crate::stage::Need;
use crate::stage::bpfperf;
use crate::stage::example;
use crate::stage::may_run;
use crate::stage::output_of;
use crate::stage::stdout_of;
use crate::stage::told;

/// The lines of `script` of what was recorded of `events` and `args`, and what the recorder said.
#[track_caller]
fn lines(events: &[String], args: &[&str], command: &str, fields: &str) -> (Vec<String>, String) {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("perf.data");
    let mut record = bpfperf();
    record.arg("record").arg("-o").arg(&file).args(args);
    record.args(events.iter().flat_map(|it| ["-e", it])).args(["--", "sh", "-c", command]);
    let output = output_of(&mut record);
    assert!(output.status.success(), "{}", told(&record, &output));
    let text = stdout_of(bpfperf().arg("script").arg("-i").arg(&file).args(["-F", fields]));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (text.lines().map(str::to_owned).collect(), said)
}

#[test]
fn slow_reads_are_kept_and_no_others() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf/slow_reads.bpf.c");
    // Three reads: two wait, the last one finds the end at once.
    let command = "(sleep 0.2; echo a; sleep 0.3; echo b) | cat";
    for path in [example("slow_reads"), source] {
        let event = format!("{}/vars.min_ns=100000000/", path.display());
        let (lines, said) = lines(&[event], &[], command, "comm,event");
        assert_eq!(lines.len(), 2, "{lines:#?}");
        assert!(
            lines
                .iter()
                .all(|it| it.trim_start().starts_with("cat ") && it.contains(" slow_read:"))
        );
        let warning = "`slow_read` decides for every recorder of `syscalls:sys_exit_read`";
        assert!(said.contains(warning), "{said}");
    }
}

/// The number behind `key=` in a line.
fn number(line: &str, key: &str) -> Option<u64> {
    let rest = line.split(key).nth(1)?.strip_prefix('=')?;
    rest.split(|it: char| !it.is_ascii_digit()).next()?.parse().ok()
}

/// The time of a line, in nanoseconds.
fn time(line: &str) -> u64 {
    let word = line.split_ascii_whitespace().find(|it| it.ends_with(':')).unwrap();
    let (seconds, rest) = word.trim_end_matches(':').split_once('.').unwrap();
    let rest: u64 = format!("{rest:0<9}").parse().unwrap();
    seconds.parse::<u64>().unwrap() * 1_000_000_000 + rest
}

#[test]
fn waits_for_a_cpu_are_those_that_the_scheduler_tells() {
    const MIN: u64 = 2_000_000;
    /// What may lie between the clocks of a tracepoint and of a program on it.
    const NEAR: u64 = 500_000;
    if !may_run(&[Need::Root]) {
        return;
    }
    let ours = format!("{}/vars.min_ns={MIN}/", example("run_queue").display());
    // Two that never sleep share a CPU.
    let hog = "exec taskset -c 0 timeout 0.7 sh -c 'echo hog $$ >&2; while :; do :; done'";
    let command = format!("({hog}) & ({hog}) & wait");
    let events = ["sched:sched_switch".to_owned(), ours];
    let (lines, said) = lines(&events, &["-a"], &command, "tid,time,event,trace,bpf-output");
    let hogs = said.lines().filter_map(|it| it.strip_prefix("hog ")?.parse().ok());
    let hogs: Vec<u64> = hogs.collect();
    assert_eq!(hogs.len(), 2, "{said}");
    // When each thread came and left, and whether it could go on.
    let mut left: HashMap<u64, (u64, bool)> = HashMap::new();
    let mut waited: HashMap<u64, u64> = HashMap::new();
    let (mut n_told, mut n_long) = (0, 0);
    for line in &lines {
        if line.contains("sched_switch:") {
            let (prev, next) =
                (number(line, "prev_pid").unwrap(), number(line, "next_pid").unwrap());
            left.insert(prev, (time(line), line.contains("prev_state=R")));
            match left.remove(&next) {
                Some((since, true)) if next != 0 => {
                    waited.insert(next, time(line) - since);
                    n_long += u32::from(hogs.contains(&next) && MIN + NEAR < time(line) - since);
                }
                _ => drop(waited.remove(&next)),
            }
        } else {
            // A thread that is dead by then has no number.
            let first = line.split_ascii_whitespace().next().unwrap();
            let Ok(tid) = first.parse::<u64>() else { continue };
            let wait = number(line, "waited_ns").unwrap();
            assert!(MIN <= wait, "{line}");
            // It tells as it leaves, maybe a little before the tracepoint does.
            // Others move between CPUs, whose records are told apart by their times alone.
            if let Some(&want) = waited.get(&tid).filter(|_| hogs.contains(&tid)) {
                n_told += 1;
                assert!(want.abs_diff(wait) < NEAR, "{line}: the scheduler says {want}");
            }
        }
    }
    // Those that still wait, or run, at the end are not told.
    assert!(n_long <= n_told + 6, "{n_long} long waits, {n_told} told");
    assert!(20 < n_told, "{n_told} told");
}
