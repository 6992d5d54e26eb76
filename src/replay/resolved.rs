//! What replay hands to [`profile`](crate::profile): the recording boiled down to its distinct
//! combinations, each with its weight.

use crate::units::Addr;
use crate::units::Nanos;
use crate::units::Pid;
use crate::units::Tid;

use super::DetailValue;
use super::Ends;
use super::timeline::Owner;

/// An index into [`Resolved::events`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventIdx(pub u32);

/// An index into [`Resolved::comms`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommId(pub u32);

/// An index into [`Resolved::dsos`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DsoId(pub u32);

/// An index into [`Resolved::symbols`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SymbolId(pub u32);

/// An index into [`Resolved::locations`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocationId(pub u32);

/// An index into [`Stacks`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackId(pub u32);

/// The samples of a recording, grouped by what was asked to be kept apart.
#[derive(Debug, Default)]
pub struct Resolved {
    /// The recorded events, in the order of the file.
    pub events: Vec<EventInfo>,
    /// The groups in which events were recorded; they share no event.
    pub event_groups: Vec<EventGroup>,
    /// What fell on each combination, in order of first occurrence.
    pub groups: Vec<Group>,
    /// Distinct addresses, named.
    pub locations: Vec<Location>,
    /// Call chains.
    pub stacks: Stacks,
    /// Distinct symbols.
    pub symbols: Vec<Symbol>,
    /// Distinct modules.
    pub dsos: Vec<Dso>,
    /// Distinct files of source, by the paths that the compilers noted.
    pub source_files: Vec<String>,
    /// Distinct command names, raw bytes.
    pub comms: Vec<Vec<u8>>,
    /// What else tells groups apart.
    pub details: Vec<Details>,
    /// Where branches are counted, the samples of each event; else empty.
    pub n_branching: Vec<u64>,
    /// Samples whose call chain does not fit into their record: they count without it.
    pub n_bad_chains: u64,
    /// How the unwinding of samples' stacks ended.
    pub ends: Ends,
}

impl Resolved {
    /// Leaves out the samples without a symbol, and the frames without one of the call chains of others.
    pub fn hide_unresolved(&mut self) {
        let Self { groups, locations, stacks, details, .. } = self;
        let is_named = |LocationId(id): &LocationId| {
            locations.get(*id as usize).is_some_and(|it| it.symbol.is_some())
        };
        let comes_from_named = |it: &Group| {
            let details = it.details.and_then(|it| details.get(it.0 as usize));
            details.and_then(|it| it.from).is_none_or(|it| is_named(&it))
        };
        groups.retain(|it| is_named(&it.location) && comes_from_named(it));
        let mut named = Stacks::default();
        for id in (0..).map(StackId).take(stacks.len()) {
            named.push(stacks.get(id).iter().copied().filter(is_named));
        }
        *stacks = named;
    }

    /// Whether its groups are branches, at where they went to.
    pub fn is_of_branches(&self) -> bool {
        !self.n_branching.is_empty()
    }

    /// Has each chain begin at the outermost of its functions whose name `is_first` knows, which is then
    /// what was sampled.
    pub fn begin_chains_at(&mut self, is_first: impl Fn(&str) -> bool) {
        let Self { groups, locations, symbols, stacks, .. } = self;
        let symbols: Vec<_> = symbols.iter().map(|it| is_first(&it.name)).collect();
        let is_first = |LocationId(id): &LocationId| {
            let symbol = locations.get(*id as usize).and_then(|it| it.symbol);
            symbol.is_some_and(|it| symbols.get(it.0 as usize) == Some(&true))
        };
        let mut cut = Stacks::default();
        let mut first = Vec::with_capacity(stacks.len());
        for id in (0..).map(StackId).take(stacks.len()) {
            let chain = stacks.get(id);
            let start = chain.iter().rposition(is_first);
            first.push(start.and_then(|it| chain.get(it)).copied());
            cut.push(chain.iter().copied().skip(start.unwrap_or(0)));
        }
        *stacks = cut;
        for group in groups {
            let first = group.stack.and_then(|it| first.get(it.0 as usize)).copied().flatten();
            group.location = first.unwrap_or(group.location);
        }
    }

    /// Whether a location is that of a function that was inlined.
    pub fn is_inlined(&self, LocationId(id): LocationId) -> bool {
        let symbol = self.locations.get(id as usize).and_then(|it| it.symbol);
        symbol.and_then(|it| self.symbols.get(it.0 as usize)).is_some_and(|it| it.is_inlined)
    }
}

/// One event of the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventInfo {
    /// The name as the recorder stored it, for example `cpu-clock:u`.
    pub name: String,
    /// Whether its samples carry a call chain.
    pub has_callchain: bool,
    /// Samples that the kernel says it lost (`PERF_RECORD_LOST_SAMPLES`).
    pub n_lost: u64,
}

/// Events that were counted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventGroup {
    /// Its name; `None` where it has none.
    pub name: Option<String>,
    /// Its events, the leader first.
    pub events: Vec<EventIdx>,
}

