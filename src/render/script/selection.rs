//! What is printed of each event: what was asked for, less what its samples do not carry.

use crate::perfdata::Attr;
use crate::perfdata::SampleType;

use super::Fields;
use super::code::ANY_BRANCH;

/// `PERF_TYPE_TRACEPOINT`.
pub(super) const TRACEPOINT: u32 = 2;

/// `PERF_TYPE_SOFTWARE` and `PERF_COUNT_SW_DUMMY`.
const DUMMY: (u32, u64) = (1, 9);

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

/// Types of events, as far as they are printed differently: those that the kernel numbers, what is
/// synthesized from traces, all PMUs as one, and what BPF programs wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Hardware,
    Software,
    Tracepoint,
    HardwareCache,
    Raw,
    Breakpoint,
    Synthesized,
    Other,
    Written,
}

/// All of them, each at its own place.
const TYPES: [Type; 9] = [
    Type::Hardware,
    Type::Software,
    Type::Tracepoint,
    Type::HardwareCache,
    Type::Raw,
    Type::Breakpoint,
    Type::Synthesized,
    Type::Other,
    Type::Written,
];

/// `PERF_TYPE_SYNTH` of `tools/perf/util/event.h`.
const SYNTHESIZED: u32 = i32::MAX.unsigned_abs() - 1;

impl Type {
    fn of(event: &Shown<'_>) -> Self {
        match (event.kind, event.attr.kind) {
            (Kind::Written, _) => Self::Written,
            (Kind::Usual, 0) => Self::Hardware,
            (Kind::Usual, 1) => Self::Software,
            (Kind::Usual, 2) => Self::Tracepoint,
            (Kind::Usual, 3) => Self::HardwareCache,
            (Kind::Usual, 4) => Self::Raw,
            (Kind::Usual, 5) => Self::Breakpoint,
            (Kind::Usual, SYNTHESIZED) => Self::Synthesized,
            (Kind::Usual, _) => Self::Other,
        }
    }

    /// What is typed before a colon.
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "hw" => Self::Hardware,
            "sw" => Self::Software,
            "trace" => Self::Tracepoint,
            "raw" => Self::Raw,
            "break" => Self::Breakpoint,
            "synth" => Self::Synthesized,
            _ => return None,
        })
    }

    /// What is printed if nothing is asked for: perf's defaults.
    ///
    /// Values that a BPF program wrote are shown as what a tracepoint noted is.
    fn default_fields(self) -> Fields {
        let always = Fields::COMM | Fields::TID | Fields::CPU | Fields::TIME | Fields::EVENT;
        let counted = always | Fields::PLACE | Fields::PERIOD;
        match self {
            Self::Hardware | Self::HardwareCache | Self::Breakpoint | Self::Other => counted,
            Self::Software => counted | Fields::BPF_OUTPUT,
            Self::Tracepoint => always | Fields::TRACE,
            Self::Raw => {
                counted
                    | Fields::ADDR
                    | Fields::DATA_SRC
                    | Fields::WEIGHT
                    | Fields::INS_LAT
                    | Fields::RETIRE_LAT
                    | Fields::PHYS_ADDR
                    | Fields::DATA_PAGE_SIZE
                    | Fields::CODE_PAGE_SIZE
            }
            Self::Synthesized => always | Fields::PLACE | Fields::SYNTH,
            Self::Written => always | Fields::BPF_OUTPUT,
        }
    }

    /// Fields that such events never have.
    fn impossible(self) -> Fields {
        match self {
            Self::Tracepoint => Fields::empty(),
            Self::Software | Self::Written => Fields::TRACE,
            _ => Fields::TRACE | Fields::BPF_OUTPUT,
        }
    }
}

/// What was asked for of one type of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    fields: Fields,
    /// Those that were asked for of all types, which the samples have to carry.
    needed: Fields,
    /// Those that were asked not to be.
    unwanted: Fields,
    is_changed: bool,
    /// Whether such an event has to be there.
    is_required: bool,
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    asked: [Asked; TYPES.len()],
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
    /// A name is a field of what hardware counted, which is not computed here.
    #[error("`{name}` is made of hardware counters, which this version does not do")]
    OfCounters {
        /// The name.
        name: String,
    },
    /// What stands before a colon is no type of event.
    #[error("`{name}` is no type of event; there are hw, sw, trace, raw, break and synth")]
    NoType {
        /// The type.
        name: String,
    },
    /// Some names have a sign and some have none.
    #[error("`{list}` mixes fields with changes to the default ones")]
    Mixed {
        /// The list.
        list: String,
    },
    /// Events of the type never have the field.
    #[error("`{field}` is no field of `{kind}` events")]
    Impossible {
        /// The field.
        field: String,
        /// The type as it was typed.
        kind: String,
    },
    /// Nothing was asked for of any type.
    #[error("no field of any type is left to print")]
    Nothing,
}

