//! What the tests hold the bytes against: tuples of values, compared column by column.

use std::cmp::Ordering;

use proptest::prelude::*;

use crate::{Date, Decimal, KeyBuilder, KeyColumn, KeyError, KeyLayout, Timestamp, Type, Value};

/// A value that owns its text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Owned {
    Fixed(Value<'static>),
    String(String),
    Binary(Vec<u8>),
}

impl Owned {
    pub(crate) fn value(&self) -> Value<'_> {
        match self {
            Owned::Fixed(value) => *value,
            Owned::String(text) => Value::String(text),
            Owned::Binary(bytes) => Value::Binary(bytes),
        }
    }
}

pub(crate) type Tuple = Vec<Owned>;

pub(crate) fn values(tuple: &[Owned]) -> Vec<Value<'_>> {
    tuple.iter().map(Owned::value).collect()
}

pub(crate) fn encode(layout: &KeyLayout, tuple: &[Owned]) -> Result<Vec<u8>, KeyError> {
    encode_values(layout, &values(tuple))
}

pub(crate) fn encode_values(layout: &KeyLayout, values: &[Value<'_>]) -> Result<Vec<u8>, KeyError> {
    let mut out = Vec::new();
    let mut builder = KeyBuilder::new(layout, &mut out);
    for value in values {
        builder.push(*value)?;
    }
    builder.finish()?;
    Ok(out)
}

/// The order of keys, as far as both tuples go.
pub(crate) fn compare(layout: &KeyLayout, a: &[Owned], b: &[Owned]) -> Ordering {
    for (column, (a, b)) in layout.columns().iter().zip(a.iter().zip(b)) {
        let order = a.value().compare(b.value()).expect("values of one column compare");
        let order = if column.descending { order.reverse() } else { order };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

pub(crate) fn layout_of(columns: &[KeyColumn]) -> KeyLayout {
    KeyLayout::new(columns.to_vec()).unwrap()
}

pub(crate) fn any_type() -> impl Strategy<Value = Type> {
    let simple = [
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
    ];
    let decimal = (1u8..=38)
        .prop_flat_map(|precision| (0..=precision).prop_map(move |scale| Type::Decimal { precision, scale }));
    prop_oneof![
        6 => proptest::sample::select(simple.to_vec()),
        2 => decimal,
        2 => Just(Type::String),
        2 => Just(Type::Binary),
    ]
}

pub(crate) fn any_layout() -> impl Strategy<Value = KeyLayout> {
    let column = (any_type(), any::<bool>()).prop_map(|(ty, descending)| KeyColumn { ty, descending });
    proptest::collection::vec(column, 1..5).prop_map(|columns| layout_of(&columns))
}

fn signed(min: i64, max: i64) -> BoxedStrategy<i64> {
    prop_oneof![Just(min), Just(-1), Just(0), Just(1), Just(max), min..=max].boxed()
}

fn unsigned(max: u64) -> BoxedStrategy<u64> {
    prop_oneof![Just(0), Just(1), Just(max / 2), Just(max / 2 + 1), Just(max), 0..=max].boxed()
}

const F32_BITS: [u32; 12] = [
    0,
    1,
    0x0080_0000,
    0x3f80_0000,
    0x7f7f_ffff,
    0x7f80_0000,
    0x7f80_0001,
    0x7fc0_0000,
    0x7fff_ffff,
    0x3f80_0001,
    0x007f_ffff,
    0x7fa0_0000,
];

pub(crate) fn any_value(ty: Type) -> BoxedStrategy<Owned> {
    let int = |min, max| signed(min, max).prop_map(|value| Owned::Fixed(Value::Int(value))).boxed();
    let uint = |max| unsigned(max).prop_map(|value| Owned::Fixed(Value::UInt(value))).boxed();
    match ty {
        Type::Bool => any::<bool>().prop_map(|value| Owned::Fixed(Value::Bool(value))).boxed(),
        Type::I8 => int(i8::MIN.into(), i8::MAX.into()),
        Type::I16 => int(i16::MIN.into(), i16::MAX.into()),
        Type::I32 => int(i32::MIN.into(), i32::MAX.into()),
        Type::I64 => int(i64::MIN, i64::MAX),
        Type::U8 => uint(u8::MAX.into()),
        Type::U16 => uint(u16::MAX.into()),
        Type::U32 => uint(u32::MAX.into()),
        Type::U64 => uint(u64::MAX),
        Type::F32 => prop_oneof![any::<u32>(), proptest::sample::select(&F32_BITS[..])]
            .prop_flat_map(|bits| prop_oneof![Just(bits), Just(bits ^ (1 << 31))])
            .prop_map(|bits| Owned::Fixed(Value::F32(f32::from_bits(bits))))
            .boxed(),
        Type::F64 => prop_oneof![
            any::<u64>(),
            proptest::sample::select(&F32_BITS[..]).prop_map(|b| u64::from(b) << 32)
        ]
        .prop_flat_map(|bits| prop_oneof![Just(bits), Just(bits ^ (1 << 63)), Just(bits ^ 1)])
        .prop_map(|bits| Owned::Fixed(Value::F64(f64::from_bits(bits))))
        .boxed(),
        Type::Decimal { precision, scale } => {
            let max = 10i128.pow(u32::from(precision)) - 1;
            prop_oneof![Just(-max), Just(-1), Just(0), Just(1), Just(max), -max..=max]
                .prop_map(move |unscaled| Owned::Fixed(Value::Decimal(Decimal { unscaled, scale })))
                .boxed()
        }
        Type::Date => signed(i32::MIN.into(), i32::MAX.into())
            .prop_map(|days| Owned::Fixed(Value::Date(Date::from_days(i32::try_from(days).unwrap()))))
            .boxed(),
        Type::Timestamp => signed(i64::MIN, i64::MAX)
            .prop_map(|micros| Owned::Fixed(Value::Timestamp(Timestamp::from_micros(micros))))
            .boxed(),
        Type::String => {
            let letter = prop_oneof![
                Just('\0'),
                Just('\u{1}'),
                Just('a'),
                Just('b'),
                Just('\u{7f}'),
                Just('é'),
                Just('\u{10ffff}'),
            ];
            proptest::collection::vec(prop_oneof![6 => letter, 1 => any::<char>()], 0..12)
                .prop_map(|letters| Owned::String(letters.into_iter().collect()))
                .boxed()
        }
        Type::Binary => {
            let byte = prop_oneof![Just(0u8), Just(1), Just(b'a'), Just(0xfe), Just(0xff)];
            proptest::collection::vec(prop_oneof![6 => byte, 1 => any::<u8>()], 0..12)
                .prop_map(Owned::Binary)
                .boxed()
        }
    }
}

pub(crate) fn any_tuple(layout: &KeyLayout) -> BoxedStrategy<Tuple> {
    let columns: Vec<_> = layout.columns().iter().map(|column| any_value(column.ty)).collect();
    columns.boxed()
}

/// A layout and tuples of it, of which many share their first columns, or all of them.
pub(crate) fn layout_and_tuples(count: usize) -> impl Strategy<Value = (KeyLayout, Vec<Tuple>)> {
    any_layout().prop_flat_map(move |layout| {
        let columns = layout.columns().len();
        let tuples =
            proptest::collection::vec((any_tuple(&layout), 0..=columns, any::<prop::sample::Index>()), count);
        (Just(layout), tuples).prop_map(|(layout, drawn)| {
            let mut tuples: Vec<Tuple> = Vec::new();
            for (mut tuple, shared, with) in drawn {
                if !tuples.is_empty() {
                    let other = &tuples[with.index(tuples.len())];
                    tuple[..shared].clone_from_slice(&other[..shared]);
                }
                tuples.push(tuple);
            }
            (layout, tuples)
        })
    })
}
