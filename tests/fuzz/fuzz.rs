//! The fuzzer's program: the target that `BPFPERF_FUZZ` names.

#![no_main]

mod recording;
mod targets;

use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

use self::targets::TARGETS;
use self::targets::Target;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("BPFPERF_FUZZ").expect("BPFPERF_FUZZ names a target");
    TARGETS.iter().find(|it| it.name == name).expect("a target of this name")
});

/// Lays the seeds where the fuzzer looks for input.
fn lay_seeds() {
    let Some(folder) = std::env::var_os("BPFPERF_FUZZ_CORPUS").map(PathBuf::from) else { return };
    for (n, seed) in (TARGET.seeds)().iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{n}")), seed).expect("a folder for the seeds");
    }
}

fuzz_target!(init: lay_seeds(), |data: &[u8]| (TARGET.run)(data));
