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
}

/// The names by which columns are asked for; any beginning of a name stands for the first that
/// has it, in any case, as in perf.
const NAMES: [(&str, Column); 11] = [
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
];

impl Column {
    /// What rows are told apart by where nothing is asked for.
    pub const DEFAULT: [Self; 3] = [Self::Comm, Self::Dso, Self::Symbol];

    /// A comma-separated list of names; columns named twice are kept once.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownColumn`] for a name that no column has.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, Error> {
        let mut list = Vec::new();
        for name in text.split([',', ' ', '{', '}']).filter(|it| !it.is_empty()) {
            push_all(&mut list, &[Self::parse(name)?]);
        }
        Ok(list)
    }

    /// The names that columns have.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|&(name, _)| name)
    }

    fn parse(name: &str) -> Result<Self, Error> {
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
            Self::Comm | Self::Dso | Self::Symbol | Self::Pid | Self::Tid | Self::Cpu => true,
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
        assert_eq!(Column::parse_list(text).unwrap(), want);
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
    fn an_unknown_name_is_refused() {
        for name in ["nope", "symbols", "é"] {
            let want = Error::UnknownColumn { name: name.to_owned() };
            assert_eq!(Column::parse_list(&format!("dso,{name}")), Err(want));
        }
    }
}
