//! The records that the kernel writes, 1 to 22, and what every record begins with.

use crate::units::Addr;
use crate::units::BpfTag;
use crate::units::BuildId;
use crate::units::FileOffset;
use crate::units::Nanos;
use crate::units::Pid;
use crate::units::ProgId;
use crate::units::Tid;

use super::Cursor;
use super::Endian;
use super::Error;
use super::Result;
use super::U64s;
use super::UserRecord;
use super::cursor::widen;

/// The type of a record, kept as it is so that an unknown one survives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKind(pub u32);

macro_rules! record_kinds {
    ($($name:ident = $value:literal),* $(,)?) => {
        #[allow(missing_docs, reason = "each is PERF_RECORD_* of the same name")]
        impl RecordKind {
            $(pub const $name: Self = Self($value);)*

            /// The name without `PERF_RECORD_`, or `None` for a kind that is not known.
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}
record_kinds! {
    MMAP = 1, LOST = 2, COMM = 3, EXIT = 4, THROTTLE = 5, UNTHROTTLE = 6, FORK = 7, READ = 8,
    SAMPLE = 9, MMAP2 = 10, AUX = 11, ITRACE_START = 12, LOST_SAMPLES = 13, SWITCH = 14,
    SWITCH_CPU_WIDE = 15, NAMESPACES = 16, KSYMBOL = 17, BPF_EVENT = 18, CGROUP = 19,
    TEXT_POKE = 20, AUX_OUTPUT_HW_ID = 21, CALLCHAIN_DEFERRED = 22,
    HEADER_ATTR = 64, EVENT_TYPE = 65, TRACING_DATA = 66, BUILD_ID = 67, FINISHED_ROUND = 68,
    ID_INDEX = 69, AUXTRACE_INFO = 70, AUXTRACE = 71, AUXTRACE_ERROR = 72, THREAD_MAP = 73,
    CPU_MAP = 74, STAT_CONFIG = 75, STAT = 76, STAT_ROUND = 77, EVENT_UPDATE = 78, TIME_CONV = 79,
    HEADER_FEATURE = 80, COMPRESSED = 81, FINISHED_INIT = 82, COMPRESSED2 = 83, BPF_METADATA = 84,
    SCHEDSTAT_CPU = 85, SCHEDSTAT_DOMAIN = 86,
}

impl RecordKind {
    /// The first kind that perf adds to the kernel's: `PERF_RECORD_USER_TYPE_START`.
    pub const USER_START: u32 = 64;

    /// Whether the kernel writes such records, and so with a [`SampleId`](super::SampleId).
    pub fn is_kernel(self) -> bool {
        self.0 < Self::USER_START
    }
}

impl std::fmt::Debug for RecordKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "RecordKind({})", self.0),
        }
    }
}

/// The bits of a record's `misc` field.
///
/// Source: the `PERF_RECORD_MISC_*` of `include/uapi/linux/perf_event.h`.
pub mod misc {
    /// The bits that tell kernel, user, hypervisor and guest apart.
    pub const CPUMODE_MASK: u16 = 7;
    /// In the kernel.
    pub const KERNEL: u16 = 1;
    /// In user space.
    pub const USER: u16 = 2;
    /// In the hypervisor.
    pub const HYPERVISOR: u16 = 3;
    /// In a guest's kernel.
    pub const GUEST_KERNEL: u16 = 4;
    /// In a guest's user space.
    pub const GUEST_USER: u16 = 5;
    /// `MMAP`: of data; `COMM`: by exec; `FORK`: synthesized, followed by maps of its own;
    /// `SWITCH`: out.
    pub const MMAP_DATA: u16 = 1 << 13;
    /// See [`MMAP_DATA`].
    pub const COMM_EXEC: u16 = 1 << 13;
    /// See [`MMAP_DATA`].
    pub const FORK_EXEC: u16 = 1 << 13;
    /// See [`MMAP_DATA`].
    pub const SWITCH_OUT: u16 = 1 << 13;
    /// `SWITCH`: out while it could run on; `MMAP2`: the record carries a build id.
    pub const SWITCH_OUT_PREEMPT: u16 = 1 << 14;
    /// See [`SWITCH_OUT_PREEMPT`].
    pub const MMAP_BUILD_ID: u16 = 1 << 14;
    /// `LOST_SAMPLES`: dropped by a filter, as it was told to. Of perf's own, since 6.13.
    pub const LOST_SAMPLES_BPF: u16 = 1 << 15;
}

