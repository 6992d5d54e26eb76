//! Compiles `bpf/*.bpf.c`: programs of ours into skeletons, `OUT_DIR/NAME.skel.rs` for each
//! `NAME.bpf.c`, and the examples, which only tests load, into objects, `OUT_DIR/NAME.bpf.o`.
//!
//! Reads no kernel's BTF: the programs stand on `bpf/bpfperf.h`. What the machine must have for this
//! is looked for by `bpf/needs`, which runs before.

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use libbpf_cargo::SkeletonBuilder;

/// The programs in `bpf/`, each in a `NAME.bpf.c`.
const PROGRAMS: [&str; 2] = ["demo", "off_cpu"];

/// Examples of what `record -e` takes, likewise.
const EXAMPLES: [&str; 2] = ["run_queue", "slow_reads"];

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=bpf/bpfperf.h");
    let built = PROGRAMS
        .iter()
        .try_for_each(|name| build(name, Form::Skeleton))
        .and_then(|()| EXAMPLES.iter().try_for_each(|name| build(name, Form::Object)));
    match built {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            for line in message.lines() {
                println!("cargo::error={line}");
            }
            ExitCode::FAILURE
        }
    }
}

/// What comes of a source.
#[derive(Clone, Copy)]
enum Form {
    Skeleton,
    Object,
}

fn build(program: &str, form: Form) -> Result<(), String> {
    let source = format!("bpf/{program}.bpf.c");
    println!("cargo::rerun-if-changed={source}");
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo gives no OUT_DIR")?);
    let mut builder = SkeletonBuilder::new();
    builder.source(&source).clang_args([
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-unknown-pragmas",
        concat!("-DBPFPERF_VERSION=\"", env!("CARGO_PKG_VERSION"), "\""),
    ]);
    match form {
        Form::Skeleton => builder.build_and_generate(out_dir.join(format!("{program}.skel.rs"))),
        Form::Object => builder.obj(out_dir.join(format!("{program}.bpf.o"))).build(),
    }
    .map_err(|error| format!("cannot compile {source}: {error:#}"))
}
