//! The code of a program in a file, against what perf shows of it.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::stage::Need;
use crate::stage::bpfperf;
use crate::stage::may_run;
use crate::stage::peer;
use crate::stage::stdout_of;

const SOURCE: &str = "
#include <stdlib.h>
static unsigned long table[1024];
__attribute__((noinline)) unsigned long mix(unsigned long x)
{
    for (int i = 0; i < 64; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        if (x & 1)
            x += table[x & 1023];
    }
    return x;
}
int main(int argc, char **argv)
{
    unsigned long sum = 0;
    for (unsigned long i = strtoul(argv[1], 0, 0); i != 0; i--)
        sum += mix(i);
    return sum == 1;
}
";

/// Address and share of each instruction in what `perf annotate --stdio` or ours printed.
fn rows(text: &str) -> Vec<(String, String)> {
    let row = |line: &str| {
        let (share, rest) = line.split_once(" :")?;
        let (addr, _) = rest.trim_start().split_once(':')?;
        let share = share.trim();
        let is_row = share.parse::<f64>().is_ok() && u64::from_str_radix(addr, 16).is_ok();
        is_row.then(|| (addr.to_owned(), share.to_owned()))
    };
    text.lines().filter_map(row).collect()
}

#[test]
fn native_code_has_the_addresses_and_shares_that_perf_gives_it() {
    if !may_run(&[Need::Root, Need::Peer]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let in_dir = |name: &str| dir.path().join(name);
    fs::write(in_dir("work.c"), SOURCE).unwrap();
    let mut compile = Command::new("gcc");
    compile.args(["-O1", "-g", "-Wl,--build-id", "work.c", "-o", "work"]).current_dir(&dir);
    assert!(compile.status().unwrap().success());
    let recording = in_dir("perf.data");
    let mut record = bpfperf();
    record.args(["record", "-q", "-e", "cpu-clock", "-F", "999", "-o"]).arg(&recording).arg("--");
    assert!(record.arg(in_dir("work")).arg("3000000").status().unwrap().success());
    let annotate = |mut tool: Command, options: &[&str]| {
        tool.arg("annotate").args(["--stdio", "-s", "mix", "-i"]).arg(&recording).args(options);
        // perf keeps what it has seen in a folder of the user's.
        stdout_of(tool.env("HOME", dir.path()))
    };
    let ours = annotate(bpfperf(), &[]);
    let theirs = annotate(Command::new(peer().unwrap()), &[]);
    assert!(rows(&ours).len() > 10, "{ours}");
    assert_eq!(rows(&ours), rows(&theirs), "{ours}\n{theirs}");
    assert!(ours.contains(" : work.c:7           x ^= x << 13;\n"), "{ours}");
    let heaviest = annotate(bpfperf(), &["-l", "--no-source"]);
    assert!(heaviest.contains(&format!("Sorted summary for file {}", in_dir("work").display())));
    check_other_build(&in_dir("work"), &recording);
}

/// Holds that code of another build of `program` is not taken for the recorded one's.
#[track_caller]
fn check_other_build(program: &Path, recording: &Path) {
    let dir = program.parent().unwrap();
    let mut compile = Command::new("gcc");
    compile.args(["-O2", "-Wl,--build-id", "work.c", "-o", "work"]).current_dir(dir);
    assert!(compile.status().unwrap().success());
    let mut annotate = bpfperf();
    annotate.args(["annotate", "-s", "mix", "-i"]).arg(recording).env("HOME", dir.join("none"));
    let output = annotate.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{told}");
    assert!(told.starts_with("error: no function `mix` is in the recording\n"), "{told}");
}
