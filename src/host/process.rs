//! Who runs, under which name, with which files in memory: `/proc`.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use super::mapped;
use super::note;
use crate::units::Addr;
use crate::units::BuildId;
use crate::units::Pid;
use crate::units::Tid;
use crate::units::UserId;

/// A thread that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its process.
    pub pid: Pid,
    /// Itself.
    pub tid: Tid,
    /// The process that made its process.
    pub ppid: Pid,
    /// Its name, at most 15 bytes.
    pub comm: Vec<u8>,
    /// Whether it is the kernel's own and has no memory of its own.
    pub is_kernel_thread: bool,
    /// Whether it has ended and only its parent has not noticed.
    pub is_zombie: bool,
}

/// A stretch of a process's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The first address.
    pub start: Addr,
    /// The address behind the last.
    pub end: Addr,
    /// The offset in the file, in bytes.
    pub offset: u64,
    /// `PROT_*`.
    pub prot: u32,
    /// `MAP_SHARED` or `MAP_PRIVATE`.
    pub flags: u32,
    /// Major and minor number of the file's device.
    pub device: (u32, u32),
    /// The file's inode.
    pub inode: u64,
    /// The path as the kernel shows it; empty for anonymous memory.
    pub path: Vec<u8>,
}

impl Mapping {
    /// Whether code can run in it.
    pub fn is_executable(&self) -> bool {
        self.prot & PROT_EXEC != 0
    }

    /// Whether its content can be read.
    pub fn is_readable(&self) -> bool {
        self.prot & PROT_READ != 0
    }
}

const PROT_READ: u32 = 1;
const PROT_WRITE: u32 = 2;
const PROT_EXEC: u32 = 4;
const MAP_SHARED: u32 = 1;
const MAP_PRIVATE: u32 = 2;
/// `PF_KTHREAD` of the kernel's `include/linux/sched.h`, as the flags in `/proc/PID/stat` show it.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// The processes that run, by number.
pub fn all() -> Vec<Pid> {
    numbers(Path::new("/proc")).into_iter().map(Pid).collect()
}

/// The threads of a process, its leader first; none where the process is gone.
pub fn threads(pid: Pid) -> Vec<Tid> {
    leader_first(pid, numbers(Path::new(&format!("/proc/{pid}/task"))))
}

/// Numbers begin anew when they are used up, so that a leader's need not be the lowest. A reader
/// that meets a thread before its leader takes it for one of a process without mappings.
fn leader_first(pid: Pid, mut tids: Vec<i32>) -> Vec<Tid> {
    tids.sort_by_key(|&tid| tid != pid.0);
    tids.into_iter().map(Tid).collect()
}

/// The process of a thread, or `None` where it is gone.
pub fn process_of(tid: Tid) -> Option<Pid> {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let tgid = status.lines().find_map(|it| it.strip_prefix("Tgid:"))?;
    tgid.trim().parse().ok().map(Pid)
}

/// The threads that act for `user`, with their processes, in the order of these.
///
/// A thread that comes while we look may be missing, and one that is listed may be gone by now:
/// nothing tells all of them at one moment.
pub fn of_user(user: UserId) -> Vec<(Pid, Tid)> {
    let mut found = Vec::new();
    for pid in all() {
        found.extend(threads(pid).into_iter().filter_map(|tid| {
            let status = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).ok()?;
            (acts_for(&status)? == user && !is_dead(&status)).then_some((pid, tid))
        }));
    }
    found
}

/// The effective user of a thread, by its `status`: `Uid:`, real, effective, saved, of files.
fn acts_for(status: &str) -> Option<UserId> {
    let ids = status.lines().find_map(|it| it.strip_prefix("Uid:"))?;
    ids.split_ascii_whitespace().nth(1)?.parse().ok().map(UserId)
}

fn is_dead(status: &str) -> bool {
    let state = status.lines().find_map(|it| it.strip_prefix("State:")).unwrap_or_default();
    matches!(state.trim_start().chars().next(), Some('Z' | 'X'))
}

/// A thread of `pid`, or `None` where it is gone.
pub fn task(pid: Pid, tid: Tid) -> Option<Task> {
    parse_stat(pid, tid, &fs::read(format!("/proc/{pid}/task/{tid}/stat")).ok()?)
}

/// The namespaces of a thread by the numbers that `NAMESPACES` records give them.
///
/// Source: `NET_NS_INDEX` and those after it in `include/uapi/linux/perf_event.h`.
const NAMESPACES: [&str; 7] = ["net", "uts", "ipc", "pid", "user", "mnt", "cgroup"];

