//! The order of the rows.
//!
//! perf sorts twice: rows are kept by what tells them apart, then inserted into a second tree by
//! what is shown, where rows that compare equal stay as they were.

use std::cmp::Ordering;

use rayon::prelude::*;

use super::Accumulate;
use super::Column;
use super::Facts;
use super::Labels;
use super::MemberWeight;
use super::Order;
use super::PlaceKey;
use super::Plan;
use super::Role;
use super::Row;
use super::Scope;
use super::rbtree;
use super::rows::Counted;
use crate::replay::resolved::LocationId;

/// What is compared of a row; names are ranks, and what is missing comes last.
#[derive(Clone, Copy)]
struct Keys<'a> {
    is_shown: bool,
    children_period: u64,
    period: u64,
    n_samples: u64,
    comm: u32,
    dso: u32,
    symbol: Option<Symbol>,
    addr: u64,
    thread: (i32, i32),
    cpu: i64,
    depth: u32,
    location: LocationId,
    role: Role,
    members: &'a [MemberWeight],
    privileges: &'a [u64],
    group: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Symbol {
    name: u32,
    start: u64,
    end: u64,
    is_inlined: bool,
}

/// The indices of `rows` in the order in which they are shown.
///
/// Those that the filter does not show come first, as in perf: they shape the tree, too.
pub(super) fn sorted(scope: &Scope<'_>, rows: &[Row], counted: &Counted) -> Vec<u32> {
    let plan = scope.plan;
    let keys = keys(scope, rows, counted);
    let input = by_what_tells_apart(plan, &keys, counted);
    let order: Vec<_> = plan.order.iter().copied().filter(|it| !plan.elided.contains(it)).collect();
    let by_depth = plan.graph.is_some() && plan.accumulate == Accumulate::Callers;
    let by_depth_in = by_depth.then_some(plan.chain_order);
    let rank = Rank { plan, order: &order, by_depth: by_depth_in, sort_idx: plan.group_sort_idx };
    let compare = |a: u32, b: u32| rank.compare(&keys[a as usize], &keys[b as usize]);
    if by_depth {
        inserted(&input, &rank.leads(&keys), compare)
    } else {
        let mut sorted = input;
        sorted.par_sort_by(|&a, &b| compare(a, b));
        sorted
    }
}

/// `items` as they come out of a tree that they are inserted into one by one; `leads` say which of
/// two comes first, by number, where `compare` would say the same.
fn inserted<L: Lead>(
    items: &[u32],
    leads: &[L],
    mut compare: impl FnMut(u32, u32) -> Ordering,
) -> Vec<u32> {
    let leads: Vec<L> = items.iter().map(|it| leads[*it as usize]).collect();
    let positions = rbtree::sorted(&leads, |a, b| compare(items[a as usize], items[b as usize]));
    positions.into_iter().map(|it| items[it as usize]).collect()
}

/// What of a row is compared first, close together, since a tree of a million rows does not fit into
/// the caches.
pub(super) trait Lead: Copy {
    /// What a comparison of the rows would give as well; [`Ordering::Equal`] where that has to be made.
    fn compare(&self, other: &Self) -> Ordering;
}

/// Where a row is, as far as [`by_keys`] looks at that.
#[derive(Clone, Copy)]
struct WhereLead {
    /// Whether the filter shows it, and the ranks of its command name and of its module.
    group: (bool, u32, u32),
    is_by_place: bool,
    kind: Kind,
    name: u32,
    addr: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Symbol,
    Inlined,
    Addr,
}

impl WhereLead {
    fn all(plan: &Plan, keys: &[Keys<'_>]) -> Vec<Self> {
        let keyed: Vec<_> = plan.order.iter().filter(|it| it.is_key()).collect();
        let is_by_comm = matches!(keyed.first(), Some(Column::Comm));
        let is_by_dso = matches!(keyed.as_slice(), [Column::Comm, Column::Dso, ..]);
        let is_by_place =
            matches!(keyed.as_slice(), [Column::Comm, Column::Dso, Column::Symbol, ..]);
        let lead = |it: &Keys<'_>| Self {
            group: (
                it.is_shown,
                if is_by_comm { it.comm } else { 0 },
                if is_by_dso { it.dso } else { 0 },
            ),
            is_by_place,
            kind: match it.symbol {
                Some(symbol) if symbol.is_inlined => Kind::Inlined,
                Some(_) => Kind::Symbol,
                None => Kind::Addr,
            },
            name: it.symbol.map_or(0, |it| it.name),
            addr: it.symbol.map_or(it.addr, |it| it.start),
        };
        keys.iter().map(lead).collect()
    }
}

