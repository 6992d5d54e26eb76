//! Tests of what a user or a reader of this repository sees, without a kernel's help.

#[cfg(test)]
mod architecture;
mod bpf_info;
mod decode;
#[cfg(test)]
mod report;
mod sample;
mod vector;
