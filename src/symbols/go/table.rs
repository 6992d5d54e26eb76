//! The table itself, whatever file it is in: bytes to functions, and from addresses within these to
//! values, files and lines.

use object::Endianness;

/// Which of its forms a table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Version {
    /// Go 1.2 to 1.15.
    V2,
    /// Go 1.16 and 1.17: parts of the table are found by its header.
    V16,
    /// Go 1.18 and 1.19: functions are found by their distance from the start of the code.
    V18,
    /// Go 1.20 and later.
    V20,
}

impl Version {
    /// By the number that a table begins with.
    fn of(magic: u32) -> Option<Self> {
        Some(match magic {
            0xffff_fffb => Self::V2,
            0xffff_fffa => Self::V16,
            0xffff_fff0 => Self::V18,
            0xffff_fff1 => Self::V20,
            _ => return None,
        })
    }
}

/// A table, taken apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table<'data> {
    pub(super) version: Version,
    endian: Endianness,
    /// Of how many bytes the code's instructions are multiples.
    quantum: u64,
    is_64: bool,
    /// How many bytes all of it has at the most.
    len: usize,
    names: &'data [u8],
    /// Of each unit, where its files' names are in `files`.
    units: &'data [u8],
    files: &'data [u8],
    values: &'data [u8],
    /// What describes functions.
    infos: &'data [u8],
    /// Where each function starts and is described, and where the last one ends.
    entries: &'data [u8],
}

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Function<'data> {
    /// Where it starts: from the start of the code, in tables before [`Version::V18`] from 0.
    pub(super) start: u64,
    /// Where the next one starts.
    pub(super) next: u64,
    /// What describes it, and all that follows.
    info: &'data [u8],
}

/// Values of a function's addresses, each up to where the next one holds.
#[derive(Clone, Debug)]
pub(super) struct Values<'data> {
    rest: &'data [u8],
    quantum: u64,
    end: u64,
    value: i32,
    is_first: bool,
}

/// A function that was inlined into another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Inlined<'data> {
    pub(super) name: &'data [u8],
    /// An address in the other one, from its start, that has the file and line of the call.
    pub(super) called_at: u64,
}

/// The longest name of a function or file, in bytes.
pub(super) const MOST_NAME: usize = 64 << 10;

/// The most values that one function has: a megabyte of code has fewer.
pub(super) const MOST_VALUES: usize = 1 << 16;

/// `PCDATA_InlTreeIndex`: which of the inlined functions an address is in.
const INLINED_INDEX: usize = 2;

/// `FUNCDATA_InlTree`: the functions that were inlined.
const INLINED_TREE: usize = 3;

/// What stands for nothing.
const NONE: u32 = u32::MAX;

impl<'data> Table<'data> {
    /// Takes `bytes` apart that begin with a table; `None` where they do not, or one of its parts lies
    /// outside of them.
    pub(super) fn parse(bytes: &'data [u8], endian: Endianness, is_64: bool) -> Option<Self> {
        let (&[a, b, c, d, 0, 0, quantum @ (1 | 2 | 4), width], _) = bytes.split_first_chunk()?
        else {
            return None;
        };
        let version = Version::of(u32_of([a, b, c, d], endian))?;
        if width != if is_64 { 8 } else { 4 } {
            return None;
        }
        let header = bytes.get(8..)?;
        let empty = Self {
            version,
            endian,
            quantum: quantum.into(),
            is_64,
            len: bytes.len(),
            names: bytes,
            units: &[],
            files: &[],
            values: bytes,
            infos: bytes,
            entries: &[],
        };
        let number = |idx| usize::try_from(empty.word(header, idx)?).ok();
        let part = |idx| bytes.get(number(idx)?..);
        let n_functions = number(0)?;
        let table = match version {
            Version::V2 => {
                Self { entries: bytes.get(8_usize.checked_add(empty.width())?..)?, ..empty }
            }
            Version::V16 | Version::V18 | Version::V20 => {
                // The start of the code stands before them.
                let first = if version == Version::V16 { 2 } else { 3 };
                Self {
                    names: part(first)?,
                    units: part(first + 1)?,
                    files: part(first + 2)?,
                    values: part(first + 3)?,
                    infos: part(first + 4)?,
                    entries: part(first + 4)?,
                    ..empty
                }
            }
        };
        let len = n_functions.checked_mul(2)?.checked_add(1)?.checked_mul(table.entry_width())?;
        let entries = table.entries.get(..len)?;
        (n_functions != 0).then_some(Self { entries, ..table })
    }

