//! The type and string sections: where each type lies, and what it says.

use std::fmt;

use super::Error;
use super::Result;

/// `BTF_MAGIC`.
const MAGIC: u16 = 0xeb9f;

/// Length of `struct btf_header` as of its first version.
const HEADER_LEN: usize = 24;

/// Length of `struct btf_type` without what follows it.
const TYPE_LEN: usize = 12;

/// How many typedefs and qualifiers may stand before a type.
const MAX_CHAIN: usize = 32;

/// The longest name that is looked at, in bytes; the kernel allows functions 511 of them.
///
/// A bound, since in a damaged section every name could reach to its end.
const MAX_NAME_LEN: usize = 4096;

/// A BTF object, indexed.
///
/// It owns the raw bytes: they are what `perf.data` carries.
#[derive(Clone, PartialEq, Eq)]
pub struct Btf {
    data: Vec<u8>,
    order: ByteOrder,
    /// Where each type lies in `data`; the type with id 1 comes first.
    types: Vec<usize>,
    strings: std::ops::Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

/// A variable of a data section, such as `.rodata`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable<'a> {
    /// Its name, as the compiler wrote it.
    pub name: &'a [u8],
    /// The id of its type.
    pub type_id: u32,
    /// Where it begins, in bytes from the start of the section.
    pub offset: u32,
    /// How long it is, in bytes.
    pub len: u32,
}

/// What a type is; ids and offsets in it are not checked yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Void,
    Int {
        len: u32,
        encoding: Encoding,
        bit_offset: u32,
        bits: u32,
    },
    Pointer,
    Array {
        element: u32,
        count: u32,
    },
    /// `members` is where the first one lies.
    Struct {
        len: u32,
        count: u32,
        members: usize,
        has_bitfields: bool,
    },
    Union {
        len: u32,
        count: u32,
        members: usize,
        has_bitfields: bool,
    },
    Enum {
        len: u32,
        count: u32,
        values: usize,
        is_signed: bool,
    },
    Enum64 {
        len: u32,
        count: u32,
        values: usize,
        is_signed: bool,
    },
    Forward,
    /// A name or a qualifier for another type, or a variable of it.
    Alias {
        of: u32,
    },
    Function,
    FunctionProto,
    Section {
        count: u32,
        variables: usize,
    },
    Float {
        len: u32,
    },
}

/// How the bits of an integer are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Encoding(pub u32);

impl Encoding {
    pub(in crate::btf) const SIGNED: u32 = 1;
    pub(in crate::btf) const CHAR: u32 = 2;
    pub(in crate::btf) const BOOL: u32 = 4;

    pub(super) fn has(self, bit: u32) -> bool {
        self.0 & bit != 0
    }
}

/// A member of a struct or union.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) name: u32,
    pub(super) type_id: u32,
    pub(super) bit_offset: u32,
    /// The width of a bit field, 0 for an ordinary member.
    pub(super) bits: u32,
}

pub(super) mod kind {
    pub(in crate::btf) const INT: u32 = 1;
    pub(in crate::btf) const PTR: u32 = 2;
    pub(in crate::btf) const ARRAY: u32 = 3;
    pub(in crate::btf) const STRUCT: u32 = 4;
    pub(in crate::btf) const UNION: u32 = 5;
    pub(in crate::btf) const ENUM: u32 = 6;
    pub(in crate::btf) const FWD: u32 = 7;
    pub(in crate::btf) const TYPEDEF: u32 = 8;
    pub(in crate::btf) const VOLATILE: u32 = 9;
    pub(in crate::btf) const CONST: u32 = 10;
    pub(in crate::btf) const RESTRICT: u32 = 11;
    pub(in crate::btf) const FUNC: u32 = 12;
    pub(in crate::btf) const FUNC_PROTO: u32 = 13;
    pub(in crate::btf) const VAR: u32 = 14;
    pub(in crate::btf) const DATASEC: u32 = 15;
    pub(in crate::btf) const FLOAT: u32 = 16;
    pub(in crate::btf) const DECL_TAG: u32 = 17;
    pub(in crate::btf) const TYPE_TAG: u32 = 18;
    pub(in crate::btf) const ENUM64: u32 = 19;
}