/// What every record begins with: `struct perf_event_header`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// `type`.
    pub kind: RecordKind,
    /// Bits of [`misc`] and others, by kind.
    pub misc: u16,
    /// The length in bytes, header included.
    pub size: u16,
}

impl RecordHeader {
    /// The length of the header itself, in bytes.
    pub const SIZE: u16 = 8;

    /// Decodes a header and leaves `cursor` at the record's body.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] if the input ends first, and [`Error::RecordTooShort`] if the record
    /// claims to be shorter than its header, which would make a reader loop forever.
    pub fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let at = cursor.at();
        let kind = RecordKind(cursor.u32("record type")?);
        let misc = cursor.u16("record misc")?;
        let size = cursor.u16("record size")?;
        if size < Self::SIZE {
            return Err(Error::RecordTooShort { at, size });
        }
        Ok(Self { kind, misc, size })
    }

    /// The privilege bits: one of [`misc::KERNEL`] and the like.
    pub fn cpumode(self) -> u16 {
        self.misc & misc::CPUMODE_MASK
    }
}

/// One record, decoded; strings and lists are borrowed.
///
/// Source of every layout: the comments on `enum perf_event_type` in
/// `include/uapi/linux/perf_event.h`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A mapping, the older form.
    Mmap(Mmap<'a>),
    /// Records were lost before this one.
    Lost {
        /// The event's id.
        id: u64,
        /// How many.
        lost: u64,
    },
    /// A thread has a name.
    Comm(Comm<'a>),
    /// A thread ended.
    Exit(Task),
    /// Sampling was too fast and paused.
    Throttle(Throttle),
    /// Sampling goes on.
    Unthrottle(Throttle),
    /// A thread began.
    Fork(Task),
    /// A counter's value when an inherited event ended.
    Read {
        /// The process.
        pid: Pid,
        /// The thread.
        tid: Tid,
        /// The values, laid out by the event's `read_format`.
        values: U64s<'a>,
    },
    /// A sample; [`SampleLayout`](super::SampleLayout) reads its fields.
    Sample(&'a [u8]),
    /// A mapping.
    Mmap2(Mmap2<'a>),
    /// AUX data was written.
    Aux {
        /// Where, in the AUX area.
        offset: u64,
        /// How many bytes.
        size: u64,
        /// `PERF_AUX_FLAG_*`.
        flags: u64,
    },
    /// Instruction tracing began.
    ItraceStart {
        /// The process.
        pid: Pid,
        /// The thread.
        tid: Tid,
    },
    /// Samples were lost.
    LostSamples {
        /// How many.
        lost: u64,
    },
    /// The task was switched in or out.
    Switch,
    /// The same, seen from the CPU.
    SwitchCpuWide {
        /// The process before or after.
        next_prev_pid: Pid,
        /// The thread before or after.
        next_prev_tid: Tid,
    },
    /// The namespaces of a thread.
    Namespaces {
        /// The process.
        pid: Pid,
        /// The thread.
        tid: Tid,
        /// Device and inode of each, one after another.
        links: U64s<'a>,
    },
    /// A kernel symbol came or went.
    Ksymbol(Ksymbol<'a>),
    /// A BPF program came or went.
    BpfEvent(BpfEvent),
    /// A cgroup has a path.
    Cgroup {
        /// The cgroup's id.
        id: u64,
        /// Its path.
        path: &'a [u8],
    },
    /// Kernel text was changed.
    TextPoke {
        /// Where.
        addr: Addr,
        /// The bytes before.
        old: &'a [u8],
        /// The bytes after.
        new: &'a [u8],
    },
    /// A hardware id for AUX data.
    AuxOutputHwId {
        /// The id.
        hw_id: u64,
    },
    /// The user part of an earlier call chain.
    CallchainDeferred {
        /// Which one.
        cookie: u64,
        /// The addresses.
        ips: U64s<'a>,
    },
    /// A record that perf adds.
    User(UserRecord<'a>),
    /// A kind that this version does not know.
    Unknown(&'a [u8]),
}

/// `PERF_RECORD_MMAP`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mmap<'a> {
    /// The process, -1 for the kernel.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// The first address.
    pub addr: Addr,
    /// The length in bytes.
    pub len: u64,
    /// The offset in the file, in bytes.
    pub pgoff: u64,
    /// The path.
    pub filename: &'a [u8],
}

/// `PERF_RECORD_MMAP2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mmap2<'a> {
    /// The process, -1 for the kernel.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// The first address.
    pub addr: Addr,
    /// The length in bytes.
    pub len: u64,
    /// The offset in the file, in bytes.
    pub pgoff: u64,
    /// Which file.
    pub id: MmapId,
    /// `PROT_*`.
    pub prot: u32,
    /// `MAP_*`.
    pub flags: u32,
    /// The path.
    pub filename: &'a [u8],
}

/// By what an `MMAP2` record tells its file from another of the same path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MmapId {
    /// By its place on a disk.
    Inode {
        /// Major number of the device.
        maj: u32,
        /// Minor number of the device.
        min: u32,
        /// The inode.
        ino: u64,
        /// The inode's generation.
        ino_generation: u64,
    },
    /// By its content ([`misc::MMAP_BUILD_ID`]); `None` if the id has an impossible length.
    BuildId(Option<BuildId>),
}

/// `PERF_RECORD_COMM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comm<'a> {
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// The name, at most 15 bytes from the kernel.
    pub comm: &'a [u8],
}

/// `PERF_RECORD_FORK` and `PERF_RECORD_EXIT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// The process.
    pub pid: Pid,
    /// Its parent.
    pub ppid: Pid,
    /// The thread.
    pub tid: Tid,
    /// The thread that made it.
    pub ptid: Tid,
    /// When.
    pub time: Nanos,
}

/// `PERF_RECORD_THROTTLE` and `PERF_RECORD_UNTHROTTLE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttle {
    /// When.
    pub time: Nanos,
    /// The id of the event or its group.
    pub id: u64,
    /// The id of the event.
    pub stream_id: u64,
}

