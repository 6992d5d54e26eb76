//! The sections of an ELF file, inflated where they are compressed.

use std::fmt;
use std::io::Read;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use flate2::read::ZlibDecoder;
use lzma_rust2::XzReader;
use object::Endianness;
use object::elf;
use object::read::SectionIndex;
use object::read::elf::CompressionHeader as _;
use object::read::elf::FileHeader;
use object::read::elf::SectionHeader as _;

use crate::symbols::Error;
use crate::symbols::FileBytes;
use crate::symbols::go;
use crate::units::Addr;

use super::Class;
use super::File;
use super::class;

/// Bytes that live as long as they are needed, mapped or owned.
pub type OwnedBytes = Arc<dyn FileBytes>;

/// An ELF file, of which sections can be read by name.
pub struct ElfFile {
    bytes: OwnedBytes,
    class: Class,
    endian: Endianness,
    /// The sections that are compressed, by number, each inflated when it is asked for.
    inflated: Vec<(SectionIndex, OnceLock<Vec<u8>>)>,
    /// How many bytes may still be inflated.
    room: AtomicU64,
    n_left_out: AtomicU64,
}

/// A section of an ELF file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section<'a> {
    /// Its first address, at link time; 0 for what is not in memory.
    pub addr: Addr,
    /// Its bytes; none of one that has none in the file, or that cannot be inflated.
    pub bytes: &'a [u8],
}

/// How the bytes of a section are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compression {
    Zlib,
    Zstd,
    /// Of a kind that nothing here reads.
    Unknown,
}

/// The most memory that xz may take, in KiB: enough for its strongest setting.
const MAX_XZ_KIB: u32 = 80 << 10;

/// The most bytes that are inflated from a file, for each of its bytes. Debug sections become a tenth at
/// most; what claims to have become less is made to fill memory.
const MAX_RATIO: u64 = 16;

/// What may be inflated however short a file is, in bytes.
const LEAST_ROOM: u64 = 8 << 20;

impl fmt::Debug for ElfFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ElfFile").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

impl ElfFile {
    /// Reads the table of sections.
    ///
    /// # Errors
    ///
    /// [`Error::Elf`] if `bytes` are no ELF file.
    pub fn parse(bytes: OwnedBytes) -> Result<Self, Error> {
        let class = class(&bytes)?;
        let (endian, compressed) = match class {
            Class::Elf32 => compressed::<elf::FileHeader32<Endianness>>(&bytes)?,
            Class::Elf64 => compressed::<elf::FileHeader64<Endianness>>(&bytes)?,
        };
        let inflated = compressed.into_iter().map(|it| (it, OnceLock::new())).collect();
        let (room, n_left_out) = (AtomicU64::new(room(bytes.len())), AtomicU64::new(0));
        Ok(Self { bytes, class, endian, inflated, room, n_left_out })
    }

    /// All its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether the file was written to since it was opened.
    pub fn has_changed(&self) -> bool {
        self.bytes.has_changed()
    }

    /// How many compressed sections were asked for and left out, since they would become too long for a
    /// file of its length.
    pub fn n_left_out(&self) -> u64 {
        self.n_left_out.load(Ordering::Relaxed)
    }

    /// Whether its numbers begin with the low byte.
    pub fn is_little_endian(&self) -> bool {
        self.endian == Endianness::Little
    }

    /// The section called `name`, such as `.eh_frame`; of `.debug_NAME` also what older tools
    /// compressed and called `.zdebug_NAME`.
    pub fn section(&self, name: &str) -> Option<Section<'_>> {
        match self.class {
            Class::Elf32 => self.find::<elf::FileHeader32<Endianness>>(name),
            Class::Elf64 => self.find::<elf::FileHeader64<Endianness>>(name),
        }
    }

    fn find<E: FileHeader<Endian = Endianness>>(&self, name: &str) -> Option<Section<'_>> {
        let file = File::<E>::parse(&self.bytes).ok()?;
        let old = || file.section(&format!(".zdebug_{}", name.strip_prefix(".debug_")?));
        let (idx, section) = file.section(name).or_else(old)?;
        let addr = Addr(section.sh_addr(file.endian).into());
        let cell = self.inflated.binary_search_by_key(&idx.0, |(it, _)| it.0).ok();
        let bytes = match cell.and_then(|it| self.inflated.get(it)) {
            Some((_, cell)) => {
                cell.get_or_init(|| self.inflate(&file, section).unwrap_or_default())
            }
            None => file.section_bytes(section),
        };
        Some(Section { addr, bytes })
    }

    /// The bytes of a compressed section as they were; `None` for those that are damaged, and for those
    /// that would become too many.
    fn inflate<E: FileHeader<Endian = Endianness>>(
        &self,
        file: &File<'_, E>,
        section: &E::SectionHeader,
    ) -> Option<Vec<u8>> {
        let Compressed { compression, len, bytes } = Compressed::of(file, section)?;
        let take = |left: u64| left.checked_sub(len);
        if self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
            self.n_left_out.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let reader: &mut dyn Read = match compression {
            Compression::Zlib => &mut ZlibDecoder::new(bytes),
            Compression::Zstd => &mut zstd::stream::read::Decoder::with_buffer(bytes).ok()?,
            Compression::Unknown => return None,
        };
        read_exactly(reader, len)
    }
}

