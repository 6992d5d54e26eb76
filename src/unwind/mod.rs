//! User registers and a copy of the stack to the frames of the call chain, by unwind tables.
//!
//! *In*: the registers and the part of the stack that a sample holds, and the tables that compilers
//! write beside their code (`.eh_frame`, `.debug_frame`). *Out*: addresses, the sampled one first, and
//! why there are no more. A table is data: its [`Row`] for an address says how to get from a frame to
//! its caller, for all processes that map the file, wherever they do.
//!
//! Registers, stacks and tables are untrusted. Each step costs bounded work, the stack pointer moves
//! only towards the bottom of the stack, and what a table does not say is not known rather than
//! guessed. Only code that has no table at all is left by its frame pointer, and only to where a call
//! can have come from.
//!
//! Sources: "Call Frame Information" (6.4) in the DWARF 5 standard; "Exception Frames" in the Linux
//! Standard Base; the x86-64 psABI; "DWARF for the Arm 64-bit Architecture"; `perf_sample_regs_user()`
//! and `perf_output_sample_ustack()` in `kernel/events/core.c`.

mod instructions;
mod registers;
mod row;
mod table;
mod walk;

pub use instructions::MAX_CALL_BYTES;
pub use instructions::MAX_SIGNAL_RETURN_BYTES;
pub use instructions::ends_with_call;
pub use instructions::is_signal_return;
pub use registers::Arch;
pub use registers::Registers;
pub use row::Row;
pub use table::Context;
pub use table::Table;
pub use walk::Code;
pub use walk::End;
pub use walk::Left;
pub use walk::RowId;
pub use walk::Space;
pub use walk::StackCopy;
pub use walk::walk;
