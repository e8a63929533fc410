//! Splits a condition into words, texts, names and signs.

use std::fmt;

/// The least piece of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// Without quotes: a keyword, a column or a value.
    Word(String),
    /// In single quotes: a value.
    Text(String),
    /// In double quotes: a column.
    Name(String),
    Sign(&'static str),
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Word(word) => write!(f, "{word:?}"),
            Token::Text(text) => write!(f, "the text {text:?}"),
            Token::Name(name) => write!(f, "the name {name:?}"),
            Token::Sign(sign) => write!(f, "{sign:?}"),
        }
    }
}

/// The longer ones first.
const SIGNS: [&str; 11] = ["==", "<>", "!=", "<=", ">=", "=", "<", ">", "(", ")", ","];

/// All of them, in order.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        if first == '\'' || first == '"' {
            let (inner, after) =
                quoted(&rest[1..], first).ok_or_else(|| format!("a {first} is not closed"))?;
            tokens.push(if first == '"' { Token::Name(inner) } else { Token::Text(inner) });
            rest = after;
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            tokens.push(Token::Sign(sign));
            rest = &rest[sign.len()..];
        } else {
            let ends = |c: char| c.is_whitespace() || "'\"(),=<>!".contains(c);
            let end = rest.find(ends).unwrap_or(rest.len());
            if end == 0 {
                return Err(format!("{first:?} makes no sense here"));
            }
            tokens.push(Token::Word(rest[..end].to_owned()));
            rest = &rest[end..];
        }
        rest = rest.trim_start();
    }
    Ok(tokens)
}

/// Up to the closing quote; two of them are one inside.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut inner = String::new();
    let mut rest = text;
    loop {
        let end = rest.find(quote)?;
        inner.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        if !rest.starts_with(quote) {
            return Some((inner, rest));
        }
        inner.push(quote);
        rest = &rest[1..];
    }
}
