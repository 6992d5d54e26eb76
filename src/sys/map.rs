//! Files as memory.

use std::fs;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use memmap2::Mmap;

/// A regular file, mapped read-only as a whole.
#[derive(Debug)]
pub struct FileMap {
    map: Mmap,
}

impl FileMap {
    /// Maps the file at `path`, following symbolic links.
    ///
    /// Never waits: a FIFO, a socket, a device or a directory is refused instead of opened.
    ///
    /// # Errors
    ///
    /// Whatever the system says; [`io::ErrorKind::InvalidInput`] for what is no regular file.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::map(&open_regular(path)?)
    }

    /// Maps an open file.
    ///
    /// # Errors
    ///
    /// As [`FileMap::open`].
    pub fn map(file: &File) -> io::Result<Self> {
        refuse_unless_regular(&file.metadata()?)?;
        // SAFETY: the bytes do not change while they are borrowed: the map is private and read-only,
        // and a program or library that is in use is replaced by renaming a new file over it, not by
        // writing into it. Somebody who truncates it all the same ends this process by SIGBUS.
        let map = unsafe { Mmap::map(file) }?;
        Ok(Self { map })
    }
}

/// Opens the regular file at `path`, following symbolic links, without ever waiting.
///
/// # Errors
///
/// As [`FileMap::open`].
pub fn open_regular(path: &Path) -> io::Result<File> {
    // Before the open: to open some devices does something.
    refuse_unless_regular(&fs::metadata(path)?)?;
    // It may have become a FIFO since, whose open would wait for a writer.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    refuse_unless_regular(&file.metadata()?)?;
    Ok(file)
}

/// Which of the files that have had its inode number `file` is; 0 where the file system does not say.
pub fn generation(file: &File) -> u64 {
    let mut version: libc::c_long = 0;
    // SAFETY: `FS_IOC_GETVERSION` writes an int, or a long, as its number says, to `version`, which has
    // room for either and outlives the call.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), libc::FS_IOC_GETVERSION, &raw mut version) };
    let [a, b, c, d, ..] = version.to_ne_bytes();
    if done == 0 { u64::from(u32::from_ne_bytes([a, b, c, d])) } else { 0 }
}

impl Deref for FileMap {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}

fn refuse_unless_regular(metadata: &fs::Metadata) -> io::Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
}

#[cfg(test)]
mod tests {
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn a_map_holds_the_bytes_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "seven b").unwrap();
        assert_eq!(&*FileMap::open(&path).unwrap(), b"seven b");
        fs::write(&path, "").unwrap();
        assert_eq!(&*FileMap::open(&path).unwrap(), b"");
    }

    #[test]
    fn what_is_no_regular_file_is_refused_without_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        mkfifo(&fifo, Mode::S_IRWXU).unwrap();
        for path in [fifo.as_path(), dir.path(), Path::new("/dev/null")] {
            let err = FileMap::open(path).unwrap_err();
            assert_eq!(err.kind(), io::ErrorKind::InvalidInput, "{}", path.display());
        }
    }

    #[test]
    fn a_missing_file_is_not_found() {
        let dir = tempfile::tempdir().unwrap();
        let err = FileMap::open(&dir.path().join("none")).unwrap_err();
        assert_eq!(err.kind(), io::ErrorKind::NotFound);
    }
}
