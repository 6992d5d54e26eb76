//! Rows below rows: those that differ in the first key, below each those that differ in the second too.

use rustc_hash::FxHashMap;

use super::Accumulate;
use super::Column;
use super::Error;
use super::Histogram;
use super::Plan;
use super::Scope;
use super::rows::Bases;
use super::rows::RowKey;
use crate::replay::resolved::EventIdx;
use crate::replay::resolved::Resolved;

/// What fell on one event, by one key below the other.
#[derive(Debug)]
pub struct Hierarchy {
    /// The rows by one key more on each level, all of a level in the order in which they are shown; those of
    /// the last have call graphs. At least one.
    pub levels: Vec<HierarchyLevel>,
}

/// One level of a [`Hierarchy`].
#[derive(Debug)]
pub struct HierarchyLevel {
    /// The rows.
    pub histogram: Histogram,
    /// The keys of this level.
    pub columns: Vec<Column>,
    /// By row, those of the next level that are below it.
    pub below: Vec<Vec<u32>>,
}

impl Plan {
    /// The keys of each level of a hierarchy of `event`.
    pub(super) fn levels(&self, event: EventIdx) -> Vec<Vec<Column>> {
        let mut levels: Vec<Vec<Column>> = Vec::new();
        for &key in self.columns.iter().filter(|it| it.is_key() && self.is_of(**it, event)) {
            match levels.last_mut() {
                Some(level) if self.joined.contains(&key) => level.push(key),
                _ => levels.push(vec![key]),
            }
        }
        levels
    }

    /// The plan of rows that differ in the keys before the level `depth` and in its own.
    fn of_level(&self, levels: &[Vec<Column>], depth: usize) -> Self {
        let is_last = depth + 1 == levels.len();
        let is_later = |it: &Column| levels.iter().skip(depth + 1).any(|later| later.contains(it));
        let kept = |list: &[Column]| -> Vec<Column> {
            list.iter().copied().filter(|it| !is_later(it)).collect()
        };
        let order = kept(&self.order);
        Self {
            columns: kept(&self.columns),
            // A level may well have one row.
            elided: Vec::new(),
            labels: self.labels.only(&order),
            facts: self.facts.only(&order),
            order,
            graph: self.graph.filter(|_| is_last),
            accumulate: Accumulate::Nothing,
            ..self.clone()
        }
    }
}

/// The hierarchies of `resolved`, one for each event, in the order of the recording; none where no key is
/// left.
///
/// # Errors
///
/// As of [`histograms`](super::histograms).
pub fn hierarchies(resolved: &Resolved, plan: &Plan) -> Result<Vec<Hierarchy>, Error> {
    let tables = plan.tables(resolved);
    let levels_of =
        |events: &Vec<EventIdx>| plan.levels(events.first().copied().unwrap_or_default());
    let mut hierarchies = Vec::new();
    // Mostly all events have the same ones.
    for tables in tables.chunk_by(|a, b| levels_of(a) == levels_of(b)) {
        let Some(levels) = tables.first().map(levels_of) else { continue };
        let plans: Vec<_> = (0..levels.len()).map(|it| plan.of_level(&levels, it)).collect();
        let scopes: Vec<_> = plans.iter().map(|it| Scope::new(resolved, it)).collect();
        let Some(scope) = scopes.first() else { continue };
        let groups = scope.groups()?;
        hierarchies.extend(tables.iter().map(|it| hierarchy(&scopes, &levels, it, &groups)));
    }
    Ok(hierarchies)
}

fn hierarchy(
    scopes: &[Scope<'_>],
    keys_of_levels: &[Vec<Column>],
    events: &[EventIdx],
    groups: &[Vec<u32>],
) -> Hierarchy {
    let mut levels: Vec<HierarchyLevel> = Vec::new();
    let mut above: Option<(&Scope<'_>, Bases, FxHashMap<RowKey, u32>)> = None;
    for (scope, columns) in scopes.iter().zip(keys_of_levels) {
        let (histogram, keys, bases) = scope.keyed_histogram(events, groups);
        if let (Some(level), Some((scope, bases, ids))) = (levels.last_mut(), &mut above) {
            for (row, idx) in histogram.rows.iter().zip(0..) {
                let Some(group) = scope.resolved.groups.get(row.group as usize) else { continue };
                let base = bases.of(scope, &[row.group]).first().copied().unwrap_or(0);
                let key = RowKey::new(base, scope.sites.sampled(group.location));
                let parent = ids.get(&key).and_then(|it| level.below.get_mut(*it as usize));
                if let Some(below) = parent {
                    below.push(idx);
                }
            }
        }
        let below = vec![Vec::new(); histogram.rows.len()];
        above = Some((scope, bases, keys.into_iter().zip(0..).collect()));
        levels.push(HierarchyLevel { histogram, columns: columns.clone(), below });
    }
    Hierarchy { levels }
}

#[cfg(test)]
mod tests {
    use crate::profile::Callchains;
    use crate::profile::GraphRequest;
    use crate::profile::Request;
    use crate::profile::Sort;
    use crate::profile::testing::Samples;

    use super::*;

    /// The rows of each level, as their period and the number of those below.
    #[track_caller]
    fn check(keys: &[Column], want: &[&[(u64, usize)]]) {
        check_joined(keys, &[], want);
    }

    /// The same where `joined` share the level of the key before.
    #[track_caller]
    fn check_joined(keys: &[Column], joined: &[Column], want: &[&[(u64, usize)]]) {
        let mut samples = Samples::new();
        samples.add("a", 1, &["f"], 10).add("a", 1, &["lib:g"], 5).add("a", 1, &["lib:h"], 3).add(
            "b",
            2,
            &["lib:g"],
            9,
        );
        let request = Request {
            sort: Some(Sort::By(keys.to_vec())),
            graph: GraphRequest::No,
            joined: joined.to_vec(),
            ..Request::default()
        };
        let plan = Plan::new(&request, Callchains::Absent).unwrap();
        let hierarchies = hierarchies(&samples.resolved, &plan).unwrap();
        let rows = |level: &HierarchyLevel| -> Vec<_> {
            let rows = level.histogram.rows.iter().map(|it| it.period);
            rows.zip(level.below.iter().map(Vec::len)).collect()
        };
        let got: Vec<_> = hierarchies[0].levels.iter().map(rows).collect();
        assert_eq!(got, want);
    }

    #[test]
    fn each_level_tells_the_rows_above_apart_by_one_key_more() {
        let comms = &[(18, 2), (9, 1)];
        let dsos = &[(10, 1), (9, 1), (8, 2)];
        check(&[Column::Comm, Column::Dso], &[comms, &[(10, 0), (9, 0), (8, 0)]]);
        let symbols = &[(10, 0), (9, 0), (5, 0), (3, 0)];
        check(&[Column::Comm, Column::Dso, Column::Symbol], &[comms, dsos, symbols]);
    }

    #[test]
    fn keys_may_share_a_level() {
        let both = &[(10, 1), (9, 1), (8, 2)];
        let symbols = &[(10, 0), (9, 0), (5, 0), (3, 0)];
        let keys = [Column::Comm, Column::Dso, Column::Symbol];
        check_joined(&keys, &[Column::Dso], &[both, symbols]);
        check_joined(&keys, &keys[1..], &[symbols]);
    }

    #[test]
    fn without_keys_there_is_nothing() {
        let samples = Samples::new();
        let fields = Some(vec![Column::Overhead]);
        let plan =
            Plan::new(&Request { fields, ..Request::default() }, Callchains::Absent).unwrap();
        assert_eq!(hierarchies(&samples.resolved, &plan).unwrap().len(), 0);
    }
}
