//! Values of expressions, by a small machine with a stack.

use crate::perfdata::trace_format::Binary;
use crate::perfdata::trace_format::Expr;
use crate::perfdata::trace_format::Field;
use crate::perfdata::trace_format::Unary;

use super::data::Place;
use super::data::Raw;

/// The most values that are held at a time.
const STACK_LEN: usize = 32;

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    /// Pushes a constant.
    Push(u64),
    /// Pushes a number of the raw data.
    Load {
        offset: usize,
        len: usize,
    },
    /// Turns an index into the element of an array in the raw data.
    Element {
        array: Place,
        mask: u64,
    },
    /// Pushes the length of a field's content.
    ContentLen(Place),
    /// Keeps some bits.
    Mask(u64),
    Unary(Unary),
    Binary(Binary),
    /// Takes a value and goes to a step if it is 0.
    JumpIfZero(usize),
    Jump(usize),
}

/// The steps to one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Value(Box<[Op]>);

impl Value {
    /// Compiles `expr`; `None` if it needs more of the stack than there is.
    pub(super) fn new(expr: &Expr, fields: &[Field], long_len: u8) -> Option<Self> {
        let mut compiler = Compiler { ops: Vec::new(), fields, long_len: long_len.into() };
        let depth = compiler.value(expr);
        (depth <= STACK_LEN).then(|| Self(compiler.ops.into_boxed_slice()))
    }

    /// The value for `raw`.
    #[inline]
    pub(super) fn of(&self, raw: Raw<'_>) -> u64 {
        match *self.0 {
            [Op::Load { offset, len }] => raw.number(offset, len),
            [Op::Push(value)] => value,
            _ => self.run(raw),
        }
    }

    /// Whether it is the number at `place`, cast or not.
    pub(super) fn is_field(&self, place: &Place) -> bool {
        let [Op::Load { offset, len }, casts @ ..] = &*self.0 else { return false };
        (*offset, *len) == (place.offset, place.len)
            && casts.iter().all(|it| matches!(it, Op::Mask(_)))
    }

    fn run(&self, raw: Raw<'_>) -> u64 {
        let mut stack = [0_u64; STACK_LEN];
        // How much is on the stack. It never leaves the array: `new` has counted.
        let mut n = 0;
        let mut next = 0;
        while let Some(op) = self.0.get(next) {
            next += 1;
            match *op {
                Op::Push(value) => {
                    stack[n] = value;
                    n += 1;
                }
                Op::Load { offset, len } => {
                    stack[n] = raw.number(offset, len);
                    n += 1;
                }
                Op::ContentLen(place) => {
                    stack[n] = raw.content_len(&place);
                    n += 1;
                }
                Op::Element { array, mask } => {
                    let idx = usize::try_from(stack[n - 1]).unwrap_or(usize::MAX);
                    let bytes = raw.from(&array);
                    let element = idx
                        .checked_mul(array.element_len)
                        .map(|at| Raw::new(bytes, raw.endian).number(at, array.element_len));
                    stack[n - 1] = element.unwrap_or(0) & mask;
                }
                Op::Mask(mask) => stack[n - 1] &= mask,
                Op::Unary(op) => stack[n - 1] = op.apply(stack[n - 1]),
                Op::Binary(op) => {
                    n -= 1;
                    stack[n - 1] = op.apply(stack[n - 1], stack[n]);
                }
                Op::JumpIfZero(target) => {
                    n -= 1;
                    if stack[n] == 0 {
                        next = target;
                    }
                }
                Op::Jump(target) => next = target,
            }
        }
        stack[0]
    }
}

struct Compiler<'a> {
    ops: Vec<Op>,
    fields: &'a [Field],
    long_len: usize,
}

impl Compiler<'_> {
    /// Appends the steps that push the value of `expr`; returns how many values they hold at most.
    fn value(&mut self, expr: &Expr) -> usize {
        match expr {
            Expr::Number(value, _) => self.push(*value),
            Expr::Field(idx) => match self.fields.get(*idx) {
                Some(field) => {
                    self.ops.push(Op::Load { offset: field.offset, len: field.len });
                    1
                }
                None => self.push(0),
            },
            Expr::Cast(cast, value) => {
                let depth = self.value(value);
                if cast.mask() != u64::MAX {
                    self.ops.push(Op::Mask(cast.mask()));
                }
                depth
            }
            Expr::Unary(op, value) => {
                let depth = self.value(value);
                self.ops.push(Op::Unary(*op));
                depth
            }
            Expr::Binary(op, left, right) => {
                let left = self.value(left);
                let right = self.value(right);
                self.ops.push(Op::Binary(*op));
                left.max(right + 1)
            }
            Expr::Index(array, idx) => self.element(array, idx),
            Expr::Cond(parts) => {
                let [condition, this, that] = &**parts;
                let condition = self.value(condition);
                let to_that = self.ops.len();
                self.ops.push(Op::JumpIfZero(0));
                let this = self.value(this);
                let to_end = self.ops.len();
                self.ops.push(Op::Jump(0));
                self.ops[to_that] = Op::JumpIfZero(self.ops.len());
                let that = self.value(that);
                self.ops[to_end] = Op::Jump(self.ops.len());
                condition.max(this).max(that)
            }
            Expr::DynamicLen(idx) => match self.fields.get(*idx) {
                Some(field) => {
                    self.ops.push(Op::ContentLen(Place::dynamic(field)));
                    1
                }
                None => self.push(0),
            },
            // None of these is a number.
            Expr::Word(_)
            | Expr::Text(_)
            | Expr::Flags(..)
            | Expr::Symbolic(..)
            | Expr::Hex(..)
            | Expr::HexStr(..)
            | Expr::Array(_)
            | Expr::Str(_)
            | Expr::Bitmask(_)
            | Expr::Cpumask(_)
            | Expr::Dynamic(_) => self.push(0),
        }
    }

    fn push(&mut self, value: u64) -> usize {
        self.ops.push(Op::Push(value));
        1
    }

    fn element(&mut self, array: &Expr, idx: &Expr) -> usize {
        let mut mask = u64::MAX;
        let mut array = array;
        while let Expr::Cast(cast, inner) = array {
            // The outermost cast says what the elements are.
            if mask == u64::MAX {
                mask = cast.element_mask();
            }
            array = inner;
        }
        let place = match array {
            Expr::Field(idx) => self.fields.get(*idx).map(Place::new),
            Expr::Dynamic(idx) => self.fields.get(*idx).map(Place::dynamic),
            _ => None,
        };
        let depth = self.value(idx);
        match place {
            Some(mut place) => {
                if place.element_len == 0 {
                    place.element_len = self.long_len;
                }
                self.ops.push(Op::Element { array: place, mask });
            }
            None => self.ops.push(Op::Mask(0)),
        }
        depth
    }
}
