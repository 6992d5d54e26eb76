//! Our own records: what we know of BPF programs and of files, and perf's format has no place for.
//!
//! They travel in records of kind 65 (`PERF_RECORD_HEADER_EVENT_TYPE`), which perf has retired and
//! skips. A *message* is cut into parts, one a record; the parts of one message come in order, with
//! any other records between them.
//!
//! ```text
//!   header            8 bytes, kind 65
//!   magic             8 bytes, `BPFPERF\0`
//!   u16 version       1
//!   u16 kind          of the message
//!   u32 len           bytes of the payload in this part
//!   u32 part          of this message, from 0
//!   u32 n_parts       of this message
//!   u32 number        of this message, distinct in a recording
//!   u32 reserved      0
//!   payload           `len` bytes, zeros up to a multiple of 8 and to 80 bytes in all
//! ```
//!
//! The payload of [`Message::Feature`] is a `u64` and bytes, that of [`Message::File`] JSON and bytes; that of
//! every other kind is JSON, whose unknown members a reader passes over. `docs/private-records.md` is the reference.

mod file;
mod object;

use std::collections::HashMap;

use serde::Deserialize;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use file::FileFacts;
pub use file::Inflation;
pub use file::Inode;
pub use file::SavedFile;
pub use object::BpfObject;
pub use object::ObjectMap;
pub use object::ObjectOutput;
pub use object::ObjectProgram;
pub use object::ObjectValues;
pub use object::ObjectVariable;
pub use object::digits;

use super::Cursor;
use super::Endian;
use super::Error;
use super::RecordKind;
use super::Result;
use super::cursor::widen;
use crate::units::FileOffset;

/// What every part begins with.
const MAGIC: [u8; 8] = *b"BPFPERF\0";

/// The version that is written, and the only one that is read.
const VERSION: u16 = 1;

/// What stands before the payload, in bytes, without the record's header.
const HEAD_LEN: usize = 32;

/// Where the number of a part stands, in bytes from the magic.
const PART_AT: u64 = 16;

/// The least size of a record, in bytes: perf warns of smaller ones.
const MIN_RECORD_LEN: usize = 80;

/// The most bytes of payload in one part: what a record's size can say, a multiple of 8, less heads.
const MAX_PART_LEN: usize = 65_528 - 8 - HEAD_LEN;

/// One message, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A feature's payload that is too long for a record of a pipe.
    Feature(FeaturePayload),
    /// What the owner of a program says of it, uncut.
    Metadata(ProgramMetadata),
    /// Where a program sat, and who held it.
    Program(ProgramState),
    /// The programs on a recorded tracepoint.
    Tracepoint(TracepointPrograms),
    /// How often programs had run, and for how long.
    Runs(Runs),
    /// What the functions are called that programs call.
    Symbols(KernelSymbols),
    /// A BPF object whose programs are events.
    Object(BpfObject),
    /// What such an object's programs have counted.
    Values(ObjectValues),
    /// A file that nobody could find when the recording is read.
    File(SavedFile),
    /// Moments on the recording's clock and on others, and where it was made.
    Clocks(Clocks),
    /// A kind that this version does not know.
    Unknown {
        /// Its number.
        kind: u16,
        /// Its payload.
        payload: Vec<u8>,
    },
}

/// The payload of a feature with one entry, in the byte order of the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeaturePayload {
    /// The number of the feature.
    pub id: u64,
    /// What would stand in its section.
    pub data: Vec<u8>,
}

/// What the owner of a program says of it by `bpf_metadata_*` variables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgramMetadata {
    /// The program's id.
    pub id: u32,
    /// When it was loaded, in nanoseconds since boot (`bpf_prog_info.load_time`).
    pub load_time_ns: u64,
    /// Keys, without `bpf_metadata_`, and values as text.
    pub entries: Vec<(String, String)>,
}

/// Where a program sat, and who held it, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgramState {
    /// The program's id.
    pub id: u32,
    /// When it was loaded, in nanoseconds since boot.
    pub load_time_ns: u64,
    /// The moment, in nanoseconds since boot (`CLOCK_BOOTTIME`).
    pub boot_ns: u64,
    /// The maps that it uses.
    pub maps: Vec<MapState>,
    /// The links that attach it.
    pub links: Vec<LinkState>,
    /// The paths in bpffs that hold it.
    pub pins: Vec<String>,
    /// The processes that hold it or its links.
    pub holders: Vec<Holder>,
}

