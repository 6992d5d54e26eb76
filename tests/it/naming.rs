//! Names of addresses as `report` and `script` show them, of files that the machine's compiler makes.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::build::Build;
use crate::command::Ran;
use crate::command::run_with;

/// The place that the kernel of [`vmlinux`] was linked for.
const LINKED: u64 = 0xffff_ffff_8100_0000;

/// Builds with `command` in `dir`.
#[track_caller]
fn make(dir: &Path, command: &str, args: &[&str]) {
    let out = Command::new(command).args(args).current_dir(dir).output().unwrap();
    assert!(out.status.success(), "{command} {args:?}: {}", String::from_utf8_lossy(&out.stderr));
}

/// Writes a kernel of two functions, 0x100 bytes each, to `dir`, as `vmlinux` and `kallsyms`.
fn vmlinux(dir: &Path) {
    let source = "
.text
.globl _text, _stext
_text: _stext:
.globl startup_64
.type startup_64,@function
startup_64: .fill 256,1,0x90
.size startup_64,256
.globl _RNvC6kernel3foo
.type _RNvC6kernel3foo,@function
_RNvC6kernel3foo: .fill 256,1,0x90
.size _RNvC6kernel3foo,256
";
    fs::write(dir.join("k.S"), source).unwrap();
    fs::write(dir.join("k.ld"), format!("SECTIONS {{ . = {LINKED:#x}; .text : {{ *(.text) }} }}"))
        .unwrap();
    make(dir, "gcc", &["-c", "k.S"]);
    let id = "--build-id=0x0123456789abcdef0123456789abcdef01234567";
    make(dir, "ld", &["-T", "k.ld", id, "-e", "_text", "-o", "vmlinux", "k.o"]);
    let lines = [(0, "_text"), (0, "startup_64"), (0x100, "_RNvC6kernel3foo")];
    let text = |base: u64, step: u64| {
        let lines = lines.iter().map(|(at, name)| format!("{:016x} T {name}\n", base + at * step));
        lines.collect::<String>()
    };
    fs::write(dir.join("kallsyms"), text(LINKED, 1)).unwrap();
    fs::write(dir.join("hidden"), text(0, 0)).unwrap();
}

/// A recording of a kernel at `at` with the build id `id`, sampled in both functions and behind.
fn of_kernel(at: u64, id: &str) -> Vec<u8> {
    let mut build = Build::new();
    let id = format!("14 00 0000 ={id}");
    build.mmap_with(u32::MAX, at, 0x10_0000, "[kernel.kallsyms]_text", 0, 1 | 1 << 14, &id);
    build.comm(100, b"demo");
    for (n, offset) in [(1, 0x10), (2, 0x110), (3, 0x5000)] {
        build.kernel_sample(at + offset, n * 1_000_000_000, 1000);
    }
    build.file()
}

const ID: &str = "0123456789abcdef0123456789abcdef01234567";

#[track_caller]
fn check_kernel(dir: &Path, recording: &[u8], args: &[&str], want: [&str; 3], stderr: &str) {
    let args: Vec<String> =
        args.iter().map(|it| it.replace("DIR", dir.to_str().unwrap())).collect();
    let base = ["script", "-F", "sym,symoff,ip", "-i", "-"].map(str::to_owned);
    let Ran { status, stdout, stderr: said } = run_with([&base[..], &args].concat(), recording);
    let names: Vec<&str> = stdout.lines().filter_map(|it| it.trim().split(' ').nth(1)).collect();
    assert_eq!(names, want, "{args:?}: {said}");
    assert_eq!(said.replace(dir.to_str().unwrap(), "DIR"), stderr);
    assert_eq!(status, Some(0));
}

