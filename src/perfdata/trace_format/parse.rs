//! Text to expressions.

use super::Cast;
use super::Expr;
use super::Field;
use super::FieldFlags;
use super::Named;
use super::NotUnderstood;
use super::Print;
use super::Unary;
use super::expr::Binary;
use super::field::known_len;
use super::token::Token;
use super::token::tokens;

type Result<T> = std::result::Result<T, NotUnderstood>;

/// How deeply expressions nest at most; the kernel's own stay below 20.
const MAX_DEPTH: usize = 64;
/// How many operators an argument has at most: they make a tree that is as deep. The kernel's own
/// have less than 60.
const MAX_OPERATORS: usize = 512;

/// Parses what follows `print fmt:`.
pub(super) fn parse(text: &str, fields: &[Field], long_len: u8) -> Result<Print> {
    let tokens = tokens(text)?;
    let Some((Token::Text(format), rest)) = tokens.split_first() else {
        return Err(NotUnderstood { what: "no string at the start" });
    };
    let mut parser = Parser { rest, fields, long_len, depth: 0, n_operators: 0 };
    let mut args = Vec::new();
    while !parser.rest.is_empty() {
        parser.expect(",")?;
        parser.n_operators = 0;
        args.push(parser.expr()?);
    }
    Ok(Print { format: format.clone(), args })
}

struct Parser<'t> {
    rest: &'t [Token<'t>],
    fields: &'t [Field],
    long_len: u8,
    depth: usize,
    n_operators: usize,
}

impl<'t> Parser<'t> {
    fn take(&mut self) -> Option<&'t Token<'t>> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    fn is_at(&self, op: &str) -> bool {
        matches!(self.rest.first(), Some(Token::Op(it)) if *it == op)
    }

    /// Passes over `op` if it comes next.
    fn takes(&mut self, op: &str) -> bool {
        let is_next = self.is_at(op);
        if is_next {
            self.take();
        }
        is_next
    }

    fn expect(&mut self, op: &str) -> Result<()> {
        let is_next = self.takes(op);
        is_next.then_some(()).ok_or(NotUnderstood { what: "an unexpected token" })
    }

