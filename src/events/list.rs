//! The list itself: items, groups, and which form an event has.

use super::Error;
use super::Event;
use super::Machine;
use super::Place;
use super::breakpoint;
use super::column;
use super::modifiers;
use super::modifiers::Modifiers;
use super::names;
use super::object;
use super::object::OfObject;
use super::pmu;
use super::probe;
use super::probe::Probe;
use super::terms;
use super::terms::Term;
use super::terms::Terms;
use super::tracepoint;
use crate::perfdata::Attr;
use crate::units::Cpu;

/// The events of `list`: see the grammar in the [module](super).
///
/// # Errors
///
/// See [`Error`]: all that is wrong with the text says at which column.
pub fn parse(list: &str, machine: Machine<'_>) -> Result<Vec<Event>, Error> {
    let mut parser = Parser { list, at: 0, machine };
    let mut events = Vec::new();
    loop {
        parser.item(&mut events)?;
        if !parser.eat(',') {
            break;
        }
    }
    match parser.peek() {
        Some(letter) => Err(parser.unexpected(letter)),
        None => Ok(events),
    }
}

/// An event on its way, whose group may still have modifiers for it.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) name: String,
    pub(super) attr: Attr,
    pub(super) modifiers: Modifiers,
    pub(super) terms: Terms,
    pub(super) cpus: Option<Vec<Cpu>>,
    pub(super) probe: Option<Probe>,
    pub(super) object: Option<OfObject>,
    pub(super) is_usual: bool,
}

impl Draft {
    pub(super) fn new(name: impl Into<String>, attr: Attr, modifiers: Modifiers) -> Self {
        let (name, terms) = (name.into(), Terms::default());
        let (cpus, probe, object) = (None, None, None);
        Self { name, attr, modifiers, terms, cpus, probe, object, is_usual: false }
    }

    fn finish(self, place: Place) -> Event {
        let Self { name, attr, modifiers, mut terms, cpus, probe, object, is_usual } = self;
        terms.reads_group |= modifiers.reads_group();
        terms.has_retire_latency |= modifiers.has_retire_latency();
        let (attr, precision) = (modifiers.apply(attr), modifiers.precision());
        let cpus = match (cpus, terms.on_cpus) {
            (Some(cpus), Some((first, last))) => {
                Some(cpus.into_iter().filter(|it| (first..=last).contains(it)).collect())
            }
            (None, Some((first, last))) => Some((first.0..=last.0).map(Cpu).collect()),
            (cpus, None) => cpus,
        };
        let event = Event::new(name, attr, precision);
        Event { terms, place, cpus, probe, object, is_usual, ..event }
    }
}

/// The terms of an event, and where in the list they stand.
#[derive(Debug)]
pub(super) struct TermList<'a> {
    pub(super) terms: Vec<Term<'a>>,
    /// What follows the closing slash: letters, and where they begin.
    pub(super) letters: (&'a str, usize),
}

/// A position in a list.
pub(super) struct Parser<'a> {
    pub(super) list: &'a str,
    pub(super) at: usize,
    pub(super) machine: Machine<'a>,
}

impl<'a> Parser<'a> {
    pub(super) fn rest(&self) -> &'a str {
        self.list.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip_blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    pub(super) fn eat(&mut self, letter: char) -> bool {
        let is_there = self.rest().starts_with(letter);
        self.at += if is_there { letter.len_utf8() } else { 0 };
        is_there
    }

