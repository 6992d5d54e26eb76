//! Samples to histograms and call graphs.
//!
//! In: a [`Resolved`] recording and a [`Plan`]. Out: a [`Histogram`] for each event, its rows in
//! the order in which they are shown, with call graphs for those that can show one. Everything is
//! counted from the distinct groups and stacks of the recording, never from its samples; names are
//! compared in the final ordering alone. Nothing here knows how it will be shown.
//!
//! Where numbers and orders follow Linux perf, they follow `tools/perf/util/hist.c`, `sort.c` and
//! `callchain.c`.

mod annotated;
mod bill;
mod chain;
mod column;
mod facts;
mod filter;
mod functions;
mod hierarchy;
mod labels;
mod order;
mod plan;
mod rbtree;
mod rows;
mod sites;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod tree;

pub use annotated::Annotated;
pub use annotated::AnnotatedInstruction;
pub use bill::Bill;
pub use bill::Billed;
pub use bill::Callee;
pub use bill::Charge;
pub use bill::Detail;
pub use bill::HotLine;
pub use bill::Item;
pub use bill::Weight;
pub use bill::bill;
pub use column::BpfKey;
pub use column::Column;
pub use column::ListOf;
pub use column::PlaceKey;
pub use column::PrivilegeKey;
pub use column::SampleKey;
pub use column::SourceKey;
pub use column::Spelled;
pub use facts::Facts;
pub use facts::Parents;
pub use facts::Surroundings;
pub use facts::Value;
pub use facts::page_size;
pub use filter::Filter;
pub use functions::FunctionSamples;
pub use functions::Place;
pub use functions::functions;
pub use hierarchy::Hierarchy;
pub use hierarchy::HierarchyLevel;
pub use hierarchy::hierarchies;
pub use labels::Labels;
pub use labels::Paths;
pub use labels::Role;
pub use plan::Accumulate;
pub use plan::Callchains;
pub use plan::FrameKey;
pub use plan::Graph;
pub use plan::GraphRequest;
pub use plan::GraphSettings;
pub use plan::GraphValue;
pub use plan::Grouping;
pub use plan::MAX_STACK;
pub use plan::NotedField;
pub use plan::Order;
pub use plan::Percentage;
pub use plan::Plan;
pub use plan::Request;
pub use plan::Shape;
pub use plan::Sort;
pub use tree::CallTree;
pub use tree::Node;

use crate::replay::resolved::CommId;
use crate::replay::resolved::DsoId;
use crate::replay::resolved::EventIdx;
use crate::replay::resolved::Level;
use crate::replay::resolved::LocationId;
use crate::replay::resolved::Resolved;
use crate::replay::resolved::SymbolId;
use crate::units::Addr;
use crate::units::Pid;
use crate::units::Tid;

use chain::Chains;
use filter::Sieve;
use rows::Bases;
use rows::RowKey;
use sites::Sites;

/// What cannot be profiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A column that does not exist.
    #[error("no column is called `{name}`")]
    UnknownColumn {
        /// The name that was asked for.
        name: String,
    },
    /// A column that perf has.
    #[error("the column `{name}` is not made in this version: it needs {needs}")]
    NotMade {
        /// Its name.
        name: String,
        /// What it needs.
        needs: &'static str,
    },
    /// Call graphs are asked for, and the samples carry no call chains.
    #[error("the samples carry no call chains")]
    NoCallchains,
    /// A CPU is asked for, and the samples carry none.
    #[error("the samples of event `{event}` do not carry their CPU")]
    NoCpu {
        /// The event without CPUs.
        event: String,
    },
}

/// What fell on one event, or on a group of them.
#[derive(Debug, Default)]
pub struct Histogram {
    /// The event, of a group its leader.
    pub event: EventIdx,
    /// The sums over all rows.
    pub totals: Totals,
    /// The other events of the group, with their sums.
    pub members: Vec<(EventIdx, Totals)>,
    /// All rows, the heaviest first; those that are not shown have [`Row::is_shown`] unset.
    pub rows: Vec<Row>,
}

/// The sums of a [`Histogram`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Periods of all samples, in the event's unit.
    pub period: u64,
    /// Periods of the samples on rows that the filter shows.
    pub shown_period: u64,
    /// All samples.
    pub n_samples: u64,
    /// The samples on rows that the filter shows.
    pub n_shown_samples: u64,
}

impl Histogram {
    /// The samples of all its events.
    pub fn n_samples(&self) -> u64 {
        self.members.iter().fold(self.totals.n_samples, |sum, (_, it)| sum + it.n_samples)
    }
}

