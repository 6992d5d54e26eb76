//! A program of a probe, made to run once at each hit.
//!
//! A probe is opened for each task and CPU that is watched, and each hit in a process runs the
//! programs of all of its tasks and all CPUs, so that a program would see everything many times. So
//! each event has the task and the CPU that it is of as the cookie that its program can ask for, and
//! a gate lets the program go on only there:
//!
//! ```text
//!         a                       a
//!         b          ->           goto gate
//!         c                       c
//!                         gate:   keep r1..r5 in r6..r9 as far as they are in use
//!                                 r0 = bpf_get_attach_cookie(ctx)
//!                                 if (r0 == 0) goto on
//!                                 cpu, task = halves of r0
//!                                 if (cpu && cpu != bpf_get_smp_processor_id() + 1) goto off
//!                                 if (!task || task == bpf_get_current_pid_tgid()) goto on
//!                         off:    return 0
//!                         on:     take r1..r5 back; b; goto c
//! ```
//!
//! Up to the gate the program has only moved numbers between registers, and what is moved there is
//! nothing that the loader has to find in its place.
//!
//! Source: `create_local_trace_uprobe()` and `__uprobe_perf_func()` in
//! `kernel/trace/trace_uprobe.c`.

use std::collections::BTreeSet;

use super::verdicts::CALL;
use super::verdicts::EXIT;
use super::verdicts::Instruction;
use super::verdicts::JUMP;
use super::verdicts::MOVE32;
use super::verdicts::instruction;
use super::verdicts::targets;
use crate::units::Cpu;
use crate::units::Tid;

const MOVE_REGISTER: u8 = 0xbf;
const MOVE32_REGISTER: u8 = 0xbc;
const LOAD_WIDE: u8 = 0x18;
const ADD: u8 = 0x07;
const SHIFT_RIGHT: u8 = 0x77;
const JUMP_EQUAL: u8 = 0x15;
const JUMP_EQUAL_REGISTER: u8 = 0x1d;
const JUMP_NOT_EQUAL_REGISTER: u8 = 0x5d;
/// `bpf_get_smp_processor_id()`, `bpf_get_current_pid_tgid()` and `bpf_get_attach_cookie()`.
const GET_CPU: i32 = 8;
const GET_TASK: i32 = 14;
const GET_COOKIE: i32 = 174;

/// What tells the program of an event which CPU and which task the event is of; 0 of all.
pub fn cookie(cpu: Option<Cpu>, task: Option<Tid>) -> u64 {
    let cpu = cpu.map_or(0, |it| u64::from(it.0) + 1);
    let task = task.map_or(0, |it| u64::from(it.0.cast_unsigned()));
    task << 32 | cpu
}

/// `program` with a gate; `None` where it has no place for one.
///
/// Where the program puts something into `r1` before, in the place of the context, that goes into a
/// register that is free until then, and to its own behind the gate.
pub(super) fn gated(program: &[Instruction]) -> Option<Vec<Instruction>> {
    let mut program = program.to_vec();
    let jumped_to: BTreeSet<usize> = targets(&program).collect();
    // What holds something: the context at first.
    let mut in_use = vec![1_u8];
    let mut instead: Option<u8> = None;
    let mut at = 0;
    loop {
        let it = program.get_mut(at)?;
        if jumped_to.contains(&at) {
            return None;
        }
        if can_move(*it) {
            return gate_at(&program, at, &in_use, instead);
        }
        // Loads of memory and of constants, and arithmetic.
        let class = it.code & 7;
        let is_wide = it.code == LOAD_WIDE;
        if !is_wide && !matches!(class, 0x01 | 0x04 | 0x07) {
            return None;
        }
        let reads_source = class == 0x01 || (!is_wide && it.code & 0x08 != 0 && class != 0x00);
        if let Some(instead) = instead {
            if it.dst_reg() == instead {
                return None;
            }
            if reads_source && it.src_reg() == 1 {
                it.set_src_reg(instead);
            }
            if it.dst_reg() == 1 {
                it.set_dst_reg(instead);
            }
        } else if it.dst_reg() == 1 {
            // Arithmetic on the context itself would read what is not there yet.
            if !is_wide && class != 0x01 && it.code & 0xf0 != 0xb0 {
                return None;
            }
            let free = (6..=9).rev().find(|it| !in_use.contains(it))?;
            it.set_dst_reg(free);
            instead = Some(free);
        }
        if !in_use.contains(&it.dst_reg()) {
            in_use.push(it.dst_reg());
        }
        at += if is_wide { 2 } else { 1 };
    }
}

