//! From what a recording knows of a file to the file itself, and to those that belong to it.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::path::PathBuf;

use super::Artifact;
use super::Error;
use super::FileStatus;
use super::Files;
use super::Glance;
use super::Identity;
use super::ModuleFile;
use super::Opened;
use super::Places;
use super::build_id::is_same_build;
use super::debug_files::DebugFile;
use super::debug_files::crc32;
use super::debug_files::debug_files;
use super::places::Root;
use crate::units::BuildId;

/// What the kernel adds to the path of a file that has no name any more.
///
/// Source: `d_path()` in `fs/d_path.c`; kernels before 3.x wrote `//deleted` for files of their own.
const DELETED: [&str; 2] = [" (deleted)", "//deleted"];

/// The path less what the kernel adds to that of a file that was deleted; `None` where it added
/// nothing.
pub fn undeleted(path: &Path) -> Option<&Path> {
    let bytes = path.as_os_str().as_bytes();
    let bytes = DELETED.iter().find_map(|it| bytes.strip_suffix(it.as_bytes()))?;
    (!bytes.is_empty()).then(|| Path::new(OsStr::from_bytes(bytes)))
}

/// Whether the file that was mapped is to be found by the very path that was recorded.
pub fn is_at_its_path<F: Files>(files: &F, file: &ModuleFile, places: &Places) -> bool {
    let candidates = candidates(file, places).into_iter();
    let mut by_path = candidates.filter(|it| it.root.at(&file.path) == it.at);
    by_path.any(|it| open(files, &it.at, file, places, it.trust).is_ok())
}

/// The build id of the file that was mapped, if that is at hand.
pub fn build_id_at_hand<F: Files>(
    files: &F,
    file: &ModuleFile,
    places: &Places,
) -> Option<BuildId> {
    FileSet::find(files, file, places).ok()?.identity.build_id
}

/// A file that was mapped, and what to find the files that belong to it by.
#[derive(Debug)]
pub(super) struct FileSet<'a, F: Files> {
    pub(super) files: &'a F,
    places: &'a Places,
    /// Where it is.
    pub(super) at: PathBuf,
    /// Its path, in the eyes of whoever mapped it.
    pub(super) path: PathBuf,
    /// Where that path begins, and the files that belong to it are looked for first.
    pub(super) root: Root,
    pub(super) bytes: F::Bytes,
    pub(super) identity: Identity,
    /// What the store says of it.
    pub(super) status: FileStatus,
}

/// How sure it is that a path leads to the file that was mapped, before it is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    /// Whoever reads says that it is there.
    Told,
    /// It was there once.
    ByPath,
    /// Another process may have the number by now, or the file may have been moved to.
    ByProcess,
    /// The file has lost this name, which another may have by now; the number of its inode, too.
    ByLostName,
}

struct Candidate {
    at: PathBuf,
    root: Root,
    trust: Trust,
}

impl<'a, F: Files> FileSet<'a, F> {
    /// The file that was mapped; by the rules of [`ElfModule::load`](super::ElfModule::load).
    pub(super) fn find(files: &'a F, file: &ModuleFile, places: &'a Places) -> Result<Self, Error> {
        let mut first_error = None;
        for Candidate { at, root, trust } in candidates(file, places) {
            match open(files, &at, file, places, trust) {
                Ok((bytes, identity, status)) => {
                    let path = match undeleted(&file.path) {
                        Some(path) if at.as_os_str() != file.path.as_os_str() => path,
                        _ => &file.path,
                    };
                    let path = path.to_owned();
                    return Ok(Self { files, places, at, path, root, bytes, identity, status });
                }
                // That another build is there tells more than that something is not.
                Err(error) => match &first_error {
                    None | Some(Error::Open { .. }) if !matches!(error, Error::Open { .. }) => {
                        first_error = Some(error);
                    }
                    None => first_error = Some(error),
                    Some(_) => {}
                },
            }
        }
        let fetched = file.build_id.and_then(|it| files.fetch(it, Artifact::Executable));
        if let Some(at) = fetched
            && let Ok((bytes, identity, status)) = open(files, &at, file, places, Trust::ByPath)
        {
            let path = undeleted(&file.path).unwrap_or(&file.path).to_owned();
            let root = Root::Own;
            return Ok(Self { files, places, at, path, root, bytes, identity, status });
        }
        let not_found = || {
            let reason = io::Error::from(io::ErrorKind::NotFound).to_string();
            Error::Open { path: file.path.clone(), reason }
        };
        Err(first_error.unwrap_or_else(not_found))
    }

