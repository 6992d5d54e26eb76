//! `/proc/kallsyms`: the kernel's own list of its symbols.

use super::Binding;
use super::ElfModule;
use super::Error;
use super::Symbol;
use super::SymbolIdx;
use super::SymbolTable;
use super::elf;
use super::table::Builder;
use super::table::Ends;
use super::table::Kind;
use super::table::New;
use super::table::Overlap;
use crate::units::Addr;

/// One line of a kallsyms text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KallsymsLine<'a> {
    /// Where the symbol starts; 0 if the kernel hides it.
    pub addr: Addr,
    /// The letter of `nm`: `T` for global text, `t` for local text, `W`, `D`, `B`, ...
    pub letter: u8,
    /// The symbol.
    pub name: &'a str,
    /// What stands in brackets behind it: a module, or `bpf`, `__builtin__ftrace`,
    /// `__builtin__kprobes`.
    pub module: Option<&'a str>,
}

/// The lines of a kallsyms text in their order; what is no such line is left out.
///
/// Source: `s_show()` in `kernel/kallsyms.c`: `%px %c %s` and, for a module, `\t[%s]`.
pub fn kallsyms_lines(text: &[u8]) -> impl Iterator<Item = KallsymsLine<'_>> {
    text.split(|&byte| byte == b'\n').filter_map(line)
}

fn line(line: &[u8]) -> Option<KallsymsLine<'_>> {
    let (addr, rest) = hex(line)?;
    let [b' ', letter, b' ', rest @ ..] = rest else { return None };
    let rest = std::str::from_utf8(rest).ok()?;
    let (name, module) = match rest.split_once('\t') {
        Some((name, module)) => {
            (name, Some(module.trim_end().strip_prefix('[')?.strip_suffix(']')?))
        }
        None => (rest, None),
    };
    if name.is_empty() {
        return None;
    }
    Some(KallsymsLine { addr: Addr(addr), letter: *letter, name, module })
}

/// The number at the start of `text`, of 1 to 16 hexadecimal digits, and what follows.
pub(super) fn hex(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0_u64;
    let mut n_digits = 0_usize;
    for &byte in text {
        let digit = match byte {
            b'0'..=b'9' => byte.wrapping_sub(b'0'),
            b'a'..=b'f' => byte.wrapping_sub(b'a').wrapping_add(10),
            b'A'..=b'F' => byte.wrapping_sub(b'A').wrapping_add(10),
            _ => break,
        };
        if n_digits == 16 {
            return None;
        }
        value = value << 4 | u64::from(digit);
        n_digits += 1;
    }
    (n_digits != 0).then_some((value, text.get(n_digits..).unwrap_or_default()))
}

/// The symbols of a kernel and its modules.
///
/// BPF programs and trampolines stand in kallsyms too, under `[bpf]`. They bound their neighbours
/// here but name nothing: what was loaded when the text was read may be another program than the
/// one that was sampled. The recording itself knows better.
#[derive(Debug)]
pub struct Kallsyms {
    table: SymbolTable,
    /// The names in brackets; a symbol's group is its position here plus 1.
    modules: Vec<String>,
    /// Where each name of [`ANCHORS`] stands. The table keeps one name an address, and not these.
    anchors: [Option<Addr>; ANCHORS.len()],
}

/// The symbols that a recording's kernel map can be named after.
///
/// Source: `ref_reloc_sym_names` in `tools/perf/util/machine.c`.
const ANCHORS: [&str; 2] = ["_text", "_stext"];

