//! How a file is laid out around its records.

use crate::units::FileOffset;

use super::Attr;
use super::Endian;
use super::FeatureBits;
use super::FileHeader;
use super::Section;
use super::cursor::widen;
use super::record::put_u64s;

/// The part of a file before its records: the events and the ids of their instances.
///
/// ```text
/// header | ids of event 0 | ids of event 1 | .. | attr 0 | attr 1 | .. | records | features
/// ```
///
/// The order is perf's own; all attributes have one size, the largest that any needs.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    events: Vec<(Attr, Vec<u64>)>,
}

impl Layout {
    /// A file with these events, each with the ids of its instances.
    pub fn new(events: Vec<(Attr, Vec<u64>)>) -> Self {
        Self { events }
    }

    /// The size in bytes of each attribute.
    pub fn attr_size(&self) -> u32 {
        let needed = self.events.iter().map(|(attr, _)| attr.needed_size());
        needed.max().unwrap_or(Attr::SIZE_VER0)
    }

    /// Where the records begin.
    pub fn data_offset(&self) -> FileOffset {
        FileOffset(widen(self.encode(0, FeatureBits::default()).len()))
    }

    /// All that stands before the records, of which there are `data_size` bytes.
    ///
    /// Its length is the same for every argument, so it can be written first with no records and
    /// again when their number is known.
    pub fn encode(&self, data_size: u64, features: FeatureBits) -> Vec<u8> {
        let attr_size = self.attr_size();
        let entry_size = u64::from(attr_size).saturating_add(widen(Section::LEN));
        let mut ids = Vec::new();
        let mut attrs = Vec::new();
        for (attr, event_ids) in &self.events {
            let offset = widen(FileHeader::LEN).saturating_add(widen(ids.len()));
            put_u64s(event_ids.iter().copied(), &mut ids);
            attr.encode(attr_size, &mut attrs);
            let size = widen(event_ids.len()).saturating_mul(8);
            Section { offset, size }.encode(&mut attrs);
        }
        let attrs_offset = widen(FileHeader::LEN).saturating_add(widen(ids.len()));
        let attrs_section = Section { offset: attrs_offset, size: widen(attrs.len()) };
        let header = FileHeader::File {
            endian: Endian::NATIVE,
            size: widen(FileHeader::LEN),
            attr_size: entry_size,
            attrs: attrs_section,
            data: Section { offset: attrs_section.end(), size: data_size },
            event_types: Section::default(),
            features,
        };
        let mut out = Vec::new();
        header.encode(&mut out);
        out.append(&mut ids);
        out.append(&mut attrs);
        out
    }
}

/// What stands behind the records: a table of sections and the sections, for features by
/// ascending number, the table beginning at `at`.
pub fn encode_features(sections: &[(u8, Vec<u8>)], at: FileOffset) -> (FeatureBits, Vec<u8>) {
    let table_len = widen(sections.len()).saturating_mul(widen(Section::LEN));
    let mut bits = FeatureBits::default();
    let mut offset = at.0.saturating_add(table_len);
    let mut out = Vec::new();
    for (id, bytes) in sections {
        bits.insert(*id);
        let section = Section { offset, size: widen(bytes.len()) };
        section.encode(&mut out);
        offset = section.end();
    }
    for (_, bytes) in sections {
        out.extend_from_slice(bytes);
    }
    (bits, out)
}

#[cfg(test)]
mod tests {
    use crate::perfdata::AttrEntry;
    use crate::perfdata::decode_ids;

    use super::*;

    #[test]
    fn a_file_is_read_back() {
        let plain = Attr { kind: 1, size: 96, ..Attr::default() };
        let clocked = Attr { kind: 2, size: 96, clockid: 1, ..Attr::default() };
        let layout = Layout::new(vec![(plain, vec![10, 11]), (clocked, vec![12])]);
        let mut features = FeatureBits::default();
        features.insert(3);
        let bytes = layout.encode(640, features);
        let header = FileHeader::decode(&bytes).unwrap();
        let FileHeader::File { attr_size, attrs, data, features: read, .. } = header else {
            panic!("not a file");
        };
        assert_eq!((attr_size, read), (112, features));
        assert_eq!(data, Section { offset: bytes.len() as u64, size: 640 });
        assert_eq!(layout.data_offset(), FileOffset(bytes.len() as u64));
        let at = usize::try_from(attrs.offset).unwrap();
        let entries = AttrEntry::decode_all(
            &bytes[at..],
            FileOffset(attrs.offset),
            Endian::NATIVE,
            attr_size,
        )
        .unwrap();
        let ids = |section: Section| {
            let at = usize::try_from(section.offset).unwrap();
            let end = usize::try_from(section.end()).unwrap();
            decode_ids(&bytes[at..end], Endian::NATIVE)
        };
        assert_eq!(entries[0].attr, plain);
        assert_eq!(entries[1].attr, clocked);
        assert_eq!((ids(entries[0].ids), ids(entries[1].ids)), (vec![10, 11], vec![12]));
    }

    #[test]
    fn features_follow_their_table() {
        let sections = [(3, b"host".to_vec()), (11, b"cmd".to_vec())];
        let (bits, bytes) = encode_features(&sections, FileOffset(1000));
        assert_eq!(bits.iter().collect::<Vec<_>>(), [3, 11]);
        let mut table = Vec::new();
        put_u64s([1032, 4, 1036, 3], &mut table);
        assert_eq!(bytes, [table.as_slice(), b"hostcmd"].concat());
    }
}
