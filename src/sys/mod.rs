//! The system calls: the only unsafe code of the program.
//!
//! In come encoded attributes, descriptors and sizes; out go owners ([`perf_event::EventFd`],
//! [`ring::Ring`], [`spawn::Held`]) that close, unmap and reap when dropped. This stage decides
//! nothing and prints nothing: a refusal is an `Errno` with the call that met it.
#![allow(unsafe_code, reason = "this is where the system calls are")]

pub mod bpf;
pub mod bpf_counters;
pub mod bpf_links;
pub mod bpf_load;
pub mod bpf_names;
pub mod btf_dump;
pub mod clock;
pub mod compat_vdso;
pub mod descriptor;
pub mod kernfs;
pub mod libbpf_messages;
pub mod map;
pub mod message_ring;
pub mod perf_event;
pub mod pidfd;
pub mod probe;
pub mod ring;
mod shrunk;
pub mod signals;
pub mod spawn;
pub mod thread;

use nix::errno::Errno;

/// A system call that was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot {call}")]
pub struct Refused {
    /// What the call was to do, as a verb and its object.
    pub call: &'static str,
    /// Why not.
    #[source]
    pub errno: Errno,
}

impl Refused {
    /// The refusal of `call` by `errno`.
    pub(crate) fn new(call: &'static str, errno: Errno) -> Self {
        Self { call, errno }
    }

    /// What `errno` says of the call that has just returned -1.
    pub(crate) fn last(call: &'static str) -> Self {
        Self::new(call, Errno::last())
    }
}