    fn word(&mut self) -> Result<&'t str> {
        match self.take() {
            Some(Token::Word(word)) => Ok(word),
            _ => Err(NotUnderstood { what: "no name where one is due" }),
        }
    }

    fn field(&mut self) -> Result<usize> {
        let name = self.word()?;
        let found = self.fields.iter().position(|it| it.name == name);
        found.ok_or(NotUnderstood { what: "a field that is not there" })
    }

    fn count_operator(&mut self) -> Result<()> {
        self.n_operators = self.n_operators.wrapping_add(1);
        let are_few = self.n_operators <= MAX_OPERATORS;
        are_few.then_some(()).ok_or(NotUnderstood { what: "too many operators" })
    }

    fn expr(&mut self) -> Result<Expr> {
        self.depth = self.depth.wrapping_add(1);
        if self.depth > MAX_DEPTH {
            return Err(NotUnderstood { what: "too deep an expression" });
        }
        let condition = self.binary(0)?;
        let expr = if self.takes("?") {
            let this = self.expr()?;
            self.expect(":")?;
            Expr::Cond(Box::new([condition, this, self.expr()?]))
        } else {
            condition
        };
        self.depth = self.depth.wrapping_sub(1);
        Ok(expr)
    }

    /// A chain of operators that bind more tightly than `level`.
    fn binary(&mut self, level: u8) -> Result<Expr> {
        let mut left = self.unary()?;
        while let Some(Token::Op(op)) = self.rest.first()
            && let Some((op, its_level)) = Binary::of(op)
            && its_level > level
        {
            self.take();
            self.count_operator()?;
            let right = self.binary(its_level)?;
            left = Expr::Binary(op, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expr> {
        if let Some(Token::Op(op)) = self.rest.first()
            && let Some(op) = Unary::of(op)
        {
            self.take();
            self.count_operator()?;
            return Ok(Expr::Unary(op, Box::new(self.unary()?)));
        }
        let mut expr = self.primary()?;
        while self.takes("[") {
            self.count_operator()?;
            let index = self.expr()?;
            self.expect("]")?;
            expr = Expr::Index(Box::new(expr), Box::new(index));
        }
        Ok(expr)
    }

    fn primary(&mut self) -> Result<Expr> {
        match self.take() {
            Some(Token::Word("REC")) => self.record_field(),
            Some(Token::Word(word)) if self.takes("(") => self.call(word),
            Some(Token::Word(word)) => Ok(word_expr(word)),
            Some(Token::Text(text)) => Ok(Expr::Text(text.clone())),
            Some(Token::Char(value)) => Ok(Expr::Number(u64::from(*value), value.to_string())),
            Some(Token::Op("(")) => self.parenthesis(),
            _ => Err(NotUnderstood { what: "no value where one is due" }),
        }
    }

    /// What follows `REC`.
    fn record_field(&mut self) -> Result<Expr> {
        self.expect("->")?;
        self.field().map(Expr::Field)
    }

    /// What follows `(`: a cast if it is but names and a value follows it.
    fn parenthesis(&mut self) -> Result<Expr> {
        if let [Token::Word("REC"), Token::Op(")"), rest @ ..] = self.rest {
            self.rest = rest;
            return self.record_field();
        }
        let is_name = |it: &&Token<'_>| matches!(it, Token::Word(_) | Token::Op("*"));
        let n_names = self.rest.iter().take_while(is_name).count();
        let (names, behind) = self.rest.split_at_checked(n_names).unwrap_or_default();
        if let [Token::Word(first), ..] = names
            && let [Token::Op(")"), behind @ ..] = behind
            && *first != "REC"
        {
            let is_value = matches!(
                behind.first(),
                Some(Token::Word(_) | Token::Text(_) | Token::Char(_) | Token::Op("("))
            );
            if is_value {
                self.rest = behind;
                self.count_operator()?;
                let words: Vec<&str> = names
                    .iter()
                    .map(|it| match it {
                        Token::Word(word) | Token::Op(word) => word,
                        Token::Text(_) | Token::Char(_) => "",
                    })
                    .collect();
                let value = self.primary()?;
                return Ok(Expr::Cast(Cast::to(&words.join(" ")), Box::new(value)));
            }
            // A type before an operator: `(unsigned long)-1` is read as `0 - 1`.
            if names.len() > 1 && is_type(names) {
                self.rest = behind;
                return Ok(Expr::Word((*first).to_owned()));
            }
        }
        let expr = self.expr()?;
        self.expect(")")?;
        Ok(expr)
    }

    /// What follows `name(`.
    fn call(&mut self, name: &str) -> Result<Expr> {
        let boxed = |it: &mut Self| it.expr().map(Box::new);
        match name {
            "__print_flags" | "__print_symbolic" => {
                let value = boxed(self)?;
                self.expect(",")?;
                if name == "__print_symbolic" {
                    return Ok(Expr::Symbolic(value, self.table()?));
                }
                let delimiter = match self.take() {
                    Some(Token::Text(text)) => text.clone(),
                    Some(Token::Word(word)) => (*word).to_owned(),
                    Some(Token::Char(byte)) => char::from(*byte).to_string(),
                    _ => return Err(NotUnderstood { what: "flags without a delimiter" }),
                };
                self.expect(",")?;
                Ok(Expr::Flags(value, delimiter, self.table()?))
            }
            "__print_hex" | "__print_hex_str" => {
                let data = boxed(self)?;
                self.expect(",")?;
                let len = boxed(self)?;
                self.expect(")")?;
                Ok(if name == "__print_hex" {
                    Expr::Hex(data, len)
                } else {
                    Expr::HexStr(data, len)
                })
            }
            "__print_array" => {
                let data = self.expr()?;
                self.expect(",")?;
                let count = self.expr()?;
                self.expect(",")?;
                let element_len = self.expr()?;
                self.expect(")")?;
                Ok(Expr::Array(Box::new([data, count, element_len])))
            }
            "__get_str" | "__get_rel_str" => self.field_in_call().map(Expr::Str),
            "__get_bitmask" | "__get_rel_bitmask" => self.field_in_call().map(Expr::Bitmask),
            "__get_cpumask" | "__get_rel_cpumask" => self.field_in_call().map(Expr::Cpumask),
            "__get_dynamic_array"
            | "__get_rel_dynamic_array"
            | "__get_sockaddr"
            | "__get_rel_sockaddr"
            | "__get_sockaddr_rel" => self.field_in_call().map(Expr::Dynamic),
            "__get_dynamic_array_len" | "__get_rel_dynamic_array_len" => {
                self.field_in_call().map(Expr::DynamicLen)
            }
            "__builtin_expect" => {
                let value = self.expr()?;
                self.expect(",")?;
                self.expr()?;
                self.expect(")")?;
                Ok(value)
            }
            "sizeof" => self.size_of(),
            _ => Err(NotUnderstood { what: "a call of an unknown function" }),
        }
    }

    fn field_in_call(&mut self) -> Result<usize> {
        let field = self.field()?;
        self.expect(")")?;
        Ok(field)
    }

    /// `{ value, name }, ..)`
    fn table(&mut self) -> Result<Vec<Named>> {
        let mut table = Vec::new();
        let n_operators = self.n_operators;
        loop {
            // No tree is kept of an entry's value.
            self.n_operators = n_operators;
            self.expect("{")?;
            let value = self.expr()?.table_value()?;
            self.expect(",")?;
            let mut name = self.expr()?;
            // Some end with `((void *)0)`, which is never printed: it stands for no bit.
            while let Expr::Cast(_, inner) = name {
                name = *inner;
            }
            let (Expr::Text(name) | Expr::Word(name) | Expr::Number(_, name)) = name else {
                return Err(NotUnderstood { what: "a table with an entry without a name" });
            };
            self.expect("}")?;
            table.push(Named { value, name });
            if self.takes(")") {
                return Ok(table);
            }
            self.expect(",")?;
        }
    }

    fn size_of(&mut self) -> Result<Expr> {
        let unknown = NotUnderstood { what: "the size of something unknown" };
        let mut words = Vec::new();
        while let Some(Token::Word(word)) = self.rest.first() {
            words.push(*word);
            self.take();
        }
        let len = match *words.as_slice() {
            ["REC"] => {
                self.expect("->")?;
                let field = self.fields.get(self.field()?).ok_or(unknown.clone())?;
                if field.flags.contains(FieldFlags::ARRAY) {
                    return Err(unknown);
                }
                field.len
            }
            ["int" | "unsigned"] | ["unsigned", "int"] => 4,
            ["long"] | ["unsigned", "long"] => usize::from(self.long_len),
            ["long", "long"] | ["unsigned", "long", "long"] => 8,
            [word] => known_len(word),
            _ => 0,
        };
        if len == 0 {
            return Err(unknown);
        }
        self.expect(")")?;
        let value = u64::try_from(len).unwrap_or(u64::MAX);
        Ok(Expr::Number(value, value.to_string()))
    }
}

/// Whether these are words with stars behind them.
fn is_type(names: &[Token<'_>]) -> bool {
    let n_words = names.iter().take_while(|it| matches!(it, Token::Word(_))).count();
    names.iter().skip(n_words).all(|it| matches!(it, Token::Op(_)))
}

/// A number if the word begins as one; suffixes such as `UL` change nothing.
fn word_expr(word: &str) -> Expr {
    if !word.starts_with(|it: char| it.is_ascii_digit()) {
        return Expr::Word(word.to_owned());
    }
    let (digits, radix) = match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if word.starts_with('0') => (word, 8),
        None => (word, 10),
    };
    let end = digits.find(|it: char| !it.is_digit(radix)).unwrap_or(digits.len());
    let digits = digits.get(..end).unwrap_or_default();
    let value = u64::from_str_radix(digits, radix);
    Expr::Number(value.unwrap_or(if digits.is_empty() { 0 } else { u64::MAX }), word.to_owned())
}
