//! Events by the terms of their PMU, which sysfs describes.

use super::Error;
use super::column;
use super::list::Draft;
use super::list::Parser;
use super::modifiers;
use super::modifiers::Modifiers;
use super::names;
use super::terms;
use super::terms::Term;
use super::terms::number;
use crate::perfdata::Attr;

/// The PMU whose events have names of their own and no description.
const SOFTWARE: &str = "software";

/// One PMU, as far as its events need it.
struct Pmu {
    name: String,
    kind: u32,
    formats: Vec<(String, String)>,
    events: Vec<(String, String)>,
}

/// The event of PMU `head`, once for each PMU of that name: `uncore_cbox` is all of
/// `uncore_cbox_0`, `uncore_cbox_1` and so on.
pub(super) fn parse(
    parser: &Parser<'_>,
    head: &str,
    from: usize,
    text: &str,
    terms: &[Term<'_>],
    modifiers: Modifiers,
    drafts: &mut Vec<Draft>,
) -> Result<(), Error> {
    let all = parser.machine.pmus.names().map_err(|source| failed(head, source))?;
    let fits = |name: &str| name == head || is_numbered(name, head) || names::glob(head, name);
    let mut is_found = false;
    for name in all.iter().filter(|it| fits(it)) {
        let Some(pmu) = look_up(parser, name)? else { continue };
        is_found = true;
        let mut draft = draft(parser, &pmu, text, modifiers)?;
        for term in terms {
            if terms::common(parser.list, term, &mut draft)? {
                continue;
            }
            pmu.apply(parser.list, term, &mut draft)?;
        }
        drafts.push(draft);
    }
    if is_found {
        return Ok(());
    }
    let nearest = names::nearest_of(head, all.iter().map(String::as_str));
    Err(parser.unknown(from, head, nearest.or_else(|| names::nearest(head))))
}

/// The event `name` of whichever PMU has one of that name; false if none has.
pub(super) fn alias(
    parser: &Parser<'_>,
    name: &str,
    from: usize,
    text: &str,
    drafts: &mut Vec<Draft>,
    letters: &str,
    letters_at: usize,
) -> Result<bool, Error> {
    // A name that nobody can look up is an unknown name.
    let all = parser.machine.pmus.names().unwrap_or_default();
    let mut is_found = false;
    for pmu in &all {
        let events = parser.machine.pmus.events(pmu).unwrap_or_default();
        if events.iter().all(|it| it.0 != name) {
            continue;
        }
        let Some(pmu) = look_up(parser, pmu)? else { continue };
        is_found = true;
        let modifiers = modifiers::parse(Modifiers::default(), parser.list, letters, letters_at)?;
        let mut draft = draft(parser, &pmu, text, modifiers)?;
        let term = Term { name, value: None, at: from, value_at: from };
        pmu.apply(parser.list, &term, &mut draft)?;
        drafts.push(draft);
    }
    Ok(is_found)
}

fn look_up(parser: &Parser<'_>, name: &str) -> Result<Option<Pmu>, Error> {
    let pmus = parser.machine.pmus;
    let failed = |source| failed(name, source);
    let Some(kind) = pmus.kind(name).map_err(failed)? else { return Ok(None) };
    let (formats, events) =
        (pmus.formats(name).map_err(failed)?, pmus.events(name).map_err(failed)?);
    Ok(Some(Pmu { name: name.to_owned(), kind, formats, events }))
}

fn failed(name: &str, source: std::io::Error) -> Error {
    Error::Pmu { name: name.to_owned(), source }
}

fn draft(parser: &Parser<'_>, pmu: &Pmu, text: &str, modifiers: Modifiers) -> Result<Draft, Error> {
    let attr = Attr { kind: pmu.kind, ..Attr::default() };
    let mut draft = Draft::new(text, attr, modifiers);
    draft.cpus = parser.machine.pmus.cpus(&pmu.name).map_err(|source| failed(&pmu.name, source))?;
    Ok(draft)
}

/// Whether `name` is `stem`, an underscore and a number, with or without perf's `uncore_` before.
fn is_numbered(name: &str, stem: &str) -> bool {
    let name =
        name.strip_prefix("uncore_").filter(|_| !stem.starts_with("uncore_")).unwrap_or(name);
    if name == stem {
        return true;
    }
    let number = name.strip_prefix(stem).and_then(|it| it.strip_prefix('_'));
    number.is_some_and(|it| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit()))
}

impl Pmu {
    /// What a term says that belongs to this PMU.
    fn apply(&self, list: &str, term: &Term<'_>, draft: &mut Draft) -> Result<(), Error> {
        let attr = &mut draft.attr;
        if let Some(word) = word(term.name, attr) {
            let value = term.value.and_then(number);
            *word = value.ok_or_else(|| terms::bad_value(list, term, "a number"))?;
            return Ok(());
        }
        if let Some((_, place)) = self.formats.iter().find(|it| it.0 == term.name) {
            return Self::put(list, term, place, attr);
        }
        if let (Some((_, alias)), None) =
            (self.events.iter().find(|it| it.0 == term.name), term.value)
        {
            return self.apply_alias(list, term, alias, attr);
        }
        if let (Some((kind, config)), None) = (names::find(term.name), term.value) {
            // `cpu/r1a8/`, `software/cs/`.
            if kind == self.kind || kind == names::KIND_RAW && self.name != SOFTWARE {
                attr.config = config;
                return Ok(());
            }
        }
        let own = self.formats.iter().chain(&self.events).map(|it| it.0.as_str());
        Err(terms::unknown(list, &self.name, term, own.chain(terms::OF_ALL)))
    }

