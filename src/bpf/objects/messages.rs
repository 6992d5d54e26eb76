//! What libbpf says, which it says to whoever listens and not to whoever calls.

use std::cell::RefCell;

use libbpf_rs::PrintLevel;

use super::Log;

thread_local! {
    /// What was said to this thread; libbpf speaks on the thread that calls.
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

#[expect(clippy::needless_pass_by_value, reason = "the library calls it so")]
fn listen(_: PrintLevel, text: String) {
    SAID.with_borrow_mut(|said| said.push_str(&text));
}

/// What `call` returns, and what libbpf said of it: warnings, and the verifier's log.
pub(in crate::bpf) fn heard<T>(call: impl FnOnce() -> T) -> (T, Log) {
    let before = libbpf_rs::set_print(Some((PrintLevel::Warn, listen)));
    SAID.take();
    let result = call();
    libbpf_rs::set_print(before);
    let lines =
        SAID.take().lines().map(|it| it.trim_start_matches("libbpf: ").to_owned()).collect();
    (result, Log { lines })
}
