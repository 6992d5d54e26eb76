//! `report`: which samples count, and what they say of themselves that the report shows.

use crate::perfdata::SampleType;
use crate::perfdata::feature::Feature;
use crate::perfdata::feature::FeatureId;
use crate::profile::Accumulate;
use crate::profile::Column;
use crate::profile::GraphRequest;
use crate::profile::Labels;
use crate::profile::Parents;
use crate::profile::Request;
use crate::profile::SampleKey;
use crate::profile::Sort;
use crate::profile::Surroundings;
use crate::render::script::has_tracepoints_alone;
use crate::replay::Counted;
use crate::replay::Detail;
use crate::replay::Index;
use crate::replay::Recording;
use crate::replay::TimeRange;
use crate::replay::resolved::Resolved;

use super::message::Failure;
use super::script::bounds;
use super::times;

/// What was typed about samples.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag on the command line")]
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// Count the branches that samples hold, each at where it went to; the default for recordings of
    /// branches.
    #[arg(short, long, overrides_with = "no_branch_stack")]
    branch_stack: bool,

    /// Count samples, whatever branches they hold.
    #[arg(long, overrides_with = "branch_stack")]
    no_branch_stack: bool,

    /// Count samples of these times only: `FROM,TO` in seconds, `10%-20%`, `10%/2`.
    #[arg(long, value_name = "SPANS")]
    time: Option<String>,

    /// How long the spans are that the column `time` tells apart, such as `10ms`.
    #[arg(long, value_name = "TIME", value_parser = quantum, default_value = "100ms")]
    time_quantum: u64,

    /// Show times to the nanosecond.
    #[arg(long)]
    ns: bool,

    /// Show samples of the CPUs of this socket only.
    #[arg(long, value_name = "NUMBER")]
    socket_filter: Option<i32>,

    /// Which functions are parents, as a regular expression: samples show that one of them led to, by
    /// the first of them.
    #[arg(short, long, value_name = "REGEX", value_parser = pattern)]
    parent: Option<Pattern>,

    /// Show samples only that one of the functions of `--parent` led to.
    #[arg(short = 'x', long)]
    exclude_other: bool,

    /// Leave out what these functions called, given as a regular expression, and give it to them.
    #[arg(long, value_name = "REGEX", value_parser = pattern)]
    ignore_callees: Option<Pattern>,
}

/// Which functions are parents where nothing is said.
const PARENTS: &str = "^sys_|^do_page_fault";

/// A regular expression that names are compared with.
#[derive(Clone, Debug)]
pub(super) struct Pattern(regex_lite::Regex);

impl Parents for Pattern {
    fn is_parent(&self, name: &str) -> bool {
        self.0.is_match(name)
    }
}

fn pattern(text: &str) -> Result<Pattern, regex_lite::Error> {
    regex_lite::Regex::new(text).map(Pattern)
}

/// Nanoseconds of `100ms`, `1s`, `10us`, `5ns`.
fn quantum(text: &str) -> Result<u64, String> {
    let units = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    let found = units.iter().find_map(|(unit, n)| Some((text.strip_suffix(unit)?, n)));
    let quantum = found.and_then(|(digits, n)| digits.parse::<u64>().ok()?.checked_mul(*n));
    quantum.filter(|it| *it != 0).ok_or_else(|| "say a time such as `100ms`".to_owned())
}

/// What of samples a report of a recording is made of.
#[derive(Debug)]
pub(super) struct Samples {
    pub(super) counted: Counted,
    pub(super) details: Vec<Detail>,
    pub(super) times: Vec<TimeRange>,
    parents: Pattern,
    sockets: Vec<i32>,
    has_nanoseconds: bool,
}

