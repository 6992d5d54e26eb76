//! Programs compiled and loaded for a test.

use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::fd::FromRawFd;
use std::os::fd::OwnedFd;
use std::process::Command;

use bpfperf::units::ProgId;
use libbpf_rs::Object;
use libbpf_rs::ObjectBuilder;
use libbpf_rs::libbpf_sys as raw;

/// What is needed of the headers of libbpf.
const PRELUDE: &str = r#"
#define SEC(name) __attribute__((section(name), used))
#define NOINLINE static __attribute__((noinline))
#define META(type, name) __attribute__((used)) volatile const type bpf_metadata_##name
/* Keeps the compiler from computing the result by itself. */
#define OPAQUE(x) asm volatile("" : "+r"(x))
char license_of_all[] SEC("license") = "GPL";
"#;

/// Whether the compiler writes types and lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Debug {
    Full,
    None,
}

/// Compiles `source` and loads all its programs, which are unloaded with the returned object.
#[track_caller]
pub(crate) fn load(source: &str, debug: Debug) -> Object {
    let dir = tempfile::tempdir().unwrap();
    let (input, output) = (dir.path().join("test.bpf.c"), dir.path().join("test.bpf.o"));
    std::fs::write(&input, format!("{PRELUDE}{source}")).unwrap();
    let mut clang = Command::new("clang");
    clang.args(["-O2", "-target", "bpf", "-c"]).arg(&input).arg("-o").arg(&output);
    if debug == Debug::Full {
        clang.arg("-g");
    }
    let status = clang.status().unwrap();
    assert!(status.success(), "clang: {status}");
    libbpf_rs::set_print(None);
    ObjectBuilder::default().open_file(&output).unwrap().load().unwrap()
}

/// The id of the only program of `object`.
#[track_caller]
pub(crate) fn id_of(object: &Object) -> ProgId {
    let mut programs = object.progs();
    let program = programs.next().unwrap();
    assert!(programs.next().is_none());
    id_of_fd(&program.as_fd())
}

fn id_of_fd(program: &impl AsRawFd) -> ProgId {
    let path = format!("/proc/self/fdinfo/{}", program.as_raw_fd());
    let text = std::fs::read_to_string(path).unwrap();
    let id = text.lines().find_map(|it| it.strip_prefix("prog_id:")).unwrap();
    ProgId(id.trim().parse().unwrap())
}

/// Loads `r0 = 0; exit` as a socket filter that has no name, no types and no lines.
#[expect(unsafe_code, reason = "libbpf-rs loads no bare instructions")]
pub(crate) fn load_nameless() -> (OwnedFd, ProgId) {
    // struct bpf_insn: BPF_ALU64 | BPF_MOV | BPF_K, and BPF_JMP | BPF_EXIT.
    let insns: [u64; 2] = [0xb7, 0x95];
    // SAFETY: the two instructions of 8 bytes and the strings outlive the call.
    let fd = unsafe {
        raw::bpf_prog_load(
            raw::BPF_PROG_TYPE_SOCKET_FILTER,
            std::ptr::null(),
            c"GPL".as_ptr(),
            insns.as_ptr().cast(),
            2,
            std::ptr::null_mut(),
        )
    };
    assert!(fd >= 0, "{fd}");
    // SAFETY: the call succeeded, and nothing else has seen the descriptor.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let id = id_of_fd(&fd);
    (fd, id)
}
