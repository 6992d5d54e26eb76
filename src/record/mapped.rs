//! Taking hold of the files that processes map to run, before the processes are gone.
//!
//! ```text
//!   maps, watermark of one record   into a small ring of each CPU   -> a thread: opens each file that
//!   of whoever is recorded                                             it has not met, through its process
//!   what ran before                 from the walk over /proc        -> `saving`: which of them nobody
//!                                                                      could find later
//! ```
//!
//! A process in a container may live for milliseconds, and its files are out of reach with it; the
//! recorder's rings are drained only when they have filled. So this has events and rings of its own,
//! which are read at once and never written. Where they are refused, what ran before is all that is
//! looked at.

use std::collections::HashMap;
use std::collections::HashSet;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::PollTimeout;
use nix::poll::poll;
use nix::sys::eventfd::EventFd as Doorbell;
use nix::sys::signal::SigSet;

use crate::events;
use crate::host::mapped;
use crate::host::process::Mapping;
use crate::perfdata::Attr;
use crate::perfdata::AttrFlags;
use crate::perfdata::Cursor;
use crate::perfdata::Endian;
use crate::perfdata::MmapId;
use crate::perfdata::Record;
use crate::perfdata::RecordHeader;
use crate::perfdata::misc;
use crate::perfdata::private::Inode;
use crate::sys::perf_event::EventFd;
use crate::sys::perf_event::Target;
use crate::sys::ring::Ring;
use crate::sys::ring::page_len;
use crate::sys::thread;
use crate::units::Addr;
use crate::units::Cpu;
use crate::units::FileOffset;
use crate::units::Pid;

use super::config::Inherit;
use super::plan::Request;
use super::plan::Watch;
use super::rings;
use super::saving::Found;

/// Size of a ring in pages: some hundred records, of which each wakes the reader.
const RING_PAGES: usize = 8;

/// The most events of tasks: one for each CPU and task that is watched. Of more tasks what they have
/// mapped before is looked at.
const MOST_EVENTS: usize = 1024;

/// How long the thread rests after records that told nothing new: a machine that starts thousands of
/// programs a second maps the same few files again and again.
const NAP: Duration = Duration::from_micros(200);

/// The most files that are remembered; then all are forgotten, and met anew.
pub(super) const MOST_MET: usize = 1 << 16;

/// Memory that a process has mapped to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapped {
    pub(super) pid: Pid,
    pub(super) mapping: Mapping,
    /// Which of the files that had this inode; 0 where that is not known.
    pub(super) generation: u64,
}

/// What is behind a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behind {
    /// A file.
    File,
    /// Nothing but memory, so that the process made the code itself.
    Memory,
    /// Something of the kernel's.
    Kernel,
}

/// Which mappings were met before.
#[derive(Debug, Default)]
pub(super) struct Met {
    files: HashSet<Inode>,
    /// Processes with code of their own, with the mount namespace that they were in.
    makers: HashMap<Pid, u64>,
}

impl Mapped {
    /// What the file is known by.
    pub(super) fn inode(&self) -> Inode {
        let Mapping { device: (maj, min), inode: ino, .. } = self.mapping;
        Inode { maj, min, ino, generation: self.generation }
    }

    /// Source: `perf_event_mmap_event()` in `kernel/events/core.c`, and `proc_pid_maps(5)`.
    fn behind(&self) -> Behind {
        let path = &*self.mapping.path;
        let starts = |start: &str| path.starts_with(start.as_bytes());
        if path.is_empty()
            || starts("//anon")
            || starts("[heap]")
            || starts("[anon")
            || starts("/dev/zero")
            || starts("/anon_hugepage")
            || starts("/SYSV")
        {
            Behind::Memory
        } else if starts("/") && self.mapping.inode != 0 {
            Behind::File
        } else {
            Behind::Kernel
        }
    }
}

