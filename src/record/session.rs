//! A recording from its beginning to its end.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use crate::bpf;
use crate::bpf::Programs;
use crate::events;
use crate::host::cpus;
use crate::host::facts;
use crate::host::limits;
use crate::host::settings;
use crate::host::settings::Settings;
use crate::host::tracefs::Tracefs;
use crate::perfdata::Attr;
use crate::perfdata::AttrFlags;
use crate::perfdata::Endian;
use crate::perfdata::FileHeader;
use crate::perfdata::Layout;
use crate::perfdata::SampleIdLayout;
use crate::perfdata::SampleType;
use crate::perfdata::feature::Feature;
use crate::perfdata::private::Message;
use crate::perfdata::private::ObjectValues;
use crate::perfdata::private::TracepointPrograms;
use crate::sys::bpf_counters;
use crate::sys::perf_event;
use crate::sys::perf_event::EventFd;
use crate::sys::signals::Signals;
use crate::sys::spawn::Held;
use crate::sys::spawn::Heritage;
use crate::sys::spawn::Stdout;
use crate::sys::thread;
use crate::units::Pid;
use crate::units::Tid;

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
use super::control::Sampling;
use super::describe;
use super::describe::Sent;
use super::directory;
use super::directory::Directory;
use super::drain::Drainers;
use super::filters;
use super::history::History;
use super::history::Kept;
use super::hop::NotedTasks;
use super::hop::Places;
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
use super::rings::LatestRing;
use super::rings::Rings;
use super::sample_filters::SampleFilters;
use super::sideband::Sideband;
use super::spread;
use super::squeeze::Squeezer;
use super::surroundings::Counting;
use super::surroundings::Surroundings;
use super::surroundings::Tracepoint;
use super::synth::IdEntry;
use super::tracepoints;
use super::triggers::Triggers;
use super::watch::Watched;
use super::who;
use super::who::Who;

/// An event as it stands in the file.
#[derive(Clone, Debug)]
pub(super) struct FileEvent {
    pub(super) name: String,
    pub(super) attr: Attr,
    pub(super) ids: Vec<u64>,
}

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
    let sample_filters = SampleFilters::load(&opened)?;
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

/// Lets the kernel count the runs of BPF programs, if that was asked for.
fn count_runs(config: &Config, notes: &mut Vec<Note>) -> Option<OwnedFd> {
    if config.runs == CountRuns::No {
        return None;
    }
    let counting = bpf_counters::count_runs();
    counting.map_err(|errno| notes.push(Note::NoRuns { why: errno.to_string() })).ok()
}