/// The functions of Go in the ELF file `bytes`, by the table that its programs have of these.
pub(in crate::symbols) fn go_functions(bytes: &[u8]) -> Option<go::Functions<'_>> {
    fn of<E: FileHeader<Endian = Endianness>>(bytes: &[u8]) -> Option<go::Functions<'_>> {
        go::Functions::of(&File::<E>::parse(bytes).ok()?)
    }
    match class(bytes).ok()? {
        Class::Elf32 => of::<elf::FileHeader32<Endianness>>(bytes),
        Class::Elf64 => of::<elf::FileHeader64<Endianness>>(bytes),
    }
}

fn compressed<E: FileHeader<Endian = Endianness>>(
    bytes: &[u8],
) -> Result<(Endianness, Vec<SectionIndex>), Error> {
    let file = File::<E>::parse(bytes)?;
    let compressed = file.sections.enumerate().filter(|(_, it)| {
        let flags: u64 = it.sh_flags(file.endian).into();
        let name = file.sections.section_name(file.endian, it).unwrap_or_default();
        flags & u64::from(elf::SHF_COMPRESSED) != 0 || name.starts_with(b".zdebug_")
    });
    Ok((file.endian, compressed.map(|it| it.0).collect()))
}

/// The content of a compressed section.
struct Compressed<'data> {
    compression: Compression,
    /// How many bytes it says that it becomes.
    len: u64,
    bytes: &'data [u8],
}

impl<'data> Compressed<'data> {
    fn of<E: FileHeader<Endian = Endianness>>(
        file: &File<'data, E>,
        section: &E::SectionHeader,
    ) -> Option<Self> {
        Some(match section.compression(file.endian, file.bytes).ok()? {
            Some((header, offset, size)) => {
                let compression = match header.ch_type(file.endian) {
                    elf::ELFCOMPRESS_ZLIB => Compression::Zlib,
                    elf::ELFCOMPRESS_ZSTD => Compression::Zstd,
                    _ => Compression::Unknown,
                };
                let start = usize::try_from(offset).ok()?;
                let end = usize::try_from(offset.checked_add(size)?).ok()?;
                let bytes = file.bytes.get(start..end)?;
                Self { compression, len: header.ch_size(file.endian).into(), bytes }
            }
            // "ZLIB" and the length, high byte first.
            None => {
                let (len, bytes) =
                    file.section_bytes(section).strip_prefix(b"ZLIB")?.split_first_chunk()?;
                Self { compression: Compression::Zlib, len: u64::from_be_bytes(*len), bytes }
            }
        })
    }
}

/// The ELF file in `.gnu_debugdata`, which has the symbols that the dynamic linker does not need.
///
/// Source: "`MiniDebugInfo`" in the GDB manual.
pub(super) fn mini_debug_info<E: FileHeader<Endian = Endianness>>(
    file: &File<'_, E>,
) -> Option<Vec<u8>> {
    let (_, section) = file.section(".gnu_debugdata")?;
    let bytes = file.section_bytes(section);
    let mut inflated = Vec::new();
    let reader = XzReader::new_mem_limit(bytes, true, MAX_XZ_KIB);
    reader.take(room(file.bytes.len())).read_to_end(&mut inflated).ok()?;
    Some(inflated)
}

/// What `reader` gives, if that is the `len` bytes that the file claims.
///
/// The claim sizes nothing: memory grows with what comes.
fn read_exactly(reader: &mut dyn Read, len: u64) -> Option<Vec<u8>> {
    let mut inflated = Vec::new();
    reader.take(len).read_to_end(&mut inflated).ok()?;
    (u64::try_from(inflated.len()) == Ok(len)).then_some(inflated)
}

/// How many bytes may be inflated from a file of `len` bytes.
fn room(len: usize) -> u64 {
    (len as u64).saturating_mul(MAX_RATIO).saturating_add(LEAST_ROOM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claimed_length_is_held_against_the_bytes_that_come() {
        let check = |len: u64| {
            let reader: &mut dyn Read = &mut [7; 1000].as_slice();
            read_exactly(reader, len).map(|it| it.len())
        };
        assert_eq!(check(1000), Some(1000));
        assert_eq!(check(10), Some(10));
        assert_eq!(check(1001), None);
        assert_eq!(check(u64::MAX), None);
    }
}
