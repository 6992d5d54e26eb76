//! What of an ELF file names and unwinds its addresses, without the rest: a *skeleton*.
//!
//! ```text
//!   file       header | segments | .text | .rodata | .eh_frame | .debug_info | .symtab | .strtab | sections
//!   skeleton   header | segments | .eh_frame | .symtab | .strtab | sections
//! ```
//!
//! Segments stay as they are, so that positions in the file become addresses as before; what is
//! left out is as if it had never been in the file (`SHT_NOBITS`), and keeps its address and length.
//! A skeleton is read as the file is, and gives the same symbols; without frames, those that have no size
//! end where the next function starts, and not where their own ends.

use object::Endianness;
use object::FileKind;
use object::elf;
use object::pod::Pod;
use object::pod::bytes_of;
use object::read::ReadRef;
use object::read::elf::FileHeader;
use object::read::elf::ProgramHeader as _;
use object::read::elf::SectionHeader as _;

use super::Error;
use super::elf::unreadable;

/// Which tables of an ELF file a skeleton has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tables {
    /// Those that name addresses.
    Names,
    /// Those, and those that unwind stacks.
    NamesAndFrames,
}

/// Why there is no skeleton of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoSkeleton {
    /// It is no ELF file whose segments are loaded and that has sections.
    #[error(transparent)]
    Elf(#[from] Error),
    /// Its tables are longer than is kept.
    #[error("its tables are longer than is kept")]
    TooLong,
}

/// Sections by whose content addresses get their names, beside symbols, strings and notes.
const NAMING: [&[u8]; 8] = [
    b".rela.plt",
    b".rel.plt",
    // Names the stubs of `.plt.got`.
    b".rela.dyn",
    // Bounds symbols without a size.
    b".eh_frame_hdr",
    b".gnu_debugdata",
    b".gnu_debuglink",
    b".gnu_debugaltlink",
    b".dynamic",
];

/// Sections by whose content stacks are unwound.
const UNWINDING: [&[u8]; 2] = [b".eh_frame", b".debug_frame"];

/// Sections by which programs of Go are named that have no symbols: their runtime's table of functions, and
/// what tells where these are.
const OF_GO: [&[u8]; 4] = [b".gopclntab", b".data.rel.ro.gopclntab", b".go.module", b".rela"];

/// The most bytes of a section of notes: a build id takes some tens.
const MOST_NOTES: u64 = 64 << 10;

/// The most sections of a file that is read: a program has some tens, and each function's own may be
/// one before it is linked.
const MOST_SECTIONS: usize = 100_000;
/// How many program headers, of which a program has a dozen: files can claim four billion.
const MOST_SEGMENTS: usize = 0xffff;

/// The skeleton of the ELF file `data`, of which no more is read than goes into it.
///
/// # Errors
///
/// [`NoSkeleton::Elf`] if it is no ELF file whose segments are loaded and that has sections,
/// [`NoSkeleton::TooLong`] if its tables are longer than `most_bytes`.
pub fn skeleton<'data, R: ReadRef<'data>>(
    data: R,
    tables: Tables,
    most_bytes: u64,
) -> Result<Vec<u8>, NoSkeleton> {
    match FileKind::parse(data).map_err(|err| unreadable(&err))? {
        FileKind::Elf32 => of::<elf::FileHeader32<Endianness>, R>(data, tables, most_bytes),
        FileKind::Elf64 => of::<elf::FileHeader64<Endianness>, R>(data, tables, most_bytes),
        _ => Err(no("another kind of object file").into()),
    }
}

fn no(reason: &str) -> Error {
    Error::Elf { reason: reason.to_owned() }
}

