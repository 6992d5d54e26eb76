//! Where the table of an ELF file is, and what else its code must be found by.

use object::Endianness;
use object::elf;
use object::read::elf::FileHeader;
use object::read::elf::Rela as _;
use object::read::elf::SectionHeader as _;

use crate::symbols::elf::File;
use crate::symbols::elf::Segment;

use super::table::Function;
use super::table::MOST_VALUES;
use super::table::Table;
use super::table::Version;
use super::table::number;

/// The table of a file with where its code is.
#[derive(Debug)]
pub(super) struct Placed<'data> {
    pub(super) table: Table<'data>,
    /// The link-time address that starts of functions count from.
    pub(super) text: u64,
    /// What describes the functions that were inlined, from where each function's distance to its own
    /// is counted; `None` where it is not sure which bytes do.
    pub(super) trees: Option<&'data [u8]>,
}

/// The section of the table, by how the program was linked.
const SECTIONS: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];

/// Where linkers that are not Go's leave the table of a program that can be moved.
const MERGED: &str = ".data.rel.ro";

/// The sections with `runtime.firstmoduledata`.
const OF_MODULE: [&str; 2] = [".go.module", ".noptrdata"];

/// How many numbers of `runtime.moduledata` are looked at.
const MODULE_WORDS: usize = 48;

/// How many places that could be a `runtime.moduledata` are looked at.
const MOST_CANDIDATES: usize = 16;

/// Of how many functions the inlined ones are looked at, to see whether they are there.
const PROBES: usize = 64;

/// How many of their values, and bytes of their names, are looked at.
const MOST_PROBED: usize = 1 << 20;

impl<'data> Placed<'data> {
    /// The table of `file`; `None` where it has none, or nothing says where its code is.
    pub(super) fn of<E: FileHeader<Endian = Endianness>>(file: &File<'data, E>) -> Option<Self> {
        let image = Image { file, segments: file.segments() };
        let (table, at) = image.table()?;
        let modules = image.modules(at);
        let (first, end) = (table.function(0)?.start, table.end()?);
        if table.version < Version::V18 {
            // Its functions have their addresses.
            let is_there = !modules.is_empty() || !image.has_module_data();
            let is_code = image.is_code(first) && image.is_code(end.wrapping_sub(1));
            return (is_there && is_code).then_some(Self { table, text: 0, trees: None });
        }
        for module in &modules {
            let word = |idx: usize| module.get(idx).copied();
            // `minpc`, `maxpc` and `text`.
            let (Some(min), Some(max), Some(text)) = (word(20), word(21), word(22)) else {
                continue;
            };
            let is_its = text.checked_add(first) == Some(min) && text.checked_add(end) == Some(max);
            if is_its && image.is_code(min) && image.is_code(max.wrapping_sub(1)) {
                // `gofunc` comes some words later, in each version elsewhere.
                let pointers = module.get(32..).unwrap_or_default().iter();
                let places = pointers.filter_map(|&it| image.bytes_from(it));
                let trees = places.into_iter().find(|it| are_trees(&table, it));
                return Some(Self { table, text, trees });
            }
        }
        if image.has_module_data() {
            return None;
        }
        // What a recording keeps of a file has nothing else but the table's own header.
        let text = *image.words(at.checked_add(table.text_at())?, 1).first()?;
        let (start, last) = (text.checked_add(first)?, text.checked_add(end)?.checked_sub(1)?);
        let is_there = image.is_code(start) && image.is_code(last);
        is_there.then_some(Self { table, text, trees: None })
    }

    /// The link-time address of `at`, counted as starts of functions are.
    pub(super) fn addr(&self, at: u64) -> u64 {
        self.text.wrapping_add(at)
    }

    /// Where the code of `function` ends, counted as its start is: padding follows it. `n_values`
    /// is what may still be read to see it, and becomes less.
    pub(super) fn end(&self, function: &Function<'_>, n_values: &mut usize) -> u64 {
        let Some(values) = self.table.stack_depths(function) else { return function.next };
        let most = MOST_VALUES.min(*n_values);
        let (mut n, mut end) = (0, 0);
        for (upto, _) in values.take(most) {
            (n, end) = (n + 1, upto);
        }
        *n_values -= n;
        let end = function.start.saturating_add(end);
        if n == most || end <= function.start { function.next } else { end.min(function.next) }
    }
}

/// Whether `bytes` describe the functions that were inlined, each where `table` says that it is.
fn are_trees(table: &Table<'_>, bytes: &[u8]) -> bool {
    let mut n_seen = 0;
    let mut left = MOST_PROBED;
    for idx in 0..table.n_functions() {
        let Some(function) = table.function(idx) else { continue };
        let (Some(indices), Some(at)) =
            (table.inlined_indices(&function), table.inlined_tree(&function))
        else {
            continue;
        };
        let mut most = -1;
        for (_, value) in indices.take(left) {
            left -= 1;
            most = value.max(most);
        }
        let len = function.next - function.start;
        for idx in 0..=most {
            let Some(tree) = bytes.get(at..) else { return false };
            let Some(inlined) = table.inlined(tree, idx).filter(|it| it.called_at < len) else {
                return false;
            };
            left = left.saturating_sub(inlined.name.len());
            if left == 0 {
                break;
            }
        }
        n_seen += usize::from(0 <= most);
        if n_seen == PROBES || left == 0 {
            break;
        }
    }
    n_seen != 0
}

