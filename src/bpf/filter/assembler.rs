//! Instructions of BPF and the labels that they jump to.
//!
//! Sources: `Documentation/bpf/standardization/instruction-set.rst`; `struct bpf_insn` in
//! `include/uapi/linux/bpf.h`.

use std::os::fd::RawFd;

use crate::sys::bpf_load::INSN_LEN;

/// A register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reg(pub(super) u8);

/// What a call returns.
pub(super) const R0: Reg = Reg(0);
/// The first argument; those up to the fifth follow.
pub(super) const R1: Reg = Reg(1);
pub(super) const R2: Reg = Reg(2);
pub(super) const R3: Reg = Reg(3);
pub(super) const R4: Reg = Reg(4);
pub(super) const R5: Reg = Reg(5);
/// The first of those that calls leave alone.
pub(super) const R6: Reg = Reg(6);
pub(super) const R7: Reg = Reg(7);
pub(super) const R8: Reg = Reg(8);
pub(super) const R9: Reg = Reg(9);
/// The end of the stack.
pub(super) const FRAME: Reg = Reg(10);

/// How much is loaded or stored; the value is that of the opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Width {
    U32 = 0x00,
    U8 = 0x10,
    U64 = 0x18,
}

/// When a jump is taken, without a sign but for the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Condition {
    Equal = 0x10,
    Greater = 0x20,
    GreaterOrEqual = 0x30,
    AnyBit = 0x40,
    NotEqual = 0x50,
    SignedGreaterOrEqual = 0x70,
    Less = 0xa0,
    LessOrEqual = 0xb0,
}

/// What is done to the 64 bits of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Alu {
    Add = 0x00,
    Sub = 0x10,
    Or = 0x40,
    And = 0x50,
    ShiftLeft = 0x60,
    ShiftRight = 0x70,
    Xor = 0xa0,
    Move = 0xb0,
    SignedShiftRight = 0xc0,
}

/// A function of the kernel that programs may call, by its number in `enum bpf_func_id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum Helper {
    MapLookup = 1,
    CpuId = 8,
    PidTgid = 14,
    UidGid = 15,
    Comm = 16,
    CgroupId = 80,
    ProbeReadKernel = 113,
    /// Since Linux 5.11.
    CurrentTask = 158,
}

const CLASS_LOAD: u8 = 0x61;
const CLASS_STORE: u8 = 0x63;
const CLASS_STORE_IMMEDIATE: u8 = 0x62;
const LOAD_IMMEDIATE_64: u8 = 0x18;
const CLASS_JUMP: u8 = 0x05;
const CLASS_ALU_64: u8 = 0x07;
const FROM_REGISTER: u8 = 0x08;
const MOVE_32: u8 = 0xbc;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// `BPF_PSEUDO_MAP_FD`
const PSEUDO_MAP: u8 = 1;
/// `BPF_PSEUDO_MAP_VALUE`, since Linux 5.2.
const PSEUDO_MAP_VALUE: u8 = 2;
/// `BPF_PSEUDO_KFUNC_CALL`
const PSEUDO_KERNEL_FUNCTION: u8 = 2;

/// One `struct bpf_insn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Insn {
    pub(super) code: u8,
    pub(super) dst: u8,
    pub(super) src: u8,
    pub(super) offset: i16,
    pub(super) immediate: i32,
}

impl Insn {
    /// In the byte order of this machine, whose C compilers order bit fields alike.
    pub(super) fn encode(self) -> [u8; INSN_LEN] {
        let Self { code, dst, src, offset, immediate } = self;
        let registers =
            if cfg!(target_endian = "little") { src << 4 | dst } else { dst << 4 | src };
        let [o0, o1] = offset.to_ne_bytes();
        let [i0, i1, i2, i3] = immediate.to_ne_bytes();
        [code, registers, o0, o1, i0, i1, i2, i3]
    }
}

/// Where a jump may lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label(usize);

/// A jump that leads farther than an instruction can say, or to a label that is nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooFar;

/// The program as far as it is written.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    insns: Vec<Insn>,
    /// Jumps and where they lead to.
    jumps: Vec<(usize, Label)>,
    /// The instructions that labels stand before.
    places: Vec<Option<usize>>,
}

impl Assembler {
    /// A place that is yet to be found.
    pub(super) fn label(&mut self) -> Label {
        self.places.push(None);
        Label(self.places.len() - 1)
    }

