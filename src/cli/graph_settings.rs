//! `-g`: the settings of call graphs.

use crate::profile::FrameKey;
use crate::profile::GraphSettings;
use crate::profile::GraphValue;
use crate::profile::Order;
use crate::profile::Shape;

/// What cannot be meant.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum Error {
    /// A setting of call graphs that says nothing.
    #[error("`{0}` is no setting of call graphs")]
    GraphSetting(String),
}

/// The settings of call graphs, `None` for no graphs; any beginning of a word stands for it.
pub(super) fn parse(text: &str) -> Result<Option<GraphSettings>, Error> {
    let mut settings = GraphSettings::default();
    let mut has_percent = false;
    for word in text.split(',').filter(|it| !it.is_empty()) {
        match graph_word(word) {
            Some("none") => return Ok(None),
            Some("graph") => settings.shape = Shape::Graph,
            Some("fractal") => settings.shape = Shape::Fractal,
            Some("flat") => settings.shape = Shape::Flat,
            Some("folded") => settings.shape = Shape::Folded,
            Some("function") => settings.key = FrameKey::Function,
            Some("address") => settings.key = FrameKey::Address,
            Some("srcline") => settings.key = FrameKey::Line,
            // Whether branches stand before the frames: there are none where no PMU records them.
            Some("branch") => {}
            Some("caller") => settings.order = Some(Order::Caller),
            Some("callee") => settings.order = Some(Order::Callee),
            Some("percent") => settings.value = GraphValue::Percent,
            Some("period") => settings.value = GraphValue::Period,
            Some("count") => settings.value = GraphValue::Count,
            Some(_) | None => {
                let no_setting = || Error::GraphSetting(word.to_owned());
                if has_percent {
                    settings.limit = word.parse().map_err(|_| no_setting())?;
                } else {
                    settings.min_percent = word.parse().map_err(|_| no_setting())?;
                    has_percent = true;
                }
            }
        }
    }
    Ok(Some(settings))
}

/// The word that begins with `word`, the first in perf's order.
fn graph_word(word: &str) -> Option<&'static str> {
    let words = [
        "none", "graph", "flat", "fractal", "folded", "caller", "callee", "function", "address",
        "srcline", "branch", "percent", "period", "count",
    ];
    words.into_iter().find(|it| it.starts_with(word))
}
