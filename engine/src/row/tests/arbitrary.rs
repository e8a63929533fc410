//! Random schemas, and rows that fit them.

use crate::schema::Schema;
use crate::value::AsValue;
use encoded_key::ColumnType;
use encoded_key::{Date, Decimal, Timestamp, Type, Value};
use proptest::collection::vec;
use proptest::prelude::*;

/// A value that owns its bytes.
#[derive(Clone, Debug)]
pub(crate) enum Owned {
    Scalar(Value<'static>),
    String(String),
    Binary(Vec<u8>),
}

impl AsValue for Owned {
    fn as_value(&self) -> Value<'_> {
        match self {
            Owned::Scalar(value) => *value,
            Owned::String(text) => Value::String(text),
            Owned::Binary(bytes) => Value::Binary(bytes),
        }
    }
}

pub(crate) fn types() -> impl Strategy<Value = Type> {
    prop_oneof![
        prop::sample::select(vec![
            Type::Bool,
            Type::I8,
            Type::I16,
            Type::I32,
            Type::I64,
            Type::U8,
            Type::U16,
            Type::U32,
            Type::U64,
            Type::F32,
            Type::F64,
            Type::Date,
            Type::Timestamp,
        ]),
        (1..=38u8).prop_flat_map(|precision| {
            (0..=precision).prop_map(move |scale| Type::Decimal { precision, scale })
        }),
        Just(Type::String),
        Just(Type::Binary),
    ]
}

/// Any value that a column of this type gives back.
pub(crate) fn value_of(ty: Type) -> BoxedStrategy<Owned> {
    fn scalar<T: std::fmt::Debug>(
        numbers: impl Strategy<Value = T> + 'static,
        value: impl Fn(T) -> Value<'static> + 'static,
    ) -> BoxedStrategy<Owned> {
        numbers.prop_map(move |number| Owned::Scalar(value(number))).boxed()
    }
    match ty {
        Type::Bool => scalar(any::<bool>(), Value::Bool),
        Type::I8 => scalar(any::<i8>(), |number| Value::Int(number.into())),
        Type::I16 => scalar(any::<i16>(), |number| Value::Int(number.into())),
        Type::I32 => scalar(any::<i32>(), |number| Value::Int(number.into())),
        Type::I64 => scalar(any::<i64>(), Value::Int),
        Type::U8 => scalar(any::<u8>(), |number| Value::UInt(number.into())),
        Type::U16 => scalar(any::<u16>(), |number| Value::UInt(number.into())),
        Type::U32 => scalar(any::<u32>(), |number| Value::UInt(number.into())),
        Type::U64 => scalar(any::<u64>(), Value::UInt),
        Type::F32 => scalar(any::<u32>(), |bits| Value::F32(f32::from_bits(bits))),
        Type::F64 => scalar(any::<u64>(), |bits| Value::F64(f64::from_bits(bits))),
        Type::Decimal { precision, scale } => {
            let most = 10i128.pow(precision.into()) - 1;
            scalar(-most..=most, move |unscaled| Value::Decimal(Decimal { unscaled, scale }))
        }
        Type::Date => scalar(any::<i32>(), |days| Value::Date(Date::from_days(days))),
        Type::Timestamp => scalar(any::<i64>(), |micros| Value::Timestamp(Timestamp::from_micros(micros))),
        Type::String => prop_oneof!["", "[a\0é\u{10ffff}]{0,6}", ".{0,20}"].prop_map(Owned::String).boxed(),
        Type::Binary => {
            vec(prop_oneof![Just(0), Just(0xff), any::<u8>()], 0..20).prop_map(Owned::Binary).boxed()
        }
    }
}

/// A schema with 1 to `keys_max` key columns and up to `values_max` others.
pub(crate) fn schema(keys_max: usize, values_max: usize) -> impl Strategy<Value = Schema> {
    let keys = vec((types(), any::<bool>()), 1..=keys_max);
    let values = vec((types(), any::<bool>()), 0..=values_max);
    (keys, values).prop_map(|(keys, values)| {
        let mut builder = Schema::builder();
        for (index, (ty, descending)) in keys.into_iter().enumerate() {
            let column = ColumnType::from(ty);
            builder = builder.key(format!("k{index}"), if descending { column.descending() } else { column });
        }
        for (index, (ty, nullable)) in values.into_iter().enumerate() {
            let column = ColumnType::from(ty);
            builder = builder.column(format!("v{index}"), if nullable { column.nullable() } else { column });
        }
        builder.build().expect("a valid schema")
    })
}

/// A value for each column of a schema.
pub(crate) fn record(schema: &Schema) -> BoxedStrategy<Vec<Owned>> {
    let columns: Vec<BoxedStrategy<Owned>> = schema
        .columns()
        .iter()
        .map(|column| {
            let values = value_of(column.ty);
            match column.nullable {
                true => prop_oneof![1 => Just(Owned::Scalar(Value::Null)), 3 => values].boxed(),
                false => values,
            }
        })
        .collect();
    columns.boxed()
}

pub(crate) fn schema_and_record() -> impl Strategy<Value = (Schema, Vec<Owned>)> {
    schema(3, 8).prop_flat_map(|schema| {
        let records = record(&schema);
        (Just(schema), records)
    })
}

pub(crate) fn values(record: &[Owned]) -> Vec<Value<'_>> {
    record.iter().map(AsValue::as_value).collect()
}
