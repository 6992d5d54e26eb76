//! What is known of the files that were met, and what of them is saved.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;
use std::time::Instant;

use nix::sys::signal::SigSet;
use object::read::ReadCache;

use crate::host::mapped;
use crate::host::mapped::Root;
use crate::host::mapped::Sight;
use crate::host::mapped::Stamp;
use crate::host::note;
use crate::perfdata::private::ClockReading;
use crate::perfdata::private::FileFacts;
use crate::perfdata::private::Inode;
use crate::perfdata::private::Message;
use crate::perfdata::private::SavedFile;
use crate::perfdata::private::digits;
use crate::record::clock;
use crate::record::mapped::MOST_MET;
use crate::symbols::Identity;
use crate::symbols::NoSkeleton;
use crate::symbols::Symbols;
use crate::symbols::Tables;
use crate::symbols::debug_files;
use crate::symbols::is_dump;
use crate::symbols::skeleton;
use crate::symbols::undeleted;
use crate::units::BuildId;
use crate::units::Pid;

use super::FileGaps;
use super::Found;
use super::Outcome;
use super::Turn;

/// How often it is looked at whether files are still found.
const TICK: Duration = Duration::from_secs(1);

/// How many times as long as a look took the next one is put off.
const REST: u32 = 200;

/// The most files of which it is known at the end whether they are still found, without holding them.
const MOST_UNHELD: usize = 1 << 16;

/// The most bytes of one file in a recording, plain.
const MOST_BYTES: u64 = SavedFile::MOST_BYTES;

/// The most bytes of a file that are read to know it by their sum: that takes some tenths of a second.
const MOST_SUMMED: u64 = 512 << 20;

/// The most bytes of one file in a recording, compressed.
const MOST_OF_FILE: usize = 16 << 20;

/// The most bytes of all files in a recording, compressed.
const MOST_OF_ALL: usize = 128 << 20;

/// A file that was found when it was looked at last.
#[derive(Debug)]
struct Held {
    file: File,
    path: Vec<u8>,
    build_id: Option<BuildId>,
    inode: Inode,
    /// What it had when it was met.
    stamp: Option<Stamp>,
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
pub(super) struct Saver {
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
    /// Saved ones that may have been mapped anew with other content, and would be known by the same inode.
    unsure: Vec<(usize, Held)>,
    n_bytes: usize,
    /// The clocks at the start.
    readings: Vec<ClockReading>,
    gaps: FileGaps,
}

impl Saver {
    /// Saves `tables` of each file, and holds no more than `most_held` at a time.
    pub(super) fn new(tables: Tables, most_held: usize) -> Self {
        Self {
            tables,
            most_held,
            held: Vec::new(),
            unheld: Vec::new(),
            gone: HashSet::new(),
            makers: BTreeMap::new(),
            dumps: Vec::new(),
            saved: Vec::new(),
            by_build_id: HashMap::new(),
            unsure: Vec::new(),
            n_bytes: 0,
            readings: Vec::new(),
            gaps: FileGaps::default(),
        }
    }

