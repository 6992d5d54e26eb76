//! Samples by function and address within it, for code that is shown instruction by instruction.

use std::collections::BTreeMap;
use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::replay::Programs;
use crate::replay::programs::FunctionId;
use crate::replay::resolved::DsoId;
use crate::replay::resolved::EventIdx;
use crate::replay::resolved::Location;
use crate::replay::resolved::Resolved;
use crate::replay::resolved::SymbolId;
use crate::replay::timeline::Owner;
use crate::replay::timeline::Timeline;
use crate::units::Addr;
use crate::units::Nanos;

use super::Error;
use super::Filter;
use super::Weight;

/// A function, whatever others have the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// A function of a BPF program.
    Bpf(FunctionId),
    /// Kernel code that a `KSYMBOL` record tells of and that is of no known program.
    Image(u32),
    /// A symbol in what a mapping maps; the mapping is one of possibly many.
    Mapped {
        /// The number of the mapping.
        mapping: u32,
        /// The symbol.
        symbol: SymbolId,
    },
}

/// A function and the samples in it, those of its callees not among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionSamples {
    /// The function.
    pub place: Place,
    /// Its name.
    pub symbol: Option<SymbolId>,
    /// Its module.
    pub dso: Option<DsoId>,
    /// The time of its first sample.
    pub first: Nanos,
    /// What fell on it, by event.
    pub totals: Vec<Weight>,
    by_addr: BTreeMap<(Addr, EventIdx), Weight>,
}

impl FunctionSamples {
    /// A function without samples in a recording of `n_events` events.
    pub fn none(place: Place, n_events: usize) -> Self {
        Self {
            place,
            symbol: None,
            dso: None,
            first: Nanos(0),
            totals: vec![Weight::default(); n_events],
            by_addr: BTreeMap::new(),
        }
    }

    /// Counts `weight` at `addr`; that of an event which the recording does not have is dropped.
    pub(super) fn add(&mut self, addr: Addr, event: EventIdx, weight: Weight) {
        if let Some(total) = self.totals.get_mut(event.0 as usize) {
            *total += weight;
            *self.by_addr.entry((addr, event)).or_default() += weight;
        }
    }

    /// The same with `to_code` done to each address; what it gives no address for has none.
    #[must_use]
    pub fn at(&self, to_code: impl Fn(Addr) -> Option<Addr>) -> Self {
        let mut by_addr: BTreeMap<(Addr, EventIdx), Weight> = BTreeMap::new();
        for (&(addr, event), &weight) in &self.by_addr {
            if let Some(addr) = to_code(addr) {
                *by_addr.entry((addr, event)).or_default() += weight;
            }
        }
        Self { by_addr, totals: self.totals.clone(), ..*self }
    }

    /// What fell on the addresses in `range`, by event; `None` where nothing did.
    pub fn within(&self, range: Range<Addr>) -> Option<Vec<Weight>> {
        let (start, end) = (range.start, range.end.max(range.start));
        let mut found = self.by_addr.range((start, EventIdx(0))..(end, EventIdx(0))).peekable();
        found.peek()?;
        let mut weights = vec![Weight::default(); self.totals.len()];
        for (&(_, EventIdx(event)), &weight) in found {
            if let Some(sum) = weights.get_mut(event as usize) {
                *sum += weight;
            }
        }
        Some(weights)
    }
}

/// The functions of `resolved` that have samples, in order of first occurrence.
///
/// What the filter does not show is left out. Programs of BPF are told apart by `programs`, files by
/// `timeline`.
///
/// # Errors
///
/// [`Error::NoCpu`] where the filter asks for CPUs, and samples do not carry theirs.
pub fn functions(
    resolved: &Resolved,
    timeline: &Timeline,
    programs: &Programs<'_>,
    filter: &Filter,
) -> Result<Vec<FunctionSamples>, Error> {
    let sieve = filter.sieve(resolved);
    let n_events = resolved.events.len();
    let mut found: Vec<FunctionSamples> = Vec::new();
    let mut ids: FxHashMap<(Place, u32), usize> = FxHashMap::default();
    for group in &resolved.groups {
        let event = group.event.0 as usize;
        if !filter.cpus.is_empty() && group.cpu.is_none() {
            let name = resolved.events.get(event).map(|it| it.name.clone());
            return Err(Error::NoCpu { event: name.unwrap_or_default() });
        }
        if n_events <= event || !sieve.counts(group) || !sieve.shows(group) {
            continue;
        }
        let location = &resolved.locations[group.location.0 as usize];
        let Some(place) = place(location, programs) else { continue };
        // Mappings of one file hold one function, whichever is met first.
        let key = match place {
            Place::Mapped { mapping, symbol } => {
                let file = timeline.mapping(mapping).file.0;
                (Place::Mapped { mapping: 0, symbol }, file)
            }
            place => (place, 0),
        };
        let idx = *ids.entry(key).or_insert_with(|| {
            let Location { symbol, dso, .. } = *location;
            let first = group.first;
            let none = FunctionSamples::none(place, n_events);
            found.push(FunctionSamples { symbol, dso, first, ..none });
            found.len() - 1
        });
        let weight = Weight { period: group.period, n_samples: group.n_samples };
        let function = &mut found[idx];
        function.first = function.first.min(group.first);
        function.add(location.addr, group.event, weight);
    }
    Ok(found)
}

