//! What was typed of lines of source and of inlined functions, alike for `report` and `script`.

use crate::replay::Inlined;

/// What was typed.
#[derive(Clone, Copy, Debug, clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// Show functions that were inlined as frames of their own (the default).
    #[arg(long, overrides_with = "no_inline")]
    inline: bool,

    /// Show the functions that have the code alone.
    #[arg(long, overrides_with = "inline")]
    no_inline: bool,

    /// Show files of source with their paths.
    #[arg(long)]
    full_source_path: bool,
}

impl Args {
    /// Whether functions that were inlined are frames.
    pub(super) fn inlined(self) -> Inlined {
        if self.no_inline { Inlined::Hidden } else { Inlined::Shown }
    }

    /// Whether files of source are shown with their paths.
    pub(super) fn has_paths(self) -> bool {
        self.full_source_path
    }
}
