//! The columns of a histogram: what separates its rows, in which order, and what is shown.

use crate::replay::Detail;

use super::Error;

/// Something that a row is told apart by, ordered by, or that is shown of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Column {
    /// The share of the period of a row and of all that it called.
    Children,
    /// The share of the period of a row alone.
    Overhead,
    /// The number of samples of a row alone.
    Samples,
    /// The sum of the periods of a row alone, in the event's unit.
    Period,
    /// The command name of the thread.
    Comm,
    /// The module.
    Dso,
    /// The symbol, or the address where there is none.
    Symbol,
    /// The thread id with the command name, under perf's heading `Pid:Command`.
    Pid,
    /// The thread id with the command name, under the heading `Tid:Command`.
    Tid,
    /// The process id with the command name of its first thread.
    Tgid,
    /// The CPU.
    Cpu,
    /// The share of the period that was sampled at a privilege.
    Privilege(PrivilegeKey),
    /// Something of the samples.
    Sample(SampleKey),
    /// Something of the place.
    Place(PlaceKey),
    /// Something of the BPF program.
    Bpf(BpfKey),
    /// Where it is in the source.
    Source(SourceKey),
    /// What tracepoints noted in a field: until the recording is known the one of that number in
    /// [`Spelled::fields`], then in [`Request::noted_fields`](super::Request::noted_fields).
    Field(u32),
}

/// What lists of columns spell out that is no column by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spelled {
    /// Keys of metadata.
    pub meta_keys: Vec<String>,
    /// What may be a field of a tracepoint.
    pub fields: Vec<String>,
    /// The columns that share a level of a hierarchy with the one before.
    pub joined: Vec<Column>,
}

/// What a list of columns is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListOf {
    /// What rows are told apart by.
    Keys,
    /// What is shown.
    Fields,
}

/// What a column says of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SourceKey {
    /// The file and the line, `FILE:LINE`; else the symbol and how far into it.
    Line,
    /// The file; empty if unknown.
    File,
}

/// At which privilege samples of a column were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PrivilegeKey {
    /// The kernel.
    Kernel,
    /// User code.
    User,
    /// The kernel of a guest.
    GuestKernel,
    /// User code of a guest.
    GuestUser,
}

/// What a column says of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SampleKey {
    /// The span of time in which they were taken.
    Time,
    /// What each access cost.
    LocalWeight,
    /// What all their accesses cost.
    Weight,
    /// What each instruction cost.
    LocalInstructionLatency,
    /// What all their instructions cost.
    InstructionLatency,
    /// What each spent in a stage of the pipeline.
    LocalStageCycles,
    /// What all spent in a stage of the pipeline.
    StageCycles,
    /// What each waited to retire.
    LocalRetireLatency,
    /// What all waited to retire.
    RetireLatency,
    /// The flags of the transaction.
    Transaction,
    /// The size of the page of code.
    CodePageSize,
    /// The path of the cgroup.
    Cgroup,
    /// The socket of the CPU.
    Socket,
    /// The first function of the call chain that is one of those asked for.
    Parent,
    /// Vector operations, which no x86 machine tells of.
    Simd,
    /// What the tracepoint noted.
    Noted,
    /// The command name, with `<N>` for each number in it.
    CommWithoutDigits,
    /// The module that a branch came from.
    DsoFrom,
    /// The module that a branch went to.
    DsoTo,
    /// The symbol that a branch came from.
    SymbolFrom,
    /// The symbol that a branch went to.
    SymbolTo,
    /// The address that a branch came from.
    AddrFrom,
    /// The address that a branch went to.
    AddrTo,
    /// Whether a branch was mispredicted.
    Mispredict,
    /// Whether a branch was in a transaction.
    InTransaction,
    /// Whether a branch aborted a transaction.
    Abort,
    /// The cycles since the branch before.
    Cycles,
    /// The line of source that a branch came from.
    LineFrom,
    /// The line of source that a branch went to.
    LineTo,
}

