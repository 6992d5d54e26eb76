//! `-e`, `--filter`, `--exclude-perf` and `-G`, whose order matters.

use std::path::PathBuf;

use clap::Arg;
use clap::ArgAction;
use clap::ArgMatches;

use crate::bpf::source::Options;
use crate::events;
use crate::events::Event;
use crate::events::Machine;
use crate::events::filter::BadFilter;
use crate::events::sample_filter;
use crate::host::cgroups;
use crate::host::pmus::Pmus;
use crate::host::tracefs::Tracefs;
use crate::record;
use crate::record::Events;
use crate::record::FunctionsOfFiles;
use crate::record::ObjectFiles;
use crate::record::Target;

use super::advice;
use super::advice::Means;
use super::message;
use super::message::Failure;

/// The options in the order in which they were typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct EventOptions(Vec<EventOption>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum EventOption {
    List(String),
    Filter(String),
    ExcludeRecorder,
    Cgroups(String),
}

const LIST: &str = "event";
const FILTER: &str = "filter";
const EXCLUDE: &str = "exclude-perf";
const CGROUPS: &str = "cgroup";

impl clap::Args for EventOptions {
    fn augment_args(command: clap::Command) -> clap::Command {
        let list =
            Arg::new(LIST).short('e').long(LIST).value_name("LIST").action(ArgAction::Append);
        let list = list.help(
            "Sample these events: names, `system:tracepoint`, `pmu/term=value/`, `rNNN`, \
             `mem:ADDR/LEN:rwx`, `uprobe:PATH:FUNCTION`, each with modifiers such as `:u`, \
             separated by commas, in groups `{a,b}`; see `bpfperf list`",
        );
        let filter = Arg::new(FILTER).long(FILTER).value_name("FILTER").action(ArgAction::Append);
        let filter = filter.help(
            "Keep of the samples of the last `-e` what fits, as `uid == 1000, kernel || bpf_prog`; \
             of tracepoints, as `prev_pid > 0 && prev_comm ~ \"sh*\"`",
        );
        let exclude = Arg::new(EXCLUDE).long(EXCLUDE).alias("exclude-self");
        let exclude = exclude.num_args(0).default_missing_value("").action(ArgAction::Append);
        let exclude = exclude
            .help("Leave out what the recorder itself does, of the tracepoints of the last `-e`");
        let cgroups = Arg::new(CGROUPS).short('G').long(CGROUPS).value_name("NAME,..");
        let cgroups = cgroups.action(ArgAction::Append).help(
            "Let the first event watch the tasks of the first cgroup alone, the second those of the \
             second; one name is for all events before it, no name between commas for no cgroup",
        );
        command.arg(list).arg(filter).arg(exclude).arg(cgroups)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for EventOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut all: Vec<(usize, EventOption)> = Vec::new();
        let mut add = |id: &str, make: &dyn Fn(&String) -> EventOption| {
            let values = matches.get_many::<String>(id).into_iter().flatten();
            let places = matches.indices_of(id).into_iter().flatten();
            all.extend(places.zip(values.map(make)));
        };
        add(LIST, &|it| EventOption::List(it.clone()));
        add(FILTER, &|it| EventOption::Filter(it.clone()));
        add(EXCLUDE, &|_| EventOption::ExcludeRecorder);
        add(CGROUPS, &|it| EventOption::Cgroups(it.clone()));
        all.sort_by_key(|it| it.0);
        Ok(Self(all.into_iter().map(|it| it.1).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The events of a list, on this machine.
pub(super) fn parse_list(list: &str) -> Result<Vec<Event>, Failure> {
    let (tracefs, pmus) = (Tracefs::default(), Pmus::default());
    let functions = &FunctionsOfFiles;
    let objects = &ObjectFiles::default();
    let machine = Machine { tracepoints: &tracefs, pmus: &pmus, functions, objects };
    let events = events::parse(list, machine).map_err(|it| not_parsed(&it));
    tell(objects);
    events
}

/// Passes on what the compiler of sources has said: it names files and lines, as its users know it.
fn tell(objects: &ObjectFiles) {
    let said = objects.said();
    if !said.is_empty() {
        message::say(said.trim_end());
    }
}

impl EventOptions {
    /// What is meant by them on this machine.
    ///
    /// BPF programs are compiled from source as `source` says.
    pub(super) fn events(&self, target: &Target, source: Options) -> Result<Events, Failure> {
        let (tracefs, pmus) = (Tracefs::default(), Pmus::default());
        let functions = &FunctionsOfFiles;
        let objects = &ObjectFiles::new(source);
        let machine = Machine { tracepoints: &tracefs, pmus: &pmus, functions, objects };
        let check = |event: &str, filter: &str| record::check_filter(&tracefs, event, filter);
        let checks = Checks { filter: &check, cgroup: &cgroup, cgroup_id: &cgroup_id };
        let events = self.parse(machine, checks);
        tell(objects);
        let events = events?;
        let has_cgroup = match &events {
            Events::Default { cgroup, .. } => cgroup.is_some(),
            Events::Named(events) => events.iter().any(|it| it.cgroup.is_some()),
        };
        if has_cgroup && !target.is_cpus() {
            let failure = Failure::new("a cgroup is watched on CPUs, not on tasks that are named");
            return Err(failure.hint(advice::on_cgroups()));
        }
        Ok(events)
    }

    fn parse(&self, machine: Machine<'_>, checks: Checks<'_>) -> Result<Events, Failure> {
        let mut all: Vec<Event> = Vec::new();
        // Cgroups that came before the events that they are for, and how many came in all.
        let (mut early, mut n_cgroups): (Vec<&str>, usize) = (Vec::new(), 0);
        let mut usual = events::default_event();
        let has_list = self.0.iter().any(|it| matches!(it, EventOption::List(_)));
        // Where the events of the last list begin.
        let mut last = 0;
        for option in &self.0 {
            match option {
                EventOption::List(list) => {
                    last = all.len();
                    all.extend(events::parse(list, machine).map_err(|it| not_parsed(&it))?);
                }
                EventOption::Filter(filter) if !has_list => {
                    give_filter(&mut usual, filter, checks)?;
                }
                EventOption::Filter(filter) => {
                    for event in given("--filter", &mut all, last)? {
                        give_filter(event, filter, checks)?;
                    }
                }
                EventOption::ExcludeRecorder => {
                    for event in tracepoints("--exclude-perf", &mut all, last)? {
                        event.filters.excludes_recorder = true;
                    }
                }
                EventOption::Cgroups(names) if all.is_empty() => early.push(names),
                EventOption::Cgroups(names) => {
                    give_cgroups(names, &mut n_cgroups, &mut all, checks.cgroup)?;
                }
            }
        }
        if !all.is_empty() {
            for names in early {
                give_cgroups(names, &mut n_cgroups, &mut all, checks.cgroup)?;
            }
            return Ok(Events::Named(all));
        }
        for names in early {
            give_cgroups(names, &mut n_cgroups, std::slice::from_mut(&mut usual), checks.cgroup)?;
        }
        let Event { cgroup, filters, .. } = usual;
        Ok(Events::Default { cgroup, filters })
    }
}

/// Whom to ask whether a filter fits its event, and where a cgroup is.
#[derive(Clone, Copy)]
struct Checks<'a> {
    filter: &'a dyn Fn(&str, &str) -> Result<(), BadFilter>,
    cgroup: &'a dyn Fn(&str) -> Result<PathBuf, Failure>,
    cgroup_id: &'a dyn Fn(&str) -> Result<u64, String>,
}

/// Gives `event` a filter of its kind: a tracepoint the kernel's, any other one of samples.
fn give_filter(event: &mut Event, text: &str, checks: Checks<'_>) -> Result<(), Failure> {
    let refused =
        |why: &str| Failure::new(format!("cannot filter `{}`", event.name)).cause(why.to_owned());
    if events::is_bpf_output(&event.attr) {
        let failure = refused("what BPF programs send passes no filter");
        return Err(failure.hint("let the program send only what is wanted"));
    }
    if event.object.is_some() {
        let failure = refused("its BPF program decides what is kept");
        return Err(failure.hint("let that program decide, or set it up by `vars.NAME=VALUE`"));
    }
    let samples = sample_filter::parse(text, checks.cgroup_id);
    if event.attr.kind != events::KIND_TRACEPOINT {
        event.filters.samples.push(samples.map_err(|it| bad_filter(&event.name, &it, "term"))?);
        return Ok(());
    }
    let text = match ((checks.filter)(&event.name, text), samples) {
        (Ok(()), _) => text.to_owned(),
        // What was meant for samples may do for a tracepoint.
        (Err(_), Ok(expr)) => sample_filter::kernel_text(&expr).map_err(|it| refused(&it))?,
        (Err(error), Err(_)) => return Err(bad_filter(&event.name, &error, "field")),
    };
    event.filters.texts.push(text);
    Ok(())
}

/// Gives each of `names` to the next event, of which `n_given` had their turn, none for an empty
/// one; the only name so far is all events'.
///
/// Source: `parse_cgroups()` in `tools/perf/util/cgroup.c`.
fn give_cgroups(
    names: &str,
    n_given: &mut usize,
    events: &mut [Event],
    find: &dyn Fn(&str) -> Result<PathBuf, Failure>,
) -> Result<(), Failure> {
    for name in names.split(',') {
        if !name.is_empty() {
            let event = events.get_mut(*n_given).ok_or_else(|| {
                let what = format!("the cgroup `{name}` has no event that it is for");
                Failure::new(what)
                    .cause(format!("it is number {}, and there are fewer events", *n_given + 1))
            })?;
            event.cgroup = Some(find(name)?);
        }
        *n_given += 1;
    }
    if let (1, Some((first, others))) = (*n_given, events.split_first_mut()) {
        for other in others {
            other.cgroup.clone_from(&first.cgroup);
        }
    }
    Ok(())
}

fn cgroup(name: &str) -> Result<PathBuf, Failure> {
    cgroups::find(name).map_err(|it| Failure::because(format!("no cgroup is called `{name}`"), &it))
}

fn cgroup_id(name: &str) -> Result<u64, String> {
    cgroups::id(name).map_err(|it| match std::error::Error::source(&it) {
        Some(why) => format!("no cgroup is called `{name}`: {it}: {why}"),
        None => format!("no cgroup is called `{name}`: {it}"),
    })
}

/// The events from `first` on, of which there have to be some.
fn given<'a>(
    option: &str,
    events: &'a mut [Event],
    first: usize,
) -> Result<&'a mut [Event], Failure> {
    let events = events.get_mut(first..).unwrap_or_default();
    if events.is_empty() {
        let failure = Failure::new(format!("`{option}` has no event to filter"));
        return Err(failure.hint(format!("give `{option}` after the `-e` that it is for")));
    }
    Ok(events)
}

/// The events from `first` on, which have to be tracepoints.
fn tracepoints<'a>(
    option: &str,
    events: &'a mut [Event],
    first: usize,
) -> Result<&'a mut [Event], Failure> {
    let events = given(option, events, first)?;
    let is_other = |it: &&Event| it.attr.kind != events::KIND_TRACEPOINT;
    match events.iter().find(is_other) {
        Some(other) => {
            let what = format!("`{option}` filters tracepoints, and `{}` is none", other.name);
            Err(Failure::new(what).hint("give tracepoints an `-e` of their own"))
        }
        None => Ok(events),
    }
}

