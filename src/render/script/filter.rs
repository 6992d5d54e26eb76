//! Which samples are printed.

use crate::replay::TimeRange;
use crate::units::Addr;
use crate::units::Cpu;
use crate::units::Nanos;
use crate::units::Pid;
use crate::units::Tid;

/// Restricts samples; an empty list restricts nothing.
#[derive(Clone, Debug, Default)]
pub struct Only {
    /// Command names.
    pub comms: Vec<Vec<u8>>,
    /// Processes.
    pub pids: Vec<Pid>,
    /// Threads.
    pub tids: Vec<Tid>,
    /// CPUs, of all records.
    pub cpus: Vec<Cpu>,
    /// Times.
    pub times: Vec<TimeRange>,
    /// Modules, by path or name.
    pub dsos: Vec<String>,
    /// Functions, by name or first address.
    pub symbols: Vec<String>,
    /// How many bytes behind an address of `symbols` count as it.
    pub addr_range: u64,
    /// One event, by its number in the recording.
    pub event: Option<u32>,
    /// From one event to another.
    pub switch: Switch,
}

/// Events, by their numbers in the recording, from which and up to which samples are wanted, again and
/// again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switch {
    /// From this event on; `None` for the beginning.
    pub on: Option<u32>,
    /// Up to this event; `None` for the end.
    pub off: Option<u32>,
    /// Whether samples of the two are wanted themselves.
    pub is_shown: bool,
}

impl Switch {
    /// Whether it restricts anything.
    pub(super) fn is_set(self) -> bool {
        self.on.is_some() || self.off.is_some()
    }

    /// Whether a sample of `event` is wanted, the next in the order of time; `is_on` is what was left by the
    /// one before, at first `None`.
    ///
    /// Source: `evswitch__discard()` in `tools/perf/util/evswitch.c`.
    pub(super) fn wants(self, event: u32, is_on: &mut Option<bool>) -> bool {
        let was_on = is_on.unwrap_or(self.on.is_none());
        let by = if was_on { self.off } else { self.on };
        let is_switch = by == Some(event);
        *is_on = Some(was_on != is_switch);
        if is_switch { self.is_shown } else { was_on }
    }
}

impl Only {
    /// Whether what happened at `time` is wanted.
    pub(super) fn has_time(&self, time: Nanos) -> bool {
        TimeRange::any_holds(&self.times, time)
    }

    /// Whether records of `cpu` are wanted; those of no CPU are.
    pub(super) fn has_cpu(&self, cpu: Option<u32>) -> bool {
        let Some(cpu) = cpu.filter(|it| *it != u32::MAX) else { return true };
        self.cpus.is_empty() || self.cpus.iter().any(|it| it.0 == cpu)
    }

    /// Whether the thread `tid` of `pid` is wanted.
    pub(super) fn has_thread(&self, pid: Pid, tid: Tid) -> bool {
        (self.pids.is_empty() || self.pids.contains(&pid))
            && (self.tids.is_empty() || self.tids.contains(&tid))
    }

    /// Whether places have to be named to say whether they are wanted.
    pub(super) fn needs_names(&self) -> bool {
        !self.dsos.is_empty() || !self.symbols.is_empty()
    }

    /// Whether a function is wanted that is called `name` and begins at `start`, in which `addr` is.
    pub(super) fn has_symbol(&self, symbol: Option<(&str, Addr)>, addr: Addr) -> bool {
        if self.symbols.is_empty() {
            return true;
        }
        let is_named = symbol.is_some_and(|(name, start)| {
            let start = format!("{:#x}", start.0);
            self.symbols.iter().any(|it| *it == name || *it == start)
        });
        is_named
            || self.symbols.iter().filter_map(|it| address(it)).any(|it| self.is_near(it, addr))
    }

    fn is_near(&self, start: u64, addr: Addr) -> bool {
        addr.0.checked_sub(start).is_some_and(|it| it == 0 || it < self.addr_range)
    }
}

/// The address that a text is.
fn address(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_wanted_by_name_start_or_address() {
        let only = |symbols: &[&str], addr_range| Only {
            symbols: symbols.iter().map(|it| (*it).to_owned()).collect(),
            addr_range,
            ..Only::default()
        };
        let main = Some(("main", Addr(0x1000)));
        assert!(only(&[], 0).has_symbol(None, Addr(1)));
        assert!(only(&["x", "main"], 0).has_symbol(main, Addr(0x1010)));
        assert!(only(&["0x1000"], 0).has_symbol(main, Addr(0x1010)));
        assert!(!only(&["0x1001"], 0).has_symbol(main, Addr(0x1010)));
        assert!(only(&["0x1001"], 0x10).has_symbol(None, Addr(0x1010)));
        assert!(!only(&["0x1001"], 0xf).has_symbol(None, Addr(0x1010)));
        assert!(!only(&["main"], 0).has_symbol(None, Addr(0x1010)));
    }

    #[test]
    fn samples_are_wanted_from_one_event_to_another() {
        let check = |on, off, is_shown, want: &str| {
            let (switch, mut is_on) = (Switch { on, off, is_shown }, None);
            let events = [0, 1, 0, 2, 0, 2, 1, 1, 0];
            let kept = events.iter().filter(|it| switch.wants(**it, &mut is_on));
            assert_eq!(kept.map(u32::to_string).collect::<String>(), want);
        };
        check(None, None, false, "010202110");
        check(Some(1), None, false, "0202110");
        check(Some(1), None, true, "10202110");
        check(None, Some(2), false, "010");
        check(Some(1), Some(2), false, "010");
        check(Some(1), Some(2), true, "102110");
    }

    #[test]
    fn what_has_no_cpu_is_of_all() {
        let only = Only { cpus: vec![Cpu(1)], ..Only::default() };
        assert_eq!(
            [Some(1), Some(0), Some(u32::MAX), None].map(|it| only.has_cpu(it)),
            [true, false, true, true]
        );
    }
}
