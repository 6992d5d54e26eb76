//! Files of this machine, for whoever is handed bytes.

use std::env;
use std::fs;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use nix::sys::statfs::BTRFS_SUPER_MAGIC;
use nix::sys::statfs::OVERLAYFS_SUPER_MAGIC;
use nix::sys::statfs::fstatfs;

use crate::symbols::Artifact;
use crate::symbols::FileBytes;
use crate::symbols::FileStatus;
use crate::symbols::Files;
use crate::symbols::Glance;
use crate::symbols::Inode;
use crate::symbols::Opened;
use crate::sys::compat_vdso::CompatVdso;
use crate::sys::map;
use crate::sys::map::FileMap;
use crate::sys::map::generation;
use crate::sys::map::open_regular;
use crate::units::BuildId;
use crate::units::Nanos;

use super::debuginfod::Debuginfod;
use super::debuginfod::OnWait;
use super::mapped::is_own;
use super::mapped::written;
use super::note;

/// The disk of this machine.
#[derive(Clone, Copy, Debug)]
pub struct Disk;

impl FileBytes for FileMap {
    fn has_changed(&self) -> bool {
        FileMap::has_changed(self)
    }
}

impl Files for Disk {
    type Bytes = FileMap;

    fn open(&self, path: &Path) -> io::Result<Opened<FileMap>> {
        let file = open_regular(path)?;
        let status = status(&file)?;
        Ok(Opened { bytes: FileMap::opened(&file, path)?, status })
    }

    fn glance(&self, path: &Path) -> Option<Glance> {
        let file = open_regular(path).ok()?;
        Some(Glance { status: status(&file).ok()?, build_id: note::of_file(file) })
    }
}

fn status(file: &File) -> io::Result<FileStatus> {
    let metadata = file.metadata()?;
    let inode = Inode {
        maj: libc::major(metadata.dev()),
        min: libc::minor(metadata.dev()),
        ino: metadata.ino(),
        generation: generation(file),
    };
    let kind = fstatfs(file).map(|it| it.filesystem_type());
    Ok(FileStatus {
        inode: Some(inode),
        is_device_unsure: matches!(kind, Ok(BTRFS_SUPER_MAGIC | OVERLAYFS_SUPER_MAGIC)),
        modified: modified(&metadata),
    })
}

/// A file that a program wrote for others to read, in a place where everybody may write.
#[derive(Debug)]
pub struct Told {
    /// What is in it. It is no map of the file, since its writer may make it shorter at any time.
    pub bytes: Vec<u8>,
    /// What is known of it but the content.
    pub status: FileStatus,
    /// When it was last written to, since 1970.
    pub written: Option<Nanos>,
}

/// The most bytes of such a file.
const MOST_TOLD: u64 = 1 << 30;

/// Reads the file at `path`, if it belongs to root or to whoever reads, and no link of anybody else leads
/// there.
///
/// # Errors
///
/// [`io::ErrorKind::PermissionDenied`] if it is somebody else's, [`io::ErrorKind::FileTooLarge`] if it is
/// longer than is read, or hardly more than holes; else what the system says.
pub fn told(path: &Path) -> io::Result<Told> {
    // In a directory as `/tmp` nobody replaces what belongs to us.
    let own = [0, nix::unistd::geteuid().as_raw()];
    if !own.contains(&fs::symlink_metadata(path)?.uid()) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let file = open_regular(path)?;
    if !is_own(&file) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let written = Some(Nanos(written(&file))).filter(|it| it.0 != 0);
    let bytes = map::read(&file, MOST_TOLD)?;
    Ok(Told { bytes, status: status(&file)?, written })
}

/// The disk of this machine, and the servers of debug information that the environment names.
#[derive(Clone, Debug)]
pub struct DiskAndServers {
    servers: Option<Arc<Debuginfod>>,
}

impl DiskAndServers {
    /// The servers of `DEBUGINFOD_URLS`, if there are any; `on_wait` is called where one is slow.
    pub fn from_env(on_wait: OnWait) -> Self {
        Self { servers: Debuginfod::from_env(on_wait).map(Arc::new) }
    }

    /// What went wrong with servers, each of it once.
    pub fn take_troubles(&self) -> Vec<String> {
        self.servers.as_ref().map(|it| it.take_troubles()).unwrap_or_default()
    }
}

impl Files for DiskAndServers {
    type Bytes = FileMap;

    fn open(&self, path: &Path) -> io::Result<Opened<FileMap>> {
        Disk.open(path)
    }

    fn glance(&self, path: &Path) -> Option<Glance> {
        Disk.glance(path)
    }

    fn fetch(&self, build_id: BuildId, artifact: Artifact) -> Option<PathBuf> {
        self.servers.as_ref()?.find(build_id, artifact)
    }
}

