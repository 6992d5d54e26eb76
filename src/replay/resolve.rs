//! All samples of a recording to distinct combinations, on all cores.

use std::cmp::Reverse;
use std::hash::BuildHasher;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use rayon::prelude::*;
use rustc_hash::FxBuildHasher;
use rustc_hash::FxHashMap;

use crate::perfdata::Endian;
use crate::perfdata::RawRecord;
use crate::perfdata::ReadAt;
use crate::perfdata::RecordKind;
use crate::perfdata::RecordWalk;
use crate::perfdata::Sample;
use crate::perfdata::Section;
use crate::perfdata::U64s;
use crate::perfdata::UserState;
use crate::perfdata::feature::Feature;
use crate::perfdata::feature::FeatureId;
use crate::perfdata::feature::GroupDesc;
use crate::perfdata::misc;
use crate::units::Nanos;
use crate::units::Pid;
use crate::units::Tid;

use super::Asked;
use super::CodeFiles;
use super::Counted;
use super::Deferred;
use super::Detail;
use super::DetailValue;
use super::Ends;
use super::Error;
use super::Frame;
use super::FunctionAt;
use super::Index;
use super::Lines;
use super::Names;
use super::Notes;
use super::Readings;
use super::Recording;
use super::Resolver;
use super::TimeRange;
use super::Unwinding;
use super::details;
use super::distinct::Frames;
use super::distinct::Lists;
use super::distinct::Numbers;
use super::distinct::narrow;
use super::functions::Functions;
use super::functions::Recent;
use super::resolved::CommId;
use super::resolved::Details;
use super::resolved::DetailsId;
use super::resolved::EventGroup;
use super::resolved::EventIdx;
use super::resolved::EventInfo;
use super::resolved::Group;
use super::resolved::Keep;
use super::resolved::LocationId;
use super::resolved::Resolved;
use super::resolved::StackId;
use super::resolver::Link;
use super::resolver::LinkKey;
use super::resolver::TaskAt;
use super::resolver::begins_with;
use super::resolver::links;
use super::resolver::unnamed_comm;
use super::spans::Moment;

/// Resolves every sample of `recording`, by what `files` hold, and boils them down to what `keep` keeps
/// apart and `asked` asks for; what was inlined is added to call chains as far as `lines` has it.
///
/// # Errors
///
/// [`Error::Decode`] if the input cannot be read a second time.
pub fn resolve(
    recording: &Recording,
    index: &Index,
    input: &dyn ReadAt,
    files: &CodeFiles<'_>,
    lines: Option<&Lines<'_>>,
    keep: Keep,
    asked: Asked<'_>,
) -> Result<Resolved, Error> {
    let next = AtomicUsize::new(0);
    let unwinding = Unwinding::new(recording, files);
    let workers = rayon::broadcast(|_| {
        let mut worker = Worker::new(recording, index, &unwinding, files.names(), keep, asked);
        if !keep.stack && !keep.address {
            worker.functions = Some(Functions::new(&index.timeline, files.names()));
        }
        let mut walk = RecordWalk::new(input, Section::default(), recording.header.endian());
        while let Some(chunk) = index.chunks.get(next.fetch_add(1, Ordering::Relaxed)) {
            walk.restart(*chunk);
            worker.records(&mut walk)?;
        }
        Ok(worker)
    });
    let workers = workers.into_iter().collect::<Result<Vec<Worker<'_>>, Error>>()?;
    Ok(merge(workers, recording, index, files.names(), lines))
}

/// What keeps samples apart, in the numbers of one worker, or after the merge of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    event: u32,
    comm: u32,
    frame: u32,
    stack: u32,
    pid: i32,
    tid: i32,
    cpu: u32,
    details: u32,
}

/// What fell on a combination.
#[derive(Clone, Copy, Debug)]
struct Weight {
    period: u64,
    n_samples: u64,
    first: Moment,
    /// The task of the first sample, where tasks are not kept apart.
    task: (Pid, Tid),
    cpu: Option<u32>,
}

