//! `--header`, `--header-only` and `-I`, as `report` and `script` take them.

use std::io;
use std::io::Write;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use crate::perfdata::FileHeader;
use crate::render::header;
use crate::render::header::Detail;
use crate::render::header::Form;
use crate::render::header::Header;
use crate::replay::Index;
use crate::replay::Programs;
use crate::replay::Recording;
use crate::replay::Wanted;
use crate::sys::clock::local_time;

use super::input::Input;

/// What can be asked of a header.
#[derive(Clone, Copy, Debug, clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// Print the recording's header too.
    #[arg(long)]
    header: bool,
    /// Print the recording's header alone.
    #[arg(long)]
    header_only: bool,
    /// Print the long parts of the header, such as CPUs and caches, in full.
    #[arg(short = 'I', long)]
    show_info: bool,
}

/// What is left to do once the header has been dealt with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// The command's own work.
    Work,
    /// Nothing.
    Stop,
}

impl Args {
    /// Whether the header is asked for, alone or not.
    pub(super) fn is_asked(self) -> bool {
        self.header || self.header_only
    }

    /// Writes the header of `recording`, which is in `file`, if it was asked for.
    pub(super) fn write(
        self,
        file: &Input,
        recording: &Recording,
        out: &mut dyn Write,
    ) -> io::Result<Then> {
        let Self { header, header_only, show_info } = self;
        if !header && !header_only {
            return Ok(Then::Work);
        }
        let detail = if show_info { Detail::Full } else { Detail::Short };
        let form = match recording.header {
            FileHeader::File { data, features, .. } => Form::File { data, features },
            FileHeader::Pipe { .. } => Form::Pipe,
        };
        let header = Header {
            captured: local_time(seconds(file.metadata()?.modified()?)),
            endian: recording.header.endian(),
            form,
            features: &recording.features,
            local_time,
        };
        header::write(&header, detail, out)?;
        if show_info {
            write_programs(file, recording, out)?;
        }
        out.flush()?;
        Ok(if header_only { Then::Stop } else { Then::Work })
    }
}

/// Writes what records tell of programs, for which they have to be gone over.
fn write_programs(file: &Input, recording: &Recording, out: &mut dyn Write) -> io::Result<()> {
    // What is wrong with the records is told by whoever reads them for their own sake.
    match Index::new(recording, file, &Wanted::default()) {
        Ok(index) => {
            header::write_programs(&Programs::new(recording, &index), out)?;
            header::write_objects(index.bpf.messages(), out)
        }
        Err(error) => writeln!(out, "# records damaged: {error}"),
    }
}

/// Whole seconds since 1970, negative before.
fn seconds(time: SystemTime) -> i64 {
    let seconds = |it: std::time::Duration| i64::try_from(it.as_secs()).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => seconds(after),
        Err(before) => -seconds(before.duration()),
    }
}
