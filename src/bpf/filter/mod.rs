//! Filters of samples in the kernel: an expression becomes a program that is made for it, which
//! runs when an event samples, and says whether the sample is kept.
//!
//! In comes an [`Expr`] and what the samples of its event hold; out comes a loaded [`Filter`], to
//! be set on each instance of the event. Nothing is interpreted in the kernel: of the expression
//! only loads, comparisons and jumps are left, in some nanoseconds. What is dropped is counted for
//! each CPU.
//!
//! The kernel runs no program of an event while it runs another one, of a kprobe, a tracepoint or an
//! event, on that CPU: such samples are dropped before any filter sees them, and not counted.
//!
//! Sources: `bpf_overflow_handler()` and `perf_event_set_bpf_handler()` in `kernel/events/core.c`;
//! `tools/perf/util/bpf_skel/sample_filter.bpf.c`, which interprets a list of terms.

mod assembler;
mod code;
mod kernel;
#[cfg(test)]
mod machine;
mod tables;

use std::io;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::fd::BorrowedFd;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use libbpf_rs::MapCore;
use libbpf_rs::MapFlags;
use libbpf_rs::MapHandle;
use libbpf_rs::MapType;
use libbpf_rs::libbpf_sys;

use crate::events::sample_filter::Expr;
use crate::events::sample_filter::Program;
use crate::events::sample_filter::Test;
use crate::perfdata::SampleType;
use crate::sys::bpf_load;
use crate::sys::bpf_load::NotLoaded;
use crate::sys::bpf_load::ProgramKind;

use assembler::Insn;
use code::Given;
use kernel::Kernel;

pub use kernel::Hidden;
pub use tables::Tables;

/// Why there is no filter.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The event's samples do not hold what is asked for.
    #[error("its samples hold no `{term}`")]
    Lacks {
        /// The term.
        term: &'static str,
        /// The fields of which any would hold it.
        needs: SampleType,
    },
    /// The kernel does not let a filter see it.
    #[error("a filter cannot ask for `{term}` here")]
    Hidden {
        /// The term.
        term: &'static str,
        /// Why not.
        #[source]
        why: Hidden,
    },
    /// The kernel does not say where programs lie.
    #[error("where BPF programs lie is not known, so that a filter cannot ask for `bpf_prog`")]
    Programs(#[source] crate::bpf::Error),
    /// The kernel keeps where programs lie to itself.
    #[error("the kernel hides where BPF programs lie, so that a filter cannot ask for `bpf_prog`")]
    ProgramsHidden,
    /// It is longer than its jumps can reach.
    #[error("the filter has too many terms for one program")]
    TooLong,
    /// A map was refused.
    #[error("cannot create a BPF map")]
    Map(#[source] io::Error),
    /// The program was refused.
    #[error(transparent)]
    NotLoaded(#[from] NotLoaded),
}

/// Whoever makes programs of expressions on this machine.
#[derive(Debug)]
pub struct Loader {
    kernel: Kernel,
    tables: Arc<Tables>,
}

impl Loader {
    /// Looks at the running kernel. The addresses of programs are to be told to `tables`.
    pub fn look(tables: Arc<Tables>) -> Self {
        Self { kernel: Kernel::look(), tables }
    }

    /// Loads the program for `expr`, for an event whose samples hold `sample_type`.
    ///
    /// # Errors
    ///
    /// [`Error`], the term in it that cannot be had.
    pub fn load(
        &self,
        expr: &Expr,
        sample_type: SampleType,
        kind: ProgramKind,
    ) -> Result<Filter, Error> {
        let tables = self.tables.maps(&choices(expr)).map_err(Error::Map)?;
        let is_probe = kind == ProgramKind::Kprobe;
        // The program of a probe runs for each task and CPU that is watched, wherever it was hit.
        let dropped = (!is_probe).then(|| map(MapType::PercpuArray, "bpfperf_drops", 8, 1));
        let dropped = dropped.transpose().map_err(Error::Map)?;
        let given = Given {
            kernel: &self.kernel,
            sample_type,
            is_probe,
            dropped: dropped.as_ref().map(|it| it.as_fd().as_raw_fd()),
            tables: &tables,
        };
        let insns: Vec<_> = code::generate(expr, given)?.into_iter().map(Insn::encode).collect();
        let program = bpf_load::load(kind, c"bpfperf_filter", c"Dual BSD/GPL", &insns)?;
        tracing::debug!(n_insns = insns.len(), "filter");
        Ok(Filter { program, dropped })
    }
}

/// The choices of programs in `expr`, each once.
fn choices(expr: &Expr) -> Vec<&Program> {
    let tests = expr.tests().into_iter();
    let mut choices: Vec<&Program> = tests
        .filter_map(|it| if let Test::Program(programs) = it { Some(programs) } else { None })
        .collect();
    choices.sort_unstable();
    choices.dedup();
    choices
}

/// A loaded program that filters samples; it goes with the last event that has it.
#[derive(Debug)]
pub struct Filter {
    program: OwnedFd,
    /// The counts, if it counts.
    dropped: Option<MapHandle>,
}

impl Filter {
    /// How many samples it has dropped, on all CPUs; of a probe nobody counts them.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn n_dropped(&self) -> io::Result<u64> {
        let Some(dropped) = &self.dropped else { return Ok(0) };
        let counts = dropped.lookup_percpu(&[0; 4], MapFlags::ANY).map_err(io::Error::other)?;
        let counts = counts.iter().flatten();
        let count = |it: &Vec<u8>| it.first_chunk::<8>().map_or(0, |it| u64::from_ne_bytes(*it));
        Ok(counts.map(count).sum())
    }
}

impl AsFd for Filter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }
}

/// A new map whose keys are numbers.
fn map(kind: MapType, name: &str, value_len: u32, n_entries: u32) -> io::Result<MapHandle> {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    let map = MapHandle::create(kind, Some(name), 4, value_len, n_entries, &options);
    map.map_err(|error| match error.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => io::ErrorKind::PermissionDenied.into(),
        _ => io::Error::other(error),
    })
}
