//! Aggregates and samples to text.

pub mod header;