#[test]
fn a_kernel_that_is_named_on_the_command_line_names_its_addresses_wherever_it_ran() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    vmlinux(dir);
    let (first, second) = ("startup_64+0x10", "_RNvC6kernel3foo+0x10");
    for at in [LINKED, LINKED + 0x1234_0000] {
        let recording = of_kernel(at, ID);
        let names = [first, second, "[unknown]"];
        check_kernel(dir, &recording, &["-k", "DIR/vmlinux"], names, "");
        check_kernel(dir, &recording, &["--vmlinux", "DIR/vmlinux"], names, "");
        check_kernel(dir, &recording, &["--kallsyms", "DIR/kallsyms"], names, "");
        let names = [first, "kernel::foo+0x10", "[unknown]"];
        check_kernel(dir, &recording, &["-k", "DIR/vmlinux", "--demangle-kernel"], names, "");
    }
}

#[test]
fn what_cannot_be_the_recorded_kernel_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    vmlinux(dir);
    let other = "00000000000000000000000000000000000000ff";
    let unknown = ["[unknown]"; 3];
    let told = format!(
        "warning: `DIR/vmlinux` names no address of the kernel: \
         it has build id {ID}, the recorded kernel {other}\n"
    );
    check_kernel(dir, &of_kernel(LINKED, other), &["-k", "DIR/vmlinux"], unknown, &told);
    let hidden = "warning: `DIR/hidden` names no address of the kernel: all 3 addresses in \
         kallsyms are zero; `kernel.kptr_restrict` hid them from whoever copied it: copy it as root\n";
    check_kernel(dir, &of_kernel(LINKED, ID), &["--kallsyms", "DIR/hidden"], unknown, hidden);
    let none = "warning: `DIR/k.S` names no address of the kernel: \
         not a readable ELF file: Unknown file magic\n";
    check_kernel(dir, &of_kernel(LINKED, ID), &["-k", "DIR/k.S"], unknown, none);
    let ran = run_with(["report", "-i", "-", "-k", "/nonexistent"], &of_kernel(LINKED, ID));
    let missing =
        "error: cannot read `/nonexistent`\n  because: ENOENT: No such file or directory\n";
    assert_eq!((ran.stderr.as_str(), ran.status), (missing, Some(1)));
}

/// Functions of 16 bytes each with these names, as a program `dir/names` at 0x401000, and a recording
/// of a sample in each.
fn program_of(dir: &Path, names: &[&str]) -> Vec<u8> {
    let function = |name: &&str| {
        let name = format!("\"{name}\"");
        format!(".globl {name}\n.type {name},@function\n{name}: .fill 16,1,0x90\n.size {name},16\n")
    };
    let source = names.iter().map(function).collect::<String>();
    fs::write(dir.join("names.S"), source).unwrap();
    let args = ["-nostdlib", "-static", "-no-pie", "-Wl,-e0,-Ttext=0x401000", "-o", "names"];
    make(dir, "gcc", &[&args[..], &["names.S"]].concat());
    let mut build = Build::new();
    build.comm(100, b"demo");
    let path = dir.join("names");
    // Mapped where the file has its code, at its beginning in memory.
    let bytes = fs::read(&path).unwrap();
    let at = bytes.windows(16).position(|it| it == [0x90; 16]).unwrap() as u64;
    build.mmap(100, 0x7000_0000, 0x10_0000, path.to_str().unwrap(), 0);
    for n in 0..names.len() as u64 {
        build.sample(100, 0x7000_0000 + at + n * 16, 1_000_000_000 + n, 1000);
    }
    build.file()
}

