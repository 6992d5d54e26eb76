//! Lines of the source of BPF programs, against what libbpf and bpftool say of them, and the code of
//! programs that are gone.

use std::fmt::Write as _;
use std::fs;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use bpfperf::bpf::Programs;
use bpfperf::btf::Btf;
use bpfperf::perfdata::bpf_info::ProgInfo;
use bpfperf::symbols::BpfLines;
use bpfperf::symbols::SourceLine;
use bpfperf::units::ProgId;
use libbpf_rs::libbpf_sys as raw;

use crate::loading::Debug;
use crate::loading::id_of;
use crate::loading::load;
use crate::loading::load_nameless;
use crate::stage::Need;
use crate::stage::bpfperf;
use crate::stage::may_run;
use crate::stage::peer;
use crate::stage::stdout_of;

/// A program with twelve functions beside its own, each of some lines, which calls helpers.
fn twelve() -> String {
    let mut source = "static unsigned int (*get_random)(void) = (void *)7;\n".to_owned();
    for it in 0..12 {
        writeln!(source, "NOINLINE int sub{it}(int x)\n{{").unwrap();
        writeln!(source, "\tfor (int i = 0; i < {}; i++) {{", it + 20).unwrap();
        writeln!(source, "\t\tOPAQUE(x);\n\t\tif (x & 1)\n\t\t\tx += get_random();").unwrap();
        writeln!(source, "\t\tx = x * {} + i;\n\t}}\n\treturn x;\n}}", it + 3).unwrap();
    }
    source
        .push_str("SEC(\"raw_tp/sys_enter\") int main_of_lines(void *ctx)\n{\n\tint sum = 1;\n\n");
    for it in 0..12 {
        writeln!(source, "\tsum += sub{it}(sum);").unwrap();
    }
    source.push_str("\treturn sum;\n}\n");
    source
}

/// What the kernel tells of a program, for libbpf.
struct RawInfo {
    info: raw::bpf_prog_info,
    _arrays: Vec<Vec<u64>>,
}

#[expect(unsafe_code, reason = "libbpf-rs has no lines by native address")]
fn raw_info(program: &impl AsRawFd) -> RawInfo {
    let ask = |info: &mut raw::bpf_prog_info| {
        let mut len = u32::try_from(size_of_val(info)).unwrap();
        let info: *mut raw::bpf_prog_info = info;
        // SAFETY: `info` is as long as `len` says, and each array that it points to is as long as
        // its count says, since the counts come from the kernel.
        let error =
            unsafe { raw::bpf_prog_get_info_by_fd(program.as_raw_fd(), info, &raw mut len) };
        assert_eq!(error, 0);
    };
    let mut counts = raw::bpf_prog_info::default();
    ask(&mut counts);
    let mut arrays = Vec::new();
    let mut array = |count: u32, record_len: u32| {
        let len = count as usize * record_len as usize;
        arrays.push(vec![0_u64; len.div_ceil(8)]);
        arrays.last().unwrap().as_ptr() as u64
    };
    let mut info = raw::bpf_prog_info {
        nr_jited_ksyms: counts.nr_jited_ksyms,
        jited_ksyms: array(counts.nr_jited_ksyms, 8),
        nr_jited_func_lens: counts.nr_jited_func_lens,
        jited_func_lens: array(counts.nr_jited_func_lens, 4),
        nr_line_info: counts.nr_line_info,
        line_info_rec_size: counts.line_info_rec_size,
        line_info: array(counts.nr_line_info, counts.line_info_rec_size),
        nr_jited_line_info: counts.nr_jited_line_info,
        jited_line_info_rec_size: counts.jited_line_info_rec_size,
        jited_line_info: array(counts.nr_jited_line_info, counts.jited_line_info_rec_size),
        ..Default::default()
    };
    ask(&mut info);
    RawInfo { info, _arrays: arrays }
}

/// The line of every byte of native code, by libbpf: name offset, text offset, line and column.
#[expect(unsafe_code, reason = "libbpf-rs has no lines by native address")]
fn lines_by_libbpf(raw_info: &RawInfo, info: &ProgInfo<'_>) -> Vec<Option<[u32; 4]>> {
    // SAFETY: the info's arrays are as long as it says.
    let table = unsafe { raw::bpf_prog_linfo__new(&raw const raw_info.info) };
    let mut found = Vec::new();
    for (idx, function) in info.functions() {
        for addr in (function.addr.0..).take(function.len as usize) {
            let idx = u32::try_from(idx).unwrap();
            let line = if table.is_null() {
                std::ptr::null()
            } else {
                // SAFETY: the table is libbpf's own, and it checks index and address.
                unsafe { raw::bpf_prog_linfo__lfind_addr_func(table, addr, idx, 0) }
            };
            // SAFETY: it points into the table, or is null.
            let line = unsafe { line.as_ref() };
            found.push(
                line.map(|it| {
                    [it.file_name_off, it.line_off, it.line_col >> 10, it.line_col & 0x3ff]
                }),
            );
        }
    }
    // SAFETY: nothing that points into the table is left.
    unsafe { raw::bpf_prog_linfo__free(table) };
    found
}

