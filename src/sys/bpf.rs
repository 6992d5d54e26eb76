//! The bpf(2) calls that read what the kernel holds: ids, programs, maps, BTF.
//!
//! libbpf-rs has iterators over ids, but they take a refusal for the end of the list, and its
//! program info takes part of the arrays; here every errno stays a value, so that "no more",
//! "gone meanwhile" and "not allowed" are three things.
//!
//! Sources: bpf(2); `union bpf_attr` and `struct bpf_prog_info` in `include/uapi/linux/bpf.h`;
//! `bpf_prog_get_info_by_fd()` in `kernel/bpf/syscall.c`.

use std::ffi::c_void;
use std::os::fd::AsFd as _;
use std::os::fd::AsRawFd;
use std::os::fd::BorrowedFd;
use std::os::fd::FromRawFd;
use std::os::fd::OwnedFd;
use std::ptr;

use libbpf_rs::AsRawLibbpf as _;
use libbpf_rs::OpenObject;
use libbpf_rs::OpenProgramMut;
use libbpf_rs::libbpf_sys as raw;
use nix::errno::Errno;

use super::perf_event::EventFd;

/// The number of arrays that a `struct bpf_prog_info` points to.
pub const PROG_ARRAYS: usize = 9;

/// How often a program's info is asked for again because its arrays grew in between.
///
/// Only `map_ids` can grow after a load (`BPF_PROG_BIND_MAP`), so once is the rule.
const INFO_TRIES: u32 = 8;

/// The most bytes of one array that are asked for; the kernel's own limits lie far below.
const ARRAY_MAX_BYTES: usize = 256 << 20;

/// One array that a `struct bpf_prog_info` points to, in the order of perf's bitmap of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum ProgArray {
    /// Native code of all functions, one after the other.
    JitedInsns = 0,
    /// Instructions after the verifier rewrote them.
    XlatedInsns = 1,
    /// Ids of the maps that the program uses, 4 bytes each.
    MapIds = 2,
    /// Start address of each function, 8 bytes each.
    JitedKsyms = 3,
    /// Length of each function's native code, 4 bytes each.
    JitedFuncLens = 4,
    /// `struct bpf_func_info` of each function.
    FuncInfo = 5,
    /// `struct bpf_line_info`.
    LineInfo = 6,
    /// Native address of each line, 8 bytes each.
    JitedLineInfo = 7,
    /// Tag of each function, 8 bytes each.
    ProgTags = 8,
}

impl ProgArray {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; PROG_ARRAYS] = [
        Self::JitedInsns,
        Self::XlatedInsns,
        Self::MapIds,
        Self::JitedKsyms,
        Self::JitedFuncLens,
        Self::FuncInfo,
        Self::LineInfo,
        Self::JitedLineInfo,
        Self::ProgTags,
    ];

    /// Where `info` keeps this array.
    fn field(self, info: &mut raw::bpf_prog_info) -> ArrayField<'_> {
        let (pointer, count, element_len) = match self {
            Self::JitedInsns => (&mut info.jited_prog_insns, &mut info.jited_prog_len, 1),
            Self::XlatedInsns => (&mut info.xlated_prog_insns, &mut info.xlated_prog_len, 1),
            Self::MapIds => (&mut info.map_ids, &mut info.nr_map_ids, 4),
            Self::JitedKsyms => (&mut info.jited_ksyms, &mut info.nr_jited_ksyms, 8),
            Self::JitedFuncLens => (&mut info.jited_func_lens, &mut info.nr_jited_func_lens, 4),
            Self::FuncInfo => {
                (&mut info.func_info, &mut info.nr_func_info, info.func_info_rec_size)
            }
            Self::LineInfo => {
                (&mut info.line_info, &mut info.nr_line_info, info.line_info_rec_size)
            }
            Self::JitedLineInfo => (
                &mut info.jited_line_info,
                &mut info.nr_jited_line_info,
                info.jited_line_info_rec_size,
            ),
            Self::ProgTags => (&mut info.prog_tags, &mut info.nr_prog_tags, 8),
        };
        ArrayField { pointer, count, element_len }
    }
}

/// The members of a `struct bpf_prog_info` that speak of one array.
struct ArrayField<'a> {
    pointer: &'a mut u64,
    count: &'a mut u32,
    element_len: u32,
}

impl ArrayField<'_> {
    /// The array's length in bytes.
    fn len(&self) -> Option<usize> {
        let len = u64::from(*self.count) * u64::from(self.element_len);
        usize::try_from(len).ok().filter(|&it| it <= ARRAY_MAX_BYTES)
    }
}

/// What the kernel tells of one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgInfo {
    /// The `struct bpf_prog_info` as far as this kernel has it, its pointers set to zero.
    pub info: Vec<u8>,
    /// The arrays, indexed by [`ProgArray`]; `None` if not asked for, empty, or hidden by the
    /// kernel, whose count then still stands in `info`.
    pub arrays: [Option<Vec<u8>>; PROG_ARRAYS],
}

