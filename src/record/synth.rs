//! The records that say how things stood before the first of the kernel's came.
//!
//! All of them carry the time 0, which a reader takes for "from the beginning". Their order is
//! perf's: ids, the kernel and its modules, whom was asked for, BPF programs, tasks.

use std::collections::HashSet;

use crate::bpf::Image;
use crate::bpf::ImageKind;
use crate::bpf::MetadataEntry;
use crate::bpf::Program;
use crate::btf::cut;
use crate::host::cgroups;
use crate::host::cgroups::Cgroup;
use crate::host::kernel::KernelText;
use crate::host::kernel::Module;
use crate::host::process;
use crate::host::process::BuildIds;
use crate::host::process::Mapping;
use crate::perfdata::AttrFlags;
use crate::perfdata::BpfEvent;
use crate::perfdata::BpfMetadata;
use crate::perfdata::Comm;
use crate::perfdata::CpuMap;
use crate::perfdata::Cursor;
use crate::perfdata::Endian;
use crate::perfdata::IdIndex;
use crate::perfdata::Ksymbol;
use crate::perfdata::MappedThread;
use crate::perfdata::Mmap2;
use crate::perfdata::MmapId;
use crate::perfdata::Record;
use crate::perfdata::RecordKind;
use crate::perfdata::SampleId;
use crate::perfdata::SampleIdLayout;
use crate::perfdata::Task;
use crate::perfdata::U64s;
use crate::perfdata::UserRecord;
use crate::perfdata::misc;
use crate::perfdata::private::Message;
use crate::perfdata::private::ProgramMetadata;
use crate::units::Addr;
use crate::units::BuildId;
use crate::units::Cpu;
use crate::units::FileOffset;
use crate::units::Nanos;
use crate::units::Pid;
use crate::units::Tid;

use super::config::Compat;
use super::config::Synthesis;
use super::mapped::Mapped;

/// The longest key of a `BPF_METADATA` entry, in bytes, without its zero.
const MAX_KEY_LEN: usize = 63;

/// The longest value of a `BPF_METADATA` entry, in bytes, without its zero.
const MAX_VALUE_LEN: usize = 255;

/// The most entries that fit in a record of less than 64 KiB, at 320 bytes each.
const MAX_ENTRIES: usize = 200;

/// Records to come, as bytes, and the trailer that those of the kernel's kinds carry.
#[derive(Debug)]
pub(super) struct Synth {
    bytes: Vec<u8>,
    trailer: Vec<u8>,
    build_ids: BuildIds,
    /// Which records of tasks are asked for beside the usual.
    kinds: AttrFlags,
    /// Of what ran before, what is told.
    told: Synthesis,
    /// What was mapped to run, each file and each process with memory of its own once.
    mapped: Vec<Mapped>,
    /// Device, inode and, of memory, process of each.
    met: HashSet<((u32, u32), u64, Pid)>,
    n_too_long: u64,
    /// The number of the next message in private records.
    next_message: u32,
}

/// What `ID_INDEX` says of one instance of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IdEntry {
    pub(super) id: u64,
    /// The number of its ring among those of its event.
    pub(super) ring_idx: u64,
    pub(super) cpu: Option<Cpu>,
    pub(super) tid: Option<Tid>,
}

impl Synth {
    /// Of records for a file whose first event has this layout: that is the one that a reader
    /// takes for a record with no id.
    ///
    /// `next_message` is the number of the first message, since numbers are distinct in a recording.
    /// `kinds` are the records of tasks that are asked for beside the usual, `told` is what is told
    /// of what ran before.
    pub(super) fn new(
        layout: SampleIdLayout,
        next_message: u32,
        kinds: AttrFlags,
        told: Synthesis,
    ) -> Self {
        let mut trailer = Vec::new();
        layout.encode(&SampleId::default(), &mut trailer);
        let build_ids = BuildIds::default();
        let (bytes, mapped, met) = (Vec::new(), Vec::new(), HashSet::new());
        let n_too_long = 0;
        Self { bytes, trailer, build_ids, kinds, told, mapped, met, n_too_long, next_message }
    }

    /// The number of the next message.
    pub(super) fn next_message(&self) -> u32 {
        self.next_message
    }

    /// What those had mapped to run that were described since the last time.
    pub(super) fn take_mapped(&mut self) -> Vec<Mapped> {
        std::mem::take(&mut self.mapped)
    }

