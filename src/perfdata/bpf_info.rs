//! The features `BPF_PROG_INFO` (25) and `BPF_BTF` (26): what the kernel knew of each program.
//!
//! ```text
//!   u32 count
//!   count x  u32 info_len, u32 data_len, u64 arrays     which arrays stand in the data
//!            struct bpf_prog_info, info_len bytes       pointers replaced by offsets into the data
//!            data, data_len bytes                       arrays in bit order, each rounded up to 8
//!
//!   u32 count
//!   count x  u32 id, u32 len, raw BTF
//! ```
//!
//! Nothing is padded between entries. A decoded entry keeps its bytes as they are, so that it can
//! be written again; its accessors check every count and offset when asked, and what does not fit
//! is absent.
//!
//! Sources: `struct bpf_prog_info` in `include/uapi/linux/bpf.h`; `write_bpf_prog_info()` in
//! `tools/perf/util/header.c` and `tools/perf/util/bpf-utils.c` for the layout around it.

mod lines;

use std::borrow::Cow;

pub use lines::ProgLine;

use super::Cursor;
use super::Endian;
use super::Result;
use super::cursor::until_zero;
use crate::units::Addr;
use crate::units::BpfTag;
use crate::units::ProgId;

/// The longest `struct bpf_prog_info` to write, in bytes: perf up to 7.3 refuses a file with a
/// longer one.
pub const MAX_INFO_LEN: usize = 232;

/// An array that a `struct bpf_prog_info` points to; its number is its bit in the bitmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgArray {
    bit: u32,
    /// Where its pointer, its count and, if it varies, its record size stand in the struct.
    pointer_at: usize,
    count_at: usize,
    element: ElementLen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ElementLen {
    Fixed(u32),
    At(usize),
}

impl ProgArray {
    /// Native code of all functions, one after the other.
    pub const JITED_INSNS: Self = Self::new(0, 24, 16, ElementLen::Fixed(1));
    /// Instructions after the verifier rewrote them.
    pub const XLATED_INSNS: Self = Self::new(1, 32, 20, ElementLen::Fixed(1));
    /// Ids of the maps that the program uses.
    pub const MAP_IDS: Self = Self::new(2, 56, 52, ElementLen::Fixed(4));
    /// Start address of each function.
    pub const JITED_KSYMS: Self = Self::new(3, 112, 104, ElementLen::Fixed(8));
    /// Length of each function's native code.
    pub const JITED_FUNC_LENS: Self = Self::new(4, 120, 108, ElementLen::Fixed(4));
    /// `struct bpf_func_info` of each function.
    pub const FUNC_INFO: Self = Self::new(5, 136, 144, ElementLen::At(132));
    /// `struct bpf_line_info`.
    pub const LINE_INFO: Self = Self::new(6, 152, 148, ElementLen::At(172));
    /// Native address of each line.
    pub const JITED_LINE_INFO: Self = Self::new(7, 160, 168, ElementLen::At(176));
    /// Tag of each function.
    pub const PROG_TAGS: Self = Self::new(8, 184, 180, ElementLen::Fixed(8));

    /// All of them, in the order of their bits.
    pub const ALL: [Self; 9] = [
        Self::JITED_INSNS,
        Self::XLATED_INSNS,
        Self::MAP_IDS,
        Self::JITED_KSYMS,
        Self::JITED_FUNC_LENS,
        Self::FUNC_INFO,
        Self::LINE_INFO,
        Self::JITED_LINE_INFO,
        Self::PROG_TAGS,
    ];

    const fn new(bit: u32, pointer_at: usize, count_at: usize, element: ElementLen) -> Self {
        Self { bit, pointer_at, count_at, element }
    }

    /// Its bit in the bitmap of arrays that stand in an entry's data.
    fn mask(self) -> u64 {
        1_u64.checked_shl(self.bit).unwrap_or(0)
    }
}

/// One function of a program, as the kernel's `[bpf]` symbols have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgFunction {
    /// Where its native code begins.
    pub addr: Addr,
    /// How long its native code is, in bytes.
    pub len: u32,
    /// The hash of its instructions; for function 0 of several it is not the program's own.
    pub tag: Option<BpfTag>,
    /// The BTF type of the function; `None` without function info.
    pub type_id: Option<u32>,
}

