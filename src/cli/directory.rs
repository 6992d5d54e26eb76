//! A recording that is a directory: one file with the header, and one for each thread that recorded.
//!
//! ```text
//! DIR/data             header, events, features, and the records that the recorder itself wrote
//! DIR/data.0, .1, ...  records alone, each file in the order of time
//! DIR/kcore_dir/       the kernel's symbols and code, of `--kcore`
//! ```
//!
//! Source: `perf_data__open_dir()` in `tools/perf/util/data.c`.

use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;

use crate::host::limits;
use crate::perfdata::ReadAt;
use crate::perfdata::Section;
use crate::replay::Recording;

use super::message;
use super::message::Failure;

/// The form of a directory with a file for each thread.
pub(super) const VERSION: u64 = 1;

/// How many bits of a position say where in its file it is; those above say in which.
const OFFSET_BITS: u32 = 48;
/// The most files of records: as many as positions can tell apart.
const MOST_FILES: usize = (1 << (u64::BITS - OFFSET_BITS)) - 1;

/// At which position the file `idx` begins.
pub(super) fn begin(idx: u64) -> u64 {
    idx << OFFSET_BITS
}

/// The files of a recording, one behind the other: the first alone has positions of its own.
#[derive(Debug)]
pub(super) struct Files {
    /// The one with the header.
    pub(super) first: File,
    others: Vec<File>,
    /// Their paths, the first one's too.
    pub(super) paths: Vec<PathBuf>,
}

impl Files {
    /// The one file of a recording.
    pub(super) fn new(first: File, path: &Path) -> Self {
        Self { first, others: Vec::new(), paths: vec![path.to_owned()] }
    }

    /// Adds a file of `len` bytes, and returns where it stands.
    fn add(&mut self, file: File, path: PathBuf, len: u64) -> Section {
        self.others.push(file);
        self.paths.push(path);
        let offset = begin(self.others.len() as u64);
        Section { offset, size: len.min(begin(1) - 1) }
    }
}

impl ReadAt for Files {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if self.others.is_empty() {
            return ReadAt::read_at(&self.first, offset, buffer);
        }
        let in_file = offset & (begin(1) - 1);
        let file = match usize::try_from(offset >> OFFSET_BITS).unwrap_or(usize::MAX) {
            0 => Some(&self.first),
            idx => self.others.get(idx - 1),
        };
        file.map_or(Ok(0), |file| ReadAt::read_at(file, in_file, buffer))
    }
}

/// What lies in a directory that is a recording.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Directory {
    /// The file with the header.
    pub(super) header: PathBuf,
    /// The other files of records, by their numbers.
    records: Vec<(u64, PathBuf)>,
    /// The kernel's symbols when it was made.
    pub(super) kallsyms: Option<PathBuf>,
}

/// Looks for the files of the recording `path`.
pub(super) fn find(path: &Path) -> Result<Directory, Failure> {
    let cannot = || format!("cannot read `{}`", path.display());
    let header = path.join("data");
    if !header.symlink_metadata().is_ok_and(|it| it.is_file()) {
        return Err(Failure::new(cannot())
            .cause("it is a directory without a file `data`, which a recording that is one has"));
    }
    let mut records = Vec::new();
    for entry in path.read_dir().map_err(|error| Failure::because(cannot(), &error))? {
        let entry = entry.map_err(|error| Failure::because(cannot(), &error))?;
        if let Some(number) = number(&entry.file_name().to_string_lossy()) {
            records.push((number, entry.path()));
        }
    }
    if records.len() > MOST_FILES {
        let cause = format!("it has {} files of records, more than {MOST_FILES}", records.len());
        return Err(Failure::new(cannot()).cause(cause));
    }
    records.sort_unstable();
    let kallsyms = Some(path.join("kcore_dir/kallsyms")).filter(|it| it.is_file());
    Ok(Directory { header, records, kallsyms })
}

/// The number in `data.NUMBER`, as recorders write it.
fn number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("data.")?;
    let number = digits.parse().ok()?;
    (u64::to_string(&number) == digits).then_some(number)
}

