//! What to open, decided before anything is: events, their attributes, and on whom.
//!
//! ```text
//!                 sampling events            who sees mmap, comm, task     who sees BPF programs
//! workload, -p    a task on each CPU         the first sampling event      a dummy on each CPU
//!   with delay    likewise, on later         a dummy of the task's own     a dummy on each CPU
//! -a, -C          each CPU                   a dummy on each CPU           the same dummy
//! ```
//!
//! The dummies are on from open to close, whatever starts and stops the sampling. Nobody but one
//! event asks for one kind of side record, else each came twice.

use crate::events;
use crate::events::Event;
use crate::events::Precision;
use crate::perfdata::Attr;
use crate::perfdata::AttrFlags;
use crate::perfdata::ReadFormat;
use crate::perfdata::SampleType;
use crate::sys::perf_event;
use crate::units::Cpu;
use crate::units::Tid;

use super::config::CallGraph;
use super::config::FollowBpf;
use super::config::Inherit;
use super::config::Rate;

/// What the plan depends on, of all that was asked for.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) events: Vec<Event>,
    pub(super) watch: Watch,
    pub(super) start: Start,
    pub(super) rate: Rate,
    pub(super) call_graph: CallGraph,
    pub(super) inherit: Inherit,
    pub(super) bpf: FollowBpf,
    pub(super) online: Vec<Cpu>,
    /// How many unread bytes in a ring wake the recorder.
    pub(super) wakeup_bytes: u32,
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
}

/// The side records that tell of tasks.
const OF_TASKS: AttrFlags = AttrFlags::MMAP
    .union(AttrFlags::MMAP2)
    .union(AttrFlags::COMM)
    .union(AttrFlags::COMM_EXEC)
    .union(AttrFlags::TASK)
    .union(AttrFlags::BUILD_ID);

/// The side records that tell of BPF programs.
pub(super) const OF_PROGRAMS: AttrFlags = AttrFlags::KSYMBOL.union(AttrFlags::BPF_EVENT);

/// The events to open, in the order in which they stand in the file: sampling events first.
pub(super) fn plan(request: &Request) -> Vec<Planned> {
    let targets = targets(&request.watch, &request.online);
    let is_cpus = matches!(request.watch, Watch::Cpus(_));
    let samples_kernel =
        request.events.iter().any(|it| !it.attr.flags.contains(AttrFlags::EXCLUDE_KERNEL));
    // Without kernel addresses there is no use for the names of kernel addresses.
    let has_programs = request.bpf == FollowBpf::Yes && samples_kernel;
    let has_system = is_cpus || has_programs;
    let is_late = matches!(request.start, Start::AfterExec | Start::WhenToldLater);
    let has_tasks = !is_cpus && is_late;
    let n_events = request.events.len() + usize::from(has_system) + usize::from(has_tasks);

    let mut common = SampleType::IP | SampleType::TID | SampleType::TIME;
    if 1 < n_events {
        common |= SampleType::IDENTIFIER;
    }
    if is_cpus {
        common |= SampleType::CPU;
    }
    let mut plan = Vec::with_capacity(n_events);
    for event in &request.events {
        let mut attr = sampling(event, common, request);
        if plan.is_empty() && !is_cpus && !has_tasks {
            attr.flags |= OF_TASKS;
        }
        plan.push(Planned {
            role: Role::Sampling,
            name: event.name.clone(),
            attr,
            precision: event.precision,
            targets: targets.clone(),
        });
    }
    if has_tasks {
        let mut attr = dummy(common, OF_TASKS);
        if request.inherit == Inherit::Yes {
            attr.flags |= AttrFlags::INHERIT;
        }
        if request.start == Start::AfterExec {
            attr.flags |= AttrFlags::DISABLED | AttrFlags::ENABLE_ON_EXEC;
        }
        plan.push(planned_dummy(Role::Tasks, attr, targets));
    }
    if has_system {
        let mut kinds = AttrFlags::empty();
        kinds.set(OF_PROGRAMS, has_programs);
        kinds.set(OF_TASKS, is_cpus);
        let everywhere = request.online.iter().copied().map(perf_event::Target::Cpu).collect();
        plan.push(planned_dummy(Role::System, dummy(common, kinds), everywhere));
    }
    // Whichever of them comes to own a ring.
    for it in &mut plan {
        it.attr.flags |= AttrFlags::WATERMARK;
        it.attr.wakeup = request.wakeup_bytes;
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

fn targets(watch: &Watch, online: &[Cpu]) -> Vec<perf_event::Target> {
    match watch {
        Watch::Cpus(cpus) => cpus.iter().copied().map(perf_event::Target::Cpu).collect(),
        Watch::Threads(tids) => {
            let on_each_cpu =
                |&cpu: &Cpu| tids.iter().map(move |&tid| perf_event::Target::TaskOnCpu(tid, cpu));
            online.iter().flat_map(on_each_cpu).collect()
        }
    }
}

fn sampling(event: &Event, common: SampleType, request: &Request) -> Attr {
    let mut attr = event.attr;
    // A tracepoint or a program's output is rare and worth a sample each time.
    let is_each = attr.kind == events::KIND_TRACEPOINT || events::is_bpf_output(&attr);
    attr.sample_type = common;
    attr.read_format = ReadFormat::ID | ReadFormat::LOST;
    attr.flags |= AttrFlags::DISABLED | AttrFlags::SAMPLE_ID_ALL;
    match request.rate {
        Rate::Usual(_) if is_each => attr.sample_period = 1,
        Rate::Usual(hertz) | Rate::Hertz(hertz) => {
            attr.sample_period = hertz;
            attr.flags |= AttrFlags::FREQ;
            attr.sample_type |= SampleType::PERIOD;
        }
        Rate::Period(period) => attr.sample_period = period,
    }
    if is_each {
        attr.sample_type |= SampleType::RAW | SampleType::CPU | SampleType::PERIOD;
    }
    if request.call_graph == CallGraph::FramePointers {
        attr.sample_type |= SampleType::CALLCHAIN;
    }
    if matches!(request.watch, Watch::Threads(_)) {
        attr.flags.set(AttrFlags::INHERIT, request.inherit == Inherit::Yes);
        attr.flags.set(AttrFlags::ENABLE_ON_EXEC, request.start == Start::AtExec);
    }
    attr
}

/// An event that never happens, for the side records that come with it.
fn dummy(common: SampleType, kinds: AttrFlags) -> Attr {
    Attr {
        kind: events::KIND_SOFTWARE,
        config: events::SOFTWARE_DUMMY,
        sample_period: 1,
        sample_type: common,
        read_format: ReadFormat::ID | ReadFormat::LOST,
        flags: kinds | AttrFlags::SAMPLE_ID_ALL | AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
        ..Attr::default()
    }
}

fn planned_dummy(role: Role, attr: Attr, targets: Vec<perf_event::Target>) -> Planned {
    let name = "dummy:u".to_owned();
    Planned { role, name, attr, precision: Precision::Exact, targets }
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
            call_graph: CallGraph::None,
            inherit: Inherit::Yes,
            bpf: FollowBpf::Yes,
            online: vec![Cpu(0), Cpu(2)],
            wakeup_bytes: 4096,
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
}
