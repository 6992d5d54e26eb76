//! Conversions as `printf` has them.

use bitflags::bitflags;

use crate::render::escape::push_escaped;
use crate::render::script::number;

/// The most characters that a width or a precision asks for: they come from a file.
pub(super) const MAX_WIDTH: usize = 4096;

bitflags! {
    /// What stands between `%` and the width.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(super) struct Flags: u8 {
        /// `-`: aligned to the left.
        const LEFT = 1 << 0;
        /// `+`: with a sign in any case.
        const PLUS = 1 << 1;
        /// `0`: filled up with zeros.
        const ZEROS = 1 << 2;
        /// `#`: with what tells the base.
        const ALTERNATE = 1 << 3;
    }
}

/// Flags, width and precision of a conversion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spec {
    pub(super) flags: Flags,
    pub(super) width: usize,
    pub(super) precision: Option<usize>,
    pub(super) star: Star,
}

/// What an argument gives instead of the format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Star {
    #[default]
    Nothing,
    Width,
    Precision,
}

/// The base of a number, and whether it has a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conversion {
    Signed,
    Unsigned,
    Octal,
    Hex,
    UpperHex,
    Char,
}

impl Spec {
    /// The spec with the argument that its star stands for.
    pub(super) fn with(mut self, arg: Option<u64>) -> Self {
        let Some(arg) = arg else { return self };
        let arg = sign_extended(arg, 32).cast_signed();
        let len = usize::try_from(arg.unsigned_abs()).unwrap_or(usize::MAX).min(MAX_WIDTH);
        match self.star {
            Star::Width => {
                self.width = len;
                self.flags.set(Flags::LEFT, arg < 0 || self.flags.contains(Flags::LEFT));
            }
            // A precision below zero is none.
            Star::Precision => self.precision = (arg >= 0).then_some(len),
            Star::Nothing => {}
        }
        self
    }

    /// Appends `text` as `%s` does; what is no character for a terminal is escaped.
    pub(super) fn text(&self, text: &[u8], out: &mut Vec<u8>) {
        let text = match self.precision {
            Some(len) => text.get(..len).unwrap_or(text),
            None => text,
        };
        let n_blanks = self.width.saturating_sub(text.len());
        if !self.flags.contains(Flags::LEFT) {
            blanks(n_blanks, out);
        }
        push_escaped(text, out);
        if self.flags.contains(Flags::LEFT) {
            blanks(n_blanks, out);
        }
    }

    /// Makes of what stands from `start` on what `%s` makes of it.
    pub(super) fn align(&self, start: usize, out: &mut Vec<u8>) {
        if let Some(len) = self.precision {
            out.truncate(out.len().min(start + len));
        }
        let n_blanks = self.width.saturating_sub(out.len() - start);
        if n_blanks > 0 {
            let at = if self.flags.contains(Flags::LEFT) { out.len() } else { start };
            out.splice(at..at, std::iter::repeat_n(b' ', n_blanks));
        }
    }

    /// Appends the lowest `bits` of `value`.
    pub(super) fn number(&self, conversion: Conversion, bits: u32, value: u64, out: &mut Vec<u8>) {
        let plain = Self { star: self.star, ..Self::default() };
        let value = value & (u64::MAX >> (64 - bits));
        match conversion {
            Conversion::Unsigned if *self == plain => return number::decimal(value, 0, out),
            Conversion::Hex if *self == plain => return number::hex(value, 0, out),
            Conversion::Char => return self.text(&value.to_le_bytes()[..1], out),
            _ => {}
        }
        let (sign, magnitude) = match conversion {
            Conversion::Signed => {
                let value = sign_extended(value, bits).cast_signed();
                let plus = if self.flags.contains(Flags::PLUS) { "+" } else { "" };
                (if value < 0 { "-" } else { plus }, value.unsigned_abs())
            }
            Conversion::Hex if self.flags.contains(Flags::ALTERNATE) && value != 0 => ("0x", value),
            Conversion::UpperHex if self.flags.contains(Flags::ALTERNATE) && value != 0 => {
                ("0X", value)
            }
            Conversion::Octal if self.flags.contains(Flags::ALTERNATE) && value != 0 => {
                ("0", value)
            }
            _ => ("", value),
        };
        let start = out.len();
        out.extend_from_slice(sign.as_bytes());
        let digits_start = out.len();
        match conversion {
            // A precision of none prints no digit of a zero.
            _ if magnitude == 0 && self.precision == Some(0) => {}
            Conversion::Signed | Conversion::Unsigned | Conversion::Char => {
                number::decimal(magnitude, 0, out);
            }
            Conversion::Hex => number::hex(magnitude, 0, out),
            Conversion::UpperHex => {
                number::hex(magnitude, 0, out);
                out[digits_start..].make_ascii_uppercase();
            }
            Conversion::Octal => octal(magnitude, out),
        }
        let len = out.len() - start;
        let n_digits = out.len() - digits_start;
        let n_zeros = match self.precision {
            Some(precision) => precision.saturating_sub(n_digits),
            None if self.flags.contains(Flags::ZEROS) && !self.flags.contains(Flags::LEFT) => {
                self.width.saturating_sub(len)
            }
            None => 0,
        };
        if n_zeros > 0 {
            out.splice(digits_start..digits_start, std::iter::repeat_n(b'0', n_zeros));
        }
        Self { precision: None, ..*self }.align(start, out);
    }
}

