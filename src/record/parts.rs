//! A recording in several files, one after the other, each of which can be read by itself.
//!
//! ```text
//!              a: what runs is looked at    b: the old file is finished
//!   old file   ... rounds, a                last round | lost, programs, features -> FILE.STAMP
//!   new file   of a what tells of tasks and programs      how things stood | of a | b | rounds ...
//! ```
//!
//! Meanwhile a thread drains the rings into memory. So nothing is lost, and nothing falls between:
//! whoever ends or begins while it is looked at who runs is told of in both files.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::io::IoSlice;
use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use crate::bpf::Programs;
use crate::events::Event;
use crate::host::kernel;
use crate::sys::clock::local_time;
use crate::units::LocalTime;

use super::before::Whom;
use super::begin::begin_squeezing;
use super::begin::walk;
use super::history::Kept;
use super::history::side_records;
use super::hop::Places;
use super::hop::Tally;
use super::note::Note;
use super::output::Output;
use super::outputs::Outputs;
use super::pump;
use super::rings::CpuRing;
use super::session::Session;
use super::sideband::Sideband;

/// How a recording is cut into files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// When the next one begins; besides, whenever somebody asks for it.
    pub at: SwitchAt,
    /// How many of them are kept; the oldest are deleted.
    pub most_files: Option<usize>,
    /// Events that begin the next one when they happen.
    pub triggers: Vec<Event>,
}

/// When the next file begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchAt {
    /// When somebody asks for it by `SIGUSR2` or by `snapshot`.
    Told,
    /// When the file has so many bytes.
    Bytes(u64),
    /// After so long.
    Every(Duration),
}

/// How long the thread that drains meanwhile sleeps: far less than a ring lasts.
const NAP: Duration = Duration::from_millis(2);

/// How long to wait for a name that is free: names have hundredths of a second.
const NEXT_NAME: Duration = Duration::from_millis(10);

/// How often to try.
const MOST_NAMES: u32 = 100;

/// The files of a recording that are finished, and when the next is due.
#[derive(Debug)]
pub(super) struct Finished {
    files: VecDeque<PathBuf>,
    most_files: usize,
    /// How many there were.
    pub(super) n_files: u64,
    /// When the next one was begun, and how long it was then.
    began: Instant,
    began_with: u64,
}

impl Finished {
    pub(super) fn new(parts: &Parts) -> Self {
        let most_files = parts.most_files.unwrap_or(usize::MAX);
        Self {
            files: VecDeque::new(),
            most_files,
            n_files: 0,
            began: Instant::now(),
            began_with: 0,
        }
    }

    /// The first file begins.
    pub(super) fn begin(&mut self, len: u64) {
        (self.began, self.began_with) = (Instant::now(), len);
    }

    /// Gives the finished file at `path` its name among the others, of which the oldest may have to
    /// go.
    pub(super) fn add(&mut self, path: &Path) -> io::Result<PathBuf> {
        let mut name = stamped(path);
        for _ in 0..MOST_NAMES {
            if !name.exists() {
                break;
            }
            std::thread::sleep(NEXT_NAME);
            name = stamped(path);
        }
        if name.exists() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        fs::rename(path, &name)?;
        self.n_files += 1;
        self.files.push_back(name.clone());
        while self.most_files < self.files.len()
            && let Some(oldest) = self.files.pop_front()
        {
            // Somebody may have moved it away.
            if let Err(error) = fs::remove_file(&oldest) {
                tracing::debug!(%error, path = %oldest.display(), "delete");
            }
        }
        Ok(name)
    }
}

/// The name of a file with the time of this moment appended: `.YYYYMMDDhhmmss` and hundredths.
pub fn stamped(path: &Path) -> PathBuf {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).ok().and_then(local_time);
    let mut name = path.as_os_str().to_owned();
    name.push(seconds.map_or_else(String::new, |it| stamp(&it, since.subsec_millis() / 10)));
    name.into()
}

fn stamp(time: &LocalTime, hundredths: u32) -> String {
    let LocalTime { year, month, day, weekday: _, hour, minute, second } = time;
    format!(".{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}{hundredths:02}")
}

