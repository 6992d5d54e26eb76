//! Holds the layout: which stage may use which, where `unsafe` may stand, what the pure half may do.
//!
//! The rules are read off the text of the sources, so each of them is also fed a text that breaks it.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

/// A stage, and the stages that it may use. `docs/architecture.md` says why.
struct Stage {
    name: &'static str,
    may_use: &'static [&'static str],
    half: Half,
}

/// Whether a stage may touch the machine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    /// Values in, values out.
    Pure,
    /// Calls the kernel, or talks to the user.
    Impure,
}

const STAGES: [Stage; 14] = [
    Stage { name: "units", may_use: &[], half: Half::Pure },
    Stage { name: "btf", may_use: &["units"], half: Half::Pure },
    Stage { name: "perfdata", may_use: &["units"], half: Half::Pure },
    Stage { name: "events", may_use: &["units", "perfdata"], half: Half::Pure },
    Stage { name: "symbols", may_use: &["units", "btf", "perfdata"], half: Half::Pure },
    Stage { name: "unwind", may_use: &["units", "symbols"], half: Half::Pure },
    Stage {
        name: "replay",
        may_use: &["units", "btf", "perfdata", "symbols", "unwind"],
        half: Half::Pure,
    },
    Stage { name: "profile", may_use: &["units", "symbols", "replay"], half: Half::Pure },
    Stage {
        name: "render",
        may_use: &["units", "btf", "perfdata", "events", "symbols", "replay", "profile"],
        half: Half::Pure,
    },
    Stage { name: "sys", may_use: &["units", "perfdata"], half: Half::Impure },
    Stage { name: "host", may_use: &["units", "perfdata", "symbols", "sys"], half: Half::Impure },
    Stage {
        name: "bpf",
        may_use: &["units", "btf", "perfdata", "events", "sys"],
        half: Half::Impure,
    },
    Stage {
        name: "record",
        may_use: &["units", "btf", "perfdata", "events", "symbols", "sys", "host", "bpf"],
        half: Half::Impure,
    },
    Stage {
        name: "cli",
        may_use: &[
            "units", "btf", "perfdata", "events", "symbols", "replay", "profile", "render", "sys",
            "host", "bpf", "record",
        ],
        half: Half::Impure,
    },
];

/// What the pure half must not say outside its tests: paths, processes, clocks, streams, the kernel.
/// A file that is open already may be read.
const IMPURE: [&str; 19] = [
    "std::process",
    "std::env",
    "std::net",
    "fs::read",
    "fs::write",
    "fs::metadata",
    "File::open",
    "File::create",
    "OpenOptions",
    "stdin()",
    "stdout()",
    "stderr()",
    "println!",
    "eprintln!",
    "SystemTime",
    "Instant::now",
    "nix::",
    "libc::",
    "libbpf_rs",
];

/// Names of drawers: what two stages use belongs to the lower one.
const DRAWERS: [&str; 6] = ["util", "utils", "common", "helpers", "misc", "prelude"];

/// A source file: its path from `src` on, and its text without comments.
struct Source {
    path: PathBuf,
    code: String,
}

impl Source {
    fn new(path: &str, text: &str) -> Self {
        Self { path: path.into(), code: without_comments(text) }
    }

    /// The stage that the file belongs to: the first part of its path.
    fn stage(&self) -> &str {
        let first = self.path.iter().next().and_then(|part| part.to_str()).unwrap_or_default();
        first.strip_suffix(".rs").unwrap_or(first)
    }

    /// How many `super::` lead from the file to the crate's root.
    fn depth(&self) -> usize {
        self.path.components().count() - usize::from(self.path.ends_with("mod.rs"))
    }

    /// The code that is no test.
    fn product(&self) -> &str {
        let is_test = |name: &OsStr| name == "tests" || name == "testing";
        let is_in_folder = self.path.iter().any(is_test);
        if is_in_folder || self.path.file_stem().is_some_and(is_test) {
            return "";
        }
        self.code.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
    }
}

/// The text less its `//` comments; what stands in strings stays.
fn without_comments(text: &str) -> String {
    let mut code = String::new();
    for line in text.lines() {
        let end = line
            .match_indices("//")
            .map(|(at, _)| at)
            .find(|&at| line[..at].matches('"').count() % 2 == 0 && !line[..at].ends_with(':'));
        code.push_str(&line[..end.unwrap_or(line.len())]);
        code.push('\n');
    }
    code
}

