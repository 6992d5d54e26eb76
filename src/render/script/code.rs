//! The code that ran: the instruction of a sample, that between its branches, and its lines of source.

use std::io::Write as _;

use crate::perfdata::Branches;
use crate::perfdata::misc;
use crate::render::escape::push_escaped;
use crate::replay::Frame;
use crate::replay::LONGEST_INSTRUCTION;
use crate::symbols::Flow;
use crate::symbols::Instructions;
use crate::symbols::Machine;
use crate::symbols::Step;
use crate::symbols::Syntax;
use crate::units::Addr;

use super::Fields;
use super::branches::Flags;
use super::line::Formatter;
use super::place::InSource;
use super::sample::Met;

/// What is longer than this, in bytes, is no code between two branches: records of some are missing.
///
/// Source: `MAXBB` and `MAXINSN` in `tools/perf`.
const LONGEST_BLOCK: u64 = (16 << 10) - LONGEST_INSTRUCTION;

/// How far, in bytes, a branch is looked for behind the last one if the sample lies before that.
const REACH: u64 = 128;

/// `PERF_SAMPLE_BRANCH_ANY`.
pub(super) const ANY_BRANCH: u64 = 1 << 3;

/// The width of an instruction before what is known of its branch.
const WIDTH: usize = 30;

/// A branch: where from, where to, and how.
struct Branch {
    from: u64,
    to: u64,
    flags: Flags,
}

/// The code between two addresses, and as much behind it as one instruction can have.
#[derive(Clone, Copy)]
struct Block<'a> {
    machine: Machine,
    code: &'a [u8],
    start: u64,
}

impl<'a> Block<'a> {
    /// What there is of it from `ip` on.
    fn rest(&self, ip: u64) -> Option<&'a [u8]> {
        let skip = usize::try_from(ip.checked_sub(self.start)?).ok()?;
        self.code.get(skip..).filter(|it| !it.is_empty())
    }
}

/// One address is the kernel's and one is not.
struct Crossing;

/// What has been shown of the code of one sample.
#[derive(Default)]
struct Shown<'a> {
    /// The function whose name stands above: its name and its first address.
    function: Option<(&'a str, Addr)>,
    /// How long the branches took so far.
    n_cycles: usize,
}

impl<'a> Formatter<'a> {
    /// Appends the instruction at `frame` in words.
    pub(super) fn disassembled(&self, met: &Met<'_>, frame: &Frame, out: &mut Vec<u8>) {
        if let Some((machine, code)) = self.places.code(frame, LONGEST_INSTRUCTION)
            && Step::at(machine, code).is_some()
        {
            out.extend_from_slice(self.in_words(met, machine, code, frame.ip.0).as_bytes());
        }
    }

    /// The instruction at the start of `code`, which ran at `ip`, and what is where it leads.
    fn in_words(&self, met: &Met<'_>, machine: Machine, code: &[u8], ip: u64) -> String {
        let mut all = Instructions::new(machine, code, Addr(ip), Syntax::Att);
        let Some(first) = all.next() else { return String::new() };
        if let Flow::Jump(Some(target)) | Flow::Call(Some(target)) = first.flow {
            let frame = self.data_frame(&met.task, met.mode, target.0, met.moment);
            if self.source.names.name(&frame).symbol.is_some() {
                let mut name = Vec::new();
                self.places.symbol(&frame, Fields::SYMOFF, &mut name);
                return format!("{} <{}>", first.text, String::from_utf8_lossy(&name));
            }
        }
        first.text
    }

    /// Appends the line of source that `frame` comes from, if it is not the one that was shown of its
    /// thread before.
    pub(super) fn source_code(&mut self, met: &Met<'_>, frame: &Frame, out: &mut Vec<u8>) {
        let Some(line) = self.places.source(frame) else { return };
        let shown = self.shown_lines.get(&met.prefix.task);
        if shown.is_some_and(|(file, number)| *file == line.file && *number == line.line) {
            return;
        }
        let Some(text) = self.text_of(&line) else { return };
        // Writing to memory cannot fail.
        let _written = write!(out, "|{:<8} ", line.line);
        for (idx, part) in text.split('\t').enumerate() {
            if idx != 0 {
                out.push(b'\t');
            }
            push_escaped(part.as_bytes(), out);
        }
        out.push(b'\n');
        self.shown_lines.insert(met.prefix.task, (line.file, line.line));
    }

