//! `peer`: lays the newest Linux perf that Debian packages beside the build, and bpftool with it.
//!
//! Agreement tests and benchmarks compare with it. Nothing is installed: apt downloads the packages
//! over a state of its own, they are unpacked under `target/peer`, and a wrapper runs each program
//! with the loader and the libraries that came with it, so the age of this machine's does not matter.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use crate::shell::Failure;
use crate::shell::Shell;

/// Where the newest perf is packaged.
const SUITE: &str = "trixie";
const BACKPORTS: &str = "trixie-backports";

/// Debian's keys, which apt need not trust for all sources.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The packages, and what we run of them.
const PACKAGES: [&str; 2] = ["linux-perf", "bpftool"];
const PROGRAMS: [&str; 2] = ["perf", "bpftool"];

/// Lays the peer down, once. Where it cannot be had, that is told; in CI it is an error.
pub(crate) fn run(shell: &Shell, _args: &[String]) -> Result<(), Failure> {
    match lay(shell) {
        Ok(perf) => {
            let version = shell.output(Command::new(&perf).arg("--version"))?;
            println!("peer: {}", version.trim_end());
            Ok(())
        }
        Err(Failure::Interrupted) => Err(Failure::Interrupted),
        Err(failure) if env::var_os("CI").is_some() => Err(failure),
        Err(failure) => {
            println!("peer: not here, so tests and benchmarks do without ({failure})");
            Ok(())
        }
    }
}

/// The peer's perf, if it was laid: named by `BPFPERF_PEER`, or below the build.
pub(crate) fn found(shell: &Shell) -> Option<PathBuf> {
    let named = env::var_os("BPFPERF_PEER").map(PathBuf::from);
    [named, Some(shell.target().join("peer/perf"))].into_iter().flatten().find(|it| it.is_file())
}

fn lay(shell: &Shell) -> Result<PathBuf, Failure> {
    if let Some(perf) = found(shell) {
        return Ok(perf);
    }
    let dir = shell.target().join("peer");
    let new = shell.target().join("peer.new");
    let outcome = unpack(shell, &new, &dir);
    if outcome.is_ok() {
        clear(&dir)?;
        fs::rename(&new, &dir).map_err(|error| cannot("rename", &new, &error))?;
    } else {
        clear(&new)?;
    }
    outcome.map(|()| dir.join("perf"))
}

/// Unpacks the packages in `new`, with wrappers for when it will be `dir`.
fn unpack(shell: &Shell, new: &Path, dir: &Path) -> Result<(), Failure> {
    clear(new)?;
    let mirror = mirror(shell)?;
    for part in ["lists/partial", "archives/partial", "state", "root"] {
        let part = new.join(part);
        fs::create_dir_all(&part).map_err(|error| cannot("create", &part, &error))?;
    }
    let trust =
        if Path::new(KEYRING).exists() { format!("[signed-by={KEYRING}] ") } else { String::new() };
    let sources = [SUITE, BACKPORTS].map(|suite| format!("deb {trust}{mirror} {suite} main\n"));
    write(&new.join("sources.list"), &sources.concat())?;
    write(&new.join("status"), "")?;

    shell.run(apt(shell, new).args(["-qq", "update"]))?;
    let mut download = apt(shell, new);
    download.args(["-qq", "-y", "--download-only", "-t", BACKPORTS, "install"]).args(PACKAGES);
    shell.run(&mut download)?;

    let root = new.join("root");
    let archives = new.join("archives");
    println!("+ dpkg-deb -x each of {} {}", archives.display(), root.display());
    for package in entries(&archives)?.iter().filter(|it| it.extension() == Some("deb".as_ref())) {
        shell.go_on()?;
        let unpacked = Command::new("dpkg-deb").arg("-x").arg(package).arg(&root).status();
        if !unpacked.as_ref().is_ok_and(std::process::ExitStatus::success) {
            let name = package.display();
            return Err(Failure::new(format!("cannot unpack `{name}`: {unpacked:?}")));
        }
    }
    for part in ["lists", "archives", "state"] {
        clear(&new.join(part))?;
    }

    let loader = loader(&root)?;
    for program in PROGRAMS {
        let file = ["usr/bin", "usr/sbin"].map(|it| Path::new(it).join(program));
        let Some(file) = file.iter().find(|it| root.join(it).exists()) else {
            return Err(Failure::new(format!("the packages {PACKAGES:?} hold no `{program}`")));
        };
        let home = dir.join("root");
        let [loader, file] = [&loader, file].map(|it| home.join(it));
        let libraries = loader.parent().unwrap_or(&home).display();
        let wrapper = new.join(program);
        let script = format!(
            "#!/bin/sh\nexec '{loader}' --library-path '{libraries}' --argv0 {program} '{file}' \"$@\"\n",
            loader = loader.display(),
            file = file.display(),
        );
        write(&wrapper, &script)?;
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&wrapper, mode).map_err(|error| cannot("change", &wrapper, &error))?;
    }
    Ok(())
}

