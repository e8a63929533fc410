//! What holds for all keys: order, round trip, strictness, and the limits.

use proptest::prelude::*;

use crate::model::{
    any_layout, any_type, any_value, compare, encode, encode_values, layout_and_tuples, layout_of, values,
};
use crate::{
    Decimal, KEY_BYTES_MAX, KeyBuilder, KeyColumn, KeyDecoder, KeyError, KeyLayout, Type, Value,
    borrow_column, decode_column,
};

/// Decodes all columns and encodes them again.
fn recode(layout: &KeyLayout, key: &[u8]) -> Result<Vec<u8>, KeyError> {
    let mut scratch = Vec::new();
    let mut decoder = KeyDecoder::new(layout, key);
    let mut out = Vec::new();
    let mut builder = KeyBuilder::new(layout, &mut out);
    for _ in layout.columns() {
        let value = decoder.next_column(&mut scratch)?;
        builder.push(value).expect("a value that was decoded can be encoded");
    }
    decoder.finish()?;
    builder.finish().expect("all columns were pushed");
    Ok(out)
}

fn kv() -> KeyLayout {
    layout_of(&[Type::Binary.into()])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn order_of_bytes_is_order_of_tuples((layout, tuples) in layout_and_tuples(6)) {
        let keys: Vec<_> = tuples.iter().map(|tuple| encode(&layout, tuple).unwrap()).collect();
        for (a, key_a) in tuples.iter().zip(&keys) {
            for (b, key_b) in tuples.iter().zip(&keys) {
                prop_assert_eq!(key_a.cmp(key_b), compare(&layout, a, b), "{:?} {:?}", a, b);
            }
        }
    }

    #[test]
    fn every_column_comes_back((layout, tuples) in layout_and_tuples(2)) {
        for tuple in &tuples {
            let key = encode(&layout, tuple).unwrap();
            let (mut scratch, mut other) = (b"old".to_vec(), Vec::new());
            let mut decoder = KeyDecoder::new(&layout, &key);
            let mut skipper = KeyDecoder::new(&layout, &key);
            let mut end = 0;
            for (index, value) in values(tuple).into_iter().enumerate() {
                prop_assert_eq!(decoder.next_column(&mut scratch), Ok(value));
                prop_assert_eq!(decode_column(&layout, &key, index, &mut other), Ok(value));
                if let Some(borrowed) = borrow_column(&layout, &key, index).unwrap() {
                    prop_assert_eq!(borrowed, value);
                }
                let range = skipper.skip_column().unwrap();
                prop_assert_eq!(range.start, end);
                end = range.end;
            }
            prop_assert_eq!(end, key.len());
            prop_assert_eq!(decoder.finish(), Ok(()));
            prop_assert_eq!(skipper.finish(), Ok(()));
            prop_assert_eq!(recode(&layout, &key), Ok(key));
        }
    }

    #[test]
    fn any_bytes_decode_to_themselves_or_not_at_all(
        layout in any_layout(),
        bytes in proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0xfe), Just(0xff), any::<u8>()], 0..40),
    ) {
        if let Ok(again) = recode(&layout, &bytes) {
            prop_assert_eq!(&again, &bytes);
        }
        let mut scratch = Vec::new();
        for index in 0..=layout.columns().len() {
            let _ = decode_column(&layout, &bytes, index, &mut scratch);
            let _ = borrow_column(&layout, &bytes, index);
        }
        prop_assert!(scratch.capacity() <= 64);
    }

    #[test]
    fn a_damaged_key_decodes_to_itself_or_not_at_all(
        (layout, tuples) in layout_and_tuples(1),
        place in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        damage in 0..4,
    ) {
        let mut key = encode(&layout, &tuples[0]).unwrap();
        let at = place.index(key.len() + 1);
        match damage {
            0 => key.truncate(at),
            1 => key.insert(at, byte),
            2 if at < key.len() => drop(key.remove(at)),
            _ if at < key.len() => key[at] = byte,
            _ => key.push(byte),
        }
        if let Ok(again) = recode(&layout, &key) {
            prop_assert_eq!(&again, &key);
        }
    }

    #[test]
    fn a_column_encodes_what_fits_it_in_the_form_it_gives_back(ty in any_type(), of in any_type().prop_flat_map(any_value)) {
        let layout = layout_of(&[ty.into()]);
        let key = encode_values(&layout, &[of.value()]);
        match of.value().fit(ty) {
            Ok(fitted) => {
                let key = key.unwrap();
                let mut scratch = Vec::new();
                prop_assert_eq!(decode_column(&layout, &key, 0, &mut scratch), Ok(fitted));
                prop_assert_eq!(encode_values(&layout, &[fitted]), Ok(key));
            }
            Err(misfit) => prop_assert_eq!(key, Err(KeyError::misfit(0, misfit))),
        }
    }

    #[test]
    fn a_failed_key_leaves_the_buffer_as_it_was(
        (layout, tuples) in layout_and_tuples(1),
        columns in any::<prop::sample::Index>(),
    ) {
        let columns = columns.index(layout.columns().len());
        let mut out = b"before".to_vec();
        let mut builder = KeyBuilder::new(&layout, &mut out);
        for value in values(&tuples[0][..columns]) {
            builder.push(value).unwrap();
        }
        prop_assert_eq!(builder.push(Value::Null), Err(KeyError::Null { column: columns }));
        prop_assert_eq!(
            builder.finish(),
            Err(KeyError::MissingColumn { column: columns, columns: layout.columns().len() })
        );
        prop_assert_eq!(out, b"before".to_vec());
    }
}

