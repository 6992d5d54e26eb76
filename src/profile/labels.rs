//! What the columns about BPF programs and lines of source say of each location.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::replay::Programs;
use crate::replay::programs::ProgramIdx;
use crate::replay::resolved::Location;
use crate::replay::resolved::LocationId;
use crate::replay::resolved::Resolved;
use crate::replay::timeline::Owner;
use crate::units::Addr;

use super::Column;
use super::column::BpfKey;
use super::column::PlaceKey;
use super::column::SourceKey;

/// The values of the columns about BPF programs and lines of source, by location.
///
/// Empty where there are no such columns, and then everything is equal.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    columns: Vec<Values>,
    /// By location, first as a sampled address, then as a caller: a number that locations share
    /// whose values are all the same.
    sampled: Vec<u32>,
    callers: Vec<u32>,
}

/// How a location came to be a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It was sampled.
    Sampled,
    /// It called what was sampled, so that its address is the one to return to.
    Caller,
}

/// The values of one column.
#[derive(Clone, Debug)]
struct Values {
    column: Column,
    /// In the order in which rows are sorted by them.
    texts: Vec<String>,
    /// By location, an index into `texts`, or [`NONE`].
    sampled: Vec<u32>,
    callers: Vec<u32>,
}

/// What stands for a line where neither that nor a module is known.
pub(super) const UNKNOWN_LINE: &str = "??:0";

/// What has no value comes last.
const NONE: u32 = u32::MAX;

/// By what values are told apart and ordered, text first.
type Rank = (String, u64, Vec<u8>);

impl Labels {
    /// The values of those of `columns` that are about BPF programs.
    pub fn new(
        columns: &[Column],
        meta_keys: &[String],
        paths: Paths,
        resolved: &Resolved,
        programs: Option<&Programs<'_>>,
    ) -> Self {
        let scope = Scope { meta_keys, paths, resolved, programs };
        let columns: Vec<Values> = columns
            .iter()
            .filter(|it| matches!(it, Column::Bpf(_) | Column::Source(_) | Column::Place(_)))
            .map(|it| scope.values(*it))
            .collect();
        Self::of(columns)
    }

    /// The same without the values of other columns than `columns`.
    pub(super) fn only(&self, columns: &[Column]) -> Self {
        Self::of(self.columns.iter().filter(|it| columns.contains(&it.column)).cloned().collect())
    }

    fn of(columns: Vec<Values>) -> Self {
        let n_locations = columns.first().map_or(0, |it| it.sampled.len());
        let mut ids = FxHashMap::default();
        let mut combined = |values: &dyn Fn(&Values) -> &[u32]| -> Vec<u32> {
            let of_location = |idx: usize| {
                let all: Vec<u32> = columns.iter().map(|it| values(it)[idx]).collect();
                let next = u32::try_from(ids.len()).unwrap_or(u32::MAX);
                *ids.entry(all).or_insert(next)
            };
            (0..n_locations).map(of_location).collect()
        };
        let (sampled, callers) = if columns.is_empty() {
            (Vec::new(), Vec::new())
        } else {
            (combined(&|it| &it.sampled), combined(&|it| &it.callers))
        };
        Self { columns, sampled, callers }
    }

    /// Whether there are no such columns.
    pub(super) fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// A number that locations share of which all columns say the same.
    pub(super) fn combined(&self, LocationId(location): LocationId, role: Role) -> u32 {
        let of_role = match role {
            Role::Sampled => &self.sampled,
            Role::Caller => &self.callers,
        };
        of_role.get(location as usize).copied().unwrap_or(0)
    }

    /// The place of a location's value among all of its column; what has none comes last.
    pub(super) fn rank(&self, column: Column, location: LocationId, role: Role) -> u32 {
        self.find(column).map_or(NONE, |it| it.rank(location, role))
    }

    /// What `column` says of a location; `None` where it is in no BPF program, or where nothing is
    /// known.
    pub fn value(&self, column: Column, location: LocationId, role: Role) -> Option<&str> {
        let values = self.find(column)?;
        values.texts.get(values.rank(location, role) as usize).map(String::as_str)
    }

    /// All that `column` says of any location.
    pub fn values(&self, column: Column) -> &[String] {
        self.find(column).map_or(&[], |it| &it.texts)
    }

    fn find(&self, column: Column) -> Option<&Values> {
        self.columns.iter().find(|it| it.column == column)
    }
}

