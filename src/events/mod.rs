//! What the user calls an event, as the attribute that opens it.
//!
//! In comes the text of an event list and, for tracepoints, whoever knows their ids; out come
//! [`Event`]s whose attributes say what to count and where. How often to sample, and what a sample
//! carries, is [`record`](crate::record)'s to add. Nothing here opens a file.
//!
//! Sources: `enum perf_sw_ids`, `perf_hw_id` and `perf_hw_cache_id` in
//! `include/uapi/linux/perf_event.h`, perf-list(1) for the spelling.

mod modifiers;
mod names;

use std::io;

use crate::perfdata::Attr;

pub use names::HARDWARE_CYCLES;
pub use names::KIND_HARDWARE;
pub use names::KIND_SOFTWARE;
pub use names::KIND_TRACEPOINT;
pub use names::SOFTWARE_CPU_CLOCK;
pub use names::SOFTWARE_DUMMY;
pub use names::SOFTWARE_TASK_CLOCK;

/// One event that is to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The name under which it stands in the file: what the user wrote, with the modifiers.
    pub name: String,
    /// Type, configuration, exclusions and precision.
    pub attr: Attr,
    /// What to do where the hardware is less precise than that.
    pub precision: Precision,
}

/// How firmly a precision was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// By number (`p`, `pp`, `ppp`): this one or none.
    Exact,
    /// By `P`: the best there is.
    Best,
}

/// Who knows the tracepoints of a kernel.
pub trait Tracepoints {
    /// The id of one tracepoint, or `None` if there is none of that name.
    ///
    /// # Errors
    ///
    /// Whatever keeps the answer from being known.
    fn id(&self, system: &str, name: &str) -> io::Result<Option<u64>>;

    /// Every tracepoint, as system and name, in the order in which they are to be recorded.
    ///
    /// # Errors
    ///
    /// Whatever keeps the answer from being known.
    fn all(&self) -> io::Result<Vec<(String, String)>>;
}

/// What is wrong with an event list.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No event of this name is known.
    #[error("no event is called `{name}`, at column {column} of `{list}`")]
    UnknownEvent {
        /// The whole list.
        list: String,
        /// What was looked for.
        name: String,
        /// Where it begins, counted from 1.
        column: usize,
        /// The known name that is most like it.
        nearest: Option<String>,
    },
    /// A modifier that no event has.
    #[error("`{letter}` at column {column} of `{list}` is no event modifier")]
    UnknownModifier {
        /// The whole list.
        list: String,
        /// The letter.
        letter: char,
        /// Where it stands, counted from 1.
        column: usize,
    },
    /// A modifier that stands twice.
    #[error("modifier `{letter}` stands twice, again at column {column} of `{list}`")]
    DuplicateModifier {
        /// The whole list.
        list: String,
        /// The letter.
        letter: char,
        /// Where it stands for the second time, counted from 1.
        column: usize,
    },
    /// Nothing between two commas.
    #[error("an event is missing at column {column} of `{list}`")]
    Missing {
        /// The whole list.
        list: String,
        /// Where it should begin, counted from 1.
        column: usize,
    },
    /// A form of event that exists, and that this version does not record.
    #[error("{form} at column {column} of `{list}` cannot be recorded")]
    Unsupported {
        /// The whole list.
        list: String,
        /// What it is.
        form: &'static str,
        /// Where it begins, counted from 1.
        column: usize,
    },
    /// The kernel's tracepoints could not be looked at.
    #[error("cannot look up tracepoint `{name}`")]
    Tracepoint {
        /// The tracepoint.
        name: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

/// The events of `list`, which are separated by commas.
///
/// # Errors
///
/// See [`Error`]: all but the last say at which column.
pub fn parse(list: &str, tracepoints: &dyn Tracepoints) -> Result<Vec<Event>, Error> {
    if let Some((at, form)) = unsupported_form(list) {
        return Err(Error::Unsupported { list: list.to_owned(), form, column: column(list, at) });
    }
    let mut events = Vec::new();
    let mut start = 0;
    for item in list.split(',') {
        let at = start + (item.len() - item.trim_start().len());
        start += item.len() + 1;
        parse_one(&Item { list, text: item.trim(), at }, tracepoints, &mut events)?;
    }
    Ok(events)
}

/// `cycles` at the best precision, what is sampled where nothing is said.
pub fn default_event() -> Event {
    let attr = Attr { kind: KIND_HARDWARE, config: HARDWARE_CYCLES, ..Attr::default() };
    let best = modifiers::Modifiers::BEST;
    Event { name: "cycles:P".to_owned(), attr: best.apply(attr), precision: Precision::Best }
}

/// The software clock `config` under the name and with the precision that perf gives it in place
/// of `cycles`.
pub fn clock_instead(config: u64) -> Event {
    let name = if config == SOFTWARE_TASK_CLOCK { "task-clock:ppp" } else { "cpu-clock:ppp" };
    let attr = Attr { kind: KIND_SOFTWARE, config, ..Attr::default() };
    let attr = modifiers::Modifiers::BEST.apply(attr);
    Event { name: name.to_owned(), attr, precision: Precision::Exact }
}

/// Whether `attr` is of the event through which a BPF program writes.
pub fn is_bpf_output(attr: &Attr) -> bool {
    (attr.kind, attr.config) == (KIND_SOFTWARE, names::SOFTWARE_BPF_OUTPUT)
}

/// One element of a list, and where in the list it begins.
struct Item<'a> {
    list: &'a str,
    text: &'a str,
    at: usize,
}

