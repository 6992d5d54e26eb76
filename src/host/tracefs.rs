//! The kernel's tracepoints: ids, formats, and what perf's files carry of them.

use std::fs;
use std::fs::File;
use std::io;
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;

use nix::mount::MsFlags;

/// Where tracefs is mounted where nobody mounted it elsewhere.
const USUAL_PLACE: &str = "/sys/kernel/tracing";

/// The kernel's tracefs, found when first asked for.
#[derive(Debug, Default)]
pub struct Tracefs {
    root: std::cell::OnceCell<PathBuf>,
}

/// The texts by which a reader of the file makes sense of a tracepoint's raw data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Formats {
    /// `events/header_page`.
    pub header_page: Vec<u8>,
    /// `events/header_event`.
    pub header_event: Vec<u8>,
    /// By system, the formats of the recorded events.
    pub systems: Vec<(String, Vec<Vec<u8>>)>,
    /// `printk_formats`.
    pub printk: Vec<u8>,
    /// `saved_cmdlines`.
    pub saved_cmdlines: Vec<u8>,
}

impl Tracefs {
    /// Where it is mounted. Root mounts it where it is not, as perf and bpftrace do.
    fn root(&self) -> io::Result<&Path> {
        if let Some(root) = self.root.get() {
            return Ok(root);
        }
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let root = match mount_point(&mounts) {
            Some(root) => root,
            None => mount()?,
        };
        Ok(self.root.get_or_init(|| root))
    }

    /// The formats of the tracepoints `names`, of which each is `system:event`.
    ///
    /// # Errors
    ///
    /// What keeps a file from being read.
    pub fn formats<'a>(&self, names: impl Iterator<Item = &'a str>) -> io::Result<Formats> {
        let root = self.root()?;
        let events = root.join("events");
        let mut systems: Vec<(String, Vec<Vec<u8>>)> = Vec::new();
        let mut seen = Vec::new();
        for name in names {
            let Some((system, event)) = name.split_once(':') else { continue };
            let event = event.split(':').next().unwrap_or_default();
            if seen.contains(&(system, event)) {
                continue;
            }
            seen.push((system, event));
            let format = read(&events.join(system).join(event).join("format"))?;
            match systems.iter_mut().find(|it| it.0 == system) {
                Some((_, formats)) => formats.push(format),
                None => systems.push((system.to_owned(), vec![format])),
            }
        }
        Ok(Formats {
            header_page: read(&events.join("header_page"))?,
            header_event: read(&events.join("header_event"))?,
            systems,
            // Both are there to resolve a few fields; without them those stay numbers.
            printk: read(&root.join("printk_formats")).unwrap_or_default(),
            saved_cmdlines: read(&root.join("saved_cmdlines")).unwrap_or_default(),
        })
    }
}

impl Tracefs {
    /// The format of the tracepoint `event`, which is `system:event`, modifiers after it or not.
    ///
    /// # Errors
    ///
    /// What keeps it from being read.
    pub fn format(&self, event: &str) -> io::Result<Vec<u8>> {
        let mut parts = event.split(':');
        let (system, name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        read(&self.root()?.join("events").join(system).join(name).join("format"))
    }

    /// The id of one tracepoint, or `None` if there is none of that name.
    ///
    /// # Errors
    ///
    /// What keeps the answer from being known.
    pub fn id(&self, system: &str, name: &str) -> io::Result<Option<u64>> {
        // A name is one component of a path and nothing else.
        if [system, name].iter().any(|it| it.is_empty() || it.contains('/') || it.starts_with('.'))
        {
            return Ok(None);
        }
        let root = self.root()?;
        // Without this one, "may not look" would read as "is not there".
        fs::read_dir(root.join("events"))?;
        match fs::read_to_string(root.join("events").join(system).join(name).join("id")) {
            Ok(id) => Ok(id.trim().parse().ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Every tracepoint, as system and name, in the order of their names.
    ///
    /// # Errors
    ///
    /// What keeps the answer from being known.
    pub fn all(&self) -> io::Result<Vec<(String, String)>> {
        let events = self.root()?.join("events");
        let mut all = Vec::new();
        // `ftrace` holds what the function tracer writes, which no event can be opened on.
        for system in folders(&events)?.into_iter().filter(|it| it != "ftrace") {
            let names = folders(&events.join(&system))?;
            all.extend(names.into_iter().map(|name| (system.clone(), name)));
        }
        Ok(all)
    }
}

/// The first tracefs among `mounts`: `DEVICE PLACE TYPE OPTIONS 0 0`.
fn mount_point(mounts: &str) -> Option<PathBuf> {
    let place = |line: &str| {
        let mut words = line.split(' ');
        let place = words.nth(1)?;
        (words.next()? == "tracefs").then(|| PathBuf::from(place))
    };
    mounts.lines().find_map(place)
}

fn mount() -> io::Result<PathBuf> {
    let nothing: Option<&str> = None;
    nix::mount::mount(Some("nodev"), USUAL_PLACE, Some("tracefs"), MsFlags::empty(), nothing)?;
    Ok(PathBuf::from(USUAL_PLACE))
}

/// All of a file, in reads as large as any of tracefs's files.
///
/// Some of them give a second read nothing, however little the first one took. Source:
/// `show_header_page_file()` in `kernel/trace/trace_events.c`.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut all = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(all),
            Ok(n) => all.extend(buffer.iter().take(n)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The names of the folders in `folder`, ascending.
fn folders(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            names.extend(entry.file_name().into_string().ok());
        }
    }
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_table_says_where_tracefs_is() {
        let mounts = "proc /proc proc rw 0 0\nnone /sys/kernel/tracing tracefs rw 0 0\n";
        assert_eq!(mount_point(mounts), Some(PathBuf::from("/sys/kernel/tracing")));
        assert_eq!(mount_point("tracefs /x proc rw 0 0\n"), None);
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_no_tracepoint() {
        let tracefs = Tracefs::default();
        for name in ["..", "", "a/b", "."] {
            assert_eq!(tracefs.id("sched", name).unwrap(), None, "{name}");
        }
    }
}