/// The tracepoints that are sampled, each once.
fn tracepoints_of(opened: &[Opened<EventFd>]) -> Vec<Tracepoint> {
    let mut tracepoints: Vec<Tracepoint> = Vec::new();
    let sampled = opened
        .iter()
        .filter(|it| it.role == Role::Sampling && it.attr.kind == events::KIND_TRACEPOINT);
    for event in sampled {
        let Some((_, fd)) = event.instances.first() else { continue };
        let name = event.tracepoint();
        if tracepoints.iter().any(|it| it.event == name) {
            continue;
        }
        if let Ok(fd) = fd.share() {
            tracepoints.push(Tracepoint { event: name, fd });
        }
    }
    tracepoints
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

/// A recording under way.
pub(super) struct Session<'a> {
    pub(super) config: &'a Config,
    /// Whoever is told what goes otherwise.
    pub(super) tell: &'a mut dyn FnMut(&Note),
    pub(super) signals: Signals,
    pub(super) opened: Arc<Vec<Opened<EventFd>>>,
    pub(super) rings: Vec<CpuRing>,
    /// The rings that BPF programs write into.
    pub(super) outputs: Outputs,
    /// The rings that keep the latest samples.
    pub(super) latest: Vec<LatestRing>,
    pub(super) events: Vec<FileEvent>,
    /// What came by in this file.
    pub(super) tally: Tally,
    /// What came by in the files before.
    pub(super) total: Tally,
    pub(super) gaps: BpfGaps,
    /// By event, the programs that were seen on recorded tracepoints.
    pub(super) tracepoints: BTreeMap<String, TracepointPrograms>,
    /// What kept the next file from being begun.
    pub(super) failed: Option<std::io::Error>,
    /// By id of an event, how much it had lost when it was asked last.
    pub(super) lost_before: BTreeMap<u64, u64>,
    pub(super) started: Instant,
    pub(super) facts: Vec<Feature>,
    pub(super) formats: Option<Vec<u8>>,
    pub(super) programs: Option<Programs>,
    pub(super) samples_kernel: bool,
    /// What came and is in no file yet.
    pub(super) kept: Kept,
    /// Whether it is to be said at the end of the file, too, which tasks run.
    pub(super) describes_end: bool,
    /// The number of the next message in private records.
    pub(super) next_message: u32,
    pub(super) surroundings: Option<Surroundings>,
    /// The threads that save programs while they live.
    pub(super) sideband: Option<Sideband>,
    /// Whether there are such threads, as far as it depends on us.
    pub(super) has_sideband: bool,
    /// As long as it is there the kernel counts the runs of BPF programs.
    pub(super) counting: Option<OwnedFd>,
    /// Whether the kernel counts runs, for us or for somebody else.
    pub(super) counts: Counting,
    /// What a pipe has been told of programs.
    pub(super) sent: Sent,
    /// How many features no record of a pipe has room for.
    pub(super) n_too_long: u64,
    pub(super) control: Option<Control>,
    pub(super) called: Called,
    /// Who drains the rings, where that is not done here.
    pub(super) drainers: Option<Drainers>,
    /// The threads that were named, and the processes.
    pub(super) threads: Vec<Tid>,
    pub(super) processes: Vec<Pid>,
    pub(super) request: Request,
    /// What begins the next file when it happens.
    pub(super) triggers: Triggers,
    /// The BPF objects whose programs are events.
    pub(super) objects: Objects,
    /// The program that measures time off the CPU, if that is recorded.
    pub(super) off_cpu: Option<Measure>,
    /// What their programs had counted at the end of a file.
    pub(super) values: Vec<ObjectValues>,
    /// The programs that filter samples.
    pub(super) sample_filters: SampleFilters,
    /// The files that are finished, if there are to be several.
    pub(super) finished: Option<Finished>,
}

