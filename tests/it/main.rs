//! Tests of what a user or a reader of this repository sees, without a kernel's help.

#[cfg(test)]
mod agreement;
#[cfg(test)]
mod annotate;
#[cfg(test)]
mod architecture;
#[cfg(test)]
mod bpf_info;
#[cfg(test)]
mod build;
#[cfg(test)]
mod cases;
#[cfg(test)]
mod cli;
#[cfg(test)]
mod code;
#[cfg(test)]
mod command;
mod compressed;
#[cfg(test)]
mod decode;
#[cfg(test)]
mod directory;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod inject;
#[cfg(test)]
mod inlining;
#[cfg(test)]
mod malformed;
#[cfg(test)]
mod naming;
#[cfg(test)]
mod programs;
#[cfg(test)]
#[path = "../fuzz/recording.rs"]
mod recording;
#[cfg(test)]
mod report;
#[cfg(test)]
mod roundtrip;
#[cfg(test)]
mod sample;
#[cfg(test)]
mod script;
#[cfg(test)]
mod swap;
#[cfg(test)]
#[path = "../fuzz/targets.rs"]
mod targets;
#[cfg(test)]
mod truth;
#[cfg(test)]
mod unwind;
#[cfg(test)]
mod vector;
