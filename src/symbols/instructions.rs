//! Machine code to instructions, and to the text of each.
//!
//! Bytes that are no instruction become `(bad)`, one each, as objdump shows them: whatever is given,
//! all of it is covered, in order, without a gap.

use iced_x86::Decoder;
use iced_x86::DecoderOptions;
use iced_x86::FlowControl;
use iced_x86::Formatter;
use iced_x86::FormatterOutput;
use iced_x86::FormatterTextKind;
use iced_x86::GasFormatter;
use iced_x86::IntelFormatter;
use iced_x86::MemorySizeOptions;
use iced_x86::Mnemonic;
use iced_x86::NumberKind;
use iced_x86::OpKind;
use iced_x86::Register;

use crate::units::Addr;

/// A kind of machine whose code can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// `x86_64`.
    X86_64,
    /// `i386` to `i686`.
    X86,
}

impl Machine {
    /// The machine with this number in the header of an ELF file, if its code can be shown.
    ///
    /// Source: `include/uapi/linux/elf-em.h`.
    pub fn from_elf(e_machine: u16) -> Option<Self> {
        match e_machine {
            object::elf::EM_X86_64 => Some(Self::X86_64),
            object::elf::EM_386 => Some(Self::X86),
            _ => None,
        }
    }

    /// The machine that `uname -m` calls so, if its code can be shown.
    pub fn from_uname(name: &[u8]) -> Option<Self> {
        match name {
            b"x86_64" => Some(Self::X86_64),
            [b'i', b'3'..=b'6', b'8', b'6'] => Some(Self::X86),
            _ => None,
        }
    }

    fn bitness(self) -> u32 {
        match self {
            Self::X86_64 => 64,
            Self::X86 => 32,
        }
    }
}

/// How instructions are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Syntax {
    /// As by the GNU assembler: `mov    %rdi,%rax`.
    #[default]
    Att,
    /// As in Intel's manuals: `mov    rax,rdi`.
    Intel,
}

/// Where an instruction leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// To the one behind it.
    Next,
    /// Somewhere else, always or at times; `None` where only the running program knows.
    Jump(Option<Addr>),
    /// To a function that comes back, likewise.
    Call(Option<Addr>),
    /// Back to the caller.
    Return,
}

/// An instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Where it stands.
    pub addr: Addr,
    /// How long it is, in bytes; at least 1.
    pub len: u8,
    /// Mnemonic and operands; an address that it leads to is in hexadecimal without `0x`.
    pub text: String,
    /// Where it leads.
    pub flow: Flow,
    /// The data that it means by the distance from itself.
    pub refers_to: Option<Addr>,
}

/// How far an instruction reaches, and whether what stands behind it runs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// How long it is, in bytes; at least 1.
    pub len: u8,
    /// Whether it leads elsewhere at all times: a jump without a condition, a call, a return, a trap.
    pub always_leaves: bool,
}

impl Step {
    /// That of the instruction at the beginning of `code`, if there is one.
    pub fn at(machine: Machine, code: &[u8]) -> Option<Self> {
        let decoded = Decoder::new(machine.bitness(), code, DecoderOptions::NONE).decode();
        let always_leaves = matches!(
            decoded.flow_control(),
            FlowControl::UnconditionalBranch
                | FlowControl::IndirectBranch
                | FlowControl::Call
                | FlowControl::IndirectCall
                | FlowControl::Return
                | FlowControl::Interrupt
        );
        let len = u8::try_from(decoded.len()).ok()?;
        (!decoded.is_invalid()).then_some(Self { len, always_leaves })
    }
}

/// The fixed places outside of `code`, which lies at `start` on a `machine`, that it calls or jumps to;
/// one more than once where several instructions lead there.
pub fn far_targets(machine: Machine, code: &[u8], start: Addr) -> impl Iterator<Item = Addr> {
    let len = code.len() as u64;
    let decoder = Decoder::with_ip(machine.bitness(), code, start.0, DecoderOptions::NONE);
    decoder.into_iter().filter_map(move |it| match flow(&it) {
        Flow::Jump(Some(addr)) | Flow::Call(Some(addr)) if len <= addr - start => Some(addr),
        _ => None,
    })
}

