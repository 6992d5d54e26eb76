//! An output that is a directory: a file with the header, and one for the records of each ring.
//!
//! As a file it is written beside its final place and moved there once the recording has begun.

use std::ffi::OsString;
use std::fs;
use std::fs::DirBuilder;
use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;

/// The form of a directory with a file for each ring.
pub(super) const VERSION: u64 = 1;
/// The name of the file with the header.
const HEADER: &str = "data";
/// The name of the directory with a copy of the kernel.
const KCORE: &str = "kcore_dir";

/// A directory that is being written.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    /// Where it is until it is committed.
    temporary: Option<PathBuf>,
}

impl Directory {
    /// Makes one that is to become `path`; nothing that exists is changed yet.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from being written, or from taking the place of what is there.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let mut path = path.to_owned();
        if fs::symlink_metadata(&path).is_ok_and(|it| it.is_symlink()) {
            // Of a link, what it leads to is replaced, never the link.
            path = fs::canonicalize(&path)?;
        }
        let path = &*path;
        if fs::metadata(path).is_ok_and(|it| !it.is_dir() && !it.is_file()) {
            let text = "a directory cannot take the place of a device, a fifo or a socket";
            return Err(io::Error::other(text));
        }
        if !is_empty(path) {
            check(path)?;
        }
        check_old(path)?;
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}", std::process::id()));
        for n in 0..super::output::MOST_LEFT {
            let mut hidden = hidden.clone();
            hidden.push(format!(".{n}"));
            let temporary = path.with_file_name(hidden);
            match DirBuilder::new().mode(0o700).create(&temporary) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(()) => return Ok(Self { path: path.to_owned(), temporary: Some(temporary) }),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Creates the file with the header.
    pub(super) fn header(&self) -> io::Result<File> {
        self.file(HEADER)
    }

    /// Creates the file of the ring `idx`.
    pub(super) fn part(&self, idx: usize) -> io::Result<File> {
        self.file(&format!("{HEADER}.{idx}"))
    }

    fn file(&self, name: &str) -> io::Result<File> {
        let folder = self.temporary.as_ref().unwrap_or(&self.path);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600).open(folder.join(name))
    }

    /// Puts it in its place, keeping what was there beside it as `.old`.
    pub(super) fn commit(&mut self) -> io::Result<()> {
        let Some(temporary) = self.temporary.take() else { return Ok(()) };
        let moved = set_aside(&self.path).and_then(|()| {
            if self.path.is_file() {
                // An empty one: a directory does not take a file's place by itself.
                fs::remove_file(&self.path)?;
            }
            fs::rename(&temporary, &self.path)
        });
        if moved.is_err() {
            // Where it is, nobody looks for it; so it is removed.
            self.temporary = Some(temporary);
        }
        moved
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary
            && let Err(error) = remove(temporary)
        {
            tracing::debug!(%error, path = %temporary.display(), "remove what nobody was promised");
        }
    }
}

/// Where the recording that was at `path` before goes.
pub(super) fn old(path: &Path) -> PathBuf {
    let mut old = path.as_os_str().to_owned();
    old.push(".old");
    old.into()
}

/// Whether a recording can take the place of what is at `path`.
pub(super) fn check(path: &Path) -> io::Result<()> {
    if !path.is_dir() || is_recording(path) {
        return Ok(());
    }
    let text = format!("`{}` is a directory that is no recording", path.display());
    Err(io::Error::other(text))
}

/// Whether the recording before the one at `path` can be removed to make room.
pub(super) fn check_old(path: &Path) -> io::Result<()> {
    let old = old(path);
    check(&old)?;
    if old.is_dir() { check_names(&old) } else { Ok(()) }
}

/// Whether all that is in a directory was written by a recorder.
fn check_names(path: &Path) -> io::Result<()> {
    for entry in path.read_dir()? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        if name != KCORE && !is_part(&name) {
            let text =
                format!("`{}` is in the way: it is of no recording", path.join(&*name).display());
            return Err(io::Error::other(text));
        }
    }
    Ok(())
}

/// Whether it is the name of the file with the header or of one with records.
fn is_part(name: &str) -> bool {
    let is_number = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit());
    name == HEADER || name.strip_prefix("data.").is_some_and(is_number)
}

