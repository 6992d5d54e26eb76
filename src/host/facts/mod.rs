//! What a recording says about the machine that it was made on.
//!
//! Each fact is read by itself: one that this kernel does not tell is left out of the header, and
//! nothing fails. Everything is read below a root folder, so that tests can bring their own.

mod cpu;
mod memory;
mod pmu;
mod root;
mod sched;

use std::ffi::OsString;
use std::path::Path;

use crate::perfdata::feature::ElfMachine;
use crate::perfdata::feature::Feature;
use crate::perfdata::feature::Text;

use self::root::Root;

/// The features that this machine and this process determine, in the order of their ids.
///
/// What the recording itself determines (events, times, BPF programs, build ids) is not among them.
pub fn gather() -> Vec<Feature> {
    let mut features = names();
    features.extend(machine(Path::new("/"), std::env::consts::ARCH));
    features.extend(command_line().map(Feature::CommandLine));
    features.push(Feature::Version(Text::from(concat!("bpfperf-", env!("CARGO_PKG_VERSION")))));
    features.sort_by_key(Feature::id);
    features
}

/// Host name, kernel release and architecture, from `uname(2)`.
fn names() -> Vec<Feature> {
    let Ok(names) = nix::sys::utsname::uname() else { return Vec::new() };
    let text = |it: &std::ffi::OsStr| Text::from(it.to_owned());
    vec![
        Feature::Hostname(text(names.nodename())),
        Feature::OsRelease(text(names.release())),
        Feature::Arch(text(names.machine())),
    ]
}

/// The program's path and its arguments, whole.
fn command_line() -> Option<Vec<Text>> {
    let program = std::env::current_exe().ok()?.into_os_string();
    let arguments = std::env::args_os().skip(1);
    Some(std::iter::once(program).chain(arguments).map(|it: OsString| it.into()).collect())
}

/// What `/proc` and `/sys` below `root` tell of a machine of architecture `arch`, spelled as in
/// [`std::env::consts::ARCH`].
fn machine(root: &Path, arch: &str) -> Vec<Feature> {
    let root = Root::new(root);
    let cpus = cpu::Cpus::read(&root);
    let pmus = pmu::Pmus::read(&root);
    let features = [
        cpus.as_ref().map(|it| Feature::Cpus(it.count())),
        cpu::description(&root).map(Feature::CpuDescription),
        cpus.as_ref().and_then(|it| cpu::id(&root, arch, it)).map(Feature::Cpuid),
        memory::total_kb(&root).map(Feature::TotalMemory),
        cpus.as_ref().and_then(|it| it.topology(&root, arch)).map(Feature::CpuTopology),
        memory::numa(&root).map(Feature::NumaTopology),
        Some(Feature::PmuMappings(pmus.mappings())),
        cpus.as_ref().map(|it| Feature::Caches(it.caches(&root))),
        memory::blocks(&root).map(Feature::MemoryTopology),
        Some(Feature::CpuPmuCaps(pmus.cpu_caps(&root))),
        pmus.hybrid(&root).map(Feature::HybridTopology),
        Some(Feature::PmuCaps(pmus.other_caps(&root))),
        root.text("proc/schedstat").map(|it| Feature::CpuDomains(sched::parse(&it))),
        elf_machine(arch).map(|machine| Feature::ElfMachine(ElfMachine { machine, flags: 0 })),
        cpu::cacheline_bytes(&root).map(Feature::CachelineSize),
    ];
    features.into_iter().flatten().collect()
}

/// The machine's number in ELF headers.
fn elf_machine(arch: &str) -> Option<u32> {
    let machine = match arch {
        "x86_64" => object::elf::EM_X86_64,
        "x86" => object::elf::EM_386,
        "aarch64" => object::elf::EM_AARCH64,
        "arm" => object::elf::EM_ARM,
        "riscv32" | "riscv64" => object::elf::EM_RISCV,
        "s390x" => object::elf::EM_S390,
        "powerpc" => object::elf::EM_PPC,
        "powerpc64" => object::elf::EM_PPC64,
        "loongarch64" => object::elf::EM_LOONGARCH,
        _ => return None,
    };
    Some(u32::from(machine))
}

#[cfg(test)]
mod tests {
    use crate::perfdata::feature::FeatureId;

    use super::*;

    #[test]
    fn this_machine_tells_its_names_cpus_and_memory() {
        let features = gather();
        let ids: Vec<FeatureId> = features.iter().map(Feature::id).collect();
        assert!(ids.is_sorted_by(|a, b| a < b), "each feature once, in order: {ids:?}");
        for id in [FeatureId::HOSTNAME, FeatureId::NRCPUS, FeatureId::TOTAL_MEM, FeatureId::CMDLINE]
        {
            assert!(ids.contains(&id), "{id:?} is missing");
        }
    }

    #[test]
    fn a_machine_that_tells_nothing_still_has_its_lists_of_pmus() {
        let root = tempfile::tempdir().unwrap();
        let want = [
            Feature::PmuMappings(Vec::new()),
            Feature::CpuPmuCaps(Vec::new()),
            Feature::PmuCaps(Vec::new()),
        ];
        assert_eq!(machine(root.path(), "unheard-of"), want);
    }
}