/// Whether an instruction is the same in another place, and none that the loader looks for: moves
/// between registers, calls of helpers, stores to the stack, and atomic operations.
fn can_move(it: Instruction) -> bool {
    let is_store = matches!(it.code & 7, 0x02 | 0x03);
    it.code == MOVE_REGISTER
        || (it.code == CALL && it.src_reg() == 0)
        || (is_store && it.dst_reg() == 10)
        || matches!(it.code, 0xc3 | 0xdb)
}

fn gate_at(
    program: &[Instruction],
    at: usize,
    in_use: &[u8],
    instead: Option<u8>,
) -> Option<Vec<Instruction>> {
    // Who may change in a call, and who does not; the context is not asked for any more where
    // something has taken its place.
    let is_lost = |it: &u8| in_use.contains(it) && (*it != 1 || instead.is_none());
    let lost: Vec<u8> = (0..=5).filter(is_lost).collect();
    let mut free = (6..=9).filter(|it| !in_use.contains(it));
    let cookie = free.next()?;
    let kept: Option<Vec<(u8, u8)>> = lost.iter().map(|it| Some((*it, free.next()?))).collect();
    let kept = kept?;

    let mut gated = program.to_vec();
    let moved = *program.get(at)?;
    let jump = |from: usize, to: usize| {
        let distance = i64::try_from(to).ok()? - i64::try_from(from).ok()? - 1;
        Some(instruction(JUMP, (0, 0), i16::try_from(distance).ok()?, 0))
    };
    *gated.get_mut(at)? = jump(at, program.len())?;
    gated.extend(kept.iter().map(|it| instruction(MOVE_REGISTER, (it.1, it.0), 0, 0)));
    gated.extend([
        instruction(CALL, (0, 0), 0, GET_COOKIE),
        instruction(JUMP_EQUAL, (0, 0), 13, 0),
        instruction(MOVE_REGISTER, (cookie, 0), 0, 0),
        instruction(CALL, (0, 0), 0, GET_CPU),
        instruction(ADD, (0, 0), 0, 1),
        instruction(MOVE32_REGISTER, (1, cookie), 0, 0),
        instruction(JUMP_EQUAL, (1, 0), 1, 0),
        instruction(JUMP_NOT_EQUAL_REGISTER, (1, 0), 5, 0),
        instruction(SHIFT_RIGHT, (cookie, 0), 0, 32),
        instruction(JUMP_EQUAL, (cookie, 0), 5, 0),
        instruction(CALL, (0, 0), 0, GET_TASK),
        instruction(MOVE32_REGISTER, (0, 0), 0, 0),
        instruction(JUMP_EQUAL_REGISTER, (0, cookie), 2, 0),
        instruction(MOVE32, (0, 0), 0, 0),
        instruction(EXIT, (0, 0), 0, 0),
    ]);
    gated.extend(kept.iter().map(|it| instruction(MOVE_REGISTER, (it.0, it.1), 0, 0)));
    gated.extend(instead.map(|it| instruction(MOVE_REGISTER, (1, it), 0, 0)));
    gated.push(moved);
    let back = jump(gated.len(), at + 1)?;
    gated.push(back);
    Some(gated)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Opcode, registers, distance and constant of each.
    fn text(program: &[Instruction]) -> Vec<(u8, u8, u8, i16, i32)> {
        program.iter().map(|it| (it.code, it.dst_reg(), it.src_reg(), it.off, it.imm)).collect()
    }

    fn load(to: u8) -> Instruction {
        instruction(0x79, (to, 1), 112, 0)
    }

    fn exit() -> Instruction {
        instruction(EXIT, (0, 0), 0, 0)
    }

    #[test]
    fn a_cookie_tells_the_cpu_and_the_task() {
        assert_eq!(cookie(None, None), 0);
        assert_eq!(cookie(Some(Cpu(0)), None), 1);
        assert_eq!(cookie(Some(Cpu(3)), Some(Tid(7))), 7 << 32 | 4);
    }

    #[test]
    fn the_gate_stands_before_anything_is_done() {
        let program = [load(2), instruction(MOVE_REGISTER, (6, 1), 0, 0), exit()];
        assert_eq!(
            text(&gated(&program).unwrap()),
            [
                (0x79, 2, 1, 112, 0),
                (0x05, 0, 0, 1, 0),
                (0x95, 0, 0, 0, 0),
                (0xbf, 7, 1, 0, 0),
                (0xbf, 8, 2, 0, 0),
                (0x85, 0, 0, 0, 174),
                (0x15, 0, 0, 13, 0),
                (0xbf, 6, 0, 0, 0),
                (0x85, 0, 0, 0, 8),
                (0x07, 0, 0, 0, 1),
                (0xbc, 1, 6, 0, 0),
                (0x15, 1, 0, 1, 0),
                (0x5d, 1, 0, 5, 0),
                (0x77, 6, 0, 0, 32),
                (0x15, 6, 0, 5, 0),
                (0x85, 0, 0, 0, 14),
                (0xbc, 0, 0, 0, 0),
                (0x1d, 0, 6, 2, 0),
                (0xb4, 0, 0, 0, 0),
                (0x95, 0, 0, 0, 0),
                (0xbf, 1, 7, 0, 0),
                (0xbf, 2, 8, 0, 0),
                (0xbf, 6, 1, 0, 0),
                (0x05, 0, 0, -22, 0),
            ]
        );
    }

    #[test]
    fn what_takes_the_place_of_the_context_waits_behind_the_gate() {
        // r1 = &count; r2 = 1; lock *(u64 *)(r1 + 0) += r2
        let program = [
            instruction(LOAD_WIDE, (1, 0), 0, 0),
            instruction(0, (0, 0), 0, 0),
            instruction(0xb7, (2, 0), 0, 1),
            instruction(0xdb, (1, 2), 0, 0),
            exit(),
        ];
        let gated = text(&gated(&program).unwrap());
        assert_eq!(
            gated[..7],
            [
                (0x18, 9, 0, 0, 0),
                (0, 0, 0, 0, 0),
                (0xb7, 2, 0, 0, 1),
                (0x05, 0, 0, 1, 0),
                (0x95, 0, 0, 0, 0),
                (0xbf, 7, 2, 0, 0),
                (0x85, 0, 0, 0, 174),
            ]
        );
        assert_eq!(
            gated[gated.len() - 4..],
            [(0xbf, 2, 7, 0, 0), (0xbf, 1, 9, 0, 0), (0xdb, 1, 2, 0, 0), (0x05, 0, 0, -21, 0)]
        );
        // r1 = *(u64 *)(r1 + 112); r1 >>= 32; *(u64 *)(r10 - 8) = r1
        let program = [
            load(1),
            instruction(SHIFT_RIGHT, (1, 0), 0, 32),
            instruction(0x7b, (10, 1), -8, 0),
            exit(),
        ];
        let gated = text(&super::gated(&program).unwrap());
        assert_eq!(gated[..2], [(0x79, 9, 1, 112, 0), (0x77, 9, 0, 0, 32)]);
    }

    #[test]
    fn a_program_without_a_place_for_it_has_none() {
        let store = instruction(0x7b, (2, 1), -8, 0);
        let added = instruction(ADD, (1, 0), 0, 8);
        let branch = instruction(0x15, (1, 0), 1, 0);
        let call_of_own = instruction(CALL, (0, 1), 0, 4);
        let full = [load(0), load(2), load(3), load(4), instruction(CALL, (0, 0), 0, 14), exit()];
        let programs: [&[Instruction]; 8] = [
            &[],
            &[load(1), exit()],
            &[exit()],
            &[store, exit()],
            &[added, instruction(CALL, (0, 0), 0, 14), exit()],
            &[branch, exit()],
            &[call_of_own, exit()],
            &full,
        ];
        for program in programs {
            assert!(gated(program).is_none(), "{:?}", text(program));
        }
    }
}
