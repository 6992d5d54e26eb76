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
use crate::replay::resolved::Resolved;

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
    let Scope { resolved, plan, .. } = scope;
    let keys = keys(resolved, rows, counted);
    let input = by_what_tells_apart(plan, &keys, counted);
    let order: Vec<_> = plan.order.iter().copied().filter(|it| !plan.elided.contains(it)).collect();
    let by_depth = plan.graph.is_some() && plan.accumulate == Accumulate::Callers;
    let by_depth_in = by_depth.then_some(plan.chain_order);
    let rank = Rank { plan, order: &order, by_depth: by_depth_in, sort_idx: plan.group_sort_idx };
    let compare = |a: u32, b: u32| rank.compare(&keys[a as usize], &keys[b as usize]);
    if by_depth {
        inserted(&input, compare)
    } else {
        let mut sorted = input;
        sorted.par_sort_by(|&a, &b| compare(a, b));
        sorted
    }
}

/// `items` as they come out of a tree that they are inserted into one by one.
fn inserted(items: &[u32], mut compare: impl FnMut(u32, u32) -> Ordering) -> Vec<u32> {
    let n_items = u32::try_from(items.len()).unwrap_or(u32::MAX);
    let positions = rbtree::sorted(n_items, |a, b| compare(items[a as usize], items[b as usize]));
    positions.into_iter().map(|it| items[it as usize]).collect()
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
    let rows = inserted(&rows, compare);
    // perf merges rows of the same command name in a second tree, whether there are any or not.
    if plan.order.contains(&Column::Comm) { inserted(&rows, compare) } else { rows }
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

fn keys<'a>(resolved: &Resolved, rows: &'a [Row], counted: &Counted) -> Vec<Keys<'a>> {
    let comms = ranks(&resolved.comms, |it| it.as_slice());
    let dsos = ranks(&resolved.dsos, |it| it.short_name.as_bytes());
    let names = ranks(&resolved.symbols, |it| it.name.as_bytes());
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
        Column::Sample(_) => by_fact(&plan.facts, *column, a, b),
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

/// By position in the module, and by module where nothing else looks at that; what has no symbol
/// comes after what has one.
fn by_place(plan: &Plan, a: &Keys<'_>, b: &Keys<'_>) -> Ordering {
    // By the sign of the difference, which wraps.
    let distance = |a: u64, b: u64| a.wrapping_sub(b).cast_signed().cmp(&0);
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
            Column::Sample(_) => by_fact(&self.plan.facts, *column, a, b),
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
