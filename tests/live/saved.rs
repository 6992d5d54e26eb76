//! Files that nobody can find when the recording is read: of containers, deleted, in memory alone.

use std::fs;
use std::io::BufRead as _;
use std::io::BufReader;
use std::path::Path;
use std::process::Command;
use std::process::Stdio;

use crate::stage::Background;
use crate::stage::Need;
use crate::stage::bpfperf;
use crate::stage::may_run;
use crate::stage::output_of;
use crate::stage::peer;
use crate::stage::stdout_of;

/// A program whose one function takes most of its time.
fn source(function: &str, rounds: u64) -> String {
    format!(
        "#include <stdio.h>
        __attribute__((noinline)) unsigned long {function}(unsigned long n)
        {{
            unsigned long s = n;
            for (unsigned long i = 0; i < n; i++)
                s = (s ^ s >> 13) * 6364136223846793005UL + i;
            return s;
        }}
        int main(void) {{ puts(\"on\"); fflush(stdout); return {function}({rounds}UL) == 3; }}"
    )
}

/// Compiles `source` to `dir/name`.
#[track_caller]
pub(crate) fn compile(dir: &Path, name: &str, source: &str, options: &[&str]) {
    let text = dir.join(name).with_extension("c");
    fs::write(&text, source).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-Wl,--build-id"]).args(options).arg(&text);
    stdout_of(gcc.arg("-o").arg(dir.join(name)));
}

/// `record` of the fast clock into `perf.data`, with more options.
fn record(dir: &Path, options: &[&str]) -> Command {
    let mut record = bpfperf();
    record.args(["record", "-q", "-e", "cpu-clock:u", "-F", "2000", "-o"]);
    record.arg(dir.join("perf.data")).args(options).current_dir(dir);
    record
}

/// What `report` prints: share, command, module and symbol of each row.
#[track_caller]
fn rows(dir: &Path) -> Vec<String> {
    let mut report = bpfperf();
    report.args(["report", "--stdio", "-i"]).arg(dir.join("perf.data")).env("HOME", dir);
    let text = stdout_of(&mut report);
    let row = |it: &str| it.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    text.lines().filter(|it| !it.starts_with('#') && !it.is_empty()).map(row).collect()
}

/// Holds that most samples are of `symbol`, and none of `never`.
#[track_caller]
fn check(dir: &Path, symbol: &str, never: &str) {
    let rows = rows(dir);
    let (share, rest) = rows[0].split_once('%').unwrap();
    assert!(50.0 < share.parse().unwrap() && rest.ends_with(symbol), "{rows:#?}");
    assert!(!rows.iter().any(|it| it.contains(never)), "{rows:#?}");
    let mut script = bpfperf();
    script.args(["script", "-F", "ip,sym", "-i"]).arg(dir.join("perf.data")).env("HOME", dir);
    let text = stdout_of(&mut script);
    let n_named = text.lines().filter(|it| it.trim_end().ends_with(symbol)).count();
    assert!(text.lines().count() < 2 * n_named && !text.contains(never), "{text}");
}

/// How many files are in the recording whose path has `part`: others may run meanwhile.
#[track_caller]
fn n_saved(dir: &Path, part: &str) -> usize {
    let mut dump = bpfperf();
    let text = stdout_of(dump.args(["script", "-D", "-i"]).arg(dir.join("perf.data")));
    text.lines().filter(|it| it.starts_with("  {\"what\":") && it.contains(part)).count()
}

/// A shell script for a container with a `tmpfs` of its own at `dir/inner`.
fn container(dir: &Path, rest: &str) -> Vec<String> {
    let inner = dir.join("inner");
    fs::create_dir_all(&inner).unwrap();
    let inner = inner.display();
    let script = format!(
        "mount -t tmpfs none {inner} && cp {}/guest {inner}/program && {rest}",
        dir.display()
    );
    ["unshare", "-m", "sh", "-c", &script].map(str::to_owned).to_vec()
}

#[test]
fn a_dead_containers_program_has_its_own_names() {
    if !may_run(&[Need::Root]) {
        return;
    }
    for options in [&[][..], &["-Wl,--build-id=none"], &["-s", "-rdynamic"]] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        compile(dir, "guest", &source("of_the_guest", 60_000_000), options);
        compile(dir, "host", &source("of_the_host", 1), &[]);
        let container = container(dir, "exec ./inner/program");
        fs::copy(dir.join("host"), dir.join("inner/program")).unwrap();
        stdout_of(record(dir, &["--"]).args(&container));
        check(dir, "of_the_guest", "of_the_host");
        let own = dir.to_string_lossy().into_owned();
        assert_eq!(n_saved(dir, &own), 1, "{options:?}");
        if let Some(peer) = peer() {
            let mut perf = Command::new(peer);
            perf.args(["script", "-i"]).arg(dir.join("perf.data")).env("HOME", dir);
            assert!(stdout_of(&mut perf).contains("program"));
        }
        // Of a recording without it nothing is named, rather than wrongly.
        stdout_of(record(dir, &["-B", "--"]).args(&container));
        assert_eq!(n_saved(dir, &own), 0);
        let rows = rows(dir);
        assert!(!rows.iter().any(|it| it.contains("of_the_")), "{options:?}: {rows:#?}");
    }
}

#[test]
fn what_was_split_off_a_dead_containers_program_has_its_names() {
    if !may_run(&[Need::Root]) {
        return;
    }
    for option in ["-Wl,--build-id", "-Wl,--build-id=none"] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        compile(dir, "guest", &source("of_the_guest", 60_000_000), &[option]);
        compile(dir, "host", &source("of_the_host", 1), &[option]);
        let objcopy = |args: &[&str]| {
            stdout_of(Command::new("objcopy").args(args).current_dir(dir));
        };
        objcopy(&["--only-keep-debug", "guest", "abc"]);
        objcopy(&["--strip-all", "--add-gnu-debuglink=abc", "guest"]);
        // Where the host has another one, or none.
        let (inner, debug) = (dir.join("inner"), dir.join("abc"));
        let (inner, debug) = (inner.display(), debug.display());
        let places = [
            format!("cp {debug} {inner}/abc"),
            format!("mkdir {inner}/.debug && cp {debug} {inner}/.debug"),
        ];
        for place in places {
            let container = container(dir, &format!("{place} && exec ./inner/program"));
            fs::copy(dir.join("host"), dir.join("inner/abc")).unwrap();
            stdout_of(record(dir, &["--"]).args(&container));
            check(dir, "of_the_guest", "of_the_host");
            assert_eq!(n_saved(dir, "\"elf-debug\""), 1, "{option}: {place}");
        }
    }
}

#[test]
fn a_containers_program_that_lives_for_milliseconds_is_saved() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    compile(dir, "guest", &source("of_the_guest", 1_000_000), &[]);
    let container = container(dir, "./inner/program; ./inner/program; ./inner/program");
    stdout_of(record(dir, &["-a", "--"]).args(&container));
    let rows = rows(dir);
    assert!(rows.iter().any(|it| it.ends_with("of_the_guest")), "{rows:#?}");
    // Three processes, one file.
    assert_eq!(n_saved(dir, &dir.to_string_lossy()), 1);
}

