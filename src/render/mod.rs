//! Aggregates and samples to text.

pub mod annotate;
pub mod bill;
pub mod escape;
pub mod evlist;
pub mod header;
pub mod json;
pub mod report;
pub mod script;
pub mod source_text;
