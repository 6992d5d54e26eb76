//! Rounds with rings of BPF programs' own.

use super::*;
use crate::record::hop::NotedTasks;
use crate::units::Tid;

/// A ring in memory.
#[derive(Debug, Default)]
struct Fake(Vec<u8>);

impl Source for Fake {
    fn unread(&self) -> (&[u8], &[u8]) {
        self.0.split_at(self.0.len().min(5))
    }

    fn consume(&mut self, len: usize) {
        self.0.drain(..len);
    }
}

const PLACES: Places =
    Places { time_at: Some(24), trailer_len: 0, tasks: NotedTasks::News { time_from_end: 0 } };

fn record(kind: RecordKind, words: &[u64]) -> Vec<u8> {
    let size = u16::try_from(8 + words.len() * 8).unwrap();
    let mut record = [&kind.0.to_ne_bytes()[..], &[0, 0], &size.to_ne_bytes()].concat();
    record.extend(words.iter().flat_map(|it| it.to_ne_bytes()));
    record
}

fn two(a: u32, b: u32) -> u64 {
    let bytes = [a.to_ne_bytes(), b.to_ne_bytes()].concat();
    u64::from_ne_bytes(bytes.try_into().unwrap())
}

/// With an address, a process and a thread, and a time.
fn sample(tid: u32, time: u64) -> Vec<u8> {
    record(RecordKind::SAMPLE, &[0x4000, two(7, tid), time])
}

fn fork(tid: u32, time: u64) -> Vec<u8> {
    record(RecordKind::FORK, &[two(7, 7), two(tid, 7), time])
}

/// One event with a ring, of which the thread 7 and what it starts are the target.
fn outputs(written: Vec<u8>, latest: Option<Latest>) -> Outputs<Fake> {
    let post = Post {
        places: SamplePlaces { task_at: 16, time_at: 24, period_at: None },
        sieve: Sieve::OfTarget,
        tally: OutputTally::default(),
    };
    Outputs {
        posts: vec![post],
        rings: vec![(0, Fake(written))],
        tasks: Tasks::named([Tid(7)], true),
        latest,
        ..Outputs::default()
    }
}

fn counts(outputs: &Outputs<Fake>) -> (u64, u64) {
    let tallies = outputs.tallies();
    (tallies[0].kept, tallies[0].of_others)
}

#[test]
fn what_a_child_writes_is_kept_though_its_fork_is_read_in_the_same_round() {
    let lost = record(RecordKind::LOST, &[3, 5]);
    let written = [sample(7, 100), sample(8, 210), lost.clone(), sample(9, 220)].concat();
    let mut outputs = outputs(written, None);
    let mut rings = [Fake(fork(8, 200))];
    let (mut file, mut tally) = (Vec::new(), Tally::default());
    let n = outputs.round(&mut rings, &mut file, &mut tally, PLACES, &pump::FINISHED_ROUND);
    let kept = [fork(8, 200), sample(7, 100), sample(8, 210), lost].concat();
    assert_eq!(file, [&kept[..], &pump::FINISHED_ROUND].concat());
    assert_eq!((n, tally.samples, tally.lost), (kept.len(), 2, 5));
    assert_eq!(tally.last.map(|it| it.0), Some(210));
    assert_eq!(counts(&outputs), (2, 1));
    let n = outputs.round(&mut rings, &mut file, &mut tally, PLACES, &pump::FINISHED_ROUND);
    assert_eq!((n, file.len()), (0, kept.len() + 8));
}

#[test]
fn where_nothing_is_kept_no_round_ends() {
    let mut outputs = outputs(sample(9, 100), None);
    let (mut file, mut tally) = (Vec::new(), Tally::default());
    let n = outputs.round::<Fake>(&mut [], &mut file, &mut tally, PLACES, &[1]);
    assert_eq!((n, &file[..], tally), (0, &[][..], Tally::default()));
    assert_eq!(counts(&outputs), (0, 1));
}

#[test]
fn what_is_no_record_ends_the_walk_over_its_ring_and_is_counted() {
    let mut outputs = outputs([sample(7, 100), vec![0; 16], sample(7, 200)].concat(), None);
    let (mut file, mut tally) = (Vec::new(), Tally::default());
    outputs.round::<Fake>(&mut [], &mut file, &mut tally, PLACES, &[]);
    assert_eq!(file, sample(7, 100));
    assert_eq!((tally.samples, tally.corrupt), (1, 1));
}

#[test]
fn the_latest_waits_until_it_is_asked_for() {
    let len = sample(7, 100).len();
    let mut outputs = outputs(sample(7, 100), Some(Latest::new(len)));
    let (mut file, mut tally) = (Vec::new(), Tally::default());
    outputs.round::<Fake>(&mut [], &mut file, &mut tally, PLACES, &[]);
    outputs.rings[0].1.0 = sample(7, 200);
    outputs.round::<Fake>(&mut [], &mut file, &mut tally, PLACES, &[]);
    assert_eq!((file, tally.samples), (Vec::new(), 0));
    assert_eq!(outputs.take_latest(&mut tally, PLACES), sample(7, 200));
    assert_eq!(tally.samples, 1);
}
