//! The bytes of a row, by schema; and the bytes of a schema.
//!
//! Input: a byte of flags. 1: the schema comes as bytes of the manifest, with their length before; otherwise as a byte
//! for the number of columns and the columns as in [`crate::columns`]. 2: the row comes as bytes, otherwise as values
//! that are encoded.
//!
//! Asked: a row that is found sound is, to the byte, what encoding its values gives, and a row that encoding gives is
//! found sound; a damaged one never reads as if it were another. A schema comes back as it was.

use nyala::{ColumnType, Schema, Type, Value, fuzzing};

use crate::input::Input;
use crate::{Verdict, columns};

const COLUMNS_MAX: usize = 24;

/// Reads an input.
pub fn run(data: &[u8]) -> Verdict {
    let mut input = Input::new(data);
    let flags = input.u8();
    let schema =
        if flags & 1 != 0 { fuzzing::decode_schema(input.short_bytes()) } else { Ok(chosen(&mut input)) };
    let Ok(schema) = schema else { return Verdict::Refused };
    let again = fuzzing::decode_schema(&fuzzing::encode_schema(&schema)).expect("a schema comes back");
    assert_eq!(again, schema);
    let row = if flags & 2 != 0 {
        input.rest().to_vec()
    } else {
        let values: Vec<Value<'_>> = schema.columns()[schema.key_columns()..]
            .iter()
            .map(|column| {
                let (ty, nullable, descending) = (column.ty, column.nullable, column.descending);
                columns::value(&mut input, ColumnType { ty, nullable, descending })
            })
            .collect();
        let Ok(row) = fuzzing::encode_row(&schema, &values) else { return Verdict::Refused };
        let read = fuzzing::row_values(&schema, &row);
        let read: Vec<Value<'_>> = read.into_iter().map(|value| value.expect("just written")).collect();
        assert_eq!(read, values, "values come back");
        fuzzing::verify_row(&schema, &row).expect("just written");
        row
    };
    check_row(&schema, &row)
}

fn chosen(input: &mut Input<'_>) -> Schema {
    let count = usize::from(input.u8()) % COLUMNS_MAX;
    let mut builder = Schema::builder().key("key", Type::U64);
    for number in 0..count {
        let column = ColumnType { descending: false, ..columns::column(input) };
        builder = builder.column(format!("column {number}"), column);
    }
    builder.build().expect("a legal schema")
}

fn check_row(schema: &Schema, row: &[u8]) -> Verdict {
    let verified = fuzzing::verify_row(schema, row);
    let values: Result<Vec<Value<'_>>, _> = fuzzing::row_values(schema, row).into_iter().collect();
    let encoded = values.as_ref().ok().and_then(|values| fuzzing::encode_row(schema, values).ok());
    if verified.is_ok() {
        values.as_ref().expect("each value of a sound row reads");
        assert_eq!(encoded.as_deref(), Some(row), "there is one form for a row");
    } else {
        assert_ne!(encoded.as_deref(), Some(row), "a row that encoding gives is refused");
    }
    Verdict::of(&verified)
}