/// The leading identifier of `text`.
fn identifier(text: &str) -> &str {
    let end = text.find(|it| !is_word(it)).unwrap_or(text.len());
    &text[..end]
}

/// The stages that a source names, by `crate::` or by going up to the root.
fn used(source: &Source) -> Vec<&str> {
    let by_crate = source.code.match_indices("crate::").filter_map(|(at, path)| {
        let is_ours = !source.code[..at].ends_with(is_word);
        is_ours.then(|| identifier(&source.code[at + path.len()..]))
    });
    let up = "super::".repeat(source.depth());
    let by_super = source
        .code
        .match_indices(&up)
        .map(|(at, path)| identifier(source.code[at + path.len()..].trim_start_matches("super::")));
    by_crate.chain(by_super.filter(|name| is_stage(name))).collect()
}

fn is_stage(name: &str) -> bool {
    STAGES.iter().any(|stage| stage.name == name)
}

/// What is wrong with a source, one line each.
fn faults(source: &Source) -> Vec<String> {
    let at = source.path.display();
    let mut faults = Vec::new();
    let name = source.stage();
    let Some(stage) = STAGES.iter().find(|stage| stage.name == name) else {
        if !matches!(name, "lib" | "main") {
            faults.push(format!("{at}: `{name}` is no stage"));
        }
        return faults;
    };
    for used in used(source) {
        if used.is_empty() {
            faults.push(format!("{at}: one `use crate::stage::Item;` a line, so that arrows show"));
        } else if used != name && !stage.may_use.contains(&used) {
            faults.push(format!("{at}: `{name}` may not use `{used}`"));
        }
    }
    if name != "sys" && has_word(&source.code, "unsafe") {
        faults.push(format!("{at}: `unsafe` stands in `sys` alone"));
    }
    if stage.half == Half::Pure {
        for word in IMPURE.iter().filter(|word| says(source.product(), word)) {
            faults.push(format!("{at}: `{name}` is pure, and says `{word}`"));
        }
    }
    for part in source.path.iter().filter_map(|part| part.to_str()) {
        if DRAWERS.contains(&part.strip_suffix(".rs").unwrap_or(part)) {
            faults.push(format!("{at}: `{part}` is a drawer, not a noun of the flow"));
        }
    }
    faults
}

fn has_word(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| {
        !code[..at].ends_with(is_word) && !code[at + word.len()..].starts_with(is_word)
    })
}

/// Whether `code` holds `phrase`, and not as the end of a longer word.
fn says(code: &str, phrase: &str) -> bool {
    code.match_indices(phrase).any(|(at, _)| !code[..at].ends_with(is_word))
}

fn is_word(it: char) -> bool {
    it.is_alphanumeric() || it == '_'
}

/// The skeletons that libbpf-cargo writes hold `unsafe`; this is the one file that includes them.
const SKELETONS: &str = "bpf/skel.rs";

fn sources() -> Vec<Source> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![src.clone()];
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let path = path.strip_prefix(&src).unwrap().to_str().unwrap();
                sources.push(Source::new(path, &text));
            }
        }
    }
    sources
}

#[track_caller]
fn check(path: &str, text: &str, want: &[&str]) {
    let faults = faults(&Source::new(path, text));
    let want: Vec<_> = want.iter().map(|it| format!("{path}: {it}")).collect();
    assert_eq!(faults, want);
}

