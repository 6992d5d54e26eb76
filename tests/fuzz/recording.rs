//! A recording, read in every way that there is, on a machine that knows no names.

use std::error::Error;
use std::io::sink;

use bpfperf::perfdata::FileHeader;
use bpfperf::perfdata::ReadAt;
use bpfperf::perfdata::RecordKind;
use bpfperf::profile;
use bpfperf::profile::Callchains;
use bpfperf::profile::Column;
use bpfperf::profile::Facts;
use bpfperf::profile::Filter;
use bpfperf::profile::Labels;
use bpfperf::profile::ListOf;
use bpfperf::profile::NotedField;
use bpfperf::profile::Paths;
use bpfperf::profile::Percentage;
use bpfperf::profile::Plan;
use bpfperf::profile::Request;
use bpfperf::profile::Sort;
use bpfperf::profile::Spelled;
use bpfperf::profile::Surroundings;
use bpfperf::profile::histograms;
use bpfperf::render::bill;
use bpfperf::render::header;
use bpfperf::render::header::Detail;
use bpfperf::render::header::Form;
use bpfperf::render::header::Header;
use bpfperf::render::report;
use bpfperf::render::report::Style;
use bpfperf::render::script::AskedField;
use bpfperf::render::script::Chains;
use bpfperf::render::script::Clock;
use bpfperf::render::script::Fields;
use bpfperf::render::script::Layout;
use bpfperf::render::script::Only;
use bpfperf::render::script::Options;
use bpfperf::render::script::Origin;
use bpfperf::render::script::Output;
use bpfperf::render::script::Precision;
use bpfperf::render::script::Records;
use bpfperf::render::script::Since;
use bpfperf::render::script::Source;
use bpfperf::render::script::TraceFormats;
use bpfperf::render::script::TraceNotes;
use bpfperf::render::script::script;
use bpfperf::replay::Asked;
use bpfperf::replay::CodeFiles;
use bpfperf::replay::Index;
use bpfperf::replay::Inlined;
use bpfperf::replay::LocalKernel;
use bpfperf::replay::Names;
use bpfperf::replay::NoKernel;
use bpfperf::replay::Programs;
use bpfperf::replay::Provenance;
use bpfperf::replay::Recording;
use bpfperf::replay::Sources;
use bpfperf::replay::Unnamed;
use bpfperf::replay::Wanted;
use bpfperf::replay::Width;
use bpfperf::replay::WrittenMap;
use bpfperf::replay::resolve;
use bpfperf::replay::resolved::EventIdx;
use bpfperf::replay::resolved::Resolved;
use bpfperf::symbols;
use bpfperf::symbols::ElfCode;
use bpfperf::symbols::ElfModule;
use bpfperf::symbols::ModuleFile;
use bpfperf::units::BuildId;
use bpfperf::units::Pid;

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

    fn kernel(&self) -> Result<LocalKernel, NoKernel> {
        Err(NoKernel::Other)
    }
}

/// Reads `bytes`, and forgets what they say.
pub(crate) fn run(bytes: &[u8]) {
    let _ = read(bytes, |_, _, _, _, _| ());
}

/// Reads `bytes` in every way that there is: header, script, report, and what `further` does.
///
/// # Errors
///
/// If it is no recording.
pub(crate) fn read(
    bytes: &[u8],
    further: impl FnOnce(&Recording, &Index, &Names<'_>, &Programs<'_>, &Resolved),
) -> Result<(), Box<dyn Error>> {
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
    let source = Source { recording: &recording, index: &index, input, names: &names, text: &() };
    let mut options = Options {
        dump: Vec::new(),
        fields: vec![Fields::all(); recording.events.len()],
        output: Output::Text,
        records: Records::All,
        clock: Clock {
            precision: Precision::Nanoseconds,
            since: Since::First,
            reference: None,
            local_time: |_| None,
        },
        chains: Chains::Shown,
        layout: Layout::Narrow,
        stop_at: Vec::new(),
        max_frames: 127,
        max_blocks: 0,
        paths: Paths::Names,
        inlined: Inlined::Shown,
        shown: vec![RecordKind::SAMPLE, RecordKind::COMM],
        only: Only::default(),
    };
    script(&source, &options, &mut sink())?;
    options.output = Output::Json;
    script(&source, &options, &mut sink())?;
    options.output = Output::Text;
    options.dump = vec![Origin { path: "perf.data".to_owned(), from: 0 }];
    script(&source, &options, &mut sink())?;

    let list = "comm,tgid,dso,sym,symoff,srcline,srcfile,bpf_prog,bpf_id,bpf_tag,bpf_type,bpf_line,bpf_owner,bpf_meta:owner";
    let mut spelled = Spelled::default();
    let mut columns = Column::parse_list(list, ListOf::Keys, &mut spelled)?;
    let fields = TraceFormats::new(&recording).find("trace_fields", false);
    columns.extend((0_u32..).zip(&fields).map(|(number, _)| Column::Field(number)));
    let noted = |it: &AskedField| NotedField {
        event: EventIdx(it.event),
        name: it.name.clone(),
        width: it.width,
    };
    let request = Request {
        sort: Some(Sort::By(columns)),
        meta_keys: spelled.meta_keys,
        noted_fields: fields.iter().map(noted).collect(),
        ..Request::default()
    };
    let notes = TraceNotes::new(&recording, fields);
    let details = request.details(1);
    let asked = Asked { details: &details, notes: Some(&notes), ..Asked::default() };
    let files = CodeFiles::new(&names);
    let resolved = resolve(&recording, &index, input, &files, None, request.keep(), asked)?;
    let mut plan = Plan::new(&request, Callchains::of(&resolved)).expect("nothing is asked for");
    plan.labels =
        Labels::new(&plan.columns, &plan.meta_keys, Paths::Full, &resolved, Some(&programs));
    let surroundings = Surroundings { details: &details, ..Surroundings::default() };
    plan.facts = Facts::new(&plan.order, &resolved, &surroundings);
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
    further(&recording, &index, &names, &programs, &resolved);
    Ok(())
}
