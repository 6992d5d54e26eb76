//! Debug information that compilers of the machine write, against what `addr2line` of binutils finds in
//! it, and debug information that none would write.

mod costs;

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use crate::symbols::ElfCode;
use crate::symbols::ElfModule;
use crate::symbols::FileStatus;
use crate::symbols::Files;
use crate::symbols::ModuleFile;
use crate::symbols::Opened;
use crate::symbols::Places;

use super::*;

/// Functions inlined into each other, in a loop, twice in one function, and out of line.
const SOURCE: &str = r"#define INLINE static inline __attribute__((always_inline))
volatile int sink;
INLINE int leaf(int x)
{
	if (x & 1)
		sink = x;
	return x * 3;
}
INLINE int middle(int x)
{
	int s = 0;
	for (int i = 0; i < x; i++)
		s += leaf(i) ^ leaf(s);
	return s;
}
__attribute__((noinline)) int other(int x)
{
	return middle(x) + leaf(x);
}
int twice(int x)
{
	return middle(x) - other(x + 1) + middle(x - 1);
}
void _start(void)
{
	sink = twice(sink);
	for (;;)
		;
}
";

/// The same in C++, with names that the linker knows by others. All have one: of those that have none,
/// as lambdas, binutils 2.40 tell the name of the function around them.
const CPP: &str = r#"volatile int sink;
namespace app {
template <class T> struct Box {
	T value;
	explicit Box(T v) : value(v) {}
	T get() const { sink = 1; return value; }
	template <class F> T with(F f) const { return f(get()); }
};
struct Double { long operator()(long it) const { sink = 2; return it * 2; } };
__attribute__((always_inline)) inline int add(int a, int b) { sink = a; return Box<int>(a).get() + b; }
}
int run(int x)
{
	app::Box<long> box(x);
	return app::add(x, (int)box.with(app::Double()));
}
extern "C" void _start() { sink = run(sink); for (;;); }
"#;

struct Workshop(tempfile::TempDir);

impl Workshop {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    #[track_caller]
    fn run(&self, command: &str, args: &[&str]) {
        let out = Command::new(command).args(args).current_dir(&self.0).output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{command} {args:?}: {said}");
    }

    /// The bytes of `source` compiled to `prog`.
    #[track_caller]
    fn build(&self, name: &str, source: &str, flags: &[&str]) -> Vec<u8> {
        fs::write(self.path().join(name), source).unwrap();
        let base = ["-O2", "-nostdlib", "-static", "-ffreestanding", "-o", "prog", name];
        self.run("gcc", &[&base[..], flags].concat());
        fs::read(self.path().join("prog")).unwrap()
    }

    /// What binutils find at each of `addrs`: functions and lines, the innermost first.
    fn addr2line(&self, addrs: &[u64]) -> Vec<Vec<String>> {
        let mut child = Command::new("addr2line")
            .args(["-a", "-i", "-f", "-e", "prog"])
            .current_dir(&self.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input: String = addrs.iter().flat_map(|it| [format!("{it:#x}"), "\n".into()]).collect();
        io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).unwrap();
        let out = child.wait_with_output().unwrap();
        let mut found: Vec<Vec<String>> = Vec::new();
        for line in String::from_utf8(out.stdout).unwrap().lines() {
            match found.last_mut() {
                _ if line.starts_with("0x") => found.push(Vec::new()),
                Some(last) => last.push(line.split(" (disc").next().unwrap().to_owned()),
                None => {}
            }
        }
        found
    }
}

/// The files of the disk.
#[derive(Clone)]
struct OnDisk;

impl Files for OnDisk {
    type Bytes = Vec<u8>;

    fn open(&self, path: &Path) -> io::Result<Opened<Vec<u8>>> {
        Ok(Opened { bytes: fs::read(path)?, status: FileStatus::default() })
    }
}

fn code(bytes: &[u8]) -> Option<ElfCode> {
    ElfCode::parse(Arc::new(bytes.to_vec()), None).ok()
}

/// The addresses of the functions of `bytes`.
fn text(bytes: &[u8]) -> Vec<u64> {
    let code = code(bytes).unwrap();
    let text = code.section(Part::Mapped, ".text").unwrap();
    let module = ElfModule::parse(bytes, None).unwrap();
    let addrs = (text.addr.0..).take(text.bytes.len());
    addrs.filter(|it| module.find(Addr(*it)).is_some()).collect()
}

