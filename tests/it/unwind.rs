//! Call chains from copies of stacks: recordings made by hand, of code that assemblers of the machine
//! make, with what its stack would hold.

use std::ffi::OsStr;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use bpfperf::perfdata::Endian;
use bpfperf::symbols::ElfCode;
use bpfperf::symbols::OwnedBytes;
use bpfperf::symbols::Part;
use bpfperf::units::Addr;
use bpfperf::unwind::Arch;
use bpfperf::unwind::Code;
use bpfperf::unwind::Context;
use bpfperf::unwind::Left;
use bpfperf::unwind::Registers;
use bpfperf::unwind::Row;
use bpfperf::unwind::RowId;
use bpfperf::unwind::Space;
use bpfperf::unwind::StackCopy;
use bpfperf::unwind::Table;
use bpfperf::unwind::walk;

use crate::build::Build;
use crate::build::CALLCHAIN;
use crate::command::program;
use crate::command::run;
use crate::command::run_with;

/// `PERF_SAMPLE_REGS_USER` and `PERF_SAMPLE_STACK_USER`.
const USER_STATE: u64 = 1 << 12 | 1 << 13;
/// The order of `enum perf_event_x86_regs`; flags and segments have no number.
const X86_64_ORDER: [u8; 20] =
    [0, 3, 2, 1, 4, 5, 6, 7, 16, 99, 99, 99, 8, 9, 10, 11, 12, 13, 14, 15];
/// What Linux perf asks for on x86-64.
const X86_64_MASK: u64 = 0x00ff_0fff;
/// x0 to x30, the stack pointer, the program counter.
const AARCH64_MASK: u64 = 0x0001_ffff_ffff;
/// Where the code lies, and the top of the stack.
const TEXT: u64 = 0x40_1000;
const SP: u64 = 0x7ffd_0000_1000;
/// The length of each function; the rest is filled up with `int3` or zeros.
const FUNCTION: u64 = 0x40;

/// Functions of 64 bytes each, in this order, from [`TEXT`] on.
const X86_64: &str = "
    .text
    .macro function name
    .balign 64, 0xcc
    .globl \\name
    .type \\name, @function
\\name:
    .endm
    .macro end name
    .size \\name, . - \\name
    .endm

    function _start
    .cfi_startproc
    .cfi_undefined rip
    nop
    call middle
    .cfi_endproc
    end _start

    # Saves the frame pointer and rbx, and calls with its last instruction.
    function middle
    .cfi_startproc
    pushq %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset rbp, -16
    pushq %rbx
    .cfi_def_cfa_offset 24
    .cfi_offset rbx, -24
    call leaf
    .cfi_endproc
    end middle

    function leaf
    .cfi_startproc
    nop
    ret
    .cfi_endproc
    end leaf

    # Keeps the address of its arguments at -8 of the frame pointer, as functions do that align the
    # stack.
    function aligned
    .cfi_startproc
    .cfi_escape 0x0f, 3, 0x76, 0x78, 6      # the frame address is what lies at rbp - 8
    .cfi_escape 0x10, 6, 2, 0x76, 0         # rbp lies at rbp
    nop
    call leaf
    .cfi_endproc
    end aligned

    # What a handler of a signal returns to: a table tells of it, as of that in glibc.
    function restore
    .cfi_startproc
    .cfi_signal_frame
    .cfi_escape 0x0f, 4, 0x77, 0xa0, 1, 6   # the frame address is what lies at rsp + 160
    .cfi_escape 0x10, 16, 3, 0x77, 0xa8, 1  # rip lies at rsp + 168
    .cfi_escape 0x10, 6, 3, 0x77, 0xf8, 0   # rbp lies at rsp + 120
    .cfi_escape 0x10, 3, 3, 0x77, 0x80, 1   # rbx lies at rsp + 128
    nop
    mov $15, %rax
    syscall
    .cfi_endproc
    end restore

    # The same without a table.
    function bare_restore
    nop
    mov $15, %rax
    syscall
    end bare_restore

    # Keeps its frame pointer, and no table tells of it.
    function bare
    pushq %rbp
    movq %rsp, %rbp
    call leaf
    popq %rbp
    ret
    end bare

    # As linkers describe their tables of procedures: the offset depends on the address.
    function plt
    .cfi_startproc
    .cfi_def_cfa_offset 16
    .cfi_escape 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22
    .rept 16
    nop
    .endr
    .cfi_endproc
    end plt
";

