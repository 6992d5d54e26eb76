//! What a report is asked for, and what that means for one recording.

use super::Column;
use super::Error;
use super::Facts;
use super::Filter;
use super::Labels;
use super::Paths;
use super::PlaceKey;
use super::SampleKey;
use super::column::push_all;
use crate::replay::Detail;
use crate::replay::resolved::EventIdx;
use crate::replay::resolved::Keep;
use crate::replay::resolved::Resolved;

/// The frames of a call chain that perf keeps where nothing else is asked for.
pub const MAX_STACK: usize = 127;

/// What a report is asked for, whatever the recording holds.
#[derive(Clone, Debug)]
pub struct Request {
    /// What rows are told apart by; `None` for perf's default.
    pub sort: Option<Sort>,
    /// The columns shown, in order; `None` for perf's default.
    pub fields: Option<Vec<Column>>,
    /// Columns shown after the shares where `fields` does not say.
    pub extra: Vec<Column>,
    /// The keys of metadata that columns show.
    pub meta_keys: Vec<String>,
    /// The fields of tracepoints that columns show.
    pub noted_fields: Vec<NotedField>,
    /// The columns that share a level of a hierarchy with the one before.
    pub joined: Vec<Column>,
    /// Whether callers are given the weight of what they called.
    pub accumulate: Accumulate,
    /// The call graphs.
    pub graph: GraphRequest,
    /// Which samples are shown.
    pub filter: Filter,
    /// What shares are shares of.
    pub percentage: Percentage,
    /// The smallest share of a row that is shown, in percent.
    pub percent_limit: f32,
    /// The most frames of a call chain that are looked at.
    pub max_stack: usize,
    /// Which events share a table.
    pub grouping: Grouping,
    /// The event of a group by which its rows are sorted first, by its place there.
    pub group_sort_idx: Option<usize>,
    /// Whether samples are shown only that a parent led to, where rows differ in it.
    pub hides_others: bool,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            sort: None,
            fields: None,
            extra: Vec::new(),
            meta_keys: Vec::new(),
            noted_fields: Vec::new(),
            joined: Vec::new(),
            accumulate: Accumulate::Callers,
            graph: GraphRequest::IfRecorded(GraphSettings::default()),
            filter: Filter::default(),
            percentage: Percentage::Absolute,
            percent_limit: 0.0,
            max_stack: MAX_STACK,
            grouping: Grouping::default(),
            group_sort_idx: None,
            hides_others: false,
        }
    }
}

/// A field that samples of a tracepoint note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotedField {
    /// The event.
    pub event: EventIdx,
    /// Its name.
    pub name: String,
    /// How wide its column is at least, in bytes.
    pub width: usize,
}

/// Which events share a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grouping {
    /// None.
    Never,
    /// Those that were recorded as a group.
    #[default]
    AsRecorded,
    /// All, unless some were recorded as a group.
    Always,
}

/// What rows are told apart by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sort {
    /// These columns.
    By(Vec<Column>),
    /// The default ones, then these.
    DefaultAnd(Vec<Column>),
}

/// Whether callers are given the weight of what they called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accumulate {
    /// They are.
    Callers,
    /// A row weighs what was sampled in it.
    Nothing,
}

/// What shares are shares of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Percentage {
    /// Of all samples.
    Absolute,
    /// Of the samples that the filter shows.
    Relative,
}

/// The call graphs that are asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GraphRequest {
    /// None.
    No,
    /// Wherever there are call chains.
    IfRecorded(GraphSettings),
    /// Expressly; a recording without call chains is an error.
    Always(GraphSettings),
}

/// How call graphs are cut and ordered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GraphSettings {
    /// The smallest share of a branch that is shown, in percent of all samples.
    pub min_percent: f64,
    /// The most branches shown at one place, and frames before the first branch; 0 for all.
    pub limit: usize,
    /// Which end of a chain is the root; `None` for perf's default.
    pub order: Option<Order>,
    /// What is written on a branch.
    pub value: GraphValue,
    /// How it is drawn.
    pub shape: Shape,
    /// What makes two frames one.
    pub key: FrameKey,
    /// How files of source are shown.
    pub paths: Paths,
}

