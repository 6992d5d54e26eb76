//! Where the kernel and its modules lie in memory.

use std::collections::HashMap;
use std::fs;
use std::fs::File;
use std::io;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::path::Path;

use crate::symbols::build_id_from_notes;
use crate::units::Addr;
use crate::units::BuildId;

/// The kernel's own text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelText {
    /// The symbol at the first address: `_text`, or `_stext` where there is no such symbol.
    pub symbol: String,
    /// The first address.
    pub start: Addr,
    /// The address behind the last.
    pub end: Addr,
    /// The kernel's build id.
    pub build_id: Option<BuildId>,
}

/// A loaded module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// The path of its file or, where that is not known, its name in brackets.
    pub path: String,
    /// The first address.
    pub start: Addr,
    /// The size in bytes.
    pub len: u64,
    /// Its build id.
    pub build_id: Option<BuildId>,
}

/// The kernel's list of symbols, read as far as it is needed: it takes the kernel longer than all
/// else that a short recording does.
#[derive(Debug)]
pub struct Symbols {
    reader: BufReader<File>,
    read: Vec<u8>,
    text: Option<KernelText>,
}

impl Symbols {
    /// Opens `/proc/kallsyms` and reads it until it is known where the kernel's own text ends.
    ///
    /// # Errors
    ///
    /// What keeps it from being read.
    pub fn open() -> io::Result<Self> {
        let file = File::open("/proc/kallsyms")?;
        // The kernel hands out a page a read; the buffer only saves the calls.
        let mut reader = BufReader::with_capacity(1 << 16, file);
        let mut read = Vec::new();
        let found = find_text(&mut reader, &mut read, text_len())?;
        let build_id = || build_id_from_notes(&fs::read("/sys/kernel/notes").ok()?);
        let text = found.map(|it| KernelText { build_id: build_id(), ..it });
        Ok(Self { reader, read, text })
    }

    /// The running kernel's text, or `None` where its addresses are hidden from us.
    pub fn text(&self) -> Option<&KernelText> {
        self.text.as_ref()
    }

    /// Reads all that is left.
    ///
    /// # Errors
    ///
    /// What keeps it from being read.
    pub fn read_on(&mut self) -> io::Result<()> {
        self.reader.read_to_end(&mut self.read).map(drop)
    }

    /// All symbols, those of modules and BPF included, a line each.
    ///
    /// # Errors
    ///
    /// What keeps them from being read.
    pub fn all(mut self) -> io::Result<String> {
        self.read_on()?;
        let lossy = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(String::from_utf8(self.read).unwrap_or_else(|it| lossy(it.into_bytes())))
    }
}

/// The running kernel's release, as `uname -r` has it.
pub fn release() -> Option<String> {
    Some(nix::sys::utsname::uname().ok()?.release().to_str()?.to_owned())
}

/// What tells this boot of the kernel from all others.
pub fn boot_id() -> Option<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim_end().to_owned())
}

/// The loaded modules, or none where their addresses are hidden from us.
pub fn modules() -> Vec<Module> {
    let Ok(list) = fs::read_to_string("/proc/modules") else { return Vec::new() };
    let release = release().unwrap_or_default();
    let folder = format!("/lib/modules/{release}");
    let dependencies = fs::read_to_string(format!("{folder}/modules.dep")).unwrap_or_default();
    let mut modules = parse_modules(&list, &parse_paths(&dependencies, &folder));
    for (name, module) in &mut modules {
        let notes = format!("/sys/module/{name}/notes/.note.gnu.build-id");
        module.build_id = fs::read(Path::new(&notes)).ok().and_then(|it| build_id_from_notes(&it));
    }
    modules.into_iter().map(|(_, module)| module).collect()
}

/// How long the kernel's own text is, in bytes, where the map of physical memory tells: there the
/// symbols need not be read up to its end, which takes the kernel some 50 ms.
///
/// Source: `code_resource` in `arch/x86/kernel/setup.c`, from `_text` to `_etext`. On other
/// architectures it has other bounds.
fn text_len() -> Option<u64> {
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    parse_text_len(&fs::read_to_string("/proc/iomem").ok()?)
}

/// The length in the line `  01000000-022090c7 : Kernel code`, whose addresses read as 0 where they
/// are hidden.
fn parse_text_len(iomem: &str) -> Option<u64> {
    let range = iomem.lines().find_map(|it| it.trim().strip_suffix(" : Kernel code"))?;
    let (start, last) = range.split_once('-')?;
    let [start, last] = [start, last].map(|it| u64::from_str_radix(it, 16).ok());
    last?.checked_sub(start?).filter(|it| *it != 0)?.checked_add(1)
}

/// The text's bounds among the symbols of `/proc/kallsyms`, which are in the order of addresses
/// but for those of modules and BPF programs at the end. What was read of them goes to `read`.
fn find_text(
    symbols: &mut dyn BufRead,
    read: &mut Vec<u8>,
    len: Option<u64>,
) -> io::Result<Option<KernelText>> {
    let mut first: Option<KernelText> = None;
    loop {
        let start = read.len();
        if symbols.read_until(b'\n', read)? == 0 {
            return Ok(None);
        }
        let line = read.get(start..).unwrap_or_default();
        // The others are not looked at any closer.
        if !line.ends_with(b"text\n") {
            continue;
        }
        let symbol = str::from_utf8(line).ok().and_then(parse_symbol);
        match (symbol, &mut first) {
            (Some((addr, name @ ("_text" | "_stext"))), found) => {
                let is_better = match found {
                    None => true,
                    Some(it) => name == "_text" && it.symbol == "_stext",
                };
                // A hidden address reads as 0.
                if addr != 0 && is_better {
                    *found = Some(KernelText {
                        symbol: name.to_owned(),
                        start: Addr(addr),
                        end: Addr(addr),
                        build_id: None,
                    });
                }
                if let (Some(text), "_text", Some(end)) =
                    (&mut first, name, len.and_then(|len| addr.checked_add(len)))
                    && addr != 0
                {
                    text.end = Addr(end);
                    return Ok(first);
                }
            }
            (Some((addr, "_etext")), Some(text)) if text.start < Addr(addr) => {
                text.end = Addr(addr);
                return Ok(first);
            }
            // Hidden, all of them.
            (Some((0, "_etext")), None) => return Ok(None),
            _ => {}
        }
    }
}