/// Fields were asked for that cannot be printed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldError {
    /// The samples do not carry it.
    #[error("samples of `{event}` carry no `{field}`")]
    Missing {
        /// The event.
        event: String,
        /// The field.
        field: &'static str,
    },
    /// It says more of another field, which is not printed.
    #[error("`{field}` says more of `{of}`, which is not printed")]
    Without {
        /// The field.
        field: &'static str,
        /// The other one.
        of: &'static str,
    },
    /// Lines stand with the addresses that they are of, and these were not asked for.
    #[error("`srcline` is the line of an `ip`, which is not among the fields")]
    LineWithoutAddress,
    /// Code is shown between branches, all of which have to be recorded for that.
    #[error("`{field}` shows the code between all branches, which were not recorded")]
    NoBranches {
        /// The field.
        field: &'static str,
    },
    /// No event has the type that fields were asked for of.
    #[error("no event of the recording is of the type whose fields are asked for")]
    NoSuchEvent,
}

/// Whether call chains are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chains {
    /// They are.
    Shown,
    /// The sampled address alone.
    Hidden,
}

/// How a recording came, which decides when perf learns of its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A file, which describes its events at its beginning.
    File,
    /// A pipe, whose records do.
    Pipe,
}

impl Default for Selection {
    fn default() -> Self {
        let asked = TYPES.map(|it| Asked {
            fields: it.default_fields(),
            needed: Fields::empty(),
            unwanted: Fields::empty(),
            is_changed: false,
            is_required: false,
        });
        Self { asked }
    }
}

