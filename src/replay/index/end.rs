//! What the end of a recording settles.

use rustc_hash::FxHashMap;

use crate::perfdata::AttrFlags;
use crate::perfdata::feature::Feature;
use crate::perfdata::feature::FeatureId;
use crate::perfdata::private::Clocks;
use crate::perfdata::private::Message;
use crate::replay::jit::Adding;
use crate::replay::jit::Clock;
use crate::replay::jit::JitDumps;
use crate::replay::provenance::Provenance;
use crate::replay::provenance::WallClock;
use crate::replay::spans::Moment;
use crate::replay::timeline::Fact;
use crate::replay::timeline::MappedFile;
use crate::replay::timeline::Timeline;
use crate::replay::untold::Untold;
use crate::symbols::Inode;
use crate::symbols::is_injected;
use crate::units::Nanos;

use super::Index;
use super::pass::Pass;

impl Pass<'_> {
    /// Forgets the build ids of paths that several files have.
    fn forget_ambiguous(&mut self) {
        let mut inodes: FxHashMap<&[u8], Inode> = FxHashMap::default();
        for file in &self.index.files {
            let Some(inode) = file.inode else { continue };
            let first = inodes.entry(&file.path).or_insert(inode);
            if *first != inode {
                self.ambiguous.insert(file.path.clone());
            }
        }
        self.index.build_ids.retain(|path, _| !self.ambiguous.contains(path));
    }

    /// Where and when the recording was made.
    fn provenance(&self, clocks: &[&Clocks]) -> Provenance {
        let text = |id| match self.recording.feature(id) {
            Some(Feature::Hostname(it) | Feature::OsRelease(it)) => {
                Some(String::from_utf8_lossy(it.as_bytes()).into_owned())
            }
            _ => None,
        };
        let kernel_text = self.index.kernel.and_then(|(start, file)| {
            let path = &self.index.files[file.0 as usize].path;
            let symbol = path.strip_prefix(b"[kernel.kallsyms]".as_slice())?;
            let symbol = std::str::from_utf8(symbol).ok().filter(|it| !it.is_empty())?;
            Some((symbol.to_owned(), start))
        });
        let boot_id = clocks.iter().map(|it| &it.boot_id).find(|it| !it.is_empty());
        Provenance {
            boot_id: boot_id.cloned(),
            pid_namespace: clocks.iter().map(|it| it.pid_namespace).find(|it| *it != 0),
            host_name: text(FeatureId::HOSTNAME),
            release: text(FeatureId::OSRELEASE),
            kernel_build_id: self.index.kernel_build_id(),
            kernel_text,
            ended: clocks.iter().map(|it| Nanos(it.ended_ns)).max().filter(|it| *it != Nanos(0)),
        }
    }

    /// What all records say together, with what `dumps` do.
    pub(super) fn finish(mut self, dumps: &dyn JitDumps) -> Index {
        self.facts.sort_by_key(|(moment, _)| *moment);
        let clockids = self.recording.events.iter().map(|it| it.attr);
        let clockid = clockids
            .map(|it| it.flags.contains(AttrFlags::USE_CLOCKID).then_some(it.clockid))
            .next();
        let clockid = clockid.flatten();
        let clocks = self.index.bpf.messages().iter().filter_map(|it| match it {
            Message::Clocks(clocks) => Some(clocks),
            _ => None,
        });
        let clocks: Vec<&Clocks> = clocks.collect();
        let wall_clock = match (clockid, self.recording.feature(FeatureId::CLOCK_DATA)) {
            (None, _) => WallClock::read(&clocks),
            (Some(_), Some(Feature::ClockData(data))) => WallClock::chosen(Some(data)),
            (Some(_), _) => WallClock::chosen(None),
        };
        self.index.provenance = self.provenance(&clocks);
        self.index.mapped = first_mapped(&self.facts, &self.index.files, &wall_clock);
        self.index.wall_clock = wall_clock;
        let (facts, files) = (&mut self.facts, &*self.index.files);
        let messages = self.index.bpf.messages();
        let clock = Clock::new(clockid, messages);
        let provenance = &self.index.provenance;
        let told = Adding { facts, files, messages, dumps, clock, provenance }.add();
        self.index.jit_codes = told.codes;
        self.index.jit_made = told.made;
        self.index.unnamed_jit = told.unnamed;
        self.index.anomalies.odd_jit = told.n_bad;
        self.index.anomalies.inflated = self.index.bpf.n_left_out();
        self.forget_ambiguous();
        self.index.anomalies.undecodable += self.private.n_incomplete();
        if !self.index.bpf.is_empty() {
            // The timeline numbers symbols as it is told of them, the late ones first.
            let late = self.late.iter().map(|(position, fact)| (*position, fact));
            let facts = self.facts.iter().map(|(moment, fact)| (moment.position, fact));
            let symbols = late.chain(facts).filter(|(_, it)| matches!(it, Fact::Register(_)));
            let numbers = symbols.zip(0..).map(|((position, _), number)| (position, number));
            self.index.bpf.number(&numbers.collect());
        }
        self.index.readings =
            self.values.finish(&|id| self.recording.event_of_id(id), &mut self.index.n_samples);
        let late = self.late.into_iter().map(|(_, fact)| fact).collect();
        let features = self.recording.features.iter().filter_map(|it| it.content.as_ref().ok());
        let endian = self.recording.header.endian();
        let untold = Untold::new(endian, features, self.index.bpf.messages());
        self.index.timeline = Timeline::with_programs(self.facts, late, untold);
        if !self.index.entries.is_sorted() {
            self.index.entries.sort_unstable();
        }
        self.index.deferred = self.chains.finish(&mut self.index.entries);
        self.index
    }
}

/// When each of `files` was mapped first at the latest, by `facts` in the order of time; what ran before
/// was there when the recording began. Those that were made of a dump are younger than what they show, and
/// were never mapped.
fn first_mapped(
    facts: &[(Moment, Fact)],
    files: &[MappedFile],
    clock: &WallClock,
) -> Vec<Option<Nanos>> {
    let mut first = vec![None; files.len()];
    for (moment, fact) in facts {
        if let Fact::Map { mapping, .. } = fact
            && let Some(first) = first.get_mut(mapping.file.0 as usize)
        {
            first.get_or_insert(moment.time);
        }
    }
    let moment = |(file, first): (&MappedFile, Option<Nanos>)| {
        clock.at_latest(first.filter(|_| !is_injected(&file.path))?)
    };
    files.iter().zip(first).map(moment).collect()
}