/// Address and name of a line `ffffffff81000000 T _text`.
fn parse_symbol(line: &str) -> Option<(u64, &str)> {
    let mut words = line.split_ascii_whitespace();
    let addr = u64::from_str_radix(words.next()?, 16).ok()?;
    Some((addr, words.nth(1)?))
}

/// Names and modules of `/proc/modules`: `NAME SIZE USES DEPENDS STATE ADDRESS`.
fn parse_modules(list: &str, paths: &HashMap<String, String>) -> Vec<(String, Module)> {
    let module = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let name = words.next()?;
        let len = words.next()?.parse().ok()?;
        let start = u64::from_str_radix(words.nth(3)?.trim_start_matches("0x"), 16).ok()?;
        let path = paths.get(name).cloned().unwrap_or_else(|| format!("[{name}]"));
        let module = Module { path, start: Addr(start), len, build_id: None };
        (start != 0).then(|| (name.to_owned(), module))
    };
    list.lines().filter_map(module).collect()
}

/// By module name, the files that `modules.dep` lists: `kernel/net/8021q/8021q.ko.xz: DEPENDS`.
///
/// A module's name has `_` where its file's may have `-`.
fn parse_paths(dependencies: &str, folder: &str) -> HashMap<String, String> {
    let entry = |line: &str| {
        let (path, _) = line.split_once(':')?;
        let file = path.rsplit('/').next()?;
        let (name, _) = file.split_once(".ko")?;
        Some((name.replace('-', "_"), format!("{folder}/{path}")))
    };
    dependencies.lines().filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(symbols: &str, want: Option<(&str, u64, u64)>) {
        let text = find_text(&mut symbols.as_bytes(), &mut Vec::new(), None).unwrap();
        let text = text.as_ref().map(|it| (it.symbol.as_str(), it.start.0, it.end.0));
        assert_eq!(text, want);
    }

    #[test]
    fn the_text_runs_from_text_to_etext() {
        check(
            "ffffffff81000000 T _stext\nffffffff81000000 T _text\nffffffff81000010 t a\n\
             ffffffff822090c8 T _etext\nffffffffc0000000 t x\t[m]\n",
            Some(("_text", 0xffff_ffff_8100_0000, 0xffff_ffff_8220_90c8)),
        );
        check("1000 T _stext\n2000 T _etext\n", Some(("_stext", 0x1000, 0x2000)));
    }

    #[test]
    fn where_its_length_is_known_no_symbol_behind_its_first_is_read() {
        let symbols = "1000 T _stext\n1000 T _text\n1010 t a\n2000 T _etext\n";
        let mut read = Vec::new();
        let text = find_text(&mut symbols.as_bytes(), &mut read, Some(0xff0)).unwrap().unwrap();
        assert_eq!((text.start, text.end), (Addr(0x1000), Addr(0x1ff0)));
        assert_eq!(read, b"1000 T _stext\n1000 T _text\n");
        let hidden = "0 T _stext\n0 T _text\n0 T _etext\n";
        assert_eq!(find_text(&mut hidden.as_bytes(), &mut read, Some(0xff0)).unwrap(), None);
    }

    #[test]
    fn the_map_of_memory_tells_how_long_the_text_is() {
        let iomem = "00001000-0009fbff : System RAM\n  01000000-022090c7 : Kernel code\n";
        assert_eq!(parse_text_len(iomem), Some(0x0120_90c8));
        assert_eq!(parse_text_len("  00000000-00000000 : Kernel code\n"), None);
        assert_eq!(parse_text_len("00001000-0009fbff : System RAM\n"), None);
    }

    #[test]
    fn hidden_addresses_are_no_text() {
        check("0000000000000000 T _text\n0000000000000000 T _etext\n", None);
        check("1000 T _text\n", None);
        check("", None);
    }

    #[test]
    fn a_module_is_its_file_or_its_name_in_brackets() {
        let paths = parse_paths("kernel/net/snd-hda.ko.xz: kernel/x.ko\n", "/lib/modules/6");
        let list = "snd_hda 4096 1 a,b, Live 0xffffffffc0100000\nnew 8 0 - Live 0xffffffffc0200000 (O)\n\
                    hidden 8 0 - Live 0x0000000000000000\n";
        let modules = parse_modules(list, &paths);
        let modules: Vec<_> =
            modules.iter().map(|(_, it)| (it.path.as_str(), it.start.0, it.len)).collect();
        assert_eq!(
            modules,
            [
                ("/lib/modules/6/kernel/net/snd-hda.ko.xz", 0xffff_ffff_c010_0000, 4096),
                ("[new]", 0xffff_ffff_c020_0000, 8),
            ]
        );
    }
}
