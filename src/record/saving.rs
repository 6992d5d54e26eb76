//! Which of the files that were mapped nobody could find when the recording is read, and what of
//! them goes into it.
//!
//! A file is *found* when its path leads to it in our own mount namespace, or to one with the same build
//! id. That is looked at when a file is met, again and again while the recording runs, and at its
//! end. One that is found is held open meanwhile, so that it can be saved when it is not found any
//! more; of one that is not found a skeleton is made at once, and the file is let go.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::mpsc::SyncSender;
use std::sync::mpsc::TrySendError;
use std::time::Duration;
use std::time::Instant;

use nix::sys::eventfd::EfdFlags;
use nix::sys::eventfd::EventFd as Doorbell;
use nix::sys::signal::SigSet;
use object::read::ReadCache;

use crate::host::limits;
use crate::host::mapped;
use crate::host::mapped::Sight;
use crate::host::note;
use crate::perfdata::private::ClockReading;
use crate::perfdata::private::FileFacts;
use crate::perfdata::private::Inode;
use crate::perfdata::private::Message;
use crate::perfdata::private::SavedFile;
use crate::perfdata::private::digits;
use crate::symbols::NoSkeleton;
use crate::symbols::Tables;
use crate::symbols::is_dump;
use crate::symbols::skeleton;
use crate::units::BuildId;
use crate::units::Pid;

use super::clock;
use super::mapped::Listener;
use super::mapped::MOST_MET;
use super::mapped::Mapped;
use super::mapped::Met;
use super::plan::Request;

/// How often it is looked at whether files are still found.
const TICK: Duration = Duration::from_secs(1);

/// How many times as long as a look took the next one is put off.
const REST: u32 = 200;

/// The most files that are held open, and a quarter of those that still may be: programs and further
/// files of the recording take some, too.
const MOST_HELD: usize = 1024;

/// The most files of which it is known at the end whether they are still found, without holding them.
const MOST_UNHELD: usize = 1 << 16;

/// The most bytes of one file in a recording, compressed.
const MOST_OF_FILE: usize = 16 << 20;

/// The most bytes of all files in a recording, compressed.
const MOST_OF_ALL: usize = 128 << 20;

