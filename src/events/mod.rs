//! Event syntax to attributes.
