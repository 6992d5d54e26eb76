//! The pass over the records of a recording.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use rustc_hash::FxHashSet;

use crate::perfdata::AttrFlags;
use crate::perfdata::BpfEvent;
use crate::perfdata::BuildIdEntry;
use crate::perfdata::Cursor;
use crate::perfdata::MmapId;
use crate::perfdata::RawRecord;
use crate::perfdata::ReadAt;
use crate::perfdata::Record;
use crate::perfdata::RecordKind;
use crate::perfdata::RecordWalk;
use crate::perfdata::SampleId;
use crate::perfdata::SampleType;
use crate::perfdata::Section;
use crate::perfdata::UserRecord;
use crate::perfdata::feature::Feature;
use crate::perfdata::feature::FeatureId;
use crate::perfdata::misc;
use crate::perfdata::private::Assembler;
use crate::replay::Anomalies;
use crate::replay::Deferred;
use crate::replay::Error;
use crate::replay::Recording;
use crate::replay::deferred;
use crate::replay::programs::Notes;
use crate::replay::provenance::Provenance;
use crate::replay::provenance::WallClock;
use crate::replay::readings;
use crate::replay::readings::Readings;
use crate::replay::resolved::CommId;
use crate::replay::spans::Moment;
use crate::replay::timeline::Fact;
use crate::replay::timeline::FileId;
use crate::replay::timeline::KernelSymbol;
use crate::replay::timeline::MappedFile;
use crate::replay::timeline::Mapping;
use crate::replay::timeline::Timeline;
use crate::symbols::Inode;
use crate::symbols::Mapper;
use crate::symbols::is_injected;
use crate::units::Addr;
use crate::units::BuildId;
use crate::units::FileOffset;
use crate::units::Nanos;
use crate::units::Pid;
use crate::units::Tid;

use super::Entry;
use super::Index;
use super::Wanted;
use super::is_anonymous;

/// The length of a chunk in bytes: enough to be worth handing to a thread.
const CHUNK: u64 = 4 << 20;

/// `PROT_EXEC`.
const PROT_EXEC: u32 = 4;
/// `MAP_HUGETLB`.
const MAP_HUGETLB: u32 = 0x4_0000;

/// What is known so far.
#[expect(clippy::struct_excessive_bools, reason = "each holds for the whole pass")]
pub(super) struct Pass<'r> {
    pub(super) recording: &'r Recording,
    wanted: &'r Wanted,
    wants_samples: bool,
    /// Whether any event's records carry a time.
    has_times: bool,
    seen_sample: bool,
    /// The latest time met.
    max_time: Nanos,
    /// The time up to which the next round's end shows everything.
    next_flush: Nanos,
    /// The time up to which everything has been shown.
    flushed: Nanos,
    pub(super) facts: Vec<(Moment, Fact)>,
    /// Where each record stands that came too late without a time, and what it says.
    pub(super) late: Vec<(u64, Fact)>,
    pub(super) private: Assembler,
    pub(super) values: readings::Collector,
    pub(super) chains: deferred::Collector,
    /// Whether parts of call chains may come later.
    has_late_chains: bool,
    comm_ids: FxHashMap<Vec<u8>, CommId>,
    /// The files of each path, build id and inode, which may be of several generations.
    file_ids: FxHashMap<MappedFile, Vec<FileId>>,
    /// The paths of which several build ids were told, or several inodes.
    pub(super) ambiguous: FxHashSet<Vec<u8>>,
    pub(super) index: Index,
}

