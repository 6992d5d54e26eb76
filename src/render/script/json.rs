//! A record as an object of JSON, on a line of its own.
//!
//! `docs/script-json.md` has the members, which are those of the fields that are printed.

use serde::Serialize;
use serde_json::Map;
use serde_json::Value;

use crate::perfdata::RecordHeader;
use crate::perfdata::Registers;
use crate::render::json;
use crate::render::json::Layout;
use crate::replay::Frame;
use crate::replay::Unknown;

use super::Fields;
use super::line::Formatter;
use super::line::Prefix;
use super::memory;
use super::sample::Met;
use super::sample::has_symbol;
use super::sample::weights;

/// The members of an object, in order.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
struct Members(Map<String, Value>);

impl Members {
    fn add(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// A number that is an address, or bits: JSON's own numbers are not exact beyond 2^53.
    fn add_hex(&mut self, name: &str, value: u64) {
        self.add(name, format!("{value:#x}"));
    }

    fn write(&self, out: &mut Vec<u8>) {
        // Writing to memory cannot fail, and the members are values.
        let _written = json::write(self, Layout::Compact, out);
        out.push(b'\n');
    }
}

impl Formatter<'_> {
    /// Appends a sample.
    pub(super) fn json(&mut self, met: &Met<'_>, frames: &[Frame], out: &mut Vec<u8>) {
        let fields = met.prefix.fields;
        let mut members = self.beginning("SAMPLE", &met.prefix, &met.task);
        if fields.contains(Fields::PERIOD) {
            members.add("period", met.period);
        }
        if fields.contains(Fields::EVENT) {
            let event = &self.source.recording.events[met.idx as usize];
            members.add("event", event.name.as_str());
        }
        let mut text = Vec::new();
        self.trace(met, &mut text);
        if fields.contains(Fields::TRACE) && !text.is_empty() {
            members.add("trace", String::from_utf8_lossy(&text));
        }
        text.clear();
        match self.output(met, &mut text) {
            Some(raw) => members.add("output_bytes", bytes(raw)),
            None if text.is_empty() => {}
            None => members.add("output", String::from_utf8_lossy(&text).trim_end()),
        }
        if fields.contains(Fields::ADDR) {
            let frame = self.data_place(met);
            let event = &self.source.recording.events[met.idx as usize];
            let shown = if has_symbol(&event.attr) { fields } else { Fields::IP };
            members.add("addr", self.place(&frame, shown));
        }
        if fields.contains(Fields::IP) {
            if met.prefix.has_chain {
                let places: Vec<Value> = frames.iter().map(|it| self.place(it, fields)).collect();
                members.add("callchain", places);
                self.count(frames.first().and_then(|it| self.nameless(it)), fields);
            } else {
                members.add("ip", self.place(&met.frame, fields));
                self.count(self.nameless(&met.frame), fields);
            }
        }
        if fields.intersects(Fields::INSN | Fields::INSNLEN) {
            members.add("insn", bytes(self.places.instruction(&met.frame)));
        }
        if fields.contains(Fields::DISASM) {
            let mut text = Vec::new();
            self.disassembled(met, &met.frame, &mut text);
            members.add("disasm", String::from_utf8_lossy(&text));
        }
        if fields.contains(Fields::SRCCODE)
            && let Some(line) = self.places.source(&met.frame)
        {
            let mut members_of_line = Members::default();
            members_of_line.add("file", line.file.as_str());
            members_of_line.add("line", line.line);
            members_of_line.add("text", self.text_of(&line));
            members.add("source", Value::Object(members_of_line.0));
        }
        self.far(met, &mut members);
        members.write(out);
    }

    /// The address of `frame`, if it has no name.
    fn nameless(&self, frame: &Frame) -> Option<Unknown> {
        self.source.names.name(frame).symbol.is_none().then(|| Unknown::of(frame))
    }

    /// Appends a record that is no sample and says `text`.
    pub(super) fn json_record(
        &self,
        header: RecordHeader,
        prefix: &Prefix,
        task: &crate::replay::TaskAt,
        text: &str,
        out: &mut Vec<u8>,
    ) {
        let kind = header.kind.name().unwrap_or("UNKNOWN");
        let mut members = self.beginning(kind, prefix, task);
        members.add("text", text.trim_start_matches([':', ' ']));
        members.write(out);
    }

