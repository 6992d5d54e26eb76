//! Walking the records of a recording in windows, without holding the whole of it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::units::FileOffset;

use super::Cursor;
use super::Endian;
use super::Error;
use super::RecordHeader;
use super::Result;
use super::Section;
use super::UserRecord;
use super::cursor::widen;

/// Bytes that can be read from any place, by several threads at once.
pub trait ReadAt: Sync {
    /// Fills as much of `buffer` as there is at `offset`; 0 at the end.
    ///
    /// # Errors
    ///
    /// Whatever the store says.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
}

impl ReadAt for File {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset)
    }
}

impl ReadAt for [u8] {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.get(offset..));
        let rest = rest.unwrap_or_default();
        let n = rest.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..n), rest.get(..n)) {
            to.copy_from_slice(from);
        }
        Ok(n)
    }
}

impl<R: ReadAt + ?Sized> ReadAt for &R {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        (**self).read_at(offset, buffer)
    }
}

/// Reads up to `len` bytes at `at`: fewer if the input ends before.
///
/// The memory grows with what is really there, not with what is asked for.
///
/// # Errors
///
/// [`Error::Io`] if the input cannot be read.
pub fn read_up_to(input: &(impl ReadAt + ?Sized), at: FileOffset, len: u64) -> Result<Vec<u8>> {
    const STEP: usize = 1 << 20;
    let mut bytes = Vec::new();
    let want = usize::try_from(len).unwrap_or(usize::MAX);
    while bytes.len() < want {
        let have = bytes.len();
        let step = want.saturating_sub(have).min(STEP);
        bytes.resize(have.saturating_add(step), 0);
        let offset = at.0.saturating_add(widen(have));
        let n = fill(input, offset, bytes.get_mut(have..).unwrap_or_default())?;
        bytes.truncate(have.saturating_add(n));
        if n < step {
            break;
        }
    }
    Ok(bytes)
}

/// Fills `buffer` from `offset` on, however many reads that takes; less only at the end.
fn fill(input: &(impl ReadAt + ?Sized), offset: u64, buffer: &mut [u8]) -> Result<usize> {
    let mut filled = 0_usize;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        let len = widen(rest.len());
        let at = offset.saturating_add(widen(filled));
        match input.read_at(at, rest) {
            Ok(0) => break,
            Ok(n) => filled = filled.saturating_add(n),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => return Err(Error::Io { at: FileOffset(at), len, source }),
        }
    }
    Ok(filled)
}

/// One record as it stands in the file.
#[derive(Clone, Copy, Debug)]
pub struct RawRecord<'a> {
    /// Where it begins.
    pub at: FileOffset,
    /// Its header.
    pub header: RecordHeader,
    /// What follows the header.
    pub body: &'a [u8],
    /// Where its payload begins and how long it is: what belongs to the record beyond its size.
    pub payload: Section,
}

/// Goes from record to record through a section of the input, reading it in windows.
///
/// ```text
/// input    |..... section ................................|
/// window              [ read, walked | read, to walk ]        moves on when a record crosses its end
/// ```
#[derive(Debug)]
pub struct RecordWalk<'i, I: ?Sized> {
    input: &'i I,
    endian: Endian,
    /// The window, and room behind it that is used again.
    room: Vec<u8>,
    /// How long the window is.
    filled: usize,
    /// Where the window begins in the input.
    window_at: u64,
    /// How much of the window has been walked.
    walked: usize,
    /// One past the last byte to walk.
    end: u64,
    /// How many bytes behind the last record are its payload.
    payload_len: u64,
    cut: u64,
}

impl<'i, I: ReadAt + ?Sized> RecordWalk<'i, I> {
    /// The size of the window in bytes: a record is less than 64 KiB, so it holds several; and it fits
    /// into the caches of most machines.
    const WINDOW: usize = 1 << 18;

    /// A walk through `section`, which must begin at a record.
    pub fn new(input: &'i I, section: Section, endian: Endian) -> Self {
        Self {
            input,
            endian,
            room: Vec::new(),
            filled: 0,
            window_at: section.offset,
            walked: 0,
            end: section.end(),
            payload_len: 0,
            cut: 0,
        }
    }

    /// Goes on with `section`, which must begin at a record.
    pub fn restart(&mut self, section: Section) {
        let room = std::mem::take(&mut self.room);
        *self = Self { room, ..Self::new(self.input, section, self.endian) };
    }

    /// What of the section is at hand.
    fn window(&self) -> &[u8] {
        self.room.get(..self.filled).unwrap_or_default()
    }

    /// Where the next record begins.
    pub fn position(&self) -> FileOffset {
        let walked = self.window_at.saturating_add(widen(self.walked));
        FileOffset(walked.saturating_add(self.payload_len))
    }

    /// How many bytes at the end were no whole record; known once the walk has ended.
    pub fn cut_bytes(&self) -> u64 {
        self.cut
    }

