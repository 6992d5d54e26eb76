//! Lines of source files on this machine.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;

use rustc_hash::FxHashMap;

use crate::host::files::Disk;
use crate::render::source_text::SourceText;
use crate::symbols::Files as _;

/// Source files, each read once.
#[derive(Debug, Default)]
pub(super) struct SourceFiles {
    /// The lines of each; `None` for what cannot be read.
    files: Mutex<FxHashMap<Vec<u8>, Option<Vec<String>>>>,
}

/// The largest source file that is read, in bytes.
const MAX_LEN: usize = 64 << 20;

impl SourceText for SourceFiles {
    fn line(&self, path: &[u8], line: u32) -> Option<String> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if !files.contains_key(path) {
            files.insert(path.to_vec(), read(path));
        }
        let lines = files.get(path)?.as_ref()?;
        lines.get(usize::try_from(line.checked_sub(1)?).ok()?).cloned()
    }
}

fn read(path: &[u8]) -> Option<Vec<String>> {
    let bytes = Disk.open(Path::new(OsStr::from_bytes(path))).ok()?.bytes;
    if MAX_LEN < bytes.len() {
        return None;
    }
    let line = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
    Some(bytes.split(|&byte| byte == b'\n').map(line).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_from_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.c");
        std::fs::write(&path, b"first\n\tsecond\n\xff\n").unwrap();
        let files = SourceFiles::default();
        let line = |number| files.line(path.as_os_str().as_bytes(), number);
        assert_eq!(line(0), None);
        assert_eq!(line(1).as_deref(), Some("first"));
        assert_eq!(line(2).as_deref(), Some("\tsecond"));
        assert_eq!(line(9), None);
        assert_eq!(files.line(b"/nonexistent/a.c", 1), None);
    }
}
