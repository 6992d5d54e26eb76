//! The BPF bill: what each BPF program cost.

use std::ops::AddAssign;

use rustc_hash::FxHashMap;

use crate::replay::Programs;
use crate::replay::programs::Program;
use crate::replay::programs::ProgramIdx;
use crate::replay::resolved::EventIdx;
use crate::replay::resolved::Group;
use crate::replay::resolved::Level;
use crate::replay::resolved::Location;
use crate::replay::resolved::LocationId;
use crate::replay::resolved::Resolved;
use crate::replay::resolved::SymbolId;
use crate::replay::timeline::Owner;
use crate::symbols::is_interrupt_entry;
use crate::units::Addr;

use super::Error;
use super::Filter;
use super::Totals;

/// What each BPF program of a recording cost, by its samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bill {
    /// The events that have samples, in the order of the recording.
    pub events: Vec<Billed>,
    /// One for each program, in the order of [`Programs::all`].
    pub items: Vec<Item>,
}

/// An event, and how much of it fell on BPF programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Billed {
    /// The event.
    pub event: EventIdx,
    /// Its samples: all, and those that the filter shows.
    pub totals: Totals,
    /// The shown samples that lie in a program.
    pub own: Weight,
    /// The shown samples that have a program on their stack, as in [`Charge::total`].
    pub total: Weight,
}

/// What one program cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The program.
    pub program: ProgramIdx,
    /// Its samples of each of [`Bill::events`].
    pub charges: Vec<Charge>,
}

/// The samples of one event that one program caused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Charge {
    /// Those that lie in it.
    pub own: Weight,
    /// Those that have it on their stack: its own, and those of what it called. What an interrupt did
    /// while it ran is not among them.
    pub total: Weight,
    /// What it called, the heaviest first, where that was asked for.
    pub callees: Vec<Callee>,
    /// The lines of its source, the heaviest first, where that was asked for.
    pub lines: Vec<HotLine>,
}

/// A number of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight {
    /// The sum of their periods, in the event's unit.
    pub period: u64,
    /// How many.
    pub n_samples: u64,
}

/// A function that a program called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callee {
    /// One of the addresses in it.
    pub location: LocationId,
    /// Its samples below the program.
    pub weight: Weight,
}

/// A line of a program's source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotLine {
    /// The file, raw; empty where it is not known.
    pub file: Vec<u8>,
    /// The number of the line, from 1; 0 where it is not known.
    pub line: u32,
    /// What stands in it, raw.
    pub text: Vec<u8>,
    /// The samples in the code of the line.
    pub own: Weight,
    /// With those of what the line called.
    pub total: Weight,
}

/// What a bill is asked for beside its sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    /// What the programs called.
    pub callees: bool,
    /// The lines of their sources.
    pub lines: bool,
}

impl Weight {
    fn add(&mut self, group: &Group) {
        self.period = self.period.wrapping_add(group.period);
        self.n_samples += group.n_samples;
    }
}

impl AddAssign for Weight {
    fn add_assign(&mut self, other: Self) {
        self.period = self.period.wrapping_add(other.period);
        self.n_samples += other.n_samples;
    }
}

impl Bill {
    /// The places of [`Bill::items`], the most expensive first: by the samples of the event at
    /// `event` of [`Bill::events`], then by the kernel's own count of their time.
    pub fn order(&self, programs: &Programs<'_>, event: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.items.len()).collect();
        let cost = |it: &Program<'_>| it.cost.map(|it| (it.run_time_ns, it.runs));
        order.sort_by_cached_key(|&it| {
            let item = &self.items[it];
            let charge = item.charges.get(event);
            let weights = charge.map(|it| (it.total, it.own)).unwrap_or_default();
            std::cmp::Reverse((weights, cost(programs.program(item.program))))
        });
        order
    }
}

/// The bill of `resolved`, whose groups keep their stacks, of the samples that `filter` shows.
///
/// # Errors
///
/// [`Error::NoCpu`] where the filter asks for CPUs, and samples do not carry theirs.
pub fn bill(
    resolved: &Resolved,
    programs: &Programs<'_>,
    filter: &Filter,
    detail: Detail,
) -> Result<Bill, Error> {
    let sieve = filter.sieve(resolved);
    let mut ledger = Ledger::new(resolved, programs, detail);
    for group in &resolved.groups {
        filter.needs_cpu(resolved, group)?;
        if sieve.counts(group) {
            ledger.add(group, sieve.shows(group));
        }
    }
    Ok(ledger.close())
}