impl SampleKey {
    /// Whether rows with greater values come first.
    pub(super) fn is_descending(self) -> bool {
        match self {
            Self::LocalWeight
            | Self::Weight
            | Self::LocalInstructionLatency
            | Self::InstructionLatency
            | Self::LocalStageCycles
            | Self::StageCycles
            | Self::LocalRetireLatency
            | Self::RetireLatency
            | Self::Parent
            | Self::DsoFrom
            | Self::DsoTo
            | Self::Mispredict
            | Self::InTransaction
            | Self::Abort
            | Self::Cycles => true,
            Self::Time
            | Self::Transaction
            | Self::CodePageSize
            | Self::Cgroup
            | Self::Socket
            | Self::Simd
            | Self::Noted
            | Self::CommWithoutDigits
            | Self::SymbolFrom
            | Self::SymbolTo
            | Self::LineFrom
            | Self::LineTo
            | Self::AddrFrom
            | Self::AddrTo => false,
        }
    }

    /// Whether it says something of branches, and nothing of samples.
    pub fn is_of_branches(self) -> bool {
        matches!(
            self,
            Self::DsoFrom
                | Self::DsoTo
                | Self::SymbolFrom
                | Self::SymbolTo
                | Self::AddrFrom
                | Self::AddrTo
                | Self::Mispredict
                | Self::InTransaction
                | Self::Abort
                | Self::Cycles
                | Self::LineFrom
                | Self::LineTo
        )
    }

    /// What replay has to look at for it, in times rounded to `quantum` nanoseconds.
    pub fn detail(self, quantum: u64) -> Option<Detail> {
        match self {
            Self::Time => Some(Detail::Time(quantum)),
            Self::LocalWeight | Self::Weight => Some(Detail::Weight),
            Self::LocalInstructionLatency | Self::InstructionLatency => {
                Some(Detail::InstructionLatency)
            }
            Self::LocalStageCycles
            | Self::StageCycles
            | Self::LocalRetireLatency
            | Self::RetireLatency => Some(Detail::RetireLatency),
            Self::Transaction => Some(Detail::Transaction),
            Self::CodePageSize => Some(Detail::CodePageSize),
            Self::Cgroup => Some(Detail::Cgroup),
            Self::Noted => Some(Detail::Noted),
            Self::Mispredict | Self::InTransaction | Self::Abort | Self::Cycles => {
                Some(Detail::Branch)
            }
            Self::Socket
            | Self::Parent
            | Self::Simd
            | Self::CommWithoutDigits
            | Self::DsoFrom
            | Self::DsoTo
            | Self::SymbolFrom
            | Self::SymbolTo
            | Self::LineFrom
            | Self::LineTo
            | Self::AddrFrom
            | Self::AddrTo => None,
        }
    }
}

/// What a column says of a place, whoever was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlaceKey {
    /// The address in the process.
    Addr,
    /// The length of the symbol, in bytes.
    SymbolSize,
    /// The symbol, and how far into it.
    SymbolOffset,
    /// Instructions a cycle of the symbol, which nothing but traces of branches tell.
    Instructions,
}

/// What a column says of the BPF program that a row is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BpfKey {
    /// The program, with all its functions; those of the same name have their id, too.
    Prog,
    /// Its id.
    Id,
    /// Its tag.
    Tag,
    /// Its type.
    Type,
    /// The line of its source.
    Line,
    /// The process that holds it, else the one that loaded it.
    Owner,
    /// What its owner says of it: the value of the key at this place of [`Request::meta_keys`].
    ///
    /// [`Request::meta_keys`]: super::Request::meta_keys
    Meta(u32),
}

/// Names of perf's columns that there are none for, and what they need.
const NOT_MADE: [(&str, &str); 30] = [
    ("dso_size", SIZES),
    ("cgroup_id", NAMESPACES),
    ("type", TYPES),
    ("typeoff", TYPES),
    ("typecln", TYPES),
    ("parallelism", PARALLEL),
    ("latency", PARALLEL),
    ("latency_children", PARALLEL),
    ("ipc_lbr", TRACES),
    ("callchain_branch_predicted", TRACES),
    ("callchain_branch_abort", TRACES),
    ("callchain_branch_cycles", TRACES),
    ("symbol_daddr", MEMORY),
    ("dso_daddr", MEMORY),
    ("locked", MEMORY),
    ("tlb", MEMORY),
    ("mem", MEMORY),
    ("snoop", MEMORY),
    ("dcacheline", MEMORY),
    ("symbol_iaddr", MEMORY),
    ("phys_daddr", MEMORY),
    ("data_page_size", MEMORY),
    ("blocked", MEMORY),
    ("op", MEMORY),
    ("cache", MEMORY),
    ("memory", MEMORY),
    ("dtlb", MEMORY),
    ("weight1", WEIGHTS),
    ("weight2", WEIGHTS),
    ("weight3", WEIGHTS),
];

