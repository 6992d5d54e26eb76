//! Files that processes have mapped, as long as they can be had: through the process itself, since its
//! mount namespace may be another one than ours, or its file may have no name any more.

use std::ffi::OsStr;
use std::fs;
use std::fs::File;
use std::io;
use std::io::Read as _;
use std::os::fd::AsRawFd as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;
use std::time::SystemTime;

use nix::fcntl::OFlag;
use nix::fcntl::OpenHow;
use nix::fcntl::ResolveFlag;
use nix::fcntl::openat2;
use nix::time::ClockId;
use nix::time::clock_gettime;
use nix::unistd::SysconfVar;
use nix::unistd::sysconf;

use super::note;
use super::process;
use super::process::Mapping;
use crate::units::BuildId;
use crate::units::Pid;

/// The very file that is mapped, whatever its path leads to by now or in our own namespace.
///
/// Never waits for anybody, and opens nothing but ordinary files.
pub fn open(pid: Pid, mapping: &Mapping) -> Option<File> {
    let (start, end) = (mapping.start, mapping.end);
    // Needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN.
    let by_address = PathBuf::from(format!("/proc/{pid}/map_files/{start}-{end}"));
    // The file at a path may be another one by now, as may what is at an address; and on some file
    // systems no number of a device is the one that the kernel tells of mappings.
    let is_it = |file: &File| file.metadata().is_ok_and(|it| it.ino() == mapping.inode);
    if let Some(file) = ordinary(&by_address).filter(|it| is_it(it) || is_still(pid, mapping)) {
        return Some(file);
    }
    let in_root = path_in_root(pid, &mapping.path);
    let others = [in_root, PathBuf::from(format!("/proc/{pid}/exe"))];
    if let Some(file) = others.iter().find_map(|it| ordinary(it).filter(is_it)) {
        return Some(file);
    }
    // The process is gone. What is at the path in our own namespace is it if all numbers say so.
    ordinary(own_path(&mapping.path)).filter(|file| {
        let device = |it: &fs::Metadata| (libc::major(it.dev()), libc::minor(it.dev()));
        let is_on_device = file.metadata().is_ok_and(|it| device(&it) == mapping.device);
        is_on_device && is_it(file)
    })
}

/// Whether `pid` has the same file at the same place, by the numbers of the kernel, which on some file systems
/// are not those that the file itself has.
fn is_still(pid: Pid, mapping: &Mapping) -> bool {
    let place = |it: &Mapping| (it.start, it.end, it.device, it.inode);
    process::mappings(pid).iter().any(|it| place(it) == place(mapping))
}

/// Whether `path` leads to the file `held` for whoever looks for it in our own namespace, or to one
/// with the same build id.
pub fn is_found(path: &[u8], held: &File, build_id: Option<BuildId>) -> bool {
    let path = own_path(path);
    let (Ok(there), Ok(own)) = (fs::metadata(path), held.metadata()) else { return false };
    if (there.dev(), there.ino()) == (own.dev(), own.ino()) {
        return true;
    }
    build_id.is_some() && ordinary(path).and_then(note::of_file) == build_id
}

/// Whether the file with `inode` seems to be at `path` in our own namespace, whichever number the kernel
/// gives its device there.
pub fn seems_found(path: &[u8], inode: u64) -> bool {
    fs::metadata(own_path(path)).is_ok_and(|it| it.ino() == inode)
}

fn own_path(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}

/// An ordinary file, opened to be read.
fn ordinary(path: &Path) -> Option<File> {
    let place = File::options().read(true).custom_flags(libc::O_PATH).open(path).ok()?;
    place.metadata().is_ok_and(|it| it.is_file()).then(|| to_read(&place).ok())?
}

/// Opens for reading what `place` was only looked at: to open some devices does something, and to
/// open a FIFO waits, so it is known before what it is.
fn to_read(place: &File) -> io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let path = format!("/proc/self/fd/{}", place.as_raw_fd());
    File::options().read(true).custom_flags(flags).open(path)
}

fn path_in_root(pid: Pid, path: &[u8]) -> PathBuf {
    let path = own_path(path);
    let mut whole = PathBuf::from(format!("/proc/{pid}/root"));
    whole.push(path.strip_prefix("/").unwrap_or(path));
    whole
}

/// A root with what is mounted below it, for as long as this is held, even beyond the end of the process that
/// had it.
#[derive(Debug)]
pub struct Root {
    dir: OwnedFd,
    /// As long as somebody holds its mount namespace, what is mounted in it stays so.
    namespace: Option<File>,
}

impl Root {
    /// The root of `pid`; `None` where it is gone or hidden from us.
    pub fn of(pid: Pid) -> Option<Self> {
        let this = Self::at(&PathBuf::from(format!("/proc/{pid}/root")))?;
        let namespace = File::open(format!("/proc/{pid}/ns/mnt")).ok();
        Some(Self { namespace, ..this })
    }