    /// An event is other terms: `event=0x3c,umask=0x1`. What it asks of the user (`umask=?`) must
    /// stand in a term of its own.
    fn apply_alias(
        &self,
        list: &str,
        term: &Term<'_>,
        alias: &str,
        attr: &mut Attr,
    ) -> Result<(), Error> {
        for part in terms::split(alias.trim(), 0) {
            // It is the event's name that stands in the list.
            let part = Term { at: term.at, value_at: term.at, ..part };
            if part.value == Some("?") {
                continue;
            }
            if let (Some(word), Some(value)) = (word(part.name, attr), part.value.and_then(number))
            {
                *word = value;
            } else if let Some((_, place)) = self.formats.iter().find(|it| it.0 == part.name) {
                Self::put(list, &part, place, attr)?;
            } else {
                return Err(terms::unknown(list, &self.name, &part, std::iter::empty()));
            }
        }
        Ok(())
    }

    /// Puts a value where `place` says: `config:0-7,32-35`, lowest bits first.
    fn put(list: &str, term: &Term<'_>, place: &str, attr: &mut Attr) -> Result<(), Error> {
        let (name, ranges) = place.trim().split_once(':').unwrap_or((place.trim(), "0-63"));
        let bits: Option<Vec<u32>> = bits(ranges);
        let (Some(word), Some(bits)) = (word(name, attr), bits) else {
            let form = "a term whose place the kernel describes in an unknown way";
            let column = column(list, term.at);
            return Err(Error::Unsupported { list: list.to_owned(), form, column });
        };
        let most = if bits.len() < 64 { (1_u64 << bits.len()) - 1 } else { u64::MAX };
        let value = match term.value {
            None => Some(1),
            Some(value) => number(value),
        };
        let wanted = || format!("a number up to {most:#x}");
        let value = value
            .filter(|it| *it <= most)
            .ok_or_else(|| terms::bad_value(list, term, &wanted()))?;
        for (from, to) in bits.into_iter().enumerate() {
            *word &= !(1 << to);
            *word |= ((value >> from) & 1) << to;
        }
        Ok(())
    }
}

/// The word of the attribute that is called so.
fn word<'a>(name: &str, attr: &'a mut Attr) -> Option<&'a mut u64> {
    Some(match name {
        "config" => &mut attr.config,
        "config1" => &mut attr.config1,
        "config2" => &mut attr.config2,
        "config3" => &mut attr.config3,
        "config4" => &mut attr.config4,
        _ => return None,
    })
}

/// The bits of ranges such as `0-7,32-35`, each below 64.
fn bits(ranges: &str) -> Option<Vec<u32>> {
    let mut bits = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.trim().parse::<u32>().ok()?, last.trim().parse::<u32>().ok()?);
        if last < first || 63 < last {
            return None;
        }
        bits.extend(first..=last);
    }
    (bits.len() <= 64).then_some(bits)
}

#[cfg(test)]
mod tests {
    use super::super::testing::one;
    use super::super::testing::parsed;
    use super::super::testing::refused;
    use super::*;
    use crate::units::Cpu;

    #[track_caller]
    fn check(list: &str, kind: u32, config: u64, config1: u64) {
        let event = one(list);
        let attr = event.attr;
        assert_eq!((event.name.as_str(), attr.kind), (list, kind));
        assert_eq!((attr.config, attr.config1), (config, config1), "{list}");
    }

    #[test]
    fn terms_go_where_the_format_says() {
        check("cpu/event=0x3c/", 4, 0x3c, 0);
        check("cpu/event=0x1ff,umask=2,edge/u", 4, 0x1_0004_02ff, 0);
        check("cpu/ldlat=30/", 4, 0, 30);
        check("cpu/config=0x123,config1=7/", 4, 0x123, 7);
        check("cpu/r1a8/", 4, 0x1a8, 0);
        check("software/cs/", 1, 3, 0);
        check("software/config=1/", 1, 1, 0);
    }

    #[test]
    fn an_event_of_a_pmu_is_other_terms() {
        check("cpu/mem-loads,period=5/", 4, 0x1cd, 3);
        // What comes later counts.
        check("cpu/mem-loads,ldlat=9/pp", 4, 0x1cd, 9);
        check("tsc", 13, 0, 0);
        check("tsc:u", 13, 0, 0);
    }

    #[test]
    fn a_stem_is_all_pmus_with_a_number() {
        let events = parsed("uncore_cbox/event=1/");
        let kinds: Vec<_> = events.iter().map(|it| it.attr.kind).collect();
        assert_eq!(kinds, [21, 22]);
        assert_eq!(events[0].cpus, Some(vec![Cpu(0), Cpu(8)]));
        assert_eq!(parsed("cbox_1/event=1/")[0].attr.kind, 22);
    }

    #[test]
    fn what_a_pmu_does_not_have_is_told_with_its_column() {
        refused(
            "cpu/evnt=1/",
            "`evnt` at column 5 of `cpu/evnt=1/` is no term of `cpu`",
            Some("event"),
        );
        refused(
            "cpu/umask=0x100/",
            "`0x100` at column 11 of `cpu/umask=0x100/` is no value of `umask`, which is a \
             number up to 0xff",
            None,
        );
        refused(
            "cs,cpi/event=1/",
            "no event is called `cpi`, at column 4 of `cs,cpi/event=1/`",
            Some("cpu"),
        );
    }

    #[test]
    fn places_that_are_none_are_no_places() {
        assert_eq!(bits("0-7,32"), Some(vec![0, 1, 2, 3, 4, 5, 6, 7, 32]));
        for bad in ["", "x", "7-0", "0-64", "0-63,0-63"] {
            assert_eq!(bits(bad), None, "{bad}");
        }
    }
}
