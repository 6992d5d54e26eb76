//! What bpf(2) counts of programs: how often they ran and how long.
//!
//! Sources: `bpf_prog_get_info_by_fd()` and `bpf_enable_stats()` in `kernel/bpf/syscall.c`.

use std::os::fd::AsRawFd;
use std::os::fd::BorrowedFd;
use std::os::fd::OwnedFd;

use libbpf_rs::libbpf_sys as raw;
use nix::errno::Errno;

use super::bpf::check;
use super::bpf::owned;
use super::bpf::size_of_u32;

/// The most maps that a program uses: `MAX_USED_MAPS` in `include/linux/bpf_verifier.h`.
const MAPS_MAX: usize = 64;

/// What one call tells of a program without its code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgCounters {
    /// The program's id.
    pub id: u32,
    /// `enum bpf_prog_type`.
    pub kind: u32,
    /// When it was loaded, in ns of `CLOCK_BOOTTIME`.
    pub load_time_ns: u64,
    /// Its name, cut by the kernel to 15 bytes.
    pub name: Vec<u8>,
    /// The ids of the maps that it uses.
    pub map_ids: Vec<u32>,
    /// The BTF of its own types; 0 where it has none.
    pub btf_id: u32,
    /// The BTF that its attach target is described in; 0 where it has no such target.
    pub attach_btf_obj_id: u32,
    /// How often it ran while the kernel counted.
    pub run_cnt: u64,
    /// How long it ran while the kernel counted, in ns.
    pub run_time_ns: u64,
    /// How often it was not run because it was running on that CPU already.
    pub recursion_misses: u64,
}

/// What the kernel tells of a program without its code, from one call.
///
/// # Errors
///
/// What the kernel says.
pub fn prog_counters(prog: BorrowedFd<'_>) -> Result<ProgCounters, Errno> {
    let mut map_ids = [0_u32; MAPS_MAX];
    let mut info = raw::bpf_prog_info {
        map_ids: map_ids.as_mut_ptr().expose_provenance() as u64,
        nr_map_ids: size_of_u32(&map_ids) / 4,
        ..Default::default()
    };
    let mut len = size_of_u32(&info);
    let fd = prog.as_raw_fd();
    // SAFETY: `info` is `len` bytes whose only pointer is that of `map_ids`, which is as many
    // elements as `nr_map_ids` says; all of them outlive the call.
    let ret = unsafe { raw::bpf_prog_get_info_by_fd(fd, &raw mut info, &raw mut len) };
    check(ret)?;
    let n_maps = usize::try_from(info.nr_map_ids).unwrap_or(0).min(MAPS_MAX);
    let name = info.name.map(|it| it.to_ne_bytes()[0]);
    Ok(ProgCounters {
        id: info.id,
        kind: info.type_,
        load_time_ns: info.load_time,
        name: name.split(|&it| it == 0).next().unwrap_or_default().to_vec(),
        map_ids: map_ids.get(..n_maps).unwrap_or_default().to_vec(),
        btf_id: info.btf_id,
        attach_btf_obj_id: info.attach_btf_obj_id,
        run_cnt: info.run_cnt,
        run_time_ns: info.run_time_ns,
        recursion_misses: info.recursion_misses,
    })
}

/// Lets the kernel count runs and their time of all programs, until the descriptor is closed.
///
/// Source: `BPF_ENABLE_STATS`, since Linux 5.8.
///
/// # Errors
///
/// `EPERM` without `CAP_SYS_ADMIN`, `EINVAL` on older kernels.
pub fn count_runs() -> Result<OwnedFd, Errno> {
    // SAFETY: takes a number only.
    owned(unsafe { raw::bpf_enable_stats(raw::BPF_STATS_RUN_TIME) })
}

/// What the kernel tells of a BTF object but its data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BtfSource {
    /// `vmlinux`, the module's name, or what its loader called it; often empty.
    pub name: Vec<u8>,
    /// Whether it describes the kernel or a module.
    pub is_kernel: bool,
}

/// Whose a BTF object is.
///
/// # Errors
///
/// What the kernel says.
pub fn btf_source(btf: BorrowedFd<'_>) -> Result<BtfSource, Errno> {
    let mut name = [0_u8; 64];
    let mut info = raw::bpf_btf_info {
        name: name.as_mut_ptr().expose_provenance() as u64,
        name_len: size_of_u32(&name),
        ..Default::default()
    };
    let mut len = size_of_u32(&info);
    let fd = btf.as_raw_fd();
    // SAFETY: `info` is `len` bytes whose only pointer that is not null is that of `name`, which
    // is `name_len` bytes; all of them outlive the call.
    let ret = unsafe { raw::bpf_btf_get_info_by_fd(fd, &raw mut info, &raw mut len) };
    match check(ret) {
        // A module's name that is cut is better than none.
        Ok(_) | Err(Errno::ENOSPC) => {}
        Err(errno) => return Err(errno),
    }
    let name = name.split(|&it| it == 0).next().unwrap_or_default().to_vec();
    Ok(BtfSource { name, is_kernel: info.kernel_btf != 0 })
}
