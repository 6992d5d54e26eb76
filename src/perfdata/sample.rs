//! The fields of a `SAMPLE` record.

use crate::units::Addr;
use crate::units::FileOffset;
use crate::units::Nanos;
use crate::units::Pid;
use crate::units::Tid;

use super::Attr;
use super::Cursor;
use super::Endian;
use super::ReadFormat;
use super::Result;
use super::SampleType;
use super::U64s;
use super::cursor::widen;
use super::off_cpu::OffCpu;
use super::record::pad_to_8;
use super::record::put_u64s;

/// Where the fields of a sample lie, computed once for each event from its attribute.
///
/// The order of the fields is that of `struct { .. } PERF_RECORD_SAMPLE` in
/// `include/uapi/linux/perf_event.h`. The first ten are a word each, so they have a fixed place.
#[derive(Clone, Copy, Debug)]
pub struct SampleLayout {
    attr: Attr,
    endian: Endian,
    ip: Option<usize>,
    tid: Option<usize>,
    time: Option<usize>,
    addr: Option<usize>,
    id: Option<usize>,
    stream_id: Option<usize>,
    cpu: Option<usize>,
    period: Option<usize>,
    fixed_len: usize,
    /// Whether raw data says better than the other fields whom a sample is of.
    is_off_cpu: bool,
}

/// A sample with all its fields; what the event does not ask for is `None` or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample<'a> {
    /// The sampled address.
    pub ip: Option<Addr>,
    /// The sampled task.
    pub task: Option<(Pid, Tid)>,
    /// The time.
    pub time: Option<Nanos>,
    /// The data address.
    pub addr: Option<Addr>,
    /// The event's id, from whichever place has it.
    pub id: Option<u64>,
    /// The id of the event itself.
    pub stream_id: Option<u64>,
    /// The CPU.
    pub cpu: Option<u32>,
    /// The period.
    pub period: Option<u64>,
    /// Counter values as they stand, laid out by the event's [`ReadFormat`].
    pub read: Option<U64s<'a>>,
    /// The call chain: addresses and context marks.
    pub callchain: Option<U64s<'a>>,
    /// Raw data.
    pub raw: Option<&'a [u8]>,
    /// Branches.
    pub branches: Option<Branches<'a>>,
    /// Registers of the user context.
    pub regs_user: Option<Registers<'a>>,
    /// The copy of the user stack; how much of it is real stands apart.
    pub stack_user: Option<UserStack<'a>>,
    /// The weight, in one number or in parts.
    pub weight: Option<u64>,
    /// Where data came from.
    pub data_src: Option<u64>,
    /// Transaction flags.
    pub transaction: Option<u64>,
    /// Registers at the interrupt.
    pub regs_intr: Option<Registers<'a>>,
    /// The physical data address.
    pub phys_addr: Option<u64>,
    /// The cgroup.
    pub cgroup: Option<u64>,
    /// The page size of the data address.
    pub data_page_size: Option<u64>,
    /// The page size of the code address.
    pub code_page_size: Option<u64>,
    /// AUX data.
    pub aux: Option<&'a [u8]>,
}

/// Branch records of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branches<'a> {
    /// The index of the first in the hardware's ring, where asked for.
    pub hw_idx: Option<u64>,
    /// From, to and flags of each, one after another.
    pub entries: U64s<'a>,
    /// Counters of each, where asked for.
    pub counters: Option<U64s<'a>>,
}

/// Registers of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers<'a> {
    /// `PERF_SAMPLE_REGS_ABI_*`; 0 if there are none.
    pub abi: u64,
    /// The values, by ascending bit of the mask in the attribute.
    pub values: U64s<'a>,
}

/// A copy of the user stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserStack<'a> {
    /// The bytes from the stack pointer up.
    pub bytes: &'a [u8],
    /// How many of them were really copied.
    pub dyn_size: u64,
}

/// From what the frames of a task's user code can be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserState<'a> {
    /// Which registers there are, by bit: `sample_regs_user` of the event.
    pub mask: u64,
    /// The registers.
    pub registers: Registers<'a>,
    /// The stack from the stack pointer on.
    pub stack: UserStack<'a>,
}

