//! The feature sections of a header: what was recorded, on what machine, by what command.
//!
//! A section is decoded by itself, so that a damaged one costs no other. Lengths and counts in it
//! are a stranger's: nothing is allocated before the bytes for it have been seen.
//!
//! Source: `tools/perf/Documentation/perf.data-file-format.txt`; where it is silent,
//! `tools/perf/util/header.c`.

mod build_id;
mod clock;
mod event;
mod id;
mod pipe;
mod pmu;
mod sections;
mod text;
mod topology;

pub use build_id::FileBuildId;
pub use clock::ClockData;
pub use clock::SampleTime;
pub use event::EventDesc;
pub use event::EventDescs;
pub use event::GroupDesc;
pub use id::FeatureId;
pub use pipe::PipeBodies;
pub use pipe::pipe_bodies;
pub use pipe::pipe_end;
pub use pmu::PmuCap;
pub use pmu::PmuCaps;
pub use pmu::PmuMapping;
pub use sections::FeatureSection;
pub use sections::read_all;
pub use text::Text;
pub use topology::CacheLevel;
pub use topology::CpuCount;
pub use topology::CpuDomain;
pub use topology::CpuDomains;
pub use topology::CpuPlace;
pub use topology::CpuTopology;
pub use topology::Dies;
pub use topology::HybridNode;
pub use topology::MemoryNode;
pub use topology::MemoryTopology;
pub use topology::NumaNode;
pub use topology::SchedDomain;

use crate::units::FileOffset;

use super::Cursor;
use super::Endian;
use super::Result;

/// What one feature section says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Feature {
    /// The formats of tracepoints, as `tracefs` gave them; not taken apart.
    TracingData(Vec<u8>),
    /// The build ids of files that had samples.
    BuildIds(Vec<FileBuildId>),
    /// The host's name.
    Hostname(Text),
    /// The kernel's release.
    OsRelease(Text),
    /// The version of the recorder.
    Version(Text),
    /// The architecture, as `uname -m` spells it.
    Arch(Text),
    /// How many CPUs.
    Cpus(CpuCount),
    /// The CPU's name.
    CpuDescription(Text),
    /// The CPU's vendor, family, model and stepping.
    Cpuid(Text),
    /// All memory, in kB.
    TotalMemory(u64),
    /// The recorder's command line, beginning with the path of its program.
    CommandLine(Vec<Text>),
    /// The events.
    Events(EventDescs),
    /// Packages, dies, cores.
    CpuTopology(CpuTopology),
    /// NUMA nodes.
    NumaTopology(Vec<NumaNode>),
    /// Samples carry branches.
    BranchStack,
    /// The numbers of PMUs.
    PmuMappings(Vec<PmuMapping>),
    /// Groups of events.
    Groups(Vec<GroupDesc>),
    /// Where AUX area data stands in the file.
    Auxtrace(Vec<AuxtraceChunk>),
    /// The file is of `perf stat record`.
    Stat,
    /// Caches.
    Caches(Vec<CacheLevel>),
    /// The times of the first and last sample.
    SampleTime(SampleTime),
    /// Blocks of physical memory.
    MemoryTopology(MemoryTopology),
    /// The resolution of the recording's clock, in ns.
    ClockResolution(u64),
    /// The version of a recording that is a directory.
    DirFormat(u64),
    /// What the kernel knew of BPF programs, as bytes; `bpf_prog_info` takes them apart.
    BpfProgInfo(Vec<u8>),
    /// The BTF of BPF programs, as bytes.
    BpfBtf(Vec<u8>),
    /// Records are compressed.
    Compressed(Compression),
    /// The capabilities of the PMU `cpu`.
    CpuPmuCaps(Vec<PmuCap>),
    /// The recording's clock against the time of day.
    ClockData(ClockData),
    /// Kinds of cores.
    HybridTopology(Vec<HybridNode>),
    /// The capabilities of all other PMUs.
    PmuCaps(Vec<PmuCaps>),
    /// Scheduler domains.
    CpuDomains(CpuDomains),
    /// The recorded machine's kind, as ELF numbers them.
    ElfMachine(ElfMachine),
    /// The bytes of a cache line.
    CachelineSize(u32),
    /// A feature that this version does not know, as bytes.
    Unknown(FeatureId, Vec<u8>),
}

/// Where one piece of AUX area data stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuxtraceChunk {
    /// Where its record begins.
    pub at: FileOffset,
    /// The bytes of the record, its data included.
    pub len: u64,
}

