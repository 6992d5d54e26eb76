//! Where programs sit, who holds them and how often they run, as a recording has it.

use std::fs;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use bpfperf::perfdata::Endian;
use bpfperf::perfdata::ReadAt;
use bpfperf::perfdata::RecordKind;
use bpfperf::perfdata::RecordWalk;
use bpfperf::perfdata::private::Assembler;
use bpfperf::perfdata::private::LinkState;
use bpfperf::perfdata::private::Message;
use bpfperf::perfdata::private::ProgramRuns;
use bpfperf::perfdata::private::ProgramState;
use bpfperf::perfdata::private::Runs;
use bpfperf::perfdata::private::TracepointPrograms;
use bpfperf::replay::Recording;
use bpfperf::units::FileOffset;
use libbpf_rs::Link;
use libbpf_rs::MapCore;
use libbpf_rs::Object;
use perf_event_open_sys::bindings;
use perf_event_open_sys::ioctls;

use crate::loading::Debug;
use crate::loading::load;
use crate::stage::Background;
use crate::stage::Need;
use crate::stage::bpfperf;
use crate::stage::demo;
use crate::stage::demo_path;
use crate::stage::may_run;
use crate::stage::output_of;
use crate::stage::stdout_of;
use crate::stage::told;

/// Our own messages in a recording, in the order of the file.
#[track_caller]
pub(crate) fn messages(input: &dyn ReadAt) -> Vec<Message> {
    let recording = Recording::open(input).unwrap();
    let mut walk = RecordWalk::new(input, recording.data[0], Endian::NATIVE);
    let (mut assembler, mut messages) = (Assembler::default(), Vec::new());
    while let Some(raw) = walk.next().unwrap() {
        if raw.header.kind == RecordKind::EVENT_TYPE {
            let at = FileOffset(raw.at.0 + 8);
            messages.extend(assembler.push(raw.body, at, Endian::NATIVE).unwrap());
        }
    }
    assert_eq!(assembler.n_incomplete(), 0);
    messages
}

/// Records `command` with `args`, and gives the messages with what was said.
#[track_caller]
fn record(args: &[&str], command: &[&str]) -> (Vec<Message>, String) {
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let mut record = bpfperf();
    record.arg("record").args(args).arg("-o").arg(&recording).arg("--").args(command);
    let output = output_of(&mut record);
    assert!(output.status.success(), "{}", told(&record, &output));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (messages(&File::open(&recording).unwrap()), said)
}

/// The ids of the programs of `object`, by name.
#[track_caller]
fn id_of(object: &Object, name: &str) -> u32 {
    let program = object.progs().find(|it| it.name() == name).unwrap();
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", program.as_fd().as_raw_fd()));
    let info = info.unwrap();
    info.lines().find_map(|it| it.strip_prefix("prog_id:")).unwrap().trim().parse().unwrap()
}

/// Attaches each program of `object` where its section says.
fn attach(object: &mut Object) -> Vec<Link> {
    object.progs_mut().map(|it| it.attach().unwrap()).collect()
}

/// All that was told of a program's surroundings, the last word of it.
#[track_caller]
fn state_of(messages: &[Message], id: u32) -> ProgramState {
    let state = messages.iter().rev().find_map(|it| match it {
        Message::Program(state) if state.id == id => Some(state.clone()),
        _ => None,
    });
    state.unwrap_or_else(|| panic!("nothing is said of program {id}: {messages:?}"))
}

fn on_tracepoint<'a>(messages: &'a [Message], event: &str) -> Vec<&'a TracepointPrograms> {
    let found = messages.iter().filter_map(|it| match it {
        Message::Tracepoint(found) if found.event == event => Some(found),
        _ => None,
    });
    found.collect()
}

fn runs(messages: &[Message]) -> Vec<&Runs> {
    let runs = messages.iter().filter_map(|it| match it {
        Message::Runs(runs) => Some(runs),
        _ => None,
    });
    runs.collect()
}

/// Two programs that perf events attach to `sched:sched_switch`, and one raw one.
const ON_SWITCH: &str = r#"
SEC("tp/sched/sched_switch") int keeps_each_of_the_samples(void *ctx) { return 1; }
SEC("tp/sched/sched_switch") int keeps_too(void *ctx) { return 1; }
SEC("raw_tp/sched_switch") int only_looks(void *ctx) { return 0; }
"#;

