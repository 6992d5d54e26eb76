//! `report -T`: what each thread counted in all, as recordings with `-s` have it.

use std::hash::Hash;
use std::io;
use std::io::Write;

use rustc_hash::FxHashMap;

use crate::perfdata::Cursor;
use crate::perfdata::Error;
use crate::perfdata::ReadAt;
use crate::perfdata::Record;
use crate::perfdata::RecordKind;
use crate::perfdata::RecordWalk;
use crate::render::escape::escape;
use crate::replay::Recording;

/// How the counts look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Pretty {
    /// A line a thread, with a column an event.
    #[default]
    Normal,
    /// A line a thread and event.
    Raw,
}

/// What threads counted: by thread and by event, both in the order in which they were first told of.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ThreadCounts {
    events: Seen<u32>,
    /// Process and thread.
    threads: Seen<(i32, i32)>,
    /// By the places of thread and event: few threads count all events.
    counts: FxHashMap<(usize, usize), u64>,
}

/// Things in the order in which they were first told of.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen<T: Eq + Hash> {
    list: Vec<T>,
    places: FxHashMap<T, usize>,
}

impl<T: Copy + Eq + Hash> Seen<T> {
    /// The place of `it`, which may be new.
    fn place(&mut self, it: T) -> usize {
        let next = self.list.len();
        let place = *self.places.entry(it).or_insert(next);
        if place == next {
            self.list.push(it);
        }
        place
    }
}

impl ThreadCounts {
    /// What the records of `recording` tell, which is in `input`.
    pub(super) fn read(recording: &Recording, input: &dyn ReadAt) -> Result<Self, Error> {
        let mut this = Self::default();
        if recording.events.is_empty() {
            return Ok(this);
        }
        let endian = recording.header.endian();
        for section in &recording.data {
            let mut walk = RecordWalk::new(input, *section, endian);
            while let Some(raw) = walk.next()? {
                if raw.header.kind != RecordKind::READ {
                    continue;
                }
                let body = recording.trim(raw.header.kind, raw.body);
                let event = recording.event_of_record(body);
                let mut cursor = Cursor::new(body, raw.at, endian);
                // One that is damaged tells nothing.
                if let Ok(Record::Read { pid, tid, values }) =
                    Record::decode(raw.header, &mut cursor)
                    && let Some(value) = values.iter().next()
                {
                    this.add((pid.0, tid.0), event, value);
                }
            }
        }
        Ok(this)
    }

    fn add(&mut self, thread: (i32, i32), event: u32, value: u64) {
        let place = (self.threads.place(thread), self.events.place(event));
        let count = self.counts.entry(place).or_default();
        *count = count.wrapping_add(value);
    }

    /// Writes them.
    pub(super) fn write(
        &self,
        recording: &Recording,
        pretty: Pretty,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let name = |event: &u32| {
            let event = recording.events.get(*event as usize);
            escape(event.map_or(&[][..], |it| it.name.as_bytes())).into_owned()
        };
        let names: Vec<String> = self.events.list.iter().map(name).collect();
        let headings: Vec<&str> = match pretty {
            Pretty::Normal => {
                ["PID", "TID"].into_iter().chain(names.iter().map(String::as_str)).collect()
            }
            Pretty::Raw => vec!["PID", "TID", "Name", "Raw", "Count"],
        };
        let mut widths: Vec<usize> = headings.iter().map(|it| it.chars().count().max(1)).collect();
        self.rows(pretty, &names, |row| {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
            Ok(())
        })?;
        line(out, '#', &headings, &widths)?;
        self.rows(pretty, &names, |row| line(out, ' ', row, &widths))
    }

    /// Hands each row to `each`.
    fn rows(
        &self,
        pretty: Pretty,
        names: &[String],
        mut each: impl FnMut(&[String]) -> io::Result<()>,
    ) -> io::Result<()> {
        let Self { events, threads, counts } = self;
        for (thread, (pid, tid)) in threads.list.iter().enumerate() {
            let count = |event| counts.get(&(thread, event)).copied().unwrap_or(0).to_string();
            let thread = [pid.to_string(), tid.to_string()];
            match pretty {
                Pretty::Normal => {
                    let cells = (0..events.list.len()).map(count);
                    each(&thread.into_iter().chain(cells).collect::<Vec<_>>())?;
                }
                Pretty::Raw => {
                    for (place, (event, name)) in events.list.iter().zip(names).enumerate() {
                        let [pid, tid] = thread.clone();
                        each(&[pid, tid, name.clone(), format!("{event:x}"), count(place)])?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn line<T: AsRef<str>>(
    out: &mut dyn Write,
    mark: char,
    cells: &[T],
    widths: &[usize],
) -> io::Result<()> {
    write!(out, "{mark}")?;
    for (idx, (cell, width)) in cells.iter().zip(widths).enumerate() {
        write!(out, "{}{:>width$}", if idx == 0 { " " } else { "  " }, cell.as_ref())?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_a_thread_add_up_and_events_come_as_they_are_told_of() {
        let mut threads = ThreadCounts::default();
        threads.add((1, 2), 1, 5);
        threads.add((1, 3), 0, 7);
        threads.add((1, 2), 1, u64::MAX);
        assert_eq!(threads.events.list, [1, 0]);
        assert_eq!(threads.threads.list, [(1, 2), (1, 3)]);
        assert_eq!(threads.counts, FxHashMap::from_iter([((0, 0), 4), ((1, 1), 7)]));
    }
}
