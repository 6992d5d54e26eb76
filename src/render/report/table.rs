//! Columns: headings, widths, and the text of a row.

use std::borrow::Cow;
use std::fmt::Write;
use std::io;

use super::INLINED;
use super::Style;
use super::facts;
use super::hierarchy::INDENT;
use crate::profile::Accumulate;
use crate::profile::BpfKey;
use crate::profile::Column;
use crate::profile::Facts;
use crate::profile::Histogram;
use crate::profile::Labels;
use crate::profile::MemberWeight;
use crate::profile::PlaceKey;
use crate::profile::Plan;
use crate::profile::PrivilegeKey;
use crate::profile::Row;
use crate::profile::SourceKey;
use crate::render::escape::escape;
use crate::replay::resolved::CommId;
use crate::replay::resolved::Resolved;

/// Digits of an address in full.
const ADDR_DIGITS: usize = 16;

/// The most that a heading is padded to, in bytes: perf's buffer ends there.
const MAX_HEADING: usize = 1023;

/// What columns about BPF programs say of what is in none, and where they know nothing.
const NO_PROGRAM: &str = "-";

/// The columns of one event's report.
pub(super) struct Table<'a> {
    resolved: &'a Resolved,
    columns: Vec<Shown>,
    separator: Option<&'a str>,
    labels: &'a Labels,
    facts: &'a Facts,
    /// The events of the table that have samples.
    events: Vec<Event>,
    children: Children,
}

/// An event of a table.
struct Event {
    /// Its place among the other members of its group; `None` for the leader.
    member: Option<usize>,
    /// The period that shares are shares of.
    base: u64,
}

/// Whether rows know the weight of what they called.
enum Children {
    Known,
    Unknown,
}

/// A column that is shown.
struct Shown {
    column: Column,
    heading: Cow<'static, str>,
    width: usize,
    /// Whether it is padded at its end, as all are but the last.
    is_padded: bool,
    /// Whether the user says how wide it is.
    has_set_width: bool,
}

impl<'a> Table<'a> {
    pub(super) fn new(
        resolved: &'a Resolved,
        plan: &'a Plan,
        histogram: &Histogram,
        style: &'a Style,
    ) -> Self {
        let lens = Lens::new(resolved, &histogram.rows);
        let of_table: Vec<_> = plan
            .columns
            .iter()
            .copied()
            .filter(|it| plan.shows(*it) && plan.is_of(*it, histogram.event))
            .collect();
        let last = of_table.last().copied();
        let all = [(None, &histogram.totals)].into_iter();
        let members = (0..).map(Some).zip(histogram.members.iter().map(|(_, it)| it));
        let with_samples = all.chain(members).filter(|(_, it)| it.n_samples != 0);
        let events: Vec<_> = with_samples
            .map(|(member, it)| Event { member, base: it.base(plan.percentage) })
            .collect();
        let shown = |column: Column| {
            let heading = heading(column, plan);
            let len = match column {
                Column::Children | Column::Overhead | Column::Privilege(_) => 8 * events.len(),
                Column::Samples | Column::Period => 12 * events.len(),
                Column::Comm => lens.comm,
                Column::Pid | Column::Tid => lens.comm + 8,
                Column::Cpu => 3,
                Column::Dso if style.is_narrow(plan) => lens.dso,
                Column::Dso => lens.dso.max(if lens.has_unresolved { ADDR_DIGITS } else { 0 }),
                Column::Symbol if lens.has_unresolved => lens.symbol.max(ADDR_DIGITS + 6),
                Column::Symbol => lens.symbol,
                Column::Place(PlaceKey::Addr) => ADDR_DIGITS + 2,
                // perf gives a process the room of its heading, whatever the names.
                Column::Tgid
                | Column::Place(
                    PlaceKey::SymbolSize | PlaceKey::SymbolOffset | PlaceKey::Instructions,
                ) => 0,
                Column::Sample(key) => facts::width(key, plan, &histogram.rows, style),
                Column::Field(field) => facts::width_of_field(field, plan, &histogram.rows),
                Column::Bpf(_) | Column::Source(_) => {
                    let values = plan.labels.values(column).iter();
                    values.map(|it| escape(it.as_bytes()).chars().count()).max().unwrap_or(0)
                }
            };
            Shown {
                column,
                width: len.max(heading.chars().count()),
                heading,
                is_padded: last != Some(column),
                has_set_width: false,
            }
        };
        let mut columns: Vec<_> = of_table.into_iter().map(shown).collect();
        for (column, width) in columns.iter_mut().zip(&style.widths) {
            column.set_width(*width);
        }
        Self {
            resolved,
            columns,
            separator: style.separator.as_deref(),
            labels: &plan.labels,
            facts: &plan.facts,
            events,
            children: match plan.accumulate {
                Accumulate::Callers => Children::Known,
                Accumulate::Nothing => Children::Unknown,
            },
        }
    }