    /// A message of ours, in as many records as it takes.
    pub(super) fn message(&mut self, message: &Message) {
        message.encode(self.next_message, &mut self.bytes);
        self.next_message = self.next_message.wrapping_add(1);
    }

    /// The records so far, which are no longer here then.
    pub(super) fn take(&mut self) -> Vec<u8> {
        if self.n_too_long != 0 {
            tracing::debug!(n_records = self.n_too_long, "longer than a record may be");
        }
        std::mem::take(&mut self.bytes)
    }

    /// Which CPU and thread each id stands for; several records where one would be too long.
    pub(super) fn ids(&mut self, entries: &[IdEntry]) {
        for entries in entries.chunks(2000) {
            let mut words = Vec::with_capacity(entries.len() * 32);
            for it in entries {
                let tid = it.tid.map_or(u64::MAX, |tid| u64::from(tid.0.cast_unsigned()));
                let cpu = it.cpu.map_or(u64::MAX, |cpu| u64::from(cpu.0));
                words.extend([it.id, it.ring_idx, cpu, tid].iter().flat_map(|it| it.to_ne_bytes()));
            }
            let words = U64s::new(&words, Endian::NATIVE);
            let index = IdIndex { n: entries.len() as u64, words };
            self.user(RecordKind::ID_INDEX, UserRecord::IdIndex(index));
        }
    }

    /// The kernel's own text.
    pub(super) fn kernel(&mut self, text: &KernelText) {
        let name = format!("[kernel.kallsyms]{}", text.symbol);
        let len = text.end - text.start;
        self.kernel_map(text.start, len, text.start.0, text.build_id, name.as_bytes());
    }

    /// A module's text.
    pub(super) fn module(&mut self, module: &Module) {
        self.kernel_map(module.start, module.len, 0, module.build_id, module.path.as_bytes());
    }

    fn kernel_map(&mut self, addr: Addr, len: u64, pgoff: u64, id: Option<BuildId>, name: &[u8]) {
        let mmap = Mmap2 {
            pid: Pid(-1),
            tid: Tid(0),
            addr,
            len,
            pgoff,
            id: NO_INODE,
            prot: 0,
            flags: 0,
            filename: name,
        };
        self.mmap2(mmap, misc::KERNEL, id);
    }

    /// The threads that were asked for; -1 for all.
    pub(super) fn threads(&mut self, tids: &[Tid]) {
        for tids in tids.chunks(2500) {
            let threads = tids.iter().map(|tid| MappedThread { tid: *tid, comm: b"" }).collect();
            self.user(RecordKind::THREAD_MAP, UserRecord::ThreadMap(threads));
        }
    }

    /// The CPUs that were asked for.
    pub(super) fn cpus(&mut self, cpus: &[Cpu]) {
        let number = |cpu: &Cpu| u16::try_from(cpu.0).unwrap_or(u16::MAX);
        let (Some(first), Some(last)) = (cpus.first(), cpus.last()) else { return };
        let map = if cpus.len() as u64 == u64::from(last.0 - first.0) + 1 {
            CpuMap::Range { has_any: false, first: number(first), last: number(last) }
        } else {
            CpuMap::List(cpus.iter().map(number).collect())
        };
        self.user(RecordKind::CPU_MAP, UserRecord::CpuMap(map));
    }

    /// That no CPU was asked for, but threads wherever they run: -1.
    pub(super) fn no_cpu(&mut self) {
        self.user(RecordKind::CPU_MAP, UserRecord::CpuMap(CpuMap::List(vec![u16::MAX])));
    }

    /// A BPF program that was loaded before: its functions and its load.
    pub(super) fn program(&mut self, program: &Program) {
        for function in program.functions() {
            self.ksymbol(Ksymbol::TYPE_BPF, function.addr, function.len, &function.name);
        }
        let (kind, flags, id, tag) = (BpfEvent::PROG_LOAD, 0, program.id(), program.tag());
        let event = BpfEvent { kind, flags, id, tag };
        self.kernel_kind(RecordKind::BPF_EVENT, 0, &Record::BpfEvent(event));
    }

    /// What the owner of a program says of it: for perf once for each of its functions, cut to what
    /// its records hold; and whole, in a record of ours, which old versions of perf pass over.
    pub(super) fn metadata(&mut self, program: &Program, compat: Compat) {
        if program.metadata().is_empty() {
            return;
        }
        if compat != Compat::Perf6_1 {
            for function in program.functions() {
                for entries in program.metadata().chunks(MAX_ENTRIES) {
                    self.metadata_of(function.name.as_bytes(), entries);
                }
            }
        }
        let entries = program.metadata().iter();
        self.message(&Message::Metadata(ProgramMetadata {
            id: program.id().0,
            load_time_ns: program.info().load_time_ns(),
            entries: entries.map(|it| (it.key.clone(), it.value.clone())).collect(),
        }));
    }

