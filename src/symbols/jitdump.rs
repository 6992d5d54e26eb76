//! `jit-PID.dump`: what a JIT compiler tells of its code as it makes it, with times.
//!
//! ```text
//!   header   magic, version, length, machine, pad, pid, timestamp, flags
//!   records  id, length, timestamp, and what the id says:
//!            0  load   pid, tid, vma, address, length, index, name, 0, code
//!            1  move   pid, tid, vma, old address, new address, length, index
//!            2  debug info, 3  end, 4  unwinding: passed over
//! ```
//!
//! Source: `tools/perf/Documentation/jitdump-specification.txt`. The numbers are in the byte order of
//! whoever wrote it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::units::Addr;
use crate::units::Nanos;

use super::perf_map::MAX_NAME_BYTES;

/// The code that one process made, in the order in which it made it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JitDump {
    /// What was made, each as long as nothing else takes its place.
    pub codes: Vec<JitCode>,
    /// Whether times are of `CLOCK_MONOTONIC`; else they are of the processor's own counter.
    pub is_monotonic: bool,
    /// Records that could not be read; one that is cut at the end is one.
    pub n_bad: u64,
}

/// A function, from some time on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JitCode {
    /// When it was there.
    pub time: Nanos,
    /// Its first address.
    pub start: Addr,
    /// One past its last address.
    pub end: Addr,
    /// Its name; empty where there is no code any more, since it has moved.
    pub name: String,
    /// Its bytes as they were made; none where the dump has not all of them.
    pub code: Arc<[u8]>,
    /// Whose code it is, as the header of an ELF file has it (`e_machine`).
    pub machine: u16,
    /// Whether its numbers begin with the low byte.
    pub is_little_endian: bool,
}

/// Why a file is no dump of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no jitdump of version 1")]
pub struct NoJitDump;

const MAGIC: u32 = 0x4a69_5444;
const VERSION: u32 = 1;
/// Of the header up to its flags, in bytes.
const HEADER_LEN: usize = 40;
/// Of the head of a record, in bytes.
const HEAD_LEN: usize = 16;
/// `JITDUMP_FLAGS_ARCH_TIMESTAMP`.
const ARCH_TIMESTAMP: u64 = 1;
const LOAD: u32 = 0;
const MOVE: u32 = 1;

/// The most bytes of all names that are kept: code that moves has its name each time.
const MOST_NAME_BYTES: usize = 256 << 20;

/// Whether a JIT compiler maps a file by this name to show that it writes there: `jit-PID.dump`.
///
/// Source: `jit_detect()` in `tools/perf/util/jitdump.c`.
pub fn is_dump(path: &[u8]) -> bool {
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    let name = path.rsplit(|it| *it == b'/').next().unwrap_or_default();
    let number = name.strip_prefix(b"jit-").and_then(|it| it.strip_suffix(b".dump"));
    number.is_some_and(|it| !it.is_empty() && it.iter().all(u8::is_ascii_digit))
}

/// Whether `perf inject -j` calls the file of a function so: `jitted-PID-NUMBER.so`.
///
/// Source: `jit_emit_elf()` in `tools/perf/util/jitdump.c`.
pub fn is_injected(path: &[u8]) -> bool {
    let name = path.rsplit(|it| *it == b'/').next().unwrap_or_default();
    let numbers = name.strip_prefix(b"jitted-").and_then(|it| it.strip_suffix(b".so"));
    let mut numbers = numbers.unwrap_or_default().split(|it| *it == b'-');
    let mut is_number =
        || numbers.next().is_some_and(|it| !it.is_empty() && it.iter().all(u8::is_ascii_digit));
    is_number() && is_number() && numbers.next().is_none()
}

