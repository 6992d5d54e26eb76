//! The places where the debug information of a file is kept.

use std::path::Path;
use std::path::PathBuf;

use super::Identity;
use super::build_id::is_same_build;

/// A file that may hold the symbols of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugFile {
    /// Where to look.
    pub path: PathBuf,
    /// The CRC-32 that the whole file must have, if it is looked up by a debug link.
    pub crc: Option<u32>,
}

impl DebugFile {
    /// Whether what is there, a file that says `found` of itself, was split off the one that says `of`:
    /// its build id is the same or, where one of them has none, its CRC, which `sum` computes, is the one in
    /// the link.
    pub fn is_of(
        &self,
        of: &Identity,
        found: &Identity,
        sum: impl FnOnce() -> Option<u32>,
    ) -> bool {
        match (of.build_id, found.build_id) {
            (Some(wanted), Some(found)) => is_same_build(found, wanted),
            _ => self.crc.is_some_and(|it| sum() == Some(it)),
        }
    }
}

/// The places to look for the symbols of the file at `path` that says `of` of itself, best first.
///
/// A file found there counts only if [`DebugFile::is_of`] says so.
///
/// Source: `binary_type_symtab[]` in `tools/perf/util/symbol.c` and the paths of
/// `dso__read_binary_type_filename()` in `dso.c`; "Debugging Information in Separate Files" in the GDB
/// manual.
pub fn debug_files(path: &Path, of: &Identity) -> Vec<DebugFile> {
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
    if let Some(build_id) = of.build_id {
        let hex = build_id.to_string();
        if let Some((first, rest)) = hex.split_at_checked(2) {
            add(Path::new(ROOT).join(format!(".build-id/{first}/{rest}.debug")), None);
        }
    }
    if let Some(link) = &of.debug_link {
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
    use super::super::DebugLink;
    use super::super::Symbols;
    use super::*;
    use crate::units::BuildId;

    #[test]
    fn the_crc_is_that_of_the_gdb_manual() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }

    #[test]
    fn debug_files_are_sought_where_gdb_and_perf_look() {
        let debug_link = Some(DebugLink { file_name: "p.debug".into(), crc: 7 });
        let build_id = BuildId::new(&[0xab, 0xcd, 0xef]);
        let of = Identity { build_id, debug_link, symbols: Symbols::None };
        let found = debug_files(Path::new("/usr/bin/p"), &of);
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
