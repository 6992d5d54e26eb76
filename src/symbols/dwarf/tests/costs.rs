//! Debug information of which each byte costs a hundred times as much: what is left out of it.

use super::*;

/// A program with these sections of debug information.
#[track_caller]
fn build(sections: &str, after: impl FnOnce(&Workshop)) -> Vec<u8> {
    let workshop = Workshop::new();
    let text = ".text\n.globl _start\n_start: .fill 256, 1, 0x90\n";
    workshop.build("costly.S", &format!("{text}{sections}"), &[]);
    after(&workshop);
    fs::read(workshop.path().join("prog")).unwrap()
}

/// Asks for all that there is at the first address; what the code is there, and how much was left out.
#[track_caller]
fn ask(bytes: &[u8]) -> (Option<u32>, usize, u64) {
    let code = code(bytes).unwrap();
    let lines = DwarfLines::new(&code);
    let addr = Addr(text(bytes)[0]);
    let mut frames = Vec::new();
    lines.frames(addr, &mut frames);
    (lines.at(addr).map(|it| it.line), frames.len(), lines.n_left_out())
}

/// Something of it is left out, and soon.
#[track_caller]
fn check(sections: &str) {
    let bytes = build(sections, |_| {});
    let started = Instant::now();
    let (.., n_left_out) = ask(&bytes);
    assert_ne!(n_left_out, 0);
    assert!(started.elapsed() < Duration::from_secs(30));
}

/// A unit of version 4 with a table of lines.
const UNIT: &str = "
.section .debug_abbrev
    .uleb128 1, 0x11; .byte 0; .uleb128 0x10, 0x17, 0x11, 0x01, 0x12, 0x07, 0, 0
    .byte 0
.section .debug_info
    .long 28
    .short 4; .long 0; .byte 8
    .uleb128 1; .long 0; .quad _start, 256
";

/// A table of lines of `version` with these names of files and this program.
fn lines(version: u32, names: &str, program: &str) -> String {
    let sizes = if version < 5 { "" } else { ".byte 8, 0" };
    format!(
        "{UNIT}
.section .debug_line
    .long end - start
start:
    .short {version}
    {sizes}
    .long program - header
header:
    .byte 1, 1, 1, -5, 14, 13
    .byte 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1
    {names}
program:
    .byte 0, 9, 2
    .quad _start
    {program}
    .byte 2, 100, 0, 1, 1
end:
"
    )
}

const ONE_FILE: &str = ".byte 0\n.asciz \"x.c\"\n.byte 0, 0, 0, 0";

#[test]
fn a_small_table_of_lines_is_read() {
    let bytes = build(&lines(4, ONE_FILE, ".byte 1"), |_| {});
    assert_eq!(ask(&bytes), (Some(1), 1, 0));
    let named = ".byte 1; .uleb128 1, 8, 1; .asciz \"/\"
        .byte 1; .uleb128 1, 8, 2; .asciz \"x.c\", \"y.c\"";
    let bytes = build(&lines(5, named, ".byte 1"), |_| {});
    assert_eq!(ask(&bytes), (Some(1), 1, 0));
}

#[test]
fn names_of_files_take_no_more_than_their_length_allows() {
    // One byte each.
    let many = ".byte 1; .uleb128 1, 8, 1; .asciz \"/\"
        .byte 1; .uleb128 1, 8, 1000000; .fill 1000000, 1, 0";
    check(&lines(5, many, ".byte 1"));
    let folders = ".byte 1; .uleb128 1, 8, 1000000; .fill 1000000, 1, 0
        .byte 1; .uleb128 1, 8, 1; .asciz \"x.c\"";
    check(&lines(5, folders, ".byte 1"));
    let old = ".byte 0\n.rept 500000\n.byte 97, 0, 0, 0, 0\n.endr\n.byte 0";
    check(&lines(4, old, ".byte 1"));
    // Named by the program.
    let in_program = ".rept 1000000\n.byte 0, 6, 3, 97, 0, 0, 0, 0\n.endr";
    check(&lines(4, ONE_FILE, in_program));
}

#[test]
fn rows_of_lines_take_no_more_than_their_length_allows() {
    check(&lines(4, ONE_FILE, ".fill 4000000, 1, 0x21"));
    // Code of a row and an end each.
    check(&lines(4, ONE_FILE, ".rept 500000\n.byte 0x21, 0, 1, 1\n.endr"));
}

#[test]
fn units_take_no_more_than_their_length_allows() {
    check(
        "
.section .debug_abbrev
    .uleb128 1, 0x11; .byte 0, 0, 0, 0
.section .debug_info
.rept 100000
    .long 8
    .short 4; .long 0; .byte 8
    .uleb128 1
.endr
",
    );
}

