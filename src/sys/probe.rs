//! What the kernel lets this process load.

use std::ptr;

use libbpf_rs::libbpf_sys as raw;
use nix::errno::Errno;

/// A type of BPF programs, `enum bpf_prog_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgType(u32);

impl ProgType {
    /// On a tracepoint, by a perf event.
    pub const TRACEPOINT: Self = Self(raw::BPF_PROG_TYPE_TRACEPOINT);
    /// On a tracepoint, before its fields are made.
    pub const RAW_TRACEPOINT: Self = Self(raw::BPF_PROG_TYPE_RAW_TRACEPOINT);
    /// On the samples of a perf event.
    pub const PERF_EVENT: Self = Self(raw::BPF_PROG_TYPE_PERF_EVENT);
    /// On the entry or exit of a function of the kernel.
    pub const TRACING: Self = Self(raw::BPF_PROG_TYPE_TRACING);
}

/// Whether a program of this type, which does nothing, can be loaded: the kernel is asked to, and
/// the program is dropped at once.
///
/// # Errors
///
/// What keeps the answer from being known.
pub fn can_load(prog_type: ProgType) -> Result<bool, Errno> {
    // What libbpf has to say of a refusal is of no interest.
    let print = libbpf_rs::set_print(None);
    // SAFETY: libbpf takes any number for a type, and no options.
    let answer = unsafe { raw::libbpf_probe_bpf_prog_type(prog_type.0, ptr::null()) };
    libbpf_rs::set_print(print);
    match answer {
        0 => Ok(false),
        1.. => Ok(true),
        error => Err(Errno::from_raw(error.wrapping_neg())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_kernel_loads_a_type_that_there_is_not() {
        assert!(!matches!(can_load(ProgType(0x7fff_ffff)), Ok(true)));
    }
}
