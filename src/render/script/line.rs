//! One record as a line, or as a block with its call chain.

use std::io::Write as _;

use crate::events::is_bpf_output;
use crate::perfdata::Attr;
use crate::perfdata::Cursor;
use crate::perfdata::RecordHeader;
use crate::perfdata::RecordKind;
use crate::perfdata::Sample;
use crate::perfdata::SampleType;
use crate::perfdata::feature::Feature;
use crate::perfdata::feature::FeatureId;
use crate::perfdata::misc;
use crate::render::escape::escape;
use crate::replay::Ends;
use crate::replay::Event;
use crate::replay::Frame;
use crate::replay::Nameless;
use crate::replay::Reading;
use crate::replay::Recording;
use crate::replay::Resolver;
use crate::replay::TaskAt;
use crate::replay::Unwinding;
use crate::replay::spans::Moment;
use crate::replay::timeline::Owner;
use crate::replay::unnamed_comm;
use crate::units::Addr;
use crate::units::FileOffset;
use crate::units::Nanos;
use crate::units::Pid;
use crate::units::Tid;

use super::Chains;
use super::Fields;
use super::Layout;
use super::Options;
use super::Records;
use super::Source;
use super::Texts;
use super::clock::Printed;
use super::memory;
use super::number::decimal;
use super::number::hex;
use super::number::signed;
use super::number::zero_padded;
use super::off_cpu;
use super::place::CodeNames;
use super::place::Places;
use super::registers;
use super::registers::Machine;
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
    pub(super) places: Places<'a>,
    /// The machine that was recorded.
    machine: Machine,
    printed: Printed,
    /// How wide what says where data came from has become.
    data_source_width: usize,
    comms: Vec<String>,
    frames: Vec<Frame>,
    /// Samples whose call chain does not fit into their record.
    pub(super) n_bad_chains: u64,
    /// Samples that were printed.
    pub(super) n_samples: u64,
    /// Samples that have no name where one is shown.
    pub(super) nameless: Nameless,
}

