//! The recorded machine.

use std::fmt::Display;
use std::io;
use std::io::Write;

use crate::perfdata::feature::CacheLevel;
use crate::perfdata::feature::CpuDomain;
use crate::perfdata::feature::CpuDomains;
use crate::perfdata::feature::CpuPlace;
use crate::perfdata::feature::CpuTopology;
use crate::perfdata::feature::Feature;
use crate::perfdata::feature::HybridNode;
use crate::perfdata::feature::MemoryNode;
use crate::perfdata::feature::MemoryTopology;
use crate::perfdata::feature::NumaNode;
use crate::perfdata::feature::PmuCap;
use crate::perfdata::feature::PmuMapping;
use crate::perfdata::feature::SchedDomain;

/// What sections about one thing need to know of the machine.
pub(super) struct Names<'a> {
    /// The PMUs.
    pub(super) pmus: &'a [PmuMapping],
    is_x86: bool,
    cpu_caps: &'a [PmuCap],
}

impl<'a> Names<'a> {
    pub(super) fn new(features: impl Iterator<Item = &'a Feature>) -> Self {
        let mut this = Self { pmus: &[], is_x86: false, cpu_caps: &[] };
        for feature in features {
            match feature {
                Feature::PmuMappings(pmus) => this.pmus = pmus,
                Feature::CpuPmuCaps(caps) => this.cpu_caps = caps,
                Feature::Arch(arch) => {
                    this.is_x86 =
                        matches!(arch.as_bytes(), b"x86_64" | [b'i', b'3'..=b'6', b'8', b'6']);
                }
                _ => {}
            }
        }
        this
    }

    /// Notes that precise events are another PMU's on this machine.
    pub(super) fn write_ibs_note(&self, out: &mut dyn Write) -> io::Result<()> {
        let has_ibs = self.pmus.iter().any(|it| it.name.as_bytes() == b"ibs_op");
        let is_imprecise =
            |it: &PmuCap| it.name.as_bytes() == b"max_precise" && it.value.as_bytes() == b"0";
        if self.is_x86 && has_ibs && self.cpu_caps.iter().any(is_imprecise) {
            writeln!(
                out,
                "# AMD systems uses ibs_op// PMU for some precise events, e.g.: cycles:p, \
                 see the 'perf list' man page for further details."
            )?;
        }
        Ok(())
    }
}

pub(super) fn write_cpus(topology: &CpuTopology, out: &mut dyn Write) -> io::Result<()> {
    let CpuTopology { packages, cores, places, dies } = topology;
    let dies = dies.as_ref().filter(|it| !it.lists.is_empty());
    for list in packages {
        writeln!(out, "# sibling sockets : {list}")?;
    }
    for list in dies.iter().flat_map(|it| &it.lists) {
        writeln!(out, "# sibling dies    : {list}")?;
    }
    for list in cores {
        writeln!(out, "# sibling threads : {list}")?;
    }
    if places.is_empty() {
        let dies = if dies.is_some() { ", Die ID" } else { "" };
        return writeln!(out, "# Core ID{dies} and Socket ID information is not available");
    }
    for (cpu, CpuPlace { core, package }) in places.iter().enumerate() {
        write!(out, "# CPU {cpu}: Core ID {core}, ")?;
        if let Some(die) = dies.and_then(|it| it.ids.get(cpu)) {
            write!(out, "Die ID {die}, ")?;
        }
        writeln!(out, "Socket ID {package}")?;
    }
    Ok(())
}

pub(super) fn write_numa(nodes: &[NumaNode], out: &mut dyn Write) -> io::Result<()> {
    for NumaNode { node, total_kb, free_kb, cpus } in nodes {
        writeln!(out, "# node{node} meminfo  : total = {total_kb} kB, free = {free_kb} kB")?;
        writeln!(out, "# node{node} cpu list : {cpus}")?;
    }
    Ok(())
}

