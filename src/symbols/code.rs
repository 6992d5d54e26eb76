//! A function's machine code with what is known of its source.

use crate::btf::Btf;
use crate::units::Addr;

use super::BpfLines;
use super::Instructions;
use super::Machine;
use super::NativeLine;
use super::SourceLine;
use super::Syntax;

/// The machine code of a function.
#[derive(Clone, Copy, Debug)]
pub struct Code<'a> {
    /// Whose code it is.
    pub machine: Machine,
    /// Where it begins: in a file at its link-time address, in the kernel where it ran.
    pub start: Addr,
    /// The code itself, as much as there is.
    pub bytes: &'a [u8],
    /// The lines that it came from.
    pub lines: CodeLines<'a>,
}

impl<'a> Code<'a> {
    /// Its instructions, in order.
    pub fn instructions(&self, syntax: Syntax) -> Instructions<'a> {
        Instructions::new(self.machine, self.bytes, self.start, syntax)
    }
}

/// Addresses of code to lines of its source.
#[derive(Clone, Copy)]
pub enum CodeLines<'a> {
    /// None are known.
    None,
    /// Of a BPF program: the line info that it was loaded with.
    Bpf {
        /// The lines of the whole program.
        lines: &'a BpfLines,
        /// Where their text stands.
        btf: &'a Btf,
    },
    /// Of a file: its line table.
    Dwarf(&'a dyn LineTable),
}

/// A table of lines by link-time address, such as [`DwarfLines`](super::DwarfLines).
pub trait LineTable {
    /// Where the code at `addr` comes from.
    fn at(&self, addr: Addr) -> Option<NativeLine<'_>>;
}

impl std::fmt::Debug for CodeLines<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Bpf { .. } => "Bpf",
            Self::Dwarf(_) => "Dwarf",
        })
    }
}

/// A line that some code came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeLine<'l> {
    /// The file's path, as the compiler noted it; empty if unknown.
    pub file: &'l [u8],
    /// The number of the line, from 1; 0 if unknown.
    pub line: u32,
    /// The number of the column, from 1; 0 if unknown.
    pub column: u32,
    /// What stands in that line; `None` where that is in the source file alone.
    pub text: Option<&'l [u8]>,
}

impl CodeLines<'_> {
    /// Where the code at `addr` comes from, at addresses of the code's own.
    pub fn at(&self, addr: Addr) -> Option<CodeLine<'_>> {
        match self {
            Self::None => None,
            Self::Bpf { lines, btf } => {
                let SourceLine { file, line, column, text } = SourceLine::new(lines.at(addr)?, btf);
                Some(CodeLine { file, line, column, text: Some(text) })
            }
            Self::Dwarf(lines) => {
                let NativeLine { file, line, column } = lines.at(addr)?;
                Some(CodeLine { file: file.as_bytes(), line, column, text: None })
            }
        }
    }
}