/// One function of a program as a symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgSymbol {
    /// The function's number within the program.
    pub idx: usize,
    /// Where its native code begins.
    pub addr: Addr,
    /// How long its native code is, in bytes.
    pub len: u32,
    /// Its name as in the kernel's list of symbols, such as `bpf_prog_07df9015606e4140_handle`.
    pub name: Vec<u8>,
}

/// The most bytes of a symbol's name that the kernel keeps (`KSYM_NAME_LEN` without the zero).
const MAX_NAME_LEN: usize = 511;

/// What the kernel knew of one program: an entry of `BPF_PROG_INFO`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgInfo<'a> {
    endian: Endian,
    /// Which arrays stand in `data`.
    arrays: u64,
    /// `struct bpf_prog_info`, as long as the kernel had it.
    info: Cow<'a, [u8]>,
    data: Cow<'a, [u8]>,
}

impl<'a> ProgInfo<'a> {
    /// Builds an entry from what the kernel gave: `info` with its counts, and the arrays that are
    /// to be in the file.
    ///
    /// An array that does not have the length that `info` gives it is left out.
    pub fn new<'b>(
        info: &[u8],
        arrays: impl IntoIterator<Item = (ProgArray, &'b [u8])>,
    ) -> ProgInfo<'static> {
        let mut info = info.get(..MAX_INFO_LEN).unwrap_or(info).to_vec();
        let mut given: Vec<_> = arrays.into_iter().collect();
        given.sort_by_key(|(array, _)| array.bit);
        let (mut bits, mut data) = (0, Vec::new());
        let endian = Endian::NATIVE;
        for array in ProgArray::ALL {
            put_u64(&mut info, array.pointer_at, 0);
        }
        for (array, bytes) in given {
            let len = ProgInfo { endian, arrays: 0, info: (&info).into(), data: (&[]).into() }
                .array_len(array);
            if len != Some(bytes.len()) || bytes.is_empty() {
                continue;
            }
            put_u64(&mut info, array.pointer_at, super::cursor::widen(data.len()));
            data.extend_from_slice(bytes);
            data.resize(data.len().next_multiple_of(8), 0);
            bits |= array.mask();
        }
        ProgInfo { endian, arrays: bits, info: info.into(), data: data.into() }
    }

    /// Decodes one entry.
    ///
    /// # Errors
    ///
    /// If the input ends before the entry does.
    pub fn decode(cursor: &mut Cursor<'a>) -> Result<Self> {
        let info_len = cursor.u32("bpf_prog_info length")?;
        let data_len = cursor.u32("bpf_prog_info data length")?;
        let arrays = cursor.u64("bpf_prog_info arrays")?;
        let info = cursor.bytes(usize_from(info_len), "bpf_prog_info")?;
        let data = cursor.bytes(usize_from(data_len), "bpf_prog_info data")?;
        Ok(Self { endian: cursor.endian(), arrays, info: info.into(), data: data.into() })
    }

    /// Appends the entry in the form of the file.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&len_u32(&self.info).to_ne_bytes());
        out.extend_from_slice(&len_u32(&self.data).to_ne_bytes());
        out.extend_from_slice(&self.arrays.to_ne_bytes());
        out.extend_from_slice(&self.info);
        out.extend_from_slice(&self.data);
    }

    /// The entry with bytes of its own.
    pub fn into_owned(self) -> ProgInfo<'static> {
        let Self { endian, arrays, info, data } = self;
        ProgInfo { endian, arrays, info: info.into_owned().into(), data: data.into_owned().into() }
    }

    /// The program's id.
    pub fn id(&self) -> ProgId {
        ProgId(self.u32(4))
    }

    /// Its type, `enum bpf_prog_type`.
    pub fn prog_type(&self) -> u32 {
        self.u32(0)
    }

    /// The hash of its instructions.
    pub fn tag(&self) -> BpfTag {
        BpfTag(self.field(8).unwrap_or_default())
    }

    /// Its name, cut to 15 bytes by the kernel; it may be empty.
    pub fn name(&self) -> &[u8] {
        until_zero(self.info.get(64..80).unwrap_or_default())
    }

    /// When it was loaded, in nanoseconds since the boot of the recorded machine.
    pub fn load_time_ns(&self) -> u64 {
        self.u64(40)
    }

    /// Who loaded it.
    pub fn created_by_uid(&self) -> u32 {
        self.u32(48)
    }

    /// The id of the BTF that describes it; `None` if none does.
    pub fn btf_id(&self) -> Option<u32> {
        Some(self.u32(128)).filter(|&it| it != 0)
    }

    /// How many functions it has in native code, whether or not their addresses are known.
    pub fn n_functions(&self) -> u32 {
        self.u32(ProgArray::JITED_KSYMS.count_at)
    }

    /// The bytes of one array, or `None` if the entry does not have it.
    pub fn array(&self, array: ProgArray) -> Option<&[u8]> {
        if self.arrays & array.mask() == 0 {
            return None;
        }
        let start = usize::try_from(self.u64(array.pointer_at)).ok()?;
        let end = start.checked_add(self.array_len(array)?)?;
        self.data.get(start..end)
    }

    /// The functions that have native code at a known address, with their number.
    ///
    /// The kernel gives no address (0) where it hides them.
    pub fn functions(&self) -> impl Iterator<Item = (usize, ProgFunction)> {
        let endian = self.endian;
        let numbers = |array| self.array(array).unwrap_or_default();
        let mut lens = numbers(ProgArray::JITED_FUNC_LENS).as_chunks::<4>().0.iter();
        let mut tags = numbers(ProgArray::PROG_TAGS).as_chunks::<8>().0.iter();
        let record_len = usize_from(self.element_len(ProgArray::FUNC_INFO)).max(1);
        let mut infos = numbers(ProgArray::FUNC_INFO).chunks_exact(record_len);
        let addrs = numbers(ProgArray::JITED_KSYMS).as_chunks::<8>().0.iter();
        let functions = addrs.map(move |&addr| ProgFunction {
            addr: Addr(endian.u64(addr)),
            len: lens.next().map_or(0, |&it| endian.u32(it)),
            tag: tags.next().map(|&it| BpfTag(it)),
            // struct bpf_func_info: insn_off, type_id
            type_id: infos
                .next()
                .and_then(|it| it.get(4..)?.first_chunk())
                .map(|&it| endian.u32(it)),
        });
        functions.enumerate().filter(|(_, it)| it.addr != Addr(0) && it.len != 0)
    }

    /// The functions of [`ProgInfo::functions`] with their names in the kernel's spelling, where
    /// `function_name` gives the name of a function's BTF type.
    ///
    /// Function 0 bears the tag of the program, not its own. Source: `bpf_get_prog_name()` in
    /// kernel/bpf/core.c, and `jit_subprogs()` in kernel/bpf/verifier.c, which names a function
    /// without BTF `F`.
    pub fn symbols<'b>(&self, function_name: impl Fn(u32) -> Option<&'b [u8]>) -> Vec<ProgSymbol> {
        let symbol = |(idx, it): (usize, ProgFunction)| {
            // Without a tag of its own a function has no sure name.
            let tag = if idx == 0 { self.tag() } else { it.tag? };
            let full = it.type_id.and_then(&function_name).filter(|it| !it.is_empty());
            let own = full.unwrap_or(if idx == 0 { self.name() } else { b"F" });
            let mut name = format!("bpf_prog_{tag}").into_bytes();
            if !own.is_empty() {
                name.push(b'_');
                name.extend_from_slice(own);
            }
            name.truncate(MAX_NAME_LEN);
            Some(ProgSymbol { idx, addr: it.addr, len: it.len, name })
        };
        self.functions().filter_map(symbol).collect()
    }

    /// The length of an array in bytes, by its count.
    fn array_len(&self, array: ProgArray) -> Option<usize> {
        let count = usize_from(self.u32(array.count_at));
        count.checked_mul(usize_from(self.element_len(array)))
    }

    fn element_len(&self, array: ProgArray) -> u32 {
        match array.element {
            ElementLen::Fixed(len) => len,
            ElementLen::At(at) => self.u32(at),
        }
    }

    /// A member of the struct; 0 if this one is of a kernel that does not have it yet.
    fn u32(&self, at: usize) -> u32 {
        self.field(at).map_or(0, |it| self.endian.u32(it))
    }

    fn u64(&self, at: usize) -> u64 {
        self.field(at).map_or(0, |it| self.endian.u64(it))
    }

    fn field<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.info.get(at..)?.first_chunk().copied()
    }
}

