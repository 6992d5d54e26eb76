//! What the recorded machine looked like at any moment: names, mappings, kernel symbols.
//!
//! In come facts in the order of time, out comes an immutable index that any number of threads
//! may ask, in any order: nothing here depends on which samples were looked at before.

mod building;

use std::ffi::OsString;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use rustc_hash::FxHashMap;

use crate::symbols::Inode;
use crate::symbols::ModuleFile;
use crate::units::BuildId;
use crate::units::Nanos;
use crate::units::Pid;
use crate::units::ProgId;
use crate::units::Tid;

use super::resolved::CommId;
use super::spans::Moment;
use super::spans::Spans;
use super::untold;
use super::untold::Untold;
use super::untold::told_twice;

use building::Builder;

/// An index into [`Index::files`](super::Index::files).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

/// An index into [`Timeline::mappings`] or [`Timeline::ksymbols`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// A mapping of a file or of the kernel.
    Mapping(u32),
    /// A kernel symbol that came by `KSYMBOL`.
    Ksymbol(u32),
}

/// A file that was mapped.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MappedFile {
    /// The path as recorded.
    pub path: Vec<u8>,
    /// The build id, where the record has one.
    pub build_id: Option<BuildId>,
    /// The place on a disk, where the record has that instead.
    pub inode: Option<Inode>,
}

impl MappedFile {
    /// What to look for it by, if it is not known who mapped it.
    pub fn to_find(&self) -> ModuleFile {
        let path = PathBuf::from(OsString::from_vec(self.path.clone()));
        let (build_id, inode) = (self.build_id, self.inode);
        ModuleFile { build_id, inode, ..ModuleFile::at(path) }
    }
}

/// What a mapping maps: all mappings of the same file at the same distance are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mapping {
    /// The file.
    pub file: FileId,
    /// What to subtract from an address to get the offset in the file; wraps.
    pub bias: u64,
    /// The process whose private code this is, for mappings of no file; 0 else.
    pub jit_pid: Pid,
    /// Which of the processes that had this number one after the other, by fork or exec, it is: the
    /// timeline counts them.
    pub jit_generation: u32,
    /// The code that it is, by its number in [`Index::jit_codes`](super::Index::jit_codes), where a dump
    /// tells of it.
    pub jit_code: Option<u32>,
    /// The file whose code was there before, of mappings of no file.
    pub instead_of: Option<FileId>,
    /// Whether it belongs to the kernel.
    pub is_kernel: bool,
    /// Whether code may run there.
    pub is_executable: bool,
}

/// A kernel symbol from a `KSYMBOL` record, or from what a section says of a BPF program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSymbol {
    /// The name.
    pub name: Vec<u8>,
    /// The first address.
    pub start: u64,
    /// One past the last address, as the record has it.
    pub end: u64,
}

/// Something that changed the state of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// A mapping came.
    Map {
        /// The process; `None` for the kernel.
        pid: Option<Pid>,
        /// The first address.
        start: u64,
        /// One past the last address.
        end: u64,
        /// What it maps.
        mapping: Mapping,
    },
    /// A process made code in its memory, or no code is there any more.
    Code {
        /// The process.
        pid: Pid,
        /// The first address.
        start: u64,
        /// One past the last address.
        end: u64,
        /// The code, or the memory without it.
        mapping: Mapping,
    },
    /// A thread has a name.
    Comm {
        /// The process.
        pid: Pid,
        /// The thread.
        tid: Tid,
        /// The name.
        comm: CommId,
        /// Whether it came by exec, which leaves no mapping in place.
        is_exec: bool,
    },
    /// A thread or process began.
    Fork {
        /// The process.
        pid: Pid,
        /// Its parent; the same for a thread.
        ppid: Pid,
        /// The thread.
        tid: Tid,
        /// The thread that made it.
        ptid: Tid,
        /// Whether the mappings follow, so that none are inherited.
        is_exec: bool,
    },
    /// A kernel symbol came.
    Register(KernelSymbol),
    /// The kernel symbol that begins at an address went.
    Unregister(u64),
    /// A BPF program was loaded; its symbols have come before.
    Load(ProgId),
    /// A BPF program went, as its symbols have before.
    Unload(ProgId),
}

/// The state of the recorded machine at any moment.
#[derive(Debug, Default)]
pub struct Timeline {
    processes: FxHashMap<Pid, Vec<Generation>>,
    spaces: Vec<Space>,
    threads: FxHashMap<Tid, Vec<(Moment, CommId)>>,
    kernel_maps: Spans,
    kernel_symbols: Spans,
    /// Beneath those: programs that no record tells of.
    untold: Spans,
    mappings: Vec<Mapping>,
    ksymbols: Vec<KernelSymbol>,
}

