//! What a sample of `offcpu-time` holds as raw data: the sleep of a task, told when it was over.
//!
//! perf takes process, thread, period and call chain from there, and passes over what follows the
//! cgroup, where we write more.
//!
//! ```text
//! u32 pid, u32 tid, u64 off_ns, u64 nr, u64 ips[nr], u64 cgroup      perf's
//! u64 magic, u32 state, u32 woken_by, u64 n, u64 runnable_ns,        ours
//! u32 waker_pid, u32 waker_tid, char waker_comm[16]
//! u32 0                                                              so that the sample ends aligned
//! ```
//!
//! Source: `__set_offcpu_sample()` in `tools/perf/util/evsel.c`, since Linux 6.16.

use crate::units::Addr;
use crate::units::FileOffset;
use crate::units::Pid;
use crate::units::Tid;

use super::Attr;
use super::Cursor;
use super::Endian;
use super::Result;
use super::SampleType;
use super::U64s;
use super::callchain_context;
use super::cursor::until_zero;
use super::cursor::widen;
use super::record::misc;
use super::record::put_u64s;

/// What the event is called, which is all that tells it from others.
pub const EVENT_NAME: &str = "offcpu-time";

/// What stands before our part.
const MAGIC: [u8; 8] = *b"bpfoff\x01\0";

/// `PERF_TYPE_SOFTWARE`.
const SOFTWARE: u32 = 1;
/// `PERF_COUNT_SW_BPF_OUTPUT`.
const BPF_OUTPUT: u64 = 10;

/// A time off the CPU, or the sum of several that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffCpu<'a> {
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// How long it was off the CPU, in nanoseconds.
    pub off_ns: u64,
    /// Where it left: addresses and context marks.
    pub chain: U64s<'a>,
    /// Its cgroup; 0 where nobody asked.
    pub cgroup: u64,
    /// What perf does not write.
    pub more: Option<More<'a>>,
}

/// What bpfperf knows besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct More<'a> {
    /// The state in which the task left, `TASK_*` of `include/linux/sched.h`; 0 for one that could
    /// have gone on.
    pub state: u32,
    /// What woke it.
    pub woken_by: WokenBy,
    /// How many times it left.
    pub n: u64,
    /// How long it could have run and waited for a CPU, in nanoseconds.
    pub runnable_ns: u64,
    /// The process and the thread that woke it, if one did.
    pub waker: (Pid, Tid),
    /// What that thread was called.
    pub waker_comm: &'a [u8],
}

/// What woke a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WokenBy(pub u32);

impl WokenBy {
    /// It was not asleep, or it is not known.
    pub const UNKNOWN: Self = Self(0);
    /// A task.
    pub const TASK: Self = Self(1);
    /// An interrupt, of a timer or a device.
    pub const HARDIRQ: Self = Self(2);
    /// What an interrupt put off.
    pub const SOFTIRQ: Self = Self(3);
    /// An interrupt that nothing masks.
    pub const NMI: Self = Self(4);
    /// Nobody: it was still asleep when the recording ended.
    pub const NOBODY: Self = Self(5);
}

/// Whether samples of an event named `name` hold this.
///
/// Source: `evsel__is_offcpu_event()` in `tools/perf/util/evsel.c`. perf before 6.16 has the event
/// without raw data.
pub fn is_off_cpu(name: &str, attr: &Attr) -> bool {
    name == EVENT_NAME
        && (attr.kind, attr.config) == (SOFTWARE, BPF_OUTPUT)
        && attr.sample_type.contains(SampleType::RAW)
}

impl<'a> OffCpu<'a> {
    /// Decodes the raw data of a sample.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`](super::Error::Truncated) if perf's part is not all there.
    pub fn decode(raw: &'a [u8], endian: Endian) -> Result<Self> {
        let cursor = &mut Cursor::new(raw, FileOffset(0), endian);
        let pid = Pid(cursor.i32("off-cpu pid")?);
        let tid = Tid(cursor.i32("off-cpu tid")?);
        let off_ns = cursor.u64("off-cpu time")?;
        let n = cursor.u64("off-cpu nr")?;
        let chain = U64s::take(cursor, n, "off-cpu chain")?;
        let cgroup = cursor.u64("off-cpu cgroup")?;
        // Whatever else follows is somebody else's.
        let more = More::decode(cursor).ok().flatten();
        Ok(Self { pid, tid, off_ns, chain, cgroup, more })
    }

    /// Appends it as raw data; the sample that it is put into ends aligned.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let Self { pid, tid, off_ns, chain, cgroup, more } = self;
        out.extend(pid.0.to_ne_bytes());
        out.extend(tid.0.to_ne_bytes());
        put_u64s([*off_ns, widen(chain.len())], out);
        put_u64s(chain.iter(), out);
        put_u64s([*cgroup], out);
        if let Some(more) = more {
            more.encode(out);
        }
        out.extend([0; 4]);
    }

    /// The address where it left, in the order of the chain the first, and the CPU mode that it is of.
    pub fn ip(&self) -> (Addr, u16) {
        let mut mode = misc::USER;
        for entry in self.chain.iter() {
            match entry {
                callchain_context::KERNEL => mode = misc::KERNEL,
                callchain_context::USER => mode = misc::USER,
                ip => return (Addr(ip), mode),
            }
        }
        (Addr(0), mode)
    }
}