impl Selection {
    /// What lists such as `comm,tid,ip`, or `+pid,-dso`, or `trace:comm,trace` select, one after the
    /// other.
    ///
    /// # Errors
    ///
    /// The first name that is no field or type, or the list if it is of both kinds.
    pub fn parse<'l>(lists: impl IntoIterator<Item = &'l str>) -> Result<Self, UnknownField> {
        let mut this = Self::default();
        lists.into_iter().try_for_each(|list| this.add(list))?;
        Ok(this)
    }

    fn add(&mut self, list: &str) -> Result<(), UnknownField> {
        let (kind, fields) = match list.split_once(':') {
            Some((kind, fields)) => (Some(kind), fields),
            None => (None, list),
        };
        let only = kind.map(|name| {
            Type::named(name).ok_or_else(|| UnknownField::NoType { name: name.to_owned() })
        });
        let only = only.transpose()?;
        if kind.is_none() && fields.is_empty() {
            return Err(UnknownField::Nothing);
        }
        let names = || fields.split(',').filter(|it| !it.is_empty());
        let n_signed = names().filter(|it| it.starts_with(['+', '-'])).count();
        if n_signed != 0 && n_signed != names().count() {
            return Err(UnknownField::Mixed { list: list.to_owned() });
        }
        let types: Vec<Type> = match only {
            Some(kind) => vec![kind],
            None => TYPES.to_vec(),
        };
        if n_signed == 0 {
            for kind in &types {
                let asked = self.of_type(*kind);
                asked.fields = Fields::empty();
                asked.is_changed = true;
                asked.is_required = only.is_some();
            }
        }
        for name in names() {
            let (is_minus, bare) = match name.strip_prefix('-') {
                Some(bare) => (true, bare),
                None => (false, name.strip_prefix('+').unwrap_or(name)),
            };
            if matches!(bare, "metric" | "brcntr") {
                return Err(UnknownField::OfCounters { name: bare.to_owned() });
            }
            let field = Fields::named(bare)
                .ok_or_else(|| UnknownField::NoField { name: bare.to_owned() })?;
            for kind in &types {
                if kind.impossible().contains(field) {
                    if let Some(name) = only.and(kind_name(list)) {
                        return Err(UnknownField::Impossible {
                            field: bare.to_owned(),
                            kind: name.to_owned(),
                        });
                    }
                    continue;
                }
                let asked = self.of_type(*kind);
                asked.is_changed = true;
                asked.is_required = false;
                asked.fields.set(field, !is_minus);
                if only.is_none() {
                    asked.needed.set(field, !is_minus);
                    asked.unwanted.set(field, is_minus);
                }
            }
        }
        Ok(())
    }

    fn of_type(&mut self, kind: Type) -> &mut Asked {
        &mut self.asked[kind as usize]
    }

    /// The fields that it selects of the samples of each event.
    ///
    /// As in perf, the first event of a type decides for all of that type: where a later one's
    /// samples lack a field, its place is kept. Dummies, which have no samples, decide nothing.
    ///
    /// # Errors
    ///
    /// The first that was asked for and that the samples do not carry, or that makes no sense without
    /// another one.
    pub fn of_events(
        &self,
        events: &[Shown<'_>],
        chains: Chains,
        form: Form,
    ) -> Result<Vec<Fields>, FieldError> {
        let decides = |attr: &Attr| (attr.kind, attr.config) != DUMMY;
        let has_all_branches = events.iter().any(|it| it.attr.branch_sample_type & ANY_BRANCH != 0);
        let mut fields = self.asked.map(|it| it.fields);
        for (kind, fields) in TYPES.into_iter().zip(&mut fields) {
            let is_of_type = |it: &&Shown<'_>| Type::of(it) == kind;
            let asked = &self.asked[kind as usize];
            match events.iter().filter(is_of_type).find(|it| decides(it.attr)) {
                Some(event) => *fields = checked(*asked, event, has_all_branches)?,
                None if asked.is_required => return Err(FieldError::NoSuchEvent),
                None => continue,
            }
            let has_chain = |it: &&Shown<'_>| it.attr.sample_type.contains(SampleType::CALLCHAIN);
            let mut of_type = events.iter().filter(is_of_type);
            let is_noted = matches!(kind, Type::Tracepoint | Type::Written);
            if chains == Chains::Hidden {
                continue;
            }
            match form {
                Form::File if is_noted && !asked.is_changed && of_type.any(|it| has_chain(&it)) => {
                    *fields |= Fields::PLACE;
                }
                Form::Pipe
                    if kind != Type::Other && events.iter().any(|it| has_callers(it.attr)) =>
                {
                    *fields |= (Fields::IP | Fields::SYM) - asked.unwanted;
                }
                _ => {}
            }
        }
        Ok(events.iter().map(|it| fields[Type::of(it) as usize]).collect())
    }
}

/// Whether callers can be found of the samples of an event with `attr`.
fn has_callers(attr: &Attr) -> bool {
    let copies = SampleType::REGS_USER | SampleType::STACK_USER;
    attr.sample_type.intersects(SampleType::CALLCHAIN | SampleType::BRANCH_STACK)
        || attr.sample_type.contains(copies)
}

/// The type that stands at the beginning of a list.
fn kind_name(list: &str) -> Option<&str> {
    list.split_once(':').map(|(kind, _)| kind)
}

