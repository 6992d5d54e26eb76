//! What a file begins with, and where its sections lie.

use crate::units::FileOffset;

use super::Attr;
use super::Cursor;
use super::Endian;
use super::Error;
use super::Result;
use super::U64s;

/// The length in bytes of the header of a pipe: magic and its own size.
pub const PIPE_HEADER_LEN: usize = 16;

const MAGIC: u64 = u64::from_le_bytes(*b"PERFILE2");
/// What recordings of the first version of the format began with: `__perf_magic1` in
/// `tools/perf/util/header.c`.
const VERSION_1: [u8; 8] = *b"PERFFILE";

/// A part of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// Where it begins.
    pub offset: u64,
    /// Its length in bytes.
    pub size: u64,
}

impl Section {
    /// The length in bytes of its description in a file.
    pub const LEN: usize = 16;

    /// Decodes the description.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] if the input ends first.
    pub fn decode(cursor: &mut Cursor<'_>, field: &'static str) -> Result<Self> {
        Ok(Self { offset: cursor.u64(field)?, size: cursor.u64(field)? })
    }

    /// Appends the description.
    pub fn encode(self, out: &mut Vec<u8>) {
        out.extend(self.offset.to_ne_bytes());
        out.extend(self.size.to_ne_bytes());
    }

    /// One past its last byte; the largest number if that cannot be said.
    pub fn end(self) -> u64 {
        self.offset.saturating_add(self.size)
    }
}

/// Which feature sections a file has, a bit each of 256.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeatureBits(pub [u64; 4]);

impl FeatureBits {
    /// The numbers of the features that are set, ascending.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..=u8::MAX).filter(move |&id| self.contains(id))
    }

    /// Whether feature `id` is set.
    pub fn contains(self, id: u8) -> bool {
        let word = self.0.get(usize::from(id >> 6)).copied().unwrap_or(0);
        word >> (id & 63) & 1 == 1
    }

    /// Sets feature `id`.
    pub fn insert(&mut self, id: u8) {
        if let Some(word) = self.0.get_mut(usize::from(id >> 6)) {
            *word |= 1 << (id & 63);
        }
    }
}

/// The header of a file, or of a pipe, which has no sections.
///
/// Source: `struct perf_file_header` in `tools/perf/util/header.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileHeader {
    /// Records only: attributes and features come as records.
    Pipe {
        /// The byte order of all that follows.
        endian: Endian,
    },
    /// A file with sections.
    File {
        /// The byte order of all of it.
        endian: Endian,
        /// The size that the header says of itself, in bytes.
        size: u64,
        /// The length of one entry of the attribute section, in bytes.
        attr_size: u64,
        /// The attribute section.
        attrs: Section,
        /// The records.
        data: Section,
        /// A section that has long been empty.
        event_types: Section,
        /// Which feature sections stand behind the records.
        features: FeatureBits,
    },
}

impl FileHeader {
    /// The length in bytes of the header of a file.
    pub const LEN: usize = 104;

    /// Decodes the beginning of a file or pipe.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] or [`Error::BadMagic`] if it is something else, [`Error::Truncated`] if it ends too early, and
    /// [`Error::BadField`] for a header or attribute size that cannot be.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        if bytes.is_empty() {
            return Err(Error::Empty);
        }
        // Of a shorter input there is still to tell whether it could have become a recording.
        let magics = [*b"PERFILE2", *b"2ELIFREP", VERSION_1];
        if !magics.iter().any(|it| it.iter().zip(bytes).all(|(a, b)| a == b)) {
            return Err(Error::BadMagic);
        }
        let mut probe = Cursor::new(bytes, FileOffset(0), Endian::Little);
        let is_little = match probe.u64("magic")? {
            // The first version wrote the same bytes in both orders; the size tells.
            magic if magic.to_le_bytes() == VERSION_1 => probe.u64("header size")? <= 1 << 32,
            magic => magic == MAGIC,
        };
        let endian = if is_little { Endian::Little } else { Endian::Big };
        let mut cursor = Cursor::new(bytes, FileOffset(0), endian);
        cursor.u64("magic")?;
        let at = cursor.at();
        let size = cursor.u64("header size")?;
        if size == 16 {
            return Ok(Self::Pipe { endian });
        }
        if size < 72 {
            return Err(Error::BadField { field: "header size", at, value: size });
        }
        let at = cursor.at();
        let attr_size = cursor.u64("header attr_size")?;
        if attr_size < 80 {
            return Err(Error::BadField { field: "header attr_size", at, value: attr_size });
        }
        let attrs = Section::decode(&mut cursor, "header attrs section")?;
        let data = Section::decode(&mut cursor, "header data section")?;
        let event_types = Section::decode(&mut cursor, "header event_types section")?;
        let mut features = FeatureBits::default();
        // A header of 72 bytes, as Linux 2.6.32 wrote it, ends before the features.
        if size >= 104 {
            for word in &mut features.0 {
                *word = cursor.u64("header features")?;
            }
        }
        Ok(Self::File { endian, size, attr_size, attrs, data, event_types, features })
    }

    /// The byte order.
    pub fn endian(&self) -> Endian {
        match *self {
            Self::Pipe { endian } | Self::File { endian, .. } => endian,
        }
    }

    /// Appends the header in this machine's byte order, whatever the one that was read.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend(MAGIC.to_ne_bytes());
        match *self {
            Self::Pipe { .. } => out.extend(16_u64.to_ne_bytes()),
            Self::File { endian: _, size, attr_size, attrs, data, event_types, features } => {
                out.extend(size.to_ne_bytes());
                out.extend(attr_size.to_ne_bytes());
                attrs.encode(out);
                data.encode(out);
                event_types.encode(out);
                features.0.iter().for_each(|word| out.extend(word.to_ne_bytes()));
            }
        }
    }
}