    pub(super) fn run(mut self, turns: &Receiver<Turn>) {
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
            Found::Gone(mapped) => {
                let inode = mapped.inode();
                let path = mapped.mapping.path;
                if mapped::seems_found(&path, mapped.mapping.inode) {
                    return;
                }
                tracing::debug!(path = %String::from_utf8_lossy(&path), "gone");
                let is_full = MOST_MET <= self.gone.len();
                self.gaps.n_gone += u64::from(is_full || self.gone.insert(inode));
            }
            Found::File(mapped, file, root) => {
                let build_id = file.try_clone().ok().and_then(note::of_file);
                let inode = mapped.inode();
                if self.gone.remove(&inode) {
                    self.gaps.n_gone = self.gaps.n_gone.saturating_sub(1);
                }
                let stamp = mapped::stamp(&file);
                let held = Held { file, path: mapped.mapping.path, build_id, inode, stamp };
                if is_dump(&held.path) {
                    if self.dumps.len() < self.most_held / 4 {
                        self.dumps.push((mapped.pid, held));
                    } else {
                        self.gaps.n_unwatched += 1;
                    }
                } else if !held.is_found() {
                    self.save(held, root);
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
        for held in gone {
            self.save(held, None);
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

    /// Saves what names and unwinds the addresses of a file that is found no more. Below `root`, or our own
    /// one, may be what was split off it.
    fn save(&mut self, held: Held, root: Option<Root>) {
        if held.is_rewritten() {
            self.gaps.n_gone += 1;
            return;
        }

        // Containers of one image have files of the same content.
        if let Some(known) = held.build_id.and_then(|it| self.by_build_id.get(&it)) {
            self.saved.get_mut(*known).into_iter().for_each(|it| it.facts.inodes.push(held.inode));
            return;
        }
        if held.build_id.is_none() && self.most_held / 4 <= self.unsure.len() {
            self.gaps.n_unwatched += 1;
            return;
        }
        let Ok(file) = held.file.try_clone() else { return };
        match skeleton(&ReadCache::new(file), self.tables, MOST_BYTES) {
            Ok(content) => {
                let facts = held.facts(FileFacts::ELF);
                let Some(idx) = self.put(facts, &content) else { return };
                let root = root.or_else(|| Root::at(Path::new("/")));
                if let Some((root, of)) = root.zip(Identity::of(&content).ok())
                    && of.symbols != Symbols::Full
                {
                    self.save_debug(&held.path, &of, &root);
                }
                match held.build_id {
                    Some(id) => _ = self.by_build_id.insert(id, idx),
                    None => self.unsure.push((idx, held)),
                }
            }
            Err(NoSkeleton::TooLong) => self.gaps.n_too_long += 1,
            Err(error) => tracing::debug!(%error, "nothing to save"),
        }
    }

    /// Saves the symbols that had been split off the file `of`, if they are below `root`: whoever has no longer
    /// the one has no longer the other.
    fn save_debug(&mut self, path: &[u8], of: &Identity, root: &Root) {
        let path = Path::new(OsStr::from_bytes(path));
        for place in debug_files(undeleted(path).unwrap_or(path), of) {
            let Ok(file) = root.open(&place.path) else { continue };
            let sum = file.try_clone();
            let content = match skeleton(&ReadCache::new(file), Tables::Names, MOST_BYTES) {
                Ok(content) => content,
                Err(error) => {
                    tracing::debug!(path = %place.path.display(), %error, "no symbols to save");
                    self.gaps.n_too_long += u64::from(error == NoSkeleton::TooLong);
                    continue;
                }
            };
            let Ok(found) = Identity::of(&content) else { continue };
            let sum = || mapped::crc32(&sum.ok()?, MOST_SUMMED).ok();
            if found.symbols != Symbols::Full || !place.is_of(of, &found, sum) {
                continue;
            }
            let facts = FileFacts {
                what: FileFacts::ELF_DEBUG.to_owned(),
                path: place.path.to_string_lossy().into_owned(),
                build_id: found.build_id.map(|it| digits(it.as_bytes())),
                crc: place.crc,
                ..FileFacts::default()
            };
            let is_same = |it: &SavedFile| FileFacts { len: 0, ..it.facts.clone() } == facts;
            if !self.saved.iter().any(is_same) {
                let _place = self.put(facts, &content);
            }
            return;
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
        let mut gaps = self.gaps;
        let rewritten = self.unsure.iter().filter(|(_, it)| it.is_rewritten());
        let rewritten: HashSet<usize> = rewritten.map(|it| it.0).collect();
        gaps.n_gone += rewritten.len() as u64;
        let kept = (0..).zip(&self.saved).filter(|(idx, _)| !rewritten.contains(idx));
        let mut all: Vec<SavedFile> = kept.map(|(_, it)| it.clone()).collect();
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

    /// Whether it was written to since it was met, so that it is no longer what was mapped.
    fn is_rewritten(&self) -> bool {
        mapped::stamp(&self.file) != self.stamp
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
