//! The bpf(2) calls that tell where programs sit: links by id, pinned objects, tasks' descriptors.
//!
//! Sources: `struct bpf_link_info` in `include/uapi/linux/bpf.h`; `bpf_link_get_info_by_fd()`,
//! `bpf_obj_get()` and `bpf_task_fd_query()` in `kernel/bpf/syscall.c`.

use std::ffi::CStr;
use std::ffi::c_void;
use std::os::fd::AsRawFd;
use std::os::fd::BorrowedFd;
use std::os::fd::OwnedFd;

use libbpf_rs::libbpf_sys as raw;
use nix::errno::Errno;

use super::bpf::check;
use super::bpf::owned;

/// The most bytes of a name that a link tells, its zero included: a path of a file at the most.
const NAME_MAX_BYTES: usize = 4096;

/// The bytes of a `struct bpf_link_info` that are asked for, in words; newer ones are longer.
const INFO_WORDS: usize = size_of::<raw::bpf_link_info>() / 8;

/// What the kernel tells of one link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkInfo {
    /// The `struct bpf_link_info` as far as this kernel has it, its pointer to the name zero.
    pub info: Vec<u8>,
    /// The name that it points to, without its zero: of a tracepoint, a function, a file; empty for
    /// kinds that point to none.
    pub name: Vec<u8>,
}

/// Where a kind of link points to a name: a word with its address and half a one with its length.
struct NameField {
    pointer_at: usize,
    len_at: usize,
}

impl NameField {
    /// The field of links of the kind `kind`, an `enum bpf_link_type`.
    fn of(kind: u32) -> Option<Self> {
        let (pointer_at, len_at) = match kind {
            // `tp_name`, `target_name`.
            raw::BPF_LINK_TYPE_RAW_TRACEPOINT | raw::BPF_LINK_TYPE_ITER => (16, 24),
            // `file_name`, `func_name`, `tp_name`; what is no probe has other fields there, which
            // the kernel only writes.
            raw::BPF_LINK_TYPE_PERF_EVENT => (24, 32),
            // `path`, `path_size`.
            raw::BPF_LINK_TYPE_UPROBE_MULTI => (16, 48),
            _ => return None,
        };
        Some(Self { pointer_at, len_at })
    }
}

