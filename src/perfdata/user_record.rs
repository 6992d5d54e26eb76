//! The records that perf adds to the kernel's, 64 to 86.
//!
//! Source: `struct perf_record_*` in `tools/lib/perf/include/perf/event.h`.

use crate::units::BuildId;
use crate::units::FileOffset;
use crate::units::Pid;

use super::Attr;
use super::Auxtrace;
use super::AuxtraceError;
use super::CpuMap;
use super::Cursor;
use super::MappedThread;
use super::RecordHeader;
use super::RecordKind;
use super::Result;
use super::SchedstatCpu;
use super::SchedstatDomain;
use super::Stat;
use super::TimeConv;
use super::U64s;
use super::cursor::until_zero;
use super::cursor::widen;
use super::record::pad_to_8;
use super::record::put_u64s;

/// A record that perf adds, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserRecord<'a> {
    /// An event, in a pipe; where a file has its attribute section.
    HeaderAttr {
        /// The attribute; its `size` is the one in the record.
        attr: Box<Attr>,
        /// The ids of its instances.
        ids: U64s<'a>,
    },
    /// The retired kind 65, which every perf skips: room for private data.
    EventType(&'a [u8]),
    /// Tracepoint formats, in a pipe; so many bytes follow the record.
    TracingData {
        /// How many, rounded up to 8.
        size: u32,
    },
    /// The build id of a module.
    BuildId(BuildIdEntry<'a>),
    /// Everything older than the round before has been written.
    FinishedRound,
    /// Which CPU and task an id stands for.
    IdIndex(IdIndex<'a>),
    /// What AUX data there will be.
    AuxtraceInfo {
        /// The kind of tracer.
        kind: u32,
        /// The tracer's own words.
        private: U64s<'a>,
    },
    /// AUX data, which follows the record.
    Auxtrace(Auxtrace),
    /// AUX data could not be decoded.
    AuxtraceError(AuxtraceError<'a>),
    /// The threads that were asked for.
    ThreadMap(Vec<MappedThread<'a>>),
    /// The CPUs that were asked for.
    CpuMap(CpuMap<'a>),
    /// How `stat` was configured: tag and value.
    StatConfig {
        /// How many pairs.
        n: u64,
        /// The pairs.
        pairs: U64s<'a>,
    },
    /// A count.
    Stat(Stat),
    /// The end of an interval.
    StatRound {
        /// Which kind.
        kind: u64,
        /// When.
        time: u64,
    },
    /// The unit, scale, name or CPUs of an event.
    EventUpdate {
        /// 0: unit, 1: scale, 2: name, 3: CPUs.
        kind: u64,
        /// The event's id.
        id: u64,
        /// The new value.
        data: &'a [u8],
    },
    /// How to turn the time stamp counter into time.
    TimeConv(TimeConv),
    /// A feature section, in a pipe.
    HeaderFeature {
        /// The feature's number.
        id: u64,
        /// Its content.
        data: &'a [u8],
    },
    /// Records, compressed; the padding counts as data.
    Compressed(&'a [u8]),
    /// All that describes the state before the start has been written.
    FinishedInit,
    /// Records, compressed, with their length.
    Compressed2(&'a [u8]),
    /// What the owner of a BPF program says about it.
    BpfMetadata(BpfMetadata<'a>),
    /// Scheduler statistics of a CPU.
    SchedstatCpu(SchedstatCpu),
    /// Scheduler statistics of a domain.
    SchedstatDomain(SchedstatDomain),
}

/// The build id of a module: record 67, and an entry of feature 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildIdEntry<'a> {
    /// The process of a guest's kernel; -1 else.
    pub pid: Pid,
    /// The id; `None` if its length is impossible.
    pub build_id: Option<BuildId>,
    /// The path.
    pub filename: &'a [u8],
}

impl<'a> BuildIdEntry<'a> {
    /// `PERF_RECORD_MISC_BUILD_ID_SIZE`: the entry says how long its id is.
    pub const HAS_SIZE: u16 = 1 << 15;

    /// Decodes the body of an entry whose header has `misc`.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`](super::Error::Truncated) if it is shorter than its fields.
    pub fn decode(misc: u16, cursor: &mut Cursor<'a>) -> Result<Self> {
        let pid = Pid(cursor.i32("build_id pid")?);
        let bytes: [u8; BuildId::MAX] = cursor.array("build_id")?;
        let len = cursor.u8("build_id size")?;
        cursor.bytes(3, "build_id padding")?;
        let len = if misc & Self::HAS_SIZE == 0 { BuildId::MAX } else { usize::from(len) };
        let build_id = bytes.get(..len).and_then(BuildId::new);
        Ok(Self { pid, build_id, filename: until_zero(cursor.rest()) })
    }

    fn encode_body(&self, out: &mut Vec<u8>) {
        let id = self.build_id.as_ref().map(BuildId::as_bytes).unwrap_or_default();
        out.extend(self.pid.0.to_ne_bytes());
        out.extend_from_slice(id);
        out.extend(std::iter::repeat_n(0, BuildId::MAX.saturating_sub(id.len())));
        out.push(u8::try_from(id.len()).unwrap_or(0));
        out.extend([0; 3]);
        out.extend_from_slice(self.filename);
        out.push(0);
        // The body begins 8 bytes into the record: with 28 of fixed fields it ends at 4 mod 8.
        out.resize(out.len().next_multiple_of(8), 0);
    }
}

/// Record 69.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdIndex<'a> {
    /// How many entries.
    pub n: u64,
    /// `id`, `idx`, `cpu`, `tid` of each, and after them the machine and CPU of guests.
    pub words: U64s<'a>,
}

/// Record 84, since perf 6.17.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BpfMetadata<'a> {
    /// The symbol of the program or subprogram.
    pub prog_name: &'a [u8],
    /// How many entries the record says that it has.
    n: u64,
    /// The entries, [`BpfMetadata::ENTRY_LEN`] bytes each.
    entries: &'a [u8],
}

impl<'a> BpfMetadata<'a> {
    /// The room for the name, in bytes, end included.
    pub const PROG_NAME_LEN: usize = 512;
    /// The room for a key, in bytes, end included.
    pub const KEY_LEN: usize = 64;
    /// The room for a value, in bytes, end included.
    pub const VALUE_LEN: usize = 256;
    /// The length of an entry in bytes.
    pub const ENTRY_LEN: usize = Self::KEY_LEN + Self::VALUE_LEN;

    /// Key and value of each entry.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        self.entries.chunks_exact(Self::ENTRY_LEN).map(|entry| {
            let (key, value) = entry.split_at_checked(Self::KEY_LEN).unwrap_or_default();
            (until_zero(key), until_zero(value))
        })
    }

    /// The body of a record for the symbol `prog_name`, ready for
    /// [`UserRecord::BpfMetadata`]'s decoder or for a file; what is too long for its field is cut.
    pub fn encode_entries<'b>(
        prog_name: &[u8],
        entries: impl ExactSizeIterator<Item = (&'b [u8], &'b [u8])>,
    ) -> Vec<u8> {
        let mut out = Vec::new();
        put_padded(prog_name, Self::PROG_NAME_LEN, &mut out);
        put_u64s([widen(entries.len())], &mut out);
        for (key, value) in entries {
            put_padded(key, Self::KEY_LEN, &mut out);
            put_padded(value, Self::VALUE_LEN, &mut out);
        }
        out
    }

    /// Decodes a body.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`](super::Error::Truncated) if it has fewer entries than it says.
    pub fn decode(cursor: &mut Cursor<'a>) -> Result<Self> {
        let prog_name = cursor.padded_str(Self::PROG_NAME_LEN, "bpf_metadata prog_name")?;
        let n = cursor.u64("bpf_metadata nr_entries")?;
        let len = usize::try_from(n).ok().and_then(|n| n.checked_mul(Self::ENTRY_LEN));
        let entries = cursor.bytes(len.unwrap_or(usize::MAX), "bpf_metadata entries")?;
        Ok(Self { prog_name, n, entries })
    }
}

impl<'a> UserRecord<'a> {
    pub(super) fn decode(header: RecordHeader, cursor: &mut Cursor<'a>) -> Result<Self> {
        let endian = cursor.endian();
        Ok(match header.kind {
            RecordKind::HEADER_ATTR => {
                // The attribute says itself where it ends and the ids begin.
                let mut probe = *cursor;
                probe.u32("attr type")?;
                let size = match probe.u32("attr size")? {
                    0 => Attr::SIZE_VER0,
                    size => size,
                };
                let at = cursor.at();
                let len = usize::try_from(size).unwrap_or(usize::MAX);
                let bytes = cursor.bytes(len, "header_attr attr")?;
                let attr = Attr::decode(&mut Cursor::new(bytes, at, endian))?;
                Self::HeaderAttr { attr: Box::new(attr), ids: U64s::new(cursor.rest(), endian) }
            }
            RecordKind::EVENT_TYPE => Self::EventType(cursor.rest()),
            RecordKind::TRACING_DATA => {
                Self::TracingData { size: cursor.u32("tracing_data size")? }
            }
            RecordKind::BUILD_ID => Self::BuildId(BuildIdEntry::decode(header.misc, cursor)?),
            RecordKind::FINISHED_ROUND => Self::FinishedRound,
            RecordKind::ID_INDEX => {
                let n = cursor.u64("id_index nr")?;
                Self::IdIndex(IdIndex { n, words: U64s::new(cursor.rest(), endian) })
            }
            RecordKind::AUXTRACE_INFO => {
                let kind = cursor.u32("auxtrace_info type")?;
                cursor.u32("auxtrace_info reserved")?;
                Self::AuxtraceInfo { kind, private: U64s::new(cursor.rest(), endian) }
            }
            RecordKind::AUXTRACE => Self::Auxtrace(Auxtrace::decode(cursor)?),
            RecordKind::AUXTRACE_ERROR => Self::AuxtraceError(AuxtraceError::decode(cursor)?),
            RecordKind::THREAD_MAP => Self::ThreadMap(MappedThread::decode_all(cursor)?),
            RecordKind::CPU_MAP => Self::CpuMap(CpuMap::decode(cursor)?),
            RecordKind::STAT_CONFIG => {
                let n = cursor.u64("stat_config nr")?;
                Self::StatConfig { n, pairs: U64s::new(cursor.rest(), endian) }
            }
            RecordKind::STAT => Self::Stat(Stat::decode(cursor)?),
            RecordKind::STAT_ROUND => Self::StatRound {
                kind: cursor.u64("stat_round type")?,
                time: cursor.u64("stat_round time")?,
            },
            RecordKind::EVENT_UPDATE => Self::EventUpdate {
                kind: cursor.u64("event_update type")?,
                id: cursor.u64("event_update id")?,
                data: cursor.rest(),
            },
            RecordKind::TIME_CONV => Self::TimeConv(TimeConv::decode(cursor)?),
            RecordKind::HEADER_FEATURE => Self::HeaderFeature {
                id: cursor.u64("header_feature feat_id")?,
                data: cursor.rest(),
            },
            RecordKind::COMPRESSED => Self::Compressed(cursor.rest()),
            RecordKind::FINISHED_INIT => Self::FinishedInit,
            RecordKind::COMPRESSED2 => {
                let len = cursor.u64("compressed2 data_size")?;
                let len = usize::try_from(len).unwrap_or(usize::MAX);
                Self::Compressed2(cursor.bytes(len, "compressed2 data")?)
            }
            RecordKind::BPF_METADATA => Self::BpfMetadata(BpfMetadata::decode(cursor)?),
            RecordKind::SCHEDSTAT_CPU => Self::SchedstatCpu(SchedstatCpu::decode(cursor)?),
            _ => Self::SchedstatDomain(SchedstatDomain::decode(cursor)?),
        })
    }

    pub(super) fn encode_body(&self, out: &mut Vec<u8>) {
        match self {
            Self::HeaderAttr { attr, ids } => {
                attr.encode(attr.size.max(Attr::SIZE_VER0), out);
                put_u64s(ids.iter(), out);
            }
            Self::EventType(bytes) | Self::Compressed(bytes) => out.extend_from_slice(bytes),
            Self::TracingData { size } => {
                out.extend(size.to_ne_bytes());
                out.extend([0; 4]);
            }
            Self::BuildId(entry) => entry.encode_body(out),
            Self::FinishedRound | Self::FinishedInit => {}
            Self::IdIndex(IdIndex { n, words }) => {
                put_u64s([*n], out);
                put_u64s(words.iter(), out);
            }
            Self::AuxtraceInfo { kind, private } => {
                out.extend(kind.to_ne_bytes());
                out.extend([0; 4]);
                put_u64s(private.iter(), out);
            }
            Self::Auxtrace(auxtrace) => auxtrace.encode(out),
            Self::AuxtraceError(error) => error.encode(out),
            Self::ThreadMap(threads) => MappedThread::encode_all(threads, out),
            Self::CpuMap(cpus) => {
                cpus.encode(out);
                pad_to_8(out);
            }
            Self::Stat(stat) => stat.encode(out),
            Self::SchedstatCpu(statistics) => statistics.encode(out),
            Self::SchedstatDomain(statistics) => statistics.encode(out),
            Self::StatConfig { n, pairs } => {
                put_u64s([*n], out);
                put_u64s(pairs.iter(), out);
            }
            Self::StatRound { kind, time } => put_u64s([*kind, *time], out),
            Self::EventUpdate { kind, id, data } => {
                put_u64s([*kind, *id], out);
                out.extend_from_slice(data);
                pad_to_8(out);
            }
            Self::TimeConv(conversion) => conversion.encode(out),
            Self::HeaderFeature { id, data } => {
                put_u64s([*id], out);
                out.extend_from_slice(data);
            }
            Self::Compressed2(data) => {
                put_u64s([widen(data.len())], out);
                out.extend_from_slice(data);
                pad_to_8(out);
            }
            Self::BpfMetadata(BpfMetadata { prog_name, n, entries }) => {
                put_padded(prog_name, BpfMetadata::PROG_NAME_LEN, out);
                put_u64s([*n], out);
                out.extend_from_slice(entries);
            }
        }
    }

    /// How many bytes of payload follow the record in the file, beyond its own size.
    ///
    /// Only [`UserRecord::TracingData`] and [`UserRecord::Auxtrace`] have any.
    pub(super) fn payload_len(header: RecordHeader, body: &[u8], endian: super::Endian) -> u64 {
        let mut cursor = Cursor::new(body, FileOffset(0), endian);
        match header.kind {
            RecordKind::TRACING_DATA => {
                u64::from(cursor.u32("tracing_data size").unwrap_or(0)).next_multiple_of(8)
            }
            RecordKind::AUXTRACE => cursor.u64("auxtrace size").unwrap_or(0),
            _ => 0,
        }
    }
}

/// A string in a field of `len` bytes: cut so that it ends with a zero, filled up with zeros.
pub(super) fn put_padded(text: &[u8], len: usize, out: &mut Vec<u8>) {
    let end = out.len().saturating_add(len);
    out.extend(text.iter().take(len.saturating_sub(1)));
    out.resize(end, 0);
}
