//! The events of a recording as text, as `perf evlist` lays them out.

use std::io;
use std::io::Write;

use crate::perfdata::AttrFlags;
use crate::perfdata::feature::Feature;
use crate::perfdata::feature::FeatureId;
use crate::perfdata::feature::GroupDesc;
use crate::perfdata::trace_format::EventFormat;
use crate::perfdata::trace_format::name_and_id;
use crate::perfdata::tracing_data::TracingData;
use crate::render::escape::escape;
use crate::render::header;
use crate::replay::Event;
use crate::replay::Recording;
use crate::units::FileOffset;

/// What is said of each event besides its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// How often it was sampled, or all of its attribute.
    pub attribute: Attribute,
    /// Events of a group in one line.
    pub groups: Groups,
    /// What its samples note, if it is a tracepoint.
    pub trace_fields: TraceFields,
}

/// How much of an event's attribute is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attribute {
    /// Nothing.
    #[default]
    None,
    /// How often it was sampled.
    Frequency,
    /// All.
    Full,
}

/// Whether events of a group stand in one line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Groups {
    /// They do.
    Together,
    /// Each has its own.
    #[default]
    Apart,
}

/// Whether the fields of tracepoints are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TraceFields {
    /// They are.
    Shown,
    /// They are not.
    #[default]
    Hidden,
}

/// `PERF_TYPE_TRACEPOINT`.
const TRACEPOINT: u32 = 2;

/// Writes the events of `recording`, a line each, and which option would tell more.
///
/// # Errors
///
/// What `out` gives.
pub fn write(recording: &Recording, details: Details, out: &mut dyn Write) -> io::Result<()> {
    let Details { attribute, groups, trace_fields } = details;
    let recorded = match recording.feature(FeatureId::GROUP_DESC) {
        Some(Feature::Groups(groups)) => groups.as_slice(),
        _ => &[],
    };
    let together = if groups == Groups::Together { recorded } else { &[] };
    for (idx, event) in (0_u32..).zip(&recording.events) {
        let members = |it: &GroupDesc| it.leader_idx..it.leader_idx.saturating_add(it.n_members);
        let led = |it: &&GroupDesc| it.n_members > 1 && members(it).contains(&idx);
        let name = match together.iter().find(led) {
            None => escape(event.name.as_bytes()).into_owned(),
            Some(group) if group.leader_idx == idx => {
                let first = usize::try_from(idx).unwrap_or(usize::MAX);
                let len = usize::try_from(group.n_members).unwrap_or(usize::MAX);
                let names = recording.events.iter().skip(first).take(len);
                let names: Vec<_> = names.map(|it| escape(it.name.as_bytes())).collect();
                let name = group.name.to_string();
                let name = if name == GroupDesc::ANONYMOUS { "" } else { &name };
                format!("{}{{{}}}", escape(name.as_bytes()), names.join(","))
            }
            Some(_) => continue,
        };
        write!(out, "{name}")?;
        let mut more = Vec::new();
        match attribute {
            Attribute::None => {}
            Attribute::Frequency if event.attr.flags.contains(AttrFlags::FREQ) => {
                more.push(format!("sample_freq={}", event.attr.sample_period));
            }
            Attribute::Frequency => {
                more.push(format!("sample_period={}", event.attr.sample_period));
            }
            Attribute::Full => more.push(header::event_attribute(event, &recording.features)),
        }
        if trace_fields == TraceFields::Shown {
            more.push(match event.attr.kind {
                TRACEPOINT => format!("trace_fields: {}", fields(recording, event)),
                _ => "(not a tracepoint)".to_owned(),
            });
        }
        if !more.is_empty() {
            write!(out, ": {}", more.join(", "))?;
        }
        writeln!(out)?;
    }
    let has_tracepoint = recording.events.iter().any(|it| it.attr.kind == TRACEPOINT);
    if has_tracepoint && trace_fields == TraceFields::Hidden {
        let option = "'perf evlist --trace-fields' to show fields for tracepoint events";
        writeln!(out, "# Tip: use {option}")?;
    }
    if recorded.iter().any(|it| it.n_members > 1) && groups == Groups::Apart {
        writeln!(out, "# Tip: use 'perf evlist -g' to show group information")?;
    }
    Ok(())
}

/// The fields of a tracepoint's own, by the format in the recording.
fn fields(recording: &Recording, event: &Event) -> String {
    let format = || {
        let Feature::TracingData(bytes) = recording.feature(FeatureId::TRACING_DATA)? else {
            return None;
        };
        let data = TracingData::decode(bytes, FileOffset(0)).ok()?;
        let mut texts = data.formats.iter().filter_map(|it| std::str::from_utf8(it.text).ok());
        let is_its = |it: &&str| name_and_id(it).is_some_and(|(_, id)| id == event.attr.config);
        EventFormat::parse(texts.find(is_its)?, data.long_len)
    };
    let format = format();
    let fields = format.iter().flat_map(EventFormat::own_fields);
    let names: Vec<_> = fields.map(|it| escape(it.name.as_bytes())).collect();
    names.join(",")
}
