//! The kernel's PMUs, as sysfs describes them to whoever opens events.

use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use super::cpus;
use crate::units::Cpu;

const DEVICES: &str = "/sys/bus/event_source/devices";

/// The PMUs of the running kernel.
#[derive(Debug)]
pub struct Pmus {
    folder: PathBuf,
}

impl Default for Pmus {
    fn default() -> Self {
        Self { folder: PathBuf::from(DEVICES) }
    }
}

impl Pmus {
    /// The names of all PMUs, ascending.
    ///
    /// # Errors
    ///
    /// What keeps the folder from being read; one that is not there is empty.
    pub fn names(&self) -> io::Result<Vec<String>> {
        names(&self.folder)
    }

    /// The number to put into an attribute's `type`, or `None` if there is no such PMU.
    ///
    /// # Errors
    ///
    /// What keeps it from being read.
    pub fn kind(&self, pmu: &str) -> io::Result<Option<u32>> {
        // A name is one component of a path and nothing else.
        if pmu.is_empty() || pmu.contains('/') || pmu.starts_with('.') {
            return Ok(None);
        }
        Ok(present(fs::read_to_string(self.folder.join(pmu).join("type")))?
            .and_then(|it| it.trim().parse().ok()))
    }

    /// Its fields, each as name and place, such as `event` and `config:0-7`.
    ///
    /// # Errors
    ///
    /// What keeps them from being read.
    pub fn formats(&self, pmu: &str) -> io::Result<Vec<(String, String)>> {
        texts(&self.folder.join(pmu).join("format"))
    }

    /// Its events, each as name and terms, such as `cpu-cycles` and `event=0x3c`.
    ///
    /// # Errors
    ///
    /// What keeps them from being read.
    pub fn events(&self, pmu: &str) -> io::Result<Vec<(String, String)>> {
        let mut events = texts(&self.folder.join(pmu).join("events"))?;
        // How a value is shown is told beside the event: `energy-pkg.scale`.
        events.retain(|(name, _)| !name.contains('.'));
        Ok(events)
    }

    /// The CPUs on which its events can be opened, if not on all: those of its cores, or one for each
    /// socket.
    ///
    /// # Errors
    ///
    /// What keeps them from being read.
    pub fn cpus(&self, pmu: &str) -> io::Result<Option<Vec<Cpu>>> {
        for file in ["cpumask", "cpus"] {
            if let Some(list) = present(fs::read_to_string(self.folder.join(pmu).join(file)))? {
                let cpus = cpus::parse_list(list.trim()).ok();
                return Ok(cpus.filter(|it| !it.is_empty()));
            }
        }
        Ok(None)
    }
}

/// `None` for what is not there.
fn present<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(it) => Ok(Some(it)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn names(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in present(fs::read_dir(folder))?.into_iter().flatten() {
        names.extend(entry?.file_name().into_string().ok());
    }
    names.sort_unstable();
    Ok(names)
}

/// The files of a folder by name, each with its text.
fn texts(folder: &Path) -> io::Result<Vec<(String, String)>> {
    let text = |name: String| {
        let text = fs::read_to_string(folder.join(&name)).ok()?;
        Some((name, text.trim().to_owned()))
    };
    Ok(names(folder)?.into_iter().filter_map(text).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pmus(files: &[(&str, &str)]) -> (tempfile::TempDir, Pmus) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let pmus = Pmus { folder: folder.path().to_owned() };
        (folder, pmus)
    }

    #[test]
    fn a_pmu_is_a_number_fields_and_events() {
        let (_folder, pmus) = pmus(&[
            ("cpu/type", "4\n"),
            ("cpu/format/umask", "config:8-15\n"),
            ("cpu/format/event", "config:0-7\n"),
            ("cpu/events/cpu-cycles", "event=0x3c\n"),
            ("cpu/events/cpu-cycles.scale", "2\n"),
            ("uncore_imc/type", "20\n"),
            ("uncore_imc/cpumask", "0,18\n"),
        ]);
        assert_eq!(pmus.names().unwrap(), ["cpu", "uncore_imc"]);
        assert_eq!((pmus.kind("cpu").unwrap(), pmus.kind("gpu").unwrap()), (Some(4), None));
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let want = [pair("event", "config:0-7"), pair("umask", "config:8-15")];
        assert_eq!(pmus.formats("cpu").unwrap(), want);
        assert_eq!(pmus.events("cpu").unwrap(), [pair("cpu-cycles", "event=0x3c")]);
        assert_eq!(pmus.cpus("cpu").unwrap(), None);
        assert_eq!(pmus.cpus("uncore_imc").unwrap(), Some(vec![Cpu(0), Cpu(18)]));
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_no_pmu() {
        let (_folder, pmus) = pmus(&[("cpu/type", "4\n")]);
        for name in ["..", "", "cpu/../cpu", "."] {
            assert_eq!(pmus.kind(name).unwrap(), None, "{name}");
        }
    }
}