#[test]
fn a_stopped_recording_and_a_pipe_have_what_was_saved() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    // It tells once it has worked for a while.
    let lasting = source("of_the_guest", 2_000_000_000)
        .replace("puts(", "if (of_the_guest(60000000) == 3) return 3; puts(");
    compile(dir, "guest", &lasting, &[]);
    let line = container(dir, "exec ./inner/program");
    let mut recorder = record(dir, &["--"]);
    let mut recorder = recorder.args(&line).stdout(Stdio::piped()).spawn().unwrap();
    let mut told = String::new();
    BufReader::new(recorder.stdout.take().unwrap()).read_line(&mut told).unwrap();
    assert_eq!(told, "on\n");
    stdout_of(Command::new("kill").args(["-INT", &recorder.id().to_string()]));
    recorder.wait().unwrap();
    check(dir, "of_the_guest", "of_the_host");

    compile(dir, "guest", &source("of_the_guest", 60_000_000), &[]);
    let mut pipe = bpfperf();
    pipe.args(["record", "-q", "-e", "cpu-clock:u", "-o", "-", "--"]).args(&line).current_dir(dir);
    let output = output_of(&mut pipe);
    fs::write(dir.join("perf.data"), output.stdout).unwrap();
    check(dir, "of_the_guest", "of_the_host");
}

