//! Where and when a recording was made, as far as it tells.

use crate::perfdata::feature::ClockData;
use crate::perfdata::private::Clocks;
use crate::units::Addr;
use crate::units::BuildId;
use crate::units::Nanos;

/// Which machine, in which of its boots, made a recording, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// `/proc/sys/kernel/random/boot_id` of the kernel.
    pub boot_id: Option<String>,
    /// The inode of the namespace that numbers of processes are of.
    pub pid_namespace: Option<u64>,
    /// The name of the machine.
    pub host_name: Option<String>,
    /// The release of its kernel, as `uname -r` has it.
    pub release: Option<String>,
    /// The build id of its kernel.
    pub kernel_build_id: Option<BuildId>,
    /// Where a symbol of its kernel was, which is loaded at random at each boot.
    pub kernel_text: Option<(String, Addr)>,
    /// When the recording ended, since 1970.
    pub ended: Option<Nanos>,
}

/// How times of a recording become times of day.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WallClock {
    /// Moments on both clocks, in the order of the recording's.
    moments: Vec<(Nanos, Nanos)>,
}

/// How far somebody may have set the wall clock within a recording, in nanoseconds: where it was set by
/// more nobody knows when.
const MOST_SET: u64 = 100_000_000;

impl WallClock {
    /// By the moments that the recorder noted on the kernel's own clock.
    pub(super) fn read(clocks: &[&Clocks]) -> Self {
        let readings = clocks.iter().flat_map(|it| &it.readings);
        let known = readings.filter(|it| it.realtime_ns != 0);
        let mut moments: Vec<_> =
            known.map(|it| (Nanos(it.recorded_ns), Nanos(it.realtime_ns))).collect();
        moments.sort();
        Self { moments }
    }

    /// By what the header tells of a clock that was chosen.
    pub(super) fn chosen(data: Option<&ClockData>) -> Self {
        let moment = data.map(|it| (it.clock, Nanos(it.time_of_day_ns)));
        Self { moments: moment.into_iter().collect() }
    }

    /// The time of day by which it had been `recorded` on the recording's clock, or by which the recording had
    /// begun, of what has no time; however the wall clock was set meanwhile.
    pub(super) fn at_latest(&self, recorded: Nanos) -> Option<Nanos> {
        let recorded = if recorded.0 == 0 { self.moments.first()?.0 } else { recorded };
        let near = self.at(recorded)?;
        let ahead = |it: &(Nanos, Nanos)| it.1.0.checked_sub(it.0.0);
        let last = recorded.0.checked_add(self.moments.iter().filter_map(ahead).max()?)?;
        Some(near.max(Nanos(last)))
    }

    /// The time of day when it was `recorded` on the recording's clock, to some milliseconds.
    pub(super) fn at(&self, recorded: Nanos) -> Option<Nanos> {
        let (first, last) = (self.moments.first()?, self.moments.last()?);
        let ahead = |it: &(Nanos, Nanos)| i128::from(it.1.0) - i128::from(it.0.0);
        if u128::from(MOST_SET) < ahead(first).abs_diff(ahead(last)) {
            return None;
        }
        let near = if recorded.0 < last.0.0 { first } else { last };
        let time_of_day = i128::from(recorded.0).checked_add(ahead(near))?;
        u64::try_from(time_of_day).ok().map(Nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perfdata::private::ClockReading;

    #[test]
    fn times_of_day_are_known_unless_the_clock_was_set() {
        let clock = |moments: &[(u64, u64)]| {
            let reading = |&(recorded_ns, realtime_ns): &(u64, u64)| ClockReading {
                recorded_ns,
                monotonic_ns: 0,
                realtime_ns,
            };
            let readings = moments.iter().map(reading).collect();
            WallClock::read(&[&Clocks { readings, ..Clocks::default() }])
        };
        let at = |clock: &WallClock, recorded| clock.at(Nanos(recorded)).map(|it| it.0);
        let sound = clock(&[(2000, 700_100), (1000, 700_000)]);
        assert_eq!(
            [500, 1500, 2500].map(|it| at(&sound, it)),
            [699_500, 700_500, 700_600].map(Some)
        );
        let latest = |recorded| sound.at_latest(Nanos(recorded)).map(|it| it.0);
        assert_eq!([0, 500, 2500].map(latest), [700_000, 699_500, 701_500].map(Some));
        let set = clock(&[(1000, 700_000), (2000, 700_000 + 2 * MOST_SET)]);
        assert_eq!(at(&set, 1500), None);
        assert_eq!(at(&clock(&[(1000, 0)]), 1500), None);
        assert_eq!(at(&WallClock::default(), 1500), None);
        let data = ClockData { clockid: 1, time_of_day_ns: 50, clock: Nanos(60) };
        let chosen = WallClock::chosen(Some(&data));
        assert_eq!([9, 10, 70].map(|it| at(&chosen, it)), [None, Some(0), Some(60)]);
    }
}
