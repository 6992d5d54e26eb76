//! Which package of this machine's distribution a file came with.

use std::cmp::Reverse;
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
    let names =
        fs::read_dir(lists).ok()?.flatten().filter_map(|it| it.file_name().into_string().ok());
    let mut names: Vec<String> = names.collect();
    // There are hundreds of lists, and a library's package is mostly called like it.
    let file = path.file_name().and_then(|it| it.to_str()).unwrap_or_default();
    names.sort_by_cached_key(|it| (Reverse(n_alike(it, file)), it.clone()));
    let mut text = Vec::new();
    for name in names {
        let Some(package) = name.strip_suffix(".list") else { continue };
        text.clear();
        let read = File::open(lists.join(&name)).map(|it| it.take(MAX_LIST).read_to_end(&mut text));
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

/// How many letters two names begin with alike.
fn n_alike(one: &str, other: &str) -> usize {
    one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count()
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
