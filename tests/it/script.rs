//! What `script` prints, and of which samples.

use std::io::Write;

use bpfperf::perfdata::Endian;

use crate::build::Build;
use crate::command::run_with;
use crate::vector::bytes;

/// What `script` prints of a recording of five samples a millisecond apart, with `options`.
fn script(file: &[u8], options: &[&str]) -> String {
    let args = [&["script", "-i", "-"], options].concat();
    let ran = run_with(args, file);
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    ran.stdout
}

#[track_caller]
fn check(options: &[&str], want: &[&str]) {
    let stdout = script(&Build::demo(Endian::NATIVE).file(), options);
    assert_eq!(stdout.lines().collect::<Vec<_>>(), want);
}

#[test]
fn samples_are_chosen_by_time() {
    check(&["-F", "time", "--time", "1.003,"], &["    1.003000: ", "    1.004000: "]);
    check(
        &["-F", "time", "--time", "50%/1", "--ns"],
        &["    1.000000000: ", "    1.001000000: ", "    1.002000000: "],
    );
}

#[test]
fn times_can_count_from_another_record() {
    let first =
        ["    0.000000: ", "    0.001000: ", "    0.002000: ", "    0.003000: ", "    0.004000: "];
    check(&["-F", "time", "--reltime"], &first);
    let previous =
        ["    0.000000: ", "    0.001000: ", "    0.001000: ", "    0.001000: ", "    0.001000: "];
    check(&["-F", "time", "--deltatime"], &previous);
}

#[test]
fn fields_depend_on_the_type_of_an_event() {
    check(&["-F", "sw:comm,misc", "--time", "1.004,"], &["            demo U     "]);
    check(&["-L", "--dsos", "/elsewhere"], &[]);
}

#[test]
fn each_line_of_json_is_an_object() {
    let place = r#""ip":{"dso":"/nonexistent/demo","ip":"0x400104"}"#;
    let want = format!(
        r#"{{"comm":"demo","event":"cpu-clock",{place},"period":1000,"record":"SAMPLE","tid":100,"time_ns":1004000000}}"#
    );
    check(&["--json", "--time", "1.004,"], &[&want]);
    check(
        &["--json", "--show-task-events", "-F", "comm,tid", "--time", "2,"],
        &[r#"{"comm":"demo","record":"COMM","text":"demo:100/100","tid":100}"#],
    );
}

#[test]
fn packed_recordings_are_opened_as_they_are() {
    let file = Build::demo(Endian::NATIVE).file();
    let plain = script(&file, &[]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&file).unwrap();
    assert_eq!(script(&gzip.finish().unwrap(), &[]), plain);
    let zstd = zstd::encode_all(file.as_slice(), 1).unwrap();
    assert_eq!(script(&zstd, &[]), plain);
    let cut = &zstd[..zstd.len() / 2];
    let ran = run_with(["script", "-i", "-"], cut);
    assert_eq!((ran.stdout.as_str(), ran.status), ("", Some(1)));
}

#[test]
fn a_dump_of_a_pipe_knows_of_events_once_they_are_described() {
    let mut file = Build::demo(Endian::NATIVE).pipe();
    // The name of the host, before the event.
    let feature =
        bytes("00000050 0000 0020 0000000000000003 0000000c =686f7374 0*8", Endian::NATIVE);
    file.splice(16..16, feature);
    let stdout = script(&file, &["-D"]);
    let records = stdout.lines().filter(|it| it.contains("PERF_RECORD_"));
    let starts = records.map(|it| it.split_once(" [").unwrap().0);
    let want = ["-1 -1 0", "-1 -1 0x20", "0 0xa8", "0 0xd0"];
    assert_eq!(starts.take(4).collect::<Vec<_>>(), want);
}

#[test]
fn a_dump_shows_what_was_asked_for_behind_each_record() {
    let file = Build::demo(Endian::NATIVE).file();
    let said = |options: &[&str], what: &str| {
        let stdout = script(&file, &[&["-D", "-F", "comm"], options].concat());
        stdout.lines().filter(|it| it.contains(what)).count()
    };
    assert_eq!(said(&[], "demo PERF_RECORD_COMM"), 0);
    assert_eq!(said(&["--show-task-events"], "demo PERF_RECORD_COMM"), 1);
    assert_eq!(said(&["--time", "1.003,"], "PERF_RECORD_SAMPLE"), 5);
    assert_eq!(said(&["--time", "1.003,"], "... thread: demo:100"), 2);
}

#[test]
fn cpus_are_chosen_where_they_are_recorded() {
    let ran = run_with(["script", "-i", "-", "-C", "0"], &Build::demo(Endian::NATIVE).file());
    let want = "error: cannot choose by CPU\n  because: the recording does not say which CPU a \
                sample was on\nhint: record with `-a`, or with `--sample-cpu`\n";
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str(), ran.status), ("", want, Some(1)));
}
