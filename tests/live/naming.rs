//! Programs that other tasks load, before and while one command is recorded.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use libbpf_rs::Link;
use libbpf_rs::Object;

use crate::loading::Debug;
use crate::loading::load;
use crate::stage::Need;
use crate::stage::bpfperf;
use crate::stage::may_run;
use crate::stage::peer;
use crate::stage::stdout_of;

/// The programs' names; each has a function `NAME_sub` and says who it is.
const NAMES: [&str; 3] = ["loaded_before_the_start", "loaded_meanwhile", "gone_before_the_end"];

/// A program that runs at each system call and takes its time.
fn busy(name: &str) -> Object {
    let source = format!(
        "META(char, owner)[] = \"team-{name}\";
         NOINLINE int {name}_sub(int x) {{
             for (int i = 0; i < 300; i++) {{ OPAQUE(x); x = x * 3 + i; }}
             return x;
         }}
         SEC(\"raw_tp/sys_enter\") int {name}(void *ctx) {{ return {name}_sub(5); }}"
    );
    load(&source, Debug::Full)
}

fn attach(object: &Object) -> Link {
    object.progs_mut().next().unwrap().attach().unwrap()
}

/// Holds what `tool` prints of the recording against what is known of its making.
#[track_caller]
fn check(tool: impl Fn() -> Command, recording: &Path) {
    let script =
        |options: &[&str]| stdout_of(tool().arg("script").arg("-i").arg(recording).args(options));
    let samples = script(&["-F", "ip,sym"]);
    let events = script(&["--show-bpf-events"]);
    for name in NAMES {
        let of_sub = format!("_{name}_sub");
        let n = samples.lines().filter(|it| it.ends_with(&of_sub)).count();
        assert!(n >= 10, "{n} samples in {of_sub}");
        let owner = format!("owner = \"team-{name}\"");
        assert_eq!(events.matches(&owner).count(), 2, "of each function: {owner}");
    }
    // Where the kernel puts modules and programs; there are no modules in this recording.
    let unnamed = |it: &&str| it.contains(" ffffffffc0") && it.ends_with("[unknown]");
    let n = samples.lines().filter(unnamed).count();
    let of = samples.lines().count();
    assert!(n * 100 <= of, "{n} of {of} samples lie in programs without a name");
}

#[test]
fn programs_of_other_tasks_are_named_whenever_they_were_loaded() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let [name_of_before, name_of_meanwhile, name_of_gone] = NAMES;
    let before = busy(name_of_before);
    let _before = attach(&before);
    let dir = tempfile::tempdir().unwrap();
    let recording = dir.path().join("perf.data");
    let mut record = bpfperf();
    record.arg("record").arg("-q").arg("-o").arg(&recording).arg("--");
    record.args(["timeout", "3", "dd", "if=/dev/zero", "of=/dev/null", "bs=1", "status=none"]);
    let mut record = record.spawn().unwrap();
    thread::sleep(Duration::from_millis(300));
    let (meanwhile, gone) = (busy(name_of_meanwhile), busy(name_of_gone));
    let _meanwhile = attach(&meanwhile);
    let link = attach(&gone);
    thread::sleep(Duration::from_millis(700));
    drop((link, gone));
    // The status of timeout(1) when the time is over.
    assert_eq!(record.wait().unwrap().code(), Some(124));
    check(bpfperf, &recording);
    if let Some(peer) = peer() {
        check(|| Command::new(&peer), &recording);
    }
}
