//! Arguments, messages, advice, progress, exit codes.
//!
//! Here the two halves of the program meet: what was typed becomes what is meant, files become
//! bytes, errors become sentences. Nothing above knows a flag, a setting or a terminal.

mod advice;
mod annotate;
mod attached;
mod bill;
mod buildid_list;
mod directory;
mod doctor;
mod event_options;
mod evlist;
mod graph_settings;
mod header;
mod here;
mod inject;
mod inlining;
mod input;
mod lacking;
mod list;
mod log;
mod message;
mod names;
mod naming;
mod opposites;
mod record;
mod record_counts;
mod report;
mod report_dump;
mod report_fields;
mod report_habits;
mod report_samples;
mod report_tasks;
mod report_threads;
mod sample_options;
mod script;
mod script_habits;
mod source_files;
mod sources;
mod symbol_options;
mod times;
mod values;

use std::process::ExitCode;

use clap::CommandFactory;
use clap::FromArgMatches;
use clap::Parser;
use clap::Subcommand;

/// A perf-style profiler for Linux whose first language is BPF.
#[derive(Debug, Parser)]
#[command(name = "bpfperf", version, arg_required_else_help = true)]
#[command(infer_long_args = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Record a command, processes, or the whole machine.
    // As with perf, of an option that is given twice the last one counts.
    #[command(args_override_self = true)]
    Record(Box<record::Args>),
    /// Print where the samples of a recording fell.
    Report(Box<report::Args>),
    /// Print the samples of a recording one by one.
    #[command(args_override_self = true)]
    Script(Box<script::Args>),
    /// Print the code of functions with the share of each instruction.
    Annotate(annotate::Args),
    /// Print the events of a recording.
    Evlist(evlist::Args),
    /// Print the build ids of the files of a recording.
    BuildidList(buildid_list::Args),
    /// Write a recording anew: uncompressed, as a file or a stream, with build ids.
    Inject(inject::Args),
    /// List the events that this machine has.
    List(list::Args),
    /// Tell what this machine and this user can record, and what stops the rest.
    ///
    /// The status is 0 if nothing is missing, else 1.
    Doctor(doctor::Args),
}

/// What may be typed.
fn grammar() -> clap::Command {
    let mut grammar = Cli::command()
        .mut_subcommand("record", opposites::with_opposites)
        .mut_subcommand("script", opposites::with_opposites);
    // Else its options do not know yet how many values they take.
    grammar.build();
    grammar
}

/// Runs the command line.
///
/// The status is 0 if all was done, 1 if it could not be, 2 for wrong usage; `record` passes on the
/// status of its command.
pub fn main() -> ExitCode {
    let grammar = grammar();
    let words = attached::spell_out(std::env::args_os(), &grammar);
    let cli = grammar.try_get_matches_from(words).and_then(|it| Cli::from_arg_matches(&it));
    let cli = match cli {
        Ok(cli) => cli,
        Err(error) => return message::usage(&error),
    };
    let done = match cli.command {
        Command::Record(args) => record::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Script(args) => script::run(&args),
        Command::Annotate(args) => annotate::run(&args),
        Command::Evlist(args) => evlist::run(&args),
        Command::BuildidList(args) => buildid_list::run(&args),
        Command::Inject(args) => inject::run(&args),
        Command::List(args) => list::run(&args),
        Command::Doctor(args) => doctor::run(args),
    };
    match done {
        Ok(status) => status,
        Err(failure) => message::fail(&failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_of_each_command_agree_with_each_other() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_of_record_may_be_cut_short_and_the_last_one_counts() {
        let words = ["bpfperf", "record", "-a", "-a", "-F", "99", "--fre", "100", "--call", "fp"];
        let lists = ["-e", "cs", "-e", "faults", "-p", "1", "-p", "2", "true"];
        let cli = Cli::try_parse_from(words.iter().chain(&lists)).unwrap();
        let said = format!("{cli:?}");
        assert!(said.contains(r#"freq: Some("100")"#) && said.contains("pid: [1, 2]"), "{said}");
        assert!(said.contains(r#"[List("cs"), List("faults")]"#), "{said}");
    }
}