impl<'a> More<'a> {
    fn decode(cursor: &mut Cursor<'a>) -> Result<Option<Self>> {
        if cursor.array::<8>("off-cpu magic")? != MAGIC {
            return Ok(None);
        }
        Ok(Some(Self {
            state: cursor.u32("off-cpu state")?,
            woken_by: WokenBy(cursor.u32("off-cpu woken_by")?),
            n: cursor.u64("off-cpu n")?,
            runnable_ns: cursor.u64("off-cpu runnable time")?,
            waker: (Pid(cursor.i32("waker pid")?), Tid(cursor.i32("waker tid")?)),
            waker_comm: cursor.padded_str(16, "waker comm")?,
        }))
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let Self { state, woken_by, n, runnable_ns, waker: (pid, tid), waker_comm } = self;
        out.extend(MAGIC);
        out.extend(state.to_ne_bytes());
        out.extend(woken_by.0.to_ne_bytes());
        put_u64s([*n, *runnable_ns], out);
        out.extend(pid.0.to_ne_bytes());
        out.extend(tid.0.to_ne_bytes());
        let mut comm = [0; 16];
        let known = until_zero(waker_comm);
        for (to, from) in comm.iter_mut().zip(known) {
            *to = *from;
        }
        out.extend(comm);
    }

    /// The letter of the state, as `ps` and `/proc` have it.
    ///
    /// Source: `task_state_array` in `fs/proc/array.c`.
    pub fn state_letter(&self) -> char {
        // A letter a bit, and one for none.
        const LETTERS: [char; 8] = ['S', 'D', 'T', 't', 'X', 'Z', 'P', 'X'];
        let letter = LETTERS.iter().zip(0..).find(|(_, bit)| self.state >> bit & 1 == 1);
        match letter {
            Some((letter, _)) => *letter,
            None if self.state == 0 => 'R',
            None => '?',
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|it| it.to_ne_bytes()).collect()
    }

    const MORE: More<'_> = More {
        state: 2,
        woken_by: WokenBy::TASK,
        n: 3,
        runnable_ns: 40,
        waker: (Pid(7), Tid(8)),
        waker_comm: b"writer",
    };

    #[test]
    fn what_is_written_is_perfs_layout_with_ours_behind() {
        let chain = words(&[callchain_context::KERNEL, 0xffff, callchain_context::USER, 0x4000]);
        let chain = U64s::new(&chain, Endian::NATIVE);
        let off_cpu =
            OffCpu { pid: Pid(5), tid: Tid(6), off_ns: 900, chain, cgroup: 11, more: Some(MORE) };
        let mut raw = Vec::new();
        off_cpu.encode(&mut raw);
        let (pid, tid) = (5_u32.to_ne_bytes(), 6_u32.to_ne_bytes());
        let perfs = words(&[
            900,
            4,
            callchain_context::KERNEL,
            0xffff,
            callchain_context::USER,
            0x4000,
            11,
        ]);
        assert_eq!(raw[..64], [&pid[..], &tid, &perfs].concat());
        assert_eq!((raw.len() + 4) % 8, 0);
        assert_eq!(OffCpu::decode(&raw, Endian::NATIVE).unwrap(), off_cpu);
        assert_eq!(off_cpu.ip(), (Addr(0xffff), misc::KERNEL));
    }

    #[test]
    fn what_perf_writes_has_no_more() {
        let raw = [words(&[6 << 32 | 5, 900, 2, callchain_context::USER, 0x4000, 0]), vec![0; 4]]
            .concat();
        let off_cpu = OffCpu::decode(&raw, Endian::NATIVE).unwrap();
        assert_eq!((off_cpu.off_ns, off_cpu.more, off_cpu.ip()), (900, None, (Addr(0x4000), 0x2)));
        let short = OffCpu::decode(&raw[..40], Endian::NATIVE).unwrap_err();
        assert_eq!(short.to_string(), "off-cpu cgroup at byte 0x28 needs 8 bytes, only 0 left");
        let raw = words(&[1, 900, u64::MAX, 0]);
        assert!(OffCpu::decode(&raw, Endian::NATIVE).is_err());
    }

    #[test]
    fn states_have_the_letters_of_proc() {
        let letter = |state| More { state, ..MORE }.state_letter();
        assert_eq!([0, 1, 2, 4, 8, 0x40, 0x100].map(letter), ['R', 'S', 'D', 'T', 't', 'P', '?']);
    }

    #[test]
    fn only_an_event_of_that_name_that_holds_raw_data_is_meant() {
        let attr = Attr {
            kind: SOFTWARE,
            config: BPF_OUTPUT,
            sample_type: SampleType::RAW,
            ..Attr::default()
        };
        assert!(is_off_cpu(EVENT_NAME, &attr));
        assert!(!is_off_cpu("bpf-output", &attr));
        assert!(!is_off_cpu(EVENT_NAME, &Attr { config: 0, ..attr }));
        assert!(!is_off_cpu(EVENT_NAME, &Attr { sample_type: SampleType::TID, ..attr }));
    }
}