/// The name of a program type, `enum bpf_prog_type`, as bpftool spells it; `None` for one that this
/// version does not know.
pub fn prog_type_name(prog_type: u32) -> Option<&'static str> {
    const NAMES: [&str; 33] = [
        "unspec",
        "socket_filter",
        "kprobe",
        "sched_cls",
        "sched_act",
        "tracepoint",
        "xdp",
        "perf_event",
        "cgroup_skb",
        "cgroup_sock",
        "lwt_in",
        "lwt_out",
        "lwt_xmit",
        "sock_ops",
        "sk_skb",
        "cgroup_device",
        "sk_msg",
        "raw_tracepoint",
        "cgroup_sock_addr",
        "lwt_seg6local",
        "lirc_mode2",
        "sk_reuseport",
        "flow_dissector",
        "cgroup_sysctl",
        "raw_tracepoint_writable",
        "cgroup_sockopt",
        "tracing",
        "struct_ops",
        "ext",
        "lsm",
        "sk_lookup",
        "syscall",
        "netfilter",
    ];
    NAMES.get(usize_from(prog_type)).copied()
}

/// Decodes the payload of `BPF_PROG_INFO`.
///
/// # Errors
///
/// If the input ends before its last entry does.
pub fn decode_prog_infos(mut cursor: Cursor<'_>) -> Result<Vec<ProgInfo<'_>>> {
    let count = cursor.u32("number of BPF programs")?;
    (0..count).map(|_| ProgInfo::decode(&mut cursor)).collect()
}

/// Appends the payload of `BPF_PROG_INFO`; perf expects the entries sorted by id.
pub fn encode_prog_infos(infos: &[&ProgInfo<'_>], out: &mut Vec<u8>) {
    out.extend_from_slice(&len_u32(infos).to_ne_bytes());
    for info in infos {
        info.encode(out);
    }
}

/// Decodes the payload of `BPF_BTF`: ids and raw BTF.
///
/// # Errors
///
/// If the input ends before its last entry does.
pub fn decode_btfs(mut cursor: Cursor<'_>) -> Result<Vec<(u32, &[u8])>> {
    let count = cursor.u32("number of BTF objects")?;
    let entry = |_| {
        let id = cursor.u32("BTF id")?;
        let len = cursor.u32("BTF length")?;
        Ok((id, cursor.bytes(usize_from(len), "BTF")?))
    };
    (0..count).map(entry).collect()
}

/// Appends the payload of `BPF_BTF`; perf expects the entries sorted by id.
pub fn encode_btfs(btfs: &[(u32, &[u8])], out: &mut Vec<u8>) {
    out.extend_from_slice(&len_u32(btfs).to_ne_bytes());
    for (id, data) in btfs {
        out.extend_from_slice(&id.to_ne_bytes());
        out.extend_from_slice(&len_u32(data).to_ne_bytes());
        out.extend_from_slice(data);
    }
}

/// A length for the file; what is counted here comes from the kernel and is far below 4 GiB.
fn len_u32<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).unwrap_or(u32::MAX)
}

