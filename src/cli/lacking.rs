//! Which files lack symbols, what that costs, and what would help on this machine.

use std::env;

use crate::host::files::Disk;
use crate::host::packages::dpkg_owner;
use crate::replay::Lacked;
use crate::replay::Lacking;
use crate::replay::Nameless;
use crate::replay::Names;
use crate::replay::NoKernel;
use crate::replay::Unnamed;
use crate::replay::resolved::Dso;
use crate::symbols::Error;
use crate::symbols::Files as _;
use crate::symbols::Identity;
use crate::symbols::ModuleFile;
use crate::symbols::Symfs;
use crate::symbols::undeleted;
use crate::units::Pid;

use super::message;

/// The most files that are named.
const MAX_NAMED: usize = 3;
/// What costs fewer samples than this, in percent of all, is not worth a line.
const MIN_PERCENT: f64 = 0.1;

/// What of the machine the advice depends on.
struct Means<'m> {
    /// Whether servers are asked for debug information already.
    has_servers: bool,
    /// The package of this machine that a file came with.
    owner: &'m dyn Fn(&ModuleFile) -> Option<String>,
}

/// Tells which files lack symbols, how many samples that costs, and what to do about the heaviest.
///
/// Below `symfs` are files of another machine, which no package of this one helps.
pub(super) fn tell(names: &Names<'_>, nameless: &Nameless, symfs: Option<&Symfs>) {
    for (map, n_lines) in names.skipped_lines() {
        message::warn(&skipped(map, n_lines));
    }
    let lacking = names.lacking(nameless);
    let urls = env::var_os("DEBUGINFOD_URLS");
    let has_servers = urls.is_some_and(|it| !it.is_empty());
    let means = Means { has_servers, owner: &|it| symfs.is_none().then(|| package(it))? };
    let Some((warning, hint)) = lines(&lacking, nameless.n_samples, &means) else { return };
    message::warn(&warning);
    message::hint(&hint);
}

/// Tells that so many lines of `map` made no sense.
fn skipped(map: &Dso, n_lines: u64) -> String {
    let path = &map.long_name;
    match n_lines {
        1 => format!("1 line of `{path}` is no entry and was skipped"),
        n => format!("{n} lines of `{path}` are no entries and were skipped"),
    }
}

