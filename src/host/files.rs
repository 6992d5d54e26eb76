//! Files of this machine, for whoever is handed bytes.

use std::io;
use std::path::Path;

use crate::symbols::Files;
use crate::sys::map::FileMap;

/// The disk of this machine.
#[derive(Clone, Copy, Debug)]
pub struct Disk;

impl Files for Disk {
    type Bytes = FileMap;

    fn open(&self, path: &Path) -> io::Result<FileMap> {
        FileMap::open(path)
    }
}