    /// The root of whoever reads, where that is another than that of the file and may have what
    /// belongs to it.
    pub(super) fn own_root(&self) -> Option<Root> {
        matches!(self.root, Root::Process(_)).then_some(Root::Own)
    }

    /// What its debug information is looked for by.
    pub(super) fn search(&self) -> DebugSearch<F>
    where
        F: Clone,
    {
        DebugSearch {
            files: self.files.clone(),
            places: self.places.clone(),
            path: self.path.clone(),
            identity: self.identity.clone(),
            roots: std::iter::once(self.root.clone()).chain(self.own_root()).collect(),
        }
    }
}

/// A file with the debug information of another.
#[derive(Debug)]
pub(super) struct FoundDebug<B> {
    /// Where it is.
    pub(super) at: PathBuf,
    pub(super) bytes: B,
    /// What the store says of it.
    pub(super) status: FileStatus,
}

/// What came of looking for a file with debug information.
#[derive(Debug)]
pub(super) struct Sought<B> {
    /// The file, if there is one.
    pub(super) found: Option<FoundDebug<B>>,
    /// Where one is that may be it, and is too long to be known by its CRC.
    pub(super) too_long: Option<PathBuf>,
}

/// The longest file that is read to know it by its CRC, in bytes: that takes a second. Files that are longer have a
/// build id.
const MOST_SUMMED: usize = 2 << 30;

/// What the debug information of a file is looked for by, at once or later.
#[derive(Debug)]
pub(super) struct DebugSearch<F: Files> {
    files: F,
    places: Places,
    /// The path that the file was mapped from.
    path: PathBuf,
    /// What the file says of itself.
    identity: Identity,
    roots: Vec<Root>,
}

impl<F: Files> DebugSearch<F> {
    /// For a file of which a recording kept no more than `saved`.
    ///
    /// # Errors
    ///
    /// [`Error::Elf`] if that is no ELF file.
    pub(super) fn of_saved(
        files: &F,
        file: &ModuleFile,
        places: &Places,
        saved: &[u8],
    ) -> Result<Self, Error>
    where
        F: Clone,
    {
        Ok(Self {
            files: files.clone(),
            places: places.clone(),
            path: undeleted(&file.path).unwrap_or(&file.path).to_owned(),
            identity: Identity::of(saved)?,
            roots: vec![places.symfs.clone().map_or(Root::Own, Root::Symfs)],
        })
    }

    /// The first file with debug information that `is_wanted`, by its bytes and what it says of itself.
    pub(super) fn find(&self, is_wanted: impl Fn(&[u8], &Identity) -> bool) -> Sought<F::Bytes> {
        let Self { files, places, path, identity, roots } = self;
        let build_id = identity.build_id;
        let sought = debug_files(path, identity);
        let below_roots = roots.iter().flat_map(|root| {
            let below = |it: &DebugFile| DebugFile { path: root.at(&it.path), crc: it.crc };
            sought.iter().map(below).collect::<Vec<_>>()
        });
        let stored = build_id.map(|it| places.stored(it, "debug")).unwrap_or_default();
        let stored = stored.into_iter().map(|path| DebugFile { path, crc: None });
        let fetched = std::iter::once_with(|| files.fetch(build_id?, Artifact::DebugInfo));
        let fetched = fetched.flatten().map(|path| DebugFile { path, crc: None });
        let mut too_long = None;
        let mut all = below_roots.chain(stored).chain(fetched);
        let found = all.find_map(|it| {
            let Opened { bytes, status } =
                open_debug(files, &it, identity, &is_wanted, &mut too_long)?;
            Some(FoundDebug { at: it.path, bytes, status })
        });
        Sought { found, too_long }
    }
}

