//! What perf says of its targets and counts: records 73, 74, 76, 79, 85 and 86.
//!
//! They are few in any recording, so lists in them are copied.
//!
//! Source: `struct perf_record_*` in `tools/lib/perf/include/perf/event.h`.

use crate::units::Cpu;
use crate::units::Nanos;
use crate::units::Tid;

use super::Cursor;
use super::Error;
use super::Result;
use super::cursor::widen;
use super::record::put_u64s;
use super::user_record::put_padded;

/// One thread that was asked for: an entry of record 73.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedThread<'a> {
    /// The thread; -1 for all.
    pub tid: Tid,
    /// Its name, where perf knew it.
    pub comm: &'a [u8],
}

/// The room for a thread's name, in bytes, end included.
const COMM_LEN: usize = 16;

impl<'a> MappedThread<'a> {
    pub(super) fn decode_all(cursor: &mut Cursor<'a>) -> Result<Vec<Self>> {
        let n = cursor.u64("thread_map nr")?;
        let mut threads = Vec::new();
        // Each takes bytes, so that a false count ends at the record's end.
        for _ in 0..n {
            // 64 bits in the file, of which the kernel's ids need 32.
            let at = cursor.at();
            let value = cursor.u64("thread_map tid")?;
            let Ok(tid) = i32::try_from(value.cast_signed()) else {
                return Err(Error::BadField { field: "thread_map tid", at, value });
            };
            let comm = cursor.padded_str(COMM_LEN, "thread_map comm")?;
            threads.push(Self { tid: Tid(tid), comm });
        }
        Ok(threads)
    }

    pub(super) fn encode_all(threads: &[Self], out: &mut Vec<u8>) {
        put_u64s([widen(threads.len())], out);
        for Self { tid: Tid(tid), comm } in threads {
            put_u64s([i64::from(*tid).cast_unsigned()], out);
            put_padded(comm, COMM_LEN, out);
        }
    }
}

/// The CPUs that were asked for: record 74, in one of the forms that perf gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CpuMap<'a> {
    /// Numbers; 0xffff stands for any CPU.
    List(Vec<u16>),
    /// A bit each, in words of 32 bits.
    Mask32(Vec<u32>),
    /// A bit each, in words of 64 bits.
    Mask64(Vec<u64>),
    /// All from one to another.
    Range {
        /// Whether any CPU at all is meant too.
        has_any: bool,
        /// The first.
        first: u16,
        /// The last.
        last: u16,
    },
    /// A form that this version does not know.
    Unknown {
        /// Its number.
        kind: u16,
        /// What follows it.
        data: &'a [u8],
    },
}

impl<'a> CpuMap<'a> {
    /// `PERF_CPU_MAP__CPUS`.
    const LIST: u16 = 0;
    /// `PERF_CPU_MAP__MASK`.
    const MASK: u16 = 1;
    /// `PERF_CPU_MAP__RANGE_CPUS`, since perf 6.0.
    const RANGE: u16 = 2;

    /// Decodes the body of record 74, or the CPUs of record 78.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] if it is shorter than it says.
    pub fn decode(cursor: &mut Cursor<'a>) -> Result<Self> {
        let kind = cursor.u16("cpu_map type")?;
        let data = cursor.rest();
        match kind {
            Self::LIST => {
                let n = cursor.u16("cpu_map nr")?;
                Ok(Self::List((0..n).map(|_| cursor.u16("cpu_map cpu")).collect::<Result<_>>()?))
            }
            Self::MASK => {
                let n = cursor.u16("cpu_map nr")?;
                match cursor.u16("cpu_map long_size")? {
                    4 => {
                        let words = (0..n).map(|_| cursor.u32("cpu_map mask"));
                        Ok(Self::Mask32(words.collect::<Result<_>>()?))
                    }
                    8 => {
                        cursor.bytes(4, "cpu_map padding")?;
                        let words = (0..n).map(|_| cursor.u64("cpu_map mask"));
                        Ok(Self::Mask64(words.collect::<Result<_>>()?))
                    }
                    _ => Ok(Self::Unknown { kind, data }),
                }
            }
            Self::RANGE => {
                let has_any = cursor.u8("cpu_map any_cpu")? != 0;
                cursor.u8("cpu_map padding")?;
                let first = cursor.u16("cpu_map start_cpu")?;
                Ok(Self::Range { has_any, first, last: cursor.u16("cpu_map end_cpu")? })
            }
            _ => Ok(Self::Unknown { kind, data }),
        }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let n = |len: usize| u16::try_from(len).unwrap_or(u16::MAX);
        let mut put = |numbers: &[u16]| {
            out.extend(numbers.iter().flat_map(|number| number.to_ne_bytes()));
        };
        match self {
            Self::List(cpus) => {
                put(&[Self::LIST, n(cpus.len())]);
                put(cpus);
            }
            Self::Mask32(mask) => {
                put(&[Self::MASK, n(mask.len()), 4]);
                out.extend(mask.iter().flat_map(|word| word.to_ne_bytes()));
            }
            Self::Mask64(mask) => {
                put(&[Self::MASK, n(mask.len()), 8, 0, 0]);
                put_u64s(mask.iter().copied(), out);
            }
            Self::Range { has_any, first, last } => {
                put(&[Self::RANGE]);
                out.extend([u8::from(*has_any), 0]);
                out.extend(first.to_ne_bytes());
                out.extend(last.to_ne_bytes());
            }
            Self::Unknown { kind, data } => {
                put(&[*kind]);
                out.extend_from_slice(data);
            }
        }
    }
}

/// A count: record 76.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The event's id.
    pub id: u64,
    /// The CPU's place among those that were asked for.
    pub cpu_idx: u32,
    /// The thread's place among those that were asked for.
    pub thread_idx: u32,
    /// The count.
    pub value: u64,
    /// How long the event was enabled.
    pub enabled: Nanos,
    /// How long it counted.
    pub running: Nanos,
}

