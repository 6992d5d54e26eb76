//! The BPF object files whose programs are events: what they have, for the event parser, and their
//! programs in the kernel, for a recording.

mod told;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::os::fd::OwnedFd;
use std::path::Path;

use nix::errno::Errno;

use crate::bpf::knows_all_ids;
use crate::bpf::objects;
use crate::bpf::objects::Object;
use crate::bpf::objects::OutputKind;
use crate::bpf::objects::program_id;
use crate::bpf::source;
use crate::events;
use crate::events::Event;
use crate::events::OfObject;
use crate::events::object::Bytes;
use crate::events::object::Contents;
use crate::events::object::Hook;
use crate::events::object::Section;
use crate::host::files;
use crate::perfdata::Attr;
use crate::perfdata::AttrFlags;
use crate::sys::Refused;
use crate::sys::bpf;
use crate::sys::message_ring::MessageRing;
use crate::sys::perf_event::EventFd;
use crate::sys::perf_event::Target;
use crate::units::Tid;

use super::Error;
use super::note::Note;
use super::open::Opened;
use super::outputs::Form;
use super::outputs::Outputs;
use super::outputs::Through;
use super::plan::Role;
use super::rings;

/// Who looks into object files, and makes those of which there is the source.
#[derive(Debug, Default)]
pub struct ObjectFiles {
    options: source::Options,
    /// What was found in each file.
    known: RefCell<Vec<(String, Contents)>>,
    said: RefCell<String>,
}

impl ObjectFiles {
    /// With sources compiled as `options` say.
    pub fn new(options: source::Options) -> Self {
        Self { options, ..Self::default() }
    }

    /// What the compiler has said of sources since this was asked last, line by line.
    pub fn said(&self) -> String {
        self.said.take()
    }

    fn bytes(&self, path: &str) -> Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>> {
        let file = Path::new(path);
        if file.extension().is_none_or(|it| it != "c") {
            return Ok(read(file).map_err(objects::Error::Read)?);
        }
        let compiled = source::compile(file, &self.options);
        let messages = match &compiled {
            Ok(compiled) => &compiled.messages,
            Err(source::Error::Compile { messages, .. }) => messages,
            Err(_) => "",
        };
        self.said.borrow_mut().push_str(messages);
        Ok(compiled?.object)
    }
}

/// The longest object file, in bytes.
const LONGEST: u64 = 256 << 20;

/// What is in the file, which may have no end.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|it| it <= LONGEST) {
        Ok(bytes)
    } else {
        Err(io::ErrorKind::FileTooLarge.into())
    }
}

impl events::Objects for ObjectFiles {
    fn contents(&self, path: &str) -> Result<Contents, Box<dyn std::error::Error + Send + Sync>> {
        if let Some((_, known)) = self.known.borrow().iter().find(|it| it.0 == path) {
            return Ok(known.clone());
        }
        let bytes = self.bytes(path)?;
        let objects::Contents { programs, outputs } = objects::contents(&bytes)?;
        let contents = Contents { bytes: Bytes(bytes.into()), programs, outputs };
        self.known.borrow_mut().push((path.to_owned(), contents.clone()));
        Ok(contents)
    }

    fn find(&self, name: &str) -> String {
        files::find_binary(name).unwrap_or_else(|| name.to_owned())
    }
}

/// The objects of a recording, whose programs are in the kernel as long as this is there.
#[derive(Debug, Default)]
pub(super) struct Objects {
    loaded: Vec<Loaded>,
    /// By event, what holds its program where it runs, as long as it is here.
    held: BTreeMap<usize, Vec<Hold>>,
    /// The events whose programs stay until the events are closed.
    stay: BTreeSet<usize>,
    /// By event, how many dropped samples are told already.
    n_told: BTreeMap<usize, u64>,
}

/// What holds a program.
#[derive(Debug)]
#[expect(dead_code, reason = "they hold it by being open")]
enum Hold {
    /// An event of its tracepoint.
    Anchor(EventFd),
    /// A link to an event.
    Link(OwnedFd),
}

