//! The columns of a histogram: what separates its rows, in which order, and what is shown.

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
    /// The CPU.
    Cpu,
    /// Something of the BPF program.
    Bpf(BpfKey),
    /// Where it is in the source.
    Source(SourceKey),
}

/// What a column says of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SourceKey {
    /// The file and the line, `FILE:LINE`; else the symbol and how far into it.
    Line,
    /// The file; empty if unknown.
    File,
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

/// The names by which columns are asked for; any beginning of a name stands for the first that
/// has it, in any case, as in perf.
const NAMES: [(&str, Column); 19] = [
    ("pid", Column::Pid),
    ("comm", Column::Comm),
    ("dso", Column::Dso),
    ("symbol", Column::Symbol),
    ("cpu", Column::Cpu),
    ("tid", Column::Tid),
    ("overhead", Column::Overhead),
    ("overhead_children", Column::Children),
    ("children", Column::Children),
    ("sample", Column::Samples),
    ("period", Column::Period),
    ("srcline", Column::Source(SourceKey::Line)),
    ("srcfile", Column::Source(SourceKey::File)),
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

    /// A comma-separated list of names; columns named twice are kept once.
    ///
    /// The keys of metadata that it names are added to `meta_keys`.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownColumn`] for a name that no column has.
    pub fn parse_list(text: &str, meta_keys: &mut Vec<String>) -> Result<Vec<Self>, Error> {
        let mut list = Vec::new();
        for name in text.split([',', ' ', '{', '}']).filter(|it| !it.is_empty()) {
            push_all(&mut list, &[Self::parse(name, meta_keys)?]);
        }
        Ok(list)
    }

    /// The names that columns have.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|&(name, _)| name).chain(["bpf_meta:KEY"])
    }

    fn parse(name: &str, meta_keys: &mut Vec<String>) -> Result<Self, Error> {
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
        NAMES
            .iter()
            .find(|(full, _)| begins(full))
            .map(|&(_, column)| column)
            .ok_or_else(|| Error::UnknownColumn { name: name.to_owned() })
    }

    /// Whether rows differ in it, rather than being weighed by it.
    pub fn is_key(self) -> bool {
        match self {
            Self::Children | Self::Overhead | Self::Samples | Self::Period => false,
            Self::Comm
            | Self::Dso
            | Self::Symbol
            | Self::Pid
            | Self::Tid
            | Self::Cpu
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
        assert_eq!(Column::parse_list(text, &mut Vec::new()).unwrap(), want);
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
        let mut keys = vec!["owner".to_owned()];
        let list = "bpf_meta:team,BPF_META:owner,bpf_id,bpf_meta:team:x";
        let got = Column::parse_list(list, &mut keys).unwrap();
        let meta = |it| Column::Bpf(BpfKey::Meta(it));
        assert_eq!(got, [meta(1), meta(0), Column::Bpf(BpfKey::Id), meta(2)]);
        assert_eq!(keys, ["owner", "team", "team:x"]);
    }

    #[test]
    fn an_unknown_name_is_refused() {
        for name in ["nope", "symbols", "é", "bpf_meta", "bpf_meta:"] {
            let want = Error::UnknownColumn { name: name.to_owned() };
            assert_eq!(Column::parse_list(&format!("dso,{name}"), &mut Vec::new()), Err(want));
        }
    }
}
