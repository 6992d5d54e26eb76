//! What columns say of samples, rather than of the places where they were.

use std::collections::BTreeMap;
use std::fmt::Write;

use rustc_hash::FxHashMap;

use crate::replay::Detail;
use crate::replay::DetailValue;
use crate::replay::resolved::Group;
use crate::replay::resolved::LocationId;
use crate::replay::resolved::Resolved;

use super::Column;
use super::Labels;
use super::Role;
use super::SampleKey;
use super::SourceKey;
use super::labels::UNKNOWN_LINE;

/// The values of the columns about samples, by group.
///
/// Empty where there are no such columns, and then everything is equal.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Whether times are shown to the nanosecond.
    pub has_nanoseconds: bool,
    columns: Vec<Values>,
    /// By group, a number that groups share whose values are all the same.
    combined: Vec<u32>,
}

/// What stands for a parent where there is none.
const OTHER: &str = "[other]";

/// What columns about samples need to know besides samples.
#[derive(Clone, Copy, Debug, Default)]
pub struct Surroundings<'a> {
    /// The details that the recording was resolved with, in their order.
    pub details: &'a [Detail],
    /// The socket of each CPU, as far as it is known.
    pub sockets: &'a [i32],
    /// The path of a cgroup.
    pub cgroups: Option<&'a FxHashMap<u64, Vec<u8>>>,
    /// The function that a chain came through, of those that are asked for.
    pub parents: Option<&'a dyn Parents>,
    /// The lines of source, for columns about those of branches.
    pub lines: Option<&'a Labels>,
    /// Whether times are shown to the nanosecond.
    pub has_nanoseconds: bool,
}

/// Which functions are parents.
pub trait Parents: std::fmt::Debug + Sync {
    /// Whether the one of this name is.
    fn is_parent(&self, name: &str) -> bool;
}

/// The values of one column.
#[derive(Clone, Debug)]
struct Values {
    column: Column,
    /// In the order in which rows are sorted by them.
    list: Vec<Value>,
    /// By group, an index into `list`.
    of_group: Vec<u32>,
}

/// A value as it is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Value {
    /// Its text.
    pub text: String,
    /// The number that it is, for what is shown multiplied.
    pub number: u64,
    /// Whether it stands for something that has no name.
    pub is_unresolved: bool,
}

/// By what values are told apart and ordered.
type Rank = (u8, i64, u64, Vec<u8>);

impl Facts {
    /// The values of those of `columns` that are about samples.
    pub fn new(columns: &[Column], resolved: &Resolved, surroundings: &Surroundings<'_>) -> Self {
        let scope = Scope { resolved, surroundings };
        let columns: Vec<Values> = columns
            .iter()
            .filter_map(|it| match it {
                Column::Sample(key) => {
                    Some(scope.values(*it, key.is_descending(), |it| scope.value(*key, it)))
                }
                Column::Field(field) => Some(scope.values(*it, true, |it| scope.field(*field, it))),
                _ => None,
            })
            .collect();
        Self::of(columns, surroundings.has_nanoseconds)
    }

    /// The same without the values of other columns than `columns`.
    pub(super) fn only(&self, columns: &[Column]) -> Self {
        let kept = self.columns.iter().filter(|it| columns.contains(&it.column)).cloned();
        Self::of(kept.collect(), self.has_nanoseconds)
    }

    fn of(columns: Vec<Values>, has_nanoseconds: bool) -> Self {
        let mut ids = FxHashMap::default();
        let of_group = |idx: usize| {
            let all: Vec<u32> = columns.iter().map(|it| it.of_group[idx]).collect();
            let next = u32::try_from(ids.len()).unwrap_or(u32::MAX);
            *ids.entry(all).or_insert(next)
        };
        let n_groups = columns.first().map_or(0, |it| it.of_group.len());
        let combined = (0..n_groups).map(of_group).collect();
        Self { has_nanoseconds, columns, combined }
    }