/// A process from one fork or exec to the next that uses its id.
#[derive(Clone, Copy, Debug)]
struct Generation {
    from: Moment,
    space: u32,
    /// If it began by exec, what the process was before.
    before_exec: Option<u32>,
}

/// An address space: what was mapped in it, over what it had from its parent at its beginning.
#[derive(Debug, Default)]
struct Space {
    own: Spans,
    parent: Option<(u32, Moment)>,
}

/// What to know of a process at a moment, and how long it stays the same.
#[derive(Clone, Copy, Debug)]
pub struct ProcessAt {
    space: Option<u32>,
    /// If it came about by exec, what it was just before.
    before_exec: Option<(u32, Moment)>,
    /// Distinguishes states: equal versions resolve every address alike.
    pub version: [u32; 4],
    /// From when on this holds.
    pub from: Moment,
    /// Until when.
    pub until: Moment,
}

impl Timeline {
    /// An index of `facts`, which are in order, and of `late` ones, which came without a time after
    /// the first sample: they describe the last generation of their process, back to its beginning,
    /// beneath everything that has a time.
    pub fn new(facts: Vec<(Moment, Fact)>, late: Vec<Fact>) -> Self {
        Self::with_programs(facts, late, Untold::default())
    }

    /// As [`Timeline::new`]; the programs in `untold` name addresses that no record tells of.
    pub(super) fn with_programs(
        facts: Vec<(Moment, Fact)>,
        late: Vec<Fact>,
        mut untold: Untold<'_>,
    ) -> Self {
        let all = facts.iter().map(|(_, fact)| fact).chain(&late);
        let n_symbols = all.filter(|it| matches!(it, Fact::Register(_))).count();
        untold.prepare(&facts, narrow(n_symbols));
        let doubles = told_twice(&facts);
        let mut builder = Builder::new(&facts, late, untold);
        for (now, fact) in facts {
            match fact {
                // It keeps its number.
                Fact::Register(symbol) if doubles.contains(&now.position) => {
                    builder.ksymbols.push(symbol);
                }
                Fact::Load(_) if doubles.contains(&now.position) => {}
                fact => builder.apply(now, fact),
            }
        }
        builder.finish()
    }

    /// The mapping with this index.
    pub fn mapping(&self, idx: u32) -> Mapping {
        self.mappings[idx as usize]
    }

    /// All mappings, by index.
    pub fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    /// When the process with this number began that is in this place among them.
    pub(super) fn began(&self, pid: Pid, generation: u32) -> Option<Nanos> {
        let generations = self.processes.get(&pid)?;
        generations.get(generation as usize).map(|it| it.from.time)
    }

    /// All kernel symbols, by index.
    pub fn ksymbols(&self) -> &[KernelSymbol] {
        &self.ksymbols
    }

    /// The kernel symbol with this index.
    pub fn ksymbol(&self, idx: u32) -> &KernelSymbol {
        &self.ksymbols[idx as usize]
    }

    /// The command name of `tid` at `moment`, from when and until when it holds; `None` where
    /// nothing told it.
    pub fn comm(&self, tid: Tid, moment: Moment) -> (Option<CommId>, Moment, Moment) {
        let Some(comms) = self.threads.get(&tid) else {
            return (None, Moment::START, Moment::END);
        };
        let idx = comms.partition_point(|(from, _)| *from <= moment);
        let until = comms.get(idx).map_or(Moment::END, |(from, _)| *from);
        match idx.checked_sub(1).map(|idx| comms[idx]) {
            Some((from, comm)) => (Some(comm), from, until),
            None => (None, Moment::START, until),
        }
    }

    /// The last command name of `tid`.
    pub fn last_comm(&self, tid: Tid) -> Option<CommId> {
        self.threads.get(&tid)?.last().map(|(_, comm)| *comm)
    }

