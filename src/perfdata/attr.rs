//! `struct perf_event_attr`, in any of its sizes.

use bitflags::bitflags;

use super::Cursor;
use super::Endian;
use super::Result;

bitflags! {
    /// Which fields a sample carries: `enum perf_event_sample_format`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SampleType: u64 {
        /// The instruction pointer.
        const IP = 1 << 0;
        /// Process and thread id.
        const TID = 1 << 1;
        /// The time.
        const TIME = 1 << 2;
        /// The data address.
        const ADDR = 1 << 3;
        /// Counter values, laid out by [`ReadFormat`].
        const READ = 1 << 4;
        /// The call chain.
        const CALLCHAIN = 1 << 5;
        /// The id of the event, or of its group's leader.
        const ID = 1 << 6;
        /// The CPU.
        const CPU = 1 << 7;
        /// The period.
        const PERIOD = 1 << 8;
        /// The id of the event itself.
        const STREAM_ID = 1 << 9;
        /// Raw data, as of tracepoints.
        const RAW = 1 << 10;
        /// Branch records.
        const BRANCH_STACK = 1 << 11;
        /// Registers of the user context.
        const REGS_USER = 1 << 12;
        /// A copy of the user stack.
        const STACK_USER = 1 << 13;
        /// The hardware's weight.
        const WEIGHT = 1 << 14;
        /// Where data came from.
        const DATA_SRC = 1 << 15;
        /// The id, at a place that is the same for all events.
        const IDENTIFIER = 1 << 16;
        /// Transaction flags.
        const TRANSACTION = 1 << 17;
        /// Registers at the interrupt.
        const REGS_INTR = 1 << 18;
        /// The physical data address.
        const PHYS_ADDR = 1 << 19;
        /// AUX area data.
        const AUX = 1 << 20;
        /// The cgroup id.
        const CGROUP = 1 << 21;
        /// The page size of the data address.
        const DATA_PAGE_SIZE = 1 << 22;
        /// The page size of the code address.
        const CODE_PAGE_SIZE = 1 << 23;
        /// The hardware's weight, in parts.
        const WEIGHT_STRUCT = 1 << 24;
    }
}

bitflags! {
    /// What a read of a counter gives: `enum perf_event_read_format`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ReadFormat: u64 {
        /// The time the event was enabled.
        const TOTAL_TIME_ENABLED = 1 << 0;
        /// The time the event counted.
        const TOTAL_TIME_RUNNING = 1 << 1;
        /// The event's id.
        const ID = 1 << 2;
        /// All members of the group.
        const GROUP = 1 << 3;
        /// Samples lost, since Linux 6.0.
        const LOST = 1 << 4;
    }
}

impl ReadFormat {
    /// Ids and values of the counters in `words`, what a read gave; none where it gives no ids.
    ///
    /// Source: `struct read_format` in `include/uapi/linux/perf_event.h`.
    pub fn values(self, words: &[u64]) -> Vec<(u64, u64)> {
        if !self.contains(Self::ID) {
            return Vec::new();
        }
        let n_times = [Self::TOTAL_TIME_ENABLED, Self::TOTAL_TIME_RUNNING]
            .iter()
            .map(|it| usize::from(self.contains(*it)))
            .fold(0_usize, usize::wrapping_add);
        let id_and_value =
            |words: &[u64], id_at: usize| Some((*words.get(id_at)?, *words.first()?));
        if !self.contains(Self::GROUP) {
            // Value, times, id, loss.
            let id_at = n_times.wrapping_add(1);
            return id_and_value(words, id_at).into_iter().collect();
        }
        // The number of events and the times, then of each event its value, id and loss.
        let of_one = if self.contains(Self::LOST) { 3 } else { 2 };
        let events = words.get(n_times.wrapping_add(1)..).unwrap_or_default().chunks_exact(of_one);
        events.filter_map(|words| id_and_value(words, 1)).collect()
    }
}

