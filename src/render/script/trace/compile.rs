//! A format to pieces that print one after another.

use crate::perfdata::trace_format::EventFormat;
use crate::perfdata::trace_format::Expr;
use crate::perfdata::trace_format::Field;
use crate::perfdata::trace_format::FieldFlags;
use crate::perfdata::trace_format::Named;
use crate::perfdata::trace_format::NotUnderstood;
use crate::perfdata::trace_format::Print;
use crate::render::escape::push_escaped;

use super::data::Place;
use super::number::Conversion;
use super::number::Flags;
use super::number::MAX_WIDTH;
use super::number::Spec;
use super::number::Star;
use super::pointer::Case;
use super::pointer::Format;
use super::pointer::Ipv6;
use super::pointer::Order;
use super::pointer::Port;
use super::pointer::Zeros;
use super::value::Value;

/// How an event is printed.
#[derive(Clone, Debug)]
pub(super) enum Program {
    /// As its format says.
    Pieces(Vec<Piece>),
    /// Field by field, since the format is not understood.
    Fields(Vec<FieldPiece>),
}

/// A piece of a line.
#[derive(Clone, Debug)]
pub(super) enum Piece {
    Text(Box<[u8]>),
    Number {
        spec: Spec,
        star: Option<Value>,
        conversion: Conversion,
        bits: u32,
        value: Value,
    },
    /// `%p`
    Pointer(Value),
    /// `%ps`, and `%pS` with how far into the function.
    Function {
        value: Value,
        has_offset: bool,
    },
    /// `%pI4` and the like.
    Special(Format, Place),
    /// `%*ph`
    Bytes {
        place: Place,
        between: &'static [u8],
        star: Option<Value>,
    },
    Str {
        spec: Spec,
        star: Option<Value>,
        arg: Arg,
    },
}

/// An argument of `%s`.
#[derive(Clone, Debug)]
pub(super) enum Arg {
    Nothing,
    Text(Box<[u8]>),
    /// The field itself, up to a zero.
    Field(Place),
    /// A field with the address of a constant string.
    Address(Place),
    Dynamic(Place),
    Bitmask(Place),
    Cpumask(Place),
    Flags {
        value: Value,
        between: Box<[u8]>,
        table: Box<[(i64, Box<[u8]>)]>,
    },
    /// The table ascends by value.
    Symbolic {
        value: Value,
        table: Box<[(i64, Box<[u8]>)]>,
    },
    Hex {
        place: Place,
        len: Value,
        between: &'static [u8],
    },
    Array {
        place: Place,
        count: Value,
        element_len: Value,
    },
    Cond {
        condition: Value,
        this: Box<Arg>,
        that: Box<Arg>,
    },
}

/// A field that stands for itself.
#[derive(Clone, Debug)]
pub(super) struct FieldPiece {
    /// ` name=`
    pub(super) label: Box<[u8]>,
    pub(super) place: Place,
    pub(super) flags: FieldFlags,
}

impl Program {
    /// Compiles `format`, of a machine whose `long` has `long_len` bytes.
    pub(super) fn new(format: &EventFormat, long_len: u8) -> Self {
        let pieces = format.print.clone().and_then(|print| {
            let fields = &format.fields;
            Compiler { fields, long_len, args: print.args.iter() }.pieces(&print)
        });
        pieces.map_or_else(
            |error| {
                tracing::debug!(event = format.name, %error, "printed field by field");
                Self::Fields(format.own_fields().iter().map(FieldPiece::new).collect())
            },
            Self::Pieces,
        )
    }
}

impl FieldPiece {
    pub(super) fn new(field: &Field) -> Self {
        let mut label = Vec::new();
        label.push(b' ');
        push_escaped(field.name.as_bytes(), &mut label);
        label.push(b'=');
        Self { label: label.into(), place: Place::new(field), flags: field.flags }
    }
}

struct Compiler<'a> {
    fields: &'a [Field],
    long_len: u8,
    args: std::slice::Iter<'a, Expr>,
}

/// A conversion up to its letter.
struct Percent<'a> {
    spec: Spec,
    star: Option<&'a Expr>,
    /// How many `l`, less how many `h`.
    longs: i32,
}

type Result<T> = std::result::Result<T, NotUnderstood>;

