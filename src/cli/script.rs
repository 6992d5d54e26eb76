//! `bpfperf script`.

use std::io;
use std::io::BufWriter;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::perfdata::RecordKind;
use crate::profile::Paths;
use crate::render::script;
use crate::render::script::Fields;
use crate::render::script::Only;
use crate::render::script::Options;
use crate::render::script::Precision;
use crate::render::script::Selection;
use crate::render::script::Show;
use crate::render::script::Shown;
use crate::render::script::Source;
use crate::render::script::script;
use crate::replay::Index;
use crate::replay::Names;
use crate::replay::Recording;
use crate::replay::Wanted;

use super::header;
use super::inlining;
use super::input;
use super::input::Input;
use super::lacking;
use super::message::Failure;
use super::naming;
use super::sources::DumpsOnDisk;
use super::sources::ThisMachine;
use super::symbol_options::SymbolOptions;

/// What `script` takes.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag on the command line")]
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The recording to read, `-` for stdin.
    #[arg(short, long, value_name = "FILE", default_value = input::DEFAULT)]
    input: PathBuf,
    /// The fields to print, such as `comm,tid,time,ip,sym`, or changes to the default ones, such as
    /// `+pid,-dso`.
    #[arg(short = 'F', long, value_name = "LIST", allow_hyphen_values = true)]
    fields: Option<String>,
    /// Print times with nine digits after the point.
    #[arg(long)]
    ns: bool,
    /// Print records of BPF programs too: their symbols, loads, unloads and metadata.
    #[arg(long)]
    show_bpf_events: bool,
    /// Print every record as it stands in the recording, in bytes and in words.
    #[arg(short = 'D', long)]
    dump_raw_trace: bool,
    /// Print records of mappings too.
    #[arg(long)]
    show_mmap_events: bool,
    /// Print records of command names, forks and exits too.
    #[arg(long)]
    show_task_events: bool,
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
}

/// Runs `bpfperf script`.
pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
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
    ];
    let mut kinds = vec![RecordKind::SAMPLE];
    let asked = shown.iter().filter(|(is_asked, _)| *is_asked);
    kinds.extend(asked.flat_map(|(_, show)| show.kinds()));
    let cannot = |error| input::cannot_read(&args.input, &error);
    let wanted = if args.dump_raw_trace { Wanted::All } else { Wanted::Kinds(kinds) };
    let dumps = DumpsOnDisk::new(&args.symbols_from);
    let index = Index::with_dumps(&recording, &file, &wanted, &dumps).map_err(cannot)?;
    input::check(&args.input, &index)?;
    let options = options(args, &file, &recording, &index)?;
    let machine = ThisMachine::new(&file, &index, &args.symbols_from)
        .with_kernel(args.naming.kernel(&index)?);
    let names = Names::new(&index, &machine).demangled(args.naming.demangling());
    let source = Source { recording: &recording, index: &index, input: &file, names: &names };
    let told = script(&source, &options, &mut out).map_err(|error| match error {
        script::Error::Write(error) => Failure::because("cannot write the samples", &error),
        error => Failure::because(format!("cannot read `{}`", args.input.display()), &error),
    })?;
    input::tell(&index.anomalies, told.n_bad_chains);
    input::tell_ends(&told.ends);
    input::tell_left_out(told.n_left_out);
    machine.tell_troubles();
    lacking::tell(&names, &told.nameless, machine.symfs());
    Ok(ExitCode::SUCCESS)
}

fn options(
    args: &Args,
    file: &Input,
    recording: &Recording,
    index: &Index,
) -> Result<Options, Failure> {
    let selection = match &args.fields {
        None => Selection::Default,
        Some(list) => Selection::parse(list).map_err(|error| {
            let known: Vec<&str> = Fields::names().collect();
            Failure::because("cannot print these fields", &error)
                .hint(format!("fields are {}", known.join(", ")))
        })?,
    };
    let kinds = script::kinds(recording, index);
    let events = recording.events.iter().zip(kinds);
    let shown = events.map(|(it, kind)| Shown { name: &it.name, attr: &it.attr, kind });
    let events: Vec<_> = shown.collect();
    let fields = selection
        .of_events(&events)
        .map_err(|error| Failure::because("cannot print these fields", &error))?;
    let cpus = match &args.cpu {
        None => Vec::new(),
        Some(list) => crate::host::cpus::parse_list(list)
            .map_err(|error| Failure::because(format!("cannot use the CPUs `{list}`"), &error))?,
    };
    Ok(Options {
        fields,
        precision: if args.ns { Precision::Nanoseconds } else { Precision::Microseconds },
        max_frames: args.max_stack,
        paths: if args.inlining.has_paths() { Paths::Full } else { Paths::Names },
        inlined: args.inlining.inlined(),
        only: Only {
            comms: args.comms.iter().map(|it| it.clone().into_bytes()).collect(),
            pids: args.pid.iter().copied().map(crate::units::Pid).collect(),
            tids: args.tid.iter().copied().map(crate::units::Tid).collect(),
            cpus,
        },
        dump: if args.dump_raw_trace { file.origins(recording) } else { Vec::new() },
    })
}

/// stdout, written in large pieces and without a search for line ends.
pub(super) fn stdout() -> Result<BufWriter<std::fs::File>, Failure> {
    let cannot = |error: io::Error| Failure::because("cannot write to stdout", &error);
    let fd = io::stdout().as_fd().try_clone_to_owned().map_err(cannot)?;
    Ok(BufWriter::with_capacity(1 << 18, std::fs::File::from(fd)))
}
