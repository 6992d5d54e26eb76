//! What to open, decided before anything is: events, their attributes, and on whom.
//!
//! ```text
//!                 sampling events            who sees mmap, comm, task     who sees BPF programs
//! workload, -p    a task on each CPU         the first sampling event      a dummy on each CPU
//!   per thread    a task wherever it runs    likewise                      a dummy on each CPU
//!   with delay    likewise, on later         a dummy of the task's own     a dummy on each CPU
//!   the latest    likewise, backward         a dummy of the task's own     a dummy on each CPU
//! -a, -C          each CPU                   a dummy on each CPU           the same dummy
//! ```
//!
//! The dummies are on from open to close, whatever starts and stops the sampling. Nobody but one
//! event asks for one kind of side record, else each came twice.

#[cfg(test)]
pub(super) mod tests;

use std::ffi::CString;
use std::path::PathBuf;

use crate::events;
use crate::events::CallChains;
use crate::events::Event;
use crate::events::Filters;
use crate::events::OfObject;
use crate::events::Place;
use crate::events::Precision;
use crate::events::registers;
use crate::perfdata::Attr;
use crate::perfdata::AttrFlags;
use crate::perfdata::ReadFormat;
use crate::perfdata::SampleType;
use crate::sys::perf_event;
use crate::units::Cpu;
use crate::units::Tid;

use super::config::Contents;
use super::config::FollowBpf;
use super::config::Inherit;
use super::config::Keep;
use super::config::Rate;
use super::config::RingPer;
use super::outputs::OutputEvent;
use super::outputs::Sieve;
use super::outputs::Through;
use super::rings;

/// What the plan depends on, of all that was asked for.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) events: Vec<Event>,
    pub(super) watch: Watch,
    pub(super) start: Start,
    pub(super) rate: Rate,
    pub(super) call_graph: CallChains,
    pub(super) contents: Contents,
    pub(super) inherit: Inherit,
    pub(super) ring_per: RingPer,
    /// The clock of all times, if not the kernel's own.
    pub(super) clock: Option<i32>,
    pub(super) bpf: FollowBpf,
    pub(super) keep: Keep,
    pub(super) online: Vec<Cpu>,
    /// The events that BPF programs write into.
    pub(super) outputs: Vec<OutputEvent>,
    /// How many unread bytes in a ring wake the recorder; `None` if each sample does.
    pub(super) wakeup_bytes: Option<u32>,
}

/// Whom the sampling events watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Watch {
    /// Whoever runs on these CPUs.
    Cpus(Vec<Cpu>),
    /// These threads, on every CPU.
    Threads(Vec<Tid>),
}

/// When sampling begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// At the exec of the workload.
    AtExec,
    /// At the exec, but so that it can be put off until told: its records come from the exec on.
    AfterExec,
    /// When told.
    WhenTold,
    /// When told, but records of the tasks come from the open on.
    WhenToldLater,
}

/// What an event is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// To sample.
    Sampling,
    /// To take what BPF programs write, on all CPUs that somebody watched may run on.
    Output,
    /// To tell what the watched tasks map and how they are called, while sampling is off.
    Tasks,
    /// To tell of all tasks on all CPUs.
    System,
}

impl Role {
    /// Whether samples come of it, while sampling is on.
    pub(super) fn samples(self) -> bool {
        matches!(self, Self::Sampling | Self::Output)
    }
}

/// One event to be opened on several targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Planned {
    pub(super) role: Role,
    pub(super) name: String,
    pub(super) attr: Attr,
    pub(super) precision: Precision,
    pub(super) targets: Vec<perf_event::Target>,
    /// Where it stands in a group; members follow their leader.
    pub(super) place: Place,
    /// The file that it is a probe in.
    pub(super) probe: Option<CString>,
    /// The folder of the cgroup whose tasks alone it watches.
    pub(super) cgroup: Option<PathBuf>,
    pub(super) filters: Filters,
    /// The part of a BPF object that it is.
    pub(super) object: Option<OfObject>,
    /// Whether a clock can stand in for it.
    pub(super) is_usual: bool,
}

