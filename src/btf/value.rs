//! A value printed by its type.
//!
//! The form is that of `bpftool prog show` for metadata: numbers in decimal, strings in quotes,
//! `[1,2]` and `{"x":1}`. Where that tool cannot print, or prints what does not read well (a
//! string with a line end as numbers, a bit field as hexadecimal, a float not at all), this does.

use std::fmt::Write;

use crate::units::is_unfit;

use super::Btf;
use super::types::ByteOrder;
use super::types::Encoding;
use super::types::Member;
use super::types::Type;

/// How deep structs and arrays may nest.
const MAX_DEPTH: u32 = 16;

impl Btf {
    /// The value of type `type_id` that `data` begins with, as text of at most `max_len` bytes; a longer one
    /// ends in dots.
    ///
    /// `None` if the type is unknown, or `data` too short for it. Control characters, quotes and
    /// what is not UTF-8 are escaped inside strings, so the text is safe on a terminal.
    pub fn print(&self, type_id: u32, data: &[u8], max_len: usize) -> Option<String> {
        let mut printer = Printer { btf: self, text: String::new(), max_len };
        printer.value(type_id, data, MAX_DEPTH)?;
        let mut text = printer.text;
        cut(&mut text, max_len);
        Some(text)
    }

    /// The same, but the members of a struct as `pid=7 comm="sh"`, and what they hold as it is there.
    pub fn print_members(&self, type_id: u32, data: &[u8], max_len: usize) -> Option<String> {
        let (_, found) = self.strip(type_id)?;
        let (Type::Struct { count, members, has_bitfields, .. }
        | Type::Union { count, members, has_bitfields, .. }) = found
        else {
            return self.print(type_id, data, max_len);
        };
        let data = data.get(..self.len_of(type_id)?)?;
        let mut printer = Printer { btf: self, text: String::new(), max_len };
        for idx in 0..count {
            if !printer.has_room() {
                break;
            }
            if idx > 0 {
                printer.text.push(' ');
            }
            let member = self.member(members, idx, has_bitfields)?;
            let name = self.string(member.name)?;
            if !name.is_empty() {
                printer.name(name);
                printer.text.push('=');
            }
            printer.member(&member, data, MAX_DEPTH)?;
        }
        let mut text = printer.text;
        cut(&mut text, max_len);
        Some(text)
    }

    /// The length of a value of type `type_id`, in bytes.
    pub fn len_of(&self, type_id: u32) -> Option<usize> {
        self.value_len(type_id, MAX_DEPTH)
    }

    /// The length of a value of type `type_id`, in bytes.
    pub(super) fn value_len(&self, type_id: u32, depth: u32) -> Option<usize> {
        let (_, found) = self.strip(type_id)?;
        let len = match found {
            Type::Int { len, .. }
            | Type::Struct { len, .. }
            | Type::Union { len, .. }
            | Type::Enum { len, .. }
            | Type::Enum64 { len, .. }
            | Type::Float { len } => len,
            Type::Pointer => 8,
            Type::Array { element, count } => {
                let len = self.value_len(element, depth.checked_sub(1)?)?;
                return len.checked_mul(usize::try_from(count).ok()?);
            }
            _ => return None,
        };
        usize::try_from(len).ok()
    }
}

struct Printer<'a> {
    btf: &'a Btf,
    text: String,
    max_len: usize,
}

