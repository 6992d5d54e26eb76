//! `report -D`: every record as it stands in the recording, before how many there are.

use std::io::Write;

use crate::profile::MAX_STACK;
use crate::profile::Paths;
use crate::render::script;
use crate::render::script::Chains;
use crate::render::script::Clock;
use crate::render::script::Fields;
use crate::render::script::Layout;
use crate::render::script::Only;
use crate::render::script::Options;
use crate::render::script::Output;
use crate::render::script::Precision;
use crate::render::script::Records;
use crate::render::script::Since;
use crate::render::script::Source;
use crate::replay::Inlined;

use super::input::Input;

/// Writes every record of `source`, which is in `file`.
pub(super) fn write(
    source: &Source<'_>,
    file: &Input,
    out: &mut dyn Write,
) -> Result<(), script::Error> {
    let options = Options {
        fields: vec![Fields::empty(); source.recording.events.len()],
        output: Output::Text,
        records: Records::OfReport,
        clock: Clock {
            precision: Precision::Microseconds,
            since: Since::Always,
            reference: None,
            local_time: |_| None,
        },
        chains: Chains::Hidden,
        max_frames: MAX_STACK,
        max_blocks: 0,
        stop_at: Vec::new(),
        layout: Layout::Usual,
        paths: Paths::Names,
        inlined: Inlined::Hidden,
        shown: Vec::new(),
        only: Only::default(),
        dump: file.origins(source.recording),
    };
    script::script(source, &options, out).map(|_| ())
}
