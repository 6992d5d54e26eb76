//! Frames to lines of source, and to the functions that were inlined there.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::OnceLock;
use std::sync::PoisonError;

use rustc_hash::FxHashSet;

use crate::symbols::ElfCode;
use crate::symbols::KnownLines;
use crate::symbols::SourceFrame;
use crate::symbols::SourceLines;
use crate::units::Addr;
use crate::units::BuildId;
use crate::units::FileOffset;

use super::CodeFiles;
use super::Frame;
use super::names::SymbolName;
use super::timeline::Owner;

/// Finds the lines of frames in the debug information of the files that were mapped; each file is
/// looked for, and indexed, when a frame in it is asked for.
pub struct Lines<'a> {
    files: &'a CodeFiles<'a>,
    inlined: Inlined,
    /// By module.
    modules: Vec<OnceLock<ModuleLines<'a>>>,
}

/// Which lines of source, and inlined functions, are missing of those that were asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissingLines {
    /// How many parts of debug information were left out, as [`SourceLines::n_left_out`].
    pub n_left_out: u64,
    /// The files whose debug information is in part in files that are not there.
    pub incomplete: Vec<PathBuf>,
}

impl MissingLines {
    /// Adds what another reading of the same files misses, which leaves out the same parts of them.
    pub fn merge(&mut self, other: &Self) {
        self.n_left_out = self.n_left_out.max(other.n_left_out);
        let new = other.incomplete.iter().filter(|it| !self.incomplete.contains(it));
        let new: Vec<_> = new.cloned().collect();
        self.incomplete.extend(new);
    }

    /// Adds what is missing of a module with the file `code`, whose debug information was asked for: that
    /// of `dwarf`, or all of it.
    pub(super) fn add(
        &mut self,
        files: &CodeFiles<'_>,
        module: usize,
        code: &ElfCode,
        dwarf: Option<&SourceLines<'_>>,
    ) {
        let is_incomplete = match dwarf {
            None => code.lacks_debug_info(),
            Some(dwarf) => {
                self.n_left_out = self.n_left_out.saturating_add(dwarf.n_left_out());
                dwarf.is_incomplete()
            }
        };
        if is_incomplete && let Some(path) = files.path(module) {
            self.incomplete.push(path.to_owned());
        }
    }
}

/// The lines of one module.
struct ModuleLines<'a> {
    code: &'a ElfCode,
    /// Whose lines these are, where they can be kept.
    stamp: Option<(BuildId, String)>,
    /// What an earlier run has found.
    known: KnownLines,
    /// The debug information itself, read when something is asked for that is not known.
    dwarf: OnceLock<Option<SourceLines<'a>>>,
    /// What this run has asked for that was not known.
    asked: Mutex<FxHashSet<Addr>>,
}

/// Debug information of fewer bytes is read as fast as what was kept of it.
const WORTH_KEEPING: usize = 16 << 20;

/// Whether functions that were inlined stand for frames of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inlined {
    /// They do.
    Shown,
    /// A frame is the function that has the code, at the line of what runs.
    Hidden,
}

impl std::fmt::Debug for Lines<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines").field("modules", &self.modules.len()).finish_non_exhaustive()
    }
}

impl<'a> Lines<'a> {
    /// The lines of what is in `files`.
    pub fn new(files: &'a CodeFiles<'a>, inlined: Inlined) -> Self {
        let modules = std::iter::repeat_with(OnceLock::new).take(files.len()).collect();
        Self { files, inlined, modules }
    }

    /// The functions that `frame`, which is in `symbol`, stands for, each with its line: those that
    /// were inlined, the innermost first, then the one that has the code. Nothing where nothing is
    /// known.
    ///
    /// A return address is that of the instruction behind the call, which may come from another line,
    /// of another function: what called is looked for a byte before.
    pub fn of(&self, frame: &Frame, symbol: Option<&SymbolName<'_>>) -> Vec<SourceFrame<'_>> {
        let mut found = Vec::new();
        let Some((lines, addr)) = self.place(frame) else { return found };
        // What never returns is called at the end of a function, behind which another one begins.
        let is_within = symbol.is_none_or(|it| it.offset != 0);
        let back = u64::from(frame.is_return_address && is_within);
        lines.frames(Addr(addr.0.wrapping_sub(back)), &mut found);
        if symbol.is_none() || self.inlined == Inlined::Hidden {
            found.truncate(1);
        }
        found
    }

    /// What was asked for and is missing.
    pub fn missing(&self) -> MissingLines {
        let mut missing = MissingLines::default();
        for (module, lines) in self.modules.iter().enumerate() {
            let Some((lines, dwarf)) = lines.get().and_then(|it| Some((it, it.dwarf.get()?)))
            else {
                continue;
            };
            missing.add(self.files, module, lines.code, dwarf.as_ref());
        }
        missing
    }

    fn place(&self, frame: &Frame) -> Option<(&ModuleLines<'a>, Addr)> {
        let Some(Owner::Mapping(mapping)) = frame.owner else { return None };
        let (module, at) = self.files.place(mapping, frame.ip);
        let file = self.files.file(mapping).ok()?;
        let cell = self.modules.get(module as usize)?;
        let lines = cell.get_or_init(|| {
            let sources = self.files.names().sources();
            ModuleLines::new(file, |build_id| sources.kept_lines(build_id))
        });
        Some((lines, file.vaddr(FileOffset(at.0))?))
    }

    /// Keeps what was found in large debug information for later runs, where the machine keeps such.
    pub fn keep(&self) {
        let modules = self.modules.iter().filter_map(OnceLock::get);
        for (build_id, text) in modules.filter_map(|it| it.to_keep(WORTH_KEEPING)) {
            self.files.names().sources().keep_lines(build_id, &text);
        }
    }
}

impl<'a> ModuleLines<'a> {
    /// Those of `code`, by what is `kept` of a build id from earlier runs.
    fn new(code: &'a ElfCode, kept: impl FnOnce(BuildId) -> Option<Vec<u8>>) -> Self {
        let stamp = code.stamp();
        let known = stamp.as_ref().and_then(|(id, stamp)| KnownLines::parse(&kept(*id)?, stamp));
        let (known, dwarf) = (known.unwrap_or_default(), OnceLock::new());
        Self { code, stamp, known, dwarf, asked: Mutex::default() }
    }