bitflags! {
    /// The flag word of `struct perf_event_attr`, by bit; the two-bit `precise_ip` is
    /// [`Attr::precise_ip`].
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct AttrFlags: u64 {
        /// Off until enabled.
        const DISABLED = 1 << 0;
        /// Children inherit it.
        const INHERIT = 1 << 1;
        /// Must always be on the PMU.
        const PINNED = 1 << 2;
        /// Alone on the PMU.
        const EXCLUSIVE = 1 << 3;
        /// Not in user space.
        const EXCLUDE_USER = 1 << 4;
        /// Not in the kernel.
        const EXCLUDE_KERNEL = 1 << 5;
        /// Not in the hypervisor.
        const EXCLUDE_HV = 1 << 6;
        /// Not when idle.
        const EXCLUDE_IDLE = 1 << 7;
        /// `MMAP` records.
        const MMAP = 1 << 8;
        /// `COMM` records.
        const COMM = 1 << 9;
        /// The period field is a frequency.
        const FREQ = 1 << 10;
        /// Counts per task.
        const INHERIT_STAT = 1 << 11;
        /// Enabled by the next exec.
        const ENABLE_ON_EXEC = 1 << 12;
        /// `FORK` and `EXIT` records.
        const TASK = 1 << 13;
        /// The wake-up field is in bytes.
        const WATERMARK = 1 << 14;
        /// The low bit of `precise_ip`.
        const PRECISE_IP_LOW = 1 << 15;
        /// The high bit of `precise_ip`.
        const PRECISE_IP_HIGH = 1 << 16;
        /// `MMAP` records of data mappings too.
        const MMAP_DATA = 1 << 17;
        /// Every record carries a [`SampleId`](super::SampleId).
        const SAMPLE_ID_ALL = 1 << 18;
        /// Not in the host.
        const EXCLUDE_HOST = 1 << 19;
        /// Not in guests.
        const EXCLUDE_GUEST = 1 << 20;
        /// No kernel part in call chains.
        const EXCLUDE_CALLCHAIN_KERNEL = 1 << 21;
        /// No user part in call chains.
        const EXCLUDE_CALLCHAIN_USER = 1 << 22;
        /// `MMAP2` records.
        const MMAP2 = 1 << 23;
        /// `COMM` records tell exec from rename.
        const COMM_EXEC = 1 << 24;
        /// Times are of the clock `clockid`.
        const USE_CLOCKID = 1 << 25;
        /// `SWITCH` records.
        const CONTEXT_SWITCH = 1 << 26;
        /// The ring is written backwards.
        const WRITE_BACKWARD = 1 << 27;
        /// `NAMESPACES` records.
        const NAMESPACES = 1 << 28;
        /// `KSYMBOL` records, since Linux 5.1.
        const KSYMBOL = 1 << 29;
        /// `BPF_EVENT` records, since Linux 5.1.
        const BPF_EVENT = 1 << 30;
        /// AUX area goes to another event's ring.
        const AUX_OUTPUT = 1 << 31;
        /// `CGROUP` records.
        const CGROUP = 1 << 32;
        /// `TEXT_POKE` records.
        const TEXT_POKE = 1 << 33;
        /// `MMAP2` records carry build ids, since Linux 5.12.
        const BUILD_ID = 1 << 34;
        /// Inherited by threads only.
        const INHERIT_THREAD = 1 << 35;
        /// Removed by exec.
        const REMOVE_ON_EXEC = 1 << 36;
        /// Signals the task.
        const SIGTRAP = 1 << 37;
        /// User call chains may come later.
        const DEFER_CALLCHAIN = 1 << 38;
        /// Writes `CALLCHAIN_DEFERRED` records.
        const DEFER_OUTPUT = 1 << 39;
        /// Bits that this version has no name for.
        const _ = !0;
    }
}

