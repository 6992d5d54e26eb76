//! Addresses of samples to who owned them, by one thread with caches of its own.

use rustc_hash::FxHashMap;

use crate::perfdata::U64s;
use crate::perfdata::UserState;
use crate::perfdata::callchain_context;
use crate::perfdata::misc;
use crate::units::Addr;
use crate::units::Pid;
use crate::units::Tid;

use super::Ends;
use super::Unwinding;
use super::resolved::CommId;
use super::resolved::Level;
use super::spans::Moment;
use super::timeline::Owner;
use super::timeline::ProcessAt;
use super::timeline::Timeline;
use super::unwound::Unwinder;

/// An address, who owned it, and at which privilege it ran: all that a name depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame {
    /// The address as sampled.
    pub ip: Addr,
    /// Who owned it; `None` where no mapping covered it.
    pub owner: Option<Owner>,
    /// The privilege level.
    pub level: Level,
    /// Whether it is where a call returns to, behind the instruction that calls.
    pub is_return_address: bool,
}

/// What to know of a thread at a moment, and how long it stays the same.
#[derive(Clone, Copy, Debug)]
pub struct TaskAt {
    /// Its command name, where something told it.
    pub comm: Option<CommId>,
    /// Its address space and the kernel's state.
    pub process: ProcessAt,
    from: Moment,
    until: Moment,
}

/// Resolves addresses; each thread has one of its own.
pub struct Resolver<'t> {
    timeline: &'t Timeline,
    tasks: FxHashMap<(Pid, Tid), TaskAt>,
    unwinder: Option<Unwinder<'t>>,
}

impl std::fmt::Debug for Resolver<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resolver").field("tasks", &self.tasks.len()).finish_non_exhaustive()
    }
}

impl<'t> Resolver<'t> {
    /// A resolver over `timeline`.
    pub fn new(timeline: &'t Timeline) -> Self {
        Self { timeline, tasks: FxHashMap::default(), unwinder: None }
    }

    /// A resolver over `timeline` that finds the callers of samples that hold a copy of their stack.
    pub fn with_unwinding(timeline: &'t Timeline, unwinding: &'t Unwinding<'t>) -> Self {
        let unwinder = Some(Unwinder::new(unwinding, timeline));
        Self { unwinder, ..Self::new(timeline) }
    }

    /// How the unwinding of stacks ended so far.
    pub fn ends(&self) -> Ends {
        self.unwinder.as_ref().map(|it| it.ends).unwrap_or_default()
    }

    /// Appends the frames of user code that the registers and the copy of the stack in a sample lead
    /// to, at most `max_frames`.
    pub fn unwind(
        &mut self,
        task: &TaskAt,
        state: &UserState<'_>,
        max_frames: usize,
        moment: Moment,
        frames: &mut Vec<Frame>,
    ) {
        if let Some(unwinder) = &mut self.unwinder {
            unwinder.unwind(&task.process, state, max_frames, moment, frames);
        }
    }

    /// The thread `tid` of `pid` at `moment`.
    #[inline]
    pub fn task(&mut self, pid: Pid, tid: Tid, moment: Moment) -> TaskAt {
        if let Some(task) = self.tasks.get(&(pid, tid))
            && task.from <= moment
            && moment < task.until
        {
            return *task;
        }
        let (comm, from, until) = self.timeline.comm(tid, moment);
        let process = self.timeline.process(pid, moment);
        let from = from.max(process.from);
        let until = until.min(process.until);
        let task = TaskAt { comm, process, from, until };
        self.tasks.insert((pid, tid), task);
        task
    }

    /// The address `ip`, met with the privilege bits `cpumode`.
    pub fn frame(&self, task: &TaskAt, cpumode: u16, ip: u64, moment: Moment) -> Frame {
        let (level, owner) = match cpumode {
            misc::KERNEL => (Level::Kernel, self.timeline.kernel(ip, moment)),
            misc::USER => (Level::User, self.timeline.user(&task.process, ip, moment)),
            misc::GUEST_KERNEL => (Level::GuestKernel, None),
            misc::GUEST_USER => (Level::GuestUser, None),
            _ => (Level::Hypervisor, None),
        };
        Frame { ip: Addr(ip), owner, level, is_return_address: false }
    }

    /// Appends the frames of a call chain to `frames`, at most `max_frames`, the sampled one first.
    ///
    /// A mark that no kernel writes makes the whole chain worthless, so that none of it is kept.
    pub fn chain(
        &self,
        task: &TaskAt,
        raw: &U64s<'_>,
        max_frames: usize,
        moment: Moment,
        frames: &mut Vec<Frame>,
    ) {
        links(raw, max_frames, frames, |link| self.link(task, link, moment));
    }

    /// The frame of a link of a call chain.
    pub(super) fn link(&self, task: &TaskAt, link: Link, moment: Moment) -> Frame {
        let Link { ip, cpumode, is_return_address, is_kernel_entry } = link;
        let mut frame = self.frame(task, cpumode, ip, moment);
        if is_kernel_entry {
            // Where the thread entered the kernel: of the old program while exec lasts.
            let before_exec = || self.timeline.user_before_exec(&task.process, ip);
            frame.owner = frame.owner.or_else(before_exec);
        }
        Frame { is_return_address, ..frame }
    }
}

/// An address of a call chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    ip: u64,
    cpumode: u16,
    is_return_address: bool,
    /// Whether it is that of user code behind those of the kernel.
    is_kernel_entry: bool,
}

/// What the frame of a link depends on: two numbers of the state of the process, the address, and how it
/// was met.
pub(super) type LinkKey = (u32, u32, u64, u32);

