//! A machine for the tests of this stage.

use std::io;

use super::Error;
use super::Event;
use super::Functions;
use super::Machine;
use super::Objects;
use super::Pmus;
use super::Tracepoints;
use super::object::Contents;
use super::parse;
use crate::units::Cpu;
use crate::units::FileOffset;

struct Fake;

/// The same with a PMU of kprobes.
struct Probing;

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

impl Tracepoints for Fake {
    fn id(&self, system: &str, name: &str) -> io::Result<Option<u64>> {
        let all = Tracepoints::all(self)?;
        let at = all.iter().position(|it| (it.0.as_str(), it.1.as_str()) == (system, name));
        Ok(at.map(|at| at as u64 + 300))
    }

    fn all(&self) -> io::Result<Vec<(String, String)>> {
        Ok(owned(&[("irq", "irq_exit"), ("sched", "sched_switch"), ("sched", "sched_waking")]))
    }
}

impl Pmus for Fake {
    fn names(&self) -> io::Result<Vec<String>> {
        let names = ["cpu", "msr", "software", "uncore_cbox_0", "uncore_cbox_1", "uprobe"];
        Ok(names.map(str::to_owned).to_vec())
    }

    fn kind(&self, pmu: &str) -> io::Result<Option<u32>> {
        let kinds = [("cpu", 4), ("msr", 13), ("software", 1), ("uprobe", 7)];
        let kinds = kinds.into_iter().chain([("uncore_cbox_0", 21), ("uncore_cbox_1", 22)]);
        let found = kinds.into_iter().find(|it| it.0 == pmu);
        Ok(found.map(|it| it.1))
    }

    fn formats(&self, pmu: &str) -> io::Result<Vec<(String, String)>> {
        Ok(owned(match pmu {
            "cpu" => &[
                ("event", "config:0-7,32-35"),
                ("umask", "config:8-15"),
                ("edge", "config:18"),
                ("ldlat", "config1:0-15"),
            ],
            "uprobe" => &[("ref_ctr_offset", "config:32-63"), ("retprobe", "config:0")],
            "software" => &[],
            _ => &[("event", "config:0-63")],
        }))
    }

    fn events(&self, pmu: &str) -> io::Result<Vec<(String, String)>> {
        Ok(owned(match pmu {
            "cpu" => &[("mem-loads", "event=0xcd,umask=0x1,ldlat=3")],
            "msr" => &[("tsc", "event=0x00")],
            _ => &[],
        }))
    }

    fn cpus(&self, pmu: &str) -> io::Result<Option<Vec<Cpu>>> {
        Ok(pmu.starts_with("uncore").then(|| vec![Cpu(0), Cpu(8)]))
    }
}

impl Pmus for Probing {
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(vec!["kprobe".to_owned()])
    }

    fn kind(&self, pmu: &str) -> io::Result<Option<u32>> {
        Ok((pmu == "kprobe").then_some(6))
    }

    fn formats(&self, _: &str) -> io::Result<Vec<(String, String)>> {
        Ok(owned(&[("retprobe", "config:0")]))
    }

    fn events(&self, _: &str) -> io::Result<Vec<(String, String)>> {
        Ok(Vec::new())
    }

    fn cpus(&self, _: &str) -> io::Result<Option<Vec<Cpu>>> {
        Ok(None)
    }
}

impl Functions for Fake {
    fn offset(&self, path: &str, name: &str) -> io::Result<Option<FileOffset>> {
        match path {
            "/bin/tool" => Ok((name == "main" || name == "ns::f").then_some(FileOffset(0x1130))),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn names(&self, _: &str) -> io::Result<Vec<String>> {
        Ok(vec!["main".to_owned(), "ns::f".to_owned()])
    }
}

impl Objects for Fake {
    fn contents(&self, path: &str) -> Result<Contents, Box<dyn std::error::Error + Send + Sync>> {
        let programs = match path {
            "./one.bpf.o" => owned(&[("writer", "raw_tp/sys_enter")]),
            "d.o/many.bpf.o" => owned(&[
                ("clock", "perf_event"),
                ("switch", "tp/sched/sched_switch"),
                ("tool", "uretprobe/tool:main+0x10"),
                ("writer", "raw_tp/sys_enter"),
            ]),
            "odd.o" => owned(&[("net", "xdp"), ("gone", "tp/sched/gone"), ("kp", "kprobe/f")]),
            "kernel.o" => owned(&[
                ("enter", "kprobe/vfs_read+0x4"),
                ("leave", "kretprobe/vfs_read"),
                ("both", "fentry/vfs_read"),
            ]),
            "none.o" => Vec::new(),
            _ => return Err(Box::new(io::Error::from(io::ErrorKind::NotFound))),
        };
        let outputs = vec!["__bpf_stdout__".to_owned()];
        Ok(Contents { programs, outputs, ..Contents::default() })
    }

    fn find(&self, name: &str) -> String {
        format!("/bin/{name}")
    }
}

const FAKE: Machine<'_> =
    Machine { tracepoints: &Fake, pmus: &Fake, functions: &Fake, objects: &Fake };

/// The events of a list that is right on a machine whose kernel has kprobes.
#[track_caller]
pub(super) fn parsed_with_kprobes(list: &str) -> Vec<Event> {
    parse(list, Machine { pmus: &Probing, ..FAKE }).unwrap()
}

/// The events of a list that is right.
#[track_caller]
pub(super) fn parsed(list: &str) -> Vec<Event> {
    parse(list, FAKE).unwrap()
}

/// The one event of a list.
#[track_caller]
pub(super) fn one(list: &str) -> Event {
    let mut events = parsed(list);
    assert_eq!(events.len(), 1, "{list}");
    events.remove(0)
}

/// Checks what is said of a list that is wrong, and returns it.
#[track_caller]
pub(super) fn refused(list: &str, want: &str, want_nearest: Option<&str>) -> Error {
    let error = parse(list, FAKE).unwrap_err();
    assert_eq!(error.to_string(), want);
    assert_eq!(error.nearest(), want_nearest);
    error
}
