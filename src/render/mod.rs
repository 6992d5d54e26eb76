//! Aggregates and samples to text.
