//! Files of this machine, for whoever is handed bytes.

use std::env;
use std::fs;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::time::SystemTime;

use nix::sys::statfs::BTRFS_SUPER_MAGIC;
use nix::sys::statfs::OVERLAYFS_SUPER_MAGIC;
use nix::sys::statfs::fstatfs;

use crate::symbols::FileStatus;
use crate::symbols::Files;
use crate::symbols::Inode;
use crate::symbols::Opened;
use crate::sys::map::FileMap;
use crate::sys::map::generation;
use crate::sys::map::open_regular;
use crate::units::Nanos;

/// The disk of this machine.
#[derive(Clone, Copy, Debug)]
pub struct Disk;

impl Files for Disk {
    type Bytes = FileMap;

    fn open(&self, path: &Path) -> io::Result<Opened<FileMap>> {
        let file = open_regular(path)?;
        let metadata = file.metadata()?;
        let inode = Inode {
            maj: libc::major(metadata.dev()),
            min: libc::minor(metadata.dev()),
            ino: metadata.ino(),
            generation: generation(&file),
        };
        let kind = fstatfs(&file).map(|it| it.filesystem_type());
        let status = FileStatus {
            inode: Some(inode),
            is_device_unsure: matches!(kind, Ok(BTRFS_SUPER_MAGIC | OVERLAYFS_SUPER_MAGIC)),
            modified: modified(&metadata),
        };
        Ok(Opened { bytes: FileMap::map(&file)?, status })
    }
}

/// When the content of a file last changed, since 1970.
pub fn modified(metadata: &fs::Metadata) -> Option<Nanos> {
    let since = metadata.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(Nanos(u64::try_from(since.as_nanos()).ok()?))
}

/// The vDSO as this kernel maps it into every process of our kind: an ELF file that lies on no disk.
///
/// # Errors
///
/// [`io::ErrorKind::NotFound`] if this process has none; else what the system says.
pub fn vdso() -> io::Result<Vec<u8>> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    let range = maps.lines().find_map(|line| {
        let range = line.strip_suffix("[vdso]")?.split(' ').next()?;
        let (start, end) = range.split_once('-')?;
        Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
    });
    let (start, end) = range.ok_or(io::ErrorKind::NotFound)?;
    let len = end.checked_sub(start).and_then(|len| usize::try_from(len).ok());
    let mut bytes = vec![0; len.ok_or(io::ErrorKind::InvalidData)?];
    File::open("/proc/self/mem")?.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
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
    use super::*;
    use crate::symbols::ElfModule;

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
}