/// Something that a process has mapped.
#[derive(Debug)]
pub(super) enum Found {
    /// A file, unless it was gone.
    File(Mapped, Option<File>),
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
        let saver = Saver { tables, most_held, ..Saver::default() };
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

/// A file that was found when it was looked at last.
#[derive(Debug)]
struct Held {
    file: File,
    path: Vec<u8>,
    build_id: Option<BuildId>,
    inode: Inode,
}

/// A process that makes code itself.
#[derive(Debug)]
struct Maker {
    sight: Sight,
    /// Its map, once it was there: it may be deleted.
    map: Option<File>,
}

/// What the thread that saves knows.
#[derive(Debug)]
struct Saver {
    tables: Tables,
    most_held: usize,
    held: Vec<Held>,
    /// Path and inode of those that there is no room to hold.
    unheld: Vec<(Vec<u8>, u64)>,
    /// Those that were gone each time that they were met.
    gone: HashSet<Inode>,
    makers: BTreeMap<Pid, Maker>,
    /// What a JIT compiler writes while it runs, with the process.
    dumps: Vec<(Pid, Held)>,
    saved: Vec<SavedFile>,
    /// Where each is in `saved`.
    by_build_id: HashMap<BuildId, usize>,
    n_bytes: usize,
    /// The clocks at the start.
    readings: Vec<ClockReading>,
    gaps: FileGaps,
}

impl Default for Saver {
    fn default() -> Self {
        Self {
            tables: Tables::Names,
            most_held: MOST_HELD,
            held: Vec::new(),
            unheld: Vec::new(),
            gone: HashSet::new(),
            makers: BTreeMap::new(),
            dumps: Vec::new(),
            saved: Vec::new(),
            by_build_id: HashMap::new(),
            n_bytes: 0,
            readings: Vec::new(),
            gaps: FileGaps::default(),
        }
    }
}

impl Saver {
    fn run(mut self, turns: &Receiver<Turn>) {
        // Signals are for the thread that decides what they mean.
        if let Err(errno) = SigSet::all().thread_block() {
            tracing::debug!(%errno, "save files");
        }
        self.readings.extend(clock::moment());
        let mut next_look = Instant::now() + TICK;
        loop {
            match turns.recv_timeout(next_look.saturating_duration_since(Instant::now())) {
                Ok(Turn::Found(found)) => self.take(found),
                Ok(Turn::Tell(tell)) => {
                    // Where nobody listens any more the recording has failed, which is told elsewhere.
                    let _heard = tell.send(self.tell());
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let now = Instant::now();
            if next_look <= now {
                self.look();
                next_look = now + TICK.max(now.elapsed() * REST);
            }
        }
    }

    fn take(&mut self, found: Found) {
        match found {
            Found::Maker(pid, sight) => {
                // Each takes several files.
                if self.makers.len() < self.most_held / 4 {
                    self.makers.insert(pid, Maker { sight, map: None });
                } else {
                    self.gaps.n_unwatched += 1;
                }
            }
            Found::Lost(n_lost) => self.gaps.n_lost = self.gaps.n_lost.saturating_add(n_lost),
            Found::File(mapped, None) => {
                let inode = mapped.inode();
                let path = mapped.mapping.path;
                if mapped::seems_found(&path, mapped.mapping.inode) {
                    return;
                }
                tracing::debug!(path = %String::from_utf8_lossy(&path), "gone");
                let is_full = MOST_MET <= self.gone.len();
                self.gaps.n_gone += u64::from(is_full || self.gone.insert(inode));
            }
            Found::File(mapped, Some(file)) => {
                let build_id = file.try_clone().ok().and_then(note::of_file);
                let inode = mapped.inode();
                if self.gone.remove(&inode) {
                    self.gaps.n_gone = self.gaps.n_gone.saturating_sub(1);
                }
                let held = Held { file, path: mapped.mapping.path, build_id, inode };
                if is_dump(&held.path) {
                    if self.dumps.len() < self.most_held / 4 {
                        self.dumps.push((mapped.pid, held));
                    } else {
                        self.gaps.n_unwatched += 1;
                    }
                } else if !held.is_found() {
                    self.save(&held);
                } else if self.held.len() < self.most_held {
                    self.held.push(held);
                } else if self.unheld.len() < MOST_UNHELD {
                    self.unheld.push((held.path, mapped.mapping.inode));
                } else {
                    self.gaps.n_unwatched += 1;
                }
            }
        }
    }

    /// Looks whether files are still found, and processes there.
    fn look(&mut self) {
        let (found, gone) = std::mem::take(&mut self.held).into_iter().partition(Held::is_found);
        self.held = found;
        let gone: Vec<Held> = gone;
        for held in &gone {
            self.save(held);
        }
        let mut ended = Vec::new();
        for (&pid, maker) in &mut self.makers {
            if maker.map.is_none() {
                maker.map = maker.sight.open_perf_map().ok();
            }
            if !Path::new(&format!("/proc/{pid}")).exists() {
                ended.push(pid);
            }
        }
        for pid in ended {
            let Some(maker) = self.makers.remove(&pid) else { continue };
            match maker.saved(pid) {
                Ok(Some(map)) => {
                    let _place = self.add(map);
                }
                Ok(None) => {}
                Err(error) => self.gaps.note(&error),
            }
        }
    }

    /// Saves what names and unwinds the addresses of a file that is found no more.
    fn save(&mut self, held: &Held) {
        // Containers of one image have files of the same content.
        if let Some(known) = held.build_id.and_then(|it| self.by_build_id.get(&it)) {
            self.saved.get_mut(*known).into_iter().for_each(|it| it.facts.inodes.push(held.inode));
            return;
        }
        let Ok(file) = held.file.try_clone() else { return };
        match skeleton(&ReadCache::new(file), self.tables, SavedFile::MOST_BYTES) {
            Ok(content) => {
                let facts = held.facts(FileFacts::ELF);
                if let (Some(idx), Some(id)) = (self.put(facts, &content), held.build_id) {
                    self.by_build_id.insert(id, idx);
                }
            }
            Err(NoSkeleton::TooLong) => self.gaps.n_too_long += 1,
            Err(error) => tracing::debug!(%error, "nothing to save"),
        }
    }

    fn put(&mut self, facts: FileFacts, content: &[u8]) -> Option<usize> {
        let saved = SavedFile::new(facts, content)
            .inspect_err(|error| tracing::debug!(%error, "compress a file"))
            .ok()?;
        self.add(saved)
    }

    /// Adds a file, if there is room; returns where it is.
    fn add(&mut self, saved: SavedFile) -> Option<usize> {
        let len = saved.compressed.len();
        if MOST_OF_FILE < len || MOST_OF_ALL < self.n_bytes + len {
            self.gaps.n_too_long += 1;
            return None;
        }
        self.n_bytes += len;
        self.saved.push(saved);
        Some(self.saved.len() - 1)
    }

    fn tell(&mut self) -> Outcome {
        self.look();
        let mut all = self.saved.clone();
        let mut gaps = self.gaps;
        // What goes on to be written is as of now.
        let maps = self.makers.iter().map(|(pid, it)| it.saved(*pid));
        let dumps = self.dumps.iter().filter(|(_, it)| !it.is_found() || !it.is_believed());
        let dumps = dumps.map(|(pid, it)| {
            let content = mapped::whole(&it.file)?;
            let facts = FileFacts { pid: pid.0, ..it.facts(FileFacts::JITDUMP) };
            SavedFile::new(facts, &content).map(Some)
        });
        for saved in maps.chain(dumps) {
            match saved {
                Ok(saved) => all.extend(saved),
                Err(error) => gaps.note(&error),
            }
        }
        let is_gone = |it: &&(Vec<u8>, u64)| !mapped::seems_found(&it.0, it.1);
        gaps.n_unwatched += self.unheld.iter().filter(is_gone).count() as u64;
        let mut left = MOST_OF_ALL;
        all.retain(|it| {
            let len = it.compressed.len();
            let fits = len <= MOST_OF_FILE && len <= left;
            left -= if fits { len } else { 0 };
            gaps.n_too_long += u64::from(!fits);
            fits
        });
        tracing::debug!(n_files = all.len(), n_held = self.held.len(), ?gaps, "saved");
        let messages = all.into_iter().map(Message::File).collect();
        let readings = self.readings.iter().copied().chain(clock::moment()).collect();
        Outcome { messages, gaps, readings }
    }
}

impl Held {
    fn is_found(&self) -> bool {
        mapped::is_found(&self.path, &self.file, self.build_id)
    }

    /// Whether a reader believes it where it lies: of what others wrote only the process that mapped it
    /// says that it tells of its code.
    fn is_believed(&self) -> bool {
        mapped::is_own(&self.file)
    }

    fn facts(&self, what: &str) -> FileFacts {
        FileFacts {
            what: what.to_owned(),
            path: String::from_utf8_lossy(&self.path).into_owned(),
            build_id: self.build_id.map(|it| digits(it.as_bytes())),
            inodes: vec![self.inode],
            ..FileFacts::default()
        }
    }
}

impl Maker {
    /// The map as it is, or was before it was deleted. In a container one that is not there is none
    /// later, whatever is at its path for others; nor is one that is there and somebody else's, or older
    /// than the process. An empty one says so.
    fn saved(&self, pid: Pid) -> io::Result<Option<SavedFile>> {
        let now = self.sight.open_perf_map();
        let is_others = now.as_ref().is_err_and(|it| it.kind() != io::ErrorKind::NotFound);
        let (content, modified_ns) = match now.as_ref().ok().or(self.map.as_ref()) {
            // What is written in between counts as later than it is known to be.
            Some(map) => (mapped::whole(map)?, mapped::written(map)),
            None if is_others || self.sight.is_foreign() => (Vec::new(), 0),
            None => return Ok(None),
        };
        let (what, path) = (FileFacts::PERF_MAP.to_owned(), self.sight.perf_map_path());
        let facts = FileFacts { what, path, pid: pid.0, modified_ns, ..FileFacts::default() };
        SavedFile::new(facts, &content).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::PathBuf;

    use super::*;
    use crate::host::process::Mapping;
    use crate::units::Addr;

    /// A copy of this very program, mapped by nobody, as it is found.
    fn found(path: &Path, inode: u64) -> Found {
        let mapping = Mapping {
            start: Addr(0x1000),
            end: Addr(0x2000),
            offset: 0,
            prot: 5,
            flags: 2,
            device: (8, 1),
            inode,
            path: path.as_os_str().as_bytes().to_vec(),
        };
        let mapped = Mapped { pid: Pid(7), mapping, generation: 3 };
        Found::File(mapped, File::open(path).ok())
    }

    fn copied(dir: &Path, name: &str, from: &str) -> PathBuf {
        let path = dir.join(name);
        fs::copy(from, &path).unwrap();
        path
    }

    fn files(outcome: &Outcome) -> Vec<&SavedFile> {
        let all = outcome.messages.iter();
        all.filter_map(|it| if let Message::File(file) = it { Some(file) } else { None }).collect()
    }

    #[test]
    fn what_is_found_is_left_and_what_goes_is_saved_once() {
        let dir = tempfile::tempdir().unwrap();
        let [a, b, c] = ["a", "b", "c"].map(|it| copied(dir.path(), it, "/bin/sh"));
        let mut saver = Saver::default();
        for (path, inode) in [(&a, 1), (&b, 2), (&c, 3)] {
            saver.take(found(path, inode));
        }
        assert_eq!((files(&saver.tell()).len(), saver.held.len()), (0, 3));
        fs::remove_file(&a).unwrap();
        // Another program comes in its place.
        fs::remove_file(&b).unwrap();
        copied(dir.path(), "b", "/bin/true");
        let outcome = saver.tell();
        let [file] = files(&outcome)[..] else { panic!("{outcome:?}") };
        assert_eq!(file.facts.path, a.to_str().unwrap());
        let inode = |ino| Inode { maj: 8, min: 1, ino, generation: 3 };
        assert_eq!(file.facts.inodes, [inode(1), inode(2)]);
        assert!(file.facts.build_id().is_some());
        let own = fs::read("/bin/sh").unwrap();
        let content = file.content().unwrap();
        assert_eq!(content, skeleton(&*own, Tables::Names, u64::MAX).unwrap());
        assert_eq!((saver.held.len(), outcome.gaps), (1, FileGaps::default()));
        // Each file of a recording in several has it.
        assert_eq!(files(&saver.tell()).len(), 1);
    }

    #[test]
    fn what_was_gone_is_counted_unless_it_is_there_for_others() {
        let dir = tempfile::tempdir().unwrap();
        let mut saver = Saver::default();
        saver.take(found(&dir.path().join("none"), 5));
        assert_eq!(saver.gaps, FileGaps { n_gone: 1, ..FileGaps::default() });
        let there = copied(dir.path(), "there", "/bin/sh");
        let inode = {
            use std::os::unix::fs::MetadataExt as _;
            fs::metadata(&there).unwrap().ino()
        };
        let Found::File(mapped, _) = found(&there, inode) else { unreachable!() };
        saver.take(Found::File(mapped, None));
        assert_eq!(saver.gaps.n_gone, 1);
        // The same file, once more, and then by somebody who is still there.
        saver.take(found(&dir.path().join("none"), 5));
        assert_eq!(saver.gaps.n_gone, 1);
        saver.take(found(&there, 5));
        assert_eq!(saver.gaps.n_gone, 0);
    }

    #[test]
    fn there_is_room_for_so_much_and_no_more() {
        let facts = |pid| FileFacts { pid, ..FileFacts::default() };
        let file = |pid, len| SavedFile { facts: facts(pid), compressed: vec![0; len] };
        let mut saver = Saver::default();
        assert_eq!(saver.add(file(1, MOST_OF_FILE + 1)), None);
        for pid in 0..8 {
            assert!(saver.add(file(pid, MOST_OF_FILE)).is_some());
        }
        assert_eq!(saver.add(file(9, 1)), None);
        let outcome = saver.tell();
        assert_eq!((files(&outcome).len(), outcome.gaps.n_too_long), (8, 2));
    }

    #[test]
    fn what_is_not_watched_and_what_is_lost_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        let mut saver = Saver { most_held: 4, ..Saver::default() };
        for n in 0..7 {
            let path = copied(dir.path(), &format!("f{n}"), "/bin/true");
            let ino = std::os::unix::fs::MetadataExt::ino(&fs::metadata(&path).unwrap());
            saver.take(found(&path, ino));
            saver.take(found(&copied(dir.path(), &format!("jit-{n}.dump"), "/bin/true"), 10 + n));
        }
        let own = || Sight::of(Pid(std::process::id().cast_signed())).unwrap();
        saver.take(Found::Maker(Pid(1), own()));
        saver.take(Found::Maker(Pid(2), own()));
        saver.take(Found::Lost(5));
        // A dump that has become longer than is kept.
        let dump = File::options().write(true).open(dir.path().join("jit-0.dump")).unwrap();
        dump.set_len((64 << 20) + 1).unwrap();
        fs::remove_file(dir.path().join("jit-0.dump")).unwrap();
        // It goes while nobody holds it.
        fs::remove_file(dir.path().join("f6")).unwrap();
        let want =
            FileGaps { n_unwatched: 1 + 6 + 1, n_lost: 5, n_too_long: 1, ..FileGaps::default() };
        assert_eq!(saver.tell().gaps, want);
    }

    #[test]
    fn a_thread_that_never_answers_is_not_waited_for() {
        let (turns, _nobody_listens) = mpsc::sync_channel(1);
        let saving = Saving { turns, listener: None, met: Met::default(), n_unheard: 0 };
        assert!(saving.send(Turn::Found(Found::Lost(1)), Instant::now()));
        assert!(!saving.send(Turn::Found(Found::Lost(1)), Instant::now()));
    }

    #[test]
    fn a_dump_of_another_user_is_saved_though_it_is_found() {
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("jit-7.dump");
        fs::write(&path, "some").unwrap();
        let mut saver = Saver::default();
        saver.take(found(&path, 5));
        assert!(files(&saver.tell()).is_empty());
        std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
        assert_eq!(files(&saver.tell()).len(), 1);
    }

    #[test]
    fn a_dump_is_as_it_was_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("jit-7.dump");
        fs::write(&path, "some").unwrap();
        let mut saver = Saver::default();
        saver.take(found(&path, 5));
        assert!(files(&saver.tell()).is_empty());
        fs::write(&path, "some more").unwrap();
        fs::remove_file(&path).unwrap();
        let outcome = saver.tell();
        let [file] = files(&outcome)[..] else { panic!("{outcome:?}") };
        assert_eq!((&*file.facts.what, file.facts.pid), (FileFacts::JITDUMP, 7));
        assert_eq!(file.content().unwrap(), b"some more");
    }

    #[test]
    fn a_map_is_saved_when_its_process_ends() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let pid = Pid(child.id().cast_signed());
        let sight = Sight::of(pid).unwrap();
        let path = PathBuf::from(sight.perf_map_path());
        let mut saver = Saver::default();
        saver.take(Found::Maker(pid, sight));
        assert!(files(&saver.tell()).is_empty());
        fs::write(&path, "7f00 40 work\n").unwrap();
        saver.look();
        // Some clear up behind themselves.
        fs::remove_file(&path).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let outcome = saver.tell();
        assert!(saver.makers.is_empty());
        let [file] = files(&outcome)[..] else { panic!("{outcome:?}") };
        assert_eq!(file.content().unwrap(), b"7f00 40 work\n");
        assert_eq!(file.facts.path, path.to_str().unwrap());
    }
}
