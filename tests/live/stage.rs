//! What a live test plays on: the built programs, a scratch folder, the peer, and the rules of skipping.

use std::env;
use std::fmt::Write;
use std::fs;
use std::io::BufRead;
use std::io::BufReader;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;

/// What a test needs of the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Need {
    /// Opening events on every CPU and loading BPF programs.
    Root,
    /// Linux perf to compare with.
    Peer,
}

impl Need {
    /// What is missing of it, and the variable of the environment under which that is a failure.
    fn lack(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Root => (!nix::unistd::geteuid().is_root()).then_some(("root", "BPFPERF_LIVE")),
            Self::Peer => {
                peer().is_none().then_some(("a perf, as `cargo xtask peer` lays one", "CI"))
            }
        }
    }
}

/// Whether a test may go on: `false` is a skip, which has been told.
///
/// Under `BPFPERF_LIVE=1` nothing skips but for a peer that cannot be had, and in CI not even that.
#[track_caller]
pub(crate) fn may_run(needs: &[Need]) -> bool {
    let Some((lack, variable)) = needs.iter().find_map(|need| need.lack()) else { return true };
    let is_asked_for = env::var_os(variable).is_some_and(|it| !it.is_empty() && it != "0");
    assert!(!is_asked_for, "this test needs {lack}, and under {variable} it may not skip");
    println!("skipped: this test needs {lack}");
    false
}

/// The program under test.
pub(crate) fn bpfperf() -> Command {
    Command::new(env!("CARGO_BIN_EXE_bpfperf"))
}

/// The workload with the BPF program: see `bpf/demo.rs` for its arguments.
pub(crate) fn demo() -> Command {
    Command::new(demo_path())
}

/// Where the workload is built.
pub(crate) fn demo_path() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_bpfperf")).with_file_name("examples").join("demo")
}

/// The object of the example `bpf/NAME.bpf.c`.
pub(crate) fn example(name: &str) -> PathBuf {
    Path::new(env!("OUT_DIR")).join(name).with_extension("bpf.o")
}

/// The object of `tests/bpf/NAME.bpf.c`, `NAME.bpf.o`, compiled with clang for the scratch folder.
#[track_caller]
pub(crate) fn object(name: &str, scratch: &Path) -> PathBuf {
    object_with(name, &[], scratch)
}

/// As [`object`], with more arguments for clang, such as `-DNAME=VALUE`; the last `-target` counts.
#[track_caller]
pub(crate) fn object_with(name: &str, args: &[&str], scratch: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    let headers = tempfile::tempdir().unwrap();
    let folder = headers.path().join("bpf");
    fs::create_dir(&folder).unwrap();
    for (header, text) in &libbpf_rs::libbpf_sys::API_HEADERS {
        fs::write(folder.join(header), text).unwrap();
    }
    let object = scratch.join(name).with_extension("bpf.o");
    let mut clang = Command::new("clang");
    clang.args(["-g", "-O2", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas"]);
    clang.args(["-Wno-unused-parameter", "-D__TARGET_ARCH_x86", "-target", "bpf", "-I"]);
    clang.arg(headers.path()).arg("-I").arg(source.join("bpf")).args(args).arg("-c");
    clang.arg(source.join("tests/bpf").join(name).with_extension("bpf.c"));
    stdout_of(clang.arg("-o").arg(&object));
    object
}

/// The newest Linux perf, where it was laid.
pub(crate) fn peer() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_BIN_EXE_bpfperf")).ancestors().nth(2)?;
    let named = env::var_os("BPFPERF_PEER").map(PathBuf::from);
    [named, Some(target.join("peer/perf"))].into_iter().flatten().find(|it| it.is_file())
}

/// Runs a command to its end and gives what it wrote to stdout; a bad end fails the test.
#[track_caller]
pub(crate) fn stdout_of(command: &mut Command) -> String {
    let output = output_of(command);
    assert!(output.status.success(), "{}", told(command, &output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a command to its end, whatever that is.
#[track_caller]
pub(crate) fn output_of(command: &mut Command) -> Output {
    match command.stdin(Stdio::null()).output() {
        Ok(output) => output,
        Err(error) => panic!("cannot run {command:?}: {error}"),
    }
}

/// A command with how it ended, for a failure's message.
pub(crate) fn told(command: &Command, output: &Output) -> String {
    let mut text = format!("{command:?}: {}\n", output.status);
    for stream in [&output.stdout, &output.stderr] {
        writeln!(text, "{}", String::from_utf8_lossy(stream)).unwrap();
    }
    text
}

/// A child that ends when the test does: its stdin is a pipe of ours, and it is killed and reaped.
#[derive(Debug)]
pub(crate) struct Background {
    child: Child,
    /// The first line that it wrote.
    pub(crate) said: String,
}

impl Background {
    /// Starts a command and waits for its first line.
    #[track_caller]
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        Self { child, said: said.trim_end().to_owned() }
    }

    /// Closes its stdin and waits for its own end.
    pub(crate) fn let_go(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// What `script` prints, without the names of functions of shared libraries: where one has several, perf
/// may show another of them, and it gives what lies between functions to the one before.
pub(crate) fn without_names_of_libraries(text: &str) -> String {
    let line = |line: &str| {
        let cut = || {
            let (left, module) = line.rsplit_once(" (")?;
            let (before, symbol) = left.rsplit_once(' ')?;
            let is_name = symbol.contains('+') || symbol == "[unknown]";
            (is_name && module.contains(".so")).then(|| format!("{before} ({module}\n"))
        };
        cut().unwrap_or_else(|| format!("{line}\n"))
    };
    text.lines().map(line).collect()
}