/// The number of no stack, no CPU, no details.
const NONE: u32 = u32::MAX;
/// Set in the number of a command name that nothing told: the rest is the thread's id.
const UNNAMED: u32 = 1 << 31;

/// One thread's part of the work, in numbers of its own.
struct Worker<'a> {
    recording: &'a Recording,
    readings: &'a Readings,
    deferred: &'a Deferred,
    keep: Keep,
    asked: Asked<'a>,
    names: &'a Names<'a>,
    resolver: Resolver<'a>,
    frames: Frames,
    /// Where functions are kept apart, and not their addresses.
    functions: Option<Functions<'a>>,
    /// Sampled addresses by state and privilege, so that most cost one look-up: the frame of each, and
    /// the combination without a stack that it was last met in.
    ips: FxHashMap<Ip, (u32, u32)>,
    /// Raw chains that were met lately, each behind the state in which it was met, and the stack each
    /// came to.
    raw_chains: Lists<u64>,
    stack_of_chain: Vec<u32>,
    /// The frames of addresses of chains, as they were met lately.
    recent: Recent<LinkKey, ()>,
    stacks: Lists<u32>,
    /// What to know of each stack.
    tops: Vec<Top>,
    groups: Groups,
    /// What is asked for of samples, each behind the frame that a branch came from.
    details: Lists<u8>,
    /// By event, the samples whose branches were counted.
    n_branching: Vec<u64>,
    n_bad_chains: u64,
    scratch: Scratch,
}

/// Of a stack, its first frame and the first combination with it; [`NONE`] where there is none.
#[derive(Clone, Copy)]
struct Top {
    frame: u32,
    group: u32,
}

/// Words of raw chains that are remembered, so few that the caches hold them: most chains are met again
/// soon or never.
const MAX_RAW_WORDS: usize = 1 << 18;

/// The state of a process, the privilege, and an address.
type Ip = ([u32; 4], u16, u64);

#[derive(Default)]
struct Scratch {
    raw: Vec<u64>,
    frames: Vec<Frame>,
    ids: Vec<u32>,
}

impl<'a> Worker<'a> {
    fn new(
        recording: &'a Recording,
        index: &'a Index,
        unwinding: &'a Unwinding<'a>,
        names: &'a Names<'a>,
        keep: Keep,
        asked: Asked<'a>,
    ) -> Self {
        Self {
            recording,
            readings: &index.readings,
            deferred: &index.deferred,
            keep,
            asked,
            names,
            resolver: Resolver::with_unwinding(&index.timeline, unwinding),
            frames: Frames::default(),
            functions: None,
            ips: FxHashMap::default(),
            raw_chains: Lists::default(),
            recent: Recent::new(15),
            stack_of_chain: Vec::new(),
            stacks: Lists::default(),
            tops: Vec::new(),
            groups: Groups::default(),
            details: Lists::default(),
            n_branching: Vec::new(),
            n_bad_chains: 0,
            scratch: Scratch::default(),
        }
    }

    fn records(&mut self, walk: &mut RecordWalk<'_, dyn ReadAt + '_>) -> Result<(), Error> {
        while let Some(raw) = walk.next()? {
            if raw.header.kind == RecordKind::SAMPLE {
                self.sample(&raw);
            }
        }
        Ok(())
    }

