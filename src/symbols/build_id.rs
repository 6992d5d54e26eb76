//! Build ids in ELF notes.

use object::Endianness;
use object::elf;
use object::read::elf::NoteIterator;

use crate::units::BuildId;

/// The build id in a run of ELF notes of this machine's byte order and alignment 4: the section
/// `.note.gnu.build-id`, `/sys/kernel/notes`, `/sys/module/NAME/notes/.note.gnu.build-id`.
pub fn build_id_from_notes(notes: &[u8]) -> Option<BuildId> {
    build_id_in(notes, Endianness::default())
}

/// As [`build_id_from_notes`], for a file of either byte order.
pub(super) fn build_id_in(notes: &[u8], endian: Endianness) -> Option<BuildId> {
    // Notes have the same layout in ELF files of both classes.
    let mut notes: NoteIterator<'_, elf::FileHeader64<Endianness>> =
        NoteIterator::new(endian, 4, notes).ok()?;
    while let Ok(Some(note)) = notes.next() {
        if note.name() == elf::ELF_NOTE_GNU && note.n_type(endian) == elf::NT_GNU_BUILD_ID {
            let desc = note.desc();
            return BuildId::new(desc.get(..BuildId::MAX).unwrap_or(desc));
        }
    }
    None
}

/// Whether two build ids are the same. Older tools fill short ones up with zeros to 20 bytes.
pub(super) fn is_same_build(one: BuildId, other: BuildId) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let (short, long) = if one.len() < other.len() { (one, other) } else { (other, one) };
    let filling = long.strip_prefix(short);
    let is_filled = long.len() == BuildId::MAX && short.len() >= MIN_FILLED;
    filling.is_some_and(|it| it.is_empty() || is_filled && it.iter().all(|&byte| byte == 0))
}

/// The shortest build id that linkers make, in bytes.
const MIN_FILLED: usize = 8;

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
        assert_eq!(build_id_from_notes(&notes.concat()), BuildId::new(&[1; 20]));
    }

    #[test]
    fn a_note_of_the_same_number_by_another_owner_is_none() {
        assert_eq!(build_id_from_notes(&note(3, b"Go\0", b"abcd")), None);
    }

    #[test]
    fn a_short_id_may_be_filled_up_with_zeros() {
        let id = |bytes: &[u8]| BuildId::new(bytes).unwrap();
        let filled = |len, last| [vec![7; len], vec![last; 20 - len]].concat();
        assert!(is_same_build(id(&[7; 8]), id(&[7; 8])));
        assert!(is_same_build(id(&[7; 8]), id(&filled(8, 0))));
        assert!(is_same_build(id(&filled(16, 0)), id(&[7; 16])));
        assert!(!is_same_build(id(&[7; 8]), id(&filled(8, 1))));
        assert!(!is_same_build(id(&[7; 8]), id(&[7; 16])));
        assert!(!is_same_build(id(&[7; 2]), id(&filled(2, 0))));
        assert!(!is_same_build(id(&[7; 8]), id(&[8; 8])));
    }

    #[test]
    fn notes_that_are_cut_end_the_search() {
        let whole = note(3, b"GNU\0", &[1; 20]);
        for len in 0..whole.len() {
            assert_eq!(build_id_from_notes(&whole[..len]), None, "{len}");
        }
        assert_eq!(build_id_from_notes(&[0xff; 64]), None);
    }
}