    /// The address space of `pid` at `moment`, and the kernel's state with it.
    pub fn process(&self, pid: Pid, moment: Moment) -> ProcessAt {
        let (told_version, mut from, mut until) = self.kernel_symbols.version(moment);
        let narrow = |from: &mut Moment, until: &mut Moment, other: (Moment, Moment)| {
            *from = (*from).max(other.0);
            *until = (*until).min(other.1);
        };
        let (untold_version, untold_from, untold_until) = self.untold.version(moment);
        narrow(&mut from, &mut until, (untold_from, untold_until));
        // Both only rise: their sum stands for both.
        let kernel_version = told_version.wrapping_add(untold_version);
        let (maps_version, maps_from, maps_until) = self.kernel_maps.version(moment);
        narrow(&mut from, &mut until, (maps_from, maps_until));
        let generations = self.processes.get(&pid).map(Vec::as_slice).unwrap_or_default();
        let idx = generations.partition_point(|it| it.from <= moment);
        if let Some(next) = generations.get(idx) {
            until = until.min(next.from);
        }
        let Some(generation) = idx.checked_sub(1).map(|idx| generations[idx]) else {
            let version = [u32::MAX, 0, kernel_version, maps_version];
            return ProcessAt { space: None, before_exec: None, version, from, until };
        };
        let (own_version, own_from, own_until) =
            self.spaces[generation.space as usize].own.version(moment);
        narrow(&mut from, &mut until, (own_from.max(generation.from), own_until));
        let version = [generation.space, own_version, kernel_version, maps_version];
        let before_exec = generation.before_exec.map(|space| (space, generation.from));
        ProcessAt { space: Some(generation.space), before_exec, version, from, until }
    }

    /// Who owns the user address `addr` in `process` at `moment`.
    pub fn user(&self, process: &ProcessAt, addr: u64, moment: Moment) -> Option<Owner> {
        self.mapped(process, addr, moment).map(|(mapping, _)| Owner::Mapping(mapping))
    }

    /// The number of the mapping that covers the user address `addr` in `process` at `moment`, and a range
    /// with `addr` in which, as long as the version of `process` is the same, no other one does.
    pub(super) fn mapped(
        &self,
        process: &ProcessAt,
        addr: u64,
        moment: Moment,
    ) -> Option<(u32, Range<u64>)> {
        let space = process.space?;
        if let Some(span) = self.spaces[space as usize].own.find(addr, moment) {
            return Some((span.owner, span.start..span.end));
        }
        // What the space has of its own lies over what it has from its parent.
        let owner = self.in_space(self.spaces[space as usize].parent?, addr)?;
        let Owner::Mapping(mapping) = owner else { return None };
        Some((mapping, addr..addr.saturating_add(1)))
    }

    /// Who owned the user address `addr` just before the exec from which `process` came.
    ///
    /// A thread that is still in the kernel, within exec, has the registers of the old program.
    pub fn user_before_exec(&self, process: &ProcessAt, addr: u64) -> Option<Owner> {
        self.in_space(process.before_exec?, addr)
    }

    fn in_space(&self, mut at: (u32, Moment), addr: u64) -> Option<Owner> {
        loop {
            let space = &self.spaces[at.0 as usize];
            if let Some(span) = space.own.find(addr, at.1) {
                return Some(Owner::Mapping(span.owner));
            }
            at = space.parent?;
        }
    }

    /// Who owns the kernel address `addr` at `moment`.
    pub fn kernel(&self, addr: u64, moment: Moment) -> Option<Owner> {
        if let Some(span) = self.kernel_symbols.find(addr, moment) {
            return Some(Owner::Ksymbol(span.owner));
        }
        if let Some(owner) = self.untold.find(addr, moment).and_then(untold::owner) {
            return Some(Owner::Ksymbol(owner));
        }
        self.kernel_maps.find(addr, moment).map(|span| Owner::Mapping(span.owner))
    }
}

/// Facts come from records in memory: fewer than 2^32.
fn narrow(idx: usize) -> u32 {
    u32::try_from(idx).expect("fewer than 2^32 facts")
}

#[cfg(test)]
mod tests {
    use super::building::MAX_DEPTH;
    use super::*;

    const SHELL: Pid = Pid(10);
    const CHILD: Pid = Pid(11);

    fn at(time: u64) -> Moment {
        Moment { time: Nanos(time), position: time }
    }

    fn map(pid: Pid, start: u64, file: u32) -> Fact {
        let mapping = Mapping {
            file: FileId(file),
            bias: start,
            jit_pid: Pid(0),
            jit_generation: 0,
            jit_code: None,
            instead_of: None,
            is_kernel: false,
            is_executable: true,
        };
        Fact::Map { pid: Some(pid), start, end: start + 0x1000, mapping }
    }

    fn fork(pid: Pid, ppid: Pid) -> Fact {
        Fact::Fork { pid, ppid, tid: Tid(pid.0), ptid: Tid(ppid.0), is_exec: false }
    }

    fn comm(pid: Pid, comm: u32, is_exec: bool) -> Fact {
        Fact::Comm { pid, tid: Tid(pid.0), comm: CommId(comm), is_exec }
    }

