//! Which samples are kept, and in how many files.

use std::num::NonZeroUsize;
use std::time::Duration;

use crate::record::Describe;
use crate::record::Keep;
use crate::record::Output;
use crate::record::Parts;
use crate::record::SwitchAt;

use super::super::event_options;
use super::super::message::Failure;
use super::super::values;

/// What was typed.
#[derive(Debug, Default, clap::Args)]
pub(super) struct PartOptions {
    /// Record into several files, `FILE.TIME`: begin the next one on SIGUSR2, each time that one is
    /// so large, as `100M`, or after so long, as `30s`.
    #[arg(
        long,
        value_name = "signal|SIZE|TIME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "signal",
        value_parser = switch_at,
    )]
    switch_output: Option<SwitchAt>,
    /// Begin the next file when one of these events happens, too.
    #[arg(long, value_name = "LIST")]
    switch_output_event: Vec<String>,
    /// Keep so many of the files that `--switch-output` makes, the latest.
    #[arg(long, value_name = "N")]
    switch_max_files: Option<NonZeroUsize>,
    /// Keep the latest samples alone, as many as the rings hold, and write them at the end and
    /// with `--switch-output` whenever that asks for the next file.
    #[arg(long, overrides_with = "no_overwrite")]
    overwrite: bool,
    /// Undo `--overwrite`.
    #[arg(long, hide = true)]
    no_overwrite: bool,
    /// Say at the end of a file, too, what runs and what it has mapped.
    #[arg(long)]
    tail_synthesize: bool,
}

impl PartOptions {
    /// How the recording is cut into files at `output`.
    pub(super) fn parts(&self, output: &Output) -> Result<Option<Parts>, Failure> {
        let mut triggers = Vec::new();
        for list in &self.switch_output_event {
            triggers.extend(event_options::parse_list(list)?);
        }
        let at = match self.switch_output {
            Some(at) => at,
            None if !triggers.is_empty() => SwitchAt::Told,
            None => return Ok(None),
        };
        if *output == Output::Stdout {
            let failure = Failure::new("a pipe cannot be cut into several files");
            return Err(failure.hint("name a file by `-o FILE`"));
        }
        if self.overwrite && matches!(at, SwitchAt::Bytes(_)) {
            let what = "with `--overwrite` a file does not grow before it is asked for";
            return Err(
                Failure::new(what).hint("ask by a time, as `--switch-output=10m`, or a signal")
            );
        }
        let most_files = self.switch_max_files.map(NonZeroUsize::get);
        Ok(Some(Parts { at, most_files, triggers }))
    }

    /// What is of no effect, in words.
    pub(super) fn ignored(&self) -> Option<String> {
        let is_several = self.switch_output.is_some() || !self.switch_output_event.is_empty();
        let is_lost = self.switch_max_files.is_some() && !is_several;
        is_lost.then(|| "`--switch-max-files` is ignored without `--switch-output`".to_owned())
    }

    /// Which samples are kept.
    pub(super) fn keep(&self) -> Keep {
        if self.overwrite { Keep::Latest } else { Keep::All }
    }

    /// When it is said what runs.
    pub(super) fn describe(&self) -> Describe {
        if self.tail_synthesize { Describe::AtEndToo } else { Describe::AtStart }
    }
}

/// `signal`, a size or a time.
fn switch_at(text: &str) -> Result<SwitchAt, String> {
    let bad = || format!("`{text}` is neither `signal`, nor a size as `100M`, nor a time as `30s`");
    if text == "signal" {
        return Ok(SwitchAt::Told);
    }
    let digits = text.trim_end_matches(|it: char| it.is_ascii_alphabetic());
    let unit_seconds: u64 = match text.get(digits.len()..).unwrap_or_default() {
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        "B" | "K" | "M" | "G" => return values::size(text).map(SwitchAt::Bytes).map_err(|_| bad()),
        _ => return Err(bad()),
    };
    let number: u64 = digits.parse().ok().filter(|it| *it != 0).ok_or_else(bad)?;
    let seconds = number.checked_mul(unit_seconds).ok_or_else(bad)?;
    Ok(SwitchAt::Every(Duration::from_secs(seconds)))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        parts: PartOptions,
    }

    #[track_caller]
    fn check(line: &str, want: Option<(SwitchAt, Option<usize>)>) {
        let words = std::iter::once("record").chain(line.split_ascii_whitespace());
        let options = Line::try_parse_from(words).unwrap().parts;
        let parts = options.parts(&Output::File("x".into())).unwrap();
        assert_eq!(parts.map(|it| (it.at, it.most_files)), want);
    }

    #[test]
    fn files_follow_one_another_when_told_by_size_or_by_time() {
        let every = |seconds| SwitchAt::Every(Duration::from_secs(seconds));
        check("", None);
        check("--switch-output", Some((SwitchAt::Told, None)));
        check("--switch-output=signal", Some((SwitchAt::Told, None)));
        check("--switch-output=2K --switch-max-files 3", Some((SwitchAt::Bytes(2048), Some(3))));
        check("--switch-output=30s", Some((every(30), None)));
        check("--switch-output=2m", Some((every(120), None)));
        check("--switch-output-event cs", Some((SwitchAt::Told, None)));
    }

    #[test]
    fn how_many_are_kept_is_of_no_effect_where_there_is_one() {
        let ignored = |line: &str| {
            let words = std::iter::once("record").chain(line.split_ascii_whitespace());
            Line::try_parse_from(words).unwrap().parts.ignored().is_some()
        };
        assert!(ignored("--switch-max-files 3"));
        assert!(!ignored("--switch-max-files 3 --switch-output-event cs") && !ignored(""));
    }

    #[test]
    fn what_is_neither_is_refused() {
        for text in ["", "x", "0s", "10", "0K", "5x", "s", "99999999999999999999s", "-1s"] {
            assert!(switch_at(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_file_that_does_not_grow_has_no_greatest_size() {
        let options = PartOptions {
            switch_output: Some(SwitchAt::Bytes(5)),
            overwrite: true,
            ..PartOptions::default()
        };
        assert!(options.parts(&Output::File("x".into())).is_err());
    }

    #[test]
    fn a_pipe_is_one_piece() {
        let options = PartOptions { switch_output: Some(SwitchAt::Told), ..PartOptions::default() };
        assert!(options.parts(&Output::Stdout).is_err());
    }
}
