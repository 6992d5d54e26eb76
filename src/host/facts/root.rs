//! `/proc` and `/sys`, or a test's copy of them.

use std::path::Path;
use std::path::PathBuf;

use crate::perfdata::feature::Text;

/// The folder that stands for `/`.
#[derive(Debug)]
pub(super) struct Root(PathBuf);

impl Root {
    pub(super) fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// The content of a file, or `None` if it is missing, unreadable or no text.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.0.join(path)).ok()
    }

    /// The first line of a file without the space around it.
    pub(super) fn line(&self, path: &str) -> Option<String> {
        Some(self.text(path)?.lines().next()?.trim().to_owned())
    }

    /// The first line of a file as a header's text.
    pub(super) fn header_text(&self, path: &str) -> Option<Text> {
        self.line(path).map(Text::from)
    }

    /// The first line of a file as a number.
    pub(super) fn number<T: std::str::FromStr>(&self, path: &str) -> Option<T> {
        self.line(path)?.parse().ok()
    }

    pub(super) fn exists(&self, path: &str) -> bool {
        self.0.join(path).exists()
    }

    /// The names in a folder, sorted; none if it is missing.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.0.join(path)) else { return Vec::new() };
        let names = entries.flatten().map(|it| it.file_name().into_string());
        let mut names: Vec<String> = names.filter_map(Result::ok).collect();
        names.sort_unstable();
        names
    }
}

/// A tree of files for a test: `(path, content)`.
#[cfg(test)]
pub(super) fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
    let folder = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let root = Root::new(folder.path());
    (folder, root)
}
