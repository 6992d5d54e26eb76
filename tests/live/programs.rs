//! What is asked of the kernel about its programs, against what it says elsewhere.

use std::fs;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use bpfperf::bpf::Error;
use bpfperf::bpf::Program;
use bpfperf::bpf::Programs;
use bpfperf::bpf::images;
use bpfperf::perfdata::bpf_info::ProgArray;
use bpfperf::record::sideband::Sideband;
use bpfperf::units::ProgId;

use crate::loading::Debug;
use crate::loading::id_of;
use crate::loading::load;
use crate::loading::load_nameless;
use crate::stage::Need;
use crate::stage::bpfperf;
use crate::stage::demo_path;
use crate::stage::may_run;
use crate::stage::stdout_of;

/// Held by the tests that load many programs and by those that must see each load in time.
pub(crate) static FEW_LOADS: Mutex<()> = Mutex::new(());

/// A long program with a function before it.
const LONG_NAMES: &str = r#"
NOINLINE int sub_with_a_long_name_too(int x) { OPAQUE(x); return x * 3; }
SEC("socket") int handle_this_really_long_program_name(void *ctx) {
    return sub_with_a_long_name_too(5);
}
"#;

fn program(programs: &Programs, id: ProgId) -> &Program {
    programs.get(id).unwrap()
}

/// Holds the functions of program `id` against the kernel's own list, and returns their names
/// without prefix and tag.
#[track_caller]
fn check_names(id: ProgId) -> Vec<String> {
    let programs = Programs::walk().unwrap();
    let kallsyms = fs::read_to_string("/proc/kallsyms").unwrap();
    let names = program(&programs, id).functions().iter().map(|it| {
        let line = format!("{:016x} t {}\t[bpf]", it.addr.0, it.name);
        assert!(kallsyms.lines().any(|it| it == line), "`{line}` is not in /proc/kallsyms");
        let name = it.name.strip_prefix("bpf_prog_").unwrap();
        name.get(17..).unwrap_or_default().to_owned()
    });
    names.collect()
}

#[test]
fn twelve_functions_are_named_as_the_kernel_names_them() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let subs = (0..12).map(|it| {
        format!("NOINLINE int sub{it}(int x) {{ OPAQUE(x); return x * {} + 1; }}\n", it + 3)
    });
    let calls = (0..12).map(|it| format!("sum += sub{it}(sum);"));
    let source = format!(
        "{}SEC(\"socket\") int main_of_twelve(void *ctx) {{ int sum = 1; {} return sum; }}",
        subs.collect::<String>(),
        calls.collect::<String>(),
    );
    let object = load(&source, Debug::Full);
    let mut want = vec!["main_of_twelve".to_owned()];
    want.extend((0..12).map(|it| format!("sub{it}")));
    assert_eq!(check_names(id_of(&object)), want);
}

#[test]
fn names_beyond_fifteen_bytes_are_whole() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let object = load(LONG_NAMES, Debug::Full);
    let want = ["handle_this_really_long_program_name", "sub_with_a_long_name_too"];
    assert_eq!(check_names(id_of(&object)), want);
}

#[test]
fn without_types_the_short_name_stands_and_the_other_functions_are_called_f() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let object = load(LONG_NAMES, Debug::None);
    assert_eq!(check_names(id_of(&object)), ["handle_this_rea", "F"]);
    let programs = Programs::walk().unwrap();
    assert_eq!(program(&programs, id_of(&object)).info().btf_id(), None);
}

#[test]
fn a_program_without_a_name_is_its_tag() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let (_fd, id) = load_nameless();
    assert_eq!(check_names(id), [""]);
}

