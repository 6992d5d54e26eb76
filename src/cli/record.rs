//! `bpfperf record`: what was typed, what is meant by it, and how it went.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::ffi::OsString;
use std::io;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use nix::errno::Errno;

use crate::bpf::Skipped;
use crate::events::CallChains;
use crate::host::cpus;
use crate::host::settings;
use crate::host::settings::Settings;
use crate::perfdata::private::TracepointPrograms;
use crate::record;
use crate::record::BpfGaps;
use crate::record::Compat;
use crate::record::Config;
use crate::record::ControlBy;
use crate::record::CountRuns;
use crate::record::Delay;
use crate::record::FollowBpf;
use crate::record::Inherit;
use crate::record::Output;
use crate::record::Rate;
use crate::record::RingSize;
use crate::record::Summary;
use crate::record::Target;
use crate::sys::clock::local_time;
use crate::sys::ring::page_len;
use crate::sys::spawn::Ended;
use crate::units::Cpu;
use crate::units::Pid;
use crate::units::Tid;

use super::advice;
use super::event_options::EventOptions;
use super::log;
use super::message;
use super::message::Failure;
use super::sample_options::SampleOptions;
use super::values;

/// How often to sample where nothing is said, in Hz.
const USUAL_HERTZ: u64 = 4000;

/// Where a recording goes where nothing is said.
const USUAL_FILE: &str = "perf.data";

/// What was typed after `bpfperf record`.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag on the command line")]
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Record every task on every CPU.
    #[arg(short = 'a', long, conflicts_with_all = ["pid", "tid"])]
    all_cpus: bool,
    /// Record every task on these CPUs, such as `0,2-3`.
    #[arg(short = 'C', long, value_name = "LIST", conflicts_with_all = ["pid", "tid"])]
    cpu: Option<String>,
    /// Record these processes, and what they start.
    #[arg(short = 'p', long, value_name = "PIDS", value_delimiter = ',')]
    pid: Vec<i32>,
    /// Record these threads.
    #[arg(short = 't', long, value_name = "TIDS", value_delimiter = ',', conflicts_with = "pid")]
    tid: Vec<i32>,
    #[command(flatten)]
    events: EventOptions,
    #[command(flatten)]
    sample: SampleOptions,
    /// Sample so many times a second, or as often as the kernel allows.
    #[arg(short = 'F', long, value_name = "N|max", conflicts_with = "count")]
    freq: Option<String>,
    /// Sample each time that so many have happened.
    #[arg(short = 'c', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Fail where the kernel allows less than `-F` asks for.
    #[arg(long)]
    strict_freq: bool,
    /// Record call chains.
    #[arg(short = 'g')]
    call_chains: bool,
    /// Record call chains by this method: `fp` follows frame pointers, `dwarf` copies registers and
    /// so many bytes of the stack, `lbr` takes the hardware's record of branches.
    #[arg(long, value_name = "fp|dwarf[,BYTES]|lbr|no")]
    call_graph: Option<String>,
    /// The size of each ring: a number of pages, or bytes with `K`, `M` or `G`.
    #[arg(short = 'm', long, value_name = "PAGES|SIZE")]
    mmap_pages: Option<String>,
    /// Write to this file, `-` for stdout [default: perf.data]
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Compress the records, at this level from 1 to 22, or at 1.
    #[arg(
        short = 'z',
        long,
        value_name = "LEVEL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1",
        value_parser = clap::value_parser!(i32).range(1..=22),
    )]
    compression_level: Option<i32>,
    /// Leave out what the recorded tasks start.
    #[arg(short = 'i', long)]
    no_inherit: bool,
    /// Begin to sample so many milliseconds after the start.
    #[arg(short = 'D', long, value_name = "MS|FROM-TO,..", allow_hyphen_values = true, value_parser = values::delay)]
    delay: Option<Delay>,
    /// Take commands from a fifo or a descriptor, and answer on another: `fifo:PATH[,PATH]` or
    /// `fd:N[,N]`. The commands are `enable` and `disable`, each with an event's name or without,
    /// `ping` and `stop`, a line each; what is done is answered with `ack`.
    #[arg(long, value_name = "WHERE", value_parser = values::control)]
    control: Option<ControlBy>,
    /// End once the file is so large: bytes, or with `B`, `K`, `M` or `G`.
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    max_size: Option<u64>,
    /// Append the time of the start to the file's name.
    #[arg(long)]
    timestamp_filename: bool,
    /// Exit with 1 if more of the samples are lost than this share in percent, or any at all.
    #[arg(
        long,
        value_name = "PERCENT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "0",
    )]
    fail_on_loss: Option<f64>,
    /// Do not keep what is known of BPF programs.
    #[arg(long)]
    no_bpf_event: bool,
    /// Count how often BPF programs run and how long, which costs each run some 20 ns.
    ///
    /// The kernel counts for all programs while the recording runs. Where `kernel.bpf_stats_enabled`
    /// is 1 it does anyway, and its counts are in the recording without this.
    #[arg(long, conflicts_with = "no_bpf_event")]
    bpf_stats: bool,
    /// Write nothing that this version of perf does not read.
    #[arg(long, value_name = "VERSION", value_parser = ["6.1", "6.17"], default_value = "6.17")]
    compat: String,
    /// Tell what is decided on the way; twice, each round.
    #[arg(short = 'v', long, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    verbose: u8,
    /// Say nothing but errors.
    #[arg(short = 'q', long)]
    quiet: bool,
    /// Taken for the habit of it: nothing is put into `~/.debug`.
    #[arg(short = 'N', long, hide = true)]
    no_buildid_cache: bool,
    /// Taken for the habit of it: every mapped file has its build id.
    #[arg(long, alias = "buildid-mmap", hide = true)]
    buildid_all: bool,
    /// Taken for the habit of it: every sample has its time.
    #[arg(short = 'T', long, hide = true)]
    timestamp: bool,
    /// The command to run meanwhile; without a target of its own it is what is recorded.
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs `bpfperf record`; the status is that of the command.
pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    log::init(args.verbose);
    let settings = settings::read();
    let config = config(args, &settings)?;
    let mut tell = |note: &record::Note| {
        if !args.quiet {
            message::warn(&note.to_string());
        }
    };
    let summary = match record::record(&config, &mut tell) {
        Ok(summary) => summary,
        Err(error) => return not_recorded(&error, &config, &settings),
    };
    if let Some(error) = &summary.failed {
        let what = format!("cannot write all of `{}`", name_of(&config.output));
        // Of a reader that went away nothing is said.
        let failure = Failure::because(what, error);
        return Err(match &config.output {
            Output::File(path) if path.is_file() => {
                failure.hint("what was written before can be read: see `bpfperf report`")
            }
            _ => failure,
        });
    }
    if !args.quiet {
        tell_summary(&summary, &config.output);
    }
    let status = summary.command.map_or(0, Ended::shell_status);
    match args.fail_on_loss {
        Some(limit) if status == 0 => on_loss(&summary, limit)?,
        _ => {}
    }
    Ok(ExitCode::from(status))
}

