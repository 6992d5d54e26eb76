//! `fuzz`: lets the fuzzer look for input that our readers cannot take.
//!
//! `cargo xtask fuzz [SECONDS] [TARGET]...`: each of the targets of `tests/fuzz/targets.rs`, or those that
//! are named, for so many seconds. What it learns stays under `target/fuzz/corpus`; input that is found
//! wanting, under `target/fuzz/artifacts`.

use std::fs;
use std::path::Path;
use std::path::PathBuf;

use crate::shell::Failure;
use crate::shell::Shell;

/// How long each target runs if nothing is said, in seconds.
const SECONDS: &str = "60";

/// What no input may exceed: seconds, and MiB of all memory and of one allocation.
const LIMITS: [&str; 3] = ["-timeout=10", "-rss_limit_mb=2048", "-malloc_limit_mb=512"];

/// Fuzzes.
pub(crate) fn run(shell: &Shell, args: &[String]) -> Result<(), Failure> {
    let is_number = |it: &&String| it.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = args.first().filter(is_number).map_or(SECONDS, String::as_str);
    let named: Vec<String> = args.iter().skip_while(is_number).cloned().collect();
    let all = targets(&shell.root().join("tests/fuzz/targets.rs"))?;
    if let Some(unknown) = named.iter().find(|it| !all.contains(it)) {
        let hint = format!("the targets are {}", all.join(", "));
        return Err(Failure::with_hint(format!("no target `{unknown}`"), hint));
    }
    let program = build(shell)?;
    for name in if named.is_empty() { &all } else { &named } {
        let [corpus, artifacts] = ["corpus", "artifacts"].map(|it| folder(shell, it).join(name));
        for folder in [&corpus, &artifacts] {
            let made = fs::create_dir_all(folder);
            made.map_err(|it| Failure::new(format!("cannot make {}: {it}", folder.display())))?;
        }
        let mut fuzz = shell.command(&program);
        fuzz.env("BPFPERF_FUZZ", name)
            .env("BPFPERF_FUZZ_CORPUS", &corpus)
            .arg(&corpus)
            .args(LIMITS);
        fuzz.arg(format!("-max_total_time={seconds}"));
        fuzz.arg(format!("-artifact_prefix={}/", artifacts.display()));
        shell.run(fuzz.args(["-max_len=200000", "-print_final_stats=1", "-verbosity=0"]))?;
    }
    Ok(())
}

/// The names of all targets, as the file `source` has them.
fn targets(source: &Path) -> Result<Vec<String>, Failure> {
    let text = fs::read_to_string(source)
        .map_err(|it| Failure::new(format!("cannot read {}: {it}", source.display())))?;
    let name = |line: &str| {
        let (_, rest) = line.split_once("Target { name: \"")?;
        Some(rest.split_once('"')?.0.to_owned())
    };
    Ok(text.lines().filter_map(name).collect())
}

fn folder(shell: &Shell, name: &str) -> PathBuf {
    shell.target().join("fuzz").join(name)
}

/// Builds the fuzzer's program, with the tool that knows how, and returns its path.
fn build(shell: &Shell) -> Result<PathBuf, Failure> {
    let root = folder(shell, "tool");
    let tool = root.join("bin/cargo-fuzz");
    if !tool.exists() {
        let mut install = shell.cargo();
        shell.run(
            install.args(["install", "--quiet", "--locked", "cargo-fuzz", "--root"]).arg(&root),
        )?;
    }
    let target = folder(shell, "build");
    let mut build = shell.command(&tool);
    // The instruments of the fuzzer are behind the compiler's gate. Address checks find nothing in safe
    // code, and cost half of the speed.
    build.env("RUSTC_BOOTSTRAP", "1").args(["fuzz", "build", "--sanitizer", "none"]);
    build.args(["--fuzz-dir", "tests/fuzz", "--target-dir"]).arg(&target);
    shell.run(&mut build)?;
    let built = target.join(format!("{}-unknown-linux-gnu/release/fuzz", std::env::consts::ARCH));
    if built.exists() {
        return Ok(built);
    }
    Err(Failure::new(format!("no program was built at {}", built.display())))
}
