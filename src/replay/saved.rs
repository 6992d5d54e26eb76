//! Files that are in the recording itself.

use std::sync::Arc;
use std::sync::OnceLock;

use rustc_hash::FxHashMap;

use crate::perfdata::private::FileFacts;
use crate::perfdata::private::Message;
use crate::perfdata::private::SavedFile;
use crate::symbols;
use crate::symbols::ElfCode;
use crate::symbols::ElfModule;
use crate::symbols::Inode;
use crate::symbols::ModuleFile;
use crate::symbols::OwnedBytes;
use crate::symbols::PerfMap;
use crate::symbols::Symbols;
use crate::units::BuildId;
use crate::units::Nanos;
use crate::units::Pid;

use super::Index;
use super::LocalKernel;
use super::Provenance;
use super::Sources;
use super::Unnamed;
use super::Width;
use super::WrittenMap;

/// Major and minor number of a device, and an inode there.
type Place = (u32, u32, u64);

/// Which of the files that had an inode; 0 where that is not known.
type Generation = u64;

/// What a recording has of files that nobody could find later, and the machine's own files behind it.
#[derive(Clone)]
pub(super) struct WithSaved<'a> {
    machine: &'a dyn Sources,
    by_build_id: FxHashMap<BuildId, Kept<'a>>,
    by_place: FxHashMap<Place, Vec<(Generation, Kept<'a>)>>,
    perf_maps: FxHashMap<Pid, Vec<&'a SavedFile>>,
}

/// A saved file, which is inflated once, however many mappings are of it.
#[derive(Clone)]
struct Kept<'a> {
    saved: &'a SavedFile,
    content: Arc<OnceLock<Option<Arc<Vec<u8>>>>>,
}

impl<'a> Kept<'a> {
    fn new(saved: &'a SavedFile) -> Self {
        Self { saved, content: Arc::default() }
    }

    fn content(&self) -> Option<Arc<Vec<u8>>> {
        self.content.get_or_init(|| self.saved.content().map(Arc::new)).clone()
    }
}

impl<'a> WithSaved<'a> {
    /// What the recording that `index` was made of has, and `machine`.
    pub(super) fn new(index: &'a Index, machine: &'a dyn Sources) -> Self {
        Self::of(index.bpf.messages(), machine)
    }

    fn of(messages: &'a [Message], machine: &'a dyn Sources) -> Self {
        let mut this = Self {
            machine,
            by_build_id: FxHashMap::default(),
            by_place: FxHashMap::default(),
            perf_maps: FxHashMap::default(),
        };
        for message in messages {
            let Message::File(saved) = message else { continue };
            match &*saved.facts.what {
                FileFacts::ELF => {
                    let kept = Kept::new(saved);
                    if let Some(id) = saved.facts.build_id() {
                        this.by_build_id.insert(id, kept.clone());
                    }
                    for it in &saved.facts.inodes {
                        let place = this.by_place.entry((it.maj, it.min, it.ino)).or_default();
                        place.push((it.generation, kept.clone()));
                    }
                }
                FileFacts::PERF_MAP => {
                    this.perf_maps.entry(Pid(saved.facts.pid)).or_default().push(saved);
                }
                _ => {}
            }
        }
        this
    }

    /// What the recording has of `file`: one with its build id or, where the records of its mappings
    /// have none, the one with its path that had its inode.
    fn saved(&self, file: &ModuleFile) -> Option<Arc<Vec<u8>>> {
        let kept = match (file.build_id, file.inode) {
            (Some(id), _) => self.by_build_id.get(&id)?,
            (None, Some(inode)) => self.at(inode, &file.path.to_string_lossy())?,
            (None, None) => return None,
        };
        kept.content()
    }

    /// The last map in the recording that `pid` wrote, of those for which `is_its` holds by when they
    /// were last written to.
    pub(super) fn saved_map(
        &self,
        pid: Pid,
        is_its: &dyn Fn(Option<Nanos>) -> bool,
    ) -> Option<PerfMap> {
        let saved = self.perf_maps.get(&pid)?.iter().rev();
        let written = |it: &SavedFile| Some(Nanos(it.facts.modified_ns)).filter(|it| it.0 != 0);
        let content = saved.filter(|it| is_its(written(it))).find_map(|it| it.content());
        content.map(|it| PerfMap::parse(&it))
    }

    /// Whether the recording has a map of any process with this number.
    pub(super) fn has_map(&self, pid: Pid) -> bool {
        self.perf_maps.contains_key(&pid)
    }

    fn at(&self, inode: Inode, path: &str) -> Option<&Kept<'a>> {
        let Inode { maj, min, ino, generation } = inode;
        let fits = |it: Generation| it == generation || it == 0 || generation == 0;
        let all = self.by_place.get(&(maj, min, ino))?.iter();
        let mut fitting =
            all.filter(|(own, kept)| fits(*own) && kept.saved.facts.path == path).map(|it| &it.1);
        let first = fitting.next()?;
        // An inode that was used again leaves open which of them it was, unless they are the same.
        fitting.all(|it| it.content() == first.content()).then_some(first)
    }
}

