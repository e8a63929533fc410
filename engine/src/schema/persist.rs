//! A schema as bytes of the manifest: the message `nyala.schema.Schema` of `proto/schema.proto`.
//!
//! Invariant: what is decoded passes the checks that a new schema passes, or is refused.

use super::{Column, DroppedColumn, Schema, pb};
use crate::error::{Error, ErrorKind, Result};
use codec::{ColumnId, SchemaVersion};
use encoded_key::{CODEC_VERSION, Type};
use prost::Message as _;
use std::sync::Arc;

/// The version of a table's first schema, which is left out of the bytes.
const FIRST: SchemaVersion = SchemaVersion(1);

impl Schema {
    /// The schema as bytes, for the manifest.
    pub(crate) fn encode_to_vec(&self) -> Vec<u8> {
        let message = pb::Schema {
            version: self.version.0,
            key_codec_version: u32::from(CODEC_VERSION),
            key_columns: u32::try_from(self.key_columns()).expect("at most 1,000 columns"),
            next_column_id: self.next_column_id.0,
            columns: self.columns.iter().map(encode_column).collect(),
            dropped: self.dropped.iter().map(encode_dropped).collect(),
        };
        message.encode_to_vec()
    }

    /// The schema that [`Schema::encode_to_vec`] made `bytes` of.
    ///
    /// # Errors
    /// `UnsupportedFormat` for a newer key codec or a type that this version doesn't know, else `Corruption`.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Schema> {
        let message = pb::Schema::decode(bytes)
            .map_err(|error| Error::caused(ErrorKind::Corruption, error).context("schema"))?;
        if message.encoded_len() != bytes.len() {
            // Protobuf skips fields that it doesn't know. A schema that loses something on the way is another one.
            let known = message.encoded_len();
            return Err(Error::newer(format_args!(
                "schema: {} bytes, of which {known} are known",
                bytes.len()
            )));
        }
        if message.key_codec_version != u32::from(CODEC_VERSION) {
            let found = message.key_codec_version;
            return Err(match found {
                0 => Error::corruption("schema: no version of the key codec"),
                _ => Error::newer(format_args!(
                    "schema: keys of codec version {found}, this program knows {CODEC_VERSION}"
                )),
            });
        }
        if message.version == 0 {
            return Err(Error::corruption("schema: version 0"));
        }
        let key_columns = usize::try_from(message.key_columns)
            .map_err(|_| Error::corruption(format!("schema: {} key columns", message.key_columns)))?;
        let columns = message.columns.into_iter().map(decode_column).collect::<Result<Vec<Column>>>()?;
        let dropped = message.dropped.into_iter().map(decode_dropped).collect::<Result<Vec<_>>>()?;
        let (version, next_id) = (SchemaVersion(message.version), ColumnId(message.next_column_id));
        Schema::from_parts(version, next_id, columns, dropped, key_columns)
            .map_err(|error| error.with_kind(ErrorKind::Corruption).context("schema"))
    }
}

fn encode_column(column: &Column) -> pb::Column {
    let (ty, precision, scale) = encode_type(column.ty);
    pb::Column {
        id: column.id.0,
        name: column.name.to_string(),
        r#type: ty as i32,
        precision,
        scale,
        nullable: column.nullable,
        descending: column.descending,
        added_in: if column.added_in == FIRST { 0 } else { column.added_in.0 },
        default: column.default.as_deref().map(<[u8]>::to_vec),
    }
}

fn encode_dropped(dropped: &DroppedColumn) -> pb::DroppedColumn {
    pb::DroppedColumn { column: Some(encode_column(&dropped.column)), dropped_in: dropped.dropped_in.0 }
}

fn decode_dropped(dropped: pb::DroppedColumn) -> Result<DroppedColumn> {
    let column =
        dropped.column.ok_or_else(|| Error::corruption("schema: a dropped column without a column"))?;
    Ok(DroppedColumn { column: decode_column(column)?, dropped_in: SchemaVersion(dropped.dropped_in) })
}

fn decode_column(column: pb::Column) -> Result<Column> {
    let ty = decode_type(&column)?;
    Ok(Column {
        id: ColumnId(column.id),
        name: Arc::from(column.name),
        ty,
        nullable: column.nullable,
        descending: column.descending,
        added_in: if column.added_in == 0 { FIRST } else { SchemaVersion(column.added_in) },
        default: column.default.map(Arc::from),
    })
}

fn encode_type(ty: Type) -> (pb::ColumnType, u32, u32) {
    let ty = match ty {
        Type::Bool => pb::ColumnType::Bool,
        Type::I8 => pb::ColumnType::I8,
        Type::I16 => pb::ColumnType::I16,
        Type::I32 => pb::ColumnType::I32,
        Type::I64 => pb::ColumnType::I64,
        Type::U8 => pb::ColumnType::U8,
        Type::U16 => pb::ColumnType::U16,
        Type::U32 => pb::ColumnType::U32,
        Type::U64 => pb::ColumnType::U64,
        Type::F32 => pb::ColumnType::F32,
        Type::F64 => pb::ColumnType::F64,
        Type::Decimal { precision, scale } => {
            return (pb::ColumnType::Decimal, u32::from(precision), u32::from(scale));
        }
        Type::Date => pb::ColumnType::Date,
        Type::Timestamp => pb::ColumnType::Timestamp,
        Type::String => pb::ColumnType::String,
        Type::Binary => pb::ColumnType::Binary,
    };
    (ty, 0, 0)
}

fn decode_type(column: &pb::Column) -> Result<Type> {
    let Ok(ty) = pb::ColumnType::try_from(column.r#type) else {
        let (name, ty) = (&column.name, column.r#type);
        return Err(Error::newer(format_args!("schema: column {name:?} has the unknown type {ty}")));
    };
    if ty != pb::ColumnType::Decimal && (column.precision, column.scale) != (0, 0) {
        let text = format!("schema: column {:?} is no decimal, but has digits", column.name);
        return Err(Error::corruption(text));
    }
    Ok(match ty {
        pb::ColumnType::Unspecified => {
            return Err(Error::corruption(format!("schema: column {:?} has no type", column.name)));
        }
        pb::ColumnType::Bool => Type::Bool,
        pb::ColumnType::I8 => Type::I8,
        pb::ColumnType::I16 => Type::I16,
        pb::ColumnType::I32 => Type::I32,
        pb::ColumnType::I64 => Type::I64,
        pb::ColumnType::U8 => Type::U8,
        pb::ColumnType::U16 => Type::U16,
        pb::ColumnType::U32 => Type::U32,
        pb::ColumnType::U64 => Type::U64,
        pb::ColumnType::F32 => Type::F32,
        pb::ColumnType::F64 => Type::F64,
        pb::ColumnType::Decimal => match (u8::try_from(column.precision), u8::try_from(column.scale)) {
            (Ok(precision), Ok(scale)) => Type::Decimal { precision, scale },
            _ => {
                let (precision, scale) = (column.precision, column.scale);
                let text = format!("schema: column {:?} is a decimal({precision}, {scale})", column.name);
                return Err(Error::corruption(text));
            }
        },
        pb::ColumnType::Date => Type::Date,
        pb::ColumnType::Timestamp => Type::Timestamp,
        pb::ColumnType::String => Type::String,
        pb::ColumnType::Binary => Type::Binary,
    })
}
