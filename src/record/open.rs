//! Opening what the plan says, and what to do where the kernel says no.
//!
//! A kernel that does not know a bit of the attribute refuses it as a whole (`EINVAL`), without
//! saying which. So the bits are dropped one after another, the newest first, and once dropped
//! they stay so for every event that follows: all must agree where a reader looks for the id.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use nix::errno::Errno;

use crate::events;
use crate::events::Event;
use crate::events::Filters;
use crate::events::KIND_TRACEPOINT;
use crate::events::OfObject;
use crate::events::Place;
use crate::events::Precision;
use crate::events::object::Section;
use crate::perfdata::Attr;
use crate::perfdata::AttrFlags;
use crate::perfdata::ReadFormat;
use crate::perfdata::SampleType;
use crate::sys::perf_event::EventFd;
use crate::sys::perf_event::Extra;
use crate::sys::perf_event::OpenError;
use crate::sys::perf_event::Remedy;
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
    fn open(
        &mut self,
        attr: &[u8],
        target: Target,
        with: With<'_, Self::Fd>,
    ) -> Result<Self::Fd, Errno>;
}

/// What an event is opened with beside its attribute.
#[derive(Debug)]
pub(super) struct With<'a, Fd> {
    /// The event whose group it joins.
    pub(super) leader: Option<&'a Fd>,
    /// The file that it is a probe of.
    pub(super) path: Option<&'a CStr>,
    /// The folder of the cgroup whose tasks alone it watches.
    pub(super) cgroup: Option<&'a Path>,
}

/// The running kernel.
#[derive(Debug)]
pub(super) struct Kernel;

impl Opener for Kernel {
    type Fd = EventFd;

    fn open(
        &mut self,
        attr: &[u8],
        target: Target,
        With { leader, path, cgroup }: With<'_, EventFd>,
    ) -> Result<EventFd, Errno> {
        let errno = |error: io::Error| Errno::from_raw(error.raw_os_error().unwrap_or(0));
        let cgroup = cgroup.map(File::open).transpose().map_err(errno)?;
        let cgroup = cgroup.as_ref().map(AsFd::as_fd);
        EventFd::open_with(attr, target, Extra { leader, path, cgroup })
    }
}

/// An event as it was opened at last.
#[derive(Debug)]
pub(super) struct Opened<Fd> {
    pub(super) role: Role,
    pub(super) name: String,
    pub(super) attr: Attr,
    pub(super) place: Place,
    pub(super) filters: Filters,
    /// Whether it is a probe of user space, whose program is one of probes.
    pub(super) is_probe: bool,
    pub(super) object: Option<OfObject>,
    pub(super) instances: Vec<(Target, Fd)>,
}

impl<Fd> Opened<Fd> {
    /// The tracepoint that it samples, as `SYSTEM:EVENT`; its name, unless it has a program's.
    pub(super) fn tracepoint(&self) -> String {
        match self.object.as_ref().and_then(|it| it.program.as_ref()) {
            Some(Section::Tracepoint { system, event }) => format!("{system}:{event}"),
            _ => self.name.clone(),
        }
    }
}

/// What kernels have come to know over time, the newest first.
///
/// Sources: since 6.13, 6.0, 5.12, 5.12, 5.1, 5.1, 3.16, 3.12, 3.2; the order in which
/// `include/uapi/linux/perf_event.h` grew.
const NEWEST_FIRST: [Bit; 9] = [
    Bit::InheritedRead,
    Bit::Read(ReadFormat::LOST),
    Bit::WeightInParts,
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
    /// The values of a group in samples of children, too: `has_inherit_and_sample_read()` in
    /// `kernel/events/core.c`.
    InheritedRead,
    /// Older kernels know the weight as one number.
    WeightInParts,
}

impl Bit {
    fn is_in(self, attr: &Attr) -> bool {
        match self {
            Self::Flag(flag) => attr.flags.intersects(flag),
            Self::Read(format) => attr.read_format.contains(format),
            Self::InheritedRead => {
                attr.sample_type.contains(SampleType::READ)
                    && attr.flags.contains(AttrFlags::INHERIT)
            }
            Self::WeightInParts => attr.sample_type.contains(SampleType::WEIGHT_STRUCT),
        }
    }

    fn drop_from(self, attr: &mut Attr) {
        match self {
            Self::Flag(flag) => attr.flags.remove(flag),
            Self::Read(format) => attr.read_format.remove(format),
            Self::InheritedRead if self.is_in(attr) => attr.flags.remove(AttrFlags::INHERIT),
            Self::WeightInParts if self.is_in(attr) => {
                attr.sample_type.remove(SampleType::WEIGHT_STRUCT);
                attr.sample_type.insert(SampleType::WEIGHT);
            }
            Self::InheritedRead | Self::WeightInParts => {}
        }
    }
}

