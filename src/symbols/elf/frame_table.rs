//! The linker's sorted table of the functions that unwind tables describe: `.eh_frame_hdr`.
//!
//! Source: "The `.eh_frame_hdr` section" in the Linux Standard Base.

use super::Section;

/// Where functions start, and where their entries in `.eh_frame` are.
#[derive(Clone, Copy, Debug)]
pub struct FrameTable<'a> {
    /// The start of a function and the place of its entry, both relative to `base`, 4 bytes each.
    pairs: &'a [[u8; 8]],
    /// The section's own address.
    base: u64,
    is_little_endian: bool,
}

/// `DW_EH_PE_udata4`.
const UDATA4: u8 = 0x03;
/// `DW_EH_PE_pcrel | DW_EH_PE_sdata4`.
const PCREL_SDATA4: u8 = 0x1b;
/// `DW_EH_PE_datarel | DW_EH_PE_sdata4`.
const DATAREL_SDATA4: u8 = 0x3b;

impl<'a> FrameTable<'a> {
    /// The table in `section`, if it is whole and of the form that linkers write: version 1, then the
    /// place of `.eh_frame`, how many pairs there are, and the pairs.
    pub fn parse(section: Section<'a>, is_little_endian: bool) -> Option<Self> {
        let rest = section.bytes.strip_prefix(&[1, PCREL_SDATA4, UDATA4, DATAREL_SDATA4])?;
        let (_, rest) = rest.split_first_chunk::<4>()?;
        let (n, rest) = rest.split_first_chunk::<4>()?;
        let n = if is_little_endian { u32::from_le_bytes(*n) } else { u32::from_be_bytes(*n) };
        let pairs = rest.as_chunks::<8>().0.get(..usize::try_from(n).ok()?)?;
        (!pairs.is_empty()).then_some(Self { pairs, base: section.addr.0, is_little_endian })
    }

    /// How many functions start at the link-time address `addr` or before.
    pub fn n_until(&self, addr: u64) -> usize {
        self.pairs.partition_point(|&[a, b, c, d, ..]| self.address([a, b, c, d]) <= addr)
    }

    /// Where the function with this number starts.
    pub fn start(&self, idx: usize) -> Option<u64> {
        let [a, b, c, d, ..] = *self.pairs.get(idx)?;
        Some(self.address([a, b, c, d]))
    }

    /// The link-time address of the entry of the function with this number.
    pub fn entry(&self, idx: usize) -> Option<u64> {
        let [.., a, b, c, d] = *self.pairs.get(idx)?;
        Some(self.address([a, b, c, d]))
    }

    fn address(&self, bytes: [u8; 4]) -> u64 {
        let distance = if self.is_little_endian {
            i32::from_le_bytes(bytes)
        } else {
            i32::from_be_bytes(bytes)
        };
        self.base.wrapping_add_signed(distance.into())
    }
}

#[cfg(test)]
mod tests {
    use crate::units::Addr;

    use super::*;

    #[test]
    fn functions_are_found_in_either_byte_order_and_in_whole_tables_alone() {
        let words = [7_u32, 2, 0xffff_fff0, 0x180, 0x10, 0x100];
        let table = |is_little: bool, n_bytes: usize| {
            let bytes = |it: &u32| if is_little { it.to_le_bytes() } else { it.to_be_bytes() };
            let mut all = vec![1, 0x1b, 0x03, 0x3b];
            all.extend(words.iter().flat_map(bytes));
            all.truncate(n_bytes);
            all
        };
        for is_little in [true, false] {
            let bytes = table(is_little, 28);
            let section = Section { addr: Addr(0x1000), bytes: &bytes };
            let found = FrameTable::parse(section, is_little).unwrap();
            assert_eq!((found.start(0), found.entry(0)), (Some(0xff0), Some(0x1180)));
            assert_eq!((found.start(1), found.entry(1)), (Some(0x1010), Some(0x1100)));
            assert_eq!((found.start(2), found.entry(2)), (None, None));
            let n_until = [0xfef, 0xff0, 0x100f, 0x1010].map(|it| found.n_until(it));
            assert_eq!(n_until, [0, 1, 1, 2]);
            let cut = table(is_little, 27);
            let section = Section { bytes: &cut, ..section };
            assert!(FrameTable::parse(section, is_little).is_none());
        }
    }
}
