//! The `TRACING_DATA` section: what tracefs said of the recorded tracepoints.
//!
//! It is a `trace.dat` header whole: a magic, the recorded machine's byte order and word size, and
//! then one text file of tracefs after another, each behind its length.
//!
//! Source: `tracing_data_get()` in `tools/perf/util/trace-event-info.c`, which writes it.

use crate::units::FileOffset;

use super::Cursor;
use super::Endian;
use super::Error;
use super::Result;

/// What begins the section.
const MAGIC: [u8; 10] = *b"\x17\x08\x44tracing";

/// The texts of the section, borrowed from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracingData<'a> {
    /// The byte order of the recorded machine.
    pub endian: Endian,
    /// The bytes of a `long` there.
    pub long_len: u8,
    /// The bytes of a page there.
    pub page_len: u32,
    /// `events/header_page`.
    pub header_page: &'a [u8],
    /// `events/header_event`.
    pub header_event: &'a [u8],
    /// The `format` files, ftrace's own first.
    pub formats: Vec<FormatText<'a>>,
    /// `/proc/kallsyms`; recorders leave it empty.
    pub kallsyms: &'a [u8],
    /// `printk_formats`.
    pub printk: &'a [u8],
    /// `saved_cmdlines`; not before version 0.6.
    pub saved_cmdlines: &'a [u8],
}

/// One event's `format` file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatText<'a> {
    /// The system that the event belongs to.
    pub system: &'a [u8],
    /// The file.
    pub text: &'a [u8],
}

impl<'a> TracingData<'a> {
    /// Decodes the section in `bytes`, which stand at `at` in the file.
    ///
    /// # Errors
    ///
    /// [`Error::BadTracingData`] if it does not begin as it must, [`Error::Truncated`] if it holds
    /// less than it claims.
    pub fn decode(bytes: &'a [u8], at: FileOffset) -> Result<Self> {
        let cursor = &mut Cursor::new(bytes, at, Endian::Little);
        if cursor.array("tracing data magic")? != MAGIC {
            return Err(Error::BadTracingData { at });
        }
        let version = cursor.c_str("tracing data version")?;
        let endian = match cursor.u8("tracing data byte order")? {
            0 => Endian::Little,
            _ => Endian::Big,
        };
        let long_len = cursor.u8("size of a long")?;
        let cursor = &mut Cursor::new(cursor.rest(), cursor.at(), endian);
        let page_len = cursor.u32("page size")?;
        let header_page = named(cursor, b"header_page")?;
        let header_event = named(cursor, b"header_event")?;
        let mut formats = Vec::new();
        system(cursor, b"ftrace", &mut formats)?;
        for _ in 0..cursor.u32("number of systems")? {
            let name = cursor.c_str("system name")?;
            system(cursor, name, &mut formats)?;
        }
        let kallsyms = short(cursor, "kallsyms")?;
        let printk = short(cursor, "printk formats")?;
        let has_cmdlines = !matches!(version, b"0.1" | b"0.2" | b"0.3" | b"0.4" | b"0.5");
        let saved_cmdlines = if has_cmdlines { long(cursor, "saved command names")? } else { &[] };
        Ok(Self {
            endian,
            long_len,
            page_len,
            header_page,
            header_event,
            formats,
            kallsyms,
            printk,
            saved_cmdlines,
        })
    }
}

/// The strings of the recorded kernel by their address, of `0xADDR : "TEXT"` a line.
///
/// Some events carry the address of a constant string instead of the string.
pub fn printk_formats(text: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    text.split(|&byte| byte == b'\n').filter_map(|line| {
        let colon = line.iter().position(|&byte| byte == b':')?;
        let (addr, text) = line.split_at_checked(colon)?;
        let addr = std::str::from_utf8(addr).ok()?.trim().strip_prefix("0x")?;
        let text = text.strip_prefix(b": ")?;
        let text = text.strip_prefix(b"\"").unwrap_or(text);
        let text = text.strip_suffix(b"\"").unwrap_or(text);
        let text = text.strip_suffix(b"\\n").unwrap_or(text);
        Some((u64::from_str_radix(addr, 16).ok()?, text))
    })
}

fn named<'a>(cursor: &mut Cursor<'a>, name: &'static [u8]) -> Result<&'a [u8]> {
    let at = cursor.at();
    if cursor.c_str("tracing data file name")? != name {
        return Err(Error::BadTracingData { at });
    }
    long(cursor, "tracing data header file")
}