    fn metadata_of(&mut self, function: &[u8], entries: &[MetadataEntry]) {
        let cut = |it: &MetadataEntry| {
            let (mut key, mut value) = (it.key.clone(), it.value.clone());
            cut(&mut key, MAX_KEY_LEN);
            cut(&mut value, MAX_VALUE_LEN);
            (key, value)
        };
        let entries: Vec<_> = entries.iter().map(cut).collect();
        let entries = entries.iter().map(|(key, value)| (key.as_bytes(), value.as_bytes()));
        let body = BpfMetadata::encode_entries(function, entries);
        let mut cursor = Cursor::new(&body, FileOffset(0), Endian::NATIVE);
        let Ok(metadata) = BpfMetadata::decode(&mut cursor) else { return };
        let record = Record::User(UserRecord::BpfMetadata(metadata));
        // perf gives this one of its own records a trailer.
        self.kernel_kind(RecordKind::BPF_METADATA, 0, &record);
    }

    /// Kernel text that was made while it runs and that is no program.
    pub(super) fn image(&mut self, image: &Image) {
        let ksym_type = match image.kind {
            ImageKind::Bpf => Ksymbol::TYPE_BPF,
            ImageKind::OutOfLine => Ksymbol::TYPE_OOL,
        };
        self.ksymbol(ksym_type, image.addr, image.len, &image.name);
    }

    fn ksymbol(&mut self, ksym_type: u16, addr: Addr, len: u32, name: &str) {
        let (flags, name) = (0, name.as_bytes());
        let symbol = Ksymbol { addr, len, ksym_type, flags, name };
        self.kernel_kind(RecordKind::KSYMBOL, 0, &Record::Ksymbol(symbol));
    }

    /// A process that runs, with its threads and all that it has mapped to run.
    pub(super) fn process(&mut self, pid: Pid) {
        if !self.told.contains(Synthesis::TASKS) {
            return;
        }
        for tid in process::threads(pid) {
            self.thread(pid, tid);
        }
    }

    /// A thread that runs and, with the leader, what the process has mapped to run.
    pub(super) fn thread(&mut self, pid: Pid, tid: Tid) {
        if !self.told.contains(Synthesis::TASKS) {
            return;
        }
        let Some(task) = process::task(pid, tid) else { return };
        self.task(&task);
        if tid.0 == pid.0 && !task.is_kernel_thread {
            self.mappings(pid);
        }
    }

    /// A thread alone: its FORK and COMM.
    fn task(&mut self, task: &process::Task) {
        let &process::Task { pid, tid, ppid, ref comm, .. } = task;
        let is_leader = pid.0 == tid.0;
        let (ppid, ptid) = if is_leader { (ppid, Tid(ppid.0)) } else { (pid, Tid(pid.0)) };
        let fork = Task { pid, ppid, tid, ptid, time: Nanos(0) };
        self.kernel_kind(RecordKind::FORK, misc::FORK_EXEC, &Record::Fork(fork));
        self.namespaces(pid, tid);
        self.comm(pid, tid, comm);
    }

    /// What a thread is called.
    pub(super) fn comm(&mut self, pid: Pid, tid: Tid, comm: &[u8]) {
        self.kernel_kind(RecordKind::COMM, 0, &Record::Comm(Comm { pid, tid, comm }));
    }

    /// The namespaces of a thread, if these are recorded.
    pub(super) fn namespaces(&mut self, pid: Pid, tid: Tid) {
        if !self.kinds.contains(AttrFlags::NAMESPACES) {
            return;
        }
        let Some(links) = process::namespaces(pid, tid) else { return };
        let links: Vec<u8> = links.iter().flat_map(|it| it.to_ne_bytes()).collect();
        let links = U64s::new(&links, Endian::NATIVE);
        self.kernel_kind(RecordKind::NAMESPACES, 0, &Record::Namespaces { pid, tid, links });
    }

