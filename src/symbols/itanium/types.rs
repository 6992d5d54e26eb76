//! Types and their qualifiers.

use super::parse::Parser;
use super::parse::Referable;
use super::tables;
use super::tables::Builtin;
use super::tree::Cv;
use super::tree::FunctionQualifier;
use super::tree::Id;
use super::tree::Node;

impl<'a> Parser<'a> {
    pub(super) fn qualify(&mut self, of: Id, qualifiers: &[Qualifier]) -> Id {
        qualifiers.iter().rev().fold(of, |of, qualifier| {
            self.add(match *qualifier {
                Qualifier::Type(cv) => Node::Qualifier(cv, of),
                Qualifier::Function(qualifier) => Node::FunctionQualifier(qualifier, of),
            })
        })
    }

    pub(super) fn reference_qualifier(&mut self) -> Option<FunctionQualifier> {
        let qualifier = match self.peek() {
            b'R' => FunctionQualifier::LvalueThis,
            b'O' => FunctionQualifier::RvalueThis,
            _ => return None,
        };
        self.skip(1);
        Some(qualifier)
    }

    /// The qualifiers that stand here.
    pub(super) fn qualifiers(&mut self) -> Option<Vec<Qualifier>> {
        let mut found = Vec::new();
        loop {
            found.push(match (self.peek(), self.peek_second()) {
                (b'r', _) => self.skipping(1, Qualifier::Type(Cv::Restrict)),
                (b'V', _) => self.skipping(1, Qualifier::Type(Cv::Volatile)),
                (b'K', _) => self.skipping(1, Qualifier::Type(Cv::Const)),
                (b'D', b'x') => {
                    self.skipping(2, Qualifier::Function(FunctionQualifier::TransactionSafe))
                }
                (b'D', b'o') => {
                    self.skipping(2, Qualifier::Function(FunctionQualifier::Noexcept(None)))
                }
                (b'D', b'O') => {
                    self.skip(2);
                    let condition = self.expression()?;
                    self.expect("E")?;
                    Qualifier::Function(FunctionQualifier::Noexcept(Some(condition)))
                }
                (b'D', b'w') => {
                    self.skip(2);
                    let types = self.parameters()?;
                    self.expect("E")?;
                    Qualifier::Function(FunctionQualifier::Throw(types))
                }
                _ => return Some(found),
            });
        }
    }

    fn skipping<T>(&mut self, n_bytes: usize, found: T) -> T {
        self.skip(n_bytes);
        found
    }

    // <type>
    pub(super) fn of_type(&mut self) -> Option<Id> {
        self.deeper(Self::of_type_here)
    }

    fn of_type_here(&mut self) -> Option<Id> {
        let mut qualifiers = self.qualifiers()?;
        if !qualifiers.is_empty() {
            return self.qualified_type(&mut qualifiers);
        }
        let node = match (self.peek(), self.peek_second()) {
            (b'u', _) => {
                self.skip(1);
                Node::Vendor(self.source_name()?)
            }
            (b'F', _) => return self.function_type().map(|it| self.referable(it)),
            (b'A', _) => self.array_type()?,
            (b'M', _) => {
                self.skip(1);
                let class = self.of_type()?;
                Node::MemberPointer { class, member: self.of_type()? }
            }
            (b'T', _) => return self.parameter_type().map(|it| self.referable(it)),
            (b'O', _) => Node::RvalueReference(self.after_code()?),
            (b'P', _) => Node::Pointer(self.after_code()?),
            (b'R', _) => Node::Reference(self.after_code()?),
            (b'C', _) => Node::Complex(self.after_code()?),
            (b'G', _) => Node::Imaginary(self.after_code()?),
            (b'U', _) => {
                self.skip(1);
                let mut qualifier = self.source_name()?;
                if self.peek() == b'I' {
                    let arguments = self.template_arguments()?;
                    qualifier = self.add(Node::Template(qualifier, arguments));
                }
                Node::VendorQualifier(self.of_type()?, qualifier)
            }
            (b'D', b'T' | b't') => {
                self.skip(2);
                let of = self.expression()?;
                self.expect("E")?;
                Node::Decltype(of)
            }
            (b'D', b'p') => {
                self.skip(2);
                Node::PackExpansion(self.of_type()?)
            }
            (b'D', b'v') => {
                self.skip(2);
                self.vector_type()?
            }
            (b'D', _) => return self.extended_builtin(),
            (code, _) => match tables::builtin_of(code) {
                Some(builtin) => {
                    self.skip(1);
                    return Some(self.add(Node::Builtin(builtin)));
                }
                None => return self.name(Referable::Yes),
            },
        };
        let id = self.add(node);
        Some(self.referable(id))
    }

    pub(super) fn referable(&mut self, id: Id) -> Id {
        self.add_substitution(id);
        id
    }

    fn after_code(&mut self) -> Option<Id> {
        self.skip(1);
        self.of_type()
    }

