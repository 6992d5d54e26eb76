//! Mangled names to what the programmer wrote.

use std::borrow::Cow;
use std::fmt;
use std::fmt::Write as _;

use super::itanium;

/// The longest demangled name, in bytes: a nested C++ template of 160 characters can stand for one of
/// 35 MB. What would be longer is shown mangled.
pub const MAX_DEMANGLED_BYTES: usize = 64 << 10;

/// The name as the programmer wrote it: Rust (legacy and v0, without the hash), C++ (with
/// parameters), OCaml, Java (without what it returns); any other name as it is. A stub `NAME@plt` is
/// that of the demangled name.
///
/// perf also takes a C function called `f` or `Pc` for the C++ types `float` and `char*`, and C++
/// variables of an anonymous namespace for Rust; this does not.
pub fn demangle(name: &str) -> Cow<'_, str> {
    let stub_of = name.strip_suffix(STUB);
    let demangled = demangled(stub_of.unwrap_or(name)).map(|mut it| {
        if stub_of.is_some() {
            it.push_str(STUB);
        }
        it
    });
    demangled.map_or(Cow::Borrowed(name), Cow::Owned)
}

/// What stands behind the names of stubs of the linkage table.
const STUB: &str = "@plt";

fn demangled(name: &str) -> Option<String> {
    match name.as_bytes() {
        [b'_', b'Z', ..] if name.contains("_GLOBAL__N_") => cpp(name),
        [b'_', b'Z' | b'R', ..] => rust(name).or_else(|| cpp(name)),
        [b'_', b'_', b'Z' | b'R', ..] => rust(name),
        [b'_', b'G', ..] => cpp(name),
        [b'c', b'a', b'm', b'l', b'A'..=b'Z', ..] => Some(ocaml(name)),
        [b'L', ..] => java(name),
        _ => None,
    }
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

/// `La/b/Class;run(I[Ljava/lang/String;)V` is `a.b.Class.run(int, java.lang.String[])`.
///
/// Source: 4.3.3 "Method Descriptors" of the Java Virtual Machine Specification for the types; the
/// names are those that perf's agent for the JVM writes (`tools/perf/jvmti/libjvmti.c`).
fn java(name: &str) -> Option<String> {
    let (class, rest) = name.strip_prefix('L')?.split_once(';')?;
    let (method, rest) = rest.split_once('(')?;
    let (arguments, _returned) = rest.rsplit_once(')')?;
    if class.is_empty() || class.contains('(') {
        return None;
    }
    let mut shown = class.replace('/', ".");
    // `<init>` and `<clinit>` follow without a dot in perf.
    if method.starts_with(|it: char| it.is_ascii_alphabetic()) {
        shown.push('.');
    }
    shown.push_str(method);
    let mut rest = arguments;
    while !rest.is_empty() {
        let element = rest.trim_start_matches('[');
        let n_dimensions = rest.len() - element.len();
        let mut chars = element.chars();
        let (of_class, after);
        let element = match chars.next()? {
            'B' => "byte",
            'C' => "char",
            'D' => "double",
            'F' => "float",
            'I' => "int",
            'J' => "long",
            'S' => "short",
            'Z' => "boolean",
            'L' => {
                (of_class, after) = chars.as_str().split_once(';')?;
                chars = after.chars();
                &of_class.replace('/', ".")
            }
            _ => return None,
        };
        shown.push_str(if rest.len() == arguments.len() { "(" } else { ", " });
        shown.push_str(element);
        shown.push_str(&"[]".repeat(n_dimensions));
        rest = chars.as_str();
    }
    shown.push_str(if arguments.is_empty() { "()" } else { ")" });
    Some(shown)
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
    fn java_methods_have_their_class_and_the_types_of_their_arguments() {
        check("La/b/C;run()V", "a.b.C.run()");
        check("LB;x(J[BLjava/lang/Object;)Z", "B.x(long, byte[], java.lang.Object)");
        check("La/B$C;f([[Lx/Y;Z)Lx/Y;", "a.B$C.f(x.Y[][], boolean)");
        check("La/B;<init>()V", "a.B<init>()");
        for name in ["LB;x(Q)V", "LB;x(I", "Lfoo(I)V", "L;x()V", "LB;x([)V", "LB;x(LC)V"] {
            check(name, name);
        }
    }

    #[test]
    fn a_stub_is_called_after_the_demangled_name() {
        check("_ZN3foo3barEv@plt", "foo::bar()@plt");
        check("_RNvC3foo3bar@plt", "foo::bar@plt");
        check("rand@plt", "rand@plt");
    }

    #[test]
    fn suffixes_of_clones_stay_and_llvms_go_with_the_hash() {
        check("_ZN3foo3barEv.isra.0.cold", "foo::bar() [clone .isra.0] [clone .cold]");
        check("_ZN3foo3barEv.constprop.0", "foo::bar() [clone .constprop.0]");
        check("_ZN3foo3barEv.part.0", "foo::bar() [clone .part.0]");
        check("_ZN3foo3barEv.lto_priv.0", "foo::bar() [clone .lto_priv.0]");
        check("_ZN3foo3barEv.llvm.123", "foo::bar() [clone .llvm.123]");
        check("_RNvC3foo3bar.cold", "foo::bar.cold");
    }

    #[test]
    fn other_names_stay_as_they_are() {
        let c = ["main", "foo.cold", "foo.isra.0", "f", "Pc", "_Z", "_R", "__x64_sys_read", ""];
        let d_and_swift =
            ["_D3std5stdio4File6__ctorMFAyaAxaZv", "$s4main3fooyyF", "_T04main3fooyyF"];
        let go = ["main.main", "runtime.mallocgc", "github.com/a/b.(*T).M", "L"];
        for name in [&c[..], &d_and_swift, &go].concat() {
            check(name, name);
        }
    }
}