#[test]
fn every_source_keeps_the_layout() {
    let sources = sources();
    assert!(sources.len() > 10, "only {} sources were found", sources.len());
    let faults: Vec<_> = sources
        .iter()
        .filter(|source| source.path != Path::new(SKELETONS))
        .flat_map(faults)
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_stage_is_a_module_of_the_crate_and_the_other_way_round() {
    let lib = include_str!("../../src/lib.rs");
    let mut modules: Vec<_> =
        lib.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
    modules.sort_unstable();
    let mut stages: Vec<_> = STAGES.iter().map(|stage| stage.name).collect();
    stages.sort_unstable();
    assert_eq!(modules, stages);
}

#[test]
fn the_map_tells_of_every_stage() {
    let map = include_str!("../../docs/architecture.md");
    for Stage { name, .. } in STAGES {
        assert!(map.contains(&format!("### `{name}`")), "docs/architecture.md has no `{name}`");
    }
    assert!(map.lines().count() <= 300, "docs/architecture.md is longer than one sitting");
}

#[test]
fn the_map_draws_the_arrows_that_are_held() {
    let map = include_str!("../../docs/architecture.md");
    for Stage { name, may_use, .. } in STAGES {
        let row = map.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
        let cell = row.and_then(|row| row.split('|').nth(2)).unwrap_or_default().trim();
        let want = if may_use.is_empty() { "-".to_owned() } else { may_use.join(", ") };
        assert_eq!(cell, want, "the row of `{name}` in docs/architecture.md");
    }
}

#[test]
fn every_bpf_program_of_ours_says_which_bpfperf_it_is_of() {
    let header = include_str!("../../bpf/bpfperf.h");
    assert!(header.contains("const char bpf_metadata_bpfperf_version[] SEC(\".rodata\")"));
    let build = include_str!("../../build.rs");
    let files = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf")).unwrap();
    let names = files.map(|it| it.unwrap().file_name().into_string().unwrap());
    let names: Vec<_> = names.filter(|it| it.ends_with(".bpf.c")).collect();
    assert!(!names.is_empty());
    for name in names {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf").join(&name);
        let source = fs::read_to_string(path).unwrap();
        assert!(source.contains("#include \"bpfperf.h\"\n"), "{name} does not say it");
        let stem = name.strip_suffix(".bpf.c").unwrap();
        assert!(build.contains(&format!("\"{stem}\"")), "{name} is not built");
    }
}

#[test]
fn no_arrow_leads_in_a_circle() {
    let mut below: Vec<&str> = Vec::new();
    for half in [Half::Pure, Half::Impure] {
        for stage in STAGES.iter().filter(|stage| stage.half == half) {
            for used in stage.may_use {
                assert!(below.contains(used), "`{}` uses `{used}` above it", stage.name);
            }
            below.push(stage.name);
        }
    }
}

#[test]
fn a_forbidden_import_is_found() {
    let fault = "`perfdata` may not use `replay`";
    check("perfdata/record.rs", "use crate::replay::Timeline;\n", &[fault]);
    check("perfdata/record.rs", "fn f(it: crate::replay::Timeline) {}\n", &[fault]);
    check("perfdata/record.rs", "use super::super::replay::Timeline;\n", &[fault]);
    check("perfdata/mod.rs", "use super::replay::Timeline;\n", &[fault]);
    check("perfdata/record.rs", "// use crate::replay::Timeline;\n", &[]);
    check("perfdata/record.rs", "use crate::units::Addr;\nuse super::Cursor;\n", &[]);
    check("units.rs", "use crate::perfdata::Attr;\n", &["`units` may not use `perfdata`"]);
}

#[test]
fn imports_in_a_bunch_are_found() {
    let fault = "one `use crate::stage::Item;` a line, so that arrows show";
    check("cli/mod.rs", "use crate::{record, replay};\n", &[fault]);
}

#[test]
fn an_unsafe_block_outside_sys_is_found() {
    let block = "fn f() { unsafe { g() } }\n";
    check("record/pump.rs", block, &["`unsafe` stands in `sys` alone"]);
    check("sys/ring.rs", block, &[]);
    check("record/pump.rs", "#![deny(unsafe_code)]\n/// No unsafe here.\n", &[]);
}

#[test]
fn an_impure_word_in_the_pure_half_is_found() {
    check("render/text.rs", "fn f() { println!(); }\n", &["`render` is pure, and says `println!`"]);
    let opens = "fn f() { fs::read(path) }\n";
    check("replay/index.rs", opens, &["`replay` is pure, and says `fs::read`"]);
    check("replay/index.rs", &format!("#[cfg(test)]\nmod tests {{\n{opens}}}\n"), &[]);
    check("symbols/dwarf/tests/costs.rs", opens, &[]);
    check("host/process.rs", opens, &[]);
    check("symbols/elf.rs", "use std::os::unix::ffi::OsStrExt;\nuse std::fs::File;\n", &[]);
}

#[test]
fn a_drawer_and_an_unknown_stage_are_found() {
    check("sys/util.rs", "", &["`util.rs` is a drawer, not a noun of the flow"]);
    check("util.rs", "", &["`util` is no stage"]);
}
