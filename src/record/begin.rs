//! The beginning of a recording: what is opened, in which order, until the first round.

use super::BpfGaps;
use super::Error;
use super::Summary;
use super::before;
use super::before::Whom;
use super::called::Called;
use super::clock;
use super::config;
use super::config::Config;
use super::config::CountRuns;
use super::config::FollowBpf;
use super::config::Inherit;
use super::config::Keep;
use super::config::OutputOf;
use super::config::RingPer;
use super::control::Control;
use super::describe;
use super::describe::Sent;
use super::directory;
use super::directory::Directory;
use super::filters;
use super::history::History;
use super::history::Kept;
use super::hop::Tally;
use super::note::Note;
use super::objects::Objects;
use super::off_cpu;
use super::off_cpu::Measure;
use super::open;
use super::open::Opened;
use super::output::Output;
use super::outputs;
use super::outputs::Latest;
use super::outputs::Outputs;
use super::outputs::Sieve;
use super::outputs::Tasks;
use super::outputs::Through;
use super::parts::Finished;
use super::plan;
use super::plan::Request;
use super::plan::Role;
use super::plan::Start;
use super::plan::Watch;
use super::rings;
use super::rings::CpuRing;
use super::rings::Rings;
use super::sample_filters::SampleFilters;
use super::saving::FileGaps;
use super::saving::Saving;
use super::session::FileEvent;
use super::session::Session;
use super::sideband::Sideband;
use super::spread;
use super::squeeze::Squeezer;
use super::surroundings::Counting;
use super::triggers::Triggers;
use super::watch::Watched;
use super::who;
use super::who::Who;
use crate::bpf;
use crate::bpf::Programs;
use crate::events;
use crate::host::cpus;
use crate::host::facts;
use crate::host::limits;
use crate::host::settings;
use crate::host::settings::Settings;
use crate::perfdata::AttrFlags;
use crate::perfdata::SampleType;
use crate::perfdata::feature::Feature;
use crate::symbols::Tables;
use crate::sys::bpf_counters;
use crate::sys::perf_event::EventFd;
use crate::sys::signals::Signals;
use crate::sys::spawn::Held;
use crate::sys::spawn::Heritage;
use crate::sys::spawn::Stdout;
use crate::sys::thread;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// Makes a recording as `config` says, and tells of each thing that goes otherwise.
///
/// Blocks until the command has ended, the targets are gone, or a signal comes.
///
/// # Errors
///
/// [`Error`] if nothing was recorded; then there is no new file, and an old one stays as it was.
/// A recording that was begun is always finished: see [`Summary::failed`].
pub fn record(config: &Config, tell: &mut dyn FnMut(&Note)) -> Result<Summary, Error> {
    // First, while the numbers of descriptors are those that were handed over.
    let control = config.control.as_ref().map(Control::open).transpose();
    let control = control.map_err(|(end, source)| Error::Control { end, source })?;
    if let Some(priority) = config.realtime {
        // Before anything begins, on a thread that is then gone.
        let tried = std::thread::spawn(move || thread::run_at(priority)).join();
        tried.unwrap_or(Ok(())).map_err(Error::Priority)?;
    }
    let signals = Signals::block()?;
    let heritage = Heritage {
        signals: signals.before(),
        stdout: if config.output == config::Output::Stdout { Stdout::Stderr } else { Stdout::Own },
        open_files: limits::raise_open_files(),
    };
    // Takes the kernel a while, and nothing else depends on it for now.
    let symbols = std::thread::spawn(before::read_symbols(config.bpf));
    let (mut directory, mut output) = spread::open_output(config, &signals)?;
    if config.parts.is_some() && !output.is_own_file() {
        let source = std::io::Error::other("only an ordinary file can be one of several");
        return Err(output_error(config, source));
    }
    // The threads that drain a ring compress what was in it, too.
    if directory.is_none() {
        begin_squeezing(config, &mut output)?;
    }
    let held =
        if config.command.is_empty() { None } else { Some(Held::fork(&config.command, heritage)?) };
    let settings = settings::read();
    let online = cpus::online()?;
    let mut notes = Vec::new();

    let mut who = who::find(config, held.as_ref(), &online, &mut notes)?;
    let watched = std::mem::replace(&mut who.watched, Watched::nobody());
    let mut request = who::request(config, who.watch.clone(), online, &settings, &mut notes);
    let objects = Objects::load(&mut request.events)?;
    outputs::take_events(&mut request, |of| objects.through(of));
    if request.outputs.iter().any(|it| it.through == Through::Messages) {
        // Messages have their times from us, who cannot read the kernel's own clock.
        request.clock.get_or_insert(libc::CLOCK_MONOTONIC);
    }
    let mut off_cpu = Measure::load(config, &request, &settings)?;
    request.outputs.extend(off_cpu.as_ref().map(Measure::event));
    let (opened, rings) = open(config, &who, &request, &settings, &mut notes)?;
    let Rings { forward, latest, outputs } = rings;
    let mut outputs = outputs_of(config, &request, &opened, outputs)?;
    objects.wire(&opened, &mut outputs, request.clock.unwrap_or(libc::CLOCK_MONOTONIC))?;
    if let Some(off_cpu) = &mut off_cpu {
        off_cpu.wire(&opened)?;
    }
    let sample_filters = SampleFilters::load(&opened, &mut notes)?;
    let triggers = Triggers::open(config, &request)?;
    let samples_kernel = opened.iter().filter(|it| it.role.samples()).any(is_in_kernel);
    let groups = describe::groups(&opened);
    let follows = config.bpf == FollowBpf::Yes
        && samples_kernel
        && opened.iter().any(|it| it.attr.flags.intersects(plan::OF_PROGRAMS));
    let watches_all = opened.iter().any(|it| it.role == Role::System);
    let sideband = if follows && watches_all {
        let why = |error: &dyn std::error::Error| Note::NoSideband { why: chain(error) };
        let tables = sample_filters.tables();
        Sideband::start(&request.online, tables).map_err(|it| notes.push(why(&it))).ok()
    } else {
        None
    };
    let counting = count_runs(config, &mut notes);
    let counts = counting.is_some() || settings.bpf_stats_enabled == Some(1);
    let counts = if counts { Counting::Yes } else { Counting::No };
    let saving = if config.files == config::SaveFiles::Yes {
        Saving::start(&request, tables(&opened))
    } else {
        None
    };
    let mut session = Session {
        config,
        tell,
        signals,
        events: file_events(&opened)?,
        opened: Arc::new(opened),
        rings: forward,
        outputs,
        latest,
        tally: Tally::default(),
        total: Tally::default(),
        gaps: BpfGaps::default(),
        tracepoints: BTreeMap::new(),
        failed: None,
        lost_before: BTreeMap::new(),
        started: Instant::now(),
        facts: Vec::new(),
        formats: None,
        programs: None,
        samples_kernel,
        kept: match config.keep {
            Keep::All => Kept::default(),
            Keep::Latest => Kept::Latest(History::default()),
        },
        describes_end: false,
        next_message: 0,
        surroundings: None,
        saving,
        file_gaps: FileGaps::default(),
        has_sideband: sideband.is_some(),
        sideband,
        counting,
        counts,
        sent: Sent::default(),
        n_too_long: 0,
        control,
        called: Called::default(),
        drainers: None,
        threads: who.threads.clone(),
        processes: who.processes.clone(),
        request,
        triggers,
        objects,
        off_cpu,
        values: Vec::new(),
        sample_filters,
        finished: config.parts.as_ref().map(Finished::new),
    };
    session.survey();
    // Tasks that run already are sampled while they are looked at: nothing falls between.
    let is_early = session.request.start == Start::WhenTold && !config.target.is_cpus();
    if is_early {
        filters::set(&session.opened)?;
        session.attach()?;
        session.begin_runs();
        session.enable()?;
    }
    session.read_formats(&mut notes);
    session.facts = facts::gather();
    session.facts.extend(config.compression.map(describe::compression));
    session.facts.extend(groups);
    session.facts.extend(session.request.clock.and_then(clock::features).into_iter().flatten());
    session.facts.extend(directory.is_some().then_some(Feature::DirFormat(directory::VERSION)));
    session.drain_early();
    if follows {
        session.programs = walk(&mut notes);
        session.sample_filters.note(session.programs.as_ref());
        // Who may not ask now may not ask later, either.
        if session.programs.is_none() {
            session.sideband = None;
            session.has_sideband = false;
        }
        session.drain_early();
    }
    let symbols = symbols.join().ok().and_then(Result::ok);
    let head = session.describe_start(symbols, Whom::Named(held.as_ref()), &mut notes);
    for note in &notes {
        (session.tell)(note);
    }

    // All that takes time stands before the sampling: from there on records come.
    if !output.is_pipe() {
        session.begin(&mut output, &head);
        if let Some(error) = output.take_failure() {
            return Err(output_error(config, error));
        }
    }
    if let (Some(directory), Some(threads)) = (&directory, &config.threads) {
        session.spread(directory, threads)?;
    }
    if !is_early {
        // As late as can be: the threads of ours that run by now are those that a filter leaves out.
        filters::set(&session.opened)?;
        session.attach()?;
        session.begin_runs();
    }
    if session.request.start == Start::WhenTold && config.target.is_cpus() {
        session.enable()?;
    }
    let mut workload = match held {
        Some(held) => {
            if session.request.start == Start::AtExec {
                // What programs write is of CPUs, which have no exec.
                session.enable()?;
            }
            if session.request.start != Start::WhenTold {
                session.started = Instant::now();
            }
            Some(held.release().map_err(|errno| Error::Command {
                command: config.command.first().map_or_else(String::new, lossy),
                errno,
            })?)
        }
        None => None,
    };
    output.commit();
    if let Some(Err(error)) = directory.as_mut().map(Directory::commit) {
        output.fail(error);
    }
    if output.is_pipe() {
        session.begin(&mut output, &head);
    }
    if let Some(priority) = config.realtime {
        // Late, since the command and all other threads are to be ordinary ones.
        thread::run_at(priority).map_err(Error::Priority)?;
    }
    tracing::debug!(head_bytes = head.len(), "began");
    let end = session.run(&mut output, workload.as_mut(), watched);
    Ok(session.finish(output, workload, end))
}