/// A bill in the making.
struct Ledger<'a> {
    resolved: &'a Resolved,
    programs: &'a Programs<'a>,
    detail: Detail,
    /// The program of each location.
    program_of: Vec<Option<u32>>,
    /// Whether each location is where an interrupt enters the kernel.
    is_entry: Vec<bool>,
    events: Vec<Billed>,
    charges: FxHashMap<(EventIdx, u32), (Weight, Weight)>,
    /// What was called, by the program and the function, with one of the addresses in that.
    callees: FxHashMap<(EventIdx, u32, Function), (LocationId, Weight)>,
    /// Where in the program the samples were, and whether they were in what it called there.
    sites: FxHashMap<(EventIdx, u32, LocationId, bool), Weight>,
    /// By program, the number of the group that had it on its stack last.
    seen: Vec<u32>,
    n_groups: u32,
}

/// What makes two addresses one function.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Function {
    Symbol(SymbolId),
    Location(LocationId),
}

impl<'a> Ledger<'a> {
    fn new(resolved: &'a Resolved, programs: &'a Programs<'a>, detail: Detail) -> Self {
        let program = |it: &Location| match it.owner? {
            Owner::Ksymbol(ksymbol) => Some(programs.of_ksymbol(ksymbol)?.program.0),
            Owner::Mapping(_) => None,
        };
        let is_entry = |it: &Location| {
            let symbol = it.symbol.and_then(|it| resolved.symbols.get(it.0 as usize));
            it.level == Level::Kernel && symbol.is_some_and(|it| is_interrupt_entry(&it.name))
        };
        let event = |(event, _)| Billed { event, ..Billed::default() };
        Self {
            resolved,
            programs,
            detail,
            program_of: resolved.locations.iter().map(program).collect(),
            is_entry: resolved.locations.iter().map(is_entry).collect(),
            events: (0..).map(EventIdx).zip(&resolved.events).map(event).collect(),
            charges: FxHashMap::default(),
            callees: FxHashMap::default(),
            sites: FxHashMap::default(),
            seen: vec![0; programs.all().len()],
            n_groups: 0,
        }
    }

    fn program(&self, LocationId(location): LocationId) -> Option<u32> {
        self.program_of.get(location as usize).copied().flatten()
    }

    fn add(&mut self, group: &Group, is_shown: bool) {
        let Some(billed) = self.events.get_mut(group.event.0 as usize) else { return };
        billed.totals.period = billed.totals.period.wrapping_add(group.period);
        billed.totals.n_samples += group.n_samples;
        if !is_shown {
            return;
        }
        billed.totals.shown_period = billed.totals.shown_period.wrapping_add(group.period);
        billed.totals.n_shown_samples += group.n_samples;
        self.n_groups += 1;
        let chain = group.stack.map_or(&[][..], |it| self.resolved.stacks.get(it));
        // The sampled address opens its own chain.
        let chain = if chain.first() == Some(&group.location) { &chain[1..] } else { chain };
        let sampled = self.program(group.location);
        let mut is_billed = false;
        let mut callee = None;
        for &location in std::iter::once(&group.location).chain(chain) {
            if let Some(program) = self.program(location)
                && self.seen[program as usize] != self.n_groups
            {
                self.seen[program as usize] = self.n_groups;
                is_billed = true;
                self.charge(group, program, location, callee);
            }
            // What lies beyond was interrupted, and called nothing.
            if self.is_entry.get(location.0 as usize) == Some(&true) {
                break;
            }
            callee = Some(location);
        }
        let billed = &mut self.events[group.event.0 as usize];
        if is_billed {
            billed.total.add(group);
        }
        if sampled.is_some() {
            billed.own.add(group);
        }
    }

    /// Charges a group to a program whose innermost frame is at `location`, and which called
    /// `callee` there, if anything.
    fn charge(
        &mut self,
        group: &Group,
        program: u32,
        location: LocationId,
        callee: Option<LocationId>,
    ) {
        let (own, total) = self.charges.entry((group.event, program)).or_default();
        total.add(group);
        if callee.is_none() {
            own.add(group);
        }
        if self.detail.callees
            && let Some(callee) = callee
        {
            let symbol = self.resolved.locations[callee.0 as usize].symbol;
            let function = symbol.map_or(Function::Location(callee), Function::Symbol);
            let key = (group.event, program, function);
            self.callees.entry(key).or_insert((callee, Weight::default())).1.add(group);
        }
        if self.detail.lines {
            let key = (group.event, program, location, callee.is_some());
            self.sites.entry(key).or_default().add(group);
        }
    }

