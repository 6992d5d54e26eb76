//! Filters of samples: what is kept is what filtering the whole recording keeps.
//!
//! Two recorders sample each occurrence of something that can be counted, of the same programs; one
//! of them has a filter. The samples that it has are to be those of the other one for which a reading
//! of the same expression, here, says so, and it is to count the others.
//!
//! Two recorders and not two events of one: of several software events that one occurrence is for the
//! kernel gives all samples the id of one of them, and the time (`do_perf_sw_event()` in
//! `kernel/events/core.c`).

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use bpfperf::events::sample_filter;
use bpfperf::events::sample_filter::Expr;
use bpfperf::events::sample_filter::Operator;
use bpfperf::events::sample_filter::Term;
use bpfperf::events::sample_filter::Test;
use bpfperf::perfdata::Cursor;
use bpfperf::perfdata::Endian;
use bpfperf::perfdata::Record;
use bpfperf::perfdata::RecordKind;
use bpfperf::perfdata::RecordWalk;
use bpfperf::perfdata::misc;
use bpfperf::replay::Recording;

use crate::stage::Need;
use crate::stage::bpfperf;
use crate::stage::demo;
use crate::stage::demo_path;
use crate::stage::may_run;
use crate::stage::output_of;
use crate::stage::peer;
use crate::stage::stdout_of;
use crate::stage::told;

/// A sample, its numbers in the order of [`TERMS`]; what it does not hold is 0.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kept {
    time: u64,
    tid: u64,
    is_kernel: bool,
    is_user: bool,
    id: u64,
    numbers: [u64; TERMS.len()],
    comm: String,
}

/// What is compared.
const TERMS: [Term; 12] = [
    Term::Ip,
    Term::Tid,
    Term::Pid,
    Term::Cpu,
    Term::Addr,
    Term::Period,
    Term::Transaction,
    Term::Weight,
    Term::PhysAddr,
    Term::CodePageSize,
    Term::DataPageSize,
    Term::MemOp,
];

/// A recording of one event.
#[derive(Debug, Default)]
struct Read {
    samples: Vec<Kept>,
    /// By thread, from when on it is called how, as far as that was seen.
    names: BTreeMap<u64, Vec<(u64, String)>>,
    /// When `sh` began first, and the threads that it is and came to start.
    begin: u64,
    family: BTreeSet<u64>,
    n_dropped: u64,
    n_lost: u64,
}

impl Read {
    fn name(&self, tid: u64, time: u64) -> String {
        let names = self.names.get(&tid).map(Vec::as_slice).unwrap_or_default();
        names.iter().rfind(|it| it.0 <= time).map_or_else(String::new, |it| it.1.clone())
    }
}

fn number(id: i32) -> u64 {
    u64::from(id.cast_unsigned())
}

