//! `bpfperf script`.

use std::io;
use std::io::BufWriter;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::perfdata::FileHeader;
use crate::perfdata::RecordKind;
use crate::perfdata::SampleType;
use crate::perfdata::feature::Feature;
use crate::perfdata::feature::FeatureId;
use crate::profile::Paths;
use crate::render::script;
use crate::render::script::Chains;
use crate::render::script::Clock;
use crate::render::script::FieldError;
use crate::render::script::Fields;
use crate::render::script::Form;
use crate::render::script::Layout;
use crate::render::script::Only;
use crate::render::script::Options;
use crate::render::script::Output;
use crate::render::script::Precision;
use crate::render::script::Records;
use crate::render::script::Selection;
use crate::render::script::Show;
use crate::render::script::Shown;
use crate::render::script::Since;
use crate::render::script::Source;
use crate::render::script::Switch;
use crate::render::script::script;
use crate::replay::Index;
use crate::replay::Names;
use crate::replay::Recording;
use crate::replay::Wanted;
use crate::sys::clock::local_time;
use crate::units::Nanos;

use super::header;
use super::inlining;
use super::input;
use super::input::Input;
use super::lacking;
use super::log;
use super::message;
use super::message::Failure;
use super::naming;
use super::script_habits;
use super::source_files::SourceFiles;
use super::sources::DumpsOnDisk;
use super::sources::ThisMachine;
use super::symbol_options::SymbolOptions;
use super::times;

/// What `script` takes.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag on the command line")]
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The recording to read, `-` for stdin.
    #[arg(short, long, value_name = "FILE", default_value = input::DEFAULT)]
    input: PathBuf,
    /// The fields to print, such as `comm,tid,time,ip,sym`, or changes to the default ones, such as
    /// `+pid,-dso`.
    ///
    /// Before a colon, as in `trace:comm,time,trace`, stands the type of events that it is of: hw, sw,
    /// trace, raw, break, synth. Later lists change what earlier ones say.
    #[arg(short = 'F', long, value_name = "LIST", allow_hyphen_values = true)]
    fields: Vec<String>,
    /// Print times with nine digits after the point.
    #[arg(long)]
    ns: bool,
    /// Print times since the first record that is printed.
    #[arg(long, conflicts_with = "deltatime")]
    reltime: bool,
    /// Print times since the record that was printed before.
    #[arg(long)]
    deltatime: bool,
    /// Print command names and CPUs in narrow columns.
    #[arg(short = 'L', long = "Latency")]
    latency: bool,
    /// Print sampled addresses alone, not their call chains.
    #[arg(short = 'G', long)]
    hide_call_graph: bool,
    /// Print an object of JSON for each record, on a line of its own.
    #[arg(long)]
    json: bool,
    /// Write the samples of each event to a file of their own, `INPUT.EVENT.dump`.
    #[arg(long)]
    per_event_dump: bool,
    /// Print records of BPF programs too: their symbols, loads, unloads and metadata.
    #[arg(long)]
    show_bpf_events: bool,
    /// Print every record as it stands in the recording, in bytes and in words.
    #[arg(short = 'D', long)]
    dump_raw_trace: bool,
    /// The same, in the order of the recording instead of that of time.
    #[arg(long)]
    dump_unsorted_raw_trace: bool,
    /// Print records of mappings too.
    #[arg(long)]
    show_mmap_events: bool,
    /// Print records of command names, forks and exits too.
    #[arg(long)]
    show_task_events: bool,
    /// Print records of tasks that come to a CPU or leave it too.
    #[arg(long)]
    show_switch_events: bool,
    /// Print records of namespaces too.
    #[arg(long)]
    show_namespace_events: bool,
    /// Print records of cgroups too.
    #[arg(long)]
    show_cgroup_events: bool,
    /// Print records of lost records too.
    #[arg(long)]
    show_lost_events: bool,
    /// Print the ends of rounds too, and all records as they stand in the recording.
    #[arg(long)]
    show_round_events: bool,
    /// Print records of kernel text that changed, and of kernel symbols, too.
    #[arg(long)]
    show_text_poke_events: bool,
    /// Only samples of these commands.
    #[arg(short = 'c', long = "comms", alias = "comm", value_name = "LIST", value_delimiter = ',')]
    comms: Vec<String>,
    /// Only samples of these processes.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pid: Vec<i32>,
    /// Only samples of these threads.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    tid: Vec<i32>,
    /// Only samples of these CPUs, such as `0,2-3`.
    #[arg(short = 'C', long, value_name = "LIST")]
    cpu: Option<String>,
    /// Only samples of these times: `FROM,TO` in seconds, `10%-20%`, `10%/2`.
    #[arg(long, value_name = "SPANS", allow_hyphen_values = true)]
    time: Option<String>,
    /// Only samples in these modules.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    dsos: Vec<String>,
    /// Only samples in these functions, by name or first address.
    #[arg(short = 'S', long, value_name = "LIST", value_delimiter = ',')]
    symbols: Vec<String>,
    /// How many bytes behind an address of `-S` count as it.
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    addr_range: u64,
    /// Only samples from one of this event on, up to one of `--switch-off`.
    #[arg(long, value_name = "EVENT")]
    switch_on: Option<String>,
    /// Only samples up to one of this event, and again from one of `--switch-on` on.
    #[arg(long, value_name = "EVENT")]
    switch_off: Option<String>,
    /// The samples of these two events, too.
    #[arg(long)]
    show_on_off_events: bool,
    /// No more of a call chain behind these functions.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    stop_bt: Vec<String>,
    /// The most blocks of code that `-F brstackinsn` and the like show of a sample; 0 for all.
    #[arg(long, value_name = "N", default_value_t = 0)]
    max_blocks: usize,
    /// The most frames of a call chain.
    #[arg(long, value_name = "N", default_value_t = 127)]
    max_stack: usize,
    #[command(flatten)]
    header: header::Args,
    #[command(flatten)]
    naming: naming::Args,
    #[command(flatten)]
    symbols_from: SymbolOptions,
    #[command(flatten)]
    inlining: inlining::Args,
    /// Taken for the habit of it: who owns the file does not matter.
    #[arg(short, long)]
    force: bool,
    /// Tell on stderr how the recording is read; twice for more.
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Print records alone, and no warnings.
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    habits: script_habits::Args,
}

