//! Opening a recording: what it says of itself before its first sample.

use std::io::Write;

use rustc_hash::FxHashMap;

use crate::perfdata;
use crate::perfdata::Attr;
use crate::perfdata::AttrEntry;
use crate::perfdata::Cursor;
use crate::perfdata::Endian;
use crate::perfdata::FileHeader;
use crate::perfdata::ReadAt;
use crate::perfdata::Record;
use crate::perfdata::RecordHeader;
use crate::perfdata::RecordKind;
use crate::perfdata::RecordWalk;
use crate::perfdata::SampleIdLayout;
use crate::perfdata::SampleLayout;
use crate::perfdata::SampleType;
use crate::perfdata::Section;
use crate::perfdata::UserRecord;
use crate::perfdata::compression::inflate;
use crate::perfdata::decode_ids;
use crate::perfdata::feature;
use crate::perfdata::feature::Compression;
use crate::perfdata::feature::EventDescs;
use crate::perfdata::feature::Feature;
use crate::perfdata::feature::FeatureDecoder;
use crate::perfdata::feature::FeatureId;
use crate::perfdata::feature::FeatureSection;
use crate::perfdata::off_cpu;
use crate::perfdata::private::Assembler;
use crate::perfdata::private::FeaturePayload;
use crate::perfdata::private::Message;
use crate::perfdata::read_up_to;
use crate::perfdata::trace_format::name_and_id;
use crate::perfdata::tracing_data::TracingData;
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

/// A recording, open for reading: everything but its records.
#[derive(Debug)]
pub struct Recording {
    /// The header.
    pub header: FileHeader,
    /// Where the records are: one section of a file, or several of a directory's, in the order in
    /// which records without a time follow each other.
    pub data: Vec<Section>,
    /// How many bytes the header promises of the first section that its file does not have.
    pub missing_bytes: u64,
    /// The events, in the order of the file.
    pub events: Vec<Event>,
    /// The feature sections, in the order of the file; in a pipe several can be of one feature.
    pub features: Vec<FeatureSection>,
    /// Whether the recorder did not live to write what stands in the header.
    pub is_unfinished: bool,
    /// Whether attributes hold something that this version does not know.
    pub has_unknown_fields: bool,
    ids: FxHashMap<u64, u32>,
    id_of_record: IdOfRecord,
}

/// Where records that are no samples have the id of their event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IdOfRecord {
    /// In their last eight bytes.
    Last,
    /// Where the trailers of all events have it.
    InTrailer,
    /// There is one event, or no telling.
    Nowhere,
}

/// The most bytes of attributes, or of one event's ids, that are read.
const MAX_ATTRS_LEN: u64 = 256 << 20;

impl Recording {
    /// How its records are compressed, if they are.
    pub fn compression(&self) -> Option<Compression> {
        self.features.iter().find_map(|it| match it.content {
            Ok(Feature::Compressed(compression)) => Some(compression),
            _ => None,
        })
    }

    /// Whether any of its records is compressed. The header says so, but for that of a recorder that
    /// was killed, whose records have to be looked at.
    pub fn is_compressed(&self, input: &dyn ReadAt) -> bool {
        if self.compression().is_some() || !self.features.is_empty() {
            return self.compression().is_some();
        }
        self.data.iter().any(|section| {
            let mut walk = RecordWalk::new(input, *section, self.header.endian());
            while let Ok(Some(raw)) = walk.next() {
                if matches!(raw.header.kind, RecordKind::COMPRESSED | RecordKind::COMPRESSED2) {
                    return true;
                }
            }
            false
        })
    }

    /// What the directory that it is says of its form; `None` for a file.
    pub fn directory_version(&self) -> Option<u64> {
        match self.feature(FeatureId::DIR_FORMAT) {
            Some(Feature::DirFormat(version)) => Some(*version),
            _ => None,
        }
    }

    /// Takes in the records of the other files of a directory, where the one with the header has
    /// `len` bytes.
    pub fn add_files(&mut self, len: u64, others: impl IntoIterator<Item = Section>) {
        for section in &mut self.data {
            let end = section.end().min(len).max(section.offset);
            if section.size != u64::MAX {
                self.missing_bytes = section.end().saturating_sub(end);
            }
            section.size = end - section.offset;
        }
        self.data.extend(others);
    }

