//! Records within records: `COMPRESSED` and `COMPRESSED2`.
//!
//! All of them in a recording are one stream of Zstandard, whose plain side is records one after the
//! other. A compressed record may end within a plain one, which the next compressed one goes on
//! with, whatever stands between the two:
//!
//! ```text
//! file    | COMM | COMPRESSED2 ~~~~~ | FINISHED_ROUND | COMPRESSED2 ~~~ |
//! plain   | COMM | SAMPLE | SAMPLE | | FINISHED_ROUND | SAMPLE | EXIT  |
//!                                    ^ half of a SAMPLE waits here
//! ```
//!
//! Sources: `zstd_compress_stream_to_records()` in `tools/perf/util/zstd.c`,
//! `perf_session__process_compressed_event()` in `tools/perf/util/tool.c`.

use std::io;
use std::io::Write;

use zstd::stream::raw::Decoder;
use zstd::stream::raw::Encoder;
use zstd::stream::raw::Operation;

use super::Cursor;
use super::Endian;
use super::Error;
use super::RawRecord;
use super::ReadAt;
use super::Record;
use super::RecordHeader;
use super::RecordKind;
use super::RecordWalk;
use super::Result;
use super::Section;
use super::UserRecord;
use super::cursor::widen;
use super::feature::Compression;
use super::read_up_to;
use crate::units::FileOffset;

/// The most plain bytes that are compressed before what is in the stream is written out.
pub const MAX_PLAIN_LEN: usize = 256 << 10;

/// The most plain bytes that one record of ours inflates to, in bytes, for `HEADER_COMPRESSED`: a
/// reader makes its buffers so large. Twice [`MAX_PLAIN_LEN`], since the stream may hold some back.
pub const MMAP_LEN: u32 = 512 << 10;

/// The most bytes of the stream in one record: what its size can say less the heads, a multiple of 8.
const MAX_DATA_LEN: usize = 65_528 - 16;

/// The most plain bytes of one record that are believed, in bytes: rings are not larger, and a record
/// made for the purpose could stand for gigabytes.
const MOST_INFLATED: usize = 256 << 20;

/// The most plain bytes of a whole recording that are believed, as a multiple of the compressed ones:
/// records that repeat compress some hundred times.
const MOST_RATIO: u64 = 2000;

/// So many plain bytes are believed whatever they came from.
const ALWAYS_BELIEVED: u64 = 64 << 20;

/// Makes compressed records of plain ones.
pub struct Compressor {
    encoder: Encoder<'static>,
    kind: RecordKind,
    /// Plain bytes so far, and what became of them.
    n_plain: u64,
    n_compressed: u64,
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compressor").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl Compressor {
    /// A compressor of `level`, 1 to 22, that writes records of `kind`.
    ///
    /// # Errors
    ///
    /// What the library says, as of a level that there is not.
    pub fn new(level: i32, kind: RecordKind) -> io::Result<Self> {
        Ok(Self { encoder: Encoder::new(level)?, kind, n_plain: 0, n_compressed: 0 })
    }

    /// How many plain bytes became one, rounded to the nearest; 0 if there was none.
    pub fn ratio(&self) -> u32 {
        ratio(self.n_plain, self.n_compressed)
    }

    /// The plain bytes so far, and what became of them.
    pub fn lens(&self) -> (u64, u64) {
        (self.n_plain, self.n_compressed)
    }

    /// Appends whole records, `plain`, to `out` as compressed ones.
    ///
    /// # Errors
    ///
    /// What the library says.
    pub fn compress(&mut self, plain: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        for piece in plain.chunks(MAX_PLAIN_LEN) {
            self.piece(piece, out)?;
        }
        Ok(())
    }

