//! Kernel text that comes and goes and belongs to no program: trampolines, dispatchers, probes.
//!
//! For what was made before a recording there is no record and no id, only the kernel's list of
//! symbols, which has no lengths either.

use crate::units::Addr;

/// The longest that such text is, in bytes: the kernel makes it a page at a time
/// (`arch_alloc_bpf_trampoline()`, `BPF_DISPATCHER_MAX`, `kprobe_insn_page`).
const MAX_LEN: u64 = 4096;

/// Who made a stretch of kernel text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageKind {
    /// BPF.
    Bpf,
    /// Kprobes or ftrace: code out of its line.
    OutOfLine,
}

/// A stretch of kernel text with a name, made while the kernel runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Where it begins.
    pub addr: Addr,
    /// How long it is at most, in bytes.
    pub len: u32,
    /// Its name in the kernel's list of symbols.
    pub name: String,
    /// Who made it.
    pub kind: ImageKind,
}

/// The trampolines, dispatchers, `struct_ops` stubs and copied instructions of probes in the text of
/// /proc/kallsyms.
///
/// A length ends at the next symbol, since the kernel puts many into one page.
pub fn images(kallsyms: &str) -> Vec<Image> {
    let mut addrs: Vec<u64> = Vec::new();
    let mut found = Vec::new();
    for line in kallsyms.lines() {
        let Some((addr, rest)) = line.split_once(' ') else { continue };
        // Zero is what the kernel shows to those who may not know.
        let Some(addr) = u64::from_str_radix(addr, 16).ok().filter(|&it| it != 0) else { continue };
        addrs.push(addr);
        let Some((name, module)) = rest.split_once(' ').and_then(|(_, it)| it.split_once('\t'))
        else {
            continue;
        };
        if let Some(kind) = kind(name, module) {
            found.push((addr, name, kind));
        }
    }
    addrs.sort_unstable();
    let text = |(addr, name, kind): (u64, &str, ImageKind)| {
        let next = addrs.get(addrs.partition_point(|&it| it <= addr));
        let len = next.map_or(MAX_LEN, |next| next - addr).min(MAX_LEN);
        let (len, name) = (u32::try_from(len).ok()?, name.to_owned());
        Some(Image { addr: Addr(addr), len, name, kind })
    };
    found.into_iter().filter_map(text).collect()
}

/// What this symbol of `module` is, if it is neither a program nor of the kernel's own text.
///
/// Source: `bpf_image_ksym_init()` in kernel/bpf/trampoline.c, kernel/bpf/dispatcher.c,
/// `bpf_struct_ops_ksym_init()` in `kernel/bpf/bpf_struct_ops.c`; `kprobe_get_kallsym()` in
/// kernel/kprobes.c, `ftrace_get_trampoline_kallsym()` in kernel/trace/ftrace.c.
fn kind(name: &str, module: &str) -> Option<ImageKind> {
    let of_bpf = ["bpf_trampoline_", "bpf_dispatcher_", "bpf__"];
    match module {
        "[bpf]" if of_bpf.iter().any(|it| name.starts_with(it)) => Some(ImageKind::Bpf),
        "[__builtin__kprobes]" | "[__builtin__ftrace]" => Some(ImageKind::OutOfLine),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kallsyms: &str, want: &[(u64, u32, &str)]) {
        let found = images(kallsyms);
        let found: Vec<_> = found.iter().map(|it| (it.addr.0, it.len, it.name.as_str())).collect();
        assert_eq!(found, want);
    }

    #[test]
    fn a_length_ends_at_the_next_symbol_and_after_a_page() {
        check(
            "ffffffffc0001000 t bpf_trampoline_6442536462\t[bpf]\n\
             ffffffffc00010a7 t bpf__tcp_ops_init\t[bpf]\n\
             ffffffffc0001200 t bpf_prog_07df9015606e4140\t[bpf]\n\
             ffffffffc0009000 t bpf_dispatcher_xdp\t[bpf]\n",
            &[
                (0xffff_ffff_c000_1000, 0xa7, "bpf_trampoline_6442536462"),
                (0xffff_ffff_c000_10a7, 0x159, "bpf__tcp_ops_init"),
                (0xffff_ffff_c000_9000, 4096, "bpf_dispatcher_xdp"),
            ],
        );
    }

    #[test]
    fn copied_instructions_of_probes_are_out_of_line() {
        let kallsyms = "ffffffffc0001000 t kprobe_insn_page\t[__builtin__kprobes]\n\
                        ffffffffc0003000 t ftrace_trampoline\t[__builtin__ftrace]\n\
                        ffffffffc0005000 t bpf_dispatcher_xdp\t[bpf]\n";
        let kinds: Vec<_> = images(kallsyms).iter().map(|it| it.kind).collect();
        assert_eq!(kinds, [ImageKind::OutOfLine, ImageKind::OutOfLine, ImageKind::Bpf]);
    }

    #[test]
    fn the_order_of_the_lines_does_not_matter() {
        check(
            "2100 t bpf_dispatcher_a\t[bpf]\n2000 t bpf_dispatcher_b\t[bpf]\n",
            &[(0x2100, 4096, "bpf_dispatcher_a"), (0x2000, 0x100, "bpf_dispatcher_b")],
        );
    }

    #[test]
    fn two_names_of_one_address_do_not_make_it_empty() {
        check("2000 t bpf_dispatcher_a\t[bpf]\n2000 t b\n", &[(0x2000, 4096, "bpf_dispatcher_a")]);
    }

    #[test]
    fn the_kernels_own_functions_of_such_names_are_not_taken() {
        check("ffffffff81000000 T bpf_dispatcher_xdp_func\n", &[]);
        check("ffffffffc0000000 t bpf_trampoline_1\t[other]\n", &[]);
    }

    #[test]
    fn hidden_addresses_and_odd_lines_give_nothing() {
        check(
            "0000000000000000 t bpf_trampoline_1\t[bpf]\n\nzz\n1 \nffffffffffffffffff t a\n",
            &[],
        );
    }
}