impl Lead for WhereLead {
    fn compare(&self, other: &Self) -> Ordering {
        let by_group = self.group.cmp(&other.group);
        if by_group.is_ne() || !self.is_by_place {
            return by_group;
        }
        let by_addr = || distance(self.addr, other.addr);
        match (self.kind, other.kind) {
            (Kind::Addr, Kind::Addr) | (Kind::Symbol, Kind::Symbol) => by_addr(),
            (_, Kind::Addr) => Ordering::Less,
            (Kind::Addr, _) => Ordering::Greater,
            _ => other.name.cmp(&self.name).then_with(by_addr),
        }
    }
}

/// What [`Rank`] compares first.
#[derive(Clone, Copy)]
struct RankLead {
    is_shown: bool,
    /// Whether there is more that is compared first.
    is_usual: bool,
    /// Depth is compared the other way round.
    is_depth_reversed: bool,
    children_period: u64,
    period: u64,
    thread: (i32, i32),
    depth: u32,
    comm: u32,
    dso: u32,
    name: u32,
}

impl Lead for RankLead {
    fn compare(&self, other: &Self) -> Ordering {
        let by_shown = self.is_shown.cmp(&other.is_shown);
        if by_shown.is_ne() || !self.is_usual {
            return by_shown;
        }
        let by_depth = || match self.depth.cmp(&other.depth) {
            _ if self.thread != other.thread => Ordering::Equal,
            it if self.is_depth_reversed => it.reverse(),
            it => it,
        };
        other
            .children_period
            .cmp(&self.children_period)
            .then_with(by_depth)
            .then_with(|| other.period.cmp(&self.period))
            .then_with(|| self.comm.cmp(&other.comm))
            .then_with(|| self.dso.cmp(&other.dso))
            .then_with(|| self.name.cmp(&other.name))
    }
}