    fn piece(&mut self, mut plain: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let mut data = vec![0; MAX_DATA_LEN];
        self.n_plain = self.n_plain.saturating_add(widen(plain.len()));
        loop {
            let mut filled = 0_usize;
            let mut is_flushed = false;
            while let Some(room) = data.get_mut(filled..).filter(|it| !it.is_empty()) {
                if plain.is_empty() {
                    let mut buffer = zstd::stream::raw::OutBuffer::around(room);
                    is_flushed = self.encoder.flush(&mut buffer)? == 0;
                    filled = filled.saturating_add(buffer.pos());
                    if is_flushed {
                        break;
                    }
                } else {
                    let status = self.encoder.run_on_buffers(plain, room)?;
                    plain = plain.get(status.bytes_read..).unwrap_or_default();
                    filled = filled.saturating_add(status.bytes_written);
                }
            }
            self.put(data.get(..filled).unwrap_or_default(), out);
            if is_flushed {
                return Ok(());
            }
        }
    }

    fn put(&mut self, data: &[u8], out: &mut Vec<u8>) {
        if data.is_empty() {
            return;
        }
        self.n_compressed = self.n_compressed.saturating_add(widen(data.len()));
        let record = if self.kind == RecordKind::COMPRESSED {
            UserRecord::Compressed(data)
        } else {
            UserRecord::Compressed2(data)
        };
        // MAX_DATA_LEN sees to it that this fits.
        let fits = Record::User(record).encode(self.kind, 0, &[], out);
        debug_assert!(fits.is_ok(), "a compressed record is shorter than 64 KiB");
    }
}

/// How many of `n_plain` bytes became one of `n_compressed`, rounded to the nearest; 0 if there was none.
pub fn ratio(n_plain: u64, n_compressed: u64) -> u32 {
    let half = n_compressed.wrapping_shr(1);
    let ratio = n_plain.saturating_add(half).checked_div(n_compressed);
    ratio.map_or(0, |it| u32::try_from(it).unwrap_or(u32::MAX))
}

/// What became of a compressed recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inflated {
    /// How long all its records are, in bytes.
    pub len: u64,
    /// Bytes that the section should have had and the input did not.
    pub missing: u64,
    /// Compressed records that could not be read, the first of which breaks the stream.
    pub n_damaged: u64,
}

/// Writes the records of `section`, each compressed one replaced by those in it, to `out`.
///
/// # Errors
///
/// As [`RecordWalk::next`]; [`Error::Inflated`] if `out` takes no more.
pub fn inflate(
    input: &(impl ReadAt + ?Sized),
    section: Section,
    endian: Endian,
    compression: Option<&Compression>,
    out: &mut dyn Write,
) -> Result<Inflated> {
    let most = compression.and_then(|it| usize::try_from(it.mmap_len).ok());
    let most = most.map_or(MOST_INFLATED, |it| it.clamp(1 << 20, MOST_INFLATED));
    let mut inflater = Inflater {
        stream: Stream::Ahead,
        endian,
        most,
        carried: Vec::new(),
        room: vec![0; STEP],
        n_compressed: 0,
        n_plain: 0,
    };
    let mut inflated = Inflated::default();
    let mut walk = RecordWalk::new(input, section, endian);
    let mut put = |bytes: &[u8]| {
        inflated.len = inflated.len.saturating_add(widen(bytes.len()));
        out.write_all(bytes).map_err(|source| Error::Inflated { source })
    };
    while let Some(raw) = walk.next()? {
        if matches!(raw.header.kind, RecordKind::COMPRESSED | RecordKind::COMPRESSED2) {
            match inflater.inflate(raw) {
                Some(plain) => {
                    let whole = whole_records(&plain, endian);
                    put(plain.get(..whole).unwrap_or_default())?;
                    inflater.carried = plain.get(whole..).unwrap_or_default().to_vec();
                }
                None => inflated.n_damaged = inflated.n_damaged.saturating_add(1),
            }
        } else {
            let len = raw.payload.end().saturating_sub(raw.at.0);
            put(&read_up_to(input, raw.at, len)?)?;
        }
    }
    // What was cut stays cut, for the reader of the records to count.
    let cut = walk.cut_bytes();
    if cut != 0 {
        put(&read_up_to(input, walk.position(), cut)?)?;
    }
    // Of a pipe nothing says where it should end.
    if section.size != u64::MAX {
        let reached = walk.position().0.saturating_add(cut);
        inflated.missing = section.end().saturating_sub(reached);
    }
    Ok(inflated)
}