#[test]
fn names_are_demangled_unless_told_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    let names = [
        ("_ZN12_GLOBAL__N_113single_threadE", "(anonymous namespace)::single_thread"),
        ("_ZN3std2io5error5Error3new17hbb46546882ad6265E", "std::io::error::Error::new"),
        ("_RNvCs4CIB29Id3dw_7___rustc10rust_panic", "__rustc::rust_panic"),
        ("_RNvC3foo3bar.llvm.123456", "foo::bar"),
        ("_ZN3foo3barEi.cold", "foo::bar(int) [clone .cold]"),
        ("foo.isra.0", "foo.isra.0"),
        ("_Z", "_Z"),
        ("$s4main3fooyyF", "$s4main3fooyyF"),
        ("Lx/Y;run(I)V", "x.Y.run(int)"),
    ];
    let (raw, shown): (Vec<&str>, Vec<&str>) = names.into_iter().unzip();
    let recording = program_of(dir.path(), &raw);
    let script = |args: &[&str]| {
        let ran = run_with([&["script", "-F", "ip,sym", "-i", "-"], args].concat(), &recording);
        let name = |line: &str| line.trim().split_once(' ').unwrap().1.to_owned();
        ran.stdout.lines().map(name).collect::<Vec<_>>()
    };
    assert_eq!(script(&[]), shown);
    assert_eq!(script(&["--demangle"]), shown);
    assert_eq!(script(&["--no-demangle"]), raw);
    let report = run_with(["report", "--no-demangle", "-s", "sym", "-i", "-"], &recording).stdout;
    for name in raw {
        assert!(
            report.lines().any(|it| it.trim_end().ends_with(&format!("[.] {name}"))),
            "{report}"
        );
    }
}

#[test]
fn memory_without_a_file_is_named_by_what_its_process_wrote() {
    // A process number that no process has.
    let pid = 99_999_999;
    let map = format!("/tmp/perf-{pid}.map");
    let paths = [
        "//anon",
        "/dev/zero (deleted)",
        "/anon_hugepage",
        "[heap]",
        "[stack]",
        "/SYSV0001",
        "[anon:v8]",
    ];
    let others = ["anon_inode:[x]", "/memfd:x (deleted)", "[vsyscall]", "[uprobes]", "//other"];
    let mut build = Build::new();
    build.comm(pid, b"jit");
    let mut lines = Vec::new();
    for (n, path) in (1..).zip(paths.iter().chain(&others)) {
        let at = n << 16;
        build.mmap(pid, at, 0x1000, path, 0).sample(pid, at + 0x10, n * 1_000_000_000, 1000);
        lines.push(format!("0x{at:x} 0x1000 jitted code {n}\r\n"));
    }
    fs::write(&map, lines.concat() + "zzz\n70000 10").unwrap();
    let script = ["script", "-F", "ip,sym,dso", "-i", "-"];
    // It may be another machine's process.
    let ran = run_with(script, &build.file());
    assert!(!ran.stdout.contains("jitted"), "{}", ran.stdout);
    let ran = run_with(script, &build.here().file());
    fs::remove_file(&map).unwrap();
    let mut lines = ran.stdout.lines();
    for n in 1..=paths.len() {
        let want = format!("{:x} jitted code {n} ({map})", (n << 16) + 0x10);
        assert_eq!(lines.next().unwrap().trim(), want);
    }
    for path in others {
        let line = lines.next().unwrap();
        assert!(line.ends_with(&format!(" [unknown] ({path})")), "{line}");
    }
    let told = format!("warning: 2 lines of `{map}` are no entries and were skipped\n");
    assert_eq!(ran.stderr, told);
}

