//! Words, strings and operators of a print format.

use super::NotUnderstood;

/// One token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A name or a number.
    Word(&'a str),
    /// A string, its escapes as they stand; strings that follow each other are one.
    Text(String),
    /// A character.
    Char(u8),
    /// An operator, a bracket or a comma.
    Op(&'a str),
}

/// Operators of two characters; all others have one.
const PAIRS: [&str; 11] = ["->", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "++", "--"];

/// Takes `text` apart.
pub(super) fn tokens(text: &str) -> Result<Vec<Token<'_>>, NotUnderstood> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let len = if is_word(first) {
            rest.find(|it| !is_word(it)).unwrap_or(rest.len())
        } else if let Some(pair) = PAIRS.iter().find(|it| rest.starts_with(**it)) {
            pair.len()
        } else {
            first.len_utf8()
        };
        let Some((token, behind)) = rest.split_at_checked(len) else { break };
        rest = behind;
        match first {
            '"' => {
                let (text, behind) = quoted(rest, '"')?;
                rest = behind;
                match tokens.last_mut() {
                    Some(Token::Text(before)) => before.push_str(text),
                    _ => tokens.push(Token::Text(text.to_owned())),
                }
            }
            '\'' => {
                let (text, behind) = quoted(rest, '\'')?;
                rest = behind;
                tokens.push(Token::Char(text.bytes().next().unwrap_or(0)));
            }
            _ if is_word(first) => tokens.push(Token::Word(token)),
            _ => tokens.push(Token::Op(token)),
        }
        rest = rest.trim_start();
    }
    Ok(tokens)
}

fn is_word(it: char) -> bool {
    it.is_ascii_alphanumeric() || it == '_'
}

/// What stands before the next `quote` that no backslash escapes, and what stands behind it.
fn quoted(text: &str, quote: char) -> Result<(&str, &str), NotUnderstood> {
    let mut is_escaped = false;
    let end = text.find(|it| {
        let is_end = it == quote && !is_escaped;
        is_escaped = it == '\\' && !is_escaped;
        is_end
    });
    let (text, behind) = end
        .and_then(|end| text.split_at_checked(end))
        .ok_or(NotUnderstood { what: "a string without an end" })?;
    Ok((text, behind.strip_prefix(quote).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_that_follow_each_other_are_one() {
        let want = vec![Token::Text("a\\\"b%d".to_owned()), Token::Op(","), Token::Word("REC")];
        assert_eq!(tokens(r#" "a\"b" "%d", REC"#).unwrap(), want);
    }

    #[test]
    fn operators_are_as_long_as_they_can_be() {
        let got = tokens("a->b>>1>=!c'x'").unwrap();
        let word = Token::Word;
        let op = Token::Op;
        let want = [
            word("a"),
            op("->"),
            word("b"),
            op(">>"),
            word("1"),
            op(">="),
            op("!"),
            word("c"),
            Token::Char(b'x'),
        ];
        assert_eq!(got, want);
    }

    #[test]
    fn a_string_must_end() {
        assert_eq!(tokens("\"abc\\\"").unwrap_err().what, "a string without an end");
    }
}
