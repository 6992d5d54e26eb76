//! Pieces and raw data to text.

use std::borrow::Cow;

use crate::perfdata::Endian;
use crate::perfdata::trace_format::FieldFlags;
use crate::render::escape::push_escaped;
use crate::render::script::number;

use super::Context;
use super::compile::Arg;
use super::compile::FieldPiece;
use super::compile::Piece;
use super::compile::Program;
use super::data::Place;
use super::data::Raw;
use super::number::Conversion;
use super::number::Spec;
use super::pointer::Case;
use super::pointer::hex_byte;

impl Program {
    /// Appends what `raw` says.
    pub(super) fn print<'n, F>(&self, raw: Raw<'_>, context: &Context<'_, F>, out: &mut Vec<u8>)
    where
        F: Fn(u64) -> Option<(Cow<'n, str>, u64)>,
    {
        match self {
            Self::Pieces(pieces) => {
                for piece in pieces {
                    piece.print(raw, context, out);
                }
            }
            Self::Fields(fields) => {
                out.extend_from_slice(b"[FAILED TO PARSE]");
                for field in fields {
                    out.extend_from_slice(&field.label);
                    field.value(raw, out);
                }
            }
        }
    }

    /// Appends what `raw` says in `field`, in the way of the text if it is in there, else as it is.
    ///
    /// Source: `print_field()` of libtraceevent's `src/event-parse.c`.
    pub(super) fn print_field<'n, F>(
        &self,
        field: &FieldPiece,
        raw: Raw<'_>,
        context: &Context<'_, F>,
        out: &mut Vec<u8>,
    ) where
        F: Fn(u64) -> Option<(Cow<'n, str>, u64)>,
    {
        let pieces = match self {
            Self::Pieces(pieces) if !field.flags.contains(FieldFlags::ARRAY) => pieces.as_slice(),
            Self::Pieces(_) | Self::Fields(_) => &[],
        };
        let Some(idx) = pieces.iter().position(|it| it.is_field(&field.place)) else {
            return field.value(raw, out);
        };
        let before = idx.checked_sub(1).and_then(|it| pieces.get(it));
        if matches!(before, Some(Piece::Text(text)) if text.ends_with(b"0x")) {
            out.extend_from_slice(b"0x");
        }
        pieces[idx].print(raw, context, out);
    }
}

impl Piece {
    /// Whether it prints the number at `place`.
    fn is_field(&self, place: &Place) -> bool {
        match self {
            Self::Number { value, .. } | Self::Pointer(value) | Self::Function { value, .. } => {
                value.is_field(place)
            }
            Self::Text(_) | Self::Special(..) | Self::Bytes { .. } | Self::Str { .. } => false,
        }
    }

