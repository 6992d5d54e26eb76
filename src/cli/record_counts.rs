//! `report --stats`: how many records of each kind a recording has.

use std::collections::BTreeMap;
use std::io;
use std::io::Write;

use crate::perfdata::Error;
use crate::perfdata::ReadAt;
use crate::perfdata::RecordKind;
use crate::perfdata::RecordWalk;
use crate::render::escape::escape;
use crate::replay::Recording;
use crate::replay::resolved::Resolved;

/// How many records of each kind there are.
pub(super) type Counts = BTreeMap<u32, u64>;

/// Counts the records of `recording`, which is in `input`.
pub(super) fn count(recording: &Recording, input: &dyn ReadAt) -> Result<Counts, Error> {
    let mut counts = Counts::new();
    for section in &recording.data {
        let mut walk = RecordWalk::new(input, *section, recording.header.endian());
        while let Some(raw) = walk.next()? {
            *counts.entry(raw.header.kind.0).or_default() += 1;
        }
    }
    Ok(counts)
}

/// Writes `counts`, and how many samples each event of `resolved` has, as perf lays them out.
pub(super) fn write(counts: &Counts, resolved: &Resolved, out: &mut dyn Write) -> io::Result<()> {
    let total: u64 = counts.values().sum();
    let what = if counts.contains_key(&RecordKind::AUXTRACE_INFO.0) {
        // perf's words, which scripts look for.
        " (excludes AUX area (e.g. instruction trace) decoded / synthesized events)"
    } else {
        ""
    };
    writeln!(out, "\nAggregated stats:{what}\n{:>20} events: {total:10}", "TOTAL")?;
    for (kind, n) in counts {
        let name = match RecordKind(*kind) {
            RecordKind::HEADER_ATTR => "ATTR",
            RecordKind::HEADER_FEATURE => "FEATURE",
            kind => kind.name().unwrap_or("UNKNOWN"),
        };
        let share = 100.0 * *n as f64 / total as f64;
        writeln!(out, "{name:>20} events: {n:10}  ({share:4.1}%)")?;
    }
    // Where branches are counted, samples are more than have some.
    let mut samples = resolved.n_branching.clone();
    samples.resize(resolved.events.len(), 0);
    let groups = if resolved.is_of_branches() { &[][..] } else { resolved.groups.as_slice() };
    for group in groups {
        if let Some(n) = samples.get_mut(group.event.0 as usize) {
            *n += group.n_samples;
        }
    }
    for (event, n) in resolved.events.iter().zip(samples).filter(|(_, n)| *n != 0) {
        let name = escape(event.name.as_bytes());
        writeln!(out, "{name} stats:\n{:>20} events: {n:10}", "SAMPLE")?;
        if event.n_lost != 0 {
            writeln!(out, "{:>20} events: {:10}", "LOST_SAMPLES", event.n_lost)?;
        }
    }
    Ok(())
}
