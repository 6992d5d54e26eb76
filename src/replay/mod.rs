//! Records to timeline to resolved samples.

pub mod resolved;
