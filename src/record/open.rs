//! Opening what the plan says, and what to do where the kernel says no.
//!
//! A kernel that does not know a bit of the attribute refuses it as a whole (`EINVAL`), without
//! saying which. So the bits are dropped one after another, the newest first, and once dropped
//! they stay so for every event that follows: all must agree where a reader looks for the id.

use nix::errno::Errno;

use crate::events::Event;
use crate::events::Precision;
use crate::perfdata::Attr;
use crate::perfdata::AttrFlags;
use crate::perfdata::ReadFormat;
use crate::sys::perf_event::EventFd;
use crate::sys::perf_event::OpenError;
use crate::sys::perf_event::Target;
use crate::units::Cpu;

use super::note::Note;
use super::plan;
use super::plan::Planned;
use super::plan::Role;

/// Whoever opens an event: the kernel, or a test that plays an older one.
pub(super) trait Opener {
    /// What stands for an open event.
    type Fd;

    /// Opens the event of an encoded attribute.
    fn open(&mut self, attr: &[u8], target: Target) -> Result<Self::Fd, Errno>;
}

/// The running kernel.
#[derive(Debug)]
pub(super) struct Kernel;

impl Opener for Kernel {
    type Fd = EventFd;

    fn open(&mut self, attr: &[u8], target: Target) -> Result<EventFd, Errno> {
        EventFd::open(attr, target)
    }
}

/// An event as it was opened at last.
#[derive(Debug)]
pub(super) struct Opened<Fd> {
    pub(super) role: Role,
    pub(super) name: String,
    pub(super) attr: Attr,
    pub(super) instances: Vec<(Target, Fd)>,
}

/// What kernels have come to know over time, the newest first.
///
/// Sources: since 6.0, 5.12, 5.1, 5.1, 3.16, 3.12, 3.2; the order in which
/// `include/uapi/linux/perf_event.h` grew.
const NEWEST_FIRST: [Bit; 7] = [
    Bit::Read(ReadFormat::LOST),
    Bit::Flag(AttrFlags::BUILD_ID),
    Bit::Flag(AttrFlags::BPF_EVENT),
    Bit::Flag(AttrFlags::KSYMBOL),
    Bit::Flag(AttrFlags::COMM_EXEC),
    Bit::Flag(AttrFlags::MMAP2),
    Bit::Flag(AttrFlags::EXCLUDE_GUEST.union(AttrFlags::EXCLUDE_HOST)),
];

#[derive(Clone, Copy, Debug)]
enum Bit {
    Flag(AttrFlags),
    Read(ReadFormat),
}

impl Bit {
    fn is_in(self, attr: &Attr) -> bool {
        match self {
            Self::Flag(flag) => attr.flags.intersects(flag),
            Self::Read(format) => attr.read_format.contains(format),
        }
    }

    fn drop_from(self, attr: &mut Attr) {
        match self {
            Self::Flag(flag) => attr.flags.remove(flag),
            Self::Read(format) => attr.read_format.remove(format),
        }
    }
}

/// Opens all of `plan`, in the order of the file.
///
/// `instead` is the event that takes the place of the one that nobody asked for by name, where
/// the machine does not have it. Threads and CPUs that are gone are left out; an event may be
/// left with no instance at all.
///
/// # Errors
///
/// The first refusal for which there is no remedy.
pub(super) fn open_all<O: Opener>(
    opener: &mut O,
    mut plan: Vec<Planned>,
    instead: Option<&Event>,
    notes: &mut Vec<Note>,
) -> Result<Vec<Opened<O::Fd>>, OpenError> {
    let mut ladder = Ladder { opener, n_dropped: 0, instead, notes };
    // First, since where it is refused the others have its work to do.
    let system = match plan.iter().position(|it| it.role == Role::System) {
        Some(at) => ladder.open_system(&mut plan, at)?,
        None => None,
    };
    let mut opened = Vec::with_capacity(plan.len() + 1);
    for planned in plan {
        opened.push(ladder.open(planned)?);
    }
    let n_dropped = ladder.n_dropped;
    opened.extend(system);
    if opened.iter().all(|it| excludes_kernel(&it.attr)) {
        // Without addresses of the kernel nobody misses names for them.
        notes.retain(|it| *it != Note::OnlyOwnPrograms);
    }
    // Whoever was opened before a bit was found missing.
    for it in &mut opened {
        NEWEST_FIRST.iter().take(n_dropped).for_each(|bit| bit.drop_from(&mut it.attr));
    }
    Ok(opened)
}

struct Ladder<'a, O> {
    opener: &'a mut O,
    n_dropped: usize,
    instead: Option<&'a Event>,
    notes: &'a mut Vec<Note>,
}

