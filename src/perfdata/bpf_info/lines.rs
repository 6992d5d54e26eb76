//! Source lines of a program's native code: `struct bpf_line_info` beside its native address.

use crate::units::Addr;

use super::ProgArray;
use super::ProgInfo;
use super::usize_from;

/// From where on a program's native code comes from one place of its source.
///
/// It holds up to the next one of the same function. Strings are offsets into the string section
/// of the program's BTF.
///
/// Source: `struct bpf_line_info` in `include/uapi/linux/bpf.h`, since Linux 5.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgLine {
    /// The first native instruction.
    pub addr: Addr,
    /// The first translated instruction, counted in units of 8 bytes over all functions.
    pub insn_idx: u32,
    /// The source file's name.
    pub file_name_off: u32,
    /// The text of the source line.
    pub line_off: u32,
    /// The number of the line, from 1; 0 if unknown.
    pub line: u32,
    /// The number of the column, from 1; 0 if unknown.
    pub column: u32,
}

impl ProgInfo<'_> {
    /// The lines of all functions, in the order of the translated instructions.
    ///
    /// There are none where the kernel hid the native addresses, or where there are not as many
    /// addresses as lines, so that nothing says which belongs to which.
    pub fn lines(&self) -> impl Iterator<Item = ProgLine> {
        let endian = self.endian;
        let records = self.records(ProgArray::LINE_INFO);
        let addrs = self.records(ProgArray::JITED_LINE_INFO);
        let is_paired = records.len() == addrs.len();
        records.zip(addrs).filter(move |_| is_paired).filter_map(move |(record, addr)| {
            let word = |at: usize| Some(endian.u32(*record.get(at..)?.first_chunk()?));
            // BPF_LINE_INFO_LINE_NUM() and BPF_LINE_INFO_LINE_COL().
            let line_col = word(12)?;
            let addr = Addr(endian.u64(*addr.first_chunk()?));
            Some(ProgLine {
                addr,
                insn_idx: word(0)?,
                file_name_off: word(4)?,
                line_off: word(8)?,
                line: line_col >> 10,
                column: line_col & 0x3ff,
            })
            .filter(|_| addr != Addr(0))
        })
    }

    /// The native code of each function, in the order of their numbers; what the code that was
    /// recorded does not reach is absent.
    ///
    /// `JITED_INSNS` is the code of all functions, one behind the other, so that function n begins
    /// at the sum of the lengths before it. Source: `bpf_prog_get_info_by_fd()` in
    /// kernel/bpf/syscall.c.
    pub fn native_code(&self) -> Vec<Option<&[u8]>> {
        let insns = self.array(ProgArray::JITED_INSNS).unwrap_or_default();
        let lens = self.array(ProgArray::JITED_FUNC_LENS).unwrap_or_default();
        let mut rest = Some(insns);
        let function = |&len: &[u8; 4]| {
            let (code, behind) = rest.take()?.split_at_checked(usize_from(self.endian.u32(len)))?;
            rest = Some(behind);
            Some(code)
        };
        lens.as_chunks::<4>().0.iter().map(function).collect()
    }

    /// The records of an array, each as long as the kernel's was.
    fn records(&self, array: ProgArray) -> std::slice::ChunksExact<'_, u8> {
        let len = usize_from(self.element_len(array)).max(1);
        self.array(array).unwrap_or_default().chunks_exact(len)
    }
}

#[cfg(test)]
mod tests {
    use crate::perfdata::Cursor;
    use crate::perfdata::Endian;
    use crate::units::FileOffset;

    use super::*;

    /// A program of two functions of 3 and 2 bytes, with records of lines of 20 bytes as a later
    /// kernel may have them, and `n_addrs` addresses.
    fn entry(endian: Endian, n_addrs: u32) -> Vec<u8> {
        let little = endian == Endian::Little;
        let u32 = |it: u32| if little { it.to_le_bytes() } else { it.to_be_bytes() };
        let u64 = |it: u64| if little { it.to_le_bytes() } else { it.to_be_bytes() };
        let mut info = [0; 232];
        let words = [
            (16, 5),        // jited_prog_len
            (108, 2),       // nr_jited_func_lens
            (148, 2),       // nr_line_info
            (172, 20),      // line_info_rec_size
            (168, n_addrs), // nr_jited_line_info
            (176, 8),       // jited_line_info_rec_size
        ];
        for (at, word) in words {
            info[at..at + 4].copy_from_slice(&u32(word));
        }
        // jited_prog_insns, jited_func_lens, line_info, jited_line_info
        for (at, long) in [(24, 0), (120, 8), (152, 16), (160, 56)] {
            info[at..at + 8].copy_from_slice(&u64(long));
        }
        let line = |insn_idx, line: u32| {
            [u32(insn_idx), u32(7), u32(9), u32(line << 10 | 1023), [0xee; 4]].concat()
        };
        [
            [u32(232), u32(72)].concat(),
            u64(0b1101_0001).to_vec(),
            info.to_vec(),
            vec![1, 2, 3, 4, 5, 0, 0, 0],
            [u32(3), u32(2)].concat(),
            [line(0, 41), line(6, 42)].concat(),
            [u64(0xffff_ffff_c000_0000), u64(0xffff_ffff_c000_0100)].concat(),
        ]
        .concat()
    }

    fn decode(bytes: &[u8], endian: Endian) -> ProgInfo<'_> {
        ProgInfo::decode(&mut Cursor::new(bytes, FileOffset(0), endian)).unwrap()
    }

    #[test]
    fn lines_are_read_in_both_byte_orders() {
        for endian in [Endian::Little, Endian::Big] {
            let bytes = entry(endian, 2);
            let line = |addr, insn_idx, line| ProgLine {
                addr: Addr(addr),
                insn_idx,
                file_name_off: 7,
                line_off: 9,
                line,
                column: 1023,
            };
            let want = [line(0xffff_ffff_c000_0000, 0, 41), line(0xffff_ffff_c000_0100, 6, 42)];
            assert_eq!(decode(&bytes, endian).lines().collect::<Vec<_>>(), want);
        }
    }

    #[test]
    fn lines_without_as_many_addresses_are_none() {
        let bytes = entry(Endian::Little, 1);
        assert_eq!(decode(&bytes, Endian::Little).lines().count(), 0);
    }

    #[test]
    fn records_too_short_for_a_line_are_none() {
        let mut bytes = entry(Endian::Little, 2);
        bytes[16 + 172] = 12;
        assert_eq!(decode(&bytes, Endian::Little).lines().count(), 0);
    }

    #[test]
    fn a_function_begins_where_those_before_it_end() {
        let mut bytes = entry(Endian::Little, 2);
        let info = decode(&bytes, Endian::Little);
        assert_eq!(info.native_code(), [Some(&[1, 2, 3][..]), Some(&[4, 5])]);
        // The first is longer than all the code: neither's place is known.
        bytes[16 + 232 + 8] = 6;
        assert_eq!(decode(&bytes, Endian::Little).native_code(), [None, None]);
    }
}