/// From now on `output` compresses rounds, if that was asked for.
pub(super) fn begin_squeezing(config: &Config, output: &mut Output) -> Result<(), Error> {
    if let Some(level) = config.compression {
        let squeezer = Squeezer::start(level, describe::compressed_kind(config.compat));
        output.squeeze(squeezer.map_err(|source| Error::Compression { level, source })?);
    }
    Ok(())
}

/// Opens what is to be recorded, and the rings that it is written to.
fn open(
    config: &Config,
    who: &Who,
    request: &Request,
    settings: &Settings,
    notes: &mut Vec<Note>,
) -> Result<(Vec<Opened<EventFd>>, Rings), Error> {
    let instead = events::clock_instead(match who.watch {
        Watch::Cpus(_) => events::SOFTWARE_CPU_CLOCK,
        Watch::Threads(_) => events::SOFTWARE_TASK_CLOCK,
    });
    let wanted = rings::wanted(config.ring, settings);
    let (mut ring_bytes, n_notes) = (wanted, notes.len());
    loop {
        // Who opens an event says how much of its ring is to be unread at a wakeup.
        let wakeup_bytes = request.wakeup_bytes.map(|_| rings::wakeup_bytes(ring_bytes));
        let plan = plan::plan(&Request { wakeup_bytes, ..request.clone() });
        let opened = open::open_all(&mut open::Kernel, plan, Some(&instead), notes)?;
        // Those that watch whom they were asked to; output events watch CPUs.
        let is_of_target = |it: &&Opened<EventFd>| match (&who.watch, it.role) {
            (_, Role::Sampling) | (Watch::Cpus(_), Role::Output) => true,
            (Watch::Threads(_), Role::Tasks) => request.events.is_empty(),
            _ => false,
        };
        if opened.iter().filter(is_of_target).all(|it| it.instances.is_empty()) {
            return Err(who.gone());
        }
        for it in &opened {
            let n_instances = it.instances.len();
            tracing::debug!(event = %it.name, role = ?it.role, n_instances, "opened");
        }
        let error = match rings::map(&opened, ring_bytes) {
            Ok(rings) => {
                tracing::debug!(ring_bytes, "rings");
                if ring_bytes != wanted {
                    notes.push(Note::SmallerRings { wanted, taken: ring_bytes });
                }
                return Ok((opened, rings));
            }
            Err(rings::Failed::Refused(refused)) => return Err(refused.into()),
            Err(rings::Failed::TooLarge { ring_bytes, n_rings, errno }) => {
                Error::RingsTooLarge { ring_bytes, n_rings, errno }
            }
        };
        ring_bytes = rings::smaller(config.ring, ring_bytes).ok_or(error)?;
        notes.truncate(n_notes);
    }
}

