//! How the recorded machine is built: CPUs, caches, memory.

use crate::perfdata::Cursor;
use crate::perfdata::Error;
use crate::perfdata::Result;
use crate::perfdata::cursor::widen;
use crate::units::Cpu;

use super::Text;
use super::encode_list;
use super::list;

/// `HEADER_NRCPUS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuCount {
    /// One more than the highest CPU number that is present.
    pub available: u32,
    /// How many CPUs are online.
    pub online: u32,
}

/// `HEADER_CPU_TOPOLOGY`: which CPUs share a package, a die, a core.
///
/// Lists of CPUs are as the kernel spells them: `0-3,8`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuTopology {
    /// The CPUs of each package.
    pub packages: Vec<Text>,
    /// The CPUs (hardware threads) of each core.
    pub cores: Vec<Text>,
    /// Where each CPU sits, by CPU number; old recordings lack it.
    pub places: Vec<CpuPlace>,
    /// The dies, where the architecture has them and the recorder knew.
    pub dies: Option<Dies>,
}

/// Where a CPU sits; -1 if it was offline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuPlace {
    /// The core's number within its package.
    pub core: i32,
    /// The package's number.
    pub package: i32,
}

/// The dies of a [`CpuTopology`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dies {
    /// The CPUs of each die.
    pub lists: Vec<Text>,
    /// The number of each CPU's die within its package, by CPU number.
    pub ids: Vec<i32>,
}

impl CpuTopology {
    /// Decodes the section of a machine with `n_cpus` available CPUs, which it does not say itself.
    pub(super) fn decode(cursor: &mut Cursor<'_>, n_cpus: u32) -> Result<Self> {
        let packages = list(cursor, "number of packages", |it| Text::decode(it, "package CPUs"))?;
        let cores = list(cursor, "number of cores", |it| Text::decode(it, "core CPUs"))?;
        let mut this = Self { packages, cores, places: Vec::new(), dies: None };
        if cursor.remaining() < 8 {
            return Ok(this);
        }
        let place = |it: &mut Cursor<'_>| {
            Ok(CpuPlace { core: it.i32("core id")?, package: it.i32("package id")? })
        };
        this.places = (0..n_cpus).map(|_| place(cursor)).collect::<Result<_>>()?;
        if cursor.remaining() < 8 {
            return Ok(this);
        }
        let lists = list(cursor, "number of dies", |it| Text::decode(it, "die CPUs"))?;
        let ids = (0..n_cpus).map(|_| cursor.i32("die id")).collect::<Result<_>>()?;
        this.dies = Some(Dies { lists, ids });
        Ok(this)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let Self { packages, cores, places, dies } = self;
        encode_list(packages, out, Text::encode);
        encode_list(cores, out, Text::encode);
        for CpuPlace { core, package } in places {
            out.extend(core.to_ne_bytes());
            out.extend(package.to_ne_bytes());
        }
        if let Some(Dies { lists, ids }) = dies {
            encode_list(lists, out, Text::encode);
            out.extend(ids.iter().flat_map(|id| id.to_ne_bytes()));
        }
    }
}

/// One node of `HEADER_NUMA_TOPOLOGY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumaNode {
    /// The node's number.
    pub node: u32,
    /// All its memory, in kB.
    pub total_kb: u64,
    /// Its free memory when the recording began, in kB.
    pub free_kb: u64,
    /// Its CPUs.
    pub cpus: Text,
}

impl NumaNode {
    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        Ok(Self {
            node: cursor.u32("NUMA node")?,
            total_kb: cursor.u64("NUMA node total memory")?,
            free_kb: cursor.u64("NUMA node free memory")?,
            cpus: Text::decode(cursor, "NUMA node CPUs")?,
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let Self { node, total_kb, free_kb, cpus } = self;
        out.extend(node.to_ne_bytes());
        out.extend(total_kb.to_ne_bytes());
        out.extend(free_kb.to_ne_bytes());
        cpus.encode(out);
    }
}

/// One cache of `HEADER_CACHE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheLevel {
    /// 1 is nearest to the CPU.
    pub level: u32,
    /// Bytes a line.
    pub line_bytes: u32,
    /// How many sets.
    pub n_sets: u32,
    /// How many ways.
    pub n_ways: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: Text,
    /// The size with its unit, as the kernel spells it: `32K`.
    pub size: Text,
    /// The CPUs that share it.
    pub cpus: Text,
}

impl CacheLevel {
    const VERSION: u32 = 1;

    pub(super) fn decode_all(cursor: &mut Cursor<'_>) -> Result<Vec<Self>> {
        let at = cursor.at();
        let version = cursor.u32("cache info version")?;
        if version != Self::VERSION {
            let (field, value) = ("cache info version", u64::from(version));
            return Err(Error::BadField { field, at, value });
        }
        list(cursor, "number of caches", |it| {
            Ok(Self {
                level: it.u32("cache level")?,
                line_bytes: it.u32("cache line size")?,
                n_sets: it.u32("cache sets")?,
                n_ways: it.u32("cache ways")?,
                kind: Text::decode(it, "cache type")?,
                size: Text::decode(it, "cache size")?,
                cpus: Text::decode(it, "cache CPUs")?,
            })
        })
    }

