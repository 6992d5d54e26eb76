//! What stands between an event's slashes.

use super::Error;
use super::column;
use super::list::Draft;
use super::names;
use super::registers;
use crate::units::Cpu;

/// What an event asks for itself, whatever holds for the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// How often it is sampled.
    pub rate: Option<Rate>,
    /// What its samples know of their callers.
    pub call_chains: Option<CallChains>,
    /// The most frames of a call chain.
    pub max_stack: Option<u16>,
    /// Whether it goes on in the children of who is watched.
    pub is_inherited: Option<bool>,
    /// Whether its samples have a time.
    pub has_time: Option<bool>,
    /// Which branches come with a sample: `PERF_SAMPLE_BRANCH_*`.
    pub branches: Option<u64>,
    /// The first and the last CPU that it is opened on.
    pub on_cpus: Option<(Cpu, Cpu)>,
    /// Whether a sample holds the values of the whole group (`S`).
    pub reads_group: bool,
    /// Whether a sample holds how long its instruction took to retire (`R`).
    pub has_retire_latency: bool,
}

/// How often one event is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// So many times a second.
    Hertz(u64),
    /// Each time that so many have happened.
    Period(u64),
}

/// What a sample knows of its callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallChains {
    /// Nothing.
    None,
    /// What following the frame pointers finds.
    FramePointers,
    /// Registers and a copy of so many bytes of the stack, from which they are found later.
    Dwarf {
        /// How much of the stack is copied, in bytes.
        stack_bytes: u32,
    },
    /// What the hardware's record of branches holds.
    Lbr,
}

impl CallChains {
    /// How much of the stack is copied where nothing is said, in bytes.
    pub const USUAL_STACK: u32 = 8192;
    /// The most that can be: a record's length has 16 bits. Source: `get_stack_size()` in
    /// `tools/perf/util/callchain.c`.
    pub const LARGEST_STACK: u32 = 65528;

    /// The method `fp`, `dwarf`, `lbr` or `no`.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "no" => Self::None,
            "fp" => Self::FramePointers,
            "dwarf" => Self::Dwarf { stack_bytes: Self::USUAL_STACK },
            "lbr" => Self::Lbr,
            _ => return None,
        })
    }

    /// A size of the copied stack, in bytes, as it is recorded: a multiple of 8.
    pub fn stack_bytes(text: &str) -> Option<u32> {
        let bytes = number(text).filter(|it| *it != 0)?.checked_next_multiple_of(8)?;
        u32::try_from(bytes).ok().filter(|it| *it <= Self::LARGEST_STACK)
    }
}

/// One term: `NAME` or `NAME=VALUE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Term<'a> {
    pub(super) name: &'a str,
    pub(super) value: Option<&'a str>,
    /// Where its name begins in the list, in bytes.
    pub(super) at: usize,
    /// Where its value begins, or would.
    pub(super) value_at: usize,
}

/// The terms that every event has.
pub(super) const OF_ALL: [&str; 16] = [
    "name",
    "period",
    "freq",
    "call-graph",
    "stack-size",
    "max-stack",
    "inherit",
    "no-inherit",
    "time",
    "branch_type",
    "percore",
    "overwrite",
    "no-overwrite",
    "cpu",
    "nr",
    "metric-id",
];

/// The terms that perf has and for which nothing is recorded here, with what they ask for.
const NOT_HERE: [(&str, &str); 6] = [
    ("overwrite", "an event with a ring that is overwritten"),
    ("aux-output", "AUX area data"),
    ("aux-action", "AUX area data"),
    ("aux-sample-size", "AUX area data"),
    ("driver-config", "a setting of a driver"),
    ("ratio-to-prev", "a period that follows the event before"),
];

/// The terms of `text`, which begins at byte `from` of the list.
pub(super) fn split(text: &str, from: usize) -> Vec<Term<'_>> {
    let mut terms = Vec::new();
    let (mut start, mut is_quoted, mut is_bracketed) = (0, false, false);
    let ends = text.char_indices().filter(|(_, letter)| {
        match letter {
            '\'' => is_quoted = !is_quoted,
            '[' if !is_quoted => is_bracketed = true,
            ']' if !is_quoted => is_bracketed = false,
            _ => {}
        }
        *letter == ',' && !is_quoted && !is_bracketed
    });
    let ends: Vec<usize> = ends.map(|(at, _)| at).chain([text.len()]).collect();
    for end in ends {
        let term = text.get(start..end).unwrap_or_default();
        let at = from + start + (term.len() - term.trim_start().len());
        let term = term.trim();
        start = end + 1;
        if term.is_empty() {
            continue;
        }
        terms.push(match term.split_once('=') {
            Some((name, value)) => {
                Term { name, value: Some(value), at, value_at: at + name.len() + 1 }
            }
            None => Term { name: term, value: None, at, value_at: at + term.len() },
        });
    }
    terms
}

