//! What a recording says of itself: the features of its header.

use crate::bpf::Program;
use crate::bpf::Programs;
use crate::perfdata::Endian;
use crate::perfdata::Record;
use crate::perfdata::RecordKind;
use crate::perfdata::U64s;
use crate::perfdata::UserRecord;
use crate::perfdata::bpf_info;
use crate::perfdata::feature::EventDesc;
use crate::perfdata::feature::EventDescs;
use crate::perfdata::feature::Feature;
use crate::perfdata::feature::FeatureId;
use crate::perfdata::feature::SampleTime;
use crate::perfdata::feature::Text;
use crate::perfdata::feature::pipe_bodies;

use super::config::Compat;
use super::hop::Tally;
use super::session::FileEvent;

/// The features of a recording, ascending by number.
pub(super) fn features(
    mut facts: Vec<Feature>,
    events: &[FileEvent],
    attr_size: u32,
    formats: Option<Vec<u8>>,
    programs: Option<&Programs>,
    tally: &Tally,
    compat: Compat,
) -> Vec<Feature> {
    facts.extend(formats.map(Feature::TracingData));
    facts.push(Feature::Events(EventDescs {
        attr_size,
        events: events.iter().map(description).collect(),
    }));
    let (first, last) = (tally.first.unwrap_or_default(), tally.last.unwrap_or_default());
    facts.push(Feature::SampleTime(SampleTime { first, last }));
    if let Some(programs) = programs {
        facts.extend(of_programs(programs));
    }
    if compat == Compat::Perf6_1 {
        facts.retain(|it| it.id() <= LAST_OF_6_1);
    }
    facts.sort_by_key(Feature::id);
    facts
}

/// What is known of BPF programs, with their types.
pub(super) fn of_programs(programs: &Programs) -> [Feature; 2] {
    let infos: Vec<_> = programs.iter().map(Program::info).collect();
    let (mut of_info, mut of_btf) = (Vec::new(), Vec::new());
    bpf_info::encode_prog_infos(&infos, &mut of_info);
    bpf_info::encode_btfs(&programs.btfs(), &mut of_btf);
    [Feature::BpfProgInfo(of_info), Feature::BpfBtf(of_btf)]
}

/// The last feature that perf 6.1 knows.
const LAST_OF_6_1: FeatureId = FeatureId::PMU_CAPS;

fn description(event: &FileEvent) -> EventDesc {
    let name = Text::from(event.name.clone());
    EventDesc { attr: event.attr, name, ids: event.ids.clone() }
}

/// The features as sections of a file.
pub(super) fn sections(features: &[Feature]) -> Vec<(u8, Vec<u8>)> {
    let section = |feature: &Feature| {
        let mut bytes = Vec::new();
        feature.encode(&mut bytes);
        (feature.id().0, bytes)
    };
    features.iter().map(section).collect()
}

/// The size of an attribute in a pipe, at least, in bytes.
///
/// perf up to 6.1 at least copies its own whole structure out of the record, whatever size the
/// attribute says of itself, and takes what follows for branch flags and registers.
const ATTR_SIZE_IN_PIPES: u32 = 128;

/// Events, features and formats as the records that begin a pipe.
pub(super) fn pipe_head(
    events: &[FileEvent],
    attr_size: u32,
    features: &[Feature],
    formats: Option<&[u8]>,
    compat: Compat,
) -> Vec<u8> {
    let mut out = Vec::new();
    for event in events {
        let mut ids = Vec::new();
        ids.extend(event.ids.iter().flat_map(|it| it.to_ne_bytes()));
        let mut attr = event.attr;
        attr.size = attr_size.max(ATTR_SIZE_IN_PIPES);
        // An event of so many instances that its ids fill a record lets a reader take a record's
        // event from its id index.
        let ids = ids.get(..ids.len().min(60_000)).unwrap_or_default();
        let ids = U64s::new(ids, Endian::NATIVE);
        let record = UserRecord::HeaderAttr { attr: Box::new(attr), ids };
        put(RecordKind::HEADER_ATTR, record, &mut out);
    }
    pipe_features(features, compat, &mut out);
    if let Some(formats) = formats {
        let padded = formats.len().next_multiple_of(8);
        let size = u32::try_from(padded).unwrap_or(u32::MAX);
        put(RecordKind::TRACING_DATA, UserRecord::TracingData { size }, &mut out);
        out.extend(formats);
        out.extend(std::iter::repeat_n(0, padded - formats.len()));
    }
    out
}

/// Features as records of a pipe, with the mark of their end.
///
/// The mark is the number after the last feature that a version knows: each takes another one's
/// for a feature. Where it has to be read by several it is left out, which none of them minds.
pub(super) fn pipe_features(features: &[Feature], compat: Compat, out: &mut Vec<u8>) {
    for body in pipe_bodies(features).bodies {
        let Some((id, data)) = body.split_first_chunk() else { continue };
        let id = u64::from_ne_bytes(*id);
        if compat == Compat::Perf6_1 && id == u64::from(FeatureId::END.0) {
            continue;
        }
        let record = UserRecord::HeaderFeature { id, data };
        put(RecordKind::HEADER_FEATURE, record, out);
    }
}

fn put(kind: RecordKind, record: UserRecord<'_>, out: &mut Vec<u8>) {
    // All of these are bounded above.
    if let Err(error) = Record::User(record).encode(kind, 0, &[], out) {
        tracing::debug!(%error, ?kind, "a record of the pipe's head is left out");
    }
}

#[cfg(test)]
mod tests {
    use crate::perfdata::Attr;
    use crate::perfdata::Cursor;
    use crate::perfdata::RecordHeader;
    use crate::units::FileOffset;

    use super::*;

    /// Kind and size of each record at the beginning of a pipe with one event of two instances.
    #[track_caller]
    fn check(compat: Compat, want: &[(RecordKind, u16)]) {
        let event = FileEvent { name: "cs".to_owned(), attr: Attr::default(), ids: vec![7, 8] };
        let head = pipe_head(&[event], 64, &[], None, compat);
        let mut rest = &head[..];
        let mut got = Vec::new();
        while !rest.is_empty() {
            let mut cursor = Cursor::new(rest, FileOffset(0), Endian::NATIVE);
            let header = RecordHeader::decode(&mut cursor).unwrap();
            got.push((header.kind, header.size));
            rest = &rest[usize::from(header.size)..];
        }
        assert_eq!(got, want);
    }

    #[test]
    fn an_attribute_in_a_pipe_is_as_large_as_readers_take_it_for() {
        let attr = (RecordKind::HEADER_ATTR, 8 + 128 + 16);
        check(Compat::Perf6_17, &[attr, (RecordKind::HEADER_FEATURE, 16)]);
    }

    #[test]
    fn the_mark_that_ends_the_features_is_left_out_where_versions_differ_about_it() {
        check(Compat::Perf6_1, &[(RecordKind::HEADER_ATTR, 8 + 128 + 16)]);
    }
}
