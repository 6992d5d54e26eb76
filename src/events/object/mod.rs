//! The programs of a BPF object file as events: `FILE.bpf.o[:PROGRAM[,PROGRAM]][/TERMS/]`.
//!
//! Each program that is named, or each that there is, becomes an event under its own name, and so
//! does each map through which the programs write samples of their own. The section that a program
//! stands in says where it runs; see [`Section`].

mod section;
mod settings;

pub use section::Hook;
pub use section::KNOWN as KNOWN_SECTIONS;
pub use section::Place;
pub use section::Section;
pub use settings::Assign;
pub use settings::Setting;

use std::fmt;
use std::sync::Arc;

use super::Error;
use super::Event;
use super::Probe;
use super::column;
use super::list::Draft;
use super::list::Parser;
use super::list::TermList;
use super::modifiers;
use super::modifiers::Modifiers;
use super::names;
use super::probe;
use super::terms;
use super::terms::Term;
use crate::perfdata::Attr;

/// An object, as whoever looked into it found it; its events share it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Bytes(pub Arc<[u8]>);

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bytes").field("len", &self.0.len()).finish_non_exhaustive()
    }
}

/// What an object file has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// The object itself: what stands in the file, or what was made of it.
    pub bytes: Bytes,
    /// The name of each program, and the section that it stands in.
    pub programs: Vec<(String, String)>,
    /// The names of the maps through which programs write samples.
    pub outputs: Vec<String>,
}

/// What of an object file an event is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfObject {
    /// The file, as it was named.
    pub path: String,
    /// The object.
    pub bytes: Bytes,
    /// What is set before the programs are loaded.
    pub settings: Vec<Setting>,
    /// Every program of the file that is an event, in the order of the file: they are loaded together.
    pub programs: Vec<String>,
    /// The program, where the event is one.
    pub program: Option<Section>,
    /// The map whose samples come under this event.
    pub output: Option<String>,
}

/// Makes one object of events of the same file that is set up alike, however many lists named it: its
/// programs share their maps, and each map's samples come under the first event that has them.
pub fn join(events: &mut Vec<Event>) {
    let mut objects: Vec<OfObject> = Vec::new();
    let mut outputs: Vec<(usize, String)> = Vec::new();
    let mut number = |of: &OfObject| {
        let is_it = |it: &OfObject| (&it.path, &it.settings) == (&of.path, &of.settings);
        let known = objects.iter().position(is_it);
        let number = known.unwrap_or(objects.len());
        if known.is_none() {
            objects.push(OfObject { programs: Vec::new(), ..of.clone() });
        }
        if let Some(it) = objects.get_mut(number) {
            for program in &of.programs {
                if !it.programs.contains(program) {
                    it.programs.push(program.clone());
                }
            }
        }
        number
    };
    events.retain_mut(|event| {
        let Some(of) = &mut event.object else { return true };
        let number = number(of);
        let Some(map) = of.output.clone() else { return true };
        if outputs.contains(&(number, map.clone())) {
            of.output = None;
            return of.program.is_some();
        }
        outputs.push((number, map));
        true
    });
    for of in events.iter_mut().filter_map(|it| it.object.as_mut()) {
        let all = objects.iter().find(|it| (&it.path, &it.settings) == (&of.path, &of.settings));
        of.programs = all.map(|it| it.programs.clone()).unwrap_or_default();
    }
}

/// The endings of files that are taken for objects, or for the source of one.
const ENDINGS: [&str; 2] = [".o", ".c"];

/// How much of `rest` names an object file, in bytes; 0 if it does not.
pub(super) fn path_len(rest: &str) -> usize {
    // An event's own terms have `=`, and a group's events are told apart by commas.
    let limit = rest.find(['=', ',', '{', '}', ' ']).unwrap_or(rest.len());
    let head = rest.get(..limit).unwrap_or_default();
    let is_end = |at: &usize| {
        let after = rest.get(*at..).and_then(|it| it.chars().next());
        after.is_none_or(|it| matches!(it, ':' | '/' | ',' | '{' | '}' | ' '))
    };
    let ends = ENDINGS.iter().flat_map(|ending| {
        head.match_indices(ending).map(|(at, _)| at + ending.len()).collect::<Vec<_>>()
    });
    // A folder may have such a name, too: the last file of the path is meant. What follows a slash
    // there are terms, which have no such ending but in values, after `=`.
    let end = ends.filter(is_end).max().unwrap_or(0);
    let has_name = rest.get(..end).is_some_and(|it| !ENDINGS.contains(&it) && !it.contains(':'));
    if has_name { end } else { 0 }
}