fn not_parsed(error: &events::Error) -> Failure {
    let what = error.to_string();
    let failure = match std::error::Error::source(error) {
        Some(cause) => Failure::because(what, cause),
        None => Failure::new(what),
    };
    match advice::on_events(error, Means::look()) {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// `what` is what a filter is made of.
fn bad_filter(event: &str, error: &BadFilter, what: &str) -> Failure {
    let failure = Failure::new(format!("cannot filter `{event}`")).cause(error.to_string());
    match &error.nearest {
        Some(nearest) => failure.hint(format!("the nearest {what} is `{nearest}`")),
        None => failure,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use clap::Parser;

    use super::*;
    use crate::events::Filters;
    use crate::events::object::Contents;
    use crate::units::Cpu;
    use crate::units::FileOffset;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: EventOptions,
        #[arg(trailing_var_arg = true)]
        command: Vec<String>,
    }

    /// A machine with one tracepoint.
    struct Small;

    impl events::Tracepoints for Small {
        fn id(&self, system: &str, _: &str) -> io::Result<Option<u64>> {
            Ok((system == "sched").then_some(5))
        }

        fn all(&self) -> io::Result<Vec<(String, String)>> {
            Ok(Vec::new())
        }
    }

    impl events::Pmus for Small {
        fn names(&self) -> io::Result<Vec<String>> {
            Ok(Vec::new())
        }

        fn kind(&self, _: &str) -> io::Result<Option<u32>> {
            Ok(None)
        }

        fn formats(&self, _: &str) -> io::Result<Vec<(String, String)>> {
            Ok(Vec::new())
        }

        fn events(&self, _: &str) -> io::Result<Vec<(String, String)>> {
            Ok(Vec::new())
        }

        fn cpus(&self, _: &str) -> io::Result<Option<Vec<Cpu>>> {
            Ok(None)
        }
    }

    impl events::Objects for Small {
        fn contents(&self, _: &str) -> Result<Contents, Box<dyn std::error::Error + Send + Sync>> {
            Ok(Contents::default())
        }

        fn find(&self, name: &str) -> String {
            name.to_owned()
        }
    }

    impl events::Functions for Small {
        fn offset(&self, _: &str, _: &str) -> io::Result<Option<FileOffset>> {
            Ok(None)
        }

        fn names(&self, _: &str) -> io::Result<Vec<String>> {
            Ok(Vec::new())
        }
    }

    fn parsed(words: &[&str]) -> Result<Events, String> {
        let words = std::iter::once("record").chain(words.iter().copied());
        let line = Line::try_parse_from(words).unwrap();
        let machine =
            Machine { tracepoints: &Small, pmus: &Small, functions: &Small, objects: &Small };
        let cgroup = |name: &str| match name {
            "bad" => Err(Failure::new("bad")),
            name => Ok(PathBuf::from(format!("/cg/{name}"))),
        };
        let check = |event: &str, filter: &str| match (event, filter) {
            ("sched:bad", _) | (_, "bad") => Err(BadFilter {
                filter: filter.to_owned(),
                what: "x".to_owned(),
                column: 1,
                nearest: Some("pid".to_owned()),
            }),
            _ => Ok(()),
        };
        let cgroup_id = |name: &str| if name == "/a" { Ok(7) } else { Err("bad".to_owned()) };
        let checks = Checks { filter: &check, cgroup: &cgroup, cgroup_id: &cgroup_id };
        line.options.parse(machine, checks).map_err(|it| it.to_string())
    }

    #[test]
    fn a_filter_is_for_the_list_before_it() {
        let words = ["-e", "sched:a", "--filter", "p", "--filter", "q", "-e", "sched:b,sched:c"];
        let Ok(Events::Named(events)) = parsed(&[&words[..], &["--exclude-perf", "ls"]].concat())
        else {
            panic!("no events");
        };
        let filters: Vec<_> = events
            .iter()
            .map(|it| (it.filters.texts.len(), it.filters.excludes_recorder))
            .collect();
        assert_eq!(filters, [(2, false), (0, true), (0, true)]);
    }

    #[test]
    fn what_cannot_be_filtered_is_refused() {
        assert_eq!(
            parsed(&["--filter", "p", "-e", "cs"]).unwrap_err(),
            "error: `--filter` has no event to filter\n\
             hint: give `--filter` after the `-e` that it is for"
        );
        assert_eq!(
            parsed(&["-e", "sched:a,cs", "--exclude-perf"]).unwrap_err(),
            "error: `--exclude-perf` filters tracepoints, and `cs` is none\n\
             hint: give tracepoints an `-e` of their own"
        );
        assert_eq!(
            parsed(&["-e", "sched:a", "--filter", "bad"]).unwrap_err(),
            "error: cannot filter `sched:a`\n  because: x at column 1 of `bad`\n\
             hint: the nearest field is `pid`"
        );
    }

    #[test]
    fn each_event_has_a_filter_of_its_kind() {
        let of = |words: &[&str]| -> Vec<(Vec<String>, usize)> {
            let filters: Vec<Filters> = match parsed(words).unwrap() {
                Events::Named(events) => events.into_iter().map(|it| it.filters).collect(),
                Events::Default { filters, .. } => vec![filters],
            };
            filters.into_iter().map(|it| (it.texts, it.samples.len())).collect()
        };
        let text = |it: &str| vec![it.to_owned()];
        let want = [(vec![], 1), (text("tid == 7"), 0)];
        assert_eq!(of(&["-e", "cs,sched:a", "--filter", "tid == 7"]), want);
        // What is wrong for the kernel is looked at as a filter of samples.
        let want = [(vec![], 1), (text("(common_pid == 7) && (cpu < 2)"), 0)];
        assert_eq!(of(&["-e", "cs,sched:bad", "--filter", "tid == 7, cpu < 2"]), want);
        assert_eq!(of(&["--filter", "user", "--filter", "uid == 1"]), [(vec![], 2)]);
        let want = [(vec![], 1), (vec![], 0)];
        assert_eq!(of(&["-e", "cs", "--filter", "cgroup == /a", "-e", "cs"]), want);
    }

    #[test]
    fn a_filter_that_an_event_cannot_have_is_refused() {
        assert_eq!(
            parsed(&["-e", "cs", "--filter", "perod > 1"]).unwrap_err(),
            "error: cannot filter `cs`\n  because: no term is called `perod` at column 1 of \
             `perod > 1`\nhint: the nearest term is `period`"
        );
        assert_eq!(
            parsed(&["-e", "sched:bad", "--filter", "uid == 1"]).unwrap_err(),
            "error: cannot filter `sched:bad`\n  because: a tracepoint's filter is the kernel's \
             own, which does not know `uid`"
        );
        assert_eq!(
            parsed(&["-e", "bpf-output", "--filter", "uid == 1"]).unwrap_err(),
            "error: cannot filter `bpf-output`\n  because: what BPF programs send passes no filter\n\
             hint: let the program send only what is wanted"
        );
    }

    #[test]
    fn without_events_there_are_the_usual_ones() {
        assert_eq!(
            parsed(&["ls"]),
            Ok(Events::Default { cgroup: None, filters: Filters::default() })
        );
    }

    /// The cgroups of the events, in their order.
    #[track_caller]
    fn check_cgroups(words: &[&str], want: &[Option<&str>]) {
        let events = match parsed(words).unwrap() {
            Events::Named(events) => events.into_iter().map(|it| it.cgroup).collect(),
            Events::Default { cgroup, .. } => vec![cgroup],
        };
        let want: Vec<_> = want.iter().map(|it| it.map(PathBuf::from)).collect();
        assert_eq!(events, want, "{words:?}");
    }

    #[test]
    fn the_nth_cgroup_is_the_nth_events_and_the_only_one_is_everyones() {
        let (a, b) = (Some("/cg/a"), Some("/cg/b"));
        check_cgroups(&["-e", "cs,faults", "-G", "a"], &[a, a]);
        check_cgroups(&["-e", "cs,faults", "-G", "a,b"], &[a, b]);
        check_cgroups(&["-e", "cs,faults", "-G", ",b"], &[None, b]);
        check_cgroups(&["-e", "cs,faults", "-G", "a,"], &[a, None]);
        check_cgroups(&["-e", "cs,faults", "-G", ""], &[None, None]);
        check_cgroups(&["-e", "cs,faults", "-G", "a", "-G", "b"], &[a, b]);
        check_cgroups(&["-e", "cs", "-G", "a", "-e", "faults"], &[a, None]);
        check_cgroups(&["-e", "cs", "-G", "a", "-e", "faults", "-G", "b"], &[a, b]);
        check_cgroups(&["-G", "a", "-e", "cs,faults"], &[a, a]);
        check_cgroups(&["--cgroup", "a"], &[a]);
    }

    #[test]
    fn a_cgroup_that_has_no_event_or_is_not_there_is_refused() {
        assert_eq!(
            parsed(&["-e", "cs", "-G", "a,,b"]).unwrap_err(),
            "error: the cgroup `b` has no event that it is for\n  because: it is number 3, and there are fewer events"
        );
        assert!(parsed(&["-e", "cs", "-G", "bad"]).is_err());
    }
}