/// When the content of a file last changed at the latest, since 1970: that it changed can be hidden from
/// the one time, which anybody may set, but not from the other.
pub fn modified(metadata: &fs::Metadata) -> Option<Nanos> {
    let nanos = |seconds: i64, nanos: i64| {
        let seconds = u64::try_from(seconds).ok()?.checked_mul(1_000_000_000)?;
        Some(Nanos(seconds.checked_add(u64::try_from(nanos).ok()?)?))
    };
    let content = nanos(metadata.mtime(), metadata.mtime_nsec());
    let inode = nanos(metadata.ctime(), metadata.ctime_nsec());
    content.max(inode)
}

/// The vDSO as this kernel maps it into every process of our kind: an ELF file that lies on no disk.
///
/// # Errors
///
/// [`io::ErrorKind::NotFound`] if this process has none; else what the system says.
pub fn vdso() -> io::Result<Vec<u8>> {
    vdso_of("self")
}

/// The vDSO as this kernel maps it into processes of 32 bits.
///
/// # Errors
///
/// What the system says where it has none, or does not show it.
pub fn compat_vdso() -> io::Result<Vec<u8>> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    let own = maps.lines().filter(|it| it.contains(" [vdso") || it.contains(" [vvar"));
    let own: Vec<Range<u64>> = own.filter_map(mapped_range).collect();
    let process = CompatVdso::fork(&own).map_err(|it| io::Error::from(it.errno))?;
    vdso_of(&process.pid().to_string())
}

/// The vDSO in the memory of the process with this number.
fn vdso_of(pid: &str) -> io::Result<Vec<u8>> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let range = maps.lines().filter(|it| it.ends_with(" [vdso]")).find_map(mapped_range);
    let Range { start, end } = range.ok_or(io::ErrorKind::NotFound)?;
    let len = end.checked_sub(start).and_then(|len| usize::try_from(len).ok());
    let mut bytes = vec![0; len.ok_or(io::ErrorKind::InvalidData)?];
    File::open(format!("/proc/{pid}/mem"))?.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
}

/// The addresses of a line of `/proc/PID/maps`.
fn mapped_range(line: &str) -> Option<Range<u64>> {
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
}

/// Where libraries are, beside the folders of programs.
const LIBRARIES: [&str; 6] = [
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
];

/// The program or library `name`: as it is if it is a path, else from `PATH`, or from where
/// libraries are.
pub fn find_binary(name: &str) -> Option<String> {
    if name.contains('/') {
        return Some(name.to_owned());
    }
    let programs = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&programs).chain(LIBRARIES.iter().map(PathBuf::from));
    let mut paths = folders.map(|it| it.join(name));
    paths.find(|it| it.is_file())?.to_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::symbols::ElfModule;
    use crate::symbols::ModuleFile;
    use crate::symbols::Places;
    use crate::symbols::Symbols;

    #[test]
    fn a_debug_file_that_is_too_long_to_be_summed_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let run = |name: &str, args: &[&str]| {
            let mut command = Command::new(name);
            assert!(command.args(args).current_dir(dir.path()).output().unwrap().status.success());
        };
        fs::write(dir.path().join("a.c"), "int main(void) { return 0; }").unwrap();
        run("gcc", &["-Wl,--build-id=none", "a.c", "-o", "abc"]);
        run("objcopy", &["-S", "--add-gnu-debuglink=abc", "abc", "a"]);
        let (path, debug) = (dir.path().join("a"), dir.path().join("abc"));
        let load = || ElfModule::load(&Disk, &ModuleFile::at(&path), &Places::default()).unwrap();
        assert_eq!((load().symbols(), load().too_long()), (Symbols::Full, None));
        File::options().append(true).open(&debug).unwrap().set_len(3 << 30).unwrap();
        assert_ne!(load().symbols(), Symbols::Full);
        assert_eq!(load().too_long(), Some(&*debug));
    }

    #[test]
    fn a_bare_name_is_looked_for_where_programs_and_libraries_are() {
        assert_eq!(find_binary("./x").as_deref(), Some("./x"));
        assert!(find_binary("sh").unwrap().ends_with("/sh"));
        assert_eq!(find_binary("no-such-thing"), None);
    }

    #[test]
    fn the_vdso_names_the_clock() {
        let vdso = ElfModule::parse(&vdso().unwrap(), None).unwrap();
        let names: Vec<&str> = vdso.table().iter().map(|it| it.name).collect();
        assert!(names.contains(&"__vdso_clock_gettime"), "{names:?}");
        assert!(vdso.identity().build_id.is_some());
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_vdso_of_32_bits_names_the_system_call_and_leaves_our_own_alone() {
        // Kernels without 32-bit processes, or without checkpoints, have none to show.
        if let Ok(bytes) = compat_vdso() {
            let compat = ElfModule::parse(&bytes, None).unwrap();
            assert!(compat.table().iter().any(|it| it.name == "__kernel_vsyscall"));
        }
        let names = ElfModule::parse(&vdso().unwrap(), None).unwrap();
        assert!(names.table().iter().all(|it| it.name != "__kernel_vsyscall"));
    }
}
