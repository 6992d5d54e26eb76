//! An event's `format` file: which fields its raw data holds, and how they are printed.
//!
//! The file is text made by the kernel from C source, so the way to print is a `printf` call whose
//! arguments are C expressions over `REC`, the raw data. It comes out of a recording, hence from
//! anyone: what cannot be understood costs the line its shape, and nothing else.
//!
//! Source: `f_show()` and `print_event_fields()` in `kernel/trace/trace_events.c`.

mod expr;
mod field;
mod parse;
mod token;

pub use expr::Binary;
pub use expr::Cast;
pub use expr::Expr;
pub use expr::Named;
pub use expr::Unary;
pub use field::Field;
pub use field::FieldFlags;

/// What is not understood in the way that an event is to be printed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} in a print format")]
pub struct NotUnderstood {
    /// What it is.
    pub what: &'static str,
}

/// An event's format.
#[derive(Clone, Debug, PartialEq)]
pub struct EventFormat {
    /// The event's name, without its system.
    pub name: String,
    /// The number by which the attribute names the event.
    pub id: u64,
    /// The fields, those that all events have first.
    pub fields: Vec<Field>,
    /// How many fields all events have.
    pub n_common: usize,
    /// How it is printed, if that is understood.
    pub print: Result<Print, NotUnderstood>,
}

/// A `printf` call.
#[derive(Clone, Debug, PartialEq)]
pub struct Print {
    /// The format, its escapes as they stand in the source.
    pub format: String,
    /// The arguments.
    pub args: Vec<Expr>,
}

/// The name and number at the start of a format; `None` if they are not there.
pub fn name_and_id(text: &str) -> Option<(&str, u64)> {
    let mut lines = text.lines();
    let name = lines.next()?.strip_prefix("name:")?.trim();
    let id = lines.next()?.strip_prefix("ID:")?.trim();
    Some((name, id.parse().ok()?))
}

impl EventFormat {
    /// Parses the text of a format of a machine whose `long` has `long_len` bytes.
    ///
    /// `None` if it is no format, or if a field has no place: nothing of the event can be shown.
    pub fn parse(text: &str, long_len: u8) -> Option<Self> {
        let (name, id) = name_and_id(text)?;
        let mut fields = Vec::new();
        let mut n_common = 0;
        let mut lines = text.lines().skip(2);
        lines.next().filter(|line| line.trim() == "format:")?;
        let mut rest = text;
        for line in lines {
            let line = line.trim();
            if line.starts_with("field:") {
                fields.push(Field::parse(line, long_len)?);
            } else if line.is_empty() {
                // The line between the fields that all events have and the event's own.
                if n_common == 0 {
                    n_common = fields.len();
                }
            } else {
                break;
            }
        }
        let print = match rest.find("\nprint fmt:") {
            None => Err(NotUnderstood { what: "nothing" }),
            Some(at) => {
                rest = rest.get(at..).unwrap_or_default();
                let rest = rest.strip_prefix("\nprint fmt:").unwrap_or_default();
                parse::parse(rest, &fields, long_len)
            }
        };
        Some(Self { name: name.to_owned(), id, fields, n_common, print })
    }

    /// The fields of the event itself.
    pub fn own_fields(&self) -> &[Field] {
        self.fields.get(self.n_common..).unwrap_or_default()
    }
}