/// The instructions of one piece of code, each decoded when it is asked for.
pub struct Instructions<'a> {
    decoder: Decoder<'a>,
    formatter: Box<dyn Formatter>,
    start: Addr,
}

impl std::fmt::Debug for Instructions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Instructions").field("start", &self.start).finish_non_exhaustive()
    }
}

impl<'a> Instructions<'a> {
    /// The instructions of `code`, which lies at `start` on a `machine`.
    pub fn new(machine: Machine, code: &'a [u8], start: Addr, syntax: Syntax) -> Self {
        let bitness = machine.bitness();
        let decoder = Decoder::with_ip(bitness, code, start.0, DecoderOptions::NONE);
        Self { decoder, formatter: formatter(syntax), start }
    }
}

impl Iterator for Instructions<'_> {
    type Item = Instruction;

    fn next(&mut self) -> Option<Instruction> {
        if !self.decoder.can_decode() {
            return None;
        }
        let (position, addr) = (self.decoder.position(), Addr(self.decoder.ip()));
        let decoded = self.decoder.decode();
        if decoded.is_invalid() {
            let behind = position + 1;
            self.decoder.set_position(behind).ok()?;
            self.decoder.set_ip(addr.0.wrapping_add(1));
            let text = "(bad)".to_owned();
            return Some(Instruction { addr, len: 1, text, flow: Flow::Next, refers_to: None });
        }
        let options = self.formatter.options_mut();
        options.set_always_show_scale(decoded.memory_index() != Register::None);
        options.set_use_pseudo_ops(decoded.mnemonic() != Mnemonic::Imul);
        options.set_show_zero_displacements(decoded.memory_displ_size() != 0);
        let mut text = Text::default();
        self.formatter.format(&decoded, &mut text);
        text.drop_suffix();
        Some(Instruction {
            addr,
            len: u8::try_from(decoded.len()).unwrap_or(u8::MAX),
            text: text.0,
            flow: flow(&decoded),
            refers_to: decoded
                .is_ip_rel_memory_operand()
                .then(|| Addr(decoded.ip_rel_memory_address())),
        })
    }
}

fn flow(decoded: &iced_x86::Instruction) -> Flow {
    let is_near = matches!(
        decoded.op0_kind(),
        OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64
    );
    let target = is_near.then(|| Addr(decoded.near_branch_target()));
    match decoded.flow_control() {
        FlowControl::UnconditionalBranch
        | FlowControl::ConditionalBranch
        | FlowControl::IndirectBranch
        | FlowControl::XbeginXabortXend => Flow::Jump(target),
        FlowControl::Call | FlowControl::IndirectCall => Flow::Call(target),
        FlowControl::Return => Flow::Return,
        _ => Flow::Next,
    }
}

fn formatter(syntax: Syntax) -> Box<dyn Formatter> {
    let mut formatter: Box<dyn Formatter> = match syntax {
        Syntax::Att => Box::new(GasFormatter::new()),
        Syntax::Intel => Box::new(IntelFormatter::new()),
    };
    // As objdump writes.
    let options = formatter.options_mut();
    options.set_first_operand_char_index(7);
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_small_hex_numbers_in_decimal(false);
    options.set_leading_zeros(false);
    options.set_branch_leading_zeros(false);
    options.set_displacement_leading_zeros(false);
    options.set_rip_relative_addresses(true);
    options.set_show_useless_prefixes(true);
    options.set_show_branch_size(false);
    options.set_memory_size_options(MemorySizeOptions::Always);
    options.set_uppercase_keywords(true);
    formatter
}

/// Takes an instruction's text, targets without their `0x`.
#[derive(Default)]
struct Text(String);

