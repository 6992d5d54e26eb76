//! Programs from their source: `NAME.bpf.c` becomes an object, by the clang of this machine.
//!
//! In comes the path of a source, out come the bytes of an object; no file of it is left. Whatever a
//! source needs comes with us, since a machine that is looked at has seldom what builds are made of:
//! libbpf's headers, `bpfperf.h`, and `vmlinux.h`, which is written from the running kernel's types
//! if the source includes it and brings none. That has only the types that the source can use, which
//! it shows by the words in it once it is preprocessed: clang takes a fraction of the time.

mod clang;
mod headers;
mod vmlinux;

use std::fmt;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use self::clang::Clang;
use crate::sys::Refused;

/// How to compile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The compiler; if `None`, the one that is in `PATH`.
    pub clang: Option<PathBuf>,
    /// More arguments for it, before those that say what is compiled.
    pub args: Vec<String>,
}

/// Why a source is no object.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The source cannot be read.
    #[error("cannot read it")]
    Read(#[source] io::Error),
    /// There is nothing to compile it with.
    #[error("there is no `{name}` to compile it with")]
    NoClang {
        /// What was looked for.
        name: String,
    },
    /// The compiler cannot be run.
    #[error("cannot run `{clang}`")]
    Run {
        /// The compiler.
        clang: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The compiler says no.
    #[error("`{clang}` cannot compile it")]
    Compile {
        /// The compiler.
        clang: String,
        /// What it says, for whoever wrote the source: lines with the names of files.
        messages: String,
    },
    /// The source includes `vmlinux.h`, and nothing says what is in it.
    #[error("it includes `vmlinux.h`, and this kernel does not describe its types")]
    NoTypes(#[source] io::Error),
    /// The kernel's types are not what they should be.
    #[error("it includes `vmlinux.h`, and the kernel's types cannot be written as C")]
    BadTypes(#[source] Refused),
    /// There is no room for what comes between source and object.
    #[error("cannot write a temporary file")]
    Scratch(#[source] io::Error),
}

/// What became of a source.
#[derive(Clone, PartialEq, Eq)]
pub struct Compiled {
    /// The object file.
    pub object: Vec<u8>,
    /// What the compiler said though it did compile: warnings, or nothing.
    pub messages: String,
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiled")
            .field("len", &self.object.len())
            .field("messages", &self.messages)
            .finish_non_exhaustive()
    }
}

/// Compiles the source at `path`.
///
/// # Errors
///
/// [`Error`]; nothing of what was written remains.
pub fn compile(path: &Path, options: &Options) -> Result<Compiled, Error> {
    // Tells what keeps the source from being read, a folder included, as the others do.
    fs::read(path).map_err(Error::Read)?;
    let clang = Clang::find(options)?;
    let scratch = tempfile::tempdir().map_err(Error::Scratch)?;
    let folders = headers::write(scratch.path()).map_err(Error::Scratch)?;
    let preprocessed = clang.preprocess(path, &folders)?;
    if vmlinux::is_included(&preprocessed, &folders.vmlinux()) {
        let header = vmlinux::header(&preprocessed)?;
        fs::write(folders.vmlinux(), header).map_err(Error::Scratch)?;
    }
    let object = scratch.path().join("object");
    let messages = clang.compile(path, &folders, &object)?;
    Ok(Compiled { object: fs::read(&object).map_err(Error::Scratch)?, messages })
}

/// What a compiler says, without what a terminal would take for orders.
fn readable(said: &[u8]) -> String {
    let mut text = String::new();
    for it in String::from_utf8_lossy(said).chars() {
        if it.is_control() && it != '\n' && it != '\t' {
            // Writing to a string does not fail.
            write!(text, "{}", it.escape_default()).ok();
        } else {
            text.push(it);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_text() {
        assert_eq!(readable(b"a.c:1:\n\t^ \x1b[1m\xff"), "a.c:1:\n\t^ \\u{1b}[1m\u{fffd}");
    }

    #[test]
    fn a_source_that_is_not_there_is_told() {
        let options = Options::default();
        let error = compile(Path::new("/nonexistent.bpf.c"), &options).unwrap_err();
        assert!(matches!(error, Error::Read(it) if it.kind() == io::ErrorKind::NotFound));
        let error = compile(Path::new("/"), &options).unwrap_err();
        assert!(matches!(error, Error::Read(it) if it.kind() == io::ErrorKind::IsADirectory));
    }
}
