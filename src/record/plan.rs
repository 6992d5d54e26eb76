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

use std::ffi::CString;
use std::path::PathBuf;

use crate::events;
use crate::events::CallChains;
use crate::events::Event;
use crate::events::Filters;
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
    /// To tell what the watched tasks map and how they are called, while sampling is off.
    Tasks,
    /// To tell of all tasks on all CPUs.
    System,
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
    let samples_kernel =
        request.events.iter().any(|it| !it.attr.flags.contains(AttrFlags::EXCLUDE_KERNEL));
    // Without kernel addresses there is no use for the names of kernel addresses.
    let has_programs = request.bpf == FollowBpf::Yes && samples_kernel;
    let has_system = is_cpus || has_programs;
    let is_late = matches!(request.start, Start::AfterExec | Start::WhenToldLater);
    // Where samples go into a ring that is overwritten, somebody else tells of the tasks.
    let keeps_latest = request.keep == Keep::Latest;
    let has_tasks = !is_cpus && (is_late || keeps_latest);
    let n_events = request.events.len() + usize::from(has_system) + usize::from(has_tasks);

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
        });
    }
    read_groups(&mut plan);
    // What unwinds a stack may look for tables where data is mapped: `record_callchain_opt()` in
    // `tools/perf/builtin-record.c`.
    let copies_stack = plan.iter().any(|it| it.attr.sample_type.contains(SampleType::STACK_USER));
    let mut of_tasks = OF_TASKS | request.contents.of_tasks;
    of_tasks.set(AttrFlags::MMAP_DATA, copies_stack || of_tasks.contains(AttrFlags::MMAP_DATA));
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
        plan.push(planned_dummy(Role::Tasks, attr, targets));
    }
    if has_system {
        let mut kinds = AttrFlags::empty();
        kinds.set(OF_PROGRAMS, has_programs);
        kinds.set(of_tasks, is_cpus);
        let everywhere = request.online.iter().copied().map(perf_event::Target::Cpu).collect();
        plan.push(planned_dummy(Role::System, dummy(common, kinds, request), everywhere));
    }
    // Whichever of them comes to own a ring.
    for it in &mut plan {
        let is_overwritten = keeps_latest && it.role == Role::Sampling;
        it.attr.flags.set(AttrFlags::WRITE_BACKWARD, is_overwritten);
        it.attr.flags.set(AttrFlags::WATERMARK, request.wakeup_bytes.is_some());
        it.attr.wakeup = request.wakeup_bytes.unwrap_or(1);
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

fn planned_dummy(role: Role, attr: Attr, targets: Vec<perf_event::Target>) -> Planned {
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(watch: Watch, start: Start) -> Request {
        Request {
            events: vec![events::clock_instead(events::SOFTWARE_TASK_CLOCK)],
            watch,
            start,
            rate: Rate::Usual(4000),
            call_graph: CallChains::None,
            contents: Contents::default(),
            inherit: Inherit::Yes,
            ring_per: RingPer::Cpu,
            clock: None,
            bpf: FollowBpf::Yes,
            keep: Keep::All,
            online: vec![Cpu(0), Cpu(2)],
            wakeup_bytes: Some(4096),
        }
    }

    fn workload() -> Request {
        request(Watch::Threads(vec![Tid(7)]), Start::AtExec)
    }

    /// Role, side records and number of targets of each event.
    fn shape(request: &Request) -> Vec<(Role, AttrFlags, usize)> {
        let side = OF_TASKS | OF_PROGRAMS;
        plan(request).iter().map(|it| (it.role, it.attr.flags & side, it.targets.len())).collect()
    }

    #[test]
    fn a_workloads_first_event_tells_of_its_tasks_and_a_dummy_of_everyones_programs() {
        let want = [(Role::Sampling, OF_TASKS, 2), (Role::System, OF_PROGRAMS, 2)];
        assert_eq!(shape(&workload()), want);
    }

    #[test]
    fn on_cpus_one_dummy_tells_of_all() {
        let request = request(Watch::Cpus(vec![Cpu(2)]), Start::WhenTold);
        let none = AttrFlags::empty();
        let want = [(Role::Sampling, none, 1), (Role::System, OF_TASKS | OF_PROGRAMS, 2)];
        assert_eq!(shape(&request), want);
    }

    #[test]
    fn with_a_delay_the_tasks_have_a_dummy_that_does_not_wait() {
        let request = request(Watch::Threads(vec![Tid(7), Tid(8)]), Start::WhenToldLater);
        let want = [
            (Role::Sampling, AttrFlags::empty(), 4),
            (Role::Tasks, OF_TASKS, 4),
            (Role::System, OF_PROGRAMS, 2),
        ];
        assert_eq!(shape(&request), want);
        assert!(!plan(&request)[1].attr.flags.contains(AttrFlags::DISABLED));
    }

    #[test]
    fn where_the_latest_is_kept_samples_alone_are_overwritten() {
        let mut request = workload();
        request.keep = Keep::Latest;
        let none = AttrFlags::empty();
        let want =
            [(Role::Sampling, none, 2), (Role::Tasks, OF_TASKS, 2), (Role::System, OF_PROGRAMS, 2)];
        assert_eq!(shape(&request), want);
        let plan = plan(&request);
        let is_backward = |it: &Planned| it.attr.flags.contains(AttrFlags::WRITE_BACKWARD);
        assert_eq!(plan.iter().map(is_backward).collect::<Vec<_>>(), [true, false, false]);
        // The command's own records begin with its samples.
        let waits = AttrFlags::DISABLED | AttrFlags::ENABLE_ON_EXEC;
        assert!(plan[1].attr.flags.contains(waits));
    }

    #[test]
    fn without_kernel_samples_nobody_asks_for_kernel_symbols() {
        let mut request = workload();
        request.events[0].attr.flags |= AttrFlags::EXCLUDE_KERNEL;
        assert_eq!(shape(&request), [(Role::Sampling, OF_TASKS, 2)]);
        // One event needs no id to be told from others.
        assert!(!plan(&request)[0].attr.sample_type.contains(SampleType::IDENTIFIER));
    }

    #[test]
    fn where_all_tasks_may_not_be_watched_the_target_tells_of_its_own_programs() {
        let mut plan = plan(&workload());
        without_system(&mut plan);
        let only = plan.first().unwrap();
        assert_eq!(plan.len(), 1);
        assert!(only.attr.flags.contains(OF_TASKS | OF_PROGRAMS));
        assert!(!only.attr.sample_type.contains(SampleType::IDENTIFIER));
    }

    #[test]
    fn a_tracepoint_is_sampled_each_time_unless_told_otherwise() {
        let mut request = workload();
        request.events[0].attr.kind = events::KIND_TRACEPOINT;
        let attr = plan(&request)[0].attr;
        let more = SampleType::RAW | SampleType::CPU | SampleType::PERIOD;
        assert_eq!(attr.sample_period, 1);
        assert!(attr.sample_type.contains(more) && !attr.flags.contains(AttrFlags::FREQ));
        request.rate = Rate::Hertz(99);
        let attr = plan(&request)[0].attr;
        assert_eq!(attr.sample_period, 99);
        assert!(attr.flags.contains(AttrFlags::FREQ));
    }

    #[test]
    fn what_every_event_writes_agrees_where_a_reader_must_find_it() {
        let mut request = workload();
        let mut tracepoint = request.events[0].clone();
        tracepoint.attr.kind = events::KIND_TRACEPOINT;
        request.events.push(tracepoint);
        for it in plan(&request) {
            assert!(it.attr.sample_type.contains(SampleType::IDENTIFIER));
            assert_eq!(it.attr.read_format, ReadFormat::ID | ReadFormat::LOST);
            assert!(it.attr.flags.contains(AttrFlags::SAMPLE_ID_ALL));
        }
    }

    #[test]
    fn a_period_is_not_recorded_where_it_never_changes() {
        let mut request = workload();
        request.rate = Rate::Period(100_000);
        let attr = plan(&request)[0].attr;
        assert_eq!(attr.sample_period, 100_000);
        assert!(!attr.sample_type.contains(SampleType::PERIOD));
        assert!(!attr.flags.contains(AttrFlags::FREQ));
    }

    fn leader() -> Place {
        Place::Leader { name: None, is_weak: false }
    }

    /// A group of two events, the first with what `S` asks for.
    fn group(reads_group: bool) -> Vec<Planned> {
        let mut request = workload();
        let mut first = events::clock_instead(events::SOFTWARE_CPU_CLOCK);
        first.place = leader();
        first.terms.reads_group = reads_group;
        let mut second = first.clone();
        second.place = Place::Member;
        second.terms.max_stack = Some(7);
        request.events = vec![first, second];
        plan(&request)
    }

    #[test]
    fn a_member_runs_with_its_leader_and_is_sampled_by_itself() {
        let plan = group(false);
        let waits = AttrFlags::DISABLED | AttrFlags::ENABLE_ON_EXEC;
        assert_eq!(plan[0].attr.flags & waits, waits);
        assert_eq!(plan[1].attr.flags & (waits | AttrFlags::FREQ), AttrFlags::FREQ);
        assert_eq!(plan[1].attr.sample_period, 4000);
        assert!(!plan[0].attr.read_format.contains(ReadFormat::GROUP));
    }

    #[test]
    fn the_values_of_a_group_come_with_its_leaders_samples() {
        let plan = group(true);
        let (first, second) = (plan[0].attr, plan[1].attr);
        assert!(first.sample_type.contains(SampleType::READ));
        assert!(first.read_format.contains(ReadFormat::GROUP | ReadFormat::ID));
        assert_eq!(
            (second.sample_type, second.read_format),
            (first.sample_type, first.read_format)
        );
        assert_eq!((second.sample_period, second.flags & AttrFlags::FREQ), (0, AttrFlags::empty()));
    }

    #[test]
    fn an_events_own_terms_win() {
        let mut request = workload();
        request.rate = Rate::Hertz(99);
        request.call_graph = CallChains::FramePointers;
        request.events[0].terms = events::Terms {
            rate: Some(events::Rate::Period(500)),
            call_chains: Some(CallChains::None),
            max_stack: Some(5),
            is_inherited: Some(false),
            has_time: Some(false),
            ..events::Terms::default()
        };
        let attr = plan(&request)[0].attr;
        assert_eq!((attr.sample_period, attr.sample_max_stack), (500, 5));
        let none = SampleType::TIME | SampleType::CALLCHAIN | SampleType::PERIOD;
        assert!(!attr.sample_type.intersects(none));
        assert!(!attr.flags.intersects(AttrFlags::FREQ | AttrFlags::INHERIT));
    }

    #[test]
    fn unwinding_later_takes_registers_stack_and_data_mappings() {
        let mut request = workload();
        request.call_graph = CallChains::Dwarf { stack_bytes: 8192 };
        let attr = plan(&request)[0].attr;
        assert!(attr.sample_type.contains(WITH_DWARF));
        assert_eq!(attr.sample_stack_user, 8192);
        assert!(attr.flags.contains(AttrFlags::MMAP_DATA | AttrFlags::EXCLUDE_CALLCHAIN_USER));
    }

    #[test]
    fn what_else_a_sample_holds_comes_where_it_is_asked_for() {
        let mut request = request(Watch::Cpus(vec![Cpu(0)]), Start::WhenTold);
        let side = AttrFlags::NAMESPACES | AttrFlags::CGROUP | AttrFlags::CONTEXT_SWITCH;
        request.contents = Contents {
            fields: SampleType::PHYS_ADDR | SampleType::CGROUP | SampleType::REGS_USER,
            user_registers: 0x181,
            of_tasks: side,
            counts_tasks: true,
            ..Contents::default()
        };
        let plan = plan(&request);
        let fields = SampleType::PHYS_ADDR | SampleType::CGROUP | SampleType::REGS_USER;
        assert!(plan[0].attr.sample_type.contains(fields));
        assert!(plan[0].attr.flags.contains(AttrFlags::INHERIT_STAT));
        assert_eq!(plan[0].attr.sample_regs_user, 0x181);
        // A dummy has no samples, but its records end alike.
        assert_eq!(plan[1].attr.sample_type & fields, SampleType::CGROUP);
        assert!(plan[1].attr.flags.contains(side) && !plan[0].attr.flags.intersects(side));
    }

    #[test]
    fn breakpoints_and_probes_are_sampled_each_time_and_note_nothing() {
        let mut request = workload();
        request.events[0].attr.kind = events::KIND_BREAKPOINT;
        let attr = plan(&request)[0].attr;
        assert_eq!((attr.sample_period, attr.flags & AttrFlags::FREQ), (1, AttrFlags::empty()));
        assert!(!attr.sample_type.intersects(SampleType::RAW | SampleType::PERIOD));
    }

    #[test]
    fn an_event_of_some_cpus_is_opened_there_alone() {
        let mut request = request(Watch::Cpus(vec![Cpu(0), Cpu(2)]), Start::WhenTold);
        request.events[0].cpus = Some(vec![Cpu(2), Cpu(5)]);
        let plan = plan(&request);
        assert_eq!(plan[0].targets, [perf_event::Target::Cpu(Cpu(2))]);
        assert_eq!(plan[1].targets.len(), 2);
    }

    #[test]
    fn with_a_ring_per_thread_events_are_of_no_cpu_and_of_no_child() {
        let mut request = request(Watch::Threads(vec![Tid(7), Tid(8)]), Start::WhenToldLater);
        request.ring_per = RingPer::Thread;
        request.events[0].terms.is_inherited = Some(true);
        let plan = plan(&request);
        let of_tasks = [perf_event::Target::Task(Tid(7)), perf_event::Target::Task(Tid(8))];
        for it in plan.iter().filter(|it| it.role != Role::System) {
            assert_eq!(it.targets, of_tasks);
            assert!(!it.attr.flags.contains(AttrFlags::INHERIT));
        }
        assert_eq!((plan.len(), plan[2].targets.len()), (3, 2));
    }

    #[test]
    fn all_events_have_the_clock_that_was_asked_for() {
        let mut request = request(Watch::Threads(vec![Tid(7)]), Start::WhenToldLater);
        request.clock = Some(7);
        for it in plan(&request) {
            assert_eq!(it.attr.clockid, 7);
            assert!(it.attr.flags.contains(AttrFlags::USE_CLOCKID));
        }
    }

    #[test]
    fn a_cgroup_is_its_events_alone() {
        let mut request = request(Watch::Cpus(vec![Cpu(0)]), Start::WhenTold);
        request.events[0].cgroup = Some(PathBuf::from("/cg/a"));
        let plan = plan(&request);
        assert_eq!(plan[0].cgroup, Some(PathBuf::from("/cg/a")));
        assert_eq!((plan[1].role, plan[1].cgroup.as_ref()), (Role::System, None));
    }

    #[test]
    fn the_hardwares_call_stack_is_of_user_space_and_excludes_other_branches() {
        let mut request = workload();
        request.call_graph = CallChains::Lbr;
        let attr = plan(&request)[0].attr;
        assert!(attr.sample_type.contains(SampleType::CALLCHAIN | SampleType::BRANCH_STACK));
        // user, call stack, no flags, no cycles, index
        assert_eq!(attr.branch_sample_type, 1 | 1 << 11 | 1 << 14 | 1 << 15 | 1 << 17);
        request.contents.fields = SampleType::BRANCH_STACK;
        request.contents.branches = registers::ANY_BRANCH;
        let attr = plan(&request)[0].attr;
        assert_eq!(attr.branch_sample_type, registers::ANY_BRANCH);
        assert!(attr.sample_type.contains(SampleType::CALLCHAIN));
    }

    #[test]
    fn halves_of_call_chains_are_left_out_where_there_are_call_chains() {
        let mut request = workload();
        request.contents.no_chains = AttrFlags::EXCLUDE_CALLCHAIN_KERNEL;
        let is_left_out = |request: &Request| {
            plan(request)[0].attr.flags.contains(AttrFlags::EXCLUDE_CALLCHAIN_KERNEL)
        };
        assert!(!is_left_out(&request));
        request.call_graph = CallChains::FramePointers;
        assert!(is_left_out(&request));
        request.contents.max_stack = 5;
        assert_eq!(plan(&request)[0].attr.sample_max_stack, 5);
        request.events[0].terms.call_chains = Some(CallChains::FramePointers);
        assert_eq!(plan(&request)[0].attr.sample_max_stack, 0);
    }

    #[test]
    fn nothing_is_sampled_but_by_events_that_say_how_often() {
        let mut request = workload();
        request.rate = Rate::Never;
        let attr = plan(&request)[0].attr;
        assert_eq!((attr.sample_period, attr.flags & AttrFlags::FREQ), (0, AttrFlags::FREQ));
        request.events[0].terms.rate = Some(events::Rate::Period(7));
        assert_eq!(plan(&request)[0].attr.sample_period, 7);
        request.events[0].terms.rate = None;
        request.events[0].attr.kind = events::KIND_TRACEPOINT;
        let attr = plan(&request)[0].attr;
        assert_eq!((attr.sample_period, attr.flags & AttrFlags::FREQ), (0, AttrFlags::empty()));
    }

    #[test]
    fn each_sample_wakes_the_recorder_where_nothing_is_held_back() {
        let mut request = workload();
        request.wakeup_bytes = None;
        for it in plan(&request) {
            assert_eq!(
                (it.attr.wakeup, it.attr.flags & AttrFlags::WATERMARK),
                (1, AttrFlags::empty())
            );
        }
    }
}
