//! Whom a recording watches: what was named, and what is there of it.

use crate::events;
use crate::events::Event;
use crate::host::privilege::Capability;
use crate::host::privilege::Privilege;
use crate::host::process;
use crate::host::settings::Settings;
use crate::perfdata::AttrFlags;
use crate::sys::spawn::Held;
use crate::units::Cpu;
use crate::units::Pid;
use crate::units::Tid;

use super::Error;
use super::config::Config;
use super::config::Delay;
use super::config::Events;
use super::config::Rate;
use super::config::Target;
use super::config::Wakeup;
use super::note::Note;
use super::plan::Request;
use super::plan::Start;
use super::plan::Watch;
use super::rings;
use super::watch::Watched;

/// Whom the sampling events watch, and who is to be described before.
pub(super) struct Who {
    pub(super) watch: Watch,
    pub(super) watched: Watched,
    /// Processes and threads to describe, as whole processes or alone.
    pub(super) processes: Vec<Pid>,
    pub(super) threads: Vec<Tid>,
    what: String,
}

impl Who {
    /// That none of them is there.
    pub(super) fn gone(&self) -> Error {
        match self.watch {
            Watch::Cpus(_) => Error::NoCpu,
            Watch::Threads(_) => Error::Gone { what: self.what.clone() },
        }
    }
}

/// Finds those whom `config` names: each task has to be there, and each CPU that is offline is noted.
pub(super) fn find(
    config: &Config,
    held: Option<&Held>,
    online: &[Cpu],
    notes: &mut Vec<Note>,
) -> Result<Who, Error> {
    let all = |watch| Who {
        watch,
        watched: Watched::nobody(),
        processes: Vec::new(),
        threads: vec![Tid(-1)],
        what: String::new(),
    };
    let who = match &config.target {
        Target::AllCpus => all(Watch::Cpus(online.to_vec())),
        Target::Cpus(cpus) => {
            let (on, off): (Vec<_>, Vec<_>) = cpus.iter().partition(|it| online.contains(it));
            notes.extend(off.into_iter().map(|cpu| Note::CpuOffline { cpu }));
            all(Watch::Cpus(on))
        }
        Target::Workload => {
            let tids: Vec<_> = held.iter().map(|it| Tid(it.pid().0)).collect();
            Who {
                watch: Watch::Threads(tids.clone()),
                watched: Watched::nobody(),
                processes: Vec::new(),
                threads: tids,
                what: "command".to_owned(),
            }
        }
        Target::Processes(pids) => {
            let lives = |pid: &Pid| process::task(*pid, Tid(pid.0)).is_some_and(|it| !it.is_zombie);
            if pids.iter().any(|it| !lives(it)) {
                let gone = pids.iter().filter(|it| !lives(it));
                return Err(Error::Gone { what: named("process", gone.map(|it| it.0)) });
            }
            let tids: Vec<_> = pids.iter().flat_map(|&pid| process::threads(pid)).collect();
            Who {
                watch: Watch::Threads(tids.clone()),
                watched: Watched::processes(pids),
                processes: pids.clone(),
                threads: tids,
                what: named("process", pids.iter().map(|it| it.0)),
            }
        }
        Target::User(user) => {
            let tasks = ours_to_watch(process::of_user(*user), notes);
            let tids: Vec<_> = tasks.iter().map(|it| it.1).collect();
            let mut pids: Vec<_> = tasks.iter().map(|it| it.0).collect();
            pids.dedup();
            Who {
                watch: Watch::Threads(tids.clone()),
                watched: Watched::processes(&pids),
                processes: pids,
                threads: tids,
                what: format!("task of the user {user}"),
            }
        }
        Target::Threads(tids) => {
            let lives = |tid: &Tid| {
                let task = process::process_of(*tid).and_then(|pid| process::task(pid, *tid));
                task.is_some_and(|it| !it.is_zombie)
            };
            if tids.iter().any(|it| !lives(it)) {
                let gone = tids.iter().filter(|it| !lives(it));
                return Err(Error::Gone { what: named("thread", gone.map(|it| it.0)) });
            }
            Who {
                watch: Watch::Threads(tids.clone()),
                watched: Watched::threads(tids),
                processes: Vec::new(),
                threads: tids.clone(),
                what: named("thread", tids.iter().map(|it| it.0)),
            }
        }
    };
    let is_nobody = match &who.watch {
        Watch::Cpus(cpus) => cpus.is_empty(),
        Watch::Threads(tids) => tids.is_empty(),
    };
    if is_nobody { Err(who.gone()) } else { Ok(who) }
}

