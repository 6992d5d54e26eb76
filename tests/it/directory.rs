//! Recordings that are directories, against what perf 7.3 printed of them, and damaged ones.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::path::PathBuf;

use crate::command::Ran;
use crate::command::run;
use crate::command::shell;
use crate::fixture::SCRIPT;

const NAMES: [&str; 3] = ["perf-7.3", "perf-7.3-z", "perf-6.1"];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/directories").join(name)
}

/// A copy of a recording, to be damaged.
fn copy(to: &Path) -> PathBuf {
    let to = to.join("d");
    fs::create_dir(&to).unwrap();
    for name in ["data", "data.0", "data.1"] {
        fs::copy(fixture("perf-7.3").join(name), to.join(name)).unwrap();
    }
    to
}

fn script(path: &Path) -> Ran {
    run(SCRIPT.map(Into::into).into_iter().chain([path.to_owned().into_os_string()]))
}

/// What `script` says of a recording that `damage` was done to: its status, how many lines it
/// printed, and its messages without the path.
#[track_caller]
fn check(damage: impl FnOnce(&Path), want: (i32, usize, &str)) {
    let scratch = tempfile::tempdir().unwrap();
    let path = copy(scratch.path());
    damage(&path);
    let ran = script(&path);
    let stderr = ran.stderr.replace(path.to_str().unwrap(), "D");
    assert_eq!((ran.status.unwrap(), ran.stdout.lines().count(), stderr.as_str()), want);
}

#[test]
fn the_records_of_all_files_are_printed_as_by_perf() {
    for name in NAMES {
        let ran = script(&fixture(name));
        assert_eq!((ran.stderr.as_str(), ran.status), ("", Some(0)), "{name}");
        let want = fs::read_to_string(fixture(&format!("{name}.txt"))).unwrap();
        assert!(ran.stdout == want, "{name}:\n{}", ran.stdout);
    }
}

#[test]
fn samples_of_all_files_are_counted_and_the_header_tells_of_the_directory() {
    for name in NAMES {
        let path = fixture(name);
        let n_samples = script(&path).stdout.matches(" cpu-clock: ").count();
        let ran = run(["report", "--stdio", "--header", "-i", path.to_str().unwrap()]);
        assert_eq!((ran.stderr.as_str(), ran.status), ("", Some(0)), "{name}");
        assert!(ran.stdout.contains("# directory data version : 1\n"), "{name}");
        let samples = format!("# Samples: {n_samples}  of event 'cpu-clock'\n");
        assert!(3 < n_samples && ran.stdout.contains(&samples), "{name}: {samples}");
    }
}

#[test]
fn each_record_is_dumped_with_its_file_and_its_place_there() {
    let ran = run(["script", "-D", "-i", fixture("perf-7.3").to_str().unwrap()]);
    let places = ran.stdout.lines().filter(|it| it.contains("/perf-7.3/data"));
    let places: Vec<_> = places.map(|it| it.replace(fixture("").to_str().unwrap(), "")).collect();
    assert!(places[0].starts_with("0x118@perf-7.3/data [0x"), "{}", places[0]);
    for file in ["data.0", "data.1"] {
        let first = format!("0@perf-7.3/{file} [0x");
        let n = places.iter().filter(|it| it.starts_with(&first)).count();
        assert_eq!(n, 1, "{first}");
    }
}

#[test]
fn a_missing_file_of_records_is_told_and_the_rest_is_read() {
    let one = "warning: `D` does not have its file `data.0`: the profile is incomplete\n";
    check(|path| fs::remove_file(path.join("data.0")).unwrap(), (0, 21, one));
    let far = "warning: `D` does not have its file `data.1`, nor 18446744073709551613 more: the profile is \
               incomplete\n";
    let rename = |path: &Path| {
        fs::rename(path.join("data.1"), path.join("data.18446744073709551615")).unwrap();
    };
    check(rename, (0, 41, far));
    let remove_all = |path: &Path| {
        fs::remove_file(path.join("data.0")).unwrap();
        fs::remove_file(path.join("data.1")).unwrap();
    };
    check(remove_all, (0, 2, one));
}

