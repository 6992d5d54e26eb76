//! Expressions over raw data, as the kernel's C source has them.

use super::NotUnderstood;

/// An expression. A field is an index into [`EventFormat::fields`](super::EventFormat::fields).
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A number, with the word it was written as.
    Number(u64, String),
    /// A name without a value here, such as that of an enumerator.
    Word(String),
    /// A string.
    Text(String),
    /// `REC->field`.
    Field(usize),
    /// `(type)value`.
    Cast(Cast, Box<Expr>),
    /// An operator and its operand.
    Unary(Unary, Box<Expr>),
    /// An operator and its operands.
    Binary(Binary, Box<Expr>, Box<Expr>),
    /// `array[index]`.
    Index(Box<Expr>, Box<Expr>),
    /// `condition ? this : that`.
    Cond(Box<[Expr; 3]>),
    /// `__print_flags(value, delimiter, { bits, name } ..)`.
    Flags(Box<Expr>, String, Vec<Named>),
    /// `__print_symbolic(value, { value, name } ..)`.
    Symbolic(Box<Expr>, Vec<Named>),
    /// `__print_hex(data, len)`.
    Hex(Box<Expr>, Box<Expr>),
    /// `__print_hex_str(data, len)`.
    HexStr(Box<Expr>, Box<Expr>),
    /// `__print_array(data, count, element_len)`.
    Array(Box<[Expr; 3]>),
    /// `__get_str(field)`.
    Str(usize),
    /// `__get_bitmask(field)`.
    Bitmask(usize),
    /// `__get_cpumask(field)`.
    Cpumask(usize),
    /// `__get_dynamic_array(field)`, and `__get_sockaddr(field)`.
    Dynamic(usize),
    /// `__get_dynamic_array_len(field)`.
    DynamicLen(usize),
}

/// A value and what it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The value; -1 where it is not known.
    pub value: i64,
    /// The name.
    pub name: String,
}

/// The types that change a value that is cast to them: those of less than 64 bits. The number is
/// kept without a sign, which `printf` gives back to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cast {
    /// To 8 bits.
    Bits8,
    /// To 16 bits.
    Bits16,
    /// To 32 bits.
    Bits32,
    /// To something as wide as a value, or of unknown width.
    Same,
    /// To a pointer to a type of so many bits, or to anything.
    Pointer(Option<u8>),
}

/// An operator with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    /// `-`
    Negate,
    /// `~`
    Complement,
    /// `!`
    Not,
    /// `+`
    Plus,
}

/// An operator with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the operator that C has")]
pub enum Binary {
    Mul,
    Div,
    Rem,
    Add,
    Sub,
    Shl,
    Shr,
    Lt,
    Gt,
    Le,
    Ge,
    Eq,
    Ne,
    And,
    Xor,
    Or,
    AndAnd,
    OrOr,
}

impl Binary {
    /// The operator and how tightly it binds.
    pub(super) fn of(op: &str) -> Option<(Self, u8)> {
        Some(match op {
            "*" => (Self::Mul, 10),
            "/" => (Self::Div, 10),
            "%" => (Self::Rem, 10),
            "+" => (Self::Add, 9),
            "-" => (Self::Sub, 9),
            "<<" => (Self::Shl, 8),
            ">>" => (Self::Shr, 8),
            "<" => (Self::Lt, 7),
            ">" => (Self::Gt, 7),
            "<=" => (Self::Le, 7),
            ">=" => (Self::Ge, 7),
            "==" => (Self::Eq, 6),
            "!=" => (Self::Ne, 6),
            "&" => (Self::And, 5),
            "^" => (Self::Xor, 4),
            "|" => (Self::Or, 3),
            "&&" => (Self::AndAnd, 2),
            "||" => (Self::OrOr, 1),
            _ => return None,
        })
    }

    /// The result: all numbers are 64 bits without a sign. What C leaves open is 0, but for shifts,
    /// of which machines look at the lowest bits.
    pub fn apply(self, left: u64, right: u64) -> u64 {
        let shift = u32::try_from(right & 63).unwrap_or(0);
        match self {
            Self::Mul => left.wrapping_mul(right),
            Self::Div => left.checked_div(right).unwrap_or(0),
            Self::Rem => left.checked_rem(right).unwrap_or(0),
            Self::Add => left.wrapping_add(right),
            Self::Sub => left.wrapping_sub(right),
            Self::Shl => left.wrapping_shl(shift),
            Self::Shr => left.wrapping_shr(shift),
            Self::Lt => u64::from(left < right),
            Self::Gt => u64::from(left > right),
            Self::Le => u64::from(left <= right),
            Self::Ge => u64::from(left >= right),
            Self::Eq => u64::from(left == right),
            Self::Ne => u64::from(left != right),
            Self::And => left & right,
            Self::Xor => left ^ right,
            Self::Or => left | right,
            Self::AndAnd => u64::from(left != 0 && right != 0),
            Self::OrOr => u64::from(left != 0 || right != 0),
        }
    }
}