    #[track_caller]
    fn check(timeline: &Timeline, pid: Pid, addr: u64, time: u64, want: Option<u32>) {
        let process = timeline.process(pid, at(time));
        assert!(process.from <= at(time) && at(time) < process.until);
        let owner = timeline.user(&process, addr, at(time)).map(|owner| match owner {
            Owner::Mapping(idx) => timeline.mapping(idx).file.0,
            Owner::Ksymbol(_) => panic!("a user address owned by the kernel"),
        });
        assert_eq!(owner, want, "{pid} {addr:#x} at {time}");
    }

    #[test]
    fn a_fork_sees_what_its_parent_had_then_and_not_what_came_later() {
        let facts = vec![
            (at(1), map(SHELL, 0x1000, 1)),
            (at(2), fork(CHILD, SHELL)),
            (at(3), map(SHELL, 0x1000, 2)),
            (at(4), map(CHILD, 0x5000, 3)),
        ];
        let timeline = Timeline::new(facts, vec![]);
        check(&timeline, CHILD, 0x1000, 1, None);
        check(&timeline, CHILD, 0x1000, 5, Some(1));
        check(&timeline, SHELL, 0x1000, 5, Some(2));
        check(&timeline, CHILD, 0x5000, 4, Some(3));
        check(&timeline, SHELL, 0x5000, 9, None);
    }

    #[test]
    fn an_exec_leaves_nothing_in_place() {
        let facts = vec![
            (at(1), map(SHELL, 0x1000, 1)),
            (at(2), comm(SHELL, 7, true)),
            (at(3), map(SHELL, 0x8000, 2)),
        ];
        let timeline = Timeline::new(facts, vec![]);
        check(&timeline, SHELL, 0x1000, 1, Some(1));
        check(&timeline, SHELL, 0x1000, 2, None);
        check(&timeline, SHELL, 0x8000, 3, Some(2));
        assert_eq!(timeline.comm(Tid(10), at(1)), (None, Moment::START, at(2)));
        assert_eq!(timeline.comm(Tid(10), at(2)), (Some(CommId(7)), at(2), Moment::END));
    }

    #[test]
    fn within_exec_the_old_program_is_known_to_who_is_still_in_the_kernel() {
        let facts = vec![
            (at(1), map(SHELL, 0x1000, 1)),
            (at(2), comm(SHELL, 7, true)),
            (at(3), map(SHELL, 0x8000, 2)),
        ];
        let timeline = Timeline::new(facts, vec![]);
        let before = |time| timeline.user_before_exec(&timeline.process(SHELL, at(time)), 0x1000);
        assert_eq!(before(1), None);
        assert_eq!(before(2), Some(Owner::Mapping(0)));
    }

    #[test]
    fn a_late_mapping_without_a_time_describes_the_last_generation_beneath_the_timed() {
        let facts = vec![
            (at(1), fork(CHILD, SHELL)),
            (at(5), comm(CHILD, 1, true)),
            (at(7), map(CHILD, 0x2000, 2)),
        ];
        let late = vec![map(CHILD, 0x1000, 8), map(CHILD, 0x2000, 9), map(SHELL, 0x3000, 10)];
        let timeline = Timeline::new(facts, late);
        check(&timeline, CHILD, 0x1000, 4, None);
        check(&timeline, CHILD, 0x1000, 5, Some(8));
        check(&timeline, CHILD, 0x2000, 6, Some(9));
        check(&timeline, CHILD, 0x2000, 7, Some(2));
        check(&timeline, SHELL, 0x3000, 0, Some(10));
    }

    #[test]
    fn code_that_a_process_made_is_of_the_program_that_it_was_then() {
        let code = |pid: Pid, start| match map(pid, start, 1) {
            Fact::Map { pid, start, end, mapping } => {
                let mapping = Mapping { jit_pid: SHELL, bias: 0, ..mapping };
                Fact::Map { pid, start, end, mapping }
            }
            other => other,
        };
        let facts = vec![
            (at(1), code(SHELL, 0x1000)),
            (at(2), fork(CHILD, SHELL)),
            (at(3), comm(SHELL, 7, true)),
            (at(4), code(SHELL, 0x1000)),
        ];
        let timeline = Timeline::new(facts, vec![code(SHELL, 0x5000)]);
        let maker = |pid, addr, time| {
            let process = timeline.process(pid, at(time));
            let Some(Owner::Mapping(idx)) = timeline.user(&process, addr, at(time)) else {
                panic!("nothing at {addr:#x}")
            };
            (timeline.mapping(idx).jit_pid, timeline.mapping(idx).jit_generation)
        };
        assert_eq!(maker(SHELL, 0x1000, 2), (SHELL, 0));
        assert_eq!(maker(CHILD, 0x1000, 9), (SHELL, 0));
        assert_eq!(maker(SHELL, 0x1000, 9), (SHELL, 1));
        assert_eq!(maker(SHELL, 0x5000, 9), (SHELL, 1));
        let began = [0, 1, 2].map(|it| timeline.began(SHELL, it).map(|it| it.0));
        assert_eq!(began, [Some(0), Some(3), None]);
    }