#[test]
fn a_deleted_or_replaced_program_never_has_another_ones_names() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for options in [&[][..], &["-Wl,--build-id=none"]] {
        compile(dir, "old", &source("of_the_old", 8_000_000_000), options);
        compile(dir, "new", &source("of_the_new", 1), options);
        for (name, replace) in [("t", false), ("t", true), ("t (deleted)", false)] {
            let path = dir.join(name);
            fs::copy(dir.join("old"), &path).unwrap();
            let program = Background::start(&mut Command::new(&path));
            if name == "t" {
                fs::remove_file(&path).unwrap();
            }
            if replace {
                fs::copy(dir.join("new"), dir.join("t.new")).unwrap();
                fs::rename(dir.join("t.new"), &path).unwrap();
            }
            let pid = program.pid().to_string();
            stdout_of(&mut record(dir, &["-p", &pid, "--", "sleep", "0.4"]));
            drop(program);
            check(dir, "of_the_old", "of_the_new");
            let own = dir.to_string_lossy();
            assert_eq!(n_saved(dir, &own), usize::from(name == "t"), "{name}");
        }
    }
}

#[test]
fn a_program_that_was_written_over_has_no_names_of_what_is_there_now() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for option in ["-Wl,--build-id", "-Wl,--build-id=none"] {
        compile(dir, "new", &source("of_the_new", 1), &[option]);
        for line in ["./t; cat new > t; ./t", "./t", "./t; cat new > t; mv t u"] {
            compile(dir, "t", &source("of_the_old", 60_000_000), &[option]);
            stdout_of(&mut record(dir, &["--", "sh", "-c", line]));
            // After the recording, then.
            if line == "./t" {
                fs::write(dir.join("t"), fs::read(dir.join("new")).unwrap()).unwrap();
            }
            let rows = rows(dir);
            assert!(!rows.iter().any(|it| it.contains("of_the_")), "{option} {line}: {rows:#?}");
            let (_, told) = shares(dir, &[], &[]);
            let why = if line.ends_with('u') {
                "not there"
            } else if option == "-Wl,--build-id" {
                "another build is there"
            } else {
                "another file is there, or it was written to since"
            };
            assert!(told.contains(why), "{option} {line}: {told}");
        }
    }
}

#[test]
fn a_program_that_is_deleted_while_it_is_recorded_keeps_its_names() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    compile(dir, "program", &source("of_the_old", 60_000_000), &[]);
    stdout_of(&mut record(dir, &["--", "sh", "-c", "./program; rm program"]));
    check(dir, "of_the_old", "of_the_new");
    assert_eq!(n_saved(dir, "/program"), 1);
}

#[test]
fn a_program_in_memory_alone_has_names() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    compile(dir, "inner", &source("of_the_memory", 60_000_000), &[]);
    let outer = "#define _GNU_SOURCE
        #include <fcntl.h>
        #include <sys/mman.h>
        #include <sys/sendfile.h>
        #include <unistd.h>
        int main(int argc, char **argv, char **env)
        {
            int from = open(argv[1], O_RDONLY), to = memfd_create(\"x\", MFD_CLOEXEC);
            while (0 < sendfile(to, from, 0, 1 << 20))
                ;
            return fexecve(to, argv, env);
        }";
    compile(dir, "outer", outer, &[]);
    stdout_of(&mut record(dir, &["--", "./outer", "inner"]));
    check(dir, "of_the_memory", "of_the_new");
    assert_eq!(n_saved(dir, "/memfd:x (deleted)"), 1);
}