    /// A number that groups share of which all columns say the same.
    pub(super) fn combined(&self, group: u32) -> u32 {
        self.combined.get(group as usize).copied().unwrap_or(0)
    }

    /// The place of a group's value among all of its column.
    pub(super) fn rank(&self, column: Column, group: u32) -> u32 {
        let values = self.columns.iter().find(|it| it.column == column);
        values.and_then(|it| it.of_group.get(group as usize)).copied().unwrap_or(0)
    }

    /// Whether no parent led to the samples of a group.
    pub(super) fn is_other(&self, group: u32) -> bool {
        let parent = self.value(Column::Sample(SampleKey::Parent), group);
        parent.is_some_and(|it| it.text == OTHER)
    }

    /// What `column` says of a group.
    pub fn value(&self, column: Column, group: u32) -> Option<&Value> {
        let values = self.columns.iter().find(|it| it.column == column)?;
        values.list.get(*values.of_group.get(group as usize)? as usize)
    }
}

/// Where values come from.
struct Scope<'a> {
    resolved: &'a Resolved,
    surroundings: &'a Surroundings<'a>,
}

impl Scope<'_> {
    fn values(
        &self,
        column: Column,
        is_descending: bool,
        value: impl Fn(&Group) -> (Rank, Value),
    ) -> Values {
        let of_groups: Vec<(Rank, Value)> = self.resolved.groups.iter().map(value).collect();
        let mut distinct: BTreeMap<&Rank, &Value> = BTreeMap::new();
        for (rank, value) in &of_groups {
            distinct.entry(rank).or_insert(value);
        }
        let sorted: Vec<_> =
            if is_descending { distinct.iter().rev().collect() } else { distinct.iter().collect() };
        let places: FxHashMap<&Rank, u32> =
            sorted.iter().map(|(rank, _)| **rank).zip(0..).collect();
        Values {
            column,
            list: sorted.iter().map(|(_, it)| (**it).clone()).collect(),
            of_group: of_groups.iter().map(|(rank, _)| places[rank]).collect(),
        }
    }

    fn value(&self, key: SampleKey, group: &Group) -> (Rank, Value) {
        match key {
            SampleKey::Time => self.time(group),
            SampleKey::LocalWeight | SampleKey::Weight => self.number(Detail::Weight, group),
            SampleKey::LocalInstructionLatency | SampleKey::InstructionLatency => {
                self.number(Detail::InstructionLatency, group)
            }
            SampleKey::LocalStageCycles
            | SampleKey::StageCycles
            | SampleKey::LocalRetireLatency
            | SampleKey::RetireLatency => self.number(Detail::RetireLatency, group),
            SampleKey::Transaction => {
                let flags = self.asked(Detail::Transaction, group).unwrap_or(0);
                numbered(flags, transaction(flags))
            }
            SampleKey::CodePageSize => {
                let size = self.asked(Detail::CodePageSize, group).unwrap_or(0);
                numbered(size, page_size(size))
            }
            SampleKey::Cgroup => self.cgroup(group),
            SampleKey::Socket => self.socket(group),
            SampleKey::Parent => self.parent(group),
            SampleKey::Simd => numbered(0, String::new()),
            SampleKey::Noted => self.noted(group),
            SampleKey::CommWithoutDigits => {
                let comm = self.resolved.comms.get(group.comm.0 as usize);
                texted(without_digits(comm.map_or(&[], Vec::as_slice)))
            }
            SampleKey::DsoFrom => self.dso(self.from(group)),
            SampleKey::DsoTo => self.dso(Some(group.location)),
            SampleKey::SymbolFrom => self.symbol(self.from(group)),
            SampleKey::SymbolTo => self.symbol(Some(group.location)),
            SampleKey::LineFrom => self.line(self.from(group)),
            SampleKey::LineTo => self.line(Some(group.location)),
            SampleKey::AddrFrom => self.addr(self.from(group)),
            SampleKey::AddrTo => self.addr(Some(group.location)),
            SampleKey::Mispredict => {
                let flags = self.asked(Detail::Branch, group).unwrap_or(0);
                match flags & 3 {
                    0 => numbered(0, "N/A".to_owned()),
                    1 => numbered(1, "Y".to_owned()),
                    _ => numbered(2, "N".to_owned()),
                }
            }
            SampleKey::InTransaction => self.flag(group, 2, "T"),
            SampleKey::Abort => self.flag(group, 3, "A"),
            SampleKey::Cycles => {
                let cycles = self.asked(Detail::Branch, group).unwrap_or(0) >> 4 & 0xffff;
                // perf prints the 16 bits with a sign.
                let shown = u16::try_from(cycles).unwrap_or(0).cast_signed();
                let text = if shown == 0 { "-".to_owned() } else { shown.to_string() };
                numbered(cycles, text)
            }
        }
    }

    /// What a group says of `detail`.
    fn detail(&self, detail: Detail, group: &Group) -> &DetailValue {
        let is_asked = |it: &Detail| std::mem::discriminant(it) == std::mem::discriminant(&detail);
        let place = self.surroundings.details.iter().position(is_asked);
        let details = group.details.and_then(|it| self.resolved.details.get(it.0 as usize));
        place
            .zip(details)
            .and_then(|(place, it)| it.values.get(place))
            .unwrap_or(&DetailValue::None)
    }

    fn asked(&self, detail: Detail, group: &Group) -> Option<u64> {
        match self.detail(detail, group) {
            DetailValue::Number(number) => Some(*number),
            DetailValue::None | DetailValue::Text(_) | DetailValue::Fields(_) => None,
        }
    }

    fn number(&self, detail: Detail, group: &Group) -> (Rank, Value) {
        let number = self.asked(detail, group).unwrap_or(0);
        numbered(number, number.to_string())
    }

    fn flag(&self, group: &Group, bit: u32, name: &str) -> (Rank, Value) {
        let is_set = self.asked(Detail::Branch, group).unwrap_or(0) >> bit & 1 != 0;
        numbered(u64::from(is_set), if is_set { name } else { "." }.to_owned())
    }

    fn time(&self, group: &Group) -> (Rank, Value) {
        let nanos = self.asked(Detail::Time(0), group).unwrap_or(0);
        let (seconds, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
        let text = if self.surroundings.has_nanoseconds {
            format!("{seconds}.{rest:09}")
        } else {
            format!("{seconds}.{:06}", rest / 1000)
        };
        numbered(nanos, text)
    }

    fn cgroup(&self, group: &Group) -> (Rank, Value) {
        let id = self.asked(Detail::Cgroup, group).unwrap_or(0);
        let path = self.surroundings.cgroups.and_then(|it| it.get(&id));
        let text = match path {
            _ if id == 0 => "N/A".to_owned(),
            Some(path) => String::from_utf8_lossy(path).into_owned(),
            None => "unknown".to_owned(),
        };
        numbered(id, text)
    }

    fn socket(&self, group: &Group) -> (Rank, Value) {
        let socket = group.cpu.and_then(|it| self.surroundings.sockets.get(it as usize));
        match socket {
            Some(socket) if *socket >= 0 => {
                ((0, i64::from(*socket), 0, Vec::new()), shown(format!("{socket:03}")))
            }
            _ => ((0, -1, 0, Vec::new()), shown("-001".to_owned())),
        }
    }

    /// The first function of the chain that is a parent.
    fn parent(&self, group: &Group) -> (Rank, Value) {
        let other = || ((0, 0, 0, Vec::new()), shown(OTHER.to_owned()));
        let Some(parents) = self.surroundings.parents else { return other() };
        let frames = group.stack.map_or(&[][..], |it| self.resolved.stacks.get(it));
        let names = frames.iter().filter_map(|it| {
            let location = self.resolved.locations.get(it.0 as usize)?;
            Some(self.resolved.symbols.get(location.symbol?.0 as usize)?.name.as_str())
        });
        match names.into_iter().find(|it| parents.is_parent(it)) {
            Some(name) => ((1, 0, 0, name.as_bytes().to_vec()), shown(name.to_owned())),
            None => other(),
        }
    }

    fn noted(&self, group: &Group) -> (Rank, Value) {
        match self.detail(Detail::Noted, group) {
            DetailValue::Text(text) => {
                let shown = shown(String::from_utf8_lossy(text).into_owned());
                ((1, 0, 0, text.clone()), shown)
            }
            DetailValue::None | DetailValue::Number(_) | DetailValue::Fields(_) => {
                texted("N/A".to_owned())
            }
        }
    }

    /// By the bytes of a field.
    fn field(&self, field: u32, group: &Group) -> (Rank, Value) {
        let DetailValue::Fields(fields) = self.detail(Detail::Fields, group) else {
            return texted(String::new());
        };
        let Some(noted) = fields.get(field as usize) else { return texted(String::new()) };
        let text = String::from_utf8_lossy(&noted.text).into_owned();
        ((1, 0, 0, noted.content.clone()), Value { number: noted.width, ..shown(text) })
    }

    /// By the text.
    fn line(&self, location: Option<LocationId>) -> (Rank, Value) {
        let column = Column::Source(SourceKey::Line);
        let known = location.zip(self.surroundings.lines);
        let line = known.and_then(|(it, lines)| lines.value(column, it, Role::Sampled));
        texted(line.unwrap_or(UNKNOWN_LINE).to_owned())
    }

    fn from(&self, group: &Group) -> Option<LocationId> {
        let details = group.details.and_then(|it| self.resolved.details.get(it.0 as usize));
        details.and_then(|it| it.from)
    }

    /// By descending name; what is unknown comes first, and so last here, where all is turned round.
    fn dso(&self, location: Option<LocationId>) -> (Rank, Value) {
        let found = location.and_then(|it| self.resolved.locations.get(it.0 as usize));
        let is_unresolved = found.is_none_or(|it| it.symbol.is_none());
        let name = self.dso_name(location);
        let value = Value { is_unresolved, ..shown(name.unwrap_or("[unknown]").to_owned()) };
        let class = u8::from(name.is_none());
        ((class, 0, 0, name.unwrap_or_default().as_bytes().to_vec()), value)
    }

    fn dso_name(&self, location: Option<LocationId>) -> Option<&str> {
        let location = self.resolved.locations.get(location?.0 as usize)?;
        Some(&self.resolved.dsos.get(location.dso?.0 as usize)?.short_name)
    }

    /// By place, what has a symbol first.
    fn symbol(&self, id: Option<LocationId>) -> (Rank, Value) {
        let Some(location) = id.and_then(|it| self.resolved.locations.get(it.0 as usize)) else {
            return texted("N/A".to_owned());
        };
        let level = location.level.letter();
        let symbol = location.symbol.and_then(|it| self.resolved.symbols.get(it.0 as usize));
        match symbol {
            Some(symbol) => {
                let dso = self.dso_name(id).unwrap_or_default().as_bytes().to_vec();
                let rank = (0, symbol.start.0.cast_signed(), symbol.end.0, dso);
                (rank, shown(format!("[{level}] {}", symbol.name)))
            }
            None => {
                let value = shown(format!("[{level}] {}", full_addr(location.addr.0)));
                let rank = (1, location.ip.0.cast_signed(), 0, Vec::new());
                (rank, Value { is_unresolved: true, ..value })
            }
        }
    }

    /// By module, and by address in it.
    fn addr(&self, id: Option<LocationId>) -> (Rank, Value) {
        let Some(location) = id.and_then(|it| self.resolved.locations.get(it.0 as usize)) else {
            return texted("N/A".to_owned());
        };
        let level = location.level.letter();
        let symbol = location.symbol.and_then(|it| self.resolved.symbols.get(it.0 as usize));
        let text = match (symbol, location.symbol_offset) {
            (Some(symbol), 0) => format!("[{level}] {}", symbol.name),
            (Some(symbol), offset) => format!("[{level}] {}+{offset:#x}", symbol.name),
            (None, _) => format!("[{level}] {}", full_addr(location.addr.0)),
        };
        let dso = self.dso_name(id).unwrap_or_default().as_bytes();
        // Modules descend, addresses in them ascend.
        let dso: Vec<u8> = dso.iter().map(|it| !it).chain([0xff]).collect();
        let is_known = u8::from(location.dso.is_some());
        let rank = (is_known, 0, 0, dso.into_iter().chain(location.ip.0.to_be_bytes()).collect());
        (rank, Value { is_unresolved: symbol.is_none(), ..shown(text) })
    }
}

