//! From text to an expression.

use super::COMM_LEN;
use super::Expr;
use super::Operator;
use super::Pattern;
use super::Program;
use super::Term;
use super::Test;
use super::terms;
use super::terms::Known;
use crate::events::column;
use crate::events::filter::BadFilter;
use crate::events::names;

/// How deep parentheses may nest.
const DEEPEST: u32 = 64;

/// The longest first.
const OPERATORS: [(&str, Operator); 7] = [
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    (">=", Operator::GreaterOrEqual),
    ("<=", Operator::LessOrEqual),
    (">", Operator::Greater),
    ("<", Operator::Less),
    ("&", Operator::AnyBit),
];

/// What is no number of a sample.
const OTHERS: [&str; 4] = ["comm", "bpf_prog", "kernel", "user"];

/// The expression of `filter`. `cgroup` knows the ids of cgroups by path, or says why not.
///
/// # Errors
///
/// [`BadFilter`] with the column.
pub fn parse(
    filter: &str,
    cgroup: &dyn Fn(&str) -> Result<u64, String>,
) -> Result<Expr, BadFilter> {
    let mut parser = Parser { filter, at: 0, cgroup };
    let expr = parser.all(0)?;
    match parser.peek() {
        None => Ok(expr),
        Some(')') => Err(parser.bad("`)` closes nothing")),
        Some(_) => Err(parser.bad("`,` or `||` is missing")),
    }
}