/// What `bytes` say of each of `addrs`, in the form of [`Workshop::addr2line`].
fn found(bytes: &[u8], addrs: &[u64]) -> Vec<Vec<String>> {
    found_in(&code(bytes).unwrap(), bytes, addrs)
}

fn found_in(code: &ElfCode, bytes: &[u8], addrs: &[u64]) -> Vec<Vec<String>> {
    let lines = code.lines().unwrap();
    let module = ElfModule::parse(bytes, None).unwrap();
    let of = |&addr: &u64| {
        let mut frames = Vec::new();
        lines.frames(Addr(addr), &mut frames);
        let own = module.find(Addr(addr)).and_then(|it| module.symbol(it)).unwrap().name;
        let n_frames = frames.len();
        let texts = frames.iter().enumerate().flat_map(|(idx, it)| {
            let name = if idx + 1 == n_frames { own } else { it.function.unwrap() };
            let line = it.line.unwrap();
            [name.to_owned(), format!("{}:{}", line.file, line.line)]
        });
        texts.collect()
    };
    let found = addrs.iter().map(of).collect();
    assert_eq!(lines.n_left_out(), 0);
    found
}

#[test]
fn functions_and_lines_are_those_that_binutils_find() {
    let workshop = Workshop::new();
    for source in [("source.c", SOURCE), ("source.cc", CPP)] {
        let flags = [
            &["-g"][..],
            &["-gdwarf-4"],
            &["-g1"],
            &["-g", "-gz=zlib"],
            &["-g", "-Os", "-ffunction-sections", "-Wl,--gc-sections"],
            &["-g", "-gno-as-loc-support", "-gno-column-info"],
        ];
        for flags in flags {
            let bytes = workshop.build(source.0, source.1, flags);
            let addrs = text(&bytes);
            assert!(30 < addrs.len());
            let (got, want) = (found(&bytes, &addrs), workshop.addr2line(&addrs));
            assert!(want.iter().any(|it| 4 < it.len()), "{source:?} {flags:?}");
            for ((addr, got), want) in addrs.iter().zip(got).zip(want) {
                assert_eq!(got, want, "{} {flags:?} at {addr:#x}", source.0);
            }
        }
    }
}

/// A generator of numbers, the same ones for the same seed (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % n as u64).unwrap()
    }
}

#[test]
fn what_the_compiler_left_in_other_files_is_found_there() {
    let workshop = Workshop::new();
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        workshop.build("source.c", SOURCE, &["-g", version]);
        let addrs = text(&fs::read(workshop.path().join("prog")).unwrap());
        let want = workshop.addr2line(&addrs);
        let bytes = workshop.build("source.c", SOURCE, &["-g", version, "-gsplit-dwarf"]);
        assert_eq!(text(&bytes), addrs);
        let check = || {
            let file = ModuleFile::at(workshop.path().join("prog"));
            let code = ElfCode::load(&OnDisk, &file, &Places::default()).unwrap();
            found_in(&code, &bytes, &addrs)
        };
        assert!(check() == want, "{version}");
        let dwo = fs::read_dir(workshop.path()).unwrap().map(|it| it.unwrap().path());
        let dwo = dwo.filter(|it| it.extension().is_some_and(|it| it == "dwo"));
        let dwo: Vec<_> = dwo.collect();
        let name = dwo[0].file_name().unwrap().to_str().unwrap();
        // That of binutils 2.40 knows version 4 alone.
        let can_be_put_together = version == "-gdwarf-4";
        if can_be_put_together {
            workshop.run("dwp", &[name, "-o", "prog.dwp"]);
        }
        for it in &dwo {
            fs::remove_file(it).unwrap();
        }
        if can_be_put_together {
            assert!(check() == want, "{version}, put together");
            fs::remove_file(workshop.path().join("prog.dwp")).unwrap();
        }
        // The table of lines is in the program itself.
        let alone = check();
        assert!(alone.iter().zip(&want).all(|(it, want)| it.len() == 2 && it[1] == want[1]));
    }
}

