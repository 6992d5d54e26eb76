//! From frame to frame, as far as the tables and the copy of the stack lead.

use super::Arch;
use super::Registers;
use super::Row;
use super::row::Stop;

/// The part of a stack that a sample holds.
#[derive(Clone, Copy, Debug)]
pub struct StackCopy<'a> {
    /// The address of the first byte: the stack pointer.
    pub start: u64,
    /// The bytes that were copied.
    pub bytes: &'a [u8],
}

/// What lies at an address of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// No code that is known of.
    None,
    /// Code of which no table tells.
    NoTable,
    /// Code that returns from a signal's handler, by its instructions: no table tells of it.
    SignalReturn,
    /// Code that a table tells of.
    Row(RowId),
}

/// The number of a row, as an address space counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowId(pub u32);

/// An address space.
pub trait Space {
    /// What lies at `pc`, where a task was interrupted, or to where a call returns: then what counts is
    /// the call, the last byte before.
    fn code(&mut self, pc: u64, left: Left) -> Code;

    /// The row with this number, one that [`Space::code`] gave.
    fn row(&self, id: RowId) -> &Row;

    /// Whether a call lies right before `pc`; `None` where the code is not at hand.
    fn follows_call(&mut self, pc: u64) -> Option<bool>;

    /// Takes the address of the next frame, which lies in what was last asked for.
    fn frame(&mut self, addr: u64);
}

/// How a frame was left for the one that it has above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Left {
    /// By a call, which returns to its address.
    ByCall,
    /// It was interrupted at its address, by the sample or by a signal.
    Interrupted,
}

/// Why a chain has no more frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is at the bottom of the stack.
    Bottom,
    /// The copy of the stack ends before it.
    CopyEnds,
    /// There are as many frames as were asked for.
    Enough,
    /// Code that is not known, or that no table tells of.
    NoTable,
    /// The tables lead nowhere.
    Broken,
}

impl StackCopy<'_> {
    /// The word at `addr`.
    pub(super) fn word(&self, addr: u64) -> Result<u64, Stop> {
        let offset = addr.checked_sub(self.start).ok_or(Stop::Unknown)?;
        let bytes = usize::try_from(offset).ok().and_then(|it| self.bytes.get(it..));
        match bytes.and_then(|it| it.first_chunk()) {
            Some(word) => Ok(u64::from_le_bytes(*word)),
            // Stacks are rarely as large as this: the address is of something else.
            None if offset > 16 << 20 => Err(Stop::Unknown),
            None => Err(Stop::BeyondCopy),
        }
    }

    /// Whether `addr` is above the top of the stack, where nothing lives that has to be kept.
    pub(super) fn is_above(&self, addr: u64) -> bool {
        addr < self.start
    }
}

/// Gives `space` the addresses of the frames of a task, at most `max_frames`, the sampled one first, and
/// says why there are no more.
///
/// Those of callers lie within the instruction that called: a byte before the one that the call
/// returns to, which may be of another function. Those that were interrupted stand as they are.
pub fn walk(
    arch: Arch,
    mut registers: Registers,
    stack: &StackCopy<'_>,
    space: &mut impl Space,
    max_frames: usize,
) -> End {
    let mut n_frames = 0;
    let mut left = Left::Interrupted;
    while let Some(pc) = registers.get(arch.pc()).filter(|it| *it != 0) {
        if n_frames == max_frames {
            return End::Enough;
        }
        n_frames += 1;
        let code = space.code(pc, left);
        let is_signal = match code {
            Code::Row(id) => space.row(id).is_signal,
            Code::SignalReturn => true,
            Code::None | Code::NoTable => false,
        };
        let is_within = left == Left::ByCall && !is_signal;
        space.frame(pc - u64::from(is_within));
        let caller = match code {
            Code::Row(id) => {
                let row = space.row(id);
                let is_guess = row.is_from_guess(&registers);
                let caller = row.caller(arch, &registers, stack, left);
                caller.and_then(|it| {
                    let is_doubtful = is_guess && !can_be_caller(arch, &it, space);
                    if is_doubtful { Err(Stop::Unknown) } else { Ok(it) }
                })
            }
            Code::SignalReturn => interrupted(arch, &registers, stack),
            Code::NoTable => match by_frame_pointer(arch, &registers, stack, space) {
                Err(Stop::Unknown) => return End::NoTable,
                caller => caller,
            },
            Code::None => return End::NoTable,
        };
        let caller = match caller {
            Ok(caller) => caller,
            Err(Stop::Bottom) => return End::Bottom,
            Err(Stop::BeyondCopy) => return End::CopyEnds,
            Err(Stop::Unknown) => return End::Broken,
        };
        // A signal's handler may have a stack of its own.
        if !is_signal && !is_progress(arch, &registers, &caller, left) {
            return End::Broken;
        }
        registers = caller;
        left = if is_signal { Left::Interrupted } else { Left::ByCall };
    }
    End::Bottom
}