impl Totals {
    fn add(&mut self, period: u64, n_samples: u64, is_shown: bool) {
        self.period = self.period.wrapping_add(period);
        self.n_samples += n_samples;
        if is_shown {
            self.shown_period = self.shown_period.wrapping_add(period);
            self.n_shown_samples += n_samples;
        }
    }

    /// The period that shares are shares of.
    pub fn base(&self, percentage: Percentage) -> u64 {
        match percentage {
            Percentage::Absolute => self.period,
            Percentage::Relative => self.shown_period,
        }
    }
}

/// One row of a [`Histogram`]; what its columns do not tell apart is that of its first sample.
#[derive(Debug)]
pub struct Row {
    /// The sum of the periods of its own samples, in the event's unit.
    pub period: u64,
    /// The same with the samples of what it called, each sample once.
    pub children_period: u64,
    /// The number of its own samples.
    pub n_samples: u64,
    /// The sums of the periods that were sampled at each privilege, in the order of
    /// [`PrivilegeKey`]; empty where no column shows them.
    pub privileges: Box<[u64]>,
    /// The group that made it.
    pub group: u32,
    /// The command name.
    pub comm: CommId,
    /// The last command name of the thread.
    pub last_comm: CommId,
    /// The last command name of the first thread of the process.
    pub leader_comm: CommId,
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// The CPU, where the samples carry one.
    pub cpu: Option<u32>,
    /// The module, where there is one.
    pub dso: Option<DsoId>,
    /// The symbol, where it is sure.
    pub symbol: Option<SymbolId>,
    /// The address that stands for the symbol where there is none: in the module for what was
    /// sampled, in the process for a caller or a branch, as perf has it.
    pub addr: Addr,
    /// The privilege level that perf shows.
    pub level: Level,
    /// One of the addresses that it stands for.
    pub location: LocationId,
    /// Whether that was sampled or is a caller's.
    pub role: Role,
    /// Whether the filter shows it.
    pub is_shown: bool,
    /// What fell on it of the other events of the group; empty for an event alone.
    pub members: Box<[MemberWeight]>,
    /// The call graph, where one of its branches is heavy enough.
    pub tree: Option<Box<CallTree>>,
}

/// What fell on a row of another event than the leader of the group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberWeight {
    /// The sum of the periods of the row's own samples.
    pub period: u64,
    /// The same with the samples of what it called.
    pub children_period: u64,
    /// The number of its own samples.
    pub n_samples: u64,
    /// The sums of the periods that were sampled at each privilege, in the order of
    /// [`PrivilegeKey`]; 0 where no column shows them.
    pub privileges: [u64; 4],
}

impl Row {
    /// The period that decides whether the row is shown and how its graph is labelled.
    pub fn weight(&self, accumulate: Accumulate) -> u64 {
        match accumulate {
            Accumulate::Callers => self.children_period,
            Accumulate::Nothing => self.period,
        }
    }

    /// Whether it weighs as much as the limit of `plan` asks for, of `totals`.
    ///
    /// In single precision, as perf compares it.
    #[expect(clippy::cast_possible_truncation, reason = "perf compares in single precision")]
    pub fn is_heavy(&self, plan: &Plan, totals: &Totals) -> bool {
        let base = totals.base(plan.percentage);
        let weight = self.weight(plan.accumulate);
        let share = if base == 0 { 0.0 } else { (weight as f64 * 100.0 / base as f64) as f32 };
        share >= plan.percent_limit
    }
}

/// A recording and the plan for it, with what is worked out for each of its locations.
#[derive(Debug)]
struct Scope<'a> {
    resolved: &'a Resolved,
    plan: &'a Plan,
    sieve: Sieve<'a>,
    sites: Sites,
    chains: Chains,
    /// The ranks of the symbols' names, the same for the same name.
    names: Vec<u32>,
}

/// The histograms of `resolved`, one for each event, in the order of the recording.
///
/// # Errors
///
/// [`Error::NoCpu`] where the filter asks for CPUs, and samples do not carry theirs.
pub fn histograms(resolved: &Resolved, plan: &Plan) -> Result<Vec<Histogram>, Error> {
    let scope = Scope::new(resolved, plan);
    let groups = scope.groups()?;
    Ok(plan.tables(resolved).iter().map(|events| scope.histogram(events, &groups)).collect())
}

impl<'a> Scope<'a> {
    fn new(resolved: &'a Resolved, plan: &'a Plan) -> Self {
        let names = order::ranks(&resolved.symbols, |it| it.name.as_bytes());
        let (sites, chains) = rayon::join(
            || Sites::new(resolved, plan, &names),
            || Chains::new(resolved, plan, &names),
        );
        Self { resolved, plan, sieve: plan.filter.sieve(resolved), sites, chains, names }
    }
}

