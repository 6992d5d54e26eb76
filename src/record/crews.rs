//! Which threads drain which rings: `--threads`.

use crate::host::cpus;
use crate::host::cpus::Group;
use crate::units::Cpu;

/// How the rings are shared out among threads that drain them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Threads {
    /// A thread for the CPUs of each such group, which runs there.
    Each(Group),
    /// A thread for each of these.
    Masks(Vec<Mask>),
}

/// What one thread does, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mask {
    /// The CPUs whose rings it drains.
    pub drained: Vec<Cpu>,
    /// The CPUs that it runs on.
    pub run_on: Vec<Cpu>,
}

/// A text that does not say how to share out rings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadThreads {
    /// It is neither a word that is known nor masks.
    #[error(
        "`{text}` is none of `cpu`, `core`, `package` and `numa`, and no masks as `0,2-4/2-4:1,5-7/5-7`"
    )]
    Unknown {
        /// The text.
        text: String,
    },
    /// A CPU is in two masks.
    #[error("CPU {} is in two {of}", cpu.0)]
    Twice {
        /// The CPU.
        cpu: Cpu,
        /// What the masks are of.
        of: &'static str,
    },
}

impl Threads {
    /// Of a word, or of masks, one a thread: `DRAINED/RUN_ON:DRAINED/RUN_ON`. Nothing is `cpu`.
    ///
    /// # Errors
    ///
    /// [`BadThreads`] for anything else.
    pub fn parse(text: &str) -> Result<Self, BadThreads> {
        let group = match text {
            "" | "cpu" => Some(Group::Cpu),
            "core" => Some(Group::Core),
            "package" => Some(Group::Package),
            "numa" => Some(Group::Node),
            _ => None,
        };
        if let Some(group) = group {
            return Ok(Self::Each(group));
        }
        let bad = || BadThreads::Unknown { text: text.to_owned() };
        let list = |text: &str| cpus::parse_list(text).ok().filter(|it| !it.is_empty());
        let mut masks: Vec<Mask> = Vec::new();
        for mask in text.split(':') {
            let (drained, run_on) = mask.split_once('/').ok_or_else(bad)?;
            let mask = list(drained).zip(list(run_on)).ok_or_else(bad)?;
            masks.push(Mask { drained: mask.0, run_on: mask.1 });
        }
        once(masks.iter().map(|it| &*it.drained), "masks of CPUs to drain")?;
        once(masks.iter().map(|it| &*it.run_on), "masks of CPUs to run on")?;
        Ok(Self::Masks(masks))
    }

    /// What each thread drains of the rings of `recorded`, CPUs of which `online` run.
    ///
    /// CPUs that no mask has are drained by a thread of their own, so that nothing is lost there.
    ///
    /// # Errors
    ///
    /// The first mask of which no CPU is online.
    pub(super) fn crews(&self, recorded: &[Cpu], online: &[Cpu]) -> Result<Vec<Mask>, Vec<Cpu>> {
        match self {
            Self::Each(group) => Ok(each(recorded, &|cpu| cpus::beside(cpu, *group))),
            Self::Masks(masks) => of_masks(masks, recorded, online),
        }
    }
}

fn once<'m>(masks: impl Iterator<Item = &'m [Cpu]>, of: &'static str) -> Result<(), BadThreads> {
    let mut all: Vec<Cpu> = masks.flatten().copied().collect();
    all.sort_unstable();
    match all.windows(2).find(|it| it[0] == it[1]) {
        Some(twice) => Err(BadThreads::Twice { cpu: twice[0], of }),
        None => Ok(()),
    }
}

/// One for each group of `recorded`, where `beside` knows who is in the group of a CPU.
fn each(recorded: &[Cpu], beside: &dyn Fn(Cpu) -> Vec<Cpu>) -> Vec<Mask> {
    let mut left = recorded.to_vec();
    let mut masks = Vec::new();
    while let Some(&first) = left.first() {
        let group = beside(first);
        let is_in = |cpu: &Cpu| *cpu == first || group.contains(cpu);
        let drained: Vec<Cpu> = left.iter().copied().filter(is_in).collect();
        left.retain(|it| !is_in(it));
        masks.push(Mask { run_on: drained.clone(), drained });
    }
    masks
}