/// A map of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MapState {
    /// The map's id.
    pub id: u32,
    /// Its name, at most 15 bytes.
    pub name: String,
    /// Its type in the words of `enum bpf_map_type`, lower case, such as `hash` or `ringbuf`.
    pub kind: String,
}

/// A link: what attaches a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkState {
    /// The link's id.
    pub id: u32,
    /// Its type in the words of `enum bpf_link_type`, lower case, such as `raw_tracepoint`.
    pub kind: String,
    /// Its attach type in the words of `enum bpf_attach_type`, lower case, where it has one.
    pub attach_type: Option<String>,
    /// What it is attached to: the tracepoint, the function, the interface, the cgroup.
    pub target: Option<String>,
    /// The paths in bpffs that hold it.
    pub pins: Vec<String>,
}

/// A process that holds a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Holder {
    /// Its id.
    pub pid: i32,
    /// Its name.
    pub comm: String,
    /// The kind of descriptor that it holds: `prog`, `link` or `perf_event`.
    pub via: String,
}

/// The programs on a tracepoint that is recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TracepointPrograms {
    /// The event, such as `sched:sched_switch`.
    pub event: String,
    /// The moment, in nanoseconds since boot.
    pub boot_ns: u64,
    /// How many the kernel says are attached by perf events (`prog_cnt`), listed or not.
    pub n_programs: u32,
    /// Those that are known.
    pub programs: Vec<Attached>,
    /// Why the kernel did not say, if it did not.
    pub refused: Option<String>,
}

/// A program on a tracepoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Attached {
    /// The program's id.
    pub id: u32,
    /// When it was loaded, in nanoseconds since boot; 0 if that is not known.
    pub load_time_ns: u64,
    /// Its own name, without its tag.
    pub name: String,
    /// By what: `perf_event`, `raw_tracepoint`, `tp_btf` (a raw tracepoint with types), `tracing`.
    pub how: String,
    /// The id of the link, where there is one.
    pub link: Option<u32>,
    /// Whether it decides by its return value if the tracepoint's samples are written.
    pub can_drop: bool,
}

/// One reading of the counters of programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Runs {
    /// The moment, in nanoseconds since boot.
    pub boot_ns: u64,
    /// Whether the kernel was counting.
    pub counted: bool,
    /// The counters.
    pub programs: Vec<ProgramRuns>,
}

/// The counters of a program since it was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgramRuns {
    /// The program's id.
    pub id: u32,
    /// When it was loaded, in nanoseconds since boot.
    pub load_time_ns: u64,
    /// How often it ran while the kernel counted.
    pub run_cnt: u64,
    /// For how long, in nanoseconds.
    pub run_time_ns: u64,
    /// How often it was passed over because it ran already.
    pub recursion_misses: u64,
}

/// Functions of the kernel, where the recorded one ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelSymbols {
    /// One after the other.
    pub symbols: Vec<KernelFunction>,
}

/// A function of the kernel or of one of its modules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelFunction {
    /// Its first address.
    pub addr: u64,
    /// Its length in bytes, up to the next symbol.
    pub len: u64,
    /// Its name.
    pub name: String,
    /// Its module; `None` for the kernel itself.
    pub module: Option<String>,
}

/// Moments on several clocks, by which times of one become times of another, and whose clocks they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Clocks {
    /// One after the other.
    pub readings: Vec<ClockReading>,
    /// When the recording ended, in nanoseconds since 1970; 0 where that is not known.
    pub ended_ns: u64,
    /// Which boot of which machine it was, as `/proc/sys/kernel/random/boot_id` has it; empty where that
    /// is not known.
    pub boot_id: String,
    /// The inode of the namespace that numbers of processes are of; 0 where that is not known.
    pub pid_namespace: u64,
}

/// One moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockReading {
    /// On the recording's clock, in nanoseconds.
    pub recorded_ns: u64,
    /// On `CLOCK_MONOTONIC`, in nanoseconds.
    pub monotonic_ns: u64,
    /// On the wall clock, in nanoseconds since 1970; 0 where that is not known.
    pub realtime_ns: u64,
}

impl Message {
    fn kind(&self) -> u16 {
        match self {
            Self::Feature(_) => 1,
            Self::Metadata(_) => 2,
            Self::Program(_) => 3,
            Self::Tracepoint(_) => 4,
            Self::Runs(_) => 5,
            Self::Symbols(_) => 6,
            Self::Object(_) => 7,
            Self::Values(_) => 8,
            Self::File(_) => 9,
            Self::Clocks(_) => 10,
            Self::Unknown { kind, .. } => *kind,
        }
    }

