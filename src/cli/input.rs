//! From a path or stdin to bytes that can be read from any place.

use std::fs::File;
use std::fs::Metadata;
use std::io;
use std::io::BufWriter;
use std::io::Seek;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::path::PathBuf;

use crate::perfdata;
use crate::perfdata::ReadAt;
use crate::render::script::Origin;
use crate::replay;
use crate::replay::Anomalies;
use crate::replay::Ends;
use crate::replay::Index;
use crate::replay::MissingLines;
use crate::replay::Recording;

use super::directory;
use super::directory::Files;
use super::directory::begin;
use super::message;
use super::message::Failure;

/// The recording that is read if none is named.
pub(super) const DEFAULT: &str = "perf.data";

/// The bytes of a recording: a file's, or those of several files of a directory.
#[derive(Debug)]
pub(super) struct Input {
    files: Files,
    /// Its records, where the files have them compressed.
    inflated: Option<File>,
    /// What recorded the kernel's symbols with it, if anything did.
    kallsyms: Option<PathBuf>,
}

impl Input {
    /// What the system says of the file with the header.
    pub(super) fn metadata(&self) -> io::Result<Metadata> {
        self.files.first.metadata()
    }

    /// The bytes as they stand in the file, compressed or not.
    pub(super) fn raw(&self) -> &dyn ReadAt {
        &self.files
    }

    /// Whether the records were compressed, and are read inflated.
    pub(super) fn is_inflated(&self) -> bool {
        self.inflated.is_some()
    }

    /// A copy of `/proc/kallsyms` that was made when it was recorded.
    pub(super) fn kallsyms(&self) -> Option<&Path> {
        self.kallsyms.as_deref()
    }

    /// The files that `recording` consists of.
    pub(super) fn origins(&self, recording: &Recording) -> Vec<Origin> {
        let paths = self.files.paths.iter().map(|it| it.display().to_string());
        let mut origins: Vec<Origin> = match &self.inflated {
            Some(_) => {
                let starts = recording.data.iter().map(|it| it.offset);
                paths.zip(starts).map(|(path, from)| Origin { path, from }).collect()
            }
            None => paths.zip(0..).map(|(path, idx)| Origin { path, from: begin(idx) }).collect(),
        };
        // Of files that are empty once inflated, none has a record.
        origins.dedup_by_key(|it| it.from);
        origins
    }
}

impl ReadAt for Input {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.inflated {
            Some(file) => ReadAt::read_at(file, offset, buffer),
            None => self.files.read_at(offset, buffer),
        }
    }
}

/// Opens the recording at `path`, `-` for stdin: its bytes, and what it says of itself.
///
/// What can be read only once is first copied to a temporary file without a name, since a
/// recording is read twice; so are records that are compressed.
pub(super) fn open(path: &Path) -> Result<(Input, Recording), Failure> {
    let directory = if path.is_dir() { Some(directory::find(path)?) } else { None };
    let header_path = directory.as_ref().map_or(path, |it| &it.header);
    let mut files = Files::new(open_file(header_path)?, header_path);
    let recording = Recording::open(&files.first);
    let mut recording = recording.map_err(|error| cannot_read(header_path, &error))?;
    if let Some(directory) = &directory {
        directory::add(directory, &mut files, &mut recording)?;
    } else if recording.directory_version() == Some(directory::VERSION) {
        message::warn(&format!(
            "`{}` has the header of a recording that is a directory, and not its records; \
             they are read with `-i` and the directory",
            path.display()
        ));
    }
    let is_compressed = recording.is_compressed(&files);
    let inflated = if is_compressed { Some(inflate(path, &files, &mut recording)?) } else { None };
    let kallsyms = directory.and_then(|it| it.kallsyms);
    let file = Input { files, inflated, kallsyms };
    if recording.is_unfinished {
        message::warn(&format!(
            "`{}` was not finished by its recorder: it is read up to its last whole record",
            path.display()
        ));
    }
    if recording.has_unknown_fields {
        message::warn(&format!(
            "the events of `{}` have fields that this version does not know",
            path.display()
        ));
    }
    warn_of_damage(path, &recording);
    Ok((file, recording))
}

/// Tells of the first damaged section and how many more there are: the rest of the file is good.
fn warn_of_damage(path: &Path, recording: &Recording) {
    let mut damaged =
        recording.features.iter().filter_map(|it| Some((it.id, it.content.as_ref().err()?)));
    let Some((id, error)) = damaged.next() else { return };
    let more = match damaged.count() {
        0 => String::new(),
        n => format!(", and {n} more"),
    };
    message::warn(&format!("the header of `{}` lacks {id}: {error}{more}", path.display()));
}

fn open_file(path: &Path) -> Result<File, Failure> {
    let cannot = |error: &io::Error| {
        let failure = Failure::because(format!("cannot open `{}`", path.display()), error);
        match error.kind() {
            io::ErrorKind::NotFound if path == Path::new(DEFAULT) => {
                failure.hint("make a recording first: `bpfperf record -- COMMAND`")
            }
            _ => failure,
        }
    };
    if path == Path::new("-") {
        return spill(&mut io::stdin().lock())
            .and_then(unpacked)
            .map_err(|error| Failure::because("cannot read stdin", &error));
    }
    let mut file = File::open(path).map_err(|error| cannot(&error))?;
    let kind = file.metadata().map_err(|error| cannot(&error))?.file_type();
    if kind.is_fifo() || kind.is_char_device() || kind.is_socket() {
        return spill(&mut file).and_then(unpacked).map_err(|error| cannot(&error));
    }
    unpacked(file).map_err(|error| cannot(&error))
}

