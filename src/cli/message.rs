//! What is said on stderr, and with which status that ends.

use std::error::Error;
use std::fmt;
use std::io;
use std::io::Write;
use std::process::ExitCode;

use nix::errno::Errno;

use crate::units::is_unfit;

/// Why a command could not do its work: one sentence, its cause, and what would help.
#[derive(Debug)]
pub(super) struct Failure {
    what: String,
    because: Option<String>,
    hint: Option<String>,
    /// A reader of stdout went away: nobody is there to be told.
    is_silent: bool,
    /// What was typed is at fault, not what was met.
    is_misuse: bool,
}

impl Failure {
    /// `what` could not be done.
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), because: None, hint: None, is_silent: false, is_misuse: false }
    }

    /// `what` could not be done because of `cause`.
    ///
    /// A broken pipe anywhere among the causes is no failure: whoever reads has what it wanted.
    pub(super) fn because(what: impl Into<String>, cause: &(dyn Error + 'static)) -> Self {
        let is_silent = causes(cause).any(is_broken_pipe);
        let text: Vec<String> = causes(cause).map(in_words).collect();
        Self {
            what: what.into(),
            because: Some(text.join(": ")),
            hint: None,
            is_silent,
            is_misuse: false,
        }
    }

    /// With a cause in words.
    pub(super) fn cause(self, cause: impl Into<String>) -> Self {
        Self { because: Some(cause.into()), ..self }
    }

    /// As one of what was typed.
    pub(super) fn of_usage(self) -> Self {
        Self { is_misuse: true, ..self }
    }

    /// With advice that would work here.
    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

fn causes<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |it: &&'e (dyn Error + 'static)| (*it).source())
}

/// An error of the system's by its name, as everywhere, and not by its number.
pub(super) fn in_words(error: &(dyn Error + 'static)) -> String {
    let errno = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
    errno.map_or_else(|| error.to_string(), |errno| Errno::from_raw(errno).to_string())
}

fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|it| it.kind() == io::ErrorKind::BrokenPipe)
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", one_line(&self.what))?;
        if let Some(because) = &self.because {
            write!(f, "\n  because: {}", one_line(because))?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\nhint: {}", one_line(hint))?;
        }
        Ok(())
    }
}

/// Names from files may hold anything; on a terminal they stay text, in one line and one direction.
fn one_line(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, it| {
        if is_unfit(it) {
            out.extend(it.escape_default());
        } else {
            out.push(it);
        }
        out
    })
}

/// Tells why the command failed; the status is 1, 2 if it was typed wrong, or 0 where only the reader
/// went away.
pub(super) fn fail(failure: &Failure) -> ExitCode {
    if failure.is_silent {
        return ExitCode::SUCCESS;
    }
    say(&failure.to_string());
    if failure.is_misuse { ExitCode::from(2) } else { ExitCode::FAILURE }
}

/// Tells what changes how the output should be read.
pub(super) fn warn(text: &str) {
    say(&format!("warning: {}", one_line(text)));
}

/// Tells what would help against what a warning said.
pub(super) fn hint(text: &str) {
    say(&format!("hint: {}", one_line(text)));
}

/// Says a line on stderr; if stderr is closed, there is nobody to tell.
pub(super) fn say(line: &str) {
    writeln!(io::stderr().lock(), "{line}").ok();
}

/// Shows what clap has to say: help and version are data, the rest is wrong usage.
pub(super) fn usage(error: &clap::Error) -> ExitCode {
    match error.print() {
        Err(error) => fail(&Failure::because("cannot write the help", &error)),
        Ok(()) => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_at_most_three_lines_whatever_is_in_its_names() {
        let cause = io::Error::other("bad\nname");
        let failure = Failure::because("cannot read `a\x1bb`", &cause).hint("try `x`");
        assert_eq!(
            failure.to_string(),
            "error: cannot read `a\\u{1b}b`\n  because: bad\\nname\nhint: try `x`"
        );
        assert_eq!(one_line("a\u{202e}b"), "a\\u{202e}b");
    }

    #[test]
    fn an_error_of_the_system_has_a_name() {
        let cause = io::Error::from_raw_os_error(libc::ENOENT);
        let failure = Failure::because("cannot open `x`", &cause);
        assert_eq!(
            failure.to_string(),
            "error: cannot open `x`\n  because: ENOENT: No such file or directory"
        );
    }

    #[test]
    fn a_reader_that_went_away_is_no_failure() {
        let cause = io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(fail(&Failure::because("cannot write", &cause)), ExitCode::SUCCESS);
    }
}