struct Parser<'a> {
    filter: &'a str,
    at: usize,
    cgroup: &'a dyn Fn(&str) -> Result<u64, String>,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        self.filter.get(self.at..).unwrap_or_default()
    }

    /// The next character that is no space.
    fn peek(&mut self) -> Option<char> {
        self.at += self.rest().len() - self.rest().trim_start().len();
        self.rest().chars().next()
    }

    fn eat(&mut self, text: &str) -> bool {
        self.peek();
        let is_there = self.rest().starts_with(text);
        self.at += if is_there { text.len() } else { 0 };
        is_there
    }

    fn bad(&self, what: impl Into<String>) -> BadFilter {
        let column = column(self.filter, self.at);
        BadFilter { filter: self.filter.to_owned(), what: what.into(), column, nearest: None }
    }

    /// What commas separate.
    fn all(&mut self, depth: u32) -> Result<Expr, BadFilter> {
        let mut parts = vec![self.alternatives(depth)?];
        while self.eat(",") {
            parts.push(self.alternatives(depth)?);
        }
        Ok(one_or(parts, Expr::All))
    }

    /// What `||` separates, or `&&`.
    fn alternatives(&mut self, depth: u32) -> Result<Expr, BadFilter> {
        let mut parts = vec![self.part(depth)?];
        let mut joined_by = None;
        loop {
            self.peek();
            let Some(joint) = ["||", "&&"].into_iter().find(|it| self.rest().starts_with(it))
            else {
                break;
            };
            if joined_by.is_some_and(|it| it != joint) {
                return Err(self.bad("`&&` and `||` side by side need parentheses"));
            }
            joined_by = Some(joint);
            self.at += joint.len();
            parts.push(self.part(depth)?);
        }
        Ok(one_or(parts, if joined_by == Some("&&") { Expr::All } else { Expr::Any }))
    }

    fn part(&mut self, depth: u32) -> Result<Expr, BadFilter> {
        if DEEPEST < depth {
            return Err(self.bad("parentheses nest too deep"));
        }
        match self.peek() {
            None => Err(self.bad("a term is missing")),
            Some('!') => {
                self.at += 1;
                let begins_at = self.at;
                let part = self.part(depth + 1)?;
                let is_compared = self.is_compared(begins_at);
                if is_compared {
                    self.at = begins_at;
                    return Err(self.bad("a comparison after `!` needs parentheses"));
                }
                Ok(Expr::Not(Box::new(part)))
            }
            Some('(') => {
                let opened_at = self.at;
                self.at += 1;
                let inner = self.all(depth + 1)?;
                if self.eat(")") {
                    return Ok(inner);
                }
                if self.peek().is_some() {
                    return Err(self.bad("`,`, `||` or `)` is missing"));
                }
                self.at = opened_at;
                Err(self.bad("`(` is never closed"))
            }
            Some(_) => self.test(),
        }
    }

    /// Whether what was read since `begins_at` is a comparison that stands bare: to C, `!a == b`
    /// is something else.
    fn is_compared(&self, begins_at: usize) -> bool {
        let read = self.filter.get(begins_at..self.at).unwrap_or_default().trim_start();
        let name = word(read);
        !name.is_empty() && name.len() < read.trim_end().len()
    }

    fn test(&mut self) -> Result<Expr, BadFilter> {
        let name = word(self.rest());
        if name.is_empty() {
            return Err(self.bad("a term is missing"));
        }
        let known = terms::ALL.iter().find(|it| it.name == name);
        if known.is_none() && !OTHERS.contains(&name) {
            let all = terms::ALL.iter().map(|it| it.name).chain(OTHERS);
            let nearest = names::nearest_of(name, all);
            return Err(BadFilter { nearest, ..self.bad(format!("no term is called `{name}`")) });
        }
        self.at += name.len();
        match (name, known) {
            ("kernel", _) => Ok(Expr::Test(Test::Kernel)),
            ("user", _) => Ok(Expr::Test(Test::User)),
            (_, Some(known)) => self.number(known).map(Expr::Test),
            ("comm", _) => self.comm(),
            _ => self.program(),
        }
    }

    /// The operator after `name`.
    fn operator(&mut self, name: &str) -> Result<Operator, BadFilter> {
        self.peek();
        let rest = self.rest();
        // `weight & 1`, but not `weight && pid`.
        let is_it = |it: &&(&str, Operator)| !rest.starts_with("&&") && rest.starts_with(it.0);
        let Some((text, operator)) = OPERATORS.iter().find(is_it) else {
            let what = format!("`{name}` is compared by one of == != > >= < <= &");
            return Err(self.bad(what));
        };
        self.at += text.len();
        Ok(*operator)
    }

    fn number(&mut self, known: &Known) -> Result<Test, BadFilter> {
        let (name, term) = (known.name, known.term);
        let begins_at = self.at;
        let operator = self.operator(name)?;
        let is_equality = matches!(operator, Operator::Equal | Operator::NotEqual);
        if term == Term::Cgroup && !is_equality {
            self.at = begins_at;
            self.peek();
            return Err(self.bad("`cgroup` is compared by == or !="));
        }
        let value = match self.peek() {
            None => return Err(self.bad(format!("a value for `{name}` is missing"))),
            Some(first) if first.is_ascii_digit() => self.digits(name)?,
            Some(_) if term == Term::Cgroup => {
                let at = self.at;
                let path = self.text(name)?;
                (self.cgroup)(&path).map_err(|why| {
                    self.at = at;
                    self.bad(why)
                })?
            }
            Some(_) => self.word_of(known)?,
        };
        Ok(Test::Number { term, operator, value })
    }

    /// Decimal digits, or hexadecimal ones after `0x`: no octal ones, as with perf.
    fn digits(&mut self, name: &str) -> Result<u64, BadFilter> {
        let word = word(self.rest());
        let hex = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
        let number = match hex {
            // `from_str_radix()` would take a sign.
            Some(digits) if !digits.is_empty() => u64::from_str_radix(digits, 16),
            _ => word.parse(),
        };
        let Ok(number) = number else {
            return Err(self.bad(format!("`{word}` is no number of 64 bits for `{name}`")));
        };
        self.at += word.len();
        Ok(number)
    }

    fn word_of(&mut self, known: &Known) -> Result<u64, BadFilter> {
        let word = word(self.rest());
        if let Some((_, value)) = known.words.iter().find(|it| it.0 == word) {
            self.at += word.len();
            return Ok(*value);
        }
        let name = known.name;
        if known.words.is_empty() {
            return Err(self.bad(format!("`{name}` is compared with a number")));
        }
        let words: Vec<&str> = known.words.iter().map(|it| it.0).collect();
        let what = format!("`{name}` is compared with a number or one of {}", words.join(" "));
        Err(self.bad(what))
    }

    /// Text, in quotes or up to what may follow it.
    fn text(&mut self, name: &str) -> Result<String, BadFilter> {
        let Some(first) = self.peek() else {
            return Err(self.bad(format!("a value for `{name}` is missing")));
        };
        if matches!(first, '"' | '\'') {
            let rest = self.rest().get(1..).unwrap_or_default();
            let Some(len) = rest.find(first) else {
                return Err(self.bad(format!("`{first}` is never closed")));
            };
            self.at += len + 2;
            return Ok(rest.get(..len).unwrap_or_default().to_owned());
        }
        let rest = self.rest();
        let ends = |it: char| it.is_whitespace() || matches!(it, ',' | '(' | ')' | '|' | '&' | '=');
        let text = rest.get(..rest.find(ends).unwrap_or(rest.len())).unwrap_or_default();
        if text.is_empty() {
            return Err(self.bad(format!("a value for `{name}` is missing")));
        }
        self.at += text.len();
        Ok(text.to_owned())
    }

    fn comm(&mut self) -> Result<Expr, BadFilter> {
        let operator = ["==", "!=", "~"].into_iter().find(|it| self.eat(it));
        let Some(operator) = operator else {
            return Err(self.bad("`comm` is compared by == != or ~"));
        };
        self.peek();
        let at = self.at;
        let text = self.text("comm")?;
        let pattern = pattern(&text, operator == "~").map_err(|what| {
            self.at = at;
            self.bad(what)
        })?;
        Ok(negated_if(operator == "!=", Test::Comm(pattern)))
    }

    fn program(&mut self) -> Result<Expr, BadFilter> {
        let Some(operator) = ["==", "!="].into_iter().find(|it| self.eat(it)) else {
            return match self.peek() {
                None | Some(',' | ')' | '|') => Ok(Expr::Test(Test::Program(Program::Any))),
                Some('&') if self.rest().starts_with("&&") => {
                    Ok(Expr::Test(Test::Program(Program::Any)))
                }
                Some(_) => Err(self.bad("`bpf_prog` stands alone or is compared by == or !=")),
            };
        };
        let program = match self.peek() {
            Some(first) if first.is_ascii_digit() => {
                let at = self.at;
                let id = self.digits("bpf_prog")?;
                Program::Id(u32::try_from(id).map_err(|_| {
                    self.at = at;
                    self.bad(format!("`{id}` is no id of a BPF program"))
                })?)
            }
            _ => Program::Name(self.text("bpf_prog")?),
        };
        Ok(negated_if(operator == "!=", Test::Program(program)))
    }
}

