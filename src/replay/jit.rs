//! Code that processes made themselves and told of with times, in `jit-PID.dump`.
//!
//! A process maps the file to show where it is; what is in there then stands among the other facts of the
//! timeline, each function from its load on until another takes its place. Where times of the dump and
//! of the recording cannot be compared, only functions whose addresses no other one shares have a place.

mod dumps;

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use crate::perfdata::private::ClockReading;
use crate::perfdata::private::Message;
use crate::symbols::JitCode;
use crate::symbols::JitDump;
use crate::symbols::ModuleFile;
use crate::symbols::is_dump;
use crate::units::Nanos;
use crate::units::Pid;

use super::Provenance;
use super::Unnamed;
use super::spans::Moment;
use super::timeline::Fact;
use super::timeline::FileId;
use super::timeline::MappedFile;
use super::timeline::Mapping;

use dumps::DumpId;
use dumps::Dumps;

/// Where dumps come from that are not in the recording.
pub trait JitDumps {
    /// The dump that `file` is, if it is the one that was mapped on the machine of `provenance`.
    ///
    /// # Errors
    ///
    /// Why it is not known to be.
    fn jitdump(&self, file: &ModuleFile, provenance: &Provenance) -> Result<JitDump, Unnamed>;
}

/// No dumps but those in the recording.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoDumps;

impl JitDumps for NoDumps {
    fn jitdump(&self, _file: &ModuleFile, _origin: &Provenance) -> Result<JitDump, Unnamed> {
        Err(Unnamed::Absent)
    }
}

/// How times of `CLOCK_MONOTONIC` become times of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Clock {
    /// They are the same.
    Same,
    /// By moments on both clocks, in their order.
    Read(Vec<ClockReading>),
    /// Not at all.
    Unknown,
}

impl Clock {
    /// That of a recording whose times are of the clock `clockid`, if they are of one that can be
    /// read, and that has noted `messages`.
    pub(super) fn new(clockid: Option<i32>, messages: &[Message]) -> Self {
        match clockid {
            Some(MONOTONIC) => return Self::Same,
            // The moments are of the kernel's own clock.
            Some(_) => return Self::Unknown,
            None => {}
        }
        let readings = messages.iter().filter_map(|it| match it {
            Message::Clocks(clocks) => Some(&clocks.readings),
            _ => None,
        });
        let mut readings: Vec<ClockReading> = readings.flatten().copied().collect();
        readings.sort_by_key(|it| it.monotonic_ns);
        if readings.is_empty() { Self::Unknown } else { Self::Read(readings) }
    }

    /// The time on the recording's clock when it was `monotonic`.
    fn recorded(&self, monotonic: Nanos) -> Option<Nanos> {
        let readings = match self {
            Self::Same => return Some(monotonic),
            Self::Read(readings) => readings,
            Self::Unknown => return None,
        };
        let (first, last) = (readings.first()?, readings.last()?);
        let since = i128::from(monotonic.0) - i128::from(first.monotonic_ns);
        let between = |a: u64, b: u64| i128::from(b) - i128::from(a);
        let (monotonic_len, recorded_len) = (
            between(first.monotonic_ns, last.monotonic_ns),
            between(first.recorded_ns, last.recorded_ns),
        );
        // The two run at nearly the same speed.
        let since = match monotonic_len {
            0 => since,
            // No clock runs backwards.
            ..0 => return None,
            _ if recorded_len < 0 => return None,
            _ => since.checked_mul(recorded_len)? / monotonic_len,
        };
        u64::try_from(i128::from(first.recorded_ns).checked_add(since)?).ok().map(Nanos)
    }
}

/// `CLOCK_MONOTONIC`.
const MONOTONIC: i32 = 1;

/// What the facts of a timeline are added to.
pub(super) struct Adding<'a> {
    /// In the order of time.
    pub(super) facts: &'a mut Vec<(Moment, Fact)>,
    pub(super) files: &'a [MappedFile],
    pub(super) messages: &'a [Message],
    pub(super) dumps: &'a dyn JitDumps,
    pub(super) clock: Clock,
    pub(super) provenance: &'a Provenance,
}

