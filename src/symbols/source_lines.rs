//! Lines of source, and what was inlined, wherever it is known from.

use super::DwarfLines;
use super::ElfCode;
use super::GoLines;
use super::LineTable;
use crate::units::Addr;

/// A place in the source of a file's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NativeLine<'a> {
    /// The file's path, as the compiler noted it.
    pub file: &'a str,
    /// The number of the line, from 1; 0 for code that comes from none.
    pub line: u32,
    /// The number of the column, from 1; 0 if unknown.
    pub column: u32,
}

/// A function that an address is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceFrame<'l> {
    /// The name of a function that was inlined, as the linker would know it; `None` if the compiler
    /// noted none, and for the function that has the code, which the symbol table names.
    pub function: Option<&'l str>,
    /// Where it is: what runs, or the call of the frame before.
    pub line: Option<NativeLine<'l>>,
}

/// What a file knows of the lines of its code: by its debug information or, in programs of Go that have none,
/// by the table of their runtime.
#[derive(Debug)]
pub enum SourceLines<'a> {
    /// By debug information.
    Dwarf(Box<DwarfLines<'a>>),
    /// By the table of Go.
    Go(GoLines<'a>),
}

impl<'a> SourceLines<'a> {
    /// Those of `code`; `None` where nothing is known.
    pub(super) fn of(code: &'a ElfCode) -> Option<Self> {
        let dwarf = DwarfLines::new(code);
        if !dwarf.is_empty() {
            return Some(Self::Dwarf(Box::new(dwarf)));
        }
        GoLines::of(code).map(Self::Go)
    }

    /// Adds the functions that the code at the link-time address `addr` is in to `frames`, that which
    /// was inlined deepest first, and the one that has the code last; nothing where nothing is known.
    pub fn frames<'l>(&'l self, addr: Addr, frames: &mut Vec<SourceFrame<'l>>) {
        match self {
            Self::Dwarf(lines) => lines.frames(addr, frames),
            Self::Go(lines) => lines.frames(addr, frames),
        }
    }

    /// As [`DwarfLines::n_left_out`].
    pub fn n_left_out(&self) -> u64 {
        match self {
            Self::Dwarf(lines) => lines.n_left_out(),
            Self::Go(lines) => u64::from(lines.is_cut()),
        }
    }

    /// As [`DwarfLines::is_incomplete`].
    pub fn is_incomplete(&self) -> bool {
        match self {
            Self::Dwarf(lines) => lines.is_incomplete(),
            Self::Go(_) => false,
        }
    }

    /// As [`DwarfLines::extent`]; a table of Go has no units, and is read in no time.
    pub fn extent(&self) -> (usize, bool) {
        match self {
            Self::Dwarf(lines) => lines.extent(),
            Self::Go(_) => (0, true),
        }
    }
}

impl LineTable for SourceLines<'_> {
    fn at(&self, addr: Addr) -> Option<NativeLine<'_>> {
        match self {
            Self::Dwarf(lines) => lines.at(addr),
            Self::Go(lines) => lines.at(addr),
        }
    }
}
