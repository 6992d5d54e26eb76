//! Which frames of a stack are of the program and of what calls it.

use std::ops::Range;

/// Where the code lies that stands between `__schedule()` and the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnFrames(Vec<Range<u64>>);

/// How many frames such code can have.
const MOST: usize = 8;

impl OwnFrames {
    /// Finds it in the text of `/proc/kallsyms`, whose addresses are in order.
    ///
    /// Sources: `DEFINE_TRACE_FN()` in `include/linux/tracepoint.h`, `__BPF_DECLARE_TRACE()` in
    /// `include/trace/bpf_probe.h`, and `BPF_TRACE_DEFN_x()` in `kernel/trace/bpf_trace.c`.
    pub fn of(kallsyms: &str) -> Self {
        let mut found: Vec<Range<u64>> = Vec::new();
        let mut open = false;
        for line in kallsyms.lines() {
            let mut words = line.split_ascii_whitespace();
            let addr = words.next().and_then(|it| u64::from_str_radix(it, 16).ok());
            let (Some(addr), Some(name)) = (addr, words.nth(1)) else { continue };
            if let Some(last) = found.last_mut().filter(|it| open && it.start < addr) {
                last.end = addr;
                open = false;
            }
            let is_hook = matches!(name, "__traceiter_sched_switch" | "__bpf_trace_sched_switch")
                || name.starts_with("bpf_trace_run");
            // Zero is what the kernel shows to those who may not know.
            if is_hook && addr != 0 {
                found.push(addr..addr);
                open = true;
            }
        }
        Self(found)
    }

    /// `stack` of the kernel without them, the innermost frame first: what is called by `__schedule()`.
    pub fn cut<'a>(&self, stack: &'a [u64]) -> &'a [u64] {
        let is_own = |ip: &u64| self.0.iter().any(|it| it.contains(ip));
        let own = stack.iter().take(MOST).zip(1..).filter(|(ip, _)| is_own(ip));
        let n_own = own.map(|(_, n)| n).last().unwrap_or(0);
        stack.get(n_own..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KALLSYMS: &str = "ffffffff81000000 T _text
ffffffff81000100 T __traceiter_sched_switch
ffffffff81000100 T alias
ffffffff81000180 T other
ffffffff81000200 T bpf_trace_run4
ffffffff81000280 T next
ffffffff81000300 T __schedule
";

    #[test]
    fn a_stack_begins_where_the_scheduler_calls_the_program() {
        let own = OwnFrames::of(KALLSYMS);
        let base = 0xffff_ffff_8100_0000;
        let stack = [0xffff_ffff_c000_0010, base + 0x240, base + 0x17f, base + 0x310, base + 0x180];
        assert_eq!(own.cut(&stack), &stack[3..]);
        // Without names all is kept, and what lies deep is nobody's hook.
        assert_eq!(OwnFrames::default().cut(&stack), stack);
        let deep = [&[1; MOST][..], &[base + 0x240]].concat();
        assert_eq!(own.cut(&deep), deep);
    }

    #[test]
    fn hidden_addresses_are_no_place() {
        assert_eq!(OwnFrames::of("0 T __traceiter_sched_switch\n0 T x\n").cut(&[0]), [0]);
    }
}
