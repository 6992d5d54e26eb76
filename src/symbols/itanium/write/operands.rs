//! Expressions as text.

use super::Writer;
use crate::symbols::itanium::tables::Literal;
use crate::symbols::itanium::tree::Id;
use crate::symbols::itanium::tree::List;
use crate::symbols::itanium::tree::Node;

impl Writer<'_> {
    /// An expression, or what stands in one only.
    pub(super) fn operand(&mut self, id: Id) -> Option<()> {
        match self.tree.node(id) {
            Node::Decltype(of) => {
                self.text("decltype (")?;
                self.whole(of)?;
                self.text(")")
            }
            Node::PackExpansion(of) => self.pack_expansion(of),
            Node::FunctionParameter(0) => self.text("this"),
            Node::FunctionParameter(number) => {
                self.text("{parm#")?;
                self.number(number)?;
                self.text("}")
            }
            Node::Number(number) => self.number(number),
            Node::Literal { of, value, is_negative } => self.literal(of, value, is_negative),
            Node::Braces(of, items) => {
                if let Some(of) = of {
                    self.whole(of)?;
                }
                self.text("{")?;
                self.whole(items)?;
                self.text("}")
            }
            Node::VendorExpression(name, arguments) => {
                self.whole(name)?;
                self.text("(")?;
                self.whole(arguments)?;
                self.text(")")
            }
            Node::Nullary(operator) => self.operator(operator),
            Node::Unary(operator, operand) => self.unary(operator, operand),
            Node::Suffix(operator, operand) => {
                self.in_parentheses(operand)?;
                self.operator(operator)
            }
            Node::Binary(operator, left, right) => self.binary(operator, left, right),
            Node::Ternary(operator, first, second, third) => {
                self.ternary(operator, [first, second, third])
            }
            Node::New { placement, of, initializer } => {
                self.text("new ")?;
                if matches!(self.tree.node(placement), Node::Arguments(it) if it.len != 0) {
                    self.in_parentheses(placement)?;
                    self.text(" ")?;
                }
                self.whole(of)?;
                initializer.map_or(Some(()), |it| self.in_parentheses(it))
            }
            Node::Cast(of) => self.whole(of),
            _ => None,
        }
    }

    /// An operand, in parentheses unless it is simple.
    fn in_parentheses(&mut self, id: Id) -> Option<()> {
        if matches!(
            self.tree.node(id),
            Node::Name(_) | Node::Qualified(..) | Node::Braces(..) | Node::FunctionParameter(_)
        ) {
            return self.whole(id);
        }
        self.text("(")?;
        self.whole(id)?;
        self.text(")")
    }

    fn operator(&mut self, id: Id) -> Option<()> {
        match self.tree.node(id) {
            Node::Operator(operator) => self.text(operator.name),
            _ => self.whole(id),
        }
    }

    fn code(&self, operator: Id) -> &'static str {
        match self.tree.node(operator) {
            Node::Operator(operator) => operator.code,
            _ => "",
        }
    }

    fn unary(&mut self, operator: Id, mut operand: Id) -> Option<()> {
        let code = self.code(operator);
        match code {
            // The address of a function goes without its parameters.
            "ad" => {
                if let Node::Typed(name, _) = self.tree.node(operand)
                    && matches!(self.tree.node(name), Node::Qualified(..))
                {
                    operand = name;
                }
            }
            "sZ" => {
                let n_elements = self.pack_in(operand)?.len().unwrap_or(0);
                return self.number(n_elements);
            }
            "sP" => {
                let Node::Arguments(list) = self.tree.node(operand) else { return None };
                let n_arguments = self.n_arguments(list)?;
                return self.number(n_arguments);
            }
            _ => {}
        }
        if let Node::Cast(of) = self.tree.node(operator) {
            self.text("(")?;
            self.whole(of)?;
            self.text(")")?;
        } else {
            self.operator(operator)?;
        }
        match code {
            "gs" => self.whole(operand),
            "st" | "nx" => {
                self.text("(")?;
                self.whole(operand)?;
                self.text(")")
            }
            _ => self.in_parentheses(operand),
        }
    }

    fn binary(&mut self, operator: Id, left: Id, right: Id) -> Option<()> {
        match self.code(operator) {
            "cc" | "dc" | "rc" | "sc" => {
                self.operator(operator)?;
                self.text("<")?;
                self.whole(left)?;
                self.text(">(")?;
                self.whole(right)?;
                self.text(")")
            }
            "fl" => {
                self.text("(...")?;
                self.operator(left)?;
                self.of_whole_pack(right)?;
                self.text(")")
            }
            "fr" => {
                self.text("(")?;
                self.of_whole_pack(right)?;
                self.operator(left)?;
                self.text("...)")
            }
            "di" | "dx" => self.designated(operator, left, None, right),
            "cl" => {
                // Without the types of the parameters: the arguments follow.
                let function = match self.tree.node(left) {
                    Node::Typed(name, _) => name,
                    _ => left,
                };
                self.in_parentheses(function)?;
                self.in_parentheses(right)
            }
            "ix" => {
                self.in_parentheses(left)?;
                self.text("[")?;
                self.whole(right)?;
                self.text("]")
            }
            // Else it would look like the end of the template's arguments.
            "gt" => {
                self.text("(")?;
                self.in_parentheses(left)?;
                self.operator(operator)?;
                self.in_parentheses(right)?;
                self.text(")")
            }
            _ => {
                self.in_parentheses(left)?;
                self.operator(operator)?;
                self.in_parentheses(right)
            }
        }
    }

    fn ternary(&mut self, operator: Id, [first, second, third]: [Id; 3]) -> Option<()> {
        match self.code(operator) {
            "qu" => {
                self.in_parentheses(first)?;
                self.operator(operator)?;
                self.in_parentheses(second)?;
                self.text(" : ")?;
                self.in_parentheses(third)
            }
            "dX" => self.designated(operator, first, Some(second), third),
            "fL" | "fR" => {
                self.text("(")?;
                self.of_whole_pack(second)?;
                self.operator(first)?;
                self.text("...")?;
                self.operator(first)?;
                self.of_whole_pack(third)?;
                self.text(")")
            }
            _ => None,
        }
    }

    /// `.name=value`, `[index]=value`, `[first ... last]=value`.
    fn designated(&mut self, operator: Id, at: Id, last: Option<Id>, value: Id) -> Option<()> {
        let is_name = self.code(operator) == "di";
        self.text(if is_name { "." } else { "[" })?;
        self.whole(at)?;
        if let Some(last) = last {
            self.text(" ... ")?;
            self.whole(last)?;
        }
        if !is_name {
            self.text("]")?;
        }
        let is_chained = match self.tree.node(value) {
            Node::Binary(operator, ..) | Node::Ternary(operator, ..) => {
                matches!(self.code(operator), "di" | "dx" | "dX")
            }
            _ => false,
        };
        if is_chained {
            return self.whole(value);
        }
        self.text("=")?;
        self.in_parentheses(value)
    }

    fn of_whole_pack(&mut self, id: Id) -> Option<()> {
        let pack_idx = self.pack_idx.take();
        let done = self.in_parentheses(id);
        self.pack_idx = pack_idx;
        done
    }

    fn pack_expansion(&mut self, of: Id) -> Option<()> {
        let pack = if self.n_lambda_parameters == 0 { self.pack_in(of)? } else { Pack::None };
        let Some(n_elements) = pack.len() else {
            // Of the function's own parameters, of which nothing is known.
            self.in_parentheses(of)?;
            return self.text("...");
        };
        let pack_idx = self.pack_idx;
        for idx in 0..n_elements {
            if idx != 0 {
                self.text(", ")?;
            }
            self.pack_idx = Some(idx as usize);
            self.whole(of)?;
        }
        self.pack_idx = pack_idx;
        Some(())
    }

    /// The first pack of template arguments that `id` speaks of.
    fn pack_in(&mut self, id: Id) -> Option<Pack> {
        self.step()?;
        let children: [Option<Id>; 2] = match self.tree.node(id) {
            Node::Parameter(number) => {
                let frame = self.frames.get(self.frame?)?;
                let Node::Template(_, arguments) = self.tree.node(frame.of?) else { return None };
                let Node::Arguments(arguments) = self.tree.node(arguments) else { return None };
                let argument = self.tree.list(arguments).get(number as usize).copied();
                return Some(match argument.map(|it| self.tree.node(it)) {
                    Some(Node::Arguments(pack)) => Pack::Of(pack),
                    _ => Pack::None,
                });
            }
            Node::Arguments(list) => return self.pack_in_list(list),
            Node::Ternary(_, first, second, third) => {
                if let pack @ Pack::Of(_) = self.pack_in(first)? {
                    return Some(pack);
                }
                [Some(second), Some(third)]
            }
            Node::Qualified(left, right)
            | Node::Local(left, right)
            | Node::Template(left, right)
            | Node::Typed(left, right)
            | Node::VendorExpression(left, right)
            | Node::Binary(_, left, right)
            | Node::Array { length: Some(left), element: right }
            | Node::Vector { length: left, element: right }
            | Node::MemberPointer { class: left, member: right }
            | Node::VendorQualifier(left, right)
            | Node::Function { result: Some(left), parameters: right }
            | Node::Braces(Some(left), right) => [Some(left), Some(right)],
            Node::Unary(operator, of) | Node::Suffix(operator, of) => [Some(operator), Some(of)],
            Node::New { placement, of, .. } => [Some(placement), Some(of)],
            Node::Constructor(of)
            | Node::Destructor(of)
            | Node::Conversion(of)
            | Node::Cast(of)
            | Node::Decltype(of)
            | Node::Qualifier(_, of)
            | Node::FunctionQualifier(_, of)
            | Node::Pointer(of)
            | Node::Reference(of)
            | Node::RvalueReference(of)
            | Node::Complex(of)
            | Node::Imaginary(of)
            | Node::Vendor(of)
            | Node::Literal { of, .. }
            | Node::Array { length: None, element: of }
            | Node::Function { result: None, parameters: of }
            | Node::Braces(None, of) => [Some(of), None],
            _ => [None, None],
        };
        for child in children.into_iter().flatten() {
            if let pack @ Pack::Of(_) = self.pack_in(child)? {
                return Some(pack);
            }
        }
        Some(Pack::None)
    }

    fn pack_in_list(&mut self, list: List) -> Option<Pack> {
        let tree = self.tree;
        for &item in tree.list(list) {
            if let pack @ Pack::Of(_) = self.pack_in(item)? {
                return Some(pack);
            }
        }
        Some(Pack::None)
    }

    /// How many arguments `list` stands for once its packs are expanded.
    fn n_arguments(&mut self, list: List) -> Option<u32> {
        let tree = self.tree;
        let mut n_arguments = 0_u32;
        for &item in tree.list(list) {
            let n_more = match tree.node(item) {
                Node::PackExpansion(of) => self.pack_in(of)?.len().unwrap_or(0),
                _ => 1,
            };
            n_arguments = n_arguments.checked_add(n_more)?;
        }
        Some(n_arguments)
    }

    fn literal(&mut self, of: Id, value: &str, is_negative: bool) -> Option<()> {
        let kind = match self.tree.node(of) {
            Node::Builtin(builtin) => builtin.literal,
            _ => Literal::Cast,
        };
        match (kind, value, is_negative) {
            (Literal::Suffix(suffix), ..) => {
                self.text(if is_negative { "-" } else { "" })?;
                self.text(value)?;
                return self.text(suffix);
            }
            (Literal::Bool, "0", false) => return self.text("false"),
            (Literal::Bool, "1", false) => return self.text("true"),
            _ => {}
        }
        self.text("(")?;
        self.whole(of)?;
        self.text(if is_negative { ")-" } else { ")" })?;
        if kind == Literal::Float {
            self.text("[")?;
            self.text(value)?;
            return self.text("]");
        }
        self.text(value)
    }
}

/// The template arguments that one parameter stands for.
#[derive(Clone, Copy, Debug)]
enum Pack {
    Of(List),
    /// Nothing there stands for more than one.
    None,
}

impl Pack {
    fn len(self) -> Option<u32> {
        match self {
            Self::Of(list) => Some(list.len),
            Self::None => None,
        }
    }
}