impl Session<'_> {
    /// When the next file is due by the clock.
    pub(super) fn next_part_at(&self) -> Option<Instant> {
        match (&self.config.parts, &self.finished) {
            (Some(Parts { at: SwitchAt::Every(every), .. }), Some(finished)) => {
                finished.began.checked_add(*every)
            }
            _ => None,
        }
    }

    /// Whether the next file is due by the clock or by the length of this one.
    pub(super) fn is_part_due(&self, output: &Output) -> bool {
        match self.config.parts.as_ref().map(|it| it.at) {
            Some(SwitchAt::Bytes(bytes)) => {
                // What describes the start may be longer than that.
                let began_with = self.finished.as_ref().map_or(0, |it| it.began_with);
                began_with.saturating_add(bytes) <= output.len()
            }
            Some(SwitchAt::Every(_)) => self.next_part_at().is_some_and(|it| it <= Instant::now()),
            Some(SwitchAt::Told) | None => false,
        }
    }

    /// Finishes the file at `output`, and begins the next one in its place.
    ///
    /// # Errors
    ///
    /// What kept the old one from being finished or the new one from being begun: then the recording
    /// has to end.
    pub(super) fn switch(&mut self, output: &mut Output) -> io::Result<()> {
        let before = Instant::now();
        let mut next = output.create_next()?;
        begin_squeezing(self.config, &mut next).map_err(io::Error::other)?;
        // What is loaded by now is seen by both.
        let tables = self.sample_filters.tables();
        let sideband = self.has_sideband.then(|| Sideband::start(&self.request.online, tables));
        let sideband = sideband.and_then(|it| {
            it.map_err(|error| (self.tell)(&Note::NoSideband { why: error.to_string() })).ok()
        });
        let (next_start, mut meanwhile) = self.while_drained(Self::describe_next);
        let described = Instant::now();
        if let Some(off_cpu) = &self.off_cpu {
            off_cpu.mark();
        }
        let (latest, places) = (self.read_latest(), self.places());
        let Meanwhile { records, tally } = &mut meanwhile;
        self.outputs.round(&mut self.rings, records, tally, places, &pump::FINISHED_ROUND);
        self.tally.add(&meanwhile.tally);
        let of_both = side_records(&meanwhile.records);
        match &mut self.kept {
            Kept::All(_) => output.push_records(&[IoSlice::new(&meanwhile.records)]),
            Kept::Latest(history) => history.remember(&meanwhile.records),
        }
        self.write_latest(latest, output);
        self.write_sums(output);

        let old = std::mem::replace(output, next);
        let old_sideband = std::mem::replace(&mut self.sideband, sideband);
        let (part, meanwhile) =
            self.while_drained(|it| it.end_part(old, old_sideband.map(Sideband::stop)));
        let finished_at = Instant::now();
        self.tally = meanwhile.tally;
        match &mut self.kept {
            Kept::All(kept) => *kept = [of_both, meanwhile.records].concat(),
            Kept::Latest(latest) => {
                latest.remember(&of_both);
                latest.remember(&meanwhile.records);
            }
        }
        if let Some(error) = part.failed {
            return Err(error);
        }
        let NextStart { head, programs, next_message } = next_start;
        (self.programs, self.next_message) = (programs, next_message);
        self.survey();
        self.begin_runs();
        self.begin(output, &head);
        output.commit();
        // What has happened meanwhile has this file already.
        self.triggers.take();
        if let Some(finished) = &mut self.finished {
            finished.begin(output.len());
        }
        let (described, finished) = (described - before, finished_at - before);
        tracing::debug!(?described, ?finished, took = ?before.elapsed(), "next file");
        Ok(())
    }

    /// How things stand at the start of the next file; what is known for this one stays.
    fn describe_next(&mut self) -> NextStart {
        let mut notes = Vec::new();
        let next = self.programs.is_some().then(|| walk(&mut notes)).flatten();
        let programs = std::mem::replace(&mut self.programs, next);
        let next_message = self.next_message;
        let symbols = kernel::Symbols::open().ok();
        let head = self.describe_start(symbols, Whom::All, &mut notes);
        for note in &notes {
            // The same was told at the start.
            tracing::debug!(%note, "next file");
        }
        NextStart {
            head,
            programs: std::mem::replace(&mut self.programs, programs),
            next_message: std::mem::replace(&mut self.next_message, next_message),
        }
    }

    /// Does `work`, and takes what comes into the rings meanwhile.
    fn while_drained<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> (T, Meanwhile) {
        let places = self.places();
        let mut rings = std::mem::take(&mut self.rings);
        let mut outputs = std::mem::take(&mut self.outputs);
        let mut meanwhile = Meanwhile::default();
        let is_done = AtomicBool::new(false);
        let done = std::thread::scope(|scope| {
            scope.spawn(|| meanwhile.drain(&mut rings, &mut outputs, &is_done, places));
            // However the work ends, so that the scope does.
            let _told = Done(&is_done);
            work(self)
        });
        (self.rings, self.outputs) = (rings, outputs);
        (done, meanwhile)
    }
}

/// Tells that something is done when it is dropped.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// How things stand at the start of the next file.
struct NextStart {
    head: Vec<u8>,
    programs: Option<Programs>,
    next_message: u32,
}

/// What came while somebody was busy.
#[derive(Default)]
struct Meanwhile {
    records: Vec<u8>,
    tally: Tally,
}

impl Meanwhile {
    /// Takes what comes until told to stop.
    fn drain(
        &mut self,
        rings: &mut [CpuRing],
        outputs: &mut Outputs,
        is_done: &AtomicBool,
        places: Places,
    ) {
        loop {
            // Relaxed: the flag says nothing of other memory. Read first: a last round follows.
            let is_last = is_done.load(Ordering::Relaxed);
            let Self { records, tally } = self;
            outputs.round(rings, records, tally, places, &pump::FINISHED_ROUND);
            if is_last {
                return;
            }
            std::thread::sleep(NAP);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_sorts_as_time_does() {
        let (year, month, day, weekday) = (2026, 1, 2, 5);
        let time = LocalTime { year, month, day, weekday, hour: 3, minute: 4, second: 5 };
        assert_eq!(stamp(&time, 6), ".2026010203040506");
    }
}
