//! Which fields of a sample are printed.

use bitflags::bitflags;

use crate::perfdata::Attr;
use crate::perfdata::SampleType;

bitflags! {
    /// The fields of a printed sample.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Fields: u32 {
        /// The command name.
        const COMM = 1 << 0;
        /// The thread.
        const TID = 1 << 1;
        /// The process.
        const PID = 1 << 2;
        /// The time.
        const TIME = 1 << 3;
        /// The CPU.
        const CPU = 1 << 4;
        /// The event's name.
        const EVENT = 1 << 5;
        /// The address, or the call chain.
        const IP = 1 << 6;
        /// The symbol.
        const SYM = 1 << 7;
        /// How far into the symbol.
        const SYMOFF = 1 << 8;
        /// The module.
        const DSO = 1 << 9;
        /// The period.
        const PERIOD = 1 << 10;
        /// What a tracepoint noted.
        const TRACE = 1 << 11;
        /// What a BPF program wrote.
        const BPF_OUTPUT = 1 << 12;
        /// The line of source.
        const SRCLINE = 1 << 13;
    }
}

/// `PERF_TYPE_TRACEPOINT`.
const TRACEPOINT: u32 = 2;

/// `PERF_TYPE_SOFTWARE`.
const SOFTWARE: u32 = 1;

/// An event that is shown.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its attribute.
    pub attr: &'a Attr,
    /// What its samples are.
    pub kind: Kind,
}

/// What the samples of an event are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What the event's type says.
    Usual,
    /// Values that a BPF program wrote, of a type that is known.
    Written,
}

/// Names as they are typed, in the order in which errors list them.
const NAMES: [(&str, Fields); 15] = [
    ("comm", Fields::COMM),
    ("tid", Fields::TID),
    ("pid", Fields::PID),
    ("time", Fields::TIME),
    ("cpu", Fields::CPU),
    ("event", Fields::EVENT),
    ("trace", Fields::TRACE),
    ("ip", Fields::IP),
    ("sym", Fields::SYM),
    ("symbol", Fields::SYM),
    ("symoff", Fields::SYMOFF),
    ("dso", Fields::DSO),
    ("srcline", Fields::SRCLINE),
    ("period", Fields::PERIOD),
    ("bpf-output", Fields::BPF_OUTPUT),
];

/// What was asked for: fields by themselves, or changes to what is printed by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// The defaults of each event.
    Default,
    /// These and no others.
    Only(Fields),
    /// The defaults of each event, changed.
    Changed {
        /// Printed too.
        plus: Fields,
        /// Not printed.
        minus: Fields,
    },
}

/// A list that does not say which fields to print.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownField {
    /// A name is no field.
    #[error("`{name}` is no field")]
    NoField {
        /// The name.
        name: String,
    },
    /// Some names have a sign and some have none.
    #[error("`{list}` mixes fields with changes to the default ones")]
    Mixed {
        /// The list.
        list: String,
    },
}

impl Selection {
    /// What a list such as `comm,tid,ip`, or `+pid,-dso`, selects.
    ///
    /// # Errors
    ///
    /// The first name that is no field, or the list if it is of both kinds.
    pub fn parse(list: &str) -> Result<Self, UnknownField> {
        let (mut only, mut plus, mut minus) = (Fields::empty(), Fields::empty(), Fields::empty());
        for name in list.split(',').filter(|it| !it.is_empty()) {
            if let Some(name) = name.strip_prefix('+') {
                plus |= Fields::named(name)?;
            } else if let Some(name) = name.strip_prefix('-') {
                minus |= Fields::named(name)?;
            } else {
                only |= Fields::named(name)?;
            }
        }
        match (only.is_empty(), (plus | minus).is_empty()) {
            (_, true) => Ok(Self::Only(only)),
            (true, false) => Ok(Self::Changed { plus, minus }),
            (false, false) => Err(UnknownField::Mixed { list: list.to_owned() }),
        }
    }