    /// What stands in `line`, by the recording or on disk.
    pub(super) fn text_of(&self, line: &InSource) -> Option<String> {
        let on_disk = || self.source.text.line(line.file.as_bytes(), line.line);
        line.text.clone().or_else(on_disk)
    }

    /// Appends the code from the first branch up to the sample.
    ///
    /// Source: `perf_sample__fprintf_brstackinsn()` in `tools/perf/builtin-script.c`.
    pub(super) fn branch_code(&mut self, met: &Met<'_>, all: &Branches<'_>, out: &mut Vec<u8>) {
        let words: Vec<u64> = all.entries.iter().collect();
        let branch = |it: &[u64; 3]| Branch { from: it[0], to: it[1], flags: Flags(it[2]) };
        let mut branches: Vec<Branch> = words.as_chunks::<3>().0.iter().map(branch).collect();
        if self.options.max_blocks != 0 {
            branches.truncate(self.options.max_blocks.saturating_add(1));
        }
        let (Some(latest), Some(first)) = (branches.first(), branches.last()) else { return };
        out.push(b'\n');
        let mut shown = Shown::default();
        // Where the first one's block began is not known.
        if let Ok(Some(block)) = self.block(met, first.from, first.from) {
            self.label(met, first.from, &mut shown, out);
            self.jump(met, &block, first, 0, &mut shown, out);
        }
        let mut before = branches.len() - 1;
        while let Some(mut idx) = before.checked_sub(1) {
            let start = branches[before].to;
            let mut block = self.block(met, start, branches[idx].from);
            // Ways into the kernel may be left out where those out of it are not.
            if let (Err(Crossing), Some(behind)) = (&block, idx.checked_sub(1)) {
                idx = behind;
                block = self.block(met, start, branches[idx].from);
            }
            if let Ok(Some(block)) = block {
                self.whole_block(met, &block, &branches[idx], &mut shown, out);
            }
            before = idx;
        }
        let is_aborted = latest.flags.has(3);
        if latest.from != met.frame.ip.0 && !is_aborted {
            self.last_block(met, latest.to, &mut shown, out);
        }
    }