/// `struct perf_event_attr`: what an event counts and what its records hold.
///
/// Source: `include/uapi/linux/perf_event.h`. Fields beyond the size that a file has read as 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attr {
    /// `type`: `PERF_TYPE_SOFTWARE` and the like, or the number of a PMU.
    pub kind: u32,
    /// The size in bytes that the structure had in the file; 0 before it is written.
    pub size: u32,
    /// Which event of that type.
    pub config: u64,
    /// The period, or the frequency in Hz with [`AttrFlags::FREQ`].
    pub sample_period: u64,
    /// What a sample carries.
    pub sample_type: SampleType,
    /// What a read gives.
    pub read_format: ReadFormat,
    /// The flag word.
    pub flags: AttrFlags,
    /// Wake up after so many events, or bytes with [`AttrFlags::WATERMARK`].
    pub wakeup: u32,
    /// Breakpoint type.
    pub bp_type: u32,
    /// Breakpoint address, or a PMU's `config1`.
    pub config1: u64,
    /// Breakpoint length, or a PMU's `config2`.
    pub config2: u64,
    /// Which branches.
    pub branch_sample_type: u64,
    /// Which registers of the user context.
    pub sample_regs_user: u64,
    /// How many bytes of the user stack.
    pub sample_stack_user: u32,
    /// The clock of the times.
    pub clockid: i32,
    /// Which registers at the interrupt.
    pub sample_regs_intr: u64,
    /// Wake up after so many AUX bytes.
    pub aux_watermark: u32,
    /// The most frames of a call chain.
    pub sample_max_stack: u16,
    /// AUX bytes a sample.
    pub aux_sample_size: u32,
    /// What an event does to AUX tracing.
    pub aux_action: u32,
    /// Data for the signal.
    pub sig_data: u64,
    /// A PMU's `config3`.
    pub config3: u64,
    /// A PMU's `config4`.
    pub config4: u64,
}

impl Attr {
    /// `PERF_ATTR_SIZE_VER0`, in bytes: the smallest there ever was.
    pub const SIZE_VER0: u32 = 64;

