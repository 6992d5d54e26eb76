//! From a tree to text.
//!
//! A type is written in two parts with a name or nothing between them: `void (*` and `)(int)`.
//! What `T_` stands for depends on where it is written: on the innermost template whose function is
//! being written, so these are kept as a chain of [`Frame`]s.

mod operands;

use super::MAX_DEPTH;
use super::MAX_STEPS;
use super::tree::Cv;
use super::tree::FunctionQualifier;
use super::tree::Id;
use super::tree::List;
use super::tree::Node;
use super::tree::Tree;

/// The text of `root`, or `None` if it makes no sense or takes more than `max_bytes`.
pub(super) fn write(tree: &Tree<'_>, root: Id, max_bytes: usize) -> Option<String> {
    let mut writer = Writer {
        tree,
        out: String::new(),
        last: 0,
        max_bytes,
        frames: Vec::new(),
        frame: None,
        pack_idx: Some(0),
        n_lambda_parameters: 0,
        template: None,
        captured: Vec::new(),
        path: Vec::new(),
        depth_of: vec![0; tree.n_nodes()],
        n_steps: 0,
    };
    writer.whole(root)?;
    Some(writer.out)
}

/// Where the arguments for `T_`, `T0_`, ... come from.
#[derive(Clone, Copy, Debug)]
struct Frame {
    /// A template with its arguments, or the head of a lambda; none for a lambda without one.
    of: Option<Id>,
    /// Where those of the arguments themselves come from.
    outer: Option<usize>,
}

/// Whether something is written behind the name of what has a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Nothing.
    Plain,
    /// The parameters: a pointer to it needs parentheses.
    Function,
    /// The length: likewise.
    Array,
    /// Something, and the parentheses are there.
    Closed,
}

/// Type qualifiers that are written further out, so that they are not written twice.
type Outer = [bool; 3];

const NO_OUTER: Outer = [false; 3];

struct Writer<'t> {
    tree: &'t Tree<'t>,
    out: String,
    /// The last byte that was written, even if it was taken back.
    last: u8,
    max_bytes: usize,
    frames: Vec<Frame>,
    frame: Option<usize>,
    /// Which element of a pack is written; `None` for all of it.
    pack_idx: Option<usize>,
    n_lambda_parameters: u32,
    /// The template that is being written, for the conversion operators in it.
    template: Option<Id>,
    /// Parameters behind references, with the frame that they were first met in.
    captured: Vec<(Id, Option<usize>)>,
    /// What is being written, outermost first.
    path: Vec<Id>,
    /// How often each node is in `path`.
    depth_of: Vec<u8>,
    n_steps: u32,
}

