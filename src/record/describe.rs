//! What a recording says of itself: the features of its header.

use std::collections::BTreeSet;

use crate::bpf::Program;
use crate::bpf::Programs;
use crate::events::Place;
use crate::host::kernel;
use crate::host::process;
use crate::perfdata::Endian;
use crate::perfdata::Record;
use crate::perfdata::RecordKind;
use crate::perfdata::U64s;
use crate::perfdata::UserRecord;
use crate::perfdata::bpf_info;
use crate::perfdata::compression;
use crate::perfdata::feature;
use crate::perfdata::feature::Compression;
use crate::perfdata::feature::EventDesc;
use crate::perfdata::feature::EventDescs;
use crate::perfdata::feature::Feature;
use crate::perfdata::feature::FeatureId;
use crate::perfdata::feature::GroupDesc;
use crate::perfdata::feature::PipeBodies;
use crate::perfdata::feature::SampleTime;
use crate::perfdata::feature::Text;
use crate::perfdata::feature::pipe_bodies;
use crate::perfdata::private::ClockReading;
use crate::perfdata::private::Clocks;
use crate::perfdata::private::FeaturePayload;
use crate::perfdata::private::Message;
use crate::perfdata::private::TracepointPrograms;
use crate::units::ProgId;

use super::clock;
use super::config::Compat;
use super::hop::Tally;
use super::open::Opened;
use super::session::FileEvent;

/// The clocks of a recording that ends now, and where it was made; `readings` are what was read of them.
pub(super) fn clocks(mut readings: Vec<ClockReading>) -> Message {
    if readings.is_empty() {
        readings.extend(clock::moment());
    }
    Message::Clocks(Clocks {
        readings,
        ended_ns: clock::time_of_day().unwrap_or(0),
        boot_id: kernel::boot_id().unwrap_or_default(),
        pid_namespace: process::pid_namespace().unwrap_or(0),
    })
}

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
    facts.extend(programs.into_iter().flat_map(of_programs));
    if compat == Compat::Perf6_1 {
        facts.retain(|it| it.id() <= LAST_OF_6_1);
    }
    facts.sort_by_key(Feature::id);
    facts
}

/// How the records are compressed; how well is known at the end.
pub(super) fn compression(level: i32) -> Feature {
    Feature::Compressed(Compression {
        version: 0,
        method: Compression::ZSTD,
        level: level.cast_unsigned(),
        ratio: 0,
        mmap_len: compression::MMAP_LEN,
    })
}

/// Notes that so many plain bytes became one.
pub(super) fn note_ratio(features: &mut [Feature], plain_to_one: u32) {
    for feature in features {
        if let Feature::Compressed(Compression { ratio, .. }) = feature {
            *ratio = plain_to_one;
        }
    }
}

/// The kind of compressed records that the oldest reader knows.
pub(super) fn compressed_kind(compat: Compat) -> RecordKind {
    match compat {
        Compat::Perf6_1 => RecordKind::COMPRESSED,
        Compat::Perf6_17 => RecordKind::COMPRESSED2,
    }
}

/// The groups of events, if there are some.
pub(super) fn groups<Fd>(opened: &[Opened<Fd>]) -> Option<Feature> {
    let mut groups: Vec<GroupDesc> = Vec::new();
    for (leader_idx, event) in (0..).zip(opened) {
        match (&event.place, groups.last_mut()) {
            (Place::Leader { name, .. }, _) => {
                let name = Text::from(name.as_deref().unwrap_or(GroupDesc::ANONYMOUS));
                groups.push(GroupDesc { name, leader_idx, n_members: 1 });
            }
            (Place::Member, Some(group)) => group.n_members += 1,
            _ => {}
        }
    }
    (!groups.is_empty()).then_some(Feature::Groups(groups))
}