/// `PERF_RECORD_KSYMBOL`, since Linux 5.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ksymbol<'a> {
    /// The first address.
    pub addr: Addr,
    /// The length in bytes.
    pub len: u32,
    /// `PERF_RECORD_KSYMBOL_TYPE_BPF` (1) or `_OOL` (2).
    pub ksym_type: u16,
    /// [`Ksymbol::UNREGISTER`] or 0.
    pub flags: u16,
    /// The symbol's name.
    pub name: &'a [u8],
}

impl Ksymbol<'_> {
    /// The type of a BPF program or image.
    pub const TYPE_BPF: u16 = 1;
    /// The type of other code that moves, as trampolines of ftrace and kprobes.
    pub const TYPE_OOL: u16 = 2;
    /// The flag of a symbol that goes.
    pub const UNREGISTER: u16 = 1;

    /// Whether the symbol goes.
    pub fn is_unregister(&self) -> bool {
        self.flags & Self::UNREGISTER != 0
    }
}

/// `PERF_RECORD_BPF_EVENT`, since Linux 5.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BpfEvent {
    /// [`BpfEvent::PROG_LOAD`] or [`BpfEvent::PROG_UNLOAD`].
    pub kind: u16,
    /// 0.
    pub flags: u16,
    /// The program.
    pub id: ProgId,
    /// Its tag.
    pub tag: BpfTag,
}

