//! `bpfperf report --bpf`: what each BPF program cost.

use std::collections::BTreeMap;
use std::io::Write;

use crate::perfdata::AttrFlags;
use crate::perfdata::FileHeader;
use crate::perfdata::feature::FeatureId;
use crate::perfdata::private::TracepointPrograms;
use crate::profile::Detail;
use crate::profile::Request;
use crate::profile::bill;
use crate::render::bill::Source;
use crate::render::bill::Style;
use crate::render::bill::json;
use crate::render::bill::write;
use crate::replay;
use crate::replay::Asked;
use crate::replay::CodeFiles;
use crate::replay::Index;
use crate::replay::Names;
use crate::replay::Programs;
use crate::replay::Recording;
use crate::replay::resolve;
use crate::replay::resolved::Keep;

use super::input::Input;
use super::message;
use super::message::Failure;

/// What of `bpfperf report` is about BPF programs alone.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag on the command line")]
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// Show what each BPF program cost, a row a program, the most expensive first.
    #[arg(
        long,
        conflicts_with_all = ["sort", "fields", "children", "no_children", "call_graph", "inverted"]
    )]
    bpf: bool,

    /// With --bpf: show each program's metadata, functions, links, maps, pins and holders below its
    /// row.
    #[arg(long, requires = "bpf")]
    details: bool,

    /// With --bpf: show what each program called, the heaviest first.
    #[arg(long, requires = "bpf")]
    callees: bool,

    /// With --bpf: show the lines of each program's source, the heaviest first.
    #[arg(long, requires = "bpf")]
    lines: bool,

    /// With --bpf: print JSON instead of a table.
    #[arg(long, requires = "bpf", conflicts_with_all = ["header", "field_separator"])]
    json: bool,
}

/// A recording that has been gone over once.
#[derive(Clone, Copy)]
pub(super) struct Reading<'a> {
    pub(super) recording: &'a Recording,
    pub(super) index: &'a Index,
    pub(super) input: &'a Input,
    pub(super) names: &'a Names<'a>,
}

impl Args {
    /// Whether programs are what is asked for.
    pub(super) fn is_asked(&self) -> bool {
        self.bpf
    }

    /// Refuses what stands below rows where a separator asks for rows alone.
    pub(super) fn check(&self, separator: Option<&str>) -> Result<(), Failure> {
        let options =
            [(self.details, "--details"), (self.callees, "--callees"), (self.lines, "--lines")];
        let option = options.into_iter().find_map(|(is_asked, it)| is_asked.then_some(it));
        match option.filter(|_| separator.is_some()) {
            None => Ok(()),
            Some(option) => {
                Err(Failure::new(format!("`{option}` cannot be used with `--field-separator`"))
                    .cause("what stands below the row of a program has columns of its own")
                    .hint("`--json` prints all of it for other programs"))
            }
        }
    }

    /// Writes the programs of `reading` to `out`, by the samples that `request` shows, and returns
    /// how many call chains could not be read.
    pub(super) fn write(
        &self,
        reading: &Reading<'_>,
        request: &Request,
        style: &Style,
        cannot_read: &dyn Fn(&replay::Error) -> Failure,
        out: &mut dyn Write,
    ) -> Result<u64, Failure> {
        let Reading { recording, index, input, names } = *reading;
        let programs = Programs::new(recording, index);
        let keep = Keep { stack: true, address: true, ..request.keep() };
        let files = CodeFiles::new(names);
        let resolved = resolve(recording, index, input, &files, None, keep, Asked::default())
            .map_err(|error| cannot_read(&error))?;
        let detail = Detail { callees: self.callees, lines: self.lines };
        let bill = bill(&resolved, &programs, &request.filter, detail)
            .map_err(|error| Failure::because("cannot choose samples by CPU", &error))?;
        let source = Source {
            resolved: &resolved,
            programs: &programs,
            bill: &bill,
            percentage: request.percentage,
            was_followed: was_followed(recording.events.iter().map(|it| it.attr.flags))
                && may_list(recording),
        };
        let style = Style { has_details: self.details, ..style.clone() };
        let written = if self.json {
            json(&source).and_then(|text| writeln!(out, "{text}"))
        } else {
            write(out, &source, &style)
        };
        written.map_err(|error| Failure::because("cannot write the report", &error))?;
        Ok(resolved.n_bad_chains + programs.n_damaged())
    }
}

/// Whether a recording of events with `flags` would tell of a BPF program: one asks for them, and
/// one sees the kernel. Who may not see the kernel may not see the programs of others either.
fn was_followed(flags: impl Iterator<Item = AttrFlags>) -> bool {
    let (mut asks, mut sees_kernel) = (false, false);
    for flags in flags {
        asks |= flags.contains(AttrFlags::KSYMBOL) || flags.contains(AttrFlags::BPF_EVENT);
        sees_kernel |= !flags.contains(AttrFlags::EXCLUDE_KERNEL);
    }
    asks && sees_kernel
}

