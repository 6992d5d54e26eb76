//! Time off the CPU: what is measured, and what is left of it.

use std::thread;
use std::time::Duration;

use bpfperf::bpf::off_cpu::CgroupIds;
use bpfperf::bpf::off_cpu::Halves;
use bpfperf::bpf::off_cpu::Hooks;
use bpfperf::bpf::off_cpu::OffCpu;
use bpfperf::bpf::off_cpu::OffCpuMessage;
use bpfperf::bpf::off_cpu::Setup;
use bpfperf::bpf::off_cpu::Whom;
use bpfperf::units::Tid;
use nix::time::ClockId;
use nix::time::clock_gettime;

use super::stage::Need;
use super::stage::may_run;

fn setup(whom: Whom, hooks: Hooks) -> Setup {
    Setup {
        whom,
        cpus: None,
        cgroups: Vec::new(),
        halves: Halves { kernel: true, user: true },
        max_frames: 127,
        cgroup_ids: CgroupIds::No,
        threshold_ns: u64::MAX,
        hooks,
    }
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
    let nanos = |it: i64| u64::try_from(it).unwrap();
    nanos(time.tv_sec()) * 1_000_000_000 + nanos(time.tv_nsec())
}

/// What is measured of this thread on `hooks` while it sleeps and is woken.
#[track_caller]
fn check_hooks(hooks: Hooks) {
    let own = nix::unistd::gettid().as_raw();
    let mut program = OffCpu::load(&setup(Whom::Threads(vec![Tid(own)]), hooks)).unwrap();
    let (send, receive) = std::sync::mpsc::channel();
    let waker = thread::Builder::new().name("waker".to_owned()).spawn(move || {
        thread::sleep(Duration::from_millis(300));
        send.send(nix::unistd::gettid().as_raw()).unwrap();
    });
    program.turn_on(now());
    for _ in 0..5 {
        thread::sleep(Duration::from_millis(10));
    }
    let waker_tid = receive.recv().unwrap();
    program.turn_off();
    thread::sleep(Duration::from_millis(20));
    waker.unwrap().join().unwrap();
    let sums = program.sums().unwrap();
    assert!(sums.iter().all(|it| it.key.tid == Tid(own)));
    let asleep = |it: &&OffCpuMessage| it.key.state == 1;
    let sleeps: Vec<_> = sums.iter().filter(asleep).filter(|it| it.sum.n == 5).collect();
    assert_eq!(sleeps.len(), 1, "{sums:?}");
    assert!((50_000_000..90_000_000).contains(&sleeps[0].sum.off_ns), "{sums:?}");
    assert_eq!(sleeps[0].key.woken_by, 2);
    let received: Vec<_> = sums.iter().filter(|it| it.key.waker.1 == Tid(waker_tid)).collect();
    assert_eq!(received.len(), 1, "{sums:?}");
    assert_eq!(&received[0].sum.waker_comm[..6], b"waker\0");
    assert!(200_000_000 < received[0].sum.off_ns);
    assert_eq!(program.losses(), bpfperf::bpf::off_cpu::Losses::default());
}

#[test]
fn sleeps_are_summed_by_stack_and_waker() {
    if may_run(&[Need::Root]) {
        check_hooks(Hooks::Best);
    }
}

#[test]
fn raw_tracepoints_measure_the_same() {
    if may_run(&[Need::Root]) {
        check_hooks(Hooks::Raw);
    }
}
