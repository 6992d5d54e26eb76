//! Records to timeline to resolved samples.
//!
//! In comes a recording, out come its samples with every address resolved, either boiled down to
//! distinct combinations ([`Resolved`](resolved::Resolved), for `report`) or one by one in order
//! (for `script`). The way there takes the file apart by time first:
//!
//! ```text
//! Recording   header, events, features
//! Index       one pass over the record headers: sideband decoded, samples only counted
//! Timeline    who owned which address from when to when, built from the sideband, immutable
//! Programs    the BPF programs of the recording, where something asks for them
//! Resolver    samples in any order, on any number of threads, to frames and stacks
//! Names       each distinct address named once
//! ```
//!
//! It never opens a file, asks the machine it runs on, or knows how a profile will be shown.

mod anomalies;
mod codes;
mod deferred;
mod details;
mod distinct;
mod functions;
mod index;
mod jit;
mod lines;
mod makers;
mod nameless;
mod names;
pub mod programs;
mod provenance;
mod readings;
mod recording;
mod resolve;
pub mod resolved;
mod resolver;
mod saved;
pub mod spans;
mod time_range;
pub mod timeline;
mod untold;
mod unwound;

pub use anomalies::Anomalies;
pub use codes::CodeFiles;
pub use codes::Codes;
pub use codes::LONGEST_INSTRUCTION;
pub use codes::NoCode;
pub use deferred::Deferred;
pub use details::Asked;
pub use details::Counted;
pub use details::Detail;
pub use details::DetailValue;
pub use details::FunctionAt;
pub use details::NotedValue;
pub use details::Notes;
pub use index::Entry;
pub use index::Index;
pub use index::Wanted;
pub use index::is_anonymous;
pub use jit::JitDumps;
pub use jit::JitMade;
pub use lines::Inlined;
pub use lines::Lines;
pub use lines::MissingLines;
pub use makers::Unnamed;
pub use makers::WrittenMap;
pub use nameless::Lacked;
pub use nameless::Lacking;
pub use nameless::Nameless;
pub use nameless::NoKernel;
pub use nameless::Unknown;
pub use names::Demangling;
pub use names::LocalKernel;
pub use names::Name;
pub use names::Names;
pub use names::Sources;
pub use names::SymbolName;
pub use names::Width;
pub use programs::Programs;
pub use provenance::Provenance;
pub use readings::Reading;
pub use readings::Readings;
pub use recording::Event;
pub use recording::Recording;
pub use resolve::resolve;
pub use resolver::Frame;
pub use resolver::Resolver;
pub use resolver::TaskAt;
pub use resolver::unnamed_comm;
pub use time_range::TimeRange;
pub use unwound::Ends;
pub use unwound::Unwinding;

use crate::perfdata;

/// Why a recording could not be replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Its bytes cannot be decoded.
    #[error(transparent)]
    Decode(#[from] perfdata::Error),
    /// It has no attribute, so nothing says how its samples are laid out.
    #[error("the recording has no event")]
    NoEvents,
}
