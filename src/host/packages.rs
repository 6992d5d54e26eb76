//! Which package of this machine's distribution a file came with.

use std::fs;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Where `dpkg` keeps the lists of the files of its packages.
const DPKG: &str = "/var/lib/dpkg/info";

/// The longest list of files that is read, in bytes.
const MAX_LIST: u64 = 64 << 20;

/// The package that the file at `path` came with, where the machine has `dpkg`, and knows it.
///
/// Source: `dpkg-query(1)`; the files of a package are in `NAME.list` or `NAME:ARCH.list`.
pub fn dpkg_owner(path: &Path) -> Option<String> {
    owner_in(Path::new(DPKG), path)
}

fn owner_in(lists: &Path, path: &Path) -> Option<String> {
    let whole = path.to_str()?;
    // Where `/lib` is a link to `/usr/lib`, packages may have either path.
    let merged = whole.strip_prefix("/usr").filter(|it| it.starts_with('/'));
    let mut text = Vec::new();
    for entry in fs::read_dir(lists).ok()?.flatten() {
        let name = entry.file_name();
        let Some(package) = name.to_str().and_then(|it| it.strip_suffix(".list")) else { continue };
        text.clear();
        let read = File::open(entry.path()).map(|it| it.take(MAX_LIST).read_to_end(&mut text));
        if !matches!(read, Ok(Ok(_))) {
            continue;
        }
        let mut lines = text.split(|&byte| byte == b'\n');
        let is_it = |it: &[u8]| {
            it == whole.as_bytes() || merged.is_some_and(|merged| it == merged.as_bytes())
        };
        if lines.any(is_it) {
            return Some(package.split(':').next().unwrap_or(package).to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_known_by_its_list_of_files() {
        let dir = tempfile::tempdir().unwrap();
        let list = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        list("libfoo1:amd64.list", "/.\n/lib/libfoo.so.1\n");
        list("bar.list", "/.\n/usr/bin/bar\n/usr/bin/bar2");
        list("bar.md5sums", "/usr/bin/baz\n");
        let owner = |path: &str| owner_in(dir.path(), Path::new(path));
        assert_eq!(owner("/usr/lib/libfoo.so.1").as_deref(), Some("libfoo1"));
        assert_eq!(owner("/lib/libfoo.so.1").as_deref(), Some("libfoo1"));
        assert_eq!(owner("/usr/bin/bar2").as_deref(), Some("bar"));
        assert_eq!(owner("/usr/bin/ba"), None);
        assert_eq!(owner("/usr/bin/baz"), None);
        assert_eq!(owner_in(Path::new("/nonexistent"), Path::new("/usr/bin/bar")), None);
    }
}
