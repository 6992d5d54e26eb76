//! A recording as a stream: its events and features as records before all others.

use std::io;
use std::io::Write;

use crate::perfdata::BuildIdEntry;
use crate::perfdata::Endian;
use crate::perfdata::FileHeader;
use crate::perfdata::Record;
use crate::perfdata::RecordKind;
use crate::perfdata::U64s;
use crate::perfdata::UserRecord;
use crate::perfdata::feature;
use crate::perfdata::feature::Feature;
use crate::perfdata::feature::FileBuildId;
use crate::perfdata::private::FeaturePayload;
use crate::perfdata::private::Message;
use crate::perfdata::read_up_to;
use crate::units::BuildId;
use crate::units::FileOffset;
use crate::units::Pid;

use super::Convert;
use super::EVENT_UPDATE_NAME;
use super::Form;
use super::Rewrites;
use super::Source;
use super::cpu_mode;
use super::message;
use super::message::Failure;

impl Source<'_> {
    /// Writes the recording as a stream.
    pub(super) fn stream(
        &self,
        rewrites: &mut Rewrites<'_>,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let cannot = |error: io::Error| Failure::because("cannot write the recording", &error);
        let is_pipe = matches!(self.recording.header, FileHeader::Pipe { .. });
        if is_pipe && self.chains == Convert::Yes {
            return Err(Failure::new("cannot make call chains")
                .cause("a stream tells of its events among its records")
                .hint("write a file first, with `-o FILE`"));
        }
        let mut head = Vec::new();
        if is_pipe && !self.is_native() {
            if !self.known.is_empty() {
                return Err(self.foreign());
            }
            let raw = read_up_to(self.file.raw(), FileOffset(0), 16);
            head = raw.map_err(|error| self.cannot_read(error))?;
        } else if !self.is_native() {
            return Err(self.foreign());
        } else {
            FileHeader::Pipe { endian: Endian::NATIVE }.encode(&mut head);
        }
        if !is_pipe {
            self.events_and_features(&mut head)?;
        }
        for (path, id) in self.known {
            put(RecordKind::BUILD_ID, cpu_mode(path), build_id_record(path, *id), &mut head);
        }
        out.write_all(&head).map_err(cannot)?;
        self.records(rewrites, out, Form::Stream, &cannot)?;
        Ok(())
    }

    /// What a file has in sections as records of a stream.
    fn events_and_features(&self, out: &mut Vec<u8>) -> Result<(), Failure> {
        let size = self.recording.events.iter().map(|it| it.attr.needed_size()).max();
        for event in &self.recording.events {
            let mut attr = self.attr(&event.attr);
            // Older readers take this much, whatever it says.
            attr.size = size.unwrap_or_default().max(128);
            let ids: Vec<u8> = event.ids.iter().flat_map(|it| it.to_ne_bytes()).collect();
            let ids =
                U64s::new(ids.get(..ids.len().min(60_000)).unwrap_or_default(), Endian::NATIVE);
            let record = UserRecord::HeaderAttr { attr: Box::new(attr), ids };
            put(RecordKind::HEADER_ATTR, 0, record, out);
        }
        let is_one = self.recording.events.len() == 1;
        for event in &self.recording.events {
            // perf makes up a name of its own for an event that has none by the first sample. It takes no
            // id for the only event's.
            let id = event.ids.first().copied().or(is_one.then_some(0));
            let Some(id) = id else { continue };
            let name = [event.name.as_bytes(), b"\0"].concat();
            let record = UserRecord::EventUpdate { kind: EVENT_UPDATE_NAME, id, data: &name };
            put(RecordKind::EVENT_UPDATE, 0, record, out);
        }
        let features: Vec<Feature> = self
            .recording
            .features
            .iter()
            .filter_map(|it| it.content.as_ref().ok())
            .filter(|it| !matches!(it, Feature::Compressed(_)))
            .map(|it| match it {
                Feature::Events(events) => self.described(events),
                other => other.clone(),
            })
            .collect();
        let feature::PipeBodies { bodies, apart, n_too_long: _ } = feature::pipe_bodies(&features);
        for body in bodies.iter().chain([&feature::pipe_end()]) {
            let Some((id, data)) = body.split_first_chunk() else { continue };
            let record = UserRecord::HeaderFeature { id: u64::from_ne_bytes(*id), data };
            put(RecordKind::HEADER_FEATURE, 0, record, out);
        }
        // The recording's own messages have the low numbers.
        for (number, (id, data)) in (0..=u32::MAX).rev().zip(apart) {
            let payload = FeaturePayload { id: u64::from(id.0), data };
            Message::Feature(payload).encode(number, out);
        }
        for feature in &features {
            match feature {
                Feature::TracingData(bytes) => {
                    let padded = bytes.len().next_multiple_of(8);
                    let size = u32::try_from(padded).map_err(|_| {
                        Failure::new("the formats of tracepoints are too long for a stream")
                    })?;
                    let record = UserRecord::TracingData { size };
                    put(RecordKind::TRACING_DATA, 0, record, out);
                    out.extend(bytes);
                    out.extend(std::iter::repeat_n(0, padded - bytes.len()));
                }
                Feature::BuildIds(entries) => {
                    for FileBuildId { cpu_mode, build_id, name, .. } in entries {
                        let record = build_id_record(name.as_bytes(), *build_id);
                        put(RecordKind::BUILD_ID, *cpu_mode, record, out);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn build_id_record(path: &[u8], build_id: Option<BuildId>) -> UserRecord<'_> {
    UserRecord::BuildId(BuildIdEntry { pid: Pid(-1), build_id, filename: path })
}

fn put(kind: RecordKind, misc: u16, record: UserRecord<'_>, out: &mut Vec<u8>) {
    let misc = if kind == RecordKind::BUILD_ID { misc | BuildIdEntry::HAS_SIZE } else { misc };
    if let Err(error) = Record::User(record).encode(kind, misc, &[], out) {
        message::warn(&format!("a record of {} bytes does not fit into a stream", error.len));
    }
}
