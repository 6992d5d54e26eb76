//! What it costs that modules lack symbols.

use std::path::Path;

use rustc_hash::FxHashMap;

use crate::symbols;
use crate::symbols::ModuleFile;
use crate::units::Pid;

use super::Frame;
use super::Unnamed;

use super::resolved::Dso;
use super::resolved::Level;
use super::resolved::Resolved;
use super::timeline::MappedFile;
use super::timeline::Owner;

/// How many samples fell on addresses of files where no name is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nameless {
    /// All samples that were looked at.
    pub n_samples: u64,
    /// Those without a name, by the number of the mapping.
    by_mapping: FxHashMap<u32, u64>,
    /// Those without a name in the kernel that no mapping covered.
    n_beyond_kernel: u64,
}

/// An address without a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// Who owned it, if anybody.
    pub owner: Option<Owner>,
    /// Where it was sampled.
    pub level: Level,
}

impl Unknown {
    /// The address of `frame`.
    pub fn of(frame: &Frame) -> Self {
        Self { owner: frame.owner, level: frame.level }
    }
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
    /// The same, and what may have been split off it is too long to be known by its CRC.
    TooLong(&'n ModuleFile, &'n Path),
    /// The file itself, and why.
    File(&'n ModuleFile, &'n symbols::Error),
    /// What the process with this number wrote of its code, and why.
    Map(Pid, Unnamed),
    /// A file for what came, in memory without a file, in the place of its code: most likely this very code,
    /// which was moved.
    Moved(&'n MappedFile),
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
            let unknown = location.filter(|it| it.symbol.is_none());
            let unknown = unknown.map(|it| Unknown { owner: it.owner, level: it.level });
            this.add(unknown, group.n_samples);
        }
        this
    }

    /// Counts `n_samples`; `unknown` is their address, if it has no name.
    pub fn add(&mut self, unknown: Option<Unknown>, n_samples: u64) {
        self.n_samples = self.n_samples.saturating_add(n_samples);
        let sum = match unknown {
            Some(Unknown { owner: Some(Owner::Mapping(mapping)), .. }) => {
                self.by_mapping.entry(mapping).or_default()
            }
            Some(Unknown { owner: None, level: Level::Kernel }) => &mut self.n_beyond_kernel,
            _ => return,
        };
        *sum = sum.saturating_add(n_samples);
    }

    /// Counts what `other` counted, too.
    pub fn merge(&mut self, other: &Self) {
        self.n_samples = self.n_samples.saturating_add(other.n_samples);
        self.n_beyond_kernel = self.n_beyond_kernel.saturating_add(other.n_beyond_kernel);
        for (&mapping, &n_samples) in &other.by_mapping {
            let sum = self.by_mapping.entry(mapping).or_default();
            *sum = sum.saturating_add(n_samples);
        }
    }

    /// The samples without a name in the kernel that no mapping covered.
    pub(super) fn n_beyond_kernel(&self) -> u64 {
        self.n_beyond_kernel
    }

    /// The samples without a name, by the number of the mapping.
    pub(super) fn by_mapping(&self) -> impl Iterator<Item = (u32, u64)> {
        self.by_mapping.iter().map(|(&mapping, &n_samples)| (mapping, n_samples))
    }
}
