//! A report as text, as `perf report --stdio` lays it out.

mod facts;
mod graph;
mod hierarchy;
mod table;
#[cfg(test)]
mod tests;

pub use hierarchy::write_hierarchies;

use std::io;
use std::io::Write;

use rayon::prelude::*;

use crate::profile::Column;
use crate::profile::Filter;
use crate::profile::Grouping;
use crate::profile::Histogram;
use crate::profile::Percentage;
use crate::profile::Plan;
use crate::profile::Row;
use crate::render::escape::escape;
use crate::replay::resolved::EventGroup;
use crate::replay::resolved::EventIdx;
use crate::replay::resolved::Resolved;

use table::Table;

/// Rows that are made into text at once.
const BLOCK: usize = 1 << 16;

/// Rows that a worker takes at once.
const CHUNK: usize = 1 << 10;

/// What follows the name of a function that was inlined.
const INLINED: &str = " (inlined)";

/// How a report looks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// The lines that begin with `#`.
    pub comments: Comments,
    /// What stands between columns instead of padding; a `.` stands for it inside names.
    pub separator: Option<String>,
    /// The spans of time that the samples are of, as they are told of.
    pub time_slices: Option<String>,
    /// The socket whose samples are shown, if it is one.
    pub socket: Option<i32>,
    /// How wide the first columns are, in bytes; 0 for as wide as they need to be.
    pub widths: Vec<usize>,
}

impl Style {
    /// Whether columns of modules have no room for the addresses of what is in none.
    fn is_narrow(&self, plan: &Plan) -> bool {
        self.separator.is_some() || !self.widths.is_empty() || !plan.filter.dsos.is_empty()
    }
}

/// The lines of a report that begin with `#`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Comments {
    /// All of them.
    #[default]
    All,
    /// Those after the recording's header, which has been shown.
    AfterHeader,
    /// None.
    No,
}

/// Writes the report of `histograms` to `out`; events without samples are left out.
///
/// # Errors
///
/// What `out` gives.
pub fn write(
    out: &mut impl Write,
    resolved: &Resolved,
    plan: &Plan,
    histograms: &[Histogram],
    style: &Style,
) -> io::Result<()> {
    let has_samples = histograms.iter().any(|it| it.n_samples() != 0);
    preamble(out, resolved, plan, style, has_samples)?;
    for histogram in histograms {
        let totals = &histogram.totals;
        if histogram.n_samples() == 0 {
            continue;
        }
        let table = Table::new(resolved, plan, histogram, style);
        if style.comments != Comments::No {
            heading(out, resolved, plan, histogram, style)?;
            table.headings(out)?;
        }
        write_rows(out, &histogram.rows, |row, text| {
            if row.is_shown && row.is_heavy(plan, totals) {
                table.row(row, text);
                if let (Some(settings), Some(tree)) = (&plan.graph, &row.tree) {
                    let separator = style.separator.as_deref();
                    graph::write(text, resolved, plan, *settings, tree, row, (totals, separator));
                }
            }
        })?;
        writeln!(out, "\n")?;
    }
    Ok(())
}

/// What stands above the columns of `histogram`.
fn heading(
    out: &mut impl Write,
    resolved: &Resolved,
    plan: &Plan,
    histogram: &Histogram,
    style: &Style,
) -> io::Result<()> {
    let sums = [&histogram.totals].into_iter().chain(histogram.members.iter().map(|(_, it)| it));
    let (n_samples, period) = sums.fold((0, 0_u64), |(n_samples, period), it| {
        let (more_samples, more) = match plan.percentage {
            Percentage::Absolute => (it.n_samples, it.period),
            Percentage::Relative => (it.n_shown_samples, it.shown_period),
        };
        (n_samples + more_samples, period.wrapping_add(more))
    });
    let n_branching = resolved.n_branching.get(histogram.event.0 as usize);
    let (n_samples, unit) = scaled(n_branching.copied().unwrap_or(n_samples));
    let name = event_name(resolved, histogram);
    // perf has the plural wherever an event leads a group, in whatever table it stands.
    let is_forced = plan.grouping != Grouping::AsRecorded
        && resolved.event_groups.is_empty()
        && resolved.events.len() > 1;
    let leads = is_forced && histogram.event == EventIdx(0)
        || resolved.event_groups.iter().any(|it| it.events.first() == Some(&histogram.event));
    let plural = if leads { "s" } else { "" };
    let times = style.time_slices.as_deref().map(|it| format!(" (time slices: {it})"));
    let times = times.unwrap_or_default();
    writeln!(out, "# Samples: {n_samples}{unit} of event{plural} '{name}'{times}")?;
    writeln!(out, "# Event count (approx.): {period}")?;
    if let Some(socket) = style.socket {
        writeln!(out, "# Processor Socket: {socket}")?;
    }
    writeln!(out, "#")
}

