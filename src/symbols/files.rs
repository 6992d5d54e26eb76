//! Where bytes come from.

use std::io;
use std::ops::Deref;
use std::path::Path;
use std::path::PathBuf;

use crate::units::BuildId;
use crate::units::Nanos;

use super::Inode;
use super::ModuleFile;

/// Where symbol tables come from: a disk, a debug-symbol cache, or a map in a test.
pub trait Files: Send + Sync {
    /// The bytes of one file, mapped or owned.
    type Bytes: FileBytes + 'static;

    /// Opens `path`.
    ///
    /// # Errors
    ///
    /// Whatever the store says; a missing file makes its addresses print as `[unknown]`, once
    /// counted, and is not fatal.
    fn open(&self, path: &Path) -> io::Result<Opened<Self::Bytes>>;

    /// What is known of the file at `path` without reading all of it, where to open it costs as much.
    fn glance(&self, _path: &Path) -> Option<Glance> {
        None
    }

    /// Has the file of `build_id` brought from elsewhere, if that is possible, and tells where it is
    /// now. It is asked last, and what it brings is looked at as any other file.
    fn fetch(&self, _build_id: BuildId, _artifact: Artifact) -> Option<PathBuf> {
        None
    }
}

/// The bytes of one file.
pub trait FileBytes: Deref<Target = [u8]> + Send + Sync {
    /// Whether the file was written to since it was opened, and these may be no more what they were, or
    /// of two states of it.
    fn has_changed(&self) -> bool;
}

impl FileBytes for Vec<u8> {
    fn has_changed(&self) -> bool {
        false
    }
}

/// What there may be of a build elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Artifact {
    /// The file that was mapped.
    Executable,
    /// The file with its debug information.
    DebugInfo,
}

/// What is known of a file before it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Glance {
    /// What the store says of it.
    pub status: FileStatus,
    /// The build id that its segments have; `None` where only its sections may have one.
    pub build_id: Option<BuildId>,
}

/// A file that was opened.
#[derive(Debug)]
pub struct Opened<B> {
    /// All of it.
    pub bytes: B,
    /// What the store says of it.
    pub status: FileStatus,
}

/// What a store says of a file, by which it is known again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileStatus {
    /// Its place on a disk, if it is on one.
    pub inode: Option<Inode>,
    /// Whether the file system gives its files another device than the kernel notes for mappings of
    /// them, as btrfs and overlayfs do: then the device says nothing.
    pub is_device_unsure: bool,
    /// When its content last changed, since 1970; `None` if unknown.
    pub modified: Option<Nanos>,
}

impl FileStatus {
    /// Whether the file may be the one that was mapped, by all that is known of both but the content;
    /// `None` if the recording knows nothing to hold it against. `recorded_until` is when the
    /// recording ended.
    pub(super) fn is(&self, file: &ModuleFile, recorded_until: Option<Nanos>) -> Option<bool> {
        let is_newer = self.is_newer_than(recorded_until) || self.is_newer_than(file.mapped);
        Some(self.is_inode(file.inode?) && !is_newer)
    }

    /// Whether it may be the file that the kernel called `wanted`.
    pub fn is_inode(&self, wanted: Inode) -> bool {
        self.inode.is_some_and(|it| {
            let (maj, min) =
                if self.is_device_unsure { (wanted.maj, wanted.min) } else { (it.maj, it.min) };
            Inode { maj, min, ..it }.may_be(&wanted)
        })
    }

    /// Whether it was written to after that moment, if both are known.
    pub(super) fn is_newer_than(&self, moment: Option<Nanos>) -> bool {
        self.modified.zip(moment).is_some_and(|(modified, moment)| modified > moment)
    }
}