impl Met {
    /// Takes hold of what is behind `it`, if that was not met before.
    pub(super) fn take(&mut self, it: Mapped) -> Option<Found> {
        match it.behind() {
            Behind::File => {
                if MOST_MET <= self.files.len() {
                    self.files.clear();
                }
                let inode = it.inode();
                if !self.files.insert(inode) {
                    return None;
                }
                let Some(file) = mapped::open(it.pid, &it.mapping) else {
                    // Whoever mapped it is gone; the next one that does may not be.
                    self.files.remove(&inode);
                    return Some(Found::Gone(it));
                };
                let root = mapped::Root::of(it.pid);
                Some(Found::File(it, file, root))
            }
            Behind::Memory => {
                let namespace = fs::metadata(format!("/proc/{}/ns/mnt", it.pid)).ok()?.ino();
                if MOST_MET <= self.makers.len() {
                    self.makers.clear();
                }
                let is_new = self.makers.insert(it.pid, namespace) != Some(namespace);
                is_new
                    .then(|| mapped::Sight::of(it.pid).map(|sight| Found::Maker(it.pid, sight)))?
            }
            Behind::Kernel => None,
        }
    }
}

/// What the thread listens to.
#[derive(Debug, Default)]
pub(super) struct Listener {
    rings: Vec<CpuRing>,
}

/// A CPU's ring, and the events that write there, the one to poll last.
#[derive(Debug)]
struct CpuRing {
    ring: Ring,
    events: Vec<EventFd>,
}

/// Whom to listen to, a ring each.
fn targets(request: &Request, most: usize) -> Vec<Vec<Target>> {
    match &request.watch {
        Watch::Cpus(cpus) => cpus.iter().map(|&cpu| vec![Target::Cpu(cpu)]).collect(),
        Watch::Threads(tids) => {
            if most.min(MOST_EVENTS) < tids.len().saturating_mul(request.online.len()) {
                return Vec::new();
            }
            let on = |cpu: Cpu| tids.iter().map(move |&tid| Target::TaskOnCpu(tid, cpu)).collect();
            request.online.iter().map(|&cpu| on(cpu)).collect()
        }
    }
}

/// The attribute of the events.
fn attr(inherit: Inherit) -> Attr {
    let kinds = AttrFlags::MMAP | AttrFlags::MMAP2 | AttrFlags::WATERMARK;
    let mut flags = kinds | AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
    flags.set(AttrFlags::INHERIT, inherit == Inherit::Yes);
    let (kind, config) = (events::KIND_SOFTWARE, events::SOFTWARE_DUMMY);
    Attr { kind, config, flags, wakeup: 1, ..Attr::default() }
}

impl Listener {
    /// Begins to be told of what those map whom `request` watches, by `most` events of tasks at the most; what
    /// is refused is left out.
    pub(super) fn open(request: &Request, most: usize) -> Self {
        let is_of_tasks = matches!(request.watch, Watch::Threads(_));
        let inherit = if is_of_tasks { request.inherit } else { Inherit::No };
        let mut encoded = Vec::new();
        attr(inherit).encode(Attr::SIZE_VER0, &mut encoded);
        let mut rings = Vec::new();
        for targets in targets(request, most) {
            let open = |&target: &Target| EventFd::open(&encoded, target).ok();
            let mut events: Vec<EventFd> = targets.iter().filter_map(open).collect();
            let Some(owner) = events.pop() else { continue };
            match Ring::map(&owner, RING_PAGES * page_len()) {
                Ok(ring) => {
                    events.retain(|it| it.set_output(&owner).is_ok());
                    events.push(owner);
                    rings.push(CpuRing { ring, events });
                }
                Err(refused) => {
                    tracing::debug!(%refused, cpu = ?targets.first().copied().map(rings::cpu_of), "mapped files");
                }
            }
        }
        Self { rings }
    }

