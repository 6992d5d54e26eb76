//! Looks at where programs sit: their maps, links, pins and holders, again and again while a
//! recording runs.
//!
//! A look asks for everything anew, since links can be given another program and loaders bind maps
//! after a load. It is told what was not told before; that something is no longer there is not, so
//! what was told last of a program is the most that was seen of it at one moment.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::os::fd::AsFd;

use libbpf_rs::libbpf_sys as raw;
use nix::errno::Errno;

use super::holders::Holders;
use super::holders::Pins;
use super::links::Link;
use super::links::Target;
use super::maps::Maps;
use super::operations;
use super::operations::Operation;
use super::operations::OpsMaps;
use super::targets::BtfIds;
use super::targets::Targets;
use super::tracepoints;
use super::tracepoints::OnTracepoint;
use crate::perfdata::private::LinkState;
use crate::perfdata::private::ProgramState;
use crate::perfdata::private::TracepointPrograms;
use crate::sys::bpf;
use crate::sys::bpf_counters;
use crate::sys::bpf_counters::ProgCounters;
use crate::sys::bpf_links;
use crate::sys::perf_event::AttachedPrograms;

/// The most holders of one program that are told: a server's workers inherit what it holds.
const HOLDERS_MAX: usize = 256;

/// What is known of where programs sit.
#[derive(Debug, Default)]
pub struct Survey {
    programs: BTreeMap<u32, ProgCounters>,
    /// The links of each program, by the program's id; those without a link have the id 0.
    of_programs: BTreeMap<u32, Vec<LinkState>>,
    last_program: u32,
    last_link: u32,
    pins: Pins,
    holders: Holders,
    told: HashMap<(u32, u64), ProgramState>,
    maps: Maps,
    targets: Targets,
    ops_maps: OpsMaps,
}

/// How much a look takes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Programs, links and maps: some system calls for each.
    Links,
    /// Pins and holders, too: some system calls for each descriptor on the machine.
    Holders,
}

impl Survey {
    /// Whether programs or links have come since the last look. Two system calls.
    pub fn has_news(&self) -> bool {
        // Ids only rise until they have been used up.
        let is_new = |next: Result<Option<u32>, Errno>| next.is_ok_and(|it| it.is_some());
        is_new(bpf::next_prog_id(self.last_program))
            || is_new(bpf_links::next_link_id(self.last_link))
    }

    /// Looks, and returns what was not told before of the programs of `programs`, which are all
    /// that are loaded.
    ///
    /// `boot_ns` is the time, in ns of `CLOCK_BOOTTIME`. Where `has_time` says no, what is left of
    /// the processes is passed over: see [`Survey::gaps`].
    pub fn look(
        &mut self,
        programs: Vec<ProgCounters>,
        depth: Depth,
        boot_ns: u64,
        has_time: &dyn Fn() -> bool,
    ) -> Vec<ProgramState> {
        self.targets.begin_look();
        self.last_program = programs.last().map_or(self.last_program, |it| it.id);
        self.programs = programs.into_iter().map(|it| (it.id, it)).collect();
        let links = self.walk_links();
        let operations = self.walk_operations();
        if depth == Depth::Holders && !self.programs.is_empty() {
            let programs_of = |id| {
                let of_link = links.iter().filter(|it| it.id == id);
                of_link.flat_map(|it| programs_of(it, &operations)).collect()
            };
            self.pins = Pins::walk(has_time);
            self.holders = Holders::walk(&programs_of, has_time);
        }
        self.of_programs.clear();
        for link in &links {
            let mut state = self.state_of(link);
            state.pins = self.pins.of_links.get(&link.id).cloned().unwrap_or_default();
            if link.prog_id != 0 {
                self.of_programs.entry(link.prog_id).or_default().push(state);
                continue;
            }
            for operation in operations.iter().filter(|it| is_of(link, it)) {
                let state = LinkState { target: Some(operation.target.clone()), ..state.clone() };
                self.of_programs.entry(operation.prog_id).or_default().push(state);
            }
        }
        // A map of operations can be registered without a link.
        for operation in operations.iter().filter(|it| !links.iter().any(|link| is_of(link, it))) {
            let (kind, target) = ("struct_ops".to_owned(), Some(operation.target.clone()));
            let state = LinkState { kind, target, ..LinkState::default() };
            self.of_programs.entry(operation.prog_id).or_default().push(state);
        }
        for (program, links) in self.holders.without_link.clone() {
            for link in links {
                let state = self.state_of(&link);
                let known = self.of_programs.entry(program).or_default();
                // The descriptor of an event tells the program of the link that stands on it, too.
                if known.iter().all(|it| (&it.kind, &it.target) != (&state.kind, &state.target)) {
                    known.push(state);
                }
            }
        }
        let mut news = Vec::new();
        for program in self.programs.values() {
            let maps = program.map_ids.iter().filter_map(|id| self.maps.get(*id).cloned());
            let holders = self.holders.of_programs.get(&program.id);
            let holders = holders.into_iter().flatten().take(HOLDERS_MAX).cloned();
            let state = ProgramState {
                id: program.id,
                load_time_ns: program.load_time_ns,
                boot_ns,
                maps: maps.collect(),
                links: self.of_programs.get(&program.id).cloned().unwrap_or_default(),
                pins: self.pins.of_programs.get(&program.id).cloned().unwrap_or_default(),
                holders: holders.collect(),
            };
            let key = (state.id, state.load_time_ns);
            if self.told.get(&key).is_none_or(|told| has_more(told, &state)) {
                self.told.insert(key, state.clone());
                news.push(state);
            }
        }
        news
    }

