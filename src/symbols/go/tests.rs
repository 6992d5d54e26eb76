//! On programs whose tables are written by hand, as Go's linker lays them out.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use crate::symbols::ElfCode;
use crate::symbols::ElfModule;
use crate::symbols::Functions as FunctionsOfFile;
use crate::symbols::LineTable as _;
use crate::symbols::SourceLines;
use crate::symbols::Symbols;
use crate::symbols::Tables;
use crate::symbols::elf::go_functions;
use crate::symbols::skeleton;
use crate::units::Addr;

use super::GoLines;

/// How a program is laid out.
#[derive(Clone, Copy)]
struct Layout<'a> {
    /// The number that its table begins with.
    magic: u32,
    /// Where `gofunc` is in its module data.
    gofunc: usize,
    /// How many bytes of other code stand before that of Go.
    before: usize,
    section: &'a str,
    is_64: bool,
    options: &'a [&'a str],
}

const V20: Layout<'static> = Layout {
    magic: 0xffff_fff1,
    gofunc: 40,
    before: 0,
    section: ".gopclntab,\"a\"",
    is_64: true,
    options: &["-static"],
};

/// A function: its name, and its length without padding.
const FUNCTIONS: [(&str, usize); 4] =
    [("main.main", 40), ("main.(*T).Work", 33), ("main.Map[go.shape.int]", 7), ("héé.λ", 16)];

/// Names of functions that have no code of their own.
const INLINED: [&str; 2] = ["main.twice", "main.inner"];

const FILES: [&str; 2] = ["/src/main.go", "/src/lib.go"];

/// Values of addresses as the table has them: each with how many bytes it holds for.
fn values(all: &[(i32, u32)]) -> String {
    let mut before = -1;
    let mut text = String::from("1:");
    for &(value, len) in all {
        let delta = value - before;
        writeln!(text, ".uleb128 {}, {len}", (delta << 1) ^ (delta >> 31)).unwrap();
        before = value;
    }
    text + ".byte 0\n"
}