    /// Takes hold of what is mapped until the doorbell rings, nobody is left, or `out` takes no more.
    pub(super) fn run(mut self, stop: &Doorbell, out: &mut dyn FnMut(Found) -> bool) {
        // Signals are for the thread that decides what they mean.
        if let Err(errno) = SigSet::all().thread_block() {
            tracing::debug!(%errno, "mapped files");
        }
        if let Err(refused) =
            thread::run_first(thread::Urgency::Asking).or_else(|_| thread::prefer())
        {
            tracing::debug!(%refused, "mapped files");
        }
        let mut met = Met::default();
        let mut records = Vec::new();
        while !self.rings.is_empty() {
            let is_last = self.wait(stop).unwrap_or_else(|errno| {
                tracing::debug!(%errno, "wait for mappings");
                true
            });
            let mut is_new = false;
            for CpuRing { ring, .. } in &mut self.rings {
                let (before_the_end, after_the_wrap) = ring.unread();
                records.clear();
                records.extend_from_slice(before_the_end);
                records.extend_from_slice(after_the_wrap);
                ring.consume(records.len());
                let (all, n_lost) = all_mapped(&records);
                if n_lost != 0 && !out(Found::Lost(n_lost)) {
                    return;
                }
                for mapped in all {
                    if let Some(found) = met.take(mapped) {
                        is_new = true;
                        if !out(found) {
                            return;
                        }
                    }
                }
            }
            if is_last {
                return;
            }
            self.rings.retain(|it| !it.events.is_empty());
            if !is_new {
                std::thread::sleep(NAP);
            }
        }
    }

    /// Waits for records; whether they are the last.
    fn wait(&mut self, stop: &Doorbell) -> Result<bool, Errno> {
        let poll_in = PollFlags::POLLIN;
        let bell = [PollFd::new(stop.as_fd(), poll_in)];
        let polled = self.rings.iter().filter_map(|it| it.events.last());
        let polled = polled.map(|it| PollFd::new(it.as_fd(), poll_in));
        let mut fds: Vec<_> = bell.into_iter().chain(polled).collect();
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) => {}
            Err(Errno::EINTR | Errno::EAGAIN) => return Ok(false),
            Err(errno) => return Err(errno),
        }
        let mut came = fds.iter().map(|it| it.revents().unwrap_or(PollFlags::empty()));
        let is_last = came.next().is_some_and(|it| !it.is_empty());
        let ends = PollFlags::POLLHUP | PollFlags::POLLERR;
        let has_ended: Vec<bool> = came.map(|it| it.intersects(ends)).collect();
        for (ring, has_ended) in self.rings.iter_mut().zip(has_ended) {
            if has_ended {
                // The task is gone; others of the ring may be there.
                ring.events.pop();
            }
        }
        Ok(is_last)
    }
}