#[derive(Debug)]
struct Loaded {
    /// What it was loaded for, less what differs from event to event.
    by: OfObject,
    object: Object,
}

/// What a program of ours did to the samples of its event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The event, which has the program's name.
    pub event: String,
    /// The program's id.
    pub id: u32,
    /// The tracepoint whose samples it takes away from every recorder, if it sits on one.
    pub tracepoint: Option<String>,
    /// Whether it may take any away.
    pub can_drop: bool,
    /// How many it took away, if that was counted.
    pub n_dropped: Option<u64>,
}

/// Whether events of `a` and `b` are of one object: the same file, set up alike.
fn is_one(a: &OfObject, b: &OfObject) -> bool {
    (&a.path, &a.settings, &a.programs) == (&b.path, &b.settings, &b.programs)
}

impl Objects {
    /// Loads the objects of `events`, each once.
    pub(super) fn load(events: &mut Vec<Event>) -> Result<Self, Error> {
        events::object::join(events);
        let mut loaded: Vec<Loaded> = Vec::new();
        for of in events.iter().filter_map(|it| it.object.as_ref()) {
            if loaded.iter().any(|it| is_one(&it.by, of)) {
                continue;
            }
            let object = Object::load(Path::new(&of.path), &of.bytes.0, &of.programs, &of.settings);
            let object =
                object.map_err(|source| Error::Object { path: of.path.clone(), source })?;
            tracing::debug!(path = of.path, programs = ?of.programs, "loaded");
            loaded.push(Loaded { by: of.clone(), object });
        }
        Ok(Self { loaded, ..Self::default() })
    }

    fn find(&self, of: &OfObject) -> Option<&Object> {
        self.loaded.iter().find(|it| is_one(&it.by, of)).map(|it| &it.object)
    }

    /// How the samples of a part of an object come; `None` if its programs write none there.
    pub(super) fn through(&self, of: &OfObject) -> Option<Through> {
        let map = of.output.as_ref()?;
        let outputs = self.find(of)?.outputs();
        let output = outputs.iter().find(|it| it.map == *map)?;
        Some(match output.kind {
            OutputKind::PerfEventArray => Through::Events,
            OutputKind::RingBuf => Through::Messages,
        })
    }

    /// Lets programs write into the events that are open for it, and `outputs` read the messages that
    /// they write; times are on the clock of this number.
    pub(super) fn wire(
        &self,
        opened: &[Opened<EventFd>],
        outputs: &mut Outputs,
        clock: i32,
    ) -> Result<(), Error> {
        let written = opened.iter().filter(|it| it.role == Role::Output);
        for (post, event) in written.enumerate() {
            let Some(of) = &event.object else { continue };
            let (Some(object), Some(map)) = (self.find(of), &of.output) else { continue };
            match self.through(of) {
                Some(Through::Events) => {
                    for (target, fd) in &event.instances {
                        let Some(cpu) = rings::cpu_of(*target) else { continue };
                        object.wire(map, cpu, fd).map_err(|source| Error::Wire {
                            map: map.clone(),
                            cpu,
                            source: Box::new(source),
                        })?;
                    }
                }
                Some(Through::Messages) => {
                    let Some((fd, len)) = object.message_ring(map) else { continue };
                    let Some((_, first)) = event.instances.first() else { continue };
                    let ring = MessageRing::map(fd, usize::try_from(len).unwrap_or(0))?;
                    let form = Form { fields: event.attr.sample_type, id: first.id()? };
                    outputs.add_messages(post, ring, form, clock);
                }
                Some(Through::Nothing) | None => {}
            }
        }
        Ok(())
    }

