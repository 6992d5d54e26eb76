//! The names of events, and which of them a wrong one resembles.

use crate::perfdata::Attr;

/// `PERF_TYPE_HARDWARE`.
pub const KIND_HARDWARE: u32 = 0;
/// `PERF_TYPE_SOFTWARE`.
pub const KIND_SOFTWARE: u32 = 1;
/// `PERF_TYPE_TRACEPOINT`.
pub const KIND_TRACEPOINT: u32 = 2;
/// `PERF_TYPE_HW_CACHE`.
pub const KIND_HARDWARE_CACHE: u32 = 3;
/// `PERF_TYPE_RAW`.
pub(super) const KIND_RAW: u32 = 4;
/// `PERF_TYPE_BREAKPOINT`.
pub const KIND_BREAKPOINT: u32 = 5;

/// `PERF_COUNT_SW_CPU_CLOCK`.
pub const SOFTWARE_CPU_CLOCK: u64 = 0;
/// `PERF_COUNT_SW_TASK_CLOCK`.
pub const SOFTWARE_TASK_CLOCK: u64 = 1;
/// `PERF_COUNT_SW_DUMMY`.
pub const SOFTWARE_DUMMY: u64 = 9;
/// `PERF_COUNT_SW_BPF_OUTPUT`.
pub const SOFTWARE_BPF_OUTPUT: u64 = 10;
/// `PERF_COUNT_HW_CPU_CYCLES`.
pub const HARDWARE_CYCLES: u64 = 0;

/// Name, type and number of the events that have a name of their own.
const NAMED: [(&str, u32, u64); 33] = [
    ("cpu-clock", KIND_SOFTWARE, SOFTWARE_CPU_CLOCK),
    ("task-clock", KIND_SOFTWARE, SOFTWARE_TASK_CLOCK),
    ("page-faults", KIND_SOFTWARE, 2),
    ("faults", KIND_SOFTWARE, 2),
    ("context-switches", KIND_SOFTWARE, 3),
    ("cs", KIND_SOFTWARE, 3),
    ("cpu-migrations", KIND_SOFTWARE, 4),
    ("migrations", KIND_SOFTWARE, 4),
    ("minor-faults", KIND_SOFTWARE, 5),
    ("major-faults", KIND_SOFTWARE, 6),
    ("alignment-faults", KIND_SOFTWARE, 7),
    ("emulation-faults", KIND_SOFTWARE, 8),
    ("dummy", KIND_SOFTWARE, SOFTWARE_DUMMY),
    ("bpf-output", KIND_SOFTWARE, SOFTWARE_BPF_OUTPUT),
    ("cgroup-switches", KIND_SOFTWARE, 11),
    ("cycles", KIND_HARDWARE, HARDWARE_CYCLES),
    ("cpu-cycles", KIND_HARDWARE, HARDWARE_CYCLES),
    ("instructions", KIND_HARDWARE, 1),
    ("cache-references", KIND_HARDWARE, 2),
    ("cache-misses", KIND_HARDWARE, 3),
    ("branches", KIND_HARDWARE, 4),
    ("branch-instructions", KIND_HARDWARE, 4),
    ("branch-misses", KIND_HARDWARE, 5),
    ("bus-cycles", KIND_HARDWARE, 6),
    ("stalled-cycles-frontend", KIND_HARDWARE, 7),
    ("idle-cycles-frontend", KIND_HARDWARE, 7),
    ("stalled-cycles-backend", KIND_HARDWARE, 8),
    ("idle-cycles-backend", KIND_HARDWARE, 8),
    ("ref-cycles", KIND_HARDWARE, 9),
    // The most typed of the cache events, for the sake of `nearest`.
    ("L1-dcache-load-misses", KIND_HARDWARE_CACHE, 0x1_0000),
    ("LLC-load-misses", KIND_HARDWARE_CACHE, 0x1_0002),
    ("dTLB-load-misses", KIND_HARDWARE_CACHE, 0x1_0003),
    ("iTLB-load-misses", KIND_HARDWARE_CACHE, 0x1_0004),
];

/// The caches in the order of `enum perf_hw_cache_id`.
const CACHES: [&[&str]; 7] = [
    &["l1-dcache", "l1-data", "l1-d", "l1d"],
    &["l1-icache", "l1-instruction", "l1-i", "l1i"],
    &["llc", "l2"],
    &["dtlb", "d-tlb", "data-tlb"],
    &["itlb", "i-tlb", "instruction-tlb"],
    &["branches", "branch", "bpu", "btb", "bpc"],
    &["node"],
];

