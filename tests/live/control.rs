//! Sampling turned on and off while a recording runs, and recordings that end by themselves.

use std::fs;
use std::io::Read;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::process::Stdio;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::PollTimeout;
use nix::poll::poll;

use crate::stage::Need;
use crate::stage::bpfperf;
use crate::stage::demo_path;
use crate::stage::may_run;
use crate::stage::output_of;
use crate::stage::peer;
use crate::stage::stdout_of;

/// A recorder of one process that costs CPU, which writes to `recording`.
fn record(recording: &Path, args: &[&str], seconds: &str) -> Command {
    let mut record = bpfperf();
    record.args(["record", "-q", "-F", "1000", "-e", "cpu-clock", "-o"]).arg(recording).args(args);
    record.arg("--").arg(demo_path()).args(["spin", seconds]);
    record
}

/// The times of the samples, in seconds.
fn times(recording: &Path) -> Vec<f64> {
    let text = stdout_of(bpfperf().args(["script", "-F", "time", "-i"]).arg(recording));
    text.lines().map(|it| it.trim().trim_end_matches(':').parse().expect("a time")).collect()
}

#[test]
fn samples_lie_in_the_windows_alone() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    stdout_of(&mut record(&recording, &["-D", "200-700,2200-2700"], "3.2"));
    let times = times(&recording);
    assert!(20 < times.len(), "{times:?}");
    // Between the windows lie 1.5 s; a busy machine keeps a recorder from its CPU for less.
    let gaps = times.windows(2).filter(|it| 0.75 < it[1] - it[0]).count();
    assert_eq!(gaps, 1, "{times:?}");
}

#[test]
fn sampling_begins_and_ends_by_command() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name);
    for name in ["commands", "answers"] {
        nix::unistd::mkfifo(&path(name), nix::sys::stat::Mode::S_IRWXU).unwrap();
    }
    let control =
        format!("--control=fifo:{},{}", path("commands").display(), path("answers").display());
    let recording = path("perf.data");
    let mut recorder = record(&recording, &["-D", "-1", &control], "30").spawn().unwrap();
    let mut commands = fs::OpenOptions::new().write(true).open(path("commands")).unwrap();
    let mut answers = fs::OpenOptions::new().read(true).open(path("answers")).unwrap();
    let mut obey = |command: &str| {
        commands.write_all(command.as_bytes()).unwrap();
        let mut answer = [0; 5];
        answers.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"ack\n\0", "{command}");
    };
    obey("ping\n");
    let start = Instant::now();
    obey("enable\n");
    thread::sleep(Duration::from_millis(300));
    obey("disable cpu-clock\n");
    let longest = start.elapsed().as_secs_f64();
    thread::sleep(Duration::from_millis(500));
    obey("stop\n");
    let status = recorder.wait().unwrap();
    // The command was asked to end.
    assert_eq!(status.code(), Some(143));
    let times = times(&recording);
    assert!(20 < times.len(), "{}", times.len());
    assert!(times[times.len() - 1] - times[0] < longest, "{longest} {times:?}");
}

#[test]
fn a_recording_ends_at_its_greatest_size_and_bears_its_time_in_its_name() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let args = ["--max-size", "100K", "--timestamp-filename", "-F", "20000"];
    let mut record = bpfperf();
    record.args(["record", "-q", "-e", "cpu-clock", "-g", "-o"]).arg(&recording).args(args);
    record.arg("--").arg(demo_path()).args(["spin", "30"]);
    assert_eq!(output_of(&mut record).status.code(), Some(143));
    let files: Vec<_> = fs::read_dir(scratch.path()).unwrap().map(|it| it.unwrap()).collect();
    assert_eq!(files.len(), 1);
    let name = files[0].file_name().into_string().unwrap();
    let stamp = name.strip_prefix("perf.data.").unwrap();
    assert!(stamp.len() == 16 && stamp.bytes().all(|it| it.is_ascii_digit()), "{name}");
    let len = files[0].metadata().unwrap().len();
    assert!((100 << 10..10 << 20).contains(&len), "{len}");
}

#[test]
fn what_is_lost_makes_a_recording_fail_that_is_to_have_all() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let quiet = ["--fail-on-loss"];
    assert!(record(&recording, &quiet, "0.2").status().unwrap().success());
    // Rings of a page, and a stopped recorder that cannot drain them.
    let args = ["--fail-on-loss=0.1", "-m", "1", "-F", "10000"];
    let mut record = bpfperf();
    record.args(["record", "-e", "cpu-clock", "-g", "-o"]).arg(&recording).args(args);
    record.arg("--").arg("sh").args(["-c", "kill -STOP $PPID; \"$0\" spin 0.5; kill -CONT $PPID"]);
    record.arg(demo_path());
    let output = output_of(&mut record);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("% of the samples were lost\nhint: raise `-m`"), "{said}");
}