impl<'a> Compiler<'a> {
    fn pieces(mut self, print: &'a Print) -> Result<Vec<Piece>> {
        let mut pieces = Vec::new();
        let mut text = Vec::new();
        let mut rest = print.format.as_str();
        while let Some(first) = rest.chars().next() {
            rest = &rest[first.len_utf8()..];
            match first {
                '\\' => {
                    let Some(escaped) = rest.chars().next() else { break };
                    rest = &rest[escaped.len_utf8()..];
                    let meant = match escaped {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        other => other,
                    };
                    text.extend_from_slice(meant.encode_utf8(&mut [0; 4]).as_bytes());
                }
                '%' if rest.starts_with('%') => {
                    rest = &rest[1..];
                    text.push(b'%');
                }
                '%' => {
                    push_literal(&mut text, &mut pieces);
                    let piece = self.conversion(&mut rest)?;
                    pieces.extend(piece);
                }
                other => text.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        push_literal(&mut text, &mut pieces);
        Ok(pieces)
    }

    fn arg(&mut self) -> Result<&'a Expr> {
        self.args.next().ok_or(NotUnderstood { what: "a conversion without an argument" })
    }

    fn value(&self, expr: &Expr) -> Result<Value> {
        let value = Value::new(expr, self.fields, self.long_len);
        value.ok_or(NotUnderstood { what: "an expression of too many values" })
    }

    fn star(&self, percent: &Percent<'_>) -> Result<Option<Value>> {
        percent.star.map(|expr| self.value(expr)).transpose()
    }

    /// The conversion behind a `%`, from which `rest` goes on.
    fn conversion(&mut self, rest: &mut &str) -> Result<Option<Piece>> {
        let mut percent = Percent { spec: Spec::default(), star: None, longs: 0 };
        let mut in_precision = false;
        let spec = &mut percent.spec;
        loop {
            let Some(first) = rest.chars().next() else { return Ok(None) };
            *rest = &rest[first.len_utf8()..];
            match first {
                '#' => spec.flags |= Flags::ALTERNATE,
                '-' => spec.flags |= Flags::LEFT,
                '+' => spec.flags |= Flags::PLUS,
                '.' => {
                    in_precision = true;
                    spec.precision = Some(0);
                }
                '0' if !in_precision && spec.width == 0 => spec.flags |= Flags::ZEROS,
                '0'..='9' => {
                    let number = if in_precision {
                        spec.precision.get_or_insert(0)
                    } else {
                        &mut spec.width
                    };
                    let digit = first.to_digit(10).unwrap_or(0);
                    *number = *number * 10 + usize::try_from(digit).unwrap_or(0);
                    if *number > MAX_WIDTH {
                        return Err(NotUnderstood { what: "a very wide conversion" });
                    }
                }
                '*' => {
                    if percent.star.is_some() {
                        return Err(NotUnderstood { what: "a conversion with two stars" });
                    }
                    percent.star =
                        Some(self.args.next().ok_or(NotUnderstood { what: "a star for nothing" })?);
                    spec.star = if in_precision { Star::Precision } else { Star::Width };
                }
                'h' => percent.longs -= 1,
                'l' => percent.longs += 1,
                'L' => percent.longs = 2,
                'z' | 'Z' => percent.longs = 1,
                'p' => return self.pointer(&percent, rest).map(Some),
                's' => {
                    let star = self.star(&percent)?;
                    let arg = self.arg()?;
                    let arg = self.str_arg(arg)?;
                    return Ok(Some(Piece::Str { spec: percent.spec, star, arg }));
                }
                'd' | 'i' => return self.number(&percent, Conversion::Signed).map(Some),
                'u' => return self.number(&percent, Conversion::Unsigned).map(Some),
                'o' => return self.number(&percent, Conversion::Octal).map(Some),
                'x' => return self.number(&percent, Conversion::Hex).map(Some),
                'X' => return self.number(&percent, Conversion::UpperHex).map(Some),
                'c' => return self.number(&percent, Conversion::Char).map(Some),
                // perf's own way to show what it does not know.
                other => {
                    let mut text = Vec::new();
                    push_escaped(format!(">{other}<").as_bytes(), &mut text);
                    return Ok(Some(Piece::Text(text.into())));
                }
            }
        }
    }

    fn number(&mut self, percent: &Percent<'_>, conversion: Conversion) -> Result<Piece> {
        let bits = match percent.longs {
            -2 => 8,
            -1 => 16,
            0 => 32,
            1 | 2 => 64,
            _ => return Err(NotUnderstood { what: "a number of unknown size" }),
        };
        let star = self.star(percent)?;
        let arg = self.arg()?;
        let value = self.value(arg)?;
        Ok(Piece::Number { spec: percent.spec, star, conversion, bits, value })
    }

    fn pointer(&mut self, percent: &Percent<'_>, rest: &mut &str) -> Result<Piece> {
        let arg = self.arg()?;
        let kind = rest.chars().next();
        if let Some('F' | 'f' | 'S' | 's' | 'M' | 'm' | 'I' | 'i' | 'U' | 'h') = kind {
            *rest = &rest[1..];
        }
        // Letters behind the kind.
        let mut takes = |letters: &[char]| {
            let letter = rest.chars().next().filter(|it| letters.contains(it));
            if letter.is_some() {
                *rest = &rest[1..];
            }
            letter
        };
        let format = match kind {
            Some(letter @ ('F' | 'f' | 'S' | 's')) => {
                let value = self.value(arg)?;
                return Ok(Piece::Function { value, has_offset: matches!(letter, 'F' | 'S') });
            }
            Some('M') => match takes(&['R', 'F']) {
                Some('F') => Format::Mac { between: "-", order: Order::Forward },
                Some(_) => Format::Mac { between: ":", order: Order::Backward },
                None => Format::Mac { between: ":", order: Order::Forward },
            },
            Some('m') => {
                let is_backward = takes(&['R', 'F']) == Some('R');
                let order = if is_backward { Order::Backward } else { Order::Forward };
                Format::Mac { between: "", order }
            }
            Some(letter @ ('I' | 'i')) => {
                let zeros = if letter == 'i' { Zeros::Leading } else { Zeros::None };
                let full = if letter == 'i' { Ipv6::Digits } else { Ipv6::Full };
                match takes(&['4', '6', 'S']) {
                    Some('4') => {
                        let order = order_of(takes(&['h', 'n', 'b', 'l']));
                        Format::Ipv4 { zeros, order }
                    }
                    Some('6') => match takes(&['c']) {
                        Some(_) if letter == 'I' => Format::Ipv6(Ipv6::Compressed),
                        _ => Format::Ipv6(full),
                    },
                    Some('S') => {
                        let mut port = Port::Hidden;
                        while let Some(detail) = takes(&['p', 'f', 's']) {
                            if detail == 'p' && letter == 'I' {
                                port = Port::Shown;
                            }
                        }
                        let order = order_of(takes(&['h', 'n', 'b', 'l']));
                        let is_short = takes(&['c']).is_some() && letter == 'I';
                        let ipv6 = if is_short { Ipv6::Compressed } else { full };
                        Format::Socket { zeros, order, ipv6, port }
                    }
                    _ => return Ok(Piece::Text(Box::default())),
                }
            }
            Some('U') => {
                let letter = takes(&['L', 'l', 'B', 'b']);
                let case =
                    if matches!(letter, Some('L' | 'B')) { Case::Upper } else { Case::Lower };
                Format::Uuid { case, is_guid: matches!(letter, Some('L' | 'l')) }
            }
            Some('h') => {
                let between: &[u8] = match takes(&['C', 'D', 'N']) {
                    Some('C') => b":",
                    Some('D') => b"-",
                    Some(_) => b"",
                    None => b" ",
                };
                let Expr::Dynamic(idx) = arg else { return Ok(no_field(arg)) };
                let place = self.place(*idx, Place::dynamic)?;
                return Ok(Piece::Bytes { place, between, star: self.star(percent)? });
            }
            _ => return self.value(arg).map(Piece::Pointer),
        };
        let mut field = arg;
        while let Expr::Cast(_, inner) = field {
            field = inner;
        }
        match (field, format) {
            (Expr::Field(idx), _) => Ok(Piece::Special(format, self.place(*idx, fixed)?)),
            (Expr::Dynamic(idx), Format::Socket { .. }) => {
                Ok(Piece::Special(format, self.place(*idx, Place::dynamic)?))
            }
            _ => Ok(no_field(field)),
        }
    }

    fn place(&self, idx: usize, new: fn(&Field) -> Place) -> Result<Place> {
        let field = self.fields.get(idx);
        field.map(new).ok_or(NotUnderstood { what: "a field that is not there" })
    }

    fn str_arg(&self, expr: &Expr) -> Result<Arg> {
        Ok(match expr {
            Expr::Number(_, text) | Expr::Word(text) | Expr::Text(text) => {
                Arg::Text(text.as_bytes().into())
            }
            Expr::Field(idx) => {
                let place = self.place(*idx, fixed)?;
                let is_array =
                    self.fields.get(*idx).is_some_and(|it| it.flags.contains(FieldFlags::ARRAY));
                if !is_array && place.len == usize::from(self.long_len) {
                    Arg::Address(place)
                } else {
                    Arg::Field(place)
                }
            }
            Expr::Str(idx) => Arg::Dynamic(self.place(*idx, Place::dynamic)?),
            Expr::Bitmask(idx) => Arg::Bitmask(self.place(*idx, Place::dynamic)?),
            Expr::Cpumask(idx) => Arg::Cpumask(self.place(*idx, Place::dynamic)?),
            Expr::Flags(value, between, table) => Arg::Flags {
                value: self.value(value)?,
                between: escaped(between),
                table: table.iter().map(entry).collect(),
            },
            Expr::Symbolic(value, table) => {
                let mut table: Vec<_> = table.iter().map(entry).collect();
                // Of two equal values the first one names them.
                table.sort_by_key(|it| it.0);
                table.dedup_by_key(|it| it.0);
                Arg::Symbolic { value: self.value(value)?, table: table.into() }
            }
            Expr::Hex(data, len) => {
                Arg::Hex { place: self.data(data)?, len: self.value(len)?, between: b" " }
            }
            Expr::HexStr(data, len) => {
                Arg::Hex { place: self.data(data)?, len: self.value(len)?, between: b"" }
            }
            Expr::Array(parts) => {
                let [data, count, element_len] = &**parts;
                Arg::Array {
                    place: self.data(data)?,
                    count: self.value(count)?,
                    element_len: self.value(element_len)?,
                }
            }
            Expr::Cond(parts) => {
                let [condition, this, that] = &**parts;
                Arg::Cond {
                    condition: self.value(condition)?,
                    this: Box::new(self.str_arg(this)?),
                    that: Box::new(self.str_arg(that)?),
                }
            }
            Expr::Cast(..)
            | Expr::Unary(..)
            | Expr::Binary(..)
            | Expr::Index(..)
            | Expr::Dynamic(_)
            | Expr::DynamicLen(_) => Arg::Nothing,
        })
    }

    /// Where the bytes are that a call prints.
    fn data(&self, expr: &Expr) -> Result<Place> {
        match expr {
            Expr::Field(idx) => self.place(*idx, fixed),
            Expr::Dynamic(idx) => self.place(*idx, Place::dynamic),
            _ => Err(NotUnderstood { what: "an array that is no field" }),
        }
    }
}

/// The field as it lies in the data, whatever it points to.
fn fixed(field: &Field) -> Place {
    Place { kind: super::data::PlaceKind::Here, ..Place::new(field) }
}

/// The order of an IPv4 address by the letter behind its conversion.
fn order_of(letter: Option<char>) -> Order {
    match letter {
        Some('h') => Order::Host,
        Some('l') => Order::Backward,
        _ => Order::Forward,
    }
}

fn entry(named: &Named) -> (i64, Box<[u8]>) {
    (named.value, named.name.as_bytes().into())
}

fn escaped(text: &str) -> Box<[u8]> {
    let mut out = Vec::new();
    push_escaped(text.as_bytes(), &mut out);
    out.into()
}

fn push_literal(text: &mut Vec<u8>, pieces: &mut Vec<Piece>) {
    if !text.is_empty() {
        let mut out = Vec::new();
        // A tab is in formats for alignment, and does no harm.
        for (idx, part) in text.split(|&byte| byte == b'\t').enumerate() {
            if idx > 0 {
                out.push(b'\t');
            }
            push_escaped(part, &mut out);
        }
        pieces.push(Piece::Text(out.into()));
        text.clear();
    }
}

/// What perf prints where an address is to be shown of which it does not have the bytes.
fn no_field(expr: &Expr) -> Piece {
    let number = match expr {
        Expr::Number(..) | Expr::Word(_) | Expr::Text(_) => 1,
        Expr::Field(_) => 2,
        Expr::Flags(..) => 3,
        Expr::Symbolic(..) => 4,
        Expr::Hex(..) => 5,
        Expr::Array(_) => 6,
        Expr::Cast(..) => 7,
        Expr::Str(_) => 8,
        Expr::Dynamic(_) => 10,
        Expr::Unary(..) | Expr::Binary(..) | Expr::Index(..) | Expr::Cond(_) => 11,
        Expr::Bitmask(_) => 13,
        Expr::DynamicLen(_) => 14,
        Expr::HexStr(..) => 15,
        Expr::Cpumask(_) => 16,
    };
    Piece::Text(format!("ARG TYPE NOT FIELD BUT {number}").into_bytes().into())
}