/// A type as it lies there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RawType {
    pub(super) name: u32,
    pub(super) info: u32,
    /// The size, or another type's id, as the kind has it.
    pub(super) word: u32,
    pub(super) kind: u32,
    /// What follows, in words.
    pub(super) rest: Vec<u32>,
}

impl Btf {
    /// Indexes the raw form of a BTF object, in the byte order that its magic number shows.
    ///
    /// Types after the first of a kind that is unknown here cannot be found, since nothing says
    /// how long it is: they are absent.
    ///
    /// # Errors
    ///
    /// If this is not BTF, or its sections lie outside of `data`.
    pub fn parse(data: Vec<u8>) -> Result<Self> {
        let too_short = Error::TooShort { len: data.len() };
        let magic = data.first_chunk::<2>().ok_or(too_short.clone())?;
        let order = match (u16::from_le_bytes(*magic), u16::from_be_bytes(*magic)) {
            (MAGIC, _) => ByteOrder::Little,
            (_, MAGIC) => ByteOrder::Big,
            (magic, _) => return Err(Error::Magic { magic }),
        };
        let header = |at| read_u32(&data, order, at).ok_or(too_short.clone());
        let header_len = header(4)?;
        let section = |section, offset, section_len| {
            let at = u64::from(header_len) + u64::from(offset);
            let range = usize::try_from(at).ok().and_then(|start| {
                let end = start.checked_add(usize::try_from(section_len).ok()?)?;
                data.get(start..end).map(|_| start..end)
            });
            range.ok_or(Error::Section { section, at, section_len, len: data.len() })
        };
        let types = section("type", header(8)?, header(12)?)?;
        let strings = section("string", header(16)?, header(HEADER_LEN - 4)?)?;
        let types = index(&data, order, types);
        Ok(Self { data, order, types, strings })
    }

    /// The raw form.
    pub fn as_bytes(&self) -> &[u8] {
        &self.data
    }

    /// The name of the function whose type is `type_id`, or `None` if it is no function's.
    pub fn function_name(&self, type_id: u32) -> Option<&[u8]> {
        match self.resolve(type_id)? {
            Type::Function => self.name(type_id),
            _ => None,
        }
    }

