//! The clock of a recording, as its header tells of it.

use nix::sys::time::TimeSpec;
use nix::time::ClockId;
use nix::time::clock_getres;
use nix::time::clock_gettime;

use crate::perfdata::feature::ClockData;
use crate::perfdata::feature::Feature;
use crate::units::Nanos;

/// How fine the clock `id` is, and one moment on it and on the wall clock, by which times become
/// times of day; `None` for a clock that nobody reads.
pub(super) fn features(id: i32) -> Option<[Feature; 2]> {
    let clock = ClockId::from_raw(id);
    let resolution = clock_getres(clock).ok().and_then(nanos)?;
    let time_of_day_ns = clock_gettime(ClockId::CLOCK_REALTIME).ok().and_then(nanos)?;
    let now = clock_gettime(clock).ok().and_then(nanos)?;
    let data = ClockData { clockid: id.cast_unsigned(), time_of_day_ns, clock: Nanos(now) };
    Some([Feature::ClockResolution(resolution), Feature::ClockData(data)])
}

fn nanos(time: TimeSpec) -> Option<u64> {
    let seconds = u64::try_from(time.tv_sec()).ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(u64::try_from(time.tv_nsec()).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_told_with_a_moment_on_it_and_on_the_wall_clock() {
        let Some([Feature::ClockResolution(ns), Feature::ClockData(data)]) = features(0) else {
            panic!("no wall clock");
        };
        assert!(0 < ns && ns < 1_000_000_000);
        assert!(data.clock.0.abs_diff(data.time_of_day_ns) < 1_000_000_000);
        assert_eq!(features(i32::MAX), None);
    }
}
