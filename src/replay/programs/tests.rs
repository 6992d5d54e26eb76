//! Records and sections made by hand, and the programs that they come to.

use rustc_hash::FxHashMap;

use super::join::Input;
use super::join::join;
use super::join::own_name;
use super::*;
use crate::perfdata::BpfEvent;
use crate::perfdata::BpfMetadata;
use crate::perfdata::Cursor;
use crate::perfdata::Endian;
use crate::perfdata::SampleId;
use crate::perfdata::feature::Feature;
use crate::perfdata::private;
use crate::perfdata::private::Message;
use crate::replay::timeline::Fact;
use crate::replay::timeline::KernelSymbol;
use crate::units::FileOffset;

const A: u64 = 0xffff_ffff_c000_0000;
const B: u64 = A + 0x100;
const C: u64 = A + 0x200;

/// A recording as it is written; each record of the kernel is by thread `tid` at `time`, 0 for what
/// is synthesized.
struct Tape {
    endian: Endian,
    symbols: Vec<(SampleId, u64, KernelSymbol)>,
    gone: Vec<(SampleId, u64, u64)>,
    notes: Notes,
    infos: Vec<Vec<u8>>,
    at: u64,
}

impl Tape {
    fn new() -> Self {
        let (symbols, gone, infos) = (Vec::new(), Vec::new(), Vec::new());
        Self { endian: Endian::Little, symbols, gone, notes: Notes::default(), infos, at: 0x100 }
    }

    fn next(&mut self, time: u64, tid: i32) -> (FileOffset, SampleId) {
        self.at += 0x40;
        let time = Some(Nanos(time)).filter(|it| *it != Nanos(0));
        let task = Some((Pid(tid - tid % 10), Tid(tid)));
        (FileOffset(self.at), SampleId { task, time, ..SampleId::default() })
    }

    fn symbol(&mut self, time: u64, tid: i32, start: u64, name: &str) -> &mut Self {
        let (at, id) = self.next(time, tid);
        let symbol = KernelSymbol { name: name.into(), start, end: start + 0x80 };
        self.symbols.push((id, at.0, symbol));
        self.notes.register(at, id);
        self
    }

    fn gone(&mut self, time: u64, start: u64) -> &mut Self {
        let (at, id) = self.next(time, 0);
        self.gone.push((id, at.0, start));
        self.notes.unregister(at, id, start);
        self
    }

    fn event(&mut self, kind: u16, time: u64, tid: i32, id: u32, tag: u8) -> &mut Self {
        let (at, trailer) = self.next(time, tid);
        let event = BpfEvent { kind, flags: 0, id: ProgId(id), tag: self::tag(tag) };
        self.notes.event(at, trailer, event);
        self
    }

    fn load(&mut self, time: u64, tid: i32, id: u32, tag: u8) -> &mut Self {
        self.event(BpfEvent::PROG_LOAD, time, tid, id, tag)
    }

    fn unload(&mut self, time: u64, id: u32, tag: u8) -> &mut Self {
        self.event(BpfEvent::PROG_UNLOAD, time, 0, id, tag)
    }

    fn metadata(&mut self, name: &str, key: &str, value: &str) -> &mut Self {
        let (at, _) = self.next(0, 0);
        let entries = [(key.as_bytes(), value.as_bytes())];
        let body = BpfMetadata::encode_entries(name.as_bytes(), entries.into_iter());
        let mut cursor = Cursor::new(&body, at, Endian::NATIVE);
        self.notes.metadata(at, &BpfMetadata::decode(&mut cursor).unwrap());
        self
    }

    fn other(&mut self) -> &mut Self {
        self.notes.other();
        self
    }

    fn message(&mut self, message: Message) -> &mut Self {
        self.notes.message(message);
        self
    }

