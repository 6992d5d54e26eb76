//! What each BPF program cost, as a table, a row a program, the most expensive first; and as JSON.

mod cell;
mod details;
mod grid;
mod json;
#[cfg(test)]
mod tests;

use std::io;
use std::io::Write;

use crate::profile::Bill;
use crate::profile::Billed;
use crate::profile::Charge;
use crate::profile::Percentage;
use crate::profile::Weight;
use crate::render::escape::escape;
use crate::replay::Programs;
use crate::replay::programs::Program;
use crate::replay::resolved::Resolved;

use grid::Grid;
use grid::Side;

pub use json::json;

/// What a table of programs is made of.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The recording.
    pub resolved: &'a Resolved,
    /// Its programs.
    pub programs: &'a Programs<'a>,
    /// What they cost.
    pub bill: &'a Bill,
    /// What shares are shares of.
    pub percentage: Percentage,
    /// Whether the recorder was asked to follow programs.
    pub was_followed: bool,
}

/// How the table looks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Style {
    /// Whether there are lines that begin with `#`.
    pub has_comments: bool,
    /// What stands between columns instead of padding; a `.` stands for it inside names.
    pub separator: Option<String>,
    /// The smallest share of a row that is shown, in percent, with what the program called.
    pub percent_limit: f32,
    /// Whether metadata, functions, links, maps, pins and holders stand below a row, and programs
    /// without samples and runs have rows, too.
    pub has_details: bool,
}

/// The most callees and lines that stand below a row.
const MAX_HOT: usize = 10;

/// Writes a table for each event with samples; without any, one of what the kernel counted.
///
/// # Errors
///
/// What `out` gives.
pub fn write(out: &mut dyn Write, source: &Source<'_>, style: &Style) -> io::Result<()> {
    let Source { programs, bill, was_followed, .. } = source;
    if programs.all().is_empty() {
        let told = if *was_followed {
            "No BPF program was loaded at any time of the recording."
        } else {
            "The recording tells of no BPF program: its recorder did not ask for them, or was refused."
        };
        return if style.has_comments { writeln!(out, "# {told}") } else { Ok(()) };
    }
    let n_tables = bill.events.len().max(1);
    for event in 0..n_tables {
        table(out, source, style, event)?;
    }
    Ok(())
}

/// Writes the table of the event at `event` of the bill.
fn table(out: &mut dyn Write, source: &Source<'_>, style: &Style, event: usize) -> io::Result<()> {
    let Source { resolved, programs, bill, percentage, .. } = *source;
    let billed = bill.events.get(event);
    let base = billed.map_or(0, |it| it.totals.base(percentage));
    let none = Charge::default();
    let row = |idx: usize| {
        let item = &bill.items[idx];
        (programs.program(item.program), item.charges.get(event).unwrap_or(&none))
    };
    let order = bill.order(programs, event);
    let is_heavy = |(_, charge): &(&Program<'_>, &Charge)| {
        f64::from(style.percent_limit) <= share(charge.total, base)
    };
    // Most programs of a machine do nothing most of the time.
    let is_shown = |(program, charge): &(&Program<'_>, &Charge)| {
        let runs = program.cost.map_or(0, |it| it.runs);
        style.has_details || charge.total.n_samples != 0 || runs != 0
    };
    let (rows, idle): (Vec<_>, Vec<_>) =
        order.into_iter().map(row).filter(is_heavy).partition(is_shown);

    if style.has_comments {
        preamble(out, source, billed, base)?;
    }
    let grid = grid(source, billed, base, &rows);
    let separator = style.separator.as_deref();
    if style.has_comments && !rows.is_empty() {
        grid.headings(separator, out)?;
    }
    for (idx, (program, charge)) in rows.iter().enumerate() {
        grid.row(idx, separator, out)?;
        if style.has_details {
            details::of_program(out, program)?;
        }
        details::hot(out, resolved, charge, base)?;
    }
    if style.has_comments && !idle.is_empty() {
        folded(out, idle.len(), style)?;
    }
    if style.has_comments { writeln!(out, "\n") } else { Ok(()) }
}

/// Tells of `n` programs that have no row.
fn folded(out: &mut dyn Write, n: usize, style: &Style) -> io::Result<()> {
    let programs = if n == 1 { "BPF program" } else { "BPF programs" };
    // Details do not go with a separator.
    let option = if style.separator.is_none() { "--details" } else { "--json" };
    writeln!(out, "# {n} more {programs} without samples or runs: see {option}")
}

