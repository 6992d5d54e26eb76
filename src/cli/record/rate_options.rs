//! How often to sample.

use crate::host::settings::Settings;
use crate::record::Rate;

use super::super::message::Failure;

/// How often to sample where nothing is said, in Hz.
const USUAL_HERTZ: u64 = 4000;

/// What was typed.
#[derive(Debug, Default, clap::Args)]
pub(super) struct RateOptions {
    /// Sample so many times a second, or as often as the kernel allows.
    #[arg(short = 'F', long, value_name = "N|max", conflicts_with = "count")]
    pub(super) freq: Option<String>,
    /// Sample each time that so many have happened.
    #[arg(short = 'c', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Take no samples, but count.
    #[arg(short = 'n', long)]
    no_samples: bool,
    /// Fail where the kernel allows less than `-F` asks for.
    #[arg(long)]
    strict_freq: bool,
}

impl RateOptions {
    /// What is meant by them on this machine.
    pub(super) fn rate(&self, settings: &Settings) -> Result<Rate, Failure> {
        if self.no_samples {
            return Ok(Rate::Never);
        }
        if let Some(period) = self.count {
            return Ok(Rate::Period(period));
        }
        let most = settings.perf_event_max_sample_rate;
        let Some(text) = self.freq.as_deref() else { return Ok(Rate::Usual(USUAL_HERTZ)) };
        if text.eq_ignore_ascii_case("max") {
            return Ok(Rate::Hertz(most.unwrap_or(USUAL_HERTZ)));
        }
        let hertz: u64 = text.parse().ok().filter(|it| *it != 0).ok_or_else(|| {
            Failure::new(format!("`{text}` is no number of samples a second, nor `max`"))
        })?;
        match most {
            Some(most) if self.strict_freq && most < hertz => Err(Failure::new(format!(
                "cannot sample {hertz} times a second: `kernel.perf_event_max_sample_rate` is {most}"
            ))),
            _ => Ok(Rate::Hertz(hertz)),
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
        options: RateOptions,
    }

    #[test]
    fn a_rate_is_a_number_the_most_or_a_period() {
        let settings = Settings { perf_event_max_sample_rate: Some(9000), ..Settings::default() };
        let of = |line: &str| {
            let words = std::iter::once("record").chain(line.split_ascii_whitespace());
            let options = Line::try_parse_from(words).unwrap().options;
            options.rate(&settings).map_err(|it| it.to_string())
        };
        assert_eq!(of(""), Ok(Rate::Usual(4000)));
        assert_eq!((of("-F max"), of("-F MAX")), (Ok(Rate::Hertz(9000)), Ok(Rate::Hertz(9000))));
        assert_eq!(of("-F 99"), Ok(Rate::Hertz(99)));
        assert_eq!(of("-c 7"), Ok(Rate::Period(7)));
        assert_eq!(of("-n -F 99"), Ok(Rate::Never));
        assert!(of("-F 0").is_err() && of("-F x").is_err());
        assert_eq!(
            of("-F 10000 --strict-freq").unwrap_err(),
            "error: cannot sample 10000 times a second: \
             `kernel.perf_event_max_sample_rate` is 9000"
        );
    }
}
