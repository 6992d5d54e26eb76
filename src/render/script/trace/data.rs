//! Raw data of a sample, of any length and with anything in it.

use crate::perfdata::Endian;
use crate::perfdata::trace_format::Field;
use crate::perfdata::trace_format::FieldFlags;

/// Raw data and its byte order.
#[derive(Clone, Copy)]
pub(super) struct Raw<'a> {
    bytes: &'a [u8],
    pub(super) endian: Endian,
}

/// Where a field lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) offset: usize,
    pub(super) len: usize,
    pub(super) element_len: usize,
    pub(super) kind: PlaceKind,
}

/// How a field holds its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlaceKind {
    /// It is there.
    Here,
    /// It says where.
    Elsewhere,
    /// It says how far behind its end.
    Behind,
}

impl Place {
    pub(super) fn new(field: &Field) -> Self {
        let kind = if field.flags.contains(FieldFlags::RELATIVE) {
            PlaceKind::Behind
        } else if field.flags.contains(FieldFlags::DYNAMIC) {
            PlaceKind::Elsewhere
        } else {
            PlaceKind::Here
        };
        Self { offset: field.offset, len: field.len, element_len: field.element_len, kind }
    }

    /// The same field taken for what says where its content is, whatever its type.
    pub(super) fn dynamic(field: &Field) -> Self {
        let this = Self::new(field);
        match this.kind {
            PlaceKind::Here => Self { kind: PlaceKind::Elsewhere, ..this },
            _ => this,
        }
    }
}

impl<'a> Raw<'a> {
    pub(super) fn new(bytes: &'a [u8], endian: Endian) -> Self {
        Self { bytes, endian }
    }

    /// The number of `len` bytes at `offset`, without a sign; 0 if it is not there.
    #[inline]
    pub(super) fn number(&self, offset: usize, len: usize) -> u64 {
        self.try_number(offset, len).unwrap_or(0)
    }

    fn try_number(&self, offset: usize, len: usize) -> Option<u64> {
        let bytes = self.bytes.get(offset..)?;
        Some(match len {
            1 => u64::from(*bytes.first()?),
            2 => u64::from(self.endian.u16(*bytes.first_chunk()?)),
            4 => u64::from(self.endian.u32(*bytes.first_chunk()?)),
            8 => self.endian.u64(*bytes.first_chunk()?),
            _ => return None,
        })
    }

    /// `len` bytes at `offset`, as far as they are there.
    pub(super) fn bytes(&self, offset: usize, len: usize) -> &'a [u8] {
        let from = self.bytes.get(offset..).unwrap_or_default();
        from.get(..len).unwrap_or(from)
    }

    /// The content of a field; empty if it does not lie in the data as a whole.
    pub(super) fn content(&self, place: &Place) -> &'a [u8] {
        match place.kind {
            PlaceKind::Here if place.len == 0 => self.bytes(place.offset, usize::MAX),
            PlaceKind::Here => self.bytes(place.offset, place.len),
            PlaceKind::Elsewhere | PlaceKind::Behind => {
                let (offset, len) = self.target(place);
                let end = offset.checked_add(len);
                end.and_then(|end| self.bytes.get(offset..end)).unwrap_or_default()
            }
        }
    }

    /// All bytes from the start of a field's content on.
    pub(super) fn from(&self, place: &Place) -> &'a [u8] {
        let offset = match place.kind {
            PlaceKind::Here => place.offset,
            PlaceKind::Elsewhere | PlaceKind::Behind => self.target(place).0,
        };
        self.bytes(offset, usize::MAX)
    }

    /// Where a field says that its content is, and how long.
    pub(super) fn target(&self, place: &Place) -> (usize, usize) {
        let Some(word) = self.try_number(place.offset, place.len) else { return (0, 0) };
        let half = |word: u64| usize::try_from(word & 0xffff).unwrap_or(0);
        let start = half(word);
        let base = match place.kind {
            PlaceKind::Behind => place.offset + place.len,
            _ => 0,
        };
        let offset = base + start;
        match place.len {
            // Old kernels wrote no length.
            2 => (offset, self.bytes.len().saturating_sub(offset)),
            _ => (offset, half(word >> 16)),
        }
    }

    /// How long the content of a field is; 0 if it does not lie in the data as a whole.
    pub(super) fn content_len(&self, place: &Place) -> u64 {
        self.content(place).len() as u64
    }
}
