//! Annotated code as JSON; `docs/json.md` is its schema.

use std::borrow::Cow;
use std::cell::Cell;
use std::io;
use std::io::Write;

use serde::Serialize;
use serde::Serializer;

use crate::perfdata::bpf_info::ProgInfo;
use crate::profile::AnnotatedInstruction;
use crate::profile::Weight;
use crate::render::json;
use crate::render::json::Layout;
use crate::replay::resolved::Dso;
use crate::replay::resolved::EventInfo;
use crate::symbols::CodeLine;
use crate::symbols::CodeLines;
use crate::symbols::Flow;
use crate::symbols::Machine;
use crate::units::Addr;

use super::Context;
use super::Function;
use super::Missing;
use super::Share;
use super::Style;
use super::bytes_in_hex;

/// The version of the schema: it changes when something that was there means something else or is
/// gone.
const VERSION: u32 = 1;

/// Writes `functions`, and the names of those without code, as one JSON object and a line end.
///
/// # Errors
///
/// What `out` gives.
pub fn json<'f>(
    out: &mut dyn Write,
    functions: impl Iterator<Item = Function<'f>>,
    missing: &'f [Missing<'f>],
    context: &'f Context<'f>,
    style: &'f Style,
) -> io::Result<()> {
    let functions = functions.map(|function| FunctionObject { function, context, style });
    let events = with_samples(context.events, context);
    let event = |(it, total): (&'f EventInfo, Weight)| EventObject {
        name: &it.name,
        samples: total.n_samples,
        period: total.period,
    };
    let without_code = |it: &'f Missing<'f>| MissingObject {
        name: it.name,
        module: it.dso.map(module),
        parts: parts(&it.totals, context),
        because: it.because.to_string(),
    };
    let document = Document {
        schema: "bpfperf.annotate",
        version: VERSION,
        events: events.map(event).collect(),
        functions: Sequence(Cell::new(Some(functions))),
        missing: missing.iter().map(without_code).collect(),
    };
    json::write(&document, Layout::Compact, out)?;
    writeln!(out)
}

#[derive(Serialize)]
#[serde(bound = "F: Iterator<Item: Serialize>")]
struct Document<'a, F> {
    schema: &'static str,
    version: u32,
    events: Vec<EventObject<'a>>,
    functions: Sequence<F>,
    missing: Vec<MissingObject<'a>>,
}

/// What an iterator gives, each made into text before the next is made.
struct Sequence<I>(Cell<Option<I>>);

impl<I: Iterator<Item: Serialize>> Serialize for Sequence<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.take().into_iter().flatten())
    }
}

#[derive(Serialize)]
struct EventObject<'a> {
    name: &'a str,
    samples: u64,
    period: u64,
}

/// A number of samples, and their share of the event's, by period.
#[derive(Clone, Copy, Serialize)]
struct Part {
    samples: u64,
    period: u64,
    percent: f64,
}

/// The events with samples: their parts alone are shown.
fn with_samples<'t, T>(
    list: &'t [T],
    context: &'t Context<'_>,
) -> impl Iterator<Item = (&'t T, Weight)> {
    list.iter().zip(context.totals.iter().copied()).filter(|(_, total)| total.n_samples != 0)
}

/// The parts of the events, in their order.
fn parts(weights: &[Weight], context: &Context<'_>) -> Vec<Part> {
    let part = |(weight, total): (&Weight, Weight)| Part {
        samples: weight.n_samples,
        period: weight.period,
        percent: Share::GlobalPeriod.percent(*weight, *weight, total),
    };
    with_samples(weights, context).map(part).collect()
}

#[derive(Serialize)]
struct MissingObject<'a> {
    name: &'a str,
    module: Option<&'a str>,
    parts: Vec<Part>,
    because: String,
}

fn module(dso: &Dso) -> &str {
    &dso.long_name
}

/// An address: in text, since many readers of JSON have no whole numbers beyond 2^53.
struct Hex(Addr);

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("0x{}", self.0))
    }
}

struct FunctionObject<'a> {
    function: Function<'a>,
    context: &'a Context<'a>,
    style: &'a Style,
}

