//! What is told of a recording under way, when somebody asks through `--control`.

use crate::events::Place;
use crate::perfdata::AttrFlags;
use crate::record::RecordedEvent;
use crate::record::Told;
use crate::render::header;

/// The lines about `events`, as perf has them.
///
/// Source: `evlist__ctlfd_list()` in `tools/perf/util/evlist.c`, `evsel__fprintf()` in
/// `tools/perf/util/evsel_fprintf.c`.
pub(super) fn lines(told: Told, events: &[RecordedEvent]) -> Vec<String> {
    match told {
        Told::Names => events.iter().map(|it| it.name.clone()).collect(),
        Told::Attributes => {
            let line =
                |it: &RecordedEvent| format!("{}: {}", it.name, header::attribute_list(&it.attr));
            events.iter().map(line).collect()
        }
        Told::Rates => events.iter().map(rate).collect(),
        Told::Groups => groups(events),
    }
}

fn rate(event: &RecordedEvent) -> String {
    let is_freq = event.attr.flags.contains(AttrFlags::FREQ);
    let what = if is_freq { "sample_freq" } else { "sample_period" };
    format!("{}: {what}={}", event.name, event.attr.sample_period)
}

fn groups(events: &[RecordedEvent]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut events = events.iter().peekable();
    while let Some(event) = events.next() {
        let Place::Leader { name, .. } = &event.place else {
            lines.push(event.name.clone());
            continue;
        };
        let mut line = format!("{}{{{}", name.as_deref().unwrap_or_default(), event.name);
        while let Some(member) = events.next_if(|it| it.place == Place::Member) {
            line.push(',');
            line.push_str(&member.name);
        }
        line.push('}');
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use crate::perfdata::Attr;

    use super::*;

    fn event(name: &str, place: Place, is_freq: bool) -> RecordedEvent {
        let flags = if is_freq { AttrFlags::FREQ } else { AttrFlags::empty() };
        let attr = Attr { kind: 1, sample_period: 99, size: 64, flags, ..Attr::default() };
        RecordedEvent { name: name.to_owned(), attr, place }
    }

    #[test]
    fn events_are_told_in_four_ways() {
        let leader = Place::Leader { name: None, is_weak: false };
        let events = [
            event("cpu-clock", leader, true),
            event("cs", Place::Member, false),
            event("faults", Place::Alone, false),
        ];
        assert_eq!(lines(Told::Names, &events), ["cpu-clock", "cs", "faults"]);
        assert_eq!(lines(Told::Groups, &events), ["{cpu-clock,cs}", "faults"]);
        let rates =
            ["cpu-clock: sample_freq=99", "cs: sample_period=99", "faults: sample_period=99"];
        assert_eq!(lines(Told::Rates, &events), rates);
        let full = "faults: type: 1 (PERF_TYPE_SOFTWARE), size: 64, config: 0 \
                    (PERF_COUNT_SW_CPU_CLOCK), { sample_period, sample_freq }: 99";
        assert_eq!(lines(Told::Attributes, &events)[2], full);
    }
}