/// The id of the first link after `id`, or `None` at the end of the list.
///
/// # Errors
///
/// `EPERM` without `CAP_SYS_ADMIN`, `EINVAL` on kernels before 5.8, which have no list.
pub fn next_link_id(id: u32) -> Result<Option<u32>, Errno> {
    let mut next = 0;
    // SAFETY: `next` outlives the call, which writes one `u32` there.
    let ret = unsafe { raw::bpf_link_get_next_id(id, &raw mut next) };
    match check(ret) {
        Ok(_) => Ok(Some(next)),
        Err(Errno::ENOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// A descriptor of the link `id`.
///
/// Holding it keeps the program attached, so it is to be closed at once.
///
/// # Errors
///
/// `ENOENT` if the link is gone, `EPERM` without the privilege.
pub fn link_fd(id: u32) -> Result<OwnedFd, Errno> {
    // SAFETY: takes a number only.
    owned(unsafe { raw::bpf_link_get_fd_by_id(id) })
}

/// A descriptor of the object that is pinned at `path`: a program, a map or a link.
///
/// # Errors
///
/// `EINVAL` or `EACCES` where no object is pinned there, else what the kernel says.
pub fn pinned(path: &CStr) -> Result<OwnedFd, Errno> {
    // SAFETY: `path` is a string with a zero at its end and outlives the call.
    owned(unsafe { raw::bpf_obj_get(path.as_ptr()) })
}

/// What the kernel tells of a link.
///
/// # Errors
///
/// What the kernel says.
pub fn link_info(link: BorrowedFd<'_>) -> Result<LinkInfo, Errno> {
    let mut info = [0_u64; INFO_WORDS];
    // SAFETY: all of it is zero, so there is no pointer in it.
    let len = unsafe { get_link_info(link, &mut info) }?;
    let kind = bytes_of(&info, len).first_chunk().map_or(0, |it| u32::from_ne_bytes(*it));
    let Some(field) = NameField::of(kind) else {
        return Ok(LinkInfo { info: bytes_of(&info, len), name: Vec::new() });
    };
    let mut name = vec![0_u8; NAME_MAX_BYTES];
    let mut asked = [0_u64; INFO_WORDS];
    if let Some(word) = asked.get_mut(field.pointer_at / 8) {
        *word = name.as_mut_ptr().expose_provenance() as u64;
    }
    if let Some(word) = asked.get_mut(field.len_at / 8) {
        *word = half_word(NAME_MAX_BYTES, field.len_at);
    }
    // SAFETY: the only pointer is that of `name`, which lives until after the call, and the length
    // beside it is `name`'s. The kernel holds them for nothing else: the link's kind stays.
    let len = unsafe { get_link_info(link, &mut asked) }?;
    name.truncate(name.iter().position(|&it| it == 0).unwrap_or(name.len()));
    let ours = name.as_ptr().expose_provenance() as u64;
    asked.iter_mut().filter(|it| **it == ours).for_each(|it| *it = 0);
    Ok(LinkInfo { info: bytes_of(&asked, len), name })
}

/// A map of operations of the kernel (`struct_ops`), as programs implement them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpsMap {
    /// Its name, cut by the kernel to 15 bytes.
    pub name: Vec<u8>,
    /// The kernel's BTF object that describes its value.
    pub btf_id: u32,
    /// The type of its value there.
    pub value_type_id: u32,
    /// Its value, in which the ids of programs stand for functions; all zero while it is not in use.
    pub value: Vec<u8>,
}

/// The most bytes of such a value: far more than any struct of callbacks has.
const OPS_MAX_BYTES: u32 = 1 << 20;

/// The map if it is one of operations of the kernel, else `None`.
///
/// Source: `bpf_struct_ops_map_sys_lookup_elem()` in `kernel/bpf/bpf_struct_ops.c`.
///
/// # Errors
///
/// What the kernel says.
pub fn ops_map(map: BorrowedFd<'_>) -> Result<Option<OpsMap>, Errno> {
    let mut info = raw::bpf_map_info::default();
    let mut len = super::bpf::size_of_u32(&info);
    // SAFETY: `info` is `len` bytes of plain integers without pointers that the kernel follows,
    // and both outlive the call.
    let ret = unsafe { raw::bpf_map_get_info_by_fd(map.as_raw_fd(), &raw mut info, &raw mut len) };
    check(ret)?;
    if info.type_ != raw::BPF_MAP_TYPE_STRUCT_OPS || OPS_MAX_BYTES < info.value_size {
        return Ok(None);
    }
    let mut value = vec![0_u8; usize::try_from(info.value_size).map_err(|_| Errno::ERANGE)?];
    let key = 0_u32;
    // SAFETY: a map of this type has one key of 4 bytes, and the kernel writes its value's length,
    // which is that of `value`: a descriptor stays that of one map, whose lengths do not change.
    let ret = unsafe {
        raw::bpf_map_lookup_elem(
            map.as_raw_fd(),
            (&raw const key).cast::<c_void>(),
            value.as_mut_ptr().cast::<c_void>(),
        )
    };
    check(ret)?;
    let name = info.name.map(|it| it.to_ne_bytes()[0]);
    Ok(Some(OpsMap {
        name: name.split(|&it| it == 0).next().unwrap_or_default().to_vec(),
        btf_id: info.btf_vmlinux_id,
        value_type_id: info.btf_vmlinux_value_type_id,
        value,
    }))
}

/// What BPF program an event's descriptor of another task leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFd {
    /// The program.
    pub prog_id: u32,
    /// `enum bpf_task_fd_type`.
    pub kind: u32,
    /// The tracepoint, function or file that it is attached to.
    pub name: Vec<u8>,
    /// Where in the function or file, in bytes.
    pub offset: u64,
    /// The address of the function, where there is no name.
    pub addr: u64,
}

/// The program that is attached by descriptor `fd` of process `pid`, be it an event's or a link's.
///
/// # Errors
///
/// `ENOENT` if the event has no program, `EOPNOTSUPP` if it is no probe or tracepoint, `EBADF` and
/// `ENOENT` if descriptor or process are gone, `EPERM` without `CAP_SYS_ADMIN`.
pub fn task_fd(pid: i32, fd: i32) -> Result<TaskFd, Errno> {
    let mut found = TaskFd { prog_id: 0, kind: 0, name: vec![0; 256], offset: 0, addr: 0 };
    let mut name_len = 256_u32;
    // SAFETY: `name` is `name_len` bytes, and all that the kernel writes to outlives the call.
    let ret = unsafe {
        raw::bpf_task_fd_query(
            pid,
            fd,
            0,
            found.name.as_mut_ptr().cast(),
            &raw mut name_len,
            &raw mut found.prog_id,
            &raw mut found.kind,
            &raw mut found.offset,
            &raw mut found.addr,
        )
    };
    match check(ret) {
        // A name that is cut is better than none.
        Ok(_) | Err(Errno::ENOSPC) => {}
        Err(errno) => return Err(errno),
    }
    let len = found.name.iter().position(|&it| it == 0).unwrap_or(found.name.len());
    found.name.truncate(len);
    Ok(found)
}

/// `number` as the half of a word that lies at `at`.
fn half_word(number: usize, at: usize) -> u64 {
    let mut word = [0_u8; 8];
    let number = u32::try_from(number).unwrap_or(u32::MAX).to_ne_bytes();
    if let Some(half) = word.get_mut(at % 8..at % 8 + 4) {
        half.copy_from_slice(&number);
    }
    u64::from_ne_bytes(word)
}

/// Asks for a link's info and returns its length in bytes, as this kernel has it.
///
/// # Safety
///
/// Where `info` holds the pointer that a link of its kind has, that is of writable memory as long
/// as the length beside it says; all else is zero.
unsafe fn get_link_info(
    link: BorrowedFd<'_>,
    info: &mut [u64; INFO_WORDS],
) -> Result<usize, Errno> {
    let mut len = super::bpf::size_of_u32(info);
    let to = info.as_mut_ptr().cast::<c_void>();
    // SAFETY: `info` is `len` bytes and outlives the call; what it points to is the caller's word.
    let ret = unsafe { raw::bpf_obj_get_info_by_fd(link.as_raw_fd(), to, &raw mut len) };
    check(ret)?;
    Ok(usize::try_from(len).unwrap_or(0))
}

fn bytes_of(info: &[u64; INFO_WORDS], len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = info.iter().flat_map(|it| it.to_ne_bytes()).collect();
    bytes.truncate(len);
    bytes
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    type Union = raw::bpf_link_info__bindgen_ty_1;
    type RawTracepoint = raw::bpf_link_info__bindgen_ty_1__bindgen_ty_1;
    type PerfEvent = raw::bpf_link_info__bindgen_ty_1__bindgen_ty_11;
    type Tracepoint = raw::bpf_link_info__bindgen_ty_1__bindgen_ty_11__bindgen_ty_1__bindgen_ty_3;
    type UprobeMulti = raw::bpf_link_info__bindgen_ty_1__bindgen_ty_10;

    #[track_caller]
    fn check(kind: u32, want: Option<(usize, usize)>) {
        let base = offset_of!(raw::bpf_link_info, __bindgen_anon_1);
        let want = want.map(|(pointer, len)| (base + pointer, base + len));
        assert_eq!(NameField::of(kind).map(|it| (it.pointer_at, it.len_at)), want);
        assert!(size_of::<Union>() + base == INFO_WORDS * 8);
    }

    #[test]
    fn names_lie_where_the_kernel_has_them() {
        let (name, len) =
            (offset_of!(RawTracepoint, tp_name), offset_of!(RawTracepoint, tp_name_len));
        check(raw::BPF_LINK_TYPE_RAW_TRACEPOINT, Some((name, len)));
        check(raw::BPF_LINK_TYPE_ITER, Some((name, len)));
        let probe = offset_of!(PerfEvent, __bindgen_anon_1);
        let name = probe + offset_of!(Tracepoint, tp_name);
        let len = probe + offset_of!(Tracepoint, name_len);
        check(raw::BPF_LINK_TYPE_PERF_EVENT, Some((name, len)));
        let (name, len) = (offset_of!(UprobeMulti, path), offset_of!(UprobeMulti, path_size));
        check(raw::BPF_LINK_TYPE_UPROBE_MULTI, Some((name, len)));
        check(raw::BPF_LINK_TYPE_XDP, None);
    }

    #[test]
    fn a_length_stands_in_its_half_of_the_word() {
        let word = |number: u32, other: u32| {
            let halves = [number.to_ne_bytes(), other.to_ne_bytes()].concat();
            u64::from_ne_bytes(halves.try_into().unwrap())
        };
        assert_eq!(half_word(7, 24), word(7, 0));
        assert_eq!(half_word(7, 28), word(0, 7));
    }
}
