//! The dumps of a recording, each read once however many programs show it.

use std::collections::BTreeMap;
use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::perfdata::private::FileFacts;
use crate::perfdata::private::Message;
use crate::perfdata::private::SavedFile;
use crate::replay::Provenance;
use crate::replay::Unnamed;
use crate::replay::timeline::FileId;
use crate::replay::timeline::MappedFile;
use crate::symbols::Inode;
use crate::symbols::JitCode;
use crate::symbols::JitDump;
use crate::units::Nanos;
use crate::units::Pid;

use super::Clock;
use super::JitDumps;

/// Dumps that were asked for, and where to look for others.
pub(super) struct Dumps<'a> {
    clock: &'a Clock,
    machine: &'a dyn JitDumps,
    provenance: &'a Provenance,
    /// Those in the recording, by their process, in its order.
    saved: BTreeMap<Pid, Vec<(usize, &'a SavedFile)>>,
    read: Vec<TimedDump>,
    known: FxHashMap<Source, Result<DumpId, Unnamed>>,
}

/// A dump, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DumpId(usize);

/// Where a dump is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Source {
    /// In the recording, as the message with this number.
    Saved(usize),
    /// On the machine.
    Machine(FileId),
}

/// A dump, and when its code was made on the recording's clock.
#[derive(Debug)]
pub(super) struct TimedDump {
    pub(super) dump: JitDump,
    /// Times with numbers of codes, in the order of time; `None` where the two clocks cannot be compared.
    times: Option<Vec<(Nanos, usize)>>,
}

impl<'a> Dumps<'a> {
    /// Those in `messages`, and others from `machine`.
    pub(super) fn new(
        messages: &'a [Message],
        machine: &'a dyn JitDumps,
        provenance: &'a Provenance,
        clock: &'a Clock,
    ) -> Self {
        let mut saved: BTreeMap<Pid, Vec<_>> = BTreeMap::new();
        for (idx, message) in messages.iter().enumerate() {
            if let Message::File(file) = message
                && file.facts.what == FileFacts::JITDUMP
            {
                saved.entry(Pid(file.facts.pid)).or_default().push((idx, file));
            }
        }
        let (read, known) = (Vec::new(), FxHashMap::default());
        Self { clock, machine, provenance, saved, read, known }
    }

    /// The dump that is `file`, which has the number `id` and was mapped by `pid`.
    ///
    /// # Errors
    ///
    /// Why it is not known.
    pub(super) fn find(
        &mut self,
        pid: Pid,
        id: FileId,
        file: &MappedFile,
    ) -> Result<DumpId, Unnamed> {
        let saved = self.saved(pid, file);
        let source = saved.map_or(Source::Machine(id), |(idx, _)| Source::Saved(idx));
        if let Some(known) = self.known.get(&source) {
            return *known;
        }
        let dump = match saved {
            Some((_, saved)) => {
                saved.content().and_then(|it| JitDump::parse(&it).ok()).ok_or(Unnamed::Absent)
            }
            None => self.machine.jitdump(&file.to_find(), self.provenance),
        };
        let found = dump.map(|dump| {
            self.read.push(TimedDump::new(dump, self.clock));
            DumpId(self.read.len() - 1)
        });
        self.known.insert(source, found);
        found
    }

    /// The dump in the recording that is `file`, as `pid` mapped it, with its number.
    fn saved(&self, pid: Pid, file: &MappedFile) -> Option<(usize, &'a SavedFile)> {
        let is_it = |facts: &FileFacts| {
            let is_inode = file.inode.is_none_or(|it| {
                let inodes = facts.inodes.iter().map(|it| Inode {
                    maj: it.maj,
                    min: it.min,
                    ino: it.ino,
                    generation: it.generation,
                });
                inodes.into_iter().any(|saved| saved.may_be(&it))
            });
            facts.path.as_bytes() == file.path && is_inode
        };
        self.saved.get(&pid)?.iter().rev().find(|(_, it)| is_it(&it.facts)).copied()
    }

    /// The dump with this number.
    pub(super) fn get(&self, DumpId(idx): DumpId) -> &TimedDump {
        &self.read[idx]
    }

    /// Records that make no sense, of all dumps that were found.
    pub(super) fn n_bad(&self) -> u64 {
        self.read.iter().fold(0, |sum, it| sum.saturating_add(it.dump.n_bad))
    }
}

impl TimedDump {
    fn new(dump: JitDump, clock: &Clock) -> Self {
        let is_timed = dump.is_monotonic && *clock != Clock::Unknown;
        let times = is_timed.then(|| {
            let codes = dump.codes.iter().enumerate();
            let mut times: Vec<(Nanos, usize)> =
                codes.filter_map(|(idx, it)| Some((clock.recorded(it.time)?, idx))).collect();
            times.sort_by_key(|it| it.0);
            times
        });
        Self { dump, times }
    }

    /// What was made at `times`, which have no end where that is `None`; `None` where it is not known when
    /// anything was made.
    pub(super) fn made(
        &self,
        Range { start, end }: Range<Option<Nanos>>,
    ) -> Option<impl Iterator<Item = (Nanos, &JitCode)>> {
        let times = self.times.as_deref()?;
        let from = start.map_or(0, |start| times.partition_point(|it| it.0 < start));
        let to = end.map_or(times.len(), |end| times.partition_point(|it| it.0 < end));
        let made = times.get(from..to).unwrap_or_default();
        Some(made.iter().map(|&(time, idx)| (time, &self.dump.codes[idx])))
    }
}

#[cfg(test)]
mod tests {
    use super::super::NoDumps;
    use super::*;
    use crate::perfdata::private;

    #[test]
    fn a_saved_dump_is_the_one_that_was_mapped() {
        let saved = |path: &str, ino, content: &[u8]| {
            let inode = private::Inode { maj: 1, min: 2, ino, generation: 0 };
            let (what, path) = (FileFacts::JITDUMP.to_owned(), path.to_owned());
            let facts =
                FileFacts { what, path, inodes: vec![inode], pid: 7, ..FileFacts::default() };
            Message::File(SavedFile::new(facts, content).unwrap())
        };
        let messages = [saved("/tmp/jit-7.dump", 3, b"one"), saved("/tmp/jit-7.dump", 4, b"other")];
        let provenance = Provenance::default();
        let dumps = Dumps::new(&messages, &NoDumps, &provenance, &Clock::Same);
        let found = |path: &str, ino, generation| {
            let inode = Some(Inode { maj: 1, min: 2, ino, generation });
            let file = MappedFile { path: path.into(), build_id: None, inode };
            dumps.saved(Pid(7), &file).and_then(|it| it.1.content())
        };
        assert_eq!(found("/tmp/jit-7.dump", 3, 0), Some(b"one".to_vec()));
        assert_eq!(found("/tmp/jit-7.dump", 4, 9), Some(b"other".to_vec()));
        assert_eq!(found("/tmp/jit-7.dump", 5, 0), None);
        assert_eq!(found("/x/jit-7.dump", 4, 9), None);
    }
}