fn of_masks(masks: &[Mask], recorded: &[Cpu], online: &[Cpu]) -> Result<Vec<Mask>, Vec<Cpu>> {
    let mut crews = Vec::new();
    let mut left = recorded.to_vec();
    for mask in masks {
        for list in [&mask.drained, &mask.run_on] {
            if !list.iter().any(|it| online.contains(it)) {
                return Err(list.clone());
            }
        }
        let drained: Vec<Cpu> =
            mask.drained.iter().copied().filter(|it| recorded.contains(it)).collect();
        left.retain(|it| !drained.contains(it));
        if !drained.is_empty() {
            crews.push(Mask { drained, run_on: mask.run_on.clone() });
        }
    }
    if !left.is_empty() {
        crews.push(Mask { drained: left.clone(), run_on: left });
    }
    Ok(crews)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(list: &[u32]) -> Vec<Cpu> {
        list.iter().copied().map(Cpu).collect()
    }

    fn mask(drained: &[u32], run_on: &[u32]) -> Mask {
        Mask { drained: cpus(drained), run_on: cpus(run_on) }
    }

    #[test]
    fn a_word_or_masks_say_how_rings_are_shared_out() {
        let parse = |text| Threads::parse(text).unwrap();
        assert_eq!(parse(""), Threads::Each(Group::Cpu));
        assert_eq!(parse("numa"), Threads::Each(Group::Node));
        let want = vec![mask(&[0, 2, 3, 4], &[2, 3, 4]), mask(&[1, 5], &[5])];
        assert_eq!(parse("0,2-4/2-4:1,5/5"), Threads::Masks(want));
        for text in ["cpus", "0", "0/", "/0", "0/0:", "0/x", "0/0/0"] {
            let bad = Err(BadThreads::Unknown { text: text.to_owned() });
            assert_eq!(Threads::parse(text), bad);
        }
    }

    #[test]
    fn no_cpu_is_drained_twice_and_no_two_threads_share_one() {
        let twice = |text| Threads::parse(text).unwrap_err().to_string();
        assert_eq!(twice("0-1/0:1/1"), "CPU 1 is in two masks of CPUs to drain");
        assert_eq!(twice("0/0-3:1/2"), "CPU 2 is in two masks of CPUs to run on");
    }

    #[test]
    fn each_group_of_cpus_has_a_thread() {
        let beside = |cpu: Cpu| cpus(&[cpu.0 & !1, cpu.0 | 1]);
        let want = [mask(&[0, 1], &[0, 1]), mask(&[3], &[3]), mask(&[4, 5], &[4, 5])];
        assert_eq!(each(&cpus(&[0, 1, 3, 4, 5]), &beside), want);
        // Where the machine does not say, every CPU is a group.
        assert_eq!(each(&cpus(&[7]), &|_| Vec::new()), [mask(&[7], &[7])]);
    }

    #[test]
    fn what_no_mask_has_is_drained_all_the_same() {
        let masks = [mask(&[0, 9], &[1]), mask(&[3], &[3])];
        let online = cpus(&[0, 1, 2, 3]);
        let crews = of_masks(&masks, &cpus(&[0, 1, 2]), &online);
        assert_eq!(crews, Ok(vec![mask(&[0], &[1]), mask(&[1, 2], &[1, 2])]));
    }

    #[test]
    fn a_mask_without_a_cpu_that_runs_is_refused() {
        let online = cpus(&[0, 1]);
        assert_eq!(of_masks(&[mask(&[7], &[0])], &online, &online), Err(cpus(&[7])));
        assert_eq!(of_masks(&[mask(&[0], &[8])], &online, &online), Err(cpus(&[8])));
    }
}
