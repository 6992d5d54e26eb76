//! One record as a line, or as a block with its call chain.

use crate::events::is_bpf_output;
use crate::perfdata::Cursor;
use crate::perfdata::RecordHeader;
use crate::perfdata::RecordKind;
use crate::perfdata::misc;
use crate::render::escape::escape;
use crate::replay::Ends;
use crate::replay::Event;
use crate::replay::Frame;
use crate::replay::Nameless;
use crate::replay::Reading;
use crate::replay::Resolver;
use crate::replay::TaskAt;
use crate::replay::Unwinding;
use crate::replay::spans::Moment;
use crate::replay::timeline::Owner;
use crate::replay::unnamed_comm;
use crate::units::FileOffset;
use crate::units::Nanos;
use crate::units::Pid;
use crate::units::Tid;

use super::Fields;
use super::Options;
use super::Precision;
use super::Source;
use super::Texts;
use super::number::decimal;
use super::number::signed;
use super::number::zero_padded;
use super::off_cpu;
use super::place::CodeNames;
use super::place::Places;
use super::written;

/// Formats records; each thread has one of its own, with what it has named so far.
pub(super) struct Formatter<'a> {
    pub(super) source: &'a Source<'a>,
    options: &'a Options,
    texts: &'a Texts,
    resolver: Resolver<'a>,
    /// The longest name of an event, to which all are aligned.
    name_width: usize,
    /// What is shown of a frame.
    places: Places<'a>,
    comms: Vec<String>,
    frames: Vec<Frame>,
    /// Samples whose call chain does not fit into their record.
    pub(super) n_bad_chains: u64,
    /// Samples that have no name where one is shown.
    pub(super) nameless: Nameless,
}

/// What stands at the beginning of a line.
#[derive(Clone, Copy)]
pub(super) struct Prefix {
    pub(super) fields: Fields,
    pub(super) task: (Pid, Tid),
    pub(super) cpu: Option<u32>,
    pub(super) time: Nanos,
    /// Whether a call chain follows, before which names are not aligned.
    pub(super) has_chain: bool,
}

impl<'a> Formatter<'a> {
    pub(super) fn new(
        source: &'a Source<'a>,
        options: &'a Options,
        texts: &'a Texts,
        unwinding: &'a Unwinding<'a>,
        code: CodeNames<'a>,
    ) -> Self {
        let events = &source.recording.events;
        Self {
            source,
            options,
            texts,
            resolver: Resolver::with_unwinding(&source.index.timeline, unwinding),
            name_width: events.iter().map(|it| it.name.len()).max().unwrap_or(0),
            places: Places::new(code),
            comms: source.index.comms.iter().map(|it| escape(it).into_owned()).collect(),
            frames: Vec::new(),
            n_bad_chains: 0,
            nameless: Nameless::default(),
        }
    }

    /// How the unwinding of stacks ended so far.
    pub(super) fn ends(&self) -> Ends {
        self.resolver.ends()
    }

    /// Appends the record at the start of `bytes`, which stands at `at`.
    pub(super) fn record(&mut self, bytes: &[u8], at: FileOffset, out: &mut Vec<u8>) {
        let endian = self.source.recording.header.endian();
        let mut cursor = Cursor::new(bytes, at, endian);
        // The index has been here before: a record that it listed is whole.
        let Ok(header) = RecordHeader::decode(&mut cursor) else { return };
        let len = usize::from(header.size - RecordHeader::SIZE);
        let Ok(body) = cursor.bytes(len, "record body") else { return };
        let n_before = self.options.dump.partition_point(|it| it.from <= at.0);
        if let Some(origin) = self.options.dump[..n_before].last() {
            let whole = bytes.get(..usize::from(header.size)).unwrap_or_default();
            self.dump(origin, header, whole, at, out);
            if header.kind != RecordKind::SAMPLE {
                return;
            }
        }
        match header.kind {
            RecordKind::SAMPLE => self.sample(header, body, at, out),
            _ => self.other_record(header, body, at, out),
        }
    }

    fn sample(&mut self, header: RecordHeader, body: &[u8], at: FileOffset, out: &mut Vec<u8>) {
        let recording = self.source.recording;
        let Some(idx) = recording.event_of_sample(body) else { return };
        let event = &recording.events[idx as usize];
        let own = [Reading { event: idx, period: event.sample.period(body) }];
        for reading in self.source.index.readings.of(event, at.0).unwrap_or(&own) {
            self.delivered(header, body, at, event, *reading, out);
        }
    }

