//! Mangled names to what the programmer wrote.

use std::borrow::Cow;
use std::fmt;
use std::fmt::Write as _;

use super::itanium;

/// The longest demangled name, in bytes: a nested C++ template of 160 characters can stand for one of
/// 35 MB. What would be longer is shown mangled.
pub const MAX_DEMANGLED_BYTES: usize = 64 << 10;

/// The name as the programmer wrote it: Rust (legacy and v0, without the hash), C++ (with
/// parameters), OCaml; any other name as it is.
///
/// perf also takes a C function called `f` or `Pc` for the C++ types `float` and `char*`, and C++
/// variables of an anonymous namespace for Rust; this does not.
pub fn demangle(name: &str) -> Cow<'_, str> {
    let demangled = match name.as_bytes() {
        [b'_', b'Z', ..] if name.contains("_GLOBAL__N_") => cpp(name),
        [b'_', b'Z' | b'R', ..] => rust(name).or_else(|| cpp(name)),
        [b'_', b'_', b'Z' | b'R', ..] => rust(name),
        [b'_', b'G', ..] => cpp(name),
        [b'c', b'a', b'm', b'l', b'A'..=b'Z', ..] => Some(ocaml(name)),
        _ => None,
    };
    demangled.map_or(Cow::Borrowed(name), Cow::Owned)
}

fn cpp(name: &str) -> Option<String> {
    itanium::demangle(name, MAX_DEMANGLED_BYTES)
}

/// `camlStdlib__List__map_$3d_12` is `Stdlib.List.map_=_12`.
///
/// Source: `caml_symbol()` and `escape_symbol()` in `asmcomp/compilenv.ml` of OCaml.
fn ocaml(name: &str) -> String {
    let mut rest = name.strip_prefix("caml").unwrap_or(name);
    let mut shown = String::new();
    while let Some(next) = rest.chars().next() {
        let escape = rest.strip_prefix('$').and_then(|it| it.get(..2));
        let escaped = escape.and_then(|it| u8::from_str_radix(it, 16).ok());
        let (text, len) = match escaped {
            _ if rest.starts_with("__") => ('.', 2),
            Some(byte) => (char::from(byte), 3),
            None => (next, next.len_utf8()),
        };
        shown.push(text);
        rest = rest.get(len..).unwrap_or_default();
    }
    shown
}

fn rust(name: &str) -> Option<String> {
    let demangled = rustc_demangle::try_demangle(name).ok()?;
    let mut out = Capped(String::new());
    write!(out, "{demangled:#}").ok()?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, want: &str) {
        assert_eq!(demangle(name), want);
    }

    #[test]
    fn rust_names_lose_their_hash() {
        check("_ZN3std2io5error5Error3new17hbb46546882ad6265E", "std::io::error::Error::new");
        check("_ZN3foo3bar17h0123456789abcdefE.llvm.12345", "foo::bar");
        check("_ZN3foo3bar17h0123456789abcdefE.cold", "foo::bar.cold");
        check("_RNvCs4CIB29Id3dw_7___rustc10rust_panic", "__rustc::rust_panic");
        check("_RNvC3foo3bar.llvm.123456", "foo::bar");
    }

    #[test]
    fn cpp_names_are_not_taken_for_rust() {
        check("_ZN12_GLOBAL__N_113single_threadE", "(anonymous namespace)::single_thread");
        check("_ZN3foo3barEv.cold", "foo::bar() [clone .cold]");
        check("_GLOBAL__I_foo", "global constructors keyed to foo");
    }

    #[test]
    fn ocaml_names_are_paths() {
        check("camlStdlib__array__map_154", "Stdlib.array.map_154");
        check("camlFoo__$3d$3e_7", "Foo.=>_7");
        check("camlFoo__$z", "Foo.$z");
        check("camlfoo__bar", "camlfoo__bar");
    }

    #[test]
    fn other_names_stay_as_they_are() {
        for name in ["main", "foo.cold", "foo.isra.0", "f", "Pc", "_Z", "_R", "__x64_sys_read", ""]
        {
            check(name, name);
        }
    }
}