impl Printer<'_> {
    /// Whether more text could still show: this ends the widest array after `max_len` elements,
    /// since each element adds at least a byte.
    fn has_room(&self) -> bool {
        self.text.len() <= self.max_len
    }

    fn push(&mut self, args: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        self.text.write_fmt(args).unwrap_or_default();
    }

    fn value(&mut self, type_id: u32, data: &[u8], depth: u32) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        let (type_id, found) = self.btf.strip(type_id)?;
        let data = data.get(..self.btf.value_len(type_id, depth)?)?;
        match found {
            Type::Int { encoding, bit_offset, bits, .. } => {
                self.int(self.bits(data, bit_offset, bits)?, bits, encoding);
            }
            Type::Pointer => self.push(format_args!("\"{:#x}\"", self.bits(data, 0, 64)?)),
            Type::Array { element, count } => self.array(element, count, data, depth)?,
            Type::Struct { count, members, has_bitfields, .. }
            | Type::Union { count, members, has_bitfields, .. } => {
                self.members(count, members, has_bitfields, data, depth)?;
            }
            Type::Enum { .. } | Type::Enum64 { .. } => self.enumeration(found, data)?,
            Type::Float { len } => match len {
                4 => self.push(format_args!("{:?}", f32::from_bits(self.number(data)?))),
                8 => self.push(format_args!("{:?}", f64::from_bits(self.number(data)?))),
                _ => return None,
            },
            _ => return None,
        }
        Some(())
    }

    fn int(&mut self, value: u128, bits: u32, encoding: Encoding) {
        if encoding.has(Encoding::BOOL) {
            self.push(format_args!("{}", value != 0));
        } else if bits > 64 {
            self.push(format_args!("{value:#x}"));
        } else if encoding.has(Encoding::SIGNED) {
            self.push(format_args!("{}", sign_extend(value, bits)));
        } else {
            self.push(format_args!("{value}"));
        }
    }

    fn array(&mut self, element: u32, count: u32, data: &[u8], depth: u32) -> Option<()> {
        let len = self.btf.value_len(element, depth)?;
        if self.is_char(element) {
            self.string(data);
            return Some(());
        }
        self.text.push('[');
        for idx in 0..usize::try_from(count).ok()? {
            if !self.has_room() {
                break;
            }
            if idx > 0 {
                self.text.push(',');
            }
            self.value(element, data.get(idx.checked_mul(len)?..)?, depth)?;
        }
        self.text.push(']');
        Some(())
    }

    /// Whether an array of this type is meant as a string.
    fn is_char(&self, type_id: u32) -> bool {
        match self.btf.strip(type_id) {
            // Clang gives `char` no `CHAR` encoding, so the name has to tell it from `s8`.
            Some((type_id, Type::Int { len: 1, encoding, .. })) => {
                encoding.has(Encoding::CHAR) || self.btf.name(type_id) == Some(b"char")
            }
            _ => false,
        }
    }

    fn string(&mut self, data: &[u8]) {
        let data = data.split(|&byte| byte == 0).next().unwrap_or_default();
        // Each byte gives at least one of the text.
        let data = data.get(..self.max_len).unwrap_or(data);
        self.text.push('"');
        for chunk in data.utf8_chunks() {
            for char in chunk.valid().chars() {
                match char {
                    '"' | '\\' => self.push(format_args!("\\{char}")),
                    '\n' => self.text.push_str("\\n"),
                    '\t' => self.text.push_str("\\t"),
                    _ if char.is_ascii_control() => {
                        self.push(format_args!("\\x{:02x}", u32::from(char)));
                    }
                    // Controls beyond ASCII, and marks that turn the direction of text.
                    _ if is_unfit(char) => {
                        self.push(format_args!("\\u{{{:x}}}", u32::from(char)));
                    }
                    _ => self.text.push(char),
                }
            }
            for byte in chunk.invalid() {
                self.push(format_args!("\\x{byte:02x}"));
            }
        }
        self.text.push('"');
    }

    fn members(
        &mut self,
        count: u32,
        members: usize,
        has_bitfields: bool,
        data: &[u8],
        depth: u32,
    ) -> Option<()> {
        self.text.push('{');
        for idx in 0..count {
            if !self.has_room() {
                break;
            }
            if idx > 0 {
                self.text.push(',');
            }
            let member = self.btf.member(members, idx, has_bitfields)?;
            let name = self.btf.string(member.name)?;
            if !name.is_empty() {
                self.string(name);
                self.text.push(':');
            }
            self.member(&member, data, depth)?;
        }
        self.text.push('}');
        Some(())
    }

    /// What `member` holds of the struct in `data`.
    fn member(&mut self, member: &Member, data: &[u8], depth: u32) -> Option<()> {
        if member.bits == 0 {
            let at = usize::try_from(member.bit_offset / 8).ok()?;
            return self.value(member.type_id, data.get(at..)?, depth);
        }
        let value = self.bits(data, member.bit_offset, member.bits)?;
        match self.btf.strip(member.type_id)? {
            (_, Type::Int { encoding, .. }) => self.int(value, member.bits, encoding),
            _ => self.push(format_args!("{value}")),
        }
        Some(())
    }

    /// A name as it is, if it is one; else as a string.
    fn name(&mut self, name: &[u8]) {
        let is_name = name.iter().all(|it| it.is_ascii_alphanumeric() || *it == b'_');
        match std::str::from_utf8(name).ok().filter(|_| is_name) {
            Some(name) => self.text.push_str(name),
            None => self.string(name),
        }
    }

    fn enumeration(&mut self, found: Type, data: &[u8]) -> Option<()> {
        let (Type::Enum { len, count, is_signed, .. } | Type::Enum64 { len, count, is_signed, .. }) =
            found
        else {
            return None;
        };
        let bits = len.checked_mul(8).filter(|bits| (8..=64).contains(bits))?;
        let value = self.bits(data, 0, bits)?;
        let mask = u128::MAX >> (128 - bits);
        let name = (0..count).find_map(|idx| {
            let (name, entry) = match found {
                // A 32-bit entry of a narrower enum is sign-extended: compare what is stored.
                Type::Enum { values, .. } => self.btf.enum_entry(values, idx)?,
                Type::Enum64 { values, .. } => self.btf.enum64_entry(values, idx)?,
                _ => return None,
            };
            (u128::from(entry) & mask == value).then(|| self.btf.string(name)).flatten()
        });
        match name {
            Some(name) => self.string(name),
            None if is_signed => self.push(format_args!("{}", sign_extend(value, bits))),
            None => self.push(format_args!("{value}")),
        }
        Some(())
    }

    /// The `bits` bits of `data` from `bit_offset` on, counted as the byte order has it.
    fn bits(&self, data: &[u8], bit_offset: u32, bits: u32) -> Option<u128> {
        if !(1..=128).contains(&bits) {
            return None;
        }
        let first = usize::try_from(bit_offset / 8).ok()?;
        let end = usize::try_from(bit_offset.checked_add(bits)?.div_ceil(8)).ok()?;
        let bytes = data.get(first..end)?;
        let skip = bit_offset % 8;
        // A bit field can begin inside a byte and so touch 17 of them.
        let wide = |bytes: &mut dyn Iterator<Item = &u8>, drop_bits: u32| {
            let mut value = 0_u128;
            let mut taken = 0;
            for &byte in bytes {
                let (byte, from) =
                    if taken == 0 { (byte >> drop_bits, drop_bits) } else { (byte, 0) };
                value |= u128::from(byte).checked_shl(taken).unwrap_or(0);
                taken += 8 - from;
            }
            value
        };
        let value = match self.btf.order() {
            ByteOrder::Little => wide(&mut bytes.iter(), skip),
            // The last bit is the lowest; what of the last byte is not ours lies below it.
            ByteOrder::Big => wide(&mut bytes.iter().rev(), (8 - (skip + bits) % 8) % 8),
        };
        Some(value & u128::MAX >> (128 - bits))
    }

    /// All of `data` as one number.
    fn number<T: TryFrom<u128>>(&self, data: &[u8]) -> Option<T> {
        let bits = u32::try_from(data.len()).ok()?.checked_mul(8)?;
        T::try_from(self.bits(data, 0, bits)?).ok()
    }
}

