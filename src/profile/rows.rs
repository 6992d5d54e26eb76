//! The rows and their weights, counted in parallel.

use rayon::prelude::*;
use rustc_hash::FxHashMap;

use super::Accumulate;
use super::Column;
use super::MemberWeight;
use super::Plan;
use super::Role;
use super::Row;
use super::Scope;
use crate::replay::resolved::CommId;
use crate::replay::resolved::Group;
use crate::replay::resolved::Level;
use crate::replay::resolved::LocationId;
use crate::units::Pid;
use crate::units::Tid;

/// Groups that a worker takes at once, so that small recordings stay on one core.
const MIN_CHUNK: usize = 2048;

/// The rows, in no order yet, and for each group the base of its rows' keys.
#[derive(Debug)]
pub(super) struct Counted {
    /// What a row is of, and what fell on it.
    pub(super) rows: Vec<(RowKey, Weight)>,
    /// By position in the event's groups.
    bases: Vec<u32>,
}

/// Who and where: what a row is told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RowKey {
    base: u32,
    site: u32,
}

/// What fell on a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weight {
    period: u64,
    children_period: u64,
    n_samples: u64,
    /// The group that made the row.
    first: u32,
    /// The frame of its chain that made it; `None` where the row was sampled itself.
    frame: Option<u32>,
    /// How many chains the graph of the row is made of.
    pub(super) n_chains: u64,
    /// The frames of the longest of them.
    pub(super) max_depth: u32,
}

/// Counts the rows that `groups` (indices, in order of first occurrence) fall on.
pub(super) fn count(scope: &Scope<'_>, groups: &[u32], bases: &mut Bases) -> Counted {
    let bases = bases.of(scope, groups);
    // As many parts as cores, since each has the rows that it shares with others once more.
    let chunk = groups.len().div_ceil(rayon::current_num_threads()).max(MIN_CHUNK);
    let parts: Vec<_> = groups
        .par_chunks(chunk)
        .zip(bases.par_chunks(chunk))
        .map(|(groups, bases)| {
            let mut part = Part::new(scope.sites.len());
            for (&group, &base) in groups.iter().zip(bases) {
                part.add(scope, group, base);
            }
            part.rows
        })
        .collect();
    let mut parts = parts.into_iter();
    let mut all = parts.next().unwrap_or_default();
    for part in parts {
        part.list.iter().for_each(|(key, weight)| all.add(*key, weight));
    }
    Counted { rows: all.list, bases }
}

/// How many groups make a chunk: a few for each core.
pub(super) fn chunk_len(n_groups: usize) -> usize {
    n_groups.div_ceil(2 * rayon::current_num_threads()).max(MIN_CHUNK)
}

impl Counted {
    /// Takes in the rows of another event of the group, which weigh nothing here; returns what fell on
    /// each row of that event.
    pub(super) fn join(&mut self, other: Self, plan: &Plan) -> Vec<MemberWeight> {
        let mut ids: FxHashMap<_, _> =
            self.rows.iter().map(|(key, _)| *key).zip(0_usize..).collect();
        let mut weights = vec![MemberWeight::default(); self.rows.len()];
        for (key, weight) in other.rows {
            let id = *ids.entry(key).or_insert(self.rows.len());
            if id == self.rows.len() {
                let Weight { first, frame, .. } = weight;
                self.rows.push((key, Weight::nothing(first, frame)));
                weights.push(MemberWeight::default());
            }
            weights[id] = MemberWeight {
                period: weight.period,
                children_period: weight.graph_period(plan.accumulate),
                n_samples: weight.n_samples,
                privileges: [0; 4],
            };
        }
        weights
    }

    /// The base of the keys of the rows that the group at `position` of the event's groups is on.
    pub(super) fn base(&self, position: usize) -> u32 {
        self.bases[position]
    }
}

impl RowKey {
    pub(super) fn new(base: u32, site: u32) -> Self {
        Self { base, site }
    }

    /// Where the row is.
    pub(super) fn site(self) -> u32 {
        self.site
    }
}

/// Rows, found by what they are told apart by.
///
/// Most sites are of one base, so that their rows are found by the site.
#[derive(Default)]
struct Rows {
    list: Vec<(RowKey, Weight)>,
    /// By site.
    sites: Vec<Site>,
    /// The rows that are not found by their sites.
    others: FxHashMap<RowKey, u32>,
}

/// What to know of a site.
#[derive(Clone, Copy)]
struct Site {
    /// The first row there, or [`NO_ROW`].
    row: u32,
    /// The base of that row.
    base: u32,
    /// The number of the group that was there last, so that a recursion counts once.
    seen: u32,
}

const NO_ROW: u32 = u32::MAX;