/// What `terms` say of an event that has no terms of its own.
pub(super) fn apply(
    list: &str,
    event: &str,
    terms: &[Term<'_>],
    draft: &mut Draft,
) -> Result<(), Error> {
    for term in terms {
        if !common(list, term, draft)? {
            return Err(unknown(list, event, term, OF_ALL.into_iter()));
        }
    }
    Ok(())
}

/// What `term` says if it is one that every event has; false if it is not.
pub(super) fn common(list: &str, term: &Term<'_>, draft: &mut Draft) -> Result<bool, Error> {
    let bad = |wanted: &str| bad_value(list, term, wanted);
    let a_number = || term.value.and_then(number);
    let terms = &mut draft.terms;
    match term.name {
        "name" => {
            let name = term.value.unwrap_or_default().trim_matches('\'');
            if name.is_empty() || name.chars().any(char::is_control) {
                return Err(bad("a name"));
            }
            name.clone_into(&mut draft.name);
        }
        "period" => {
            let period = a_number().filter(|it| *it != 0);
            let period = period.ok_or_else(|| bad("a number of events"))?;
            terms.rate = Some(Rate::Period(period));
        }
        "freq" => {
            let hertz = a_number().filter(|it| *it != 0);
            let hertz = hertz.ok_or_else(|| bad("a number of samples a second"))?;
            terms.rate = Some(Rate::Hertz(hertz));
        }
        "call-graph" => {
            let chains = term.value.and_then(CallChains::parse);
            let mut chains = chains.ok_or_else(|| bad("`fp`, `dwarf`, `lbr` or `no`"))?;
            if let (
                CallChains::Dwarf { stack_bytes },
                Some(CallChains::Dwarf { stack_bytes: known }),
            ) = (&mut chains, terms.call_chains)
            {
                // `stack-size` came first.
                *stack_bytes = known;
            }
            terms.call_chains = Some(chains);
        }
        "stack-size" => {
            let stack_bytes = term.value.and_then(CallChains::stack_bytes);
            let stack_bytes = stack_bytes.ok_or_else(|| bad("a number of bytes up to 65528"))?;
            if matches!(terms.call_chains, None | Some(CallChains::Dwarf { .. })) {
                terms.call_chains = Some(CallChains::Dwarf { stack_bytes });
            }
        }
        "max-stack" => {
            let frames = a_number().and_then(|it| u16::try_from(it).ok()).filter(|it| *it != 0);
            terms.max_stack = Some(frames.ok_or_else(|| bad("a number of frames"))?);
            // perf takes it for a wish to have some.
            terms.call_chains.get_or_insert(CallChains::FramePointers);
        }
        "inherit" | "no-inherit" => {
            let is_set = flag(term).ok_or_else(|| bad("0 or 1"))?;
            terms.is_inherited = Some(is_set == (term.name == "inherit"));
        }
        "time" => terms.has_time = Some(flag(term).ok_or_else(|| bad("0 or 1"))?),
        "branch_type" => {
            let branches = term.value.and_then(|it| registers::branches(it).ok());
            terms.branches = Some(branches.ok_or_else(|| bad("a list of kinds of branches"))?);
        }
        "cpu" => {
            let on_cpus = term.value.and_then(cpus);
            terms.on_cpus = Some(on_cpus.ok_or_else(|| bad("a CPU, or a range as `0-3`"))?);
        }
        // A counter's, and what is done anyway.
        "percore" | "no-overwrite" => {
            flag(term).ok_or_else(|| bad("0 or 1"))?;
        }
        // After how many events a tracer ends, and whose part of a metric it is: not a recorder's.
        "nr" => {
            a_number().ok_or_else(|| bad("a number of events"))?;
        }
        "metric-id" => {
            term.value.ok_or_else(|| bad("a name"))?;
        }
        other => {
            let Some((_, form)) = NOT_HERE.iter().find(|it| it.0 == other) else {
                return Ok(false);
            };
            let column = column(list, term.at);
            return Err(Error::Unsupported { list: list.to_owned(), form, column });
        }
    }
    Ok(true)
}

/// A CPU, or the first and the last of a range.
fn cpus(text: &str) -> Option<(Cpu, Cpu)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    // No kernel has more of them than that.
    let cpu = |text: &str| text.parse::<u16>().ok().map(|it| Cpu(u32::from(it)));
    let (first, last) = (cpu(first)?, cpu(last)?);
    (first <= last).then_some((first, last))
}

/// That `event` has no such term, and which of `known` it resembles.
pub(super) fn unknown<'a>(
    list: &str,
    event: &str,
    term: &Term<'_>,
    known: impl Iterator<Item = &'a str>,
) -> Error {
    Error::UnknownTerm {
        list: list.to_owned(),
        term: term.name.to_owned(),
        event: event.to_owned(),
        column: column(list, term.at),
        nearest: names::nearest_of(term.name, known),
    }
}