    /// Writes the headings, underlined where columns are padded.
    pub(super) fn headings(&self, out: &mut impl io::Write) -> io::Result<()> {
        let between = self.separator.unwrap_or("  ");
        let heading = |it: &Shown| {
            let heading = &it.heading;
            let width = it.width.min(MAX_HEADING);
            if matches!(it.column, Column::Field(_)) {
                let mut text = String::new();
                cut_right(&mut text, heading, width);
                text
            } else if it.column.is_key() && it.has_set_width {
                let mut text = String::new();
                cut(&mut text, heading, width);
                text
            } else if it.column.is_key() {
                format!("{heading:<width$}")
            } else {
                format!("{heading:>width$}")
            }
        };
        let headings: Vec<_> = self.columns.iter().map(heading).collect();
        writeln!(out, "# {}", headings.join(between))?;
        if self.separator.is_none() {
            let lines: Vec<_> = self.columns.iter().map(|it| ".".repeat(it.width)).collect();
            writeln!(out, "# {}\n#", lines.join(between))?;
        }
        Ok(())
    }

    /// Writes the headings of a hierarchy, whose `levels` are of these keys, which share one.
    pub(super) fn hierarchy_headings(
        &self,
        levels: &[&[Column]],
        out: &mut impl io::Write,
    ) -> io::Result<()> {
        let n_levels = levels.len();
        let between = self.separator.unwrap_or("  ");
        let indent = if self.separator.is_some() { 0 } else { (n_levels - 1) * INDENT };
        let shares: Vec<_> = self.columns.iter().filter(|it| !it.column.is_key()).collect();
        let of_level = |level: &&[Column]| -> Vec<&Shown> {
            self.columns.iter().filter(|it| level.contains(&it.column)).collect()
        };
        let keys: Vec<Vec<&Shown>> = levels.iter().map(of_level).collect();
        let heading =
            |it: &&Shown| format!("{:>1$}{between}", it.heading, it.width.min(MAX_HEADING));
        let headings: String = shares.iter().map(heading).collect();
        let names_of = |keys: &Vec<&Shown>| -> String {
            keys.iter().map(|it| it.heading.trim()).collect::<Vec<_>>().join("+")
        };
        let names = keys.iter().map(names_of).collect::<Vec<_>>().join(" / ");
        writeln!(out, "# {:indent$}{headings}{names}", "")?;
        let widths: Vec<_> = shares.iter().map(|it| ".".repeat(it.width)).collect();
        let widths = widths.join(self.separator.unwrap_or(".."));
        let width_of = |keys: &Vec<&Shown>| -> usize {
            // A `+` stands between them.
            keys.iter().map(|it| it.width + 1).sum::<usize>().saturating_sub(1)
        };
        let widest = keys.iter().zip(0..).map(|(it, depth)| depth * INDENT + width_of(it)).max();
        let width = names.chars().count().max(widest.unwrap_or(0));
        writeln!(out, "# {}{widths}{between}{}\n#", ".".repeat(indent), ".".repeat(width))
    }

    /// How wide the columns are that are no keys, with what stands between them.
    pub(super) fn shares_width(&self) -> usize {
        let shares = self.columns.iter().filter(|it| !it.column.is_key());
        shares.map(|it| it.width + 2).sum::<usize>().saturating_sub(2)
    }