    /// The fields that it selects of the samples of each event.
    ///
    /// As in perf, the first event of a type decides for all of that type: where a later one's
    /// samples lack a field, its place is kept. Dummies, which have no samples, decide nothing.
    ///
    /// # Errors
    ///
    /// The first that was asked for and that the samples do not carry.
    pub fn of_events(self, events: &[Shown<'_>]) -> Result<Vec<Fields>, MissingField> {
        let decides = |attr: &Attr| (attr.kind, attr.config) != DUMMY;
        let of_type = |kind: u32| {
            let is_first = |it: &&Shown<'_>| it.output_type() == kind && decides(it.attr);
            match events.iter().find(is_first) {
                Some(event) => self.of_event(*event),
                None => {
                    let sample_type = SampleType::all() - SampleType::CALLCHAIN;
                    let attr = &Attr { kind, sample_type, ..Attr::default() };
                    self.of_event(Shown { name: "dummy", attr, kind: Kind::Usual })
                }
            }
        };
        events.iter().map(|it| of_type(it.output_type())).collect()
    }

    fn of_event(self, shown: Shown<'_>) -> Result<Fields, MissingField> {
        let Shown { name: event, attr, kind } = shown;
        let (asked, fields) = match self {
            Self::Default => (Fields::empty(), Fields::of_event(attr, kind)),
            Self::Only(fields) => (fields, fields),
            Self::Changed { plus, minus } => (plus, (Fields::base(attr, kind) | plus) - minus),
        };
        asked.check(event, attr)?;
        if asked.contains(Fields::SRCLINE) && !fields.contains(Fields::IP) {
            return Err(MissingField::Address);
        }
        let noted = if attr.kind == TRACEPOINT { Fields::empty() } else { Fields::TRACE };
        Ok(fields - noted)
    }
}

impl Shown<'_> {
    /// The type of event: those that perf tells apart here, which the kernel has a number for, all
    /// PMUs as one, and what BPF programs wrote.
    fn output_type(&self) -> u32 {
        match self.kind {
            Kind::Usual => self.attr.kind.min(PMU),
            Kind::Written => WRITTEN,
        }
    }
}

/// `PERF_TYPE_SOFTWARE` and `PERF_COUNT_SW_DUMMY`.
const DUMMY: (u32, u64) = (1, 9);

/// `PERF_TYPE_MAX`: the first number of a PMU.
const PMU: u32 = 6;

/// What is none of these.
const WRITTEN: u32 = PMU + 1;

/// A field was asked for that cannot be printed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MissingField {
    /// The samples do not carry it.
    #[error("samples of `{event}` carry no `{field}`")]
    OfSamples {
        /// The event.
        event: String,
        /// The field.
        field: &'static str,
    },
    /// Lines stand with the addresses that they are of, and these were not asked for.
    #[error("`srcline` is the line of an `ip`, which is not among the fields")]
    Address,
}

impl Fields {
    /// Where it was, and how that is called.
    const PLACE: Self = Self::IP.union(Self::SYM).union(Self::SYMOFF).union(Self::DSO);

    /// What is printed of an event with `attr` if nothing is asked for: perf's defaults, less what
    /// the samples do not carry.
    ///
    /// Values that a BPF program wrote are shown as what a tracepoint noted is.
    pub fn of_event(attr: &Attr, kind: Kind) -> Self {
        let has_chain = attr.sample_type.contains(SampleType::CALLCHAIN);
        let base = Self::base(attr, kind);
        let is_noted = attr.kind == TRACEPOINT || kind == Kind::Written;
        if is_noted && has_chain { base | (Self::PLACE - Self::missing(attr)) } else { base }
    }

    /// The defaults that changes start from. As in perf, call chains are no part of those of
    /// tracepoints once there is a change.
    fn base(attr: &Attr, kind: Kind) -> Self {
        let always = Self::COMM | Self::TID | Self::CPU | Self::TIME | Self::EVENT;
        let wanted = match attr.kind {
            _ if kind == Kind::Written => always | Self::BPF_OUTPUT,
            TRACEPOINT => always | Self::TRACE,
            SOFTWARE => always | Self::PLACE | Self::PERIOD | Self::BPF_OUTPUT,
            _ => always | Self::PLACE | Self::PERIOD,
        };
        wanted - Self::missing(attr)
    }