    /// Decodes one attribute of `bytes`, which are as many as the file gives it.
    ///
    /// A structure longer than this version knows is read as far as it is known; whether its tail
    /// is zero is [`Attr::unknown_tail`]'s to say.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`](super::Error::Truncated) if there are fewer than 64 bytes.
    pub fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let endian = cursor.endian();
        let kind = cursor.u32("attr type")?;
        let size = cursor.u32("attr size")?;
        let config = cursor.u64("attr config")?;
        let sample_period = cursor.u64("attr sample_period")?;
        let sample_type = SampleType::from_bits_retain(cursor.u64("attr sample_type")?);
        let read_format = ReadFormat::from_bits_retain(cursor.u64("attr read_format")?);
        let flags = AttrFlags::from_bits_retain(flag_word(cursor.array("attr flags")?, endian));
        let wakeup = cursor.u32("attr wakeup_events")?;
        let bp_type = cursor.u32("attr bp_type")?;
        let config1 = cursor.u64("attr config1")?;
        // From here on older kernels had nothing: what is absent is 0.
        let mut tail = Tail(*cursor);
        let this = Self {
            kind,
            size,
            config,
            sample_period,
            sample_type,
            read_format,
            flags,
            wakeup,
            bp_type,
            config1,
            config2: tail.u64(),
            branch_sample_type: tail.u64(),
            sample_regs_user: tail.u64(),
            sample_stack_user: tail.u32(),
            clockid: tail.u32().cast_signed(),
            sample_regs_intr: tail.u64(),
            aux_watermark: tail.u32(),
            sample_max_stack: {
                let max_stack = tail.u16();
                tail.u16();
                max_stack
            },
            aux_sample_size: tail.u32(),
            aux_action: tail.u32(),
            sig_data: tail.u64(),
            config3: tail.u64(),
            config4: tail.u64(),
        };
        *cursor = tail.0;
        Ok(this)
    }

    /// Appends the attribute in its form of `size` bytes, 64 to 144, in this machine's order.
    pub fn encode(&self, size: u32, out: &mut Vec<u8>) {
        let Self {
            kind,
            size: _,
            config,
            sample_period,
            sample_type,
            read_format,
            flags,
            wakeup,
            bp_type,
            config1,
            config2,
            branch_sample_type,
            sample_regs_user,
            sample_stack_user,
            clockid,
            sample_regs_intr,
            aux_watermark,
            sample_max_stack,
            aux_sample_size,
            aux_action,
            sig_data,
            config3,
            config4,
        } = *self;
        let mut bytes = Vec::with_capacity(Self::LARGEST);
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(size.to_ne_bytes());
        bytes.extend(config.to_ne_bytes());
        bytes.extend(sample_period.to_ne_bytes());
        bytes.extend(sample_type.bits().to_ne_bytes());
        bytes.extend(read_format.bits().to_ne_bytes());
        bytes.extend(flag_bytes(flags.bits(), Endian::NATIVE));
        bytes.extend(wakeup.to_ne_bytes());
        bytes.extend(bp_type.to_ne_bytes());
        bytes.extend(config1.to_ne_bytes());
        bytes.extend(config2.to_ne_bytes());
        bytes.extend(branch_sample_type.to_ne_bytes());
        bytes.extend(sample_regs_user.to_ne_bytes());
        bytes.extend(sample_stack_user.to_ne_bytes());
        bytes.extend(clockid.to_ne_bytes());
        bytes.extend(sample_regs_intr.to_ne_bytes());
        bytes.extend(aux_watermark.to_ne_bytes());
        bytes.extend(sample_max_stack.to_ne_bytes());
        bytes.extend([0; 2]);
        bytes.extend(aux_sample_size.to_ne_bytes());
        bytes.extend(aux_action.to_ne_bytes());
        bytes.extend(sig_data.to_ne_bytes());
        bytes.extend(config3.to_ne_bytes());
        bytes.extend(config4.to_ne_bytes());
        bytes.resize(usize::try_from(size).unwrap_or(Self::LARGEST), 0);
        out.append(&mut bytes);
    }

    /// The smallest size in bytes that carries every field in use: 64, 72, 80, 96, 104, 112, 120,
    /// 128, 136 or 144.
    ///
    /// Source: the `PERF_ATTR_SIZE_VER*` of `include/uapi/linux/perf_event.h`.
    pub fn needed_size(&self) -> u32 {
        let used = [
            (144, self.config4 != 0),
            (136, self.config3 != 0),
            (128, self.sig_data != 0),
            (120, self.aux_sample_size != 0 || self.aux_action != 0),
            (112, self.aux_watermark != 0 || self.sample_max_stack != 0),
            (104, self.sample_regs_intr != 0),
            (
                96,
                self.sample_regs_user != 0
                    || self.sample_stack_user != 0
                    || self.clockid != 0
                    || self.flags.contains(AttrFlags::USE_CLOCKID),
            ),
            (80, self.branch_sample_type != 0),
            (72, self.config2 != 0),
        ];
        used.iter().find(|(_, is_used)| *is_used).map_or(Self::SIZE_VER0, |&(size, _)| size)
    }

    /// `precise_ip`, 0 to 3.
    pub fn precise_ip(&self) -> u8 {
        u8::from(self.flags.contains(AttrFlags::PRECISE_IP_LOW))
            | (u8::from(self.flags.contains(AttrFlags::PRECISE_IP_HIGH)) << 1)
    }

    /// Whether `bytes`, one attribute of a file, hold something beyond the fields known here.
    pub fn unknown_tail(bytes: &[u8]) -> bool {
        bytes.get(Self::LARGEST..).is_some_and(|tail| tail.iter().any(|&byte| byte != 0))
    }

    const LARGEST: usize = 144;
}