/// A toy that makes code which spins, writes where it lies to `/tmp/perf-OWN.map`, and runs it.
const JIT: &str = "#include <stdio.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <unistd.h>
    int main(void)
    {
        /* mov $0x30000000,%ecx; dec %ecx; jnz -4; ret */
        unsigned char code[] = {0xb9, 0, 0, 0, 0x30, 0xff, 0xc9, 0x75, 0xfc, 0xc3};
        void *at = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memcpy(at, code, sizeof code);
        char path[64];
        sprintf(path, \"/tmp/perf-%d.map\", getpid());
        FILE *map = fopen(path, \"w\");
        fprintf(map, \"%lx %x made_by_hand(int, long)\\nffff\", (long)at, 4096);
        fclose(map);
        puts(\"on\");
        fflush(stdout);
        ((void (*)(void))at)();
        return 0;
    }";

#[test]
fn what_a_jit_compiler_in_a_container_wrote_is_saved() {
    if !may_run(&[Need::Root]) || !cfg!(target_arch = "x86_64") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    compile(dir, "guest", JIT, &[]);
    // Where the scratch folder is below /tmp it is out of sight in there.
    let bound = format!(
        "mount -t tmpfs none /mnt && cp {}/guest /mnt/jit && mount -t tmpfs none /tmp && exec /mnt/jit",
        dir.display()
    );
    let line = ["unshare", "-pfm", "--mount-proc", "sh", "-c", &bound];
    stdout_of(record(dir, &["--"]).args(line));
    check(dir, "made_by_hand(int, long)", "of_the_host");
    assert_eq!(n_saved(dir, "perf-map"), 1);
    let (_, told) = shares(dir, &[], &[]);
    assert!(told.contains("is no entry and was skipped"), "{told}");
}

/// A toy that makes code which spins at one place, writes where it lies to `/tmp/perf-OWN.map` under the
/// first of the names that it is called with, and becomes itself with the others.
const BECOMING: &str = "#include <stdio.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <unistd.h>
    int main(int argc, char **argv)
    {
        unsigned char code[] = {0xb9, 0, 0, 0, 0x20, 0xff, 0xc9, 0x75, 0xfc, 0xc3};
        void *at = mmap((void *)0x10000000, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        memcpy(at, code, sizeof code);
        char path[64];
        sprintf(path, \"/tmp/perf-%d.map\", getpid());
        if (strcmp(argv[1], \"silent\")) {
            FILE *map = fopen(path, \"w\");
            fprintf(map, \"%lx %x %s(int)\\n\", (long)at, 4096, argv[1]);
            fclose(map);
        }
        ((void (*)(void))at)();
        return 2 < argc ? execv(\"/proc/self/exe\", argv + 1) : 0;
    }";

/// The shares of symbols in percent, and what `report` with `options` tells.
fn shares(dir: &Path, options: &[&str], symbols: &[&str]) -> (Vec<f64>, String) {
    let mut report = bpfperf();
    report.args(["report", "--stdio", "-s", "sym", "-i"]).arg(dir.join("perf.data"));
    let output = output_of(report.args(options).env("HOME", dir));
    let text = String::from_utf8(output.stdout).unwrap();
    let share = |name: &&str| {
        let row = text.lines().find(|it| it.ends_with(*name));
        row.and_then(|it| it.trim().split_once('%')?.0.parse::<f64>().ok()).unwrap_or_default()
    };
    (symbols.iter().map(share).collect(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_program_that_becomes_another_is_not_named_by_what_that_one_made() {
    if !may_run(&[Need::Root]) || !cfg!(target_arch = "x86_64") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    compile(dir, "jit", BECOMING, &[]);
    let names = ["of_first(int)", "of_second(int)"];
    for options in [&["--"][..], &["-k", "mono", "--"], &["-B", "--"]] {
        stdout_of(record(dir, options).args(["./jit", "of_first", "of_second"]));
        let (found, told) = shares(dir, &[], &names);
        assert!(found[0] == 0.0 && 35.0 < found[1] && found[1] < 65.0, "{options:?} {found:?}");
        assert!(told.contains("told by a file that may be of another program"), "{told}");
        // The other way about: who wrote nothing has no names of what was there before.
        stdout_of(record(dir, options).args(["./jit", "of_first", "silent"]));
        let (found, _) = shares(dir, &[], &names);
        assert!(35.0 < found[0] && found[0] < 65.0, "{options:?} {found:?}");
    }
}

#[test]
fn what_was_written_under_a_number_of_another_namespace_names_nothing() {
    if !may_run(&[Need::Root]) || !cfg!(target_arch = "x86_64") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    compile(dir, "jit", BECOMING, &[]);
    let mut inside = Command::new("unshare");
    inside.args(["-pf", "--mount-proc"]).arg(env!("CARGO_BIN_EXE_bpfperf"));
    inside.args(["record", "-q", "-B", "-e", "cpu-clock:u", "-o"]).arg(dir.join("perf.data"));
    // A number that is not that of a process elsewhere whose map may lie there.
    let line = "for i in 1 2 3 4 5 6 7 8 9; do true & wait; done; exec ./jit of_first";
    stdout_of(inside.args(["--", "sh", "-c", line]).current_dir(dir));
    let (found, told) = shares(dir, &[], &["of_first(int)"]);
    assert!(found[0] == 0.0 && told.contains("not known to be recorded on this machine"), "{told}");
    // Whoever reads may say that it is.
    let (found, told) = shares(dir, &["--symfs", "/"], &["of_first(int)"]);
    assert!(80.0 < found[0], "{found:?} {told}");
}

/// A toy that makes one function after the other at one place, tells of both in `jit-OWN.dump`, and
/// runs each.
pub(crate) const DUMPING: &str = "#define _GNU_SOURCE
    #include <fcntl.h>
    #include <stdint.h>
    #include <stdio.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <time.h>
    #include <unistd.h>
    static uint64_t now(void)
    {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return t.tv_sec * 1000000000ull + t.tv_nsec;
    }
    struct head { uint32_t magic, version, size, mach, pad, pid; uint64_t time, flags; };
    struct load { uint32_t id, size; uint64_t time; uint32_t pid, tid; uint64_t vma, at, len, index; };
    int main(void)
    {
        /* mov $N,%ecx; dec %ecx; jnz -4; ret */
        unsigned char code[] = {0xb9, 0, 0, 0, 0x10, 0xff, 0xc9, 0x75, 0xfc, 0xc3};
        char path[64];
        sprintf(path, \"./jit-%d.dump\", getpid());
        int fd = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);
        struct head head = {0x4a695444, 1, sizeof head, 62, 0, getpid(), now(), 0};
        write(fd, &head, sizeof head);
        mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
        char *at = mmap(0, 8192, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        const char *names[] = {\"made_first(int)\", \"made_second(int)\", \"\"};
        for (int i = 0; i < 2; i++) {
            mprotect(at, 8192, PROT_READ | PROT_WRITE);
            memcpy(at, code, sizeof code);
            struct load load = {0, sizeof load + strlen(names[i]) + 1 + sizeof code, now(),
                getpid(), getpid(), (uint64_t)at, (uint64_t)at, sizeof code, i};
            write(fd, &load, sizeof load);
            write(fd, names[i], strlen(names[i]) + 1);
            write(fd, code, sizeof code);
            mprotect(at, 8192, PROT_READ | PROT_EXEC);
            ((void (*)(void))at)();
        }
        return 0;
    }";

#[test]
fn code_of_a_dump_has_the_name_that_it_had_when_it_ran() {
    if !may_run(&[Need::Root]) || !cfg!(target_arch = "x86_64") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    compile(dir, "guest", DUMPING, &[]);
    let named = || {
        let rows = rows(dir);
        let share = |name: &str| {
            let row = rows.iter().find(|it| it.ends_with(name));
            let share = row.and_then(|it| it.split_once('%')).map(|it| it.0.parse::<f64>());
            share.map(Result::unwrap).unwrap_or_default()
        };
        ((share("made_first(int)"), share("made_second(int)")), rows)
    };
    for clock in [&[][..], &["-k", "mono"]] {
        stdout_of(&mut record(dir, &[clock, &["--", "./guest"]].concat()));
        let ((first, second), rows) = named();
        assert!(20.0 < first && 20.0 < second && 90.0 < first + second, "{rows:#?}");
        // The one ran to its end before the other was made.
        let mut script = bpfperf();
        script.args(["script", "-F", "ip,sym", "-i"]).arg(dir.join("perf.data")).env("HOME", dir);
        let text = stdout_of(&mut script);
        let mut order: Vec<_> =
            text.split_whitespace().filter(|it| it.starts_with("made_")).collect();
        order.dedup();
        assert_eq!(order, ["made_first(int)", "made_second(int)"]);
        assert_eq!(n_saved(dir, ".dump"), 0);
    }
    // Without a clock to compare by neither name is sure, as they share their addresses.
    stdout_of(&mut record(dir, &["-k", "boottime", "--", "./guest"]));
    assert_eq!(named().0, (0.0, 0.0));
    // In a container, which is gone with its files.
    let inside = format!("cd {} && exec ./program", dir.join("inner").display());
    stdout_of(record(dir, &["--"]).args(container(dir, &inside)));
    let ((first, second), rows) = named();
    assert!(20.0 < first && 20.0 < second && 90.0 < first + second, "{rows:#?}");
    assert_eq!(n_saved(dir, ".dump"), 1);
}

#[test]
fn code_that_was_moved_to_memory_without_a_file_gets_no_name() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    // A page of its own, copied to memory that then takes its place, as those do who want large pages.
    let moved = "#define _GNU_SOURCE
        #include <string.h>
        #include <sys/mman.h>
        __attribute__((noinline, aligned(4096))) unsigned long moved(unsigned long n)
        {
            unsigned long s = n;
            for (unsigned long i = 0; i < n; i++)
                s = (s ^ s >> 13) * 6364136223846793005UL + i;
            return s;
        }
        __attribute__((aligned(4096))) int main(void)
        {
            void *copy = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            memcpy(copy, moved, 4096);
            mremap(copy, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, moved);
            return moved(60000000) == 3;
        }";
    compile(dir, "moved", moved, &[]);
    stdout_of(&mut record(dir, &["--", "./moved"]));
    let rows = rows(dir);
    let told = rows.join("\n");
    assert!(rows[0].contains("moved") && !rows[0].ends_with("main"), "{told}");

    // The same where memory is mapped over it, which the kernel tells.
    let mapped_over = moved.replace(
        "mremap(copy, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, moved)",
        "mmap(moved, 4096, 7, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            memcpy(moved, copy, 4096)",
    );
    compile(dir, "over", &mapped_over, &[]);
    stdout_of(&mut record(dir, &["--", "./over"]));
    let (_, told) = shares(dir, &[], &[]);
    let path = fs::canonicalize(dir.join("over")).unwrap();
    let want =
        format!("in memory without a file, where the code of `{}` was before", path.display());
    assert!(told.contains(&want), "{told}");
}

#[test]
fn whoever_may_watch_only_their_own_records_as_before() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    stdout_of(Command::new("chmod").arg("777").arg(dir));
    compile(dir, "program", &source("of_the_user", 60_000_000), &[]);
    let own = dir.join("bpfperf");
    fs::copy(env!("CARGO_BIN_EXE_bpfperf"), &own).unwrap();
    let as_user = || {
        let mut line = Command::new("setpriv");
        line.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&own);
        line.args(["record", "-q", "-e", "cpu-clock:u", "-o"]).arg(dir.join("perf.data"));
        line.arg("--").current_dir(dir).env("HOME", dir);
        line
    };
    stdout_of(as_user().args(["sh", "-c", "./program; rm program"]));
    check(dir, "of_the_user", "of_the_host");

    // A container of their own, where the kernel lets everybody make one.
    compile(dir, "guest", &source("of_the_guest", 60_000_000), &[]);
    compile(dir, "host", &source("of_the_host", 1), &[]);
    let mut line = container(dir, "exec ./inner/program");
    line[1] = "-Urm".to_owned();
    fs::copy(dir.join("host"), dir.join("inner/program")).unwrap();
    let made = output_of(as_user().args(&line));
    if made.status.success() {
        check(dir, "of_the_guest", "of_the_host");
    }
}

#[test]
fn no_two_files_share_a_build_id_unless_they_are_the_same() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    compile(dir, "a_program_with_a_long_name", &source("of_the_first", 1_000_000), &[]);
    compile(dir, "b", &source("of_the_second", 1_000_000), &["-Wl,--build-id=md5"]);
    compile(dir, "c", &source("of_the_third", 1_000_000), &["-Wl,--build-id=none"]);
    let script = "./a_program_with_a_long_name; ./b; ./c";
    stdout_of(&mut record(dir, &["-a", "--", "sh", "-c", script]));
    let mut dump = bpfperf();
    let text = stdout_of(dump.args(["script", "-D", "-i"]).arg(dir.join("perf.data")));
    let mut ids = std::collections::BTreeMap::new();
    for line in text.lines().filter(|it| it.contains("PERF_RECORD_MMAP2")) {
        let Some((_, path)) = line.rsplit_once(": ") else { continue };
        let path = path.split_once(' ').map_or(path, |it| it.1);
        let id = line.split_once('<').map(|it| it.1.split_once('>').unwrap().0.to_owned());
        if !path.starts_with('/') || path.starts_with("//") {
            continue;
        }
        let notes = Command::new("readelf").args(["-n", path]).output().unwrap();
        let notes = String::from_utf8_lossy(&notes.stdout).into_owned();
        let own = notes.lines().find_map(|it| it.trim().strip_prefix("Build ID: "));
        if Path::new(path).exists() {
            assert_eq!(id.as_deref(), own, "{line}");
        }
        ids.insert(path.to_owned(), id);
    }
    assert!(3 <= ids.len(), "{ids:#?}");
    assert!(ids.iter().any(|it| it.0.ends_with("/c") && it.1.is_none()), "{ids:#?}");
    assert!(ids.iter().any(|it| it.0.ends_with("/b") && it.1.as_ref().unwrap().len() == 32));
}
