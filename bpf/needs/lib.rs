//! Says what a machine lacks, in its build script.
//!
//! The name is that of the crate that finds libraries of the system. `zstd-sys` is written against it,
//! for those who want the system's libzstd: here it builds its own, and whoever asks is told so.

use std::path::PathBuf;

/// How a library would be looked for.
#[derive(Debug, Default)]
pub struct Config;

/// What would be found.
#[derive(Debug)]
pub struct Library {
    /// Where its headers are.
    pub include_paths: Vec<PathBuf>,
}

/// That libraries of the system are not looked for.
#[derive(Clone, Copy, Debug)]
pub struct NotSought;

impl Config {
    /// A search.
    #[must_use]
    pub fn new() -> Self {
        Self
    }

    /// Takes either kind of library.
    pub fn statik(&mut self, _is_static: bool) -> &mut Self {
        self
    }

    /// Tells cargo nothing.
    pub fn cargo_metadata(&mut self, _is_told: bool) -> &mut Self {
        self
    }

    /// Finds nothing.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn probe(&self, _name: &str) -> Result<Library, NotSought> {
        Err(NotSought)
    }
}
