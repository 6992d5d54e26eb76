//! Functions that were inlined, and lines of source, as `script` and `report` show them, of programs
//! that the machine's compiler makes. Linux perf 7.3 shows the same but where
//! `docs/differences.md` says so.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::build::Build;
use crate::build::CALLCHAIN;
use crate::command::run_with;

/// Two functions inlined into `outer`, of which `caller` makes a call that ends its code.
const SOURCE: &str = r#"#define MARK(n) __asm__ volatile("mov $" #n ", %%eax" ::: "eax")
#define INLINE static inline __attribute__((always_inline))
INLINE void leaf(void)
{
	MARK(0x11111111);
}
INLINE void middle(void)
{
	leaf();
	MARK(0x22222222);
}
__attribute__((noinline)) void callee(void)
{
	MARK(0x33333333);
}
INLINE void caller(void)
{
	callee();
}
void outer(void)
{
	middle();
	caller();
	MARK(0x44444444);
}
"#;

/// Where the program is mapped.
const BASE: u64 = 0x7000_0000;

/// A program `dir/inl` made of [`SOURCE`].
fn program(dir: &Path, flags: &[&str]) -> Vec<u8> {
    fs::write(dir.join("inl.c"), SOURCE).unwrap();
    let link = ["-O2", "-nostdlib", "-static", "-Wl,-eouter", "-o", "inl", "inl.c"];
    make(dir, "gcc", &[&link[..], flags].concat());
    fs::read(dir.join("inl")).unwrap()
}

#[track_caller]
fn make(dir: &Path, command: &str, args: &[&str]) {
    let out = Command::new(command).args(args).current_dir(dir).output().unwrap();
    assert!(out.status.success(), "{command} {args:?}: {}", String::from_utf8_lossy(&out.stderr));
}

/// The address of the instruction with `constant`.
fn mark(bytes: &[u8], constant: u32) -> u64 {
    let code = [&[0xb8][..], &constant.to_le_bytes()].concat();
    let at = bytes.windows(code.len()).position(|it| it == code);
    BASE + at.expect("the mark is in the file") as u64
}

/// A recording of the program in `dir` with three samples: in `leaf`, in `middle`, and in `callee`,
/// which `caller` called.
fn recording(dir: &Path, bytes: &[u8]) -> Vec<u8> {
    let mut build = Build { more_fields: CALLCHAIN, ..Build::new() };
    build.comm(100, b"inl");
    build.mmap(100, BASE, 0x10_0000, dir.join("inl").to_str().unwrap(), 0);
    build.user_chain(1_000_000_000, &[mark(bytes, 0x1111_1111)]);
    build.user_chain(2_000_000_000, &[mark(bytes, 0x2222_2222)]);
    build.user_chain(3_000_000_000, &[mark(bytes, 0x3333_3333), mark(bytes, 0x4444_4444)]);
    build.file()
}

/// Holds that `args` print `want` of a recording of the program in `dir`, white space at the ends
/// of lines and comments left out.
#[track_caller]
fn check(dir: &Path, recording: &[u8], args: &[&str], want: &[&str]) {
    let ran = run_with([args, &["-i", "-"]].concat(), recording);
    assert_eq!((ran.stderr.as_str(), ran.status), ("", Some(0)), "{args:?}");
    let text = ran.stdout.replace(dir.to_str().unwrap(), "DIR");
    let lines = text.lines().map(str::trim_end).filter(|it| !it.is_empty() && !it.starts_with('#'));
    // The addresses depend on the compiler.
    let shown = |it: &str| match it.strip_prefix('\t') {
        Some(rest) => rest.trim_start().split_once(' ').map_or("", |it| it.1).to_owned(),
        None => it.to_owned(),
    };
    assert_eq!(lines.map(shown).collect::<Vec<_>>(), want, "{args:?}");
}

#[test]
fn functions_that_were_inlined_are_frames_of_a_call_chain() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let recording = recording(dir, &program(dir, &["-g"]));
    let want = [
        "leaf (inlined)",
        "middle (inlined)",
        "outer (DIR/inl)",
        "middle (inlined)",
        "outer (DIR/inl)",
        "callee (DIR/inl)",
        "caller (inlined)",
        "outer (DIR/inl)",
    ];
    check(dir, &recording, &["script", "-F", "ip,sym,dso"], &want);
    check(dir, &recording, &["script", "-F", "ip,sym,dso", "--no-inline", "--inline"], &want);
    let own = ["outer (DIR/inl)", "outer (DIR/inl)", "callee (DIR/inl)", "outer (DIR/inl)"];
    check(dir, &recording, &["script", "-F", "ip,sym,dso", "--no-inline"], &own);
}