    /// The next record, or `None` at the end of the section or of the input.
    ///
    /// # Errors
    ///
    /// [`Error::RecordTooShort`] for a record from which there is no way on, and [`Error::Io`].
    #[allow(clippy::should_implement_trait, reason = "the record borrows from the walk")]
    pub fn next(&mut self) -> Result<Option<RawRecord<'_>>> {
        let header_len = usize::from(RecordHeader::SIZE);
        self.pass_payload();
        if !self.ensure(header_len)? {
            return Ok(self.finish());
        }
        let at = self.position();
        let rest = self.window().get(self.walked..).unwrap_or_default();
        let mut cursor = Cursor::new(rest, at, self.endian);
        let header = RecordHeader::decode(&mut cursor)?;
        let size = usize::from(header.size);
        if !self.ensure(size)? {
            return Ok(self.finish());
        }
        let start = self.walked;
        self.walked = start.saturating_add(size);
        let body_at = start.saturating_add(header_len);
        let body = self.window().get(body_at..self.walked).unwrap_or_default();
        self.payload_len = UserRecord::payload_len(header, body, self.endian);
        let offset = at.0.saturating_add(widen(size));
        let payload = Section { offset, size: self.payload_len };
        let body = self.window().get(body_at..self.walked).unwrap_or_default();
        Ok(Some(RawRecord { at, header, body, payload }))
    }

    /// Goes behind the payload of the last record, which the window need not hold.
    fn pass_payload(&mut self) {
        let len = usize::try_from(std::mem::take(&mut self.payload_len)).unwrap_or(usize::MAX);
        let in_window = self.filled.saturating_sub(self.walked);
        self.walked = self.walked.saturating_add(len.min(in_window));
        if len > in_window {
            let beyond = widen(len.saturating_sub(in_window));
            self.window_at =
                self.window_at.saturating_add(widen(self.walked)).saturating_add(beyond);
            self.filled = 0;
            self.walked = 0;
        }
    }

    /// Makes the window hold `len` bytes from the position on, if the section has them.
    fn ensure(&mut self, len: usize) -> Result<bool> {
        let have = self.filled.saturating_sub(self.walked);
        if have >= len {
            return Ok(true);
        }
        if self.walked < self.filled {
            self.room.copy_within(self.walked..self.filled, 0);
        }
        self.window_at = self.window_at.saturating_add(widen(self.walked));
        self.walked = 0;
        let left = usize::try_from(self.end.saturating_sub(self.window_at)).unwrap_or(usize::MAX);
        let want = left.min(Self::WINDOW).max(have);
        if self.room.len() < want {
            self.room.resize(want, 0);
        }
        let offset = self.window_at.saturating_add(widen(have));
        let n = fill(self.input, offset, self.room.get_mut(have..want).unwrap_or_default())?;
        self.filled = have.saturating_add(n);
        Ok(self.filled >= len)
    }

    fn finish(&mut self) -> Option<RawRecord<'static>> {
        self.cut = widen(self.filled.saturating_sub(self.walked));
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::perfdata::RecordKind;

    use super::*;

    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        let size = u16::try_from(body.len() + 8).unwrap();
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend([0; 2]);
        bytes.extend(size.to_ne_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    fn walk(bytes: &[u8], section: Section) -> (Vec<(u64, u32, usize)>, u64) {
        let mut walk = RecordWalk::new(bytes, section, Endian::NATIVE);
        let mut seen = Vec::new();
        while let Some(it) = walk.next().unwrap() {
            seen.push((it.at.0, it.header.kind.0, it.body.len()));
        }
        (seen, walk.cut_bytes())
    }

    #[test]
    fn records_are_met_in_order_up_to_the_end_of_the_section() {
        let bytes = [record(68, &[]), record(3, &[0; 16]), record(200, &[0; 8])].concat();
        let all = Section { offset: 0, size: 48 };
        assert_eq!(walk(&bytes, all), (vec![(0, 68, 0), (8, 3, 16), (32, 200, 8)], 0));
        assert_eq!(walk(&bytes, Section { offset: 8, size: 24 }), (vec![(8, 3, 16)], 0));
    }

    #[test]
    fn a_record_cut_by_the_end_is_counted_in_bytes() {
        let bytes = [record(68, &[]), record(3, &[0; 16])].concat();
        let wild = Section { offset: 0, size: u64::MAX };
        assert_eq!(walk(&bytes[..27], wild), (vec![(0, 68, 0)], 19));
        assert_eq!(walk(&bytes[..12], wild), (vec![(0, 68, 0)], 4));
    }

    #[test]
    fn a_record_shorter_than_its_header_ends_the_walk_with_its_place() {
        let mut bytes = [record(68, &[]), record(9, &[])].concat();
        bytes[14..16].copy_from_slice(&7_u16.to_ne_bytes());
        let section = Section { offset: 0, size: 16 };
        let mut walk = RecordWalk::new(&bytes[..], section, Endian::NATIVE);
        assert!(walk.next().unwrap().is_some());
        let error = walk.next().unwrap_err().to_string();
        assert_eq!(error, "record at byte 0x8 has size 7, less than its header of 8 bytes");
    }

    #[test]
    fn a_payload_is_passed_over() {
        let mut tracing_data = record(RecordKind::TRACING_DATA.0, &[13, 0, 0, 0, 0, 0, 0, 0]);
        tracing_data.extend([0xff; 16]);
        let bytes = [tracing_data, record(68, &[])].concat();
        let all = Section { offset: 0, size: 40 };
        assert_eq!(walk(&bytes, all), (vec![(0, 66, 8), (32, 68, 0)], 0));
    }

    #[test]
    fn a_walk_crosses_windows() {
        let one = record(9, &vec![7; 30_000]);
        let bytes = one.repeat(100);
        let (seen, cut) = walk(&bytes, Section { offset: 0, size: bytes.len() as u64 });
        assert_eq!((seen.len(), cut), (100, 0));
        assert_eq!(seen[99], (99 * 30_008, 9, 30_000));
    }
}
