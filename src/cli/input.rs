//! From a path or stdin to bytes that can be read from any place.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use crate::perfdata;
use crate::replay;
use crate::replay::Anomalies;
use crate::replay::Index;
use crate::replay::Recording;

use super::message;
use super::message::Failure;

/// The recording that is read if none is named.
pub(super) const DEFAULT: &str = "perf.data";

/// Opens the recording at `path`, `-` for stdin: its bytes, and what it says of itself.
///
/// What can be read only once is first copied to a temporary file without a name, since a
/// recording is read twice.
pub(super) fn open(path: &Path) -> Result<(File, Recording), Failure> {
    let file = open_file(path)?;
    let recording = Recording::open(&file).map_err(|error| cannot_read(path, &error))?;
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
        return Err(Failure::new(what)
            .cause("its records are compressed, which this version does not read")
            .hint("record without `-z`"));
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
