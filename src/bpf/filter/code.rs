//! From an expression to instructions.
//!
//! ```text
//!   r6  what the program was given      r8  the kernel's sample, where it is needed
//!   r0 to r5  of one test               r7, r9  of a walk along a call chain
//!
//!   keep: return 1      drop: count it on this CPU; return 0
//! ```
//!
//! A test jumps to one of two places, so that nothing is asked that no longer matters.

use std::os::fd::RawFd;

use super::Error;
use super::assembler::Alu;
use super::assembler::Assembler;
use super::assembler::Condition;
use super::assembler::FRAME;
use super::assembler::Helper;
use super::assembler::Insn;
use super::assembler::Label;
use super::assembler::R0;
use super::assembler::R1;
use super::assembler::R2;
use super::assembler::R3;
use super::assembler::R4;
use super::assembler::R5;
use super::assembler::R6;
use super::assembler::R7;
use super::assembler::R8;
use super::assembler::R9;
use super::assembler::Reg;
use super::assembler::Width;
use super::kernel::Field;
use super::kernel::Hidden;
use super::kernel::Kernel;
use super::kernel::Task;
use super::kernel::VIEW;
use super::kernel::View;
use crate::events::sample_filter;
use crate::events::sample_filter::COMM_LEN;
use crate::events::sample_filter::Expr;
use crate::events::sample_filter::Operator;
use crate::events::sample_filter::Pattern;
use crate::events::sample_filter::Program;
use crate::events::sample_filter::Term;
use crate::events::sample_filter::Test;
use crate::perfdata::SampleType;
use crate::perfdata::callchain_context;

/// What a program is made for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given<'a> {
    pub(super) kernel: &'a Kernel,
    /// What the event's samples hold.
    pub(super) sample_type: SampleType,
    /// Whether the event is a probe.
    pub(super) is_probe: bool,
    /// The per-CPU array with the count of dropped samples, if they are counted.
    pub(super) dropped: Option<RawFd>,
    pub(super) tables: &'a [TableMaps],
}

/// The maps with the addresses of one choice of programs, each an array with one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TableMaps {
    pub(super) programs: Program,
    /// Three words: which of the tables holds, the first address in it, and how many bytes lie between
    /// that and its last.
    pub(super) head: RawFd,
    /// Two tables: starts and ends in pairs, in the order of the starts; what is unused begins at the
    /// last address.
    pub(super) tables: RawFd,
    /// How many pairs a table has: a power of two.
    pub(super) n_slots: u32,
}

/// The length of the head of the tables.
pub(super) const HEAD_LEN: u32 = 24;

/// The length of a pair of addresses.
pub(super) const SLOT_LEN: u32 = 16;

/// The most frames of a call chain that are looked at: more than the kernel keeps, unless told.
const MAX_FRAMES: u64 = 512;

/// How many of them are copied at once.
const FRAMES_AT_ONCE: u64 = 16;

/// Where things are on the stack.
const KEY: i16 = -4;
const COMM: i16 = -24;
const FRAMES_LEN: i16 = -16;
const FRAMES: i16 = -160;

/// The instructions for `expr`.
pub(super) fn generate(expr: &Expr, given: Given<'_>) -> Result<Vec<Insn>, Error> {
    let mut code = Code { asm: Assembler::default(), given };
    let asm = &mut code.asm;
    let (keep, drop) = (asm.label(), asm.label());
    asm.alu(Alu::Move, R6, R1);
    if let (true, Ok(sample)) = (code.needs_sample(expr), &given.kernel.sample) {
        code.asm.call_kernel(sample.cast);
        code.asm.load(Width::U64, R8, R0, sample.data);
    }
    code.expr(expr, keep, drop)?;
    code.end(keep, drop);
    code.asm.finish().map_err(|_| Error::TooLong)
}

/// Where a number of a sample comes from.
enum Source {
    /// A field of the kernel's sample, of which bits are taken.
    Field {
        field: Field,
        width: Width,
        shift: i32,
        n_bits: u32,
    },
    /// What the program was given.
    View(i16),
    Helper {
        helper: Helper,
        is_upper_half: bool,
    },
    /// Of whom the task runs for.
    Cred {
        cred: i16,
        field: i16,
    },
    CpuId,
    CgroupId,
    Snoop,
}

