//! `report --tasks` and `--mmaps`: which tasks a recording has, of which they came, and what they had mapped
//! at last.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::io;
use std::io::Write;
use std::sync::Arc;

use crate::perfdata::Cursor;
use crate::perfdata::Error;
use crate::perfdata::Mmap2;
use crate::perfdata::MmapId;
use crate::perfdata::ReadAt;
use crate::perfdata::Record;
use crate::perfdata::RecordHeader;
use crate::perfdata::RecordKind;
use crate::perfdata::misc;
use crate::perfdata::read_up_to;
use crate::render::escape::escape;
use crate::replay::Index;
use crate::replay::Recording;
use crate::replay::Wanted;
use crate::replay::unnamed_comm;
use crate::units::FileOffset;
use crate::units::Pid;
use crate::units::Tid;

/// What is shown of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// The tasks alone.
    Tasks,
    /// What each had mapped, too.
    Maps,
}

impl Shown {
    /// The records that it is made of.
    pub(super) fn wanted(self) -> Wanted {
        let mut kinds = vec![RecordKind::COMM, RecordKind::FORK];
        if self == Self::Maps {
            kinds.extend([RecordKind::MMAP, RecordKind::MMAP2]);
        }
        Wanted::Kinds(kinds)
    }
}

/// The tasks of a recording, by thread; of a number that was used again, the last.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    by_tid: BTreeMap<i32, Task>,
    /// What each process had mapped.
    maps: BTreeMap<i32, Arc<Vec<Map>>>,
    /// How many mappings may be held; what one recording can ask for by forks is else the square of it.
    room: usize,
    /// The forks whose copies of mappings did not fit.
    pub(super) n_left_out: u64,
}

#[derive(Clone, Debug, Default)]
struct Task {
    pid: i32,
    /// The thread that made it; -1 where nothing tells.
    parent: i32,
    comm: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Map {
    start: u64,
    end: u64,
    pgoff: u64,
    prot: u32,
    is_shared: bool,
    /// The inode, or the build id.
    id: String,
    name: Vec<u8>,
}

impl Tasks {
    /// The tasks that the records of `index` tell of, which has listed those that [`Shown::wanted`] names.
    pub(super) fn new(
        recording: &Recording,
        index: &Index,
        input: &dyn ReadAt,
    ) -> Result<Self, Error> {
        let mut this = Self { room: index.entries.len().saturating_mul(64), ..Self::default() };
        let idle = Task { pid: 0, parent: -1, comm: unnamed_comm(Tid(0)) };
        this.by_tid.insert(0, idle);
        let endian = recording.header.endian();
        for entry in &index.entries {
            let at = FileOffset(entry.position);
            let start = read_up_to(input, at, u64::from(RecordHeader::SIZE))?;
            let header = RecordHeader::decode(&mut Cursor::new(&start, at, endian))?;
            let bytes = read_up_to(input, at, u64::from(header.size))?;
            let mut cursor = Cursor::new(&bytes, at, endian);
            RecordHeader::decode(&mut cursor)?;
            // What cannot be read has been counted when it was listed.
            if let Ok(record) = Record::decode(header, &mut cursor) {
                this.add(&record, header.misc);
            }
        }
        Ok(this)
    }

    fn add(&mut self, record: &Record<'_>, bits: u16) {
        match record {
            Record::Comm(it) => {
                self.task(it.pid, it.tid).comm = it.comm.to_vec();
                if bits & misc::COMM_EXEC != 0 {
                    // The old program is gone.
                    self.maps.remove(&it.pid.0);
                }
            }
            Record::Fork(it) => {
                let comm = self.task(it.ppid, it.ptid).comm.clone();
                self.by_tid.insert(it.tid.0, Task { pid: it.pid.0, parent: it.ptid.0, comm });
                if it.pid != it.ppid
                    && let Some(maps) = self.maps.get(&it.ppid.0)
                {
                    self.maps.insert(it.pid.0, Arc::clone(maps));
                }
            }
            Record::Mmap(it) => {
                let id = MmapId::Inode { maj: 0, min: 0, ino: 0, ino_generation: 0 };
                let prot = if bits & misc::MMAP_DATA == 0 { 4 } else { 0 };
                let (addr, len, pgoff, filename) = (it.addr, it.len, it.pgoff, it.filename);
                let (pid, tid, flags) = (it.pid, it.tid, 0);
                self.map(&Mmap2 { pid, tid, addr, len, pgoff, id, prot, flags, filename });
            }
            Record::Mmap2(it) => self.map(it),
            _ => {}
        }
    }

