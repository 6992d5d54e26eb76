//! Tests of what a user or a reader of this repository sees, without a kernel's help.

#[cfg(test)]
mod architecture;
mod bpf_info;
mod decode;
mod sample;
mod vector;
