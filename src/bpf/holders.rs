//! Who holds programs: processes by their descriptors, and paths in bpffs.
//!
//! A descriptor of a program or a link says so in `/proc/PID/fd`, and which one in
//! `/proc/PID/fdinfo`. A BPF iterator over files would tell the same with fewer calls, but it would
//! be one more program on the machine that is recorded.
//!
//! Sources: `bpf_prog_show_fdinfo()`, `bpf_map_show_fdinfo()` and `bpf_link_show_fdinfo()` in
//! `kernel/bpf/syscall.c`.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::path::PathBuf;

use super::links::Link;
use super::mounts;
use crate::perfdata::private::Holder;
use crate::sys::bpf_links;

/// The most objects in all of bpffs that are opened: each takes some microseconds.
const PINS_MAX: u64 = 4096;

/// How deep folders of bpffs are followed.
const DEPTH_MAX: u32 = 16;

/// What a descriptor of BPF stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Held {
    /// A program.
    Program(u32),
    /// A link, and the program that it attaches.
    Link(u32, u32),
    /// A map.
    Map(u32),
}

/// What a file of `/proc/PID/fdinfo` says of a descriptor of BPF.
fn parse_fdinfo(text: &str) -> Option<Held> {
    let field = |name: &str| {
        let value = text.lines().find_map(|it| it.strip_prefix(name)?.strip_prefix(':'))?;
        value.trim().parse::<u32>().ok()
    };
    match (field("link_id"), field("prog_id"), field("map_id")) {
        // A link without a program, as one of struct_ops, has none to tell.
        (Some(link), program, _) => Some(Held::Link(link, program.unwrap_or(0))),
        (None, Some(program), _) => Some(Held::Program(program)),
        (None, None, Some(map)) => Some(Held::Map(map)),
        (None, None, None) => None,
    }
}

/// What the processes hold.
#[derive(Debug, Default)]
pub(super) struct Holders {
    /// Who holds a program, or a link of it, by program.
    pub(super) of_programs: BTreeMap<u32, Vec<Holder>>,
    /// Programs that events attach without a link, as of `PERF_EVENT_IOC_SET_BPF`.
    pub(super) without_link: BTreeMap<u32, Vec<Link>>,
    /// How many processes were left out, since there was no time for them.
    pub(super) n_skipped: u64,
}

impl Holders {
    /// Looks at the descriptors of all processes but this one, as long as `has_time` says so; each
    /// descriptor takes some microseconds.
    ///
    /// `programs_of` are those that a link attaches whose descriptor does not say.
    pub(super) fn walk(programs_of: &dyn Fn(u32) -> Vec<u32>, has_time: &dyn Fn() -> bool) -> Self {
        let mut this = Self::default();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|it| it.parse::<i32>().ok()) else {
                continue;
            };
            if u32::try_from(pid) == Ok(std::process::id()) {
                continue;
            }
            if has_time() {
                this.look_at(pid, &entry.path(), programs_of);
            } else {
                this.n_skipped += 1;
            }
        }
        this
    }

    /// Looks at one process; one that is gone holds nothing.
    fn look_at(&mut self, pid: i32, folder: &Path, programs_of: &dyn Fn(u32) -> Vec<u32>) {
        let mut found = BTreeSet::new();
        for entry in fs::read_dir(folder.join("fd")).into_iter().flatten().flatten() {
            let Ok(what) = fs::read_link(entry.path()) else { continue };
            let Some(kind) = what.as_os_str().as_bytes().strip_prefix(b"anon_inode:") else {
                continue;
            };
            let number = entry.file_name();
            if kind.starts_with(b"bpf") {
                let info = fs::read_to_string(folder.join("fdinfo").join(&number));
                match parse_fdinfo(&info.unwrap_or_default()) {
                    Some(Held::Program(id)) => _ = found.insert((id, "prog")),
                    Some(Held::Link(id, 0)) => {
                        found.extend(programs_of(id).into_iter().map(|it| (it, "link")));
                    }
                    Some(Held::Link(_, id)) => _ = found.insert((id, "link")),
                    // Whoever has a map alone does not keep a program.
                    Some(Held::Map(_)) | None => {}
                }
            } else if kind == b"[perf_event]" {
                let fd = number.to_str().and_then(|it| it.parse().ok());
                if let Some(program) = fd.and_then(|fd| bpf_links::task_fd(pid, fd).ok()) {
                    found.insert((program.prog_id, "perf_event"));
                    let links = self.without_link.entry(program.prog_id).or_default();
                    let link = Link::of_event(&program);
                    if !links.contains(&link) {
                        links.push(link);
                    }
                }
            }
        }
        if found.is_empty() {
            return;
        }
        let comm = fs::read(folder.join("comm")).unwrap_or_default();
        let comm = String::from_utf8_lossy(comm.strip_suffix(b"\n").unwrap_or(&comm)).into_owned();
        for (program, via) in found {
            let holder = Holder { pid, comm: comm.clone(), via: via.to_owned() };
            self.of_programs.entry(program).or_default().push(holder);
        }
    }
}