impl<'r> Pass<'r> {
    /// Before the first record of `recording`.
    pub(super) fn new(recording: &'r Recording, wanted: &'r Wanted) -> Self {
        let n_events = recording.events.len();
        let mut pass = Self {
            recording,
            wants_samples: wanted.has(RecordKind::SAMPLE),
            wanted,
            has_times: recording
                .events
                .iter()
                .any(|it| it.attr.sample_type.contains(SampleType::TIME)),
            seen_sample: false,
            max_time: Nanos(0),
            next_flush: Nanos(0),
            flushed: Nanos(0),
            facts: Vec::new(),
            late: Vec::new(),
            private: Assembler::default(),
            values: readings::Collector::default(),
            chains: deferred::Collector::default(),
            has_late_chains: recording.events.iter().any(|it| {
                it.attr.flags.intersects(AttrFlags::DEFER_CALLCHAIN | AttrFlags::DEFER_OUTPUT)
            }),
            comm_ids: FxHashMap::default(),
            file_ids: FxHashMap::default(),
            ambiguous: FxHashSet::default(),
            index: Index {
                chunks: Vec::new(),
                n_samples: vec![0; n_events],
                n_lost: vec![0; n_events],
                entries: Vec::new(),
                timeline: Timeline::default(),
                comms: Vec::new(),
                files: Vec::new(),
                mappers: Vec::new(),
                mapped: Vec::new(),
                jit_codes: Vec::new(),
                jit_made: Vec::new(),
                unnamed_jit: BTreeMap::new(),
                build_ids: FxHashMap::default(),
                kernel: None,
                release: None,
                provenance: Provenance::default(),
                wall_clock: WallClock::default(),
                cgroups: FxHashMap::default(),
                bpf: Notes::default(),
                readings: Readings::default(),
                deferred: Deferred::default(),
                anomalies: Anomalies::default(),
            },
        };
        if let Some(Feature::BuildIds(entries)) = recording.feature(FeatureId::BUILD_ID) {
            let known = entries.iter().filter_map(|it| Some((it.name.as_bytes(), it.build_id?)));
            known.for_each(|(name, id)| pass.build_id(name, id));
        }
        if let Some(Feature::OsRelease(release)) = recording.feature(FeatureId::OSRELEASE) {
            pass.index.release = Some(release.as_bytes().to_vec());
        }
        pass
    }

    /// Goes over all records.
    pub(super) fn run(&mut self, input: &dyn ReadAt) -> Result<(), Error> {
        self.index.anomalies.missing_bytes = self.recording.missing_bytes;
        self.recording.data.iter().try_for_each(|section| self.section(*section, input))
    }

    fn section(&mut self, data: Section, input: &dyn ReadAt) -> Result<(), Error> {
        let mut walk = RecordWalk::new(input, data, self.recording.header.endian());
        let mut chunk = data.offset;
        while let Some(raw) = walk.next()? {
            let end = raw.payload.end().min(data.end());
            self.record(raw);
            if end - chunk >= CHUNK {
                self.index.chunks.push(Section { offset: chunk, size: end - chunk });
                chunk = end;
            }
        }
        let end = walk.position().0.min(data.end());
        if end > chunk {
            self.index.chunks.push(Section { offset: chunk, size: end - chunk });
        }
        let anomalies = &mut self.index.anomalies;
        anomalies.cut_bytes = anomalies.cut_bytes.saturating_add(walk.cut_bytes());
        // Of a pipe, and of a file whose recorder was killed, nothing says where it should end.
        if data.size != u64::MAX {
            let reached = end.saturating_add(walk.cut_bytes());
            let missing = data.end().saturating_sub(reached);
            anomalies.missing_bytes = anomalies.missing_bytes.saturating_add(missing);
        }
        Ok(())
    }

    fn record(&mut self, raw: RawRecord<'_>) {
        if ![RecordKind::BPF_METADATA, RecordKind::EVENT_TYPE].contains(&raw.header.kind) {
            self.index.bpf.other();
        }
        match raw.header.kind {
            RecordKind::SAMPLE => self.sample(raw),
            RecordKind::FINISHED_ROUND => {
                if self.wanted.has(raw.header.kind) {
                    self.list(raw.at, None);
                }
                self.flushed = self.next_flush;
                self.next_flush = self.max_time;
            }
            kind if kind.is_kernel() => self.kernel_record(raw),
            _ => self.user_record(raw),
        }
    }

    fn sample(&mut self, raw: RawRecord<'_>) {
        let Some(event) = self.recording.event_of_sample(raw.body) else {
            let first = self.recording.events.first();
            let is_cut = first.is_some_and(|it| !it.sample.fits(raw.body));
            let anomalies = &mut self.index.anomalies;
            let count = if is_cut { &mut anomalies.undecodable } else { &mut anomalies.orphans };
            *count += 1;
            return;
        };
        self.seen_sample = true;
        let recording = self.recording;
        let of = &recording.events[event as usize];
        if readings::holds_values(of) {
            let entry = self.entry(raw.at, of.sample.time(raw.body));
            self.values.add(entry, of, raw.body);
        } else {
            self.index.n_samples[event as usize] += 1;
        }
        if self.has_late_chains
            && let Ok(Some(chain)) = of.sample.callchain(raw.body)
            && let Some(cookie) = deferred::cookie(&chain)
        {
            let entry = self.entry(raw.at, of.sample.time(raw.body));
            let tid = of.sample.task(raw.body).map_or(Tid(-1), |it| it.1);
            self.chains.sample(entry, tid, cookie);
        }
        if self.wants_samples {
            self.list(raw.at, of.sample.time(raw.body));
        }
    }