impl Args {
    /// What is counted of `recording`, and `request` with what that means for its columns.
    pub(super) fn settle(
        &self,
        request: &mut Request,
        recording: &Recording,
        index: &Index,
    ) -> Result<Samples, Failure> {
        let counted = self.counted(recording)?;
        if counted == Counted::Branches {
            (request.accumulate, request.graph) = (Accumulate::Nothing, GraphRequest::No);
        }
        let of_samples = |it: &Column| matches!(it, Column::Sample(key) if key.is_of_branches());
        if counted == Counted::Samples && request.columns().any(|it| of_samples(&it)) {
            return Err(Failure::new("cannot show columns about branches")
                .cause("samples are counted, and no branches"));
        }
        let mut default = default_columns(recording, counted);
        request.sort = match request.sort.take() {
            None if default == Column::DEFAULT || request.fields.is_some() => None,
            None => Some(Sort::By(default)),
            Some(Sort::DefaultAnd(keys)) => {
                default.extend(keys);
                Some(Sort::By(default))
            }
            by => by,
        };
        if self.parent.is_some() {
            request.add_key(Column::Sample(SampleKey::Parent));
            request.hides_others = self.exclude_other;
        }
        let times = match &self.time {
            None => Vec::new(),
            Some(text) => times::parse(text, bounds(recording, index), false)
                .map_err(|error| Failure::because("cannot use `--time`", &error))?,
        };
        let parents = match &self.parent {
            Some(parents) => parents.clone(),
            None => {
                pattern(PARENTS).map_err(|error| Failure::because("cannot tell parents", &error))?
            }
        };
        let sockets = match recording.feature(FeatureId::CPU_TOPOLOGY) {
            Some(Feature::CpuTopology(it)) => it.places.iter().map(|it| it.package).collect(),
            _ => Vec::new(),
        };
        if let Some(socket) = self.socket_filter {
            let cpus = (0..).zip(&sockets).filter(|(_, it)| **it == socket);
            request.filter.shown_cpus = cpus.map(|(cpu, _)| cpu).collect();
            if request.filter.shown_cpus.is_empty() {
                return Err(Failure::new(format!("cannot show samples of the socket {socket}"))
                    .cause(if sockets.is_empty() {
                        "the recording does not say which CPUs are on which socket"
                    } else {
                        "the recorded machine has no such socket"
                    })
                    .hint("see `--header-only -I` for the recorded machine's sockets"));
            }
        }
        Ok(Samples {
            counted,
            details: request.details(self.time_quantum),
            times,
            parents,
            sockets,
            has_nanoseconds: self.ns,
        })
    }

    fn counted(&self, recording: &Recording) -> Result<Counted, Failure> {
        let mut types = recording.events.iter().map(|it| it.attr.sample_type);
        match types.any(|it| it.contains(SampleType::BRANCH_STACK)) {
            true if self.no_branch_stack => Ok(Counted::Samples),
            true => Ok(Counted::Branches),
            false if self.branch_stack => Err(Failure::new("cannot count branches")
                .cause("the samples hold none")
                .hint("record with `-b`, or report without")),
            false => Ok(Counted::Samples),
        }
    }

    /// The socket whose samples are shown.
    pub(super) fn socket(&self) -> Option<i32> {
        self.socket_filter
    }

    /// The spans of time as they were typed.
    pub(super) fn time_slices(&self) -> Option<String> {
        self.time.clone()
    }

    /// Gives what `--ignore-callees` asks for to the functions themselves.
    pub(super) fn ignore_callees(&self, resolved: &mut Resolved) {
        if let Some(pattern) = &self.ignore_callees {
            resolved.begin_chains_at(|name| pattern.is_parent(name));
        }
    }
}

impl Samples {
    /// What columns about samples need to know.
    pub(super) fn surroundings<'a>(
        &'a self,
        index: &'a Index,
        lines: &'a Labels,
    ) -> Surroundings<'a> {
        Surroundings {
            details: &self.details,
            sockets: &self.sockets,
            cgroups: Some(&index.cgroups),
            parents: Some(&self.parents),
            lines: Some(lines),
            has_nanoseconds: self.has_nanoseconds,
        }
    }
}

/// What rows are told apart by where nothing is said.
fn default_columns(recording: &Recording, counted: Counted) -> Vec<Column> {
    const BRANCHES: [Column; 5] = [
        Column::Comm,
        Column::Sample(SampleKey::DsoFrom),
        Column::Sample(SampleKey::SymbolFrom),
        Column::Sample(SampleKey::SymbolTo),
        Column::Sample(SampleKey::Cycles),
    ];
    match counted {
        Counted::Branches => BRANCHES.to_vec(),
        Counted::Samples if has_tracepoints_alone(recording) => {
            vec![Column::Sample(SampleKey::Noted)]
        }
        Counted::Samples => Column::DEFAULT.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_of_time_has_a_unit() {
        let got = ["100ms", "1s", "10us", "5ns"].map(|it| quantum(it).unwrap());
        assert_eq!(got, [100_000_000, 1_000_000_000, 10_000, 5]);
        for text in ["", "ms", "0s", "1", "1m", "99999999999s"] {
            assert!(quantum(text).is_err(), "{text}");
        }
    }

    #[test]
    fn parents_are_system_calls_and_page_faults_where_nothing_is_said() {
        let parents = pattern(PARENTS).unwrap();
        let names = ["sys_read", "do_page_fault", "do_sys_read", "main"];
        assert_eq!(names.map(|it| parents.is_parent(it)), [true, true, false, false]);
    }
}