impl Kallsyms {
    /// Reads a whole kallsyms text.
    ///
    /// # Errors
    ///
    /// [`Error::HiddenAddresses`] if the kernel showed no address, [`Error::EmptyKallsyms`] if the
    /// text has no symbol.
    pub fn parse(text: &[u8]) -> Result<Self, Error> {
        // A line takes 40 bytes and more, of which 20 are no name.
        let n_lines = text.len() / 40;
        let mut builder = Builder::with_capacity(n_lines, text.len() / 2);
        let mut modules: Vec<String> = Vec::new();
        let mut group = 0;
        let mut n_symbols = 0_u64;
        let mut any_addr = 0;
        let mut anchors = [None; ANCHORS.len()];
        for line in kallsyms_lines(text) {
            n_symbols += 1;
            any_addr |= line.addr.0;
            for (name, anchor) in ANCHORS.iter().zip(&mut anchors) {
                if line.name == *name && line.module.is_none() {
                    anchor.get_or_insert(line.addr);
                }
            }
            // Text, weak, data and BSS, as `symbol_type__filter()` in `tools/perf/util/symbol.c`;
            // `$` and `.L` start the mapping and local symbols of the assembler.
            let kept = matches!(line.letter.to_ascii_uppercase(), b'T' | b'W' | b'D' | b'B');
            if !kept
                || line.name.starts_with('$')
                || line.name.starts_with(".L")
                || line.name.starts_with("L0")
            {
                continue;
            }
            group = group_of(&mut modules, group, line.module);
            let binding = match line.letter {
                b'W' => Binding::Weak,
                b'A'..=b'Z' => Binding::Global,
                _ => Binding::Local,
            };
            let kind = Kind::Typed;
            builder.push_str(
                line.name,
                New { start: line.addr.0, size: 0, limit: u64::MAX, binding, kind, group },
            );
        }
        if n_symbols == 0 {
            return Err(Error::EmptyKallsyms);
        }
        if any_addr == 0 {
            return Err(Error::HiddenAddresses { n_symbols });
        }
        builder.fix_up(Ends::NextInGroup);
        Ok(Self { table: builder.build(Overlap::Innermost), modules, anchors })
    }

    /// Reads the symbols of a `vmlinux`, at the addresses where it was linked to run.
    ///
    /// # Errors
    ///
    /// [`Error::Elf`] if it is no ELF file, [`Error::NoSymbols`] if it has no symbol, or none that
    /// tells where the kernel begins.
    pub fn of_vmlinux(bytes: &[u8]) -> Result<Self, Error> {
        let anchors = elf::addresses_of(bytes, ANCHORS)?;
        let table = ElfModule::parse(bytes, None)?.into_table();
        if table.is_empty() || anchors.iter().all(Option::is_none) {
            return Err(Error::NoSymbols);
        }
        Ok(Self { table, modules: Vec::new(), anchors })
    }

    /// The symbol of the kernel or of a module that covers `addr`.
    pub fn find(&self, addr: Addr) -> Option<SymbolIdx> {
        self.table.find(addr).filter(|&idx| self.module(idx) != Some(BPF))
    }

    /// The symbol at `idx`.
    pub fn symbol(&self, idx: SymbolIdx) -> Option<Symbol<'_>> {
        self.table.symbol(idx)
    }

    /// The module that the symbol at `idx` belongs to, without brackets; `None` for the kernel.
    pub fn module(&self, idx: SymbolIdx) -> Option<&str> {
        let at = self.table.group(idx).checked_sub(1)?;
        self.modules.get(usize::try_from(at).ok()?).map(String::as_str)
    }

    /// Where the kernel's own `_text` or `_stext` stands, against which a recording's kernel map is
    /// compared.
    pub fn addr_of(&self, anchor: &str) -> Option<Addr> {
        let at = ANCHORS.iter().position(|name| *name == anchor)?;
        self.anchors[at]
    }
}

const BPF: &str = "bpf";

