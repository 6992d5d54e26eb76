//! One sample: what is known of it, and as a line, or as a block with its call chain.

use std::io::Write as _;

use crate::events::is_bpf_output;
use crate::perfdata::Attr;
use crate::perfdata::Endian;
use crate::perfdata::RecordHeader;
use crate::perfdata::Sample;
use crate::perfdata::SampleType;
use crate::perfdata::U64s;
use crate::perfdata::misc;
use crate::profile::page_size;
use crate::render::escape::escape;
use crate::replay::Event;
use crate::replay::Frame;
use crate::replay::Reading;
use crate::replay::TaskAt;
use crate::replay::Unknown;
use crate::replay::resolved::Level;
use crate::replay::spans::Moment;
use crate::replay::unnamed_comm;
use crate::units::Addr;
use crate::units::FileOffset;
use crate::units::Pid;
use crate::units::Tid;

use super::Chains;
use super::Fields;
use super::Output;
use super::line::Formatter;
use super::line::Prefix;
use super::memory;
use super::number::decimal;
use super::number::hex;
use super::off_cpu;
use super::registers;
use super::written;

/// A sample that is to be shown.
pub(super) struct Met<'a> {
    pub(super) prefix: Prefix,
    pub(super) task: TaskAt,
    /// The event that it is shown as.
    pub(super) idx: u32,
    pub(super) period: u64,
    /// The event that wrote it.
    pub(super) of: &'a Event,
    /// The privilege bits of its address.
    pub(super) mode: u16,
    /// Where it was.
    pub(super) frame: Frame,
    pub(super) moment: Moment,
    pub(super) body: &'a [u8],
    /// All of it, where anything is shown that lies behind its first fields.
    pub(super) far: Option<Sample<'a>>,
}

