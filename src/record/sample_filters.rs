//! Filters of samples: a program for each event that has one, on all its instances before the first
//! sample. What children inherit has it, too: `perf_event_alloc()` in `kernel/events/core.c`.

use std::os::fd::AsFd;
use std::sync::Arc;

use crate::bpf;
use crate::bpf::Program;
use crate::bpf::Programs;
use crate::bpf::filter::Filter;
use crate::bpf::filter::Loader;
use crate::bpf::filter::Tables;
use crate::events::sample_filter::Expr;
use crate::events::sample_filter::Test;
use crate::sys::Refused;
use crate::sys::bpf_load::ProgramKind;
use crate::sys::perf_event::EventFd;

use super::Error;
use super::note::Note;
use super::open::Opened;

/// The programs that filter the samples of a recording, in the kernel as long as their events.
#[derive(Debug, Default)]
pub(super) struct SampleFilters {
    filters: Vec<OfEvent>,
    /// Where BPF programs lie, if a filter asks.
    tables: Option<Arc<Tables>>,
}

#[derive(Debug)]
struct OfEvent {
    /// Which of the opened events.
    event: usize,
    filter: Filter,
    /// How many dropped samples are told already.
    n_told: u64,
}

impl SampleFilters {
    /// Loads the filters of `opened` and sets them.
    pub(super) fn load(opened: &[Opened<EventFd>], notes: &mut Vec<Note>) -> Result<Self, Error> {
        let mut all = Self::default();
        let mut loader = None;
        for (at, event) in opened.iter().enumerate() {
            let Some(expr) = both(&event.filters.samples) else { continue };
            let failed = |source| Error::SampleFilter { event: event.name.clone(), source };
            if asks_for_programs(&expr) && all.tables.is_none() {
                all.tables = Some(Arc::new(known_programs().map_err(failed)?));
                loader = None;
            }
            let loader =
                loader.get_or_insert_with(|| Loader::look(all.tables.clone().unwrap_or_default()));
            let kind = if event.is_probe { ProgramKind::Kprobe } else { ProgramKind::PerfEvent };
            if event.is_probe {
                notes.push(Note::FilterUncounted { event: event.name.clone() });
            }
            let filter = loader.load(&expr, event.attr.sample_type, kind).map_err(failed)?;
            for (_, fd) in &event.instances {
                fd.set_program(filter.as_fd()).map_err(|Refused { errno, .. }| {
                    Error::SetFilter { event: event.name.clone(), errno }
                })?;
            }
            all.filters.push(OfEvent { event: at, filter, n_told: 0 });
        }
        Ok(all)
    }

    /// Whom to tell where programs lie that are loaded later.
    pub(super) fn tables(&self) -> Option<Arc<Tables>> {
        self.tables.clone()
    }

    /// Takes note of programs, of which some may be new.
    pub(super) fn note(&self, programs: Option<&Programs>) {
        let (Some(tables), Some(programs)) = (&self.tables, programs) else { return };
        if let Err(error) = tables.add(programs.iter()) {
            tracing::debug!(%error, "tables of programs");
        }
    }

    /// How many samples of which event were dropped since this was asked last.
    pub(super) fn take_dropped(&mut self) -> Vec<(usize, u64)> {
        let mut dropped = Vec::with_capacity(self.filters.len());
        for OfEvent { event, filter, n_told } in &mut self.filters {
            match filter.n_dropped() {
                Ok(n) => {
                    dropped.push((*event, n.saturating_sub(*n_told)));
                    *n_told = n;
                }
                Err(error) => tracing::debug!(%error, "count of dropped samples"),
            }
        }
        dropped
    }
}

/// The filters of an event as one.
fn both(filters: &[Expr]) -> Option<Expr> {
    match filters {
        [] => None,
        [only] => Some(only.clone()),
        several => Some(Expr::All(several.to_vec())),
    }
}

fn asks_for_programs(expr: &Expr) -> bool {
    expr.tests().into_iter().any(|it| matches!(it, Test::Program(_)))
}

/// The tables of what is loaded.
fn known_programs() -> Result<Tables, bpf::filter::Error> {
    let programs = Programs::walk().map_err(bpf::filter::Error::Programs)?;
    let tables = Tables::default();
    let has_any = programs.iter().next().is_some();
    if has_any && programs.iter().all(|it| it.functions().is_empty()) {
        return Err(bpf::filter::Error::ProgramsHidden);
    }
    // A program that was made just now and has no address is no reason to refuse.
    let addressed = programs.iter().filter(|it: &&Program| !it.functions().is_empty());
    tables.add(addressed).map_err(bpf::filter::Error::Map)?;
    Ok(tables)
}
