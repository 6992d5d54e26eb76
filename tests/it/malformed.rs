//! Fixtures cut short and changed by a byte: whatever comes of it, it comes soon and is no panic.

use std::error::Error;
use std::io::sink;
use std::time::Duration;
use std::time::Instant;

use bpfperf::perfdata::FileHeader;
use bpfperf::perfdata::ReadAt;
use bpfperf::profile;
use bpfperf::profile::Callchains;
use bpfperf::profile::Column;
use bpfperf::profile::Filter;
use bpfperf::profile::Labels;
use bpfperf::profile::Paths;
use bpfperf::profile::Percentage;
use bpfperf::profile::Plan;
use bpfperf::profile::Request;
use bpfperf::profile::Sort;
use bpfperf::profile::histograms;
use bpfperf::render::bill;
use bpfperf::render::header;
use bpfperf::render::header::Detail;
use bpfperf::render::header::Form;
use bpfperf::render::header::Header;
use bpfperf::render::report;
use bpfperf::render::report::Style;
use bpfperf::render::script::Fields;
use bpfperf::render::script::Kind;
use bpfperf::render::script::Only;
use bpfperf::render::script::Options;
use bpfperf::render::script::Origin;
use bpfperf::render::script::Precision;
use bpfperf::render::script::Source;
use bpfperf::render::script::script;

use bpfperf::replay::Index;
use bpfperf::replay::Inlined;
use bpfperf::replay::LocalKernel;
use bpfperf::replay::Names;
use bpfperf::replay::Programs;
use bpfperf::replay::Provenance;
use bpfperf::replay::Recording;
use bpfperf::replay::Sources;
use bpfperf::replay::Unnamed;
use bpfperf::replay::Wanted;
use bpfperf::replay::Width;
use bpfperf::replay::WrittenMap;
use bpfperf::replay::resolve;
use bpfperf::symbols;
use bpfperf::symbols::ElfCode;
use bpfperf::symbols::ElfModule;
use bpfperf::symbols::ModuleFile;
use bpfperf::units::BuildId;
use bpfperf::units::Pid;

use crate::annotate::annotate;
use crate::fixture::FIXTURES;
use crate::fixture::Fixture;
use crate::swap::swap;

/// A machine that knows no names, so that a run depends on the recording alone.
pub(crate) struct NoNames;

impl Sources for NoNames {
    fn elf(&self, file: &ModuleFile) -> Result<ElfModule, symbols::Error> {
        let reason = "there are no files here".to_owned();
        Err(symbols::Error::Open { path: file.path.clone(), reason })
    }

    fn vdso(&self, _: Width, _: Option<BuildId>) -> Option<ElfModule> {
        None
    }

    fn elf_code(&self, file: &ModuleFile) -> Result<ElfCode, symbols::Error> {
        let reason = "there are no files here".to_owned();
        Err(symbols::Error::Open { path: file.path.clone(), reason })
    }

    fn vdso_code(&self, _: Width, _: Option<BuildId>) -> Option<ElfCode> {
        None
    }

    fn perf_map(&self, _: Pid, _: &Provenance) -> Result<WrittenMap, Unnamed> {
        Err(Unnamed::Absent)
    }

    fn kernel(&self) -> Option<LocalKernel> {
        None
    }
}

/// Reads `bytes` in every way that there is: header, script, report, annotate.
fn read(bytes: &[u8]) -> Result<(), Box<dyn Error>> {
    let input: &dyn ReadAt = &bytes;
    let recording = Recording::open(input)?;
    let form = match recording.header {
        FileHeader::File { data, features, .. } => Form::File { data, features },
        FileHeader::Pipe { .. } => Form::Pipe,
    };
    let header = Header {
        captured: None,
        endian: recording.header.endian(),
        form,
        features: &recording.features,
        local_time: |_| None,
    };
    header::write(&header, Detail::Full, &mut sink())?;

    let index = Index::new(&recording, input, &Wanted::All)?;
    let programs = Programs::new(&recording, &index);
    for ksymbol in 0..index.timeline.ksymbols().len() {
        if let Some(it) = u32::try_from(ksymbol).ok().and_then(|it| programs.of_ksymbol(it)) {
            assert!((it.function as usize) < programs.program(it.program).functions.len());
        }
    }
    let mut names = Names::new(&index, &NoNames);
    names.group_functions(&programs);
    let source = Source { recording: &recording, index: &index, input, names: &names };
    let mut options = Options {
        dump: Vec::new(),
        fields: recording
            .events
            .iter()
            .map(|it| Fields::of_event(&it.attr, Kind::Usual) | Fields::SRCLINE)
            .collect(),
        precision: Precision::Nanoseconds,
        max_frames: 127,
        paths: Paths::Names,
        inlined: Inlined::Shown,
        only: Only::default(),
    };
    script(&source, &options, &mut sink())?;
    options.dump = vec![Origin { path: "perf.data".to_owned(), from: 0 }];
    script(&source, &options, &mut sink())?;

    let list = "comm,dso,sym,srcline,srcfile,bpf_prog,bpf_id,bpf_tag,bpf_type,bpf_line,bpf_owner,bpf_meta:owner";
    let mut meta_keys = Vec::new();
    let columns = Column::parse_list(list, &mut meta_keys)?;
    let request = Request { sort: Some(Sort::By(columns)), meta_keys, ..Request::default() };
    let resolved = resolve(&recording, &index, input, &names, None, request.keep(), usize::MAX)?;
    let mut plan = Plan::new(&request, Callchains::of(&resolved)).expect("nothing is asked for");
    plan.labels = Labels::new(&plan.columns, &plan.meta_keys, Paths::Full, &resolved, &programs);
    let histograms = histograms(&resolved, &plan).expect("nothing is chosen by CPU");
    report::write(&mut sink(), &resolved, &plan, &histograms, &Style::default())?;

    let detail = profile::Detail { callees: true, lines: true };
    let bill = profile::bill(&resolved, &programs, &Filter::default(), detail)?;
    let source = bill::Source {
        resolved: &resolved,
        programs: &programs,
        bill: &bill,
        percentage: Percentage::Absolute,
        was_followed: true,
    };
    let style = bill::Style { has_comments: true, has_details: true, ..bill::Style::default() };
    bill::write(&mut sink(), &source, &style)?;
    bill::json(&source)?;
    annotate(&recording, &index, &names, &programs, &resolved);
    Ok(())
}