    fn width(&self) -> usize {
        if self.is_64 { 8 } else { 4 }
    }

    /// How many bytes a number in `entries` has.
    fn entry_width(&self) -> usize {
        if self.version < Version::V18 { self.width() } else { 4 }
    }

    /// The number with this `idx` of those in `bytes`, each as long as an address.
    fn word(&self, bytes: &[u8], idx: usize) -> Option<u64> {
        number(bytes, idx, self.width(), self.endian)
    }

    fn u32(&self, bytes: &[u8], at: usize) -> Option<u32> {
        Some(u32_of(*bytes.get(at..)?.first_chunk()?, self.endian))
    }

    /// Where the number is in the table, of its header, that says where the code starts, if that is
    /// noted there.
    pub(super) fn text_at(&self) -> u64 {
        8 + 2 * self.width() as u64
    }

    /// How many bytes all of it has at the most.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn n_functions(&self) -> usize {
        self.entries.len() / self.entry_width() / 2
    }

    fn entry(&self, idx: usize) -> Option<u64> {
        number(self.entries, idx, self.entry_width(), self.endian)
    }

    /// Where the last function ends.
    pub(super) fn end(&self) -> Option<u64> {
        self.entry(self.n_functions().checked_mul(2)?)
    }

    /// The function with the number `idx`, if it has any code.
    pub(super) fn function(&self, idx: usize) -> Option<Function<'data>> {
        let at = idx.checked_mul(2)?;
        let start = self.entry(at)?;
        let info = self.infos.get(usize::try_from(self.entry(at + 1)?).ok()?..)?;
        let next = self.entry(at + 2)?;
        // What describes it says again where it starts.
        let again = number(info, 0, self.entry_width(), self.endian)?;
        let is_within = start < next && next <= self.end()?;
        (is_within && again == start).then_some(Function { start, next, info })
    }

    /// The function whose code is at `at`, counted as its start is.
    pub(super) fn find(&self, at: u64) -> Option<Function<'data>> {
        let (mut low, mut high) = (0, self.n_functions());
        while low < high {
            let middle = low.midpoint(high);
            if self.entry(middle.checked_mul(2)?)? <= at {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        self.function(low.checked_sub(1)?).filter(|it| (it.start..it.next).contains(&at))
    }

    /// The name at `offset` of those of functions.
    fn name_at(&self, offset: u32) -> Option<&'data [u8]> {
        text(self.names, offset)
    }

    /// A number that describes `function`, `at` as many bytes behind its start.
    fn field(&self, function: &Function<'_>, at: usize) -> Option<u32> {
        self.u32(function.info, self.entry_width().checked_add(at)?)
    }

    /// Its name.
    pub(super) fn name(&self, function: &Function<'_>) -> Option<&'data [u8]> {
        self.name_at(self.field(function, 0)?)
    }

    /// How far its stack pointer is moved: known for all of its instructions, and nothing behind.
    pub(super) fn stack_depths(&self, function: &Function<'_>) -> Option<Values<'data>> {
        self.values(self.field(function, 12)?)
    }

    /// The file and the line that the code `at` bytes behind the start of `function` comes from.
    /// Only where functions are described as since [`Version::V18`]. Takes the values that it passes from
    /// `room`.
    pub(super) fn line(
        &self,
        function: &Function<'_>,
        at: u64,
        room: &mut usize,
    ) -> Option<(&'data [u8], u32)> {
        let file = self.values(self.field(function, 16)?)?.at(at, room)?;
        let line = self.values(self.field(function, 20)?)?.at(at, room)?;
        let unit = self.field(function, 28).filter(|&it| it != NONE)?;
        let idx = usize::try_from(unit.checked_add(u32::try_from(file).ok()?)?).ok()?;
        let name = self.u32(self.units, idx.checked_mul(4)?).filter(|&it| it != NONE)?;
        Some((text(self.files, name)?, u32::try_from(line).ok()?))
    }

    /// Which of the functions that were inlined into `function` the code is in, none where that is
    /// negative. Only since [`Version::V18`].
    pub(super) fn inlined_indices(&self, function: &Function<'_>) -> Option<Values<'data>> {
        let n = usize::try_from(self.field(function, 24)?).ok()?;
        if n <= INLINED_INDEX {
            return None;
        }
        self.values(self.u32(function.info, self.info_len() + 4 * INLINED_INDEX)?)
    }

    /// How many bytes describe a function, before what there are different numbers of.
    fn info_len(&self) -> usize {
        if self.version == Version::V20 { 44 } else { 40 }
    }

    /// Where the functions that were inlined into `function` are described, from where all such are.
    pub(super) fn inlined_tree(&self, function: &Function<'_>) -> Option<usize> {
        let n_values = usize::try_from(self.field(function, 24)?).ok()?;
        let n = *function.info.get(self.info_len().checked_sub(1)?)?;
        if usize::from(n) <= INLINED_TREE {
            return None;
        }
        let at =
            n_values.checked_add(INLINED_TREE)?.checked_mul(4)?.checked_add(self.info_len())?;
        usize::try_from(self.u32(function.info, at).filter(|&it| it != NONE)?).ok()
    }

    /// The inlined function with this `idx` of those that `tree` begins with, if it is one.
    pub(super) fn inlined(&self, tree: &[u8], idx: i32) -> Option<Inlined<'data>> {
        let (len, name) = if self.version == Version::V20 { (16, 4) } else { (20, 12) };
        let entry = tree.get(usize::try_from(idx).ok()?.checked_mul(len)?..)?.get(..len)?;
        let name = self.u32(entry, name)?;
        let called_at = self.u32(entry, len - if self.version == Version::V20 { 8 } else { 4 })?;
        // What stands at any other place is no offset of a name.
        let before = name.checked_sub(1).map(|it| usize::try_from(it).ok());
        if before.is_some_and(|it| it.and_then(|it| self.names.get(it)) != Some(&0)) {
            return None;
        }
        let name = self.name_at(name).filter(|it| !it.is_empty())?;
        Some(Inlined { name, called_at: called_at.into() })
    }

    /// The values at `offset`; none at 0.
    fn values(&self, offset: u32) -> Option<Values<'data>> {
        let rest = self.values.get(usize::try_from(offset).ok().filter(|&it| it != 0)?..)?;
        Some(Values { rest, quantum: self.quantum, end: 0, value: -1, is_first: true })
    }
}

