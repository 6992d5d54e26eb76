//! Whom to record.

use std::collections::BTreeSet;

use crate::host::cpus;
use crate::record::Inherit;
use crate::record::RingPer;
use crate::record::Target;
use crate::units::Pid;
use crate::units::Tid;
use crate::units::UserId;

use super::super::message::Failure;

/// What was typed.
#[derive(Debug, Default, clap::Args)]
pub(super) struct TargetOptions {
    /// Record every task on every CPU.
    #[arg(short = 'a', long)]
    all_cpus: bool,
    /// Record every task on these CPUs, such as `0,2-3`.
    #[arg(short = 'C', long, value_name = "LIST")]
    cpu: Option<String>,
    /// Record these processes, and what they start.
    #[arg(short = 'p', long, value_name = "PIDS", value_delimiter = ',')]
    pid: Vec<i32>,
    /// Record these threads.
    #[arg(short = 't', long, value_name = "TIDS", value_delimiter = ',')]
    tid: Vec<i32>,
    /// Record what this user's threads do, wherever they run.
    ///
    /// By a filter of all samples, where that is allowed. Of tracepoints, and without privileges, it is
    /// the threads that the user has when the recording begins, and what they start.
    #[arg(short = 'u', long, value_name = "UID|NAME", value_parser = user)]
    uid: Option<UserId>,
    /// Give each thread a ring of its own, wherever it runs; what it starts is left out.
    #[arg(long)]
    per_thread: bool,
    /// Leave out what the recorded tasks start.
    #[arg(short = 'i', long)]
    no_inherit: bool,
}

impl TargetOptions {
    /// Whom they name; without any, the command if there is one.
    ///
    /// Of options that exclude each other the same one wins as with perf; the others go into
    /// `overridden`, in words.
    pub(super) fn target(
        &self,
        has_command: bool,
        overridden: &mut Vec<String>,
    ) -> Result<Target, Failure> {
        let winners = [
            (!self.pid.is_empty(), "`-p`"),
            (!self.tid.is_empty(), "`-t`"),
            (self.uid.is_some(), "`-u`"),
            (self.cpu.is_some(), "`-C`"),
            (self.all_cpus, "`-a`"),
        ];
        let mut named = winners.iter().filter(|it| it.0).map(|it| it.1);
        if let Some(winner) = named.next() {
            // Everyone on some CPUs is what both ask for.
            let losers = named.filter(|it| (winner, *it) != ("`-C`", "`-a`"));
            overridden.extend(losers.map(|it| format!("{winner} overrides {it}")));
        }
        let is_number = |it: &&i32| 0 < **it;
        let all = [&self.pid, &self.tid];
        if let Some(bad) = all.iter().copied().flatten().find(|it| !is_number(it)) {
            return Err(Failure::new(format!("`{bad}` is no id of a process or thread")));
        }
        // Whoever is named twice is watched once.
        let distinct = |ids: &[i32]| ids.iter().copied().collect::<BTreeSet<i32>>().into_iter();
        let target = if !self.pid.is_empty() {
            Target::Processes(distinct(&self.pid).map(Pid).collect())
        } else if !self.tid.is_empty() {
            Target::Threads(distinct(&self.tid).map(Tid).collect())
        } else if let Some(user) = self.uid {
            Target::User(user)
        } else if let Some(list) = &self.cpu {
            let cpus = cpus::parse_list(list);
            Target::Cpus(cpus.map_err(|it| Failure::new(it.to_string()))?)
        } else if self.all_cpus || !has_command {
            Target::AllCpus
        } else {
            Target::Workload
        };
        if self.per_thread && target.is_cpus() {
            overridden.push("recording CPUs overrides `--per-thread`".to_owned());
        }
        Ok(target)
    }

    /// Whether nothing is said of rings and children, which CPUs have no use for.
    pub(super) fn is_plain(&self) -> bool {
        !self.per_thread && !self.no_inherit
    }

    /// What has a ring of its own.
    pub(super) fn ring_per(&self, target: &Target) -> RingPer {
        if self.per_thread && !target.is_cpus() { RingPer::Thread } else { RingPer::Cpu }
    }

    /// Whether children are recorded.
    pub(super) fn inherit(&self, target: &Target) -> Inherit {
        let has_none = matches!(target, Target::Threads(_))
            || self.ring_per(target) == RingPer::Thread
            || self.no_inherit;
        if has_none { Inherit::No } else { Inherit::Yes }
    }
}

/// A user by name or number.
fn user(text: &str) -> Result<UserId, String> {
    let by_name = nix::unistd::User::from_name(text).ok().flatten();
    let by_name = by_name.map(|it| UserId(it.uid.as_raw()));
    // -1 is nobody's: the kernel takes it for "leave as it is".
    let by_number = || text.parse().ok().filter(|it| *it != u32::MAX).map(UserId);
    by_name.or_else(by_number).ok_or_else(|| format!("`{text}` is no user of this machine"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::units::Cpu;

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
        line.options.target(!line.command.is_empty(), &mut Vec::new())
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

    #[track_caller]
    fn check_overridden(line: &str, want: &Target, want_told: &[&str]) {
        let (line, mut told) = (parse(line), Vec::new());
        let target = line.options.target(!line.command.is_empty(), &mut told).unwrap();
        assert_eq!((&target, told), (want, want_told.iter().map(|&it| it.to_owned()).collect()));
    }

    #[test]
    fn of_targets_that_exclude_each_other_perfs_choice_is_taken_and_told() {
        let process = Target::Processes(vec![Pid(3)]);
        check_overridden("-p 3 -a", &process, &["`-p` overrides `-a`"]);
        check_overridden("-p 3 -t 4", &process, &["`-p` overrides `-t`"]);
        check_overridden("-u 7 -C 1", &Target::User(UserId(7)), &["`-u` overrides `-C`"]);
        check_overridden("-a -C 1", &Target::Cpus(vec![Cpu(1)]), &[]);
        let told = ["recording CPUs overrides `--per-thread`"];
        check_overridden("--per-thread -a true", &Target::AllCpus, &told);
        check_overridden("--per-thread true", &Target::Workload, &[]);
    }

    #[test]
    fn a_user_has_a_name_or_a_number() {
        check_target("-u root", &Target::User(UserId(0)), &[]);
        check_target("--uid 12345 true", &Target::User(UserId(12_345)), &["true"]);
        for text in ["no such user", "", "-1", "4294967295", "4294967296"] {
            assert!(user(text).is_err(), "{text}");
        }
    }

    #[test]
    fn threads_and_rings_of_their_own_have_no_children() {
        let inherit = |line: &str| {
            let line = parse(line);
            line.options.inherit(&target(&line).unwrap())
        };
        assert_eq!(inherit("-p 3"), Inherit::Yes);
        assert_eq!(inherit("-u 3"), Inherit::Yes);
        assert_eq!(inherit("-t 3"), Inherit::No);
        assert_eq!(inherit("-i -p 3"), Inherit::No);
        assert_eq!(inherit("--per-thread -p 3"), Inherit::No);
        assert_eq!(inherit("--per-thread -a"), Inherit::Yes);
    }
}
