//! Fails the build, with the command that helps, where the machine lacks what the build needs.
//!
//! `libbpf-sys` depends on this, so it runs before that crate's build script, which would fail one
//! missing thing at a time and name no package.

use std::process::ExitCode;

mod needs;

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=needs.rs");
    let missing = needs::missing();
    if missing.is_empty() {
        return ExitCode::SUCCESS;
    }
    for line in needs::explain(&missing, needs::family()) {
        println!("cargo::error={line}");
    }
    ExitCode::FAILURE
}
