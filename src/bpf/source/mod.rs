//! Programs from their source: `NAME.bpf.c` becomes an object, by the clang of this machine.
//!
//! In comes the path of a source, out comes a [`TempObject`] that lies in no folder. Whatever a
//! source needs comes with us, since a machine that is looked at has seldom what builds are made of:
//! libbpf's headers, `bpfperf.h`, and `vmlinux.h`, which is written from the running kernel's types
//! if the source includes it and brings none. That has only the types that the source can use, which
//! it shows by the words in it once it is preprocessed: clang takes a fraction of the time.

mod clang;
mod headers;
mod vmlinux;

use std::fmt::Write as _;
use std::fs;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::AsRawFd as _;
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

/// A compiled object, which is gone when this is dropped, and whatever ends the process.
#[derive(Debug)]
pub struct TempObject {
    /// It has no name in any folder.
    file: File,
    path: PathBuf,
    messages: String,
}

impl TempObject {
    /// What the compiler said though it did compile: warnings, or nothing.
    pub fn messages(&self) -> &str {
        &self.messages
    }

    fn new(bytes: &[u8], messages: String) -> io::Result<Self> {
        let mut file = tempfile::tempfile()?;
        io::Write::write_all(&mut file, bytes)?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd()).into();
        Ok(Self { file, path, messages })
    }

    /// The object itself.
    pub fn file(&self) -> &File {
        &self.file
    }
}

/// A path under which this process can open the object.
impl Deref for TempObject {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

/// Compiles the source at `path`.
///
/// # Errors
///
/// [`Error`]; nothing of what was written remains.
pub fn compile(path: &Path, options: &Options) -> Result<TempObject, Error> {
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
    let bytes = fs::read(&object).map_err(Error::Scratch)?;
    TempObject::new(&bytes, messages).map_err(Error::Scratch)
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
    fn an_object_is_read_by_its_path_while_it_is_held() {
        let object = TempObject::new(b"\x7fELF", "warning".to_owned()).unwrap();
        assert_eq!(fs::read(&*object).unwrap(), b"\x7fELF");
        assert_eq!(fs::read(&*object).unwrap(), b"\x7fELF");
        assert_eq!(object.messages(), "warning");
    }

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
