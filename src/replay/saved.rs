//! Files that are in the recording itself.

use std::path::Path;
use std::sync::Arc;
use std::sync::OnceLock;

use rustc_hash::FxHashMap;

use crate::perfdata::private::FileFacts;
use crate::perfdata::private::Message;
use crate::perfdata::private::SavedFile;
use crate::symbols;
use crate::symbols::DebugFile;
use crate::symbols::ElfCode;
use crate::symbols::ElfModule;
use crate::symbols::Identity;
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
use super::NoKernel;
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
    by_build_id: FxHashMap<BuildId, Vec<Kept<'a>>>,
    by_place: FxHashMap<Place, Vec<(Generation, Kept<'a>)>>,
    /// What was split off files.
    debug_files: Vec<Kept<'a>>,
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
            debug_files: Vec::new(),
            perf_maps: FxHashMap::default(),
        };
        for message in messages {
            let Message::File(saved) = message else { continue };
            match &*saved.facts.what {
                FileFacts::ELF => {
                    let kept = Kept::new(saved);
                    if let Some(id) = saved.facts.build_id() {
                        this.by_build_id.entry(id).or_default().push(kept.clone());
                    }
                    for it in &saved.facts.inodes {
                        let place = this.by_place.entry((it.maj, it.min, it.ino)).or_default();
                        place.push((it.generation, kept.clone()));
                    }
                }
                FileFacts::ELF_DEBUG => this.debug_files.push(Kept::new(saved)),
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
            (Some(id), _) => the_one(self.by_build_id.get(&id)?.iter())?,
            (None, Some(inode)) => self.at(inode, &file.path.to_string_lossy())?,
            (None, None) => return None,
        };
        kept.content()
    }

    /// The file `saved` with the symbols that had been split off it, if the recording has them.
    fn with_saved_debug(&self, saved: &[u8]) -> Option<ElfModule> {
        let of = Identity::of(saved).ok()?;
        if of.symbols == Symbols::Full {
            return None;
        }
        let is_its = |kept: &&Kept<'_>| {
            let facts = &kept.saved.facts;
            let path = Path::new(&facts.path);
            let link = of.debug_link.as_ref().filter(|it| path.ends_with(&it.file_name));
            let file = DebugFile { path: path.to_owned(), crc: link.map(|it| it.crc) };
            // What it was when it was read to its end.
            let (build_id, debug_link, symbols) = (facts.build_id(), None, Symbols::Full);
            file.is_of(&of, &Identity { build_id, debug_link, symbols }, || facts.crc)
        };
        let debug = the_one(self.debug_files.iter().filter(is_its))?.content()?;
        let module = ElfModule::parse(saved, Some(&debug)).ok()?;
        (module.symbols() == Symbols::Full).then_some(module)
    }

    /// The last map in the recording that `pid` wrote, of those for which `is_its` holds by when they
    /// were last written to; `None` where the recording has no word of maps of this number.
    ///
    /// An empty one stands for one that was not there, or was there and of somebody else: whatever the
    /// machine has at its path later is none.
    pub(super) fn saved_map(
        &self,
        pid: Pid,
        is_its: &dyn Fn(Option<Nanos>) -> bool,
    ) -> Option<Result<PerfMap, Unnamed>> {
        let saved = self.perf_maps.get(&pid)?;
        let written = |it: &SavedFile| Some(Nanos(it.facts.modified_ns)).filter(|it| it.0 != 0);
        let maps = saved.iter().rev().filter_map(|it| Some((written(it), it.content()?)));
        let mut maps = maps.filter(|(_, content)| !content.is_empty()).peekable();
        if maps.peek().is_none() {
            return Some(Err(Unnamed::Absent));
        }
        let its = maps.find(|(written, _)| is_its(*written));
        Some(its.map(|(_, it)| PerfMap::parse(&it)).ok_or(Unnamed::OfAnotherProgram))
    }

    fn at(&self, inode: Inode, path: &str) -> Option<&Kept<'a>> {
        let Inode { maj, min, ino, generation } = inode;
        let fits = |it: Generation| it == generation || it == 0 || generation == 0;
        let all = self.by_place.get(&(maj, min, ino))?.iter();
        // An inode that was used again leaves open which of them it was.
        the_one(
            all.filter(|(own, kept)| fits(*own) && kept.saved.facts.path == path).map(|it| &it.1),
        )
    }
}

/// The one that all of them are; `None` where they differ, since nothing says which it is.
fn the_one<'k, 'a>(mut all: impl Iterator<Item = &'k Kept<'a>>) -> Option<&'k Kept<'a>> {
    let first = all.next()?;
    all.all(|it| it.content() == first.content()).then_some(first)
}

