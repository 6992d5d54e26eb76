//! Programs that live for a moment, many of them, on CPUs that have other things to do.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::time::Duration;

use bpfperf::perfdata::BpfEvent;
use bpfperf::perfdata::Cursor;
use bpfperf::perfdata::Endian;
use bpfperf::perfdata::Record;
use bpfperf::perfdata::RecordWalk;
use bpfperf::perfdata::UserRecord;
use bpfperf::perfdata::bpf_info::decode_btfs;
use bpfperf::perfdata::bpf_info::decode_prog_infos;
use bpfperf::perfdata::feature::Feature;
use bpfperf::perfdata::feature::FeatureId;
use bpfperf::replay::Recording;
use bpfperf::units::FileOffset;
use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::programs::FEW_LOADS;
use crate::stage::Need;
use crate::stage::bpfperf;
use crate::stage::demo_path;
use crate::stage::may_run;
use crate::stage::stdout_of;

/// How many programs come and go.
const N: usize = 500;

/// What a recording has of the churned programs.
#[derive(Debug, Default)]
struct Found {
    /// Of a function, by name.
    registered: BTreeSet<Vec<u8>>,
    loaded: BTreeSet<u32>,
    unloaded: BTreeSet<u32>,
    infos: BTreeSet<u32>,
    /// Of programs whose types are there.
    typed: BTreeSet<u32>,
    /// Of a function, by name.
    metadata: BTreeSet<Vec<u8>>,
}

/// Uses a CPU until it is dropped.
struct Burner(Child);

impl Burner {
    fn on_each_cpu() -> Vec<Self> {
        let cpus = bpfperf::host::cpus::online().unwrap();
        let burn =
            |_| Self(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap());
        cpus.iter().map(burn).collect()
    }
}

impl Drop for Burner {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn churn() -> Command {
    Command::new(demo_path().with_file_name("churn"))
}

/// Records while `N` programs of a kind live for some microseconds each; gives their ids, what the
/// recording has, and what the recorder said.
#[track_caller]
fn record_churn(recording: &Path, kind: &str, life: &str) -> (BTreeSet<u32>, Found, String) {
    let burners = Burner::on_each_cpu();
    let mut record = bpfperf();
    record.args(["record", "-a", "-F", "99", "-o"]).arg(recording);
    let mut record = record.stderr(std::process::Stdio::piped()).spawn().unwrap();
    // The new file is put in place when all events are on.
    while !recording.exists() {
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(record.try_wait().unwrap(), None);
    }
    let ids = stdout_of(churn().args(["run", &N.to_string(), kind, life, "0"]));
    let pid = Pid::from_raw(record.id().try_into().unwrap());
    kill(pid, Signal::SIGINT).unwrap();
    let output = record.wait_with_output().unwrap();
    drop(burners);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let ids = ids.split_whitespace().map(|it| it.parse().unwrap()).collect();
    (ids, read(recording), said)
}

fn read(recording: &Path) -> Found {
    let file = File::open(recording).unwrap();
    let opened = Recording::open(&file).unwrap();
    let mut found = Found::default();
    let mut btfs = BTreeSet::new();
    if let Some(Feature::BpfBtf(bytes)) = opened.feature(FeatureId::BPF_BTF) {
        btfs.extend(decode_btfs(cursor(bytes)).unwrap().iter().map(|(id, _)| *id));
    }
    if let Some(Feature::BpfProgInfo(bytes)) = opened.feature(FeatureId::BPF_PROG_INFO) {
        for info in decode_prog_infos(cursor(bytes)).unwrap() {
            found.infos.insert(info.id().0);
            if info.btf_id().is_some_and(|id| btfs.contains(&id)) {
                found.typed.insert(info.id().0);
            }
        }
    }
    let mut walk = RecordWalk::new(&file, opened.data[0], Endian::NATIVE);
    while let Some(raw) = walk.next().unwrap() {
        let body = opened.trim(raw.header.kind, raw.body);
        match Record::decode(raw.header, &mut cursor(body)) {
            Ok(Record::Ksymbol(it)) if it.flags == 0 && is_churned(it.name) => {
                found.registered.insert(it.name.to_vec());
            }
            Ok(Record::BpfEvent(BpfEvent { kind, id, .. })) => {
                let ids = match kind {
                    BpfEvent::PROG_LOAD => &mut found.loaded,
                    _ => &mut found.unloaded,
                };
                ids.insert(id.0);
            }
            Ok(Record::User(UserRecord::BpfMetadata(it))) if is_churned(it.prog_name) => {
                found.metadata.insert(it.prog_name.to_vec());
            }
            _ => {}
        }
    }
    found
}

fn cursor(bytes: &[u8]) -> Cursor<'_> {
    Cursor::new(bytes, FileOffset(0), Endian::NATIVE)
}

fn is_churned(name: &[u8]) -> bool {
    name.windows(9).any(|it| it == b"_churned_")
}

#[track_caller]
fn check(kind: &str, life: &str) {
    let _few = FEW_LOADS.lock();
    let dir = tempfile::tempdir().unwrap();
    let (ids, found, said) = record_churn(&dir.path().join("perf.data"), kind, life);
    let n_of = |found: &BTreeSet<u32>| found.intersection(&ids).count();
    // The data rings are large enough for all of these.
    assert_eq!(found.registered.len(), N, "KSYMBOL: {said}");
    assert_eq!((n_of(&found.loaded), n_of(&found.unloaded)), (N, N), "BPF_EVENT: {said}");
    // One in a hundred may have gone while the machine did something else.
    let enough = N * 99 / 100;
    let n_infos = n_of(&found.infos);
    assert!(n_infos >= enough, "info of {n_infos}: {said}");
    if kind != "bare" {
        assert!(n_of(&found.typed) >= enough, "types of {}: {said}", n_of(&found.typed));
    }
    if kind == "used" || kind == "bound" {
        let n = found.metadata.len();
        assert!(n >= enough, "metadata of {n}: {said}");
    }
    if n_infos < N {
        assert!(said.contains("gone before"), "{} are missing: {said}", N - n_infos);
    }
}

#[test]
fn programs_that_live_for_five_milliseconds_are_saved_with_what_their_owner_says() {
    if may_run(&[Need::Root]) {
        check("bound", "5000");
    }
}

#[test]
fn programs_that_live_for_a_millisecond_are_saved() {
    if may_run(&[Need::Root]) {
        check("bare", "1000");
        check("used", "1000");
        check("bound", "1000");
    }
}

#[test]
fn programs_that_live_for_a_tenth_of_that_are_saved() {
    if may_run(&[Need::Root]) {
        check("bare", "100");
        check("bound", "100");
    }
}