    /// Info of a program named `name` with functions at `functions`, each with its own tag.
    fn info(&mut self, id: u32, load_time: u64, tag: u8, functions: &[(u64, u8)]) -> &mut Self {
        let endian = self.endian;
        let n = u32::try_from(functions.len()).unwrap();
        let mut info = vec![0; 232];
        let mut put = |at: usize, bytes: &[u8]| info[at..at + bytes.len()].copy_from_slice(bytes);
        let word = |it: u32| order(endian, &it.to_le_bytes());
        let long = |it: u64| order(endian, &it.to_le_bytes());
        put(0, &word(17));
        put(4, &word(id));
        put(8, &self::tag(tag).0);
        put(40, &long(load_time));
        put(64, b"info_name");
        for count in [104, 108, 180] {
            put(count, &word(n));
        }
        let lens_at = 8 * u64::from(n);
        let tags_at = lens_at + (4 * u64::from(n)).next_multiple_of(8);
        put(120, &long(lens_at));
        put(184, &long(tags_at));
        let mut data: Vec<u8> = functions.iter().flat_map(|it| long(it.0)).collect();
        data.extend(functions.iter().flat_map(|_| word(0x80)));
        data.resize(usize::try_from(tags_at).unwrap(), 0);
        data.extend(functions.iter().flat_map(|it| self::tag(it.1).0));
        let len = |it: &Vec<u8>| word(u32::try_from(it.len()).unwrap());
        let arrays = 1 << 3 | 1 << 4 | 1 << 8;
        self.infos.push([len(&info), len(&data), long(arrays), info, data].concat());
        self
    }

    /// Hands the programs, and the timeline, to `check`.
    fn check(&mut self, check: impl FnOnce(&Programs<'_>, &Timeline)) {
        let moment = |id: &SampleId, at| Moment { time: id.time.unwrap_or_default(), position: at };
        let mut facts: Vec<(Moment, Fact)> = Vec::new();
        for (id, at, symbol) in &self.symbols {
            facts.push((moment(id, *at), Fact::Register(symbol.clone())));
        }
        for (id, at, start) in &self.gone {
            facts.push((moment(id, *at), Fact::Unregister(*start)));
        }
        facts.sort_by_key(|(moment, _)| *moment);
        let registered = facts.iter().filter(|(_, it)| matches!(it, Fact::Register(_)));
        let numbers: FxHashMap<u64, u32> =
            registered.zip(0..).map(|((moment, _), idx)| (moment.position, idx)).collect();
        self.notes.number(&numbers);
        let timeline = Timeline::new(facts, vec![]);
        let n = u32::try_from(self.infos.len()).unwrap().to_le_bytes();
        let infos = Feature::BpfProgInfo([order(self.endian, &n), self.infos.concat()].concat());
        let programs = join(&Input {
            endian: self.endian,
            features: vec![&infos],
            ksymbols: timeline.ksymbols(),
            notes: &self.notes,
            comm: &|(pid, _), _| Some(format!("comm-{pid}").into_bytes()),
        });
        check(&programs, &timeline);
    }
}

fn order(endian: Endian, little: &[u8]) -> Vec<u8> {
    let mut bytes = little.to_vec();
    if endian == Endian::Big {
        bytes.reverse();
    }
    bytes
}

fn tag(it: u8) -> BpfTag {
    BpfTag([it; 8])
}

fn name(tag: u8, name: &str) -> String {
    format!("bpf_prog_{}_{name}", self::tag(tag))
}

/// Id, name, and from when to when each of `programs` was there.
fn lives<'p>(programs: &'p Programs<'_>) -> Vec<(u32, &'p str, Option<u64>, Option<u64>)> {
    let life = |it: &'p Program<'_>| {
        let name = std::str::from_utf8(&it.name).unwrap();
        let [loaded, unloaded] = [it.loaded, it.unloaded].map(|it| it.map(|it| it.0));
        (it.id.map_or(0, |it| it.0), name, loaded, unloaded)
    };
    programs.all().iter().map(life).collect()
}

/// The id of the program at an address at a time, and which of its functions that is.
fn at(programs: &Programs<'_>, timeline: &Timeline, addr: u64, time: u64) -> Option<(u32, usize)> {
    let moment = Moment { time: Nanos(time), position: u64::MAX };
    let FunctionId { program, function } = programs.function_at(timeline, Addr(addr), moment)?;
    let program = programs.program(program);
    Some((program.id.map_or(0, |it| it.0), program.functions[function as usize].idx))
}

