//! When it was: on the recording's clock, or on that of a wall.

use crate::perfdata::feature::ClockData;
use crate::units::LocalTime;
use crate::units::Nanos;

use super::number::decimal;
use super::number::zero_padded;

/// How times are shown.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Whether times have nine digits after the point, or six.
    pub precision: Precision,
    /// From when on they count.
    pub since: Since,
    /// One moment on the recording's clock and on a wall's, where the recording has it.
    pub reference: Option<ClockData>,
    /// The reader's wall clock at a moment given in seconds since 1970.
    pub local_time: fn(i64) -> Option<LocalTime>,
}

/// How finely times are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// Six digits after the point; what is less is cut off.
    Microseconds,
    /// Nine digits after the point.
    Nanoseconds,
}

/// From when on times count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// The start of the recording's clock.
    Always,
    /// The first record that is printed.
    First,
    /// The record that was printed before.
    Previous,
}

/// The times that were printed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Printed {
    /// The first one, or the one before.
    known: Option<Nanos>,
}

const SECOND: u64 = 1_000_000_000;

impl Clock {
    /// Whether times depend on those that were printed before.
    pub(super) fn is_in_order(&self) -> bool {
        self.since != Since::Always
    }

    /// Appends `time`: seconds, a point and what `precision` says.
    ///
    /// perf aligns the whole to twelve with microseconds, the seconds to five with nanoseconds.
    pub(super) fn append(&self, time: Nanos, printed: &mut Printed, out: &mut Vec<u8>) {
        let known = printed.known.filter(|it| *it != Nanos(0));
        let shown = match self.since {
            Since::Always => time.0,
            Since::First => {
                let first = *printed.known.insert(known.unwrap_or(time));
                time.0.wrapping_sub(first.0)
            }
            Since::Previous => {
                printed.known = Some(time);
                known.map_or(0, |it| time.0.wrapping_sub(it.0))
            }
        };
        decimal(shown / SECOND, 5, out);
        out.push(b'.');
        self.fraction(shown % SECOND, out);
    }

    fn fraction(&self, ns: u64, out: &mut Vec<u8>) {
        match self.precision {
            Precision::Microseconds => zero_padded(ns / 1_000, 6, out),
            Precision::Nanoseconds => zero_padded(ns, 9, out),
        }
    }

    /// Appends `time` as date and time of day.
    pub(super) fn time_of_day(&self, time: Nanos, out: &mut Vec<u8>) {
        let Some(ClockData { time_of_day_ns, clock, .. }) = self.reference else {
            out.extend_from_slice(b"disabled");
            return;
        };
        let ns = time_of_day_ns.wrapping_add(time.0.wrapping_sub(clock.0));
        let local = i64::try_from(ns / SECOND).ok().and_then(self.local_time);
        match local {
            None => out.extend_from_slice(b"failed"),
            Some(local) => {
                out.extend_from_slice(local.iso().as_bytes());
                out.push(b'.');
                self.fraction(ns % SECOND, out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(precision: Precision, since: Since) -> Clock {
        Clock { precision, since, reference: None, local_time: |_| None }
    }

    #[track_caller]
    fn check(clock: Clock, times: &[u64], want: &str) {
        let mut out = Vec::new();
        let mut printed = Printed::default();
        for time in times {
            clock.append(Nanos(*time), &mut printed, &mut out);
            out.push(b'|');
        }
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }

    #[test]
    fn times_count_from_a_beginning() {
        use Precision::Microseconds as Short;
        use Precision::Nanoseconds as Long;
        let times = [0, 2_000_001_999, 3_000_000_000];
        check(clock(Short, Since::Always), &times, "    0.000000|    2.000001|    3.000000|");
        check(
            clock(Long, Since::First),
            &times,
            "    0.000000000|    0.000000000|    0.999998001|",
        );
        check(clock(Short, Since::Previous), &times, "    0.000000|    0.000000|    0.999998|");
    }

    #[test]
    fn a_wall_clock_needs_a_moment_on_both() {
        let mut clock = clock(Precision::Microseconds, Since::Always);
        let mut out = Vec::new();
        clock.time_of_day(Nanos(7), &mut out);
        clock.reference =
            Some(ClockData { clockid: 1, time_of_day_ns: 5 * SECOND, clock: Nanos(7) });
        clock.time_of_day(Nanos(7), &mut out);
        assert_eq!(out, b"disabledfailed");
    }
}
