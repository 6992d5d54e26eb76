//! One record as a line, or as a block with its call chain.

use std::cell::OnceCell;
use std::io::Write as _;

use rustc_hash::FxHashMap;

use crate::perfdata::Cursor;
use crate::perfdata::RecordHeader;
use crate::perfdata::RecordKind;
use crate::perfdata::feature::Feature;
use crate::perfdata::feature::FeatureId;
use crate::perfdata::misc;
use crate::render::escape::escape;
use crate::replay::Ends;
use crate::replay::Frame;
use crate::replay::Nameless;
use crate::replay::Recording;
use crate::replay::Resolver;
use crate::replay::TaskAt;
use crate::replay::Unwinding;
use crate::replay::spans::Moment;
use crate::replay::unnamed_comm;
use crate::units::FileOffset;
use crate::units::Nanos;
use crate::units::Pid;
use crate::units::Tid;

use super::Fields;
use super::Layout;
use super::Options;
use super::Records;
use super::Source;
use super::Texts;
use super::clock::Printed;
use super::number::decimal;
use super::number::signed;
use super::number::zero_padded;
use super::place::CodeNames;
use super::place::Places;
use super::registers::Machine;

/// Formats records; each thread has one of its own, with what it has named so far.
pub(super) struct Formatter<'a> {
    pub(super) source: &'a Source<'a>,
    pub(super) options: &'a Options,
    pub(super) texts: &'a Texts,
    pub(super) resolver: Resolver<'a>,
    /// The longest name of an event, to which all are aligned.
    pub(super) name_width: usize,
    /// What is shown of a frame.
    pub(super) places: Places<'a>,
    /// The machine that was recorded.
    pub(super) machine: Machine,
    printed: Printed,
    /// Where a pipe describes its first event, once that was asked for.
    pub(super) events_from: OnceCell<u64>,
    /// The line of source that was shown last of each thread.
    pub(super) shown_lines: FxHashMap<(Pid, Tid), (String, u32)>,
    /// How wide what says where data came from has become.
    pub(super) data_source_width: usize,
    pub(super) comms: Vec<String>,
    pub(super) frames: Vec<Frame>,
    /// Samples whose call chain does not fit into their record.
    pub(super) n_bad_chains: u64,
    /// Samples that were printed.
    pub(super) n_samples: u64,
    /// Samples of guests, which were not.
    pub(super) n_guest: u64,
    /// Samples that have no name where one is shown.
    pub(super) nameless: Nameless,
    /// Whether samples are wanted, by [`Switch`](super::Switch).
    pub(super) is_on: Option<bool>,
}

/// What stands at the beginning of a line.
#[derive(Clone, Copy)]
pub(super) struct Prefix {
    pub(super) fields: Fields,
    /// The header of the record.
    pub(super) header: RecordHeader,
    pub(super) task: (Pid, Tid),
    /// The thread whose name is shown.
    pub(super) named: Tid,
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
            events_from: OnceCell::new(),
            shown_lines: FxHashMap::default(),
            data_source_width: 0,
            comms: source.index.comms.iter().map(|it| escape(it).into_owned()).collect(),
            frames: Vec::new(),
            n_bad_chains: 0,
            n_samples: 0,
            n_guest: 0,
            nameless: Nameless::default(),
            is_on: None,
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
            if !self.options.shown.contains(&header.kind) {
                return;
            }
        }
        match (header.kind, self.options.records) {
            (RecordKind::SAMPLE, Records::Others) | (_, Records::OfReport) => {}
            (RecordKind::SAMPLE, _) => self.sample(header, body, at, out),
            (_, Records::Samples) => {}
            _ => self.other_record(header, body, at, out),
        }
    }

    /// The address `addr`, met with the privilege bits `mode`.
    pub(super) fn frame(&self, task: &TaskAt, mode: u16, addr: u64, moment: Moment) -> Frame {
        self.resolver.frame(task, mode, addr, moment)
    }

    /// Whether a record that is no sample is wanted.
    pub(super) fn has_cpu(&self, cpu: Option<u32>) -> bool {
        self.options.only.has_cpu(cpu)
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
        let Prefix { fields, header, task: (pid, tid), named, cpu, time, has_chain } = *prefix;
        let layout = self.options.layout;
        if fields.contains(Fields::COMM) {
            let unnamed;
            let known = task.comm.map(|comm| &self.comms[comm.0 as usize]);
            // A thread can name itself with nothing, which would shift the fields behind.
            let comm = match known.filter(|comm| !comm.is_empty()) {
                Some(comm) => comm,
                None => {
                    unnamed = String::from_utf8_lossy(&unnamed_comm(named)).into_owned();
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

/// The machine that was recorded; this one's kind if nothing tells it.
fn machine(recording: &Recording) -> Machine {
    match recording.feature(FeatureId::ARCH) {
        Some(Feature::Arch(name)) => Machine::from_uname(name.as_bytes()),
        _ => Machine::X86,
    }
}
