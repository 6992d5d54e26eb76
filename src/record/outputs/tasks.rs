//! Which tasks a recording is of, from what the rings tell of them.

use std::collections::HashMap;

use crate::record::hop::Became;
use crate::record::hop::TaskNews;
use crate::units::Nanos;
use crate::units::Tid;

/// Who is of the target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::record) enum Tasks {
    /// Everyone.
    #[default]
    Everyone,
    /// These.
    Named(Members),
}

/// Tasks that come and go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::record) struct Members {
    by_tid: HashMap<Tid, Member>,
    /// Whether what they start belongs to them.
    follows: bool,
    /// Those that have ended, in the round before and in this one.
    gone: [Vec<Tid>; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Member {
    since: Nanos,
    is_gone: bool,
}

impl Tasks {
    /// Those of `tids`, and with `follows` what they start.
    pub(in crate::record) fn named(tids: impl IntoIterator<Item = Tid>, follows: bool) -> Self {
        let member = Member { since: Nanos(0), is_gone: false };
        let by_tid = tids.into_iter().map(|tid| (tid, member)).collect();
        Self::Named(Members { by_tid, follows, gone: Default::default() })
    }

    /// Whether the task `tid` was of the target at `time`.
    pub(in crate::record) fn have(&self, tid: Tid, time: Nanos) -> bool {
        match self {
            Self::Everyone => true,
            Self::Named(members) => {
                members.by_tid.get(&tid).is_some_and(|member| member.since <= time)
            }
        }
    }

    /// Takes over what the records of a round tell, which are of the target's tasks alone.
    pub(super) fn note(&mut self, news: &[TaskNews]) {
        let Self::Named(Members { by_tid, follows, gone }) = self else { return };
        for &TaskNews { tid, time, became } in news {
            match became {
                Became::Started if *follows => {
                    by_tid.insert(tid, Member { since: time, is_gone: false });
                }
                Became::Started => {}
                Became::Another => {
                    // Whichever thread it was has the id of the process by then.
                    let member = by_tid.entry(tid);
                    member.or_insert(Member { since: time, is_gone: false }).is_gone = false;
                }
                Became::Gone => {
                    if let Some(member) = by_tid.get_mut(&tid) {
                        member.is_gone = true;
                        gone[1].push(tid);
                    }
                }
            }
        }
    }

    /// Ends a round: forgets those who had ended in the one before, since all they said is known.
    pub(super) fn settle(&mut self) {
        let Self::Named(Members { by_tid, gone: [before, now], .. }) = self else { return };
        for tid in before.drain(..) {
            if by_tid.get(&tid).is_some_and(|it| it.is_gone) {
                by_tid.remove(&tid);
            }
        }
        std::mem::swap(before, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(tasks: &mut Tasks, news: &[(i32, u64, Became)]) {
        let news: Vec<_> = news
            .iter()
            .map(|&(tid, time, became)| TaskNews { tid: Tid(tid), time: Nanos(time), became })
            .collect();
        tasks.note(&news);
    }

    /// Which of the threads 1 to 9 are of the target at `time`.
    fn members(tasks: &Tasks, time: u64) -> Vec<i32> {
        (1..10).filter(|tid| tasks.have(Tid(*tid), Nanos(time))).collect()
    }

    #[test]
    fn what_a_task_starts_belongs_to_the_target_from_its_fork_on() {
        let mut tasks = Tasks::named([Tid(1), Tid(2)], true);
        note(&mut tasks, &[(3, 500, Became::Started), (4, 600, Became::Started)]);
        assert_eq!(members(&tasks, 499), [1, 2]);
        assert_eq!(members(&tasks, 500), [1, 2, 3]);
        assert_eq!(members(&tasks, 600), [1, 2, 3, 4]);
        let mut alone = Tasks::named([Tid(1)], false);
        note(&mut alone, &[(3, 500, Became::Started)]);
        assert_eq!(members(&alone, 600), [1]);
    }

    #[test]
    fn a_command_is_of_the_target_from_its_exec_on() {
        let mut tasks = Tasks::named([], true);
        assert_eq!(members(&tasks, 900), [0; 0]);
        note(&mut tasks, &[(7, 700, Became::Another), (7, 800, Became::Another)]);
        assert_eq!((members(&tasks, 699), members(&tasks, 700)), (vec![], vec![7]));
    }

    #[test]
    fn who_has_ended_is_forgotten_a_round_later() {
        let mut tasks = Tasks::named([Tid(1), Tid(2)], true);
        note(&mut tasks, &[(2, 500, Became::Gone)]);
        tasks.settle();
        assert_eq!(members(&tasks, 500), [1, 2]);
        tasks.settle();
        assert_eq!(members(&tasks, 500), [1]);
    }

    #[test]
    fn whoever_takes_the_id_of_one_that_ended_stays() {
        let mut tasks = Tasks::named([Tid(1), Tid(2)], true);
        note(&mut tasks, &[(2, 500, Became::Gone), (2, 600, Became::Started)]);
        // A thread that runs another program becomes the first of its process, which has ended.
        note(&mut tasks, &[(1, 500, Became::Gone), (1, 600, Became::Another)]);
        tasks.settle();
        tasks.settle();
        assert_eq!(members(&tasks, 600), [1, 2]);
        assert_eq!(members(&tasks, 599), [1]);
    }
}
