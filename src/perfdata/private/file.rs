//! Files whose content is in the recording, since nobody could find them when it is read.

use std::io::Read as _;

use serde::Deserialize;
use serde::Serialize;

use super::super::Cursor;
use super::super::Result;
use super::super::cursor::widen;
use super::from_json;
use super::json;
use crate::units::BuildId;

/// What is told of a file, and its content.
///
/// The payload is the length of the JSON as a `u64`, the JSON of [`FileFacts`], and the content,
/// compressed with Zstandard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedFile {
    /// Which file it is.
    pub facts: FileFacts,
    /// Its content, compressed.
    pub compressed: Vec<u8>,
}

/// Which file it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileFacts {
    /// What the content is: `elf`, the parts of an ELF file that name and unwind addresses; `elf-debug`,
    /// those that name addresses, of a file that was split off another; `perf-map`, `jitdump`, as they
    /// were.
    pub what: String,
    /// Its path as the records of mappings have it; of a `perf-map`, in the namespace of its process.
    pub path: String,
    /// Its build id in hexadecimal digits, where it has one.
    pub build_id: Option<String>,
    /// What it was known by where it was mapped, for mappings without a build id.
    pub inodes: Vec<Inode>,
    /// The process that wrote it, of what was written for one; else 0.
    pub pid: i32,
    /// The CRC-32 of the whole file, of an `elf-debug` that was found by it.
    pub crc: Option<u32>,
    /// The length of the content, in bytes.
    pub len: u64,
    /// When the content was last written to, in nanoseconds since 1970, of a `perf-map`; 0 where that
    /// is not known.
    pub modified_ns: u64,
}

/// A file as the kernel tells it apart from all others.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(default)]
pub struct Inode {
    /// Major number of its device.
    pub maj: u32,
    /// Minor number of its device.
    pub min: u32,
    /// Its inode's number.
    pub ino: u64,
    /// Which of the files that had this inode; 0 where that is not known.
    pub generation: u64,
}

impl FileFacts {
    /// An ELF file.
    pub const ELF: &str = "elf";
    /// The symbols of an ELF file that lie in a file of their own.
    pub const ELF_DEBUG: &str = "elf-debug";
    /// What a JIT compiler wrote to `/tmp/perf-PID.map`.
    pub const PERF_MAP: &str = "perf-map";
    /// What a JIT compiler wrote to `jit-PID.dump`.
    pub const JITDUMP: &str = "jitdump";

    /// Its build id, if it has one.
    pub fn build_id(&self) -> Option<BuildId> {
        let digits = self.build_id.as_ref().filter(|it| it.len().is_multiple_of(2))?.as_bytes();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Vec<u8> = digits.chunks(2).map(byte).collect::<Option<_>>()?;
        BuildId::new(&bytes)
    }
}

impl SavedFile {
    /// The most bytes of content that are written, and believed when read.
    pub const MOST_BYTES: u64 = 64 << 20;

    /// Compresses `content`.
    ///
    /// # Errors
    ///
    /// What the library says.
    pub fn new(mut facts: FileFacts, content: &[u8]) -> std::io::Result<Self> {
        facts.len = widen(content.len());
        Ok(Self { facts, compressed: zstd::encode_all(content, LEVEL)? })
    }

    /// Its content; `None` if it cannot be read, or has not the length that it should have.
    pub fn content(&self) -> Option<Vec<u8>> {
        if Self::MOST_BYTES < self.facts.len {
            return None;
        }
        let mut content = Vec::new();
        let plain = zstd::Decoder::with_buffer(&*self.compressed).ok()?;
        plain.take(self.facts.len.saturating_add(1)).read_to_end(&mut content).ok()?;
        (widen(content.len()) == self.facts.len).then_some(content)
    }

    pub(super) fn payload(&self) -> Vec<u8> {
        let facts = json(&self.facts).unwrap_or_default();
        let len = widen(facts.len()).to_ne_bytes();
        [&len, facts.as_bytes(), &self.compressed].concat()
    }

    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let at = cursor.at();
        let facts = from_json(facts(cursor)?, at)?;
        Ok(Self { facts, compressed: cursor.rest().to_vec() })
    }
}

/// How much the saved files of one recording may inflate to, all together: they are kept while it is
/// read, and some bytes of a recording can stand for thousands of times as many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inflation {
    compressed: u64,
    plain: u64,
}

impl Inflation {
    /// What is free, however short the recording is, in bytes.
    const FREE: u64 = 128 << 20;
    /// What each compressed byte may become beside: tables of symbols and maps become five to twenty.
    const MOST_RATIO: u64 = 32;

    /// Whether there is room for `file`, which it takes.
    pub fn admits(&mut self, file: &SavedFile) -> bool {
        let compressed = self.compressed.saturating_add(widen(file.compressed.len()));
        let plain = self.plain.saturating_add(file.facts.len);
        let most = compressed.saturating_mul(Self::MOST_RATIO).saturating_add(Self::FREE);
        let fits = plain <= most;
        if fits {
            *self = Self { compressed, plain };
        }
        fits
    }
}

/// The JSON at the beginning of a payload.
pub(super) fn facts<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8]> {
    let len = cursor.u64("private record facts length")?;
    cursor.bytes(usize::try_from(len).unwrap_or(usize::MAX), "private record facts")
}

/// How hard content is compressed: as hard as is quick.
const LEVEL: i32 = 3;

#[cfg(test)]
mod tests {
    use super::super::super::Endian;
    use super::*;
    use crate::units::FileOffset;

    fn saved(content: &[u8]) -> SavedFile {
        let build_id = Some("00ff".to_owned());
        let facts = FileFacts { what: FileFacts::ELF.to_owned(), build_id, ..FileFacts::default() };
        SavedFile::new(facts, content).unwrap()
    }

    #[test]
    fn the_content_comes_back_and_the_build_id_with_it() {
        let content = b"abc".repeat(10_000);
        let saved = saved(&content);
        assert!(saved.compressed.len() < 1000);
        assert_eq!(saved.content(), Some(content));
        assert_eq!(saved.facts.build_id(), BuildId::new(&[0, 0xff]));
        let of =
            |digits: &str| FileFacts { build_id: Some(digits.to_owned()), ..FileFacts::default() };
        for digits in ["", "0", "xy", "\u{e9}", &"00".repeat(99)] {
            assert_eq!(of(digits).build_id(), None, "{digits}");
        }
    }

    #[test]
    fn content_of_another_length_than_is_told_is_not_believed() {
        let whole = saved(&vec![7; 100_000]);
        for len in [0, 99_999, 100_001, SavedFile::MOST_BYTES + 1, u64::MAX] {
            let mut other = whole.clone();
            other.facts.len = len;
            assert_eq!(other.content(), None, "{len}");
        }
        let payload = whole.payload();
        let mut cursor = Cursor::new(&payload, FileOffset(0), Endian::NATIVE);
        let facts = facts(&mut cursor).unwrap();
        assert!(facts.starts_with(b"{\"what\":\"elf\""), "{facts:?}");
        let mut cut = whole;
        cut.compressed.truncate(10);
        assert_eq!(cut.content(), None);
        assert_eq!(SavedFile::default().content(), None);
    }
}