/// What a text ends with that was cut.
const MARK: &str = "...";

/// Cuts `text` to at most `max_len` bytes, between characters, and marks it as cut.
pub(crate) fn cut(text: &mut String, max_len: usize) {
    if text.len() <= max_len {
        return;
    }
    while text.len() > max_len.saturating_sub(MARK.len()) {
        text.pop();
    }
    text.push_str(MARK);
}

/// `value`, whose sign is its bit `bits - 1`.
fn sign_extend(value: u128, bits: u32) -> i128 {
    let shift = 128_u32.saturating_sub(bits).min(127);
    (value << shift).cast_signed() >> shift
}

#[cfg(test)]
mod tests {
    use super::super::testing::BOTH;
    use super::super::testing::Builder;
    use super::*;

    const CHAR: u32 = 1;
    const S32: u32 = 2;
    const U64: u32 = 3;
    const BOOL: u32 = 4;

    /// A builder that has the four types above.
    fn builder(order: ByteOrder) -> Builder {
        let mut btf = Builder::new(order);
        btf.int("char", 1, Encoding::SIGNED, 8);
        btf.int("int", 4, Encoding::SIGNED, 32);
        btf.int("unsigned long long", 8, 0, 64);
        btf.int("_Bool", 1, Encoding::BOOL, 8);
        btf
    }