    /// Writes the line of a row of the level of `column`, `indent` from the left.
    pub(super) fn hierarchy_row(
        &self,
        row: &Row,
        columns: &[Column],
        indent: usize,
        n_levels: usize,
        text: &mut String,
    ) {
        let between = self.separator.unwrap_or("  ");
        text.extend(std::iter::repeat_n(' ', indent));
        let shares = self.columns.iter().filter(|it| !it.column.is_key());
        for (idx, shown) in shares.enumerate() {
            if self.separator.is_none() || idx != 0 {
                text.push_str(between);
            }
            let start = text.len();
            self.cell(row, shown, text);
            let len = text.len() - start;
            text.extend(std::iter::repeat_n(' ', shown.width.saturating_sub(len)));
        }
        if self.separator.is_none() {
            text.extend(std::iter::repeat_n(' ', (n_levels - 1) * INDENT));
        }
        for shown in self.columns.iter().filter(|it| columns.contains(&it.column)) {
            text.push_str(between);
            let mut cell = String::new();
            self.cell(row, shown, &mut cell);
            text.push_str(cell.trim_start());
        }
        text.push('\n');
    }

    /// Writes the line of a row.
    pub(super) fn row(&self, row: &Row, text: &mut String) {
        for (idx, shown) in self.columns.iter().enumerate() {
            match self.separator {
                None => text.push_str("  "),
                Some(separator) if idx != 0 => text.push_str(separator),
                Some(_) => {}
            }
            let start = text.len();
            self.cell(row, shown, text);
            let len = text.len() - start;
            if shown.is_padded && len < shown.width {
                text.extend(std::iter::repeat_n(' ', shown.width - len));
            }
        }
        text.push('\n');
    }

    fn cell(&self, row: &Row, shown: &Shown, text: &mut String) {
        let width = shown.width;
        let start = text.len();
        match shown.column {
            Column::Children => match self.children {
                Children::Known => {
                    let of_leader = row.children_period;
                    self.share(row, of_leader, |it| it.children_period, width, text);
                }
                Children::Unknown => push(text, format_args!(" {:>7}", "N/A")),
            },
            Column::Overhead => self.share(row, row.period, |it| it.period, width, text),
            Column::Samples => self.number(row, row.n_samples, |it| it.n_samples, width, text),
            Column::Period => self.number(row, row.period, |it| it.period, width, text),
            Column::Comm => cut(text, &self.comm(row.comm), width),
            Column::Dso => {
                let dso = row.dso.and_then(|it| self.resolved.dsos.get(it.0 as usize));
                cut(
                    text,
                    &dso.map_or("[unknown]".into(), |it| escape(it.short_name.as_bytes())),
                    width,
                );
            }
            Column::Symbol => {
                push(text, format_args!("[{}] ", row.level.letter()));
                let symbol = row.symbol.and_then(|it| self.resolved.symbols.get(it.0 as usize));
                match symbol {
                    Some(symbol) => {
                        let name = escape(symbol.name.as_bytes());
                        let inlined = if symbol.is_inlined { INLINED } else { "" };
                        let whole = format!("{name}{inlined}");
                        if shown.has_set_width && width < whole.len() + 4 {
                            cut(text, &whole, width.saturating_sub(4));
                        } else {
                            text.push_str(&whole);
                        }
                    }
                    // C's `%#.16llx`, which leaves the prefix away from zero.
                    None if row.addr.0 == 0 => push(text, format_args!("{:0>1$}", 0, ADDR_DIGITS)),
                    None => push(text, format_args!("{:#018x}", row.addr.0)),
                }
            }
            Column::Tgid => {
                push(text, format_args!("{:>7}:", row.pid));
                cut(text, &self.comm(row.leader_comm), width.max(8) - 8);
            }
            Column::Pid | Column::Tid => {
                push(text, format_args!("{:>7}:", row.tid));
                cut(text, &self.comm(row.last_comm), width.max(8) - 8);
            }
            Column::Cpu => match row.cpu {
                Some(cpu) => push(text, format_args!("{cpu:03}")),
                None => text.push_str("-001"),
            },
            Column::Privilege(key) => {
                let sum = row.privileges.get(key as usize).copied().unwrap_or(0);
                self.share(row, sum, |it| it.privileges[key as usize], width, text);
            }
            Column::Sample(key) => {
                let value = self.facts.value(shown.column, row.group);
                facts::cell(key, value, row.n_samples, width, text);
            }
            Column::Field(_) => {
                let value = self.facts.value(shown.column, row.group);
                let value = value.map_or("", |it| it.text.as_str());
                return cut_right(text, &escape(value.as_bytes()), width);
            }
            Column::Place(PlaceKey::SymbolOffset) => self.symbol_offset(row, width, text),
            Column::Place(key) => {
                let value = self.labels.value(shown.column, row.location, row.role);
                let value = value.unwrap_or("unknown");
                match key {
                    PlaceKey::Addr => push(text, format_args!("{value:<width$}")),
                    PlaceKey::Instructions => {
                        let none = if self.resolved.is_of_branches() { "-" } else { "-      -" };
                        push(text, format_args!("{none:<width$}"));
                    }
                    PlaceKey::SymbolSize | PlaceKey::SymbolOffset => {
                        push(text, format_args!("{value:>width$}"));
                    }
                }
            }
            Column::Bpf(_) | Column::Source(_) => {
                let value = self.labels.value(shown.column, row.location, row.role);
                text.push_str(&escape(value.unwrap_or(NO_PROGRAM).as_bytes()));
            }
        }
        if let Some(separator) = self.separator.and_then(|it| it.chars().next())
            && shown.column.is_key()
        {
            let cell = text.split_off(start);
            text.extend(cell.chars().map(|it| if it == separator { '.' } else { it }));
        }
    }

