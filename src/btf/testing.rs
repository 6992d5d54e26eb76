//! BTF objects made by hand, for the tests of this stage.
#![allow(clippy::cast_possible_truncation, reason = "the objects of the tests are small")]

use super::types::Btf;
use super::types::ByteOrder;
use super::types::kind;

pub(super) const BOTH: [ByteOrder; 2] = [ByteOrder::Little, ByteOrder::Big];

pub(crate) struct Builder {
    order: ByteOrder,
    types: Vec<u8>,
    strings: Vec<u8>,
    n_types: u32,
}

impl Builder {
    pub(super) fn new(order: ByteOrder) -> Self {
        Self { order, types: Vec::new(), strings: vec![0], n_types: 0 }
    }

    pub(crate) fn little() -> Self {
        Self::new(ByteOrder::Little)
    }

    pub(crate) fn next_id(&self) -> u32 {
        self.n_types + 1
    }

    fn string(&mut self, text: &str) -> u32 {
        let at = self.strings.len() as u32;
        self.strings.extend_from_slice(text.as_bytes());
        self.strings.push(0);
        at
    }

    fn words(&mut self, words: &[u32]) {
        for word in words {
            let bytes = match self.order {
                ByteOrder::Little => word.to_le_bytes(),
                ByteOrder::Big => word.to_be_bytes(),
            };
            self.types.extend_from_slice(&bytes);
        }
    }

    pub(crate) fn add(&mut self, name: &str, info: u32, word: u32, rest: &[u32]) -> u32 {
        let name = self.string(name);
        self.words(&[name, info, word]);
        self.words(rest);
        self.n_types += 1;
        self.n_types
    }

    pub(crate) fn int(&mut self, name: &str, len: u32, encoding: u32, bits: u32) -> u32 {
        self.add(name, kind::INT << 24, len, &[encoding << 24 | bits])
    }

    pub(crate) fn float(&mut self, name: &str, len: u32) -> u32 {
        self.add(name, kind::FLOAT << 24, len, &[])
    }

    pub(crate) fn pointer(&mut self, to: u32) -> u32 {
        self.add("", kind::PTR << 24, to, &[])
    }

    pub(crate) fn alias(&mut self, name: &str, kind: u32, of: u32) -> u32 {
        self.add(name, kind << 24, of, &[])
    }

    pub(crate) fn array(&mut self, of: u32, count: u32) -> u32 {
        self.add("", kind::ARRAY << 24, 0, &[of, 1, count])
    }

    pub(crate) fn structure(&mut self, name: &str, len: u32, members: &[(&str, u32, u32)]) -> u32 {
        self.members(name, 0, len, members)
    }

    /// As `structure`, with the width of each member in the top byte of its offset.
    pub(crate) fn bit_fields(&mut self, name: &str, len: u32, members: &[(&str, u32, u32)]) -> u32 {
        self.members(name, 1, len, members)
    }

    fn members(&mut self, name: &str, flag: u32, len: u32, members: &[(&str, u32, u32)]) -> u32 {
        let rest: Vec<_> = members
            .iter()
            .flat_map(|&(name, id, offset)| [self.string(name), id, offset])
            .collect();
        let info = flag << 31 | kind::STRUCT << 24 | members.len() as u32;
        self.add(name, info, len, &rest)
    }

    pub(crate) fn enumeration(
        &mut self,
        name: &str,
        len: u32,
        flag: u32,
        entries: &[(&str, i32)],
    ) -> u32 {
        let rest: Vec<_> = entries
            .iter()
            .flat_map(|&(name, value)| [self.string(name), value.cast_unsigned()])
            .collect();
        self.add(name, flag << 31 | kind::ENUM << 24 | entries.len() as u32, len, &rest)
    }

    pub(crate) fn enumeration64(&mut self, name: &str, entries: &[(&str, u64)]) -> u32 {
        let rest: Vec<_> = entries
            .iter()
            .flat_map(|&(name, value)| [self.string(name), value as u32, (value >> 32) as u32])
            .collect();
        self.add(name, kind::ENUM64 << 24 | entries.len() as u32, 8, &rest)
    }

    pub(crate) fn raw(&self) -> Vec<u8> {
        let mut all = Self::new(self.order);
        let (types, strings) = (self.types.len() as u32, self.strings.len() as u32);
        all.words(&[0, 24, 0, types, types, strings]);
        let head: [u8; 4] = match self.order {
            ByteOrder::Little => [0x9f, 0xeb, 1, 0],
            ByteOrder::Big => [0xeb, 0x9f, 1, 0],
        };
        all.types[..4].copy_from_slice(&head);
        [all.types.as_slice(), &self.types, &self.strings].concat()
    }

    pub(crate) fn build(&self) -> Btf {
        Btf::parse(self.raw()).unwrap()
    }
}