/// What dumps told.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The code, by the numbers that its mappings have.
    pub(super) codes: Vec<JitCode>,
    /// Processes with a dump that is not believed.
    pub(super) unnamed: BTreeMap<Pid, Unnamed>,
    /// Where and when code was made.
    pub(super) made: Vec<JitMade>,
    /// Records of dumps that make no sense.
    pub(super) n_bad: u64,
}

/// Code of a dump, and whose it is from when on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JitMade {
    /// The process.
    pub pid: Pid,
    /// When it was there, on the recording's clock.
    pub time: Nanos,
    /// The dump.
    pub file: FileId,
    /// Which code, by its number in [`Index::jit_codes`](super::Index::jit_codes).
    pub code: u32,
}

impl Adding<'_> {
    /// Adds the code that processes told of.
    pub(super) fn add(self) -> Told {
        let Self { facts, files, messages, dumps, clock, provenance } = self;
        let mut told = Told::default();
        let mut dumps = Dumps::new(messages, dumps, provenance, &clock);
        let mut found = Vec::new();
        for marker in markers(facts, files) {
            let Some(file) = files.get(marker.file.0 as usize) else { continue };
            match dumps.find(marker.pid, marker.file, file) {
                Ok(dump) => found.push((marker, dump)),
                Err(why) => {
                    tracing::debug!(pid = %marker.pid, %why, "no code of a jitdump");
                    told.unnamed.insert(marker.pid, why);
                }
            }
        }
        told.n_bad = dumps.n_bad();
        keep_clear(facts, &Memory::new(files, &found, &dumps));
        for (marker, dump) in found {
            let Marker { pid, moment, file, begins, ends, is_last } = marker;
            let dump = dumps.get(dump);
            // What came before or after is of another program that had the number.
            let made = dump.made(Some(begins)..ends);
            // Of a file that a later program wrote anew nothing without a time is of an earlier one. Without
            // a time it holds as long as the dump was there.
            let is_sure = made.is_none() && is_last;
            let unshared = if is_sure { dump.dump.unshared() } else { Vec::new() };
            let unshared = unshared.into_iter().map(|code| (moment.time, code));
            let added = made.into_iter().flatten().chain(unshared).map(|(time, code)| {
                let jit_code = (!code.name.is_empty()).then(|| {
                    told.codes.push(code.clone());
                    u32::try_from(told.codes.len() - 1).ok()
                });
                if let Some(code) = jit_code.flatten() {
                    told.made.push(JitMade { pid, time, file, code });
                }
                let (start, end) = (code.start.0, code.end.0);
                let mapping = Mapping {
                    file,
                    bias: 0,
                    jit_pid: pid,
                    jit_generation: 0,
                    jit_code: jit_code.flatten(),
                    instead_of: None,
                    is_kernel: false,
                    is_executable: true,
                };
                let moment = Moment { time, position: moment.position };
                (moment, Fact::Code { pid, start, end, mapping })
            });
            facts.extend(added);
        }
        if !told.codes.is_empty() {
            facts.sort_by_key(|(moment, _)| *moment);
        }
        told
    }
}

/// The mapping by which a process, from one fork or exec to the next, shows its dump.
#[derive(Clone, Copy, Debug)]
struct Marker {
    pid: Pid,
    moment: Moment,
    file: FileId,
    /// When the process began.
    begins: Nanos,
    /// When it was another one.
    ends: Option<Nanos>,
    /// Whether no later one with the number shows the same file.
    is_last: bool,
}

/// The first mapping of a dump by each process.
fn markers(facts: &[(Moment, Fact)], files: &[MappedFile]) -> Vec<Marker> {
    let mut markers: Vec<Marker> = Vec::new();
    let mut last: BTreeMap<(Pid, FileId), usize> = BTreeMap::new();
    // When each process began, and its marker.
    let mut current: BTreeMap<Pid, (Nanos, Option<usize>)> = BTreeMap::new();
    for (moment, fact) in facts {
        match fact {
            Fact::Map { pid: Some(pid), mapping, .. } if mapping.is_executable => {
                let is_marker =
                    files.get(mapping.file.0 as usize).is_some_and(|it| is_dump(&it.path));
                let (begins, shown) = current.entry(*pid).or_default();
                if is_marker && shown.is_none() {
                    let (pid, moment, file, begins) = (*pid, *moment, mapping.file, *begins);
                    let before = last.insert((pid, file), markers.len());
                    if let Some(before) = before.and_then(|it| markers.get_mut(it)) {
                        before.is_last = false;
                    }
                    *shown = Some(markers.len());
                    markers.push(Marker { pid, moment, file, begins, ends: None, is_last: true });
                }
            }
            Fact::Comm { pid, is_exec: true, .. } => {
                begin(*pid, *moment, &mut current, &mut markers);
            }
            Fact::Fork { pid, ppid, .. } if pid != ppid => {
                begin(*pid, *moment, &mut current, &mut markers);
            }
            _ => {}
        }
    }
    markers
}

