//! What filters keep, on a machine that is made up, and against a reading of the expression.

use super::super::kernel;
use super::super::machine::CHAIN_AT;
use super::super::machine::DROPPED;
use super::super::machine::HEAD;
use super::super::machine::Machine;
use super::super::machine::SAMPLE_AT;
use super::super::machine::TABLES;
use super::super::machine::TASK;
use super::super::machine::VIEW_AT;
use super::*;

const ALL: SampleType = SampleType::all();
const N_SLOTS: u32 = 16;

/// The programs of the tests: where each lies.
const RANGES: [(u64, u64); 3] = [
    (0xffff_ffff_c000_1000, 0xffff_ffff_c000_1040),
    (0xffff_ffff_c000_1080, 0xffff_ffff_c000_2000),
    (0xffff_ffff_ffff_0000, 0xffff_ffff_ffff_0001),
];

fn sample_type(without: SampleType) -> SampleType {
    ALL - SampleType::WEIGHT - without
}

fn parse(filter: &str) -> Expr {
    sample_filter::parse(filter, &|_| Ok(7)).unwrap()
}

fn tables() -> Vec<TableMaps> {
    vec![TableMaps { programs: Program::Any, head: HEAD, tables: TABLES, n_slots: N_SLOTS }]
}

fn new_kernel() -> Kernel {
    let sample = Ok(kernel::tests::sample());
    Kernel { sample, task: Some(TASK), is_first_namespace: true }
}

fn old_kernel(is_first_namespace: bool) -> Kernel {
    Kernel { sample: Err(Hidden::NotPrepared), task: None, is_first_namespace }
}

fn made(expr: &Expr, kernel: &Kernel, sample_type: SampleType) -> Result<Vec<Insn>, Error> {
    let tables = tables();
    let given =
        Given { kernel, sample_type, is_probe: false, dropped: Some(DROPPED), tables: &tables };
    generate(expr, given)
}

/// A machine with a sample in it: in the kernel, of the thread 12 of the process 11.
fn machine() -> Machine {
    let mut it = Machine::new();
    let view = VIEW.unwrap();
    let at = |base: u64, offset: i16| base.checked_add_signed(offset.into()).unwrap();
    let sample = kernel::tests::sample();
    let ip = 0xffff_ffff_8100_0010_u64;
    let fields = [
        (Field::Ip, ip),
        (Field::Id, 3),
        (Field::Time, 1_000_000_000_000),
        (Field::Addr, 0x7fff_0000_1000),
        (Field::Period, 4000),
        (Field::Transaction, 0x21),
        (Field::Weight, 3 << 48 | 2 << 32 | 1),
        // store, ram, fwd and hit, locked, l2 miss, remote, by_data, hops1.
        (
            Field::DataSource,
            4 | 4 << 19 | 2 << 24 | 0x14 << 26 | 0xd << 33 | 1 << 37 | 1 << 38 | 2 << 40 | 2 << 43,
        ),
        (Field::PhysAddr, 0x1_0000_2000),
        (Field::CodePageSize, 4096),
        (Field::DataPageSize, 2 << 20),
        (Field::CallChain, CHAIN_AT),
    ];
    for (field, value) in fields {
        it.write(at(SAMPLE_AT, sample.offset(field).unwrap()), &value.to_ne_bytes());
    }
    it.write(at(SAMPLE_AT, sample.offset(Field::Pid).unwrap()), &11_u32.to_ne_bytes());
    it.write(at(SAMPLE_AT, sample.offset(Field::Tid).unwrap()), &12_u32.to_ne_bytes());
    it.write(at(VIEW_AT, view.ip), &ip.to_ne_bytes());
    it.write(
        at(VIEW_AT, view.level),
        &(if view.user_is_zero { 5_u64 } else { 0x10 }).to_ne_bytes(),
    );
    it.write(at(VIEW_AT, view.period), &4000_u64.to_ne_bytes());
    it.write(at(VIEW_AT, view.addr), &0x7fff_0000_1000_u64.to_ne_bytes());
    it.comm[..9].copy_from_slice(b"kworker/0");
    it.cpu = 5;
    it.pid_tgid = (11 << 32) + 12;
    it.uid_gid = (100 << 32) + 1000;
    it.cgroup = 7;
    it.map(HEAD, 24, 24);
    it.map(TABLES, 0, 2 * (N_SLOTS * SLOT_LEN) as usize);
    it.write_map(TABLES, 0, &[0xff; 2 * (N_SLOTS * SLOT_LEN) as usize]);
    it
}

