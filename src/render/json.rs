//! JSON that a terminal shows as it is: what JSON lets through raw, and a terminal would obey, is
//! escaped too.

use std::io;
use std::io::Write;

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::CompactFormatter;
use serde_json::ser::Formatter;
use serde_json::ser::PrettyFormatter;

use crate::units::is_unfit;

/// How JSON is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// On one line.
    Compact,
    /// A member a line.
    Pretty,
}

/// Writes `value` as JSON.
///
/// # Errors
///
/// Whatever `out` says.
pub fn write<T: Serialize>(value: &T, layout: Layout, out: &mut dyn Write) -> io::Result<()> {
    let written = match layout {
        Layout::Compact => {
            value.serialize(&mut Serializer::with_formatter(out, Fit(CompactFormatter)))
        }
        Layout::Pretty => {
            value.serialize(&mut Serializer::with_formatter(out, Fit(PrettyFormatter::new())))
        }
    };
    written.map_err(io::Error::from)
}

/// A layout whose strings are fit for a terminal.
struct Fit<F>(F);

impl<F: Formatter> Formatter for Fit<F> {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(is_unfit) {
            let (fit, unfit) = rest.split_at(at);
            writer.write_all(fit.as_bytes())?;
            let mut chars = unfit.chars();
            if let Some(unfit) = chars.next() {
                let mut units = [0; 2];
                for unit in unfit.encode_utf16(&mut units) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
            rest = chars.as_str();
        }
        writer.write_all(rest.as_bytes())
    }

    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_array_value(writer, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: &serde_json::Value, layout: Layout, want: &str) {
        let mut out = Vec::new();
        write(value, layout, &mut out).unwrap();
        assert_eq!(std::str::from_utf8(&out), Ok(want));
        let back: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(&back, value);
    }

    #[test]
    fn what_a_terminal_would_obey_is_escaped_and_comes_back() {
        let value = serde_json::json!({"a\u{7f}": ["\u{9b}2J", "x\u{202e}y", "\n\"", "gr\u{fc}n"]});
        let want = "{\"a\\u007f\":[\"\\u009b2J\",\"x\\u202ey\",\"\\n\\\"\",\"gr\u{fc}n\"]}";
        check(&value, Layout::Compact, want);
    }

    #[test]
    fn the_layout_is_that_of_serde() {
        let value = serde_json::json!({"a": [1, {}], "b": []});
        check(&value, Layout::Pretty, &serde_json::to_string_pretty(&value).unwrap());
        check(&value, Layout::Compact, &value.to_string());
    }
}
