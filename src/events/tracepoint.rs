//! Tracepoints, by name or by pattern.

use super::Error;
use super::list::Draft;
use super::list::Parser;
use super::modifiers::Modifiers;
use super::names;
use super::names::KIND_TRACEPOINT;
use super::terms;
use super::terms::Term;
use crate::perfdata::Attr;

/// What was asked for.
pub(super) struct Wanted<'a> {
    pub(super) system: &'a str,
    pub(super) name: &'a str,
    pub(super) modifiers: Modifiers,
}

/// Adds the tracepoints that `wanted` names, the item beginning at byte `from` of the list.
pub(super) fn find(
    parser: &Parser<'_>,
    from: usize,
    wanted: &Wanted<'_>,
    terms: &[Term<'_>],
    drafts: &mut Vec<Draft>,
) -> Result<(), Error> {
    let &Wanted { system, name, modifiers } = wanted;
    let tracepoints = parser.machine.tracepoints;
    let whole = format!("{system}:{name}");
    let failed = |source| Error::Tracepoint { name: whole.clone(), source };
    // The name leads to the format, so that no term may change it, nor a modifier.
    if let Some(term) = terms.iter().find(|it| it.name == "name") {
        let known = terms::OF_ALL.into_iter().filter(|it| *it != "name");
        return Err(terms::unknown(parser.list, &whole, term, known));
    }
    let draft = |system: &str, name: &str, id| -> Result<Draft, Error> {
        let attr = Attr { kind: KIND_TRACEPOINT, config: id, ..Attr::default() };
        let mut draft = Draft::new(format!("{system}:{name}"), attr, modifiers);
        terms::apply(parser.list, &whole, terms, &mut draft)?;
        Ok(draft)
    };
    if !whole.contains(['*', '?']) {
        if let Some(id) = tracepoints.id(system, name).map_err(failed)? {
            drafts.push(draft(system, name, id)?);
            return Ok(());
        }
        // A name that nobody can list has no neighbours either.
        let all = tracepoints.all().unwrap_or_default();
        let all: Vec<_> = all.iter().map(|(system, name)| format!("{system}:{name}")).collect();
        // `cpu-clck:u` may be an event with a modifier as well as a tracepoint.
        let nearest = names::nearest_of(&whole, all.iter().map(String::as_str));
        let nearest = nearest.or_else(|| names::nearest(system));
        return Err(parser.unknown(from, &whole, nearest));
    }
    let mut is_found = false;
    for (a_system, a_name) in tracepoints.all().map_err(failed)? {
        if !names::glob(system, &a_system) || !names::glob(name, &a_name) {
            continue;
        }
        if let Some(id) = tracepoints.id(&a_system, &a_name).map_err(failed)? {
            drafts.push(draft(&a_system, &a_name, id)?);
            is_found = true;
        }
    }
    if is_found { Ok(()) } else { Err(parser.unknown(from, &whole, None)) }
}

#[cfg(test)]
mod tests {
    use super::super::terms::CallChains;
    use super::super::testing::one;
    use super::super::testing::parsed;
    use super::super::testing::refused;
    use crate::perfdata::AttrFlags;

    #[track_caller]
    fn check(list: &str, want: &[(&str, u64)]) {
        let events = parsed(list);
        let got: Vec<_> = events.iter().map(|it| (it.name.as_str(), it.attr.config)).collect();
        assert_eq!(got, want);
        assert!(events.iter().all(|it| it.attr.kind == 2));
    }

    #[test]
    fn a_tracepoint_is_its_id() {
        check("sched:sched_switch", &[("sched:sched_switch", 301)]);
        check("sched:sched_switch:k", &[("sched:sched_switch", 301)]);
        assert!(one("sched:sched_switch:k").attr.flags.contains(AttrFlags::EXCLUDE_USER));
    }

    #[test]
    fn a_pattern_is_every_tracepoint_that_it_fits() {
        check("sched:*", &[("sched:sched_switch", 301), ("sched:sched_waking", 302)]);
        check("s*:*wa?ing", &[("sched:sched_waking", 302)]);
        refused("sched:x*", "no event is called `sched:x*`, at column 1 of `sched:x*`", None);
    }

    #[test]
    fn terms_do_not_change_a_tracepoints_name() {
        let event = one("sched:sched_switch/call-graph=fp/");
        assert_eq!(event.name, "sched:sched_switch");
        assert_eq!(event.terms.call_chains, Some(CallChains::FramePointers));
        refused(
            "sched:sched_switch/name=x/",
            "`name` at column 20 of `sched:sched_switch/name=x/` is no term of \
             `sched:sched_switch`",
            None,
        );
    }

    #[test]
    fn an_unknown_tracepoint_has_neighbours() {
        refused(
            "sched:sched_swich",
            "no event is called `sched:sched_swich`, at column 1 of `sched:sched_swich`",
            Some("sched:sched_switch"),
        );
    }
}