/// The rings that BPF programs write into, and whose doings they may tell of.
fn outputs_of(
    config: &Config,
    request: &Request,
    opened: &[Opened<EventFd>],
    rings: Vec<(usize, CpuRing)>,
) -> Result<Outputs, Error> {
    let follows = request.inherit == Inherit::Yes && request.ring_per == RingPer::Cpu;
    let sifts = request.outputs.iter().any(|it| matches!(it.sieve, Sieve::OfTarget));
    let tasks = match (&request.watch, request.start) {
        _ if !sifts || config.output_of == OutputOf::Everyone => Tasks::Everyone,
        (Watch::Cpus(_), _) => Tasks::Everyone,
        // The command is itself from its exec on.
        (Watch::Threads(_), Start::AtExec | Start::AfterExec) => Tasks::named([], follows),
        (Watch::Threads(tids), _) => Tasks::named(tids.iter().copied(), follows),
    };
    if config.threads.is_some() && tasks != Tasks::Everyone {
        return Err(Error::OutputInThreads);
    }
    let latest = match config.keep {
        Keep::All => None,
        Keep::Latest => Some(Latest::new(rings.iter().map(|(_, it)| it.len()).sum())),
    };
    Ok(Outputs::new(&request.outputs, opened, rings, tasks, latest))
}

