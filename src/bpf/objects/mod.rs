//! BPF object files, whose programs are events: what they have, and their load.
//!
//! In come the bytes of a file, out comes what can be chosen from it ([`contents`]), or an [`Object`]
//! that is loaded and holds programs, maps and links. All of it is gone with the process that
//! holds it: nothing is pinned.
//!
//! Source: libbpf's `src/libbpf.c` for what an object file is.

mod error;
mod file;
mod gate;
mod load;
mod messages;
mod settings;
mod values;
mod verdicts;

pub use error::Error;
pub use error::Log;
pub use file::Contents;
pub use file::contents;
pub use gate::cookie;
pub use load::Object;
pub use load::Output;
pub use load::OutputKind;
pub use load::program_id;
pub(super) use load::refused;
pub(super) use messages::heard;
