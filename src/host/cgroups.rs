//! The cgroups by which the kernel tells tasks apart in samples.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;

/// A cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup {
    /// The kernel's id of it, as samples hold it.
    pub id: u64,
    /// Its path below the mount, beginning with `/`.
    pub path: Vec<u8>,
}

/// All cgroups of the hierarchy that `perf_event` belongs to, each after the one that it is in; none
/// where that is not mounted.
pub fn all() -> Vec<Cgroup> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mount_point(&mounts).map(|it| below(&it)).unwrap_or_default()
}

/// The folder of the cgroup `name` below the mount; with a slash before it or without.
///
/// # Errors
///
/// [`Missing`], with where it was looked for.
pub fn find(name: &str) -> Result<PathBuf, Missing> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mount = mount_point(&mounts).ok_or(Missing::Mount)?;
    let path = mount.join(name.trim_start_matches('/'));
    match fs::metadata(&path) {
        Ok(it) if it.is_dir() => Ok(path),
        Ok(_) => Err(Missing::Cgroup { path, source: io::ErrorKind::NotADirectory.into() }),
        Err(source) => Err(Missing::Cgroup { path, source }),
    }
}

/// The id of the cgroup `name` in the common hierarchy (version 2), which BPF programs ask for; with
/// a slash before it or without.
///
/// # Errors
///
/// [`Missing`], with where it was looked for.
pub fn id(name: &str) -> Result<u64, Missing> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mount = find_mount(&mounts, &|kind, _| kind == "cgroup2").ok_or(Missing::Mount)?;
    let path = mount.join(name.trim_start_matches('/'));
    match fs::metadata(&path) {
        Ok(it) if it.is_dir() => Ok(it.ino()),
        Ok(_) => Err(Missing::Cgroup { path, source: io::ErrorKind::NotADirectory.into() }),
        Err(source) => Err(Missing::Cgroup { path, source }),
    }
}

/// Why there is no such cgroup.
#[derive(Debug, thiserror::Error)]
pub enum Missing {
    /// Nothing is mounted.
    #[error("no hierarchy of cgroups that events know is mounted")]
    Mount,
    /// It is not there.
    #[error("cannot look at `{}`", path.display())]
    Cgroup {
        /// Where it would be.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

/// Where the hierarchy of `perf_event` is mounted: one of its own (version 1), else the common one.
///
/// Source: `perf_event_cgrp_subsys` in `kernel/events/core.c` is in the one or the other.
fn mount_point(mounts: &str) -> Option<PathBuf> {
    let is_own = |kind: &str, options: &str| {
        kind == "cgroup" && options.split(',').any(|it| it == "perf_event")
    };
    find_mount(mounts, &is_own).or_else(|| find_mount(mounts, &|kind, _| kind == "cgroup2"))
}

/// Where the first hierarchy is mounted of which kind and options are such.
fn find_mount(mounts: &str, is_it: &dyn Fn(&str, &str) -> bool) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (place, kind, options) = (words.next()?, words.next()?, words.next()?);
        is_it(kind, options).then(|| PathBuf::from(place))
    })
}

/// The cgroups of a mount. A folder's inode number is the id.
///
/// Source: `cgroup_id()` in `include/linux/cgroup.h`; where inode numbers have 64 bits,
/// `kernfs_ino()` is the whole of it.
fn below(mount: &Path) -> Vec<Cgroup> {
    let mut all = Vec::new();
    let mut left = vec![mount.to_owned()];
    while let Some(folder) = left.pop() {
        // A cgroup that is gone is not there.
        let Ok(metadata) = fs::metadata(&folder) else { continue };
        let path = folder.strip_prefix(mount).unwrap_or(&folder).as_os_str().as_bytes();
        all.push(Cgroup { id: metadata.ino(), path: [b"/", path].concat() });
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let is_folder = |it: &fs::DirEntry| it.file_type().is_ok_and(|it| it.is_dir());
        let mut folders: Vec<_> = entries.filter(is_folder).map(|it| it.path()).collect();
        folders.sort_unstable_by(|a, b| b.cmp(a));
        left.append(&mut folders);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hierarchy_of_its_own_comes_before_the_common_one() {
        let common = "none /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n";
        assert_eq!(mount_point(common), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        let both = format!("{common}cgroup /cg/perf cgroup rw,perf_event 0 0\n");
        assert_eq!(mount_point(&both), Some(PathBuf::from("/cg/perf")));
        assert_eq!(mount_point("cgroup /cg/cpu cgroup rw,cpu 0 0\n"), None);
    }

    #[test]
    fn each_folder_is_a_cgroup_after_the_one_it_is_in() {
        let mount = tempfile::tempdir().unwrap();
        fs::create_dir_all(mount.path().join("a/c")).unwrap();
        fs::create_dir(mount.path().join("b")).unwrap();
        fs::write(mount.path().join("cgroup.procs"), "1\n").unwrap();
        let all = below(mount.path());
        let paths: Vec<_> = all.iter().map(|it| &*it.path).collect();
        assert_eq!(paths, [&b"/"[..], b"/a", b"/a/c", b"/b"]);
        assert_eq!(all[0].id, fs::metadata(mount.path()).unwrap().ino());
    }
}