#[test]
fn programs_on_a_recorded_tracepoint_are_listed_with_how_they_are_attached() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let mut object = load(ON_SWITCH, Debug::Full);
    let _links = attach(&mut object);
    let (messages, said) = record(&["-e", "sched:sched_switch"], &["sleep", "0.1"]);
    let found = on_tracepoint(&messages, "sched:sched_switch");
    assert!(2 <= found.len(), "not told at the start and at the end: {found:?}");
    let names = ["keeps_each_of_the_samples", "keeps_too", "only_looks"];
    for found in found {
        // Other tests may have some of theirs there.
        assert!(2 <= found.n_programs);
        for (name, how, can_drop) in [
            (names[0], "perf_event", true),
            (names[1], "perf_event", true),
            (names[2], "raw_tracepoint", false),
        ] {
            let id = id_of(&object, name);
            let attached = found.programs.iter().find(|it| it.id == id).unwrap();
            let got = (&*attached.name, &*attached.how, attached.can_drop);
            assert_eq!(got, (name, how, can_drop));
            assert!(attached.link.is_some());
            assert_ne!(attached.load_time_ns, 0);
        }
    }
    let warning = said.lines().find(|it| it.starts_with("warning: any of these may have dropped"));
    let warning = warning.unwrap_or_else(|| panic!("no warning: {said}"));
    assert!(warning.contains("BPF programs on `sched:sched_switch`"), "{warning}");
    assert!(!warning.contains(names[2]), "{warning}");
}

#[test]
fn a_program_that_drops_samples_is_warned_of() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let event = "syscalls:sys_enter_getpgrp";
    let source = r#"SEC("tp/syscalls/sys_enter_getpgrp") int drops(void *ctx) { return 0; }"#;
    // perl and its like may be absent; a shell asks for its group as it starts with job control.
    let calls = ["sh", "-c", "set -m; true"];
    let n_samples = |said: &str| said.contains("(no samples");
    let mut object = load(source, Debug::Full);
    let links = attach(&mut object);
    let id = id_of(&object, "drops");
    let (messages, said) = record(&["-e", event], &calls);
    assert!(n_samples(&said), "{said}");
    let want = format!(
        "warning: any of these may have dropped samples of a tracepoint, uncounted: \
         1 BPF program on `{event}`: `drops` (id {id})"
    );
    assert!(said.lines().any(|it| it == want), "{said}");
    assert!(on_tracepoint(&messages, event).iter().all(|it| it.programs[0].can_drop));
    drop(links);
    let (messages, said) = record(&["-e", event], &calls);
    assert!(!said.contains("dropped samples"), "{said}");
    assert_eq!(on_tracepoint(&messages, event).len(), 0);
}

#[test]
fn a_program_that_sat_on_a_tracepoint_for_a_while_is_warned_of() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let event = "sched:sched_process_wait";
    let other = thread::spawn(|| {
        let source = r#"SEC("tp/sched/sched_process_wait") int for_a_while(void *c) { return 1; }"#;
        let mut object = load(source, Debug::Full);
        thread::sleep(Duration::from_millis(700));
        let links = attach(&mut object);
        thread::sleep(Duration::from_millis(1500));
        drop(links);
    });
    let (messages, said) = record(&["-e", event], &["sleep", "3.5"]);
    other.join().unwrap();
    assert!(said.contains("1 BPF program on `sched:sched_process_wait`: `for_a_while`"), "{said}");
    let names = |it: &TracepointPrograms| it.programs.iter().map(|it| it.name.clone()).collect();
    let found: Vec<Vec<String>> = on_tracepoint(&messages, event).into_iter().map(names).collect();
    assert_eq!(found.first().unwrap(), &["for_a_while"]);
    assert_eq!(found.last().unwrap().len(), 0);
}

