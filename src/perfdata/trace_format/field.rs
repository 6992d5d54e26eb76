//! Fields of raw data.

use bitflags::bitflags;

bitflags! {
    /// What a field is.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct FieldFlags: u8 {
        /// It has elements.
        const ARRAY = 1 << 0;
        /// It holds where its content lies: the length above, the offset below.
        const DYNAMIC = 1 << 1;
        /// That offset counts from the field's own end.
        const RELATIVE = 1 << 2;
        /// Its elements are characters.
        const STRING = 1 << 3;
        /// Its type has `long` in it.
        const LONG = 1 << 4;
        /// It is a pointer.
        const POINTER = 1 << 5;
        /// It is a signed number.
        const SIGNED = 1 << 6;
    }
}

/// A field of raw data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Where it begins, in bytes.
    pub offset: usize,
    /// How long it is, in bytes; 0 for what reaches to the end of the data.
    pub len: usize,
    /// How long an element is, in bytes; 0 if that is not known.
    pub element_len: usize,
    /// What it is.
    pub flags: FieldFlags,
}

impl Field {
    /// Parses `field:TYPE NAME; offset:N; size:N; signed:N;`.
    pub(super) fn parse(line: &str, long_len: u8) -> Option<Self> {
        let mut parts = line.split(';').map(str::trim);
        let declaration = Declaration::parse(parts.next()?.strip_prefix("field:")?)?;
        let offset = parts.next()?.strip_prefix("offset:")?.parse().ok()?;
        let len: usize = parts.next()?.strip_prefix("size:")?.parse().ok()?;
        let is_signed = parts.next().and_then(|it| it.strip_prefix("signed:")) == Some("1");
        let Declaration { type_name, name, element, n_elements } = declaration;
        let mut flags = FieldFlags::empty();
        flags.set(FieldFlags::ARRAY, element.is_some());
        let is_text = ["char", "u8", "s8"].iter().any(|it| type_name.contains(it));
        flags.set(FieldFlags::STRING, element.is_some() && is_text);
        flags.set(FieldFlags::DYNAMIC, type_name.starts_with("__data_loc"));
        if type_name.starts_with("__rel_loc") {
            flags |= FieldFlags::DYNAMIC | FieldFlags::RELATIVE;
        }
        flags.set(FieldFlags::LONG, type_name.contains("long"));
        flags.set(FieldFlags::POINTER, type_name.contains('*'));
        flags.set(FieldFlags::SIGNED, is_signed);
        // Old kernels wrote an offset alone, to a string that ends with a zero.
        if flags.contains(FieldFlags::DYNAMIC) && len == 2 {
            flags |= FieldFlags::STRING | FieldFlags::ARRAY;
        }
        let element_len = match len.checked_div(n_elements) {
            _ if !flags.intersects(FieldFlags::ARRAY | FieldFlags::DYNAMIC) => len,
            Some(element_len) => element_len,
            None => match known_len(element.unwrap_or_default()) {
                0 if flags.contains(FieldFlags::DYNAMIC) => 0,
                0 if flags.contains(FieldFlags::STRING) => 1,
                0 if flags.contains(FieldFlags::LONG) => usize::from(long_len),
                len => len,
            },
        };
        Some(Self { name: name.to_owned(), offset, len, element_len, flags })
    }
}

/// `TYPE NAME`, `TYPE NAME[N]` or `TYPE ELEMENT[] NAME`.
struct Declaration<'a> {
    /// All but the name.
    type_name: &'a str,
    name: &'a str,
    /// The last word of the element's type, of an array.
    element: Option<&'a str>,
    n_elements: usize,
}

impl<'a> Declaration<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let text = text.trim();
        let last_word = |text: &'a str| {
            let start = text.rfind(|it: char| !it.is_alphanumeric() && it != '_');
            let start = start.and_then(|it| it.checked_add(1)).unwrap_or(0);
            text.split_at_checked(start).filter(|(_, word)| !word.is_empty())
        };
        let Some((before, behind)) = text.split_once('[') else {
            let (type_name, name) = last_word(text)?;
            return Some(Self { type_name, name, element: None, n_elements: 0 });
        };
        let (brackets, behind) = behind.rsplit_once(']')?;
        let n_elements = brackets.trim().parse().unwrap_or(0);
        let (type_name, word) = last_word(before.trim_end())?;
        let behind = behind.trim();
        if behind.is_empty() {
            let element = last_word(type_name.trim_end()).map_or("", |it| it.1);
            Some(Self { type_name, name: word, element: Some(element), n_elements })
        } else {
            Some(Self { type_name: before, name: behind, element: Some(word), n_elements })
        }
    }
}

/// The bytes of a type whose length its name says.
pub(super) fn known_len(type_name: &str) -> usize {
    match type_name.trim_start_matches("__") {
        "u8" | "s8" | "char" => 1,
        "u16" | "s16" => 2,
        "u32" | "s32" => 4,
        "u64" | "s64" => 8,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, name: &str, place: (usize, usize, usize), flags: FieldFlags) {
        let (offset, len, element_len) = place;
        let want = Field { name: name.to_owned(), offset, len, element_len, flags };
        assert_eq!(Field::parse(line, 8), Some(want));
    }

    #[test]
    fn a_field_is_told_by_its_declaration() {
        let none = FieldFlags::empty();
        check("field:u32 a;\toffset:8;\tsize:4;\tsigned:0;", "a", (8, 4, 4), none);
        let signed_long = FieldFlags::LONG | FieldFlags::SIGNED;
        check("field:long a;\toffset:8;\tsize:8;\tsigned:1;", "a", (8, 8, 8), signed_long);
        let pointer = FieldFlags::POINTER;
        check("field:const void * p;\toffset:8;\tsize:8;\tsigned:0;", "p", (8, 8, 8), pointer);
        check("field:void *p;\toffset:8;\tsize:8;", "p", (8, 8, 8), pointer);
    }

    #[test]
    fn arrays_stand_in_two_forms() {
        let string = FieldFlags::ARRAY | FieldFlags::STRING;
        check("field:char c[16];\toffset:8;\tsize:16;\tsigned:0;", "c", (8, 16, 1), string);
        let longs = FieldFlags::ARRAY | FieldFlags::LONG;
        check("field:unsigned long v[6];\toffset:8;\tsize:48;", "v", (8, 48, 8), longs);
        check("field:unsigned long v[];\toffset:8;\tsize:0;", "v", (8, 0, 8), longs);
        // As probes declare them.
        let array = FieldFlags::ARRAY;
        check("field:u32 v[];\toffset:8;\tsize:8;\tsigned:0;", "v", (8, 8, 4), array);
        let dynamic = string | FieldFlags::DYNAMIC;
        check("field:__data_loc char[] n;\toffset:8;\tsize:4;", "n", (8, 4, 1), dynamic);
        let relative = FieldFlags::ARRAY | FieldFlags::DYNAMIC | FieldFlags::RELATIVE;
        check("field:__rel_loc u32[] n;\toffset:8;\tsize:4;", "n", (8, 4, 4), relative);
    }

    #[test]
    fn what_has_no_place_is_no_field() {
        for line in ["field:int a", "field:int a; offset:x; size:4;", "field:;offset:0;size:0;"] {
            assert_eq!(Field::parse(line, 8), None, "{line}");
        }
    }
}
