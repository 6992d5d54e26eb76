//! Recordings written anew say the same as before; and what `evlist` and `buildid-list` say of them.

use std::ffi::OsStr;
use std::path::Path;

use bpfperf::perfdata::Endian;

use crate::build::Build;
use crate::command::run;
use crate::command::run_with;
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

/// What the header of the recording at `path` says, but for how its file is laid out.
fn header(path: &Path) -> String {
    let args = ["report", "--header-only", "-I", "-i"].map(OsStr::new);
    let ran = run(args.into_iter().chain([path.as_os_str()]));
    assert_eq!((ran.stderr.as_str(), ran.status), ("", Some(0)), "{}", path.display());
    let layout =
        ["captured on", "header version", "data", "feat", "missing features", "compressed"];
    let is_kept = |line: &&str| {
        let text = line.trim_start_matches("# ");
        text != "#" && text != "========" && !layout.iter().any(|it| text.starts_with(it))
    };
    // A stream tells its features in another order.
    let mut lines: Vec<_> = ran.stdout.lines().filter(is_kept).collect();
    lines.sort_unstable();
    lines.join("\n")
}

#[test]
fn a_stream_keeps_the_features_that_perf_has_in_files_alone() {
    let folder = tempfile::tempdir().unwrap();
    let [stream, back, again] = ["stream", "back", "again"].map(|it| folder.path().join(it));
    let into_stream = |from: &Path| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_bpfperf"))
            .args(["inject", "-i"])
            .arg(from)
            .output()
            .unwrap();
        assert!(output.status.success());
        std::fs::write(&stream, output.stdout).unwrap();
    };
    // Of this there is nothing but that it is there.
    let from = fixture("report/branches.data");
    let want = header(&from);
    assert!(want.contains("contains samples with branch stack"), "{want}");
    into_stream(&from);
    assert_eq!(header(&stream), want);
    let from = fixture("recordings/perf-7.3-two.data");
    let want = header(&from);
    assert!(want.contains("CPU cache info"), "{want}");
    into_stream(&from);
    assert_eq!(header(&stream), want);
    let file = |to: &Path| {
        let ran = run([
            OsStr::new("inject"),
            OsStr::new("-i"),
            stream.as_os_str(),
            OsStr::new("-o"),
            to.as_os_str(),
        ]);
        assert_eq!((ran.stderr.as_str(), ran.status), ("", Some(0)));
    };
    file(&back);
    assert_eq!(header(&back), want);
    // What is in sections is in no record, so that there is no more of it each time.
    into_stream(&back);
    file(&again);
    assert!(std::fs::read(&again).unwrap() == std::fs::read(&back).unwrap());
    // perf takes an event's name from these records, and makes up another where there is none.
    let bytes = std::fs::read(&stream).unwrap();
    let has_update = |name: &[u8]| {
        let update = 2_u64.to_le_bytes();
        let mut all = bytes.windows(16 + name.len());
        all.any(|it| it.starts_with(&update) && it.ends_with(name))
    };
    assert!(has_update(b"cpu-clock\0") && has_update(b"page-faults\0"));
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

/// What `script` says of the mappings in `build` written anew with `args`.
fn maps(build: &Build, args: &[&str]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("to");
    let mut all = vec!["inject", "-o", to.to_str().unwrap()];
    all.extend_from_slice(args);
    let ran = run_with(all, &build.file());
    assert_eq!((ran.stderr.as_str(), ran.status), ("", Some(0)), "{args:?}");
    let ran = run(["script", "--show-mmap-events", "-i", to.to_str().unwrap()]);
    assert_eq!(ran.stdout.matches("cpu-clock").count(), 1, "{args:?}: {}", ran.stdout);
    let record = |it: &str| Some(it.split_once("PERF_RECORD_")?.1.to_owned());
    ran.stdout.lines().filter_map(record).collect()
}

#[test]
fn mappings_are_told_with_build_ids() {
    let mut build = Build::new();
    build.comm(100, b"demo");
    build.mmap(100, 0x40_0000, 0x1000, "/nonexistent/hit", 0);
    build.mmap(100, 0x50_0000, 0x1000, "/nonexistent/other", 0);
    build.mmap(100, 0x60_0000, 0x1000, "//anon", 0);
    build.sample(100, 0x40_0100, 1_000_000_000, 1000);
    let known = "--known-build-ids=0102 /nonexistent/hit,0304 /nonexistent/other";
    let hit = "MMAP2 100/100: [0x400000(0x1000) @ 0 <0102>]: r-xp /nonexistent/hit";
    let other = "MMAP2 100/100: [0x500000(0x1000) @ 0 <0304>]: r-xp /nonexistent/other";
    let plain = |it: &str, id| it.replace(id, "00:00 0 0");
    let memory = "MMAP2 100/100: [0x600000(0x1000) @ 0 00:00 0 0]: r-xp //anon";
    let without = [&plain(hit, "<0102>"), &plain(other, "<0304>"), memory];
    assert_eq!(maps(&build, &[]), without);
    assert_eq!(maps(&build, &["--mmap2-buildid-all"]), without);
    assert_eq!(maps(&build, &["--mmap2-buildid-all", known]), [hit, other, memory]);
    assert_eq!(maps(&build, &["-B", known]), [hit]);
    assert_eq!(maps(&build, &["-B"]), without[..1]);
}

#[test]
fn a_build_id_that_is_told_comes_before_the_recordings_own() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("to");
    let to = to.to_str().unwrap();
    let from = fixture("recordings/perf-6.1-one.data");
    let known = "--known-build-ids=0a0b /opt/bpfperf/demo";
    let ran = run(["inject", "-b", known, "-i", from.to_str().unwrap(), "-o", to]);
    assert_eq!((ran.stderr.as_str(), ran.status), ("", Some(0)));
    let listed = run(["buildid-list", "-i", to]).stdout;
    assert!(
        listed.contains("0a0b                                     /opt/bpfperf/demo\n"),
        "{listed}"
    );
}

#[test]
fn a_build_id_of_another_machines_file_is_not_added() {
    // The file at that path is this machine's; that of the recording was at another place.
    let program = std::env::current_exe().unwrap().canonicalize().unwrap();
    let mut build = Build::new();
    build.comm(100, b"demo");
    let id = "00000001 00000002 0000000000000003 0*8";
    build.mmap_with(100, 0x40_0000, 0x1000, program.to_str().unwrap(), 0, 2, id);
    build.sample(100, 0x40_0100, 1_000_000_000, 1000);
    let want =
        format!("MMAP2 100/100: [0x400000(0x1000) @ 0 01:02 3 0]: r-xp {}", program.display());
    assert_eq!(maps(&build, &["--mmap2-buildid-all"]), [want]);
}

#[test]
fn what_is_not_done_is_refused_in_one_line() {
    for (option, what) in [
        ("--strip", "strip events"),
        ("--itrace=i100", "make events of traces"),
        ("--vm-time-correlation", "correlate the times of guests"),
        ("--guest-data=x,1", "merge a guest's recording"),
        ("--aslr", "move addresses"),
        ("--convert-callchain", "make call chains"),
        ("--sched-stat", "merge the times of sleepers"),
    ] {
        let ran = run_with(["inject", option], &Build::demo(Endian::NATIVE).file());
        let told = format!("error: cannot {what}\n  because: ");
        assert!(ran.stderr.starts_with(&told), "{option}: {}", ran.stderr);
        assert_eq!((ran.stdout.as_str(), ran.status), ("", Some(1)), "{option}");
    }
}