    fn frames<'l>(&'l self, addr: Addr, frames: &mut Vec<SourceFrame<'l>>) {
        if let Some(known) = self.known.frames(addr) {
            frames.extend(known);
            return;
        }
        let Some(dwarf) = self.dwarf.get_or_init(|| self.code.lines()) else { return };
        dwarf.frames(addr, frames);
        if self.stamp.is_some() {
            self.asked.lock().unwrap_or_else(PoisonError::into_inner).insert(addr);
        }
    }

    /// What there is to keep, if anything new was found in at least `min_bytes` of units.
    fn to_keep(&self, min_bytes: usize) -> Option<(BuildId, Vec<u8>)> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let (build_id, stamp) = self.stamp.as_ref()?;
        let dwarf = self.dwarf.get()?.as_ref()?;
        let (n_bytes, is_whole) = dwarf.extent();
        // What was left out is told, so it is to be met again.
        if asked.is_empty() || !is_whole || dwarf.n_left_out() != 0 || n_bytes < min_bytes {
            return None;
        }
        if self.code.has_changed() {
            return None;
        }
        let found = asked.iter().map(|&addr| {
            let mut frames = Vec::new();
            dwarf.frames(addr, &mut frames);
            (addr, frames)
        });
        Some((*build_id, self.known.with(found, stamp)))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io;
    use std::path::Path;
    use std::process::Command;

    use super::*;
    use crate::symbols::FileStatus;
    use crate::symbols::Files;
    use crate::symbols::Inode;
    use crate::symbols::ModuleFile;
    use crate::symbols::Opened;
    use crate::symbols::Part;
    use crate::symbols::Places;
    use crate::units::Nanos;

    /// A disk whose files were last written to at this time.
    #[derive(Clone)]
    struct WrittenAt(Nanos);

    impl Files for WrittenAt {
        type Bytes = Vec<u8>;

        fn open(&self, path: &Path) -> io::Result<Opened<Vec<u8>>> {
            let inode = Some(Inode { maj: 8, min: 1, ino: 7, generation: 0 });
            let status = FileStatus { inode, is_device_unsure: false, modified: Some(self.0) };
            Ok(Opened { bytes: fs::read(path)?, status })
        }
    }

    const SOURCE: &str = "
        static inline __attribute__((always_inline)) int inner(int x) { return x * x + 1; }
        int outer(int x) { return inner(x) / 3; }
        int main(int argc, char **argv) { return outer(argc); }";

    /// The lines of all the code of `module`, and whether they were found without its debug information.
    fn all<'l>(module: &'l ModuleLines<'_>) -> (Vec<Vec<SourceFrame<'l>>>, bool) {
        let text = module.code.section(Part::Mapped, ".text").unwrap();
        let addresses = text.addr.0..text.addr.0 + text.bytes.len() as u64;
        let frames = addresses.map(|addr| {
            let mut frames = Vec::new();
            module.frames(Addr(addr), &mut frames);
            frames
        });
        (frames.collect(), module.dwarf.get().is_none())
    }

    #[test]
    fn what_was_kept_stands_for_the_debug_information_of_the_same_files() {
        let dir = tempfile::tempdir().unwrap();
        let (source, program) = (dir.path().join("a.c"), dir.path().join("a"));
        fs::write(&source, SOURCE).unwrap();
        let mut gcc = Command::new("gcc");
        gcc.args(["-O1", "-g", "-Wl,--build-id", "-o"]).arg(&program).arg(&source);
        assert!(gcc.status().unwrap().success());
        let load = |at| {
            let file = ModuleFile::at(&program);
            ElfCode::load(&WrittenAt(Nanos(at)), &file, &Places::default()).unwrap()
        };
        let code = load(5);
        let first = ModuleLines::new(&code, |_| None);
        let (want, _) = all(&first);
        assert!(want.iter().any(|it| it.len() == 2), "{want:?}");
        assert_eq!(first.to_keep(usize::MAX), None);
        let (build_id, text) = first.to_keep(0).unwrap();

        let again = ModuleLines::new(&code, |it| (it == build_id).then(|| text.clone()));
        assert_eq!(all(&again), (want.clone(), true));
        assert_eq!(again.to_keep(0), None);

        let written_to = load(6);
        let other = ModuleLines::new(&written_to, |_| Some(text.clone()));
        assert_eq!(all(&other), (want, false));
        let (_, new) = other.to_keep(0).unwrap();
        assert_ne!(new, text);
    }
}