impl Link {
    /// What its frame depends on, with a number that tells it from others well; `None` if on more.
    pub(super) fn key(&self, task: &TaskAt) -> Option<(u64, LinkKey)> {
        let [space, own, symbols, maps] = task.process.version;
        let (a, b) = match self.cpumode {
            misc::USER if !self.is_kernel_entry => (space, own),
            misc::KERNEL => (symbols, maps),
            _ => return None,
        };
        let met = u32::from(self.cpumode) << 1 | u32::from(self.is_return_address);
        let spread = self.ip ^ u64::from(a) << 44 ^ u64::from(b) << 32 ^ u64::from(met) << 60;
        Some((spread, (a, b, self.ip, met)))
    }
}

/// Appends what `make` makes of each address of the call chain `raw` to `found`, of at most
/// `max_frames`, the sampled one first; of none where there is a mark that no kernel writes.
pub(super) fn links<T>(
    raw: &U64s<'_>,
    max_frames: usize,
    found: &mut Vec<T>,
    mut make: impl FnMut(Link) -> T,
) {
    let start = found.len();
    let mut cpumode = misc::USER;
    let mut came_by_kernel = false;
    // What stands first behind a mark ran, or was interrupted.
    let mut is_return_address = false;
    for ip in raw.iter() {
        if ip >= callchain_context::MAX {
            is_return_address = false;
            cpumode = match ip {
                // What would follow is the number of a chain that never came.
                callchain_context::USER_DEFERRED => return,
                callchain_context::HV => misc::HYPERVISOR,
                callchain_context::KERNEL => {
                    came_by_kernel = true;
                    misc::KERNEL
                }
                callchain_context::USER => misc::USER,
                _ => {
                    found.truncate(start);
                    return;
                }
            };
            continue;
        }
        if found.len() - start == max_frames {
            return;
        }
        let is_kernel_entry = cpumode == misc::USER && came_by_kernel;
        came_by_kernel &= !is_kernel_entry;
        found.push(make(Link { ip, cpumode, is_return_address, is_kernel_entry }));
        is_return_address = true;
    }
}

/// Whether the call chain `raw` begins with `ip`, at the privilege `cpumode`.
pub(super) fn begins_with(raw: &U64s<'_>, cpumode: u16, ip: u64) -> bool {
    let mut words = raw.iter();
    let is_alike = match words.next() {
        Some(callchain_context::KERNEL) => cpumode == misc::KERNEL,
        Some(callchain_context::USER) => cpumode == misc::USER,
        _ => false,
    };
    is_alike && ip < callchain_context::MAX && words.next() == Some(ip)
}

/// What stands for the name of a thread that nothing told: perf's own form.
pub fn unnamed_comm(tid: Tid) -> Vec<u8> {
    match tid {
        Tid(0) => b"swapper".to_vec(),
        Tid(tid) => format!(":{tid}").into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use crate::perfdata::Endian;
    use crate::replay::timeline::Fact;
    use crate::replay::timeline::KernelSymbol;

    use super::*;

    #[track_caller]
    fn check(raw: &[u64], max_frames: usize, want: &[(u64, Level)]) {
        let symbol = KernelSymbol { name: b"x".to_vec(), start: 0x100, end: 0x200 };
        let timeline = Timeline::new(vec![(Moment::START, Fact::Register(symbol))], vec![]);
        let mut resolver = Resolver::new(&timeline);
        let task = resolver.task(Pid(1), Tid(1), Moment::END);
        let bytes: Vec<u8> = raw.iter().flat_map(|it| it.to_ne_bytes()).collect();
        let raw = U64s::new(&bytes, Endian::NATIVE);
        let mut frames = Vec::new();
        resolver.chain(&task, &raw, max_frames, Moment::START, &mut frames);
        let got: Vec<_> = frames.iter().map(|it| (it.ip.0, it.level)).collect();
        assert_eq!(got, want);
        for frame in frames {
            assert_eq!(frame.owner.is_some(), frame.level == Level::Kernel);
        }
    }

    #[test]
    fn context_marks_decide_whose_addresses_follow() {
        let raw = [callchain_context::KERNEL, 0x150, callchain_context::USER, 0x150, 0x40];
        let (kernel, user) = (Level::Kernel, Level::User);
        check(&raw, 127, &[(0x150, kernel), (0x150, user), (0x40, user)]);
        check(&raw, 2, &[(0x150, kernel), (0x150, user)]);
    }

    #[test]
    fn a_chain_begins_with_its_first_address_at_the_privilege_of_its_mark() {
        let begins = |raw: &[u64], cpumode, ip| {
            let bytes: Vec<u8> = raw.iter().flat_map(|it| it.to_ne_bytes()).collect();
            begins_with(&U64s::new(&bytes, Endian::NATIVE), cpumode, ip)
        };
        assert!(begins(
            &[callchain_context::KERNEL, 0x150, callchain_context::USER, 0x40],
            misc::KERNEL,
            0x150
        ));
        assert!(begins(&[callchain_context::USER, 0x150], misc::USER, 0x150));
        assert!(!begins(&[callchain_context::USER, 0x150], misc::KERNEL, 0x150));
        assert!(!begins(&[callchain_context::USER, 0x150], misc::USER, 0x151));
        assert!(!begins(
            &[callchain_context::USER, callchain_context::USER],
            misc::USER,
            callchain_context::USER
        ));
        assert!(
            !begins(&[callchain_context::KERNEL], misc::KERNEL, 0) && !begins(&[], misc::USER, 0)
        );
    }

    #[test]
    fn a_mark_that_no_kernel_writes_makes_the_chain_worthless() {
        check(&[callchain_context::KERNEL, 0x150, u64::MAX, 0x40], 127, &[]);
    }
}
