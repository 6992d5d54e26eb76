//! Filters of tracepoints, in the kernel's language: checked before the kernel, which says of a
//! wrong one no more than that it is wrong.
//!
//! ```text
//! filter      predicate | !filter | (filter) | filter && filter | filter || filter
//! predicate   FIELD OPERATOR VALUE        prev_pid > 0   comm ~ "sh*"   flags & 0x10
//! ```
//!
//! Source: `Documentation/trace/events.rst`, section 5; `predicate_parse()` and `parse_pred()` in
//! `kernel/trace/trace_events_filter.c`.

use super::names;
use super::sample_filter::Expr;
use crate::perfdata::trace_format::EventFormat;
use crate::perfdata::trace_format::FieldFlags;
use crate::units::Tid;

/// What lets the samples of an event through; all by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filters {
    /// Of a tracepoint, filters in the kernel's language that all have to fit.
    pub texts: Vec<String>,
    /// Of any other event, filters that all have to fit.
    pub samples: Vec<Expr>,
    /// Whether what the recorder itself does is left out.
    pub excludes_recorder: bool,
}

impl Filters {
    /// The filter of a tracepoint to set, `own` being the threads of the recorder; `None` to let all through.
    pub fn text(&self, own: &[Tid]) -> Option<String> {
        let mut parts: Vec<String> = self.texts.iter().map(|it| format!("({it})")).collect();
        if self.excludes_recorder {
            parts.extend(own.iter().map(|tid| format!("(common_pid != {tid})")));
        }
        (!parts.is_empty()).then(|| parts.join(" && "))
    }
}

/// What is wrong with a filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at column {column} of `{filter}`")]
pub struct BadFilter {
    /// The whole filter.
    pub filter: String,
    /// What is wrong, in words.
    pub what: String,
    /// Where, counted in characters from 1.
    pub column: usize,
    /// The field that is most like the unknown one.
    pub nearest: Option<String>,
}

/// Fields that the kernel gives to every tracepoint beside those of its format.
///
/// Source: `trace_define_generic_fields()` in `kernel/trace/trace_events.c`.
const GENERIC: [&str; 6] = ["CPU", "cpu", "COMM", "comm", "stacktrace", "STACKTRACE"];

/// The longest first.
const OPERATORS: [&str; 8] = ["==", "!=", "<=", ">=", "<", ">", "&", "~"];

/// Checks `filter` against the format of the event that it is for.
///
/// What is passed may still be refused by the kernel; what is not passed would be.
///
/// # Errors
///
/// [`BadFilter`] with the column.
pub fn check(filter: &str, format: &EventFormat) -> Result<(), BadFilter> {
    let mut checker = Checker { filter, at: 0, format };
    checker.alternatives(0)?;
    match checker.peek() {
        None => Ok(()),
        Some(')') => Err(checker.bad("`)` closes nothing")),
        Some(_) => Err(checker.bad("`&&` or `||` is missing")),
    }
}

/// How deep brackets may nest here; the kernel's own limit is the number of predicates.
const DEEPEST: u32 = 64;

struct Checker<'a> {
    filter: &'a str,
    at: usize,
    format: &'a EventFormat,
}

impl<'a> Checker<'a> {
    fn rest(&self) -> &'a str {
        self.filter.get(self.at..).unwrap_or_default()
    }

    fn peek(&mut self) -> Option<char> {
        self.at += self.rest().len() - self.rest().trim_start().len();
        self.rest().chars().next()
    }

    fn eat(&mut self, text: &str) -> bool {
        self.peek();
        let is_there = self.rest().starts_with(text);
        self.at += if is_there { text.len() } else { 0 };
        is_there
    }

    fn bad(&self, what: impl Into<String>) -> BadFilter {
        let column = super::column(self.filter, self.at);
        BadFilter { filter: self.filter.to_owned(), what: what.into(), column, nearest: None }
    }

    fn alternatives(&mut self, depth: u32) -> Result<(), BadFilter> {
        loop {
            self.one(depth)?;
            if !self.eat("&&") && !self.eat("||") {
                return Ok(());
            }
        }
    }

    fn one(&mut self, depth: u32) -> Result<(), BadFilter> {
        if DEEPEST < depth {
            return Err(self.bad("brackets nest too deep"));
        }
        match self.peek() {
            None => Err(self.bad("a field is missing")),
            Some('!') => {
                self.at += 1;
                self.one(depth + 1)
            }
            Some('(') => {
                let opened_at = self.at;
                self.at += 1;
                self.alternatives(depth + 1)?;
                if self.eat(")") {
                    return Ok(());
                }
                if self.peek().is_some() {
                    return Err(self.bad("`&&`, `||` or `)` is missing"));
                }
                self.at = opened_at;
                Err(self.bad("`(` is never closed"))
            }
            Some(_) => self.predicate(),
        }
    }

    fn predicate(&mut self) -> Result<(), BadFilter> {
        let is_name = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '.');
        let rest = self.rest();
        let name = rest.split(|it| !is_name(it)).next().unwrap_or_default();
        if name.is_empty() {
            return Err(self.bad("a field is missing"));
        }
        // `comm.ustring`, `func.function`, `CPUS{1-3}`: how a field is taken.
        let bare = name.split('.').next().unwrap_or_default();
        let field = self.format.fields.iter().find(|it| it.name == bare);
        if field.is_none() && !GENERIC.contains(&bare) {
            let fields = self.format.fields.iter().map(|it| it.name.as_str());
            let nearest = names::nearest_of(bare, fields);
            return Err(BadFilter { nearest, ..self.bad(format!("no field is called `{bare}`")) });
        }
        self.at += name.len();
        self.peek();
        let operator_at = self.at;
        // `flags & 1`, but not `a && b`.
        let is_and = self.rest().starts_with("&&");
        let Some(operator) = OPERATORS.iter().find(|it| !is_and && self.rest().starts_with(**it))
        else {
            return Err(self.bad(format!("`{name}` is not compared with anything")));
        };
        self.at += operator.len();
        let is_text = match field {
            Some(field) => field.flags.contains(FieldFlags::STRING) || name.contains(".ustring"),
            None => bare.eq_ignore_ascii_case("comm"),
        };
        if is_text && !matches!(*operator, "==" | "!=" | "~") {
            self.at = operator_at;
            return Err(self.bad(format!("`{operator}` does not compare text as `{name}`")));
        }
        self.value(name, is_text, operator == &"~")
    }

    fn value(&mut self, name: &str, is_text: bool, is_pattern: bool) -> Result<(), BadFilter> {
        let Some(first) = self.peek() else {
            return Err(self.bad(format!("a value for `{name}` is missing")));
        };
        if matches!(first, '"' | '\'') {
            let rest = self.rest().get(1..).unwrap_or_default();
            let Some(len) = rest.find(first) else {
                return Err(self.bad(format!("`{first}` is never closed")));
            };
            if !is_text && !is_pattern && !name.contains('.') {
                return Err(self.bad(format!("`{name}` is a number")));
            }
            self.at += len + 2;
            return Ok(());
        }
        if is_text || is_pattern {
            return Err(self.bad(format!("text is in quotes, as `{name} == \"x\"`")));
        }
        let rest = self.rest();
        if rest.starts_with("CPUS{") || name.contains('.') {
            // A set of CPUs or a function's name: the kernel's to judge.
            let ends = rest.find([')', '&', '|']).unwrap_or(rest.len());
            self.at += ends;
            return Ok(());
        }
        let digits = rest.strip_prefix('-').unwrap_or(rest);
        let word = digits.split(|it: char| !it.is_ascii_alphanumeric()).next().unwrap_or_default();
        if !is_number(word) {
            return Err(self.bad(format!("`{name}` is compared with a number")));
        }
        self.at += rest.len() - digits.len() + word.len();
        Ok(())
    }
}

