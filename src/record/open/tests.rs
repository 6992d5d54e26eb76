//! Opening on kernels that say no.

use crate::events;
use crate::perfdata::Cursor;
use crate::perfdata::Endian;
use crate::units::FileOffset;
use crate::units::Tid;

use super::super::plan::Request;
use super::super::plan::Start;
use super::super::plan::Watch;
use super::*;

/// A kernel that says no as `refuse` says, and keeps what it was asked.
struct Fake<F> {
    refuse: F,
    asked: Vec<(Attr, Target, Option<usize>)>,
    /// What is probed, as it was named.
    probed: Vec<String>,
}

impl<F: Fn(&Attr, Target) -> Option<Errno>> Opener for Fake<F> {
    /// How many were asked for before.
    type Fd = usize;

    fn open(&mut self, attr: &[u8], target: Target, with: With<'_, usize>) -> Result<usize, Errno> {
        let mut cursor = Cursor::new(attr, FileOffset(0), Endian::NATIVE);
        let attr = Attr::decode(&mut cursor).unwrap();
        self.asked.push((attr, target, with.leader.copied()));
        self.probed.extend(with.path.map(|it| it.to_string_lossy().into_owned()));
        let n = self.asked.len() - 1;
        (self.refuse)(&attr, target).map_or(Ok(n), Err)
    }
}

fn request(watch: Watch) -> Request {
    Request {
        events: vec![events::default_event()],
        online: vec![Cpu(0), Cpu(1)],
        ..plan::tests::request(watch, Start::AtExec)
    }
}

fn workload() -> Request {
    request(Watch::Threads(vec![Tid(7)]))
}

type Result3 = (Result<Vec<Opened<usize>>, OpenError>, Vec<Note>, usize);

fn open(request: &Request, refuse: impl Fn(&Attr, Target) -> Option<Errno>) -> Result3 {
    let mut opener = Fake { refuse, asked: Vec::new(), probed: Vec::new() };
    let mut notes = Vec::new();
    let clock = events::clock_instead(events::SOFTWARE_TASK_CLOCK);
    let opened = open_all(&mut opener, plan::plan(request), Some(&clock), &mut notes);
    (opened, notes, opener.asked.len())
}

fn is_cycles(attr: &Attr) -> bool {
    attr.kind == events::KIND_HARDWARE
}

#[test]
fn a_kernel_that_knows_all_is_asked_once_for_each() {
    let (opened, notes, n_asked) = open(&workload(), |_, _| None);
    let opened = opened.unwrap();
    assert_eq!((n_asked, notes.len()), (4, 0));
    let names: Vec<_> = opened.iter().map(|it| (&*it.name, it.instances.len())).collect();
    assert_eq!(names, [("cycles:P", 2), ("dummy:u", 2)]);
}

#[test]
fn precision_falls_step_by_step_where_the_best_was_asked_for() {
    let refuse = |attr: &Attr, _| (1 < attr.precise_ip()).then_some(Errno::EOPNOTSUPP);
    let (opened, notes, _) = open(&workload(), refuse);
    assert_eq!(opened.unwrap()[0].attr.precise_ip(), 1);
    assert_eq!(notes, []);
}

#[test]
fn where_cycles_are_not_counted_a_clock_takes_their_place_and_that_is_told() {
    for errno in [Errno::ENOENT, Errno::EOPNOTSUPP] {
        let refuse = |attr: &Attr, _| is_cycles(attr).then_some(errno);
        let (opened, notes, _) = open(&workload(), refuse);
        let opened = opened.unwrap();
        assert_eq!((&*opened[0].name, opened[0].attr.config), ("task-clock:ppp", 1));
        assert!(opened[0].attr.flags.contains(AttrFlags::INHERIT | AttrFlags::FREQ));
        let (wanted, taken) = ("cycles:P".to_owned(), "task-clock:ppp".to_owned());
        assert_eq!(notes, [Note::Instead { wanted, taken }]);
    }
}

#[test]
fn an_event_that_was_named_has_no_stand_in() {
    let mut opener = Fake {
        refuse: |attr: &Attr, _| is_cycles(attr).then_some(Errno::ENOENT),
        asked: Vec::new(),
        probed: Vec::new(),
    };
    let opened = open_all(&mut opener, plan::plan(&workload()), None, &mut Vec::new());
    let error = opened.unwrap_err();
    assert_eq!((&*error.event, error.errno), ("cycles:P", Errno::ENOENT));
}

