//! What turns sampling on and off while a recording runs: a schedule, and commands of somebody else.

use std::fmt;
use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::io::Read;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::Duration;

use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::PollTimeout;
use nix::poll::poll;

use crate::sys::descriptor;

use super::config::Delay;

/// Whether events sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sampling {
    /// They do.
    On,
    /// They do not.
    Off,
}

/// When sampling is to be turned on and off, in the time since the start.
#[derive(Clone, Debug, Default)]
pub(super) struct Schedule {
    /// The latest first.
    left: Vec<(Duration, Sampling)>,
}

impl Schedule {
    pub(super) fn new(delay: &Delay) -> Self {
        let mut left: Vec<_> = match delay {
            Delay::None | Delay::Forever => Vec::new(),
            Delay::For(time) => vec![(*time, Sampling::On)],
            Delay::Windows(windows) => {
                let both =
                    |it: &(Duration, Duration)| [(it.0, Sampling::On), (it.1, Sampling::Off)];
                windows.iter().flat_map(both).collect()
            }
        };
        left.reverse();
        Self { left }
    }

    /// When there is something to do next.
    pub(super) fn next(&self) -> Option<Duration> {
        self.left.last().map(|(at, _)| *at)
    }

    /// What is to be done by `now`, all earlier things left behind.
    pub(super) fn take(&mut self, now: Duration) -> Option<Sampling> {
        let mut due = None;
        while let Some((_, sampling)) = self.left.pop_if(|(at, _)| *at <= now) {
            due = Some(sampling);
        }
        due
    }
}

/// Where commands come from and answers go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlBy {
    /// Where commands come from.
    pub commands: End,
    /// Where answers go to; `None` for none.
    pub answers: Option<End>,
}

/// One end of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// A fifo.
    Fifo(PathBuf),
    /// A pipe or a socket that was handed over, by the number of its descriptor.
    Inherited(i32),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fifo(path) => path.display().fmt(f),
            Self::Inherited(number) => write!(f, "fd:{number}"),
        }
    }
}

/// What is to be told of the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Their names.
    Names,
    /// Their attributes, in full.
    Attributes,
    /// Their groups.
    Groups,
    /// How often they sample.
    Rates,
}

/// What somebody wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Sampling turned on or off, of one event or all.
    Turn(Sampling, Option<String>),
    /// What was recorded up to here in a file of its own.
    Snapshot,
    /// The recording to end.
    Stop,
    /// An answer.
    Ping,
    /// The events to be told.
    List(Told),
    /// Something that begins as a command does, and is none.
    Malformed(String),
    /// Something that is not known.
    Unknown(String),
}

/// The words that a command begins with: perf looks no further to know whether to answer.
///
/// Source: `evlist__ctlfd_recv()` in `tools/perf/util/evlist.c`.
const WORDS: [&str; 6] = ["enable", "disable", "snapshot", "evlist", "stop", "ping"];

impl Command {
    /// Of one line, as in perf-record(1) under `--control`.
    fn parse(line: &str) -> Self {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let name = || Some(rest.trim().to_owned()).filter(|it| !it.is_empty());
        match word {
            "enable" => Self::Turn(Sampling::On, name()),
            "disable" => Self::Turn(Sampling::Off, name()),
            "stop" => Self::Stop,
            "ping" => Self::Ping,
            "snapshot" => Self::Snapshot,
            "evlist" => match rest.trim() {
                "" => Self::List(Told::Names),
                "-v" => Self::List(Told::Attributes),
                "-g" => Self::List(Told::Groups),
                "-F" => Self::List(Told::Rates),
                _ => Self::Malformed(line.to_owned()),
            },
            _ if WORDS.iter().any(|it| line.starts_with(it)) => Self::Malformed(line.to_owned()),
            _ => Self::Unknown(line.to_owned()),
        }
    }
}

/// The answer, with the zero that perf sends along: those who command perf read it, too.
///
/// Source: `EVLIST_CTL_CMD_ACK_TAG` in `tools/perf/util/evlist.h`, and `evlist__ctlfd_ack()`.
const ACK: &[u8] = b"ack\n\0";

/// The most reads before the rings have their turn again: whoever writes without end gets no more.
const READS_MAX: u32 = 16;