    /// Prints `data` as the type that `add` adds, in little-endian order.
    #[track_caller]
    fn check(add: impl FnOnce(&mut Builder) -> u32, data: &[u8], want: &str) {
        let mut btf = builder(ByteOrder::Little);
        let id = add(&mut btf);
        assert_eq!(btf.build().print(id, data, 255).as_deref(), Some(want));
    }

    #[track_caller]
    fn check_none(add: impl FnOnce(&mut Builder) -> u32, data: &[u8]) {
        let mut btf = builder(ByteOrder::Little);
        let id = add(&mut btf);
        assert_eq!(btf.build().print(id, data, 255), None);
    }

    #[test]
    fn numbers_are_decimal_with_their_sign_and_width() {
        check(|_| S32, &(-70000_i32).to_le_bytes(), "-70000");
        check(|_| U64, &u64::MAX.to_le_bytes(), "18446744073709551615");
        check(|btf| btf.int("s8", 1, Encoding::SIGNED, 8), &[0xfb], "-5");
        check(|btf| btf.int("u16", 2, 0, 16), &[0x60, 0xea], "60000");
        check(|_| CHAR, b"x", "120");
        let wide = (1_u128 << 100) + 7;
        check(
            |btf| btf.int("__int128", 16, 1, 128),
            &wide.to_le_bytes(),
            "0x10000000000000000000000007",
        );
    }

    #[test]
    fn the_other_byte_order_gives_the_same_number() {
        let btf = builder(ByteOrder::Big).build();
        assert_eq!(btf.print(S32, &[0xff, 0xff, 0xff, 0xfe], 9).as_deref(), Some("-2"));
    }

    #[test]
    fn truth_floats_and_pointers_read_as_such() {
        check(|_| BOOL, &[1], "true");
        check(|_| BOOL, &[0], "false");
        check(|btf| btf.float("float", 4), &1.5_f32.to_le_bytes(), "1.5");
        check(|btf| btf.float("double", 8), &(-2.25_f64).to_le_bytes(), "-2.25");
        check(|btf| btf.pointer(CHAR), &0x1234_u64.to_le_bytes(), "\"0x1234\"");
    }

