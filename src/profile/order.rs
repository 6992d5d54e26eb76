//! The order of the rows.
//!
//! perf sorts twice: rows are kept by what tells them apart, then inserted into a second tree by
//! what is shown, where rows that compare equal stay as they were.

use std::cmp::Ordering;
use std::cmp::Reverse;

use rayon::prelude::*;
use rustc_hash::FxHashMap;

use super::Accumulate;
use super::Column;
use super::Facts;
use super::Labels;
use super::MemberWeight;
use super::Order;
use super::PlaceKey;
use super::Plan;
use super::Row;
use super::Scope;
use super::rbtree;
use super::rows::Counted;
use crate::replay::resolved::Symbol;
use crate::units::Addr;

/// What is compared of a row; names are ranks, and what is missing comes last.
#[derive(Clone, Copy)]
struct Keys<'a> {
    row: &'a Row,
    symbol: Option<&'a Symbol>,
    name: u32,
    comm: u32,
    dso: u32,
    depth: u32,
}

impl Keys<'_> {
    /// The first address of its symbol, or its own.
    fn addr(&self) -> Addr {
        self.symbol.map_or(self.row.addr, |it| it.start)
    }

    fn thread(&self) -> (i32, i32) {
        (self.row.tid.0, self.row.pid.0)
    }

    fn cpu(&self) -> i64 {
        self.row.cpu.map_or(-1, i64::from)
    }
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
    let mut order = rbtree::sorted(&leads, |a, b| compare(items[a as usize], items[b as usize]));
    for it in &mut order {
        *it = items[*it as usize];
    }
    order
}

/// What stands for a row in a tree of a million of them, which does not fit into the caches: the fewer
/// bytes the better.
pub(super) trait Lead: Copy {
    /// What a comparison of the rows would give as well; [`Ordering::Equal`] where that has to be made.
    fn compare(&self, other: &Self) -> Ordering;
}

/// The place of a row in an order that agrees with [`by_keys`] wherever neither of two rows is odd.
#[derive(Clone, Copy)]
struct KeyLead(u32);

impl KeyLead {
    /// Set for a row that has to be compared itself: [`by_keys`] is no order with it.
    const ODD: u32 = 1 << 31;
}

impl Lead for KeyLead {
    #[inline]
    fn compare(&self, other: &Self) -> Ordering {
        if (self.0 | other.0) & Self::ODD == 0 { self.0.cmp(&other.0) } else { Ordering::Equal }
    }
}

/// Where a row is, as far as [`by_keys`] looks at that in the usual order.
#[derive(Clone, Copy)]
struct Where {
    comm: u32,
    dso: u32,
    is_shown: bool,
    kind: Kind,
    name: u32,
    addr: Addr,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Symbol,
    Inlined,
    Addr,
}

impl Where {
    fn of(keys: &Keys<'_>) -> Self {
        Self {
            comm: keys.comm,
            dso: keys.dso,
            is_shown: keys.row.is_shown,
            kind: match keys.symbol {
                Some(symbol) if symbol.is_inlined => Kind::Inlined,
                Some(_) => Kind::Symbol,
                None => Kind::Addr,
            },
            name: keys.name,
            addr: keys.addr(),
        }
    }

    /// As signed numbers and without a look at names: an order, but not quite perf's.
    fn by_number(&self) -> impl Ord + Copy + Send + Sync + use<> {
        let is_addr = self.kind == Kind::Addr;
        (self.is_shown, self.comm, self.dso, is_addr, self.addr.0.cast_signed())
    }

    /// What [`by_keys`] would say as well, or [`Ordering::Equal`].
    fn compare(&self, other: &Self) -> Ordering {
        let group = |it: &Self| (it.is_shown, it.comm, it.dso);
        let by_addr = || distance(By::Difference, self.addr, other.addr);
        group(self).cmp(&group(other)).then_with(|| match (self.kind, other.kind) {
            (Kind::Addr, Kind::Addr) | (Kind::Symbol, Kind::Symbol) => by_addr(),
            (_, Kind::Addr) => Ordering::Less,
            (Kind::Addr, _) => Ordering::Greater,
            _ => other.name.cmp(&self.name).then_with(by_addr),
        })
    }
}

