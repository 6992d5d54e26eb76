//! Where a recording goes.

use std::io;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::path::Path;
use std::path::PathBuf;

use crate::record;
use crate::record::Output;

use super::super::message::Failure;

/// Where a recording goes where nothing is said.
const USUAL_FILE: &str = "perf.data";

/// Whether the time of the start is part of a file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stamp {
    Yes,
    No,
}

/// Where to write by the name of a file, if one was given.
pub(super) fn output(file: Option<&Path>, has_stamp: Stamp) -> Result<Output, Failure> {
    let output = named(file)?;
    Ok(match output {
        Output::File(path) if has_stamp == Stamp::Yes => Output::File(record::stamped(&path)),
        output => output,
    })
}

fn named(file: Option<&Path>) -> Result<Output, Failure> {
    match file {
        Some(path) if path == Path::new("-") => {
            if io::stdout().is_terminal() {
                let failure = Failure::new("a recording is no text for a terminal");
                return Err(failure.hint("pipe it into a reader, as `bpfperf script -i -`"));
            }
            Ok(Output::Stdout)
        }
        Some(path) => Ok(Output::File(path.to_owned())),
        None if stdout_is_pipe() => Ok(Output::Stdout),
        None => Ok(Output::File(PathBuf::from(USUAL_FILE))),
    }
}

/// Whether somebody reads stdout through a pipe, in which case perf writes there.
fn stdout_is_pipe() -> bool {
    use nix::sys::stat::SFlag;
    use nix::sys::stat::fstat;

    let mode = fstat(io::stdout().as_fd()).map_or(0, |it| it.st_mode);
    SFlag::from_bits_truncate(mode) & SFlag::S_IFMT == SFlag::S_IFIFO
}