fn read(recording: &Path) -> Read {
    let bytes = fs::read(recording).unwrap();
    let file = Recording::open(&&bytes[..]).unwrap();
    let event = &file.events[0];
    let mut read = Read::default();
    // Names and forks, in the order of time.
    let mut changes: Vec<(u64, u64, Result<String, u64>)> = Vec::new();
    for section in &file.data {
        let mut walk = RecordWalk::new(&bytes[..], *section, Endian::NATIVE);
        while let Some(raw) = walk.next().unwrap() {
            let (body, id) = event.sample_id.split(raw.body, Endian::NATIVE);
            let time = id.time.map_or(0, |it| it.0);
            let mut body = Cursor::new(body, raw.at, Endian::NATIVE);
            match Record::decode(raw.header, &mut body) {
                Ok(Record::LostSamples { lost }) => {
                    let is_ours = raw.header.misc & misc::LOST_SAMPLES_BPF != 0;
                    *(if is_ours { &mut read.n_dropped } else { &mut read.n_lost }) += lost;
                }
                Ok(Record::Comm(comm)) if time != 0 => {
                    let name = String::from_utf8_lossy(comm.comm).into_owned();
                    changes.push((time, number(comm.tid.0), Ok(name)));
                }
                Ok(Record::Fork(task)) if time != 0 => {
                    changes.push((time, number(task.tid.0), Err(number(task.ptid.0))));
                }
                _ => {}
            }
            if raw.header.kind != RecordKind::SAMPLE {
                continue;
            }
            let it = event.sample.decode(raw.body, raw.at).unwrap();
            let (pid, tid) = it.task.unwrap();
            let mode = raw.header.misc & misc::CPUMODE_MASK;
            read.samples.push(Kept {
                time: it.time.unwrap().0,
                tid: number(tid.0),
                is_kernel: mode == misc::KERNEL,
                is_user: mode == misc::USER,
                id: it.id.unwrap(),
                numbers: [
                    it.ip.unwrap().0,
                    number(tid.0),
                    number(pid.0),
                    u64::from(it.cpu.unwrap()),
                    it.addr.map_or(0, |it| it.0),
                    event.sample.period(raw.body),
                    it.transaction.unwrap_or(0),
                    it.weight.unwrap_or(0) & 0xffff_ffff,
                    it.phys_addr.unwrap_or(0),
                    it.code_page_size.unwrap_or(0),
                    it.data_page_size.unwrap_or(0),
                    it.data_src.unwrap_or(0),
                ],
                comm: String::new(),
            });
        }
    }
    changes.sort();
    for (time, tid, change) in changes {
        if change.as_deref() == Ok("sh") && read.begin == 0 {
            read.begin = time;
            read.family.insert(tid);
        }
        let name = change.unwrap_or_else(|parent| {
            if read.family.contains(&parent) {
                read.family.insert(tid);
            }
            read.name(parent, time)
        });
        read.names.entry(tid).or_default().push((time, name));
    }
    read.samples.sort();
    read
}

/// Whether `expr` is so of `sample`.
fn is_so(expr: &Expr, sample: &Kept) -> bool {
    match expr {
        Expr::Not(inner) => !is_so(inner, sample),
        Expr::All(parts) => parts.iter().all(|it| is_so(it, sample)),
        Expr::Any(parts) => parts.iter().any(|it| is_so(it, sample)),
        Expr::Test(Test::Kernel) => sample.is_kernel,
        Expr::Test(Test::User) => sample.is_user,
        Expr::Test(Test::Comm(pattern)) => {
            let comm = sample.comm.as_bytes();
            let of = |at: usize| comm.get(at).copied().unwrap_or(0);
            let is_it = |at: usize| pattern.mask[at] == 0 || of(at) == pattern.bytes[at];
            pattern.len <= comm.len() && (0..sample_filter::COMM_LEN).all(is_it)
        }
        Expr::Test(Test::Number { term, operator, value }) => {
            let of = |term| sample.numbers[TERMS.iter().position(|it| *it == term).unwrap()];
            let bits = |from: u32, n: u32| (of(Term::MemOp) >> from) & ((1 << n) - 1);
            let number = match term {
                Term::Time => sample.time,
                Term::Id => sample.id,
                Term::MemOp => bits(0, 5),
                Term::MemSnoop => bits(19, 5) | bits(38, 2) << 5,
                Term::MemLock => bits(24, 2),
                Term::MemTlb => bits(26, 7),
                Term::MemLevel => bits(33, 4),
                Term::MemRemote => bits(37, 1),
                Term::MemBlocked => bits(40, 3),
                Term::MemHops => bits(43, 3),
                Term::Weight1 => of(Term::Weight),
                Term::Weight2 | Term::Weight3 => 0,
                term => of(*term),
            };
            match operator {
                Operator::Equal => number == *value,
                Operator::NotEqual => number != *value,
                Operator::Greater => number > *value,
                Operator::GreaterOrEqual => number >= *value,
                Operator::Less => number < *value,
                Operator::LessOrEqual => number <= *value,
                Operator::AnyBit => number & *value != 0,
            }
        }
        Expr::Test(test) => panic!("{test:?}"),
    }
}

/// What all samples hold, so that each term can be asked for.
const FIELDS: [&str; 10] = [
    "-k",
    "monotonic",
    "-d",
    "-W",
    "--phys-data",
    "--transaction",
    "--code-page-size",
    "--data-page-size",
    "--sample-identifier",
    "--sample-cpu",
];

