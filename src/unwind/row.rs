//! How to get from a frame to its caller, at one address of a module.

use gimli::Encoding;
use gimli::EndianSlice;
use gimli::Evaluation;
use gimli::EvaluationResult;
use gimli::EvaluationStorage;
use gimli::Format;
use gimli::LittleEndian;
use gimli::Location;
use gimli::Piece;
use gimli::Value;

use super::Arch;
use super::Left;
use super::Registers;
use super::StackCopy;

/// What a table says of one address: where the caller's registers are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// Where the frame ends towards the bottom of the stack: the canonical frame address.
    pub(super) cfa: Cfa,
    /// Where registers are, of those of which the table says something.
    pub(super) rules: Box<[(u8, Rule)]>,
    /// The column of the return address.
    pub(super) return_register: u8,
    /// Whether it is of the code that returns from a signal: its caller did not call, but was
    /// interrupted.
    pub(super) is_signal: bool,
    /// Whether the return address is signed.
    pub(super) is_signed: bool,
}

/// How the canonical frame address is computed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Cfa {
    /// A register and a distance from it.
    Register(u8, i64),
    /// An expression's value.
    Expression(Expression),
}

/// Where a register of the caller is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Rule {
    /// Nowhere.
    Undefined,
    /// Where it was.
    Same,
    /// At a distance from the canonical frame address.
    At(i64),
    /// It is the canonical frame address and a distance.
    Is(i64),
    /// In another register.
    In(u8),
    /// At the address that an expression gives.
    AtExpression(Expression),
    /// What an expression gives.
    IsExpression(Expression),
}

/// An expression's bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Expression(pub(super) Box<[u8]>);

/// The most operations of an expression. Those of signal frames and linkage tables have about ten.
const MAX_OPERATIONS: u32 = 64;

/// Storage of fixed size, so that no expression makes it grow.
struct Fixed;

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

impl<'a> EvaluationStorage<Bytes<'a>> for Fixed {
    type Stack = [Value; 64];
    type ExpressionStack = [(Bytes<'a>, Bytes<'a>); 4];
    type Result = [Piece<Bytes<'a>>; 1];
}

/// Why a row leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The table says that there is no caller.
    Bottom,
    /// What it takes lies beyond the copy of the stack.
    BeyondCopy,
    /// A register that it takes is not known, or the expression makes no sense.
    Unknown,
}

impl Row {
    /// The registers of the caller of the frame that has `registers`.
    ///
    /// A frame that was interrupted may be in its epilogue: then
    /// the table may still tell of places above the top of the stack, from which registers have been
    /// taken back. That it is so is a guess, which [`Registers::is_guess`] tells of.
    pub(super) fn caller(
        &self,
        arch: Arch,
        registers: &Registers,
        stack: &StackCopy<'_>,
        left: Left,
    ) -> Result<Registers, Stop> {
        let cfa = match &self.cfa {
            Cfa::Register(register, offset) => {
                registers.get(*register).ok_or(Stop::Unknown)?.wrapping_add_signed(*offset)
            }
            Cfa::Expression(expression) => expression.value(registers, stack, None)?,
        };
        let mut caller = Registers::none();
        for register in 0..arch.n_registers() {
            if arch.is_preserved(register)
                && let Some(value) = registers.get(register)
            {
                caller.set(register, value);
            }
        }
        caller.set(arch.sp(), cfa);
        let mut return_address = match arch {
            Arch::X86_64 => Err(Stop::Bottom),
            Arch::Aarch64 => registers.get(self.return_register).ok_or(Stop::Unknown),
        };
        for (register, rule) in &self.rules {
            let value = match rule {
                Rule::Undefined => Err(Stop::Bottom),
                Rule::Same => registers.get(*register).ok_or(Stop::Unknown),
                Rule::At(offset) => {
                    let at = cfa.wrapping_add_signed(*offset);
                    if left == Left::Interrupted && stack.is_above(at) {
                        caller.guess(*register);
                        registers.get(*register).ok_or(Stop::Unknown)
                    } else {
                        stack.word(at)
                    }
                }
                Rule::Is(offset) => Ok(cfa.wrapping_add_signed(*offset)),
                Rule::In(other) => registers.get(*other).ok_or(Stop::Unknown),
                Rule::AtExpression(expression) => {
                    expression.value(registers, stack, Some(cfa)).and_then(|at| stack.word(at))
                }
                Rule::IsExpression(expression) => expression.value(registers, stack, Some(cfa)),
            };
            if *register == self.return_register {
                return_address = value;
            }
            match value {
                Ok(value) => caller.set(*register, value),
                Err(_) => caller.forget(*register),
            }
        }
        let mut pc = return_address?;
        if self.is_signed {
            pc = arch.plain(pc);
        }
        caller.set(arch.pc(), pc);
        Ok(caller)
    }
}

impl Expression {
    /// What it computes; `cfa` is what it starts from, where it is of a register.
    fn value(
        &self,
        registers: &Registers,
        stack: &StackCopy<'_>,
        cfa: Option<u64>,
    ) -> Result<u64, Stop> {
        let encoding = Encoding { address_size: 8, format: Format::Dwarf32, version: 4 };
        let bytes = EndianSlice::new(&self.0, LittleEndian);
        let mut evaluation = Evaluation::<_, Fixed>::new_in(bytes, encoding);
        evaluation.set_max_iterations(MAX_OPERATIONS);
        if let Some(cfa) = cfa {
            evaluation.set_initial_value(cfa);
        }
        let mut state = evaluation.evaluate().map_err(|_| Stop::Unknown)?;
        loop {
            state = match state {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => {
                    let register = u8::try_from(register.0).map_err(|_| Stop::Unknown)?;
                    let value = registers.get(register).ok_or(Stop::Unknown)?;
                    evaluation.resume_with_register(Value::Generic(value))
                }
                EvaluationResult::RequiresMemory { address, size, .. } => {
                    let word = stack.word(address)?;
                    let bits = u32::from(size).saturating_mul(8);
                    let value = if bits < 64 { word & ((1 << bits) - 1) } else { word };
                    evaluation.resume_with_memory(Value::Generic(value))
                }
                EvaluationResult::RequiresCallFrameCfa => {
                    evaluation.resume_with_call_frame_cfa(cfa.ok_or(Stop::Unknown)?)
                }
                _ => return Err(Stop::Unknown),
            }
            .map_err(|_| Stop::Unknown)?;
        }
        match evaluation.as_result().last().map(|it| &it.location) {
            Some(Location::Address { address }) => Ok(*address),
            Some(Location::Value { value }) => value.to_u64(u64::MAX).map_err(|_| Stop::Unknown),
            _ => Err(Stop::Unknown),
        }
    }
}

impl Row {
    /// Whether it is of code that returns from a signal's handler.
    pub fn is_signal(&self) -> bool {
        self.is_signal
    }

    /// A row that leads nowhere: of a table that is damaged.
    pub(super) fn dead_end() -> Self {
        let cfa = Cfa::Register(u8::MAX, 0);
        let rules = Box::default();
        Self { cfa, rules, return_register: u8::MAX, is_signal: false, is_signed: false }
    }

    /// Whether the caller's place on the stack follows from a register that is a guess.
    pub(super) fn is_from_guess(&self, registers: &Registers) -> bool {
        match self.cfa {
            Cfa::Register(register, _) => registers.is_guess(register),
            Cfa::Expression(_) => registers.has_guesses(),
        }
    }
}
