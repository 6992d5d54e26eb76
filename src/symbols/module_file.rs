//! What a recording knows of a file that was mapped.

use std::path::PathBuf;

use crate::units::Addr;
use crate::units::BuildId;
use crate::units::Nanos;
use crate::units::Pid;

/// A file that was mapped, as far as a recording tells it from others of the same path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleFile {
    /// The path as recorded, in the mount namespace of whoever mapped it; of a file without a name
    /// left it ends in ` (deleted)`.
    pub path: PathBuf,
    /// The build id, from the record or from a section.
    pub build_id: Option<BuildId>,
    /// The place on a disk, where the record has that instead.
    pub inode: Option<Inode>,
    /// When it was mapped first, or the recording began, since 1970; `None` if unknown. One that was written to
    /// later is not what ran then.
    pub mapped: Option<Nanos>,
    /// Some of the processes that mapped it, through whose eyes it can be looked at while they live.
    pub mappers: Vec<Mapper>,
}

impl ModuleFile {
    /// A file of which nothing is known but its path.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), build_id: None, inode: None, mapped: None, mappers: Vec::new() }
    }
}

/// The place of a file on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Inode {
    /// Major number of the device.
    pub maj: u32,
    /// Minor number of the device.
    pub min: u32,
    /// The number of the inode.
    pub ino: u64,
    /// Which file of those that have had this number it is; 0 if unknown.
    pub generation: u64,
}

impl Inode {
    /// Whether both may be of one file: where a generation is not known any may be meant.
    pub fn may_be(&self, other: &Self) -> bool {
        let place = |it: &Self| (it.maj, it.min, it.ino);
        let is_generation =
            self.generation == other.generation || self.generation == 0 || other.generation == 0;
        place(self) == place(other) && is_generation
    }
}

/// A process that mapped a file, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapper {
    /// The process.
    pub pid: Pid,
    /// The first address.
    pub start: Addr,
    /// One past the last address.
    pub end: Addr,
}
