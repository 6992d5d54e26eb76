//! The recordings of `tests/fixtures/recordings`; its README says how each was made.

use std::path::PathBuf;

/// A recording and what perf 7.3 said of it when it was made.
pub(crate) struct Fixture {
    pub(crate) name: &'static str,
    pub(crate) bytes: &'static [u8],
    /// The FNV-1a hash of `bytes`, so that none changes unnoticed.
    hash: u64,
    /// The output of perf with [`SCRIPT`].
    pub(crate) script: &'static str,
    /// How many records there are of each kind.
    pub(crate) counts: &'static [(u32, usize)],
}

/// The arguments of perf, and of ours, that show nothing of the machine they run on; the path comes
/// behind.
pub(crate) const SCRIPT: [&str; 8] = [
    "script",
    "--fields=-sym,-symoff,-dso",
    "--ns",
    "--no-inline",
    "--show-task-events",
    "--show-mmap-events",
    "--show-bpf-events",
    "--input",
];

impl Fixture {
    pub(crate) fn path(&self) -> PathBuf {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/recordings");
        PathBuf::from(folder).join(format!("{}.data", self.name))
    }
}

macro_rules! fixture {
    ($name:literal, $hash:literal, $counts:expr) => {
        Fixture {
            name: $name,
            bytes: include_bytes!(concat!("../fixtures/recordings/", $name, ".data")),
            hash: $hash,
            script: include_str!(concat!("../fixtures/recordings/", $name, ".txt")),
            counts: &$counts,
        }
    };
}

pub(crate) const FIXTURES: [Fixture; 11] = [
    fixture!(
        "bpfperf-bill",
        0x63b0_9907_9a56_9d29,
        [
            (3, 4),
            (4, 3),
            (7, 2),
            (9, 18),
            (10, 19),
            (17, 21),
            (18, 16),
            (65, 6),
            (68, 4),
            (69, 1),
            (73, 1),
            (74, 1),
            (82, 1),
            (84, 4)
        ]
    ),
    fixture!(
        "bpfperf-bpf",
        0x6d6b_61c2_f43f_c735,
        [
            (3, 4),
            (4, 3),
            (7, 2),
            (9, 32),
            (10, 19),
            (17, 21),
            (18, 16),
            (68, 2),
            (69, 1),
            (73, 1),
            (74, 1),
            (82, 1),
            (84, 4)
        ]
    ),
    fixture!(
        "bpfperf-pipe",
        0x3197_ed05_624d_b44b,
        [
            (3, 2),
            (4, 1),
            (9, 9),
            (10, 8),
            (17, 5),
            (18, 2),
            (64, 2),
            (68, 3),
            (69, 1),
            (73, 1),
            (74, 1),
            (80, 25),
            (82, 1),
            (84, 2)
        ]
    ),
    fixture!(
        "perf-6.1-bpf-before",
        0xfffe_df2a_bdb9_f9ad,
        [
            (1, 1),
            (3, 2),
            (4, 1),
            (9, 33),
            (10, 7),
            (17, 3),
            (18, 1),
            (68, 2),
            (69, 1),
            (73, 1),
            (74, 1),
            (78, 2),
            (82, 1)
        ]
    ),
    fixture!(
        "perf-6.1-one",
        0x1a52_6e8b_951d_c918,
        [
            (1, 1),
            (3, 2),
            (4, 1),
            (9, 13),
            (10, 7),
            (17, 1),
            (68, 1),
            (69, 1),
            (73, 1),
            (74, 1),
            (78, 2),
            (82, 1)
        ]
    ),
    fixture!(
        "perf-6.1-pipe",
        0x34bd_a883_e7b5_29d5,
        [
            (1, 1),
            (3, 2),
            (4, 1),
            (9, 14),
            (10, 7),
            (17, 1),
            (64, 1),
            (68, 2),
            (69, 1),
            (73, 1),
            (74, 1),
            (78, 3),
            (80, 19),
            (82, 1)
        ]
    ),
    fixture!(
        "perf-7.3-bpf-before",
        0x1f5c_470f_3f15_419a,
        [
            (3, 2),
            (4, 1),
            (9, 34),
            (10, 8),
            (17, 3),
            (18, 1),
            (68, 2),
            (69, 1),
            (73, 1),
            (74, 1),
            (78, 3),
            (82, 1),
            (84, 2)
        ]
    ),
    fixture!(
        "perf-7.3-bpf-during",
        0x7e19_5e73_e718_28ed,
        [
            (3, 4),
            (4, 3),
            (7, 2),
            (9, 56),
            (10, 19),
            (17, 19),
            (18, 15),
            (68, 1),
            (69, 1),
            (73, 1),
            (74, 1),
            (78, 3),
            (82, 1),
            (84, 2)
        ]
    ),
    fixture!(
        "perf-7.3-one",
        0xeb99_615f_3900_eb84,
        [
            (3, 2),
            (4, 1),
            (9, 14),
            (10, 8),
            (17, 1),
            (68, 1),
            (69, 1),
            (73, 1),
            (74, 1),
            (78, 3),
            (82, 1)
        ]
    ),
    fixture!(
        "perf-7.3-pipe",
        0xd415_fe74_deb8_fb71,
        [
            (3, 2),
            (4, 1),
            (9, 18),
            (10, 8),
            (17, 1),
            (64, 1),
            (68, 2),
            (69, 1),
            (73, 1),
            (74, 1),
            (78, 4),
            (80, 22),
            (82, 1)
        ]
    ),
    fixture!(
        "perf-7.3-two",
        0xe75f_a443_ad7a_cb1c,
        [
            (3, 2),
            (4, 1),
            (9, 21),
            (10, 8),
            (17, 1),
            (68, 2),
            (69, 1),
            (73, 1),
            (74, 1),
            (78, 4),
            (82, 1)
        ]
    ),
];

/// Fowler, Noll and Vo's hash, variant 1a, of 64 bits.
fn fnv1a(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[test]
fn no_fixture_changes_unnoticed() {
    for it in &FIXTURES {
        assert!(it.bytes.len() < 64 << 10, "{} is too large", it.name);
        assert_eq!(fnv1a(it.bytes), it.hash, "{} is {:#x}", it.name, fnv1a(it.bytes));
    }
}
