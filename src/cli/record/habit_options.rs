//! Options of perf's that a recording here has no use for: taken, or refused with the reason.

use crate::record::SaveFiles;

use super::super::message::Failure;

/// What was typed.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag on the command line")]
#[derive(Debug, Default, clap::Args)]
pub(super) struct HabitOptions {
    /// Nothing is put into `~/.debug`.
    #[arg(short = 'N', long, hide = true)]
    no_buildid_cache: bool,
    /// Nothing of mapped files is put into the recording; their build ids come with the mappings.
    #[arg(short = 'B', long, hide = true)]
    no_buildid: bool,
    /// Every mapped file has its build id.
    #[arg(long, aliases = ["buildid-mmap", "no-buildid-mmap"], hide = true)]
    buildid_all: bool,
    /// Every sample has its time.
    #[arg(short = 'T', long, hide = true)]
    timestamp: bool,
    /// The header always has the times of the first and the last sample.
    #[arg(long, hide = true)]
    timestamp_boundary: bool,
    /// Writes never hold up the rings for long.
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "", value_name = "N")]
    aio: Option<String>,
    /// The thread that drains the rings goes where there is time.
    #[arg(long, hide = true, value_name = "node|cpu", value_parser = ["node", "cpu", "sys"])]
    affinity: Option<String>,
    /// Rings are drained whole.
    #[arg(long, hide = true, value_name = "BYTES", value_parser = super::values::size)]
    mmap_flush: Option<u64>,
    /// What runs is looked at by one thread.
    #[arg(long, hide = true, value_name = "N")]
    num_thread_synthesize: Option<u32>,
    /// Nobody waits for `/proc`.
    #[arg(long, hide = true, value_name = "MS")]
    proc_map_timeout: Option<u32>,
    /// Files are looked up by those who read a recording.
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "", value_name = "URLS")]
    debuginfod: Option<String>,
    /// Likewise.
    #[arg(long, hide = true, value_name = "FILE")]
    vmlinux: Option<String>,
    #[arg(long, hide = true)]
    kcore: bool,
    #[arg(short = 'S', long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "")]
    snapshot: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "")]
    aux_sample: Option<String>,
    #[arg(long, hide = true, value_name = "pin|unpin")]
    setup_filter: Option<String>,
}

impl HabitOptions {
    /// Whether the recording is to hold what it can of files that nobody could find later.
    pub(super) fn files(&self) -> SaveFiles {
        if self.no_buildid { SaveFiles::No } else { SaveFiles::Yes }
    }

    /// That nothing was asked for that cannot be had.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let aux = "AUX area data is not recorded";
        let refused = [
            (self.kcore, "--kcore", "the kernel's code is not copied"),
            (self.snapshot.is_some(), "--snapshot", aux),
            (self.aux_sample.is_some(), "--aux-sample", aux),
            (
                self.setup_filter.is_some(),
                "--setup-filter",
                "whoever records loads a filter of their own, and none is pinned for others",
            ),
        ];
        match refused.iter().find(|it| it.0) {
            Some((_, option, why)) => {
                Err(Failure::new(format!("`{option}` cannot be had")).cause(*why))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: HabitOptions,
        #[arg(trailing_var_arg = true)]
        command: Vec<String>,
    }

    #[track_caller]
    fn check(line: &str, want: Result<(), &str>) {
        let words = std::iter::once("record").chain(line.split_ascii_whitespace());
        let line = Line::try_parse_from(words).unwrap();
        assert_eq!(line.command, ["ls"]);
        assert_eq!(line.options.check().map_err(|it| it.to_string()), want.map_err(str::to_owned));
    }

    #[test]
    fn what_changes_nothing_here_is_taken() {
        check("-N -B -T --buildid-all --timestamp-boundary ls", Ok(()));
        check("--buildid-mmap --vmlinux x --no-buildid ls", Ok(()));
        check("--aio ls", Ok(()));
        check("--aio=3 --affinity node --mmap-flush 64K --debuginfod ls", Ok(()));
        check("--num-thread-synthesize 2 --proc-map-timeout 100 --debuginfod=x ls", Ok(()));
    }

    #[test]
    fn what_cannot_be_had_is_refused_with_the_reason() {
        let aux = "AUX area data is not recorded";
        check("-S ls", Err(&format!("error: `--snapshot` cannot be had\n  because: {aux}")));
        check(
            "--aux-sample=9 ls",
            Err(&format!("error: `--aux-sample` cannot be had\n  because: {aux}")),
        );
        let why = "error: `--kcore` cannot be had\n  because: the kernel's code is not copied";
        check("--kcore ls", Err(why));
    }
}
