//! A value written by its type: the other direction of `print`.

use super::Btf;
use super::types::ByteOrder;
use super::types::Encoding;
use super::types::Type;

/// How deep names lead into structs.
const MAX_DEPTH: u32 = 16;

impl Btf {
    /// The data section `name`, such as `.rodata`.
    pub fn section(&self, name: &[u8]) -> Option<u32> {
        self.ids().find(|&id| {
            matches!(self.resolve(id), Some(Type::Section { .. })) && self.name(id) == Some(name)
        })
    }

    /// The struct `name`.
    pub fn structure(&self, name: &[u8]) -> Option<u32> {
        self.ids().find(|&id| {
            matches!(self.resolve(id), Some(Type::Struct { .. })) && self.name(id) == Some(name)
        })
    }

    /// Type and offset in bytes of the variable of `section`, or of the member of one, that `path`
    /// leads to: `limit`, `config.limit`, `limits[2]`.
    pub fn place(&self, section: u32, path: &str) -> Option<(u32, usize)> {
        let mut steps = path.split('.').map(indexed);
        let (first, indices) = steps.next()??;
        let variable = self.variables(section).find(|it| it.name == first.as_bytes())?;
        let mut place = (variable.type_id, usize::try_from(variable.offset).ok()?);
        place = self.element(place, &indices)?;
        for step in steps {
            let (name, indices) = step?;
            let field = self.fields(place.0).find(|it| it.name == name.as_bytes())?;
            place = (field.type_id, place.1.checked_add(field.offset)?);
            place = self.element(place, &indices)?;
        }
        Some(place)
    }

    /// The element of the array at `place` that `indices` lead to.
    fn element(&self, mut place: (u32, usize), indices: &[usize]) -> Option<(u32, usize)> {
        for &idx in indices {
            let (_, Type::Array { element, count }) = self.strip(place.0)? else { return None };
            if usize::try_from(count).ok()? <= idx {
                return None;
            }
            let offset = self.value_len(element, MAX_DEPTH)?.checked_mul(idx)?;
            place = (element, place.1.checked_add(offset)?);
        }
        Some(place)
    }

    /// What the pointer `type_id` points to.
    pub fn pointee(&self, type_id: u32) -> Option<u32> {
        let (id, found) = self.strip(type_id)?;
        if found == Type::Pointer { self.target(id) } else { None }
    }

    /// The value of type `type_id` that `text` stands for, in the byte order of the types.
    ///
    /// A number in C's forms, `true` and `false`, the name of an enum's constant, a character or a text in
    /// quotes or without. `None` if it does not fit.
    pub fn encode(&self, type_id: u32, text: &str) -> Option<Vec<u8>> {
        let (_, found) = self.strip(type_id)?;
        let text = text.trim();
        let bytes = match found {
            Type::Int { len, encoding, .. } => {
                let len = usize::try_from(len).ok()?;
                let text = match text {
                    "true" | "y" if encoding.has(Encoding::BOOL) => "1",
                    "false" | "n" if encoding.has(Encoding::BOOL) => "0",
                    text => text,
                };
                if encoding.has(Encoding::BOOL) && text != "0" && text != "1" {
                    return None;
                }
                whole(text, len, Some(encoding.has(Encoding::SIGNED)))?
            }
            Type::Pointer => whole(text, 8, Some(false))?,
            Type::Enum { len, count, values, is_signed } => {
                let named = self.constants(count, |idx| self.enum_entry(values, idx), text);
                let len = usize::try_from(len).ok()?;
                match named {
                    Some(value) => value.to_le_bytes().get(..len)?.to_vec(),
                    None => whole(text, len, Some(is_signed))?,
                }
            }
            Type::Enum64 { len, count, values, is_signed } => {
                let named = self.constants(count, |idx| self.enum64_entry(values, idx), text);
                let len = usize::try_from(len).ok()?;
                match named {
                    Some(value) => value.to_le_bytes().get(..len)?.to_vec(),
                    None => whole(text, len, Some(is_signed))?,
                }
            }
            Type::Array { element, count } if self.is_character(element) => {
                let quoted = text.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
                let text = quoted.unwrap_or(text).as_bytes();
                let len = usize::try_from(count).ok()?;
                // The kernel and the program look for the zero.
                if len <= text.len() || (1 << 20) < len {
                    return None;
                }
                let mut bytes = text.to_vec();
                bytes.resize(len, 0);
                return Some(bytes);
            }
            _ => return None,
        };
        Some(self.ordered(bytes))
    }

