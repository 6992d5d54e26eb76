//! Native addresses of a BPF program to the lines of its source.

use crate::btf::Btf;
use crate::perfdata::bpf_info::ProgInfo;
use crate::perfdata::bpf_info::ProgLine;
use crate::units::Addr;

/// A place in a program's source, as the compiler noted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceLine<'a> {
    /// The file's path; empty if unknown.
    pub file: &'a [u8],
    /// The number of the line, from 1; 0 if unknown.
    pub line: u32,
    /// The number of the column, from 1; 0 if unknown.
    pub column: u32,
    /// What stands in that line, blanks at its start included; empty if unknown.
    pub text: &'a [u8],
}

impl<'a> SourceLine<'a> {
    /// The place that `line` means, whose strings stand in `btf`, the BTF of its program.
    pub fn new(line: &ProgLine, btf: &'a Btf) -> Self {
        Self {
            file: btf.string(line.file_name_off).unwrap_or_default(),
            line: line.line,
            column: line.column,
            text: btf.string(line.line_off).unwrap_or_default(),
        }
    }
}

/// The lines of one program, found by native address.
///
/// It borrows nothing, so that it can be made once a program and kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BpfLines {
    functions: Vec<Function>,
}

/// The lines of one function, by address; of several at one address the last.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Function {
    idx: usize,
    start: Addr,
    len: u64,
    lines: Vec<ProgLine>,
}

impl BpfLines {
    /// The lines of the program that `info` tells of, for every one of its functions.
    pub fn new(info: &ProgInfo<'_>) -> Self {
        let mut functions: Vec<Function> = info
            .functions()
            .map(|(idx, it)| {
                let (start, len) = (it.addr, u64::from(it.len));
                Function { idx, start, len, lines: Vec::new() }
            })
            .collect();
        functions.sort_by_key(|it| it.start);
        let mut this = Self { functions };
        for line in info.lines() {
            if let Some(function) = this.find(line.addr) {
                this.functions[function].lines.push(line);
            }
        }
        for function in &mut this.functions {
            // A stable sort: where an instruction has no native code, the line of the one behind it
            // is the one that runs.
            function.lines.sort_by_key(|it| it.addr);
        }
        this
    }

    /// Where the native code at `addr` comes from; `None` outside of the program, or where it has
    /// no line.
    pub fn at(&self, addr: Addr) -> Option<&ProgLine> {
        self.functions.get(self.find(addr)?)?.at(addr)
    }

    /// As [`BpfLines::at`], by the number of a function within the program and the distance from
    /// its start, in bytes.
    pub fn in_function(&self, idx: usize, offset: u64) -> Option<&ProgLine> {
        let function = self.functions.iter().find(|it| it.idx == idx)?;
        if function.len <= offset { None } else { function.at(function.start + offset) }
    }

    /// Whether no function has a line.
    pub fn is_empty(&self) -> bool {
        self.functions.iter().all(|it| it.lines.is_empty())
    }

    /// The place in `functions` of the one that covers `addr`.
    fn find(&self, addr: Addr) -> Option<usize> {
        let behind = self.functions.partition_point(|it| it.start <= addr);
        let found = behind.checked_sub(1)?;
        (addr - self.functions[found].start < self.functions[found].len).then_some(found)
    }
}

impl Function {
    fn at(&self, addr: Addr) -> Option<&ProgLine> {
        let behind = self.lines.partition_point(|it| it.addr <= addr);
        self.lines.get(behind.checked_sub(1)?)
    }
}

#[cfg(test)]
mod tests {
    use crate::perfdata::Cursor;
    use crate::perfdata::Endian;
    use crate::perfdata::bpf_info::ProgArray;
    use crate::perfdata::bpf_info::decode_btfs;
    use crate::perfdata::bpf_info::decode_prog_infos;
    use crate::units::FileOffset;

    use super::*;