/// What stands above a table.
fn preamble(
    out: &mut dyn Write,
    source: &Source<'_>,
    billed: Option<&Billed>,
    base: u64,
) -> io::Result<()> {
    let Source { resolved, programs, bill, .. } = source;
    writeln!(out, "# BPF programs: {}", programs.all().len())?;
    if let Some(billed) = billed {
        let event = resolved.events.get(billed.event.0 as usize);
        let event = escape(event.map_or("", |it| &it.name).as_bytes());
        let n_samples = billed.totals.n_samples;
        writeln!(out, "# Samples: {n_samples} of event '{event}'")?;
        let [own, total] = [billed.own, billed.total].map(|it| cell::percent(share(it, base)));
        if resolved.events.get(billed.event.0 as usize).is_some_and(|it| it.has_callchain) {
            writeln!(out, "# In BPF programs: {own}, with what they called: {total}")?;
        } else {
            writeln!(out, "# In BPF programs: {own} (there are no call chains to tell callees)")?;
        }
    } else if bill.events.is_empty() {
        writeln!(out, "# Samples: none")?;
    }
    match programs.all().iter().filter(|it| it.is_hidden()).count() {
        0 => {}
        1 => writeln!(out, "# The addresses of 1 program were hidden: its samples are not known")?,
        n => writeln!(
            out,
            "# The addresses of {n} programs were hidden: their samples are not known"
        )?,
    }
    match programs.runs() {
        Some(runs) if runs.counted => {
            let seconds = runs.elapsed_ns() as f64 / 1e9;
            let scope = "of all processes and CPUs";
            writeln!(out, "# Runs: counted by the kernel over {seconds:.3} s, {scope}")?;
        }
        Some(_) => writeln!(out, "# Runs: not counted by the kernel")?,
        None => {}
    }
    writeln!(out, "#")
}

/// What stands in a column for a program.
type Cell<'c> = &'c dyn Fn(&Program<'_>) -> Option<String>;

/// The columns of `rows`.
fn grid(
    source: &Source<'_>,
    billed: Option<&Billed>,
    base: u64,
    rows: &[(&Program<'_>, &Charge)],
) -> Grid {
    let Source { resolved, programs, .. } = source;
    let event = billed.and_then(|it| resolved.events.get(it.event.0 as usize));
    let has_chains = event.is_some_and(|it| it.has_callchain);
    let has_samples = billed.is_some();
    let of_charge = |cell: &dyn Fn(&Charge) -> String| -> Vec<Option<String>> {
        rows.iter().map(|(_, it)| has_samples.then(|| cell(it))).collect()
    };
    let of_program = |cell: &dyn Fn(&Program<'_>) -> Option<String>| -> Vec<Option<String>> {
        rows.iter().map(|(it, _)| cell(it)).collect()
    };
    let mut grid = Grid::default();
    if has_chains {
        let total = |it: &Charge| cell::percent(share(it.total, base));
        grid.push("Total", Side::Right, of_charge(&total).into_iter());
    }
    let own = |it: &Charge| cell::percent(share(it.own, base));
    grid.push("Self", Side::Right, of_charge(&own).into_iter());
    let n_samples = |it: &Charge| it.total.n_samples.to_string();
    grid.push("Samples", Side::Right, of_charge(&n_samples).into_iter());
    let elapsed_ns = programs.runs().map_or(0, |it| it.elapsed_ns());
    let columns: [(&'static str, Side, Cell<'_>); 12] = [
        ("CPU", Side::Right, &|it| cell::cpu(it, elapsed_ns)),
        ("Runs", Side::Right, &|it| Some(it.cost?.runs.to_string())),
        ("Time/run", Side::Right, &|it| it.cost?.ns_per_run().map(cell::duration)),
        ("Id", Side::Right, &|it| it.id.map(|it| it.to_string())),
        ("Name", Side::Left, &|it| Some(escape(&it.name).into_owned())),
        ("Type", Side::Left, &|it| it.type_name().map(str::to_owned)),
        ("Attached to", Side::Left, &cell::attached),
        ("Owner", Side::Left, &cell::owner),
        ("Loaded", Side::Right, &|it| it.loaded.map(cell::time)),
        ("Unloaded", Side::Right, &|it| it.unloaded.map(cell::time)),
        ("Tag", Side::Left, &|it| it.tag.map(|it| it.to_string())),
        ("Missed", Side::Right, &|it| {
            it.cost.map(|it| it.recursion_misses).filter(|it| *it != 0).map(|it| it.to_string())
        }),
    ];
    for (heading, side, cell) in columns {
        grid.push(heading, side, of_program(cell).into_iter());
    }
    grid
}

/// What share `weight` is of `base`, in percent.
fn share(weight: Weight, base: u64) -> f64 {
    if base == 0 { 0.0 } else { 100.0 * weight.period as f64 / base as f64 }
}
