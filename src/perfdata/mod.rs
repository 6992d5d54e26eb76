//! The `perf.data` codec: bytes to header, attributes, features and records, and back.
//!
//! In comes untrusted bytes, out come typed values that borrow from them; the other way, values
//! are appended to a `Vec<u8>`. Reading knows both byte orders, writing only the machine's own.
//! Nothing here opens a file, keeps state between records, or knows what a record means for a
//! profile: that is [`replay`](crate::replay)'s.
//!
//! Sources: `include/uapi/linux/perf_event.h` for what the kernel writes,
//! `tools/perf/Documentation/perf.data-file-format.txt` for what perf adds around it.
#![cfg_attr(
    not(test),
    warn(clippy::indexing_slicing, clippy::as_conversions, clippy::arithmetic_side_effects)
)]

mod attr;
mod auxtrace;
pub mod bpf_info;
pub mod callchain_context;
pub mod compression;
mod cursor;
mod event_name;
pub mod feature;
mod header;
mod input;
pub mod off_cpu;
pub mod private;
mod record;
mod sample;
mod sample_id;
mod stat_record;
pub mod trace_format;
pub mod tracing_data;
mod user_record;
mod writer;

pub use attr::Attr;
pub use attr::AttrFlags;
pub use attr::ReadFormat;
pub use attr::SampleType;
pub use auxtrace::Auxtrace;
pub use auxtrace::AuxtraceError;
pub use cursor::Cursor;
pub use cursor::Endian;
pub use cursor::U64s;
pub use header::AttrEntry;
pub use header::FeatureBits;
pub use header::FileHeader;
pub use header::PIPE_HEADER_LEN;
pub use header::Section;
pub use header::decode_ids;
pub use input::RawRecord;
pub use input::ReadAt;
pub use input::RecordWalk;
pub use input::read_up_to;
pub use record::BpfEvent;
pub use record::Comm;
pub use record::Ksymbol;
pub use record::Mmap;
pub use record::Mmap2;
pub use record::MmapId;
pub use record::Record;
pub use record::RecordHeader;
pub use record::RecordKind;
pub use record::Task;
pub use record::Throttle;
pub use record::TooLong;
pub use record::misc;
pub use sample::Branches;
pub use sample::Registers;
pub use sample::Sample;
pub use sample::SampleLayout;
pub use sample::UserStack;
pub use sample::UserState;
pub use sample_id::SampleId;
pub use sample_id::SampleIdLayout;
pub use stat_record::CpuMap;
pub use stat_record::MappedThread;
pub use stat_record::SchedstatCpu;
pub use stat_record::SchedstatDomain;
pub use stat_record::ShortTimeConv;
pub use stat_record::Stat;
pub use stat_record::TimeConv;
pub use user_record::BpfMetadata;
pub use user_record::BuildIdEntry;
pub use user_record::IdIndex;
pub use user_record::UserRecord;
pub use writer::Layout;
pub use writer::encode_features;

use crate::units::FileOffset;

/// What could not be decoded, and where it stands in the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The input ends before a field does.
    #[error("{field} at byte {at} needs {need} bytes, only {left} left")]
    Truncated {
        /// The field that was read.
        field: &'static str,
        /// Where the field begins.
        at: FileOffset,
        /// How many bytes it takes.
        need: u64,
        /// How many bytes there are.
        left: u64,
    },
    /// There is not a single byte.
    #[error("it is empty")]
    Empty,
    /// A record claims to be shorter than its own header.
    #[error("record at byte {at} has size {size}, less than its header of 8 bytes")]
    RecordTooShort {
        /// Where the record begins.
        at: FileOffset,
        /// The size that it claims, in bytes.
        size: u16,
    },
    /// The first eight bytes are not those of a recording.
    #[error("no `perf.data`: the magic at byte 0x0 is not `PERFILE2`")]
    BadMagic,
    /// What should be the formats of tracepoints does not begin as they do.
    #[error("no tracing data at byte {at}")]
    BadTracingData {
        /// Where it should begin.
        at: FileOffset,
    },
    /// A size field in a header has a value that no version writes.
    #[error("{field} at byte {at} is {value}, which no version writes")]
    BadField {
        /// The field.
        field: &'static str,
        /// Where it stands.
        at: FileOffset,
        /// What it holds.
        value: u64,
    },
    /// A private record does not say what its kind should.
    #[error("private record at byte {at} is not readable: {reason}")]
    BadPrivate {
        /// Where its first part begins.
        at: FileOffset,
        /// What is wrong with it.
        reason: String,
    },
    /// A string has no end within its record.
    #[error("{field} at byte {at} has no terminating zero")]
    UnterminatedString {
        /// The field.
        field: &'static str,
        /// Where it begins.
        at: FileOffset,
    },
    /// What came out of compressed records could not be kept.
    #[error("cannot write inflated records")]
    Inflated {
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The bytes could not be read at all.
    #[error("cannot read {len} bytes at byte {at}")]
    Io {
        /// Where the read began.
        at: FileOffset,
        /// How many bytes were asked for.
        len: u64,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
}

/// The result of decoding.
pub type Result<T, E = Error> = std::result::Result<T, E>;
