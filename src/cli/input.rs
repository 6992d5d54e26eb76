//! From a path or stdin to bytes that can be read from any place.

use std::fs::File;
use std::fs::Metadata;
use std::io;
use std::io::BufWriter;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use crate::perfdata;
use crate::perfdata::ReadAt;
use crate::replay;
use crate::replay::Anomalies;
use crate::replay::Index;
use crate::replay::Recording;

use super::message;
use super::message::Failure;

/// The recording that is read if none is named.
pub(super) const DEFAULT: &str = "perf.data";

/// The bytes of a recording.
#[derive(Debug)]
pub(super) struct Input {
    file: File,
    /// Its records, where the file has them compressed.
    inflated: Option<File>,
}

impl Input {
    /// What the system says of the file.
    pub(super) fn metadata(&self) -> io::Result<Metadata> {
        self.file.metadata()
    }
}

impl ReadAt for Input {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        ReadAt::read_at(self.inflated.as_ref().unwrap_or(&self.file), offset, buffer)
    }
}

/// Opens the recording at `path`, `-` for stdin: its bytes, and what it says of itself.
///
/// What can be read only once is first copied to a temporary file without a name, since a
/// recording is read twice; so are records that are compressed.
pub(super) fn open(path: &Path) -> Result<(Input, Recording), Failure> {
    let file = open_file(path)?;
    let mut recording = Recording::open(&file).map_err(|error| cannot_read(path, &error))?;
    let is_compressed = recording.is_compressed(&file);
    let inflated = if is_compressed { Some(inflate(path, &file, &mut recording)?) } else { None };
    let file = Input { file, inflated };
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
            .map_err(|error| Failure::because("cannot read stdin", &error));
    }
    let mut file = File::open(path).map_err(|error| cannot(&error))?;
    let kind = file.metadata().map_err(|error| cannot(&error))?.file_type();
    if kind.is_dir() {
        return Err(cannot(&io::Error::from_raw_os_error(libc::EISDIR)));
    }
    if kind.is_fifo() || kind.is_char_device() || kind.is_socket() {
        return spill(&mut file).map_err(|error| cannot(&error));
    }
    Ok(file)
}

/// The records of a recording in a temporary file, none of them compressed.
fn inflate(path: &Path, file: &File, recording: &mut Recording) -> Result<File, Failure> {
    let temporary = tempfile::tempfile();
    let temporary = temporary
        .map_err(|error| Failure::because("cannot make room for inflated records", &error))?;
    let mut out = BufWriter::with_capacity(1 << 18, temporary);
    let inflated = recording.inflate(file, &mut out);
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
