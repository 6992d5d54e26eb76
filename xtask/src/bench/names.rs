//! `bench names`: what names, lines and stacks cost to report, against the newest perf in the same run.
//!
//! `cargo xtask bench names [RUNS]`. It makes C++ programs with much debug information: one source,
//! compiled once, copied into as many units as it takes. Rows of the flat reports are compared, too.
//! Reports with inlined functions are timed twice: with nothing kept by an earlier run, and with what the
//! one before kept. At last it records 1,500 commands that come and go, with and without the saving of
//! their files.

use std::ffi::OsStr;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

use crate::shell::Failure;
use crate::shell::Shell;

use super::Cost;
use super::Programs;
use super::median;
use super::n_runs;
use super::ratio;
use super::told;

/// The source of one unit; its function `entry` gets a name of its own in each copy.
const SOURCE: &str = include_str!("large.cpp");
/// As many units as make 58 MB of debug information, and 1 GB.
const UNITS: [usize; 2] = [24, 380];
/// The commands that come and go.
const COMMANDS: &str = "i=0; while [ $i -lt 1500 ]; do /bin/true; i=$((i+1)); done";

const WITH_INLINES: &[&str] = &["report", "--stdio"];
const WITHOUT: &[&str] = &["report", "--stdio", "--no-inline"];
const FLAT: &[&str] = &["report", "--stdio", "--no-inline", "--no-children", "-g", "none"];

/// A recording that is reported.
struct Recorded {
    what: &'static str,
    /// Which of the programs.
    program: usize,
    options: &'static [&'static str],
    /// How often the program goes round.
    rounds: &'static str,
    reports: &'static [&'static [&'static str]],
}

const RECORDED: [Recorded; 4] = [
    Recorded {
        what: "1,000 samples",
        program: 0,
        options: &["-F", "1000"],
        rounds: "120",
        reports: &[WITHOUT],
    },
    Recorded {
        what: "58 MB of debug information",
        program: 0,
        options: &["-g", "-F", "5000"],
        rounds: "80",
        reports: &[WITH_INLINES, WITHOUT, FLAT],
    },
    Recorded {
        what: "1 GB of debug information",
        program: 1,
        options: &["-g", "-F", "500"],
        rounds: "20",
        reports: &[WITH_INLINES, FLAT],
    },
    Recorded {
        what: "stacks of 8 KiB",
        program: 0,
        options: &["--call-graph", "dwarf,8192", "-F", "8000"],
        rounds: "500",
        reports: &[WITHOUT, FLAT],
    },
];

pub(super) fn run(shell: &Shell, args: &[String]) -> Result<(), Failure> {
    let n_runs = n_runs(args.first())?;
    let Programs { ours, peer } = Programs::get(shell)?;
    let folder = shell.target().join("bench/names");
    let cannot = |error| Failure::new(format!("cannot use `{}`: {error}", folder.display()));
    fs::create_dir_all(&folder).map_err(cannot)?;
    let programs = UNITS.map(|n| folder.join(format!("units{n}")));
    for (program, n_units) in programs.iter().zip(UNITS) {
        if !program.is_file() {
            build(shell, &folder, program, n_units)?;
        }
    }
    for (number, Recorded { what, program, options, rounds, reports }) in
        RECORDED.iter().enumerate()
    {
        let data = folder.join(format!("{number}.data"));
        let mut record = shell.command(&ours);
        record.args(["record", "-q", "-e", "cpu-clock:u", "-o"]).arg(&data).args(*options);
        shell.run(record.arg("--").arg(&programs[*program]).arg(rounds))?;
        let len = fs::metadata(&data).map_err(cannot)?.len();
        println!("{what}, {} MB of recording", len / 1_000_000);
        for report in *reports {
            compare(shell, &ours, &peer, &folder, &data, report, n_runs)?;
        }
    }
    commands(shell, &ours, &peer, &folder, n_runs)
}

/// Times a report by both, in turns.
fn compare(
    shell: &Shell,
    ours: &Path,
    peer: &Path,
    folder: &Path,
    data: &Path,
    report: &[&str],
    n_runs: usize,
) -> Result<(), Failure> {
    let cannot = |error| Failure::new(format!("cannot use `{}`: {error}", folder.display()));
    let cache = folder.join("cache");
    let args = || report.iter().map(OsStr::new).chain(["-i".as_ref(), data.as_os_str()]);
    let cost = |program| cost(shell, program, args(), &cache);
    let [mut first, mut again, mut theirs] = [const { Vec::new() }; 3];
    for _ in 0..n_runs {
        if cache.is_dir() {
            fs::remove_dir_all(&cache).map_err(cannot)?;
        }
        fs::create_dir_all(&cache).map_err(cannot)?;
        first.push(cost(ours)?);
        if report == WITH_INLINES {
            again.push(cost(ours)?);
        }
        theirs.push(cost(peer)?);
    }
    println!(" {}", report.join(" "));
    let theirs = median(&theirs);
    println!("  peer {}", told(theirs));
    for (what, costs) in [("ours", &first), ("again", &again)] {
        if !costs.is_empty() {
            println!("  {what} {}", against(median(costs), theirs));
        }
    }
    if report == FLAT {
        let text = |program: &Path| shell.output(shell.command(program).args(args()));
        let (same, all) = same_rows(&text(ours)?, &text(peer)?);
        println!("  {same} of {all} rows are the peer's");
    }
    Ok(())
}

