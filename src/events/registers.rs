//! Registers and branches by name, as bits of the attribute.

use super::names;

/// The registers of this machine, each with its bit in `sample_regs_user` and `sample_regs_intr`.
///
/// Source: `enum perf_event_x86_regs` in `arch/x86/include/uapi/asm/perf_regs.h`; segment registers
/// other than CS and SS are never recorded in 64-bit mode.
#[cfg(target_arch = "x86_64")]
const REGISTERS: [(&str, u32); 20] = [
    ("AX", 0),
    ("BX", 1),
    ("CX", 2),
    ("DX", 3),
    ("SI", 4),
    ("DI", 5),
    ("BP", 6),
    ("SP", 7),
    ("IP", 8),
    ("FLAGS", 9),
    ("CS", 10),
    ("SS", 11),
    ("R8", 16),
    ("R9", 17),
    ("R10", 18),
    ("R11", 19),
    ("R12", 20),
    ("R13", 21),
    ("R14", 22),
    ("R15", 23),
];

/// The registers of this machine, each with its bit.
///
/// Source: `enum perf_event_arm_regs` in `arch/arm64/include/uapi/asm/perf_regs.h`.
#[cfg(target_arch = "aarch64")]
const REGISTERS: [(&str, u32); 33] = {
    const X: [&str; 30] = [
        "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13",
        "x14", "x15", "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26",
        "x27", "x28", "x29",
    ];
    let mut all = [("", 0); 33];
    let (mut at, mut bit) = (0, 0);
    while at < X.len() {
        all[at] = (X[at], bit);
        at += 1;
        bit += 1;
    }
    all[30] = ("lr", 30);
    all[31] = ("sp", 31);
    all[32] = ("pc", 32);
    all
};

/// No registers are known of such a machine.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const REGISTERS: [(&str, u32); 0] = [];

/// `PERF_SAMPLE_BRANCH_*` by the names of perf-record(1), the places first.
const BRANCHES: [(&str, u32); 20] = [
    ("u", 0),
    ("k", 1),
    ("hv", 2),
    ("any", 3),
    ("any_call", 4),
    ("any_ret", 5),
    ("ind_call", 6),
    ("abort_tx", 7),
    ("in_tx", 8),
    ("no_tx", 9),
    ("cond", 10),
    ("stack", 11),
    ("ind_jmp", 12),
    ("call", 13),
    ("no_flags", 14),
    ("no_cycles", 15),
    ("save_type", 16),
    ("hw_index", 17),
    ("priv", 18),
    ("counter", 19),
];

/// The bits of user, kernel and hypervisor.
const PLACES: u64 = 0b111;

/// `PERF_SAMPLE_BRANCH_ANY`.
pub const ANY_BRANCH: u64 = 1 << 3;

/// What the hardware's record of branches holds where it is kept as a call stack: user space, the
/// stack, without cycles and flags, with the index.
///
/// Source: `__evsel__config_callchain()` in `tools/perf/util/evsel.c`.
pub const CALL_STACK_BRANCHES: u64 = 1 | 1 << 11 | 1 << 14 | 1 << 15 | 1 << 17;

/// A name that is not one of those that there are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no {what} is called `{name}`")]
pub struct UnknownName {
    /// What was to be named: a register, a kind of branch.
    pub what: &'static str,
    /// The name.
    pub name: String,
    /// All that there are.
    pub known: Vec<&'static str>,
    /// The one that is most like it.
    pub nearest: Option<String>,
}

/// All registers of this machine, as a mask.
pub fn all_registers() -> u64 {
    REGISTERS.iter().fold(0, |mask, it| mask | 1 << it.1)
}

/// The registers of a list such as `ax,ip`, in any case, as a mask.
///
/// # Errors
///
/// [`UnknownName`] for a register that this machine does not have.
pub fn registers(list: &str) -> Result<u64, UnknownName> {
    mask("register", list, &REGISTERS)
}

/// The kinds of branches of a list such as `any_call,u`, as a mask. Where only places are named,
/// all kinds are meant.
///
/// # Errors
///
/// [`UnknownName`] for a kind that there is not.
pub fn branches(list: &str) -> Result<u64, UnknownName> {
    let mask = mask("kind of branch", list, &BRANCHES)?;
    Ok(if mask & !PLACES == 0 { mask | ANY_BRANCH } else { mask })
}

fn mask(what: &'static str, list: &str, known: &[(&'static str, u32)]) -> Result<u64, UnknownName> {
    let mut mask = 0;
    for name in list.split(',').map(str::trim) {
        let Some((_, bit)) = known.iter().find(|it| it.0.eq_ignore_ascii_case(name)) else {
            let nearest =
                names::nearest_of(&name.to_ascii_uppercase(), known.iter().map(|it| it.0));
            let known = known.iter().map(|it| it.0).collect();
            return Err(UnknownName { what, name: name.to_owned(), known, nearest });
        };
        mask |= 1 << bit;
    }
    Ok(mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn registers_are_bits_by_name() {
        assert_eq!(all_registers(), 0xff_0fff);
        assert_eq!(registers("ax,IP, sp"), Ok(0x181));
        let error = registers("ax,r16").unwrap_err();
        assert_eq!(error.to_string(), "no register is called `r16`");
        assert_eq!(error.nearest.as_deref(), Some("R10"));
    }

    #[test]
    fn branches_of_a_place_are_all_kinds_there() {
        assert_eq!(branches("u"), Ok(0b1001));
        assert_eq!(branches("any_call,u,save_type"), Ok(1 | 1 << 4 | 1 << 16));
        assert!(branches("").is_err() && branches("any,x").is_err());
    }
}
