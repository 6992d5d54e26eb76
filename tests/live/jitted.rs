//! Code of JIT compilers as files, for those who know no dumps.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::saved::DUMPING;
use crate::saved::compile;
use crate::stage::Need;
use crate::stage::bpfperf;
use crate::stage::may_run;
use crate::stage::peer;
use crate::stage::stdout_of;

const NAMES: [&str; 2] = ["made_first(int)", "made_second(int)"];

/// The modules and shares of the two functions in `recording`, as `tool` reports them.
#[track_caller]
fn shares(tool: Command, dir: &Path, recording: &str) -> [(f64, String); 2] {
    let mut report = tool;
    report.args(["report", "--stdio", "-s", "dso,sym", "-i", recording]).current_dir(dir);
    let text = stdout_of(report.env("HOME", dir));
    NAMES.map(|name| {
        let row = text.lines().find(|it| it.ends_with(name)).unwrap_or_else(|| panic!("{text}"));
        let words: Vec<&str> = row.split_whitespace().collect();
        (words[0].trim_end_matches('%').parse().unwrap(), words[1].to_owned())
    })
}

#[track_caller]
fn check(tool: Command, dir: &Path, recording: &str) {
    let found = shares(tool, dir, recording);
    let sum: f64 = found.iter().map(|it| it.0).sum();
    let is_file = |it: &str| it.strip_prefix("jitted-").is_some_and(|it| it.contains(".so"));
    assert!(90.0 < sum && found.iter().all(|it| 20.0 < it.0 && is_file(&it.1)), "{found:?}");
    assert_ne!(found[0].1, found[1].1);
}

fn remove_dumps(dir: &Path) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|it| it == "dump") {
            fs::remove_file(path).unwrap();
        }
    }
}

#[test]
fn code_of_a_dump_becomes_files_that_everybody_reads() {
    if !may_run(&[Need::Root, Need::Peer]) || !cfg!(target_arch = "x86_64") {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path();
    compile(dir, "guest", DUMPING, &[]);
    let options = ["record", "-q", "-e", "cpu-clock:u", "-F", "2000"];
    let line = ["-o", "perf.data", "--", "./guest"];
    for options in [&options[..], &[&options[..], &["-k", "mono"]].concat()] {
        stdout_of(bpfperf().args(options).args(line).current_dir(dir));
        let inject = ["inject", "--jit", "-i", "perf.data", "-o", "files.data"];
        stdout_of(bpfperf().args(inject).current_dir(dir));
        // As a stream, too; the functions have their files already.
        let inject = ["inject", "-j", "-i", "perf.data"];
        let stream = bpfperf().args(inject).current_dir(dir).output().unwrap();
        assert!(stream.status.success());
        fs::write(dir.join("stream.data"), stream.stdout).unwrap();
        remove_dumps(dir);
        for recording in ["files.data", "stream.data"] {
            check(bpfperf(), dir, recording);
            if let Some(perf) = peer() {
                check(Command::new(perf), dir, recording);
            }
        }
    }
}

#[test]
fn files_that_perf_made_of_a_dump_are_read() {
    let Some(perf) = peer().filter(|_| may_run(&[Need::Root, Need::Peer])) else { return };
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path();
    compile(dir, "guest", DUMPING, &[]);
    let record =
        ["record", "-q", "-k", "mono", "-e", "cpu-clock:u", "-F", "2000", "-o", "perf.data"];
    stdout_of(Command::new(&perf).args(record).args(["--", "./guest"]).current_dir(dir));
    let inject = ["inject", "-j", "-i", "perf.data", "-o", "files.data"];
    stdout_of(Command::new(&perf).args(inject).current_dir(dir).env("HOME", dir));
    remove_dumps(dir);
    check(bpfperf(), dir, "files.data");
}
