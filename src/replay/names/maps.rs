//! Maps of code on the machine, each read once, however many programs had the number of its process.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::OnceLock;
use std::sync::PoisonError;

use rustc_hash::FxHashMap;

use crate::replay::Unnamed;
use crate::replay::WrittenMap;
use crate::symbols::PerfMap;
use crate::units::Nanos;
use crate::units::Pid;

/// What is in a map, and when it was last written to.
type Found = Result<(Arc<PerfMap>, Option<Nanos>), Unnamed>;

/// Maps that were asked for, by the numbers of their processes.
#[derive(Debug, Default)]
pub(super) struct Maps(Mutex<FxHashMap<Pid, Arc<OnceLock<Found>>>>);

impl Maps {
    /// The map of `pid`, which `read` reads the first time.
    pub(super) fn of(&self, pid: Pid, read: impl FnOnce() -> Result<WrittenMap, Unnamed>) -> Found {
        let cell = {
            let mut maps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(maps.entry(pid).or_default())
        };
        cell.get_or_init(|| read().map(|it| (Arc::new(it.map), it.written))).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_read_once_for_each_process() {
        let maps = Maps::default();
        let mut n_read = 0;
        for pid in [Pid(7), Pid(8), Pid(7), Pid(7)] {
            let found = maps.of(pid, || {
                n_read += 1;
                let map = PerfMap::parse(b"7f00 40 made\n");
                Ok(WrittenMap { map, written: Some(Nanos(5)) })
            });
            assert_eq!(found.unwrap().1, Some(Nanos(5)));
        }
        assert_eq!(n_read, 2);
    }
}
