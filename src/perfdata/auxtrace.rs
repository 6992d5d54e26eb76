//! Records about the AUX area, where hardware traces go: 71 and 72.
//!
//! Source: `struct perf_record_auxtrace*` in `tools/lib/perf/include/perf/event.h`.

use crate::units::Addr;
use crate::units::Cpu;
use crate::units::Nanos;
use crate::units::Pid;
use crate::units::Tid;

use super::Cursor;
use super::Result;
use super::record::put_u64s;
use super::user_record::put_padded;

/// AUX data: record 71; as many bytes as it says follow the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auxtrace {
    /// How many bytes follow.
    pub size: u64,
    /// Where they stood in the AUX area.
    pub offset: u64,
    /// The tracer's own reference.
    pub reference: u64,
    /// Which AUX area.
    pub idx: u32,
    /// The thread, -1 for all.
    pub tid: Tid,
    /// The CPU, `u32::MAX` for all.
    pub cpu: Cpu,
}

impl Auxtrace {
    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let this = Self {
            size: cursor.u64("auxtrace size")?,
            offset: cursor.u64("auxtrace offset")?,
            reference: cursor.u64("auxtrace reference")?,
            idx: cursor.u32("auxtrace idx")?,
            tid: Tid(cursor.i32("auxtrace tid")?),
            cpu: Cpu(cursor.u32("auxtrace cpu")?),
        };
        cursor.u32("auxtrace reserved")?;
        Ok(this)
    }

    pub(super) fn encode(self, out: &mut Vec<u8>) {
        let Self { size, offset, reference, idx, tid, cpu } = self;
        put_u64s([size, offset, reference], out);
        out.extend(idx.to_ne_bytes());
        out.extend(tid.0.to_ne_bytes());
        out.extend(cpu.0.to_ne_bytes());
        out.extend([0; 4]);
    }
}

/// AUX data that could not be decoded: record 72.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuxtraceError<'a> {
    /// Which kind of trace.
    pub kind: u32,
    /// What went wrong.
    pub code: u32,
    /// The CPU.
    pub cpu: Cpu,
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// Which of the fields behind [`AuxtraceError::ip`] count: 0 none, 1 the time, 2 all.
    pub format: u32,
    /// Where.
    pub ip: Addr,
    /// When.
    pub time: Nanos,
    /// The same in words.
    pub message: &'a [u8],
    /// A guest's process and its CPU, since perf 6.0; `None` in older files.
    pub guest: Option<(Pid, Cpu)>,
}

/// The room for the words, in bytes, end included.
const MESSAGE_LEN: usize = 64;

impl<'a> AuxtraceError<'a> {
    pub(super) fn decode(cursor: &mut Cursor<'a>) -> Result<Self> {
        Ok(Self {
            kind: cursor.u32("auxtrace_error type")?,
            code: cursor.u32("auxtrace_error code")?,
            cpu: Cpu(cursor.u32("auxtrace_error cpu")?),
            pid: Pid(cursor.i32("auxtrace_error pid")?),
            tid: Tid(cursor.i32("auxtrace_error tid")?),
            format: cursor.u32("auxtrace_error fmt")?,
            ip: Addr(cursor.u64("auxtrace_error ip")?),
            time: Nanos(cursor.u64("auxtrace_error time")?),
            message: cursor.padded_str(MESSAGE_LEN, "auxtrace_error msg")?,
            guest: if cursor.remaining() == 0 {
                None
            } else {
                let pid = Pid(cursor.i32("auxtrace_error machine_pid")?);
                Some((pid, Cpu(cursor.u32("auxtrace_error vcpu")?)))
            },
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let Self { kind, code, cpu, pid, tid, format, ip, time, message, guest } = *self;
        out.extend(kind.to_ne_bytes());
        out.extend(code.to_ne_bytes());
        out.extend(cpu.0.to_ne_bytes());
        out.extend(pid.0.to_ne_bytes());
        out.extend(tid.0.to_ne_bytes());
        out.extend(format.to_ne_bytes());
        put_u64s([ip.0, time.0], out);
        put_padded(message, MESSAGE_LEN, out);
        if let Some((Pid(pid), Cpu(vcpu))) = guest {
            out.extend(pid.to_ne_bytes());
            out.extend(vcpu.to_ne_bytes());
        }
    }
}
