//! Records and sections made by hand, and the programs that they come to.

use super::join::own_name;
use super::testing::Tape;
use super::testing::name;
use super::*;
use crate::perfdata::Endian;
use crate::perfdata::private;
use crate::perfdata::private::Message;

const A: u64 = 0xffff_ffff_c000_0000;
const B: u64 = A + 0x100;
const C: u64 = A + 0x200;

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
fn a_function_of_a_program_is_found_by_address_in_whatever_order_they_lie() {
    Tape::new()
        .symbol(0, 0, B, &name(1, "main"))
        .symbol(0, 0, A, &name(2, "sub"))
        .load(0, 0, 7, 1)
        .check(|programs, _| {
            let found = |addr| {
                let function = programs.function_of(ProgramIdx(0), Addr(addr));
                function.map(|it| it.idx)
            };
            let [main, sub] = &programs.all()[0].functions[..] else { panic!("two functions") };
            assert_eq!([A, A + 5, B, B + 5].map(found), [Some(1), Some(1), Some(0), Some(0)]);
            assert_eq!([main.end.0, sub.end.0, A - 1].map(found), [None; 3]);
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
fn a_program_that_was_read_when_it_went_has_the_runs_up_to_then() {
    Tape::new()
        .message(reading(1000, &[(1, 10, 500), (2, 7, 70), (4, 1, 1)]))
        .message(reading(2000, &[(1, 12, 600), (2, 7, 70)]))
        .message(reading(3000, &[]))
        .check(|programs, _| {
            let costs: Vec<_> = programs.all().iter().map(|it| it.cost.map(|it| it.runs)).collect();
            assert_eq!(costs, [Some(2), Some(0)]);
        });
}

#[test]
fn events_that_attach_a_program_without_a_link_are_all_kept() {
    let event = |target: &str| private::LinkState {
        kind: "perf_event".into(),
        target: Some(target.into()),
        ..private::LinkState::default()
    };
    let state = |links: &[private::LinkState]| {
        let (id, links) = (7, links.to_vec());
        Message::Program(private::ProgramState { id, links, ..private::ProgramState::default() })
    };
    Tape::new()
        .message(state(&[event("one"), event("two")]))
        .message(state(&[event("two"), event("three")]))
        .check(|programs, _| {
            let links = programs.all()[0].state.links.iter();
            let targets: Vec<_> = links.map(|it| it.target.as_deref().unwrap()).collect();
            assert_eq!(targets, ["one", "three", "two"]);
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