    /// What it says as JSON; `None` for what is not JSON in the file.
    pub fn to_json(&self) -> Option<String> {
        match self {
            Self::Feature(_) | Self::File(_) | Self::Unknown { .. } => None,
            Self::Metadata(it) => json(it),
            Self::Program(it) => json(it),
            Self::Tracepoint(it) => json(it),
            Self::Runs(it) => json(it),
            Self::Symbols(it) => json(it),
            Self::Object(it) => json(it),
            Self::Values(it) => json(it),
            Self::Clocks(it) => json(it),
        }
    }

    fn payload(&self) -> Vec<u8> {
        match self {
            Self::Feature(FeaturePayload { id, data }) => {
                let mut payload = id.to_ne_bytes().to_vec();
                payload.extend_from_slice(data);
                payload
            }
            Self::File(file) => file.payload(),
            Self::Unknown { payload, .. } => payload.clone(),
            _ => self.to_json().unwrap_or_default().into_bytes(),
        }
    }

    /// Appends the message as records; `number` tells it from all others of the recording.
    pub fn encode(&self, number: u32, out: &mut Vec<u8>) {
        let payload = self.payload();
        let parts: Vec<&[u8]> =
            if payload.is_empty() { vec![&[]] } else { payload.chunks(MAX_PART_LEN).collect() };
        let n_parts = u32::try_from(parts.len()).unwrap_or(u32::MAX);
        for (part, payload) in (0_u32..).zip(parts) {
            let unpadded = payload.len().saturating_add(8 + HEAD_LEN);
            let size = unpadded.next_multiple_of(8).max(MIN_RECORD_LEN);
            let end = out.len().saturating_add(size);
            out.extend(RecordKind::EVENT_TYPE.0.to_ne_bytes());
            out.extend([0; 2]);
            // MAX_PART_LEN sees to it that this fits.
            out.extend(u16::try_from(size).unwrap_or(u16::MAX).to_ne_bytes());
            out.extend(MAGIC);
            out.extend(VERSION.to_ne_bytes());
            out.extend(self.kind().to_ne_bytes());
            out.extend(u32::try_from(payload.len()).unwrap_or(0).to_ne_bytes());
            out.extend(part.to_ne_bytes());
            out.extend(n_parts.to_ne_bytes());
            out.extend(number.to_ne_bytes());
            out.extend([0; 4]);
            out.extend_from_slice(payload);
            out.resize(end, 0);
        }
    }

    fn decode(kind: u16, payload: Vec<u8>, at: FileOffset, endian: Endian) -> Result<Self> {
        Ok(match kind {
            1 => {
                let mut cursor = Cursor::new(&payload, at, endian);
                let id = cursor.u64("private record feature id")?;
                Self::Feature(FeaturePayload { id, data: cursor.rest().to_vec() })
            }
            2 => Self::Metadata(from_json(&payload, at)?),
            3 => Self::Program(from_json(&payload, at)?),
            4 => Self::Tracepoint(from_json(&payload, at)?),
            5 => Self::Runs(from_json(&payload, at)?),
            6 => Self::Symbols(from_json(&payload, at)?),
            7 => Self::Object(from_json(&payload, at)?),
            8 => Self::Values(from_json(&payload, at)?),
            10 => Self::Clocks(from_json(&payload, at)?),
            9 => Self::File(SavedFile::decode(&mut Cursor::new(&payload, at, endian))?),
            kind => Self::Unknown { kind, payload },
        })
    }
}

fn json<T: Serialize>(value: &T) -> Option<String> {
    // Strings and numbers only: nothing in them that JSON has no form for.
    serde_json::to_string(value).ok()
}

fn from_json<T: DeserializeOwned>(payload: &[u8], at: FileOffset) -> Result<T> {
    serde_json::from_slice(payload)
        .map_err(|error| Error::BadPrivate { at, reason: error.to_string() })
}

/// What a kind of message is called.
pub fn kind_name(kind: u16) -> &'static str {
    match kind {
        1 => "feature",
        2 => "metadata",
        3 => "program",
        4 => "tracepoint",
        5 => "runs",
        6 => "symbols",
        7 => "object",
        8 => "values",
        9 => "file",
        10 => "clocks",
        _ => "unknown",
    }
}

/// Whether the payload of a kind of message is JSON.
pub fn is_json(kind: u16) -> bool {
    (2..=8).contains(&kind) || kind == 10
}