/// Whether `caller` is nearer to the bottom of the stack than its callee. A leaf function may have put
/// nothing on it.
fn is_progress(arch: Arch, callee: &Registers, caller: &Registers, left: Left) -> bool {
    let (Some(from), Some(to)) = (callee.get(arch.sp()), caller.get(arch.sp())) else {
        return false;
    };
    let is_leaf = left == Left::Interrupted && callee.get(arch.pc()) != caller.get(arch.pc());
    from < to || is_leaf && from == to
}

/// The caller of code without a table, if that keeps its frame pointer as compilers do: the caller's
/// frame pointer lies where it points to, and the return address behind it.
fn by_frame_pointer(
    arch: Arch,
    registers: &Registers,
    stack: &StackCopy<'_>,
    space: &mut impl Space,
) -> Result<Registers, Stop> {
    let frame = registers.get(arch.frame_pointer()).ok_or(Stop::Unknown)?;
    let sp = registers.get(arch.sp()).ok_or(Stop::Unknown)?;
    if frame % 8 != 0 || frame < sp {
        return Err(Stop::Unknown);
    }
    let behind = frame.checked_add(16).ok_or(Stop::Unknown)?;
    let mut caller = Registers::none();
    caller.set(arch.frame_pointer(), stack.word(frame)?);
    caller.set(arch.pc(), arch.plain(stack.word(frame.wrapping_add(8))?));
    caller.set(arch.sp(), behind);
    if can_be_caller(arch, &caller, space) { Ok(caller) } else { Err(Stop::Unknown) }
}

/// Whether the address of `caller` is one that a call returns to, as far as its code is at hand.
fn can_be_caller(arch: Arch, caller: &Registers, space: &mut impl Space) -> bool {
    let Some(pc) = caller.get(arch.pc()).filter(|it| *it != 0) else { return false };
    !matches!(space.code(pc, Left::ByCall), Code::None) && space.follows_call(pc) != Some(false)
}

/// What the task had in its registers when a signal came, where the code that returns from the
/// signal's handler is about to run.
///
/// The kernel puts them on the stack: `struct rt_sigframe` of `arch/x86/include/asm/sigframe.h`
/// without its first word, which the handler's return has taken off, and that of
/// `arch/arm64/kernel/signal.c`.
fn interrupted(
    arch: Arch,
    registers: &Registers,
    stack: &StackCopy<'_>,
) -> Result<Registers, Stop> {
    /// `uc_mcontext` follows `uc_flags`, `uc_link` and `uc_stack`.
    const X86_64_CONTEXT: u64 = 40;
    /// The numbers in DWARF of the registers in `struct sigcontext_64`, in order.
    const X86_64_ORDER: [u8; 17] = [8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16];
    /// Behind `siginfo_t`, the front of `struct ucontext`, and `fault_address`.
    const AARCH64_CONTEXT: u64 = 128 + 176 + 8;
    /// x0 to x30, the stack pointer, the program counter.
    const AARCH64_ORDER: [u8; 33] = {
        let mut order = [0; 33];
        let mut register = 0_u8;
        while register < 33 {
            order[register as usize] = register;
            register += 1;
        }
        order
    };
    let sp = registers.get(arch.sp()).ok_or(Stop::Unknown)?;
    let (context, order) = match arch {
        Arch::X86_64 => (X86_64_CONTEXT, X86_64_ORDER.as_slice()),
        Arch::Aarch64 => (AARCH64_CONTEXT, AARCH64_ORDER.as_slice()),
    };
    let mut interrupted = Registers::none();
    for (place, register) in (sp.wrapping_add(context)..).step_by(8).zip(order) {
        interrupted.set(*register, stack.word(place)?);
    }
    Ok(interrupted)
}

#[cfg(test)]
mod tests {
    use crate::unwind::row::Cfa;
    use crate::unwind::row::Rule;

    use super::*;

    /// An address space whose code from 0x1000 on has rows, by 0x100 bytes.
    #[derive(Default)]
    struct Functions {
        rows: Vec<Row>,
        /// Addresses before which there is no call.
        no_calls: Vec<u64>,
        frames: Vec<u64>,
    }

    impl Space for Functions {
        fn code(&mut self, pc: u64, left: Left) -> Code {
            let within = pc - u64::from(left == Left::ByCall);
            match within {
                0..0x1000 => Code::None,
                0x8000..0x8100 => Code::NoTable,
                0x9000 => Code::SignalReturn,
                _ => match u32::try_from((within - 0x1000) / 0x100) {
                    Ok(idx) if (idx as usize) < self.rows.len() => Code::Row(RowId(idx)),
                    _ => Code::None,
                },
            }
        }

        fn row(&self, id: RowId) -> &Row {
            &self.rows[id.0 as usize]
        }

        fn follows_call(&mut self, pc: u64) -> Option<bool> {
            Some(!self.no_calls.contains(&pc))
        }