const AARCH64: &str = "
    .text
    .macro function name
    .balign 64, 0
    .globl \\name
    .type \\name, @function
\\name:
    .endm
    .macro end name
    .size \\name, . - \\name
    .endm

    function _start
    .cfi_startproc
    .cfi_undefined x30
    nop
    bl outer
    .cfi_endproc
    end _start

    # Signs its return address.
    function outer
    .cfi_startproc
    hint #25
    .cfi_negate_ra_state
    stp x29, x30, [sp, #-32]!
    .cfi_def_cfa_offset 32
    .cfi_offset 29, -32
    .cfi_offset 30, -24
    bl leaf
    .cfi_endproc
    end outer

    function leaf
    .cfi_startproc
    nop
    ret
    .cfi_endproc
    end leaf

    # What a handler of a signal returns to.
    function restore
    mov x8, #139
    svc #0
    end restore

    # Keeps its frame pointer, and no table tells of it.
    function bare
    stp x29, x30, [sp, #-16]!
    mov x29, sp
    bl leaf
    ret
    end bare
";

fn tool(dir: &Path, command: &str, args: &[&str]) {
    let out = Command::new(command).args(args).current_dir(dir).output().unwrap();
    assert!(out.status.success(), "{command} {args:?}: {}", String::from_utf8_lossy(&out.stderr));
}

/// Assembles and links `source` to a file `program` of the directory.
fn assemble(dir: &Path, arch: Arch, source: &str) {
    fs::write(dir.join("program.s"), source).unwrap();
    match arch {
        Arch::X86_64 => {
            let base = ["-nostdlib", "-static", "-no-pie", "-o", "program", "program.s"];
            tool(dir, "gcc", &[&base, ["-Wl,-Ttext=0x401000,--eh-frame-hdr"].as_slice()].concat());
        }
        Arch::Aarch64 => {
            tool(dir, "clang", &["--target=aarch64-linux-gnu", "-c", "program.s"]);
            let rustc = Command::new("rustc").args(["--print", "sysroot"]).output().unwrap();
            let sysroot = String::from_utf8(rustc.stdout).unwrap();
            let lld = "lib/rustlib/x86_64-unknown-linux-gnu/bin/rust-lld";
            let lld = Path::new(sysroot.trim()).join(lld);
            let args =
                ["-flavor", "gnu", "--image-base=0x400000", "-z", "max-page-size=4096", "-z"];
            let more =
                ["separate-loadable-segments", "--eh-frame-hdr", "program.o", "-o", "program"];
            tool(dir, lld.to_str().unwrap(), &[args.as_slice(), &more].concat());
        }
    }
}

/// A sample's state, by the numbers that DWARF gives registers.
struct State<'a> {
    arch: Arch,
    abi: u64,
    registers: &'a [(u8, u64)],
    stack: &'a [u64],
    /// How many bytes were really copied of the stack.
    dyn_size: u64,
}

impl<'a> State<'a> {
    fn new(arch: Arch, registers: &'a [(u8, u64)], stack: &'a [u64]) -> Self {
        Self { arch, abi: 2, registers, stack, dyn_size: 8 * stack.len() as u64 }
    }

    /// A recording of one sample with the kernel's part `kernel`.
    fn recording(&self, program: &Path, kernel: &[u64]) -> Vec<u8> {
        let (mask, name) = match self.arch {
            Arch::X86_64 => (X86_64_MASK, "x86_64"),
            Arch::Aarch64 => (AARCH64_MASK, "aarch64"),
        };
        let mut build = Build { more_fields: CALLCHAIN | USER_STATE, ..Build::new() };
        build.endian = Endian::Little;
        build.attr_tail = [0; 16].into_iter().chain(mask.to_le_bytes()).collect();
        build.attr_tail.extend(8192_u32.to_le_bytes());
        let digits = name.bytes().fold(String::new(), |mut digits, byte| {
            write!(digits, "{byte:02x}").unwrap();
            digits
        });
        build.features = vec![(6, format!("{:08x} ={digits} 0*4", name.len() + 4), None)];
        build.comm(100, b"demo").mmap(100, 0x40_0000, 0x2000, program.to_str().unwrap(), 0);
        let of = |number: u8| {
            let found = self.registers.iter().find(|(it, _)| *it == number);
            found.map_or(0, |(_, value)| *value)
        };
        let values: Vec<u64> = match self.arch {
            Arch::X86_64 => X86_64_ORDER.into_iter().map(of).collect(),
            Arch::Aarch64 => (0..33).map(of).collect(),
        };
        let words = |words: &[u64]| {
            words.iter().fold(String::new(), |mut text, it| {
                write!(text, "{it:016x} ").unwrap();
                text
            })
        };
        let values = if self.abi == 0 { String::new() } else { words(&values) };
        let ip = of(if self.arch == Arch::X86_64 { 16 } else { 32 });
        let mut fields = format!("{ip:016x} 00000064 00000064 {:016x} {:016x} ", 1_000_000_000, 1);
        write!(fields, "{:016x} {}", kernel.len(), words(kernel)).unwrap();
        write!(fields, "{:016x} {values}", self.abi).unwrap();
        write!(fields, "{:016x} {}", 8 * self.stack.len(), words(self.stack)).unwrap();
        if !self.stack.is_empty() {
            write!(fields, "{:016x}", self.dyn_size).unwrap();
        }
        build.record(9, 2, &fields);
        build.file()
    }

    /// The frames that `script` prints of it, `address function+offset`, and what it warns of.
    fn script(&self, program: &Path, kernel: &[u64]) -> (Vec<String>, String) {
        let file = self.recording(program, kernel);
        let ran = run_with(["script", "-F", "ip,sym,symoff", "-i", "-"], &file);
        (frames(&ran.stdout), ran.stderr)
    }
}

/// The frames among the lines that `script` prints.
fn frames(stdout: &str) -> Vec<String> {
    stdout.lines().map(|it| it.trim().to_owned()).filter(|it| !it.is_empty()).collect()
}

#[track_caller]
fn check(program: &Path, state: &State<'_>, want: &[&str]) {
    let (frames, told) = state.script(program, &[]);
    assert_eq!((frames, told.as_str()), (want.iter().map(|it| (*it).to_owned()).collect(), ""));
}

#[test]
fn chains_take_the_place_of_the_stacks_that_lead_to_them() {
    let dir = tempfile::tempdir().unwrap();
    assemble(dir.path(), Arch::X86_64, X86_64);
    let program = dir.path().join("program");
    let registers = [(7, SP), (16, at(0, 1))];
    let state = State::new(Arch::X86_64, &registers, &[0]);
    let (want, _) = state.script(&program, &[]);
    let [from, to] = ["from", "to"].map(|it| dir.path().join(it));
    fs::write(&from, state.recording(&program, &[])).unwrap();
    let words = |path: &Path| [OsStr::new("-i"), path.as_os_str()].map(OsStr::to_owned);
    let inject = ["inject", "--convert-callchain", "-o"].map(OsString::from);
    let args = inject.into_iter().chain([to.clone().into_os_string()]).chain(words(&from));
    let ran = run(args);
    assert_eq!((ran.stderr.as_str(), ran.status), ("", Some(0)));
    let bytes = fs::read(&to).unwrap();
    let sample_type = u64::from_le_bytes(bytes[104 + 24..104 + 32].try_into().unwrap());
    assert_eq!(sample_type & (USER_STATE | CALLCHAIN), CALLCHAIN);
    assert!((bytes.len() as u64) < fs::metadata(&from).unwrap().len());
    let script = ["script", "-F", "ip,sym,symoff"].map(OsString::from);
    let ran = run(script.into_iter().chain(words(&to)));
    assert_eq!((frames(&ran.stdout), ran.stderr), (want, String::new()));
    // There is nothing to do it with twice.
    let again = ["inject", "--convert-callchain", "-o", "/dev/null"].map(OsString::from);
    let ran = run(again.into_iter().chain(words(&to)));
    assert!(ran.stderr.starts_with("error: cannot make call chains\n"), "{}", ran.stderr);
    // A stream tells of its events among its records.
    let ran = run_with(["inject", "--convert-callchain"], &stream(&from));
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(1), ""));
}