/// Makes an error of samples lost, if they are more than `limit` percent.
fn on_loss(summary: &Summary, limit: f64) -> Result<(), Failure> {
    let tally = &summary.tally;
    let lost = tally.all_lost();
    let percent = 100.0 * lost as f64 / (tally.samples + lost).max(1) as f64;
    if lost == 0 || percent <= limit {
        return Ok(());
    }
    let failure = Failure::new(format!("{percent:.2}% of the samples were lost"));
    Err(failure.hint("raise `-m`, or sample less often by `-F`"))
}

/// Tells why there is no recording; the status of a command that cannot be run is the shell's.
fn not_recorded(
    error: &record::Error,
    config: &Config,
    settings: &Settings,
) -> Result<ExitCode, Failure> {
    let what = error.to_string();
    let failure = match std::error::Error::source(error) {
        Some(cause) => Failure::because(what, cause),
        None => Failure::new(what),
    };
    let hint = match error {
        record::Error::Open(error) => advice::on_open(error, settings),
        record::Error::RingsTooLarge { ring_bytes, n_rings } => {
            advice::on_rings(*ring_bytes, *n_rings, settings)
        }
        _ => None,
    };
    let failure = match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    };
    let record::Error::Command { errno, .. } = error else { return Err(failure) };
    // As every shell has it: not found, or found and no command.
    let status = if *errno == Errno::ENOENT { 127 } else { 126 };
    debug_assert!(!config.command.is_empty(), "only a command can fail to run");
    message::fail(&failure);
    Ok(ExitCode::from(status))
}