    /// Puts a record on the list of those to be shown.
    fn list(&mut self, at: FileOffset, time: Option<Nanos>) {
        let entry = self.entry(at, time);
        self.index.entries.push(entry);
    }

    /// A record's place in the order.
    fn entry(&mut self, at: FileOffset, time: Option<Nanos>) -> Entry {
        let time = time.filter(|it| is_a_time(*it));
        self.max_time = self.max_time.max(time.unwrap_or_default());
        let order = time.unwrap_or_default().max(self.flushed);
        Entry { order, position: at.0 }
    }

    fn kernel_record(&mut self, raw: RawRecord<'_>) {
        let endian = self.recording.header.endian();
        let body = self.recording.trim(raw.header.kind, raw.body);
        let event = self.recording.event_of_record(body) as usize;
        let (own, id) = self.recording.events[event].sample_id.split(body, endian);
        let mut cursor = Cursor::new(own, FileOffset(raw.at.0.saturating_add(8)), endian);
        let Ok(record) = Record::decode(raw.header, &mut cursor) else {
            self.index.anomalies.undecodable += 1;
            if matches!(self.wanted, Wanted::All) {
                self.list(raw.at, id.time);
            }
            return;
        };
        if self.wanted.has(raw.header.kind) {
            self.list(raw.at, id.time);
        } else {
            self.max_time =
                self.max_time.max(id.time.filter(|it| is_a_time(*it)).unwrap_or_default());
        }
        match record {
            Record::Lost { lost, .. } => {
                self.index.anomalies.lost = self.index.anomalies.lost.saturating_add(lost);
            }
            // Nobody lost what a filter was to drop.
            Record::LostSamples { .. } if raw.header.misc & misc::LOST_SAMPLES_BPF != 0 => {}
            Record::LostSamples { lost } => {
                let total = &mut self.index.anomalies.lost_samples;
                *total = total.saturating_add(lost);
                self.index.n_lost[event] = self.index.n_lost[event].saturating_add(lost);
            }
            Record::CallchainDeferred { cookie, ips } => {
                let entry = self.entry(raw.at, id.time);
                let tid = id.task.map_or(Tid(-1), |it| it.1);
                self.chains.chain(entry, tid, cookie, &ips);
            }
            Record::Cgroup { id, path } => {
                self.index.cgroups.entry(id).or_insert_with(|| path.to_vec());
            }
            Record::Throttle(_) => self.index.anomalies.throttled += 1,
            Record::Unknown(_) => self.unknown(raw.header.kind),
            Record::BpfEvent(event) => {
                self.index.bpf.event(raw.at, timed(id), event);
                match event.kind {
                    BpfEvent::PROG_LOAD => self.state(Fact::Load(event.id), raw.at, id),
                    BpfEvent::PROG_UNLOAD => self.state(Fact::Unload(event.id), raw.at, id),
                    _ => {}
                }
            }
            record => {
                match &record {
                    Record::Ksymbol(it) if it.is_unregister() => {
                        self.index.bpf.unregister(raw.at, timed(id), it.addr.0);
                    }
                    Record::Ksymbol(it) if it.name.starts_with(b"bpf_prog_") => {
                        self.index.bpf.register(raw.at, timed(id));
                    }
                    _ => {}
                }
                if let Some(fact) = self.fact(&record, raw.header.misc) {
                    self.state(fact, raw.at, id);
                }
            }
        }
    }