impl BpfEvent {
    /// A program was loaded.
    pub const PROG_LOAD: u16 = 1;
    /// A program is gone.
    pub const PROG_UNLOAD: u16 = 2;
}

impl<'a> Record<'a> {
    /// Decodes the body of a record, without its header and without its
    /// [`SampleId`](super::SampleId).
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] if the body is shorter than its fields, and
    /// [`Error::UnterminatedString`] if a string fills it without an end.
    pub fn decode(header: RecordHeader, cursor: &mut Cursor<'a>) -> Result<Self> {
        let endian = cursor.endian();
        Ok(match header.kind {
            RecordKind::MMAP => Self::Mmap(Mmap {
                pid: Pid(cursor.i32("mmap pid")?),
                tid: Tid(cursor.i32("mmap tid")?),
                addr: Addr(cursor.u64("mmap addr")?),
                len: cursor.u64("mmap len")?,
                pgoff: cursor.u64("mmap pgoff")?,
                filename: cursor.c_str("mmap filename")?,
            }),
            RecordKind::LOST => {
                Self::Lost { id: cursor.u64("lost id")?, lost: cursor.u64("lost count")? }
            }
            RecordKind::COMM => Self::Comm(Comm {
                pid: Pid(cursor.i32("comm pid")?),
                tid: Tid(cursor.i32("comm tid")?),
                comm: cursor.c_str("comm")?,
            }),
            RecordKind::EXIT => Self::Exit(Task::decode(cursor)?),
            RecordKind::FORK => Self::Fork(Task::decode(cursor)?),
            RecordKind::THROTTLE => Self::Throttle(Throttle::decode(cursor)?),
            RecordKind::UNTHROTTLE => Self::Unthrottle(Throttle::decode(cursor)?),
            RecordKind::READ => Self::Read {
                pid: Pid(cursor.i32("read pid")?),
                tid: Tid(cursor.i32("read tid")?),
                values: U64s::new(cursor.rest(), endian),
            },
            RecordKind::SAMPLE => Self::Sample(cursor.rest()),
            RecordKind::MMAP2 => Self::Mmap2(Mmap2::decode(header, cursor)?),
            RecordKind::AUX => Self::Aux {
                offset: cursor.u64("aux offset")?,
                size: cursor.u64("aux size")?,
                flags: cursor.u64("aux flags")?,
            },
            RecordKind::ITRACE_START => Self::ItraceStart {
                pid: Pid(cursor.i32("itrace_start pid")?),
                tid: Tid(cursor.i32("itrace_start tid")?),
            },
            RecordKind::LOST_SAMPLES => Self::LostSamples { lost: cursor.u64("lost_samples")? },
            RecordKind::SWITCH => Self::Switch,
            RecordKind::SWITCH_CPU_WIDE => Self::SwitchCpuWide {
                next_prev_pid: Pid(cursor.i32("next_prev_pid")?),
                next_prev_tid: Tid(cursor.i32("next_prev_tid")?),
            },
            RecordKind::NAMESPACES => {
                let pid = Pid(cursor.i32("namespaces pid")?);
                let tid = Tid(cursor.i32("namespaces tid")?);
                let n = cursor.u64("nr_namespaces")?.saturating_mul(2);
                Self::Namespaces { pid, tid, links: U64s::take(cursor, n, "namespaces")? }
            }
            RecordKind::KSYMBOL => Self::Ksymbol(Ksymbol {
                addr: Addr(cursor.u64("ksymbol addr")?),
                len: cursor.u32("ksymbol len")?,
                ksym_type: cursor.u16("ksymbol type")?,
                flags: cursor.u16("ksymbol flags")?,
                name: cursor.c_str("ksymbol name")?,
            }),
            RecordKind::BPF_EVENT => Self::BpfEvent(BpfEvent {
                kind: cursor.u16("bpf_event type")?,
                flags: cursor.u16("bpf_event flags")?,
                id: ProgId(cursor.u32("bpf_event id")?),
                tag: BpfTag(cursor.array("bpf_event tag")?),
            }),
            RecordKind::CGROUP => {
                Self::Cgroup { id: cursor.u64("cgroup id")?, path: cursor.c_str("cgroup path")? }
            }
            RecordKind::TEXT_POKE => {
                let addr = Addr(cursor.u64("text_poke addr")?);
                let old_len = usize::from(cursor.u16("text_poke old_len")?);
                let new_len = usize::from(cursor.u16("text_poke new_len")?);
                let old = cursor.bytes(old_len, "text_poke old bytes")?;
                Self::TextPoke { addr, old, new: cursor.bytes(new_len, "text_poke new bytes")? }
            }
            RecordKind::AUX_OUTPUT_HW_ID => Self::AuxOutputHwId { hw_id: cursor.u64("hw_id")? },
            RecordKind::CALLCHAIN_DEFERRED => {
                let cookie = cursor.u64("callchain_deferred cookie")?;
                let n = cursor.u64("callchain_deferred nr")?;
                Self::CallchainDeferred { cookie, ips: U64s::take(cursor, n, "callchain")? }
            }
            kind if kind.is_kernel() || kind.name().is_none() => Self::Unknown(cursor.rest()),
            _ => Self::User(UserRecord::decode(header, cursor)?),
        })
    }

    /// How many bytes the fields of a record take by its content, where its header may claim more.
    ///
    /// Where several events want the same `KSYMBOL`, `BPF_EVENT` or `TEXT_POKE`, the kernel adds
    /// the length of the trailer to the one header again for each, so that all but the first
    /// recorder get records with unwritten bytes at the end, behind the trailer.
    ///
    /// Source: `perf_event_ksymbol_output()`, `perf_event_bpf_output()` and
    /// `perf_event_text_poke_output()` in `kernel/events/core.c`, which do not put the size back
    /// as their neighbours do.
    pub fn fields_len(kind: RecordKind, body: &[u8], endian: Endian) -> Option<usize> {
        let len = match kind {
            RecordKind::BPF_EVENT => 16,
            RecordKind::KSYMBOL => {
                let name = body.get(16..)?;
                let end = name.iter().position(|&byte| byte == 0)?;
                end.checked_add(17)?.checked_next_multiple_of(8)?
            }
            RecordKind::TEXT_POKE => {
                let mut cursor = Cursor::new(body.get(8..)?, FileOffset(8), endian);
                let old_len = usize::from(cursor.u16("text_poke old_len").ok()?);
                let new_len = usize::from(cursor.u16("text_poke new_len").ok()?);
                12_usize.checked_add(old_len)?.checked_add(new_len)?.checked_next_multiple_of(8)?
            }
            _ => return None,
        };
        (len <= body.len()).then_some(len)
    }

    /// Appends the record as a whole: a header with `kind` and `misc`, the body, and `trailer`,
    /// which is a [`SampleId`](super::SampleId) in bytes or nothing.
    ///
    /// # Errors
    ///
    /// The record's length in bytes if it is more than a header can say, 65,535; nothing is
    /// appended then.
    pub fn encode(
        &self,
        kind: RecordKind,
        misc: u16,
        trailer: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), TooLong> {
        let mut body = Vec::new();
        self.encode_body(&mut body);
        let len = body.len().saturating_add(trailer.len()).saturating_add(8);
        let size = u16::try_from(len).map_err(|_| TooLong { len })?;
        out.extend(kind.0.to_ne_bytes());
        out.extend(misc.to_ne_bytes());
        out.extend(size.to_ne_bytes());
        out.append(&mut body);
        out.extend_from_slice(trailer);
        Ok(())
    }

    fn encode_body(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Mmap(Mmap { pid, tid, addr, len, pgoff, filename }) => {
                put_task(pid, tid, out);
                put_u64s([addr.0, len, pgoff], out);
                put_str(filename, out);
            }
            Self::Lost { id, lost } => put_u64s([id, lost], out),
            Self::Comm(Comm { pid, tid, comm }) => {
                put_task(pid, tid, out);
                put_str(comm, out);
            }
            Self::Exit(task) | Self::Fork(task) => {
                let Task { pid, ppid, tid, ptid, time } = task;
                for id in [pid.0, ppid.0, tid.0, ptid.0] {
                    out.extend(id.to_ne_bytes());
                }
                put_u64s([time.0], out);
            }
            Self::Throttle(throttle) | Self::Unthrottle(throttle) => {
                let Throttle { time, id, stream_id } = throttle;
                put_u64s([time.0, id, stream_id], out);
            }
            Self::Read { pid, tid, values } => {
                put_task(pid, tid, out);
                put_u64s(values.iter(), out);
            }
            Self::Sample(bytes) | Self::Unknown(bytes) => out.extend_from_slice(bytes),
            Self::Mmap2(ref mmap) => mmap.encode(out),
            Self::Aux { offset, size, flags } => put_u64s([offset, size, flags], out),
            Self::ItraceStart { pid, tid } => put_task(pid, tid, out),
            Self::LostSamples { lost } => put_u64s([lost], out),
            Self::Switch => {}
            Self::SwitchCpuWide { next_prev_pid, next_prev_tid } => {
                put_task(next_prev_pid, next_prev_tid, out);
            }
            Self::Namespaces { pid, tid, links } => {
                put_task(pid, tid, out);
                put_u64s([widen(links.len() >> 1)], out);
                put_u64s(links.iter(), out);
            }
            Self::Ksymbol(Ksymbol { addr, len, ksym_type, flags, name }) => {
                put_u64s([addr.0], out);
                out.extend(len.to_ne_bytes());
                out.extend(ksym_type.to_ne_bytes());
                out.extend(flags.to_ne_bytes());
                put_str(name, out);
            }
            Self::BpfEvent(BpfEvent { kind, flags, id, tag }) => {
                out.extend(kind.to_ne_bytes());
                out.extend(flags.to_ne_bytes());
                out.extend(id.0.to_ne_bytes());
                out.extend(tag.0);
            }
            Self::Cgroup { id, path } => {
                put_u64s([id], out);
                put_str(path, out);
            }
            Self::TextPoke { addr, old, new } => {
                let len = |bytes: &[u8]| u16::try_from(bytes.len()).unwrap_or(u16::MAX);
                put_u64s([addr.0], out);
                out.extend(len(old).to_ne_bytes());
                out.extend(len(new).to_ne_bytes());
                out.extend_from_slice(old);
                out.extend_from_slice(new);
                pad_to_8(out);
            }
            Self::AuxOutputHwId { hw_id } => put_u64s([hw_id], out),
            Self::CallchainDeferred { cookie, ips } => {
                put_u64s([cookie, widen(ips.len())], out);
                put_u64s(ips.iter(), out);
            }
            Self::User(ref user) => user.encode_body(out),
        }
    }
}