/// An older kernel: refuses every attribute with one of the newest `n` bits.
#[track_caller]
fn check_age(n: usize, want_first: AttrFlags, want_system: bool) {
    let refuse = |attr: &Attr, _| {
        let unknown = NEWEST_FIRST.iter().take(n).any(|bit| bit.is_in(attr));
        unknown.then_some(Errno::EINVAL)
    };
    let (opened, notes, _) = open(&workload(), refuse);
    let opened = opened.unwrap();
    let side = AttrFlags::MMAP2 | AttrFlags::COMM_EXEC | AttrFlags::BUILD_ID;
    assert_eq!(opened[0].attr.flags & side, want_first, "{n}");
    assert_eq!(opened.len() == 2, want_system, "{n}");
    assert_eq!(notes, [], "{n}");
    let reads: Vec<_> = opened.iter().map(|it| it.attr.read_format).collect();
    assert!(reads.iter().all(|it| it == &reads[0]), "{n}");
    // Precision is not what was refused.
    assert_eq!(opened[0].attr.precise_ip(), 3, "{n}");
}

#[test]
fn bits_that_an_older_kernel_refuses_are_dropped_one_at_a_time() {
    let (mmap2, exec, id) = (AttrFlags::MMAP2, AttrFlags::COMM_EXEC, AttrFlags::BUILD_ID);
    for n in 0..4 {
        check_age(n, mmap2 | exec | id, true);
    }
    check_age(4, mmap2 | exec, true);
    check_age(5, mmap2 | exec, true);
    check_age(6, mmap2 | exec, false);
    check_age(7, mmap2, false);
    check_age(8, AttrFlags::empty(), false);
    check_age(9, AttrFlags::empty(), false);
}

#[test]
fn a_refusal_that_nothing_helps_is_the_first_one_told() {
    let refuse = |attr: &Attr, _| is_cycles(attr).then_some(Errno::EINVAL);
    let (opened, _, _) = open(&workload(), refuse);
    assert_eq!(opened.unwrap_err().errno, Errno::EINVAL);
}

#[test]
fn without_the_privilege_the_target_tells_of_its_own_programs() {
    let refuse = |_: &Attr, target| is_cpu(target).then_some(Errno::EACCES);
    let (opened, notes, _) = open(&workload(), refuse);
    let opened = opened.unwrap();
    assert_eq!(notes, [Note::OnlyOwnPrograms]);
    assert_eq!(opened.len(), 1);
    assert!(opened[0].attr.flags.contains(plan::OF_PROGRAMS));
}

#[test]
fn where_the_kernel_may_not_be_seen_user_space_is() {
    let refuse = |attr: &Attr, target| {
        let is_kernel = !attr.flags.contains(AttrFlags::EXCLUDE_KERNEL);
        (is_cpu(target) || is_kernel).then_some(Errno::EACCES)
    };
    let (opened, notes, _) = open(&workload(), refuse);
    assert_eq!(opened.unwrap()[0].name, "cycles:Pu");
    // Whose programs have names does not matter where the kernel has no samples.
    let event = "cycles:Pu".to_owned();
    assert_eq!(notes, [Note::UserOnly { event }]);
}

#[test]
fn a_stand_in_keeps_out_of_the_kernel_as_well() {
    let refuse = |attr: &Attr, target| match () {
        () if is_cpu(target) || !excludes_kernel(attr) => Some(Errno::EACCES),
        () => is_cycles(attr).then_some(Errno::ENOENT),
    };
    let (opened, notes, _) = open(&workload(), refuse);
    assert!(excludes_kernel(&opened.unwrap()[0].attr));
    let (wanted, taken) = ("cycles:P".to_owned(), "task-clock:pppu".to_owned());
    let event = taken.clone();
    assert_eq!(notes, [Note::Instead { wanted, taken }, Note::UserOnly { event }]);
}

