//! The project's chores, one verb each: `cargo xtask VERB`.
//!
//! A chore that is not a verb here does not exist, and each command is printed before it runs, so
//! that whatever went wrong can be typed again by hand. The program stands on nothing that needs
//! clang, libelf or libbpf, since it is what installs them.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "talking to a person is its job")]

mod bench;
mod check;
mod demo;
mod fixtures;
mod fuzz;
mod made;
#[path = "../../bpf/needs/needs.rs"]
mod needs;
mod peer;
mod setup;
mod shell;

use std::env;
use std::process::ExitCode;

use self::shell::Failure;
use self::shell::Shell;

/// One chore.
struct Verb {
    name: &'static str,
    about: &'static str,
    run: fn(&Shell, &[String]) -> Result<(), Failure>,
}

const VERBS: &[Verb] = &[
    Verb { name: "setup", about: "install what the build needs", run: setup::run },
    Verb {
        name: "demo",
        about: "profile a workload that a BPF program slows down",
        run: demo::run,
    },
    Verb { name: "test", about: "run every test, live ones included", run: check::test },
    Verb { name: "ci", about: "lint, doc, and every test", run: check::ci },
    Verb { name: "lint", about: "check the form of the code", run: check::lint },
    Verb { name: "doc", about: "build the documentation, warnings denied", run: check::doc },
    Verb { name: "live", about: "run the tests on the running kernel alone", run: check::live },
    Verb { name: "fuzz", about: "let the fuzzer loose on our readers", run: fuzz::run },
    Verb { name: "fixtures", about: "make the recordings that tests read", run: fixtures::run },
    Verb { name: "bless", about: "ask perf again what tests hold us to", run: fixtures::bless },
    Verb { name: "peer", about: "lay the newest Linux perf beside the build", run: peer::run },
    Verb {
        name: "bench",
        about: "compare speed with the peer's; of recording: bench record; further: bench filter, bench off-cpu, bench names",
        run: bench::run,
    },
    Verb { name: "measure", about: "run one command and print what it took", run: bench::measure },
];

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let Some((name, args)) = args.split_first() else {
        print_verbs();
        return ExitCode::SUCCESS;
    };
    let Some(verb) = VERBS.iter().find(|verb| verb.name == name) else {
        eprintln!("error: no verb `{name}`");
        print_verbs();
        return ExitCode::from(2);
    };
    let outcome = Shell::new().and_then(|shell| (verb.run)(&shell, args));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            failure.exit_code()
        }
    }
}

fn print_verbs() {
    println!("usage: cargo xtask VERB\n");
    for Verb { name, about, .. } in VERBS {
        println!("  {name:8} {about}");
    }
}
