//! Which programs sit on a tracepoint, whichever way they are attached.
//!
//! The kernel tells of those that perf events attach, which decide by their return values whether
//! the tracepoint's samples are written at all: `trace_call_bpf()` in `kernel/trace/bpf_trace.c`
//! ANDs them, and `perf_trace_run_bpf_submit()` in `kernel/events/core.c` goes by the result. All
//! others are found by their links.

use std::collections::BTreeMap;

use nix::errno::Errno;

use crate::perfdata::private::Attached;
use crate::perfdata::private::LinkState;
use crate::perfdata::private::TracepointPrograms;
use crate::sys::bpf_counters::ProgCounters;
use crate::sys::perf_event::AttachedPrograms;

/// What is known of programs and links: the links with the ids of their programs.
pub(super) struct OnTracepoint<'a> {
    pub(super) programs: &'a BTreeMap<u32, ProgCounters>,
    pub(super) links: &'a [(u32, &'a LinkState)],
}

/// Joins the kernel's `answer` for the tracepoint of `event` with the links to it.
pub(super) fn join(
    event: &str,
    answer: &Result<AttachedPrograms, Errno>,
    on: &OnTracepoint<'_>,
    boot_ns: u64,
) -> TracepointPrograms {
    let name = event.split(':').nth(1).unwrap_or(event);
    let attached = |id: u32, how: &str, link: Option<u32>, can_drop| {
        let program = on.programs.get(&id);
        Attached {
            id,
            load_time_ns: program.map_or(0, |it| it.load_time_ns),
            name: program
                .map_or_else(String::new, |it| String::from_utf8_lossy(&it.name).into_owned()),
            how: how.to_owned(),
            link: link.filter(|it| *it != 0),
            can_drop,
        }
    };
    let mut found = TracepointPrograms { event: event.to_owned(), boot_ns, ..Default::default() };
    match answer {
        Ok(answer) => {
            found.n_programs = answer.n_programs;
            for &id in &answer.ids {
                let link = on.links.iter().find(|(program, link)| {
                    (*program, &*link.kind) == (id, "perf_event")
                        && link.target.as_deref() == Some(name)
                });
                found.programs.push(attached(id, "perf_event", link.map(|it| it.1.id), true));
            }
        }
        Err(errno) => found.refused = Some(errno.to_string()),
    }
    let traced = [format!("__traceiter_{name}"), format!("__bpf_trace_{name}")];
    for &(program, link) in on.links {
        let Some(target) = link.target.as_deref() else { continue };
        let how = match (&*link.kind, link.attach_type.as_deref()) {
            ("raw_tracepoint", Some("trace_raw_tp")) if target == name => "tp_btf",
            ("raw_tracepoint", _) if target == name => "raw_tracepoint",
            ("tracing", _) if traced.iter().any(|it| it == target) => "tracing",
            _ => continue,
        };
        found.programs.push(attached(program, how, Some(link.id), false));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(id: u32, kind: &str, attach_type: Option<&str>, target: &str) -> LinkState {
        LinkState {
            id,
            kind: kind.to_owned(),
            attach_type: attach_type.map(str::to_owned),
            target: Some(target.to_owned()),
            pins: Vec::new(),
        }
    }

    /// Id, kind of attachment, link, and whether it can drop samples, of each program found.
    fn found(answer: &Result<AttachedPrograms, Errno>) -> TracepointPrograms {
        let program = ProgCounters { load_time_ns: 5, name: b"p".to_vec(), ..Default::default() };
        let programs = (1..=9).map(|id| (id, ProgCounters { id, ..program.clone() })).collect();
        let links = [
            (1, link(11, "perf_event", Some("tracepoint"), "sched_switch")),
            (2, link(0, "perf_event", Some("tracepoint"), "sched_switch")),
            (3, link(13, "perf_event", Some("tracepoint"), "sched_waking")),
            (4, link(14, "raw_tracepoint", None, "sched_switch")),
            (5, link(15, "raw_tracepoint", Some("trace_raw_tp"), "sched_switch")),
            (6, link(16, "tracing", Some("trace_fentry"), "__traceiter_sched_switch")),
            (7, link(17, "tracing", Some("trace_fentry"), "vfs_read")),
            (8, link(18, "raw_tracepoint", None, "sched_waking")),
        ];
        let links: Vec<_> = links.iter().map(|(id, link)| (*id, link)).collect();
        join("sched:sched_switch", answer, &OnTracepoint { programs: &programs, links: &links }, 7)
    }

    type Row<'a> = (u32, &'a str, Option<u32>, bool);

    #[track_caller]
    fn check(found: &TracepointPrograms, want: &[Row<'_>]) {
        let rows: Vec<Row<'_>> = found
            .programs
            .iter()
            .map(|it| (it.id, it.how.as_str(), it.link, it.can_drop))
            .collect();
        assert_eq!(rows, want);
    }

    const BY_LINK: [Row<'_>; 3] = [
        (4, "raw_tracepoint", Some(14), false),
        (5, "tp_btf", Some(15), false),
        (6, "tracing", Some(16), false),
    ];

    #[test]
    fn all_programs_are_listed_with_how_they_are_attached() {
        let found = found(&Ok(AttachedPrograms { n_programs: 3, ids: vec![1, 2, 99] }));
        let by_events = [
            (1, "perf_event", Some(11), true),
            (2, "perf_event", None, true),
            (99, "perf_event", None, true),
        ];
        check(&found, &[&by_events[..], &BY_LINK].concat());
        assert_eq!((found.n_programs, found.boot_ns, &found.refused), (3, 7, &None));
        let names: Vec<_> = found.programs.iter().map(|it| (&*it.name, it.load_time_ns)).collect();
        assert_eq!(names[..3], [("p", 5), ("p", 5), ("", 0)]);
    }

    #[test]
    fn where_the_kernel_does_not_say_links_are_told_all_the_same() {
        let found = found(&Err(Errno::EPERM));
        check(&found, &BY_LINK);
        assert_eq!(found.refused.as_deref(), Some("EPERM: Operation not permitted"));
    }
}