/// One entry of the attribute section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttrEntry {
    /// The attribute.
    pub attr: Attr,
    /// Whether it holds something beyond what this version knows.
    pub has_unknown_tail: bool,
    /// Where the ids of its instances stand, 8 bytes each.
    pub ids: Section,
}

impl AttrEntry {
    /// Decodes the entries of an attribute section, of `attr_size` bytes each; an incomplete one
    /// at the end is left out.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] if an entry is shorter than its fields.
    pub fn decode_all(
        bytes: &[u8],
        at: FileOffset,
        endian: Endian,
        attr_size: u64,
    ) -> Result<Vec<Self>> {
        let len = usize::try_from(attr_size).unwrap_or(usize::MAX).max(Section::LEN);
        let mut at = at;
        let mut entries = Vec::new();
        for entry in bytes.chunks_exact(len) {
            let (attr_bytes, ids) =
                entry.split_at_checked(len.saturating_sub(Section::LEN)).unwrap_or_default();
            let attr = Attr::decode(&mut Cursor::new(attr_bytes, at, endian))?;
            let ids = Section::decode(&mut Cursor::new(ids, at, endian), "attr ids section")?;
            let has_unknown_tail = Attr::unknown_tail(attr_bytes);
            entries.push(Self { attr, has_unknown_tail, ids });
            at = FileOffset(at.0.saturating_add(attr_size));
        }
        Ok(entries)
    }
}

/// The ids in the section that an [`AttrEntry`] points to.
pub fn decode_ids(bytes: &[u8], endian: Endian) -> Vec<u64> {
    U64s::new(bytes, endian).iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> FileHeader {
        let mut features = FeatureBits::default();
        features.insert(3);
        features.insert(70);
        FileHeader::File {
            endian: Endian::NATIVE,
            size: 104,
            attr_size: 144,
            attrs: Section { offset: 112, size: 144 },
            data: Section { offset: 256, size: 8 },
            event_types: Section::default(),
            features,
        }
    }

    #[test]
    fn a_header_is_read_back() {
        let mut bytes = Vec::new();
        file().encode(&mut bytes);
        assert_eq!(bytes.len(), FileHeader::LEN);
        assert_eq!(FileHeader::decode(&bytes).unwrap(), file());
        let FileHeader::File { features, .. } = file() else { unreachable!() };
        assert_eq!(features.iter().collect::<Vec<_>>(), [3, 70]);
    }

    #[test]
    fn a_pipe_is_told_by_its_size() {
        let mut bytes = Vec::new();
        FileHeader::Pipe { endian: Endian::NATIVE }.encode(&mut bytes);
        assert_eq!(bytes.len(), PIPE_HEADER_LEN);
        assert_eq!(
            FileHeader::decode(&bytes).unwrap(),
            FileHeader::Pipe { endian: Endian::NATIVE }
        );
    }

    #[test]
    fn the_byte_order_is_told_by_the_magic_alone() {
        let bytes = [b"2ELIFREP".as_slice(), &16_u64.to_be_bytes()].concat();
        assert_eq!(FileHeader::decode(&bytes).unwrap(), FileHeader::Pipe { endian: Endian::Big });
    }

    #[test]
    fn text_and_short_files_are_refused() {
        let say = |bytes: &[u8]| FileHeader::decode(bytes).unwrap_err().to_string();
        assert_eq!(say(b"hello, world"), "no `perf.data`: the magic at byte 0x0 is not `PERFILE2`");
        assert_eq!(say(b"hi"), "no `perf.data`: the magic at byte 0x0 is not `PERFILE2`");
        assert_eq!(say(b""), "it is empty");
        assert_eq!(say(b"PERF"), "magic at byte 0x0 needs 8 bytes, only 4 left");
        let mut bytes = Vec::new();
        file().encode(&mut bytes);
        assert_eq!(
            say(&bytes[..50]),
            "header data section at byte 0x30 needs 8 bytes, only 2 left"
        );
    }
}
