//! Options of `perf script` that make no difference here, taken for the habit of them, and those for
//! which there is nothing.

use std::path::Path;
use std::path::PathBuf;

use super::message::Failure;

/// What was typed of them.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag on the command line")]
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// All of the recording is read.
    #[arg(short, long, hide = true)]
    all_cpus: bool,
    /// Call chains that came in parts are joined.
    #[arg(long, hide = true)]
    merge_callchains: bool,
    /// Traces of the hardware are not decoded.
    #[arg(long, hide = true, value_name = "OPTIONS", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    itrace: Option<String>,
    /// Likewise.
    #[arg(long, hide = true)]
    no_itrace: bool,
    /// The kernel has no path.
    #[arg(long, hide = true)]
    show_kernel_path: bool,
    /// Lines of source are found without another program.
    #[arg(long, hide = true, value_name = "PATH")]
    addr2line: Option<PathBuf>,
    /// Stacks are unwound without another library.
    #[arg(long, hide = true, value_name = "STYLE")]
    unwind_style: Option<String>,
    #[arg(short, long, hide = true)]
    debug_mode: bool,
    #[arg(short, long, hide = true, value_name = "LANGUAGE")]
    gen_script: Option<String>,
    #[arg(short, long, hide = true, value_name = "NAME")]
    script: Option<String>,
    #[arg(short, long, hide = true)]
    list: bool,
    #[arg(long, hide = true, value_name = "FILE")]
    dlfilter: Option<PathBuf>,
    #[arg(long, hide = true, value_name = "ARGUMENT")]
    dlarg: Vec<String>,
    #[arg(long, hide = true)]
    list_dlfilters: bool,
    #[arg(long, hide = true, value_name = "OPTIONS", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    call_trace: Option<String>,
    #[arg(long, hide = true, value_name = "OPTIONS", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    call_ret_trace: Option<String>,
    #[arg(long, hide = true, value_name = "FORM", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    insn_trace: Option<String>,
    #[arg(long, hide = true, value_name = "OPTIONS", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    xed: Option<String>,
    #[arg(long, hide = true, value_name = "LIST")]
    graph_function: Option<String>,
    #[arg(long, hide = true)]
    stitch_lbr: bool,
    #[arg(long, hide = true)]
    guest_code: bool,
    #[arg(long, hide = true, value_name = "FILE")]
    guestkallsyms: Option<PathBuf>,
    #[arg(long, hide = true, value_name = "FILE")]
    guestmodules: Option<PathBuf>,
    #[arg(long, hide = true, value_name = "DIR")]
    guestmount: Option<PathBuf>,
    #[arg(long, hide = true, value_name = "FILE")]
    guestvmlinux: Option<PathBuf>,
    /// A script for perf, and what it takes.
    #[arg(hide = true, trailing_var_arg = true)]
    words: Vec<String>,
}

impl Args {
    /// Refuses what there is not, each with what there is instead.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.check_words()?;
        let scripts = [
            (self.script.is_some(), "--script"),
            (self.gen_script.is_some(), "--gen-script"),
            (self.list, "--list"),
        ];
        let filters = [
            (self.dlfilter.is_some(), "--dlfilter"),
            (!self.dlarg.is_empty(), "--dlarg"),
            (self.list_dlfilters, "--list-dlfilters"),
        ];
        let traces = [
            (self.call_trace.is_some(), "--call-trace"),
            (self.call_ret_trace.is_some(), "--call-ret-trace"),
            (self.insn_trace.is_some(), "--insn-trace"),
            (self.graph_function.is_some(), "--graph-function"),
            (self.stitch_lbr, "--stitch-lbr"),
        ];
        let guests = [
            (self.guest_code, "--guest-code"),
            (self.guestkallsyms.is_some(), "--guestkallsyms"),
            (self.guestmodules.is_some(), "--guestmodules"),
            (self.guestmount.is_some(), "--guestmount"),
            (self.guestvmlinux.is_some(), "--guestvmlinux"),
        ];
        let refused: [(Asked<'_>, &str, &str); 6] = [
            (&scripts, NO_SCRIPTS, READ_JSON),
            (
                &filters,
                "the code of shared objects is not run on samples",
                "choose samples by `-c`, `--pid`, `-C`, `--time`, `--dsos` and `-S`, or filter the \
                 lines of `--json`",
            ),
            (
                &traces,
                "this version does not read what hardware notes of branches and traces",
                "leave it out: the other samples are printed; `-F +brstackdisasm` shows the code \
                 between recorded branches",
            ),
            (
                &[(self.xed.is_some(), "--xed")],
                "instructions are put into words without another program",
                "say `-F +disasm`",
            ),
            (
                &guests,
                "samples of guests are not named in this version",
                "leave it out: the samples of the host are printed, those of guests are counted",
            ),
            (
                &[(self.debug_mode, "--debug-mode")],
                "what it would check is always told: records that were lost or came late",
                "see `bpfperf report --stats` for the counts",
            ),
        ];
        for (options, why, hint) in refused {
            if let Some((_, option)) = options.iter().find(|(is_asked, _)| *is_asked) {
                let failure = Failure::new(format!("`{option}` cannot be had"));
                return Err(failure.cause(why).hint(hint));
            }
        }
        Ok(())
    }