/// The name of the event of `histogram`, or those of its group.
fn event_name(resolved: &Resolved, histogram: &Histogram) -> String {
    let name = |EventIdx(event): EventIdx| {
        let event = resolved.events.get(event as usize);
        escape(event.map_or(&[][..], |it| it.name.as_bytes())).into_owned()
    };
    if histogram.members.is_empty() {
        return name(histogram.event);
    }
    let of_members = histogram.members.iter().map(|(event, it)| (*event, it.n_samples));
    let events = [(histogram.event, histogram.totals.n_samples)].into_iter().chain(of_members);
    let with_samples = events.filter(|(_, n_samples)| *n_samples != 0);
    let events: Vec<_> = with_samples.map(|(it, _)| name(it)).collect();
    let of_group = |it: &&EventGroup| it.events.first() == Some(&histogram.event);
    let Some(group) = resolved.event_groups.iter().find(of_group) else {
        return events.join(", ");
    };
    let group = group.name.as_ref().map_or("anon group".into(), |it| escape(it.as_bytes()));
    format!("{group} {{ {} }}", events.join(", "))
}

/// Writes where the recording's header is found, which stands above all else.
///
/// # Errors
///
/// What `out` gives.
pub fn write_preface(out: &mut impl Write, style: &Style) -> io::Result<()> {
    if style.comments == Comments::All {
        let header = "use --header/--header-only options";
        writeln!(out, "# To display the perf.data header info, please {header}.\n#")?;
    }
    Ok(())
}

/// What stands above the first event.
fn preamble(
    out: &mut impl Write,
    resolved: &Resolved,
    plan: &Plan,
    style: &Style,
    has_samples: bool,
) -> io::Result<()> {
    write_preface(out, style)?;
    if !has_samples || style.comments == Comments::No {
        return Ok(());
    }
    let Filter { comms, dsos, symbols, .. } = &plan.filter;
    for column in plan.columns.iter().filter(|it| plan.elided.contains(it)) {
        let (what, list) = match column {
            Column::Comm => ("comm", comms),
            Column::Dso => ("dso", dsos),
            _ => ("symbol", symbols),
        };
        for name in list {
            writeln!(out, "# {what}: {}", escape(name.as_bytes()))?;
        }
    }
    let n_lost = resolved.events.iter().fold(0, |sum: u64, it| sum.saturating_add(it.n_lost));
    writeln!(out, "#\n# Total Lost Samples: {n_lost}\n#")
}

/// Writes each of `rows` by `row`, many at once.
fn write_rows(
    out: &mut impl Write,
    rows: &[Row],
    row: impl Fn(&Row, &mut String) + Sync,
) -> io::Result<()> {
    let chunk_text = |rows: &[Row]| {
        let mut text = String::new();
        for it in rows {
            row(it, &mut text);
        }
        text
    };
    for rows in rows.chunks(BLOCK) {
        let texts: Vec<_> = rows.par_chunks(CHUNK).map(chunk_text).collect();
        texts.iter().try_for_each(|it| out.write_all(it.as_bytes()))?;
    }
    Ok(())
}

/// A number in thousands, with the letter of their power.
fn scaled(mut n: u64) -> (u64, char) {
    let mut unit = ' ';
    for letter in ['K', 'M', 'G'] {
        if n <= 1000 {
            break;
        }
        n /= 1000;
        unit = letter;
    }
    (n, unit)
}
