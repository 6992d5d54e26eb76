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