/// The longest line of commands, in bytes; what is longer is no command.
const LINE_MAX: usize = 4096;

/// Somebody who commands.
#[derive(Debug)]
pub(super) struct Control {
    commands: File,
    answers: Option<File>,
    line: Vec<u8>,
    /// Whether nobody is left to command.
    has_ended: bool,
    /// Whether something came that is no command.
    was_mistaken: bool,
}

impl Control {
    /// Opens both ends.
    ///
    /// # Errors
    ///
    /// Which one could not be opened, and why.
    pub(super) fn open(by: &ControlBy) -> Result<Self, (End, io::Error)> {
        let open = |end: &End| {
            let opened = match end {
                // A fifo opened for both does not end with the first who wrote to it.
                End::Fifo(path) => {
                    let mut options = OpenOptions::new();
                    options.read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC);
                    options.open(path)
                }
                End::Inherited(number) => {
                    descriptor::inherited(*number).map(File::from).map_err(|it| it.errno.into())
                }
            };
            opened.map_err(|error| (end.clone(), error))
        };
        let commands = open(&by.commands)?;
        let answers = by.answers.as_ref().map(open).transpose()?;
        Ok(Self { commands, answers, line: Vec::new(), has_ended: false, was_mistaken: false })
    }

    /// What to poll, as long as there is something to come.
    pub(super) fn poll_at(&self) -> Option<BorrowedFd<'_>> {
        (!self.has_ended).then(|| self.commands.as_fd())
    }

    /// The commands that have come.
    pub(super) fn take(&mut self) -> Vec<Command> {
        let mut commands = Vec::new();
        let mut buffer = [0; 512];
        for _ in 0..READS_MAX {
            // What was handed over may be shared with others, who did not ask for reads that fail.
            if !is_ready(self.commands.as_fd(), PollFlags::POLLIN) {
                return commands;
            }
            let n = match (&self.commands).read(&mut buffer) {
                Ok(0) => {
                    self.has_ended = true;
                    return commands;
                }
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.has_ended = error.kind() != io::ErrorKind::WouldBlock;
                    return commands;
                }
            };
            for &byte in buffer.iter().take(n) {
                // perf ends a line by either.
                if byte == b'\n' || byte == 0 {
                    let line = String::from_utf8_lossy(&self.line).trim().to_owned();
                    let is_cut = LINE_MAX <= self.line.len();
                    self.line.clear();
                    if is_cut {
                        commands.push(Command::Unknown(line));
                    } else if !line.is_empty() {
                        commands.push(Command::parse(&line));
                    }
                } else if self.line.len() < LINE_MAX {
                    self.line.push(byte);
                }
            }
        }
        commands
    }

    /// Whether this is the first time that something came that is no command.
    pub(super) fn is_first_mistake(&mut self) -> bool {
        !std::mem::replace(&mut self.was_mistaken, true)
    }

    /// Answers that a command was done.
    pub(super) fn acknowledge(&mut self) {
        if let Some(answers) = &mut self.answers
            // Who does not read answers is not waited for.
            && is_ready(answers.as_fd(), PollFlags::POLLOUT)
            && let Err(error) = answers.write_all(ACK)
        {
            tracing::debug!(%error, "answer a command");
        }
    }
}

