//! What is opened, for whom and when.

use super::super::outputs::Sieve;
use super::*;

/// What is asked for where nothing is said.
pub(in crate::record) fn request(watch: Watch, start: Start) -> Request {
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
        outputs: Vec::new(),
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

/// An event that programs write into.
fn written(name: &str) -> OutputEvent {
    OutputEvent {
        name: name.to_owned(),
        call_graph: CallChains::FramePointers,
        max_stack: 0,
        fields: SampleType::empty(),
        cgroup: None,
        through: Through::Events,
        sieve: Sieve::OfTarget,
        object: None,
    }
}

#[test]
fn what_programs_write_is_taken_on_all_cpus_and_all_tasks_of_the_target_are_told_of() {
    let mut request = workload();
    request.outputs = vec![written("a"), written("b")];
    let none = AttrFlags::empty();
    let want = [
        (Role::Sampling, none, 2),
        (Role::Output, none, 2),
        (Role::Output, none, 2),
        (Role::Tasks, OF_TASKS, 2),
        (Role::System, OF_PROGRAMS, 2),
    ];
    assert_eq!(shape(&request), want);
    let planned = &plan(&request)[1];
    assert_eq!(planned.targets, [0, 2].map(|it| perf_event::Target::Cpu(Cpu(it))));
    assert!(events::is_bpf_output(&planned.attr));
    // CPUs have no exec.
    let waits = AttrFlags::DISABLED | AttrFlags::ENABLE_ON_EXEC;
    assert_eq!(planned.attr.flags & waits, AttrFlags::DISABLED);
    let fields = SampleType::RAW | SampleType::CALLCHAIN | SampleType::IDENTIFIER;
    assert!(planned.attr.sample_type.contains(fields));
    // Without anything else the target's tasks are told of all the same.
    request.events.clear();
    assert_eq!(shape(&request), want[1..]);
    request.watch = Watch::Cpus(vec![Cpu(2)]);
    request.start = Start::WhenTold;
    let want = [
        (Role::Output, none, 1),
        (Role::Output, none, 1),
        (Role::System, OF_TASKS | OF_PROGRAMS, 2),
    ];
    assert_eq!(shape(&request), want);
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
    // Switches are as many as samples, and overwritten with them.
    request.contents.of_tasks = AttrFlags::CONTEXT_SWITCH;
    let switches = |it: &Planned| it.attr.flags.contains(AttrFlags::CONTEXT_SWITCH);
    let with_switches = super::plan(&request);
    assert_eq!(with_switches.iter().map(switches).collect::<Vec<_>>(), [true, false, false]);
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
    assert_eq!((second.sample_type, second.read_format), (first.sample_type, first.read_format));
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
        assert_eq!((it.attr.wakeup, it.attr.flags & AttrFlags::WATERMARK), (1, AttrFlags::empty()));
    }
}

#[test]
fn many_cpus_have_a_target_each_and_no_more() {
    let many: Vec<Cpu> = (0..512).map(Cpu).collect();
    let mut request = request(Watch::Cpus(many.clone()), Start::WhenTold);
    request.online = many.clone();
    assert_eq!(shape(&request).iter().map(|it| it.2).collect::<Vec<_>>(), [512, 512]);
    let mut request = workload();
    request.online = many;
    assert_eq!(shape(&request).iter().map(|it| it.2).collect::<Vec<_>>(), [512, 512]);
}
