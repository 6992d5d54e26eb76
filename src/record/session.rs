//! A recording under way.

use super::BpfGaps;
use super::Error;
use super::called::Called;
use super::config::Config;
use super::config::Delay;
use super::config::FollowBpf;
use super::control::Control;
use super::control::Sampling;
use super::describe;
use super::describe::Sent;
use super::drain::Drainers;
use super::history::Kept;
use super::hop::NotedTasks;
use super::hop::Places;
use super::hop::Tally;
use super::note::Note;
use super::objects::Objects;
use super::off_cpu::Measure;
use super::open::Opened;
use super::output::Output;
use super::outputs::Outputs;
use super::parts::Finished;
use super::plan;
use super::plan::Request;
use super::plan::Role;
use super::rings;
use super::rings::CpuRing;
use super::rings::LatestRing;
use super::sample_filters::SampleFilters;
use super::saving::FileGaps;
use super::saving::Saving;
use super::sideband::Sideband;
use super::surroundings::Counting;
use super::surroundings::Surroundings;
use super::surroundings::Tracepoint;
use super::synth::IdEntry;
use super::tracepoints;
use super::triggers::Triggers;
use crate::bpf::Programs;
use crate::events;
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
use crate::sys::perf_event;
use crate::sys::perf_event::EventFd;
use crate::sys::signals::Signals;
use crate::units::Pid;
use crate::units::Tid;
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

/// An event as it stands in the file.
#[derive(Clone, Debug)]
pub(super) struct FileEvent {
    pub(super) name: String,
    pub(super) attr: Attr,
    pub(super) ids: Vec<u64>,
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
    /// The threads that save files while they can be had.
    pub(super) saving: Option<Saving>,
    /// What of them could not be saved.
    pub(super) file_gaps: FileGaps,
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
    pub(super) fn attach(&mut self) -> Result<(), Error> {
        let mut notes = Vec::new();
        self.objects.attach(&self.opened, None, &mut notes)?;
        for note in &notes {
            (self.tell)(note);
        }
        if self.config.delay != Delay::None {
            // What cannot be attached is known now; they run when there is sampling.
            self.objects.detach(&self.opened, None);
        }
        Ok(())
    }

    pub(super) fn enable(&mut self) -> Result<(), Error> {
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

    pub(super) fn read_formats(&mut self, notes: &mut Vec<Note>) {
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
        let (apart, n_too_long) = describe::pipe_features(features, out);
        self.n_too_long += n_too_long;
        self.put_messages(apart, out);
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
