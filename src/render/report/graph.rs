//! The call graph under a row.
//!
//! The shape is that of `tools/perf/ui/stdio/hist.c`: a column of eleven characters a level of
//! branching, a bar where a branch of that level is still to come.

use std::fmt::Write;

use crate::profile::CallTree;
use crate::profile::Graph;
use crate::profile::GraphValue;
use crate::profile::Node;
use crate::profile::Plan;
use crate::profile::Row;
use crate::profile::Totals;
use crate::render::escape::escape;

use super::INLINED;
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
}

struct Writer<'a> {
    text: &'a mut String,
    resolved: &'a Resolved,
    value: GraphValue,
    /// The period that shares are shares of: of all samples, whatever the filter.
    total: u64,
    margin: usize,
}

/// Writes the graph of `row` to `text`.
pub(super) fn write(
    text: &mut String,
    resolved: &Resolved,
    plan: &Plan,
    settings: Graph,
    tree: &CallTree,
    row: &Row,
    totals: &Totals,
) {
    let Graph { limit, value, .. } = settings;
    let start = text.len();
    let mut writer = Writer { text, resolved, value, total: totals.period, margin: MARGIN };
    let roots = match tree.roots() {
        // A single root that weighs what the row does needs no label.
        [root] if root.period == row.weight(plan.accumulate) => {
            let n_skipped = usize::from(plan.symbol_leads);
            let n_shown = if limit == 0 { usize::MAX } else { limit };
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
            }
            tree.children(root)
        }
        roots => roots,
    };
    writer.branches(tree, roots, limit);
    if text.len() != start {
        text.push('\n');
    }
}

impl Writer<'_> {
    fn branches(&mut self, tree: &CallTree, roots: &[Node], limit: usize) {
        let level =
            |nodes, depth, bars| Level { nodes, n_written: 0, depth, bars, bars_beside: bars };
        let mut levels = vec![level(roots, 1, 1)];
        while let Some(at) = levels.last_mut() {
            let node = match at.nodes.get(at.n_written) {
                Some(node) if limit == 0 || at.n_written < limit => node,
                _ => {
                    levels.pop();
                    continue;
                }
            };
            at.n_written += 1;
            let Level { nodes, n_written, depth, bars, .. } = *at;
            if n_written == nodes.len() {
                at.bars_beside &= !bit(depth - 1);
            }
            let bars_beside = at.bars_beside;
            self.gap(depth, bars);
            for (idx, frame) in tree.frames(node).iter().enumerate() {
                self.begin();
                for i in 0..depth {
                    self.text.push(if bars_beside & bit(i) == 0 { ' ' } else { '|' });
                    if idx == 0 && i + 1 == depth {
                        self.label(node);
                    } else {
                        self.text.push_str("          ");
                    }
                }
                self.name(*frame);
            }
            levels.push(level(tree.children(node), depth + 1, bars_beside | bit(depth)));
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

    fn label(&mut self, node: &Node) {
        let total = self.total;
        let share = if total == 0 { 0.0 } else { node.period as f64 * 100.0 / total as f64 };
        // Writing to a string cannot fail.
        let _written = match self.value {
            GraphValue::Percent => write!(self.text, "--{share:.2}%--"),
            GraphValue::Period => write!(self.text, "--{}--", node.period),
            GraphValue::Count => write!(self.text, "--{}--", node.n_samples),
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
        self.text.push('\n');
    }
}

/// The bit of a level; perf has 32 of them, and begins anew after that, as the processor does.
fn bit(depth: u32) -> u32 {
    1_u32.wrapping_shl(depth)
}