/// What `file` holds, unpacked if it was packed by gzip or zstd.
fn unpacked(mut file: File) -> io::Result<File> {
    let mut magic = [0; 4];
    let n = ReadAt::read_at(&file, 0, &mut magic)?;
    match magic.get(..n).unwrap_or_default() {
        [0x1f, 0x8b, ..] => spill(&mut flate2::read::MultiGzDecoder::new(&mut file)),
        [0x28, 0xb5, 0x2f, 0xfd] => spill(&mut zstd::stream::Decoder::new(&mut file)?),
        _ => Ok(file),
    }
}

/// The records of a recording in a temporary file, none of them compressed.
fn inflate(path: &Path, files: &Files, recording: &mut Recording) -> Result<File, Failure> {
    let temporary = tempfile::tempfile();
    let temporary = temporary
        .map_err(|error| Failure::because("cannot make room for inflated records", &error))?;
    let mut out = BufWriter::with_capacity(1 << 18, temporary);
    let inflated = recording.inflate(files, &mut out);
    let n_damaged = inflated.map_err(|error| cannot_read(path, &error))?;
    if n_damaged != 0 {
        message::warn(&format!(
            "{n_damaged} compressed records of `{}` are damaged, or follow one that is, and are left out",
            path.display()
        ));
    }
    let flushed = out.into_inner().map_err(io::IntoInnerError::into_error);
    flushed.map_err(|error| Failure::because("cannot keep inflated records", &error))
}

fn spill(from: &mut dyn io::Read) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    io::copy(from, &mut file)?;
    // What it holds may have to be unpacked from its beginning.
    file.rewind()?;
    Ok(file)
}

/// A recording that is corrupt beyond use.
pub(super) fn cannot_read(path: &Path, error: &replay::Error) -> Failure {
    let failure = Failure::because(format!("cannot read `{}`", path.display()), error);
    match error {
        replay::Error::Decode(perfdata::Error::BadMagic) => {
            failure.hint("a recording is made by `bpfperf record` or `perf record`")
        }
        _ => failure,
    }
}

/// Makes an error of a recording of which nothing can be shown since all is compressed.
pub(super) fn check(path: &Path, index: &Index) -> Result<(), Failure> {
    let n_samples: u64 = index.n_samples.iter().sum();
    if n_samples == 0 && index.anomalies.compressed != 0 {
        let what = format!("cannot read `{}`", path.display());
        return Err(
            Failure::new(what).cause("its records are compressed, and its header does not say how")
        );
    }
    Ok(())
}

/// Tells in one line what went wrong without stopping the command: what the first pass met, and
/// how many call chains could not be read.
pub(super) fn tell(anomalies: &Anomalies, n_bad_chains: u64) {
    let undecodable = anomalies.undecodable + n_bad_chains;
    let anomalies = Anomalies { undecodable, ..anomalies.clone() };
    if !anomalies.is_empty() {
        message::warn(&anomalies.to_string());
    }
}

/// Tells which lines of source, and inlined functions, are missing of those that were asked for.
pub(super) fn tell_missing_lines(missing: &MissingLines) {
    let MissingLines { n_left_out, incomplete } = missing;
    if let Some((first, rest)) = incomplete.split_first() {
        let more = more_files(rest.len());
        message::warn(&format!(
            "lines and inlined functions of `{}`{more} are missing: debug information of it is in files \
             that are not there",
            first.display()
        ));
    }
    if *n_left_out != 0 {
        let parts = if *n_left_out == 1 { "part" } else { "parts" };
        message::warn(&format!(
            "{n_left_out} {parts} of debug information left out, which would cost more time or memory \
             than its length allows: lines and inlined functions are missing there"
        ));
    }
}

/// Tells of files that were written to while they were read.
pub(super) fn tell_changed<'a>(mut changed: impl Iterator<Item = &'a Path>) {
    let Some(first) = changed.next() else { return };
    let more = more_files(changed.count());
    message::warn(&format!(
        "`{}`{more} changed while being read: lines, inlined functions, code and unwound stacks of \
         such a file may be wrong",
        first.display()
    ));
    message::hint("run this again");
}

/// What follows the first file of a list of which `n` are not told one by one.
fn more_files(n: usize) -> String {
    match n {
        0 => String::new(),
        1 => " and one more file".to_owned(),
        n => format!(" and {n} more files"),
    }
}

/// The most bytes of a stack that the kernel copies: `PERF_SAMPLE_STACK_USER` has to fit into a record.
const MAX_COPIED_BYTES: u64 = 65528;

/// Tells of stacks that could not be unwound to their bottom.
pub(super) fn tell_ends(ends: &Ends) {
    let Ends { n_stacks, n_cut, n_32_bit, n_other_machine, copied_bytes } = *ends;
    if n_cut != 0 {
        let more = if copied_bytes < MAX_COPIED_BYTES {
            format!(
                "record with `--call-graph dwarf,SIZE` and a SIZE above {copied_bytes} for longer ones"
            )
        } else {
            "no more of a stack can be recorded".to_owned()
        };
        message::warn(&format!(
            "{n_cut} of {n_stacks} call chains end early, where the copy of their stack does; {more}"
        ));
    }
    if n_32_bit != 0 {
        message::warn(&format!(
            "{n_32_bit} of {n_stacks} call chains are of tasks in 32-bit mode, whose stacks are not \
             unwound"
        ));
    }
    if n_other_machine != 0 {
        message::warn(&format!(
            "{n_other_machine} call chains lack their user part: stacks are unwound of x86-64 and \
             AArch64 alone, and the recording is of another machine or does not say of which"
        ));
    }
}