/// The JSON before the bytes of a message that has both, of its first part; `None` if it has none.
pub fn facts_of(kind: u16, payload: &[u8], endian: Endian) -> Option<&[u8]> {
    let mut cursor = Cursor::new(payload, FileOffset(0), endian);
    (kind == 9).then(|| file::facts(&mut cursor).ok())?
}

/// One part of a message, as one record holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// The kind of the message.
    pub kind: u16,
    /// Its number.
    pub number: u32,
    /// Which part this is, from 0.
    pub part: u32,
    /// How many there are.
    pub n_parts: u32,
    /// Its bytes.
    pub payload: &'a [u8],
}

impl<'a> Part<'a> {
    /// Decodes the body of a record of kind 65; `None` if it is not one of ours, or of a later
    /// version.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] if it has fewer bytes than it says, [`Error::BadField`] if its place
    /// among the parts cannot be.
    pub fn decode(cursor: &mut Cursor<'a>) -> Result<Option<Self>> {
        if !cursor.rest().starts_with(&MAGIC) {
            return Ok(None);
        }
        cursor.bytes(MAGIC.len(), "private record magic")?;
        if cursor.u16("private record version")? != VERSION {
            return Ok(None);
        }
        let kind = cursor.u16("private record kind")?;
        let len = cursor.u32("private record length")?;
        let at = cursor.at();
        let part = cursor.u32("private record part")?;
        let n_parts = cursor.u32("private record parts")?;
        if n_parts <= part {
            let value = u64::from(part);
            return Err(Error::BadField { field: "private record part", at, value });
        }
        let number = cursor.u32("private record number")?;
        cursor.u32("private record reserved")?;
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let payload = cursor.bytes(len, "private record payload")?;
        Ok(Some(Self { kind, number, part, n_parts, payload }))
    }
}

/// Puts messages together from their parts.
#[derive(Debug, Default)]
pub struct Assembler {
    begun: HashMap<u32, Begun>,
    /// Messages that began anew before they were whole.
    n_replaced: u64,
}

#[derive(Debug)]
struct Begun {
    kind: u16,
    /// The part that has to come next.
    next: u32,
    n_parts: u32,
    at: FileOffset,
    payload: Vec<u8>,
}

impl Assembler {
    /// Takes the next record of kind 65, whose body begins at `at`, and returns the message that it
    /// completes, if it does.
    ///
    /// It keeps no more bytes than were given to it. What is not ours is passed over.
    ///
    /// # Errors
    ///
    /// As [`Part::decode`]; [`Error::BadField`] if it is not the part that should come, and
    /// [`Error::BadPrivate`] if the whole does not say what it should. The message is lost then.
    pub fn push(&mut self, body: &[u8], at: FileOffset, endian: Endian) -> Result<Option<Message>> {
        let Some(part) = Part::decode(&mut Cursor::new(body, at, endian))? else {
            return Ok(None);
        };
        let Part { kind, number, part, n_parts, payload } = part;
        let before = self.begun.remove(&number);
        if part == 0 && before.is_some() {
            self.n_replaced = self.n_replaced.saturating_add(1);
        }
        let mut begun = match before {
            Some(begun) if part != 0 => begun,
            _ => Begun { kind, next: 0, n_parts, at, payload: Vec::new() },
        };
        if (begun.kind, begun.next, begun.n_parts) != (kind, part, n_parts) {
            let at = FileOffset(at.0.saturating_add(PART_AT));
            let value = u64::from(part);
            return Err(Error::BadField { field: "private record part", at, value });
        }
        begun.payload.extend_from_slice(payload);
        begun.next = begun.next.saturating_add(1);
        if begun.next < n_parts {
            self.begun.insert(number, begun);
            return Ok(None);
        }
        Message::decode(kind, begun.payload, begun.at, endian).map(Some)
    }

    /// How many messages have begun and not ended: parts of them are missing.
    pub fn n_incomplete(&self) -> u64 {
        widen(self.begun.len()).saturating_add(self.n_replaced)
    }
}

#[cfg(test)]
mod tests {
    use super::super::RecordHeader;
    use super::*;

    fn program() -> Message {
        Message::Program(ProgramState {
            id: 7,
            load_time_ns: 1 << 60,
            boot_ns: 5,
            maps: vec![MapState { id: 3, name: "counts".to_owned(), kind: "hash".to_owned() }],
            links: vec![LinkState {
                id: 9,
                kind: "raw_tracepoint".to_owned(),
                attach_type: None,
                target: Some("sched_switch".to_owned()),
                pins: Vec::new(),
            }],
            pins: vec!["/sys/fs/bpf/\u{e9}\"".to_owned()],
            holders: vec![Holder { pid: 1, comm: "init".to_owned(), via: "link".to_owned() }],
        })
    }

