//! The feature sections of a file, found by the table behind its records.

use crate::perfdata::Cursor;
use crate::perfdata::Error;
use crate::perfdata::FileHeader;
use crate::perfdata::ReadAt;
use crate::perfdata::Result;
use crate::perfdata::Section;
use crate::perfdata::cursor::widen;
use crate::perfdata::read_up_to;
use crate::units::FileOffset;

use super::Feature;
use super::FeatureDecoder;
use super::FeatureId;

/// One section, or one record of a pipe.
#[derive(Debug)]
pub struct FeatureSection {
    /// Which feature.
    pub id: FeatureId,
    /// Where its bytes begin.
    pub at: FileOffset,
    /// What it says, or why it cannot be read.
    pub content: Result<Feature>,
}

/// The most bytes of a section that are read, as many as perf takes of BPF programs.
const MAX_LEN: u64 = 256 << 20;

/// Reads the sections that `header` claims, in the order of their ids; none of a pipe, nor of a
/// file whose recorder was killed before it wrote any.
///
/// A table that is cut short or points past the end makes errors of the sections concerned. The
/// same goes for sections that overlap others or the records, so that all of them together take
/// no more memory than the file has bytes.
pub fn read_all(input: &(impl ReadAt + ?Sized), header: &FileHeader) -> Vec<FeatureSection> {
    let FileHeader::File { endian, data, features, .. } = *header else { return Vec::new() };
    if data.size == 0 {
        return Vec::new();
    }
    let mut decoder = FeatureDecoder::new(endian);
    let mut sections = Vec::new();
    let mut entry_at = data.end();
    let mut free_from = data.end();
    for id in features.iter() {
        let mut at = FileOffset(entry_at);
        let mut read = || {
            let entry = read_up_to(input, FileOffset(entry_at), widen(Section::LEN))?;
            let mut cursor = Cursor::new(&entry, FileOffset(entry_at), endian);
            let section = Section::decode(&mut cursor, "feature section")?;
            at = FileOffset(section.offset);
            if section.offset < free_from {
                let (at, value) = (FileOffset(entry_at), section.offset);
                return Err(Error::BadField { field: "feature section offset", at, value });
            }
            let bytes = read_up_to(input, at, section.size.min(MAX_LEN))?;
            let left = widen(bytes.len());
            if left < section.size {
                let (field, need) = ("feature section", section.size);
                return Err(Error::Truncated { field, at, need, left });
            }
            free_from = section.end();
            decoder.decode(FeatureId(id), &bytes, at)
        };
        let content = read();
        sections.push(FeatureSection { id: FeatureId(id), at, content });
        entry_at = entry_at.saturating_add(widen(Section::LEN));
    }
    sections
}

#[cfg(test)]
mod tests {
    use crate::perfdata::Endian;
    use crate::perfdata::FeatureBits;
    use crate::perfdata::feature::Text;

    use super::*;

    /// A file of 8 bytes of records, one feature and a table with `entry` for it.
    fn file(id: u8, entry: Option<Section>, section: &[u8]) -> (FileHeader, Vec<u8>) {
        let mut features = FeatureBits::default();
        features.insert(id);
        let header = FileHeader::File {
            endian: Endian::NATIVE,
            size: 104,
            attr_size: 80,
            attrs: Section { offset: 104, size: 0 },
            data: Section { offset: 104, size: 8 },
            event_types: Section::default(),
            features,
        };
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        bytes.extend([0; 8]);
        entry.inspect(|it| it.encode(&mut bytes));
        bytes.extend(section);
        (header, bytes)
    }

    /// Where the damage is, and how many bytes are left or what stands there instead.
    #[track_caller]
    fn check(file: &(FileHeader, Vec<u8>), want: &Result<Feature, (u64, u64)>) {
        let mut sections = read_all(file.1.as_slice(), &file.0);
        let got = sections.pop().unwrap().content.map_err(|error| match error {
            Error::Truncated { at, left, .. } => (at.0, left),
            Error::BadField { at, value, .. } => (at.0, value),
            error => panic!("{error}"),
        });
        assert_eq!(&got, want);
        assert!(sections.is_empty());
    }

    #[test]
    fn a_section_is_found_by_the_table() {
        let mut name = Vec::new();
        Feature::Hostname(Text::from("vm")).encode(&mut name);
        let entry = Section { offset: 128, size: 68 };
        check(&file(3, Some(entry), &name), &Ok(Feature::Hostname(Text::from("vm"))));
    }

    #[test]
    fn a_section_past_the_end_is_an_error_and_no_allocation() {
        let entry = Section { offset: 128, size: u64::MAX };
        check(&file(3, Some(entry), b"1234"), &Err((128, 4)));
        let entry = Section { offset: 0x0050_0001_0000_0001, size: 0xffff_ffff };
        check(&file(2, Some(entry), b""), &Err((0x0050_0001_0000_0001, 0)));
    }

    #[test]
    fn a_section_does_not_reach_into_the_records() {
        let entry = Section { offset: 111, size: 1 };
        check(&file(3, Some(entry), b""), &Err((112, 111)));
    }

    #[test]
    fn two_sections_do_not_share_bytes() {
        let (header, mut bytes) = file(3, Some(Section { offset: 144, size: 68 }), b"");
        let FileHeader::File { endian, size, attr_size, attrs, data, event_types, mut features } =
            header
        else {
            panic!("no file");
        };
        features.insert(4);
        let header =
            FileHeader::File { endian, size, attr_size, attrs, data, event_types, features };
        Section { offset: 211, size: 68 }.encode(&mut bytes);
        Feature::Hostname(Text::from("vm")).encode(&mut bytes);
        let sections = read_all(bytes.as_slice(), &header);
        assert!(sections[0].content.is_ok());
        assert!(matches!(sections[1].content, Err(Error::BadField { value: 211, .. })));
    }

    #[test]
    fn a_table_that_was_never_written_is_an_error() {
        check(&file(2, None, b""), &Err((112, 0)));
    }

    #[test]
    fn a_file_whose_recorder_was_killed_has_no_sections() {
        let (header, bytes) = file(3, None, b"");
        let FileHeader::File { endian, size, attr_size, attrs, event_types, features, .. } = header
        else {
            panic!("no file");
        };
        let data = Section { offset: 104, size: 0 };
        let header =
            FileHeader::File { endian, size, attr_size, attrs, data, event_types, features };
        assert!(read_all(bytes.as_slice(), &header).is_empty());
    }
}