/// The side records that tell of tasks.
pub(super) const OF_TASKS: AttrFlags = AttrFlags::MMAP
    .union(AttrFlags::MMAP2)
    .union(AttrFlags::COMM)
    .union(AttrFlags::COMM_EXEC)
    .union(AttrFlags::TASK)
    .union(AttrFlags::BUILD_ID);

/// The registers and the stack of user space are copied for whoever unwinds it later.
const WITH_DWARF: SampleType =
    SampleType::CALLCHAIN.union(SampleType::REGS_USER).union(SampleType::STACK_USER);

/// The side records that tell of BPF programs.
pub(super) const OF_PROGRAMS: AttrFlags = AttrFlags::KSYMBOL.union(AttrFlags::BPF_EVENT);

/// The events to open, in the order in which they stand in the file: sampling events first.
pub(super) fn plan(request: &Request) -> Vec<Planned> {
    let targets = targets(request);
    let is_cpus = matches!(request.watch, Watch::Cpus(_));
    let has_outputs = !request.outputs.is_empty();
    let samples_kernel = has_outputs
        || request.events.iter().any(|it| !it.attr.flags.contains(AttrFlags::EXCLUDE_KERNEL));
    // Without kernel addresses there is no use for the names of kernel addresses.
    let has_programs = request.bpf == FollowBpf::Yes && samples_kernel;
    let has_system = is_cpus || has_programs;
    let is_late = matches!(request.start, Start::AfterExec | Start::WhenToldLater);
    // Where samples go into a ring that is overwritten, somebody else tells of the tasks.
    let keeps_latest = request.keep == Keep::Latest;
    // What programs write is of the target only if all its tasks are known, at any time.
    let sifts = request.outputs.iter().any(|it| matches!(it.sieve, Sieve::OfTarget));
    let has_tasks = !is_cpus && (is_late || keeps_latest || sifts);
    let n_events = request.events.len()
        + request.outputs.len()
        + usize::from(has_system)
        + usize::from(has_tasks);

    let mut common = SampleType::IP | SampleType::TID | SampleType::TIME;
    let of_all = SampleType::IDENTIFIER | SampleType::CPU | SampleType::CGROUP;
    common |= request.contents.fields & of_all;
    if 1 < n_events {
        common |= SampleType::IDENTIFIER;
    }
    if is_cpus {
        common |= SampleType::CPU;
    }
    let mut plan: Vec<Planned> = Vec::with_capacity(n_events);
    for event in &request.events {
        let leader = plan.iter().rev().find(|it| it.place != Place::Member);
        let leader = leader.filter(|_| event.place == Place::Member).map(|it| it.attr);
        let attr = sampling(event, common, leader.as_ref(), request);
        let is_on = |it: &perf_event::Target| {
            event
                .cpus
                .as_ref()
                .is_none_or(|on| rings::cpu_of(*it).is_none_or(|it| on.contains(&it)))
        };
        plan.push(Planned {
            role: Role::Sampling,
            name: event.name.clone(),
            attr,
            precision: event.precision,
            targets: targets.iter().copied().filter(is_on).collect(),
            place: event.place.clone(),
            // A path with a zero leads nowhere, and the kernel says so of an empty one.
            probe: event.probe.as_ref().map(|it| CString::new(&*it.path).unwrap_or_default()),
            cgroup: event.cgroup.clone(),
            filters: event.filters.clone(),
            object: event.object.clone(),
            is_usual: event.is_usual,
        });
    }
    read_groups(&mut plan);
    // What unwinds a stack may look for tables where data is mapped: `record_callchain_opt()` in
    // `tools/perf/builtin-record.c`.
    let copies_stack = plan.iter().any(|it| it.attr.sample_type.contains(SampleType::STACK_USER));
    let mut of_tasks = OF_TASKS | request.contents.of_tasks;
    of_tasks.set(AttrFlags::MMAP_DATA, copies_stack || of_tasks.contains(AttrFlags::MMAP_DATA));
    if keeps_latest && of_tasks.contains(AttrFlags::CONTEXT_SWITCH) {
        // As many as samples, and of use beside these alone.
        of_tasks.remove(AttrFlags::CONTEXT_SWITCH);
        plan.first_mut().into_iter().for_each(|it| it.attr.flags |= AttrFlags::CONTEXT_SWITCH);
    }
    for event in &request.outputs {
        // Who leaves a CPU that is watched may come back on another.
        let is_anywhere = matches!(event.sieve, Sieve::OffCpu(_));
        let watched = match &request.watch {
            Watch::Cpus(cpus) if !is_anywhere => cpus,
            _ => &request.online,
        };
        // One that nobody writes into has an id, and that is all.
        let n_cpus = if event.through == Through::Events { watched.len() } else { 1 };
        let cpus = watched.iter().copied().take(n_cpus);
        let targets = cpus.map(perf_event::Target::Cpu).collect();
        plan.push(Planned {
            name: event.name.clone(),
            cgroup: event.cgroup.clone(),
            object: event.object.clone(),
            ..alone(Role::Output, output(event, common, request), targets)
        });
    }
    if let Some(first) = plan.first_mut().filter(|_| !is_cpus && !has_tasks) {
        first.attr.flags |= of_tasks;
    }
    if has_tasks {
        let mut attr = dummy(common, of_tasks, request);
        if request.inherit == Inherit::Yes && request.ring_per == RingPer::Cpu {
            attr.flags |= AttrFlags::INHERIT;
        }
        if matches!(request.start, Start::AtExec | Start::AfterExec) {
            attr.flags |= AttrFlags::DISABLED | AttrFlags::ENABLE_ON_EXEC;
        }
        plan.push(alone(Role::Tasks, attr, targets));
    }
    if has_system {
        let mut kinds = AttrFlags::empty();
        kinds.set(OF_PROGRAMS, has_programs);
        kinds.set(of_tasks, is_cpus);
        let everywhere = request.online.iter().copied().map(perf_event::Target::Cpu).collect();
        plan.push(alone(Role::System, dummy(common, kinds, request), everywhere));
    }
    // Whichever of them comes to own a ring.
    for it in &mut plan {
        let is_overwritten = keeps_latest && it.role == Role::Sampling;
        it.attr.flags.set(AttrFlags::WRITE_BACKWARD, is_overwritten);
        it.attr.flags.set(AttrFlags::WATERMARK, request.wakeup_bytes.is_some());
        it.attr.wakeup = request.wakeup_bytes.unwrap_or(1);
        if request.ring_per == RingPer::Thread && it.role == Role::System {
            it.attr.wakeup = it.attr.wakeup.min(rings::wakeup_bytes(rings::SIDE_RING));
        }
        // One clock for all, since they share rings and order.
        if let Some(clock) = request.clock {
            it.attr.flags |= AttrFlags::USE_CLOCKID;
            it.attr.clockid = clock;
        }
    }
    plan
}

