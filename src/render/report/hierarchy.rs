//! Rows below rows, each indented.

use std::io;
use std::io::Write;

use crate::profile::Hierarchy;
use crate::profile::HierarchyLevel;
use crate::profile::Plan;
use crate::profile::Row;
use crate::replay::resolved::Resolved;

use super::Comments;
use super::Style;
use super::graph;
use super::heading;
use super::preamble;
use super::table::Table;
use super::table::push;

/// How far each level is indented below the one before.
pub(super) const INDENT: usize = 3;

/// Writes the report of `hierarchies` to `out`, as [`write`](super::write) does that of rows.
///
/// # Errors
///
/// What `out` gives.
pub fn write_hierarchies(
    out: &mut impl Write,
    resolved: &Resolved,
    plan: &Plan,
    hierarchies: &[Hierarchy],
    style: &Style,
) -> io::Result<()> {
    let leaves = |it: &Hierarchy| it.levels.last().map_or(0, |it| it.histogram.n_samples());
    let has_samples = hierarchies.iter().any(|it| leaves(it) != 0);
    preamble(out, resolved, plan, style, has_samples)?;
    let plan = &Plan { elided: Vec::new(), ..plan.clone() };
    for hierarchy in hierarchies.iter().filter(|it| leaves(it) != 0) {
        let Some(last) = hierarchy.levels.last() else { continue };
        let table = Table::new(resolved, plan, &last.histogram, style);
        if style.comments != Comments::No {
            heading(out, resolved, plan, &last.histogram, style)?;
            let levels: Vec<_> = hierarchy.levels.iter().map(|it| it.columns.as_slice()).collect();
            table.hierarchy_headings(&levels, out)?;
        }
        let writer = Writer { resolved, plan, style, hierarchy, table };
        let mut text = String::new();
        if let Some(first) = hierarchy.levels.first() {
            for row in 0..first.histogram.rows.len() {
                writer.below(0, row, &mut text);
            }
        }
        out.write_all(text.as_bytes())?;
        writeln!(out, "\n")?;
    }
    Ok(())
}

struct Writer<'a> {
    resolved: &'a Resolved,
    plan: &'a Plan,
    style: &'a Style,
    hierarchy: &'a Hierarchy,
    table: Table<'a>,
}

impl Writer<'_> {
    fn is_wanted(&self, level: &HierarchyLevel, row: &Row) -> bool {
        row.is_shown && row.is_heavy(self.plan, &level.histogram.totals)
    }

    /// Writes the row at `idx` of the level `depth`, and those below it: as deep as there are keys.
    fn below(&self, depth: usize, idx: usize, text: &mut String) {
        let levels = &self.hierarchy.levels;
        let Some(level) = levels.get(depth) else { return };
        let Some(row) = level.histogram.rows.get(idx).filter(|it| self.is_wanted(level, it)) else {
            return;
        };
        let n_levels = levels.len();
        self.table.hierarchy_row(row, &level.columns, depth * INDENT, n_levels, text);
        if let (Some(settings), Some(tree)) = (&self.plan.graph, &row.tree) {
            let separator = self.style.separator.as_deref();
            let of = (&level.histogram.totals, separator);
            graph::write(text, self.resolved, self.plan, *settings, tree, row, of);
        }
        let Some(next) = levels.get(depth + 1) else { return };
        let below = level.below.get(idx).map_or(&[][..], Vec::as_slice);
        let rows = below.iter().filter_map(|it| next.histogram.rows.get(*it as usize));
        if !rows.into_iter().any(|it| self.is_wanted(next, it)) {
            let indent = match self.style.separator {
                Some(_) => 0,
                None => (n_levels + depth) * INDENT,
            };
            let limit = self.plan.percent_limit;
            let width = indent + self.table.shares_width() + 4;
            push(text, format_args!("{:width$}no entry >= {limit:.2}%\n", ""));
        }
        for &idx in below {
            self.below(depth + 1, idx as usize, text);
        }
    }
}
