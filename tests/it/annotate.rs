//! The code of functions with what fell on it, from recordings alone.

use bpfperf::profile::Annotated;
use bpfperf::profile::Filter;
use bpfperf::profile::FunctionSamples;
use bpfperf::profile::Place;
use bpfperf::profile::Weight;
use bpfperf::profile::functions;
use bpfperf::render::annotate;
use bpfperf::render::annotate::Context;
use bpfperf::render::annotate::Function;
use bpfperf::render::annotate::Missing;
use bpfperf::render::annotate::Style;
use bpfperf::replay::Asked;
use bpfperf::replay::CodeFiles;
use bpfperf::replay::Codes;
use bpfperf::replay::Index;
use bpfperf::replay::Names;
use bpfperf::replay::NoCode;
use bpfperf::replay::Programs;
use bpfperf::replay::Recording;
use bpfperf::replay::Wanted;
use bpfperf::replay::programs::FunctionId;
use bpfperf::replay::programs::ProgramIdx;
use bpfperf::replay::resolve;
use bpfperf::replay::resolved::Keep;
use bpfperf::replay::resolved::Resolved;
use bpfperf::symbols::Syntax;
use serde_json::Value;

use crate::command::run;
use crate::command::run_with;
use crate::fixture::FIXTURES;
use crate::recording::NoNames;

/// Every BPF function of a recording and every other one with samples, as text, one function after
/// the other, and as JSON.
pub(crate) fn annotate(
    recording: &Recording,
    index: &Index,
    names: &Names<'_>,
    programs: &Programs<'_>,
    resolved: &Resolved,
) -> (Vec<String>, Vec<u8>) {
    let n_events = resolved.events.len();
    let mut found = functions(resolved, &index.timeline, programs, &Filter::default()).unwrap();
    for (program, it) in (0..).map(ProgramIdx).zip(programs.all()) {
        for (function, _) in (0..).zip(&it.functions) {
            let place = Place::Bpf(FunctionId { program, function });
            if found.iter().all(|it| it.place != place) {
                found.push(FunctionSamples::none(place, n_events));
            }
        }
    }
    let name = |it: &FunctionSamples| match it.place {
        Place::Bpf(FunctionId { program, function }) => {
            let function = &programs.program(program).functions[function as usize];
            String::from_utf8_lossy(&function.name).into_owned()
        }
        Place::Image(_) | Place::Mapped { .. } => "other".to_owned(),
    };
    let shown: Vec<String> = found.iter().map(name).collect();
    let mut totals = vec![Weight::default(); n_events];
    for group in &resolved.groups {
        let weight = Weight { period: group.period, n_samples: group.n_samples };
        totals[group.event.0 as usize] += weight;
    }
    let events = &resolved.events;
    let context = Context { events, totals, programs, names, source: &() };
    let files = CodeFiles::new(names);
    let codes = Codes::new(recording, &files, programs);
    let style = Style { has_source: true, has_lines: true, has_bytes: true, ..Style::default() };
    let mut made = Vec::new();
    let mut missing = Vec::new();
    for (samples, name) in found.iter().zip(&shown) {
        let code = match samples.place {
            Place::Bpf(id) => codes.of_bpf(id),
            Place::Image(_) => Err(NoCode::Image),
            Place::Mapped { mapping, symbol } => {
                codes.of_mapped(mapping, &resolved.symbols[symbol.0 as usize])
            }
        };
        match code {
            Ok(code) => {
                let annotated = Annotated { samples: samples.clone(), code };
                made.push(Function { name, dso: None, annotated });
            }
            Err(because) => {
                let totals = samples.totals.clone();
                missing.push(Missing { name, dso: None, totals, because });
            }
        }
    }
    let mut texts = Vec::new();
    for function in &made {
        let mut text = Vec::new();
        annotate::text(&mut text, function, 0, &context, &style).unwrap();
        texts.push(String::from_utf8(text).unwrap());
    }
    let mut json = Vec::new();
    let style = Style { syntax: Syntax::Intel, ..style };
    annotate::json(&mut json, made.into_iter(), &missing, &context, &style).unwrap();
    (texts, json)
}

/// What a recording of `tests/fixtures/recordings` comes to.
fn annotated(name: &str) -> (Vec<String>, Value) {
    let fixture = FIXTURES.iter().find(|it| it.name == name).unwrap();
    let input = &fixture.bytes;
    let recording = Recording::open(input).unwrap();
    let index = Index::new(&recording, input, &Wanted::default()).unwrap();
    let names = Names::new(&index, &NoNames);
    let programs = Programs::new(&recording, &index);
    let keep = Keep { thread: false, cpu: false, stack: false, address: true };
    let resolved =
        resolve(&recording, &index, input, &CodeFiles::new(&names), None, keep, Asked::default())
            .unwrap();
    let (texts, json) = annotate(&recording, &index, &names, &programs, &resolved);
    (texts, serde_json::from_slice(&json).unwrap())
}