    fn sample(&mut self, raw: &RawRecord<'_>) {
        let Some(event) = self.recording.event_of_sample(raw.body) else { return };
        let layout = &self.recording.events[event as usize].sample;
        let time = layout.time(raw.body).unwrap_or_default();
        if !TimeRange::any_holds(self.asked.times, time) {
            return;
        }
        let moment = Moment { time, position: raw.at.0 };
        let (pid, tid) = layout.task(raw.body).unwrap_or((Pid(-1), Tid(-1)));
        let cpu = layout.cpu(raw.body);
        let task = self.resolver.task(pid, tid, moment);
        if self.asked.counted == Counted::Branches {
            self.branches(raw, event, moment, &task);
            return;
        }
        let chain = if self.keep.stack { layout.callchain(raw.body) } else { Ok(None) };
        let later = chain.as_ref().ok().and_then(|it| self.deferred.merged(raw.at.0, it.as_ref()?));
        let chain = match &later {
            Some(later) => Ok(Some(U64s::new(later, Endian::NATIVE))),
            None => chain,
        };
        let state = if self.keep.stack { layout.user_state(raw.body) } else { Ok(None) };
        let ip = layout.ip(raw.body).unwrap_or_default().0;
        let mode = layout.cpumode(raw.body, raw.header.cpumode());
        let mut sampled = None;
        let stack = match (chain, state) {
            (Ok(Some(chain)), Ok(None)) => {
                let stack = self.stack(&task, &chain, moment);
                if begins_with(&chain, mode, ip) {
                    sampled = Some(self.tops[stack as usize].frame).filter(|it| *it != NONE);
                }
                stack
            }
            (Ok(Some(chain)), Ok(Some(state))) => self.unwound(&task, &chain, &state, moment),
            (Ok(None), Ok(_)) => NONE,
            (Err(_), _) | (_, Err(_)) => {
                self.n_bad_chains += 1;
                NONE
            }
        };
        let at: Ip = (task.process.version, mode, ip);
        let (frame, group) = match (&mut self.functions, sampled) {
            (Some(functions), _) => {
                let Self { frames, resolver, .. } = self;
                (functions.frame(frames, resolver, &task, (mode, ip), moment), NONE)
            }
            (None, Some(frame)) => (frame, NONE),
            (None, None) => self.ip(&task, at, moment),
        };
        let details = if self.asked.details.is_empty() {
            NONE
        } else {
            let sample = layout.decode(raw.body, raw.at).unwrap_or_default();
            self.details(event, &sample, &task, moment, None)
        };
        let mut key = self.key(event, frame, (pid, tid), cpu, &task);
        (key.stack, key.details) = (stack, details);
        let mut weight = Weight {
            period: layout.period(raw.body),
            n_samples: 1,
            first: moment,
            task: (pid, tid),
            cpu,
        };
        match self.readings.of(&self.recording.events[event as usize], raw.at.0) {
            None if self.groups.add_at(group, &key, &weight) => {}
            None => {
                let group = self.count(key, &weight);
                if stack == NONE && self.functions.is_none() {
                    self.ips.insert(at, (frame, group));
                }
            }
            Some(readings) => {
                for reading in readings {
                    (key.event, weight.period) = (reading.event, reading.period);
                    self.count(key, &weight);
                }
            }
        }
    }

    /// Adds `weight` to what fell on `key`; the number of that. Most stacks are met in one combination,
    /// which is found by the stack.
    fn count(&mut self, key: Key, weight: &Weight) -> u32 {
        let Self { groups, tops, .. } = self;
        let Some(top) = tops.get_mut(key.stack as usize) else {
            return groups.add(key, weight);
        };
        if top.group == NONE {
            top.group = groups.push(key, weight);
        } else if !groups.add_at(top.group, &key, weight) {
            return groups.add(key, weight);
        }
        top.group
    }

    /// The combination that a sample falls on, but for its call chain and details.
    fn key(
        &self,
        event: u32,
        frame: u32,
        (pid, tid): (Pid, Tid),
        cpu: Option<u32>,
        task: &TaskAt,
    ) -> Key {
        let kept = if self.keep.thread { (pid, tid) } else { (Pid(0), Tid(0)) };
        Key {
            event,
            comm: task.comm.map_or(UNNAMED | tid.0.cast_unsigned(), |it| it.0),
            frame,
            stack: NONE,
            pid: kept.0.0,
            tid: kept.1.0,
            cpu: if self.keep.cpu { cpu.unwrap_or(NONE) } else { NONE },
            details: NONE,
        }
    }