    /// The directory `path`; `None` where that is none.
    pub fn at(path: &Path) -> Option<Self> {
        let flags = libc::O_PATH | libc::O_DIRECTORY;
        let dir = File::options().read(true).custom_flags(flags).open(path);
        Some(Self { dir: dir.ok()?.into(), namespace: None })
    }

    /// Opens the ordinary file at `path`; links lead to what they lead to for whoever has this root.
    ///
    /// # Errors
    ///
    /// What the system says; [`io::ErrorKind::PermissionDenied`] for what is no ordinary file.
    pub fn open(&self, path: &Path) -> io::Result<File> {
        let place = self.place(path, OFlag::empty())?;
        if !place.metadata()?.is_file() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        to_read(&place)
    }

    /// What is at `path`, to be looked at.
    fn place(&self, path: &Path, flags: OFlag) -> io::Result<File> {
        // A link could lead anywhere.
        let how = OpenHow::new()
            .flags(OFlag::O_PATH | OFlag::O_CLOEXEC | flags)
            .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        Ok(File::from(openat2(&self.dir, path, how)?))
    }
}

/// The files of a process as it sees them, for as long as this is held, even beyond its end.
#[derive(Debug)]
pub struct Sight {
    root: Root,
    /// The number of the process in its own namespace of processes.
    own_pid: i32,
    user: u32,
    /// When the process began, since 1970; `None` if unknown.
    began: Option<Duration>,
}

/// The most bytes of a file that is read whole.
const MOST_BYTES: u64 = 64 << 20;

impl Sight {
    /// What `pid` sees; `None` where it is gone or hidden from us.
    pub fn of(pid: Pid) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let (own_pid, user) = numbers(&status)?;
        let (root, began) = (Root::of(pid)?, began(pid));
        Some(Self { root, own_pid, user, began })
    }

    /// The path of the file in which the process would have its JIT compiler's symbols.
    pub fn perf_map_path(&self) -> String {
        format!("/tmp/perf-{}.map", self.own_pid)
    }

    /// Whether it sees other files than we do, as far as that shows.
    pub fn is_foreign(&self) -> bool {
        let number = |it: io::Result<fs::Metadata>| it.ok().map(|it| it.ino());
        let theirs = self.root.namespace.as_ref().and_then(|it| number(it.metadata()));
        theirs.is_some() && theirs != number(fs::metadata("/proc/self/ns/mnt"))
    }

    /// Opens that file; it is an ordinary one that belongs to root, to us or to the process's user, and
    /// that was written to since the process began: numbers of processes come again, in containers above
    /// all.
    ///
    /// # Errors
    ///
    /// What the system says; [`io::ErrorKind::PermissionDenied`] for what is somebody else's or no
    /// ordinary file, [`io::ErrorKind::InvalidData`] for one that is older than the process.
    pub fn open_perf_map(&self) -> io::Result<File> {
        let place = self.root.place(Path::new(&self.perf_map_path()), OFlag::O_NOFOLLOW)?;
        let facts = place.metadata()?;
        let owners = [0, nix::unistd::geteuid().as_raw(), self.user];
        if !facts.is_file() || !owners.contains(&facts.uid()) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let written = facts.modified()?.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        if self.began.is_some_and(|it| written + BEGIN_IS_KNOWN_TO < it) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        to_read(&place)
    }
}

/// How exactly it is known when a process began: a tick, and what the clocks have moved meanwhile.
pub const BEGIN_IS_KNOWN_TO: Duration = Duration::from_secs(2);

/// When `pid` began, since 1970: the kernel counts it in ticks since it booted.
///
/// Source: `do_task_stat()` in `fs/proc/array.c`, field 22.
pub fn began(pid: Pid) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in brackets, and can hold some.
    let ticks: u64 = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
    let per_second = u64::try_from(sysconf(SysconfVar::CLK_TCK).ok()??).ok()?;
    let after_boot = Duration::from_millis(ticks.checked_mul(1000)?.checked_div(per_second)?);
    let up = clock_gettime(ClockId::CLOCK_BOOTTIME).ok()?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    now.checked_sub(up.into())?.checked_add(after_boot)
}