    /// What a value of the type can be, in words.
    pub fn describe(&self, type_id: u32) -> String {
        let what = self.strip(type_id).map(|it| it.1);
        match what {
            Some(Type::Int { encoding, .. }) if encoding.has(Encoding::BOOL) => {
                "`true` or `false`".to_owned()
            }
            Some(Type::Int { len, encoding, .. }) => {
                let sign = if encoding.has(Encoding::SIGNED) { "a" } else { "an unsigned" };
                format!("{sign} number of {len} bytes")
            }
            Some(Type::Pointer) => "an address".to_owned(),
            Some(Type::Enum { .. } | Type::Enum64 { .. }) => "a constant of an enum".to_owned(),
            Some(Type::Array { element, count }) if self.is_character(element) => {
                format!("a text of at most {} bytes", count.saturating_sub(1))
            }
            Some(Type::Struct { .. } | Type::Union { .. }) => {
                let names: Vec<String> = self
                    .fields(type_id)
                    .take(usize::try_from(MAX_DEPTH).unwrap_or(0))
                    .map(|it| String::from_utf8_lossy(it.name).into_owned())
                    .collect();
                format!("set by its members: {}", names.join(", "))
            }
            _ => "of a type that cannot be set".to_owned(),
        }
    }

    fn is_character(&self, type_id: u32) -> bool {
        match self.strip(type_id) {
            Some((id, Type::Int { len: 1, encoding, .. })) => {
                encoding.has(Encoding::CHAR) || self.name(id) == Some(b"char")
            }
            _ => false,
        }
    }

    /// The value of the constant `name`.
    fn constants(
        &self,
        count: u32,
        entry: impl Fn(u32) -> Option<(u32, u64)>,
        name: &str,
    ) -> Option<u64> {
        let mut entries = (0..count).map_while(entry);
        let (_, value) = entries.find(|it| self.string(it.0) == Some(name.as_bytes()))?;
        Some(value)
    }

    /// Bytes in little endian as the types have them.
    fn ordered(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        if self.order() == ByteOrder::Big {
            bytes.reverse();
        }
        bytes
    }
}

/// A name, and the indices in brackets behind it.
fn indexed(step: &str) -> Option<(&str, Vec<usize>)> {
    let (name, indices) = step.split_at(step.find('[').unwrap_or(step.len()));
    let mut found = Vec::new();
    for index in indices.split_inclusive(']') {
        found.push(index.strip_prefix('[')?.strip_suffix(']')?.parse().ok()?);
    }
    Some((name, found))
}

/// A number of `len` bytes in this machine's byte order, with or without a sign.
pub(crate) fn integer(text: &str, len: usize) -> Option<Vec<u8>> {
    let mut bytes = whole(text.trim(), len, None)?;
    if cfg!(target_endian = "big") {
        bytes.reverse();
    }
    Some(bytes)
}

