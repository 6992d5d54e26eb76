//! `bpfperf list`: the events that this machine has.

use std::io;
use std::io::Write;
use std::process::ExitCode;

use nix::errno::Errno;
use serde::Serialize;

use crate::events;
use crate::host::pmus::Pmus;
use crate::host::tracefs::Tracefs;
use crate::perfdata::Attr;
use crate::perfdata::AttrFlags;
use crate::sys::perf_event::EventFd;
use crate::sys::perf_event::Target;
use crate::units::Tid;

use crate::render::json;
use crate::render::json::Layout;

use super::message;
use super::message::Failure;
use super::script::stdout;

/// What was typed after `bpfperf list`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    /// Only events whose name holds this, or fits it if it has `*` or `?`, or all of a class: `sw`,
    /// `hw`, `cache`, `pmu`, `tracepoint`.
    #[arg(value_name = "PATTERN")]
    patterns: Vec<String>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// The version of the JSON form: it rises when a member goes or changes its meaning.
const JSON_VERSION: u32 = 1;

/// All that is said as JSON.
#[derive(Serialize)]
struct Listing<'a> {
    version: u32,
    events: Vec<&'a Row>,
}

/// One event, or one form of events.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Row {
    name: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    aliases: Vec<String>,
    class: Class,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Class {
    Software,
    Hardware,
    Cache,
    /// An event of a PMU.
    Pmu,
    Tracepoint,
    /// What an event can look like that has no name.
    Form,
}

impl Class {
    const ALL: [Self; 6] =
        [Self::Software, Self::Hardware, Self::Cache, Self::Pmu, Self::Tracepoint, Self::Form];

    /// As a line says it.
    fn in_words(self) -> &'static str {
        match self {
            Self::Software => "Software event",
            Self::Hardware => "Hardware event",
            Self::Cache => "Hardware cache event",
            Self::Pmu => "Kernel PMU event",
            Self::Tracepoint => "Tracepoint event",
            Self::Form => "Form of an event",
        }
    }

    /// As perf lets it be asked for.
    fn word(self) -> &'static str {
        match self {
            Self::Software => "sw",
            Self::Hardware => "hw",
            Self::Cache => "cache",
            Self::Pmu => "pmu",
            Self::Tracepoint => "tracepoint",
            Self::Form => "form",
        }
    }
}

/// Runs `bpfperf list`; the status is 1 if nothing fits.
pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let mut rows: Vec<Row> = Vec::new();
    let opened = events::known().into_iter().filter(|it| is_there(&it.attr));
    rows.extend(opened.map(row_of_known));
    let pmus = Pmus::default();
    rows.extend(of_pmus(&pmus).unwrap_or_default());
    match Tracefs::default().all() {
        Ok(all) => rows.extend(all.into_iter().map(|(system, name)| Row {
            name: format!("{system}:{name}"),
            aliases: Vec::new(),
            class: Class::Tracepoint,
        })),
        Err(error) => {
            let error = message::in_words(&error);
            message::warn(&format!("tracepoints cannot be listed: {error}"));
        }
    }
    rows.extend(forms(&pmus));
    let fitting: Vec<&Row> = rows.iter().filter(|it| it.fits(&args.patterns)).collect();
    let mut out = stdout()?;
    let written = if args.json {
        let listing = Listing { version: JSON_VERSION, events: fitting.clone() };
        json::write(&listing, Layout::Compact, &mut out).and_then(|()| writeln!(out))
    } else {
        write_text(&fitting, &mut out)
    };
    let done = written.and_then(|()| out.flush());
    done.map_err(|error| Failure::because("cannot write the list", &error))?;
    if fitting.is_empty() {
        let patterns = args.patterns.join("` or `");
        return Err(Failure::new(format!("no event fits `{patterns}`")));
    }
    Ok(ExitCode::SUCCESS)
}

impl Row {
    /// Whether any of `patterns` asks for it; none asks for all.
    fn fits(&self, patterns: &[String]) -> bool {
        patterns.is_empty() || patterns.iter().any(|it| self.fits_one(it))
    }

    fn fits_one(&self, pattern: &str) -> bool {
        if let Some(class) = Class::ALL.iter().find(|it| it.word() == pattern) {
            return *class == self.class;
        }
        let is_glob = pattern.contains(['*', '?']);
        let fits = |name: &str| {
            if is_glob { events::glob(pattern, name) } else { name.contains(pattern) }
        };
        fits(&self.name) || self.aliases.iter().any(|it| fits(it))
    }
}

