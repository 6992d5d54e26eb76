//! Probes of user space: `uprobe:PATH:FUNCTION[+OFFSET][%return]`, through the uprobe PMU.
//!
//! Source: `perf_uprobe_event_init()` in `kernel/events/core.c` and `perf_uprobe_init()` in
//! `kernel/trace/trace_event_perf.c`: `config1` points to the path, `config2` is the offset in the
//! file, and a bit of `config` asks for the return.

use super::Error;
use super::Machine;
use super::column;
use super::list::Draft;
use super::list::Parser;
use super::modifiers;
use super::modifiers::Modifiers;
use super::names;
use super::object::Place;
use super::object::Section;
use super::terms;
use super::terms::number;
use crate::perfdata::Attr;

/// The PMU whose events these are.
const UPROBE: &str = "uprobe";

/// The PMU of probes in the kernel.
const KPROBE: &str = "kprobe";

/// The place that a probe is at, besides what the attribute says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The file, or the kernel's function. The attribute holds its address while the event is opened,
    /// and 0 in a recording.
    pub path: String,
}

/// The probe at the parser's place.
pub(super) fn parse(parser: &mut Parser<'_>, drafts: &mut Vec<Draft>) -> Result<(), Error> {
    let from = parser.at;
    parser.at += "uprobe:".len();
    let path = parser.until(&[':', ',', '{', '}']).trim();
    if !parser.eat(':') {
        return Err(parser.missing());
    }
    let at = parser.at;
    let place = parser.until(&[',', '{', '}', '/']).trim_end();
    let terms = if parser.rest().starts_with('/') { Some(parser.terms()?) } else { None };
    let text = parser.list.get(from..parser.at).unwrap_or_default().trim_end();

    let (place, is_return) = match place.strip_suffix("%return") {
        Some(place) => (place, true),
        None => (place, false),
    };
    let (function, offset) = match place.rsplit_once('+') {
        // `operator+` is a name.
        Some((function, offset)) if number(offset).is_some() => (function, number(offset)),
        _ => (place, None),
    };
    if function.is_empty() {
        parser.at = at;
        return Err(parser.missing());
    }
    let list = parser.list;
    if is_return && offset.is_some_and(|it| it != 0) {
        return Err(Error::BadValue {
            list: list.to_owned(),
            value: place.to_owned(),
            term: "%return".to_owned(),
            wanted: "of a function's first byte".to_owned(),
            column: column(list, at),
        });
    }
    let pmus = parser.machine.pmus;
    let failed = |source| Error::Pmu { name: UPROBE.to_owned(), source };
    let Some(kind) = pmus.kind(UPROBE).map_err(failed)? else {
        return Err(parser.unknown(from, UPROBE, None));
    };
    let functions = parser.machine.functions;
    let unreadable = |source| Error::File { path: path.to_owned(), source };
    let Some(start) = functions.offset(path, function).map_err(unreadable)? else {
        let all = functions.names(path).unwrap_or_default();
        return Err(Error::UnknownFunction {
            list: list.to_owned(),
            path: path.to_owned(),
            function: function.to_owned(),
            column: column(list, at),
            nearest: names::nearest_of(function, all.iter().map(String::as_str)),
        });
    };
    let mut attr = Attr { kind, ..Attr::default() };
    attr.config2 = start.0.wrapping_add(offset.unwrap_or(0));
    if is_return {
        attr.config = at_return(parser.machine, UPROBE)?;
    }
    let mut modifiers = Modifiers::default();
    if let Some(found) = &terms {
        modifiers = modifiers::parse(modifiers, list, found.letters.0, found.letters.1)?;
    }
    let mut draft = Draft::new(text, attr, modifiers);
    draft.probe = Some(Probe { path: path.to_owned() });
    if let Some(found) = terms {
        terms::apply(list, UPROBE, &found.terms, &mut draft)?;
    }
    drafts.push(draft);
    Ok(())
}

/// The configuration that asks for a function's return.
fn at_return(machine: Machine<'_>, pmu: &str) -> Result<u64, Error> {
    let failed = |source| Error::Pmu { name: pmu.to_owned(), source };
    let formats = machine.pmus.formats(pmu).map_err(failed)?;
    let bit = formats.iter().find(|it| it.0 == "retprobe").map(|it| it.1.trim());
    let bit = bit.and_then(|it| it.strip_prefix("config:")?.parse::<u32>().ok());
    Ok(bit.and_then(|it| 1_u64.checked_shl(it)).unwrap_or(1))
}