/// Whoever commands, at its end of pipes, fifos or a socket.
struct Driver {
    commands: fs::File,
    answers: fs::File,
    /// What the recorder is told of the other end.
    place: String,
    /// Which it inherits.
    _theirs: Vec<OwnedFd>,
}

impl Driver {
    fn pipes() -> Self {
        let (their_commands, commands) = nix::unistd::pipe().unwrap();
        let (answers, their_answers) = nix::unistd::pipe().unwrap();
        let place = format!("fd:{},{}", their_commands.as_raw_fd(), their_answers.as_raw_fd());
        let theirs = vec![their_commands, their_answers];
        Self { commands: commands.into(), answers: answers.into(), place, _theirs: theirs }
    }

    fn socket() -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        // A copy is not closed when another program is run.
        let theirs = nix::unistd::dup(&theirs).unwrap();
        let ours = OwnedFd::from(ours);
        let place = format!("fd:{0},{0}", theirs.as_raw_fd());
        let commands = ours.try_clone().unwrap().into();
        Self { commands, answers: ours.into(), place, _theirs: vec![theirs] }
    }

    fn fifos(folder: &Path) -> Self {
        let open = |name| {
            let path = folder.join(name);
            if !path.exists() {
                nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
            }
            fs::OpenOptions::new().read(true).write(true).open(path).unwrap()
        };
        let place = format!(
            "fifo:{},{}",
            folder.join("commands").display(),
            folder.join("answers").display()
        );
        let (commands, answers) = (open("commands"), open("answers"));
        Self { commands, answers, place, _theirs: Vec::new() }
    }

    /// Sends a line, and gives what comes back within some time, or at once if something does.
    fn send(&mut self, line: &str) -> String {
        self.commands.write_all(format!("{line}\n").as_bytes()).unwrap();
        let ms = if line == "ping" { 20_000_u16 } else { 2_000 };
        let mut fds = [PollFd::new(self.answers.as_fd(), PollFlags::POLLIN)];
        if poll(&mut fds, PollTimeout::from(ms)).unwrap() == 0 {
            return String::new();
        }
        let mut answer = [0; 64];
        let n = self.answers.read(&mut answer).unwrap();
        String::from_utf8_lossy(&answer[..n]).into_owned()
    }
}

/// What `recorder` answers to a script, and what it says.
fn converse(recorder: &Path, driver: &mut Driver, folder: &Path) -> (Vec<String>, String) {
    const LINES: [&str; 11] = [
        "ping",
        "enable",
        "disable",
        "enable task-clock:u",
        "enable nosuch",
        "evlist",
        "evlist -g",
        "evlist -F",
        "what now",
        "snapshot",
        "stop",
    ];
    let mut command = Command::new(recorder);
    command.args(["record", "-F", "99", "-D", "-1", "-e", "{cpu-clock,faults}", "-e"]);
    command.args(["task-clock:u", "-o"]).arg(folder.join("perf.data"));
    command.arg(format!("--control={}", driver.place)).arg("--").arg(demo_path());
    let command = command.args(["spin", "60"]).stdin(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let answers = LINES.iter().map(|it| driver.send(it)).collect();
    let output = child.wait_with_output().unwrap();
    (answers, String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn commands_are_answered_as_perf_answers_them_through_pipes_fifos_and_sockets() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let ours = Path::new(env!("CARGO_BIN_EXE_bpfperf"));
    let scratch = tempfile::tempdir().unwrap();
    let drivers = || [Driver::pipes(), Driver::socket(), Driver::fifos(scratch.path())];
    for (mut driver, mut other) in drivers().into_iter().zip(drivers()) {
        let (answers, said) = converse(ours, &mut driver, scratch.path());
        let n_answers = answers.iter().filter(|it| *it == "ack\n\0").count();
        assert_eq!(n_answers, answers.len() - 1, "{answers:?}");
        assert!(said.contains("\n{cpu-clock,faults}\ntask-clock:u\n"), "{said}");
        assert!(said.contains("\ncpu-clock: sample_freq=99\n"), "{said}");
        assert!(said.contains("warning: no event `nosuch` is recorded\n"), "{said}");
        assert!(said.contains("warning: `what now` is no command\n"), "{said}");
        let Some(perf) = peer() else { continue };
        let (theirs, said) = converse(&perf, &mut other, scratch.path());
        assert_eq!(answers, theirs, "{said}");
        assert!(said.contains("\n{cpu-clock,faults}\ntask-clock:u\n"), "{said}");
        assert!(said.contains("\ncpu-clock: sample_freq=99\n"), "{said}");
    }
}

#[test]
fn a_descriptor_that_nobody_handed_over_is_refused() {
    let mut record = bpfperf();
    record.args(["record", "--control=fd:999", "-o", "/dev/null", "--", "true"]);
    let output = output_of(&mut record);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    let want = "error: cannot open `fd:999` for control\n  because: EBADF: Bad file number\n";
    assert_eq!(said, want);
}