    /// Refuses scripts, and recordings without `-i`.
    fn check_words(&self) -> Result<(), Failure> {
        let Some(word) = self.words.first() else { return Ok(()) };
        if Path::new(word).exists() {
            return Err(Failure::new(format!("`{word}` is no option"))
                .of_usage()
                .hint(format!("to read that recording, say `-i {word}`")));
        }
        let name = match (word.as_str(), self.words.get(1)) {
            ("record" | "report", Some(name)) => name,
            _ => word,
        };
        Err(Failure::new(format!("cannot run the script `{name}`"))
            .cause(NO_SCRIPTS)
            .hint(READ_JSON))
    }
}

/// Options of one kind, and whether each was typed.
type Asked<'a> = &'a [(bool, &'a str)];

/// Why there are no scripts.
const NO_SCRIPTS: &str = "scripts are not run in this program";

/// What there is instead of scripts.
const READ_JSON: &str = "`bpfperf script --json` prints an object a line, for programs in any \
                         language";

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn said(line: &str) -> Result<(), String> {
        let words = std::iter::once("script").chain(line.split_ascii_whitespace());
        Cli::try_parse_from(words).unwrap().args.check().map_err(|it| it.to_string())
    }

    #[track_caller]
    fn check_refused(line: &str, what: &str, hint: &str) {
        let said = said(line).unwrap_err();
        assert!(said.starts_with(&format!("error: {what}\n")), "{said}");
        assert!(said.contains(hint), "{said}");
    }

    #[test]
    fn what_changes_nothing_is_taken() {
        assert_eq!(said("-a --merge-callchains --itrace=i1us --show-kernel-path"), Ok(()));
        assert_eq!(said("--addr2line /bin/addr2line --unwind-style libdw --no-itrace"), Ok(()));
    }

    #[test]
    fn what_there_is_not_is_refused_with_what_there_is_instead() {
        check_refused("-s flamegraph", "`--script` cannot be had", "--json");
        check_refused("-g python", "`--gen-script` cannot be had", "--json");
        check_refused("-l", "`--list` cannot be had", "--json");
        check_refused("--dlfilter x.so --dlarg 1", "`--dlfilter` cannot be had", "--dsos");
        check_refused("--call-trace", "`--call-trace` cannot be had", "leave it out");
        check_refused("--insn-trace=raw", "`--insn-trace` cannot be had", "leave it out");
        check_refused("--xed", "`--xed` cannot be had", "-F +disasm");
        check_refused("--guestmount /g", "`--guestmount` cannot be had", "leave it out");
        check_refused("-d", "`--debug-mode` cannot be had", "report --stats");
    }

    #[test]
    fn scripts_are_told_from_recordings() {
        check_refused("report flamegraph -h", "cannot run the script `flamegraph`", "--json");
        check_refused("iostat", "cannot run the script `iostat`", "--json");
        check_refused("/dev/null", "`/dev/null` is no option", "say `-i /dev/null`");
    }
}
