//! The kernel's BPF side.
