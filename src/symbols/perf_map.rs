//! `/tmp/perf-PID.map`: what a JIT compiler says of its code.

use super::Binding;
use super::Symbol;
use super::SymbolIdx;
use super::SymbolTable;
use super::kallsyms::hex;
use super::table::Builder;
use super::table::Kind;
use super::table::New;
use super::table::Overlap;
use crate::units::Addr;

/// The symbols of one process that its JIT compiler wrote down, by absolute address.
///
/// Each line is `START SIZE NAME`, the numbers in hexadecimal with or without `0x`, the name all the
/// rest with its spaces. Where lines overlap, the later one is right: the memory was used again.
///
/// Source: `tools/perf/Documentation/jit-interface.txt`.
#[derive(Debug, Default)]
pub struct PerfMap {
    table: SymbolTable,
    /// Lines that are no entry; a half-written last line is one.
    pub n_bad_lines: u64,
}

/// The longest name of a function that a program tells of, in bytes: it is printed with each sample.
pub(super) const MAX_NAME_BYTES: usize = 64 << 10;

impl PerfMap {
    /// Reads a whole map; lines that make no sense are counted and left out.
    pub fn parse(text: &[u8]) -> Self {
        let mut builder = Builder::with_capacity(text.len() / 40, text.len() / 2);
        let mut n_bad_lines = 0;
        for line in text.split(|&byte| byte == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                continue;
            }
            let Some((start, size, name)) = entry(line) else {
                n_bad_lines += 1;
                continue;
            };
            let (binding, kind) = (Binding::Global, Kind::Typed);
            builder.push(name, New { start, size, limit: u64::MAX, binding, kind, group: 0 });
        }
        Self { table: builder.build(Overlap::Newest), n_bad_lines }
    }

    /// The symbol that covers `addr`.
    pub fn find(&self, addr: Addr) -> Option<SymbolIdx> {
        self.table.find(addr)
    }

    /// The symbol at `idx`.
    pub fn symbol(&self, idx: SymbolIdx) -> Option<Symbol<'_>> {
        self.table.symbol(idx)
    }
}

fn entry(line: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (start, rest) = number(line)?;
    let (size, rest) = number(rest.strip_prefix(b" ")?)?;
    let name = rest.strip_prefix(b" ")?;
    let is_name = (1..=MAX_NAME_BYTES).contains(&name.len());
    (is_name && size != 0).then_some((start, size, name))
}

fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    hex(text.strip_prefix(b"0x").or_else(|| text.strip_prefix(b"0X")).unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &[u8], addr: u64, want: &str) {
        let map = PerfMap::parse(text);
        let found = map.find(Addr(addr)).and_then(|idx| map.symbol(idx));
        assert_eq!(found.map_or("-", |it| it.name), want);
    }

    #[test]
    fn numbers_come_with_or_without_prefix_and_names_with_spaces() {
        check(b"0x7f00 0x40 a.b.C.run(int, long)\n", 0x7f3f, "a.b.C.run(int, long)");
        check(b"7f00 40 bare\r\n", 0x7f00, "bare");
        check(b"7f00 40 bare\n", 0x7f40, "-");
    }

    #[test]
    fn the_later_line_wins() {
        check(b"7f00 40 old\n0x7f00 0x40 new\n", 0x7f00, "new");
        check(b"7f00 40 old\n7f20 10 new\n", 0x7f28, "new");
        check(b"7f00 40 old\n7f20 10 new\n", 0x7f30, "old");
    }

    #[test]
    fn bad_lines_are_counted_and_left_out() {
        let text = b"7f00 40 good\n\nzzz\n7f00 zz x\n7f00 0 empty\n7f00 40 \n7f00000";
        assert_eq!(PerfMap::parse(text).n_bad_lines, 5);
        check(text, 0x7f00, "good");
    }

    #[test]
    fn a_name_without_end_is_none() {
        let text = |len| format!("7f00 40 {}\n", "x".repeat(len)).into_bytes();
        assert_eq!(PerfMap::parse(&text(MAX_NAME_BYTES)).n_bad_lines, 0);
        assert_eq!(PerfMap::parse(&text(MAX_NAME_BYTES + 1)).n_bad_lines, 1);
    }

    #[test]
    fn a_name_that_is_no_text_is_shown_as_far_as_it_is() {
        check(b"7f00 40 a\xffb\n", 0x7f00, "a\u{fffd}b");
    }
}
