//! Programs from their source.

use std::fs;
use std::path::Path;
use std::path::PathBuf;

use bpfperf::bpf::source;
use bpfperf::bpf::source::Compiled;
use bpfperf::bpf::source::Options;
use bpfperf::bpf::source::compile;

use libbpf_rs::ObjectBuilder;

use crate::stage::Need;
use crate::stage::bpfperf;
use crate::stage::example;
use crate::stage::may_run;
use crate::stage::object;
use crate::stage::object_with;
use crate::stage::output_of;

/// The programs of an object, sorted, if libbpf can open it; its complaint is its own.
fn programs(path: &Path) -> Option<Vec<String>> {
    let object = ObjectBuilder::default().open_file(path).ok()?;
    let mut names: Vec<String> =
        object.progs().map(|it| it.name().to_string_lossy().into_owned()).collect();
    names.sort();
    Some(names)
}

#[test]
fn the_objects_that_tests_play_with_are_what_they_say() {
    let scratch = tempfile::tempdir().unwrap();
    let open = |name| programs(&object(name, scratch.path()));
    let names = |names: &[&str]| Some(names.iter().map(|&it| it.to_owned()).collect::<Vec<_>>());
    assert_eq!(open("kinds"), names(&["on_call", "on_clock", "on_function", "on_raw"]));
    assert_eq!(open("kprobe"), names(&["on_sleep", "on_slept"]));
    assert_eq!(open("fentry"), names(&["on_sleep", "on_slept"]));
    assert_eq!(open("no_programs"), names(&[]));
    assert_eq!(open("unknown_section"), names(&["on_moon"]));
    assert_eq!(open("settings"), names(&["on_clock"]));
    assert_eq!(open("refused"), names(&["unchecked"]));
    assert_eq!(open("exits"), names(&["exits"]));
    assert_eq!(programs(&example("slow_reads")), names(&["read_begins", "slow_read"]));
    assert_eq!(programs(&example("run_queue")), names(&["switches", "wakes", "wakes_first"]));
    let foreign = object_with("kinds", &["-target", "bpfeb"], scratch.path());
    assert_eq!(fs::read(&foreign).unwrap().get(5), Some(&2), "the byte order in an ELF");
}

#[test]
fn the_kernel_takes_the_objects_of_tests_that_are_sound() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let load = |path: PathBuf| ObjectBuilder::default().open_file(path).unwrap().load().is_ok();
    assert!(load(object("kinds", scratch.path())));
    assert!(load(object("settings", scratch.path())));
    assert!(load(object("exits", scratch.path())));
    assert!(load(example("slow_reads")));
    assert!(load(example("run_queue")));
    assert!(!load(object("refused", scratch.path())));
}

/// A source `it.bpf.c` with this text, compiled.
fn compiled(text: &str, args: &[&str]) -> Result<Compiled, source::Error> {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("it.bpf.c");
    fs::write(&path, text).unwrap();
    compile(&path, &Options { clang: None, args: args.iter().map(|&it| it.to_owned()).collect() })
}

#[track_caller]
fn loads(compiled: &Compiled) {
    assert_eq!(compiled.messages, "");
    ObjectBuilder::default().open_memory(&compiled.object).unwrap().load().unwrap();
}

const LICENSE: &str = "char LICENSE[] SEC(\"license\") = \"GPL\";\n";

#[test]
fn the_kernels_types_come_with_us() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let text = r#"
        #include "vmlinux.h"
        #include <bpf/bpf_helpers.h>
        #include <bpf/bpf_tracing.h>
        #include <bpf/bpf_core_read.h>
        #include <bpf/bpf_endian.h>
        #include <bpf/usdt.bpf.h>

        struct {
            __uint(type, BPF_MAP_TYPE_HASH);
            __uint(max_entries, 8);
            __type(key, pid_t);
            __type(value, struct bpf_perf_event_value);
        } seen SEC(".maps");
        u64 starts;

        SEC("tp_btf/sched_switch")
        int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
        {
            pid_t key = prev->pid;
            struct file *exe = BPF_CORE_READ(next, mm, exe_file);

            starts += next->cred->uid.val + (exe ? BPF_CORE_READ(exe, f_path.dentry, d_flags) : 0);
            bpf_map_delete_elem(&seen, &key);
            return preempt ? TASK_COMM_LEN : bpf_htons(1);
        }

        SEC("uprobe")
        int BPF_UPROBE(on_function, long first)
        {
            return PT_REGS_IP(ctx) != first;
        }

        SEC("tracepoint/syscalls/sys_enter_getppid")
        int on_call(struct trace_event_raw_sys_enter *ctx)
        {
            return ctx->id != 0;
        }

        SEC("usdt/libc.so.6:libc:setjmp")
        int BPF_USDT(on_probe, int first)
        {
            return first;
        }
    "#;
    loads(&compiled(&format!("{text}{LICENSE}"), &[]).unwrap());
}