/// The plan for when all tasks may not be watched: the programs that the watched tasks load are
/// told by whoever tells of these tasks.
pub(super) fn without_system(plan: &mut Vec<Planned>) {
    plan.retain(|it| it.role != Role::System);
    if let Some(it) = plan.iter_mut().find(|it| it.attr.flags.contains(AttrFlags::TASK)) {
        it.attr.flags |= OF_PROGRAMS;
    }
    if let [only] = &mut plan[..] {
        only.attr.sample_type.remove(SampleType::IDENTIFIER);
    }
}

fn targets(request: &Request) -> Vec<perf_event::Target> {
    match &request.watch {
        Watch::Cpus(cpus) => cpus.iter().copied().map(perf_event::Target::Cpu).collect(),
        Watch::Threads(tids) if request.ring_per == RingPer::Thread => {
            tids.iter().copied().map(perf_event::Target::Task).collect()
        }
        Watch::Threads(tids) => {
            let on_each_cpu =
                |&cpu: &Cpu| tids.iter().map(move |&tid| perf_event::Target::TaskOnCpu(tid, cpu));
            request.online.iter().flat_map(on_each_cpu).collect()
        }
    }
}

/// The attribute of an event that samples; `leader` is that of the group that it is a member of.
fn sampling(event: &Event, common: SampleType, leader: Option<&Attr>, request: &Request) -> Attr {
    let (terms, contents) = (&event.terms, &request.contents);
    let mut attr = event.attr;
    let notes = attr.kind == events::KIND_TRACEPOINT || events::is_bpf_output(&attr);
    // What is noted or hit is rare and worth a sample each time.
    let is_each = notes || attr.kind == events::KIND_BREAKPOINT || event.probe.is_some();
    attr.sample_type = common | contents.fields;
    attr.read_format = ReadFormat::ID | ReadFormat::LOST | contents.reads;
    attr.flags |= AttrFlags::SAMPLE_ID_ALL;
    // A member runs with its leader.
    attr.flags.set(AttrFlags::DISABLED, leader.is_none());
    let rate = match terms.rate {
        Some(events::Rate::Hertz(hertz)) => Rate::Hertz(hertz),
        Some(events::Rate::Period(period)) => Rate::Period(period),
        None => request.rate,
    };
    match rate {
        Rate::Usual(_) if is_each => attr.sample_period = 1,
        Rate::Usual(hertz) | Rate::Hertz(hertz) => {
            attr.sample_period = hertz;
            attr.flags |= AttrFlags::FREQ;
            attr.sample_type |= SampleType::PERIOD;
        }
        Rate::Period(period) => attr.sample_period = period,
        Rate::Never if is_each => attr.sample_period = 0,
        // As perf: a frequency of none.
        Rate::Never => {
            attr.flags |= AttrFlags::FREQ;
            attr.sample_type |= SampleType::PERIOD;
        }
    }
    if notes {
        attr.sample_type |= SampleType::RAW | SampleType::CPU | SampleType::PERIOD;
    }
    attr.sample_type.set(SampleType::READ, terms.reads_group);
    attr.sample_regs_user = contents.user_registers;
    attr.sample_regs_intr = contents.registers;
    attr.branch_sample_type = contents.branches;
    if let Some(branches) = terms.branches {
        attr.sample_type |= SampleType::BRANCH_STACK;
        attr.branch_sample_type = branches;
    }
    if terms.has_retire_latency {
        attr.sample_type |= SampleType::WEIGHT_STRUCT;
    }
    if terms.has_time == Some(false) {
        attr.sample_type.remove(SampleType::TIME);
    }
    let of_all = terms.call_chains.map_or(contents.max_stack, |_| 0);
    attr.sample_max_stack = terms.max_stack.unwrap_or(of_all);
    call_chains(terms.call_chains.unwrap_or(request.call_graph), &mut attr);
    if attr.sample_type.contains(SampleType::CALLCHAIN) {
        attr.flags |= contents.no_chains;
    }
    let inherits = terms.is_inherited.unwrap_or(request.inherit == Inherit::Yes);
    // The kernel maps no ring for an event that is of no CPU and goes on in children.
    let inherits = inherits && request.ring_per == RingPer::Cpu;
    if matches!(request.watch, Watch::Threads(_)) {
        attr.flags.set(AttrFlags::INHERIT, inherits);
        let is_at_exec = request.start == Start::AtExec && leader.is_none();
        attr.flags.set(AttrFlags::ENABLE_ON_EXEC, is_at_exec);
    }
    attr.flags.set(AttrFlags::INHERIT_STAT, contents.counts_tasks);
    attr
}

