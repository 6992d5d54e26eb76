//! The PMUs that the kernel has.

use crate::perfdata::feature::HybridNode;
use crate::perfdata::feature::PmuCap;
use crate::perfdata::feature::PmuCaps;
use crate::perfdata::feature::PmuMapping;
use crate::perfdata::feature::Text;

use super::root::Root;

const DEVICES: &str = "sys/bus/event_source/devices";

/// The PMUs, those of CPU cores first.
#[derive(Debug)]
pub(super) struct Pmus(Vec<Pmu>);

#[derive(Debug)]
struct Pmu {
    name: String,
    kind: u32,
    is_core: bool,
}

impl Pmus {
    pub(super) fn read(root: &Root) -> Self {
        let pmu = |name: String| {
            let kind = root.number(&format!("{DEVICES}/{name}/type"))?;
            let is_core = name == "cpu" || root.exists(&format!("{DEVICES}/{name}/cpus"));
            Some(Pmu { name, kind, is_core })
        };
        let mut pmus: Vec<Pmu> = root.names(DEVICES).into_iter().filter_map(pmu).collect();
        pmus.sort_by(|a, b| (!a.is_core, order(&a.name)).cmp(&(!b.is_core, order(&b.name))));
        Self(pmus)
    }

    pub(super) fn mappings(&self) -> Vec<PmuMapping> {
        let mapping = |it: &Pmu| PmuMapping { kind: it.kind, name: Text::from(&*it.name) };
        self.0.iter().map(mapping).collect()
    }

    /// The capabilities of the first PMU of a CPU core.
    pub(super) fn cpu_caps(&self, root: &Root) -> Vec<PmuCap> {
        let pmu = self.0.iter().find(|it| it.is_core);
        pmu.map(|it| it.caps(root)).unwrap_or_default()
    }

    /// The capabilities of all PMUs that have some, without the one called `cpu`.
    pub(super) fn other_caps(&self, root: &Root) -> Vec<PmuCaps> {
        let caps = |it: &Pmu| PmuCaps { caps: it.caps(root), pmu: Text::from(&*it.name) };
        let caps = self.0.iter().filter(|it| it.name != "cpu").map(caps);
        caps.filter(|it| !it.caps.is_empty()).collect()
    }

    /// The kinds of cores, if there are several.
    pub(super) fn hybrid(&self, root: &Root) -> Option<Vec<HybridNode>> {
        let cores = || self.0.iter().filter(|it| it.is_core);
        if cores().count() < 2 {
            return None;
        }
        let node = |it: &Pmu| {
            let cpus = root.header_text(&format!("{DEVICES}/{}/cpus", it.name))?;
            Some(HybridNode { pmu: Text::from(&*it.name), cpus })
        };
        cores().map(node).collect()
    }
}

impl Pmu {
    fn caps(&self, root: &Root) -> Vec<PmuCap> {
        let folder = format!("{DEVICES}/{}/caps", self.name);
        let cap = |name: String| {
            let value = root.header_text(&format!("{folder}/{name}"))?;
            Some(PmuCap { name: Text::from(name), value })
        };
        root.names(&folder).into_iter().filter_map(cap).collect()
    }
}

/// The order of names: `uncore_cbox_2` before `uncore_cbox_10`.
fn order(name: &str) -> (&str, u64) {
    let numbered = name.rsplit_once('_').and_then(|(stem, n)| Some((stem, n.parse().ok()?)));
    numbered.unwrap_or((name, 0))
}

#[cfg(test)]
mod tests {
    use super::super::root::tree;
    use super::*;

    #[track_caller]
    fn check(files: &[(&str, &str)], check: impl Fn(&Pmus, &Root)) {
        let files: Vec<_> =
            files.iter().map(|(it, text)| (format!("{DEVICES}/{it}"), text)).collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(it, text)| (&**it, **text)).collect();
        let (_folder, root) = tree(&files);
        check(&Pmus::read(&root), &root);
    }

    #[test]
    fn cores_come_first_and_numbers_count() {
        let files = [
            ("uncore_cbox_10/type", "30\n"),
            ("uncore_cbox_2/type", "22\n"),
            ("software/type", "1\n"),
            ("cpu/type", "4\n"),
            ("broken/type", "\n"),
        ];
        check(&files, |pmus, _| {
            let got: Vec<_> =
                pmus.mappings().iter().map(|it| (it.kind, it.name.to_string())).collect();
            let want = [(4, "cpu"), (1, "software"), (22, "uncore_cbox_2"), (30, "uncore_cbox_10")];
            assert_eq!(got, want.map(|(kind, name)| (kind, name.to_owned())));
        });
    }

    #[test]
    fn capabilities_of_the_cpu_stand_apart() {
        let files = [
            ("cpu/type", "4\n"),
            ("cpu/caps/max_precise", "3\n"),
            ("intel_pt/type", "9\n"),
            ("intel_pt/caps/mtc", "1\n"),
            ("software/type", "1\n"),
        ];
        let cap = |name: &str, value: &str| PmuCap { name: name.into(), value: value.into() };
        check(&files, |pmus, root| {
            assert_eq!(pmus.cpu_caps(root), [cap("max_precise", "3")]);
            let other = PmuCaps { caps: vec![cap("mtc", "1")], pmu: Text::from("intel_pt") };
            assert_eq!(pmus.other_caps(root), [other]);
            assert_eq!(pmus.hybrid(root), None);
        });
    }

    #[test]
    fn two_kinds_of_cores_make_a_hybrid_machine() {
        let files = [
            ("cpu_core/type", "4\n"),
            ("cpu_core/cpus", "0-3\n"),
            ("cpu_atom/type", "10\n"),
            ("cpu_atom/cpus", "4-11\n"),
        ];
        let node = |pmu: &str, cpus: &str| HybridNode { pmu: pmu.into(), cpus: cpus.into() };
        check(&files, |pmus, root| {
            let want = vec![node("cpu_atom", "4-11"), node("cpu_core", "0-3")];
            assert_eq!(pmus.hybrid(root), Some(want));
        });
    }
}