#[test]
fn a_source_may_do_without_the_kernels_types() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let types = "typedef unsigned char __u8; typedef unsigned short __u16, __be16;\n\
        typedef unsigned int __u32, __be32, __wsum; typedef unsigned long long __u64;\n\
        typedef int __s32; typedef long long __s64;\n";
    let program = "#include <bpf/bpf_helpers.h>\n\
        SEC(\"perf_event\") int on_clock(void *ctx) { return bpf_ktime_get_ns() & KEPT; }\n";
    loads(&compiled(&format!("{types}{program}{LICENSE}"), &["-DKEPT=1"]).unwrap());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf");
    for name in ["slow_reads", "run_queue"] {
        // Alone in a folder, as whoever copies it has it.
        let text = fs::read_to_string(folder.join(name).with_extension("bpf.c")).unwrap();
        loads(&compiled(&text, &["-Wall", "-Wextra"]).unwrap());
    }
}

#[test]
fn what_lies_beside_the_source_goes_first() {
    let scratch = tempfile::tempdir().unwrap();
    fs::write(scratch.path().join("vmlinux.h"), "#define KEPT 1\n").unwrap();
    let path = scratch.path().join("it.bpf.c");
    for include in ["\"vmlinux.h\"", "<vmlinux.h>"] {
        let text = format!("#include {include}\nint on_clock(void *ctx) {{ return KEPT; }}\n");
        fs::write(&path, text).unwrap();
        compile(&path, &Options::default()).unwrap();
    }
}

#[test]
fn clang_says_itself_what_is_wrong() {
    let text = "#include \"bpfperf.h\"\nint on_clock(void *ctx) { return nowhere; }\n";
    let Err(source::Error::Compile { clang, messages }) = compiled(text, &[]) else {
        panic!("no error of clang's")
    };
    assert!(clang.ends_with("/clang"), "{clang}");
    let line = "/it.bpf.c:2:34: error: use of undeclared identifier 'nowhere'\n";
    assert!(messages.contains(line), "{messages}");
    let warned = compiled("int on(void *ctx) { int unused; return 1; }\n", &["-Wall"]).unwrap();
    assert!(warned.messages.contains("/it.bpf.c:1:25: warning: unused variable 'unused'"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf/slow_reads.bpf.c");
    let options = Options { clang: Some("/nonexistent/clang".into()), args: Vec::new() };
    let error = compile(&path, &options).unwrap_err();
    assert_eq!(error.to_string(), "there is no `/nonexistent/clang` to compile it with");
}

/// What is said of a source `it.bpf.c` with this text, and that no file is left behind.
#[track_caller]
fn told_of(text: &str, args: &[&str]) -> String {
    let (scratch, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(scratch.path().join("it.bpf.c"), text).unwrap();
    let mut record = bpfperf();
    record.args(["record", "--dry-run", "-e", "it.bpf.c"]).args(args).arg("true");
    let output = output_of(record.current_dir(&scratch).env("TMPDIR", temporary.path()));
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "files are left");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn what_clang_says_comes_before_what_we_say() {
    let said = told_of("int on(void *ctx) { return nowhere; }\n", &[]);
    let (clangs, ours) = said.split_at(said.find("error: cannot take").unwrap());
    assert!(clangs.starts_with("it.bpf.c:1:28: error: use of undeclared identifier 'nowhere'\n"));
    let lines: Vec<&str> = ours.lines().collect();
    assert_eq!(lines.len(), 2, "{ours}");
    assert_eq!(lines[0], "error: cannot take BPF programs from `it.bpf.c`");
    assert!(
        lines[1].starts_with("  because: `/") && lines[1].ends_with("/clang` cannot compile it")
    );

    let said = told_of("#include \"nowhere.h\"\n", &[]);
    assert!(said.contains("it.bpf.c:1:10: fatal error: 'nowhere.h' file not found\n"), "{said}");
    assert!(said.contains("\nhint: `vmlinux.h`, `bpfperf.h` and "), "{said}");

    let said = told_of("", &["--clang-path", "/nonexistent/clang"]);
    let want = "error: cannot take BPF programs from `it.bpf.c`\n  \
        because: there is no `/nonexistent/clang` to compile it with\n\
        hint: `--clang-path` names another one; without it, `PATH` is searched\n";
    assert_eq!(said, want);
}

#[test]
fn a_warning_of_clangs_is_passed_on() {
    let text = "#include \"bpfperf.h\"\n#warning mind this\n\
        SEC(\"perf_event\") int on_clock(void *ctx) { return KEPT; }\n";
    let said = told_of(text, &["--clang-opt", "-DKEPT=1"]);
    assert!(said.starts_with("it.bpf.c:2:2: warning: mind this"), "{said}");
    assert!(!said.contains("error"), "{said}");
}

#[test]
fn without_a_compiler_it_is_said_what_to_do() {
    let scratch = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bpf/kinds.bpf.c");
    let mut record = bpfperf();
    record.env("PATH", scratch.path()).args(["record", "-o", "no.data", "-e"]).arg(&source);
    let output = output_of(record.current_dir(scratch.path()).arg("true"));
    assert_eq!(output.status.code(), Some(1));
    let want = format!(
        "error: cannot take BPF programs from `{}`\n  because: there is no `clang` to compile it \
         with\nhint: ",
        source.display()
    );
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with(&want), "{said}");
    assert!(said.contains("NAME.bpf.o"), "{said}");
}