/// The recording at `path` as a stream.
fn stream(path: &Path) -> Vec<u8> {
    let output = program().args(["inject", "-i"]).arg(path).output().unwrap();
    assert!(output.status.success());
    output.stdout
}

/// Where in the function with the index `idx` something lies.
fn at(idx: u64, offset: u64) -> u64 {
    TEXT + FUNCTION * idx + offset
}

#[test]
fn x86_64_stacks_are_unwound_by_their_tables() {
    let dir = tempfile::tempdir().unwrap();
    assemble(dir.path(), Arch::X86_64, X86_64);
    let program = &dir.path().join("program");
    let x86_64 = |registers, stack| State::new(Arch::X86_64, registers, stack);
    let check = |registers: &[(u8, u64)], stack: &[u64], want: &[&str]| {
        check(program, &State::new(Arch::X86_64, registers, stack), want);
    };
    // leaf, from the last instruction of middle, from _start: return addresses are of what follows.
    let leaf = [(16, at(2, 1)), (7, SP)];
    let stack = [at(1, 7), 3, 6, at(0, 6)];
    let whole = ["401081 leaf+0x1", "401046 middle+0x6", "401005 _start+0x5"];
    check(&leaf, &stack, &whole);
    // The first instruction of middle: nothing is saved yet.
    check(&[(16, at(1, 0)), (7, SP)], &[at(0, 6)], &["401040 middle+0x0", whole[2]]);
    // leaf, from a function that aligned its stack: its frame is where rbp - 8 says.
    let aligned = [(16, at(2, 0)), (7, SP), (6, SP + 40)];
    let stack_of_aligned = [at(3, 6), 0, 0, 0, SP + 64, SP + 64, 0, at(0, 6)];
    check(&aligned, &stack_of_aligned, &["401080 leaf+0x0", "4010c5 aligned+0x5", whole[2]]);
    // leaf as the handler of a signal that came at the first instruction of leaf, which middle called.
    let mut signal = vec![at(4, 1)];
    signal.extend([0; 25]);
    signal[1 + 15] = 0x66;
    signal[1 + 20] = SP + 0x400;
    signal[1 + 21] = at(2, 0);
    signal.resize(0x80, 0);
    signal.extend(stack);
    let through = ["401081 leaf+0x1", "401101 restore+0x1", "401080 leaf+0x0", whole[1], whole[2]];
    check(&leaf, &signal, &through);
    signal[0] = at(5, 1);
    let bare = ["401081 leaf+0x1", "401141 bare_restore+0x1", "401080 leaf+0x0"];
    check(&leaf, &signal, &[bare.as_slice(), &whole[1..]].concat());
    // leaf, from a function that no table tells of, by its frame pointer.
    let framed = [(16, at(2, 1)), (7, SP), (6, SP + 8)];
    let of_bare = ["401081 leaf+0x1", "401188 bare+0x8", whole[2]];
    check(&framed, &[at(6, 9), 0, at(0, 6)], &of_bare);
    // The frame pointer leads to what no call returns to.
    check(&framed, &[at(6, 9), 0, at(0, 5)], &of_bare[..2]);
    // In the table of procedures: before and behind its push.
    check(&[(16, at(7, 0)), (7, SP)], &[at(0, 6)], &["4011c0 plt+0x0", whole[2]]);
    check(&[(16, at(7, 11)), (7, SP)], &[1, at(0, 6)], &["4011cb plt+0xb", whole[2]]);

    // The kernel's part comes first.
    let kernel = [0_u64.wrapping_sub(128), 0xffff_ffff_8100_0000];
    let (frames, _) = x86_64(&leaf, &stack).script(program, &kernel);
    let want = [&["ffffffff81000000 [unknown]"], whole.as_slice()].concat();
    assert_eq!(frames, want);
    // A kernel's thread has no registers.
    let thread = State { abi: 0, ..x86_64(&leaf, &stack) };
    assert_eq!(thread.script(program, &kernel).0, want[..1]);
    // A task in 32-bit mode.
    let (frames, told) = State { abi: 1, ..x86_64(&leaf, &stack) }.script(program, &[]);
    assert_eq!(frames, whole[..1]);
    assert!(told.contains("1 of 1 call chains are of tasks in 32-bit mode"), "{told}");
    // A copy that ends too early; less than was asked for is all that there was.
    let (frames, told) = x86_64(&leaf, &stack[..2]).script(program, &[]);
    assert_eq!(frames, whole[..2]);
    assert!(told.contains("1 of 1 call chains end early"), "{told}");
    let short = State { dyn_size: 16, ..x86_64(&leaf, &stack) };
    assert_eq!(
        short.script(program, &[]),
        (vec![whole[0].to_owned(), whole[1].to_owned()], String::new())
    );
    // No copy at all.
    assert_eq!(x86_64(&leaf, &[]).script(program, &[]).0, whole[..1]);
}