#[test]
fn what_was_there_before_has_no_time_and_what_came_meanwhile_has_two() {
    Tape::new()
        .symbol(0, 0, A, &name(1, "before"))
        .load(0, 0, 7, 1)
        .symbol(50, 21, B, &name(2, "meanwhile"))
        .load(51, 21, 8, 2)
        .gone(90, B)
        .unload(91, 8, 2)
        .check(|programs, timeline| {
            let want = [(7, "before", None, None), (8, "meanwhile", Some(51), Some(91))];
            assert_eq!(lives(programs), want);
            let loader = programs.all()[1].loader.clone().unwrap();
            assert_eq!((loader.pid, loader.comm.as_slice()), (Pid(20), &b"comm-20"[..]));
            assert_eq!(programs.all()[0].loader, None);
            assert_eq!(at(programs, timeline, A + 5, 1), Some((7, 0)));
            assert_eq!(at(programs, timeline, B + 5, 60), Some((8, 0)));
            assert_eq!(at(programs, timeline, B + 5, 95), None);
        });
}

#[test]
fn loads_of_two_threads_at_once_keep_their_functions_apart() {
    Tape::new()
        .symbol(50, 21, A, &name(1, "one"))
        .symbol(51, 31, B, &name(2, "two"))
        .symbol(52, 21, C, &name(3, "one_sub"))
        .load(53, 31, 8, 2)
        .load(54, 21, 7, 1)
        .check(|programs, timeline| {
            let got = [A, B, C].map(|it| at(programs, timeline, it, 60));
            assert_eq!(got, [Some((7, 0)), Some((8, 0)), Some((7, 1))]);
        });
}

#[test]
fn a_program_met_at_the_start_and_live_is_one() {
    Tape::new()
        .symbol(0, 0, A, &name(9, "both"))
        .symbol(0, 0, B, &name(2, "sub"))
        .load(0, 0, 7, 1)
        .symbol(50, 21, A, &name(1, "both"))
        .symbol(50, 21, B, &name(2, "sub"))
        .load(51, 21, 7, 1)
        .check(|programs, timeline| {
            assert_eq!(lives(programs), [(7, "both", Some(51), None)]);
            assert_eq!(at(programs, timeline, A, 1), Some((7, 0)));
            assert_eq!(at(programs, timeline, B, 60), Some((7, 1)));
        });
}

#[test]
fn a_reused_address_and_a_reused_id_are_other_programs() {
    for endian in [Endian::Little, Endian::Big] {
        let mut tape = Tape::new();
        tape.endian = endian;
        tape.info(7, 2000, 2, &[(A, 2)])
            .info(7, 1000, 1, &[(A, 1)])
            .symbol(0, 0, A, &name(1, "first"))
            .load(0, 0, 7, 1)
            .gone(20, A)
            .unload(21, 7, 1)
            .symbol(30, 21, A, &name(2, "second"))
            .load(31, 21, 7, 2)
            .check(|programs, timeline| {
                let want = [(7, "first", None, Some(21)), (7, "second", Some(31), None)];
                assert_eq!(lives(programs), want);
                let times: Vec<_> = programs.all().iter().map(|it| it.load_time_ns).collect();
                assert_eq!(times, [Some(1000), Some(2000)]);
                let which = |time| {
                    let moment = Moment { time: Nanos(time), position: 0 };
                    programs.function_at(timeline, Addr(A), moment).map(|it| it.program.0)
                };
                assert_eq!([10, 25, 40].map(which), [Some(0), None, Some(1)]);
                assert_eq!(programs.all()[0].type_name(), Some("raw_tracepoint"));
            });
    }
}

#[test]
fn the_same_program_loaded_twice_is_two() {
    Tape::new()
        .info(7, 1000, 1, &[(A, 1)])
        .info(8, 2000, 1, &[(B, 1)])
        .symbol(0, 0, A, &name(1, "same"))
        .load(0, 0, 7, 1)
        .metadata(&name(1, "same"), "owner", "net")
        .symbol(0, 0, B, &name(1, "same"))
        .load(0, 0, 8, 1)
        .metadata(&name(1, "same"), "owner", "sec")
        .other()
        // Of whom this is nobody knows.
        .metadata(&name(1, "same"), "lost", "x")
        .check(|programs, timeline| {
            assert_eq!(at(programs, timeline, A, 1), Some((7, 0)));
            assert_eq!(at(programs, timeline, B, 1), Some((8, 0)));
            let owners: Vec<_> = programs.all().iter().map(|it| it.metadata("owner")).collect();
            assert_eq!(owners, [Some("net"), Some("sec")]);
            assert!(programs.all().iter().all(|it| it.metadata("lost").is_none()));
        });
}