    /// The code from `start` up to the instruction at `end`, if it is at hand.
    fn block(&self, met: &Met<'_>, start: u64, end: u64) -> Result<Option<Block<'a>>, Crossing> {
        if start == 0 || end == 0 {
            return Ok(None);
        }
        if mode(start) != mode(end) {
            return Err(Crossing);
        }
        let Some(len) = end.checked_sub(start).filter(|it| *it <= LONGEST_BLOCK) else {
            return Ok(None);
        };
        let frame = self.frame(&met.task, mode(start), start, met.moment);
        let code = self.places.code(&frame, len + LONGEST_INSTRUCTION);
        Ok(code.map(|(machine, code)| Block { machine, code, start }))
    }

    /// Appends a block that ends with `branch`.
    fn whole_block(
        &mut self,
        met: &Met<'_>,
        block: &Block<'a>,
        branch: &Branch,
        shown: &mut Shown<'a>,
        out: &mut Vec<u8>,
    ) {
        let (mut n_before, mut ip) = (0, block.start);
        while block.rest(ip).is_some() {
            self.label(met, ip, shown, out);
            if ip == branch.from {
                self.jump(met, block, branch, n_before + 1, shown, out);
                break;
            }
            let Some(step) = self.step(met, block, ip, out) else { break };
            self.source_behind(met, ip, out);
            n_before += 1;
            ip += u64::from(step.len);
        }
        if ip != branch.from {
            out.extend_from_slice(b"\tmismatch of LBR data and executable\n");
        }
    }

    /// Appends what ran from `start`, where the last branch led, up to the sample.
    fn last_block(&mut self, met: &Met<'_>, start: u64, shown: &mut Shown<'a>, out: &mut Vec<u8>) {
        let sampled = met.frame.ip.0;
        // If the sample lies before, a branch is missing.
        let end = if sampled < start { start.saturating_add(REACH) } else { sampled };
        let block = self.block(met, start, end);
        self.label(met, start, shown, out);
        let Ok(Some(block)) = block else {
            if let Ok(Some(block)) = self.block(met, sampled, sampled) {
                self.step(met, &block, sampled, out);
                self.source_behind(met, sampled, out);
            }
            return;
        };
        let branches = met.of.attr.branch_sample_type;
        let are_all = branches == 0 || branches & ANY_BRANCH != 0;
        let mut ip = start;
        while ip <= end {
            let Some(step) = self.step(met, &block, ip, out) else { break };
            if are_all && step.always_leaves && ip != sampled {
                out.extend_from_slice(b"\t... not reaching sample ...\n");
                break;
            }
            self.source_behind(met, ip, out);
            ip += u64::from(step.len);
        }
    }

    /// Appends the name of the function at `ip` where another one begins.
    fn label(&self, met: &Met<'_>, ip: u64, shown: &mut Shown<'a>, out: &mut Vec<u8>) {
        let frame = self.frame(&met.task, mode(ip), ip, met.moment);
        let Some(symbol) = self.source.names.name(&frame).symbol else { return };
        let function = Some((symbol.raw, symbol.start));
        if shown.function == function {
            return;
        }
        shown.function = function;
        out.push(b'\t');
        self.places.symbol(&frame, Fields::empty(), out);
        if symbol.offset != 0 {
            let _written = write!(out, "+{}", symbol.offset);
        }
        out.push(b':');
        if met.prefix.fields.contains(Fields::SRCLINE) {
            self.places.line_of(&frame, "\t", out);
        }
        out.push(b'\n');
    }

    /// Appends the instruction that `branch` is, the last one of `n` in its block; 0 if these are not
    /// known.
    fn jump(
        &mut self,
        met: &Met<'_>,
        block: &Block<'a>,
        branch: &Branch,
        n: u32,
        shown: &mut Shown<'a>,
        out: &mut Vec<u8>,
    ) {
        let Branch { from, flags, .. } = branch;
        let fields = met.prefix.fields;
        let (text, step) = self.instruction(met, block, *from);
        let _written = write!(out, "\t{from:016x}\t{text:WIDTH$}\t");
        if fields.contains(Fields::BRSTACKINSNLEN) {
            let _written = write!(out, "ilen: {}\t", step.map_or(0, |it| it.len));
        }
        if fields.contains(Fields::SRCLINE) {
            let frame = self.frame(&met.task, mode(*from), *from, met.moment);
            self.places.line_of(&frame, " srcline: ", out);
            out.push(b'\t');
        }
        out.push(b'#');
        for (bit, name) in [(1, " PRED"), (0, " MISPRED"), (2, " INTX"), (3, " ABORT")] {
            if flags.has(bit) {
                out.extend_from_slice(name.as_bytes());
            }
        }
        let n_cycles = flags.number(4, 16);
        if n_cycles != 0 {
            shown.n_cycles += n_cycles;
            let _written = write!(out, " {n_cycles} cycles [{}]", shown.n_cycles);
            if n != 0 {
                let _written = write!(out, " {:.2} IPC", n as f32 / n_cycles as f32);
            }
        }
        out.push(b'\n');
        self.source_behind(met, *from, out);
    }

    /// Appends the instruction at `ip`; how far it reaches, if it is one.
    fn step(&self, met: &Met<'_>, block: &Block<'a>, ip: u64, out: &mut Vec<u8>) -> Option<Step> {
        let (text, step) = self.instruction(met, block, ip);
        let _written = write!(out, "\t{ip:016x}\t{text}");
        if met.prefix.fields.contains(Fields::BRSTACKINSNLEN) {
            let _written = write!(out, "\tilen: {}", step.map_or(0, |it| it.len));
        }
        out.push(b'\n');
        step
    }

    /// The instruction at `ip`, as text and by its length.
    fn instruction(&self, met: &Met<'_>, block: &Block<'a>, ip: u64) -> (String, Option<Step>) {
        let code = block.rest(ip).unwrap_or_default();
        let Some(step) = Step::at(block.machine, code) else { return ("<bad>".to_owned(), None) };
        if met.prefix.fields.contains(Fields::BRSTACKDISASM) {
            return (self.in_words(met, block.machine, code, ip), Some(step));
        }
        let bytes = &code[..usize::from(step.len)];
        let text = bytes.iter().fold("insn: ".to_owned(), |text, it| text + &format!("{it:02x} "));
        (text, Some(step))
    }

    /// Appends the line of source of the instruction at `ip`, where lines are shown.
    fn source_behind(&mut self, met: &Met<'_>, ip: u64, out: &mut Vec<u8>) {
        if met.prefix.fields.contains(Fields::SRCCODE) {
            let frame = self.frame(&met.task, mode(ip), ip, met.moment);
            self.source_code(met, &frame, out);
        }
    }
}

/// The privilege that code at `addr` runs with.
fn mode(addr: u64) -> u16 {
    if addr >> 63 == 0 { misc::USER } else { misc::KERNEL }
}