    /// The field of a name such as `comm`.
    ///
    /// # Errors
    ///
    /// The name, if it is no field.
    fn named(name: &str) -> Result<Self, UnknownField> {
        let known = NAMES.iter().find(|(known, _)| *known == name);
        known
            .map(|(_, field)| *field)
            .ok_or_else(|| UnknownField::NoField { name: name.to_owned() })
    }

    /// The names of all fields.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, _)| *name).filter(|it| *it != "symbol")
    }

    /// Checks that samples of `event` carry all of these; a period comes from the event itself.
    ///
    /// # Errors
    ///
    /// The first that they do not carry.
    fn check(self, event: &str, attr: &Attr) -> Result<(), MissingField> {
        let missing = Self::missing(attr) & self;
        match NAMES.iter().find(|(_, field)| missing.contains(*field)) {
            Some((field, _)) => Err(MissingField::OfSamples { event: event.to_owned(), field }),
            None => Ok(()),
        }
    }

    /// What samples of an event with `attr` do not carry.
    fn missing(attr: &Attr) -> Self {
        let needs = [
            (Self::TID | Self::PID, SampleType::TID),
            (Self::TIME, SampleType::TIME),
            (Self::CPU, SampleType::CPU),
            (Self::PLACE | Self::SRCLINE, SampleType::IP),
            // Other events than tracepoints do not lack it: it is none of theirs.
            (
                Self::TRACE,
                if attr.kind == TRACEPOINT { SampleType::RAW } else { SampleType::empty() },
            ),
        ];
        needs
            .iter()
            .filter(|(_, needed)| !attr.sample_type.contains(*needed))
            .fold(Self::empty(), |missing, (fields, _)| missing | *fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown<'a>(name: &'a str, attr: &'a Attr) -> Shown<'a> {
        Shown { name, attr, kind: Kind::Usual }
    }

    fn attr(sample_type: SampleType) -> Attr {
        Attr { kind: 1, sample_type, ..Attr::default() }
    }

    #[test]
    fn defaults_leave_out_what_samples_do_not_carry() {
        let attr = attr(SampleType::IP | SampleType::TID | SampleType::TIME | SampleType::PERIOD);
        let fields = Fields::of_event(&attr, Kind::Usual);
        assert!(!fields.contains(Fields::CPU));
        assert!(fields.contains(Fields::SYMOFF | Fields::PERIOD | Fields::COMM));
        assert!(!fields.contains(Fields::PID));
    }

    #[test]
    fn what_is_asked_for_must_be_there() {
        let attr = attr(SampleType::IP | SampleType::TID);
        for list in ["comm,tid,time,ip", "+time"] {
            let selection = Selection::parse(list).unwrap();
            let error = selection.of_event(shown("cpu-clock", &attr)).unwrap_err();
            assert_eq!(error.to_string(), "samples of `cpu-clock` carry no `time`");
        }
        assert_eq!(Selection::parse("comm,tix").unwrap_err().to_string(), "`tix` is no field");
    }

    #[test]
    fn lines_are_refused_without_the_addresses_that_they_are_of() {
        let attr = attr(SampleType::IP | SampleType::TID);
        let of = |list: &str| Selection::parse(list).unwrap().of_event(shown("cpu-clock", &attr));
        for list in ["srcline", "comm,sym,srcline", "+srcline,-ip"] {
            assert_eq!(of(list), Err(MissingField::Address), "{list}");
        }
        assert!(of("ip,srcline").is_ok() && of("+srcline").is_ok());
    }

    #[test]
    fn a_tracepoint_prints_what_it_noted() {
        let carried = SampleType::IP | SampleType::TID | SampleType::RAW;
        let attr = Attr { kind: TRACEPOINT, ..attr(carried) };
        let fields = |list: &str, attr: &Attr| {
            Selection::parse(list).unwrap().of_event(shown("sched:sched_switch", attr))
        };
        let always = Fields::COMM | Fields::TID | Fields::EVENT;
        assert_eq!(Fields::of_event(&attr, Kind::Usual), always | Fields::TRACE);
        assert_eq!(fields("-trace", &attr).unwrap(), always);
        let with_chain = Attr { sample_type: carried | SampleType::CALLCHAIN, ..attr };
        assert_eq!(
            Fields::of_event(&with_chain, Kind::Usual),
            always | Fields::TRACE | Fields::PLACE
        );
        let changed = always | Fields::TRACE | Fields::IP;
        assert_eq!(fields("+ip", &with_chain).unwrap(), changed);
        let without_raw = Attr { sample_type: SampleType::IP, ..attr };
        let error = fields("trace", &without_raw).unwrap_err();
        assert_eq!(error.to_string(), "samples of `sched:sched_switch` carry no `trace`");
        let clock = Attr { kind: 1, ..without_raw };
        assert_eq!(fields("ip,trace", &clock).unwrap(), Fields::IP);
    }

    #[test]
    fn the_first_event_of_a_type_decides_for_all_of_it() {
        let ours = SampleType::IP | SampleType::TID;
        let (with_cpu, without) = (attr(ours | SampleType::CPU), attr(ours));
        let hardware = Attr { kind: 0, ..without };
        let events = [shown("a", &with_cpu), shown("b", &without), shown("c", &hardware)];
        let fields = Selection::Default.of_events(&events).unwrap();
        assert_eq!(
            fields.iter().map(|it| it.contains(Fields::CPU)).collect::<Vec<_>>(),
            [true, true, false]
        );
        let dummy = Attr { config: 9, ..without };
        let fields =
            Selection::Default.of_events(&[shown("c", &hardware), shown("d", &dummy)]).unwrap();
        assert_eq!(
            fields.iter().map(|it| it.contains(Fields::CPU)).collect::<Vec<_>>(),
            [false, true]
        );
        let error = Selection::Only(Fields::CPU).of_events(&events).unwrap_err();
        assert_eq!(error.to_string(), "samples of `c` carry no `cpu`");
    }

    #[test]
    fn call_chains_of_tracepoints_are_shown_unless_fields_are_changed() {
        let sample_type = SampleType::IP | SampleType::TID | SampleType::CALLCHAIN;
        let attr = Attr { kind: TRACEPOINT, sample_type, ..Attr::default() };
        let fields =
            |it: Selection| it.of_events(&[shown("sched:sched_switch", &attr)]).unwrap()[0];
        assert!(fields(Selection::Default).contains(Fields::PLACE));
        assert!(!fields(Selection::parse("-comm").unwrap()).intersects(Fields::PLACE));
    }

    #[test]
    fn what_a_program_wrote_is_shown_by_its_type_as_a_tracepoint_is() {
        let carried = SampleType::IP | SampleType::TID | SampleType::PERIOD | SampleType::RAW;
        let attr = attr(carried);
        let written = Shown { kind: Kind::Written, ..shown("calls", &attr) };
        let always = Fields::COMM | Fields::TID | Fields::EVENT;
        let events = [shown("bpf-output", &attr), written];
        let fields = Selection::Default.of_events(&events).unwrap();
        let untyped = always | Fields::PLACE | Fields::PERIOD | Fields::BPF_OUTPUT;
        assert_eq!(fields, [untyped, always | Fields::BPF_OUTPUT]);
        let attr = Attr { sample_type: carried | SampleType::CALLCHAIN, ..attr };
        let with_chain = always | Fields::BPF_OUTPUT | Fields::PLACE;
        assert_eq!(Fields::of_event(&attr, Kind::Written), with_chain);
        let hardware = Attr { kind: 0, ..attr };
        assert!(!Fields::of_event(&hardware, Kind::Usual).contains(Fields::BPF_OUTPUT));
    }

    #[test]
    fn signs_change_the_defaults() {
        let attr = attr(SampleType::IP | SampleType::TID | SampleType::PERIOD);
        let fields =
            |list| Selection::parse(list).unwrap().of_event(shown("cpu-clock", &attr)).unwrap();
        let default = Fields::of_event(&attr, Kind::Usual);
        let place = Fields::SYM | Fields::SYMOFF | Fields::DSO;
        assert_eq!(fields("-sym,-symoff,-dso"), default - place);
        assert_eq!(fields("+pid,-sym"), (default | Fields::PID) - Fields::SYM);
        assert_eq!(fields("pid,ip"), Fields::PID | Fields::IP);
        assert_eq!(
            Selection::parse("comm,-sym").unwrap_err().to_string(),
            "`comm,-sym` mixes fields with changes to the default ones"
        );
    }
}
