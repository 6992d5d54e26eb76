//! The functions of files on this machine for the event parser.

use std::io;
use std::path::Path;

use crate::events;
use crate::host::files::Disk;
use crate::symbols;
use crate::units::FileOffset;

/// Who looks into the files that are to be probed.
#[derive(Clone, Copy, Debug)]
pub struct FunctionsOfFiles;

fn load(path: &str) -> io::Result<symbols::Functions> {
    // Of a file that is not there the system's own word is better than a reader's.
    std::fs::metadata(path)?;
    symbols::Functions::load(&Disk, Path::new(path)).map_err(io::Error::other)
}

impl events::Functions for FunctionsOfFiles {
    fn offset(&self, path: &str, name: &str) -> io::Result<Option<FileOffset>> {
        Ok(load(path)?.offset(name))
    }

    fn names(&self, path: &str) -> io::Result<Vec<String>> {
        Ok(load(path)?.names().map(str::to_owned).collect())
    }
}