/// `HEADER_COMPRESSED`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    /// The version: 0.
    pub version: u32,
    /// The method: [`Compression::ZSTD`].
    pub method: u32,
    /// The level, 1 to 22.
    pub level: u32,
    /// Plain bytes to compressed ones, rounded.
    pub ratio: u32,
    /// The most bytes that one record inflates to.
    pub mmap_len: u32,
}

impl Compression {
    /// Zstandard, the only method there is.
    pub const ZSTD: u32 = 1;
}

/// `HEADER_E_MACHINE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElfMachine {
    /// `EM_X86_64` and the like.
    pub machine: u32,
    /// The machine's ELF flags.
    pub flags: u32,
}

/// Decodes the sections of one file or pipe, in the order in which they come.
///
/// It keeps the number of CPUs, without which the CPU topology cannot be read.
#[derive(Clone, Copy, Debug)]
pub struct FeatureDecoder {
    endian: Endian,
    n_cpus: u32,
}

impl FeatureDecoder {
    /// A decoder that has seen no section yet.
    pub fn new(endian: Endian) -> Self {
        Self { endian, n_cpus: 0 }
    }

    /// Decodes the feature of a pipe's record; `None` for the record that ends the features, which
    /// is one without data, and for a number that no header has a bit for.
    ///
    /// There may be several of one feature: each adds to the ones before.
    pub fn decode_record(
        &mut self,
        id: u64,
        data: &[u8],
        at: FileOffset,
    ) -> Option<FeatureSection> {
        let id = u8::try_from(id).ok().filter(|_| !data.is_empty()).map(FeatureId)?;
        Some(FeatureSection { id, at, content: self.decode(id, data, at) })
    }

    /// Decodes the section `id`, whose `bytes` stand at `at` in the file.
    ///
    /// Bytes after what is known of a section are passed over: pipes are padded, and newer
    /// versions add fields at the end.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`](super::Error::Truncated) if the section holds less than it claims,
    /// [`Error::BadField`](super::Error::BadField) if its version is not known. The other sections
    /// can still be read.
    pub fn decode(&mut self, id: FeatureId, bytes: &[u8], at: FileOffset) -> Result<Feature> {
        let cursor = &mut Cursor::new(bytes, at, self.endian);
        Ok(match id {
            FeatureId::TRACING_DATA => Feature::TracingData(bytes.to_vec()),
            FeatureId::BUILD_ID => Feature::BuildIds(FileBuildId::decode_all(cursor)?),
            FeatureId::HOSTNAME => Feature::Hostname(Text::decode(cursor, "host name")?),
            FeatureId::OSRELEASE => Feature::OsRelease(Text::decode(cursor, "kernel release")?),
            FeatureId::VERSION => Feature::Version(Text::decode(cursor, "recorder version")?),
            FeatureId::ARCH => Feature::Arch(Text::decode(cursor, "architecture")?),
            FeatureId::NRCPUS => {
                let available = cursor.u32("number of available CPUs")?;
                self.n_cpus = available;
                Feature::Cpus(CpuCount { available, online: cursor.u32("number of online CPUs")? })
            }
            FeatureId::CPUDESC => Feature::CpuDescription(Text::decode(cursor, "CPU description")?),
            FeatureId::CPUID => Feature::Cpuid(Text::decode(cursor, "CPU id")?),
            FeatureId::TOTAL_MEM => Feature::TotalMemory(cursor.u64("total memory")?),
            FeatureId::CMDLINE => {
                Feature::CommandLine(list(cursor, "number of arguments", |it| {
                    Text::decode(it, "argument")
                })?)
            }
            FeatureId::EVENT_DESC => Feature::Events(EventDescs::decode(cursor)?),
            FeatureId::CPU_TOPOLOGY => {
                Feature::CpuTopology(CpuTopology::decode(cursor, self.n_cpus)?)
            }
            FeatureId::NUMA_TOPOLOGY => {
                Feature::NumaTopology(list(cursor, "number of NUMA nodes", NumaNode::decode)?)
            }
            FeatureId::BRANCH_STACK => Feature::BranchStack,
            FeatureId::PMU_MAPPINGS => {
                Feature::PmuMappings(list(cursor, "number of PMUs", PmuMapping::decode)?)
            }
            FeatureId::GROUP_DESC => {
                Feature::Groups(list(cursor, "number of groups", GroupDesc::decode)?)
            }
            FeatureId::AUXTRACE => {
                let n_chunks = cursor.u64("number of AUX chunks")?;
                let chunk = |it: &mut Cursor<'_>| {
                    let at = FileOffset(it.u64("AUX chunk offset")?);
                    Ok(AuxtraceChunk { at, len: it.u64("AUX chunk size")? })
                };
                Feature::Auxtrace((0..n_chunks).map(|_| chunk(cursor)).collect::<Result<_>>()?)
            }
            FeatureId::STAT => Feature::Stat,
            FeatureId::CACHE => Feature::Caches(CacheLevel::decode_all(cursor)?),
            FeatureId::SAMPLE_TIME => Feature::SampleTime(SampleTime::decode(cursor)?),
            FeatureId::MEM_TOPOLOGY => Feature::MemoryTopology(MemoryTopology::decode(cursor)?),
            FeatureId::CLOCKID => Feature::ClockResolution(cursor.u64("clock resolution")?),
            FeatureId::DIR_FORMAT => Feature::DirFormat(cursor.u64("directory version")?),
            FeatureId::BPF_PROG_INFO => Feature::BpfProgInfo(bytes.to_vec()),
            FeatureId::BPF_BTF => Feature::BpfBtf(bytes.to_vec()),
            FeatureId::COMPRESSED => Feature::Compressed(Compression {
                version: cursor.u32("compression version")?,
                method: cursor.u32("compression method")?,
                level: cursor.u32("compression level")?,
                ratio: cursor.u32("compression ratio")?,
                mmap_len: cursor.u32("compression buffer size")?,
            }),
            FeatureId::CPU_PMU_CAPS => {
                Feature::CpuPmuCaps(list(cursor, "number of PMU capabilities", PmuCap::decode)?)
            }
            FeatureId::CLOCK_DATA => Feature::ClockData(ClockData::decode(cursor)?),
            FeatureId::HYBRID_TOPOLOGY => {
                Feature::HybridTopology(list(cursor, "number of core types", HybridNode::decode)?)
            }
            FeatureId::PMU_CAPS => {
                Feature::PmuCaps(list(cursor, "number of PMUs", PmuCaps::decode)?)
            }
            FeatureId::CPU_DOMAIN_INFO => Feature::CpuDomains(CpuDomains::decode(cursor)?),
            FeatureId::E_MACHINE => Feature::ElfMachine(ElfMachine {
                machine: cursor.u32("ELF machine")?,
                flags: cursor.u32("ELF flags")?,
            }),
            FeatureId::CLN_SIZE => Feature::CachelineSize(cursor.u32("cache line size")?),
            unknown => Feature::Unknown(unknown, bytes.to_vec()),
        })
    }
}