/// A combination of the kept dimensions, and what fell on it. Each thread that resolves samples makes
/// its own of what it meets, so that a few are alike, and count together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// The event that was sampled.
    pub event: EventIdx,
    /// The command name of the sampled thread at the time.
    pub comm: CommId,
    /// The last command name that the thread `tid` had in the recording (of the generation that
    /// was sampled, where its id was reused). Never keeps groups apart; perf sizes its columns by
    /// it and shows it beside thread ids.
    pub last_comm: CommId,
    /// The last command name of the first thread of the process, where [`Keep::thread`] keeps those apart;
    /// else that of the thread.
    pub leader_comm: CommId,
    /// The process; [`Keep::thread`] says whether it is kept apart, else that of the first sample.
    pub pid: Pid,
    /// The thread, likewise.
    pub tid: Tid,
    /// The CPU, likewise by [`Keep::cpu`]; `None` where the samples do not carry it.
    pub cpu: Option<u32>,
    /// The sampled address.
    pub location: LocationId,
    /// The call chain, where the samples carry one and [`Keep::stack`] asks for it.
    pub stack: Option<StackId>,
    /// What else was asked for.
    pub details: Option<DetailsId>,
    /// The sum of the periods.
    pub period: u64,
    /// The number of samples.
    pub n_samples: u64,
    /// The time of the first of them.
    pub first: Nanos,
}

/// An index into [`Resolved::details`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DetailsId(pub u32);

/// What tells groups apart besides their dimensions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// Where the branch came from, where branches are counted.
    pub from: Option<LocationId>,
    /// The values of the [`Detail`](super::Detail)s that were asked for, in their order.
    pub values: Vec<DetailValue>,
}

/// Which dimensions keep groups apart besides event, command name and address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a dimension by itself")]
pub struct Keep {
    /// Process and thread id.
    pub thread: bool,
    /// CPU.
    pub cpu: bool,
    /// Call chain.
    pub stack: bool,
    /// Addresses within a function, where call chains are not kept; else one of them stands for all.
    pub address: bool,
}

/// A distinct address of a module, with its name, or a function that was inlined there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// The address in the process, as sampled.
    pub ip: Addr,
    /// The address in the module (`ip - mapping start + pgoff`), equal to `ip` for the kernel, for
    /// BPF and where there is no module.
    pub addr: Addr,
    /// The same address as the file's linker knew it, where the file is known; else `addr`.
    pub linked: Addr,
    /// What covered the address at its time, which tells apart what has the same name; `None` where
    /// nothing did.
    pub owner: Option<Owner>,
    /// The module; `None` where no mapping covered the address.
    pub dso: Option<DsoId>,
    /// The symbol; `None` where no name is sure.
    pub symbol: Option<SymbolId>,
    /// How far into the symbol it is, in bytes; 0 without one.
    pub symbol_offset: u64,
    /// The privilege level, perf's `al->level`.
    pub level: Level,
    /// The line of source where this function is: of what runs, or of the call of what was inlined
    /// into it; `None` where nothing is known, and where lines were not asked for.
    pub line: Option<SourceLine>,
    /// The line of source of what runs, whatever was inlined.
    pub running_line: Option<SourceLine>,
}

/// A line of source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceLine {
    /// An index into [`Resolved::source_files`].
    pub file: u32,
    /// The number of the line, from 1; 0 for code that comes from none.
    pub line: u32,
}

/// The privilege level of an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// `[k]`
    Kernel,
    /// `[.]`
    #[default]
    User,
    /// `[g]`
    GuestKernel,
    /// `[u]`
    GuestUser,
    /// `[H]`
    Hypervisor,
}

impl Level {
    /// The letter that perf shows between brackets before a symbol.
    pub fn letter(self) -> char {
        match self {
            Self::Kernel => 'k',
            Self::User => '.',
            Self::GuestKernel => 'g',
            Self::GuestUser => 'u',
            Self::Hypervisor => 'H',
        }
    }
}

/// A named range of addresses of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// The name, demangled.
    pub name: String,
    /// The module it belongs to.
    pub dso: DsoId,
    /// The first address, in the module's addresses.
    pub start: Addr,
    /// One past the last address.
    pub end: Addr,
    /// Whether it has no code of its own: it was inlined into the function that has these addresses.
    pub is_inlined: bool,
}

/// A module: an ELF file, the kernel, a kernel module, a BPF function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dso {
    /// The short name that `report` shows: the file name without its folder, `[kernel.kallsyms]`.
    pub short_name: String,
    /// The long name that `script` shows: the path.
    pub long_name: String,
}

/// Call chains, each a list of locations, the sampled function first, its callers after. Few are alike:
/// those that several threads have met.
#[derive(Clone, Debug, Default)]
pub struct Stacks {
    starts: Vec<u64>,
    frames: Vec<LocationId>,
}

impl Stacks {
    /// Adds a chain and returns its id.
    pub fn push(&mut self, frames: impl IntoIterator<Item = LocationId>) -> StackId {
        let id = u32::try_from(self.starts.len()).expect("fewer than 2^32 distinct stacks");
        self.starts.push(self.frames.len() as u64);
        self.frames.extend(frames);
        StackId(id)
    }

    /// The chain of `id`, the sampled function first.
    pub fn get(&self, StackId(id): StackId) -> &[LocationId] {
        let id = id as usize;
        let position = |idx: usize| self.starts.get(idx).and_then(|&it| usize::try_from(it).ok());
        let Some(start) = position(id) else { return &[] };
        self.frames.get(start..position(id + 1).unwrap_or(self.frames.len())).unwrap_or_default()
    }

    /// How many chains there are.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_read_back_by_its_id() {
        let mut stacks = Stacks::default();
        let one = stacks.push([LocationId(3), LocationId(1)]);
        let none = stacks.push([]);
        let two = stacks.push([LocationId(7)]);
        assert_eq!(stacks.get(one), [LocationId(3), LocationId(1)]);
        assert_eq!(stacks.get(none), []);
        assert_eq!(stacks.get(two), [LocationId(7)]);
        assert_eq!(stacks.get(StackId(9)), []);
    }
}