    /// Gives each event its program, and attaches those that no event has.
    pub(super) fn attach(
        &mut self,
        opened: &[Opened<EventFd>],
        name: Option<&str>,
        notes: &mut Vec<Note>,
    ) -> Result<(), Error> {
        for (at, event) in opened.iter().enumerate() {
            let is_there = self.held.contains_key(&at) || self.stay.contains(&at);
            if is_there || name.is_some_and(|it| it != event.name) {
                continue;
            }
            let Some((of, section)) =
                event.object.as_ref().and_then(|of| Some((of, of.program.as_ref()?)))
            else {
                continue;
            };
            let failed = |source| Error::Object { path: of.path.clone(), source };
            if section.hook() == Hook::Link {
                let found = self.loaded.iter_mut().find(|it| is_one(&it.by, of));
                let attached = found.map_or(Ok(()), |it| it.object.attach(&event.name));
                attached.map_err(failed)?;
                continue;
            }
            let program = self.find(of).and_then(|it| it.program(&event.name));
            let Some(program) = program else { continue };
            let anchor =
                if section.hook() == Hook::Tracepoint { Some(anchor(&event.attr)?) } else { None };
            let instances = event.instances.iter().map(|(_, fd)| fd);
            let holders: Vec<&EventFd> = match &anchor {
                Some(anchor) => vec![anchor],
                None => instances.collect(),
            };
            if matches!(section, Section::Probe { .. }) {
                let is_gated = self.find(of).is_some_and(|it| it.is_gated(&event.name));
                let cookie = |target| if is_gated { cookie(target) } else { 0 };
                let links = event
                    .instances
                    .iter()
                    .map(|(target, fd)| bpf::attach(program.as_fd(), fd, cookie(*target)));
                let links: Result<Vec<OwnedFd>, _> = links.collect();
                match links {
                    Ok(links) => {
                        self.held.insert(at, links.into_iter().map(Hold::Link).collect());
                        let n_tasks = tasks(event).len();
                        let n_instances = event.instances.len();
                        let is_open = !is_gated && 1 < n_instances;
                        if is_open || (1 < n_tasks && !knows_all_ids()) {
                            notes.push(Note::RunsManyTimes { program: event.name.clone() });
                        }
                        continue;
                    }
                    Err(errno) => tracing::debug!(%errno, event = %event.name, "no link"),
                }
            }
            if matches!(section, Section::Probe { .. }) && 1 < event.instances.len() {
                notes.push(Note::RunsManyTimes { program: event.name.clone() });
            }
            for fd in holders {
                match fd.set_program(program.as_fd()) {
                    Ok(()) => {}
                    // Where events share a list of programs, it is there already.
                    Err(Refused { errno: Errno::EEXIST, .. }) if *section != Section::PerfEvent => {
                    }
                    Err(Refused { errno, .. }) => {
                        let log = objects::Log { lines: vec![refusal(errno)] };
                        let program = event.name.clone();
                        let section = section.to_string();
                        return Err(failed(objects::Error::Attach { program, section, log }));
                    }
                }
            }
            match anchor {
                Some(anchor) => drop(self.held.insert(at, vec![Hold::Anchor(anchor)])),
                None => drop(self.stay.insert(at)),
            }
            let can_drop = self.find(of).is_some_and(|it| it.can_drop(&event.name));
            if can_drop && section.hook() == Hook::Tracepoint {
                let (program, tracepoint) = (event.name.clone(), event.tracepoint());
                notes.push(Note::DecidesForAll { program, tracepoint });
            }
        }
        Ok(())
    }

    /// How many samples the program of `event` dropped; `None` if nobody counted, or it ran more
    /// often than there were hits.
    fn n_dropped(&self, of: &OfObject, event: &Opened<EventFd>) -> Option<u64> {
        let object = self.find(of)?;
        let is_probe = matches!(of.program, Some(Section::Probe { .. }));
        let is_many = is_probe && !object.is_gated(&event.name) && 1 < event.instances.len();
        if is_many { None } else { object.n_dropped(&event.name) }
    }

