//! `perf_event_open(2)` and the ioctls on what it returns.

use std::ffi::CStr;
use std::fmt;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::fd::BorrowedFd;
use std::os::fd::FromRawFd;
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use perf_event_open_sys as perf;
use perf_event_open_sys::ioctls;

use super::Refused;
use crate::perfdata::SampleType;
use crate::units::Cpu;
use crate::units::Tid;

/// Whom an event watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// Every task that runs on one CPU.
    Cpu(Cpu),
    /// One task, while it runs on one CPU.
    TaskOnCpu(Tid, Cpu),
    /// One task, wherever it runs.
    Task(Tid),
}

impl Target {
    /// The task that it is of, if it is of one.
    pub fn task(self) -> Option<Tid> {
        match self {
            Self::Cpu(_) => None,
            Self::TaskOnCpu(tid, _) | Self::Task(tid) => Some(tid),
        }
    }

    /// The `pid` and `cpu` arguments of `perf_event_open(2)`.
    fn arguments(self) -> (i32, i32) {
        let cpu_argument = |cpu: Cpu| i32::try_from(cpu.0).unwrap_or(i32::MAX);
        match self {
            Self::Cpu(cpu) => (-1, cpu_argument(cpu)),
            Self::TaskOnCpu(tid, cpu) => (tid.0, cpu_argument(cpu)),
            Self::Task(tid) => (tid.0, -1),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu(cpu) => write!(f, "CPU {cpu}"),
            Self::TaskOnCpu(tid, cpu) => write!(f, "thread {tid} on CPU {cpu}"),
            Self::Task(tid) => write!(f, "thread {tid}"),
        }
    }
}

/// An event that the kernel refused to open.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot open event `{event}` on {target}")]
pub struct OpenError {
    /// The event as the user named it.
    pub event: String,
    /// Whom it was to watch.
    pub target: Target,
    /// Why not.
    #[source]
    pub errno: Errno,
    /// How the same event could be opened here, if that was found out.
    pub remedy: Option<Remedy>,
}

/// How an event that was refused could be opened on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Without a field of its samples.
    Without(SampleType),
    /// On CPUs, not on tasks.
    OnCpus,
    /// With a clock that can be read anywhere.
    OnSteadyClock,
}

/// The BPF programs that are attached to a tracepoint by events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttachedPrograms {
    /// How many there are.
    pub n_programs: u32,
    /// Their ids, in the order in which they run; fewer where there were more than were asked for.
    pub ids: Vec<u32>,
}

/// The most programs on one tracepoint: `BPF_TRACE_MAX_PROGS` in `include/linux/trace_events.h`.
const PROGRAMS_MAX: usize = 64;

/// `struct perf_event_query_bpf` with room for as many ids as the kernel takes.
#[repr(C)]
struct QueryBpf {
    ids_len: u32,
    prog_cnt: u32,
    ids: [u32; PROGRAMS_MAX],
}

/// What an event may be opened with beside its attribute.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extra<'a> {
    /// The event whose group it joins.
    pub leader: Option<&'a EventFd>,
    /// The file that a probe of user space is in; `config1` points to it.
    pub path: Option<&'a CStr>,
    /// The folder of the cgroup whose tasks alone are watched on a CPU.
    pub cgroup: Option<BorrowedFd<'a>>,
}

/// Where `config1` stands in the attribute, in bytes.
const CONFIG1: Range<usize> = 56..64;