fn of<'data, E, R>(data: R, tables: Tables, most_bytes: u64) -> Result<Vec<u8>, NoSkeleton>
where
    E: FileHeader<Endian = Endianness> + Pod,
    E::ProgramHeader: Pod,
    E::SectionHeader: Pod,
    R: ReadRef<'data>,
{
    let header = E::parse(data).map_err(|err| unreadable(&err))?;
    let endian = header.endian().map_err(|err| unreadable(&err))?;
    if MOST_SEGMENTS < header.phnum(endian, data).map_err(|err| unreadable(&err))? {
        return Err(NoSkeleton::TooLong);
    }
    let segments = header.program_headers(endian, data).map_err(|err| unreadable(&err))?;
    let n_sections = header.shnum(endian, data).map_err(|err| unreadable(&err))?;
    if MOST_SECTIONS < n_sections {
        return Err(NoSkeleton::TooLong);
    }
    let sections = header.section_headers(endian, data).map_err(|err| unreadable(&err))?;
    if sections.is_empty() || segments.iter().all(|it| it.p_type(endian) != elf::PT_LOAD) {
        return Err(no("no sections, or nothing that is loaded").into());
    }
    let names = header.section_strings_index(endian, data).map_err(|err| unreadable(&err))?;
    let strings = header.section_strings(endian, data, sections).map_err(|err| unreadable(&err))?;

    let mut out = Out { bytes: bytes_of(header).to_vec(), is_64: header.is_type_64(), endian };
    let segments_at = out.bytes.len();
    out.put_number(if out.is_64 { 32 } else { 28 }, segments_at)?;
    for segment in segments {
        out.bytes.extend_from_slice(bytes_of(segment));
    }
    let name_of = |it: &E::SectionHeader| it.name(endian, strings).unwrap_or_default();
    let has = |names: &[&[u8]]| sections.iter().any(|it| names.contains(&name_of(it)));
    let has_symbols = sections.iter().any(|it| it.sh_type(endian) == elf::SHT_SYMTAB);
    let of_go: &[&[u8]] = match has(&[b".noptrdata"]) && !has_symbols {
        true if has(&OF_GO[..2]) => &OF_GO,
        // Linkers that are not Go's leave the table there.
        true => &[b".data.rel.ro"],
        false => &[],
    };
    let mut left = most_bytes;
    let mut kept = Vec::with_capacity(sections.len());
    for (section, idx) in sections.iter().zip(0..) {
        let name = name_of(section);
        let is_of_go = of_go.contains(&name) && section.sh_type(endian) != elf::SHT_NOBITS;
        let is_kept = idx == names.0 || is_of_go || is_kept::<E>(section, endian, name, tables);
        let range = section.file_range(endian).filter(|_| is_kept);
        let Some((start, len)) = range else {
            kept.push(None);
            continue;
        };
        left = left.checked_sub(len).ok_or(NoSkeleton::TooLong)?;
        // One that is cut is as good as none, as for whoever reads the file itself.
        let Ok(content) = data.read_bytes_at(start, len) else {
            kept.push(None);
            continue;
        };
        out.align();
        kept.push(Some((start, len, out.bytes.len())));
        out.bytes.extend_from_slice(content);
    }

    // Segments that nobody loads, such as notes, are read through their places, so they need one.
    for (segment, n) in segments.iter().zip(0..) {
        if segment.p_type(endian) == elf::PT_LOAD {
            continue;
        }
        let (start, len): (u64, u64) = segment.file_range(endian);
        let moved = kept.iter().flatten().find_map(|&(from, of, to)| {
            let into = start.checked_sub(from)?;
            (into.checked_add(len)? <= of).then(|| usize::try_from(into).ok()?.checked_add(to))?
        });
        let at = segments_at + n * size_of::<E::ProgramHeader>();
        // `p_offset` and `p_filesz`.
        let (place, size) = if out.is_64 { (8, 32) } else { (4, 16) };
        out.put_number(at + place, moved.unwrap_or(0))?;
        if moved.is_none() {
            out.put_number(at + size, 0)?;
        }
    }

    out.align();
    let sections_at = out.bytes.len();
    out.put_number(if out.is_64 { 40 } else { 32 }, sections_at)?;
    for (section, kept) in sections.iter().zip(kept) {
        let at = out.bytes.len();
        out.bytes.extend_from_slice(bytes_of(section));
        let place = if out.is_64 { 24 } else { 16 };
        match kept {
            Some((.., to)) => out.put_number(at + place, to)?,
            None if section.sh_type(endian) != elf::SHT_NULL => {
                out.put(
                    at + 4,
                    &match endian {
                        Endianness::Little => elf::SHT_NOBITS.to_le_bytes(),
                        Endianness::Big => elf::SHT_NOBITS.to_be_bytes(),
                    },
                );
            }
            None => {}
        }
    }
    Ok(out.bytes)
}

