//! What programs' owners say of them, in a recording and as other tools print it.

use std::fmt::Write;
use std::fs::File;
use std::path::Path;
use std::process::Command;

use bpfperf::replay::Index;
use bpfperf::replay::Programs;
use bpfperf::replay::Recording;
use bpfperf::replay::Wanted;

use crate::loading::Debug;
use crate::loading::id_of;
use crate::loading::load;
use crate::stage::Need;
use crate::stage::bpfperf;
use crate::stage::may_run;
use crate::stage::peer;
use crate::stage::stdout_of;

/// Records `true` with some more options.
#[track_caller]
fn record(recording: &Path, options: &[&str]) {
    let mut record = bpfperf();
    record.args(["record", "-a", "-F", "99", "-q"]).args(options).arg("-o").arg(recording);
    stdout_of(record.args(["--", "true"]));
}

/// All that a recording says of the program `id`, keys and values.
fn whole(recording: &Path, id: u32) -> Vec<(String, String)> {
    let file = File::open(recording).unwrap();
    let opened = Recording::open(&file).unwrap();
    let index = Index::new(&opened, &file, &Wanted::default()).unwrap();
    let programs = Programs::new(&opened, &index);
    let mut of_id = programs.all().iter().filter(|it| it.id.is_some_and(|it| it.0 == id));
    of_id.next().unwrap().metadata.clone()
}

/// What `tool` prints of the functions whose names have `name` in them: function and entry.
#[track_caller]
fn entries(mut tool: Command, recording: &Path, name: &str) -> Vec<(String, String)> {
    let text = stdout_of(tool.args(["script", "--show-bpf-events", "-i"]).arg(recording));
    let (mut function, mut entries) = (None, Vec::new());
    for line in text.lines() {
        if line.contains("PERF_RECORD_") {
            let of_metadata = line.contains("PERF_RECORD_BPF_METADATA");
            function = Some(line.split_whitespace().last().unwrap().to_owned())
                .filter(|it| of_metadata && it.contains(name));
        } else if let (Some(function), Some((_, entry))) = (&function, line.split_once(": ")) {
            entries.push((function.clone(), entry.trim().to_owned()));
        }
    }
    entries
}

#[test]
fn two_hundred_variables_of_two_maps_with_long_keys_and_values_are_all_recorded() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let (long_key, long_value) = ("k".repeat(80), "v".repeat(400));
    let mut source = format!("META(char, {long_key})[] = \"short\";\n");
    for n in 0..210 {
        writeln!(source, "META(int, number_{n:03}) = {n};").unwrap();
    }
    writeln!(source, "SEC(\".rodata.cold\") META(char, cold)[] = \"{long_value}\";").unwrap();
    source.push_str(
        "NOINLINE int many_sub(int x) { OPAQUE(x); return x * 3; }
         SEC(\"socket\") int many_said(void *ctx) { return many_sub(5); }",
    );
    let object = load(&source, Debug::Full);
    let dir = tempfile::tempdir().unwrap();
    let (recording, compatible) = (dir.path().join("perf.data"), dir.path().join("compatible"));
    record(&recording, &[]);
    record(&compatible, &["--compat", "6.1"]);

    let mut want: Vec<_> = (0..210).map(|n| (format!("number_{n:03}"), n.to_string())).collect();
    want.push((long_key.clone(), "\"short\"".to_owned()));
    want.push(("cold".to_owned(), format!("\"{long_value}\"")));
    want.sort();
    for recording in [&recording, &compatible] {
        let mut found = whole(recording, id_of(&object).0);
        found.sort();
        assert_eq!(found, want);
    }

    let printed = entries(bpfperf(), &recording, "_many_");
    let mut cut = want;
    cut.iter_mut().find(|it| it.0 == long_key).unwrap().0 = format!("{}...", "k".repeat(60));
    cut.iter_mut().find(|it| it.0 == "cold").unwrap().1 = format!("\"{}...", "v".repeat(251));
    let mut cut: Vec<_> = cut.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    cut.sort();
    for function in ["_many_said", "_many_sub"] {
        let of_it = printed.iter().filter(|it| it.0.ends_with(function));
        let mut of_it: Vec<_> = of_it.map(|it| it.1.clone()).collect();
        of_it.sort();
        assert_eq!(of_it, cut, "{function}");
    }
    assert_eq!(entries(bpfperf(), &compatible, "_many_"), []);
    if let Some(peer) = peer() {
        assert_eq!(entries(Command::new(peer), &recording, "_many_"), printed);
    }
}

#[test]
fn what_bpftool_prints_of_a_program_is_what_is_recorded() {
    let bpftool = peer().map(|it| it.with_file_name("bpftool")).filter(|it| it.is_file());
    let Some(bpftool) = bpftool.filter(|_| may_run(&[Need::Root, Need::Peer])) else { return };
    let source = r#"
        enum color { RED = 1, GREEN = 5 };
        META(char, owner)[] = "team-net";
        META(char, letter) = 'x';
        META(signed char, s8) = -5;
        META(unsigned short, u16) = 60000;
        META(int, s32) = -70000;
        META(long long, s64) = -7000000000LL;
        META(unsigned long long, u64) = 18446744073709551615ULL;
        META(_Bool, yes) = 1;
        META(enum color, color) = GREEN;
        META(int, array)[2][2] = {{1, 2}, {3, 0}};
        META(struct { int x; char name[4]; }, point) = {-1, "nm"};
        __attribute__((used)) void *volatile const bpf_metadata_pointer = (void *)0x1234;
        SEC("socket") int told(void *ctx) { return 0; }
    "#;
    let object = load(source, Debug::Full);
    let id = id_of(&object).0;
    let dir = tempfile::tempdir().unwrap();
    let recording = dir.path().join("perf.data");
    record(&recording, &[]);
    let shown = stdout_of(Command::new(bpftool).args(["prog", "show", "id", &id.to_string()]));
    let shown: Vec<_> = shown.lines().skip_while(|it| it.trim() != "metadata:").skip(1).collect();
    let shown: Vec<_> = shown.iter().filter_map(|it| it.trim().split_once(" = ")).collect();
    let recorded = whole(&recording, id);
    let recorded: Vec<_> = recorded.iter().map(|(key, value)| (&**key, &**value)).collect();
    assert_eq!(recorded, shown);
    assert_eq!(recorded.len(), 12);
}
