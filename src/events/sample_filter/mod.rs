//! Filters of samples, in perf's language and a little more: from text to an expression that
//! [`bpf::filter`](crate::bpf::filter) makes a program of.
//!
//! ```text
//! filter      alternatives , alternatives , ..       all of them
//! alternatives  part || part || ..                   any of them
//!             part && part && ..                     all of them; not beside `||`
//! part        !part | (filter) | test
//! test        TERM OPERATOR NUMBER|WORD              period > 1000   mem_op == load
//!             comm ==|!=|~ NAME                      comm == "make"  comm ~ "kworker*"
//!             cgroup ==|!= PATH|NUMBER
//!             bpf_prog ==|!= NAME|ID | bpf_prog      of the instruction, or a caller, in a program
//!             kernel | user                          where the instruction is
//! operator    == != > >= < <= &
//! ```
//!
//! As with perf a comma binds weaker than `||`. `&&` binds weaker than `||` to perf's grammar, and
//! stronger to everybody who knows C: so both side by side are refused without parentheses.
//!
//! Sources: `tools/perf/util/bpf-filter.y` and `bpf-filter.l`;
//! `tools/perf/Documentation/perf-record.txt`, "BPF filters".

mod kernel_text;
mod parse;
mod terms;

use crate::perfdata::SampleType;

pub use kernel_text::kernel_text;
pub use parse::parse;
pub use terms::Term;

/// Which samples are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expr {
    /// Those of a test.
    Test(Test),
    /// Those that the other drops.
    Not(Box<Expr>),
    /// Those that all keep.
    All(Vec<Expr>),
    /// Those that any keeps.
    Any(Vec<Expr>),
}

/// One question about a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// How a number compares.
    Number {
        /// What of the sample.
        term: Term,
        /// How.
        operator: Operator,
        /// With what.
        value: u64,
    },
    /// Whether the thread's name is like this.
    Comm(Pattern),
    /// Whether the instruction, or a frame of the call chain, lies in a BPF program.
    Program(Program),
    /// Whether the instruction is the kernel's.
    Kernel,
    /// Whether the instruction is of user space.
    User,
}

/// How numbers are compared, without a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `&`: whether any bit is set in both.
    AnyBit,
}

/// The bytes of a thread's name, the zero that ends it included.
pub const COMM_LEN: usize = 16;

/// What a thread's name is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The name, filled up with zeros.
    pub bytes: [u8; COMM_LEN],
    /// 0xff where a byte has to be the same, 0 where it may be any.
    pub mask: [u8; COMM_LEN],
    /// How many bytes a name has at least: as many as are not 0.
    pub len: usize,
}

/// Which BPF programs are meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Program {
    /// All.
    Any,
    /// All of this name.
    Name(String),
    /// The one with this id.
    Id(u32),
}

impl Expr {
    /// The tests in it, in their order.
    pub fn tests(&self) -> Vec<&Test> {
        let mut tests = Vec::new();
        let mut left = vec![self];
        while let Some(it) = left.pop() {
            match it {
                Self::Test(test) => tests.push(test),
                Self::Not(inner) => left.push(inner),
                Self::All(parts) | Self::Any(parts) => left.extend(parts.iter().rev()),
            }
        }
        tests
    }
}

/// The fields of a sample that `term` is read from: any of them will do; none are needed if empty.
pub fn needs(term: Term) -> SampleType {
    terms::ALL.iter().find(|it| it.term == term).map_or(SampleType::empty(), |it| it.needs)
}

/// The name of `term`.
pub fn name(term: Term) -> &'static str {
    terms::ALL.iter().find(|it| it.term == term).map_or("", |it| it.name)
}