    #[test]
    fn a_long_line_of_forks_still_sees_the_first_ancestor() {
        let mut facts = vec![(at(1), map(Pid(1), 0x1000, 1))];
        for child in 2_u32..100 {
            let (pid, time) = (Pid(child.cast_signed()), 10 * u64::from(child));
            facts.push((at(time), fork(pid, Pid(pid.0 - 1))));
            facts.push((at(time + 1), map(pid, 0x1_0000 + u64::from(child) * 0x1000, child)));
        }
        let timeline = Timeline::new(facts, vec![]);
        check(&timeline, Pid(99), 0x1000, 2000, Some(1));
        check(&timeline, Pid(99), 0x1_0000 + 50 * 0x1000, 2000, Some(50));
        check(&timeline, Pid(50), 0x1_0000 + 51 * 0x1000, 2000, None);
        let depth = |space: &Space| {
            let parent = |it: &(u32, Moment)| timeline.spaces[it.0 as usize].parent;
            std::iter::successors(space.parent, parent).count()
        };
        assert!(timeline.spaces.iter().all(|it| depth(it) <= MAX_DEPTH as usize));
    }

    #[test]
    fn the_children_of_a_deep_parent_share_what_it_has() {
        let mut facts = Vec::new();
        for pid in 1_u32..=10 {
            let (time, child) = (10 * u64::from(pid), Pid(pid.cast_signed()));
            facts.push((at(time), fork(child, Pid(child.0 - 1))));
            facts.push((at(time + 1), map(child, u64::from(pid) * 0x1000, pid)));
        }
        let (parent, children) = (Pid(10), (100..200).map(Pid));
        facts.extend(children.clone().map(|child| (at(200), fork(child, parent))));
        let timeline = Timeline::new(facts, vec![]);
        let space = |pid| timeline.processes[&pid].last().map(|it| it.space);
        for child in children {
            check(&timeline, child, 0x1000, 300, Some(1));
            check(&timeline, child, 10 * 0x1000, 300, Some(10));
            let inherited = space(child).and_then(|it| timeline.spaces[it as usize].parent);
            assert_eq!(inherited.map(|it| it.0), space(parent));
        }
    }

    #[test]
    fn what_has_no_time_begins_a_process_once_however_often_it_says_so() {
        let mut late = vec![map(CHILD, 0x1000, 8)];
        late.resize(100, fork(CHILD, SHELL));
        late.push(map(CHILD, 0x2000, 9));
        let timeline = Timeline::new(vec![], late);
        check(&timeline, CHILD, 0x1000, 0, Some(8));
        check(&timeline, CHILD, 0x2000, 0, Some(9));
        assert!(timeline.spaces.len() < 5);
    }

    #[test]
    fn a_program_is_named_only_while_it_lives() {
        let symbol = KernelSymbol { name: b"bpf_prog_x".to_vec(), start: 0x100, end: 0x200 };
        let facts = vec![(at(3), Fact::Register(symbol)), (at(6), Fact::Unregister(0x100))];
        let timeline = Timeline::new(facts, vec![]);
        assert_eq!(timeline.kernel(0x150, at(2)), None);
        assert_eq!(timeline.kernel(0x150, at(3)), Some(Owner::Ksymbol(0)));
        assert_eq!(timeline.kernel(0x150, at(6)), None);
    }

    #[test]
    fn versions_change_exactly_where_resolution_can() {
        let symbol = KernelSymbol { name: b"x".to_vec(), start: 0x100, end: 0x200 };
        let facts = vec![
            (at(1), map(SHELL, 0x1000, 1)),
            (at(4), Fact::Register(symbol)),
            (at(8), map(SHELL, 0x2000, 1)),
        ];
        let timeline = Timeline::new(facts, vec![]);
        let versions = [2, 3, 4, 7, 8].map(|time| timeline.process(SHELL, at(time)).version);
        assert_eq!(versions[0], versions[1]);
        assert_ne!(versions[1], versions[2]);
        assert_eq!(versions[2], versions[3]);
        assert_ne!(versions[3], versions[4]);
    }
}