/// Adds the records of `directory` to `recording`, whose header is that of the first of `files`.
pub(super) fn add(
    directory: &Directory,
    files: &mut Files,
    recording: &mut Recording,
) -> Result<(), Failure> {
    let Directory { header, records, kallsyms: _ } = directory;
    let path = header.parent().unwrap_or(header).display();
    let cannot_read = || format!("cannot read `{path}`");
    match recording.directory_version() {
        // A recorder that was killed has not said what it meant to write.
        None if recording.features.is_empty() => {}
        None | Some(0) => {
            if !records.is_empty() {
                message::warn(&format!(
                    "the header of `{path}` does not tell of files of records; {} are left out",
                    records.len()
                ));
            }
            return Ok(());
        }
        Some(VERSION) => {}
        Some(version) => {
            let cause = format!("it is a directory of form {version}, and {VERSION} is known");
            return Err(Failure::new(cannot_read()).cause(cause));
        }
    }
    warn_of_gaps(&path.to_string(), records);
    limits::raise_open_files();
    let mut sections = Vec::new();
    let len =
        files.first.metadata().map_err(|error| Failure::because(cannot_read(), &error))?.len();
    for (_, path) in records {
        let cannot = format!("cannot open `{}`", path.display());
        // Neither a link that leads elsewhere is read nor a pipe that nobody writes to.
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let (file, of) = match opened.and_then(|it| it.metadata().map(|of| (it, of))) {
            Ok(opened) => opened,
            Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
                let cause = "it is a link, and a recording's files are its own";
                return Err(Failure::new(cannot).cause(cause));
            }
            Err(error) => return Err(Failure::because(cannot, &error)),
        };
        if !of.is_file() {
            return Err(Failure::new(cannot).cause("it is no file"));
        }
        if of.len() != 0 {
            sections.push(files.add(file, path.clone(), of.len()));
        }
    }
    recording.add_files(len, sections);
    Ok(())
}

/// Tells of files that have to have been there.
fn warn_of_gaps(path: &str, records: &[(u64, PathBuf)]) {
    let Some((first, n_more)) = gaps(records) else { return };
    let more = if n_more == 0 { String::new() } else { format!(", nor {n_more} more") };
    message::warn(&format!(
        "`{path}` does not have its file `data.{first}`{more}: the profile is incomplete"
    ));
}

/// The lowest number that `records` lack, and how many more below their highest one.
fn gaps(records: &[(u64, PathBuf)]) -> Option<(u64, u64)> {
    let Some((last, _)) = records.last() else { return Some((0, 0)) };
    let (first, _) = (0_u64..).zip(records).find(|(expected, (number, _))| expected != number)?;
    Some((first, last - records.len() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_records_has_a_number_as_recorders_write_it() {
        assert_eq!(number("data.0"), Some(0));
        assert_eq!(number("data.12"), Some(12));
        for name in ["data", "data.", "data.01", "data.+1", "data.old", "xdata.1"] {
            assert_eq!(number(name), None, "{name}");
        }
    }

    #[test]
    fn files_are_missed_where_numbers_are() {
        let gaps = |numbers: &[u64]| {
            gaps(&numbers.iter().map(|it| (*it, PathBuf::new())).collect::<Vec<_>>())
        };
        assert_eq!(gaps(&[0, 1, 2]), None);
        assert_eq!(gaps(&[]), Some((0, 0)));
        assert_eq!(gaps(&[0, 2]), Some((1, 0)));
        assert_eq!(gaps(&[1, 4]), Some((0, 2)));
        assert_eq!(gaps(&[u64::MAX]), Some((0, u64::MAX - 1)));
    }

    #[test]
    fn a_position_says_in_which_file_it_is() {
        let file = |text: &[u8]| {
            let mut file = tempfile::tempfile().unwrap();
            io::Write::write_all(&mut file, text).unwrap();
            file
        };
        let mut files = Files::new(file(b"header"), Path::new("d/data"));
        let section = files.add(file(b"records"), PathBuf::from("d/data.0"), 7);
        assert_eq!(section, Section { offset: begin(1), size: 7 });
        let read = |at: u64| {
            let mut bytes = [0; 4];
            let n = files.read_at(at, &mut bytes).unwrap();
            String::from_utf8(bytes[..n].to_vec()).unwrap()
        };
        let all = [read(2), read(6), read(begin(1) + 4), read(begin(1) + 9), read(begin(2))];
        assert_eq!(all, ["ader", "", "rds", "", ""]);
    }
}
