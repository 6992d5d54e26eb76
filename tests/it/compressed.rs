//! Recordings whose records are compressed, against what perf 7.3 printed of them.

use std::ffi::OsStr;

use bpfperf::perfdata::ReadAt;
use bpfperf::replay::Index;
use bpfperf::replay::Recording;
use bpfperf::replay::Wanted;

use crate::command::run;
use crate::command::run_with;
use crate::fixture::SCRIPT;

const FILES: [(&str, &[u8], &str); 3] = [
    (
        "bpfperf",
        include_bytes!("../fixtures/compressed/bpfperf.data"),
        include_str!("../fixtures/compressed/bpfperf.txt"),
    ),
    (
        "bpfperf-pipe",
        include_bytes!("../fixtures/compressed/bpfperf-pipe.data"),
        include_str!("../fixtures/compressed/bpfperf-pipe.txt"),
    ),
    (
        "perf-6.1",
        include_bytes!("../fixtures/compressed/perf-6.1.data"),
        include_str!("../fixtures/compressed/perf-6.1.txt"),
    ),
];

#[test]
fn compressed_records_are_printed_as_by_perf() {
    for (name, bytes, want) in FILES {
        let ran = run_with(SCRIPT.into_iter().chain(["-"]), bytes);
        assert_eq!((ran.stderr.as_str(), ran.status), ("", Some(0)), "{name}");
        assert!(ran.stdout == want, "{name}");
        let path = format!("{}/tests/fixtures/compressed/{name}.data", env!("CARGO_MANIFEST_DIR"));
        let args = SCRIPT.iter().map(OsStr::new).chain([OsStr::new(&path)]);
        assert_eq!(run(args).stdout, ran.stdout, "{name}");
    }
}

#[test]
fn a_damaged_stream_costs_what_follows_and_is_told() {
    let (_, bytes, _) = FILES[0];
    let magic = [0x28, 0xb5, 0x2f, 0xfd];
    let at = bytes.windows(4).position(|it| it == magic).expect("it is compressed");
    let mut damaged = bytes.to_vec();
    damaged[at] ^= 1;
    let ran = run_with(SCRIPT.into_iter().chain(["-"]), &damaged);
    assert_eq!(ran.status, Some(0));
    let end = " compressed records of `-` are damaged, or follow one that is, and are left out\n";
    assert!(ran.stderr.starts_with("warning: ") && ran.stderr.ends_with(end), "{}", ran.stderr);
}

#[test]
fn whatever_byte_is_changed_the_records_are_inflated_or_refused() {
    for (name, bytes, _) in FILES {
        for at in (0..bytes.len()).step_by(31) {
            let mut damaged = bytes.to_vec();
            damaged[at] ^= 0x55;
            let input: &dyn ReadAt = &damaged.as_slice();
            let Ok(mut recording) = Recording::open(input) else { continue };
            let mut records = Vec::new();
            if recording.inflate(input, &mut records).is_err() {
                continue;
            }
            let index = Index::new(&recording, &records.as_slice(), &Wanted::default());
            assert!(records.len() < 1 << 20, "{name} at {at}: {index:?}");
        }
    }
}