impl Default for GraphSettings {
    fn default() -> Self {
        Self {
            min_percent: 0.5,
            limit: 0,
            order: None,
            value: GraphValue::Percent,
            shape: Shape::Graph,
            key: FrameKey::Function,
            paths: Paths::Names,
        }
    }
}

/// How call graphs are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A tree, whose shares are of all samples.
    Graph,
    /// A tree, whose shares are of the branch before.
    Fractal,
    /// A list of chains, each with its frames below it.
    Flat,
    /// A list of chains, each in one line.
    Folded,
}

impl Shape {
    /// Whether whole chains are listed.
    pub fn is_list(self) -> bool {
        matches!(self, Self::Flat | Self::Folded)
    }
}

/// What makes two frames of call chains one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKey {
    /// The function.
    Function,
    /// The address.
    Address,
    /// The line of source.
    Line,
}

/// Which end of a call chain is the root of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The outermost caller.
    Caller,
    /// The sampled function.
    Callee,
}

/// What is written on a branch of a call graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphValue {
    /// Its share of the period of all samples.
    Percent,
    /// Its period.
    Period,
    /// Its samples.
    Count,
}

impl Sort {
    /// The same with the column that perf adds where `text`, which it was read from, has the word
    /// `symbol`.
    #[must_use]
    pub fn with_instructions(mut self, text: &str) -> Self {
        let (Self::By(keys) | Self::DefaultAnd(keys)) = &mut self;
        if text.contains("symbol") {
            push_all(keys, &[Column::Place(PlaceKey::Instructions)]);
        }
        self
    }
}

impl Request {
    /// Whether a column is about lines of source.
    pub fn needs_lines(&self) -> bool {
        let graph = match self.graph {
            GraphRequest::IfRecorded(it) | GraphRequest::Always(it) => it.key,
            GraphRequest::No => FrameKey::Function,
        };
        graph != FrameKey::Function || self.columns().any(Column::is_of_source)
    }

    /// Whether a column is about BPF programs.
    pub fn needs_programs(&self) -> bool {
        self.columns().any(|it| matches!(it, Column::Bpf(_)) || it.is_of_source())
    }

    /// Has rows differ in `column`, too.
    pub fn add_key(&mut self, column: Column) {
        match &mut self.sort {
            Some(Sort::By(keys) | Sort::DefaultAnd(keys)) => push_all(keys, &[column]),
            None if self.fields.is_none() => self.sort = Some(Sort::DefaultAnd(vec![column])),
            None => self.sort = Some(Sort::By(vec![column])),
        }
    }

    /// What replay has to look at of each sample, in times rounded to `quantum` nanoseconds.
    pub fn details(&self, quantum: u64) -> Vec<Detail> {
        let mut details = Vec::new();
        for column in self.columns() {
            let detail = match column {
                Column::Sample(key) => key.detail(quantum),
                Column::Field(_) => Some(Detail::Fields),
                _ => None,
            };
            if let Some(detail) = detail
                && !details.contains(&detail)
            {
                details.push(detail);
            }
        }
        details
    }

    /// The columns that are named.
    pub fn columns(&self) -> impl Iterator<Item = Column> {
        let sorted = match &self.sort {
            Some(Sort::By(list) | Sort::DefaultAnd(list)) => list.as_slice(),
            None => &[],
        };
        let fields = self.fields.as_deref().unwrap_or_default();
        sorted.iter().chain(fields).chain(&self.extra).copied()
    }

    /// What replay has to keep apart for this report.
    pub fn keep(&self) -> Keep {
        let Filter { comms: _, dsos: _, symbols, symbol_part: _, pids, tids, cpus, shown_cpus } =
            &self.filter;
        let has = |column| self.columns().any(|it| it == column);
        Keep {
            thread: [Column::Pid, Column::Tid, Column::Tgid].into_iter().any(has)
                || !pids.is_empty()
                || !tids.is_empty(),
            cpu: has(Column::Cpu)
                || has(Column::Sample(SampleKey::Socket))
                || !cpus.is_empty()
                || !shown_cpus.is_empty(),
            stack: self.accumulate == Accumulate::Callers
                || self.graph != GraphRequest::No
                || has(Column::Sample(SampleKey::Parent)),
            // A symbol is asked for by its address in the process, too.
            address: self.needs_lines()
                || self.needs_programs()
                || has(Column::Place(PlaceKey::Addr))
                || has(Column::Place(PlaceKey::SymbolOffset))
                || !symbols.is_empty(),
        }
    }
}

