//! A workload whose system calls cost BPF time: loads `demo.bpf.c`, attaches it, makes the calls.
//!
//! ```text
//! demo run SECONDS             attach the program to this process, then spin; without the right to
//!                              load BPF it says so and spins all the same
//! demo spin SECONDS            only spin: call getppid(2) without end, half the time in user code
//! demo attach-for SECONDS PID  attach to the getppid(2) calls of a process (0: of every process)
//! demo load-before CMD ARG..   attach to every process, then run a command, and pass on its status
//! ```
//!
//! `run` and the two that attach print one line to stdout when the program is in place,
//! `attached demo_sys_enter id N`, or `not attached: REASON`. All end early when their standard
//! input ends, if it is a pipe: whoever started them is gone then.

#![expect(clippy::print_stdout, reason = "its caller reads from stdout whether BPF is in place")]

use std::env;
use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::io::Read;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::os::unix::process::parent_id;
use std::process;
use std::process::Command;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use libbpf_rs::OpenObject;
use libbpf_rs::Program;
use libbpf_rs::skel::OpenSkel;
use libbpf_rs::skel::Skel;
use libbpf_rs::skel::SkelBuilder;

use self::skel::DemoSkel;
use self::skel::DemoSkelBuilder;

mod skel {
    #![expect(
        unsafe_code,
        unreachable_pub,
        unused_qualifications,
        clippy::allow_attributes_without_reason,
        clippy::multiple_unsafe_ops_per_block,
        clippy::panic,
        clippy::pedantic,
        clippy::undocumented_unsafe_blocks,
        clippy::unwrap_used,
        reason = "libbpf-cargo generates it"
    )]
    include!(concat!(env!("OUT_DIR"), "/demo.skel.rs"));
}

const USAGE: &str =
    "usage: demo run SECONDS | spin SECONDS | attach-for SECONDS PID | load-before CMD [ARG..]";

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    // What libbpf would print, the error says too.
    libbpf_rs::set_print(None);
    match args.as_slice() {
        ["run", seconds] => {
            let until = Deadline::after(seconds)?;
            let mut object = MaybeUninit::uninit();
            let attached = attach(&mut object, process::id());
            tell(&attached);
            spin(&until);
        }
        ["spin", seconds] => spin(&Deadline::after(seconds)?),
        ["attach-for", seconds, pid] => {
            let until = Deadline::after(seconds)?;
            let mut object = MaybeUninit::uninit();
            let attached = attach(&mut object, pid.parse()?);
            tell(&attached);
            let _attached = attached?;
            until.wait();
        }
        ["load-before", command, rest @ ..] => {
            let mut object = MaybeUninit::uninit();
            let attached = attach(&mut object, 0);
            tell(&attached);
            let _attached = attached?;
            let status = Command::new(command).args(rest).status()?;
            let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
            return Ok(ExitCode::from(u8::try_from(code.unwrap_or(1)).unwrap_or(1)));
        }
        _ => return Err(USAGE.into()),
    }
    Ok(ExitCode::SUCCESS)
}

/// Loads the program and attaches it to the getppid(2) calls of `pid`.
fn attach(object: &mut MaybeUninit<OpenObject>, pid: u32) -> Result<DemoSkel<'_>, Box<dyn Error>> {
    let mut open = DemoSkelBuilder::default().open(object)?;
    let namespace = fs::metadata("/proc/self/ns/pid")?;
    let constants = open.maps.rodata_data.as_deref_mut().ok_or("the object has no .rodata")?;
    constants.syscall_nr = u64::try_from(libc::SYS_getppid)?;
    constants.target_pid = pid;
    constants.pidns_dev = namespace.dev();
    constants.pidns_ino = namespace.ino();
    let mut skel = open.load()?;
    skel.attach()?;
    Ok(skel)
}

/// Says on stdout whether the program is in place.
fn tell(attached: &Result<DemoSkel<'_>, Box<dyn Error>>) {
    match attached.as_ref().map(|skel| Program::id_from_fd(skel.progs.demo_sys_enter.as_fd())) {
        Ok(Ok(id)) => println!("attached demo_sys_enter id {id}"),
        Ok(Err(error)) => println!("attached demo_sys_enter, id not told: {error}"),
        Err(error) => println!("not attached: {error}"),
    }
}

/// Calls getppid(2), and does as much again in user code, until it is time.
fn spin(until: &Deadline) {
    while !until.is_over() {
        for round in 0..100_u64 {
            black_box(parent_id());
            black_box(mix(round));
        }
    }
}

/// User code that a profile can show beside the system calls.
#[inline(never)]
fn mix(seed: u64) -> u64 {
    (0..500).fold(seed, |sum, step| (sum ^ step).rotate_left(7).wrapping_mul(0x0100_0000_01b3))
}

/// When to end: at a time, or when whoever holds the other end of stdin goes.
struct Deadline {
    end: Instant,
    is_alone: Arc<AtomicBool>,
}

impl Deadline {
    fn after(seconds: &str) -> Result<Self, Box<dyn Error>> {
        let is_alone = Arc::new(AtomicBool::new(false));
        if fs::metadata("/proc/self/fd/0").is_ok_and(|stdin| stdin.file_type().is_fifo()) {
            let is_alone = Arc::clone(&is_alone);
            thread::spawn(move || {
                let mut sink = Vec::new();
                // An error ends the wait as the end of the input does.
                drop(std::io::stdin().read_to_end(&mut sink));
                is_alone.store(true, Ordering::Relaxed);
            });
        }
        Ok(Self { end: Instant::now() + Duration::try_from_secs_f64(seconds.parse()?)?, is_alone })
    }

    fn is_over(&self) -> bool {
        self.is_alone.load(Ordering::Relaxed) || self.end <= Instant::now()
    }

    fn wait(&self) {
        while !self.is_over() {
            thread::sleep(Duration::from_millis(20));
        }
    }
}
