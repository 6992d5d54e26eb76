//! How a timeline is made, fact by fact.

use rustc_hash::FxHashMap;

use crate::replay::resolved::CommId;
use crate::replay::spans::Moment;
use crate::replay::spans::SpansBuilder;
use crate::replay::untold::Untold;
use crate::units::Pid;
use crate::units::Tid;

use super::Fact;
use super::FileId;
use super::Generation;
use super::KernelSymbol;
use super::Mapping;
use super::Space;
use super::Timeline;
use super::narrow;

/// The longest chain of parents that a lookup follows; longer ones are made into one parent.
pub(super) const MAX_DEPTH: u32 = 8;

/// A timeline that is being made.
#[derive(Default)]
pub(super) struct Builder<'a> {
    processes: FxHashMap<Pid, Vec<Generation>>,
    spaces: Vec<SpaceBuilder>,
    threads: FxHashMap<Tid, Vec<(Moment, CommId)>>,
    kernel_maps: SpansBuilder,
    kernel_symbols: SpansBuilder,
    mappings: Vec<Mapping>,
    mapping_ids: FxHashMap<Mapping, u32>,
    pub(super) ksymbols: Vec<KernelSymbol>,
    untold: Untold<'a>,
    /// How many generations each process will have.
    n_generations: FxHashMap<Pid, usize>,
    /// Mappings without a time, for the last generation of their process.
    late_maps: FxHashMap<Pid, Vec<(u64, u64, u32)>>,
}

#[derive(Default)]
struct SpaceBuilder {
    own: SpansBuilder,
    parent: Option<(u32, Moment)>,
    depth: u32,
}

impl<'a> Builder<'a> {
    /// One for `facts`, which are yet to be applied, and for those that came `late`.
    pub(super) fn new(facts: &[(Moment, Fact)], late: Vec<Fact>, untold: Untold<'a>) -> Self {
        let mut this = Self { untold, ..Self::default() };
        for (_, fact) in facts {
            match *fact {
                Fact::Fork { pid, ppid, .. } if pid != ppid => {
                    *this.n_generations.entry(pid).or_default() += 1;
                }
                Fact::Comm { pid, is_exec: true, .. } => {
                    *this.n_generations.entry(pid).or_default() += 1;
                }
                _ => {}
            }
        }
        for fact in late {
            match fact {
                Fact::Map { pid: Some(pid), start, end, mapping } => {
                    let owner = this.mapping_id(mapping);
                    this.late_maps.entry(pid).or_default().push((start, end, owner));
                }
                // What is not of a process holds from the beginning.
                fact => this.apply(Moment::START, fact),
            }
        }
        let unforked: Vec<Pid> = this
            .late_maps
            .keys()
            .copied()
            .filter(|pid| !this.n_generations.contains_key(pid))
            .collect();
        for pid in unforked {
            this.begin_generation(pid, Moment::START, None);
        }
        this
    }

    /// Takes in what is so from `now` on, which is no earlier than what was before.
    pub(super) fn apply(&mut self, now: Moment, fact: Fact) {
        match fact {
            Fact::Map { pid: None, start, end, mapping } => {
                let owner = self.mapping_id(mapping);
                self.kernel_maps.cover(start, end, now, owner);
            }
            Fact::Map { pid: Some(pid), start, end, mapping } => {
                let space = self.space_of(pid) as usize;
                let instead_of = self.code_file_at(space, &mapping, start, end);
                let owner = self.own_mapping_id(pid, Mapping { instead_of, ..mapping });
                let rests = if mapping.jit_pid == Pid(0) {
                    vec![(start, end)]
                } else {
                    self.without_code(space, start, end)
                };
                for (start, end) in rests {
                    self.spaces[space].own.cover(start, end, now, owner);
                }
            }
            Fact::Code { pid, start, end, mapping } => {
                let space = self.space_of(pid);
                let owner = self.own_mapping_id(pid, mapping);
                self.spaces[space as usize].own.cover(start, end, now, owner);
            }
            Fact::Comm { pid, tid, comm, is_exec } => {
                if is_exec && !self.is_begun(pid, now) {
                    let old_space = self.space_of(pid);
                    self.begin_generation(pid, now, None);
                    let generation = self.processes.get_mut(&pid).and_then(|it| it.last_mut());
                    if let Some(generation) = generation {
                        generation.before_exec = Some(old_space);
                    }
                }
                self.threads.entry(tid).or_default().push((now, comm));
            }
            Fact::Fork { pid, ppid, tid, ptid, is_exec } => {
                if pid != ppid && !self.is_begun(pid, now) {
                    let parent = (!is_exec).then(|| self.space_of(ppid));
                    self.begin_generation(pid, now, parent);
                }
                let inherited = self.threads.get(&ptid).and_then(|it| it.last()).map(|it| it.1);
                if let Some(comm) = inherited {
                    self.threads.entry(tid).or_default().push((now, comm));
                }
            }
            Fact::Register(symbol) => {
                let owner = narrow(self.ksymbols.len());
                self.kernel_symbols.begin(symbol.start, symbol.end, now, owner);
                self.ksymbols.push(symbol);
            }
            Fact::Unregister(start) => {
                if self.kernel_symbols.live_at(start).is_none() {
                    self.untold.orphan(start, now);
                }
                self.kernel_symbols.end(start, now);
            }
            Fact::Load(id) => {
                self.untold.load(id, now, &mut self.kernel_symbols, &self.ksymbols);
            }
            Fact::Unload(id) => {
                self.untold.unload(id, now, &mut self.kernel_symbols, &self.ksymbols);
            }
        }
    }