/// Programs that fault, sleep and run on each CPU.
const WORKLOAD: &str = "ls / >/dev/null; for cpu in 0 1; do taskset -c $cpu ls -l / >/dev/null; done; \
                        sh -c 'echo $$' >/dev/null & wait";

/// What one run was for both recorders.
struct Twins {
    kept: Vec<Kept>,
    all: Vec<Kept>,
    n_dropped: u64,
}

/// Records `event` of `workload` twice, with and without `filter`, given in parts.
#[track_caller]
fn twins(event: &str, filters: &[&str], more: &[&str], workload: &str) -> Twins {
    let scratch = tempfile::tempdir().unwrap();
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let [kept, all] = ["kept", "all"].map(|name| scratch.path().join(name));
    let common = |command: &mut Command, to: &Path| {
        command.args(["record", "-c", "1", "-m", "1M", "-o"]).arg(to).args(FIELDS);
        command.args(["-e", event]);
    };
    let mut record = bpfperf();
    common(&mut record, &all);
    record.arg("--").arg(bpfperf().get_program());
    common(&mut record, &kept);
    record.args(filters.iter().flat_map(|it| ["--filter", it])).args(more);
    record.args(["--", "sh", "-c", workload]);
    let output = output_of(record.current_dir(scratch.path()));
    assert!(output.status.success(), "{}", told(&record, &output));
    let (mut all, kept) = (read(&all), read(&kept));
    assert_eq!((all.n_lost, kept.n_lost, all.n_dropped), (0, 0, 0));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let dropped = format!(", {} dropped by filters", kept.n_dropped);
    assert_eq!(said.contains(&dropped), kept.n_dropped != 0, "{said}");
    // The one recorder sees the other one, too, which may see more than its command.
    let samples = std::mem::take(&mut all.samples);
    let of_run = |samples: Vec<Kept>| -> Vec<Kept> {
        let is_of_run = |it: &Kept| all.begin <= it.time && all.family.contains(&it.tid);
        let samples = samples.into_iter().filter(is_of_run);
        // The id is that of one of the recorders' events.
        samples.map(|it| Kept { comm: all.name(it.tid, it.time), id: 1, ..it }).collect()
    };
    Twins { kept: of_run(kept.samples), all: of_run(samples), n_dropped: kept.n_dropped }
}

/// Checks that `filters` keep what they say of the samples of `event`, and says how many that is.
#[track_caller]
fn share_on(event: &str, filters: &[&str], more: &[&str], workload: &str) -> Share {
    let twins = twins(event, filters, more, workload);
    assert!(twins.all.len() > 50, "{} samples", twins.all.len());
    let parse = |it: &&str| sample_filter::parse(it, &|_| Err(String::new())).unwrap();
    let expr = Expr::All(filters.iter().map(parse).collect());
    let want_kept: Vec<&Kept> = twins.all.iter().filter(|it| is_so(&expr, it)).collect();
    assert_eq!(twins.kept.iter().collect::<Vec<_>>(), want_kept, "{filters:?}");
    let n_dropped = (twins.all.len() - twins.kept.len()) as u64;
    // Who looks at more than the command drops more.
    if !more.contains(&"-a") && !more.contains(&"--overwrite") {
        assert_eq!(n_dropped, twins.n_dropped, "{filters:?}");
    }
    match twins.kept.len() {
        0 => Share::None,
        _ if n_dropped == 0 => Share::All,
        _ => Share::Some,
    }
}

/// Checks that `filters` keep what they say of the samples of `event`: some, all or none.
#[track_caller]
fn check_on(event: &str, filters: &[&str], more: &[&str], workload: &str, want: Share) {
    assert_eq!(share_on(event, filters, more, workload), want, "{filters:?}");
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    None,
    Some,
    All,
}

const FAULTS: &str = "page-faults";

#[track_caller]
fn check(filter: &str, want: Share) {
    check_on(FAULTS, &[filter], &[], WORKLOAD, want);
}

