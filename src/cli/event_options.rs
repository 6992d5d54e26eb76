//! `-e`, `--filter` and `--exclude-perf`, whose order matters.

use clap::Arg;
use clap::ArgAction;
use clap::ArgMatches;

use crate::events;
use crate::events::Event;
use crate::events::Machine;
use crate::events::filter::BadFilter;
use crate::host::pmus::Pmus;
use crate::host::tracefs::Tracefs;
use crate::record;
use crate::record::Events;
use crate::record::FunctionsOfFiles;

use super::advice;
use super::message::Failure;

/// The options in the order in which they were typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct EventOptions(Vec<EventOption>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum EventOption {
    List(String),
    Filter(String),
    ExcludeRecorder,
}

const LIST: &str = "event";
const FILTER: &str = "filter";
const EXCLUDE: &str = "exclude-perf";

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
            "Take of the tracepoints of the last `-e` what fits, as `prev_pid > 0 && \
             prev_comm ~ \"sh*\"`",
        );
        let exclude = Arg::new(EXCLUDE).long(EXCLUDE).alias("exclude-self");
        let exclude = exclude.num_args(0).default_missing_value("").action(ArgAction::Append);
        let exclude = exclude
            .help("Leave out what the recorder itself does, of the tracepoints of the last `-e`");
        command.arg(list).arg(filter).arg(exclude)
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
        all.sort_by_key(|it| it.0);
        Ok(Self(all.into_iter().map(|it| it.1).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl EventOptions {
    /// What is meant by them on this machine.
    pub(super) fn events(&self) -> Result<Events, Failure> {
        let (tracefs, pmus) = (Tracefs::default(), Pmus::default());
        let functions = &FunctionsOfFiles;
        let machine = Machine { tracepoints: &tracefs, pmus: &pmus, functions };
        self.parse(machine, &|event, filter| record::check_filter(&tracefs, event, filter))
    }

    fn parse(
        &self,
        machine: Machine<'_>,
        check: &dyn Fn(&str, &str) -> Result<(), BadFilter>,
    ) -> Result<Events, Failure> {
        let mut all: Vec<Event> = Vec::new();
        // Where the events of the last list begin.
        let mut last = 0;
        for option in &self.0 {
            match option {
                EventOption::List(list) => {
                    last = all.len();
                    all.extend(events::parse(list, machine).map_err(|it| not_parsed(&it))?);
                }
                EventOption::Filter(filter) => {
                    for event in tracepoints("--filter", &mut all, last)? {
                        check(&event.name, filter).map_err(|it| bad_filter(&event.name, &it))?;
                        event.filters.texts.push(filter.clone());
                    }
                }
                EventOption::ExcludeRecorder => {
                    for event in tracepoints("--exclude-perf", &mut all, last)? {
                        event.filters.excludes_recorder = true;
                    }
                }
            }
        }
        Ok(if all.is_empty() { Events::Default } else { Events::Named(all) })
    }
}

/// The events from `first` on, which have to be tracepoints.
fn tracepoints<'a>(
    option: &str,
    events: &'a mut [Event],
    first: usize,
) -> Result<&'a mut [Event], Failure> {
    let events = events.get_mut(first..).unwrap_or_default();
    if events.is_empty() {
        let failure = Failure::new(format!("`{option}` has no event to filter"));
        return Err(failure.hint(format!("give `{option}` after the `-e` that it is for")));
    }
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
    match advice::on_events(error) {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn bad_filter(event: &str, error: &BadFilter) -> Failure {
    let failure = Failure::new(format!("cannot filter `{event}`")).cause(error.to_string());
    match &error.nearest {
        Some(nearest) => failure.hint(format!("the nearest field is `{nearest}`")),
        None => failure,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use clap::Parser;

    use super::*;
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
        let machine = Machine { tracepoints: &Small, pmus: &Small, functions: &Small };
        let check = |_: &str, filter: &str| match filter {
            "bad" => Err(BadFilter {
                filter: filter.to_owned(),
                what: "x".to_owned(),
                column: 1,
                nearest: Some("pid".to_owned()),
            }),
            _ => Ok(()),
        };
        line.options.parse(machine, &check).map_err(|it| it.to_string())
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
            parsed(&["--filter", "p"]).unwrap_err(),
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
    fn without_events_there_are_the_usual_ones() {
        assert_eq!(parsed(&["ls"]), Ok(Events::Default));
    }
}