/// A [`Request`] settled for one recording.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The columns shown, in order, the elided ones too.
    pub columns: Vec<Column>,
    /// The columns that rows are told apart and ordered by, the first deciding first.
    pub order: Vec<Column>,
    /// The columns left out since a filter allows them one value only.
    pub elided: Vec<Column>,
    /// Whether callers are given the weight of what they called.
    pub accumulate: Accumulate,
    /// Whether the share of a row alone is headed `Self`, since it stands beside `Children`.
    pub overhead_is_self: bool,
    /// Whether the symbol stands first, and its row need not be repeated in the graph.
    pub symbol_leads: bool,
    /// The call graphs, where there are any.
    pub graph: Option<Graph>,
    /// Which samples are shown.
    pub filter: Filter,
    /// What shares are shares of.
    pub percentage: Percentage,
    /// The smallest share of a row that is shown, in percent.
    pub percent_limit: f32,
    /// Which end of a chain is the root.
    pub chain_order: Order,
    /// Which events share a table.
    pub grouping: Grouping,
    /// The event of a group by which its rows are sorted first, by its place there.
    pub group_sort_idx: Option<usize>,
    /// The most frames of a call chain that are looked at.
    pub max_stack: usize,
    /// The keys of metadata that columns show.
    pub meta_keys: Vec<String>,
    /// The fields of tracepoints that columns show.
    pub noted_fields: Vec<NotedField>,
    /// The columns that share a level of a hierarchy with the one before.
    pub joined: Vec<Column>,
    /// Whether samples are shown only that a parent led to.
    pub hides_others: bool,
    /// What the columns about BPF programs say; to be filled in where there are any.
    pub labels: Labels,
    /// What the columns about samples say; to be filled in where there are any.
    pub facts: Facts,
}

/// The call graphs of a [`Plan`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Graph {
    /// The smallest share of a branch that is shown, in percent of all samples.
    pub min_percent: f64,
    /// The most branches shown at one place, and frames before the first branch; 0 for all.
    pub limit: usize,
    /// What is written on a branch.
    pub value: GraphValue,
    /// How it is drawn.
    pub shape: Shape,
    /// What makes two frames one.
    pub key: FrameKey,
    /// How files of source are shown.
    pub paths: Paths,
}

impl Plan {
    /// Settles `request` for a recording with or without call chains.
    ///
    /// # Errors
    ///
    /// [`Error::NoCallchains`] where graphs are asked for expressly and there are no call chains.
    pub fn new(request: &Request, callchains: Callchains) -> Result<Self, Error> {
        let Request { accumulate, graph, filter, percentage, percent_limit, max_stack, .. } =
            request.clone();
        let has_chains = callchains == Callchains::Recorded;
        let accumulate = if has_chains { accumulate } else { Accumulate::Nothing };
        let settings = match graph {
            GraphRequest::No => None,
            GraphRequest::IfRecorded(it) => has_chains.then_some(it),
            GraphRequest::Always(it) if has_chains => Some(it),
            GraphRequest::Always(_) => return Err(Error::NoCallchains),
        };
        let default_order = match accumulate {
            Accumulate::Callers => Order::Caller,
            Accumulate::Nothing => Order::Callee,
        };
        let (columns, order) = columns(request, accumulate);
        Ok(Self {
            elided: elided(&columns, &filter),
            hides_others: request.hides_others,
            symbol_leads: request.fields.is_none()
                && matches!(&request.sort, Some(Sort::By(it)) if it.first().is_some_and(|it| it.is_symbol())),
            overhead_is_self: request.fields.is_none() && accumulate == Accumulate::Callers,
            columns,
            order,
            accumulate,
            graph: settings.map(|it| Graph {
                min_percent: it.min_percent,
                limit: it.limit,
                value: it.value,
                shape: it.shape,
                key: it.key,
                paths: it.paths,
            }),
            chain_order: settings.and_then(|it| it.order).unwrap_or(default_order),
            filter,
            percentage,
            percent_limit,
            max_stack,
            grouping: request.grouping,
            group_sort_idx: request.group_sort_idx,
            meta_keys: request.meta_keys.clone(),
            noted_fields: request.noted_fields.clone(),
            joined: request.joined.clone(),
            labels: Labels::default(),
            facts: Facts::default(),
        })
    }