/// What bpffs holds.
#[derive(Debug, Default)]
pub(super) struct Pins {
    /// The paths of programs, by program.
    pub(super) of_programs: BTreeMap<u32, Vec<String>>,
    /// The paths of links, by link.
    pub(super) of_links: BTreeMap<u32, Vec<String>>,
    /// How many files were not opened, since there are too many.
    pub(super) n_skipped: u64,
}

impl Pins {
    /// Looks at what is pinned in all bpffs that are mounted.
    pub(super) fn walk(has_time: &dyn Fn() -> bool) -> Self {
        let mut this = Self::default();
        let mut n_opened = 0;
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        // One may be mounted over another, which nobody sees then.
        let places: BTreeSet<PathBuf> = mounts::of_kind(&mounts, "bpf").collect();
        let mut folders: Vec<(PathBuf, u32)> = places.into_iter().map(|it| (it, 0)).collect();
        while let Some((folder, depth)) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let Ok(kind) = entry.file_type() else { continue };
                if kind.is_dir() && depth < DEPTH_MAX {
                    folders.push((entry.path(), depth + 1));
                } else if kind.is_dir() {
                    this.n_skipped += 1;
                } else if kind.is_file() && n_opened < PINS_MAX && has_time() {
                    n_opened += 1;
                    this.look_at(entry.path());
                } else if kind.is_file() {
                    this.n_skipped += 1;
                }
            }
        }
        for paths in this.of_programs.values_mut().chain(this.of_links.values_mut()) {
            paths.sort_unstable();
        }
        this
    }

    fn look_at(&mut self, path: PathBuf) {
        let text = path.to_string_lossy().into_owned();
        let Ok(path) = CString::new(path.into_os_string().into_vec()) else { return };
        let Ok(object) = bpf_links::pinned(&path) else { return };
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", object.as_raw_fd()));
        match parse_fdinfo(&info.unwrap_or_default()) {
            Some(Held::Program(id)) => self.of_programs.entry(id).or_default().push(text),
            Some(Held::Link(id, _)) => self.of_links.entry(id).or_default().push(text),
            Some(Held::Map(_)) | None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "pos:\t0\nflags:\t02000000\nmnt_id:\t16\nino:\t1052\n";

    #[track_caller]
    fn check(text: &str, want: Option<Held>) {
        assert_eq!(parse_fdinfo(&format!("{HEAD}{text}")), want);
    }

    #[test]
    fn a_descriptor_says_what_it_stands_for() {
        let program =
            "prog_type:\t5\nprog_jited:\t1\nprog_tag:\tcc2c\nmemlock:\t4096\nprog_id:\t14\n";
        check(program, Some(Held::Program(14)));
        let link = "link_type:\traw_tracepoint\nlink_id:\t3\nprog_tag:\tcc2c\nprog_id:\t14\n";
        check(link, Some(Held::Link(3, 14)));
        check("link_type:\tstruct_ops\nlink_id:\t3\nmap_id:\t8\n", Some(Held::Link(3, 0)));
        check(
            "map_type:\t2\nkey_size:\t4\nmemlock:\t8\nmap_id:\t9\nfrozen:\t1\n",
            Some(Held::Map(9)),
        );
    }

    #[test]
    fn a_descriptor_of_something_else_or_of_a_damaged_text_stands_for_nothing() {
        check("", None);
        check("prog_id:\t-1\n", None);
        check("prog_id:\n", None);
        check("xprog_id:\t3\n", None);
    }
}
