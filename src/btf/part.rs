//! The part of a BTF object that some values need to be printed by.

use std::collections::BTreeMap;

use super::Btf;
use super::types::ByteOrder;
use super::types::kind;

/// The most types of a part; what is beyond is unknown there.
const MOST_TYPES: usize = 4096;

impl Btf {
    /// The types `roots` and all that their values consist of, as a BTF object of its own; what
    /// pointers point to is left out. Returns it with the id that each root has there, 0 if it is none.
    pub fn part(&self, roots: &[u32]) -> (Vec<u8>, Vec<u32>) {
        let mut part = Part { btf: self, ids: BTreeMap::new(), order: Vec::new() };
        let ids = roots.iter().map(|root| part.id(*root)).collect();
        let (mut types, mut strings) = (Vec::new(), vec![0]);
        let mut at = 0;
        while let Some(&type_id) = part.order.get(at) {
            part.copy(type_id, &mut types, &mut strings);
            at += 1;
        }
        (self.assemble(&types, &strings), ids)
    }

    /// A BTF object of these sections.
    ///
    /// Source: `struct btf_header` in `include/uapi/linux/btf.h`.
    fn assemble(&self, types: &[u8], strings: &[u8]) -> Vec<u8> {
        const HEADER_LEN: u32 = 24;
        let len = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let mut out = match self.order() {
            ByteOrder::Little => vec![0x9f, 0xeb, 1, 0],
            ByteOrder::Big => vec![0xeb, 0x9f, 1, 0],
        };
        for word in [HEADER_LEN, 0, len(types), len(types), len(strings)] {
            out.extend(self.bytes(word));
        }
        [out.as_slice(), types, strings].concat()
    }

    fn bytes(&self, word: u32) -> [u8; 4] {
        match self.order() {
            ByteOrder::Little => word.to_le_bytes(),
            ByteOrder::Big => word.to_be_bytes(),
        }
    }
}

struct Part<'a> {
    btf: &'a Btf,
    /// New ids by old ones.
    ids: BTreeMap<u32, u32>,
    /// Old ids in the order of the new ones.
    order: Vec<u32>,
}

impl Part<'_> {
    /// The id that the type `old` has in the part, for which it is put in line.
    fn id(&mut self, old: u32) -> u32 {
        let is_value = |kind| {
            !matches!(
                kind,
                kind::FUNC | kind::FUNC_PROTO | kind::VAR | kind::DATASEC | kind::DECL_TAG
            )
        };
        if let Some(id) = self.ids.get(&old) {
            return *id;
        }
        if MOST_TYPES <= self.order.len() || !self.btf.raw(old).is_some_and(|it| is_value(it.kind))
        {
            return 0;
        }
        self.order.push(old);
        let id = u32::try_from(self.order.len()).unwrap_or(0);
        self.ids.insert(old, id);
        id
    }

    /// Appends the type `old`, and its names.
    fn copy(&mut self, old: u32, types: &mut Vec<u8>, strings: &mut Vec<u8>) {
        let Some(raw) = self.btf.raw(old) else { return };
        let btf = self.btf;
        let mut name = |offset: u32| {
            let text = btf.string(offset).unwrap_or_default();
            if text.is_empty() {
                return 0;
            }
            let at = u32::try_from(strings.len()).unwrap_or(0);
            strings.extend_from_slice(text);
            strings.push(0);
            at
        };
        let mut words = vec![name(raw.name), raw.info];
        words.push(match raw.kind {
            // Values are printed without it.
            kind::PTR => 0,
            kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG => {
                self.id(raw.word)
            }
            _ => raw.word,
        });
        match raw.kind {
            kind::ARRAY => {
                if let [element, index, count] = raw.rest[..] {
                    words.extend([self.id(element), self.id(index), count]);
                }
            }
            kind::STRUCT | kind::UNION => {
                for member in raw.rest.chunks_exact(3) {
                    words.extend([name(member[0]), self.id(member[1]), member[2]]);
                }
            }
            kind::ENUM => {
                for entry in raw.rest.chunks_exact(2) {
                    words.extend([name(entry[0]), entry[1]]);
                }
            }
            kind::ENUM64 => {
                for entry in raw.rest.chunks_exact(3) {
                    words.extend([name(entry[0]), entry[1], entry[2]]);
                }
            }
            _ => words.extend(&raw.rest),
        }
        types.extend(words.into_iter().flat_map(|it| self.btf.bytes(it)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::BOTH;
    use super::super::testing::Builder;
    use super::*;

    /// A builder with a struct that holds one of each, and the struct's id.
    fn builder(order: ByteOrder) -> (Builder, u32) {
        let mut btf = Builder::new(order);
        btf.structure("unused", 4, &[]);
        let int = btf.int("int", 4, 1, 32);
        let char = btf.int("char", 1, 1, 8);
        let huge = btf.structure("huge", 4, &[("x", int, 0)]);
        let pointer = btf.pointer(huge);
        let name = btf.array(char, 4);
        let color = btf.enumeration("color", 4, 0, &[("RED", 1)]);
        let alias = btf.alias("color_t", kind::TYPEDEF, color);
        let members =
            [("n", int, 0), ("to", pointer, 64), ("name", name, 128), ("color", alias, 160)];
        let id = btf.structure("event", 24, &members);
        (btf, id)
    }

    #[test]
    fn a_part_prints_as_the_whole_does() {
        for order in BOTH {
            let (builder, id) = builder(order);
            let whole = builder.build();
            let (raw, ids) = whole.part(&[id, 999]);
            assert!(raw.len() < whole.as_bytes().len());
            assert_eq!(ids[1], 0);
            let part = Btf::parse(raw).unwrap();
            let mut data = [0; 24];
            data[16..18].copy_from_slice(b"ab");
            data[20..].copy_from_slice(&whole.bytes(1));
            let text = r#"{"n":0,"to":"0x0","name":"ab","color":"RED"}"#;
            assert_eq!(whole.print(id, &data, 99).as_deref(), Some(text));
            assert_eq!(part.print(ids[0], &data, 99).as_deref(), Some(text));
            assert_eq!(part.type_name(ids[0]), Some(&b"event"[..]));
        }
    }

    #[test]
    fn what_is_no_value_is_not_in_it() {
        let (mut builder, _) = builder(ByteOrder::Little);
        let function = builder.add("f", kind::FUNC << 24, 0, &[]);
        let (raw, ids) = builder.build().part(&[function]);
        assert_eq!((ids, Btf::parse(raw).unwrap().ids().count()), (vec![0], 0));
    }

    #[test]
    fn types_that_contain_themselves_are_in_it_once() {
        let mut builder = Builder::new(ByteOrder::Little);
        let own = builder.next_id();
        builder.structure("s", 4, &[("s", own, 0)]);
        let (raw, ids) = builder.build().part(&[own, own]);
        assert_eq!((ids, Btf::parse(raw).unwrap().ids().count()), (vec![1, 1], 1));
    }
}
