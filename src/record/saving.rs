//! Which of the files that were mapped nobody could find when the recording is read, and what of
//! them goes into it.
//!
//! A file is *found* when its path leads to it in our own mount namespace, or to one with the same build
//! id. That is looked at when a file is met, again and again while the recording runs, and at its
//! end. One that is found is held open meanwhile, so that it can be saved when it is not found any
//! more; of one that is not found a skeleton is made at once, and the file is let go.

mod saver;

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::mpsc;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::SyncSender;
use std::sync::mpsc::TrySendError;
use std::time::Duration;
use std::time::Instant;

use nix::sys::eventfd::EfdFlags;
use nix::sys::eventfd::EventFd as Doorbell;

use crate::host::limits;
use crate::host::mapped::Root;
use crate::host::mapped::Sight;
use crate::perfdata::private::ClockReading;
use crate::perfdata::private::Message;
use crate::symbols::Tables;
use crate::units::Pid;

use super::mapped::Listener;
use super::mapped::Mapped;
use super::mapped::Met;
use super::plan::Request;
use saver::Saver;

/// The most files that are held open, and a quarter of those that still may be: programs and further
/// files of the recording take some, too.
const MOST_HELD: usize = 1024;

/// Something that a process has mapped.
#[derive(Debug)]
pub(super) enum Found {
    /// A file, and the root of whoever mapped it, unless that was gone.
    File(Mapped, File, Option<Root>),
    /// A file that was gone.
    Gone(Mapped),
    /// A process that makes code itself, and its files.
    Maker(Pid, Sight),
    /// So many mappings were not told of.
    Lost(u64),
}

/// What could not be saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileGaps {
    /// Files that were gone before anyone could take hold of them.
    pub n_gone: u64,
    /// Files for which there is no room.
    pub n_too_long: u64,
    /// Files, and processes that make code, of which so many were there that they were not watched.
    pub n_unwatched: u64,
    /// Mappings that nobody was told of, since there were so many at a time.
    pub n_lost: u64,
    /// Whether what was saved was not ready in time, so that nothing of it is in the recording.
    pub is_late: bool,
}

impl FileGaps {
    /// Notes why a file that is there is not saved.
    fn note(&mut self, error: &io::Error) {
        match error.kind() {
            io::ErrorKind::FileTooLarge => self.n_too_long += 1,
            _ => self.n_gone += 1,
        }
    }
}

/// What is told at the end of a file of the recording.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) messages: Vec<Message>,
    pub(super) gaps: FileGaps,
    /// The clocks at the start, and now.
    pub(super) readings: Vec<ClockReading>,
}

/// The threads that take hold of files and save them.
#[derive(Debug)]
pub(super) struct Saving {
    turns: SyncSender<Turn>,
    listener: Option<(Ended, Bell)>,
    /// What was met in the walk over what runs.
    met: Met,
    /// How many found no room in time.
    n_unheard: u64,
}

/// Has nothing more to come when a thread has ended.
type Ended = Receiver<()>;

/// The most that is on its way to the thread that saves: each may be an open file. Who has more waits.
const MOST_ON_THE_WAY: usize = 256;

/// How long the recorder waits for the threads at the most: a file system that does not answer is no reason
/// for a recording never to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Ends the thread that listens when it is dropped.
#[derive(Debug)]
struct Bell(Arc<Doorbell>);

impl Drop for Bell {
    fn drop(&mut self) {
        if let Err(errno) = self.0.write(1) {
            // A counter that is full rings as well.
            tracing::debug!(%errno, "stop listening to mappings");
        }
    }
}

/// What the thread that saves is told.
#[derive(Debug)]
enum Turn {
    Found(Found),
    /// A file of the recording ends.
    Tell(SyncSender<Outcome>),
}

impl Saving {
    /// Begins to take hold of what those map whom `request` watches; `None` where there can be no thread.
    pub(super) fn start(request: &Request, tables: Tables) -> Option<Self> {
        let most = limits::free_files().map_or(MOST_HELD, |it| it / 4);
        let most_held = most.min(MOST_HELD);
        let (turns, told) = mpsc::sync_channel(MOST_ON_THE_WAY.min(most_held / 4).max(1));
        let saver = Saver::new(tables, most_held);
        std::thread::Builder::new()
            .name("save-files".to_owned())
            .spawn(move || saver.run(&told))
            .inspect_err(|error| tracing::debug!(%error, "save files"))
            .ok()?;
        let listener = listen(Listener::open(request, most), &turns);
        Some(Self { turns, listener, met: Met::default(), n_unheard: 0 })
    }

    /// Takes hold of what ran before.
    pub(super) fn note(&mut self, mapped: Vec<Mapped>) {
        let until = Instant::now() + PATIENCE;
        for it in mapped {
            if let Some(found) = self.met.take(it)
                && !self.send(Turn::Found(found), until)
            {
                self.n_unheard += 1;
            }
        }
    }

    /// Hands `turn` to the thread that saves; whether it took it before the time was up.
    fn send(&self, turn: Turn, until: Instant) -> bool {
        let mut turn = turn;
        loop {
            turn = match self.turns.try_send(turn) {
                Ok(()) => return true,
                Err(TrySendError::Disconnected(_)) => return false,
                Err(TrySendError::Full(turn)) => turn,
            };
            if until <= Instant::now() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// No more is mapped that is recorded.
    pub(super) fn stop_listening(&mut self) {
        if let Some((ended, bell)) = self.listener.take() {
            drop(bell);
            // It sends nothing: it is over when there is nobody to send.
            let over = ended.recv_timeout(PATIENCE);
            tracing::debug!(?over, "listening to mappings");
        }
    }

    /// What is to be written of all files that were met so far.
    pub(super) fn tell(&self) -> Outcome {
        let (tell, told) = mpsc::sync_channel(1);
        let until = Instant::now() + PATIENCE;
        let is_heard = self.send(Turn::Tell(tell), until);
        let left = until.saturating_duration_since(Instant::now());
        let outcome = is_heard.then(|| told.recv_timeout(left).ok()).flatten();
        let mut outcome = outcome.unwrap_or_else(|| {
            let gaps = FileGaps { is_late: true, ..FileGaps::default() };
            Outcome { gaps, ..Outcome::default() }
        });
        outcome.gaps.n_unwatched += self.n_unheard;
        outcome
    }
}

fn listen(listener: Listener, turns: &SyncSender<Turn>) -> Option<(Ended, Bell)> {
    let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
    let bell = Bell(Arc::new(Doorbell::from_flags(flags).ok()?));
    let (stop, turns) = (Arc::clone(&bell.0), turns.clone());
    let (runs, ended) = mpsc::sync_channel(0);
    std::thread::Builder::new()
        .name("mapped-files".to_owned())
        .spawn(move || {
            listener.run(&stop, &mut |found| turns.send(Turn::Found(found)).is_ok());
            drop(runs);
        })
        .inspect_err(|error| tracing::debug!(%error, "listen to mappings"))
        .ok()?;
    Some((ended, bell))
}
