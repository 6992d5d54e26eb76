//! C++ names of the Itanium ABI, shown as the GNU tools and perf show them.
//!
//! perf prints what `__cxa_demangle` of libstdc++ makes of a name, down to `> >` and `4ul`; to
//! agree with it line by line, so does this. A name is parsed into a [`tree`], where substitutions
//! share nodes, and written from there; template parameters find their arguments while writing.
//!
//! Names come from files, so all is bounded: the length of the mangled name as libstdc++ bounds it,
//! the depth of both recursions, the number of steps, the length of the result.
//!
//! Source: "Mangling" in the Itanium C++ ABI, <https://itanium-cxx-abi.github.io/cxx-abi/abi.html>.

mod expression;
mod parse;
mod tables;
#[cfg(test)]
mod tests;
mod tree;
mod types;
mod write;

/// The longest mangled name that libstdc++ demangles, in bytes: half of its
/// `DEMANGLE_RECURSION_LIMIT`.
const MAX_MANGLED_BYTES: usize = 1024;

/// How deep types and names may nest. More than any compiler's output, less than a thread's stack.
const MAX_DEPTH: u32 = 200;

/// How many nodes are visited to read or write one name.
const MAX_STEPS: u32 = 200_000;

/// What `name` stands for, or `None` if it is no C++ name or one of more than `max_bytes`.
pub(super) fn demangle(name: &str, max_bytes: usize) -> Option<String> {
    if name.len() > MAX_MANGLED_BYTES {
        return None;
    }
    let keyed = ["_GLOBAL__I_", "_GLOBAL__D_"].into_iter().find_map(|it| name.strip_prefix(it));
    if let Some(rest) = keyed {
        let what = if name.starts_with("_GLOBAL__I_") { "constructors" } else { "destructors" };
        let key = if rest.starts_with("_Z") { demangle(rest, max_bytes)? } else { rest.to_owned() };
        return Some(format!("global {what} keyed to {key}"));
    }
    if !name.starts_with("_Z") {
        return None;
    }
    let (tree, root) = parse::parse(name)?;
    write::write(&tree, root, max_bytes)
}