/// Leaves out what the kernel would not let us watch; where that is all, it is to say so itself.
///
/// A user has tasks that hide from the user, too: those with secrets, and those whose file may be
/// run and not read.
fn ours_to_watch(tasks: Vec<(Pid, Tid)>, notes: &mut Vec<Note>) -> Vec<(Pid, Tid)> {
    if Privilege::own().has(Capability::PERFMON) {
        return tasks;
    }
    let (ours, hidden): (Vec<_>, Vec<_>) =
        tasks.iter().copied().partition(|it| !process::is_hidden(it.0, it.1));
    if ours.is_empty() || hidden.is_empty() {
        return tasks;
    }
    notes.push(Note::HiddenTasks { n_tasks: hidden.len() });
    ours
}

/// Tasks by their ids, as `process 7` or `process 7, 8 or 9`.
fn named(what: &str, ids: impl Iterator<Item = i32>) -> String {
    let ids: Vec<_> = ids.map(|it| it.to_string()).collect();
    match &ids[..] {
        [before @ .., a, b] => {
            let before = before.iter().chain([a]).map(String::as_str).collect::<Vec<_>>();
            format!("{what} {} or {b}", before.join(", "))
        }
        ids => format!("{what} {}", ids.concat()),
    }
}

/// What the plan depends on.
pub(super) fn request(
    config: &Config,
    watch: Watch,
    online: Vec<Cpu>,
    settings: &Settings,
    notes: &mut Vec<Note>,
) -> Request {
    let is_late = config.delay != Delay::None;
    let start = match (&config.target, is_late) {
        (Target::Workload, false) => Start::AtExec,
        (Target::Workload, true) => Start::AfterExec,
        (_, false) => Start::WhenTold,
        (_, true) => Start::WhenToldLater,
    };
    let mut events: Vec<Event> = match &config.events {
        Events::Default { cgroup, filters } => {
            let (cgroup, filters) = (cgroup.clone(), filters.clone());
            vec![Event { cgroup, filters, ..events::default_event() }]
        }
        Events::Named(events) => events.clone(),
    };
    let most = settings.perf_event_max_sample_rate.unwrap_or(u64::MAX);
    let mut lower = |hertz: u64| {
        if most < hertz {
            notes.push(Note::LowerRate { wanted: hertz, taken: most });
        }
        hertz.min(most)
    };
    let rate = match config.rate {
        Rate::Usual(hertz) => Rate::Usual(lower(hertz)),
        Rate::Hertz(hertz) => Rate::Hertz(lower(hertz)),
        Rate::Period(_) | Rate::Never => config.rate,
    };
    for event in &mut events {
        if let Some(events::Rate::Hertz(hertz)) = &mut event.terms.rate {
            *hertz = lower(*hertz);
        }
        if !config.contents.no_samples.is_empty() {
            event.attr.flags -= AttrFlags::EXCLUDE_USER | AttrFlags::EXCLUDE_KERNEL;
            event.attr.flags |= config.contents.no_samples;
        }
    }
    let (call_graph, contents) = (config.call_graph, config.contents);
    let (inherit, bpf) = (config.inherit, config.bpf);
    let (ring_per, clock) = (config.ring_per, config.clock);
    let wakeup_bytes = match config.wakeup {
        Wakeup::Filled => Some(rings::wakeup_bytes(rings::wanted(config.ring, settings))),
        Wakeup::EachSample => None,
    };
    let keep = config.keep;
    Request {
        events,
        watch,
        start,
        rate,
        call_graph,
        contents,
        inherit,
        ring_per,
        clock,
        bpf,
        keep,
        online,
        outputs: Vec::new(),
        wakeup_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_those_who_are_gone_is_named() {
        assert_eq!(named("process", [7].into_iter()), "process 7");
        assert_eq!(named("process", [7, 8].into_iter()), "process 7 or 8");
        assert_eq!(named("thread", [7, 8, 9].into_iter()), "thread 7, 8 or 9");
    }
}