/// `PERF_SAMPLE_BRANCH_HW_INDEX`.
const BRANCH_HW_INDEX: u64 = 1 << 17;
/// `PERF_SAMPLE_BRANCH_COUNTERS`.
const BRANCH_COUNTERS: u64 = 1 << 19;

impl SampleLayout {
    /// The layout of the samples of an event with `attr`, in a file of byte order `endian`.
    pub fn new(attr: &Attr, endian: Endian) -> Self {
        let mut len = 0_usize;
        let mut place = |field| {
            let at = len;
            attr.sample_type.contains(field).then(|| {
                len = len.saturating_add(8);
                at
            })
        };
        let identifier = place(SampleType::IDENTIFIER);
        let ip = place(SampleType::IP);
        let tid = place(SampleType::TID);
        let time = place(SampleType::TIME);
        let addr = place(SampleType::ADDR);
        let id = place(SampleType::ID);
        let stream_id = place(SampleType::STREAM_ID);
        let cpu = place(SampleType::CPU);
        let period = place(SampleType::PERIOD);
        Self {
            attr: *attr,
            endian,
            ip,
            tid,
            time,
            addr,
            id: identifier.or(id),
            stream_id,
            cpu,
            period,
            fixed_len: len,
            is_off_cpu: false,
        }
    }

    /// The layout of an event that [`is_off_cpu`](super::off_cpu::is_off_cpu): task, period, call chain and
    /// address come from the raw data, as in perf, whose own fields are of whoever ran then.
    #[must_use]
    pub fn of_off_cpu(self) -> Self {
        Self { is_off_cpu: true, ..self }
    }

    /// Whether its samples have call chains.
    pub fn has_callchain(&self) -> bool {
        self.is_off_cpu || self.attr.sample_type.contains(SampleType::CALLCHAIN)
    }

