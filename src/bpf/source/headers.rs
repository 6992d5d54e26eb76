//! The headers that come with us.

use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use libbpf_rs::libbpf_sys::API_HEADERS;

use super::vmlinux;

/// Where headers lie.
#[derive(Clone, Debug)]
pub(super) struct Folders {
    /// `bpf/*.h`, `bpfperf.h`, `vmlinux.h`.
    pub(super) headers: PathBuf,
    /// What the system may have, and is taken from here if it has not.
    pub(super) fallback: PathBuf,
}

impl Folders {
    /// The kernel's types.
    pub(super) fn vmlinux(&self) -> PathBuf {
        self.headers.join("vmlinux.h")
    }
}

/// The headers of libbpf that are for BPF programs; all others are for those who load them.
///
/// They are licensed under LGPL-2.1 or BSD-2-Clause.
const OF_PROGRAMS: [&str; 6] = [
    "bpf_helpers.h",
    "bpf_helper_defs.h",
    "bpf_tracing.h",
    "bpf_core_read.h",
    "bpf_endian.h",
    "usdt.bpf.h",
];

/// The types that our own programs need.
const BPFPERF: &str = include_str!("../../../bpf/bpfperf.h");

/// `linux/errno.h` as far as `usdt.bpf.h` needs it.
///
/// Source: `include/uapi/asm-generic/errno-base.h`.
const ERRNO: &str = "#define ENOENT 2\n#define ESRCH 3\n#define E2BIG 7\n#define EFAULT 14\n\
                     #define EEXIST 17\n#define EINVAL 22\n";

/// Writes them below `folder`, with a `vmlinux.h` that has no types.
pub(super) fn write(folder: &Path) -> io::Result<Folders> {
    let folders = Folders { headers: folder.join("headers"), fallback: folder.join("fallback") };
    let bpf = folders.headers.join("bpf");
    fs::create_dir_all(&bpf)?;
    for (name, text) in API_HEADERS.iter().filter(|it| OF_PROGRAMS.contains(&it.0)) {
        fs::write(bpf.join(name), text)?;
    }
    fs::write(folders.headers.join("bpfperf.h"), BPFPERF)?;
    fs::write(folders.vmlinux(), vmlinux::around(""))?;
    let linux = folders.fallback.join("linux");
    fs::create_dir_all(&linux)?;
    fs::write(linux.join("errno.h"), ERRNO)?;
    Ok(folders)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_header_of_programs_is_there() {
        let scratch = tempfile::tempdir().unwrap();
        let folders = write(scratch.path()).unwrap();
        for name in OF_PROGRAMS {
            assert!(folders.headers.join("bpf").join(name).is_file(), "{name}");
        }
        assert!(!folders.headers.join("bpf/libbpf.h").exists());
    }
}