    /// Puts `label` before the next instruction. A jump there from just before it goes.
    pub(super) fn place(&mut self, label: Label) {
        let last = self.insns.len().checked_sub(1);
        if let (Some(last), Some(&(from, to))) = (last, self.jumps.last())
            && (from, to) == (last, label)
            && self.insns.last().is_some_and(|it| it.code == CLASS_JUMP)
        {
            self.insns.pop();
            self.jumps.pop();
            for place in self.places.iter_mut().flatten() {
                *place = (*place).min(last);
            }
        }
        let here = self.insns.len();
        if let Some(place) = self.places.get_mut(label.0) {
            *place = Some(here);
        }
    }

    /// Whether something jumps to `label`.
    pub(super) fn is_used(&self, label: Label) -> bool {
        self.jumps.iter().any(|it| it.1 == label)
    }

    fn put(&mut self, code: u8, dst: Reg, src: Reg, offset: i16, immediate: i32) {
        self.insns.push(Insn { code, dst: dst.0, src: src.0, offset, immediate });
    }

    /// `dst = *(from + offset)`, filled up with zeros.
    pub(super) fn load(&mut self, width: Width, dst: Reg, from: Reg, offset: i16) {
        self.put(CLASS_LOAD | width as u8, dst, from, offset, 0);
    }

    /// `*(to + offset) = src`
    pub(super) fn store(&mut self, width: Width, to: Reg, offset: i16, src: Reg) {
        self.put(CLASS_STORE | width as u8, to, src, offset, 0);
    }

    /// `*(to + offset) = value`
    pub(super) fn store_value(&mut self, width: Width, to: Reg, offset: i16, value: i32) {
        self.put(CLASS_STORE_IMMEDIATE | width as u8, to, R0, offset, value);
    }

    /// `dst = value`, in two places of the program if it needs more than 32 bits.
    pub(super) fn set(&mut self, dst: Reg, value: u64) {
        if let Some(value) = short(value) {
            self.alu_value(Alu::Move, dst, value);
            return;
        }
        let [low, high] = halves(value);
        self.put(LOAD_IMMEDIATE_64, dst, R0, 0, low);
        self.put(0, R0, R0, 0, high);
    }

    /// `dst` = the map.
    pub(super) fn set_map(&mut self, dst: Reg, map: RawFd) {
        self.put(LOAD_IMMEDIATE_64, dst, Reg(PSEUDO_MAP), 0, map);
        self.put(0, R0, R0, 0, 0);
    }

    /// `dst` = the address of the only value of the array `map`.
    pub(super) fn set_map_value(&mut self, dst: Reg, map: RawFd) {
        self.put(LOAD_IMMEDIATE_64, dst, Reg(PSEUDO_MAP_VALUE), 0, map);
        self.put(0, R0, R0, 0, 0);
    }

    /// `dst = dst OP src`
    pub(super) fn alu(&mut self, alu: Alu, dst: Reg, src: Reg) {
        self.put(CLASS_ALU_64 | FROM_REGISTER | alu as u8, dst, src, 0, 0);
    }

    /// `dst = dst OP value`, the value with its sign.
    pub(super) fn alu_value(&mut self, alu: Alu, dst: Reg, value: i32) {
        self.put(CLASS_ALU_64 | alu as u8, dst, R0, 0, value);
    }

    /// `dst` = the lower 32 bits of `src`.
    pub(super) fn move_32(&mut self, dst: Reg, src: Reg) {
        self.put(MOVE_32, dst, src, 0, 0);
    }

    pub(super) fn call(&mut self, helper: Helper) {
        self.put(CALL, R0, R0, 0, helper as i32);
    }

    /// Calls the function of the kernel whose type is `type_id`.
    pub(super) fn call_kernel(&mut self, type_id: i32) {
        self.put(CALL, R0, Reg(PSEUDO_KERNEL_FUNCTION), 0, type_id);
    }

    pub(super) fn exit(&mut self) {
        self.put(EXIT, R0, R0, 0, 0);
    }

    pub(super) fn jump(&mut self, to: Label) {
        self.jumps.push((self.insns.len(), to));
        self.put(CLASS_JUMP, R0, R0, 0, 0);
    }

    pub(super) fn jump_if(&mut self, condition: Condition, a: Reg, b: Reg, to: Label) {
        self.jumps.push((self.insns.len(), to));
        self.put(CLASS_JUMP | FROM_REGISTER | condition as u8, a, b, 0, 0);
    }