/// An open event, closed when dropped.
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    /// Opens the event that `attr` describes, an encoded `struct perf_event_attr`.
    ///
    /// # Errors
    ///
    /// What the kernel says; `E2BIG` without asking it, if the size that `attr` claims is more
    /// than there is.
    pub fn open(attr: &[u8], target: Target) -> Result<Self, Errno> {
        Self::open_with(attr, target, Extra::default())
    }

    /// Opens the event that `attr` describes, as [`EventFd::open`], with what no attribute says.
    ///
    /// # Errors
    ///
    /// What the kernel says; `E2BIG` as there.
    pub fn open_with(attr: &[u8], target: Target, extra: Extra<'_>) -> Result<Self, Errno> {
        let claimed = attr.get(4..8).and_then(|it| it.try_into().ok()).map(u32::from_ne_bytes);
        if !claimed.is_some_and(|size| 64 <= size && size as usize <= attr.len()) {
            return Err(Errno::E2BIG);
        }
        let (mut pid, cpu) = target.arguments();
        let mut flags = perf::bindings::PERF_FLAG_FD_CLOEXEC.into();
        if let Some(cgroup) = extra.cgroup {
            pid = cgroup.as_raw_fd();
            flags |= libc::c_ulong::from(perf::bindings::PERF_FLAG_PID_CGROUP);
        }
        // The kernel writes its own size into `attr.size` when it refuses one with E2BIG.
        let mut own = attr.to_vec();
        if let (Some(path), Some(place)) = (extra.path, own.get_mut(CONFIG1)) {
            place.copy_from_slice(&(path.as_ptr().addr() as u64).to_ne_bytes());
        }
        let leader = extra.leader.map_or(-1, |it| it.0.as_raw_fd());
        // SAFETY: the kernel reads `attr.size` bytes and writes at most that field: the check
        // above keeps both within `own`, which outlives the call, and `copy_struct_from_user()`
        // needs no alignment. Where `config1` points to a path, `strndup_user()` reads that up to
        // its zero, and `extra` keeps it alive.
        let fd = unsafe { perf::perf_event_open(own.as_mut_ptr().cast(), pid, cpu, leader, flags) };
        if fd < 0 {
            return Err(Errno::last());
        }
        // SAFETY: the call succeeded, so `fd` is open, and nothing else has seen it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Starts counting.
    ///
    /// # Errors
    ///
    /// What the kernel says, as in all these calls.
    pub fn enable(&self) -> Result<(), Refused> {
        // SAFETY: the descriptor is open as long as `self`, and the argument is a plain integer.
        done("enable an event", unsafe { ioctls::ENABLE(self.0.as_raw_fd(), 0) })
    }

    /// Stops counting.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn disable(&self) -> Result<(), Refused> {
        // SAFETY: as in `enable`.
        done("disable an event", unsafe { ioctls::DISABLE(self.0.as_raw_fd(), 0) })
    }

    /// Lets nothing be written to the ring that the event owns; what comes is counted as lost.
    ///
    /// Source: `PERF_EVENT_IOC_PAUSE_OUTPUT` in `kernel/events/core.c`, since Linux 4.7.
    ///
    /// # Errors
    ///
    /// What the kernel says: `EINVAL` where the event has no ring.
    pub fn pause_output(&self) -> Result<(), Refused> {
        // SAFETY: as in `enable`.
        done("pause a ring", unsafe { ioctls::PAUSE_OUTPUT(self.0.as_raw_fd(), 1) })
    }

    /// Lets the ring be written again.
    ///
    /// # Errors
    ///
    /// As [`EventFd::pause_output`].
    pub fn resume_output(&self) -> Result<(), Refused> {
        // SAFETY: as in `enable`.
        done("resume a ring", unsafe { ioctls::PAUSE_OUTPUT(self.0.as_raw_fd(), 0) })
    }

    /// Sends this event's records into the ring of `other`.
    ///
    /// The kernel refuses (`EINVAL`) another CPU, a per-task event without a CPU, another clock,
    /// and a ring that is written backward. Source: `perf_event_set_output()` in
    /// kernel/events/core.c.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn set_output(&self, other: &Self) -> Result<(), Refused> {
        let ring = other.0.as_raw_fd();
        // SAFETY: both descriptors are open as long as `self` and `other`.
        done("redirect an event", unsafe { ioctls::SET_OUTPUT(self.0.as_raw_fd(), ring) })
    }

    /// Lets only those of a tracepoint's events through that fit `filter`.
    ///
    /// # Errors
    ///
    /// What the kernel says: `EINVAL` for what it does not understand, `ENOENT` for an unbalanced
    /// bracket. Source: `ftrace_profile_set_filter()` in `kernel/trace/trace_events_filter.c`.
    pub fn set_filter(&self, filter: &CStr) -> Result<(), Refused> {
        let text = filter.as_ptr().cast_mut();
        // SAFETY: the descriptor is open as long as `self`, and the kernel copies the text up to
        // its zero, which a `CStr` has; it does not write there.
        done("filter an event", unsafe { ioctls::SET_FILTER(self.0.as_raw_fd(), text) })
    }

    /// Lets the BPF program decide which of the event's samples are written: those for which it
    /// returns something else than 0. It stays until the event is closed.
    ///
    /// On a tracepoint it runs for all events of that tracepoint, whoever opened them, so that a
    /// second event there says `EEXIST`: `perf_event_attach_bpf_prog()` in
    /// `kernel/trace/bpf_trace.c`.
    ///
    /// # Errors
    ///
    /// `EEXIST` where the program, or another one, sits there; `EINVAL` where the kinds of program
    /// and event do not fit.
    pub fn set_program(&self, program: BorrowedFd<'_>) -> Result<(), Refused> {
        let program = program.as_raw_fd().cast_unsigned();
        // SAFETY: both descriptors are open as long as their borrows, and the kernel takes a
        // reference of its own.
        done("attach a program to an event", unsafe {
            ioctls::SET_BPF(self.0.as_raw_fd(), program)
        })
    }

    /// The id under which the event's records are found in the file.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn id(&self) -> Result<u64, Refused> {
        let mut id = 0_u64;
        // SAFETY: the kernel writes eight bytes to `id`, which outlives the call.
        done("ask for an event's id", unsafe { ioctls::ID(self.0.as_raw_fd(), &raw mut id) })?;
        Ok(id)
    }

    /// Another owner of the same event.
    ///
    /// # Errors
    ///
    /// `EMFILE` where no more files may be open.
    pub fn share(&self) -> Result<Self, Refused> {
        let fd = self.0.try_clone().map_err(|error| {
            let errno = Errno::from_raw(error.raw_os_error().unwrap_or(0));
            Refused::new("share an event", errno)
        })?;
        Ok(Self(fd))
    }

    /// The BPF programs that events attach to this event's tracepoint, whoever opened them.
    ///
    /// Source: `perf_event_query_prog_array()` in `kernel/trace/bpf_trace.c`.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an event that is no tracepoint, `EPERM` without `CAP_PERFMON`.
    pub fn programs(&self) -> Result<AttachedPrograms, Errno> {
        let ids_len = u32::try_from(PROGRAMS_MAX).unwrap_or(0);
        let mut query = QueryBpf { ids_len, prog_cnt: 0, ids: [0; PROGRAMS_MAX] };
        let to = (&raw mut query).cast();
        // SAFETY: the kernel writes the count and at most `ids_len` ids, for which there is room,
        // to `query`, which outlives the call.
        let ret = unsafe { ioctls::QUERY_BPF(self.0.as_raw_fd(), to) };
        match Errno::result(ret) {
            // Where there is not room for all, the count and the first ids are there all the same.
            Ok(_) | Err(Errno::ENOSPC) => {}
            Err(errno) => return Err(errno),
        }
        let n_known = usize::try_from(query.prog_cnt).unwrap_or(usize::MAX).min(PROGRAMS_MAX);
        let ids = query.ids.get(..n_known).unwrap_or_default().to_vec();
        Ok(AttachedPrograms { n_programs: query.prog_cnt, ids })
    }

    /// Reads the event's values, `words` of eight bytes as its `read_format` orders them.
    ///
    /// # Errors
    ///
    /// What the kernel says; `ENOSPC` where there is not room for all values.
    pub fn read(&self, words: &mut [u64]) -> Result<usize, Refused> {
        let mut bytes = vec![0_u8; size_of_val(words)];
        let n = nix::unistd::read(&self.0, &mut bytes)
            .map_err(|errno| Refused::new("read an event", errno))?;
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = bytes.try_into().map(u64::from_ne_bytes).unwrap_or_default();
        }
        Ok(n / 8)
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn done(call: &'static str, returned: i32) -> Result<(), Refused> {
    if returned < 0 { Err(Refused::last(call)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A `perf_event_attr` of the first size: a software event that is never read.
    fn attr(kind: u32, config: u64) -> [u8; 64] {
        let mut attr = [0; 64];
        attr[..4].copy_from_slice(&kind.to_ne_bytes());
        attr[4..8].copy_from_slice(&64_u32.to_ne_bytes());
        attr[8..16].copy_from_slice(&config.to_ne_bytes());
        // disabled, exclude_kernel, exclude_hv: what the most cautious setting allows.
        attr[40] = 0b0110_0001;
        attr
    }

    #[test]
    fn an_attr_that_claims_more_than_there_is_never_reaches_the_kernel() {
        let mut long = attr(1, 9);
        long[4..8].copy_from_slice(&65_u32.to_ne_bytes());
        let refused = EventFd::open(&long, Target::Task(Tid(0)));
        assert_eq!(refused.err(), Some(Errno::E2BIG));
        assert_eq!(EventFd::open(&[], Target::Task(Tid(0))).err(), Some(Errno::E2BIG));
    }

    #[test]
    fn an_error_names_the_event_and_whom_it_was_to_watch() {
        let error = OpenError {
            event: "cycles:u".to_owned(),
            target: Target::TaskOnCpu(Tid(7), Cpu(3)),
            errno: Errno::ENOENT,
            remedy: None,
        };
        assert_eq!(error.to_string(), "cannot open event `cycles:u` on thread 7 on CPU 3");
    }

    #[test]
    fn an_unknown_kind_of_event_is_refused_by_the_kernel() {
        let refused = EventFd::open(&attr(0x7fff_fff0, 0), Target::Task(Tid(0)));
        assert!(refused.is_err());
    }
}