pub(super) fn write_pmus(pmus: &[PmuMapping], out: &mut dyn Write) -> io::Result<()> {
    if pmus.is_empty() {
        return writeln!(out, "# pmu mappings: not available");
    }
    let pmus = pmus.iter().map(|PmuMapping { kind, name }| format!("{name} = {kind}"));
    writeln!(out, "# pmu mappings: {}", pmus.collect::<Vec<_>>().join(", "))
}

pub(super) fn write_caches(caches: &[CacheLevel], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "# CPU cache info:")?;
    for CacheLevel { level, kind, size, cpus, .. } in caches {
        let (kind, size) = (kind.to_string(), size.to_string());
        writeln!(out, "#  L{level} {kind:<15} {size:>8} [{cpus}]")?;
    }
    Ok(())
}

pub(super) fn write_memory(topology: &MemoryTopology, out: &mut dyn Write) -> io::Result<()> {
    let MemoryTopology { block_bytes, nodes } = topology;
    let n_nodes = nodes.len();
    writeln!(out, "# memory nodes (nr {n_nodes}, block size {block_bytes:#x}):")?;
    for MemoryNode { node, n_bits, bits } in nodes {
        let blocks = || set_bits(bits).take_while(|it| it < n_bits);
        let n_blocks = u64::try_from(blocks().count()).unwrap_or(u64::MAX);
        let size = size(block_bytes.saturating_mul(n_blocks));
        writeln!(out, "#  {node:3} [{size}]: {}", ranges(blocks()))?;
    }
    Ok(())
}

/// The numbers of the bits that are set, ascending.
fn set_bits(words: &[u64]) -> impl Iterator<Item = u64> {
    let words = (0_u64..).zip(words);
    words.flat_map(|(i, word)| {
        (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| i * 64 + bit)
    })
}

/// `0-1,4`.
fn ranges(numbers: impl Iterator<Item = u64>) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let range = |(first, last): &(u64, u64)| match last - first {
        0 => first.to_string(),
        _ => format!("{first}-{last}"),
    };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}

/// A number of bytes in the largest unit of which there are two, cut to a whole number.
fn size(mut bytes: u64) -> String {
    let mut units = "BKMG".chars();
    let mut unit = units.next().unwrap_or_default();
    while bytes / 1024 > 1 {
        let Some(larger) = units.next() else { break };
        bytes /= 1024;
        unit = larger;
    }
    format!("{bytes}{unit}")
}

pub(super) fn write_caps(
    pmu: impl Display,
    caps: &[PmuCap],
    out: &mut dyn Write,
) -> io::Result<()> {
    if caps.is_empty() {
        return writeln!(out, "# {pmu} pmu capabilities: not available");
    }
    let caps = caps.iter().map(|PmuCap { name, value }| format!("{name}={value}"));
    writeln!(out, "# {pmu} pmu capabilities: {}", caps.collect::<Vec<_>>().join(", "))
}

pub(super) fn write_hybrid(nodes: &[HybridNode], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "# hybrid cpu system:")?;
    nodes.iter().try_for_each(|HybridNode { pmu, cpus }| writeln!(out, "# {pmu} cpu list : {cpus}"))
}

pub(super) fn write_domains(domains: &CpuDomains, out: &mut dyn Write) -> io::Result<()> {
    let CpuDomains { schedstat_version, max_domains, cpus } = domains;
    writeln!(out, "# schedstat version\t: {schedstat_version}")?;
    writeln!(out, "# Maximum sched domains\t: {max_domains}")?;
    for CpuDomain { cpu, domains } in cpus {
        writeln!(out, "# cpu\t\t: {cpu}")?;
        writeln!(out, "# nr_domains\t: {}", domains.len())?;
        for SchedDomain { domain, name, mask, list } in domains {
            writeln!(out, "# Domain\t\t: {domain}")?;
            if let Some(name) = name {
                writeln!(out, "# Domain name      : {name}")?;
            }
            writeln!(out, "# Domain cpu map   : {mask}")?;
            writeln!(out, "# Domain cpu list  : {list}")?;
        }
    }
    Ok(())
}
