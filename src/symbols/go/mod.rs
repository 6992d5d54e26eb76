//! What programs of Go know of their own code, however they were stripped: the table (`.gopclntab`) by
//! which their runtime prints stacks.
//!
//! ```text
//!   header | names | units | files | values | functions: start and place of each | what describes each
//! ```
//!
//! It tells where each function begins and what it is called; since Go 1.18 it is also read for files, lines and
//! what was inlined. The bytes are untrusted: what lies outside of them is not there, and all that is read of a
//! function comes to a fixed number of steps.
//!
//! Source: `debug/gosym/pclntab.go`, `runtime/symtab.go`, `runtime/symtabinl.go` and
//! `cmd/link/internal/ld/pcln.go` of Go 1.19 to 1.27.

mod lines;
mod place;
mod table;
#[cfg(test)]
mod tests;

use object::Endianness;
use object::read::elf::FileHeader;
use object::read::elf::SectionHeader as _;

pub use lines::GoLines;

use place::Placed;

use super::Binding;
use super::elf::File;
use super::table::Builder;
use super::table::Kind;
use super::table::New;

/// What a table of Go's named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// All code of the file.
    All,
    /// The code that is Go's.
    Some,
}

/// The most bytes that separate two functions.
const MOST_PADDING: u64 = 64;

/// Adds the functions of Go in `file`; `None` where there are none.
pub(super) fn add_symbols<E: FileHeader<Endian = Endianness>>(
    file: &File<'_, E>,
    builder: &mut Builder,
) -> Option<Named> {
    let functions = Functions::of(file)?;
    let (mut start, mut end) = (u64::MAX, 0);
    functions.for_each(|function| {
        start = start.min(function.start);
        end = end.max(function.end);
        builder.push(
            function.name,
            New {
                start: function.start,
                size: function.end - function.start,
                limit: u64::MAX,
                binding: Binding::Local,
                kind: Kind::Typed,
                group: 0,
            },
        );
    });
    if end <= start {
        return None;
    }
    let text = file.section(".text").map(|it| it.1);
    let is_all = text.is_some_and(|text| {
        let at: u64 = text.sh_addr(file.endian).into();
        let behind = at.saturating_add(text.sh_size(file.endian).into());
        at == start && behind.saturating_sub(end) < MOST_PADDING
    });
    Some(if is_all { Named::All } else { Named::Some })
}

/// The functions of Go in a file.
#[derive(Debug)]
pub(super) struct Functions<'data>(Placed<'data>);

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Function<'data> {
    /// Where it starts at link time.
    pub(super) start: u64,
    /// Where its code ends.
    pub(super) end: u64,
    /// Its name as the linker has it.
    pub(super) name: &'data [u8],
}

impl<'data> Functions<'data> {
    /// Those of `file`; `None` where it has no table of them, or one that cannot be its own.
    pub(super) fn of<E: FileHeader<Endian = Endianness>>(file: &File<'data, E>) -> Option<Self> {
        Placed::of(file).map(Self)
    }

    /// Gives each that has a name to `take`.
    ///
    /// All names come to no more bytes than the table lets them, in which most stand once: functions
    /// that refer to one long name would make a short file long.
    pub(super) fn for_each(&self, mut take: impl FnMut(Function<'data>)) {
        let Self(placed) = self;
        let table = &placed.table;
        let mut room = table.len();
        let mut n_values = table.len().saturating_mul(4);
        for idx in 0..table.n_functions() {
            let Some(function) = table.function(idx) else { continue };
            let name = table.name(&function).filter(|it| !it.is_empty());
            let n_read = name.map_or(table::MOST_NAME, <[u8]>::len);
            let Some(left) = room.checked_sub(n_read) else { break };
            room = left;
            let Some(name) = name else { continue };
            let end = placed.end(&function, &mut n_values);
            take(Function { start: placed.addr(function.start), end: placed.addr(end), name });
        }
    }
}
