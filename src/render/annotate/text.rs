//! Annotated code as text.

use std::collections::BTreeMap;
use std::io;
use std::io::Write;

use crate::perfdata::bpf_info::ProgInfo;
use crate::profile::AnnotatedInstruction;
use crate::profile::Weight;
use crate::render::escape::escape;
use crate::symbols::CodeLine;
use crate::symbols::Flow;
use crate::symbols::Instruction;

use super::Context;
use super::Function;
use super::Style;
use super::bytes_in_hex;

/// The share of a function below which a line is not among the heaviest, in percent, as with perf.
const MIN_LINE_PERCENT: f64 = 0.5;

/// Writes `function` with what fell on it of the event with the number `event`.
///
/// # Errors
///
/// What `out` gives.
pub fn text(
    out: &mut dyn Write,
    function: &Function<'_>,
    event: usize,
    context: &Context<'_>,
    style: &Style,
) -> io::Result<()> {
    Block { function, event, context, style }.write(out)
}

struct Block<'a> {
    function: &'a Function<'a>,
    event: usize,
    context: &'a Context<'a>,
    style: &'a Style,
}

impl Block<'_> {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.style.has_lines {
            self.write_heaviest_lines(out)?;
        }
        self.write_head(out)?;
        let Self { function, style, .. } = self;
        let code = &function.annotated.code;
        let last = function.shown(code.start + (code.bytes.len() as u64).saturating_sub(1));
        let width = format!("{last:x}").len();
        let mut shown: Option<(Vec<u8>, u32)> = None;
        for row in function.annotated.instructions(style.syntax) {
            if let Some(line) = row.line.filter(|_| style.has_source)
                && shown.as_ref().is_none_or(|(file, number)| {
                    (file.as_slice(), *number) != (line.file, line.line)
                })
            {
                self.write_source(out, &line)?;
                shown = Some((line.file.to_vec(), line.line));
            }
            self.write_instruction(out, &row, width)?;
        }
        Ok(())
    }

    fn write_head(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { function, context, style, .. } = self;
        let event = context.events.get(self.event).map_or("", |it| it.name.as_str());
        let module = function.dso.map_or(function.name, |it| it.short_name.as_str());
        let head = format!(
            " Percent |\tSource code & Disassembly of {} for {} ({} samples, percent: {})",
            escape(module.as_bytes()),
            escape(event.as_bytes()),
            self.total().n_samples,
            style.share.name(),
        );
        writeln!(out, "{head}\n{}", "-".repeat(head.chars().count() + 5))?;
        let start = function.annotated.code.start;
        let name = escape(function.name.as_bytes());
        writeln!(out, "         :\n         : {start:0>16} <{name}>:")?;
        if let Some(program) = function.program(context) {
            write!(out, "         : BPF program")?;
            if let Some(id) = program.id {
                write!(out, " {id}")?;
            }
            if let Some(kind) = program.type_name() {
                write!(out, " ({kind})")?;
            }
            let of = program.info.as_ref().map_or(0, ProgInfo::n_functions);
            let idx = function.number(context).unwrap_or_default();
            writeln!(
                out,
                ", function {idx} of {of}, {} bytes",
                function.annotated.code.bytes.len()
            )?;
        }
        writeln!(out, "         :")
    }

    fn write_source(&self, out: &mut dyn Write, line: &CodeLine<'_>) -> io::Result<()> {
        let place = self.place(line);
        let text = match line.text {
            Some(text) => Some(plain(text)),
            None => self.context.source.line(line.file, line.line).map(|it| plain(it.as_bytes())),
        };
        let text = text.unwrap_or_default();
        let line = format!("         : {place}   {text}");
        writeln!(out, "{}", line.trim_end())
    }

    fn write_instruction(
        &self,
        out: &mut dyn Write,
        row: &AnnotatedInstruction<'_>,
        width: usize,
    ) -> io::Result<()> {
        let Self { function, style, .. } = self;
        let AnnotatedInstruction { instruction, weights, line } = row;
        let weight = weights.as_ref().and_then(|it| it.get(self.event)).copied();
        let percent = self.percent(weight.unwrap_or_default());
        write!(out, " {percent:7.2} :   {:>width$x}:   ", function.shown(instruction.addr))?;
        if style.has_bytes {
            let bytes = bytes_in_hex(function.annotated.bytes(instruction), " ");
            write!(out, "{bytes:<23} ")?;
        }
        write!(out, "{}", self.shown_text(instruction))?;
        if let Some(line) = line.as_ref().filter(|_| style.has_lines && weight.is_some()) {
            write!(out, " // {}", self.place(line))?;
        }
        writeln!(out)
    }

    /// The text of an instruction, with what lies at the place that it leads or refers to.
    fn shown_text(&self, instruction: &Instruction) -> String {
        let Self { function, context, .. } = self;
        let Instruction { text, flow, refers_to, .. } = instruction;
        let target = |addr| {
            function.target(addr, context).map(|it| {
                let name = escape(it.name.as_bytes()).into_owned();
                if it.offset == 0 {
                    format!("<{name}>")
                } else {
                    format!("<{name}+{:#x}>", it.offset)
                }
            })
        };
        if let Flow::Jump(Some(addr)) | Flow::Call(Some(addr)) = flow {
            let code = &function.annotated.code;
            let is_own = *addr - code.start < code.bytes.len() as u64;
            let own = if is_own { text.strip_suffix(&format!("{addr}")) } else { None };
            let text = own.map_or_else(
                || text.clone(),
                |before| format!("{before}{:x}", function.shown(*addr)),
            );
            return target(*addr).map_or(text.clone(), |it| format!("{text} {it}"));
        }
        let Some(addr) = refers_to else { return text.clone() };
        let target = target(*addr).map_or(String::new(), |it| format!(" {it}"));
        format!("{text}        # {addr}{target}")
    }

    /// The lines that weigh most, the heaviest first.
    fn write_heaviest_lines(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { function, style, .. } = self;
        let mut lines: BTreeMap<String, Weight> = BTreeMap::new();
        for row in function.annotated.instructions(style.syntax) {
            let weight = row.weights.as_ref().and_then(|it| it.get(self.event)).copied();
            if let Some((line, weight)) = row.line.zip(weight) {
                *lines.entry(self.place(&line)).or_default() += weight;
            }
        }
        let mut lines: Vec<(String, f64)> =
            lines.into_iter().map(|(line, it)| (line, self.percent(it))).collect();
        lines.retain(|(_, percent)| MIN_LINE_PERCENT < *percent);
        lines.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        if lines.is_empty() {
            return Ok(());
        }
        let module = function.dso.map_or(function.name, |it| it.long_name.as_str());
        writeln!(out, "\nSorted summary for file {}", escape(module.as_bytes()))?;
        writeln!(out, "{}\n", "-".repeat(46))?;
        lines.iter().try_for_each(|(line, percent)| writeln!(out, " {percent:7.2} {line}"))
    }

    /// `file:line`.
    fn place(&self, line: &CodeLine<'_>) -> String {
        let base = line.file.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let file = if self.style.has_full_paths { line.file } else { base };
        let file = if file.is_empty() { "?".into() } else { escape(file) };
        format!("{file}:{}", line.line)
    }

    fn percent(&self, weight: Weight) -> f64 {
        let whole = self.context.totals.get(self.event).copied().unwrap_or_default();
        self.style.share.percent(weight, self.total(), whole)
    }

    /// What fell on the function.
    fn total(&self) -> Weight {
        self.function.annotated.samples.totals.get(self.event).copied().unwrap_or_default()
    }
}

/// A line of source for the terminal: tabs reach to every eighth column.
fn plain(line: &[u8]) -> String {
    let mut text = String::new();
    for (idx, part) in line.split(|&byte| byte == b'\t').enumerate() {
        if idx != 0 {
            let column = text.chars().count();
            text.extend(std::iter::repeat_n(' ', 8 - column % 8));
        }
        text.push_str(&escape(part));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_source_keeps_its_shape_and_off_the_terminal() {
        assert_eq!(plain(b"\t\tx = 1;\t// one"), "                x = 1;  // one");
        assert_eq!(plain(b"        \tx"), "                x");
        assert_eq!(plain(b"a\x1b[2Jb\r\xff"), "a\\x1b[2Jb\\r\\xff");
        assert_eq!(plain(b""), "");
    }
}
