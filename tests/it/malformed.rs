//! Fixtures cut short and changed by a byte: whatever comes of it, it comes soon and is no panic.

use std::error::Error;
use std::time::Duration;
use std::time::Instant;

use crate::annotate::annotate;
use crate::fixture::FIXTURES;
use crate::fixture::Fixture;
use crate::recording;
use crate::swap::swap;

/// Reads `bytes` in every way that there is: header, script, report, annotate.
fn read(bytes: &[u8]) -> Result<(), Box<dyn Error>> {
    recording::read(bytes, |recording, index, names, programs, resolved| {
        annotate(recording, index, names, programs, resolved);
    })
}

/// Reads `bytes` and holds it to a time that a hang would exceed, though not a busy machine.
fn check(name: &str, what: &str, bytes: &[u8]) {
    let start = Instant::now();
    let result = std::panic::catch_unwind(|| read(bytes));
    assert!(result.is_ok(), "{name} {what}: a panic");
    let spent = start.elapsed();
    assert!(spent < Duration::from_secs(10), "{name} {what}: {spent:?}");
}

/// A generator of numbers that anyone can repeat: Marsaglia's xorshift of 64 bits.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).expect("below a limit")
    }
}

/// Every fixture in both byte orders.
fn files() -> Vec<(String, Vec<u8>)> {
    let both = |it: &Fixture| {
        [(it.name.to_owned(), it.bytes.to_vec()), (format!("{} swapped", it.name), swap(it.bytes))]
    };
    FIXTURES.iter().flat_map(both).collect()
}

/// Runs `check` on all files, on two threads.
fn for_all(check: impl Fn(&str, &[u8]) + Sync) {
    let files = files();
    let (left, right) = files.split_at(files.len() / 2);
    std::thread::scope(|scope| {
        for half in [left, right] {
            scope.spawn(|| half.iter().for_each(|(name, bytes)| check(name, bytes)));
        }
    });
}

#[test]
fn a_fixture_is_read() {
    for_all(|name, bytes| read(bytes).unwrap_or_else(|error| panic!("{name}: {error}")));
}

#[test]
fn a_recording_cut_anywhere_is_read_or_refused() {
    for_all(|name, bytes| {
        // A file's header and attributes in the one order, a pipe's first records in the other, are
        // cut at every length; the rest at places that fall everywhere in records.
        let all = ["perf-7.3-one", "perf-7.3-pipe swapped"].contains(&name);
        let step = bytes.len() / 40 + 1;
        let lengths = (0..if all { 400 } else { 0 }).chain((1..bytes.len()).step_by(step));
        for len in lengths {
            check(name, &format!("cut at {len}"), &bytes[..len]);
        }
    });
}

#[test]
fn a_recording_with_a_changed_byte_is_read_or_refused() {
    for_all(|name, bytes| {
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15 ^ bytes.len() as u64);
        for _ in 0..100 {
            let mut bytes = bytes.to_vec();
            // Half of the changes fall on what the rest hangs on.
            let limit = if numbers.below(2) == 0 { bytes.len().min(1024) } else { bytes.len() };
            let at = numbers.below(limit);
            let value = u8::try_from(numbers.below(256)).expect("a byte");
            bytes[at] = value;
            check(name, &format!("with {value:#x} at {at:#x}"), &bytes);
        }
    });
}

#[test]
fn a_recording_with_a_number_of_the_wildest_is_read_or_refused() {
    for_all(|name, bytes| {
        let mut numbers = Numbers(0xd1b5_4a32_d192_ed03 ^ bytes.len() as u64);
        for _ in 0..40 {
            let mut bytes = bytes.to_vec();
            let limit = if numbers.below(2) == 0 { bytes.len().min(1024) } else { bytes.len() };
            let width = 1 << numbers.below(4);
            let at = (numbers.below(limit) / width * width).min(bytes.len() - width);
            let value = [0, 0x7f, 0x80, 0xff][numbers.below(4)];
            bytes[at..at + width].fill(value);
            check(name, &format!("with {width} of {value:#x} at {at:#x}"), &bytes);
        }
    });
}