impl Writer<'_> {
    fn text(&mut self, text: &str) -> Option<()> {
        let room = self.max_bytes.checked_sub(self.out.len())?;
        (text.len() <= room).then_some(())?;
        self.out.push_str(text);
        if let Some(&last) = text.as_bytes().last() {
            self.last = last;
        }
        Some(())
    }

    fn number(&mut self, number: u32) -> Option<()> {
        self.text(&number.to_string())
    }

    /// Runs `write` for `id`, one level deeper.
    fn enter(&mut self, id: Id, write: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        self.step()?;
        // A node within itself within itself has no end.
        let depth = self.depth_of.get_mut(id.0 as usize)?;
        *depth = depth.checked_add(1).filter(|&it| it <= 4)?;
        self.path.push(id);
        let done = if self.path.len() > MAX_DEPTH as usize { None } else { write(self) };
        self.path.pop();
        if let Some(depth) = self.depth_of.get_mut(id.0 as usize) {
            *depth = depth.saturating_sub(1);
        }
        done
    }

    fn step(&mut self) -> Option<()> {
        self.n_steps = self.n_steps.checked_add(1).filter(|&it| it <= MAX_STEPS)?;
        Some(())
    }

    /// Runs `write` with the template parameters of another place.
    fn in_frame<T>(&mut self, frame: Option<usize>, write: impl FnOnce(&mut Self) -> T) -> T {
        let frame = std::mem::replace(&mut self.frame, frame);
        let done = write(self);
        self.frame = frame;
        done
    }

    /// The frame that takes parameters from `of` and is otherwise as the present one.
    fn push_frame(&mut self, of: Option<Id>) -> Option<usize> {
        self.frames.push(Frame { of, outer: self.frame });
        self.frames.len().checked_sub(1)
    }

    /// All of a type, a name or an expression.
    fn whole(&mut self, id: Id) -> Option<()> {
        self.left(id, NO_OUTER)?;
        self.right(id)
    }

    /// What stands before the name in a declaration of type `id`; all of what is no type.
    fn left(&mut self, id: Id, outer: Outer) -> Option<()> {
        self.enter(id, |this| match this.tree.node(id) {
            Node::Qualifier(cv, of) => this.left_qualified(cv, of, outer),
            Node::Pointer(of) => this.left_reference(of, "*"),
            Node::Reference(_) | Node::RvalueReference(_) => {
                let (sign, of, frame) = this.reference(id)?;
                this.in_frame(frame, |this| this.left_reference(of, sign))
            }
            Node::MemberPointer { class, member } => {
                this.left(member, NO_OUTER)?;
                this.open(member, Space::Always)?;
                if this.last != b'(' {
                    this.text(" ")?;
                }
                this.whole(class)?;
                this.text("::*")
            }
            Node::Complex(of) => this.left_suffixed(of, " _Complex"),
            Node::Imaginary(of) => this.left_suffixed(of, " _Imaginary"),
            Node::VendorQualifier(of, qualifier) => {
                this.left_suffixed(of, " ")?;
                this.whole(qualifier)
            }
            Node::Vector { length, element } => {
                this.left_suffixed(element, " __vector(")?;
                this.whole(length)?;
                this.text(")")
            }
            Node::Function { result, .. } => {
                let Some(result) = result else { return Some(()) };
                this.left(result, NO_OUTER)?;
                if this.shape(result)? == Shape::Plain { this.text(" ") } else { Some(()) }
            }
            Node::FunctionQualifier(qualifier, of) => {
                this.left(of, NO_OUTER)?;
                match this.shape(of)? {
                    // Behind the parameters.
                    Shape::Function => Some(()),
                    _ => this.qualifier(qualifier),
                }
            }
            Node::Array { element, .. } => this.left(element, outer),
            Node::Parameter(number) if this.n_lambda_parameters == 0 => {
                let (argument, frame) = this.argument(number)?;
                this.in_frame(frame, |this| this.left(argument, outer))
            }
            _ => this.other(id),
        })
    }

    /// What stands behind the name in a declaration of type `id`.
    fn right(&mut self, id: Id) -> Option<()> {
        self.enter(id, |this| match this.tree.node(id) {
            Node::Qualifier(_, of) => {
                if this.shape(of)? == Shape::Function {
                    this.text(")")?;
                }
                this.right(of)
            }
            Node::Pointer(of)
            | Node::VendorQualifier(of, _)
            | Node::Complex(of)
            | Node::Imaginary(of) => this.right_closing(of),
            Node::Reference(_) | Node::RvalueReference(_) => {
                let (_, of, frame) = this.reference(id)?;
                this.in_frame(frame, |this| this.right_closing(of))
            }
            Node::MemberPointer { member: of, .. } | Node::Vector { element: of, .. } => {
                this.right_closing(of)
            }
            Node::Function { .. } | Node::FunctionQualifier(..) => this.right_function(id),
            Node::Array { length, element } => {
                this.text(if this.last == b']' && this.is_in_array() { "[" } else { " [" })?;
                if let Some(length) = length {
                    this.whole(length)?;
                }
                this.text("]")?;
                this.right(element)
            }
            Node::Parameter(number) if this.n_lambda_parameters == 0 => {
                let (argument, frame) = this.argument(number)?;
                this.in_frame(frame, |this| this.right(argument))
            }
            _ => Some(()),
        })
    }

    /// Whether the array being written is the element of another.
    fn is_in_array(&self) -> bool {
        let mut outer = self.path.iter().rev().skip(1);
        outer
            .find(|&&it| !matches!(self.tree.node(it), Node::Qualifier(..) | Node::Parameter(_)))
            .is_some_and(|&it| matches!(self.tree.node(it), Node::Array { .. }))
    }

    fn left_qualified(&mut self, cv: Cv, of: Id, mut outer: Outer) -> Option<()> {
        let (slot, text) = match cv {
            Cv::Restrict => (0, " restrict"),
            Cv::Volatile => (1, " volatile"),
            Cv::Const => (2, " const"),
        };
        let seen = outer.get_mut(slot)?;
        if std::mem::replace(seen, true) {
            return self.left(of, outer);
        }
        self.left(of, outer)?;
        if self.shape(of)? == Shape::Function {
            self.open(of, Space::Always)?;
        }
        self.text(text)
    }

    fn left_suffixed(&mut self, of: Id, suffix: &str) -> Option<()> {
        self.left(of, NO_OUTER)?;
        self.open(of, Space::Always)?;
        self.text(suffix)
    }

    fn left_reference(&mut self, of: Id, sign: &str) -> Option<()> {
        self.left(of, NO_OUTER)?;
        self.open(of, Space::IfApart)?;
        self.text(sign)
    }

    /// Opens the parentheses between a function or an array and what points to it.
    fn open(&mut self, of: Id, space: Space) -> Option<()> {
        match self.shape(of)? {
            Shape::Plain | Shape::Closed => Some(()),
            Shape::Array => self.text(" ("),
            Shape::Function => {
                let is_apart = !matches!(self.last, b'(' | b'*');
                if (space == Space::Always || is_apart) && self.last != b' ' {
                    self.text(" ")?;
                }
                self.text("(")
            }
        }
    }

    fn right_closing(&mut self, of: Id) -> Option<()> {
        if matches!(self.shape(of)?, Shape::Function | Shape::Array) {
            self.text(")")?;
        }
        self.right(of)
    }

    fn right_function(&mut self, id: Id) -> Option<()> {
        let mut qualifiers = Vec::new();
        let mut of = id;
        while let Node::FunctionQualifier(qualifier, inner) = self.tree.node(of) {
            self.step()?;
            qualifiers.push(qualifier);
            of = inner;
        }
        let Node::Function { result, parameters } = self.tree.node(of) else {
            return self.right(of);
        };
        self.text("(")?;
        self.whole(parameters)?;
        self.text(")")?;
        for qualifier in qualifiers.into_iter().rev() {
            self.qualifier(qualifier)?;
        }
        result.map_or(Some(()), |result| self.right(result))
    }

    fn qualifier(&mut self, qualifier: FunctionQualifier) -> Option<()> {
        match qualifier {
            FunctionQualifier::Cv(Cv::Restrict) => self.text(" restrict"),
            FunctionQualifier::Cv(Cv::Volatile) => self.text(" volatile"),
            FunctionQualifier::Cv(Cv::Const) => self.text(" const"),
            FunctionQualifier::LvalueThis => self.text(" &"),
            FunctionQualifier::RvalueThis => self.text(" &&"),
            FunctionQualifier::TransactionSafe => self.text(" transaction_safe"),
            FunctionQualifier::Noexcept(None) => self.text(" noexcept"),
            FunctionQualifier::Noexcept(Some(condition)) => {
                self.text(" noexcept(")?;
                self.whole(condition)?;
                self.text(")")
            }
            FunctionQualifier::Throw(types) => {
                self.text(" throw(")?;
                self.whole(types)?;
                self.text(")")
            }
        }
    }

    fn shape(&mut self, id: Id) -> Option<Shape> {
        self.step()?;
        match self.tree.node(id) {
            Node::Function { .. } => Some(Shape::Function),
            Node::Array { .. } => Some(Shape::Array),
            Node::Qualifier(_, of) => match self.shape(of)? {
                Shape::Function => Some(Shape::Closed),
                shape => Some(shape),
            },
            Node::FunctionQualifier(_, of) => self.shape(of),
            Node::Pointer(of)
            | Node::VendorQualifier(of, _)
            | Node::Complex(of)
            | Node::Imaginary(of)
            | Node::MemberPointer { member: of, .. }
            | Node::Vector { element: of, .. } => self.shape_around(of),
            Node::Reference(_) | Node::RvalueReference(_) => {
                let (_, of, frame) = self.reference(id)?;
                self.in_frame(frame, |this| this.shape_around(of))
            }
            Node::Parameter(number) if self.n_lambda_parameters == 0 => {
                let (argument, frame) = self.argument(number)?;
                self.in_frame(frame, |this| this.shape(argument))
            }
            _ => Some(Shape::Plain),
        }
    }

    fn shape_around(&mut self, of: Id) -> Option<Shape> {
        Some(if self.shape(of)? == Shape::Plain { Shape::Plain } else { Shape::Closed })
    }

    /// What `T_` and the like stand for here, and where its own parameters come from.
    fn argument(&mut self, number: u32) -> Option<(Id, Option<usize>)> {
        self.step()?;
        let frame = *self.frames.get(self.frame?)?;
        let Node::Template(_, arguments) = self.tree.node(frame.of?) else { return None };
        let Node::Arguments(arguments) = self.tree.node(arguments) else { return None };
        let argument = *self.tree.list(arguments).get(number as usize)?;
        let argument = match (self.tree.node(argument), self.pack_idx) {
            (Node::Arguments(pack), Some(idx)) => *self.tree.list(pack).get(idx)?,
            _ => argument,
        };
        Some((argument, frame.outer))
    }

    /// The sign of the reference `id`, what it refers to, and where the parameters of that come
    /// from, `&` to `&&` being `&`.
    fn reference(&mut self, id: Id) -> Option<(&'static str, Id, Option<usize>)> {
        let is_rvalue = matches!(self.tree.node(id), Node::RvalueReference(_));
        let (Node::Reference(of) | Node::RvalueReference(of)) = self.tree.node(id) else {
            return None;
        };
        let mut frame = self.frame;
        let mut target = of;
        let mut target_frame = frame;
        if let Node::Parameter(number) = self.tree.node(of)
            && self.n_lambda_parameters == 0
        {
            // A substitution may bring a parameter to where other templates are around it.
            match self.captured.iter().find(|it| it.0 == of) {
                None => self.captured.push((of, frame)),
                Some(&(_, first)) => {
                    let above = self.path.split_last().map_or(&[][..], |it| it.1);
                    if !self.path.contains(&of) && !above.contains(&id) {
                        frame = first;
                    }
                }
            }
            (target, target_frame) = self.in_frame(frame, |this| this.argument(number))?;
        }
        let sign = if is_rvalue { "&&" } else { "&" };
        Some(match self.tree.node(target) {
            Node::Reference(inner) => ("&", inner, target_frame),
            Node::RvalueReference(inner) => (sign, inner, target_frame),
            _ => (sign, of, frame),
        })
    }

    /// What is no type that is written around a name.
    fn other(&mut self, id: Id) -> Option<()> {
        match self.tree.node(id) {
            Node::Name(name) | Node::Standard(name) => self.text(name),
            Node::Tagged(name, tag) => {
                self.whole(name)?;
                self.text("[abi:")?;
                self.whole(tag)?;
                self.text("]")
            }
            Node::Qualified(scope, name) | Node::Local(scope, name) => {
                self.whole(scope)?;
                self.text("::")?;
                self.whole(name)
            }
            Node::DefaultArgument(number, name) => {
                self.text("{default arg#")?;
                self.number(number.checked_add(1)?)?;
                self.text("}::")?;
                self.whole(name)
            }
            Node::Constructor(of) | Node::ValueParameter(of) | Node::Vendor(of) => self.whole(of),
            Node::Destructor(of) => {
                self.text("~")?;
                self.whole(of)
            }
            Node::Friend(name) => {
                self.whole(name)?;
                self.text("[friend]")
            }
            Node::Bindings(names) => {
                self.text("[")?;
                self.separated(names)?;
                self.text("]")
            }
            Node::Lambda { signature, number } => self.lambda(signature, number),
            Node::Unnamed(number) => {
                self.text("{unnamed type#")?;
                self.number(number.checked_add(1)?)?;
                self.text("}")
            }
            Node::Operator(operator) => {
                let is_word = operator.name.starts_with(|it: char| it.is_ascii_lowercase());
                self.text(if is_word { "operator " } else { "operator" })?;
                self.text(operator.name.strip_suffix(' ').unwrap_or(operator.name))
            }
            Node::VendorOperator { name, .. } => {
                self.text("operator ")?;
                self.whole(name)
            }
            Node::Conversion(of) => {
                self.text("operator ")?;
                // Its type has the parameters of the template around it.
                let frame = match self.template {
                    Some(template) => self.push_frame(Some(template)),
                    None => self.frame,
                };
                self.in_frame(frame, |this| this.whole(of))
            }
            Node::Template(name, arguments) => self.template(id, name, arguments),
            Node::Typed(name, of) => self.typed(name, of),
            Node::Clone(name, suffix) => {
                self.whole(name)?;
                self.text(" [clone ")?;
                self.text(suffix)?;
                self.text("]")
            }
            Node::Special(what, of) => {
                self.text(what)?;
                self.whole(of)
            }
            Node::ConstructionVtable { base, derived } => {
                self.text("construction vtable for ")?;
                self.whole(base)?;
                self.text("-in-")?;
                self.whole(derived)
            }
            Node::ReferenceTemporary(of, number) => {
                self.text("reference temporary #")?;
                self.number(number)?;
                self.text(" for ")?;
                self.whole(of)
            }
            Node::Parameter(number) => self.lambda_parameter(number),
            Node::Arguments(list) => self.arguments(list),
            Node::TypeParameter => self.text("typename"),
            Node::TemplateParameter(head) => {
                self.text("template")?;
                self.whole(head)?;
                self.text(" class")
            }
            Node::PackParameter(of) => {
                self.whole(of)?;
                self.text("...")
            }
            Node::Head { parameters, .. } => {
                self.text("<")?;
                self.separated(parameters)?;
                self.text(">")
            }
            Node::Builtin(builtin) => self.text(builtin.name),
            Node::Float(n_bits, suffix) => {
                self.text("_Float")?;
                self.number(n_bits)?;
                self.text(suffix)
            }
            _ => self.operand(id),
        }
    }

    fn separated(&mut self, list: List) -> Option<()> {
        let tree = self.tree;
        for (idx, &item) in tree.list(list).iter().enumerate() {
            if idx != 0 {
                self.text(", ")?;
            }
            self.whole(item)?;
        }
        Some(())
    }

    /// Like [`Writer::separated`], but for the comma before what turns out to be nothing: the rest
    /// may be empty packs.
    fn arguments(&mut self, list: List) -> Option<()> {
        let tree = self.tree;
        let mut commas = Vec::new();
        for (idx, &item) in tree.list(list).iter().enumerate() {
            if idx != 0 {
                self.text(", ")?;
                commas.push(self.out.len());
            }
            self.whole(item)?;
        }
        while commas.pop().is_some_and(|end| end == self.out.len()) {
            self.out.truncate(self.out.len().saturating_sub(2));
        }
        Some(())
    }

    fn template(&mut self, id: Id, name: Id, arguments: Id) -> Option<()> {
        let template = self.template.replace(id);
        self.whole(name)?;
        if self.last == b'<' {
            self.text(" ")?;
        }
        self.text("<")?;
        self.whole(arguments)?;
        if self.last == b'>' {
            self.text(" ")?;
        }
        self.text(">")?;
        self.template = template;
        Some(())
    }

    /// A function: what its type puts around its name.
    fn typed(&mut self, name: Id, of: Id) -> Option<()> {
        let mut qualifiers = Vec::new();
        let mut name = name;
        while let Node::FunctionQualifier(qualifier, inner) = self.tree.node(name) {
            qualifiers.push(qualifier);
            name = inner;
        }
        // A class within a function hands them through.
        let mut template = name;
        let mut local = None;
        if let Node::Local(scope, mut inner) = self.tree.node(name) {
            let mut default = None;
            if let Node::DefaultArgument(number, of) = self.tree.node(inner) {
                (default, inner) = (Some(number), of);
            }
            while let Node::FunctionQualifier(qualifier, of) = self.tree.node(inner) {
                qualifiers.push(qualifier);
                inner = of;
            }
            (template, local) = (inner, Some((scope, default)));
        }
        let frame = match self.tree.node(template) {
            Node::Template(..) => self.push_frame(Some(template)),
            _ => self.frame,
        };
        let Node::Function { result, parameters } = self.tree.node(of) else { return None };
        self.in_frame(frame, |this| this.left(of, NO_OUTER))?;
        match local {
            None => self.whole(name)?,
            Some((scope, default)) => {
                self.whole(scope)?;
                self.text("::")?;
                if let Some(number) = default {
                    self.text("{default arg#")?;
                    self.number(number.checked_add(1)?)?;
                    self.text("}::")?;
                }
                self.whole(template)?;
            }
        }
        self.text("(")?;
        self.in_frame(frame, |this| this.whole(parameters))?;
        self.text(")")?;
        for qualifier in qualifiers.into_iter().rev() {
            self.qualifier(qualifier)?;
        }
        match result {
            Some(result) => self.in_frame(frame, |this| this.right(result)),
            None => Some(()),
        }
    }

    fn lambda(&mut self, signature: Id, number: u32) -> Option<()> {
        self.text("{lambda")?;
        let n_outer = std::mem::take(&mut self.n_lambda_parameters);
        let mut parameters = signature;
        let mut head = None;
        if let Node::Head { parameters: declared, signature: Some(rest) } =
            self.tree.node(signature)
        {
            (parameters, head) = (rest, Some((signature, declared)));
        }
        let frame = self.push_frame(head.map(|it| it.0));
        self.in_frame(frame, |this| {
            if let Some((_, declared)) = head {
                this.lambda_head(declared)?;
            }
            this.n_lambda_parameters = this.n_lambda_parameters.checked_add(1)?;
            this.text("(")?;
            this.whole(parameters)
        })?;
        self.n_lambda_parameters = n_outer;
        self.text(")#")?;
        self.number(number.checked_add(1)?)?;
        self.text("}")
    }

    fn lambda_head(&mut self, declared: List) -> Option<()> {
        self.text("<")?;
        let tree = self.tree;
        for (idx, &parameter) in (0_u32..).zip(tree.list(declared)) {
            if idx != 0 {
                self.text(", ")?;
            }
            self.n_lambda_parameters = self.n_lambda_parameters.checked_add(1)?;
            self.whole(parameter)?;
            self.text(" ")?;
            self.lambda_parameter_name(parameter, idx)?;
        }
        self.text(">")
    }

    fn lambda_parameter_name(&mut self, parameter: Id, number: u32) -> Option<()> {
        let of = match self.tree.node(parameter) {
            Node::PackParameter(of) => of,
            _ => parameter,
        };
        self.text(match self.tree.node(of) {
            Node::TypeParameter => "$T",
            Node::ValueParameter(_) => "$N",
            Node::TemplateParameter(_) => "$TT",
            _ => return None,
        })?;
        self.number(number)
    }

    /// `T_` in the parameters of a lambda: one of its head, or what `auto` stands for.
    fn lambda_parameter(&mut self, number: u32) -> Option<()> {
        let after = number.checked_add(1)?;
        if self.n_lambda_parameters > after {
            let head = self.frames.get(self.frame?)?.of?;
            let Node::Head { parameters, .. } = self.tree.node(head) else { return None };
            let parameter = *self.tree.list(parameters).get(number as usize)?;
            return self.lambda_parameter_name(parameter, number);
        }
        self.text("auto:")?;
        self.number(after)
    }
}

/// Whether there is a space before an opening parenthesis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Space {
    Always,
    /// Unless another parenthesis or a `*` is there.
    IfApart,
}