impl Args {
    /// Whether every record is shown as it stands in the recording.
    fn is_dump(&self) -> bool {
        self.dump_raw_trace || self.dump_unsorted_raw_trace
    }
}

/// Runs `bpfperf script`.
pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    log::init(args.verbose);
    args.habits.check()?;
    let (file, recording) = input::open(&args.input)?;
    let mut out = stdout()?;
    let header = args.header.write(&file, &recording, &mut out);
    let header = header.map_err(|error| Failure::because("cannot print the header", &error))?;
    if header == header::Then::Stop {
        return Ok(ExitCode::SUCCESS);
    }
    let shown = [
        (args.show_bpf_events, Show::BpfEvents),
        (args.show_mmap_events, Show::MmapEvents),
        (args.show_task_events, Show::TaskEvents),
        (args.show_switch_events, Show::SwitchEvents),
        (args.show_namespace_events, Show::NamespaceEvents),
        (args.show_cgroup_events, Show::CgroupEvents),
        (args.show_lost_events, Show::LostEvents),
        (args.show_round_events, Show::RoundEvents),
        (args.show_text_poke_events, Show::TextPokeEvents),
    ];
    let mut kinds = vec![RecordKind::SAMPLE];
    let asked = shown.iter().filter(|(is_asked, _)| *is_asked);
    kinds.extend(asked.flat_map(|(_, show)| show.kinds()));
    let cannot = |error| input::cannot_read(&args.input, &error);
    let wanted = if args.is_dump() { Wanted::All } else { Wanted::Kinds(kinds.clone()) };
    let dumps = DumpsOnDisk::new(&args.symbols_from);
    let mut index = Index::with_dumps(&recording, &file, &wanted, &dumps).map_err(cannot)?;
    input::check(&args.input, &index)?;
    if args.show_round_events || args.dump_unsorted_raw_trace {
        index.entries.sort_by_key(|it| it.position);
    }
    let options = options(args, kinds, &file, &recording, &index)?;
    let machine = ThisMachine::new(&file, &index, &args.symbols_from)
        .with_kernel(args.naming.kernel(&index)?);
    let names = Names::new(&index, &machine).demangled(args.naming.demangling());
    let text = SourceFiles::default();
    let source =
        Source { recording: &recording, index: &index, input: &file, names: &names, text: &text };
    let failure = |error| match error {
        script::Error::Write(error) => Failure::because("cannot write the samples", &error),
        error => Failure::because(format!("cannot read `{}`", args.input.display()), &error),
    };
    let told = if args.per_event_dump {
        per_event(args, &source, &options, &mut out, failure)?
    } else {
        script(&source, &options, &mut out).map_err(failure)?
    };
    if args.quiet {
        return Ok(ExitCode::SUCCESS);
    }
    input::tell(&index.anomalies, told.n_bad_chains);
    if told.n_guest != 0 {
        let samples = if told.n_guest == 1 { "sample" } else { "samples" };
        message::warn(&format!("{} {samples} of guests left out", told.n_guest));
    }
    input::tell_ends(&told.ends);
    input::tell_missing_lines(&told.missing_lines);
    input::tell_changed(told.changed.iter().map(PathBuf::as_path));
    machine.tell_troubles();
    lacking::tell(&names, &told.nameless, machine.symfs());
    Ok(ExitCode::SUCCESS)
}

