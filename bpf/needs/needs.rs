//! What a build needs of the system beyond Rust and a C compiler, and the command that brings it.
//!
//! `build.rs` and `xtask` share this file, so that both name the same command.

use std::fs;
use std::process::Command;
use std::process::Stdio;

/// One thing that the build needs, and the package that holds it in each family of distributions.
#[derive(Debug)]
pub(crate) struct Need {
    /// What is looked for.
    pub(crate) probe: Probe,
    /// The package's name, in the order of [`FAMILIES`].
    pub(crate) packages: [&'static str; FAMILIES.len()],
}

/// How a need is looked for.
#[derive(Debug)]
pub(crate) enum Probe {
    /// A program that runs.
    Program(&'static str),
    /// A library that `pkg-config` knows.
    Library(&'static str),
}

/// Distributions that share their packages' names and the command that installs them.
#[derive(Debug)]
pub(crate) struct Family {
    /// Words of `ID` and `ID_LIKE` in os-release(5).
    pub(crate) ids: &'static [&'static str],
    /// What to do first, where a new machine knows no packages yet.
    pub(crate) refresh: Option<&'static str>,
    /// The command, to which the packages are appended.
    pub(crate) install: &'static str,
}

/// The families whose packages we know; the first one's are installed by `xtask`.
pub(crate) const FAMILIES: [Family; 4] = [
    Family {
        ids: &["debian", "ubuntu"],
        refresh: Some("apt-get update"),
        install: "apt-get install -y --no-install-recommends",
    },
    Family { ids: &["fedora", "rhel"], refresh: None, install: "dnf install -y" },
    Family { ids: &["arch"], refresh: None, install: "pacman -S --needed" },
    Family { ids: &["suse", "opensuse"], refresh: None, install: "zypper install" },
];

/// What the build needs: libbpf is built from source by `libbpf-sys`, with make, over libelf and
/// zlib; clang compiles the BPF programs.
pub(crate) const NEEDS: [Need; 5] = [
    Need { probe: Probe::Program("clang"), packages: ["clang", "clang", "clang", "clang"] },
    Need { probe: Probe::Program("make"), packages: ["make", "make", "make", "make"] },
    Need {
        probe: Probe::Program("pkg-config"),
        packages: ["pkg-config", "pkgconf-pkg-config", "pkgconf", "pkgconf"],
    },
    Need {
        probe: Probe::Library("libelf"),
        packages: ["libelf-dev", "elfutils-libelf-devel", "libelf", "libelf-devel"],
    },
    Need {
        probe: Probe::Library("zlib"),
        packages: ["zlib1g-dev", "zlib-devel", "zlib", "zlib-devel"],
    },
];

impl Need {
    /// The program's or library's name.
    pub(crate) fn name(&self) -> &'static str {
        match self.probe {
            Probe::Program(name) | Probe::Library(name) => name,
        }
    }

    /// Whether the machine has it. Without `pkg-config` no library counts as there.
    pub(crate) fn is_met(&self) -> bool {
        let mut probe = match self.probe {
            Probe::Program(name) => {
                let mut program = Command::new(name);
                program.arg("--version");
                program
            }
            Probe::Library(name) => {
                let mut program = Command::new("pkg-config");
                program.args(["--exists", name]);
                program
            }
        };
        probe.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    }
}

/// The needs that this machine does not meet.
pub(crate) fn missing() -> Vec<&'static Need> {
    NEEDS.iter().filter(|need| !need.is_met()).collect()
}

/// The machine's family, as an index into [`FAMILIES`], if it is one that we know.
pub(crate) fn family() -> Option<usize> {
    let os_release = ["/etc/os-release", "/usr/lib/os-release"]
        .iter()
        .find_map(|path| fs::read_to_string(path).ok())?;
    family_in(&os_release)
}

/// The family that an os-release(5) file names.
pub(crate) fn family_in(os_release: &str) -> Option<usize> {
    let words: Vec<&str> = os_release
        .lines()
        .filter_map(|line| line.strip_prefix("ID=").or_else(|| line.strip_prefix("ID_LIKE=")))
        .flat_map(|value| value.trim_matches('"').split_whitespace())
        .collect();
    FAMILIES.iter().position(|family| {
        words.iter().any(|word| {
            family.ids.iter().any(|id| {
                word == id || word.strip_prefix(id).is_some_and(|rest| rest.starts_with('-'))
            })
        })
    })
}

/// The command that brings `needs` to a machine of `family`; `None` is a machine that we do not
/// know, where the user is told the things instead of their packages.
pub(crate) fn install_command(needs: &[&Need], family: Option<usize>) -> Option<String> {
    let index = family?;
    let family = FAMILIES.get(index)?;
    let packages: Vec<&str> =
        needs.iter().filter_map(|need| need.packages.get(index).copied()).collect();
    let refresh = family.refresh.map(|it| format!("{it} && ")).unwrap_or_default();
    Some(format!("{refresh}{} {}", family.install, packages.join(" ")))
}

/// One line on what is missing, and one on how to get it.
pub(crate) fn explain(needs: &[&Need], family: Option<usize>) -> [String; 2] {
    let names: Vec<&str> = needs.iter().map(|need| need.name()).collect();
    let hint = match install_command(needs, family) {
        Some(command) => format!("run `{command}` as root, or let `cargo xtask setup` do it"),
        None => "install them with this system's package manager, headers included".to_owned(),
    };
    [format!("the build needs what this machine lacks: {}", names.join(", ")), hint]
}
