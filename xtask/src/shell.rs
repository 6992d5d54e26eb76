//! Runs commands: prints each, waits for it, and ends it when we are asked to stop.

use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::ExitCode;
use std::process::ExitStatus;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use nix::sys::signal::Signal;
use nix::sys::signal::killpg;
use nix::unistd::Pid;
use nix::unistd::geteuid;
use signal_hook::consts::SIGHUP;
use signal_hook::consts::SIGINT;
use signal_hook::consts::SIGTERM;

/// How often a waiting loop looks up.
const TICK: Duration = Duration::from_millis(20);

/// How long a child may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// Why a chore did not end well.
#[derive(Debug)]
pub(crate) enum Failure {
    /// SIGINT, SIGTERM or SIGHUP came, or a child ended by one.
    Interrupted,
    /// A command ran and ended badly.
    Status {
        /// The command as it was printed.
        command: String,
        /// How it ended.
        status: ExitStatus,
    },
    /// Anything else: what could not be done, and what would help, if that is known.
    Told {
        /// What could not be done.
        what: String,
        /// What would help.
        hint: Option<String>,
    },
}

impl Failure {
    /// A failure with no known remedy.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self::Told { what: what.into(), hint: None }
    }

    /// A failure with a remedy.
    pub(crate) fn with_hint(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Told { what: what.into(), hint: Some(hint.into()) }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Interrupted => ExitCode::from(130),
            Self::Status { .. } | Self::Told { .. } => ExitCode::FAILURE,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted => write!(out, "error: interrupted"),
            Self::Status { command, status } => write!(out, "error: `{command}`: {status}"),
            Self::Told { what, hint: None } => write!(out, "error: {what}"),
            Self::Told { what, hint: Some(hint) } => write!(out, "error: {what}\nhint: {hint}"),
        }
    }
}

/// How commands that need the superuser can be run here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Privilege {
    /// We are root.
    Root,
    /// `sudo -n` works.
    Sudo,
    /// Neither.
    None,
}

/// Where commands run, and whether we were asked to stop.
#[derive(Debug)]
pub(crate) struct Shell {
    root: PathBuf,
    target: PathBuf,
    stop: Arc<AtomicBool>,
}

