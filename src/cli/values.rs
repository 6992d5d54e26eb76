//! Words of `record`'s command line as values.

use std::path::PathBuf;
use std::time::Duration;

use crate::record::ControlBy;
use crate::record::ControlEnd;
use crate::record::Delay;
use crate::record::Synthesis;

/// `-D`: milliseconds, `-1`, or windows such as `10-20,30-40`.
pub(super) fn delay(text: &str) -> Result<Delay, String> {
    let bad = || {
        format!(
            "`{text}` is neither a number of milliseconds, nor `-1`, nor windows such as `10-20,30-40`"
        )
    };
    let ms = |text: &str| text.trim().parse().map(Duration::from_millis).map_err(|_| bad());
    if text == "-1" {
        return Ok(Delay::Forever);
    }
    if !text.contains('-') {
        let delay = ms(text)?;
        return Ok(if delay.is_zero() { Delay::None } else { Delay::For(delay) });
    }
    let mut windows: Vec<(Duration, Duration)> = Vec::new();
    for window in text.split(',') {
        let (from, until) = window.split_once('-').ok_or_else(bad)?;
        let (from, until) = (ms(from)?, ms(until)?);
        if until <= from || windows.last().is_some_and(|it| from < it.1) {
            return Err(format!("the windows of `{text}` do not follow one another"));
        }
        windows.push((from, until));
    }
    Ok(Delay::Windows(windows))
}

/// `--control`: `fifo:PATH[,PATH]` or `fd:N[,N]`.
pub(super) fn control(text: &str) -> Result<ControlBy, String> {
    let bad = || format!("`{text}` is neither `fifo:PATH[,PATH]` nor `fd:N[,N]`");
    let (kind, places) = text.split_once(':').ok_or_else(bad)?;
    let (commands, answers) = match places.split_once(',') {
        Some((commands, answers)) => (commands, Some(answers)),
        None => (places, None),
    };
    let place = |place: &str| match kind {
        "fifo" if !place.is_empty() => Ok(ControlEnd::Fifo(PathBuf::from(place))),
        "fd" => {
            let number: i32 = place.parse().ok().filter(|it| 0 <= *it).ok_or_else(bad)?;
            Ok(ControlEnd::Inherited(number))
        }
        _ => Err(bad()),
    };
    Ok(ControlBy { commands: place(commands)?, answers: answers.map(place).transpose()? })
}

/// The clocks that the kernel takes times of records from, with perf's names for them.
const CLOCKS: [(i32, &[&str]); 5] = [
    (libc::CLOCK_MONOTONIC, &["monotonic", "mono"]),
    (libc::CLOCK_MONOTONIC_RAW, &["monotonic_raw", "raw"]),
    (libc::CLOCK_REALTIME, &["realtime", "real"]),
    (libc::CLOCK_BOOTTIME, &["boottime", "boot"]),
    (libc::CLOCK_TAI, &["tai"]),
];

/// `-k`: a clock by name, with `CLOCK_` before it or without, or by number.
///
/// Source: `perf_event_set_clock()` in `kernel/events/core.c`; `tools/perf/util/clockid.c`.
pub(super) fn clock(text: &str) -> Result<i32, String> {
    let lower = text.to_ascii_lowercase();
    let name = lower.strip_prefix("clock_").unwrap_or(&lower);
    let number = text.parse::<i32>().ok();
    let is_it = |it: &&(i32, &[&str])| it.1.contains(&name) || number == Some(it.0);
    CLOCKS.iter().find(is_it).map(|it| it.0).ok_or_else(|| {
        let names: Vec<_> = CLOCKS.iter().filter_map(|it| it.1.first().copied()).collect();
        format!("`{text}` is no clock of records; there are: {}", names.join(" "))
    })
}

