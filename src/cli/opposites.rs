//! `--no-NAME` for each flag `--NAME`, and `--NAME` for each `--no-NAME`, as perf has them.

use clap::Arg;
use clap::ArgAction;
use clap::Command;

/// What every sample has, whoever says no to it.
const ALWAYS: [&str; 2] = ["timestamp", "period"];

/// `command` with an opposite, which help does not show, of each long flag that has none. Of a flag
/// and its opposite the last one counts.
///
/// Source: `OPTION_UNSET` in `tools/lib/subcmd/parse-options.c`.
pub(super) fn with_opposites(command: Command) -> Command {
    let known: Vec<String> = command
        .get_arguments()
        .flat_map(|it| it.get_long_and_visible_aliases().into_iter().flatten())
        .chain(command.get_arguments().filter_map(Arg::get_all_aliases).flatten())
        .map(str::to_owned)
        .collect();
    let is_flag = |it: &&Arg| matches!(it.get_action(), ArgAction::SetTrue);
    let opposite = |flag: &Arg| {
        let name = flag.get_long()?;
        let opposite = name.strip_prefix("no-").map_or_else(|| format!("no-{name}"), str::to_owned);
        let is_new = !known.contains(&opposite) && !ALWAYS.contains(&name);
        is_new.then(|| {
            Arg::new(format!("opposite-of-{name}"))
                .long(opposite)
                .hide(true)
                .action(ArgAction::SetTrue)
                .overrides_with(flag.get_id().clone())
        })
    };
    let opposites: Vec<Arg> =
        command.get_arguments().filter(is_flag).filter_map(opposite).collect();
    command.args(opposites)
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;

    use super::super::Cli;
    use super::super::grammar;

    #[track_caller]
    fn said(line: &str) -> String {
        let matches = grammar().try_get_matches_from(line.split(' ')).unwrap();
        format!("{:?}", Cli::from_arg_matches(&matches).unwrap())
    }

    #[test]
    fn of_a_flag_and_its_opposite_the_last_one_counts() {
        assert!(said("bpfperf record -a ls").contains("all_cpus: true"));
        assert!(said("bpfperf record -a --no-all-cpus ls").contains("all_cpus: false"));
        assert!(said("bpfperf record --no-all-cpus -a ls").contains("all_cpus: true"));
        assert!(said("bpfperf record -i --inherit ls").contains("no_inherit: false"));
        assert!(said("bpfperf record --buildid --bpf-event ls").contains("no_bpf_event: false"));
        assert!(said("bpfperf record --no-inherit ls").contains("no_inherit: true"));
    }

    #[test]
    fn the_grammar_agrees_with_itself() {
        grammar().debug_assert();
    }
}