    /// The variables of the data section whose type is `type_id`, in the order of the section.
    ///
    /// There are none if the type is something else.
    pub fn variables(&self, type_id: u32) -> impl Iterator<Item = Variable<'_>> {
        let (count, variables) = match self.resolve(type_id) {
            Some(Type::Section { count, variables }) => (count, variables),
            _ => (0, 0),
        };
        (0..count)
            .map_while(move |idx| {
                // struct btf_var_secinfo
                let at = element(variables, idx, 12)?;
                let variable = self.u32(at)?;
                Some(match self.resolve(variable) {
                    Some(Type::Alias { of }) => Some(Variable {
                        name: self.name(variable)?,
                        type_id: of,
                        offset: self.u32(at + 4)?,
                        len: self.u32(at + 8)?,
                    }),
                    _ => None,
                })
            })
            .flatten()
    }

    /// The ids of all types.
    pub(super) fn ids(&self) -> impl Iterator<Item = u32> + use<> {
        1..=u32::try_from(self.types.len()).unwrap_or(u32::MAX)
    }

    /// The type that the pointer `type_id` points to.
    pub(super) fn target(&self, type_id: u32) -> Option<u32> {
        let idx = usize::try_from(type_id.checked_sub(1)?).ok()?;
        self.u32(*self.types.get(idx)? + 8)
    }

    /// `BTF_KIND_*` of the type `type_id`.
    pub(super) fn kind(&self, type_id: u32) -> Option<u32> {
        let idx = usize::try_from(type_id.checked_sub(1)?).ok()?;
        Some(parts(self.u32(*self.types.get(idx)? + 4)?).0)
    }

    /// What the type `type_id` says of itself.
    pub(super) fn resolve(&self, type_id: u32) -> Option<Type> {
        let Some(idx) = type_id.checked_sub(1) else { return Some(Type::Void) };
        let at = *self.types.get(usize::try_from(idx).ok()?)?;
        let info = self.u32(at + 4)?;
        let (kind, count, flag) = parts(info);
        // `size` or `type`, as the kind has it.
        let word = self.u32(at + 8)?;
        let rest = at + TYPE_LEN;
        Some(match kind {
            kind::INT => {
                let int = self.u32(rest)?;
                Type::Int {
                    len: word,
                    encoding: Encoding(int >> 24 & 0xf),
                    bit_offset: int >> 16 & 0xff,
                    bits: int & 0xff,
                }
            }
            kind::PTR => Type::Pointer,
            kind::ARRAY => Type::Array { element: self.u32(rest)?, count: self.u32(rest + 8)? },
            kind::STRUCT => Type::Struct { len: word, count, members: rest, has_bitfields: flag },
            kind::UNION => Type::Union { len: word, count, members: rest, has_bitfields: flag },
            kind::ENUM => Type::Enum { len: word, count, values: rest, is_signed: flag },
            kind::ENUM64 => Type::Enum64 { len: word, count, values: rest, is_signed: flag },
            kind::TYPEDEF
            | kind::VOLATILE
            | kind::CONST
            | kind::RESTRICT
            | kind::TYPE_TAG
            | kind::DECL_TAG
            | kind::VAR => Type::Alias { of: word },
            kind::FUNC => Type::Function,
            kind::FUNC_PROTO => Type::FunctionProto,
            kind::DATASEC => Type::Section { count, variables: rest },
            kind::FLOAT => Type::Float { len: word },
            _ => Type::Forward,
        })
    }

    /// The type behind all names and qualifiers, and its id.
    pub(super) fn strip(&self, mut type_id: u32) -> Option<(u32, Type)> {
        for _ in 0..MAX_CHAIN {
            match self.resolve(type_id)? {
                Type::Alias { of } => type_id = of,
                found => return Some((type_id, found)),
            }
        }
        None
    }

    /// The name of the type `type_id`, which may be empty.
    pub(super) fn name(&self, type_id: u32) -> Option<&[u8]> {
        let idx = usize::try_from(type_id.checked_sub(1)?).ok()?;
        self.string(self.u32(*self.types.get(idx)?)?)
    }

    /// The string at `offset` of the string section, without its NUL; `None` if it has no end or is
    /// longer than 4096 bytes.
    pub fn string(&self, offset: u32) -> Option<&[u8]> {
        let strings = self.data.get(self.strings.clone())?;
        let tail = strings.get(usize::try_from(offset).ok()?..)?;
        let tail = tail.get(..=MAX_NAME_LEN).unwrap_or(tail);
        tail.get(..tail.iter().position(|&byte| byte == 0)?)
    }

    /// The member `idx` of the struct or union whose members lie at `members`.
    pub(super) fn member(&self, members: usize, idx: u32, has_bitfields: bool) -> Option<Member> {
        let at = element(members, idx, 12)?;
        let offset = self.u32(at + 8)?;
        let (bit_offset, bits) =
            if has_bitfields { (offset & 0x00ff_ffff, offset >> 24) } else { (offset, 0) };
        Some(Member { name: self.u32(at)?, type_id: self.u32(at + 4)?, bit_offset, bits })
    }

    /// Name and value of the entry `idx` of an enum of at most 32 bits.
    pub(super) fn enum_entry(&self, values: usize, idx: u32) -> Option<(u32, u64)> {
        let at = element(values, idx, 8)?;
        Some((self.u32(at)?, u64::from(self.u32(at + 4)?)))
    }

    /// Name and value of the entry `idx` of an enum of 64 bits.
    pub(super) fn enum64_entry(&self, values: usize, idx: u32) -> Option<(u32, u64)> {
        let at = element(values, idx, 12)?;
        let value = u64::from(self.u32(at + 4)?) | u64::from(self.u32(at + 8)?) << 32;
        Some((self.u32(at)?, value))
    }

    /// The type `type_id` as it lies there.
    pub(super) fn raw(&self, type_id: u32) -> Option<RawType> {
        let idx = usize::try_from(type_id.checked_sub(1)?).ok()?;
        let at = *self.types.get(idx)?;
        let (name, info, word) = (self.u32(at)?, self.u32(at + 4)?, self.u32(at + 8)?);
        let n_words = (type_len(info)? - TYPE_LEN) / 4;
        let rest = (0..n_words).map(|n| self.u32(at + TYPE_LEN + 4 * n)).collect::<Option<_>>()?;
        Some(RawType { name, info, word, kind: parts(info).0, rest })
    }

    pub(super) fn order(&self) -> ByteOrder {
        self.order
    }

    fn u32(&self, at: usize) -> Option<u32> {
        read_u32(&self.data, self.order, at)
    }
}

