//! How the kernel schedules the calling thread.

use nix::sched::CpuSet;
use nix::sched::sched_setaffinity;
use nix::unistd::Pid;

use crate::units::Cpu;

use super::Refused;

/// How urgent the work of a real-time thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// To ask for a program that is held.
    Asking,
    /// To take hold of a program before it is gone.
    Catching,
}

/// Lets the calling thread run before all ordinary ones: real-time, of the lowest priorities.
///
/// A nice value does not do it: a thread that wakes waits for the running one to use up its slice
/// (`RUN_TO_PARITY` in kernel/sched/features.h), some milliseconds. Children do not inherit it.
///
/// Source: sched(7).
///
/// # Errors
///
/// `EPERM` without `CAP_SYS_NICE` or `RLIMIT_RTPRIO`, or in a control group without a real-time
/// budget.
pub fn run_first(urgency: Urgency) -> Result<(), Refused> {
    run_at(match urgency {
        Urgency::Asking => 1,
        Urgency::Catching => 2,
    })
}

/// Makes the calling thread a real-time one of this priority, 1 to 99. Children do not inherit it.
///
/// # Errors
///
/// As of [`run_first`], and `EINVAL` for another priority.
pub fn run_at(priority: u8) -> Result<(), Refused> {
    let sched_priority = priority.into();
    let param = libc::sched_param { sched_priority };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: takes numbers and a struct that outlives the call; 0 is the calling thread.
    let ret = unsafe { libc::sched_setscheduler(0, policy, &raw const param) };
    if ret < 0 { Err(Refused::last("make a thread a real-time one")) } else { Ok(()) }
}

/// Keeps the calling thread on these CPUs.
///
/// # Errors
///
/// `EINVAL` if all are offline or not of the task's control group, or one is beyond what the C
/// library counts.
pub fn stay_on(cpus: impl IntoIterator<Item = Cpu>) -> Result<(), Refused> {
    let call = "keep a thread on some CPUs";
    let mut set = CpuSet::new();
    let idx = |cpu: Cpu| usize::try_from(cpu.0).unwrap_or(usize::MAX);
    let stayed = cpus
        .into_iter()
        .try_for_each(|cpu| set.set(idx(cpu)))
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &set));
    stayed.map_err(|errno| Refused::new(call, errno))
}

/// Lets the calling thread run before most others: nice -20.
///
/// On Linux the nice value belongs to the thread.
///
/// Source: setpriority(2), "C library/kernel differences".
///
/// # Errors
///
/// `EACCES` without `CAP_SYS_NICE`.
pub fn prefer() -> Result<(), Refused> {
    // SAFETY: takes numbers only; 0 is the calling thread.
    let ret = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
    if ret < 0 { Err(Refused::last("raise a thread's priority")) } else { Ok(()) }
}