/// The only one of `parts`, or what `make` makes of several.
fn one_or(mut parts: Vec<Expr>, make: fn(Vec<Expr>) -> Expr) -> Expr {
    match (parts.pop(), parts.is_empty()) {
        (Some(only), true) => only,
        (last, _) => {
            parts.extend(last);
            make(parts)
        }
    }
}

/// The name at the beginning of `text`; empty if there is none.
fn word(text: &str) -> &str {
    let len = text.find(|it: char| !it.is_ascii_alphanumeric() && it != '_').unwrap_or(text.len());
    text.get(..len).unwrap_or_default()
}

/// What a name is compared with; in a glob `?` is any byte, and `*` at the end any more of them.
fn pattern(text: &str, is_glob: bool) -> Result<Pattern, String> {
    let (text, is_open) = match text.strip_suffix('*') {
        Some(text) if is_glob => (text, true),
        _ => (text, false),
    };
    if is_glob && text.contains(['*', '[', '\\']) {
        return Err("of a pattern `*` is the end, and only `?` stands elsewhere".to_owned());
    }
    if COMM_LEN <= text.len() {
        return Err(format!("the kernel keeps {} bytes of a thread's name", COMM_LEN - 1));
    }
    let is_any = |byte: u8| is_glob && byte == b'?';
    let mut pattern = Pattern { bytes: [0; COMM_LEN], mask: [0; COMM_LEN], len: text.len() };
    for ((place, mask), byte) in pattern.bytes.iter_mut().zip(&mut pattern.mask).zip(text.bytes()) {
        (*place, *mask) = if is_any(byte) { (0, 0) } else { (byte, 0xff) };
    }
    if let (false, Some(end)) = (is_open, pattern.mask.get_mut(text.len())) {
        // The zero that ends the name.
        *end = 0xff;
    }
    Ok(pattern)
}

