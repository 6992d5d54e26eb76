//! Call chains from copies of stacks, of code that keeps no frame pointer.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::stage::Need;
use crate::stage::bpfperf;
use crate::stage::may_run;
use crate::stage::peer;
use crate::stage::stdout_of;

/// A recursion through a library and back, and in its depth a signal's handler that burns time.
const PROGRAM: &str = r"
#include <signal.h>
extern void by_library(int depth);
volatile unsigned long sink;
static void burn(void)
{
    for (unsigned long i = 0; i != 600000000; i++)
        sink += i;
    sink++;
}
static void on_signal(int number)
{
    burn();
    sink += number;
}
__attribute__((noinline)) void by_program(int depth)
{
    volatile char room[64 + 16 * depth];
    room[depth] = 1;
    if (depth == 0)
        raise(SIGUSR1);
    else
        by_library(depth);
    sink += room[depth];
}
int main(void)
{
    signal(SIGUSR1, on_signal);
    by_program(3);
    return 0;
}
";

const LIBRARY: &str = r"
extern void by_program(int depth);
volatile int count;
void by_library(int depth)
{
    volatile int here = depth;
    by_program(depth - 1);
    count += here;
}
";

/// Builds both in `dir`.
fn build(dir: &Path) {
    fs::write(dir.join("program.c"), PROGRAM).unwrap();
    fs::write(dir.join("library.c"), LIBRARY).unwrap();
    let gcc = |args: &[&str]| {
        let base = ["-O2", "-fomit-frame-pointer", "-fno-inline", "-Wl,--build-id"];
        let mut command = Command::new("gcc");
        assert!(command.args(base).args(args).current_dir(dir).status().unwrap().success());
    };
    // The library calls back into the program.
    let undefined = "-Wl,--unresolved-symbols=ignore-all";
    gcc(&["-shared", "-fPIC", undefined, "library.c", "-o", "liblibrary.so"]);
    gcc(&["-rdynamic", "program.c", "-o", "program", "-L.", "-llibrary", "-Wl,-rpath,$ORIGIN"]);
}

/// The functions of each chain that begins in `burn`, the innermost first.
fn chains(text: &str) -> Vec<Vec<&str>> {
    let blocks = text.split("\n\n").map(|block| {
        let frames = block.lines().filter_map(|it| it.strip_prefix('\t'));
        frames.filter_map(|it| it.split_whitespace().nth(1)).collect::<Vec<_>>()
    });
    blocks.filter(|it| it.first() == Some(&"burn")).collect()
}

#[test]
fn a_chain_leads_through_a_signal_and_a_library_to_the_start() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    build(dir.path());
    let recording = dir.path().join("perf.data");
    let mut record = bpfperf();
    record.args(["record", "-q", "-e", "cpu-clock:u", "-F", "499", "--call-graph", "dwarf", "-o"]);
    let status = record.arg(&recording).arg("--").arg(dir.path().join("program")).status();
    assert!(status.unwrap().success());
    let script = |mut tool: Command, fields: &str| {
        tool.args(["script", "--no-inline", "-F", fields, "-i"]).arg(&recording);
        stdout_of(tool.env("HOME", dir.path()))
    };
    let ours = script(bpfperf(), "ip,sym");
    let chains = chains(&ours);
    assert!(10 < chains.len(), "{ours}");
    for chain in &chains {
        // How the C library raises a signal and calls main is its own affair.
        let is_of_libc =
            |it: &&str| !["on_signal", "by_program", "by_library", "main"].contains(it);
        let own: Vec<&str> = chain.iter().copied().filter(|it| !is_of_libc(it)).collect();
        let recursion = ["by_program", "by_library"].repeat(3);
        let want = [&["on_signal"], recursion.as_slice(), &["by_program", "main"]].concat();
        assert_eq!(own, want, "{chain:?}");
        assert_eq!(chain.last(), Some(&"_start"), "{chain:?}");
        assert_eq!(chain[1], "on_signal", "{chain:?}");
    }
    if let Some(perf) = peer() {
        let all = "comm,tid,time,event,ip,sym,symoff,dso";
        assert_eq!(script(bpfperf(), all), script(Command::new(perf), all));
    }
}