#[test]
fn each_operator_keeps_what_it_says() {
    if !may_run(&[Need::Root]) {
        return;
    }
    check("cpu == 0", Share::Some);
    check("cpu != 0", Share::Some);
    check("cpu > 0", Share::Some);
    check("cpu >= 1", Share::Some);
    check("cpu < 1", Share::Some);
    check("cpu <= 0", Share::Some);
    check("tid & 1", Share::Some);
    check("addr & 0x1000", Share::Some);
    // Values of more than 31 bits.
    check("addr > 0x7f0000000000", Share::Some);
    check("addr <= 0x7f0000000000", Share::Some);
    check("addr != 0xffffffffffffffff", Share::All);
}

#[test]
fn each_term_of_a_software_event_keeps_what_it_says() {
    if !may_run(&[Need::Root]) {
        return;
    }
    check("ip > 0x7f0000000000", Share::Some);
    // A program with threads, whose ids are not those of the process.
    let ours = bpfperf();
    let threads = format!("{} record -q -e cs -o third true", ours.get_program().display());
    check_on(FAULTS, &["tid & 1"], &[], &threads, Share::Some);
    for filter in ["pid & 1", "pid & 2", "pid & 4"] {
        share_on(FAULTS, &[filter], &[], &threads);
    }
    check("id > 0", Share::All);
    check("id == 0", Share::None);
    check("period == 1", Share::All);
    check("period > 1", Share::None);
    check("txn == 0", Share::All);
    check("weight == 0, weight1 == 0, ins_lat == 0, retire_lat == 0", Share::All);
    check("phys_addr != 0", Share::Some);
    check("code_pgsz == 4096", Share::Some);
    check("data_pgsz == 0", Share::Some);
    check("kernel", Share::Some);
    check("user", Share::Some);
    // What no hardware told.
    check("mem_op == na, mem_snoop == na, mem_lock == na, mem_dtlb == na", Share::All);
    check(
        "mem_op == load || mem_lvl == l1 || mem_hops == hops1 || mem_blk == by_addr",
        Share::None,
    );
    check("mem_remote == remote", Share::None);
}

#[test]
fn filters_can_be_nested_and_given_twice() {
    if !may_run(&[Need::Root]) {
        return;
    }
    check("!(kernel || tid & 1), addr & 0x2000 || addr & 0x4000", Share::Some);
    check("(user && cpu == 0) || (kernel, cpu == 1)", Share::Some);
    let many: Vec<String> = (1..=200).map(|it| format!("addr != {it}")).collect();
    check(&format!("{}, user", many.join(",")), Share::Some);
    check_on(FAULTS, &["user", "cpu == 0"], &[], WORKLOAD, Share::Some);
}

#[test]
fn a_filter_is_for_whoever_is_recorded_and_however() {
    if !may_run(&[Need::Root]) {
        return;
    }
    // All CPUs, the latest alone, with call chains, and events that happen in the kernel.
    let filter = "user, tid & 1";
    check_on(FAULTS, &[filter], &["-a"], WORKLOAD, Share::Some);
    check_on(FAULTS, &[filter], &["-g"], WORKLOAD, Share::Some);
    check_on(FAULTS, &[filter], &["--overwrite"], WORKLOAD, Share::Some);
    check_on(FAULTS, &[filter], &["--no-bpf-event"], WORKLOAD, Share::Some);
    let sleeps = "for i in 0 1 2 3 4 5 6 7 8 9; do sleep 0.01; ls / | cat >/dev/null; done";
    check_on("context-switches", &["tid & 1"], &[], sleeps, Share::Some);
    check_on("context-switches", &["kernel"], &[], sleeps, Share::All);
}

#[test]
fn the_time_is_that_of_the_sample() {
    if !may_run(&[Need::Root]) {
        return;
    }
    // Half a second and half a second.
    let workload =
        "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do ls / >/dev/null; sleep 0.1; done";
    check_on(FAULTS, &["time > 1000000000, time & 0x20000000"], &[], workload, Share::Some);
}

/// A shell that is called `other_shell`, with the ids of somebody else, and one that is root's.
const OTHERS: &str = "cp /bin/sh other_shell; \
                      setpriv --reuid 54321 --regid 54322 --clear-groups ./other_shell -c 'true; :'; \
                      ls / >/dev/null; sh -c true";