/// A program that an event attaches without a link, as bcc does.
#[test]
#[expect(unsafe_code, reason = "libbpf makes links")]
fn a_program_without_a_link_is_found_by_its_event() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let source = r#"SEC("tp/sched/sched_process_hang") int linkless(void *ctx) { return 1; }"#;
    let object = load(source, Debug::Full);
    let event = "sched:sched_process_hang";
    let number = fs::read_to_string("/sys/kernel/tracing/events/sched/sched_process_hang/id");
    let mut attr = bindings::perf_event_attr {
        type_: bindings::PERF_TYPE_TRACEPOINT,
        size: u32::try_from(size_of::<bindings::perf_event_attr>()).unwrap(),
        config: number.unwrap().trim().parse().unwrap(),
        sample_type: 0,
        ..Default::default()
    };
    // SAFETY: `attr` is as long as it says and outlives the call.
    let fd = unsafe { perf_event_open_sys::perf_event_open(&raw mut attr, -1, 0, -1, CLOEXEC) };
    assert!(0 <= fd, "{}", std::io::Error::last_os_error());
    let program = object.progs().next().unwrap();
    // SAFETY: both descriptors are open.
    let ret = unsafe { ioctls::SET_BPF(fd, program.as_fd().as_raw_fd().cast_unsigned()) };
    assert_eq!(ret, 0);
    let id = id_of(&object, "linkless");
    let (messages, _) = record(&["-e", event], &["true"]);
    let found = on_tracepoint(&messages, event);
    let attached: Vec<_> = found.iter().flat_map(|it| &it.programs).collect();
    assert!(attached.iter().all(|it| (it.id, &*it.how, it.link) == (id, "perf_event", None)));
    assert!(!attached.is_empty());
    let state = state_of(&messages, id);
    let want = LinkState {
        id: 0,
        kind: "perf_event".to_owned(),
        attach_type: Some("tracepoint".to_owned()),
        target: Some("sched_process_hang".to_owned()),
        pins: Vec::new(),
    };
    assert_eq!(state.links, [want]);
    let vias: Vec<_> = state.holders.iter().map(|it| &*it.via).collect();
    assert_eq!(vias, ["perf_event", "prog"]);
    // SAFETY: nobody else has the descriptor.
    assert_eq!(unsafe { libc::close(fd) }, 0);
}

/// A folder of bpffs that goes with the test.
struct BpfFolder(PathBuf);

