//! Holds nothing: all that this crate does is in its build script.