/// All rows, by what tells them apart.
fn by_what_tells_apart(plan: &Plan, keys: &[Keys<'_>], counted: &Counted) -> Vec<u32> {
    let compare = |a: u32, b: u32| by_keys(plan, &keys[a as usize], &keys[b as usize]);
    let n_rows = u32::try_from(keys.len()).unwrap_or(u32::MAX);
    let mut rows: Vec<u32> = (0..n_rows).collect();
    if is_order(plan, keys) {
        rows.par_sort_unstable_by(|&a, &b| compare(a, b));
        return rows;
    }
    rows.par_sort_unstable_by_key(|&it| counted.rows[it as usize].1.made());
    let leads = WhereLead::all(plan, keys);
    let rows = inserted(&rows, &leads, compare);
    // perf merges rows of the same command name in a second tree, whether there are any or not.
    if plan.order.contains(&Column::Comm) { inserted(&rows, &leads, compare) } else { rows }
}

/// Whether [`by_keys`] is an order: it is none where addresses lie half the address space apart,
/// where symbols are compared by module, and addresses without a symbol are not, and where names of
/// what was inlined are compared with addresses.
fn is_order(plan: &Plan, keys: &[Keys<'_>]) -> bool {
    if !plan.is_by_symbol() {
        return true;
    }
    if keys.iter().any(|it| it.symbol.is_some_and(|it| it.is_inlined)) {
        return false;
    }
    let place = |it: &Keys<'_>| it.symbol.map_or(it.addr, |it| it.start).cast_signed();
    let (first, last) =
        keys.iter().map(place).fold((0, 0), |(first, last), it| (it.min(first), it.max(last)));
    last.checked_sub(first).is_some() && plan.order.contains(&Column::Dso)
}

/// `rows` in the order of `indices`.
pub(super) fn apply(rows: Vec<Row>, indices: &[u32]) -> Vec<Row> {
    let mut rows: Vec<_> = rows.into_iter().map(Some).collect();
    indices.iter().filter_map(|&it| rows[it as usize].take()).collect()
}

fn keys<'a>(scope: &Scope<'_>, rows: &'a [Row], counted: &Counted) -> Vec<Keys<'a>> {
    let Scope { resolved, names, .. } = scope;
    let comms = ranks(&resolved.comms, |it| it.as_slice());
    let dsos = ranks(&resolved.dsos, |it| it.short_name.as_bytes());
    let key = |(row, (_, weight)): (&'a Row, &(_, super::rows::Weight))| Keys {
        is_shown: row.is_shown,
        children_period: row.children_period,
        period: row.period,
        n_samples: row.n_samples,
        comm: comms[row.comm.0 as usize],
        dso: row.dso.map_or(u32::MAX, |it| dsos[it.0 as usize]),
        symbol: row.symbol.map(|it| {
            let symbol = &resolved.symbols[it.0 as usize];
            Symbol {
                name: names[it.0 as usize],
                start: symbol.start.0,
                end: symbol.end.0,
                is_inlined: symbol.is_inlined,
            }
        }),
        addr: row.addr.0,
        thread: (row.tid.0, row.pid.0),
        cpu: row.cpu.map_or(-1, i64::from),
        depth: weight.max_depth,
        location: row.location,
        role: row.role,
        members: &row.members,
        privileges: &row.privileges,
        group: row.group,
    };
    rows.par_iter().zip(&counted.rows).map(key).collect()
}

/// For each of `items` the rank of its name, the same for the same name.
pub(super) fn ranks<T: Sync>(items: &[T], name: impl Fn(&T) -> &[u8] + Sync) -> Vec<u32> {
    let mut sorted: Vec<usize> = (0..items.len()).collect();
    sorted.par_sort_unstable_by(|&a, &b| name(&items[a]).cmp(name(&items[b])));
    let mut ranks = vec![0; items.len()];
    let mut rank = 0;
    let mut before: Option<usize> = None;
    for &item in &sorted {
        if before.is_some_and(|it| name(&items[it]) != name(&items[item])) {
            rank += 1;
        }
        ranks[item] = rank;
        before = Some(item);
    }
    ranks
}

/// The order in which perf keeps rows by what tells them apart.
fn by_keys(plan: &Plan, a: &Keys<'_>, b: &Keys<'_>) -> Ordering {
    let compare = |column: &Column| match column {
        Column::Comm => a.comm.cmp(&b.comm),
        Column::Dso => a.dso.cmp(&b.dso),
        Column::Symbol | Column::Place(PlaceKey::Instructions) => by_place(plan, a, b),
        Column::Pid | Column::Tid => a.thread.0.cmp(&b.thread.0),
        Column::Cpu => a.cpu.cmp(&b.cpu),
        Column::Bpf(_) | Column::Source(_) | Column::Place(_) => {
            by_label(&plan.labels, *column, a, b)
        }
        Column::Tgid => a.thread.1.cmp(&b.thread.1),
        Column::Sample(_) | Column::Field(_) => by_fact(&plan.facts, *column, a, b),
        Column::Children
        | Column::Overhead
        | Column::Samples
        | Column::Period
        | Column::Privilege(_) => Ordering::Equal,
    };
    a.is_shown.cmp(&b.is_shown).then_with(|| first_difference(plan.order.iter().map(compare)))
}

/// By what a column says of the BPF program, or of the source; what is in none comes last.
fn by_label(labels: &Labels, column: Column, a: &Keys<'_>, b: &Keys<'_>) -> Ordering {
    let rank = |it: &Keys<'_>| labels.rank(column, it.location, it.role);
    rank(a).cmp(&rank(b))
}

/// By what a column says of the samples.
fn by_fact(facts: &Facts, column: Column, a: &Keys<'_>, b: &Keys<'_>) -> Ordering {
    facts.rank(column, a.group).cmp(&facts.rank(column, b.group))
}

/// By the sign of the difference, which wraps.
fn distance(a: u64, b: u64) -> Ordering {
    a.wrapping_sub(b).cast_signed().cmp(&0)
}

/// By position in the module, and by module where nothing else looks at that; what has no symbol
/// comes after what has one.
fn by_place(plan: &Plan, a: &Keys<'_>, b: &Keys<'_>) -> Ordering {
    let place = match (a.symbol, b.symbol) {
        (None, None) => return distance(a.addr, b.addr),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (Some(a), Some(b)) => {
            let by_name =
                if a.is_inlined || b.is_inlined { b.name.cmp(&a.name) } else { Ordering::Equal };
            let by_addr = || distance(a.start, b.start).then_with(|| distance(a.end, b.end));
            by_name.then_with(by_addr).then_with(|| b.name.cmp(&a.name))
        }
    };
    let by_dso =
        if plan.order.contains(&Column::Dso) { Ordering::Equal } else { a.dso.cmp(&b.dso) };
    by_dso.then(place)
}

/// The order in which rows are shown.
struct Rank<'a> {
    plan: &'a Plan,
    order: &'a [Column],
    /// Whether callers stand above what they call where both weigh the same.
    by_depth: Option<Order>,
    /// The event of a group by whose weight rows are sorted first.
    sort_idx: Option<usize>,
}

impl Rank<'_> {
    /// What of `keys` is compared first.
    fn leads(&self, keys: &[Keys<'_>]) -> Vec<RankLead> {
        const USUAL: [Column; 5] =
            [Column::Children, Column::Overhead, Column::Comm, Column::Dso, Column::Symbol];
        let is_usual =
            self.order.starts_with(&USUAL) && keys.iter().all(|it| it.members.is_empty());
        let is_depth_reversed = self.by_depth == Some(Order::Caller);
        let lead = |it: &Keys<'_>| RankLead {
            is_shown: it.is_shown,
            is_usual,
            is_depth_reversed,
            children_period: it.children_period,
            period: it.period,
            thread: if self.by_depth.is_some() { it.thread } else { (0, 0) },
            depth: if self.by_depth.is_some() { it.depth } else { 0 },
            comm: it.comm,
            dso: it.dso,
            name: it.symbol.map_or(u32::MAX, |it| it.name),
        };
        keys.iter().map(lead).collect()
    }

    fn compare(&self, a: &Keys<'_>, b: &Keys<'_>) -> Ordering {
        let name = |it: &Keys<'_>| it.symbol.map_or(u32::MAX, |it| it.name);
        let compare = |column: &Column| match column {
            Column::Children => {
                b.children_period.cmp(&a.children_period).then_with(|| self.by_depth(a, b))
            }
            Column::Overhead | Column::Period => {
                self.by_weight(a, b, |it| it.period, |it| it.period)
            }
            Column::Samples => self.by_weight(a, b, |it| it.n_samples, |it| it.n_samples),
            Column::Comm => a.comm.cmp(&b.comm),
            Column::Dso => a.dso.cmp(&b.dso),
            Column::Symbol => name(a).cmp(&name(b)),
            Column::Place(PlaceKey::Instructions) => by_place(self.plan, a, b),
            Column::Pid | Column::Tid => a.thread.0.cmp(&b.thread.0),
            Column::Cpu => a.cpu.cmp(&b.cpu),
            Column::Bpf(_) | Column::Source(_) | Column::Place(_) => {
                by_label(&self.plan.labels, *column, a, b)
            }
            Column::Tgid => a.thread.1.cmp(&b.thread.1),
            Column::Sample(_) | Column::Field(_) => by_fact(&self.plan.facts, *column, a, b),
            Column::Privilege(key) => {
                let sum = |it: &Keys<'_>| it.privileges.get(*key as usize).copied().unwrap_or(0);
                sum(b).cmp(&sum(a))
            }
        };
        a.is_shown.cmp(&b.is_shown).then_with(|| first_difference(self.order.iter().map(compare)))
    }

    /// The heavier first: by the leader, then by the other events of the group, unless one of those
    /// is to decide.
    fn by_weight(
        &self,
        a: &Keys<'_>,
        b: &Keys<'_>,
        of_leader: impl Fn(&Keys<'_>) -> u64,
        of_member: impl Fn(&MemberWeight) -> u64,
    ) -> Ordering {
        let by_leader = of_leader(b).cmp(&of_leader(a));
        let member = |idx: usize| {
            let weight = |it: &Keys<'_>| it.members.get(idx).map(&of_member);
            weight(b).cmp(&weight(a))
        };
        let rest = |decided: Option<usize>| {
            let others = (0..a.members.len()).filter(move |it| Some(*it) != decided);
            first_difference(others.map(member))
        };
        match self.sort_idx.and_then(|it| it.checked_sub(1)) {
            Some(idx) if idx < a.members.len() => member(idx).then_with(|| rest(Some(idx))),
            _ => by_leader.then_with(|| rest(None)),
        }
    }

    /// Of the rows of one thread, the one with the longer chains is the caller.
    fn by_depth(&self, a: &Keys<'_>, b: &Keys<'_>) -> Ordering {
        match self.by_depth {
            Some(_) if a.thread != b.thread => Ordering::Equal,
            Some(Order::Caller) => b.depth.cmp(&a.depth),
            Some(Order::Callee) => a.depth.cmp(&b.depth),
            None => Ordering::Equal,
        }
    }
}

fn first_difference(mut orderings: impl Iterator<Item = Ordering>) -> Ordering {
    orderings.find(|it| it.is_ne()).unwrap_or(Ordering::Equal)
}