    /// Writes its records to `out`, inflated where they are compressed; from then on they are to be
    /// read from there. Returns how many compressed ones could not be read.
    ///
    /// # Errors
    ///
    /// [`Error::Decode`] for a record from which there is no way on, and for what cannot be read or
    /// written.
    pub fn inflate(&mut self, input: &dyn ReadAt, out: &mut dyn Write) -> Result<u64, Error> {
        let compression = self.compression();
        let endian = self.header.endian();
        let mut n_damaged = 0_u64;
        let mut end = 0_u64;
        // Each file of a directory is a stream of its own.
        for section in &mut self.data {
            let inflated = inflate(input, *section, endian, compression.as_ref(), out)?;
            self.missing_bytes = self.missing_bytes.saturating_add(inflated.missing);
            n_damaged = n_damaged.saturating_add(inflated.n_damaged);
            *section = Section { offset: end, size: inflated.len };
            end = section.end();
        }
        Ok(n_damaged)
    }

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
        for (idx, event) in (0..).zip(&this.events) {
            this.ids.extend(event.ids.iter().map(|&id| (id, idx)));
        }
        let events = &this.events;
        let has_identifier =
            || events.iter().all(|it| it.attr.sample_type.contains(SampleType::IDENTIFIER));
        let has_one_layout = || events.windows(2).all(|it| it[0].sample_id == it[1].sample_id);
        if 1 < events.len() && has_identifier() {
            this.id_of_record = IdOfRecord::Last;
        } else if 1 < events.len() && has_one_layout() {
            this.id_of_record = IdOfRecord::InTrailer;
        }
        this.name_events();
        for event in &mut this.events {
            if off_cpu::is_off_cpu(&event.name, &event.attr) {
                event.sample = event.sample.of_off_cpu();
            }
        }
        Ok(this)
    }

    fn open_file(input: &dyn ReadAt, header: FileHeader) -> Result<Self, Error> {
        let FileHeader::File { endian, attr_size, attrs, data, .. } = header else {
            return Err(Error::NoEvents);
        };
        let bytes = read_up_to(input, FileOffset(attrs.offset), attrs.size.min(MAX_ATTRS_LEN))?;
        let entries = AttrEntry::decode_all(&bytes, FileOffset(attrs.offset), endian, attr_size)?;
        let mut this = Self::new(header, data);
        // Ids stand one event's behind the other's. Many events that shared them would take many
        // times the memory of the file.
        let mut free_from = 0;
        for entry in entries {
            let Section { offset, size } = entry.ids;
            if size != 0 {
                if offset < free_from {
                    let (field, at) = ("attr ids offset", FileOffset(attrs.offset));
                    return Err(perfdata::Error::BadField { field, at, value: offset }.into());
                }
                free_from = entry.ids.end();
            }
            let len = size.min(MAX_ATTRS_LEN);
            let ids = decode_ids(&read_up_to(input, FileOffset(offset), len)?, endian);
            this.has_unknown_fields |= entry.has_unknown_tail;
            this.add_event(entry.attr, ids);
        }
        // A recorder that was killed has written no features, and perf not even the length of its data.
        this.is_unfinished = data.size == 0;
        if this.is_unfinished {
            this.data[0].size = u64::MAX;
        } else {
            this.features = feature::read_all(input, &header);
            this.is_unfinished = this.features.is_empty() && is_recorders(input, data, endian);
        }
        Ok(this)
    }

    fn open_pipe(input: &dyn ReadAt, header: FileHeader) -> Result<Self, Error> {
        let endian = header.endian();
        let data = Section { offset: perfdata::PIPE_HEADER_LEN as u64, size: u64::MAX };
        let mut this = Self::new(header, data);
        let mut names = Vec::new();
        let mut decoder = FeatureDecoder::new(endian);
        let mut assembler = Assembler::default();
        let mut walk = RecordWalk::new(input, data, endian);
        // What breaks the walk breaks it again, and is told, where the records are read.
        while let Ok(Some(raw)) = walk.next() {
            let payload = raw.payload;
            let wanted = [
                RecordKind::HEADER_ATTR,
                RecordKind::HEADER_FEATURE,
                RecordKind::EVENT_TYPE,
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
                    let at = FileOffset(at.0 + 8);
                    this.features.extend(decoder.decode_record(id, data, at));
                }
                Record::User(UserRecord::EventType(body)) => {
                    // What is damaged is told where all private records are read.
                    let message = assembler.push(body, at, endian);
                    if let Ok(Some(Message::Feature(FeaturePayload { id, data }))) = message {
                        // Of some features there is nothing but that they are there.
                        let id = u8::try_from(id).ok().map(FeatureId);
                        let section = |id| {
                            let content = decoder.decode(id, &data, at);
                            FeatureSection { id, at, content }
                        };
                        this.features.extend(id.map(section));
                    }
                }
                Record::User(UserRecord::EventUpdate { kind: 2, id, data }) => {
                    names.push((id, data.to_vec()));
                }
                Record::User(UserRecord::TracingData { size }) => {
                    let at = FileOffset(payload.offset);
                    let bytes = read_up_to(input, at, u64::from(size))?;
                    let id = FeatureId::TRACING_DATA;
                    let content = decoder.decode(id, &bytes, at);
                    this.features.push(FeatureSection { id, at, content });
                }
                _ => {}
            }
        }
        let mut event_of: FxHashMap<u64, usize> = FxHashMap::default();
        for (idx, event) in this.events.iter().enumerate() {
            event.ids.iter().for_each(|&id| _ = event_of.entry(id).or_insert(idx));
        }
        for (id, name) in names {
            let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
            if let Some(&idx) = event_of.get(&id) {
                this.events[idx].name = String::from_utf8_lossy(name).into_owned();
            }
        }
        Ok(this)
    }

    fn new(header: FileHeader, data: Section) -> Self {
        Self {
            header,
            data: vec![data],
            missing_bytes: 0,
            events: Vec::new(),
            features: Vec::new(),
            is_unfinished: false,
            has_unknown_fields: false,
            ids: FxHashMap::default(),
            id_of_record: IdOfRecord::Nowhere,
        }
    }

    fn add_event(&mut self, attr: Attr, ids: Vec<u64>) {
        let sample = SampleLayout::new(&attr, self.header.endian());
        let sample_id = SampleIdLayout::new(&attr);
        self.events.push(Event { name: String::new(), attr, ids, sample, sample_id });
    }

    /// Names come from the event descriptions, else from the formats of tracepoints, else from the
    /// attribute.
    fn name_events(&mut self) {
        let described = self.features.iter().find_map(|it| match &it.content {
            Ok(Feature::Events(EventDescs { events, .. })) => Some(events),
            _ => None,
        });
        // They stand in the order of the attributes.
        for (event, described) in self.events.iter_mut().zip(described.into_iter().flatten()) {
            if event.name.is_empty() {
                event.name = String::from_utf8_lossy(described.name.as_bytes()).into_owned();
            }
        }
        let tracepoints = self.tracepoint_names();
        for event in &mut self.events {
            if event.name.is_empty() {
                let name = tracepoints.get(&event.attr.config).filter(|_| event.attr.kind == 2);
                event.name = name.cloned().unwrap_or_else(|| event.attr.event_name());
            }
        }
    }

    /// `system:event` of the formats in the file, by their numbers.
    fn tracepoint_names(&self) -> FxHashMap<u64, String> {
        let Some(Feature::TracingData(bytes)) = self.feature(FeatureId::TRACING_DATA) else {
            return FxHashMap::default();
        };
        let Ok(data) = TracingData::decode(bytes, FileOffset(0)) else {
            return FxHashMap::default();
        };
        let named = data.formats.iter().filter_map(|it| {
            let (name, id) = name_and_id(std::str::from_utf8(it.text).ok()?)?;
            Some((id, format!("{}:{name}", String::from_utf8_lossy(it.system))))
        });
        named.collect()
    }

    /// What the first section of a feature says; `None` if there is none that can be read.
    pub fn feature(&self, id: FeatureId) -> Option<&Feature> {
        self.features.iter().find(|it| it.id == id)?.content.as_ref().ok()
    }

    /// Which event wrote a sample with the body `sample`; `None` if its id is of none, or if it
    /// ends before the fields that it must have.
    #[inline]
    pub fn event_of_sample(&self, sample: &[u8]) -> Option<u32> {
        let [first, rest @ ..] = self.events.as_slice() else { return None };
        if rest.is_empty() {
            return first.sample.fits(sample).then_some(0);
        }
        // All events put the id in the same place, or there is no telling them apart.
        let event = match first.sample.id(sample) {
            None | Some(0) => 0,
            Some(id) => self.ids.get(&id).copied()?,
        };
        let layout = &self.events.get(event as usize)?.sample;
        layout.fits(sample).then_some(event)
    }

    /// The event that has the id `id`.
    pub(super) fn event_of_id(&self, id: u64) -> Option<u32> {
        self.ids.get(&id).copied()
    }

    /// The body of a record that is no sample without what its header claims beyond its end.
    pub fn trim<'b>(&self, kind: RecordKind, body: &'b [u8]) -> &'b [u8] {
        let endian = self.header.endian();
        let trailer_len = self.events.first().map_or(0, |it| it.sample_id.trailer_len());
        Record::fields_len(kind, body, endian)
            .and_then(|len| body.get(..len.checked_add(trailer_len)?))
            .unwrap_or(body)
    }

    /// Which event wrote a record that is no sample, by its whole body.
    pub fn event_of_record(&self, body: &[u8]) -> u32 {
        let endian = self.header.endian();
        let id = match self.id_of_record {
            IdOfRecord::Last => body.last_chunk::<8>().map(|bytes| endian.u64(*bytes)),
            IdOfRecord::InTrailer => self.events[0].sample_id.split(body, endian).1.id,
            IdOfRecord::Nowhere => None,
        };
        id.and_then(|id| self.ids.get(&id).copied()).unwrap_or(0)
    }
}