fn config(args: &Args, settings: &Settings) -> Result<Config, Failure> {
    let mut command = Vec::with_capacity(args.command.len());
    for word in &args.command {
        // The system itself cannot hand over an argument with a zero.
        let word = CString::new(word.clone().into_vec());
        command.push(word.map_err(|it| Failure::because("cannot run the command", &it))?);
    }
    Ok(Config {
        target: target(args)?,
        command,
        events: args.events.events()?,
        rate: rate(args, settings)?,
        call_graph: match args.call_graph.as_deref() {
            Some(method) => call_chains(method)?,
            None if args.call_chains => CallChains::FramePointers,
            None => CallChains::None,
        },
        contents: args.sample.contents()?,
        ring: args.mmap_pages.as_deref().map_or(Ok(RingSize::Fitted), ring)?,
        inherit: if args.no_inherit || !args.tid.is_empty() { Inherit::No } else { Inherit::Yes },
        bpf: if args.no_bpf_event { FollowBpf::No } else { FollowBpf::Yes },
        runs: if args.bpf_stats { CountRuns::Yes } else { CountRuns::No },
        delay: args.delay.clone().unwrap_or(Delay::None),
        control: args.control.clone(),
        max_bytes: args.max_size,
        compat: if args.compat == "6.1" { Compat::Perf6_1 } else { Compat::Perf6_17 },
        compression: args.compression_level,
        output: output(args)?,
    })
}

fn target(args: &Args) -> Result<Target, Failure> {
    if let Some(list) = &args.cpu {
        let cpus: Vec<Cpu> = cpus::parse_list(list).map_err(|it| Failure::new(it.to_string()))?;
        return Ok(Target::Cpus(cpus));
    }
    let is_number = |it: &&i32| 0 < **it;
    let all = [&args.pid, &args.tid];
    if let Some(bad) = all.iter().copied().flatten().find(|it| !is_number(it)) {
        return Err(Failure::new(format!("`{bad}` is no id of a process or thread")));
    }
    // Whoever is named twice is watched once.
    let distinct = |ids: &[i32]| ids.iter().copied().collect::<BTreeSet<i32>>().into_iter();
    Ok(if !args.pid.is_empty() {
        Target::Processes(distinct(&args.pid).map(Pid).collect())
    } else if !args.tid.is_empty() {
        Target::Threads(distinct(&args.tid).map(Tid).collect())
    } else if args.all_cpus || args.command.is_empty() {
        Target::AllCpus
    } else {
        Target::Workload
    })
}

/// `fp`, `dwarf`, `dwarf,4096`, `lbr` or `no`.
fn call_chains(text: &str) -> Result<CallChains, Failure> {
    let (method, bytes) = text.split_once(',').map_or((text, None), |it| (it.0, Some(it.1)));
    let bad = || Failure::new(format!("`{text}` is no way to record call chains"));
    match (CallChains::parse(method).ok_or_else(bad)?, bytes) {
        (CallChains::Dwarf { .. }, Some(bytes)) => {
            let stack_bytes = CallChains::stack_bytes(bytes).ok_or_else(|| {
                bad().cause(format!("`{bytes}` is no size of a stack, 1 to 65528 bytes"))
            })?;
            Ok(CallChains::Dwarf { stack_bytes })
        }
        (_, Some(_)) => Err(bad().cause(format!("`{method}` has no size"))),
        (method, None) => Ok(method),
    }
}

fn rate(args: &Args, settings: &Settings) -> Result<Rate, Failure> {
    if let Some(period) = args.count {
        return Ok(Rate::Period(period));
    }
    let most = settings.perf_event_max_sample_rate;
    let Some(text) = args.freq.as_deref() else { return Ok(Rate::Usual(USUAL_HERTZ)) };
    if text == "max" {
        return Ok(Rate::Hertz(most.unwrap_or(USUAL_HERTZ)));
    }
    let hertz: u64 = text.parse().ok().filter(|it| *it != 0).ok_or_else(|| {
        Failure::new(format!("`{text}` is no number of samples a second, nor `max`"))
    })?;
    match most {
        Some(most) if args.strict_freq && most < hertz => Err(Failure::new(format!(
            "cannot sample {hertz} times a second: `kernel.perf_event_max_sample_rate` is {most}"
        ))),
        _ => Ok(Rate::Hertz(hertz)),
    }
}