impl Values {
    fn rank(&self, LocationId(location): LocationId, role: Role) -> u32 {
        let of_role = match role {
            Role::Sampled => &self.sampled,
            Role::Caller => &self.callers,
        };
        of_role.get(location as usize).copied().unwrap_or(NONE)
    }
}

/// The address of what ran, or called.
fn running(Addr(ip): Addr, role: Role) -> Addr {
    match role {
        Role::Sampled => Addr(ip),
        Role::Caller => Addr(ip.wrapping_sub(1)),
    }
}

/// How files of source are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Paths {
    /// By their names alone.
    #[default]
    Names,
    /// With the folders that they lie in.
    Full,
}

impl Paths {
    /// What is shown of `path`.
    pub fn shown(self, path: &str) -> &str {
        match self {
            Self::Names => path.rsplit('/').next().unwrap_or(path),
            Self::Full => path,
        }
    }
}

/// Where values come from.
struct Scope<'a> {
    meta_keys: &'a [String],
    paths: Paths,
    resolved: &'a Resolved,
    programs: Option<&'a Programs<'a>>,
}

impl Scope<'_> {
    fn values(&self, column: Column) -> Values {
        let locations = &self.resolved.locations;
        let mut known: FxHashMap<ProgramIdx, Option<(Rank, String)>> = FxHashMap::default();
        let mut value = |location: &Location, role: Role| -> Option<(Rank, String)> {
            let key = match column {
                Column::Bpf(key) => key,
                Column::Source(key) => {
                    let text = self.source(key, location, role);
                    return Some(((text.clone(), 0, Vec::new()), text));
                }
                Column::Place(key) => return Some(self.of_place(key, location, role)),
                _ => return None,
            };
            let Owner::Ksymbol(ksymbol) = location.owner? else { return None };
            let idx = self.programs?.of_ksymbol(ksymbol)?.program;
            if key == BpfKey::Line {
                return self.line(idx, location.ip, role);
            }
            known.entry(idx).or_insert_with(|| self.value(key, idx)).clone()
        };
        let mut of = |role| -> Vec<_> { locations.iter().map(|it| value(it, role)).collect() };
        let (sampled, callers) = (of(Role::Sampled), of(Role::Caller));
        let mut texts: BTreeMap<&Rank, &str> = BTreeMap::new();
        texts.extend(sampled.iter().chain(&callers).flatten().map(|(rank, it)| (rank, &**it)));
        let places: FxHashMap<&Rank, u32> = texts.keys().copied().zip(0..).collect();
        let place = |it: &Option<(Rank, String)>| {
            it.as_ref().and_then(|(rank, _)| places.get(rank)).copied().unwrap_or(NONE)
        };
        Values {
            column,
            texts: texts.values().map(|it| (*it).to_owned()).collect(),
            sampled: sampled.iter().map(place).collect(),
            callers: callers.iter().map(place).collect(),
        }
    }

    /// What `key` says of a location.
    fn of_place(&self, key: PlaceKey, location: &Location, role: Role) -> (Rank, String) {
        match key {
            // By the sign of the difference: addresses of the kernel come first.
            PlaceKey::Addr => {
                let Addr(ip) = location.ip;
                let text = if ip == 0 { "0".to_owned() } else { format!("{ip:#x}") };
                ((String::new(), ip ^ 1 << 63, Vec::new()), text)
            }
            // By the name, which the row says, what has none last, and the farther in the earlier.
            PlaceKey::SymbolOffset => {
                let symbol =
                    location.symbol.and_then(|it| self.resolved.symbols.get(it.0 as usize));
                let dso = location.dso.map_or(u32::MAX, |it| it.0).to_be_bytes();
                let Some(symbol) = symbol else {
                    let addr = match role {
                        Role::Sampled => location.addr,
                        Role::Caller => location.ip,
                    };
                    let rank = (char::MAX.to_string(), !addr.0, dso.to_vec());
                    return (rank, String::new());
                };
                let offset = location.symbol_offset;
                let start = symbol.start.0.to_be_bytes();
                let rank = (symbol.name.clone(), !offset, [&dso[..], &start].concat());
                (rank, String::new())
            }
            // Told apart by the symbol.
            PlaceKey::Instructions => (Rank::default(), String::new()),
            PlaceKey::SymbolSize => {
                let symbol =
                    location.symbol.and_then(|it| self.resolved.symbols.get(it.0 as usize));
                let Some(symbol) = symbol else {
                    return ((String::new(), 0, Vec::new()), "unknown".to_owned());
                };
                let size = symbol.end.0.wrapping_sub(symbol.start.0);
                ((String::new(), size, vec![1]), size.to_string())
            }
        }
    }

    /// Where a location is in the source, as `key` asks for it.
    fn source(&self, key: SourceKey, location: &Location, role: Role) -> String {
        let found = self.source_line(location, role);
        match (key, found) {
            (SourceKey::Line, Some((file, line))) => format!("{file}:{line}"),
            (SourceKey::File, Some((file, _))) => file,
            (SourceKey::Line, None) => self.place(location, role),
            (SourceKey::File, None) => String::new(),
        }
    }

    fn source_line(&self, location: &Location, role: Role) -> Option<(String, u32)> {
        let line = match role {
            Role::Sampled => location.running_line,
            Role::Caller => location.line,
        };
        if let Some(line) = line {
            let path = self.resolved.source_files.get(line.file as usize)?;
            return Some((self.paths.shown(path).to_owned(), line.line));
        }
        let Owner::Ksymbol(ksymbol) = location.owner? else { return None };
        let idx = self.programs?.of_ksymbol(ksymbol)?.program;
        let line = self.programs?.line(idx, running(location.ip, role))?;
        let path = String::from_utf8_lossy(line.file);
        Some((self.paths.shown(&path).to_owned(), line.line))
    }

    /// What perf shows of code without lines: the symbol and how far into it, in decimal, or the
    /// module and the address in it.
    fn place(&self, location: &Location, role: Role) -> String {
        let symbol = location.symbol.and_then(|it| self.resolved.symbols.get(it.0 as usize));
        let dso = location.dso.and_then(|it| self.resolved.dsos.get(it.0 as usize));
        let addr = match role {
            Role::Sampled => location.linked,
            Role::Caller => location.ip,
        };
        match (symbol, dso) {
            (Some(symbol), _) => {
                format!("{}+{}", symbol.name, location.symbol_offset)
            }
            (None, Some(dso)) => format!("{}[{:x}]", dso.short_name, addr.0),
            (None, None) => UNKNOWN_LINE.to_owned(),
        }
    }

    /// What the column `key` says of a program.
    fn value(&self, key: BpfKey, idx: ProgramIdx) -> Option<(Rank, String)> {
        let programs = self.programs?;
        let program = programs.program(idx);
        let text = match key {
            BpfKey::Prog => {
                // The text may be another program's too, the program is not.
                let label = programs.label(program);
                return Some(((label.clone(), u64::from(idx.0), Vec::new()), label));
            }
            BpfKey::Id => {
                let id = program.id?.0;
                return Some(((String::new(), u64::from(id), Vec::new()), id.to_string()));
            }
            BpfKey::Tag => program.tag?.to_string(),
            BpfKey::Type => program.type_name()?.to_owned(),
            BpfKey::Owner => {
                let owner = program.owner()?;
                format!("{}[{}]", String::from_utf8_lossy(&owner.comm), owner.pid)
            }
            BpfKey::Meta(key) => program.metadata(self.meta_keys.get(key as usize)?)?.to_owned(),
            BpfKey::Line => return None,
        };
        Some(((text.clone(), 0, Vec::new()), text))
    }

    /// The line of the source that a location in a program is on: `FILE:LINE`.
    fn line(&self, idx: ProgramIdx, ip: Addr, role: Role) -> Option<(Rank, String)> {
        let line = self.programs?.line(idx, running(ip, role))?;
        let base = line.file.rsplit(|it| *it == b'/').next().unwrap_or_default();
        let base = String::from_utf8_lossy(base).into_owned();
        let text = format!("{base}:{}", line.line);
        Some(((base, u64::from(line.line), line.file.to_vec()), text))
    }
}

