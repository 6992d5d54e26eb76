//! BTF, the type information of BPF objects: types, names, and values printed by type.
//!
//! In comes the raw form that the kernel hands out and `perf.data` carries, in either byte order;
//! out come names of functions and variables, and text. Nothing here is trusted: a type is read
//! where it lies each time, all lengths are checked, chains and nesting end at fixed depths.
//! What an unknown kind of type hides is absent, not an error.
//!
//! Sources: `Documentation/bpf/btf.rst` and `include/uapi/linux/btf.h` of Linux.

mod encode;
mod fields;
mod find;
mod named;
mod part;
mod sum;
#[cfg(test)]
pub(crate) mod testing;
mod types;
mod value;

pub(crate) use encode::integer;
pub use fields::Field;
pub use types::Btf;
pub use types::Variable;
pub(crate) use value::cut;

/// Why a blob is not BTF.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It ends before its header does.
    #[error("BTF of {len} bytes is shorter than its header")]
    TooShort {
        /// How long it is.
        len: usize,
    },
    /// It does not begin with the magic number in either byte order.
    #[error("BTF begins with `{magic:#06x}` instead of its magic number")]
    Magic {
        /// The first two bytes, read as little endian.
        magic: u16,
    },
    /// A section of it lies beyond its end.
    #[error(
        "BTF of {len} bytes has no room for its {section} section at {at:#x}, {section_len} bytes"
    )]
    Section {
        /// `type` or `string`.
        section: &'static str,
        /// Where the section would begin, in bytes from the start.
        at: u64,
        /// How long it would be, in bytes.
        section_len: u32,
        /// How long the whole is, in bytes.
        len: usize,
    },
}

/// A convenience for this stage.
pub type Result<T> = std::result::Result<T, Error>;