fn call_chains(method: CallChains, attr: &mut Attr) {
    match method {
        CallChains::None => {}
        CallChains::FramePointers => attr.sample_type |= SampleType::CALLCHAIN,
        CallChains::Dwarf { stack_bytes } => {
            attr.sample_type |= WITH_DWARF;
            attr.sample_regs_user = registers::all_registers();
            attr.sample_stack_user = stack_bytes;
            attr.flags |= AttrFlags::EXCLUDE_CALLCHAIN_USER;
        }
        // The hardware keeps one record of branches, and stacks of user space alone.
        CallChains::Lbr
            if attr.sample_type.contains(SampleType::BRANCH_STACK)
                || attr.flags.contains(AttrFlags::EXCLUDE_USER) =>
        {
            attr.sample_type |= SampleType::CALLCHAIN;
        }
        CallChains::Lbr => {
            attr.sample_type |= SampleType::CALLCHAIN | SampleType::BRANCH_STACK;
            attr.branch_sample_type = registers::CALL_STACK_BRANCHES;
        }
    }
}

/// Where a leader's samples hold the values of its members (`S`), these have no samples of their
/// own: a reader makes them from the leader's, so that they look alike.
///
/// Source: `evsel__config_leader_sampling()` in `tools/perf/util/record.c`.
fn read_groups(plan: &mut [Planned]) {
    let mut leader: Option<Attr> = None;
    let mut at = plan.iter_mut().peekable();
    while let Some(it) = at.next() {
        let is_read = it.attr.sample_type.contains(SampleType::READ);
        match it.place {
            Place::Alone => leader = None,
            Place::Leader { .. } => {
                let has_members = at.peek().is_some_and(|it| it.place == Place::Member);
                if is_read && has_members {
                    it.attr.read_format |= ReadFormat::GROUP;
                }
                leader = Some(it.attr).filter(|_| is_read);
            }
            Place::Member => {
                let Some(leader) = &leader else { continue };
                it.attr.sample_period = 0;
                it.attr.flags.remove(AttrFlags::FREQ);
                it.attr.sample_type = leader.sample_type;
                it.attr.read_format = leader.read_format;
            }
        }
    }
}

