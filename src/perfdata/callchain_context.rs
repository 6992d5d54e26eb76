//! The marks in call chains that say where the addresses behind them are.
//!
//! Source: `enum perf_callchain_context` in `include/uapi/linux/perf_event.h`.

/// A hypervisor.
pub const HV: u64 = (-32_i64).cast_unsigned();
/// The kernel.
pub const KERNEL: u64 = (-128_i64).cast_unsigned();
/// User space.
pub const USER: u64 = (-512_i64).cast_unsigned();
/// User space, by a record of its own: what follows is the number that this has, too.
pub const USER_DEFERRED: u64 = (-640_i64).cast_unsigned();
/// The smallest of all marks: what is less is an address.
pub const MAX: u64 = (-4095_i64).cast_unsigned();