/// Where the file may be, the likeliest place first, and before those where it only may be another.
fn candidates(file: &ModuleFile, places: &Places) -> Vec<Candidate> {
    let mut found = Vec::new();
    let undeleted = undeleted(&file.path);
    if let Some(symfs) = &places.symfs {
        let root = Root::Symfs(symfs.clone());
        for path in [Some(file.path.as_path()), undeleted].into_iter().flatten() {
            found.push(Candidate { at: root.at(path), root: root.clone(), trust: Trust::Told });
        }
    } else {
        let own = |path: &Path, trust| Candidate { at: path.to_owned(), root: Root::Own, trust };
        if file.path.is_absolute() {
            found.push(own(&file.path, Trust::ByPath));
        }
        for mapper in &file.mappers {
            let pid = mapper.pid;
            let of_process =
                |at| Candidate { at, root: Root::Process(pid), trust: Trust::ByProcess };
            let range = format!("{:x}-{:x}", mapper.start.0, mapper.end.0);
            let proc = PathBuf::from(format!("/proc/{pid}"));
            found.push(of_process(proc.join("map_files").join(range)));
            found.push(of_process(proc.join("exe")));
            found.push(of_process(Root::Process(pid).at(&file.path)));
        }
        if let Some(path) = undeleted.filter(|it| it.is_absolute()) {
            found.push(own(path, Trust::ByLostName));
        }
    }
    if let Some(build_id) = file.build_id {
        let stored = places.stored(build_id, "elf").into_iter();
        found.extend(stored.map(|at| Candidate { at, root: Root::Own, trust: Trust::ByPath }));
    }
    found
}

/// Opens the file at `at` if it is the one that was mapped.
fn open<F: Files>(
    files: &F,
    at: &Path,
    file: &ModuleFile,
    places: &Places,
    trust: Trust,
) -> Result<(F::Bytes, Identity, FileStatus), Error> {
    if trust == Trust::ByProcess {
        refuse_at_a_glance(files, at, file, places)?;
    }
    let Opened { bytes, status } = files
        .open(at)
        .map_err(|err| Error::Open { path: at.to_owned(), reason: err.to_string() })?;
    let identity = Identity::of(&bytes)?;
    let path = || at.to_owned();
    if let Some(wanted) = file.build_id {
        return match identity.build_id {
            Some(found) if is_same_build(found, wanted) => Ok((bytes, identity, status)),
            found => Err(Error::OtherBuild { path: path(), wanted, found }),
        };
    }
    let is_it = match (trust, status.is(file, places.recorded_until)) {
        (Trust::Told, _) => true,
        (Trust::ByPath | Trust::ByProcess, Some(is_it)) => is_it,
        (Trust::ByPath, None) => {
            !status.is_newer_than(places.recorded_until) && !status.is_newer_than(file.mapped)
        }
        (Trust::ByProcess, None) | (Trust::ByLostName, _) => false,
    };
    if is_it { Ok((bytes, identity, status)) } else { Err(Error::OtherFile { path: path() }) }
}

/// Refuses what is seen to be another file than the one that was mapped before all of it is read: what a
/// process has is not mapped, and each of those that mapped a file may run another program.
fn refuse_at_a_glance<F: Files>(
    files: &F,
    at: &Path,
    file: &ModuleFile,
    places: &Places,
) -> Result<(), Error> {
    let Some(Glance { status, build_id }) = files.glance(at) else { return Ok(()) };
    let path = || at.to_owned();
    match (file.build_id, build_id) {
        (Some(wanted), Some(found)) if !is_same_build(found, wanted) => {
            Err(Error::OtherBuild { path: path(), wanted, found: build_id })
        }
        (None, _) if status.is(file, places.recorded_until) != Some(true) => {
            Err(Error::OtherFile { path: path() })
        }
        _ => Ok(()),
    }
}