/// The function at `location`; `None` where no name is sure.
fn place(location: &Location, programs: &Programs<'_>) -> Option<Place> {
    match location.owner? {
        Owner::Ksymbol(ksymbol) => {
            Some(programs.of_ksymbol(ksymbol).map_or(Place::Image(ksymbol), Place::Bpf))
        }
        Owner::Mapping(mapping) => Some(Place::Mapped { mapping, symbol: location.symbol? }),
    }
}

#[cfg(test)]
mod tests {
    use crate::profile::testing::Samples;

    use super::*;

    /// The functions of `samples`, all of whose locations are of the mapping 0, by name, with the
    /// samples at each address from the function's first on.
    fn functions_in(samples: &Samples, filter: &Filter) -> Vec<(String, Vec<(u64, Weight)>)> {
        let resolved = &samples.resolved;
        let timeline = Samples::timeline();
        let found = functions(resolved, &timeline, &Programs::default(), filter).unwrap();
        let name =
            |it: &FunctionSamples| resolved.symbols[it.symbol.unwrap().0 as usize].name.clone();
        let start = |it: &FunctionSamples| resolved.symbols[it.symbol.unwrap().0 as usize].start;
        let at = |it: &FunctionSamples| {
            it.by_addr.iter().map(|(key, weight)| (key.0 - start(it), *weight)).collect()
        };
        found.iter().map(|it| (name(it), at(it))).collect()
    }

    fn weight(period: u64, n_samples: u64) -> Weight {
        Weight { period, n_samples }
    }

    #[test]
    fn a_function_has_the_samples_in_itself_and_not_those_of_its_callees() {
        let mut samples = Samples::new();
        samples.add("a", 1, &["leaf", "main"], 10).add("b", 2, &["leaf", "main"], 5);
        samples.add("a", 1, &["main"], 3).add("a", 1, &["0x999"], 7);
        samples.own_all();
        let want = [
            ("leaf".to_owned(), vec![(0, weight(15, 2))]),
            ("main".to_owned(), vec![(0, weight(3, 1))]),
        ];
        assert_eq!(functions_in(&samples, &Filter::default()), want);
    }

    #[test]
    fn what_the_filter_does_not_show_is_left_out() {
        let mut samples = Samples::new();
        samples.add("a", 1, &["one"], 10).add("b", 2, &["one"], 5).add("b", 2, &["lib:two"], 5);
        samples.own_all();
        let cpus = Filter { cpus: vec![1], ..Filter::default() };
        assert_eq!(functions_in(&samples, &cpus), [("one".to_owned(), vec![(0, weight(10, 1))])]);
        let dsos = Filter { dsos: vec!["lib".to_owned()], ..Filter::default() };
        assert_eq!(functions_in(&samples, &dsos), [("two".to_owned(), vec![(0, weight(5, 1))])]);
    }

    #[test]
    fn kernel_code_of_the_same_name_stays_apart_by_its_symbol() {
        let mut samples = Samples::new();
        samples.add("a", 1, &["prog"], 10);
        samples.own_all();
        let first = samples.resolved.locations[0];
        samples.resolved.locations[0].owner = Some(Owner::Ksymbol(3));
        samples.add("a", 1, &["prog"], 4);
        let again = crate::replay::resolved::LocationId(1);
        samples.resolved.locations.push(Location { owner: Some(Owner::Ksymbol(4)), ..first });
        samples.resolved.groups[1].location = again;
        let found = functions_in(&samples, &Filter::default());
        let want = [
            ("prog".to_owned(), vec![(0, weight(10, 1))]),
            ("prog".to_owned(), vec![(0, weight(4, 1))]),
        ];
        assert_eq!(found, want);
    }
}
