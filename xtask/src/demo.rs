//! `demo`: the product's main job, for real, on a workload that a BPF program slows down.

use std::fs;
use std::io::BufRead;
use std::io::BufReader;
use std::path::Path;
use std::path::PathBuf;
use std::process;
use std::process::Command;
use std::process::Stdio;
use std::sync::mpsc;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use nix::unistd::getegid;
use nix::unistd::geteuid;

use crate::setup;
use crate::shell::Failure;
use crate::shell::Privilege;
use crate::shell::Running;
use crate::shell::Shell;

/// The part of the BPF program that costs most, as `bpf/demo.bpf.c` names it.
const HOT: &str = "demo_hash";

/// How long the workload lives at most; it ends with us anyway.
const WORKLOAD_SECONDS: &str = "60";
const RECORDED_SECONDS: &str = "3";

/// How long loading a small program may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Sets up, builds, records, reports, cleans up.
pub(crate) fn run(shell: &Shell, _args: &[String]) -> Result<(), Failure> {
    let started = Instant::now();
    setup::run(shell, &[])?;
    let build = ["build", "--release", "--bin", "bpfperf", "--example", "demo"];
    shell.run(shell.cargo().args(build))?;

    let privilege = shell.privilege();
    match privilege {
        Privilege::Root => {}
        Privilege::Sudo => println!("demo: recording by `sudo -n`, which asks no password here"),
        Privilege::None => println!(
            "demo: not root, and `sudo -n` does not work, so this records what the kernel \
             lets user {} record",
            geteuid()
        ),
    }
    let folder = Folder::create(shell.target())?;
    let data = folder.0.join("perf.data");
    let bpf = record(shell, privilege, &data)?;
    let found = report(shell, &data)?;

    match (bpf, found) {
        (Ok(()), Some(row)) => {
            println!("\ndemo: the BPF program is in the profile: {}", squeeze(&row));
        }
        (Ok(()), None) => {
            return Err(Failure::new(format!("`{HOT}` ran, and the report does not name it")));
        }
        (Err(reason), _) => {
            println!(
                "\ndemo: the profile holds no BPF program, since none could be loaded: {reason}"
            );
            let how = match privilege {
                Privilege::Root | Privilege::Sudo => "which a container may withhold from root",
                Privilege::None => "so run this as root",
            };
            println!("hint: loading one needs CAP_BPF and CAP_PERFMON, {how}");
        }
    }
    println!("demo: done in {} s; nothing is left behind", started.elapsed().as_secs());
    Ok(())
}

/// Runs the workload and records it. The inner result says whether its BPF program was in place.
fn record(shell: &Shell, privilege: Privilege, data: &Path) -> Result<Result<(), String>, Failure> {
    let release = shell.target().join("release");
    let mut workload = shell.as_root(privilege, release.join("examples/demo"));
    workload.args(["run", WORKLOAD_SECONDS]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut workload = shell.spawn(&mut workload)?;
    let line = first_line(shell, &mut workload)?;
    println!("{line}");
    let bpf = match line.strip_prefix("not attached: ") {
        Some(reason) => Err(reason.to_owned()),
        None => Ok(()),
    };

    let record = |target: &[&str]| {
        let mut record = shell.as_root(privilege, release.join("bpfperf"));
        record.args(["record", "-g", "-o"]).arg(data).args(target);
        shell.status(record.args(["--", "sleep", RECORDED_SECONDS]))
    };
    let mut status = record(&["-a"])?;
    if !status.success() {
        println!(
            "demo: not every process can be recorded here, so this records the workload alone"
        );
        status = record(&["-p", &workload.0.id().to_string()])?;
    }
    workload.end();
    if !status.success() {
        return Err(Failure::new(format!("the recording ended with {status}")));
    }
    if privilege == Privilege::Sudo {
        let mut give = shell.as_root(privilege, "chown");
        shell.run(give.arg(format!("{}:{}", geteuid(), getegid())).arg(data))?;
    }
    Ok(bpf)
}

/// What a child says first.
fn first_line(shell: &Shell, child: &mut Running) -> Result<String, Failure> {
    let Some(stdout) = child.0.stdout.take() else {
        return Err(Failure::new("the workload has no stdout"));
    };
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                break;
            }
        }
    });
    let asked = Instant::now();
    while asked.elapsed() < PATIENCE {
        shell.go_on()?;
        match told.recv_timeout(Duration::from_millis(50)) {
            Ok(line) => return Ok(line),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::new("the workload ended before it began"));
            }
        }
    }
    Err(Failure::new(format!("the workload said nothing in {} s", PATIENCE.as_secs())))
}

/// Prints the report and the program's metadata, and gives the row of its hot function.
fn report(shell: &Shell, data: &Path) -> Result<Option<String>, Failure> {
    let bpfperf = |args: &[&str]| -> Command {
        let mut command = shell.command(shell.target().join("release/bpfperf"));
        command.args(args).arg("-i").arg(data);
        command
    };
    let flat = ["report", "--stdio", "--no-children", "-g", "none", "--percent-limit", "1"];
    let report = shell.output(&mut bpfperf(&flat))?;
    print!("{report}");
    let row = report.lines().find(|line| line.contains(HOT)).map(str::to_owned);
    if row.is_some() {
        let events = shell.output(&mut bpfperf(&["script", "--show-bpf-events"]))?;
        print!("{}", metadata(&events));
    }
    Ok(row)
}

/// The lines of `script` that tell what the demo's owner says of the program, once.
fn metadata(events: &str) -> String {
    let is_ours = |line: &&str| line.starts_with("PERF_RECORD_BPF_METADATA") && line.ends_with(HOT);
    let mut lines = events.lines().skip_while(|line| !is_ours(line));
    let title = lines.next();
    let entries = lines.take_while(|line| line.starts_with("  entry "));
    title.into_iter().chain(entries).flat_map(|line| [line, "\n"]).collect()
}

/// A row with its padding taken out.
fn squeeze(row: &str) -> String {
    row.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A folder that goes when its owner does.
struct Folder(PathBuf);

impl Folder {
    fn create(target: &Path) -> Result<Self, Failure> {
        let dir = target.join(format!("demo.{}", process::id()));
        match fs::create_dir_all(&dir) {
            Ok(()) => Ok(Self(dir)),
            Err(error) => Err(Failure::new(format!("cannot create `{}`: {error}", dir.display()))),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("warning: `{}` is left behind: {error}", self.0.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_that_of_the_demo_alone() {
        let events = "\
PERF_RECORD_BPF_METADATA prog bpf_prog_0_other
  entry 0:                owner = \"someone\"
PERF_RECORD_BPF_METADATA prog bpf_prog_1_demo_hash
  entry 0:                owner = \"bpfperf\"
  entry 1:              version = 1
demo 1 [000] 1.0: cpu-clock: 0 demo_hash
  entry 2:                  not = \"ours\"
PERF_RECORD_BPF_METADATA prog bpf_prog_1_demo_hash
  entry 0:                owner = \"once is enough\"
";
        let want = "\
PERF_RECORD_BPF_METADATA prog bpf_prog_1_demo_hash
  entry 0:                owner = \"bpfperf\"
  entry 1:              version = 1
";
        assert_eq!(metadata(events), want);
    }
}
