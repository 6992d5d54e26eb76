//! Files as memory.

use std::fs;
use std::fs::File;
use std::io;
use std::io::Read as _;
use std::ops::Deref;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::path::PathBuf;

use memmap2::Mmap;
use nix::unistd::getegid;
use nix::unistd::geteuid;

use super::shrunk::Watched;

/// The bytes of a regular file: mapped, or read where others could write to the file meanwhile.
///
/// A file is mapped only if it is root's or ours and nobody else may write to it; a container's root is
/// not ours, so what is reached through a process is read, too. What root or we ourselves write is
/// noticed ([`FileMap::has_changed`]), and what is then missing of a map are zeros.
#[derive(Debug)]
pub struct FileMap(Content);

#[derive(Debug)]
enum Content {
    Mapped(Mapped),
    Read(Vec<u8>),
}

#[derive(Debug)]
struct Mapped {
    // Before the map, to be dropped before it.
    watched: Option<Watched>,
    map: Mmap,
    path: PathBuf,
    state: State,
}

/// What becomes another when a file is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    dev: u64,
    ino: u64,
    len: u64,
    modified: (i64, i64),
}

impl State {
    fn of(metadata: &fs::Metadata) -> Self {
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        Self { dev: metadata.dev(), ino: metadata.ino(), len: metadata.len(), modified }
    }

    /// Whether `now` is the same file, written to since.
    fn was_written_to(&self, now: &Self) -> bool {
        (self.dev, self.ino) == (now.dev, now.ino) && self != now
    }
}

/// The most bytes that are read of a file: what is not mapped has to fit into memory.
const MOST_READ: u64 = 4 << 30;

/// How many times longer than the place that it takes on its disk a file may be that is read, as file
/// systems that compress have them; others' holes would fill memory.
const MAX_HOLES: u64 = 16;

/// The most bytes that are read of a file whose file system does not say how much place it takes.
const MOST_OF_UNKNOWN: u64 = 256 << 20;

/// The length of one of `st_blocks`, in bytes.
const BLOCK: u64 = 512;

impl FileMap {
    /// Maps or reads the file at `path`, following symbolic links.
    ///
    /// Never waits: a FIFO, a socket, a device or a directory is refused instead of opened.
    ///
    /// # Errors
    ///
    /// Whatever the system says; [`io::ErrorKind::InvalidInput`] for what is no regular file;
    /// [`io::ErrorKind::FileTooLarge`] for a file that is not mapped and has more than 4 GiB, or
    /// hardly more than holes.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::opened(&open_regular(path)?, path)
    }

    /// Maps or reads `file`, which was opened at `path`.
    ///
    /// # Errors
    ///
    /// As [`FileMap::open`].
    pub fn opened(file: &File, path: &Path) -> io::Result<Self> {
        let metadata = file.metadata()?;
        refuse_unless_regular(&metadata)?;
        let (us, our_group) = (geteuid().as_raw(), getegid().as_raw());
        let writer = Writer { us, our_group };
        let is_alone = writer.is_alone(metadata.uid(), metadata.gid(), metadata.mode());
        if path.starts_with("/proc") || !is_alone {
            return Self::read(file);
        }
        // SAFETY: the map is private and read-only, and nobody but root and this user may write to the
        // file; whether one of them did is asked before anything that was read of it counts. Its users
        // take any bytes, and copy what they hold to be text.
        let map = unsafe { Mmap::map(file) }?;
        let range = map.as_ptr_range();
        let range = range.start as usize..range.end as usize;
        let watched = (!range.is_empty()).then(|| Watched::new(range)).transpose();
        let watched = watched.map_err(|it| io::Error::from(it.errno))?;
        let (path, state) = (path.to_owned(), State::of(&metadata));
        Ok(Self(Content::Mapped(Mapped { watched, map, path, state })))
    }

    /// Whether the file was written to since it was opened, so that these bytes may be of two states of
    /// it. One that was replaced by another file is still what it was.
    pub fn has_changed(&self) -> bool {
        let Content::Mapped(Mapped { watched, map: _, path, state }) = &self.0 else {
            return false;
        };
        let now = fs::metadata(path).ok().map(|it| State::of(&it));
        watched.as_ref().is_some_and(Watched::is_cut)
            || now.is_some_and(|it| state.was_written_to(&it))
    }

    fn read(file: &File) -> io::Result<Self> {
        Ok(Self(Content::Read(read(file, MOST_READ)?)))
    }
}