/// A warning and a hint; `None` where nothing of weight is lacking.
fn lines(lacking: &[Lacking<'_>], n_samples: u64, means: &Means<'_>) -> Option<(String, String)> {
    let percent = |n: u64| n as f64 * 100.0 / n_samples.max(1) as f64;
    let all: u64 = lacking.iter().map(|it| it.n_samples).sum();
    let heaviest = lacking.first()?;
    if percent(all) < MIN_PERCENT {
        return None;
    }
    let shown = lacking.iter().take(MAX_NAMED);
    let worth = shown.filter(|it| MIN_PERCENT <= percent(it.n_samples)).count().max(1);
    let mut parts: Vec<String> = lacking
        .iter()
        .take(worth)
        .map(|it| {
            let (name, percent) = (&it.dso.short_name, percent(it.n_samples));
            format!("`{name}` {percent:.1} % ({})", in_words(&it.what))
        })
        .collect();
    let rest = lacking.get(worth..).unwrap_or_default();
    if !rest.is_empty() {
        let n_samples = rest.iter().map(|it| it.n_samples).sum();
        let files = if rest.len() == 1 { "file" } else { "files" };
        parts.push(format!("{} more {files} {:.1} %", rest.len(), percent(n_samples)));
    }
    let warning =
        format!("no names for {:.1} % of the samples: {}", percent(all), parts.join(", "));
    let others = lacking.get(1..worth).unwrap_or_default();
    Some((warning, hint(heaviest, others, means)))
}

/// The package that a file came with, if it is this machine's: a container, or the machine whose files
/// `--symfs` has, may have another file at the path, of another distribution.
fn package(file: &ModuleFile) -> Option<String> {
    let path = undeleted(&file.path).unwrap_or(&file.path);
    let there = Disk.open(path).ok()?;
    let is_it = match file.build_id {
        Some(id) => Identity::of(&there.bytes).ok()?.build_id == Some(id),
        None => there.status.is_inode(file.inode?),
    };
    is_it.then(|| dpkg_owner(path))?
}

/// Why a file has no names, in a word or two.
fn in_words(what: &Lacked<'_>) -> String {
    let words = match what {
        Lacked::Symbols(_) => "stripped",
        Lacked::TooLong(_, at) => {
            let at = at.display();
            return format!("stripped; `{at}` is too long to be known by its CRC");
        }
        Lacked::File(_, Error::Open { .. }) => "not there",
        Lacked::File(_, Error::OtherBuild { .. }) => "another build is there",
        Lacked::File(_, Error::OtherFile { .. }) => {
            "another file is there, or it was written to since"
        }
        Lacked::File(..) => "no ELF file",
        Lacked::Map(_, why) => return why.to_string(),
        Lacked::Moved(file) => {
            let path = String::from_utf8_lossy(&file.path);
            return format!("in memory without a file, where the code of `{path}` was before");
        }
        Lacked::Kernel(NoKernel::Hidden) => "it hides its addresses",
        Lacked::Kernel(NoKernel::Other) => "no kernel at hand is known to be the recorded one",
    };
    words.to_owned()
}

/// What would bring the names of `lacking`, and of `others` by the same means.
fn hint(lacking: &Lacking<'_>, others: &[Lacking<'_>], means: &Means<'_>) -> String {
    let Lacking { dso, what, n_samples: _ } = lacking;
    let (file, error) = match *what {
        Lacked::Symbols(file) | Lacked::TooLong(file, _) => (file, None),
        Lacked::File(file, error) => (file, Some(error)),
        Lacked::Map(pid, why) => return hint_of_map(pid, why),
        Lacked::Moved(_) => {
            return "code that a program moves to memory of its own, as for large pages, has no file to \
                    be named by: record it without that"
                .to_owned();
        }
        Lacked::Kernel(why) => return hint_of_kernel(why),
    };
    let path = undeleted(&file.path).unwrap_or(&file.path);
    let name = &dso.short_name;
    let id = file.build_id.map(|it| format!(" with build id {it}")).unwrap_or_default();
    let servers = match (means.has_servers, file.build_id) {
        (false, Some(_)) => ", or set `DEBUGINFOD_URLS` to the servers of the distribution",
        _ => "",
    };
    match error {
        None => match (means.owner)(file) {
            Some(package) => {
                let mut packages = vec![symbols_of(&package)];
                for other in others {
                    if let Lacked::Symbols(file) = other.what
                        && let Some(package) = (means.owner)(file)
                    {
                        packages.push(symbols_of(&package));
                    }
                }
                packages.dedup();
                format!(
                    "install the debug symbols, of the distribution's archive for them: {}{servers}",
                    packages.join(", ")
                )
            }
            None => format!(
                "`{name}`{id} needs its debug file below `/usr/lib/debug`, beside it, or in \
                 `~/.debug`{servers}"
            ),
        },
        Some(Error::OtherFile { .. }) => format!(
            "`--symfs DIR` takes `{name}` from below a directory as it is, `--symfs /` from `{}`",
            path.display()
        ),
        Some(_) => format!(
            "say with `--symfs DIR` where the recorded machine's `{}`{id} is{servers}",
            path.display()
        ),
    }
}

/// The package with the debug symbols of `package`, as Debian and those after it call it.
///
/// Source: `debug-packages` of the C library is made by its own rules, since `valgrind` and `gdb` need it; all
/// others are made by `dh_strip(1)`.
fn symbols_of(package: &str) -> String {
    match package.strip_prefix("libc6") {
        Some("" | "-i386" | "-amd64" | "-x32") => "`libc6-dbg`".to_owned(),
        _ => format!("`{package}-dbgsym`"),
    }
}

/// What would bring the names of code that a process made.
fn hint_of_map(pid: Pid, why: Unnamed) -> String {
    match why {
        Unnamed::Absent => format!("let the program write `/tmp/perf-{pid}.map` as it makes code"),
        Unnamed::MadeElsewhere => format!(
            "`--symfs DIR` takes `DIR/tmp/perf-{pid}.map` and what else is there for the recorded \
             machine's; `bpfperf record` keeps such maps in the recording"
        ),
        Unnamed::OfAnotherUser => "read the recording as the user who ran the program".to_owned(),
        Unnamed::WrittenSince => {
            "`bpfperf record` without `-B` keeps what programs told of their code until the \
             recording ends"
                .to_owned()
        }
        Unnamed::OfAnotherProgram => {
            "have the program write a `jit-PID.dump`, whose times tell its code from that of the \
             programs before and after it"
                .to_owned()
        }
    }
}