/// What bpftool 7.8 prints of these variables, but for the ones that the comments name.
#[test]
fn metadata_of_each_kind_is_printed_by_its_type() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let source = r#"
        enum color { RED = 1, GREEN = 5, NEGATIVE = -3 };
        struct inner { int a; char c; };
        struct point { int x; int y; unsigned u : 3; int s : 5; struct inner in; char name[8]; };
        META(char, owner)[] = "team-net";
        META(char, escaped)[] = "q\"uote\\ \n\t\x01\xff" "end";
        META(char, padded)[16] = "abc";
        META(char, full)[4] = {'a', 'b', 'c', 'd'};
        META(char, empty)[4] = "";
        META(char, letter) = 'x';
        META(signed char, s8) = -5;
        META(unsigned short, u16) = 60000;
        META(int, s32) = -70000;
        META(unsigned long long, u64) = 18446744073709551615ULL;
        META(__int128, i128) = ((__int128)1 << 100) + 7;
        META(_Bool, yes) = 1;
        META(enum color, color) = GREEN;
        META(enum color, negative) = NEGATIVE;
        META(enum color, other) = (enum color)77;
        META(int, array)[2][2] = {{1, 2}, {3, 0}};
        META(unsigned char, bytes)[3] = {1, 0, 255};
        META(char, strings)[2][4] = {"ab", "cd"};
        META(struct point, point) = {1, -2, 5, -3, {7, 'z'}, "nm"};
        META(double, real) = -2.25;
        __attribute__((used)) void *volatile const bpf_metadata_pointer = (void *)0x1234;
        META(char, a_really_long_key_name_that_is_longer_than_sixty_three_bytes_in_all)[] = "k";
        META(char, long_value)[300] = "LONG";
        volatile const int not_metadata = 3;
        SEC("socket") int read_only(void *ctx) { return not_metadata; }
    "#;
    let long = "l".repeat(290);
    let object = load(&source.replace("LONG", &long), Debug::Full);
    let programs = Programs::walk().unwrap();
    let metadata = program(&programs, id_of(&object)).metadata();
    let found: Vec<_> = metadata.iter().map(|it| (it.key.as_str(), it.value.as_str())).collect();
    let whole = format!("\"{long}\"");
    let want = [
        ("owner", r#""team-net""#),
        // bpftool: the bytes as numbers.
        ("escaped", r#""q\"uote\\ \n\t\x01\xffend""#),
        ("padded", r#""abc""#),
        // bpftool: the bytes as numbers.
        ("full", r#""abcd""#),
        ("empty", r#""""#),
        ("letter", "120"),
        ("s8", "-5"),
        ("u16", "60000"),
        ("s32", "-70000"),
        ("u64", "18446744073709551615"),
        ("i128", "0x10000000000000000000000007"),
        ("yes", "true"),
        ("color", r#""GREEN""#),
        ("negative", r#""NEGATIVE""#),
        ("other", "77"),
        ("array", "[[1,2],[3,0]]"),
        ("bytes", "[1,0,255]"),
        ("strings", r#"["ab","cd"]"#),
        // bpftool: bit fields as hexadecimal.
        ("point", r#"{"x":1,"y":-2,"u":5,"s":-3,"in":{"a":7,"c":122},"name":"nm"}"#),
        // bpftool: ends in an error.
        ("real", "-2.25"),
        ("pointer", "\"0x1234\""),
        ("a_really_long_key_name_that_is_longer_than_sixty_three_bytes_in_all", r#""k""#),
        ("long_value", &whole),
    ];
    assert_eq!(found, want);
}

#[test]
fn who_waits_for_programs_to_come_never_asks_for_older_ones() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let old = load(LONG_NAMES, Debug::Full);
    let mut programs = Programs::to_come();
    let new = load(LONG_NAMES, Debug::Full);
    programs.update().unwrap();
    assert!(programs.get(id_of(&new)).is_some());
    assert!(programs.iter().all(|it| it.id() > id_of(&old)));
}

#[test]
fn programs_that_come_and_go_never_end_a_walk() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let _few = FEW_LOADS.lock();
    let (_fd, id) = load_nameless();
    let churn = thread::spawn(|| (0..2000).for_each(|_| drop(load_nameless())));
    let mut n_walks = 0;
    while !churn.is_finished() || n_walks < 50 {
        let programs = Programs::walk().unwrap();
        assert!(programs.get(id).is_some());
        let skipped = programs.skipped();
        assert_eq!((skipped.n_refused, skipped.n_failed), (0, 0));
        n_walks += 1;
    }
    churn.join().unwrap();
}

#[test]
fn a_caller_without_the_privilege_is_told_so() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let (_fd, _) = load_nameless();
    let found = thread::spawn(|| {
        become_nobody();
        Programs::walk().err()
    });
    let want = Error::Refused { errno: nix::errno::Errno::EPERM };
    assert_eq!(found.join().unwrap(), Some(want));
}

/// Takes the privileges from the calling thread alone, for good.
#[expect(unsafe_code, reason = "nix's call takes them from all threads")]
fn become_nobody() {
    // SAFETY: takes numbers only; the raw call, unlike libc's wrapper, is for this thread.
    let ret = unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
    assert_eq!(ret, 0);
}

#[test]
fn a_program_that_lives_for_a_moment_is_saved_with_its_metadata() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let _few = FEW_LOADS.lock();
    let cpus = bpfperf::host::cpus::online().unwrap();
    let sideband = Sideband::start(&cpus, None).unwrap();
    // The program does not read its metadata, so its loader binds the map after the load.
    let source = format!("META(char, owner)[] = \"team-net\";\n{LONG_NAMES}");
    let id = thread::spawn(move || {
        let object = load(&source, Debug::Full);
        thread::sleep(Duration::from_millis(50));
        id_of(&object)
    });
    let id = id.join().unwrap();
    let outcome = sideband.stop();
    assert!(outcome.n_loads >= 1);
    assert_eq!(outcome.n_lost, 0);
    let program = program(&outcome.programs, id);
    let names: Vec<_> = program.functions().iter().filter_map(|it| it.name.get(26..)).collect();
    assert_eq!(names, ["handle_this_really_long_program_name", "sub_with_a_long_name_too"]);
    let metadata: Vec<_> = program.metadata().iter().map(|it| (&*it.key, &*it.value)).collect();
    assert_eq!(metadata, [("owner", "\"team-net\"")]);
    let btf_id = program.info().btf_id().unwrap();
    assert!(outcome.programs.btfs().iter().any(|(id, _)| *id == btf_id));
}

#[test]
fn what_is_in_the_rings_at_the_end_is_still_read() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let _few = FEW_LOADS.lock();
    let cpus = bpfperf::host::cpus::online().unwrap();
    let sideband = Sideband::start(&cpus, None).unwrap();
    let loaded: Vec<_> = (0..20).map(|_| load_nameless()).collect();
    let outcome = sideband.stop();
    assert!(loaded.iter().all(|(_, id)| outcome.programs.get(*id).is_some()));
}

#[test]
fn a_dispatcher_is_found_in_the_kernels_list_with_a_length() {
    if !may_run(&[Need::Root]) {
        return;
    }
    // The kernel makes the dispatcher while an XDP program runs, if only as a test.
    let source = "SEC(\"xdp\") int pass(void *ctx) { return 2; }";
    let object = load(source, Debug::Full);
    let xdp = object.progs_mut().next().unwrap();
    let packet = [0; 64];
    let found = thread::scope(|scope| {
        let look = scope.spawn(|| {
            (0..2000).find_map(|_| {
                let kallsyms = fs::read_to_string("/proc/kallsyms").unwrap();
                images(&kallsyms).into_iter().find(|it| it.name == "bpf_dispatcher_xdp")
            })
        });
        while !look.is_finished() {
            let input = libbpf_rs::ProgramInput {
                data_in: Some(&packet),
                repeat: 5_000_000,
                ..Default::default()
            };
            xdp.test_run(input).unwrap();
        }
        look.join().unwrap()
    });
    let found = found.unwrap();
    assert!((1..=4096).contains(&found.len), "{found:?}");
}

#[test]
fn code_whose_addresses_the_kernel_hides_has_no_functions_and_is_counted() {
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
    if !may_run(&[Need::Root]) || paranoid.trim().parse::<i32>().is_ok_and(|it| it <= 1) {
        // There the kernel shows its addresses to everybody.
        return;
    }
    let (_fd, id) = load_nameless();
    let hidden = thread::spawn(move || {
        give_up_syslog();
        Programs::walk().unwrap()
    });
    let hidden = hidden.join().unwrap();
    let of_hidden = program(&hidden, id);
    assert_eq!((of_hidden.functions().len(), of_hidden.info().n_functions()), (0, 1));
    assert_eq!(of_hidden.info().array(ProgArray::JITED_INSNS), None);
    assert!(hidden.skipped().n_hidden >= 1);
}

/// Takes `CAP_SYSLOG` from the calling thread alone.
#[expect(unsafe_code, reason = "nix has no capset")]
fn give_up_syslog() {
    // struct __user_cap_header_struct of version 3, and two of __user_cap_data_struct.
    let header = [0x2008_0522_u32, 0];
    let mut data = [0_u32; 6];
    // SAFETY: the kernel reads the header and writes six words to `data`.
    let ret = unsafe { libc::syscall(libc::SYS_capget, header.as_ptr(), data.as_mut_ptr()) };
    assert_eq!(ret, 0);
    // CAP_SYSLOG is 34; effective and permitted of the second half.
    data[3] &= !(1 << 2);
    data[4] &= !(1 << 2);
    // SAFETY: the kernel reads the header and six words of `data`.
    let ret = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), data.as_ptr()) };
    assert_eq!(ret, 0);
}

#[test]
fn what_a_program_calls_has_its_name_where_the_kernel_is_another() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let mut record = bpfperf();
    record.args(["record", "-q", "-a", "-g", "-o"]).arg(&recording);
    stdout_of(record.arg("--").arg(demo_path()).args(["run", "0.5"]));
    let header = stdout_of(bpfperf().args(["script", "-D", "-i"]).arg(&recording));
    let symbols = header.split("bpfperf symbols").nth(1).unwrap();
    let symbols = symbols.lines().nth(1).unwrap();
    for helper in ["bpf_get_current_task", "bpf_probe_read_kernel"] {
        assert!(symbols.contains(&format!("\"name\":\"{helper}\"")), "{symbols}");
    }
}
