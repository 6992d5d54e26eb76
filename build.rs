//! Builds the BPF skeletons.
fn main() {}