    fn qualified_type(&mut self, qualifiers: &mut [Qualifier]) -> Option<Id> {
        // Before a function they are of `this`, and it counts only together with them.
        let is_function = self.peek() == b'F';
        if is_function {
            for qualifier in &mut *qualifiers {
                qualifier.apply_to_function();
            }
        }
        let of = if is_function { self.function_type()? } else { self.of_type()? };
        let id = match self.tree.node(of) {
            // `&` is written behind `const`.
            Node::FunctionQualifier(
                reference @ (FunctionQualifier::LvalueThis | FunctionQualifier::RvalueThis),
                function,
            ) => {
                let qualified = self.qualify(function, qualifiers);
                self.add(Node::FunctionQualifier(reference, qualified))
            }
            _ => self.qualify(of, qualifiers),
        };
        Some(self.referable(id))
    }

    /// A template parameter, or one that is a template and has its arguments here.
    fn parameter_type(&mut self) -> Option<Id> {
        let parameter = self.template_parameter()?;
        if self.peek() != b'I' {
            return Some(parameter);
        }
        if !self.is_conversion {
            self.add_substitution(parameter);
            let arguments = self.template_arguments()?;
            return Some(self.add(Node::Template(parameter, arguments)));
        }
        // `operator T<..>`, unless the arguments are those of the operator itself.
        let (at, n_substitutions) = (self.at, self.substitutions.len());
        let arguments = self.template_arguments();
        if self.peek() == b'I' {
            self.add_substitution(parameter);
            return Some(self.add(Node::Template(parameter, arguments?)));
        }
        self.at = at;
        self.substitutions.truncate(n_substitutions);
        Some(parameter)
    }

    fn extended_builtin(&mut self) -> Option<Id> {
        self.skip(1);
        let node = match self.bump() {
            b'a' => Node::Name("auto"),
            b'c' => Node::Name("decltype(auto)"),
            b'F' => {
                static BFLOAT16: Builtin =
                    Builtin { name: "std::bfloat16_t", literal: tables::Literal::Float };
                let n_bits = self.number()?;
                match self.bump() {
                    b'b' if n_bits == 16 => Node::Builtin(&BFLOAT16),
                    b'x' => Node::Float(n_bits, "x"),
                    b'_' => Node::Float(n_bits, ""),
                    _ => return None,
                }
            }
            code => Node::Builtin(tables::extended_builtin_of(code)?),
        };
        Some(self.add(node))
    }

    // <function-type> ::= F [Y] <bare-function-type> [<ref-qualifier>] E
    fn function_type(&mut self) -> Option<Id> {
        self.expect("F")?;
        self.eat("Y");
        let mut of = self.bare_function_type(true)?;
        if let Some(reference) = self.reference_qualifier() {
            of = self.add(Node::FunctionQualifier(reference, of));
        }
        self.expect("E")?;
        Some(of)
    }

    pub(super) fn bare_function_type(&mut self, has_result: bool) -> Option<Id> {
        let has_result = self.eat("J") || has_result;
        let result = if has_result { Some(self.of_type()?) } else { None };
        let parameters = self.parameters()?;
        Some(self.add(Node::Function { result, parameters }))
    }

    /// One type or more; `void` alone for none.
    pub(super) fn parameters(&mut self) -> Option<Id> {
        let mut types = Vec::new();
        loop {
            match (self.peek(), self.peek_second()) {
                (0 | b'E' | b'.', _) | (b'R' | b'O', b'E') => break,
                _ => types.push(self.of_type()?),
            }
        }
        match types.as_slice() {
            [] => return None,
            [only] => {
                let is_void = |it: &Builtin| std::ptr::eq(it, &raw const tables::VOID);
                if matches!(self.tree.node(*only), Node::Builtin(it) if is_void(it)) {
                    types.clear();
                }
            }
            _ => {}
        }
        let types = self.tree.add_list(&types);
        Some(self.add(Node::Arguments(types)))
    }

    // <array-type> ::= A [<number> | <expression>] _ <type>
    fn array_type(&mut self) -> Option<Node<'a>> {
        self.skip(1);
        let length = match self.peek() {
            b'_' => None,
            b'0'..=b'9' => {
                let digits = self.take_while(|byte| byte.is_ascii_digit());
                Some(self.add(Node::Name(digits)))
            }
            _ => Some(self.expression()?),
        };
        self.expect("_")?;
        Some(Node::Array { length, element: self.of_type()? })
    }

    // <vector-type> ::= Dv <number> _ <type> | Dv _ <expression> _ <type>
    fn vector_type(&mut self) -> Option<Node<'a>> {
        let length = if self.eat("_") {
            self.expression()?
        } else {
            let number = self.number()?;
            self.add(Node::Number(number))
        };
        self.expect("_")?;
        Some(Node::Vector { length, element: self.of_type()? })
    }
}

/// A qualifier before what it qualifies.
#[derive(Clone, Copy, Debug)]
pub(super) enum Qualifier {
    Type(Cv),
    Function(FunctionQualifier),
}

impl Qualifier {
    pub(super) fn apply_to_function(&mut self) {
        if let Self::Type(cv) = *self {
            *self = Self::Function(FunctionQualifier::Cv(cv));
        }
    }
}