/// `value`, the highest of whose `bits` is its sign, with that sign as 64 bits.
fn sign_extended(value: u64, bits: u32) -> u64 {
    let unused = 64 - bits;
    ((value << unused).cast_signed() >> unused).cast_unsigned()
}

fn octal(value: u64, out: &mut Vec<u8>) {
    let n_digits = (64 - (value | 1).leading_zeros()).div_ceil(3);
    out.extend((0..n_digits).rev().map(|place| b'0' + (value >> (3 * place) & 7).to_le_bytes()[0]));
}

fn blanks(n: usize, out: &mut Vec<u8>) {
    out.extend(std::iter::repeat_n(b' ', n));
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Spec =
        Spec { flags: Flags::empty(), width: 0, precision: None, star: Star::Nothing };

    #[track_caller]
    fn check(spec: Spec, conversion: Conversion, bits: u32, value: u64, want: &str) {
        let mut out = Vec::new();
        spec.number(conversion, bits, value, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }

    #[test]
    fn a_number_is_as_wide_as_its_conversion_says() {
        check(PLAIN, Conversion::Signed, 32, 0xffff_fffe, "-2");
        check(PLAIN, Conversion::Signed, 64, 0xffff_fffe, "4294967294");
        check(PLAIN, Conversion::Unsigned, 8, 0x1ff, "255");
        check(PLAIN, Conversion::Hex, 16, u64::MAX, "ffff");
        check(PLAIN, Conversion::Octal, 32, 0o755, "755");
        check(PLAIN, Conversion::Char, 32, u64::from(b'D'), "D");
    }

    #[test]
    fn flags_and_width_are_those_of_printf() {
        let zeros = Spec { flags: Flags::ZEROS, width: 8, ..PLAIN };
        check(zeros, Conversion::Hex, 64, 0x2a, "0000002a");
        check(zeros, Conversion::Signed, 32, 0xffff_ffff, "-0000001");
        let alternate = Spec { flags: Flags::ALTERNATE, ..PLAIN };
        check(alternate, Conversion::Hex, 32, 0x10, "0x10");
        check(alternate, Conversion::Hex, 32, 0, "0");
        check(Spec { width: 8, ..zeros }, Conversion::UpperHex, 64, 0xab, "000000AB");
        check(Spec { flags: Flags::LEFT, width: 4, ..PLAIN }, Conversion::Signed, 32, 7, "7   ");
        check(Spec { width: 4, ..PLAIN }, Conversion::Unsigned, 32, 7, "   7");
        check(Spec { precision: Some(3), ..PLAIN }, Conversion::Signed, 32, 7, "007");
        check(Spec { flags: Flags::PLUS, ..PLAIN }, Conversion::Signed, 32, 7, "+7");
    }

    #[test]
    fn a_star_takes_no_more_room_than_there_is() {
        let spec = Spec { star: Star::Width, ..PLAIN }.with(Some(0x7fff_ffff));
        assert_eq!(spec.width, MAX_WIDTH);
        let spec = Spec { star: Star::Width, ..PLAIN }.with(Some(0xffff_fffc));
        assert_eq!((spec.width, spec.flags), (4, Flags::LEFT));
        let spec = Spec { star: Star::Precision, ..PLAIN }.with(Some(0xffff_ffff));
        assert_eq!(spec.precision, None);
    }
}