fn open_debug<F: Files>(
    files: &F,
    candidate: &DebugFile,
    of: &Identity,
    is_wanted: impl Fn(&[u8], &Identity) -> bool,
    too_long: &mut Option<PathBuf>,
) -> Option<Opened<F::Bytes>> {
    let opened = files.open(&candidate.path).ok()?;
    let bytes = &opened.bytes;
    let identity = Identity::of(bytes).ok()?;
    let is_it = candidate.is_of(of, &identity, || {
        if MOST_SUMMED < bytes.len() {
            too_long.get_or_insert_with(|| candidate.path.clone());
            return None;
        }
        Some(crc32(bytes))
    });
    (is_it && is_wanted(bytes, &identity)).then_some(opened)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Mutex;

    use super::*;
    use crate::symbols::Inode;
    use crate::symbols::Layout;
    use crate::symbols::Mapper;
    use crate::symbols::Symfs;
    use crate::units::Addr;
    use crate::units::BuildId;
    use crate::units::Nanos;
    use crate::units::Pid;

    /// A machine with files that say no more than a build id each.
    #[derive(Clone, Default)]
    struct Store(HashMap<PathBuf, (Option<BuildId>, FileStatus)>);

    impl Files for Store {
        type Bytes = Vec<u8>;

        fn open(&self, path: &Path) -> io::Result<Opened<Vec<u8>>> {
            let &(id, status) = self.0.get(path).ok_or(io::ErrorKind::NotFound)?;
            Ok(Opened { bytes: elf(id), status })
        }
    }

    /// An ELF file of a header and, with a build id, a segment of notes.
    fn elf(id: Option<BuildId>) -> Vec<u8> {
        let id = id.as_ref().map(BuildId::as_bytes).unwrap_or_default();
        let note = [4, u32::try_from(id.len()).unwrap(), 3].map(u32::to_le_bytes).concat();
        let note = [&note, b"GNU\0".as_slice(), id].concat();
        let n_segments = u16::from(!id.is_empty());
        let header = [
            b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0\x01\0\0\0".to_vec(),
            [0_u64, 64, 0].map(u64::to_le_bytes).concat(),
            vec![0; 4],
            [64, 56, n_segments, 64, 0, 0].map(u16::to_le_bytes).concat(),
        ];
        let len = note.len() as u64;
        let segment = [
            [4_u32, 4].map(u32::to_le_bytes).concat(),
            [120, 0, 0, len, len, 4].map(u64::to_le_bytes).concat(),
        ];
        [header.concat(), segment.concat(), note].concat()
    }

    fn one() -> BuildId {
        BuildId::new(&[1; 20]).unwrap()
    }

    fn other() -> BuildId {
        BuildId::new(&[2; 20]).unwrap()
    }

    fn inode(ino: u64) -> Inode {
        Inode { maj: 8, min: 1, ino, generation: 0 }
    }

    /// A file on the disk, changed at a time in seconds.
    fn on_disk(ino: u64, modified: u64) -> FileStatus {
        let modified = Some(Nanos(modified * 1_000_000_000));
        FileStatus { inode: Some(inode(ino)), is_device_unsure: false, modified }
    }

    fn store(files: &[(&str, Option<BuildId>, FileStatus)]) -> Store {
        Store(files.iter().map(|&(path, id, status)| (path.into(), (id, status))).collect())
    }

    /// A recording that ended 100 seconds after 1970.
    fn places() -> Places {
        Places { recorded_until: Some(Nanos(100_000_000_000)), ..Places::default() }
    }

    /// What is found of `file`: where the file belongs, in the eyes of whoever mapped it.
    #[track_caller]
    fn check(store: &Store, file: &ModuleFile, places: &Places, want: Option<(&str, Root)>) {
        let found = FileSet::find(store, file, places).map(|it| (it.path, it.root));
        let want = want.map(|(path, root)| (PathBuf::from(path), root));
        assert_eq!(found.as_ref().ok(), want.as_ref(), "{found:?}");
    }

    /// The same, of which it is known what was read.
    #[derive(Default)]
    struct Read {
        store: Store,
        paths: Mutex<Vec<PathBuf>>,
    }

    impl Files for Read {
        type Bytes = Vec<u8>;

        fn open(&self, path: &Path) -> io::Result<Opened<Vec<u8>>> {
            self.paths.lock().unwrap().push(path.to_owned());
            self.store.open(path)
        }

        fn glance(&self, path: &Path) -> Option<Glance> {
            let &(build_id, status) = self.store.0.get(path)?;
            Some(Glance { status, build_id })
        }
    }

    #[test]
    fn what_a_process_has_is_read_only_if_it_may_be_the_file() {
        let exe = "/proc/7/exe";
        let read = |file: ModuleFile, it: (Option<BuildId>, FileStatus)| {
            let read = Read { store: store(&[(exe, it.0, it.1)]), ..Read::default() };
            let file = ModuleFile { mappers: vec![MAPPER], ..file };
            let is_found = FileSet::find(&read, &file, &places()).is_ok();
            let paths = read.paths.into_inner().unwrap();
            (paths.iter().any(|it| it == Path::new(exe)), is_found)
        };
        let old = on_disk(5, 50);
        assert_eq!(read(by_id("/a", one()), (Some(one()), old)), (true, true));
        assert_eq!(read(by_id("/a", one()), (Some(other()), old)), (false, false));
        // Its sections may have one.
        assert_eq!(read(by_id("/a", one()), (None, old)), (true, false));
        assert_eq!(read(by_inode("/a", 5), (None, old)), (true, true));
        assert_eq!(read(by_inode("/a", 6), (None, old)), (false, false));
        assert_eq!(read(by_inode("/a", 5), (None, on_disk(5, 200))), (false, false));
    }

    fn by_id(path: &str, id: BuildId) -> ModuleFile {
        ModuleFile { build_id: Some(id), ..ModuleFile::at(path) }
    }

    fn by_inode(path: &str, ino: u64) -> ModuleFile {
        ModuleFile { inode: Some(inode(ino)), ..ModuleFile::at(path) }
    }

    const MAPPER: Mapper = Mapper { pid: Pid(7), start: Addr(0x1000), end: Addr(0x3000) };
    const PROCESS: Root = Root::Process(Pid(7));

    #[test]
    fn a_build_id_is_all_that_counts_where_there_is_one() {
        let newer = on_disk(5, 200);
        let store =
            store(&[("/a", Some(one()), newer), ("/b", Some(other()), newer), ("/c", None, newer)]);
        check(&store, &by_id("/a", one()), &places(), Some(("/a", Root::Own)));
        check(&store, &by_id("/b", one()), &places(), None);
        check(&store, &by_id("/c", one()), &places(), None);
        let moved = ModuleFile { inode: Some(inode(9)), ..by_id("/a", one()) };
        check(&store, &moved, &places(), Some(("/a", Root::Own)));
    }

    #[test]
    fn without_a_build_id_the_place_on_the_disk_tells_and_then_the_age() {
        let store =
            store(&[("/a", Some(one()), on_disk(5, 99)), ("/b", Some(one()), on_disk(6, 101))]);
        check(&store, &by_inode("/a", 5), &places(), Some(("/a", Root::Own)));
        check(&store, &by_inode("/a", 6), &places(), None);
        // It was written into since.
        check(&store, &by_inode("/b", 6), &places(), None);
        check(&store, &by_inode("/b", 6), &Places::default(), Some(("/b", Root::Own)));
        check(&store, &ModuleFile::at("/a"), &places(), Some(("/a", Root::Own)));
        check(&store, &ModuleFile::at("/b"), &places(), None);
    }

    #[test]
    fn what_was_written_to_between_its_mapping_and_the_end_of_the_recording_is_not_what_ran() {
        let store = store(&[("/a", None, on_disk(5, 50))]);
        let of = |file: ModuleFile, seconds: u64| {
            let mapped = Some(Nanos(seconds * 1_000_000_000));
            ModuleFile { mapped, mappers: vec![MAPPER], ..file }
        };
        for file in [by_inode("/a", 5), ModuleFile::at("/a")] {
            check(&store, &of(file.clone(), 50), &places(), Some(("/a", Root::Own)));
            check(&store, &of(file, 49), &places(), None);
        }
    }

    #[test]
    fn the_generation_tells_who_has_the_number_of_an_inode() {
        let of = |generation| Some(Inode { generation, ..inode(5) });
        let status = FileStatus { inode: of(3), ..on_disk(5, 1) };
        let store = store(&[("/a", None, status)]);
        let file = |generation| ModuleFile { inode: of(generation), ..ModuleFile::at("/a") };
        check(&store, &file(3), &places(), Some(("/a", Root::Own)));
        check(&store, &file(0), &places(), Some(("/a", Root::Own)));
        check(&store, &file(4), &places(), None);
    }

    #[test]
    fn a_device_counts_unless_the_file_system_makes_it_up() {
        let elsewhere = |is_device_unsure| {
            let inode = Some(Inode { maj: 0, min: 44, ..inode(5) });
            store(&[("/a", None, FileStatus { inode, is_device_unsure, ..on_disk(5, 1) })])
        };
        check(&elsewhere(true), &by_inode("/a", 5), &places(), Some(("/a", Root::Own)));
        check(&elsewhere(false), &by_inode("/a", 5), &places(), None);
    }

    #[test]
    fn in_another_mount_namespace_a_file_is_seen_through_a_process_that_lives() {
        let host = ("/app", Some(other()), on_disk(5, 1));
        let inside = ("/proc/7/root/app", Some(one()), on_disk(6, 1));
        let mapped = |file: ModuleFile| ModuleFile { mappers: vec![MAPPER], ..file };
        let (alive, dead) = (store(&[host, inside]), store(&[host]));
        for file in [mapped(by_id("/app", one())), mapped(by_inode("/app", 6))] {
            check(&alive, &file, &places(), Some(("/app", PROCESS)));
            check(&dead, &file, &places(), None);
        }
        // Nothing tells whether the number is another process's by now.
        let reused = store(&[inside]);
        check(&reused, &mapped(ModuleFile::at("/app")), &places(), None);
        check(&reused, &mapped(by_id("/app", other())), &places(), None);
    }

    #[test]
    fn a_deleted_file_is_seen_through_its_mapping_and_never_by_its_old_name_alone() {
        let deleted = |file: ModuleFile| ModuleFile { mappers: vec![MAPPER], ..file };
        let mapped = ("/proc/7/map_files/1000-3000", Some(one()), on_disk(6, 1));
        let newer = ("/t", Some(other()), on_disk(7, 1));
        let (named, inode) = (by_id("/t (deleted)", one()), by_inode("/t (deleted)", 6));
        for file in [deleted(named.clone()), deleted(inode.clone())] {
            check(&store(&[newer, mapped]), &file, &places(), Some(("/t", PROCESS)));
            check(&store(&[newer]), &file, &places(), None);
        }
        // A file that came back is known by its build id; its inode may be another's by now.
        let same = store(&[("/t", Some(one()), on_disk(6, 1))]);
        check(&same, &named, &places(), Some(("/t", Root::Own)));
        check(&same, &inode, &places(), None);
    }

    #[test]
    fn a_file_may_be_called_deleted() {
        let store = store(&[("/t (deleted)", Some(one()), on_disk(6, 1))]);
        check(&store, &by_id("/t (deleted)", one()), &places(), Some(("/t (deleted)", Root::Own)));
        check(&store, &by_inode("/t (deleted)", 6), &places(), Some(("/t (deleted)", Root::Own)));
        assert!(is_at_its_path(&store, &by_id("/t (deleted)", one()), &places()));
        assert!(!is_at_its_path(&store, &by_id("/t (deleted)", other()), &places()));
        assert_eq!(undeleted(Path::new("/t (deleted)")), Some(Path::new("/t")));
        assert_eq!(undeleted(Path::new("/t")), None);
        assert_eq!(undeleted(Path::new(" (deleted)")), None);
    }

    #[test]
    fn the_files_of_another_machine_lie_below_a_directory_or_in_it() {
        let store = store(&[
            ("/s/usr/bin/a", Some(one()), on_disk(50, 500)),
            ("/s/a", Some(one()), on_disk(51, 500)),
            ("/usr/bin/a", Some(one()), on_disk(5, 1)),
        ]);
        for layout in [Layout::Hierarchy, Layout::Flat] {
            let symfs = Symfs { dir: "/s".into(), layout };
            let root = Root::Symfs(symfs.clone());
            let places = Places { symfs: Some(symfs), ..places() };
            for file in [by_id("/usr/bin/a", one()), by_inode("/usr/bin/a", 5)] {
                check(&store, &file, &places, Some(("/usr/bin/a", root.clone())));
            }
            // Not from elsewhere, and not another build.
            check(&store, &by_id("/usr/bin/a", other()), &places, None);
            check(&store, &by_id("/bin/b", one()), &places, None);
        }
    }

    #[test]
    fn a_store_by_build_ids_has_what_is_nowhere_else_if_it_is_that() {
        let hex = "0101010101010101010101010101010101010101";
        let elf = format!("/h/.build-id/01/{}/elf", &hex[2..]);
        let old = format!("/h/.build-id/01/{}", &hex[2..]);
        let places = Places { store: Some("/h".into()), ..places() };
        for path in [&elf, &old] {
            let right = store(&[(path, Some(one()), on_disk(5, 500))]);
            check(&right, &by_id("/gone", one()), &places, Some(("/gone", Root::Own)));
            let wrong = store(&[(path, Some(other()), on_disk(5, 500))]);
            check(&wrong, &by_id("/gone", one()), &places, None);
        }
    }

    #[test]
    fn that_another_file_is_there_is_told_before_that_one_is_missing() {
        let host = store(&[("/app", Some(other()), on_disk(5, 1))]);
        let file = ModuleFile { mappers: vec![MAPPER], ..by_id("/app", one()) };
        let error = FileSet::find(&host, &file, &places()).map(|it| it.path).unwrap_err();
        let path = PathBuf::from("/app");
        assert_eq!(error, Error::OtherBuild { path, wanted: one(), found: Some(other()) });
        let none = store(&[]);
        let error = FileSet::find(&none, &file, &places()).map(|it| it.path).unwrap_err();
        assert!(matches!(error, Error::Open { path, .. } if path == Path::new("/app")));
    }

    #[test]
    fn debug_files_are_looked_for_below_the_root_of_the_process_first() {
        let hex = "01/01010101010101010101010101010101010101";
        let inside = format!("/proc/7/root/usr/lib/debug/.build-id/{hex}.debug");
        let outside = format!("/usr/lib/debug/.build-id/{hex}.debug");
        let app = ("/proc/7/root/app", Some(one()), on_disk(6, 1));
        let file = ModuleFile { mappers: vec![MAPPER], ..by_id("/app", one()) };
        let places = places();
        let debug = |files: &[_]| {
            let store = store(files);
            let found = FileSet::find(&store, &file, &places).unwrap();
            found.search().find(|_, _| true).found.map(|it| it.at)
        };
        let (in_it, out_of_it) = (
            (inside.as_str(), Some(one()), on_disk(7, 1)),
            (outside.as_str(), Some(one()), on_disk(8, 1)),
        );
        assert_eq!(debug(&[app, in_it, out_of_it]), Some(PathBuf::from(&inside)));
        assert_eq!(debug(&[app, out_of_it]), Some(PathBuf::from(&outside)));
        assert_eq!(debug(&[app, (&inside, Some(other()), on_disk(7, 1))]), None);
    }
}
