//! Which samples are shown.

use super::Error;
use crate::replay::resolved::CommId;
use crate::replay::resolved::Group;
use crate::replay::resolved::Location;
use crate::replay::resolved::Resolved;

/// What a sample has to be to be shown; an empty list asks for nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Command names.
    pub comms: Vec<String>,
    /// Modules, by short or long name.
    pub dsos: Vec<String>,
    /// Symbols of the sampled address, by name or by start address (`0x...`).
    pub symbols: Vec<String>,
    /// A part of the names of the symbols of rows; rows are shown where they differ in nothing of the kind.
    pub symbol_part: Option<String>,
    /// Process ids.
    pub pids: Vec<i32>,
    /// Thread ids.
    pub tids: Vec<i32>,
    /// CPUs, sorted; samples of others are left out of the totals, too.
    pub cpus: Vec<u32>,
    /// CPUs, sorted; samples of others are not shown.
    pub shown_cpus: Vec<u32>,
}

/// A filter made ready for one recording.
#[derive(Debug)]
pub(super) struct Sieve<'a> {
    filter: &'a Filter,
    comms: Vec<bool>,
    locations: Vec<bool>,
}

impl Filter {
    /// The filter, made ready to be asked about the samples of `resolved`.
    pub(super) fn sieve(&self, resolved: &Resolved) -> Sieve<'_> {
        let comms = if self.comms.is_empty() {
            Vec::new()
        } else {
            let is_asked = |comm: &Vec<u8>| self.comms.iter().any(|it| it.as_bytes() == comm);
            resolved.comms.iter().map(is_asked).collect()
        };
        let locations = if self.dsos.is_empty() && self.symbols.is_empty() {
            Vec::new()
        } else {
            let passes =
                |it: &Location| self.has_dso(it, resolved) && self.has_symbol(it, resolved);
            resolved.locations.iter().map(passes).collect()
        };
        Sieve { filter: self, comms, locations }
    }

    /// Holds that a group has a CPU if the filter asks for one.
    ///
    /// # Errors
    ///
    /// [`Error::NoCpu`] where it does not.
    pub(super) fn needs_cpu(&self, resolved: &Resolved, group: &Group) -> Result<(), Error> {
        if self.cpus.is_empty() || group.cpu.is_some() {
            return Ok(());
        }
        let event = resolved.events.get(group.event.0 as usize).map(|it| it.name.clone());
        Err(Error::NoCpu { event: event.unwrap_or_default() })
    }

    fn has_dso(&self, location: &Location, resolved: &Resolved) -> bool {
        if self.dsos.is_empty() {
            return true;
        }
        let Some(dso) = location.dso.map(|it| &resolved.dsos[it.0 as usize]) else { return false };
        self.dsos.iter().any(|it| *it == dso.short_name || *it == dso.long_name)
    }

    fn has_symbol(&self, location: &Location, resolved: &Resolved) -> bool {
        if self.symbols.is_empty() {
            return true;
        }
        let Some(symbol) = location.symbol.map(|it| &resolved.symbols[it.0 as usize]) else {
            return false;
        };
        let start = location.ip.0.wrapping_sub(location.addr - symbol.start);
        let start = format!("{start:#x}");
        self.symbols.iter().any(|it| *it == symbol.name || *it == start)
    }
}

impl Sieve<'_> {
    /// Whether the samples of `group` count at all.
    pub(super) fn counts(&self, group: &Group) -> bool {
        let cpus = &self.filter.cpus;
        cpus.is_empty() || group.cpu.is_some_and(|cpu| cpus.binary_search(&cpu).is_ok())
    }

    /// Whether the samples of `group` are shown.
    pub(super) fn shows(&self, group: &Group) -> bool {
        let Self { filter, comms, locations } = self;
        let CommId(comm) = group.comm;
        let location = group.location.0;
        (comms.is_empty() || comms[comm as usize])
            && (locations.is_empty() || locations[location as usize])
            && (filter.pids.is_empty() || filter.pids.contains(&group.pid.0))
            && (filter.tids.is_empty() || filter.tids.contains(&group.tid.0))
            && (filter.shown_cpus.is_empty()
                || group.cpu.is_some_and(|it| filter.shown_cpus.binary_search(&it).is_ok()))
    }
}
