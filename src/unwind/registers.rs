//! The registers of a frame, numbered as DWARF numbers them.

/// A machine whose stacks can be unwound, in 64-bit mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arch {
    /// x86-64.
    X86_64,
    /// `AArch64`.
    Aarch64,
}

/// The registers of a frame, as far as they are known, by their numbers in DWARF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    values: [u64; N_REGISTERS],
    /// A bit for each that is known.
    known: u64,
    /// A bit for each whose value is likely, and no more.
    guesses: u64,
}

const N_REGISTERS: usize = 33;

/// The numbers in DWARF of what `enum perf_event_x86_regs` numbers from 0 on; `None` is not needed.
///
/// Sources: `arch/x86/include/uapi/asm/perf_regs.h`; figure 3.36 of the x86-64 psABI.
const X86_64_OF_PERF: [Option<u8>; 24] = [
    Some(0),  // AX
    Some(3),  // BX
    Some(2),  // CX
    Some(1),  // DX
    Some(4),  // SI
    Some(5),  // DI
    Some(6),  // BP
    Some(7),  // SP
    Some(16), // IP, in the column of the return address
    None,     // FLAGS
    None,     // CS
    None,     // SS
    None,     // DS
    None,     // ES
    None,     // FS
    None,     // GS
    Some(8),
    Some(9),
    Some(10),
    Some(11),
    Some(12),
    Some(13),
    Some(14),
    Some(15),
];

impl Arch {
    /// By the name that `uname -m` gives the machine.
    pub fn from_uname(name: &[u8]) -> Option<Self> {
        match name {
            b"x86_64" | b"amd64" => Some(Self::X86_64),
            b"aarch64" | b"arm64" => Some(Self::Aarch64),
            _ => None,
        }
    }

    /// By the number in the header of its ELF files.
    pub fn from_elf(machine: u16) -> Option<Self> {
        match machine {
            62 => Some(Self::X86_64),
            183 => Some(Self::Aarch64),
            _ => None,
        }
    }

    /// The register with the address of the code.
    pub fn pc(self) -> u8 {
        match self {
            Self::X86_64 => 16,
            Self::Aarch64 => 32,
        }
    }

    /// The stack pointer.
    pub fn sp(self) -> u8 {
        match self {
            Self::X86_64 => 7,
            Self::Aarch64 => 31,
        }
    }

    /// The register that points to the frame of a function, if that keeps to the convention.
    pub fn frame_pointer(self) -> u8 {
        match self {
            Self::X86_64 => 6,
            Self::Aarch64 => 29,
        }
    }

    /// Whether a function that says nothing else gives `register` back as it was.
    pub fn is_preserved(self, register: u8) -> bool {
        match self {
            Self::X86_64 => matches!(register, 3 | 6 | 12..=15),
            // The link register is one by the convention that a leaf function says nothing of it.
            Self::Aarch64 => matches!(register, 18..=30),
        }
    }

    /// How many registers there are in DWARF's numbering, as far as they matter here.
    pub fn n_registers(self) -> u8 {
        match self {
            Self::X86_64 => 17,
            Self::Aarch64 => 33,
        }
    }

    /// The number in DWARF of the register that the bit with the index `bit` of `sample_regs_user`
    /// stands for.
    fn of_perf(self, bit: u32) -> Option<u8> {
        match self {
            Self::X86_64 => *X86_64_OF_PERF.get(bit as usize)?,
            // `enum perf_event_arm_regs` numbers them in the same way, up to the program counter.
            Self::Aarch64 => u8::try_from(bit).ok().filter(|it| *it <= 32),
        }
    }

    /// `addr`, a return address as it lies in memory, without what protects it against changes.
    ///
    /// Addresses of processes have at most 48 bits unless they ask for more; above those a signed
    /// address has its code, and an unsigned one zeros.
    pub fn plain(self, addr: u64) -> u64 {
        match self {
            Self::X86_64 => addr,
            Self::Aarch64 => addr & 0x0000_ffff_ffff_ffff,
        }
    }
}

impl Registers {
    /// None known.
    pub fn none() -> Self {
        Self { values: [0; N_REGISTERS], known: 0, guesses: 0 }
    }

    /// The registers that a sample has: `values` by ascending bit of `mask`, the event's
    /// `sample_regs_user`.
    pub fn from_sample(arch: Arch, mask: u64, values: impl Iterator<Item = u64>) -> Self {
        let mut this = Self::none();
        let bits = (0..u64::BITS).filter(|bit| mask >> bit & 1 == 1);
        for (bit, value) in bits.zip(values) {
            if let Some(register) = arch.of_perf(bit) {
                this.set(register, value);
            }
        }
        this
    }

    /// The value of a register.
    pub fn get(&self, register: u8) -> Option<u64> {
        let is_known = self.known & bit(register) != 0;
        self.values.get(usize::from(register)).copied().filter(|_| is_known)
    }

    /// Sets a register; one that does not matter is left out.
    pub fn set(&mut self, register: u8, value: u64) {
        if let Some(place) = self.values.get_mut(usize::from(register)) {
            *place = value;
            self.known |= bit(register);
        }
    }

    /// Makes a register one that is not known.
    pub(super) fn forget(&mut self, register: u8) {
        self.known &= !bit(register);
    }

    /// Says of a register that its value is likely, and no more.
    pub(super) fn guess(&mut self, register: u8) {
        self.guesses |= bit(register);
    }

    /// Whether any value is likely, and no more.
    pub(super) fn has_guesses(&self) -> bool {
        self.guesses != 0
    }

    /// Whether the value of a register is likely, and no more.
    pub(super) fn is_guess(&self, register: u8) -> bool {
        self.guesses & bit(register) != 0
    }
}

/// The bit of a register in a set; none of one that does not matter.
fn bit(register: u8) -> u64 {
    if usize::from(register) < N_REGISTERS { 1 << register } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_says_which_values_are_of_which_registers() {
        // What Linux perf asks for on x86-64: all but the segments of data.
        let values = 100..;
        let got = Registers::from_sample(Arch::X86_64, 0x00ff_0fff, values);
        let of = |register| got.get(register).map(|it| it - 100);
        assert_eq!([of(0), of(3), of(2), of(1)], [Some(0), Some(1), Some(2), Some(3)]);
        assert_eq!([of(6), of(7), of(16)], [Some(6), Some(7), Some(8)]);
        // Flags, code and stack segments come between.
        assert_eq!([of(8), of(15)], [Some(12), Some(19)]);
        let got = Registers::from_sample(
            Arch::Aarch64,
            1 << 29 | 1 << 31 | 1 << 32,
            [7, 8, 9].into_iter(),
        );
        assert_eq!(
            [got.get(29), got.get(30), got.get(31), got.get(32)],
            [Some(7), None, Some(8), Some(9)]
        );
    }

    #[test]
    fn values_that_are_missing_are_not_known() {
        let got = Registers::from_sample(Arch::X86_64, u64::MAX, [1].into_iter());
        assert_eq!([got.get(0), got.get(3), got.get(255)], [Some(1), None, None]);
    }
}