    /// Cgroups, if these are recorded.
    pub(super) fn cgroups(&mut self) {
        if !self.kinds.contains(AttrFlags::CGROUP) || !self.told.contains(Synthesis::CGROUPS) {
            return;
        }
        for Cgroup { id, path } in cgroups::all() {
            self.kernel_kind(RecordKind::CGROUP, 0, &Record::Cgroup { id, path: &path });
        }
    }

    /// What a process has mapped to run and, if that is recorded, to read.
    pub(super) fn mappings(&mut self, pid: Pid) {
        if !self.told.contains(Synthesis::TASKS | Synthesis::MAPPINGS) {
            return;
        }
        let has_data = self.kinds.contains(AttrFlags::MMAP_DATA);
        let is_told = |it: &&Mapping| it.is_executable() || has_data && it.is_readable();
        for mapping in process::mappings(pid).iter().filter(is_told) {
            let id = self.build_ids.of(pid, mapping);
            self.mapping(pid, mapping, id);
            // Memory without a file is of one process.
            let of = if mapping.inode == 0 { pid } else { Pid(0) };
            if mapping.is_executable() && self.met.insert((mapping.device, mapping.inode, of)) {
                self.mapped.push(Mapped { pid, mapping: mapping.clone(), generation: 0 });
            }
        }
    }

    fn mapping(&mut self, pid: Pid, mapping: &Mapping, id: Option<BuildId>) {
        let &Mapping { start, end, offset, prot, flags, device: (maj, min), inode, .. } = mapping;
        // The kernel's own records call it so.
        let filename = if mapping.path.is_empty() { b"//anon" } else { &*mapping.path };
        let mmap = Mmap2 {
            pid,
            tid: Tid(pid.0),
            addr: start,
            len: end - start,
            pgoff: offset,
            id: MmapId::Inode { maj, min, ino: inode, ino_generation: 0 },
            prot,
            flags,
            filename,
        };
        let is_data = if mapping.is_executable() { 0 } else { misc::MMAP_DATA };
        self.mmap2(mmap, misc::USER | is_data, id);
    }

    /// All that describes the state before the start has been said.
    pub(super) fn finished(&mut self) {
        self.user(RecordKind::FINISHED_INIT, UserRecord::FinishedInit);
    }

    /// How many samples of the event `id` the kernel had no room for, or with `bits`,
    /// [`misc::LOST_SAMPLES_BPF`], a filter dropped.
    pub(super) fn lost_samples(&mut self, lost: u64, layout: SampleIdLayout, id: u64, bits: u16) {
        let mut trailer = Vec::new();
        layout.encode(&SampleId { id: Some(id), ..SampleId::default() }, &mut trailer);
        let record = Record::LostSamples { lost };
        let done = record.encode(RecordKind::LOST_SAMPLES, bits, &trailer, &mut self.bytes);
        self.n_too_long += u64::from(done.is_err());
    }

    fn mmap2(&mut self, mut mmap: Mmap2<'_>, mode: u16, id: Option<BuildId>) {
        let mut bits = mode;
        if id.is_some() {
            mmap.id = MmapId::BuildId(id);
            bits |= misc::MMAP_BUILD_ID;
        }
        self.kernel_kind(RecordKind::MMAP2, bits, &Record::Mmap2(mmap));
    }

    fn kernel_kind(&mut self, kind: RecordKind, misc: u16, record: &Record<'_>) {
        let done = record.encode(kind, misc, &self.trailer, &mut self.bytes);
        self.n_too_long += u64::from(done.is_err());
    }

    fn user(&mut self, kind: RecordKind, record: UserRecord<'_>) {
        let done = Record::User(record).encode(kind, 0, &[], &mut self.bytes);
        self.n_too_long += u64::from(done.is_err());
    }
}