#[test]
fn each_frame_has_its_line_and_a_caller_that_of_its_call() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for flags in [&["-g"][..], &["-gdwarf-4"], &["-g1"], &["-g", "-gz=zlib"]] {
        let recording = recording(dir, &program(dir, flags));
        let want = [
            "leaf",
            "  inl.c:5 (inlined)",
            "middle",
            "  inl.c:9 (inlined)",
            "outer",
            "  inl.c:22",
            "middle",
            "  inl.c:10 (inlined)",
            "outer",
            "  inl.c:22",
            "callee",
            "  inl.c:14",
            "caller",
            "  inl.c:18 (inlined)",
            "outer",
            "  inl.c:23",
        ];
        check(dir, &recording, &["script", "-F", "ip,sym,srcline"], &want);
    }
    let recording = recording(dir, &program(dir, &["-g"]));
    let want = ["outer", "  DIR/inl.c:5", "outer", "  DIR/inl.c:10", "callee", "  DIR/inl.c:14"];
    let args = ["script", "-F", "ip,sym,srcline", "--no-inline", "--full-source-path"];
    let want = [&want[..], &["outer", "  DIR/inl.c:18"]].concat();
    check(dir, &recording, &args, &want);
}

#[test]
fn a_report_has_rows_and_branches_for_what_was_inlined() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let recording = recording(dir, &program(dir, &["-g"]));
    let want = [
        "   100.00%    66.67%  [.] outer",
        "    66.67%     0.00%  [.] middle (inlined)",
        "    33.33%    33.33%  [.] callee",
        "    33.33%     0.00%  [.] caller (inlined)",
        "    33.33%     0.00%  [.] leaf (inlined)",
    ];
    check(dir, &recording, &["report", "-s", "sym", "-g", "none"], &want);
    check(
        dir,
        &recording,
        &["report", "-s", "sym", "-g", "none", "--no-inline"],
        &[want[0], want[2]],
    );
    let want = [
        "    33.33%    33.33%  inl.c:10",
        "    33.33%    33.33%  inl.c:14",
        "    33.33%    33.33%  inl.c:5",
    ];
    let lines = ["report", "-s", "srcline", "-g", "none", "--percent-limit", "0", "--no-children"];
    let flat: Vec<String> = want.iter().map(|it| it.replacen("    33.33%", "", 1)).collect();
    check(dir, &recording, &lines, &flat.iter().map(String::as_str).collect::<Vec<_>>());
    let want = ["   100.00%  DIR/inl.c"];
    let files = ["report", "-s", "srcfile", "-g", "none", "--no-children", "--full-source-path"];
    check(dir, &recording, &files, &want);
    let want = [
        "    66.67%  outer",
        "            |",
        "            |--33.33%--middle (inlined)",
        "            |          outer",
        "            |",
        "             --33.33%--leaf (inlined)",
        "                       middle (inlined)",
        "                       outer",
        "    33.33%  callee",
        "            |",
        "            ---callee",
        "               caller (inlined)",
        "               outer",
    ];
    let want: Vec<String> = want.iter().map(|it| it.replace("%  outer", "%  [.] outer")).collect();
    let want: Vec<String> =
        want.iter().map(|it| it.replace("%  callee", "%  [.] callee")).collect();
    let want: Vec<&str> = want.iter().map(String::as_str).collect();
    check(dir, &recording, &["report", "-F", "overhead,sym", "--no-children"], &want);
}

#[test]
fn code_without_lines_shows_the_symbol_or_the_module() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let bytes = program(dir, &[]);
    let recording = recording(dir, &bytes);
    let want = ["outer", "outer", "callee", "outer"];
    let got = run_with(["script", "-F", "ip,sym,srcline", "-i", "-"], &recording).stdout;
    let lines: Vec<_> = got.lines().filter(|it| !it.is_empty()).collect();
    // Where it was linked, and not where it lies in the file.
    let at = |constant| format!("  inl[{:x}]", mark(&bytes, constant) - BASE + 0x40_0000);
    let marks = [0x1111_1111, 0x2222_2222, 0x3333_3333, 0x4444_4444].map(at);
    assert_eq!(lines.iter().skip(1).step_by(2).copied().collect::<Vec<_>>(), marks);
    let names = lines.iter().step_by(2).map(|it| it.split(' ').next_back().unwrap());
    assert_eq!(names.collect::<Vec<_>>(), want);
}