struct Inflater {
    stream: Stream,
    endian: Endian,
    most: usize,
    /// The beginning of a record whose rest is still to come.
    carried: Vec<u8>,
    /// What the stream inflates into, piece by piece.
    room: Vec<u8>,
    /// Bytes so far, on both sides.
    n_compressed: u64,
    n_plain: u64,
}

/// How many bytes are inflated at a time.
const STEP: usize = 256 << 10;

enum Stream {
    /// Nothing of it has come.
    Ahead,
    /// It goes on.
    Open(Decoder<'static>),
    /// There is no way on.
    Broken,
}

impl Inflater {
    /// The plain bytes of one record, behind those that waited.
    fn inflate(&mut self, raw: RawRecord<'_>) -> Option<Vec<u8>> {
        let stream = std::mem::replace(&mut self.stream, Stream::Broken);
        let mut decoder = match stream {
            Stream::Ahead => Decoder::new().ok()?,
            Stream::Open(decoder) => decoder,
            Stream::Broken => return None,
        };
        let mut cursor = Cursor::new(raw.body, raw.at, self.endian);
        let record = Record::decode(raw.header, &mut cursor).ok()?;
        let Record::User(UserRecord::Compressed(data) | UserRecord::Compressed2(data)) = record
        else {
            return None;
        };
        let mut plain = std::mem::take(&mut self.carried);
        self.decode(&mut decoder, data, &mut plain)?;
        self.stream = Stream::Open(decoder);
        Some(plain)
    }