/// Holds the lines of every byte of the program's native code against libbpf, and returns how many
/// bytes have a line and how many there are.
#[track_caller]
fn check_addresses(program: &impl AsRawFd, id: ProgId) -> (usize, usize) {
    let programs = Programs::walk().unwrap();
    let info = programs.get(id).unwrap().info();
    let lines = BpfLines::new(info);
    let mut ours = Vec::new();
    for (idx, function) in info.functions() {
        for offset in 0..u64::from(function.len) {
            let line = lines.in_function(idx, offset);
            assert_eq!(line, lines.at(function.addr + offset));
            ours.push(line.map(|it| [it.file_name_off, it.line_off, it.line, it.column]));
        }
    }
    assert_eq!(ours, lines_by_libbpf(&raw_info(program), info));
    (ours.iter().flatten().count(), ours.len())
}

#[test]
fn every_native_address_has_the_line_that_libbpf_gives_it() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let object = load(&twelve(), Debug::Full);
    let (n_lines, len) = check_addresses(&object.progs().next().unwrap().as_fd(), id_of(&object));
    assert!(len > 1000 && n_lines == len, "{n_lines} of {len}");
    let object = load(&twelve(), Debug::None);
    let (n_lines, len) = check_addresses(&object.progs().next().unwrap().as_fd(), id_of(&object));
    assert!(len > 1000 && n_lines == 0, "{n_lines} of {len}");
    let (fd, id) = load_nameless();
    let (n_lines, len) = check_addresses(&fd, id);
    assert!(len > 1 && n_lines == 0, "{n_lines} of {len}");
}

/// The lines of a program in the form of bpftool.
fn lines_of(info: &ProgInfo<'_>, btf: &Btf) -> Vec<String> {
    let text = |it: &[u8]| String::from_utf8(it.to_vec()).unwrap();
    info.lines()
        .map(|it| {
            let SourceLine { file, line, column, text: source } = SourceLine::new(&it, btf);
            let (source, file) = (text(source), text(file));
            format!("; {} [file:{file} line_num:{line} line_col:{column}]", source.trim_start())
        })
        .collect()
}

#[test]
fn lines_are_those_that_bpftool_prints() {
    if !may_run(&[Need::Root, Need::Peer]) {
        return;
    }
    let bpftool = peer().unwrap().with_file_name("bpftool");
    let dump = |id: ProgId| {
        let mut command = Command::new(&bpftool);
        command.args(["prog", "dump", "xlated", "id"]).arg(id.to_string()).arg("linum");
        let printed = stdout_of(&mut command);
        let lines = printed.lines().filter(|it| it.starts_with("; "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let full = load(&twelve(), Debug::Full);
    let programs = Programs::walk().unwrap();
    let program = programs.get(id_of(&full)).unwrap();
    let btf_id = program.info().btf_id().unwrap();
    let (_, raw) = programs.btfs().into_iter().find(|(id, _)| *id == btf_id).unwrap();
    let ours = lines_of(program.info(), &Btf::parse(raw.to_vec()).unwrap());
    assert!(ours.len() > 60, "{}", ours.len());
    assert_eq!(ours, dump(id_of(&full)));
    let none = load(&twelve(), Debug::None);
    assert_eq!(dump(id_of(&none)), [""; 0]);
}

#[test]
fn a_program_is_shown_the_same_when_it_is_gone_and_to_another_user() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let recording = dir.path().join("perf.data");
    let copy = dir.path().join("bpfperf");
    fs::copy(env!("CARGO_BIN_EXE_bpfperf"), &copy).unwrap();
    let object = load(&twelve(), Debug::Full);
    let id = id_of(&object);
    let link = object.progs_mut().next().unwrap().attach().unwrap();
    let mut record = bpfperf();
    record.args(["record", "-q", "-e", "cpu-clock", "-F", "999", "-o"]).arg(&recording).arg("--");
    record.args(["timeout", "1", "dd", "if=/dev/zero", "of=/dev/null", "bs=1", "status=none"]);
    record.status().unwrap();
    fs::set_permissions(&recording, fs::Permissions::from_mode(0o644)).unwrap();
    let annotate = |command: &mut Command| {
        command.arg("annotate").arg(format!("bpf:{id}")).arg("-i").arg(&recording);
        stdout_of(command)
    };
    let before = annotate(&mut bpfperf());
    drop((link, object));
    assert!(annotate(&mut bpfperf()) == before);
    let nobody = annotate(Command::new(&copy).uid(65534).gid(65534));
    assert_eq!(nobody, before);
    assert_eq!(
        before.matches(&format!("BPF program {id} (raw_tracepoint), function ")).count(),
        13
    );
    assert!(before.contains("x += get_random();"));
    for it in 0..12 {
        assert!(before.contains(&format!("_sub{it}>\n")), "the call of sub{it} has a name");
    }
}