/// What is printed of the samples of `event`.
fn checked(asked: Asked, event: &Shown<'_>, has_all_branches: bool) -> Result<Fields, FieldError> {
    let missing = Fields::missing(event.attr);
    if let Some(field) = (asked.fields & asked.needed & missing).first_name() {
        return Err(FieldError::Missing { event: event.name.to_owned(), field });
    }
    let mut fields = asked.fields - missing;
    if fields.contains(Fields::DSOFF) {
        fields |= Fields::DSO;
    }
    if let Some(field) = (fields & Fields::BRANCH_CODE).first_name().filter(|_| !has_all_branches) {
        return Err(FieldError::NoBranches { field });
    }
    let companions = [(Fields::SYMOFF, Fields::SYM), (Fields::SRCLINE, Fields::IP)];
    for (field, of) in companions {
        if !fields.contains(field) || fields.contains(of) {
            continue;
        }
        if asked.needed.contains(field) && field == Fields::SRCLINE {
            return Err(FieldError::LineWithoutAddress);
        }
        if asked.needed.contains(field) {
            let name = |it: Fields| it.first_name().unwrap_or_default();
            return Err(FieldError::Without { field: name(field), of: name(of) });
        }
        fields -= field;
    }
    Ok(fields)
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

    fn fields_of(lists: &[&str], event: Shown<'_>) -> Result<Fields, String> {
        let selection =
            Selection::parse(lists.iter().copied()).map_err(|error| error.to_string())?;
        let fields = selection.of_events(&[event], Chains::Shown, Form::File);
        fields.map(|it| it[0]).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn check(lists: &[&str], event: Shown<'_>, want: Fields) {
        assert_eq!(fields_of(lists, event), Ok(want));
    }

    #[track_caller]
    fn check_error(lists: &[&str], event: Shown<'_>, want: &str) {
        assert_eq!(fields_of(lists, event).unwrap_err(), want);
    }

    #[test]
    fn defaults_leave_out_what_samples_do_not_carry() {
        let attr = attr(SampleType::IP | SampleType::TID | SampleType::TIME | SampleType::PERIOD);
        let always = Fields::COMM | Fields::TID | Fields::TIME | Fields::EVENT;
        let want = always | Fields::PLACE | Fields::PERIOD | Fields::BPF_OUTPUT;
        check(&[], shown("cpu-clock", &attr), want);
        let raw = Attr { kind: 4, ..attr };
        check(&[], shown("r1cd", &raw), want - Fields::BPF_OUTPUT);
        let sample_type = attr.sample_type | SampleType::ADDR | SampleType::WEIGHT_STRUCT;
        let raw = Attr { sample_type, ..raw };
        let more = Fields::ADDR | Fields::WEIGHT | Fields::INS_LAT | Fields::RETIRE_LAT;
        check(&[], shown("r1cd", &raw), (want | more) - Fields::BPF_OUTPUT);
    }

    #[test]
    fn what_is_asked_for_must_be_there() {
        let attr = attr(SampleType::IP | SampleType::TID);
        let clock = shown("cpu-clock", &attr);
        for list in ["comm,tid,time,ip", "+time"] {
            check_error(&[list], clock, "samples of `cpu-clock` carry no `time`");
        }
        check(&["sw:comm,time,ip"], clock, Fields::COMM | Fields::IP);
        check_error(&["comm,tix"], clock, "`tix` is no field");
        check_error(
            &["comm,-sym"],
            clock,
            "`comm,-sym` mixes fields with changes to the default ones",
        );
        check_error(&["ip,symoff"], clock, "`symoff` says more of `sym`, which is not printed");
        check_error(
            &["comm,srcline"],
            clock,
            "`srcline` is the line of an `ip`, which is not among the fields",
        );
        let code = "`brstackinsn` shows the code between all branches, which were not recorded";
        check_error(&["ip,brstackinsn"], clock, code);
        let metric = "`metric` is made of hardware counters, which this version does not do";
        check_error(&["comm,metric"], clock, metric);
        check(&["ip,dsoff"], clock, Fields::IP | Fields::DSO | Fields::DSOFF);
        check_error(&["comm,uregs"], clock, "samples of `cpu-clock` carry no `uregs`");
        let events = "no event of the recording is of the type whose fields are asked for";
        check_error(&["hw:"], clock, events);
        check(
            &["hw:comm"],
            clock,
            Fields::COMM
                | Fields::TID
                | Fields::EVENT
                | Fields::PLACE
                | Fields::PERIOD
                | Fields::BPF_OUTPUT,
        );
        check_error(&["sw:trace"], clock, "`trace` is no field of `sw` events");
        let types = "`software` is no type of event; there are hw, sw, trace, raw, break and synth";
        check_error(&["software:comm"], clock, types);
        check_error(&[""], clock, "no field of any type is left to print");
    }

    #[test]
    fn each_type_can_have_fields_of_its_own() {
        let attr = attr(SampleType::IP | SampleType::TID | SampleType::TIME);
        let clock = shown("cpu-clock", &attr);
        let point = Attr { kind: TRACEPOINT, ..attr };
        let selection = Selection::parse(["sw:comm,ip", "trace:time", "trace:+pid"]).unwrap();
        let events = [clock, shown("sched:sched_switch", &point)];
        let fields = selection.of_events(&events, Chains::Shown, Form::File).unwrap();
        assert_eq!(fields, [Fields::COMM | Fields::IP, Fields::TIME | Fields::PID]);
        check(&["comm,time", "sw:ip"], clock, Fields::IP);
    }

    #[test]
    fn a_tracepoint_prints_what_it_noted() {
        let carried = SampleType::IP | SampleType::TID | SampleType::RAW;
        let attr = Attr { kind: TRACEPOINT, ..attr(carried) };
        let always = Fields::COMM | Fields::TID | Fields::EVENT;
        let point = shown("sched:sched_switch", &attr);
        check(&[], point, always | Fields::TRACE);
        check(&["-trace"], point, always);
        let with_chain = Attr { sample_type: carried | SampleType::CALLCHAIN, ..attr };
        let with_chain = shown("sched:sched_switch", &with_chain);
        check(&[], with_chain, always | Fields::TRACE | Fields::PLACE);
        check(&["+ip"], with_chain, always | Fields::TRACE | Fields::IP);
        check(&["-comm"], with_chain, (always | Fields::TRACE) - Fields::COMM);
        let without_raw = Attr { sample_type: SampleType::IP, ..attr };
        let without = shown("sched:sched_switch", &without_raw);
        check_error(&["trace"], without, "samples of `sched:sched_switch` carry no `trace`");
        let clock = Attr { kind: 1, ..without_raw };
        check(&["ip,trace"], shown("cpu-clock", &clock), Fields::IP);
    }

    #[test]
    fn the_first_event_of_a_type_decides_for_all_of_it() {
        let ours = SampleType::IP | SampleType::TID;
        let (with_cpu, without) = (attr(ours | SampleType::CPU), attr(ours));
        let hardware = Attr { kind: 0, ..without };
        let dummy = Attr { config: 9, ..without };
        let events = [shown("a", &with_cpu), shown("b", &without), shown("c", &hardware)];
        let cpus = |selection: &Selection, events: &[Shown<'_>]| {
            let fields = selection.of_events(events, Chains::Shown, Form::File);
            fields.map(|it| it.iter().map(|it| it.contains(Fields::CPU)).collect::<Vec<_>>())
        };
        let default = Selection::default();
        assert_eq!(cpus(&default, &events).unwrap(), [true, true, false]);
        let with_dummy = [shown("c", &hardware), shown("d", &dummy)];
        assert_eq!(cpus(&default, &with_dummy).unwrap(), [false, true]);
        let error = cpus(&Selection::parse(["cpu"]).unwrap(), &events).unwrap_err();
        assert_eq!(error.to_string(), "samples of `c` carry no `cpu`");
    }

    #[test]
    fn a_pipe_with_callers_shows_addresses_whatever_is_asked_for() {
        let sample_type = SampleType::IP | SampleType::TID | SampleType::CALLCHAIN;
        let attr = Attr { kind: TRACEPOINT, sample_type, ..Attr::default() };
        let of = |list: &str, form| {
            let selection = Selection::parse([list]).unwrap();
            let events = [shown("sched:sched_switch", &attr)];
            selection.of_events(&events, Chains::Shown, form).unwrap()[0]
        };
        assert_eq!(of("comm", Form::File), Fields::COMM);
        assert_eq!(of("comm", Form::Pipe), Fields::COMM | Fields::IP | Fields::SYM);
        assert!(!of("-sym", Form::Pipe).contains(Fields::SYM));
    }

    #[test]
    fn what_a_program_wrote_is_shown_by_its_type_as_a_tracepoint_is() {
        let carried = SampleType::IP | SampleType::TID | SampleType::PERIOD | SampleType::RAW;
        let plain = attr(carried);
        let written = Shown { kind: Kind::Written, ..shown("calls", &plain) };
        let always = Fields::COMM | Fields::TID | Fields::EVENT;
        let untyped = always | Fields::PLACE | Fields::PERIOD | Fields::BPF_OUTPUT;
        check(&[], shown("bpf-output", &plain), untyped);
        check(&[], written, always | Fields::BPF_OUTPUT);
        let with_chain = attr(carried | SampleType::CALLCHAIN);
        let written = Shown { kind: Kind::Written, ..shown("calls", &with_chain) };
        check(&[], written, always | Fields::BPF_OUTPUT | Fields::PLACE);
    }

    #[test]
    fn signs_change_the_defaults() {
        let attr = attr(SampleType::IP | SampleType::TID | SampleType::PERIOD);
        let clock = shown("cpu-clock", &attr);
        let always = Fields::COMM
            | Fields::TID
            | Fields::EVENT
            | Fields::IP
            | Fields::PERIOD
            | Fields::BPF_OUTPUT;
        check(&["-sym,-symoff,-dso"], clock, always);
        // An offset without a symbol says nothing.
        check(&["+pid,-sym"], clock, always | Fields::PID | Fields::DSO);
        check(&["pid,ip"], clock, Fields::PID | Fields::IP);
    }
}
