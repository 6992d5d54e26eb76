//! The branches before a sample.

use std::io::Write;

use crate::perfdata::Branches;
use crate::perfdata::misc;
use crate::replay::Frame;
use crate::replay::TaskAt;
use crate::replay::spans::Moment;

use super::Fields;
use super::line::Formatter;
use super::sample::Met;

/// How one went, from its flag word.
///
/// Source: `struct perf_branch_entry` in `include/uapi/linux/perf_event.h`; the bit behind `priv` is
/// that of `tools/perf/util/branch.h`.
pub(super) struct Flags(pub(super) u64);

/// `PERF_BR_*`, the first of which has no name.
pub(super) const KINDS: [&str; 15] = [
    "",
    "COND",
    "UNCOND",
    "IND",
    "CALL",
    "IND_CALL",
    "RET",
    "SYSCALL",
    "SYSRET",
    "COND_CALL",
    "COND_RET",
    "ERET",
    "IRQ",
    "SERROR",
    "NO_TX",
];

/// `PERF_BR_NEW_*`.
const NEW_KINDS: [&str; 8] =
    ["FAULT_ALGN", "FAULT_DATA", "FAULT_INST", "ARCH_1", "ARCH_2", "ARCH_3", "ARCH_4", "ARCH_5"];

/// `PERF_BR_SPEC_*`.
const SPECULATIONS: [&str; 4] =
    ["-", "SPEC_WRONG_PATH", "NON_SPEC_CORRECT_PATH", "SPEC_CORRECT_PATH"];

impl Flags {
    pub(super) fn has(&self, bit: u32) -> bool {
        self.0 >> bit & 1 != 0
    }

    pub(super) fn number(&self, from: u32, n: u32) -> usize {
        usize::try_from(self.0 >> from & ((1 << n) - 1)).unwrap_or(0)
    }
}

impl std::fmt::Display for Flags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (is_mispredicted, is_predicted) = (self.has(0), self.has(1));
        let is_not_taken = self.has(33);
        let outcome = match (is_predicted, is_mispredicted || is_not_taken) {
            (false, false) => "-",
            (true, _) => "P",
            (false, true) => "M",
        };
        let kind = match self.number(20, 4) {
            15 => NEW_KINDS.get(self.number(26, 4)).copied().unwrap_or("(null)"),
            kind => KINDS[kind],
        };
        write!(
            f,
            "/{outcome}{}/{}/{}/{}/{kind}/{} ",
            if is_not_taken { "N" } else { "" },
            if self.has(2) { 'X' } else { '-' },
            if self.has(3) { 'A' } else { '-' },
            self.number(4, 16),
            SPECULATIONS[self.number(24, 2)],
        )
    }
}

impl Formatter<'_> {
    /// Appends the branches, each as the field that is asked for shows it.
    pub(super) fn branches(
        &self,
        branches: &Branches<'_>,
        task: &TaskAt,
        mode: u16,
        moment: Moment,
        fields: Fields,
        out: &mut Vec<u8>,
    ) {
        let mut words = branches.entries.iter();
        while let (Some(from), Some(to), Some(flags)) = (words.next(), words.next(), words.next()) {
            for (separator, addr) in [("", from), ("/", to)] {
                out.extend_from_slice(separator.as_bytes());
                let frame = self.data_frame(task, mode, addr, moment);
                if fields.contains(Fields::BRSTACKSYM) && !fields.contains(Fields::BRSTACK) {
                    self.places.symbol(&frame, Fields::SYMOFF, out);
                } else {
                    let is_offset = !fields.contains(Fields::BRSTACK) && frame.owner.is_some();
                    let shown =
                        if is_offset { self.source.names.name(&frame).addr.0 } else { addr };
                    if separator.is_empty() {
                        out.push(b' ');
                    }
                    // Writing to memory cannot fail.
                    let _written = write!(out, "{shown:#x}");
                }
                if fields.contains(Fields::DSO) {
                    self.places.module(&frame, fields, out);
                }
            }
            let _written = write!(out, "{}", Flags(flags));
        }
    }

    /// The branches of a sample, with their places and flags.
    pub(super) fn named_branches(
        &self,
        branches: &Branches<'_>,
        met: &Met<'_>,
    ) -> impl Iterator<Item = (Frame, Frame, String)> {
        let words: Vec<u64> = branches.entries.iter().collect();
        let place = |addr| self.data_frame(&met.task, met.mode, addr, met.moment);
        let branches: Vec<_> = words
            .as_chunks::<3>()
            .0
            .iter()
            .map(|[from, to, flags]| (place(*from), place(*to), Flags(*flags).to_string()))
            .collect();
        branches.into_iter()
    }

    /// The place of an address that was not run: of the kernel or of user code, as its number says.
    pub(super) fn data_frame(&self, task: &TaskAt, mode: u16, addr: u64, moment: Moment) -> Frame {
        let frame = self.frame(task, mode, addr, moment);
        let is_kernels = addr >> 63 != 0;
        let other = match (mode, is_kernels) {
            (misc::KERNEL | misc::USER, true) => misc::KERNEL,
            (misc::KERNEL | misc::USER, false) => misc::USER,
            (misc::GUEST_KERNEL | misc::GUEST_USER, true) => misc::GUEST_KERNEL,
            (misc::GUEST_KERNEL | misc::GUEST_USER, false) => misc::GUEST_USER,
            _ => mode,
        };
        if frame.owner.is_some() || other == mode {
            return frame;
        }
        self.frame(task, other, addr, moment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(flags: u64, want: &str) {
        assert_eq!(Flags(flags).to_string(), want);
    }

    #[test]
    fn flags_tell_how_a_branch_went() {
        check(0, "/-/-/-/0//- ");
        check(1, "/M/-/-/0//- ");
        check(2 | 7 << 4, "/P/-/-/7//- ");
        check(1 << 33, "/MN/-/-/0//- ");
        check(0b1100 | 4 << 20 | 3 << 24, "/-/X/A/0/CALL/SPEC_CORRECT_PATH ");
        check(15 << 20 | 3 << 26, "/-/-/-/0/ARCH_1/- ");
        check(15 << 20 | 9 << 26, "/-/-/-/0/(null)/- ");
    }
}