impl BpfFolder {
    fn new(name: &str) -> Self {
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        if !mounts.contains(" /sys/fs/bpf bpf ") {
            // Not every machine mounts it at its start.
            let mut mount = Command::new("mount");
            assert!(mount.args(["-t", "bpf", "bpf", "/sys/fs/bpf"]).status().unwrap().success());
        }
        let path = Path::new("/sys/fs/bpf").join(format!("{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for BpfFolder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

#[test]
fn maps_links_pins_and_holders_of_a_program_are_in_the_recording() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let source = r#"
        int n_seen;
        META(char, owner)[] = "team-net";
        SEC("raw_tp/sched_process_hang") int sits_somewhere(void *ctx) { n_seen++; return 0; }
    "#;
    let mut object = load(source, Debug::Full);
    let mut links = attach(&mut object);
    let folder = BpfFolder::new("sits");
    let (of_program, of_link) = (folder.0.join("program"), folder.0.join("a link"));
    object.progs_mut().next().unwrap().pin(&of_program).unwrap();
    links[0].pin(&of_link).unwrap();
    let (messages, _) = record(&[], &["true"]);
    let state = state_of(&messages, id_of(&object, "sits_somewhere"));
    let maps: Vec<_> = state.maps.iter().map(|it| (it.name.as_str(), it.kind.as_str())).collect();
    let has = |suffix: &str| maps.iter().any(|it| it.0.ends_with(suffix) && it.1 == "array");
    assert!(has(".bss") && has(".rodata"), "{maps:?}");
    assert_eq!(state.pins, [of_program.to_str().unwrap()]);
    let [link] = &state.links[..] else { panic!("{:?}", state.links) };
    assert_eq!(
        (&*link.kind, link.target.as_deref()),
        ("raw_tracepoint", Some("sched_process_hang"))
    );
    assert_eq!(link.pins, [of_link.to_str().unwrap()]);
    let pid = std::process::id().cast_signed();
    let comm = fs::read_to_string("/proc/self/comm").unwrap();
    let ours: Vec<_> = state.holders.iter().filter(|it| it.pid == pid).collect();
    assert_eq!(ours.iter().map(|it| &*it.via).collect::<Vec<_>>(), ["link", "prog"]);
    assert!(ours.iter().all(|it| it.comm == comm.trim_end()));
}

#[test]
fn what_links_of_each_kind_are_attached_to_is_told_in_words() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let source = r#"
        SEC("xdp") int on_interface(void *ctx) { return 2; }
        SEC("cgroup_skb/egress") int on_cgroup(void *ctx) { return 1; }
        SEC("tp_btf/sched_process_hang") int typed(void *ctx) { return 0; }
        SEC("perf_event") int on_event(void *ctx) { return 0; }
    "#;
    let object = load(source, Debug::Full);
    let program = |name: &str| object.progs_mut().find(|it| it.name() == name).unwrap();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let cgroup = mounts.lines().find(|it| it.contains(" cgroup2 ")).unwrap();
    let cgroup = cgroup.split(' ').nth(1).unwrap().to_owned();
    let folder = File::open(&cgroup).unwrap();
    let faults = event_of_faults();
    let _links = [
        program("on_interface").attach_xdp(1).unwrap(),
        program("on_cgroup").attach_cgroup(folder.as_raw_fd()).unwrap(),
        program("typed").attach().unwrap(),
        program("on_event").attach_perf_event(faults).unwrap(),
    ];
    let (messages, _) = record(&[], &["true"]);
    for (name, kind, attach_type, target) in [
        ("on_interface", "xdp", None, "lo (ifindex 1)"),
        ("on_cgroup", "cgroup", Some("cgroup_inet_egress"), &*cgroup),
        ("typed", "raw_tracepoint", Some("trace_raw_tp"), "sched_process_hang"),
        ("on_event", "perf_event", Some("event"), "page-faults"),
    ] {
        let state = state_of(&messages, id_of(&object, name));
        let links = state.links.iter();
        let found: Vec<_> =
            links.map(|it| (&*it.kind, it.attach_type.as_deref(), it.target.as_deref())).collect();
        assert_eq!(found, [(kind, attach_type, Some(target))], "{name}");
    }
}

/// What the commands of other tests must not inherit.
const CLOEXEC: std::ffi::c_ulong = bindings::PERF_FLAG_FD_CLOEXEC as std::ffi::c_ulong;

/// Page faults on CPU 0; the link that is made on them takes them over.
#[expect(unsafe_code, reason = "nothing else opens a bare event")]
fn event_of_faults() -> i32 {
    let mut attr = bindings::perf_event_attr {
        type_: bindings::PERF_TYPE_SOFTWARE,
        size: u32::try_from(size_of::<bindings::perf_event_attr>()).unwrap(),
        config: u64::from(bindings::PERF_COUNT_SW_PAGE_FAULTS),
        ..Default::default()
    };
    attr.__bindgen_anon_1.sample_period = 1_000_000_000;
    // SAFETY: `attr` is as long as it says and outlives the call.
    let fd = unsafe { perf_event_open_sys::perf_event_open(&raw mut attr, -1, 0, -1, CLOEXEC) };
    assert!(0 <= fd, "{}", std::io::Error::last_os_error());
    fd
}

/// A congestion control of two operations.
const CONGESTION: &str = r#"
    struct sock;
    struct tcp_congestion_ops {
        unsigned int (*ssthresh)(struct sock *sk);
        void (*cong_avoid)(struct sock *sk, unsigned int ack, unsigned int acked);
        unsigned int (*undo_cwnd)(struct sock *sk);
        char name[16];
    } __attribute__((preserve_access_index));
    SEC("struct_ops/ssthresh") unsigned int threshold(unsigned long long *ctx) { return 10; }
    SEC("struct_ops/cong_avoid") void avoid(unsigned long long *ctx) {}
    SEC("struct_ops/undo_cwnd") unsigned int undo(unsigned long long *ctx) { return 10; }
    SEC("SECTION") struct tcp_congestion_ops NAME = {
        .ssthresh = (void *)threshold,
        .cong_avoid = (void *)avoid,
        .undo_cwnd = (void *)undo,
        .name = "NAME",
    };
"#;

/// Registers `CONGESTION` under `name` from a section, and looks for its programs.
#[track_caller]
fn check_operations(section: &str, name: &str, want_vias: &[&str]) {
    let source = CONGESTION.replace("SECTION", section).replace("NAME", name);
    let mut object = load(&source, Debug::Full);
    let link = object
        .maps_mut()
        .find(|it| it.map_type() == libbpf_rs::MapType::StructOps)
        .unwrap()
        .attach_struct_ops()
        .unwrap();
    let (messages, _) = record(&[], &["true"]);
    for (program, operation) in [("threshold", "ssthresh"), ("undo", "undo_cwnd")] {
        let state = state_of(&messages, id_of(&object, program));
        let [found] = &state.links[..] else { panic!("{:?}", state.links) };
        let target = format!("tcp_congestion_ops.{operation} of {name}");
        assert_eq!((&*found.kind, found.target.as_deref()), ("struct_ops", Some(&*target)));
        let pid = std::process::id().cast_signed();
        let ours = state.holders.iter().filter(|it| it.pid == pid).map(|it| &*it.via);
        assert_eq!(ours.collect::<Vec<_>>(), want_vias);
    }
    // It has to go before the object, else it stays registered.
    drop(link);
}

#[test]
fn a_program_that_implements_an_operation_of_the_kernel_is_told_with_which() {
    if !may_run(&[Need::Root]) {
        return;
    }
    check_operations(".struct_ops", "told_cc_a", &["prog"]);
    check_operations(".struct_ops.link", "told_cc_b", &["link", "prog"]);
}

#[test]
fn a_program_that_comes_and_goes_meanwhile_is_told_with_its_links_and_last_count() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let other = thread::spawn(|| {
        thread::sleep(Duration::from_millis(700));
        // Attached to all getppid(2), of which the recorded command makes many.
        stdout_of(demo().args(["attach-for", "2.5", "0"]))
    });
    let spin = demo_path();
    let (messages, _) = record(&["--bpf-stats"], &[spin.to_str().unwrap(), "spin", "4.5"]);
    let said = other.join().unwrap();
    let id: u32 = said.trim().rsplit(' ').next().unwrap().parse().unwrap();
    let state = state_of(&messages, id);
    let [link] = &state.links[..] else { panic!("{:?}", state.links) };
    assert_eq!(link.target.as_deref(), Some("sys_enter"));
    assert!(state.holders.iter().any(|it| it.comm == "demo"), "{:?}", state.holders);
    let readings = runs(&messages);
    assert!(readings.iter().all(|it| it.counted));
    let of_it = readings.iter().flat_map(|it| &it.programs).filter(|it| it.id == id);
    let [last] = of_it.collect::<Vec<_>>()[..] else { panic!("not one last count: {readings:?}") };
    assert!(0 < last.run_cnt && 0 < last.run_time_ns, "{last:?}");
    assert_eq!(last.load_time_ns, state.load_time_ns);
}

#[test]
fn runs_are_counted_while_the_recording_runs_if_that_is_asked_for() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let workload = Background::start(demo().args(["run", "60"]));
    let id: u32 = workload.said.rsplit(' ').next().unwrap().parse().unwrap();
    let pid = workload.pid().to_string();
    let (messages, _) = record(&["--bpf-stats", "-p", &pid], &["sleep", "0.5"]);
    let readings = runs(&messages);
    let of = |runs: &Runs| -> ProgramRuns {
        runs.programs.iter().copied().find(|it| it.id == id).unwrap_or_default()
    };
    let (first, last) = (readings.first().unwrap(), readings.last().unwrap());
    assert!(first.counted && last.counted);
    let (before, after) = (of(first), of(last));
    assert!(before.run_cnt + 100 < after.run_cnt, "{before:?} {after:?}");
    assert!(before.run_time_ns < after.run_time_ns);
    assert!(first.boot_ns + 400_000_000 < last.boot_ns);
}