fn row_of_known(known: events::Known) -> Row {
    let class = match known.attr.kind {
        events::KIND_SOFTWARE => Class::Software,
        events::KIND_HARDWARE => Class::Hardware,
        _ => Class::Cache,
    };
    let aliases = known.aliases.into_iter().map(str::to_owned).collect();
    Row { name: known.name, aliases, class }
}

/// Whether the machine counts an event, be it for others: it is opened on this thread, user space
/// alone, and never enabled.
fn is_there(attr: &Attr) -> bool {
    let flags = AttrFlags::DISABLED | AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
    let mut bytes = Vec::new();
    Attr { flags, ..*attr }.encode(Attr::SIZE_VER0, &mut bytes);
    match EventFd::open(&bytes, Target::Task(Tid(0))) {
        Ok(_) => true,
        // Who may not ask does not know.
        Err(errno) => matches!(errno, Errno::EACCES | Errno::EPERM),
    }
}

/// The events that PMUs have names for.
fn of_pmus(pmus: &Pmus) -> io::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for pmu in pmus.names()? {
        let events = pmus.events(&pmu)?.into_iter();
        rows.extend(events.map(|(event, _)| Row {
            name: format!("{pmu}/{event}/"),
            aliases: Vec::new(),
            class: Class::Pmu,
        }));
    }
    Ok(rows)
}

/// The forms that an event of this machine can have.
fn forms(pmus: &Pmus) -> Vec<Row> {
    let mut forms = Vec::new();
    for pmu in pmus.names().unwrap_or_default() {
        let formats = pmus.formats(&pmu).unwrap_or_default();
        match &*pmu {
            "uprobe" => forms.push("uprobe:PATH:FUNCTION[+OFFSET][%return]".to_owned()),
            "breakpoint" => forms.push("mem:ADDRESS[/LENGTH][:rwx]".to_owned()),
            // Its places are by path alone, as those of uprobes.
            "kprobe" => {}
            _ if formats.is_empty() => {}
            _ => {
                if pmu == "cpu" {
                    forms.push("rNNN".to_owned());
                }
                let terms: Vec<_> = formats.iter().map(|it| format!("{}=N", it.0)).collect();
                forms.push(format!("{pmu}/{}/", terms.join(",")));
            }
        }
    }
    let row = |name| Row { name, aliases: Vec::new(), class: Class::Form };
    forms.into_iter().map(row).collect()
}

fn write_text(rows: &[&Row], out: &mut dyn Write) -> io::Result<()> {
    for row in rows {
        let mut names = row.name.clone();
        for alias in &row.aliases {
            names.push_str(" OR ");
            names.push_str(alias);
        }
        writeln!(out, "  {names:<50} [{}]", row.class.in_words())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, aliases: &[&str], class: Class) -> Row {
        let aliases = aliases.iter().map(|it| (*it).to_owned()).collect();
        Row { name: name.to_owned(), aliases, class }
    }

    #[track_caller]
    fn check(pattern: &str, want: &[&str]) {
        let rows = [
            row("page-faults", &["faults"], Class::Software),
            row("sched:sched_switch", &[], Class::Tracepoint),
            row("msr/tsc/", &[], Class::Pmu),
        ];
        let patterns: Vec<_> = pattern.split_whitespace().map(str::to_owned).collect();
        let fitting: Vec<_> =
            rows.iter().filter(|it| it.fits(&patterns)).map(|it| it.name.as_str()).collect();
        assert_eq!(fitting, want, "{pattern}");
    }

    #[test]
    fn a_pattern_is_a_part_a_glob_or_a_class() {
        check("", &["page-faults", "sched:sched_switch", "msr/tsc/"]);
        check("fault", &["page-faults"]);
        check("sched:*", &["sched:sched_switch"]);
        check("faul*", &["page-faults"]);
        check("sw tsc", &["page-faults", "msr/tsc/"]);
        check("tracepoint", &["sched:sched_switch"]);
        check("x", &[]);
    }

    #[test]
    fn a_line_has_all_names_of_an_event_and_its_class() {
        let mut out = Vec::new();
        let faults = row("page-faults", &["faults"], Class::Software);
        write_text(&[&faults], &mut out).unwrap();
        let want = format!("  {:<50} [Software event]\n", "page-faults OR faults");
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }

    #[test]
    fn this_kernel_counts_a_clock_and_no_event_of_an_unknown_kind() {
        let clock = Attr { kind: events::KIND_SOFTWARE, ..Attr::default() };
        assert!(is_there(&clock));
        assert!(!is_there(&Attr { kind: 0x7fff_fff0, ..Attr::default() }));
    }
}