impl Values<'_> {
    /// The value of what is `at` bytes behind the start of the function, if there is `room` for the values
    /// before it, which are taken from that.
    pub(super) fn at(self, at: u64, room: &mut usize) -> Option<i32> {
        let mut n_passed = 0;
        let most = MOST_VALUES.min(*room);
        let found = self.take(most).inspect(|_| n_passed += 1).find(|&(end, _)| at < end);
        *room -= n_passed;
        found.map(|it| it.1)
    }

    fn varint(&mut self) -> Option<u32> {
        let mut value = 0_u32;
        for shift in (0..32).step_by(7) {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            value |= u32::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

/// Each value with where it ends, from the start of the function.
impl Iterator for Values<'_> {
    type Item = (u64, i32);

    fn next(&mut self) -> Option<Self::Item> {
        let delta = self.varint()?;
        if delta == 0 && !self.is_first {
            self.rest = &[];
            return None;
        }
        self.is_first = false;
        // Zigzag: the lowest bit is the sign.
        let delta = (delta >> 1) ^ (delta & 1).wrapping_neg();
        self.value = self.value.wrapping_add(delta.cast_signed());
        let len = u64::from(self.varint()?).checked_mul(self.quantum).filter(|&it| it != 0)?;
        self.end = self.end.checked_add(len)?;
        Some((self.end, self.value))
    }
}

/// The text at `offset`, up to a zero.
fn text(bytes: &[u8], offset: u32) -> Option<&[u8]> {
    let bytes = bytes.get(usize::try_from(offset).ok()?..)?;
    let bytes = bytes.get(..MOST_NAME).unwrap_or(bytes);
    bytes.get(..bytes.iter().position(|&byte| byte == 0)?)
}

/// The number with this `idx` of those in `bytes`, of `width` bytes each: 4 or 8.
pub(super) fn number(bytes: &[u8], idx: usize, width: usize, endian: Endianness) -> Option<u64> {
    let bytes = bytes.get(idx.checked_mul(width)?..)?;
    if width == 4 {
        return Some(u32_of(*bytes.first_chunk()?, endian).into());
    }
    let bytes = *bytes.first_chunk()?;
    Some(match endian {
        Endianness::Little => u64::from_le_bytes(bytes),
        Endianness::Big => u64::from_be_bytes(bytes),
    })
}

fn u32_of(bytes: [u8; 4], endian: Endianness) -> u32 {
    match endian {
        Endianness::Little => u32::from_le_bytes(bytes),
        Endianness::Big => u32::from_be_bytes(bytes),
    }
}