fn system<'a>(
    cursor: &mut Cursor<'a>,
    system: &'a [u8],
    formats: &mut Vec<FormatText<'a>>,
) -> Result<()> {
    for _ in 0..cursor.u32("number of formats")? {
        formats.push(FormatText { system, text: long(cursor, "format")? });
    }
    Ok(())
}

/// A file behind a length of 8 bytes.
fn long<'a>(cursor: &mut Cursor<'a>, field: &'static str) -> Result<&'a [u8]> {
    let len = usize::try_from(cursor.u64(field)?).unwrap_or(usize::MAX);
    cursor.bytes(len, field)
}

/// A file behind a length of 4 bytes.
fn short<'a>(cursor: &mut Cursor<'a>, field: &'static str) -> Result<&'a [u8]> {
    let len = usize::try_from(cursor.u32(field)?).unwrap_or(usize::MAX);
    cursor.bytes(len, field)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A section of one ftrace format and one of `sched`, in byte order `endian`.
    fn section(endian: Endian) -> Vec<u8> {
        let int = |number: u32| match endian {
            Endian::Little => number.to_le_bytes().to_vec(),
            Endian::Big => number.to_be_bytes().to_vec(),
        };
        let long = |number: u64| match endian {
            Endian::Little => number.to_le_bytes().to_vec(),
            Endian::Big => number.to_be_bytes().to_vec(),
        };
        [
            MAGIC.to_vec(),
            b"0.6\0".to_vec(),
            vec![u8::from(endian == Endian::Big), 8],
            int(4096),
            [b"header_page\0".to_vec(), long(1), b"P".to_vec()].concat(),
            [b"header_event\0".to_vec(), long(2), b"EE".to_vec()].concat(),
            [int(1), long(1), b"f".to_vec()].concat(),
            [int(1), b"sched\0".to_vec(), int(1), long(2), b"s1".to_vec()].concat(),
            [int(0), int(1), b"k".to_vec(), long(1), b"c".to_vec()].concat(),
        ]
        .concat()
    }

    #[track_caller]
    fn check(endian: Endian) {
        let bytes = section(endian);
        let data = TracingData::decode(&bytes, FileOffset(0)).unwrap();
        let formats = vec![
            FormatText { system: b"ftrace", text: b"f" },
            FormatText { system: b"sched", text: b"s1" },
        ];
        let want = TracingData {
            endian,
            long_len: 8,
            page_len: 4096,
            header_page: b"P",
            header_event: b"EE",
            formats,
            kallsyms: b"",
            printk: b"k",
            saved_cmdlines: b"c",
        };
        assert_eq!(data, want);
    }

    #[test]
    fn the_section_says_its_own_byte_order() {
        check(Endian::Little);
        check(Endian::Big);
    }

    #[test]
    fn a_section_cut_anywhere_is_an_error() {
        let bytes = section(Endian::Little);
        for len in 0..bytes.len() {
            assert!(TracingData::decode(&bytes[..len], FileOffset(0)).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn a_count_of_formats_is_no_allocation() {
        let mut bytes = section(Endian::Little);
        let at = bytes.windows(6).position(|it| it == b"sched\0").unwrap() + 6;
        bytes[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        let error = TracingData::decode(&bytes, FileOffset(0)).unwrap_err();
        assert!(matches!(error, Error::Truncated { field: "format", .. }), "{error}");
    }

    #[test]
    fn what_begins_otherwise_is_no_tracing_data() {
        let error = TracingData::decode(b"\x17\x08\x44tracing0.6", FileOffset(0)).unwrap_err();
        assert!(matches!(error, Error::UnterminatedString { .. }), "{error}");
        let error = TracingData::decode(b"0123456789ab", FileOffset(8)).unwrap_err();
        assert_eq!(error.to_string(), "no tracing data at byte 0x8");
    }

    #[test]
    fn constant_strings_are_known_by_address() {
        let text = b"0xffffffff8281942f : \"thaw\"\n0x10 : \"a: b\\n\"\njunk\n";
        let got: Vec<_> = printk_formats(text).collect();
        assert_eq!(got, [(0xffff_ffff_8281_942f, b"thaw".as_slice()), (0x10, b"a: b")]);
    }
}
