//! Call graphs: the chains of a row, joined where they begin alike.
//!
//! A graph is grown from the root outwards, and only where a branch is heavy enough to be shown:
//! the chains at a node are weighed by their next frame, those of light branches are dropped.

use std::cmp::Reverse;
use std::ops::Range;

use rayon::prelude::*;
use rustc_hash::FxHashMap;

use super::Accumulate;
use super::Graph;
use super::Scope;
use super::Shape;
use super::Totals;
use super::chain::Chain;
use super::chain::Chains;
use super::rows::Counted;
use super::rows::RowKey;
use super::rows::chunk_len;
use crate::replay::resolved::LocationId;

/// How many chains are held at once, over all rows.
const MAX_CHAINS: u64 = 4 << 20;

/// The call graph of a row, without the branches that are too light to be shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallTree {
    nodes: Vec<Node>,
    frames: Vec<LocationId>,
    n_roots: u32,
    n_samples: u64,
}

/// A run of frames that all chains through the first of them go through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The sum of the periods of all samples that go through it.
    pub period: u64,
    /// The number of these samples.
    pub n_samples: u64,
    /// The part of the period that is that of its children.
    pub children_period: u64,
    /// Their samples.
    pub n_children_samples: u64,
    frames: Range<u32>,
    children: Range<u32>,
}

impl CallTree {
    /// The samples of all chains, those that are too light to be shown included.
    pub fn n_samples(&self) -> u64 {
        self.n_samples
    }

    /// The nodes at the root, the heaviest first.
    pub fn roots(&self) -> &[Node] {
        &self.nodes[..self.n_roots as usize]
    }

    /// The nodes under `node`, the heaviest first.
    pub fn children(&self, node: &Node) -> &[Node] {
        &self.nodes[node.children.start as usize..node.children.end as usize]
    }

    /// A root for each whole chain that weighs at least `min_period`, the heaviest first.
    fn listed(&self, min_period: u64) -> Self {
        let mut chains = Vec::new();
        // Chains that begin with others come before them.
        let mut work: Vec<_> =
            self.roots().iter().rev().map(|it| (it, Vec::new(), false)).collect();
        while let Some((node, mut frames, is_done)) = work.pop() {
            if !is_done {
                frames.extend_from_slice(self.frames(node));
                let below = self.children(node).iter().rev();
                let below: Vec<_> = below.map(|it| (it, frames.clone(), false)).collect();
                work.push((node, frames, true));
                work.extend(below);
                continue;
            }
            let own = node.period.wrapping_sub(node.children_period);
            if own != 0 && own >= min_period {
                chains.push((node, own, frames));
            }
        }
        chains.sort_by_key(|(_, own, _)| Reverse(*own));
        let (n_roots, n_samples) = (index(chains.len()), self.n_samples);
        let mut listed = Self { n_roots, n_samples, ..Self::default() };
        for (node, _, frames) in chains {
            let start = index(listed.frames.len());
            listed.frames.extend(frames);
            listed.nodes.push(Node {
                frames: start..index(listed.frames.len()),
                children: 0..0,
                ..node.clone()
            });
        }
        listed
    }

    /// The frames of `node`, that nearest to the root first.
    pub fn frames(&self, node: &Node) -> &[LocationId] {
        &self.frames[node.frames.start as usize..node.frames.end as usize]
    }
}

/// A chain of one row's graph, from where the graph begins.
#[derive(Clone, Copy)]
struct Strand<'a> {
    chain: Chain<'a>,
    start: usize,
    period: u64,
    n_samples: u64,
}

impl Strand<'_> {
    fn get(&self, depth: usize) -> Option<LocationId> {
        self.chain.get(self.start + depth)
    }
}