    /// Counts the branches that a sample holds.
    fn branches(&mut self, raw: &RawRecord<'_>, event: u32, moment: Moment, task: &TaskAt) {
        let layout = &self.recording.events[event as usize].sample;
        let (pid, tid) = layout.task(raw.body).unwrap_or((Pid(-1), Tid(-1)));
        let cpu = layout.cpu(raw.body);
        let sample = layout.decode(raw.body, raw.at).unwrap_or_default();
        let Some(branches) = sample.branches else { return };
        let n_events = self.recording.events.len();
        self.n_branching.resize(n_events, 0);
        self.n_branching[event as usize] += 1;
        let mut words = branches.entries.iter();
        while let (Some(from), Some(to), Some(flags)) = (words.next(), words.next(), words.next()) {
            let from = self.anywhere(task, from, moment);
            let to = self.anywhere(task, to, moment);
            let mut key = self.key(event, to, (pid, tid), cpu, task);
            key.details = self.details(event, &sample, task, moment, Some((from, flags)));
            let weight = Weight { period: 1, n_samples: 1, first: moment, task: (pid, tid), cpu };
            self.groups.add(key, &weight);
        }
    }

    /// The frame of an address that may be of the kernel or of user code.
    fn anywhere(&mut self, task: &TaskAt, ip: u64, moment: Moment) -> u32 {
        let modes = [misc::USER, misc::KERNEL];
        let frame = |mode: &u16| self.resolver.frame(task, *mode, ip, moment);
        let found = modes.iter().map(frame).find(|it| it.owner.is_some());
        let nowhere = || self.resolver.frame(task, misc::HYPERVISOR, ip, moment);
        let frame = found.unwrap_or_else(nowhere);
        self.frames.id(frame)
    }

    /// The number of what is asked for of a sample, or of one of its branches: where it came from, and
    /// its flags.
    fn details(
        &mut self,
        event: u32,
        sample: &Sample<'_>,
        task: &TaskAt,
        moment: Moment,
        branch: Option<(u32, u64)>,
    ) -> u32 {
        let mut bytes = branch.map_or(NONE, |(from, _)| from).to_le_bytes().to_vec();
        let attr = &self.recording.events[event as usize].attr;
        for detail in self.asked.details {
            let value = match detail {
                Detail::Branch => branch.map_or(DetailValue::None, |it| DetailValue::Number(it.1)),
                Detail::Noted => self.noted(event, sample, task, moment, |notes, raw, function| {
                    let mut text = Vec::new();
                    notes.print(event, raw, function, &mut text);
                    DetailValue::Text(text)
                }),
                Detail::Fields => {
                    self.noted(event, sample, task, moment, |notes, raw, function| {
                        DetailValue::Fields(notes.fields(event, raw, function))
                    })
                }
                detail => details::value(*detail, sample, attr),
            };
            value.encode(&mut bytes);
        }
        self.details.intern(&bytes).0
    }

    /// What a tracepoint noted, as `value` has it.
    fn noted(
        &self,
        event: u32,
        sample: &Sample<'_>,
        task: &TaskAt,
        moment: Moment,
        value: impl Fn(&dyn Notes, &[u8], &FunctionAt<'_, '_>) -> DetailValue,
    ) -> DetailValue {
        let Some(notes) = self.asked.notes.filter(|it| it.has(event)) else {
            return DetailValue::None;
        };
        let function = |addr: u64| {
            let frame = self.resolver.frame(task, misc::KERNEL, addr, moment);
            let symbol = self.names.name(&frame).symbol?;
            Some((symbol.shown(), symbol.offset))
        };
        value(notes, sample.raw.unwrap_or_default(), &function)
    }

