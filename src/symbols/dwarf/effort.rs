//! What reading debug information may cost: time and memory in proportion to its length.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

/// How many bytes may be looked at, or be made to stand in memory, for each byte of the sections. What
/// compilers write takes some five to ten, if all of it is asked for.
const PER_BYTE: u64 = 16;

/// What may be spent however short the sections are, in bytes.
const LEAST: u64 = 16 << 20;

/// What is taken from the common store at a time.
const PORTION: usize = 16 << 10;

/// What reading may still cost, in bytes of input looked at and of memory filled.
///
/// A sound file is read once, and its index is not much longer than itself. One in which many units
/// share a table of lines could be read without end; one byte can stand for a name of a file, a row,
/// an abbreviation, each of which takes a hundred times as much memory.
#[derive(Debug)]
pub(super) struct Effort {
    left: AtomicU64,
    n_refused: AtomicU64,
}

impl Effort {
    /// For `len` bytes of input.
    pub(super) fn new(len: usize) -> Self {
        let this = Self { left: AtomicU64::new(LEAST), n_refused: AtomicU64::new(0) };
        this.allow(len);
        this
    }

    /// Allows for `len` bytes of input more.
    pub(super) fn allow(&self, len: usize) {
        let more = (len as u64).saturating_mul(PER_BYTE);
        let add = |left: u64| Some(left.saturating_add(more));
        // It always adds.
        let _before = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// Takes away `n` if there is so much; else what was to be read is left out, and counted.
    #[must_use]
    pub(super) fn spend(&self, n: usize) -> bool {
        let is_paid = self.take(n);
        if !is_paid {
            self.n_refused.fetch_add(1, Ordering::Relaxed);
        }
        is_paid
    }

    /// Takes away `n`, what something has cost already; all, where there is less, and then it is not
    /// used, and counted as left out.
    #[must_use]
    pub(super) fn pay(&self, n: usize) -> bool {
        let is_paid = self.spend(n);
        if !is_paid {
            self.left.store(0, Ordering::Relaxed);
        }
        is_paid
    }

    /// How often something was left out for what it would have cost.
    pub(super) fn n_refused(&self) -> u64 {
        self.n_refused.load(Ordering::Relaxed)
    }

    fn take(&self, n: usize) -> bool {
        let take = |left: u64| left.checked_sub(n as u64);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

/// Spends for one thing that is read in small steps, and gives back what is not needed.
#[derive(Debug)]
pub(super) struct Purse<'e> {
    effort: &'e Effort,
    credit: usize,
}

impl<'e> Purse<'e> {
    pub(super) fn new(effort: &'e Effort) -> Self {
        Self { effort, credit: 0 }
    }

    /// Takes away `n`; whether there was so much.
    #[must_use]
    pub(super) fn spend(&mut self, n: usize) -> bool {
        if let Some(rest) = self.credit.checked_sub(n) {
            self.credit = rest;
            return true;
        }
        if self.effort.take(n.saturating_add(PORTION)) {
            self.credit = self.credit.saturating_add(PORTION);
            return true;
        }
        self.effort.spend(n)
    }
}

impl Drop for Purse<'_> {
    fn drop(&mut self) {
        let give = |left: u64| Some(left.saturating_add(self.credit as u64));
        // It always gives.
        let _before = self.effort.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, give);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(effort: &Effort) -> u64 {
        effort.left.load(Ordering::Relaxed)
    }

    #[test]
    fn no_more_is_spent_than_there_is_and_what_is_refused_is_counted() {
        let effort = Effort::new(10);
        let all = usize::try_from(LEAST + 10 * PER_BYTE).unwrap();
        assert!(!effort.spend(all + 1));
        assert!(effort.spend(all - 1));
        assert!(!effort.pay(2));
        assert!(!effort.spend(1));
        assert_eq!((left(&effort), effort.n_refused()), (0, 3));
        effort.allow(usize::MAX);
        effort.allow(usize::MAX);
        assert!(effort.spend(1));
    }

    #[test]
    fn a_purse_gives_back_what_it_did_not_need() {
        let effort = Effort::new(0);
        let before = left(&effort);
        let mut purse = Purse::new(&effort);
        assert!(purse.spend(3) && purse.spend(PORTION) && purse.spend(4));
        drop(purse);
        assert_eq!(left(&effort), before - 7 - PORTION as u64);
        let mut purse = Purse::new(&effort);
        let rest = usize::try_from(left(&effort)).unwrap();
        assert!(purse.spend(rest - 5) && purse.spend(5) && !purse.spend(1));
        drop(purse);
        assert_eq!((left(&effort), effort.n_refused()), (0, 1));
    }
}
