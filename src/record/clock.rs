//! The clock of a recording, as its header tells of it.

use nix::sys::prctl;
use nix::sys::time::TimeSpec;
use nix::time::ClockId;
use nix::time::clock_getres;
use nix::time::clock_gettime;
use nix::unistd::gettid;

use crate::events;
use crate::perfdata::Attr;
use crate::perfdata::AttrFlags;
use crate::perfdata::SampleType;
use crate::perfdata::feature::ClockData;
use crate::perfdata::feature::Feature;
use crate::perfdata::private::ClockReading;
use crate::sys::perf_event::EventFd;
use crate::sys::perf_event::Target;
use crate::sys::ring::Ring;
use crate::sys::ring::page_len;
use crate::units::Nanos;
use crate::units::Tid;

/// How fine the clock `id` is, and one moment on it and on the wall clock, by which times become
/// times of day; `None` for a clock that nobody reads.
pub(super) fn features(id: i32) -> Option<[Feature; 2]> {
    let clock = ClockId::from_raw(id);
    let resolution = clock_getres(clock).ok().and_then(nanos)?;
    let time_of_day_ns = time_of_day()?;
    let now = clock_gettime(clock).ok().and_then(nanos)?;
    let data = ClockData { clockid: id.cast_unsigned(), time_of_day_ns, clock: Nanos(now) };
    Some([Feature::ClockResolution(resolution), Feature::ClockData(data)])
}

/// Now, in nanoseconds since 1970.
pub(super) fn time_of_day() -> Option<u64> {
    clock_gettime(ClockId::CLOCK_REALTIME).ok().and_then(nanos)
}

/// One moment on the kernel's own clock of events, which nobody can read, on `CLOCK_MONOTONIC`, and on the
/// wall clock; `None` where no event can be had.
///
/// The calling thread takes its own name anew, and the kernel tells when. Of several tries the one
/// counts in which the least time went by; it is off by less than that, some microseconds.
pub(super) fn moment() -> Option<ClockReading> {
    let flags = AttrFlags::COMM
        | AttrFlags::SAMPLE_ID_ALL
        | AttrFlags::EXCLUDE_KERNEL
        | AttrFlags::EXCLUDE_HV;
    let (kind, config) = (events::KIND_SOFTWARE, events::SOFTWARE_DUMMY);
    let attr = Attr { kind, config, flags, sample_type: SampleType::TIME, ..Attr::default() };
    let mut encoded = Vec::new();
    attr.encode(Attr::SIZE_VER0, &mut encoded);
    let event = EventFd::open(&encoded, Target::Task(Tid(gettid().as_raw()))).ok()?;
    let mut ring = Ring::map(&event, page_len()).ok()?;
    let name = prctl::get_name().ok()?;
    let now = || clock_gettime(ClockId::CLOCK_MONOTONIC).ok().and_then(nanos);
    let mut best: Option<(u64, ClockReading)> = None;
    for _ in 0..TRIES {
        let before = now()?;
        prctl::set_name(&name).ok()?;
        let after = now()?;
        let realtime_ns = time_of_day().unwrap_or(0);
        let (first, second) = ring.unread();
        let record = [first, second].concat();
        ring.consume(record.len());
        // The trailer is the time alone, and ends the record.
        let recorded_ns = u64::from_ne_bytes(*record.last_chunk()?);
        let took = after.checked_sub(before)?;
        let monotonic_ns = before + took / 2;
        let reading = ClockReading { recorded_ns, monotonic_ns, realtime_ns };
        if best.is_none_or(|(least, _)| took < least) {
            best = Some((took, reading));
        }
    }
    best.map(|(_, reading)| reading)
}

/// How often the two clocks are read: somebody may come in between.
const TRIES: usize = 5;

fn nanos(time: TimeSpec) -> Option<u64> {
    let seconds = u64::try_from(time.tv_sec()).ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(u64::try_from(time.tv_nsec()).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_clock_is_read_where_events_are_allowed() {
        let (Some(first), Some(second)) = (moment(), moment()) else {
            println!("skipped: no event of this thread");
            return;
        };
        let recorded = second.recorded_ns - first.recorded_ns;
        let monotonic = second.monotonic_ns - first.monotonic_ns;
        assert!(recorded.abs_diff(monotonic) < 10_000_000, "{first:?} {second:?}");
        let by_day = second.realtime_ns - first.realtime_ns;
        assert!(recorded.abs_diff(by_day) < 10_000_000, "{first:?} {second:?}");
    }

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