#[test]
fn names_are_those_of_the_thread() {
    if !may_run(&[Need::Root]) {
        return;
    }
    for filter in ["comm == other_shell", "comm ~ other*", "comm ~ ?th?r_shell", "comm != sh"] {
        check_on(FAULTS, &[filter], &[], OTHERS, Share::Some);
    }
    check_on(FAULTS, &["comm ~ other_shell?"], &[], OTHERS, Share::None);
    check_on(FAULTS, &["comm ~ ?*"], &[], OTHERS, Share::All);
}

#[test]
fn users_and_groups_are_those_of_the_thread() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let is_other = |it: &&Kept| it.comm == "other_shell";
    for filter in ["uid == 54321", "gid == 54322", "uid > 54320, gid >= 54322"] {
        let Twins { kept, all, .. } = twins(FAULTS, &[filter, "comm == other_shell"], &[], OTHERS);
        let others: Vec<&Kept> = all.iter().filter(is_other).collect();
        assert!(others.len() > 10 && others.len() < all.len());
        assert_eq!(kept.iter().collect::<Vec<_>>(), others, "{filter}");
    }
    let Twins { kept, all, .. } =
        twins(FAULTS, &["uid == 0 && gid == 0", "comm != setpriv"], &[], OTHERS);
    let is_ours = |it: &&Kept| it.comm != "other_shell" && it.comm != "setpriv";
    let ours: Vec<&Kept> = all.iter().filter(is_ours).collect();
    assert_eq!(kept.iter().collect::<Vec<_>>(), ours);
}

#[test]
fn a_cgroup_is_that_of_the_thread() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mut mounts = mounts.lines().map(|it| it.split(' ').collect::<Vec<_>>());
    let Some(mount) = mounts.find(|it| it[2] == "cgroup2").map(|it| it[1].to_owned()) else {
        println!("skipped: no hierarchy of cgroups of version 2");
        return;
    };
    let name = format!("bpfperf-filter-{}", std::process::id());
    let folder = Path::new(&mount).join(&name);
    fs::create_dir(&folder).unwrap();
    let procs = folder.join("cgroup.procs");
    let workload = format!(
        "cp /bin/sh other_shell; sh -c 'echo $$ >{}; exec ./other_shell -c \"true; :\"'; ls / >/dev/null",
        procs.display()
    );
    let filters = [format!("cgroup == /{name}"), "comm == other_shell".to_owned()];
    let inside = twins(FAULTS, &[&filters[0], &filters[1]], &[], &workload);
    let outside = format!("cgroup != {name}, comm == other_shell");
    let outside = twins(FAULTS, &[&outside], &[], &workload);
    fs::remove_dir(&folder).unwrap();
    let others: Vec<&Kept> = inside.all.iter().filter(|it| it.comm == "other_shell").collect();
    assert!(others.len() > 10);
    assert_eq!(inside.kept.iter().collect::<Vec<_>>(), others);
    assert_eq!(outside.kept, []);
}

/// The frames of each sample of `event`, recorded while a program costs CPU that was loaded before.
#[track_caller]
fn in_program(filter: &str, more: &[&str]) -> Vec<Vec<String>> {
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let mut record = demo();
    record.arg("load-before").arg(bpfperf().get_program()).args(["record", "-F", "2000"]);
    record.args(["-e", "cpu-clock", "--filter", filter, "-o"]).arg(&recording).args(more);
    stdout_of(record.arg("--").arg(demo_path()).args(["spin", "1"]));
    let script = stdout_of(bpfperf().args(["script", "-F", "ip,sym", "-i"]).arg(&recording));
    let samples = if more.is_empty() { "\n" } else { "\n\n" };
    let frames = |it: &str| it.lines().map(|it| it.trim().to_owned()).collect();
    script.split(samples).filter(|it| !it.trim().is_empty()).map(frames).collect()
}

