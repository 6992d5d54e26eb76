//! The wall clock of this machine's time zone.

use crate::units::LocalTime;

/// The local time `seconds` after 1970 began in UTC, or `None` if the year does not fit.
pub fn local_time(seconds: i64) -> Option<LocalTime> {
    let seconds = libc::time_t::from(seconds);
    // SAFETY: `tm` is a plain C structure of integers and a pointer, for all of which zero is a
    // value.
    let mut broken_down: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both point to live values of ours that nobody else uses.
    let found = unsafe { libc::localtime_r(&raw const seconds, &raw mut broken_down) };
    if found.is_null() {
        return None;
    }
    let libc::tm { tm_year, tm_mon, tm_mday, tm_wday, tm_hour, tm_min, tm_sec, .. } = broken_down;
    let small = |it: libc::c_int| u8::try_from(it).ok();
    Some(LocalTime {
        year: tm_year.checked_add(1900)?,
        month: small(tm_mon)?.checked_add(1)?,
        day: small(tm_mday)?,
        weekday: small(tm_wday)?,
        hour: small(tm_hour)?,
        minute: small(tm_min)?,
        second: small(tm_sec)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_later_is_the_next_weekday() {
        let day = |n: i64| local_time(1_000_000_000 + n * 86_400).unwrap();
        assert_eq!(day(1).weekday, (day(0).weekday + 1) % 7);
        assert_eq!(day(0).year, 2001);
    }

    #[test]
    fn a_year_beyond_the_calendar_is_none() {
        assert_eq!(local_time(i64::MAX), None);
    }
}
