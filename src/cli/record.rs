//! `bpfperf record`: what was typed, what is meant by it, and how it went.

mod chain_options;
mod habit_options;
mod off_cpu_options;
mod output;
mod part_options;
mod rate_options;
mod source_options;
mod summary;
mod target_options;
mod told;
mod user_filter;

use std::ffi::CString;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::process::ExitCode;

use nix::errno::Errno;

use crate::events;
use crate::host::privilege::Privilege;
use crate::host::settings;
use crate::host::settings::Settings;
use crate::record;
use crate::record::Compat;
use crate::record::Config;
use crate::record::Contents;
use crate::record::ControlBy;
use crate::record::CountRuns;
use crate::record::Delay;
use crate::record::Events;
use crate::record::FollowBpf;
use crate::record::OffCpu;
use crate::record::Output;
use crate::record::OutputOf;
use crate::record::RingSize;
use crate::record::Summary;
use crate::record::Synthesis;
use crate::record::Target;
use crate::record::Threads;
use crate::record::Wakeup;
use crate::sys::ring::page_len;
use crate::sys::spawn::Ended;

use super::advice;
use super::advice::Means;
use super::event_options::EventOptions;
use super::log;
use super::message;
use super::message::Failure;
use super::sample_options::SampleOptions;
use super::values;

use chain_options::ChainOptions;
use habit_options::HabitOptions;
use off_cpu_options::OffCpuOptions;
use output::Stamp;
use part_options::PartOptions;
use rate_options::RateOptions;
use source_options::SourceOptions;
use target_options::TargetOptions;

