//! Rounds that wait to be written together: few large writes cost the kernel much less than many
//! small ones, and large pieces compress faster.

use std::io::IoSlice;
use std::time::Duration;
use std::time::Instant;

/// How many bytes are written at once.
const FULL: usize = 256 << 10;

/// How many bytes do not wait for the end of their round.
const TOO_FULL: usize = 4 * FULL;

/// How long what came waits at most: whoever is killed has written all that is older.
pub(super) const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// Records that are to be written.
#[derive(Debug, Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    /// When the first of them came.
    since: Option<Instant>,
}

impl Batch {
    /// Adds records.
    pub(super) fn push(&mut self, records: &[IoSlice<'_>]) {
        if self.bytes.capacity() == 0 {
            self.bytes.reserve_exact(FULL);
        }
        for it in records {
            self.bytes.extend_from_slice(it);
        }
        if self.since.is_none() {
            self.since = Some(Instant::now());
        }
    }

    /// How many bytes wait.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is enough for a write.
    pub(super) fn is_full(&self) -> bool {
        FULL <= self.bytes.len()
    }

    /// Whether there is so much that the end of the round is not to be waited for.
    pub(super) fn is_too_full(&self) -> bool {
        TOO_FULL <= self.bytes.len()
    }

    /// When it is to be written at the latest; `None` of an empty one.
    pub(super) fn due(&self) -> Option<Instant> {
        self.since.map(|it| it + LONGEST_WAIT)
    }

    /// Takes all that waits.
    pub(super) fn take(&mut self) -> Vec<u8> {
        self.since = None;
        std::mem::take(&mut self.bytes)
    }

    /// Gives the memory of what [`Batch::take`] took back, to be filled again.
    pub(super) fn reuse(&mut self, mut bytes: Vec<u8>) {
        bytes.clear();
        if bytes.capacity() <= 2 * TOO_FULL && self.bytes.capacity() == 0 {
            self.bytes = bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_full_once_there_is_enough_for_a_write() {
        let mut batch = Batch::default();
        assert_eq!((batch.is_full(), batch.due()), (false, None));
        batch.push(&[IoSlice::new(&[1; 100]), IoSlice::new(&[2; 100])]);
        assert!(!batch.is_full() && batch.due().is_some_and(|it| Instant::now() < it));
        batch.push(&[IoSlice::new(&vec![3; FULL - 200])]);
        assert!(batch.is_full());
        assert_eq!(batch.take().len(), FULL);
        assert_eq!((batch.len(), batch.due()), (0, None));
    }

    #[test]
    fn the_memory_of_a_usual_batch_is_used_again() {
        let mut batch = Batch::default();
        batch.push(&[IoSlice::new(&[1])]);
        let bytes = batch.take();
        let place = bytes.as_ptr();
        batch.reuse(bytes);
        batch.push(&[IoSlice::new(&[2])]);
        let again = batch.take();
        assert_eq!(again.as_ptr(), place);
        batch.reuse(vec![0; 3 * TOO_FULL]);
        assert_eq!(batch.bytes.capacity(), 0);
    }
}
