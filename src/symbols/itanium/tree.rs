//! What a mangled name says, as a tree with shared branches.

use super::tables::Builtin;
use super::tables::Operator;

/// A node of a [`Tree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id(pub(super) u32);

/// A run of nodes in a [`Tree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct List {
    pub(super) start: u32,
    pub(super) len: u32,
}

/// A qualifier of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cv {
    Restrict,
    Volatile,
    Const,
}

/// A qualifier of a function, written behind its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FunctionQualifier {
    Cv(Cv),
    LvalueThis,
    RvalueThis,
    TransactionSafe,
    /// With its condition, if it has one.
    Noexcept(Option<Id>),
    Throw(Id),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Node<'a> {
    // Names.
    Name(&'a str),
    /// A standard abbreviation, such as `std::string`.
    Standard(&'static str),
    /// A name and its ABI tag.
    Tagged(Id, Id),
    /// `scope::name`.
    Qualified(Id, Id),
    /// A function and what is local to it.
    Local(Id, Id),
    /// What is local to the default value of a parameter, counted from the last, from 0.
    DefaultArgument(u32, Id),
    Constructor(Id),
    Destructor(Id),
    Friend(Id),
    Bindings(List),
    Lambda {
        signature: Id,
        number: u32,
    },
    Unnamed(u32),
    Operator(&'static Operator),
    VendorOperator {
        name: Id,
        n_operands: u32,
    },
    Conversion(Id),
    Template(Id, Id),
    /// A function's name with its type.
    Typed(Id, Id),
    Clone(Id, &'a str),
    Special(&'static str, Id),
    ConstructionVtable {
        base: Id,
        derived: Id,
    },
    ReferenceTemporary(Id, u32),

    // Template parameters and arguments.
    Parameter(u32),
    Arguments(List),
    /// The parameters that a lambda declares itself, before its ordinary ones.
    Head {
        parameters: List,
        signature: Option<Id>,
    },
    TypeParameter,
    ValueParameter(Id),
    TemplateParameter(Id),
    PackParameter(Id),
    PackExpansion(Id),

    // Types.
    Builtin(&'static Builtin),
    Float(u32, &'static str),
    Vendor(Id),
    Qualifier(Cv, Id),
    FunctionQualifier(FunctionQualifier, Id),
    VendorQualifier(Id, Id),
    Pointer(Id),
    Reference(Id),
    RvalueReference(Id),
    Complex(Id),
    Imaginary(Id),
    Function {
        result: Option<Id>,
        parameters: Id,
    },
    Array {
        length: Option<Id>,
        element: Id,
    },
    Vector {
        length: Id,
        element: Id,
    },
    MemberPointer {
        class: Id,
        member: Id,
    },
    Decltype(Id),

    // Expressions.
    FunctionParameter(u32),
    Number(u32),
    Literal {
        of: Id,
        value: &'a str,
        is_negative: bool,
    },
    Braces(Option<Id>, Id),
    VendorExpression(Id, Id),
    Cast(Id),
    Nullary(Id),
    Unary(Id, Id),
    /// `++` and `--` behind their operand.
    Suffix(Id, Id),
    Binary(Id, Id, Id),
    Ternary(Id, Id, Id, Id),
    /// `new` with placement arguments, a type and an initializer.
    New {
        placement: Id,
        of: Id,
        initializer: Option<Id>,
    },
}

#[derive(Debug, Default)]
pub(super) struct Tree<'a> {
    nodes: Vec<Node<'a>>,
    lists: Vec<Id>,
}

impl<'a> Tree<'a> {
    pub(super) fn add(&mut self, node: Node<'a>) -> Id {
        // A name of at most 1024 bytes has at most a few thousand nodes.
        let id = Id(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.nodes.push(node);
        id
    }

    pub(super) fn add_list(&mut self, items: &[Id]) -> List {
        let start = u32::try_from(self.lists.len()).unwrap_or(u32::MAX);
        self.lists.extend_from_slice(items);
        List { start, len: u32::try_from(items.len()).unwrap_or(0) }
    }

    pub(super) fn node(&self, id: Id) -> Node<'a> {
        self.nodes.get(id.0 as usize).copied().unwrap_or(Node::Name(""))
    }

    pub(super) fn set(&mut self, id: Id, node: Node<'a>) {
        if let Some(slot) = self.nodes.get_mut(id.0 as usize) {
            *slot = node;
        }
    }

    pub(super) fn list(&self, list: List) -> &[Id] {
        let start = list.start as usize;
        self.lists.get(start..start.saturating_add(list.len as usize)).unwrap_or_default()
    }

    pub(super) fn n_nodes(&self) -> usize {
        self.nodes.len()
    }
}