    /// The time off the CPU that `sample` tells of, if its event is of such.
    pub fn off_cpu<'a>(&self, sample: &'a [u8]) -> Option<OffCpu<'a>> {
        if !self.is_off_cpu {
            return None;
        }
        OffCpu::decode(self.raw(sample).ok()??, self.endian).ok()
    }

    /// The CPU mode of the sampled address, where the header of the record has `mode`.
    #[inline]
    pub fn cpumode(&self, sample: &[u8], mode: u16) -> u16 {
        self.off_cpu(sample).map_or(mode, |it| it.ip().1)
    }

    /// Whether `sample` holds at least the fields that stand at fixed places.
    #[inline]
    pub fn fits(&self, sample: &[u8]) -> bool {
        sample.len() >= self.fixed_len
    }

    /// The sampled address in `sample`, the body of a record.
    #[inline]
    pub fn ip(&self, sample: &[u8]) -> Option<Addr> {
        if let Some(off_cpu) = self.off_cpu(sample) {
            return Some(off_cpu.ip().0);
        }
        self.word(sample, self.ip?).map(Addr)
    }

    /// The sampled task.
    #[inline]
    pub fn task(&self, sample: &[u8]) -> Option<(Pid, Tid)> {
        if let Some(off_cpu) = self.off_cpu(sample) {
            return Some((off_cpu.pid, off_cpu.tid));
        }
        let bytes = sample.get(self.tid?..)?;
        let (pid, bytes) = bytes.split_first_chunk::<4>()?;
        let (tid, _) = bytes.split_first_chunk::<4>()?;
        let number = |bytes: &[u8; 4]| self.endian.u32(*bytes).cast_signed();
        Some((Pid(number(pid)), Tid(number(tid))))
    }

    /// The time.
    #[inline]
    pub fn time(&self, sample: &[u8]) -> Option<Nanos> {
        self.word(sample, self.time?).map(Nanos)
    }

    /// The data address, where the event has one.
    #[inline]
    pub fn addr(&self, sample: &[u8]) -> Option<Addr> {
        self.word(sample, self.addr?).map(Addr)
    }

    /// The event's id, where the sample carries one.
    #[inline]
    pub fn id(&self, sample: &[u8]) -> Option<u64> {
        self.word(sample, self.id?)
    }

    /// The CPU.
    #[inline]
    pub fn cpu(&self, sample: &[u8]) -> Option<u32> {
        let bytes = sample.get(self.cpu?..)?.first_chunk::<4>()?;
        Some(self.endian.u32(*bytes))
    }

    /// The period: the sample's own, else the event's.
    #[inline]
    pub fn period(&self, sample: &[u8]) -> u64 {
        if let Some(off_cpu) = self.off_cpu(sample) {
            return off_cpu.off_ns;
        }
        let own = self.period.and_then(|at| self.word(sample, at));
        own.unwrap_or(self.attr.sample_period)
    }

    /// The raw call chain: addresses and context marks, the kernel's part first; `None` if the
    /// event has none.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`](super::Error::Truncated) if the record holds fewer than it claims.
    pub fn callchain<'a>(&self, sample: &'a [u8]) -> Result<Option<U64s<'a>>> {
        if let Some(off_cpu) = self.off_cpu(sample) {
            return Ok(Some(off_cpu.chain));
        }
        if !self.attr.sample_type.contains(SampleType::CALLCHAIN) {
            return Ok(None);
        }
        let mut cursor = Cursor::new(sample, FileOffset(0), self.endian);
        cursor.bytes(self.fixed_len, "sample fields")?;
        if self.attr.sample_type.contains(SampleType::READ) {
            self.read(&mut cursor)?;
        }
        let n = cursor.u64("callchain nr")?;
        U64s::take(&mut cursor, n, "callchain entries").map(Some)
    }

    /// Ids and values of the counters that the sample holds, none if the event has none.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`](super::Error::Truncated) if the record holds less than it claims.
    pub fn values(&self, sample: &[u8]) -> Result<Vec<(u64, u64)>> {
        if !self.attr.sample_type.contains(SampleType::READ) {
            return Ok(Vec::new());
        }
        let mut cursor = Cursor::new(sample, FileOffset(0), self.endian);
        cursor.bytes(self.fixed_len, "sample fields")?;
        let words: Vec<u64> = self.read(&mut cursor)?.iter().collect();
        Ok(self.attr.read_format.values(&words))
    }

    /// The raw data, of a tracepoint what it noted; `None` if the event has none.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`](super::Error::Truncated) if the record holds less than it claims.
    pub fn raw<'a>(&self, sample: &'a [u8]) -> Result<Option<&'a [u8]>> {
        let has = |field| self.attr.sample_type.contains(field);
        if !has(SampleType::RAW) {
            return Ok(None);
        }
        let mut cursor = Cursor::new(sample, FileOffset(0), self.endian);
        cursor.bytes(self.fixed_len, "sample fields")?;
        if has(SampleType::READ) {
            self.read(&mut cursor)?;
        }
        if has(SampleType::CALLCHAIN) {
            let n = cursor.u64("callchain nr")?;
            U64s::take(&mut cursor, n, "callchain entries")?;
        }
        let len = usize::try_from(cursor.u32("raw size")?).unwrap_or(usize::MAX);
        cursor.bytes(len, "raw data").map(Some)
    }

    /// The user registers and the copy of the user stack, from which callers can be found; `None` if
    /// the event has not both, or the sample holds no registers, as that of a kernel thread.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`](super::Error::Truncated) if the record holds less than it claims.
    pub fn user_state<'a>(&self, sample: &'a [u8]) -> Result<Option<UserState<'a>>> {
        if !self.has_user_state() {
            return Ok(None);
        }
        let sample = self.decode(sample, FileOffset(0))?;
        let Some((registers, stack)) = sample.regs_user.zip(sample.stack_user) else {
            return Ok(None);
        };
        let mask = self.attr.sample_regs_user;
        Ok((registers.abi != 0).then_some(UserState { mask, registers, stack }))
    }

    /// Whether its samples hold user registers and a copy of the user stack.
    pub fn has_user_state(&self) -> bool {
        self.attr.sample_type.contains(SampleType::REGS_USER | SampleType::STACK_USER)
            && !self.is_off_cpu
    }

    /// All fields of a sample, whose body stands at `at` in the file.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`](super::Error::Truncated), with the field, if the body ends before it.
    pub fn decode<'a>(&self, sample: &'a [u8], at: FileOffset) -> Result<Sample<'a>> {
        let has = |field| self.attr.sample_type.contains(field);
        let cursor = &mut Cursor::new(sample, at, self.endian);
        cursor.bytes(self.fixed_len, "sample fields")?;
        let mut this = Sample {
            ip: self.ip(sample),
            task: self.task(sample),
            time: self.time(sample),
            addr: self.addr.and_then(|at| self.word(sample, at)).map(Addr),
            id: self.id(sample),
            stream_id: self.stream_id.and_then(|at| self.word(sample, at)),
            cpu: self.cpu(sample),
            period: self.period.and_then(|at| self.word(sample, at)),
            ..Sample::default()
        };
        if has(SampleType::READ) {
            this.read = Some(self.read(cursor)?);
        }
        if has(SampleType::CALLCHAIN) {
            let n = cursor.u64("callchain nr")?;
            this.callchain = Some(U64s::take(cursor, n, "callchain entries")?);
        }
        if has(SampleType::RAW) {
            let len = usize::try_from(cursor.u32("raw size")?).unwrap_or(usize::MAX);
            this.raw = Some(cursor.bytes(len, "raw data")?);
        }
        if has(SampleType::BRANCH_STACK) {
            this.branches = Some(self.branches(cursor)?);
        }
        if has(SampleType::REGS_USER) {
            let mask = self.attr.sample_regs_user;
            this.regs_user = Some(registers(cursor, mask, "user registers")?);
        }
        if has(SampleType::STACK_USER) {
            let len = usize::try_from(cursor.u64("user stack size")?).unwrap_or(usize::MAX);
            let bytes = cursor.bytes(len, "user stack")?;
            let dyn_size = if len == 0 { 0 } else { cursor.u64("user stack dyn_size")? };
            this.stack_user = Some(UserStack { bytes, dyn_size });
        }
        if has(SampleType::WEIGHT) || has(SampleType::WEIGHT_STRUCT) {
            this.weight = Some(cursor.u64("weight")?);
        }
        if has(SampleType::DATA_SRC) {
            this.data_src = Some(cursor.u64("data_src")?);
        }
        if has(SampleType::TRANSACTION) {
            this.transaction = Some(cursor.u64("transaction")?);
        }
        if has(SampleType::REGS_INTR) {
            let mask = self.attr.sample_regs_intr;
            this.regs_intr = Some(registers(cursor, mask, "interrupt registers")?);
        }
        if has(SampleType::PHYS_ADDR) {
            this.phys_addr = Some(cursor.u64("phys_addr")?);
        }
        if has(SampleType::CGROUP) {
            this.cgroup = Some(cursor.u64("cgroup")?);
        }
        if has(SampleType::DATA_PAGE_SIZE) {
            this.data_page_size = Some(cursor.u64("data_page_size")?);
        }
        if has(SampleType::CODE_PAGE_SIZE) {
            this.code_page_size = Some(cursor.u64("code_page_size")?);
        }
        if has(SampleType::AUX) {
            let len = usize::try_from(cursor.u64("aux size")?).unwrap_or(usize::MAX);
            this.aux = Some(cursor.bytes(len, "aux data")?);
        }
        if let Some(off_cpu) = self.off_cpu(sample) {
            this.period = Some(off_cpu.off_ns);
            this.callchain = Some(off_cpu.chain);
            this.cgroup = Some(off_cpu.cgroup);
        }
        Ok(this)
    }

    /// Appends the body of a sample with these values; a field that the event asks for and
    /// `sample` lacks is written as 0.
    pub fn encode(&self, sample: &Sample<'_>, out: &mut Vec<u8>) {
        let has = |field| self.attr.sample_type.contains(field);
        let word = |field, value: Option<u64>, out: &mut Vec<u8>| {
            if has(field) {
                put_u64s([value.unwrap_or(0)], out);
            }
        };
        let start = out.len();
        word(SampleType::IDENTIFIER, sample.id, out);
        word(SampleType::IP, sample.ip.map(|it| it.0), out);
        if has(SampleType::TID) {
            let (Pid(pid), Tid(tid)) = sample.task.unwrap_or_default();
            out.extend(pid.to_ne_bytes());
            out.extend(tid.to_ne_bytes());
        }
        word(SampleType::TIME, sample.time.map(|it| it.0), out);
        word(SampleType::ADDR, sample.addr.map(|it| it.0), out);
        word(SampleType::ID, sample.id, out);
        word(SampleType::STREAM_ID, sample.stream_id, out);
        if has(SampleType::CPU) {
            out.extend(sample.cpu.unwrap_or(0).to_ne_bytes());
            out.extend([0; 4]);
        }
        word(SampleType::PERIOD, sample.period, out);
        if has(SampleType::READ) {
            put_u64s(sample.read.iter().flat_map(U64s::iter), out);
        }
        if has(SampleType::CALLCHAIN) {
            put_u64s([sample.callchain.as_ref().map_or(0, |it| widen(it.len()))], out);
            put_u64s(sample.callchain.iter().flat_map(U64s::iter), out);
        }
        if has(SampleType::RAW) {
            let raw = sample.raw.unwrap_or_default();
            out.extend(u32::try_from(raw.len()).unwrap_or(u32::MAX).to_ne_bytes());
            out.extend_from_slice(raw);
            // The kernel sizes raw data so that what follows is aligned.
            debug_assert_eq!(out.len().wrapping_sub(start) & 7, 0, "raw data ends aligned");
        }
        if has(SampleType::BRANCH_STACK) {
            let branches = sample.branches.as_ref();
            let n = branches.map_or(0, |it| it.entries.len().checked_div(3).unwrap_or(0));
            put_u64s([widen(n)], out);
            put_u64s(branches.iter().filter_map(|it| it.hw_idx), out);
            put_u64s(branches.iter().flat_map(|it| it.entries.iter()), out);
            put_u64s(branches.iter().filter_map(|it| it.counters).flat_map(|it| it.iter()), out);
        }
        if has(SampleType::REGS_USER) {
            put_registers(sample.regs_user.as_ref(), out);
        }
        if has(SampleType::STACK_USER) {
            let stack = sample.stack_user.unwrap_or(UserStack { bytes: &[], dyn_size: 0 });
            put_u64s([widen(stack.bytes.len())], out);
            out.extend_from_slice(stack.bytes);
            put_u64s((!stack.bytes.is_empty()).then_some(stack.dyn_size), out);
        }
        word(SampleType::WEIGHT, sample.weight, out);
        word(SampleType::WEIGHT_STRUCT, sample.weight, out);
        word(SampleType::DATA_SRC, sample.data_src, out);
        word(SampleType::TRANSACTION, sample.transaction, out);
        if has(SampleType::REGS_INTR) {
            put_registers(sample.regs_intr.as_ref(), out);
        }
        word(SampleType::PHYS_ADDR, sample.phys_addr, out);
        word(SampleType::CGROUP, sample.cgroup, out);
        word(SampleType::DATA_PAGE_SIZE, sample.data_page_size, out);
        word(SampleType::CODE_PAGE_SIZE, sample.code_page_size, out);
        if has(SampleType::AUX) {
            let aux = sample.aux.unwrap_or_default();
            put_u64s([widen(aux.len())], out);
            out.extend_from_slice(aux);
            pad_to_8(out);
        }
    }

    #[inline]
    fn word(&self, sample: &[u8], at: usize) -> Option<u64> {
        Some(self.endian.u64(*sample.get(at..)?.first_chunk::<8>()?))
    }

    /// The `read_format` part, as many words as it says.
    fn read<'a>(&self, cursor: &mut Cursor<'a>) -> Result<U64s<'a>> {
        let format = self.attr.read_format;
        let one = |flag| u64::from(format.contains(flag));
        let times =
            one(ReadFormat::TOTAL_TIME_ENABLED).wrapping_add(one(ReadFormat::TOTAL_TIME_RUNNING));
        let value = 1_u64.wrapping_add(one(ReadFormat::ID)).wrapping_add(one(ReadFormat::LOST));
        let n = if format.contains(ReadFormat::GROUP) {
            let mut probe = *cursor;
            let members = probe.u64("read nr")?;
            members.saturating_mul(value).saturating_add(times).saturating_add(1)
        } else {
            value.wrapping_add(times)
        };
        U64s::take(cursor, n, "read values")
    }

    fn branches<'a>(&self, cursor: &mut Cursor<'a>) -> Result<Branches<'a>> {
        let asked = |bit| self.attr.branch_sample_type & bit != 0;
        let n = cursor.u64("branch_stack nr")?;
        let hw_idx =
            asked(BRANCH_HW_INDEX).then(|| cursor.u64("branch_stack hw_idx")).transpose()?;
        let entries = U64s::take(cursor, n.saturating_mul(3), "branch_stack entries")?;
        let counters = asked(BRANCH_COUNTERS)
            .then(|| U64s::take(cursor, n, "branch_stack counters"))
            .transpose()?;
        Ok(Branches { hw_idx, entries, counters })
    }
}