/// Asserts that the tuples are given in the order of their keys, and that no two keys are equal.
fn assert_ascending(layout: &KeyLayout, tuples: &[Vec<Value<'_>>]) {
    for pair in tuples.windows(2) {
        let keys = [encode_values(layout, &pair[0]).unwrap(), encode_values(layout, &pair[1]).unwrap()];
        assert!(keys[0] < keys[1], "{pair:?} {keys:02x?}");
    }
}

#[test]
fn composite_keys_sort_column_by_column() {
    let layout = layout_of(&[Type::String.into(), Type::I64.into()]);
    let tuple = |text, number| vec![Value::String(text), Value::Int(number)];
    assert_ascending(
        &layout,
        &[
            tuple("", i64::MAX),
            tuple("\0", i64::MIN),
            tuple("\0\0", 0),
            tuple("\u{1}", 0),
            tuple("a", 2),
            tuple("aa", 1),
            tuple("b", 2),
            tuple("foo", i64::MAX),
            tuple("foo\0bar", i64::MIN),
            tuple("foo\0bar", 0),
            tuple("foo\u{1}", 0),
            tuple("foobar", 0),
        ],
    );
}

#[test]
fn byte_strings_sort_in_both_directions() {
    let mut texts: Vec<&[u8]> =
        vec![b"", &[0], &[0, 0], &[0, 1], &[0, 0xff], &[1], &[0xfe], &[0xff], &[0xff, 0], &[0xff, 0xff]];
    for follower in [None, Some(Type::Bool)] {
        let columns = |descending| {
            let mut columns = vec![KeyColumn { ty: Type::Binary, descending }];
            columns.extend(follower.map(KeyColumn::from));
            layout_of(&columns)
        };
        for descending in [false, true] {
            let tuples: Vec<_> = texts
                .iter()
                .map(|text| {
                    [Value::Binary(text), Value::Bool(text.len() % 2 == 0)]
                        [..=usize::from(follower.is_some())]
                        .to_vec()
                })
                .collect();
            assert_ascending(&columns(descending), &tuples);
            texts.reverse();
        }
    }
}

#[test]
fn signed_columns_dates_and_decimals_sort_over_zero() {
    let numbers = |ty, numbers: &[i128]| {
        let value = |number: i128| match ty {
            Type::Date => Value::Date(crate::Date::from_days(i32::try_from(number).unwrap())),
            Type::Timestamp => {
                Value::Timestamp(crate::Timestamp::from_micros(i64::try_from(number).unwrap()))
            }
            Type::Decimal { scale, .. } => Value::Decimal(Decimal { unscaled: number, scale }),
            _ => Value::Int(i64::try_from(number).unwrap()),
        };
        let mut tuples: Vec<_> = numbers.iter().map(|number| vec![value(*number)]).collect();
        assert_ascending(&layout_of(&[KeyColumn::ascending(ty)]), &tuples);
        tuples.reverse();
        assert_ascending(&layout_of(&[KeyColumn::descending(ty)]), &tuples);
    };
    for (ty, min, max) in [
        (Type::I8, i8::MIN.into(), i8::MAX.into()),
        (Type::I16, i16::MIN.into(), i16::MAX.into()),
        (Type::I32, i32::MIN.into(), i32::MAX.into()),
        (Type::I64, i64::MIN.into(), i64::MAX.into()),
        (Type::Date, i32::MIN.into(), i32::MAX.into()),
        (Type::Timestamp, i64::MIN.into(), i64::MAX.into()),
        (Type::Decimal { precision: 9, scale: 2 }, -999_999_999, 999_999_999),
        (Type::Decimal { precision: 18, scale: 0 }, 1 - 10i128.pow(18), 10i128.pow(18) - 1),
        (Type::Decimal { precision: 38, scale: 38 }, 1 - 10i128.pow(38), 10i128.pow(38) - 1),
    ] {
        numbers(ty, &[min, min + 1, -2, -1, 0, 1, 2, max - 1, max]);
    }
}

#[test]
fn floats_sort_by_total_order_and_keep_their_bits() {
    let bits = [
        0xffff_ffffu32, // -NaN, greatest payload
        0xffc0_0000,    // -NaN, quiet
        0xff80_0001,    // -NaN, signalling
        0xff80_0000,    // -infinity
        0xff7f_ffff,    // the least number
        0xbf80_0000,    // -1
        0x8080_0000,    // greatest negative normal
        0x807f_ffff,    // least negative subnormal
        0x8000_0001,    // greatest negative subnormal
        0x8000_0000,    // -0
        0x0000_0000,    // +0
        0x0000_0001,
        0x007f_ffff,
        0x0080_0000,
        0x3f80_0000,
        0x7f7f_ffff,
        0x7f80_0000, // +infinity
        0x7f80_0001,
        0x7fc0_0000,
        0x7fff_ffff, // +NaN, greatest payload
    ];
    let narrow: Vec<_> = bits.iter().map(|bits| vec![Value::F32(f32::from_bits(*bits))]).collect();
    for (ty, tuples) in [
        (Type::F32, narrow.clone()),
        // The same through an f64 column, which takes them exactly.
        (Type::F64, narrow.clone()),
        (Type::F64, narrow.iter().map(|tuple| vec![tuple[0].fit(Type::F64).unwrap()]).collect()),
    ] {
        let layout = layout_of(&[ty.into()]);
        assert_ascending(&layout, &tuples);
        let mut reversed = tuples.clone();
        reversed.reverse();
        assert_ascending(&layout_of(&[KeyColumn::descending(ty)]), &reversed);
        for tuple in &tuples {
            let key = encode_values(&layout, tuple).unwrap();
            let mut scratch = Vec::new();
            assert_eq!(decode_column(&layout, &key, 0, &mut scratch), Ok(tuple[0].fit(ty).unwrap()));
        }
    }
}

#[test]
fn the_empty_key_is_a_key() {
    let layout = kv();
    assert_eq!(encode_values(&layout, &[Value::Binary(b"")]), Ok(vec![]));
    let mut scratch = Vec::new();
    let mut decoder = KeyDecoder::new(&layout, b"");
    assert_eq!(decoder.next_column(&mut scratch), Ok(Value::Binary(b"")));
}

#[test]
fn a_key_at_the_limit_is_taken_and_one_above_is_not() {
    let text = vec![b'x'; KEY_BYTES_MAX + 1];
    let at_limit = Value::Binary(&text[..KEY_BYTES_MAX]);
    let key = encode_values(&kv(), &[at_limit]).unwrap();
    assert_eq!(recode(&kv(), &key), Ok(key));

    let mut scratch = Vec::new();
    let mut out = Vec::new();
    let layout = kv();
    let mut decoder = KeyDecoder::new(&layout, &text);
    assert_eq!(decoder.next_column(&mut scratch), Ok(Value::Binary(&text)));
    assert!(decoder.finish().is_err_and(|error| error.is_damage()));
    let mut builder = KeyBuilder::new(&layout, &mut out);
    assert_eq!(builder.push(Value::Binary(&text)), Err(KeyError::TooLong { bytes: KEY_BYTES_MAX + 1 }));
    builder.push(at_limit).unwrap();
    assert_eq!(builder.finish(), Ok(0..KEY_BYTES_MAX));
    assert_eq!(out.len(), KEY_BYTES_MAX);
}

#[test]
fn escapes_and_ends_count_towards_the_limit() {
    let layout = layout_of(&[KeyColumn::descending(Type::Binary), Type::U8.into()]);
    let nuls = vec![0; KEY_BYTES_MAX / 2];
    for (nuls_len, letters, fits) in [
        (32_766, 0, true),
        (32_765, 2, true),
        (32_766, 1, false),
        (32_767, 0, false),
        (0, 65_532, true),
        (0, 65_533, false),
    ] {
        let mut text = nuls[..nuls_len].to_vec();
        text.resize(nuls_len + letters, b'x');
        let key = encode_values(&layout, &[Value::Binary(&text), Value::Int(0)]);
        if fits {
            assert_eq!(key.unwrap().len(), 2 * nuls_len + letters + 3);
        } else {
            assert!(matches!(key, Err(KeyError::TooLong { bytes }) if bytes > KEY_BYTES_MAX));
        }
    }
}

#[test]
fn a_huge_text_is_refused_before_it_is_copied() {
    let huge = vec![0; 64 << 20];
    let layout = layout_of(&[Type::Binary.into(), Type::U8.into()]);
    let mut out = Vec::new();
    let mut builder = KeyBuilder::new(&layout, &mut out);
    assert_eq!(builder.push(Value::Binary(&huge)), Err(KeyError::TooLong { bytes: huge.len() }));
    drop(builder);
    assert!(out.capacity() < 1024);
}

#[test]
fn too_many_and_too_few_values_are_named() {
    let layout = layout_of(&[Type::U8.into(), Type::String.into()]);
    let (number, text) = (Value::Int(1), Value::String("a"));
    assert_eq!(encode_values(&layout, &[number]), Err(KeyError::MissingColumn { column: 1, columns: 2 }));
    assert_eq!(encode_values(&layout, &[number, text, text]), Err(KeyError::TooManyColumns { columns: 2 }));
    assert_eq!(
        encode_values(&layout, &[text]),
        Err(KeyError::WrongType { column: 0, expected: Type::U8, found: "string" })
    );
    assert_eq!(
        encode_values(&layout, &[number, number]),
        Err(KeyError::WrongType { column: 1, expected: Type::String, found: "an integer" })
    );
    assert_eq!(
        encode_values(&layout, &[Value::Int(256)]),
        Err(KeyError::OutOfRange { column: 0, expected: Type::U8 })
    );
}

#[test]
fn bytes_that_no_builder_writes_are_refused() {
    let decimal = |precision| Type::Decimal { precision, scale: 0 };
    let up = KeyColumn::ascending;
    let down = KeyColumn::descending;
    let cut = "the key ends within the column";
    let endless = "the key ends within a text";
    let escape = "an escape that stands for nothing";
    let bool = "a bool that is neither 0 nor 1";
    let precision = "a decimal beyond its precision";
    let utf8 = "a string that is not UTF-8";
    let malformed = |column, at, what| KeyError::Malformed { column, at, what };
    let foreign = |column, at, what| KeyError::NonCanonical { column, at, what };
    let cases: &[(&[KeyColumn], &[u8], KeyError)] = &[
        (&[up(Type::I32)], &[0, 0, 0], malformed(0, 3, cut)),
        (&[up(Type::U8), up(Type::U64)], &[1, 0, 0], malformed(1, 3, cut)),
        (&[up(Type::I32)], &[0, 0, 0, 0, 0, 9], KeyError::Trailing { at: 4, left: 2 }),
        (&[down(Type::Binary)], &[0xff, 0xff, 0xff], KeyError::Trailing { at: 2, left: 1 }),
        (&[up(Type::Bool)], &[2], foreign(0, 0, bool)),
        (&[up(Type::U8), down(Type::Bool)], &[7, 0xfd], foreign(1, 1, bool)),
        (&[up(Type::Binary), up(Type::U8)], &[b'a', 0], malformed(0, 2, endless)),
        (&[up(Type::Binary), up(Type::U8)], &[b'a', 0, 0], malformed(1, 3, cut)),
        (&[down(Type::Binary)], &[], malformed(0, 0, endless)),
        (&[up(Type::U8), up(Type::Binary), up(Type::U8)], &[1, b'a', 0, 2, 0, 0, 9], foreign(1, 2, escape)),
        (&[down(Type::Binary)], &[0xff, 0x00, 0xff, 0xff], foreign(0, 0, escape)),
        (&[up(Type::String)], &[b'a', 0xff], malformed(0, 0, utf8)),
        (&[up(Type::U8), up(Type::String), up(Type::U8)], &[1, 0xc3, 0, 0, 1], malformed(1, 1, utf8)),
        (&[down(Type::String)], &[!0xc3, 0xff, 0xff], malformed(0, 0, utf8)),
        (&[up(Type::String), up(Type::U8)], &[0xc3, 0, 1, 0, 0, 1], malformed(0, 0, utf8)),
        (&[up(decimal(9))], &(0x8000_0000u32 + 1_000_000_000).to_be_bytes(), foreign(0, 0, precision)),
        (&[up(decimal(9))], &[0, 0, 0, 0], foreign(0, 0, precision)),
        (&[down(decimal(2))], &(!(0x8000_0000u32 + 100)).to_be_bytes(), foreign(0, 0, precision)),
        (&[up(decimal(18))], &[0xff; 8], foreign(0, 0, precision)),
        (&[up(decimal(38))], &[0; 16], foreign(0, 0, precision)),
        (&[up(decimal(19))], &[0xff; 16], foreign(0, 0, precision)),
    ];
    for (columns, bytes, error) in cases {
        let layout = layout_of(columns);
        assert_eq!(recode(&layout, bytes), Err(*error), "{columns:?} {bytes:02x?}");
        assert!(error.is_damage());
    }
}

#[test]
fn a_decoder_past_the_last_column_says_so_and_stays() {
    let layout = layout_of(&[Type::U8.into()]);
    let mut scratch = Vec::new();
    let mut decoder = KeyDecoder::new(&layout, &[7]);
    decoder.skip_column().unwrap();
    let missing = KeyError::MissingColumn { column: 1, columns: 1 };
    assert_eq!(decoder.next_column(&mut scratch), Err(missing));
    assert_eq!(decoder.skip_column(), Err(missing));
    assert_eq!(decode_column(&layout, &[7], 9, &mut scratch), Err(missing));
    assert_eq!(decoder.finish(), Ok(()));
    assert_eq!(
        KeyDecoder::new(&layout, &[7]).finish(),
        Err(KeyError::MissingColumn { column: 0, columns: 1 })
    );
}