/// The graphs of the rows that are `wanted`, by index, where a branch is heavy enough.
pub(super) fn grow(
    scope: &Scope<'_>,
    counted: &Counted,
    wanted: &[bool],
    totals: &Totals,
    groups: &[u32],
) -> Vec<(usize, CallTree)> {
    let Scope { resolved, plan, chains, .. } = scope;
    let Some(graph) = plan.graph else { return Vec::new() };
    let threshold = Threshold::new(&graph, totals.base(plan.percentage));
    let min_row_period = threshold.of_row();
    let weight = |row: usize| {
        let (_, weight) = &counted.rows[row];
        (weight.n_chains, weight.graph_period(plan.accumulate))
    };
    let rows = (0..wanted.len()).filter(|&it| {
        let (n_chains, period) = weight(it);
        wanted[it] && n_chains != 0 && period >= min_row_period
    });
    let mut batches = vec![(Vec::new(), 0)];
    for row in rows {
        let (n_chains, _) = weight(row);
        if let Some((rows, n)) = batches.last_mut()
            && (rows.is_empty() || *n + n_chains <= MAX_CHAINS)
        {
            rows.push(row);
            *n += n_chains;
        } else {
            batches.push((vec![row], n_chains));
        }
    }
    let mut trees = Vec::new();
    for (rows, _) in batches {
        let keys: Vec<_> = rows.iter().map(|&it| counted.rows[it].0).collect();
        let bundles = bundles(scope, counted, &keys, groups);
        let grown = rows.par_iter().zip(bundles).filter_map(|(&row, bundle)| {
            let strands = bundle.iter().map(|&(group, start)| {
                let group = &resolved.groups[group as usize];
                Strand {
                    chain: chains.of(resolved, group),
                    start: start as usize,
                    period: group.period,
                    n_samples: group.n_samples,
                }
            });
            let mut tree = tree(strands.collect(), threshold, chains);
            if graph.shape.is_list() {
                tree = tree.listed(min_period(&graph, totals.base(plan.percentage)));
            }
            (!tree.nodes.is_empty()).then_some((row, tree))
        });
        trees.par_extend(grown);
    }
    trees
}

/// The smallest period of a branch that is shown.
#[derive(Clone, Copy, Debug)]
enum Threshold {
    /// This, wherever it is.
    Period(u64),
    /// This part of what all branches at its place weigh.
    Part(f64),
    /// Nothing is too light, until whole chains are chosen.
    Chain,
}

impl Threshold {
    fn new(graph: &Graph, base: u64) -> Self {
        match graph.shape {
            Shape::Graph => Self::Period(min_period(graph, base)),
            Shape::Fractal => Self::Part(graph.min_percent / 100.0),
            Shape::Flat | Shape::Folded => Self::Chain,
        }
    }

    /// The smallest period of a row that has a graph.
    fn of_row(self) -> u64 {
        match self {
            Self::Period(period) => period,
            Self::Part(_) | Self::Chain => 0,
        }
    }

    /// The smallest period of one of several branches that weigh `sum`.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "perf cuts it off likewise"
    )]
    fn of_branch(self, sum: u64) -> u64 {
        match self {
            Self::Period(period) => period,
            Self::Part(part) => (sum as f64 * part).ceil() as u64,
            Self::Chain => 0,
        }
    }
}

/// The smallest period of what `graph` shows, of `base`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "perf cuts it off likewise"
)]
fn min_period(graph: &Graph, base: u64) -> u64 {
    (base as f64 * (graph.min_percent / 100.0)) as u64
}

/// For each of the rows `keys` its chains: the group, and the frame where the graph begins.
fn bundles(
    scope: &Scope<'_>,
    counted: &Counted,
    keys: &[RowKey],
    groups: &[u32],
) -> Vec<Vec<(u32, u32)>> {
    let Scope { resolved, plan, sites, chains, .. } = scope;
    let slots: FxHashMap<_, _> = keys.iter().copied().zip(0..).collect();
    let mut is_wanted = vec![false; sites.len()];
    for key in keys {
        is_wanted[key.site() as usize] = true;
    }
    let chunk = chunk_len(groups.len());
    let part = |(chunk_idx, groups): (usize, &[u32])| {
        let mut bundles = vec![Vec::new(); keys.len()];
        let mut seen = vec![0_u32; sites.len()];
        let first = chunk_idx * chunk;
        for ((stamp, position), &group_idx) in (1..).zip(first..).zip(groups) {
            let group = &resolved.groups[group_idx as usize];
            let base = counted.base(position);
            let mut add = |site: u32, start: u32| {
                if !is_wanted[site as usize] || seen[site as usize] == stamp {
                    return;
                }
                seen[site as usize] = stamp;
                if let Some(&slot) = slots.get(&RowKey::new(base, site)) {
                    let bundle: &mut Vec<_> = &mut bundles[slot];
                    bundle.push((group_idx, start));
                }
            };
            let chain = chains.of(resolved, group);
            add(sites.sampled(group.location), 0);
            if plan.accumulate == Accumulate::Callers {
                for start in 0..u32::try_from(chain.len()).unwrap_or(u32::MAX) {
                    let Some(location) = chain.get(start as usize) else { break };
                    add(sites.caller(location), start);
                }
            }
        }
        bundles
    };
    let parts: Vec<_> = groups.par_chunks(chunk).enumerate().map(part).collect();
    let mut bundles = vec![Vec::new(); keys.len()];
    for part in parts {
        for (all, some) in bundles.iter_mut().zip(part) {
            if all.is_empty() { *all = some } else { all.extend(some) }
        }
    }
    bundles
}

