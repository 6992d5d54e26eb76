//! `bpfperf evlist`: the events of a recording.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::render::evlist;
use crate::render::evlist::Attribute;
use crate::render::evlist::Details;
use crate::render::evlist::Groups;
use crate::render::evlist::TraceFields;

use super::input;
use super::message::Failure;
use super::script::stdout;

/// What was typed after `bpfperf evlist`.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag on the command line")]
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    /// Read this recording; `-` for standard input.
    #[arg(short, long, value_name = "FILE", default_value = input::DEFAULT)]
    input: PathBuf,
    /// Show how often each event was sampled.
    #[arg(short = 'F', long)]
    freq: bool,
    /// Show all fields of each event's attribute.
    #[arg(short, long)]
    verbose: bool,
    /// Show the events of a group together.
    #[arg(short, long, conflicts_with_all = ["verbose", "freq"])]
    group: bool,
    /// Show what samples of tracepoints note.
    #[arg(long)]
    trace_fields: bool,
    /// Taken for the habit of it: who owns the file does not matter.
    #[arg(short, long)]
    force: bool,
}

/// Runs `bpfperf evlist`.
pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let (_, recording) = input::open(&args.input)?;
    let details = Details {
        attribute: match (args.verbose, args.freq) {
            (true, _) => Attribute::Full,
            (false, true) => Attribute::Frequency,
            (false, false) => Attribute::None,
        },
        groups: if args.group { Groups::Together } else { Groups::Apart },
        trace_fields: if args.trace_fields { TraceFields::Shown } else { TraceFields::Hidden },
    };
    let mut out = stdout()?;
    evlist::write(&recording, details, &mut out)
        .and_then(|()| out.flush())
        .map_err(|error| Failure::because("cannot print the events", &error))?;
    Ok(ExitCode::SUCCESS)
}