/// All of `file`.
///
/// # Errors
///
/// What the system says; [`io::ErrorKind::FileTooLarge`] for one that is longer than is kept.
pub fn whole(mut file: &File) -> io::Result<Vec<u8>> {
    use std::io::Seek as _;

    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if MOST_BYTES < bytes.len() as u64 {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// What is not the same of a file after somebody wrote to it: its length, and when that was last done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    len: u64,
    modified: SystemTime,
}

/// The stamp of `file`; `None` where the system does not tell.
pub fn stamp(file: &File) -> Option<Stamp> {
    let metadata = file.metadata().ok()?;
    Some(Stamp { len: metadata.len(), modified: metadata.modified().ok()? })
}

/// The CRC-32 of all of `file`, that of Ethernet and zip.
///
/// # Errors
///
/// What the system says; [`io::ErrorKind::FileTooLarge`] for one that is longer than `most` bytes.
pub fn crc32(mut file: &File, most: u64) -> io::Result<u32> {
    use std::io::Seek as _;

    if most < file.metadata()?.len() {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    file.rewind()?;
    let mut reader = flate2::CrcReader::new(io::BufReader::with_capacity(1 << 16, file.take(most)));
    io::copy(&mut reader, &mut io::sink())?;
    Ok(reader.crc().sum())
}

/// Whether `file` belongs to root or to us.
pub fn is_own(file: &File) -> bool {
    let own = [0, nix::unistd::geteuid().as_raw()];
    file.metadata().is_ok_and(|it| own.contains(&it.uid()))
}

/// When the content of `file` was last written to, in nanoseconds since 1970; 0 where that is not known.
pub fn written(file: &File) -> u64 {
    let since_1970 = |it: SystemTime| it.duration_since(SystemTime::UNIX_EPOCH).ok();
    let written = file.metadata().and_then(|it| it.modified()).ok().and_then(since_1970);
    written.and_then(|it| u64::try_from(it.as_nanos()).ok()).unwrap_or(0)
}

/// The process in its own namespace, and its effective user, by its `status`.
///
/// Source: `NSpid` and `Uid` in `proc_pid_status(5)`: the innermost namespace is the last.
fn numbers(status: &str) -> Option<(i32, u32)> {
    let words = |name: &str| {
        let line = status.lines().find_map(|it| it.strip_prefix(name))?;
        Some(line.split_ascii_whitespace())
    };
    let own = words("NSpid:").or_else(|| words("Pid:"))?.next_back()?;
    Some((own.parse().ok()?, words("Uid:")?.nth(1)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    fn own() -> (Pid, Mapping) {
        let pid = Pid(std::process::id().cast_signed());
        let exe = std::env::current_exe().unwrap();
        let is_exe = |it: &Mapping| it.is_executable() && it.path == exe.as_os_str().as_bytes();
        (pid, process::mappings(pid).into_iter().find(is_exe).unwrap())
    }

    #[test]
    fn a_mapped_file_is_opened_and_found_at_its_path() {
        let (pid, mapping) = own();
        let file = open(pid, &mapping).unwrap();
        assert_eq!(file.metadata().unwrap().ino(), mapping.inode);
        assert!(is_found(&mapping.path, &file, None));
        // What somebody left behind who is gone is opened where all numbers agree.
        assert!(open(Pid(i32::MAX), &mapping).is_some());
        let other = Mapping { inode: mapping.inode + 1, ..mapping.clone() };
        assert!(open(Pid(i32::MAX), &other).is_none());
        // Another file is at the address by now.
        assert!(open(pid, &other).is_none());
    }

    #[test]
    fn a_file_that_was_replaced_is_found_only_by_its_build_id() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program");
        fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
        let held = File::open(&path).unwrap();
        let build_id = note::of_file(held.try_clone().unwrap());
        let is_there = || is_found(path.as_os_str().as_bytes(), &held, build_id);
        assert!(is_there());
        fs::remove_file(&path).unwrap();
        assert!(!is_there());
        fs::copy("/bin/true", &path).unwrap();
        assert!(!is_there());
        fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
        assert_eq!(is_there(), build_id.is_some());
        mkfifo(&dir.path().join("fifo"), Mode::S_IRWXU).unwrap();
        assert!(ordinary(&dir.path().join("fifo")).is_none());
    }

    #[test]
    fn the_innermost_number_of_a_process_counts() {
        let status = "Name:\tx\nPid:\t77\nUid:\t1\t2\t3\t4\nNSpid:\t77\t12\t1\n";
        assert_eq!(numbers(status), Some((1, 2)));
        assert_eq!(numbers("Pid:\t77\nUid:\t0\t0\t0\t0\n"), Some((77, 0)));
        assert_eq!(numbers("Pid:\tx\n"), None);
    }

    #[test]
    fn what_a_jit_compiler_wrote_is_an_ordinary_file() {
        let pid = Pid(std::process::id().cast_signed());
        let sight = Sight::of(pid).unwrap();
        assert!(!sight.is_foreign());
        let path = PathBuf::from(sight.perf_map_path());
        assert!(sight.open_perf_map().is_err());
        mkfifo(&path, Mode::S_IRWXU).unwrap();
        assert!(sight.open_perf_map().is_err());
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert!(sight.open_perf_map().is_err());
        fs::remove_file(&path).unwrap();
        fs::write(&path, "7f00 40 work\n").unwrap();
        // What a process of the same number left there long ago.
        let old = SystemTime::now() - Duration::from_secs(1_000_000);
        File::options().append(true).open(&path).unwrap().set_modified(old).unwrap();
        assert!(sight.open_perf_map().is_err());
        File::options().append(true).open(&path).unwrap().set_modified(SystemTime::now()).unwrap();
        let file = sight.open_perf_map().unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(whole(&file).unwrap(), b"7f00 40 work\n");
        assert!(Sight::of(Pid(i32::MAX)).is_none());
    }
}