/// The operations in the order of `enum perf_hw_cache_op_id`.
const OPERATIONS: [&[&str]; 3] = [
    &["loads", "load", "read"],
    &["stores", "store", "write"],
    &["prefetches", "prefetch", "speculative-read", "speculative-load"],
];

/// The results in the order of `enum perf_hw_cache_op_result_id`.
const RESULTS: [&[&str]; 2] = [&["refs", "reference", "ops", "access"], &["misses", "miss"]];

/// Type and configuration of the event `name`, modifiers and tracepoints excluded.
pub(super) fn find(name: &str) -> Option<(u32, u64)> {
    let named = NAMED.iter().find(|it| it.0 == name).map(|it| (it.1, it.2));
    named.or_else(|| raw(name)).or_else(|| cache(name))
}

/// An event that has a name of its own on every machine, whether or not this one counts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its name.
    pub name: String,
    /// Its other names.
    pub aliases: Vec<&'static str>,
    /// What opens it.
    pub attr: Attr,
}

/// The events of software, hardware and caches, each once, in this order.
pub fn known() -> Vec<Known> {
    let mut all: Vec<Known> = Vec::new();
    for (name, kind, config) in NAMED.into_iter().filter(|it| it.1 != KIND_HARDWARE_CACHE) {
        let is_it = |it: &&mut Known| (it.attr.kind, it.attr.config) == (kind, config);
        match all.iter_mut().find(is_it) {
            Some(known) => known.aliases.push(name),
            None => {
                let attr = Attr { kind, config, ..Attr::default() };
                all.push(Known { name: name.to_owned(), aliases: Vec::new(), attr });
            }
        }
    }
    let caches = ["L1-dcache", "L1-icache", "LLC", "dTLB", "iTLB", "branch", "node"];
    for (cache, name) in (0_u64..).zip(caches) {
        for (operation, name_of) in
            (0_u64..).zip([("loads", "load"), ("stores", "store"), ("prefetches", "prefetch")])
        {
            for (result, name) in
                [(0, format!("{name}-{}", name_of.0)), (1, format!("{name}-{}-misses", name_of.1))]
            {
                let config = cache | (operation << 8) | (result << 16);
                let attr = Attr { kind: KIND_HARDWARE_CACHE, config, ..Attr::default() };
                all.push(Known { name, aliases: Vec::new(), attr });
            }
        }
    }
    all
}

/// The names that can be listed.
pub(super) fn all() -> impl Iterator<Item = &'static str> {
    NAMED.iter().map(|it| it.0)
}

/// The listed name most like `name`, if any is like it at all.
pub(super) fn nearest(name: &str) -> Option<String> {
    nearest_of(name, all())
}

/// The one of `known` most like `name`, if any is like it at all.
pub(super) fn nearest_of<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    // One slip in three letters is a slip, more is another word.
    let most = (name.len() / 3).max(1);
    let near = known.map(|it| (distance(name, it), it)).filter(|&(slips, _)| slips <= most);
    near.min().map(|(_, it)| it.to_owned())
}

/// Whether `text` fits `pattern`, in which `*` is any run of characters and `?` any one.
pub fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Where the last star stands, and how much of the text it has swallowed.
    let mut star = None;
    while let Some(byte) = text.get(t) {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(want) if want == byte || *want == b'?' => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((at, swallowed)) = star else { return false };
                star = Some((at, swallowed + 1));
                p = at + 1;
                t = swallowed + 1;
            }
        }
    }
    pattern.get(p..).is_some_and(|rest| rest.iter().all(|&it| it == b'*'))
}

/// `rNNN`, up to 16 hexadecimal digits.
fn raw(name: &str) -> Option<(u32, u64)> {
    let digits = name.strip_prefix('r')?;
    let is_hex = !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_hexdigit());
    let config = u64::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
    Some((KIND_RAW, config))
}

/// `CACHE[-OPERATION][-RESULT]`, in any case, the result also before the operation.
fn cache(name: &str) -> Option<(u32, u64)> {
    let name = name.to_ascii_lowercase();
    let (cache, mut rest) = strip(&CACHES, &name)?;
    let (mut operation, mut result) = (None, None);
    while let Some(word) = rest.strip_prefix('-') {
        if let (None, Some((index, left))) = (operation, strip(&OPERATIONS, word)) {
            (operation, rest) = (Some(index), left);
        } else if let (None, Some((index, left))) = (result, strip(&RESULTS, word)) {
            (result, rest) = (Some(index), left);
        } else {
            return None;
        }
    }
    let is_whole = rest.is_empty() && (operation.is_some() || result.is_some());
    let config = cache | (operation.unwrap_or(0) << 8) | (result.unwrap_or(0) << 16);
    is_whole.then_some((KIND_HARDWARE_CACHE, config))
}