#[test]
fn damaged_debug_information_costs_no_more_than_itself() {
    let workshop = Workshop::new();
    for flags in [&["-g"][..], &["-gdwarf-4"]] {
        let bytes = workshop.build("source.c", SOURCE, flags);
        let addrs: Vec<u64> = text(&bytes).into_iter().step_by(7).collect();
        // Behind the code and its symbols, where the debug information is.
        let first = bytes.windows(12).position(|it| it == b"GCC: (Debian").unwrap_or(0x1000);
        let started = Instant::now();
        for seed in 1..=200 {
            let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
            let mut damaged = bytes.clone();
            for _ in 0..=numbers.below(8) {
                let at = first + numbers.below(bytes.len() - first);
                damaged[at] = u8::try_from(numbers.below(256)).unwrap();
            }
            if seed % 4 == 0 {
                damaged.truncate(first + numbers.below(bytes.len() - first));
            }
            let Some(code) = code(&damaged) else { continue };
            let Some(lines) = code.lines() else { continue };
            let mut frames = Vec::new();
            for &addr in addrs.iter().chain(&[0, u64::MAX]) {
                lines.frames(Addr(addr), &mut frames);
                let _line = lines.at(Addr(addr));
            }
            assert!(frames.len() < 1000 * addrs.len());
        }
        assert!(started.elapsed() < Duration::from_secs(60));
    }
}

/// A program whose only unit has a function with these entries within it.
fn crafted(entries: &str) -> String {
    format!(
        "
.text
.globl _start
_start: .fill 256, 1, 0x90
.section .debug_abbrev
    .uleb128 1, 0x11; .byte 1; .uleb128 0x11, 0x01, 0x12, 0x06, 0, 0
    .uleb128 2, 0x2e; .byte 1; .uleb128 0x11, 0x01, 0x12, 0x06, 0, 0
    .uleb128 3, 0x1d; .byte 1; .uleb128 0x31, 0x13, 0x11, 0x01, 0x12, 0x06, 0, 0
    .byte 0
.section .debug_info
unit:
    .long end - start
start:
    .short 4; .long 0; .byte 8
    .uleb128 1; .quad _start; .long 256
    .uleb128 2; .quad _start; .long 256
{entries}
end:
"
    )
}

/// The names that the functions at the first address of a crafted program have.
#[track_caller]
fn names_in(entries: &str) -> Vec<Option<String>> {
    let workshop = Workshop::new();
    let bytes = workshop.build("crafted.S", &crafted(entries), &[]);
    let code = code(&bytes).unwrap();
    let lines = code.lines().unwrap();
    let mut frames = Vec::new();
    lines.frames(Addr(text(&bytes)[0]), &mut frames);
    frames.iter().map(|it| it.function.map(str::to_owned)).collect()
}

#[test]
fn nesting_is_followed_to_a_fixed_depth() {
    let deep = ".rept 200000\n.uleb128 3; .long 0; .quad _start; .long 256\n.endr";
    assert_eq!(names_in(deep), vec![None; 257]);
}

#[test]
fn entries_that_refer_to_each_other_have_no_name() {
    let circle = "
one: .uleb128 3; .long two - unit; .quad _start; .long 256; .byte 0
two: .uleb128 3; .long one - unit; .quad _start + 128; .long 64; .byte 0";
    assert_eq!(names_in(circle), [None, None]);
    let itself = "one: .uleb128 3; .long one - unit; .quad _start; .long 256; .byte 0";
    assert_eq!(names_in(itself), [None, None]);
}

