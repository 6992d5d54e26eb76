//! Recording with part of the privileges: what is missing is told once, and the rest is recorded.

use std::path::Path;
use std::process::Command;

use crate::programs::FEW_LOADS;
use crate::stage::Need;
use crate::stage::bpfperf;
use crate::stage::demo_path;
use crate::stage::may_run;
use crate::stage::object;
use crate::stage::output_of;
use crate::stage::stdout_of;
use crate::stage::told;

/// Records the whole machine without some capabilities while three programs come and go; gives
/// the warnings that speak of BPF, and what `script` prints of the BPF records.
#[track_caller]
fn record_without(capabilities: &str, recording: &Path) -> (Vec<String>, String) {
    let churn = demo_path().with_file_name("churn");
    let mut record = Command::new("setpriv");
    record.args(["--bounding-set", capabilities, "--inh-caps", capabilities]);
    record.arg(bpfperf().get_program()).args(["record", "-a", "-F", "99", "-o"]).arg(recording);
    // The programs are loaded by somebody with all privileges, as a child of the recorder has not.
    record.args(["--", "sleep", "1"]);
    let output = std::thread::scope(|scope| {
        let load = || {
            while !recording.exists() {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            stdout_of(Command::new(churn).args(["run", "3", "bound", "5000", "0"]));
        };
        let loading = scope.spawn(load);
        let output = output_of(&mut record);
        loading.join().unwrap();
        output
    });
    assert!(output.status.success(), "{}", told(&record, &output));
    let said = String::from_utf8(output.stderr).unwrap();
    let warnings = said.lines().filter(|it| it.starts_with("warning: ") && it.contains("BPF"));
    let mut script = bpfperf();
    script.args(["script", "--show-bpf-events", "-F", "ip,sym", "-i"]).arg(recording);
    (warnings.map(str::to_owned).collect(), stdout_of(&mut script))
}

#[test]
fn who_may_not_list_programs_is_told_once_and_gets_the_names_of_those_that_come() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let _few = FEW_LOADS.lock();
    let dir = tempfile::tempdir().unwrap();
    let (warnings, script) = record_without("-sys_admin,-bpf", &dir.path().join("perf.data"));
    let want = "warning: BPF programs that were loaded before have no name, and of later ones the \
                name alone is kept: cannot list the loaded BPF programs: EPERM: Operation not \
                permitted";
    assert_eq!(warnings, [want]);
    for n in 0..3 {
        assert!(script.contains(&format!("_churned_{n}\n")), "{n}: {script}");
    }
}

#[test]
fn whose_addresses_are_hidden_has_no_symbol_at_zero_and_is_told_once() {
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
    if !may_run(&[Need::Root]) || paranoid.trim().parse::<i32>().is_ok_and(|it| it <= 1) {
        // There the kernel shows its addresses to everybody.
        return;
    }
    let _few = FEW_LOADS.lock();
    let dir = tempfile::tempdir().unwrap();
    let (warnings, script) = record_without("-syslog", &dir.path().join("perf.data"));
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    let n = warning.strip_prefix("warning: ").and_then(|it| it.split(' ').next()).unwrap();
    assert!(n.parse::<u32>().is_ok_and(|it| it >= 3), "{warning}");
    assert!(warning.contains("without their addresses, which are hidden"), "{warning}");
    assert!(!script.contains("KSYMBOL addr 0 "), "{script}");
}

#[test]
fn who_may_load_no_program_gets_no_event_of_one_and_the_reason() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let object = object("kinds", dir.path());
    let mut record = Command::new("setpriv");
    record.args(["--bounding-set", "-all", "--inh-caps", "-all"]);
    record.arg(bpfperf().get_program()).args(["record", "-o", "no.data", "-e"]);
    record.arg(format!("{}:on_clock", object.display())).arg("true");
    let output = output_of(record.current_dir(dir.path()));
    let want = format!(
        "error: cannot take BPF programs from `{}`\n  because: loading BPF programs is not \
         allowed\nhint: it takes root, or `CAP_BPF` and `CAP_PERFMON`",
        object.display()
    );
    assert_eq!(String::from_utf8_lossy(&output.stderr).trim_end(), want);
    assert_eq!(output.status.code(), Some(1));
    assert!(!dir.path().join("no.data").exists());
}
