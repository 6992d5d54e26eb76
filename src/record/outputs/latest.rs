//! The latest of what BPF programs wrote, for a recorder that keeps no more.

use std::collections::VecDeque;

/// Rounds of records, the oldest first.
#[derive(Clone, Debug)]
pub(in crate::record) struct Latest {
    rounds: VecDeque<Vec<u8>>,
    n_bytes: usize,
    bytes_max: usize,
}

impl Latest {
    /// Keeps `bytes_max` at the most, and always the last round.
    pub(in crate::record) fn new(bytes_max: usize) -> Self {
        Self { rounds: VecDeque::new(), n_bytes: 0, bytes_max }
    }

    /// Adds a round; what is older may have to go.
    pub(super) fn push(&mut self, records: Vec<u8>) {
        if records.is_empty() {
            return;
        }
        self.n_bytes += records.len();
        self.rounds.push_back(records);
        while self.bytes_max < self.n_bytes
            && 1 < self.rounds.len()
            && let Some(oldest) = self.rounds.pop_front()
        {
            self.n_bytes -= oldest.len();
        }
    }

    /// All that is kept, which is no longer here then.
    pub(super) fn take(&mut self) -> Vec<u8> {
        self.n_bytes = 0;
        self.rounds.drain(..).flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_rounds_go_and_the_last_one_stays() {
        let mut latest = Latest::new(10);
        for round in [vec![1; 6], Vec::new(), vec![2; 4], vec![3; 4]] {
            latest.push(round);
        }
        assert_eq!(latest.take(), [2, 2, 2, 2, 3, 3, 3, 3]);
        assert_eq!(latest.take(), [0; 0]);
        latest.push(vec![4; 11]);
        assert_eq!(latest.take(), [4; 11]);
    }
}
