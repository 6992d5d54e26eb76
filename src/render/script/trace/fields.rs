//! Fields of tracepoints that a report has columns of.

use std::borrow::Cow;
use std::sync::Arc;

use crate::perfdata::trace_format::EventFormat;
use crate::perfdata::trace_format::Field;
use crate::perfdata::trace_format::FieldFlags;
use crate::replay::NotedValue;
use crate::replay::Recording;

use super::TRACEPOINT;
use super::compile::FieldPiece;
use super::data::PlaceKind;
use super::data::Raw;

/// What all fields of all tracepoints are asked for by.
pub const ALL_FIELDS: &str = "trace_fields";

/// A field of a tracepoint that is asked for.
#[derive(Clone, Debug)]
pub struct AskedField {
    /// The event.
    pub event: u32,
    /// Its name.
    pub name: String,
    /// How wide its column is at least, in bytes.
    pub width: usize,
    piece: FieldPiece,
    /// Whether it is shown as it is, rather than as the event's text has it.
    is_raw: bool,
}

/// The formats of the tracepoints of a recording.
#[derive(Debug)]
pub struct TraceFormats<'a> {
    recording: &'a Recording,
    /// By event of the recording.
    formats: Vec<Option<Arc<EventFormat>>>,
}

impl<'a> TraceFormats<'a> {
    /// Those of `recording`.
    pub fn new(recording: &'a Recording) -> Self {
        Self { recording, formats: super::formats(recording) }
    }

    /// The fields that `name` asks for, as perf has it: `FIELD` is that of all tracepoints, `EVENT.FIELD` that of
    /// one, whose name may be a part that no other has or `%` and its number; `EVENT.*` are all its own fields,
    /// `trace_fields` those of all. Behind them `/raw` asks for what is not taken from the event's text.
    ///
    /// Source: `add_dynamic_entry()` in `tools/perf/util/sort.c`.
    pub fn find(&self, name: &str, is_raw: bool) -> Vec<AskedField> {
        let (event, field) = match name.split_once('.') {
            Some((event, field)) => (Some(event), field),
            None => (None, name),
        };
        let (field, is_raw) = match field.split_once('/') {
            Some((field, "raw")) => (field, true),
            Some(_) => return Vec::new(),
            None => (field, is_raw),
        };
        let events = || (0..).zip(&self.formats).filter_map(|(idx, it)| Some((idx, it.as_ref()?)));
        let asked = |event: u32, field: &Field| AskedField::new(event, field, is_raw);
        match (event, field) {
            (_, ALL_FIELDS) => events()
                .flat_map(|(idx, it)| it.own_fields().iter().map(move |it| asked(idx, it)))
                .collect(),
            (None, field) => {
                events().filter_map(|(idx, it)| Some(asked(idx, named(it, field)?))).collect()
            }
            (Some(event), field) => {
                let Some(idx) = self.event(event) else { return Vec::new() };
                let Some(format) = self.formats.get(idx as usize).and_then(Option::as_ref) else {
                    return Vec::new();
                };
                match field {
                    "*" => format.own_fields().iter().map(|it| asked(idx, it)).collect(),
                    field => named(format, field).map(|it| asked(idx, it)).into_iter().collect(),
                }
            }
        }
    }

    /// The number of the event that `name` stands for.
    fn event(&self, name: &str) -> Option<u32> {
        let events = &self.recording.events;
        if let Some(number) = name.strip_prefix('%') {
            let number: u32 = number.parse().ok()?;
            return number.checked_sub(1).filter(|it| (*it as usize) < events.len());
        }
        let is_named = |it: &&crate::replay::Event| {
            if name.contains(':') { it.name == name } else { it.name.contains(name) }
        };
        let mut found = (0..).zip(events).filter(|(_, it)| is_named(it));
        let (first, _) = found.next()?;
        (name.contains(':') || found.next().is_none()).then_some(first)
    }
}

fn named<'f>(format: &'f EventFormat, name: &str) -> Option<&'f Field> {
    format.fields.iter().find(|it| it.name == name)
}

impl AskedField {
    fn new(event: u32, field: &Field, is_raw: bool) -> Self {
        // As perf sizes it: digits in hex for what is no text.
        let digits =
            if field.flags.contains(FieldFlags::STRING) { field.len } else { 2 * field.len + 2 };
        Self {
            event,
            name: field.name.clone(),
            width: digits.max(field.name.len()),
            piece: FieldPiece::new(field),
            is_raw,
        }
    }

    /// Whether the event's text may say what it is.
    pub(super) fn needs_text(&self) -> bool {
        !self.is_raw
    }

    /// What `raw` says in it; `told` is the text of the event, `print` appends the field by itself.
    pub(super) fn value(
        &self,
        raw: Raw<'_>,
        told: &[u8],
        print: impl Fn(&FieldPiece, &mut Vec<u8>),
    ) -> NotedValue {
        let place = &self.piece.place;
        let content = raw.content(place).to_vec();
        let content_width = match place.kind {
            PlaceKind::Here => 0,
            PlaceKind::Elsewhere | PlaceKind::Behind => content.len() as u64,
        };
        let told = if self.is_raw { None } else { said(told, &self.name) };
        let width = content_width.max(told.map_or(0, <[u8]>::len) as u64);
        let text = told.map_or_else(
            || {
                let mut text = Vec::new();
                print(&self.piece, &mut text);
                Cow::from(text)
            },
            Cow::from,
        );
        NotedValue { content, text: text.into_owned(), width }
    }
}

/// What the text of an event says behind `NAME=`, up to a space.
fn said<'t>(text: &'t [u8], name: &str) -> Option<&'t [u8]> {
    let words = text.split(|&it| it == b' ');
    let value = |word: &'t [u8]| word.strip_prefix(name.as_bytes())?.strip_prefix(b"=");
    words.into_iter().find_map(value)
}

/// Whether all events of `recording` are tracepoints, and there are some.
pub fn has_tracepoints_alone(recording: &Recording) -> bool {
    let events = &recording.events;
    !events.is_empty() && events.iter().all(|it| it.attr.kind == TRACEPOINT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_text_says_of_a_field_ends_at_a_space() {
        let text = b"prev_comm=sh prev_pid=3 ==> next_comm=a b pid: 7";
        let said = |name| said(text, name).map(|it| std::str::from_utf8(it).unwrap());
        assert_eq!(said("prev_comm"), Some("sh"));
        assert_eq!(said("next_comm"), Some("a"));
        assert_eq!((said("prev"), said("pid")), (None, None));
    }
}
