//! From a path in a recording to the bytes that have its symbols.

use std::ops::Deref;
use std::path::Path;
use std::path::PathBuf;

use super::DebugLink;
use super::ElfModule;
use super::Error;
use super::Files;
use super::Identity;
use super::ModuleFile;
use super::Symbols;
use crate::units::BuildId;

/// A file that may hold the symbols of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugFile {
    /// Where to look.
    pub path: PathBuf,
    /// The CRC-32 that the whole file must have, if it is looked up by a debug link.
    pub crc: Option<u32>,
}

/// The places to look for the symbols of `path`, best first. `cache` is perf's own store of files,
/// `~/.debug` unless told otherwise.
///
/// A file found there counts only if its build id is that of `path` or, where that has none, if its
/// CRC is the one in the link.
///
/// Source: `binary_type_symtab[]` in `tools/perf/util/symbol.c` and the paths of
/// `dso__read_binary_type_filename()` in `dso.c`; "Debugging Information in Separate Files" in the GDB
/// manual.
pub fn debug_files(
    path: &Path,
    build_id: Option<BuildId>,
    link: Option<&DebugLink>,
    cache: Option<&Path>,
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
    if let Some(file) = cache.zip(build_id).map(|(cache, id)| in_cache(cache, id, "debug")) {
        add(file, None);
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

/// A file of `build_id` in perf's store: `elf`, `debug`, `kallsyms`, `vdso`.
fn in_cache(cache: &Path, build_id: BuildId, what: &str) -> PathBuf {
    let hex = build_id.to_string();
    let (first, rest) = hex.split_at_checked(2).unwrap_or((&hex, ""));
    cache.join(".build-id").join(first).join(rest).join(what)
}

impl ElfModule {
    /// Finds and reads the file that was mapped and the file with its symbols.
    ///
    /// With a build id, the one that the recording noted, nothing else counts: the file at its path may
    /// be a newer one. It may then be found in `cache`, perf's own store of files.
    ///
    /// # Errors
    ///
    /// [`Error::Open`] if there is no such file, [`Error::OtherBuild`] if another one is there,
    /// [`Error::Elf`] if it is no ELF file.
    pub fn load<F: Files>(
        files: &F,
        file: &ModuleFile,
        cache: Option<&Path>,
    ) -> Result<Self, Error> {
        let found = FileSet::find(files, file, cache)?;
        let debug = match found.identity.symbols {
            Symbols::Full => None,
            Symbols::Dynamic | Symbols::None => {
                found.debug(files, cache, |_, identity| identity.symbols == Symbols::Full)
            }
        };
        Self::parse(&found.bytes, debug.as_deref())
    }
}

/// A file that was mapped, and what to find the files beside it by.
#[derive(Debug)]
pub(super) struct FileSet<'a, B> {
    path: &'a Path,
    pub(super) bytes: B,
    identity: Identity,
}

impl<'a, B: Deref<Target = [u8]>> FileSet<'a, B> {
    /// The file that was mapped; by the rules of [`ElfModule::load`].
    pub(super) fn find<F: Files<Bytes = B>>(
        files: &F,
        file: &'a ModuleFile,
        cache: Option<&Path>,
    ) -> Result<Self, Error> {
        let ModuleFile { path, build_id, inode: _, mappers: _ } = file;
        let build_id = *build_id;
        let (bytes, identity) = match open_build(files, path, build_id) {
            Ok(found) => found,
            Err(err) => cache
                .zip(build_id)
                .and_then(|(cache, id)| {
                    open_build(files, &in_cache(cache, id, "elf"), build_id).ok()
                })
                .ok_or(err)?,
        };
        Ok(Self { path, bytes, identity })
    }

    /// The first file with its debug information that `is_wanted`, by its bytes and what it says of
    /// itself.
    pub(super) fn debug<F: Files<Bytes = B>>(
        &self,
        files: &F,
        cache: Option<&Path>,
        is_wanted: impl Fn(&[u8], &Identity) -> bool,
    ) -> Option<B> {
        let Identity { build_id, debug_link, symbols: _ } = &self.identity;
        debug_files(self.path, *build_id, debug_link.as_ref(), cache)
            .iter()
            .find_map(|it| open_debug(files, it, *build_id, &is_wanted))
    }
}

fn open_build<F: Files>(
    files: &F,
    path: &Path,
    wanted: Option<BuildId>,
) -> Result<(F::Bytes, Identity), Error> {
    let bytes = files
        .open(path)
        .map_err(|err| Error::Open { path: path.to_owned(), reason: err.to_string() })?;
    let identity = Identity::of(&bytes)?;
    match wanted {
        Some(wanted) if identity.build_id != Some(wanted) => {
            Err(Error::OtherBuild { path: path.to_owned(), wanted, found: identity.build_id })
        }
        _ => Ok((bytes, identity)),
    }
}

fn open_debug<F: Files>(
    files: &F,
    candidate: &DebugFile,
    build_id: Option<BuildId>,
    is_wanted: impl Fn(&[u8], &Identity) -> bool,
) -> Option<F::Bytes> {
    let bytes = files.open(&candidate.path).ok()?;
    let identity = Identity::of(&bytes).ok()?;
    let is_it = match build_id {
        Some(_) => identity.build_id == build_id,
        None => candidate.crc == Some(crc32(&bytes)),
    };
    (is_it && is_wanted(&bytes, &identity)).then_some(bytes)
}

/// The CRC-32 that `.gnu_debuglink` holds: that of Ethernet and zip.
fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut i = 0_u32;
        while i < 256 {
            let mut value = i;
            let mut bit = 0;
            while bit < 8 {
                value = if value & 1 == 1 { value >> 1 ^ 0xedb8_8320 } else { value >> 1 };
                bit += 1;
            }
            table[i as usize] = value;
            i += 1;
        }
        table
    };
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        let [low, ..] = crc.to_le_bytes();
        crc >> 8 ^ TABLE.get(usize::from(low ^ byte)).copied().unwrap_or_default()
    })
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
        let found = debug_files(Path::new("/opt/p"), id, Some(&link), Some(Path::new("/h/.debug")));
        let found: Vec<(&str, Option<u32>)> =
            found.iter().map(|it| (it.path.to_str().unwrap(), it.crc)).collect();
        assert_eq!(
            found,
            [
                ("/opt/p.debug", Some(7)),
                ("/opt/.debug/p.debug", Some(7)),
                ("/usr/lib/debug/opt/p.debug", Some(7)),
                ("/h/.debug/.build-id/ab/cdef/debug", None),
                ("/usr/lib/debug/opt/p", None),
                ("/usr/lib/debug/.build-id/ab/cdef.debug", None),
                ("/opt/.debug/p", None),
            ]
        );
    }
}
