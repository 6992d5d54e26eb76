//! Which fields of a sample can be printed.

use bitflags::bitflags;

use crate::perfdata::Attr;
use crate::perfdata::SampleType;

use super::selection::TRACEPOINT;

bitflags! {
    /// The fields of a printed sample.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Fields: u64 {
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
        /// How far into the module.
        const DSOFF = 1 << 14;
        /// The data address.
        const ADDR = 1 << 15;
        /// Registers at the interrupt.
        const IREGS = 1 << 16;
        /// Registers of the user context.
        const UREGS = 1 << 17;
        /// The branches before the sample, by address.
        const BRSTACK = 1 << 18;
        /// The branches, by symbol.
        const BRSTACKSYM = 1 << 19;
        /// The branches, by their places in modules.
        const BRSTACKOFF = 1 << 20;
        /// Where data came from.
        const DATA_SRC = 1 << 21;
        /// The weight.
        const WEIGHT = 1 << 22;
        /// The latency of the instruction.
        const INS_LAT = 1 << 23;
        /// The latency of its retirement.
        const RETIRE_LAT = 1 << 24;
        /// The physical data address.
        const PHYS_ADDR = 1 << 25;
        /// The page size of the data address.
        const DATA_PAGE_SIZE = 1 << 26;
        /// The page size of the code address.
        const CODE_PAGE_SIZE = 1 << 27;
        /// The cgroup.
        const CGROUP = 1 << 28;
        /// The privilege and other bits of the record's header.
        const MISC = 1 << 29;
        /// The time of day.
        const TOD = 1 << 30;
        /// What kind of branch a traced one is.
        const FLAGS = 1 << 31;
        /// Calls of a trace, indented by their depth.
        const CALLINDENT = 1 << 32;
        /// The bytes of the instruction.
        const INSN = 1 << 33;
        /// How many these are.
        const INSNLEN = 1 << 34;
        /// What was synthesized from a trace.
        const SYNTH = 1 << 35;
        /// The text of the line of source.
        const SRCCODE = 1 << 36;
        /// Instructions per cycle, of a trace.
        const IPC = 1 << 37;
        /// The virtual CPU of a guest.
        const VCPU = 1 << 38;
        /// The process that runs a guest.
        const MACHINE_PID = 1 << 39;
        /// The instruction in words.
        const DISASM = 1 << 40;
        /// The code between the branches, as bytes.
        const BRSTACKINSN = 1 << 41;
        /// The lengths of the instructions between the branches.
        const BRSTACKINSNLEN = 1 << 42;
        /// The code between the branches, in words.
        const BRSTACKDISASM = 1 << 43;
    }
}

/// Names as they are typed, in the order in which errors list them.
const NAMES: [(&str, Fields); 45] = [
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
    ("dso", Fields::DSO),
    ("dsoff", Fields::DSOFF),
    ("addr", Fields::ADDR),
    ("symoff", Fields::SYMOFF),
    ("srcline", Fields::SRCLINE),
    ("period", Fields::PERIOD),
    ("iregs", Fields::IREGS),
    ("uregs", Fields::UREGS),
    ("brstack", Fields::BRSTACK),
    ("brstacksym", Fields::BRSTACKSYM),
    ("brstackinsn", Fields::BRSTACKINSN),
    ("brstackinsnlen", Fields::BRSTACKINSNLEN),
    ("brstackdisasm", Fields::BRSTACKDISASM),
    ("brstackoff", Fields::BRSTACKOFF),
    ("data_src", Fields::DATA_SRC),
    ("weight", Fields::WEIGHT),
    ("bpf-output", Fields::BPF_OUTPUT),
    ("callindent", Fields::CALLINDENT),
    ("insn", Fields::INSN),
    ("disasm", Fields::DISASM),
    ("insnlen", Fields::INSNLEN),
    ("synth", Fields::SYNTH),
    ("phys_addr", Fields::PHYS_ADDR),
    ("misc", Fields::MISC),
    ("srccode", Fields::SRCCODE),
    ("ipc", Fields::IPC),
    ("tod", Fields::TOD),
    ("data_page_size", Fields::DATA_PAGE_SIZE),
    ("code_page_size", Fields::CODE_PAGE_SIZE),
    ("ins_lat", Fields::INS_LAT),
    ("machine_pid", Fields::MACHINE_PID),
    ("vcpu", Fields::VCPU),
    ("cgroup", Fields::CGROUP),
    ("retire_lat", Fields::RETIRE_LAT),
    ("flags", Fields::FLAGS),
];