/// Device and inode of each namespace of a thread, one after another, 0 for what the kernel does not
/// have; `None` where the thread is gone or hidden from us.
pub fn namespaces(pid: Pid, tid: Tid) -> Option<Vec<u64>> {
    use std::os::unix::fs::MetadataExt;

    let mut links = Vec::with_capacity(NAMESPACES.len() * 2);
    for name in NAMESPACES {
        let link = fs::metadata(format!("/proc/{pid}/task/{tid}/ns/{name}"));
        links.extend(link.map_or([0, 0], |it| [it.dev(), it.ino()]));
    }
    links.iter().any(|it| *it != 0).then_some(links)
}

/// The inode of the namespace that our numbers of processes are of.
pub fn pid_namespace() -> Option<u64> {
    use std::os::unix::fs::MetadataExt as _;

    fs::metadata("/proc/self/ns/pid").ok().map(|it| it.ino())
}

/// Whether a thread that runs may not be looked at by us; one that is gone hides nothing.
///
/// Source: `perf_check_permission()` in `kernel/events/core.c` asks `ptrace_may_access()`, and so
/// do the links of `/proc/PID/ns`.
pub fn is_hidden(pid: Pid, tid: Tid) -> bool {
    let link = fs::read_link(format!("/proc/{pid}/task/{tid}/ns/user"));
    link.is_err_and(|it| it.kind() == std::io::ErrorKind::PermissionDenied)
}

/// What `pid` has in memory; nothing where it is gone or hidden from us.
pub fn mappings(pid: Pid) -> Vec<Mapping> {
    let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.split(|&it| it == b'\n').filter_map(parse_mapping).collect()
}

/// The build ids of mapped files, each file read once.
#[derive(Debug, Default)]
pub struct BuildIds {
    known: HashMap<((u32, u32), u64), Option<BuildId>>,
}

impl BuildIds {
    /// The build id of the file behind `mapping` of `pid`, if it has one.
    pub fn of(&mut self, pid: Pid, mapping: &Mapping) -> Option<BuildId> {
        if mapping.inode == 0 {
            return None;
        }
        let read = || note::of_file(mapped::open(pid, mapping)?);
        *self.known.entry((mapping.device, mapping.inode)).or_insert_with(read)
    }
}

/// The entries of a folder whose names are numbers, ascending.
fn numbers(folder: &Path) -> Vec<i32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    let mut numbers: Vec<_> = entries.filter_map(number).collect();
    numbers.sort_unstable();
    numbers
}

/// `PID (COMM) STATE PPID ...`, where the name may hold anything, parentheses included.
///
/// Source: `proc_pid_stat(5)`.
fn parse_stat(pid: Pid, tid: Tid, stat: &[u8]) -> Option<Task> {
    let open = stat.iter().position(|&it| it == b'(')?;
    let close = stat.iter().rposition(|&it| it == b')')?;
    let comm = stat.get(open + 1..close)?.to_vec();
    let mut words = str::from_utf8(stat.get(close + 1..)?).ok()?.split_ascii_whitespace();
    let is_zombie = matches!(words.next()?, "Z" | "X" | "x");
    let ppid = Pid(words.next()?.parse().ok()?);
    // Process group, session, terminal, its process group; then the flags.
    let flags: u64 = words.nth(4)?.parse().ok()?;
    let is_kernel_thread = flags & KERNEL_THREAD != 0;
    Some(Task { pid, tid, ppid, comm, is_kernel_thread, is_zombie })
}

/// `START-END PERMS OFFSET MAJ:MIN INODE   PATH`, the path with a newline as `\012`.
///
/// Source: `proc_pid_maps(5)`.
fn parse_mapping(line: &[u8]) -> Option<Mapping> {
    let mut rest = line;
    let mut word = || {
        let len = rest.iter().position(|&it| it == b' ').unwrap_or(rest.len());
        let (word, left) = rest.split_at(len);
        rest = left.get(1..).unwrap_or_default();
        str::from_utf8(word).ok()
    };
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = word()?.split_once('-')?;
    let (start, end) = (Addr(hex(start)?), Addr(hex(end)?));
    let perms = word()?.as_bytes();
    let offset = hex(word()?)?;
    let (major, minor) = word()?.split_once(':')?;
    let device = (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?);
    let inode = word()?.parse().ok()?;
    let prot = [(b'r', PROT_READ), (b'w', PROT_WRITE), (b'x', PROT_EXEC)];
    let prot = perms.iter().zip(prot).map(|(&it, (c, bit))| if it == c { bit } else { 0 }).sum();
    let flags = if perms.get(3) == Some(&b's') { MAP_SHARED } else { MAP_PRIVATE };
    let blanks = rest.iter().position(|&it| it != b' ').unwrap_or(rest.len());
    let path = unescape(rest.get(blanks..).unwrap_or_default());
    Some(Mapping { start, end, offset, prot, flags, device, inode, path })
}

