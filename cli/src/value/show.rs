//! Values to text.

use std::borrow::Cow;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nyala::Value;

use super::float::{show_f32, show_f64};

/// How binaries are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum BinaryText {
    /// `0x` and two digits a byte.
    #[default]
    Hex,
    /// `base64:` and the usual alphabet, padded.
    Base64,
}

/// The value as text without quotes. A null is for the caller to write.
pub(crate) fn show(value: Value<'_>, binary: BinaryText) -> Cow<'_, str> {
    Cow::Owned(match value {
        Value::String(text) => return Cow::Borrowed(text),
        Value::Null => return Cow::Borrowed("null"),
        Value::Binary(bytes) => match binary {
            BinaryText::Hex => format!("0x{}", hex(bytes)),
            BinaryText::Base64 => format!("base64:{}", STANDARD.encode(bytes)),
        },
        Value::F32(value) => show_f32(value),
        Value::F64(value) => show_f64(value),
        other => other.to_string(),
    })
}

/// Two digits a byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
        text
    })
}

/// The text with what would move a terminal's cursor, or change its colours, escaped.
pub(crate) fn escape_controls(text: &str) -> Cow<'_, str> {
    let moves = |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if !text.contains(moves) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().fold(String::new(), |mut out, c| {
        if moves(c) {
            out.extend(c.escape_default())
        } else {
            out.push(c)
        }
        out
    }))
}