/// Writes the samples of each event to a file of their own, and all other records to `out`.
fn per_event(
    args: &Args,
    source: &Source<'_>,
    options: &Options,
    out: &mut dyn Write,
    failure: impl Fn(script::Error) -> Failure,
) -> Result<script::Told, Failure> {
    let mut told = script::Told::default();
    let mut written = Vec::new();
    for (idx, event) in (0..).zip(&source.recording.events) {
        // A name may hold what no file's can.
        let name = event.name.replace('/', "_");
        let path = PathBuf::from(format!("{}.{name}.dump", args.input.display()));
        let cannot = |error: io::Error| {
            Failure::because(format!("cannot write `{}`", path.display()), &error)
        };
        let mut file = BufWriter::new(std::fs::File::create(&path).map_err(cannot)?);
        let only = Only { event: Some(idx), ..options.only.clone() };
        let options = Options { only, records: Records::Samples, ..options.clone() };
        let of_event = script(source, &options, &mut file).map_err(&failure)?;
        let len = file.into_inner().map_err(io::IntoInnerError::into_error).map_err(cannot)?;
        let len = len.metadata().map_err(cannot)?.len();
        written.push((path, len, of_event.n_samples));
        told.add(&of_event);
    }
    let others = Options { records: Records::Others, ..options.clone() };
    told.add(&script(source, &others, out).map_err(&failure)?);
    let cannot = |error: io::Error| Failure::because("cannot write to stdout", &error);
    for (path, len, n_samples) in written {
        let (mb, path) = (len as f64 / 1024.0 / 1024.0, path.display());
        writeln!(out, "[ bpfperf script: Wrote {mb:.3} MB {path} ({n_samples} samples) ]")
            .map_err(cannot)?;
    }
    out.flush().map_err(cannot)?;
    Ok(told)
}

