//! What is wrong with an event list, and where.

use std::io;

/// What is wrong with an event list.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No event of this name is known.
    #[error("no event is called `{name}`, at column {column} of `{list}`")]
    UnknownEvent {
        /// The whole list.
        list: String,
        /// What was looked for.
        name: String,
        /// Where it begins, counted from 1.
        column: usize,
        /// The known name that is most like it.
        nearest: Option<String>,
    },
    /// A term that the event does not have.
    #[error("`{term}` at column {column} of `{list}` is no term of `{event}`")]
    UnknownTerm {
        /// The whole list.
        list: String,
        /// The term.
        term: String,
        /// Whose it would be: an event or a PMU.
        event: String,
        /// Where it begins, counted from 1.
        column: usize,
        /// The known term that is most like it.
        nearest: Option<String>,
    },
    /// A value that the term cannot have.
    #[error("`{value}` at column {column} of `{list}` is no value of `{term}`, which is {wanted}")]
    BadValue {
        /// The whole list.
        list: String,
        /// The value; empty if there is none.
        value: String,
        /// The term, or the part of an event that it belongs to.
        term: String,
        /// What it may be, in words.
        wanted: String,
        /// Where it begins, counted from 1.
        column: usize,
    },
    /// A modifier that no event has.
    #[error("`{letter}` at column {column} of `{list}` is no event modifier")]
    UnknownModifier {
        /// The whole list.
        list: String,
        /// The letter.
        letter: char,
        /// Where it stands, counted from 1.
        column: usize,
    },
    /// A modifier that stands twice.
    #[error("modifier `{letter}` stands twice, again at column {column} of `{list}`")]
    DuplicateModifier {
        /// The whole list.
        list: String,
        /// The letter.
        letter: char,
        /// Where it stands for the second time, counted from 1.
        column: usize,
    },
    /// Nothing between two commas.
    #[error("an event is missing at column {column} of `{list}`")]
    Missing {
        /// The whole list.
        list: String,
        /// Where it should begin, counted from 1.
        column: usize,
    },
    /// A brace, slash or quote without its partner.
    #[error("`{letter}` at column {column} of `{list}` is never closed")]
    Unclosed {
        /// The whole list.
        list: String,
        /// What was opened.
        letter: char,
        /// Where, counted from 1.
        column: usize,
    },
    /// Something that cannot stand where it does.
    #[error("`{letter}` at column {column} of `{list}` is out of place")]
    Unexpected {
        /// The whole list.
        list: String,
        /// What stands there.
        letter: char,
        /// Where, counted from 1.
        column: usize,
    },
    /// A form of event that exists, and that this version does not record.
    #[error("{form} at column {column} of `{list}` cannot be recorded")]
    Unsupported {
        /// The whole list.
        list: String,
        /// What it is.
        form: &'static str,
        /// Where it begins, counted from 1.
        column: usize,
    },
    /// The file has no function of this name.
    #[error("`{path}` has no function `{function}`, at column {column} of `{list}`")]
    UnknownFunction {
        /// The whole list.
        list: String,
        /// The file.
        path: String,
        /// What was looked for.
        function: String,
        /// Where its name begins, counted from 1.
        column: usize,
        /// The function that is most like it.
        nearest: Option<String>,
    },
    /// The kernel's tracepoints could not be looked at.
    #[error("cannot look up tracepoint `{name}`")]
    Tracepoint {
        /// The tracepoint.
        name: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The kernel's PMUs could not be looked at.
    #[error("cannot look up PMU `{name}`")]
    Pmu {
        /// The PMU.
        name: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A BPF object file cannot be used.
    #[error("cannot take BPF programs from `{path}`")]
    Object {
        /// The file.
        path: String,
        /// Why not.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A BPF object file has no programs.
    #[error("`{path}` has no BPF programs")]
    NoPrograms {
        /// The file.
        path: String,
    },
    /// The object file has no program of this name.
    #[error("`{path}` has no program `{program}`, at column {column} of `{list}`")]
    UnknownProgram {
        /// The whole list.
        list: String,
        /// The file.
        path: String,
        /// What was looked for.
        program: String,
        /// Where its name begins, counted from 1.
        column: usize,
        /// All that it has.
        known: Vec<String>,
    },
    /// A program stands in a section that leads to no event.
    #[error("program `{program}` of `{path}` is in section `{section}`, which leads to no event")]
    UnknownSection {
        /// The file.
        path: String,
        /// The program.
        program: String,
        /// Its section.
        section: String,
    },
    /// The kernel does not have the place that a program is for.
    #[error("program `{program}` is for `{section}`, and this kernel has no {hook}")]
    NoHook {
        /// The program.
        program: String,
        /// Its section.
        section: String,
        /// What is missing.
        hook: String,
    },
    /// The file has no function that a program is for.
    #[error("program `{program}` is for `{section}`, and `{path}` has no such function")]
    NoPlace {
        /// The program.
        program: String,
        /// Its section.
        section: String,
        /// The file.
        path: String,
    },
    /// The file in which a function is to be probed could not be read.
    #[error("cannot read `{path}`")]
    File {
        /// The file.
        path: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

impl Error {
    /// The known name that is most like the unknown one, if one is.
    pub fn nearest(&self) -> Option<&str> {
        match self {
            Self::UnknownEvent { nearest, .. }
            | Self::UnknownTerm { nearest, .. }
            | Self::UnknownFunction { nearest, .. } => nearest.as_deref(),
            _ => None,
        }
    }
}