struct Code<'a> {
    asm: Assembler,
    given: Given<'a>,
}

impl Code<'_> {
    /// Whether anything of `expr` is read from the kernel's sample.
    fn needs_sample(&self, expr: &Expr) -> bool {
        expr.tests().into_iter().any(|test| match test {
            Test::Number { term, .. } => {
                let source = self.source(*term);
                source.is_ok_and(|it| matches!(it, Source::Field { .. } | Source::Snoop))
            }
            Test::Program(_) => self.sample().is_ok(),
            Test::Comm(_) | Test::Kernel | Test::User => false,
        })
    }

    fn sample(&self) -> Result<(), Hidden> {
        if self.given.is_probe {
            return Err(Hidden::OfProbe);
        }
        self.given.kernel.sample.as_ref().map(|_| ()).map_err(|it| *it)
    }

    fn offset(&self, field: Field) -> Result<i16, Hidden> {
        self.sample()?;
        let sample = self.given.kernel.sample.as_ref().map_err(|it| *it)?;
        sample.offset(field).ok_or(Hidden::NotPrepared)
    }

    /// Evaluates `expr`, and goes on at one of the two places.
    fn expr(&mut self, expr: &Expr, yes: Label, no: Label) -> Result<(), Error> {
        let (parts, is_all) = match expr {
            Expr::Test(test) => return self.test(test, yes, no),
            Expr::Not(inner) => return self.expr(inner, no, yes),
            Expr::All(parts) => (parts, true),
            Expr::Any(parts) => (parts, false),
        };
        let Some((last, others)) = parts.split_last() else {
            self.asm.jump(if is_all { yes } else { no });
            return Ok(());
        };
        for part in others {
            let next = self.asm.label();
            if is_all {
                self.expr(part, next, no)?;
            } else {
                self.expr(part, yes, next)?;
            }
            self.asm.place(next);
        }
        self.expr(last, yes, no)
    }

    fn test(&mut self, test: &Test, yes: Label, no: Label) -> Result<(), Error> {
        // What does not jump goes on behind.
        let otherwise = match test {
            Test::Number { term, operator, value } => {
                self.number(*term, *operator, *value, yes)?;
                no
            }
            Test::Comm(pattern) => {
                self.comm(pattern, no);
                yes
            }
            Test::Program(programs) => return self.program(programs, yes, no),
            Test::Kernel => {
                self.level(no)?;
                yes
            }
            Test::User => {
                self.level(yes)?;
                no
            }
        };
        self.asm.jump(otherwise);
        Ok(())
    }

    fn number(
        &mut self,
        term: Term,
        operator: Operator,
        value: u64,
        yes: Label,
    ) -> Result<(), Error> {
        let needs = sample_filter::needs(term);
        if !needs.is_empty() && !self.given.sample_type.intersects(needs) {
            return Err(Error::Lacks { term: sample_filter::name(term), needs });
        }
        let hidden = |why| Error::Hidden { term: sample_filter::name(term), why };
        let source = self.source(term).map_err(hidden)?;
        self.fetch(&source).map_err(hidden)?;
        let condition = match operator {
            Operator::Equal => Condition::Equal,
            Operator::NotEqual => Condition::NotEqual,
            Operator::Greater => Condition::Greater,
            Operator::GreaterOrEqual => Condition::GreaterOrEqual,
            Operator::Less => Condition::Less,
            Operator::LessOrEqual => Condition::LessOrEqual,
            Operator::AnyBit => Condition::AnyBit,
        };
        self.asm.jump_if_value(condition, R1, value, R2, yes);
        Ok(())
    }

    /// Where `term` comes from here: from where it is exact, and of that from where it is cheap.
    fn source(&self, term: Term) -> Result<Source, Hidden> {
        let bits = |field, shift, n_bits| {
            let source = Source::Field { field, width: Width::U64, shift, n_bits };
            self.offset(field).map(|_| source)
        };
        let whole = |field| bits(field, 0, 64);
        // What was given needs no types, and is the same on all kernels.
        let view = |of: fn(View) -> i16, field| match VIEW {
            Some(view) if !self.given.is_probe => Ok(Source::View(of(view))),
            _ => whole(field),
        };
        let task = |field, helper, is_upper_half| {
            let source = Source::Field { field, width: Width::U32, shift: 0, n_bits: 64 };
            match self.offset(field) {
                Ok(_) => Ok(source),
                Err(_) if self.given.kernel.is_first_namespace => {
                    Ok(Source::Helper { helper, is_upper_half })
                }
                Err(_) => Err(Hidden::Namespace),
            }
        };
        let in_parts = self.given.sample_type.contains(SampleType::WEIGHT_STRUCT);
        match term {
            Term::Ip => match (self.offset(Field::Ip), VIEW) {
                (Ok(_), _) => whole(Field::Ip),
                (Err(_), Some(view)) => Ok(Source::View(view.ip)),
                (Err(why), None) => Err(why),
            },
            Term::Id => whole(Field::Id),
            Term::Tid => task(Field::Tid, Helper::PidTgid, false),
            Term::Pid => task(Field::Pid, Helper::PidTgid, true),
            Term::Cpu => Ok(Source::CpuId),
            Term::Time => whole(Field::Time),
            Term::Addr => view(|it| it.addr, Field::Addr),
            Term::Period => view(|it| it.period, Field::Period),
            Term::Transaction => whole(Field::Transaction),
            // As it is printed.
            Term::Weight | Term::Weight1 if in_parts => bits(Field::Weight, 0, 32),
            Term::Weight | Term::Weight1 => whole(Field::Weight),
            Term::Weight2 => bits(Field::Weight, 32, 16),
            Term::Weight3 => bits(Field::Weight, 48, 16),
            Term::PhysAddr => whole(Field::PhysAddr),
            Term::CodePageSize => whole(Field::CodePageSize),
            Term::DataPageSize => whole(Field::DataPageSize),
            // The places of `union perf_mem_data_src` in `include/uapi/linux/perf_event.h`.
            Term::MemOp => bits(Field::DataSource, 0, 5),
            Term::MemSnoop => self.offset(Field::DataSource).map(|_| Source::Snoop),
            Term::MemLock => bits(Field::DataSource, 24, 2),
            Term::MemTlb => bits(Field::DataSource, 26, 7),
            Term::MemLevel => bits(Field::DataSource, 33, 4),
            Term::MemRemote => bits(Field::DataSource, 37, 1),
            Term::MemBlocked => bits(Field::DataSource, 40, 3),
            Term::MemHops => bits(Field::DataSource, 43, 3),
            Term::Uid => Ok(match self.given.kernel.task {
                Some(Task { cred, uid, .. }) => Source::Cred { cred, field: uid },
                None => Source::Helper { helper: Helper::UidGid, is_upper_half: false },
            }),
            Term::Gid => Ok(match self.given.kernel.task {
                Some(Task { cred, gid, .. }) => Source::Cred { cred, field: gid },
                None => Source::Helper { helper: Helper::UidGid, is_upper_half: true },
            }),
            Term::Cgroup => Ok(Source::CgroupId),
        }
    }

    /// Puts what comes from `source` into r1.
    fn fetch(&mut self, source: &Source) -> Result<(), Hidden> {
        match *source {
            Source::Field { field, width, shift, n_bits } => {
                let offset = self.offset(field)?;
                self.asm.load(width, R1, R8, offset);
                self.bits(R1, shift, n_bits);
            }
            Source::View(offset) => self.asm.load(Width::U64, R1, R6, offset),
            Source::Helper { helper, is_upper_half } => {
                self.asm.call(helper);
                if is_upper_half {
                    self.asm.alu(Alu::Move, R1, R0);
                    self.asm.alu_value(Alu::ShiftRight, R1, 32);
                } else {
                    self.asm.move_32(R1, R0);
                }
            }
            Source::Cred { cred, field } => {
                self.asm.call(Helper::CurrentTask);
                self.asm.load(Width::U64, R1, R0, cred);
                self.asm.load(Width::U32, R1, R1, field);
            }
            Source::CpuId => {
                self.asm.call(Helper::CpuId);
                self.asm.move_32(R1, R0);
            }
            Source::CgroupId => {
                self.asm.call(Helper::CgroupId);
                self.asm.alu(Alu::Move, R1, R0);
            }
            Source::Snoop => {
                // `mem_snoop`, and above it `mem_snoopx`.
                let offset = self.offset(Field::DataSource)?;
                self.asm.load(Width::U64, R1, R8, offset);
                self.asm.alu(Alu::Move, R2, R1);
                self.bits(R1, 19, 5);
                self.bits(R2, 38, 2);
                self.asm.alu_value(Alu::ShiftLeft, R2, 5);
                self.asm.alu(Alu::Or, R1, R2);
            }
        }
        Ok(())
    }

    /// Leaves `n_bits` of `reg` from the bit `shift` on.
    fn bits(&mut self, reg: Reg, shift: i32, n_bits: u32) {
        if shift != 0 {
            self.asm.alu_value(Alu::ShiftRight, reg, shift);
        }
        if n_bits == 32 {
            self.asm.move_32(reg, reg);
        } else if n_bits < 32 {
            self.asm.alu_value(Alu::And, reg, (1 << n_bits) - 1);
        }
    }

    /// Jumps to `user` if the instruction is of user space.
    fn level(&mut self, user: Label) -> Result<(), Error> {
        let hidden = Error::Hidden { term: "kernel", why: Hidden::Machine };
        let View { level, level_mask, user_is_zero, .. } = VIEW.ok_or(hidden)?;
        self.asm.load(Width::U64, R1, R6, level);
        self.asm.alu_value(Alu::And, R1, level_mask);
        let condition = if user_is_zero { Condition::Equal } else { Condition::NotEqual };
        self.asm.jump_if_value(condition, R1, 0, R2, user);
        Ok(())
    }

    /// Jumps to `no` if the thread's name is not like `pattern`.
    fn comm(&mut self, pattern: &Pattern, no: Label) {
        let Some(comm) = self.given.kernel.task.map(|it| it.comm) else {
            self.comm_of_copy(pattern, no);
            return;
        };
        // The verifier lets a name be looked at byte by byte. Mostly the first one differs.
        self.asm.call(Helper::CurrentTask);
        let last = pattern.len.checked_sub(1);
        for (n, (byte, mask)) in pattern.bytes.iter().zip(pattern.mask).enumerate() {
            let has_to_be = Some(n) == last && mask == 0;
            let Some(offset) = i16::try_from(n).ok().and_then(|it| comm.checked_add(it)) else {
                break;
            };
            if mask != 0 || has_to_be {
                self.asm.load(Width::U8, R1, R0, offset);
                let condition = if has_to_be { Condition::Equal } else { Condition::NotEqual };
                let value = if has_to_be { 0 } else { *byte };
                self.asm.jump_if_value(condition, R1, value.into(), R2, no);
            }
        }
    }

    /// As [`Code::comm`], on kernels where the name has to be copied first.
    fn comm_of_copy(&mut self, pattern: &Pattern, no: Label) {
        self.asm.alu(Alu::Move, R1, FRAME);
        self.asm.alu_value(Alu::Add, R1, i32::from(COMM));
        self.asm.set(R2, COMM_LEN as u64);
        self.asm.call(Helper::Comm);
        let words = pattern.bytes.as_chunks::<8>().0.iter().zip(pattern.mask.as_chunks::<8>().0);
        for ((bytes, mask), offset) in words.zip((COMM..).step_by(8)) {
            let (bytes, mask) = (u64::from_ne_bytes(*bytes), u64::from_ne_bytes(*mask));
            if mask == 0 {
                continue;
            }
            self.asm.load(Width::U64, R1, FRAME, offset);
            if mask != u64::MAX {
                self.asm.set(R2, mask);
                self.asm.alu(Alu::And, R1, R2);
            }
            self.asm.jump_if_value(Condition::NotEqual, R1, bytes & mask, R2, no);
        }
        // A byte that may be any has to be there.
        let last = pattern.len.checked_sub(1);
        let last = last.filter(|it| pattern.mask.get(*it) == Some(&0));
        if let Some(offset) = last.and_then(|it| i16::try_from(it).ok()) {
            self.asm.load(Width::U8, R1, FRAME, COMM + offset);
            self.asm.jump_if_value(Condition::Equal, R1, 0, R2, no);
        }
    }

    /// Jumps to `yes` if the instruction, or a caller of it, lies in one of the programs, else to `no`.
    fn program(&mut self, programs: &Program, yes: Label, no: Label) -> Result<(), Error> {
        let hidden = |why| Error::Hidden { term: "bpf_prog", why };
        let table = self.given.tables.iter().find(|it| it.programs == *programs).cloned();
        let table = table.ok_or(Error::Hidden { term: "bpf_prog", why: Hidden::NoTypes })?;
        let ip = self.source(Term::Ip).map_err(hidden)?;
        self.fetch(&ip).map_err(hidden)?;
        let has_chain = self.given.sample_type.contains(SampleType::CALLCHAIN);
        if !has_chain || self.sample().is_err() {
            self.search(&table, yes, no);
            return Ok(());
        }
        let chain = self.offset(Field::CallChain).map_err(hidden)?;
        let callers = self.asm.label();
        self.search(&table, yes, callers);
        self.asm.place(callers);
        self.chain(chain, &table, yes, no);
        Ok(())
    }

    /// Jumps to `yes` if a frame of the kernel's part of the call chain lies in one of the programs, else
    /// to `no`.
    fn chain(&mut self, chain: i16, table: &TableMaps, yes: Label, no: Label) {
        let [copy, few, frame, next] = [(); 4].map(|()| self.asm.label());
        // r7: how many frames were copied before.
        self.asm.set(R7, 0);
        self.asm.place(copy);
        self.asm.load(Width::U64, R3, R8, chain);
        self.asm.load(Width::U64, R2, R3, 0);
        self.asm.jump_if(Condition::GreaterOrEqual, R7, R2, no);
        self.asm.jump_if_value(Condition::GreaterOrEqual, R7, MAX_FRAMES, R1, no);
        self.asm.alu(Alu::Sub, R2, R7);
        self.asm.jump_if_value(Condition::LessOrEqual, R2, FRAMES_AT_ONCE, R1, few);
        self.asm.set(R2, FRAMES_AT_ONCE);
        self.asm.place(few);
        self.asm.alu_value(Alu::ShiftLeft, R2, 3);
        self.asm.store(Width::U64, FRAME, FRAMES_LEN, R2);
        // The frames stand behind their number.
        self.asm.alu(Alu::Move, R1, R7);
        self.asm.alu_value(Alu::Add, R1, 1);
        self.asm.alu_value(Alu::ShiftLeft, R1, 3);
        self.asm.alu(Alu::Add, R3, R1);
        self.asm.alu(Alu::Move, R1, FRAME);
        self.asm.alu_value(Alu::Add, R1, i32::from(FRAMES));
        self.asm.call(Helper::ProbeReadKernel);
        // r9: where the next of them is.
        self.asm.set(R9, 0);
        self.asm.place(frame);
        self.asm.load(Width::U64, R1, FRAME, FRAMES_LEN);
        self.asm.jump_if(Condition::GreaterOrEqual, R9, R1, next);
        self.asm.jump_if_value(Condition::GreaterOrEqual, R9, FRAMES_AT_ONCE * 8, R1, next);
        self.asm.alu(Alu::Move, R2, FRAME);
        self.asm.alu(Alu::Add, R2, R9);
        self.asm.load(Width::U64, R1, R2, FRAMES);
        self.asm.alu_value(Alu::Add, R9, 8);
        self.asm.jump_if_value(Condition::Equal, R1, callchain_context::USER, R2, no);
        self.search(table, yes, frame);
        self.asm.place(next);
        self.asm.alu_value(Alu::Add, R7, i32::try_from(FRAMES_AT_ONCE).unwrap_or(0));
        self.asm.jump(copy);
    }

    /// Jumps to `found` if the address in r1 lies in a range of the table, else to `missed`.
    ///
    /// Most addresses are far from any program, and that is seen from the head alone. The search has
    /// no branch before its end, since the verifier would walk each of the ways.
    fn search(&mut self, table: &TableMaps, found: Label, missed: Label) {
        // Of user space nothing is looked for.
        self.asm.jump_if_value(Condition::SignedGreaterOrEqual, R1, 0, R2, missed);
        self.asm.set_map_value(R2, table.head);
        self.asm.load(Width::U64, R3, R2, 8);
        self.asm.load(Width::U64, R4, R2, 16);
        self.asm.alu(Alu::Move, R5, R1);
        self.asm.alu(Alu::Sub, R5, R3);
        self.asm.jump_if(Condition::GreaterOrEqual, R5, R4, missed);
        // r0: the table that holds.
        self.asm.load(Width::U64, R2, R2, 0);
        self.asm.alu_value(Alu::And, R2, 1);
        let shift = (table.n_slots * SLOT_LEN).trailing_zeros();
        self.asm.alu_value(Alu::ShiftLeft, R2, i32::try_from(shift).unwrap_or(0));
        self.asm.set_map_value(R0, table.tables);
        self.asm.alu(Alu::Add, R0, R2);
        // r2: where the last range begins, as far as known, that does not begin behind the address.
        self.asm.set(R2, 0);
        let mut step = table.n_slots / 2;
        while step != 0 {
            let bytes = i32::try_from(step * SLOT_LEN).unwrap_or(0);
            self.asm.alu(Alu::Move, R4, R0);
            self.asm.alu(Alu::Add, R4, R2);
            self.asm.alu_value(Alu::Add, R4, bytes);
            self.asm.load(Width::U64, R5, R4, 0);
            // All ones if it begins behind the address, else 0; of two addresses of the kernel, the
            // distance has its sign.
            self.asm.alu(Alu::Move, R3, R1);
            self.asm.alu(Alu::Sub, R3, R5);
            self.asm.alu_value(Alu::SignedShiftRight, R3, 63);
            self.asm.alu_value(Alu::Xor, R3, -1);
            self.asm.alu_value(Alu::And, R3, bytes);
            self.asm.alu(Alu::Add, R2, R3);
            step /= 2;
        }
        self.asm.alu(Alu::Add, R0, R2);
        self.asm.load(Width::U64, R5, R0, 0);
        self.asm.jump_if(Condition::Less, R1, R5, missed);
        self.asm.load(Width::U64, R5, R0, 8);
        self.asm.jump_if(Condition::Less, R1, R5, found);
        self.asm.jump(missed);
    }

    /// What the expression leads to. The verifier refuses what nothing leads to.
    fn end(&mut self, keep: Label, drop: Label) {
        if self.asm.is_used(keep) {
            self.asm.place(keep);
            self.asm.set(R0, 1);
            self.asm.exit();
        }
        if !self.asm.is_used(drop) {
            return;
        }
        self.asm.place(drop);
        if let Some(map) = self.given.dropped {
            self.count(map);
        }
        self.asm.set(R0, 0);
        self.asm.exit();
    }

    /// Counts one more on this CPU.
    fn count(&mut self, map: RawFd) {
        let out = self.asm.label();
        self.asm.store_value(Width::U32, FRAME, KEY, 0);
        self.asm.alu(Alu::Move, R2, FRAME);
        self.asm.alu_value(Alu::Add, R2, i32::from(KEY));
        self.asm.set_map(R1, map);
        self.asm.call(Helper::MapLookup);
        self.asm.jump_if_value(Condition::Equal, R0, 0, R2, out);
        // No other program of an event can run on this CPU meanwhile.
        self.asm.load(Width::U64, R1, R0, 0);
        self.asm.alu_value(Alu::Add, R1, 1);
        self.asm.store(Width::U64, R0, 0, R1);
        self.asm.place(out);
    }
}

#[cfg(test)]
mod tests;