/// Where the instruction is.
fn put_ip(it: &mut Machine, ip: u64) {
    let offset = kernel::tests::sample().offset(Field::Ip).unwrap();
    it.write(SAMPLE_AT.checked_add_signed(offset.into()).unwrap(), &ip.to_ne_bytes());
}

fn put_chain(it: &mut Machine, chain: &[u64]) {
    let words = std::iter::once(chain.len() as u64).chain(chain.iter().copied());
    it.write(CHAIN_AT, &words.flat_map(u64::to_ne_bytes).collect::<Vec<_>>());
}

/// Lets the second table hold, with the programs of the tests.
fn put_programs(it: &mut Machine) {
    let words = RANGES.iter().flat_map(|it| [it.0, it.1]).flat_map(u64::to_ne_bytes);
    it.write_map(TABLES, u64::from(N_SLOTS * SLOT_LEN), &words.collect::<Vec<_>>());
    let (first, last) = (RANGES[0].0, RANGES[2].1);
    it.write_map(HEAD, 0, &[1, first, last - first].map(u64::to_ne_bytes).concat());
}

#[track_caller]
fn keeps(filter: &str, want: bool) {
    keeps_on(&mut machine(), filter, want);
}

#[track_caller]
fn keeps_on(machine: &mut Machine, filter: &str, want: bool) {
    let insns = made(&parse(filter), &new_kernel(), sample_type(SampleType::CALLCHAIN)).unwrap();
    assert_eq!(machine.run(&insns), u64::from(want), "{filter}");
    assert_eq!(machine.n_dropped(), u64::from(!want), "{filter}");
}

#[test]
fn each_operator_compares_without_a_sign() {
    for (operator, less, same, more) in [
        ("==", false, true, false),
        ("!=", true, false, true),
        (">", false, false, true),
        (">=", false, true, true),
        ("<", true, false, false),
        ("<=", true, true, false),
    ] {
        keeps(&format!("period {operator} 4001"), less);
        keeps(&format!("period {operator} 4000"), same);
        keeps(&format!("period {operator} 3999"), more);
        // What takes more than 31 bits is another instruction.
        keeps(&format!("time {operator} 1000000000001"), less);
        keeps(&format!("time {operator} 1000000000000"), same);
        keeps(&format!("time {operator} 999999999999"), more);
        keeps(&format!("ip {operator} 0xffffffffffffffff"), less);
        keeps(&format!("ip {operator} 1"), more);
    }
    keeps("txn & 0x20", true);
    keeps("txn & 0x5e", false);
    keeps("phys_addr & 0x100000000", true);
}

#[test]
fn each_term_is_read_from_its_place() {
    for (term, value) in [
        ("ip", 0xffff_ffff_8100_0010),
        ("id", 3),
        ("tid", 12),
        ("pid", 11),
        ("cpu", 5),
        ("time", 1_000_000_000_000),
        ("addr", 0x7fff_0000_1000),
        ("period", 4000),
        ("txn", 0x21),
        ("weight", 1),
        ("weight1", 1),
        ("weight2", 2),
        ("ins_lat", 2),
        ("weight3", 3),
        ("retire_lat", 3),
        ("p_stage_cyc", 3),
        ("phys_addr", 0x1_0000_2000),
        ("code_pgsz", 4096),
        ("data_pgsz", 2 << 20),
        ("uid", 1000),
        ("gid", 100),
        ("cgroup", 7_u64),
    ] {
        keeps(&format!("{term} == {value}"), true);
        keeps(&format!("{term} == {}", value - 1), false);
    }
    for (term, word, value) in [
        ("mem_op", "store", 4),
        ("mem_lvl", "ram", 0xd),
        ("mem_snoop", "36", 0x24),
        ("mem_remote", "remote", 1),
        ("mem_lock", "locked", 2),
        ("mem_dtlb", "l2_miss", 0x14),
        ("mem_blk", "by_data", 2),
        ("mem_hops", "hops1", 2),
    ] {
        keeps(&format!("{term} == {word}"), true);
        keeps(&format!("{term} == {}", value - 1), false);
    }
    keeps("mem_snoop & fwd, mem_snoop & hit", true);
    keeps("mem_snoop & peer || mem_snoop & miss", false);
}

#[test]
fn the_weight_in_one_number_is_the_whole_of_it() {
    let expr = parse("weight == 844433520066561");
    let one = SampleType::IP | SampleType::WEIGHT;
    let insns = made(&expr, &new_kernel(), one).unwrap();
    assert_eq!(machine().run(&insns), 1);
}