/// What is known of BPF programs, with their types, as a file has it.
fn of_programs(programs: &Programs) -> [Feature; 2] {
    let infos: Vec<_> = programs.iter().map(Program::info).collect();
    let (mut of_info, mut of_btf) = (Vec::new(), Vec::new());
    bpf_info::encode_prog_infos(&infos, &mut of_info);
    bpf_info::encode_btfs(&programs.btfs(), &mut of_btf);
    [Feature::BpfProgInfo(of_info), Feature::BpfBtf(of_btf)]
}

/// What a pipe has been told of programs.
#[derive(Debug, Default)]
pub(super) struct Sent {
    programs: BTreeSet<ProgId>,
    btfs: BTreeSet<u32>,
}

impl Sent {
    /// What is known of BPF programs and not yet sent: a feature for each BTF and each program, in
    /// this order, since perf names a program when it meets it.
    pub(super) fn news(&mut self, programs: &Programs) -> Vec<Feature> {
        let mut news = Vec::new();
        for (id, data) in programs.btfs() {
            if self.btfs.insert(id) {
                let mut bytes = Vec::new();
                bpf_info::encode_btfs(&[(id, data)], &mut bytes);
                news.push(Feature::BpfBtf(bytes));
            }
        }
        for program in programs.iter().filter(|it| self.programs.insert(it.id())) {
            let mut bytes = Vec::new();
            bpf_info::encode_prog_infos(&[program.info()], &mut bytes);
            news.push(Feature::BpfProgInfo(bytes));
        }
        news
    }
}

/// Joins features of programs, and those of types, to as few as records of a pipe have room for.
///
/// perf prints all programs that it knows after each record, so thousands of records are millions of
/// lines.
pub(super) fn packed(features: Vec<Feature>) -> Vec<Feature> {
    let mut packed: Vec<Feature> = Vec::new();
    for feature in features {
        let joined = match (packed.last_mut(), &feature) {
            (Some(Feature::BpfProgInfo(all)), Feature::BpfProgInfo(one))
            | (Some(Feature::BpfBtf(all)), Feature::BpfBtf(one)) => join(all, one),
            _ => false,
        };
        if !joined {
            packed.push(feature);
        }
    }
    packed
}

/// The most bytes of features that are joined.
const JOINED_MAX: usize = 60_000;

/// Adds the entries of `one` to `all`, each a count and entries, unless that is too much.
fn join(all: &mut Vec<u8>, one: &[u8]) -> bool {
    if JOINED_MAX < all.len() + one.len() {
        return false;
    }
    let (Some(count), Some((n_new, entries))) = (all.first_chunk_mut(), one.split_first_chunk())
    else {
        return false;
    };
    *count = (u32::from_ne_bytes(*count) + u32::from_ne_bytes(*n_new)).to_ne_bytes();
    all.extend(entries);
    true
}

/// Puts the names that programs have by their types in the place of those that the kernel cuts.
pub(super) fn name_in_full(tracepoint: &mut TracepointPrograms, programs: &Programs) {
    for attached in &mut tracepoint.programs {
        let Some(program) = programs.get(ProgId(attached.id)) else { continue };
        let symbol = program.functions().first().map_or("", |it| it.name.as_str());
        // `bpf_prog_`, 16 digits of a tag, `_`.
        let name = symbol.get("bpf_prog_".len() + 17..).filter(|it| !it.is_empty());
        if let Some(name) = name.filter(|it| it.starts_with(&attached.name)) {
            name.clone_into(&mut attached.name);
        }
    }
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

/// Events and formats as the records that begin a pipe; features come between and behind them.
pub(super) fn pipe_events(events: &[FileEvent], attr_size: u32, out: &mut Vec<u8>) {
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
        put(RecordKind::HEADER_ATTR, record, out);
    }
}

/// The formats of tracepoints as a record of a pipe.
pub(super) fn pipe_formats(formats: &[u8], out: &mut Vec<u8>) {
    let padded = formats.len().next_multiple_of(8);
    let size = u32::try_from(padded).unwrap_or(u32::MAX);
    put(RecordKind::TRACING_DATA, UserRecord::TracingData { size }, out);
    out.extend(formats);
    out.extend(std::iter::repeat_n(0, padded - formats.len()));
}

