//! How often a program takes a sample away.
//!
//! The kernel counts nothing of it, so each `exit` of the program leads to code of ours behind it:
//!
//! ```text
//!         exit        ->        goto end
//!         ...                   ...
//!                        end:   if (w0 != 0) goto out
//!                               r1 = &count
//!                               r2 = 1
//!                               lock *(u64 *)(r1 + 0) += r2
//!                        out:   exit
//! ```
//!
//! `r1` to `r5` are free at an exit, and `r0` stays. What a program calls comes behind it when it is
//! loaded, so an `exit` in it is always its own.
//!
//! Source: `Documentation/bpf/standardization/instruction-set.rst`; `bpf_prog_run()` in
//! `include/linux/filter.h` for the 32 bits of a verdict.

use std::collections::BTreeSet;

use libbpf_rs::libbpf_sys as raw;

/// One instruction, less the type that generated code has for it.
pub(super) type Instruction = raw::bpf_insn;

pub(super) const EXIT: u8 = 0x95;
pub(super) const JUMP: u8 = 0x05;
/// `if (w0 != imm) goto`.
const JUMP32_NOT_EQUAL: u8 = 0x56;
const LOAD_WIDE: u8 = 0x18;
pub(super) const CALL: u8 = 0x85;
/// `bpf_tail_call()`.
const TAIL_CALL: i32 = 12;
const MOVE: u8 = 0xb7;
pub(super) const MOVE32: u8 = 0xb4;
const ATOMIC_WIDE: u8 = 0xdb;
/// `BPF_PSEUDO_MAP_VALUE`: the address of a map's value, by the map's descriptor.
const MAP_VALUE: u8 = 2;
/// Classes whose instructions are jumps, but for calls and exits.
const CLASSES_OF_JUMPS: [u8; 2] = [0x05, 0x06];

pub(super) fn instruction(code: u8, registers: (u8, u8), off: i16, imm: i32) -> Instruction {
    let mut made = Instruction { code, off, imm, ..Instruction::default() };
    made.set_dst_reg(registers.0);
    made.set_src_reg(registers.1);
    made
}

/// `program` with each of its zeros counted in the first value of the array map `counts`; `None` if it
/// is too long, never ends, or another program may end in its stead.
pub(super) fn counting(program: &[Instruction], counts: i32) -> Option<Vec<Instruction>> {
    if program.iter().copied().any(is_tail_call) {
        return None;
    }
    let mut counted = program.to_vec();
    let mut has_exit = false;
    for (at, it) in counted.iter_mut().enumerate().filter(|(_, it)| it.code == EXIT) {
        let distance = i16::try_from(program.len() - at - 1).ok()?;
        *it = instruction(JUMP, (0, 0), distance, 0);
        has_exit = true;
    }
    if !has_exit {
        return None;
    }
    counted.extend([
        instruction(JUMP32_NOT_EQUAL, (0, 0), 4, 0),
        instruction(LOAD_WIDE, (1, MAP_VALUE), 0, counts),
        instruction(0, (0, 0), 0, 0),
        instruction(MOVE, (2, 0), 0, 1),
        instruction(ATOMIC_WIDE, (1, 2), 0, 0),
        instruction(EXIT, (0, 0), 0, 0),
    ]);
    Some(counted)
}

/// Whether another program may end in the place of this one.
fn is_tail_call(it: Instruction) -> bool {
    it.code == CALL && it.src_reg() == 0 && it.imm == TAIL_CALL
}

/// The targets of all jumps of `program`.
pub(super) fn targets(program: &[Instruction]) -> impl Iterator<Item = usize> {
    let jumps = program.iter().enumerate().filter(|(_, it)| {
        // 0x80 is a call, 0x90 an exit.
        CLASSES_OF_JUMPS.contains(&(it.code & 7)) && !matches!(it.code & 0xf0, 0x80 | 0x90)
    });
    jumps.filter_map(|(at, it)| {
        // `goto` with 32 bits has its distance in `imm`.
        let distance = if it.code == 0x06 { i64::from(it.imm) } else { i64::from(it.off) };
        usize::try_from(i64::try_from(at).ok()?.checked_add(1)?.checked_add(distance)?).ok()
    })
}

/// Whether `program` may return 0: it does not where each `exit` follows another constant,
/// nothing jumps between the two, and no other program ends in its stead.
pub(super) fn can_be_zero(program: &[Instruction]) -> bool {
    let jumped_to: BTreeSet<usize> = targets(program).collect();
    program.iter().copied().any(is_tail_call)
        || program.iter().enumerate().filter(|(_, it)| it.code == EXIT).any(|(at, _)| {
            let before = at.checked_sub(1).and_then(|at| program.get(at));
            let is_constant = before.is_some_and(|it| {
                matches!(it.code, MOVE | MOVE32) && it.dst_reg() == 0 && it.imm != 0
            });
            !is_constant || jumped_to.contains(&at)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Opcode, registers, distance and constant of each.
    fn text(program: &[Instruction]) -> Vec<(u8, u8, u8, i16, i32)> {
        program.iter().map(|it| (it.code, it.dst_reg(), it.src_reg(), it.off, it.imm)).collect()
    }

    /// `r0 = imm`.
    fn returns(imm: i32) -> Instruction {
        instruction(MOVE, (0, 0), 0, imm)
    }

    fn exit() -> Instruction {
        instruction(EXIT, (0, 0), 0, 0)
    }

    #[test]
    fn each_exit_leads_to_the_count() {
        let program = [returns(1), exit(), returns(0), exit()];
        let counted = counting(&program, 9).unwrap();
        assert_eq!(
            text(&counted),
            [
                (0xb7, 0, 0, 0, 1),
                (0x05, 0, 0, 2, 0),
                (0xb7, 0, 0, 0, 0),
                (0x05, 0, 0, 0, 0),
                (0x56, 0, 0, 4, 0),
                (0x18, 1, 2, 0, 9),
                (0, 0, 0, 0, 0),
                (0xb7, 2, 0, 0, 1),
                (0xdb, 1, 2, 0, 0),
                (0x95, 0, 0, 0, 0),
            ]
        );
        assert!(counting(&[returns(0)], 9).is_none());
        let long = [&[exit()][..], &vec![returns(0); 1 << 15]].concat();
        assert!(counting(&long, 9).is_none());
    }

    #[test]
    fn only_constants_are_surely_no_zero() {
        let jump = |off| instruction(0x15, (1, 0), off, 0);
        assert!(!can_be_zero(&[returns(1), exit()]));
        assert!(can_be_zero(&[returns(0), exit()]));
        assert!(can_be_zero(&[returns(1), exit(), instruction(0xbf, (0, 1), 0, 0), exit()]));
        assert!(can_be_zero(&[returns(0), jump(1), returns(1), exit()]));
        assert!(!can_be_zero(&[jump(0), returns(1), exit()]));
        let tail_call = instruction(CALL, (0, 0), 0, TAIL_CALL);
        assert!(can_be_zero(&[tail_call, returns(1), exit()]));
        assert!(counting(&[tail_call, returns(0), exit()], 9).is_none());
        let far = instruction(0x06, (0, 0), 0, 1);
        assert!(can_be_zero(&[returns(0), far, returns(1), exit()]));
    }
}