#[test]
fn names_are_compared_to_their_end_or_to_a_star() {
    for (filter, want) in [
        ("comm == kworker/0", true),
        ("comm == kworker/", false),
        ("comm == kworker/01", false),
        ("comm != kworker/0", false),
        ("comm != x", true),
        ("comm ~ kworker*", true),
        ("comm ~ kworker/0*", true),
        ("comm ~ *", true),
        ("comm ~ kworker/1*", false),
        ("comm ~ k?orker/?", true),
        ("comm ~ kworker/0?", false),
        ("comm ~ kworker/0?*", false),
        ("comm ~ ????????*", true),
        ("comm ~ ????????", false),
    ] {
        keeps(filter, want);
        let insns = made(&parse(filter), &old_kernel(true), sample_type(SampleType::empty()));
        assert_eq!(machine().run(&insns.unwrap()), u64::from(want), "{filter}");
    }
    let mut it = machine();
    it.comm = *b"123456789012345\0";
    keeps_on(&mut it.clone(), "comm == 123456789012345", true);
    keeps_on(&mut it, "comm ~ 12345678901234", false);
}

#[test]
fn the_level_says_where_the_instruction_is() {
    keeps("kernel", true);
    keeps("user", false);
    keeps("!user", true);
    let mut it = machine();
    let view = VIEW.unwrap();
    let user = if view.user_is_zero { 0_u64 } else { 0x33 };
    it.write(VIEW_AT.checked_add_signed(view.level.into()).unwrap(), &user.to_ne_bytes());
    keeps_on(&mut it.clone(), "kernel", false);
    keeps_on(&mut it, "user", true);
}

#[test]
fn alternatives_and_negations_nest() {
    keeps("pid == 1 || pid == 11, tid == 12", true);
    keeps("pid == 11 || pid == 1, tid == 13", false);
    keeps("!(pid == 11, tid == 12)", false);
    keeps("!(pid == 11, tid == 13)", true);
    keeps("!(pid == 1 || tid == 13) && cpu == 5", true);
    keeps("(pid == 1, cpu == 5) || (pid == 11, cpu == 5)", true);
    keeps("(pid == 1, cpu == 5) || (pid == 11, cpu == 4)", false);
}

#[test]
fn an_instruction_lies_in_a_program_from_its_first_byte_to_its_last() {
    let check = |ip: u64, want: bool| {
        let mut it = machine();
        put_ip(&mut it, ip);
        keeps_on(&mut it.clone(), "bpf_prog", false);
        put_programs(&mut it);
        keeps_on(&mut it.clone(), "bpf_prog", want);
        keeps_on(&mut it, "!bpf_prog", !want);
    };
    for (start, end) in RANGES {
        check(start - 1, false);
        check(start, true);
        check(end - 1, true);
        check(end, false);
    }
    check(0xffff_ffff_c000_1060, false);
    check(u64::MAX, false);
    check(0xffff_8000_0000_0000, false);
    check(0x5555_5555_0000, false);
}

#[test]
fn of_a_call_chain_one_frame_of_the_kernel_is_enough() {
    use crate::perfdata::callchain_context::KERNEL;
    use crate::perfdata::callchain_context::USER;
    let (outside, inside) = (0xffff_ffff_8100_0010, RANGES[1].0 + 8);
    let check = |ip: u64, chain: &[u64], want: bool| {
        let mut it = machine();
        put_programs(&mut it);
        put_ip(&mut it, ip);
        put_chain(&mut it, chain);
        let expr = parse("bpf_prog");
        let insns = made(&expr, &new_kernel(), sample_type(SampleType::empty())).unwrap();
        assert_eq!(it.clone().run(&insns), u64::from(want), "{chain:x?}");
        // Without call chains the instruction alone counts.
        let insns = made(&expr, &new_kernel(), sample_type(SampleType::CALLCHAIN)).unwrap();
        assert_eq!(it.run(&insns), u64::from(ip == inside));
    };
    check(outside, &[KERNEL, outside, inside, outside, USER, 0x1000], true);
    check(outside, &[KERNEL, outside, outside, USER, 0x1000], false);
    check(outside, &[], false);
    check(outside, &[KERNEL, inside], true);
    // What comes after the kernel's frames is no address of its.
    check(outside, &[KERNEL, outside, USER, inside], false);
    check(inside, &[], true);
    let mut long = vec![outside; 500];
    long.push(inside);
    check(outside, &long[..500], false);
    check(outside, &long, true);
}

