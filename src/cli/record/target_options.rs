//! Whom to record.

use std::collections::BTreeSet;

use crate::host::cpus;
use crate::record::Inherit;
use crate::record::Target;
use crate::units::Cpu;
use crate::units::Pid;
use crate::units::Tid;

use super::super::message::Failure;

/// What was typed.
#[derive(Debug, Default, clap::Args)]
pub(super) struct TargetOptions {
    /// Record every task on every CPU.
    #[arg(short = 'a', long, conflicts_with_all = ["pid", "tid"])]
    all_cpus: bool,
    /// Record every task on these CPUs, such as `0,2-3`.
    #[arg(short = 'C', long, value_name = "LIST", conflicts_with_all = ["pid", "tid"])]
    cpu: Option<String>,
    /// Record these processes, and what they start.
    #[arg(short = 'p', long, value_name = "PIDS", value_delimiter = ',')]
    pid: Vec<i32>,
    /// Record these threads.
    #[arg(short = 't', long, value_name = "TIDS", value_delimiter = ',', conflicts_with = "pid")]
    tid: Vec<i32>,
    /// Leave out what the recorded tasks start.
    #[arg(short = 'i', long)]
    no_inherit: bool,
}

impl TargetOptions {
    /// Whom they name; without any, the command if there is one.
    pub(super) fn target(&self, has_command: bool) -> Result<Target, Failure> {
        if let Some(list) = &self.cpu {
            let cpus: Vec<Cpu> =
                cpus::parse_list(list).map_err(|it| Failure::new(it.to_string()))?;
            return Ok(Target::Cpus(cpus));
        }
        let is_number = |it: &&i32| 0 < **it;
        let all = [&self.pid, &self.tid];
        if let Some(bad) = all.iter().copied().flatten().find(|it| !is_number(it)) {
            return Err(Failure::new(format!("`{bad}` is no id of a process or thread")));
        }
        // Whoever is named twice is watched once.
        let distinct = |ids: &[i32]| ids.iter().copied().collect::<BTreeSet<i32>>().into_iter();
        Ok(if !self.pid.is_empty() {
            Target::Processes(distinct(&self.pid).map(Pid).collect())
        } else if !self.tid.is_empty() {
            Target::Threads(distinct(&self.tid).map(Tid).collect())
        } else if self.all_cpus || !has_command {
            Target::AllCpus
        } else {
            Target::Workload
        })
    }

    /// Whether children are recorded.
    pub(super) fn inherit(&self) -> Inherit {
        if self.no_inherit || !self.tid.is_empty() { Inherit::No } else { Inherit::Yes }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: TargetOptions,
        #[arg(trailing_var_arg = true)]
        command: Vec<String>,
    }

    #[track_caller]
    fn parse(line: &str) -> Line {
        let words = std::iter::once("record").chain(line.split_ascii_whitespace());
        Line::try_parse_from(words).unwrap()
    }

    fn target(line: &Line) -> Result<Target, Failure> {
        line.options.target(!line.command.is_empty())
    }

    #[track_caller]
    fn check_target(line: &str, want: &Target, want_command: &[&str]) {
        let args = parse(line);
        assert_eq!(&target(&args).unwrap(), want);
        assert_eq!(args.command, want_command);
    }

    #[test]
    fn a_command_needs_no_dashes_before_it_and_keeps_its_own() {
        check_target("-i -a sleep 1", &Target::AllCpus, &["sleep", "1"]);
        check_target("-i ls -a -l", &Target::Workload, &["ls", "-a", "-l"]);
        check_target("-- ls -- x", &Target::Workload, &["ls", "--", "x"]);
        check_target("-C 1,3-4 true", &Target::Cpus(vec![Cpu(1), Cpu(3), Cpu(4)]), &["true"]);
    }

    #[test]
    fn without_target_and_command_it_is_the_whole_machine() {
        check_target("", &Target::AllCpus, &[]);
        check_target("-p 3,4", &Target::Processes(vec![Pid(3), Pid(4)]), &[]);
        check_target("-t 5 sleep 1", &Target::Threads(vec![Tid(5)]), &["sleep", "1"]);
        assert!(target(&parse("-p 0")).is_err());
    }
}