#[test]
fn programs_are_known_by_where_they_lie() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let is_in = |it: &String| it.contains(" bpf_prog_");
    for filter in ["bpf_prog", "bpf_prog == demo_sys_enter", "bpf_prog, kernel"] {
        let kept = in_program(filter, &[]);
        assert!(kept.len() > 10 && kept.iter().all(|it| is_in(&it[0])), "{filter}: {kept:?}");
    }
    for filter in ["!bpf_prog", "bpf_prog != demo_sys_enter"] {
        let kept = in_program(filter, &[]);
        assert!(kept.len() > 10 && !kept.iter().any(|it| is_in(&it[0])), "{filter}: {kept:?}");
    }
    assert_eq!(in_program("bpf_prog == nobodys", &[]).len(), 0);
    assert_eq!(in_program("bpf_prog, user", &[]).len(), 0);
    // With call chains whoever a program called counts, too.
    let kept = in_program("bpf_prog", &["-g"]);
    assert!(kept.len() > 10 && kept.iter().all(|it| it.iter().any(is_in)), "{kept:?}");
    let kept = in_program("!bpf_prog", &["-g"]);
    assert!(kept.len() > 10 && !kept.iter().flatten().any(is_in), "{kept:?}");
}

#[test]
fn a_program_that_is_loaded_meanwhile_counts_soon() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let mut record = bpfperf();
    record.args(["record", "-F", "2000", "-e", "cpu-clock", "--filter", "bpf_prog", "-o"]);
    stdout_of(record.arg(&recording).arg("--").arg(demo_path()).args(["run", "1"]));
    let script = stdout_of(bpfperf().args(["script", "-F", "ip,sym", "-i"]).arg(&recording));
    let n_in = script.lines().filter(|it| it.contains(" bpf_prog_")).count();
    assert!(n_in > 10 && n_in == script.lines().count(), "{script}");
}

#[test]
fn what_a_filter_dropped_is_not_lost() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let mut record = bpfperf();
    record.args(["record", "--fail-on-loss", "-c", "1", "-e", "page-faults", "--filter", "kernel"]);
    record.arg("-o").arg(&recording).args(["ls", "/"]);
    stdout_of(&mut record);
    let args = ["report", "--stdio", "-i"];
    let ours = stdout_of(bpfperf().args(args).arg(&recording));
    assert!(ours.contains("# Total Lost Samples: 0\n"), "{ours}");
    let dropped = |mut program: Command| {
        let dump = stdout_of(program.args(["script", "-D", "-i"]).arg(&recording));
        let lines = dump.lines().filter(|it| it.contains("PERF_RECORD_LOST_SAMPLES"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let [line] = &dropped(bpfperf())[..] else { panic!("not one record") };
    assert!(line.ends_with(" (BPF)"), "{line}");
    if let Some(perf) = peer() {
        let theirs = stdout_of(Command::new(&perf).args(args).arg(&recording));
        assert!(theirs.contains("# Total Lost Samples: 0\n"), "{theirs}");
        assert_eq!(&dropped(Command::new(perf)), std::slice::from_ref(line));
    }
}

#[test]
fn a_probe_of_user_space_has_a_filter_of_its_own() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let n_samples = |filter: &str| {
        let mut record = bpfperf();
        record.args(["record", "-q", "-e", "uprobe:/bin/bash:main", "--filter", filter, "-o"]);
        stdout_of(record.arg(&recording).args(["bash", "-c", "true"]));
        let script = bpfperf().args(["script", "-F", "event", "-i"]).arg(&recording).output();
        String::from_utf8(script.unwrap().stdout).unwrap().lines().count()
    };
    assert_eq!(n_samples("uid == 0, comm == bash || pid == 1, user"), 1);
    assert_eq!(n_samples("comm != bash"), 0);
}

#[test]
fn a_list_of_all_kinds_has_filters_of_their_kinds() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let workload = "sleep 0.05; ls / >/dev/null; sleep 0.05";
    let tasks = |filter: &str| {
        let mut record = bpfperf();
        record.args(["record", "-q", "-c", "1", "-e", "page-faults,sched:sched_switch", "-o"]);
        record.arg(&recording).args(["--filter", filter, "--", "sh", "-c", workload]);
        stdout_of(&mut record);
        let mut script = bpfperf();
        let script = stdout_of(script.args(["script", "-F", "comm,event", "-i"]).arg(&recording));
        let words = |it: &str| it.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        script.lines().map(words).collect::<BTreeSet<_>>()
    };
    let sleeps = ["page-faults:", "sched:sched_switch:"]
        .map(|event| vec!["sleep".to_owned(), event.to_owned()]);
    assert_eq!(tasks("comm == 'sleep'"), BTreeSet::from(sleeps.clone()));
    assert_eq!(tasks("comm == sleep, tid > 1, cpu >= 0"), BTreeSet::from(sleeps));
    assert_eq!(tasks("tid == 1"), BTreeSet::new());
}

