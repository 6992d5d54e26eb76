//! An expression in the language of the kernel's filters of tracepoints, as far as that goes.
//!
//! Source: `Documentation/trace/events.rst`, section 5.

use super::Expr;
use super::Operator;
use super::Pattern;
use super::Term;
use super::Test;

/// `expr` as a filter of a tracepoint.
///
/// # Errors
///
/// What of it a tracepoint's filter cannot ask, and why.
pub fn kernel_text(expr: &Expr) -> Result<String, String> {
    match expr {
        Expr::Test(test) => of_test(test),
        Expr::Not(inner) => Ok(format!("!({})", kernel_text(inner)?)),
        Expr::All(parts) => joined(parts, " && "),
        Expr::Any(parts) => joined(parts, " || "),
    }
}

fn joined(parts: &[Expr], joint: &str) -> Result<String, String> {
    let parts: Vec<String> = parts.iter().map(kernel_text).collect::<Result<_, _>>()?;
    Ok(parts.iter().map(|it| format!("({it})")).collect::<Vec<_>>().join(joint))
}

fn of_test(test: &Test) -> Result<String, String> {
    let unknown = |what: &str| {
        Err(format!("a tracepoint's filter is the kernel's own, which does not know `{what}`"))
    };
    match test {
        Test::Number { term, operator, value } => {
            let field = match term {
                Term::Tid => "common_pid",
                Term::Cpu => "cpu",
                Term::Pid => {
                    let why = "a tracepoint's filter knows the thread, `tid`, but not its process";
                    return Err(why.to_owned());
                }
                other => return unknown(super::name(*other)),
            };
            if (*term, *operator) == (Term::Cpu, Operator::AnyBit) {
                // It would pass nothing: `filter_pred_cpu()` in
                // `kernel/trace/trace_events_filter.c`.
                return Err("a tracepoint's filter knows no `&` of `cpu`".to_owned());
            }
            let is_int = i32::try_from(*value).is_ok();
            if !is_int {
                return Err(format!("`{field}` of a tracepoint has no value of {value}"));
            }
            Ok(format!("{field} {} {value}", sign(*operator)))
        }
        Test::Comm(pattern) => of_comm(pattern),
        Test::Program(_) => unknown("bpf_prog"),
        Test::Kernel => unknown("kernel"),
        Test::User => unknown("user"),
    }
}

fn sign(operator: Operator) -> &'static str {
    match operator {
        Operator::Equal => "==",
        Operator::NotEqual => "!=",
        Operator::Greater => ">",
        Operator::GreaterOrEqual => ">=",
        Operator::Less => "<",
        Operator::LessOrEqual => "<=",
        Operator::AnyBit => "&",
    }
}

fn of_comm(Pattern { bytes, mask, len }: &Pattern) -> Result<String, String> {
    let is_exact = mask.iter().take(*len).all(|it| *it != 0);
    let is_open = mask.get(*len).is_none_or(|it| *it == 0);
    let of_glob = |(byte, mask): (&u8, &u8)| if *mask == 0 { b'?' } else { *byte };
    let text = bytes.iter().zip(mask).take(*len).map(of_glob).collect::<Vec<u8>>();
    let mut text = String::from_utf8_lossy(&text).into_owned();
    if is_open {
        text.push('*');
    }
    let quote = if text.contains('"') { '\'' } else { '"' };
    if text.contains(quote) {
        return Err("a tracepoint's filter has no text with both kinds of quotes".to_owned());
    }
    // To the kernel a star in a name that is compared as it is, is a star.
    let sign = if is_exact && !is_open { "==" } else { "~" };
    Ok(format!("comm {sign} {quote}{text}{quote}"))
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[track_caller]
    fn check(filter: &str, want: Result<&str, &str>) {
        let expr = parse(filter, &|_| Err(String::new())).unwrap();
        let got = kernel_text(&expr);
        assert_eq!(got.as_ref().map(|it| &**it).map_err(|it| &**it), want, "{filter}");
    }

    #[test]
    fn threads_cpus_and_names_are_what_both_know() {
        check("tid == 7", Ok("common_pid == 7"));
        check("tid & 0x3", Ok("common_pid & 3"));
        check("comm == sh || comm ~ k?o*", Ok("(comm == \"sh\") || (comm ~ \"k?o*\")"));
        check("!(tid == 1), cpu < 2", Ok("(!(common_pid == 1)) && (cpu < 2)"));
        check("comm == 'a\"b'", Ok("comm == 'a\"b'"));
    }

    #[test]
    fn what_the_kernel_does_not_know_is_named() {
        check(
            "tid == 1, uid == 0",
            Err("a tracepoint's filter is the kernel's own, which does not know `uid`"),
        );
        check(
            "pid == 1",
            Err("a tracepoint's filter knows the thread, `tid`, but not its process"),
        );
        check("cpu & 1", Err("a tracepoint's filter knows no `&` of `cpu`"));
        check("tid == 4294967295", Err("`common_pid` of a tracepoint has no value of 4294967295"));
        check(
            "kernel",
            Err("a tracepoint's filter is the kernel's own, which does not know `kernel`"),
        );
    }
}