    fn beginning(&self, kind: &str, prefix: &Prefix, task: &crate::replay::TaskAt) -> Members {
        let Prefix { fields, task: (pid, tid), named, cpu, time, .. } = *prefix;
        let mut members = Members::default();
        members.add("record", kind);
        if fields.contains(Fields::COMM) {
            members.add("comm", self.comm(task, named));
        }
        if fields.contains(Fields::PID) {
            members.add("pid", pid.0);
        }
        if fields.contains(Fields::TID) {
            members.add("tid", tid.0);
        }
        if let Some(cpu) = cpu.filter(|it| fields.contains(Fields::CPU) && *it != u32::MAX) {
            members.add("cpu", cpu);
        }
        if fields.contains(Fields::TIME) {
            members.add("time_ns", time.0);
        }
        if fields.contains(Fields::TOD) {
            let mut text = Vec::new();
            self.options.clock.time_of_day(time, &mut text);
            members.add("time_of_day", String::from_utf8_lossy(&text));
        }
        members
    }

    /// A place: its address, what it is called, and where it is in the source.
    fn place(&self, frame: &Frame, fields: Fields) -> Value {
        let mut members = Members::default();
        members.add_hex("ip", frame.ip.0);
        let name = self.source.names.name(frame);
        if let Some(symbol) = name.symbol.filter(|_| fields.contains(Fields::SYM)) {
            members.add("symbol", symbol.shown());
            if fields.contains(Fields::SYMOFF) {
                members.add("offset", symbol.offset);
            }
        }
        if let Some(dso) = name.dso.filter(|_| fields.contains(Fields::DSO)) {
            members.add("dso", dso.long_name.as_str());
            if fields.contains(Fields::DSOFF) {
                members.add("dso_offset", name.addr.0);
            }
        }
        Value::Object(members.0)
    }

    fn far(&self, met: &Met<'_>, members: &mut Members) {
        let Some(sample) = &met.far else { return };
        let fields = met.prefix.fields;
        if let Some(source) = sample.data_src.filter(|_| fields.contains(Fields::DATA_SRC)) {
            members.add("data_src", memory::data_source(source).trim_start());
        }
        let names = [
            ("weight", Fields::WEIGHT),
            ("ins_lat", Fields::INS_LAT),
            ("retire_lat", Fields::RETIRE_LAT),
        ];
        for ((name, field), part) in names.into_iter().zip(weights(sample, &met.of.attr)) {
            if fields.contains(field) {
                members.add(name, part);
            }
        }
        if let Some(cgroup) = sample.cgroup.filter(|_| fields.contains(Fields::CGROUP)) {
            let path = self.source.index.cgroups.get(&cgroup);
            members.add("cgroup", path.map(|it| String::from_utf8_lossy(it)));
        }
        let registers = [
            ("iregs", Fields::IREGS, &sample.regs_intr, met.of.attr.sample_regs_intr),
            ("uregs", Fields::UREGS, &sample.regs_user, met.of.attr.sample_regs_user),
        ];
        for (name, field, registers, mask) in registers {
            if let Some(registers) = registers
                && fields.contains(field)
            {
                members.add(name, self.registers(registers, mask));
            }
        }
        if let Some(branches) = &sample.branches
            && fields.intersects(
                Fields::BRSTACK | Fields::BRSTACKSYM | Fields::BRSTACKOFF | Fields::BRANCH_CODE,
            )
        {
            let branches = self.named_branches(branches, met).map(|(from, to, flags)| {
                let mut members = Members::default();
                members.add("from", self.place(&from, fields));
                members.add("to", self.place(&to, fields));
                members.add("flags", flags.trim_matches(['/', ' ']));
                Value::Object(members.0)
            });
            members.add("branches", branches.collect::<Vec<_>>());
        }
        if let Some(addr) = sample.phys_addr.filter(|_| fields.contains(Fields::PHYS_ADDR)) {
            members.add_hex("phys_addr", addr);
        }
        let sizes = [
            ("data_page_size", Fields::DATA_PAGE_SIZE, sample.data_page_size),
            ("code_page_size", Fields::CODE_PAGE_SIZE, sample.code_page_size),
        ];
        for (name, field, size) in sizes {
            if let Some(size) = size.filter(|_| fields.contains(field)) {
                members.add(name, size);
            }
        }
    }

    fn registers(&self, registers: &Registers<'_>, mask: u64) -> Value {
        let mut members = Members::default();
        members.add("abi", registers.abi);
        for (name, value) in self.machine.named(mask, registers) {
            members.add_hex(&name, value);
        }
        Value::Object(members.0)
    }
}

/// Bytes as hexadecimal digits.
fn bytes(raw: &[u8]) -> String {
    use std::fmt::Write;
    raw.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _written = write!(text, "{byte:02x}");
        text
    })
}