#[test]
fn runs_are_counted_from_before_the_command_begins_until_after_it_ends() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let uptime = scratch.path().join("uptime");
    let command = format!("cat /proc/uptime > {}", uptime.display());
    let (messages, _) = record(&["--bpf-stats"], &["sh", "-c", &command]);
    // In hundredths of seconds, cut.
    let uptime = fs::read_to_string(uptime).unwrap();
    let began = uptime.split(' ').next().unwrap().replace('.', "").parse::<u64>().unwrap();
    let readings = runs(&messages);
    let (first, last) = (readings.first().unwrap(), readings.last().unwrap());
    assert!(first.boot_ns / 10_000_000 <= began, "{began}: {readings:?}");
    assert!(began <= last.boot_ns / 10_000_000, "{began}: {readings:?}");
}

/// With an event that is as good as never, so that no round brings what was found with it.
#[test]
fn what_was_found_is_in_the_file_of_a_recorder_that_is_killed() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("perf.data");
    let mut record = bpfperf();
    record.args(["record", "-q", "-e", "alignment-faults", "-o"]).arg(&recording);
    // Ends when the recorder's input does, which is ours.
    let mut recorder = record.args(["--", "cat"]).stdin(Stdio::piped()).spawn().unwrap();
    while !recording.exists() {
        thread::sleep(Duration::from_millis(20));
    }
    let workload = Background::start(demo().args(["attach-for", "60", "1"]));
    let id: u32 = workload.said.rsplit(' ').next().unwrap().parse().unwrap();
    let is_told = || {
        let messages = messages(&File::open(&recording).unwrap());
        messages.iter().any(|it| matches!(it, Message::Program(state) if state.id == id))
    };
    let told = (0..200).any(|_| {
        thread::sleep(Duration::from_millis(50));
        is_told()
    });
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    assert!(told && is_told());
}

