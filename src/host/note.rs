//! Build ids of ELF files on disk.

use std::fs::File;

use object::Endianness;
use object::FileKind;
use object::elf;
use object::read::ReadCache;
use object::read::elf::FileHeader;
use object::read::elf::ProgramHeader;

use crate::units::BuildId;

/// The most bytes of one segment of notes that are read: anybody can map a file that claims any
/// length.
const MOST_NOTES: u64 = 64 << 10;
/// How many program headers, of which a program has a dozen: files can claim four billion.
const MOST_SEGMENTS: usize = 0xffff;

/// The build id of an ELF file, or `None` where it has none or is no ELF file.
///
/// Only headers and notes are read, as the kernel does for `attr.build_id`: sections and symbols of
/// a large program would cost more than the rest of a recording's start.
pub fn of_file(file: File) -> Option<BuildId> {
    let cache = ReadCache::new(file);
    match FileKind::parse(&cache).ok()? {
        FileKind::Elf32 => of_elf::<elf::FileHeader32<Endianness>>(&cache),
        FileKind::Elf64 => of_elf::<elf::FileHeader64<Endianness>>(&cache),
        _ => None,
    }
}

fn of_elf<E: FileHeader<Endian = Endianness>>(cache: &ReadCache<File>) -> Option<BuildId> {
    let header = E::parse(cache).ok()?;
    let endian = header.endian().ok()?;
    if MOST_SEGMENTS < header.phnum(endian, cache).ok()? {
        return None;
    }
    header
        .program_headers(endian, cache)
        .ok()?
        .iter()
        .filter(|it| it.p_filesz(endian).into() <= MOST_NOTES)
        .filter_map(|it| it.notes(endian, cache).ok()?)
        .find_map(|mut notes| {
            while let Ok(Some(note)) = notes.next() {
                if note.name() == elf::ELF_NOTE_GNU && note.n_type(endian) == elf::NT_GNU_BUILD_ID {
                    return BuildId::new(note.desc());
                }
            }
            None
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_that_claim_more_than_a_program_has_are_not_read() {
        let elf = |notes_len: u64| {
            let mut elf = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            // ET_DYN, EM_X86_64, version 1; no entry; program headers at 64; no sections.
            elf.extend([3, 0, 62, 0, 1, 0, 0, 0]);
            elf.extend([0, 64, 0].iter().flat_map(|it: &u64| it.to_le_bytes()));
            elf.extend([0; 4]);
            elf.extend([64, 56, 1, 64, 0, 0].iter().flat_map(|it: &u16| it.to_le_bytes()));
            // PT_NOTE, readable, behind its own header.
            elf.extend([4, 4].iter().flat_map(|it: &u32| it.to_le_bytes()));
            let words = [120, 0, 0, notes_len, notes_len, 4];
            elf.extend(words.iter().flat_map(|it: &u64| it.to_le_bytes()));
            // In the byte order that the header says.
            elf.extend([4, 20, 3].iter().flat_map(|it: &u32| it.to_le_bytes()));
            elf.extend(b"GNU\0");
            elf.extend([7; 20]);
            elf
        };
        let of = |elf: &[u8], len: u64| {
            use std::io::Write;

            let mut file = tempfile::tempfile().unwrap();
            file.write_all(elf).unwrap();
            file.set_len(len).unwrap();
            of_file(file)
        };
        assert_eq!(of(&elf(36), 156), BuildId::new(&[7; 20]));
        let most = MOST_NOTES + 120;
        assert_eq!(of(&elf(most - 120), most), BuildId::new(&[7; 20]));
        assert_eq!(of(&elf(most - 119), most + 1), None);
    }
}