#[test]
fn aarch64_stacks_are_unwound_wherever_they_are_read() {
    let dir = tempfile::tempdir().unwrap();
    assemble(dir.path(), Arch::Aarch64, AARCH64);
    let program = &dir.path().join("program");
    let check = |registers: &[(u8, u64)], stack: &[u64], want: &[&str]| {
        check(program, &State::new(Arch::Aarch64, registers, stack), want);
    };
    // leaf has its return address in x30; that of outer is signed.
    let signed = 0x002a_0000_0000_0000 | at(0, 8);
    let leaf = [(32, at(2, 4)), (31, SP), (30, at(1, 12))];
    let stack = [0, signed, 0, 0];
    let whole = ["401084 leaf+0x4", "40104b outer+0xb", "401007 _start+0x7"];
    check(&leaf, &stack, &whole);
    // outer before it has signed it, and when it has.
    let outer = |offset, x30| [(32, at(1, offset)), (31, SP), (30, x30)];
    check(&outer(0, at(0, 8)), &[0], &["401040 outer+0x0", whole[2]]);
    check(&outer(4, signed), &[0], &["401044 outer+0x4", whole[2]]);
    // leaf as the handler of a signal that came in leaf.
    let mut signal = vec![0; 39];
    signal.extend([0; 33]);
    signal[39 + 30] = at(1, 12);
    signal[39 + 31] = SP + 0x400;
    signal[39 + 32] = at(2, 4);
    signal.resize(0x80, 0);
    signal.extend(stack);
    let handler = [(32, at(2, 0)), (31, SP), (30, at(3, 0))];
    let through = ["401080 leaf+0x0", "4010c0 restore+0x0"];
    check(&handler, &signal, &[through.as_slice(), &whole].concat());
    // leaf, from a function that no table tells of.
    let framed = [(32, at(2, 4)), (31, SP), (30, at(4, 12)), (29, SP)];
    check(&framed, &[0, at(0, 8)], &[whole[0], "40110b bare+0xb", whole[2]]);
}

