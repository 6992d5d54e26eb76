//! Values that stand right behind a short option, as in `-z5` and `-Iax`.
//!
//! Where an option needs no value, what follows it is another option, or the command: `-z ls`. So
//! the value needs an equals sign, which is put here where perf does without.

use std::ffi::OsString;

use clap::Arg;
use clap::Command;

/// The command line with `=` before each attached value of an option that can do without one.
///
/// What stands behind `--`, and a command that is to be run, is left as it is.
pub(super) fn spell_out(words: impl IntoIterator<Item = OsString>, cli: &Command) -> Vec<OsString> {
    let mut words = words.into_iter();
    let mut spelled: Vec<OsString> = words.by_ref().take(2).collect();
    let name = spelled.get(1).and_then(|it| it.to_str());
    let Some(command) = name.and_then(|it| cli.find_subcommand(it)) else {
        spelled.extend(words);
        return spelled;
    };
    let runs_another = command.get_positionals().any(Arg::is_trailing_var_arg_set);
    while let Some(word) = words.next() {
        let text = word.to_str().unwrap_or_default();
        let is_option = text.len() > 1 && text.starts_with('-');
        if text == "--" || !is_option && runs_another {
            spelled.push(word);
            break;
        }
        let takes_next = match text.strip_prefix("--") {
            Some(long) => {
                let arg = command.get_arguments().find(|it| it.get_long() == Some(long));
                let takes_next = arg.is_some_and(|it| takes(it) == Takes::Needed);
                spelled.push(word);
                takes_next
            }
            None if is_option => {
                let (text, takes_next) = spell_out_letters(text, command);
                spelled.push(text.into());
                takes_next
            }
            None => {
                spelled.push(word);
                false
            }
        };
        if takes_next {
            spelled.extend(words.next());
        }
    }
    spelled.extend(words);
    spelled
}

/// Options of one letter behind one dash, and whether the last one's value is the next word.
fn spell_out_letters(text: &str, command: &Command) -> (String, bool) {
    for (at, letter) in text.char_indices().skip(1) {
        let arg = command.get_arguments().find(|it| it.get_short() == Some(letter));
        let behind = at + letter.len_utf8();
        let rest = text.get(behind..).unwrap_or_default();
        match arg.map_or(Takes::Nothing, takes) {
            Takes::Nothing => {}
            Takes::Needed => return (text.to_owned(), rest.is_empty()),
            Takes::Optional if rest.is_empty() || rest.starts_with('=') => {
                return (text.to_owned(), false);
            }
            Takes::Optional => {
                return (format!("{}={rest}", text.get(..behind).unwrap_or_default()), false);
            }
        }
    }
    (text.to_owned(), false)
}

/// Whether an option has a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    Nothing,
    Optional,
    Needed,
}

fn takes(arg: &Arg) -> Takes {
    if !arg.get_action().takes_values() {
        return Takes::Nothing;
    }
    match arg.get_num_args() {
        Some(n) if n.max_values() == 0 => Takes::Nothing,
        Some(n) if n.min_values() == 0 => Takes::Optional,
        _ => Takes::Needed,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::super::Cli;
    use super::*;

    #[track_caller]
    fn check(line: &str, want: &str) {
        let words = line.split(' ').map(OsString::from);
        let mut cli = Cli::command();
        cli.build();
        let spelled = spell_out(words, &cli);
        assert_eq!(spelled.join(" ".as_ref()), want);
    }

    #[test]
    fn an_attached_value_gets_its_equals_sign() {
        check("bpfperf record -z5 -Iax,bx ls", "bpfperf record -z=5 -I=ax,bx ls");
        check("bpfperf record -agz5 -I? ls", "bpfperf record -agz=5 -I=? ls");
        check("bpfperf record -z=5 -z -I ls -z5", "bpfperf record -z=5 -z -I ls -z5");
    }

    #[test]
    fn other_options_and_commands_stay_as_they_are() {
        for line in [
            "bpfperf record -F99 -p1,2 -jany,u -m16 -ofile ls -Iax",
            "bpfperf record -o -z5 --output -z5 -e -z5 true",
            "bpfperf record -- -z5",
            "bpfperf record ls",
            "bpfperf",
            "bpfperf nosuch -z5",
        ] {
            check(line, line);
        }
    }
}