/// The events of the object file whose name takes up `path_len` bytes at the parser's place.
pub(super) fn parse(
    parser: &mut Parser<'_>,
    path_len: usize,
    drafts: &mut Vec<Draft>,
) -> Result<(), Error> {
    let list = parser.list;
    let path = parser.rest().get(..path_len).unwrap_or_default();
    parser.at += path_len;
    let contents = parser.machine.objects.contents(path);
    let contents = contents.map_err(|source| Error::Object { path: path.to_owned(), source })?;
    let chosen = chosen(parser, path, &contents)?;
    let slashed = if parser.rest().starts_with('/') {
        parser.terms()?
    } else {
        TermList { terms: Vec::new(), letters: ("", parser.at) }
    };
    let (letters, letters_at) = slashed.letters;
    let modifiers = modifiers::parse(Modifiers::default(), list, letters, letters_at)?;
    let mut settings = Vec::new();
    let mut of_events = Vec::new();
    for term in slashed.terms {
        match Setting::parse(list, &term)? {
            Some(setting) => settings.push(setting),
            None => of_events.push(term),
        }
    }
    let programs: Vec<String> = chosen.iter().map(|it| it.0.clone()).collect();
    let of = |program: Option<Section>, output: Option<String>| OfObject {
        path: path.to_owned(),
        bytes: contents.bytes.clone(),
        settings: settings.clone(),
        programs: programs.clone(),
        program,
        output,
    };
    let mut outputs = contents.outputs.into_iter();
    // What the only program writes that has no event of its own is what it samples.
    let mut only = if let [(_, section)] = &chosen[..]
        && section.hook() == Hook::Link
    {
        outputs.next()
    } else {
        None
    };
    for (name, section) in chosen {
        let (attr, own_modifiers, probe) = attr(parser, &name, &section, &of_events)?;
        let modifiers = if letters.is_empty() { own_modifiers } else { modifiers };
        let mut draft = Draft::new(name, attr, modifiers);
        draft.probe = probe;
        draft.is_usual = section == Section::PerfEvent && event_term(&of_events).is_none();
        draft.object = Some(of(Some(section), only.take()));
        apply(list, path, &of_events, &mut draft)?;
        drafts.push(draft);
    }
    for map in outputs {
        let mut draft = Draft::new(map.clone(), bpf_output(), Modifiers::default());
        draft.object = Some(of(None, Some(map)));
        apply(list, path, &of_events, &mut draft)?;
        drafts.push(draft);
    }
    Ok(())
}

/// The programs that are named after the file, or all that it has.
fn chosen(
    parser: &mut Parser<'_>,
    path: &str,
    contents: &Contents,
) -> Result<Vec<(String, Section)>, Error> {
    let list = parser.list;
    let sectioned = |name: &str, section: &str| match Section::parse(section) {
        Some(known) => Ok((name.to_owned(), known)),
        None => Err(Error::UnknownSection {
            path: path.to_owned(),
            program: name.to_owned(),
            section: section.to_owned(),
        }),
    };
    if contents.programs.is_empty() {
        return Err(Error::NoPrograms { path: path.to_owned() });
    }
    if !parser.eat(':') {
        return contents.programs.iter().map(|(name, section)| sectioned(name, section)).collect();
    }
    let mut chosen: Vec<(String, Section)> = Vec::new();
    loop {
        let at = parser.at;
        let name = parser.until(&[',', '/', '{', '}']).trim();
        let found = contents.programs.iter().find(|it| it.0 == name);
        match found {
            Some((name, section)) => {
                if chosen.iter().all(|it| it.0 != *name) {
                    chosen.push(sectioned(name, section)?);
                }
            }
            // The next event of the list.
            None if !chosen.is_empty() => {
                parser.at = at - 1;
                return Ok(chosen);
            }
            None => {
                let all = contents.programs.iter().map(|it| it.0.as_str());
                return Err(Error::UnknownProgram {
                    list: list.to_owned(),
                    path: path.to_owned(),
                    program: name.to_owned(),
                    column: column(list, at),
                    known: all.map(str::to_owned).collect(),
                });
            }
        }
        if !parser.eat(',') {
            return Ok(chosen);
        }
    }
}

