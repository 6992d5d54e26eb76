//! Compiles `bpf/*.bpf.c` into skeletons: `OUT_DIR/NAME.skel.rs` for each `NAME.bpf.c`.
//!
//! Reads no kernel's BTF: the programs stand on `bpf/bpfperf.h`. What the machine must have for this
//! is looked for by `bpf/needs`, which runs before.

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use libbpf_cargo::SkeletonBuilder;

/// The programs in `bpf/`, each in a `NAME.bpf.c`.
const PROGRAMS: [&str; 2] = ["demo", "off_cpu"];

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=bpf/bpfperf.h");
    match PROGRAMS.iter().try_for_each(|program| build(program)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            for line in message.lines() {
                println!("cargo::error={line}");
            }
            ExitCode::FAILURE
        }
    }
}

fn build(program: &str) -> Result<(), String> {
    let source = format!("bpf/{program}.bpf.c");
    println!("cargo::rerun-if-changed={source}");
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo gives no OUT_DIR")?);
    SkeletonBuilder::new()
        .source(&source)
        .clang_args([
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wno-unknown-pragmas",
            concat!("-DBPFPERF_VERSION=\"", env!("CARGO_PKG_VERSION"), "\""),
        ])
        .build_and_generate(out_dir.join(format!("{program}.skel.rs")))
        .map_err(|error| format!("cannot compile {source}: {error:#}"))
}
