//! Code that ran, as `script` shows it in bytes, in words and as lines of source, of a program that the
//! machine's compiler assembles. Linux perf 7.3 shows the same but for the words.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::build::Build;
use crate::command::run_with;

/// A loop that calls a function with a loop of its own.
const SOURCE: &str = "\
    .globl _start
    .type _start, @function
_start:
\tnop\t# begins
    call leaf
    jmp _start
    .size _start, . - _start
    .type leaf, @function
leaf:
    xor %eax, %eax
    test %eax, %eax
    jne leaf
    ret
    .size leaf, . - leaf
";

/// Where its file is mapped from its beginning on.
const BASE: u64 = 0x7000_0000;

/// The instructions, by their distance from [`BASE`].
const NOP: u64 = 0x1000;
const CALL: u64 = 0x1001;
const JMP: u64 = 0x1006;
const XOR: u64 = 0x1008;
const TEST: u64 = 0x100a;
const RET: u64 = 0x100e;

/// `PERF_SAMPLE_BRANCH_STACK`.
const BRANCH_STACK: u64 = 1 << 11;

/// Flags of a branch.
const MISPREDICTED: u64 = 1;
const PREDICTED: u64 = 1 << 1;
const ABORTED: u64 = 1 << 3;

const fn cycles(n: u64) -> u64 {
    n << 4
}

/// A program `dir/loop` with debug information.
fn assemble(dir: &Path) {
    fs::write(dir.join("loop.s"), SOURCE).unwrap();
    let args = ["-g", "-nostdlib", "-static", "-no-pie", "-Wl,-Ttext=0x401000", "-o", "loop"];
    let mut gcc = Command::new("gcc");
    let out = gcc.args(args).arg(dir.join("loop.s")).current_dir(dir).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

/// Where a branch came from, where to, and how.
type Branch = (u64, u64, u64);

/// A recording of the program in `dir`: samples at an address, each with the branches before it, the
/// latest first.
fn recording(dir: &Path, samples: &[(u64, &[Branch])]) -> Vec<u8> {
    let mut build = Build { more_fields: BRANCH_STACK, ..Build::new() };
    // `branch_sample_type`: `PERF_SAMPLE_BRANCH_ANY`.
    build.attr_tail = [0, 1_u64 << 3].iter().flat_map(|it| it.to_ne_bytes()).collect();
    build.comm(100, b"loop");
    build.mmap(100, BASE, 0x10_0000, dir.join("loop").to_str().unwrap(), 0);
    for (time, (ip, branches)) in (1..).zip(samples) {
        let ip = BASE + ip;
        let mut fields = format!(
            "{ip:016x} {:08x} {:08x} {time:016x} {:016x} {:016x}",
            100,
            100,
            1,
            branches.len()
        );
        for (from, to, flags) in *branches {
            write!(fields, " {:016x} {:016x} {flags:016x}", BASE + from, BASE + to).unwrap();
        }
        build.record(9, 2, &fields);
    }
    build.file()
}

#[track_caller]
fn check(recording: &[u8], options: &[&str], want: &[&str]) {
    let ran = run_with([&["script", "-i", "-"], options].concat(), recording);
    assert_eq!((ran.stderr.as_str(), ran.status), ("", Some(0)), "{options:?}");
    let lines = ran.stdout.lines().map(|it| it.replace("00000000700010", "@"));
    assert_eq!(lines.collect::<Vec<_>>(), want, "{options:?}");
}

/// Out of `leaf`, around the loop, and into `leaf` again.
const AROUND: [Branch; 3] = [
    (CALL, XOR, PREDICTED | cycles(3)),
    (JMP, NOP, MISPREDICTED | cycles(2)),
    (RET, JMP, PREDICTED),
];

#[test]
fn code_between_branches_is_shown_up_to_the_sample() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    assemble(dir);
    let file = recording(dir, &[(TEST, &AROUND)]);
    check(
        &file,
        &["-F", "ip,brstackinsn"],
        &[
            "         7000100a",
            "\tleaf+6:",
            "\t@0e\tinsn: c3                      \t# PRED",
            "\t_start+6:",
            "\t@06\tinsn: eb f8                   \t# MISPRED 2 cycles [2] 0.50 IPC",
            "\t@00\tinsn: 90 ",
            "\t@01\tinsn: e8 02 00 00 00          \t# PRED 3 cycles [5] 0.67 IPC",
            "\tleaf:",
            "\t@08\tinsn: 31 c0 ",
            "\t@0a\tinsn: 85 c0 ",
            "",
        ],
    );
    check(
        &file,
        &["-F", "ip,brstackinsnlen,srcline", "--max-blocks", "1"],
        &[
            "         7000100a",
            "  loop.s:11",
            "\t_start+6:\tloop.s:6",
            "\t@06\tinsn: eb f8                   \tilen: 2\t srcline: loop.s:6\t# MISPRED 2 cycles [2]",
            "\t@00\tinsn: 90 \tilen: 1",
            "\t@01\tinsn: e8 02 00 00 00          \tilen: 5\t srcline: loop.s:5\t# PRED 3 cycles [5] 0.67 IPC",
            "\tleaf:\tloop.s:10",
            "\t@08\tinsn: 31 c0 \tilen: 2",
            "\t@0a\tinsn: 85 c0 \tilen: 2",
            "",
        ],
    );
    check(
        &file,
        &["-F", "brstackdisasm", "--max-blocks", "1"],
        &[
            "",
            "\t_start+6:",
            "\t@06\tjmp    70001000 <_start+0x0>  \t# MISPRED 2 cycles [2]",
            "\t@00\tnop",
            "\t@01\tcall   70001008 <leaf+0x0>    \t# PRED 3 cycles [5] 0.67 IPC",
            "\tleaf:",
            "\t@08\txor    %eax,%eax",
            "\t@0a\ttest   %eax,%eax",
            "",
        ],
    );
}