    /// The programs on the tracepoint of `event`, such as `sched:sched_switch`, as of the last look
    /// and of the kernel's `answer`, which knows those of perf events alone.
    pub fn on_tracepoint(
        &self,
        event: &str,
        answer: &Result<AttachedPrograms, Errno>,
        boot_ns: u64,
    ) -> TracepointPrograms {
        let links =
            self.of_programs.iter().flat_map(|(id, links)| links.iter().map(|it| (*id, it)));
        let on = OnTracepoint { programs: &self.programs, links: &links.collect::<Vec<_>>() };
        tracepoints::join(event, answer, &on, boot_ns)
    }

    /// What the last deep look left out: files of bpffs, and processes.
    pub fn gaps(&self) -> (u64, u64) {
        (self.pins.n_skipped, self.holders.n_skipped)
    }

    /// All links that can be asked for; one that is gone meanwhile is no link.
    fn walk_links(&mut self) -> Vec<Link> {
        let mut links = Vec::new();
        let mut last = 0;
        // A refusal, or a kernel without the list, ends it: programs have no links then.
        while let Ok(Some(id)) = bpf_links::next_link_id(last) {
            if id <= last {
                break;
            }
            last = id;
            let info = bpf_links::link_fd(id).and_then(|it| bpf_links::link_info(it.as_fd()));
            match info {
                Ok(info) => links.extend(Link::decode(&info)),
                Err(errno) => tracing::debug!(id, %errno, "link"),
            }
        }
        self.last_link = self.last_link.max(last);
        links
    }

    /// The programs that implement operations of the kernel.
    fn walk_operations(&mut self) -> Vec<Operation> {
        let Self { programs, targets, ops_maps, .. } = self;
        let is_program =
            |id| programs.get(&id).is_some_and(|it| it.kind == raw::BPF_PROG_TYPE_STRUCT_OPS);
        let Some(first) = programs.values().find(|it| is_program(it.id)) else {
            return Vec::new();
        };
        let mut all = Vec::new();
        for (id, map) in ops_maps.walk() {
            // Before Linux 6.9 maps do not say which BTF it is; there it is the kernel's own.
            let btf_id = if map.btf_id == 0 { first.attach_btf_obj_id } else { map.btf_id };
            if let Some(btf) = targets.btf(btf_id) {
                all.extend(operations::operations(id, &map, btf, &is_program));
            }
        }
        all
    }

    fn state_of(&mut self, link: &Link) -> LinkState {
        let Self { programs, targets, maps, .. } = self;
        let program = programs.get(&link.prog_id);
        let btf_ids = BtfIds {
            attach: program.map_or(0, |it| it.attach_btf_obj_id),
            of_program: &|id| programs.get(&id).map_or(0, |it| it.btf_id),
        };
        let is_typed = link.kind == raw::BPF_LINK_TYPE_RAW_TRACEPOINT
            && program.is_some_and(|it| it.kind == raw::BPF_PROG_TYPE_TRACING);
        LinkState {
            id: link.id,
            kind: link.kind_name(),
            // Of a program that knows the types of the tracepoint's arguments the link does not say.
            attach_type: link.attach_type.clone().or(is_typed.then(|| "trace_raw_tp".to_owned())),
            target: targets.text(&link.target, btf_ids, maps),
            pins: Vec::new(),
        }
    }
}

/// Whether `link` registers the map that `operation` is in.
fn is_of(link: &Link, operation: &Operation) -> bool {
    link.kind == raw::BPF_LINK_TYPE_STRUCT_OPS
        && link.target == Target::Map { id: operation.map_id }
}

/// The programs that a link attaches.
fn programs_of(link: &Link, operations: &[Operation]) -> Vec<u32> {
    if link.prog_id != 0 {
        return vec![link.prog_id];
    }
    operations.iter().filter(|it| is_of(link, it)).map(|it| it.prog_id).collect()
}

/// The counters of all programs that are loaded, by rising id.
///
/// A program that is gone meanwhile or may not be asked for is left out.
///
/// # Errors
///
/// If the kernel lists none to this caller.
pub fn all_counters() -> Result<Vec<ProgCounters>, Errno> {
    let mut all = Vec::new();
    let mut last = 0;
    while let Some(id) = bpf::next_prog_id(last)? {
        if id <= last {
            break;
        }
        last = id;
        match bpf::prog_fd(id).and_then(|it| bpf_counters::prog_counters(it.as_fd())) {
            Ok(counters) => all.push(counters),
            Err(errno) => tracing::trace!(id, %errno, "counters"),
        }
    }
    Ok(all)
}

/// Whether `new` has something that `old` has not.
fn has_more(old: &ProgramState, new: &ProgramState) -> bool {
    fn adds<T: PartialEq>(old: &[T], new: &[T]) -> bool {
        new.iter().any(|it| !old.contains(it))
    }
    adds(&old.maps, &new.maps)
        || adds(&old.links, &new.links)
        || adds(&old.pins, &new.pins)
        || adds(&old.holders, &new.holders)
}

#[cfg(test)]
mod tests {
    use crate::perfdata::private::Holder;

    use super::*;

    #[test]
    fn a_state_is_news_if_something_came_and_none_if_something_went() {
        let holder = |pid| Holder { pid, ..Holder::default() };
        let state = |holders: &[i32], pins: &[&str]| ProgramState {
            holders: holders.iter().copied().map(holder).collect(),
            pins: pins.iter().map(|it| (*it).to_owned()).collect(),
            ..ProgramState::default()
        };
        assert!(!has_more(&state(&[1, 2], &["/a"]), &state(&[2], &[])));
        assert!(has_more(&state(&[1], &[]), &state(&[2], &[])));
        assert!(has_more(&state(&[1], &[]), &state(&[1], &["/a"])));
        let later = ProgramState { boot_ns: 9, ..state(&[1], &[]) };
        assert!(!has_more(&state(&[1], &[]), &later));
    }
}