impl Sources for WithSaved<'_> {
    fn elf(&self, file: &ModuleFile) -> Result<ElfModule, symbols::Error> {
        let Some(saved) = self.saved(file) else { return self.machine.elf(file) };
        // Whoever makes a file can give it the build id of another one, and what was at its path when it
        // was recorded was not saved: what is there with this id is it.
        if file.build_id.is_some()
            && let Ok(found) = self.machine.elf(file)
        {
            return Ok(found);
        }
        if let Some(whole) = self.with_saved_debug(&saved) {
            return Ok(whole);
        }
        let Ok(saved) = self.machine.elf_saved(file, &saved) else { return self.machine.elf(file) };
        if saved.symbols() == Symbols::Full {
            return Ok(saved);
        }
        // The machine may have what was split off it beside the file itself. That it is this one is told
        // by the file that it says has its symbols.
        let link = &saved.identity().debug_link;
        match self.machine.elf(file) {
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

    fn kernel(&self) -> Result<LocalKernel, NoKernel> {
        self.machine.kernel()
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::perfdata::private;

    /// A machine that has one program, or nothing, at every path, where nothing that was saved is to be read.
    struct Machine {
        program: Option<Vec<u8>>,
    }

    const NOTHING: Machine = Machine { program: None };

    impl Sources for Machine {
        fn elf(&self, _: &ModuleFile) -> Result<ElfModule, symbols::Error> {
            let program = self.program.as_ref().ok_or(symbols::Error::EmptyKallsyms)?;
            ElfModule::parse(program, None)
        }

        fn elf_saved(&self, _: &ModuleFile, _: &[u8]) -> Result<ElfModule, symbols::Error> {
            panic!("what was saved is read")
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

        fn kernel(&self) -> Result<LocalKernel, NoKernel> {
            Err(NoKernel::Other)
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
        let sources = WithSaved::of(&messages, &NOTHING);
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
        // Two of one id, of which nothing says which it was.
        let messages = [file("elf", "/a", Some("11"), &[]), file("elf", "/b", Some("11"), &[])];
        let of = |messages| {
            let file = ModuleFile { build_id: BuildId::new(&[0x11]), ..ModuleFile::at("/a") };
            WithSaved::of(messages, &NOTHING).saved(&file).is_some()
        };
        assert!(of(&messages[..1]) && of(&messages[1..]) && !of(&messages));
    }

    /// A program with and without its symbols, of which the one without names `abc` as where they are.
    fn split(dir: &Path, option: &str) -> [Vec<u8>; 2] {
        let run = |name: &str, args: &[&str]| {
            let mut command = Command::new(name);
            assert!(command.args(args).current_dir(dir).output().unwrap().status.success());
        };
        let text = "int work(void) { return 3; } int main(void) { return work(); }";
        std::fs::write(dir.join("a.c"), text).unwrap();
        run("gcc", &[option, "a.c", "-o", "abc"]);
        run("objcopy", &["--strip-all", "--add-gnu-debuglink=abc", "abc", "stripped"]);
        ["stripped", "abc"].map(|it| std::fs::read(dir.join(it)).unwrap())
    }

    #[test]
    fn symbols_that_were_split_off_are_those_of_the_same_build_id_or_of_the_links_sum() {
        let dir = tempfile::tempdir().unwrap();
        for option in ["-Wl,--build-id", "-Wl,--build-id=none"] {
            let [stripped, whole] = split(dir.path(), option);
            let of = Identity::of(&stripped).unwrap();
            let crc = of.debug_link.as_ref().map(|it| it.crc);
            let digits = of.build_id.map(|it| it.to_string());
            let is_named = |path: &str, build_id: Option<&str>, crc: Option<u32>| {
                let facts = FileFacts {
                    what: FileFacts::ELF_DEBUG.to_owned(),
                    path: path.to_owned(),
                    build_id: build_id.map(str::to_owned),
                    crc,
                    ..FileFacts::default()
                };
                let messages = [Message::File(SavedFile::new(facts, &whole).unwrap())];
                let sources = WithSaved::of(&messages, &NOTHING);
                let module = sources.with_saved_debug(&stripped);
                module.is_some_and(|it| it.table().iter().any(|it| it.name == "work"))
            };
            assert!(is_named("/x/abc", digits.as_deref(), crc), "{option}");
            assert_eq!(is_named("/x/other", digits.as_deref(), None), digits.is_some());
            assert!(is_named("/x/abc", None, crc));
            assert!(!is_named("/x/ab", None, crc) && !is_named("/x/abc", None, Some(1)));
            assert_eq!(is_named("/x/abc", Some("00ff"), crc), digits.is_none());
        }
    }

    #[test]
    fn a_map_in_the_recording_or_word_that_there_was_none_counts_for_more_than_the_machines() {
        let map = |text: &str| {
            let facts =
                FileFacts { what: FileFacts::PERF_MAP.to_owned(), pid: 7, ..Default::default() };
            Message::File(SavedFile::new(facts, text.as_bytes()).unwrap())
        };
        let (none, some) = (map(""), map("1000 10 f\n"));
        let found = |messages: &[Message], pid| {
            let sources = WithSaved::of(messages, &NOTHING);
            let found = |is_its| sources.saved_map(pid, &|_| is_its).map(|it| it.map(|_| ()));
            [found(true), found(false)]
        };
        let other = Some(Err(Unnamed::OfAnotherProgram));
        assert_eq!(found(std::slice::from_ref(&some), Pid(7)), [Some(Ok(())), other]);
        assert_eq!(found(&[none.clone(), some.clone()], Pid(7)), [Some(Ok(())), other]);
        assert_eq!(found(&[some.clone(), none.clone()], Pid(7)), [Some(Ok(())), other]);
        assert_eq!(found(&[none], Pid(7)), [Some(Err(Unnamed::Absent)); 2]);
        assert_eq!(found(&[some], Pid(8)), [None; 2]);
    }

    #[test]
    fn what_is_there_with_a_build_id_is_no_file_that_a_recording_has_of_that_id() {
        let machine = Machine { program: Some(std::fs::read("/proc/self/exe").unwrap()) };
        let messages = [file("elf", "/a", Some("11"), &[])];
        let sources = WithSaved::of(&messages, &machine);
        let asked = ModuleFile { build_id: BuildId::new(&[0x11]), ..ModuleFile::at("/a") };
        assert!(sources.elf(&asked).is_ok());
    }
}