impl Layout<'_> {
    fn word(&self) -> &'static str {
        if self.is_64 { ".quad" } else { ".long" }
    }

    /// The start of a function, as the table has it.
    fn start(&self, name: &str) -> String {
        let is_far = self.magic < 0xffff_fff8;
        if is_far { format!(".long {name} - text") } else { format!("{} {name}", self.word()) }
    }

    fn source(&self) -> String {
        let word = self.word();
        let mut text = format!(".text\n.globl _start\n_start: .fill {}, 1, 0x90\n", self.before);
        text += ".balign 32\ntext:\n";
        for (n, (_, len)) in FUNCTIONS.iter().enumerate() {
            writeln!(text, ".balign 32, 0xcc\nf{n}: .fill {len}, 1, 0x90").unwrap();
        }
        let n_functions = FUNCTIONS.len();
        let width = if self.is_64 { 8 } else { 4 };
        writeln!(
            text,
            "etext:\n.section {}\n.balign 16\ntable: .long {:#x}\n.byte 0, 0, 1, {width}\n{word} {n_functions}",
            self.section, self.magic
        )
        .unwrap();
        let is_first = self.magic == 0xffff_fffb;
        if !is_first {
            writeln!(text, "{word} 2").unwrap();
            if self.magic < 0xffff_fff8 {
                writeln!(text, "{word} text").unwrap();
            }
            for part in ["names", "units", "files", "values", "infos"] {
                writeln!(text, "{word} {part} - table").unwrap();
            }
        }
        let base = if is_first { "table" } else { "infos" };
        let number = if self.magic < 0xffff_fff8 { ".long" } else { word };
        let mut entries = String::new();
        for n in 0..n_functions {
            writeln!(entries, "{}\n{number} info{n} - {base}", self.start(&format!("f{n}")))
                .unwrap();
        }
        writeln!(entries, "{}", self.start("etext")).unwrap();
        if is_first {
            text += &entries;
            text += ".long 0\n";
        }
        text += "names:\n";
        for (n, (name, _)) in FUNCTIONS.iter().enumerate() {
            writeln!(text, "name{n}: .asciz \"{name}\"").unwrap();
        }
        for (n, name) in INLINED.iter().enumerate() {
            writeln!(text, "inlined{n}: .asciz \"{name}\"").unwrap();
        }
        text += ".balign 4\nunits: .long file0 - files, file1 - files\n";
        text += "files:\n";
        for (n, name) in FILES.iter().enumerate() {
            writeln!(text, "file{n}: .asciz \"{name}\"").unwrap();
        }
        text += "values: .byte 0\n";
        for (n, (_, len)) in FUNCTIONS.iter().enumerate() {
            let len = u32::try_from(*len).unwrap();
            text += &values(&[(0, 4), (24, len - 4)]).replace("1:", &format!("stack{n}:"));
            // The first function has lines 10, 50 of another file, 11 and 12.
            let (files, lines) = match n {
                0 => (vec![(0, 10), (1, 10), (0, 20)], vec![(10, 10), (50, 10), (11, 9), (12, 11)]),
                _ => (vec![(0, len)], vec![(100 * i32::try_from(n).unwrap(), len)]),
            };
            text += &values(&files).replace("1:", &format!("file_of{n}:"));
            text += &values(&lines).replace("1:", &format!("line_of{n}:"));
        }
        // Within the first, `twice` is inlined, and into that `inner`.
        text += &values(&[(-1, 10), (1, 10), (0, 5), (-1, 15)]).replace("1:", "inlines:");
        let base_of_values = if is_first { "table" } else { "values" };
        let base_of_names = if is_first { "table" } else { "names" };
        text += ".balign 8\ninfos:\n";
        if !is_first {
            text += &entries;
        }
        for n in 0..n_functions {
            let at = |what: &str| format!("{what}{n} - {base_of_values}");
            writeln!(
                text,
                ".balign {width}\ninfo{n}: {}\n.long name{n} - {base_of_names}, 0, 0\n\
                 .long {}, {}, {}, 3, 0",
                self.start(&format!("f{n}")),
                at("stack"),
                at("file_of"),
                at("line_of"),
            )
            .unwrap();
            if self.magic == 0xffff_fff1 {
                text += ".long 1\n";
            }
            text += ".byte 0, 0, 0, 4\n";
            let inlines = if n == 0 { "inlines - values" } else { "0" };
            let tree = if n == 0 { "tree - gofunc" } else { "-1" };
            writeln!(text, ".long 0, 0, {inlines}, -1, -1, -1, {tree}").unwrap();
        }
        text += ".section .rodata\n.long 7, 7, 7, 7\n.balign 8\ngofunc: .long 0, 0, 0\ntree:\n";
        // `twice` is called at 22, `inner` at 21, where it is itself inlined.
        for (n, called_at) in [(0, 26), (1, 21)] {
            let name = format!("inlined{n} - names");
            if self.magic == 0xffff_fff1 {
                writeln!(text, ".long 0, {name}, {called_at}, 1").unwrap();
            } else {
                writeln!(text, ".long {}, 0, 0, {name}, {called_at}", n - 1).unwrap();
            }
        }
        text += ".section .noptrdata,\"aw\"\n.balign 32\n.fill 32\nmodule:\n";
        let module = |idx: usize| match idx {
            0 => "table",
            20 | 22 | 35 => "text",
            21 | 23 => "etext",
            _ if idx == self.gofunc => "gofunc",
            _ => "0",
        };
        for idx in 0..50 {
            writeln!(text, "{word} {}", module(idx)).unwrap();
        }
        text
    }

    /// The program, without symbols.
    fn made(&self) -> Vec<u8> {
        self.made_of(&self.source())
    }

    fn made_of(&self, source: &str) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.S"), source).unwrap();
        let mut gcc = Command::new("gcc");
        let base = ["-nostdlib", "-s", "-o", "a", "a.S"];
        let out = gcc.current_dir(&dir).args(base).args(self.options).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        fs::read(dir.path().join("a")).unwrap()
    }
}

