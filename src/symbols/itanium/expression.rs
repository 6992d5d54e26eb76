//! Expressions, as they stand in the arguments of templates and in `decltype`.

use super::parse::Level;
use super::parse::Parser;
use super::tables;
use super::tree::Id;
use super::tree::Node;

impl Parser<'_> {
    // <expression>
    pub(super) fn expression(&mut self) -> Option<Id> {
        let was_expression = std::mem::replace(&mut self.is_expression, true);
        let found = self.operand();
        self.is_expression = was_expression;
        found
    }

    fn operand(&mut self) -> Option<Id> {
        self.deeper(Self::operand_here)
    }

    fn operand_here(&mut self) -> Option<Id> {
        match (self.peek(), self.peek_second()) {
            (b'L', _) => self.primary(),
            (b'T', _) => self.template_parameter(),
            (b's', b'r') => {
                self.skip(2);
                self.unresolved_name()
            }
            (b's', b'p') => {
                self.skip(2);
                let of = self.operand()?;
                Some(self.add(Node::PackExpansion(of)))
            }
            (b'f', b'p') => {
                self.skip(2);
                let number =
                    if self.eat("T") { 0 } else { self.compact_number()?.checked_add(1)? };
                Some(self.add(Node::FunctionParameter(number)))
            }
            (b'0'..=b'9', _) | (b'o', b'n') => {
                // The name of a function that is found by the types of its arguments.
                self.eat("on");
                let name = self.unqualified_name(None)?;
                self.with_arguments(name)
            }
            (b'i', b'l') => {
                self.skip(2);
                let items = self.operands_to("E")?;
                Some(self.add(Node::Braces(None, items)))
            }
            (b't', b'l') => {
                self.skip(2);
                let of = self.of_type()?;
                let items = self.operands_to("E")?;
                Some(self.add(Node::Braces(Some(of), items)))
            }
            (b'u', _) => {
                self.skip(1);
                let name = self.source_name()?;
                let arguments = self.template_arguments_to_end()?;
                Some(self.add(Node::VendorExpression(name, arguments)))
            }
            _ => self.operation(),
        }
    }

    fn operation(&mut self) -> Option<Id> {
        let operator = self.operator_name()?;
        let (code, n_operands) = match self.tree.node(operator) {
            Node::Operator(operator) => (operator.code, operator.n_operands),
            Node::VendorOperator { n_operands, .. } => ("", n_operands),
            Node::Cast(_) => ("cv", 1),
            _ => return None,
        };
        let node = match n_operands {
            0 => Node::Nullary(operator),
            1 => self.unary(operator, code)?,
            2 => self.binary(operator, code)?,
            3 => self.ternary(operator, code)?,
            _ => return None,
        };
        Some(self.add(node))
    }

    fn unary(&mut self, operator: Id, code: &str) -> Option<Node<'static>> {
        Some(match code {
            "st" => Node::Unary(operator, self.of_type()?),
            "cv" if self.eat("_") => Node::Unary(operator, self.operands_to("E")?),
            "sP" => Node::Unary(operator, self.template_arguments_to_end()?),
            // `pp_` is the one before its operand.
            "pp" | "mm" if !self.eat("_") => Node::Suffix(operator, self.operand()?),
            _ => Node::Unary(operator, self.operand()?),
        })
    }

    fn binary(&mut self, operator: Id, code: &str) -> Option<Node<'static>> {
        if code.is_empty() {
            return None;
        }
        let left = match code {
            "sc" | "dc" | "cc" | "rc" => self.of_type()?,
            "fl" | "fr" => self.operator_name()?,
            "di" => self.unqualified_name(None)?,
            _ => self.operand()?,
        };
        let right = match code {
            "cl" => self.operands_to("E")?,
            "dt" | "pt" if !self.next_is("gs") && !self.next_is("sr") => {
                let name = self.unqualified_name(None)?;
                self.with_arguments(name)?
            }
            _ => self.operand()?,
        };
        Some(Node::Binary(operator, left, right))
    }

    fn ternary(&mut self, operator: Id, code: &str) -> Option<Node<'static>> {
        match code {
            "qu" | "dX" | "fL" | "fR" => {
                let is_fold = code.starts_with('f');
                let first = if is_fold { self.operator_name()? } else { self.operand()? };
                let second = self.operand()?;
                Some(Node::Ternary(operator, first, second, self.operand()?))
            }
            "nw" | "na" => {
                let placement = self.operands_to("_")?;
                let of = self.of_type()?;
                let initializer = if self.eat("E") {
                    None
                } else if self.eat("pi") {
                    Some(self.operands_to("E")?)
                } else if self.next_is("il") {
                    Some(self.operand()?)
                } else {
                    return None;
                };
                Some(Node::New { placement, of, initializer })
            }
            _ => None,
        }
    }

    fn operands_to(&mut self, end: &str) -> Option<Id> {
        let mut operands = Vec::new();
        while !self.eat(end) {
            operands.push(self.operand()?);
        }
        let operands = self.tree.add_list(&operands);
        Some(self.add(Node::Arguments(operands)))
    }

    // <expr-primary> ::= L <type> <value> E | L <mangled-name> E
    pub(super) fn primary(&mut self) -> Option<Id> {
        self.expect("L")?;
        if matches!(self.peek(), b'_' | b'Z') {
            let name = self.mangled_name(Level::Inner)?;
            self.expect("E")?;
            return Some(name);
        }
        let of = self.of_type()?;
        let is_null = matches!(self.tree.node(of), Node::Builtin(it) if std::ptr::eq(it, &raw const tables::NULLPTR));
        if is_null && self.eat("E") {
            return Some(of);
        }
        let is_negative = self.eat("n");
        let value = self.take_until(b'E')?;
        self.skip(1);
        Some(self.add(Node::Literal { of, value, is_negative }))
    }
}