    #[inline]
    fn ip(&mut self, task: &TaskAt, at: Ip, moment: Moment) -> (u32, u32) {
        if let Some(&found) = self.ips.get(&at) {
            return found;
        }
        let (_, cpumode, ip) = at;
        let frame = self.resolver.frame(task, cpumode, ip, moment);
        let found = (self.frames.id(frame), NONE);
        self.ips.insert(at, found);
        found
    }

    /// The stack that a raw chain comes to: resolved once for each state of its process.
    fn stack(&mut self, task: &TaskAt, chain: &U64s<'_>, moment: Moment) -> u32 {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.raw.clear();
        let [a, b, c, d] = task.process.version.map(u64::from);
        scratch.raw.extend([a << 32 | b, c << 32 | d]);
        scratch.raw.extend(chain.iter());
        if self.raw_chains.n_items() > MAX_RAW_WORDS {
            self.raw_chains.clear();
            self.stack_of_chain.clear();
        }
        let (id, is_new) = self.raw_chains.intern(&scratch.raw);
        if is_new {
            scratch.ids.clear();
            let Self { resolver, frames, recent, .. } = self;
            let id = |link: Link| match link.key(task) {
                Some((spread, key)) => recent.get(spread, key).map_or_else(
                    || {
                        let id = frames.id(resolver.link(task, link, moment));
                        recent.put(spread, key, id, ());
                        id
                    },
                    |(id, ())| id,
                ),
                None => frames.id(resolver.link(task, link, moment)),
            };
            links(chain, usize::MAX, &mut scratch.ids, id);
            let stack = self.intern(&scratch.ids);
            self.stack_of_chain.push(stack);
        }
        self.scratch = scratch;
        self.stack_of_chain[id as usize]
    }

    /// The stack of the kernel's part, `chain`, and of what the copy of the user stack leads to.
    fn unwound(
        &mut self,
        task: &TaskAt,
        chain: &U64s<'_>,
        state: &UserState<'_>,
        moment: Moment,
    ) -> u32 {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.frames.clear();
        self.resolver.chain(task, chain, usize::MAX, moment, &mut scratch.frames);
        self.resolver.unwind(task, state, usize::MAX, moment, &mut scratch.frames);
        let stack = self.stack_of(&mut scratch);
        self.scratch = scratch;
        stack
    }

    fn stack_of(&mut self, scratch: &mut Scratch) -> u32 {
        scratch.ids.clear();
        for &frame in &scratch.frames {
            scratch.ids.push(self.frames.id(frame));
        }
        self.intern(&scratch.ids)
    }

    /// The number of the stack of these frames.
    fn intern(&mut self, frames: &[u32]) -> u32 {
        let (id, is_new) = self.stacks.intern(frames);
        if is_new {
            self.tops.push(Top { frame: frames.first().copied().unwrap_or(NONE), group: NONE });
        }
        id
    }
}

/// What fell on each combination, numbered in order of appearance.
#[derive(Default)]
struct Groups {
    items: Vec<(Key, Weight)>,
    /// Those that cannot be found by their stacks.
    numbers: Numbers,
}

impl Groups {
    /// Adds `weight` to what fell on `key`; the number of that.
    fn add(&mut self, key: Key, weight: &Weight) -> u32 {
        let hash = FxBuildHasher.hash_one(key);
        let items = &mut self.items;
        if let Some(id) = self.numbers.find(hash, |it| items[it as usize].0 == key) {
            items[id as usize].1.add(weight);
            return id;
        }
        let id = self.push(key, weight);
        self.numbers.insert(hash, id);
        id
    }

    /// Adds what is known not to be there, and is not found by its key.
    fn push(&mut self, key: Key, weight: &Weight) -> u32 {
        let id = narrow(self.items.len());
        self.items.push((key, *weight));
        id
    }

    /// Adds `weight` to what fell on `key` if that has this number; whether it has.
    fn add_at(&mut self, id: u32, key: &Key, weight: &Weight) -> bool {
        let found = self.items.get_mut(id as usize).filter(|it| it.0 == *key);
        found.map(|it| it.1.add(weight)).is_some()
    }
}

