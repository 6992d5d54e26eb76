//! Names from a recording, made fit for a terminal and for one line.

use std::borrow::Cow;
use std::fmt::Write;

use crate::units::is_unfit;

/// `name` with control characters and bytes that are no UTF-8 escaped: `\n`, `\t`, `\x1b`, `\xff`.
///
/// A recording may come from anywhere, and a thread may call itself what it likes; printed as it
/// is, a name could move the cursor, or make one sample look like two.
pub fn escape(name: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(name) {
        Ok(text) if !text.chars().any(is_unfit) => Cow::Borrowed(text),
        _ => Cow::Owned(name.utf8_chunks().fold(String::new(), |mut out, chunk| {
            for it in chunk.valid().chars() {
                match it {
                    '\n' => out.push_str("\\n"),
                    '\t' => out.push_str("\\t"),
                    '\r' => out.push_str("\\r"),
                    it if it.is_control() && it.is_ascii() => hex(it as u32, &mut out),
                    it if is_unfit(it) => out.extend(it.escape_unicode()),
                    it => out.push(it),
                }
            }
            chunk.invalid().iter().for_each(|&byte| hex(u32::from(byte), &mut out));
            out
        })),
    }
}

fn hex(value: u32, out: &mut String) {
    write!(out, "\\x{value:02x}").expect("writing to a string");
}

/// Appends `text` with whatever a terminal would obey escaped.
pub(crate) fn push_escaped(text: &[u8], out: &mut Vec<u8>) {
    if text.iter().all(|it| (b' '..=b'~').contains(it)) {
        out.extend_from_slice(text);
    } else {
        out.extend_from_slice(escape(text).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_on_its_line_and_off_the_terminal() {
        assert_eq!(escape(b"x: (y)"), "x: (y)");
        assert_eq!(escape(b"nl\nnl\t\x1b[2J\x7f"), "nl\\nnl\\t\\x1b[2J\\x7f");
        assert_eq!(escape(b"\xff\xfe"), "\\xff\\xfe");
        assert_eq!(escape("grün\u{9b}".as_bytes()), "grün\\u{9b}");
        assert_eq!(escape("\u{202e}txt.exe".as_bytes()), "\\u{202e}txt.exe");
    }
}
