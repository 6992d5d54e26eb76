//! The numbers of feature sections.

use std::fmt;

/// Which feature a section holds: the number of its bit in the file header.
///
/// Source: `enum` of `HEADER_*` in `tools/perf/util/header.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FeatureId(pub u8);

macro_rules! features {
    ($($(#[$doc:meta])* $name:ident = $number:literal;)*) => {
        impl FeatureId {
            $($(#[$doc])* pub const $name: Self = Self($number);)*

            /// Every feature known here, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The name of a known feature, without the prefix `HEADER_`.
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

features! {
    /// Formats of tracepoints.
    TRACING_DATA = 1;
    /// Build ids of files.
    BUILD_ID = 2;
    /// The host's name.
    HOSTNAME = 3;
    /// The kernel's release.
    OSRELEASE = 4;
    /// The recorder's version.
    VERSION = 5;
    /// The architecture.
    ARCH = 6;
    /// How many CPUs.
    NRCPUS = 7;
    /// The CPU's name.
    CPUDESC = 8;
    /// The CPU's family and model.
    CPUID = 9;
    /// All memory.
    TOTAL_MEM = 10;
    /// The command line.
    CMDLINE = 11;
    /// The events.
    EVENT_DESC = 12;
    /// Packages, dies, cores.
    CPU_TOPOLOGY = 13;
    /// NUMA nodes.
    NUMA_TOPOLOGY = 14;
    /// Samples carry branches.
    BRANCH_STACK = 15;
    /// The numbers of PMUs.
    PMU_MAPPINGS = 16;
    /// Groups of events.
    GROUP_DESC = 17;
    /// An index of AUX area data.
    AUXTRACE = 18;
    /// The file is of `perf stat record`.
    STAT = 19;
    /// Caches.
    CACHE = 20;
    /// The times of the first and last sample.
    SAMPLE_TIME = 21;
    /// Blocks of physical memory.
    MEM_TOPOLOGY = 22;
    /// The clock's resolution.
    CLOCKID = 23;
    /// The file is one of a directory.
    DIR_FORMAT = 24;
    /// BPF programs.
    BPF_PROG_INFO = 25;
    /// BTF of BPF programs.
    BPF_BTF = 26;
    /// Records are compressed.
    COMPRESSED = 27;
    /// Capabilities of the PMU `cpu`.
    CPU_PMU_CAPS = 28;
    /// The clock against the time of day.
    CLOCK_DATA = 29;
    /// Kinds of cores.
    HYBRID_TOPOLOGY = 30;
    /// Capabilities of other PMUs.
    PMU_CAPS = 31;
    /// Scheduler domains.
    CPU_DOMAIN_INFO = 32;
    /// The ELF machine.
    E_MACHINE = 33;
    /// The bytes of a cache line.
    CLN_SIZE = 34;
}

impl FeatureId {
    /// The number after the last: in a pipe, a record of it without data ends the features.
    ///
    /// An older recorder ends them with the number that was its own last, so a reader must take
    /// any record without data for the end.
    pub const END: Self = Self(35);

    /// How this feature goes through pipes.
    ///
    /// Source: `FEAT_OPR` against `FEAT_OPN` in `tools/perf/util/header.c`. Older versions end at the
    /// number of one that they do not know.
    pub(super) fn way(self) -> Way {
        match self {
            Self::TRACING_DATA | Self::BUILD_ID | Self::AUXTRACE | Self::DIR_FORMAT => {
                Way::Otherwise
            }
            Self::BRANCH_STACK | Self::STAT | Self::CACHE | Self::HYBRID_TOPOLOGY => Way::Apart,
            known if known.name().is_some() => Way::Record,
            _ => Way::Apart,
        }
    }
}

/// How a feature goes through pipes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// In a record, as from perf.
    Record,
    /// In a private message: perf has it in files alone, or does not know it.
    Apart,
    /// It has a record of its own, or tells how a file is laid out.
    Otherwise,
}

impl fmt::Display for FeatureId {
    /// The name, or the number of one that is not known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "feature {}", self.0),
        }
    }
}