impl fmt::Debug for Btf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Btf")
            .field("len", &self.data.len())
            .field("order", &self.order)
            .field("types", &self.types.len())
            .finish_non_exhaustive()
    }
}

/// Where each type in `section` begins, up to the first that is cut or of an unknown kind.
fn index(data: &[u8], order: ByteOrder, section: std::ops::Range<usize>) -> Vec<usize> {
    let mut types = Vec::new();
    let mut at = section.start;
    while let Some(len) =
        read_u32(data, order, at + 4).and_then(type_len).filter(|&len| len <= section.end - at)
    {
        types.push(at);
        at += len;
        if at + TYPE_LEN > section.end {
            break;
        }
    }
    types
}

/// Kind, number of elements and flag in `btf_type.info`.
fn parts(info: u32) -> (u32, u32, bool) {
    (info >> 24 & 0x1f, info & 0xffff, info >> 31 != 0)
}

/// The length of a type with this `info`, in bytes, or `None` for an unknown kind.
fn type_len(info: u32) -> Option<usize> {
    let (kind, count, _) = parts(info);
    let count = usize::try_from(count).ok()?;
    let rest = match kind {
        kind::INT | kind::VAR | kind::DECL_TAG => 4,
        kind::ARRAY => 12,
        kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => count * 12,
        kind::ENUM | kind::FUNC_PROTO => count * 8,
        kind::PTR
        | kind::FWD
        | kind::TYPEDEF
        | kind::VOLATILE
        | kind::CONST
        | kind::RESTRICT
        | kind::FUNC
        | kind::FLOAT
        | kind::TYPE_TAG => 0,
        _ => return None,
    };
    Some(TYPE_LEN + rest)
}

/// Where the element `idx` lies in an array at `start`.
fn element(start: usize, idx: u32, len: usize) -> Option<usize> {
    usize::try_from(idx).ok()?.checked_mul(len)?.checked_add(start)
}

