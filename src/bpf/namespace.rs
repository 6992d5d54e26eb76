//! Whether the ids of tasks are to programs what they are to their loader.

use std::fs;

/// Whether this process lives where all tasks have the ids that BPF programs know them by: in the
/// first namespace of processes, outside of containers.
pub fn knows_all_ids() -> bool {
    // `PROC_PID_INIT_INO` in `include/linux/proc_ns.h`.
    fs::read_link("/proc/self/ns/pid").is_ok_and(|it| it.as_os_str() == "pid:[4026531836]")
}