    fn user_record(&mut self, raw: RawRecord<'_>) {
        if raw.header.kind.name().is_none() {
            self.unknown(raw.header.kind);
        }
        match raw.header.kind {
            RecordKind::COMPRESSED | RecordKind::COMPRESSED2 => {
                self.index.anomalies.compressed += 1;
            }
            RecordKind::AUXTRACE => self.index.anomalies.aux += 1,
            RecordKind::BUILD_ID => {
                let endian = self.recording.header.endian();
                let at = FileOffset(raw.at.0.saturating_add(8));
                let mut cursor = Cursor::new(raw.body, at, endian);
                match BuildIdEntry::decode(raw.header.misc, &mut cursor) {
                    Ok(BuildIdEntry { build_id: Some(id), filename, .. }) => {
                        self.build_id(filename, id);
                    }
                    _ => self.index.anomalies.undecodable += 1,
                }
            }
            RecordKind::BPF_METADATA => {
                let endian = self.recording.header.endian();
                let mut cursor = Cursor::new(raw.body, raw.at, endian);
                match Record::decode(raw.header, &mut cursor) {
                    Ok(Record::User(UserRecord::BpfMetadata(metadata))) => {
                        self.index.bpf.metadata(raw.at, &metadata);
                    }
                    _ => {
                        self.index.anomalies.undecodable += 1;
                        return;
                    }
                }
            }
            RecordKind::EVENT_TYPE => {
                let endian = self.recording.header.endian();
                let at = FileOffset(raw.at.0.saturating_add(8));
                match self.private.push(raw.body, at, endian) {
                    Ok(message) => message.into_iter().for_each(|it| self.index.bpf.message(it)),
                    Err(_) => self.index.anomalies.undecodable += 1,
                }
            }
            _ => {}
        }
        if self.wanted.has(raw.header.kind) {
            self.list(raw.at, None);
        }
    }

    fn unknown(&mut self, kind: RecordKind) {
        *self.index.anomalies.unknown.entry(kind).or_default() += 1;
    }

    /// Notes `fact` with the moment from which it holds.
    fn state(&mut self, fact: Fact, at: FileOffset, id: SampleId) {
        let position = at.0;
        let moment = match id.time.filter(|it| is_a_time(*it)) {
            Some(time) => Moment { time, position },
            None if self.has_times && self.seen_sample => {
                self.late.push((position, fact));
                return;
            }
            None => Moment { time: Nanos(0), position },
        };
        self.facts.push((moment, fact));
    }

    fn fact(&mut self, record: &Record<'_>, misc: u16) -> Option<Fact> {
        Some(match *record {
            Record::Mmap(ref mmap) => {
                let is_data = misc & misc::MMAP_DATA != 0;
                let file = MappedFile { path: mmap.filename.to_vec(), build_id: None, inode: None };
                let prot = if is_data { 0 } else { PROT_EXEC };
                self.map(misc, mmap.pid, (mmap.addr, mmap.len, mmap.pgoff), file, prot, 0)?
            }
            Record::Mmap2(ref mmap) => {
                let path = mmap.filename.to_vec();
                let file = match mmap.id {
                    MmapId::BuildId(build_id) => MappedFile { path, build_id, inode: None },
                    MmapId::Inode { ino: 0, .. } => {
                        MappedFile { path, build_id: None, inode: None }
                    }
                    MmapId::Inode { maj, min, ino, ino_generation } => {
                        // perf writes 1 whatever it is: `jit_repipe_code_load()` in
                        // `tools/perf/util/jitdump.c`.
                        let generation = if is_injected(&path) { 0 } else { ino_generation };
                        let inode = Some(Inode { maj, min, ino, generation });
                        MappedFile { path, build_id: None, inode }
                    }
                };
                let place = (mmap.addr, mmap.len, mmap.pgoff);
                self.map(misc, mmap.pid, place, file, mmap.prot, mmap.flags)?
            }
            Record::Comm(comm) => Fact::Comm {
                pid: comm.pid,
                tid: comm.tid,
                comm: self.comm(comm.comm),
                is_exec: misc & misc::COMM_EXEC != 0,
            },
            Record::Fork(task) => Fact::Fork {
                pid: task.pid,
                ppid: task.ppid,
                tid: task.tid,
                ptid: task.ptid,
                is_exec: misc & misc::FORK_EXEC != 0,
            },
            Record::Ksymbol(ksymbol) if ksymbol.is_unregister() => Fact::Unregister(ksymbol.addr.0),
            Record::Ksymbol(ksymbol) => Fact::Register(KernelSymbol {
                name: ksymbol.name.to_vec(),
                start: ksymbol.addr.0,
                end: ksymbol.addr.0.saturating_add(u64::from(ksymbol.len)),
            }),
            _ => return None,
        })
    }