    fn close(mut self) -> Bill {
        let n_samples = |it: &Billed| it.totals.n_samples;
        let kept: Vec<EventIdx> =
            self.events.iter().filter(|it| n_samples(it) != 0).map(|it| it.event).collect();
        self.events.retain(|it| n_samples(it) != 0);
        let place = |event: EventIdx| kept.iter().position(|it| *it == event);
        let mut items: Vec<Item> = (0..)
            .map(ProgramIdx)
            .zip(self.programs.all())
            .map(|(program, _)| Item { program, charges: vec![Charge::default(); kept.len()] })
            .collect();
        let mut charge = |event: EventIdx, program: u32, change: &dyn Fn(&mut Charge)| {
            let item: Option<&mut Item> = items.get_mut(program as usize);
            let charges = item.map(|it| &mut it.charges);
            let charge = charges.zip(place(event)).and_then(|(charges, it)| charges.get_mut(it));
            charge.into_iter().for_each(change);
        };
        for ((event, program), (own, total)) in self.charges {
            charge(event, program, &|it| (it.own, it.total) = (own, total));
        }
        for ((event, program, _), (location, weight)) in self.callees {
            charge(event, program, &|it| it.callees.push(Callee { location, weight }));
        }
        for ((event, program, place), line) in lines(self.resolved, self.programs, &self.sites) {
            let (file, number) = place;
            let (text, own, total) = line;
            charge(event, program, &|it| {
                let (file, text) = (file.to_vec(), text.to_vec());
                it.lines.push(HotLine { file, line: number, text, own, total });
            });
        }
        for charge in items.iter_mut().flat_map(|it| &mut it.charges) {
            let name = |it: &Callee| {
                let location = &self.resolved.locations[it.location.0 as usize];
                location.symbol.map(|it| self.resolved.symbols[it.0 as usize].name.as_str())
            };
            charge.callees.sort_by(|a, b| {
                (b.weight, name(a), a.location).cmp(&(a.weight, name(b), b.location))
            });
            charge.lines.sort_by(|a, b| {
                let place = |it: &HotLine| (it.file.clone(), it.line);
                (b.total, b.own).cmp(&(a.total, a.own)).then_with(|| place(a).cmp(&place(b)))
            });
        }
        Bill { events: self.events, items }
    }
}