impl Feature {
    /// Which section this is.
    pub fn id(&self) -> FeatureId {
        match self {
            Self::TracingData(_) => FeatureId::TRACING_DATA,
            Self::BuildIds(_) => FeatureId::BUILD_ID,
            Self::Hostname(_) => FeatureId::HOSTNAME,
            Self::OsRelease(_) => FeatureId::OSRELEASE,
            Self::Version(_) => FeatureId::VERSION,
            Self::Arch(_) => FeatureId::ARCH,
            Self::Cpus(_) => FeatureId::NRCPUS,
            Self::CpuDescription(_) => FeatureId::CPUDESC,
            Self::Cpuid(_) => FeatureId::CPUID,
            Self::TotalMemory(_) => FeatureId::TOTAL_MEM,
            Self::CommandLine(_) => FeatureId::CMDLINE,
            Self::Events(_) => FeatureId::EVENT_DESC,
            Self::CpuTopology(_) => FeatureId::CPU_TOPOLOGY,
            Self::NumaTopology(_) => FeatureId::NUMA_TOPOLOGY,
            Self::BranchStack => FeatureId::BRANCH_STACK,
            Self::PmuMappings(_) => FeatureId::PMU_MAPPINGS,
            Self::Groups(_) => FeatureId::GROUP_DESC,
            Self::Auxtrace(_) => FeatureId::AUXTRACE,
            Self::Stat => FeatureId::STAT,
            Self::Caches(_) => FeatureId::CACHE,
            Self::SampleTime(_) => FeatureId::SAMPLE_TIME,
            Self::MemoryTopology(_) => FeatureId::MEM_TOPOLOGY,
            Self::ClockResolution(_) => FeatureId::CLOCKID,
            Self::DirFormat(_) => FeatureId::DIR_FORMAT,
            Self::BpfProgInfo(_) => FeatureId::BPF_PROG_INFO,
            Self::BpfBtf(_) => FeatureId::BPF_BTF,
            Self::Compressed(_) => FeatureId::COMPRESSED,
            Self::CpuPmuCaps(_) => FeatureId::CPU_PMU_CAPS,
            Self::ClockData(_) => FeatureId::CLOCK_DATA,
            Self::HybridTopology(_) => FeatureId::HYBRID_TOPOLOGY,
            Self::PmuCaps(_) => FeatureId::PMU_CAPS,
            Self::CpuDomains(_) => FeatureId::CPU_DOMAIN_INFO,
            Self::ElfMachine(_) => FeatureId::E_MACHINE,
            Self::CachelineSize(_) => FeatureId::CLN_SIZE,
            Self::Unknown(id, _) => *id,
        }
    }