/// Which of the `words` begins `text` as a whole word, and what follows it.
fn strip<'a>(words: &[&[&str]], text: &'a str) -> Option<(u64, &'a str)> {
    (0..).zip(words).find_map(|(index, spellings)| {
        let rests = spellings.iter().filter_map(|it| text.strip_prefix(it));
        let mut whole = rests.filter(|rest| rest.is_empty() || rest.starts_with('-'));
        whole.next().map(|rest| (index, rest))
    })
}

/// How many letters must be put in, left out or changed, or pairs of them swapped, to make `b` of `a`
/// (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let at = |row: &[usize], j: usize| row.get(j).copied().unwrap_or(usize::MAX / 2);
    let (mut before, mut row): (Vec<usize>, Vec<usize>) = (Vec::new(), (0..=b.len()).collect());
    let mut last_from = None;
    for (i, from) in a.chars().enumerate() {
        let mut next = vec![i + 1];
        let mut last_to = None;
        for (j, &to) in b.iter().enumerate() {
            let changed = at(&row, j) + usize::from(from != to);
            let mut best = changed.min(at(&row, j + 1) + 1).min(at(&next, j) + 1);
            if last_from == Some(to) && last_to == Some(from) {
                best = best.min(at(&before, j - 1) + 1);
            }
            next.push(best);
            last_to = Some(to);
        }
        (before, row) = (row, next);
        last_from = Some(from);
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, want: Option<(u32, u64)>) {
        assert_eq!(find(name), want, "{name}");
    }

    #[test]
    fn cache_events_are_a_cache_an_operation_and_a_result() {
        check("L1-dcache-loads", Some((3, 0)));
        check("L1-dcache-load-misses", Some((3, 0x1_0000)));
        check("L1-icache-misses", Some((3, 0x1_0001)));
        check("LLC-store-misses", Some((3, 0x1_0102)));
        check("dTLB-prefetch-misses", Some((3, 0x1_0203)));
        check("branch-load-misses", Some((3, 0x1_0005)));
        check("node-stores", Some((3, 0x106)));
        check("L1-dcache", None);
        check("L1-dcache-loads-loads", None);
        check("L1-dcache-loadsx", None);
        check("L1d-speculative-read", Some((3, 0x200)));
    }

    #[test]
    fn each_event_is_known_once_and_found_by_each_of_its_names() {
        for known in known() {
            let want = (known.attr.kind, known.attr.config);
            for name in known.aliases.iter().copied().chain([&*known.name]) {
                // `branch-loads` is the cache's, as `branch-misses` is the hardware's.
                assert_eq!(find(name), Some(want), "{name}");
            }
        }
        let software = known().iter().filter(|it| it.attr.kind == KIND_SOFTWARE).count();
        assert_eq!((software, known().len()), (12, 12 + 10 + 7 * 6));
    }

    #[test]
    fn branch_events_of_the_hardware_come_before_the_cache_of_that_name() {
        check("branch-misses", Some((0, 5)));
        check("branches", Some((0, 4)));
    }

    #[test]
    fn raw_events_are_hexadecimal() {
        check("r1a8", Some((4, 0x1a8)));
        check("rffffffffffffffff", Some((4, u64::MAX)));
        check("r", None);
        check("r1ffffffffffffffff", None);
        check("r+1", None);
        check("ref-cycles", Some((0, 9)));
    }

    #[test]
    fn a_slip_is_forgiven_and_another_word_is_not() {
        assert_eq!(nearest("cpuclock").as_deref(), Some("cpu-clock"));
        assert_eq!(nearest("instruction").as_deref(), Some("instructions"));
        assert_eq!(nearest("LLC-load-mises").as_deref(), Some("LLC-load-misses"));
        assert_eq!(nearest("something-else"), None);
    }

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, text, want) in [
            ("sched_*", "sched_switch", true),
            ("*_switch", "sched_switch", true),
            ("s*d_*w*h", "sched_switch", true),
            ("sched_?witch", "sched_switch", true),
            ("sched", "sched_switch", false),
            ("*x", "sched_switch", false),
            ("*", "", true),
        ] {
            assert_eq!(glob(pattern, text), want, "{pattern} {text}");
        }
    }
}
