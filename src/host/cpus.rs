//! Which CPUs there are.

use std::path::Path;

use super::Error;
use super::line;
use crate::units::Cpu;

/// A text that is no list of CPUs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no list of CPUs such as `0,2-3`")]
pub struct BadList {
    /// The text.
    pub text: String,
}

/// CPUs that share something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Nothing: each is alone.
    Cpu,
    /// A core.
    Core,
    /// A package, which is a socket.
    Package,
    /// The memory of a NUMA node.
    Node,
}

/// The most CPUs that a list may name: the kernel's own limit is `CONFIG_NR_CPUS`, 8192.
const MOST: u32 = 1 << 16;

/// The CPUs that run now, ascending.
///
/// # Errors
///
/// [`Error`] if the kernel does not say.
pub fn online() -> Result<Vec<Cpu>, Error> {
    read(Path::new("/sys/devices/system/cpu/online"))
}

/// The CPUs that could ever run, ascending.
///
/// # Errors
///
/// [`Error`] if the kernel does not say.
pub fn possible() -> Result<Vec<Cpu>, Error> {
    read(Path::new("/sys/devices/system/cpu/possible"))
}

/// The CPUs of a list such as `0,2-3`, ascending, each once; an empty text is an empty list.
///
/// Source: "CPU lists" in the kernel's `Documentation/admin-guide/cputopology.rst`.
///
/// # Errors
///
/// [`BadList`] for anything else, a range that runs backwards and a number beyond all machines.
pub fn parse_list(text: &str) -> Result<Vec<Cpu>, BadList> {
    let bad = || BadList { text: text.to_owned() };
    let number = |text: &str| text.trim().parse().ok().filter(|&it| it < MOST).ok_or_else(bad);
    let mut cpus = Vec::new();
    if text.trim().is_empty() {
        return Ok(cpus);
    }
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if last < first {
            return Err(bad());
        }
        cpus.extend((first..=last).map(Cpu));
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// The CPUs of the group that `cpu` is in, itself too; alone where the kernel does not say.
pub fn beside(cpu: Cpu, group: Group) -> Vec<Cpu> {
    let folder = format!("/sys/devices/system/cpu/cpu{}", cpu.0);
    let found = match group {
        Group::Cpu => None,
        Group::Core => read(Path::new(&format!("{folder}/topology/core_cpus_list"))).ok(),
        Group::Package => read(Path::new(&format!("{folder}/topology/package_cpus_list"))).ok(),
        Group::Node => node(Path::new(&folder))
            .and_then(|it| read(Path::new(&format!("/sys/devices/system/node/{it}/cpulist"))).ok()),
    };
    found.unwrap_or_else(|| vec![cpu])
}

/// The name of the NUMA node that the CPU of `folder` is in.
fn node(folder: &Path) -> Option<String> {
    let entries = folder.read_dir().ok()?.flatten();
    let mut names = entries.filter_map(|it| it.file_name().into_string().ok());
    names.find(|it| {
        let number = it.strip_prefix("node");
        number.is_some_and(|it| it.parse::<u32>().is_ok())
    })
}

fn read(path: &Path) -> Result<Vec<Cpu>, Error> {
    let text = line(path)?;
    parse_list(&text).map_err(|BadList { text }| Error::Malformed {
        path: path.to_owned(),
        what: "list of CPUs",
        text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: Option<&[u32]>) {
        let want = want.map(|it| it.iter().copied().map(Cpu).collect::<Vec<_>>());
        assert_eq!(parse_list(text).ok(), want, "{text}");
    }

    #[test]
    fn lists_and_ranges_mix() {
        check("0,2-3", Some(&[0, 2, 3]));
        check("0-1", Some(&[0, 1]));
        check("7", Some(&[7]));
        check("3,1,1-2", Some(&[1, 2, 3]));
        check("", Some(&[]));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["0,", "a", "3-1", "-1", "1-", "99999999999", "0-4294967295"] {
            check(text, None);
        }
    }
}
