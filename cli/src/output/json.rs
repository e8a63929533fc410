//! JSON whose fields keep their order.

use std::io::{self, Write};

use nyala::Value;

use crate::value::{BinaryText, write_json};

/// Writes a string of JSON.
pub(crate) fn write_string(out: &mut dyn Write, text: &str) -> io::Result<()> {
    Ok(serde_json::to_writer(out, text)?)
}

/// Rows as objects, with their names encoded once.
pub(crate) struct RowObject {
    /// `{"name":`, then `,"next":`.
    heads: Vec<Vec<u8>>,
}

impl RowObject {
    pub(crate) fn new<'n>(names: impl IntoIterator<Item = &'n str>) -> RowObject {
        let heads = names.into_iter().enumerate().map(|(at, name)| {
            let mut head = vec![if at == 0 { b'{' } else { b',' }];
            write_string(&mut head, name).expect("writing to memory cannot fail");
            head.push(b':');
            head
        });
        RowObject { heads: heads.collect() }
    }

    /// Writes a row as one line.
    pub(crate) fn write(
        &self,
        out: &mut dyn Write,
        values: &[Value<'_>],
        binary: BinaryText,
    ) -> io::Result<()> {
        for (head, value) in self.heads.iter().zip(values) {
            out.write_all(head)?;
            write_json(out, *value, binary)?;
        }
        out.write_all(if self.heads.is_empty() { b"{}\n" } else { b"}\n" })
    }
}
