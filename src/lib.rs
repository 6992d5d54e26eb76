//! `bpfperf`, a perf-style profiler for Linux whose first language is BPF.
//!
//! This crate is the program's inside, open so that tests and benches reach it; it promises no
//! stable interface. `docs/architecture.md` is the map.

pub mod bpf;
pub mod btf;
pub mod cli;
pub mod events;
pub mod host;
pub mod perfdata;
pub mod profile;
pub mod record;
pub mod render;
pub mod replay;
pub mod symbols;
pub mod sys;
pub mod units;
pub mod unwind;
