//! Names of functions, lines and what was inlined at all addresses of small programs, however they were
//! linked, stripped, split, compressed and moved, against what `nm` and `addr2line` say of the whole file.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use bpfperf::symbols::ElfCode;
use bpfperf::symbols::ElfModule;
use bpfperf::symbols::FileStatus;
use bpfperf::symbols::Files;
use bpfperf::symbols::ModuleFile;
use bpfperf::symbols::Opened;
use bpfperf::symbols::Places;
use bpfperf::units::Addr;
use bpfperf::units::FileOffset;
use object::Object as _;
use object::ObjectSection as _;

const C: &str = "
static volatile int x;
__attribute__((noinline)) static int twice(int n) { return n * 2 + x; }
__attribute__((noinline)) int exported(int n) { for (int i = 0; i < n; i++) x += twice(i); return x; }
__attribute__((noinline, cold)) static void rare(void) { x = 7; }
__attribute__((weak)) int weak_one(int n) { if (n == 77) rare(); return n + x; }
static inline __attribute__((always_inline)) int inner(int n) { return n ^ x; }
static inline __attribute__((always_inline)) int outer(int n) {
  int sum = inner(n);
  return sum * inner(n + 1);
}
int _start(void) { return exported(9) + weak_one(1) + outer(x); }
";

const CPP: &str = "
namespace { volatile int x; template <class T> __attribute__((noinline)) T add(T a, T b) { return a + b + x; } }
struct Shape { virtual int area() const { return 1; } int side = 2; };
struct Square : Shape { __attribute__((noinline)) int area() const override { return add(side, side); } };
__attribute__((noinline)) int total(const Shape &it) { return it.area() + (int)add(2L, 3L); }
extern \"C\" int _start() { Square s; return total(s); }
extern \"C\" void __cxa_pure_virtual() {}
namespace __cxxabiv1 { struct __class_type_info { virtual void f(); }; void __class_type_info::f() {}
struct __si_class_type_info { virtual void f(); }; void __si_class_type_info::f() {} }
";