/// Whether a read of `fd`, or a write, is done at once.
fn is_ready(fd: BorrowedFd<'_>, what: PollFlags) -> bool {
    let mut fds = [PollFd::new(fd, what)];
    // At the end of a conversation a read is done at once, too.
    matches!(poll(&mut fds, PollTimeout::ZERO), Ok(1..))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use nix::sys::stat::Mode;

    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn windows_turn_sampling_on_and_off_and_what_is_late_is_done_once() {
        let windows = vec![(ms(10), ms(20)), (ms(30), ms(40))];
        let mut schedule = Schedule::new(&Delay::Windows(windows));
        assert_eq!((schedule.next(), schedule.take(ms(9))), (Some(ms(10)), None));
        assert_eq!(schedule.take(ms(12)), Some(Sampling::On));
        assert_eq!(schedule.next(), Some(ms(20)));
        assert_eq!(schedule.take(ms(35)), Some(Sampling::On));
        assert_eq!(schedule.take(ms(99)), Some(Sampling::Off));
        assert_eq!((schedule.next(), schedule.take(ms(100))), (None, None));
    }

    #[test]
    fn a_delay_begins_once_and_one_without_end_never() {
        let mut schedule = Schedule::new(&Delay::For(ms(5)));
        assert_eq!(schedule.take(ms(5)), Some(Sampling::On));
        assert_eq!(schedule.next(), None);
        assert_eq!(Schedule::new(&Delay::Forever).next(), None);
        assert_eq!(Schedule::new(&Delay::None).next(), None);
    }

    #[test]
    fn commands_come_in_lines_and_are_answered() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["commands", "answers"] {
            nix::unistd::mkfifo(&path(name), Mode::S_IRWXU).unwrap();
        }
        let fifo = |name| End::Fifo(path(name));
        let by = ControlBy { commands: fifo("commands"), answers: Some(fifo("answers")) };
        let mut control = Control::open(&by).unwrap();
        assert_eq!(control.take(), []);
        let mut writer = OpenOptions::new().write(true).open(path("commands")).unwrap();
        writer.write_all(b"enable\ndisable cpu-clock\npi").unwrap();
        let want = [
            Command::Turn(Sampling::On, None),
            Command::Turn(Sampling::Off, Some("cpu-clock".to_owned())),
        ];
        assert_eq!(control.take(), want);
        writer.write_all(b"ng\0stop\nwhat now\n").unwrap();
        let want = [Command::Ping, Command::Stop, Command::Unknown("what now".to_owned())];
        assert_eq!(control.take(), want);
        let long = format!("enable {}", "x".repeat(LINE_MAX));
        writer.write_all(long.as_bytes()).unwrap();
        writer.write_all(b"\nping\n").unwrap();
        let commands = control.take();
        assert!(matches!(&commands[..], [Command::Unknown(_), Command::Ping]), "{commands:?}");
        control.acknowledge();
        let mut answer = [0; 8];
        let n = control.answers.as_ref().unwrap().read(&mut answer).unwrap();
        assert_eq!(&answer[..n], b"ack\n\0");
        drop(writer);
        assert_eq!(control.take(), []);
        assert!(control.poll_at().is_some());
    }

    #[test]
    fn a_socket_takes_commands_and_answers() {
        let (mut theirs, ours) = UnixStream::pair().unwrap();
        let end = End::Inherited(ours.as_raw_fd());
        let by = ControlBy { commands: end.clone(), answers: Some(end) };
        let mut control = Control::open(&by).unwrap();
        drop(ours);
        assert_eq!(control.take(), []);
        theirs.write_all(b"snapshot\n").unwrap();
        assert_eq!(control.take(), [Command::Snapshot]);
        control.acknowledge();
        let mut answer = [0; 8];
        let n = theirs.read(&mut answer).unwrap();
        assert_eq!(&answer[..n], b"ack\n\0");
        drop(theirs);
        assert_eq!(control.take(), []);
        assert!(control.poll_at().is_none());
        control.acknowledge();
    }

    #[test]
    fn a_line_is_a_command_as_perf_takes_it() {
        let name = |name: &str| Some(name.to_owned());
        let malformed = |line: &str| Command::Malformed(line.to_owned());
        let cases = [
            ("enable cs:u", Command::Turn(Sampling::On, name("cs:u"))),
            ("evlist", Command::List(Told::Names)),
            ("evlist -v", Command::List(Told::Attributes)),
            ("evlist -g", Command::List(Told::Groups)),
            ("evlist -F", Command::List(Told::Rates)),
            ("evlist -vF", malformed("evlist -vF")),
            ("enablecs", malformed("enablecs")),
            ("go", Command::Unknown("go".to_owned())),
        ];
        for (line, want) in cases {
            assert_eq!(Command::parse(line), want, "{line}");
        }
    }

    #[test]
    fn what_cannot_be_opened_is_named() {
        let commands = End::Fifo(PathBuf::from("/nonexistent/fifo"));
        let by = ControlBy { commands, answers: None };
        let (path, error) = Control::open(&by).unwrap_err();
        assert_eq!((path, error.kind()), (by.commands, io::ErrorKind::NotFound));
    }
}