    /// The events that share a table, the leader first, for each table.
    pub(super) fn tables(&self, resolved: &Resolved) -> Vec<Vec<EventIdx>> {
        let all: Vec<_> = (0..).map(EventIdx).take(resolved.events.len()).collect();
        let groups = &resolved.event_groups;
        match self.grouping {
            Grouping::Never => all.into_iter().map(|it| vec![it]).collect(),
            Grouping::Always if groups.is_empty() => vec![all],
            Grouping::Always | Grouping::AsRecorded => {
                let is_led = |it: &EventIdx| {
                    groups.iter().any(|group| group.events.iter().skip(1).any(|led| led == it))
                };
                let table = |leader: EventIdx| {
                    let group = groups.iter().find(|it| it.events.first() == Some(&leader));
                    group.map_or(vec![leader], |it| it.events.clone())
                };
                all.into_iter().filter(|it| !is_led(it)).map(table).collect()
            }
        }
    }

    /// Whether rows differ in the symbol.
    pub(super) fn is_by_symbol(&self) -> bool {
        let by_symbol = [Column::Symbol, Column::Place(PlaceKey::Instructions)];
        by_symbol.iter().any(|it| self.order.contains(it))
    }

    /// Whether `column` says something of `event`.
    pub fn is_of(&self, column: Column, event: EventIdx) -> bool {
        match column {
            Column::Field(field) => {
                self.noted_fields.get(field as usize).is_some_and(|it| it.event == event)
            }
            _ => true,
        }
    }

    /// Whether `column` stands in the report's rows.
    pub fn shows(&self, column: Column) -> bool {
        self.columns.contains(&column) && !self.elided.contains(&column)
    }
}

/// Whether the samples of a recording carry call chains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callchains {
    /// Those of one event at least do.
    Recorded,
    /// None does.
    Absent,
}

impl Callchains {
    /// Whether those of `resolved` do.
    pub fn of(resolved: &Resolved) -> Self {
        let is_recorded = resolved.events.iter().any(|it| it.has_callchain);
        if is_recorded { Self::Recorded } else { Self::Absent }
    }
}

/// The columns shown and those that order the rows: each takes what it lacks from the other, as
/// perf does.
fn columns(request: &Request, accumulate: Accumulate) -> (Vec<Column>, Vec<Column>) {
    let Request { sort, fields, extra, .. } = request;
    let keys = match (sort, fields) {
        (Some(Sort::By(keys)), _) => keys.clone(),
        (Some(Sort::DefaultAnd(keys)), _) => [&Column::DEFAULT, keys.as_slice()].concat(),
        (None, None) => Column::DEFAULT.to_vec(),
        (None, Some(_)) => Vec::new(),
    };
    // perf looks for the word `overhead` in the keys: shares that are asked for replace all of its own.
    let is_share =
        |it: &Column| matches!(it, Column::Overhead | Column::Children | Column::Privilege(_));
    let asks_for_shares = keys.iter().any(is_share);
    let children = (accumulate == Accumulate::Callers).then_some(Column::Children);
    let shares: Vec<_> = children.into_iter().chain([Column::Overhead]).collect();
    let mut order = Vec::new();
    if fields.is_none() && !asks_for_shares {
        push_all(&mut order, &shares);
    }
    push_all(&mut order, &keys);

    let mut shown = if let Some(fields) = fields {
        fields.clone()
    } else {
        let is_kept = |it: &Column| !asks_for_shares || keys.contains(it);
        let mut shown: Vec<_> = shares.into_iter().filter(is_kept).collect();
        push_all(&mut shown, extra);
        shown
    };
    push_all(&mut shown, &order);
    push_all(&mut order, &shown);
    (shown, order)
}

