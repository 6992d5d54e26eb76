//! What libbpf says, line by line.

use crate::sys::libbpf_messages;

use super::Log;

/// What `call` returns, and what libbpf said of it: warnings, and the verifier's log.
pub(in crate::bpf) fn heard<T>(call: impl FnOnce() -> T) -> (T, Log) {
    let (result, said) = libbpf_messages::heard(call);
    let said = String::from_utf8_lossy(&said);
    let lines = said.lines().map(|it| it.trim_start_matches("libbpf: ").to_owned()).collect();
    (result, Log { lines })
}