/// Whether the records begin as those of recorders do, which make features of each recording.
fn is_recorders(input: &dyn ReadAt, data: Section, endian: Endian) -> bool {
    let header_len = u64::from(RecordHeader::SIZE);
    let Ok(start) = read_up_to(input, FileOffset(data.offset), header_len) else { return false };
    let header = RecordHeader::decode(&mut Cursor::new(&start, FileOffset(data.offset), endian));
    header.is_ok_and(|it| it.kind == RecordKind::ID_INDEX)
}

#[cfg(test)]
mod tests {
    use crate::perfdata::Endian;
    use crate::perfdata::U64s;

    use super::*;

    /// What `event_name` gives with tracing data of `sched:sched_switch`, which is number 372.
    #[track_caller]
    fn check(kind: u32, config: u64, want: &str) {
        let format = b"name: sched_switch\nID: 372\nformat:\n";
        let long = |len: usize| (len as u64).to_le_bytes().to_vec();
        let tracing_data = [
            b"\x17\x08\x44tracing0.6\0\0\x08\0\x10\0\0".to_vec(),
            [b"header_page\0".to_vec(), long(0), b"header_event\0".to_vec(), long(0)].concat(),
            [[0, 0, 0, 0, 1, 0, 0, 0].as_slice(), b"sched\0\x01\0\0\0"].concat(),
            [long(format.len()), format.to_vec(), vec![0; 16]].concat(),
        ];
        let header = FileHeader::Pipe { endian: Endian::Little };
        let mut recording = Recording::new(header, Section::default());
        recording.add_event(Attr { kind, config, ..Attr::default() }, vec![]);
        let content = Ok(Feature::TracingData(tracing_data.concat()));
        let section = FeatureSection { id: FeatureId::TRACING_DATA, at: FileOffset(0), content };
        recording.features.push(section);
        recording.name_events();
        assert_eq!(recording.events[0].name, want);
    }

