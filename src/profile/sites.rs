//! The part of a row's key that is where: locations that fall into the same row are one site.

use rustc_hash::FxHashMap;

use super::Column;
use super::Plan;
use crate::replay::resolved::Location;
use crate::replay::resolved::LocationId;
use crate::replay::resolved::Resolved;
use crate::replay::resolved::Symbol;

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
}

#[derive(PartialEq, Eq, Hash)]
enum Place {
    Any,
    /// The one function that the module is.
    Module,
    Symbol {
        start: u64,
        end: u64,
    },
    Addr(u64),
}

impl Sites {
    pub(super) fn new(resolved: &Resolved, plan: &Plan) -> Self {
        let by_dso = plan.order.contains(&Column::Dso);
        let by_symbol = plan.order.contains(&Column::Symbol);
        let dso_names = dso_names(resolved);
        let mut ids = FxHashMap::default();
        let mut id = |location: &Location, addr: u64| {
            let name = location.dso.map(|it| dso_names[it.0 as usize]);
            let symbol = location.symbol.map(|it| &resolved.symbols[it.0 as usize]);
            let key = match symbol {
                _ if !by_symbol => Key { dso: name.filter(|_| by_dso), place: Place::Any },
                Some(symbol) if is_own_module(symbol, resolved) => {
                    Key { dso: name, place: Place::Module }
                }
                Some(symbol) => Key {
                    dso: name,
                    place: Place::Symbol { start: symbol.start.0, end: symbol.end.0 },
                },
                None => Key { dso: name.filter(|_| by_dso), place: Place::Addr(addr) },
            };
            let next = u32::try_from(ids.len()).expect("two sites at most for a location");
            *ids.entry(key).or_insert(next)
        };
        let sampled = resolved.locations.iter().map(|it| id(it, it.addr.0)).collect();
        let callers = resolved.locations.iter().map(|it| id(it, it.ip.0)).collect();
        Self { sampled, callers, len: ids.len() }
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

/// For each module a number that modules of the same short name share.
fn dso_names(resolved: &Resolved) -> Vec<u32> {
    let mut ids = FxHashMap::default();
    let id = |next: usize, name| *ids.entry(name).or_insert(next);
    let names = resolved.dsos.iter().map(|it| it.short_name.as_str()).enumerate();
    let mut id = id;
    names.map(|(next, name)| u32::try_from(id(next, name)).unwrap_or(u32::MAX)).collect()
}
