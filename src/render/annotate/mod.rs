//! Annotated code as text, in the spirit of `perf annotate --stdio`, and as JSON.

mod json;
mod text;

use crate::profile::Annotated;
use crate::profile::Place;
use crate::profile::Weight;
use crate::render::source_text::SourceText;
use crate::replay::Names;
use crate::replay::NoCode;
use crate::replay::Programs;
use crate::replay::programs::Program;
use crate::replay::resolved::Dso;
use crate::replay::resolved::EventInfo;
use crate::replay::spans::Moment;
use crate::symbols::Syntax;
use crate::units::Addr;
use crate::units::Nanos;

pub use json::json;
pub use text::text;

/// The recording that functions are shown of.
pub struct Context<'a> {
    /// Its events.
    pub events: &'a [EventInfo],
    /// What fell on all of it, by event.
    pub totals: Vec<Weight>,
    /// Its BPF programs.
    pub programs: &'a Programs<'a>,
    /// The names in it.
    pub names: &'a Names<'a>,
    /// Source files.
    pub source: &'a dyn SourceText,
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("events", &self.events).finish_non_exhaustive()
    }
}

/// A function to be shown.
#[derive(Debug)]
pub struct Function<'a> {
    /// Its name as it is shown.
    pub name: &'a str,
    /// Its module; `None` where a BPF program without samples is shown.
    pub dso: Option<&'a Dso>,
    /// Its code with its samples.
    pub annotated: Annotated<'a>,
}

/// A function of which there is no code.
#[derive(Debug)]
pub struct Missing<'a> {
    /// Its name as it is shown.
    pub name: &'a str,
    /// Its module.
    pub dso: Option<&'a Dso>,
    /// What fell on it, by event.
    pub totals: Vec<Weight>,
    /// Why there is no code.
    pub because: NoCode,
}

/// How functions are shown.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag on the command line")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// How instructions are written.
    pub syntax: Syntax,
    /// What shares are shares of.
    pub share: Share,
    /// Lines of source are shown.
    pub has_source: bool,
    /// Instructions with samples name their line, and each function begins with a list of its
    /// heaviest lines.
    pub has_lines: bool,
    /// Instructions are shown as bytes, too.
    pub has_bytes: bool,
    /// Paths of source files are shown in full.
    pub has_full_paths: bool,
}

/// What shares are shares of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Share {
    /// Of the function's period.
    #[default]
    LocalPeriod,
    /// Of the function's samples.
    LocalHits,
    /// Of the period of all samples.
    GlobalPeriod,
    /// Of all samples.
    GlobalHits,
}

impl Share {
    /// The name by which perf knows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::LocalPeriod => "local period",
            Self::LocalHits => "local hits",
            Self::GlobalPeriod => "global period",
            Self::GlobalHits => "global hits",
        }
    }

    /// The share of `part` in a function with `local` in a recording with `global`, in percent.
    fn percent(self, part: Weight, local: Weight, global: Weight) -> f64 {
        let (part, whole) = match self {
            Self::LocalPeriod => (part.period, local.period),
            Self::LocalHits => (part.n_samples, local.n_samples),
            Self::GlobalPeriod => (part.period, global.period),
            Self::GlobalHits => (part.n_samples, global.n_samples),
        };
        if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
    }
}

/// What lies at an address that an instruction leads or refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    name: String,
    /// How far into it, in bytes.
    offset: u64,
}

impl Function<'_> {
    /// What lies at `addr`: in the function itself, in its program or file, or in the kernel.
    fn target(&self, addr: Addr, context: &Context<'_>) -> Option<Target> {
        let Annotated { samples, code } = &self.annotated;
        if addr - code.start < code.bytes.len() as u64 {
            return Some(Target { name: self.name.to_owned(), offset: addr - code.start });
        }
        if let Place::Mapped { mapping, .. } = samples.place {
            let symbol = context.names.symbol_in(mapping, addr)?;
            return Some(Target { name: symbol.shown().into_owned(), offset: symbol.offset });
        }
        let own = match samples.place {
            Place::Bpf(id) => context.programs.function_of(id.program, addr),
            Place::Image(_) | Place::Mapped { .. } => None,
        };
        if let Some(function) = own {
            let name = String::from_utf8_lossy(&function.name).into_owned();
            return Some(Target { name, offset: addr - function.start });
        }
        // A program without samples is shown as it was when it was loaded.
        let time = if samples.first == Nanos(0) {
            self.program(context).and_then(|it| it.loaded).unwrap_or_default()
        } else {
            samples.first
        };
        let symbol = context.names.kernel_symbol(addr, Moment { time, position: u64::MAX })?;
        Some(Target { name: symbol.shown().into_owned(), offset: symbol.offset })
    }

    /// The BPF program that it is of.
    fn program<'c>(&self, context: &'c Context<'_>) -> Option<&'c Program<'c>> {
        match self.annotated.samples.place {
            Place::Bpf(id) => Some(context.programs.program(id.program)),
            Place::Image(_) | Place::Mapped { .. } => None,
        }
    }

    /// Where in its BPF program it stands.
    fn number(&self, context: &Context<'_>) -> Option<usize> {
        let Place::Bpf(id) = self.annotated.samples.place else { return None };
        Some(self.program(context)?.functions.get(id.function as usize)?.idx)
    }

    /// What is written for an address within its code: BPF's by the distance from the start, since
    /// where a program lies says nothing; a file's by its link-time address.
    fn shown(&self, addr: Addr) -> u64 {
        match self.annotated.samples.place {
            Place::Mapped { .. } => addr.0,
            Place::Bpf(_) | Place::Image(_) => addr - self.annotated.code.start,
        }
    }
}

/// `bytes` in hexadecimal, two digits each, with `separator` between them.
fn bytes_in_hex(bytes: &[u8], separator: &str) -> String {
    bytes.iter().map(|it| format!("{it:02x}")).collect::<Vec<_>>().join(separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(share: Share, want: f64) {
        let weight = |period, n_samples| Weight { period, n_samples };
        let found = share.percent(weight(30, 1), weight(60, 4), weight(300, 10));
        assert!((found - want).abs() < 1e-9, "{found}");
    }

    #[test]
    fn a_share_is_of_the_function_or_of_everything() {
        check(Share::LocalPeriod, 50.0);
        check(Share::LocalHits, 25.0);
        check(Share::GlobalPeriod, 10.0);
        check(Share::GlobalHits, 10.0);
        let none = Weight::default();
        assert_eq!(Share::LocalPeriod.percent(none, none, none).to_bits(), 0);
    }

    #[test]
    fn bytes_have_two_digits_each() {
        assert_eq!(bytes_in_hex(&[0, 0x1f, 0xff], " "), "00 1f ff");
        assert_eq!(bytes_in_hex(&[], ""), "");
    }
}