/// Where `.text` is, and how long it is.
fn text(bytes: &[u8]) -> (u64, u64) {
    use object::Object as _;
    use object::ObjectSection as _;

    let file = object::File::parse(bytes).unwrap();
    let section = file.section_by_name(".text").unwrap();
    (section.address(), section.size())
}

/// Each address with its name and what `frames` say of it, where that changes.
fn all(bytes: &[u8], layout: &Layout<'_>) -> Vec<(u64, String)> {
    let module = ElfModule::parse(bytes, None).unwrap();
    let code = ElfCode::parse(Arc::new(bytes.to_vec()), None).unwrap();
    let lines = code.lines();
    let (start, len) = text(bytes);
    let start = start + (layout.before as u64).next_multiple_of(32);
    let mut found: Vec<(u64, String)> = Vec::new();
    for at in 0..len - (start - text(bytes).0) {
        let addr = Addr(start + at);
        let symbol = module.find(addr).and_then(|it| module.symbol(it));
        let mut text = symbol.map_or("-".to_owned(), |it| it.name.to_owned());
        let mut frames = Vec::new();
        if let Some(lines) = &lines {
            lines.frames(addr, &mut frames);
            let line = frames.first().and_then(|it| it.line);
            assert!(line.is_none() || lines.at(addr) == line);
        }
        for frame in frames {
            let line = frame.line.map_or("?".to_owned(), |it| format!("{}:{}", it.file, it.line));
            write!(text, " {}@{line}", frame.function.unwrap_or_default()).unwrap();
        }
        if found.last().is_none_or(|it| it.1 != text) {
            found.push((at, text));
        }
    }
    found
}

const WITH_LINES: [(u64, &str); 11] = [
    (0, "main.main @/src/main.go:10"),
    (10, "main.main main.inner@/src/lib.go:50 main.twice@/src/main.go:11 @/src/main.go:11"),
    (20, "main.main main.twice@/src/main.go:11 @/src/main.go:11"),
    (25, "main.main @/src/main.go:11"),
    (29, "main.main @/src/main.go:12"),
    (40, "-"),
    (64, "main.(*T).Work @/src/main.go:100"),
    (97, "-"),
    (128, "main.Map[go.shape.int] @/src/main.go:200"),
    (135, "-"),
    (160, "héé.λ @/src/main.go:300"),
];

#[track_caller]
fn check_all(layout: &Layout<'_>, has_lines: bool) {
    let bytes = layout.made();
    let found = all(&bytes, layout);
    let found: Vec<_> = found.iter().map(|(at, text)| (*at, text.as_str())).collect();
    if has_lines {
        assert_eq!(found, WITH_LINES);
        return;
    }
    let mut want: Vec<(u64, &str)> = Vec::new();
    for (at, text) in WITH_LINES {
        let name = text.split(' ').next().unwrap();
        if want.last().is_none_or(|it| it.1 != name) {
            want.push((at, name));
        }
    }
    assert_eq!(found, want);
}

#[test]
fn functions_lines_and_what_was_inlined_are_found_in_all_forms_of_the_table() {
    check_all(&V20, true);
    // Later versions have more before it.
    check_all(&Layout { gofunc: 43, ..V20 }, true);
    let v18 = Layout { magic: 0xffff_fff0, gofunc: 38, ..V20 };
    check_all(&v18, true);
    check_all(&Layout { magic: 0xffff_fffa, ..V20 }, false);
    check_all(&Layout { magic: 0xffff_fffb, ..V20 }, false);
    for layout in [V20, v18] {
        let merged = ".data.rel.ro,\"aw\"\n.fill 48";
        for section in [".data.rel.ro.gopclntab,\"aw\"", merged] {
            check_all(&Layout { section, options: &["-static-pie"], ..layout }, true);
            check_all(&Layout { section, options: &["-shared"], ..layout }, true);
        }
        // With code of other languages.
        check_all(&Layout { before: 100, ..layout }, true);
        check_all(&Layout { is_64: false, options: &["-m32", "-static"], ..layout }, true);
    }
}