impl Formatter<'_> {
    /// Appends a sample, or those that it stands for.
    pub(super) fn sample(
        &mut self,
        header: RecordHeader,
        body: &[u8],
        at: FileOffset,
        out: &mut Vec<u8>,
    ) {
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
        let Reading { event: idx, period } = reading;
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
        if (fields - Fields::FLAGS).is_empty()
            || only.event.is_some_and(|it| it != idx)
            || !only.has_time(time)
            || !only.has_cpu(cpu)
            || !only.has_thread(pid, tid)
            || !self.is_wanted(&task, tid)
        {
            return;
        }
        let frame = self.frame(&task, mode, ip, moment);
        if matches!(frame.level, Level::GuestKernel | Level::GuestUser) {
            self.n_guest += 1;
            return;
        }
        if self.options.only.needs_names() && !self.is_wanted_place(&frame) {
            return;
        }
        if !self.options.only.switch.wants(idx, &mut self.is_on) {
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
        let later = chain.and_then(|it| self.source.index.deferred.merged(at.0, &it));
        let chain = later.as_deref().map(|it| U64s::new(it, Endian::NATIVE)).or(chain);
        let has_chain = fields.contains(Fields::IP) && chain.is_some();
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        if let Some(chain) = chain.filter(|_| has_chain) {
            let max_frames = self.options.max_frames;
            self.resolver.chain(&task, &chain, max_frames, moment, &mut frames);
            if let Some(state) = &state {
                self.resolver.unwind(&task, state, max_frames, moment, &mut frames);
            }
            if let Some(last) = frames.iter().position(|it| self.is_last(it)) {
                frames.truncate(last + 1);
            }
        }
        let task_ids = (pid, tid);
        let prefix = Prefix { fields, header, task: task_ids, named: tid, cpu, time, has_chain };
        let met = Met { prefix, task, idx, period, of, mode, frame, moment, body, far };
        match self.options.output {
            Output::Text => self.text(&met, &frames, out),
            Output::Json => self.json(&met, &frames, out),
        }
        self.frames = frames;
    }

    /// Appends a sample as perf shows it.
    fn text(&mut self, met: &Met<'_>, frames: &[Frame], out: &mut Vec<u8>) {
        let Met { prefix, task, idx, period, of, mode, frame, moment, far, .. } = met;
        let fields = prefix.fields;
        let event = &self.source.recording.events[*idx as usize];
        self.prefix(prefix, *task, out);
        if fields.contains(Fields::PERIOD) {
            decimal(*period, 10, out);
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
        self.trace(met, out);
        let dumped = self.output(met, out);
        let has_branch_form = is_traced_branch(&event.attr);
        if fields.contains(Fields::ADDR) && !has_branch_form {
            self.address(met, out);
        }
        if let Some(sample) = far {
            self.costs(sample, &of.attr, fields, out);
        }
        if fields.contains(Fields::IP) && prefix.has_chain {
            out.push(b'\n');
            let mut sampled = None;
            for frame in frames {
                let nameless = self.places.in_chain(frame, fields, out);
                sampled = sampled.or(Some(nameless));
            }
            self.count(sampled.flatten(), fields);
        } else if fields.contains(Fields::IP) {
            out.push(b' ');
            let nameless = self.places.alone(frame, fields, out);
            self.count(nameless, fields);
        }
        if has_branch_form && fields.contains(Fields::ADDR) {
            out.extend_from_slice(b" => ");
            self.address(met, out);
        }
        if let Some(sample) = far {
            self.state(sample, &of.attr, fields, out);
            if let Some(branches) = &sample.branches
                && fields.intersects(Fields::BRSTACK | Fields::BRSTACKSYM | Fields::BRSTACKOFF)
            {
                self.branches(branches, task, *mode, *moment, fields, out);
            }
        }
        if let Some(raw) = dumped {
            written::dump(raw, out);
        }
        if fields.intersects(Fields::INSN | Fields::INSNLEN) {
            let bytes = self.places.instruction(frame);
            if fields.contains(Fields::INSNLEN) {
                let _written = write!(out, " ilen: {}", bytes.len());
            }
            if fields.contains(Fields::INSN) && !bytes.is_empty() {
                out.extend_from_slice(b" insn:");
                for byte in bytes {
                    let _written = write!(out, " {byte:02x}");
                }
            }
        }
        if fields.contains(Fields::DISASM) {
            out.extend_from_slice(b"\t\t");
            self.disassembled(met, frame, out);
        }
        if let Some(branches) = far.as_ref().and_then(|it| it.branches.as_ref())
            && fields.intersects(Fields::BRANCH_CODE)
        {
            self.branch_code(met, branches, out);
        }
        if let Some(sample) = far {
            pages(sample, fields, out);
        }
        out.push(b'\n');
        if fields.contains(Fields::SRCCODE) {
            self.source_code(met, frame, out);
        }
    }

    /// Appends what a tracepoint noted.
    pub(super) fn trace(&self, met: &Met<'_>, out: &mut Vec<u8>) {
        if met.prefix.fields.contains(Fields::TRACE)
            && let Ok(Some(raw)) = met.of.sample.raw(met.body)
        {
            // Functions that raw data points to are the kernel's.
            let function = |addr| {
                let frame = self.frame(&met.task, misc::KERNEL, addr, met.moment);
                let symbol = self.source.names.name(&frame).symbol?;
                Some((symbol.shown(), symbol.offset))
            };
            self.texts.traces.print(met.idx as usize, raw, function, out);
        }
    }

    /// Appends what a BPF program wrote, or gives its bytes if they are of no known type.
    pub(super) fn output<'m>(&self, met: &Met<'m>, out: &mut Vec<u8>) -> Option<&'m [u8]> {
        let event = &self.source.recording.events[met.idx as usize];
        if !met.prefix.fields.contains(Fields::BPF_OUTPUT) || !is_bpf_output(&event.attr) {
            return None;
        }
        if let Some(off_cpu) = met.of.sample.off_cpu(met.body) {
            // Most of it has been printed with the other fields.
            if let Some(more) = off_cpu.more {
                off_cpu::append(&more, out);
            }
            return None;
        }
        let raw = met.of.sample.raw(met.body).ok()??;
        (!self.texts.written.print(met.idx as usize, raw, out)).then_some(raw)
    }

    /// The place of the data address.
    pub(super) fn data_place(&self, met: &Met<'_>) -> Frame {
        let address = met.of.sample.addr(met.body).unwrap_or_default().0;
        self.data_frame(&met.task, met.mode, address, met.moment)
    }

    /// Appends the data address, and what lies there if that can be a symbol.
    fn address(&self, met: &Met<'_>, out: &mut Vec<u8>) {
        let fields = met.prefix.fields;
        let frame = &self.data_place(met);
        hex(frame.ip.0, 16, out);
        if !has_symbol(&self.source.recording.events[met.idx as usize].attr) {
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
        let parts = weights(sample, attr);
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

    fn is_wanted(&self, task: &TaskAt, tid: Tid) -> bool {
        let comms = &self.options.only.comms;
        comms.is_empty()
            || match task.comm {
                Some(comm) => comms.contains(&self.source.index.comms[comm.0 as usize]),
                None => comms.contains(&unnamed_comm(tid)),
            }
    }

    /// Counts a sample; `unknown` is its address, if it has no name.
    pub(super) fn count(&mut self, unknown: Option<Unknown>, fields: Fields) {
        if fields.contains(Fields::SYM) {
            self.nameless.add(unknown, 1);
        }
    }
}

/// Whether the data address of such an event's samples can be of a symbol: that of a page fault, and the
/// target of a branch.
pub(super) fn has_symbol(attr: &Attr) -> bool {
    matches!((attr.kind, attr.config), (1, 2 | 5 | 6)) || is_traced_branch(attr)
}

/// The weight, and the latencies that are parts of it.
pub(super) fn weights(sample: &Sample<'_>, attr: &Attr) -> [u64; 3] {
    let weight = sample.weight.unwrap_or_default();
    if attr.sample_type.contains(SampleType::WEIGHT_STRUCT) {
        [weight & u64::from(u32::MAX), weight >> 32 & 0xffff, weight >> 48]
    } else {
        [weight, 0, 0]
    }
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
        let _written = write!(out, " {}", page_size(size.unwrap_or_default()));
    }
}