/// Tables that are made to take forever, or all memory.
const HOSTILE: &str = "
    function long
    .cfi_startproc
    .rept 200000
    .cfi_def_cfa_offset 16
    .endr
    nop
    .cfi_endproc
    end long

    function deep
    .cfi_startproc
    .rept 1000
    .cfi_remember_state
    .endr
    nop
    .cfi_endproc
    end deep

    function endless
    .cfi_startproc
    .cfi_escape 0x0f, 3, 0x2f, 0xfd, 0xff   # to itself
    nop
    .cfi_endproc
    end endless
";

#[test]
fn tables_made_to_take_forever_end_the_chain() {
    let dir = tempfile::tempdir().unwrap();
    let (macros, _) = X86_64.split_once("function _start").unwrap();
    let start = "function _start\n nop\n end _start\n";
    assemble(dir.path(), Arch::X86_64, &format!("{macros}{start}{HOSTILE}"));
    let program = &dir.path().join("program");
    for (idx, name) in [(1, "401040 long+0x0"), (2, "401080 deep+0x0"), (3, "4010c0 endless+0x0")] {
        let stack = [at(0, 1); 8];
        check(program, &State::new(Arch::X86_64, &[(16, at(idx, 0)), (7, SP)], &stack), &[name]);
    }
}

/// The rows of all code of `file`, with its debug information in `debug`.
fn rows(file: &Path, debug: Option<&Path>) -> Vec<Option<Row>> {
    let read = |path: &Path| Arc::new(fs::read(path).unwrap()) as OwnedBytes;
    let code = ElfCode::parse(read(file), debug.map(read)).unwrap();
    let table = Table::new(&code).unwrap();
    let mut context = Context::default();
    (TEXT..TEXT + 8 * FUNCTION).map(|it| table.row(Addr(it), &mut context)).collect()
}

#[track_caller]
fn check_rows(want: &[Option<Row>], file: &Path, debug: Option<&Path>) {
    for (offset, (got, want)) in rows(file, debug).iter().zip(want).enumerate() {
        assert_eq!(got, want, "{}, {offset:#x}", file.display());
    }
}