    /// What the programs did to the samples of their events.
    pub(super) fn verdicts(&self, opened: &[Opened<EventFd>]) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for event in opened {
            let Some(of) = &event.object else { continue };
            let (Some(object), Some(section)) = (self.find(of), &of.program) else { continue };
            if section.hook() == Hook::Link {
                continue;
            }
            let is_shared = section.hook() == Hook::Tracepoint;
            let id = object.program(&event.name).and_then(|it| program_id(it.as_fd()));
            verdicts.push(Verdict {
                event: event.name.clone(),
                id: id.unwrap_or(0),
                tracepoint: is_shared.then(|| event.tracepoint()),
                can_drop: object.can_drop(&event.name),
                n_dropped: self.n_dropped(of, event),
            });
        }
        verdicts
    }

    /// How many samples of which event its own program dropped since this was asked last; what a
    /// tracepoint's takes away, it takes from every recorder, and not from this event.
    pub(super) fn take_dropped(&mut self, opened: &[Opened<EventFd>]) -> Vec<(usize, u64)> {
        let mut dropped = Vec::new();
        for (at, event) in opened.iter().enumerate() {
            let Some(of) = &event.object else { continue };
            if of.program.as_ref().map(Section::hook) != Some(Hook::Event) {
                continue;
            }
            let n_dropped = self.n_dropped(of, event).unwrap_or(0);
            let n_told = self.n_told.insert(at, n_dropped).unwrap_or(0);
            dropped.push((at, n_dropped.saturating_sub(n_told)));
        }
        dropped
    }

    /// Lets no program run any more but those of events of ours alone, which end with these.
    pub(super) fn detach(&mut self, opened: &[Opened<EventFd>], name: Option<&str>) {
        let is_meant = |it: &Opened<EventFd>| name.is_none_or(|name| it.name == name);
        for (at, event) in opened.iter().enumerate().filter(|it| is_meant(it.1)) {
            self.held.remove(&at);
            let found = event
                .object
                .as_ref()
                .and_then(|of| self.loaded.iter_mut().find(|it| is_one(&it.by, of)));
            if let Some(found) = found {
                found.object.detach(&event.name);
            }
        }
    }
}

/// What tells a program which of the events it runs for: that of this `target`.
fn cookie(target: Target) -> u64 {
    // Where programs know tasks by other numbers, none would be the one.
    let task = target.task().filter(|_| knows_all_ids());
    objects::cookie(rings::cpu_of(target), task)
}

/// The tasks that an event is of.
fn tasks(event: &Opened<EventFd>) -> BTreeSet<Tid> {
    event.instances.iter().filter_map(|(target, _)| target.task()).collect()
}

/// An event of the tracepoint that `attr` samples, which holds a program and samples nothing.
///
/// A program on a tracepoint runs for every event of it, whichever holds it. The events that
/// sample do not: when a task exits, those that it inherited go, and with the first of them
/// the program, since they count as holders, too (`perf_event_alloc()` and
/// `perf_event_detach_bpf_prog()`).
fn anchor(attr: &Attr) -> Result<EventFd, Error> {
    let attr = Attr {
        kind: attr.kind,
        config: attr.config,
        flags: AttrFlags::DISABLED,
        ..Attr::default()
    };
    let mut bytes = Vec::new();
    attr.encode(attr.needed_size(), &mut bytes);
    // Of this thread alone, so that it needs no CPU to stay online.
    let opened = EventFd::open(&bytes, Target::Task(Tid(0)));
    opened.map_err(|errno| Refused::new("hold a program on a tracepoint", errno).into())
}

/// What the kernel means by it.
///
/// Source: `perf_event_set_bpf_prog()` and `perf_event_set_bpf_handler()` in
/// `kernel/events/core.c`.
fn refusal(errno: Errno) -> String {
    match errno {
        Errno::EACCES => "it reads more than this tracepoint has".to_owned(),
        Errno::EPROTO => "it walks the stack of precise samples, which takes `-g`".to_owned(),
        errno => format!("{errno}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_end_is_refused() {
        let error = read(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }
}
