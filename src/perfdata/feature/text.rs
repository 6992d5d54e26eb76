//! Strings of feature sections: whatever bytes the recorder found, up to the first zero.

use std::ffi::OsString;
use std::fmt;
use std::fmt::Write;
use std::os::unix::ffi::OsStringExt;

use crate::units::is_unfit;

use crate::perfdata::Cursor;
use crate::perfdata::Result;
use crate::perfdata::cursor::until_zero;

/// A string of a header: not necessarily UTF-8, and of a stranger's choosing.
///
/// It prints with control characters and broken UTF-8 escaped, so that it may go to a terminal.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(Vec<u8>);

impl Text {
    /// perf pads strings to a multiple of so many bytes, the terminating zero included.
    ///
    /// Source: `NAME_ALIGN` of `tools/perf/util/header.c`.
    const ALIGN: usize = 64;

    /// The bytes, without a terminating zero.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Decodes a length of 32 bits and as many bytes, of which the string is those before the
    /// first zero.
    pub(super) fn decode(cursor: &mut Cursor<'_>, field: &'static str) -> Result<Self> {
        let len = usize::try_from(cursor.u32(field)?).unwrap_or(usize::MAX);
        Ok(Self(until_zero(cursor.bytes(len, field)?).to_vec()))
    }

    /// Appends the length and the bytes, padded with zeros as perf pads them.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let text = until_zero(&self.0);
        let len = text.len().saturating_add(1).next_multiple_of(Self::ALIGN);
        out.extend(super::count(len).to_ne_bytes());
        let end = out.len().saturating_add(len);
        out.extend(text);
        out.resize(end, 0);
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl From<&[u8]> for Text {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text.into_bytes())
    }
}

impl From<OsString> for Text {
    fn from(text: OsString) -> Self {
        Self(text.into_vec())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl fmt::Display for Text {
    /// The text, with `\xNN` for what is no UTF-8 or would move the cursor.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                match c {
                    '\n' => f.write_str("\\n")?,
                    '\t' => f.write_str("\\t")?,
                    c if c.is_control() => write!(f, "\\x{:02x}", u32::from(c))?,
                    c if is_unfit(c) => write!(f, "{}", c.escape_unicode())?,
                    c => f.write_char(c)?,
                }
            }
            chunk.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::perfdata::Endian;
    use crate::perfdata::Error;
    use crate::units::FileOffset;

    use super::*;

    #[track_caller]
    fn check_len(text: &str, want: usize) {
        let mut bytes = Vec::new();
        Text::from(text).encode(&mut bytes);
        assert_eq!(bytes.len(), want);
        let mut cursor = Cursor::new(&bytes, FileOffset(0), Endian::NATIVE);
        assert_eq!(Text::decode(&mut cursor, "text").unwrap(), Text::from(text));
        assert_eq!(cursor.remaining(), 0);
    }

    #[test]
    fn the_padding_has_room_for_the_zero() {
        check_len("", 4 + 64);
        check_len(&"x".repeat(63), 4 + 64);
        check_len(&"x".repeat(64), 4 + 128);
    }

    #[test]
    fn a_length_beyond_the_section_is_an_error_and_no_allocation() {
        let bytes = [0xf0, 0xff, 0xff, 0xff, b'h', b'i'];
        let mut cursor = Cursor::new(&bytes, FileOffset(0x10), Endian::Little);
        let Err(Error::Truncated { at, need, left, .. }) = Text::decode(&mut cursor, "text") else {
            panic!("a string of 4 GiB was found in two bytes");
        };
        assert_eq!((at, need, left), (FileOffset(0x14), 0xffff_fff0, 2));
    }

    #[test]
    fn a_string_ends_at_its_first_zero() {
        let bytes = [0, 0, 0, 3, b'a', 0, b'b'];
        let mut cursor = Cursor::new(&bytes, FileOffset(0), Endian::Big);
        assert_eq!(Text::decode(&mut cursor, "text").unwrap(), Text::from("a"));
        assert_eq!(cursor.remaining(), 0);
    }

    #[test]
    fn what_could_move_the_cursor_is_escaped() {
        let text = Text::from(&b"a\x1b[2J\n\xff\xc2\x9b\xc3\xa4"[..]);
        assert_eq!(text.to_string(), "a\\x1b[2J\\n\\xff\\x9b\u{e4}");
    }
}