/// That the value of `term` is not what is wanted.
pub(super) fn bad_value(list: &str, term: &Term<'_>, wanted: &str) -> Error {
    Error::BadValue {
        list: list.to_owned(),
        value: term.value.unwrap_or_default().to_owned(),
        term: term.name.to_owned(),
        wanted: wanted.to_owned(),
        column: column(list, term.value_at),
    }
}

/// A number: decimal, or hexadecimal after `0x`.
pub(super) fn number(text: &str) -> Option<u64> {
    let is_digits = |text: &str| text.bytes().all(|it| it.is_ascii_hexdigit());
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok().filter(|_| is_digits(digits)),
        None => text.parse().ok().filter(|_| is_digits(text)),
    }
}

/// Whether a term that needs no value is set.
fn flag(term: &Term<'_>) -> Option<bool> {
    match term.value {
        None | Some("1") => Some(true),
        Some("0") => Some(false),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::one;
    use super::super::testing::refused;
    use super::*;

    #[test]
    fn a_term_overrides_what_holds_for_all() {
        let event = one("cpu-clock/period=10000/u");
        assert_eq!(event.name, "cpu-clock/period=10000/u");
        assert_eq!(event.terms.rate, Some(Rate::Period(10_000)));
        assert_eq!(one("cs/freq=0x63/").terms.rate, Some(Rate::Hertz(99)));
        assert_eq!(one("cs/no-inherit/").terms.is_inherited, Some(false));
        assert_eq!(one("cs/inherit=0/").terms.is_inherited, Some(false));
        assert_eq!(one("cs/time=0/").terms.has_time, Some(false));
        assert_eq!(one("cs/percore,no-overwrite,nr=3,metric-id=x/").terms, Terms::default());
    }

    #[test]
    fn a_name_may_be_quoted_and_hold_what_else_ends_a_term() {
        assert_eq!(one("cpu-clock/name=foo,period=5/u").name, "foo");
        assert_eq!(one("cs/name='a, b/c'/").name, "a, b/c");
    }

    #[test]
    fn a_stack_is_copied_in_whole_words_whichever_term_comes_first() {
        let want = Some(CallChains::Dwarf { stack_bytes: 4096 });
        assert_eq!(one("cs/call-graph=dwarf,stack-size=4096/").terms.call_chains, want);
        assert_eq!(one("cs/stack-size=4090,call-graph=dwarf/").terms.call_chains, want);
        let frames = one("cs/max-stack=5/").terms;
        assert_eq!(
            (frames.max_stack, frames.call_chains),
            (Some(5), Some(CallChains::FramePointers))
        );
        assert_eq!(one("cs/call-graph=no/").terms.call_chains, Some(CallChains::None));
    }

    #[test]
    fn an_event_may_be_bound_to_some_cpus() {
        assert_eq!(one("cs/cpu=1/").cpus, Some(vec![Cpu(1)]));
        assert_eq!(one("cs/cpu=1-3/").cpus, Some(vec![Cpu(1), Cpu(2), Cpu(3)]));
        refused(
            "cs/cpu=3-1/",
            "`3-1` at column 8 of `cs/cpu=3-1/` is no value of `cpu`, which is a CPU, or a range \
             as `0-3`",
            None,
        );
    }

    #[test]
    fn what_is_not_recorded_is_refused_with_what_it_asks_for() {
        let check = |list: &str, form: &str| {
            refused(list, &format!("{form} at column 4 of `{list}` cannot be recorded"), None);
        };
        check("cs/aux-output/", "AUX area data");
        check("cs/aux-action=pause/", "AUX area data");
        check("cs/driver-config/", "a setting of a driver");
        check("cs/ratio-to-prev=0.5/", "a period that follows the event before");
    }

    #[test]
    fn a_wrong_term_points_at_its_column_and_its_neighbour() {
        refused(
            "faults,cs/perod=1/",
            "`perod` at column 11 of `faults,cs/perod=1/` is no term of `cs`",
            Some("period"),
        );
        refused(
            "cs/period=x/",
            "`x` at column 11 of `cs/period=x/` is no value of `period`, which is a number of events",
            None,
        );
        refused(
            "cs/call-graph=no,stack-size=70000/",
            "`70000` at column 29 of `cs/call-graph=no,stack-size=70000/` is no value of \
             `stack-size`, which is a number of bytes up to 65528",
            None,
        );
        refused("cs/period=1", "`/` at column 3 of `cs/period=1` is never closed", None);
        refused("cs/name='a/", "`'` at column 9 of `cs/name='a/` is never closed", None);
    }
}
