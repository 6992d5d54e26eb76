//! What the records of a recording say of BPF programs, as the first pass notes it.

use rustc_hash::FxHashMap;

use crate::perfdata::BpfEvent;
use crate::perfdata::BpfMetadata;
use crate::perfdata::SampleId;
use crate::perfdata::private::Inflation;
use crate::perfdata::private::Message;
use crate::perfdata::private::TracepointPrograms;
use crate::replay::spans::Moment;
use crate::units::BpfTag;
use crate::units::FileOffset;
use crate::units::Nanos;
use crate::units::Pid;
use crate::units::ProgId;
use crate::units::Tid;

/// What the records say of BPF programs, in the order of the file.
#[derive(Debug, Default)]
pub struct Notes {
    pub(super) records: Vec<Note>,
    /// The private messages, whole.
    pub(super) messages: Vec<Message>,
    /// What its files inflate to.
    inflation: Inflation,
    /// Files for which there was no room.
    n_left_out: u64,
    /// Where the `BPF_EVENT` stands that nothing but metadata has followed.
    last_event: Option<u64>,
}

/// One record, boiled down.
#[derive(Debug)]
pub(super) struct Note {
    /// When it holds; time 0 where the record has none.
    pub(super) moment: Moment,
    /// The task that was current, where the record says so and is not synthesized.
    pub(super) task: Option<(Pid, Tid)>,
    pub(super) kind: NoteKind,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoteKind {
    /// A symbol of BPF came: a number of the timeline's.
    Register { ksymbol: u32 },
    /// The symbol that begins at an address went.
    Unregister { addr: u64 },
    /// A program is there.
    Load { id: ProgId, tag: BpfTag },
    /// A program is gone.
    Unload { id: ProgId, tag: BpfTag },
    /// What the owner of a program says of it.
    Metadata {
        /// The name of one of the program's functions, in whose spelling ever.
        name: Vec<u8>,
        entries: Vec<(String, String)>,
        /// Where the `BPF_EVENT` stands that it directly follows.
        after: Option<u64>,
    },
}

impl Notes {
    /// The private messages, whole.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Files that were left out, since they would inflate to more than there is room for.
    pub(in crate::replay) fn n_left_out(&self) -> u64 {
        self.n_left_out
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.messages.is_empty()
    }

    /// The programs on the recorded tracepoints, as they were looked up, in the order of the file.
    pub fn tracepoints(&self) -> impl Iterator<Item = &TracepointPrograms> {
        self.messages.iter().filter_map(|it| match it {
            Message::Tracepoint(it) => Some(it),
            _ => None,
        })
    }

    /// A symbol came by the record at `at`; it has its number later, by [`Notes::number`].
    pub(in crate::replay) fn register(&mut self, at: FileOffset, id: SampleId) {
        self.push(at, id, NoteKind::Register { ksymbol: u32::MAX });
    }

    /// The symbol that begins at `addr` went.
    pub(in crate::replay) fn unregister(&mut self, at: FileOffset, id: SampleId, addr: u64) {
        self.push(at, id, NoteKind::Unregister { addr });
    }

    /// A program came or went.
    pub(in crate::replay) fn event(&mut self, at: FileOffset, id: SampleId, event: BpfEvent) {
        let BpfEvent { kind, flags: _, id: program, tag } = event;
        match kind {
            BpfEvent::PROG_LOAD => self.push(at, id, NoteKind::Load { id: program, tag }),
            BpfEvent::PROG_UNLOAD => self.push(at, id, NoteKind::Unload { id: program, tag }),
            _ => return,
        }
        self.last_event = Some(at.0);
    }

    /// The owner of a program says something of it.
    pub(in crate::replay) fn metadata(&mut self, at: FileOffset, metadata: &BpfMetadata<'_>) {
        let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
        let entries = metadata.entries().map(|(key, value)| (text(key), text(value))).collect();
        let (name, after) = (metadata.prog_name.to_vec(), self.last_event);
        let moment = Moment { time: Nanos(0), position: at.0 };
        let kind = NoteKind::Metadata { name, entries, after };
        self.records.push(Note { moment, task: None, kind });
    }

    /// A private message is whole. A file that would inflate to more than there is room for is counted
    /// and left out.
    pub(in crate::replay) fn message(&mut self, message: Message) {
        if let Message::File(file) = &message
            && !self.inflation.admits(file)
        {
            self.n_left_out = self.n_left_out.saturating_add(1);
            return;
        }
        self.messages.push(message);
    }

    /// A record came that is not of BPF, so that metadata after it is not its neighbor's.
    pub(in crate::replay) fn other(&mut self) {
        self.last_event = None;
    }

    /// Gives each symbol its number, by the place of its record.
    pub(in crate::replay) fn number(&mut self, ksymbols: &FxHashMap<u64, u32>) {
        for note in &mut self.records {
            if let NoteKind::Register { ksymbol } = &mut note.kind
                && let Some(&number) = ksymbols.get(&note.moment.position)
            {
                *ksymbol = number;
            }
        }
    }

    /// Notes a record whose trailer is `id`, with a time only if that is one.
    fn push(&mut self, at: FileOffset, id: SampleId, kind: NoteKind) {
        self.last_event = None;
        let moment = Moment { time: id.time.unwrap_or_default(), position: at.0 };
        // What is synthesized has zeros in its trailer.
        let task = id.time.and(id.task);
        self.records.push(Note { moment, task, kind });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perfdata::private::FileFacts;
    use crate::perfdata::private::SavedFile;

    #[test]
    fn saved_files_inflate_as_far_as_the_length_of_the_recording_allows() {
        let file = |len: u64, compressed: usize| {
            let facts = FileFacts { len: len << 20, ..FileFacts::default() };
            Message::File(SavedFile { facts, compressed: vec![0; compressed << 20] })
        };
        let mut notes = Notes::default();
        // Bombs, of which the first two fit.
        (0..5).for_each(|_| notes.message(file(64, 0)));
        assert_eq!((notes.messages.len(), notes.n_left_out()), (2, 3));
        // Others are as ever.
        notes.message(file(32, 1));
        notes.message(file(33, 1));
        notes.message(file(u64::MAX >> 20, 1));
        assert_eq!((notes.messages.len(), notes.n_left_out()), (3, 5));
    }
}
