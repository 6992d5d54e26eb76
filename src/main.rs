//! The `bpfperf` command.

fn main() -> std::process::ExitCode {
    bpfperf::cli::main()
}
