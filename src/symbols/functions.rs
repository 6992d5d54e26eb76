//! Where the functions of a file begin in it, for whoever sets a probe there.

use std::path::Path;

use object::Object as _;
use object::ObjectSegment as _;
use object::ObjectSymbol as _;
use object::SymbolKind;

use super::Error;
use super::Files;
use super::ModuleFile;
use super::Places;
use super::Symbols;
use super::demangle;
use super::elf::go_functions;
use super::find::FileSet;
use crate::units::FileOffset;

/// The functions that an ELF file defines.
#[derive(Debug)]
pub struct Functions {
    /// Name and link-time address, in the order of the tables.
    all: Vec<(String, u64)>,
    segments: Vec<Segment>,
}

/// What is loaded of a file, by its link-time address.
#[derive(Debug)]
struct Segment {
    start: u64,
    /// How much of it is in the file, in bytes.
    len: u64,
    offset: u64,
}

impl Functions {
    /// Finds and reads the file at `path`, and the file with its symbols where those were moved.
    ///
    /// # Errors
    ///
    /// [`Error::Open`] if there is no such file, [`Error::Elf`] if it is no ELF file.
    pub fn load<F: Files + Clone>(files: &F, path: &Path) -> Result<Self, Error> {
        let file = ModuleFile::at(path);
        let places = Places::default();
        let found = FileSet::find(files, &file, &places)?;
        let debug = found.search().find(|_, identity| identity.symbols == Symbols::Full);
        Self::parse(&found.bytes, debug.found.as_ref().map(|it| &*it.bytes))
    }

    /// Reads the symbol tables of `bytes`, and of `debug`, a file that holds its `.symtab`.
    ///
    /// # Errors
    ///
    /// [`Error::Elf`] if either is no ELF file.
    pub fn parse(bytes: &[u8], debug: Option<&[u8]>) -> Result<Self, Error> {
        let read = |bytes| {
            let file = object::File::parse(bytes);
            file.map_err(|error: object::Error| Error::Elf { reason: error.to_string() })
        };
        let file = read(bytes)?;
        let mut all = Vec::new();
        add_functions(&file, &mut all);
        if let Some(debug) = debug {
            add_functions(&read(debug)?, &mut all);
        } else if file.symbols().next().is_none()
            && let Some(functions) = go_functions(bytes)
        {
            functions.for_each(|it| {
                all.push((String::from_utf8_lossy(it.name).into_owned(), it.start));
            });
        }
        let segment = |it: object::Segment<'_, '_>| {
            let (offset, len) = it.file_range();
            Segment { start: it.address(), len, offset }
        };
        Ok(Self { all, segments: file.segments().map(segment).collect() })
    }

    /// Where the code of function `name` begins in the file. The name is the file's own, or the
    /// one that it is shown by, with or without its arguments.
    pub fn offset(&self, name: &str) -> Option<FileOffset> {
        // Versions (`memcpy@@GLIBC_2.14`) stand behind the names of full tables.
        let by_name = self.all.iter().find(|it| it.0 == name || before(&it.0, '@') == name);
        let by_shown = || {
            self.all.iter().find(|it| {
                let shown = demangle(&it.0);
                shown == name || before(&shown, '(') == name
            })
        };
        let &(_, address) = by_name.or_else(by_shown)?;
        let is_within = |it: &&Segment| address.checked_sub(it.start).is_some_and(|at| at < it.len);
        let segment = self.segments.iter().find(is_within)?;
        segment.offset.checked_add(address.checked_sub(segment.start)?).map(FileOffset)
    }

    /// The names of all functions, as the file has them.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|it| it.0.as_str())
    }
}

fn add_functions(file: &object::File<'_>, all: &mut Vec<(String, u64)>) {
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        if !symbol.is_definition() || symbol.kind() != SymbolKind::Text {
            continue;
        }
        let Some(name) = symbol.name().ok().filter(|it| !it.is_empty()) else { continue };
        all.push((name.to_owned(), symbol.address()));
    }
}

/// What stands before the first `end`, or all of it.
fn before(name: &str, end: char) -> &str {
    name.split_once(end).map_or(name, |it| it.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_of_this_test_begins_where_its_code_is() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let functions = Functions::parse(&bytes, None).unwrap();
        let main = functions.offset("main").unwrap();
        // The file is mapped as it lies on disk, so its own code tells.
        let module = super::super::ElfModule::parse(&bytes, None).unwrap();
        let addr = module.vaddr(main).unwrap();
        let found = module.find(addr).and_then(|it| module.symbol(it)).unwrap();
        assert_eq!((found.name, found.start), ("main", addr));
        assert!(functions.names().any(|it| it == "main"));
        assert_eq!(functions.offset("there_is_no_such_function"), None);
    }

    #[test]
    fn what_is_no_elf_file_has_no_functions() {
        assert!(Functions::parse(b"#!/bin/sh\n", None).is_err());
        assert!(Functions::parse(b"", None).is_err());
    }
}