/// Reads `file`, which its writer may make shorter at any time.
///
/// # Errors
///
/// Whatever the system says; [`io::ErrorKind::FileTooLarge`] for one of more than `max` bytes, or hardly
/// more than holes; [`io::ErrorKind::ResourceBusy`] for one that was written to meanwhile.
pub fn read(file: &File, max: u64) -> io::Result<Vec<u8>> {
    let metadata = file.metadata()?;
    let most = match metadata.blocks() {
        0 => MOST_OF_UNKNOWN,
        n => n.saturating_mul(BLOCK).saturating_mul(MAX_HOLES).max(1 << 20),
    };
    let most = most.min(max);
    if most < metadata.len() {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if most < bytes.len() as u64 {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    if State::of(&metadata) != State::of(&file.metadata()?) {
        return Err(io::ErrorKind::ResourceBusy.into());
    }
    Ok(bytes)
}

/// Who reads.
#[derive(Clone, Copy, Debug)]
struct Writer {
    us: u32,
    our_group: u32,
}

impl Writer {
    /// Whether nobody but root and this user may write to a file of this owner, group and mode. A
    /// group of the user's own counts as the user, where the file is theirs.
    fn is_alone(self, owner: u32, group: u32, mode: u32) -> bool {
        let Self { us, our_group } = self;
        let is_of_group = mode & libc::S_IWGRP != 0 && group != 0;
        let is_own_group = owner == us && group == our_group;
        [0, us].contains(&owner) && mode & libc::S_IWOTH == 0 && (!is_of_group || is_own_group)
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
        match &self.0 {
            Content::Mapped(it) => &it.map,
            Content::Read(bytes) => bytes,
        }
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
    use std::os::unix::fs::PermissionsExt as _;

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
    fn what_others_can_write_to_is_read_and_not_mapped() {
        let check = |owner: u32, group: u32, mode: u32, want: bool| {
            let writer = Writer { us: 1000, our_group: 100 };
            assert_eq!(writer.is_alone(owner, group, 0o100_000 | mode), want, "{owner} {mode:o}");
        };
        check(0, 0, 0o755, true);
        check(0, 0, 0o775, true);
        check(0, 50, 0o775, false);
        check(1000, 100, 0o775, true);
        check(1000, 50, 0o775, false);
        check(1000, 100, 0o757, false);
        check(1001, 100, 0o555, false);
    }

    #[test]
    fn a_file_that_becomes_shorter_ends_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, [7; 10_000]).unwrap();
        let through_process = Path::new("/proc/self/root").join(path.strip_prefix("/").unwrap());
        let maps = [(&path, 0o666), (&through_process, 0o644)].map(|(it, mode)| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            FileMap::open(it).unwrap()
        });
        let (mapped, other) = (FileMap::open(&path).unwrap(), dir.path().join("other"));
        fs::write(&other, [8; 10_000]).unwrap();
        let whole = FileMap::open(&other).unwrap();
        assert!(!mapped.has_changed());
        fs::write(&path, "").unwrap();
        for map in maps {
            assert!(*map == [7; 10_000] && !map.has_changed());
        }
        // What is mapped has lost its pages; the first is looked at from behind, as any may be.
        assert!(mapped.iter().rev().all(|it| *it == 0) && mapped.has_changed());
        assert!(*whole == [8; 10_000] && !whole.has_changed());
    }

    #[test]
    fn what_is_written_into_a_map_is_noticed_and_what_replaces_the_file_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let written = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        };
        written(b"one");
        let map = FileMap::open(&path).unwrap();
        written(b"two");
        assert!(map.has_changed());
        let map = FileMap::open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(!map.has_changed());
        written(b"another");
        assert_eq!((&*map, map.has_changed()), (&b"two"[..], false));
    }

    #[test]
    fn holes_fill_no_memory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let file = File::create(&path).unwrap();
        file.set_permissions(fs::Permissions::from_mode(0o666)).unwrap();
        file.set_len(1 << 40).unwrap();
        let err = FileMap::open(&path).unwrap_err();
        assert_eq!(err.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(
            read(&File::open(&path).unwrap(), u64::MAX).unwrap_err().kind(),
            io::ErrorKind::FileTooLarge
        );
        file.set_len(1 << 10).unwrap();
        assert_eq!(FileMap::open(&path).unwrap().len(), 1 << 10);
        // Some file systems say of none how much place it takes.
        file.set_len(2 << 20).unwrap();
        assert_eq!(FileMap::open(&path).unwrap().len(), 2 << 20);
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