/// The place of a row in the order in which rows are shown, but for the depth of its chains.
#[derive(Clone, Copy)]
struct RankLead {
    place: u32,
    /// Rows whose depths are compared before their places have the same number.
    thread: u32,
    depth: u32,
}

impl RankLead {
    /// Says nothing: each row has its own `thread`.
    fn nowhere(thread: u32) -> Self {
        Self { place: 0, thread, depth: 0 }
    }
}

impl Lead for RankLead {
    #[inline]
    fn compare(&self, other: &Self) -> Ordering {
        let by_depth = if self.thread == other.thread {
            self.depth.cmp(&other.depth)
        } else {
            Ordering::Equal
        };
        by_depth.then_with(|| self.place.cmp(&other.place))
    }
}

/// By row, its place in the order of `lead`, then of `compare`; rows that are equal share it.
fn places<T: Ord + Copy + Send + Sync>(
    n_rows: usize,
    lead: impl Fn(u32) -> T + Sync,
    compare: impl Fn(u32, u32) -> Ordering + Sync,
) -> Vec<u32> {
    let n_rows = u32::try_from(n_rows).unwrap_or(u32::MAX);
    let mut sorted: Vec<(T, u32)> = (0..n_rows).into_par_iter().map(|it| (lead(it), it)).collect();
    let compare = |a: &(T, u32), b: &(T, u32)| a.0.cmp(&b.0).then_with(|| compare(a.1, b.1));
    sorted.par_sort_unstable_by(compare);
    let mut places = vec![0; sorted.len()];
    let mut place = 0;
    let mut before = None;
    for it in &sorted {
        if before.is_some_and(|before| compare(before, it).is_ne()) {
            place += 1;
        }
        places[it.1 as usize] = place;
        before = Some(it);
    }
    places
}

