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
    known: FxHashMap<i32, Vec<u64>>,
}

impl Stacks {
    pub(super) fn new(first: MapHandle, more: MapHandle) -> Self {
        Self { first, more, known: FxHashMap::default() }
    }

    /// The addresses of two stacks, the innermost first; none of one that is not there.
    pub fn pair(&mut self, one: i32, other: i32) -> (&[u64], &[u64]) {
        self.read(one);
        self.read(other);
        let get = |number| self.known.get(&number).map(Vec::as_slice).unwrap_or_default();
        (get(one), get(other))
    }

    fn read(&mut self, number: i32) {
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
        });
    }
}