#[test]
fn abbreviations_take_no_more_than_their_length_allows() {
    check(
        "
.section .debug_abbrev
    .set number, 0
.rept 500000
    .set number, number + 1
    .uleb128 number
    .byte 0x11, 0, 0, 0
.endr
    .byte 0
.section .debug_info
    .long 8
    .short 4; .long 0; .byte 8
    .uleb128 1
",
    );
}

#[test]
fn listed_ranges_take_no_more_than_their_length_allows() {
    check(
        "
.section .debug_abbrev
    .uleb128 1, 0x11; .byte 0, 0, 0, 0
.section .debug_info
    .long 8
    .short 4; .long 0; .byte 8
    .uleb128 1
.section .debug_aranges
    .long end - start
start:
    .short 2; .long 0; .byte 1, 0
    .fill 4000000, 1, 1
    .byte 0, 0
end:
",
    );
}

#[test]
fn lists_that_many_units_share_are_not_read_without_end() {
    let shared = |list: &str| {
        check(&format!(
            "
.section .debug_abbrev
    .uleb128 1, 0x11; .byte 0; .uleb128 0x55, 0x17, 0, 0
    .byte 0
.section .debug_info
.rept 15000
    .long 12
    .short 4; .long 0; .byte 8
    .uleb128 1; .long 0
.endr
.section .debug_ranges
.rept 20000
    {list}
.endr
    .quad 0, 0
"
        ));
    };
    shared(".quad 0x1000, 0x1001");
    // Entries that are no ranges.
    shared(".quad -1, 0x1000");
}

#[test]
fn text_without_end_is_not_looked_through_for_each_unit() {
    check(
        "
.section .debug_abbrev
    .uleb128 1, 0x11; .byte 0; .uleb128 0x1b, 0x0e, 0, 0
    .byte 0
.section .debug_info
.rept 15000
    .long 12
    .short 4; .long 0; .byte 8
    .uleb128 1; .long 0
.endr
.section .debug_str
    .fill 4000000, 1, 97
",
    );
}

/// A unit of version 5 with these `entries`, of 3 bytes each: 2 is a function, 3 one with what was inlined
/// into it, 4 what was inlined, 5 a thing with many attributes that take no room.
fn entries(entries: &str) -> String {
    let attributes = "0x3c, 0x19, ".repeat(64);
    format!(
        "
.section .debug_abbrev
    .uleb128 1, 0x11; .byte 1; .uleb128 0x73, 0x17, 0x11, 0x01, 0x12, 0x07, 0, 0
    .uleb128 2, 0x2e; .byte 0; .uleb128 0x11, 0x1b, 0x12, 0x0b, 0, 0
    .uleb128 3, 0x2e; .byte 1; .uleb128 0x11, 0x1b, 0x12, 0x0b, 0, 0
    .uleb128 4, 0x1d; .byte 0; .uleb128 0x11, 0x1b, 0x12, 0x0b, 0, 0
    .uleb128 5, 0x34; .byte 0; .uleb128 {attributes} 0, 0
    .byte 0
.section .debug_addr
    .quad _start
.section .debug_info
    .long end - start
start:
    .short 5; .byte 1, 8; .long 0
    .uleb128 1; .long 0; .quad _start, 256
    {entries}
    .byte 0
end:
"
    )
}

#[test]
fn functions_and_what_was_inlined_take_no_more_than_their_length_allows() {
    let small = build(&entries(".byte 3, 0, 99\n.byte 4, 0, 9\n.byte 0"), |_| {});
    assert_eq!(ask(&small), (None, 2, 0));
    check(&entries(".rept 500000\n.byte 2, 0, 99\n.endr"));
    check(&entries(".byte 3, 0, 99\n.rept 500000\n.byte 4, 0, 9\n.endr\n.byte 0"));
    check(&entries(".fill 1000000, 1, 5"));
    check(&entries(".byte 3, 0, 99\n.fill 400000, 1, 5\n.byte 0"));
}

#[test]
fn sections_are_inflated_as_far_as_the_length_of_the_file_allows() {
    let sections = "
.section .debug_str
    .fill 20000000, 1, 0
";
    for kind in ["zlib", "zstd"] {
        let flag = format!("--compress-debug-sections={kind}");
        let bytes = build(sections, |it| it.run("objcopy", &[&flag, "prog"]));
        assert!(bytes.len() < 100_000, "{kind}: {}", bytes.len());
        let code = code(&bytes).unwrap();
        let section = code.section(Part::Debug, ".debug_str").unwrap();
        assert_eq!((section.bytes.len(), DwarfLines::new(&code).n_left_out()), (0, 1));
    }
}
