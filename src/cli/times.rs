//! Spans of time as they are typed: `10.5,20`, `,20`, `0%-10%,30%-40%`, `10%/2`.
//!
//! Source: `tools/perf/util/time-utils.c`.

use crate::replay::TimeRange;
use crate::units::Nanos;

/// A text that is no span of time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoTime {
    /// It has another form.
    #[error("`{text}` is no span of time")]
    Form {
        /// The text.
        text: String,
    },
    /// It ends before it begins, or before the one before it ends.
    #[error("`{text}` ends before it begins, or begins before an earlier one ends")]
    Order {
        /// The text.
        text: String,
    },
    /// It is a share of something whose length is not known.
    #[error("the recording has no times that `{text}` could be a share of")]
    NoBounds {
        /// The text.
        text: String,
    },
}

const SECOND: u64 = 1_000_000_000;

/// The spans that `text` means in a recording whose samples are between `bounds`; relative to its
/// first one if `is_relative`.
///
/// # Errors
///
/// What is wrong with the text.
pub(super) fn parse(
    text: &str,
    bounds: Option<(Nanos, Nanos)>,
    is_relative: bool,
) -> Result<Vec<TimeRange>, NoTime> {
    let no = || NoTime::Form { text: text.to_owned() };
    if text.contains('%') {
        let (first, last) = bounds.ok_or_else(|| NoTime::NoBounds { text: text.to_owned() })?;
        let parts = text.split(',').map(str::trim).filter(|it| !it.is_empty());
        let shares = parts.map(|it| share(it).ok_or_else(no)).collect::<Result<Vec<_>, _>>()?;
        let at = |share: f64| {
            let length = last.0.saturating_sub(first.0);
            // A share of a length is no longer than the length, which fits.
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "see above"
            )]
            let offset = (share * length as f64).round() as u64;
            Nanos(first.0.saturating_add(offset))
        };
        return Ok(shares.iter().map(|it| TimeRange { start: at(it.0), end: at(it.1) }).collect());
    }
    let parts: Vec<&str> = text.split_ascii_whitespace().collect();
    let mut ranges = Vec::new();
    for (idx, part) in (1..).zip(&parts) {
        let (start, end) = part.split_once(',').unwrap_or((part, ""));
        let moment = |it: &str| if it.is_empty() { Some(0) } else { nanoseconds(it) };
        let (start, end) = moment(start).zip(moment(end)).ok_or_else(no)?;
        let is_open = end == 0 || 1 < parts.len() && start == 0;
        if !is_open && end < start || idx < parts.len() && end == 0 {
            return Err(NoTime::Order { text: text.to_owned() });
        }
        let from = bounds.filter(|_| is_relative).map_or(0, |(first, _)| first.0);
        let shifted = |it: u64| Nanos(if it == 0 { 0 } else { it.saturating_add(from) });
        ranges.push(TimeRange { start: shifted(start), end: shifted(end) });
    }
    if ranges.is_empty() {
        return Err(no());
    }
    if ranges.windows(2).any(|it| it[1].start < it[0].end) {
        return Err(NoTime::Order { text: text.to_owned() });
    }
    Ok(ranges)
}

/// `10%-20%`, or `10%/2` for the second tenth: the part of the whole from and to.
fn share(text: &str) -> Option<(f64, f64)> {
    let percent = |it: &str| {
        let number: f64 = it.trim().strip_suffix('%')?.parse().ok()?;
        (0.0..=100.0).contains(&number).then_some(number / 100.0)
    };
    let (start, end) = if let Some((part, n)) = text.split_once('/') {
        let (part, n) = (percent(part)?, n.trim().parse::<u32>().ok().filter(|it| *it != 0)?);
        (part * f64::from(n - 1), part * f64::from(n))
    } else if let Some((start, end)) = text.split_once('-') {
        (percent(start)?, percent(end)?)
    } else {
        (0.0, percent(text)?)
    };
    (start <= end && end <= 1.0 + f64::EPSILON).then_some((start, end))
}

/// `12.5` seconds.
fn nanoseconds(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let seconds = if seconds.is_empty() { 0 } else { seconds.parse::<u64>().ok()? };
    if 9 < fraction.len() || !fraction.bytes().all(|it| it.is_ascii_digit()) {
        return None;
    }
    let nanos: u64 = format!("{fraction:0<9}").parse().ok()?;
    seconds.checked_mul(SECOND)?.checked_add(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Option<(Nanos, Nanos)> = Some((Nanos(1_000), Nanos(2_000)));

    #[track_caller]
    fn check(text: &str, want: &[(u64, u64)]) {
        let ranges = parse(text, BOUNDS, false).unwrap();
        let got: Vec<_> = ranges.iter().map(|it| (it.start.0, it.end.0)).collect();
        assert_eq!(got, want, "{text}");
    }

    #[track_caller]
    fn check_error(text: &str, want: &str) {
        assert_eq!(parse(text, BOUNDS, false).unwrap_err().to_string(), want);
    }

    #[test]
    fn spans_have_ends_in_seconds() {
        check("1.5,2", &[(1_500_000_000, 2 * SECOND)]);
        check("1.5,", &[(1_500_000_000, 0)]);
        check("1", &[(SECOND, 0)]);
        check(",2.000000001", &[(0, 2 * SECOND + 1)]);
        check("1,2 3,", &[(SECOND, 2 * SECOND), (3 * SECOND, 0)]);
        check("1,2 3,4", &[(SECOND, 2 * SECOND), (3 * SECOND, 4 * SECOND)]);
        let ranges = parse("1,2", BOUNDS, true).unwrap();
        assert_eq!((ranges[0].start.0, ranges[0].end.0), (SECOND + 1_000, 2 * SECOND + 1_000));
    }

    #[test]
    fn spans_can_be_shares_of_the_whole() {
        check("10%", &[(1_000, 1_100)]);
        check("10%-20%", &[(1_100, 1_200)]);
        check("10%/2", &[(1_100, 1_200)]);
        check("0%-10%,30%-40%", &[(1_000, 1_100), (1_300, 1_400)]);
        let error = parse("10%", None, false).unwrap_err().to_string();
        assert_eq!(error, "the recording has no times that `10%` could be a share of");
    }

    #[test]
    fn what_is_no_span_is_refused() {
        for text in ["", "x", "1,x", "1.1234567890", "10%-x", "20%-10%", "110%", "60%/2"] {
            check_error(text, &format!("`{text}` is no span of time"));
        }
        for text in ["2,1", "3,4 1,2", "1, 2,3"] {
            let want =
                format!("`{text}` ends before it begins, or begins before an earlier one ends");
            check_error(text, &want);
        }
    }
}
