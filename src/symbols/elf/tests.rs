//! On files that gcc and the linker of the machine make.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use object::Object as _;
use object::ObjectSection as _;

use super::*;
use crate::symbols::FileStatus;
use crate::symbols::Files;
use crate::symbols::LineTable as _;
use crate::symbols::ModuleFile;
use crate::symbols::Opened;
use crate::symbols::Places;

/// A directory to build in, and a store of what was built, by path.
struct Workshop {
    dir: tempfile::TempDir,
    files: Stored,
}

impl Workshop {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), files: Stored::default() }
    }

    /// Compiles `source` to a file called `name` and returns its bytes.
    fn gcc(&self, name: &str, source: &str, args: &[&str]) -> Vec<u8> {
        fs::write(self.dir.path().join("source.c"), source).unwrap();
        let base = ["-O1", "-fno-asynchronous-unwind-tables", "-o", name, "source.c"];
        self.run("gcc", &[&base, args].concat());
        fs::read(self.dir.path().join(name)).unwrap()
    }

    fn run(&self, command: &str, args: &[&str]) {
        let out = Command::new(command).args(args).current_dir(&self.dir).output().unwrap();
        assert!(
            out.status.success(),
            "{command} {args:?}: {}",
            String::from_utf8_lossy(&out.stderr)
        );
    }

    /// Puts the file `name` of the directory into the store as `path`.
    fn store(&mut self, name: &str, path: &str) {
        let bytes = fs::read(self.dir.path().join(name)).unwrap();
        self.files.0.insert(PathBuf::from(path), bytes);
    }

    fn load(&self, path: &str, build_id: Option<BuildId>) -> Result<ElfModule, Error> {
        let file = ModuleFile { build_id, ..ModuleFile::at(path) };
        ElfModule::load(&self.files, &file, &places())
    }
}

fn places() -> Places {
    Places { store: Some("/cache".into()), ..Places::default() }
}

/// Files by path.
#[derive(Clone, Default)]
struct Stored(HashMap<PathBuf, Vec<u8>>);

impl Files for Stored {
    type Bytes = Vec<u8>;

    fn open(&self, path: &Path) -> io::Result<Opened<Vec<u8>>> {
        let bytes = self.0.get(path).cloned().ok_or(io::ErrorKind::NotFound)?;
        Ok(Opened { bytes, status: FileStatus::default() })
    }
}

/// The name and offset for the byte at `at` in the file, as `name+0xoff`.
fn name_at(module: &ElfModule, at: u64) -> String {
    let found = module.vaddr(FileOffset(at)).and_then(|addr| {
        let symbol = module.symbol(module.find(addr)?)?;
        Some(format!("{}+{:#x}", symbol.name, addr - symbol.start))
    });
    found.unwrap_or_else(|| "-".to_owned())
}

/// Where in the file the code of `function` starts, found by the constant that it returns.
fn offset_of(bytes: &[u8], constant: u32) -> u64 {
    // b8: mov $constant, %eax
    let code = [&[0xb8][..], &constant.to_le_bytes()].concat();
    let at = bytes.windows(code.len()).position(|it| it == code);
    at.expect("the function is in the file") as u64
}