const SIZES: &str = "the lengths of mappings, which reports do not keep";
const NAMESPACES: &str =
    "the namespaces of tasks, which reports do not keep; `cgroup` has their cgroups";
const TYPES: &str = "the types of what instructions access, which are not looked for";
const PARALLEL: &str = "how many tasks ran at once, which is not looked for";
const TRACES: &str = "the code between branches, which is not looked at";
const MEMORY: &str =
    "what hardware notes of accesses to memory; `script -F data_src,addr,phys_addr` prints it";
const WEIGHTS: &str = "averages, which are not made; `weight` and `ins_lat` have the sums";

/// The names by which columns are asked for; any beginning of a name stands for the first that
/// has it, in any case, as in perf.
const NAMES: [(&str, Column); 57] = [
    ("pid", Column::Pid),
    ("comm", Column::Comm),
    ("comm_nodigit", Column::Sample(SampleKey::CommWithoutDigits)),
    ("dso", Column::Dso),
    ("symbol", Column::Symbol),
    ("parent", Column::Sample(SampleKey::Parent)),
    ("cpu", Column::Cpu),
    ("socket", Column::Sample(SampleKey::Socket)),
    ("srcline", Column::Source(SourceKey::Line)),
    ("srcfile", Column::Source(SourceKey::File)),
    ("local_weight", Column::Sample(SampleKey::LocalWeight)),
    ("weight", Column::Sample(SampleKey::Weight)),
    ("transaction", Column::Sample(SampleKey::Transaction)),
    ("trace", Column::Sample(SampleKey::Noted)),
    ("symbol_size", Column::Place(PlaceKey::SymbolSize)),
    ("cgroup", Column::Sample(SampleKey::Cgroup)),
    ("srcline_from", Column::Sample(SampleKey::LineFrom)),
    ("srcline_to", Column::Sample(SampleKey::LineTo)),
    ("ipc_null", Column::Place(PlaceKey::Instructions)),
    ("time", Column::Sample(SampleKey::Time)),
    ("code_page_size", Column::Sample(SampleKey::CodePageSize)),
    ("local_ins_lat", Column::Sample(SampleKey::LocalInstructionLatency)),
    ("ins_lat", Column::Sample(SampleKey::InstructionLatency)),
    ("local_p_stage_cyc", Column::Sample(SampleKey::LocalStageCycles)),
    ("p_stage_cyc", Column::Sample(SampleKey::StageCycles)),
    ("addr", Column::Place(PlaceKey::Addr)),
    ("local_retire_lat", Column::Sample(SampleKey::LocalRetireLatency)),
    ("retire_lat", Column::Sample(SampleKey::RetireLatency)),
    ("simd", Column::Sample(SampleKey::Simd)),
    ("symoff", Column::Place(PlaceKey::SymbolOffset)),
    ("tid", Column::Tid),
    ("tgid", Column::Tgid),
    ("overhead", Column::Overhead),
    ("overhead_sys", Column::Privilege(PrivilegeKey::Kernel)),
    ("overhead_us", Column::Privilege(PrivilegeKey::User)),
    ("overhead_guest_sys", Column::Privilege(PrivilegeKey::GuestKernel)),
    ("overhead_guest_us", Column::Privilege(PrivilegeKey::GuestUser)),
    ("overhead_children", Column::Children),
    ("children", Column::Children),
    ("sample", Column::Samples),
    ("period", Column::Period),
    ("dso_from", Column::Sample(SampleKey::DsoFrom)),
    ("dso_to", Column::Sample(SampleKey::DsoTo)),
    ("symbol_from", Column::Sample(SampleKey::SymbolFrom)),
    ("symbol_to", Column::Sample(SampleKey::SymbolTo)),
    ("mispredict", Column::Sample(SampleKey::Mispredict)),
    ("abort", Column::Sample(SampleKey::Abort)),
    ("in_tx", Column::Sample(SampleKey::InTransaction)),
    ("cycles", Column::Sample(SampleKey::Cycles)),
    ("addr_from", Column::Sample(SampleKey::AddrFrom)),
    ("addr_to", Column::Sample(SampleKey::AddrTo)),
    ("bpf_prog", Column::Bpf(BpfKey::Prog)),
    ("bpf_id", Column::Bpf(BpfKey::Id)),
    ("bpf_tag", Column::Bpf(BpfKey::Tag)),
    ("bpf_type", Column::Bpf(BpfKey::Type)),
    ("bpf_line", Column::Bpf(BpfKey::Line)),
    ("bpf_owner", Column::Bpf(BpfKey::Owner)),
];

