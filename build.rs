//! Compiles `bpf/*.bpf.c` into skeletons: `OUT_DIR/NAME.skel.rs` for each `NAME.bpf.c`.
//!
//! Reads no kernel's BTF: the programs stand on `bpf/bpfperf.h`. What the machine must have for this
//! is looked for by `bpf/needs`, which runs before.

use std::env;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

use libbpf_cargo::SkeletonBuilder;

const SOURCES: &str = "bpf";
const SUFFIX: &str = ".bpf.c";

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed={SOURCES}");
    println!("cargo::rerun-if-changed=build.rs");
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            for line in message.lines() {
                println!("cargo::error={line}");
            }
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<(), String> {
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo gives no OUT_DIR")?);
    let entries =
        fs::read_dir(SOURCES).map_err(|error| format!("cannot read {SOURCES}: {error}"))?;
    for entry in entries {
        let source = entry.map_err(|error| format!("cannot read {SOURCES}: {error}"))?.path();
        let name = source.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if let Some(name) = name.strip_suffix(SUFFIX) {
            skeleton(&source, &out_dir.join(format!("{name}.skel.rs")))?;
        }
    }
    Ok(())
}

fn skeleton(source: &Path, skeleton: &Path) -> Result<(), String> {
    SkeletonBuilder::new()
        .source(source)
        .clang_args(["-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas"])
        .build_and_generate(skeleton)
        .map_err(|error| format!("cannot compile {}: {error:#}", source.display()))
}
