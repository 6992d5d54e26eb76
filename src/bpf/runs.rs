//! Readings of the counters of programs: how often they ran, and how long.

use std::collections::BTreeMap;

use crate::perfdata::private::ProgramRuns;
use crate::perfdata::private::Runs;
use crate::sys::bpf_counters::ProgCounters;

/// The last reading of each program.
#[derive(Debug, Default)]
pub struct Readings {
    boot_ns: u64,
    last: BTreeMap<(u32, u64), ProgramRuns>,
}

impl Readings {
    /// Takes a reading of all programs at `boot_ns`, in ns of `CLOCK_BOOTTIME`, and returns the last
    /// one of those that have gone since the one before, if there are any. `counted` is whether the
    /// kernel counts.
    pub fn take(&mut self, programs: &[ProgCounters], boot_ns: u64, counted: bool) -> Option<Runs> {
        let new = programs.iter().map(|it| ((it.id, it.load_time_ns), runs(it))).collect();
        let old = std::mem::replace(&mut self.last, new);
        let gone = old.into_iter().filter(|(key, it)| counts(it) && !self.last.contains_key(key));
        let gone: Vec<_> = gone.map(|(_, it)| it).collect();
        let at = std::mem::replace(&mut self.boot_ns, boot_ns);
        (!gone.is_empty()).then_some(Runs { boot_ns: at, counted, programs: gone })
    }

    /// The last reading of all programs that have counted something.
    pub fn all(&self, counted: bool) -> Runs {
        let programs = self.last.values().copied().filter(counts).collect();
        Runs { boot_ns: self.boot_ns, counted, programs }
    }
}

fn runs(program: &ProgCounters) -> ProgramRuns {
    ProgramRuns {
        id: program.id,
        load_time_ns: program.load_time_ns,
        run_cnt: program.run_cnt,
        run_time_ns: program.run_time_ns,
        recursion_misses: program.recursion_misses,
    }
}

fn counts(runs: &ProgramRuns) -> bool {
    0 < runs.run_cnt || 0 < runs.recursion_misses
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(id: u32, load_time_ns: u64, run_cnt: u64) -> ProgCounters {
        ProgCounters { id, load_time_ns, run_cnt, ..ProgCounters::default() }
    }

    #[track_caller]
    fn check(runs: &Runs, boot_ns: u64, want: &[(u32, u64)]) {
        let got: Vec<_> = runs.programs.iter().map(|it| (it.id, it.run_cnt)).collect();
        assert_eq!((runs.boot_ns, &got[..]), (boot_ns, want));
    }

    #[test]
    fn a_program_that_goes_is_told_with_its_last_reading() {
        let mut readings = Readings::default();
        assert_eq!(readings.take(&[program(1, 5, 10), program(2, 5, 20)], 100, true), None);
        assert_eq!(readings.take(&[program(1, 5, 11), program(2, 5, 21)], 200, true), None);
        check(&readings.take(&[program(1, 5, 12)], 300, true).unwrap(), 200, &[(2, 21)]);
        check(&readings.all(true), 300, &[(1, 12)]);
    }

    #[test]
    fn an_id_that_is_given_again_is_another_program() {
        let mut readings = Readings::default();
        readings.take(&[program(1, 5, 10)], 100, true);
        check(&readings.take(&[program(1, 6, 3)], 200, true).unwrap(), 100, &[(1, 10)]);
        check(&readings.all(false), 200, &[(1, 3)]);
    }

    #[test]
    fn programs_that_counted_nothing_are_left_out() {
        let mut readings = Readings::default();
        readings.take(&[program(1, 5, 0), program(2, 5, 1)], 100, true);
        check(&readings.all(true), 100, &[(2, 1)]);
        assert_eq!(readings.take(&[program(2, 5, 1)], 200, true), None);
    }
}
