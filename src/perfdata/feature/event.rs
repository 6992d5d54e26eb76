//! The events of a recording as its header describes them.

use crate::perfdata::Attr;
use crate::perfdata::Cursor;
use crate::perfdata::Result;

use super::Text;
use super::count;

/// `HEADER_EVENT_DESC`: the events with the names that the user gave them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventDescs {
    /// The bytes that each attribute takes in the section.
    pub attr_size: u32,
    /// The events, in the order of the file's attributes.
    pub events: Vec<EventDesc>,
}

/// One event of [`EventDescs`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventDesc {
    /// Its attribute.
    pub attr: Attr,
    /// Its name.
    pub name: Text,
    /// Its ids, one for each time it was opened.
    pub ids: Vec<u64>,
}

impl EventDescs {
    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let n_events = cursor.u32("number of events")?;
        let attr_size = cursor.u32("attr size of event descriptions")?;
        let attr_len = usize::try_from(attr_size).unwrap_or(usize::MAX);
        let event = |it: &mut Cursor<'_>| {
            let (at, endian) = (it.at(), it.endian());
            let attr = it.bytes(attr_len, "event description attr")?;
            let attr = Attr::decode(&mut Cursor::new(attr, at, endian))?;
            let n_ids = it.u32("number of event ids")?;
            let name = Text::decode(it, "event name")?;
            let ids = (0..n_ids).map(|_| it.u64("event id")).collect::<Result<_>>()?;
            Ok(EventDesc { attr, name, ids })
        };
        let events = (0..n_events).map(|_| event(cursor)).collect::<Result<_>>()?;
        Ok(Self { attr_size, events })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let Self { attr_size, events } = self;
        out.extend(count(events.len()).to_ne_bytes());
        out.extend(attr_size.to_ne_bytes());
        for EventDesc { attr, name, ids } in events {
            attr.encode(*attr_size, out);
            out.extend(count(ids.len()).to_ne_bytes());
            name.encode(out);
            out.extend(ids.iter().flat_map(|id| id.to_ne_bytes()));
        }
    }
}

/// One group of `HEADER_GROUP_DESC`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDesc {
    /// The group's name, or [`GroupDesc::ANONYMOUS`].
    pub name: Text,
    /// The index of its leader among the events.
    pub leader_idx: u32,
    /// How many events it has, its leader included; they follow the leader.
    pub n_members: u32,
}

impl GroupDesc {
    /// The name of a group that has none.
    pub const ANONYMOUS: &'static str = "{anon_group}";

    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        Ok(Self {
            name: Text::decode(cursor, "group name")?,
            leader_idx: cursor.u32("group leader")?,
            n_members: cursor.u32("number of group members")?,
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let Self { name, leader_idx, n_members } = self;
        name.encode(out);
        out.extend(leader_idx.to_ne_bytes());
        out.extend(n_members.to_ne_bytes());
    }
}
