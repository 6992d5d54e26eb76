//! A position in untrusted bytes that knows the byte order and where it stands in the file.

use crate::units::FileOffset;

use super::Error;
use super::Result;

/// The byte order of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endian {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl Endian {
    /// The byte order of this machine, in which the writer writes.
    pub const NATIVE: Self = if cfg!(target_endian = "big") { Self::Big } else { Self::Little };

    /// A `u16` from its bytes.
    pub fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        }
    }

    /// A `u32` from its bytes.
    pub fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }

    /// A `u64` from its bytes.
    #[inline]
    pub fn u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            Self::Little => u64::from_le_bytes(bytes),
            Self::Big => u64::from_be_bytes(bytes),
        }
    }
}

/// Reads fields one after another; every read is bounds-checked and names its field on failure.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    rest: &'a [u8],
    at: FileOffset,
    endian: Endian,
}

impl<'a> Cursor<'a> {
    /// A cursor at the start of `bytes`, which stand at `at` in the file.
    pub fn new(bytes: &'a [u8], at: FileOffset, endian: Endian) -> Self {
        Self { rest: bytes, at, endian }
    }

    /// Where the next field stands in the file.
    pub fn at(&self) -> FileOffset {
        self.at
    }

    /// The byte order.
    pub fn endian(&self) -> Endian {
        self.endian
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// All bytes that are left, without moving.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `len` bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] if there are fewer.
    pub fn bytes(&mut self, len: usize, field: &'static str) -> Result<&'a [u8]> {
        let Some((bytes, rest)) = self.rest.split_at_checked(len) else {
            return Err(self.truncated(field, len));
        };
        self.advance(rest);
        Ok(bytes)
    }

    /// The next `N` bytes as an array.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] if there are fewer.
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N]> {
        let Some((bytes, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(self.truncated(field, N));
        };
        self.advance(rest);
        Ok(*bytes)
    }

    /// One byte.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] at the end.
    pub fn u8(&mut self, field: &'static str) -> Result<u8> {
        Ok(u8::from_ne_bytes(self.array(field)?))
    }

    /// A 16-bit number.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] at the end.
    pub fn u16(&mut self, field: &'static str) -> Result<u16> {
        Ok(self.endian.u16(self.array(field)?))
    }

    /// A 32-bit number.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] at the end.
    pub fn u32(&mut self, field: &'static str) -> Result<u32> {
        Ok(self.endian.u32(self.array(field)?))
    }

    /// A signed 32-bit number.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] at the end.
    pub fn i32(&mut self, field: &'static str) -> Result<i32> {
        Ok(self.u32(field)?.cast_signed())
    }

    /// A 64-bit number.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] at the end.
    pub fn u64(&mut self, field: &'static str) -> Result<u64> {
        Ok(self.endian.u64(self.array(field)?))
    }

    /// The bytes of a zero-terminated string, without the zero; the zero is passed over.
    ///
    /// # Errors
    ///
    /// [`Error::UnterminatedString`] if no zero follows.
    pub fn c_str(&mut self, field: &'static str) -> Result<&'a [u8]> {
        let Some(len) = self.rest.iter().position(|&byte| byte == 0) else {
            return Err(Error::UnterminatedString { field, at: self.at });
        };
        let text = self.bytes(len, field)?;
        self.u8(field)?;
        Ok(text)
    }

    /// The bytes of a string in a field of `len` bytes, up to its first zero.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] if there are fewer than `len` bytes.
    pub fn padded_str(&mut self, len: usize, field: &'static str) -> Result<&'a [u8]> {
        Ok(until_zero(self.bytes(len, field)?))
    }

    fn truncated(&self, field: &'static str, need: usize) -> Error {
        let (need, left) = (widen(need), widen(self.rest.len()));
        Error::Truncated { field, at: self.at, need, left }
    }

    fn advance(&mut self, rest: &'a [u8]) {
        let passed = self.rest.len().wrapping_sub(rest.len());
        self.at = FileOffset(self.at.0.wrapping_add(widen(passed)));
        self.rest = rest;
    }
}

/// A list of 64-bit numbers, borrowed from the input: nothing is copied and nothing allocated.
#[derive(Clone, Copy)]
pub struct U64s<'a> {
    bytes: &'a [u8],
    endian: Endian,
}

impl<'a> U64s<'a> {
    /// The whole numbers in `bytes`; what is left over at the end is not seen.
    pub fn new(bytes: &'a [u8], endian: Endian) -> Self {
        Self { bytes, endian }
    }

    /// Takes `n` numbers from `cursor`.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] if there are fewer: `n` is untrusted.
    pub fn take(cursor: &mut Cursor<'a>, n: u64, field: &'static str) -> Result<Self> {
        let len = n.checked_mul(8).and_then(|len| usize::try_from(len).ok());
        let Some(len) = len.filter(|&len| len <= cursor.remaining()) else {
            let (need, left) = (n.saturating_mul(8), widen(cursor.remaining()));
            return Err(Error::Truncated { field, at: cursor.at(), need, left });
        };
        Ok(Self { bytes: cursor.bytes(len, field)?, endian: cursor.endian() })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.bytes.len() >> 3
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The numbers in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u64> + DoubleEndedIterator + use<'a> {
        let endian = self.endian;
        self.bytes.as_chunks::<8>().0.iter().map(move |chunk| endian.u64(*chunk))
    }
}

impl PartialEq for U64s<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for U64s<'_> {}

impl std::fmt::Debug for U64s<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The part of `bytes` before the first zero.
pub(super) fn until_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// A length as the file format counts it.
pub(super) fn widen(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_input_is_named_with_its_place() {
        let mut cursor = Cursor::new(&[1, 0, 0, 0, 9], FileOffset(0x68), Endian::Little);
        assert_eq!(cursor.u32("nr").unwrap(), 1);
        let error = cursor.u64("ip").unwrap_err();
        assert_eq!(error.to_string(), "ip at byte 0x6c needs 8 bytes, only 1 left");
        assert_eq!(cursor.u8("tail").unwrap(), 9);
    }

    #[test]
    fn both_byte_orders_are_read() {
        let bytes = [1, 2, 3, 4];
        let mut little = Cursor::new(&bytes, FileOffset(0), Endian::Little);
        let mut big = Cursor::new(&bytes, FileOffset(0), Endian::Big);
        assert_eq!(little.u32("x").unwrap(), 0x0403_0201);
        assert_eq!(big.u32("x").unwrap(), 0x0102_0304);
    }

    #[test]
    fn a_string_must_end() {
        let mut cursor = Cursor::new(b"ab\0cd", FileOffset(0), Endian::Little);
        assert_eq!(cursor.c_str("comm").unwrap(), b"ab");
        let error = cursor.c_str("comm").unwrap_err();
        assert_eq!(error.to_string(), "comm at byte 0x3 has no terminating zero");
    }
}