/// What is needed to read a map's only value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapInfo {
    /// `enum bpf_map_type`.
    pub map_type: u32,
    /// The map's id.
    pub id: u32,
    /// Length of a key in bytes.
    pub key_len: u32,
    /// Length of a value in bytes.
    pub value_len: u32,
    /// The most entries it can hold.
    pub max_entries: u32,
    /// `BPF_F_RDONLY_PROG` and its like.
    pub flags: u32,
    /// The map's name, cut by the kernel to 15 bytes.
    pub name: [u8; 16],
    /// The id of the BTF that describes it; 0 if none does.
    pub btf_id: u32,
    /// The BTF type of its values; 0 if none is known.
    pub btf_value_type_id: u32,
}

/// The id of the first program after `id`, or `None` at the end of the list.
///
/// # Errors
///
/// `EPERM` without `CAP_BPF` or `CAP_SYS_ADMIN`, `ENOSYS` if this kernel has no bpf(2).
pub fn next_prog_id(id: u32) -> Result<Option<u32>, Errno> {
    let mut next = 0;
    // SAFETY: `next` outlives the call, which writes one `u32` there.
    let ret = unsafe { raw::bpf_prog_get_next_id(id, &raw mut next) };
    match check(ret) {
        Ok(_) => Ok(Some(next)),
        Err(Errno::ENOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// The id of the first map after `id`, or `None` at the end of the list.
///
/// # Errors
///
/// As [`next_prog_id`].
pub fn next_map_id(id: u32) -> Result<Option<u32>, Errno> {
    let mut next = 0;
    // SAFETY: `next` outlives the call, which writes one `u32` there.
    let ret = unsafe { raw::bpf_map_get_next_id(id, &raw mut next) };
    match check(ret) {
        Ok(_) => Ok(Some(next)),
        Err(Errno::ENOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// A descriptor of the program `id`.
///
/// Holding it keeps the program loaded, with its BTF and its maps, so it is to be closed soon.
///
/// # Errors
///
/// `ENOENT` if the program is gone, `EPERM` without the privilege.
pub fn prog_fd(id: u32) -> Result<OwnedFd, Errno> {
    // SAFETY: takes a number only.
    owned(unsafe { raw::bpf_prog_get_fd_by_id(id) })
}

/// A descriptor of the map `id`.
///
/// # Errors
///
/// As [`prog_fd`].
pub fn map_fd(id: u32) -> Result<OwnedFd, Errno> {
    // SAFETY: takes a number only.
    owned(unsafe { raw::bpf_map_get_fd_by_id(id) })
}

/// A descriptor of the BTF object `id`.
///
/// # Errors
///
/// As [`prog_fd`].
pub fn btf_fd(id: u32) -> Result<OwnedFd, Errno> {
    // SAFETY: takes a number only.
    owned(unsafe { raw::bpf_btf_get_fd_by_id(id) })
}

/// A program's info together with the arrays in `wanted`, all from one call.
///
/// # Errors
///
/// What the kernel says, or `ERANGE` if the arrays were longer at every try than at the one
/// before.
pub fn prog_info(prog: BorrowedFd<'_>, wanted: &[ProgArray]) -> Result<ProgInfo, Errno> {
    let mut sizes = raw::bpf_prog_info::default();
    // SAFETY: all pointers and counts are zero.
    unsafe { get_prog_info(prog, &mut sizes) }?;
    for _ in 0..INFO_TRIES {
        let mut arrays = [const { None }; PROG_ARRAYS];
        let mut info = raw::bpf_prog_info {
            func_info_rec_size: sizes.func_info_rec_size,
            line_info_rec_size: sizes.line_info_rec_size,
            jited_line_info_rec_size: sizes.jited_line_info_rec_size,
            ..Default::default()
        };
        for &array in wanted {
            let asked = array.field(&mut sizes);
            let len = asked.len().ok_or(Errno::ERANGE)?;
            if len == 0 {
                continue;
            }
            let mut bytes = vec![0_u8; len];
            let field = array.field(&mut info);
            *field.pointer = bytes.as_mut_ptr().expose_provenance() as u64;
            *field.count = *asked.count;
            if let Some(slot) = arrays.get_mut(array as usize) {
                *slot = Some(bytes);
            }
        }
        // SAFETY: each pointer is that of a vector in `arrays`, which lives until after the call
        // and is as long as `field.len()` was when the count and record size were set.
        let len = unsafe { get_prog_info(prog, &mut info) }?;
        if ProgArray::ALL.iter().any(|&array| {
            arrays.get(array as usize).is_some_and(Option::is_some)
                && *array.field(&mut info).count > *array.field(&mut sizes).count
        }) {
            sizes = info;
            continue;
        }
        for (array, slot) in ProgArray::ALL.iter().zip(&mut arrays) {
            let field = array.field(&mut info);
            let len = field.len().unwrap_or(0);
            match slot {
                // The kernel clears the pointer of what it does not show to this caller.
                Some(_) if *field.pointer == 0 || len == 0 => *slot = None,
                Some(bytes) => bytes.truncate(len),
                None => {}
            }
            *field.pointer = 0;
        }
        return Ok(ProgInfo { info: bytes_of(&info, len), arrays });
    }
    Err(Errno::ERANGE)
}

/// How many maps belong to a program.
///
/// # Errors
///
/// What the kernel says.
pub fn n_maps(prog: BorrowedFd<'_>) -> Result<u32, Errno> {
    let mut info = raw::bpf_prog_info::default();
    // SAFETY: all pointers and counts are zero.
    unsafe { get_prog_info(prog, &mut info) }?;
    Ok(info.nr_map_ids)
}

/// The bytes of a BTF object.
///
/// # Errors
///
/// What the kernel says, or `ERANGE` if the object does not keep its size.
pub fn btf_data(btf: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
    let mut info = raw::bpf_btf_info::default();
    // SAFETY: the pointer is null and its size zero.
    unsafe { get_btf_info(btf, &mut info) }?;
    let len = usize::try_from(info.btf_size).map_err(|_| Errno::ERANGE)?;
    if len > ARRAY_MAX_BYTES {
        return Err(Errno::ERANGE);
    }
    let mut data = vec![0_u8; len];
    let mut info = raw::bpf_btf_info {
        btf: data.as_mut_ptr().expose_provenance() as u64,
        btf_size: info.btf_size,
        ..Default::default()
    };
    // SAFETY: the pointer is that of `data`, which is `btf_size` bytes and outlives the call.
    unsafe { get_btf_info(btf, &mut info) }?;
    if usize::try_from(info.btf_size) != Ok(len) {
        return Err(Errno::ERANGE);
    }
    Ok(data)
}

/// What kind of map this is.
///
/// # Errors
///
/// What the kernel says.
pub fn map_info(map: BorrowedFd<'_>) -> Result<MapInfo, Errno> {
    let mut info = raw::bpf_map_info::default();
    let mut len = size_of_u32(&info);
    // SAFETY: `info` is `len` bytes of plain integers without pointers that the kernel follows,
    // and both outlive the call.
    let ret = unsafe { raw::bpf_map_get_info_by_fd(map.as_raw_fd(), &raw mut info, &raw mut len) };
    check(ret)?;
    Ok(MapInfo {
        map_type: info.type_,
        id: info.id,
        key_len: info.key_size,
        value_len: info.value_size,
        max_entries: info.max_entries,
        flags: info.map_flags,
        name: info.name.map(|it| it.to_ne_bytes()[0]),
        btf_id: info.btf_id,
        btf_value_type_id: info.btf_value_type_id,
    })
}

/// The value at `index` of an array map that [`map_info`] described as `info`.
///
/// # Errors
///
/// `EINVAL` if the map is no plain array with keys of 4 bytes, else what the kernel says.
pub fn array_value(map: BorrowedFd<'_>, info: &MapInfo, index: u32) -> Result<Vec<u8>, Errno> {
    // For the per-CPU kinds the kernel would write a value a CPU.
    let is_array = info.map_type == raw::BPF_MAP_TYPE_ARRAY && info.key_len == 4;
    // The value's length is asked of the kernel anew: `info` could be of another map.
    let is_same = map_info(map)? == *info;
    let len = usize::try_from(info.value_len).map_err(|_| Errno::ERANGE)?;
    if !is_array || !is_same || len > ARRAY_MAX_BYTES {
        return Err(Errno::EINVAL);
    }
    let mut value = vec![0_u8; len];
    // SAFETY: an array map's key is the 4 bytes of `index`; the kernel writes the map's value
    // length, which is that of `value`: both were checked above.
    let ret = unsafe {
        raw::bpf_map_lookup_elem(
            map.as_raw_fd(),
            (&raw const index).cast::<c_void>(),
            value.as_mut_ptr().cast::<c_void>(),
        )
    };
    check(ret)?;
    Ok(value)
}

/// Asks for a program's info and returns its length in bytes, as this kernel has it.
///
/// # Safety
///
/// Each pointer in `info` is null, or that of writable memory as long as its count and record
/// size say.
unsafe fn get_prog_info(prog: BorrowedFd<'_>, info: &mut raw::bpf_prog_info) -> Result<u32, Errno> {
    let mut len = size_of_u32(info);
    // SAFETY: `info` is `len` bytes and outlives the call; what it points to is the caller's word.
    let ret = unsafe { raw::bpf_prog_get_info_by_fd(prog.as_raw_fd(), info, &raw mut len) };
    check(ret)?;
    Ok(len)
}

/// Asks for a BTF object's info.
///
/// # Safety
///
/// `info.btf` is null with a size of zero, or that of `info.btf_size` writable bytes; `info.name`
/// is null.
unsafe fn get_btf_info(btf: BorrowedFd<'_>, info: &mut raw::bpf_btf_info) -> Result<(), Errno> {
    let mut len = size_of_u32(info);
    // SAFETY: `info` is `len` bytes and outlives the call; what it points to is the caller's word.
    let ret = unsafe { raw::bpf_btf_get_info_by_fd(btf.as_raw_fd(), info, &raw mut len) };
    check(ret).map(|_| ())
}

/// The first `len` bytes of `info`.
fn bytes_of(info: &raw::bpf_prog_info, len: u32) -> Vec<u8> {
    let len = usize::try_from(len).unwrap_or(usize::MAX).min(size_of_val(info));
    // SAFETY: `info` is initialized memory of at least `len` bytes whose padding is an explicit
    // member, and it is not written to while the slice lives.
    unsafe { std::slice::from_raw_parts(ptr::from_ref(info).cast::<u8>(), len) }.to_vec()
}

pub(super) fn size_of_u32<T>(value: &T) -> u32 {
    u32::try_from(size_of_val(value)).unwrap_or(u32::MAX)
}

/// libbpf's calls return a negative errno, whatever `errno` says.
pub(super) fn check(ret: i32) -> Result<i32, Errno> {
    if ret < 0 { Err(Errno::from_raw(-ret)) } else { Ok(ret) }
}

pub(super) fn owned(ret: i32) -> Result<OwnedFd, Errno> {
    let fd = check(ret)?;
    // SAFETY: the call succeeded, so `fd` is open, and nothing else has seen it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
/// The types of an open object, its variables where the loader will put them: the compiler leaves
/// their places open.
pub fn types_of(object: &OpenObject) -> Option<Vec<u8>> {
    let object = object.as_libbpf_object().as_ptr();
    // SAFETY: the object is open as long as its borrow.
    let btf = unsafe { raw::bpf_object__btf(object) };
    if btf.is_null() {
        return None;
    }
    let mut len = 0;
    // SAFETY: the types belong to the object, and `len` is a number that the call writes to.
    let data = unsafe { raw::btf__raw_data(btf, &raw mut len) };
    if data.is_null() {
        return None;
    }
    // SAFETY: the call gives `len` bytes, which stay as they are until the types are changed; nobody
    // does that while the object is borrowed.
    let bytes =
        unsafe { std::slice::from_raw_parts(data.cast::<u8>(), usize::try_from(len).ok()?) };
    Some(bytes.to_vec())
}

/// Attaches a program to a perf event as long as the answer is open; `cookie` is what
/// `bpf_get_attach_cookie()` gives it. Since Linux 5.15.
///
/// # Errors
///
/// As those of [`EventFd::set_program`], and `EINVAL` of an older kernel.
pub fn attach(program: BorrowedFd<'_>, event: &EventFd, cookie: u64) -> Result<OwnedFd, Errno> {
    let mut options = raw::bpf_link_create_opts {
        sz: size_of::<raw::bpf_link_create_opts>() as u64,
        ..raw::bpf_link_create_opts::default()
    };
    options.__bindgen_anon_1.perf_event =
        raw::bpf_link_create_opts__bindgen_ty_1__bindgen_ty_1 { bpf_cookie: cookie };
    let (program, event) = (program.as_raw_fd(), event.as_fd().as_raw_fd());
    // SAFETY: both descriptors are open as long as their borrows, and the options are alive.
    let fd =
        unsafe { raw::bpf_link_create(program, event, raw::BPF_PERF_EVENT, &raw const options) };
    if fd < 0 {
        return Err(Errno::from_raw(fd.wrapping_neg()));
    }
    // SAFETY: the call has made it, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Puts `instructions` in the place of those of a program that is not loaded yet.
///
/// What the loader has to put in later it finds by its place, so the places of instructions that
/// were there stay.
///
/// # Errors
///
/// `ENOMEM`, or `EBUSY` of a program that is loaded.
pub fn set_instructions(
    program: &mut OpenProgramMut<'_>,
    instructions: &[raw::bpf_insn],
) -> Result<(), Errno> {
    let program = program.as_libbpf_object().as_ptr();
    // The function copies them, and takes a pointer to what it could change.
    let from = instructions.as_ptr().cast_mut();
    // SAFETY: the program is borrowed alone, and libbpf reads `instructions.len()` of them.
    let ret = unsafe { raw::bpf_program__set_insns(program, from, instructions.len() as u64) };
    if ret == 0 { Ok(()) } else { Err(Errno::from_raw(ret.wrapping_neg())) }
}