    /// Appends what `data` inflates to; `None` if it is damaged, or more than is believed.
    fn decode(
        &mut self,
        decoder: &mut Decoder<'_>,
        mut data: &[u8],
        plain: &mut Vec<u8>,
    ) -> Option<()> {
        let limit = plain.len().saturating_add(self.most);
        self.n_compressed = self.n_compressed.saturating_add(widen(data.len()));
        let believed = self.n_compressed.saturating_mul(MOST_RATIO).max(ALWAYS_BELIEVED);
        loop {
            let status = decoder.run_on_buffers(data, &mut self.room).ok()?;
            plain.extend_from_slice(self.room.get(..status.bytes_written)?);
            self.n_plain = self.n_plain.saturating_add(widen(status.bytes_written));
            data = data.get(status.bytes_read..)?;
            if limit < plain.len() || believed < self.n_plain {
                return None;
            }
            // Where there was room left, the stream holds nothing back.
            if status.bytes_written < STEP && (data.is_empty() || status.bytes_read == 0) {
                return Some(());
            }
        }
    }
}

/// How many bytes of `bytes` are whole records.
fn whole_records(bytes: &[u8], endian: Endian) -> usize {
    let mut whole = 0;
    while let Some(rest) = bytes.get(whole..) {
        let mut cursor = Cursor::new(rest, FileOffset(0), endian);
        // A record without a way on is the reader's to meet.
        let Ok(header) = RecordHeader::decode(&mut cursor) else {
            let is_cut = rest.len() < usize::from(RecordHeader::SIZE);
            return if is_cut { whole } else { bytes.len() };
        };
        let size = usize::from(header.size);
        if rest.len() < size {
            return whole;
        }
        whole = whole.saturating_add(size);
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of `len` bytes, header included, with bytes that do not compress well.
    fn record(len: u16, seed: u64) -> Vec<u8> {
        let mut bytes = 9_u32.to_ne_bytes().to_vec();
        bytes.extend([0; 2]);
        bytes.extend(len.to_ne_bytes());
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        while bytes.len() < usize::from(len) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.extend(state.to_ne_bytes());
        }
        bytes.truncate(usize::from(len));
        bytes
    }

    const ROUND: [u8; 8] = {
        let kind = 68_u32.to_ne_bytes();
        let size = 8_u16.to_ne_bytes();
        [kind[0], kind[1], kind[2], kind[3], 0, 0, size[0], size[1]]
    };

    fn compress(kind: RecordKind, rounds: &[Vec<u8>]) -> Vec<u8> {
        let mut compressor = Compressor::new(1, kind).unwrap();
        let mut out = record(40, 1);
        for plain in rounds {
            compressor.compress(plain, &mut out).unwrap();
            out.extend(ROUND);
        }
        out
    }

    fn inflate_all(bytes: &[u8]) -> (Vec<u8>, Inflated) {
        let section = Section { offset: 0, size: widen(bytes.len()) };
        let compression =
            Compression { version: 1, method: 1, level: 1, ratio: 0, mmap_len: MMAP_LEN };
        let mut out = Vec::new();
        let inflated =
            inflate(bytes, section, Endian::NATIVE, Some(&compression), &mut out).unwrap();
        (out, inflated)
    }

    #[track_caller]
    fn check(rounds: &[Vec<u8>]) {
        let mut want = record(40, 1);
        for plain in rounds {
            want.extend(plain);
            want.extend(ROUND);
        }
        for kind in [RecordKind::COMPRESSED, RecordKind::COMPRESSED2] {
            let bytes = compress(kind, rounds);
            let len = widen(want.len());
            let (got, inflated) = inflate_all(&bytes);
            assert_eq!(inflated, Inflated { len, missing: 0, n_damaged: 0 });
            assert!(got == want, "{kind:?}");
        }
    }

    #[test]
    fn what_is_compressed_comes_back() {
        check(&[record(100, 2), record(2000, 3)]);
        check(&[]);
        check(&[Vec::new()]);
    }

    #[test]
    fn rounds_larger_than_a_record_and_a_piece_come_back() {
        let many = |seed: u64| (0..20).flat_map(|it| record(60_000, seed + it)).collect();
        check(&[many(7), record(8, 1), many(100)]);
        check(&[vec![ROUND; 400_000].concat()]);
    }

    #[test]
    fn a_record_cut_by_a_compressed_one_goes_on_in_the_next() {
        let (first, second) = (record(160, 4), record(80, 5));
        let mut compressor = Compressor::new(1, RecordKind::COMPRESSED2).unwrap();
        let mut bytes = Vec::new();
        compressor.compress(&first[..101], &mut bytes).unwrap();
        bytes.extend(ROUND);
        compressor.compress(&[&first[101..], &second].concat(), &mut bytes).unwrap();
        assert_eq!(inflate_all(&bytes).0, [&ROUND[..], &first, &second].concat());
    }

    #[test]
    fn damage_costs_the_rest_of_the_stream_and_nothing_else() {
        let rounds = [record(200, 1), record(200, 2), record(200, 3)];
        let mut broken = compress(RecordKind::COMPRESSED2, &rounds);
        // The magic of the stream.
        broken[40 + 16..40 + 20].fill(0);
        let (got, inflated) = inflate_all(&broken);
        assert_eq!(inflated.n_damaged, 3);
        assert_eq!(got, [record(40, 1), ROUND.repeat(3)].concat());
    }

    #[test]
    fn a_record_that_stands_for_too_much_is_not_believed() {
        let mut compressor = Compressor::new(19, RecordKind::COMPRESSED2).unwrap();
        let mut bytes = Vec::new();
        let many = ROUND.repeat(1 << 20);
        let mut data = vec![0; 65_000];
        let status = compressor.encoder.run_on_buffers(&many, &mut data).unwrap();
        assert_eq!(status.bytes_read, many.len());
        let mut rest = zstd::stream::raw::OutBuffer::around(&mut data[status.bytes_written..]);
        assert_eq!(compressor.encoder.flush(&mut rest).unwrap(), 0);
        let len = status.bytes_written + rest.pos();
        compressor.put(&data[..len], &mut bytes);
        let (got, inflated) = inflate_all(&bytes);
        assert_eq!((got.len(), inflated.n_damaged), (0, 1));
    }

    #[test]
    fn the_ratio_is_of_plain_bytes_to_compressed_ones() {
        let mut compressor = Compressor::new(3, RecordKind::COMPRESSED2).unwrap();
        assert_eq!(compressor.ratio(), 0);
        compressor.compress(&ROUND.repeat(1000), &mut Vec::new()).unwrap();
        assert!(10 < compressor.ratio());
    }
}
