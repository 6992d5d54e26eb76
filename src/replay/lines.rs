//! Frames to lines of source, and to the functions that were inlined there.

use std::sync::OnceLock;

use crate::symbols::DwarfLines;
use crate::symbols::SourceFrame;
use crate::units::Addr;
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
    modules: Vec<OnceLock<Option<DwarfLines<'a>>>>,
}

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

    /// How many parts of debug information were left out, as [`DwarfLines::n_left_out`].
    pub fn n_left_out(&self) -> u64 {
        let found = self.modules.iter().filter_map(|it| it.get()?.as_ref());
        found.map(DwarfLines::n_left_out).sum()
    }

    fn place(&self, frame: &Frame) -> Option<(&DwarfLines<'a>, Addr)> {
        let Some(Owner::Mapping(mapping)) = frame.owner else { return None };
        let (module, at) = self.files.place(mapping, frame.ip);
        let file = self.files.file(mapping).ok()?;
        let lines = self.modules.get(module as usize)?.get_or_init(|| file.lines()).as_ref()?;
        Some((lines, file.vaddr(FileOffset(at.0))?))
    }
}
