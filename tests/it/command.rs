//! The built program, run as a user runs it.

use std::ffi::OsStr;
use std::io::Write;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;

/// What a run of the program came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The program, apart from what a user's home and locale may hold.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bpfperf"));
    apart(&mut command).stdin(Stdio::null());
    command
}

/// `command` without what a user, or a distribution, may have set.
fn apart(command: &mut Command) -> &mut Command {
    for name in ["BPFPERF_LOG", "DEBUGINFOD_URLS", "PERF_BUILDID_DIR", "XDG_CACHE_HOME"] {
        command.env_remove(name);
    }
    command.env("HOME", "/nonexistent").env("LC_ALL", "C")
}

/// Runs the program.
pub(crate) fn run<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Ran {
    ran(&program().args(args).output().expect("the program runs"))
}

/// Runs the program with `stdin`.
pub(crate) fn run_with<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>, stdin: &[u8]) -> Ran {
    let mut command = program();
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program runs");
    let mut pipe = child.stdin.take().expect("stdin is a pipe");
    let stdin = stdin.to_vec();
    // It may end before it has read everything.
    let writer = std::thread::spawn(move || drop(pipe.write_all(&stdin)));
    let output = child.wait_with_output().expect("the program ends");
    writer.join().expect("the writer ends");
    ran(&output)
}

/// Runs a line of shell in which `$BPFPERF` is the program.
pub(crate) fn shell(line: &str) -> Ran {
    let mut command = Command::new("sh");
    command.args(["-c", line]).env("BPFPERF", env!("CARGO_BIN_EXE_bpfperf"));
    apart(&mut command);
    ran(&command.stdin(Stdio::null()).output().expect("a shell runs"))
}

fn ran(output: &Output) -> Ran {
    Ran {
        status: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: told(&output.stderr),
    }
}

/// What was told on stderr, but for which files lack symbols, and what to do about it: that depends on
/// the machine. `cli::what_lacks_symbols_is_told_with_what_it_costs` is about those two lines.
pub(crate) fn told(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let mut is_advice = false;
    let lines = text.split_inclusive('\n').filter(|line| {
        let is_lacking = line.starts_with("warning: no names for ");
        let is_of_it = is_lacking || is_advice && line.starts_with("hint: ");
        is_advice = is_lacking;
        !is_of_it
    });
    lines.collect()
}
