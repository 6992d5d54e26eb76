//! The part of a row's key that is where: locations that fall into the same row are one site.

use rustc_hash::FxHashMap;

use super::Column;
use super::Plan;
use super::Role;
use crate::replay::resolved::Location;
use crate::replay::resolved::LocationId;
use crate::replay::resolved::Resolved;
use crate::replay::resolved::Symbol;
use crate::replay::timeline::Owner;

/// Which site each location is at, as a sampled address and as a caller.
///
/// Both are the same where there is a symbol. Where there is none, perf tells samples apart by the
/// address in the module, callers by the address in the process.
#[derive(Debug)]
pub(super) struct Sites {
    sampled: Vec<u32>,
    callers: Vec<u32>,
    len: usize,
}

/// What makes two locations one site.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    /// The module's short name, where rows differ in it or a symbol needs it.
    dso: Option<u32>,
    place: Place,
    /// What columns about BPF programs say.
    label: u32,
}

#[derive(PartialEq, Eq, Hash)]
enum Place {
    Any,
    /// The one function that the module is.
    Module,
    /// A function of a kernel symbol, by its name: wherever it is loaded, it is the same one.
    Function(u32),
    /// A function by its name, too: two files of one path, as of two containers, may have other ones
    /// there.
    Symbol {
        start: u64,
        end: u64,
        name: u32,
    },
    /// A function by its name, where others may begin at the same address: one that was inlined there,
    /// or that a process made there at some time.
    Named(u32, u64),
    Addr(u64),
}

impl Sites {
    pub(super) fn new(resolved: &Resolved, plan: &Plan, name_ids: &[u32]) -> Self {
        let by_dso = plan.order.contains(&Column::Dso);
        let by_symbol = plan.is_by_symbol();
        let dso_names = dso_names(resolved);
        let mut ids = FxHashMap::default();
        // Addresses outside all modules, which may be most of what there is.
        let mut outside = FxHashMap::default();
        let mut len = 0_u32;
        let mut id = |idx: u32, location: &Location, role: Role| {
            let name = location.dso.map(|it| dso_names[it.0 as usize]);
            let symbol = location.symbol.map(|it| &resolved.symbols[it.0 as usize]);
            let function = location.symbol.map_or(0, |it| name_ids[it.0 as usize]);
            let by_name = name.filter(|_| by_dso);
            let (dso, place) = match symbol {
                _ if !by_symbol => (by_name, Place::Any),
                Some(symbol) if is_own_module(symbol, resolved) => (name, Place::Module),
                Some(symbol) if symbol.is_inlined || is_self_made(symbol, resolved) => {
                    (name, Place::Named(function, symbol.start.0))
                }
                Some(_) if matches!(location.owner, Some(Owner::Ksymbol(_))) => {
                    (name, Place::Function(function))
                }
                Some(symbol) => {
                    let (start, end) = (symbol.start.0, symbol.end.0);
                    (name, Place::Symbol { start, end, name: function })
                }
                None => {
                    let addr = match role {
                        Role::Sampled if resolved.is_of_branches() => location.ip,
                        Role::Sampled => location.addr,
                        Role::Caller => location.ip,
                    };
                    (by_name, Place::Addr(addr.0))
                }
            };
            let label = plan.labels.combined(LocationId(idx), role);
            let id = match (dso, place) {
                (None, Place::Addr(addr)) => *outside.entry((addr, label)).or_insert(len),
                (dso, place) => *ids.entry(Key { dso, place, label }).or_insert(len),
            };
            len = len.max(id.checked_add(1).expect("two sites at most for a location"));
            id
        };
        let locations = || (0..).zip(&resolved.locations);
        let sampled: Vec<u32> = locations().map(|(idx, it)| id(idx, it, Role::Sampled)).collect();
        let has_labels = !plan.labels.is_empty();
        let caller = |((idx, it), sampled): ((u32, &Location), &u32)| {
            // The same, but for the address.
            let is_same = !has_labels && (it.symbol.is_some() || it.addr == it.ip);
            if is_same { *sampled } else { id(idx, it, Role::Caller) }
        };
        let callers = locations().zip(&sampled).map(caller).collect();
        Self { sampled, callers, len: len as usize }
    }

    /// The site of a sampled address.
    pub(super) fn sampled(&self, LocationId(id): LocationId) -> u32 {
        self.sampled[id as usize]
    }

    /// The site of a caller.
    pub(super) fn caller(&self, LocationId(id): LocationId) -> u32 {
        self.callers[id as usize]
    }

    /// How many sites there are; they are numbered from 0.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

/// Whether `symbol` is a module by itself, as a BPF function is: wherever it is loaded, it is the
/// same one.
fn is_own_module(symbol: &Symbol, resolved: &Resolved) -> bool {
    resolved.dsos[symbol.dso.0 as usize].short_name == symbol.name
}

/// Whether a process made the code of `symbol` itself, and may have made other code there later.
fn is_self_made(symbol: &Symbol, resolved: &Resolved) -> bool {
    resolved.dsos[symbol.dso.0 as usize].short_name.starts_with("[JIT] ")
}

/// For each module a number that modules of the same short name share.
fn dso_names(resolved: &Resolved) -> Vec<u32> {
    let mut ids = FxHashMap::default();
    let id = |next: usize, name| *ids.entry(name).or_insert(next);
    let names = resolved.dsos.iter().map(|it| it.short_name.as_str()).enumerate();
    let mut id = id;
    names.map(|(next, name)| u32::try_from(id(next, name)).unwrap_or(u32::MAX)).collect()
}
