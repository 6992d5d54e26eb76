//! What the section of a program says of where it runs.
//!
//! Source: `section_defs` in libbpf's `src/libbpf.c`, and "Program Types and ELF Sections" of its
//! documentation.

use std::fmt;

use super::super::terms::number;

/// The place that a program runs at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Section {
    /// `perf_event`: at each sample of an event.
    PerfEvent,
    /// `tracepoint/SYSTEM/EVENT`.
    Tracepoint {
        /// `sched`.
        system: String,
        /// `sched_switch`.
        event: String,
    },
    /// `kprobe/FUNCTION+OFFSET`, `uprobe/PATH:FUNCTION+OFFSET`, and those at the return.
    Probe {
        /// Where.
        place: Place,
        /// How far from there, in bytes.
        offset: u64,
        /// Whether it is at the function's return.
        is_return: bool,
    },
    /// Where no event leads: the program is attached by a link, and samples what it writes itself.
    Linked {
        /// The section as it is written.
        section: String,
    },
}

/// What is probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A function of the kernel.
    Kernel {
        /// Its name.
        function: String,
    },
    /// A function of a file.
    Function {
        /// The file.
        path: String,
        /// Its name.
        function: String,
    },
}

/// How a program comes to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// An event of ours has it.
    Event,
    /// A tracepoint has it, for all who sample that tracepoint.
    Tracepoint,
    /// A link.
    Link,
}

/// The kinds that are attached by a link, as their sections begin.
const LINKED: [&str; 10] = [
    "raw_tp",
    "raw_tracepoint",
    "tp_btf",
    "fentry",
    "fexit",
    "fmod_ret",
    "usdt",
    "ksyscall",
    "kretsyscall",
    "lsm",
];

/// The sections that are known, for whoever wrote another one.
pub const KNOWN: &str = "`perf_event`, `tracepoint/SYSTEM/EVENT`, `kprobe/FUNCTION`, \
     `kretprobe/FUNCTION`, `uprobe/PATH:FUNCTION`, `uretprobe/PATH:FUNCTION`, `raw_tp/EVENT`, \
     `tp_btf/EVENT`, `fentry/FUNCTION`, `fexit/FUNCTION`, `usdt/PATH:PROVIDER:NAME`, \
     `ksyscall/NAME` and `kretsyscall/NAME`";

impl Section {
    /// The place that the section `text` stands for; `None` if it is none that events come from.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = match text.split_once('/') {
            Some((kind, rest)) if !rest.is_empty() => (kind, Some(rest)),
            Some(_) => return None,
            None => (text, None),
        };
        let base = kind.strip_suffix(".s").or_else(|| kind.strip_suffix(".w")).unwrap_or(kind);
        match (base, rest) {
            ("perf_event", None) => Some(Self::PerfEvent),
            ("tracepoint" | "tp", Some(rest)) => {
                let (system, event) = rest.split_once('/')?;
                Some(Self::Tracepoint { system: system.to_owned(), event: event.to_owned() })
            }
            ("kprobe" | "kretprobe", Some(rest)) => {
                let (function, offset) = with_offset(rest);
                let place = Place::Kernel { function: function.to_owned() };
                Some(Self::Probe { place, offset, is_return: base == "kretprobe" })
            }
            ("uprobe" | "uretprobe", Some(rest)) => {
                let (path, place) = rest.split_once(':').filter(|it| !it.1.is_empty())?;
                let (function, offset) = with_offset(place);
                let (path, function) = (path.to_owned(), function.to_owned());
                let place = Place::Function { path, function };
                Some(Self::Probe { place, offset, is_return: base == "uretprobe" })
            }
            (base, Some(_)) if LINKED.contains(&base) => {
                Some(Self::Linked { section: text.to_owned() })
            }
            _ => None,
        }
    }

    /// How a program there comes to run.
    pub fn hook(&self) -> Hook {
        match self {
            Self::PerfEvent | Self::Probe { .. } => Hook::Event,
            Self::Tracepoint { .. } => Hook::Tracepoint,
            Self::Linked { .. } => Hook::Link,
        }
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PerfEvent => f.write_str("perf_event"),
            Self::Tracepoint { system, event } => write!(f, "tracepoint/{system}/{event}"),
            Self::Probe { place, offset, is_return } => {
                let ret = if *is_return { "ret" } else { "" };
                match place {
                    Place::Kernel { function } => write!(f, "k{ret}probe/{function}")?,
                    Place::Function { path, function } => {
                        write!(f, "u{ret}probe/{path}:{function}")?;
                    }
                }
                if *offset == 0 { Ok(()) } else { write!(f, "+{offset:#x}") }
            }
            Self::Linked { section } => f.write_str(section),
        }
    }
}

/// A function's name, and how far from its start.
fn with_offset(text: &str) -> (&str, u64) {
    match text.rsplit_once('+').and_then(|(name, offset)| Some((name, number(offset)?))) {
        Some(found) => found,
        None => (text, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want_hook: Option<Hook>, want_text: &str) {
        let section = Section::parse(text);
        assert_eq!(section.as_ref().map(Section::hook), want_hook, "{text}");
        assert_eq!(section.map(|it| it.to_string()).unwrap_or_default(), want_text);
    }

    #[test]
    fn a_section_says_where_its_program_runs() {
        check("perf_event", Some(Hook::Event), "perf_event");
        check("tp/sched/sched_switch", Some(Hook::Tracepoint), "tracepoint/sched/sched_switch");
        check("kprobe/do_unlinkat+0x10", Some(Hook::Event), "kprobe/do_unlinkat+0x10");
        check("kretprobe/vfs_read", Some(Hook::Event), "kretprobe/vfs_read");
        check("uprobe.s//bin/sh:main", Some(Hook::Event), "uprobe//bin/sh:main");
        check("uretprobe/libc.so.6:malloc", Some(Hook::Event), "uretprobe/libc.so.6:malloc");
        check("raw_tp/sys_enter", Some(Hook::Link), "raw_tp/sys_enter");
        check("tp_btf/sched_switch", Some(Hook::Link), "tp_btf/sched_switch");
        check("fentry.s/vfs_read", Some(Hook::Link), "fentry.s/vfs_read");
    }

    #[test]
    fn a_section_that_leads_nowhere_is_none() {
        let bare = ["kprobe", "uprobe", "tracepoint", "raw_tp", "fentry"];
        let odd =
            ["tracepoint/sched", "uprobe//bin/sh", "uprobe//bin/sh:", "kprobe/", "xdp", "tc", ""];
        for text in bare.iter().chain(&odd) {
            check(text, None, "");
        }
    }
}
