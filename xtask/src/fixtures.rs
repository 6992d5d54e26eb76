//! `fixtures` and `bless`: the recordings that tests read, and what perf says of them.
//!
//! `cargo xtask fixtures [--force] [NAME..]` records `tests/fixtures/recordings`, all or those named, and
//! writes those of `tests/fixtures/report` that [`made`] has.
//! A recording that is there is left alone unless `--force` is given, since tests hold each to its hash
//! and its counts, in `tests/it/fixture.rs`.

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;

use crate::made;
use crate::peer;
use crate::shell::Failure;
use crate::shell::Running;
use crate::shell::Shell;

const RECORDINGS: &str = "tests/fixtures/recordings";

/// Who records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recorder {
    /// The newest perf, which `peer` lays.
    Perf73,
    /// The perf that is installed, if it is that of Linux 6.1.
    Perf61,
    /// We.
    Bpfperf,
}

/// A BPF program that is loaded while a recording begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Program,
    Nothing,
}

/// How one recording is made.
struct Fixture {
    name: &'static str,
    recorder: Recorder,
    before: Before,
    /// What follows `record`, less the output; `-o -` is added for names that end in `-pipe`.
    args: &'static str,
    /// What is recorded, by the shell.
    workload: &'static str,
}

const SPIN: &str = "exec ./demo spin 0.2";
const COME_AND_GO: &str = "./demo run 0.2; ./demo spin 0.1";

const FIXTURES: [Fixture; 11] = [
    Fixture {
        name: "perf-7.3-one",
        recorder: Recorder::Perf73,
        before: Before::Nothing,
        args: "-N -F 99 -m 8 -e cpu-clock",
        workload: SPIN,
    },
    Fixture {
        name: "perf-7.3-two",
        recorder: Recorder::Perf73,
        before: Before::Nothing,
        args: "-N -F 99 -m 8 -e cpu-clock,page-faults -g",
        workload: SPIN,
    },
    Fixture {
        name: "perf-7.3-pipe",
        recorder: Recorder::Perf73,
        before: Before::Nothing,
        args: "-N -F 99 -m 8 -e cpu-clock",
        workload: SPIN,
    },
    Fixture {
        name: "perf-7.3-bpf-before",
        recorder: Recorder::Perf73,
        before: Before::Program,
        args: "-N -F 199 -m 8 -e cpu-clock -g",
        workload: SPIN,
    },
    Fixture {
        name: "perf-7.3-bpf-during",
        recorder: Recorder::Perf73,
        before: Before::Nothing,
        args: "-N -F 199 -m 8 -e cpu-clock",
        workload: COME_AND_GO,
    },
    Fixture {
        name: "perf-6.1-one",
        recorder: Recorder::Perf61,
        before: Before::Nothing,
        args: "-N -F 99 -m 8 -e cpu-clock -g",
        workload: SPIN,
    },
    Fixture {
        name: "perf-6.1-bpf-before",
        recorder: Recorder::Perf61,
        before: Before::Program,
        args: "-N -F 199 -m 8 -e cpu-clock,page-faults",
        workload: SPIN,
    },
    Fixture {
        name: "perf-6.1-pipe",
        recorder: Recorder::Perf61,
        before: Before::Nothing,
        args: "-N -F 99 -m 8 -e cpu-clock",
        workload: SPIN,
    },
    Fixture {
        name: "bpfperf-bpf",
        recorder: Recorder::Bpfperf,
        before: Before::Program,
        args: "-F 199 -m 8 -g -e cpu-clock,page-faults",
        workload: COME_AND_GO,
    },
    Fixture {
        name: "bpfperf-bill",
        recorder: Recorder::Bpfperf,
        before: Before::Program,
        args: "-F 199 -m 8 -g --bpf-stats -e cpu-clock",
        workload: COME_AND_GO,
    },
    Fixture {
        name: "bpfperf-pipe",
        recorder: Recorder::Bpfperf,
        before: Before::Nothing,
        args: "-F 99 -m 8 -e cpu-clock",
        workload: SPIN,
    },
];

/// What is asked of perf about each recording: nothing that depends on the machine that reads.
const SCRIPT: &str = "script -F -sym,-symoff,-dso --ns --no-inline \
                      --show-task-events --show-mmap-events --show-bpf-events -i";