    /// A sample of `of` as one of the event that `reading` is of.
    fn delivered(
        &mut self,
        header: RecordHeader,
        body: &[u8],
        at: FileOffset,
        of: &Event,
        reading: Reading,
        out: &mut Vec<u8>,
    ) {
        let recording = self.source.recording;
        let Reading { event: idx, period } = reading;
        let event = &recording.events[idx as usize];
        let layout = &of.sample;
        let time = layout.time(body).unwrap_or_default();
        let moment = Moment { time, position: at.0 };
        let (pid, tid) = layout.task(body).unwrap_or((Pid(-1), Tid(-1)));
        let task = self.resolver.task(pid, tid, moment);
        let cpu = layout.cpu(body);
        if !self.is_wanted(&task, pid, tid, cpu) {
            return;
        }
        let fields = self.options.fields[idx as usize];
        if fields.is_empty() {
            return;
        }
        let both = layout.callchain(body).and_then(|it| Ok((it, layout.user_state(body)?)));
        let (chain, state) = both.unwrap_or_else(|_| {
            self.n_bad_chains += 1;
            (None, None)
        });
        let has_chain = fields.contains(Fields::IP) && chain.is_some();
        let prefix = Prefix { fields, task: (pid, tid), cpu, time, has_chain };
        self.prefix(&prefix, task, out);
        if fields.contains(Fields::PERIOD) {
            decimal(period, 10, out);
            out.push(b' ');
        }
        if fields.contains(Fields::EVENT) {
            out.extend(std::iter::repeat_n(b' ', self.name_width.saturating_sub(event.name.len())));
            out.extend_from_slice(escape(event.name.as_bytes()).as_bytes());
            out.extend_from_slice(b": ");
        }
        if fields.contains(Fields::TRACE)
            && let Ok(Some(raw)) = layout.raw(body)
        {
            // Functions that raw data points to are the kernel's.
            let function = |addr| {
                let frame = self.resolver.frame(&task, misc::KERNEL, addr, moment);
                let symbol = self.source.names.name(&frame).symbol?;
                Some((symbol.shown(), symbol.offset))
            };
            self.texts.traces.print(idx as usize, raw, function, out);
        }
        let is_written = fields.contains(Fields::BPF_OUTPUT) && is_bpf_output(&event.attr);
        let mut dumped = None;
        if let Some(off_cpu) = layout.off_cpu(body) {
            // Most of it has been printed with the other fields.
            if let Some(more) = off_cpu.more.filter(|_| is_written) {
                off_cpu::append(&more, out);
            }
        } else if is_written
            && let Ok(Some(raw)) = layout.raw(body)
            && !self.texts.written.print(idx as usize, raw, out)
        {
            dumped = Some(raw);
        }
        if fields.contains(Fields::IP) {
            match chain {
                Some(chain) => {
                    out.push(b'\n');
                    let mut frames = std::mem::take(&mut self.frames);
                    frames.clear();
                    let max_frames = self.options.max_frames;
                    self.resolver.chain(&task, &chain, max_frames, moment, &mut frames);
                    if let Some(state) = &state {
                        self.resolver.unwind(&task, state, max_frames, moment, &mut frames);
                    }
                    let mut sampled = None;
                    for frame in &frames {
                        let nameless = self.places.in_chain(frame, fields, out);
                        sampled = sampled.or(Some(nameless));
                    }
                    self.count(sampled.flatten(), fields);
                    self.frames = frames;
                }
                None => {
                    let ip = layout.ip(body).unwrap_or_default().0;
                    let frame = self.resolver.frame(
                        &task,
                        layout.cpumode(body, header.cpumode()),
                        ip,
                        moment,
                    );
                    out.push(b' ');
                    let nameless = self.places.alone(&frame, fields, out);
                    self.count(nameless, fields);
                }
            }
        }
        if let Some(raw) = dumped {
            written::dump(raw, out);
        }
        out.push(b'\n');
    }