/// What stands at the beginning of a line.
#[derive(Clone, Copy)]
pub(super) struct Prefix {
    pub(super) fields: Fields,
    /// The header of the record.
    pub(super) header: RecordHeader,
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
            machine: machine(source.recording),
            printed: Printed::default(),
            data_source_width: 0,
            comms: source.index.comms.iter().map(|it| escape(it).into_owned()).collect(),
            frames: Vec::new(),
            n_bad_chains: 0,
            n_samples: 0,
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
        match (header.kind, self.options.records) {
            (RecordKind::SAMPLE, Records::Others) => {}
            (RecordKind::SAMPLE, _) => self.sample(header, body, at, out),
            (_, Records::Samples) => {}
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
        let mode = layout.cpumode(body, header.cpumode());
        let ip = layout.ip(body).unwrap_or_default().0;
        let only = &self.options.only;
        let fields = self.options.fields[idx as usize];
        if fields.is_empty()
            || only.event.is_some_and(|it| it != idx)
            || !only.has_time(time)
            || !only.has_cpu(cpu)
            || !only.has_thread(pid, tid)
            || !self.is_wanted(&task, tid)
            || only.needs_names() && !self.is_wanted_place(&self.frame(&task, mode, ip, moment))
        {
            return;
        }
        self.n_samples += 1;
        let far = if fields.intersects(Fields::FAR) { layout.decode(body, at).ok() } else { None };
        let both = layout.callchain(body).and_then(|it| Ok((it, layout.user_state(body)?)));
        let (chain, state) = both.unwrap_or_else(|_| {
            self.n_bad_chains += 1;
            (None, None)
        });
        let chain = chain.filter(|_| self.options.chains == Chains::Shown);
        let has_chain = fields.contains(Fields::IP) && chain.is_some();
        let prefix = Prefix { fields, header, task: (pid, tid), cpu, time, has_chain };
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
        if fields.contains(Fields::FLAGS) {
            // Nothing but traces of the hardware has flags.
            out.extend_from_slice(&[b' '; 24]);
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
        let address = layout.addr(body).unwrap_or_default().0;
        let has_branch_form = is_traced_branch(&event.attr);
        if fields.contains(Fields::ADDR) && !has_branch_form {
            let frame = self.data_frame(&task, mode, address, moment);
            self.address(&event.attr, &frame, fields, out);
        }
        if let Some(sample) = &far {
            self.costs(sample, &event.attr, fields, out);
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
                        if self.is_last(frame) {
                            break;
                        }
                    }
                    self.count(sampled.flatten(), fields);
                    self.frames = frames;
                }
                None => {
                    let frame = self.frame(&task, mode, ip, moment);
                    out.push(b' ');
                    let nameless = self.places.alone(&frame, fields, out);
                    self.count(nameless, fields);
                }
            }
        }
        if has_branch_form && fields.contains(Fields::ADDR) {
            out.extend_from_slice(b" => ");
            let frame = self.data_frame(&task, mode, address, moment);
            self.address(&event.attr, &frame, fields, out);
        }
        if let Some(sample) = &far {
            self.state(sample, &of.attr, fields, out);
            if let Some(branches) = &sample.branches
                && fields.intersects(Fields::BRSTACK | Fields::BRSTACKSYM | Fields::BRSTACKOFF)
            {
                self.branches(branches, &task, mode, moment, fields, out);
            }
        }
        if let Some(raw) = dumped {
            written::dump(raw, out);
        }
        if let Some(sample) = &far {
            pages(sample, fields, out);
        }
        out.push(b'\n');
    }

    /// Appends a data address, and what lies there if that can be a symbol.
    fn address(&self, attr: &Attr, frame: &Frame, fields: Fields, out: &mut Vec<u8>) {
        hex(frame.ip.0, 16, out);
        if !is_page_fault(attr) && !is_traced_branch(attr) {
            return;
        }
        if fields.contains(Fields::SYM) {
            out.push(b' ');
            self.places.symbol(frame, fields, out);
        }
        if fields.contains(Fields::DSO) {
            self.places.module(frame, fields, out);
        }
    }

    /// Appends what the hardware says of an access, and the cgroup.
    fn costs(&mut self, sample: &Sample<'_>, attr: &Attr, fields: Fields, out: &mut Vec<u8>) {
        if fields.contains(Fields::DATA_SRC) {
            let text = memory::data_source(sample.data_src.unwrap_or_default());
            let width = self.data_source_width.max(text.len());
            self.data_source_width = width;
            out.extend_from_slice(format!("{text:width$}").as_bytes());
        }
        let weight = sample.weight.unwrap_or_default();
        let parts = if attr.sample_type.contains(SampleType::WEIGHT_STRUCT) {
            [weight & u64::from(u32::MAX), weight >> 32 & 0xffff, weight >> 48]
        } else {
            [weight, 0, 0]
        };
        let columns = [Fields::WEIGHT, Fields::INS_LAT, Fields::RETIRE_LAT];
        for (field, part) in columns.into_iter().zip(parts) {
            if fields.contains(field) {
                decimal(part, 16, out);
            }
        }
        if fields.contains(Fields::CGROUP) {
            let cgroups = &self.source.index.cgroups;
            let path = sample.cgroup.and_then(|it| cgroups.get(&it));
            out.push(b' ');
            out.extend_from_slice(path.map_or("unknown".into(), |it| escape(it)).as_bytes());
        }
    }

    /// Appends the registers.
    fn state(&self, sample: &Sample<'_>, attr: &Attr, fields: Fields, out: &mut Vec<u8>) {
        let mut text = String::new();
        if let Some(registers) = &sample.regs_intr
            && fields.contains(Fields::IREGS)
        {
            registers::append(self.machine, attr.sample_regs_intr, registers, &mut text);
        }
        if let Some(registers) = &sample.regs_user
            && fields.contains(Fields::UREGS)
        {
            registers::append(self.machine, attr.sample_regs_user, registers, &mut text);
        }
        out.extend_from_slice(text.as_bytes());
    }

    /// Whether no more of a call chain is shown behind `frame`.
    fn is_last(&self, frame: &Frame) -> bool {
        let stop_at = &self.options.stop_at;
        !stop_at.is_empty()
            && self.source.names.name(frame).symbol.is_some_and(|it| {
                let name = it.shown();
                stop_at.iter().any(|it| *it == name)
            })
    }

    /// Whether a sample in `frame` is wanted.
    fn is_wanted_place(&self, frame: &Frame) -> bool {
        let only = &self.options.only;
        let name = self.source.names.name(frame);
        let is_called = |it: &String| {
            name.dso.is_some_and(|dso| [&dso.short_name, &dso.long_name].contains(&it))
        };
        if !only.dsos.is_empty() && !only.dsos.iter().any(is_called) {
            return false;
        }
        let symbol = name.symbol.map(|it| (it.shown(), Addr(frame.ip.0.wrapping_sub(it.offset))));
        only.has_symbol(symbol.as_ref().map(|(name, start)| (&**name, *start)), frame.ip)
    }

    /// The address `addr`, met with the privilege bits `mode`.
    pub(super) fn frame(&self, task: &TaskAt, mode: u16, addr: u64, moment: Moment) -> Frame {
        self.resolver.frame(task, mode, addr, moment)
    }

    /// Whether a record that is no sample is wanted.
    pub(super) fn has_cpu(&self, cpu: Option<u32>) -> bool {
        self.options.only.has_cpu(cpu)
    }

    fn is_wanted(&self, task: &TaskAt, tid: Tid) -> bool {
        let comms = &self.options.only.comms;
        comms.is_empty()
            || match task.comm {
                Some(comm) => comms.contains(&self.source.index.comms[comm.0 as usize]),
                None => comms.contains(&unnamed_comm(tid)),
            }
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
    pub(super) fn prefix(&mut self, prefix: &Prefix, task: TaskAt, out: &mut Vec<u8>) {
        let Prefix { fields, header, task: (pid, tid), cpu, time, has_chain } = *prefix;
        let layout = self.options.layout;
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
            match layout {
                Layout::Narrow => {
                    let _written = write!(out, "{comm:>8.8}");
                }
                Layout::Usual => {
                    if !has_chain {
                        out.extend(std::iter::repeat_n(b' ', 16_usize.saturating_sub(comm.len())));
                    }
                    out.extend_from_slice(comm.as_bytes());
                }
            }
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
            let cpu = cpu.filter(|it| *it != u32::MAX);
            match (layout, cpu) {
                (Layout::Narrow, Some(cpu)) => decimal(u64::from(cpu), 3, out),
                (Layout::Narrow, None) => out.extend_from_slice(b" -1"),
                (Layout::Usual, Some(cpu)) => {
                    out.push(b'[');
                    zero_padded(u64::from(cpu), 3, out);
                    out.push(b']');
                }
                (Layout::Usual, None) => out.extend_from_slice(b"[-01]"),
            }
            out.push(b' ');
        }
        if fields.contains(Fields::MISC) {
            let letters = misc_letters(header);
            let _written = write!(out, "{letters:5} ");
        }
        if fields.contains(Fields::TOD) {
            self.options.clock.time_of_day(time, out);
            out.push(b' ');
        }
        if fields.contains(Fields::TIME) {
            self.options.clock.append(time, &mut self.printed, out);
            out.extend_from_slice(b": ");
        }
    }

    /// Counts a sample; `nameless` is the owner of its address, if it has no name.
    fn count(&mut self, nameless: Option<Owner>, fields: Fields) {
        if fields.contains(Fields::SYM) {
            self.nameless.add(nameless, 1);
        }
    }
}

