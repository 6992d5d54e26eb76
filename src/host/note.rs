//! Build ids: of ELF files, and of the kernel's notes.

use std::fs::File;

use object::read::Object;
use object::read::ReadCache;

use crate::units::BuildId;

/// `NT_GNU_BUILD_ID`.
const GNU_BUILD_ID: u32 = 3;

/// The build id of an ELF file, or `None` where it has none or is no ELF file.
pub fn of_file(file: File) -> Option<BuildId> {
    let cache = ReadCache::new(file);
    let elf = object::File::parse(&cache).ok()?;
    BuildId::new(elf.build_id().ok()??)
}

/// The build id among `notes`, a sequence of ELF notes in this machine's byte order as the kernel
/// shows them in `/sys/kernel/notes`.
///
/// Source: `Elf64_Nhdr` in elf(5); names and contents are padded to four bytes.
pub fn of_notes(mut notes: &[u8]) -> Option<BuildId> {
    loop {
        let (name_len, rest) = word(notes)?;
        let (content_len, rest) = word(rest)?;
        let (kind, rest) = word(rest)?;
        let (name, rest) = padded(rest, name_len)?;
        let (content, rest) = padded(rest, content_len)?;
        if kind == GNU_BUILD_ID && name == b"GNU\0" {
            return BuildId::new(content);
        }
        notes = rest;
    }
}

fn word(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (word, rest) = bytes.split_first_chunk()?;
    Some((u32::from_ne_bytes(*word), rest))
}

/// The first `len` bytes, and what comes after them and their padding.
fn padded(bytes: &[u8], len: u32) -> Option<(&[u8], &[u8])> {
    let len = usize::try_from(len).ok()?;
    let content = bytes.get(..len)?;
    // The last note of all may lack its padding.
    let rest = bytes.get(len.checked_next_multiple_of(4)?..).unwrap_or_default();
    Some((content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(kind: u32, name: &[u8], content: &[u8]) -> Vec<u8> {
        let len = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap().to_ne_bytes();
        let mut note = [len(name), len(content), kind.to_ne_bytes()].concat();
        for bytes in [name, content] {
            note.extend(bytes);
            note.resize(note.len().next_multiple_of(4), 0);
        }
        note
    }

    #[test]
    fn the_build_id_stands_among_other_notes() {
        let notes =
            [note(6, b"Xen\0", b"abcde"), note(3, b"GNU\0", &[1; 20]), note(3, b"GNU\0", &[2; 20])];
        assert_eq!(of_notes(&notes.concat()), BuildId::new(&[1; 20]));
    }

    #[test]
    fn a_note_of_the_same_number_by_another_owner_is_none() {
        assert_eq!(of_notes(&note(3, b"Go\0", b"abcd")), None);
    }

    #[test]
    fn notes_that_are_cut_end_the_search() {
        let whole = note(3, b"GNU\0", &[1; 20]);
        for len in 0..whole.len() {
            assert_eq!(of_notes(&whole[..len]), None, "{len}");
        }
        assert_eq!(of_notes(&[0xff; 64]), None);
    }
}
