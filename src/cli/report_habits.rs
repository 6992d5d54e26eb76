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
    #[arg(long, hide = true)]
    branch_history: bool,
    #[arg(long, hide = true)]
    mem_mode: bool,
    #[arg(long, hide = true)]
    total_cycles: bool,
    #[arg(long, hide = true)]
    stitch_lbr: bool,
    #[arg(long, hide = true)]
    latency: bool,
    #[arg(long, hide = true, value_name = "LEVELS")]
    parallelism: Option<String>,
    #[arg(long, hide = true)]
    show_ref_call_graph: bool,
    #[arg(long, hide = true, value_name = "EVENT")]
    switch_on: Option<String>,
    #[arg(long, hide = true, value_name = "EVENT")]
    switch_off: Option<String>,
    #[arg(long, hide = true)]
    show_on_off_events: bool,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "", value_name = "OPTIONS")]
    itrace: Option<String>,
}

impl Args {
    /// Refuses what there is not: screens, what hardware notes of branches and memory, and what is not
    /// looked for.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let of_hardware = [
            (self.branch_history, "--branch-history"),
            (self.mem_mode, "--mem-mode"),
            (self.total_cycles, "--total-cycles"),
            (self.stitch_lbr, "--stitch-lbr"),
            (self.itrace.is_some(), "--itrace"),
        ];
        if let Some((_, option)) = of_hardware.iter().find(|(is_asked, _)| *is_asked) {
            return Err(Failure::new(format!("cannot report by `{option}`"))
                .cause(
                    "this version does not read what hardware notes of branches, memory and traces",
                )
                .hint("leave it out: the samples are reported by where they fell"));
        }
        let of_others = [
            (
                self.latency || self.parallelism.is_some(),
                "cannot report by how many tasks ran at once",
                "this version does not look for that",
                "leave `--latency` and `--parallelism` out: rows are by what the CPUs did",
            ),
            (
                self.show_ref_call_graph,
                "cannot show the call graphs of another event",
                "events without call chains have none in this version",
                "record call chains of all events: `record -g`",
            ),
            (
                self.switch_on.is_some() || self.switch_off.is_some(),
                "cannot switch by events in a report",
                "this version counts samples by time",
                "find the times by `script --switch-on EVENT --switch-off EVENT`, and say them: `--time FROM,TO`",
            ),
        ];
        if let Some((_, what, cause, hint)) = of_others.iter().find(|it| it.0) {
            return Err(Failure::new(*what).cause(*cause).hint(*hint));
        }
        let option = match (self.tui, self.gtk) {
            (true, _) => "--tui",
            (_, true) => "--gtk",
            _ => return Ok(()),
        };
        Err(Failure::new(format!("there is no screen for `{option}`"))
            .hint("leave it out, or say `--stdio`: the report is printed"))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[arg(long)]
        stdio: bool,
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn what_there_is_not_is_refused_in_words_and_the_rest_is_taken() {
        let check = |words: &[&str]| {
            let cli = Cli::try_parse_from([&["report"], words].concat()).unwrap();
            assert!(!cli.stdio);
            cli.args.check().map_err(|it| it.to_string())
        };
        assert_eq!(check(&["--skip-empty", "-m", "--samples", "3", "-M", "intel"]), Ok(()));
        for words in [["--tui"], ["--gtk"], ["--mem-mode"], ["--itrace=i"]] {
            assert!(check(&words).unwrap_err().contains("leave it out"), "{words:?}");
        }
        for words in
            [["--latency"], ["--parallelism=1"], ["--switch-on=e"], ["--show-ref-call-graph"]]
        {
            assert!(check(&words).unwrap_err().contains("\nhint: "), "{words:?}");
        }
        assert!(Cli::try_parse_from(["report", "--stdio", "--tui"]).is_err());
    }
}