impl Sources for WithSaved<'_> {
    fn elf(&self, file: &ModuleFile) -> Result<ElfModule, symbols::Error> {
        let saved = self.saved(file);
        let Some(saved) = saved.and_then(|it| self.machine.elf_saved(file, &it).ok()) else {
            return self.machine.elf(file);
        };
        if saved.symbols() == Symbols::Full {
            return Ok(saved);
        }
        // The machine may have what was split off it beside the file itself. That it is this one is told
        // by the build id, or by the file that it says has its symbols.
        let link = &saved.identity().debug_link;
        match self.machine.elf(file) {
            Ok(found) if file.build_id.is_some() => Ok(found),
            Ok(found) if link.is_some() && found.identity().debug_link == *link => Ok(found),
            _ => Ok(saved),
        }
    }

    fn elf_saved(&self, file: &ModuleFile, saved: &[u8]) -> Result<ElfModule, symbols::Error> {
        self.machine.elf_saved(file, saved)
    }

    fn elf_code_saved(
        &self,
        file: &ModuleFile,
        saved: OwnedBytes,
    ) -> Result<ElfCode, symbols::Error> {
        self.machine.elf_code_saved(file, saved)
    }

    fn is_called_deleted(&self, file: &ModuleFile) -> bool {
        self.machine.is_called_deleted(file)
    }

    fn vdso(&self, width: Width, build_id: Option<BuildId>) -> Option<ElfModule> {
        self.machine.vdso(width, build_id)
    }

    fn elf_code(&self, file: &ModuleFile) -> Result<ElfCode, symbols::Error> {
        // What is saved has no code, and lines only where they had been split off it.
        self.machine.elf_code(file).or_else(|error| {
            let saved = self.saved(file).ok_or(error)?;
            self.machine.elf_code_saved(file, saved)
        })
    }

    fn vdso_code(&self, width: Width, build_id: Option<BuildId>) -> Option<ElfCode> {
        self.machine.vdso_code(width, build_id)
    }

    fn kept_lines(&self, build_id: BuildId) -> Option<Vec<u8>> {
        self.machine.kept_lines(build_id)
    }

    fn keep_lines(&self, build_id: BuildId, text: &[u8]) {
        self.machine.keep_lines(build_id, text);
    }

    fn perf_map(&self, pid: Pid, provenance: &Provenance) -> Result<WrittenMap, Unnamed> {
        self.machine.perf_map(pid, provenance)
    }

    fn kernel(&self) -> Option<LocalKernel> {
        self.machine.kernel()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::perfdata::private;

    /// A machine that has nothing.
    struct Nothing;

    impl Sources for Nothing {
        fn elf(&self, _: &ModuleFile) -> Result<ElfModule, symbols::Error> {
            Err(symbols::Error::EmptyKallsyms)
        }

        fn vdso(&self, _: Width, _: Option<BuildId>) -> Option<ElfModule> {
            None
        }

        fn elf_code(&self, _: &ModuleFile) -> Result<ElfCode, symbols::Error> {
            Err(symbols::Error::EmptyKallsyms)
        }

        fn vdso_code(&self, _: Width, _: Option<BuildId>) -> Option<ElfCode> {
            None
        }

        fn perf_map(&self, _: Pid, _: &Provenance) -> Result<WrittenMap, Unnamed> {
            Err(Unnamed::Absent)
        }

        fn kernel(&self) -> Option<LocalKernel> {
            None
        }
    }

    fn file(what: &str, path: &str, id: Option<&str>, places: &[(u64, u64)]) -> Message {
        let inode = |&(ino, generation)| private::Inode { maj: 8, min: 1, ino, generation };
        let facts = FileFacts {
            what: what.to_owned(),
            path: path.to_owned(),
            build_id: id.map(str::to_owned),
            inodes: places.iter().map(inode).collect(),
            pid: 7,
            ..FileFacts::default()
        };
        // Files of one path differ by how many places they had.
        let content = format!("{path} {}", places.len());
        Message::File(SavedFile::new(facts, content.as_bytes()).unwrap())
    }

    #[test]
    fn a_file_is_taken_for_a_mapping_by_its_identity_alone() {
        let messages = [
            file("elf", "/a", Some("00ff"), &[(1, 0), (2, 5)]),
            file("elf", "/b", None, &[(3, 5), (4, 1)]),
            file("elf", "/b", None, &[(4, 2)]),
            file("elf", "/d", None, &[(5, 0)]),
            file("elf", "/d", None, &[(5, 3)]),
            file("perf-map", "/b", Some("11"), &[(9, 0)]),
        ];
        let sources = WithSaved::of(&messages, &Nothing);
        let found = |path: &str, id: Option<&[u8]>, inode: Option<(u64, u64)>| {
            let build_id = id.and_then(BuildId::new);
            let inode = inode.map(|(ino, generation)| Inode { maj: 8, min: 1, ino, generation });
            let file = ModuleFile { build_id, inode, ..ModuleFile::at(Path::new(path)) };
            sources.saved(&file).map(|it| String::from_utf8_lossy(&it).into_owned())
        };
        let (a, b) = (Some("/a 2".to_owned()), Some("/b 2".to_owned()));
        // Whatever it was called elsewhere.
        assert_eq!(found("/x", Some(&[0, 0xff]), None), a);
        assert_eq!(found("/a", Some(&[0, 0xfe]), Some((1, 0))), None);
        assert_eq!(found("/a", None, None), None);
        assert_eq!(found("/a", None, Some((1, 9))), a);
        assert_eq!(found("/a", None, Some((2, 5))), a);
        assert_eq!(found("/a", None, Some((2, 6))), None);
        assert_eq!(found("/b", None, Some((3, 0))), b);
        assert_eq!(found("/c", None, Some((3, 5))), None);
        // An inode that two files had, and of which nothing says which it was.
        assert_eq!(found("/b", None, Some((4, 2))), Some("/b 1".to_owned()));
        assert_eq!(found("/b", None, Some((4, 0))), None);
        // One that was met twice is one.
        assert_eq!(found("/d", None, Some((5, 3))), Some("/d 1".to_owned()));
        assert_eq!(found("/b", Some(&[0x11]), None), None);
        let map = |pid| sources.saved_map(pid, &|written| written.is_none()).is_some();
        assert!(map(Pid(7)) && !map(Pid(8)));
        assert!(sources.saved_map(Pid(7), &|written| written.is_some()).is_none());
    }
}