/// What the name of a column of metadata begins with; the key follows.
const META: &str = "bpf_meta:";

impl Column {
    /// What rows are told apart by where nothing is asked for.
    pub const DEFAULT: [Self; 3] = [Self::Comm, Self::Dso, Self::Symbol];

    /// A comma-separated list of names; columns named twice are kept once, those between braces share a
    /// level of a hierarchy. What no column is called may be a field of a tracepoint.
    ///
    /// # Errors
    ///
    /// [`Error::NotMade`] for a name of perf's that there is no column for.
    pub fn parse_list(text: &str, of: ListOf, spelled: &mut Spelled) -> Result<Vec<Self>, Error> {
        let mut list = Vec::new();
        let mut is_joined = false;
        let mut is_first = true;
        for word in text.split_inclusive([',', ' ', '{', '}']) {
            let (name, end) = match word.strip_suffix([',', ' ', '{', '}']) {
                Some(name) => (name, word.chars().next_back()),
                None => (word, None),
            };
            if !name.is_empty() {
                let column = Self::parse(name, of, spelled)?;
                if is_joined && !is_first && !list.contains(&column) {
                    push_all(&mut spelled.joined, &[column]);
                }
                push_all(&mut list, &[column]);
                is_first = false;
            }
            match end {
                Some('{') => (is_joined, is_first) = (true, true),
                Some('}') => is_joined = false,
                _ => {}
            }
        }
        Ok(list)
    }

    /// The names that columns have.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|&(name, _)| name).chain(["bpf_meta:KEY"])
    }

    fn parse(name: &str, of: ListOf, spelled: &mut Spelled) -> Result<Self, Error> {
        let Spelled { meta_keys, fields, joined: _ } = spelled;
        if let Some((start, key)) = name.split_at_checked(META.len())
            && start.eq_ignore_ascii_case(META)
            && !key.is_empty()
        {
            let place = meta_keys.iter().position(|it| it == key).unwrap_or_else(|| {
                meta_keys.push(key.to_owned());
                meta_keys.len() - 1
            });
            return Ok(Self::Bpf(BpfKey::Meta(u32::try_from(place).unwrap_or(u32::MAX))));
        }
        let begins = |full: &str| {
            full.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
        };
        let weighs = |it: &&(&str, Self)| !it.1.is_key();
        let found = match of {
            ListOf::Keys => NAMES.iter().find(|(full, _)| begins(full)),
            ListOf::Fields => {
                NAMES.iter().filter(weighs).chain(&NAMES).find(|(full, _)| begins(full))
            }
        };
        if let Some(&(_, column)) = found {
            return Ok(column);
        }
        if let Some((full, needs)) = NOT_MADE.iter().find(|(full, _)| begins(full)) {
            return Err(Error::NotMade { name: (*full).to_owned(), needs });
        }
        let place = fields.iter().position(|it| it == name).unwrap_or_else(|| {
            fields.push(name.to_owned());
            fields.len() - 1
        });
        Ok(Self::Field(u32::try_from(place).unwrap_or(u32::MAX)))
    }

    /// Whether it is one of those whose names begin with `sym`, which perf takes for the symbol in places.
    pub(super) fn is_symbol(self) -> bool {
        match self {
            Self::Symbol | Self::Place(PlaceKey::SymbolSize | PlaceKey::SymbolOffset) => true,
            Self::Sample(key) => matches!(key, SampleKey::SymbolFrom | SampleKey::SymbolTo),
            _ => false,
        }
    }

    /// Whether it says where something is in the source.
    pub fn is_of_source(self) -> bool {
        let of_branches = [SampleKey::LineFrom, SampleKey::LineTo].map(Self::Sample);
        matches!(self, Self::Source(_)) || of_branches.contains(&self)
    }

    /// Whether rows differ in it, rather than being weighed by it.
    pub fn is_key(self) -> bool {
        match self {
            Self::Children | Self::Overhead | Self::Samples | Self::Period | Self::Privilege(_) => {
                false
            }
            Self::Sample(_)
            | Self::Place(_)
            | Self::Comm
            | Self::Dso
            | Self::Symbol
            | Self::Pid
            | Self::Tid
            | Self::Cpu
            | Self::Tgid
            | Self::Field(_)
            | Self::Bpf(_)
            | Self::Source(_) => true,
        }
    }
}

