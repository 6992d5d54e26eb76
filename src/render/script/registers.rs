//! Registers by name.
//!
//! Source: `arch/*/include/uapi/asm/perf_regs.h`; their names are those of
//! `tools/perf/util/perf-regs-arch/`.

use std::fmt::Write;

use crate::perfdata::Registers;

/// The machines whose registers have names here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Machine {
    X86,
    Arm64,
    Arm,
    Riscv,
    Powerpc,
    S390,
    Loongarch,
    Mips,
    Unknown,
}

impl Machine {
    /// The machine that `uname -m` calls `name`.
    pub(super) fn from_uname(name: &[u8]) -> Self {
        match name {
            b"x86_64" | b"i386" | b"i486" | b"i586" | b"i686" | b"x86" => Self::X86,
            b"aarch64" | b"arm64" => Self::Arm64,
            it if it.starts_with(b"arm") => Self::Arm,
            it if it.starts_with(b"riscv") => Self::Riscv,
            it if it.starts_with(b"ppc") || it.starts_with(b"powerpc") => Self::Powerpc,
            it if it.starts_with(b"s390") => Self::S390,
            it if it.starts_with(b"loongarch") => Self::Loongarch,
            it if it.starts_with(b"mips") => Self::Mips,
            _ => Self::Unknown,
        }
    }

    /// The registers that a mask of the attribute tells of, with their values.
    pub(super) fn named(
        self,
        mask: u64,
        registers: &Registers<'_>,
    ) -> impl Iterator<Item = (String, u64)> {
        let bits = (0..u64::BITS).filter(move |bit| mask >> bit & 1 != 0);
        let name = move |bit| self.register(bit).unwrap_or_else(|| "unknown".to_owned());
        let registers = *registers;
        let values: Vec<u64> = registers.values.iter().collect();
        bits.map(name).zip(values)
    }

    /// The name of the register with this bit in the masks of the attribute.
    fn register(self, bit: u32) -> Option<String> {
        let listed = |names: &[&str]| names.get(bit as usize).map(|it| (*it).to_owned());
        let numbered = |prefix: &str, n: u32| Some(format!("{prefix}{n}"));
        match (self, bit) {
            (Self::X86, 16..=23) => numbered("R", bit - 8),
            // Each takes two bits.
            (Self::X86, 32..=63) => numbered("XMM", (bit - 32) / 2),
            (Self::X86, _) => listed(&X86),
            (Self::Arm64, 0..=29) => numbered("x", bit),
            (Self::Arm64, 30) => Some("lr".to_owned()),
            (Self::Arm64, 31) => Some("sp".to_owned()),
            (Self::Arm64, 32) => Some("pc".to_owned()),
            (Self::Arm64, 46) => Some("vg".to_owned()),
            (Self::Arm, 11..=15) => listed(&ARM),
            (Self::Riscv, _) => listed(&RISCV),
            (Self::Arm, 0..=10) | (Self::Powerpc, 0..=31) => numbered("r", bit),
            (Self::Powerpc, _) => POWERPC.get(bit as usize - 32).map(|it| (*it).to_owned()),
            (Self::S390, 0..=15) => numbered("R", bit),
            (Self::S390, 16..=31) => numbered("FP", bit - 16),
            (Self::S390, 32) => Some("MASK".to_owned()),
            (Self::S390, 33) | (Self::Loongarch | Self::Mips, 0) => Some("PC".to_owned()),
            (Self::Loongarch, 1..=31) => numbered("%r", bit),
            (Self::Mips, 1..=25) => numbered("$", bit),
            (Self::Mips, 26..=29) => numbered("$", bit + 2),
            _ => None,
        }
    }
}

const X86: [&str; 16] = [
    "AX", "BX", "CX", "DX", "SI", "DI", "BP", "SP", "IP", "FLAGS", "CS", "SS", "DS", "ES", "FS",
    "GS",
];

const ARM: [&str; 16] = ["", "", "", "", "", "", "", "", "", "", "", "fp", "ip", "sp", "lr", "pc"];

const RISCV: [&str; 32] = [
    "pc", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4", "a5",
    "a6", "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5",
    "t6",
];

const POWERPC: [&str; 13] = [
    "nip", "msr", "orig_r3", "ctr", "link", "xer", "ccr", "softe", "trap", "dar", "dsisr", "sier",
    "mmcra",
];

/// Appends ` ABI:2    AX:0x1f    BX:0x0 `, or nothing where there are none.
pub(super) fn append(machine: Machine, mask: u64, registers: &Registers<'_>, out: &mut String) {
    if registers.abi == 0 {
        return;
    }
    // Writing to a string cannot fail.
    let mut add = |it: std::fmt::Arguments<'_>| out.write_fmt(it).unwrap_or_default();
    add(format_args!(" ABI:{} ", registers.abi));
    for (name, value) in machine.named(mask, registers) {
        add(format_args!("{name:>5}:{value:#x} "));
    }
}

#[cfg(test)]
mod tests {
    use crate::perfdata::Endian;
    use crate::perfdata::U64s;

    use super::*;

    #[track_caller]
    fn check(uname: &str, mask: u64, values: &[u64], want: &str) {
        let bytes: Vec<u8> = values.iter().flat_map(|it| it.to_le_bytes()).collect();
        let values = U64s::new(&bytes, Endian::Little);
        let mut out = String::new();
        let machine = Machine::from_uname(uname.as_bytes());
        append(machine, mask, &Registers { abi: 2, values }, &mut out);
        assert_eq!(out, want);
    }

    #[test]
    fn each_machine_has_names_of_its_own() {
        let x86 = " ABI:2    AX:0x1 FLAGS:0x2    R8:0x3   R15:0x4  XMM0:0x5  XMM0:0x6 XMM15:0x7 ";
        let mask = 1 | 1 << 9 | 1 << 16 | 1 << 23 | 1 << 32 | 1 << 33 | 1 << 63;
        check("x86_64", mask, &[1, 2, 3, 4, 5, 6, 7], x86);
        check(
            "aarch64",
            1 | 7 << 29,
            &[0, 1, 2, 3],
            " ABI:2    x0:0x0   x29:0x1    lr:0x2    sp:0x3 ",
        );
        check("armv7l", 1 << 11 | 1 << 15, &[1, 2], " ABI:2    fp:0x1    pc:0x2 ");
        check("riscv64", 1 | 1 << 31, &[1, 2], " ABI:2    pc:0x1    t6:0x2 ");
        check("ppc64le", 1 << 31 | 1 << 32, &[1, 2], " ABI:2   r31:0x1   nip:0x2 ");
        check("s390x", 1 << 16 | 1 << 33, &[1, 2], " ABI:2   FP0:0x1    PC:0x2 ");
        check("vax", 1, &[1], " ABI:2 unknown:0x1 ");
    }

    #[test]
    fn a_kernel_thread_has_no_registers() {
        let mut out = String::new();
        let registers = Registers { abi: 0, values: U64s::new(&[], Endian::Little) };
        append(Machine::X86, 1, &registers, &mut out);
        assert_eq!(out, "");
    }
}