/// The columns that a filter allows one value only, unless that would leave no key.
fn elided(columns: &[Column], filter: &Filter) -> Vec<Column> {
    let has_one_value = |column: &&Column| match column {
        Column::Comm => filter.comms.len() == 1,
        Column::Dso => filter.dsos.len() == 1,
        Column::Symbol => filter.symbols.len() == 1,
        _ => false,
    };
    let elided: Vec<_> = columns.iter().filter(has_one_value).copied().collect();
    let n_keys = columns.iter().filter(|it| it.is_key()).count();
    if elided.len() == n_keys { Vec::new() } else { elided }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::PrivilegeKey;
    use Column::{Children, Comm, Dso, Overhead, Period, Samples, Symbol};

    #[track_caller]
    fn check(request: &Request, columns: &[Column], order: &[Column]) {
        let plan = Plan::new(request, Callchains::Recorded).unwrap();
        assert_eq!((plan.columns.as_slice(), plan.order.as_slice()), (columns, order));
    }

    #[test]
    fn by_default_the_shares_come_first_and_decide_first() {
        let all = [Children, Overhead, Comm, Dso, Symbol];
        check(&Request::default(), &all, &all);
        let flat = Request { accumulate: Accumulate::Nothing, ..Request::default() };
        check(&flat, &all[1..], &all[1..]);
    }

    #[test]
    fn extra_columns_stand_after_the_shares_and_decide_last() {
        let request = Request {
            sort: Some(Sort::By(vec![Dso])),
            extra: vec![Samples, Period],
            accumulate: Accumulate::Nothing,
            ..Request::default()
        };
        check(&request, &[Overhead, Samples, Period, Dso], &[Overhead, Dso, Samples, Period]);
    }

    #[test]
    fn fields_alone_are_shown_and_decide_in_their_order() {
        let request = Request { fields: Some(vec![Comm, Overhead]), ..Request::default() };
        check(&request, &[Comm, Overhead], &[Comm, Overhead]);
        let request = Request { sort: Some(Sort::By(vec![Dso])), ..request };
        check(&request, &[Comm, Overhead, Dso], &[Dso, Comm, Overhead]);
    }

    #[test]
    fn shares_that_are_asked_for_take_the_place_of_the_others() {
        let by =
            |keys: &[Column]| Request { sort: Some(Sort::By(keys.to_vec())), ..Request::default() };
        check(&by(&[Dso, Overhead]), &[Overhead, Dso], &[Dso, Overhead]);
        let kernel = Column::Privilege(PrivilegeKey::Kernel);
        check(&by(&[Dso, kernel]), &[Dso, kernel], &[Dso, kernel]);
    }

    #[test]
    fn a_filter_for_one_value_elides_its_column_unless_no_key_is_left() {
        let filter = Filter { comms: vec!["a".to_owned()], ..Filter::default() };
        let request = Request { filter, ..Request::default() };
        let plan = Plan::new(&request, Callchains::Absent).unwrap();
        assert_eq!(plan.elided, [Comm]);
        assert!(!plan.shows(Comm));
        let request = Request { sort: Some(Sort::By(vec![Comm])), ..request };
        assert_eq!(Plan::new(&request, Callchains::Absent).unwrap().elided, []);
    }

    #[test]
    fn graphs_asked_for_expressly_need_call_chains() {
        let graph = GraphRequest::Always(GraphSettings::default());
        let request = Request { graph, ..Request::default() };
        assert_eq!(Plan::new(&request, Callchains::Absent).unwrap_err(), Error::NoCallchains);
        let plan = Plan::new(&Request::default(), Callchains::Absent).unwrap();
        assert_eq!((plan.graph, plan.accumulate), (None, Accumulate::Nothing));
    }

    #[test]
    fn replay_keeps_apart_what_the_report_looks_at_only() {
        let flat = Request {
            accumulate: Accumulate::Nothing,
            graph: GraphRequest::No,
            ..Request::default()
        };
        assert_eq!(flat.keep(), Keep { thread: false, cpu: false, stack: false, address: false });
        let sort = Some(Sort::By(vec![Column::Pid, Column::Cpu]));
        assert_eq!(
            Request { sort, ..Request::default() }.keep(),
            Keep { thread: true, cpu: true, stack: true, address: false }
        );
    }
}
