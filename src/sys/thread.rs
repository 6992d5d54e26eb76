//! How the kernel schedules the calling thread.

use super::Refused;

/// Lets the calling thread run before others: nice -20.
///
/// On Linux the nice value belongs to the thread. A real-time class would wake no sooner on a
/// machine that is not full of such threads, and could keep a CPU from everything else.
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
