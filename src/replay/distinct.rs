//! Distinct things, each kept once and numbered in order of appearance.

use std::hash::BuildHasher;
use std::hash::Hash;

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

use super::Frame;

/// Numbers of things, found by what the things are.
///
/// An entry is 8 bytes, so that more of them are at hand, and holds enough of the hash for the table to
/// grow without a look at the things.
#[derive(Default)]
pub(super) struct Numbers(HashTable<(u32, u32)>);

impl Numbers {
    /// The number of what has this hash and `is_same`.
    #[inline]
    pub(super) fn find(&self, hash: u64, is_same: impl Fn(u32) -> bool) -> Option<u32> {
        let kept = Self::kept(hash);
        let is_it = |it: &(u32, u32)| it.0 == kept && is_same(it.1);
        self.0.find(Self::spread(kept), is_it).map(|it| it.1)
    }

    /// Takes in what is not there yet.
    #[inline]
    pub(super) fn insert(&mut self, hash: u64, number: u32) {
        let kept = Self::kept(hash);
        self.0.insert_unique(Self::spread(kept), (kept, number), |it| Self::spread(it.0));
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    fn kept(hash: u64) -> u32 {
        u32::try_from((hash ^ hash << 32) >> 32).unwrap_or_default()
    }

    fn spread(kept: u32) -> u64 {
        u64::from(kept).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// Distinct lists.
#[derive(Default)]
pub(super) struct Lists<T> {
    items: Vec<T>,
    starts: Vec<usize>,
    numbers: Numbers,
}

impl<T: Copy + Eq + Hash> Lists<T> {
    pub(super) fn get(&self, id: u32) -> &[T] {
        let id = id as usize;
        let end = self.starts.get(id + 1).copied().unwrap_or(self.items.len());
        &self.items[self.starts[id]..end]
    }

    /// The number of `list`, and whether it is new.
    pub(super) fn intern(&mut self, list: &[T]) -> (u32, bool) {
        let hash = FxBuildHasher.hash_one(list);
        if let Some(id) = self.numbers.find(hash, |it| self.get(it) == list) {
            return (id, false);
        }
        let id = narrow(self.starts.len());
        self.starts.push(self.items.len());
        self.items.extend_from_slice(list);
        self.numbers.insert(hash, id);
        (id, true)
    }

    /// How many lists there are.
    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// How many items they have, together.
    pub(super) fn n_items(&self) -> usize {
        self.items.len()
    }

    /// Forgets all of them, so that numbers begin anew.
    pub(super) fn clear(&mut self) {
        self.items.clear();
        self.starts.clear();
        self.numbers.clear();
    }
}

/// Distinct frames.
#[derive(Default)]
pub(super) struct Frames {
    list: Vec<Frame>,
    numbers: Numbers,
}

impl Frames {
    pub(super) fn id(&mut self, frame: Frame) -> u32 {
        let hash = FxBuildHasher.hash_one(frame);
        let Self { list, numbers } = self;
        if let Some(id) = numbers.find(hash, |it| list[it as usize] == frame) {
            return id;
        }
        let id = narrow(list.len());
        list.push(frame);
        numbers.insert(hash, id);
        id
    }

    pub(super) fn list(&self) -> &[Frame] {
        &self.list
    }
}

/// Frames, stacks and names are fewer than samples, of which a file of 64 GiB holds 2^32.
pub(super) fn narrow(idx: usize) -> u32 {
    u32::try_from(idx).expect("fewer than 2^32 distinct frames and stacks")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_numbered_as_they_appear() {
        let mut lists = Lists::default();
        assert_eq!(lists.intern(&[1, 2]), (0, true));
        assert_eq!(lists.intern(&[]), (1, true));
        assert_eq!(lists.intern(&[1]), (2, true));
        assert_eq!(lists.intern(&[1, 2]), (0, false));
        assert_eq!((lists.get(0), lists.get(1), lists.get(2)), (&[1, 2][..], &[][..], &[1][..]));
        assert_eq!((lists.len(), lists.n_items()), (3, 3));
        lists.clear();
        assert_eq!(lists.intern(&[1]), (0, true));
    }

    #[test]
    fn a_table_that_grows_finds_what_it_has() {
        let mut lists = Lists::default();
        for number in 0..10_000_u32 {
            assert_eq!(lists.intern(&[number, number / 7]), (number, true));
        }
        for number in 0..10_000_u32 {
            assert_eq!(lists.intern(&[number, number / 7]), (number, false));
        }
    }

    #[test]
    fn hashes_that_are_alike_are_told_apart_by_the_thing() {
        let mut numbers = Numbers::default();
        numbers.insert(7, 0);
        numbers.insert(7, 1);
        assert_eq!(numbers.find(7, |it| it == 1), Some(1));
        assert_eq!(numbers.find(7, |it| it == 2), None);
        assert_eq!(numbers.find(8, |_| true), None);
    }
}
