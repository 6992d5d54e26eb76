//! What private messages say of a program: where it sat, who held it, how often it ran.

use crate::perfdata::private;
use crate::perfdata::private::Holder;
use crate::perfdata::private::LinkState;
use crate::perfdata::private::MapState;
use crate::perfdata::private::ProgramRuns;
use crate::perfdata::private::ProgramState;

/// Where a program sat, and who held it, at any time that it was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The maps that it uses.
    pub maps: Vec<MapState>,
    /// The links that attach it.
    pub links: Vec<LinkState>,
    /// The paths in bpffs that hold it.
    pub pins: Vec<String>,
    /// The processes that hold it or its links.
    pub holders: Vec<Holder>,
    /// The recorded tracepoints that it sits on.
    pub attachments: Vec<Attachment>,
}

/// A recorded tracepoint that a program sits on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// The event, such as `sched:sched_switch`.
    pub event: String,
    /// By what: `perf_event`, `raw_tracepoint`, `tracing`.
    pub how: String,
    /// Whether it decides by its return value if the tracepoint's samples are written.
    pub can_drop: bool,
}

impl State {
    /// Adds what another look found.
    pub(super) fn add(&mut self, state: &ProgramState) {
        let ProgramState { id: _, load_time_ns: _, boot_ns: _, maps, links, pins, holders } = state;
        self.maps.extend_from_slice(maps);
        self.links.extend_from_slice(links);
        self.pins.extend_from_slice(pins);
        self.holders.extend_from_slice(holders);
    }

    /// Adds that the program sits on the tracepoint `event`.
    pub(super) fn attach(&mut self, event: &str, attached: &private::Attached) {
        let private::Attached { how, can_drop, .. } = attached;
        let (event, how, can_drop) = (event.to_owned(), how.clone(), *can_drop);
        self.attachments.push(Attachment { event, how, can_drop });
    }

    /// Leaves what several looks found once, the holders of the program itself before those of its
    /// links.
    pub(super) fn settle(&mut self) {
        let Self { maps, links, pins, holders, attachments } = self;
        maps.sort_by_key(|it| it.id);
        maps.dedup_by_key(|it| it.id);
        links.sort_by(|a, b| (a.id, &a.kind, &a.target).cmp(&(b.id, &b.kind, &b.target)));
        links.dedup_by(|later, earlier| {
            // What is attached without a link has the id 0, each.
            let is_same = later.id == earlier.id
                && (later.id != 0
                    || (&later.kind, &later.target) == (&earlier.kind, &earlier.target));
            if is_same {
                earlier.pins.append(&mut later.pins);
            }
            is_same
        });
        for link in links {
            link.pins.sort_unstable();
            link.pins.dedup();
        }
        pins.sort_unstable();
        pins.dedup();
        holders.sort_by(|a, b| {
            (a.via != "prog", a.pid, &a.via).cmp(&(b.via != "prog", b.pid, &b.via))
        });
        holders.dedup_by(|a, b| a.pid == b.pid && a.via == b.via);
        attachments.sort_by(|a, b| (&a.event, &a.how).cmp(&(&b.event, &b.how)));
        attachments.dedup();
    }
}

/// From when to when the kernel's counters of programs were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runs {
    /// The first reading, in nanoseconds since boot.
    pub from_boot_ns: u64,
    /// The last reading, likewise.
    pub until_boot_ns: u64,
    /// Whether the kernel was counting at each of them.
    pub counted: bool,
}

impl Runs {
    /// The time between both, in nanoseconds.
    pub fn elapsed_ns(&self) -> u64 {
        self.until_boot_ns.saturating_sub(self.from_boot_ns)
    }
}

/// What a program did between the first and the last reading of its counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// How often it ran.
    pub runs: u64,
    /// For how long, in nanoseconds.
    pub run_time_ns: u64,
    /// How often it was passed over because it ran already.
    pub recursion_misses: u64,
}

impl Cost {
    /// The time of one run, in nanoseconds; `None` where there was none.
    pub fn ns_per_run(&self) -> Option<f64> {
        (self.runs != 0).then(|| self.run_time_ns as f64 / self.runs as f64)
    }

    /// What is counted between two readings; `None` where the counters went backwards, which those
    /// of one program do not.
    pub(super) fn between(before: &ProgramRuns, after: &ProgramRuns) -> Option<Self> {
        Some(Self {
            runs: after.run_cnt.checked_sub(before.run_cnt)?,
            run_time_ns: after.run_time_ns.checked_sub(before.run_time_ns)?,
            recursion_misses: after.recursion_misses.checked_sub(before.recursion_misses)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_there_once_with_all_its_pins_and_each_attachment_without_one() {
        let link = |id, target: &str, pins: &[&str]| LinkState {
            id,
            target: Some(target.to_owned()),
            pins: pins.iter().map(|it| (*it).to_owned()).collect(),
            ..LinkState::default()
        };
        let look =
            |links: &[LinkState]| ProgramState { links: links.to_vec(), ..ProgramState::default() };
        let mut state = State::default();
        state.add(&look(&[link(7, "a", &[]), link(0, "b", &[])]));
        state.add(&look(&[link(7, "a", &["/x"]), link(0, "b", &[]), link(0, "c", &[])]));
        state.settle();
        assert_eq!(state.links, [link(0, "b", &[]), link(0, "c", &[]), link(7, "a", &["/x"])]);
    }
}