    const PROG_INFO: &[u8] = include_bytes!("../../tests/fixtures/bpf/prog_info.perf-7.3.bin");
    const BTF: &[u8] = include_bytes!("../../tests/fixtures/bpf/btf.perf-7.3.bin");

    fn program() -> (ProgInfo<'static>, Btf) {
        let cursor = |bytes| Cursor::new(bytes, FileOffset(0), Endian::Little);
        let info = decode_prog_infos(cursor(PROG_INFO)).unwrap().remove(0);
        let btf = Btf::parse(decode_btfs(cursor(BTF)).unwrap().remove(0).1.to_vec()).unwrap();
        (info, btf)
    }

    /// Holds that the code at `addr` comes from line and column `want`, if any.
    #[track_caller]
    fn check(addr: u64, want: Option<(u32, u32)>) {
        let (info, _) = program();
        let lines = BpfLines::new(&info);
        let found = lines.at(Addr(addr));
        assert_eq!(found.map(|it| (it.line, it.column)), want);
        let (idx, start) = if addr < 0xffff_ffff_c002_5cd8 {
            (0, 0xffff_ffff_c002_5c7c)
        } else {
            (1, 0xffff_ffff_c002_5cd8)
        };
        assert_eq!(lines.in_function(idx, addr.wrapping_sub(start)), found);
    }

    #[test]
    fn a_line_holds_up_to_the_next_one_of_its_function() {
        check(0xffff_ffff_c002_5c7c, Some((4, 73)));
        check(0xffff_ffff_c002_5c8c, Some((4, 73)));
        check(0xffff_ffff_c002_5c8d, Some((4, 88)));
        // The last byte of function 0, and the first one behind it.
        check(0xffff_ffff_c002_5cac, Some((4, 66)));
        check(0xffff_ffff_c002_5cad, None);
        check(0xffff_ffff_c002_5cd8, Some((3, 0)));
        check(0xffff_ffff_c002_5cf2, Some((3, 85)));
        check(0xffff_ffff_c002_5cf3, None);
        check(0xffff_ffff_c002_5c7b, None);
    }

    #[test]
    fn a_place_has_file_line_column_and_text() {
        let (info, btf) = program();
        let lines = BpfLines::new(&info);
        let line = SourceLine::new(lines.in_function(1, 0x11).unwrap(), &btf);
        assert_eq!(line.file, b"/home/you/programs/fix.bpf.c");
        assert_eq!((line.line, line.column), (3, 94));
        assert!(line.text.starts_with(b"static __attribute__((noinline)) int add_three(int x) {"));
    }

    #[test]
    fn a_program_without_line_info_has_no_lines() {
        let (info, _) = program();
        let functions = [ProgArray::JITED_KSYMS, ProgArray::JITED_FUNC_LENS];
        // What the kernel gives holds no line info where the program was loaded without it.
        let head = PROG_INFO[20..252].to_vec();
        let arrays = functions.map(|it| (it, info.array(it).unwrap()));
        let info = ProgInfo::new(&head, arrays);
        let lines = BpfLines::new(&info);
        assert_eq!(info.functions().count(), 2);
        assert!(lines.is_empty());
        assert_eq!(lines.at(Addr(0xffff_ffff_c002_5c7c)), None);
    }

    #[test]
    fn of_two_lines_at_one_address_the_later_holds() {
        let mut bytes = PROG_INFO.to_vec();
        let second = 0xffff_ffff_c002_5c8d_u64.to_le_bytes();
        let at = bytes.windows(8).position(|it| it == second).unwrap();
        bytes.copy_within(at - 8..at, at);
        let infos = decode_prog_infos(Cursor::new(&bytes, FileOffset(0), Endian::Little)).unwrap();
        let lines = BpfLines::new(&infos[0]);
        let line = lines.in_function(0, 0x0).unwrap();
        assert_eq!((line.line, line.column), (4, 88));
    }
}
