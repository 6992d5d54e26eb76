//! What a tracepoint noted, as its `format` says to print it.
//!
//! A format is compiled once an event, into pieces of text and small programs for the values between
//! them. Printing a sample runs through the pieces and appends to the output: nothing is parsed, looked
//! up by name or allocated for it.

mod compile;
mod data;
mod fields;
mod number;
mod pointer;
mod print;
mod value;

use std::borrow::Cow;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::perfdata::Endian;
use crate::perfdata::feature::Feature;
use crate::perfdata::feature::FeatureId;
use crate::perfdata::trace_format::EventFormat;
use crate::perfdata::trace_format::name_and_id;
use crate::perfdata::tracing_data::TracingData;
use crate::perfdata::tracing_data::printk_formats;
use crate::replay::FunctionAt;
use crate::replay::NotedValue;
use crate::replay::Notes;
use crate::replay::Recording;
use crate::units::FileOffset;

use compile::FieldPiece;
use compile::Program;
use data::Raw;

pub use fields::ALL_FIELDS;
pub use fields::AskedField;
pub use fields::TraceFormats;
pub use fields::has_tracepoints_alone;

/// `PERF_TYPE_TRACEPOINT`.
const TRACEPOINT: u32 = 2;

/// How the tracepoints of a recording are printed.
#[derive(Debug)]
pub(super) struct Traces {
    endian: Endian,
    /// By event of the recording.
    programs: Vec<Option<Program>>,
    /// Constant strings of the recorded kernel, by address.
    strings: FxHashMap<u64, Vec<u8>>,
}

/// What tracepoints note, as text.
#[derive(Debug)]
pub struct TraceNotes {
    traces: Traces,
    is_tracepoint: Vec<bool>,
    /// The fields that are asked for by themselves.
    fields: Vec<AskedField>,
    /// By event, its fields, where these are printed rather than the text.
    raw: Option<Vec<Vec<FieldPiece>>>,
}

impl TraceNotes {
    /// Those of `recording`, and of `fields` by themselves.
    pub fn new(recording: &Recording, fields: Vec<AskedField>) -> Self {
        let is_tracepoint = recording.events.iter().map(|it| it.attr.kind == TRACEPOINT).collect();
        Self { traces: Traces::new(recording), is_tracepoint, fields, raw: None }
    }

    /// The same, printed field by field.
    #[must_use]
    pub fn field_by_field(self, recording: &Recording) -> Self {
        let pieces = |it: Option<Arc<EventFormat>>| {
            it.map_or_else(Vec::new, |it| it.own_fields().iter().map(FieldPiece::new).collect())
        };
        Self { raw: Some(formats(recording).into_iter().map(pieces).collect()), ..self }
    }
}

impl Notes for TraceNotes {
    fn print(&self, event: u32, raw: &[u8], function: &FunctionAt<'_, '_>, out: &mut Vec<u8>) {
        match &self.raw {
            Some(fields) => {
                for field in fields.get(event as usize).into_iter().flatten() {
                    out.extend_from_slice(&field.label);
                    self.traces.print_field(event as usize, field, raw, function, out);
                }
            }
            None => self.traces.print(event as usize, raw, function, out),
        }
    }

    fn has(&self, event: u32) -> bool {
        self.is_tracepoint.get(event as usize) == Some(&true)
    }

    fn fields(&self, event: u32, raw: &[u8], function: &FunctionAt<'_, '_>) -> Vec<NotedValue> {
        let mut told = Vec::new();
        if self.fields.iter().any(|it| it.event == event && it.needs_text()) {
            self.traces.print(event as usize, raw, function, &mut told);
        }
        let print = |field: &FieldPiece, out: &mut Vec<u8>| {
            self.traces.print_field(event as usize, field, raw, function, out);
        };
        let value = |it: &AskedField| it.value(Raw::new(raw, self.traces.endian), &told, print);
        let of_event =
            |it: &AskedField| if it.event == event { value(it) } else { NotedValue::default() };
        self.fields.iter().map(of_event).collect()
    }
}

/// The formats of the tracepoints of `recording`, by event.
fn formats(recording: &Recording) -> Vec<Option<Arc<EventFormat>>> {
    let none = || vec![None; recording.events.len()];
    let Some(Feature::TracingData(bytes)) = recording.feature(FeatureId::TRACING_DATA) else {
        return none();
    };
    // A damaged section is told of with the header's others.
    let Ok(data) = TracingData::decode(bytes, FileOffset(0)) else { return none() };
    let texts: FxHashMap<u64, Cow<'_, str>> = data
        .formats
        .iter()
        .filter_map(|it| {
            let text = String::from_utf8_lossy(it.text);
            Some((name_and_id(&text)?.1, text))
        })
        .collect();
    // Many events may be of one tracepoint.
    let mut parsed: FxHashMap<u64, Option<Arc<EventFormat>>> = FxHashMap::default();
    let mut format = |event: &crate::replay::Event| {
        let id = Some(event.attr.config).filter(|_| event.attr.kind == TRACEPOINT)?;
        let parse = || EventFormat::parse(texts.get(&id)?, data.long_len).map(Arc::new);
        parsed.entry(id).or_insert_with(parse).clone()
    };
    recording.events.iter().map(&mut format).collect()
}

/// What raw data is printed with besides itself.
pub(super) struct Context<'a, F> {
    strings: &'a FxHashMap<u64, Vec<u8>>,
    /// The name of the function at an address, and how far into it the address is.
    function: F,
}

impl Traces {
    /// Compiles the formats of the tracepoints of `recording`.
    pub(super) fn new(recording: &Recording) -> Self {
        let endian = recording.header.endian();
        let mut this = Self { endian, programs: Vec::new(), strings: FxHashMap::default() };
        this.programs.resize_with(recording.events.len(), || None);
        let Some(Feature::TracingData(bytes)) = recording.feature(FeatureId::TRACING_DATA) else {
            return this;
        };
        // A damaged section is told of with the header's others.
        let Ok(data) = TracingData::decode(bytes, FileOffset(0)) else { return this };
        this.endian = data.endian;
        this.strings = printk_formats(data.printk).map(|(at, it)| (at, it.to_vec())).collect();
        let mut compiled: FxHashMap<u64, Option<Program>> = FxHashMap::default();
        let formats = formats(recording);
        let events = recording.events.iter().zip(&formats);
        for ((event, format), program) in events.zip(&mut this.programs) {
            let Some(format) = format else { continue };
            let compile = || Some(Program::new(format, data.long_len));
            program.clone_from(compiled.entry(event.attr.config).or_insert_with(compile));
        }
        this
    }

    /// Appends what the event with index `event` noted in `raw`; nothing if its format is unknown.
    pub(super) fn print<'n, F>(&self, event: usize, raw: &[u8], function: F, out: &mut Vec<u8>)
    where
        F: Fn(u64) -> Option<(Cow<'n, str>, u64)>,
    {
        let Some(Some(program)) = self.programs.get(event) else { return };
        let context = Context { strings: &self.strings, function };
        program.print(Raw::new(raw, self.endian), &context, out);
    }

    /// Appends what that event noted in `field` by itself.
    fn print_field<'n, F>(
        &self,
        event: usize,
        field: &FieldPiece,
        raw: &[u8],
        function: F,
        out: &mut Vec<u8>,
    ) where
        F: Fn(u64) -> Option<(Cow<'n, str>, u64)>,
    {
        let Some(Some(program)) = self.programs.get(event) else { return };
        let context = Context { strings: &self.strings, function };
        program.print_field(field, Raw::new(raw, self.endian), &context, out);
    }
}

#[cfg(test)]
mod tests;