#[test]
fn a_function_of_a_program_is_shown_with_its_lines_and_shares() {
    let (texts, _) = annotated("perf-7.3-bpf-before");
    let text = texts.iter().find(|it| it.contains("_demo_hash>:")).unwrap();
    let want = "
Sorted summary for file bpf_prog_3d98e2edf377e4c1_demo_hash
----------------------------------------------

  100.00 demo.bpf.c:33
 Percent |\tSource code & Disassembly of bpf_prog_3d98e2edf377e4c1_demo_hash for cpu-clock (3 samples, percent: local period)
---------------------------------------------------------------------------------------------------------------------------------
         :
         : ffffffffc0025c14 <bpf_prog_3d98e2edf377e4c1_demo_hash>:
         : BPF program 78290 (raw_tracepoint), function 1 of 2, 78 bytes
         :
         : demo.bpf.c:28   static __noinline __u64 demo_hash(__u64 seed)
    0.00 :    0:   0f 1f 44 00 00          nopl   0x0(%rax,%rax,1)
    0.00 :    5:   0f 1f 00                nopl   (%rax)
    0.00 :    8:   55                      push   %rbp
    0.00 :    9:   48 89 e5                mov    %rsp,%rbp
    0.00 :    c:   48 be 25 23 22 84 e4 9c f2 cb movabs $0xcbf29ce484222325,%rsi
         : demo.bpf.c:30           __u64 hash = seed ^ 0xcbf29ce484222325ULL;
    0.00 :   16:   48 31 f7                xor    %rsi,%rdi
    0.00 :   19:   31 f6                   xor    %esi,%esi
    0.00 :   1b:   48 ba b3 01 00 00 00 01 00 00 movabs $0x100000001b3,%rdx
         : demo.bpf.c:33                   hash = (hash ^ (hash >> 29) ^ i) * 0x100000001b3ULL;
    0.00 :   25:   48 89 f8                mov    %rdi,%rax
    0.00 :   28:   48 c1 e8 1d             shr    $0x1d,%rax
   66.67 :   2c:   48 31 f8                xor    %rdi,%rax // demo.bpf.c:33
   33.33 :   2f:   48 31 f0                xor    %rsi,%rax // demo.bpf.c:33
    0.00 :   32:   48 0f af c2             imul   %rdx,%rax
         : demo.bpf.c:32           for (int i = 0; i < ROUNDS; i++)
    0.00 :   36:   48 83 c6 01             add    $0x1,%rsi
    0.00 :   3a:   48 89 c7                mov    %rax,%rdi
    0.00 :   3d:   48 81 fe 00 02 00 00    cmp    $0x200,%rsi
    0.00 :   44:   74 02                   je     48 <bpf_prog_3d98e2edf377e4c1_demo_hash+0x48>
    0.00 :   46:   eb e0                   jmp    28 <bpf_prog_3d98e2edf377e4c1_demo_hash+0x28>
         : demo.bpf.c:34           return hash;
    0.00 :   48:   c9                      leave
    0.00 :   49:   e9 a9 e4 0d c1          jmp    ffffffff8110410b
";
    assert_eq!(text, want);
}

#[test]
fn a_call_within_a_program_is_named() {
    let (texts, _) = annotated("perf-7.3-bpf-before");
    let text = texts.iter().find(|it| it.contains("_demo_sys_enter>:")).unwrap();
    let call = "call   ffffffffc0025c14 <bpf_prog_3d98e2edf377e4c1_demo_hash>";
    assert!(text.contains(call), "{text}");
}

#[test]
fn programs_of_one_name_and_tag_stay_apart() {
    let (texts, json) = annotated("bpfperf-bpf");
    let n = texts.iter().filter(|it| it.contains("<bpf_prog_3d98e2edf377e4c1_demo_hash>:")).count();
    assert_eq!(n, 2);
    let functions = json["functions"].as_array().unwrap().iter();
    let ids = functions
        .filter(|it| it["name"] == "bpf_prog_3d98e2edf377e4c1_demo_hash")
        .map(|it| (it["program"]["id"].as_u64().unwrap(), it["addr"].as_str().unwrap()));
    let want = [(78322, "0xffffffffc0026e98"), (78314, "0xffffffffc0025c28")];
    assert_eq!(ids.collect::<Vec<_>>(), want);
}

