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
    }
}

/// `PERF_TYPE_TRACEPOINT`.
const TRACEPOINT: u32 = 2;

/// Names as they are typed, in the order in which errors list them.
const NAMES: [(&str, Fields); 12] = [
    ("comm", Fields::COMM),
    ("tid", Fields::TID),
    ("pid", Fields::PID),
    ("time", Fields::TIME),
    ("cpu", Fields::CPU),
    ("event", Fields::EVENT),
    ("ip", Fields::IP),
    ("sym", Fields::SYM),
    ("symbol", Fields::SYM),
    ("symoff", Fields::SYMOFF),
    ("dso", Fields::DSO),
    ("period", Fields::PERIOD),
];

/// A name that is no field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is no field")]
pub struct UnknownField {
    /// The name.
    pub name: String,
}

/// A field was asked for that the samples do not carry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("samples of `{event}` carry no `{field}`")]
pub struct MissingField {
    /// The event.
    pub event: String,
    /// The field.
    pub field: &'static str,
}

impl Fields {
    /// What is printed of an event with `attr` if nothing is asked for: perf's defaults, less what
    /// the samples do not carry.
    pub fn of_event(attr: &Attr) -> Self {
        let always = Self::COMM | Self::TID | Self::CPU | Self::TIME | Self::EVENT;
        let place = Self::IP | Self::SYM | Self::SYMOFF | Self::DSO;
        let has_chain = attr.sample_type.contains(SampleType::CALLCHAIN);
        let wanted = match attr.kind {
            TRACEPOINT if has_chain => always | place,
            TRACEPOINT => always,
            _ => always | place | Self::PERIOD,
        };
        wanted - wanted.missing(attr)
    }

    /// The fields of a list such as `comm,tid,ip`.
    ///
    /// # Errors
    ///
    /// The first name that is no field.
    pub fn parse(list: &str) -> Result<Self, UnknownField> {
        let mut fields = Self::empty();
        for name in list.split(',').filter(|it| !it.is_empty()) {
            let known = NAMES.iter().find(|(known, _)| *known == name);
            let Some((_, field)) = known else {
                return Err(UnknownField { name: name.to_owned() });
            };
            fields |= *field;
        }
        Ok(fields)
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
    pub fn check(self, event: &str, attr: &Attr) -> Result<(), MissingField> {
        let missing = self.missing(attr) & self;
        match NAMES.iter().find(|(_, field)| missing.contains(*field)) {
            Some((field, _)) => Err(MissingField { event: event.to_owned(), field }),
            None => Ok(()),
        }
    }

    /// What samples of an event with `attr` do not carry.
    fn missing(self, attr: &Attr) -> Self {
        let needs = [
            (Self::TID | Self::PID, SampleType::TID),
            (Self::TIME, SampleType::TIME),
            (Self::CPU, SampleType::CPU),
            (Self::IP | Self::SYM | Self::SYMOFF | Self::DSO, SampleType::IP),
            (Self::PERIOD, SampleType::PERIOD),
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

    fn attr(sample_type: SampleType) -> Attr {
        Attr { kind: 1, sample_type, ..Attr::default() }
    }

    #[test]
    fn defaults_leave_out_what_samples_do_not_carry() {
        let attr = attr(SampleType::IP | SampleType::TID | SampleType::TIME | SampleType::PERIOD);
        let fields = Fields::of_event(&attr);
        assert!(!fields.contains(Fields::CPU));
        assert!(fields.contains(Fields::SYMOFF | Fields::PERIOD | Fields::COMM));
        assert!(!fields.contains(Fields::PID));
    }

    #[test]
    fn what_is_asked_for_must_be_there() {
        let attr = attr(SampleType::IP | SampleType::TID);
        let fields = Fields::parse("comm,tid,time,ip").unwrap();
        let error = fields.check("cpu-clock", &attr).unwrap_err();
        assert_eq!(error.to_string(), "samples of `cpu-clock` carry no `time`");
        assert_eq!(Fields::parse("comm,tix").unwrap_err().to_string(), "`tix` is no field");
    }
}
