//! The kernel's words for kinds of links, maps and attachments, as libbpf and bpftool spell them.

use std::ffi::CStr;
use std::ffi::c_char;

use libbpf_rs::libbpf_sys as raw;

/// An `enum bpf_link_type`, such as `raw_tracepoint`; `None` for one that is not known here.
pub fn link_kind(kind: u32) -> Option<&'static str> {
    // SAFETY: takes a number, and returns null or a string constant.
    let name = unsafe { raw::libbpf_bpf_link_type_str(kind) };
    // SAFETY: as said above.
    unsafe { text(name) }
}

/// An `enum bpf_attach_type`, such as `trace_fentry`.
pub fn attach_kind(kind: u32) -> Option<&'static str> {
    // SAFETY: takes a number, and returns null or a string constant.
    let name = unsafe { raw::libbpf_bpf_attach_type_str(kind) };
    // SAFETY: as said above.
    unsafe { text(name) }
}

/// An `enum bpf_map_type`, such as `percpu_array`.
pub fn map_kind(kind: u32) -> Option<&'static str> {
    // SAFETY: takes a number, and returns null or a string constant.
    let name = unsafe { raw::libbpf_bpf_map_type_str(kind) };
    // SAFETY: as said above.
    unsafe { text(name) }
}

/// # Safety
///
/// `name` is null or a string constant.
unsafe fn text(name: *const c_char) -> Option<&'static str> {
    if name.is_null() {
        return None;
    }
    // SAFETY: by this function's contract it ends with a zero and lives forever.
    unsafe { CStr::from_ptr(name) }.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_spelled_as_bpftool_spells_them() {
        assert_eq!(link_kind(raw::BPF_LINK_TYPE_RAW_TRACEPOINT), Some("raw_tracepoint"));
        assert_eq!(attach_kind(raw::BPF_TRACE_FENTRY), Some("trace_fentry"));
        assert_eq!(map_kind(raw::BPF_MAP_TYPE_PERCPU_ARRAY), Some("percpu_array"));
        assert_eq!(link_kind(9999), None);
    }
}