/// Adds those of `columns` that are not there yet.
pub(super) fn push_all(list: &mut Vec<Column>, columns: &[Column]) {
    for &column in columns {
        if !list.contains(&column) {
            list.push(column);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: &[Column]) {
        let got = Column::parse_list(text, ListOf::Keys, &mut Spelled::default());
        assert_eq!(got.unwrap(), want);
    }

    #[test]
    fn a_beginning_of_a_name_is_enough() {
        check("sym", &[Column::Symbol]);
        check("SYMBOL,c", &[Column::Symbol, Column::Comm]);
        check("overhead,overhead_c", &[Column::Overhead, Column::Children]);
        check("sample,period,cpu", &[Column::Samples, Column::Period, Column::Cpu]);
    }

    #[test]
    fn a_column_named_twice_is_kept_once() {
        check("dso,pid,dso,", &[Column::Dso, Column::Pid]);
    }

    #[test]
    fn keys_of_metadata_are_numbered_as_they_come() {
        let meta_keys = vec!["owner".to_owned()];
        let mut spelled = Spelled { meta_keys, ..Spelled::default() };
        let list = "bpf_meta:team,BPF_META:owner,bpf_id,bpf_meta:team:x";
        let got = Column::parse_list(list, ListOf::Keys, &mut spelled).unwrap();
        let meta = |it| Column::Bpf(BpfKey::Meta(it));
        assert_eq!(got, [meta(1), meta(0), Column::Bpf(BpfKey::Id), meta(2)]);
        assert_eq!(spelled.meta_keys, ["owner", "team", "team:x"]);
    }

    #[test]
    fn an_unknown_name_may_be_a_field_of_a_tracepoint() {
        let mut spelled = Spelled::default();
        let list = "prev_comm,dso,sched:sched_switch.*/raw,prev_comm";
        let got = Column::parse_list(list, ListOf::Keys, &mut spelled).unwrap();
        assert_eq!(got, [Column::Field(0), Column::Dso, Column::Field(1)]);
        assert_eq!(spelled.fields, ["prev_comm", "sched:sched_switch.*/raw"]);
    }

    #[test]
    fn a_name_of_perfs_that_is_not_made_is_refused() {
        for name in ["data_page_size", "latency", "typeoff", "TYPE", "weight2"] {
            let got = Column::parse_list(name, ListOf::Keys, &mut Spelled::default());
            assert!(matches!(got, Err(Error::NotMade { .. })), "{name}");
        }
    }

    #[test]
    fn weights_come_first_where_columns_are_shown() {
        let first = |of| Column::parse_list("s", of, &mut Spelled::default()).unwrap();
        assert_eq!(first(ListOf::Keys), [Column::Symbol]);
        assert_eq!(first(ListOf::Fields), [Column::Samples]);
    }

    #[test]
    fn columns_between_braces_share_a_level() {
        let mut spelled = Spelled::default();
        let got = Column::parse_list("{comm,dso},{sym},cpu", ListOf::Keys, &mut spelled).unwrap();
        assert_eq!(got, [Column::Comm, Column::Dso, Column::Symbol, Column::Cpu]);
        assert_eq!(spelled.joined, [Column::Dso]);
    }
}
