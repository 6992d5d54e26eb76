//! `report -T`: what each thread counted in all, as recordings with `-s` have it.

use std::io;
use std::io::Write;

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
pub(super) struct Threads {
    events: Vec<u32>,
    /// Process, thread, and the counts by event.
    threads: Vec<(i32, i32, Vec<u64>)>,
}

impl Threads {
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

    fn add(&mut self, (pid, tid): (i32, i32), event: u32, value: u64) {
        let Self { events, threads } = self;
        let place = events.iter().position(|it| *it == event).unwrap_or_else(|| {
            events.push(event);
            events.len() - 1
        });
        let known = threads.iter().position(|it| (it.0, it.1) == (pid, tid));
        let thread = known.unwrap_or_else(|| {
            threads.push((pid, tid, Vec::new()));
            threads.len() - 1
        });
        let counts = &mut threads[thread].2;
        counts.resize(counts.len().max(place + 1), 0);
        counts[place] = counts[place].wrapping_add(value);
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
        let mut rows = vec![match pretty {
            Pretty::Normal => [String::from("PID"), String::from("TID")]
                .into_iter()
                .chain(self.events.iter().map(name))
                .collect::<Vec<_>>(),
            Pretty::Raw => ["PID", "TID", "Name", "Raw", "Count"].map(str::to_owned).to_vec(),
        }];
        for (pid, tid, counts) in &self.threads {
            let thread = [pid.to_string(), tid.to_string()];
            let counts = (0..self.events.len()).map(|it| counts.get(it).copied().unwrap_or(0));
            match pretty {
                Pretty::Normal => {
                    rows.push(thread.into_iter().chain(counts.map(|it| it.to_string())).collect());
                }
                Pretty::Raw => rows.extend(self.events.iter().zip(counts).map(|(event, n)| {
                    let [pid, tid] = thread.clone();
                    vec![pid, tid, name(event), format!("{event:x}"), n.to_string()]
                })),
            }
        }
        let len =
            |row: &Vec<String>, column: usize| row.get(column).map_or(0, |it| it.chars().count());
        let n_columns = rows.first().map_or(0, Vec::len);
        let widths: Vec<usize> = (0..n_columns)
            .map(|column| rows.iter().map(|row| len(row, column)).max().unwrap_or(0))
            .collect();
        for (idx, row) in rows.iter().enumerate() {
            write!(out, "{}", if idx == 0 { "#" } else { " " })?;
            for (idx, (cell, width)) in row.iter().zip(&widths).enumerate() {
                write!(out, "{}{cell:>width$}", if idx == 0 { " " } else { "  " })?;
            }
            writeln!(out)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_a_thread_add_up_and_events_come_as_they_are_told_of() {
        let mut threads = Threads::default();
        threads.add((1, 2), 1, 5);
        threads.add((1, 3), 0, 7);
        threads.add((1, 2), 1, u64::MAX);
        let want = vec![(1, 2, vec![4]), (1, 3, vec![0, 7])];
        assert_eq!(threads, Threads { events: vec![1, 0], threads: want });
    }
}
