//! Options of `perf report` that make no difference here, taken for the habit of them, and those for
//! which there is nothing.

use std::path::PathBuf;

use super::message::Failure;

/// Options without effect.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag on the command line")]
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub(super) struct Args {
    #[arg(long, hide = true, conflicts_with = "stdio")]
    tui: bool,
    #[arg(long, hide = true, conflicts_with_all = ["stdio", "tui"])]
    gtk: bool,
    #[arg(long, hide = true, value_name = "MODE")]
    stdio_color: Option<String>,
    #[arg(long, hide = true)]
    ignore_vmlinux: bool,
    #[arg(short, long, hide = true)]
    modules: bool,
    #[arg(long, hide = true)]
    skip_empty: bool,
    #[arg(long, hide = true)]
    disable_order: bool,
    #[arg(long, hide = true, value_name = "PATH")]
    addr2line: Option<PathBuf>,
    #[arg(long, hide = true, value_name = "STYLE")]
    addr2line_style: Option<String>,
    #[arg(long, hide = true, value_name = "STYLE")]
    unwind_style: Option<String>,
    #[arg(long, hide = true, value_name = "PATH")]
    objdump: Option<PathBuf>,
    #[arg(short = 'M', long, hide = true, value_name = "STYLE")]
    disassembler_style: Option<String>,
    #[arg(long, hide = true)]
    source: bool,
    #[arg(long, hide = true)]
    asm_raw: bool,
    #[arg(long, hide = true, value_name = "PREFIX")]
    prefix: Option<String>,
    #[arg(long, hide = true, value_name = "N")]
    prefix_strip: Option<u32>,
    #[arg(long, hide = true, value_name = "TYPE")]
    percent_type: Option<String>,
    #[arg(long, hide = true, value_name = "N")]
    samples: Option<u64>,
}

impl Args {
    /// Refuses what there is not: screens.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let option = match (self.tui, self.gtk) {
            (true, _) => "--tui",
            (_, true) => "--gtk",
            _ => return Ok(()),
        };
        Err(Failure::new(format!("there is no screen for `{option}`"))
            .hint("leave it out, or say `--stdio`: the report is printed"))
    }
}