impl JitDump {
    /// Reads a whole dump; records that make no sense are counted and left out.
    ///
    /// # Errors
    ///
    /// [`NoJitDump`] if it does not begin as one.
    pub fn parse(bytes: &[u8]) -> Result<Self, NoJitDump> {
        let fields = Fields::of(bytes).ok_or(NoJitDump)?;
        let header_len = fields.u32(bytes, 8).ok_or(NoJitDump)?;
        let header_len = usize::try_from(header_len).map_err(|_| NoJitDump)?;
        let flags = fields.u64(bytes, 32).ok_or(NoJitDump)?;
        if fields.u32(bytes, 4) != Some(VERSION) || header_len < HEADER_LEN {
            return Err(NoJitDump);
        }
        let mut dump = Self { is_monotonic: flags & ARCH_TIMESTAMP == 0, ..Self::default() };
        let mut rest = bytes.get(header_len..).unwrap_or_default();
        // Where each function lies by its number, for those that move.
        let mut places: HashMap<u64, usize> = HashMap::new();
        let mut name_bytes = 0_usize;
        while !rest.is_empty() {
            let len = fields.u32(rest, 4).and_then(|it| usize::try_from(it).ok());
            let record = len.filter(|it| HEAD_LEN <= *it).and_then(|len| rest.get(..len));
            let Some(record) = record else {
                // Its writer was stopped within it, or goes on.
                dump.n_bad += 1;
                break;
            };
            rest = rest.get(record.len()..).unwrap_or_default();
            let code = match fields.u32(record, 0) {
                Some(LOAD) => fields.load(record).map(|(idx, code)| (idx, None, code)),
                Some(MOVE) => fields.moved(record, &places, &dump.codes),
                _ => continue,
            };
            let Some((idx, left, code)) = code else {
                dump.n_bad += 1;
                continue;
            };
            name_bytes = name_bytes.saturating_add(code.name.len());
            if MOST_NAME_BYTES < name_bytes {
                dump.n_bad += 1;
                break;
            }
            dump.codes.extend(left);
            places.insert(idx, dump.codes.len());
            dump.codes.push(code);
        }
        // They come from several threads, each of which has looked at the clock before it wrote.
        dump.codes.sort_by_key(|it| it.time);
        Ok(dump)
    }

    /// Those that no other one shares a byte with: they are sure without a time.
    pub fn unshared(&self) -> Vec<&JitCode> {
        let mut codes: Vec<&JitCode> = self.codes.iter().collect();
        codes.sort_by_key(|it| (it.start, it.end));
        let mut reach = Addr(0);
        let mut unshared = Vec::new();
        let mut all = codes.into_iter().peekable();
        while let Some(code) = all.next() {
            let is_alone = reach <= code.start && all.peek().is_none_or(|it| code.end <= it.start);
            reach = reach.max(code.end);
            if is_alone {
                unshared.push(code);
            }
        }
        unshared
    }
}

/// Numbers in the byte order of a dump.
#[derive(Clone, Copy)]
struct Fields {
    is_little: bool,
    machine: u16,
}

impl Fields {
    /// Those of the dump `bytes`, by how its magic stands there.
    fn of(bytes: &[u8]) -> Option<Self> {
        let magic = *bytes.first_chunk::<4>()?;
        let is_little = u32::from_le_bytes(magic) == MAGIC;
        if !is_little && u32::from_be_bytes(magic) != MAGIC {
            return None;
        }
        let this = Self { is_little, machine: 0 };
        let machine = u16::try_from(this.u32(bytes, 12)?).unwrap_or_default();
        Some(Self { machine, ..this })
    }

    fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let field = *bytes.get(at..)?.first_chunk::<4>()?;
        Some(if self.is_little { u32::from_le_bytes(field) } else { u32::from_be_bytes(field) })
    }

    fn u64(self, bytes: &[u8], at: usize) -> Option<u64> {
        let field = *bytes.get(at..)?.first_chunk::<8>()?;
        Some(if self.is_little { u64::from_le_bytes(field) } else { u64::from_be_bytes(field) })
    }

    /// The function that a record of a load tells of, and its number.
    fn load(self, record: &[u8]) -> Option<(u64, JitCode)> {
        let (start, len) = (self.u64(record, 32)?, self.u64(record, 40)?);
        let name = record.get(56..)?;
        let name_len = name.iter().take(MAX_NAME_BYTES + 1).position(|it| *it == 0)?;
        let code = name.get(name_len + 1..).unwrap_or_default();
        let code = usize::try_from(len).ok().and_then(|len| code.get(..len));
        let name = String::from_utf8_lossy(name.get(..name_len)?).into_owned();
        let code = self.code(record, start, len, name, code.unwrap_or_default().into())?;
        Some((self.u64(record, 48)?, code))
    }

    /// The function that a record of a move tells of: its number, what it has left, and where it is then.
    fn moved(
        self,
        record: &[u8],
        places: &HashMap<u64, usize>,
        codes: &[JitCode],
    ) -> Option<(u64, Option<JitCode>, JitCode)> {
        let (old, start) = (self.u64(record, 32)?, self.u64(record, 40)?);
        let (len, idx) = (self.u64(record, 48)?, self.u64(record, 56)?);
        let known = codes.get(*places.get(&idx)?).filter(|it| it.start.0 == old)?;
        let code = Arc::clone(&known.code);
        let code = self.code(record, start, len, known.name.clone(), code)?;
        let left = JitCode { time: code.time, name: String::new(), ..known.clone() };
        Some((idx, Some(left), code))
    }

    fn code(
        self,
        record: &[u8],
        start: u64,
        len: u64,
        name: String,
        code: Arc<[u8]>,
    ) -> Option<JitCode> {
        let end = start.checked_add(len).filter(|_| len != 0 && !name.is_empty())?;
        let time = Nanos(self.u64(record, 8)?);
        let (start, end) = (Addr(start), Addr(end));
        let Self { is_little: is_little_endian, machine } = self;
        Some(JitCode { time, start, end, name, code, machine, is_little_endian })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Puts 32-bit and 64-bit numbers in one byte order together.
    struct Tape {
        bytes: Vec<u8>,
        is_little: bool,
    }

    impl Tape {
        fn new(is_little: bool, flags: u64) -> Self {
            let mut tape = Self { bytes: Vec::new(), is_little };
            for word in [MAGIC, VERSION, 40, 62, 0, 7] {
                tape.u32(word);
            }
            tape.u64(5);
            tape.u64(flags);
            tape
        }

        fn u32(&mut self, it: u32) {
            self.bytes.extend(if self.is_little { it.to_le_bytes() } else { it.to_be_bytes() });
        }

        fn u64(&mut self, it: u64) {
            self.bytes.extend(if self.is_little { it.to_le_bytes() } else { it.to_be_bytes() });
        }

        fn head(&mut self, id: u32, len: usize, time: u64) {
            self.u32(id);
            self.u32(u32::try_from(16 + len).unwrap());
            self.u64(time);
        }

        fn load(&mut self, time: u64, start: u64, len: u64, idx: u64, name: &str) -> &mut Self {
            self.head(LOAD, 40 + name.len() + 1 + 3, time);
            self.u32(7);
            self.u32(8);
            for word in [start, start, len, idx] {
                self.u64(word);
            }
            self.bytes.extend(name.bytes());
            self.bytes.extend([0, 0xc3, 0xc3, 0xc3]);
            self
        }

        fn moved(&mut self, time: u64, old: u64, new: u64, len: u64, idx: u64) -> &mut Self {
            self.head(MOVE, 48, time);
            self.u32(7);
            self.u32(8);
            for word in [new, old, new, len, idx] {
                self.u64(word);
            }
            self
        }
    }

    fn code(time: u64, start: u64, end: u64, name: &str) -> JitCode {
        let (time, name) = (Nanos(time), name.to_owned());
        JitCode {
            time,
            start: Addr(start),
            end: Addr(end),
            name,
            machine: 62,
            ..JitCode::default()
        }
    }

    #[test]
    fn a_dump_is_known_by_its_name() {
        for path in ["/a/jit-1.dump", "jit-12.dump", "/x/jit-3.dump (deleted)"] {
            assert!(is_dump(path.as_bytes()), "{path}");
        }
        for path in ["/a/jit-.dump", "jit-1.dumps", "/jit-x.dump", "/ajit-1.dump", ""] {
            assert!(!is_dump(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn code_is_there_from_its_load_on_and_goes_along_when_it_moves() {
        for is_little in [true, false] {
            let mut tape = Tape::new(is_little, 0);
            tape.load(20, 0x2000, 0x40, 2, "later").load(10, 0x1000, 0x40, 1, "a b(int)");
            // Something of a later version.
            tape.head(77, 8, 15);
            tape.u64(0);
            tape.moved(30, 0x1000, 0x3000, 0x40, 1).moved(40, 0x3000, 0x1000, 0x20, 1);
            let dump = JitDump::parse(&tape.bytes).unwrap();
            let want = [
                code(10, 0x1000, 0x1040, "a b(int)"),
                code(20, 0x2000, 0x2040, "later"),
                code(30, 0x1000, 0x1040, ""),
                code(30, 0x3000, 0x3040, "a b(int)"),
                code(40, 0x3000, 0x3040, ""),
                code(40, 0x1000, 0x1020, "a b(int)"),
            ];
            let want = want.map(|it| JitCode { is_little_endian: is_little, ..it });
            assert_eq!((&*dump.codes, dump.is_monotonic, dump.n_bad), (&want[..], true, 0));
            let sure: Vec<u64> = dump.unshared().iter().map(|it| it.start.0).collect();
            assert_eq!(sure, [0x2000]);
        }
    }

    #[test]
    fn the_bytes_of_code_go_along_and_a_part_of_them_is_none() {
        let mut tape = Tape::new(true, 0);
        tape.load(1, 0x1000, 3, 1, "whole").load(2, 0x2000, 4, 2, "cut");
        tape.moved(3, 0x1000, 0x3000, 3, 1);
        let dump = JitDump::parse(&tape.bytes).unwrap();
        let code = |start| &*dump.codes.iter().rfind(|it| it.start.0 == start).unwrap().code;
        assert_eq!((code(0x1000), code(0x3000)), (&[0xc3; 3][..], &[0xc3; 3][..]));
        assert_eq!(code(0x2000), [0; 0]);
    }

    #[test]
    fn files_that_perf_wrote_are_known_by_their_name() {
        for (path, want) in [
            ("/a/jitted-12-0.so", true),
            ("jitted-1-33.so", true),
            ("/jitted-1.so", false),
            ("/jitted-1-2-3.so", false),
            ("/jitted-x-2.so", false),
            ("/jitted-1-2.so/x", false),
        ] {
            assert_eq!(is_injected(path.as_bytes()), want, "{path}");
        }
    }

    #[test]
    fn times_of_the_processor_are_told_apart() {
        assert!(!JitDump::parse(&Tape::new(true, ARCH_TIMESTAMP).bytes).unwrap().is_monotonic);
    }

    #[test]
    fn odd_records_are_counted_and_cost_no_other() {
        let mut tape = Tape::new(true, 0);
        tape.load(1, u64::MAX, 0x40, 1, "beyond").load(2, 0x1000, 0, 2, "empty");
        tape.load(3, 0x1000, 0x40, 3, "").moved(4, 0x1000, 0x2000, 8, 99);
        tape.load(5, 0x1000, 0x40, 4, "good").moved(6, 0x5000, 0x2000, 8, 4);
        tape.head(LOAD, 0, 7);
        let dump = JitDump::parse(&tape.bytes).unwrap();
        assert_eq!((dump.codes.len(), dump.n_bad), (1, 6));
        let whole = tape.load(8, 0x9000, 0x40, 5, "last").bytes.clone();
        for len in 0..whole.len() {
            match JitDump::parse(&whole[..len]) {
                Ok(dump) => assert!(HEADER_LEN <= len && dump.codes.len() <= 2),
                Err(NoJitDump) => assert!(len < HEADER_LEN, "{len}"),
            }
        }
        let mut endless = Tape::new(true, 0);
        endless.head(LOAD, 0, 1);
        let at = endless.bytes.len() - 12;
        endless.bytes[at..at + 4].fill(0);
        assert_eq!(JitDump::parse(&endless.bytes).unwrap().n_bad, 1);
        assert_eq!(JitDump::parse(b"no dump"), Err(NoJitDump));
    }
}