#[test]
fn functions_within_functions_have_what_was_inlined_into_them() {
    let source = SOURCE.replace(
        "void _start(void)",
        "int around(int x)
{
	__attribute__((noinline)) int within(int y)
	{
		return middle(y) * x;
	}
	return within(x) + within(x + 2);
}
void _start(void)",
    );
    let workshop = Workshop::new();
    let source = source.replace("twice(sink)", "twice(sink) + around(sink)");
    let bytes = workshop.build("source.c", &source, &["-g"]);
    let addrs = text(&bytes);
    // binutils tell the name in the source of what has the code, which is not that of the symbol.
    let rest = |it: Vec<Vec<String>>| -> Vec<Vec<String>> {
        it.into_iter()
            .map(|mut it| {
                it.remove(it.len() - 2);
                it
            })
            .collect()
    };
    let (got, want) = (rest(found(&bytes, &addrs)), rest(workshop.addr2line(&addrs)));
    let module = ElfModule::parse(&bytes, None).unwrap();
    let name = |addr: u64| module.symbol(module.find(Addr(addr)).unwrap()).unwrap().name;
    let n_within = addrs
        .iter()
        .zip(&want)
        .filter(|(addr, want)| name(**addr).starts_with("within") && 3 < want.len());
    assert_ne!(n_within.count(), 0);
    for ((addr, got), want) in addrs.iter().zip(got).zip(want) {
        assert_eq!(got, want, "at {addr:#x}");
    }
}

/// A unit with a type that says that `sibling` comes behind it, and a function within that or behind it;
/// how many functions are found where there is code, and a second time.
#[track_caller]
fn check_behind_a_type(sibling: &str, entries: &str, want: usize) {
    let source = format!(
        "
.text
.globl _start
_start: .fill 256, 1, 0x90
.section .debug_abbrev
    .uleb128 1, 0x11; .byte 1; .uleb128 0x11, 0x01, 0x12, 0x06, 0, 0
    .uleb128 2, 0x2e; .byte 0; .uleb128 0x03, 0x08, 0x11, 0x01, 0x12, 0x06, 0, 0
    .uleb128 3, 0x13; .byte 1; .uleb128 0x03, 0x08, 0x01, 0x13, 0x0b, 0x0b, 0, 0
    .byte 0
.section .debug_info
unit:
    .long end - start
start:
    .short 4; .long 0; .byte 8
    .uleb128 1; .quad _start; .long 256
type:
    .uleb128 3; .asciz \"type\"; .long {sibling}; .byte 8
{entries}
    .byte 0
end:
"
    );
    let bytes = Workshop::new().build("type.S", &source, &[]);
    let code = code(&bytes).unwrap();
    let lines = code.lines().unwrap();
    for _ in 0..2 {
        let mut frames = Vec::new();
        lines.frames(Addr(text(&bytes)[0]), &mut frames);
        assert_eq!(frames.len(), want, "{sibling}");
    }
}

#[test]
fn what_is_within_a_type_is_looked_at_where_nothing_else_has_the_code() {
    let function = ".uleb128 2; .asciz \"f\"; .quad _start; .long 256";
    let behind = format!(".byte 0\nbehind: {function}");
    let within = format!("{function}\n.byte 0\nbehind:");
    for sibling in ["behind - unit", "type - unit", "0", "behind - unit + 1000", "-1"] {
        check_behind_a_type(sibling, &behind, 1);
        check_behind_a_type(sibling, &within, 1);
    }
    check_behind_a_type("behind - unit", "1: .byte 0\nbehind:", 0);
}

#[test]
fn units_that_share_a_table_of_lines_are_not_read_without_end() {
    let workshop = Workshop::new();
    // A table of many rows that all of many units claim, which do not say where their code is.
    let source = "
.text
.globl _start
_start: .fill 256, 1, 0x90
.section .debug_abbrev
    .uleb128 1, 0x11; .byte 0; .uleb128 0x10, 0x17, 0, 0
    .byte 0
.section .debug_info
.rept 10000
    .long 12
    .short 4; .long 0; .byte 8
    .uleb128 1; .long 0
.endr
.section .debug_line
    .long end - start
start:
    .short 4
    .long program - header
header:
    .byte 1, 1, 1, -5, 14, 13
    .byte 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1
    .byte 0
    .asciz \"x.c\"; .byte 0, 0, 0
    .byte 0
program:
    .byte 0, 9, 2
    .quad _start
.rept 50000
    .byte 0x20
.endr
    .byte 0, 1, 1
end:
";
    let bytes = workshop.build("lines.S", source, &[]);
    let started = Instant::now();
    let code = code(&bytes).unwrap();
    let lines = code.lines().unwrap();
    let at = lines.at(Addr(text(&bytes)[10]));
    assert_eq!(at.map(|it| it.file), Some("x.c"));
    assert!(started.elapsed() < Duration::from_secs(30));
}