/// As C has them: decimal, `0x` and hexadecimal, `0` and octal.
fn is_number(word: &str) -> bool {
    if let Some(digits) = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        return u64::from_str_radix(digits, 16).is_ok();
    }
    let is_octal = 1 < word.len() && word.starts_with('0');
    u64::from_str_radix(word, if is_octal { 8 } else { 10 }).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: sched_switch
ID: 372
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;
\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;

print fmt: \"%d\", REC->prev_pid
";

    #[track_caller]
    fn passes(filter: &str) {
        let format = EventFormat::parse(FORMAT, 8).unwrap();
        assert_eq!(check(filter, &format), Ok(()), "{filter}");
    }

    #[track_caller]
    fn refused(filter: &str, want: &str, want_nearest: Option<&str>) {
        let format = EventFormat::parse(FORMAT, 8).unwrap();
        let error = check(filter, &format).unwrap_err();
        assert_eq!(error.to_string(), format!("{want} of `{filter}`"));
        assert_eq!(error.nearest.as_deref(), want_nearest);
    }

    #[test]
    fn what_the_kernel_takes_passes() {
        passes("prev_pid > 0");
        passes("prev_pid!=-1&&(prev_state & 0x10 || !(prev_comm ~ \"sh*\"))");
        passes("prev_comm == 'a b' || common_pid == 017 && CPU & CPUS{0-3}");
        passes("comm ~ \"x\" && cpu == 1");
    }

    #[test]
    fn an_unknown_field_points_at_its_column_and_its_neighbour() {
        refused(
            "prev_pid>0 && pre_pid==1",
            "no field is called `pre_pid` at column 15",
            Some("prev_pid"),
        );
        refused("x", "no field is called `x` at column 1", None);
    }

    #[test]
    fn an_unfinished_filter_points_at_what_is_missing() {
        refused("", "a field is missing at column 1", None);
        refused("prev_pid", "`prev_pid` is not compared with anything at column 9", None);
        refused("prev_pid >", "a value for `prev_pid` is missing at column 11", None);
        refused("(prev_pid > 0", "`(` is never closed at column 1", None);
        refused("prev_pid > 0)", "`)` closes nothing at column 13", None);
        refused("prev_pid > 0 &&", "a field is missing at column 16", None);
        refused("prev_pid > 0 prev_pid", "`&&` or `||` is missing at column 14", None);
        refused("prev_comm == \"x", "`\"` is never closed at column 14", None);
        refused(&"(".repeat(70), "brackets nest too deep at column 66", None);
    }

    #[test]
    fn numbers_and_text_are_not_mixed() {
        refused("prev_pid == abc", "`prev_pid` is compared with a number at column 13", None);
        refused("prev_pid == \"1\"", "`prev_pid` is a number at column 13", None);
        refused("prev_comm > \"a\"", "`>` does not compare text as `prev_comm` at column 11", None);
        refused("prev_comm == sh", "text is in quotes, as `prev_comm == \"x\"` at column 14", None);
    }

    #[test]
    fn all_filters_have_to_fit_and_the_recorder_may_be_left_out() {
        let mut filters = Filters::default();
        assert_eq!(filters.text(&[Tid(7)]), None);
        filters.texts = vec!["a > 0".to_owned(), "b == 1 || c == 2".to_owned()];
        filters.excludes_recorder = true;
        assert_eq!(
            filters.text(&[Tid(7), Tid(9)]).as_deref(),
            Some("(a > 0) && (b == 1 || c == 2) && (common_pid != 7) && (common_pid != 9)")
        );
    }
}