/// The Debian mirror that this machine's apt is set up with.
fn mirror(shell: &Shell) -> Result<String, Failure> {
    let mut targets = shell.command("apt-get");
    targets.args(["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]);
    let targets = shell.output(&mut targets)?;
    match mirror_in(&targets) {
        Some(mirror) => Ok(mirror.to_owned()),
        None => Err(Failure::new("apt knows no Debian mirror on this machine")),
    }
}

fn mirror_in(targets: &str) -> Option<&str> {
    targets.lines().map(|it| it.trim_end_matches('/')).find(|it| it.ends_with("/debian"))
}

/// apt-get over lists and archives of its own: it neither reads nor changes the machine's.
fn apt(shell: &Shell, dir: &Path) -> Command {
    let mut apt = shell.command("apt-get");
    let places = [
        ("Dir::Etc::SourceList", "sources.list"),
        ("Dir::State", "state"),
        ("Dir::State::Lists", "lists"),
        ("Dir::State::status", "status"),
        ("Dir::Cache", "."),
        ("Dir::Cache::Archives", "archives"),
    ];
    for (option, place) in places {
        let mut setting = OsString::from(format!("{option}="));
        setting.push(dir.join(place));
        apt.arg("-o").arg(setting);
    }
    let settings = [
        "Dir::Etc::SourceParts=/dev/null",
        "APT::Install-Recommends=false",
        // The lists are ours alone, in a folder that apt's own user may not enter.
        "APT::Sandbox::User=root",
        "Debug::NoLocking=true",
    ];
    for setting in settings {
        apt.args(["-o", setting]);
    }
    apt
}

/// The dynamic loader that came with the packages, from `root` on.
fn loader(root: &Path) -> Result<PathBuf, Failure> {
    let lib = root.join("usr/lib");
    for folder in entries(&lib)?.into_iter().chain([lib, root.join("usr/lib64")]) {
        let is_loader = |file: &&PathBuf| {
            file.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"ld-linux"))
        };
        let files = if folder.is_dir() { entries(&folder)? } else { Vec::new() };
        if let Some(loader) = files.iter().find(is_loader) {
            return Ok(loader.strip_prefix(root).unwrap_or(loader).to_owned());
        }
    }
    Err(Failure::new("the packages hold no dynamic loader"))
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries: io::Result<Vec<_>> =
        fs::read_dir(dir).and_then(|dir| dir.map(|entry| Ok(entry?.path())).collect());
    entries.map_err(|error| cannot("read", dir, &error))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|error| cannot("write", path, &error))
}

/// Removes a folder, if it is there.
fn clear(dir: &Path) -> Result<(), Failure> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(cannot("remove", dir, &error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn cannot(verb: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot {verb} `{}`: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_the_one_of_packages_not_of_security_fixes() {
        let targets = "http://mirror/debian-security/\nhttp://mirror/debian/\n";
        assert_eq!(mirror_in(targets), Some("http://mirror/debian"));
        assert_eq!(mirror_in("http://mirror/ubuntu/\n"), None);
    }
}