/// A number of `len` bytes in little endian; signed or not, or either.
fn whole(text: &str, len: usize, is_signed: Option<bool>) -> Option<Vec<u8>> {
    let (text, is_negative) = text.strip_prefix('-').map_or((text, false), |it| (it, true));
    let character = text.strip_prefix('\'').and_then(|it| it.strip_suffix('\''));
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let size = match (character, hex) {
        (Some(it), _) if it.len() == 1 => it.bytes().next().map(u128::from)?,
        (_, Some(digits)) => u128::from_str_radix(digits, 16).ok()?,
        _ => text.parse::<u128>().ok()?,
    };
    if !matches!(len, 1 | 2 | 4 | 8 | 16) {
        return None;
    }
    let bits = u32::try_from(len * 8).ok()?;
    // As much as fits, negative or not; an unsigned one may be written as the bits of a signed one.
    let most = if is_negative || is_signed == Some(true) {
        1_u128.checked_shl(bits - 1)?
    } else {
        1_u128.checked_shl(bits).unwrap_or(0).wrapping_sub(1)
    };
    let is_too_large =
        if is_negative { most < size } else { most < size + u128::from(is_signed == Some(true)) };
    if is_too_large || (is_negative && is_signed == Some(false)) {
        return None;
    }
    let value = if is_negative { size.wrapping_neg() } else { size };
    value.to_le_bytes().get(..len).map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::super::testing::Builder;
    use super::super::types::kind;
    use super::*;

    #[test]
    fn numbers_fit_or_are_refused() {
        assert_eq!(whole("255", 1, Some(false)), Some(vec![255]));
        assert_eq!(whole("256", 1, Some(false)), None);
        assert_eq!(whole("127", 1, Some(true)), Some(vec![127]));
        assert_eq!(whole("128", 1, Some(true)), None);
        assert_eq!(whole("-128", 1, Some(true)), Some(vec![128]));
        assert_eq!(whole("-1", 1, Some(false)), None);
        assert_eq!(whole("-1", 2, None), Some(vec![255, 255]));
        assert_eq!(whole("0x1234", 2, None), Some(vec![0x34, 0x12]));
        assert_eq!(whole("'a'", 1, Some(true)), Some(vec![97]));
        assert_eq!(whole("18446744073709551615", 8, Some(false)), Some(vec![255; 8]));
        assert_eq!(whole("18446744073709551616", 8, Some(false)), None);
        for text in ["", "x", "1x", "--1", "0x", "1.5"] {
            assert_eq!(whole(text, 8, None), None, "{text}");
        }
    }

    #[test]
    fn a_path_leads_to_members_and_elements() {
        let mut btf = Builder::little();
        let int = btf.int("int", 4, 1, 32);
        let row = btf.array(int, 3);
        let config = btf.structure("config", 16, &[("min", int, 0), ("row", row, 32)]);
        let configs = btf.array(config, 2);
        let variable = btf.add("configs", kind::VAR << 24, configs, &[1]);
        let section = btf.add(".rodata", kind::DATASEC << 24 | 1, 48, &[variable, 8, 32]);
        let btf = btf.build();
        let at = |path: &str| btf.place(section, path).map(|it| it.1);
        assert_eq!(btf.section(b".rodata"), Some(section));
        assert_eq!(at("configs"), Some(8));
        assert_eq!(at("configs[1].row[2]"), Some(8 + 16 + 4 + 8));
        for path in
            ["", "configs[2]", "configs[0].max", "configs[0].min[0]", "configs[x]", "configs[0"]
        {
            assert_eq!(at(path), None, "{path}");
        }
    }

    #[test]
    fn a_value_is_written_as_it_would_be_printed() {
        let mut btf = Builder::little();
        let int = btf.int("int", 4, 1, 32);
        let character = btf.int("char", 1, 2, 8);
        let truth = btf.int("_Bool", 1, 4, 8);
        let text = btf.array(character, 5);
        let kind = btf.enumeration("kind", 4, 0, &[("SLOW", 7), ("FAST", 9)]);
        let config = btf.structure("config", 8, &[("min", int, 0), ("kind", kind, 32)]);
        let btf = btf.build();
        assert_eq!(btf.encode(int, "-2"), Some(vec![0xfe, 255, 255, 255]));
        assert_eq!(btf.encode(truth, "true"), Some(vec![1]));
        assert_eq!(btf.encode(truth, "2"), None);
        assert_eq!(btf.encode(text, "\"abcd\""), Some(b"abcd\0".to_vec()));
        assert_eq!(btf.encode(text, "ab"), Some(b"ab\0\0\0".to_vec()));
        assert_eq!(btf.encode(text, "abcde"), None);
        assert_eq!(btf.encode(kind, "FAST"), Some(vec![9, 0, 0, 0]));
        assert_eq!(btf.encode(kind, "7"), Some(vec![7, 0, 0, 0]));
        assert_eq!(btf.encode(config, "7"), None);
        assert_eq!(btf.describe(config), "set by its members: min, kind");
        assert_eq!(btf.describe(text), "a text of at most 4 bytes");
    }
}