fn is_in_kernel(event: &Opened<EventFd>) -> bool {
    !event.attr.flags.contains(AttrFlags::EXCLUDE_KERNEL)
}

/// Which tables of files the samples of these events ask for.
fn tables(opened: &[Opened<EventFd>]) -> Tables {
    let has_stack = opened.iter().any(|it| it.attr.sample_type.contains(SampleType::STACK_USER));
    if has_stack { Tables::NamesAndFrames } else { Tables::Names }
}

/// Lets the kernel count the runs of BPF programs, if that was asked for.
fn count_runs(config: &Config, notes: &mut Vec<Note>) -> Option<OwnedFd> {
    if config.runs == CountRuns::No {
        return None;
    }
    let counting = bpf_counters::count_runs();
    counting.map_err(|errno| notes.push(Note::NoRuns { why: errno.to_string() })).ok()
}

/// What was loaded before, or `None` where nobody tells.
pub(super) fn walk(notes: &mut Vec<Note>) -> Option<Programs> {
    match Programs::walk() {
        Ok(programs) => Some(programs),
        // A kernel without BPF has nothing to tell.
        Err(bpf::Error::Absent) => None,
        Err(error) => {
            notes.push(Note::NoPrograms { why: chain(&error) });
            None
        }
    }
}

/// The events as the file knows them, with the ids that the kernel gave them.
fn file_events(opened: &[Opened<EventFd>]) -> Result<Vec<FileEvent>, Error> {
    let mut events = Vec::with_capacity(opened.len());
    for it in opened {
        let ids = it.instances.iter().map(|(_, fd)| fd.id()).collect::<Result<_, _>>()?;
        let attr = if off_cpu::is_event(it) { off_cpu::in_file(it.attr) } else { it.attr };
        events.push(FileEvent { name: it.name.clone(), attr, ids });
    }
    Ok(events)
}

pub(super) fn output_error(config: &Config, source: std::io::Error) -> Error {
    let path = match &config.output {
        config::Output::File(path) => path.clone(),
        config::Output::Stdout => PathBuf::from("standard output"),
    };
    Error::Output { path, source }
}

fn lossy(text: &std::ffi::CString) -> String {
    text.to_string_lossy().into_owned()
}

/// An error and its causes in one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
