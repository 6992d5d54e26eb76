//! The kernel's BPF side: the programs that are loaded, their names, types and metadata.
//!
//! In come ids, out come [`Program`]s with everything that the kernel tells of them, fetched while
//! they live. A program that is gone, refused or odd is counted and never costs another one its
//! place. A descriptor is held as long as the questions about one program take, since it delays the
//! unload, and no longer than its loader takes to bind its metadata to it.

mod btfs;
pub mod filter;
mod holders;
mod kallsyms;
mod links;
mod maps;
mod metadata;
mod mounts;
mod namespace;
pub mod objects;
pub mod off_cpu;
mod operations;
mod programs;
mod runs;
pub mod source;
mod survey;
mod targets;
mod tracepoints;

pub use kallsyms::Image;
pub use kallsyms::ImageKind;
pub use kallsyms::images;
pub use metadata::MetadataEntry;
pub use namespace::knows_all_ids;
pub use programs::Function;
pub use programs::Held;
pub use programs::Program;
pub use programs::Programs;
pub use programs::Skipped;
pub use runs::Readings;
pub use survey::Depth;
pub use survey::Survey;
pub use survey::all_counters;

use nix::errno::Errno;

/// Why nothing at all is known of the loaded programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This kernel does not list BPF programs, so there is nothing to be missed.
    #[error("this kernel does not list BPF programs")]
    Absent,
    /// The caller may not ask.
    #[error("cannot list the loaded BPF programs")]
    Refused {
        /// What the kernel said.
        #[source]
        errno: Errno,
    },
}

/// Whether any program is loaded, as far as we may know.
pub fn has_programs() -> bool {
    crate::sys::bpf::next_prog_id(0).is_ok_and(|it| it.is_some())
}
