//! The trailer that every record but `SAMPLE` carries with `sample_id_all`.

use crate::units::FileOffset;
use crate::units::Nanos;
use crate::units::Pid;
use crate::units::Tid;

use super::Attr;
use super::AttrFlags;
use super::Cursor;
use super::Endian;
use super::SampleType;

/// When, where and for which event a record was written; what the event does not ask for is `None`.
///
/// Source: `struct sample_id` in `include/uapi/linux/perf_event.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleId {
    /// The task that was current.
    pub task: Option<(Pid, Tid)>,
    /// The time.
    pub time: Option<Nanos>,
    /// The id of the event.
    pub id: Option<u64>,
    /// The id of the event itself where `id` is that of its group.
    pub stream_id: Option<u64>,
    /// The CPU.
    pub cpu: Option<u32>,
}

/// Where the fields of a [`SampleId`] lie for one event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleIdLayout {
    fields: SampleType,
}

impl SampleIdLayout {
    /// The layout of the records that an event with `attr` writes.
    pub fn new(attr: &Attr) -> Self {
        let all = SampleType::TID
            | SampleType::TIME
            | SampleType::ID
            | SampleType::STREAM_ID
            | SampleType::CPU
            | SampleType::IDENTIFIER;
        if attr.flags.contains(AttrFlags::SAMPLE_ID_ALL) {
            Self { fields: attr.sample_type & all }
        } else {
            Self::default()
        }
    }

    /// The length of the trailer in bytes: 8 a field.
    pub fn trailer_len(self) -> usize {
        usize::try_from(self.fields.bits().count_ones()).unwrap_or(0).saturating_mul(8)
    }

    /// Splits the body of a record into what is its own and its trailer.
    ///
    /// A body that is too short for the trailer is all its own, as before Linux 2.6.38.
    pub fn split(self, body: &[u8], endian: Endian) -> (&[u8], SampleId) {
        let own_len = body.len().checked_sub(self.trailer_len());
        let Some((own, trailer)) = own_len.and_then(|len| body.split_at_checked(len)) else {
            return (body, SampleId::default());
        };
        (own, self.decode(trailer, endian))
    }

    fn decode(self, trailer: &[u8], endian: Endian) -> SampleId {
        // The length was checked: a field that is there can be read.
        let mut cursor = Cursor::new(trailer, FileOffset(0), endian);
        let mut this = SampleId::default();
        let has = |field| self.fields.contains(field);
        if has(SampleType::TID) {
            let (pid, tid) = (cursor.i32("pid"), cursor.i32("tid"));
            this.task = pid.ok().zip(tid.ok()).map(|(pid, tid)| (Pid(pid), Tid(tid)));
        }
        if has(SampleType::TIME) {
            this.time = cursor.u64("time").ok().map(Nanos);
        }
        if has(SampleType::ID) {
            this.id = cursor.u64("id").ok();
        }
        if has(SampleType::STREAM_ID) {
            this.stream_id = cursor.u64("stream_id").ok();
        }
        if has(SampleType::CPU) {
            this.cpu = cursor.u32("cpu").ok();
            cursor.u32("res").ok();
        }
        if has(SampleType::IDENTIFIER) {
            this.id = cursor.u64("identifier").ok();
        }
        this
    }

    /// Appends the trailer; a field that `values` lacks is written as 0.
    pub fn encode(self, values: &SampleId, out: &mut Vec<u8>) {
        let has = |field| self.fields.contains(field);
        if has(SampleType::TID) {
            let (Pid(pid), Tid(tid)) = values.task.unwrap_or_default();
            out.extend(pid.to_ne_bytes());
            out.extend(tid.to_ne_bytes());
        }
        if has(SampleType::TIME) {
            out.extend(values.time.unwrap_or_default().0.to_ne_bytes());
        }
        if has(SampleType::ID) {
            out.extend(values.id.unwrap_or(0).to_ne_bytes());
        }
        if has(SampleType::STREAM_ID) {
            out.extend(values.stream_id.unwrap_or(0).to_ne_bytes());
        }
        if has(SampleType::CPU) {
            out.extend(values.cpu.unwrap_or(0).to_ne_bytes());
            out.extend([0; 4]);
        }
        if has(SampleType::IDENTIFIER) {
            out.extend(values.id.unwrap_or(0).to_ne_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(sample_type: SampleType) -> SampleIdLayout {
        let flags = AttrFlags::SAMPLE_ID_ALL;
        SampleIdLayout::new(&Attr { sample_type, flags, ..Attr::default() })
    }

    #[test]
    fn the_trailer_is_read_from_the_end() {
        let layout = layout(
            SampleType::IP
                | SampleType::TID
                | SampleType::TIME
                | SampleType::CPU
                | SampleType::IDENTIFIER,
        );
        let values = SampleId {
            task: Some((Pid(7), Tid(8))),
            time: Some(Nanos(9)),
            id: Some(11),
            stream_id: None,
            cpu: Some(3),
        };
        let mut body = b"own".to_vec();
        layout.encode(&values, &mut body);
        assert_eq!(body.len(), 3 + 32);
        assert_eq!(layout.split(&body, Endian::NATIVE), (&b"own"[..], values));
    }

    #[test]
    fn without_sample_id_all_there_is_no_trailer() {
        let attr = Attr { sample_type: SampleType::TID, ..Attr::default() };
        let layout = SampleIdLayout::new(&attr);
        assert_eq!(layout.trailer_len(), 0);
        assert_eq!(layout.split(b"own", Endian::NATIVE), (&b"own"[..], SampleId::default()));
    }

    #[test]
    fn a_body_shorter_than_the_trailer_has_none() {
        let layout = layout(SampleType::TID | SampleType::TIME);
        assert_eq!(layout.split(&[1; 15], Endian::Little), (&[1; 15][..], SampleId::default()));
    }
}
