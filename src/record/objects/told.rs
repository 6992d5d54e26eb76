//! What a recording tells of its objects: programs, what they write, what they have counted.

use std::os::fd::AsFd as _;

use crate::bpf::objects::OutputKind;
use crate::bpf::objects::program_id;
use crate::events::OfObject;
use crate::events::object::Hook;
use crate::perfdata::private::BpfObject;
use crate::perfdata::private::Message;
use crate::perfdata::private::ObjectOutput;
use crate::perfdata::private::ObjectProgram;
use crate::perfdata::private::ObjectValues;
use crate::perfdata::private::digits;
use crate::record::open::Opened;
use crate::record::surroundings::boot_ns;
use crate::sys::perf_event::EventFd;

use super::Loaded;
use super::Objects;
use super::is_one;

impl Objects {
    /// What there is to know of each object from the start on.
    pub(in crate::record) fn messages(&self, opened: &[Opened<EventFd>]) -> Vec<Message> {
        let of = |loaded| move |it: &&Opened<EventFd>| part_of(it, loaded).is_some();
        let numbered = (0..).zip(&self.loaded);
        let told = numbered.map(|(number, loaded)| {
            let events: Vec<_> = opened.iter().filter(of(loaded)).collect();
            let (outputs, btf) = outputs(loaded, &events);
            Message::Object(BpfObject {
                path: loaded.by.path.clone(),
                number,
                programs: events.iter().filter_map(|it| program(loaded, it)).collect(),
                outputs,
                btf,
            })
        });
        told.collect()
    }

    /// What the programs of each object have counted by now.
    pub(in crate::record) fn values(&self) -> Vec<ObjectValues> {
        let numbered = (0..).zip(&self.loaded);
        let told = numbered.map(|(number, loaded)| ObjectValues {
            path: loaded.by.path.clone(),
            number,
            boot_ns: boot_ns(),
            variables: loaded.object.variables(),
            maps: loaded.object.map_values(),
        });
        told.collect()
    }
}

/// What of `loaded` the event is.
fn part_of<'a>(event: &'a Opened<EventFd>, loaded: &Loaded) -> Option<&'a OfObject> {
    event.object.as_ref().filter(|it| is_one(it, &loaded.by))
}

fn program(loaded: &Loaded, event: &Opened<EventFd>) -> Option<ObjectProgram> {
    let section = part_of(event, loaded)?.program.as_ref()?;
    let can_drop = loaded.object.can_drop(&event.name);
    let is_shared = can_drop && section.hook() == Hook::Tracepoint;
    let id = loaded.object.program(&event.name).and_then(|it| program_id(it.as_fd()));
    Some(ObjectProgram {
        name: event.name.clone(),
        section: section.to_string(),
        id: id.unwrap_or(0),
        decides_for_all: is_shared.then(|| event.tracepoint()),
        can_drop,
    })
}

/// The events that programs write into, and their types.
fn outputs(loaded: &Loaded, events: &[&Opened<EventFd>]) -> (Vec<ObjectOutput>, String) {
    let (mut outputs, mut types) = (Vec::new(), Vec::new());
    for event in events {
        let Some(map) = part_of(event, loaded).and_then(|it| it.output.as_ref()) else { continue };
        let kind = loaded.object.outputs().iter().find(|it| it.map == *map).map(|it| it.kind);
        let kind = match kind {
            Some(OutputKind::PerfEventArray) => "perf_event_array",
            Some(OutputKind::RingBuf) => "ringbuf",
            None => continue,
        };
        let of_event = loaded.object.types_of(map, &event.name);
        let (event, map, kind) = (event.name.clone(), map.clone(), kind.to_owned());
        outputs.push(ObjectOutput { event, map, kind, types: Vec::new() });
        types.push(of_event);
    }
    let all = types.concat();
    let Some(btf) = loaded.object.btf().filter(|_| !all.is_empty()) else {
        return (outputs, String::new());
    };
    let (part, ids) = btf.part(&all);
    let mut ids = ids.into_iter();
    for (output, types) in outputs.iter_mut().zip(types) {
        output.types = ids.by_ref().take(types.len()).collect();
    }
    (outputs, digits(&part))
}