    #[test]
    fn strings_are_quoted_up_to_their_zero_and_safe_on_a_terminal() {
        check(|btf| btf.array(CHAR, 9), b"team-net\0", "\"team-net\"");
        check(|btf| btf.array(CHAR, 4), b"ab\0c", "\"ab\"");
        check(|btf| btf.array(CHAR, 4), b"abcd", "\"abcd\"");
        check(|btf| btf.array(CHAR, 0), b"", "\"\"");
        check(
            |btf| btf.array(CHAR, 9),
            b"q\"\\\n\t\x1b\xff\xc3\xa9",
            r#""q\"\\\n\t\x1b\xff\u{e9}""#.replace("\\u{e9}", "\u{e9}").as_str(),
        );
        check(|btf| btf.array(CHAR, 3), "\u{202e}".as_bytes(), r#""\u{202e}""#);
    }

    #[test]
    fn an_array_of_bytes_that_are_no_chars_is_a_list() {
        check(
            |btf| {
                let byte = btf.int("unsigned char", 1, 0, 8);
                btf.array(byte, 3)
            },
            &[1, 0, 255],
            "[1,0,255]",
        );
        check(
            |btf| {
                let row = btf.array(CHAR, 2);
                btf.array(row, 2)
            },
            b"a\0b\0",
            "[\"a\",\"b\"]",
        );
    }

    #[test]
    fn an_enum_shows_its_name_or_else_its_number() {
        let color = |btf: &mut Builder| btf.enumeration("color", 4, 0, &[("RED", 1), ("NEG", -3)]);
        check(color, &1_i32.to_le_bytes(), "\"RED\"");
        check(color, &(-3_i32).to_le_bytes(), "\"NEG\"");
        check(color, &77_i32.to_le_bytes(), "77");
        check(|btf| btf.enumeration("e", 4, 1, &[]), &(-3_i32).to_le_bytes(), "-3");
        check(|btf| btf.enumeration("narrow", 1, 1, &[("MINUS", -1)]), &[0xff], "\"MINUS\"");
        let huge = |btf: &mut Builder| btf.enumeration64("huge", &[("HUGE", 0x12_3456_7890)]);
        check(huge, &0x12_3456_7890_u64.to_le_bytes(), "\"HUGE\"");
    }

    #[test]
    fn a_struct_names_its_members() {
        check(
            |btf| {
                let name = btf.array(CHAR, 4);
                btf.structure("point", 8, &[("x", S32, 0), ("name", name, 32)])
            },
            b"\xfe\xff\xff\xffnm\0\0",
            r#"{"x":-2,"name":"nm"}"#,
        );
    }

    #[test]
    fn members_print_as_a_line_and_what_they_hold_as_values() {
        let mut btf = builder(ByteOrder::Little);
        let name = btf.array(CHAR, 4);
        let inner = btf.structure("", 4, &[("a", S32, 0)]);
        let color = btf.enumeration("color", 4, 0, &[("RED", 1)]);
        let members = [("x", S32, 0), ("name", name, 32), ("in", inner, 64), ("c", color, 96)];
        let id = btf.structure("event", 16, &members);
        let odd = btf.structure("odd", 4, &[("a b", S32, 0)]);
        let btf = btf.build();
        let data = b"\xfe\xff\xff\xffn m\0\x07\0\0\0\x01\0\0\0rest";
        let want = r#"x=-2 name="n m" in={"a":7} c="RED""#;
        assert_eq!(btf.print_members(id, data, 99).as_deref(), Some(want));
        assert_eq!(btf.print_members(id, data, 9).as_deref(), Some("x=-2 n..."));
        assert_eq!(btf.print_members(id, &data[..15], 99), None);
        assert_eq!(btf.print_members(odd, data, 99).as_deref(), Some(r#""a b"=-2"#));
        assert_eq!(btf.print_members(S32, data, 99).as_deref(), Some("-2"));
        assert_eq!(btf.len_of(id), Some(16));
    }

    #[test]
    fn bit_fields_keep_their_sign_in_both_byte_orders() {
        // struct { int a : 3; int b : 5; int c : 12; } with 3, -3, 0x123
        for (order, data) in BOTH.into_iter().zip([[0xeb, 0x23, 0x01, 0], [0x7d, 0x12, 0x30, 0]]) {
            let mut btf = builder(order);
            let fields = [("a", S32, 3 << 24), ("b", S32, 5 << 24 | 3), ("c", S32, 12 << 24 | 8)];
            let id = btf.bit_fields("f", 4, &fields);
            let text = btf.build().print(id, &data, 99);
            assert_eq!(text.as_deref(), Some(r#"{"a":3,"b":-3,"c":291}"#), "{order:?}");
        }
    }

    #[test]
    fn names_and_qualifiers_before_a_type_are_passed_over() {
        check(
            |btf| {
                let inner = btf.alias("", 10, S32);
                btf.alias("volatile_int", 8, inner)
            },
            &[5, 0, 0, 0],
            "5",
        );
    }

    #[test]
    fn a_value_that_the_data_does_not_hold_is_none() {
        check_none(|_| S32, &[1, 2, 3]);
        check_none(|btf| btf.array(S32, u32::MAX), &[0; 64]);
        check_none(|btf| btf.structure("s", 4, &[("x", U64, 0)]), &[0; 4]);
        check_none(|btf| btf.structure("s", 4, &[("x", S32, u32::MAX)]), &[0; 4]);
    }

    #[test]
    fn types_that_contain_themselves_end() {
        check_none(
            |btf| {
                let own = btf.next_id();
                btf.alias("loop", 8, own)
            },
            &[0; 8],
        );
        check_none(
            |btf| {
                let own = btf.next_id();
                btf.array(own, 1)
            },
            &[0; 8],
        );
        check_none(
            |btf| {
                let own = btf.next_id();
                btf.structure("s", 4, &[("s", own, 0)])
            },
            &[0; 8],
        );
    }

    #[test]
    fn long_values_are_cut_and_wide_arrays_of_nothing_end() {
        let mut btf = builder(ByteOrder::Little);
        let empty = btf.structure("empty", 0, &[]);
        let wide = btf.array(empty, u32::MAX);
        let text = btf.array(CHAR, 600);
        let btf = btf.build();
        assert_eq!(btf.print(wide, &[], 10).as_deref(), Some("[{},{},..."));
        let long = btf.print(text, "\u{e9}".repeat(300).as_bytes(), 255).unwrap();
        assert_eq!(long, format!("\"{}...", "\u{e9}".repeat(125)));
    }
}
