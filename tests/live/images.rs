//! Kernel text that belongs to BPF and to no program: the stubs of `struct_ops`.

use std::collections::BTreeMap;
use std::path::Path;

use libbpf_rs::Link;
use libbpf_rs::MapCore;
use libbpf_rs::MapType;
use libbpf_rs::Object;

use crate::loading::Debug;
use crate::loading::load;
use crate::stage::Need;
use crate::stage::bpfperf;
use crate::stage::may_run;
use crate::stage::stdout_of;

/// A congestion control that does what TCP did before there were any.
const CONGESTION: &str = r#"
    struct sock;
    struct tcp_congestion_ops {
        unsigned int (*ssthresh)(struct sock *sk);
        void (*cong_avoid)(struct sock *sk, unsigned int ack, unsigned int acked);
        unsigned int (*undo_cwnd)(struct sock *sk);
        char name[16];
    } __attribute__((preserve_access_index));
    SEC("struct_ops/ssthresh") unsigned int ssthresh(unsigned long long *ctx) { return 10; }
    SEC("struct_ops/cong_avoid") void cong_avoid(unsigned long long *ctx) {}
    SEC("struct_ops/undo_cwnd") unsigned int undo_cwnd(unsigned long long *ctx) { return 10; }
    SEC(".struct_ops") struct tcp_congestion_ops bpfperf_cc = {
        .ssthresh = (void *)ssthresh,
        .cong_avoid = (void *)cong_avoid,
        .undo_cwnd = (void *)undo_cwnd,
        .name = "NAME",
    };
"#;

/// What the kernel calls the stubs of it.
const STUBS: [&str; 3] = [
    "bpf__tcp_congestion_ops_cong_avoid",
    "bpf__tcp_congestion_ops_ssthresh",
    "bpf__tcp_congestion_ops_undo_cwnd",
];

/// Registers it; the link has to go before the object, else it stays registered.
fn congestion(name: &str) -> (Link, Object) {
    let mut object = load(&CONGESTION.replace("NAME", name), Debug::Full);
    let link = object
        .maps_mut()
        .find(|it| it.map_type() == MapType::StructOps)
        .unwrap()
        .attach_struct_ops()
        .unwrap();
    (link, object)
}

/// Address, length and time (as `script` prints it) of each stub, by name.
fn stubs(recording: &Path) -> BTreeMap<String, (u64, u64, String)> {
    let mut script = bpfperf();
    script.args(["script", "--show-bpf-events", "-F", "time,ip,sym", "-i"]).arg(recording);
    let mut stubs = BTreeMap::new();
    for line in stdout_of(&mut script).lines().filter(|it| it.contains("flags 0x0")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["PERF_RECORD_KSYMBOL", "addr", addr, "len", len, "type", _, .., "name", name] =
            &words[1..]
        else {
            continue;
        };
        if name.starts_with("bpf__") {
            let addr = u64::from_str_radix(addr, 16).unwrap();
            let stub = (addr, len.parse().unwrap(), words[0].to_owned());
            stubs.insert((*name).to_owned(), stub);
        }
    }
    stubs
}

#[test]
fn the_stubs_of_struct_ops_are_named_whether_they_were_there_before_or_not() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let record = |name: &str| {
        let mut record = bpfperf();
        record.args(["record", "-a", "-F", "99", "-q", "-o"]).arg(dir.path().join(name));
        record
    };
    let registered = congestion("bpfperf_cc_a");
    stdout_of(record("before").args(["--", "true"]));
    let before = stubs(&dir.path().join("before"));
    assert!(before.keys().eq(&STUBS), "{before:?}");
    for (addr, len, time) in before.values() {
        assert_eq!(time, "0.000000:");
        // The last of all symbols has no end that anybody knows; none of these is longer than a page.
        assert!((1..=4096).contains(len), "{len}");
        let begins_within = |it: u64| *addr < it && it < addr + len;
        assert!(!before.values().any(|it| begins_within(it.0)), "{before:?}");
    }
    drop(registered);

    let mut meanwhile = record("meanwhile").args(["--", "sleep", "3"]).spawn().unwrap();
    while !dir.path().join("meanwhile").exists() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let live = congestion("bpfperf_cc_b");
    assert!(meanwhile.wait().unwrap().success());
    drop(live);
    let meanwhile = stubs(&dir.path().join("meanwhile"));
    assert!(meanwhile.keys().eq(&STUBS), "{meanwhile:?}");
    assert!(meanwhile.values().all(|it| it.2 != "0.000000:"), "{meanwhile:?}");
}