impl Shell {
    /// Takes over the signals that ask to stop, and finds the repository.
    pub(crate) fn new() -> Result<Self, Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&stop))
                .map_err(|error| Failure::new(format!("cannot handle signal {signal}: {error}")))?;
        }
        let manifest = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let manifest = manifest.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let root = manifest.parent().unwrap_or(Path::new(".")).to_owned();
        let target = env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
        Ok(Self { target: root.join(target), root, stop })
    }

    /// The repository.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Where cargo builds.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// A command run in the repository's root, that nobody answers: in a group of its own it could
    /// not read from the terminal.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root).stdin(Stdio::null());
        command
    }

    /// The cargo that runs us.
    pub(crate) fn cargo(&self) -> Command {
        self.command(env::var_os("CARGO").unwrap_or("cargo".into()))
    }

    /// A command run as root, where `privilege` gives a way.
    pub(crate) fn as_root(&self, privilege: Privilege, program: impl AsRef<OsStr>) -> Command {
        match privilege {
            Privilege::Root | Privilege::None => self.command(program),
            Privilege::Sudo => {
                let mut command = self.command("sudo");
                command.arg("-n").arg(program);
                command
            }
        }
    }

    /// Whether, and how, commands can be run as root.
    pub(crate) fn privilege(&self) -> Privilege {
        if geteuid().is_root() {
            return Privilege::Root;
        }
        let mut probe = self.command("sudo");
        probe.args(["-n", "true"]).stdin(Stdio::null()).stdout(Stdio::null());
        match probe.stderr(Stdio::null()).status() {
            Ok(status) if status.success() => Privilege::Sudo,
            Ok(_) | Err(_) => Privilege::None,
        }
    }

    /// Prints a command, runs it, and fails unless it ends well.
    pub(crate) fn run(&self, command: &mut Command) -> Result<(), Failure> {
        let shown = show(command);
        let status = self.status(command)?;
        if status.success() { Ok(()) } else { Err(Failure::Status { command: shown, status }) }
    }

    /// Prints a command, runs it, and gives its status.
    pub(crate) fn status(&self, command: &mut Command) -> Result<ExitStatus, Failure> {
        self.wait(&mut self.spawn(command)?)
    }

    /// Prints a command, runs it, and gives what it wrote to stdout; fails unless it ends well.
    pub(crate) fn output(&self, command: &mut Command) -> Result<String, Failure> {
        let shown = show(command);
        let mut child = self.spawn(command.stdout(Stdio::piped()))?;
        let reader =
            child.0.stdout.take().map(|stdout| thread::spawn(|| io::read_to_string(stdout)));
        let status = self.wait(&mut child)?;
        let text = match reader.map(thread::JoinHandle::join) {
            Some(Ok(Ok(text))) => text,
            Some(Ok(Err(error))) => {
                return Err(Failure::new(format!("cannot read the output of `{shown}`: {error}")));
            }
            Some(Err(_)) | None => String::new(),
        };
        if status.success() { Ok(text) } else { Err(Failure::Status { command: shown, status }) }
    }

    /// Prints a command and starts it.
    pub(crate) fn spawn(&self, command: &mut Command) -> Result<Running, Failure> {
        self.go_on()?;
        let shown = show(command);
        println!("+ {shown}");
        // A group of its own, so that what the child starts ends with it.
        match command.process_group(0).spawn() {
            Ok(child) => Ok(Running(child)),
            Err(error) => Err(Failure::new(format!("cannot run `{shown}`: {error}"))),
        }
    }

    /// Waits for a child's end, or ends it when we are asked to stop.
    pub(crate) fn wait(&self, child: &mut Running) -> Result<ExitStatus, Failure> {
        loop {
            match child.0.try_wait() {
                Ok(Some(status)) => {
                    self.go_on()?;
                    return Ok(status);
                }
                Ok(None) => {}
                Err(error) => {
                    return Err(Failure::new(format!("cannot wait for a child: {error}")));
                }
            }
            if self.go_on().is_err() {
                child.end();
                return Err(Failure::Interrupted);
            }
            thread::sleep(TICK);
        }
    }

    /// Fails when we were asked to stop.
    pub(crate) fn go_on(&self) -> Result<(), Failure> {
        if self.stop.load(Ordering::Relaxed) { Err(Failure::Interrupted) } else { Ok(()) }
    }
}

/// A child that does not outlive us.
#[derive(Debug)]
pub(crate) struct Running(pub(crate) Child);

impl Running {
    /// Ends the child and all that it started: closes its stdin and asks, then, after a time, kills.
    ///
    /// A child that runs as another user takes no signal of ours; what we start by `sudo` ends by
    /// itself when its stdin does.
    pub(crate) fn end(&mut self) {
        drop(self.0.stdin.take());
        let asked = Instant::now();
        if let Ok(pid) = i32::try_from(self.0.id()) {
            // It may be gone, or another user's: the wait below tells.
            killpg(Pid::from_raw(pid), Signal::SIGTERM).ok();
        }
        while matches!(self.0.try_wait(), Ok(None)) {
            if GRACE <= asked.elapsed() {
                self.0.kill().ok();
                break;
            }
            thread::sleep(TICK);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            self.end();
        }
    }
}

/// A command as one would type it, its own environment first.
fn show(command: &Command) -> String {
    let vars = command
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_string_lossy(), value?.to_string_lossy())))
        .map(|(name, value)| format!("{name}={}", quoted(&value)));
    let program = command.get_program().to_string_lossy();
    let program = Path::new(&*program)
        .file_name()
        .map_or(&*program, |name| if name == "cargo" { "cargo" } else { &program });
    let args = command.get_args().map(|arg| quoted(&arg.to_string_lossy()));
    vars.chain([quoted(program)]).chain(args).collect::<Vec<_>>().join(" ")
}

/// A word as a shell would take it back.
fn quoted(word: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_./=:,+@%".contains(it);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_one_would_type_it() {
        let mut command = Command::new("/home/me/.cargo/bin/cargo");
        command.args(["test", "--", "a b"]).env("BPFPERF_LIVE", "1");
        assert_eq!(show(&command), "BPFPERF_LIVE=1 cargo test -- 'a b'");
    }

    #[test]
    fn quotes_inside_a_word_survive() {
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("--exact=x"), "--exact=x");
    }
}
