//! What the fuzzer calls, over its seeds and seeded changes of these.

use std::panic::catch_unwind;
use std::sync::Mutex;
use std::time::Duration;
use std::time::Instant;

use crate::malformed::Numbers;
use crate::targets::TARGETS;
use crate::targets::Target;

/// How many changed inputs each target reads.
const N_CHANGED: usize = 600;

/// `seed` with a few changes, each as wild as the fuzzer's own, which also come behind one another.
fn changed(seed: &[u8], other: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=numbers.below(4) {
        if bytes.is_empty() {
            return bytes;
        }
        let at = numbers.below(bytes.len());
        let len = (1 + numbers.below(16)).min(bytes.len() - at);
        match numbers.below(7) {
            0 => bytes[at] ^= 1 << numbers.below(8),
            1 => bytes[at] = u8::try_from(numbers.below(256)).expect("a byte"),
            2 => bytes[at..at + len].fill([0, 0x7f, 0x80, 0xff][numbers.below(4)]),
            3 => bytes.truncate(at),
            4 => drop(bytes.drain(at..at + len)),
            5 => {
                let copied = bytes[at..at + len].to_vec();
                let to = numbers.below(bytes.len());
                bytes.splice(to..to, copied);
            }
            _ if other.is_empty() => {}
            _ => {
                let from = numbers.below(other.len());
                let taken = &other[from..(from + 64 * len).min(other.len())];
                let end = (at + taken.len()).min(bytes.len());
                bytes.splice(at..end, taken.iter().copied());
            }
        }
    }
    bytes
}

/// Whether `target` reads `bytes` without a panic, in a time that a hang would exceed.
fn check(target: &Target, what: &str, bytes: &[u8]) {
    let start = Instant::now();
    let result = catch_unwind(|| (target.run)(bytes));
    let spent = start.elapsed();
    if result.is_err() || Duration::from_secs(10) < spent {
        let path = std::env::temp_dir().join(format!("{}-{}", target.name, bytes.len()));
        std::fs::write(&path, bytes).expect("a place for what was found");
        panic!("{}, {what}: {spent:?}, a panic: {}; {path:?}", target.name, result.is_err());
    }
}

#[test]
fn what_is_changed_costs_nothing_but_itself() {
    let next = Mutex::new(TARGETS.iter());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(target) = { next.lock().unwrap().next() } {
                    let seeds = (target.seeds)();
                    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
                    for seed in &seeds {
                        check(target, "a seed", seed);
                    }
                    for n in 0..N_CHANGED {
                        let seed = &seeds[n % seeds.len()];
                        let other = &seeds[numbers.below(seeds.len())];
                        let bytes = changed(seed, other, &mut numbers);
                        check(target, &format!("change {n}"), &bytes);
                    }
                }
            });
        }
    });
}