/// The group for `module`, given that the last symbol was in group `last`: modules come in runs.
fn group_of(modules: &mut Vec<String>, last: u32, module: Option<&str>) -> u32 {
    let Some(module) = module else { return 0 };
    let is_last = |it: &u32| {
        let at = usize::try_from(*it).ok().and_then(|it| it.checked_sub(1));
        at.and_then(|at| modules.get(at)).is_some_and(|it| it == module)
    };
    if is_last(&last) {
        return last;
    }
    let at = modules.iter().position(|it| it == module).unwrap_or_else(|| {
        modules.push(module.to_owned());
        modules.len() - 1
    });
    u32::try_from(at).ok().and_then(|at| at.checked_add(1)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"\
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000040 t helper
ffffffff81000050 W weak_one
ffffffff81000050 T strong_one
ffffffff81000080 r table
ffffffff81000100 T _etext
ffffffffc0000010 t mod_init\t[ext4]
ffffffffc0000030 t mod_exit\t[ext4]
ffffffffc0004000 t other\t[vfat]
ffffffffc0005000 t bpf_prog_07df9015606e4140_busy\t[bpf]
";

    #[track_caller]
    fn check(kallsyms: &Kallsyms, want: &[(u64, &str)]) {
        for &(addr, want) in want {
            let found = kallsyms.find(Addr(addr)).map(|idx| {
                let name = kallsyms.symbol(idx).unwrap().name;
                kallsyms.module(idx).map_or(name.to_owned(), |module| format!("{name} [{module}]"))
            });
            assert_eq!(found.as_deref().unwrap_or("-"), want, "at {addr:#x}");
        }
    }

    #[test]
    fn addresses_get_the_symbol_that_starts_last_before_them() {
        let kallsyms = Kallsyms::parse(TEXT).unwrap();
        check(
            &kallsyms,
            &[
                (0xffff_ffff_80ff_ffff, "-"),
                (0xffff_ffff_8100_0000, "_text"),
                (0xffff_ffff_8100_003f, "_text"),
                (0xffff_ffff_8100_0040, "helper"),
                (0xffff_ffff_8100_0090, "strong_one"),
                (0xffff_ffff_c000_0020, "mod_init [ext4]"),
                (0xffff_ffff_c000_4010, "other [vfat]"),
            ],
        );
        assert_eq!(kallsyms.addr_of("_text"), Some(Addr(0xffff_ffff_8100_0000)));
    }

    #[test]
    fn the_kernels_start_is_found_under_another_name_at_the_same_address() {
        let text = b"ffffffff81000000 T srso_alias_untrain_ret\nffffffff81000000 T _stext\n\
            ffffffff81000000 T _text\nffffffff81000040 t helper\n";
        let kallsyms = Kallsyms::parse(text).unwrap();
        assert_eq!(kallsyms.addr_of("_text"), Some(Addr(0xffff_ffff_8100_0000)));
        assert_eq!(kallsyms.addr_of("helper"), None);
    }

    #[test]
    fn the_gap_behind_the_kernel_and_behind_a_module_is_nobodys() {
        let kallsyms = Kallsyms::parse(TEXT).unwrap();
        check(
            &kallsyms,
            &[
                (0xffff_ffff_8100_1fff, "_etext"),
                (0xffff_ffff_8100_2000, "-"),
                (0xffff_ffff_c000_1fff, "mod_exit [ext4]"),
                (0xffff_ffff_c000_2000, "-"),
            ],
        );
    }

    #[test]
    fn bpf_programs_of_the_moment_name_nothing_and_bound_their_neighbours() {
        let kallsyms = Kallsyms::parse(TEXT).unwrap();
        check(&kallsyms, &[(0xffff_ffff_c000_5000, "-"), (0xffff_ffff_c000_5fff, "-")]);
    }

    #[test]
    fn hidden_addresses_are_refused_with_the_reason() {
        let text = b"0000000000000000 T _text\n0000000000000000 t helper\n";
        assert_eq!(Kallsyms::parse(text).unwrap_err(), Error::HiddenAddresses { n_symbols: 2 });
        assert_eq!(Kallsyms::parse(b"\n").unwrap_err(), Error::EmptyKallsyms);
    }

    #[test]
    fn lines_that_make_no_sense_are_left_out() {
        let text = b"zzz\n\n12\n10 T\n10 T \n00000000000000010 T long\n10 T a\tb\n20 T ok";
        let lines: Vec<_> = kallsyms_lines(text).collect();
        let ok = KallsymsLine { addr: Addr(0x20), letter: b'T', name: "ok", module: None };
        assert_eq!(lines, [ok]);
    }
}
