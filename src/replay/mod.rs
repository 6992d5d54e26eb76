//! Records to timeline to resolved samples.
