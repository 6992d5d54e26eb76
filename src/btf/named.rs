//! The types that a source text can use, told by the words that stand in it.

use std::collections::HashSet;

use super::Btf;
use super::types::Type;
use super::types::kind;

impl Btf {
    /// The ids of the types that a source text made of `words` needs whole, ascending.
    ///
    /// Those are the types that it names, the enumerations of which it names an entry, and what it
    /// can reach from there: what a type holds by value, and what a member points to whose name is
    /// among the words. What is left out is never more than pointed to.
    pub fn named(&self, words: &HashSet<&[u8]>) -> Vec<u32> {
        let is_word = |name: Option<&[u8]>| name.is_some_and(|it| words.contains(it));
        let mut reach = Reach { btf: self, seen: HashSet::new(), open: Vec::new() };
        for id in self.ids() {
            let is_wanted = match self.kind(id) {
                Some(kind::INT | kind::FLOAT | kind::STRUCT | kind::UNION | kind::TYPEDEF) => {
                    is_word(self.name(id))
                }
                Some(kind::ENUM | kind::ENUM64) => {
                    is_word(self.name(id)) || self.entries(id).any(|it| is_word(self.string(it)))
                }
                _ => false,
            };
            if is_wanted {
                reach.value(id);
                // A name that stands for a pointer is used to follow it.
                reach.pointed(id);
            }
        }
        while let Some(id) = reach.open.pop() {
            for (name, type_id) in self.members(id) {
                reach.value(type_id);
                if is_word(self.string(name)) {
                    reach.pointed(type_id);
                }
            }
        }
        let mut ids: Vec<u32> = reach.seen.into_iter().collect();
        ids.sort_unstable();
        ids
    }

    /// The offsets of the names of an enumeration's entries.
    fn entries(&self, id: u32) -> impl Iterator<Item = u32> {
        let resolved = self.resolve(id);
        let count = match resolved {
            Some(Type::Enum { count, .. } | Type::Enum64 { count, .. }) => count,
            _ => 0,
        };
        (0..count).map_while(move |idx| match resolved {
            Some(Type::Enum { values, .. }) => self.enum_entry(values, idx).map(|it| it.0),
            Some(Type::Enum64 { values, .. }) => self.enum64_entry(values, idx).map(|it| it.0),
            _ => None,
        })
    }

    /// The offset of the name, and the type, of each member of a struct or union.
    fn members(&self, id: u32) -> impl Iterator<Item = (u32, u32)> {
        let (count, members, has_bitfields) = match self.resolve(id) {
            Some(
                Type::Struct { count, members, has_bitfields, .. }
                | Type::Union { count, members, has_bitfields, .. },
            ) => (count, members, has_bitfields),
            _ => (0, 0, false),
        };
        (0..count).map_while(move |idx| {
            let member = self.member(members, idx, has_bitfields)?;
            Some((member.name, member.type_id))
        })
    }
}

/// What was reached.
struct Reach<'a> {
    btf: &'a Btf,
    seen: HashSet<u32>,
    /// Structs and unions whose members were not looked at.
    open: Vec<u32>,
}

/// How many arrays, pointers, names and qualifiers are followed from one member.
const MAX_CHAIN: usize = 64;

impl Reach<'_> {
    /// Something of the type `id` is there.
    fn value(&mut self, id: u32) {
        self.follow(id, false);
    }

    /// Something of the type `id` is there, and is followed if it is a pointer.
    fn pointed(&mut self, id: u32) {
        self.follow(id, true);
    }

    fn follow(&mut self, mut id: u32, is_through_pointers: bool) {
        for _ in 0..MAX_CHAIN {
            id = match self.btf.resolve(id) {
                Some(Type::Alias { of }) => {
                    if self.btf.kind(id) == Some(kind::TYPEDEF) {
                        self.seen.insert(id);
                    }
                    of
                }
                Some(Type::Array { element, .. }) => element,
                Some(Type::Pointer) if is_through_pointers => match self.btf.target(id) {
                    Some(target) => target,
                    None => return,
                },
                Some(Type::Struct { .. } | Type::Union { .. }) => {
                    if self.seen.insert(id) {
                        self.open.push(id);
                    }
                    return;
                }
                Some(
                    Type::Int { .. } | Type::Float { .. } | Type::Enum { .. } | Type::Enum64 { .. },
                ) => {
                    self.seen.insert(id);
                    return;
                }
                _ => return,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::BOTH;
    use super::super::testing::Builder;
    use super::super::types::kind;

    /// The names of what is needed of a small kernel.
    #[track_caller]
    fn check(text: &str, want: &[&str]) {
        for order in BOTH {
            let mut btf = Builder::new(order);
            let int = btf.int("int", 4, 1, 32);
            let word = btf.alias("u32", kind::TYPEDEF, int);
            let page = btf.structure("page", 4, &[("flags", word, 0)]);
            let to_page = btf.pointer(page);
            let qualified = btf.alias("", kind::CONST, to_page);
            let list = btf.next_id();
            // It points to itself.
            let to_list = btf.pointer(list + 1);
            btf.structure("list", 8, &[("next", to_list, 0)]);
            let lists = btf.array(list + 1, 2);
            let unnamed = btf.structure("", 8, &[("pgd", qualified, 0)]);
            let mm = btf.structure("mm", 24, &[("", unnamed, 0), ("lists", lists, 64)]);
            let to_mm = btf.pointer(mm);
            btf.structure("task", 16, &[("pid", int, 0), ("mm", to_mm, 64)]);
            btf.enumeration("", 4, 0, &[("LOW", 0), ("HIGH", 1)]);
            btf.enumeration64("wide", &[("FAR", 1 << 40)]);
            btf.alias("page_t", kind::TYPEDEF, to_page);
            btf.alias("task", kind::FUNC, 1);
            let btf = btf.build();
            let words = text.split_ascii_whitespace().map(str::as_bytes).collect();
            let names: Vec<_> =
                btf.named(&words).iter().map(|&it| btf.name(it).unwrap().to_owned()).collect();
            assert_eq!(names, want.iter().map(|it| it.as_bytes()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_type_that_is_named_brings_what_it_holds() {
        check("list", &["list"]);
        check("mm", &["list", "", "mm"]);
        check("task", &["int", "task"]);
        check("u32", &["int", "u32"]);
        check("nothing here", &[]);
    }

    #[test]
    fn a_member_that_is_named_brings_what_it_points_to() {
        check("task mm", &["int", "list", "", "mm", "task"]);
        check("task mm pgd", &["int", "u32", "page", "list", "", "mm", "task"]);
        check("task pgd", &["int", "task"]);
        check("page_t", &["int", "u32", "page", "page_t"]);
    }

    #[test]
    fn an_entry_brings_its_enumeration() {
        check("HIGH", &[""]);
        check("FAR", &["wide"]);
    }
}