#[test]
fn metadata_in_perfs_spelling_finds_its_program() {
    // perf names function 0 by its own tag, in what it synthesizes and in late metadata.
    Tape::new()
        .info(8, 2000, 1, &[(A, 9), (B, 2)])
        .symbol(50, 21, A, &name(1, "main"))
        .symbol(50, 21, B, &name(2, "sub"))
        .load(51, 21, 8, 1)
        .other()
        .metadata(&name(9, "main"), "owner", "net")
        .metadata(&name(2, "sub"), "team", "x")
        .check(|programs, _| {
            let program = &programs.all()[0];
            assert_eq!(
                [program.metadata("owner"), program.metadata("team")],
                [Some("net"), Some("x")]
            );
        });
    // Without info, only its place can tell.
    Tape::new()
        .symbol(0, 0, A, &name(9, "main"))
        .symbol(0, 0, B, &name(2, "sub"))
        .load(0, 0, 8, 1)
        .metadata(&name(9, "main"), "owner", "net")
        .metadata(&name(2, "sub"), "owner", "net")
        .check(|programs, timeline| {
            assert_eq!(programs.all()[0].metadata, [("owner".to_owned(), "net".to_owned())]);
            assert_eq!(at(programs, timeline, B, 1), Some((8, 1)));
        });
}

#[test]
fn info_decides_over_what_another_thread_wrote_in_between() {
    // Nothing tells the threads apart.
    Tape::new()
        .info(7, 1000, 1, &[(A, 1)])
        .info(8, 2000, 2, &[(B, 2), (C, 3)])
        .symbol(50, 0, A, &name(1, "one"))
        .symbol(51, 0, B, &name(2, "two"))
        .symbol(52, 0, C, &name(3, "two_sub"))
        .load(53, 0, 7, 1)
        .load(54, 0, 8, 2)
        .check(|programs, timeline| {
            let got = [A, B, C].map(|it| at(programs, timeline, it, 60));
            assert_eq!(got, [Some((7, 0)), Some((8, 0)), Some((8, 1))]);
        });
}

#[test]
fn a_symbol_without_an_event_belongs_to_the_one_program_whose_info_has_it_or_stands_alone() {
    Tape::new()
        .info(7, 1000, 1, &[(A, 1)])
        .symbol(50, 21, A, &name(1, "known"))
        .symbol(51, 21, B, &name(2, "stray"))
        .symbol(52, 21, C, "bpf_prog_odd")
        .check(|programs, timeline| {
            let want = [(7, "known", Some(50), None), (0, "stray", Some(51), None)];
            assert_eq!(lives(programs), want);
            assert_eq!(at(programs, timeline, A, 60), Some((7, 0)));
            assert_eq!(at(programs, timeline, B, 60), Some((0, 0)));
            assert_eq!(at(programs, timeline, C, 60), None);
        });
}

#[test]
fn info_alone_is_a_program() {
    Tape::new().info(7, 1000, 1, &[(A, 1)]).check(|programs, _| {
        assert_eq!(lives(programs), [(7, "info_name", None, None)]);
        assert_eq!(programs.all()[0].functions[0].start, Addr(A));
    });
}

