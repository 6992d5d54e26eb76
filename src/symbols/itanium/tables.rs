//! The codes of builtin types, operators and standard abbreviations.

/// How a literal of a type is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Literal {
    /// `(type)value`.
    Cast,
    /// The value and a suffix.
    Suffix(&'static str),
    /// `true` and `false`.
    Bool,
    /// `(type)[bits]`.
    Float,
}

/// A type of the language itself.
#[derive(Debug)]
pub(super) struct Builtin {
    pub(super) name: &'static str,
    pub(super) literal: Literal,
}

const fn builtin(name: &'static str, literal: Literal) -> Builtin {
    Builtin { name, literal }
}

pub(super) static VOID: Builtin = builtin("void", Literal::Cast);
pub(super) static NULLPTR: Builtin = builtin("decltype(nullptr)", Literal::Cast);

/// The type of a one-letter code.
pub(super) fn builtin_of(code: u8) -> Option<&'static Builtin> {
    use Literal::Bool;
    use Literal::Cast;
    use Literal::Float;
    use Literal::Suffix;
    static TYPES: [(u8, Builtin); 20] = [
        (b'a', builtin("signed char", Cast)),
        (b'b', builtin("bool", Bool)),
        (b'c', builtin("char", Cast)),
        (b'd', builtin("double", Float)),
        (b'e', builtin("long double", Float)),
        (b'f', builtin("float", Float)),
        (b'g', builtin("__float128", Float)),
        (b'h', builtin("unsigned char", Cast)),
        (b'i', builtin("int", Suffix(""))),
        (b'j', builtin("unsigned int", Suffix("u"))),
        (b'l', builtin("long", Suffix("l"))),
        (b'm', builtin("unsigned long", Suffix("ul"))),
        (b'n', builtin("__int128", Cast)),
        (b'o', builtin("unsigned __int128", Cast)),
        (b's', builtin("short", Cast)),
        (b't', builtin("unsigned short", Cast)),
        (b'w', builtin("wchar_t", Cast)),
        (b'x', builtin("long long", Suffix("ll"))),
        (b'y', builtin("unsigned long long", Suffix("ull"))),
        (b'z', builtin("...", Cast)),
    ];
    if code == b'v' {
        return Some(&VOID);
    }
    TYPES.iter().find(|it| it.0 == code).map(|it| &it.1)
}

/// The type of a code that follows `D`.
pub(super) fn extended_builtin_of(code: u8) -> Option<&'static Builtin> {
    static TYPES: [(u8, Builtin); 7] = [
        (b'f', builtin("decimal32", Literal::Cast)),
        (b'd', builtin("decimal64", Literal::Cast)),
        (b'e', builtin("decimal128", Literal::Cast)),
        (b'h', builtin("half", Literal::Float)),
        (b'u', builtin("char8_t", Literal::Cast)),
        (b's', builtin("char16_t", Literal::Cast)),
        (b'i', builtin("char32_t", Literal::Cast)),
    ];
    if code == b'n' {
        return Some(&NULLPTR);
    }
    TYPES.iter().find(|it| it.0 == code).map(|it| &it.1)
}

/// An operator: its code, how it is written, how many operands it takes in an expression.
#[derive(Debug)]
pub(super) struct Operator {
    pub(super) code: &'static str,
    pub(super) name: &'static str,
    pub(super) n_operands: u32,
}

const fn op(code: &'static str, name: &'static str, n_operands: u32) -> Operator {
    Operator { code, name, n_operands }
}