impl Session<'_> {
    /// Begins to look at what BPF programs stand among.
    pub(super) fn survey(&mut self) {
        if self.config.bpf == FollowBpf::Yes && self.samples_kernel {
            self.surroundings = Surroundings::start(self.counts, tracepoints_of(&self.opened));
        }
    }

    /// Lets the runs of BPF programs be counted from here on.
    pub(super) fn begin_runs(&self) {
        if let Some(surroundings) = &self.surroundings {
            surroundings.begin();
        }
    }

    /// Lets the programs that are events run, as late as can be.
    fn attach(&mut self) -> Result<(), Error> {
        let mut notes = Vec::new();
        self.objects.attach(&self.opened, &mut notes)?;
        for note in &notes {
            (self.tell)(note);
        }
        Ok(())
    }

    fn enable(&mut self) -> Result<(), Error> {
        self.started = Instant::now();
        self.outputs.turn(Sampling::On, None);
        if let Some(off_cpu) = &mut self.off_cpu {
            off_cpu.turn(Sampling::On);
        }
        for event in self.opened.iter().filter(|it| rings::waits(it)) {
            for (_, fd) in &event.instances {
                fd.enable()?;
            }
        }
        Ok(())
    }

    fn read_formats(&mut self, notes: &mut Vec<Note>) {
        let is_tracepoint = |it: &&Opened<EventFd>| it.attr.kind == events::KIND_TRACEPOINT;
        let names = self.opened.iter().filter(is_tracepoint).map(Opened::tracepoint);
        let names: Vec<String> = names.collect();
        if names.is_empty() {
            return;
        }
        match Tracefs::default().formats(names.iter().map(String::as_str)) {
            Ok(formats) => self.formats = Some(tracepoints::encode_formats(&formats)),
            Err(error) => notes.push(Note::NoFormats { why: error.to_string() }),
        }
    }

    pub(super) fn begin(&mut self, output: &mut Output, head: &[u8]) {
        let early = match &mut self.kept {
            Kept::All(early) => std::mem::take(early),
            Kept::Latest(_) => Vec::new(),
        };
        if output.is_pipe() {
            let mut start = Vec::new();
            FileHeader::Pipe { endian: Endian::NATIVE }.encode(&mut start);
            let attr_size = self.layout().attr_size();
            describe::pipe_events(&self.events, attr_size, &mut start);
            let mut features = self.features(attr_size, None);
            let of_programs = self.programs.as_ref().map(|it| self.sent.news(it));
            features.extend(describe::packed(of_programs.unwrap_or_default()));
            self.put_features(&features, &mut start);
            if let Some(formats) = &self.formats {
                describe::pipe_formats(formats, &mut start);
            }
            output.append(&[IoSlice::new(&start)]);
        } else {
            output.begin_file(self.layout());
        }
        output.append(&[IoSlice::new(head), IoSlice::new(&early)]);
    }

    /// Adds features as a pipe has them to `out`.
    pub(super) fn put_features(&mut self, features: &[Feature], out: &mut Vec<u8>) {
        let too_long = describe::pipe_features(features, out);
        self.n_too_long += too_long.len() as u64;
        self.put_messages(too_long, out);
    }

    /// Adds private messages to `out`.
    pub(super) fn put_messages(&mut self, messages: Vec<Message>, out: &mut Vec<u8>) {
        for mut message in messages {
            if let (Message::Tracepoint(found), Some(programs)) = (&mut message, &self.programs) {
                describe::name_in_full(found, programs);
            }
            message.encode(self.next_message, out);
            self.next_message = self.next_message.wrapping_add(1);
        }
    }

    /// Writes what was found of programs beside the recording.
    pub(super) fn write_found(&mut self, output: &mut Output) {
        let found = self.surroundings.as_ref().map(Surroundings::take).unwrap_or_default();
        if !found.is_empty() {
            let mut bytes = Vec::new();
            self.put_messages(found, &mut bytes);
            output.append(&[IoSlice::new(&bytes)]);
        }
    }

    pub(super) fn layout(&self) -> Layout {
        Layout::new(self.events.iter().map(|it| (it.attr, it.ids.clone())).collect())
    }

    pub(super) fn features(&self, attr_size: u32, programs: Option<&Programs>) -> Vec<Feature> {
        describe::features(
            self.facts.clone(),
            &self.events,
            attr_size,
            self.formats.clone(),
            programs,
            &self.tally,
            self.config.compat,
        )
    }

    /// The layout of the trailers of synthesized records: a reader takes them for the first
    /// event's.
    pub(super) fn trailer(&self) -> SampleIdLayout {
        self.events.first().map(|it| SampleIdLayout::new(&it.attr)).unwrap_or_default()
    }

    /// Where fields lie in the records: the same for all events, by the plan.
    pub(super) fn places(&self) -> Places {
        let fields = self.events.first().map_or(SampleType::empty(), |it| it.attr.sample_type);
        let before = SampleType::IDENTIFIER | SampleType::IP | SampleType::TID;
        let n_before = (fields & before).bits().count_ones();
        let has_time = self.events.iter().all(|it| it.attr.sample_type.contains(SampleType::TIME));
        let time_at = has_time.then(|| 8 + usize::try_from(n_before).unwrap_or(0) * 8);
        // Of those records whose length is in question.
        let tracking = self.events.iter().find(|it| it.attr.flags.intersects(plan::OF_PROGRAMS));
        let trailer_len = tracking.map_or(0, |it| SampleIdLayout::new(&it.attr).trailer_len());
        let of_tasks = self.events.iter().find(|it| it.attr.flags.contains(AttrFlags::TASK));
        let tasks = match of_tasks.filter(|_| self.outputs.wants_tasks()) {
            None => NotedTasks::Nothing,
            Some(it) => {
                // The time stands behind the task, which is first.
                let len = SampleIdLayout::new(&it.attr).trailer_len();
                NotedTasks::News { time_from_end: len.saturating_sub(8) }
            }
        };
        Places { time_at, trailer_len, tasks }
    }

    pub(super) fn id_entries(&self) -> Vec<IdEntry> {
        let mut entries = Vec::new();
        for (event, known) in self.opened.iter().zip(&self.events) {
            for (n, ((target, _), &id)) in (0..).zip(event.instances.iter().zip(&known.ids)) {
                let tid = match *target {
                    perf_event::Target::TaskOnCpu(tid, _) | perf_event::Target::Task(tid) => {
                        Some(tid)
                    }
                    perf_event::Target::Cpu(_) => None,
                };
                let cpu = rings::cpu_of(*target);
                let ring_idx = cpu.map_or(n, |it| u64::from(it.0));
                entries.push(IdEntry { id, ring_idx, cpu, tid });
            }
        }
        entries
    }
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
