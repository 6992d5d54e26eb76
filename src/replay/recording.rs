//! Opening a recording: what it says of itself before its first sample.

use rustc_hash::FxHashMap;

use crate::perfdata;
use crate::perfdata::Attr;
use crate::perfdata::AttrEntry;
use crate::perfdata::Cursor;
use crate::perfdata::FeatureBits;
use crate::perfdata::FileHeader;
use crate::perfdata::ReadAt;
use crate::perfdata::Record;
use crate::perfdata::RecordKind;
use crate::perfdata::RecordWalk;
use crate::perfdata::SampleIdLayout;
use crate::perfdata::SampleLayout;
use crate::perfdata::SampleType;
use crate::perfdata::Section;
use crate::perfdata::UserRecord;
use crate::perfdata::decode_ids;
use crate::perfdata::feature::EventDescs;
use crate::perfdata::feature::Feature;
use crate::perfdata::feature::FeatureDecoder;
use crate::perfdata::feature::FeatureId;
use crate::perfdata::read_up_to;
use crate::units::FileOffset;

use super::Error;

/// One event of a recording.
#[derive(Clone, Debug)]
pub struct Event {
    /// Its name.
    pub name: String,
    /// What it counted and what its records hold.
    pub attr: Attr,
    /// The ids of its instances.
    pub ids: Vec<u64>,
    /// Where the fields of its samples lie.
    pub sample: SampleLayout,
    /// Where the fields of its other records' trailers lie.
    pub sample_id: SampleIdLayout,
}

/// A feature section, undecoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawFeature {
    /// Its number.
    pub id: u8,
    /// Where it stands.
    pub at: FileOffset,
    /// Its bytes: fewer than it claims where the file ends before.
    pub bytes: Vec<u8>,
    /// How many bytes it claims.
    pub claimed_len: u64,
}

/// A recording, open for reading: everything but its records.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The header.
    pub header: FileHeader,
    /// Where the records are.
    pub data: Section,
    /// The events, in the order of the file.
    pub events: Vec<Event>,
    /// The feature sections, in the order of the file; in a pipe several can have one number.
    pub features: Vec<RawFeature>,
    /// Whether the recorder did not live to write the length of its data.
    pub is_unfinished: bool,
    ids: FxHashMap<u64, u32>,
    /// Whether all events put the trailers' fields in the same places.
    has_one_layout: bool,
}

/// The most bytes of one feature that are read: as many as perf itself takes of BPF data.
const MAX_FEATURE_LEN: u64 = 256 << 20;

impl Recording {
    /// Opens the recording in `input`.
    ///
    /// # Errors
    ///
    /// [`Error::Decode`] where the header or an attribute cannot be read, and [`Error::NoEvents`]
    /// where there is none of the latter.
    pub fn open(input: &dyn ReadAt) -> Result<Self, Error> {
        let start = read_up_to(input, FileOffset(0), FileHeader::LEN as u64)?;
        let header = FileHeader::decode(&start)?;
        let mut this = match header {
            FileHeader::Pipe { .. } => Self::open_pipe(input, header)?,
            FileHeader::File { .. } => Self::open_file(input, header)?,
        };
        if this.events.is_empty() {
            return Err(Error::NoEvents);
        }
        for (idx, event) in this.events.iter().enumerate() {
            this.ids.extend(event.ids.iter().map(|&id| (id, idx as u32)));
        }
        this.has_one_layout = this.events.windows(2).all(|it| it[0].sample_id == it[1].sample_id);
        this.name_events();
        Ok(this)
    }

    fn open_file(input: &dyn ReadAt, header: FileHeader) -> Result<Self, Error> {
        let FileHeader::File { endian, attr_size, attrs, data, features, .. } = header else {
            return Err(Error::NoEvents);
        };
        let bytes = read_up_to(input, FileOffset(attrs.offset), attrs.size.min(MAX_FEATURE_LEN))?;
        let entries = AttrEntry::decode_all(&bytes, FileOffset(attrs.offset), endian, attr_size)?;
        let mut this = Self::new(header, data);
        for entry in entries {
            let len = entry.ids.size.min(MAX_FEATURE_LEN);
            let ids = decode_ids(&read_up_to(input, FileOffset(entry.ids.offset), len)?, endian);
            this.add_event(entry.attr, ids);
        }
        // A recorder that was killed has written neither the length of its data nor features.
        this.is_unfinished = data.size == 0;
        if this.is_unfinished {
            this.data.size = u64::MAX;
        } else {
            this.read_features(input, features)?;
        }
        Ok(this)
    }

