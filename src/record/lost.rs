//! How many samples an event lost, as a read of its counter tells.
//!
//! Source: `struct read_format` in `include/uapi/linux/perf_event.h`.

use crate::perfdata::ReadFormat;

/// How many words a read of an event gives at most, whose group has `n_events`.
pub(super) fn n_words(n_events: usize) -> usize {
    // The number of events and two times; of each event its value, its id and what it lost.
    3 + 3 * n_events
}

/// The ids of the events that lost samples, each with how many, from the words of a read.
pub(super) fn of_read(format: ReadFormat, words: &[u64]) -> Vec<(u64, u64)> {
    if !format.contains(ReadFormat::ID | ReadFormat::LOST) {
        return Vec::new();
    }
    let times = [ReadFormat::TOTAL_TIME_ENABLED, ReadFormat::TOTAL_TIME_RUNNING];
    let n_times = times.iter().filter(|it| format.contains(**it)).count();
    // Value, id, lost: in a group after the times, alone with the times after the value.
    let (begin, of_one) =
        if format.contains(ReadFormat::GROUP) { (1 + n_times, 3) } else { (0, 3 + n_times) };
    let events = words.get(begin..).unwrap_or_default().chunks_exact(of_one);
    let last_two = |words: &[u64]| match words {
        [.., id, lost] => Some((*id, *lost)),
        _ => None,
    };
    events.filter_map(last_two).filter(|(_, lost)| *lost != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: ReadFormat = ReadFormat::ID.union(ReadFormat::LOST);
    const TIMES: ReadFormat = ReadFormat::TOTAL_TIME_ENABLED.union(ReadFormat::TOTAL_TIME_RUNNING);

    #[test]
    fn an_event_alone_tells_its_value_times_id_and_loss() {
        assert_eq!(of_read(USUAL, &[500, 7, 3]), [(7, 3)]);
        assert_eq!(of_read(USUAL | TIMES, &[500, 1, 2, 7, 3]), [(7, 3)]);
        assert_eq!(of_read(USUAL, &[500, 7, 0]), []);
    }

    #[test]
    fn a_group_tells_of_each_event() {
        let format = USUAL | ReadFormat::GROUP;
        assert_eq!(of_read(format, &[2, 500, 7, 3, 600, 8, 0]), [(7, 3)]);
        assert_eq!(of_read(format | TIMES, &[2, 1, 2, 500, 7, 3, 600, 8, 4]), [(7, 3), (8, 4)]);
        assert!(n_words(2) >= 9);
    }

    #[test]
    fn what_was_not_asked_for_or_is_cut_tells_nothing() {
        assert_eq!(of_read(ReadFormat::ID, &[500, 7]), []);
        assert_eq!(of_read(USUAL, &[]), []);
        assert_eq!(of_read(USUAL | ReadFormat::GROUP, &[2, 500, 7]), []);
    }
}