impl Text {
    /// Calls and jumps to a place in memory, and pushes of what is there, have one size alone.
    fn drop_suffix(&mut self) {
        let long = ["callq  ", "jmpq   ", "pushq  ", "popq   "];
        if long.iter().any(|it| self.0.starts_with(it)) {
            let at = self.0.find('q').unwrap_or(self.0.len());
            self.0.replace_range(at..=at, "");
            self.0.insert(at, ' ');
        }
    }
}

impl FormatterOutput for Text {
    fn write(&mut self, text: &str, _: FormatterTextKind) {
        self.0.push_str(text);
    }

    fn write_number(
        &mut self,
        _: &iced_x86::Instruction,
        _: u32,
        _: Option<u32>,
        text: &str,
        _: u64,
        _: NumberKind,
        kind: FormatterTextKind,
    ) {
        let is_target =
            matches!(kind, FormatterTextKind::LabelAddress | FormatterTextKind::FunctionAddress);
        let text = if is_target { text.strip_prefix("0x").unwrap_or(text) } else { text };
        self.0.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Addr = Addr(0xffff_ffff_c000_1000);

    /// What `code` at [`START`] is in each syntax, and where it leads.
    #[track_caller]
    fn check(code: &[u8], att: &str, intel: &str, flow: Flow) {
        for (syntax, want) in [(Syntax::Att, att), (Syntax::Intel, intel)] {
            let mut found = Instructions::new(Machine::X86_64, code, START, syntax);
            let it = found.next().unwrap();
            assert_eq!((it.text.as_str(), it.flow), (want, flow));
            assert_eq!((usize::from(it.len), it.addr), (code.len(), START));
            assert_eq!(found.next(), None);
        }
    }

    #[test]
    fn instructions_read_as_in_objdump() {
        let next = Flow::Next;
        check(&[0xf3, 0x0f, 0x1e, 0xfa], "endbr64", "endbr64", next);
        check(&[0x48, 0x89, 0xe5], "mov    %rsp,%rbp", "mov    rbp,rsp", next);
        check(
            &[0x48, 0x8b, 0x44, 0xc6, 0x10],
            "mov    0x10(%rsi,%rax,8),%rax",
            "mov    rax,QWORD PTR [rsi+rax*8+0x10]",
            next,
        );
        check(
            &[0x0f, 0x1f, 0x44, 0x00, 0x00],
            "nopl   0x0(%rax,%rax,1)",
            "nop    DWORD PTR [rax+rax*1+0x0]",
            next,
        );
        check(
            &[0x48, 0x81, 0xec, 0x08, 0x02, 0, 0],
            "sub    $0x208,%rsp",
            "sub    rsp,0x208",
            next,
        );
        check(
            &[0x48, 0x83, 0xc4, 0x80],
            "add    $0xffffffffffffff80,%rsp",
            "add    rsp,0xffffffffffffff80",
            next,
        );
        check(
            &[0xc7, 0x45, 0xf8, 7, 0, 0, 0],
            "movl   $0x7,-0x8(%rbp)",
            "mov    DWORD PTR [rbp-0x8],0x7",
            next,
        );
        check(
            &[0x69, 0xc0, 0x6d, 0x4e, 0xc6, 0x41],
            "imul   $0x41c64e6d,%eax,%eax",
            "imul   eax,eax,0x41c64e6d",
            next,
        );
    }

    #[test]
    fn an_instruction_says_where_it_leads() {
        let to = Some(Addr(0xffff_ffff_c000_0f89));
        check(&[0xeb, 0x87], "jmp    ffffffffc0000f89", "jmp    ffffffffc0000f89", Flow::Jump(to));
        let to = Some(Addr(0xffff_ffff_c000_1007));
        check(&[0x74, 0x05], "je     ffffffffc0001007", "je     ffffffffc0001007", Flow::Jump(to));
        let to = Some(Addr(0xffff_ffff_c000_1105));
        check(
            &[0xe8, 0, 1, 0, 0],
            "call   ffffffffc0001105",
            "call   ffffffffc0001105",
            Flow::Call(to),
        );
        check(&[0xff, 0x14, 0x24], "call   *(%rsp)", "call   QWORD PTR [rsp]", Flow::Call(None));
        check(&[0xff, 0xe0], "jmp    *%rax", "jmp    rax", Flow::Jump(None));
        check(&[0xff, 0x30], "push   (%rax)", "push   QWORD PTR [rax]", Flow::Next);
        check(&[0xc3], "ret", "ret", Flow::Return);
    }

    #[test]
    fn what_code_calls_lies_outside_of_it() {
        // jmp +0; call +0x100; nop; jmp -5
        let code = [0xeb, 0, 0xe8, 0, 1, 0, 0, 0x90, 0xeb, 0xf1];
        let found = far_targets(Machine::X86_64, &code, Addr(0x1000));
        assert_eq!(found.collect::<Vec<_>>(), [Addr(0x1107), Addr(0xffb)]);
    }

    #[test]
    fn data_near_the_instruction_is_told() {
        let code = [0x48, 0x8d, 0x35, 0xe8, 0x2e, 0, 0];
        let mut found = Instructions::new(Machine::X86_64, &code, Addr(0x1151), Syntax::Att);
        let it = found.next().unwrap();
        assert_eq!(it.text, "lea    0x2ee8(%rip),%rsi");
        assert_eq!(it.refers_to, Some(Addr(0x4040)));
    }

    #[test]
    fn bytes_that_are_no_instruction_are_bad_one_by_one() {
        let texts = |code: &[u8]| {
            let found = Instructions::new(Machine::X86_64, code, START, Syntax::Att);
            found.map(|it| (it.addr - START, it.text)).collect::<Vec<_>>()
        };
        let want = |list: &[(u64, &str)]| {
            list.iter().map(|&(at, text)| (at, text.to_owned())).collect::<Vec<_>>()
        };
        assert_eq!(texts(&[0x06, 0xc3]), want(&[(0, "(bad)"), (1, "ret")]));
        // A call that is cut.
        assert_eq!(texts(&[0xe8, 0, 1]), want(&[(0, "(bad)"), (1, "add    %al,(%rcx)")]));
        assert_eq!(texts(&[]), []);
    }

    #[test]
    fn whatever_is_given_is_covered_in_order_without_a_gap() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut byte = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        };
        let code: Vec<u8> = (0..20_000).map(|_| byte()).collect();
        for machine in [Machine::X86_64, Machine::X86] {
            for start in [Addr(0), Addr(u64::MAX - 9_000), START] {
                let mut at = start;
                for it in Instructions::new(machine, &code, start, Syntax::Att) {
                    let low = |addr: Addr| addr.0 & 0xffff_ffff;
                    assert_eq!(low(it.addr), low(at));
                    assert!(it.len != 0);
                    at = at + u64::from(it.len);
                }
                assert_eq!(at - start, 20_000);
            }
        }
    }

    #[test]
    fn machines_are_known_by_number_and_by_name() {
        assert_eq!(Machine::from_elf(62), Some(Machine::X86_64));
        assert_eq!(Machine::from_elf(183), None);
        assert_eq!(Machine::from_uname(b"x86_64"), Some(Machine::X86_64));
        assert_eq!(Machine::from_uname(b"i686"), Some(Machine::X86));
        assert_eq!(Machine::from_uname(b"aarch64"), None);
    }

    #[test]
    fn a_step_goes_on_or_leads_elsewhere() {
        let check = |code: &[u8], want| {
            let step = Step::at(Machine::X86_64, code);
            assert_eq!(step.map(|it| (it.len, it.always_leaves)), want, "{code:x?}");
        };
        check(&[0x48, 0x31, 0xc2, 0x90], Some((3, false)));
        check(&[0x75, 0x10], Some((2, false)));
        check(&[0xeb, 0x10], Some((2, true)));
        check(&[0xff, 0xd0], Some((2, true)));
        check(&[0xe8, 0, 0, 0, 0], Some((5, true)));
        check(&[0xc3], Some((1, true)));
        check(&[0x0f, 0x05], Some((2, true)));
        check(&[0xe8, 0, 0], None);
        check(&[], None);
    }
}
