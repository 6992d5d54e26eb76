//! What the bytes of a few instructions say: calls, and returns from signals.

use super::Arch;

/// How many bytes a call has at most.
pub const MAX_CALL_BYTES: usize = 7;
/// How many bytes the code has at most that returns from a signal.
pub const MAX_SIGNAL_RETURN_BYTES: usize = 9;

/// Whether `code`, the bytes before an address, can end with a call.
pub fn ends_with_call(arch: Arch, code: &[u8]) -> bool {
    match arch {
        Arch::X86_64 => (2..=MAX_CALL_BYTES)
            .filter_map(|len| code.get(code.len().checked_sub(len)?..))
            .any(is_x86_64_call),
        Arch::Aarch64 => code.last_chunk::<4>().is_some_and(|it| {
            let word = u32::from_le_bytes(*it);
            let is_bl = word & 0xfc00_0000 == 0x9400_0000;
            // `blr`, and its kinds that check the address.
            let is_blr = word & 0xfeff_f000 == 0xd63f_0000;
            is_bl || is_blr
        }),
    }
}

/// Whether `code` is one call: `call rel32`, or `call` of a register or of what lies in memory.
fn is_x86_64_call(code: &[u8]) -> bool {
    if let [0xe8, rest @ ..] = code
        && rest.len() == 4
    {
        return true;
    }
    // A prefix for the registers that came with 64 bits.
    let code = match code {
        [0x40..=0x4f, rest @ ..] => rest,
        code => code,
    };
    let [0xff, modrm, rest @ ..] = code else { return false };
    if modrm >> 3 & 7 != 2 {
        return false;
    }
    let (mode, rm) = (modrm >> 6, modrm & 7);
    let has_sib = mode != 3 && rm == 4;
    let has_no_base =
        mode == 0 && (rm == 5 || has_sib && rest.first().is_some_and(|it| it & 7 == 5));
    let displacement = match mode {
        1 => 1,
        2 => 4,
        _ if has_no_base => 4,
        _ => 0,
    };
    rest.len() == usize::from(has_sib) + displacement
}

/// Whether `code`, the bytes from an address on, is what returns from a signal's handler.
pub fn is_signal_return(arch: Arch, code: &[u8]) -> bool {
    /// `mov $__NR_rt_sigreturn, %rax; syscall`, in two encodings.
    const X86_64: [&[u8]; 2] =
        [&[0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05], &[0xb8, 15, 0, 0, 0, 0x0f, 0x05]];
    /// `mov x8, #__NR_rt_sigreturn; svc #0`.
    const AARCH64: &[u8] = &[0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4];
    match arch {
        Arch::X86_64 => X86_64.iter().any(|it| code.starts_with(it)),
        Arch::Aarch64 => code.starts_with(AARCH64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(code: &[u8], want: bool) {
        assert_eq!(ends_with_call(Arch::X86_64, code), want, "{code:x?}");
    }

    #[test]
    fn calls_are_known_by_their_bytes() {
        // call 0x1234; call *%rax; call *%r12; call *0x10(%rax)
        check(&[0x90, 0xe8, 0x34, 0x12, 0, 0], true);
        check(&[0x90, 0xff, 0xd0], true);
        check(&[0x41, 0xff, 0xd4], true);
        check(&[0xff, 0x50, 0x10], true);
        // call *0x1234(%rip); call *0x100(%rax); call *0x8(%rsp); call *0x0(,%rax,8)
        check(&[0xff, 0x15, 0x34, 0x12, 0, 0], true);
        check(&[0xff, 0x90, 0, 1, 0, 0], true);
        check(&[0xff, 0x54, 0x24, 0x08], true);
        check(&[0xff, 0x14, 0xc5, 0, 0, 0, 0], true);
        // jmp *%rax; push 0x10(%rax); too few bytes for their kind.
        check(&[0x90, 0xff, 0xe0], false);
        check(&[0xff, 0x70, 0x10], false);
        check(&[0xe8, 0x34, 0x12, 0], false);
        check(&[], false);
        // bl; blr x8; ret
        let of = |word: u32| ends_with_call(Arch::Aarch64, &word.to_le_bytes());
        assert_eq!([of(0x9400_0001), of(0xd63f_0100), of(0xd65f_03c0)], [true, true, false]);
    }
}