#[test]
fn lines_end_with_the_room_for_the_way_to_them() {
    let bytes = V20.made();
    let placed = go_functions(&bytes).unwrap().0;
    let lines = GoLines::new(placed, 100);
    let addr = Addr(text(&bytes).0 + 12);
    let n_frames = || {
        let mut frames = Vec::new();
        lines.frames(addr, &mut frames);
        frames.len()
    };
    assert!(n_frames() == 3 && !lines.is_cut());
    let n_found = (0..100).filter(|_| n_frames() == 3).count();
    assert!(0 < n_found && n_found < 20 && n_frames() == 0 && lines.is_cut(), "{n_found}");
    assert_eq!(lines.at(addr), None);
}

#[test]
fn probes_find_functions_of_a_stripped_program() {
    let bytes = V20.made();
    let functions = FunctionsOfFile::parse(&bytes, None).unwrap();
    let module = ElfModule::parse(&bytes, None).unwrap();
    let at = functions.offset("main.(*T).Work").and_then(|it| module.vaddr(it)).unwrap();
    assert_eq!(at.0, text(&bytes).0 + 64);
}

#[test]
fn a_file_has_all_names_if_all_its_code_is_of_go() {
    let of = |layout: Layout<'_>| ElfModule::parse(&layout.made(), None).unwrap().symbols();
    assert_eq!(of(V20), Symbols::Full);
    assert_eq!(of(Layout { before: 100, ..V20 }), Symbols::None);
}

#[test]
fn a_table_that_is_not_of_the_file_as_it_is_names_nothing() {
    let bytes = V20.made();
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), &bytes).unwrap();
    // Its own addresses are those of before.
    let moved = Command::new("objcopy")
        .current_dir(&dir)
        .args(["--change-addresses", "0x1000", "a", "moved"])
        .status()
        .unwrap();
    assert!(moved.success());
    let moved = fs::read(dir.path().join("moved")).unwrap();
    assert_eq!(all(&moved, &V20), [(0, "-".to_owned())]);

    // Of the tables that end elsewhere, none is it.
    let source = V20.source();
    let other = source.replace(".quad etext", ".quad etext + 1");
    assert_eq!(all(&V20.made_of(&other), &V20), [(0, "-".to_owned())]);
    assert_ne!(all(&V20.made_of(&source), &V20), [(0, "-".to_owned())]);
}

#[test]
fn where_nothing_describes_what_was_inlined_only_other_code_has_lines() {
    // No name begins there.
    let source = V20.source().replace("inlined1 - names", "inlined1 + 1 - names");
    let found = all(&V20.made_of(&source), &V20);
    let has_line = |at: u64| found.iter().rfind(|it| it.0 <= at).unwrap().1.contains('@');
    assert_eq!([0, 9, 10, 24, 25].map(has_line), [true, true, false, false, true]);
}

#[test]
fn what_a_recording_keeps_of_a_file_has_its_names_and_its_own_lines() {
    let merged = ".data.rel.ro,\"aw\"\n.fill 48";
    for (option, section) in [("-static", V20.section), ("-static-pie", merged)] {
        let options = &[option];
        let layout = Layout { magic: 0xffff_fff0, gofunc: 38, section, options, ..V20 };
        let bytes = layout.made();
        let kept = skeleton(&*bytes, Tables::Names, u64::MAX).unwrap();
        let names = |bytes: &[u8]| -> Vec<String> {
            let module = ElfModule::parse(bytes, None).unwrap();
            module.table().iter().map(|it| format!("{:x} {}", it.start.0, it.name)).collect()
        };
        assert_eq!(names(&kept), names(&bytes));
        assert_eq!(names(&kept).len(), FUNCTIONS.len());
        let code = ElfCode::parse(Arc::new(kept), None).unwrap();
        assert!(matches!(code.lines(), Some(SourceLines::Go(_))));
    }
}