impl Weight {
    fn add(&mut self, other: &Self) {
        self.period = self.period.wrapping_add(other.period);
        self.n_samples += other.n_samples;
        if other.first < self.first {
            (self.first, self.task, self.cpu) = (other.first, other.task, other.cpu);
        }
    }
}

/// Brings the parts together: every worker's numbers to one numbering, and every frame to a name.
fn merge(
    mut workers: Vec<Worker<'_>>,
    recording: &Recording,
    index: &Index,
    names: &Names<'_>,
    lines: Option<&Lines<'_>>,
) -> Resolved {
    let n_bad_chains = workers.iter().map(|it| it.n_bad_chains).sum();
    let keeps_threads = workers.iter().any(|it| it.keep.thread);
    let mut n_branching = Vec::new();
    for (idx, n) in workers.iter().flat_map(|it| it.n_branching.iter().enumerate()) {
        n_branching.resize(recording.events.len(), 0);
        n_branching[idx] += n;
    }
    let mut ends = Ends::default();
    for worker in &workers {
        ends.add(&worker.resolver.ends());
    }
    // The numbers of the one that has most become everyone's.
    workers.sort_by_key(|it| Reverse(it.frames.list().len()));
    let mut frames = Frames::default();
    let mut details = Lists::default();
    let mut parts = Vec::new();
    for worker in workers {
        let numbers = (!parts.is_empty()).then(|| {
            let number = |&frame: &Frame| frames.id(frame);
            worker.frames.list().iter().map(number).collect::<Vec<u32>>()
        });
        if numbers.is_none() {
            frames = worker.frames;
        }
        let frame = |id: u32| numbers.as_ref().map_or(id, |it| it[id as usize]);
        let merged_details = merge_details(&worker.details, &mut details, frame);
        parts.push((numbers, worker.stacks, worker.groups.items, merged_details));
    }
    // Stacks and groups that two workers have met stay two: to find them takes longer than to count
    // with both.
    let mut groups = Vec::with_capacity(parts.iter().map(|(_, _, groups, _)| groups.len()).sum());
    let mut first_stack = 0;
    for (numbers, stacks, part, merged_details) in &mut parts {
        groups.extend(std::mem::take(part).into_iter().map(|(mut key, weight)| {
            if key.details != NONE {
                key.details = merged_details[key.details as usize];
            }
            key.frame = numbers.as_ref().map_or(key.frame, |it| it[key.frame as usize]);
            if key.stack != NONE {
                key.stack += first_stack;
            }
            (key, weight)
        }));
        first_stack += narrow(stacks.len());
    }
    // What several counters share a sample of came at the same moment.
    groups.par_sort_unstable_by_key(|(key, weight)| (weight.first, key.event));
    let mut resolved = Resolved { n_branching, n_bad_chains, ends, ..Resolved::default() };
    let of_id = |id: usize| {
        let (from, values) = split_details(details.get(narrow(id)));
        let from = (from != NONE).then_some(LocationId(from));
        Details { from, values: details::decode(values) }
    };
    resolved.details = (0..details.len()).map(of_id).collect();
    let expansions = names.name_all(frames.list(), lines, &mut resolved);
    drop(frames);
    for (numbers, stacks, ..) in parts {
        let number = |id: &u32| numbers.as_ref().map_or(*id, |it| it[*id as usize]);
        for id in 0..stacks.len() {
            let frames = stacks.get(narrow(id)).iter().map(number);
            resolved.stacks.push(frames.flat_map(|id| expansions.of(id)));
        }
    }
    resolved.events = recording
        .events
        .iter()
        .zip(&index.n_lost)
        .map(|(event, &n_lost)| EventInfo {
            name: event.name.clone(),
            has_callchain: event.sample.has_callchain(),
            n_lost,
        })
        .collect();
    resolved.event_groups = event_groups(recording);
    let mut comms = Comms::new(&index.comms);
    resolved.groups = groups
        .into_iter()
        .map(|(key, weight)| {
            let (pid, tid) = weight.task;
            let last_comm = comms.last(index, tid);
            let leader = Some(Tid(pid.0)).filter(|it| keeps_threads && *it != tid);
            Group {
                event: EventIdx(key.event),
                comm: comms.id(key.comm),
                last_comm,
                leader_comm: leader.map_or(last_comm, |it| comms.last(index, it)),
                pid,
                tid,
                cpu: weight.cpu,
                location: LocationId(key.frame),
                stack: (key.stack != NONE).then_some(StackId(key.stack)),
                details: (key.details != NONE).then_some(DetailsId(key.details)),
                period: weight.period,
                n_samples: weight.n_samples,
                first: Nanos(weight.first.time.0),
            }
        })
        .collect();
    resolved.comms = comms.names;
    resolved
}