fn parse_one(
    item: &Item<'_>,
    tracepoints: &dyn Tracepoints,
    events: &mut Vec<Event>,
) -> Result<(), Error> {
    let &Item { list, text, at } = item;
    let mut parts = text.splitn(2, ':');
    let name = parts.next().unwrap_or_default();
    let rest = parts.next();
    if name.is_empty() {
        return Err(Error::Missing { list: list.to_owned(), column: column(list, at) });
    }
    if let Some((kind, config)) = names::find(name) {
        let after = at + name.len() + 1;
        let modifiers = modifiers::parse(list, rest.unwrap_or_default(), after)?;
        let attr = modifiers.apply(Attr { kind, config, ..Attr::default() });
        events.push(Event { name: text.to_owned(), attr, precision: modifiers.precision() });
        return Ok(());
    }
    match rest {
        Some(rest) => tracepoint(item, name, rest, tracepoints, events),
        None => Err(unknown(item, name, names::nearest(name))),
    }
}

fn tracepoint(
    item: &Item<'_>,
    system: &str,
    rest: &str,
    tracepoints: &dyn Tracepoints,
    events: &mut Vec<Event>,
) -> Result<(), Error> {
    let (name, letters) = rest.split_once(':').unwrap_or((rest, ""));
    let wanted = format!("{system}:{name}");
    let failed = |source| Error::Tracepoint { name: wanted.clone(), source };
    let after = item.at + wanted.len() + 1;
    let modifiers = modifiers::parse(item.list, letters, after)?;
    let suffix = if letters.is_empty() { String::new() } else { format!(":{letters}") };
    let mut add = |system: &str, name: &str, id| {
        let attr = Attr { kind: KIND_TRACEPOINT, config: id, ..Attr::default() };
        events.push(Event {
            name: format!("{system}:{name}{suffix}"),
            attr: modifiers.apply(attr),
            precision: modifiers.precision(),
        });
    };
    if !wanted.contains(['*', '?']) {
        if let Some(id) = tracepoints.id(system, name).map_err(failed)? {
            add(system, name, id);
            return Ok(());
        }
        // A name that nobody can list has no neighbours either.
        let all = tracepoints.all().unwrap_or_default();
        let all: Vec<_> = all.iter().map(|(system, name)| format!("{system}:{name}")).collect();
        // `cpu-clck:u` may be an event with a modifier as well as a tracepoint.
        let nearest = names::nearest_of(&wanted, all.iter().map(String::as_str));
        let nearest = nearest.or_else(|| names::nearest(system));
        return Err(unknown(item, &wanted, nearest));
    }
    let mut found = false;
    for (a_system, a_name) in tracepoints.all().map_err(failed)? {
        if !names::glob(system, &a_system) || !names::glob(name, &a_name) {
            continue;
        }
        if let Some(id) = tracepoints.id(&a_system, &a_name).map_err(failed)? {
            add(&a_system, &a_name, id);
            found = true;
        }
    }
    if found { Ok(()) } else { Err(unknown(item, &wanted, None)) }
}

fn unknown(item: &Item<'_>, name: &str, nearest: Option<String>) -> Error {
    Error::UnknownEvent {
        list: item.list.to_owned(),
        name: name.to_owned(),
        column: column(item.list, item.at),
        nearest,
    }
}

/// The forms of perf's grammar that have no meaning here, and the byte at which one begins.
fn unsupported_form(list: &str) -> Option<(usize, &'static str)> {
    if let Some(at) = list.find('{') {
        return Some((at, "a group of events"));
    }
    let slash = list.find('/')?;
    let start = list.get(..slash)?.rfind(',').map_or(0, |comma| comma + 1);
    Some((start, "an event with a PMU's own terms"))
}

/// The column of the byte `at`, counted in characters from 1.
fn column(list: &str, at: usize) -> usize {
    list.get(..at).map_or(0, |before| before.chars().count()) + 1
}