/// A record is longer than its header can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record of {len} bytes exceeds the 65,535 that its header can say")]
pub struct TooLong {
    /// The length in bytes.
    pub len: usize,
}

impl Task {
    fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        Ok(Self {
            pid: Pid(cursor.i32("task pid")?),
            ppid: Pid(cursor.i32("task ppid")?),
            tid: Tid(cursor.i32("task tid")?),
            ptid: Tid(cursor.i32("task ptid")?),
            time: Nanos(cursor.u64("task time")?),
        })
    }
}

impl Throttle {
    fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        Ok(Self {
            time: Nanos(cursor.u64("throttle time")?),
            id: cursor.u64("throttle id")?,
            stream_id: cursor.u64("throttle stream_id")?,
        })
    }
}

impl<'a> Mmap2<'a> {
    fn decode(header: RecordHeader, cursor: &mut Cursor<'a>) -> Result<Self> {
        Ok(Self {
            pid: Pid(cursor.i32("mmap2 pid")?),
            tid: Tid(cursor.i32("mmap2 tid")?),
            addr: Addr(cursor.u64("mmap2 addr")?),
            len: cursor.u64("mmap2 len")?,
            pgoff: cursor.u64("mmap2 pgoff")?,
            id: if header.misc & misc::MMAP_BUILD_ID == 0 {
                MmapId::Inode {
                    maj: cursor.u32("mmap2 maj")?,
                    min: cursor.u32("mmap2 min")?,
                    ino: cursor.u64("mmap2 ino")?,
                    ino_generation: cursor.u64("mmap2 ino_generation")?,
                }
            } else {
                let len = usize::from(cursor.u8("mmap2 build_id_size")?);
                cursor.bytes(3, "mmap2 reserved")?;
                let bytes: [u8; BuildId::MAX] = cursor.array("mmap2 build_id")?;
                MmapId::BuildId(bytes.get(..len).and_then(BuildId::new))
            },
            prot: cursor.u32("mmap2 prot")?,
            flags: cursor.u32("mmap2 flags")?,
            filename: cursor.c_str("mmap2 filename")?,
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let Self { pid, tid, addr, len, pgoff, id, prot, flags, filename } = *self;
        put_task(pid, tid, out);
        put_u64s([addr.0, len, pgoff], out);
        match id {
            MmapId::Inode { maj, min, ino, ino_generation } => {
                out.extend(maj.to_ne_bytes());
                out.extend(min.to_ne_bytes());
                put_u64s([ino, ino_generation], out);
            }
            MmapId::BuildId(id) => {
                let bytes = id.as_ref().map(BuildId::as_bytes).unwrap_or_default();
                out.push(u8::try_from(bytes.len()).unwrap_or(0));
                out.extend([0; 3]);
                out.extend_from_slice(bytes);
                out.extend(std::iter::repeat_n(0, BuildId::MAX.saturating_sub(bytes.len())));
            }
        }
        out.extend(prot.to_ne_bytes());
        out.extend(flags.to_ne_bytes());
        put_str(filename, out);
    }
}

fn put_task(Pid(pid): Pid, Tid(tid): Tid, out: &mut Vec<u8>) {
    out.extend(pid.to_ne_bytes());
    out.extend(tid.to_ne_bytes());
}

pub(super) fn put_u64s(values: impl IntoIterator<Item = u64>, out: &mut Vec<u8>) {
    values.into_iter().for_each(|value| out.extend(value.to_ne_bytes()));
}

/// A string with its end, padded so that what follows is aligned to 8 bytes.
fn put_str(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(text);
    out.push(0);
    pad_to_8(out);
}

pub(super) fn pad_to_8(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(8), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_of_a_record_says_where_its_fields_end() {
        let len = |kind, body: &[u8]| Record::fields_len(kind, body, Endian::Little);
        let named = |name: &[u8]| [&[0; 16], name, &[0xff; 40]].concat();
        assert_eq!(len(RecordKind::KSYMBOL, &named(b"bpf_pro\0")), Some(24));
        assert_eq!(len(RecordKind::KSYMBOL, &named(b"bpf_prog\0\0\0\0\0\0\0\0")), Some(32));
        assert_eq!(len(RecordKind::KSYMBOL, &[1; 40]), None);
        assert_eq!(len(RecordKind::BPF_EVENT, &[1; 80]), Some(16));
        assert_eq!(len(RecordKind::BPF_EVENT, &[1; 8]), None);
        let poke = [&[0; 8], &[5, 0, 2, 0][..], &[9; 30]].concat();
        assert_eq!(len(RecordKind::TEXT_POKE, &poke), Some(24));
        assert_eq!(len(RecordKind::COMM, &[0; 24]), None);
    }
}