/// An event that never happens, for the side records that come with it.
fn dummy(common: SampleType, kinds: AttrFlags, request: &Request) -> Attr {
    Attr {
        kind: events::KIND_SOFTWARE,
        config: events::SOFTWARE_DUMMY,
        sample_period: 1,
        sample_type: common,
        read_format: ReadFormat::ID | ReadFormat::LOST | request.contents.reads,
        flags: kinds | AttrFlags::SAMPLE_ID_ALL | AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
        ..Attr::default()
    }
}

/// The attribute of an event that BPF programs write into.
fn output(event: &OutputEvent, common: SampleType, request: &Request) -> Attr {
    let mut attr = Attr {
        kind: events::KIND_SOFTWARE,
        config: events::SOFTWARE_BPF_OUTPUT,
        sample_period: 1,
        sample_type: common | SampleType::CPU | SampleType::PERIOD | SampleType::RAW | event.fields,
        read_format: ReadFormat::ID | ReadFormat::LOST | request.contents.reads,
        flags: AttrFlags::SAMPLE_ID_ALL | AttrFlags::DISABLED,
        ..Attr::default()
    };
    let method = match event.call_graph {
        // A message comes without.
        _ if event.through == Through::Messages => CallChains::None,
        // A software event has no record of branches.
        CallChains::Lbr => CallChains::FramePointers,
        method => method,
    };
    call_chains(method, &mut attr);
    if attr.sample_type.contains(SampleType::CALLCHAIN) {
        attr.flags |= request.contents.no_chains;
        attr.sample_max_stack = event.max_stack;
    }
    attr
}

/// An event for `role` that is in no group and asks for nothing.
fn alone(role: Role, attr: Attr, targets: Vec<perf_event::Target>) -> Planned {
    let name = "dummy:u".to_owned();
    Planned {
        role,
        name,
        attr,
        precision: Precision::Exact,
        targets,
        place: Place::Alone,
        probe: None,
        cgroup: None,
        filters: Filters::default(),
        object: None,
        is_usual: false,
    }
}