/// Where a program is to run.
pub(super) struct Probed<'a> {
    pub(super) place: &'a Place,
    /// From the function's start, in bytes.
    pub(super) offset: u64,
    pub(super) is_return: bool,
}

/// The probe that `program` is for, by its section.
///
/// Source: `perf_kprobe_init()` in `kernel/trace/trace_event_perf.c`, where `config1` points to the
/// function's name and `config2` is the offset.
pub(super) fn of_program(
    machine: Machine<'_>,
    program: &str,
    section: &Section,
    probed: &Probed<'_>,
) -> Result<(Attr, Probe), Error> {
    let &Probed { place, offset, is_return } = probed;
    let pmu = if matches!(place, Place::Kernel { .. }) { KPROBE } else { UPROBE };
    let failed = |source| Error::Pmu { name: pmu.to_owned(), source };
    let Some(kind) = machine.pmus.kind(pmu).map_err(failed)? else {
        return Err(Error::NoHook {
            program: program.to_owned(),
            section: section.to_string(),
            hook: format!("{pmu}s"),
        });
    };
    let (start, path) = match place {
        Place::Kernel { function } => (0, function.clone()),
        Place::Function { path, function } => {
            let path = machine.objects.find(path);
            let unreadable = |source| Error::File { path: path.clone(), source };
            let Some(start) = machine.functions.offset(&path, function).map_err(unreadable)? else {
                return Err(Error::NoPlace {
                    program: program.to_owned(),
                    section: section.to_string(),
                    path,
                });
            };
            (start.0, path)
        }
    };
    let mut attr = Attr { kind, config2: start.wrapping_add(offset), ..Attr::default() };
    if is_return {
        attr.config = at_return(machine, pmu)?;
    }
    Ok((attr, Probe { path }))
}

#[cfg(test)]
mod tests {
    use super::super::terms::CallChains;
    use super::super::testing::one;
    use super::super::testing::parsed;
    use super::super::testing::refused;
    use super::*;

    #[track_caller]
    fn check(list: &str, config: u64, offset: u64) {
        let event = one(list);
        assert_eq!((event.name.as_str(), event.attr.kind), (list, 7));
        assert_eq!((event.attr.config, event.attr.config2), (config, offset), "{list}");
        assert_eq!(event.probe, Some(Probe { path: "/bin/tool".to_owned() }));
        assert_eq!(event.attr.config1, 0);
    }

    #[test]
    fn a_function_is_its_place_in_the_file() {
        check("uprobe:/bin/tool:main", 0, 0x1130);
        check("uprobe:/bin/tool:main+0x10", 0, 0x1140);
        check("uprobe:/bin/tool:main%return", 1, 0x1130);
        check("uprobe:/bin/tool:ns::f", 0, 0x1130);
    }

    #[test]
    fn a_probe_has_terms_and_neighbours_in_a_list() {
        let events = parsed("cs,uprobe:/bin/tool:main/call-graph=fp/,faults");
        assert_eq!(events.len(), 3);
        assert_eq!(events[1].terms.call_chains, Some(CallChains::FramePointers));
    }

    #[test]
    fn what_cannot_be_probed_is_told_with_its_column() {
        refused(
            "cs,uprobe:/bin/tool:mian2",
            "`/bin/tool` has no function `mian2`, at column 21 of `cs,uprobe:/bin/tool:mian2`",
            None,
        );
        refused(
            "uprobe:/bin/tool:mai",
            "`/bin/tool` has no function `mai`, at column 18 of `uprobe:/bin/tool:mai`",
            Some("main"),
        );
        refused("uprobe:/bin/x:main", "cannot read `/bin/x`", None);
        refused("uprobe:/bin/tool", "an event is missing at column 17 of `uprobe:/bin/tool`", None);
        refused(
            "uprobe:/bin/tool:main+4%return",
            "`main+4` at column 18 of `uprobe:/bin/tool:main+4%return` is no value of `%return`, \
             which is of a function's first byte",
            None,
        );
    }
}