/// Features as records of a pipe. Those that no record has room for, or that perf has in files alone,
/// come back: they travel in private records. Beside them, how many no record has room for.
pub(super) fn pipe_features(features: &[Feature], out: &mut Vec<u8>) -> (Vec<Message>, u64) {
    let PipeBodies { bodies, apart, n_too_long } = pipe_bodies(features);
    for body in &bodies {
        put_feature(body, out);
    }
    let message =
        |(id, data): (FeatureId, _)| Message::Feature(FeaturePayload { id: u64::from(id.0), data });
    (apart.into_iter().map(message).collect(), n_too_long)
}

/// The mark behind the last feature of a pipe.
///
/// It is the number after the last feature that a version knows: each takes another one's for a
/// feature. Where it has to be read by several it is left out, which none of them minds.
pub(super) fn pipe_end(compat: Compat, out: &mut Vec<u8>) {
    if compat != Compat::Perf6_1 {
        put_feature(&feature::pipe_end(), out);
    }
}

fn put_feature(body: &[u8], out: &mut Vec<u8>) {
    let Some((id, data)) = body.split_first_chunk() else { return };
    let record = UserRecord::HeaderFeature { id: u64::from_ne_bytes(*id), data };
    put(RecordKind::HEADER_FEATURE, record, out);
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

    /// Kind and size of each record.
    fn records(mut rest: &[u8]) -> Vec<(RecordKind, u16)> {
        let mut records = Vec::new();
        while !rest.is_empty() {
            let mut cursor = Cursor::new(rest, FileOffset(0), Endian::NATIVE);
            let header = RecordHeader::decode(&mut cursor).unwrap();
            records.push((header.kind, header.size));
            rest = &rest[usize::from(header.size)..];
        }
        records
    }

    #[test]
    fn an_attribute_in_a_pipe_is_as_large_as_readers_take_it_for() {
        let event = FileEvent { name: "cs".to_owned(), attr: Attr::default(), ids: vec![7, 8] };
        let mut out = Vec::new();
        pipe_events(&[event], 64, &mut out);
        assert_eq!(records(&out), [(RecordKind::HEADER_ATTR, 8 + 128 + 16)]);
    }

    #[test]
    fn the_mark_that_ends_the_features_is_left_out_where_versions_differ_about_it() {
        let end = |compat| {
            let mut out = Vec::new();
            pipe_end(compat, &mut out);
            records(&out)
        };
        assert_eq!(end(Compat::Perf6_17), [(RecordKind::HEADER_FEATURE, 16)]);
        assert_eq!(end(Compat::Perf6_1), []);
    }

    #[test]
    fn features_of_programs_are_joined_as_far_as_a_record_has_room() {
        let entries = |n: u32, len: usize| {
            let mut bytes = n.to_ne_bytes().to_vec();
            bytes.resize(4 + len, 7);
            bytes
        };
        let info = |n, len| Feature::BpfProgInfo(entries(n, len));
        let btf = |n, len| Feature::BpfBtf(entries(n, len));
        let one_by_one =
            vec![info(1, 20_000), info(1, 30_000), info(1, 20_000), btf(1, 9), btf(1, 8)];
        assert_eq!(packed(one_by_one), [info(2, 50_000), info(1, 20_000), btf(2, 17)]);
    }

    #[test]
    fn a_feature_that_no_record_of_a_pipe_holds_is_a_private_message() {
        let data = vec![7; 70_000];
        let mut out = Vec::new();
        let features = [Feature::BpfBtf(data.clone()), Feature::CachelineSize(64)];
        let apart = Feature::Caches(Vec::new());
        let (too_long, n_too_long) = pipe_features(&features, &mut out);
        assert_eq!(n_too_long, 1);
        assert_eq!(pipe_features(&[apart], &mut Vec::new()).1, 0);
        assert_eq!(too_long, [Message::Feature(FeaturePayload { id: 26, data })]);
        assert_eq!(records(&out), [(RecordKind::HEADER_FEATURE, 20)]);
    }
}