    fn open_pipe(input: &dyn ReadAt, header: FileHeader) -> Result<Self, Error> {
        let endian = header.endian();
        let data = Section { offset: perfdata::PIPE_HEADER_LEN as u64, size: u64::MAX };
        let mut this = Self::new(header, data);
        let mut names = Vec::new();
        let mut walk = RecordWalk::new(input, data, endian);
        // What breaks the walk breaks it again, and is told, where the records are read.
        while let Ok(Some(raw)) = walk.next() {
            let payload = raw.payload;
            let wanted = [
                RecordKind::HEADER_ATTR,
                RecordKind::HEADER_FEATURE,
                RecordKind::EVENT_UPDATE,
                RecordKind::TRACING_DATA,
            ];
            if !wanted.contains(&raw.header.kind) {
                continue;
            }
            let at = FileOffset(raw.at.0 + 8);
            let Ok(record) = Record::decode(raw.header, &mut Cursor::new(raw.body, at, endian))
            else {
                continue;
            };
            match record {
                Record::User(UserRecord::HeaderAttr { attr, ids }) => {
                    this.add_event(*attr, ids.iter().collect());
                }
                Record::User(UserRecord::HeaderFeature { id, data }) => {
                    if let Ok(id) = u8::try_from(id) {
                        let claimed_len = data.len() as u64;
                        let at = FileOffset(at.0 + 8);
                        let bytes = data.to_vec();
                        this.features.push(RawFeature { id, at, bytes, claimed_len });
                    }
                }
                Record::User(UserRecord::EventUpdate { kind: 2, id, data }) => {
                    names.push((id, data.to_vec()));
                }
                Record::User(UserRecord::TracingData { size }) => {
                    let at = FileOffset(payload.offset);
                    let claimed_len = u64::from(size);
                    let bytes = read_up_to(input, at, claimed_len)?;
                    this.features.push(RawFeature { id: 1, at, bytes, claimed_len });
                }
                _ => {}
            }
        }
        for (id, name) in names {
            let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
            if let Some(event) = this.events.iter_mut().find(|it| it.ids.contains(&id)) {
                event.name = String::from_utf8_lossy(name).into_owned();
            }
        }
        Ok(this)
    }

    fn new(header: FileHeader, data: Section) -> Self {
        Self {
            header,
            data,
            events: Vec::new(),
            features: Vec::new(),
            is_unfinished: false,
            ids: FxHashMap::default(),
            has_one_layout: true,
        }
    }

    fn add_event(&mut self, attr: Attr, ids: Vec<u64>) {
        let sample = SampleLayout::new(&attr, self.header.endian());
        let sample_id = SampleIdLayout::new(&attr);
        self.events.push(Event { name: String::new(), attr, ids, sample, sample_id });
    }

    fn read_features(&mut self, input: &dyn ReadAt, bits: FeatureBits) -> Result<(), Error> {
        let endian = self.header.endian();
        let table_at = self.data.end();
        let table_len = bits.iter().count() * Section::LEN;
        let table = read_up_to(input, FileOffset(table_at), table_len as u64)?;
        let mut cursor = Cursor::new(&table, FileOffset(table_at), endian);
        for id in bits.iter() {
            // A table that is cut costs the features that it does not hold.
            let section = Section::decode(&mut cursor, "feature section").unwrap_or_default();
            let at = FileOffset(section.offset);
            let bytes = read_up_to(input, at, section.size.min(MAX_FEATURE_LEN))?;
            self.features.push(RawFeature { id, at, bytes, claimed_len: section.size });
        }
        Ok(())
    }

    /// Names come from the event descriptions, else from the attribute.
    fn name_events(&mut self) {
        let described = match self.decoded(FeatureId::EVENT_DESC) {
            Some(Feature::Events(EventDescs { events, .. })) => events,
            _ => Vec::new(),
        };
        // They stand in the order of the attributes.
        for (event, described) in self.events.iter_mut().zip(described) {
            if event.name.is_empty() {
                event.name = String::from_utf8_lossy(described.name.as_bytes()).into_owned();
            }
        }
        for event in &mut self.events {
            if event.name.is_empty() {
                event.name = event.attr.event_name();
            }
        }
    }

    /// What the first section with number `id` says; `None` if there is none that can be read.
    pub fn decoded(&self, id: FeatureId) -> Option<Feature> {
        let raw = self.features.iter().find(|it| FeatureId(it.id) == id)?;
        let mut decoder = FeatureDecoder::new(self.header.endian());
        decoder.decode(id, &raw.bytes, raw.at).ok()
    }

    /// Which event wrote a sample with the body `sample`; `None` if its id is of none.
    #[inline]
    pub fn event_of_sample(&self, sample: &[u8]) -> Option<u32> {
        let [first, rest @ ..] = self.events.as_slice() else { return None };
        if rest.is_empty() {
            return Some(0);
        }
        // All events put the id in the same place, or there is no telling them apart.
        match first.sample.id(sample) {
            None | Some(0) => Some(0),
            Some(id) => self.ids.get(&id).copied(),
        }
    }

    /// Which event wrote a record that is no sample, by its whole body.
    pub fn event_of_record(&self, body: &[u8]) -> u32 {
        let endian = self.header.endian();
        let has_identifier =
            self.events.iter().all(|it| it.attr.sample_type.contains(SampleType::IDENTIFIER));
        let id = if self.events.len() < 2 {
            None
        } else if has_identifier {
            body.last_chunk::<8>().map(|bytes| endian.u64(*bytes))
        } else if self.has_one_layout {
            self.events[0].sample_id.split(body, endian).1.id
        } else {
            None
        };
        id.and_then(|id| self.ids.get(&id).copied()).unwrap_or(0)
    }
}