    /// The file whose code was in a range where `mapping` is of none.
    fn code_file_at(
        &self,
        space: usize,
        mapping: &Mapping,
        start: u64,
        end: u64,
    ) -> Option<FileId> {
        let is_made = |it: &Mapping| it.jit_pid != Pid(0);
        let before = self.spaces[space].own.live_in(start, end).next().filter(|_| is_made(mapping));
        let before = &self.mappings[before?.owner as usize];
        if is_made(before) {
            before.instead_of
        } else {
            before.is_executable.then_some(before.file)
        }
    }

    /// What is left of a range of memory beside the code in it, which may be told of before the kernel
    /// tells that code may run there.
    fn without_code(&self, space: usize, start: u64, end: u64) -> Vec<(u64, u64)> {
        let mut rests = Vec::new();
        let mut from = start;
        let live = self.spaces[space].own.live_in(start, end);
        for code in live.filter(|it| self.mappings[it.owner as usize].jit_code.is_some()) {
            rests.push((from, code.start.min(end)));
            from = from.max(code.end);
        }
        rests.push((from, end));
        rests.retain(|(start, end)| start < end);
        rests
    }

    /// The number of `mapping` by `pid`, which made what has no file itself, as the process that it is now.
    fn own_mapping_id(&mut self, pid: Pid, mut mapping: Mapping) -> u32 {
        if mapping.jit_pid != Pid(0) {
            let n_begun = self.processes.get(&pid).map_or(0, Vec::len);
            mapping.jit_generation = narrow(n_begun.saturating_sub(1));
        }
        self.mapping_id(mapping)
    }

    fn mapping_id(&mut self, mapping: Mapping) -> u32 {
        *self.mapping_ids.entry(mapping).or_insert_with(|| {
            self.mappings.push(mapping);
            narrow(self.mappings.len() - 1)
        })
    }

    /// The space that `pid` has now; one that nothing told of began with the recording.
    fn space_of(&mut self, pid: Pid) -> u32 {
        match self.processes.get(&pid).and_then(|it| it.last()) {
            Some(generation) => generation.space,
            None => self.begin_generation(pid, Moment::START, None),
        }
    }

    /// Whether `pid` has begun at `now` already, if that is the beginning of all: of what has no
    /// time, one beginning of a process is as good as many.
    fn is_begun(&self, pid: Pid, now: Moment) -> bool {
        now == Moment::START && self.processes.contains_key(&pid)
    }

    fn begin_generation(&mut self, pid: Pid, now: Moment, parent: Option<u32>) -> u32 {
        let mut space = SpaceBuilder::default();
        if let Some(parent) = parent {
            self.inherit(&mut space, parent, now);
        }
        let generations = self.processes.entry(pid).or_default();
        // A generation that nothing told the start of does not count as one of those to come.
        let n_begun =
            generations.len() - generations.partition_point(|it| it.from == Moment::START);
        let n_coming = self.n_generations.get(&pid).copied().unwrap_or(0);
        let is_last = n_begun + usize::from(now != Moment::START) >= n_coming;
        let idx = narrow(self.spaces.len());
        generations.push(Generation { from: now, space: idx, before_exec: None });
        if is_last {
            for (start, end, owner) in self.late_maps.get(&pid).cloned().unwrap_or_default() {
                let owner = self.own_mapping_id(pid, self.mappings[owner as usize]);
                space.own.cover(start, end, now, owner);
            }
        }
        self.spaces.push(space);
        idx
    }

    /// Gives `space` what `parent` has now, by reference.
    fn inherit(&mut self, space: &mut SpaceBuilder, parent: u32, now: Moment) {
        let mut parent = (parent, now);
        // A parent with nothing of its own passes on its own parent.
        while self.spaces[parent.0 as usize].own.is_empty() {
            match self.spaces[parent.0 as usize].parent {
                Some(grandparent) => parent = grandparent,
                None => return,
            }
        }
        if self.spaces[parent.0 as usize].depth + 1 >= MAX_DEPTH {
            self.shorten(parent.0);
        }
        space.parent = Some(parent);
        space.depth = self.spaces[parent.0 as usize].depth + 1;
    }

    /// Gives `space` one parent in the place of a chain of them, once for all of its children: what
    /// the chain passed on does not change any more.
    fn shorten(&mut self, space: u32) {
        let Some(first) = self.spaces[space as usize].parent else { return };
        let now = first.1;
        let mut chain = vec![first];
        while let Some(next) = chain.last().and_then(|it| self.spaces[it.0 as usize].parent) {
            chain.push(next);
        }
        let mut whole = SpaceBuilder::default();
        for (ancestor, moment) in chain.into_iter().rev() {
            let mut alive: Vec<_> = self.spaces[ancestor as usize]
                .own
                .all()
                .filter(|it| it.from <= moment && moment < it.until)
                .collect();
            alive.sort_unstable_by_key(|it| it.start);
            for span in alive {
                whole.own.cover(span.start, span.end, now, span.owner);
            }
        }
        let idx = narrow(self.spaces.len());
        self.spaces.push(whole);
        let space = &mut self.spaces[space as usize];
        space.parent = Some((idx, now));
        space.depth = 1;
    }

    /// The timeline of all that was taken in.
    pub(super) fn finish(self) -> Timeline {
        let (untold, mut symbols) = self.untold.finish(&self.kernel_symbols, &self.ksymbols);
        let mut ksymbols = self.ksymbols;
        ksymbols.append(&mut symbols);
        let build = |it: SpaceBuilder| Space { own: it.own.build(), parent: it.parent };
        Timeline {
            processes: self.processes,
            spaces: self.spaces.into_iter().map(build).collect(),
            threads: self.threads,
            kernel_maps: self.kernel_maps.build(),
            kernel_symbols: self.kernel_symbols.build(),
            untold,
            mappings: self.mappings,
            ksymbols,
        }
    }
}
