//! The events of BPF objects that programs write into.

use crate::events::Event;
use crate::events::OfObject;
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
    for event in all {
        let of = event.object.as_ref();
        let is_linked =
            of.and_then(|it| it.program.as_ref()).map(Section::hook) == Some(Hook::Link);
        match of.filter(|it| it.output.is_some() || is_linked) {
            Some(of) => {
                let through = through(of).unwrap_or(Through::Nothing);
                let output = output(event, through, request);
                request.outputs.push(output);
            }
            None => request.events.push(event),
        }
    }
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