fn shown(text: String) -> Value {
    Value { text, ..Value::default() }
}

fn numbered(number: u64, text: String) -> (Rank, Value) {
    ((0, 0, number, Vec::new()), Value { number, ..shown(text) })
}

fn texted(text: String) -> (Rank, Value) {
    ((0, 0, 0, text.as_bytes().to_vec()), shown(text))
}

/// C's `%#.16llx`, which leaves the prefix away from zero.
fn full_addr(addr: u64) -> String {
    if addr == 0 { format!("{addr:016}") } else { format!("{addr:#018x}") }
}

/// `comm` with each number in it replaced by `<N>`.
fn without_digits(comm: &[u8]) -> String {
    let mut text = String::new();
    let mut is_number = false;
    for letter in String::from_utf8_lossy(comm).chars() {
        let is_digit = letter.is_ascii_digit();
        match (is_digit, is_number) {
            (true, false) => text.push_str("<N>"),
            (true, true) => {}
            (false, _) => text.push(letter),
        }
        is_number = is_digit;
    }
    text
}

/// The size of a page: `4K`, `2M`, `N/A`.
///
/// Source: `get_page_size_name()` in `tools/perf/util/event.c`.
pub fn page_size(bytes: u64) -> String {
    if bytes == 0 {
        return "N/A".to_owned();
    }
    let (mut n, mut unit) = (bytes, 0);
    while n / 1024 > 1 && unit < 3 {
        n /= 1024;
        unit += 1;
    }
    format!("{n}{}", ['B', 'K', 'M', 'G'][unit])
}