#[test]
fn what_is_no_file_of_the_recording_is_neither_waited_for_nor_followed() {
    let error = |cause| format!("error: cannot open `D/data.1`\n  because: {cause}\n");
    let fifo = |path: &Path| {
        fs::remove_file(path.join("data.1")).unwrap();
        assert_eq!(shell(&format!("mkfifo '{}'", path.join("data.1").display())).status, Some(0));
    };
    check(fifo, (1, 0, &error("it is no file")));
    let link = |path: &Path| {
        fs::rename(path.join("data.1"), path.with_file_name("elsewhere")).unwrap();
        symlink("../elsewhere", path.join("data.1")).unwrap();
    };
    check(link, (1, 0, &error("it is a link, and a recording's files are its own")));
    let directory = |path: &Path| {
        fs::remove_file(path.join("data.1")).unwrap();
        fs::create_dir(path.join("data.1")).unwrap();
    };
    check(directory, (1, 0, &error("it is no file")));
}

#[test]
fn a_directory_that_is_no_recording_is_refused() {
    let without = "error: cannot read `D`\n  because: it is a directory without a file `data`, which a \
                   recording that is one has\n";
    check(|path| fs::remove_file(path.join("data")).unwrap(), (1, 0, without));
    let bad = "error: cannot read `D/data`\n  because: no `perf.data`: the magic at byte 0x0 is not `PERFILE2`\n\
               hint: a recording is made by `bpfperf record` or `perf record`\n";
    check(|path| fs::write(path.join("data"), [7; 200]).unwrap(), (1, 0, bad));
}

#[test]
fn the_file_with_the_header_alone_is_told_from_the_directory() {
    let ran = script(&fixture("perf-7.3").join("data"));
    assert!(ran.stderr.contains("they are read with `-i` and the directory"), "{}", ran.stderr);
}

#[test]
fn a_recording_that_was_killed_is_read_with_all_its_files() {
    let kill = |path: &Path| {
        let mut bytes = fs::read(path.join("data")).unwrap();
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        // Nothing comes behind the records, whose length and the bits of features are not told.
        bytes.truncate(usize::try_from(number(40) + number(48)).unwrap());
        bytes[48..56].fill(0);
        bytes[72..104].fill(0);
        fs::write(path.join("data"), bytes).unwrap();
    };
    let scratch = tempfile::tempdir().unwrap();
    let path = copy(scratch.path());
    kill(&path);
    let ran = script(&path);
    let want = format!("warning: `{}` was not finished by its recorder", path.display());
    assert!(ran.stderr.starts_with(&want) && ran.status == Some(0), "{}", ran.stderr);
    let n_samples = |ran: &Ran| ran.stdout.matches(" cpu-clock").count();
    assert_eq!(n_samples(&ran), n_samples(&script(&fixture("perf-7.3"))));
}

#[test]
fn files_that_are_cut_or_of_noise_end_in_time() {
    for len in (0..1888).step_by(61) {
        let scratch = tempfile::tempdir().unwrap();
        let path = copy(scratch.path());
        let bytes = fs::read(path.join("data.0")).unwrap();
        fs::write(path.join("data.0"), &bytes[..len.min(bytes.len())]).unwrap();
        fs::write(path.join("data.1"), bytes.iter().map(|it| it ^ 0x15).collect::<Vec<_>>())
            .unwrap();
        assert!(script(&path).status.is_some(), "{len}");
    }
}

#[test]
fn the_kernels_symbols_of_the_directory_name_its_addresses() {
    let scratch = tempfile::tempdir().unwrap();
    let path = copy(scratch.path());
    fs::create_dir(path.join("kcore_dir")).unwrap();
    let list = "ffffffff81000000 T _text\nffffffff816df500 t as_recorded\n";
    fs::write(path.join("kcore_dir/kallsyms"), list).unwrap();
    let ran = run(["script", "-F", "ip,sym", "-i", path.to_str().unwrap()]);
    assert!(ran.stdout.contains(" as_recorded\n"), "{}", ran.stdout);
}
