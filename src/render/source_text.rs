//! Where lines of source come from.

/// The text of source files.
pub trait SourceText: Sync {
    /// The line with this number, from 1, of the file at `path`, without its end.
    fn line(&self, path: &[u8], line: u32) -> Option<String>;
}

/// No text of any file.
impl SourceText for () {
    fn line(&self, _: &[u8], _: u32) -> Option<String> {
        None
    }
}