impl Unary {
    pub(super) fn of(op: &str) -> Option<Self> {
        Some(match op {
            "-" => Self::Negate,
            "~" => Self::Complement,
            "!" => Self::Not,
            "+" => Self::Plus,
            _ => return None,
        })
    }

    /// The result.
    pub fn apply(self, value: u64) -> u64 {
        match self {
            Self::Negate => value.wrapping_neg(),
            Self::Complement => !value,
            Self::Not => u64::from(value == 0),
            Self::Plus => value,
        }
    }
}

impl Cast {
    /// The cast to a type of such a name.
    pub(super) fn to(type_name: &str) -> Self {
        let (type_name, is_pointer) = match type_name.strip_suffix('*') {
            Some(pointee) => (pointee.trim_end(), true),
            None => (type_name, false),
        };
        let bits = match type_name.strip_prefix("unsigned ").unwrap_or(type_name) {
            "u8" | "s8" | "char" => Some(8),
            "u16" | "s16" | "short" => Some(16),
            "u32" | "s32" | "int" => Some(32),
            _ => None,
        };
        match bits {
            bits if is_pointer => Self::Pointer(bits),
            Some(8) => Self::Bits8,
            Some(16) => Self::Bits16,
            Some(_) => Self::Bits32,
            None => Self::Same,
        }
    }

    /// The bits of a value that the cast keeps.
    pub fn mask(self) -> u64 {
        match self {
            Self::Bits8 => 0xff,
            Self::Bits16 => 0xffff,
            Self::Bits32 => 0xffff_ffff,
            Self::Same | Self::Pointer(_) => u64::MAX,
        }
    }

    /// The bits that are kept of an element of an array so cast.
    pub fn element_mask(self) -> u64 {
        match self {
            Self::Pointer(Some(8)) => 0xff,
            Self::Pointer(Some(16)) => 0xffff,
            Self::Pointer(Some(_)) => 0xffff_ffff,
            _ => u64::MAX,
        }
    }
}

/// Values of names that formats leave as names: the kernel tells them nowhere.
///
/// Source: `include/linux/interrupt.h`, `include/linux/hrtimer_types.h`.
const NAMES: [(&str, i64); 12] = [
    ("HI_SOFTIRQ", 0),
    ("TIMER_SOFTIRQ", 1),
    ("NET_TX_SOFTIRQ", 2),
    ("NET_RX_SOFTIRQ", 3),
    ("BLOCK_SOFTIRQ", 4),
    ("IRQ_POLL_SOFTIRQ", 5),
    ("TASKLET_SOFTIRQ", 6),
    ("SCHED_SOFTIRQ", 7),
    ("HRTIMER_SOFTIRQ", 8),
    ("RCU_SOFTIRQ", 9),
    ("HRTIMER_NORESTART", 0),
    ("HRTIMER_RESTART", 1),
];

impl Expr {
    /// The value for which a name stands in a table.
    pub(super) fn table_value(&self) -> Result<i64, NotUnderstood> {
        match self {
            Self::Number(value, _) => Ok(value.cast_signed()),
            Self::Word(name) => {
                let known = NAMES.iter().find(|(known, _)| known == name);
                Ok(known.map_or(-1, |(_, value)| *value))
            }
            Self::Cast(_, value) => value.table_value(),
            // A number below zero means "none of the others", whichever it is.
            _ => Ok(self.constant()?.cast_signed().max(-1)),
        }
    }

    /// The value of an expression without fields.
    fn constant(&self) -> Result<u64, NotUnderstood> {
        Ok(match self {
            Self::Number(value, _) => *value,
            Self::Word(_) => 0,
            Self::Cast(cast, value) => value.constant()? & cast.mask(),
            Self::Unary(op, value) => op.apply(value.constant()?),
            Self::Binary(op, left, right) => op.apply(left.constant()?, right.constant()?),
            _ => return Err(NotUnderstood { what: "a table with a value that is not constant" }),
        })
    }
}