/// What would bring the names of the kernel.
fn hint_of_kernel(why: NoKernel) -> String {
    let what = match why {
        NoKernel::Hidden => {
            "read the recording as root, with `kernel.kptr_restrict` at most 1, or say with \
             `--kallsyms FILE` where a copy of `/proc/kallsyms` is that root made"
        }
        NoKernel::Other => {
            "say with `--vmlinux FILE` where the recorded kernel's symbols are, or with `--kallsyms \
             FILE` where a copy of its `/proc/kallsyms` is"
        }
    };
    what.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::timeline::MappedFile;
    use crate::units::BuildId;

    fn dso(name: &str) -> Dso {
        Dso { short_name: name.to_owned(), long_name: format!("/usr/lib/{name}") }
    }

    /// What is told of files of which `(name, error, n_samples)` is known, of 1000 samples.
    fn told(files: &[(&str, Option<Error>, u64)], has_servers: bool) -> Option<(String, String)> {
        let build_id = BuildId::new(&[0xab; 8]);
        let file = |name| ModuleFile { build_id, ..ModuleFile::at(format!("/usr/lib/{name}")) };
        let known: Vec<_> = files.iter().map(|(name, ..)| (dso(name), file(*name))).collect();
        let lacking: Vec<Lacking<'_>> = known
            .iter()
            .zip(files)
            .map(|((dso, file), (_, error, n_samples))| Lacking {
                dso,
                what: match error {
                    Some(error) => Lacked::File(file, error),
                    None => Lacked::Symbols(file),
                },
                n_samples: *n_samples,
            })
            .collect();
        let owner = |file: &ModuleFile| {
            let packages = [("liba.so", "liba1"), ("c", "c-tools"), ("libc.so.6", "libc6")];
            let own = packages.into_iter().find(|it| file.path.ends_with(it.0));
            own.map(|it| it.1.to_owned())
        };
        lines(&lacking, 1000, &Means { has_servers, owner: &owner })
    }

    #[track_caller]
    fn check(files: &[(&str, Option<Error>, u64)], has_servers: bool, want: [&str; 2]) {
        let (warning, hint) = told(files, has_servers).unwrap();
        assert_eq!([warning.as_str(), hint.as_str()], want);
    }

    fn missing() -> Error {
        Error::Open { path: "/usr/lib/x".into(), reason: "No such file".to_owned() }
    }

    #[test]
    fn the_heaviest_files_are_named_with_what_they_cost() {
        let files = [
            ("liba.so", None, 300),
            ("b", Some(missing()), 50),
            ("c", None, 9),
            ("d", None, 8),
            ("e", None, 1),
        ];
        check(
            &files,
            false,
            [
                "no names for 36.8 % of the samples: `liba.so` 30.0 % (stripped), `b` 5.0 % (not \
                 there), `c` 0.9 % (stripped), 2 more files 0.9 %",
                "install the debug symbols, of the distribution's archive for them: \
                 `liba1-dbgsym`, `c-tools-dbgsym`, or set `DEBUGINFOD_URLS` to the servers of the distribution",
            ],
        );
    }

    #[test]
    fn the_symbols_of_the_c_library_have_a_name_of_their_own() {
        let (_, hint) = told(&[("libc.so.6", None, 300), ("c", None, 200)], true).unwrap();
        assert!(hint.ends_with(": `libc6-dbg`, `c-tools-dbgsym`"), "{hint}");
        assert_eq!(symbols_of("libc6-dev"), "`libc6-dev-dbgsym`");
    }

    #[test]
    fn what_would_help_depends_on_what_is_missing() {
        let warning = |why: &str| format!("no names for 20.0 % of the samples: `x` 20.0 % ({why})");
        check(
            &[("x", None, 200)],
            true,
            [
                &warning("stripped"),
                "`x` with build id abababababababab needs its debug file below `/usr/lib/debug`, \
                 beside it, or in `~/.debug`",
            ],
        );
        check(
            &[("x", Some(missing()), 200)],
            true,
            [
                &warning("not there"),
                "say with `--symfs DIR` where the recorded machine's `/usr/lib/x` with build id \
                 abababababababab is",
            ],
        );
        let other = Some(Error::OtherFile { path: "/usr/lib/x".into() });
        check(
            &[("x", other, 200)],
            true,
            [
                &warning("another file is there, or it was written to since"),
                "`--symfs DIR` takes `x` from below a directory as it is, `--symfs /` from \
                 `/usr/lib/x`",
            ],
        );
    }

    #[test]
    fn code_that_a_process_made_is_told_with_why_its_names_are_not_believed() {
        let dso = dso("[JIT] tid 7");
        let told = |why| {
            let what = Lacked::Map(Pid(7), why);
            let lacking = [Lacking { dso: &dso, what, n_samples: 500 }];
            lines(&lacking, 1000, &Means { has_servers: false, owner: &|_| None }).unwrap()
        };
        let (warning, hint) = told(Unnamed::OfAnotherUser);
        assert_eq!(
            [&*warning, &*hint],
            [
                "no names for 50.0 % of the samples: `[JIT] tid 7` 50.0 % (told by a file of \
                 another user)",
                "read the recording as the user who ran the program",
            ]
        );
        let (warning, hint) = told(Unnamed::Absent);
        assert!(warning.ends_with("(not told by whoever made it)"), "{warning}");
        assert_eq!(hint, "let the program write `/tmp/perf-7.map` as it makes code");
        assert!(
            told(Unnamed::MadeElsewhere).1.starts_with("`--symfs DIR` takes `DIR/tmp/perf-7.map`")
        );
    }

    #[test]
    fn skipped_lines_of_a_map_are_counted() {
        let map = dso("perf-7.map");
        assert_eq!(
            [1, 2].map(|it| skipped(&map, it)),
            [
                "1 line of `/usr/lib/perf-7.map` is no entry and was skipped",
                "2 lines of `/usr/lib/perf-7.map` are no entries and were skipped",
            ]
        );
    }

    #[test]
    fn code_in_the_place_of_a_files_is_told() {
        let dso = dso("[JIT] tid 7");
        let (path, build_id, inode) = (b"/bin/x\x1b".to_vec(), None, None);
        let what = Lacked::Moved(&MappedFile { path, build_id, inode });
        let lacking = [Lacking { dso: &dso, what, n_samples: 500 }];
        let means = Means { has_servers: false, owner: &|_| None };
        let (warning, _) = lines(&lacking, 1000, &means).unwrap();
        let want = "(in memory without a file, where the code of `/bin/x\x1b` was before)";
        assert!(warning.ends_with(want), "{warning}");
    }

    #[test]
    fn a_kernel_without_names_is_told_with_why() {
        let dso = dso("[kernel.kallsyms]");
        let told = |why| {
            let lacking = [Lacking { dso: &dso, what: Lacked::Kernel(why), n_samples: 170 }];
            lines(&lacking, 1000, &Means { has_servers: false, owner: &|_| None }).unwrap()
        };
        let (warning, hint) = told(NoKernel::Hidden);
        assert_eq!(
            warning,
            "no names for 17.0 % of the samples: `[kernel.kallsyms]` 17.0 % (it hides its addresses)"
        );
        assert!(hint.contains("`kernel.kptr_restrict`"), "{hint}");
        let (warning, hint) = told(NoKernel::Other);
        assert!(
            warning.ends_with("(no kernel at hand is known to be the recorded one)"),
            "{warning}"
        );
        assert!(hint.starts_with("say with `--vmlinux FILE`"), "{hint}");
    }

    #[test]
    fn only_what_is_this_machines_has_a_package_of_it() {
        let path = env::current_exe().unwrap();
        let file = ModuleFile { build_id: BuildId::new(&[0xab; 8]), ..ModuleFile::at(&path) };
        assert_eq!(package(&file), None);
        assert_eq!(package(&ModuleFile::at(&path)), None);
        let shell = std::fs::canonicalize("/bin/sh").unwrap();
        let build_id = Identity::of(&std::fs::read(&shell).unwrap()).unwrap().build_id;
        let file = ModuleFile { build_id, ..ModuleFile::at(&shell) };
        assert_eq!(package(&file), dpkg_owner(&shell));
        let other = BuildId::new(&[0xab; 20]);
        assert_eq!(package(&ModuleFile { build_id: other, ..file }), None);
    }

    #[test]
    fn what_costs_next_to_nothing_is_not_told() {
        assert_eq!(told(&[], false), None);
        assert_eq!(told(&[("x", None, 0)], false), None);
        assert!(told(&[("x", None, 1)], false).is_some());
    }
}
