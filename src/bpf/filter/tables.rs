//! Where BPF programs lie, as programs that filter look it up.
//!
//! Each choice of programs has two tables, of which one holds, and a head that says which: the other
//! one is written, then the head. A program that filters runs for less time than two changes
//! take, so it never sees a table change.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use libbpf_rs::MapCore;
use libbpf_rs::MapFlags;
use libbpf_rs::MapHandle;
use libbpf_rs::MapType;

use super::code::HEAD_LEN;
use super::code::SLOT_LEN;
use super::code::TableMaps;
use super::map;
use crate::bpf;
use crate::events::sample_filter::Program;
use crate::units::ProgId;

/// The fewest and the most ranges that a table has room for.
const SLOTS: std::ops::RangeInclusive<usize> = 1024..=16384;

/// The addresses of BPF programs, for filters that ask for them.
#[derive(Debug, Default)]
pub struct Tables(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// By where each function begins.
    functions: BTreeMap<u64, Function>,
    /// What programs are called: in full, and as far as the kernel keeps it.
    names: BTreeMap<ProgId, [Vec<u8>; 2]>,
    tables: Vec<Table>,
}

#[derive(Clone, Copy, Debug)]
struct Function {
    end: u64,
    program: ProgId,
}

#[derive(Debug)]
struct Table {
    programs: Program,
    head: MapHandle,
    tables: MapHandle,
    n_slots: usize,
    /// Both tables as they are in the kernel, and which of them holds.
    value: Vec<u8>,
    holds: usize,
}

impl Tables {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Whoever panicked left ranges that are still true.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of programs that were loaded.
    ///
    /// # Errors
    ///
    /// What the kernel says where a table cannot be written.
    pub fn add<'a>(&self, programs: impl IntoIterator<Item = &'a bpf::Program>) -> io::Result<()> {
        let mut inner = self.lock();
        for program in programs {
            inner.note(program);
        }
        inner.write()
    }

    /// The maps of the tables for each of `choices`; new ones are made.
    pub(super) fn maps(&self, choices: &[&Program]) -> io::Result<Vec<TableMaps>> {
        let mut inner = self.lock();
        for choice in choices {
            if inner.tables.iter().all(|it| it.programs != **choice) {
                let n_slots = (inner.functions.len() * 2).next_power_of_two();
                let n_slots = n_slots.clamp(*SLOTS.start(), *SLOTS.end());
                inner.tables.push(Table::create((*choice).clone(), n_slots)?);
            }
        }
        inner.write()?;
        Ok(inner.tables.iter().map(Table::maps).collect())
    }
}

impl Inner {
    fn note(&mut self, program: &bpf::Program) {
        let id = program.id();
        let Some(first) = program.functions().first() else { return };
        // As in the kernel's list of symbols: the tag, and then the name.
        let full = first.name.splitn(4, '_').nth(3).unwrap_or_default();
        let short = program.info().name();
        self.names.insert(id, [full.as_bytes().to_vec(), short.to_vec()]);
        for it in program.functions() {
            let (start, end) = (it.addr.0, it.addr.0.saturating_add(it.len.into()));
            // Memory of programs that are gone is used again.
            let before = self.functions.range(..end).rev();
            let covered: Vec<u64> =
                before.take_while(|(_, it)| start < it.end).map(|(start, _)| *start).collect();
            for old in covered {
                self.functions.remove(&old);
            }
            if start < end {
                self.functions.insert(start, Function { end, program: id });
            }
        }
    }

    fn write(&mut self) -> io::Result<()> {
        let Self { functions, names, tables } = self;
        for table in tables {
            let is_meant = |it: &Function| match &table.programs {
                Program::Any => true,
                Program::Id(id) => it.program == ProgId(*id),
                Program::Name(name) => names
                    .get(&it.program)
                    .is_some_and(|it| it.iter().any(|it| it == name.as_bytes())),
            };
            let meant = functions.iter().filter(|(_, it)| is_meant(it));
            table.write(&ranges(meant.map(|(start, it)| (*start, it.end))))?;
        }
        Ok(())
    }
}

/// Ranges in their order, those that touch as one.
fn ranges(functions: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for (start, end) in functions {
        match ranges.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => ranges.push((start, end)),
        }
    }
    ranges
}

impl Table {
    fn create(programs: Program, n_slots: usize) -> io::Result<Self> {
        let len = u32::try_from(n_slots).unwrap_or(u32::MAX).saturating_mul(2 * SLOT_LEN);
        Ok(Self {
            programs,
            head: map(MapType::Array, "bpfperf_head", HEAD_LEN, 1)?,
            tables: map(MapType::Array, "bpfperf_progs", len, 1)?,
            n_slots,
            value: vec![0xff; usize::try_from(len).unwrap_or(0)],
            holds: 0,
        })
    }

    fn maps(&self) -> TableMaps {
        TableMaps {
            programs: self.programs.clone(),
            head: self.head.as_fd().as_raw_fd(),
            tables: self.tables.as_fd().as_raw_fd(),
            n_slots: u32::try_from(self.n_slots).unwrap_or(0),
        }
    }

    fn write(&mut self, ranges: &[(u64, u64)]) -> io::Result<()> {
        if self.n_slots < ranges.len() {
            tracing::debug!(n_ranges = ranges.len(), self.n_slots, "too many BPF programs");
        }
        let next = 1 - self.holds;
        let len = self.value.len() / 2;
        let half = self.value.get_mut(next * len..).and_then(|it| it.get_mut(..len));
        let unused = std::iter::repeat((u64::MAX, u64::MAX));
        let words = ranges.iter().copied().chain(unused).flat_map(|(start, end)| [start, end]);
        for (place, word) in half.unwrap_or_default().as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *place = word.to_ne_bytes();
        }
        let first = ranges.first().map_or(0, |it| it.0);
        let last = ranges.iter().take(self.n_slots).next_back().map_or(0, |it| it.1);
        let head = [next as u64, first, last - first].map(u64::to_ne_bytes).concat();
        let any = MapFlags::ANY;
        self.tables.update(&[0; 4], &self.value, any).map_err(io::Error::other)?;
        self.head.update(&[0; 4], &head, any).map_err(io::Error::other)?;
        self.holds = next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_are_one() {
        let of = |functions: &[(u64, u64)]| ranges(functions.iter().copied());
        assert_eq!(of(&[(1, 3), (3, 5), (6, 8)]), [(1, 5), (6, 8)]);
        assert_eq!(of(&[(1, 9), (2, 3)]), [(1, 9)]);
        assert_eq!(of(&[]), []);
    }
}