    /// Appends the section, in this machine's byte order and laid out as by perf.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::TracingData(bytes)
            | Self::BpfProgInfo(bytes)
            | Self::BpfBtf(bytes)
            | Self::Unknown(_, bytes) => out.extend(bytes),
            Self::BuildIds(entries) => entries.iter().for_each(|it| it.encode(out)),
            Self::Hostname(text)
            | Self::OsRelease(text)
            | Self::Version(text)
            | Self::Arch(text)
            | Self::CpuDescription(text)
            | Self::Cpuid(text) => text.encode(out),
            Self::Cpus(CpuCount { available, online }) => {
                out.extend(available.to_ne_bytes());
                out.extend(online.to_ne_bytes());
            }
            Self::TotalMemory(number) | Self::ClockResolution(number) | Self::DirFormat(number) => {
                out.extend(number.to_ne_bytes());
            }
            Self::CommandLine(arguments) => encode_list(arguments, out, Text::encode),
            Self::Events(events) => events.encode(out),
            Self::CpuTopology(topology) => topology.encode(out),
            Self::NumaTopology(nodes) => encode_list(nodes, out, NumaNode::encode),
            Self::BranchStack | Self::Stat => {}
            Self::PmuMappings(pmus) => encode_list(pmus, out, PmuMapping::encode),
            Self::Groups(groups) => encode_list(groups, out, GroupDesc::encode),
            Self::Auxtrace(chunks) => {
                out.extend(super::cursor::widen(chunks.len()).to_ne_bytes());
                for AuxtraceChunk { at, len } in chunks {
                    out.extend(at.0.to_ne_bytes());
                    out.extend(len.to_ne_bytes());
                }
            }
            Self::Caches(caches) => CacheLevel::encode_all(caches, out),
            Self::SampleTime(times) => times.encode(out),
            Self::MemoryTopology(topology) => topology.encode(out),
            Self::Compressed(Compression { version, method, level, ratio, mmap_len }) => {
                for number in [version, method, level, ratio, mmap_len] {
                    out.extend(number.to_ne_bytes());
                }
            }
            Self::CpuPmuCaps(caps) => encode_list(caps, out, PmuCap::encode),
            Self::ClockData(data) => data.encode(out),
            Self::HybridTopology(nodes) => encode_list(nodes, out, HybridNode::encode),
            Self::PmuCaps(pmus) => encode_list(pmus, out, PmuCaps::encode),
            Self::CpuDomains(domains) => domains.encode(out),
            Self::ElfMachine(ElfMachine { machine, flags }) => {
                out.extend(machine.to_ne_bytes());
                out.extend(flags.to_ne_bytes());
            }
            Self::CachelineSize(bytes) => out.extend(bytes.to_ne_bytes()),
        }
    }
}

/// Decodes a count of 32 bits and as many items.
///
/// Each item takes bytes, so that a false count ends at the section's end, not in memory.
fn list<T>(
    cursor: &mut Cursor<'_>,
    count: &'static str,
    item: impl Fn(&mut Cursor<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    (0..cursor.u32(count)?).map(|_| item(cursor)).collect()
}

/// Appends a count of 32 bits and the items.
fn encode_list<T>(items: &[T], out: &mut Vec<u8>, encode: impl Fn(&T, &mut Vec<u8>)) {
    out.extend(count(items.len()).to_ne_bytes());
    for item in items {
        encode(item, out);
    }
}

/// A count as sections hold it.
///
/// # Panics
///
/// If there are 2^32 items or more, which no machine has of anything listed here.
fn count(n_items: usize) -> u32 {
    assert!(n_items <= 0xffff_ffff, "a section counts its items in 32 bits");
    u32::try_from(n_items).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