const RUST: &str = "
#![no_std]
#![no_main]
use core::hint::black_box;
struct Point { x: i64, y: i64 }
impl Point { #[inline(never)] fn norm(&self) -> i64 { square(self.x) + square(self.y) } }
#[inline] fn square(n: i64) -> i64 { black_box(n) * n }
#[inline(never)] fn sum<T: Fn(i64) -> i64>(n: i64, f: T) -> i64 { (0..n).map(f).fold(0, |a, b| black_box(a) ^ b) }
#[unsafe(no_mangle)]
pub extern \"C\" fn _start() -> i64 { sum(black_box(9), |n| Point { x: n, y: n + 1 }.norm()) }
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! { loop {} }
";

#[track_caller]
fn run(dir: &Path, command: &str, args: &[&str]) -> String {
    let out = Command::new(command).args(args).current_dir(dir).output().unwrap();
    assert!(out.status.success(), "{command} {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// A function: where it starts at link time, its length, and all its names.
struct Function {
    start: u64,
    len: u64,
    names: Vec<String>,
}

/// The functions of the file `name`, as `nm` lists them.
fn functions(dir: &Path, name: &str, options: &[&str]) -> Vec<Function> {
    let mut all: Vec<Function> = Vec::new();
    for line in
        run(dir, "nm", &[&["-n", "-S", "--defined-only"], options, &[name]].concat()).lines()
    {
        let words: Vec<&str> = line.split(' ').collect();
        let [start, len, "T" | "t" | "W" | "w" | "u" | "i", name] = words[..] else { continue };
        let [start, len] = [start, len].map(|it| u64::from_str_radix(it, 16).unwrap());
        match all.iter_mut().find(|it| it.start == start) {
            Some(function) => function.names.push(name.to_owned()),
            None => all.push(Function { start, len, names: vec![name.to_owned()] }),
        }
    }
    all
}

/// Checks the names of all code of `file`, whose symbols may be in `debug`: those of `functions`, which
/// lie `moved` bytes further on, and none elsewhere.
#[track_caller]
fn check(file: &[u8], debug: Option<&[u8]>, functions: &[Function], moved: u64, what: &str) {
    let module = ElfModule::parse(file, debug).unwrap();
    let object = object::File::parse(file).unwrap();
    let text = object.section_by_name(".text").unwrap();
    let (offset, len) = text.file_range().unwrap();
    let mut n_named = 0;
    for at in 0..len {
        let addr = text.address() + at;
        assert_eq!(module.vaddr(FileOffset(offset + at)).map(|it| it.0), Some(addr), "{what}");
        let holds = |it: &&Function| (it.start..it.start + it.len).contains(&(addr - moved));
        let want = functions.iter().find(holds);
        let found = module.find(Addr(addr)).and_then(|it| module.symbol(it));
        match (want, found) {
            (None, None) => {}
            (Some(want), Some(found)) => {
                assert!(want.names.iter().any(|it| it == found.name), "{what}: {}", found.name);
                assert_eq!(found.start.0, want.start + moved, "{what}: {}", found.name);
                n_named += 1;
            }
            (want, found) => {
                let want = want.map(|it| &it.names);
                panic!("{what}: {addr:#x} is {found:?}, not {want:?}");
            }
        }
    }
    assert_eq!(n_named == 0, functions.is_empty(), "{what}");
}

/// Programs of all kinds in `dir`, by name.
fn build(dir: &Path) -> [&'static str; 7] {
    fs::write(dir.join("c.c"), C).unwrap();
    fs::write(dir.join("cpp.cc"), CPP).unwrap();
    fs::write(dir.join("rust.rs"), RUST).unwrap();
    let base = ["-O2", "-g", "-nostdlib", "-Wl,--build-id"];
    let gcc = |out: &str, more: &[&str]| {
        run(dir, "gcc", &[&base[..], more, &["c.c", "-o", out]].concat());
    };
    gcc("c-pie", &["-static-pie", "-fPIE"]);
    gcc("c-static", &["-static", "-Wl,-z,noseparate-code"]);
    gcc("c-shared", &["-shared", "-fPIC"]);
    gcc("c-far", &["-static", "-Wl,-z,max-page-size=0x1000", "-Wl,-Ttext=0x2000000"]);
    gcc("c-large", &["-static-pie", "-fPIE", "-Wl,-z,max-page-size=0x200000"]);
    let cpp = ["-fno-exceptions", "-fno-rtti", "-static-pie", "-fPIE", "cpp.cc", "-o", "cpp"];
    run(dir, "g++", &[&base[..], &cpp].concat());
    let link = ["-Clink-arg=-nostartfiles", "-Clink-arg=-nostdlib", "-Clink-arg=-static-pie"];
    let rustc = ["--edition=2024", "-O", "-g", "-Cpanic=abort", "-Crelocation-model=pic"];
    run(dir, "rustc", &[&rustc[..], &link, &["rust.rs", "-o", "rust"]].concat());
    ["c-pie", "c-static", "c-shared", "c-far", "c-large", "cpp", "rust"]
}

#[test]
fn all_code_has_the_names_that_nm_has_however_the_file_was_treated() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let read = |name: &str| fs::read(dir.join(name)).unwrap();
    for name in build(dir) {
        let whole = functions(dir, name, &[]);
        assert!(2 <= whole.len(), "{name}");
        check(&read(name), None, &whole, 0, name);
        run(dir, "strip", &["-g", name, "-o", "no-debug"]);
        check(&read("no-debug"), None, &whole, 0, &format!("{name}, strip -g"));
        run(dir, "strip", &[name, "-o", "bare"]);
        let exported = functions(dir, "bare", &["-D"]);
        check(&read("bare"), None, &exported, 0, &format!("{name}, strip"));
        run(dir, "objcopy", &["--only-keep-debug", name, "debug"]);
        check(&read("bare"), Some(&read("debug")), &whole, 0, &format!("{name}, split"));
        run(dir, "objcopy", &["--compress-debug-sections=zlib", name, "packed"]);
        check(&read("packed"), None, &whole, 0, &format!("{name}, compressed"));
        run(dir, "objcopy", &["--compress-debug-sections=zlib", "debug", "packed"]);
        check(&read("bare"), Some(&read("packed")), &whole, 0, &format!("{name}, split, packed"));
        for from in [name, "bare"] {
            let moved = 0x300_0000;
            run(dir, "objcopy", &["--change-addresses", "0x3000000", from, "moved"]);
            let debug = (from == "bare").then(|| read("debug"));
            let what = format!("{from} of {name}, moved");
            check(&read("moved"), debug.as_deref(), &whole, moved, &what);
        }
    }
}

/// The files of a disk, of which nothing but their paths is known.
#[derive(Clone)]
struct Disk;

impl Files for Disk {
    type Bytes = Vec<u8>;

    fn open(&self, path: &Path) -> io::Result<Opened<Vec<u8>>> {
        Ok(Opened { bytes: fs::read(path)?, status: FileStatus::default() })
    }
}

/// What is known of an address: of each function, the innermost first, its name and its line.
type Known = Vec<(String, String)>;

/// All addresses of the code of `name`, with what `addr2line` knows of those that are in one of its functions.
fn truth(dir: &Path, name: &str) -> Vec<(u64, Known)> {
    let addresses: Vec<u64> =
        functions(dir, name, &[]).iter().flat_map(|it| it.start..it.start + it.len).collect();
    let asked: Vec<String> = addresses.iter().map(|it| format!("{it:#x}")).collect();
    let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
    let out = run(dir, "addr2line", &[&["-a", "-i", "-f", "-e", name], &asked[..]].concat());
    let mut all: Vec<(u64, Known)> = Vec::new();
    let mut lines = out.lines();
    while let Some(line) = lines.next() {
        if let Some(addr) = line.strip_prefix("0x") {
            all.push((u64::from_str_radix(addr, 16).unwrap(), Vec::new()));
        } else {
            let place = lines.next().unwrap();
            let place = place.split_once(" (discriminator").map_or(place, |it| it.0);
            all.last_mut().unwrap().1.push((line.to_owned(), place.to_owned()));
        }
    }
    assert_eq!(all.iter().map(|it| it.0).collect::<Vec<_>>(), addresses, "{name}");
    all
}

/// Checks that all that is in `want` is known of `name`, whose code lies `moved` bytes further on.
#[track_caller]
fn check_lines(dir: &Path, name: &str, want: &[(u64, Known)], moved: u64, what: &str) {
    let file = ModuleFile::at(dir.join(name));
    let code = ElfCode::load(&Disk, &file, &Places::default()).unwrap();
    let module = ElfModule::load(&Disk, &file, &Places::default()).unwrap();
    let lines = code.lines().unwrap_or_else(|| panic!("{what}: no lines"));
    for (addr, want) in want {
        let addr = Addr(addr + moved);
        let symbol = module.find(addr).and_then(|it| module.symbol(it)).unwrap();
        let mut found = Vec::new();
        lines.frames(addr, &mut found);
        let found: Known = found
            .iter()
            .map(|frame| {
                let place = frame.line.filter(|it| it.line != 0);
                let place =
                    place.map_or("??:?".to_owned(), |it| format!("{}:{}", it.file, it.line));
                (frame.function.unwrap_or(symbol.name).to_owned(), place)
            })
            .collect();
        let what = format!("{what}, {addr:x?}: {found:?}, not {want:?}");
        assert_eq!(found.len(), want.len(), "{what}");
        let is_last = |idx: usize| idx + 1 == want.len();
        for (idx, (found, want)) in found.iter().zip(want).enumerate() {
            let is_unknown = want.1.ends_with(":0") || want.1.ends_with(":?");
            assert!(found.1 == want.1 || is_unknown && found.1 == "??:?", "{what}");
            // Whoever has no name for the linker has that of the code around it there, and the code itself
            // one without what it is in.
            let is_name = found.0 == want.0 || want.0 == symbol.name;
            assert!(is_name || is_last(idx), "{what}");
        }
    }
}

#[test]
fn all_code_has_the_lines_and_what_was_inlined_that_addr2line_has_however_the_file_was_treated() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for name in build(dir) {
        let want = truth(dir, name);
        if name != "cpp" {
            assert!(want.iter().any(|it| 1 < it.1.len()), "{name} has nothing inlined");
        }
        check_lines(dir, name, &want, 0, name);
        for format in ["zlib", "zlib-gnu", "zstd"] {
            let how = format!("--compress-debug-sections={format}");
            run(dir, "objcopy", &[&how, name, "packed"]);
            check_lines(dir, "packed", &want, 0, &format!("{name}, {format}"));
            run(dir, "objcopy", &[&how, "--only-keep-debug", name, "debug"]);
            run(dir, "strip", &[name, "-o", "bare"]);
            run(dir, "objcopy", &["--change-addresses", "0x3000000", "bare", "moved"]);
            for bare in ["bare", "moved"] {
                run(dir, "objcopy", &["--add-gnu-debuglink=debug", bare]);
            }
            check_lines(dir, "bare", &want, 0, &format!("{name}, split, {format}"));
            check_lines(
                dir,
                "moved",
                &want,
                0x300_0000,
                &format!("{name}, split, moved, {format}"),
            );
        }
    }
    // What the compiler left in files of its own says the same of the same code.
    for (name, compiler, more) in [("c", "gcc", "c.c"), ("cpp", "g++", "cpp.cc")] {
        for version in ["-gdwarf-4", "-gdwarf-5"] {
            let flags = ["-O2", version, "-nostdlib", "-static", "-fno-exceptions", "-fno-rtti"];
            run(dir, compiler, &[&flags[..], &[more, "-o", "whole"]].concat());
            run(dir, compiler, &[&flags[..], &["-gsplit-dwarf", more, "-o", "split"]].concat());
            let want = truth(dir, "whole");
            check_lines(dir, "split", &want, 0, &format!("{name}, {version}, split units"));
        }
    }
}
