//! The events of BPF objects that programs write into.

use crate::events::Event;
use crate::events::OfObject;
use crate::events::Place;
use crate::events::object::Hook;
use crate::events::object::Section;
use crate::perfdata::SampleType;
use crate::record::plan::Request;

use super::OutputEvent;
use super::Sieve;
use super::Through;

/// Takes the events out of those of `request` that BPF programs write into, and puts them among its
/// outputs; `through` says how the samples of an object's part come.
///
/// A program that no event has is among them: what it samples it writes, if it does.
pub(in crate::record) fn take_events(
    request: &mut Request,
    through: impl Fn(&OfObject) -> Option<Through>,
) {
    let all = std::mem::take(&mut request.events);
    let written;
    (written, request.events) = parted(all);
    for event in written {
        let through = event.object.as_ref().and_then(&through).unwrap_or(Through::Nothing);
        let output = output(event, through, request);
        request.outputs.push(output);
    }
}

/// The events that BPF programs write into, and the others. Where such a one leads a group, the next of
/// the group does in its stead.
fn parted(all: Vec<Event>) -> (Vec<Event>, Vec<Event>) {
    let (mut written, mut others) = (Vec::new(), Vec::new());
    let mut vacant = None;
    for mut event in all {
        if event.place != Place::Member {
            vacant = None;
        }
        if event.object.as_ref().is_some_and(is_written) {
            if event.place != Place::Member {
                vacant = Some(event.place.clone());
            }
            written.push(event);
        } else {
            if let Some(place) = vacant.take() {
                event.place = place;
            }
            others.push(event);
        }
    }
    (written, others)
}

/// Whether what this is of an object has no samples but what programs write.
fn is_written(of: &OfObject) -> bool {
    of.output.is_some() || of.program.as_ref().map(Section::hook) == Some(Hook::Link)
}

fn output(event: Event, through: Through, request: &Request) -> OutputEvent {
    let Event { name, terms, cgroup, object, .. } = event;
    let of_all = terms.call_chains.map_or(request.contents.max_stack, |_| 0);
    OutputEvent {
        name,
        call_graph: terms.call_chains.unwrap_or(request.call_graph),
        max_stack: terms.max_stack.unwrap_or(of_all),
        fields: SampleType::empty(),
        cgroup,
        through,
        sieve: Sieve::OfTarget,
        object,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Precision;
    use crate::events::object::Bytes;
    use crate::perfdata::Attr;

    #[test]
    fn the_next_of_a_group_leads_where_its_leader_is_written() {
        let lead = || Place::Leader { name: Some("g".to_owned()), is_weak: false };
        let of = || OfObject {
            path: String::new(),
            bytes: Bytes::default(),
            settings: Vec::new(),
            programs: Vec::new(),
            program: None,
            output: Some("map".to_owned()),
        };
        let event = |name: &str, place, is_written: bool| Event {
            place,
            object: is_written.then(of),
            ..Event::new(name, Attr::default(), Precision::Exact)
        };
        let (written, others) = parted(vec![
            event("a", lead(), true),
            event("b", Place::Member, true),
            event("c", Place::Member, false),
            event("d", Place::Member, false),
            event("e", lead(), true),
            event("f", Place::Alone, false),
            event("g", lead(), false),
            event("h", Place::Member, true),
            event("i", Place::Member, false),
        ]);
        let names: Vec<&str> = written.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["a", "b", "e", "h"]);
        let places: Vec<_> = others.into_iter().map(|it| (it.name, it.place)).collect();
        let want = [
            ("c", lead()),
            ("d", Place::Member),
            ("f", Place::Alone),
            ("g", lead()),
            ("i", Place::Member),
        ];
        assert_eq!(places, want.map(|it| (it.0.to_owned(), it.1)));
    }
}
