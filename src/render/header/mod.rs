//! What a recording's header says, as perf prints it: `--header` and `--header-only`.

mod attr;
mod bpf;
mod machine;
mod objects;
mod programs;

use std::io;
use std::io::Write;
use std::ops::Range;

use crate::perfdata::Attr;
use crate::perfdata::Endian;
use crate::perfdata::FeatureBits;
use crate::perfdata::Section;
use crate::perfdata::feature::ClockData;
use crate::perfdata::feature::Compression;
use crate::perfdata::feature::CpuCount;
use crate::perfdata::feature::ElfMachine;
use crate::perfdata::feature::EventDesc;
use crate::perfdata::feature::Feature;
use crate::perfdata::feature::FeatureId;
use crate::perfdata::feature::FeatureSection;
use crate::perfdata::feature::GroupDesc;
use crate::perfdata::feature::SampleTime;
use crate::perfdata::feature::Text;
use crate::replay::Event;
use crate::units::FileOffset;
use crate::units::LocalTime;

pub use self::objects::write_objects;
pub use self::objects::write_values;
pub use self::programs::write_programs;

use self::attr::Attribute;

/// A header that has been read.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    /// When the file was last written to, on the reader's wall clock, if that can be said.
    pub captured: Option<LocalTime>,
    /// Its byte order.
    pub endian: Endian,
    /// Where its parts lie.
    pub form: Form,
    /// Its sections in the order in which they stand, with the reason for each that is damaged.
    pub features: &'a [FeatureSection],
    /// The reader's wall clock at a moment given in seconds since 1970.
    pub local_time: fn(i64) -> Option<LocalTime>,
}

/// How a recording is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A file with sections.
    File {
        /// The records.
        data: Section,
        /// The sections that it claims to have.
        features: FeatureBits,
    },
    /// A stream: what would be sections came as records.
    Pipe,
}

/// How much to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// For the long sections, that they are there.
    Short,
    /// All.
    Full,
}

/// Writes the header, each line beginning with `#`.
///
/// # Errors
///
/// Whatever `out` says.
pub fn write(header: &Header<'_>, detail: Detail, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "# ========")?;
    match header.captured {
        Some(captured) => writeln!(out, "# captured on    : {captured}")?,
        None => writeln!(out, "# captured on    : unknown")?,
    }
    writeln!(out, "# header version : 1")?;
    let data = match header.form {
        Form::File { data, .. } => data,
        Form::Pipe => Section::default(),
    };
    writeln!(out, "# data offset    : {}", data.offset)?;
    writeln!(out, "# data size      : {}", data.size)?;
    writeln!(out, "# feat offset    : {}", data.end())?;
    match header.form {
        Form::File { features, .. } => {
            write_features(header, detail, out)?;
            write!(out, "# missing features: ")?;
            for id in FeatureId::ALL.iter().filter(|id| !features.contains(id.0)) {
                write!(out, "{id} ")?;
            }
            writeln!(out)?;
            writeln!(out, "# ========\n#")
        }
        Form::Pipe => {
            writeln!(out, "# ========\n#")?;
            write_features(header, detail, out)
        }
    }
}

fn write_features(header: &Header<'_>, detail: Detail, out: &mut dyn Write) -> io::Result<()> {
    let mut context = Context::new(header);
    for FeatureSection { id, at, content } in header.features {
        match content {
            Err(error) => writeln!(out, "# {id} damaged: {error}")?,
            Ok(_) if detail == Detail::Short && is_long(*id) => {
                writeln!(out, "# {id} info available, use -I to display")?;
            }
            Ok(feature) => write_feature(feature, *at, &mut context, out)?,
        }
    }
    Ok(())
}

/// Writes the one section whose content begins in `within`.
///
/// # Errors
///
/// Whatever `out` says.
pub fn write_section(
    header: &Header<'_>,
    within: Range<FileOffset>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut context = Context::new(header);
    let mut features = header.features.iter();
    match features.find(|it| within.contains(&it.at)) {
        Some(FeatureSection { id, content: Err(error), .. }) => {
            writeln!(out, "# {id} damaged: {error}")
        }
        Some(FeatureSection { at, content: Ok(feature), .. }) => {
            write_feature(feature, *at, &mut context, out)
        }
        None => Ok(()),
    }
}

