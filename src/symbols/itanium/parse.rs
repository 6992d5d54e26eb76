//! From a mangled name to its tree, production by production of the ABI's grammar.

use super::MAX_DEPTH;
use super::MAX_STEPS;
use super::tables;
use super::tree::Id;
use super::tree::List;
use super::tree::Node;
use super::tree::Tree;

/// The tree of `name`, all of it, and its root.
pub(super) fn parse(name: &str) -> Option<(Tree<'_>, Id)> {
    // `sr1A1x` was once written for what is `sr1AE1x` by now; which it is shows at the end.
    [OldNames::No, OldNames::Yes].into_iter().find_map(|old_names| {
        let mut parser = Parser::new(name, old_names);
        let root = parser.mangled_name(Level::Top)?;
        (parser.at == name.len()).then_some((parser.tree, root))
    })
}

/// How names of dependent types are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OldNames {
    No,
    Yes,
}

/// Where a name stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Top,
    Inner,
}

/// Whether what is read next can be referred to later on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Referable {
    Yes,
    No,
}

#[derive(Debug)]
pub(super) struct Parser<'a> {
    text: &'a str,
    pub(super) at: usize,
    pub(super) tree: Tree<'a>,
    /// What `S_`, `S0_`, ... stand for.
    pub(super) substitutions: Vec<Id>,
    /// What a constructor would be called.
    last_name: Option<Id>,
    pub(super) is_expression: bool,
    pub(super) is_conversion: bool,
    old_names: OldNames,
    depth: u32,
    n_steps: u32,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, old_names: OldNames) -> Self {
        Self {
            text,
            at: 0,
            tree: Tree::default(),
            substitutions: Vec::new(),
            last_name: None,
            is_expression: false,
            is_conversion: false,
            old_names,
            depth: 0,
            n_steps: 0,
        }
    }

    /// The next byte, 0 at the end.
    pub(super) fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    pub(super) fn peek_second(&self) -> u8 {
        self.text.as_bytes().get(self.at.saturating_add(1)).copied().unwrap_or(0)
    }

    pub(super) fn next_is(&self, text: &str) -> bool {
        self.text.get(self.at..).is_some_and(|it| it.starts_with(text))
    }

    pub(super) fn skip(&mut self, n_bytes: usize) {
        self.at = self.at.saturating_add(n_bytes).min(self.text.len());
    }

    pub(super) fn eat(&mut self, text: &str) -> bool {
        let is_next = self.next_is(text);
        if is_next {
            self.skip(text.len());
        }
        is_next
    }

    pub(super) fn expect(&mut self, text: &str) -> Option<()> {
        self.eat(text).then_some(())
    }

    pub(super) fn bump(&mut self) -> u8 {
        let byte = self.peek();
        self.skip(1);
        byte
    }

    pub(super) fn take_while(&mut self, is_part: impl Fn(u8) -> bool) -> &'a str {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let len = rest.bytes().position(|byte| !is_part(byte)).unwrap_or(rest.len());
        self.skip(len);
        rest.get(..len).unwrap_or_default()
    }

    /// Everything up to the next `end`, which stays.
    pub(super) fn take_until(&mut self, end: u8) -> Option<&'a str> {
        let text = self.take_while(|byte| byte != end);
        (self.peek() == end).then_some(text)
    }

    pub(super) fn add(&mut self, node: Node<'a>) -> Id {
        self.tree.add(node)
    }

    pub(super) fn add_substitution(&mut self, id: Id) {
        self.substitutions.push(id);
    }

    /// Runs `read` one level deeper.
    pub(super) fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.n_steps = self.n_steps.checked_add(1).filter(|&it| it <= MAX_STEPS)?;
        self.depth = self.depth.checked_add(1).filter(|&it| it <= MAX_DEPTH)?;
        let found = read(self);
        self.depth = self.depth.saturating_sub(1);
        found
    }

    // <mangled-name> ::= _Z <encoding> <clone-suffix>*
    pub(super) fn mangled_name(&mut self, level: Level) -> Option<Id> {
        // Within names, g++ once left the underscore out.
        if !self.eat("_") && level == Level::Top {
            return None;
        }
        self.expect("Z")?;
        let mut name = self.encoding(level)?;
        let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        while level == Level::Top && self.peek() == b'.' && is_part(self.peek_second()) {
            let start = self.at;
            self.skip(1);
            self.take_while(is_part);
            while self.peek() == b'.' && self.peek_second().is_ascii_digit() {
                self.skip(1);
                self.take_while(|byte| byte.is_ascii_digit());
            }
            let suffix = self.text.get(start..self.at)?;
            name = self.add(Node::Clone(name, suffix));
        }
        Some(name)
    }

    // <encoding> ::= <name> [<bare-function-type>] | <special-name>
    fn encoding(&mut self, level: Level) -> Option<Id> {
        if matches!(self.peek(), b'G' | b'T') {
            return self.deeper(Self::special_name);
        }
        let name = self.name(Referable::No)?;
        if matches!(self.peek(), 0 | b'E') {
            return Some(name);
        }
        let of = self.bare_function_type(self.has_result(name))?;
        // Else the result would look like that of the function around it.
        if level == Level::Inner && matches!(self.tree.node(name), Node::Local(..)) {
            self.drop_result(of);
        }
        Some(self.add(Node::Typed(name, of)))
    }

    fn drop_result(&mut self, of: Id) {
        if let Node::Function { parameters, .. } = self.tree.node(of) {
            self.tree.set(of, Node::Function { result: None, parameters });
        }
    }

    /// Whether the type of the function `name` starts with its result: for templates, except for
    /// those whose result is clear.
    fn has_result(&self, name: Id) -> bool {
        match self.tree.node(name) {
            Node::Local(_, inner) | Node::FunctionQualifier(_, inner) => self.has_result(inner),
            Node::Template(of, _) => !self.is_without_result(of),
            _ => false,
        }
    }

    fn is_without_result(&self, name: Id) -> bool {
        match self.tree.node(name) {
            Node::Qualified(_, name) | Node::Local(_, name) => self.is_without_result(name),
            Node::Constructor(_) | Node::Destructor(_) | Node::Conversion(_) => true,
            _ => false,
        }
    }

    fn special_name(&mut self) -> Option<Id> {
        let special = |this: &mut Self, text, of| Some(this.add(Node::Special(text, of)));
        match (self.bump(), self.bump()) {
            (b'T', b'V') => {
                let of = self.of_type()?;
                special(self, "vtable for ", of)
            }
            (b'T', b'T') => {
                let of = self.of_type()?;
                special(self, "VTT for ", of)
            }
            (b'T', b'I') => {
                let of = self.of_type()?;
                special(self, "typeinfo for ", of)
            }
            (b'T', b'S') => {
                let of = self.of_type()?;
                special(self, "typeinfo name for ", of)
            }
            (b'T', b'F') => {
                let of = self.of_type()?;
                special(self, "typeinfo fn for ", of)
            }
            (b'T', b'h') => {
                self.call_offset(b'h')?;
                let of = self.encoding(Level::Inner)?;
                special(self, "non-virtual thunk to ", of)
            }
            (b'T', b'v') => {
                self.call_offset(b'v')?;
                let of = self.encoding(Level::Inner)?;
                special(self, "virtual thunk to ", of)
            }
            (b'T', b'c') => {
                for _ in 0..2 {
                    let kind = self.bump();
                    self.call_offset(kind)?;
                }
                let of = self.encoding(Level::Inner)?;
                special(self, "covariant return thunk to ", of)
            }
            (b'T', b'C') => {
                let derived = self.of_type()?;
                self.number()?;
                self.expect("_")?;
                let base = self.of_type()?;
                Some(self.add(Node::ConstructionVtable { base, derived }))
            }
            (b'T', b'H') => {
                let of = self.name(Referable::No)?;
                special(self, "TLS init function for ", of)
            }
            (b'T', b'W') => {
                let of = self.name(Referable::No)?;
                special(self, "TLS wrapper function for ", of)
            }
            (b'T', b'A') => {
                let of = self.template_argument()?;
                special(self, "template parameter object for ", of)
            }
            (b'G', b'V') => {
                let of = self.name(Referable::No)?;
                special(self, "guard variable for ", of)
            }
            (b'G', b'R') => {
                let of = self.name(Referable::No)?;
                let number = self.number()?;
                Some(self.add(Node::ReferenceTemporary(of, number)))
            }
            (b'G', b'A') => {
                let of = self.encoding(Level::Inner)?;
                special(self, "hidden alias for ", of)
            }
            (b'G', b'T') => {
                let is_without = self.bump() == b'n';
                let of = self.encoding(Level::Inner)?;
                let text = if is_without {
                    "non-transaction clone for "
                } else {
                    "transaction clone for "
                };
                special(self, text, of)
            }
            _ => None,
        }
    }

    // <call-offset> ::= h <number> _ | v <number> _ <number> _
    fn call_offset(&mut self, kind: u8) -> Option<()> {
        self.signed_number()?;
        if kind == b'v' {
            self.expect("_")?;
            self.signed_number()?;
        }
        matches!(kind, b'h' | b'v').then_some(())?;
        self.expect("_")
    }

    fn signed_number(&mut self) -> Option<()> {
        self.eat("n");
        self.number().map(|_| ())
    }

    /// A number, 0 if there is no digit.
    pub(super) fn number(&mut self) -> Option<u32> {
        let digits = self.take_while(|byte| byte.is_ascii_digit());
        if digits.is_empty() { Some(0) } else { digits.parse().ok() }
    }

    /// `_` for 0, `0_` for 1, ...
    pub(super) fn compact_number(&mut self) -> Option<u32> {
        let number = match self.peek() {
            b'_' => 0,
            b'0'..=b'9' => self.number()?.checked_add(1)?,
            _ => return None,
        };
        self.expect("_")?;
        Some(number)
    }

    // <name> ::= <nested-name> | <local-name> | [St] <unqualified-name> [<template-args>]
    //        ::= <substitution> <template-args>
    pub(super) fn name(&mut self, referable: Referable) -> Option<Id> {
        self.deeper(|this| {
            let mut is_substitution = false;
            let name = match this.peek() {
                b'N' => this.nested_name()?,
                b'Z' => this.local_name()?,
                b'U' => this.unqualified_name(None)?,
                _ => {
                    let mut scope = None;
                    if this.eat("St") {
                        scope = Some(this.add(Node::Name("std")));
                    }
                    let mut name = if this.peek() == b'S' && scope.is_none() {
                        is_substitution = true;
                        this.substitution(Prefix::No)?
                    } else {
                        this.unqualified_name(scope)?
                    };
                    if this.peek() == b'I' {
                        if !is_substitution {
                            this.add_substitution(name);
                        }
                        let arguments = this.template_arguments()?;
                        name = this.add(Node::Template(name, arguments));
                        is_substitution = false;
                    }
                    name
                }
            };
            if referable == Referable::Yes && !is_substitution {
                this.add_substitution(name);
            }
            Some(name)
        })
    }

    // <nested-name> ::= N [<CV-qualifiers>] [<ref-qualifier>] <prefix> E
    fn nested_name(&mut self) -> Option<Id> {
        self.expect("N")?;
        let mut qualifiers = self.qualifiers()?;
        for qualifier in &mut qualifiers {
            qualifier.apply_to_function();
        }
        let reference = self.reference_qualifier();
        let mut name = self.prefix(Referable::Yes)?;
        name = self.qualify(name, &qualifiers);
        if let Some(reference) = reference {
            name = self.add(Node::FunctionQualifier(reference, name));
        }
        self.expect("E")?;
        Some(name)
    }

    pub(super) fn prefix(&mut self, referable: Referable) -> Option<Id> {
        let mut name: Option<Id> = None;
        loop {
            let found = match (self.peek(), self.peek_second(), name) {
                (b'D', b'T' | b't', None) => self.of_type()?,
                (b'D', b'T' | b't', Some(_)) | (b'T' | b'S', _, Some(_)) => return None,
                (b'I', _, of) => {
                    let of = of?;
                    let arguments = self.template_arguments()?;
                    self.add(Node::Template(of, arguments))
                }
                (b'T', _, None) => self.template_parameter()?,
                (b'M', _, Some(_)) => {
                    // The scope of a lambda in an initializer, referable already.
                    self.skip(1);
                    continue;
                }
                (b'S', _, None) => {
                    name = Some(self.substitution(Prefix::Yes)?);
                    continue;
                }
                (_, _, scope) => self.unqualified_name(scope)?,
            };
            name = Some(found);
            if self.peek() == b'E' {
                return name;
            }
            match referable {
                Referable::Yes => self.add_substitution(found),
                // Not the end of a prefix within an expression: it ends where no name follows.
                Referable::No if self.peek() == 0 => return None,
                Referable::No => {}
            }
        }
    }

    // <unqualified-name> ::= (<operator-name> | <ctor-dtor-name> | <source-name> | ...) <abi-tag>*
    pub(super) fn unqualified_name(&mut self, scope: Option<Id>) -> Option<Id> {
        self.deeper(|this| {
            let is_friend = this.eat("F");
            let mut name = match (this.peek(), this.peek_second()) {
                (b'0'..=b'9', _) => this.source_name()?,
                (b'a'..=b'z', _) => this.operator_as_name()?,
                (b'D', b'C') => this.bindings()?,
                (b'C' | b'D', _) => this.constructor_or_destructor()?,
                (b'L', _) => {
                    this.skip(1);
                    let name = this.source_name()?;
                    this.discriminator()?;
                    name
                }
                (b'U', b'l') => this.lambda()?,
                (b'U', b't') => {
                    this.skip(2);
                    let number = this.compact_number()?;
                    let name = this.add(Node::Unnamed(number));
                    this.add_substitution(name);
                    name
                }
                _ => return None,
            };
            name = this.tags(name)?;
            if is_friend {
                name = this.add(Node::Friend(name));
            }
            Some(match scope {
                Some(scope) => this.add(Node::Qualified(scope, name)),
                None => name,
            })
        })
    }

    fn operator_as_name(&mut self) -> Option<Id> {
        let was_expression = self.is_expression;
        if self.eat("on") {
            // Behind it, `cv` names a conversion operator.
            self.is_expression = false;
        }
        let name = self.operator_name();
        self.is_expression = was_expression;
        let name = name?;
        match self.tree.node(name) {
            Node::Operator(operator) if operator.code == "li" => {
                let suffix = self.source_name()?;
                Some(self.add(Node::Unary(name, suffix)))
            }
            _ => Some(name),
        }
    }

    fn bindings(&mut self) -> Option<Id> {
        self.expect("DC")?;
        let mut names = vec![self.source_name()?];
        while self.peek() != b'E' {
            names.push(self.source_name()?);
        }
        self.skip(1);
        let names = self.tree.add_list(&names);
        Some(self.add(Node::Bindings(names)))
    }

    fn tags(&mut self, mut name: Id) -> Option<Id> {
        let last_name = self.last_name;
        while self.eat("B") {
            let tag = self.source_name()?;
            name = self.add(Node::Tagged(name, tag));
        }
        self.last_name = last_name;
        Some(name)
    }

    // <source-name> ::= <length> <identifier>
    pub(super) fn source_name(&mut self) -> Option<Id> {
        let len = self.number().filter(|&it| it != 0)?;
        let end = self.at.checked_add(usize::try_from(len).ok()?)?;
        let mut name = self.text.get(self.at..end)?;
        self.at = end;
        // What gcc makes of an anonymous namespace.
        if let Some([b'.' | b'_' | b'$', b'N', ..]) =
            name.strip_prefix("_GLOBAL_").map(str::as_bytes)
        {
            name = "(anonymous namespace)";
        }
        let name = self.add(Node::Name(name));
        self.last_name = Some(name);
        Some(name)
    }

    // <operator-name> ::= two letters | cv <type> | v <digit> <source-name>
    pub(super) fn operator_name(&mut self) -> Option<Id> {
        let code = self.text.get(self.at..self.at.saturating_add(2))?;
        self.skip(2);
        if code == "cv" {
            let was_conversion = self.is_conversion;
            self.is_conversion = !self.is_expression;
            let of = self.of_type();
            let is_conversion = self.is_conversion;
            self.is_conversion = was_conversion;
            let of = of?;
            return Some(self.add(if is_conversion {
                Node::Conversion(of)
            } else {
                Node::Cast(of)
            }));
        }
        if let [b'v', digit @ b'0'..=b'9'] = code.as_bytes() {
            let n_operands = u32::from(digit.wrapping_sub(b'0'));
            let name = self.source_name()?;
            return Some(self.add(Node::VendorOperator { name, n_operands }));
        }
        let operator = tables::operator_of(code)?;
        Some(self.add(Node::Operator(operator)))
    }

    fn constructor_or_destructor(&mut self) -> Option<Id> {
        let kind = self.bump();
        let inherits = kind == b'C' && self.eat("I");
        let is_known = match (kind, self.bump()) {
            (b'C', digit) => matches!(digit, b'1'..=b'5'),
            (_, digit) => matches!(digit, b'0' | b'1' | b'2' | b'4' | b'5'),
        };
        is_known.then_some(())?;
        let of = self.last_name;
        if inherits {
            self.of_type()?;
        }
        let of = if inherits { self.last_name? } else { of? };
        Some(self.add(if kind == b'C' { Node::Constructor(of) } else { Node::Destructor(of) }))
    }

    // <local-name> ::= Z <encoding> E (<name> [<discriminator>] | s [<discriminator>]
    //                | d [<number>] _ <name>)
    fn local_name(&mut self) -> Option<Id> {
        self.expect("Z")?;
        let function = self.encoding(Level::Inner)?;
        self.expect("E")?;
        let name = if self.eat("s") {
            self.discriminator()?;
            self.add(Node::Name("string literal"))
        } else {
            let default = if self.eat("d") { Some(self.compact_number()?) } else { None };
            let name = self.name(Referable::No)?;
            // The numbers of these are part of them.
            if !matches!(self.tree.node(name), Node::Lambda { .. } | Node::Unnamed(_)) {
                self.discriminator()?;
            }
            match default {
                Some(number) => self.add(Node::DefaultArgument(number, name)),
                None => name,
            }
        };
        if let Node::Typed(_, of) = self.tree.node(function) {
            self.drop_result(of);
        }
        Some(self.add(Node::Local(function, name)))
    }

    // <discriminator> ::= _ <digit> | __ <number> _
    fn discriminator(&mut self) -> Option<()> {
        if !self.eat("_") {
            return Some(());
        }
        let is_long = self.eat("_");
        let number = self.number()?;
        if is_long && number >= 10 { self.expect("_") } else { Some(()) }
    }

    // <closure-type-name> ::= Ul <template-head> <lambda-sig> E [<number>] _
    fn lambda(&mut self) -> Option<Id> {
        self.expect("Ul")?;
        let parameters = self.template_head()?;
        let mut signature = self.parameters()?;
        if parameters.len != 0 {
            signature = self.add(Node::Head { parameters, signature: Some(signature) });
        }
        self.expect("E")?;
        let number = self.compact_number()?;
        Some(self.add(Node::Lambda { signature, number }))
    }

    /// The template parameters that are declared here, maybe none.
    fn template_head(&mut self) -> Option<List> {
        let mut parameters = Vec::new();
        while matches!((self.peek(), self.peek_second()), (b'T', b'y' | b'n' | b't' | b'p')) {
            parameters.push(self.template_parameter_declaration()?);
        }
        Some(self.tree.add_list(&parameters))
    }

    fn template_parameter_declaration(&mut self) -> Option<Id> {
        self.deeper(|this| {
            let node = match (this.bump(), this.bump()) {
                (b'T', b'y') => Node::TypeParameter,
                (b'T', b'n') => Node::ValueParameter(this.of_type()?),
                (b'T', b'p') => Node::PackParameter(this.template_parameter_declaration()?),
                (b'T', b't') => {
                    let parameters = this.template_head().filter(|it| it.len != 0)?;
                    this.expect("E")?;
                    Node::TemplateParameter(this.add(Node::Head { parameters, signature: None }))
                }
                _ => return None,
            };
            Some(this.add(node))
        })
    }

    // <template-param> ::= T_ | T <number> _
    pub(super) fn template_parameter(&mut self) -> Option<Id> {
        self.expect("T")?;
        let number = self.compact_number()?;
        Some(self.add(Node::Parameter(number)))
    }

    // <template-args> ::= I <template-arg>* E
    pub(super) fn template_arguments(&mut self) -> Option<Id> {
        if !self.eat("I") && !self.eat("J") {
            return None;
        }
        self.template_arguments_to_end()
    }

    pub(super) fn template_arguments_to_end(&mut self) -> Option<Id> {
        self.deeper(|this| {
            // Names in the arguments are no name for a constructor behind them.
            let last_name = this.last_name;
            let mut arguments = Vec::new();
            while !this.eat("E") {
                arguments.push(this.template_argument()?);
            }
            this.last_name = last_name;
            let arguments = this.tree.add_list(&arguments);
            Some(this.add(Node::Arguments(arguments)))
        })
    }

    fn template_argument(&mut self) -> Option<Id> {
        match self.peek() {
            b'X' => {
                self.skip(1);
                let argument = self.expression()?;
                self.expect("E")?;
                Some(argument)
            }
            b'L' => self.primary(),
            b'I' | b'J' => self.template_arguments(),
            _ => self.of_type(),
        }
    }

    // <substitution> ::= S_ | S <base 36> _ | S <letter>
    fn substitution(&mut self, prefix: Prefix) -> Option<Id> {
        self.expect("S")?;
        let first = self.peek();
        if first == b'_' || first.is_ascii_digit() || first.is_ascii_uppercase() {
            let digits = self.take_until(b'_')?;
            self.skip(1);
            let idx = if digits.is_empty() {
                0
            } else if digits.bytes().all(|it| it.is_ascii_digit() || it.is_ascii_uppercase()) {
                usize::from_str_radix(digits, 36).ok()?.checked_add(1)?
            } else {
                return None;
            };
            return self.substitutions.get(idx).copied();
        }
        let standard = tables::standard_of(self.bump())?;
        if let Some(last) = standard.last {
            self.last_name = Some(self.add(Node::Standard(last)));
        }
        let names_itself = prefix == Prefix::Yes && matches!(self.peek(), b'C' | b'D');
        let text = if names_itself { standard.full } else { standard.short };
        let name = self.add(Node::Standard(text));
        if self.peek() != b'B' {
            return Some(name);
        }
        let name = self.tags(name)?;
        Some(self.referable(name))
    }

    // <unresolved-name> behind `sr`.
    pub(super) fn unresolved_name(&mut self) -> Option<Id> {
        let is_new = matches!(self.peek(), b'0'..=b'9' | b'a'..=b'z' | b'C' | b'U' | b'L');
        let scope = if is_new && self.old_names == OldNames::No {
            let scope = self.prefix(Referable::No)?;
            self.eat("E");
            scope
        } else {
            self.of_type()?
        };
        let name = self.unqualified_name(Some(scope))?;
        self.with_arguments(name)
    }

    /// `name` with the template arguments that follow, if any.
    pub(super) fn with_arguments(&mut self, name: Id) -> Option<Id> {
        if self.peek() != b'I' {
            return Some(name);
        }
        let arguments = self.template_arguments()?;
        Some(self.add(Node::Template(name, arguments)))
    }
}

/// Whether a substitution is the start of a nested name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prefix {
    Yes,
    No,
}
