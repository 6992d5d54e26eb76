//! The call graph under a row.
//!
//! The shape is that of `tools/perf/ui/stdio/hist.c`: a column of eleven characters a level of
//! branching, a bar where a branch of that level is still to come.

use std::fmt::Write;

use crate::profile::CallTree;
use crate::profile::FrameKey;
use crate::profile::Graph;
use crate::profile::GraphValue;
use crate::profile::Node;
use crate::profile::Plan;
use crate::profile::Row;
use crate::profile::Shape;
use crate::profile::Totals;
use crate::render::escape::escape;

use super::INLINED;
use crate::replay::resolved::Location;
use crate::replay::resolved::LocationId;
use crate::replay::resolved::Resolved;

/// What stands left of every graph.
const MARGIN: usize = 12;

/// The branches of one node while they are written.
struct Level<'a> {
    nodes: &'a [Node],
    n_written: usize,
    depth: u32,
    /// A bit for each level that has branches to come, as seen from above the next branch.
    bars: u32,
    /// The same as seen beside the last branch.
    bars_beside: u32,
    /// What shares are shares of.
    whole: Weight,
    /// What of it is on no branch that was written.
    remaining: Weight,
}

struct Writer<'a> {
    text: &'a mut String,
    resolved: &'a Resolved,
    graph: Graph,
    margin: usize,
}

/// What a branch weighs.
#[derive(Clone, Copy)]
struct Weight {
    period: u64,
    n_samples: u64,
}

impl Weight {
    fn of(node: &Node) -> Self {
        Self { period: node.period, n_samples: node.n_samples }
    }

    /// What ends at `node`.
    fn own(node: &Node) -> Self {
        Self {
            period: node.period.wrapping_sub(node.children_period),
            n_samples: node.n_samples.wrapping_sub(node.n_children_samples),
        }
    }
}

/// Writes the graph of `row` to `text`.
pub(super) fn write(
    text: &mut String,
    resolved: &Resolved,
    plan: &Plan,
    settings: Graph,
    tree: &CallTree,
    row: &Row,
    (totals, separator): (&Totals, Option<&str>),
) {
    let start = text.len();
    let graph = settings;
    let mut writer = Writer { text, resolved, graph, margin: MARGIN };
    // Of all samples, whatever the filter.
    let total = totals.period;
    let weight = row.weight(plan.accumulate);
    let n_shown = if graph.limit == 0 { usize::MAX } else { graph.limit };
    match graph.shape {
        Shape::Flat => return writer.flat(tree, total, n_shown),
        Shape::Folded => return writer.folded(tree, total, n_shown, separator),
        Shape::Graph | Shape::Fractal => {}
    }
    let mut whole = match graph.shape {
        Shape::Fractal => Weight { period: weight, n_samples: tree.n_samples() },
        _ => Weight { period: total, n_samples: totals.n_samples },
    };
    let roots = match tree.roots() {
        // A single root that weighs what the row does needs no label.
        [root] if root.period == weight => {
            let n_skipped = usize::from(plan.symbol_leads);
            let frames = tree.frames(root).iter().skip(n_skipped).take(n_shown);
            for (idx, frame) in frames.enumerate() {
                if idx == 0 {
                    writer.begin();
                    writer.text.push_str("|\n");
                    writer.begin();
                    writer.text.push_str("---");
                    writer.margin += 3;
                } else {
                    writer.begin();
                }
                writer.name(*frame);
                writer.text.push('\n');
            }
            whole.n_samples = root.n_children_samples;
            tree.children(root)
        }
        roots => roots,
    };
    writer.branches(tree, roots, whole);
    if text.len() != start {
        text.push('\n');
    }
}