    /// The records of `bytes`: the body of each and where it begins.
    fn bodies(bytes: &[u8], endian: Endian) -> Vec<(&[u8], FileOffset)> {
        let mut bodies = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let mut cursor = Cursor::new(&bytes[at..], FileOffset(0), endian);
            let header = RecordHeader::decode(&mut cursor).unwrap();
            assert_eq!(header.kind, RecordKind::EVENT_TYPE);
            let size = usize::from(header.size);
            assert_eq!(size % 8, 0);
            assert!(MIN_RECORD_LEN <= size);
            bodies.push((&bytes[at + 8..at + size], FileOffset(widen(at + 8))));
            at += size;
        }
        bodies
    }

    #[track_caller]
    fn check(message: &Message, n_records: usize) {
        let mut bytes = Vec::new();
        message.encode(77, &mut bytes);
        let bodies = bodies(&bytes, Endian::NATIVE);
        assert_eq!(bodies.len(), n_records);
        let mut assembler = Assembler::default();
        let mut got = None;
        for (body, at) in bodies {
            assert_eq!(got, None);
            got = assembler.push(body, at, Endian::NATIVE).unwrap();
        }
        assert_eq!(got.as_ref(), Some(message));
        assert_eq!(assembler.n_incomplete(), 0);
    }

    #[test]
    fn every_kind_of_message_comes_back_as_it_was() {
        check(&program(), 1);
        let entries = vec![("owner".to_owned(), "\"net\"".to_owned())];
        check(&Message::Metadata(ProgramMetadata { id: 1, load_time_ns: 2, entries }), 1);
        let attached = Attached { id: 1, can_drop: true, link: Some(4), ..Attached::default() };
        check(
            &Message::Tracepoint(TracepointPrograms {
                event: "sched:sched_switch".to_owned(),
                n_programs: 1,
                programs: vec![attached],
                ..TracepointPrograms::default()
            }),
            1,
        );
        let reading = ProgramRuns { id: 1, run_cnt: u64::MAX, ..ProgramRuns::default() };
        check(&Message::Runs(Runs { boot_ns: 1, counted: true, programs: vec![reading; 3] }), 1);
        let (name, module) = ("bpf_ktime_get_ns".to_owned(), Some("m".to_owned()));
        let function = KernelFunction { addr: u64::MAX, len: 3, name, module };
        check(&Message::Symbols(KernelSymbols { symbols: vec![function] }), 1);
        let inodes = vec![Inode { ino: u64::MAX, ..Inode::default() }];
        let facts = FileFacts { path: "/a \"b\"".to_owned(), inodes, ..FileFacts::default() };
        let readings =
            vec![ClockReading { recorded_ns: 1, monotonic_ns: u64::MAX, realtime_ns: 3 }];
        let boot_id = "b".to_owned();
        let clocks = Clocks { readings, ended_ns: 4, boot_id, pid_namespace: 5 };
        check(&Message::Clocks(clocks), 1);
        // Of a recorder that did not tell all of it.
        let old = br#"{"readings":[{"recorded_ns":1,"monotonic_ns":2}]}"#;
        let old = Message::decode(10, old.to_vec(), FileOffset(0), Endian::NATIVE).unwrap();
        let reading = ClockReading { recorded_ns: 1, monotonic_ns: 2, realtime_ns: 0 };
        let readings = vec![reading];
        assert_eq!(old, Message::Clocks(Clocks { readings, ..Clocks::default() }));
        check(&Message::File(SavedFile::new(facts, b"content").unwrap()), 1);
        check(&Message::Unknown { kind: 900, payload: vec![1, 2, 3] }, 1);
        check(&Message::Unknown { kind: 900, payload: Vec::new() }, 1);
    }

    #[test]
    fn a_long_message_is_cut_into_parts() {
        let data: Vec<u8> = (0..=255).cycle().take(150_000).collect();
        check(&Message::Feature(FeaturePayload { id: 25, data }), 3);
        let whole = Message::Unknown { kind: 99, payload: vec![7; MAX_PART_LEN] };
        check(&whole, 1);
        check(&Message::Unknown { kind: 99, payload: vec![7; MAX_PART_LEN + 1] }, 2);
    }

    #[test]
    fn parts_of_several_messages_may_be_mixed() {
        let long = |kind| Message::Unknown { kind, payload: vec![7; MAX_PART_LEN + 1] };
        let (mut first, mut second) = (Vec::new(), Vec::new());
        long(90).encode(1, &mut first);
        long(91).encode(2, &mut second);
        let (first, second) = (bodies(&first, Endian::NATIVE), bodies(&second, Endian::NATIVE));
        let mut assembler = Assembler::default();
        let mut push =
            |it: (&[u8], FileOffset)| assembler.push(it.0, it.1, Endian::NATIVE).unwrap();
        assert_eq!([push(first[0]), push(second[0])], [None, None]);
        assert_eq!([push(second[1]), push(first[1])], [Some(long(91)), Some(long(90))]);
    }

    #[test]
    fn a_part_in_the_layout_of_the_documentation_is_read_in_both_byte_orders() {
        for endian in [Endian::Little, Endian::Big] {
            let pick = |little: &[u8]| {
                let mut bytes = little.to_vec();
                if endian == Endian::Big {
                    bytes.reverse();
                }
                bytes
            };
            let body = [
                b"BPFPERF\0".to_vec(),
                pick(&[1, 0]),        // version
                pick(&[5, 0]),        // kind
                pick(&[14, 0, 0, 0]), // length
                pick(&[0; 4]),        // part
                pick(&[1, 0, 0, 0]),  // of
                pick(&[3, 0, 0, 0]),  // number
                vec![0; 4],
                br#"{"boot_ns": 9}"#.to_vec(),
                vec![0; 2],
            ]
            .concat();
            let got = Assembler::default().push(&body, FileOffset(0), endian).unwrap();
            assert_eq!(got, Some(Message::Runs(Runs { boot_ns: 9, ..Runs::default() })));
        }
    }

    #[test]
    fn what_is_not_ours_or_of_a_later_version_is_passed_over() {
        let mut assembler = Assembler::default();
        let mut push = |body: &[u8]| assembler.push(body, FileOffset(0), Endian::NATIVE).unwrap();
        assert_eq!(push(&[0; 72]), None);
        assert_eq!(push(&[]), None);
        let mut bytes = Vec::new();
        program().encode(1, &mut bytes);
        bytes[16..18].copy_from_slice(&2_u16.to_ne_bytes());
        assert_eq!(push(&bytes[8..]), None);
    }

    #[test]
    fn a_missing_part_loses_the_message_and_no_other() {
        let long = Message::Unknown { kind: 99, payload: vec![7; 3 * MAX_PART_LEN] };
        let mut bytes = Vec::new();
        long.encode(1, &mut bytes);
        let parts = bodies(&bytes, Endian::NATIVE);
        let mut assembler = Assembler::default();
        assert_eq!(assembler.push(parts[0].0, parts[0].1, Endian::NATIVE).unwrap(), None);
        let error = assembler.push(parts[2].0, parts[2].1, Endian::NATIVE).unwrap_err();
        assert_eq!(
            error.to_string(),
            "private record part at byte 0x20008 is 2, which no version writes"
        );
        let mut bytes = Vec::new();
        program().encode(2, &mut bytes);
        let got = assembler.push(&bytes[8..], FileOffset(8), Endian::NATIVE).unwrap();
        assert_eq!(got, Some(program()));
        let mut bytes = Vec::new();
        long.encode(3, &mut bytes);
        let first = bodies(&bytes, Endian::NATIVE)[0];
        assert_eq!(assembler.push(first.0, first.1, Endian::NATIVE).unwrap(), None);
        assert_eq!(assembler.n_incomplete(), 1);
        assert_eq!(assembler.push(first.0, first.1, Endian::NATIVE).unwrap(), None);
        assert_eq!(assembler.n_incomplete(), 2);
    }

    #[test]
    fn damage_is_an_error_that_says_where() {
        let mut bytes = Vec::new();
        program().encode(1, &mut bytes);
        let mut cut = bytes.clone();
        cut[20..24].copy_from_slice(&9999_u32.to_ne_bytes());
        let push = |body: &[u8]| {
            let error = Assembler::default().push(body, FileOffset(8), Endian::NATIVE).unwrap_err();
            error.to_string()
        };
        let left = bytes.len() - 40;
        let want =
            format!("private record payload at byte 0x28 needs 9999 bytes, only {left} left");
        assert_eq!(push(&cut[8..]), want);
        bytes[40] = b'?';
        assert_eq!(
            push(&bytes[8..]),
            "private record at byte 0x8 is not readable: expected value at line 1 column 1"
        );
    }
}