    fn map(
        &mut self,
        misc: u16,
        pid: Pid,
        (start, len, pgoff): (Addr, u64, u64),
        file: MappedFile,
        prot: u32,
        flags: u32,
    ) -> Option<Fact> {
        let is_kernel = match misc & misc::CPUMODE_MASK {
            misc::KERNEL => true,
            // A guest's addresses never meet the host's maps.
            misc::GUEST_KERNEL | misc::GUEST_USER => return None,
            _ => false,
        };
        let is_executable = prot & PROT_EXEC != 0 || is_kernel;
        let path = file.path.clone();
        let is_anonymous = is_anonymous(&path) || flags & MAP_HUGETLB != 0;
        let is_own_image = is_kernel && path.starts_with(b"[kernel.kallsyms]");
        let file = self.file(file);
        if is_own_image && self.index.kernel.is_none() {
            self.index.kernel = Some((start, file));
        }
        // The vDSO is an image of its own, whatever offset a recorder tells.
        let pgoff = if path == b"[vdso]" { 0 } else { pgoff };
        // Kernel addresses and those of code without a file stand for themselves.
        let is_identity = is_kernel || is_anonymous || is_fileless(&path);
        let mapping = Mapping {
            file,
            bias: if is_identity { 0 } else { start.0.wrapping_sub(pgoff) },
            jit_code: None,
            instead_of: None,
            jit_generation: 0,
            jit_pid: if (is_anonymous || is_fileless(&path)) && is_executable {
                pid
            } else {
                Pid(0)
            },
            is_kernel,
            is_executable,
        };
        let end = start.0.saturating_add(len);
        if !is_identity {
            let mappers = &mut self.index.mappers[file.0 as usize];
            note_mapper(mappers, Mapper { pid, start, end: Addr(end) });
        }
        let pid = (!is_kernel).then_some(pid);
        Some(Fact::Map { pid, start: start.0, end, mapping })
    }

    fn comm(&mut self, comm: &[u8]) -> CommId {
        if let Some(id) = self.comm_ids.get(comm) {
            return *id;
        }
        let id = CommId(narrow(self.index.comms.len()));
        self.index.comms.push(comm.to_vec());
        self.comm_ids.insert(comm.to_vec(), id);
        id
    }

    /// The number of `file`. What was synthesized lacks the generation of its inode, and is taken for
    /// any of that number.
    fn file(&mut self, file: MappedFile) -> FileId {
        let generation = file.inode.map_or(0, |it| it.generation);
        let inode = file.inode.map(|it| Inode { generation: 0, ..it });
        let key = MappedFile { inode, ..file };
        let ids = self.file_ids.entry(key.clone()).or_default();
        for id in ids.iter() {
            let Some(Some(known)) = self.index.files.get_mut(id.0 as usize).map(|it| &mut it.inode)
            else {
                return *id;
            };
            if known.generation == 0 || generation == 0 || known.generation == generation {
                known.generation = known.generation.max(generation);
                return *id;
            }
        }
        let id = FileId(narrow(self.index.files.len()));
        ids.push(id);
        let inode = inode.map(|it| Inode { generation, ..it });
        self.index.files.push(MappedFile { inode, ..key });
        self.index.mappers.push(Vec::new());
        id
    }

    /// Notes what a record or a section says of the build id of a path. In mount namespaces several
    /// files may have one path; then it says nothing of either.
    fn build_id(&mut self, path: &[u8], id: BuildId) {
        match self.index.build_ids.insert(path.to_vec(), id) {
            Some(other) if other != id => {
                self.ambiguous.insert(path.to_vec());
            }
            _ => {}
        }
    }
}

/// The most processes that are kept of those that mapped a file, half of them the first ones.
const MAX_MAPPERS: usize = 8;

/// Keeps `mapper` in the place of the last process but the first few: who mapped a file last is
/// likely to live still, as is who mapped it first.
fn note_mapper(mappers: &mut Vec<Mapper>, mapper: Mapper) {
    if mappers.iter().any(|it| it.pid == mapper.pid) {
        return;
    }
    if mappers.len() == MAX_MAPPERS {
        mappers.remove(MAX_MAPPERS / 2);
    }
    mappers.push(mapper);
}

/// The trailer of a record, with a time only if that is one.
fn timed(id: SampleId) -> SampleId {
    SampleId { time: id.time.filter(|it| is_a_time(*it)), ..id }
}

/// Whether a recorded time is one: synthesized records have 0, some tools write -1.
fn is_a_time(time: Nanos) -> bool {
    time != Nanos(0) && time != Nanos(u64::MAX)
}

/// Whether a mapping is of memory that never holds a file.
///
/// Source: `is_no_dso_memory()` in `tools/perf/util/map.c`.
fn is_fileless(path: &[u8]) -> bool {
    path.starts_with(b"[stack") || path.starts_with(b"/SYSV") || path == b"[heap]"
}

/// Names come from records in memory: fewer than 2^32.
fn narrow(idx: usize) -> u32 {
    u32::try_from(idx).expect("fewer than 2^32 names")
}