        fn frame(&mut self, addr: u64) {
            self.frames.push(addr);
        }
    }

    fn row(cfa: (u8, i64), rules: &[(u8, Rule)], return_register: u8) -> Row {
        let cfa = Cfa::Register(cfa.0, cfa.1);
        Row { cfa, rules: rules.into(), return_register, is_signal: false, is_signed: false }
    }

    const SP: u64 = 0x7fff_0000;

    /// Walks from the x86-64 registers `pc` and `fp` over `words` of stack.
    #[track_caller]
    fn check(functions: &mut Functions, pc: u64, fp: u64, words: &[u64], want: (&[u64], End)) {
        let mut registers = Registers::none();
        registers.set(16, pc);
        registers.set(7, SP);
        registers.set(6, fp);
        let bytes: Vec<u8> = words.iter().flat_map(|it| it.to_le_bytes()).collect();
        let stack = StackCopy { start: SP, bytes: &bytes };
        functions.frames.clear();
        let end = walk(Arch::X86_64, registers, &stack, functions, 127);
        assert_eq!((functions.frames.as_slice(), end), want);
    }

    /// Two functions: the first has 8 bytes on the stack, the second pushes the frame pointer.
    fn two() -> Functions {
        let first = row((7, 16), &[(16, Rule::At(-8))], 16);
        let second = row((6, 16), &[(6, Rule::At(-16)), (16, Rule::At(-8))], 16);
        let start = row((7, 8), &[(16, Rule::Undefined)], 16);
        Functions { rows: vec![first, second, start], ..Functions::default() }
    }

    #[test]
    fn callers_lie_within_their_calls() {
        // The first returns to the first byte after the second: its call is the last instruction.
        let words = [1, 0x1200, 0, 0x1234];
        check(&mut two(), 0x1010, SP + 16, &words, (&[0x1010, 0x11ff, 0x1233], End::Bottom));
    }

    #[test]
    fn a_copy_that_ends_is_no_bottom() {
        check(&mut two(), 0x1010, SP + 16, &[1], (&[0x1010], End::CopyEnds));
        check(&mut two(), 0x1010, SP + 16, &[1, 0x1120, 0], (&[0x1010, 0x111f], End::CopyEnds));
        // The frame pointer points nowhere near.
        check(&mut two(), 0x1010, 7, &[1, 0x1120, 0], (&[0x1010, 0x111f], End::Broken));
    }

    #[test]
    fn a_stack_pointer_that_does_not_grow_ends_the_chain() {
        let mut functions = two();
        functions.rows[0].cfa = Cfa::Register(7, 0);
        functions.rows[0].rules = Box::new([(16, Rule::At(0))]);
        check(&mut functions, 0x1010, 0, &[0x1020, 0x1020], (&[0x1010, 0x101f], End::Broken));
    }

    #[test]
    fn code_without_a_table_is_left_by_its_frame_pointer_to_where_calls_return() {
        let words = [1, 2, 0, 0x1234];
        check(&mut two(), 0x8010, SP + 16, &words, (&[0x8010, 0x1233], End::Bottom));
        let mut functions = two();
        functions.no_calls.push(0x1234);
        check(&mut functions, 0x8010, SP + 16, &words, (&[0x8010], End::NoTable));
        // Not aligned, above the top, into nothing.
        check(&mut two(), 0x8010, SP + 12, &words, (&[0x8010], End::NoTable));
        check(&mut two(), 0x8010, SP - 16, &words, (&[0x8010], End::NoTable));
        check(&mut two(), 0x8010, SP, &words, (&[0x8010], End::NoTable));
    }

    #[test]
    fn what_a_signal_interrupted_stands_as_it_is() {
        // The handler at 0x1010 returns to code that returns from the signal; the context has 0x1200,
        // the first byte of the last function, and a stack pointer of its own.
        let mut words = vec![1, 0x9001];
        words.extend([0; 5]);
        words.extend([0; 15]);
        words.extend([SP + 0x1000, 0x1200]);
        check(&mut two(), 0x1010, 0, &words, (&[0x1010, 0x9001, 0x1200], End::Bottom));
    }

    #[test]
    fn a_register_that_an_epilogue_took_back_is_where_it_belongs() {
        // The frame pointer was popped: where the table has it lies above the stack.
        let popped = row((7, 8), &[(6, Rule::At(-16)), (16, Rule::At(-8))], 16);
        let mut functions = two();
        functions.rows[0] = popped;
        let words = [0x1120, 0, 0x1234];
        check(&mut functions, 0x1010, SP + 8, &words, (&[0x1010, 0x111f, 0x1233], End::Bottom));
        // Not so if that leads to where no call returns.
        functions.no_calls.push(0x1234);
        check(&mut functions, 0x1010, SP + 8, &words, (&[0x1010, 0x111f], End::Broken));
    }
}