/// The letters that perf has for the bits of a record's header.
///
/// Source: `perf_sample__fprintf_start()` in `tools/perf/builtin-script.c`.
fn misc_letters(header: RecordHeader) -> String {
    let has = |bits: u16| header.misc & bits == bits;
    let modes = [
        (misc::KERNEL, 'K'),
        (misc::USER, 'U'),
        (misc::HYPERVISOR, 'H'),
        (misc::GUEST_KERNEL, 'G'),
        (misc::GUEST_USER, 'g'),
    ];
    let mut letters: String =
        modes.iter().filter(|(bits, _)| has(*bits)).map(|(_, letter)| *letter).collect();
    let own = match header.kind {
        RecordKind::MMAP | RecordKind::MMAP2 if has(misc::MMAP_DATA) => "M",
        RecordKind::COMM if has(misc::COMM_EXEC) => "E",
        RecordKind::SWITCH | RecordKind::SWITCH_CPU_WIDE if has(misc::SWITCH_OUT) => {
            if has(misc::SWITCH_OUT_PREEMPT) { "Sp" } else { "S" }
        }
        _ => "",
    };
    letters.push_str(own);
    letters
}

/// Whether the data address of such an event's samples can be of a symbol: that of a page fault.
fn is_page_fault(attr: &Attr) -> bool {
    matches!((attr.kind, attr.config), (1, 2 | 5 | 6))
}

/// Whether each sample is a branch of a trace: of `branches` with a period of one.
fn is_traced_branch(attr: &Attr) -> bool {
    (attr.kind, attr.config, attr.sample_period) == (0, 4, 1)
}

/// Appends the physical address and the sizes of pages.
fn pages(sample: &Sample<'_>, fields: Fields, out: &mut Vec<u8>) {
    if fields.contains(Fields::PHYS_ADDR) {
        hex(sample.phys_addr.unwrap_or_default(), 16, out);
    }
    let sizes = [
        (Fields::DATA_PAGE_SIZE, sample.data_page_size),
        (Fields::CODE_PAGE_SIZE, sample.code_page_size),
    ];
    for (_, size) in sizes.into_iter().filter(|(field, _)| fields.contains(*field)) {
        let _written = write!(out, " {}", memory::page_size(size.unwrap_or_default()));
    }
}

/// The machine that was recorded; this one's kind if nothing tells it.
fn machine(recording: &Recording) -> Machine {
    match recording.feature(FeatureId::ARCH) {
        Some(Feature::Arch(name)) => Machine::from_uname(name.as_bytes()),
        _ => Machine::X86,
    }
}