    #[test]
    fn a_feature_that_no_record_of_a_pipe_holds_is_found_in_private_records() {
        let mut pipe = Vec::new();
        FileHeader::Pipe { endian: Endian::NATIVE }.encode(&mut pipe);
        let attr = Box::new(Attr { size: 128, kind: 1, ..Attr::default() });
        let ids = U64s::new(&[], Endian::NATIVE);
        let record = Record::User(UserRecord::HeaderAttr { attr, ids });
        record.encode(RecordKind::HEADER_ATTR, 0, &[], &mut pipe).unwrap();
        let mut data = Vec::new();
        let argument = feature::Text::from("x".repeat(70_000));
        let command = Feature::CommandLine(vec![argument]);
        command.encode(&mut data);
        let message = FeaturePayload { id: u64::from(FeatureId::CMDLINE.0), data };
        Message::Feature(message).encode(0, &mut pipe);
        let recording = Recording::open(&pipe.as_slice()).unwrap();
        assert_eq!(recording.feature(FeatureId::CMDLINE), Some(&command));
    }

    #[test]
    fn a_tracepoint_without_a_description_is_named_by_its_format() {
        check(2, 372, "sched:sched_switch");
        check(2, 373, "unknown tracepoint id=0x175");
        check(4, 372, "raw 0x174");
    }
}
