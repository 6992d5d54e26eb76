//! The places where the debug information of a file is kept.

use std::path::Path;
use std::path::PathBuf;

use super::DebugLink;
use crate::units::BuildId;

/// A file that may hold the symbols of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DebugFile {
    /// Where to look.
    pub(super) path: PathBuf,
    /// The CRC-32 that the whole file must have, if it is looked up by a debug link.
    pub(super) crc: Option<u32>,
}

/// The places to look for the symbols of `path`, best first.
///
/// A file found there counts only if its build id is that of `path` or, where that has none, if its
/// CRC is the one in the link.
///
/// Source: `binary_type_symtab[]` in `tools/perf/util/symbol.c` and the paths of
/// `dso__read_binary_type_filename()` in `dso.c`; "Debugging Information in Separate Files" in the GDB
/// manual.
pub(super) fn debug_files(
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
    if let Some(build_id) = build_id {
        let hex = build_id.to_string();
        if let Some((first, rest)) = hex.split_at_checked(2) {
            add(Path::new(ROOT).join(format!(".build-id/{first}/{rest}.debug")), None);
        }
    }
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
    // Where `/lib` is a link to `/usr/lib`, the package may know the file by the shorter path.
    if let Ok(merged) = path.strip_prefix("/usr") {
        add(Path::new(ROOT).join(merged), None);
    }
    if let Some(name) = path.file_name() {
        add(dir.join(".debug").join(name), None);
    }
    found.retain(|it| it.path != path);
    found
}

/// The CRC-32 that `.gnu_debuglink` holds: that of Ethernet and zip.
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crc_is_that_of_the_gdb_manual() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }

    #[test]
    fn debug_files_are_sought_where_gdb_and_perf_look() {
        let link = DebugLink { file_name: "p.debug".into(), crc: 7 };
        let id = BuildId::new(&[0xab, 0xcd, 0xef]);
        let found = debug_files(Path::new("/usr/bin/p"), id, Some(&link));
        let found: Vec<(&str, Option<u32>)> =
            found.iter().map(|it| (it.path.to_str().unwrap(), it.crc)).collect();
        assert_eq!(
            found,
            [
                ("/usr/lib/debug/.build-id/ab/cdef.debug", None),
                ("/usr/bin/p.debug", Some(7)),
                ("/usr/bin/.debug/p.debug", Some(7)),
                ("/usr/lib/debug/usr/bin/p.debug", Some(7)),
                ("/usr/lib/debug/usr/bin/p", None),
                ("/usr/lib/debug/bin/p", None),
                ("/usr/bin/.debug/p", None),
            ]
        );
    }
}
