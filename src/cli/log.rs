//! What the program tells of itself to those who work on it; off unless asked for.

use std::env;
use std::io;

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Shows decisions (`-v`) or each round (`-vv`), or what the filter in `BPFPERF_LOG` selects, such as
/// `bpfperf::record=trace`.
pub(super) fn init(verbosity: u8) {
    let level = match verbosity {
        0 => LevelFilter::OFF,
        1 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let asked = env::var("BPFPERF_LOG").ok().filter(|_| verbosity == 0);
    let filter = asked
        .and_then(|it| it.parse().ok())
        .unwrap_or_else(|| Targets::new().with_target("bpfperf", level));
    let lines = fmt::layer().without_time().with_writer(io::stderr);
    // Only a second call in one process is refused, and then the first one holds.
    tracing_subscriber::registry().with(lines).with(filter).try_init().ok();
}
