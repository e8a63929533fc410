//! Conditions of `--where`, as SQL writes them, to the engine's predicates.
//!
//! ```text
//! condition  = all { "or" all }
//! all        = one { "and" one }
//! one        = "not" one | "(" condition ")" | column test
//! test       = ( "=" | "<>" | "!=" | "<" | "<=" | ">" | ">=" ) value
//!            | "is" [ "not" ] "null" | "between" value "and" value
//!            | [ "not" ] "in" "(" value { "," value } ")" | "starts" "with" value
//! ```
//!
//! A column is a name, in double quotes if it has other characters than letters, digits, `_` and `.`. A value is text in
//! single quotes, or a word without spaces; it is read by the type of its column. Words are known in any case.

mod tokens;

use anyhow::Result;
use nyala::{Column, Predicate, Schema, column};

use self::tokens::{Token, tokens};
use crate::failure::Failure;
use crate::selection::unknown_column;
use crate::value::{Owned, parse as parse_value};

/// Conditions in one another. Nobody writes more by hand.
const DEPTH_MAX: u32 = 100;

/// Reads a condition on the columns of a table.
pub(crate) fn parse(text: &str, schema: &Schema) -> Result<Predicate> {
    let mut parser = Parser { tokens: tokens(text).map_err(wrong)?, at: 0, schema, depth: 0 };
    let predicate = parser.condition()?;
    match parser.peek() {
        None => Ok(predicate),
        Some(token) => Err(wrong(format!("{token} is too much")).into()),
    }
}

fn wrong(why: impl std::fmt::Display) -> Failure {
    Failure::usage(format!("--where: {why}"))
        .advise("a condition is written as in SQL: dep_delay > 60 and (carrier = 'UA' or tailnum is null)")
}

struct Parser<'s> {
    tokens: Vec<Token>,
    at: usize,
    schema: &'s Schema,
    depth: u32,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self, wanted: &str) -> Result<Token> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token.ok_or_else(|| wrong(format!("it ends where {wanted} was expected")).into())
    }

    /// Takes the word or sign, if it comes next.
    fn take(&mut self, wanted: &str) -> bool {
        let is_it = match self.peek() {
            Some(Token::Word(word)) => word.eq_ignore_ascii_case(wanted),
            Some(Token::Sign(sign)) => *sign == wanted,
            _ => false,
        };
        self.at += usize::from(is_it);
        is_it
    }

    fn expect(&mut self, wanted: &str) -> Result<()> {
        if self.take(wanted) {
            return Ok(());
        }
        let found = self.next(&format!("{wanted:?}"))?;
        Err(wrong(format!("{wanted:?} expected, {found} found")).into())
    }

    fn condition(&mut self) -> Result<Predicate> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(wrong(format!("more than {DEPTH_MAX} conditions in one another")).into());
        }
        let mut any = self.all()?;
        while self.take("or") {
            any = any.or(self.all()?);
        }
        self.depth -= 1;
        Ok(any)
    }

    fn all(&mut self) -> Result<Predicate> {
        let mut all = self.one()?;
        while self.take("and") {
            all = all.and(self.one()?);
        }
        Ok(all)
    }

    fn one(&mut self) -> Result<Predicate> {
        let mut negations = 0;
        while self.take("not") {
            negations += 1;
        }
        let one = if self.take("(") {
            let inner = self.condition()?;
            self.expect(")")?;
            inner
        } else {
            self.test()?
        };
        // Unknown stays unknown however often it is negated.
        Ok(if negations % 2 == 1 { !one } else { one })
    }

    fn test(&mut self) -> Result<Predicate> {
        let name = match self.next("a column")? {
            Token::Word(name) | Token::Name(name) => name,
            found => return Err(wrong(format!("a column expected, {found} found")).into()),
        };
        let schema = self.schema;
        let at = schema.column_index(&name).ok_or_else(|| unknown_column(schema, &name))?;
        let of = &schema.columns()[at];
        if self.take("is") {
            let is_negated = self.take("not");
            self.expect("null")?;
            return Ok(if is_negated { column(name).is_not_null() } else { column(name).is_null() });
        }
        let is_negated = self.take("not");
        let test = if self.take("in") {
            self.list(of)?
        } else if self.take("between") {
            let low = self.value(of)?;
            self.expect("and")?;
            let high = self.value(of)?;
            column(&*of.name).ge(low).and(column(&*of.name).le(high))
        } else if self.take("starts") {
            self.expect("with")?;
            column(&*of.name).starts_with(self.value(of)?)
        } else {
            self.comparison(of)?
        };
        Ok(if is_negated { !test } else { test })
    }

    fn comparison(&mut self, of: &Column) -> Result<Predicate> {
        let sign = match self.next("a comparison")? {
            Token::Sign(sign) => sign,
            found => return Err(wrong(format!("a comparison expected, {found} found")).into()),
        };
        let left = column(&*of.name);
        Ok(match sign {
            "=" | "==" => left.eq(self.value(of)?),
            "<>" | "!=" => left.ne(self.value(of)?),
            "<" => left.lt(self.value(of)?),
            "<=" => left.le(self.value(of)?),
            ">" => left.gt(self.value(of)?),
            ">=" => left.ge(self.value(of)?),
            other => return Err(wrong(format!("a comparison expected, {other:?} found")).into()),
        })
    }

    fn list(&mut self, of: &Column) -> Result<Predicate> {
        self.expect("(")?;
        let mut any = column(&*of.name).eq(self.value(of)?);
        while self.take(",") {
            any = any.or(column(&*of.name).eq(self.value(of)?));
        }
        self.expect(")")?;
        Ok(any)
    }

    fn value(&mut self, of: &Column) -> Result<Owned> {
        let text = match self.next("a value")? {
            Token::Word(word) if word.eq_ignore_ascii_case("null") => {
                return Err(Failure::usage("--where: a comparison with null holds for no row")
                    .advise(format!("write: {} is null; or 'null' in quotes for the text", of.name))
                    .into());
            }
            Token::Word(text) | Token::Text(text) => text,
            found => return Err(wrong(format!("a value expected, {found} found")).into()),
        };
        parse_value(&text, of.ty).map_err(|why| wrong(format!("column {}: {why}", of.name)).into())
    }
}

#[cfg(test)]
mod tests;