    pub(super) fn encode_all(caches: &[Self], out: &mut Vec<u8>) {
        out.extend(Self::VERSION.to_ne_bytes());
        encode_list(caches, out, |it, out| {
            let Self { level, line_bytes, n_sets, n_ways, kind, size, cpus } = it;
            for number in [level, line_bytes, n_sets, n_ways] {
                out.extend(number.to_ne_bytes());
            }
            for text in [kind, size, cpus] {
                text.encode(out);
            }
        });
    }
}

/// `HEADER_MEM_TOPOLOGY`: which blocks of physical memory belong to which node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryTopology {
    /// The bytes of a block.
    pub block_bytes: u64,
    /// The nodes.
    pub nodes: Vec<MemoryNode>,
}

/// The memory of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryNode {
    /// The node's number.
    pub node: u64,
    /// One more than the highest number of a block.
    pub n_bits: u64,
    /// A bit a block, the lowest first; set if the block is this node's.
    pub bits: Vec<u64>,
}

impl MemoryTopology {
    const VERSION: u64 = 1;

    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let at = cursor.at();
        let value = cursor.u64("memory topology version")?;
        if value != Self::VERSION {
            return Err(Error::BadField { field: "memory topology version", at, value });
        }
        let block_bytes = cursor.u64("memory block size")?;
        let n_nodes = cursor.u64("number of memory nodes")?;
        let nodes = (0..n_nodes).map(|_| MemoryNode::decode(cursor)).collect::<Result<_>>()?;
        Ok(Self { block_bytes, nodes })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let Self { block_bytes, nodes } = self;
        out.extend(Self::VERSION.to_ne_bytes());
        out.extend(block_bytes.to_ne_bytes());
        out.extend(widen(nodes.len()).to_ne_bytes());
        for node in nodes {
            node.encode(out);
        }
    }
}

impl MemoryNode {
    fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let node = cursor.u64("memory node")?;
        // The length of the bitmap stands there twice: for the node, and for the bitmap.
        cursor.u64("memory node size")?;
        let n_bits = cursor.u64("memory bitmap size")?;
        let words = (0..n_bits.div_ceil(64)).map(|_| cursor.u64("memory bitmap"));
        Ok(Self { node, n_bits, bits: words.collect::<Result<_>>()? })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let Self { node, n_bits, bits } = self;
        for number in [node, n_bits, n_bits].into_iter().chain(bits) {
            out.extend(number.to_ne_bytes());
        }
    }
}

/// One kind of core of `HEADER_HYBRID_TOPOLOGY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HybridNode {
    /// The PMU of such cores.
    pub pmu: Text,
    /// Its CPUs.
    pub cpus: Text,
}

impl HybridNode {
    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let pmu = Text::decode(cursor, "hybrid PMU")?;
        Ok(Self { pmu, cpus: Text::decode(cursor, "hybrid CPUs")? })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let Self { pmu, cpus } = self;
        pmu.encode(out);
        cpus.encode(out);
    }
}

/// `HEADER_CPU_DOMAIN_INFO`: the scheduler's domains, from `/proc/schedstat`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuDomains {
    /// The version of `/proc/schedstat`.
    pub schedstat_version: u32,
    /// One more than the highest number of a domain.
    pub max_domains: u32,
    /// The domains of each CPU.
    pub cpus: Vec<CpuDomain>,
}

/// The domains that a CPU is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuDomain {
    /// The CPU.
    pub cpu: Cpu,
    /// Its domains, the smallest first.
    pub domains: Vec<SchedDomain>,
}

/// One domain of a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedDomain {
    /// Its number.
    pub domain: u32,
    /// Its name, from version 17 of `/proc/schedstat` on.
    pub name: Option<Text>,
    /// The CPUs in it as a mask: `f`.
    pub mask: Text,
    /// The CPUs in it as a list: `0-3`.
    pub list: Text,
}

impl CpuDomains {
    /// The version of `/proc/schedstat` that first has names of domains.
    pub const NAMED_SINCE: u32 = 17;

    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let schedstat_version = cursor.u32("schedstat version")?;
        let max_domains = cursor.u32("number of scheduler domains")?;
        let mut cpus = Vec::new();
        while cursor.remaining() >= 8 {
            let cpu = Cpu(cursor.u32("scheduler domain CPU")?);
            let domains = list(cursor, "number of domains of a CPU", |it| {
                let domain = it.u32("scheduler domain")?;
                let name = (schedstat_version >= Self::NAMED_SINCE)
                    .then(|| Text::decode(it, "scheduler domain name"));
                Ok(SchedDomain {
                    domain,
                    name: name.transpose()?,
                    mask: Text::decode(it, "scheduler domain mask")?,
                    list: Text::decode(it, "scheduler domain CPUs")?,
                })
            })?;
            cpus.push(CpuDomain { cpu, domains });
        }
        Ok(Self { schedstat_version, max_domains, cpus })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let Self { schedstat_version, max_domains, cpus } = self;
        out.extend(schedstat_version.to_ne_bytes());
        out.extend(max_domains.to_ne_bytes());
        for CpuDomain { cpu, domains } in cpus {
            out.extend(cpu.0.to_ne_bytes());
            encode_list(domains, out, |SchedDomain { domain, name, mask, list }, out| {
                out.extend(domain.to_ne_bytes());
                name.iter().chain([mask, list]).for_each(|text| text.encode(out));
            });
        }
    }
}