impl Writer<'_> {
    /// Each chain below its weight, frame by frame.
    fn flat(&mut self, tree: &CallTree, total: u64, n_shown: usize) {
        for node in tree.roots().iter().take(n_shown) {
            self.text.push_str("           ");
            self.value(Weight::of(node), total);
            self.text.push('\n');
            for frame in tree.frames(node) {
                self.text.push_str("                ");
                self.name(*frame);
                self.text.push('\n');
            }
            self.text.push('\n');
        }
    }

    /// Each chain in a line, behind its weight.
    fn folded(&mut self, tree: &CallTree, total: u64, n_shown: usize, separator: Option<&str>) {
        for node in tree.roots().iter().take(n_shown) {
            self.value(Weight::own(node), total);
            self.text.push(' ');
            for (idx, frame) in tree.frames(node).iter().enumerate() {
                if idx != 0 {
                    self.text.push_str(separator.unwrap_or(";"));
                }
                self.name(*frame);
            }
            self.text.push('\n');
        }
    }

    fn branches(&mut self, tree: &CallTree, roots: &[Node], whole: Weight) {
        let Graph { limit, shape, value, .. } = self.graph;
        let is_fractal = shape == Shape::Fractal;
        let level = |nodes, depth, bars, whole: Weight| Level {
            nodes,
            n_written: 0,
            depth,
            bars,
            bars_beside: bars,
            whole,
            remaining: whole,
        };
        let mut levels = vec![level(roots, 1, 1, whole)];
        while let Some(at) = levels.last_mut() {
            let node = match at.nodes.get(at.n_written) {
                Some(node) if limit == 0 || at.n_written < limit => node,
                _ => {
                    let Level { depth, bars_beside, whole, remaining, .. } = *at;
                    levels.pop();
                    let is_counted = value != GraphValue::Count || remaining.n_samples != 0;
                    if is_fractal
                        && remaining.period != 0
                        && remaining.period != whole.period
                        && is_counted
                    {
                        let bars = bars_beside & !bit(depth - 1);
                        self.branch(depth, bars, Some((remaining, whole.period)));
                        self.text.push_str("[...]\n");
                    }
                    continue;
                }
            };
            at.n_written += 1;
            at.remaining.period = at.remaining.period.wrapping_sub(node.period);
            at.remaining.n_samples = at.remaining.n_samples.saturating_sub(node.n_samples);
            let Level { nodes, n_written, depth, bars, whole, remaining, .. } = *at;
            if n_written == nodes.len() && !(is_fractal && remaining.period != 0) {
                at.bars_beside &= !bit(depth - 1);
            }
            let bars_beside = at.bars_beside;
            self.gap(depth, bars);
            for (idx, frame) in tree.frames(node).iter().enumerate() {
                let label = (idx == 0).then_some((Weight::of(node), whole.period));
                self.branch(depth, bars_beside, label);
                self.name(*frame);
                self.text.push('\n');
            }
            let below = if is_fractal {
                Weight { period: node.children_period, n_samples: node.n_children_samples }
            } else {
                whole
            };
            levels.push(level(tree.children(node), depth + 1, bars_beside | bit(depth), below));
        }
    }

    /// What stands left of a frame's name, with what the branch weighs, of a whole, if it is the first.
    fn branch(&mut self, depth: u32, bars: u32, label: Option<(Weight, u64)>) {
        self.begin();
        for i in 0..depth {
            self.text.push(if bars & bit(i) == 0 { ' ' } else { '|' });
            match label {
                Some((weight, whole)) if i + 1 == depth => {
                    self.text.push_str("--");
                    self.value(weight, whole);
                    self.text.push_str("--");
                }
                _ => self.text.push_str("          "),
            }
        }
    }

    /// The line above a branch.
    fn gap(&mut self, depth: u32, bars: u32) {
        self.begin();
        for i in 0..depth {
            self.text.push(if bars & bit(i) == 0 { ' ' } else { '|' });
            self.text.push_str("          ");
        }
        self.text.push('\n');
    }

    fn value(&mut self, weight: Weight, whole: u64) {
        let Weight { period, n_samples } = weight;
        let share = if whole == 0 { 0.0 } else { period as f64 * 100.0 / whole as f64 };
        // Writing to a string cannot fail.
        let _written = match self.graph.value {
            GraphValue::Percent => write!(self.text, "{share:.2}%"),
            GraphValue::Period => write!(self.text, "{period}"),
            GraphValue::Count => write!(self.text, "{n_samples}"),
        };
    }

    fn begin(&mut self) {
        self.text.extend(std::iter::repeat_n(' ', self.margin));
    }

    fn name(&mut self, LocationId(id): LocationId) {
        let Some(location) = self.resolved.locations.get(id as usize) else { return };
        let symbol = location.symbol.and_then(|it| self.resolved.symbols.get(it.0 as usize));
        match symbol {
            Some(symbol) => {
                self.text.push_str(&escape(symbol.name.as_bytes()));
                if self.graph.key != FrameKey::Function {
                    self.line(location);
                }
                if symbol.is_inlined {
                    self.text.push_str(INLINED);
                }
            }
            // C's `%#llx`, which leaves the prefix away from zero.
            None if location.ip.0 == 0 => self.text.push('0'),
            None => {
                // Writing to a string cannot fail.
                let _written = write!(self.text, "{:#x}", location.ip.0);
            }
        }
    }

    /// The line of source or, where none is known, how far it is into the symbol.
    fn line(&mut self, location: &Location) {
        let path = |file: u32| self.resolved.source_files.get(file as usize);
        let line = location.line.and_then(|it| Some((path(it.file)?, it.line)));
        // Writing to a string cannot fail.
        let _written = match line {
            Some((path, line)) => {
                let path = self.graph.paths.shown(path);
                write!(self.text, " {}:{line}", escape(path.as_bytes()))
            }
            None => write!(self.text, " +{}", location.symbol_offset),
        };
    }
}

/// The bit of a level; perf has 32 of them, and begins anew after that, as the processor does.
fn bit(depth: u32) -> u32 {
    1_u32.wrapping_shl(depth)
}
