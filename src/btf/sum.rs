//! Values of one type added up, member by member.

use super::Btf;
use super::types::ByteOrder;
use super::types::Encoding;
use super::types::Type;

/// How deep structs and arrays may nest.
const MAX_DEPTH: u32 = 16;

/// The most numbers that a value has.
const MOST_NUMBERS: usize = 4096;

impl Btf {
    /// The sum of `values` of the type `type_id`, each number in it added by itself, as far as its
    /// width goes; `None` if something in it is no number.
    pub fn sum(&self, type_id: u32, values: &[Vec<u8>]) -> Option<Vec<u8>> {
        let mut numbers = Vec::new();
        self.numbers(type_id, 0, MAX_DEPTH, &mut numbers)?;
        let mut sum = vec![0; self.len_of(type_id)?];
        for (at, len) in numbers {
            let mut total = 0_u64;
            for value in values {
                total = total.wrapping_add(self.number_at(value.get(at..at.checked_add(len)?)?));
            }
            let place = sum.get_mut(at..at.checked_add(len)?)?;
            match self.order() {
                ByteOrder::Little => place.copy_from_slice(total.to_le_bytes().get(..len)?),
                ByteOrder::Big => place.copy_from_slice(total.to_be_bytes().get(8 - len..)?),
            }
        }
        Some(sum)
    }

    /// The number that `bytes`, eight of them at the most, are.
    fn number_at(&self, bytes: &[u8]) -> u64 {
        let add = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        match self.order() {
            ByteOrder::Little => bytes.iter().rev().fold(0, add),
            ByteOrder::Big => bytes.iter().fold(0, add),
        }
    }

    /// Appends place and length of each number in a value of `type_id` that lies at `at`.
    fn numbers(
        &self,
        type_id: u32,
        at: usize,
        depth: u32,
        numbers: &mut Vec<(usize, usize)>,
    ) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        if MOST_NUMBERS <= numbers.len() {
            return None;
        }
        let (_, found) = self.strip(type_id)?;
        match found {
            Type::Int { len, encoding, .. } => {
                let is_number = !encoding.has(Encoding::BOOL);
                let len = usize::try_from(len).ok().filter(|len| is_number && *len <= 8)?;
                numbers.push((at, len));
            }
            Type::Struct { count, members, has_bitfields, .. } => {
                for idx in 0..count {
                    let member = self.member(members, idx, has_bitfields)?;
                    if member.bits != 0 {
                        return None;
                    }
                    let offset = usize::try_from(member.bit_offset / 8).ok()?;
                    self.numbers(member.type_id, at.checked_add(offset)?, depth, numbers)?;
                }
            }
            Type::Array { element, count } => {
                // An array of characters is a text.
                let is_text =
                    self.strip(element).is_some_and(|it| self.name(it.0) == Some(b"char"));
                // Nothing to add, however often it is there.
                let len = self.len_of(element).filter(|len| !is_text && *len != 0)?;
                for idx in 0..usize::try_from(count).ok()? {
                    let offset = idx.checked_mul(len)?;
                    self.numbers(element, at.checked_add(offset)?, depth, numbers)?;
                }
            }
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::BOTH;
    use super::super::testing::Builder;
    use super::*;

    #[test]
    fn numbers_are_added_each_by_itself_and_within_its_width() {
        for order in BOTH {
            let mut btf = Builder::new(order);
            let byte = btf.int("unsigned char", 1, 0, 8);
            let long = btf.int("unsigned long long", 8, 0, 64);
            let bytes = btf.array(byte, 2);
            let id = btf.structure("counts", 16, &[("n", long, 0), ("bytes", bytes, 64)]);
            let nothing = btf.structure("nothing", 0, &[]);
            let nothings = btf.array(nothing, u32::MAX);
            let btf = btf.build();
            let value = |n: u64, bytes: [u8; 2]| {
                let n = if order == ByteOrder::Little { n.to_le_bytes() } else { n.to_be_bytes() };
                [&n[..], &bytes, &[0; 6]].concat()
            };
            let values = [value(u64::from(u32::MAX), [250, 1]), value(1, [7, 2])];
            assert_eq!(btf.sum(id, &values), Some(value(1 << 32, [1, 3])), "{order:?}");
            assert_eq!(btf.sum(id, &[vec![0; 9]]), None);
            assert_eq!(btf.sum(nothings, &[Vec::new()]), None);
        }
    }

    #[test]
    fn what_is_no_number_has_no_sum() {
        let mut btf = Builder::new(ByteOrder::Little);
        let char = btf.int("char", 1, 1, 8);
        let int = btf.int("int", 4, 1, 32);
        let text = btf.array(char, 4);
        let named = btf.structure("named", 8, &[("n", int, 0), ("name", text, 32)]);
        let pointer = btf.pointer(int);
        let own = btf.next_id();
        btf.structure("s", 4, &[("s", own, 0)]);
        let btf = btf.build();
        for id in [named, text, pointer, own] {
            assert_eq!(btf.sum(id, &[vec![0; 8]]), None);
        }
    }
}