fn options(
    args: &Args,
    kinds: Vec<RecordKind>,
    file: &Input,
    recording: &Recording,
    index: &Index,
) -> Result<Options, Failure> {
    let selection = Selection::parse(args.fields.iter().map(String::as_str));
    let selection = selection.map_err(|error| {
        let known: Vec<&str> = Fields::names().collect();
        Failure::because("cannot print these fields", &error)
            .hint(format!("fields are {}", known.join(", ")))
    })?;
    let of_events = script::kinds(recording, index);
    let events = recording.events.iter().zip(of_events);
    let shown = events.map(|(it, kind)| Shown { name: &it.name, attr: &it.attr, kind });
    let events: Vec<_> = shown.collect();
    let chains = if args.hide_call_graph { Chains::Hidden } else { Chains::Shown };
    let form = match recording.header {
        FileHeader::File { .. } => Form::File,
        FileHeader::Pipe { .. } => Form::Pipe,
    };
    let fields = selection.of_events(&events, chains, form).map_err(|error| {
        let failure = Failure::because("cannot print these fields", &error);
        match how_to_record(&error) {
            Some(option) => failure.hint(format!("record with `{option}`")),
            None => failure,
        }
    })?;
    let has_cpus =
        || recording.events.iter().any(|it| it.attr.sample_type.contains(SampleType::CPU));
    let cpus = match &args.cpu {
        None => Vec::new(),
        Some(_) if !has_cpus() => {
            return Err(Failure::new("cannot choose by CPU")
                .cause("the recording does not say which CPU a sample was on")
                .hint("record with `-a`, or with `--sample-cpu`"));
        }
        Some(list) => crate::host::cpus::parse_list(list)
            .map_err(|error| Failure::because(format!("cannot use the CPUs `{list}`"), &error))?,
    };
    let reference = match recording.feature(FeatureId::CLOCK_DATA) {
        Some(Feature::ClockData(clock)) => Some(*clock),
        _ => None,
    };
    if reference.is_none() && fields.iter().any(|it| it.contains(Fields::TOD)) {
        return Err(Failure::new("cannot print `tod`")
            .cause("the recording does not say what time of day its clock had")
            .hint("record with `-k CLOCK`, as in `-k monotonic`"));
    }
    let times = match &args.time {
        None => Vec::new(),
        Some(text) => times::parse(text, bounds(recording, index), args.reltime)
            .map_err(|error| Failure::because("cannot use `--time`", &error))?,
    };
    Ok(Options {
        fields,
        output: if args.json { Output::Json } else { Output::Text },
        records: Records::All,
        clock: Clock {
            precision: if args.ns { Precision::Nanoseconds } else { Precision::Microseconds },
            since: match (args.reltime, args.deltatime) {
                (true, _) => Since::First,
                (false, true) => Since::Previous,
                (false, false) => Since::Always,
            },
            reference,
            local_time,
        },
        chains,
        layout: if args.latency { Layout::Narrow } else { Layout::Usual },
        stop_at: args.stop_bt.clone(),
        max_frames: args.max_stack,
        max_blocks: args.max_blocks,
        paths: if args.inlining.has_paths() { Paths::Full } else { Paths::Names },
        inlined: args.inlining.inlined(),
        shown: kinds,
        only: Only {
            comms: args.comms.iter().map(|it| it.clone().into_bytes()).collect(),
            pids: args.pid.iter().copied().map(crate::units::Pid).collect(),
            tids: args.tid.iter().copied().map(crate::units::Tid).collect(),
            cpus,
            times,
            dsos: args.dsos.clone(),
            symbols: args.symbols.clone(),
            addr_range: args.addr_range,
            event: None,
            switch: switch(args, recording)?,
        },
        dump: if args.is_dump() { file.origins(recording) } else { Vec::new() },
    })
}

/// The option of `record` that brings what is missing.
fn how_to_record(error: &FieldError) -> Option<&'static str> {
    let field = match error {
        FieldError::NoBranches { .. } => return Some("-b"),
        FieldError::Missing { field, .. } => *field,
        _ => return None,
    };
    Some(match field {
        "addr" | "data_src" => "-d",
        "cpu" => "--sample-cpu",
        "iregs" => "-I",
        "uregs" => "--user-regs",
        "weight" | "ins_lat" | "retire_lat" => "-W",
        "phys_addr" => "--phys-data",
        "data_page_size" => "--data-page-size",
        "code_page_size" => "--code-page-size",
        "cgroup" => "--all-cgroups",
        "trace" => "-R",
        _ => return None,
    })
}

/// From which event to which samples are printed.
fn switch(args: &Args, recording: &Recording) -> Result<Switch, Failure> {
    let number = |option: &str, name: &Option<String>| {
        let Some(name) = name else { return Ok(None) };
        let found = (0..).zip(&recording.events).find(|(_, it)| it.name == *name);
        found.map(|(idx, _)| Some(idx)).ok_or_else(|| {
            Failure::new(format!("cannot switch by `{option} {name}`"))
                .cause("the recording has no such event")
                .hint(format!("see `bpfperf evlist -i {}`", args.input.display()))
        })
    };
    Ok(Switch {
        on: number("--switch-on", &args.switch_on)?,
        off: number("--switch-off", &args.switch_off)?,
        is_shown: args.show_on_off_events,
    })
}

/// When the first and the last sample were.
pub(super) fn bounds(recording: &Recording, index: &Index) -> Option<(Nanos, Nanos)> {
    if let Some(Feature::SampleTime(times)) = recording.feature(FeatureId::SAMPLE_TIME) {
        return Some((times.first, times.last));
    }
    let times = || index.entries.iter().map(|it| it.order).filter(|it| *it != Nanos(0));
    times().min().zip(times().max())
}

/// stdout, written in large pieces and without a search for line ends.
pub(super) fn stdout() -> Result<BufWriter<std::fs::File>, Failure> {
    let cannot = |error: io::Error| Failure::because("cannot write to stdout", &error);
    let fd = io::stdout().as_fd().try_clone_to_owned().map_err(cannot)?;
    Ok(BufWriter::with_capacity(1 << 18, std::fs::File::from(fd)))
}