    fn task(&mut self, Pid(pid): Pid, Tid(tid): Tid) -> &mut Task {
        let new = || Task { pid, parent: -1, comm: unnamed_comm(Tid(tid)) };
        self.by_tid.entry(tid).or_insert_with(new)
    }

    /// Adds a mapping, in the place of what was there.
    fn map(&mut self, it: &Mmap2<'_>) {
        const MAP_SHARED: u32 = 1;
        let (Pid(pid), start) = (it.pid, it.addr.0);
        let Some(end) = start.checked_add(it.len).filter(|end| start < *end && 0 <= pid) else {
            return;
        };
        self.task(it.pid, it.tid);
        let shared = self.maps.entry(pid).or_default();
        if Arc::strong_count(shared) > 1 {
            let Some(room) = self.room.checked_sub(shared.len()) else {
                self.n_left_out += 1;
                *shared = Arc::default();
                return;
            };
            self.room = room;
        }
        let maps = Arc::make_mut(shared);
        let first = maps.partition_point(|map| map.end <= start);
        let last = maps.partition_point(|map| map.start < end);
        let cut = maps.get(first..last).unwrap_or_default();
        let before = cut.first().filter(|map| map.start < start);
        let before = before.map(|map| Map { end: start, ..map.clone() });
        let after = cut.last().filter(|map| end < map.end).map(|map| {
            let pgoff = map.pgoff.wrapping_add(end - map.start);
            Map { start: end, pgoff, ..map.clone() }
        });
        let id = match &it.id {
            _ if it.filename == b"[vdso]" => String::new(),
            MmapId::Inode { ino, .. } => ino.to_string(),
            MmapId::BuildId(id) => id.map_or_else(String::new, |it| it.to_string()),
        };
        let (pgoff, prot, name) = (it.pgoff, it.prot, it.filename.to_vec());
        let is_shared = it.flags & MAP_SHARED != 0;
        let map = Map { start, end, pgoff, prot, is_shared, id, name };
        let parts = before.into_iter().chain([map]).chain(after);
        maps.splice(first..last.max(first), parts);
    }

    /// Writes the tasks, each below the one that made it, as perf lays them out.
    pub(super) fn write(&self, shown: Shown, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "# {:>8} {:>8} {:>8}  comm", "pid", "tid", "ppid")?;
        let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        let mut roots = Vec::new();
        for (&tid, task) in &self.by_tid {
            if 0 < task.parent && self.by_tid.contains_key(&task.parent) {
                children.entry(task.parent).or_default().push(tid);
            } else {
                roots.push(tid);
            }
        }
        let mut left: BTreeSet<i32> = self.by_tid.keys().copied().collect();
        for root in roots {
            self.write_below(root, &children, &mut left, shown, out)?;
        }
        // Those that made each other are below no root.
        while let Some(&tid) = left.first() {
            self.write_below(tid, &children, &mut left, shown, out)?;
        }
        Ok(())
    }

    /// Writes the task `root` and those below it that are `left`.
    fn write_below(
        &self,
        root: i32,
        children: &BTreeMap<i32, Vec<i32>>,
        left: &mut BTreeSet<i32>,
        shown: Shown,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let mut next = vec![(root, usize::from(0 < root))];
        while let Some((tid, level)) = next.pop() {
            let Some(task) = self.by_tid.get(&tid).filter(|_| left.remove(&tid)) else { continue };
            let comm = escape(&task.comm);
            let Task { pid, parent, .. } = task;
            writeln!(out, "  {pid:>8} {tid:>8} {parent:>8} |{:level$}{comm}", "")?;
            if shown == Shown::Maps {
                self.write_maps(*pid, level, out)?;
            }
            let below = children.get(&tid).map_or(&[][..], Vec::as_slice);
            next.extend(below.iter().rev().map(|it| (*it, level + 1)));
        }
        Ok(())
    }