/// The frame that a branch came from, and the values, of what [`Worker::details`] made.
fn split_details(bytes: &[u8]) -> (u32, &[u8]) {
    bytes.split_first_chunk().map_or((NONE, &[]), |(from, rest)| (u32::from_le_bytes(*from), rest))
}

/// Takes the details of one worker into `merged`, whose numbers it returns; `frame` is the merged
/// number of a frame of that worker.
fn merge_details(
    details: &Lists<u8>,
    merged: &mut Lists<u8>,
    frame: impl Fn(u32) -> u32,
) -> Vec<u32> {
    let mut bytes = Vec::new();
    let merge = |id: usize| {
        let (from, values) = split_details(details.get(narrow(id)));
        let from = if from == NONE { NONE } else { frame(from) };
        bytes.clear();
        bytes.extend_from_slice(&from.to_le_bytes());
        bytes.extend_from_slice(values);
        merged.intern(&bytes).0
    };
    (0..details.len()).map(merge).collect()
}

/// The groups of two events and more that `recording` tells of; events follow their leader.
fn event_groups(recording: &Recording) -> Vec<EventGroup> {
    let Some(Feature::Groups(described)) = recording.feature(FeatureId::GROUP_DESC) else {
        return Vec::new();
    };
    let mut groups = Vec::new();
    let mut next = 0;
    for GroupDesc { name, leader_idx, n_members } in described {
        let end = u64::from(*leader_idx) + u64::from(*n_members);
        if *leader_idx < next || end > recording.events.len() as u64 || *n_members < 2 {
            continue;
        }
        next = leader_idx + n_members;
        let name = String::from_utf8_lossy(name.as_bytes()).into_owned();
        groups.push(EventGroup {
            name: Some(name).filter(|it| it != GroupDesc::ANONYMOUS),
            events: (*leader_idx..next).map(EventIdx).collect(),
        });
    }
    groups
}

/// The command names, those that nothing told included.
struct Comms {
    names: Vec<Vec<u8>>,
    unnamed: FxHashMap<u32, CommId>,
}

impl Comms {
    fn new(names: &[Vec<u8>]) -> Self {
        Self { names: names.to_vec(), unnamed: FxHashMap::default() }
    }

    fn id(&mut self, comm: u32) -> CommId {
        if comm & UNNAMED == 0 {
            return CommId(comm);
        }
        *self.unnamed.entry(comm).or_insert_with(|| {
            // The sign does not survive beside the mark: -1 is the thread of a task that is gone.
            let tid = match (comm & !UNNAMED).cast_signed() {
                i32::MAX => -1,
                tid => tid,
            };
            self.names.push(unnamed_comm(Tid(tid)));
            CommId(narrow(self.names.len() - 1))
        })
    }

    fn last(&mut self, index: &Index, tid: Tid) -> CommId {
        let comm = index.timeline.last_comm(tid);
        self.id(comm.map_or(UNNAMED | tid.0.cast_unsigned(), |it| it.0))
    }
}