/// Whether the recorder was let list programs: then a file has a section of them, be it empty. A pipe
/// has it only where there is one.
fn may_list(recording: &Recording) -> bool {
    let is_pipe = matches!(recording.header, FileHeader::Pipe { .. });
    is_pipe || recording.features.iter().any(|it| it.id == FeatureId::BPF_PROG_INFO)
}

/// How many programs of a tracepoint are named.
const MAX_NAMED: usize = 3;

/// Tells of each recorded tracepoint on which programs sat that decide over its samples.
pub(super) fn warn_of_droppers(index: &Index) {
    for line in droppers(index.bpf.tracepoints()) {
        message::warn(&line);
    }
}

/// A line for each tracepoint on which programs sat that decide over its samples, at the start or
/// at the end of the recording.
fn droppers<'t>(tracepoints: impl Iterator<Item = &'t TracepointPrograms>) -> Vec<String> {
    let mut by_event: BTreeMap<&str, (u32, BTreeMap<u32, &str>)> = BTreeMap::new();
    for tracepoint in tracepoints {
        let (n_programs, known) = by_event.entry(&tracepoint.event).or_default();
        *n_programs = tracepoint.n_programs.max(*n_programs);
        let droppers = tracepoint.programs.iter().filter(|it| it.can_drop);
        known.extend(droppers.map(|it| (it.id, it.name.as_str())));
    }
    let line = |(event, (n_programs, known)): (&str, (u32, BTreeMap<u32, &str>))| {
        let n = n_programs.max(u32::try_from(known.len()).unwrap_or(u32::MAX));
        let programs = match n {
            0 => return None,
            1 => "1 BPF program".to_owned(),
            n => format!("{n} BPF programs"),
        };
        let names = known.iter().take(MAX_NAMED).map(|(id, name)| format!("`{name}` (id {id})"));
        let mut names: Vec<String> = names.collect();
        let n_left = known.len() - names.len();
        if n_left != 0 {
            names.push(format!("{n_left} more"));
        }
        let names =
            if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) };
        Some(format!("{programs} on `{event}` may have dropped samples of it, uncounted{names}"))
    };
    by_event.into_iter().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use crate::perfdata::private::Attached;

    use super::*;

    fn tracepoint(
        event: &str,
        n_programs: u32,
        programs: &[(u32, &str, bool)],
    ) -> TracepointPrograms {
        let attached = |&(id, name, can_drop): &(u32, &str, bool)| Attached {
            id,
            name: name.to_owned(),
            can_drop,
            ..Attached::default()
        };
        let programs = programs.iter().map(attached).collect();
        let event = event.to_owned();
        TracepointPrograms { event, n_programs, programs, ..TracepointPrograms::default() }
    }

    #[test]
    fn programs_were_followed_where_one_event_asks_for_them_and_one_sees_the_kernel() {
        let asks = AttrFlags::KSYMBOL | AttrFlags::BPF_EVENT;
        let (none, user) = (AttrFlags::default(), AttrFlags::EXCLUDE_KERNEL);
        let cases = [
            (&[asks][..], true),
            (&[none, user | asks], true),
            (&[user | asks], false),
            (&[user, user | asks], false),
            (&[none, user], false),
            (&[], false),
        ];
        for (flags, want) in cases {
            assert_eq!(was_followed(flags.iter().copied()), want, "{flags:?}");
        }
    }

    #[test]
    fn programs_that_may_drop_samples_are_told_once_for_each_tracepoint() {
        let told = [
            tracepoint("sched:sched_switch", 1, &[(5, "a", true), (6, "watches", false)]),
            tracepoint("sched:sched_switch", 2, &[(5, "a", true), (7, "b", true)]),
            tracepoint("raw_syscalls:sys_enter", 0, &[(6, "watches", false)]),
            // The kernel says how many, and not which.
            tracepoint("sched:sched_waking", 1, &[]),
        ];
        let want = [
            "2 BPF programs on `sched:sched_switch` may have dropped samples of it, uncounted: \
             `a` (id 5), `b` (id 7)",
            "1 BPF program on `sched:sched_waking` may have dropped samples of it, uncounted",
        ];
        assert_eq!(droppers(told.iter()), want);
    }

    #[test]
    fn of_many_programs_some_are_named() {
        let programs = [1, 2, 3, 4, 5].map(|id| (id, "p", true));
        let told = droppers([tracepoint("e:e", 5, &programs)].iter());
        assert!(told[0].ends_with("`p` (id 3), 2 more"), "{told:?}");
    }
}