#[cfg(test)]
mod tests {
    use crate::profile::Accumulate;
    use crate::profile::Callchains;
    use crate::profile::GraphRequest;
    use crate::profile::ListOf;
    use crate::profile::Plan;
    use crate::profile::Request;
    use crate::profile::Sort;
    use crate::profile::Spelled;
    use crate::profile::histograms;
    use crate::profile::testing::Samples;
    use crate::replay::programs::testing::Tape;
    use crate::replay::programs::testing::name;

    use super::*;

    const A: u64 = 0xffff_ffff_c000_0000;

    /// Three programs: two with the same name, one of them with two functions and metadata.
    fn tape() -> Tape {
        let mut tape = Tape::new();
        tape.symbol(0, 0, A, &name(1, "main"))
            .symbol(0, 0, A + 0x100, &name(2, "sub"))
            .load(0, 0, 7, 1)
            .symbol(0, 0, A + 0x200, &name(1, "main"))
            .load(0, 0, 12, 1)
            .symbol(50, 21, A + 0x300, &name(3, "other"))
            .load(51, 21, 9, 3)
            .says(7, "team", "net");
        tape
    }

    /// The rows of a report by `columns`, as the values of these and the period.
    #[track_caller]
    fn check(columns: &str, accumulate: Accumulate, want: &[(&[&str], u64)]) {
        let mut samples = Samples::new();
        samples.own("k:main", 0).own("k:sub", 1).own("k:main2", 2).own("k:other", 3);
        samples
            .add("a", 1, &["k:main", "run"], 1)
            .add("a", 1, &["k:sub", "k:main", "run"], 2)
            .add("a", 1, &["k:main2", "run"], 4)
            .add("a", 1, &["k:help", "k:other", "run"], 8)
            .add("a", 1, &["k:other", "run"], 16)
            .add("a", 1, &["run"], 32);
        let mut spelled = Spelled::default();
        let columns = Column::parse_list(columns, ListOf::Keys, &mut spelled).unwrap();
        let meta_keys = spelled.meta_keys;
        let request = Request {
            sort: Some(Sort::By(columns.clone())),
            accumulate,
            graph: GraphRequest::No,
            ..Request::default()
        };
        tape().check(|programs, _| {
            let mut plan = Plan::new(&request, Callchains::Recorded).unwrap();
            plan.labels = Labels::new(
                &plan.columns,
                &meta_keys,
                Paths::Names,
                &samples.resolved,
                Some(programs),
            );
            let histograms = histograms(&samples.resolved, &plan).unwrap();
            let cells = |row: &crate::profile::Row| -> Vec<String> {
                let cell = |it: &Column| plan.labels.value(*it, row.location, row.role);
                columns.iter().map(|it| cell(it).unwrap_or("-").to_owned()).collect()
            };
            let rows = histograms[0].rows.iter();
            let got: Vec<_> = rows.map(|it| (cells(it), it.weight(accumulate))).collect();
            let want: Vec<(Vec<String>, u64)> = want
                .iter()
                .map(|(cells, weight)| (cells.iter().map(|it| (*it).to_owned()).collect(), *weight))
                .collect();
            assert_eq!(got, want);
        });
    }

