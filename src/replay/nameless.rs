//! What it costs that modules lack symbols.

use rustc_hash::FxHashMap;

use crate::symbols;
use crate::symbols::ModuleFile;
use crate::units::Pid;

use super::Unnamed;
use super::resolved::Dso;
use super::resolved::Resolved;
use super::timeline::Owner;

/// How many samples fell on addresses of files where no name is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nameless {
    /// All samples that were looked at.
    pub n_samples: u64,
    /// Those without a name, by the number of the mapping.
    by_mapping: FxHashMap<u32, u64>,
}

/// A file whose functions have no names.
#[derive(Clone, Debug)]
pub struct Lacking<'n> {
    /// As it is shown.
    pub dso: &'n Dso,
    /// What is lacking.
    pub what: Lacked<'n>,
    /// How many samples fell where it has no name.
    pub n_samples: u64,
}

/// What is lacking of a file, of code that a process made, or of the kernel.
#[derive(Clone, Debug)]
pub enum Lacked<'n> {
    /// The file is the right one, and its symbol table was stripped.
    Symbols(&'n ModuleFile),
    /// The file itself, and why.
    File(&'n ModuleFile, &'n symbols::Error),
    /// What the process with this number wrote of its code, and why.
    Map(Pid, Unnamed),
    /// The symbols of the recorded kernel, and why.
    Kernel(NoKernel),
}

/// Why addresses of the kernel have no names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoKernel {
    /// The kernel hides its addresses from whoever reads.
    Hidden,
    /// No kernel at hand is known to be the recorded one.
    Other,
}

impl Nameless {
    /// Of the samples that `resolved` counts.
    pub fn of(resolved: &Resolved) -> Self {
        let mut this = Self::default();
        for group in &resolved.groups {
            let location = resolved.locations.get(group.location.0 as usize);
            let nameless = location.filter(|it| it.symbol.is_none()).and_then(|it| it.owner);
            this.add(nameless, group.n_samples);
        }
        this
    }

    /// Counts `n_samples`; `nameless` is the owner of their address, if they have no name.
    pub fn add(&mut self, nameless: Option<Owner>, n_samples: u64) {
        self.n_samples = self.n_samples.saturating_add(n_samples);
        if let Some(Owner::Mapping(mapping)) = nameless {
            let sum = self.by_mapping.entry(mapping).or_default();
            *sum = sum.saturating_add(n_samples);
        }
    }

    /// Counts what `other` counted, too.
    pub fn merge(&mut self, other: &Self) {
        self.n_samples = self.n_samples.saturating_add(other.n_samples);
        for (&mapping, &n_samples) in &other.by_mapping {
            let sum = self.by_mapping.entry(mapping).or_default();
            *sum = sum.saturating_add(n_samples);
        }
    }

    /// The samples without a name, by the number of the mapping.
    pub(super) fn by_mapping(&self) -> impl Iterator<Item = (u32, u64)> {
        self.by_mapping.iter().map(|(&mapping, &n_samples)| (mapping, n_samples))
    }
}
