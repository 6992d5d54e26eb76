//! Code that processes made themselves and told of with times, in `jit-PID.dump`.
//!
//! A process maps the file to show where it is; what is in there then stands among the other facts of the
//! timeline, each function from its load on until another takes its place. Where times of the dump and
//! of the recording cannot be compared, only functions whose addresses no other one shares have a place.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use crate::perfdata::private::ClockReading;
use crate::perfdata::private::FileFacts;
use crate::perfdata::private::Message;
use crate::symbols::JitCode;
use crate::symbols::JitDump;
use crate::symbols::ModuleFile;
use crate::units::Nanos;
use crate::units::Pid;

use super::spans::Moment;
use super::timeline::Fact;
use super::timeline::FileId;
use super::timeline::MappedFile;
use super::timeline::Mapping;

/// Where dumps come from that are not in the recording.
pub trait JitDumps {
    /// The dump that `file` is, if it is the one that was mapped.
    fn jitdump(&self, file: &ModuleFile) -> Option<JitDump>;
}

/// No dumps but those in the recording.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoDumps;

impl JitDumps for NoDumps {
    fn jitdump(&self, _file: &ModuleFile) -> Option<JitDump> {
        None
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
}

impl Adding<'_> {
    /// Adds the code that processes told of, and returns it by the numbers that its mappings have.
    pub(super) fn add(self) -> Vec<JitCode> {
        let Self { facts, files, messages, dumps, clock } = self;
        let mut codes = Vec::new();
        let mut found = Vec::new();
        for (pid, (moment, file)) in markers(facts, files) {
            if let Some(dump) = dump_of(pid, file, files, messages, dumps) {
                found.push((pid, moment, file, dump));
            }
        }
        keep_clear(facts, files, &found.iter().map(|it| it.0).collect());
        for (pid, moment, file, dump) in found {
            if dump.n_bad != 0 {
                tracing::debug!(%pid, dump.n_bad, "odd records in a jitdump");
            }
            let is_timed = dump.is_monotonic && clock != Clock::Unknown;
            let unshared: Vec<&JitCode> = if is_timed { Vec::new() } else { dump.unshared() };
            let timed = dump.codes.iter().filter(|_| is_timed);
            let added = timed.chain(unshared).filter_map(|code| {
                // Without a time it holds as long as the dump was there.
                let time = if is_timed { clock.recorded(code.time)? } else { moment.time };
                let jit_code = (!code.name.is_empty()).then(|| {
                    codes.push(code.clone());
                    u32::try_from(codes.len() - 1).ok()
                });
                let (start, end) = (code.start.0, code.end.0);
                let mapping = Mapping {
                    file,
                    bias: 0,
                    jit_pid: pid,
                    jit_code: jit_code.flatten(),
                    is_kernel: false,
                    is_executable: true,
                };
                Some((
                    Moment { time, position: moment.position },
                    Fact::Code { pid, start, end, mapping },
                ))
            });
            facts.extend(added);
        }
        if !codes.is_empty() {
            facts.sort_by_key(|(moment, _)| *moment);
        }
        codes
    }
}

/// The first mapping of a dump by each process.
fn markers(facts: &[(Moment, Fact)], files: &[MappedFile]) -> BTreeMap<Pid, (Moment, FileId)> {
    let mut markers = BTreeMap::new();
    for (moment, fact) in facts {
        if let Fact::Map { pid: Some(pid), mapping, .. } = fact
            && mapping.is_executable
            && files.get(mapping.file.0 as usize).is_some_and(|it| is_dump(&it.path))
        {
            markers.entry(*pid).or_insert((*moment, mapping.file));
        }
    }
    markers
}

/// Whether a JIT compiler maps a file by this name to show that it writes there: `jit-PID.dump`.
///
/// Source: `jit_detect()` in `tools/perf/util/jitdump.c`.
fn is_dump(path: &[u8]) -> bool {
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    let name = path.rsplit(|it| *it == b'/').next().unwrap_or_default();
    let number = name.strip_prefix(b"jit-").and_then(|it| it.strip_suffix(b".dump"));
    number.is_some_and(|it| !it.is_empty() && it.iter().all(u8::is_ascii_digit))
}