    /// What stands before the next of `ends`, or all that is left.
    pub(super) fn until(&mut self, ends: &[char]) -> &'a str {
        let rest = self.rest();
        let text = rest.split(ends).next().unwrap_or(rest);
        self.at += text.len();
        text
    }

    fn column(&self) -> usize {
        column(self.list, self.at)
    }

    fn unexpected(&self, letter: char) -> Error {
        Error::Unexpected { list: self.list.to_owned(), letter, column: self.column() }
    }

    pub(super) fn missing(&self) -> Error {
        Error::Missing { list: self.list.to_owned(), column: self.column() }
    }

    fn item(&mut self, events: &mut Vec<Event>) -> Result<(), Error> {
        self.skip_blanks();
        let head = self.rest().split(['{', ',', '/', '}']).next().unwrap_or_default();
        if self.rest().get(head.len()..).is_some_and(|it| it.starts_with('{')) {
            self.group(head, events)?;
        } else {
            let mut drafts = Vec::new();
            self.event(&mut drafts)?;
            events.extend(drafts.into_iter().map(|it| it.finish(Place::Alone)));
        }
        self.skip_blanks();
        Ok(())
    }

    fn group(&mut self, head: &str, events: &mut Vec<Event>) -> Result<(), Error> {
        let opened_at = self.at + head.len();
        self.at = opened_at + 1;
        let mut drafts = Vec::new();
        loop {
            self.skip_blanks();
            self.event(&mut drafts)?;
            self.skip_blanks();
            if !self.eat(',') {
                break;
            }
        }
        match self.peek() {
            Some('}') => self.at += 1,
            Some(letter) => return Err(self.unexpected(letter)),
            None => {
                let column = column(self.list, opened_at);
                return Err(Error::Unclosed { list: self.list.to_owned(), letter: '{', column });
            }
        }
        let mut is_weak = false;
        if self.eat(':') {
            let at = self.at;
            let letters = self.until(&[',', '}', '{', '/']).trim_end();
            for draft in &mut drafts {
                draft.modifiers = modifiers::parse(draft.modifiers, self.list, letters, at)?;
                is_weak |= draft.modifiers.is_weak();
            }
        }
        let name = head.trim().trim_end_matches(':');
        let name = (!name.is_empty()).then(|| name.to_owned());
        let leader = Place::Leader { name, is_weak };
        // Whoever is alone in a group leads nobody.
        let first = if drafts.len() == 1 { Place::Alone } else { leader };
        let places = std::iter::once(first).chain(std::iter::repeat(Place::Member));
        events.extend(drafts.into_iter().zip(places).map(|(it, place)| it.finish(place)));
        Ok(())
    }

    /// One event, or all those that a pattern fits.
    fn event(&mut self, drafts: &mut Vec<Draft>) -> Result<(), Error> {
        let from = self.at;
        if self.rest().starts_with("mem:") {
            return breakpoint::parse(self, drafts);
        }
        if let Some(rest) = self.rest().strip_prefix("uprobe:")
            && rest.split([',', '{', '}']).next().is_some_and(|it| it.contains('/'))
        {
            return probe::parse(self, drafts);
        }
        let path_len = object::path_len(self.rest());
        if path_len != 0 {
            return object::parse(self, path_len, drafts);
        }
        let head = self.until(&[',', '/', '{', '}']).trim_end();
        if head.is_empty() {
            self.at = from;
            return Err(self.missing());
        }
        let terms = if self.rest().starts_with('/') { Some(self.terms()?) } else { None };
        let text = self.list.get(from..self.at).unwrap_or_default().trim_end();
        let Some(TermList { terms, letters }) = terms else {
            return self.named(head, from, drafts);
        };
        let with_letters =
            |modifiers: Modifiers| modifiers::parse(modifiers, self.list, letters.0, letters.1);
        if let Some((kind, config)) = names::find(head) {
            let modifiers = with_letters(Modifiers::default())?;
            let attr = Attr { kind, config, ..Attr::default() };
            let mut draft = Draft::new(text, attr, modifiers);
            terms::apply(self.list, head, &terms, &mut draft)?;
            drafts.push(draft);
            return Ok(());
        }
        if let Some((system, rest)) = head.split_once(':') {
            let (name, own) = rest.split_once(':').unwrap_or((rest, ""));
            let own_at = from + system.len() + name.len() + 2;
            let modifiers = modifiers::parse(Modifiers::default(), self.list, own, own_at)?;
            let found = tracepoint::Wanted { system, name, modifiers: with_letters(modifiers)? };
            return tracepoint::find(self, from, &found, &terms, drafts);
        }
        pmu::parse(self, head, from, text, &terms, with_letters(Modifiers::default())?, drafts)
    }

    /// An event without terms.
    fn named(&self, head: &str, from: usize, drafts: &mut Vec<Draft>) -> Result<(), Error> {
        let (name, letters) = head.split_once(':').unwrap_or((head, ""));
        if name.is_empty() {
            let column = column(self.list, from);
            return Err(Error::Missing { list: self.list.to_owned(), column });
        }
        let after = from + name.len() + 1;
        if let Some((kind, config)) = names::find(name) {
            let modifiers = modifiers::parse(Modifiers::default(), self.list, letters, after)?;
            let attr = Attr { kind, config, ..Attr::default() };
            drafts.push(Draft::new(head, attr, modifiers));
            return Ok(());
        }
        if head.contains(':') {
            let (event, own) = letters.split_once(':').unwrap_or((letters, ""));
            let own_at = after + event.len() + 1;
            let modifiers = modifiers::parse(Modifiers::default(), self.list, own, own_at)?;
            let wanted = tracepoint::Wanted { system: name, name: event, modifiers };
            let found = tracepoint::find(self, from, &wanted, &[], drafts);
            let Err(Error::UnknownEvent { .. }) = found else { return found };
            // `tsc:u` is an event of a PMU's, with a modifier.
            return if pmu::alias(self, name, from, head, drafts, letters, after)? {
                Ok(())
            } else {
                found
            };
        }
        if pmu::alias(self, name, from, head, drafts, "", after)? {
            return Ok(());
        }
        let nearest = names::nearest(name);
        Err(self.unknown(from, name, nearest))
    }

    /// `/TERM=VALUE,.../LETTERS`.
    pub(super) fn terms(&mut self) -> Result<TermList<'a>, Error> {
        let opened_at = self.at;
        self.at += 1;
        let from = self.at;
        let mut quoted_at = None;
        loop {
            let Some(letter) = self.peek() else {
                let (letter, at) = quoted_at.map_or(('/', opened_at), |at| ('\'', at));
                let column = column(self.list, at);
                return Err(Error::Unclosed { list: self.list.to_owned(), letter, column });
            };
            match (letter, quoted_at) {
                ('\'', None) => quoted_at = Some(self.at),
                ('\'', Some(_)) => quoted_at = None,
                ('/', None) => break,
                _ => {}
            }
            self.at += letter.len_utf8();
        }
        let text = self.list.get(from..self.at).unwrap_or_default();
        self.at += 1;
        // perf takes a colon, too.
        self.eat(':');
        let at = self.at;
        let letters = self.until(&[',', '/', '{', '}']).trim_end();
        Ok(TermList { terms: terms::split(text, from), letters: (letters, at) })
    }

    pub(super) fn unknown(&self, from: usize, name: &str, nearest: Option<String>) -> Error {
        Error::UnknownEvent {
            list: self.list.to_owned(),
            name: name.to_owned(),
            column: column(self.list, from),
            nearest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::one;
    use super::super::testing::parsed;
    use super::super::testing::refused;
    use crate::perfdata::AttrFlags;

    use super::*;

    #[track_caller]
    fn check(list: &str, want: &[(&str, u32, u64)]) {
        let events = parsed(list);
        let got: Vec<_> =
            events.iter().map(|it| (it.name.as_str(), it.attr.kind, it.attr.config)).collect();
        assert_eq!(got, want);
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
    fn an_unknown_name_points_at_its_column_and_its_neighbour() {
        refused(
            "faults,cpu-clck",
            "no event is called `cpu-clck`, at column 8 of `faults,cpu-clck`",
            Some("cpu-clock"),
        );
        let list = "{cs,zzzzzzzzzz}";
        refused(list, "no event is called `zzzzzzzzzz`, at column 5 of `{cs,zzzzzzzzzz}`", None);
    }

    #[test]
    fn a_modifier_stands_once_and_is_known() {
        refused(
            "cs,cpu-clock:uu",
            "modifier `u` stands twice, again at column 15 of `cs,cpu-clock:uu`",
            None,
        );
        refused("cpu-clock:z", "`z` at column 11 of `cpu-clock:z` is no event modifier", None);
        refused("{cs,faults}:z", "`z` at column 13 of `{cs,faults}:z` is no event modifier", None);
        refused("cs/period=1/z", "`z` at column 13 of `cs/period=1/z` is no event modifier", None);
    }

    #[test]
    fn nothing_between_commas_is_missed() {
        refused("cs,,faults", "an event is missing at column 4 of `cs,,faults`", None);
        refused("", "an event is missing at column 1 of ``", None);
        refused("{}", "an event is missing at column 2 of `{}`", None);
        refused("cs,", "an event is missing at column 4 of `cs,`", None);
    }

    #[test]
    fn braces_come_in_pairs() {
        refused("cs,{faults", "`{` at column 4 of `cs,{faults` is never closed", None);
        refused("cs}", "`}` at column 3 of `cs}` is out of place", None);
        refused("{cs,{faults}}", "an event is missing at column 5 of `{cs,{faults}}`", None);
    }

    #[test]
    fn a_group_has_a_leader_members_and_modifiers_of_its_own() {
        let events = parsed("faults,{cpu-clock:u,cs/period=5/}:SH , minor-faults");
        let places: Vec<_> = events.iter().map(|it| it.place.clone()).collect();
        let leader = Place::Leader { name: None, is_weak: false };
        assert_eq!(places, [Place::Alone, leader, Place::Member, Place::Alone]);
        let names: Vec<_> = events.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["faults", "cpu-clock:u", "cs/period=5/", "minor-faults"]);
        assert!(events[1].terms.reads_group && events[2].terms.reads_group);
        assert!(events[1].attr.flags.contains(AttrFlags::EXCLUDE_KERNEL));
        assert!(events[2].attr.flags == AttrFlags::EXCLUDE_GUEST);
        assert!(!events[3].terms.reads_group);
    }

    #[test]
    fn a_group_may_have_a_name_and_one_event_is_none() {
        for list in ["mine{cs,faults}:W", "mine:{cs,faults}:W"] {
            let name = Some("mine".to_owned());
            assert_eq!(parsed(list)[0].place, Place::Leader { name, is_weak: true }, "{list}");
        }
        let one = one("{cs}:S");
        assert_eq!((one.place, one.terms.reads_group), (Place::Alone, true));
    }
}