/// A process begins, with a number that another one may have had.
fn begin(
    pid: Pid,
    now: Moment,
    current: &mut BTreeMap<Pid, (Nanos, Option<usize>)>,
    markers: &mut [Marker],
) {
    let before = current.insert(pid, (now.time, None));
    let marker = before.and_then(|(_, marker)| markers.get_mut(marker?));
    if let Some(marker) = marker {
        marker.ends = Some(now.time);
    }
}

/// Memory that processes with a dump made code in.
struct Memory<'a> {
    files: &'a [MappedFile],
    /// Where the code of each began and ended, in this order.
    codes: BTreeMap<Pid, Vec<(u64, u64)>>,
}

impl<'a> Memory<'a> {
    fn new(files: &'a [MappedFile], found: &[(Marker, DumpId)], dumps: &Dumps<'_>) -> Self {
        let mut codes: BTreeMap<Pid, Vec<(u64, u64)>> = BTreeMap::new();
        let shown: BTreeSet<(Pid, DumpId)> = found.iter().map(|(it, id)| (it.pid, *id)).collect();
        for (pid, dump) in shown {
            let of_dump = dumps.get(dump).dump.codes.iter().map(|it| (it.start.0, it.end.0));
            codes.entry(pid).or_default().extend(of_dump);
        }
        for codes in codes.values_mut() {
            codes.sort_unstable();
        }
        Self { files, codes }
    }

    /// Whether `mapping` of `pid` is of memory that has a name, in which code of the dump begins: that it
    /// is mapped twice, to be written here and to be run there, makes it no file.
    fn is_named(&self, pid: Pid, (start, end): (u64, u64), mapping: &Mapping) -> bool {
        let path = self.files.get(mapping.file.0 as usize).map_or(&b""[..], |it| &it.path);
        let codes = self.codes.get(&pid).map(Vec::as_slice).unwrap_or_default();
        let first = codes.get(codes.partition_point(|it| it.0 < start));
        path.starts_with(b"/memfd:") && first.is_some_and(|it| it.0 < end)
    }
}

/// Drops mappings of these processes' memory where they had such before: as a compiler makes its memory
/// writable and back again the kernel tells of it each time, and the code stays.
///
/// perf drops all of them: `jit_process()` in `tools/perf/util/jitdump.c`.
fn keep_clear(facts: &mut Vec<(Moment, Fact)>, memory: &Memory<'_>) {
    if memory.codes.is_empty() {
        return;
    }
    let mut known: BTreeMap<Pid, Ranges> = BTreeMap::new();
    facts.retain_mut(|(_, fact)| match fact {
        Fact::Map { pid: Some(pid), start, end, mapping } if memory.codes.contains_key(pid) => {
            if memory.is_named(*pid, (*start, *end), mapping) {
                (mapping.jit_pid, mapping.bias) = (*pid, 0);
            }
            let is_memory = mapping.jit_pid == *pid;
            let known = known.entry(*pid).or_default();
            if is_memory { known.add(*start, *end) } else { known.remove(*start, *end) }
        }
        Fact::Comm { pid, is_exec: true, .. } => {
            known.remove(pid);
            true
        }
        Fact::Fork { pid, ppid, .. } if pid != ppid => {
            known.remove(pid);
            true
        }
        _ => true,
    });
}

