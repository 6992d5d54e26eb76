//! Why an object cannot be used.

use std::fmt;
use std::io;

/// Why an object cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read it")]
    Read(#[source] io::Error),
    /// It is something else.
    #[error("it is no ELF file")]
    NotElf,
    /// It is for machines of the other byte order.
    #[error("it is {has}-endian, and this machine is {wants}-endian")]
    ByteOrder {
        /// `big` or `little`.
        has: &'static str,
        /// Likewise.
        wants: &'static str,
    },
    /// It is code for something else than BPF.
    #[error("it holds no BPF, but code of machine {machine}")]
    Machine {
        /// `e_machine` of its header.
        machine: u16,
    },
    /// The library refuses it.
    #[error("{0}")]
    Malformed(Log),
    /// A variable is set that it does not have.
    #[error("it has no variable `{name}`")]
    UnknownVariable {
        /// The name.
        name: String,
        /// Those that it has.
        known: Vec<String>,
    },
    /// A map is set that it does not have.
    #[error("it has no map `{name}`")]
    UnknownMap {
        /// The name.
        name: String,
        /// Those that it has.
        known: Vec<String>,
    },
    /// A value does not fit.
    #[error("`{value}` is no value of `{name}`, which is {wanted}")]
    Value {
        /// What was to be set.
        name: String,
        /// To this.
        value: String,
        /// What it can be.
        wanted: String,
    },
    /// Variables are set, and nothing says where they are.
    #[error("it has no type information, so nothing says where `{name}` is")]
    Untyped {
        /// The variable.
        name: String,
    },
    /// Values of a map could not be set.
    #[error("cannot set key {key} of map `{map}`")]
    Update {
        /// The map.
        map: String,
        /// The key.
        key: u64,
        /// Why not.
        #[source]
        source: libbpf_rs::Error,
    },
    /// Whoever asks may not load programs.
    #[error("loading BPF programs is not allowed")]
    Denied,
    /// The kernel lets nobody load such a program, or not the one who asks.
    #[error("the kernel does not let `{program}` of section `{section}` be loaded")]
    Refused {
        /// The program.
        program: String,
        /// Its section.
        section: String,
    },
    /// The verifier says no.
    #[error("the verifier refuses `{program}`: {log}")]
    Verifier {
        /// The program.
        program: String,
        /// What it says.
        log: Log,
    },
    /// The load fails otherwise.
    #[error("{0}")]
    Load(Log),
    /// A program cannot be attached to its place.
    #[error("cannot attach `{program}` to `{section}`: {log}")]
    Attach {
        /// The program.
        program: String,
        /// Its section.
        section: String,
        /// What the library says.
        log: Log,
    },
}

/// What the kernel or the library said, whole.
///
/// Shown as its last lines: those that say what is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// Each line.
    pub lines: Vec<String>,
}

/// How many lines are shown.
const SHOWN: usize = 3;

impl Log {
    /// Lines that are worth showing: those that are empty or count what was done are not.
    fn telling(&self) -> impl DoubleEndedIterator<Item = &str> {
        let lines = self.lines.iter().map(|it| it.trim());
        lines.filter(|it| {
            let counts = ["processed ", "verification time ", "stack depth ", "-- "];
            !it.is_empty() && !counts.iter().any(|count| it.starts_with(count))
        })
    }

    /// Whether a line has `text`.
    pub fn has(&self, text: &str) -> bool {
        self.lines.iter().any(|it| it.contains(text))
    }

    /// How many lines are not shown.
    pub fn n_hidden(&self) -> usize {
        self.lines.len().saturating_sub(SHOWN)
    }
}

impl fmt::Display for Log {
    /// The last lines in one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last: Vec<&str> = self.telling().rev().take(SHOWN).collect();
        last.reverse();
        if last.is_empty() {
            f.write_str("no reason is given")
        } else {
            f.write_str(&last.join(" | "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_that_say_something_are_shown() {
        let lines = [
            "0: R1=ctx()",
            "1: (79) r0 = *(u64 *)(r1 +8192)",
            "invalid access",
            "",
            "processed 2 insns (limit 1000000)",
            "-- END PROG LOAD LOG --",
        ];
        let log = Log { lines: lines.map(str::to_owned).to_vec() };
        assert_eq!(
            log.to_string(),
            "0: R1=ctx() | 1: (79) r0 = *(u64 *)(r1 +8192) | invalid access"
        );
        assert_eq!(Log::default().to_string(), "no reason is given");
    }
}