fn usize_from(value: u32) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

fn put_u64(info: &mut [u8], at: usize, value: u64) {
    if let Some(field) = info.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *field = value.to_ne_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::FileOffset;

    /// A `struct bpf_prog_info` in a byte order, its members by their offsets in the uapi header.
    fn info(endian: Endian, words: &[(usize, u32)], longs: &[(usize, u64)]) -> Vec<u8> {
        let mut info = vec![0; 232];
        for &(at, word) in words {
            let bytes =
                if endian == Endian::Little { word.to_le_bytes() } else { word.to_be_bytes() };
            info[at..at + 4].copy_from_slice(&bytes);
        }
        for &(at, long) in longs {
            let bytes =
                if endian == Endian::Little { long.to_le_bytes() } else { long.to_be_bytes() };
            info[at..at + 8].copy_from_slice(&bytes);
        }
        info[8..16].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
        info[64..70].copy_from_slice(b"filter");
        info
    }

    /// The entry of a program with id 9 and one function, written by hand.
    fn entry(endian: Endian) -> Vec<u8> {
        let words = [
            (0, 1),   // type: socket filter
            (4, 9),   // id
            (16, 3),  // jited_prog_len
            (20, 16), // xlated_prog_len, not in the data
            (104, 1), // nr_jited_ksyms
            (108, 1), // nr_jited_func_lens
            (128, 5), // btf_id
            (132, 8), // func_info_rec_size
            (144, 1), // nr_func_info
            (180, 1), // nr_prog_tags
        ];
        let longs = [
            (24, 0),   // jited_prog_insns
            (40, 777), // load_time
            (112, 8),  // jited_ksyms
            (120, 16), // jited_func_lens
            (136, 24), // func_info
            (184, 32), // prog_tags
        ];
        let little = endian == Endian::Little;
        let u32 = |it: u32| if little { it.to_le_bytes() } else { it.to_be_bytes() };
        let u64 = |it: u64| if little { it.to_le_bytes() } else { it.to_be_bytes() };
        [
            &u32(232)[..],
            &u32(40),
            &u64(0b1_0011_1001),
            &info(endian, &words, &longs),
            &[0x55, 0x5d, 0xc3, 0, 0, 0, 0, 0],
            &u64(0xffff_ffff_c000_1000),
            &u32(3),
            &[0; 4],
            &u32(0),
            &u32(6),
            b"tag-of-0",
        ]
        .concat()
    }

    fn cursor(bytes: &[u8], endian: Endian) -> Cursor<'_> {
        Cursor::new(bytes, FileOffset(0), endian)
    }

    #[test]
    fn an_entry_is_read_in_both_byte_orders() {
        for endian in [Endian::Little, Endian::Big] {
            let bytes = entry(endian);
            let mut cursor = cursor(&bytes, endian);
            let info = ProgInfo::decode(&mut cursor).unwrap();
            assert_eq!(cursor.remaining(), 0);
            assert_eq!(info.id(), ProgId(9));
            assert_eq!(info.prog_type(), 1);
            assert_eq!(info.name(), b"filter");
            assert_eq!(info.tag().to_string(), "0102030405060708");
            assert_eq!(info.load_time_ns(), 777);
            assert_eq!(info.btf_id(), Some(5));
            assert_eq!(info.array(ProgArray::JITED_INSNS), Some(&[0x55, 0x5d, 0xc3][..]));
            assert_eq!(info.array(ProgArray::XLATED_INSNS), None);
            let function = ProgFunction {
                addr: Addr(0xffff_ffff_c000_1000),
                len: 3,
                tag: Some(BpfTag(*b"tag-of-0")),
                type_id: Some(6),
            };
            assert_eq!(info.functions().collect::<Vec<_>>(), [(0, function)]);
        }
    }

    #[test]
    fn an_entry_is_written_as_it_was_read() {
        let bytes = entry(Endian::NATIVE);
        let info = ProgInfo::decode(&mut cursor(&bytes, Endian::NATIVE)).unwrap();
        let mut out = Vec::new();
        encode_prog_infos(&[&info], &mut out);
        assert_eq!(out[..4], 1_u32.to_ne_bytes());
        assert_eq!(out[4..], bytes);
        let again = decode_prog_infos(cursor(&out, Endian::NATIVE)).unwrap();
        assert_eq!(again, [info]);
    }

    #[test]
    fn an_entry_from_the_kernel_has_its_arrays_in_the_order_of_their_bits() {
        let want = entry(Endian::NATIVE);
        let mut given = want[16..248].to_vec();
        for array in ProgArray::ALL {
            given[array.pointer_at..array.pointer_at + 8].copy_from_slice(&[0xee; 8]);
        }
        let data = &want[248..];
        let arrays = [
            (ProgArray::PROG_TAGS, &data[32..40]),
            (ProgArray::JITED_INSNS, &data[..3]),
            (ProgArray::FUNC_INFO, &data[24..32]),
            (ProgArray::JITED_FUNC_LENS, &data[16..20]),
            (ProgArray::JITED_KSYMS, &data[8..16]),
            // Not what the count says, so not taken.
            (ProgArray::XLATED_INSNS, &data[..8]),
        ];
        let mut out = Vec::new();
        ProgInfo::new(&given, arrays).encode(&mut out);
        assert_eq!(out, want);
    }

    #[test]
    fn an_info_of_a_later_kernel_is_cut_to_what_perf_takes() {
        let mut out = Vec::new();
        ProgInfo::new(&[1; 300], []).encode(&mut out);
        assert_eq!(out[..4], 232_u32.to_ne_bytes());
        assert_eq!(out.len(), 16 + 232);
    }

    #[test]
    fn an_info_of_an_earlier_kernel_lacks_what_it_does_not_have() {
        let info = ProgInfo::new(&[1; 40], []);
        assert_eq!((info.name(), info.btf_id(), info.load_time_ns()), (&b""[..], None, 0));
        assert_eq!(info.functions().count(), 0);
    }

    #[test]
    fn arrays_that_the_data_does_not_hold_are_absent() {
        // Count, pointer and record size of the function info, each beyond reason.
        for at in [16 + 144, 16 + 136, 16 + 132, 16 + 141] {
            let mut bytes = entry(Endian::Little);
            bytes[at..at + 3].copy_from_slice(&[0xff; 3]);
            let info = ProgInfo::decode(&mut cursor(&bytes, Endian::Little)).unwrap();
            assert_eq!(info.array(ProgArray::FUNC_INFO), None, "{at}");
            assert_eq!(info.functions().next().unwrap().1.type_id, None, "{at}");
        }
    }

    #[test]
    fn a_function_without_address_or_length_is_none() {
        let mut bytes = entry(Endian::Little);
        bytes[256..264].fill(0);
        let info = ProgInfo::decode(&mut cursor(&bytes, Endian::Little)).unwrap();
        assert_eq!((info.functions().count(), info.n_functions()), (0, 1));
    }

    #[test]
    fn a_feature_cut_anywhere_is_an_error() {
        let mut bytes = 1_u32.to_le_bytes().to_vec();
        bytes.extend_from_slice(&entry(Endian::Little));
        for len in 0..bytes.len() {
            assert!(decode_prog_infos(cursor(&bytes[..len], Endian::Little)).is_err(), "{len}");
        }
        let counts = decode_prog_infos(cursor(&[0xff; 4], Endian::Little)).unwrap_err();
        let want = "bpf_prog_info length at byte 0x4 needs 4 bytes, only 0 left";
        assert_eq!(counts.to_string(), want);
    }

    #[test]
    fn types_go_both_ways() {
        let mut out = Vec::new();
        encode_btfs(&[(5, b"abc"), (7, b"")], &mut out);
        let words = [2_u32, 5, 3].map(u32::to_ne_bytes).concat();
        assert_eq!(
            out,
            [words.as_slice(), b"abc", &[7_u32, 0].map(u32::to_ne_bytes).concat()].concat()
        );
        let again = decode_btfs(cursor(&out, Endian::NATIVE)).unwrap();
        assert_eq!(again, [(5, &b"abc"[..]), (7, &b""[..])]);
        assert!(decode_btfs(cursor(&out[..14], Endian::NATIVE)).is_err());
    }

    #[test]
    fn members_stand_where_the_kernel_has_them() {
        use std::mem::offset_of;

        use libbpf_rs::libbpf_sys::bpf_prog_info as Info;

        let at = |array: ProgArray| (array.pointer_at, array.count_at);
        macro_rules! of {
            ($pointer:ident, $count:ident) => {
                (offset_of!(Info, $pointer), offset_of!(Info, $count))
            };
        }
        assert_eq!(at(ProgArray::JITED_INSNS), of!(jited_prog_insns, jited_prog_len));
        assert_eq!(at(ProgArray::XLATED_INSNS), of!(xlated_prog_insns, xlated_prog_len));
        assert_eq!(at(ProgArray::MAP_IDS), of!(map_ids, nr_map_ids));
        assert_eq!(at(ProgArray::JITED_KSYMS), of!(jited_ksyms, nr_jited_ksyms));
        assert_eq!(at(ProgArray::JITED_FUNC_LENS), of!(jited_func_lens, nr_jited_func_lens));
        assert_eq!(at(ProgArray::FUNC_INFO), of!(func_info, nr_func_info));
        assert_eq!(at(ProgArray::LINE_INFO), of!(line_info, nr_line_info));
        assert_eq!(at(ProgArray::JITED_LINE_INFO), of!(jited_line_info, nr_jited_line_info));
        assert_eq!(at(ProgArray::PROG_TAGS), of!(prog_tags, nr_prog_tags));
        let element = |at| ElementLen::At(at);
        assert_eq!(ProgArray::FUNC_INFO.element, element(offset_of!(Info, func_info_rec_size)));
        assert_eq!(ProgArray::LINE_INFO.element, element(offset_of!(Info, line_info_rec_size)));
        let jited = offset_of!(Info, jited_line_info_rec_size);
        assert_eq!(ProgArray::JITED_LINE_INFO.element, element(jited));
        assert_eq!(offset_of!(Info, load_time), 40);
        assert_eq!(offset_of!(Info, created_by_uid), 48);
        assert_eq!(offset_of!(Info, name), 64);
        assert_eq!(offset_of!(Info, btf_id), 128);
    }
}