/// All rows, by what tells them apart.
fn by_what_tells_apart(plan: &Plan, keys: &[Keys<'_>], counted: &Counted) -> Vec<u32> {
    let n_rows = u32::try_from(keys.len()).unwrap_or(u32::MAX);
    let mut rows: Vec<u32> = (0..n_rows).collect();
    let is_odd = oddity(plan);
    let compare =
        |a: u32, b: u32| by_keys(plan, By::Difference, &keys[a as usize], &keys[b as usize]);
    if !keys.par_iter().any(&is_odd) {
        rows.par_sort_unstable_by(|&a, &b| compare(a, b));
        return rows;
    }
    let usual = [&Column::Comm, &Column::Dso, &Column::Symbol];
    let is_usual = plan.order.iter().filter(|it| it.is_key()).take(usual.len()).eq(usual);
    let by_number =
        |a: u32, b: u32| by_keys(plan, By::Number, &keys[a as usize], &keys[b as usize]);
    let wheres: Vec<_> = keys.par_iter().filter(|_| is_usual).map(Where::of).collect();
    let mut leads = if is_usual {
        places(keys.len(), |it| wheres[it as usize].by_number(), by_number)
    } else if plan.order.contains(&Column::Dso) {
        places(keys.len(), |_| (), by_number)
    } else {
        // All rows are odd.
        vec![0; keys.len()]
    };
    let compare = |a: u32, b: u32| match (wheres.get(a as usize), wheres.get(b as usize)) {
        (Some(this), Some(that)) => this.compare(that).then_with(|| compare(a, b)),
        _ => compare(a, b),
    };
    leads.par_iter_mut().zip(keys).for_each(|(place, it)| {
        if is_odd(it) {
            *place |= KeyLead::ODD;
        }
    });
    let leads: Vec<_> = leads.into_iter().map(KeyLead).collect();
    rows.par_sort_unstable_by_key(|&it| counted.rows[it as usize].1.made());
    let rows = inserted(&rows, &leads, compare);
    // perf merges rows of the same command name in a second tree, whether there are any or not.
    if plan.order.contains(&Column::Comm) { inserted(&rows, &leads, compare) } else { rows }
}

/// Whether [`by_keys`] is no order with a row: it is none where addresses may lie half the address space
/// apart, where symbols are compared by module, and addresses without a symbol are not, and where names
/// of what was inlined are compared with addresses.
fn oddity(plan: &Plan) -> impl Fn(&Keys<'_>) -> bool + Sync {
    const FAR: i64 = 1 << 62;
    let is_by_symbol = plan.is_by_symbol();
    let is_by_dso = plan.order.contains(&Column::Dso);
    move |it| {
        let is_far = |it: Addr| !(-FAR..FAR).contains(&it.0.cast_signed());
        let is_odd = match it.symbol {
            Some(it) => it.is_inlined || is_far(it.start) || is_far(it.end),
            None => is_far(it.row.addr),
        };
        is_by_symbol && (!is_by_dso || is_odd)
    }
}

/// Brings `rows` into the order of `indices`.
pub(super) fn apply(rows: &mut [Row], mut indices: Vec<u32>) {
    for start in 0..indices.len() {
        let mut at = start;
        loop {
            let from =
                std::mem::replace(&mut indices[at], u32::try_from(at).unwrap_or(u32::MAX)) as usize;
            if from == start {
                break;
            }
            rows.swap(at, from);
            at = from;
        }
    }
}

fn keys<'a>(scope: &Scope<'a>, rows: &'a [Row], counted: &Counted) -> Vec<Keys<'a>> {
    let Scope { resolved, names, .. } = scope;
    let comms = ranks(&resolved.comms, |it| it.as_slice());
    let dsos = ranks(&resolved.dsos, |it| it.short_name.as_bytes());
    let key = |(row, (_, weight)): (&'a Row, &(_, super::rows::Weight))| Keys {
        row,
        symbol: row.symbol.map(|it| &resolved.symbols[it.0 as usize]),
        name: row.symbol.map_or(u32::MAX, |it| names[it.0 as usize]),
        comm: comms[row.comm.0 as usize],
        dso: row.dso.map_or(u32::MAX, |it| dsos[it.0 as usize]),
        depth: weight.max_depth,
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

/// How addresses are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// By the sign of their difference, which wraps, as perf does; and by their names what was inlined.
    Difference,
    /// As numbers with a sign.
    Number,
}

/// The order in which perf keeps rows by what tells them apart.
fn by_keys(plan: &Plan, by: By, a: &Keys<'_>, b: &Keys<'_>) -> Ordering {
    let compare = |column: &Column| match column {
        Column::Comm => a.comm.cmp(&b.comm),
        Column::Dso => a.dso.cmp(&b.dso),
        Column::Symbol | Column::Place(PlaceKey::Instructions) => by_place(plan, by, a, b),
        Column::Pid | Column::Tid => a.row.tid.0.cmp(&b.row.tid.0),
        Column::Cpu => a.cpu().cmp(&b.cpu()),
        Column::Bpf(_) | Column::Source(_) | Column::Place(_) => {
            by_label(&plan.labels, *column, a, b)
        }
        Column::Tgid => a.row.pid.cmp(&b.row.pid),
        Column::Sample(_) | Column::Field(_) => by_fact(&plan.facts, *column, a, b),
        Column::Children
        | Column::Overhead
        | Column::Samples
        | Column::Period
        | Column::Privilege(_) => Ordering::Equal,
    };
    let by_shown = a.row.is_shown.cmp(&b.row.is_shown);
    by_shown.then_with(|| first_difference(plan.order.iter().map(compare)))
}

/// By what a column says of the BPF program, or of the source; what is in none comes last.
fn by_label(labels: &Labels, column: Column, a: &Keys<'_>, b: &Keys<'_>) -> Ordering {
    let rank = |it: &Keys<'_>| labels.rank(column, it.row.location, it.row.role);
    rank(a).cmp(&rank(b))
}

/// By what a column says of the samples.
fn by_fact(facts: &Facts, column: Column, a: &Keys<'_>, b: &Keys<'_>) -> Ordering {
    facts.rank(column, a.row.group).cmp(&facts.rank(column, b.row.group))
}

fn distance(by: By, Addr(a): Addr, Addr(b): Addr) -> Ordering {
    match by {
        By::Difference => a.wrapping_sub(b).cast_signed().cmp(&0),
        By::Number => a.cast_signed().cmp(&b.cast_signed()),
    }
}

/// By position in the module, and by module where nothing else looks at that; what has no symbol
/// comes after what has one.
fn by_place(plan: &Plan, by: By, a: &Keys<'_>, b: &Keys<'_>) -> Ordering {
    let distance = |a: Addr, b: Addr| distance(by, a, b);
    let place = match (a.symbol, b.symbol) {
        (None, None) => return distance(a.row.addr, b.row.addr),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (Some(this), Some(that)) => {
            let by_name = || b.name.cmp(&a.name);
            let is_by_name = by == By::Difference && (this.is_inlined || that.is_inlined);
            let first = if is_by_name { by_name() } else { Ordering::Equal };
            let by_addr =
                || distance(this.start, that.start).then_with(|| distance(this.end, that.end));
            first.then_with(by_addr).then_with(by_name)
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
    /// What stands for `keys` in a tree.
    fn leads(&self, keys: &[Keys<'_>]) -> Vec<RankLead> {
        if self.order.contains(&Column::Place(PlaceKey::Instructions)) {
            // The comparison is no order even without depths.
            return (0..).map(RankLead::nowhere).take(keys.len()).collect();
        }
        let compare = |order: &[Column], a: u32, b: u32| {
            let depthless = Rank { order, by_depth: None, ..*self };
            depthless.compare(&keys[a as usize], &keys[b as usize])
        };
        let lead = |it: u32| {
            let row = keys[it as usize].row;
            (row.is_shown, Reverse(row.children_period))
        };
        let all = |a: u32, b: u32| compare(self.order, a, b);
        // Only rows that nothing before it tells apart are compared by depth.
        let column = self.order.iter().position(|it| *it == Column::Children);
        let (places, classes) = match column {
            Some(0) => (places(keys.len(), lead, all), Vec::new()),
            Some(column) => {
                let first = |a: u32, b: u32| compare(&self.order[..=column], a, b);
                (places(keys.len(), |_| (), all), places(keys.len(), |_| (), first))
            }
            None => (places(keys.len(), |_| (), all), (0..).take(keys.len()).collect()),
        };
        let mut threads = FxHashMap::default();
        let lead = |(idx, it): (usize, &Keys<'_>)| {
            let class = match classes.get(idx) {
                Some(class) => (false, u64::from(*class)),
                None => (it.row.is_shown, it.row.children_period),
            };
            let next = u32::try_from(threads.len()).unwrap_or(u32::MAX);
            let thread = *threads.entry((class, it.thread())).or_insert(next);
            let depth = match self.by_depth {
                Some(Order::Callee) => it.depth,
                Some(Order::Caller) => u32::MAX - it.depth,
                None => 0,
            };
            RankLead { place: places[idx], thread, depth }
        };
        keys.iter().enumerate().map(lead).collect()
    }

    fn compare(&self, a: &Keys<'_>, b: &Keys<'_>) -> Ordering {
        let compare = |column: &Column| match column {
            Column::Children => {
                b.row.children_period.cmp(&a.row.children_period).then_with(|| self.by_depth(a, b))
            }
            Column::Overhead | Column::Period => {
                self.by_weight(a, b, |it| it.row.period, |it| it.period)
            }
            Column::Samples => self.by_weight(a, b, |it| it.row.n_samples, |it| it.n_samples),
            Column::Comm => a.comm.cmp(&b.comm),
            Column::Dso => a.dso.cmp(&b.dso),
            Column::Symbol => a.name.cmp(&b.name),
            Column::Place(PlaceKey::Instructions) => by_place(self.plan, By::Difference, a, b),
            Column::Pid | Column::Tid => a.row.tid.0.cmp(&b.row.tid.0),
            Column::Cpu => a.cpu().cmp(&b.cpu()),
            Column::Bpf(_) | Column::Source(_) | Column::Place(_) => {
                by_label(&self.plan.labels, *column, a, b)
            }
            Column::Tgid => a.row.pid.cmp(&b.row.pid),
            Column::Sample(_) | Column::Field(_) => by_fact(&self.plan.facts, *column, a, b),
            Column::Privilege(key) => {
                let sum =
                    |it: &Keys<'_>| it.row.privileges.get(*key as usize).copied().unwrap_or(0);
                sum(b).cmp(&sum(a))
            }
        };
        a.row
            .is_shown
            .cmp(&b.row.is_shown)
            .then_with(|| first_difference(self.order.iter().map(compare)))
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
            let weight = |it: &Keys<'_>| it.row.members.get(idx).map(&of_member);
            weight(b).cmp(&weight(a))
        };
        let rest = |decided: Option<usize>| {
            let others = (0..a.row.members.len()).filter(move |it| Some(*it) != decided);
            first_difference(others.map(member))
        };
        match self.sort_idx.and_then(|it| it.checked_sub(1)) {
            Some(idx) if idx < a.row.members.len() => member(idx).then_with(|| rest(Some(idx))),
            _ => by_leader.then_with(|| rest(None)),
        }
    }

    /// Of the rows of one thread, the one with the longer chains is the caller.
    fn by_depth(&self, a: &Keys<'_>, b: &Keys<'_>) -> Ordering {
        match self.by_depth {
            Some(_) if a.thread() != b.thread() => Ordering::Equal,
            Some(Order::Caller) => b.depth.cmp(&a.depth),
            Some(Order::Callee) => a.depth.cmp(&b.depth),
            None => Ordering::Equal,
        }
    }
}

fn first_difference(mut orderings: impl Iterator<Item = Ordering>) -> Ordering {
    orderings.find(|it| it.is_ne()).unwrap_or(Ordering::Equal)
}

#[cfg(test)]
mod tests {
    use crate::profile::Callchains;
    use crate::profile::Request;
    use crate::profile::Sort;
    use crate::profile::rbtree::tests::Silent;
    use crate::profile::rows;
    use crate::profile::rows::Bases;
    use crate::profile::testing::Samples;

    use super::*;

    /// Samples with noise in their chains: addresses all over the address space, few weights.
    fn noise() -> Samples {
        let mut samples = Samples::new();
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..400 {
            let chain: Vec<String> = (0..=random(6))
                .map(|_| match random(6) {
                    0 => format!("f{}", random(40)),
                    1 => format!("lib:g{}", random(40)),
                    2 => format!("inlined{}", random(20)),
                    3 => format!("{:#x}", random(1 << 20)),
                    4 => format!("{:#x}", random(1 << 31) << 33),
                    _ => format!("{:#x}", u64::MAX - random(1 << 20)),
                })
                .collect();
            let chain: Vec<&str> = chain.iter().map(String::as_str).collect();
            let thread = random(3);
            let comm = ["a", "b"][usize::try_from(thread % 2).unwrap()];
            samples.add(comm, i32::try_from(thread).unwrap(), &chain, 1 + random(2));
        }
        for symbol in &mut samples.resolved.symbols {
            symbol.is_inlined = symbol.name.starts_with("inlined");
        }
        samples
    }

    #[track_caller]
    fn check(samples: &Samples, sort: Option<Sort>) {
        let request = Request { sort, ..Request::default() };
        let plan = Plan::new(&request, Callchains::Recorded).unwrap();
        let scope = Scope::new(&samples.resolved, &plan);
        let groups = scope.groups().unwrap();
        let counted = rows::count(&scope, &groups[0], &mut Bases::default());
        let rows = rows::finish(&scope, &counted);
        let keys = keys(&scope, &rows, &counted);
        let silent = vec![Silent; keys.len()];
        let mut want: Vec<u32> = (0..).take(keys.len()).collect();
        want.sort_by_key(|&it| counted.rows[it as usize].1.made());
        let key =
            |a: u32, b: u32| by_keys(&plan, By::Difference, &keys[a as usize], &keys[b as usize]);
        for _ in 0..=u8::from(plan.order.contains(&Column::Comm)) {
            want = inserted(&want, &silent, key);
        }
        let by_depth = Some(plan.chain_order);
        let rank = Rank { plan: &plan, order: &plan.order, by_depth, sort_idx: None };
        let want =
            inserted(&want, &silent, |a, b| rank.compare(&keys[a as usize], &keys[b as usize]));
        assert_eq!(sorted(&scope, &rows, &counted), want);
    }

    #[test]
    fn what_stands_for_rows_changes_nothing() {
        let samples = noise();
        check(&samples, None);
        check(&samples, Some(Sort::By(vec![Column::Dso, Column::Symbol])));
        check(&samples, Some(Sort::By(vec![Column::Symbol])));
        check(&samples, Some(Sort::By(vec![Column::Comm, Column::Symbol])));
        check(
            &samples,
            Some(Sort::By(vec![Column::Tid, Column::Comm, Column::Dso, Column::Symbol])),
        );
    }
}