/// Ranges of addresses, disjoint, by their start.
#[derive(Debug, Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Adds a range; whether some of it is new.
    fn add(&mut self, mut start: u64, mut end: u64) -> bool {
        if self.0.range(..=start).next_back().is_some_and(|(_, reach)| end <= *reach) {
            return false;
        }
        for (a, b) in self.touching(start, end) {
            self.0.remove(&a);
            (start, end) = (start.min(a), end.max(b));
        }
        self.0.insert(start, end);
        true
    }

    /// Takes a range away, which is something else now.
    fn remove(&mut self, start: u64, end: u64) -> bool {
        for (a, b) in self.touching(start, end) {
            self.0.remove(&a);
            let rests = [(a, start.min(b)), (end.max(a), b)];
            self.0.extend(rests.into_iter().filter(|(a, b)| a < b));
        }
        true
    }

    fn touching(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let below = self.0.range(..=end).rev();
        below.map_while(|(&a, &b)| (start <= b).then_some((a, b))).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering;

    use super::super::resolved::CommId;
    use super::super::timeline::Owner;
    use super::super::timeline::Timeline;
    use super::*;
    use crate::perfdata::private::Clocks;
    use crate::symbols::Inode;
    use crate::units::Addr;
    use crate::units::Tid;

    fn map(position: u64, (start, end): (u64, u64), file: u32, pid: i32) -> (Moment, Fact) {
        let mapping = Mapping {
            file: FileId(file),
            bias: 0,
            jit_pid: Pid(if file == 0 { pid } else { 0 }),
            jit_generation: 0,
            jit_code: None,
            instead_of: None,
            is_kernel: false,
            is_executable: true,
        };
        let moment = Moment { time: Nanos(position), position };
        (moment, Fact::Map { pid: Some(Pid(pid)), start, end, mapping })
    }

    fn files() -> Vec<MappedFile> {
        let inode = Some(Inode { maj: 1, min: 2, ino: 3, generation: 0 });
        let file = |path: &str| MappedFile { path: path.into(), build_id: None, inode };
        vec![file("//anon"), file("/lib/a.so"), file("/tmp/jit-7.dump")]
    }

    #[test]
    fn memory_that_was_there_before_hides_no_code() {
        let mut facts = vec![
            map(1, (0x1000, 0x3000), 0, 7),
            map(2, (0x3000, 0x5000), 0, 7),
            map(3, (0x2000, 0x4000), 0, 7),
            map(4, (0x2000, 0x4000), 0, 8),
            map(5, (0x2000, 0x3000), 1, 7),
            map(6, (0x1000, 0x2000), 0, 7),
            map(7, (0x2000, 0x3000), 0, 7),
            map(8, (0x4000, 0x6000), 0, 7),
        ];
        let codes = BTreeMap::from([(Pid(7), Vec::new())]);
        keep_clear(&mut facts, &Memory { files: &files(), codes });
        let kept: Vec<u64> = facts.iter().map(|it| it.0.position).collect();
        assert_eq!(kept, [1, 2, 4, 5, 7, 8]);
    }

    /// One dump for whoever asks.
    struct Dump(JitDump);

    impl JitDumps for Dump {
        fn jitdump(&self, file: &ModuleFile, _: &Provenance) -> Result<JitDump, Unnamed> {
            assert_eq!(file.path, std::path::Path::new("/tmp/jit-7.dump"));
            Ok(self.0.clone())
        }
    }

    /// What is at `addr` in process 7 at each of `times`, in a recording on `clock`.
    #[track_caller]
    fn check(clock: Clock, addr: u64, times: &[(u64, &str)]) {
        let code = |time, start, end, name: &str| JitCode {
            time: Nanos(time),
            start: Addr(start),
            end: Addr(end),
            name: name.to_owned(),
            ..JitCode::default()
        };
        let codes = vec![
            // Before the kernel tells that code may run there.
            code(15, 0x1000, 0x1100, "first"),
            code(30, 0x1080, 0x1200, "second"),
            code(35, 0x1800, 0x1900, "alone"),
            code(50, 0x1080, 0x1200, ""),
        ];
        let dump = Dump(JitDump { codes, is_monotonic: true, n_bad: 0 });
        let mut facts = vec![
            map(10, (0x9000, 0xa000), 2, 7),
            map(20, (0x1000, 0x2000), 0, 7),
            map(40, (0x1000, 0x2000), 0, 7),
            map(60, (0x1000, 0x2000), 1, 7),
        ];
        let files = files();
        let provenance = Provenance::default();
        let (facts_now, dumps) = (&mut facts, &dump);
        let adding = Adding {
            facts: facts_now,
            files: &files,
            messages: &[],
            dumps,
            clock,
            provenance: &provenance,
        };
        let codes = adding.add().codes;
        let timeline = Timeline::new(facts, Vec::new());
        for (time, want) in times {
            let moment = Moment { time: Nanos(*time), position: 1 };
            let process = timeline.process(Pid(7), moment);
            let owner = timeline.user(&process, addr, moment);
            let Some(Owner::Mapping(idx)) = owner else { panic!("{addr:#x} at {time}") };
            let mapping = timeline.mapping(idx);
            let name = match mapping.jit_code {
                Some(code) => &*codes[code as usize].name,
                None if mapping.jit_pid == Pid(7) => "memory",
                None => "file",
            };
            assert_eq!(name, *want, "{addr:#x} at {time}");
        }
    }

    #[test]
    fn code_has_its_place_until_other_code_or_a_file_takes_it() {
        let shared = [(16, "first"), (25, "first"), (31, "second"), (45, "second"), (51, "memory")];
        check(Clock::Same, 0x1090, &shared);
        check(Clock::Same, 0x1090, &[(61, "file"), (70, "file")]);
        check(Clock::Same, 0x1010, &[(25, "first"), (55, "first"), (65, "file")]);
        check(Clock::Same, 0x1300, &[(25, "memory"), (45, "memory")]);
        let later = vec![ClockReading { recorded_ns: 5, ..ClockReading::default() }];
        check(Clock::Read(later), 0x1090, &[(31, "first"), (36, "second")]);
    }

    #[test]
    fn without_a_clock_code_that_shares_addresses_has_no_name() {
        check(Clock::Unknown, 0x1090, &[(25, "memory"), (45, "memory")]);
        check(Clock::Unknown, 0x1010, &[(25, "memory"), (55, "memory")]);
        check(Clock::Unknown, 0x1810, &[(25, "alone"), (55, "alone"), (65, "file")]);
    }

    #[test]
    fn the_first_mapping_of_a_dump_shows_it() {
        let facts = [map(1, (0x1000, 0x2000), 1, 7), map(2, (0, 1), 2, 7), map(3, (0, 1), 2, 7)];
        let markers = markers(&facts, &files());
        assert_eq!(markers.len(), 1);
        assert_eq!(markers[0].moment.position, 2);
    }

    /// The names and times that dumps give code of process 7, which is another program from 50 on.
    fn told(dump: JitDump, clock: Clock, second: u32, saved: &[Message]) -> Vec<(u64, String)> {
        let exec = Fact::Comm { pid: Pid(7), tid: Tid(7), comm: CommId(0), is_exec: true };
        let mut files = files();
        files.push(files[2].clone());
        files[3].inode = Some(Inode { maj: 1, min: 2, ino: 4, generation: 0 });
        let mut facts = vec![
            map(10, (0x9000, 0xa000), 2, 7),
            (Moment { time: Nanos(50), position: 50 }, exec),
            map(60, (0x9000, 0xa000), second, 7),
        ];
        let (provenance, dumps) = (Provenance::default(), &Dump(dump));
        let (files, messages) = (&files, saved);
        let adding =
            Adding { facts: &mut facts, files, messages, dumps, clock, provenance: &provenance };
        let codes = adding.add().codes;
        let named = facts.iter().filter_map(|(moment, fact)| match fact {
            Fact::Code { mapping, .. } => Some((moment.time.0, mapping.jit_code?)),
            _ => None,
        });
        named.map(|(time, idx)| (time, codes[idx as usize].name.clone())).collect()
    }

    fn dump(times: &[u64]) -> JitDump {
        let code = |&time: &u64| JitCode {
            time: Nanos(time),
            start: Addr(time * 0x1000),
            end: Addr(time * 0x1000 + 16),
            name: format!("made_at_{time}"),
            ..JitCode::default()
        };
        JitDump { codes: times.iter().map(code).collect(), is_monotonic: true, n_bad: 1 }
    }

    #[test]
    fn a_dump_is_of_the_program_that_wrote_it_last() {
        let made = |time: u64, at: u64| (at, format!("made_at_{time}"));
        // Both show the same file, or one each: what is in there has its time.
        for second in [2, 3] {
            let all = told(dump(&[20, 70]), Clock::Same, second, &[]);
            assert_eq!(all, [made(20, 20), made(70, 70)]);
        }
        // Without a clock what the second program wrote anew is all that there is.
        assert_eq!(told(dump(&[70]), Clock::Unknown, 2, &[]), [made(70, 60)]);
    }

    #[test]
    fn a_dump_that_many_programs_show_is_read_once() {
        /// Counts how often it is asked.
        struct Counting(AtomicUsize);

        impl JitDumps for Counting {
            fn jitdump(&self, _: &ModuleFile, _: &Provenance) -> Result<JitDump, Unnamed> {
                self.0.fetch_add(1, Ordering::Relaxed);
                Ok(dump(&[20, 70, 120]))
            }
        }

        let exec = Fact::Comm { pid: Pid(7), tid: Tid(7), comm: CommId(0), is_exec: true };
        let exec = |time| (Moment { time: Nanos(time), position: time }, exec.clone());
        let shown = |time| map(time, (0x9000, 0xa000), 2, 7);
        let mut facts = vec![shown(10), exec(50), shown(60), exec(100), shown(110)];
        let (provenance, dumps) = (Provenance::default(), Counting(AtomicUsize::new(0)));
        let told = Adding {
            facts: &mut facts,
            files: &files(),
            messages: &[],
            dumps: &dumps,
            clock: Clock::Same,
            provenance: &provenance,
        }
        .add();
        assert_eq!(dumps.0.into_inner(), 1);
        assert_eq!(told.n_bad, 1);
        let codes = facts.iter().filter_map(|(moment, fact)| match fact {
            Fact::Code { .. } => Some((moment.time.0, moment.position)),
            _ => None,
        });
        assert_eq!(codes.collect::<Vec<_>>(), [(20, 10), (70, 60), (120, 110)]);
    }

    #[test]
    fn memory_with_a_name_is_a_file_unless_code_was_made_there() {
        let mut files = files();
        files[1].path = b"/memfd:x (deleted)".to_vec();
        let mut facts = vec![
            map(1, (0x1000, 0x2000), 1, 7),
            map(2, (0x4000, 0x5000), 1, 7),
            map(3, (0x1000, 0x2000), 1, 7),
            map(4, (0x1000, 0x2000), 1, 8),
        ];
        let codes = BTreeMap::from([(Pid(7), vec![(0x1800, 0x1900), (0x5000, 0x5010)])]);
        keep_clear(&mut facts, &Memory { files: &files, codes });
        let kept = facts.iter().map(|(moment, fact)| match fact {
            Fact::Map { mapping, .. } => (moment.position, mapping.jit_pid),
            _ => panic!("{fact:?}"),
        });
        let want = [(1, Pid(7)), (2, Pid(0)), (4, Pid(0))];
        assert_eq!(kept.collect::<Vec<_>>(), want);
    }

    #[test]
    fn times_are_compared_by_moments_on_both_clocks() {
        let reading =
            |recorded_ns, monotonic_ns| ClockReading { recorded_ns, monotonic_ns, realtime_ns: 0 };
        let clock = Clock::Read(vec![reading(1000, 5000)]);
        assert_eq!(clock.recorded(Nanos(5100)), Some(Nanos(1100)));
        assert_eq!(clock.recorded(Nanos(4500)), Some(Nanos(500)));
        assert_eq!(clock.recorded(Nanos(3000)), None);
        let clock = Clock::Read(vec![reading(1000, 5000), reading(2010, 6000)]);
        assert_eq!(clock.recorded(Nanos(5500)), Some(Nanos(1505)));
        assert_eq!(clock.recorded(Nanos(u64::MAX)), None);
        assert_eq!(Clock::Same.recorded(Nanos(7)), Some(Nanos(7)));
        assert_eq!(Clock::new(Some(1), &[]), Clock::Same);
        assert_eq!(Clock::new(None, &[]), Clock::Unknown);
        let told = [Message::Clocks(Clocks { readings: vec![reading(1, 2)], ..Clocks::default() })];
        assert_eq!(Clock::new(None, &told), Clock::Read(vec![reading(1, 2)]));
        assert_eq!(Clock::new(Some(0), &told), Clock::Unknown);
        assert_eq!(Clock::Unknown.recorded(Nanos(7)), None);
    }
}
