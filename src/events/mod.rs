//! What the user calls an event, as the attribute that opens it.
//!
//! In comes the text of an event list and whoever knows what the machine has ([`Machine`]); out
//! come [`Event`]s whose attributes say what to count and where. How often to sample, and what a
//! sample carries, is [`record`](crate::record)'s to add, as far as the event's own [`Terms`] do
//! not say it. Nothing here opens a file.
//!
//! ```text
//! list        item,item,...
//! item        event | {event,event,...}:MODIFIERS | NAME{...}
//! event       NAME:MODIFIERS | NAME/TERM=VALUE,.../MODIFIERS     cpu-clock:u  cs/period=1/
//!             PMU/TERM=VALUE,.../MODIFIERS                       cpu/event=0x3c,umask=1/pp
//!             SYSTEM:TRACEPOINT:MODIFIERS                        sched:*
//!             mem:ADDR[/LEN][:ACCESS]:MODIFIERS                  mem:0x1000/8:rw:u
//!             uprobe:PATH:FUNCTION[+OFFSET][%return]             uprobe:/bin/bash:readline%return
//!             rNNN, a cache event                                r01c2  LLC-load-misses
//!             FILE.bpf.o[:PROGRAM,...][/TERM=VALUE,.../]         reads.bpf.o:slow/vars.min_ns=9/
//! ```
//!
//! Sources: `enum perf_sw_ids`, `perf_hw_id` and `perf_hw_cache_id` in
//! `include/uapi/linux/perf_event.h`; perf-list(1) and perf-record(1) for the spelling.

mod breakpoint;
mod error;
pub mod filter;
mod list;
mod machine;
mod modifiers;
mod names;
pub mod object;
mod pmu;
mod probe;
pub mod registers;
pub mod sample_filter;
mod terms;
#[cfg(test)]
mod testing;
mod tracepoint;

use std::path::PathBuf;

use crate::perfdata::Attr;
use crate::units::Cpu;

pub use error::Error;
pub use filter::Filters;
pub use list::parse;
pub use machine::Functions;
pub use machine::Machine;
pub use machine::Objects;
pub use machine::Pmus;
pub use machine::Tracepoints;
pub use names::HARDWARE_CYCLES;
pub use names::KIND_BREAKPOINT;
pub use names::KIND_HARDWARE;
pub use names::KIND_HARDWARE_CACHE;
pub use names::KIND_SOFTWARE;
pub use names::KIND_TRACEPOINT;
pub use names::Known;
pub use names::SOFTWARE_BPF_OUTPUT;
pub use names::SOFTWARE_CPU_CLOCK;
pub use names::SOFTWARE_DUMMY;
pub use names::SOFTWARE_TASK_CLOCK;
pub use names::glob;
pub use names::known;
pub use object::OfObject;
pub use probe::Probe;
pub use terms::CallChains;
pub use terms::Rate;
pub use terms::Terms;

/// One event that is to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The name under which it stands in the file: what the user wrote, with terms and modifiers,
    /// unless a term names it.
    pub name: String,
    /// Type, configuration, exclusions and precision.
    pub attr: Attr,
    /// What to do where the hardware is less precise than that.
    pub precision: Precision,
    /// What it asks for itself, whatever holds for the others.
    pub terms: Terms,
    /// Where it stands in a group.
    pub place: Place,
    /// The CPUs that it can be opened on, if not all.
    pub cpus: Option<Vec<Cpu>>,
    /// The place in a file that it is a probe at.
    pub probe: Option<Probe>,
    /// The folder of the cgroup whose tasks alone it watches.
    pub cgroup: Option<PathBuf>,
    /// What lets its samples through.
    pub filters: Filters,
    /// The part of a BPF object file that it is.
    pub object: Option<OfObject>,
    /// Whether it is `cycles` because nobody said what else, so that a clock can stand in for it.
    pub is_usual: bool,
}

impl Event {
    /// An event that stands alone and asks for nothing.
    pub fn new(name: impl Into<String>, attr: Attr, precision: Precision) -> Self {
        Self {
            name: name.into(),
            attr,
            precision,
            terms: Terms::default(),
            place: Place::Alone,
            cpus: None,
            probe: None,
            cgroup: None,
            filters: Filters::default(),
            object: None,
            is_usual: false,
        }
    }
}

/// Where an event stands in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In none.
    Alone,
    /// At the head of one; its members follow it in the list.
    Leader {
        /// What the group is called, if anything.
        name: Option<String>,
        /// Whether its events may be opened one by one where they cannot be opened together.
        is_weak: bool,
    },
    /// In the group of the nearest leader before it.
    Member,
}

/// How firmly a precision was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// By number (`p`, `pp`, `ppp`): this one or none.
    Exact,
    /// By `P`: the best there is.
    Best,
}

/// `cycles` at the best precision, what is sampled where nothing is said.
pub fn default_event() -> Event {
    let attr = Attr { kind: KIND_HARDWARE, config: HARDWARE_CYCLES, ..Attr::default() };
    let best = modifiers::Modifiers::BEST;
    Event { is_usual: true, ..Event::new("cycles:P", best.apply(attr), Precision::Best) }
}

/// The software clock `config` under the name and with the precision that perf gives it in place
/// of `cycles`.
pub fn clock_instead(config: u64) -> Event {
    let name = if config == SOFTWARE_TASK_CLOCK { "task-clock:ppp" } else { "cpu-clock:ppp" };
    let attr = Attr { kind: KIND_SOFTWARE, config, ..Attr::default() };
    let attr = modifiers::Modifiers::BEST.apply(attr);
    Event::new(name, attr, Precision::Exact)
}

/// Makes one group of `events`, led by the first, whatever groups they were in.
pub fn group(events: &mut [Event]) {
    let is_one = events.len() < 2;
    let leader = Place::Leader { name: None, is_weak: false };
    for (n, event) in events.iter_mut().enumerate().filter(|_| !is_one) {
        event.place = if n == 0 { leader.clone() } else { Place::Member };
    }
}

/// Whether `attr` is of the event through which a BPF program writes.
pub fn is_bpf_output(attr: &Attr) -> bool {
    (attr.kind, attr.config) == (KIND_SOFTWARE, SOFTWARE_BPF_OUTPUT)
}

/// The column of the byte `at`, counted in characters from 1.
fn column(list: &str, at: usize) -> usize {
    list.get(..at).map_or(0, |before| before.chars().count()) + 1
}

#[cfg(test)]
mod tests {
    use crate::perfdata::AttrFlags;

    use super::*;

    #[test]
    fn the_default_is_cycles_at_the_best_precision() {
        let event = default_event();
        assert_eq!((event.name.as_str(), event.attr.precise_ip()), ("cycles:P", 3));
        assert_eq!(event.precision, Precision::Best);
        let clock = clock_instead(SOFTWARE_TASK_CLOCK);
        assert_eq!((clock.name.as_str(), clock.attr.config), ("task-clock:ppp", 1));
        assert_eq!(clock.attr.flags, AttrFlags::PRECISE_IP_LOW | AttrFlags::PRECISE_IP_HIGH);
    }

    #[test]
    fn events_can_be_made_one_group_unless_there_is_only_one() {
        let mut events = [default_event(), default_event(), default_event()];
        events[1].place = Place::Leader { name: Some("x".to_owned()), is_weak: true };
        group(&mut events[..1]);
        assert_eq!(events[0].place, Place::Alone);
        group(&mut events);
        let places = events.map(|it| it.place);
        let leader = Place::Leader { name: None, is_weak: false };
        assert_eq!(places, [leader, Place::Member, Place::Member]);
    }
}