/// What opens the event that a program sits on.
fn attr(
    parser: &Parser<'_>,
    name: &str,
    section: &Section,
    terms: &[Term<'_>],
) -> Result<(Attr, Modifiers, Option<Probe>), Error> {
    let list = parser.list;
    let plain = |attr| (attr, Modifiers::default(), None);
    match section {
        Section::PerfEvent => {
            let Some(term) = event_term(terms) else {
                let (kind, config) = (names::KIND_HARDWARE, names::HARDWARE_CYCLES);
                return Ok((Attr { kind, config, ..Attr::default() }, Modifiers::BEST, None));
            };
            let wanted = term.value.unwrap_or_default();
            match names::find(wanted) {
                Some((kind, config)) => Ok(plain(Attr { kind, config, ..Attr::default() })),
                None => Err(terms::bad_value(list, term, "an event such as `cpu-clock`")),
            }
        }
        Section::Tracepoint { system, event } => {
            let whole = format!("{system}:{event}");
            let failed = |source| Error::Tracepoint { name: whole.clone(), source };
            match parser.machine.tracepoints.id(system, event).map_err(failed)? {
                Some(config) => {
                    let kind = names::KIND_TRACEPOINT;
                    Ok(plain(Attr { kind, config, ..Attr::default() }))
                }
                None => Err(Error::NoHook {
                    program: name.to_owned(),
                    section: section.to_string(),
                    hook: format!("tracepoint `{whole}`"),
                }),
            }
        }
        Section::Probe { place, offset, is_return } => {
            let probed = probe::Probed { place, offset: *offset, is_return: *is_return };
            let (attr, probe) = probe::of_program(parser.machine, name, section, &probed)?;
            Ok((attr, Modifiers::default(), Some(probe)))
        }
        Section::Linked { .. } => Ok(plain(bpf_output())),
    }
}

/// The event through which a program writes.
fn bpf_output() -> Attr {
    let (kind, config) = (names::KIND_SOFTWARE, names::SOFTWARE_BPF_OUTPUT);
    Attr { kind, config, ..Attr::default() }
}

/// The term that says which event a program of the kind `perf_event` sits on.
fn event_term<'a>(terms: &'a [Term<'a>]) -> Option<&'a Term<'a>> {
    terms.iter().find(|it| it.name == "event")
}

/// What the terms that every event has say of `draft`.
fn apply(list: &str, path: &str, terms: &[Term<'_>], draft: &mut Draft) -> Result<(), Error> {
    for term in terms.iter().filter(|it| it.name != "event") {
        // A program's name is its event's.
        if term.name == "name" || !terms::common(list, term, draft)? {
            let known = terms::OF_ALL.into_iter().filter(|it| *it != "name");
            let known = known.chain(["event", "vars.", "map:"]);
            return Err(terms::unknown(list, path, term, known));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Rate;
    use super::super::testing::parsed;
    use super::super::testing::parsed_with_kprobes;
    use super::super::testing::refused;
    use super::*;

    /// Name, kind and configuration of each event, its program's section and its output.
    #[track_caller]
    fn check(list: &str, want: &[(&str, u32, u64, &str, &str)]) {
        let events = parsed(list);
        let text = |it: Option<String>| it.unwrap_or_default();
        let got: Vec<_> = events
            .iter()
            .map(|it| {
                let object = it.object.as_ref();
                let section = object.and_then(|it| it.program.as_ref()).map(Section::to_string);
                let output = object.and_then(|it| it.output.clone());
                (&*it.name, it.attr.kind, it.attr.config, text(section), text(output))
            })
            .collect();
        let want: Vec<_> =
            want.iter().map(|it| (it.0, it.1, it.2, it.3.to_owned(), it.4.to_owned())).collect();
        assert_eq!(got, want, "{list}");
    }

    const CLOCK: (&str, u32, u64, &str, &str) = ("clock", 0, 0, "perf_event", "");
    const SWITCH: (&str, u32, u64, &str, &str) =
        ("switch", 2, 301, "tracepoint/sched/sched_switch", "");
    const TOOL: (&str, u32, u64, &str, &str) = ("tool", 7, 1, "uretprobe/tool:main+0x10", "");
    const WRITER: (&str, u32, u64, &str, &str) = ("writer", 1, 10, "raw_tp/sys_enter", "");
    const STDOUT: (&str, u32, u64, &str, &str) = ("__bpf_stdout__", 1, 10, "", "__bpf_stdout__");

    #[test]
    fn each_program_is_an_event_and_so_is_what_they_write_into() {
        check("d.o/many.bpf.o", &[CLOCK, SWITCH, TOOL, WRITER, STDOUT]);
        check("d.o/many.bpf.o:switch,clock", &[SWITCH, CLOCK, STDOUT]);
        check("./one.bpf.o", &[("writer", 1, 10, "raw_tp/sys_enter", "__bpf_stdout__")]);
    }

    #[test]
    fn names_after_the_colon_are_programs_as_long_as_they_are_known() {
        let cs = ("cs", 1, 3, "", "");
        check("d.o/many.bpf.o:clock,cs", &[CLOCK, STDOUT, cs]);
        check("cs,d.o/many.bpf.o:tool/period=5/,cs", &[cs, TOOL, STDOUT, cs]);
        let events = parsed("d.o/many.bpf.o:clock,switch/freq=7,vars.x=1,map:m.value[0,2]=3/");
        let object = |n: usize| events[n].object.clone().unwrap();
        assert_eq!(events[1].terms.rate, Some(Rate::Hertz(7)));
        assert_eq!((object(0).settings.len(), object(1).settings.len()), (2, 2));
        assert_eq!(object(0).programs, ["clock", "switch"]);
    }

    #[test]
    fn a_program_sits_on_the_usual_event_or_on_the_one_that_is_given() {
        let events = parsed("d.o/many.bpf.o:clock");
        assert!(events[0].is_usual && events[0].attr.precise_ip() == 3);
        let events = parsed("d.o/many.bpf.o:clock/event=page-faults/");
        assert!(!events[0].is_usual && events[0].attr.precise_ip() == 0);
        assert_eq!((events[0].attr.kind, events[0].attr.config), (1, 2));
    }

    #[test]
    fn a_probe_is_of_the_file_that_its_name_is_found_as() {
        let events = parsed("d.o/many.bpf.o:tool");
        assert_eq!(events[0].attr.config2, 0x1140);
        assert_eq!(events[0].probe, Some(Probe { path: "/bin/tool".to_owned() }));
    }

    #[test]
    fn a_kprobe_is_a_function_by_name_where_the_kernel_has_them() {
        let events = parsed_with_kprobes("kernel.o");
        let of = |n: usize| (events[n].attr.kind, events[n].attr.config, events[n].attr.config2);
        assert_eq!((of(0), of(1)), ((6, 0, 4), (6, 1, 0)));
        assert_eq!(events[0].probe, Some(Probe { path: "vfs_read".to_owned() }));
        let hook = |n: usize| events[n].object.clone().unwrap().program.unwrap().hook();
        assert_eq!((hook(0), hook(1), hook(2)), (Hook::Event, Hook::Event, Hook::Link));
    }

    #[test]
    fn lists_that_name_one_object_share_it() {
        let lists =
            ["d.o/many.bpf.o:clock", "d.o/many.bpf.o:writer", "d.o/many.bpf.o:clock/vars.x=1/"];
        let mut events: Vec<Event> = lists.into_iter().flat_map(parsed).collect();
        join(&mut events);
        let got: Vec<_> = events
            .iter()
            .map(|it| {
                let of = it.object.as_ref().unwrap();
                (&*it.name, of.programs.join(" "), of.output.is_some())
            })
            .collect();
        let both = "clock writer".to_owned();
        let want = [
            ("clock", both.clone(), false),
            ("__bpf_stdout__", both.clone(), true),
            ("writer", both, false),
            ("clock", "clock".to_owned(), false),
            ("__bpf_stdout__", "clock".to_owned(), true),
        ];
        assert_eq!(got, want);
    }

    #[test]
    fn what_an_object_does_not_have_is_told() {
        refused(
            "cs,d.o/many.bpf.o:clok",
            "`d.o/many.bpf.o` has no program `clok`, at column 19 of `cs,d.o/many.bpf.o:clok`",
            None,
        );
        refused("gone.bpf.o", "cannot take BPF programs from `gone.bpf.o`", None);
        refused("none.o", "`none.o` has no BPF programs", None);
        refused(
            "odd.o",
            "program `net` of `odd.o` is in section `xdp`, which leads to no event",
            None,
        );
        refused(
            "odd.o:gone",
            "program `gone` is for `tracepoint/sched/gone`, and this kernel has no tracepoint \
             `sched:gone`",
            None,
        );
        refused("odd.o:kp", "program `kp` is for `kprobe/f`, and this kernel has no kprobes", None);
        refused(
            "d.o/many.bpf.o:clock/perod=1/",
            "`perod` at column 22 of `d.o/many.bpf.o:clock/perod=1/` is no term of \
             `d.o/many.bpf.o`",
            Some("period"),
        );
    }

    #[test]
    fn only_a_path_that_ends_as_objects_do_is_one() {
        for (rest, want) in [
            ("a.bpf.o", 7),
            ("./x/a.o:p/period=1/", 7),
            ("a.o/b.bpf.c,cs", 11),
            ("a.o/b.o/vars.x=c.o/", 7),
            ("a.out", 0),
            (".o", 0),
            ("cpu/event=0x3c,name=a.c/", 0),
            ("cs,a.o", 0),
            ("syscalls:a.o", 0),
        ] {
            assert_eq!(path_len(rest), want, "{rest}");
        }
    }
}