/// Reads `bytes` and holds it to a time that a hang would exceed, though not a busy machine.
fn check(name: &str, what: &str, bytes: &[u8]) {
    let start = Instant::now();
    let result = std::panic::catch_unwind(|| read(bytes));
    assert!(result.is_ok(), "{name} {what}: a panic");
    let spent = start.elapsed();
    assert!(spent < Duration::from_secs(10), "{name} {what}: {spent:?}");
}

/// A generator of numbers that anyone can repeat: Marsaglia's xorshift of 64 bits.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).expect("below a limit")
    }
}

/// Every fixture in both byte orders.
fn files() -> Vec<(String, Vec<u8>)> {
    let both = |it: &Fixture| {
        [(it.name.to_owned(), it.bytes.to_vec()), (format!("{} swapped", it.name), swap(it.bytes))]
    };
    FIXTURES.iter().flat_map(both).collect()
}

/// Runs `check` on all files, on two threads.
fn for_all(check: impl Fn(&str, &[u8]) + Sync) {
    let files = files();
    let (left, right) = files.split_at(files.len() / 2);
    std::thread::scope(|scope| {
        for half in [left, right] {
            scope.spawn(|| half.iter().for_each(|(name, bytes)| check(name, bytes)));
        }
    });
}

#[test]
fn a_fixture_is_read() {
    for_all(|name, bytes| read(bytes).unwrap_or_else(|error| panic!("{name}: {error}")));
}

#[test]
fn a_recording_cut_anywhere_is_read_or_refused() {
    for_all(|name, bytes| {
        // A file's header and attributes in the one order, a pipe's first records in the other, are
        // cut at every length; the rest at places that fall everywhere in records.
        let all = ["perf-7.3-one", "perf-7.3-pipe swapped"].contains(&name);
        let step = bytes.len() / 40 + 1;
        let lengths = (0..if all { 400 } else { 0 }).chain((1..bytes.len()).step_by(step));
        for len in lengths {
            check(name, &format!("cut at {len}"), &bytes[..len]);
        }
    });
}

#[test]
fn a_recording_with_a_changed_byte_is_read_or_refused() {
    for_all(|name, bytes| {
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15 ^ bytes.len() as u64);
        for _ in 0..100 {
            let mut bytes = bytes.to_vec();
            // Half of the changes fall on what the rest hangs on.
            let limit = if numbers.below(2) == 0 { bytes.len().min(1024) } else { bytes.len() };
            let at = numbers.below(limit);
            let value = u8::try_from(numbers.below(256)).expect("a byte");
            bytes[at] = value;
            check(name, &format!("with {value:#x} at {at:#x}"), &bytes);
        }
    });
}

#[test]
fn a_recording_with_a_number_of_the_wildest_is_read_or_refused() {
    for_all(|name, bytes| {
        let mut numbers = Numbers(0xd1b5_4a32_d192_ed03 ^ bytes.len() as u64);
        for _ in 0..40 {
            let mut bytes = bytes.to_vec();
            let limit = if numbers.below(2) == 0 { bytes.len().min(1024) } else { bytes.len() };
            let width = 1 << numbers.below(4);
            let at = (numbers.below(limit) / width * width).min(bytes.len() - width);
            let value = [0, 0x7f, 0x80, 0xff][numbers.below(4)];
            bytes[at..at + width].fill(value);
            check(name, &format!("with {width} of {value:#x} at {at:#x}"), &bytes);
        }
    });
}