fn against(ours: Cost, theirs: Cost) -> String {
    format!(
        "{}: {:.1} times as fast, {:.1} in CPU time, in {:.2} of the memory",
        told(ours),
        ratio(theirs.wall_ms, ours.wall_ms),
        ratio(theirs.cpu_ms, ours.cpu_ms),
        ratio(ours.peak_kib, theirs.peak_kib)
    )
}

/// As [`super::cost`], with no cache but the one below `cache`, and no servers.
fn cost(
    shell: &Shell,
    program: &Path,
    args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    cache: &Path,
) -> Result<Cost, Failure> {
    let mut setting = OsString::from("XDG_CACHE_HOME=");
    setting.push(cache);
    let all = ["-u".into(), "DEBUGINFOD_URLS".into(), setting, program.into()];
    let args = args.into_iter().map(|it| it.as_ref().to_owned());
    super::cost(shell, Path::new("env"), all.into_iter().chain(args))
}

/// How many rows of the one report the other has, too, and how many rows there are.
fn same_rows(one: &str, other: &str) -> (usize, usize) {
    let rows = |text: &str| {
        let lines = text.lines().filter(|it| !it.starts_with('#') && !it.trim().is_empty());
        let words = |it: &str| it.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut rows: Vec<String> = lines.map(words).collect();
        rows.sort();
        rows
    };
    let (one, mut other) = (rows(one), rows(other));
    let n_rows = one.len().max(other.len());
    let is_there = |it: &&String| other.binary_search(it).map(|at| other.remove(at)).is_ok();
    (one.iter().filter(is_there).count(), n_rows)
}

/// Makes a program of `n_units` copies of the source.
fn build(shell: &Shell, folder: &Path, program: &Path, n_units: usize) -> Result<(), Failure> {
    println!("bench: making {}", program.display());
    let cannot = |error| Failure::new(format!("cannot use `{}`: {error}", folder.display()));
    let path = |name: &str| folder.join(name);
    let (source, object, whole) = (path("large.cpp"), path("large.o"), path("whole.o"));
    fs::write(&source, SOURCE).map_err(cannot)?;
    let mut compile = shell.command("g++");
    compile.args(["-std=c++20", "-O2", "-g", "-fno-gnu-unique", "-c", "-o"]);
    shell.run(compile.arg(&object).arg(&source))?;
    // Groups of sections would be kept once for all copies.
    let mut link = shell.command("ld");
    shell.run(link.args(["-r", "--force-group-allocation", "-o"]).arg(&whole).arg(&object))?;
    let mut copies: Vec<PathBuf> = Vec::new();
    for number in 0..n_units {
        let copy = path(&format!("copy{number}.o"));
        let mut rename = shell.command("objcopy");
        rename.arg(format!("--keep-global-symbol=entry{number}"));
        rename.arg(format!("--redefine-sym=entry=entry{number}"));
        shell.run(rename.arg(&whole).arg(&copy))?;
        copies.push(copy);
    }
    let lines = |line: &str| {
        let numbers = (0..n_units).map(|it| line.replace('N', &it.to_string()));
        numbers.collect::<Vec<_>>().join("\n")
    };
    let main = [
        "#include <stdlib.h>",
        &lines("double entryN(unsigned);"),
        "int main(int argc, char **argv) { double sum = argc;",
        "for (int round = 0; round < atoi(argv[1]); round++) {",
        &lines("sum += entryN(round);"),
        "} return sum < 0; }\n",
    ]
    .join("\n");
    let (source, object) = (path("main.c"), path("main.o"));
    fs::write(&source, main).map_err(cannot)?;
    shell.run(shell.command("gcc").args(["-O1", "-g", "-c", "-o"]).arg(&object).arg(&source))?;
    shell.run(shell.command("g++").arg("-o").arg(program).arg(&object).args(&copies))?;
    copies.iter().try_for_each(fs::remove_file).map_err(cannot)
}

/// Records commands that come and go, with the saving of files and without.
fn commands(
    shell: &Shell,
    ours: &Path,
    peer: &Path,
    folder: &Path,
    n_runs: usize,
) -> Result<(), Failure> {
    println!("record -a of 1,500 commands that come and go");
    let data = folder.join("commands.data");
    for (what, program, options) in
        [("peer", peer, None), ("ours", ours, None), ("ours", ours, Some("-B"))]
    {
        let mut costs = Vec::new();
        for _ in 0..n_runs {
            let mut args = vec!["record".as_ref(), "-o".as_ref(), data.as_os_str()];
            args.extend(["-a", "-e", "cpu-clock", "-F", "99"].map(OsStr::new));
            args.extend(options.map(OsStr::new));
            args.extend(["--", "sh", "-c", COMMANDS].map(OsStr::new));
            costs.push(super::cost(shell, program, args)?);
        }
        println!("  {what} {} {}", told(median(&costs)), options.unwrap_or_default());
    }
    let cannot = |error| Failure::new(format!("cannot use `{}`: {error}", data.display()));
    fs::remove_file(&data).map_err(cannot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_the_same_however_wide_their_columns_are() {
        let one = "# head\n 50.00%  a  b\n 30.00% a  c\n\n 20.00% a d\n";
        let other = "#\n50.00%   a b\n 31.00% a c\n20.00% a d\n";
        assert_eq!(same_rows(one, other), (2, 3));
        assert_eq!(same_rows("1% a\n1% a\n", "1% a\n"), (1, 2));
    }
}