#[test]
fn a_damaged_table_names_no_other_code() {
    use object::Object as _;
    use object::ObjectSection as _;

    let bytes = V20.made();
    let table = object::File::parse(&*bytes).unwrap();
    let (at, len) = table.section_by_name(".gopclntab").unwrap().file_range().unwrap();
    let (start, text_len) = text(&bytes);
    let mut state = 7_u64;
    let mut number = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
        usize::try_from((state >> 33) % below).unwrap()
    };
    let mut n_named = 0;
    for _ in 0..2000 {
        let mut damaged = bytes.clone();
        for _ in 0..=number(3) {
            let place = usize::try_from(at).unwrap() + number(len);
            damaged[place] = [0, 1, 0x7f, 0x80, 0xff, damaged[place] ^ 4][number(6)];
        }
        let module = ElfModule::parse(&damaged, None).unwrap();
        let code = ElfCode::parse(Arc::new(damaged), None).unwrap();
        let (lines, mut frames) = (code.lines(), Vec::new());
        for symbol in module.table().iter() {
            assert!(start <= symbol.start.0 && symbol.end.0 <= start + text_len, "{symbol:?}");
            n_named += 1;
        }
        for addr in start - 9..start + text_len + 9 {
            if let Some(lines) = &lines {
                lines.frames(Addr(addr), &mut frames);
            }
        }
    }
    assert!(2000 < n_named, "{n_named}");
}

#[test]
fn a_table_costs_no_more_than_its_length_allows() {
    // Thousands of functions with one name of a megabyte, and with one long list of values.
    let functions = "\
.text
.globl _start
_start:
text: .fill 40000, 1, 0x90
etext:
.section .gopclntab,\"a\"
table: .long 0xfffffff1
.byte 0, 0, 1, 8
.quad 40000, 0, 0, names - table, units - table, files - table, values - table, infos - table
names: .fill 60000, 1, 65
.byte 0
.balign 4
units:
files:
values: .fill 1000000, 1, 2
.balign 8
infos:
.set n, 0
.rept 40000
.long n, info - infos
.set n, n + 1
.endr
.long 40000
info: .long 0, 0, 0, 0, 1, 1, 1, 3, 0, 0, 0
.section .noptrdata,\"aw\"
.quad table
.fill 152
.quad text, etext, text
.fill 200
";
    let bytes = V20.made_of(functions);
    let started = Instant::now();
    let module = ElfModule::parse(&bytes, None).unwrap();
    assert!(module.table().len() < 100, "{}", module.table().len());
    let code = ElfCode::parse(Arc::new(bytes.clone()), None).unwrap();
    let (start, _) = text(&bytes);
    let lines = code.lines().unwrap();
    let mut frames = Vec::new();
    for at in 0..1000 {
        lines.frames(Addr(start + at), &mut frames);
    }
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}

#[test]
fn long_lists_of_values_do_not_make_it_long_to_see_what_was_inlined() {
    // Each function has a long list that says that nothing was, and many addresses may be that of the tree.
    let functions = "\
.text
.globl _start
_start:
text: .fill 2000, 1, 0x90
etext:
.section .gopclntab,\"a\"
table: .long 0xfffffff1
.byte 0, 0, 1, 8
.quad 2000, 0, 0, names - table, names - table, names - table, values - table, infos - table
names: .asciz \"main.main\"
values: .byte 0
.fill 65536, 2, 0x101
.byte 0
.balign 8
infos:
.set n, 0
.rept 2000
.long n, 2001 * 8 + 72 * n
.set n, n + 1
.endr
.long 2000, 0
.set n, 0
.rept 2000
.long n, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0x4000000, 0, 0, 1, 0, 0, 0, 0
.set n, n + 1
.endr
.section .noptrdata,\"aw\"
.quad table
.fill 152
.quad text, etext, text
.fill 72
.quad table, table, table, table, table, table, table, table
.quad table, table, table, table, table, table, table, table
";
    let bytes = V20.made_of(functions);
    let started = Instant::now();
    let module = ElfModule::parse(&bytes, None).unwrap();
    assert_eq!(module.table().len(), 2000);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}
