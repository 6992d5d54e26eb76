//! What libbpf says, which it says to whoever listens and not to whoever calls.
//!
//! libbpf-rs listens, too, but takes all of it for UTF-8 and ends the process where it is not: names
//! out of an object file are any bytes.
//!
//! Source: `libbpf_set_print()` in libbpf's `src/libbpf.c`.

use std::cell::RefCell;
use std::ffi::c_char;
use std::ffi::c_int;
use std::ffi::c_void;

use libbpf_rs::libbpf_sys as raw;

/// The most that is kept of what is said during one call, in bytes.
const MOST: usize = 64 << 20;

thread_local! {
    /// What was said to this thread; libbpf speaks on the thread that calls.
    static SAID: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// As `libbpf_print_fn_t`, but for the last: the list of arguments has another type on each machine,
/// and is a pointer on all of them.
type Listener = extern "C" fn(raw::libbpf_print_level, *const c_char, *mut c_void) -> c_int;

extern "C" fn listen(
    level: raw::libbpf_print_level,
    format: *const c_char,
    arguments: *mut c_void,
) -> c_int {
    if level == raw::LIBBPF_WARN {
        // SAFETY: libbpf calls with a format that ends, and with the arguments that it wants.
        let text = unsafe { vsprintf::vsprintf_raw(format, arguments) };
        let text = text.unwrap_or_default();
        SAID.with_borrow_mut(|said| {
            let room = MOST.saturating_sub(said.len());
            said.extend(text.into_iter().take(room));
        });
    }
    0
}

/// What `call` returns, and what libbpf said of it: warnings, and the verifier's log.
pub fn heard<T>(call: impl FnOnce() -> T) -> (T, Vec<u8>) {
    // SAFETY: a list of arguments is given as a pointer, so that the function is of the type that
    // `libbpf_set_print()` takes.
    let listener = unsafe { std::mem::transmute::<Listener, raw::libbpf_print_fn_t>(listen) };
    // SAFETY: the function is there as long as the process. Others may listen then that hear nothing.
    unsafe { raw::libbpf_set_print(listener) };
    SAID.take();
    let result = call();
    (result, SAID.take())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_utf8_is_heard_too() {
        let (object, said) = heard(|| {
            // SAFETY: the path ends with a zero, and no options are asked for by null.
            unsafe { raw::bpf_object__open_file(c"/gone-\xff.o".as_ptr(), std::ptr::null()) }
        });
        assert!(object.is_null());
        let want = b"libbpf: elf: failed to open /gone-\xff.o: ";
        assert_eq!(said.get(..want.len()), Some(&want[..]));
    }
}