impl Rows {
    fn new(n_sites: usize) -> Self {
        let site = Site { row: NO_ROW, base: 0, seen: 0 };
        Self { sites: vec![site; n_sites], ..Self::default() }
    }

    fn add(&mut self, key: RowKey, weight: &Weight) {
        let Self { list, sites, others } = self;
        let next = u32::try_from(list.len()).expect("fewer than 2^32 rows");
        let site = &mut sites[key.site as usize];
        let row = if site.row == NO_ROW {
            (site.row, site.base) = (next, key.base);
            next
        } else if site.base == key.base {
            site.row
        } else {
            *others.entry(key).or_insert(next)
        };
        match list.get_mut(row as usize) {
            Some((_, all)) => all.add(weight),
            None => list.push((key, *weight)),
        }
    }
}

impl Weight {
    /// What made the row, in the order in which rows are made.
    pub(super) fn made(&self) -> (u32, Option<u32>) {
        (self.first, self.frame)
    }

    /// The most that a branch of the row's graph can weigh.
    pub(super) fn graph_period(&self, accumulate: Accumulate) -> u64 {
        match accumulate {
            Accumulate::Callers => self.children_period,
            Accumulate::Nothing => self.period,
        }
    }

    fn nothing(first: u32, frame: Option<u32>) -> Self {
        Self {
            period: 0,
            children_period: 0,
            n_samples: 0,
            first,
            frame,
            n_chains: 0,
            max_depth: 0,
        }
    }

    /// Adds what came later.
    fn add(&mut self, other: &Self) {
        let Self { period, children_period, n_samples, first: _, frame: _, n_chains, max_depth } =
            self;
        *period = period.wrapping_add(other.period);
        *children_period = children_period.wrapping_add(other.children_period);
        *n_samples += other.n_samples;
        *n_chains += other.n_chains;
        *max_depth = (*max_depth).max(other.max_depth);
    }
}

/// What one worker has counted.
struct Part {
    rows: Rows,
    n_groups: u32,
}

impl Part {
    fn new(n_sites: usize) -> Self {
        Self { rows: Rows::new(n_sites), n_groups: 0 }
    }

    fn add(&mut self, scope: &Scope<'_>, group_idx: u32, base: u32) {
        let Scope { resolved, plan, sites, chains, .. } = scope;
        let group = &resolved.groups[group_idx as usize];
        let chain = chains.of(resolved, group);
        let len = u32::try_from(chain.len()).unwrap_or(u32::MAX);
        let depth = if plan.graph.is_some() { len } else { 0 };
        let sampled = Weight {
            period: group.period,
            children_period: group.period,
            n_samples: group.n_samples,
            first: group_idx,
            frame: None,
            n_chains: u64::from(depth != 0),
            max_depth: depth,
        };
        let site = sites.sampled(group.location);
        self.rows.add(RowKey::new(base, site), &sampled);
        if plan.accumulate == Accumulate::Nothing {
            return;
        }
        self.n_groups += 1;
        self.rows.sites[site as usize].seen = self.n_groups;
        // perf compares a caller with the rows of the sample as if the filter showed it, and so
        // counts recursions in what is not shown each time. Their rows are never seen, but have
        // their weight in the order of the others.
        let counts_once = scope.shows(group_idx);
        for frame in 0..len {
            let Some(location) = chain.get(frame as usize) else { break };
            let site = sites.caller(location);
            let seen = &mut self.rows.sites[site as usize].seen;
            if std::mem::replace(seen, self.n_groups) == self.n_groups && counts_once {
                continue;
            }
            let max_depth = depth.saturating_sub(frame);
            let caller =
                Weight { period: 0, n_samples: 0, frame: Some(frame), max_depth, ..sampled };
            self.rows.add(RowKey::new(base, site), &caller);
        }
    }
}

/// Who samples are of, as far as rows differ in it, each with a number.
///
/// Samples that the filter shows and those that it does not never share a row.
#[derive(Debug, Default)]
pub(super) struct Bases(FxHashMap<Base, u32>);

/// Who a sample is of: what rows do not differ in is `None`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Base {
    comm: Option<CommId>,
    tid: Option<Tid>,
    pid: Option<Pid>,
    cpu: Option<u32>,
    /// What columns about samples say.
    facts: u32,
    is_shown: bool,
}