    /// Jumps if `reg` and `value` compare so; a value of many bits needs the register `spare`.
    pub(super) fn jump_if_value(
        &mut self,
        condition: Condition,
        reg: Reg,
        value: u64,
        spare: Reg,
        to: Label,
    ) {
        let Some(value) = short(value) else {
            self.set(spare, value);
            self.jump_if(condition, reg, spare, to);
            return;
        };
        self.jumps.push((self.insns.len(), to));
        self.put(CLASS_JUMP | condition as u8, reg, R0, 0, value);
    }

    /// The instructions, with all jumps in place.
    pub(super) fn finish(mut self) -> Result<Vec<Insn>, TooFar> {
        for (from, to) in self.jumps {
            let place = self.places.get(to.0).copied().flatten().ok_or(TooFar)?;
            let distance = i64::try_from(place).ok().zip(i64::try_from(from).ok());
            let distance = distance.map(|(place, from)| place - from - 1).ok_or(TooFar)?;
            let insn = self.insns.get_mut(from).ok_or(TooFar)?;
            insn.offset = i16::try_from(distance).map_err(|_| TooFar)?;
        }
        Ok(self.insns)
    }
}

/// `value` if an instruction's 32 bits, to which it gives a sign, can say it.
fn short(value: u64) -> Option<i32> {
    i32::try_from(value.cast_signed()).ok()
}

/// The lower and the upper 32 bits.
fn halves(value: u64) -> [i32; 2] {
    let half = |it: u64| u32::try_from(it & u64::from(u32::MAX)).unwrap_or(0).cast_signed();
    [half(value), half(value >> 32)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_encoded_as_the_kernel_has_them() {
        let mut it = Assembler::default();
        it.alu(Alu::Move, R6, R1);
        it.load(Width::U64, R1, R6, 168);
        it.set(R2, 0x1234_5678_9abc_def0);
        it.set(R0, 1);
        it.set(R0, u64::MAX);
        it.exit();
        let bytes: Vec<_> = it.finish().unwrap().into_iter().map(Insn::encode).collect();
        if cfg!(target_endian = "little") {
            assert_eq!(
                bytes,
                [
                    [0xbf, 0x16, 0, 0, 0, 0, 0, 0],
                    [0x79, 0x61, 168, 0, 0, 0, 0, 0],
                    [0x18, 0x02, 0, 0, 0xf0, 0xde, 0xbc, 0x9a],
                    [0, 0, 0, 0, 0x78, 0x56, 0x34, 0x12],
                    [0xb7, 0x00, 0, 0, 1, 0, 0, 0],
                    [0xb7, 0x00, 0, 0, 0xff, 0xff, 0xff, 0xff],
                    [0x95, 0x00, 0, 0, 0, 0, 0, 0],
                ]
            );
        }
    }

    #[test]
    fn jumps_count_from_the_next_instruction_both_ways() {
        let mut it = Assembler::default();
        let (start, end) = (it.label(), it.label());
        it.place(start);
        it.jump_if_value(Condition::Equal, R1, 7, R2, end);
        it.jump_if_value(Condition::Less, R1, 1 << 40, R2, end);
        it.jump(start);
        it.place(end);
        it.exit();
        let insns = it.finish().unwrap();
        let offsets: Vec<_> = insns.iter().map(|it| it.offset).collect();
        assert_eq!(offsets, [4, 0, 0, 1, -5, 0]);
        assert_eq!((insns[0].code, insns[0].immediate), (0x15, 7));
        assert_eq!((insns[3].code, insns[3].src), (0xad, 2));
    }

    #[test]
    fn a_jump_to_the_next_instruction_goes() {
        let mut it = Assembler::default();
        let (end, other) = (it.label(), it.label());
        it.jump_if_value(Condition::Equal, R1, 7, R2, other);
        it.jump(end);
        assert!(it.is_used(other) && it.is_used(end));
        it.place(other);
        it.place(end);
        it.exit();
        let insns = it.finish().unwrap();
        assert_eq!(insns.iter().map(|it| it.offset).collect::<Vec<_>>(), [0, 0]);
    }

    #[test]
    fn a_jump_that_is_too_far_or_leads_nowhere_is_no_program() {
        let mut it = Assembler::default();
        let end = it.label();
        it.jump(end);
        for _ in 0..=i16::MAX {
            it.exit();
        }
        it.place(end);
        assert_eq!(it.finish(), Err(TooFar));
        let mut it = Assembler::default();
        let nowhere = it.label();
        it.jump(nowhere);
        assert_eq!(it.finish(), Err(TooFar));
    }
}
