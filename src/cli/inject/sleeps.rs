//! How long tasks slept, told by the samples of where they went to sleep.

use std::collections::BTreeMap;

use crate::perfdata::Cursor;
use crate::perfdata::RawRecord;
use crate::perfdata::ReadAt;
use crate::perfdata::RecordHeader;
use crate::perfdata::RecordKind;
use crate::perfdata::RecordWalk;
use crate::perfdata::SampleType;
use crate::perfdata::feature::Feature;
use crate::perfdata::feature::FeatureId;
use crate::perfdata::read_up_to;
use crate::perfdata::trace_format::EventFormat;
use crate::perfdata::trace_format::name_and_id;
use crate::perfdata::tracing_data::TracingData;
use crate::replay::Event;
use crate::replay::Recording;
use crate::units::FileOffset;
use crate::units::Nanos;
use crate::units::Tid;

use super::Fate;
use super::input::Input;
use super::message::Failure;

/// What an event of the scheduler says here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// `sched_switch`: where a thread left its CPU.
    Left,
    /// `sched_stat_*`: how long a thread was away; where its number stands in what was noted.
    Was { pid_at: usize },
    /// `sched_process_exit`: that it does not come back.
    Exited,
}

/// Puts the time that a thread was away into the sample of where it left its CPU.
#[derive(Debug)]
pub(super) struct Sleeps<'a> {
    file: &'a Input,
    recording: &'a Recording,
    roles: Vec<Option<Role>>,
    /// The samples of switches that those of times belong to, by the place of the latter.
    left_at: BTreeMap<u64, u64>,
}

impl<'a> Sleeps<'a> {
    /// Finds out which samples belong together: in the order of time, which is not that of the file.
    pub(super) fn new(file: &'a Input, recording: &'a Recording) -> Result<Self, Failure> {
        let roles = roles(recording);
        let has = |is: fn(&Role) -> bool| roles.iter().flatten().any(is);
        if !has(|it| *it == Role::Left) || !has(|it| matches!(it, Role::Was { .. })) {
            return Err(Failure::new("cannot merge the times of sleepers")
                .cause("it takes samples of `sched:sched_switch` and of `sched:sched_stat_*`"));
        }
        let mut this = Self { file, recording, roles, left_at: BTreeMap::new() };
        let mut met: Vec<(Nanos, u64, Role, Tid)> = Vec::new();
        for section in &recording.data {
            let mut walk = RecordWalk::new(file, *section, recording.header.endian());
            while let Ok(Some(raw)) = walk.next() {
                if let Some((event, role)) = this.role(&raw) {
                    let time = event.sample.time(raw.body).unwrap_or_default();
                    if let Some(tid) = this.task(event, role, raw.body) {
                        met.push((time, raw.at.0, role, tid));
                    }
                }
            }
        }
        met.sort_unstable_by_key(|&(time, at, ..)| (time, at));
        let mut away: BTreeMap<Tid, u64> = BTreeMap::new();
        for (_, at, role, tid) in met {
            match role {
                Role::Left => _ = away.insert(tid, at),
                Role::Exited => _ = away.remove(&tid),
                Role::Was { .. } => {
                    if let Some(left) = away.get(&tid) {
                        this.left_at.insert(at, *left);
                    }
                }
            }
        }
        Ok(this)
    }

    fn role(&self, raw: &RawRecord<'_>) -> Option<(&'a Event, Role)> {
        if raw.header.kind != RecordKind::SAMPLE {
            return None;
        }
        let event = usize::try_from(self.recording.event_of_sample(raw.body)?).ok()?;
        Some((self.recording.events.get(event)?, (*self.roles.get(event)?)?))
    }

    /// Whose sample it is.
    fn task(&self, event: &Event, role: Role, body: &[u8]) -> Option<Tid> {
        let Role::Was { pid_at } = role else {
            return event.sample.task(body).map(|(_, tid)| tid);
        };
        let raw = event.sample.raw(body).ok()??;
        let pid = raw.get(pid_at..)?.first_chunk()?;
        Some(Tid(self.recording.header.endian().u32(*pid).cast_signed()))
    }

    /// Writes `raw` to `out` as what it is to be.
    pub(super) fn record(&self, raw: &RawRecord<'_>, out: &mut Vec<u8>) -> Fate {
        let Some((event, role)) = self.role(raw) else { return Fate::Kept };
        let Role::Was { .. } = role else { return Fate::Dropped };
        let merged = self.left_at.get(&raw.at.0).and_then(|&at| self.merged(at, event, raw, out));
        if merged.is_some() { Fate::Written } else { Fate::Dropped }
    }

    /// Writes the sample at `left` with the time and the period of `raw`, which `event` wrote.
    fn merged(
        &self,
        left: u64,
        event: &Event,
        raw: &RawRecord<'_>,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let file: &dyn ReadAt = self.file;
        let bytes = read_up_to(file, FileOffset(left), u64::from(u16::MAX)).ok()?;
        let mut cursor = Cursor::new(&bytes, FileOffset(left), self.recording.header.endian());
        let header = RecordHeader::decode(&mut cursor).ok()?;
        let body = bytes.get(usize::from(RecordHeader::SIZE)..usize::from(header.size))?;
        let of = usize::try_from(self.recording.event_of_sample(body)?).ok()?;
        let layout = &self.recording.events.get(of)?.sample;
        let mut sample = layout.decode(body, FileOffset(left)).ok()?;
        sample.time = event.sample.time(raw.body);
        sample.period = Some(event.sample.period(raw.body));
        let start = out.len();
        out.extend(header.kind.0.to_ne_bytes());
        out.extend(header.misc.to_ne_bytes());
        out.extend(header.size.to_ne_bytes());
        layout.encode(&sample, out);
        (out.len() - start == usize::from(header.size)).then_some(()).or_else(|| {
            out.truncate(start);
            None
        })
    }
}

/// What the events of `recording` say.
fn roles(recording: &Recording) -> Vec<Option<Role>> {
    let formats = match recording.feature(FeatureId::TRACING_DATA) {
        Some(Feature::TracingData(bytes)) => TracingData::decode(bytes, FileOffset(0)).ok(),
        _ => None,
    };
    let pid_at = |id: u64| {
        let data = formats.as_ref()?;
        let text = data.formats.iter().find_map(|it| {
            let text = String::from_utf8_lossy(it.text);
            (name_and_id(&text)?.1 == id).then_some(text)
        })?;
        let format = EventFormat::parse(&text, data.long_len)?;
        format.own_fields().iter().find(|it| it.name == "pid").map(|it| it.offset)
    };
    let role = |event: &Event| {
        let has_tasks = event.attr.sample_type.contains(SampleType::TID);
        match event.name.strip_prefix("sched:")? {
            "sched_switch" if has_tasks => Some(Role::Left),
            "sched_process_exit" if has_tasks => Some(Role::Exited),
            name if name.starts_with("sched_stat_") => {
                Some(Role::Was { pid_at: pid_at(event.attr.config)? })
            }
            _ => None,
        }
    };
    recording.events.iter().map(role).collect()
}