/// The operator of a two-letter code.
pub(super) fn operator_of(code: &str) -> Option<&'static Operator> {
    static OPERATORS: [Operator; 72] = [
        op("aN", "&=", 2),
        op("aS", "=", 2),
        op("aa", "&&", 2),
        op("ad", "&", 1),
        op("an", "&", 2),
        op("at", "alignof ", 1),
        op("aw", "co_await ", 1),
        op("az", "alignof ", 1),
        op("cc", "const_cast", 2),
        op("cl", "()", 2),
        op("cm", ",", 2),
        op("co", "~", 1),
        op("dV", "/=", 2),
        op("dX", "[...]=", 3),
        op("da", "delete[] ", 1),
        op("dc", "dynamic_cast", 2),
        op("de", "*", 1),
        op("di", "=", 2),
        op("dl", "delete ", 1),
        op("ds", ".*", 2),
        op("dt", ".", 2),
        op("dv", "/", 2),
        op("dx", "]=", 2),
        op("eO", "^=", 2),
        op("eo", "^", 2),
        op("eq", "==", 2),
        op("fL", "...", 3),
        op("fR", "...", 3),
        op("fl", "...", 2),
        op("fr", "...", 2),
        op("ge", ">=", 2),
        op("gs", "::", 1),
        op("gt", ">", 2),
        op("ix", "[]", 2),
        op("lS", "<<=", 2),
        op("le", "<=", 2),
        op("li", "operator\"\" ", 1),
        op("ls", "<<", 2),
        op("lt", "<", 2),
        op("mI", "-=", 2),
        op("mL", "*=", 2),
        op("mi", "-", 2),
        op("ml", "*", 2),
        op("mm", "--", 1),
        op("na", "new[]", 3),
        op("ne", "!=", 2),
        op("ng", "-", 1),
        op("nt", "!", 1),
        op("nw", "new", 3),
        op("nx", "noexcept", 1),
        op("oR", "|=", 2),
        op("oo", "||", 2),
        op("or", "|", 2),
        op("pL", "+=", 2),
        op("pl", "+", 2),
        op("pm", "->*", 2),
        op("pp", "++", 1),
        op("ps", "+", 1),
        op("pt", "->", 2),
        op("qu", "?", 3),
        op("rM", "%=", 2),
        op("rS", ">>=", 2),
        op("rc", "reinterpret_cast", 2),
        op("rm", "%", 2),
        op("rs", ">>", 2),
        op("sP", "sizeof...", 1),
        op("sZ", "sizeof...", 1),
        op("sc", "static_cast", 2),
        op("ss", "<=>", 2),
        op("st", "sizeof ", 1),
        op("sz", "sizeof ", 1),
        op("tw", "throw ", 1),
    ];
    static RETHROW: Operator = op("tr", "throw", 0);
    if code == RETHROW.code {
        return Some(&RETHROW);
    }
    let at = OPERATORS.binary_search_by_key(&code, |it| it.code).ok()?;
    OPERATORS.get(at)
}

/// A name so common that it has a code of its own.
#[derive(Debug)]
pub(super) struct Standard {
    code: u8,
    pub(super) short: &'static str,
    /// As it is written before a constructor or destructor.
    pub(super) full: &'static str,
    /// What a constructor of it is called.
    pub(super) last: Option<&'static str>,
}

/// The name that `S` and a letter stand for.
pub(super) fn standard_of(code: u8) -> Option<&'static Standard> {
    static NAMES: [Standard; 7] = [
        Standard { code: b't', short: "std", full: "std", last: None },
        Standard {
            code: b'a',
            short: "std::allocator",
            full: "std::allocator",
            last: Some("allocator"),
        },
        Standard {
            code: b'b',
            short: "std::basic_string",
            full: "std::basic_string",
            last: Some("basic_string"),
        },
        Standard {
            code: b's',
            short: "std::string",
            full: "std::basic_string<char, std::char_traits<char>, std::allocator<char> >",
            last: Some("basic_string"),
        },
        Standard {
            code: b'i',
            short: "std::istream",
            full: "std::basic_istream<char, std::char_traits<char> >",
            last: Some("basic_istream"),
        },
        Standard {
            code: b'o',
            short: "std::ostream",
            full: "std::basic_ostream<char, std::char_traits<char> >",
            last: Some("basic_ostream"),
        },
        Standard {
            code: b'd',
            short: "std::iostream",
            full: "std::basic_iostream<char, std::char_traits<char> >",
            last: Some("basic_iostream"),
        },
    ];
    NAMES.iter().find(|it| it.code == code)
}