fn unescape(path: &[u8]) -> Vec<u8> {
    let mut whole = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&byte, after)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(b"\\012") {
            whole.push(b'\n');
            rest = after;
        } else {
            whole.push(byte);
            rest = after;
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_leader_comes_first_whatever_its_number() {
        let order = leader_first(Pid(30397), vec![4309, 8839, 30397, 30399]);
        assert_eq!(order, [30397, 4309, 8839, 30399].map(Tid));
        assert_eq!(leader_first(Pid(1), vec![]), []);
    }

    #[test]
    fn a_name_may_hold_parentheses_blanks_and_any_byte() {
        let stat = b"7 (a) (b \xff) S 3 7 7 0 -1 4194304 1 2\n";
        let task = parse_stat(Pid(7), Tid(8), stat).unwrap();
        assert_eq!(task.comm, b"a) (b \xff");
        assert_eq!((task.ppid, task.is_kernel_thread, task.is_zombie), (Pid(3), false, false));
    }

    #[test]
    fn kernel_threads_and_zombies_are_told_apart() {
        let kernel = parse_stat(Pid(2), Tid(2), b"2 (kthreadd) S 0 0 0 0 -1 2129984 0").unwrap();
        assert!(kernel.is_kernel_thread && !kernel.is_zombie);
        let dead = parse_stat(Pid(2), Tid(2), b"2 (x) Z 1 0 0 0 -1 4228172 0").unwrap();
        assert!(!dead.is_kernel_thread && dead.is_zombie);
        assert_eq!(parse_stat(Pid(2), Tid(2), b"2 (x) Z"), None);
    }

    #[test]
    fn a_thread_is_its_effective_users() {
        let status = "Name:\tx\nState:\tS (sleeping)\nUid:\t1000\t33\t34\t35\n";
        assert_eq!(acts_for(status), Some(UserId(33)));
        assert!(!is_dead(status) && is_dead("State:\tZ (zombie)\n"));
        assert_eq!(acts_for("Name:\tx\n"), None);
    }

    #[track_caller]
    fn check(line: &str, prot: u32, flags: u32, path: &[u8]) -> Mapping {
        let mapping = parse_mapping(line.as_bytes()).unwrap();
        assert_eq!((mapping.prot, mapping.flags, &*mapping.path), (prot, flags, path));
        mapping
    }

    #[test]
    fn a_line_of_maps_is_a_mapping() {
        let line = "55d06ca2f000-55d06caf0000 r-xp 0002f000 fe:00 393276                     /usr/bin/bash";
        let mapping = check(line, PROT_READ | PROT_EXEC, MAP_PRIVATE, b"/usr/bin/bash");
        assert_eq!((mapping.start, mapping.end), (Addr(0x55d0_6ca2_f000), Addr(0x55d0_6caf_0000)));
        assert_eq!((mapping.offset, mapping.device, mapping.inode), (0x2f000, (0xfe, 0), 393_276));
        assert!(mapping.is_executable());
    }

    #[test]
    fn a_path_keeps_its_blanks_and_gets_its_newlines_back() {
        let prefix = "1000-2000 rw-s 00000000 00:01 9 ";
        check(&format!("{prefix}  /a b\\012c (deleted)"), 3, MAP_SHARED, b"/a b\nc (deleted)");
        check("1000-2000 ---p 00000000 00:00 0 ", 0, MAP_PRIVATE, b"");
        check("1000-2000 --xp 00000000 00:00 0", 4, MAP_PRIVATE, b"");
    }

    #[test]
    fn what_is_no_mapping_is_none() {
        for line in ["", "x", "1000-2000", "1000-zz r-xp 0 00:00 0", "1-2 r-xp 0 0 0"] {
            assert_eq!(parse_mapping(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn this_process_is_there_with_its_own_build_id_or_none() {
        let pid = Pid(std::process::id().cast_signed());
        assert!(all().contains(&pid));
        assert!(threads(pid).contains(&Tid(pid.0)));
        assert_eq!(process_of(Tid(pid.0)), Some(pid));
        let links = namespaces(pid, Tid(pid.0)).unwrap();
        assert!(links.len() == 14 && links.iter().all(|it| *it != 0), "{links:x?}");
        assert_eq!(namespaces(Pid(i32::MAX), Tid(i32::MAX)), None);
        assert!(!is_hidden(pid, Tid(pid.0)) && !is_hidden(Pid(i32::MAX), Tid(i32::MAX)));
        let own = mappings(pid).into_iter().find(Mapping::is_executable).unwrap();
        let path = std::env::current_exe().unwrap();
        let mut ids = BuildIds::default();
        assert_eq!(ids.of(pid, &own), note::of_file(fs::File::open(path).unwrap()));
    }
}