    /// The symbol and how far into it, or the address in the digits that there is room for.
    fn symbol_offset(&self, row: &Row, width: usize, text: &mut String) {
        let symbol = row.symbol.and_then(|it| self.resolved.symbols.get(it.0 as usize));
        let location = self.resolved.locations.get(row.location.0 as usize);
        push(text, format_args!("[{}] ", row.level.letter()));
        match (symbol, location) {
            (Some(symbol), Some(location)) => {
                text.push_str(&escape(symbol.name.as_bytes()));
                push(text, format_args!("+{:#x}", location.symbol_offset));
            }
            // C's `%#.*llx`, which leaves the prefix away from zero.
            _ => {
                let prefix = if row.addr.0 == 0 { "" } else { "0x" };
                let digits = width.saturating_sub(4);
                push(text, format_args!("{prefix}{:01$x}", row.addr.0, digits));
            }
        }
    }

    /// The share of each event.
    fn share(
        &self,
        row: &Row,
        of_leader: u64,
        of_member: impl Fn(&MemberWeight) -> u64,
        width: usize,
        text: &mut String,
    ) {
        let width = self.width_of_one(width, 2);
        for event in &self.events {
            let period = event.weight(row, of_leader, &of_member);
            let share =
                if event.base == 0 { 0.0 } else { 100.0 * period as f64 / event.base as f64 };
            push(text, format_args!(" {share:width$.2}%"));
        }
    }

    /// The number of each event.
    fn number(
        &self,
        row: &Row,
        of_leader: u64,
        of_member: impl Fn(&MemberWeight) -> u64,
        width: usize,
        text: &mut String,
    ) {
        let width = self.width_of_one(width, 1);
        for event in &self.events {
            let n = event.weight(row, of_leader, &of_member);
            push(text, format_args!(" {n:width$}"));
        }
    }

    /// The width of one event's number in a column of `width`, less `n_others` of other characters.
    fn width_of_one(&self, width: usize, n_others: usize) -> usize {
        match self.separator {
            Some(_) => 1,
            None => (width / self.events.len().max(1)).saturating_sub(n_others),
        }
    }

    fn comm(&self, CommId(id): CommId) -> Cow<'a, str> {
        escape(self.resolved.comms.get(id as usize).map_or(&[], Vec::as_slice))
    }
}

impl Shown {
    /// Has the column be `width` wide, or as wide as it wants to be for 0; shares never cut their heading.
    fn set_width(&mut self, width: usize) {
        if width == 0 {
            return;
        }
        let least = if self.column.is_key() { 0 } else { self.heading.chars().count() };
        self.width = width.max(least);
        self.has_set_width = true;
    }
}

impl Event {
    fn weight(&self, row: &Row, of_leader: u64, of_member: impl Fn(&MemberWeight) -> u64) -> u64 {
        match self.member {
            None => of_leader,
            Some(idx) => row.members.get(idx).map_or(0, of_member),
        }
    }
}

/// The lengths of the longest names, in bytes.
#[derive(Default)]
struct Lens {
    comm: usize,
    dso: usize,
    /// With the privilege level in front.
    symbol: usize,
    has_unresolved: bool,
}

