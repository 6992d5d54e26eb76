//! `bpfperf doctor`: what this machine and this user can record, and what stops the rest.

mod checks;
mod facts;

use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;

use self::checks::Check;
use self::checks::State;
use self::facts::Facts;
pub(super) use self::facts::cycles;
pub(super) use self::facts::has_pmu;

use crate::render::json;
use crate::render::json::Layout;

use super::message::Failure;
use super::script::stdout;

/// What was typed after `bpfperf doctor`.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct Args {
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// The version of the JSON form: it rises when a member goes or changes its meaning.
const JSON_VERSION: u32 = 1;

/// All that is said as JSON.
#[derive(Serialize)]
struct Report<'a> {
    version: u32,
    is_complete: bool,
    checks: &'a [Check],
}

/// Runs `bpfperf doctor`; the status is 0 if nothing is missing, else 1.
pub(super) fn run(args: Args) -> Result<ExitCode, Failure> {
    let checks = checks::checks(&Facts::gather());
    let is_complete = checks.iter().all(|it| it.state == State::Yes);
    let mut out = stdout()?;
    let written = if args.json {
        let report = Report { version: JSON_VERSION, is_complete, checks: &checks };
        json::write(&report, Layout::Compact, &mut out).and_then(|()| writeln!(out))
    } else {
        write_text(&checks, &mut out)
    };
    let done = written.and_then(|()| out.flush());
    done.map_err(|error| Failure::because("cannot write the report", &error))?;
    Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn write_text(checks: &[Check], out: &mut dyn Write) -> std::io::Result<()> {
    let mut area = "";
    for check in checks {
        if check.area != area {
            let gap = if area.is_empty() { "" } else { "\n" };
            area = check.area;
            writeln!(out, "{gap}{area}")?;
        }
        let state = match check.state {
            State::Yes => "yes ",
            State::Partly => "part",
            State::No => "no  ",
        };
        write!(out, "  {state}  {}", check.what)?;
        if let Some(because) = &check.because {
            write!(out, ": {because}")?;
        }
        writeln!(out)?;
        if let Some(remedy) = &check.remedy {
            writeln!(out, "        {remedy}")?;
        }
    }
    Ok(())
}
