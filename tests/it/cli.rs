//! The command line on what goes wrong: what stands on stderr, word by word, and the status.

use std::path::PathBuf;

use bpfperf::perfdata::Endian;

use crate::build::Build;
use crate::command::Ran;
use crate::command::program;
use crate::command::run;
use crate::command::run_with;
use crate::command::shell;
use crate::fixture::FIXTURES;
use crate::fixture::Fixture;

fn fixture() -> &'static Fixture {
    FIXTURES.iter().find(|it| it.name == "perf-7.3-one").expect("it is there")
}

/// What `report` and `script` say of a path.
#[track_caller]
fn check(path: &str, stderr: &str) {
    for command in ["report", "script"] {
        let ran = run([command, "-i", path]);
        assert_eq!(ran.stderr, stderr, "{command}");
        assert_eq!((ran.stdout.as_str(), ran.status), ("", Some(1)), "{command}");
    }
}

/// A file with `bytes` that goes with its folder.
fn file(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.data");
    std::fs::write(&path, bytes).expect("a file");
    (folder, path)
}

#[test]
fn what_is_no_recording_is_refused_with_its_reason() {
    check(
        "/",
        "error: cannot read `/`\n  because: it is a directory without a file `data`, which a recording that is one has\n",
    );
    check(
        "/nonexistent/x.data",
        "error: cannot open `/nonexistent/x.data`\n  because: ENOENT: No such file or directory\n",
    );
    check("/dev/null", "error: cannot read `/dev/null`\n  because: it is empty\n");
    let (_folder, path) = file(b"hello, world\n");
    let path = path.to_str().unwrap();
    check(
        path,
        &format!(
            "error: cannot read `{path}`\n  because: no `perf.data`: the magic at byte 0x0 is not \
             `PERFILE2`\nhint: a recording is made by `bpfperf record` or `perf record`\n"
        ),
    );
    let (_folder, path) = file(&fixture().bytes[..50]);
    let path = path.to_str().unwrap();
    check(
        path,
        &format!(
            "error: cannot read `{path}`\n  because: header data section at byte 0x30 needs 8 \
             bytes, only 2 left\n"
        ),
    );
}

#[test]
fn without_a_recording_there_is_a_hint_how_to_make_one() {
    let (folder, _) = file(b"");
    let folder = folder.path().display();
    let ran = shell(&format!("cd {folder} && exec $BPFPERF script"));
    assert_eq!(
        ran.stderr,
        "error: cannot open `perf.data`\n  because: ENOENT: No such file or directory\n\
         hint: make a recording first: `bpfperf record -- COMMAND`\n"
    );
    assert_eq!((ran.stdout.as_str(), ran.status), ("", Some(1)));
}

#[test]
fn a_name_in_a_message_writes_nothing_to_the_terminal() {
    check(
        "/nonexistent/\u{1b}[31m\nred",
        "error: cannot open `/nonexistent/\\u{1b}[31m\\nred`\n  \
         because: ENOENT: No such file or directory\n",
    );
}

#[test]
fn a_cut_recording_is_read_as_far_as_it_goes() {
    let bytes = fixture().bytes;
    // 16 bytes into the last sample but one, or thereabouts: behind its header.
    let ran = run_with(["script", "-F", "comm,ip", "-i", "-"], &bytes[..2000]);
    assert_eq!(ran.status, Some(0));
    let [warning, rest @ ..] = &ran.stderr.lines().collect::<Vec<_>>()[..] else { panic!() };
    assert!(warning.starts_with("warning: the header of `-` lacks HOSTNAME: "), "{warning}");
    let [told] = rest else { panic!("{}", ran.stderr) };
    assert!(told.starts_with("warning: ") && told.ends_with(" bytes missing at the end"), "{told}");
}

#[test]
fn wrong_usage_has_a_status_of_its_own() {
    let path = fixture().path();
    let path = path.to_str().unwrap();
    for command in ["report", "script"] {
        let usage = |args: &[&str], stderr: &str| {
            let ran = run([&[command], args].concat());
            assert!(ran.stderr.starts_with(stderr), "{}", ran.stderr);
            assert_eq!((ran.stdout.as_str(), ran.status), ("", Some(2)), "{args:?}");
        };
        usage(&["--nonsense"], "error: unexpected argument '--nonsense' found\n");
        let surplus = match command {
            "script" => format!("error: `{path}` is no option\nhint: to read that recording, say "),
            _ => format!("error: unexpected argument '{path}' found\n"),
        };
        usage(&["-i", path, path], &surplus);
        usage(&["-i"], "error: a value is required for '--input <FILE>' but none was supplied\n");
    }
    let ran = run(["report", "-i", path, "-i", path]);
    let twice = "error: the argument '--input <FILE>' cannot be used multiple times\n";
    assert!(ran.stderr.starts_with(twice), "{}", ran.stderr);
    assert_eq!(ran.status, Some(2));
    let ran = run(["nonsense"]);
    assert!(ran.stderr.starts_with("error: unrecognized subcommand 'nonsense'\n"));
    assert_eq!(ran.status, Some(2));
}