fn registers<'a>(cursor: &mut Cursor<'a>, mask: u64, field: &'static str) -> Result<Registers<'a>> {
    let abi = cursor.u64(field)?;
    let n = if abi == 0 { 0 } else { u64::from(mask.count_ones()) };
    Ok(Registers { abi, values: U64s::take(cursor, n, field)? })
}

fn put_registers(registers: Option<&Registers<'_>>, out: &mut Vec<u8>) {
    put_u64s([registers.map_or(0, |it| it.abi)], out);
    put_u64s(registers.iter().flat_map(|it| it.values.iter()), out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(sample_type: SampleType) -> SampleLayout {
        SampleLayout::new(
            &Attr { sample_type, sample_period: 77, ..Attr::default() },
            Endian::NATIVE,
        )
    }

    #[test]
    fn raw_data_says_whom_a_sample_of_time_off_the_cpu_is_of() {
        let fields = SampleType::IP | SampleType::TID | SampleType::PERIOD;
        let own = layout(fields | SampleType::RAW);
        let user = 0_u64.wrapping_sub(512);
        let mut raw = Vec::new();
        put_u64s([0xc_0000_000b, 500, 2, user, 0x4000, 9], &mut raw);
        raw.extend([0; 4]);
        let sample = Sample {
            ip: Some(Addr(1)),
            task: Some((Pid(1), Tid(2))),
            period: Some(3),
            raw: Some(&raw),
            ..Sample::default()
        };
        let mut bytes = Vec::new();
        own.encode(&sample, &mut bytes);
        assert_eq!(
            (own.period(&bytes), own.has_callchain(), own.cpumode(&bytes, 1)),
            (3, false, 1)
        );
        let off_cpu = own.of_off_cpu();
        let (ids, ip) = (off_cpu.task(&bytes), off_cpu.ip(&bytes));
        let native = if cfg!(target_endian = "little") { (11, 12) } else { (12, 11) };
        assert_eq!((ids, ip), (Some((Pid(native.0), Tid(native.1))), Some(Addr(0x4000))));
        assert_eq!((off_cpu.period(&bytes), off_cpu.cpumode(&bytes, 1)), (500, 2));
        let chain: Vec<u64> = off_cpu.callchain(&bytes).unwrap().unwrap().iter().collect();
        assert_eq!((chain, off_cpu.has_callchain()), (vec![user, 0x4000], true));
        let decoded = off_cpu.decode(&bytes, FileOffset(0)).unwrap();
        assert_eq!((decoded.period, decoded.cgroup, decoded.task), (Some(500), Some(9), ids));
        // What is cut falls back to the sample's own fields.
        let mut cut = Vec::new();
        own.encode(&Sample { raw: Some(&raw[..36]), ..sample }, &mut cut);
        assert_eq!((off_cpu.task(&cut), off_cpu.period(&cut)), (Some((Pid(1), Tid(2))), 3));
    }

    #[test]
    fn the_fields_stand_in_the_order_of_the_kernel() {
        let layout = layout(
            SampleType::IDENTIFIER
                | SampleType::IP
                | SampleType::TID
                | SampleType::TIME
                | SampleType::CPU
                | SampleType::PERIOD
                | SampleType::CALLCHAIN,
        );
        let mut bytes = Vec::new();
        put_u64s([5, 0x40_0100], &mut bytes);
        bytes.extend(100_i32.to_ne_bytes());
        bytes.extend(101_i32.to_ne_bytes());
        put_u64s([1_000, 3, 4_000, 2, 0xffff_ffff_ffff_fe00, 0x40_0100], &mut bytes);
        let sample = layout.decode(&bytes, FileOffset(0)).unwrap();
        assert_eq!(sample.id, Some(5));
        assert_eq!(sample.ip, Some(Addr(0x40_0100)));
        assert_eq!(sample.task, Some((Pid(100), Tid(101))));
        assert_eq!(sample.time, Some(Nanos(1_000)));
        assert_eq!(sample.cpu, Some(3));
        assert_eq!(sample.period, Some(4_000));
        let chain: Vec<u64> = sample.callchain.unwrap().iter().collect();
        assert_eq!(chain, [0xffff_ffff_ffff_fe00, 0x40_0100]);
        assert_eq!(layout.callchain(&bytes).unwrap(), sample.callchain);
        let mut again = Vec::new();
        layout.encode(&sample, &mut again);
        assert_eq!(again, bytes);
    }

    #[test]
    fn a_chain_longer_than_its_record_is_refused_without_an_allocation() {
        let layout = layout(SampleType::CALLCHAIN);
        let bytes = u64::MAX.to_ne_bytes();
        assert_eq!(
            layout.callchain(&bytes).unwrap_err().to_string(),
            "callchain entries at byte 0x8 needs 18446744073709551615 bytes, only 0 left"
        );
    }

    #[test]
    fn without_a_period_of_its_own_a_sample_has_the_events() {
        assert_eq!(layout(SampleType::IP).period(&[0; 8]), 77);
    }

    #[test]
    fn the_variable_parts_are_read_back() {
        let attr = Attr {
            sample_type: SampleType::READ
                | SampleType::RAW
                | SampleType::BRANCH_STACK
                | SampleType::REGS_USER
                | SampleType::STACK_USER
                | SampleType::WEIGHT_STRUCT
                | SampleType::AUX,
            read_format: ReadFormat::GROUP | ReadFormat::ID | ReadFormat::LOST,
            branch_sample_type: BRANCH_HW_INDEX,
            sample_regs_user: 0b101,
            ..Attr::default()
        };
        let layout = SampleLayout::new(&attr, Endian::NATIVE);
        let words = |values: &[u64]| {
            let mut bytes = Vec::new();
            put_u64s(values.iter().copied(), &mut bytes);
            bytes
        };
        let read = words(&[2, 10, 1, 0, 20, 2, 0]);
        let branches = words(&[1, 2, 3]);
        let regs = words(&[8, 9]);
        let sample = Sample {
            read: Some(U64s::new(&read, Endian::NATIVE)),
            raw: Some(&[1; 12]),
            branches: Some(Branches {
                hw_idx: Some(4),
                entries: U64s::new(&branches, Endian::NATIVE),
                counters: None,
            }),
            regs_user: Some(Registers { abi: 2, values: U64s::new(&regs, Endian::NATIVE) }),
            stack_user: Some(UserStack { bytes: &[7; 16], dyn_size: 8 }),
            weight: Some(6),
            aux: Some(&[5; 8]),
            ..Sample::default()
        };
        let mut bytes = Vec::new();
        layout.encode(&sample, &mut bytes);
        assert_eq!(layout.decode(&bytes, FileOffset(0)).unwrap(), sample);
        for len in 0..bytes.len() {
            assert!(layout.decode(&bytes[..len], FileOffset(0)).is_err(), "cut at {len}");
        }
    }
}
