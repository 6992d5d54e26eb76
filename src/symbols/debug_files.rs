//! Where the symbols of a stripped file may lie.

use std::path::Path;
use std::path::PathBuf;

use super::DebugLink;
use crate::units::BuildId;

/// A file that may hold the symbols of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugFile {
    /// Where to look.
    pub path: PathBuf,
    /// The CRC-32 that the whole file must have, if it is looked up by a debug link.
    pub crc: Option<u32>,
}

/// The places to look for the symbols of `path`, best first. A file found there counts only if its
/// build id is that of `path`, or neither has one.
///
/// Source: `binary_type_symtab[]` in `tools/perf/util/symbol.c` and the paths of
/// `dso__read_binary_type_filename()` in `dso.c`; "Debugging Information in Separate Files" in the GDB
/// manual.
pub fn debug_files(
    path: &Path,
    build_id: Option<BuildId>,
    link: Option<&DebugLink>,
) -> Vec<DebugFile> {
    const ROOT: &str = "/usr/lib/debug";
    let dir = path.parent().unwrap_or(Path::new("/"));
    // `join` would throw the root away for an absolute path.
    let below_root = |path: &Path| Path::new(ROOT).join(path.strip_prefix("/").unwrap_or(path));
    let mut found: Vec<DebugFile> = Vec::new();
    let mut add = |path: PathBuf, crc: Option<u32>| {
        if found.iter().all(|it| it.path != path) {
            found.push(DebugFile { path, crc });
        }
    };
    if let Some(link) = link {
        let crc = Some(link.crc);
        add(dir.join(&link.file_name), crc);
        add(dir.join(".debug").join(&link.file_name), crc);
        add(below_root(dir).join(&link.file_name), crc);
    }
    let below = below_root(path);
    let mut with_suffix = below.clone().into_os_string();
    with_suffix.push(".debug");
    add(PathBuf::from(with_suffix), None);
    add(below, None);
    if let Some(build_id) = build_id {
        let hex = build_id.to_string();
        if let Some((first, rest)) = hex.split_at_checked(2) {
            add(Path::new(ROOT).join(format!(".build-id/{first}/{rest}.debug")), None);
        }
    }
    if let Some(name) = path.file_name() {
        add(dir.join(".debug").join(name), None);
    }
    found.retain(|it| it.path != path);
    found
}