/// The flags of a transaction in words.
///
/// Source: `PERF_TXN_*` in `include/uapi/linux/perf_event.h`, `hist_entry__transaction_snprintf()` in
/// `tools/perf/util/sort.c`.
fn transaction(flags: u64) -> String {
    const NAMES: [(u64, &str); 8] = [
        (1 << 0, "EL "),
        (1 << 1, "TX "),
        (1 << 2, "SYNC "),
        (1 << 3, "ASYNC "),
        (1 << 4, "RETRY "),
        (1 << 5, "CON "),
        (1 << 6, "CAP-WRITE "),
        (1 << 7, "CAP-READ "),
    ];
    let mut text: String =
        NAMES.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, it)| *it).collect();
    // Neither in the code of a transaction nor beside it: the flags of the kind are none.
    if flags != 0 && flags & 0xc == 0 {
        text.push_str("NEITHER ");
    }
    let code = flags >> 32;
    if code != 0 {
        let _written = write!(text, ":{code:x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_command_names_are_one() {
        assert_eq!(without_digits(b"ld-linux-x86-64"), "ld-linux-x<N>-<N>");
        assert_eq!(without_digits(b"12"), "<N>");
        assert_eq!(without_digits(b"sh"), "sh");
    }

    #[test]
    fn pages_have_sizes() {
        let sizes = [0, 512, 4096, 12_345, 2 << 20, 1 << 30, 16 << 30].map(page_size);
        assert_eq!(sizes, ["N/A", "512B", "4K", "12K", "2M", "1024M", "16G"]);
    }

    #[test]
    fn flags_of_transactions_are_words() {
        assert_eq!(transaction(0), "");
        assert_eq!(transaction(1 << 1 | 1 << 2 | 5 << 32), "TX SYNC :5");
        assert_eq!(transaction(1), "EL NEITHER ");
    }
}
