//! Text to the value of a column, exactly.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nyala::{Decimal, Type, Value};

use super::float::{parse_f32, parse_f64};
use super::{Owned, parse_date, parse_timestamp};

/// Reads `text` as a value of type `ty`. Nulls are for the caller to know: here there are none.
///
/// The error is the end of a sentence: "is no u8: ..".
pub(crate) fn parse(text: &str, ty: Type) -> Result<Owned, String> {
    let fixed = |value: Option<Value<'static>>| value.map(Owned::Fixed);
    let parsed = match ty {
        Type::String => Some(Owned::String(text.to_owned())),
        Type::Binary => return parse_binary(text).map(Owned::Binary),
        Type::Bool => fixed(match text {
            "true" => Some(Value::Bool(true)),
            "false" => Some(Value::Bool(false)),
            _ => None,
        }),
        Type::I8 | Type::I16 | Type::I32 | Type::I64 => {
            fixed(text.parse().ok().and_then(|number| Value::Int(number).fit(ty).ok()))
        }
        Type::U8 | Type::U16 | Type::U32 | Type::U64 => {
            fixed(text.parse().ok().and_then(|number| Value::UInt(number).fit(ty).ok()))
        }
        Type::F32 => fixed(parse_f32(text).map(Value::F32)),
        Type::F64 => fixed(parse_f64(text).map(Value::F64)),
        Type::Decimal { .. } => {
            fixed(text.parse::<Decimal>().ok().and_then(|number| Value::Decimal(number).fit(ty).ok()))
        }
        Type::Date => fixed(parse_date(text).map(Value::Date)),
        Type::Timestamp => fixed(parse_timestamp(text).map(Value::Timestamp)),
    };
    parsed.ok_or_else(|| format!("{} is no {ty}: {}", shorten(text), expected(ty)))
}

fn parse_binary(text: &str) -> Result<Vec<u8>, String> {
    let parsed = if let Some(hex) = text.strip_prefix("0x") {
        parse_hex(hex)
    } else if let Some(base64) = text.strip_prefix("base64:") {
        STANDARD.decode(base64).ok()
    } else {
        text.strip_prefix("text:").map(|text| text.as_bytes().to_vec())
    };
    parsed.ok_or_else(|| format!("{} is no binary: {}", shorten(text), expected(Type::Binary)))
}

/// Bytes of hexadecimal digits, two each.
pub(crate) fn parse_hex(hex: &str) -> Option<Vec<u8>> {
    let digits = hex.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    digits.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

fn expected(ty: Type) -> String {
    match ty {
        Type::Bool => "give true or false".to_owned(),
        Type::I8 | Type::I16 | Type::I32 | Type::I64 => {
            let bits = ty.fixed_width().unwrap_or(8) * 8;
            format!("give a whole number of {bits} bits")
        }
        Type::U8 | Type::U16 | Type::U32 | Type::U64 => {
            let bits = ty.fixed_width().unwrap_or(8) * 8;
            format!("give a whole number of {bits} bits that is not negative")
        }
        Type::F32 | Type::F64 => "give a number, inf, -inf or NaN".to_owned(),
        Type::Decimal { precision, scale } => {
            format!("give at most {precision} digits, {scale} of them after the point")
        }
        Type::Date => "give it as 2020-07-09".to_owned(),
        Type::Timestamp => "give it as 2020-07-09T12:34:56.123456Z".to_owned(),
        Type::String => "give text".to_owned(),
        Type::Binary => "give hexadecimal digits behind 0x, or base64:.., or text:..".to_owned(),
    }
}

/// The text in quotes, but not a page of it.
fn shorten(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{:?}..", &text[..end]),
        None => format!("{text:?}"),
    }
}
