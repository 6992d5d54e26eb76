//! Files of kernfs by number: cgroups by their id.
//!
//! Sources: `open_by_handle_at(2)`; `FILEID_KERNFS` in `include/linux/exportfs.h`,
//! `kernfs_fh_to_dentry()` in `fs/kernfs/mount.c`.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::fd::FromRawFd;
use std::os::fd::OwnedFd;

use nix::errno::Errno;

/// `FILEID_KERNFS`: the handle is the 64-bit id of a node.
const FILEID_KERNFS: i32 = 0xfe;

/// `struct file_handle` with a handle of kernfs.
#[repr(C)]
struct Handle {
    n_bytes: u32,
    kind: i32,
    id: [u8; 8],
}

/// The folder whose id is `id` on the mounted file system that `mount` lies on.
///
/// # Errors
///
/// `ESTALE` if there is none with this id, `EPERM` without `CAP_DAC_READ_SEARCH`.
pub fn folder(mount: &File, id: u64) -> Result<OwnedFd, Errno> {
    let mut handle = Handle { n_bytes: 8, kind: FILEID_KERNFS, id: id.to_ne_bytes() };
    let to = (&raw mut handle).cast();
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: `handle` is a header and as many bytes as it says, as the call reads it, and outlives
    // the call.
    let fd = unsafe { libc::open_by_handle_at(mount.as_raw_fd(), to, flags) };
    if fd < 0 {
        return Err(Errno::last());
    }
    // SAFETY: the call succeeded, so `fd` is open, and nothing else has seen it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