#[test]
fn all_cpus_without_the_privilege_is_refused_by_the_name_that_was_asked_for() {
    let request = request(Watch::Cpus(vec![Cpu(0), Cpu(1)]));
    let (opened, _, _) = open(&request, |_, _| Some(Errno::EACCES));
    let error = opened.unwrap_err();
    assert_eq!(error.to_string(), "cannot open event `cycles:P` on CPU 0");
}

#[test]
fn a_cpu_that_went_offline_and_a_thread_that_ended_are_left_out() {
    let request = request(Watch::Cpus(vec![Cpu(0), Cpu(1)]));
    let gone = |_: &Attr, target| (target == Target::Cpu(Cpu(1))).then_some(Errno::ENODEV);
    let (opened, notes, _) = open(&request, gone);
    assert!(opened.unwrap().iter().all(|it| it.instances.len() == 1));
    assert_eq!(notes, [Note::CpuOffline { cpu: Cpu(1) }]);

    let (opened, notes, _) =
        open(&workload(), |_, target| (!is_cpu(target)).then_some(Errno::ESRCH));
    assert_eq!((opened.unwrap()[0].instances.len(), notes.len()), (0, 0));
}

/// A command and a group of three events.
fn group(is_weak: bool) -> Request {
    let mut request = workload();
    let mut leader = events::clock_instead(events::SOFTWARE_CPU_CLOCK);
    leader.place = Place::Leader { name: None, is_weak };
    let mut member = leader.clone();
    member.place = Place::Member;
    let mut last = member.clone();
    last.attr.config = 3;
    request.events = vec![leader, member, last];
    request
}

#[test]
fn members_join_the_leader_of_their_own_cpu() {
    let mut opener = Fake { refuse: |_: &Attr, _| None, asked: Vec::new(), probed: Vec::new() };
    let opened = open_all(&mut opener, plan::plan(&group(false)), None, &mut Vec::new()).unwrap();
    let asked = |nth: usize, cpu: usize| opener.asked[opened[nth].instances[cpu].1];
    for cpu in [0, 1] {
        let leader = opened[0].instances[cpu].1;
        assert_eq!(asked(0, cpu).2, None);
        assert_eq!((asked(1, cpu).2, asked(2, cpu).2), (Some(leader), Some(leader)));
        assert_eq!(asked(1, cpu).1, asked(0, cpu).1);
    }
}

#[test]
fn a_member_is_left_out_where_its_leader_is() {
    let mut request = group(false);
    request.watch = Watch::Cpus(vec![Cpu(0), Cpu(1)]);
    let is_leader = |attr: &Attr| attr.flags.contains(AttrFlags::DISABLED);
    let gone = |attr: &Attr, target| {
        (is_leader(attr) && target == Target::Cpu(Cpu(0))).then_some(Errno::ENODEV)
    };
    let (opened, _, _) = open(&request, gone);
    let n_instances: Vec<_> = opened.unwrap().iter().map(|it| it.instances.len()).collect();
    assert_eq!(n_instances, [1, 1, 1, 2]);
}

#[test]
fn a_group_that_does_not_fit_is_refused_or_falls_apart_if_it_is_weak() {
    // Of a group no more than two fit.
    let is_third = |attr: &Attr| attr.config == 3 && !attr.flags.contains(AttrFlags::DISABLED);
    let refuse = |attr: &Attr, _| is_third(attr).then_some(Errno::EINVAL);
    let (opened, _, _) = open(&group(false), refuse);
    assert_eq!(opened.unwrap_err().errno, Errno::EINVAL);

    let (opened, notes, _) = open(&group(true), refuse);
    let opened = opened.unwrap();
    assert!(opened.iter().all(|it| it.place == Place::Alone));
    let n_instances: Vec<_> = opened.iter().map(|it| it.instances.len()).collect();
    assert_eq!(n_instances, [2, 2, 2, 2]);
    let waits = AttrFlags::DISABLED | AttrFlags::ENABLE_ON_EXEC;
    assert!(opened[..3].iter().all(|it| it.attr.flags.contains(waits)));
    assert_eq!(notes, [Note::Ungrouped { leader: "cpu-clock:ppp".to_owned() }]);
}

