//! The compiler: which one, and what it is told.

use std::env;
use std::env::consts::ARCH;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;

use super::Error;
use super::Options;
use super::headers::Folders;
use super::readable;

/// A compiler, and what it is told each time.
#[derive(Debug)]
pub(super) struct Clang<'a> {
    path: PathBuf,
    options: &'a Options,
}

impl<'a> Clang<'a> {
    /// The one that is asked for; else `clang`, or the newest `clang-N`, in `PATH`.
    pub(super) fn find(options: &'a Options) -> Result<Self, Error> {
        let path = match &options.clang {
            Some(path) => path.clone(),
            None => {
                let folders = env::var_os("PATH").unwrap_or_default();
                let found = in_folders(env::split_paths(&folders));
                found.ok_or_else(|| Error::NoClang { name: "clang".to_owned() })?
            }
        };
        Ok(Self { path, options })
    }

    /// The text that the compiler sees once everything is included, with lines that say whence.
    pub(super) fn preprocess(&self, source: &Path, folders: &Folders) -> Result<Vec<u8>, Error> {
        let mut command = Command::new(&self.path);
        command.args(args(self.options, source, folders)).arg("-E").arg(as_file(source));
        Ok(self.run(command)?.stdout)
    }

    /// Writes the object of `source`, and returns what the compiler says nevertheless.
    pub(super) fn compile(
        &self,
        source: &Path,
        folders: &Folders,
        object: &Path,
    ) -> Result<String, Error> {
        let mut command = Command::new(&self.path);
        command.args(args(self.options, source, folders)).arg("-c").arg(as_file(source));
        command.arg("-o").arg(object);
        Ok(readable(&self.run(command)?.stderr))
    }

    fn run(&self, mut command: Command) -> Result<Output, Error> {
        tracing::debug!(?command, "compile");
        let name = || self.path.display().to_string();
        let output =
            command.stdin(Stdio::null()).output().map_err(|source| match source.kind() {
                io::ErrorKind::NotFound => Error::NoClang { name: name() },
                _ => Error::Run { clang: name(), source },
            })?;
        if output.status.success() {
            return Ok(output);
        }
        let mut messages = readable(&output.stderr);
        if messages.is_empty() {
            messages = format!("{}: {}\n", name(), output.status);
        }
        Err(Error::Compile { clang: name(), messages })
    }
}

/// `clang` in the first folder that has it, or the newest `clang-N` of all.
fn in_folders(folders: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    let folders: Vec<PathBuf> = folders.filter(|it| it.is_absolute()).collect();
    let plain = folders.iter().map(|it| it.join("clang")).find(|it| it.is_file());
    let numbered = || {
        let entries = folders.iter().filter_map(|it| it.read_dir().ok()).flatten().flatten();
        let versions =
            entries.filter_map(|it| Some((version(it.file_name().to_str()?)?, it.path())));
        versions.max_by_key(|it| it.0).map(|it| it.1)
    };
    plain.or_else(numbered)
}

/// The N of `clang-N`.
fn version(name: &str) -> Option<u32> {
    name.strip_prefix("clang-")?.parse().ok()
}

/// What is told each time.
///
/// Users' own arguments come after ours, which they may take back, and before the folders where
/// headers are looked for: the source's own, then ours, then those of the system.
fn args(options: &Options, source: &Path, folders: &Folders) -> Vec<OsString> {
    let target = format!("-D__TARGET_ARCH_{}", arch(ARCH));
    // Version 3 of the instructions came with Linux 5.1. A stack protector cannot be had in BPF.
    let ours = ["-g", "-O2", "-target", "bpf", "-mcpu=v3", "-fno-stack-protector", target.as_str()];
    let mut args: Vec<OsString> = ours.iter().map(OsString::from).collect();
    args.extend(options.args.iter().map(OsString::from));
    let beside = source.parent().filter(|it| !it.as_os_str().is_empty());
    for folder in [beside.unwrap_or(Path::new(".")), &folders.headers] {
        args.extend([OsString::from("-I"), as_file(folder).into()]);
    }
    // The target BPF has no headers of its own: `asm/` is where the host's compiler has it.
    args.extend(
        ["-idirafter".to_owned(), format!("/usr/include/{ARCH}-linux-gnu")].map(OsString::from),
    );
    args.extend([OsString::from("-idirafter"), folders.fallback.clone().into()]);
    args
}

/// How libbpf's headers call an architecture.
fn arch(rust: &str) -> &str {
    match rust {
        "x86_64" => "x86",
        "aarch64" => "arm64",
        "powerpc64" => "powerpc",
        "s390x" => "s390",
        "riscv64" => "riscv",
        "loongarch64" => "loongarch",
        "sparc64" => "sparc",
        "mips64" => "mips",
        other => other,
    }
}

/// A path that no compiler takes for an option.
fn as_file(path: &Path) -> PathBuf {
    if path.as_os_str().as_encoded_bytes().starts_with(b"-") {
        Path::new(".").join(path)
    } else {
        path.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn users_arguments_come_between_ours() {
        let options = Options { clang: None, args: vec!["-DN=1".to_owned(), "-O1".to_owned()] };
        let folders = Folders { headers: "/t/headers".into(), fallback: "/t/fallback".into() };
        let args: Vec<_> = args(&options, Path::new("at/it.bpf.c"), &folders)
            .into_iter()
            .map(|it| it.into_string().unwrap())
            .collect();
        let want = format!(
            "-g -O2 -target bpf -mcpu=v3 -fno-stack-protector -D__TARGET_ARCH_{} -DN=1 -O1 \
             -I at -I /t/headers -idirafter /usr/include/{ARCH}-linux-gnu -idirafter /t/fallback",
            arch(ARCH)
        );
        assert_eq!(args.join(" "), want);
    }

    #[test]
    fn the_plain_name_goes_before_the_newest_with_a_number() {
        let scratch = tempfile::tempdir().unwrap();
        let folders = ["a", "b"].map(|it| scratch.path().join(it));
        let find = || in_folders(folders.iter().cloned().chain([PathBuf::from("relative")]));
        for it in &folders {
            fs::create_dir(it).unwrap();
        }
        assert_eq!(find(), None);
        for name in ["a/clang-9", "b/clang-14", "a/clang-format-99", "a/clang-12"] {
            fs::write(scratch.path().join(name), "").unwrap();
        }
        assert_eq!(find(), Some(folders[1].join("clang-14")));
        fs::write(folders[1].join("clang"), "").unwrap();
        assert_eq!(find(), Some(folders[1].join("clang")));
    }

    #[test]
    fn a_source_is_no_option() {
        assert_eq!(as_file(Path::new("-o.bpf.c")), Path::new("./-o.bpf.c"));
        assert_eq!(as_file(Path::new("a/-o.bpf.c")), Path::new("a/-o.bpf.c"));
    }

    #[test]
    fn architectures_are_called_as_the_headers_call_them() {
        assert_eq!(
            ["x86_64", "aarch64", "riscv64", "other"].map(arch),
            ["x86", "arm64", "riscv", "other"]
        );
    }
}
