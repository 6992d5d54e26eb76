//! Types by name.

use super::Btf;
use super::types::Type;

impl Btf {
    /// The id of the function called `name`.
    pub fn function(&self, name: &[u8]) -> Option<u32> {
        self.find(name, |it| matches!(it, Type::Function))
    }

    /// Where the member is that `path` leads to, in bytes from the start of the struct `type_id`:
    /// each name is a member of what the one before it names.
    pub fn offset(&self, mut type_id: u32, path: &[&[u8]]) -> Option<usize> {
        let mut offset = 0_usize;
        for name in path {
            let field = self.fields(type_id).find(|it| it.name == *name)?;
            offset = offset.checked_add(field.offset)?;
            type_id = field.type_id;
        }
        Some(offset)
    }

    fn find(&self, name: &[u8], is_it: impl Fn(&Type) -> bool) -> Option<u32> {
        let types = (1..).map_while(|id| Some((id, self.resolve(id)?)));
        let mut found = types.filter(|(id, it)| is_it(it) && self.name(*id) == Some(name));
        found.next().map(|it| it.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::BOTH;
    use super::super::testing::Builder;

    #[test]
    fn a_struct_is_found_by_name_and_its_members_by_path() {
        for order in BOTH {
            let mut btf = Builder::new(order);
            let int = btf.int("data", 4, 0, 32);
            let inner = btf.structure("", 8, &[("pid", int, 0), ("tid", int, 32)]);
            let id = btf.structure("data", 24, &[("flags", int, 0), ("tid_entry", inner, 64)]);
            let btf = btf.build();
            assert_eq!(btf.structure(b"data"), Some(id));
            assert_eq!(btf.structure(b"other"), None);
            assert_eq!(btf.function(b"data"), None);
            assert_eq!(btf.offset(id, &[b"tid_entry", b"tid"]), Some(12));
            assert_eq!(btf.offset(id, &[b"tid_entry"]), Some(8));
            assert_eq!(btf.offset(id, &[b"tid_entry", b"x"]), None);
            assert_eq!(btf.offset(id, &[b"flags", b"x"]), None);
        }
    }
}