#[test]
fn private_messages_are_joined_by_id_and_time_of_load() {
    let state = |load_time_ns, comm: &str| {
        let holder = private::Holder { pid: 3, comm: comm.into(), via: "link".into() };
        Message::Program(private::ProgramState {
            id: 7,
            load_time_ns,
            holders: vec![holder],
            ..private::ProgramState::default()
        })
    };
    let metadata = Message::Metadata(private::ProgramMetadata {
        id: 7,
        load_time_ns: 1000,
        entries: vec![("owner".into(), "whole".into())],
    });
    Tape::new()
        .info(7, 1000, 1, &[(A, 1)])
        .info(7, 2000, 1, &[(B, 1)])
        .symbol(0, 0, A, &name(1, "first"))
        .load(0, 0, 7, 1)
        .metadata(&name(1, "first"), "owner", "cut")
        .unload(21, 7, 1)
        .symbol(30, 21, B, &name(1, "second"))
        .load(31, 21, 7, 1)
        .message(state(2000, "late"))
        .message(state(1000, "early"))
        .message(state(1000, "early"))
        .message(state(0, "of whom is not told"))
        .message(state(3000, "neither"))
        .message(metadata)
        .check(|programs, _| {
            let holders = |idx: usize| {
                let holders = &programs.all()[idx].state.holders;
                holders.iter().map(|it| it.comm.as_str()).collect::<Vec<_>>()
            };
            assert_eq!(holders(0), ["early"]);
            assert_eq!(holders(1), ["late"]);
            assert_eq!(programs.all()[2].load_time_ns, Some(3000));
            assert_eq!(programs.all()[0].metadata("owner"), Some("whole"));
            assert_eq!(programs.all()[0].owner().unwrap().comm, b"early");
        });
}

fn reading(boot_ns: u64, programs: &[(u32, u64, u64)]) -> Message {
    let program = |&(id, run_cnt, run_time_ns): &(u32, u64, u64)| private::ProgramRuns {
        id,
        load_time_ns: u64::from(id),
        run_cnt,
        run_time_ns,
        recursion_misses: 0,
    };
    let programs = programs.iter().map(program).collect();
    Message::Runs(private::Runs { boot_ns, counted: true, programs })
}

#[test]
fn runs_are_those_between_the_readings() {
    Tape::new()
        .message(reading(1000, &[(1, 10, 500), (2, 7, 70)]))
        .message(reading(3000, &[(1, 14, 900), (3, 5, 50)]))
        .check(|programs, _| {
            let cost = |idx: usize| programs.all()[idx].cost.map(|it| (it.runs, it.run_time_ns));
            assert_eq!(programs.runs().map(|it| it.elapsed_ns()), Some(2000));
            // Of the one that is gone nothing is known, and it is in the list by the first alone.
            assert_eq!(programs.all().len(), 2);
            assert_eq!([cost(0), cost(1)], [Some((4, 400)), Some((5, 50))]);
        });
}

#[test]
fn counters_that_stood_still_or_went_backwards_say_nothing() {
    Tape::new()
        .message(reading(1000, &[(1, 10, 500)]))
        .message(reading(3000, &[(1, 4, 900)]))
        .check(|programs, _| assert_eq!(programs.all()[0].cost, None));
    let stopped = Message::Runs(private::Runs { boot_ns: 9, ..private::Runs::default() });
    Tape::new().message(stopped).message(reading(3000, &[(1, 4, 900)])).check(|programs, _| {
        assert_eq!(programs.runs().map(|it| it.counted), Some(false));
        assert!(programs.all().is_empty());
    });
}

#[test]
fn damage_costs_the_entry_and_is_counted() {
    let mut tape = Tape::new();
    tape.info(7, 1000, 1, &[(A, 1)]).info(8, 1000, 1, &[(B, 1)]);
    let whole = tape.infos[1].len();
    for len in 0..whole {
        tape.infos[1].truncate(whole - 1 - len);
        tape.check(|programs, _| {
            assert_eq!(programs.n_damaged(), 1);
            assert_eq!(programs.all().len(), 1);
        });
    }
}

#[test]
fn the_name_of_a_symbol_has_a_tag_and_may_have_a_name_of_its_own() {
    #[track_caller]
    fn check(symbol: &str, want: Option<&str>) {
        let got = own_name(symbol.as_bytes()).map(|(_, it)| std::str::from_utf8(it).unwrap());
        assert_eq!(got, want);
    }
    check("bpf_prog_0123456789abcdef_x_y", Some("x_y"));
    check("bpf_prog_0123456789abcdef", Some(""));
    check("bpf_prog_0123456789abcdefx", None);
    check("bpf_prog_+123456789abcdef_x", None);
    check("bpf_prog_0123", None);
    check("bpf_trampoline_0123456789abcdef", None);
}
