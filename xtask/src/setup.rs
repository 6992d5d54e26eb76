//! `setup`: installs what the build and the tests need and the machine lacks, and nothing else.

use crate::needs;
use crate::needs::Need;
use crate::needs::Probe;
use crate::shell::Failure;
use crate::shell::Privilege;
use crate::shell::Shell;

/// The family whose packages we install ourselves: Debian's, by apt.
const DEBIAN: usize = 0;

/// What the tests need beyond it: they compile C++, and compress what mini debug information is made of.
static OF_TESTS: [Need; 2] = [
    Need { probe: Probe::Program("g++"), packages: ["g++", "gcc-c++", "gcc", "gcc-c++"] },
    Need { probe: Probe::Program("xz"), packages: ["xz-utils", "xz", "xz", "xz"] },
];

/// What this machine lacks of both.
fn lacking() -> Vec<&'static Need> {
    let of_tests = OF_TESTS.iter().filter(|need| !need.is_met());
    needs::missing().into_iter().chain(of_tests).collect()
}

/// Installs what is missing, or says how to.
pub(crate) fn run(shell: &Shell, _args: &[String]) -> Result<(), Failure> {
    let missing = lacking();
    if missing.is_empty() {
        println!("setup: the build and the tests have all they need");
        return Ok(());
    }
    let family = needs::family();
    let [what, hint] = needs::explain(&missing, family);
    println!("setup: {what}");
    if family != Some(DEBIAN) {
        return Err(Failure::with_hint(
            "this is no Debian or Ubuntu, so nothing was installed",
            hint,
        ));
    }
    let privilege = shell.privilege();
    match privilege {
        Privilege::Root => {}
        Privilege::Sudo => println!("setup: installing by `sudo -n`, which asks no password here"),
        Privilege::None => {
            return Err(Failure::with_hint("only root can install packages", hint));
        }
    }
    let packages = missing.iter().map(|need| need.packages[DEBIAN]);
    let mut words = needs::FAMILIES[DEBIAN].install.split(' ');
    let apt = words.next().unwrap_or("apt-get");
    // Lists that cannot be renewed may still do.
    let mut update = shell.as_root(privilege, "env");
    shell.status(update.args(["DEBIAN_FRONTEND=noninteractive", apt, "-qq", "update"]))?;
    let mut install = shell.as_root(privilege, "env");
    install.args(["DEBIAN_FRONTEND=noninteractive", apt, "-qq"]).args(words).args(packages);
    shell.run(&mut install)?;
    let missing = lacking();
    if missing.is_empty() {
        return Ok(());
    }
    let [what, _] = needs::explain(&missing, family);
    Err(Failure::new(format!("the packages are installed, and still {what}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_are_known_by_their_kin() {
        assert_eq!(needs::family_in("NAME=Debian\nID=debian\n"), Some(DEBIAN));
        assert_eq!(needs::family_in("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n"), Some(DEBIAN));
        assert_eq!(needs::family_in("ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n"), Some(1));
        assert_eq!(needs::family_in("ID=\"opensuse-tumbleweed\"\n"), Some(3));
        assert_eq!(needs::family_in("ID=debianish\n"), None);
        assert_eq!(needs::family_in(""), None);
    }

    #[test]
    fn the_command_names_only_what_is_missing() {
        let needs: Vec<_> =
            needs::NEEDS.iter().filter(|it| matches!(it.name(), "clang" | "libelf")).collect();
        let debian =
            "apt-get update && apt-get install -y --no-install-recommends clang libelf-dev";
        assert_eq!(needs::install_command(&needs, Some(DEBIAN)).as_deref(), Some(debian));
        let fedora = "dnf install -y clang elfutils-libelf-devel";
        assert_eq!(needs::install_command(&needs, Some(1)).as_deref(), Some(fedora));
        assert_eq!(needs::install_command(&needs, None), None);
    }
}