impl Scope<'_> {
    /// The groups that count, by event, in order of first occurrence.
    fn groups(&self) -> Result<Vec<Vec<u32>>, Error> {
        let Self { resolved, plan, sieve, .. } = self;
        let mut groups = vec![Vec::new(); resolved.events.len()];
        for (idx, group) in (0_u32..).zip(&resolved.groups) {
            let event = group.event.0 as usize;
            plan.filter.needs_cpu(resolved, group)?;
            if let Some(groups) = groups.get_mut(event)
                && sieve.counts(group)
            {
                groups.push(idx);
            }
        }
        Ok(groups)
    }

    /// Whether the filter shows the samples of the group with this index.
    fn shows(&self, idx: u32) -> bool {
        let Self { resolved, plan, sieve, .. } = self;
        resolved.groups.get(idx as usize).is_some_and(|it| sieve.shows(it))
            && !(plan.hides_others && plan.facts.is_other(idx))
    }

    /// Hides those of `rows` whose symbols do not have the part in them that is asked for, if one is.
    fn hide_by_symbol(&self, rows: &mut [Row]) -> bool {
        let Self { resolved, plan, .. } = self;
        let Some(part) = &plan.filter.symbol_part else { return false };
        if !plan.order.contains(&Column::Symbol) {
            return false;
        }
        let has_part = |SymbolId(id): SymbolId| {
            resolved.symbols.get(id as usize).is_some_and(|it| it.name.contains(part))
        };
        for row in rows {
            row.is_shown &= row.symbol.is_some_and(has_part);
        }
        true
    }

    /// The table of `events`, whose first one leads; `groups` are those of all events.
    fn histogram(&self, events: &[EventIdx], groups: &[Vec<u32>]) -> Histogram {
        self.keyed_histogram(events, groups).0
    }

    /// The same with the key of each row, and the numbers that these are made of.
    fn keyed_histogram(
        &self,
        events: &[EventIdx],
        groups: &[Vec<u32>],
    ) -> (Histogram, Vec<RowKey>, Bases) {
        let groups_of = |it: &EventIdx| groups.get(it.0 as usize).map_or(&[][..], Vec::as_slice);
        let mut bases = Bases::default();
        let [event, others @ ..] = events else {
            return (Histogram::default(), Vec::new(), bases);
        };
        let groups = groups_of(event);
        let mut counted = rows::count(self, groups, &mut bases);
        let weights: Vec<_> = others
            .iter()
            .map(|it| counted.join(rows::count(self, groups_of(it), &mut bases), self.plan))
            .collect();
        let mut rows = rows::finish(self, &counted);
        let mut sums = totals(&rows);
        if self.hide_by_symbol(&mut rows) {
            // Samples count as the other filters show them, as in perf.
            sums.shown_period = totals(&rows).shown_period;
        }
        let totals = sums;
        let members = members(others, &weights, &mut rows);
        let of_events: Vec<_> = events.iter().map(groups_of).collect();
        rows::add_privileges(self, &mut rows, &counted, &of_events, &mut bases);
        let is_wanted = |row: &Row| row.is_shown && row.is_heavy(self.plan, &totals);
        let wanted: Vec<_> = rows.iter().map(is_wanted).collect();
        let (order, trees) = rayon::join(
            || order::sorted(self, &rows, &counted),
            || tree::grow(self, &counted, &wanted, &totals, groups),
        );
        for (row, tree) in trees {
            rows[row].tree = Some(Box::new(tree));
        }
        let keys = order.iter().map(|&it| counted.rows[it as usize].0).collect();
        order::apply(&mut rows, order);
        (Histogram { event: *event, totals, members, rows }, keys, bases)
    }
}

/// Puts what fell on each of `rows` of the events `others`, by event and row in `weights`, there;
/// returns the sums.
fn members(
    others: &[EventIdx],
    weights: &[Vec<MemberWeight>],
    rows: &mut [Row],
) -> Vec<(EventIdx, Totals)> {
    if others.is_empty() {
        return Vec::new();
    }
    let mut sums = vec![Totals::default(); others.len()];
    for (idx, row) in rows.iter_mut().enumerate() {
        // The first events know nothing of the rows that others have made.
        let of_event = |it: &Vec<MemberWeight>| it.get(idx).copied().unwrap_or_default();
        row.members = weights.iter().map(of_event).collect();
        for (sum, weight) in sums.iter_mut().zip(&row.members) {
            sum.add(weight.period, weight.n_samples, row.is_shown);
        }
    }
    others.iter().copied().zip(sums).collect()
}

fn totals(rows: &[Row]) -> Totals {
    let mut totals = Totals::default();
    for row in rows {
        totals.add(row.period, row.n_samples, row.is_shown);
    }
    totals
}