const NO_INODE: MmapId = MmapId::Inode { maj: 0, min: 0, ino: 0, ino_generation: 0 };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perfdata::Attr;
    use crate::perfdata::RecordHeader;
    use crate::perfdata::SampleType;

    fn synth() -> Synth {
        let flags = AttrFlags::SAMPLE_ID_ALL;
        let sample_type = SampleType::TID | SampleType::IDENTIFIER;
        Synth::new(
            SampleIdLayout::new(&Attr { sample_type, flags, ..Attr::default() }),
            0,
            AttrFlags::empty(),
            Synthesis::all(),
        )
    }

    /// Kind, misc and decoded body of each record.
    #[track_caller]
    fn check(synth: &mut Synth, want: &[(RecordKind, u16, Record<'_>)]) {
        let bytes = synth.take();
        let mut rest = &bytes[..];
        let mut got = Vec::new();
        while !rest.is_empty() {
            let mut cursor = Cursor::new(rest, FileOffset(0), Endian::NATIVE);
            let header = RecordHeader::decode(&mut cursor).unwrap();
            let (record, after) = rest.split_at(usize::from(header.size));
            let trailer = if header.kind.is_kernel() { 16 } else { 0 };
            let body = &record[8..record.len() - trailer];
            assert!(record[record.len() - trailer..].iter().all(|&it| it == 0));
            let mut cursor = Cursor::new(body, FileOffset(8), Endian::NATIVE);
            got.push((header.kind, header.misc, Record::decode(header, &mut cursor).unwrap()));
            rest = after;
        }
        assert_eq!(got, want);
    }

    #[test]
    fn the_kernel_is_mapped_at_its_own_address() {
        let mut synth = synth();
        let build_id = BuildId::new(&[1; 20]);
        let (start, end) = (Addr(0xffff_ffff_8100_0000), Addr(0xffff_ffff_8200_0000));
        synth.kernel(&KernelText { symbol: "_text".to_owned(), start, end, build_id });
        let mmap = Mmap2 {
            pid: Pid(-1),
            tid: Tid(0),
            addr: start,
            len: 0x100_0000,
            pgoff: start.0,
            id: MmapId::BuildId(build_id),
            prot: 0,
            flags: 0,
            filename: b"[kernel.kallsyms]_text",
        };
        let want = (RecordKind::MMAP2, misc::KERNEL | misc::MMAP_BUILD_ID, Record::Mmap2(mmap));
        check(&mut synth, &[want]);
    }

    #[test]
    fn a_thread_forks_from_its_leader_and_a_leader_from_its_parent() {
        let task = |tid| process::Task {
            pid: Pid(7),
            tid: Tid(tid),
            ppid: Pid(3),
            comm: b"a b".to_vec(),
            is_kernel_thread: false,
            is_zombie: false,
        };
        let fork = |tid, ppid| {
            let (pid, tid, ptid, time) = (Pid(7), Tid(tid), Tid(ppid), Nanos(0));
            let fork = Task { pid, ppid: Pid(ppid), tid, ptid, time };
            (RecordKind::FORK, misc::FORK_EXEC, Record::Fork(fork))
        };
        let comm = |tid| {
            let comm = Comm { pid: Pid(7), tid: Tid(tid), comm: b"a b" };
            (RecordKind::COMM, 0, Record::Comm(comm))
        };
        let mut synth = synth();
        synth.task(&task(7));
        synth.task(&task(8));
        check(&mut synth, &[fork(7, 3), comm(7), fork(8, 7), comm(8)]);
    }

    #[test]
    fn anonymous_code_has_the_kernels_name_for_it() {
        let mut synth = synth();
        let mapping = Mapping {
            start: Addr(0x1000),
            end: Addr(0x3000),
            offset: 0,
            prot: 5,
            flags: 2,
            device: (0, 0),
            inode: 0,
            path: Vec::new(),
        };
        synth.mapping(Pid(7), &mapping, None);
        let mmap = Mmap2 {
            pid: Pid(7),
            tid: Tid(7),
            addr: Addr(0x1000),
            len: 0x2000,
            pgoff: 0,
            id: NO_INODE,
            prot: 5,
            flags: 2,
            filename: b"//anon",
        };
        check(&mut synth, &[(RecordKind::MMAP2, misc::USER, Record::Mmap2(mmap))]);
    }

    #[test]
    fn cpus_are_a_range_where_they_are_one() {
        let mut synth = synth();
        let user = |map| (RecordKind::CPU_MAP, 0, Record::User(UserRecord::CpuMap(map)));
        synth.cpus(&[Cpu(0), Cpu(1)]);
        check(&mut synth, &[user(CpuMap::Range { has_any: false, first: 0, last: 1 })]);
        synth.cpus(&[Cpu(0), Cpu(3)]);
        check(&mut synth, &[user(CpuMap::List(vec![0, 3]))]);
    }

    #[test]
    fn an_index_too_long_for_a_record_is_several() {
        let entry = IdEntry { id: 5, ring_idx: 1, cpu: Some(Cpu(1)), tid: None };
        let mut synth = synth();
        synth.ids(&vec![entry; 2001]);
        let last = 8 + 8 + 32;
        assert_eq!(synth.take().len(), 8 + 8 + 2000 * 32 + last);
        assert_eq!(synth.n_too_long, 0);
    }
}
