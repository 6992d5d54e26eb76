//! The stacks that the program noted, by their numbers.

use libbpf_rs::MapCore as _;
use libbpf_rs::MapFlags;
use libbpf_rs::MapHandle;
use rustc_hash::FxHashMap;

/// Marks the number of a stack that is in the second map: `MORE_STACKS` in `bpf/off_cpu.bpf.c`.
const MORE: i32 = 1 << 24;

/// Reads stacks, each once: they stay as they are for as long as the program is loaded.
#[derive(Debug)]
pub struct Stacks {
    first: MapHandle,
    more: MapHandle,
    /// How many frames of the kernel's stacks are of the program and its hook, by their first frames.
    known: FxHashMap<i32, Vec<u64>>,
}

impl Stacks {
    pub(super) fn new(first: MapHandle, more: MapHandle) -> Self {
        Self { first, more, known: FxHashMap::default() }
    }

    /// The addresses of stack `number`, the innermost first; none if there is no such stack.
    pub fn get(&mut self, number: i32) -> &[u64] {
        let Self { first, more, known } = self;
        known.entry(number).or_insert_with(|| {
            if number < 0 {
                return Vec::new();
            }
            let map = if number & MORE == 0 { first } else { more };
            let found = map.lookup(&(number & !MORE).to_ne_bytes(), MapFlags::ANY);
            let bytes = found.ok().flatten().unwrap_or_default();
            let addresses = bytes.as_chunks::<8>().0.iter().map(|it| u64::from_ne_bytes(*it));
            addresses.take_while(|it| *it != 0).collect()
        })
    }
}
