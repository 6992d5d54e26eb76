//! What the machine says of itself: `/proc`, `/sys`, tracefs, limits, files on disk.
//!
//! Out go plain values; what a recording does with them is [`record`](crate::record)'s. A process
//! that is gone by the time it is looked at is no error: it is not there.

pub mod cgroups;
pub mod cpus;
pub mod debuginfod;
pub mod facts;
pub mod files;
pub mod kernel;
pub mod limits;
pub mod line_cache;
pub mod mapped;
pub mod note;
pub mod packages;
pub mod pmus;
pub mod privilege;
pub mod process;
pub mod settings;
pub mod tracefs;

use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;

/// Something that the machine did not say.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A file holds something else than the kernel writes there.
    #[error("`{}` holds `{text}`, which is no {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What was expected.
        what: &'static str,
        /// What it holds instead.
        text: String,
    },
}

/// The content of a file of the kernel's, without the newline at its end.
fn line(path: &Path) -> Result<String, Error> {
    let text = fs::read_to_string(path);
    let text = text.map_err(|source| Error::Read { path: path.to_owned(), source })?;
    Ok(text.trim_end().to_owned())
}