#[derive(Serialize)]
#[serde(bound = "I: Iterator<Item: Serialize>")]
struct FunctionBody<'a, I> {
    name: &'a str,
    module: Option<&'a str>,
    program: Option<ProgramObject<'a>>,
    machine: &'static str,
    addr: Hex,
    len: usize,
    lines: Option<&'static str>,
    parts: Vec<Part>,
    instructions: Sequence<I>,
}

#[derive(Serialize)]
struct ProgramObject<'a> {
    id: Option<u32>,
    name: Cow<'a, str>,
    tag: Option<String>,
    #[serde(rename = "type")]
    kind: Option<&'static str>,
    load_time_ns: Option<u64>,
    function: usize,
    functions: Option<u32>,
}

#[derive(Serialize)]
struct InstructionObject<'a> {
    offset: u64,
    addr: Hex,
    bytes: String,
    text: &'a str,
    parts: Option<Vec<Part>>,
    line: Option<LineObject<'a>>,
    target: Option<TargetObject>,
}

#[derive(Serialize)]
struct LineObject<'a> {
    file: Cow<'a, str>,
    line: u32,
    column: u32,
    text: Option<Cow<'a, str>>,
}

#[derive(Serialize)]
struct TargetObject {
    kind: &'static str,
    addr: Hex,
    symbol: Option<String>,
    offset: Option<u64>,
}

impl Serialize for FunctionObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { function, context, style } = self;
        let code = &function.annotated.code;
        let rows = function.annotated.instructions(style.syntax);
        let body = FunctionBody {
            name: function.name,
            module: function.dso.map(module),
            program: self.program(),
            machine: match code.machine {
                Machine::X86_64 => "x86_64",
                Machine::X86 => "i386",
            },
            addr: Hex(code.start),
            len: code.bytes.len(),
            lines: match code.lines {
                CodeLines::None => None,
                CodeLines::Bpf { .. } => Some("btf"),
                CodeLines::Dwarf(_) => Some("dwarf"),
            },
            parts: parts(&function.annotated.samples.totals, context),
            instructions: Sequence(Cell::new(Some(rows.map(|row| Row {
                annotated: row,
                of: self,
                context,
            })))),
        };
        body.serialize(serializer)
    }
}

impl FunctionObject<'_> {
    fn program(&self) -> Option<ProgramObject<'_>> {
        let Self { function, context, .. } = self;
        let program = function.program(context)?;
        Some(ProgramObject {
            id: program.id.map(|it| it.0),
            name: String::from_utf8_lossy(&program.name),
            tag: program.tag.map(|it| it.to_string()),
            kind: program.type_name(),
            load_time_ns: program.load_time_ns,
            function: function.number(context)?,
            functions: program.info.as_ref().map(ProgInfo::n_functions),
        })
    }
}

struct Row<'a> {
    annotated: AnnotatedInstruction<'a>,
    of: &'a FunctionObject<'a>,
    context: &'a Context<'a>,
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { annotated, of, context } = self;
        let AnnotatedInstruction { instruction, weights, line } = annotated;
        let target = |kind, addr| {
            let found = of.function.target(addr, context);
            TargetObject {
                kind,
                addr: Hex(addr),
                offset: found.as_ref().map(|it| it.offset),
                symbol: found.map(|it| it.name),
            }
        };
        let body = InstructionObject {
            offset: instruction.addr - of.function.annotated.code.start,
            addr: Hex(instruction.addr),
            bytes: bytes_in_hex(of.function.annotated.bytes(instruction), ""),
            text: &instruction.text,
            parts: weights.as_ref().map(|it| parts(it, context)),
            line: line.as_ref().map(|it| self.line(it)),
            target: match (instruction.flow, instruction.refers_to) {
                (Flow::Jump(Some(addr)), _) => Some(target("jump", addr)),
                (Flow::Call(Some(addr)), _) => Some(target("call", addr)),
                (_, Some(addr)) => Some(target("data", addr)),
                _ => None,
            },
        };
        body.serialize(serializer)
    }
}

impl Row<'_> {
    fn line<'l>(&'l self, line: &CodeLine<'l>) -> LineObject<'l> {
        let text = match line.text {
            _ if !self.of.style.has_source => None,
            Some(text) => Some(String::from_utf8_lossy(text)),
            None => self.context.source.line(line.file, line.line).map(Cow::Owned),
        };
        LineObject {
            file: String::from_utf8_lossy(line.file),
            line: line.line,
            column: line.column,
            text,
        }
    }
}