/// The size of a ring: pages, or bytes with a unit, rounded up to a power of two of pages.
fn ring(text: &str) -> Result<RingSize, Failure> {
    let bad = || Failure::new(format!("`{text}` is no size of a ring, as `128` pages or `512K`"));
    let digits = text.trim_end_matches(|it: char| it.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..).unwrap_or_default() {
        "" => page_len(),
        "B" | "b" => 1,
        "K" | "k" => 1 << 10,
        "M" | "m" => 1 << 20,
        "G" | "g" => 1 << 30,
        _ => return Err(bad()),
    };
    let number: usize = digits.parse().map_err(|_| bad())?;
    let bytes = number.checked_mul(unit).filter(|it| *it != 0).ok_or_else(bad)?;
    let bytes = bytes.max(page_len()).checked_next_power_of_two().ok_or_else(bad)?;
    Ok(RingSize::Bytes(bytes))
}

fn output(args: &Args) -> Result<Output, Failure> {
    let output = named(args.output.as_deref())?;
    Ok(match output {
        Output::File(path) if args.timestamp_filename => {
            let mut name = path.into_os_string();
            name.push(stamp());
            Output::File(name.into())
        }
        output => output,
    })
}

/// The time of this moment as part of a file's name.
fn stamp() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).ok().and_then(local_time);
    seconds.map(|it| values::stamp(&it, since.subsec_millis() / 10)).unwrap_or_default()
}

fn named(file: Option<&Path>) -> Result<Output, Failure> {
    match file {
        Some(path) if path == Path::new("-") => {
            if io::stdout().is_terminal() {
                let failure = Failure::new("a recording is no text for a terminal");
                return Err(failure.hint("pipe it into a reader, as `bpfperf script -i -`"));
            }
            Ok(Output::Stdout)
        }
        Some(path) => Ok(Output::File(path.to_owned())),
        None if stdout_is_pipe() => Ok(Output::Stdout),
        None => Ok(Output::File(PathBuf::from(USUAL_FILE))),
    }
}

/// Whether somebody reads stdout through a pipe, in which case perf writes there.
fn stdout_is_pipe() -> bool {
    use nix::sys::stat::SFlag;
    use nix::sys::stat::fstat;

    let mode = fstat(io::stdout().as_fd()).map_or(0, |it| it.st_mode);
    SFlag::from_bits_truncate(mode) & SFlag::S_IFMT == SFlag::S_IFIFO
}

fn name_of(output: &Output) -> String {
    match output {
        Output::File(path) => path.display().to_string(),
        Output::Stdout => "standard output".to_owned(),
    }
}

fn tell_summary(summary: &Summary, output: &Output) {
    let tally = &summary.tally;
    let lost = tally.all_lost();
    if lost != 0 {
        message::warn(&format!("{lost} records were lost: the profile is incomplete; raise `-m`"));
    }
    if tally.throttled != 0 {
        let times = tally.throttled;
        message::warn(&format!("the kernel paused the sampling {times} times; lower `-F`"));
    }
    if tally.corrupt != 0 {
        let n = tally.corrupt;
        message::warn(&format!("{n} pieces of the rings were no records and are left out"));
    }
    if let Some(gaps) = bpf_gaps(&summary.bpf) {
        message::warn(&gaps);
    }
    if let Some(droppers) = droppers(&summary.tracepoints) {
        message::warn(&droppers);
    }
    let samples = match tally.samples {
        0 => "no samples".to_owned(),
        1 => "1 sample".to_owned(),
        n => format!("{n} samples"),
    };
    let megabytes = summary.bytes as f64 / f64::from(1 << 20);
    let seconds = summary.elapsed.as_secs_f64();
    let lost = if lost == 0 { String::new() } else { format!(", {lost} lost") };
    let missed = bpf_missed(summary.bpf.skipped.n_vanished);
    let name = name_of(output);
    message::say(&format!(
        "[ bpfperf record: Captured and wrote {megabytes:.3} MB {name} \
         ({samples}, {seconds:.3} s{lost}{missed}) ]"
    ));
}