    const OWN: Accumulate = Accumulate::Nothing;

    #[test]
    fn a_program_is_one_row_with_all_its_functions_and_its_namesake_another() {
        let want: &[(&[&str], u64)] =
            &[(&["-"], 40), (&["other"], 16), (&["main#12"], 4), (&["main#7"], 3)];
        check("bpf_prog", OWN, want);
    }

    #[test]
    fn with_children_a_program_has_what_it_called() {
        let want: &[(&[&str], u64)] =
            &[(&["-"], 63), (&["other"], 24), (&["main#12"], 4), (&["main#7"], 3)];
        check("bpf_prog", Accumulate::Callers, want);
    }

    #[test]
    fn columns_about_programs_go_with_each_other() {
        let want: &[(&[&str], u64)] = &[
            (&["-", "-", "-", "-"], 40),
            (&["9", "0303030303030303", "comm-20[20]", "-"], 16),
            (&["12", "0101010101010101", "-", "-"], 4),
            (&["7", "0101010101010101", "-", "net"], 3),
        ];
        check("bpf_id,bpf_tag,bpf_owner,bpf_meta:team", OWN, want);
    }

    #[test]
    fn programs_with_the_same_value_share_a_row() {
        check(
            "bpf_tag",
            OWN,
            &[(&["-"], 40), (&["0303030303030303"], 16), (&["0101010101010101"], 7)],
        );
        check("bpf_type", OWN, &[(&["-"], 63)]);
        check("bpf_meta:nothing", OWN, &[(&["-"], 63)]);
    }
}