/// A file as it is mapped.
struct Image<'f, 'data, E: FileHeader> {
    file: &'f File<'data, E>,
    segments: Vec<Segment>,
}

impl<'data, E: FileHeader<Endian = Endianness>> Image<'_, 'data, E> {
    fn width(&self) -> usize {
        if self.file.header.is_type_64() { 8 } else { 4 }
    }

    /// The table, and its address.
    fn table(&self) -> Option<(Table<'data>, u64)> {
        let (file, is_64) = (self.file, self.file.header.is_type_64());
        let section = |name| {
            let (_, section) = file.section(name)?;
            Some((file.section_bytes(section), section.sh_addr(file.endian).into()))
        };
        for name in SECTIONS {
            if let Some((bytes, at)) = section(name) {
                return Some((Table::parse(bytes, file.endian, is_64)?, at));
            }
        }
        // Files of other languages have no such section.
        file.section(".noptrdata")?;
        let (bytes, at) = section(MERGED)?;
        let mut places = (0..bytes.len()).step_by(self.width());
        places.find_map(|skip| {
            let table = Table::parse(bytes.get(skip..)?, file.endian, is_64)?;
            table.function(0)?;
            Some((table, at.checked_add(skip as u64)?))
        })
    }

    /// What stands at each address that may be that of `runtime.moduledata`: it begins with the
    /// address of the table.
    fn modules(&self, table: u64) -> Vec<Vec<u64>> {
        let (file, width) = (self.file, self.width());
        let mut places = Vec::new();
        for (_, section) in OF_MODULE.iter().filter_map(|it| file.section(it)) {
            let start: u64 = section.sh_addr(file.endian).into();
            let words = file.section_bytes(section).chunks_exact(width);
            let words = words.map(|it| number(it, 0, width, file.endian));
            let is_table = words.enumerate().filter(|it| it.1 == Some(table));
            let at = |(idx, _): (usize, _)| start.checked_add((idx * width) as u64);
            places.extend(is_table.filter_map(at).take(MOST_CANDIDATES));
        }
        let moved = self.relocations().filter(|&(_, addend)| addend == table);
        places.extend(moved.map(|it| it.0).take(MOST_CANDIDATES));
        places.into_iter().map(|at| self.words(at, MODULE_WORDS)).collect()
    }

    /// Whether what `runtime.moduledata` is in is in the file.
    fn has_module_data(&self) -> bool {
        let sections = OF_MODULE.iter().filter_map(|it| self.file.section(it));
        let mut bytes = sections.map(|(_, it)| self.file.section_bytes(it));
        bytes.any(|it| !it.is_empty())
    }

    /// The addresses where the dynamic linker puts another one, with that, as the file has it.
    fn relocations(&self) -> impl Iterator<Item = (u64, u64)> {
        let (endian, bytes) = (self.file.endian, self.file.bytes);
        // Sections that lie over each other would make a short file long.
        let mut room = bytes.len() as u64;
        let sections = self.file.sections.iter().filter(move |it| {
            let flags: u64 = it.sh_flags(endian).into();
            if it.sh_type(endian) != elf::SHT_RELA || flags & u64::from(elf::SHF_ALLOC) == 0 {
                return false;
            }
            let left = room.checked_sub(it.sh_size(endian).into());
            room = left.unwrap_or(0);
            left.is_some()
        });
        let tables = sections.filter_map(move |it| Some(it.rela(endian, bytes).ok()??.0));
        let is_mips64el = self.file.header.is_mips64el(endian);
        let own = tables.flatten().filter(move |it| it.r_sym(endian, is_mips64el) == 0);
        own.map(move |it| {
            let addend: i64 = it.r_addend(endian).into();
            (it.r_offset(endian).into(), addend.cast_unsigned())
        })
    }

    /// The `n` numbers at the address `at`, as many as there are, as they are in memory.
    fn words(&self, at: u64, n: usize) -> Vec<u64> {
        let width = self.width();
        let bytes = self.bytes_from(at).unwrap_or_default().chunks_exact(width);
        let words = bytes.map_while(|it| number(it, 0, width, self.file.endian));
        let mut words: Vec<u64> = words.take(n).collect();
        let end = at.saturating_add((words.len() * width) as u64);
        for (place, addend) in self.relocations().filter(|it| (at..end).contains(&it.0)) {
            let idx = usize::try_from(place - at).unwrap_or(usize::MAX) / width;
            if let Some(word) = words.get_mut(idx) {
                *word = addend;
            }
        }
        words
    }

    /// The bytes from the address `at` on to the end of their section. What a recording keeps of a file
    /// has these at other places than its segments say.
    fn bytes_from(&self, at: u64) -> Option<&'data [u8]> {
        let endian = self.file.endian;
        let within = |it: &'data E::SectionHeader| {
            let flags: u64 = it.sh_flags(endian).into();
            let skip = at.checked_sub(it.sh_addr(endian).into())?;
            let is_its = flags & u64::from(elf::SHF_ALLOC) != 0 && skip < it.sh_size(endian).into();
            if is_its {
                self.file.section_bytes(it).get(usize::try_from(skip).ok()?..)
            } else {
                None
            }
        };
        self.file.sections.iter().find_map(within)
    }

    fn is_code(&self, at: u64) -> bool {
        let mut code = self.segments.iter().filter(|it| it.is_executable);
        code.any(|it| {
            let len = it.file.end - it.file.start;
            at.checked_sub(it.vaddr).is_some_and(|skip| skip < len)
        })
    }
}