/// What was typed after `bpfperf record`.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag on the command line")]
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    target: TargetOptions,
    #[command(flatten)]
    events: EventOptions,
    #[command(flatten)]
    sample: SampleOptions,
    #[command(flatten)]
    rate: RateOptions,
    #[command(flatten)]
    chains: ChainOptions,
    #[command(flatten)]
    off_cpu: OffCpuOptions,
    /// Take all times from this clock: `monotonic`, `monotonic_raw`, `realtime`, `boottime` or
    /// `tai`, or its number.
    #[arg(short = 'k', long, value_name = "CLOCK", value_parser = values::clock)]
    clockid: Option<i32>,
    /// The size of each ring: a number of pages, or bytes with `K`, `M` or `G`.
    #[arg(short = 'm', long, value_name = "PAGES|SIZE")]
    mmap_pages: Option<String>,
    /// Write to this file, `-` for stdout [default: perf.data]
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    parts: PartOptions,
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
    /// Begin to sample so many milliseconds after the start, in windows of time, or with -1 when
    /// `--control` says so.
    #[arg(short = 'D', long, value_name = "MS|FROM-TO,..", allow_hyphen_values = true, value_parser = values::delay)]
    delay: Option<Delay>,
    /// Take commands from a fifo or a descriptor, and answer on another: `fifo:PATH[,PATH]` or
    /// `fd:N[,N]`. The commands are `enable` and `disable`, each with an event's name or without,
    /// `evlist`, also with `-v`, `-g` or `-F`, `snapshot`, `ping` and `stop`, a line each; what is done is
    /// answered with `ack`.
    #[arg(long, value_name = "WHERE", value_parser = values::control)]
    control: Option<ControlBy>,
    /// Write a directory, to which several threads drain the rings: one for each `cpu`, `core`, `package`
    /// or `numa` node, or as masks say, `DRAINED/RUN_ON:DRAINED/RUN_ON:..` [default: cpu]
    #[arg(
        long,
        value_name = "LAYOUT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "cpu",
        value_parser = Threads::parse,
        conflicts_with_all = ["per_thread", "switch_output", "switch_output_event", "overwrite"],
    )]
    threads: Option<Threads>,
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
    /// Keep what BPF programs of `-e FILE.bpf.o` write while other tasks than the target run, too.
    #[arg(long)]
    all_output: bool,
    /// Tell at the end what the global variables and small maps of BPF objects hold. They are in the
    /// file in any case: `report --header-only -I`.
    #[arg(long)]
    print_values: bool,
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
    /// Drain the rings on a real-time thread of this priority.
    #[arg(short = 'r', long, value_name = "1-99", value_parser = clap::value_parser!(u8).range(1..=99))]
    realtime: Option<u8>,
    /// Write each sample as it comes.
    #[arg(long)]
    no_buffering: bool,
    /// Of what runs already, tell this alone: `task`, `mmap`, `cgroup`, `all` or `no`.
    #[arg(long, value_name = "LIST", value_parser = values::synthesis, default_value = "all")]
    synth: Synthesis,
    /// Make one group of all events.
    #[arg(long, hide = true)]
    group: bool,
    /// Check the command line, and record nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    source: SourceOptions,
    #[command(flatten)]
    habits: HabitOptions,
    /// The command to run meanwhile; without a target of its own it is what is recorded.
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs `bpfperf record`; the status is that of the command.
pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    log::init(args.verbose);
    let settings = settings::read();
    let config = config(args, &settings)?;
    if args.dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    let mut tell = |note: &record::Note| match note {
        // Somebody asked.
        record::Note::Events { told, events } => {
            for line in told::lines(*told, events) {
                message::say(&line);
            }
        }
        _ if args.quiet => {}
        record::Note::Part { path, bytes, samples, lost, filtered } => {
            let without = summary::Without { lost: *lost, filtered: *filtered };
            summary::tell_part(path, *bytes, *samples, without);
        }
        note => message::warn(&note.to_string()),
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
            Output::File(path) if path.is_file() || path.is_dir() => {
                failure.hint("what was written before can be read: see `bpfperf report`")
            }
            _ => failure,
        });
    }
    if !args.quiet {
        summary::tell_summary(&summary, &config.output);
    }
    if args.print_values && !args.quiet {
        summary::tell_values(&summary.values);
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
        record::Error::Object { source, .. } => advice::on_object(source),
        record::Error::Open(error) => advice::on_open(error, settings, Means::look()),
        record::Error::RingsTooLarge { ring_bytes, n_rings, errno } => {
            advice::on_rings(*ring_bytes, *n_rings, *errno, settings)
        }
        record::Error::OffCpu(error) => advice::on_off_cpu(error),
        record::Error::OutputInThreads => {
            let text = "leave out `--threads`, or keep everyone's by `--all-output`";
            Some(text.to_owned())
        }
        record::Error::SampleFilter { source, .. } => advice::on_sample_filter(source),
        record::Error::Priority(_) => {
            let text = "`-r` needs CAP_SYS_NICE, or a limit by `ulimit -r`; or leave it out";
            Some(text.to_owned())
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
    args.habits.check()?;
    // What is of no effect, in words.
    let mut ignored = Vec::new();
    let target = args.target.target(!args.command.is_empty(), &mut ignored)?;
    let chains = args.chains.chains(settings, &mut ignored)?;
    ignored.extend(args.parts.ignored());
    let user = if let Target::User(user) = target { Some(user) } else { None };
    let off_cpu = args.off_cpu.threshold(&mut ignored);
    let off_cpu = off_cpu.map(|threshold| OffCpu { threshold, user });
    if args.delay == Some(Delay::Forever) && args.control.is_none() {
        let text =
            "with `-D -1` nothing is sampled before `--control` says so, and it is not given";
        ignored.push(text.to_owned());
    }
    if !args.quiet {
        for it in &ignored {
            message::warn(it);
        }
    }
    if args.sample.latency && target.is_cpus() {
        let failure = Failure::new("`--latency` is about tasks, and CPUs are recorded");
        return Err(failure.hint(advice::on_latency()));
    }
    let mut events = args.events.events(&target, args.source.options())?;
    // `--latency` is about tasks, and who is off the CPU is told by the target.
    let is_of_tasks = args.sample.latency || off_cpu.is_some();
    let target = if args.target.is_plain() && !is_of_tasks {
        user_filter::take(target, &mut events, Privilege::own())
    } else {
        target
    };
    if let (true, Events::Named(events)) = (args.group, &mut events) {
        events::group(events);
    }
    let mut command = Vec::with_capacity(args.command.len());
    for word in &args.command {
        // The system itself cannot hand over an argument with a zero.
        let word = CString::new(word.clone().into_vec());
        command.push(word.map_err(|it| Failure::because("cannot run the command", &it))?);
    }
    let stamp = if args.timestamp_filename { Stamp::Yes } else { Stamp::No };
    let output = output::output(args.output.as_deref(), stamp)?;
    if args.threads.is_some() && output == Output::Stdout {
        let failure = Failure::new("several threads do not write to one pipe");
        return Err(failure.hint("name a directory with `-o DIR`, or leave out `--threads`"));
    }
    Ok(Config {
        command,
        events,
        rate: args.rate.rate(settings)?,
        call_graph: chains.method,
        contents: Contents {
            max_stack: chains.max_stack,
            no_chains: args.chains.left_out(),
            ..args.sample.contents()?
        },
        wakeup: if args.no_buffering { Wakeup::EachSample } else { Wakeup::Filled },
        realtime: args.realtime,
        synthesis: args.synth,
        ring: args.mmap_pages.as_deref().map_or(Ok(RingSize::Fitted), ring)?,
        ring_per: args.target.ring_per(&target),
        clock: args.clockid,
        output_of: if args.all_output { OutputOf::Everyone } else { OutputOf::Target },
        inherit: args.target.inherit(&target),
        target,
        bpf: if args.no_bpf_event { FollowBpf::No } else { FollowBpf::Yes },
        files: args.habits.files(),
        runs: if args.bpf_stats { CountRuns::Yes } else { CountRuns::No },
        delay: args.delay.clone().unwrap_or(Delay::None),
        control: args.control.clone(),
        off_cpu,
        max_bytes: args.max_size,
        compat: if args.compat == "6.1" { Compat::Perf6_1 } else { Compat::Perf6_17 },
        compression: args.compression_level,
        threads: args.threads.clone(),
        parts: args.parts.parts(&output)?,
        keep: args.parts.keep(),
        describe: args.parts.describe(),
        output,
    })
}

/// The size of a ring: pages, or bytes with a unit, rounded up to a power of two of pages.
fn ring(text: &str) -> Result<RingSize, Failure> {
    // As with perf, the size of AUX areas may follow, of which there are none.
    let text = text.split_once(',').map_or(text, |it| it.0);
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

fn name_of(output: &Output) -> String {
    match output {
        Output::File(path) => path.display().to_string(),
        Output::Stdout => "standard output".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
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

    /// The options of perf 6.1 and 7.3 that there is nothing for.
    const LEFT_OUT: [&str; 0] = [];

    #[test]
    fn each_option_of_perfs_is_known_or_listed() {
        // As `perf record -h` lists them, with their letters.
        let options = "affinity aio all-cgroups all-kernel all-user aux-sample buildid-all \
                       buildid-mmap call-graph clang-opt clang-path code-page-size control \
                       data-mmap data-page-size debuginfod dry-run exclude-perf filter group kcore \
                       kernel-callchains latency max-size mmap-flush namespaces no-bpf-event \
                       no-buffering num-thread-synthesize off-cpu off-cpu-thresh overwrite \
                       per-thread phys-data proc-map-timeout running-time sample-cpu \
                       sample-identifier sample-mem-info setup-filter strict-freq switch-events \
                       switch-max-files switch-output switch-output-event synth tail-synthesize \
                       threads timestamp-boundary timestamp-filename transaction user-callchains \
                       user-regs vmlinux B:no-buildid C:cpu D:delay F:freq G:cgroup I:intr-regs \
                       N:no-buildid-cache P:period R:raw-samples S:snapshot T:timestamp W:weight \
                       a:all-cpus b:branch-any c:count d:data e:event g: i:no-inherit \
                       j:branch-filter k:clockid m:mmap-pages n:no-samples o:output p:pid q:quiet \
                       r:realtime s:stat t:tid u:uid v:verbose z:compression-level";
        let command = Line::command();
        for option in options.split(' ') {
            let (letter, name) = option.split_once(':').unwrap_or(("", option));
            let is_it = |it: &&clap::Arg| {
                let names = it.get_long_and_visible_aliases().into_iter().flatten();
                let names = names.chain(it.get_all_aliases().into_iter().flatten());
                (name.is_empty() || names.into_iter().any(|it| it == name))
                    && it.get_short() == letter.chars().next()
            };
            let is_known = command.get_arguments().any(|it| is_it(&it));
            assert!(is_known || LEFT_OUT.contains(&name), "{option}");
        }
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
        check_ring("16,64", Some(16));
        check_ring("1M", Some((1 << 20) / page_len()));
        for text in ["0", "", "x", "16X", "-1", "99999999999999999999", "9999999999999999G"] {
            check_ring(text, None);
        }
    }

    #[test]
    fn habits_are_taken_as_they_are_typed() {
        let args = parse("-F99 --call-graph=fp -N --buildid-all -m16 -o x true");
        assert_eq!(args.rate.freq.as_deref(), Some("99"));
        assert_eq!(args.chains.call_graph.as_deref(), Some("fp"));
        assert_eq!(args.command, ["true"]);
    }
}
