//! Spans of time that records are chosen by.

use crate::units::Nanos;

/// A span of time, both ends included; 0 is an open end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRange {
    /// The first moment.
    pub start: Nanos,
    /// The last moment.
    pub end: Nanos,
}

impl TimeRange {
    /// Whether what happened at `time` is in one of `ranges`, if there are any. Of spans that follow each
    /// other, each ends before the next one, but for the last. What has no time is in all.
    ///
    /// Source: `perf_time__ranges_skip_sample()` in `tools/perf/util/time-utils.c`.
    pub fn any_holds(ranges: &[Self], time: Nanos) -> bool {
        let is_after = |range: &Self| range.start <= time;
        match ranges {
            _ if time == Nanos(0) => true,
            [] => true,
            [ranges @ .., last] => {
                ranges.iter().any(|it| is_after(it) && time < it.end)
                    || is_after(last) && (last.end == Nanos(0) || time <= last.end)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(ranges: &[(u64, u64)], want: [bool; 6]) {
        let range = |&(start, end)| TimeRange { start: Nanos(start), end: Nanos(end) };
        let ranges: Vec<_> = ranges.iter().map(range).collect();
        let times = [0, 5, 10, 15, 20, 25];
        assert_eq!(times.map(|it| TimeRange::any_holds(&ranges, Nanos(it))), want);
    }

    #[test]
    fn spans_of_time_have_open_ends_or_follow_each_other() {
        check(&[], [true; 6]);
        check(&[(10, 0)], [true, false, true, true, true, true]);
        check(&[(0, 10)], [true, true, true, false, false, false]);
        check(&[(5, 10), (20, 0)], [true, true, false, false, true, true]);
        check(&[(5, 10), (15, 20)], [true, true, false, true, true, false]);
    }
}
