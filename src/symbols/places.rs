//! Where files are looked for, besides where they were when they were mapped.

use std::path::Path;
use std::path::PathBuf;

use crate::units::BuildId;
use crate::units::Nanos;
use crate::units::Pid;

/// Where files are looked for, and how old they may be.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// A directory that has the files of the recorded machine.
    pub symfs: Option<Symfs>,
    /// perf's own store of files by build id, `~/.debug` unless told otherwise.
    pub store: Option<PathBuf>,
    /// When the recording ended, since 1970: what was written to later is not what was mapped.
    pub recorded_until: Option<Nanos>,
}

/// A directory that has the files of the recorded machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symfs {
    /// The directory.
    pub dir: PathBuf,
    /// How the files lie in it.
    pub layout: Layout,
}

impl Symfs {
    /// Where the file is that was at `path`.
    pub fn path_of(&self, path: &Path) -> PathBuf {
        Root::Symfs(self.clone()).at(path)
    }
}

/// How the files of another machine lie in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// As on that machine, by their whole paths.
    Hierarchy,
    /// All side by side, by their names alone.
    Flat,
}

/// What paths begin at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Root {
    /// The root of whoever reads.
    Own,
    /// That of a process that lives.
    Process(Pid),
    /// A directory of another machine's files.
    Symfs(Symfs),
}

impl Root {
    /// Where `path` is from here.
    pub(super) fn at(&self, path: &Path) -> PathBuf {
        // `join` would throw the root away for an absolute path.
        let below = |root: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
        match self {
            Self::Own => path.to_owned(),
            Self::Process(pid) => below(Path::new(&format!("/proc/{pid}/root"))),
            Self::Symfs(Symfs { dir, layout: Layout::Hierarchy }) => below(dir),
            Self::Symfs(Symfs { dir, layout: Layout::Flat }) => {
                path.file_name().map_or_else(|| dir.clone(), |name| dir.join(name))
            }
        }
    }
}

impl Places {
    /// Where perf's store may have the file `what` of `build_id`: `elf`, `debug`, `vdso`, `kallsyms`.
    ///
    /// In older stores the id leads to the file itself, not to a directory. Older perfs also filled
    /// short ids up with zeros.
    ///
    /// Source: `__build_id_cache__linkname()` and `build_id_cache__basename()` in
    /// `tools/perf/util/build-id.c`.
    pub fn stored(&self, build_id: BuildId, what: &str) -> Vec<PathBuf> {
        let Some(store) = &self.store else { return Vec::new() };
        let hex = build_id.to_string();
        let filled = format!("{hex:0<40}");
        let mut ids = vec![hex];
        ids.extend((filled != ids[0]).then_some(filled));
        let mut paths = Vec::new();
        for id in ids {
            let (first, rest) = id.split_at_checked(2).unwrap_or((&id, ""));
            let place = store.join(".build-id").join(first).join(rest);
            paths.extend([place.join(what), place]);
        }
        paths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_has_files_by_their_build_ids() {
        let places = Places { store: Some("/h/.debug".into()), ..Places::default() };
        let id = BuildId::new(&[0xab, 0xcd, 0xef, 1, 2, 3, 4, 5]).unwrap();
        let filled = "/h/.debug/.build-id/ab/cdef0102030405000000000000000000000000";
        let want = [
            "/h/.debug/.build-id/ab/cdef0102030405/elf",
            "/h/.debug/.build-id/ab/cdef0102030405",
            &format!("{filled}/elf"),
            filled,
        ];
        assert_eq!(places.stored(id, "elf"), want.map(PathBuf::from));
        assert_eq!(places.stored(BuildId::new(&[1; 20]).unwrap(), "elf").len(), 2);
        assert!(Places::default().stored(id, "elf").is_empty());
    }

    #[test]
    fn paths_begin_at_a_root() {
        let symfs = |layout| Root::Symfs(Symfs { dir: "/s".into(), layout });
        let path = Path::new("/usr/lib/a.so");
        assert_eq!(Root::Own.at(path), path);
        assert_eq!(Root::Process(Pid(7)).at(path), Path::new("/proc/7/root/usr/lib/a.so"));
        assert_eq!(symfs(Layout::Hierarchy).at(path), Path::new("/s/usr/lib/a.so"));
        assert_eq!(symfs(Layout::Flat).at(path), Path::new("/s/a.so"));
        assert_eq!(symfs(Layout::Hierarchy).at(Path::new("a.so")), Path::new("/s/a.so"));
    }
}