/// An attribute's fields as text, each as `, name = value`.
pub fn attribute(attr: &Attr, features: &[FeatureSection]) -> String {
    let features = || features.iter().filter_map(|it| it.content.as_ref().ok());
    let machine = machine::Names::new(features());
    Attribute { attr, event: &Text::default(), pmus: machine.pmus }.to_string()
}

/// The same of an event of a recording with `features`, that says its tracepoint and its PMU.
pub fn event_attribute(event: &Event, features: &[FeatureSection]) -> String {
    let features = || features.iter().filter_map(|it| it.content.as_ref().ok());
    let pmus = machine::Names::new(features()).pmus;
    let name = Text::from(event.name.as_str());
    let text = Attribute { attr: &event.attr, event: &name, pmus }.to_string();
    text.trim_start_matches(", ").replace(" = ", ": ")
}

/// An event's attribute as a list of `name: value`, for whoever has said the event's name.
pub fn attribute_list(attr: &Attr) -> String {
    attribute(attr, &[]).trim_start_matches(", ").replace(" = ", ": ")
}

/// Whether a section is one of those that are printed on demand only.
fn is_long(id: FeatureId) -> bool {
    matches!(
        id,
        FeatureId::CPU_TOPOLOGY
            | FeatureId::NUMA_TOPOLOGY
            | FeatureId::CACHE
            | FeatureId::MEM_TOPOLOGY
            | FeatureId::HYBRID_TOPOLOGY
            | FeatureId::CPU_DOMAIN_INFO
    )
}

/// What one section needs to know of others.
struct Context<'a> {
    local_time: fn(i64) -> Option<LocalTime>,
    bpf: bpf::Btfs,
    events: &'a [EventDesc],
    machine: machine::Names<'a>,
}

impl<'a> Context<'a> {
    fn new(header: &Header<'a>) -> Self {
        let features = || header.features.iter().filter_map(|it| it.content.as_ref().ok());
        let events = features().find_map(|it| match it {
            Feature::Events(events) => Some(&*events.events),
            _ => None,
        });
        let machine = machine::Names::new(features());
        Self {
            local_time: header.local_time,
            bpf: bpf::Btfs::new(features(), header.endian),
            events: events.unwrap_or_default(),
            machine,
        }
    }
}

fn write_feature(
    feature: &Feature,
    at: FileOffset,
    context: &mut Context<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    match feature {
        // Not for people, or nothing that this version could print.
        Feature::TracingData(_) | Feature::BuildIds(_) | Feature::Unknown(..) => Ok(()),
        Feature::Hostname(text) => writeln!(out, "# hostname : {text}"),
        Feature::OsRelease(text) => writeln!(out, "# os release : {text}"),
        Feature::Version(text) => writeln!(out, "# perf version : {text}"),
        Feature::Arch(text) => writeln!(out, "# arch : {text}"),
        Feature::Cpus(CpuCount { available, online }) => {
            writeln!(out, "# nrcpus online : {online}")?;
            writeln!(out, "# nrcpus avail : {available}")
        }
        Feature::CpuDescription(text) => writeln!(out, "# cpudesc : {text}"),
        Feature::Cpuid(text) => writeln!(out, "# cpuid : {text}"),
        Feature::TotalMemory(kb) => writeln!(out, "# total memory : {kb} kB"),
        Feature::CommandLine(arguments) => {
            write!(out, "# cmdline : ")?;
            for argument in arguments {
                write!(out, "{} ", argument.to_string().replace('\'', "\\'"))?;
            }
            writeln!(out)
        }
        Feature::Events(events) => {
            events.events.iter().try_for_each(|it| write_event(it, context, out))
        }
        Feature::CpuTopology(topology) => machine::write_cpus(topology, out),
        Feature::NumaTopology(nodes) => machine::write_numa(nodes, out),
        Feature::BranchStack => writeln!(out, "# contains samples with branch stack"),
        Feature::PmuMappings(pmus) => machine::write_pmus(pmus, out),
        Feature::Groups(groups) => write_groups(groups, context.events, out),
        Feature::Auxtrace(_) => writeln!(out, "# contains AUX area data (e.g. instruction trace)"),
        Feature::Stat => writeln!(out, "# contains stat data"),
        Feature::Caches(caches) => machine::write_caches(caches, out),
        Feature::SampleTime(times) => write_sample_time(*times, out),
        Feature::MemoryTopology(topology) => machine::write_memory(topology, out),
        Feature::ClockResolution(ns) => match ns {
            0 => writeln!(out, "# clockid frequency: unknown"),
            ns => writeln!(out, "# clockid frequency: {} MHz", 1000.0 / *ns as f64),
        },
        Feature::DirFormat(version) => writeln!(out, "# directory data version : {version}"),
        Feature::BpfProgInfo(bytes) => context.bpf.write_programs(bytes, at, out),
        Feature::BpfBtf(bytes) => context.bpf.write_btfs(bytes, at, out),
        Feature::Compressed(Compression { version: _, method, level, ratio, mmap_len: _ }) => {
            let method = if *method == Compression::ZSTD { "Zstd" } else { "Unknown" };
            let level = level.cast_signed();
            writeln!(out, "# compressed : {method}, level = {level}, ratio = {ratio}")
        }
        Feature::CpuPmuCaps(caps) => machine::write_caps("cpu", caps, out),
        Feature::ClockData(data) => write_clock(*data, context.local_time, out),
        Feature::HybridTopology(nodes) => machine::write_hybrid(nodes, out),
        Feature::PmuCaps(pmus) => {
            for pmu in pmus {
                machine::write_caps(&pmu.pmu, &pmu.caps, out)?;
            }
            context.machine.write_ibs_note(out)
        }
        Feature::CpuDomains(domains) => machine::write_domains(domains, out),
        Feature::ElfMachine(ElfMachine { machine, flags }) => {
            writeln!(out, "# e_machine : {machine}")?;
            writeln!(out, "#   e_flags : {flags}")
        }
        Feature::CachelineSize(bytes) => writeln!(out, "# cacheline size: {bytes}"),
    }
}