#[test]
fn all_forms_of_a_table_say_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    let objcopy = |args: &[&str]| tool(dir.path(), "objcopy", args);
    assemble(dir.path(), Arch::X86_64, X86_64);
    let want = rows(&file("program"), None);
    // One address of padding, and all of a function.
    assert!(want[0x3f].is_none() && want[0x40..0x47].iter().all(Option::is_some));
    objcopy(&["-R", ".eh_frame_hdr", "program", "unsorted"]);
    check_rows(&want, &file("unsorted"), None);
    // What returns from a signal is told of in a form that is not read there.
    let source = X86_64.replace(".cfi_signal_frame", "");
    assemble(dir.path(), Arch::X86_64, &source);
    let want = rows(&file("program"), None);
    assemble(dir.path(), Arch::X86_64, &format!(".cfi_sections .debug_frame\n{source}"));
    check_rows(&want, &file("program"), None);
    for kind in ["zlib", "zlib-gnu", "zstd"] {
        objcopy(&[&format!("--compress-debug-sections={kind}"), "program", kind]);
        check_rows(&want, &file(kind), None);
    }
    objcopy(&["--only-keep-debug", "zlib", "debug"]);
    objcopy(&["--strip-debug", "program", "stripped"]);
    check_rows(&want, &file("stripped"), Some(&file("debug")));
}

/// An address space of one file.
struct OneFile<'a> {
    table: Table<'a>,
    context: Context,
    rows: Vec<Row>,
    n_frames: usize,
}

impl Space for OneFile<'_> {
    fn code(&mut self, pc: u64, left: Left) -> Code {
        let addr = pc.wrapping_sub(u64::from(left == Left::ByCall));
        match self.table.row(Addr(addr), &mut self.context) {
            Some(row) => {
                self.rows.push(row);
                Code::Row(RowId(u32::try_from(self.rows.len() - 1).unwrap()))
            }
            None if (TEXT..TEXT + 8 * FUNCTION).contains(&addr) => Code::NoTable,
            None => Code::None,
        }
    }

    fn row(&self, id: RowId) -> &Row {
        &self.rows[id.0 as usize]
    }

    fn follows_call(&mut self, _: u64) -> Option<bool> {
        None
    }

    fn frame(&mut self, _: u64) {
        self.n_frames += 1;
    }
}

#[test]
fn damaged_tables_stacks_and_registers_lead_nowhere_and_do_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    for (arch, source) in [(Arch::X86_64, X86_64), (Arch::Aarch64, AARCH64)] {
        for form in ["", ".cfi_sections .debug_frame\n"] {
            assemble(dir.path(), arch, &format!("{form}{source}"));
            damage(&fs::read(dir.path().join("program")).unwrap(), arch);
        }
    }
}

/// Unwinds with `file` changed in a few places, over stacks and from registers that are mostly
/// addresses of the code and of the stack.
fn damage(file: &[u8], arch: Arch) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.checked_rem(below).unwrap_or(state)
    };
    let pick = |idx: u64| usize::try_from(idx).unwrap();
    let whole = ElfCode::parse(Arc::new(file.to_vec()), None).unwrap();
    let section = |name| whole.section(Part::Mapped, name).filter(|it| !it.bytes.is_empty());
    let table = section(".debug_frame").or_else(|| section(".eh_frame")).unwrap().bytes;
    let start = file.windows(table.len()).position(|it| it == table).unwrap();
    let tables = start..start + table.len();
    let mut n_frames = 0;
    for _ in 0..3000 {
        let mut bytes = file.to_vec();
        for _ in 0..random(6) {
            let places = if random(8) == 0 { &(0..file.len()) } else { &tables };
            let place = places.start + pick(random(places.len() as u64));
            let other = random(256).to_le_bytes()[0];
            bytes[place] = [0, 0xff, 0x80, 0x7f, other][pick(random(5))];
        }
        let Ok(code) = ElfCode::parse(Arc::new(bytes), None) else { continue };
        let Some(table) = Table::new(&code) else { continue };
        let mut value = || match random(8) {
            0 => random(0),
            1 => TEXT + random(8 * FUNCTION),
            2..5 => SP + 8 * random(64),
            // Behind calls.
            _ => [at(0, 6), at(1, 7), at(3, 6), at(6, 9), at(0, 8), at(1, 12)][pick(random(6))],
        };
        let stack: Vec<u8> = (0..64).flat_map(|_| value().to_le_bytes()).collect();
        let mut registers = Registers::none();
        for number in 0..33 {
            registers.set(number, value());
        }
        registers.set(arch.sp(), SP);
        registers.set(arch.pc(), TEXT + random(8 * FUNCTION));
        let mut space = OneFile { table, context: Context::default(), rows: vec![], n_frames: 0 };
        let copy = StackCopy { start: SP, bytes: &stack };
        walk(arch, registers, &copy, &mut space, 127);
        assert!(space.n_frames <= 127);
        n_frames += space.n_frames;
    }
    // Not all of them were in vain.
    assert!(3500 < n_frames, "{n_frames}");
}