/// Records what is not there yet, or all of it.
pub(crate) fn run(shell: &Shell, args: &[String]) -> Result<(), Failure> {
    let is_forced = args.iter().any(|arg| arg == "--force");
    let names: Vec<&String> = args.iter().filter(|arg| *arg != "--force").collect();
    let is_known = |name: &str| made::has(name) || FIXTURES.iter().any(|it| it.name == name);
    if let Some(name) = names.iter().find(|name| !is_known(name)) {
        return Err(Failure::new(format!("no fixture `{name}`")));
    }
    made::write(shell, &names, is_forced)?;
    let wanted: Vec<_> = FIXTURES
        .iter()
        .filter(|it| names.is_empty() || names.iter().any(|name| *name == it.name))
        .filter(|it| {
            let is_there = data(shell, it.name).exists();
            if is_there && !is_forced {
                println!("fixtures: `{}` is there; `--force` records it again", it.name);
            }
            is_forced || !is_there
        })
        .collect();
    if wanted.is_empty() {
        return Ok(());
    }
    shell.run(shell.cargo().args(["build", "--bin", "bpfperf", "--example", "demo"]))?;
    let stage = tempdir(shell)?;
    let outcome = shell
        .run(
            shell
                .command("strip")
                .arg("-o")
                .arg(stage.join("demo"))
                .arg(built(shell, "examples/demo")),
        )
        .and_then(|()| wanted.iter().try_for_each(|fixture| record(shell, &stage, fixture)));
    fs::remove_dir_all(&stage)
        .map_err(|error| Failure::new(format!("{}: {error}", stage.display())))?;
    outcome?;
    println!("fixtures: now give tests/it/fixture.rs the hashes and counts that its tests print");
    Ok(())
}

/// Asks perf again what it says of each recording, and has the tests do so with theirs.
pub(crate) fn bless(shell: &Shell, _args: &[String]) -> Result<(), Failure> {
    let perf = newest(shell)?;
    for Fixture { name, .. } in &FIXTURES {
        ask(shell, &perf, name)?;
    }
    let mut bless = shell.cargo();
    bless.args(["test", "--test", "it"]).env("BPFPERF_BLESS", "1").env("BPFPERF_PEER", perf);
    shell.run(&mut bless)
}

fn record(shell: &Shell, stage: &Path, fixture: &Fixture) -> Result<(), Failure> {
    let Fixture { name, recorder, before, args, workload } = fixture;
    let recorder = match recorder {
        Recorder::Perf73 => newest(shell)?,
        Recorder::Perf61 => installed(shell)?,
        Recorder::Bpfperf => built(shell, "bpfperf"),
    };
    let program = match before {
        Before::Nothing => None,
        Before::Program => {
            let mut program = Command::new("./demo");
            program.args(["attach-for", "20", "0"]).stdin(Stdio::piped()).current_dir(stage);
            let program: Running = shell.spawn(&mut program)?;
            // It is loaded in a few milliseconds; nothing goes wrong later than that.
            std::thread::sleep(std::time::Duration::from_secs(1));
            Some(program)
        }
    };
    let output = data(shell, name);
    let mut record = Command::new(recorder);
    record.arg("record").args(args.split_whitespace()).current_dir(stage).stdin(Stdio::null());
    if name.ends_with("-pipe") {
        let file = fs::File::create(&output);
        let file = file.map_err(|error| Failure::new(format!("{}: {error}", output.display())))?;
        record.args(["-o", "-"]).stdout(file);
    } else {
        record.arg("-o").arg(&output);
    }
    shell.run(record.args(["--", "sh", "-c", workload]))?;
    drop(program);
    // What recorders keep of the file before.
    fs::remove_file(output.with_extension("data.old")).ok();
    ask(shell, &newest(shell)?, name)
}

fn ask(shell: &Shell, perf: &Path, name: &str) -> Result<(), Failure> {
    let mut script = Command::new(perf);
    script.args(SCRIPT.split_whitespace()).arg(data(shell, name));
    let text = shell.output(&mut script)?;
    let path = data(shell, name).with_extension("txt");
    fs::write(&path, text).map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}

fn data(shell: &Shell, name: &str) -> PathBuf {
    shell.root().join(RECORDINGS).join(format!("{name}.data"))
}

fn built(shell: &Shell, program: &str) -> PathBuf {
    shell.target().join("debug").join(program)
}

fn newest(shell: &Shell) -> Result<PathBuf, Failure> {
    let lay = "run `cargo xtask peer` first";
    peer::found(shell).ok_or_else(|| Failure::with_hint("the peer is not here", lay))
}

/// The installed perf, which has to be of Linux 6.1.
fn installed(shell: &Shell) -> Result<PathBuf, Failure> {
    let version = shell.output(shell.command("perf").arg("--version"))?;
    if version.starts_with("perf version 6.1.") {
        return Ok("perf".into());
    }
    Err(Failure::new(format!("needs perf 6.1, and this is {}", version.trim_end())))
}

fn tempdir(shell: &Shell) -> Result<PathBuf, Failure> {
    let dir = shell.target().join("fixtures");
    let made = fs::create_dir_all(&dir);
    made.map(|()| dir).map_err(|error| Failure::new(format!("cannot make a folder: {error}")))
}