/// Opens all of `plan`, in the order of the file.
///
/// `instead` is the event that takes the place of those that nobody asked for by name, where
/// the machine does not have them. Threads and CPUs that are gone are left out; an event may be
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
    let mut opened = ladder.open_in_order(plan)?;
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
    /// Opens events one after another, members into the group of the leader before them.
    fn open_in_order(&mut self, plan: Vec<Planned>) -> Result<Vec<Opened<O::Fd>>, OpenError> {
        let mut opened: Vec<Opened<O::Fd>> = Vec::with_capacity(plan.len() + 1);
        let mut left = VecDeque::from(plan);
        // What is open of the group that is being opened, its leader left out.
        let mut members: Vec<Planned> = Vec::new();
        while let Some(planned) = left.pop_front() {
            if planned.place != Place::Member {
                members.clear();
                opened.push(self.open(planned, None)?);
                continue;
            }
            let leader_at = opened.len().checked_sub(members.len() + 1);
            let leader = leader_at.and_then(|at| opened.get(at));
            let error = match self.open(planned.clone(), leader) {
                Ok(it) => {
                    opened.push(it);
                    members.push(planned);
                    continue;
                }
                Err(error) => error,
            };
            let is_weak = |it: &Opened<_>| matches!(it.place, Place::Leader { is_weak: true, .. });
            let Some(leader) = leader.filter(|it| is_weak(it)) else { return Err(error) };
            // The whole group falls apart: who is in is opened again.
            self.notes.push(Note::Ungrouped { leader: leader.name.clone() });
            let waits = leader.attr.flags & (AttrFlags::DISABLED | AttrFlags::ENABLE_ON_EXEC);
            opened.truncate(opened.len() - members.len());
            if let Some(leader) = opened.last_mut() {
                leader.place = Place::Alone;
            }
            members.push(planned);
            while left.front().is_some_and(|it| it.place == Place::Member) {
                members.extend(left.pop_front());
            }
            for mut it in members.drain(..).rev() {
                it.place = Place::Alone;
                it.attr.flags |= waits;
                left.push_front(it);
            }
        }
        Ok(opened)
    }

    /// Opens the dummies for all tasks, or gives their work to others where that is not allowed
    /// and nobody else watches all tasks.
    fn open_system(
        &mut self,
        plan: &mut Vec<Planned>,
        at: usize,
    ) -> Result<Option<Opened<O::Fd>>, OpenError> {
        let planned = plan.remove(at);
        let error = match self.open(planned, None) {
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

    fn open(
        &mut self,
        planned: Planned,
        leader: Option<&Opened<O::Fd>>,
    ) -> Result<Opened<O::Fd>, OpenError> {
        let Planned { role, mut name, mut attr, mut precision, targets, .. } = planned;
        let Planned { place, probe, cgroup, filters, object, is_usual, .. } = planned;
        let (wanted, was, is_probe) = (name.clone(), attr, probe.is_some());
        let mut stands_in = if is_usual { StandIn::Possible } else { StandIn::Refused };
        if probe.is_some() {
            // At each fork the kernel would look for the path at the same address of another
            // program, and the fork would fail: `perf_uprobe_init()` in
            // `kernel/trace/trace_event_perf.c`.
            attr.flags.remove(AttrFlags::INHERIT);
        }
        NEWEST_FIRST.iter().take(self.n_dropped).for_each(|bit| bit.drop_from(&mut attr));
        let leaders: BTreeMap<_, _> =
            leader.into_iter().flat_map(|it| &it.instances).map(|it| (it.0, &it.1)).collect();
        let mut instances = Vec::with_capacity(targets.len());
        for target in targets {
            let leader = leaders.get(&target).copied();
            if place == Place::Member && leader.is_none() {
                // Its leader's target is gone.
                continue;
            }
            let (path, cgroup) = (probe.as_deref(), cgroup.as_deref());
            let mut event =
                Attempt { role, name, attr, precision, target, leader, path, cgroup, stands_in };
            let fd = self.open_one(&mut event)?;
            Attempt { name, attr, precision, stands_in, .. } = event;
            instances.extend(fd.map(|fd| (target, fd)));
        }
        if stands_in == StandIn::Taken {
            let taken = name.clone();
            let usual = events::default_event().name;
            // An event of a program has the name of that.
            let is_program = object.is_some();
            name = if is_program { wanted.clone() } else { name };
            let wanted = if is_program { usual } else { wanted };
            self.notes.push(Note::Instead { wanted, taken });
        }
        if !excludes_kernel(&was) && excludes_kernel(&attr) {
            self.notes.push(Note::UserOnly { event: name.clone() });
        }
        if was.flags.contains(AttrFlags::INHERIT) && !attr.flags.contains(AttrFlags::INHERIT) {
            self.notes.push(Note::NoChildren { event: name.clone() });
        }
        Ok(Opened { role, name, attr, place, filters, is_probe, object, instances })
    }

    /// Opens one instance, or none where its target is gone; `event` is left as it was opened.
    fn open_one(&mut self, event: &mut Attempt<'_, O::Fd>) -> Result<Option<O::Fd>, OpenError> {
        let wanted = event.attr;
        let n_dropped = self.n_dropped;
        loop {
            let errno = match self.ask(event, &event.attr, event.target) {
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
            let remedy = if is_denied { None } else { self.remedy(event, &wanted) };
            let (event, target) = (event.name.clone(), event.target);
            return Err(OpenError { event, target, errno, remedy });
        }
    }

    fn ask(
        &mut self,
        event: &Attempt<'_, O::Fd>,
        attr: &Attr,
        target: Target,
    ) -> Result<O::Fd, Errno> {
        let mut bytes = Vec::new();
        attr.encode(attr.needed_size(), &mut bytes);
        let &Attempt { leader, path, cgroup, .. } = event;
        self.opener.open(&bytes, target, With { leader, path, cgroup })
    }

    /// How the same event could be opened: the kernel says no to all at once, and not why.
    fn remedy(&mut self, event: &Attempt<'_, O::Fd>, wanted: &Attr) -> Option<Remedy> {
        if event.role != Role::Sampling {
            return None;
        }
        for field in SELDOM.iter().filter(|it| wanted.sample_type.contains(**it)) {
            let sample_type = wanted.sample_type - *field;
            if self.ask(event, &Attr { sample_type, ..*wanted }, event.target).is_ok() {
                return Some(Remedy::Without(*field));
            }
        }
        if wanted.flags.contains(AttrFlags::USE_CLOCKID) {
            let attr = Attr { clockid: libc::CLOCK_MONOTONIC, ..*wanted };
            if attr.clockid != wanted.clockid && self.ask(event, &attr, event.target).is_ok() {
                return Some(Remedy::OnSteadyClock);
            }
        }
        let cpu = match event.target {
            Target::TaskOnCpu(_, cpu) => cpu,
            Target::Task(_) => Cpu(0),
            Target::Cpu(_) => return None,
        };
        let of_tasks = AttrFlags::INHERIT | AttrFlags::ENABLE_ON_EXEC;
        let attr = Attr { flags: wanted.flags - of_tasks, ..*wanted };
        let alone = Attempt { leader: None, name: event.name.clone(), ..*event };
        self.ask(&alone, &attr, Target::Cpu(cpu)).is_ok().then_some(Remedy::OnCpus)
    }

    fn note_offline(&mut self, cpu: Cpu) {
        let note = Note::CpuOffline { cpu };
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    fn take_instead(&mut self, event: &mut Attempt<'_, O::Fd>) -> bool {
        if event.stands_in != StandIn::Possible {
            return false;
        }
        let Some(instead) = self.instead else { return false };
        event.stands_in = StandIn::Taken;
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

/// The fields of samples that not every event has, or not every kernel.
const SELDOM: [SampleType; 12] = [
    SampleType::BRANCH_STACK,
    SampleType::REGS_INTR,
    SampleType::STACK_USER,
    SampleType::REGS_USER,
    SampleType::WEIGHT_STRUCT,
    SampleType::WEIGHT,
    SampleType::PHYS_ADDR,
    SampleType::DATA_PAGE_SIZE,
    SampleType::CODE_PAGE_SIZE,
    SampleType::CGROUP,
    SampleType::DATA_SRC,
    SampleType::ADDR,
];

/// One try after another to open one instance.
struct Attempt<'a, Fd> {
    role: Role,
    name: String,
    attr: Attr,
    precision: Precision,
    target: Target,
    leader: Option<&'a Fd>,
    path: Option<&'a CStr>,
    cgroup: Option<&'a Path>,
    stands_in: StandIn,
}

/// Whether a clock takes the place of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StandIn {
    /// It may not: the event was asked for.
    Refused,
    /// It may.
    Possible,
    /// It has.
    Taken,
}

impl<Fd> Attempt<'_, Fd> {
    /// Samples user space alone, as an ordinary user may where the kernel is not theirs to see.
    fn leave_kernel_out(&mut self) -> bool {
        let kernel = AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
        let wants_only_kernel = self.attr.flags.contains(AttrFlags::EXCLUDE_USER);
        let is_excluded = excludes_kernel(&self.attr);
        if is_cpu(self.target) || wants_only_kernel || is_excluded || self.role != Role::Sampling {
            return false;
        }
        self.attr.flags |= kernel;
        self.name.push_str(if has_modifiers(&self.name, self.attr.kind) { "u" } else { ":u" });
        true
    }
}

/// Whether modifiers end the name of an event of this kind.
fn has_modifiers(name: &str, kind: u32) -> bool {
    let n_colons = name.matches(':').count();
    // `system:name`, and a function in a file: `uprobe:PATH:NAME`.
    let n_own = match kind {
        KIND_TRACEPOINT => 1,
        _ if name.starts_with("uprobe:") => 2,
        _ => 0,
    };
    n_own < n_colons
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
