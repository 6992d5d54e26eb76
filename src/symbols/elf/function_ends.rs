//! Where functions end, as the unwind tables of a file tell: for symbols that have no size.
//!
//! Source: "Exception Frames" in the Linux Standard Base, for `.eh_frame`.

use std::cell::RefCell;

use gimli::BaseAddresses;
use gimli::CieOrFde;
use gimli::CommonInformationEntry;
use gimli::EhFrame;
use gimli::EhFrameOffset;
use gimli::EndianSlice;
use gimli::RunTimeEndian;
use gimli::UnwindSection as _;
use object::Endianness;
use object::read::elf::FileHeader;
use object::read::elf::SectionHeader as _;
use rustc_hash::FxHashMap;

use crate::units::Addr;

use super::File;
use super::FrameTable;
use super::Section;

/// The functions that unwind tables describe.
#[derive(Debug)]
pub(super) struct FunctionEnds<'data> {
    frames: EhFrame<Bytes<'data>>,
    frames_at: u64,
    bases: BaseAddresses,
    starts: Starts<'data>,
    common: RefCell<CommonEntries<'data>>,
}

/// What the entries of many functions have in common, by its place: each is read once, since its length
/// is what the file says.
#[derive(Debug, Default)]
struct CommonEntries<'data>(FxHashMap<usize, Option<CommonInformationEntry<Bytes<'data>>>>);

type Bytes<'data> = EndianSlice<'data, RunTimeEndian>;

/// Where they start.
#[derive(Debug)]
enum Starts<'data> {
    /// In the linker's table.
    Table(FrameTable<'data>),
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
        let mut common = CommonEntries::default();
        let starts = table(file).map(Starts::Table).or_else(|| {
            let ranges = read(&frames, &bases, &mut common);
            (!ranges.is_empty()).then_some(Starts::Read(ranges))
        });
        Some(Self { frames, frames_at, bases, starts: starts?, common: RefCell::new(common) })
    }

    /// Where the code at `start` ends at the latest: with the function that holds it, or before the
    /// next one.
    pub(super) fn end_of(&self, start: u64) -> Option<u64> {
        let n_before = match &self.starts {
            Starts::Table(table) => table.n_until(start),
            Starts::Read(ranges) => ranges.partition_point(|it| it.0 <= start),
        };
        let next = match &self.starts {
            Starts::Table(table) => table.start(n_before),
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

    fn range(&self, idx: usize) -> Option<(u64, u64)> {
        match &self.starts {
            Starts::Read(ranges) => ranges.get(idx).copied(),
            Starts::Table(table) => {
                let at = table.entry(idx)?.checked_sub(self.frames_at)?;
                let at = EhFrameOffset(usize::try_from(at).ok()?);
                let mut common = self.common.borrow_mut();
                let fde = self.frames.fde_from_offset(&self.bases, at, |frames, bases, at| {
                    common.at(frames, bases, at)
                });
                let fde = fde.ok()?;
                Some((fde.initial_address(), fde.initial_address().checked_add(fde.len())?))
            }
        }
    }
}

impl<'data> CommonEntries<'data> {
    fn at(
        &mut self,
        frames: &EhFrame<Bytes<'data>>,
        bases: &BaseAddresses,
        at: EhFrameOffset,
    ) -> gimli::Result<CommonInformationEntry<Bytes<'data>>> {
        let read = || frames.cie_from_offset(bases, at).ok();
        let entry = self.0.entry(at.0).or_insert_with(read).clone();
        entry.ok_or(gimli::Error::OffsetOutOfBounds(at.0 as u64))
    }
}

/// The table of `.eh_frame_hdr`.
fn table<'data, E: FileHeader<Endian = Endianness>>(
    file: &File<'data, E>,
) -> Option<FrameTable<'data>> {
    let (_, section) = file.section(".eh_frame_hdr")?;
    let addr = Addr(section.sh_addr(file.endian).into());
    let section = Section { addr, bytes: file.section_bytes(section) };
    FrameTable::parse(section, file.endian == Endianness::Little)
}

/// The functions that `frames` describe, sorted.
fn read<'data>(
    frames: &EhFrame<Bytes<'data>>,
    bases: &BaseAddresses,
    common: &mut CommonEntries<'data>,
) -> Vec<(u64, u64)> {
    let mut ranges = Vec::new();
    let mut entries = frames.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let parsed = partial.parse(|frames, bases, at| common.at(frames, bases, at));
        let Ok(fde) = parsed else { continue };
        ranges.push((fde.initial_address(), fde.initial_address().saturating_add(fde.len())));
    }
    ranges.sort_unstable();
    ranges
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;
    use std::time::Instant;

    use super::super::ElfModule;

    #[test]
    fn what_many_entries_have_in_common_is_read_once() {
        // A megabyte of letters that say how to read the rest.
        let source = "
.globl _start
.text
_start: .fill 256, 1, 0x90
.section .eh_frame, \"a\"
common:
    .long common_end - common - 4, 0
    .byte 1
    .ascii \"z\"
    .fill 1000000, 1, 83
    .byte 0, 1, 1, 16, 0
common_end:
.rept 2000
    .long 24
1:
    .long 1b - common
    .quad _start, 16
    .long 0
.endr
";
        let dir = tempfile::tempdir().unwrap();
        let (path, out) = (dir.path().join("prog.S"), dir.path().join("prog"));
        std::fs::write(&path, source).unwrap();
        let mut gcc = Command::new("gcc");
        gcc.args(["-nostdlib", "-static", "-o"]).args([&out, &path]);
        assert!(gcc.output().unwrap().status.success());
        let bytes = std::fs::read(&out).unwrap();
        let started = Instant::now();
        assert!(ElfModule::parse(&bytes, None).is_ok());
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    }
}