impl<O: Opener> Ladder<'_, O> {
    /// Opens the dummies for all tasks, or gives their work to others where that is not allowed
    /// and nobody else watches all tasks.
    fn open_system(
        &mut self,
        plan: &mut Vec<Planned>,
        at: usize,
    ) -> Result<Option<Opened<O::Fd>>, OpenError> {
        let planned = plan.remove(at);
        let error = match self.open(planned) {
            Ok(opened) => {
                // A kernel without BPF has nothing to tell, and that is nothing to be told.
                let kinds = AttrFlags::TASK | plan::OF_PROGRAMS;
                return Ok(opened.attr.flags.intersects(kinds).then_some(opened));
            }
            Err(error) => error,
        };
        if !matches!(error.errno, Errno::EACCES | Errno::EPERM) {
            return Err(error);
        }
        if plan.iter().any(|it| it.targets.iter().any(|it| is_cpu(*it))) {
            // The dummy is ours; what the user asked for would be refused as well.
            let event = plan.first().map(|it| it.name.clone()).unwrap_or_default();
            return Err(OpenError { event, ..error });
        }
        self.notes.push(Note::OnlyOwnPrograms);
        plan::without_system(plan);
        Ok(None)
    }

    fn open(&mut self, planned: Planned) -> Result<Opened<O::Fd>, OpenError> {
        let Planned { role, mut name, mut attr, mut precision, targets } = planned;
        let (wanted, was_excluded) = (name.clone(), excludes_kernel(&attr));
        let had_stand_in = self.instead.is_some();
        NEWEST_FIRST.iter().take(self.n_dropped).for_each(|bit| bit.drop_from(&mut attr));
        let mut instances = Vec::with_capacity(targets.len());
        for target in targets {
            let mut event = Attempt { role, name, attr, precision, target };
            let fd = self.open_one(&mut event)?;
            Attempt { name, attr, precision, .. } = event;
            instances.extend(fd.map(|fd| (target, fd)));
        }
        if had_stand_in && self.instead.is_none() {
            self.notes.push(Note::Instead { wanted, taken: name.clone() });
        }
        if !was_excluded && excludes_kernel(&attr) {
            self.notes.push(Note::UserOnly { event: name.clone() });
        }
        Ok(Opened { role, name, attr, instances })
    }

    /// Opens one instance, or none where its target is gone; `event` is left as it was opened.
    fn open_one(&mut self, event: &mut Attempt) -> Result<Option<O::Fd>, OpenError> {
        let wanted = event.attr;
        let n_dropped = self.n_dropped;
        loop {
            let mut bytes = Vec::new();
            event.attr.encode(event.attr.needed_size(), &mut bytes);
            let errno = match self.opener.open(&bytes, event.target) {
                Ok(fd) => return Ok(Some(fd)),
                Err(errno) => errno,
            };
            let is_absent = matches!(errno, Errno::ENOENT | Errno::EOPNOTSUPP | Errno::ENXIO);
            let is_unknown = matches!(errno, Errno::EINVAL | Errno::E2BIG);
            let is_denied = matches!(errno, Errno::EACCES | Errno::EPERM);
            if errno == Errno::ESRCH && !is_cpu(event.target) {
                return Ok(None);
            }
            if let (Errno::ENODEV, Target::Cpu(cpu)) = (errno, event.target) {
                self.note_offline(cpu);
                return Ok(None);
            }
            if (is_absent || is_unknown)
                && event.precision == Precision::Best
                && lower_precision(&mut event.attr)
            {
                continue;
            }
            if is_absent && self.take_instead(event) {
                continue;
            }
            if is_unknown {
                restore_precision(&mut event.attr, &wanted);
                if self.drop_newest(&mut event.attr) {
                    continue;
                }
                self.n_dropped = n_dropped;
            }
            if is_denied && event.leave_kernel_out() {
                continue;
            }
            return Err(OpenError { event: event.name.clone(), target: event.target, errno });
        }
    }

    fn note_offline(&mut self, cpu: Cpu) {
        let note = Note::CpuOffline { cpu };
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    fn take_instead(&mut self, event: &mut Attempt) -> bool {
        if event.role != Role::Sampling {
            return false;
        }
        let Some(instead) = self.instead.take() else { return false };
        event.name.clone_from(&instead.name);
        if excludes_kernel(&event.attr) {
            event.name.push('u');
        }
        let places = AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV | AttrFlags::EXCLUDE_USER;
        let of_the_event = PRECISE | AttrFlags::EXCLUDE_GUEST | AttrFlags::EXCLUDE_HOST;
        let kept = event.attr.flags - of_the_event;
        event.attr.kind = instead.attr.kind;
        event.attr.config = instead.attr.config;
        event.attr.flags = kept | (instead.attr.flags - places);
        event.precision = instead.precision;
        true
    }

    /// Drops the newest bit that is still in `attr`; false where none is left.
    fn drop_newest(&mut self, attr: &mut Attr) -> bool {
        let left = NEWEST_FIRST.iter().enumerate().skip(self.n_dropped);
        let Some((at, bit)) = left.into_iter().find(|(_, bit)| bit.is_in(attr)) else {
            return false;
        };
        bit.drop_from(attr);
        self.n_dropped = at + 1;
        true
    }
}

