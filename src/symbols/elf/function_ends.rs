//! Where functions end, as the unwind tables of a file tell: for symbols that have no size.
//!
//! Source: "Exception Frames" in the Linux Standard Base, for `.eh_frame` and `.eh_frame_hdr`.

use gimli::BaseAddresses;
use gimli::CieOrFde;
use gimli::EhFrame;
use gimli::EhFrameOffset;
use gimli::EndianSlice;
use gimli::RunTimeEndian;
use gimli::UnwindSection as _;
use object::Endianness;
use object::read::elf::FileHeader;
use object::read::elf::SectionHeader as _;

use super::File;

/// The functions that unwind tables describe.
#[derive(Debug)]
pub(super) struct FunctionEnds<'data> {
    frames: EhFrame<EndianSlice<'data, RunTimeEndian>>,
    frames_at: u64,
    bases: BaseAddresses,
    starts: Starts<'data>,
}

/// Where they start.
#[derive(Debug)]
enum Starts<'data> {
    /// In the sorted table of `.eh_frame_hdr`: pairs of four bytes, the start and the place of its
    /// description, both from the section's own address `base`.
    Table { pairs: &'data [[u8; 8]], base: u64, endian: Endianness },
    /// Read from all descriptions, with the ends.
    Read(Vec<(u64, u64)>),
}

impl<'data> FunctionEnds<'data> {
    /// The functions of `file`; `None` where it has no unwind tables.
    pub(super) fn of<E: FileHeader<Endian = Endianness>>(file: &File<'data, E>) -> Option<Self> {
        let (_, section) = file.section(".eh_frame")?;
        let (bytes, frames_at) = (file.section_bytes(section), section.sh_addr(file.endian).into());
        let endian = match file.endian {
            Endianness::Little => RunTimeEndian::Little,
            Endianness::Big => RunTimeEndian::Big,
        };
        let mut frames = EhFrame::new(bytes, endian);
        frames.set_address_size(if file.header.is_type_64() { 8 } else { 4 });
        let mut bases = BaseAddresses::default().set_eh_frame(frames_at);
        if let Some((_, text)) = file.section(".text") {
            bases = bases.set_text(text.sh_addr(file.endian).into());
        }
        // The table may be there without what it points to: it says at least where functions start.
        let starts = sorted_table(file).or_else(|| {
            let ranges = read(&frames, &bases);
            (!ranges.is_empty()).then_some(Starts::Read(ranges))
        });
        Some(Self { frames, frames_at, bases, starts: starts? })
    }

    /// Where the code at `start` ends at the latest: with the function that holds it, or before the
    /// next one.
    pub(super) fn end_of(&self, start: u64) -> Option<u64> {
        let n_before = match &self.starts {
            Starts::Table { pairs, .. } => pairs.partition_point(|it| self.start_of(*it) <= start),
            Starts::Read(ranges) => ranges.partition_point(|it| it.0 <= start),
        };
        let next = match &self.starts {
            Starts::Table { pairs, .. } => pairs.get(n_before).map(|it| self.start_of(*it)),
            Starts::Read(ranges) => ranges.get(n_before).map(|it| it.0),
        };
        let holder = n_before.checked_sub(1).and_then(|idx| self.range(idx));
        match holder.map(|(_, end)| end).filter(|&end| start < end) {
            // Whoever waits in a system call stands behind its instruction, which can be the last.
            Some(end) if next.is_none_or(|next| end < next) => Some(end.saturating_add(1)),
            Some(end) => Some(end),
            None => next,
        }
    }

    fn start_of(&self, pair: [u8; 8]) -> u64 {
        let [a, b, c, d, ..] = pair;
        self.address([a, b, c, d])
    }

    /// The address that four bytes of the sorted table stand for.
    fn address(&self, bytes: [u8; 4]) -> u64 {
        match self.starts {
            Starts::Table { base, endian: Endianness::Little, .. } => {
                base.wrapping_add_signed(i32::from_le_bytes(bytes).into())
            }
            Starts::Table { base, endian: Endianness::Big, .. } => {
                base.wrapping_add_signed(i32::from_be_bytes(bytes).into())
            }
            Starts::Read(_) => 0,
        }
    }

    fn range(&self, idx: usize) -> Option<(u64, u64)> {
        match &self.starts {
            Starts::Read(ranges) => ranges.get(idx).copied(),
            Starts::Table { pairs, .. } => {
                let [.., a, b, c, d] = *pairs.get(idx)?;
                let at = self.address([a, b, c, d]).checked_sub(self.frames_at)?;
                let at = EhFrameOffset(usize::try_from(at).ok()?);
                let cie_of = EhFrame::cie_from_offset;
                let fde = self.frames.fde_from_offset(&self.bases, at, cie_of).ok()?;
                Some((fde.initial_address(), fde.initial_address().checked_add(fde.len())?))
            }
        }
    }
}

/// The table of `.eh_frame_hdr`, if it is encoded as all linkers do.
fn sorted_table<'data, E: FileHeader<Endian = Endianness>>(
    file: &File<'data, E>,
) -> Option<Starts<'data>> {
    let (_, section) = file.section(".eh_frame_hdr")?;
    let base = section.sh_addr(file.endian).into();
    // Version 1; `.eh_frame` relative to here and the count absolute, both of four bytes; pairs of four
    // signed bytes from the section's start.
    let [1, 0x1b, 0x03, 0x3b, _, _, _, _, a, b, c, d, rest @ ..] = file.section_bytes(section)
    else {
        return None;
    };
    let count = match file.endian {
        Endianness::Little => u32::from_le_bytes([*a, *b, *c, *d]),
        Endianness::Big => u32::from_be_bytes([*a, *b, *c, *d]),
    };
    let (pairs, _) = rest.as_chunks::<8>();
    let pairs = pairs.get(..usize::try_from(count).ok()?).unwrap_or(pairs);
    (!pairs.is_empty()).then_some(Starts::Table { pairs, base, endian: file.endian })
}

/// The functions that `frames` describe, sorted.
fn read<R: gimli::Reader>(frames: &EhFrame<R>, bases: &BaseAddresses) -> Vec<(u64, u64)> {
    let mut ranges = Vec::new();
    let mut entries = frames.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let Ok(fde) = partial.parse(EhFrame::cie_from_offset) else { continue };
        ranges.push((fde.initial_address(), fde.initial_address().saturating_add(fde.len())));
    }
    ranges.sort_unstable();
    ranges
}
