//! The programs of object files on probes of user space: returns of functions, and static probes.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::stage::Need;
use crate::stage::bpfperf;
use crate::stage::may_run;
use crate::stage::stdout_of;

/// Calls `inner` seven times from `outer`, and passes the static probe `work:passed` each time. What
/// a probe leaves in the file is by "systemtap/wiki/UserSpaceProbeImplementation".
const WORK: &str = r#"
#include <unistd.h>
#define PROBE \
    __asm__ volatile( \
        "990: nop\n" \
        ".pushsection .note.stapsdt,\"\",\"note\"\n" \
        ".balign 4\n" \
        ".4byte 992f-991f, 994f-993f, 3\n" \
        "991: .asciz \"stapsdt\"\n" \
        "992: .balign 4\n" \
        "993: .8byte 990b\n" \
        ".8byte _.stapsdt.base\n" \
        ".8byte 0\n" \
        ".asciz \"work\"\n" \
        ".asciz \"passed\"\n" \
        ".asciz \"\"\n" \
        "994: .balign 4\n" \
        ".popsection\n" \
        ".ifndef _.stapsdt.base\n" \
        ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
        ".weak _.stapsdt.base\n" \
        ".hidden _.stapsdt.base\n" \
        "_.stapsdt.base: .space 1\n" \
        ".size _.stapsdt.base, 1\n" \
        ".popsection\n" \
        ".endif\n")
volatile int sum;
__attribute__((noinline)) int inner(int n)
{
    PROBE;
    return n + getppid();
}
__attribute__((noinline)) void outer(void)
{
    for (int i = 0; i < 7; i++)
        sum += inner(i);
}
int main(void)
{
    outer();
    return 0;
}
"#;

#[test]
fn returns_are_events_with_their_callers_and_static_probes_are_hit() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path();
    fs::write(dir.join("work.c"), WORK).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-g", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"]);
    stdout_of(gcc.args(["work.c", "-o", "work"]).current_dir(dir));
    let work = dir.join("work");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bpf/probes.bpf.c");
    fs::copy(source, dir.join("probes.bpf.c")).unwrap();
    let mut record = bpfperf();
    record.current_dir(dir).args(["record", "-q", "-g", "-o", "x.data", "-e", "probes.bpf.c"]);
    let called = format!("-DCALLED=\"{}:inner\"", work.display());
    let probed = format!("-DPROBED=\"{}:work:passed\"", work.display());
    for option in [called, probed] {
        record.args(["--clang-opt", &option]);
    }
    stdout_of(record.arg("./work"));
    let mut script = bpfperf();
    script.args(["script", "-F", "comm,ip,sym", "-i"]).arg(dir.join("x.data"));
    let text = stdout_of(&mut script);
    let chains: Vec<Vec<&str>> = text
        .split("\n\n")
        .map(|it| it.lines().skip(1).filter_map(|it| it.split_whitespace().nth(1)).collect())
        .filter(|it: &Vec<&str>| !it.is_empty())
        .collect();
    // A return is where the caller goes on.
    assert_eq!(chains.len(), 7, "{text}");
    assert!(chains.iter().all(|it| it.starts_with(&["outer", "main"])), "{text}");
    let mut report = bpfperf();
    report.args(["report", "--header-only", "-I", "-i"]).arg(dir.join("x.data"));
    let header = stdout_of(&mut report);
    for line in ["n_called = 7", "n_probed = 7"] {
        assert!(header.contains(&format!("#   {line}\n")), "{line}: {header}");
    }
}
