//! What the program tells of itself to those who work on it; off unless asked for.

use std::io;

use tracing_subscriber::EnvFilter;

/// Shows decisions (`-v`) or each round (`-vv`), or what the filter in `BPFPERF_LOG` selects.
pub(super) fn init(verbosity: u8) {
    let level = match verbosity {
        0 => "off",
        1 => "bpfperf=debug",
        _ => "bpfperf=trace",
    };
    let filter = match EnvFilter::try_from_env("BPFPERF_LOG") {
        Ok(filter) if verbosity == 0 => filter,
        _ => EnvFilter::new(level),
    };
    let logging = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    // Only a second call in one process is refused, and then the first one holds.
    logging.without_time().try_init().ok();
}