impl Lens {
    fn new(resolved: &Resolved, rows: &[Row]) -> Self {
        let mut comms = vec![false; resolved.comms.len()];
        let mut dsos = vec![false; resolved.dsos.len()];
        let mut symbols = vec![false; resolved.symbols.len()];
        let mut lens = Self::default();
        for row in rows.iter().filter(|it| it.is_shown) {
            comms[row.last_comm.0 as usize] = true;
            if let Some(dso) = row.dso {
                dsos[dso.0 as usize] = true;
            }
            match row.symbol {
                Some(symbol) => symbols[symbol.0 as usize] = true,
                None => lens.has_unresolved = true,
            }
        }
        lens.comm = longest(&comms, &resolved.comms, |it| escape(it).len());
        lens.dso = longest(&dsos, &resolved.dsos, |it| escape(it.short_name.as_bytes()).len());
        lens.symbol =
            longest(&symbols, &resolved.symbols, |it| escape(it.name.as_bytes()).len() + 4);
        lens
    }
}

fn longest<T>(is_used: &[bool], items: &[T], len: impl Fn(&T) -> usize) -> usize {
    let used = is_used.iter().zip(items).filter(|&(&is_used, _)| is_used);
    used.map(|(_, item)| len(item)).max().unwrap_or(0)
}

fn heading(column: Column, plan: &Plan) -> Cow<'static, str> {
    let heading = match column {
        Column::Children => "Children",
        Column::Overhead if plan.overhead_is_self => "Self",
        Column::Overhead => "Overhead",
        Column::Samples => "Samples",
        Column::Period => "Period",
        Column::Comm => "Command",
        Column::Dso => "Shared Object",
        Column::Symbol => "Symbol",
        Column::Pid => "    Pid:Command",
        Column::Tid => "    Tid:Command",
        Column::Tgid => "   Tgid:Command",
        Column::Field(field) => {
            let name = plan.noted_fields.get(field as usize).map_or("", |it| it.name.as_str());
            return escape(name.as_bytes()).into_owned().into();
        }
        Column::Cpu => "CPU",
        Column::Privilege(PrivilegeKey::Kernel) => "sys",
        Column::Privilege(PrivilegeKey::User) => "usr",
        Column::Privilege(PrivilegeKey::GuestKernel) => "guest sys",
        Column::Privilege(PrivilegeKey::GuestUser) => "guest usr",
        Column::Sample(key) => facts::heading(key),
        Column::Place(PlaceKey::Addr) => "Address",
        Column::Place(PlaceKey::Instructions) => "IPC   [IPC Coverage]",
        Column::Place(PlaceKey::SymbolSize) => "Symbol size",
        Column::Place(PlaceKey::SymbolOffset) => "Symbol Offset",
        Column::Source(SourceKey::Line) => "Source:Line",
        Column::Source(SourceKey::File) => "Source File",
        Column::Bpf(BpfKey::Prog) => "BPF Program",
        Column::Bpf(BpfKey::Id) => "BPF Id",
        Column::Bpf(BpfKey::Tag) => "BPF Tag",
        Column::Bpf(BpfKey::Type) => "BPF Type",
        Column::Bpf(BpfKey::Line) => "BPF Line",
        Column::Bpf(BpfKey::Owner) => "BPF Owner",
        Column::Bpf(BpfKey::Meta(key)) => {
            let key = plan.meta_keys.get(key as usize).map_or("", String::as_str);
            return format!("BPF {}", escape(key.as_bytes())).into();
        }
    };
    heading.into()
}

pub(super) fn push(text: &mut String, args: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _written = text.write_fmt(args);
}

/// Adds `name`, cut or padded to `width` bytes, as C's `%-*.*s` does; never half a character.
pub(super) fn cut(text: &mut String, name: &str, width: usize) {
    let kept = start(name, width);
    text.push_str(kept);
    text.extend(std::iter::repeat_n(' ', width - kept.len()));
}

/// The same, padded in front.
fn cut_right(text: &mut String, name: &str, width: usize) {
    let kept = start(name, width);
    text.extend(std::iter::repeat_n(' ', width - kept.len()));
    text.push_str(kept);
}

/// What of `name` fits into `width` bytes.
fn start(name: &str, width: usize) -> &str {
    let len = (0..=width.min(name.len())).rev().find(|&it| name.is_char_boundary(it)).unwrap_or(0);
    &name[..len]
}