/// What could not be had of BPF programs, in one line.
///
/// Those that were gone again before they could be saved are no news here, since loaders probe the
/// kernel with such, and their names are in the recording all the same: the last line counts them.
fn bpf_gaps(gaps: &BpfGaps) -> Option<String> {
    let BpfGaps { skipped, n_lost, n_unwatched_cpus, ended_early, n_too_long, n_pins, n_processes } =
        gaps;
    let Skipped { n_vanished: _, n_refused, n_failed, n_hidden, n_untyped } = *skipped;
    let counts = [
        (n_refused, "BPF programs may not be asked for"),
        (n_failed, "BPF programs could not be asked for"),
        (n_hidden, "BPF programs are recorded without their addresses, which are hidden"),
        (n_untyped, "BPF programs are recorded without their types"),
        (*n_lost, "loads of BPF programs went by unseen"),
        (*n_unwatched_cpus, "CPUs were not watched for loads of BPF programs up to the end"),
        (*n_too_long, "features are too large for perf's records in a pipe; bpfperf reads them"),
        (*n_pins, "files in bpffs were not looked at"),
        (*n_processes, "processes were not looked at for BPF programs that they hold"),
    ];
    let told = counts.iter().filter(|(n, _)| *n != 0).map(|(n, what)| format!("{n} {what}"));
    let early = ended_early.iter().map(|why| format!("later BPF programs were not saved: {why}"));
    let told: Vec<String> = told.chain(early).collect();
    (!told.is_empty()).then(|| told.join(", "))
}

/// What the last line says of programs of which little more than the name is in the recording.
fn bpf_missed(n_vanished: u64) -> String {
    match n_vanished {
        0 => String::new(),
        1 => ", 1 BPF program gone before it was saved".to_owned(),
        n => format!(", {n} BPF programs gone before they were saved"),
    }
}

/// How many tracepoints, and how many programs of one, are named.
const MOST_NAMED: usize = 3;

/// The programs that may have taken samples from the recording, in one line.
///
/// A program that an event attaches to a tracepoint decides by its return value whether the
/// tracepoint's samples are written, those of all recorders; what it drops is counted nowhere.
fn droppers(tracepoints: &[TracepointPrograms]) -> Option<String> {
    let mut told = Vec::new();
    for tracepoint in tracepoints {
        let droppers: Vec<_> = tracepoint.programs.iter().filter(|it| it.can_drop).collect();
        if droppers.is_empty() {
            continue;
        }
        let names = droppers.iter().map(|it| format!("`{}` (id {})", it.name, it.id));
        let names = some_of(&names.collect::<Vec<_>>());
        let n = match droppers.len() {
            1 => "1 BPF program".to_owned(),
            n => format!("{n} BPF programs"),
        };
        told.push(format!("{n} on `{}`: {names}", tracepoint.event));
    }
    let told = (!told.is_empty()).then(|| some_of(&told))?;
    Some(format!("any of these may have dropped samples of a tracepoint, uncounted: {told}"))
}