fn is_kept<E: FileHeader<Endian = Endianness>>(
    section: &E::SectionHeader,
    endian: Endianness,
    name: &[u8],
    tables: Tables,
) -> bool {
    let is_named = |names: &[&[u8]]| names.contains(&name);
    match section.sh_type(endian) {
        elf::SHT_NULL | elf::SHT_NOBITS => false,
        elf::SHT_SYMTAB | elf::SHT_DYNSYM | elf::SHT_SYMTAB_SHNDX => true,
        elf::SHT_NOTE => section.sh_size(endian).into() <= MOST_NOTES,
        elf::SHT_STRTAB => is_named(&[b".strtab", b".dynstr", b".shstrtab"]),
        _ => {
            name.starts_with(b".plt")
                || is_named(&NAMING)
                || tables == Tables::NamesAndFrames && is_named(&UNWINDING)
        }
    }
}

/// A skeleton that grows.
struct Out {
    bytes: Vec<u8>,
    is_64: bool,
    endian: Endianness,
}

impl Out {
    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        let end = at.checked_add(bytes.len());
        if let Some(place) = end.and_then(|end| self.bytes.get_mut(at..end)) {
            place.copy_from_slice(bytes);
        }
    }

    /// Puts an offset or a length, as long as they are in files of this class, to `at`.
    fn put_number(&mut self, at: usize, number: usize) -> Result<(), Error> {
        let long = number as u64;
        if self.is_64 {
            self.put(
                at,
                &match self.endian {
                    Endianness::Little => long.to_le_bytes(),
                    Endianness::Big => long.to_be_bytes(),
                },
            );
            return Ok(());
        }
        let short = u32::try_from(long).map_err(|_| no("too long for its class"))?;
        self.put(
            at,
            &match self.endian {
                Endianness::Little => short.to_le_bytes(),
                Endianness::Big => short.to_be_bytes(),
            },
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;
    use std::sync::Arc;

    use super::super::ElfCode;
    use super::super::ElfModule;
    use super::super::Symbol;
    use super::*;
    use crate::units::FileOffset;

    const SOURCE: &str = "
        #include <stdio.h>
        #include <stdlib.h>
        static char pad[1 << 20];
        static int inner(int x) { return x * 3 + pad[x & 7]; }
        int (*taken)(const char *) = puts;
        __attribute__((noinline)) int outer(int x) { puts(\"x\"); return inner(x) + rand(); }
        int main(int argc, char **argv) { return outer(argc) + taken(argv[0]); }
    ";

    /// A program of [`SOURCE`], or `None` where `options` are not for this machine.
    fn compiled(dir: &Path, options: &[&str]) -> Option<Vec<u8>> {
        let (source, out) = (dir.join("work.c"), dir.join("work"));
        std::fs::write(&source, SOURCE).unwrap();
        let mut gcc = Command::new("gcc");
        gcc.args(["-O1", "-g", "-Wl,--build-id"]).args(options).arg(&source).arg("-o").arg(&out);
        let is_ok = gcc.output().unwrap().status.success();
        is_ok.then(|| std::fs::read(&out).unwrap())
    }

    /// All symbols, as text; without frames, one without a size may end some padding later.
    fn symbols(module: &ElfModule, tables: Tables) -> Vec<String> {
        let symbol = |it: Symbol<'_>| match tables {
            Tables::Names => format!("{:x} {}", it.start.0, it.name),
            Tables::NamesAndFrames => format!("{:x}..{:x} {}", it.start.0, it.end.0, it.name),
        };
        module.table().iter().map(symbol).collect()
    }

    #[track_caller]
    fn check(bytes: &[u8]) {
        let whole = ElfModule::parse(bytes, None).unwrap();
        for tables in [Tables::Names, Tables::NamesAndFrames] {
            let kept = skeleton(bytes, tables, u64::MAX).unwrap();
            assert!(kept.len() < bytes.len(), "{} of {}", kept.len(), bytes.len());
            let read = ElfModule::parse(&kept, None).unwrap();
            assert_eq!(symbols(&read, tables), symbols(&whole, tables));
            assert_eq!(read.identity(), whole.identity());
            for at in (0..bytes.len() as u64).step_by(61) {
                assert_eq!(read.vaddr(FileOffset(at)), whole.vaddr(FileOffset(at)));
            }
            // It is an ELF file itself, of which nothing more can go.
            assert_eq!(skeleton(&*kept, tables, u64::MAX).unwrap(), kept);
            let has_frames = kept.windows(9).any(|it| it == b".eh_frame")
                && object_section(&kept, ".eh_frame") != 0;
            assert_eq!(has_frames, tables == Tables::NamesAndFrames);
        }
    }

    /// How many bytes of a section are in the file.
    fn object_section(bytes: &[u8], name: &str) -> usize {
        use object::Object as _;
        use object::ObjectSection as _;

        let file = object::File::parse(bytes).unwrap();
        file.section_by_name(name).map_or(0, |it| it.data().unwrap().len())
    }

    #[test]
    fn a_skeleton_has_the_names_and_places_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let layouts: [&[&str]; 6] = [
            &[],
            &["-no-pie"],
            &["-static"],
            &["-s"],
            &["-Wl,-z,separate-code,-z,max-page-size=0x200000"],
            &["-fuse-ld=lld"],
        ];
        let mut n_built = 0;
        for options in layouts {
            if let Some(bytes) = compiled(dir.path(), options) {
                n_built += 1;
                check(&bytes);
            }
        }
        assert!(4 <= n_built, "{n_built}");
    }

    #[test]
    fn code_that_is_left_out_is_no_code() {
        let dir = tempfile::tempdir().unwrap();
        let bytes = compiled(dir.path(), &[]).unwrap();
        let kept = skeleton(&*bytes, Tables::NamesAndFrames, u64::MAX).unwrap();
        let module = ElfModule::parse(&bytes, None).unwrap();
        let main = module.table().iter().find(|it| it.name == "main").unwrap();
        let len = |bytes: Vec<u8>| {
            let code = ElfCode::parse(Arc::new(bytes), None).unwrap();
            code.code(main.start..main.end).len() as u64
        };
        assert_eq!((len(bytes.clone()), len(kept)), (main.end - main.start, 0));
    }

    #[test]
    fn what_is_longer_than_is_kept_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let bytes = compiled(dir.path(), &[]).unwrap();
        let kept = skeleton(&*bytes, Tables::Names, u64::MAX).unwrap();
        let refused = skeleton(&*bytes, Tables::Names, 100);
        assert_eq!(refused, Err(NoSkeleton::TooLong));
        assert!(skeleton(&*bytes, Tables::Names, kept.len() as u64).is_ok());
    }

    #[test]
    fn damage_is_refused_or_read_and_never_more() {
        let dir = tempfile::tempdir().unwrap();
        let bytes = compiled(dir.path(), &["-s"]).unwrap();
        for len in (0..bytes.len()).step_by(97) {
            let kept = skeleton(&bytes[..len], Tables::NamesAndFrames, u64::MAX);
            assert!(kept.is_err(), "{len}");
        }
        let mut state = 7_u64;
        for _ in 0..2000 {
            let mut damaged = bytes.clone();
            for _ in 0..4 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                let at = usize::try_from(state >> 33).unwrap();
                // Headers above all.
                let heads = [0..64, 64..900, bytes.len() - 2000..bytes.len()];
                let head = &heads[at % 3];
                let at = head.start + (at / 3) % head.len();
                damaged[at] = state.to_le_bytes()[2];
            }
            if let Ok(kept) = skeleton(&*damaged, Tables::NamesAndFrames, 1 << 20) {
                assert!(kept.len() < 2 << 20);
            }
        }
        assert!(skeleton(&b"no file"[..], Tables::Names, 1).is_err());
    }
}