#[test]
fn each_of_several_files_tells_what_was_dropped_while_it_was_written() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let mut record = bpfperf();
    record.args(["record", "--switch-output=1s", "-c", "1", "-e", "page-faults", "--filter"]);
    record.arg("kernel").args(FIELDS).arg("-o").arg(&recording);
    // Much in the first file, little in the last.
    let workload =
        "for i in 1 2 3 4 5 6 7 8 9; do ls / >/dev/null; done; sleep 1.5; true; sleep 1.5";
    record.args(["sh", "-c", workload]);
    let output = output_of(&mut record);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut files: Vec<_> =
        fs::read_dir(scratch.path()).unwrap().map(|it| it.unwrap().path()).collect();
    files.sort();
    let counts: Vec<u64> = files.iter().map(|it| read(it).n_dropped).collect();
    let [first, between @ .., last] = &counts[..] else { panic!("{counts:?}: {said}") };
    assert!(!between.is_empty() && *first > 100 && *last < *first, "{counts:?}: {said}");
    for n in counts.iter().filter(|it| **it != 0) {
        assert!(said.contains(&format!(", {n} dropped by filters")), "{n}: {said}");
    }
    let all: u64 = counts.iter().sum();
    assert!(said.contains(&format!(", {all} dropped by filters")), "{all}: {said}");
}

#[test]
fn nothing_is_left_when_a_recording_has_ended() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let mut record = bpfperf();
    record.args(["record", "-e", "cpu-clock", "--filter", "bpf_prog || uid == 0", "-o"]);
    stdout_of(record.arg(&recording).args(["sleep", "0.1"]));
    let left = || {
        let programs = bpfperf::bpf::Programs::walk().unwrap();
        programs.iter().filter(|it| it.info().name() == b"bpfperf_filter").count()
    };
    // Other tests may have filters just now, which go.
    let is_gone = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        left() == 0
    });
    assert!(is_gone);
}

#[test]
fn who_may_load_no_program_is_told_so_and_a_user_is_recorded_without() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let record = |args: &[&str]| {
        let mut record = Command::new("setpriv");
        record.args(["--bounding-set", "-sys_admin,-bpf", "--inh-caps", "-sys_admin,-bpf"]);
        record.arg(bpfperf().get_program()).args(["record", "-o"]).arg(&recording).args(args);
        output_of(record.args(["--", "true"]))
    };
    let output = record(&["-e", "page-faults", "--filter", "pid > 1"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let want = "hint: a filter is a BPF program: run as root, or with CAP_BPF and CAP_PERFMON\n";
    assert!(said.ends_with(want), "{said}");
    // Somebody runs for root.
    let output = record(&["-u", "0", "-e", "page-faults"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && !said.contains("filters"), "{said}");
}

#[test]
fn a_filter_that_cannot_be_had_is_refused_before_anything_runs() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let check = |args: &[&str], want: &str| {
        let mut record = bpfperf();
        record.args(["record", "-o"]).arg(&recording).args(args).args(["--", "false"]);
        let output = output_of(&mut record);
        assert_eq!(output.status.code(), Some(1), "{}", told(&record, &output));
        assert_eq!(String::from_utf8_lossy(&output.stderr), want);
        assert!(!recording.exists());
    };
    check(
        &["-e", "page-faults", "--filter", "mem_op == load"],
        "error: cannot filter the samples of `page-faults`\n  \
         because: its samples hold no `mem_op`\nhint: `-d` adds `mem_op` to the samples\n",
    );
    check(
        &["-e", "sched:sched_switch", "--filter", "uid == 0"],
        "error: cannot filter `sched:sched_switch`\n  because: a tracepoint's filter is the \
         kernel's own, which does not know `uid`\n",
    );
    check(
        &["-e", "page-faults", "--filter", "perod > 1"],
        "error: cannot filter `page-faults`\n  because: no term is called `perod` at column 1 of \
         `perod > 1`\nhint: the nearest term is `period`\n",
    );
}
