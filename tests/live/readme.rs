//! The README's commands, run as they stand there.

use std::env;
use std::path::Path;
use std::process::Command;
use std::process::Stdio;

use crate::stage::Need;
use crate::stage::may_run;

/// The commands of the program in the README's shell blocks, without their comments.
fn commands(readme: &str) -> Vec<&str> {
    let blocks = readme.split("```").skip(1).step_by(2);
    let lines = blocks.filter_map(|block| block.strip_prefix("sh\n")).flat_map(str::lines);
    let commands = lines.map(|line| line.split(" #").next().unwrap_or(line).trim());
    commands.filter(|line| line.starts_with("bpfperf ")).collect()
}

#[test]
fn the_commands_of_the_readme_work() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let commands = commands(include_str!("../../README.md"));
    assert!(commands.len() >= 6, "only {commands:?}");
    let scratch = tempfile::tempdir().unwrap();
    let programs = Path::new(env!("CARGO_BIN_EXE_bpfperf")).parent().unwrap();
    let path = env::join_paths(
        [programs.to_owned()].into_iter().chain(env::split_paths(&env::var_os("PATH").unwrap())),
    );
    let path = path.unwrap();
    for command in commands {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(scratch.path()).env("PATH", &path);
        // A recorder whose stdout is a pipe writes the recording there.
        let status = shell.stdin(Stdio::null()).stdout(Stdio::null()).status().unwrap();
        assert!(status.success(), "`{command}`: {status}");
    }
}