impl Bases {
    /// For each of `groups` a number that groups share whose rows differ in nothing but the site.
    pub(super) fn of(&mut self, scope: &Scope<'_>, groups: &[u32]) -> Vec<u32> {
        let Self(ids) = self;
        let Scope { resolved, plan, .. } = scope;
        let [by_comm, by_cpu] = [Column::Comm, Column::Cpu].map(|it| plan.order.contains(&it));
        let by_thread = plan.order.contains(&Column::Pid) || plan.order.contains(&Column::Tid);
        let by_process = plan.order.contains(&Column::Tgid);
        let base = |&idx: &u32| {
            let group = &resolved.groups[idx as usize];
            let key = Base {
                comm: by_comm.then_some(group.comm),
                tid: by_thread.then_some(group.tid),
                pid: by_process.then_some(group.pid),
                cpu: group.cpu.filter(|_| by_cpu),
                facts: plan.facts.combined(idx),
                is_shown: scope.shows(idx),
            };
            let next = u32::try_from(ids.len()).expect("a base at most for a group");
            *ids.entry(key).or_insert(next)
        };
        groups.iter().map(base).collect()
    }
}

/// The rows with everything that their first sample says of them.
pub(super) fn finish(scope: &Scope<'_>, counted: &Counted) -> Vec<Row> {
    let Scope { resolved, plan, .. } = scope;
    let row = |(_, weight): &(RowKey, Weight)| {
        let group = &resolved.groups[weight.first as usize];
        let (id, level) = maker(scope, group, weight);
        let location = &resolved.locations[id.0 as usize];
        let role = if weight.frame.is_none() { Role::Sampled } else { Role::Caller };
        Row {
            period: weight.period,
            children_period: match plan.accumulate {
                Accumulate::Callers => weight.children_period,
                Accumulate::Nothing => weight.period,
            },
            n_samples: weight.n_samples,
            privileges: Box::default(),
            group: weight.first,
            comm: group.comm,
            last_comm: group.last_comm,
            leader_comm: group.leader_comm,
            pid: group.pid,
            tid: group.tid,
            cpu: group.cpu,
            dso: location.dso,
            symbol: location.symbol,
            addr: match role {
                Role::Sampled if resolved.is_of_branches() => location.ip,
                Role::Sampled => location.addr,
                Role::Caller => location.ip,
            },
            level,
            location: id,
            role,
            is_shown: scope.shows(weight.first),
            members: Box::default(),
            tree: None,
        }
    };
    counted.rows.par_iter().map(row).collect()
}

/// Has each of `rows` know at which privilege its samples were, if a column shows it: `groups` are those
/// of each event of the table.
pub(super) fn add_privileges(
    scope: &Scope<'_>,
    rows: &mut [Row],
    counted: &Counted,
    groups: &[&[u32]],
    bases: &mut Bases,
) {
    let Scope { resolved, plan, sites, .. } = scope;
    if !plan.columns.iter().any(|it| matches!(it, Column::Privilege(_))) {
        return;
    }
    let ids: FxHashMap<_, _> = counted.rows.iter().map(|(key, _)| *key).zip(0_usize..).collect();
    for row in &mut *rows {
        row.privileges = [0; 4].into();
    }
    for (event, groups) in groups.iter().enumerate() {
        for (base, &group) in bases.of(scope, groups).into_iter().zip(*groups) {
            let group = &resolved.groups[group as usize];
            let place = match resolved.locations[group.location.0 as usize].level {
                Level::Kernel => 0,
                Level::User => 1,
                Level::GuestKernel => 2,
                Level::GuestUser => 3,
                Level::Hypervisor => continue,
            };
            let key = RowKey::new(base, sites.sampled(group.location));
            let Some(row) = ids.get(&key).and_then(|it| rows.get_mut(*it)) else { continue };
            let sums = match event.checked_sub(1).map(|it| row.members.get_mut(it)) {
                None => &mut *row.privileges,
                Some(Some(member)) => &mut member.privileges,
                Some(None) => continue,
            };
            sums[place] = sums[place].wrapping_add(group.period);
        }
    }
}

/// The location that made a row, and the level that perf shows for it.
///
/// perf resolves callers by the maps of the process and never finds that they are the kernel's, so
/// a caller is shown as user code wherever it is; one outside all modules keeps the level of the
/// frame before (`fill_callchain_info` in `tools/perf/util/callchain.c`).
fn maker(scope: &Scope<'_>, group: &Group, weight: &Weight) -> (LocationId, Level) {
    let Scope { resolved, chains, .. } = scope;
    let sampled = (group.location, resolved.locations[group.location.0 as usize].level);
    let Some(frame) = weight.frame else { return sampled };
    let chain = chains.of(resolved, group);
    let locations = (0..=frame as usize).filter_map(|it| chain.get(it));
    locations.fold(sampled, |(_, level), id| {
        let it = &resolved.locations[id.0 as usize];
        let level = match it.level {
            _ if it.dso.is_none() && it.symbol.is_none() => level,
            Level::Kernel | Level::User => Level::User,
            Level::GuestKernel | Level::GuestUser | Level::Hypervisor => Level::Hypervisor,
        };
        (id, level)
    })
}
