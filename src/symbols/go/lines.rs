//! Addresses to lines, and to the functions that were inlined there, as the table of Go tells.

use crate::symbols::ElfCode;
use crate::symbols::LineTable;
use crate::symbols::NativeLine;
use crate::symbols::Part;
use crate::symbols::SourceFrame;
use crate::symbols::elf::go_functions;
use crate::units::Addr;

use super::place::Placed;
use super::table::Function;
use super::table::Version;

/// The lines of a program of Go that has no debug information.
#[derive(Debug)]
pub struct GoLines<'a>(Placed<'a>);

/// How deep functions are inlined into each other at the most.
const MOST_INLINED: usize = 64;

impl<'a> GoLines<'a> {
    /// Those of `code`; `None` where it has no table of Go's, or one of a form whose lines are not read.
    pub(in crate::symbols) fn of(code: &'a ElfCode) -> Option<Self> {
        let placed = go_functions(code.part(Part::Mapped).bytes())?.0;
        (Version::V18 <= placed.table.version).then_some(Self(placed))
    }

    /// Adds the functions that the code at the link-time address `addr` is in to `frames`, as
    /// [`DwarfLines::frames`](crate::symbols::DwarfLines::frames).
    pub fn frames<'l>(&'l self, addr: Addr, frames: &mut Vec<SourceFrame<'l>>) {
        let n_before = frames.len();
        if self.add_frames(addr, frames).is_none() {
            // The line of what was inlined is no line of the function around it.
            frames.truncate(n_before);
        }
    }

    fn add_frames<'l>(&'l self, addr: Addr, frames: &mut Vec<SourceFrame<'l>>) -> Option<()> {
        let (function, mut at) = self.function(addr)?;
        let table = &self.0.table;
        for _ in 0..MOST_INLINED {
            let line = self.line(&function, at);
            let idx = self.inlined_at(&function, at)?;
            if idx < 0 {
                // Padding, or code of an assembler that noted nothing.
                line?;
                frames.push(SourceFrame { function: None, line });
                return Some(());
            }
            let tree = self.0.trees?.get(table.inlined_tree(&function)?..)?;
            let inlined = table.inlined(tree, idx)?;
            frames.push(SourceFrame { function: Some(str::from_utf8(inlined.name).ok()?), line });
            at = inlined.called_at;
        }
        None
    }

    /// The function at `addr`, and how far behind its start that is.
    fn function(&self, addr: Addr) -> Option<(Function<'a>, u64)> {
        let at = addr.0.checked_sub(self.0.text)?;
        let function = self.0.table.find(at)?;
        Some((function, at - function.start))
    }

    /// The number of the function that was inlined `at` bytes behind the start of `function`, negative if
    /// none was; `None` where that is not known.
    fn inlined_at(&self, function: &Function<'_>, at: u64) -> Option<i32> {
        self.0.table.inlined_indices(function).map_or(Some(-1), |it| it.at(at))
    }

    fn line(&self, function: &Function<'_>, at: u64) -> Option<NativeLine<'a>> {
        let (file, line) = self.0.table.line(function, at)?;
        Some(NativeLine { file: str::from_utf8(file).ok()?, line, column: 0 })
    }
}

impl LineTable for GoLines<'_> {
    fn at(&self, addr: Addr) -> Option<NativeLine<'_>> {
        let (function, at) = self.function(addr)?;
        self.line(&function, at)
    }
}
