//! Addresses to lines, and to the functions that were inlined there, as the table of Go tells.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

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
pub struct GoLines<'a> {
    placed: Placed<'a>,
    /// How many values may still be passed on the way to others, for all addresses together.
    room: AtomicUsize,
}

/// How many values are passed at the most: those of a million addresses in common functions, and two
/// seconds.
const MOST_PASSED: usize = 1 << 28;

/// How deep functions are inlined into each other at the most.
const MOST_INLINED: usize = 64;

impl<'a> GoLines<'a> {
    /// Those of `code`; `None` where it has no table of Go's, or one of a form whose lines are not read.
    pub(in crate::symbols) fn of(code: &'a ElfCode) -> Option<Self> {
        let placed = go_functions(code.part(Part::Mapped).bytes())?.0;
        (Version::V18 <= placed.table.version).then(|| Self::new(placed, MOST_PASSED))
    }

    /// Those of the table at `placed`, as far as that is found behind `room` values.
    pub(super) fn new(placed: Placed<'a>, room: usize) -> Self {
        Self { placed, room: AtomicUsize::new(room) }
    }

    /// Whether lines were asked for that were not looked for any more.
    pub fn is_cut(&self) -> bool {
        self.room.load(Ordering::Relaxed) == 0
    }

    /// What `look` finds with the room that is left.
    fn within<T>(&self, look: impl FnOnce(&mut usize) -> T) -> T {
        let before = self.room.load(Ordering::Relaxed);
        let mut room = before;
        let found = look(&mut room);
        let taken = before - room;
        let less = |it: usize| Some(it.saturating_sub(taken));
        // Others may have taken some of it meanwhile.
        let _before = self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        found
    }

    /// Adds the functions that the code at the link-time address `addr` is in to `frames`, as
    /// [`DwarfLines::frames`](crate::symbols::DwarfLines::frames).
    pub fn frames<'l>(&'l self, addr: Addr, frames: &mut Vec<SourceFrame<'l>>) {
        let n_before = frames.len();
        if self.within(|room| self.add_frames(addr, frames, room)).is_none() {
            // The line of what was inlined is no line of the function around it.
            frames.truncate(n_before);
        }
    }

    fn add_frames<'l>(
        &'l self,
        addr: Addr,
        frames: &mut Vec<SourceFrame<'l>>,
        room: &mut usize,
    ) -> Option<()> {
        let (function, mut at) = self.function(addr)?;
        let table = &self.placed.table;
        for _ in 0..MOST_INLINED {
            let line = self.line(&function, at, room);
            let idx = self.inlined_at(&function, at, room)?;
            if idx < 0 {
                // Padding, or code of an assembler that noted nothing.
                line?;
                frames.push(SourceFrame { function: None, line });
                return Some(());
            }
            let tree = self.placed.trees?.get(table.inlined_tree(&function)?..)?;
            let inlined = table.inlined(tree, idx)?;
            frames.push(SourceFrame { function: Some(str::from_utf8(inlined.name).ok()?), line });
            at = inlined.called_at;
        }
        None
    }

    /// The function at `addr`, and how far behind its start that is.
    fn function(&self, addr: Addr) -> Option<(Function<'a>, u64)> {
        let at = addr.0.checked_sub(self.placed.text)?;
        let function = self.placed.table.find(at)?;
        Some((function, at - function.start))
    }

    /// The number of the function that was inlined `at` bytes behind the start of `function`, negative if
    /// none was; `None` where that is not known.
    fn inlined_at(&self, function: &Function<'_>, at: u64, room: &mut usize) -> Option<i32> {
        self.placed.table.inlined_indices(function).map_or(Some(-1), |it| it.at(at, room))
    }

    fn line(&self, function: &Function<'_>, at: u64, room: &mut usize) -> Option<NativeLine<'a>> {
        let (file, line) = self.placed.table.line(function, at, room)?;
        Some(NativeLine { file: str::from_utf8(file).ok()?, line, column: 0 })
    }
}

impl LineTable for GoLines<'_> {
    fn at(&self, addr: Addr) -> Option<NativeLine<'_>> {
        let (function, at) = self.function(addr)?;
        self.within(|room| self.line(&function, at, room))
    }
}