fn is_recording(path: &Path) -> bool {
    path.join(HEADER).is_file()
}

fn is_empty(path: &Path) -> bool {
    path.read_dir().is_ok_and(|mut it| it.next().is_none())
}

/// Moves the recording at `path`, be it a file or a directory, to where the one before goes.
pub(super) fn set_aside(path: &Path) -> io::Result<()> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    if is_empty(path) {
        return fs::remove_dir(path);
    }
    if found.is_file() && found.len() == 0 {
        // Nothing to keep.
        return Ok(());
    }
    let old = old(path);
    match fs::symlink_metadata(&old) {
        Ok(before) if before.is_dir() => remove(&old)?,
        Ok(_) => fs::remove_file(&old)?,
        Err(_) => {}
    }
    fs::rename(path, old)
}

/// Removes a directory that is a recording, or will not be one: what recorders write, and nothing
/// else.
fn remove(path: &Path) -> io::Result<()> {
    check_names(path)?;
    for entry in path.read_dir()? {
        let entry = entry?;
        if entry.file_name() == KCORE {
            for name in ["kcore", "kallsyms", "modules"] {
                // What is not there need not be removed.
                let _removed = fs::remove_file(entry.path().join(name));
            }
            fs::remove_dir(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    fs::remove_dir(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn make(path: &Path, text: &str) {
        let mut directory = Directory::create(path).unwrap();
        io::Write::write_all(&mut directory.header().unwrap(), text.as_bytes()).unwrap();
        directory.part(0).unwrap();
        directory.commit().unwrap();
    }

    #[test]
    fn a_directory_takes_the_place_of_what_was_there_and_keeps_it() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("perf.data");
        fs::write(&path, "a file").unwrap();
        make(&path, "first");
        assert_eq!(fs::read(scratch.path().join("perf.data.old")).unwrap(), b"a file");
        make(&path, "second");
        make(&path, "third");
        assert_eq!(names(scratch.path()), ["perf.data", "perf.data.old"]);
        assert_eq!(names(&path), ["data", "data.0"]);
        assert_eq!(fs::read(scratch.path().join("perf.data.old/data")).unwrap(), b"second");
    }

    #[test]
    fn a_directory_that_never_began_leaves_nothing_and_takes_nothing_away() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("perf.data");
        make(&path, "first");
        let directory = Directory::create(&path).unwrap();
        directory.header().unwrap();
        directory.part(0).unwrap();
        drop(directory);
        assert_eq!(names(scratch.path()), ["perf.data"]);
        assert_eq!(fs::read(path.join("data")).unwrap(), b"first");
    }

    #[test]
    fn a_folder_of_other_things_is_not_moved() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("work");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("letter"), "dear").unwrap();
        let error = Directory::create(&path).unwrap_err();
        assert!(
            error.to_string().ends_with("work` is a directory that is no recording"),
            "{error}"
        );
        assert_eq!(names(scratch.path()), ["work"]);
        let other = scratch.path().join("other");
        fs::rename(path, old(&other)).unwrap();
        assert!(Directory::create(&other).is_err());
    }

    #[test]
    fn an_old_recording_with_other_things_in_it_is_not_removed() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("perf.data");
        make(&path, "first");
        make(&path, "second");
        fs::write(old(&path).join("data.json"), "dear").unwrap();
        let error = Directory::create(&path).unwrap_err().to_string();
        assert!(error.contains("data.json"), "{error}");
        assert!(remove(&old(&path)).is_err());
        assert_eq!(fs::read(old(&path).join("data.json")).unwrap(), b"dear");
        assert_eq!(fs::read(old(&path).join("data")).unwrap(), b"first");
        assert_eq!(fs::read(path.join("data")).unwrap(), b"second");
    }

    #[test]
    fn of_a_link_what_it_leads_to_is_replaced_and_a_fifo_is_left_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let (real, link) = (scratch.path().join("real"), scratch.path().join("link"));
        make(&real, "first");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        make(&link, "second");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(real.join("data")).unwrap(), b"second");
        let fifo = scratch.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(Directory::create(&fifo).is_err());
        assert!(Directory::create(Path::new("/dev/null")).is_err());
        assert_eq!(names(scratch.path()), ["fifo", "link", "real", "real.old"]);
    }
}
