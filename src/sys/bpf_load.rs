//! Loading a program that was put together here: libbpf-rs loads what is in object files alone.
//!
//! Source: `BPF_PROG_LOAD` in bpf(2).

use std::ffi::CStr;
use std::os::fd::OwnedFd;

use libbpf_rs::libbpf_sys as raw;
use nix::errno::Errno;

use super::bpf::check;
use super::bpf::owned;

/// The most of the verifier's log that is asked for, in bytes.
const LOG_LEN: usize = 64 << 10;

/// The length of an instruction.
pub const INSN_LEN: usize = size_of::<raw::bpf_insn>();

/// A program that the kernel does not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot load a BPF program")]
pub struct NotLoaded {
    /// Why not.
    #[source]
    pub errno: Errno,
    /// What the verifier says; empty where it was not asked.
    pub log: String,
}

/// Which kind of program it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramKind {
    /// For events that are no tracing events.
    PerfEvent,
    /// For probes.
    Kprobe,
}

/// Loads the program of `insns`, encoded as `struct bpf_insn`.
///
/// The kernel keeps what `insns` refers to by descriptor, and the program as long as the descriptor
/// is open or something runs it.
///
/// # Errors
///
/// [`NotLoaded`] with the end of the verifier's log.
pub fn load(
    kind: ProgramKind,
    name: &CStr,
    license: &CStr,
    insns: &[[u8; INSN_LEN]],
) -> Result<OwnedFd, NotLoaded> {
    let errno = match try_load(kind, name, license, insns, &mut []) {
        Ok(fd) => return Ok(fd),
        Err(errno) => errno,
    };
    // Only what is wrong is worth a log.
    let mut log = vec![0; LOG_LEN];
    match try_load(kind, name, license, insns, &mut log) {
        Ok(fd) => Ok(fd),
        Err(_) => {
            let end = log.iter().position(|it| *it == 0).unwrap_or(log.len());
            log.truncate(end);
            Err(NotLoaded { errno, log: String::from_utf8_lossy(&log).into_owned() })
        }
    }
}

fn try_load(
    kind: ProgramKind,
    name: &CStr,
    license: &CStr,
    insns: &[[u8; INSN_LEN]],
    log: &mut [u8],
) -> Result<OwnedFd, Errno> {
    let kind = match kind {
        ProgramKind::PerfEvent => raw::BPF_PROG_TYPE_PERF_EVENT,
        ProgramKind::Kprobe => raw::BPF_PROG_TYPE_KPROBE,
    };
    let mut options = raw::bpf_prog_load_opts {
        sz: size_of::<raw::bpf_prog_load_opts>() as raw::size_t,
        // The signals that interrupt a load are blocked, so that once is enough.
        attempts: 1,
        ..Default::default()
    };
    if !log.is_empty() {
        options.log_level = 1;
        options.log_size = u32::try_from(log.len()).unwrap_or(0);
        options.log_buf = log.as_mut_ptr().cast();
    }
    // SAFETY: both names end with a zero; `insns` is as many `struct bpf_insn` as its length says,
    // and the kernel, which copies them, needs no alignment; `options` says its own size, and its
    // only pointer is that of `log` with its length. All outlive the call.
    let ret = unsafe {
        raw::bpf_prog_load(
            kind,
            name.as_ptr(),
            license.as_ptr(),
            insns.as_ptr().cast(),
            insns.len() as raw::size_t,
            &raw mut options,
        )
    };
    check(ret)?;
    owned(ret)
}