fn write_event(event: &EventDesc, context: &Context<'_>, out: &mut dyn Write) -> io::Result<()> {
    let EventDesc { attr, name, ids } = event;
    write!(out, "# event : name = {name}, ")?;
    for (i, id) in ids.iter().enumerate() {
        write!(out, "{} {id}", if i == 0 { ", id = {" } else { "," })?;
    }
    if !ids.is_empty() {
        write!(out, " }}")?;
    }
    writeln!(out, "{}", Attribute { attr, event: name, pmus: context.machine.pmus })
}

fn write_groups(groups: &[GroupDesc], events: &[EventDesc], out: &mut dyn Write) -> io::Result<()> {
    for GroupDesc { name, leader_idx, n_members } in groups {
        let leader = usize::try_from(*leader_idx).unwrap_or(usize::MAX);
        let n_members = usize::try_from(*n_members).unwrap_or(usize::MAX);
        let members = events.iter().skip(leader).take(n_members);
        let members: Vec<String> = members.map(|it| it.name.to_string()).collect();
        let anonymous = Text::from(GroupDesc::ANONYMOUS);
        let name = if *name == anonymous { String::new() } else { name.to_string() };
        writeln!(out, "# group: {name}{{{}}}", members.join(","))?;
    }
    Ok(())
}

fn write_sample_time(
    SampleTime { first, last }: SampleTime,
    out: &mut dyn Write,
) -> io::Result<()> {
    let seconds = |ns: u64| format!("{}.{:06}", ns / 1_000_000_000, ns % 1_000_000_000 / 1000);
    writeln!(out, "# time of first sample : {}", seconds(first.0))?;
    writeln!(out, "# time of last sample : {}", seconds(last.0))?;
    let duration_ns = i128::from(last.0) - i128::from(first.0);
    writeln!(out, "# sample duration : {:10.3} ms", duration_ns as f64 / 1e6)
}

fn write_clock(
    ClockData { clockid, time_of_day_ns, clock }: ClockData,
    local_time: fn(i64) -> Option<LocalTime>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let name = match clockid {
        0 => "realtime",
        1 => "monotonic",
        4 => "monotonic_raw",
        7 => "boottime",
        11 => "tai",
        _ => "(not found)",
    };
    writeln!(out, "# clockid: {name} ({clockid})")?;
    let split = |ns: u64| (ns / 1_000_000_000, ns % 1_000_000_000);
    let (seconds, rest) = split(time_of_day_ns);
    let us = rest / 1000;
    let local = i64::try_from(seconds).ok().and_then(local_time);
    let local = local.map_or_else(|| "<error>".to_owned(), |it| format!("{}.{us:06}", it.iso()));
    let (clock_seconds, clock_ns) = split(clock.0);
    writeln!(
        out,
        "# reference time: {local} = {seconds}.{us:06} (TOD) = {clock_seconds}.{clock_ns:09} ({name})"
    )
}

#[cfg(test)]
mod tests;
