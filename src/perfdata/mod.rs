//! The `perf.data` codec.
