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
    /// The key of this level.
    pub column: Column,
    /// By row, those of the next level that are below it.
    pub below: Vec<Vec<u32>>,
}

impl Plan {
    /// The keys that a hierarchy has levels for.
    pub(super) fn levels(&self) -> Vec<Column> {
        self.columns.iter().copied().filter(|it| it.is_key()).collect()
    }

    /// The plan of rows that differ in the keys before the level `depth` and in its own.
    fn of_level(&self, levels: &[Column], depth: usize) -> Self {
        let is_last = depth + 1 == levels.len();
        let is_later = |it: &Column| levels.iter().skip(depth + 1).any(|later| later == it);
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
    let columns = plan.levels();
    let plans: Vec<_> = (0..columns.len()).map(|it| plan.of_level(&columns, it)).collect();
    let mut scopes = Vec::new();
    for plan in &plans {
        scopes.push(Scope::new(resolved, plan));
    }
    let Some(scope) = scopes.first() else { return Ok(Vec::new()) };
    let groups = scope.groups()?;
    let tables = plan.tables(resolved);
    Ok(tables.iter().map(|events| hierarchy(&scopes, &columns, events, &groups)).collect())
}

fn hierarchy(
    scopes: &[Scope<'_>],
    columns: &[Column],
    events: &[EventIdx],
    groups: &[Vec<u32>],
) -> Hierarchy {
    let mut levels: Vec<HierarchyLevel> = Vec::new();
    let mut above: Option<(&Scope<'_>, Bases, FxHashMap<RowKey, u32>)> = None;
    for (scope, &column) in scopes.iter().zip(columns) {
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
        levels.push(HierarchyLevel { histogram, column, below });
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
    fn without_keys_there_is_nothing() {
        let samples = Samples::new();
        let fields = Some(vec![Column::Overhead]);
        let plan =
            Plan::new(&Request { fields, ..Request::default() }, Callchains::Absent).unwrap();
        assert_eq!(hierarchies(&samples.resolved, &plan).unwrap().len(), 0);
    }
}