fn negated_if(is_negated: bool, test: Test) -> Expr {
    let test = Expr::Test(test);
    if is_negated { Expr::Not(Box::new(test)) } else { test }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cgroup(path: &str) -> Result<u64, String> {
        match path {
            "/a/b" => Ok(77),
            _ => Err(format!("no cgroup is called `{path}`")),
        }
    }

    fn number(term: Term, operator: Operator, value: u64) -> Expr {
        Expr::Test(Test::Number { term, operator, value })
    }

    #[track_caller]
    fn check(filter: &str, want: &Expr) {
        assert_eq!(parse(filter, &cgroup).as_ref(), Ok(want), "{filter}");
    }

    #[track_caller]
    fn refused(filter: &str, want: &str) {
        let error = parse(filter, &cgroup).unwrap_err();
        assert_eq!(error.to_string(), format!("{want} of `{filter}`"));
    }

    #[test]
    fn each_operator_compares_a_term_with_a_number() {
        let operators = [
            ("==", Operator::Equal),
            ("!=", Operator::NotEqual),
            (">", Operator::Greater),
            (">=", Operator::GreaterOrEqual),
            ("<", Operator::Less),
            ("<=", Operator::LessOrEqual),
            ("&", Operator::AnyBit),
        ];
        for (text, operator) in operators {
            check(&format!("period{text}10"), &number(Term::Period, operator, 10));
            check(&format!(" ip {text} 0xFf "), &number(Term::Ip, operator, 0xff));
        }
        // No octal numbers, as with perf.
        check("pid == 010", &number(Term::Pid, Operator::Equal, 10));
        check("addr < 0xffffffffffffffff", &number(Term::Addr, Operator::Less, u64::MAX));
    }

    #[test]
    fn each_term_has_the_words_that_are_its_own() {
        let is = |term, value| number(term, Operator::Equal, value);
        check("mem_op == store", &is(Term::MemOp, 4));
        check("mem_lvl == ram", &is(Term::MemLevel, 0xd));
        check("mem_lvlnum == na", &is(Term::MemLevel, 0xf));
        check("mem_snoop == peer", &is(Term::MemSnoop, 0x40));
        check("mem_dtlb == l2_miss", &is(Term::MemTlb, 0x14));
        check("mem_hops == hops3", &is(Term::MemHops, 4));
        check("retire_lat == 3", &is(Term::Weight3, 3));
        check("cgroup == /a/b", &is(Term::Cgroup, 77));
        check("cgroup == \"/a/b\"", &is(Term::Cgroup, 77));
        check("cgroup == 5", &is(Term::Cgroup, 5));
        refused(
            "mem_op == l1",
            "`mem_op` is compared with a number or one of na load store pfetch exec at column 11",
        );
        refused("pid == load", "`pid` is compared with a number at column 8");
        refused("cgroup == /x", "no cgroup is called `/x` at column 11");
        refused("cgroup > 3", "`cgroup` is compared by == or != at column 8");
    }

    #[test]
    fn commas_bind_weaker_than_alternatives() {
        let of = |pid| number(Term::Pid, Operator::Equal, pid);
        check("pid==1", &of(1));
        check("pid==1,pid==2", &Expr::All(vec![of(1), of(2)]));
        check(
            "pid==1 || pid==2, pid==3 || pid==4",
            &Expr::All(vec![Expr::Any(vec![of(1), of(2)]), Expr::Any(vec![of(3), of(4)])]),
        );
        check("pid==1 && pid==2, pid==3", &Expr::All(vec![Expr::All(vec![of(1), of(2)]), of(3)]));
        check("pid==1 || (pid==2, pid==3)", &Expr::Any(vec![of(1), Expr::All(vec![of(2), of(3)])]));
        check("!(pid==1)", &Expr::Not(Box::new(of(1))));
        refused(
            "pid==1 || pid==2 && pid==3",
            "`&&` and `||` side by side need parentheses at column 18",
        );
        refused("!pid==1", "a comparison after `!` needs parentheses at column 2");
    }

    #[test]
    fn a_place_stands_bare_and_a_program_too() {
        let test = |it| Expr::Test(it);
        let not = |it| Expr::Not(Box::new(Expr::Test(it)));
        check("kernel", &test(Test::Kernel));
        check("!user", &not(Test::User));
        check("bpf_prog", &test(Test::Program(Program::Any)));
        check("!bpf_prog", &not(Test::Program(Program::Any)));
        check("bpf_prog == 12", &test(Test::Program(Program::Id(12))));
        check("bpf_prog == '12'", &test(Test::Program(Program::Name("12".to_owned()))));
        check("bpf_prog != xdp_main", &not(Test::Program(Program::Name("xdp_main".to_owned()))));
        check(
            "bpf_prog && !kernel",
            &Expr::All(vec![test(Test::Program(Program::Any)), not(Test::Kernel)]),
        );
        refused("bpf_prog > 3", "`bpf_prog` stands alone or is compared by == or != at column 10");
        refused("bpf_prog == 4294967296", "`4294967296` is no id of a BPF program at column 13");
        refused("kernel == 1", "`,` or `||` is missing at column 8");
    }

    #[test]
    fn a_name_is_the_same_up_to_its_end_or_up_to_a_star() {
        let comm = |filter: &str| match parse(filter, &cgroup) {
            Ok(Expr::Test(Test::Comm(pattern))) => pattern,
            other => panic!("{other:?}"),
        };
        let (f, o) = (0xff, 0);
        let exact = comm("comm == make");
        assert_eq!(exact.bytes, *b"make\0\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(exact.mask, [f, f, f, f, f, o, o, o, o, o, o, o, o, o, o, o]);
        let open = comm("comm ~ \"k?o*\"");
        assert_eq!((open.bytes[..4].to_vec(), open.len), (b"k\0o\0".to_vec(), 3));
        assert_eq!(open.mask, [f, o, f, o, o, o, o, o, o, o, o, o, o, o, o, o]);
        // Bare, a star is a star.
        assert_eq!(comm("comm == kworker/0:1*").bytes[..12], *b"kworker/0:1*");
        assert_eq!(comm("comm == 123456789012345").mask, [f; 16]);
        refused(
            "comm == 1234567890123456",
            "the kernel keeps 15 bytes of a thread's name at column 9",
        );
        refused(
            "comm ~ *x",
            "of a pattern `*` is the end, and only `?` stands elsewhere at column 8",
        );
        refused("comm > x", "`comm` is compared by == != or ~ at column 6");
        refused("comm == 'x", "`'` is never closed at column 9");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_column_and_the_nearest_term() {
        let error = parse("pid > 0, perod > 1", &cgroup).unwrap_err();
        assert_eq!(error.nearest.as_deref(), Some("period"));
        refused("pid > 0, perod > 1", "no term is called `perod` at column 10");
        refused("", "a term is missing at column 1");
        refused("pid", "`pid` is compared by one of == != > >= < <= & at column 4");
        refused("pid && tid", "`pid` is compared by one of == != > >= < <= & at column 5");
        refused("pid =", "`pid` is compared by one of == != > >= < <= & at column 5");
        refused("pid ==", "a value for `pid` is missing at column 7");
        refused("pid == 1,", "a term is missing at column 10");
        refused("pid == 1)", "`)` closes nothing at column 9");
        refused("(pid == 1", "`(` is never closed at column 1");
        refused("(pid == 1 2", "`,`, `||` or `)` is missing at column 11");
        refused("pid == 1 2", "`,` or `||` is missing at column 10");
        refused("pid == -1", "`pid` is compared with a number at column 8");
        refused("pid == 0x", "`0x` is no number of 64 bits for `pid` at column 8");
        refused("pid == 1x", "`1x` is no number of 64 bits for `pid` at column 8");
        refused(
            "pid == 18446744073709551616",
            "`18446744073709551616` is no number of 64 bits for `pid` at column 8",
        );
        refused(&"(".repeat(70), "parentheses nest too deep at column 66");
        refused("é", "a term is missing at column 1");
    }
}
