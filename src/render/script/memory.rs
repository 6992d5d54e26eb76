//! Where data came from, and in pages of which size it lies.

/// The longest text that perf makes of it, in bytes.
const TEXT_MAX: usize = 99;

/// Where data came from: `|OP LOAD|LVL L1 hit|SNP None|TLB L1 hit|LCK No|BLK  N/A`, behind the number
/// itself.
///
/// Source: `union perf_mem_data_src` and `PERF_MEM_*` in `include/uapi/linux/perf_event.h`; the text is
/// that of `perf_script__meminfo_scnprintf()` in `tools/perf/util/mem-events.c`.
pub(super) fn data_source(value: u64) -> String {
    let mut text = format!(
        "{value:16x} |OP {}|LVL {}|SNP {}|TLB {}|LCK {}|BLK {}",
        operation(bits(value, 0, 5)),
        level(value),
        snoop(bits(value, 19, 5) | bits(value, 38, 2) << 5),
        tlb(bits(value, 26, 7)),
        lock(bits(value, 24, 2)),
        blocked(bits(value, 40, 3)),
    );
    text.truncate(TEXT_MAX);
    text
}

fn bits(value: u64, from: u32, n: u32) -> u64 {
    value >> from & ((1 << n) - 1)
}

fn operation(value: u64) -> &'static str {
    let names = ["N/A", "LOAD", "STORE", "PFETCH", "EXEC"];
    let known = names.iter().enumerate().find(|(bit, _)| value >> bit & 1 != 0);
    known.map_or("No", |(_, name)| name)
}

/// Names of the bits that are set, with ` or ` between them.
fn joined(value: u64, names: &[&str]) -> String {
    let set = names.iter().enumerate().filter(|(bit, _)| value >> bit & 1 != 0);
    set.map(|(_, name)| *name).collect::<Vec<_>>().join(" or ")
}

/// The bits of `PERF_MEM_LVL_*` behind `NA`, `HIT` and `MISS`.
const LEVELS: [&str; 11] = [
    "L1",
    "LFB/MAB",
    "L2",
    "L3",
    "Local RAM",
    "Remote RAM (1 hop)",
    "Remote RAM (2 hops)",
    "Remote Cache (1 hop)",
    "Remote Cache (2 hops)",
    "I/O",
    "Uncached",
];

fn level(value: u64) -> String {
    let levels = bits(value, 5, 14);
    let outcome = match levels {
        it if it & 2 != 0 => "hit",
        it if it & 4 != 0 => "miss",
        _ => "",
    };
    let number = match bits(value, 33, 4) {
        0 | 15 => {
            return match joined(levels >> 3, &LEVELS).as_str() {
                "" => "N/A".to_owned(),
                levels => format!("{levels} {outcome}"),
            };
        }
        number @ 1..=4 => format!("L{number}"),
        5 => "L2 MHB".to_owned(),
        6 => "Memory-side Cache".to_owned(),
        8 => "Uncached".to_owned(),
        9 => "CXL".to_owned(),
        10 => "I/O".to_owned(),
        11 => "Any cache".to_owned(),
        12 => "LFB/MAB".to_owned(),
        13 => "RAM".to_owned(),
        14 => "PMEM".to_owned(),
        number => format!("Unknown level {number}"),
    };
    let remote = if bits(value, 37, 1) == 0 { "" } else { "Remote " };
    let hops = match bits(value, 43, 3) {
        0 => "",
        1 => "core, same node ",
        2 => "node, same socket ",
        3 => "socket, same board ",
        4 => "board ",
        _ => "(null) ",
    };
    format!("{remote}{hops}{number} {outcome}")
}

fn snoop(value: u64) -> String {
    let names = ["N/A", "None", "Hit", "Miss", "HitM", "Fwd", "Peer"];
    or_none(joined(value, &names))
}

fn tlb(value: u64) -> String {
    let levels = or_none(joined(value >> 3, &["L1", "L2", "Walker", "Fault"]));
    let levels = match (value & 1, levels.as_str()) {
        (1, "N/A") | (0, _) => levels,
        _ => format!("N/A or {levels}"),
    };
    let hit = if value & 2 == 0 { "" } else { " hit" };
    let miss = if value & 4 == 0 { "" } else { " miss" };
    format!("{levels}{hit}{miss}")
}

fn lock(value: u64) -> &'static str {
    match value {
        0 => "No",
        2 => "Yes",
        _ => "N/A",
    }
}

fn blocked(value: u64) -> &'static str {
    match value {
        2 => " Data",
        4 => " Addr",
        6 => " Data Addr",
        _ => " N/A",
    }
}

fn or_none(text: String) -> String {
    if text.is_empty() { "N/A".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: u64, want: &str) {
        assert_eq!(data_source(value).trim_start(), format!("{value:x} {want}"));
    }

    #[test]
    fn where_data_came_from_is_told_as_perf_tells_it() {
        check(0, "|OP No|LVL N/A|SNP N/A|TLB N/A|LCK No|BLK  N/A");
        // A load that hit L1 and its TLB, as Intel's have it.
        let load = "|OP LOAD|LVL L1 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A";
        check(0x6810_0142, load);
        check(0x840, "|OP No|LVL L3 hit|SNP N/A|TLB N/A|LCK No|BLK  N/A");
        check(
            0xc0_0018_0080,
            "|OP No|LVL N/A|SNP N/A or None or Fwd or Peer|TLB N/A|LCK No|BLK  N/A",
        );
        let far = "|OP No|LVL Remote board RAM |SNP N/A|TLB N/A|LCK No|BLK  N/A";
        check(0x203a_0000_0000, far);
        check(0x600_1e00_0000, "|OP No|LVL N/A|SNP N/A|TLB N/A hit miss|LCK Yes|BLK  Data Addr");
        let long = 0x7_ffe0;
        assert_eq!(data_source(long).len(), 99);
    }
}