/// The first of `items`, and how many more there are.
fn some_of(items: &[String]) -> String {
    let text = items.get(..MOST_NAMED).unwrap_or(items).join(", ");
    match items.len().saturating_sub(MOST_NAMED) {
        0 => text,
        n_left => format!("{text} and {n_left} more"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[track_caller]
    fn parse(line: &str) -> Args {
        let words = std::iter::once("record").chain(line.split_ascii_whitespace());
        Line::try_parse_from(words).unwrap().args
    }

    #[track_caller]
    fn check_target(line: &str, want: &Target, want_command: &[&str]) {
        let args = parse(line);
        assert_eq!(&target(&args).unwrap(), want);
        assert_eq!(args.command, want_command);
    }

    #[test]
    fn a_command_needs_no_dashes_before_it_and_keeps_its_own() {
        check_target("-g -a sleep 1", &Target::AllCpus, &["sleep", "1"]);
        check_target("-F99 ls -a -l", &Target::Workload, &["ls", "-a", "-l"]);
        check_target("-- ls -- x", &Target::Workload, &["ls", "--", "x"]);
        check_target("-C 1,3-4 true", &Target::Cpus(vec![Cpu(1), Cpu(3), Cpu(4)]), &["true"]);
    }

    #[test]
    fn without_target_and_command_it_is_the_whole_machine() {
        check_target("", &Target::AllCpus, &[]);
        check_target("-p 3,4", &Target::Processes(vec![Pid(3), Pid(4)]), &[]);
        check_target("-t 5 sleep 1", &Target::Threads(vec![Tid(5)]), &["sleep", "1"]);
        assert!(target(&parse("-p 0")).is_err());
    }

    #[track_caller]
    fn check_ring(text: &str, want_pages: Option<usize>) {
        let want = want_pages.map(|it| RingSize::Bytes(it * page_len()));
        assert_eq!(ring(text).ok(), want, "{text}");
    }

    #[test]
    fn rings_are_rounded_up_to_a_power_of_two_of_pages() {
        check_ring("1", Some(1));
        check_ring("3", Some(4));
        check_ring("128", Some(128));
        check_ring("1B", Some(1));
        check_ring("1M", Some((1 << 20) / page_len()));
        for text in ["0", "", "x", "16X", "-1", "99999999999999999999", "9999999999999999G"] {
            check_ring(text, None);
        }
    }

    #[test]
    fn a_rate_is_a_number_the_most_or_a_period() {
        let settings = Settings { perf_event_max_sample_rate: Some(9000), ..Settings::default() };
        let of = |line: &str| rate(&parse(line), &settings).map_err(|it| it.to_string());
        assert_eq!(of(""), Ok(Rate::Usual(4000)));
        assert_eq!(of("-F max"), Ok(Rate::Hertz(9000)));
        assert_eq!(of("-F 99"), Ok(Rate::Hertz(99)));
        assert_eq!(of("-c 7"), Ok(Rate::Period(7)));
        assert!(of("-F 0").is_err() && of("-F x").is_err());
        assert_eq!(
            of("-F 10000 --strict-freq").unwrap_err(),
            "error: cannot sample 10000 times a second: \
             `kernel.perf_event_max_sample_rate` is 9000"
        );
    }

    #[test]
    fn habits_are_taken_as_they_are_typed() {
        let args = parse("-F99 --call-graph=fp -N --buildid-all -m16 -o x true");
        assert_eq!(args.freq.as_deref(), Some("99"));
        assert_eq!(args.call_graph.as_deref(), Some("fp"));
        assert_eq!(args.command, ["true"]);
    }

    #[test]
    fn programs_that_may_drop_samples_are_told_in_one_line() {
        use crate::perfdata::private::Attached;

        let program =
            |id, can_drop| Attached { id, name: format!("p{id}"), can_drop, ..Attached::default() };
        let on = |event: &str, programs: Vec<Attached>| TracepointPrograms {
            event: event.to_owned(),
            programs,
            ..TracepointPrograms::default()
        };
        assert_eq!(droppers(&[on("a:b", vec![program(1, false)])]), None);
        let five = (1..=5).map(|id| program(id, true)).collect();
        let found = [on("a:b", vec![program(7, true), program(8, false)]), on("c:d", five)];
        assert_eq!(
            droppers(&found).as_deref(),
            Some(
                "any of these may have dropped samples of a tracepoint, uncounted: \
                 1 BPF program on `a:b`: `p7` (id 7), \
                 5 BPF programs on `c:d`: `p1` (id 1), `p2` (id 2), `p3` (id 3) and 2 more"
            )
        );
    }

    #[test]
    fn what_is_missing_of_programs_is_told_in_one_line() {
        let skipped = Skipped { n_vanished: 9, n_refused: 2, ..Skipped::default() };
        let early = Some("a bug".to_owned());
        let gaps = BpfGaps {
            skipped,
            n_lost: 3,
            n_unwatched_cpus: 4,
            ended_early: early,
            ..BpfGaps::default()
        };
        assert_eq!(
            bpf_gaps(&gaps).as_deref(),
            Some(
                "2 BPF programs may not be asked for, 3 loads of BPF programs went by unseen, \
                 4 CPUs were not watched for loads of BPF programs up to the end, \
                 later BPF programs were not saved: a bug"
            )
        );
        let skipped = Skipped { n_vanished: 9, ..Skipped::default() };
        assert_eq!(bpf_gaps(&BpfGaps { skipped, ..BpfGaps::default() }), None);
        assert_eq!(bpf_missed(skipped.n_vanished), ", 9 BPF programs gone before they were saved");
        assert_eq!(bpf_missed(0), "");
    }
}