#[cfg(test)]
mod tests {
    use crate::perfdata::AttrFlags;

    use super::*;

    struct Some3;

    impl Tracepoints for Some3 {
        fn id(&self, system: &str, name: &str) -> io::Result<Option<u64>> {
            let all = self.all()?;
            let at = all.iter().position(|it| (it.0.as_str(), it.1.as_str()) == (system, name));
            Ok(at.map(|at| at as u64 + 300))
        }

        fn all(&self) -> io::Result<Vec<(String, String)>> {
            let all = [("irq", "irq_exit"), ("sched", "sched_switch"), ("sched", "sched_waking")];
            Ok(all.map(|(system, name)| (system.to_owned(), name.to_owned())).to_vec())
        }
    }

    #[track_caller]
    fn check(list: &str, want: &[(&str, u32, u64)]) {
        let events = parse(list, &Some3).unwrap();
        let got: Vec<_> =
            events.iter().map(|it| (it.name.as_str(), it.attr.kind, it.attr.config)).collect();
        assert_eq!(got, want);
    }

    #[track_caller]
    fn check_error(list: &str, want: &str, want_nearest: Option<&str>) {
        let error = parse(list, &Some3).unwrap_err();
        assert_eq!(error.to_string(), want);
        let nearest = match error {
            Error::UnknownEvent { nearest, .. } => nearest,
            _ => None,
        };
        assert_eq!(nearest.as_deref(), want_nearest);
    }

    #[test]
    fn names_and_their_aliases_are_kept_as_typed() {
        check(
            "cpu-clock,cs:u, faults,cpu-cycles,L1-dcache-load-misses,r1a8",
            &[
                ("cpu-clock", 1, 0),
                ("cs:u", 1, 3),
                ("faults", 1, 2),
                ("cpu-cycles", 0, 0),
                ("L1-dcache-load-misses", 3, 0x10000),
                ("r1a8", 4, 0x1a8),
            ],
        );
    }

    #[test]
    fn a_tracepoint_is_its_id() {
        check("sched:sched_switch", &[("sched:sched_switch", 2, 301)]);
        check("sched:sched_switch:k", &[("sched:sched_switch:k", 2, 301)]);
    }

    #[test]
    fn a_pattern_is_every_tracepoint_that_it_fits() {
        check("sched:*", &[("sched:sched_switch", 2, 301), ("sched:sched_waking", 2, 302)]);
        check_error("sched:x*", "no event is called `sched:x*`, at column 1 of `sched:x*`", None);
    }

    #[test]
    fn an_unknown_name_points_at_its_column_and_its_neighbour() {
        check_error(
            "faults,cpu-clck",
            "no event is called `cpu-clck`, at column 8 of `faults,cpu-clck`",
            Some("cpu-clock"),
        );
        check_error(
            "sched:sched_swich",
            "no event is called `sched:sched_swich`, at column 1 of `sched:sched_swich`",
            Some("sched:sched_switch"),
        );
        check_error(
            "zzzzzzzzzz",
            "no event is called `zzzzzzzzzz`, at column 1 of `zzzzzzzzzz`",
            None,
        );
    }

    #[test]
    fn a_modifier_stands_once_and_is_known() {
        check_error(
            "cs,cpu-clock:uu",
            "modifier `u` stands twice, again at column 15 of `cs,cpu-clock:uu`",
            None,
        );
        check_error("cpu-clock:z", "`z` at column 11 of `cpu-clock:z` is no event modifier", None);
    }

    #[test]
    fn nothing_between_commas_is_missed() {
        check_error("cs,,faults", "an event is missing at column 4 of `cs,,faults`", None);
        check_error("", "an event is missing at column 1 of ``", None);
    }

    #[test]
    fn what_is_not_recorded_is_called_by_its_kind() {
        check_error(
            "cs,cpu/event=1/",
            "an event with a PMU's own terms at column 4 of `cs,cpu/event=1/` cannot be recorded",
            None,
        );
        check_error(
            "{cs,faults}",
            "a group of events at column 1 of `{cs,faults}` cannot be recorded",
            None,
        );
    }

    #[test]
    fn the_default_is_cycles_at_the_best_precision() {
        let event = default_event();
        assert_eq!((event.name.as_str(), event.attr.precise_ip()), ("cycles:P", 3));
        assert_eq!(event.precision, Precision::Best);
        let clock = clock_instead(SOFTWARE_TASK_CLOCK);
        assert_eq!((clock.name.as_str(), clock.attr.config), ("task-clock:ppp", 1));
        assert_eq!(clock.attr.flags, AttrFlags::PRECISE_IP_LOW | AttrFlags::PRECISE_IP_HIGH);
    }
}
