//! Code with what fell on each of its instructions.

use crate::symbols::Code;
use crate::symbols::CodeLine;
use crate::symbols::Instruction;
use crate::symbols::Syntax;

use super::FunctionSamples;
use super::Weight;

/// A function's code with its samples, both at the same addresses.
///
/// Instructions are made into text one by one as they are asked for, so that it is as large as the
/// code and no larger.
#[derive(Debug)]
pub struct Annotated<'a> {
    /// The samples.
    pub samples: FunctionSamples,
    /// The code.
    pub code: Code<'a>,
}

/// An instruction and what fell on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnotatedInstruction<'l> {
    /// The instruction.
    pub instruction: Instruction,
    /// What fell on any byte of it, by event; `None` for nothing.
    pub weights: Option<Vec<Weight>>,
    /// The line that it came from.
    pub line: Option<CodeLine<'l>>,
}

impl Annotated<'_> {
    /// The bytes of one of its instructions.
    pub fn bytes(&self, instruction: &Instruction) -> &[u8] {
        let at = usize::try_from(instruction.addr - self.code.start).ok();
        let bytes =
            at.and_then(|it| self.code.bytes.get(it..)?.get(..usize::from(instruction.len)));
        bytes.unwrap_or_default()
    }

    /// The instructions in order.
    pub fn instructions(&self, syntax: Syntax) -> impl Iterator<Item = AnnotatedInstruction<'_>> {
        self.code.instructions(syntax).map(|instruction| {
            let (start, len) = (instruction.addr, u64::from(instruction.len));
            AnnotatedInstruction {
                weights: self.samples.within(start..start + len),
                line: self.code.lines.at(start),
                instruction,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::profile::testing::functions_of;
    use crate::symbols::CodeLines;
    use crate::symbols::Machine;
    use crate::units::Addr;

    use super::*;

    #[test]
    fn samples_within_an_instruction_are_the_instructions() {
        // push %rbp; mov %rsp,%rbp; ret
        let bytes = [0x55, 0x48, 0x89, 0xe5, 0xc3];
        let samples = functions_of(&[(0, 10), (1, 20), (2, 5), (4, 7)]);
        let start = Addr(0x100);
        let code = Code { machine: Machine::X86_64, start, bytes: &bytes, lines: CodeLines::None };
        let annotated = Annotated { samples, code };
        let rows = annotated.instructions(Syntax::Att).map(|it| {
            let weights = it.weights.map(|it| (it[0].period, it[0].n_samples));
            (it.instruction.addr.0, it.instruction.text, weights)
        });
        let want = [
            (0x100, "push   %rbp".to_owned(), Some((10, 1))),
            (0x101, "mov    %rsp,%rbp".to_owned(), Some((25, 2))),
            (0x104, "ret".to_owned(), Some((7, 1))),
        ];
        assert_eq!(rows.collect::<Vec<_>>(), want);
    }
}
