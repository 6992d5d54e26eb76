//! CPUs: how many, which, and what they share.

use crate::host::cpus::parse_list;
use crate::perfdata::feature::CacheLevel;
use crate::perfdata::feature::CpuCount;
use crate::perfdata::feature::CpuPlace;
use crate::perfdata::feature::CpuTopology;
use crate::perfdata::feature::Dies;
use crate::perfdata::feature::Text;
use crate::units::Cpu;

use super::root::Root;

const CPUS: &str = "sys/devices/system/cpu";

/// The CPUs that there are.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cpus {
    /// One more than the highest that is present.
    n_available: u32,
    online: Vec<Cpu>,
}

impl Cpus {
    pub(super) fn read(root: &Root) -> Option<Self> {
        let list = |name| parse_list(&root.line(&format!("{CPUS}/{name}"))?).ok();
        let present = list("present")?;
        Some(Self { n_available: present.last()?.0.checked_add(1)?, online: list("online")? })
    }

    pub(super) fn count(&self) -> CpuCount {
        let online = u32::try_from(self.online.len()).unwrap_or(u32::MAX);
        CpuCount { available: self.n_available, online }
    }

    /// What the online CPUs share, and where each CPU sits.
    pub(super) fn topology(&self, root: &Root, arch: &str) -> Option<CpuTopology> {
        let file = |cpu: u32, name: &str| format!("{CPUS}/cpu{cpu}/topology/{name}");
        // Each list has two names: the first since Linux 5.3, the other before.
        let lists = |names: &[&str]| {
            let mut lists: Vec<Text> = Vec::new();
            for cpu in (0..self.n_available).filter(|it| self.online.contains(&Cpu(*it))) {
                let list = names.iter().find_map(|name| root.header_text(&file(cpu, name)));
                lists.extend(list.filter(|it| !lists.contains(it)));
            }
            lists
        };
        let packages = lists(&["package_cpus_list", "core_siblings_list"]);
        let cores = lists(&["core_cpus_list", "thread_siblings_list"]);
        if packages.is_empty() && cores.is_empty() {
            return None;
        }
        let ids = |name: &str| -> Vec<i32> {
            let id = |cpu| root.number(&file(cpu, name)).unwrap_or(-1);
            (0..self.n_available).map(id).collect()
        };
        let (core_ids, package_ids) = (ids("core_id"), ids("physical_package_id"));
        let place = |(core, package)| CpuPlace { core, package };
        let places = core_ids.into_iter().zip(package_ids).map(place).collect();
        // perf knows dies on these architectures alone.
        let has_dies = matches!(arch, "x86_64" | "s390x") && root.exists(&file(0, "die_cpus_list"));
        let dies = has_dies.then(|| Dies { lists: lists(&["die_cpus_list"]), ids: ids("die_id") });
        Some(CpuTopology { packages, cores, places, dies })
    }

    /// The caches, each once, those nearest to the CPUs first.
    pub(super) fn caches(&self, root: &Root) -> Vec<CacheLevel> {
        let mut caches = Vec::new();
        for cpu in 0..self.n_available {
            for index in 0_u32.. {
                let folder = format!("{CPUS}/cpu{cpu}/cache/index{index}");
                if !root.exists(&folder) {
                    break;
                }
                caches.extend(cache(root, &folder).filter(|it| !caches.contains(it)));
            }
        }
        caches.sort_by_key(|it| it.level);
        caches
    }
}

fn cache(root: &Root, folder: &str) -> Option<CacheLevel> {
    Some(CacheLevel {
        level: root.number(&format!("{folder}/level"))?,
        line_bytes: root.number(&format!("{folder}/coherency_line_size"))?,
        n_sets: root.number(&format!("{folder}/number_of_sets"))?,
        n_ways: root.number(&format!("{folder}/ways_of_associativity"))?,
        kind: root.header_text(&format!("{folder}/type"))?,
        size: root.header_text(&format!("{folder}/size"))?,
        cpus: root.header_text(&format!("{folder}/shared_cpu_list"))?,
    })
}

/// The bytes of a line of the first cache of CPU 0.
pub(super) fn cacheline_bytes(root: &Root) -> Option<u32> {
    root.number(&format!("{CPUS}/cpu0/cache/index0/coherency_line_size"))
}

/// The CPU's name, with each run of spaces as one.
pub(super) fn description(root: &Root) -> Option<Text> {
    let info = root.text("proc/cpuinfo")?;
    let mut name = String::new();
    for c in cpuinfo(&info, "model name")?.chars() {
        let c = if c.is_ascii_whitespace() { ' ' } else { c };
        if c != ' ' || !name.ends_with(' ') {
            name.push(c);
        }
    }
    Some(Text::from(name))
}

/// What identifies the kind of CPU.
///
/// On x86 it is `vendor,family,model,stepping`: the numbers of `/proc/cpuinfo` are those of
/// CPUID, leaf 1, with the extended fields added. On arm64 it is the register `MIDR_EL1`.
///
/// Source: `get_cpuid()` in `tools/perf/arch/*/util/header.c`; `x86_family()` and `x86_model()` in
/// `arch/x86/lib/cpu.c`.
pub(super) fn id(root: &Root, arch: &str, cpus: &Cpus) -> Option<Text> {
    match arch {
        "x86_64" | "x86" => {
            let info = root.text("proc/cpuinfo")?;
            let fields = ["vendor_id", "cpu family", "model", "stepping"];
            let fields: Option<Vec<&str>> = fields.iter().map(|it| cpuinfo(&info, it)).collect();
            Some(Text::from(fields?.join(",")))
        }
        "aarch64" => cpus.online.iter().find_map(|cpu| {
            root.header_text(&format!("{CPUS}/cpu{cpu}/regs/identification/midr_el1"))
        }),
        _ => None,
    }
}