/// The dump of a process: the one in the recording, or the one that its mapping leads to.
fn dump_of(
    pid: Pid,
    file: FileId,
    files: &[MappedFile],
    messages: &[Message],
    dumps: &dyn JitDumps,
) -> Option<JitDump> {
    let saved = messages.iter().find_map(|it| match it {
        Message::File(saved) if saved.facts.what == FileFacts::JITDUMP => {
            (saved.facts.pid == pid.0).then_some(saved)?.content()
        }
        _ => None,
    });
    match saved {
        Some(bytes) => JitDump::parse(&bytes)
            .inspect_err(|error| tracing::debug!(%pid, %error, "no code"))
            .ok(),
        None => dumps.jitdump(&files.get(file.0 as usize)?.to_find()),
    }
}

/// Drops mappings of these processes' memory where they had such before: as a compiler makes its memory
/// writable and back again the kernel tells of it each time, and the code stays.
///
/// perf drops all of them: `jit_process()` in `tools/perf/util/jitdump.c`.
fn keep_clear(facts: &mut Vec<(Moment, Fact)>, files: &[MappedFile], pids: &BTreeSet<Pid>) {
    if pids.is_empty() {
        return;
    }
    let mut known: BTreeMap<Pid, Ranges> = BTreeMap::new();
    facts.retain(|(_, fact)| match fact {
        Fact::Map { pid: Some(pid), start, end, mapping } if pids.contains(pid) => {
            let path = files.get(mapping.file.0 as usize).map_or(&b""[..], |it| &it.path);
            if path.starts_with(b"/memfd:") {
                // The same memory is mapped elsewhere to be written.
                return false;
            }
            let is_memory = mapping.jit_pid == *pid;
            let known = known.entry(*pid).or_default();
            if is_memory { known.add(*start, *end) } else { known.remove(*start, *end) }
        }
        Fact::Comm { pid, is_exec: true, .. } => {
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
    use super::super::timeline::Owner;
    use super::super::timeline::Timeline;
    use super::*;
    use crate::perfdata::private::Clocks;
    use crate::symbols::Inode;
    use crate::units::Addr;

    fn map(position: u64, (start, end): (u64, u64), file: u32, pid: i32) -> (Moment, Fact) {
        let mapping = Mapping {
            file: FileId(file),
            bias: 0,
            jit_pid: Pid(if file == 0 { pid } else { 0 }),
            jit_code: None,
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
        keep_clear(&mut facts, &files(), &BTreeSet::from([Pid(7)]));
        let kept: Vec<u64> = facts.iter().map(|it| it.0.position).collect();
        assert_eq!(kept, [1, 2, 4, 5, 7, 8]);
    }

    /// One dump for whoever asks.
    struct Dump(JitDump);

    impl JitDumps for Dump {
        fn jitdump(&self, file: &ModuleFile) -> Option<JitDump> {
            assert_eq!(file.path, std::path::Path::new("/tmp/jit-7.dump"));
            Some(self.0.clone())
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
        let adding =
            Adding { facts: &mut facts, files: &files, messages: &[], dumps: &dump, clock };
        let codes = adding.add();
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
        let later = vec![ClockReading { recorded_ns: 5, monotonic_ns: 0 }];
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
        assert_eq!(markers[&Pid(7)].0.position, 2);
        for path in ["/a/jit-1.dump", "jit-12.dump", "/x/jit-3.dump (deleted)"] {
            assert!(is_dump(path.as_bytes()), "{path}");
        }
        for path in ["/a/jit-.dump", "jit-1.dumps", "/jit-x.dump", "/ajit-1.dump", ""] {
            assert!(!is_dump(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn times_are_compared_by_moments_on_both_clocks() {
        let reading = |recorded_ns, monotonic_ns| ClockReading { recorded_ns, monotonic_ns };
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
        let told = [Message::Clocks(Clocks { readings: vec![reading(1, 2)] })];
        assert_eq!(Clock::new(None, &told), Clock::Read(vec![reading(1, 2)]));
        assert_eq!(Clock::new(Some(0), &told), Clock::Unknown);
        assert_eq!(Clock::Unknown.recorded(Nanos(7)), None);
    }
}