/// What the records of a ring tell of memory that code runs in, and how many found no room there.
fn all_mapped(mut records: &[u8]) -> (Vec<Mapped>, u64) {
    let mut all = Vec::new();
    let mut n_lost = 0_u64;
    loop {
        let mut cursor = Cursor::new(records, FileOffset(0), Endian::NATIVE);
        let Ok(mut header) = RecordHeader::decode(&mut cursor) else {
            return (all, n_lost);
        };
        // No build ids were asked for. The kernel says so of another event's record and lets it stand:
        // `perf_event_mmap_output()` in `kernel/events/core.c`.
        header.misc &= !misc::MMAP_BUILD_ID;
        let body_len = usize::from(header.size).checked_sub(usize::from(RecordHeader::SIZE));
        let Some(Ok(body)) = body_len.map(|len| cursor.bytes(len, "record")) else {
            return (all, n_lost);
        };
        records = cursor.rest();
        let mut body = Cursor::new(body, FileOffset(0), Endian::NATIVE);
        let mmap = match Record::decode(header, &mut body) {
            Ok(Record::Mmap2(mmap)) => mmap,
            Ok(Record::Lost { lost, .. }) => {
                n_lost = n_lost.saturating_add(lost);
                continue;
            }
            _ => continue,
        };
        let MmapId::Inode { maj, min, ino, ino_generation: generation } = mmap.id else { continue };
        let mapping = Mapping {
            start: mmap.addr,
            end: Addr(mmap.addr.0.saturating_add(mmap.len)),
            offset: mmap.pgoff,
            prot: mmap.prot,
            flags: mmap.flags,
            device: (maj, min),
            inode: ino,
            path: mmap.filename.to_vec(),
        };
        if mapping.is_executable() {
            all.push(Mapped { pid: mmap.pid, mapping, generation });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perfdata::Mmap2;
    use crate::perfdata::RecordKind;
    use crate::units::Tid;

    const PROT_EXEC: u32 = 4;

    /// With the mark of a build id that belongs to another event's record.
    fn record(path: &str, ino: u64, prot: u32) -> Vec<u8> {
        let id = MmapId::Inode { maj: 8, min: 1, ino, ino_generation: 3 };
        let mmap = Mmap2 {
            pid: Pid(7),
            tid: Tid(8),
            addr: Addr(0x1000),
            len: 0x2000,
            pgoff: 0,
            id,
            prot,
            flags: 2,
            filename: path.as_bytes(),
        };
        let mut bytes = Vec::new();
        let marks = misc::USER | misc::MMAP_BUILD_ID;
        Record::Mmap2(mmap).encode(RecordKind::MMAP2, misc::USER, &[], &mut bytes).unwrap();
        bytes[4..6].copy_from_slice(&marks.to_ne_bytes());
        bytes
    }

    #[test]
    fn what_code_runs_in_is_told_and_nothing_else() {
        let other = [99, 0, 0, 0, 0, 0, 8, 0];
        let mut lost = Vec::new();
        let record_of = Record::Lost { id: 1, lost: 4 };
        record_of.encode(RecordKind::LOST, 0, &[], &mut lost).unwrap();
        let all = [record("/a", 5, PROT_EXEC), other.to_vec(), lost, record("/b", 6, 1)].concat();
        let cut = [&all[..], &record("/c", 9, PROT_EXEC)[..20]].concat();
        for records in [all, cut] {
            let (told, n_lost) = all_mapped(&records);
            assert_eq!(n_lost, 4);
            let [Mapped { pid, mapping, .. }] = &told[..] else { panic!("{told:?}") };
            assert_eq!((*pid, &*mapping.path, mapping.inode), (Pid(7), &b"/a"[..], 5));
            assert_eq!((mapping.start, mapping.end), (Addr(0x1000), Addr(0x3000)));
            assert_eq!(told[0].inode(), Inode { maj: 8, min: 1, ino: 5, generation: 3 });
        }
        assert_eq!(all_mapped(&[]), (Vec::new(), 0));
    }

    #[test]
    fn files_memory_and_what_is_the_kernels_are_told_apart() {
        let behind = |path: &str, ino| all_mapped(&record(path, ino, PROT_EXEC)).0[0].behind();
        for path in ["/bin/sh", "/memfd:x (deleted)", "/tmp/x (deleted)"] {
            assert_eq!(behind(path, 5), Behind::File, "{path}");
        }
        for path in ["//anon", "", "[heap]", "[anon:v8]", "/dev/zero (deleted)", "/anon_hugepage"] {
            assert_eq!(behind(path, 0), Behind::Memory, "{path}");
        }
        for path in ["[vdso]", "[uprobes]", "[stack]", "/x"] {
            assert_eq!(behind(path, 0), Behind::Kernel, "{path}");
        }
    }

    #[test]
    fn each_file_is_opened_once() {
        let pid = Pid(std::process::id().cast_signed());
        let all = crate::host::process::mappings(pid);
        let mapping = all.into_iter().find(|it| it.is_executable() && it.inode != 0).unwrap();
        let own = Mapped { pid, mapping, generation: 0 };
        let mut met = Met::default();
        assert!(matches!(met.take(own.clone()), Some(Found::File(_, _, Some(_)))));
        assert!(met.take(own).is_none());
        let gone =
            Mapped { pid: Pid(i32::MAX), ..all_mapped(&record("//anon", 0, 4)).0[0].clone() };
        assert!(met.take(gone).is_none());
    }
}