/// A line of a program by event, program, file and number; its text, and what fell on it.
type Lines<'a> = FxHashMap<(EventIdx, u32, (&'a [u8], u32)), (&'a [u8], Weight, Weight)>;

/// The lines that `sites` are on.
fn lines<'a>(
    resolved: &Resolved,
    programs: &'a Programs<'a>,
    sites: &FxHashMap<(EventIdx, u32, LocationId, bool), Weight>,
) -> Lines<'a> {
    let mut lines = Lines::default();
    for (&(event, program, LocationId(location), is_caller), &weight) in sites {
        let Addr(ip) = resolved.locations[location as usize].ip;
        // A caller's address is where the call returns to, which can be another line.
        let addr = if is_caller { Addr(ip.wrapping_sub(1)) } else { Addr(ip) };
        let Some(line) = programs.line(ProgramIdx(program), addr) else { continue };
        let key = (event, program, (line.file, line.line));
        let (_, own, total) =
            lines.entry(key).or_insert((line.text, Weight::default(), Weight::default()));
        *total += weight;
        if !is_caller {
            *own += weight;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use crate::profile::testing::Samples;
    use crate::replay::programs::testing::Tape;
    use crate::replay::programs::testing::name;

    use super::*;

    const A: u64 = 0xffff_ffff_c000_0000;

    /// Two programs: the first with the functions `main` and `sub`, the second with `other`.
    fn tape() -> Tape {
        let mut tape = Tape::new();
        tape.symbol(0, 0, A, &name(1, "main"))
            .symbol(0, 0, A + 0x100, &name(2, "sub"))
            .load(0, 0, 7, 1)
            .symbol(0, 0, A + 0x200, &name(3, "other"))
            .load(0, 0, 8, 3);
        tape
    }

    fn samples() -> Samples {
        let mut samples = Samples::new();
        samples.own("k:main", 0).own("k:sub", 1).own("k:other", 2);
        samples
    }

    #[track_caller]
    fn check(samples: &Samples, filter: &Filter, detail: Detail, check: impl FnOnce(&Bill)) {
        tape().check(|programs, _| {
            check(&bill(&samples.resolved, programs, filter, detail).unwrap());
        });
    }

    /// The own and the total period of each program.
    fn periods(bill: &Bill) -> Vec<(u64, u64)> {
        let charges = bill.items.iter().flat_map(|it| &it.charges);
        charges.map(|it| (it.own.period, it.total.period)).collect()
    }

    #[test]
    fn a_program_is_billed_for_its_functions_and_for_what_they_called() {
        let mut samples = samples();
        samples
            .add("a", 1, &["k:main", "run"], 1)
            .add("a", 1, &["k:sub", "k:main", "run"], 10)
            .add("a", 1, &["k:helper", "k:sub", "k:main", "run"], 100)
            .add("a", 1, &["run"], 1000);
        check(&samples, &Filter::default(), Detail::default(), |bill| {
            assert_eq!(periods(bill), [(11, 111), (0, 0)]);
            let [event] = bill.events.as_slice() else { panic!("{bill:?}") };
            assert_eq!((event.own.period, event.total.period), (11, 111));
            assert_eq!((event.totals.period, event.totals.n_samples), (1111, 4));
        });
    }

    #[test]
    fn what_an_interrupt_did_while_a_program_ran_is_not_billed_to_it() {
        let mut samples = samples();
        let timer = "k:asm_sysvec_apic_timer_interrupt";
        samples
            .add("a", 1, &["k:tick", timer, "k:main", "run"], 1)
            .add("a", 1, &[timer, "k:main", "run"], 10)
            // The helper was interrupted, and a program ran in the interrupt.
            .add("a", 1, &["k:other", "k:softirq", timer, "k:helper", "k:main", "run"], 100)
            .add("a", 1, &["k:handle_fault", "k:asm_exc_page_fault", "k:main", "run"], 1000);
        let detail = Detail { callees: true, lines: false };
        check(&samples, &Filter::default(), detail, |bill| {
            assert_eq!(periods(bill), [(0, 1000), (100, 100)]);
            assert_eq!((bill.events[0].own.period, bill.events[0].total.period), (100, 1100));
            let callees = bill.items[0].charges[0].callees.iter();
            assert_eq!(callees.map(|it| it.weight.period).collect::<Vec<_>>(), [1000]);
        });
    }

    #[test]
    fn a_sample_with_two_programs_is_on_both_bills_and_once_in_the_sum() {
        let mut samples = samples();
        samples.add("a", 1, &["k:other", "k:hook", "k:sub", "k:main", "run", "k:main"], 5);
        let detail = Detail { callees: true, lines: false };
        check(&samples, &Filter::default(), detail, |bill| {
            assert_eq!(periods(bill), [(0, 5), (5, 5)]);
            assert_eq!(bill.events[0].total.period, 5);
            let callees = |idx: usize| {
                let callees = bill.items[idx].charges[0].callees.iter();
                let symbol = |it: &Callee| {
                    let location = &samples.resolved.locations[it.location.0 as usize];
                    samples.resolved.symbols[location.symbol.unwrap().0 as usize].name.clone()
                };
                callees.map(symbol).collect::<Vec<_>>()
            };
            assert_eq!((callees(0), callees(1)), (vec!["hook".to_owned()], vec![]));
        });
    }

    #[test]
    fn what_the_filter_hides_is_not_billed() {
        let mut samples = samples();
        samples.add("a", 1, &["k:main", "run"], 1).add("b", 2, &["k:main", "run"], 10);
        let filter = Filter { comms: vec!["b".to_owned()], ..Filter::default() };
        check(&samples, &filter, Detail::default(), |bill| {
            assert_eq!(periods(bill), [(10, 10), (0, 0)]);
            let totals = bill.events[0].totals;
            assert_eq!((totals.period, totals.shown_period), (11, 10));
        });
    }

    #[test]
    fn the_most_expensive_program_comes_first() {
        let mut samples = samples();
        samples.add("a", 1, &["k:other", "run"], 1);
        tape().check(|programs, _| {
            let (resolved, filter) = (&samples.resolved, Filter::default());
            let bill = bill(resolved, programs, &filter, Detail::default()).unwrap();
            assert_eq!(bill.order(programs, 0), [1, 0]);
        });
    }

    #[test]
    fn a_recording_without_samples_has_programs_without_charges() {
        check(&samples(), &Filter::default(), Detail::default(), |bill| {
            assert_eq!((bill.events.len(), bill.items.len()), (0, 2));
        });
    }
}