fn read_u32(data: &[u8], order: ByteOrder, at: usize) -> Option<u32> {
    let bytes = *data.get(at..)?.first_chunk::<4>()?;
    Some(match order {
        ByteOrder::Little => u32::from_le_bytes(bytes),
        ByteOrder::Big => u32::from_be_bytes(bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::BOTH;
    use super::super::testing::Builder;
    use super::*;

    #[test]
    fn a_function_is_named_in_both_byte_orders() {
        for order in BOTH {
            let mut btf = Builder::new(order);
            let void = btf.add("", kind::FUNC_PROTO << 24 | 1, 0, &[0, 1]);
            let function = btf.add("handle_this", kind::FUNC << 24, void, &[]);
            let btf = btf.build();
            assert_eq!(btf.function_name(function), Some(&b"handle_this"[..]));
            assert_eq!(btf.function_name(void), None);
            assert_eq!(btf.function_name(0), None);
            assert_eq!(btf.function_name(3), None);
        }
    }

    #[test]
    fn a_section_lists_its_variables() {
        let mut btf = Builder::new(ByteOrder::Little);
        let int = btf.int("int", 4, 1, 32);
        let first = btf.add("first", kind::VAR << 24, int, &[1]);
        let second = btf.add("second", kind::VAR << 24, int, &[1]);
        // The entry in the middle is no variable.
        let rest = [first, 0, 4, 99, 0, 4, second, 8, 4];
        let section = btf.add(".rodata", kind::DATASEC << 24 | 3, 12, &rest);
        let btf = btf.build();
        let found: Vec<_> =
            btf.variables(section).map(|it| (it.name, it.type_id, it.offset, it.len)).collect();
        assert_eq!(found, [(&b"first"[..], int, 0, 4), (b"second", int, 8, 4)]);
        assert_eq!(btf.variables(int).count(), 0);
    }

    #[test]
    fn types_after_an_unknown_kind_are_absent() {
        let mut btf = Builder::new(ByteOrder::Little);
        let known = btf.add("known", kind::FUNC << 24, 0, &[]);
        btf.add("odd", 31 << 24, 0, &[]);
        let lost = btf.add("lost", kind::FUNC << 24, 0, &[]);
        let btf = btf.build();
        assert_eq!(btf.function_name(known), Some(&b"known"[..]));
        assert_eq!(btf.function_name(lost), None);
    }

    #[test]
    fn a_name_has_an_end_and_a_bound() {
        let name = |len: usize| {
            let mut btf = Builder::little();
            let id = btf.add(&"x".repeat(len), kind::FUNC << 24, 0, &[]);
            (btf.raw(), id)
        };
        let len_of = |raw: Vec<u8>, id| Btf::parse(raw).unwrap().function_name(id).map(<[u8]>::len);
        for (len, want) in [(4096, Some(4096)), (4097, None)] {
            let (raw, id) = name(len);
            assert_eq!(len_of(raw, id), want);
        }
        let (mut endless, id) = name(3);
        *endless.last_mut().unwrap() = b'x';
        assert_eq!(len_of(endless, id), None);
    }

    #[test]
    fn what_is_no_btf_says_why() {
        assert_eq!(Btf::parse(vec![0x9f]), Err(Error::TooShort { len: 1 }));
        assert_eq!(Btf::parse(vec![0x9f, 0xeb, 1, 0]), Err(Error::TooShort { len: 4 }));
        assert_eq!(Btf::parse(b"\x7fELF".to_vec()), Err(Error::Magic { magic: 0x457f }));
        let mut far = Builder::new(ByteOrder::Little).raw();
        far[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        let at = u64::from(u32::MAX) + 24;
        let error = Error::Section { section: "type", at, section_len: 0, len: 25 };
        assert_eq!(Btf::parse(far), Err(error));
    }

    #[test]
    fn a_blob_cut_or_changed_anywhere_never_panics() {
        let mut btf = Builder::new(ByteOrder::Little);
        let int = btf.int("int", 4, 1, 32);
        let array = btf.array(int, 2);
        btf.structure("s", 8, &[("a", array, 0)]);
        btf.enumeration("e", 4, 0, &[("A", 1)]);
        let variable = btf.add("bpf_metadata_a", kind::VAR << 24, array, &[1]);
        let section = btf.add(".rodata", kind::DATASEC << 24 | 1, 8, &[variable, 0, 8]);
        let raw = btf.raw();
        let read = |raw: Vec<u8>| {
            let Ok(btf) = Btf::parse(raw) else { return };
            for id in 0..10 {
                btf.function_name(id);
                btf.print(id, &[0; 16], 64);
            }
            btf.variables(section).for_each(drop);
        };
        for len in 0..raw.len() {
            read(raw[..len].to_vec());
        }
        for at in 0..raw.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut raw = raw.clone();
                raw[at] = value;
                read(raw);
            }
        }
    }
}