    fn is_wanted(&self, task: &TaskAt, pid: Pid, tid: Tid, cpu: Option<u32>) -> bool {
        let only = &self.options.only;
        let is_of = |pids: &[Pid]| pids.is_empty() || pids.contains(&pid);
        is_of(&only.pids)
            && (only.tids.is_empty() || only.tids.contains(&tid))
            && (only.cpus.is_empty()
                || cpu.is_some_and(|cpu| only.cpus.iter().any(|it| it.0 == cpu)))
            && (only.comms.is_empty() || {
                let unnamed;
                let comm = match task.comm {
                    Some(comm) => &self.source.index.comms[comm.0 as usize],
                    None => {
                        unnamed = unnamed_comm(tid);
                        &unnamed
                    }
                };
                only.comms.contains(comm)
            })
    }

    /// The fields that are printed of the event with index `event`.
    pub(super) fn fields(&self, event: usize) -> Fields {
        self.options.fields[event]
    }

    /// The thread `tid` of `pid` at `moment`.
    pub(super) fn task(&mut self, pid: Pid, tid: Tid, moment: Moment) -> TaskAt {
        self.resolver.task(pid, tid, moment)
    }

    /// The name of the thread `tid`, which is `task`.
    pub(super) fn comm(&self, task: &TaskAt, tid: Tid) -> String {
        match task.comm {
            Some(comm) => self.comms[comm.0 as usize].clone(),
            None => String::from_utf8_lossy(&unnamed_comm(tid)).into_owned(),
        }
    }

    /// The module that `addr` belongs to.
    pub(super) fn module(
        &mut self,
        task: &TaskAt,
        cpumode: u16,
        addr: u64,
        moment: Moment,
    ) -> Option<String> {
        let frame = self.resolver.frame(task, cpumode, addr, moment);
        let dso = self.source.names.name(&frame).dso?;
        Some(escape(dso.long_name.as_bytes()).into_owned())
    }

    /// The fields that every kind of record has.
    pub(super) fn prefix(&self, prefix: &Prefix, task: TaskAt, out: &mut Vec<u8>) {
        let Prefix { fields, task: (pid, tid), cpu, time, has_chain } = *prefix;
        if fields.contains(Fields::COMM) {
            let unnamed;
            let named = task.comm.map(|comm| &self.comms[comm.0 as usize]);
            // A thread can name itself with nothing, which would shift the fields behind.
            let comm = match named.filter(|comm| !comm.is_empty()) {
                Some(comm) => comm,
                None => {
                    unnamed = String::from_utf8_lossy(&unnamed_comm(tid)).into_owned();
                    &unnamed
                }
            };
            if !has_chain {
                out.extend(std::iter::repeat_n(b' ', 16_usize.saturating_sub(comm.len())));
            }
            out.extend_from_slice(comm.as_bytes());
            out.push(b' ');
        }
        match (fields.contains(Fields::PID), fields.contains(Fields::TID)) {
            (true, true) => {
                signed(pid.0, 7, out);
                out.push(b'/');
                let start = out.len();
                signed(tid.0, 0, out);
                let len = out.len() - start;
                out.extend(std::iter::repeat_n(b' ', 8_usize.saturating_sub(len).max(1)));
            }
            (true, false) => {
                signed(pid.0, 7, out);
                out.push(b' ');
            }
            (false, true) => {
                signed(tid.0, 7, out);
                out.push(b' ');
            }
            (false, false) => {}
        }
        if fields.contains(Fields::CPU) {
            out.push(b'[');
            match cpu.filter(|it| *it != u32::MAX) {
                Some(cpu) => zero_padded(u64::from(cpu), 3, out),
                None => out.extend_from_slice(b"-01"),
            }
            out.extend_from_slice(b"] ");
        }
        if fields.contains(Fields::TIME) {
            self.time(time, out);
            out.extend_from_slice(b": ");
        }
    }

    fn time(&self, time: Nanos, out: &mut Vec<u8>) {
        let (seconds, nanos) = (time.0 / 1_000_000_000, time.0 % 1_000_000_000);
        // perf aligns the whole to twelve with microseconds, the seconds to five with nanoseconds.
        match self.options.precision {
            Precision::Microseconds => {
                decimal(seconds, 5, out);
                out.push(b'.');
                zero_padded(nanos / 1_000, 6, out);
            }
            Precision::Nanoseconds => {
                decimal(seconds, 5, out);
                out.push(b'.');
                zero_padded(nanos, 9, out);
            }
        }
    }

    /// Counts a sample; `nameless` is the owner of its address, if it has no name.
    fn count(&mut self, nameless: Option<Owner>, fields: Fields) {
        if fields.contains(Fields::SYM) {
            self.nameless.add(nameless, 1);
        }
    }
}