/// A field of the first CPU of `/proc/cpuinfo`.
fn cpuinfo<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = info.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(field, _)| field.trim_end() == name)?;
    Some(value.strip_prefix(' ').unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use super::super::root::tree;
    use super::*;

    const INFO: &str = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\n\
        model\t\t: 85\nmodel name\t: Intel(R)  Xeon(R)   CPU\t@ 2.00GHz\nstepping\t: 7\n\n\
        processor\t: 1\nmodel name\t: another\n";

    fn cpus(n_available: u32, online: &str) -> Cpus {
        Cpus { n_available, online: parse_list(online).unwrap() }
    }

    #[test]
    fn available_is_one_more_than_the_highest_present_cpu() {
        let (_folder, root) = tree(&[
            ("sys/devices/system/cpu/present", "0-3,6\n"),
            ("sys/devices/system/cpu/online", "0,2-3\n"),
        ]);
        let cpus = Cpus::read(&root).unwrap();
        assert_eq!(cpus.count(), CpuCount { available: 7, online: 3 });
    }

    #[test]
    fn the_id_is_that_of_the_first_cpu() {
        let (_folder, root) = tree(&[("proc/cpuinfo", INFO)]);
        let id = id(&root, "x86_64", &cpus(2, "0-1"));
        assert_eq!(id, Some(Text::from("GenuineIntel,6,85,7")));
    }

    #[test]
    fn the_id_of_an_arm_cpu_is_its_midr() {
        let midr = "sys/devices/system/cpu/cpu1/regs/identification/midr_el1";
        let (_folder, root) = tree(&[(midr, "0x00000000410fd0c1\n")]);
        let id = id(&root, "aarch64", &cpus(2, "0-1"));
        assert_eq!(id, Some(Text::from("0x00000000410fd0c1")));
    }

    #[test]
    fn runs_of_spaces_in_the_description_become_one() {
        let (_folder, root) = tree(&[("proc/cpuinfo", INFO)]);
        assert_eq!(description(&root), Some(Text::from("Intel(R) Xeon(R) CPU @ 2.00GHz")));
    }

    #[test]
    fn an_offline_cpu_has_no_place_and_shares_nothing() {
        let topology = "sys/devices/system/cpu/cpu0/topology";
        let file = |name: &str| format!("{topology}/{name}");
        let files = [
            (file("package_cpus_list"), "0-1\n"),
            (file("core_cpus_list"), "0\n"),
            (file("die_cpus_list"), "0-1\n"),
            (file("core_id"), "4\n"),
            (file("physical_package_id"), "1\n"),
            (file("die_id"), "2\n"),
        ];
        let files: Vec<(&str, &str)> = files.iter().map(|(path, it)| (&**path, *it)).collect();
        let (_folder, root) = tree(&files);
        let nowhere = CpuPlace { core: -1, package: -1 };
        let want = CpuTopology {
            packages: vec![Text::from("0-1")],
            cores: vec![Text::from("0")],
            places: vec![CpuPlace { core: 4, package: 1 }, nowhere],
            dies: Some(Dies { lists: vec![Text::from("0-1")], ids: vec![2, -1] }),
        };
        assert_eq!(cpus(2, "0").topology(&root, "x86_64"), Some(want.clone()));
        let without_dies = CpuTopology { dies: None, ..want };
        assert_eq!(cpus(2, "0").topology(&root, "aarch64"), Some(without_dies));
    }

    #[test]
    fn before_linux_5_3_the_lists_had_other_names() {
        let (_folder, root) = tree(&[
            ("sys/devices/system/cpu/cpu0/topology/core_siblings_list", "0-3\n"),
            ("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,2\n"),
        ]);
        let topology = cpus(1, "0").topology(&root, "x86_64").unwrap();
        assert_eq!(topology.packages, [Text::from("0-3")]);
        assert_eq!(topology.cores, [Text::from("0,2")]);
    }

    #[test]
    fn a_shared_cache_is_listed_once_and_after_the_nearer_ones() {
        let mut files = Vec::new();
        for cpu in 0..2 {
            for (index, level, shared) in [(0, "3", "0-1"), (1, "1", ["0", "1"][cpu])] {
                let file =
                    |name| format!("sys/devices/system/cpu/cpu{cpu}/cache/index{index}/{name}");
                files.push((file("level"), level));
                files.push((file("coherency_line_size"), "64"));
                files.push((file("number_of_sets"), "8"));
                files.push((file("ways_of_associativity"), "4"));
                files.push((file("type"), "Data"));
                files.push((file("size"), "32K"));
                files.push((file("shared_cpu_list"), shared));
            }
        }
        let files: Vec<(&str, &str)> = files.iter().map(|(path, it)| (&**path, *it)).collect();
        let (_folder, root) = tree(&files);
        let cache = |level, cpus: &str| CacheLevel {
            level,
            line_bytes: 64,
            n_sets: 8,
            n_ways: 4,
            kind: Text::from("Data"),
            size: Text::from("32K"),
            cpus: Text::from(cpus),
        };
        let want = [cache(1, "0"), cache(1, "1"), cache(3, "0-1")];
        assert_eq!(cpus(2, "0-1").caches(&root), want);
    }
}