const TWO: &str = "
int one(void) { return 0x11111111; }
__attribute__((section(\".text2\"))) int two(void) { return 0x22222222; }
char hole[0x800000]; int data = 1;
void _start(void) { one(); two(); hole[0] = data; }";

#[track_caller]
fn check_two(bytes: &[u8]) {
    let module = ElfModule::parse(bytes, None).unwrap();
    for (constant, want) in [(0x1111_1111, "one+0x0"), (0x2222_2222, "two+0x0")] {
        assert_eq!(name_at(&module, offset_of(bytes, constant)), want);
    }
}

#[test]
fn names_are_right_whatever_the_layout() {
    let workshop = Workshop::new();
    let base = ["-nostdlib", "-static"];
    check_two(&workshop.gcc("plain", TWO, &base));
    check_two(&workshop.gcc("pie", TWO, &["-nostdlib", "-static-pie", "-fPIE"]));
    check_two(&workshop.gcc("shared", TWO, &["-nostdlib", "-shared", "-fPIC"]));
    // p_vaddr is far from p_offset, as lld and mold lay files out.
    let layout = ["-Wl,-z,max-page-size=0x1000", "-Wl,-Ttext=0x2000000"];
    check_two(&workshop.gcc("far", TWO, &[&base[..], &layout].concat()));
}

#[test]
fn a_large_bss_does_not_cover_the_code_behind_it_in_the_file() {
    let workshop = Workshop::new();
    let script = "
        PHDRS { text PT_LOAD FLAGS(5); data PT_LOAD FLAGS(6); text2 PT_LOAD FLAGS(5); }
        SECTIONS {
            . = 0x400000; .text : { *(.text) } :text
            . = 0x600000; .data : { *(.data) } :data .bss : { *(.bss) } :data
            . = 0x2000000; .text2 : { *(.text2) } :text2
            /DISCARD/ : { *(.note*) *(.comment) }
        }";
    fs::write(workshop.dir.path().join("script"), script).unwrap();
    check_two(&workshop.gcc("holed", TWO, &["-nostdlib", "-static", "-Wl,-T,script"]));
}

#[test]
fn assembly_without_a_size_reaches_to_the_next_symbol() {
    let workshop = Workshop::new();
    let source = "
__asm__(\".text\\n.globl hot\\n.type hot,@function\\nhot: mov $0x11111111, %eax\\n\"
        \".fill 64,1,0x90\\nret\\n.globl next\\n.type next,@function\\nnext: ret\\n\");
void _start(void) {}";
    let bytes = workshop.gcc("asm", source, &["-nostdlib", "-static"]);
    let module = ElfModule::parse(&bytes, None).unwrap();
    let at = offset_of(&bytes, 0x1111_1111);
    assert_eq!(name_at(&module, at), "hot+0x0");
    assert_eq!(name_at(&module, at + 69), "hot+0x45");
    assert_eq!(name_at(&module, at + 70), "next+0x0");
}

#[test]
fn a_symbol_without_a_size_does_not_reach_into_another_section() {
    let workshop = Workshop::new();
    let source = "
__asm__(\".section .text.a,\\\"ax\\\"\\n.globl last\\n.type last,@function\\nlast: ret\\n.text\\n\");
__attribute__((section(\".text.b\"))) static int gone(void) { return 0x11111111; }
void _start(void) { gone(); }";
    let script = "SECTIONS {
        . = 0x400000; .first : { *(.text.a) } .second : { *(.text.b) } .third : { *(.text) }
        /DISCARD/ : { *(.note*) *(.comment) } }";
    fs::write(workshop.dir.path().join("script"), script).unwrap();
    let args = ["-O0", "-nostdlib", "-static", "-Wl,-T,script"];
    workshop.gcc("sections", source, &args);
    // Only the names of the first section are left.
    workshop.run("strip", &["-K", "last", "sections"]);
    let bytes = fs::read(workshop.dir.path().join("sections")).unwrap();
    let module = ElfModule::parse(&bytes, None).unwrap();
    let at = offset_of(&bytes, 0x1111_1111);
    assert_eq!(name_at(&module, at), "-");
    assert_eq!(module.find(Addr(0x40_0000)), Some(SymbolIdx(0)));
}

/// A library with an export that has no size, and behind it a function that nothing names once it is
/// stripped.
const NAMELESS: &str = "
__asm__(\".text\\n.globl export\\n.type export,@function\\nexport: .cfi_startproc\\n\"
        \"mov $0x11111111, %eax\\nret\\n.cfi_endproc\\n\");
__attribute__((noinline)) static int hidden(void) { return 0x22222222; }
int sized(void) { return hidden() ? 0x33333333 : 0; }";

#[test]
fn an_export_without_a_size_does_not_take_what_a_stripped_file_hides() {
    let workshop = Workshop::new();
    let names = |unwind: &str, linker: &str| {
        // Functions in the order of the source.
        let args = ["-O1", "-fno-toplevel-reorder", "-fno-inline", "-shared", "-fPIC", "-nostdlib"];
        let source = if unwind == "-fno-asynchronous-unwind-tables" {
            NAMELESS.replace(".cfi_startproc", "").replace(".cfi_endproc", "")
        } else {
            NAMELESS.to_owned()
        };
        workshop.gcc("lib", &source, &[&args[..], &[unwind, linker]].concat());
        workshop.run("strip", &["lib"]);
        let bytes = fs::read(workshop.dir.path().join("lib")).unwrap();
        let module = ElfModule::parse(&bytes, None).unwrap();
        let export = offset_of(&bytes, 0x1111_1111);
        let at = [export, export + 5, export + 6, offset_of(&bytes, 0x2222_2222)];
        at.map(|it| name_at(&module, it))
    };
    let known = ["export+0x0", "export+0x5", "-", "-"];
    for linker in ["-Wl,--eh-frame-hdr", "-Wl,--no-eh-frame-hdr"] {
        assert_eq!(names("-fasynchronous-unwind-tables", linker), known, "{linker}");
    }
    let unknown = ["export+0x0", "-", "-", "-"];
    assert_eq!(names("-fno-asynchronous-unwind-tables", "-Wl,--eh-frame-hdr"), unknown);
}

#[test]
fn a_file_that_moved_since_its_symbols_were_split_off_has_its_names() {
    let workshop = Workshop::new();
    workshop.gcc("full", TWO, &["-g", "-nostdlib", "-shared", "-fPIC", "-Wl,--build-id"]);
    workshop.run("objcopy", &["--only-keep-debug", "full", "full.dbg"]);
    // As prelink does: all addresses of the file are others.
    workshop.run("objcopy", &["-S", "--change-addresses", "0x3000000", "full", "moved"]);
    let read = |name| fs::read(workshop.dir.path().join(name)).unwrap();
    let (moved, debug) = (read("moved"), read("full.dbg"));
    let module = ElfModule::parse(&moved, Some(&debug)).unwrap();
    for (constant, want) in [(0x1111_1111, "one+0x0"), (0x2222_2222, "two+0x0")] {
        assert_eq!(name_at(&module, offset_of(&moved, constant)), want);
    }
    // So it has its lines.
    let code = ElfCode::parse(Arc::new(moved.clone()), Some(Arc::new(debug))).unwrap();
    let (lines, mut frames) = (code.lines().unwrap(), Vec::new());
    let addr = code.vaddr(FileOffset(offset_of(&moved, 0x2222_2222))).unwrap();
    lines.frames(addr, &mut frames);
    assert_eq!(frames.first().and_then(|it| it.line).map(|it| it.line), Some(3));
}

#[test]
fn a_function_of_64_bit_powerpc_is_where_its_descriptor_points() {
    let workshop = Workshop::new();
    let source = "
.text
nop\n nop\n nop\n nop
.section .opd,\"aw\"
.globl f, g
.type f,@function
.type g,@function
f: .quad 4, 0, 0
.size f, 8
g: .quad 12, 0, 0
.size g, 4
";
    fs::write(workshop.dir.path().join("f.S"), source).unwrap();
    let target = "--target=powerpc64-unknown-linux-gnu";
    workshop.run("clang", &[target, "-c", "f.S", "-o", "f.o"]);
    let bytes = fs::read(workshop.dir.path().join("f.o")).unwrap();
    let module = ElfModule::parse(&bytes, None).unwrap();
    let ranges: Vec<(&str, u64, u64)> =
        module.table().iter().map(|it| (it.name, it.start.0, it.end.0)).collect();
    assert_eq!(ranges, [("f", 4, 12), ("g", 12, 16)]);
}

#[test]
fn an_indirect_function_is_a_function_and_a_strong_global_name_wins() {
    let workshop = Workshop::new();
    let source = "
int foo(void) { return 0x11111111; }
int foo_is_weak(void) __attribute__((weak, alias(\"foo\")));
static int foo_is_local(void) __attribute__((alias(\"foo\"), used));
__asm__(\".text\\n\");
static void *pick(void) { return foo; }
int picked(void) __attribute__((ifunc(\"pick\")));
int main(void) { return foo() + picked(); }";
    let bytes = workshop.gcc("alias", source, &[]);
    let module = ElfModule::parse(&bytes, None).unwrap();
    assert_eq!(name_at(&module, offset_of(&bytes, 0x1111_1111)), "foo+0x0");
    let names: Vec<&str> = module.table().iter().map(|it| it.name).collect();
    assert!(names.contains(&"picked"), "{names:?}");
}

#[test]
fn stubs_of_the_linkage_table_are_named_after_what_they_call() {
    let workshop = Workshop::new();
    let source = "
#include <stdlib.h>
#include <time.h>
int main(void) { return rand() + (int)time(0); }";
    for cet in ["-fcf-protection=none", "-fcf-protection=full"] {
        let bytes = workshop.gcc("plt", source, &[cet, "-Wl,-z,lazy", "-Wl,-z,ibtplt"]);
        let module = ElfModule::parse(&bytes, None).unwrap();
        let stubs: Vec<&str> =
            module.table().iter().map(|it| it.name).filter(|it| it.contains("plt")).collect();
        for stub in [".plt", "rand@plt", "time@plt", "__cxa_finalize@plt"] {
            assert!(stubs.contains(&stub), "{stub} in {stubs:?}");
        }
    }
}

/// Where `rust-lld` stands for `ld.lld`, as an option of gcc and clang.
fn lld() -> [String; 2] {
    let out = Command::new("rustc").args(["--print", "target-libdir"]).output().unwrap();
    let libraries = PathBuf::from(String::from_utf8(out.stdout).unwrap().trim());
    let linkers = libraries.parent().unwrap().join("bin/gcc-ld");
    [format!("-B{}", linkers.display()), "-fuse-ld=lld".to_owned()]
}

#[test]
fn stubs_are_named_right_by_whatever_linker_and_for_whatever_machine() {
    let workshop = Workshop::new();
    let source = "
int aaa(void); int bbb(int); int ccc(void); int ddd(void);
int f(void){ return aaa() + bbb(1) + ccc() + ddd(); }";
    fs::write(workshop.dir.path().join("source.c"), source).unwrap();
    let lld = lld();
    let lld = [lld[0].as_str(), lld[1].as_str()];
    // The options, where the first stub starts in its section, and how long each is.
    let layouts: [(&str, &[&str], u64, u64); 8] = [
        (".plt", &["-Wl,-z,lazy"], 16, 16),
        (".plt", &["-m32", "-Wl,-z,lazy"], 16, 16),
        (".plt", &["-Wl,-z,now", "-Wl,-z,retpolineplt"], 32, 16),
        (".plt", &["-Wl,-z,lazy", "-Wl,-z,retpolineplt"], 48, 32),
        (".plt", &["--target=aarch64-linux-gnu"], 32, 16),
        (".plt", &["--target=aarch64-linux-gnu", "-Wl,-z,force-bti"], 32, 24),
        (".plt", &["--target=aarch64-linux-gnu", "-Wl,-z,pac-plt"], 32, 24),
        (".plt", &["--target=armv7-linux-gnueabihf"], 32, 16),
    ];
    for (section, options, first, each) in layouts {
        let base = ["-O1", "-shared", "-fPIC", "-nostdlib", "-o", "lib", "source.c"];
        workshop.run("clang", &[&base[..], &lld, options].concat());
        let bytes = fs::read(workshop.dir.path().join("lib")).unwrap();
        let module = ElfModule::parse(&bytes, None).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let start = file.section_by_name(section).unwrap().address();
        for (n, name) in (0..).zip(["aaa@plt", "bbb@plt", "ccc@plt", "ddd@plt"]) {
            let at = start + first + n * each;
            for addr in [at, at + each - 1] {
                let found = module.find(Addr(addr)).and_then(|it| module.symbol(it));
                assert_eq!(found.map(|it| (it.name, it.start.0)), Some((name, at)), "{options:?}");
            }
        }
    }
}

#[test]
fn a_stripped_file_is_named_by_its_debug_file() {
    let mut workshop = Workshop::new();
    workshop.gcc("full", TWO, &["-nostdlib", "-static", "-Wl,--build-id"]);
    workshop.run("objcopy", &["--only-keep-debug", "full", "full.dbg"]);
    workshop.run("objcopy", &["-S", "--add-gnu-debuglink=full.dbg", "full", "bare"]);
    workshop.store("bare", "/bin/prog");
    let bare = workshop.load("/bin/prog", None).unwrap();
    let at = offset_of(&workshop.files.0[Path::new("/bin/prog")], 0x1111_1111);
    assert_eq!(name_at(&bare, at), "-");
    let id = bare.identity().build_id.unwrap();
    let hex = id.to_string();
    let by_id = format!("/usr/lib/debug/.build-id/{}/{}.debug", &hex[..2], &hex[2..]);
    for path in ["/bin/full.dbg", "/usr/lib/debug/bin/prog", &by_id] {
        workshop.store("full.dbg", path);
        assert_eq!(
            name_at(&workshop.load("/bin/prog", Some(id)).unwrap(), at),
            "one+0x0",
            "{path}"
        );
        workshop.files.0.remove(Path::new(path));
    }
}

#[test]
fn a_debug_file_without_a_build_id_must_have_the_crc_of_the_link() {
    let mut workshop = Workshop::new();
    workshop.gcc("full", TWO, &["-nostdlib", "-static", "-Wl,--build-id=none"]);
    for name in ["a", "ab", "abc", "abcd"] {
        workshop.run("objcopy", &["--only-keep-debug", "full", name]);
        let link = format!("--add-gnu-debuglink={name}");
        workshop.run("objcopy", &["-S", &link, "full", "bare"]);
        workshop.store("bare", "/bin/prog");
        workshop.store(name, &format!("/bin/{name}"));
        let at = offset_of(&workshop.files.0[Path::new("/bin/prog")], 0x1111_1111);
        assert_eq!(name_at(&workshop.load("/bin/prog", None).unwrap(), at), "one+0x0");
        // Where the section begins in the file says nothing.
        move_to_odd_offset(workshop.files.0.get_mut(Path::new("/bin/prog")).unwrap());
        assert_eq!(name_at(&workshop.load("/bin/prog", None).unwrap(), at), "one+0x0");
        workshop.files.0.get_mut(Path::new(&format!("/bin/{name}"))).unwrap().push(0);
        assert_eq!(name_at(&workshop.load("/bin/prog", None).unwrap(), at), "-");
    }
}

/// Moves the content of `.gnu_debuglink` to an odd place at the end of an ELF file of 64 bits.
fn move_to_odd_offset(bytes: &mut Vec<u8>) {
    let file = object::File::parse(&**bytes).unwrap();
    let section = file.section_by_name(".gnu_debuglink").unwrap();
    let (content, idx) = (section.data().unwrap().to_vec(), section.index().0);
    bytes.resize(bytes.len() | 1, 0);
    let new = bytes.len() as u64;
    bytes.extend(content);
    let headers = u64::from_le_bytes(bytes[0x28..0x30].try_into().unwrap());
    // `sh_offset` and `sh_addralign`.
    for (place, value) in [(24, new), (48, 1)] {
        let at = usize::try_from(headers).unwrap() + 64 * idx + place;
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
}

#[test]
fn another_build_at_the_path_names_nothing() {
    let mut workshop = Workshop::new();
    workshop.gcc("full", TWO, &["-nostdlib", "-static", "-Wl,--build-id"]);
    workshop.store("full", "/bin/prog");
    let found = workshop.load("/bin/prog", None).unwrap().identity().build_id;
    let wanted = BuildId::new(&[1; 20]).unwrap();
    let path = PathBuf::from("/bin/prog");
    let err = workshop.load("/bin/prog", Some(wanted)).unwrap_err();
    assert_eq!(err, Error::OtherBuild { path, wanted, found });
    // Only perf's own store can have what was replaced.
    let hex = found.unwrap().to_string();
    workshop.store("full", &format!("/cache/.build-id/{}/{}/elf", &hex[..2], &hex[2..]));
    workshop.files.0.remove(Path::new("/bin/prog"));
    assert!(workshop.load("/bin/prog", found).is_ok());
    assert!(matches!(workshop.load("/bin/prog", None), Err(Error::Open { .. })));
}

/// The code of the function at `at` in the file, and `file:line` of its first byte.
fn code_at(file: &ElfCode, at: u64, len: u64) -> (Vec<u8>, Option<String>) {
    let addr = file.vaddr(FileOffset(at)).unwrap();
    let code = file.code(addr..addr + len).to_vec();
    let lines = file.lines();
    let line = lines.as_ref().and_then(|it| it.at(addr));
    (code, line.map(|it| format!("{}:{}", it.file.rsplit('/').next().unwrap(), it.line)))
}

#[test]
fn code_and_lines_are_found_whatever_the_layout() {
    let workshop = Workshop::new();
    let base = ["-g", "-nostdlib"];
    let layouts = [
        &["-static"][..],
        &["-static-pie", "-fPIE"],
        &["-static", "-Wl,-z,max-page-size=0x1000", "-Wl,-Ttext=0x2000000"],
    ];
    for layout in layouts {
        let bytes = workshop.gcc("full", TWO, &[&base[..], layout].concat());
        for (constant, line) in [(0x1111_1111, "source.c:2"), (0x2222_2222, "source.c:3")] {
            let at = offset_of(&bytes, constant);
            let file = ElfCode::parse(Arc::new(bytes.clone()), None).unwrap();
            let want = bytes[usize::try_from(at).unwrap()..][..6].to_vec();
            assert_eq!(code_at(&file, at, 6), (want, Some(line.to_owned())), "{layout:?}");
            assert_eq!(file.machine(), Some(crate::symbols::Machine::X86_64));
        }
        let file = ElfCode::parse(Arc::new(bytes), None).unwrap();
        assert!(file.code(Addr(1)..Addr(0)).is_empty());
        assert!(file.code(Addr(u64::MAX - 1)..Addr(u64::MAX)).is_empty());
    }
}

#[test]
fn lines_of_a_stripped_file_are_in_its_debug_file() {
    let mut workshop = Workshop::new();
    workshop.gcc("full", TWO, &["-g", "-nostdlib", "-static", "-Wl,--build-id"]);
    workshop.run("objcopy", &["--only-keep-debug", "full", "full.dbg"]);
    workshop.run("objcopy", &["-S", "--add-gnu-debuglink=full.dbg", "full", "bare"]);
    workshop.store("bare", "/bin/prog");
    let at = offset_of(&workshop.files.0[Path::new("/bin/prog")], 0x1111_1111);
    let line = |workshop: &Workshop| {
        let file = ElfCode::load(&workshop.files, &ModuleFile::at("/bin/prog"), &places()).unwrap();
        code_at(&file, at, 6).1
    };
    assert_eq!(line(&workshop), None);
    workshop.store("full.dbg", "/bin/full.dbg");
    assert_eq!(line(&workshop).as_deref(), Some("source.c:2"));
    for compression in ["zlib", "zlib-gnu", "zstd"] {
        let how = format!("--compress-debug-sections={compression}");
        workshop.run("objcopy", &[&how, "full.dbg", "small.dbg"]);
        workshop.store("small.dbg", "/bin/full.dbg");
        assert_eq!(line(&workshop).as_deref(), Some("source.c:2"), "{compression}");
    }
}

#[test]
fn sections_are_inflated_as_far_as_they_are_sound() {
    let workshop = Workshop::new();
    let comment = format!("static char pad[] = \"{}\";\n{TWO}", "pad ".repeat(500));
    workshop.gcc("full", &comment, &["-g3", "-nostdlib", "-static"]);
    let parse = |bytes: Vec<u8>| ElfFile::parse(Arc::new(bytes)).unwrap();
    let plain = parse(fs::read(workshop.dir.path().join("full")).unwrap());
    let names = [".text", ".debug_info", ".debug_str", ".debug_macro", ".debug_line"];
    for compression in ["zlib", "zlib-gnu", "zstd"] {
        let how = format!("--compress-debug-sections={compression}");
        workshop.run("objcopy", &[&how, "full", "small"]);
        let bytes = fs::read(workshop.dir.path().join("small")).unwrap();
        let small = parse(bytes.clone());
        for name in names {
            let section = small.section(name).unwrap();
            assert_eq!(Some(section), plain.section(name), "{name}");
            assert!(!section.bytes.is_empty());
        }
        // A byte of the compressed ones is changed, or the file ends within them.
        let at = bytes.len() / 2;
        let damaged = [&bytes[..at], &[!bytes[at]], &bytes[at + 1..]].concat();
        for file in [parse(damaged), parse(bytes[..at].to_vec())] {
            for name in names {
                let _section = file.section(name);
            }
        }
    }
    assert_eq!(plain.section(".debug_none"), None);
}

#[test]
fn what_is_no_elf_file_is_refused() {
    for bytes in [&b""[..], b"\x7fELF", b"#!/bin/sh\n", &[0; 100]] {
        assert!(matches!(ElfModule::parse(bytes, None), Err(Error::Elf { .. })));
    }
}

/// A file with every kind of section that is read, of a few KiB.
fn small_file() -> Vec<u8> {
    let workshop = Workshop::new();
    let source = "
int puts(const char *); int one(void) { return 0x11111111; }
static void *pick(void) { return one; }
int picked(void) __attribute__((ifunc(\"pick\")));
int two(void) { return puts(\"x\") + picked(); }";
    let layout = ["-Wl,-z,noseparate-code", "-Wl,-z,norelro", "-Wl,-z,max-page-size=0x10"];
    let args = [&["-g", "-nostdlib", "-shared", "-fPIC", "-Wl,--build-id"][..], &layout].concat();
    let bytes = workshop.gcc("small", source, &args);
    assert_eq!(
        name_at(&ElfModule::parse(&bytes, None).unwrap(), offset_of(&bytes, 0x1111_1111)),
        "one+0x0"
    );
    bytes
}

/// Does with a damaged file all that is done with a good one.
fn survive(bytes: &[u8]) {
    if let Ok(module) = ElfModule::parse(bytes, Some(bytes)) {
        assert!(module.table().len() <= bytes.len());
        for at in (0..bytes.len() as u64).step_by(64) {
            let _name = name_at(&module, at);
        }
    }
    if let Ok(file) = ElfCode::parse(Arc::new(bytes.to_vec()), None) {
        let lines = file.lines();
        for at in (0..bytes.len() as u64).step_by(64) {
            let Some(addr) = file.vaddr(FileOffset(at)) else { continue };
            assert!(file.code(addr..addr + 100).len() <= 100);
            let _line = lines.as_ref().map(|it| it.at(addr));
        }
    }
}

#[test]
fn a_file_cut_at_any_length_is_read_or_refused() {
    let bytes = small_file();
    for len in 0..bytes.len() {
        survive(&bytes[..len]);
    }
}

#[test]
fn a_file_with_any_changed_byte_is_read_or_refused() {
    let mut bytes = small_file();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..3000 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let [value, .., a, b] = state.to_le_bytes();
        let at = usize::from(u16::from_le_bytes([a, b])) % bytes.len();
        let old = std::mem::replace(&mut bytes[at], value);
        survive(&bytes);
        bytes[at] = old;
    }
}

#[test]
fn mini_debug_information_names_what_the_dynamic_linker_does_not_need() {
    let mut workshop = Workshop::new();
    let source = format!(
        "{TWO}\nstatic __attribute__((noinline, used)) int local(void) {{ return 0x33333333; }}"
    );
    let bytes = workshop.gcc("full", &source, &["-nostdlib", "-shared", "-fPIC", "-Wl,--build-id"]);
    workshop.run("objcopy", &["--only-keep-debug", "full", "mini"]);
    workshop.run("objcopy", &["-S", "full", "bare"]);
    workshop.store("bare", "/lib/bare.so");
    let (one, local) = (offset_of(&bytes, 0x1111_1111), offset_of(&bytes, 0x3333_3333));
    let names = |workshop: &Workshop, path: &str| {
        let module = workshop.load(path, None).unwrap();
        [name_at(&module, one), name_at(&module, local)]
    };
    assert_eq!(names(&workshop, "/lib/bare.so"), ["one+0x0", "-"]);
    workshop.run("xz", &["mini"]);
    workshop.run("objcopy", &["--add-section", ".gnu_debugdata=mini.xz", "bare", "mini.so"]);
    workshop.store("mini.so", "/lib/mini.so");
    assert_eq!(names(&workshop, "/lib/mini.so"), ["one+0x0", "local+0x0"]);
    // A damaged one costs no more than its own names.
    let xz = fs::read(workshop.dir.path().join("mini.xz")).unwrap();
    fs::write(workshop.dir.path().join("cut.xz"), &xz[..xz.len() / 2]).unwrap();
    workshop.run("objcopy", &["--add-section", ".gnu_debugdata=cut.xz", "bare", "cut.so"]);
    workshop.store("cut.so", "/lib/cut.so");
    assert_eq!(names(&workshop, "/lib/cut.so"), ["one+0x0", "-"]);
}

#[test]
fn what_debug_information_refers_to_is_found_and_is_the_right_one() {
    let mut workshop = Workshop::new();
    workshop.gcc("full", TWO, &["-g", "-nostdlib", "-static", "-Wl,--build-id=0x0102030405060708"]);
    workshop.gcc("common", TWO, &["-nostdlib", "-static", "-Wl,--build-id=0x1112131415161718"]);
    let link =
        [b"../.dwz/common.debug\0".as_slice(), &[0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18]];
    fs::write(workshop.dir.path().join("link"), link.concat()).unwrap();
    workshop.run("objcopy", &["--add-section", ".gnu_debugaltlink=link", "full", "linked"]);
    workshop.store("linked", "/usr/bin/prog");
    let supplement = |workshop: &Workshop| {
        let file =
            ElfCode::load(&workshop.files, &ModuleFile::at("/usr/bin/prog"), &places()).unwrap();
        file.supplement().map(|it| it.bytes().len())
    };
    let len = fs::read(workshop.dir.path().join("common")).unwrap().len();
    assert_eq!(supplement(&workshop), None);
    let places = [
        "/usr/bin/../.dwz/common.debug",
        "/usr/lib/debug/.dwz/common.debug",
        "/usr/lib/debug/.build-id/11/12131415161718.debug",
    ];
    for path in places {
        workshop.store("full", path);
        assert_eq!(supplement(&workshop), None, "{path}");
        workshop.store("common", path);
        assert_eq!(supplement(&workshop), Some(len), "{path}");
        workshop.files.0.remove(Path::new(path));
    }
}

#[test]
fn split_debug_information_is_found_in_its_package_or_where_the_compiler_left_it() {
    let mut workshop = Workshop::new();
    workshop.gcc("split", TWO, &["-g", "-gsplit-dwarf", "-nostdlib", "-static"]);
    let dwo = fs::read_dir(&workshop.dir).unwrap().map(|it| it.unwrap().file_name());
    let dwo = dwo.filter_map(|it| it.into_string().ok()).find(|it| it.contains(".dwo")).unwrap();
    workshop.store("split", "/usr/bin/prog");
    let load = |workshop: &Workshop| {
        ElfCode::load(&workshop.files, &ModuleFile::at("/usr/bin/prog"), &places()).unwrap()
    };
    let unit = |workshop: &Workshop| {
        let code = load(workshop);
        let unit = code.split_unit(0, 1, b"/build/src", dwo.as_bytes());
        unit.is_some_and(|it| it.section(".debug_info.dwo").is_some())
    };
    assert!(!unit(&workshop) && load(&workshop).package().is_none());
    for path in [format!("/build/src/{dwo}"), format!("/usr/bin/{dwo}")] {
        workshop.store(&dwo, &path);
        assert!(unit(&workshop), "{path}");
        workshop.files.0.remove(Path::new(&path));
    }
    for path in ["/usr/bin/prog.dwp", "/usr/lib/debug/usr/bin/prog.dwp"] {
        workshop.store(&dwo, path);
        assert!(load(&workshop).package().is_some(), "{path}");
        workshop.files.0.remove(Path::new(path));
    }
}

#[test]
fn what_a_recording_kept_of_a_file_is_named_by_what_was_split_off_it() {
    let mut workshop = Workshop::new();
    workshop.gcc("full", TWO, &["-g", "-nostdlib", "-static", "-Wl,--build-id"]);
    workshop.run("objcopy", &["--only-keep-debug", "full", "full.dbg"]);
    workshop.run("objcopy", &["-S", "--add-gnu-debuglink=full.dbg", "full", "bare"]);
    let saved = fs::read(workshop.dir.path().join("bare")).unwrap();
    let at = offset_of(&saved, 0x1111_1111);
    let file = ModuleFile::at("/opt/prog (deleted)");
    let check = |workshop: &Workshop, name: &str, line: Option<&str>| {
        let files = &workshop.files;
        let module = ElfModule::load_saved(files, &file, &places(), &saved).unwrap();
        assert_eq!(name_at(&module, at), name);
        let code = ElfCode::load_saved(files, &file, &places(), Arc::new(saved.clone())).unwrap();
        assert_eq!(code_at(&code, at, 6).1.as_deref(), line);
    };
    check(&workshop, "-", None);
    let hex = Identity::of(&saved).unwrap().build_id.unwrap().to_string();
    let by_id = format!("/usr/lib/debug/.build-id/{}/{}.debug", &hex[..2], &hex[2..]);
    for path in ["/opt/full.dbg", &by_id] {
        workshop.store("full.dbg", path);
        check(&workshop, "one+0x0", Some("source.c:2"));
        workshop.files.0.remove(Path::new(path));
    }
}

#[test]
fn functions_of_one_long_name_in_many_units_leave_room_for_the_others() {
    let workshop = Workshop::new();
    let long = "n".repeat(600);
    let mut link = vec!["-nostdlib".to_owned(), "-static".into(), "-o".into(), "all".into()];
    for unit in 0..20 {
        let object = format!("unit{unit}.o");
        let source = format!(
            "static __attribute__((noinline)) int {long}(int x) {{ return x * {unit}; }}\n\
             int last{unit}(int x) {{ return {long}(x) + 1; }}\n"
        );
        workshop.gcc(&object, &source, &["-c", "-fno-ipa-icf"]);
        link.push(object);
    }
    link.push("-Wl,-e,last0".into());
    workshop.run("gcc", &link.iter().map(String::as_str).collect::<Vec<_>>());
    let bytes = fs::read(workshop.dir.path().join("all")).unwrap();
    let module = ElfModule::parse(&bytes, None).unwrap();
    let names: Vec<&str> = module.table().iter().map(|it| it.name).collect();
    for unit in 0..20 {
        assert!(names.contains(&format!("last{unit}").as_str()), "{unit}");
    }
}