impl Fields {
    /// Where it was, and how that is called.
    pub(super) const PLACE: Self = Self::IP.union(Self::SYM).union(Self::SYMOFF).union(Self::DSO);

    /// The code between the branches, in whichever form.
    pub(super) const BRANCH_CODE: Self =
        Self::BRSTACKINSN.union(Self::BRSTACKINSNLEN).union(Self::BRSTACKDISASM);

    /// What lies behind the first fields of a sample, so that all of it has to be decoded.
    pub(super) const FAR: Self = Self::IREGS
        .union(Self::UREGS)
        .union(Self::BRSTACK)
        .union(Self::BRSTACKSYM)
        .union(Self::BRSTACKOFF)
        .union(Self::BRANCH_CODE)
        .union(Self::DATA_SRC)
        .union(Self::WEIGHT)
        .union(Self::INS_LAT)
        .union(Self::RETIRE_LAT)
        .union(Self::PHYS_ADDR)
        .union(Self::DATA_PAGE_SIZE)
        .union(Self::CODE_PAGE_SIZE)
        .union(Self::CGROUP);

    /// What is printed by what was printed before.
    pub(super) const IN_ORDER: Self = Self::DATA_SRC.union(Self::SRCCODE);

    /// The field of a name such as `comm`, if it is one.
    pub(super) fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, field)| *field)
    }

    /// The name of the first of these, as it is typed.
    pub(super) fn first_name(self) -> Option<&'static str> {
        NAMES.iter().find(|(_, field)| self.contains(*field)).map(|(name, _)| *name)
    }

    /// The names of all fields.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, _)| *name).filter(|it| *it != "symbol")
    }

    /// What samples of an event with `attr` do not carry.
    pub(super) fn missing(attr: &Attr) -> Self {
        let weight = SampleType::WEIGHT | SampleType::WEIGHT_STRUCT;
        let address = SampleType::IP | SampleType::ADDR;
        let needs = [
            (Self::TID | Self::PID, SampleType::TID),
            (Self::TIME, SampleType::TIME),
            (Self::CPU, SampleType::CPU),
            (Self::IP | Self::SRCLINE | Self::SRCCODE, SampleType::IP),
            (Self::SYM | Self::SYMOFF | Self::DSO, address),
            (Self::ADDR, SampleType::ADDR),
            (Self::DATA_SRC, SampleType::DATA_SRC),
            (Self::WEIGHT, weight),
            (Self::INS_LAT | Self::RETIRE_LAT, SampleType::WEIGHT_STRUCT),
            (Self::IREGS, SampleType::REGS_INTR),
            (Self::UREGS, SampleType::REGS_USER),
            (Self::PHYS_ADDR, SampleType::PHYS_ADDR),
            (Self::DATA_PAGE_SIZE, SampleType::DATA_PAGE_SIZE),
            (Self::CODE_PAGE_SIZE, SampleType::CODE_PAGE_SIZE),
            (Self::CGROUP, SampleType::CGROUP),
        ];
        // Other events than tracepoints do not lack what one noted: it is none of theirs.
        let is_without_notes =
            attr.kind == TRACEPOINT && !attr.sample_type.contains(SampleType::RAW);
        let first = if is_without_notes { Self::TRACE } else { Self::empty() };
        needs
            .iter()
            .filter(|(_, needed)| !attr.sample_type.intersects(*needed))
            .fold(first, |missing, (fields, _)| missing | *fields)
    }
}