#[test]
fn json_holds_what_the_text_does() {
    let (texts, json) = annotated("perf-7.3-bpf-before");
    assert_eq!(
        (json["schema"].as_str(), json["version"].as_u64()),
        (Some("bpfperf.annotate"), Some(1))
    );
    let functions = json["functions"].as_array().unwrap();
    assert_eq!(functions.len(), texts.len());
    for (function, text) in functions.iter().zip(&texts) {
        let instructions = function["instructions"].as_array().unwrap();
        let n_rows = text.lines().filter(|it| it.contains(":   ") && !it.starts_with("         :"));
        assert_eq!(instructions.len(), n_rows.count());
        let mut end = 0;
        let mut samples = 0;
        for it in instructions {
            assert_eq!(it["offset"], end);
            end += it["bytes"].as_str().unwrap().len() as u64 / 2;
            samples += it["parts"][0]["samples"].as_u64().unwrap_or(0);
        }
        assert_eq!(function["len"], end);
        assert_eq!(function["parts"][0]["samples"].as_u64().unwrap_or(0), samples);
        assert_eq!(function["lines"], "btf");
    }
    let hash = functions.iter().find(|it| it["program"]["function"] == 1).unwrap();
    let it = &hash["instructions"][10];
    assert_eq!(it["text"], "xor    rax,rdi");
    assert_eq!(it["line"]["file"].as_str().unwrap().rsplit('/').next(), Some("demo.bpf.c"));
    assert_eq!(
        (it["line"]["line"].as_u64(), it["parts"][0]["samples"].as_u64()),
        (Some(33), Some(2))
    );
    let jump = &hash["instructions"][16]["target"];
    assert_eq!((jump["kind"].as_str(), jump["offset"].as_u64()), (Some("jump"), Some(0x48)));
}

#[test]
fn a_program_is_shown_by_its_id_with_all_its_functions() {
    let fixture = FIXTURES.iter().find(|it| it.name == "perf-7.3-bpf-before").unwrap();
    let ran = run(["annotate", "-i", fixture.path().to_str().unwrap(), "bpf:78290"]);
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""));
    assert_eq!(ran.stdout.matches("BPF program 78290 (raw_tracepoint), function ").count(), 2);
}

#[test]
fn code_of_another_machine_is_refused_in_words() {
    let fixture = FIXTURES.iter().find(|it| it.name == "perf-6.1-bpf-before").unwrap();
    let mut bytes = fixture.bytes.to_vec();
    while let Some(at) = bytes.windows(6).position(|it| it == b"x86_64") {
        bytes[at..at + 6].copy_from_slice(b"arm128");
    }
    let ran = run_with(["annotate", "-i", "-", "demo_hash"], &bytes);
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(1), ""));
    assert_eq!(
        ran.stderr,
        "error: cannot annotate `bpf_prog_3d98e2edf377e4c1_demo_hash`\n  \
         because: code for arm128 cannot be shown, only that for x86\n"
    );
}

#[test]
fn a_function_that_is_not_there_has_near_ones() {
    let fixture = FIXTURES.iter().find(|it| it.name == "perf-7.3-bpf-before").unwrap();
    let path = fixture.path();
    let ran = run(["annotate", "-i", path.to_str().unwrap(), "-s", "demo_hesh"]);
    assert_eq!(ran.status, Some(1));
    assert_eq!(ran.stdout, "");
    assert_eq!(
        ran.stderr,
        "error: no function `demo_hesh` is in the recording\n\
         hint: there is `bpf_prog_3d98e2edf377e4c1_demo_hash`\n"
    );
    let ran = run(["annotate", "-i", path.to_str().unwrap(), "-s", "bpf:7"]);
    assert_eq!(
        ran.stderr,
        "error: no function `bpf:7` is in the recording\nhint: there is `bpf:78290`\n"
    );
}

#[test]
fn samples_without_a_name_are_told() {
    // All of it lies in a program that is not there any more.
    let fixture = FIXTURES.iter().find(|it| it.name == "bpfperf-pipe").unwrap();
    let ran = run(["annotate", "-i", fixture.path().to_str().unwrap()]);
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), ""));
    assert_eq!(
        ran.stderr,
        "warning: 9 samples are not shown, 100.0 % of all: no name is known where they lie\n"
    );
    let ran = run(["annotate", "-q", "-i", fixture.path().to_str().unwrap()]);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
}