/// The flag word is a C bit-field: on a big-endian machine its first bit is each byte's highest.
fn flag_word(bytes: [u8; 8], endian: Endian) -> u64 {
    match endian {
        Endian::Little => u64::from_le_bytes(bytes),
        Endian::Big => u64::from_le_bytes(bytes.map(u8::reverse_bits)),
    }
}

fn flag_bytes(word: u64, endian: Endian) -> [u8; 8] {
    match endian {
        Endian::Little => word.to_le_bytes(),
        Endian::Big => word.to_le_bytes().map(u8::reverse_bits),
    }
}

/// The part of the structure that a file may lack.
struct Tail<'a>(Cursor<'a>);

impl Tail<'_> {
    fn u64(&mut self) -> u64 {
        self.0.u64("attr").unwrap_or(0)
    }

    fn u32(&mut self) -> u32 {
        self.0.u32("attr").unwrap_or(0)
    }

    fn u16(&mut self) -> u16 {
        self.0.u16("attr").unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use crate::units::FileOffset;

    use super::*;

    fn attr() -> Attr {
        Attr {
            kind: 1,
            size: 64,
            config: 0,
            sample_period: 4000,
            sample_type: SampleType::IP | SampleType::TID,
            flags: AttrFlags::FREQ | AttrFlags::SAMPLE_ID_ALL | AttrFlags::BUILD_ID,
            ..Attr::default()
        }
    }

    #[test]
    fn every_size_is_read_back() {
        for size in [64, 72, 80, 96, 104, 112, 120, 128, 136, 144] {
            let mut bytes = Vec::new();
            attr().encode(size, &mut bytes);
            assert_eq!(bytes.len(), size as usize);
            let mut cursor = Cursor::new(&bytes, FileOffset(0), Endian::NATIVE);
            assert_eq!(Attr::decode(&mut cursor).unwrap(), Attr { size, ..attr() });
            assert_eq!(cursor.remaining(), 0);
        }
    }

    #[test]
    fn the_flags_of_a_big_endian_machine_are_mirrored_in_each_byte() {
        // disabled and sample_id_all, as a big-endian compiler lays the bit-field out.
        let bytes = [0x80, 0, 0x20, 0, 0, 0, 0, 0];
        let want = (AttrFlags::DISABLED | AttrFlags::SAMPLE_ID_ALL).bits();
        assert_eq!(flag_word(bytes, Endian::Big), want);
        assert_eq!(flag_bytes(want, Endian::Big), bytes);
    }

    #[test]
    fn values_of_a_read_stand_with_their_ids_whatever_stands_between() {
        let (id, group, lost) = (ReadFormat::ID, ReadFormat::GROUP, ReadFormat::LOST);
        let times = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
        assert_eq!(id.values(&[500, 7]), [(7, 500)]);
        assert_eq!((id | lost | times).values(&[500, 1, 2, 7, 0]), [(7, 500)]);
        assert_eq!((id | group).values(&[2, 500, 7, 600, 8]), [(7, 500), (8, 600)]);
        let words = [2, 1, 2, 500, 7, 0, 600, 8, 3];
        assert_eq!((id | group | lost | times).values(&words), [(7, 500), (8, 600)]);
        assert_eq!((id | group).values(&[2]), []);
        assert_eq!(group.values(&[1, 500]), []);
    }

    #[test]
    fn the_smallest_sufficient_size_is_chosen() {
        assert_eq!(attr().needed_size(), 64);
        assert_eq!(Attr { clockid: 1, ..attr() }.needed_size(), 96);
        assert_eq!(Attr { sample_max_stack: 5, ..attr() }.needed_size(), 112);
        assert_eq!(Attr { config3: 1, ..attr() }.needed_size(), 136);
    }

    #[test]
    fn only_a_tail_that_is_not_zero_is_unknown() {
        let mut bytes = vec![0; 152];
        assert!(!Attr::unknown_tail(&bytes));
        bytes[151] = 1;
        assert!(Attr::unknown_tail(&bytes));
        assert!(!Attr::unknown_tail(&bytes[..144]));
    }
}