#[test]
fn an_older_kernel_answers_what_helpers_and_registers_know() {
    let kernel = old_kernel(true);
    let made = |filter: &str| made(&parse(filter), &kernel, sample_type(SampleType::CALLCHAIN));
    for filter in [
        "pid == 11, tid == 12",
        "cpu == 5, uid == 1000, gid == 100",
        "comm ~ kw*",
        "ip > 1, addr == 0x7fff00001000, period == 4000, kernel",
    ] {
        assert_eq!(machine().run(&made(filter).unwrap()), 1, "{filter}");
    }
    for term in ["id", "time", "phys_addr", "mem_op", "mem_snoop", "weight"] {
        let error = made(&format!("{term} == 1")).unwrap_err();
        assert!(matches!(error, Error::Hidden { why: Hidden::NotPrepared, .. }), "{error:?}");
    }
    let mut it = machine();
    put_programs(&mut it);
    let view = VIEW.unwrap();
    it.write(VIEW_AT.checked_add_signed(view.ip.into()).unwrap(), &RANGES[0].0.to_ne_bytes());
    assert_eq!(it.run(&made("bpf_prog").unwrap()), 1);
}

#[test]
fn ids_of_a_container_are_not_taken_for_those_outside() {
    let all = sample_type(SampleType::empty());
    let refused = made(&parse("pid == 1"), &old_kernel(false), all).unwrap_err();
    assert!(matches!(refused, Error::Hidden { term: "pid", why: Hidden::Namespace }));
    assert!(made(&parse("cpu == 1"), &old_kernel(false), all).is_ok());
}

#[test]
fn what_the_samples_lack_is_refused_by_name() {
    for (filter, lacks, want) in [
        ("addr > 1", SampleType::ADDR, "addr"),
        ("mem_op == load", SampleType::DATA_SRC, "mem_op"),
        ("weight2 > 1", SampleType::WEIGHT_STRUCT, "weight2"),
        ("id == 1", SampleType::IDENTIFIER | SampleType::ID, "id"),
        ("time > 1", SampleType::TIME, "time"),
        ("pid == 1 || code_page_size == 1", SampleType::CODE_PAGE_SIZE, "code_pgsz"),
    ] {
        let refused = made(&parse(filter), &new_kernel(), sample_type(lacks)).unwrap_err();
        assert!(matches!(refused, Error::Lacks { term, .. } if term == want), "{refused:?}");
    }
}

#[test]
fn a_probe_sees_no_sample_and_counts_nothing() {
    let tables = tables();
    let kernel = new_kernel();
    let given =
        Given { kernel: &kernel, sample_type: ALL, is_probe: true, dropped: None, tables: &tables };
    let refused = generate(&parse("time > 1"), given).unwrap_err();
    assert!(matches!(refused, Error::Hidden { term: "time", why: Hidden::OfProbe }));
    let made = |filter: &str| generate(&parse(filter), given).unwrap();
    assert_eq!(machine().run(&made("pid == 11, comm ~ k*, kernel, ip != 0")), 1);
    let mut it = machine();
    assert_eq!(it.run(&made("pid == 12")), 0);
    assert_eq!(it.n_dropped(), 0);
}

/// A sequence of numbers that look random, the same each time.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn random_expr(state: &mut u64, depth: u32) -> (Expr, bool) {
    let kind = if depth == 0 { 0 } else { random(state) % 4 };
    if kind == 0 {
        // The thread is 12.
        let value = 11 + random(state) % 3;
        let (operator, is_so) = match random(state) % 3 {
            0 => (Operator::Equal, 12 == value),
            1 => (Operator::Greater, 12 > value),
            _ => (Operator::LessOrEqual, 12 <= value),
        };
        return (Expr::Test(Test::Number { term: Term::Tid, operator, value }), is_so);
    }
    if kind == 1 {
        let (inner, is_so) = random_expr(state, depth - 1);
        return (Expr::Not(Box::new(inner)), !is_so);
    }
    let n = 1 + random(state) % 4;
    let parts: Vec<_> = (0..n).map(|_| random_expr(state, depth - 1)).collect();
    let (all, any) = (parts.iter().all(|it| it.1), parts.iter().any(|it| it.1));
    let parts = parts.into_iter().map(|it| it.0).collect();
    if kind == 2 { (Expr::All(parts), all) } else { (Expr::Any(parts), any) }
}

#[test]
fn any_expression_means_in_the_kernel_what_it_means_here() {
    let mut state = 0x9e37_79b9_7f4a_7c15;
    for _ in 0..2000 {
        let (expr, want) = random_expr(&mut state, 5);
        let insns = made(&expr, &new_kernel(), sample_type(SampleType::CALLCHAIN)).unwrap();
        assert_eq!(machine().run(&insns), u64::from(want), "{expr:?}");
    }
}

#[test]
fn a_filter_of_very_many_terms_is_refused() {
    let terms: Vec<String> = (0..20_000).map(|it| format!("pid != {it}")).collect();
    let refused = made(&parse(&terms.join(",")), &new_kernel(), ALL);
    assert!(matches!(refused, Err(Error::TooLong)));
}