/// `--synth`: a list of `task`, `mmap` and `cgroup`, or `all`, or `no`.
pub(super) fn synthesis(text: &str) -> Result<Synthesis, String> {
    text.split(',').try_fold(Synthesis::empty(), |all, word| match word.trim() {
        "all" => Ok(Synthesis::all()),
        "no" => Ok(Synthesis::empty()),
        "task" => Ok(all | Synthesis::TASKS),
        // Nothing is mapped but by tasks.
        "mmap" => Ok(all | Synthesis::TASKS | Synthesis::MAPPINGS),
        "cgroup" => Ok(all | Synthesis::CGROUPS),
        _ => Err(format!("`{word}` is none of `task`, `mmap`, `cgroup`, `all` and `no`")),
    })
}

/// A number of bytes, or of units of them: `B`, `K`, `M`, `G`.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let bad = || format!("`{text}` is no size, as `512M`");
    let digits = text.trim_end_matches(|it: char| it.is_ascii_alphabetic());
    let unit: u64 = match text.get(digits.len()..).unwrap_or_default() {
        "" | "B" | "b" => 1,
        "K" | "k" => 1 << 10,
        "M" | "m" => 1 << 20,
        "G" | "g" => 1 << 30,
        _ => return Err(bad()),
    };
    let number: u64 = digits.parse().map_err(|_| bad())?;
    number.checked_mul(unit).filter(|it| *it != 0).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_delay_is_a_time_or_windows_or_none() {
        assert_eq!(delay("0"), Ok(Delay::None));
        assert_eq!(delay("100"), Ok(Delay::For(ms(100))));
        assert_eq!(delay("-1"), Ok(Delay::Forever));
        let windows = vec![(ms(10), ms(20)), (ms(30), ms(40))];
        assert_eq!(delay("10-20,30-40"), Ok(Delay::Windows(windows)));
        for text in ["", "x", "-2", "10-", "20-10", "10-20,15-30", "10-20,", "99999999999999999999"]
        {
            assert!(delay(text).is_err(), "{text}");
        }
    }

    #[test]
    fn control_is_by_paths_or_descriptors() {
        let by = |commands: &str, answers: Option<&str>| ControlBy {
            commands: ControlEnd::Fifo(PathBuf::from(commands)),
            answers: answers.map(|it| ControlEnd::Fifo(PathBuf::from(it))),
        };
        let (commands, answers) = (ControlEnd::Inherited(5), Some(ControlEnd::Inherited(7)));
        let fds = ControlBy { commands, answers };
        assert_eq!(control("fifo:/a"), Ok(by("/a", None)));
        assert_eq!(control("fifo:/a,b"), Ok(by("/a", Some("b"))));
        assert_eq!(control("fd:5,7"), Ok(fds));
        for text in ["", "fd:", "fd:x", "fifo:", "fifo:a,", "pipe:1", "fd:-1"] {
            assert!(control(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_clock_has_a_name_or_a_number() {
        for (text, want) in [("monotonic", 1), ("Mono", 1), ("CLOCK_TAI", 11), ("raw", 4), ("7", 7)]
        {
            assert_eq!(clock(text), Ok(want), "{text}");
        }
        assert_eq!((clock("real"), clock("0"), clock("boot")), (Ok(0), Ok(0), Ok(7)));
        assert_eq!(
            clock("coarse").unwrap_err(),
            "`coarse` is no clock of records; there are: monotonic monotonic_raw realtime boottime \
             tai"
        );
        assert!(clock("2").is_err() && clock("").is_err() && clock("clock_").is_err());
    }

    #[test]
    fn what_is_told_of_what_ran_before_is_a_list() {
        assert_eq!(synthesis("all"), Ok(Synthesis::all()));
        assert_eq!(synthesis("no"), Ok(Synthesis::empty()));
        assert_eq!(synthesis("mmap"), Ok(Synthesis::TASKS | Synthesis::MAPPINGS));
        assert!(synthesis("").is_err() && synthesis("task,x").is_err());
    }

    #[test]
    fn a_size_has_a_unit_or_is_in_bytes() {
        assert_eq!((size("512"), size("2K"), size("3M")), (Ok(512), Ok(2048), Ok(3 << 20)));
        for text in ["", "0", "M", "3X", "-1", "99999999999999999999", "99999999999G"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
