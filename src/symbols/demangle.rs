//! Mangled names to what the programmer wrote.

use std::borrow::Cow;
use std::fmt;
use std::fmt::Write as _;

use cpp_demangle::BorrowedSymbol;
use cpp_demangle::DemangleOptions;
use cpp_demangle::ParseOptions;

/// The longest demangled name, in bytes: a nested C++ template of 160 characters can stand for one of
/// 35 MB. What would be longer is shown mangled.
pub const MAX_DEMANGLED_BYTES: usize = 64 << 10;

/// The name as the programmer wrote it: Rust (legacy and v0, without the hash), then C++ (with
/// parameters); any other name as it is.
pub fn demangle(name: &str) -> Cow<'_, str> {
    // Every scheme marks its names with `_Z` or `_R`, some with one underscore more.
    let marked = name.trim_start_matches('_');
    if marked.len() == name.len() || !marked.starts_with(['Z', 'R']) {
        return Cow::Borrowed(name);
    }
    rust(name).or_else(|| cpp(name)).map_or(Cow::Borrowed(name), Cow::Owned)
}

fn rust(name: &str) -> Option<String> {
    let demangled = rustc_demangle::try_demangle(name).ok()?;
    let mut out = Capped(String::new());
    write!(out, "{demangled:#}").ok()?;
    Some(out.0)
}

fn cpp(name: &str) -> Option<String> {
    let parse = ParseOptions::default().recursion_limit(160);
    let show = DemangleOptions::default().recursion_limit(256);
    let parsed = BorrowedSymbol::new_with_options(name.as_bytes(), &parse).ok()?;
    let mut out = Capped(String::new());
    parsed.structured_demangle(&mut out, &show).ok()?;
    Some(out.0)
}

/// Text that refuses to grow beyond [`MAX_DEMANGLED_BYTES`].
struct Capped(String);

impl fmt::Write for Capped {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if text.len() > MAX_DEMANGLED_BYTES.saturating_sub(self.0.len()) {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}
