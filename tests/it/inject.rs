//! Recordings written anew say the same as before; and what `evlist` and `buildid-list` say of them.

use std::ffi::OsStr;
use std::path::Path;

use crate::command::run;
use crate::fixture::SCRIPT;

/// What `script` says of the recording at `path`.
fn script(path: &Path) -> String {
    let ran = run(SCRIPT.iter().map(OsStr::new).chain([path.as_os_str()]));
    assert_eq!((ran.stderr.as_str(), ran.status), ("", Some(0)), "{}", path.display());
    ran.stdout
}

fn fixture(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// The size of the records that the header of a file promises, and its features.
fn promised(bytes: &[u8]) -> (u64, u64) {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    (word(48), word(72))
}

#[test]
fn a_recording_written_anew_says_the_same_in_both_forms() {
    let folder = tempfile::tempdir().unwrap();
    for name in
        ["compressed/bpfperf.data", "compressed/bpfperf-pipe.data", "compressed/perf-6.1.data"]
    {
        let from = fixture(name);
        let want = script(&from);
        let [file, stream, back] = ["file", "stream", "back"].map(|it| folder.path().join(it));
        let inject = |from: &Path, to: &Path| {
            let args = [OsStr::new("inject"), OsStr::new("-i"), from.as_os_str(), OsStr::new("-o")];
            let ran = run(args.into_iter().chain([to.as_os_str()]));
            assert_eq!((ran.stderr.as_str(), ran.status), ("", Some(0)), "{name}");
        };
        inject(&from, &file);
        let bytes = std::fs::read(&file).unwrap();
        let (size, features) = promised(&bytes);
        assert!(size != 0 && features & 1 << 27 == 0, "{name}: still said to be compressed");
        assert_eq!(script(&file), want, "{name}");
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_bpfperf"))
            .args(["inject", "-b", "-i"])
            .arg(&file)
            .output()
            .unwrap();
        assert!(output.status.success() && output.stdout.starts_with(b"PERFILE2\x10\0"), "{name}");
        std::fs::write(&stream, output.stdout).unwrap();
        assert_eq!(script(&stream), want, "{name}");
        inject(&stream, &back);
        assert_eq!(script(&back), want, "{name}");
        let again = folder.path().join("again");
        inject(&file, &again);
        assert!(std::fs::read(&again).unwrap() == bytes, "{name}: not the same bytes");
    }
}

#[test]
fn a_recording_is_not_written_over_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    std::fs::copy(fixture("compressed/bpfperf.data"), &path).unwrap();
    let path = path.to_str().unwrap();
    let ran = run(["inject", "-i", path, "-o", path]);
    assert_eq!(ran.status, Some(1));
    assert!(ran.stderr.contains("it is the recording that is read"), "{}", ran.stderr);
}

#[test]
fn events_and_build_ids_are_listed_as_by_perf() {
    let path = fixture("compressed/perf-6.1.data");
    let path = path.to_str().unwrap();
    let list = |args: &[&str]| run([args, &["-i", path]].concat()).stdout;
    assert_eq!(list(&["evlist"]), "cpu-clock\n");
    assert_eq!(
        list(&["evlist", "-F", "--trace-fields"]),
        "cpu-clock: sample_freq=999, (not a tracepoint)\n"
    );
    assert_eq!(
        list(&["evlist", "-v"]),
        "cpu-clock: type: 1 (PERF_TYPE_SOFTWARE), size: 128, config: 0 (PERF_COUNT_SW_CPU_CLOCK), \
         { sample_period, sample_freq }: 999, sample_type: IP|TID|TIME|PERIOD, \
         read_format: ID|LOST, disabled: 1, inherit: 1, mmap: 1, comm: 1, freq: 1, \
         enable_on_exec: 1, task: 1, sample_id_all: 1, exclude_guest: 1, mmap2: 1, comm_exec: 1, \
         ksymbol: 1\n"
    );
    let none = " ".repeat(40);
    let want =
        ["/opt/bpfperf/demo", "/usr/lib/x86_64-linux-gnu/libgcc_s.so.1", "[kernel.kallsyms]"];
    let want = want.map(|it| [none.as_str(), " ", it, "\n"].concat()).concat();
    assert_eq!(list(&["buildid-list"]), want);
}

#[test]
fn records_and_samples_are_counted_as_by_perf() {
    let path = fixture("recordings/perf-7.3-one.data");
    let ran = run(["report", "--stats", "-i", path.to_str().unwrap()]);
    assert_eq!((ran.stderr.as_str(), ran.status), ("", Some(0)));
    assert_eq!(ran.stdout, include_str!("../fixtures/recordings/perf-7.3-one.stats.txt"));
}