impl Stat {
    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        Ok(Self {
            id: cursor.u64("stat id")?,
            cpu_idx: cursor.u32("stat cpu")?,
            thread_idx: cursor.u32("stat thread")?,
            value: cursor.u64("stat val")?,
            enabled: Nanos(cursor.u64("stat ena")?),
            running: Nanos(cursor.u64("stat run")?),
        })
    }

    pub(super) fn encode(self, out: &mut Vec<u8>) {
        let Self { id, cpu_idx, thread_idx, value, enabled, running } = self;
        put_u64s([id], out);
        out.extend(cpu_idx.to_ne_bytes());
        out.extend(thread_idx.to_ne_bytes());
        put_u64s([value, enabled.0, running.0], out);
    }
}

/// How to turn the time stamp counter into time: record 79.
///
/// Source: the fields of the same names in `struct perf_event_mmap_page`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeConv {
    /// `time_shift`.
    pub shift: u64,
    /// `time_mult`.
    pub mult: u64,
    /// `time_zero`.
    pub zero: u64,
    /// What perf 5.10 and later add; `None` in older files.
    pub short: Option<ShortTimeConv>,
}

/// How to mend a counter of few bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortTimeConv {
    /// `time_cycles`.
    pub cycles: u64,
    /// `time_mask`.
    pub mask: u64,
    /// `cap_user_time_zero`: whether `zero` counts.
    pub has_zero: bool,
    /// `cap_user_time_short`: whether `cycles` and `mask` count.
    pub is_short: bool,
}

impl TimeConv {
    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        Ok(Self {
            shift: cursor.u64("time_conv time_shift")?,
            mult: cursor.u64("time_conv time_mult")?,
            zero: cursor.u64("time_conv time_zero")?,
            short: if cursor.remaining() == 0 {
                None
            } else {
                let (cycles, mask) = (cursor.u64("time_conv cycles")?, cursor.u64("mask")?);
                let has_zero = cursor.u8("time_conv cap_user_time_zero")? != 0;
                let is_short = cursor.u8("time_conv cap_user_time_short")? != 0;
                cursor.bytes(6, "time_conv padding")?;
                Some(ShortTimeConv { cycles, mask, has_zero, is_short })
            },
        })
    }

    pub(super) fn encode(self, out: &mut Vec<u8>) {
        let Self { shift, mult, zero, short } = self;
        put_u64s([shift, mult, zero], out);
        if let Some(ShortTimeConv { cycles, mask, has_zero, is_short }) = short {
            put_u64s([cycles, mask], out);
            out.extend([u8::from(has_zero), u8::from(is_short), 0, 0, 0, 0, 0, 0]);
        }
    }
}

/// The scheduler's statistics of a CPU: record 85, since perf 7.0.
///
/// Source: the `cpu` line of `Documentation/scheduler/sched-stats.rst`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedstatCpu {
    /// When they were taken.
    pub timestamp: u64,
    /// The CPU.
    pub cpu: Cpu,
    /// The version of `/proc/schedstat`.
    pub version: u16,
    /// Counts: yields, a retired one, calls of `schedule()`, those that left the CPU idle,
    /// wake-ups, those of the same CPU.
    pub counts: [u32; 6],
    /// Time run, time waited, and time slices.
    pub totals: [u64; 3],
}

impl SchedstatCpu {
    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let timestamp = cursor.u64("schedstat timestamp")?;
        let cpu = Cpu(cursor.u32("schedstat cpu")?);
        let version = cursor.u16("schedstat version")?;
        cursor.u16("schedstat padding")?;
        let (mut counts, mut totals) = ([0; 6], [0; 3]);
        for count in &mut counts {
            *count = cursor.u32("schedstat count")?;
        }
        for total in &mut totals {
            *total = cursor.u64("schedstat total")?;
        }
        Ok(Self { timestamp, cpu, version, counts, totals })
    }

    pub(super) fn encode(self, out: &mut Vec<u8>) {
        let Self { timestamp, cpu, version, counts, totals } = self;
        put_u64s([timestamp], out);
        out.extend(cpu.0.to_ne_bytes());
        out.extend(version.to_ne_bytes());
        out.extend([0; 2]);
        out.extend(counts.iter().flat_map(|count| count.to_ne_bytes()));
        put_u64s(totals, out);
    }
}

/// The scheduler's statistics of one of a CPU's domains: record 86, since perf 7.0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedstatDomain {
    /// When they were taken.
    pub timestamp: u64,
    /// The CPU.
    pub cpu: Cpu,
    /// The version of `/proc/schedstat`, which says how many counts there are and of what.
    pub version: u16,
    /// The domain's number.
    pub domain: u16,
    /// The counts, in the order of the `domain` line; an odd number is filled up with one of 0.
    pub counts: Vec<u32>,
}

impl SchedstatDomain {
    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let timestamp = cursor.u64("schedstat timestamp")?;
        let cpu = Cpu(cursor.u32("schedstat cpu")?);
        let version = cursor.u16("schedstat version")?;
        let domain = cursor.u16("schedstat domain")?;
        let mut counts = Vec::new();
        while cursor.remaining() >= 4 {
            counts.push(cursor.u32("schedstat count")?);
        }
        Ok(Self { timestamp, cpu, version, domain, counts })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let Self { timestamp, cpu, version, domain, counts } = self;
        put_u64s([*timestamp], out);
        out.extend(cpu.0.to_ne_bytes());
        out.extend(version.to_ne_bytes());
        out.extend(domain.to_ne_bytes());
        out.extend(counts.iter().flat_map(|count| count.to_ne_bytes()));
    }
}