#[test]
fn code_is_not_shown_where_branches_do_not_fit() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    assemble(dir);
    let samples: &[(u64, &[Branch])] = &[
        // The sample is the branch itself.
        (CALL, &[(CALL, XOR, 0)]),
        // What the branch led to was undone.
        (TEST, &[(CALL, XOR, ABORTED)]),
        // Into the middle of an instruction, which no branch leaves where it does.
        (JMP, &[(JMP, JMP, 0), (CALL, CALL + 1, 0)]),
        // The same, where no instruction begins at the branch.
        (JMP, &[(JMP, JMP, 0), (CALL, CALL + 2, 0)]),
        // A branch is missing: the sample is before where the last one led.
        (NOP, &[(CALL, XOR, 0)]),
        // The sample is far away.
        (0x9_0000, &[(CALL, XOR, 0)]),
        (TEST, &[]),
    ];
    let call = "\t@01\tinsn: e8 02 00 00 00          \t#";
    let want = [
        "",
        "\t_start+1:",
        call,
        "",
        "",
        "\t_start+1:",
        &format!("{call} ABORT"),
        "",
        "",
        "\t_start+1:",
        call,
        "\t@02\tinsn: 02 00 ",
        "\t@04\tinsn: 00 00 ",
        "\t@06\tinsn: eb f8                   \t#",
        "",
        "",
        "\t_start+1:",
        call,
        "\t@03\tinsn: 00 00 ",
        "\t@05\tinsn: 00 eb ",
        "\t@07\tinsn: f8 ",
        "\tleaf:",
        "\t@08\tinsn: 31 c0 ",
        "\t@0a\tinsn: 85 c0 ",
        "\t@0c\tinsn: 75 fa ",
        "\t@0e\tinsn: c3 ",
        "\tmismatch of LBR data and executable",
        "",
        "",
        "\t_start+1:",
        call,
        "\tleaf:",
        "\t@08\tinsn: 31 c0 ",
        "\t@0a\tinsn: 85 c0 ",
        "\t@0c\tinsn: 75 fa ",
        "\t@0e\tinsn: c3 ",
        "\t... not reaching sample ...",
        "",
        "",
        "\t_start+1:",
        call,
        "\tleaf:",
        "",
        "",
    ];
    check(&recording(dir, samples), &["-F", "brstackinsn"], &want);
}

#[test]
fn an_instruction_is_shown_in_words_and_its_line_where_that_changes() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    assemble(dir);
    let file = recording(dir, &[(NOP, &[]), (NOP, &[]), (CALL, &[]), (0x9_0000, &[]), (NOP, &[])]);
    check(
        &file,
        &["-F", "ip,disasm,srccode"],
        &[
            "         70001000\t\tnop",
            "|4        \tnop\t# begins",
            "         70001000\t\tnop",
            "         70001001\t\tcall   70001008 <leaf+0x0>",
            "|5            call leaf",
            "         70090000\t\t",
            "         70001000\t\tnop",
            "|4        \tnop\t# begins",
        ],
    );
    let one = recording(dir, &[(CALL, &[])]);
    let file = dir.join("loop.s").to_str().unwrap().to_owned();
    let line = format!(
        r#"{{"disasm":"call   70001008 <leaf+0x0>","record":"SAMPLE","source":{{"file":"{file}","line":5,"text":"    call leaf"}}}}"#
    );
    check(&one, &["--json", "-F", "disasm,srccode"], &[&line]);
}
