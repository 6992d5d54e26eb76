//! Whether time off the CPU is recorded.

use std::time::Duration;

/// What was typed.
#[derive(Debug, Default, clap::Args)]
pub(super) struct OffCpuOptions {
    /// Record how long tasks are off the CPU, where they stopped, and who woke them, as samples of the event
    /// `offcpu-time`, by a BPF program.
    #[arg(long, conflicts_with = "overwrite")]
    off_cpu: bool,
    /// With `--off-cpu`, give each time off the CPU from so many milliseconds on a sample of its own;
    /// what is shorter is summed [default: 500]
    #[arg(long, value_name = "MS")]
    off_cpu_thresh: Option<u64>,
}

/// From when on a sleep has a sample of its own, as with perf.
const THRESHOLD: Duration = Duration::from_millis(500);

impl OffCpuOptions {
    /// From which length on a time off the CPU has a sample of its own; `None` where it is not
    /// recorded. What is of no effect goes into `ignored`, in words.
    pub(super) fn threshold(&self, ignored: &mut Vec<String>) -> Option<Duration> {
        if !self.off_cpu && self.off_cpu_thresh.is_some() {
            ignored.push("`--off-cpu-thresh` is ignored without `--off-cpu`".to_owned());
        }
        let threshold = self.off_cpu_thresh.map_or(THRESHOLD, Duration::from_millis);
        self.off_cpu.then_some(threshold)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: OffCpuOptions,
        #[arg(long)]
        overwrite: bool,
    }

    #[track_caller]
    fn check(line: &str, want: Option<Duration>, n_ignored: usize) {
        let words = std::iter::once("record").chain(line.split_ascii_whitespace());
        let mut ignored = Vec::new();
        let options = Line::try_parse_from(words).unwrap().options;
        assert_eq!((options.threshold(&mut ignored), ignored.len()), (want, n_ignored), "{line}");
    }

    #[test]
    fn a_threshold_is_half_a_second_unless_it_is_said() {
        check("", None, 0);
        check("--off-cpu", Some(Duration::from_millis(500)), 0);
        check("--off-cpu --off-cpu-thresh 0", Some(Duration::ZERO), 0);
        check("--off-cpu-thresh 5", None, 1);
        assert!(Line::try_parse_from(["record", "--off-cpu", "--off-cpu-thresh", "-1"]).is_err());
        assert!(Line::try_parse_from(["record", "--off-cpu", "--overwrite"]).is_err());
    }
}
