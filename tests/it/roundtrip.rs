//! Every byte of every fixture, read and written again.
#![cfg(target_endian = "little")]

use std::collections::BTreeMap;

use bpfperf::perfdata::AttrEntry;
use bpfperf::perfdata::Cursor;
use bpfperf::perfdata::Endian;
use bpfperf::perfdata::FileHeader;
use bpfperf::perfdata::Layout;
use bpfperf::perfdata::Record;
use bpfperf::perfdata::RecordKind;
use bpfperf::perfdata::RecordWalk;
use bpfperf::perfdata::Section;
use bpfperf::perfdata::decode_ids;
use bpfperf::perfdata::encode_features;
use bpfperf::perfdata::feature::FeatureDecoder;
use bpfperf::perfdata::feature::FeatureId;
use bpfperf::perfdata::feature::read_all;
use bpfperf::replay::Recording;
use bpfperf::units::FileOffset;

use crate::fixture::FIXTURES;
use crate::fixture::Fixture;

/// The bytes of `section` of a fixture.
fn part(fixture: &Fixture, section: Section) -> &'static [u8] {
    let start = usize::try_from(section.offset).unwrap();
    let end = usize::try_from(section.end()).unwrap().min(fixture.bytes.len());
    &fixture.bytes[start..end]
}

#[test]
fn every_record_of_every_fixture_is_counted_and_written_again() {
    for fixture in &FIXTURES {
        let recording = Recording::open(&fixture.bytes).unwrap();
        let mut walk = RecordWalk::new(fixture.bytes, recording.data[0], Endian::Little);
        let mut counts = BTreeMap::<u32, usize>::new();
        while let Some(raw) = walk.next().unwrap() {
            *counts.entry(raw.header.kind.0).or_default() += 1;
            let at = format!("{} at {:#x}: {:?}", fixture.name, raw.at.0, raw.header);
            let mut trailer = Vec::new();
            let mut own = raw.body;
            if raw.header.kind == RecordKind::SAMPLE {
                let event = recording.event_of_sample(raw.body).unwrap() as usize;
                let layout = recording.events[event].sample;
                let sample = layout.decode(raw.body, raw.at).unwrap();
                let mut body = Vec::new();
                layout.encode(&sample, &mut body);
                assert!(body == raw.body, "{at}");
            } else if raw.header.kind.is_kernel() || raw.header.kind == RecordKind::BPF_METADATA {
                // perf gives the metadata that it makes a trailer as the kernel's records have.
                let event = recording.event_of_record(raw.body) as usize;
                let layout = recording.events[event].sample_id;
                let (without, id) = layout.split(raw.body, Endian::Little);
                layout.encode(&id, &mut trailer);
                own = without;
            }
            let mut cursor = Cursor::new(own, raw.at, Endian::Little);
            let record = Record::decode(raw.header, &mut cursor).unwrap();
            assert!(!matches!(record, Record::Unknown(_)), "{at}");
            let mut written = Vec::new();
            record.encode(raw.header.kind, raw.header.misc, &trailer, &mut written).unwrap();
            let len = u64::from(raw.header.size);
            assert!(written == part(fixture, Section { offset: raw.at.0, size: len }), "{at}");
        }
        assert_eq!(walk.cut_bytes(), 0, "{}", fixture.name);
        let counts: Vec<(u32, usize)> = counts.into_iter().collect();
        assert_eq!(counts, fixture.counts, "{}", fixture.name);
    }
}

#[test]
fn headers_attributes_and_features_are_written_again() {
    let mut n_files = 0;
    for fixture in &FIXTURES {
        let header = FileHeader::decode(fixture.bytes).unwrap();
        let mut written = Vec::new();
        header.encode(&mut written);
        assert!(fixture.bytes.starts_with(&written), "{}", fixture.name);
        let FileHeader::File { attr_size, attrs, data, features, .. } = header else { continue };
        n_files += 1;

        let bytes = part(fixture, attrs);
        let at = FileOffset(attrs.offset);
        let entries = AttrEntry::decode_all(bytes, at, Endian::Little, attr_size).unwrap();
        let mut written = Vec::new();
        for it in &entries {
            assert!(!it.has_unknown_tail);
            it.attr.encode(u32::try_from(attr_size - 16).unwrap(), &mut written);
            it.ids.encode(&mut written);
        }
        assert!(written == bytes, "{}", fixture.name);

        // perf leaves room in the table for sections that it then has nothing for; the sections
        // themselves stand one behind another up to the end of the file.
        let mut sections = Vec::new();
        let mut end = None;
        for section in read_all(fixture.bytes, &header) {
            let mut written = Vec::new();
            let content = section.content.unwrap();
            content.encode(&mut written);
            let at = section.at.0;
            assert_eq!(end.unwrap_or(at), at, "{}: {:?}", fixture.name, section.id);
            sections.push((section.id.0, written.clone()));
            if section.id == FeatureId::BUILD_ID && fixture.name.starts_with("perf-6.1") {
                // That version filled the names up to 64 bytes, newer ones to 8.
                let mut decoder = FeatureDecoder::new(Endian::Little);
                let again = decoder.decode(section.id, &written, section.at).unwrap();
                assert_eq!(again, content);
                end = None;
                continue;
            }
            let place = Section { offset: at, size: written.len() as u64 };
            assert!(written == part(fixture, place), "{}: {:?}", fixture.name, section.id);
            end = Some(place.end());
        }
        assert_eq!(end, Some(fixture.bytes.len() as u64), "{}", fixture.name);
        let (bits, written) = encode_features(&sections, FileOffset(data.end()));
        assert_eq!(bits, features, "{}", fixture.name);
        if fixture.name == "bpfperf-bpf" {
            assert!(fixture.bytes.ends_with(&written), "{}", fixture.name);
        }
    }
    assert_eq!(n_files, 8);
}

#[test]
fn a_file_of_ours_is_laid_out_from_its_events_alone() {
    let fixture = FIXTURES.iter().find(|it| it.name == "bpfperf-bpf").unwrap();
    let header = FileHeader::decode(fixture.bytes).unwrap();
    let FileHeader::File { attr_size, attrs, data, features, .. } = header else { panic!() };
    let at = FileOffset(attrs.offset);
    let entries = AttrEntry::decode_all(part(fixture, attrs), at, Endian::Little, attr_size);
    let events = entries.unwrap().into_iter().map(|it| {
        let ids = decode_ids(part(fixture, it.ids), Endian::Little);
        (it.attr, ids)
    });
    let layout = Layout::new(events.collect());
    assert_eq!(layout.data_offset(), FileOffset(data.offset));
    let start = part(fixture, Section { offset: 0, size: data.offset });
    assert!(layout.encode(data.size, features) == start);
}