/// One try after another to open one instance.
struct Attempt {
    role: Role,
    name: String,
    attr: Attr,
    precision: Precision,
    target: Target,
}

impl Attempt {
    /// Samples user space alone, as an ordinary user may where the kernel is not theirs to see.
    fn leave_kernel_out(&mut self) -> bool {
        let kernel = AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
        let wants_only_kernel = self.attr.flags.contains(AttrFlags::EXCLUDE_USER);
        let is_excluded = excludes_kernel(&self.attr);
        if is_cpu(self.target) || wants_only_kernel || is_excluded || self.role != Role::Sampling {
            return false;
        }
        self.attr.flags |= kernel;
        self.name.push_str(if self.name.contains(':') { "u" } else { ":u" });
        true
    }
}

const PRECISE: AttrFlags = AttrFlags::PRECISE_IP_LOW.union(AttrFlags::PRECISE_IP_HIGH);

fn is_cpu(target: Target) -> bool {
    matches!(target, Target::Cpu(_))
}

fn excludes_kernel(attr: &Attr) -> bool {
    attr.flags.contains(AttrFlags::EXCLUDE_KERNEL)
}

fn lower_precision(attr: &mut Attr) -> bool {
    let lower = match attr.precise_ip() {
        3 => AttrFlags::PRECISE_IP_HIGH,
        2 => AttrFlags::PRECISE_IP_LOW,
        1 => AttrFlags::empty(),
        _ => return false,
    };
    attr.flags = (attr.flags - PRECISE) | lower;
    true
}

fn restore_precision(attr: &mut Attr, wanted: &Attr) {
    attr.flags = (attr.flags - PRECISE) | (wanted.flags & PRECISE);
}

#[cfg(test)]
mod tests {
    use crate::events;
    use crate::perfdata::Cursor;
    use crate::perfdata::Endian;
    use crate::units::FileOffset;
    use crate::units::Tid;

    use super::super::config::CallGraph;
    use super::super::config::FollowBpf;
    use super::super::config::Inherit;
    use super::super::config::Rate;
    use super::super::plan::Request;
    use super::super::plan::Start;
    use super::super::plan::Watch;
    use super::*;

    /// A kernel that says no as `refuse` says, and keeps what it was asked.
    struct Fake<F> {
        refuse: F,
        asked: Vec<(Attr, Target)>,
    }

    impl<F: Fn(&Attr, Target) -> Option<Errno>> Opener for Fake<F> {
        type Fd = ();

        fn open(&mut self, attr: &[u8], target: Target) -> Result<(), Errno> {
            let mut cursor = Cursor::new(attr, FileOffset(0), Endian::NATIVE);
            let attr = Attr::decode(&mut cursor).unwrap();
            self.asked.push((attr, target));
            (self.refuse)(&attr, target).map_or(Ok(()), Err)
        }
    }

    fn request(watch: Watch) -> Request {
        Request {
            events: vec![events::default_event()],
            watch,
            start: Start::AtExec,
            rate: Rate::Usual(4000),
            call_graph: CallGraph::None,
            inherit: Inherit::Yes,
            bpf: FollowBpf::Yes,
            online: vec![Cpu(0), Cpu(1)],
            wakeup_bytes: 4096,
        }
    }

    fn workload() -> Request {
        request(Watch::Threads(vec![Tid(7)]))
    }

    type Result3 = (Result<Vec<Opened<()>>, OpenError>, Vec<Note>, usize);

    fn open(request: &Request, refuse: impl Fn(&Attr, Target) -> Option<Errno>) -> Result3 {
        let mut opener = Fake { refuse, asked: Vec::new() };
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
        check_age(0, mmap2 | exec | id, true);
        check_age(1, mmap2 | exec | id, true);
        check_age(2, mmap2 | exec, true);
        check_age(3, mmap2 | exec, true);
        check_age(4, mmap2 | exec, false);
        check_age(5, mmap2, false);
        check_age(6, AttrFlags::empty(), false);
        check_age(7, AttrFlags::empty(), false);
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
}