#[test]
fn a_process_of_32_bits_has_a_vdso_of_its_own() {
    let mut build = Build::new();
    build.comm(100, b"wide").comm(200, b"narrow");
    build.mmap(100, 0x7ffc_0000_0000, 0x2000, "[vdso]", 0);
    build.mmap(200, 0xf7f2_2000, 0x2000, "[vdso]", 0);
    for at in (0..0x2000).step_by(0x20) {
        build.sample(100, 0x7ffc_0000_0000 + at, 1_000_000_000 + at, 1000);
        build.sample(200, 0xf7f2_2000 + at, 2_000_000_000 + at, 1000);
    }
    let script = ["script", "-F", "comm,ip,sym,dso", "-i", "-"];
    // It may be another kernel's.
    let ran = run_with(script, &build.file());
    assert!(ran.stdout.lines().all(|it| it.contains("[unknown]")), "{}", ran.stdout);
    let ran = run_with(script, &build.here().file());
    let (mut wide, mut narrow) = (Vec::new(), Vec::new());
    for line in ran.stdout.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [comm, _, name, dso] = words[..] else { panic!("{line}") };
        let (names, want) =
            if comm == "wide" { (&mut wide, "([vdso])") } else { (&mut narrow, "([vdso32])") };
        assert_eq!(dso, want);
        names.push(name.to_owned());
    }
    assert!(wide.iter().any(|it| it.contains("clock_gettime")), "{wide:?}");
    // A kernel without processes of 32 bits has no names for them.
    assert_ne!(wide, narrow);
}

#[test]
fn a_name_that_takes_long_is_demangled_once_however_many_addresses_have_it() {
    // `P<P<..>, P<..>>`, 22 deep: each level doubles what it stands for.
    let mut name =
        "_Z3hotP1PIS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IiiE".to_owned();
    for digit in "0123456789ABCDEFGHIJK".chars() {
        name.extend(['S', digit, '_', 'E']);
    }
    let pid = 99_999_998;
    let map = format!("/tmp/perf-{pid}.map");
    fs::write(&map, format!("10000 10000 {name}\n")).unwrap();
    let mut build = Build::new();
    build.here().comm(pid, b"jit").mmap(pid, 0x10000, 0x10000, "//anon", 0);
    for n in 0..3000 {
        build.sample(pid, 0x10000 + n, 1_000_000_000 + n, 1000);
    }
    let begun = std::time::Instant::now();
    let ran = run_with(["script", "-F", "ip,sym", "-i", "-"], &build.file());
    fs::remove_file(&map).unwrap();
    assert_eq!(ran.stdout.lines().filter(|it| it.contains("hot")).count(), 3000);
    // Each time anew, it takes a minute here.
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}

#[test]
fn functions_of_two_files_of_one_path_are_rows_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut build = Build::new();
    // Two builds of a program, one after the other, each with a function at the same place.
    for (pid, name, byte) in [(100, "first_name", "11"), (101, "other_name", "22")] {
        let id = byte.repeat(20);
        let source = format!(
            ".globl {name}\n.type {name},@function\n{name}: .fill 16,1,0x90\n.size {name},16\n"
        );
        fs::write(dir.join("one.S"), source).unwrap();
        let id_flag = format!("-Wl,--build-id=0x{id}");
        let flags = ["-nostdlib", "-static", "-no-pie", "-Wl,-e0,-Ttext=0x401000"];
        make(dir, "gcc", &[&flags[..], &[&id_flag, "-o", "one", "one.S"]].concat());
        let at = fs::read(dir.join("one")).unwrap();
        let at = at.windows(16).position(|it| it == [0x90; 16]).unwrap() as u64;
        let place = dir.join(format!(".build-id/{byte}/{}", &id[2..]));
        fs::create_dir_all(&place).unwrap();
        fs::rename(dir.join("one"), place.join("elf")).unwrap();
        build.comm(pid, b"demo");
        let id = format!("14 00 0000 ={id}");
        build.mmap_with(pid, 0x7000_0000, 0x10_0000, "/x/prog", 0, 2 | 1 << 14, &id);
        build.sample(pid, 0x7000_0000 + at, u64::from(pid) * 1_000_000_000, 1000);
    }
    let store = dir.to_str().unwrap();
    let args = ["report", "--stdio", "-s", "dso,sym", "--buildid-dir", store, "-i", "-"];
    let ran = run_with(args, &build.file());
    for name in ["first_name", "other_name"] {
        let rows = ran.stdout.lines().filter(|it| it.contains("50.00%") && it.ends_with(name));
        assert_eq!(rows.count(), 1, "{}", ran.stdout);
    }
}