#[test]
fn an_older_kernel_reads_groups_in_no_children() {
    let mut request = group(false);
    request.events.iter_mut().for_each(|it| it.terms.reads_group = true);
    let refuse = |attr: &Attr, _| Bit::InheritedRead.is_in(attr).then_some(Errno::EINVAL);
    let (opened, notes, _) = open(&request, refuse);
    assert!(opened.unwrap().iter().all(|it| !it.attr.flags.contains(AttrFlags::INHERIT)));
    assert_eq!(notes.len(), 3);
    assert_eq!(notes[0], Note::NoChildren { event: "cpu-clock:ppp".to_owned() });
}

#[test]
fn what_stands_in_the_way_is_found_by_leaving_it_out() {
    let mut request = workload();
    request.contents.fields = SampleType::PHYS_ADDR | SampleType::BRANCH_STACK;
    let has = |attr: &Attr| attr.sample_type.contains(SampleType::BRANCH_STACK);
    let (opened, _, _) = open(&request, |attr, _| has(attr).then_some(Errno::EOPNOTSUPP));
    let remedy = opened.unwrap_err().remedy;
    assert_eq!(remedy, Some(Remedy::Without(SampleType::BRANCH_STACK)));

    let of_cpus =
        |attr: &Attr, target| (is_cycles(attr) && !is_cpu(target)).then_some(Errno::EINVAL);
    let (opened, _, _) = open(&workload(), of_cpus);
    assert_eq!(opened.unwrap_err().remedy, Some(Remedy::OnCpus));

    let mut request = workload();
    request.clock = Some(libc::CLOCK_REALTIME);
    // Where samples are taken in an NMI only some clocks can be read.
    let is_refused =
        |attr: &Attr, _| (is_cycles(attr) && attr.clockid == 0).then_some(Errno::EINVAL);
    let (opened, _, _) = open(&request, is_refused);
    assert_eq!(opened.unwrap_err().remedy, Some(Remedy::OnSteadyClock));
}

/// The event of a program of the section `section`.
fn of_program(name: &str, section: &str, attr: Attr) -> Event {
    let object = OfObject {
        path: "x.bpf.o".to_owned(),
        bytes: events::object::Bytes::default(),
        settings: Vec::new(),
        programs: vec![name.to_owned()],
        program: Section::parse(section),
        output: None,
    };
    Event { object: Some(object), ..Event::new(name, attr, Precision::Exact) }
}

#[test]
fn a_kprobe_is_opened_by_the_name_of_its_function_and_not_for_children() {
    let attr = Attr { kind: 6, config2: 4, ..Attr::default() };
    let mut event = of_program("enter", "kprobe/vfs_read+0x4", attr);
    event.probe = Some(events::Probe { path: "vfs_read".to_owned() });
    let request = Request { events: vec![event], ..workload() };
    let mut opener = Fake { refuse: |_: &Attr, _| None, asked: Vec::new(), probed: Vec::new() };
    let mut notes = Vec::new();
    let opened = open_all(&mut opener, plan::plan(&request), None, &mut notes).unwrap();
    let Fake { asked, probed, .. } = opener;
    assert_eq!(probed, ["vfs_read", "vfs_read"]);
    let probes: Vec<_> = asked.iter().filter(|it| it.0.kind == 6).collect();
    assert_eq!(probes.len(), 2);
    for (attr, ..) in probes {
        assert_eq!((attr.config2, attr.sample_period), (4, 1));
        assert!(!attr.flags.contains(AttrFlags::INHERIT));
    }
    assert_eq!(opened[0].name, "enter");
    assert_eq!(notes, [Note::NoChildren { event: "enter".to_owned() }]);
}

#[test]
fn a_program_keeps_its_name_on_the_clock_that_stands_in_for_cycles() {
    let usual = events::default_event();
    let mut event = of_program("slow", "perf_event", usual.attr);
    (event.is_usual, event.precision) = (true, usual.precision);
    let request = Request { events: vec![event], ..workload() };
    let (opened, notes, _) = open(&request, |attr, _| is_cycles(attr).then_some(Errno::ENOENT));
    let opened = opened.unwrap();
    assert_eq!((opened[0].name.as_str(), opened[0].attr.kind), ("slow", events::KIND_SOFTWARE));
    let (wanted, taken) = ("cycles:P".to_owned(), "task-clock:ppp".to_owned());
    assert_eq!(notes, [Note::Instead { wanted, taken }]);
}
