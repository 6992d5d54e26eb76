//! The members of structs, for whoever reads a value by itself.

use super::Btf;
use super::types::Type;

/// A member of a struct or union.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its type.
    pub type_id: u32,
    /// Where it begins, in bytes; of a bit field the byte that its first bit is in.
    pub offset: usize,
    /// Whether it is a pointer.
    pub is_pointer: bool,
}

impl Btf {
    /// The members of the struct or union `type_id`, in their order; none of another type.
    pub fn fields(&self, type_id: u32) -> impl Iterator<Item = Field<'_>> {
        let (count, members, has_bitfields) = match self.strip(type_id) {
            Some((
                _,
                Type::Struct { count, members, has_bitfields, .. }
                | Type::Union { count, members, has_bitfields, .. },
            )) => (count, members, has_bitfields),
            _ => (0, 0, false),
        };
        (0..count).map_while(move |idx| {
            let member = self.member(members, idx, has_bitfields)?;
            Some(Field {
                name: self.string(member.name)?,
                type_id: member.type_id,
                offset: usize::try_from(member.bit_offset / 8).ok()?,
                is_pointer: matches!(self.strip(member.type_id), Some((_, Type::Pointer))),
            })
        })
    }

    /// The name of the type `type_id` behind names and qualifiers; may be empty.
    pub fn type_name(&self, type_id: u32) -> Option<&[u8]> {
        self.name(self.strip(type_id)?.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::BOTH;
    use super::super::testing::Builder;

    #[test]
    fn members_have_names_places_and_types() {
        for order in BOTH {
            let mut btf = Builder::new(order);
            let int = btf.int("int", 4, 1, 32);
            let pointer = btf.pointer(int);
            let alias = btf.alias("callback", 8, pointer);
            let members = [("count", int, 0), ("call", alias, 64)];
            let id = btf.structure("ops", 16, &members);
            let qualified = btf.alias("", 10, id);
            let btf = btf.build();
            let found: Vec<_> =
                btf.fields(qualified).map(|it| (it.name, it.offset, it.is_pointer)).collect();
            assert_eq!(found, [(&b"count"[..], 0, false), (b"call", 8, true)]);
            assert_eq!(btf.type_name(qualified), Some(&b"ops"[..]));
            assert_eq!(btf.fields(int).count(), 0);
            assert_eq!(btf.fields(99).count(), 0);
        }
    }
}