#[test]
fn what_cannot_be_shown_is_told_before_anything_is_printed() {
    let path = fixture().path();
    let script = |fields: &str| run(["script", "-F", fields, "-i", path.to_str().unwrap()]);
    let refused = |ran: &Ran, because: &str| {
        let start = format!("error: cannot print these fields\n  because: {because}\n");
        assert!(ran.stderr.starts_with(&start), "{}", ran.stderr);
        assert_eq!((ran.stdout.as_str(), ran.status), ("", Some(1)));
    };
    refused(&script("comm,nonsense"), "`nonsense` is no field");
    refused(&script("comm,-sym"), "`comm,-sym` mixes fields with changes to the default ones");
    refused(&script("comm,cpu"), "samples of `cpu-clock` carry no `cpu`");
}

/// Commands that print something of a recording, or of the program.
fn printing() -> [String; 4] {
    let path = fixture().path();
    let path = path.display();
    [
        format!("$BPFPERF script -i {path}"),
        format!("$BPFPERF report -i {path}"),
        format!("$BPFPERF report --header-only -i {path}"),
        "$BPFPERF --help".to_owned(),
    ]
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    // E05; the status of the program is the pipe's, in the words of any shell.
    for command in printing() {
        let ran = shell(&format!("{{ {command}; echo $? >&2; }} | head -n 1 >/dev/null"));
        assert_eq!((ran.stderr.as_str(), ran.status), ("0\n", Some(0)), "{command}");
        let ran = shell(&format!("{command} >&-"));
        assert_eq!((ran.stderr.as_str(), ran.status), ("", Some(0)), "{command}");
    }
}

#[test]
fn a_full_disk_is_a_failure() {
    // E05
    for command in printing() {
        let ran = shell(&format!("{command} >/dev/full"));
        let mut lines = ran.stderr.lines();
        let first = lines.next().unwrap_or_default();
        assert!(first.starts_with("error: cannot "), "{command}: {first}");
        assert_eq!(lines.next(), Some("  because: ENOSPC: No space left on device"), "{command}");
        assert_eq!((lines.next(), ran.status), (None, Some(1)), "{command}");
    }
}

#[test]
fn a_closed_stderr_changes_no_status() {
    let path = fixture().path();
    let path = path.display();
    let ran = shell("$BPFPERF script -i /nonexistent/x 2>&-");
    assert_eq!((ran.stdout.as_str(), ran.status), ("", Some(1)));
    let ran = shell(&format!("$BPFPERF script -F comm -i {path} 2>&- | sort -u"));
    assert_eq!((ran.stdout.as_str(), ran.status), ("            demo \n", Some(0)));
}

#[test]
fn what_lacks_symbols_is_told_with_what_it_costs() {
    let (_folder, path) = file(&Build::demo(Endian::Little).file());
    for command in ["script", "report"] {
        let mut program = program();
        let output =
            program.env_remove("DEBUGINFOD_URLS").arg(command).arg("-i").arg(&path).output();
        let said = String::from_utf8(output.unwrap().stderr).unwrap();
        let want = "warning: no names for 100.0 % of the samples: `demo` 100.0 % (not there)\n\
                    hint: say with `--symfs DIR` where the recorded machine's `/nonexistent/demo` is\n";
        assert_eq!(said, want, "{command}");
    }
}

#[test]
fn code_without_a_map_is_told_with_what_it_costs() {
    let pid = 99_999_991;
    let mut build = Build::new();
    build.here().comm(pid, b"jit").mmap(pid, 0x10000, 0x10000, "//anon", 0);
    build.sample(pid, 0x10100, 1_000_000_000, 1000);
    let (_folder, path) = file(&build.file());
    for command in ["script", "report"] {
        let output = program().arg(command).arg("-i").arg(&path).output();
        let said = String::from_utf8(output.unwrap().stderr).unwrap();
        let want = "warning: no names for 100.0 % of the samples: `[JIT] tid 99999991` 100.0 % (not told by \
                    whoever made it)\n\
                    hint: let the program write `/tmp/perf-99999991.map` as it makes code\n";
        assert_eq!(said, want, "{command}");
    }
}