/// A program of more native code than a record holds, with more types than one holds.
fn large_program() -> String {
    let types = (0..900).map(|it| {
        format!(
            "struct a_type_with_a_name_that_takes_some_room_{it} {{ int member_{it}; }} v{it};\n"
        )
    });
    let code = (0..4500).map(|it| {
        format!("x = x * {} + {it}; x ^= x >> {}; OPAQUE(x);\n", it * 2 + 3, it % 13 + 1)
    });
    format!(
        "{}SEC(\"socket\") int too_large(void *ctx) {{ unsigned long x = 3; {} return x + v1.member_1; }}\n\
         SEC(\"socket\") int small(void *ctx) {{ return 0; }}",
        types.collect::<String>(),
        code.collect::<String>(),
    )
}

/// A recording as a pipe has it.
#[track_caller]
fn record_pipe(args: &[&str], command: &[&str]) -> (Vec<u8>, String) {
    let mut record = bpfperf();
    record.arg("record").args(args).args(["-o", "-", "--"]).args(command);
    let output = output_of(&mut record);
    assert!(output.status.success(), "{}", told(&record, &output));
    (output.stdout, String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Kind of each record of a pipe and, of features, the number and how many bytes of data.
#[track_caller]
fn records(pipe: &[u8]) -> Vec<(RecordKind, u64, usize)> {
    let recording = Recording::open(&pipe).unwrap();
    let mut walk = RecordWalk::new(&pipe, recording.data[0], Endian::NATIVE);
    let mut records = Vec::new();
    while let Some(raw) = walk.next().unwrap() {
        let number = raw.body.first_chunk().map_or(0, |it| u64::from_ne_bytes(*it));
        records.push((raw.header.kind, number, raw.body.len().saturating_sub(8)));
    }
    records
}

#[test]
fn what_is_too_large_for_a_record_of_a_pipe_is_whole_in_private_records() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let object = load(&large_program(), Debug::Full);
    let (large, small) = (id_of(&object, "too_large"), id_of(&object, "small"));
    let (pipe, said) = record_pipe(&[], &["true"]);
    let want = "2 features are too large for perf's records in a pipe; bpfperf reads them";
    assert!(said.contains(want), "{said}");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pipe.data");
    fs::write(&path, &pipe).unwrap();
    let header = stdout_of(bpfperf().args(["report", "--header-only", "-I", "-i"]).arg(&path));
    for id in [large, small] {
        let n = header.lines().filter(|it| it.starts_with(&format!("# bpf_prog_info {id}:")));
        assert_eq!(n.count(), 1, "{header}");
    }
    assert!(header.contains("# btf info of id "), "{header}");
    // perf has all but these.
    let of_perf: Vec<_> =
        records(&pipe).into_iter().filter(|it| it.0 == RecordKind::HEADER_FEATURE).collect();
    assert!(of_perf.iter().any(|it| it.1 == 25));
    assert!(of_perf.iter().all(|it| it.2 < 65_520));
}

#[test]
fn features_of_programs_come_once_each_in_a_pipe_and_the_mark_behind_all_of_them() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let before = load("SEC(\"socket\") int before(void *ctx) { return 0; }", Debug::Full);
    let spin = demo_path();
    let (pipe, _) = record_pipe(&[], &[spin.to_str().unwrap(), "run", "0.3"]);
    let records = records(&pipe);
    let at = |number: u64| {
        let is_it = move |it: &(RecordKind, u64, usize)| {
            it.0 == RecordKind::HEADER_FEATURE && it.1 == number
        };
        (records.iter().position(is_it), records.iter().rposition(is_it))
    };
    let (first, end) = at(35);
    assert_eq!(first, end, "the mark comes more than once");
    assert!(at(25).1 < end && at(26).1 < end);
    // perf names a program when it meets it, by types that it has met before.
    assert!(at(26).0 < at(25).0);
    // What was known came before the first sample.
    let sample = records.iter().position(|it| it.0 == RecordKind::SAMPLE);
    assert!(at(25).0 < sample && sample < at(25).1);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pipe.data");
    fs::write(&path, &pipe).unwrap();
    let header = stdout_of(bpfperf().args(["report", "--header-only", "-I", "-i"]).arg(&path));
    let id = id_of(&before, "before");
    let lines = |start: &str| header.lines().filter(|it| it.starts_with(start)).count();
    assert_eq!(lines(&format!("# bpf_prog_info {id}:")), 1, "{header}");
    assert!(header.contains("_demo_sys_enter"), "{header}");
    if let Some(perf) = crate::stage::peer() {
        let script = "\"$0\" report --header-only -I -i - < \"$1\"";
        let mut sh = Command::new("sh");
        let perfs = stdout_of(sh.args(["-c", script]).arg(perf).arg(&path));
        assert!(perfs.contains("_demo_sys_enter"), "{perfs}");
        assert!(perfs.contains(&format!("# bpf_prog_info {id}:")), "{perfs}");
    }
}