/// The graph of `strands`, without branches lighter than `min_period`.
fn tree(strands: Vec<Strand<'_>>, threshold: Threshold, chains: &Chains) -> CallTree {
    let mut tree = CallTree::default();
    let (roots, (_, n_samples)) = branch(&strands, 0, threshold, chains);
    drop(strands);
    tree.n_samples = n_samples;
    let mut work = Vec::new();
    tree.n_roots = plant(&mut tree, roots, 0, &mut work).end;
    while let Some((node, strands, mut depth)) = work.pop() {
        let first_frame = tree.frames.len();
        while let Some(location) = common_frame(&strands, depth, chains) {
            tree.frames.push(location);
            depth += 1;
        }
        let frames = index(first_frame)..index(tree.frames.len());
        let (branches, sum) = branch(&strands, depth, threshold, chains);
        drop(strands);
        let children = plant(&mut tree, branches, depth, &mut work);
        let node = &mut tree.nodes[node];
        node.frames = frames;
        node.children = children;
        (node.children_period, node.n_children_samples) = sum;
    }
    tree
}

/// The frame of all `strands` at `depth`, where they have the same.
fn common_frame(strands: &[Strand<'_>], depth: usize, chains: &Chains) -> Option<LocationId> {
    let location = strands.first()?.get(depth)?;
    let frame = chains.frame(location);
    let is_same = |it: &Strand<'_>| it.get(depth).is_some_and(|it| chains.frame(it) == frame);
    strands.iter().all(is_same).then_some(location)
}

/// A branch: its weight and the chains that go through it.
struct Branch<'a> {
    frame: u32,
    period: u64,
    n_samples: u64,
    strands: Vec<Strand<'a>>,
}

/// The branches of `strands` at `depth`, the heaviest first, without those that are too light; and
/// what all of them weigh, in period and samples.
fn branch<'a>(
    strands: &[Strand<'a>],
    depth: usize,
    threshold: Threshold,
    chains: &Chains,
) -> (Vec<Branch<'a>>, (u64, u64)) {
    let mut ids = FxHashMap::default();
    let mut branches: Vec<Branch<'a>> = Vec::new();
    for strand in strands {
        let Some(location) = strand.get(depth) else { continue };
        let frame = chains.frame(location);
        let id = *ids.entry(frame).or_insert(branches.len());
        match branches.get_mut(id) {
            Some(branch) => {
                branch.period = branch.period.wrapping_add(strand.period);
                branch.n_samples += strand.n_samples;
            }
            None => branches.push(Branch {
                frame,
                period: strand.period,
                n_samples: strand.n_samples,
                strands: Vec::new(),
            }),
        }
    }
    let sum = branches.iter().fold((0_u64, 0), |(period, n_samples), it| {
        (period.wrapping_add(it.period), n_samples + it.n_samples)
    });
    let min_period = threshold.of_branch(sum.0);
    branches.retain(|it| it.period >= min_period);
    let by = chains.order_by(branches.iter().map(|it| it.frame));
    if matches!(threshold, Threshold::Chain) {
        branches.sort_by_key(|it| chains.place(it.frame, by));
    } else {
        branches.sort_by_key(|it| (Reverse(it.period), chains.place(it.frame, by)));
    }
    let ids: FxHashMap<_, _> = branches.iter().map(|it| it.frame).zip(0_usize..).collect();
    for strand in strands {
        let Some(location) = strand.get(depth) else { continue };
        if let Some(&id) = ids.get(&chains.frame(location)) {
            branches[id].strands.push(*strand);
        }
    }
    (branches, sum)
}

/// Adds a node for each of `branches`, and the work of growing it.
fn plant<'a>(
    tree: &mut CallTree,
    branches: Vec<Branch<'a>>,
    depth: usize,
    work: &mut Vec<(usize, Vec<Strand<'a>>, usize)>,
) -> Range<u32> {
    let first = tree.nodes.len();
    for Branch { frame: _, period, n_samples, strands } in branches {
        work.push((tree.nodes.len(), strands, depth));
        tree.nodes.push(Node { period, n_samples, ..Node::default() });
    }
    index(first)..index(tree.nodes.len())
}

fn index(len: usize) -> u32 {
    u32::try_from(len).expect("fewer than 2^32 nodes and frames in a graph")
}