    fn print<'n, F>(&self, raw: Raw<'_>, context: &Context<'_, F>, out: &mut Vec<u8>)
    where
        F: Fn(u64) -> Option<(Cow<'n, str>, u64)>,
    {
        match self {
            Self::Text(text) => out.extend_from_slice(text),
            Self::Number { spec, star, conversion, bits, value } => {
                let spec = spec.with(star.as_ref().map(|it| it.of(raw)));
                spec.number(*conversion, *bits, value.of(raw), out);
            }
            Self::Pointer(value) => match value.of(raw) {
                0 => out.extend_from_slice(b"(nil)"),
                addr => hex_number(addr, out),
            },
            Self::Function { value, has_offset } => {
                let addr = value.of(raw);
                match (context.function)(addr) {
                    Some((name, offset)) => {
                        push_escaped(name.as_bytes(), out);
                        if *has_offset {
                            out.push(b'+');
                            hex_number(offset, out);
                        }
                    }
                    None => hex_number(addr, out),
                }
            }
            Self::Special(format, place) => format.print(raw, place, out),
            Self::Bytes { place, between, star } => {
                let len = star.as_ref().map_or(1, |it| it.of(raw));
                hex_bytes(raw.content(place), len, between, out);
            }
            Self::Str { spec, star, arg } => {
                let spec = spec.with(star.as_ref().map(|it| it.of(raw)));
                arg.print(&spec, raw, context, out);
            }
        }
    }
}

impl Arg {
    fn print<F>(&self, spec: &Spec, raw: Raw<'_>, context: &Context<'_, F>, out: &mut Vec<u8>) {
        let mut this = self;
        while let Self::Cond { condition, this: yes, that: no } = this {
            this = if condition.of(raw) == 0 { no } else { yes };
        }
        match this {
            Self::Nothing | Self::Cond { .. } => {}
            Self::Text(text) => spec.text(text, out),
            Self::Field(place) => spec.text(until_zero(raw.content(place)), out),
            Self::Address(place) => {
                let addr = raw.number(place.offset, place.len);
                match context.strings.get(&addr) {
                    Some(text) => push_escaped(text, out),
                    None => number::hex(addr, 0, out),
                }
            }
            Self::Dynamic(place) => {
                let text = raw.content(place);
                if !text.is_empty() {
                    spec.text(until_zero(text), out);
                }
            }
            Self::Bitmask(place) => {
                let start = out.len();
                bitmask(raw.content(place), raw.endian, out);
                spec.align(start, out);
            }
            Self::Cpumask(place) => {
                let start = out.len();
                cpumask(raw.content(place), raw.endian, out);
                spec.align(start, out);
            }
            Self::Flags { value, between, table } => {
                flags(value.of(raw), between, table, spec, out);
            }
            Self::Symbolic { value, table } => {
                let value = value.of(raw);
                match table.binary_search_by_key(&value.cast_signed(), |it| it.0) {
                    Ok(idx) => spec.text(&table[idx].1, out),
                    Err(_) => hex_number(value, out),
                }
            }
            Self::Hex { place, len, between } => {
                hex_bytes(raw.from(place), len.of(raw), between, out);
            }
            Self::Array { place, count, element_len } => {
                let (count, element_len) = (count.of(raw), element_len.of(raw));
                array(raw, place, count, element_len, out);
            }
        }
    }
}

/// The names of the bits of `value`, each as `spec` says.
fn flags(
    mut value: u64,
    between: &[u8],
    table: &[(i64, Box<[u8]>)],
    spec: &Spec,
    out: &mut Vec<u8>,
) {
    let mut is_first = true;
    let mut next = |out: &mut Vec<u8>| {
        if !std::mem::take(&mut is_first) {
            out.extend_from_slice(between);
        }
    };
    for (bits, name) in table {
        if value == 0 && *bits < 0 {
            spec.text(name, out);
            break;
        }
        let bits = bits.cast_unsigned();
        if 0 < bits.cast_signed() && value & bits == bits {
            next(out);
            spec.text(name, out);
            value &= !bits;
        }
    }
    if value != 0 {
        next(out);
        hex_number(value, out);
    }
}

/// `{0x1,0x2}`, as many elements as are there.
fn array(raw: Raw<'_>, place: &Place, count: u64, element_len: u64, out: &mut Vec<u8>) {
    let bytes = raw.from(place);
    out.push(b'{');
    let len = match usize::try_from(element_len) {
        Ok(len @ (1 | 2 | 4 | 8)) => Some(len),
        _ => None,
    };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    for (idx, element) in bytes.chunks_exact(len.unwrap_or(1)).take(count).enumerate() {
        if idx > 0 {
            out.push(b',');
        }
        if len.is_none() {
            out.extend_from_slice(b"BAD SIZE:");
            let plain = Spec::default();
            let element_len = if idx == 0 { element_len } else { 1 };
            plain.number(Conversion::Signed, 32, element_len, out);
            out.push(b' ');
        }
        hex_number(Raw::new(element, raw.endian).number(0, element.len()), out);
    }
    out.push(b'}');
}

/// The first `len` of `bytes`, two digits each.
fn hex_bytes(bytes: &[u8], len: u64, between: &[u8], out: &mut Vec<u8>) {
    // As the argument of a call: an `int`.
    let len = i32::try_from(len & 0xffff_ffff).unwrap_or(0);
    let len = usize::try_from(len).unwrap_or(0);
    for (idx, byte) in bytes.iter().take(len).enumerate() {
        if idx > 0 {
            out.extend_from_slice(between);
        }
        hex_byte(*byte, Case::Lower, out);
    }
}

/// The bytes of a mask, the highest first.
fn highest_first(bytes: &[u8], endian: Endian) -> impl Iterator<Item = u8> {
    let len = bytes.len();
    (0..len).map(move |idx| match endian {
        Endian::Little => bytes[len - 1 - idx],
        Endian::Big => bytes[idx],
    })
}

/// A mask in hexadecimal, with a comma before each 32 bits.
fn bitmask(bytes: &[u8], endian: Endian, out: &mut Vec<u8>) {
    for (idx, byte) in highest_first(bytes, endian).enumerate() {
        if idx > 0 && (bytes.len() - idx).is_multiple_of(4) {
            out.push(b',');
        }
        hex_byte(byte, Case::Lower, out);
    }
}

/// The set bits of a mask, as in `0-3,7`.
fn cpumask(bytes: &[u8], endian: Endian, out: &mut Vec<u8>) {
    let n_bits = bytes.len() * 8;
    let is_set = |bit: usize| {
        let byte = match endian {
            Endian::Little => bytes.get(bit / 8),
            Endian::Big => (bytes.len() - 1).checked_sub(bit / 8).and_then(|at| bytes.get(at)),
        };
        byte.is_some_and(|byte| byte >> (bit % 8) & 1 != 0)
    };
    let mut bit = 0;
    let mut is_first = true;
    while bit < n_bits {
        if !is_set(bit) {
            bit += 1;
            continue;
        }
        let first = bit;
        while bit < n_bits && is_set(bit) {
            bit += 1;
        }
        if !std::mem::take(&mut is_first) {
            out.push(b',');
        }
        number::decimal(first as u64, 0, out);
        if bit - 1 > first {
            out.push(b'-');
            number::decimal(bit as u64 - 1, 0, out);
        }
    }
}

impl FieldPiece {
    /// Appends what `raw` says in it.
    fn value(&self, raw: Raw<'_>, out: &mut Vec<u8>) {
        let Self { label: _, place, flags } = self;
        if flags.contains(FieldFlags::ARRAY) {
            let bytes = raw.content(place);
            let text = until_zero(bytes);
            let is_shown = |it: &u8| (b' '..=b'~').contains(it) || (b'\t'..=b'\r').contains(it);
            if flags.contains(FieldFlags::STRING) && text.iter().all(is_shown) {
                push_escaped(text, out);
                return;
            }
            out.extend_from_slice(b"ARRAY[");
            hex_bytes(bytes, bytes.len() as u64, b", ", out);
            out.push(b']');
            return;
        }
        let value = raw.number(place.offset, place.len);
        let plain = Spec::default();
        let is_long = flags.contains(FieldFlags::LONG);
        if flags.contains(FieldFlags::POINTER) {
            return hex_number(value, out);
        }
        if !flags.contains(FieldFlags::SIGNED) {
            if is_long {
                return hex_number(value, out);
            }
            return number::decimal(value, 0, out);
        }
        match place.len {
            4 if is_long => hex_number(value, out),
            4 => plain.number(Conversion::Signed, 32, value, out),
            2 => Spec { width: 2, ..plain }.number(Conversion::Signed, 16, value, out),
            1 => plain.number(Conversion::Signed, 8, value, out),
            _ => plain.number(Conversion::Signed, 64, value, out),
        }
    }
}

/// Appends `0x1f`.
fn hex_number(value: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"0x");
    number::hex(value, 0, out);
}

fn until_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}