#[test]
fn nothing_that_perf_6_1_does_not_know_is_in_what_is_made_for_it() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let spin = demo_path();
    let (pipe, _) = record_pipe(&["--compat", "6.1"], &[spin.to_str().unwrap(), "run", "0.3"]);
    for (kind, number, _) in records(&pipe) {
        assert!(kind.0 < 83, "{kind:?}");
        assert!(kind != RecordKind::HEADER_FEATURE || number <= 31, "{number}");
    }
    // Which is no loss to us.
    let told = messages(&&pipe[..]);
    assert!(told.iter().any(|it| matches!(it, Message::Metadata(_))));
    assert!(told.iter().any(|it| matches!(it, Message::Program(_))));
}

/// `perf inject` leaves out what it does not know; all that it knows has to pass.
#[test]
fn perf_injects_build_ids_into_recordings_and_nothing_else_changes() {
    if !may_run(&[Need::Root, Need::Peer]) {
        return;
    }
    let Some(perf) = crate::stage::peer() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (file, pipe) = (dir.path().join("file"), dir.path().join("pipe"));
    let spin = demo_path();
    let run = [spin.to_str().unwrap(), "run", "0.3"];
    let mut record = bpfperf();
    stdout_of(record.args(["record", "-q", "-g", "-o"]).arg(&file).arg("--").args(run));
    fs::write(&pipe, record_pipe(&["-g"], &run).0).unwrap();
    let script = |path: &Path| stdout_of(bpfperf().args(["script", "-i"]).arg(path));
    for input in [&file, &pipe] {
        let before = script(input);
        for how in [&[][..], &["-b"], &["--build-ids"]] {
            let injected = dir.path().join("injected");
            let mut inject = Command::new(&perf);
            stdout_of(inject.arg("inject").args(how).arg("-i").arg(input).arg("-o").arg(&injected));
            let after = script(&injected);
            assert_eq!(before.lines().count(), after.lines().count(), "{how:?} {input:?}");
            let differs = before.lines().zip(after.lines()).find(|(before, after)| before != after);
            assert_eq!(differs, None, "{how:?} {input:?}");
        }
    }
}
