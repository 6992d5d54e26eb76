//! Records to timeline to resolved samples.

pub mod resolved;
pub mod spans;
pub mod timeline;