    fn write_maps(&self, pid: i32, level: usize, out: &mut dyn Write) -> io::Result<()> {
        for map in self.maps.get(&pid).map_or(&[][..], |it| it.as_slice()) {
            let Map { start, end, pgoff, prot, is_shared, id, name } = map;
            let letter = |bit: u32, letter| if prot & bit == 0 { '-' } else { letter };
            let [read, write, run] = [letter(1, 'r'), letter(2, 'w'), letter(4, 'x')];
            let kind = if *is_shared { 's' } else { 'p' };
            let name = escape(name);
            writeln!(
                out,
                "{:width$}{start:x}-{end:x} {read}{write}{run}{kind} {pgoff:08x} {id} {name}",
                "",
                width = 32 + level
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::perfdata::Comm;
    use crate::perfdata::Task as Fork;
    use crate::units::Addr;
    use crate::units::Nanos;

    use super::*;

    fn comm(tasks: &mut Tasks, pid: i32, comm: &str, bits: u16) {
        let comm = comm.as_bytes();
        tasks.add(&Record::Comm(Comm { pid: Pid(pid), tid: Tid(pid), comm }), bits);
    }

    fn fork(tasks: &mut Tasks, parent: i32, (pid, tid): (i32, i32)) {
        let fork = Fork {
            pid: Pid(pid),
            ppid: Pid(parent),
            tid: Tid(tid),
            ptid: Tid(parent),
            time: Nanos(0),
        };
        tasks.add(&Record::Fork(fork), 0);
    }

    fn map(tasks: &mut Tasks, pid: i32, start: u64, len: u64, name: &str) {
        let id = MmapId::Inode { maj: 0, min: 0, ino: 7, ino_generation: 0 };
        tasks.map(&Mmap2 {
            pid: Pid(pid),
            tid: Tid(pid),
            addr: Addr(start),
            len,
            pgoff: 0,
            id,
            prot: 5,
            flags: 2,
            filename: name.as_bytes(),
        });
    }

    #[track_caller]
    fn check(tasks: &Tasks, shown: Shown, want: &[&str]) {
        let mut out = Vec::new();
        tasks.write(shown, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap().lines().skip(1).collect::<Vec<_>>(), want);
    }

    #[test]
    fn tasks_stand_below_the_one_that_made_them() {
        let mut tasks = Tasks::default();
        comm(&mut tasks, 10, "make", 0);
        fork(&mut tasks, 10, (30, 30));
        fork(&mut tasks, 10, (10, 11));
        fork(&mut tasks, 30, (31, 31));
        comm(&mut tasks, 30, "sh", 0);
        comm(&mut tasks, 40, "cc", 0);
        let want = [
            "        10       10       -1 | make",
            "        10       11       10 |  make",
            "        30       30       10 |  sh",
            "        31       31       30 |   make",
            "        40       40       -1 | cc",
        ];
        check(&tasks, Shown::Tasks, &want);
    }

    #[test]
    fn tasks_that_made_each_other_are_all_shown() {
        let mut tasks = Tasks::default();
        fork(&mut tasks, 10, (20, 20));
        fork(&mut tasks, 20, (10, 10));
        fork(&mut tasks, 30, (30, 30));
        let mut out = Vec::new();
        tasks.write(Shown::Tasks, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap().lines().count(), 4);
    }

    #[test]
    fn a_new_mapping_takes_the_place_of_what_was_there_and_exec_of_all() {
        let mut tasks = Tasks { room: 100, ..Tasks::default() };
        map(&mut tasks, 10, 0x1000, 0x4000, "a");
        map(&mut tasks, 10, 0x2000, 0x1000, "b");
        fork(&mut tasks, 10, (20, 20));
        map(&mut tasks, 20, 0x0, 0x1800, "c");
        fork(&mut tasks, 10, (21, 21));
        comm(&mut tasks, 21, "new", misc::COMM_EXEC);
        let [one, two] = [" ".repeat(33), " ".repeat(34)];
        let line = |indent: &str, it: &str| format!("{indent}{it}");
        let want = [
            "        10       10       -1 | :10".to_owned(),
            line(&one, "1000-2000 r-xp 00000000 7 a"),
            line(&one, "2000-3000 r-xp 00000000 7 b"),
            line(&one, "3000-5000 r-xp 00002000 7 a"),
            "        20       20       10 |  :10".to_owned(),
            line(&two, "0-1800 r-xp 00000000 7 c"),
            line(&two, "1800-2000 r-xp 00000800 7 a"),
            line(&two, "2000-3000 r-xp 00000000 7 b"),
            line(&two, "3000-5000 r-xp 00002000 7 a"),
            "        21       21       10 |  new".to_owned(),
        ];
        check(&tasks, Shown::Maps, &want.iter().map(String::as_str).collect::<Vec<_>>());
    }

    #[test]
    fn copies_of_mappings_have_a_limit() {
        let mut tasks = Tasks { room: 3, ..Tasks::default() };
        map(&mut tasks, 10, 0x1000, 0x1000, "a");
        map(&mut tasks, 10, 0x2000, 0x1000, "b");
        for pid in [20, 21] {
            fork(&mut tasks, 10, (pid, pid));
            map(&mut tasks, pid, 0x3000, 0x1000, "c");
        }
        assert_eq!((tasks.n_left_out, tasks.maps[&20].len(), tasks.maps[&21].len()), (1, 3, 0));
    }
}
