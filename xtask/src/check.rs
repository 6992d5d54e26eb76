//! The verbs that judge the code: `lint`, `doc`, `test`, `live`, `ci`.

use std::process::Command;

use crate::peer;
use crate::setup;
use crate::shell::Failure;
use crate::shell::Privilege;
use crate::shell::Shell;

/// Turns every skip of a live test into a failure.
const LIVE: (&str, &str) = ("BPFPERF_LIVE", "1");

/// Everything that CI holds a change to.
pub(crate) fn ci(shell: &Shell, args: &[String]) -> Result<(), Failure> {
    setup::run(shell, args)?;
    lint(shell, args)?;
    doc(shell, args)?;
    test(shell, args)
}

/// The form of the code.
pub(crate) fn lint(shell: &Shell, _args: &[String]) -> Result<(), Failure> {
    shell.run(shell.cargo().args(["fmt", "--all", "--check"]))?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    shell.run(shell.cargo().args(clippy))
}

/// The documentation, in which every link must lead somewhere.
pub(crate) fn doc(shell: &Shell, _args: &[String]) -> Result<(), Failure> {
    let mut doc = shell.cargo();
    doc.args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
    shell.run(&mut doc)
}

/// Every test, once.
pub(crate) fn test(shell: &Shell, args: &[String]) -> Result<(), Failure> {
    setup::run(shell, args)?;
    peer::run(shell, args)?;
    let mut test = shell.cargo();
    test.args(["test", "--workspace"]);
    let privilege = shell.privilege();
    match privilege {
        Privilege::Root => shell.run(test.env(LIVE.0, LIVE.1)),
        Privilege::Sudo => {
            println!("test: the live tests need root, so they skip here and run by `sudo -n` next");
            shell.run(&mut test)?;
            shell.run(&mut live_command(shell, privilege))
        }
        Privilege::None => {
            println!("test: not root, and `sudo -n` does not work: some live tests will skip");
            shell.run(&mut test)
        }
    }
}

/// The tests on the running kernel alone.
pub(crate) fn live(shell: &Shell, _args: &[String]) -> Result<(), Failure> {
    shell.run(&mut live_command(shell, shell.privilege()))
}

fn live_command(shell: &Shell, privilege: Privilege) -> Command {
    let mut live = shell.cargo();
    live.args(["test", "--test", "live"]).env(LIVE.0, LIVE.1);
    if privilege == Privilege::Sudo {
        // Only the test's own process is root's; what cargo builds stays the user's.
        live.args(["--config", r#"target.'cfg(unix)'.runner = ["sudo", "-n", "-E"]"#]);
    }
    live
}
